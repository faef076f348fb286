/* Attributes of ONNX ops that slide a window: kernel_shape, strides, dilations, pads, auto_pad. */
#ifndef IPU_ONNX_IMPORT_WINDOW_H
#define IPU_ONNX_IMPORT_WINDOW_H

#include "ipu/op/conv.h"
#include "onnx/import/import.h"

enum { IPU__WINDOW_DIMS = 3 };

typedef enum ipu__auto_pad { IPU__PAD_GIVEN, IPU__PAD_VALID, IPU__PAD_UPPER, IPU__PAD_LOWER } ipu__auto_pad;

typedef struct ipu__window {
    int           rank; /* 1 to 3 dimensions */
    int64_t       kernel[IPU__WINDOW_DIMS], stride[IPU__WINDOW_DIMS], dilation[IPU__WINDOW_DIMS];
    int64_t       begin[IPU__WINDOW_DIMS], end[IPU__WINDOW_DIMS]; /* padding */
    ipu__auto_pad auto_pad;
} ipu__window;

/* Of op `n` on x [N,C,...]. `kernel`: its extents if they are those of a weight (kernel_shape must agree), or
 * NULL. auto_pad has been turned into padding. False: an error. */
bool ipu__window_of(ipu__node *n, ipu_value x, const int64_t *kernel, ipu__window *out);
/* The same without doing so, for ops whose padding follows other rules. */
bool ipu__window_read(ipu__node *n, ipu_value x, const int64_t *kernel, ipu__window *out);

/* Those of a convolution of x with w, whose extents are the window's (op_conv.c). */
bool ipu__conv_options_of(ipu__node *n, ipu_value x, ipu_value w, ipu_conv_options *out);

#endif
