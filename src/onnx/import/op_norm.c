/* Normalisation and dropout of ONNX. */
#include "ipu/op.h"
#include "onnx/import/import.h"

static ipu_value as_type(ipu__node *n, ipu_value v, ipu_type type)
{
    return v.id == 0 || ipu_value_type(v) == type ? v : ipu_cast(n->b, v, type);
}

static double epsilon_of(ipu__node *n) { return ipu__attr_float(n, "epsilon", 1e-5f); }

/* ---- batch normalisation ---- */

/* From opset 14 the file says so. Before it, outputs that only training has say so; is_test may deny it. */
static bool is_training_norm(ipu__node *n)
{
    bool has_statistics = ipu__wants(n, 1) || ipu__wants(n, 2) || ipu__wants(n, 3) || ipu__wants(n, 4);
    if (n->version >= 14) return ipu__attr_int(n, "training_mode", 0) != 0;
    if (n->version >= 7) return has_statistics;
    return ipu__attr_int(n, "is_test", 0) == 0 && (has_statistics || n->im->options->training);
}

/* x as [N, C, ...]; with spatial = 0 each place is a channel of its own. */
static ipu_value channels_second(ipu__node *n, ipu_value x)
{
    ipu_shape shape = ipu_value_shape(x);
    if (shape.rank == 1) return ipu_reshape(n->b, x, IPU_SHAPE(shape.dim[0], 1));
    if (n->version < 9 && ipu__attr_int(n, "spatial", 1) == 0 && shape.rank > 1)
        return ipu_flatten(n->b, x, 1);
    return x;
}

static ipu_value flat(ipu__node *n, ipu_value v)
{
    return v.id == 0 || ipu_value_rank(v) == 1 ? v : ipu_reshape(n->b, v, IPU_SHAPE(ipu_value_n_elements(v)));
}

/* The new running statistics, and those of this batch: variances divided by n, unlike PyTorch's. */
static void give_statistics(ipu__node *n, ipu_value x, ipu_value running_mean, ipu_value running_var)
{
    int axes[IPU_MAX_RANK], n_axes = 0;
    for (int i = 0; i < ipu_value_rank(x); i++)
        if (i != 1) axes[n_axes++] = i;
    double    share = 1 - ipu__attr_float(n, "momentum", 0.9f);
    ipu_type  type  = ipu_value_type(running_mean);
    ipu_value wide  = ipu_value_type(x) == IPU_DOUBLE ? x : as_type(n, x, IPU_FLOAT);
    ipu_value mean  = as_type(n, ipu_reduce_mean(n->b, wide, axes, n_axes, false), type);
    ipu_value var   = as_type(n, ipu_reduce_variance(n->b, wide, axes, n_axes, false, false), type);
    ipu_value part  = ipu_scalar_like(n->b, running_mean, share);
    if (ipu__wants(n, 1)) ipu__give(n, 1, ipu_lerp(n->b, running_mean, mean, part));
    if (ipu__wants(n, 2)) ipu__give(n, 2, ipu_lerp(n->b, running_var, var, part));
    ipu__give(n, 3, mean);
    ipu__give(n, 4, var);
}

void ipu__onnx_BatchNormalization(ipu__node *n)
{
    ipu_value given = ipu__in_needed(n, 0), x = channels_second(n, given), in[4];
    for (size_t i = 0; i < 4; i++) in[i] = flat(n, ipu__in_needed(n, i + 1));
    if (!ipu__import_ok(n->im)) return;
    ipu_type type     = ipu_value_type(x);
    bool     is_mixed = ipu_value_type(in[0]) != type || ipu_value_type(in[1]) != type;
    /* Statistics may be wider; scale and bias may not. */
    for (int i = 2; i < 4; i++)
        is_mixed |= ipu_value_type(in[i]) != type && ipu_value_type(in[i]) != IPU_FLOAT;
    ipu_value inner = is_mixed && type != IPU_DOUBLE ? as_type(n, x, IPU_FLOAT) : x;
    for (int i = 0; i < 2; i++) in[i] = as_type(n, in[i], ipu_value_type(inner));
    ipu_batch_norm_options o = {.training = is_training_norm(n), .epsilon = epsilon_of(n)};
    if (o.epsilon == 0) o.epsilon = 1e-30; /* 0 would mean the default */
    ipu_value mean = in[2], var = in[3];
    if (is_mixed)
        mean = as_type(n, mean, ipu_value_type(inner)), var = as_type(n, var, ipu_value_type(inner));
    if (o.training) mean = var = IPU_NO_VALUE; /* what PyTorch would keep is not what ONNX does */
    ipu_value y = ipu_batch_norm(n->b, inner, in[0], in[1], mean, var, o).y;
    if (o.training && n->n_out > 1) give_statistics(n, x, in[2], in[3]);
    ipu__give(n, 0, as_type(n, ipu_reshape(n->b, y, ipu_value_shape(given)), type));
}

