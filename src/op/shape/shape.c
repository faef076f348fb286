/* Shape: reshape, transpose, reverse, expand, tile, identity, and the functions made of them.
 *
 * All are views (op.h), done by the graph's tensor algebra.
 */
#include "ipu/op/shape.h"

#include <string.h>

#include "graph/graph.h"
#include "op/builder.h"
#include "op/region.h"
#include "op/replicas.h"
#include "op/simplify.h"

enum { X, OUT };

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

#define VIEW(op_name, op_summary, attribute_list, n, fold_by)                                               \
    .kernel = {.name = #op_name, .operands = operands, .n_operands = 2, .check = ipu__op_check}, .n_in = 1, \
    .family = "shape", .summary = (op_summary), .attributes = (attribute_list), .n_attributes = (n),        \
    .infer = op_name##_infer, .view = op_name##_view, .grad = op_name##_grad, .samples = op_name##_samples, \
    .fold = (fold_by)

static ipu_value no_value(ipu_builder *b) { return (ipu_value){b, 0}; }

/* A list of dimensions as a shape, whatever its numbers. */
static ipu_status shape_attribute(const ipu__kernel_call *call, const char *name, ipu_shape *out)
{
    size_t         n;
    const int64_t *dims = ipu__op_ints(call, name, &n);
    if (n > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID, "%s: %s has %zu dimensions: expected at most %d", call->def->name, name,
                         n, IPU_MAX_RANK);
    *out = (ipu_shape){.rank = (int)n};
    for (size_t i = 0; i < n; i++) out->dim[i] = dims[i];
    return IPU_OK;
}

/* ---- reshape ---- */

static ipu_status reshape_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *from = &call->operand[X].shape;
    ipu_shape        to;
    IPU_TRY(shape_attribute(call, "shape", &to));
    int64_t n = ipu__op_n_elements(from), product = 1;
    int     open = -1;
    for (int d = 0; d < to.rank; d++) {
        if (to.dim[d] == -1 && open < 0) {
            open = d;
            continue;
        }
        if (to.dim[d] < 0)
            return ipu__fail(IPU_INVALID,
                             "reshape: dimension %d of %s: expected 0 or more, and -1 at most once", d,
                             ipu__shape_str(&to));
        if (__builtin_mul_overflow(product, to.dim[d], &product)) product = -1;
        if (product < 0) break;
    }
    if (open >= 0 && product > 0 && n % product == 0) {
        to.dim[open] = n / product;
        product      = n;
    }
    if (product != n || (open >= 0 && to.dim[open] < 0))
        return ipu__fail(IPU_INVALID, "reshape: %s%s has %lld elements, which do not fill %s",
                         ipu_type_name(call->operand[X].type), ipu__shape_str(from), (long long)n,
                         ipu__shape_str(&to));
    *out = (ipu__kernel_value){call->operand[X].type, to};
    return IPU_OK;
}

static ipu_tensor reshape_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    return ipu_tensor_reshape(in[X], call->operand[OUT].shape);
}

static void reshape_grad(ipu__gradient *g)
{
    g->d_in[X] = ipu_reshape(g->b, g->d_out[0], g->call->operand[X].shape);
}

static const ipu_op_attribute reshape_attributes[] = {
    {.name = "shape", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "the new one; one may be -1"},
};

static const char *const reshape_samples[] = {"float[3,4]; shape=[2,6]", "float[2,3,4]; shape=[4,-1]",
                                              "float[0,4]; shape=[2,0]", NULL};

static bool reshape_region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    out->in[X] = ipu__region_same_axis(&call->operand[X].shape, &call->operand[OUT].shape, axis);
    return out->in[X] >= 0;
}

static bool reshape_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    int to = ipu__region_same_axis(&call->operand[OUT].shape, &call->operand[X].shape, axis);
    return ipu__region_through(call, input, axis, to, out);
}

static ipu_status reshape_simplify(ipu__simplify *s)
{
    ipu__kernel_call before;
    if (s->maker(s, X, &before) == &ipu__op_reshape) s->pass_over(s, X);
    return ipu__simplify_if_alike(s);
}

