/* Shared by the parts of fusion: fuse.c finds chains of elementwise ops, epilogue.c those that belong to a
 * matmul or convolution, text.c writes either as text (op/elementwise/chain.h); the others fuse specific
 * sequences of ops.
 */
#ifndef IPU_MODEL_FUSE_FUSE_H
#define IPU_MODEL_FUSE_FUSE_H

#include "engine/engine.h"
#include "model/pass/pass.h"
#include "op/elementwise/chain.h"

/* A chain being written. */
typedef struct ipu__chain_text {
    ipu__text out;
    uint32_t  in[IPU__CHAIN_MAX_IN], result[IPU__CHAIN_MAX_STEPS]; /* values */
    int       n_in, n_results;
} ipu__chain_text; /* all zero: empty */

/* The operand for that value, added if new. Returns false if there is no room. */
bool ipu__chain_operand(ipu__chain_text *c, uint32_t id);
/* Adds an instruction, whose inputs are operands or results so far. Returns false if there is no room. */
bool ipu__chain_step(ipu__chain_text *c, const ipu__model_op *op);
/* Sets the chain's results, in this order. */
void ipu__chain_results(ipu__chain_text *c, const uint32_t *ids, int n);
void ipu__chain_text_fini(ipu__chain_text *c);

/* Whether `op` is a live op of that name; NULL is not. */
bool ipu__is_op(const ipu__model_op *op, const char *name);
/* Whether a value is a constant with the single element 0. */
bool ipu__is_zero(const ipu_model *m, uint32_t id);
/* Whether two ops may become one: same block, stage and recomputation. */
bool ipu__is_together(const ipu_model *m, const ipu__model_op *a, const ipu__model_op *b);

/* Whether the op may be an instruction of a chain. */
bool ipu__is_chainable(const ipu_model *m, const ipu__model_op *op);

/* Applies masks to max pooling's gradient before it is scattered. */
ipu_status ipu__fuse_masks(ipu_model *m, bool *changed);
/* Fuses convolution, relu and max_pool into one op, and likewise what is left of their gradients. */
ipu_status ipu__fuse_conv_pools(ipu_model *m, bool *changed);
/* Fuses the gradients of a linear layer with the sgd step on its weights. */
ipu_status ipu__fuse_updates(ipu_model *m, bool *changed);
/* Fuses masks of the gradients of group norm and linear layers into the ops that produce them. */
ipu_status ipu__fuse_norms(ipu_model *m, bool *changed);
/* Makes elementwise ops that are the only user of a matmul or convolution its epilogue. */
ipu_status ipu__fuse_epilogues(ipu_model *m, bool *changed);

#endif
