/* Rewinding a model while it is built, and turning inputs into constants: for importers, which find out late
 * what a part should have been built from.
 *
 *     ipu__model_mark mark = ipu__model_take_mark(m);
 *     ...                                              values, ops, branches and loops, some of them still open
 *     ipu__model_rewind(m, &mark);                     as if they had never been
 */
#ifndef IPU_MODEL_REWIND_H
#define IPU_MODEL_REWIND_H

#include "ipu/data.h"
#include "model/model.h"

typedef struct ipu__model_mark {
    uint32_t   n_values, n_ops, n_blocks, block;
    size_t     n_outputs, n_aliases, n_losses, n_customs, n_shards, n_stages, n_scope;
    uint32_t   seed, rounding_seed, n_keys, next_key, recompute;
    ipu__stage stage;
} ipu__model_mark;

ipu__model_mark ipu__model_take_mark(const ipu_model *m);

/* Also clears any error since then. The block that was open must not have ended, and stays open. Memory is
 * released with the model. */
void ipu__model_rewind(ipu_model *m, const ipu__model_mark *mark);

/* Input `id` becomes a constant of these values, which are copied, where it stands; its name is free again. It stays in the list of
 * inputs until they are dropped from there. With another shape than it had, what was made of it is to be made again. */
ipu_status ipu__model_fix_input(ipu_model *m, uint32_t id, const ipu_array *a);
void       ipu__model_drop_fixed_inputs(ipu_model *m);

#endif
