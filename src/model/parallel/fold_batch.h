/* Folding replicas into one larger batch: a model of one replica becomes one of all.
 *
 * Inputs have the rows of all replicas, replica 0 first; an output's rows, or elements if it is a scalar, are
 * those of replica 0, 1, ... Whether it is possible depends on the ops' records (op/replicas.h). Not to be
 * confused with constant folding (model/pass/constant_fold.c).
 */
#ifndef IPU_MODEL_PARALLEL_FOLD_BATCH_H
#define IPU_MODEL_PARALLEL_FOLD_BATCH_H

#include "model/model.h"

enum { IPU__FOLD_REASON = 400 };

/* `m`, before optimisation, for `n` replicas. States marked in `is_sum`, by id, are sums over replicas in the
 * result; other states and parameters are the same in all of them. `ids`, of as many: the id of each
 * parameter and state in the result. *out is NULL with IPU_OK if it is impossible, and `reason` says why;
 * else `reason` is "". Owned: ipu_model_destroy. Statuses: OUT_OF_MEMORY. */
ipu_status ipu__model_fold_batch(const ipu_model *m, int64_t n, const uint8_t *is_sum, ipu_model **out,
                                 uint32_t *ids, char reason[IPU__FOLD_REASON]);

#endif
