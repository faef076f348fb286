/* What a training works with: data, network, and the library's trainer. */
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
    FILE                *silence; /* where progress goes that nobody sees; NULL: it is seen */
    ipu_dataset         *train, *test;
    ipu_options         *engine;
    ipu_executor_options options; /* of training */
    ipu_nn_training      how;
    ipu_module          *module;
    ipu_trainer         *trainer;
    char                *text; /* what decides the result; NULL: nobody asks */
} train_session;

/* `events`: of the trainer. To be closed also when it fails. */
tool_exit train_session_open(train_session *s, const tool_arguments *args, ipu_trainer_events events);
/* `code`: what it came to. */
void train_session_close(train_session *s, tool_exit code);

ipu_trainer_results train_session_results(const train_session *s);

/* A module of the model that is trained, untrained. */
ipu_status train_session_module(const train_session *s, ipu_module **out);

/* The trained network as an ONNX file, with what its pixels are. */
tool_exit train_session_write_onnx(train_session *s, const char *path);

#endif
