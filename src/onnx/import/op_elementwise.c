/* Elementwise ops of ONNX that are more than a name. */
#include <math.h>
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/broadcast.h"
#include "onnx/import/import.h"

ipu_value ipu__aligned(ipu__node *n, ipu_value x, ipu_value y)
{
    if (n->version >= 7 || !ipu__attr_int(n, "broadcast", 0) || !ipu__attr(n, "axis")) return y;
    ipu_shape shape = ipu_value_shape(y);
    int       axis  = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    while (shape.rank < ipu_value_rank(x) - axis && shape.rank < IPU_MAX_RANK) shape.dim[shape.rank++] = 1;
    return ipu_reshape(n->b, y, shape);
}

/* ---- one input ---- */

void ipu__onnx_Celu(ipu__node *n)
{
    ipu__give(n, 0, ipu_celu(n->b, ipu__in_needed(n, 0), ipu__attr_float(n, "alpha", 1)));
}

void ipu__onnx_Elu(ipu__node *n)
{
    ipu__give(n, 0, ipu_elu(n->b, ipu__in_needed(n, 0), ipu__attr_float(n, "alpha", 1)));
}

void ipu__onnx_LeakyRelu(ipu__node *n)
{
    ipu__give(n, 0, ipu_leaky_relu(n->b, ipu__in_needed(n, 0), ipu__attr_float(n, "alpha", 0.01f)));
}

void ipu__onnx_Selu(ipu__node *n)
{
    ipu_value x     = ipu__in_needed(n, 0);
    double    alpha = ipu__attr_float(n, "alpha", 1.67326319217681884765625),
           gamma    = ipu__attr_float(n, "gamma", 1.05070102214813232421875);
    ipu__give(n, 0, ipu_mul(n->b, ipu_elu(n->b, x, alpha), ipu_scalar_like(n->b, x, gamma)));
}

void ipu__onnx_Gelu(ipu__node *n)
{
    ipu_value x       = ipu__in_needed(n, 0);
    bool      is_tanh = strcmp(ipu__attr_text(n, "approximate", "none"), "tanh") == 0;
    ipu__give(n, 0, is_tanh ? ipu_gelu_tanh(n->b, x) : ipu_gelu(n->b, x));
}

void ipu__onnx_HardSigmoid(ipu__node *n)
{
    ipu_value x     = ipu__in_needed(n, 0);
    double    alpha = ipu__attr_float(n, "alpha", 0.2f), beta = ipu__attr_float(n, "beta", 0.5f);
    ipu_value line = ipu_add(n->b, ipu_mul(n->b, x, ipu_scalar_like(n->b, x, alpha)),
                             ipu_scalar_like(n->b, x, beta));
    ipu__give(n, 0, ipu_clip(n->b, line, 0, 1));
}

void ipu__onnx_ThresholdedRelu(ipu__node *n)
{
    ipu__give(n, 0, ipu_threshold(n->b, ipu__in_needed(n, 0), ipu__attr_float(n, "alpha", 1), 0));
}

void ipu__onnx_Softplus(ipu__node *n) { ipu__give(n, 0, ipu_softplus(n->b, ipu__in_needed(n, 0), 1, 20)); }

void ipu__onnx_Shrink(ipu__node *n)
{
    double lambd = ipu__attr_float(n, "lambd", 0.5), bias = ipu__attr_float(n, "bias", 0);
    ipu__give(n, 0, ipu_shrink(n->b, ipu__in_needed(n, 0), lambd, bias));
}

void ipu__onnx_IsInf(ipu__node *n)
{
    ipu_builder *b        = n->b;
    ipu_value    x        = ipu__in_needed(n, 0);
    bool         positive = ipu__attr_int(n, "detect_positive", 1) != 0;
    bool         negative = ipu__attr_int(n, "detect_negative", 1) != 0;
    ipu_value    is_inf   = ipu_isinf(b, x);
    if (positive && negative)
        ipu__give(n, 0, is_inf);
    else if (!positive && !negative)
        ipu__give(n, 0, ipu_constant_value(b, IPU_BOOL, ipu_value_shape(x), 0));
    else {
        ipu_value zero = ipu_scalar_like(b, x, 0);
        ipu__give(n, 0,
                  ipu_logical_and(b, is_inf, positive ? ipu_greater(b, x, zero) : ipu_less(b, x, zero)));
    }
}

/* The bounds are attributes before opset 11, then inputs, which need not be known. */
void ipu__onnx_Clip(ipu__node *n)
{
    ipu_builder *b = n->b;
    ipu_value    x = ipu__in_needed(n, 0), low = ipu__in(n, 1), high = ipu__in(n, 2);
    if (n->version < 11) {
        ipu__give(n, 0,
                  ipu_clip(b, x, ipu__attr_float(n, "min", -INFINITY), ipu__attr_float(n, "max", INFINITY)));
        return;
    }
    if (low.id) x = ipu_maximum(b, x, ipu_reshape(b, low, (ipu_shape){0}));
    if (high.id) x = ipu_minimum(b, x, ipu_reshape(b, high, (ipu_shape){0}));
    ipu__give(n, 0, x);
}