const ipu__op_def ipu__op_reshape = {
    VIEW(reshape, "same elements, another shape", reshape_attributes, 1, ipu__fold_reshape),
    .simplify = reshape_simplify, .region = reshape_region, .zeros = reshape_zeros};

ipu_value ipu_reshape(ipu_builder *b, ipu_value x, ipu_shape shape)
{
    return ipu__emit1(b, "reshape", IPU__WITH(IPU__INTS("shape", shape.dim, shape.rank)), IPU__IN(x));
}

/* 0 <= axis < n, or an error in the builder. */
static bool fix_axis(ipu_builder *b, const char *caller, ipu_value x, int axis, int n, int *out)
{
    if (!ipu__builder_has(b, caller, x)) return false;
    *out = axis < 0 ? axis + n : axis;
    if (*out >= 0 && *out < n) return true;
    ipu__builder_fail(b, IPU_INVALID, "%s: axis %d of %s is out of range: expected %d to %d", caller, axis,
                      ipu__value_str(x), -n, n - 1);
    return false;
}

ipu_value ipu_flatten(ipu_builder *b, ipu_value x, int axis)
{
    int rank = ipu_value_rank(x), from = 0;
    /* A scalar becomes [1], whatever axis 0 may be. */
    if (!fix_axis(b, __func__, x, axis, rank ? rank : 1, &from)) return no_value(b);
    ipu_shape shape = ipu_value_shape(x);
    int64_t   n     = 1;
    for (int d = from; d < rank; d++) n *= shape.dim[d];
    shape.rank      = from + 1;
    shape.dim[from] = n;
    return ipu_reshape(b, x, shape);
}

ipu_value ipu_unsqueeze(ipu_builder *b, ipu_value x, int axis)
{
    ipu_shape shape = ipu_value_shape(x);
    int       at    = 0;
    if (!fix_axis(b, __func__, x, axis, shape.rank + 1, &at)) return no_value(b);
    if (shape.rank == IPU_MAX_RANK) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_unsqueeze: %s has the highest rank there is",
                          ipu__value_str(x));
        return no_value(b);
    }
    memmove(shape.dim + at + 1, shape.dim + at, (size_t)(shape.rank - at) * sizeof *shape.dim);
    shape.dim[at] = 1;
    shape.rank++;
    return ipu_reshape(b, x, shape);
}

ipu_value ipu_squeeze(ipu_builder *b, ipu_value x, int axis)
{
    ipu_shape shape = ipu_value_shape(x);
    int       at    = 0;
    if (!fix_axis(b, __func__, x, axis, shape.rank, &at)) return no_value(b);
    if (shape.dim[at] != 1) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_squeeze: dimension %d of %s must be 1", at, ipu__value_str(x));
        return no_value(b);
    }
    memmove(shape.dim + at, shape.dim + at + 1, (size_t)(shape.rank - at - 1) * sizeof *shape.dim);
    shape.rank--;
    return ipu_reshape(b, x, shape);
}

/* ---- identity ---- */

static ipu_status identity_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_tensor identity_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g, (void)call;
    return in[X];
}

static void identity_grad(ipu__gradient *g) { g->d_in[X] = g->d_out[0]; }

static const char *const identity_samples[] = {"float[3,4]", "int32[]", NULL};

const ipu__op_def ipu__op_identity = {VIEW(identity, "x itself", NULL, 0, ipu__fold_elementwise),
                                      .flags = IPU__OP_RESHAPES};

ipu_value ipu_identity(ipu_builder *b, ipu_value x) { return ipu__emit1(b, "identity", NULL, 0, IPU__IN(x)); }

/* ---- transpose ---- */

static ipu_status get_perm(const ipu__kernel_call *call, int perm[IPU_MAX_RANK])
{
    size_t         n;
    int            rank               = call->operand[X].shape.rank;
    const int64_t *list               = ipu__op_ints(call, "perm", &n);
    bool           seen[IPU_MAX_RANK] = {false};
    if (n == 0)
        for (int d = 0; d < rank; d++) perm[d] = rank - 1 - d;
    if (n != 0 && n != (size_t)rank)
        return ipu__fail(IPU_INVALID, "transpose: perm has %zu numbers: expected %d, the rank of %s%s", n,
                         rank, ipu_type_name(call->operand[X].type), ipu__shape_str(&call->operand[X].shape));
    for (size_t d = 0; d < n; d++) {
        int64_t from = list[d] < 0 ? list[d] + rank : list[d];
        if (from < 0 || from >= rank || seen[from])
            return ipu__fail(IPU_INVALID, "transpose: perm[%zu] = %lld: expected each of 0 to %d once", d,
                             (long long)list[d], rank - 1);
        seen[from] = true;
        perm[d]    = (int)from;
    }
    return IPU_OK;
}

