/* Slice: begin, end and step along some dimensions, and the functions that emit it.
 *
 * A view. Its gradient is pad with zeros before, after and (for steps) in between.
 */
#include "ipu/op/shape.h"
#include "graph/graph.h"
#include "op/builder.h"
#include "op/replicas.h"
#include "op/simplify.h"

enum { X, OUT };

/* Elements begin, begin + step, ... `count` of them, of one dimension. */
typedef struct cut {
    int64_t begin, step, count;
} cut;

static int64_t clamp(int64_t i, int64_t least, int64_t most)
{
    return i < least ? least : i > most ? most : i;
}

/* As numpy's: negative ones count from the end, then what passes an end stays there. */
static cut make_cut(int64_t begin, int64_t end, int64_t step, int64_t n)
{
    if (begin < 0) begin += n;
    if (end < 0) end += n;
    int64_t length;
    if (step > 0) {
        begin  = clamp(begin, 0, n);
        length = clamp(end, 0, n) - begin;
    } else {
        begin  = clamp(begin, -1, n - 1);
        length = begin - clamp(end, -1, n - 1);
        step   = step == INT64_MIN ? INT64_MAX : -step;
        return (cut){begin, -step, length > 0 ? ipu__op_ceil_div(length, step) : 0};
    }
    return (cut){begin, step, length > 0 ? ipu__op_ceil_div(length, step) : 0};
}

static ipu_status get_cuts(const ipu__kernel_call *call, cut cuts[IPU_MAX_RANK])
{
    const ipu_shape *shape = &call->operand[X].shape;
    size_t           n, n_end, n_step, n_axes;
    const int64_t   *begin = ipu__op_ints(call, "begin", &n), *end = ipu__op_ints(call, "end", &n_end),
                  *step = ipu__op_ints(call, "step", &n_step), *axes = ipu__op_ints(call, "axes", &n_axes);
    bool seen[IPU_MAX_RANK] = {false};
    for (int d = 0; d < shape->rank; d++) cuts[d] = (cut){0, 1, shape->dim[d]};
    if (n_end != n || (n_step && n_step != n) || (n_axes && n_axes != n)
        || (!n_axes && n > (size_t)shape->rank))
        return ipu__fail(
            IPU_INVALID,
            "slice: %zu begins, %zu ends, %zu steps, %zu axes: expected as many of each (steps and "
            "axes may be left out), at most one per dimension of %s",
            n, n_end, n_step, n_axes, ipu__shape_str(shape));
    for (size_t i = 0; i < n; i++) {
        int64_t axis = n_axes ? axes[i] : (int64_t)i;
        if (axis < 0) axis += shape->rank;
        if (axis < 0 || axis >= shape->rank || seen[axis])
            return ipu__fail(IPU_INVALID,
                             "slice: axis %lld of %s: expected dimensions that are there, each once",
                             (long long)(n_axes ? axes[i] : (int64_t)i), ipu__shape_str(shape));
        seen[axis] = true;
        if (n_step && step[i] == 0)
            return ipu__fail(IPU_INVALID, "slice: a step of 0: expected another number");
        cuts[axis] = make_cut(begin[i], end[i], n_step ? step[i] : 1, shape->dim[axis]);
    }
    return IPU_OK;
}

static ipu_status slice_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    cut cuts[IPU_MAX_RANK];
    IPU_TRY(get_cuts(call, cuts));
    *out = call->operand[X];
    for (int d = 0; d < out->shape.rank; d++) out->shape.dim[d] = cuts[d].count;
    return IPU_OK;
}

/* The first and the last element taken, whichever the direction. */
static ipu_interval reach(const cut *c)
{
    if (c->count == 0) return (ipu_interval){0, 0};
    int64_t last = c->begin + (c->count - 1) * c->step;
    return c->step > 0 ? (ipu_interval){c->begin, last + 1} : (ipu_interval){last, c->begin + 1};
}

static ipu_tensor slice_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    cut        cuts[IPU_MAX_RANK] = {{0}};
    ipu_tensor t                  = in[X];
    get_cuts(call, cuts); /* infer has seen them */
    for (int d = 0; d < call->operand[X].shape.rank; d++) {
        const cut   *c     = &cuts[d];
        ipu_interval taken = reach(c);
        if (taken.begin != 0 || taken.end != call->operand[X].shape.dim[d])
            t = ipu_tensor_slice(t, taken.begin, taken.end, d);
        if (c->step < 0 && c->count > 1) t = ipu_tensor_reverse(t, d);
        if (c->step != 1 && c->step != -1 && c->count > 1)
            t = ipu_tensor_subsample(t, c->step < 0 ? -c->step : c->step, d);
    }
    return t;
}

