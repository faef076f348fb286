/* Reductions, sorting and running sums in ONNX. */
#include "ipu/op.h"
#include "onnx/export/export.h"

/* ---- reductions ---- */

/* Axes are an attribute, for ReduceSum an input. None: all. */
static void put_axes(ipu__wop *o, Ipu__NodeProto *node, bool as_attribute)
{
    size_t         n;
    const int64_t *axes = ipu__op_ints(&o->call, "axes", &n);
    if (as_attribute && n > 0) ipu__put_ints(o->w, node, "axes", axes, n);
    ipu__put_int(o->w, node, "keepdims", ipu__op_int(&o->call, "keep_dims"));
}

static bool put_reduction(ipu__wop *o, const char *onnx_op)
{
    Ipu__NodeProto *node = ipu__put_same(o, onnx_op, 1, 1);
    if (node) put_axes(o, node, true);
    return node;
}

#define REDUCTION(op, onnx) \
    bool ipu__write_##op(ipu__wop *o) { return put_reduction(o, onnx); }
REDUCTION(reduce_mean, "ReduceMean")
REDUCTION(reduce_sum_square, "ReduceSumSquare")
REDUCTION(reduce_prod, "ReduceProd")
REDUCTION(reduce_max, "ReduceMax")
REDUCTION(reduce_min, "ReduceMin")

bool ipu__write_reduce_sum(ipu__wop *o)
{
    size_t         n;
    const int64_t *axes = ipu__op_ints(&o->call, "axes", &n);
    ipu_type       type = ipu__carrier(o->w, "ReduceSum", o->call.operand[0].type);
    if (type == IPU_N_TYPES) return false;
    const char     *list = n > 0 ? ipu__put_list(o->w, axes, n) : "";
    Ipu__NodeProto *node = ipu__put(o->w, "ReduceSum", IPU__NAMES(ipu__take_as(o, 0, type), list),
                                    ipu__give_as(o, 0, type));
    put_axes(o, node, false);
    return true;
}

/* How many are true, or their product: both know what none of them are. */
static bool put_test(ipu__wop *o, bool is_sum)
{
    size_t          n;
    const int64_t  *axes = ipu__op_ints(&o->call, "axes", &n);
    const char     *list = is_sum && n > 0 ? ipu__put_list(o->w, axes, n) : "";
    Ipu__NodeProto *node = ipu__put(o->w, is_sum ? "ReduceSum" : "ReduceProd",
                                    IPU__NAMES(ipu__take_as(o, 0, IPU_INT32), list),
                                    ipu__give_as(o, 0, IPU_INT32));
    put_axes(o, node, !is_sum);
    return true;
}
bool ipu__write_reduce_any(ipu__wop *o) { return put_test(o, true); }
bool ipu__write_reduce_all(ipu__wop *o) { return put_test(o, false); }

static bool put_arg(ipu__wop *o, const char *onnx_op)
{
    if (o->call.operand[0].shape.rank == 0) return false;
    Ipu__NodeProto *node = ipu__put(o->w, onnx_op, IPU__NAMES(ipu__take(o, 0)),
                                    ipu__give_as(o, 0, IPU_INT64));
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    ipu__put_int(o->w, node, "keepdims", ipu__op_int(&o->call, "keep_dims"));
    if (ipu__op_int(&o->call, "select_last")) ipu__put_int(o->w, node, "select_last_index", 1);
    return true;
}
bool ipu__write_argmax(ipu__wop *o) { return put_arg(o, "ArgMax"); }
bool ipu__write_argmin(ipu__wop *o) { return put_arg(o, "ArgMin"); }

/* Of a scalar, which ONNX does not take: itself. */
#define ARG_OF_SCALAR(op)                                                                     \
    void ipu__rewrite_##op(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, \
                           ipu_value *out)                                                    \
    {                                                                                         \
        (void)in;                                                                             \
        out[0] = ipu_constant_value(b, IPU_INT32, call->operand[1].shape, 0);                 \
    }
ARG_OF_SCALAR(argmax)
ARG_OF_SCALAR(argmin)

/* ---- sorting ---- */

static bool put_topk(ipu__wop *o, int64_t k, bool largest)
{
    ipu_type type = ipu__carrier(o->w, "TopK", o->call.operand[0].type);
    if (type == IPU_N_TYPES || o->call.operand[0].shape.rank == 0) return false;
    Ipu__NodeProto *node    = ipu__put(o->w, "TopK",
                                       IPU__NAMES(ipu__take_as(o, 0, type), ipu__put_list(o->w, &k, 1)),
                                       ipu__give_as(o, 0, type));
    const char     *indices = ipu__gives(o, 1) ? ipu__give_as(o, 1, IPU_INT64) : ipu__fresh(o->w, "indices");
    ipu__put_output(o->w, node, indices);
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    ipu__put_int(o->w, node, "largest", largest);
    ipu__put_int(o->w, node, "sorted", 1);
    return true;
}

bool ipu__write_topk(ipu__wop *o)
{
    return put_topk(o, ipu__op_int(&o->call, "k"), ipu__op_int(&o->call, "largest") != 0);
}

bool ipu__write_sort(ipu__wop *o)
{
    const ipu_shape *shape = &o->call.operand[0].shape;
    int              axis;
    if (shape->rank == 0 || ipu__op_axis(&o->call, "axis", shape->rank, &axis) != IPU_OK) return false;
    return put_topk(o, shape->dim[axis], ipu__op_int(&o->call, "descending") != 0);
}

bool ipu__write_cumsum(ipu__wop *o)
{
    ipu_type type = ipu__carrier(o->w, "CumSum", o->call.operand[0].type);
    double   axis = (double)ipu__op_int(&o->call, "axis");
    if (type == IPU_N_TYPES) return false;
    Ipu__NodeProto *node = ipu__put(
        o->w, "CumSum", IPU__NAMES(ipu__take_as(o, 0, type), ipu__put_scalar(o->w, IPU_INT64, axis)),
        ipu__give_as(o, 0, type));
    if (ipu__op_int(&o->call, "exclusive")) ipu__put_int(o->w, node, "exclusive", 1);
    if (ipu__op_int(&o->call, "reverse")) ipu__put_int(o->w, node, "reverse", 1);
    return true;
}

/* In steps that reach twice as far each time. */
void ipu__rewrite_cumprod(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value x    = in[0];
    int       axis = (int)ipu__op_int(call, "axis"), rank = ipu_value_rank(x);
    int64_t   none[IPU_MAX_RANK] = {0}, before[IPU_MAX_RANK] = {0};
    bool      is_reverse = ipu__op_int(call, "reverse") != 0;
    if (axis < 0) axis += rank;
    int64_t n = ipu_value_dim(x, axis);
    if (is_reverse) x = ipu_reverse(b, x, axis);
    if (ipu__op_int(call, "exclusive") && n > 0) {
        before[axis] = 1;
        x            = ipu_slice(b, ipu_pad(b, x, before, none, IPU_PAD_CONSTANT, 1), 0, n, axis);
    }
    for (int64_t reach = 1; reach < n; reach *= 2) {
        before[axis]      = reach;
        ipu_value earlier = ipu_slice(b, ipu_pad(b, x, before, none, IPU_PAD_CONSTANT, 1), 0, n, axis);
        x                 = ipu_mul(b, x, earlier);
    }
    out[0] = is_reverse ? ipu_reverse(b, x, axis) : ipu_identity(b, x);
}