static ipu_status transpose_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int perm[IPU_MAX_RANK];
    IPU_TRY(get_perm(call, perm));
    *out = call->operand[X];
    for (int d = 0; d < out->shape.rank; d++) out->shape.dim[d] = call->operand[X].shape.dim[perm[d]];
    return IPU_OK;
}

static ipu_tensor transpose_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    int perm[IPU_MAX_RANK] = {0};
    get_perm(call, perm); /* infer has seen it */
    return ipu_tensor_permute(in[X], perm, call->operand[X].shape.rank);
}

static void transpose_grad(ipu__gradient *g)
{
    int perm[IPU_MAX_RANK] = {0}, back[IPU_MAX_RANK] = {0}, rank = g->call->operand[X].shape.rank;
    get_perm(g->call, perm);
    for (int d = 0; d < rank; d++) back[perm[d]] = d;
    g->d_in[X] = ipu_transpose(g->b, g->d_out[0], back, rank);
}

static const ipu_op_attribute transpose_attributes[] = {
    {.name    = "perm",
     .kind    = IPU_ATTRIBUTE_INTS,
     .meaning = "dimension i of the result is dimension perm[i] of x; left out: all reversed"},
};

static const char *const transpose_samples[] = {"float[3,4]", "float[2,3,4,5]; perm=[0,2,1,3]",
                                                "float[2,0,3]; perm=[-1,0,1]", "int32[5]", NULL};

int ipu__transpose_perm(const ipu__kernel_call *call, int64_t perm[IPU_MAX_RANK])
{
    int list[IPU_MAX_RANK] = {0}, rank = call->operand[X].shape.rank;
    get_perm(call, list);
    for (int d = 0; d < rank; d++) perm[d] = list[d];
    return rank;
}

/* Two transposes are one, or none. */
static ipu_status transpose_simplify(ipu__simplify *s)
{
    int64_t          perm[IPU_MAX_RANK], first[IPU_MAX_RANK];
    ipu__kernel_call before;
    int              rank = ipu__transpose_perm(&s->call, perm);
    if (s->maker(s, X, &before) == &ipu__op_transpose) {
        ipu__transpose_perm(&before, first);
        for (int d = 0; d < rank; d++) perm[d] = first[perm[d]];
        IPU_TRY(s->set(s, IPU__INTS("perm", perm, rank)));
        s->pass_over(s, X);
    }
    for (int d = 0; d < rank; d++)
        if (perm[d] != d) return IPU_OK;
    s->same = X;
    return IPU_OK;
}

static bool transpose_region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    int64_t perm[IPU_MAX_RANK];
    ipu__transpose_perm(call, perm);
    out->in[X] = (int)perm[axis];
    return true;
}

static bool transpose_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    int64_t perm[IPU_MAX_RANK] = {0};
    int     rank = ipu__transpose_perm(call, perm), to = 0;
    while (to < rank && perm[to] != axis) to++;
    return to < rank && ipu__region_through(call, input, axis, to, out);
}

const ipu__op_def ipu__op_transpose = {
    VIEW(transpose, "dimensions in another order", transpose_attributes, 1, ipu__fold_transpose),
    .simplify = transpose_simplify, .region = transpose_region, .zeros = transpose_zeros};

ipu_value ipu_transpose(ipu_builder *b, ipu_value x, const int *perm, int n)
{
    int64_t list[IPU_MAX_RANK] = {0};
    if (perm && (n < 0 || n > IPU_MAX_RANK)) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_transpose: perm of %d numbers: expected 0 to %d", n,
                          IPU_MAX_RANK);
        return no_value(b);
    }
    if (!perm) n = 0;
    for (int d = 0; d < n; d++) list[d] = perm[d];
    return ipu__emit1(b, "transpose", IPU__WITH(IPU__INTS("perm", list, n)), IPU__IN(x));
}

