/* Quantised ops of ONNX: numbers of 8 bits. */
#include "ipu/op.h"
#include "onnx/import/import.h"
#include "onnx/import/window.h"

/* Scales of blocks and other types are of newer opsets. */
static bool plain_quantisation(ipu__node *n)
{
    if (ipu__attr_int(n, "block_size", 0) != 0)
        ipu__node_fail(n, IPU_UNSUPPORTED, "a block_size is not supported");
    return ipu__import_ok(n->im);
}

/* One scale is for all: the axis, which may be none of x's, does not matter then. */
static int axis_of(ipu__node *n, ipu_value x, ipu_value scale)
{
    return ipu_value_n_elements(scale) == 1 ? 0 : ipu__axis(n, "axis", 1, ipu_value_rank(x));
}

void ipu__onnx_QuantizeLinear(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), scale = ipu__in_needed(n, 1), zero_point = ipu__in(n, 2);
    if (!plain_quantisation(n)) return;
    if (ipu_value_type(x) != ipu_value_type(scale)) x = ipu_cast(n->b, x, ipu_value_type(scale)); /* int32 */
    ipu_type type = zero_point.id ? ipu_value_type(zero_point) : IPU_UINT8;
    if (ipu__attr_int(n, "output_dtype", 0) != 0) type = ipu__attr_type(n, "output_dtype", type);
    if (!zero_point.id && type != IPU_UINT8)
        zero_point = ipu_constant_value(n->b, type, ipu_value_shape(scale), 0);
    ipu__give(n, 0, ipu_quantize_linear(n->b, x, scale, zero_point, axis_of(n, x, scale)));
}

void ipu__onnx_DequantizeLinear(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), scale = ipu__in_needed(n, 1);
    if (plain_quantisation(n))
        ipu__give(n, 0, ipu_dequantize_linear(n->b, x, scale, ipu__in(n, 2), axis_of(n, x, scale)));
}

void ipu__onnx_DynamicQuantizeLinear(ipu__node *n)
{
    ipu_value scale, zero_point;
    ipu__give(n, 0, ipu_dynamic_quantize_linear(n->b, ipu__in_needed(n, 0), &scale, &zero_point));
    ipu__give(n, 1, scale);
    ipu__give(n, 2, zero_point);
}

/* ---- products ---- */

void ipu__onnx_MatMulInteger(ipu__node *n)
{
    ipu_value a = ipu__in_needed(n, 0), x = ipu__in_needed(n, 1);
    ipu__give(n, 0, ipu_matmul_integer(n->b, a, x, ipu__in(n, 2), ipu__in(n, 3)));
}

void ipu__onnx_ConvInteger(ipu__node *n)
{
    ipu_value        x = ipu__in_needed(n, 0), w = ipu__in_needed(n, 1);
    ipu_conv_options o;
    if (ipu__conv_options_of(n, x, w, &o))
        ipu__give(n, 0, ipu_conv_integer(n->b, x, w, ipu__in(n, 2), ipu__in(n, 3), o));
}

static ipu_quantized quantized_at(ipu__node *n, size_t i)
{
    return (ipu_quantized){ipu__in_needed(n, i), ipu__in_needed(n, i + 1), ipu__in_needed(n, i + 2)};
}

void ipu__onnx_QLinearMatMul(ipu__node *n)
{
    ipu_quantized a = quantized_at(n, 0), x = quantized_at(n, 3);
    ipu__give(n, 0, ipu_qlinear_matmul(n->b, a, x, ipu__in_needed(n, 6), ipu__in_needed(n, 7)));
}

void ipu__onnx_QLinearConv(ipu__node *n)
{
    ipu_quantized    x = quantized_at(n, 0), w = quantized_at(n, 3);
    ipu_value        y_scale = ipu__in_needed(n, 6), y_zero_point = ipu__in_needed(n, 7);
    ipu_conv_options o;
    if (ipu__import_ok(n->im) && ipu__conv_options_of(n, x.x, w.x, &o))
        ipu__give(n, 0, ipu_qlinear_conv(n->b, x, w, y_scale, y_zero_point, ipu__in(n, 8), o));
}
