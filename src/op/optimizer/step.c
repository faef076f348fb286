/* Optimizers as functions: options become attributes. */
#include "ipu/op/optimizer.h"

#include "op/optimizer/optimizer.h"

static double either(double given, double otherwise)
{
    if (given == 0) return otherwise;
    return given < 0 ? 0 : given;
}

#define DECOUPLED IPU_INT_ATTRIBUTE("decoupled", options.decay == IPU_DECAY_DECOUPLED)

/* States that were not given have no new value. */
static ipu_optimized emit(ipu_builder *b, const char *op, const ipu_attribute *attributes,
                          size_t n_attributes, const ipu_value *in, size_t n_in, size_t n_states)
{
    ipu_optimized out = {0};
    ipu_value     all[4];
    ipu_emit(b, op, attributes, n_attributes, in, n_in, all, 1 + n_states);
    out.parameter = all[0];
    for (size_t i = 0; i < n_states; i++)
        if (ipu__has(in[n_in - n_states + i])) out.state[i] = all[1 + i];
    return out;
}

ipu_optimized ipu_sgd_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                           ipu_value step, ipu_value momentum, ipu_sgd_options options)
{
    return emit(b, "sgd",
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("momentum", options.momentum),
                          IPU_FLOAT_ATTRIBUTE("dampening", options.dampening),
                          IPU_FLOAT_ATTRIBUTE("weight_decay", options.weight_decay),
                          IPU_INT_ATTRIBUTE("nesterov", options.nesterov), DECOUPLED),
                IPU__IN(parameter, gradient, rate, step, momentum), 1);
}

#define MOMENTS(epsilon_otherwise)                                                  \
    IPU_FLOAT_ATTRIBUTE("beta1", either(options.beta1, 0.9)),                       \
        IPU_FLOAT_ATTRIBUTE("beta2", either(options.beta2, 0.999)),                 \
        IPU_FLOAT_ATTRIBUTE("epsilon", either(options.epsilon, epsilon_otherwise)), \
        IPU_FLOAT_ATTRIBUTE("weight_decay", options.weight_decay)
#define UNCORRECTED IPU_INT_ATTRIBUTE("uncorrected", options.no_bias_correction)

ipu_optimized ipu_adam_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                            ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                            ipu_adam_options options)
{
    return emit(b, options.decay == IPU_DECAY_DECOUPLED ? "adamw" : "adam",
                IPU__WITH(MOMENTS(1e-8), UNCORRECTED),
                IPU__IN(parameter, gradient, rate, step, mean, square, max_square), 3);
}

ipu_optimized ipu_adamw_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                             ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                             ipu_adam_options options)
{
    return emit(b, options.decay == IPU_DECAY_L2 ? "adam" : "adamw", IPU__WITH(MOMENTS(1e-8), UNCORRECTED),
                IPU__IN(parameter, gradient, rate, step, mean, square, max_square), 3);
}

ipu_optimized ipu_adamax_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                              ipu_value step, ipu_value mean, ipu_value largest, ipu_adam_options options)
{
    return emit(b, "adamax", IPU__WITH(MOMENTS(1e-8), DECOUPLED),
                IPU__IN(parameter, gradient, rate, step, mean, largest), 2);
}

ipu_optimized ipu_rmsprop_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                               ipu_value square, ipu_value mean, ipu_value momentum,
                               ipu_rmsprop_options options)
{
    return emit(b, "rmsprop",
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("alpha", either(options.alpha, 0.99)),
                          IPU_FLOAT_ATTRIBUTE("epsilon", either(options.epsilon, 1e-8)),
                          IPU_FLOAT_ATTRIBUTE("momentum", options.momentum),
                          IPU_FLOAT_ATTRIBUTE("weight_decay", options.weight_decay),
                          IPU_INT_ATTRIBUTE("tensorflow", options.tensorflow), DECOUPLED),
                IPU__IN(parameter, gradient, rate, square, mean, momentum), 3);
}

ipu_optimized ipu_adagrad_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                               ipu_value step, ipu_value sum, ipu_adagrad_options options)
{
    return emit(b, "adagrad",
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("rate_decay", options.rate_decay),
                          IPU_FLOAT_ATTRIBUTE("epsilon", either(options.epsilon, 1e-10)),
                          IPU_FLOAT_ATTRIBUTE("weight_decay", options.weight_decay), DECOUPLED),
                IPU__IN(parameter, gradient, rate, step, sum), 1);
}

ipu_optimized ipu_adadelta_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                ipu_value square, ipu_value delta, ipu_adadelta_options options)
{
    return emit(b, "adadelta",
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("rho", either(options.rho, 0.9)),
                          IPU_FLOAT_ATTRIBUTE("epsilon", either(options.epsilon, 1e-6)),
                          IPU_FLOAT_ATTRIBUTE("weight_decay", options.weight_decay), DECOUPLED),
                IPU__IN(parameter, gradient, rate, square, delta), 2);
}

static ipu_optimized lamb(ipu_builder *b, const ipu_value *in, size_t n_in, ipu_adam_options options,
                          bool parts)
{
    return emit(
        b, "lamb",
        IPU__WITH(MOMENTS(1e-6), UNCORRECTED, IPU_FLOAT_ATTRIBUTE("max_weight_norm", options.max_weight_norm),
                  IPU_INT_ATTRIBUTE("l2", options.decay == IPU_DECAY_L2), IPU_INT_ATTRIBUTE("parts", parts)),
        in, n_in, 2);
}

ipu_optimized ipu_lamb_step(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                            ipu_value step, ipu_value mean, ipu_value square, ipu_adam_options options)
{
    return lamb(b, IPU__IN(parameter, gradient, rate, step, mean, square), options, false);
}

ipu_optimized ipu__lamb_step_of_part(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                     ipu_value step, ipu_value mean, ipu_value square,
                                     ipu_adam_options options)
{
    return lamb(b, IPU__IN(parameter, gradient, rate, step, mean, square), options, true);
}
