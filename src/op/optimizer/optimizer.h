/* Optimizers in pieces: shared by the rules, their loops and their records.
 *
 * All have the same order of operands: parameter, gradient, rate, step, up to three states; then the new
 * parameter and the new states. Operands that a rule does not use are missing from its table.
 */
#ifndef IPU_OP_OPTIMIZER_OPTIMIZER_H
#define IPU_OP_OPTIMIZER_OPTIMIZER_H

#include "base/simd.h"
#include "ipu/op/optimizer.h"
#include "op/op.h"

enum { IPU__OPTIMIZER_MAX_STATES = 3 };

/* Hyperparameters as a step needs them: attributes, and values derived from rate and step. */
typedef struct ipu__optimizer {
    double rate, step;
    double momentum, dampening, weight_decay, beta1, beta2, epsilon, alpha, rho, rate_decay;
    double bias1, bias2; /* 1 - beta^step; 1 without correction */
    bool   uncorrected, tensorflow;
    bool   decoupled, l2; /* the op's less usual kind of decay; l2: for lamb */
    bool   nesterov, first, has[IPU__OPTIMIZER_MAX_STATES];
} ipu__optimizer;

/* Elements of one step in float. New values may share the memory of the old. Missing states are not
 * touched. */
typedef struct ipu__optimizer_block {
    int64_t      n;
    const float *p, *g, *s[IPU__OPTIMIZER_MAX_STATES];
    float       *new_p, *new_s[IPU__OPTIMIZER_MAX_STATES];
} ipu__optimizer_block;

typedef void (*ipu__optimizer_fn)(const ipu__optimizer *o, const ipu__optimizer_block *x);

/* ---- optimizer_simd.c ---- */

typedef struct ipu__optimizer_loops {
    ipu__optimizer_fn sgd, adam, adamw, adamax, rmsprop, adagrad, adadelta, lamb;
} ipu__optimizer_loops;

IPU__SIMD_DECLARE(extern const ipu__optimizer_loops, ipu__optimizer_loops)

/* ---- optimizer.c ---- */

ipu_status ipu__optimizer_infer(const ipu__kernel_call *call, ipu__kernel_value *out);

/* Attributes of the call. */
ipu__optimizer ipu__optimizer_get(const ipu__kernel_call *call);

/* sgd for one element: *p and s[0] are old values and become the new ones. */
void ipu__sgd_one(const ipu__optimizer *o, double *p, double g, double *s);

/* Attributes of sgd, for records. */
#define IPU__SGD_FLOAT(n, text)                                     \
    {                                                               \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .meaning = (text) \
    }
#define IPU__DECOUPLED                                                                    \
    {                                                                                     \
        .name = "decoupled", .kind = IPU_ATTRIBUTE_INT,                                   \
        .meaning = "1: weight_decay times rate and parameter is taken from the parameter" \
    }
#define IPU__SGD_ATTRIBUTES                                                                             \
    IPU__SGD_FLOAT("momentum", "what the momentum keeps of itself"),                                    \
        IPU__SGD_FLOAT("dampening", "what of the gradient does not enter the momentum, but in step 1"), \
        IPU__SGD_FLOAT("weight_decay", "times the parameter, added to the gradient"),                   \
        {.name = "nesterov", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: look ahead along the momentum"}, \
        IPU__DECOUPLED

/* ---- step.c ---- */

/* ipu_lamb_step if each replica has a part of the parameter: norms are over all parts. */
ipu_optimized ipu__lamb_step_of_part(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                     ipu_value step, ipu_value mean, ipu_value square,
                                     ipu_adam_options options);

/* ---- lamb.c ---- */

void ipu__lamb_direction_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out);

#endif