/* ---- types ---- */

void ipu__onnx_Cast(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0);
    if (n->version < 6 && ipu__attr(n, "to")) { /* the type's name as text */
        const char *to = ipu__attr_text(n, "to", "");
        for (int i = 0; i < IPU_N_TYPES; i++)
            if (strcasecmp(ipu_type_name((ipu_type)i), to) == 0)
                ipu__give(n, 0, ipu_cast(n->b, x, (ipu_type)i));
        if (strcmp(to, "FLOAT16") == 0) ipu__give(n, 0, ipu_cast(n->b, x, IPU_HALF));
        return;
    }
    ipu__give(n, 0, ipu_cast(n->b, x, ipu__attr_type(n, "to", ipu__float(n->im))));
}

void ipu__onnx_CastLike(ipu__node *n)
{
    ipu__give(n, 0, ipu_cast(n->b, ipu__in_needed(n, 0), ipu_value_type(ipu__in_needed(n, 1))));
}

/* ---- several inputs ---- */

static ipu_value fold_inputs(ipu__node *n, ipu_value (*f)(ipu_builder *, ipu_value, ipu_value))
{
    ipu_value all = ipu__in_needed(n, 0);
    for (size_t i = 1; i < n->n_in; i++) all = f(n->b, all, ipu__in_needed(n, i));
    return all;
}

void ipu__onnx_Max(ipu__node *n) { ipu__give(n, 0, fold_inputs(n, ipu_maximum)); }
void ipu__onnx_Min(ipu__node *n) { ipu__give(n, 0, fold_inputs(n, ipu_minimum)); }
void ipu__onnx_Sum(ipu__node *n) { ipu__give(n, 0, fold_inputs(n, ipu_add)); }

void ipu__onnx_Mean(ipu__node *n)
{
    ipu_value sum = fold_inputs(n, ipu_add);
    ipu__give(n, 0, ipu_div(n->b, sum, ipu_scalar_like(n->b, sum, (double)n->n_in)));
}

void ipu__onnx_Mod(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), y = ipu__in_needed(n, 1);
    ipu__give(n, 0, ipu__attr_int(n, "fmod", 0) ? ipu_fmod(n->b, x, y) : ipu_mod(n->b, x, y));
}

void ipu__onnx_BitShift(ipu__node *n)
{
    ipu_value   x = ipu__in_needed(n, 0), y = ipu__in_needed(n, 1);
    const char *direction = ipu__attr_text(n, "direction", "");
    if (strcmp(direction, "LEFT") == 0)
        ipu__give(n, 0, ipu_shift_left(n->b, x, y));
    else if (strcmp(direction, "RIGHT") == 0)
        ipu__give(n, 0, ipu_shift_right(n->b, x, y));
    else
        ipu__node_fail(n, IPU_INVALID, "direction is \"%s\"; expected LEFT or RIGHT", direction);
}

/* The result has the type of the base, whatever that of the exponent. */
void ipu__onnx_Pow(ipu__node *n)
{
    ipu_builder *b = n->b;
    ipu_value    x = ipu__in_needed(n, 0), y = ipu__aligned(n, x, ipu__in_needed(n, 1));
    ipu_type     type = ipu_value_type(x), power = ipu_value_type(y);
    if (type == power)
        ipu__give(n, 0, ipu_pow(b, x, y));
    else if (ipu__op_is_floating(type))
        ipu__give(n, 0, ipu_pow(b, x, ipu_cast(b, y, type)));
    else if (ipu__op_is_floating(power))
        ipu__give(n, 0, ipu_cast(b, ipu_pow(b, ipu_cast(b, x, power), y), type));
    else
        ipu__give(n, 0, ipu_pow(b, x, ipu_cast(b, y, type)));
}

/* Before opset 9 a slope of one dimension belongs to the channels. */
void ipu__onnx_PRelu(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), slope = ipu__in_needed(n, 1);
    int       rank = ipu_value_rank(x);
    if (n->version < 7 && ipu_value_rank(slope) == 1 && rank > 2 && ipu_value_dim(slope, 0) != 1) {
        ipu_shape shape = {.rank = rank - 1, .dim = {ipu_value_dim(slope, 0)}};
        for (int i = 1; i < shape.rank; i++) shape.dim[i] = 1;
        slope = ipu_reshape(n->b, slope, shape);
    }
    ipu__give(n, 0, ipu_prelu(n->b, x, slope));
}

void ipu__onnx_Where(ipu__node *n)
{
    ipu__give(n, 0, ipu_where(n->b, ipu__in_needed(n, 0), ipu__in_needed(n, 1), ipu__in_needed(n, 2)));
}
