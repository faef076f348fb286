/* Precision: a network of floats as one of halves, products that add up in half, rounding at random.
 *
 * Casts are ops of the model: gradients pass them, and so weights that stay float get gradients of float.
 */
#ifndef IPU_MODEL_PRECISION_PRECISION_H
#define IPU_MODEL_PRECISION_PRECISION_H

#include "model/model.h"

/* A network as it was built, before its gradients: ops run in half as the flags of their records
 * have it (IPU__OP_GAINS_IN_HALF, IPU__OP_SHORT_IN_HALF: op/op.h). What goes in, comes out,
 * is trained for or kept stays what it is, and so does what branches give and loops carry; with `weights`, parameters
 * become half and begin with what they began with, rounded. An op that half is no type for, or that has a constant
 * which half cannot hold, keeps its types. */
ipu_status ipu__model_to_half(ipu_model *m, bool weights);

/* What is rounded to half is rounded up or down at random, by numbers that the model's seed gives: ops with halves
 * become those on floats, with casts around them. Constants are rounded to the nearest, and ops without rounding stay
 * as they are. Before gradients, so that what is computed again is rounded as it was, and after them for the rest. */
ipu_status ipu__model_round_at_random(ipu_model *m);

/* Products and convolutions of half have the attribute by which they are priced with sums in half. */
ipu_status ipu__model_half_partials(ipu_model *m);

/* ---- for these passes ---- */

bool ipu__is_exact_in_half(const ipu_op_def *op); /* views are */

typedef IPU_ARRAY(uint32_t) ipu__order;

/* An op at the end of `order`, in block, place and recomputation that of `like`; `in` and attributes are copied, outputs are its own.
 * 0: out of memory, else the id of its first output. */
uint32_t ipu__precision_add_op(ipu_model *m, ipu__order *order, const ipu__model_op *like,
                               const ipu_op_def *def, const ipu_attribute *attributes, size_t n,
                               const uint32_t *in, const ipu_kernel_value *out, uint32_t n_out);
/* "cast" of a value. */
uint32_t ipu__precision_add_cast(ipu_model *m, ipu__order *order, const ipu__model_op *like, uint32_t id,
                                 ipu_type type);
/* The order of a block becomes `order`, which is emptied. */
void ipu__precision_set_order(ipu_model *m, uint32_t block, ipu__order *order);

#endif
