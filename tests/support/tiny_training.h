/* A training as small as can be with everything in it that a checkpoint must hold: dropout, running statistics, states
 * of optimizers, a schedule, a loader that shuffles, and its last samples that are dropped.
 * requires: ipu/ipu.h. */
#ifndef IPU_TESTS_TINY_TRAINING_H
#define IPU_TESTS_TINY_TRAINING_H

#include "ipu/ipu.h"

typedef struct tiny_options {
    ipu_executor_options how;
    ipu_nn_training      training;
    int                  n_workers;
} tiny_options;

typedef struct tiny_training {
    ipu_dataset  *dataset;
    ipu_loader   *loader;
    ipu_module   *module;
    ipu_executor *x;
    int64_t       step; /* runs so far */
} tiny_training;

/* What fails is told on stderr by all of these. */
bool tiny_begin(tiny_training *t, const tiny_options *options);
bool tiny_run(tiny_training *t, int64_t n);
void tiny_end(tiny_training *t);

/* Owned: ipu_checkpoint_free. */
bool tiny_get(tiny_training *t, ipu_checkpoint *out);
/* Go on from it. */
bool tiny_set(tiny_training *t, const ipu_checkpoint *c);

/* Whether all bits of both states are equal. */
bool tiny_is_equal(const ipu_npz *a, const ipu_npz *b);

#endif