/* ---- others ---- */

void ipu__onnx_InstanceNormalization(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), scale = ipu__in_needed(n, 1), bias = ipu__in_needed(n, 2);
    ipu__give(n, 0, ipu_instance_norm(n->b, x, scale, bias, epsilon_of(n)));
}

static bool same_from(const ipu_shape *x, int axis, ipu_value v)
{
    ipu_shape shape   = ipu_value_shape(v);
    bool      is_same = shape.rank == x->rank - axis;
    for (int i = 0; is_same && i < shape.rank; i++) is_same = shape.dim[i] == x->dim[axis + i];
    return is_same;
}

/* Mean and InvStdDev, of type stash_type. */
static void give_layer_statistics(ipu__node *n, ipu_value x, int axis)
{
    int axes[IPU_MAX_RANK], n_axes = 0;
    for (int i = axis; i < ipu_value_rank(x); i++) axes[n_axes++] = i;
    ipu_value wide = as_type(n, x, ipu__attr_type(n, "stash_type", IPU_FLOAT));
    if (ipu__wants(n, 1)) ipu__give(n, 1, ipu_reduce_mean(n->b, wide, axes, n_axes, true));
    if (!ipu__wants(n, 2)) return;
    ipu_value var = ipu_reduce_variance(n->b, wide, axes, n_axes, true, false);
    ipu__give(n, 2, ipu_rsqrt(n->b, ipu_add(n->b, var, ipu_scalar_like(n->b, var, epsilon_of(n)))));
}

void ipu__onnx_LayerNormalization(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), scale = ipu__in_needed(n, 1), bias = ipu__in(n, 2);
    if (!ipu__import_ok(n->im)) return;
    ipu_shape shape    = ipu_value_shape(x);
    int       axis     = ipu__axis(n, "axis", -1, shape.rank);
    bool      is_whole = same_from(&shape, axis, scale) && (!bias.id || same_from(&shape, axis, bias));
    if (is_whole)
        ipu__give(n, 0, ipu_layer_norm(n->b, x, scale, bias, shape.rank - axis, epsilon_of(n)));
    else {
        ipu_value y = ipu_layer_norm(n->b, x, IPU_NO_VALUE, IPU_NO_VALUE, shape.rank - axis, epsilon_of(n));
        y           = ipu_mul(n->b, y, scale);
        ipu__give(n, 0, bias.id ? ipu_add(n->b, y, bias) : y);
    }
    give_layer_statistics(n, x, axis);
}

/* Before opset 21 scale and bias are one number for each group. */
void ipu__onnx_GroupNormalization(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), part[2] = {ipu__in_needed(n, 1), ipu__in_needed(n, 2)};
    int64_t   groups = ipu__attr_int(n, "num_groups", 0), channels = ipu_value_dim(x, 1);
    if (!ipu__import_ok(n->im)) return;
    if (ipu_value_rank(x) < 2 || groups < 1 || channels % groups) {
        ipu__node_fail(n, IPU_INVALID, "expected [N,C,...] with C a multiple of num_groups (%lld)",
                       (long long)groups);
        return;
    }
    for (int i = 0; i < 2 && n->version < 21; i++) part[i] = ipu_repeat(n->b, part[i], channels / groups, 0);
    ipu__give(n, 0, ipu_group_norm(n->b, x, part[0], part[1], groups, epsilon_of(n)));
}

