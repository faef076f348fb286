/* The settings of training: the options of `ipu train`, checked, and as JSON for checkpoints. */
#ifndef TOOLS_TRAIN_SETTINGS_H
#define TOOLS_TRAIN_SETTINGS_H

#include <jansson.h>

#include "command.h"
#include "ipu/trainer.h"
#include "train/ipus.h"

typedef enum train_schedule { TRAIN_CONSTANT, TRAIN_COSINE, TRAIN_STEP } train_schedule;

typedef struct train_settings {
    const char           *model, *loss, *data, *target;
    bool                  from_file; /* `model` is an ONNX file, not a name */
    ipu_nn_optimizer_kind optimizer;
    train_schedule        schedule;
    int64_t               epochs, batch_size, device_iterations, gradient_accumulation, seed;
    int64_t               patience; /* 0: all epochs */
    train_ipus            ipus;
    int64_t               threads; /* -1 if not given */
    ipu_precision         precision;
    bool                  stochastic_rounding, half_partials;
    double                loss_scale;
    int64_t               loss_scale_period; /* 0 if the scale is fixed */
    double                rate, momentum, weight_decay;
    bool                  raw;
    double                mean, std;
    const char           *checkpoint_dir, *save, *profile, *plot, *log;
    int64_t               log_every;        /* 0 if not given */
    int64_t               checkpoint_every; /* in runs; 0: each epoch */
    bool                  resume, restart, keep, json, log_weights;
} train_settings;

/* For one of `n_processes` that train together. Reports errors and options that do not go together. */
tool_exit train_settings_read(train_settings *s, const tool_arguments *args, int64_t n_processes);

/* Of the learning rate, over all runs of the training. */
ipu_schedule train_settings_schedule(const train_settings *s);

/* The settings that affect the result, as JSON. `file` is a digest of the model's file. Owned: free. NULL if
 * out of memory. */
char *train_settings_text(const train_settings *s, const char *file);

#endif
