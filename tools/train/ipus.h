/* How training is spread over IPUs: its options, checked, and the resulting IPUs. */
#ifndef TOOLS_TRAIN_IPUS_H
#define TOOLS_TRAIN_IPUS_H

#include <jansson.h>

#include "command.h"
#include "ipu/executor.h"

enum { TRAIN_STAGES_MOST = 64 };

typedef struct train_ipus {
    int64_t               replicas, stages; /* replicas in all, stages of each: IPUs are their product */
    int64_t               n_processes;
    ipu_pipeline_schedule schedule;
    ipu_reduction         reduction;
    bool                  recompute, shard, optimizer_off_chip, activations_off_chip, no_fold;
} train_ipus;

/* For one of `n_processes`. Reports errors and options that do not go together. `accumulation` is batches per
 * step. */
tool_exit train_ipus_read(train_ipus *t, const tool_arguments *args, int64_t n_processes,
                          int64_t accumulation);

/* Sets the options of an executor, which has this process's replicas. */
void train_ipus_apply(const train_ipus *t, ipu_executor_options *out);

/* Adds those that affect the result and are not at their defaults to `out`. Returns false if out of
 * memory. */
bool train_ipus_settings(const train_ipus *t, json_t *out);

/* The IPUs of a compiled executor: "4 IPUs, 0 to 3 of partition default: 2 replicas of 2 stages"; "" for
 * one. */
void train_ipus_text(const train_ipus *t, ipu_executor *x, char *out, size_t size);
/* A list with an object per IPU. `cycles` are the modelled compute cycles of each IPU of a replica in one
 * step, or NULL if unknown. Returns NULL if out of memory. */
json_t *train_ipus_json(const train_ipus *t, ipu_executor *x, const double *cycles);

/* Prints a line per IPU: what it did, measured and modelled. Nothing for one. */
void train_ipus_print(const train_ipus *t, ipu_executor *x, const double *cycles);

#endif
