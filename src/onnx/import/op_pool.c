/* Pooling of ONNX. */
#include "ipu/op.h"
#include "onnx/import/dequantized.h"
#include "onnx/import/import.h"
#include "onnx/import/window.h"

static ipu_pool_options options_of(ipu__node *n, const ipu__window *w)
{
    ipu_pool_options o = {.has_padding_end = true, .ceil_mode = ipu__attr_int(n, "ceil_mode", 0) != 0};
    for (int i = 0; i < w->rank; i++) {
        o.kernel[i]      = w->kernel[i];
        o.stride[i]      = w->stride[i];
        o.dilation[i]    = w->dilation[i];
        o.padding[i]     = w->begin[i];
        o.padding_end[i] = w->end[i];
    }
    /* auto_pad says how many windows there are */
    if (w->auto_pad != IPU__PAD_GIVEN) o.ceil_mode = false;
    return o;
}

/* ---- maxima ---- */

static ipu_value int_like(ipu__node *n, int64_t value)
{
    return ipu_constant_data(n->b, IPU_INT64, (ipu_shape){0}, &value);
}

/* Places in a plane of shape[2..] counted with the first dimension fastest. */
static ipu_value by_columns(ipu__node *n, ipu_value at, const ipu_shape *shape)
{
    ipu_value sum                = IPU_NO_VALUE;
    int64_t   step[IPU_MAX_RANK] = {1, 1, 1};
    for (int i = 3; i < shape->rank; i++) step[i] = step[i - 1] * shape->dim[i - 1];
    for (int i = shape->rank - 1; i >= 2; i--) {
        ipu_value dim  = int_like(n, shape->dim[i]);
        ipu_value part = ipu_mul(n->b, ipu_mod(n->b, at, dim), int_like(n, step[i]));
        sum            = sum.id ? ipu_add(n->b, sum, part) : part;
        at             = ipu_div(n->b, at, dim);
    }
    return sum;
}

/* ONNX counts through the whole tensor, the op within its plane. */
static ipu_value flat_indices(ipu__node *n, ipu_value x, ipu_value indices)
{
    ipu_shape shape = ipu_value_shape(x), planes = {.rank = shape.rank, .dim = {1, 1, 1, 1, 1}};
    int64_t   plane = 1;
    for (int i = 2; i < shape.rank; i++) plane *= shape.dim[i];
    planes.dim[0] = shape.dim[0];
    planes.dim[1] = shape.dim[1];
    ipu_value at  = ipu_cast(n->b, indices, IPU_INT64);
    if (ipu__attr_int(n, "storage_order", 0)) at = by_columns(n, at, &shape);
    ipu_value first = ipu_arange(n->b, IPU_INT64, shape.dim[0] * shape.dim[1], 0, (double)plane);
    return ipu_add(n->b, at, ipu_reshape(n->b, first, planes));
}

void ipu__onnx_MaxPool(ipu__node *n)
{
    ipu_value   x = ipu__in_needed(n, 0), indices;
    ipu__window window;
    if (!ipu__window_of(n, x, NULL, &window)) return;
    ipu_pool_options o = options_of(n, &window);
    if (!ipu__wants(n, 1)) {
        ipu__give(n, 0, ipu_max_pool(n->b, x, o));
        return;
    }
    ipu__give(n, 0, ipu_max_pool_with_indices(n->b, x, o, &indices));
    if (ipu__import_ok(n->im)) ipu__give(n, 1, flat_indices(n, x, indices));
}

/* Places are those in the planes that the window makes; what output_shape has more is behind them, 0. */
void ipu__onnx_MaxUnpool(ipu__node *n)
{
    ipu_value      x = ipu__in_needed(n, 0), indices = ipu__in_needed(n, 1);
    ipu__window    w;
    const int64_t *shape;
    size_t         count;
    int64_t        size[IPU__WINDOW_DIMS], before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    if (!ipu__window_read(n, x, NULL, &w)) return;
    bool has_shape = ipu__in_ints(n, 2, &shape, &count);
    if (has_shape && count != (size_t)w.rank + 2) {
        ipu__node_fail(n, IPU_INVALID, "output_shape has %zu numbers; expected %d", count, w.rank + 2);
        return;
    }
    for (int i = 0; i < w.rank; i++) {
        size[i] = (ipu_value_dim(x, 2 + i) - 1) * w.stride[i] + w.kernel[i] - w.begin[i] - w.end[i];
        if (has_shape && __builtin_sub_overflow(shape[2 + i], size[i], &after[2 + i]))
            ipu__node_fail(n, IPU_INVALID, "output_shape has %lld", (long long)shape[2 + i]);
    }
    ipu_value y = ipu_max_unpool_flat(n->b, x, indices, size);
    ipu__give(n, 0, has_shape ? ipu_pad(n->b, y, before, after, IPU_PAD_CONSTANT, 0) : y);
}

/* ---- averages ---- */

static bool dense_window(ipu__node *n, ipu_value x, ipu__window *out)
{
    if (!ipu__window_of(n, x, NULL, out)) return false;
    for (int i = 0; i < out->rank; i++)
        if (out->dilation[i] != 1)
            ipu__node_fail(n, IPU_UNSUPPORTED, "dilations other than 1 are not supported");
    return ipu__import_ok(n->im);
}

void ipu__onnx_AveragePool(ipu__node *n)
{
    ipu_value   x = ipu__in_needed(n, 0);
    ipu__window window;
    if (!dense_window(n, x, &window)) return;
    ipu_pool_options o = options_of(n, &window);
    o.exclude_padding  = ipu__attr_int(n, "count_include_pad", 0) == 0;
    ipu__give(n, 0, ipu_average_pool(n->b, x, o));
}

/* An integer from opset 2 on. */
static double power_of(ipu__node *n)
{
    return n->version < 2 ? ipu__attr_float(n, "p", 2) : (double)ipu__attr_int(n, "p", 2);
}

void ipu__onnx_LpPool(ipu__node *n)
{
    ipu_value   x = ipu__in_needed(n, 0);
    ipu__window window;
    if (dense_window(n, x, &window))
        ipu__give(n, 0, ipu_lp_pool(n->b, x, power_of(n), options_of(n, &window)));
}

/* ---- over all of a plane ---- */

void ipu__onnx_GlobalLpPool(ipu__node *n)
{
    ipu__give(n, 0, ipu_global_lp_pool(n->b, ipu__in_needed(n, 0), power_of(n)));
}

typedef ipu_value reduction(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);

static const int plane_axes[IPU_MAX_RANK] = {2, 3, 4, 5, 6, 7};

static void global(ipu__node *n, reduction f)
{
    ipu_value x    = ipu__in_needed(n, 0);
    int       rank = ipu_value_rank(x);
    if (!ipu__import_ok(n->im)) return;
    if (rank < 2)
        ipu__node_fail(n, IPU_INVALID, "its input has %d dimensions; expected [N,C,...]", rank);
    else
        ipu__give(n, 0, rank == 2 ? x : f(n->b, x, plane_axes, rank - 2, true));
}

void ipu__onnx_GlobalAveragePool(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), y = IPU_NO_VALUE;
    int       rank = ipu_value_rank(x);
    if (rank > 2) y = ipu__dequantized_mean(n, x, plane_axes, rank - 2);
    if (y.id)
        ipu__give(n, 0, y);
    else
        global(n, ipu_reduce_mean);
}
void ipu__onnx_GlobalMaxPool(ipu__node *n) { global(n, ipu_reduce_max); }
