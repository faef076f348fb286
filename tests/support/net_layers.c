/* Layers of random networks: elementwise, matrices, convolutions, softmax, losses. Each is an op of the
 * library and the same in PyTorch's words.
 */
#include <string.h>

#include "net.h"

/* ---- elementwise ---- */

/* What keeps a function within its domain, and results near 1. */
typedef enum guard { ANY, BOUNDED, POSITIVE, UNIT, ABOVE_ONE } guard;

static ipu_value bring_into(net *n, guard g, ipu_value x)
{
    ipu_builder *b = n->b;
    if (g == ANY) return x;
    if (g == POSITIVE || g == ABOVE_ONE) {
        double    least = g == POSITIVE ? 0.5 : 1.2;
        ipu_value y     = ipu_add(b, ipu_square(b, ipu_tanh(b, x)), ipu_scalar_like(b, x, least));
        return net_use(n, net_add(n, y, "torch.tanh(v%u)**2 + %g", x.id, least));
    }
    double    scale = g == UNIT ? 0.9 : 2;
    ipu_value y     = ipu_mul(b, ipu_tanh(b, x), ipu_scalar_like(b, x, scale));
    return net_use(n, net_add(n, y, "torch.tanh(v%u) * %g", x.id, scale));
}

typedef struct unary {
    ipu_value (*fn)(ipu_builder *b, ipu_value x);
    const char *python;
    guard       domain;
} unary;

static const unary unaries[] = {
    {ipu_neg, "torch.neg", ANY},
    {ipu_abs, "torch.abs", ANY},
    {ipu_sign, "torch.sign", ANY},
    {ipu_square, "torch.square", BOUNDED},
    {ipu_sqrt, "torch.sqrt", POSITIVE},
    {ipu_rsqrt, "torch.rsqrt", POSITIVE},
    {ipu_reciprocal, "torch.reciprocal", POSITIVE},
    {ipu_exp, "torch.exp", BOUNDED},
    {ipu_exp2, "torch.exp2", BOUNDED},
    {ipu_expm1, "torch.expm1", BOUNDED},
    {ipu_log, "torch.log", POSITIVE},
    {ipu_log2, "torch.log2", POSITIVE},
    {ipu_log10, "torch.log10", POSITIVE},
    {ipu_log1p, "torch.log1p", POSITIVE},
    {ipu_sin, "torch.sin", BOUNDED},
    {ipu_cos, "torch.cos", BOUNDED},
    {ipu_tan, "torch.tan", UNIT},
    {ipu_asin, "torch.asin", UNIT},
    {ipu_acos, "torch.acos", UNIT},
    {ipu_atan, "torch.atan", ANY},
    {ipu_sinh, "torch.sinh", BOUNDED},
    {ipu_cosh, "torch.cosh", BOUNDED},
    {ipu_tanh, "torch.tanh", ANY},
    {ipu_asinh, "torch.asinh", ANY},
    {ipu_acosh, "torch.acosh", ABOVE_ONE},
    {ipu_atanh, "torch.atanh", UNIT},
    {ipu_erf, "torch.erf", ANY},
    {ipu_erfc, "torch.erfc", ANY},
    {ipu_sigmoid, "torch.sigmoid", ANY},
    {ipu_log_sigmoid, "F.logsigmoid", ANY},
    {ipu_relu, "F.relu", ANY},
    {ipu_relu6, "F.relu6", ANY},
    {ipu_selu, "F.selu", ANY},
    {ipu_gelu, "F.gelu", ANY},
    {ipu_gelu_tanh, "gelu_tanh", ANY},
    {ipu_silu, "F.silu", ANY},
    {ipu_mish, "F.mish", ANY},
    {ipu_softsign, "F.softsign", ANY},
    {ipu_hardsigmoid, "F.hardsigmoid", ANY},
    {ipu_hardswish, "F.hardswish", ANY},
    {ipu_floor, "torch.floor", ANY},
    {ipu_round, "torch.round", ANY},
};

