/* What training works with: data, network, and the library's trainer. */
#ifndef TOOLS_TRAIN_SESSION_H
#define TOOLS_TRAIN_SESSION_H

#include "ipu/trainer.h"
#include "train/progress.h"
#include "train/group.h"
#include "train/settings.h"

typedef struct train_session {
    train_group          group;
    train_settings       settings;
    progress             progress;
    FILE                *silence; /* where unseen progress goes; NULL if it is shown */
    ipu_dataset         *train, *test;
    ipu_options         *engine;
    ipu_executor_options options; /* for training */
    ipu_nn_training      how;
    ipu_module          *module;
    ipu_trainer         *trainer;
    char                *text; /* what decides the result; NULL: nobody asks */
} train_session;

/* `events` are for the trainer. To be closed even on failure. */
tool_exit train_session_open(train_session *s, const tool_arguments *args, ipu_trainer_events events);
/* `code` is the outcome. */
void train_session_close(train_session *s, tool_exit code);

ipu_trainer_results train_session_results(const train_session *s);

/* A new, untrained module of the model being trained. */
ipu_status train_session_module(const train_session *s, ipu_module **out);

/* Writes the trained network as an ONNX file, including how its pixels are scaled. */
tool_exit train_session_write_onnx(train_session *s, const char *path);

#endif
