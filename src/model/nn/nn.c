/* Layers: parameters with PyTorch's names and initial distributions, and the op that uses them. */
#include "ipu/nn.h"

#include <math.h>

#include "model/nn/nn.h"

void ipu_nn_set_training(ipu_model *m, bool training) { m->is_inference = !training; }
bool ipu_nn_is_training(const ipu_model *m) { return !m->is_inference; }

/* ---- parameters ---- */

/* "fc1.weight" */
static ipu_value kept(ipu_model *m, const char *layer, const char *what, ipu_type type, ipu_shape shape,
                      ipu_initial initial, bool is_state)
{
    ipu_value none = {&m->base, 0};
    if (m->base.status != IPU_OK) return none;
    ipu__text name = {0};
    ipu__text_add(&name, "%s.%s", layer ? layer : "", what);
    ipu_value v = none;
    if (name.failed)
        ipu__builder_fail(&m->base, IPU_OUT_OF_MEMORY, "out of memory");
    else
        v = is_state ? ipu_model_state(m, type, shape, NULL, name.at)
                     : ipu_model_parameter(m, type, shape, NULL, name.at);
    ipu__text_fini(&name);
    if (v.id) ipu_model_set_initial(m, v, initial);
    return v;
}

ipu_value ipu__nn_parameter(ipu_model *m, const char *layer, const char *what, ipu_value like,
                            ipu_shape shape, ipu_initial initial)
{
    return kept(m, layer, what, ipu_value_type(like), shape, initial, false);
}

ipu_value ipu__nn_state(ipu_model *m, const char *layer, const char *what, ipu_type type, ipu_shape shape,
                        double initial)
{
    return kept(m, layer, what, type, shape, (ipu_initial){IPU_INITIAL_CONSTANT, initial, 0}, true);
}

ipu_initial ipu__nn_uniform(double bound) { return (ipu_initial){IPU_INITIAL_UNIFORM, -bound, bound}; }

/* Layers without names would share the names of their parameters. */
bool ipu__nn_begin(ipu_model *m, const char *caller, ipu_value x, const char *name, int least_rank)
{
    ipu_builder *b = &m->base;
    if (!ipu__builder_has(b, caller, x)) return false;
    if (!name || !*name)
        ipu__builder_fail(b, IPU_INVALID, "%s: expected a name, for its parameters", caller);
    else if (ipu_value_rank(x) < least_rank)
        ipu__builder_fail(b, IPU_INVALID, "%s \"%s\": expected an input of rank %d or more, found %s", caller,
                          name, least_rank, ipu__value_str(x));
    return b->status == IPU_OK;
}

/* ---- linear and convolution ---- */

/* PyTorch's kaiming_uniform with a = sqrt(5) amounts to 1 / sqrt(fan in), for weights and biases. */
static ipu_initial by_fan_in(int64_t fan_in)
{
    return ipu__nn_uniform(fan_in > 0 ? 1 / sqrt((double)fan_in) : 0);
}

ipu_value ipu_nn_linear_with(ipu_model *m, ipu_value x, int64_t n_out, ipu_nn_options options,
                             const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_linear", x, name, 1)) return (ipu_value){&m->base, 0};
    int64_t     n_in    = ipu_value_dim(x, -1);
    ipu_initial initial = by_fan_in(n_in);
    ipu_value   weight  = ipu__nn_parameter(m, name, "weight", x, IPU_SHAPE(n_out, n_in), initial);
    ipu_value   bias    = IPU_NO_VALUE;
    if (!options.no_bias) bias = ipu__nn_parameter(m, name, "bias", x, IPU_SHAPE(n_out), initial);
    return ipu_linear(&m->base, x, weight, bias);
}

ipu_value ipu_nn_linear(ipu_model *m, ipu_value x, int64_t n_out, const char *name)
{
    return ipu_nn_linear_with(m, x, n_out, (ipu_nn_options){0}, name);
}

ipu_value ipu_nn_conv_with(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, ipu_nn_options options,
                           const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_conv", x, name, 3)) return (ipu_value){&m->base, 0};
    int64_t          groups = options.groups ? options.groups : 1, n_in = ipu_value_dim(x, 1);
    int              n_dims = ipu_value_rank(x) - 2;
    ipu_conv_options conv   = {.groups = groups};
    ipu_shape        shape  = {.rank = n_dims + 2};
    shape.dim[0]            = options.transposed ? n_in : n_out;
    shape.dim[1]            = (options.transposed ? n_out : n_in) / (groups > 0 ? groups : 1);
    int64_t fan_in          = shape.dim[1];
    for (int d = 0; d < n_dims && d < 3; d++) {
        shape.dim[d + 2]       = size;
        conv.stride[d]         = options.stride;
        conv.padding[d]        = options.padding;
        conv.dilation[d]       = options.dilation;
        conv.output_padding[d] = options.output_padding;
        fan_in *= size;
    }
    ipu_initial initial = by_fan_in(fan_in);
    ipu_value   weight = ipu__nn_parameter(m, name, "weight", x, shape, initial), bias = IPU_NO_VALUE;
    if (!options.no_bias) bias = ipu__nn_parameter(m, name, "bias", x, IPU_SHAPE(n_out), initial);
    return options.transposed ? ipu_conv_transpose(&m->base, x, weight, bias, conv)
                              : ipu_conv(&m->base, x, weight, bias, conv);
}

ipu_value ipu_nn_conv(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, const char *name)
{
    return ipu_nn_conv_with(m, x, n_out, size, (ipu_nn_options){0}, name);
}