static bool make_unary(net *n)
{
    const unary *u = &unaries[net_int(n, 0, (int)(sizeof unaries / sizeof *unaries) - 1)];
    ipu_value    x = bring_into(n, u->domain, net_pick(n, 0, 5));
    net_add(n, u->fn(n->b, x), "%s(v%u)", u->python, x.id);
    return true;
}

/* With parameters of their own; PyTorch takes them in the same order. */
static bool make_parametrised(net *n)
{
    ipu_value x = net_pick(n, 0, 5);
    switch (net_int(n, 0, 6)) {
    case 0: net_add(n, ipu_leaky_relu(n->b, x, 0.1), "F.leaky_relu(v%u, 0.1)", x.id); break;
    case 1: net_add(n, ipu_elu(n->b, x, 0.7), "F.elu(v%u, 0.7)", x.id); break;
    case 2: net_add(n, ipu_celu(n->b, x, 1.3), "F.celu(v%u, 1.3)", x.id); break;
    case 3: net_add(n, ipu_softplus(n->b, x, 2, 1), "F.softplus(v%u, 2, 1)", x.id); break;
    case 4: net_add(n, ipu_clip(n->b, x, -0.5, 0.8), "torch.clip(v%u, -0.5, 0.8)", x.id); break;
    case 5: net_add(n, ipu_hardtanh(n->b, x, -0.6, 0.9), "F.hardtanh(v%u, -0.6, 0.9)", x.id); break;
    default: net_add(n, ipu_threshold(n->b, x, 0.2, -0.3), "F.threshold(v%u, 0.2, -0.3)", x.id);
    }
    return true;
}

typedef struct binary {
    ipu_value (*fn)(ipu_builder *b, ipu_value x, ipu_value y);
    const char *python; /* of two values */
    guard       x, y;
} binary;

static const binary binaries[] = {
    {ipu_add, "v%u + v%u", ANY, ANY},
    {ipu_sub, "v%u - v%u", ANY, ANY},
    {ipu_mul, "v%u * v%u", BOUNDED, BOUNDED},
    {ipu_div, "v%u / v%u", ANY, POSITIVE},
    {ipu_pow, "torch.pow(v%u, v%u)", POSITIVE, BOUNDED},
    {ipu_maximum, "torch.maximum(v%u, v%u)", ANY, ANY},
    {ipu_minimum, "torch.minimum(v%u, v%u)", ANY, ANY},
    {ipu_atan2, "torch.atan2(v%u, v%u)", POSITIVE, ANY},
    {ipu_squared_difference, "(v%u - v%u)**2", BOUNDED, BOUNDED},
};

/* A value that broadcasts against `x`: leading dimensions left out, others 1. */
static ipu_value partner(net *n, ipu_value x)
{
    ipu_shape whole = ipu_value_shape(x), shape = {.rank = net_int(n, 0, whole.rank)};
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = net_chance(n, 25) ? 1 : whole.dim[whole.rank - shape.rank + d];
    return net_param(n, shape, -2, 2);
}

static void python_binary(net *n, const binary *k, ipu_value z, ipu_value x, ipu_value y)
{
    char        text[128];
    const char *first = strstr(k->python, "v%u"), *second = strstr(first + 1, "v%u");
    snprintf(text, sizeof text, "%.*sv%u%.*sv%u%s", (int)(first - k->python), k->python, x.id,
             (int)(second - first - 3), first + 3, y.id, second + 3);
    net_add(n, z, "%s", text);
}

static bool make_binary(net *n)
{
    const binary *k = &binaries[net_int(n, 0, (int)(sizeof binaries / sizeof *binaries) - 1)];
    ipu_value     x = net_pick(n, 0, 5), y = partner(n, x);
    x            = bring_into(n, k->x, x);
    y            = bring_into(n, k->y, y);
    bool swapped = net_chance(n, 50) && k->x == k->y;
    if (swapped)
        python_binary(n, k, k->fn(n->b, y, x), y, x);
    else
        python_binary(n, k, k->fn(n->b, x, y), x, y);
    return true;
}

