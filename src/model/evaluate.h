/* Values of a model that are known before it runs: constants, and what ops make of constants.
 *
 *     ipu__evaluation e = {.m = m};
 *     const void     *data;
 *     IPU_TRY(ipu__evaluate(&e, id, &data));      data NULL: it depends on more than constants
 *     ipu__evaluation_fini(&e);
 *
 * An op is computed by its reference, or by its view on a scratch graph: its meaning is written once.
 */
#ifndef IPU_MODEL_EVALUATE_H
#define IPU_MODEL_EVALUATE_H

#include "model/model.h"

typedef struct ipu__evaluation {
    ipu_model *m;
    ipu_graph *scratch;            /* for views of constants; NULL until there is one */
    IPU_ARRAY(const void *) known; /* by id, what was computed; data is in the model's arena */
    IPU_ARRAY(uint32_t) lost;      /* ids of `known` that cannot be computed */
    IPU_ARRAY(uint32_t) open;      /* ids that are being computed, each for the one before */
    double work, bytes;            /* of all of it */
    bool   gave_up;                /* something would have taken too long or too much memory */
} ipu__evaluation;                 /* all zero but m: nothing known */

void ipu__evaluation_fini(ipu__evaluation *e);

/* *data receives the elements of value `id`, NULL if it depends on inputs, states, random numbers, branches or
 * loops, or takes too long to compute. */
ipu_status ipu__evaluate(ipu__evaluation *e, uint32_t id, const void **data);

/* Whether value `id` has been computed. */
bool ipu__evaluation_has(const ipu__evaluation *e, uint32_t id);

/* Inputs of the model have become constants: what could not be computed may be computed now. */
void ipu__evaluation_retry(ipu__evaluation *e);
/* The model is being taken back to its first `n_values` values. */
void ipu__evaluation_rewind(ipu__evaluation *e, size_t n_values);

/* Computes one op whose inputs are at operand[0 .. n_in); operand[n_in ..) is written. ABORTED: values that the
 * op does not take, such as an index out of range. */
ipu_status ipu__evaluate_op(ipu__evaluation *e, const ipu__model_op *op, const ipu_kernel_call *call,
                            void *const *operand);

/* Memory in the model's arena for what an op writes, at operand[n_in ..). */
ipu_status ipu__evaluate_alloc(ipu_model *m, const ipu__model_op *op, const ipu_kernel_call *call,
                               void **operand);

#endif
