/* What the parts of fusion share: fuse.c finds chains of elementwise ops, epilogue.c those that belong to a
 * matmul or convolution, text.c writes either as text (op/elementwise/chain.h); the others make one op of several that are
 * known by name.
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

/* The operand of that value, added if it is new. False: there is no room. */
bool ipu__chain_operand(ipu__chain_text *c, uint32_t id);
/* One more instruction; its inputs are results or operands so far. False: there is no room. */
bool ipu__chain_step(ipu__chain_text *c, const ipu__model_op *op);
/* What is given back, in this order. */
void ipu__chain_results(ipu__chain_text *c, const uint32_t *ids, int n);
void ipu__chain_text_fini(ipu__chain_text *c);

/* Whether it is there, and the op of that name. NULL: no. */
bool ipu__is_op(const ipu__model_op *op, const char *name);
/* Whether a value is one constant 0. */
bool ipu__is_zero(const ipu_model *m, uint32_t id);
/* Whether two ops may become one: of a block, a stage and a computation. */
bool ipu__is_together(const ipu_model *m, const ipu__model_op *a, const ipu__model_op *b);

/* Whether the op may be an instruction. */
bool ipu__is_chainable(const ipu_model *m, const ipu__model_op *op);

/* Masks of what max pooling gives back are taken before it is scattered. */
ipu_status ipu__fuse_masks(ipu_model *m, bool *changed);
/* Convolution, relu and max_pool become one op, and so does what their gradients leave of it. */
ipu_status ipu__fuse_conv_pools(ipu_model *m, bool *changed);
/* Gradients of a linear layer and the step of sgd on its weights become one op. */
ipu_status ipu__fuse_updates(ipu_model *m, bool *changed);
/* Masks of what the gradients of group norm and of linear layers give become part of them. */
ipu_status ipu__fuse_norms(ipu_model *m, bool *changed);
/* Elementwise ops that are the only user of a matmul or convolution become its epilogue. */
ipu_status ipu__fuse_epilogues(ipu_model *m, bool *changed);

#endif
