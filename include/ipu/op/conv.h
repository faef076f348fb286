/* Convolutions of one, two and three dimensions, as in PyTorch (no kernel is flipped).
 *
 *     ipu_value y = ipu_conv(b, x, w, bias, (ipu_conv_options){.stride = {2, 2}, .padding = {1, 1}});
 *
 * x is [n, channels, ...], w is [out channels, channels / groups, ...], bias is [out channels] or null; the
 * rank of x (3, 4 or 5) determines how many dimensions are convolved. 0 in the options means the default, so
 * {0} is a plain convolution.
 */
#ifndef IPU_OP_CONV_H
#define IPU_OP_CONV_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_conv_options {
    int64_t stride[3];         /* 0 means 1 */
    int64_t padding[3];        /* zeros before, and also after unless has_padding_end */
    int64_t padding_end[3];    /* zeros after; used if has_padding_end */
    bool    has_padding_end;   /* asymmetric padding */
    int64_t dilation[3];       /* 0 means 1 */
    int64_t groups;            /* 0 means 1; depthwise if equal to the channels */
    int64_t output_padding[3]; /* of ipu_conv_transpose only: added to one side of the output */
} ipu_conv_options;

ipu_value ipu_conv(ipu_builder *b, ipu_value x, ipu_value w, ipu_value bias, ipu_conv_options options);

/* The gradient of ipu_conv with respect to its input, as a layer: w is [channels, out channels / groups,
 * ...], and padding is removed from the output. */
ipu_value ipu_conv_transpose(ipu_builder *b, ipu_value x, ipu_value w, ipu_value bias,
                             ipu_conv_options options);

/* The parts of the gradient of ipu_conv: for an input whose convolved dimensions are size[0..n), and for a
 * weight whose kernel is kernel[0..n). */
ipu_value ipu_conv_input_grad(ipu_builder *b, ipu_value d_y, ipu_value w, const int64_t *size,
                              ipu_conv_options options);
ipu_value ipu_conv_weight_grad(ipu_builder *b, ipu_value x, ipu_value d_y, const int64_t *kernel,
                               ipu_conv_options options);

typedef struct ipu_window_options {
    int64_t kernel[2];
    int64_t stride[2];   /* 0: 1 */
    int64_t padding[2];  /* zeros before and after */
    int64_t dilation[2]; /* 0: 1 */
} ipu_window_options;

/* [..., c, h, w] to [..., c kh kw, windows]: each window a column (torch's unfold), and back to planes of size[0] by
 * size[1], elements of several windows added up (torch's fold). Any type; the way back: numbers. */
ipu_value ipu_im2col(ipu_builder *b, ipu_value x, ipu_window_options options);
ipu_value ipu_col2im(ipu_builder *b, ipu_value x, const int64_t *size, ipu_window_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_conv(...) IPU_AT(ipu_conv(__VA_ARGS__))
#define ipu_conv_transpose(...) IPU_AT(ipu_conv_transpose(__VA_ARGS__))
#define ipu_conv_input_grad(...) IPU_AT(ipu_conv_input_grad(__VA_ARGS__))
#define ipu_conv_weight_grad(...) IPU_AT(ipu_conv_weight_grad(__VA_ARGS__))
#define ipu_im2col(...) IPU_AT(ipu_im2col(__VA_ARGS__))
#define ipu_col2im(...) IPU_AT(ipu_col2im(__VA_ARGS__))
#endif
#endif
