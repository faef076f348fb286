/* Convolutions of ONNX. */
#include "ipu/op.h"
#include "onnx/import/dequantized.h"
#include "onnx/import/import.h"
#include "onnx/import/window.h"

/* The extents of kernel w [.,.,...] of x; NULL and an error if their ranks differ. */
static const int64_t *kernel_of(ipu__node *n, ipu_value x, ipu_value w, ipu_shape *shape)
{
    *shape = ipu_value_shape(w);
    if (shape->rank == ipu_value_rank(x)) return shape->dim + 2;
    ipu__node_fail(n, IPU_INVALID, "the weight has %d dimensions, the input %d", shape->rank,
                   ipu_value_rank(x));
    return NULL;
}

static ipu_conv_options options_of(ipu__node *n, const ipu__window *w)
{
    ipu_conv_options o = {.has_padding_end = true, .groups = ipu__attr_int(n, "group", 1)};
    for (int i = 0; i < w->rank; i++) {
        o.stride[i]      = w->stride[i];
        o.dilation[i]    = w->dilation[i];
        o.padding[i]     = w->begin[i];
        o.padding_end[i] = w->end[i];
    }
    if (o.groups < 1) ipu__node_fail(n, IPU_INVALID, "group is %lld", (long long)o.groups);
    return o;
}

bool ipu__conv_options_of(ipu__node *n, ipu_value x, ipu_value w, ipu_conv_options *out)
{
    ipu_shape      shape;
    ipu__window    window;
    const int64_t *kernel = kernel_of(n, x, w, &shape);
    if (!kernel || !ipu__window_of(n, x, kernel, &window)) return false;
    *out = options_of(n, &window);
    return ipu__import_ok(n->im);
}

void ipu__onnx_Conv(ipu__node *n)
{
    ipu_value        x = ipu__in_needed(n, 0), w = ipu__in_needed(n, 1), bias = ipu__in(n, 2);
    ipu_conv_options o;
    if (!ipu__conv_options_of(n, x, w, &o)) return;
    ipu_value y = ipu__dequantized_conv(n, x, w, bias, o);
    ipu__give(n, 0, y.id ? y : ipu_conv(n->b, x, w, bias, o));
}

/* ---- transposed ---- */

/* Padding such that dimension i has `size` elements. Before opset 11 the odd one was on the other side. */
static void pad_to_size(const ipu__node *n, ipu__window *w, int i, int64_t full, int64_t size)
{
    int64_t total  = full - size;
    bool    at_end = (w->auto_pad == IPU__PAD_UPPER) == (n->version >= 11);
    w->begin[i]    = total < 0 ? 0 : at_end ? total / 2 : total - total / 2;
    w->end[i]      = total - w->begin[i];
}

/* Turns output_shape, output_padding and auto_pad into padding alone; negative: zeros are added. */
static bool transposed_padding(ipu__node *n, ipu_value x, ipu__window *w)
{
    size_t         n_sizes, n_extra;
    const int64_t *size  = ipu__attr_ints(n, "output_shape", &n_sizes);
    const int64_t *extra = ipu__attr_ints(n, "output_padding", &n_extra);
    size_t         rank  = (size_t)w->rank;
    if (n_sizes == rank + 2) size += 2; /* with batch and channels, as some old files have it */
    if ((n_sizes && n_sizes != rank && n_sizes != rank + 2) || (n_extra && n_extra != rank)) {
        ipu__node_fail(n, IPU_INVALID, "output_shape and output_padding must have %d numbers", w->rank);
        return false;
    }
    for (int i = 0; i < w->rank; i++) {
        int64_t in = ipu_value_dim(x, 2 + i), more = n_extra ? extra[i] : 0;
        if (more < 0 || more > INT32_MAX || (n_sizes && (size[i] < 0 || size[i] > INT32_MAX))) {
            ipu__node_fail(n, IPU_INVALID, "output_shape or output_padding is out of range");
            return false;
        }
        int64_t full = w->stride[i] * (in - 1) + (w->kernel[i] - 1) * w->dilation[i] + 1;
        if (n_sizes)
            pad_to_size(n, w, i, full + more, size[i]);
        else if (w->auto_pad >= IPU__PAD_UPPER)
            pad_to_size(n, w, i, full + more, in * w->stride[i]);
        w->end[i] -= more;
    }
    return ipu__import_ok(n->im);
}

void ipu__onnx_ConvTranspose(ipu__node *n)
{
    ipu_value      x = ipu__in_needed(n, 0), w = ipu__in_needed(n, 1), bias = ipu__in(n, 2);
    ipu_shape      shape;
    ipu__window    window;
    const int64_t *kernel = kernel_of(n, x, w, &shape);
    if (!kernel || !ipu__window_read(n, x, kernel, &window) || !transposed_padding(n, x, &window)) return;
    int64_t zeros[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    bool    has_more = false;
    for (int i = 0; i < window.rank; i++) {
        if (window.end[i] >= 0) continue;
        after[2 + i]  = -window.end[i];
        window.end[i] = 0;
        has_more      = true;
    }
    ipu_conv_options o = options_of(n, &window);
    ipu_value        y = ipu_conv_transpose(n->b, x, w, has_more ? IPU_NO_VALUE : bias, o);
    if (has_more) y = ipu_pad(n->b, y, zeros, after, IPU_PAD_CONSTANT, 0);
    if (has_more && bias.id) {
        ipu_shape channels = {.rank = ipu_value_rank(x), .dim = {1, 1, 1, 1, 1}};
        channels.dim[1]    = ipu_value_n_elements(bias);
        y                  = ipu_add(n->b, y, ipu_reshape(n->b, bias, channels));
    }
    ipu__give(n, 0, y);
}
