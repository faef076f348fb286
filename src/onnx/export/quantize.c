/* Ops on whole numbers of 8 bits, which are ONNX's own. */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op.h"
#include "onnx/export/export.h"
#include "onnx/tensor.h"

static void put_axis(ipu__wop *o, Ipu__NodeProto *node)
{
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
}

/* A scale of one element is one for all; ONNX wants it to be a scalar, or one for each place of the axis. */
static const char *take_scale(ipu__wop *o, int i)
{
    const ipu_shape *shape = &o->call.operand[i].shape;
    if (!o->op->in[i] || shape->rank == 0 || shape->dim[0] != 1) return ipu__take(o, i);
    return ipu__put(o->w, "Reshape", IPU__NAMES(ipu__take(o, i), ipu__put_list(o->w, NULL, 0)), NULL)
        ->output[0];
}

/* The type of the result is that of the zero point: a missing one is put there if it is not uint8. */
static const char *zero_point(ipu__wop *o, int i, int like, ipu_type type)
{
    if (o->op->in[i]) return take_scale(o, i);
    const ipu_shape *shape = &o->call.operand[like].shape;
    const char      *zero  = ipu__put_scalar(o->w, type, 0);
    if (shape->rank == 0 || shape->dim[0] == 1) return zero;
    return ipu__put(o->w, "Expand", IPU__NAMES(zero, ipu__put_list(o->w, shape->dim, (size_t)shape->rank)),
                    NULL)
        ->output[0];
}

bool ipu__write_quantize_linear(ipu__wop *o)
{
    ipu_type type = o->call.operand[3].type;
    if (o->call.operand[0].type != IPU_FLOAT) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "QuantizeLinear",
                                    IPU__NAMES(ipu__take(o, 0), take_scale(o, 1), zero_point(o, 2, 1, type)),
                                    o->out[0]);
    put_axis(o, node);
    return true;
}

bool ipu__write_dequantize_linear(ipu__wop *o)
{
    if (o->call.operand[1].type != IPU_FLOAT) return false;
    Ipu__NodeProto *node = ipu__put(
        o->w, "DequantizeLinear", IPU__NAMES(ipu__take(o, 0), take_scale(o, 1), take_scale(o, 2)), o->out[0]);
    put_axis(o, node);
    return true;
}

bool ipu__write_dynamic_quantize_linear(ipu__wop *o)
{
    if (o->call.operand[0].type != IPU_FLOAT) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "DynamicQuantizeLinear", IPU__NAMES(ipu__take(o, 0)), o->out[0]);
    for (int i = 1; i < 3; i++)
        ipu__put_output(o->w, node, ipu__gives(o, i) ? o->out[i] : ipu__fresh(o->w, "quantized"));
    return true;
}

/* ---- products ---- */

static const char *take_all(ipu__wop *o, const char **in)
{
    for (int i = 0; i < (int)o->op->n_in; i++) in[i] = ipu__take(o, i);
    return o->out[0];
}

bool ipu__write_matmul_integer(ipu__wop *o)
{
    const char *in[4], *out = take_all(o, in);
    ipu__put(o->w, "MatMulInteger", in, 4, out);
    return true;
}

bool ipu__write_qlinear_matmul(ipu__wop *o)
{
    const char *in[8], *out = take_all(o, in);
    in[2] = zero_point(o, 2, 1, o->call.operand[0].type);
    in[5] = zero_point(o, 5, 4, o->call.operand[3].type);
    in[7] = zero_point(o, 7, 6, o->call.operand[8].type);
    ipu__put(o->w, "QLinearMatMul", in, 8, out);
    return true;
}

static void put_geometry(ipu__wop *o, Ipu__NodeProto *node)
{
    static const char *const names[][2] = {
        {"stride", "strides"}, {"padding", "pads"}, {"dilation", "dilations"}};
    for (int i = 0; i < 3; i++) {
        size_t         n;
        const int64_t *list = ipu__op_ints(&o->call, names[i][0], &n);
        if (n > 0) ipu__put_ints(o->w, node, names[i][1], list, n);
    }
    ipu__put_int(o->w, node, "group", ipu__op_int(&o->call, "groups"));
}

bool ipu__write_conv_integer(ipu__wop *o)
{
    const char *in[4], *out = take_all(o, in);
    put_geometry(o, ipu__put(o->w, "ConvInteger", in, 4, out));
    return true;
}

bool ipu__write_qlinear_conv(ipu__wop *o)
{
    const char *in[9], *out = take_all(o, in);
    in[2] = zero_point(o, 2, 1, o->call.operand[0].type);
    in[5] = zero_point(o, 5, 4, o->call.operand[3].type);
    in[7] = zero_point(o, 7, 6, o->call.operand[9].type);
    put_geometry(o, ipu__put(o->w, "QLinearConv", in, 9, out));
    return true;
}

/* ---- there and back, in numbers of any width ---- */

void ipu__rewrite_fake_quantize(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                ipu_value *out)
{
    ipu_value x = in[0], scale = in[1], zero = in[2];
    int       rank = ipu_value_rank(x), axis = (int)ipu__op_int(call, "axis");
    ipu_shape line   = {.rank = rank};
    bool      is_one = ipu_value_n_elements(scale) == 1;
    if (axis < 0) axis += rank;
    for (int d = 0; d < rank; d++) line.dim[d] = d == axis && !is_one ? ipu_value_dim(x, d) : 1;
    scale         = ipu_reshape(b, scale, line);
    ipu_value y   = ipu_round(b, ipu_div(b, x, scale));
    double    low = (double)ipu__op_int(call, "low"), high = (double)ipu__op_int(call, "high");
    if (ipu__has(zero)) zero = ipu_reshape(b, ipu_cast(b, zero, ipu_value_type(x)), line);
    if (ipu__has(zero)) y = ipu_add(b, y, zero);
    y = ipu_clip(b, y, low, high);
    if (ipu__has(zero)) y = ipu_sub(b, y, zero);
    out[0] = ipu_mul(b, y, scale);
}
