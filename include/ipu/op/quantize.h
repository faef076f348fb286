/* Quantisation to 8 bits, and products of quantised values, as in ONNX.
 *
 *     ipu_value q = ipu_quantize_linear(b, x, scale, zero_point, 1);      q = round(x / scale) + zero_point
 *     ipu_value y = ipu_dequantize_linear(b, q, scale, zero_point, 1);    y = (q - zero_point) * scale
 *
 * Rounding is to nearest, ties to even, and saturates. A scale or zero point is a scalar (or of shape [1]),
 * or has one element per index of an axis: `axis`, the rows of a left or the columns of a right factor, the
 * output channels of a weight. A null zero point means 0. Products are summed in 32 bits, which wrap.
 */
#ifndef IPU_OP_QUANTIZE_H
#define IPU_OP_QUANTIZE_H

#include "ipu/builder.h"
#include "ipu/op/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To the type of `zero_point`, int8 or uint8, or to uint8 if that is null. */
ipu_value ipu_quantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis);
/* From int8, uint8 or int32, to the type of `scale`. */
ipu_value ipu_dequantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis);
/* To uint8, with the scale chosen so that the range of x fits and 0 is exact, as in ONNX's
 * DynamicQuantizeLinear. x is float. */
ipu_value ipu_dynamic_quantize_linear(ipu_builder *b, ipu_value x, ipu_value *scale, ipu_value *zero_point);

/* Quantised to integers low .. high and back, in the type of x. The gradient passes where x is in range, as
 * if nothing had been rounded, and is 0 elsewhere; scale and zero_point (int32, may be null) have none. */
ipu_value ipu_fake_quantize(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis,
                            int64_t low, int64_t high);

/* int32 from int8 and uint8; batches as in ipu_matmul. Padding of x is its zero point, which stands for 0. */
ipu_value ipu_matmul_integer(ipu_builder *b, ipu_value a, ipu_value x, ipu_value a_zero_point,
                             ipu_value x_zero_point);
ipu_value ipu_conv_integer(ipu_builder *b, ipu_value x, ipu_value w, ipu_value x_zero_point,
                           ipu_value w_zero_point, ipu_conv_options options);

/* A quantised value with its scale and zero point. */
typedef struct ipu_quantized {
    ipu_value x, scale, zero_point;
} ipu_quantized;

/* The product, quantised with y_scale and y_zero_point (scalars); y_zero_point determines the type. `bias`:
 * int32, in units of x's scale times w's, or null. */
ipu_value ipu_qlinear_matmul(ipu_builder *b, ipu_quantized a, ipu_quantized x, ipu_value y_scale,
                             ipu_value y_zero_point);
ipu_value ipu_qlinear_conv(ipu_builder *b, ipu_quantized x, ipu_quantized w, ipu_value y_scale,
                           ipu_value y_zero_point, ipu_value bias, ipu_conv_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_quantize_linear(...) IPU_AT(ipu_quantize_linear(__VA_ARGS__))
#define ipu_dequantize_linear(...) IPU_AT(ipu_dequantize_linear(__VA_ARGS__))
#define ipu_dynamic_quantize_linear(...) IPU_AT(ipu_dynamic_quantize_linear(__VA_ARGS__))
#define ipu_fake_quantize(...) IPU_AT(ipu_fake_quantize(__VA_ARGS__))
#define ipu_matmul_integer(...) IPU_AT(ipu_matmul_integer(__VA_ARGS__))
#define ipu_conv_integer(...) IPU_AT(ipu_conv_integer(__VA_ARGS__))
#define ipu_qlinear_matmul(...) IPU_AT(ipu_qlinear_matmul(__VA_ARGS__))
#define ipu_qlinear_conv(...) IPU_AT(ipu_qlinear_conv(__VA_ARGS__))
#endif
#endif