static void slice_grad(ipu__gradient *g)
{
    const ipu_shape *shape              = &g->call->operand[X].shape;
    cut              cuts[IPU_MAX_RANK] = {{0}};
    int64_t          before[IPU_MAX_RANK], after[IPU_MAX_RANK], inside[IPU_MAX_RANK], reversed[IPU_MAX_RANK];
    int              n_reversed = 0;
    get_cuts(g->call, cuts);
    for (int d = 0; d < shape->rank; d++) {
        ipu_interval taken = reach(&cuts[d]);
        before[d]          = taken.begin;
        after[d]           = shape->dim[d] - taken.end;
        inside[d]          = 0;
        if (cuts[d].count < 2) continue;
        inside[d] = (cuts[d].step < 0 ? -cuts[d].step : cuts[d].step) - 1;
        if (cuts[d].step < 0) reversed[n_reversed++] = d;
    }
    ipu_value dy = g->d_out[0];
    if (n_reversed)
        dy = ipu__emit1(g->b, "reverse", IPU__WITH(IPU__INTS("axes", reversed, n_reversed)), IPU__IN(dy));
    g->d_in[X] = ipu__emit1(g->b, "pad",
                            IPU__WITH(IPU__INTS("before", before, shape->rank),
                                      IPU__INTS("after", after, shape->rank),
                                      IPU__INTS("inside", inside, shape->rank)),
                            IPU__IN(dy));
}

/* What takes all in order takes nothing away. */
static ipu_status slice_simplify(ipu__simplify *s)
{
    size_t         n;
    const int64_t *step = ipu__op_ints(&s->call, "step", &n);
    for (size_t i = 0; i < n; i++)
        if (step[i] < 0) return IPU_OK;
    return ipu__simplify_if_alike(s);
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

static const ipu_op_attribute slice_attributes[] = {
    {.name = "begin", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "first element of each axis"},
    {.name = "end", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "one past the last"},
    {.name = "step", .kind = IPU_ATTRIBUTE_INTS, .meaning = "every how many; left out: 1"},
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "which dimensions; left out: the first ones"},
};

static const char *const slice_samples[] = {"float[8]; begin=[2] end=[5]",
                                            "float[7,5]; begin=[1,-3] end=[100,-1]",
                                            "float[7,9]; begin=[7] end=[0] step=[-2] axes=[1]",
                                            "float[6,7]; begin=[1,0] end=[6,7] step=[2,3]",
                                            "int32[5]; begin=[3] end=[2]",
                                            NULL};

const ipu__op_def ipu__op_slice = {
    .kernel       = {.name = "slice", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in         = 1,
    .family       = "shape",
    .summary      = "a part of x: begin, end and step along some dimensions",
    .attributes   = slice_attributes,
    .n_attributes = IPU__COUNT(slice_attributes),
    .infer        = slice_infer,
    .view         = slice_view,
    .grad         = slice_grad,
    .simplify     = slice_simplify,
    .fold         = ipu__fold_slice,
    .samples      = slice_samples,
};

/* ---- functions ---- */

ipu_value ipu_slice_step(ipu_builder *b, ipu_value x, int64_t begin, int64_t end, int64_t step, int axis)
{
    return ipu__emit1(b, "slice",
                      IPU__WITH(IPU__INTS("begin", &begin, 1), IPU__INTS("end", &end, 1),
                                IPU__INTS("step", &step, 1), IPU__INTS("axes", &(int64_t){axis}, 1)),
                      IPU__IN(x));
}

ipu_value ipu_slice(ipu_builder *b, ipu_value x, int64_t begin, int64_t end, int axis)
{
    return ipu_slice_step(b, x, begin, end, 1, axis);
}

ipu_value ipu_index(ipu_builder *b, ipu_value x, int64_t i, int axis)
{
    int64_t n = ipu_value_dim(x, axis);
    if (!ipu__builder_has(b, __func__, x)) return (ipu_value){b, 0};
    if (i < -n || i >= n) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_index: %lld is out of range for dimension %d of %s",
                          (long long)i, axis, ipu__value_str(x));
        return (ipu_value){b, 0};
    }
    if (i < 0) i += n;
    return ipu_squeeze(b, ipu_slice(b, x, i, i + 1, axis), axis);
}

void ipu_split(ipu_builder *b, ipu_value x, const int64_t *sizes, size_t n, int axis, ipu_value *out)
{
    int64_t extent = ipu_value_dim(x, axis), sum = 0;
    for (size_t i = 0; i < n; i++) out[i] = (ipu_value){b, 0};
    if (!ipu__builder_has(b, __func__, x)) return;
    for (size_t i = 0; sizes && i < n; i++)
        sum = sizes[i] < 0 || sizes[i] > extent - sum ? -1 - extent : sum + sizes[i];
    if (n == 0 || (sizes ? sum != extent : extent % (int64_t)n != 0)) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_split: %zu parts do not make up dimension %d of %s", n, axis,
                          ipu__value_str(x));
        return;
    }
    int64_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t end = begin + (sizes ? sizes[i] : extent / (int64_t)n);
        out[i]      = ipu_slice(b, x, begin, end, axis);
        begin       = end;
    }
}

void ipu_unstack(ipu_builder *b, ipu_value x, size_t n, int axis, ipu_value *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (ipu_value){b, 0};
    if (!ipu__builder_has(b, __func__, x)) return;
    if (ipu_value_dim(x, axis) != (int64_t)n) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_unstack: %zu values from dimension %d of %s", n, axis,
                          ipu__value_str(x));
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = ipu_index(b, x, (int64_t)i, axis);
}