static bool make_where(net *n)
{
    typedef ipu_value (*compare)(ipu_builder * b, ipu_value x, ipu_value y);
    static const compare fns[] = {ipu_greater, ipu_less, ipu_greater_equal, ipu_less_equal, ipu_not_equal};
    static const char *const texts[] = {">", "<", ">=", "<=", "!="};
    int                      k       = net_int(n, 0, 4);
    ipu_value                x = net_pick(n, 0, 4), y = partner(n, x), z = partner(n, x);
    ipu_value                y2 = ipu_where(n->b, fns[k](n->b, x, y), x, z);
    net_add(n, y2, "torch.where(v%u %s v%u, v%u, v%u)", x.id, texts[k], y.id, x.id, z.id);
    return true;
}

/* ---- matrices ---- */

static bool make_linear(net *n)
{
    ipu_value x  = net_pick(n, 1, 4);
    int64_t   in = ipu_value_dim(x, -1), out = net_int(n, 1, 6);
    ipu_value w = net_param(n, IPU_SHAPE(out, in), -0.7, 0.7), bias = net_param(n, IPU_SHAPE(out), -1, 1);
    if (net_chance(n, 70))
        net_add(n, ipu_linear(n->b, x, w, bias), "F.linear(v%u, v%u, v%u)", x.id, w.id, bias.id);
    else
        net_add(n, ipu_linear(n->b, x, w, IPU_NO_VALUE), "F.linear(v%u, v%u)", x.id, w.id);
    return true;
}

static bool make_matmul(net *n)
{
    ipu_value x  = net_pick(n, 2, 4);
    ipu_shape s  = ipu_value_shape(x);
    bool      ta = net_chance(n, 30), tb = net_chance(n, 30);
    int64_t   k = s.dim[s.rank - (ta ? 2 : 1)], columns = net_int(n, 1, 6);
    ipu_shape w = {.rank = net_int(n, 2, s.rank)};
    for (int d = 0; d < w.rank - 2; d++) w.dim[d] = net_chance(n, 30) ? 1 : s.dim[s.rank - w.rank + d];
    w.dim[w.rank - 2] = tb ? columns : k;
    w.dim[w.rank - 1] = tb ? k : columns;
    ipu_value y       = net_param(n, w, -0.7, 0.7);
    net_add(n, ipu_matmul_with(n->b, x, y, ta, tb), "torch.matmul(v%u%s, v%u%s)", x.id,
            ta ? ".transpose(-1,-2)" : "", y.id, tb ? ".transpose(-1,-2)" : "");
    return true;
}

static bool make_gemm(net *n)
{
    ipu_value        x    = net_pick(n, 2, 2);
    int64_t          rows = ipu_value_dim(x, 0), k = ipu_value_dim(x, 1), columns = net_int(n, 1, 6);
    ipu_value        w = net_param(n, IPU_SHAPE(k, columns), -1, 1);
    ipu_value        c = net_param(n, net_chance(n, 50) ? IPU_SHAPE(columns) : IPU_SHAPE(rows, 1), -1, 1);
    ipu_gemm_options o = {.alpha = 0.5, .beta = 2};
    net_add(n, ipu_gemm(n->b, x, w, c, o), "0.5 * (v%u @ v%u) + 2 * v%u", x.id, w.id, c.id);
    return true;
}

/* ---- convolutions ---- */

static ipu_value image(net *n, int spatial, int64_t channels)
{
    ipu_shape s = {.rank = 2 + spatial, .dim = {net_int(n, 1, 3), channels}};
    for (int d = 0; d < spatial; d++) s.dim[2 + d] = net_int(n, 3, spatial == 3 ? 4 : 7);
    return net_param(n, s, -2, 2);
}