void ipu__onnx_MeanVarianceNormalization(ipu__node *n)
{
    static const int otherwise[] = {0, 2, 3};
    ipu_value        x           = ipu__in_needed(n, 0);
    const int       *axes;
    int              n_axes;
    if (!ipu__axes(n, "axes", 1, ipu_value_rank(x), &axes, &n_axes)) axes = otherwise, n_axes = 3;
    if (!ipu__import_ok(n->im)) return;
    ipu__give(n, 0, ipu_mean_variance_norm(n->b, x, axes, n_axes, 1e-9)); /* as in ONNX's function */
}

/* A 0 of the options would mean their default. */
void ipu__onnx_LRN(ipu__node *n)
{
    ipu_value                  x = ipu__in_needed(n, 0);
    ipu_local_response_options o = {.size       = ipu__attr_int(n, "size", 0),
                                    .alpha      = ipu__attr_float(n, "alpha", 1e-4f),
                                    .beta       = ipu__attr_float(n, "beta", 0.75f),
                                    .bias       = ipu__attr_float(n, "bias", 1),
                                    .has_before = true};
    o.before                     = o.size > 0 ? (o.size - 1) / 2 : 0;
    if (o.size < 1 || o.alpha == 0 || o.beta == 0 || o.bias == 0)
        ipu__node_fail(n, IPU_UNSUPPORTED, "a size, alpha, beta or bias of 0 is not supported");
    else
        ipu__give(n, 0, ipu_local_response_norm(n->b, x, o));
}

/* Where the norm is 0, so is the result (as opset 22 says). */
void ipu__onnx_LpNormalization(ipu__node *n)
{
    ipu_value x    = ipu__in_needed(n, 0);
    int       axis = ipu__axis(n, "axis", -1, ipu_value_rank(x));
    int64_t   p    = ipu__attr_int(n, "p", 2);
    if (p != 1 && p != 2) ipu__node_fail(n, IPU_INVALID, "p is %lld; expected 1 or 2", (long long)p);
    if (!ipu__import_ok(n->im)) return;
    ipu_value norm = p == 1 ? ipu_reduce_l1(n->b, x, &axis, 1, true) : ipu_reduce_l2(n->b, x, &axis, 1, true);
    ipu_value is_zero = ipu_equal(n->b, norm, ipu_scalar_like(n->b, norm, 0));
    ipu__give(n, 0, ipu_div(n->b, x, ipu_where(n->b, is_zero, ipu_scalar_like(n->b, norm, 1), norm)));
}

/* ---- dropout ---- */

/* How much is dropped; 0 in inference. */
static double drop_ratio(ipu__node *n)
{
    double ratio = 0;
    if (n->version >= 12)
        ratio = ipu__in_int(n, 2, 0) ? ipu__in_double(n, 1, 0.5) : 0;
    else if (n->im->options->training && (n->version >= 7 || ipu__attr_int(n, "is_test", 0) == 0))
        ratio = ipu__attr_float(n, "ratio", 0.5);
    if (!(ratio >= 0 && ratio < 1)) {
        ipu__node_fail(n, IPU_INVALID, "its ratio is %g; expected 0 or more, less than 1", ratio);
        return 0;
    }
    return ratio;
}

void ipu__onnx_Dropout(ipu__node *n)
{
    ipu_value x     = ipu__in_needed(n, 0);
    double    ratio = drop_ratio(n);
    ipu_type  type  = n->version < 10 ? ipu_value_type(x) : IPU_BOOL;
    if (!ipu__import_ok(n->im)) return;
    if (ratio == 0) {
        ipu__give(n, 0, x);
        if (ipu__wants(n, 1)) ipu__give(n, 1, ipu_constant_value(n->b, type, ipu_value_shape(x), 1));
    } else if (!ipu__wants(n, 1))
        ipu__give(n, 0, ipu_dropout(n->b, x, ipu_model_seed(n->m), ratio));
    else {
        ipu_value mask   = ipu_random_bernoulli(n->b, ipu_model_seed(n->m), IPU_BOOL, ipu_value_shape(x),
                                                1 - ratio);
        ipu_value scaled = ipu_mul(n->b, x, ipu_scalar_like(n->b, x, 1 / (1 - ratio)));
        ipu__give(n, 0, ipu_where(n->b, mask, scaled, ipu_scalar_like(n->b, x, 0)));
        ipu__give(n, 1, as_type(n, mask, type));
    }
}
