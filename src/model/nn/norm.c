/* Normalisation layers, embedding tables and dropout. */
#include "model/nn/nn.h"

static ipu_initial constant(double value) { return (ipu_initial){IPU_INITIAL_CONSTANT, value, 0}; }

/* ---- norms: weight 1, bias 0, epsilon 1e-5 ---- */

#define EPSILON 1e-5

static ipu_type statistics_type(ipu_value x)
{
    return ipu_value_type(x) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
}

ipu_value ipu_nn_batch_norm(ipu_model *m, ipu_value x, const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_batch_norm", x, name, 2)) return (ipu_value){&m->base, 0};
    ipu_shape              shape  = IPU_SHAPE(ipu_value_dim(x, 1));
    ipu_type               type   = statistics_type(x);
    ipu_value              weight = ipu__nn_parameter(m, name, "weight", x, shape, constant(1));
    ipu_value              bias   = ipu__nn_parameter(m, name, "bias", x, shape, constant(0));
    ipu_value              mean   = ipu__nn_state(m, name, "running_mean", type, shape, 0);
    ipu_value              var    = ipu__nn_state(m, name, "running_var", type, shape, 1);
    ipu_batch_norm_options how    = {.training = !m->is_inference, .momentum = 0.1, .epsilon = EPSILON};
    ipu_batch_norm_result  out    = ipu_batch_norm(&m->base, x, weight, bias, mean, var, how);
    if (!m->is_inference) {
        ipu_model_update(m, mean, out.mean);
        ipu_model_update(m, var, out.var);
    }
    return out.y;
}

ipu_value ipu_nn_layer_norm(ipu_model *m, ipu_value x, int n_dims, const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_layer_norm", x, name, n_dims > 1 ? n_dims : 1))
        return (ipu_value){&m->base, 0};
    ipu_shape shape = {.rank = n_dims};
    for (int d = 0; d < n_dims; d++) shape.dim[d] = ipu_value_dim(x, d - n_dims);
    ipu_value weight = ipu__nn_parameter(m, name, "weight", x, shape, constant(1));
    ipu_value bias   = ipu__nn_parameter(m, name, "bias", x, shape, constant(0));
    return ipu_layer_norm(&m->base, x, weight, bias, n_dims, EPSILON);
}

ipu_value ipu_nn_group_norm(ipu_model *m, ipu_value x, int64_t groups, const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_group_norm", x, name, 2)) return (ipu_value){&m->base, 0};
    ipu_shape shape  = IPU_SHAPE(ipu_value_dim(x, 1));
    ipu_value weight = ipu__nn_parameter(m, name, "weight", x, shape, constant(1));
    ipu_value bias   = ipu__nn_parameter(m, name, "bias", x, shape, constant(0));
    return ipu_group_norm(&m->base, x, weight, bias, groups, EPSILON);
}

ipu_value ipu_nn_instance_norm(ipu_model *m, ipu_value x)
{
    return ipu_instance_norm(&m->base, x, IPU_NO_VALUE, IPU_NO_VALUE, EPSILON);
}

ipu_value ipu_nn_rms_norm(ipu_model *m, ipu_value x, const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_rms_norm", x, name, 1)) return (ipu_value){&m->base, 0};
    ipu_value weight = ipu__nn_parameter(m, name, "weight", x, IPU_SHAPE(ipu_value_dim(x, -1)), constant(1));
    return ipu_rms_norm(&m->base, x, weight, 1, EPSILON);
}

/* ---- tables, dropout ---- */

ipu_value ipu_nn_embedding(ipu_model *m, ipu_value indices, int64_t n_rows, int64_t n_columns,
                           const char *name)
{
    if (!ipu__nn_begin(m, "ipu_nn_embedding", indices, name, 0)) return (ipu_value){&m->base, 0};
    ipu_initial normal = {IPU_INITIAL_NORMAL, 0, 1};
    ipu_value   like   = ipu_constant_value(&m->base, IPU_FLOAT, IPU_SCALAR, 0);
    ipu_value   weight = ipu__nn_parameter(m, name, "weight", like, IPU_SHAPE(n_rows, n_columns), normal);
    return ipu_embedding(&m->base, weight, indices, IPU_NO_PADDING);
}

ipu_value ipu_nn_dropout(ipu_model *m, ipu_value x, double p)
{
    if (m->is_inference || p == 0) return x;
    return ipu_dropout(&m->base, x, ipu_model_seed(m), p);
}
