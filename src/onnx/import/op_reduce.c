/* Reductions, arg-reductions, softmax, sorting of ONNX. */
#include "ipu/op.h"
#include "onnx/import/import.h"

void ipu__onnx_ReduceLogSum(ipu__node *n)
{
    ipu_value  x = ipu__in_needed(n, 0);
    const int *axes;
    int        n_axes;
    ipu__axes(n, "axes", 1, ipu_value_rank(x), &axes, &n_axes);
    bool keep_dims = ipu__attr_int(n, "keepdims", 1) != 0;
    ipu__give(n, 0, ipu_log(n->b, ipu_reduce_sum(n->b, x, axes, n_axes, keep_dims)));
}

static void arg_reduce(ipu__node *n, ipu_value (*f)(ipu_builder *, ipu_value, int, bool, bool))
{
    ipu_value x    = ipu__in_needed(n, 0);
    int       axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    bool keep = ipu__attr_int(n, "keepdims", 1) != 0, last = ipu__attr_int(n, "select_last_index", 0) != 0;
    ipu__give(n, 0, ipu_cast(n->b, f(n->b, x, axis, keep, last), IPU_INT64));
}

void ipu__onnx_ArgMax(ipu__node *n) { arg_reduce(n, ipu_argmax_with); }
void ipu__onnx_ArgMin(ipu__node *n) { arg_reduce(n, ipu_argmin_with); }

void ipu__onnx_CumSum(ipu__node *n)
{
    ipu_value x    = ipu__in_needed(n, 0);
    int       axis = (int)ipu__in_int(n, 1, 0);
    bool exclusive = ipu__attr_int(n, "exclusive", 0) != 0, reverse = ipu__attr_int(n, "reverse", 0) != 0;
    ipu__give(n, 0, ipu_cumsum_with(n->b, x, axis, exclusive, reverse));
}

/* Before opset 13 over all dimensions from the axis on, taken as one. */
static void over_axis(ipu__node *n, ipu_value (*f)(ipu_builder *, ipu_value, int))
{
    ipu_value x    = ipu__in_needed(n, 0);
    int       rank = ipu_value_rank(x);
    if (n->version >= 13) {
        ipu__give(n, 0, f(n->b, x, ipu__axis(n, "axis", -1, rank)));
        return;
    }
    int       axis = ipu__axis(n, "axis", 1, rank);
    ipu_value flat = ipu_flatten(n->b, x, axis);
    ipu__give(n, 0, ipu_reshape(n->b, f(n->b, flat, axis), ipu_value_shape(x)));
}

static ipu_value hardmax(ipu_builder *b, ipu_value x, int axis)
{
    ipu_value best = ipu_argmax(b, x, axis, false);
    return ipu_one_hot_with(b, best, ipu_value_dim(x, axis), ipu_value_type(x), axis, 1, 0);
}

void ipu__onnx_Softmax(ipu__node *n) { over_axis(n, ipu_softmax); }
void ipu__onnx_LogSoftmax(ipu__node *n) { over_axis(n, ipu_log_softmax); }
void ipu__onnx_Hardmax(ipu__node *n) { over_axis(n, hardmax); }

/* k is an attribute before opset 10. */
void ipu__onnx_TopK(ipu__node *n)
{
    ipu_value x       = ipu__in_needed(n, 0), indices;
    int       axis    = ipu__axis(n, "axis", -1, ipu_value_rank(x));
    int64_t   k       = n->version < 10 ? ipu__attr_int(n, "k", 0) : ipu__in_int(n, 1, 0);
    bool      largest = ipu__attr_int(n, "largest", 1) != 0;
    ipu__give(n, 0, ipu_topk(n->b, x, k, axis, largest, &indices));
    ipu__give(n, 1, ipu_cast(n->b, indices, IPU_INT64));
}
