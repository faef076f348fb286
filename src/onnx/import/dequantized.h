/* Products of dequantised numbers, computed on the whole numbers they were.
 *
 * Files that were quantised say DequantizeLinear, Conv, QuantizeLinear. Sums of scaled products would be
 * rounded at every step, and some of those at the border of two steps would be quantised to the other one;
 * sums of whole numbers below 2^24 are exact in float.
 */
#ifndef IPU_ONNX_IMPORT_DEQUANTIZED_H
#define IPU_ONNX_IMPORT_DEQUANTIZED_H

#include "ipu/op/conv.h"
#include "onnx/import/import.h"

/* Null if an operand was not dequantised, or not in a way that allows it; in training, too, which needs
 * gradients. */
ipu_value ipu__dequantized_conv(ipu__node *n, ipu_value x, ipu_value w, ipu_value bias,
                                ipu_conv_options options);
/* a times x, x transposed if `transpose`; bias may be null. */
ipu_value ipu__dequantized_matmul(ipu__node *n, ipu_value a, ipu_value x, bool transpose, ipu_value bias);
ipu_value ipu__dequantized_mean(ipu__node *n, ipu_value x, const int *axes, int n_axes);

#endif