static bool make_conv(net *n)
{
    int              spatial = net_int(n, 1, 3);
    int64_t          groups = net_int(n, 1, 2), channels = groups * net_int(n, 1, 3);
    int64_t          out = groups * net_int(n, 1, 3);
    ipu_value        x   = image(n, spatial, channels);
    ipu_conv_options o   = {.groups = groups};
    ipu_shape        w   = {.rank = 2 + spatial, .dim = {out, channels / groups}};
    for (int d = 0; d < spatial; d++) {
        w.dim[2 + d]  = net_int(n, 1, 3);
        o.stride[d]   = net_int(n, 1, 2);
        o.padding[d]  = net_int(n, 0, 2);
        o.dilation[d] = 2 * o.padding[d] + ipu_value_dim(x, 2 + d) >= 2 * (w.dim[2 + d] - 1) + 1
                          ? net_int(n, 1, 2)
                          : 1;
    }
    ipu_value weight = net_param(n, w, -0.5, 0.5), bias = net_param(n, IPU_SHAPE(out), -1, 1);
    net_add(n, ipu_conv(n->b, x, weight, bias, o),
            "F.conv%dd(v%u, v%u, v%u, stride=%s, padding=%s, dilation=%s, groups=%lld)", spatial, x.id,
            weight.id, bias.id, net_list(o.stride, spatial), net_list(o.padding, spatial),
            net_list(o.dilation, spatial), (long long)groups);
    return true;
}

static bool make_conv_transpose(net *n)
{
    int              spatial = net_int(n, 1, 2);
    int64_t          groups = net_int(n, 1, 2), channels = groups * net_int(n, 1, 2);
    int64_t          out = net_int(n, 1, 2);
    ipu_value        x   = image(n, spatial, channels);
    ipu_conv_options o   = {.groups = groups};
    ipu_shape        w   = {.rank = 2 + spatial, .dim = {channels, out}};
    for (int d = 0; d < spatial; d++) {
        w.dim[2 + d]        = net_int(n, 2, 3);
        o.stride[d]         = net_int(n, 1, 2);
        o.padding[d]        = net_int(n, 0, 1);
        o.dilation[d]       = 1;
        o.output_padding[d] = o.stride[d] > 1 ? net_int(n, 0, 1) : 0;
    }
    ipu_value weight = net_param(n, w, -0.5, 0.5), bias = net_param(n, IPU_SHAPE(out * groups), -1, 1);
    net_add(n, ipu_conv_transpose(n->b, x, weight, bias, o),
            "F.conv_transpose%dd(v%u, v%u, v%u, stride=%s, padding=%s, output_padding=%s, groups=%lld)",
            spatial, x.id, weight.id, bias.id, net_list(o.stride, spatial), net_list(o.padding, spatial),
            net_list(o.output_padding, spatial), (long long)groups);
    return true;
}

/* ---- reductions, softmax ---- */

static int random_axes(net *n, ipu_value x, int *axes, int64_t *wide)
{
    int rank = ipu_value_rank(x), count = 0;
    for (int d = 0; d < rank; d++)
        if (net_chance(n, 50)) axes[count++] = net_chance(n, 50) ? d : d - rank;
    if (count == 0) axes[count++] = net_int(n, 0, rank - 1);
    for (int i = 0; i < count; i++) wide[i] = axes[i];
    return count;
}

