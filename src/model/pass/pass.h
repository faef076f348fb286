/* Shared by the passes: renaming values, and creating values and attributes.
 *
 * A pass walks the ops in the order they run, looks inputs up in the table as it goes, and applies the table
 * to the rest at the end: one walk, however many values are replaced.
 */
#ifndef IPU_MODEL_PASS_PASS_H
#define IPU_MODEL_PASS_PASS_H

#include "model/model.h"

typedef struct ipu__renames {
    IPU__ARRAY(uint32_t) to; /* by id; a value that maps to itself is not renamed */
    bool any;
} ipu__renames; /* initialise to zero */

/* Returns false if out of memory. `to` may itself be renamed. */
bool     ipu__rename(ipu__renames *r, uint32_t from, uint32_t to);
uint32_t ipu__renamed(ipu__renames *r, uint32_t id);
/* The inputs of one op. */
void ipu__rename_inputs(ipu__renames *r, ipu__model_op *op);
/* Applies it to everything that refers to values: ops, yields, outputs, updates. Names are passed on. */
void ipu__renames_apply(ipu__renames *r, ipu_model *m);
void ipu__renames_fini(ipu__renames *r);

/* A value in no particular block. 0 if out of memory. */
uint32_t ipu__pass_add_value(ipu_model *m, ipu__builder_value shown, ipu__model_value value);
/* A new value like `id`, to replace it. 0 if out of memory. */
uint32_t ipu__pass_copy_value(ipu_model *m, uint32_t id);
/* A constant; `data` must be in the arena. 0 if out of memory. */
uint32_t ipu__pass_add_constant(ipu_model *m, ipu__kernel_value value, const void *data, uint32_t location);
/* Sets attribute `a` of the op, replacing one of that name. Returns false if out of memory. */
bool ipu__pass_set_attribute(ipu_model *m, ipu__model_op *op, ipu_attribute a);

/* The op that defines `id`, if one of kind OP does; else NULL. */
static inline ipu__model_op *ipu__pass_definer(ipu_model *m, uint32_t id)
{
    const ipu__model_value *v = &m->values.at[id];
    if (id == 0 || v->kind != IPU__VALUE_OP) return NULL;
    ipu__model_op *op = &m->ops.at[v->of];
    return op->kind == IPU__MODEL_OP ? op : NULL;
}

#endif
