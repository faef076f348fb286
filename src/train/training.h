/* How a network is trained, compared. Public half: ipu/nn.h. */
#ifndef IPU_TRAIN_TRAINING_H
#define IPU_TRAIN_TRAINING_H

#include <stdbool.h>

#include "ipu/nn.h"

/* Whether all but rates is equal, so that what was compiled for one goes on with the other. */
bool ipu__training_equal(const ipu_nn_training *a, const ipu_nn_training *b);

#endif