static bool make_reduction(net *n)
{
    typedef ipu_value (*reduction)(ipu_builder * b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
    static const reduction fns[]   = {ipu_reduce_sum, ipu_reduce_mean,     ipu_reduce_max,
                                      ipu_reduce_min, ipu_reduce_l1,       ipu_reduce_sum_square,
                                      ipu_reduce_l2,  ipu_reduce_logsumexp};
    static const char     *texts[] = {"torch.sum(v%u, %s, %s)",
                                      "torch.mean(v%u, %s, %s)",
                                      "torch.amax(v%u, %s, %s)",
                                      "torch.amin(v%u, %s, %s)",
                                      "torch.sum(v%u.abs(), %s, %s)",
                                      "torch.sum(v%u**2, %s, %s)",
                                      "torch.linalg.vector_norm(v%u, 2, %s, %s)",
                                      "torch.logsumexp(v%u, %s, %s)"};
    int                    k       = net_int(n, 0, 7), axes[IPU_MAX_RANK];
    int64_t                wide[IPU_MAX_RANK];
    ipu_value              x     = net_pick(n, 1, 5);
    int                    count = random_axes(n, x, axes, wide);
    bool                   keep  = net_chance(n, 50);
    char                   text[128];
    const char            *rest = strstr(texts[k], "v%u") + 3;
    const char            *list = strstr(rest, "%s");
    snprintf(text, sizeof text, "%.*sv%u%.*s%s, %s)", (int)(rest - 3 - texts[k]), texts[k], x.id,
             (int)(list - rest), rest, net_list(wide, count), keep ? "True" : "False");
    net_add(n, fns[k](n->b, x, axes, count, keep), "%s", text);
    return true;
}

static bool make_variance(net *n)
{
    int       axes[IPU_MAX_RANK];
    int64_t   wide[IPU_MAX_RANK], size = 1;
    ipu_value x     = net_pick(n, 1, 5);
    int       count = random_axes(n, x, axes, wide);
    for (int i = 0; i < count; i++) size *= ipu_value_dim(x, axes[i]);
    bool unbiased = size > 1 && net_chance(n, 50);
    net_add(n, ipu_reduce_variance(n->b, x, axes, count, true, unbiased),
            "torch.var(v%u, %s, unbiased=%s, keepdim=True)", x.id, net_list(wide, count),
            unbiased ? "True" : "False");
    return true;
}

static bool make_prod(net *n)
{
    ipu_value x    = bring_into(n, UNIT, net_pick(n, 1, 4));
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    net_add(n, ipu_reduce_prod(n->b, x, &axis, 1, false), "torch.prod(v%u, %d)", x.id, axis);
    return true;
}

static bool make_argmax(net *n)
{
    ipu_value x    = net_pick(n, 1, 4);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    bool      keep = net_chance(n, 50);
    if (net_chance(n, 50))
        net_add(n, ipu_argmax(n->b, x, axis, keep), "torch.argmax(v%u, %d, %s)", x.id, axis,
                keep ? "True" : "False");
    else
        net_add(n, ipu_argmin(n->b, x, axis, keep), "torch.argmin(v%u, %d, %s)", x.id, axis,
                keep ? "True" : "False");
    return true;
}

static bool make_softmax(net *n)
{
    typedef ipu_value (*softmax)(ipu_builder * b, ipu_value x, int axis);
    static const softmax     fns[]   = {ipu_softmax, ipu_log_softmax, ipu_softmin};
    static const char *const texts[] = {"softmax", "log_softmax", "softmin"};
    int                      k       = net_int(n, 0, 2);
    ipu_value                x       = net_pick(n, 1, 4);
    int                      axis    = net_int(n, -ipu_value_rank(x), ipu_value_rank(x) - 1);
    net_add(n, fns[k](n->b, x, axis), "F.%s(v%u, %d)", texts[k], x.id, axis);
    return true;
}

/* ---- losses ---- */

static const char *reduction_text(ipu_loss_reduction r)
{
    return r == IPU_LOSS_MEAN ? "mean" : r == IPU_LOSS_SUM ? "sum" : "none";
}

static ipu_loss_reduction reduction_of(net *n) { return (ipu_loss_reduction)net_int(n, 0, 2); }

static bool make_class_loss(net *n)
{
    ipu_value x = net_pick(n, 2, 4);
    ipu_shape s = ipu_value_shape(x), labels = {.rank = s.rank - 1, .dim = {s.dim[0]}};
    for (int d = 2; d < s.rank; d++) labels.dim[d - 1] = s.dim[d];
    ipu_type         type        = net_chance(n, 50) ? IPU_INT32 : IPU_INT64;
    ipu_value        t           = net_constant(n, type, labels, 0, (double)s.dim[1] - 1);
    ipu_loss_options o           = {.reduction = reduction_of(n)};
    bool             with_weight = net_chance(n, 40), is_nll = net_chance(n, 40);
    char             more[128] = "";
    if (with_weight) o.weight = net_constant(n, IPU_FLOAT, IPU_SHAPE(s.dim[1]), 0.5, 2);
    if (with_weight) snprintf(more, sizeof more, ", weight=v%u", o.weight.id);
    if (!is_nll && net_chance(n, 40)) {
        o.label_smoothing = 0.1;
        strcat(more, ", label_smoothing=0.1");
    }
    ipu_value y = is_nll ? ipu_nll_loss_with(n->b, x, t, o) : ipu_cross_entropy_with(n->b, x, t, o);
    net_add(n, y, "F.%s(v%u.contiguous(), v%u.long(), reduction='%s'%s)",
            is_nll ? "nll_loss" : "cross_entropy", x.id, t.id, reduction_text(o.reduction), more);
    return true;
}

static bool make_loss(net *n)
{
    static const char *const texts[] = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"};
    int                      k       = net_int(n, 0, 3);
    ipu_value                x = net_pick(n, 1, 4), y, t = net_param(n, ipu_value_shape(x), -2, 2);
    ipu_loss_reduction       r = reduction_of(n);
    if (k == 0)
        y = ipu_mse_loss(n->b, x, t, r);
    else if (k == 1)
        y = ipu_l1_loss(n->b, x, t, r);
    else if (k == 2)
        y = ipu_smooth_l1_loss(n->b, x, t, 1, r);
    else
        y = ipu_huber_loss(n->b, x, t, 1, r);
    net_add(n, y, "F.%s(v%u, v%u, reduction='%s')", texts[k], x.id, t.id, reduction_text(r));
    return true;
}

static bool make_probability_loss(net *n)
{
    ipu_value          x = net_pick(n, 1, 4), t = net_constant(n, IPU_FLOAT, ipu_value_shape(x), 0, 1);
    ipu_loss_reduction r    = reduction_of(n);
    const char        *text = reduction_text(r);
    int                k    = net_int(n, 0, 2);
    ipu_value          y;
    if (k == 0) {
        y = ipu_bce_loss(n->b, ipu_sigmoid(n->b, x), t, r);
        net_add(n, y, "F.binary_cross_entropy(torch.sigmoid(v%u), v%u, reduction='%s')", x.id, t.id, text);
    } else if (k == 1) {
        ipu_value w = net_constant(n, IPU_FLOAT, IPU_SHAPE(ipu_value_dim(x, -1)), 0.5, 2);
        y           = ipu_bce_with_logits_loss(n->b, x, t, w, r);
        net_add(n, y, "F.binary_cross_entropy_with_logits(v%u, v%u, pos_weight=v%u, reduction='%s')", x.id,
                t.id, w.id, text);
    } else {
        bool is_log = net_chance(n, 50);
        y           = ipu_kl_div_loss(n->b, x, t, is_log, r);
        net_add(n, y, "F.kl_div(v%u, v%u, log_target=%s, reduction='%s')", x.id, t.id,
                is_log ? "True" : "False", text);
    }
    return true;
}

const net_layer net_math_layers[] = {
    {"elementwise", make_unary},
    {"elementwise", make_unary},
    {"elementwise", make_unary},
    {"elementwise", make_binary},
    {"elementwise", make_binary},
    {"elementwise", make_where},
    {"elementwise", make_parametrised},
    {"matmul", make_linear},
    {"matmul", make_matmul},
    {"matmul", make_gemm},
    {"conv", make_conv},
    {"conv", make_conv_transpose},
    {"reduce", make_reduction},
    {"reduce", make_reduction},
    {"reduce", make_variance},
    {"reduce", make_prod},
    {"reduce", make_argmax},
    {"softmax", make_softmax},
    {"loss", make_class_loss},
    {"loss", make_loss},
    {"loss", make_probability_loss},
    {NULL, NULL},
};
