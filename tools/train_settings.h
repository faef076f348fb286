/* What a training is asked for: the options of `ipu train`, checked, and as JSON for checkpoints. */
#ifndef TOOLS_TRAIN_SETTINGS_H
#define TOOLS_TRAIN_SETTINGS_H

#include <jansson.h>

#include "command.h"
#include "ipu/executor.h"
#include "train_ipus.h"

typedef enum train_schedule { TRAIN_CONSTANT, TRAIN_COSINE, TRAIN_STEP } train_schedule;

typedef struct train_settings {
    const char           *model, *loss, *data, *target;
    bool                  from_file; /* `model` is an ONNX file, not a name */
    ipu_nn_optimizer_kind optimizer;
    train_schedule        schedule;
    int64_t               epochs, batch_size, device_iterations, gradient_accumulation, seed;
    train_ipus            ipus;
    int64_t               threads; /* -1: not said */
    ipu_precision         precision;
    bool                  stochastic_rounding, half_partials;
    double                loss_scale;
    int64_t               loss_scale_period; /* 0: the scale stays */
    double                rate, momentum, weight_decay;
    bool                  raw;
    double                mean, std;
    const char           *checkpoint_dir, *save, *profile, *plot;
    int64_t               checkpoint_every; /* runs; 0: each epoch */
    bool                  resume, restart, keep, json;
} train_settings;

/* Of one of `n_processes` that train together. Reports what is wrong or does not go together. */
tool_exit train_settings_read(train_settings *s, const tool_arguments *args, int64_t n_processes);

/* The learning rate of run `run` of `n_runs`. It depends on nothing else, so that a training that goes on from a
 * checkpoint has the same. */
double train_settings_rate(const train_settings *s, int64_t run, int64_t n_runs);

/* What decides the result of a training. `data`, `file`: digests of the data and of the model's file. NULL: out of
 * memory. */
json_t *train_settings_json(const train_settings *s, const char *data, const char *file);
/* Whether a training with `now` goes on from one with `then`; reports what differs. */
tool_exit train_settings_compare(const json_t *then, const json_t *now);

#endif
