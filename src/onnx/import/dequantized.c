/* Dequantised operands: found by the op that gave them, multiplied as whole numbers, scaled once. */
#include "onnx/import/dequantized.h"

#include <math.h>
#include <string.h>

#include "ipu/op.h"

typedef struct source {
    ipu_value x, scale, zero_point;
    int       axis; /* -1: one scale for all */
} source;

/* What `v` was dequantised from. */
static bool find_source(ipu__node *n, ipu_value v, source *out)
{
    const ipu_model *m = n->m;
    if (v.id == 0 || n->im->options->training) return false;
    const ipu__model_value *value = &m->values.at[v.id];
    const ipu__model_op    *op    = value->kind == IPU__VALUE_OP ? &m->ops.at[value->of] : NULL;
    if (!op || op->kind != IPU__MODEL_OP || op->def != &ipu__op_dequantize_linear || op->n_in != 3)
        return false;
    *out = (source){{n->b, op->in[0]}, {n->b, op->in[1]}, {n->b, op->in[2]}, 0};
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, "axis") == 0) out->axis = (int)op->attributes[i].i;
    if (out->axis < 0) out->axis += ipu_value_rank(v);
    if (ipu_value_n_elements(out->scale) == 1) out->axis = -1;
    return ipu_value_type(out->scale) == IPU_FLOAT;
}

static bool find_byte(ipu__node *n, ipu_value v, source *out)
{
    if (!find_source(n, v, out)) return false;
    ipu_type type = ipu_value_type(out->x);
    return type == IPU_INT8 || type == IPU_UINT8;
}

/* The scale of products with x (one scale) and w: as many as w has. */
static ipu_value product_scale(ipu__node *n, const source *x, const source *w)
{
    ipu_value one = ipu_reshape(n->b, x->scale, (ipu_shape){0});
    return ipu_mul(n->b, w->axis < 0 ? ipu_reshape(n->b, w->scale, (ipu_shape){0}) : w->scale, one);
}

/* The whole numbers, as floats. */
static ipu_value whole(ipu__node *n, const source *s)
{
    ipu_value one = ipu_constant_value(n->b, IPU_FLOAT, ipu_value_shape(s->scale), 1);
    return ipu_dequantize_linear(n->b, s->x, one, s->zero_point, s->axis < 0 ? 0 : s->axis);
}

/* Whether a bias was int32 in steps of `scale`, as a quantiser writes it. */
static bool find_bias(ipu__node *n, ipu_value bias, ipu_value scale, source *out)
{
    if (!find_source(n, bias, out) || ipu_value_type(out->x) != IPU_INT32 || ipu_value_rank(out->x) != 1)
        return false;
    const int32_t *zero = out->zero_point.id ? ipu__known(n, out->zero_point) : NULL;
    for (int64_t i = 0; zero && i < ipu_value_n_elements(out->zero_point); i++)
        if (zero[i] != 0) return false;
    const float *own = ipu__known(n, out->scale), *want = ipu__known(n, scale);
    int64_t      n_own = ipu_value_n_elements(out->scale), n_want = ipu_value_n_elements(scale);
    if (!own || !want || (out->zero_point.id && !zero)) return false;
    for (int64_t i = 0; i < (n_own > n_want ? n_own : n_want); i++) {
        float a = own[n_own == 1 ? 0 : i], b = want[n_want == 1 ? 0 : i];
        if (fabsf(a - b) > 1e-6f * fabsf(b)) return false;
    }
    return true;
}

/* sum * scale + bias, channels along `axis`; bias may be null. */
static ipu_value finish(ipu__node *n, ipu_value sum, ipu_value scale, ipu_value bias, int axis)
{
    ipu_shape shape = {.rank = ipu_value_rank(sum)};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = 1;
    shape.dim[axis] = ipu_value_dim(sum, axis);
    if (ipu_value_rank(scale) == 1) scale = ipu_reshape(n->b, scale, shape);
    ipu_value y = ipu_mul(n->b, sum, scale);
    return bias.id ? ipu_add(n->b, y, ipu_reshape(n->b, bias, shape)) : y;
}

/* A bias in steps of `scale` as whole numbers, to be added before scaling; *bias is then null. */
static ipu_value whole_bias(ipu__node *n, ipu_value scale, ipu_value *bias)
{
    source b;
    if (bias->id == 0 || !find_bias(n, *bias, scale, &b)) return IPU_NO_VALUE;
    *bias = IPU_NO_VALUE;
    return ipu_cast(n->b, b.x, IPU_FLOAT);
}

ipu_value ipu__dequantized_conv(ipu__node *n, ipu_value x, ipu_value w, ipu_value bias,
                                ipu_conv_options options)
{
    source a, b;
    if (!find_byte(n, x, &a) || !find_byte(n, w, &b) || a.axis >= 0 || b.axis > 0) return IPU_NO_VALUE;
    ipu_value scale = product_scale(n, &a, &b), first = whole_bias(n, scale, &bias);
    return finish(n, ipu_conv(n->b, whole(n, &a), whole(n, &b), first, options), scale, bias, 1);
}

ipu_value ipu__dequantized_matmul(ipu__node *n, ipu_value a, ipu_value x, bool transpose, ipu_value bias)
{
    source l, r;
    int    rank = ipu_value_rank(x);
    if (!find_byte(n, a, &l) || !find_byte(n, x, &r) || l.axis >= 0 || ipu_value_rank(a) < 2 || rank < 2)
        return IPU_NO_VALUE;
    /* scales of columns, of one matrix, or none */
    if (r.axis >= 0 && (rank != 2 || r.axis != (transpose ? 0 : 1))) return IPU_NO_VALUE;
    if (bias.id
        && (ipu_value_rank(bias) != 1 || ipu_value_dim(bias, 0) != ipu_value_dim(x, transpose ? -2 : -1)))
        return IPU_NO_VALUE;
    ipu_value scale = product_scale(n, &l, &r), first = whole_bias(n, scale, &bias);
    ipu_value sum = ipu_matmul_with(n->b, whole(n, &l), whole(n, &r), false, transpose);
    if (first.id) sum = ipu_add(n->b, sum, first);
    return finish(n, sum, scale, bias, ipu_value_rank(sum) - 1);
}

ipu_value ipu__dequantized_mean(ipu__node *n, ipu_value x, const int *axes, int n_axes)
{
    source a;
    if (!find_byte(n, x, &a) || a.axis >= 0) return IPU_NO_VALUE;
    ipu_value mean = ipu_reduce_mean(n->b, whole(n, &a), axes, n_axes, true);
    return ipu_mul(n->b, mean, ipu_reshape(n->b, a.scale, (ipu_shape){0}));
}
