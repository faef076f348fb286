/* Numbers of 8 bits and their scales: quantising, and products of what was quantised, as in ONNX.
 *
 *     ipu_value q = ipu_quantize_linear(b, x, scale, zero_point, 1);      q = round(x / scale) + zero_point
 *     ipu_value y = ipu_dequantize_linear(b, q, scale, zero_point, 1);    y = (q - zero_point) * scale
 *
 * Rounding is to the nearest, ties to even; what the type cannot hold becomes its least or greatest. A scale
 * or zero point is a scalar (or of shape [1]), or has an element for each place along an axis: of `axis`, of
 * the rows of a left and the columns of a right factor, of the output channels of a weight. Zero points may
 * be null: 0. Products are summed in 32 bits, which wrap.
 */
#ifndef IPU_OP_QUANTIZE_H
#define IPU_OP_QUANTIZE_H

#include "ipu/builder.h"
#include "ipu/op/conv.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To the type of `zero_point`, int8 or uint8; to uint8 if that is null. */
ipu_value ipu_quantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis);
/* From int8, uint8 or int32, to the type of `scale`. */
ipu_value ipu_dequantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis);
/* To uint8, by the range of x and 0, which is exact: as ONNX's DynamicQuantizeLinear. x is float. */
ipu_value ipu_dynamic_quantize_linear(ipu_builder *b, ipu_value x, ipu_value *scale, ipu_value *zero_point);

/* Quantised to whole numbers low .. high and back, in x's type. The gradient of x is that of y where x is
 * in range, else 0, as if nothing had been rounded; scale and zero_point (int32, may be null) have none. */
ipu_value ipu_fake_quantize(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis,
                            int64_t low, int64_t high);

/* int32 from int8 and uint8; batches as in ipu_matmul. Padding of x stands for 0: it is x's zero point. */
ipu_value ipu_matmul_integer(ipu_builder *b, ipu_value a, ipu_value x, ipu_value a_zero_point,
                             ipu_value x_zero_point);
ipu_value ipu_conv_integer(ipu_builder *b, ipu_value x, ipu_value w, ipu_value x_zero_point,
                           ipu_value w_zero_point, ipu_conv_options options);

/* What is quantised, and how. */
typedef struct ipu_quantized {
    ipu_value x, scale, zero_point;
} ipu_quantized;

/* The product, quantised by y_scale and y_zero_point (scalars), whose type it has. `bias`: int32, in steps
 * of x's scale times w's, or null. */
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
