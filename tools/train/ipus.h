/* How a training is spread over IPUs: its options, checked, and what became of them. */
#ifndef TOOLS_TRAIN_IPUS_H
#define TOOLS_TRAIN_IPUS_H

#include <jansson.h>

#include "command.h"
#include "ipu/executor.h"

enum { TRAIN_STAGES_MOST = 64 };

typedef struct train_ipus {
    int64_t replicas, stages; /* replicas of all processes, stages of each replica: IPUs are their product */
    int64_t n_processes;
    ipu_pipeline_schedule schedule;
    ipu_reduction         reduction;
    bool                  recompute, shard, optimizer_off_chip, activations_off_chip, no_fold;
} train_ipus;

/* Of one of `n_processes`. Reports what is wrong or does not go together. `accumulation`: batches to one step. */
tool_exit train_ipus_read(train_ipus *t, const tool_arguments *args, int64_t n_processes,
                          int64_t accumulation);

/* Puts them into the options of an executor, which has this process's replicas. */
void train_ipus_apply(const train_ipus *t, ipu_executor_options *out);

/* Of those that decide the result, what is not as usual, added to `out`. False: out of memory. */
bool train_ipus_settings(const train_ipus *t, json_t *out);

/* Which IPUs a compiled executor has: "4 IPUs, 0 to 3 of partition default: 2 replicas of 2 stages"; "" for one. */
void train_ipus_text(const train_ipus *t, ipu_executor *x, char *out, size_t size);
/* A list with an object for each IPU. `cycles`: in which each IPU of a
 * replica computes in one step, modelled; NULL: not known. NULL: out of
 * memory. */
json_t *train_ipus_json(const train_ipus *t, ipu_executor *x, const double *cycles);

/* A line for each on standard output: what it did, measured and modelled. Nothing for one. */
void train_ipus_print(const train_ipus *t, ipu_executor *x, const double *cycles);

#endif
