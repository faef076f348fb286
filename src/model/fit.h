/* Whether what a model keeps from run to run could be on the chip at all. */
#ifndef IPU_MODEL_FIT_H
#define IPU_MODEL_FIT_H

#include "ipu/target.h"
#include "model/model.h"

/* Parameters, states and constants. */
int64_t ipu__model_kept_bytes(const ipu_model *m);

/* A warning in the log, once in a process, if `bytes` are more than all tiles of `target` have. Such a program runs here all
 * the same. */
void ipu__warn_if_too_large(int64_t bytes, const ipu_target *target);

#endif
