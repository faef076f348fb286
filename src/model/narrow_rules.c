/* How ops pass regions on: what of the inputs a region of the outputs needs, and where zeros stay zeros. */
#include <string.h>

#include "model/narrow.h"
#include "op/attention.h"
#include "op/elementwise.h"

static bool is(const ipu_kernel_call *call, const char *name) { return strcmp(call->def->name, name) == 0; }

int ipu__narrow_same_axis(const ipu_shape *shape, const ipu_shape *like, int axis)
{
    int64_t before = 1, at = 1;
    for (int d = 0; d < axis; d++) before *= like->dim[d];
    for (int d = 0; d < shape->rank; d++) {
        if (at == before && shape->dim[d] == like->dim[axis]) return d;
        at *= shape->dim[d];
    }
    return -1;
}

static bool elementwise(const ipu_kernel_call *call, uint32_t n_in, int axis, ipu__narrowing *out)
{
    int rank = call->operand[n_in].shape.rank;
    for (uint32_t i = 0; i < n_in; i++) {
        const ipu_shape *s = &call->operand[i].shape;
        int              d = axis - (rank - s->rank);
        if (d >= 0 && s->dim[d] != 1) out->in[i] = d;
    }
    return true;
}

/* Rows of a; columns stay together, and b is the same for all. */
static bool matmul(const ipu_kernel_call *call, uint32_t n_in, int axis, ipu__narrowing *out)
{
    const ipu_shape *a = &call->operand[0].shape, *b = &call->operand[1].shape;
    const char      *epilogue = ipu__op_text(call, "epilogue");
    int              rank     = call->operand[n_in].shape.rank;
    out->in[0]                = axis;
    return a->rank == rank && b->rank == 2 && axis < rank - 1 && !ipu__op_int(call, "transpose_a")
        && !(epilogue && *epilogue);
}

static bool rows_of_norm(const ipu_kernel_call *call, int axis)
{
    return axis < call->operand[0].shape.rank - ipu__op_int(call, "n_dims");
}

/* Queries are independent of each other. */
static bool queries(const ipu_kernel_call *call, uint32_t q, int axis)
{
    const ipu_shape *mask = &call->operand[q + 3].shape;
    if (ipu__op_int(call, "causal") || axis != call->operand[q].shape.rank - 2) return false;
    return !ipu__kernel_has(call, (int)q + 3) || mask->rank < 2 || mask->dim[mask->rank - 2] == 1;
}

/* Which dimension of the input is dimension `axis` of the output. */
static int64_t permuted(const ipu_kernel_call *call, int axis)
{
    size_t         n;
    int            rank = call->operand[0].shape.rank;
    const int64_t *perm = ipu__op_ints(call, "perm", &n);
    int64_t        from = n ? perm[axis] : rank - 1 - axis;
    return from < 0 ? from + rank : from;
}

static void begin(ipu__narrowing *out, int axis)
{
    out->all = false;
    for (int i = 0; i < IPU__MAX_OPERANDS; i++) {
        out->in[i]  = -1;
        out->out[i] = axis;
    }
}

bool ipu__narrow_by_output(const ipu_kernel_call *call, uint32_t n_in, int axis, ipu__narrowing *out)
{
    begin(out, axis);
    if (ipu__element_of(call->def) != IPU__N_ELEMENTS) return elementwise(call, n_in, axis, out);
    if (is(call, "matmul")) return matmul(call, n_in, axis, out);
    if (is(call, "layer_norm") || is(call, "rms_norm")) {
        out->in[0] = axis;
        return rows_of_norm(call, axis);
    }
    if (is(call, "attention")) {
        out->in[IPU__ATTENTION_Q] = axis;
        return queries(call, IPU__ATTENTION_Q, axis);
    }
    if (is(call, "transpose")) {
        out->in[0] = (int)permuted(call, axis);
        return true;
    }
    if (!is(call, "reshape")) return false;
    out->in[0] = ipu__narrow_same_axis(&call->operand[0].shape, &call->operand[n_in].shape, axis);
    return out->in[0] >= 0;
}

/* ---- from inputs ---- */

static bool sums_over(const ipu_kernel_call *call, int axis)
{
    size_t         n;
    const int64_t *axes = ipu__op_ints(call, "axes", &n);
    for (size_t i = 0; i < n; i++)
        if (axes[i] == axis || axes[i] + call->operand[0].shape.rank == axis) return true;
    return n == 0;
}

/* Of the ops that by_output knows too: the dimension of the output, -1: zeros do not stay. */
static int output_axis(const ipu_kernel_call *call, uint32_t n_in, uint32_t input, int axis)
{
    const ipu_shape *in = &call->operand[input].shape, *out = &call->operand[n_in].shape;
    if (is(call, "mul") || is(call, "add") || is(call, "sub") || is(call, "neg") || is(call, "cast"))
        return axis + out->rank - in->rank;
    if (is(call, "matmul") && input == 0) return axis;
    if (is(call, "reshape")) return ipu__narrow_same_axis(out, in, axis);
    if (!is(call, "transpose")) return -1;
    for (int d = 0; d < out->rank; d++)
        if (permuted(call, d) == axis) return d;
    return -1;
}

/* Outputs behind the first are sums over the region. */
static void only_first(ipu__narrowing *out)
{
    for (int i = 1; i < IPU__MAX_OPERANDS; i++) out->out[i] = -1;
}

static bool attention_grad(const ipu_kernel_call *call, int axis, ipu__narrowing *out)
{
    static const int rows[] = {IPU__ATTENTION_GRAD_D_OUT, IPU__ATTENTION_GRAD_Q, IPU__ATTENTION_GRAD_OUT,
                               IPU__ATTENTION_GRAD_LSE};
    for (size_t i = 0; i < IPU__COUNT(rows); i++) out->in[rows[i]] = axis;
    only_first(out);
    return queries(call, IPU__ATTENTION_GRAD_Q, axis) && !ipu__kernel_has(call, IPU__ATTENTION_GRAD_D_LSE);
}

bool ipu__narrow_by_input(const ipu_kernel_call *call, uint32_t n_in, uint32_t input, int axis,
                          ipu__narrowing *out)
{
    begin(out, axis);
    if (input == 0 && is(call, "attention_grad")) return attention_grad(call, axis, out);
    if (input == 0 && (is(call, "layer_norm_grad") || is(call, "rms_norm_grad"))) {
        uint32_t weight = n_in - 1;
        for (uint32_t i = 0; i < weight; i++) out->in[i] = axis;
        only_first(out);
        return rows_of_norm(call, axis);
    }
    if (is(call, "reduce_sum") && sums_over(call, axis)) {
        out->in[0]  = axis;
        out->out[0] = -1;
        return true;
    }
    int to = output_axis(call, n_in, input, axis);
    if (to < 0 || !ipu__narrow_by_output(call, n_in, to, out)) return false;
    out->all = is(call, "add") || is(call, "sub");
    return out->in[input] == axis;
}
