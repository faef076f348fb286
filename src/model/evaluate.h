/* Values of a model that are known before it runs: constants, and what ops make of constants.
 *
 *     ipu__evaluation e = {.m = m};
 *     const void     *data;
 *     IPU_TRY(ipu__evaluate(&e, id, &data));      data NULL: it depends on more than constants
 *     ipu__evaluation_fini(&e);
 *
 * Ops are computed by their references, or by their views on a scratch graph, so that their meaning is
 * defined only once.
 */
#ifndef IPU_MODEL_EVALUATE_H
#define IPU_MODEL_EVALUATE_H

#include "model/model.h"

typedef struct ipu__evaluation {
    ipu_model *m;
    ipu_graph *scratch;             /* for views of constants; NULL until needed */
    IPU__ARRAY(const void *) known; /* results by id, with data in the model's arena */
    IPU__ARRAY(uint32_t) lost;      /* ids of `known` that cannot be computed */
    IPU__ARRAY(uint32_t) open;      /* ids being computed, each needed by the one before */
    double work, bytes;             /* in total */
    bool   gave_up;                 /* something would have taken too long or too much memory */
} ipu__evaluation;                  /* initialise to zero except m */

void ipu__evaluation_fini(ipu__evaluation *e);

/* *data receives the elements of value `id`, or NULL if it depends on inputs, states, random numbers,
 * branches or loops, or takes too long to compute. */
ipu_status ipu__evaluate(ipu__evaluation *e, uint32_t id, const void **data);

/* Whether value `id` has been computed. */
bool ipu__evaluation_has(const ipu__evaluation *e, uint32_t id);

/* Inputs of the model have become constants, so values that could not be computed may be computable now. */
void ipu__evaluation_retry(ipu__evaluation *e);
/* The model is being rewound to its first `n_values` values. */
void ipu__evaluation_rewind(ipu__evaluation *e, size_t n_values);

/* Computes one op whose inputs are at operand[0 .. n_in); operand[n_in ..) is written. ABORTED if the op
 * rejects the values, such as an index out of range. */
ipu_status ipu__evaluate_op(ipu__evaluation *e, const ipu__model_op *op, const ipu__kernel_call *call,
                            void *const *operand);

/* Allocates memory in the model's arena for what an op writes, at operand[n_in ..). */
ipu_status ipu__evaluate_alloc(ipu_model *m, const ipu__model_op *op, const ipu__kernel_call *call,
                               void **operand);

#endif
