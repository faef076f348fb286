/* Folding replicas into one larger batch: a model of one replica becomes one of all.
 *
 * Inputs get as many rows as all replicas have together, replica 0 first; an output's rows, or elements where
 * it is a scalar, are those of replica 0, 1, ... What the records of ops say (op/replicas.h) decides whether
 * that can be. It is not constant folding, which is in fold.c. /
 */
#ifndef IPU_MODEL_PARALLEL_FOLD_BATCH_H
#define IPU_MODEL_PARALLEL_FOLD_BATCH_H

#include "model/model.h"

enum { IPU__FOLD_REASON = 400 };

/* `m`, before it is optimised, for `n` replicas. States that are marked in `is_sum`, by id, are sums over replicas in
 * the result; other states and parameters are the same in all of them. `ids`, of as many: what each parameter and state
 * is in the result. *out NULL, with IPU_OK: `reason` says why it cannot be; else it is "". Owned: ipu_model_destroy.
 * Statuses: OUT_OF_MEMORY. */
ipu_status ipu__model_fold_batch(const ipu_model *m, int64_t n, const uint8_t *is_sum, ipu_model **out,
                                 uint32_t *ids, char reason[IPU__FOLD_REASON]);

#endif
