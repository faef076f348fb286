/* Whether what a model keeps between runs can fit on the chip at all. */
#ifndef IPU_MODEL_FIT_H
#define IPU_MODEL_FIT_H

#include "ipu/target.h"
#include "model/model.h"

/* Bytes of parameters, states and constants. */
int64_t ipu__model_kept_bytes(const ipu_model *m);

/* Logs a warning, once per process, if `bytes` exceed the memory of all tiles of `target`. Such a program
 * still runs here. */
void ipu__warn_if_too_large(int64_t bytes, const ipu_target *target);

#endif
