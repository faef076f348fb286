/* Optimizers: one step for one parameter, as in torch.optim (version 1.13).
 *
 *     ipu_value         rate = ipu_model_input(m, IPU_FLOAT, IPU_SCALAR, "rate");
 *     ipu_value         v    = ipu_model_state(m, IPU_FLOAT, shape, NULL, "w/momentum");
 *     ipu_sgd_options   how  = {.momentum = 0.9, .weight_decay = 1e-4};
 *     ipu_optimized     next = ipu_sgd_step(b, w, dw, rate, IPU_NO_VALUE, v, how);
 *     ipu_model_update(m, w, next.parameter);
 *     ipu_model_update(m, v, next.state[0]);
 *
 * A step takes the parameter, its gradient (of the parameter's type or float), the learning rate (a float
 * scalar, so that schedules need no new program) and the state, and returns their new values, reusing the
 * memory of the old ones if possible. State is float (double for double parameters) and starts at zero.
 * `step` is the step number, from 1, as an int32, int64 or floating scalar. There are no gradients.
 */
#ifndef IPU_OP_OPTIMIZER_H
#define IPU_OP_OPTIMIZER_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_optimized {
    ipu_value parameter,
        state[3]; /* state is in the order of the function's parameters; null where not given */
} ipu_optimized;

/* How weight decay pulls parameters towards zero. L2: weight_decay * parameter is added to the gradient, so that means
 * and momenta see it. Decoupled: the parameter is first multiplied by 1 - rate * weight_decay, and the gradient stays
 * as it is. USUAL is torch's choice: L2 for SGD, Adam, Adamax, RMSprop, Adagrad and Adadelta, decoupled for AdamW.
 * LAMB's usual decay adds weight_decay * parameter to the direction, bypassing means and squares; this is the same as
 * decoupled. All optimizers accept both. */
typedef enum ipu_decay { IPU_DECAY_USUAL, IPU_DECAY_L2, IPU_DECAY_DECOUPLED } ipu_decay;

/* The momentum is float, so there is no velocity scaling as in PopTorch, which keeps a half momentum in
 * range. */
typedef struct ipu_sgd_options {
    double    momentum, dampening, weight_decay;
    bool      nesterov;
    ipu_decay decay;
} ipu_sgd_options;

/* `momentum` may be null if options.momentum is 0. `step` may be null; torch's first step, in which the
 * gradient enters the momentum undamped, is then like the others (no difference if dampening is 0). */
ipu_optimized ipu_sgd_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                           ipu_value step, ipu_value momentum, ipu_sgd_options options);

/* 0 means torch's default (0.9, 0.999, 1e-8; for LAMB epsilon 1e-6), a negative value exactly 0. Weight decay
 * is taken as it is. */
typedef struct ipu_adam_options {
    double    beta1, beta2, epsilon, weight_decay;
    double    max_weight_norm;    /* LAMB: a parameter's norm counts as at most this; 0 for no limit */
    bool      no_bias_correction; /* use means that started at zero without correcting them; not for Adamax */
    ipu_decay decay;
} ipu_adam_options;

/* With `max_square` it is AMSGrad, which divides by the largest `square` so far; null for plain Adam. */
ipu_optimized ipu_adam_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                            ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                            ipu_adam_options options);
/* Adam, except that its usual decay is decoupled. */
ipu_optimized ipu_adamw_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                             ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                             ipu_adam_options options);
ipu_optimized ipu_adamax_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                              ipu_value step, ipu_value mean, ipu_value largest, ipu_adam_options options);

typedef struct ipu_rmsprop_options {
    double alpha, epsilon; /* 0 means 0.99, 1e-8; negative means exactly 0 */
    double weight_decay, momentum;
    /* TensorFlow's variant: epsilon is under the root, and the rate enters the momentum. `square` starts at
     * one. */
    bool      tensorflow;
    ipu_decay decay;
} ipu_rmsprop_options;

/* `mean` is null if not centered. `momentum` may be null if options.momentum is 0. */
ipu_optimized ipu_rmsprop_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                               ipu_value square, ipu_value mean, ipu_value momentum,
                               ipu_rmsprop_options options);

typedef struct ipu_adagrad_options {
    double    rate_decay, weight_decay;
    double    epsilon; /* 0 means 1e-10 */
    ipu_decay decay;
} ipu_adagrad_options;

/* `sum`, of squares, starts at torch's initial_accumulator_value. */
ipu_optimized ipu_adagrad_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                               ipu_value step, ipu_value sum, ipu_adagrad_options options);

typedef struct ipu_adadelta_options {
    double    rho, epsilon; /* 0 means 0.9, 1e-6; negative means exactly 0 */
    double    weight_decay;
    ipu_decay decay;
} ipu_adadelta_options;

/* Adadelta (Zeiler 2012): a change is the gradient times sqrt(delta + epsilon) / sqrt(square + epsilon), where `square`
 * is the running mean of squared gradients, including this one, and `delta` that of previous squared changes. Torch's
 * rate is 1. */
ipu_optimized ipu_adadelta_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                ipu_value square, ipu_value delta, ipu_adadelta_options options);

/* LAMB (You et al. 2019), algorithm 2 with bias correction: r = mean^ / (sqrt(square^) + epsilon) +
 * weight_decay * parameter, and a step of rate * |parameter| / |r| * r; the quotient of norms is 1 if either
 * is 0. The same as NVIDIA's FusedLAMB with use_nvlamb, but without gradient clipping. */
ipu_optimized ipu_lamb_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                            ipu_value step, ipu_value mean, ipu_value square, ipu_adam_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_optimized, ipu_optimized)
#define IPU_AT_STEP(...) ipu_optimized_left((IPU_ENTER, __VA_ARGS__))
#define ipu_sgd_step(...) IPU_AT_STEP(ipu_sgd_step(__VA_ARGS__))
#define ipu_adam_step(...) IPU_AT_STEP(ipu_adam_step(__VA_ARGS__))
#define ipu_adamw_step(...) IPU_AT_STEP(ipu_adamw_step(__VA_ARGS__))
#define ipu_adamax_step(...) IPU_AT_STEP(ipu_adamax_step(__VA_ARGS__))
#define ipu_rmsprop_step(...) IPU_AT_STEP(ipu_rmsprop_step(__VA_ARGS__))
#define ipu_adagrad_step(...) IPU_AT_STEP(ipu_adagrad_step(__VA_ARGS__))
#define ipu_adadelta_step(...) IPU_AT_STEP(ipu_adadelta_step(__VA_ARGS__))
#define ipu_lamb_step(...) IPU_AT_STEP(ipu_lamb_step(__VA_ARGS__))
#endif
#endif