ipu_value ipu_swap_axes(ipu_builder *b, ipu_value x, int axis, int other)
{
    int rank = ipu_value_rank(x), perm[IPU_MAX_RANK], p = 0, q = 0;
    if (!fix_axis(b, __func__, x, axis, rank, &p) || !fix_axis(b, __func__, x, other, rank, &q))
        return no_value(b);
    for (int d = 0; d < rank; d++) perm[d] = d;
    perm[p] = q;
    perm[q] = p;
    return ipu_transpose(b, x, perm, rank);
}

/* ---- reverse ---- */

static ipu_status reverse_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool mask[IPU_MAX_RANK];
    IPU_TRY(ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_tensor reverse_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    bool       mask[IPU_MAX_RANK] = {false};
    ipu_tensor t                  = in[X];
    ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask);
    for (int d = 0; d < call->operand[X].shape.rank; d++)
        if (mask[d]) t = ipu_tensor_reverse(t, d);
    return t;
}

static void reverse_grad(ipu__gradient *g)
{
    g->d_in[X] = ipu__emit1(g->b, "reverse", g->call->attributes, g->call->n_attributes,
                            IPU__IN(g->d_out[0]));
}

static const ipu_op_attribute reverse_attributes[] = {
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions to reverse; left out: all"},
};

static const char *const reverse_samples[] = {"float[7]", "float[3,4,5]; axes=[-1,0]", "int32[0,2]; axes=[0]",
                                              NULL};

const ipu__op_def ipu__op_reverse = {
    VIEW(reverse, "elements of some dimensions in reverse", reverse_attributes, 1, ipu__fold_reverse)};

ipu_value ipu_reverse(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "reverse", IPU__WITH(IPU__INTS("axes", &(int64_t){axis}, 1)), IPU__IN(x));
}

/* ---- expand ---- */

static ipu_status expand_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *from = &call->operand[X].shape;
    ipu_shape        to;
    IPU_TRY(shape_attribute(call, "shape", &to));
    int  extra = to.rank - from->rank;
    bool ok    = extra >= 0;
    for (int d = 0; ok && d < to.rank; d++) {
        int64_t own = d < extra ? 1 : from->dim[d - extra];
        if (to.dim[d] == -1 && d >= extra) to.dim[d] = own;
        ok = to.dim[d] >= 0 && (own == to.dim[d] || own == 1);
    }
    if (!ok)
        return ipu__fail(IPU_INVALID,
                         "expand: %s%s does not broadcast to %s: dimensions, counted from the last, must be "
                         "equal or 1 in x",
                         ipu_type_name(call->operand[X].type), ipu__shape_str(from), ipu__shape_str(&to));
    *out = (ipu__kernel_value){call->operand[X].type, to};
    return IPU_OK;
}

static ipu_tensor expand_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    const ipu_shape *from = &call->operand[X].shape, *to = &call->operand[OUT].shape;
    int              extra = to->rank - from->rank;
    ipu_shape        own   = {.rank = to->rank};
    for (int d = 0; d < to->rank; d++) own.dim[d] = d < extra ? 1 : from->dim[d - extra];
    ipu_tensor t = ipu_tensor_reshape(in[X], own);
    for (int d = 0; d < to->rank; d++)
        if (own.dim[d] != to->dim[d]) t = ipu_tensor_broadcast(t, to->dim[d], d);
    return t;
}

static void expand_grad(ipu__gradient *g) { g->d_in[X] = ipu__sum_like(g->b, g->d_out[0], g->in[X]); }

static const ipu_op_attribute expand_attributes[] = {
    {.name = "shape", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "the new one; -1: as in x"},
};

static const char *const expand_samples[] = {"float[3,1]; shape=[2,3,4]", "float[]; shape=[5]",
                                             "float[1,3]; shape=[2,-1]", "float[1]; shape=[0]", NULL};

const ipu__op_def ipu__op_expand = {VIEW(expand, "repeated by the rule of broadcasting", expand_attributes, 1,
                                         ipu__fold_expand),
                                    .flags = IPU__OP_RESHAPES};

