/* Precision: converting a network of floats to half, products summed in half, stochastic rounding.
 *
 * Casts are ops of the model, which gradients pass through, so weights that stay float get float gradients.
 */
#ifndef IPU_MODEL_PRECISION_PRECISION_H
#define IPU_MODEL_PRECISION_PRECISION_H

#include "model/model.h"

/* For a network as built, before its gradients: ops run in half as the flags of their records say
 * (IPU__OP_GAINS_IN_HALF, IPU__OP_SHORT_IN_HALF: op/op.h). Inputs, outputs, losses and kept values keep their
 * types, and so do results of branches and values carried by loops; with `weights`, parameters become half,
 * with their initial values rounded. An op that does not support half, or has a constant outside half's
 * range, keeps its types. */
ipu_status ipu__model_to_half(ipu_model *m, bool weights);

/* Rounds results in half up or down at random, by numbers derived from the model's seed: ops in half become
 * ops in float with casts around them. Constants are rounded to nearest, and ops that do not round stay as
 * they are. To be run before gradients are taken, so that recomputation rounds identically, and after them
 * for the rest. */
ipu_status ipu__model_round_at_random(ipu_model *m);

/* Gives products and convolutions of half the attribute by which they are priced with sums in half. */
ipu_status ipu__model_half_partials(ipu_model *m);

/* ---- shared by these passes ---- */

bool ipu__is_exact_in_half(const ipu__op_def *op); /* views are */

typedef IPU__ARRAY(uint32_t) ipu__order;

/* Adds an op at the end of `order`, with the block, place and recomputation of `like`; `in` and attributes
 * are copied, outputs are new. Returns the id of its first output, or 0 if out of memory. */
uint32_t ipu__precision_add_op(ipu_model *m, ipu__order *order, const ipu__model_op *like,
                               const ipu__op_def *def, const ipu_attribute *attributes, size_t n,
                               const uint32_t *in, const ipu__kernel_value *out, uint32_t n_out);
/* Adds a "cast" of a value. */
uint32_t ipu__precision_add_cast(ipu_model *m, ipu__order *order, const ipu__model_op *like, uint32_t id,
                                 ipu_type type);
/* Makes `order` the order of a block, and empties it. */
void ipu__precision_set_order(ipu_model *m, uint32_t block, ipu__order *order);

#endif