ipu_value ipu_expand(ipu_builder *b, ipu_value x, ipu_shape shape)
{
    return ipu__emit1(b, "expand", IPU__WITH(IPU__INTS("shape", shape.dim, shape.rank)), IPU__IN(x));
}

/* ---- tile ---- */

static ipu_status tile_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_shape repeats, from = call->operand[X].shape;
    IPU_TRY(shape_attribute(call, "repeats", &repeats));
    *out       = call->operand[X];
    int rank   = repeats.rank > from.rank ? repeats.rank : from.rank;
    out->shape = (ipu_shape){.rank = rank};
    for (int d = 0; d < rank; d++) {
        int64_t own   = d < rank - from.rank ? 1 : from.dim[d - (rank - from.rank)];
        int64_t times = d < rank - repeats.rank ? 1 : repeats.dim[d - (rank - repeats.rank)];
        if (times < 0 || __builtin_mul_overflow(own, times, &out->shape.dim[d]))
            return ipu__fail(IPU_INVALID,
                             "tile: repeats %s of %s%s: expected numbers of 0 or more, not too large",
                             ipu__shape_str(&repeats), ipu_type_name(call->operand[X].type),
                             ipu__shape_str(&from));
    }
    return IPU_OK;
}

/* The `times` copies of [before, own, after] as [before, times * own, after]. */
static ipu_value tile_one(ipu_builder *b, ipu_value x, int64_t before, int64_t times, int64_t rest)
{
    x = ipu_reshape(b, x, IPU_SHAPE(before, 1, rest));
    return ipu_expand(b, x, IPU_SHAPE(before, times, rest));
}

static void tile_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    const ipu_shape *from = &call->operand[X].shape, *to = &call->operand[OUT].shape;
    ipu_shape        repeats = {0};
    shape_attribute(call, "repeats", &repeats);
    ipu_value x      = in[X];
    int64_t   before = 1, rest = ipu__op_n_elements(from);
    for (int d = 0; d < to->rank && rest > 0; d++) {
        int64_t own   = d < to->rank - from->rank ? 1 : from->dim[d - (to->rank - from->rank)];
        int64_t times = d < to->rank - repeats.rank ? 1 : repeats.dim[d - (to->rank - repeats.rank)];
        if (times != 1) x = tile_one(b, x, before, times, rest);
        before *= own * times;
        rest /= own;
        if (before == 0) break;
    }
    out[0] = ipu_reshape(b, x, *to);
}

static const ipu_op_attribute tile_attributes[] = {
    {.name = "repeats", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "times, for each dimension"},
};

static const char *const tile_samples[] = {"float[2,3]; repeats=[2,1]", "float[3]; repeats=[2,2]",
                                           "float[2,1,3]; repeats=[2,3,2]", "float[2,3]; repeats=[0,2]",
                                           NULL};

const ipu__op_def ipu__op_tile = {
    .kernel       = {.name = "tile", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in         = 1,
    .family       = "shape",
    .summary      = "the whole of x repeated along dimensions",
    .attributes   = tile_attributes,
    .n_attributes = 1,
    .infer        = tile_infer,
    .compose      = tile_compose,
    .samples      = tile_samples,
};

ipu_value ipu_tile(ipu_builder *b, ipu_value x, const int64_t *repeats, int n)
{
    return ipu__emit1(b, "tile", IPU__WITH(IPU__INTS("repeats", repeats, n < 0 ? 0 : n)), IPU__IN(x));
}

ipu_value ipu_repeat(ipu_builder *b, ipu_value x, int64_t times, int axis)
{
    ipu_shape shape = ipu_value_shape(x);
    int       at    = 0;
    if (!fix_axis(b, __func__, x, axis, shape.rank, &at)) return no_value(b);
    int64_t before = 1, after = 1;
    for (int d = 0; d <= at; d++) before *= shape.dim[d];
    for (int d = at + 1; d < shape.rank; d++) after *= shape.dim[d];
    if (times < 0 || __builtin_mul_overflow(shape.dim[at], times, &shape.dim[at])) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_repeat: %lld times: expected 0 or more, not too many",
                          (long long)times);
        return no_value(b);
    }
    return ipu_reshape(b, tile_one(b, x, before, times, after), shape);
}
