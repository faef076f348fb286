/* gather_elements and scatter_elements: one index per element, along an axis.
 *
 * Other dimensions of `indices` may be smaller than those of x. Where they are equal, x is [outer, extent,
 * inner] and every (outer, inner) is a lane of its own, which one part does; otherwise `ref` does it.
 */
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/index/gather.h"
#include "op/number.h"
#include "op/replicas.h"

/* gather_elements: x, indices, out. scatter_elements: x, indices, updates, out. */
enum { X, INDICES, GATHERED, UPDATES = 2, SCATTERED };

static int get_axis(const ipu__kernel_call *call)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis); /* infer has seen it */
    return axis;
}

static ipu_status check_indices(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[X].shape, *indices = &call->operand[INDICES].shape;
    int              axis;
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    bool ok = x->rank == indices->rank;
    for (int d = 0; ok && d < x->rank; d++) ok = d == axis || indices->dim[d] <= x->dim[d];
    if (ok) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: indices %s must have the rank of x %s and no larger dimension but %d",
                     call->def->name, ipu__shape_str(indices), ipu__shape_str(x), axis);
}

/* ---- the meaning ---- */

/* Element of x that element `i` of `indices` names, or -1. */
static int64_t place(const ipu__kernel_call *call, int axis, const void *indices, int64_t i)
{
    const ipu_shape *x = &call->operand[X].shape, *s = &call->operand[INDICES].shape;
    int64_t          left = i, at = 0, stride = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        int64_t k = left % s->dim[d];
        left /= s->dim[d];
        if (d == axis)
            k = ipu__index_fix(ipu__index_load(call->operand[INDICES].type, indices, i), x->dim[d]);
        if (k < 0) return -1;
        at += k * stride;
        stride *= x->dim[d];
    }
    return at;
}

static ipu_status examine(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__kernel_value *indices = &call->operand[INDICES];
    int64_t                  extent  = call->operand[X].shape.dim[get_axis(call)];
    int64_t                  n       = ipu__op_n_elements(&indices->shape);
    for (int64_t i = 0; i < n; i++)
        if (ipu__index_fix(ipu__index_load(indices->type, operand[INDICES], i), extent) < 0)
            return ipu__index_fail(indices->type, operand[INDICES], i, extent);
    return IPU_OK;
}

static void gather_elements_ref(const ipu__kernel_call *call, void *const *operand)
{
    size_t  unit = ipu_type_size(call->operand[X].type);
    int64_t n    = ipu__op_n_elements(&call->operand[INDICES].shape);
    int     axis = get_axis(call);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = place(call, axis, operand[INDICES], i);
        if (from >= 0)
            memcpy((char *)operand[GATHERED] + (size_t)i * unit,
                   (const char *)operand[X] + (size_t)from * unit, unit);
    }
}

static ipu_status get_set(const ipu__kernel_call *call, bool *is_set)
{
    const char *how  = ipu__op_text(call, "reduction");
    ipu_type    type = call->operand[X].type;
    *is_set          = strcmp(how, "none") == 0;
    if (!*is_set && strcmp(how, "add") != 0)
        return ipu__fail(IPU_INVALID, "scatter_elements: reduction \"%s\": expected none or add", how);
    if (!*is_set && type == IPU_BOOL)
        return ipu__fail(IPU_INVALID,
                         "scatter_elements: %s cannot be added: expected a floating or an integer type",
                         ipu_type_name(type));
    return IPU_OK;
}

/* Integers wrap. */
static void add_bits(void *to, const void *from, size_t unit)
{
    uint64_t x = 0, y = 0;
    memcpy(&x, to, unit);
    memcpy(&y, from, unit);
    x += y;
    memcpy(to, &x, unit);
}

/* All that goes to element `at`, summed in double and rounded once: the first source seeks the others. */
static void add_all(const ipu__kernel_call *call, void *const *operand, int axis, int64_t first, int64_t at)
{
    ipu_type type = call->operand[X].type;
    int64_t  n    = ipu__op_n_elements(&call->operand[INDICES].shape);
    double   sum  = ipu__number_load(type, operand[SCATTERED], at);
    for (int64_t i = first; i < n; i++)
        if (place(call, axis, operand[INDICES], i) == at) sum += ipu__number_load(type, operand[UPDATES], i);
    ipu__number_store(type, operand[SCATTERED], at, sum);
}

static bool is_first(const ipu__kernel_call *call, const void *indices, int axis, int64_t i, int64_t at)
{
    for (int64_t k = 0; k < i; k++)
        if (place(call, axis, indices, k) == at) return false;
    return true;
}

static void scatter_elements_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type   = call->operand[X].type;
    size_t   unit   = ipu_type_size(type);
    int64_t  n      = ipu__op_n_elements(&call->operand[INDICES].shape);
    size_t   bytes  = (size_t)ipu__op_n_elements(&call->operand[X].shape) * unit;
    int      axis   = get_axis(call);
    bool     is_set = false, once = type == IPU_HALF || type == IPU_BFLOAT16;
    get_set(call, &is_set);
    if (operand[SCATTERED] != operand[X]) memcpy(operand[SCATTERED], operand[X], bytes);
    for (int64_t i = 0; i < n; i++) {
        int64_t     at   = place(call, axis, operand[INDICES], i);
        char       *to   = (char *)operand[SCATTERED] + (size_t)at * unit;
        const char *from = (const char *)operand[UPDATES] + (size_t)i * unit;
        if (at < 0) continue;
        if (is_set)
            memcpy(to, from, unit);
        else if (!ipu__op_is_floating(type))
            add_bits(to, from, unit);
        else if (!once)
            ipu__number_store(type, operand[SCATTERED], at,
                              ipu__number_load(type, operand[SCATTERED], at)
                                  + ipu__number_load(type, operand[UPDATES], i));
        else if (is_first(call, operand[INDICES], axis, i, at))
            add_all(call, operand, axis, i, at);
    }
}

/* Each element that is added to in half or bfloat16 looks at all indices. */
static double scatter_elements_ref_work(const ipu__kernel_call *call)
{
    ipu_type type   = call->operand[X].type;
    bool     is_set = true;
    double   n      = (double)ipu__op_n_elements(&call->operand[INDICES].shape);
    double   all    = 4 * (n + (double)ipu__op_n_elements(&call->operand[X].shape));
    get_set(call, &is_set);
    return !is_set && (type == IPU_HALF || type == IPU_BFLOAT16) ? all + 8 * n * n : all;
}

/* ---- by lanes ---- */

typedef struct lanes {
    int64_t  outer, extent, inner, n; /* x: [outer, extent, inner]; indices: [outer, n, inner] */
    ipu_type index_type;
} lanes;

static lanes get_lanes(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = get_axis(call);
    lanes l = {1, x->dim[axis], 1, call->operand[INDICES].shape.dim[axis], call->operand[INDICES].type};
    for (int d = 0; d < axis; d++) l.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) l.inner *= x->dim[d];
    return l;
}

static bool same_lanes(const ipu__kernel_call *call)
{
    int axis = get_axis(call);
    for (int d = 0; d < call->operand[X].shape.rank; d++)
        if (d != axis && call->operand[X].shape.dim[d] != call->operand[INDICES].shape.dim[d]) return false;
    return true;
}

static bool gather_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return same_lanes(call);
}

static bool scatter_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    ipu_type type   = call->operand[X].type;
    bool     is_set = false;
    get_set(call, &is_set);
    return same_lanes(call) && (is_set || (type != IPU_HALF && type != IPU_BFLOAT16));
}

/* Lanes of this part: blocks of `outer`, or columns where there are few blocks. */
typedef struct share {
    ipu_interval outer, inner;
} share;

static share get_share(const lanes *l, size_t unit, int part, int n_parts)
{
    share s = {{0, l->outer}, {0, l->inner}};
    if (l->outer >= 4 * (int64_t)n_parts)
        s.outer = ipu__op_part(l->outer, 1, part, n_parts);
    else
        s.inner = ipu__op_part(l->inner, 64 / (int64_t)unit, part, n_parts);
    return s;
}

#define GATHER_LANES(T)                                                                                  \
    static ipu_status gather_##T(const lanes *l, const share *s, const void *from, const void *indices,  \
                                 void *to)                                                               \
    {                                                                                                    \
        const T *x   = from;                                                                             \
        T       *out = to;                                                                               \
        for (int64_t o = s->outer.begin; o < s->outer.end; o++)                                          \
            for (int64_t k = 0; k < l->n; k++)                                                           \
                for (int64_t i = s->inner.begin; i < s->inner.end; i++) {                                \
                    int64_t at = (o * l->n + k) * l->inner + i;                                          \
                    int64_t j  = ipu__index_fix(ipu__index_load(l->index_type, indices, at), l->extent); \
                    if (j < 0) return ipu__index_fail(l->index_type, indices, at, l->extent);            \
                    out[at] = x[(o * l->extent + j) * l->inner + i];                                     \
                }                                                                                        \
        return IPU_OK;                                                                                   \
    }
GATHER_LANES(uint8_t)
GATHER_LANES(uint16_t)
GATHER_LANES(uint32_t)
GATHER_LANES(uint64_t)

typedef ipu_status (*gather_fn)(const lanes *l, const share *s, const void *from, const void *indices,
                                void *to);
static const gather_fn gathers[] = {
    [1] = gather_uint8_t, [2] = gather_uint16_t, [4] = gather_uint32_t, [8] = gather_uint64_t};

static ipu_status gather_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state, (void)scratch;
    lanes  l    = get_lanes(call);
    size_t unit = ipu_type_size(call->operand[X].type);
    share  s    = get_share(&l, unit, part, n_parts);
    return gathers[unit](&l, &s, operand[X], operand[INDICES], operand[GATHERED]);
}

#define SET(x, y) (x) = (y)
#define ADD(x, y) (x) = (__typeof__(x))((x) + (y))
#define SCATTER_LANES(name, T, PUT)                                                                         \
    static ipu_status scatter_##name(const lanes *l, const share *s, const void *from, const void *indices, \
                                     void *to)                                                              \
    {                                                                                                       \
        const T *y   = from;                                                                                \
        T       *out = to;                                                                                  \
        for (int64_t o = s->outer.begin; o < s->outer.end; o++)                                             \
            for (int64_t k = 0; k < l->n; k++)                                                              \
                for (int64_t i = s->inner.begin; i < s->inner.end; i++) {                                   \
                    int64_t at = (o * l->n + k) * l->inner + i;                                             \
                    int64_t j  = ipu__index_fix(ipu__index_load(l->index_type, indices, at), l->extent);    \
                    if (j < 0) return ipu__index_fail(l->index_type, indices, at, l->extent);               \
                    PUT(out[(o * l->extent + j) * l->inner + i], y[at]);                                    \
                }                                                                                           \
        return IPU_OK;                                                                                      \
    }
SCATTER_LANES(set_8, uint8_t, SET)
SCATTER_LANES(set_16, uint16_t, SET)
SCATTER_LANES(set_32, uint32_t, SET)
SCATTER_LANES(set_64, uint64_t, SET)
SCATTER_LANES(add_float, float, ADD)
SCATTER_LANES(add_double, double, ADD)
SCATTER_LANES(add_8, uint8_t, ADD)
SCATTER_LANES(add_16, uint16_t, ADD)
SCATTER_LANES(add_32, uint32_t, ADD)
SCATTER_LANES(add_64, uint64_t, ADD)

static gather_fn find_scatter(ipu_type type, bool is_set)
{
    static const gather_fn set[] = {
        [1] = scatter_set_8, [2] = scatter_set_16, [4] = scatter_set_32, [8] = scatter_set_64};
    static const gather_fn add[] = {
        [1] = scatter_add_8, [2] = scatter_add_16, [4] = scatter_add_32, [8] = scatter_add_64};
    if (is_set) return set[ipu_type_size(type)];
    if (type == IPU_FLOAT) return scatter_add_float;
    if (type == IPU_DOUBLE) return scatter_add_double;
    return add[ipu_type_size(type)];
}

static ipu_status scatter_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state, (void)scratch;
    lanes  l      = get_lanes(call);
    size_t unit   = ipu_type_size(call->operand[X].type);
    share  s      = get_share(&l, unit, part, n_parts);
    bool   is_set = false;
    get_set(call, &is_set);
    size_t bytes = (size_t)(s.inner.end - s.inner.begin) * unit;
    for (int64_t row = s.outer.begin * l.extent; row < s.outer.end * l.extent && bytes > 0; row++) {
        size_t at = (size_t)(row * l.inner + s.inner.begin) * unit;
        if (operand[SCATTERED] != operand[X])
            memcpy((char *)operand[SCATTERED] + at, (const char *)operand[X] + at, bytes);
    }
    return find_scatter(call->operand[X].type, is_set)(&l, &s, operand[UPDATES], operand[INDICES],
                                                       operand[SCATTERED]);
}

/* ---- records ---- */

static ipu_status gather_elements_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_indices(call));
    *out = (ipu__kernel_value){call->operand[X].type, call->operand[INDICES].shape};
    return IPU_OK;
}

static void gather_elements_grad(ipu__gradient *g)
{
    const ipu__kernel_value *x = &g->call->operand[X];
    if (!g->wanted[X]) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, x->type, IPU_SCALAR, 0), x->shape);
    g->d_in[X]      = ipu_scatter_elements(g->b, zeros, g->in[INDICES], g->d_out[0], get_axis(g->call),
                                           IPU_SCATTER_ADD);
}

static double indices_work(const ipu__kernel_call *call)
{
    double n = (double)ipu__op_n_elements(&call->operand[INDICES].shape);
    return call->n_operands == 4 ? n + (double)ipu__op_n_elements(&call->operand[X].shape) : n;
}

static ipu_status elements_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    return ipu__rows_plan((int64_t)indices_work(call), 1, call->operand[X].type, target, out);
}

static const ipu_op_attribute attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "dimension of x that is indexed"},
    {.name           = "reduction",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "none",
     .meaning        = "none: the last of equal indices stays; add: added to x"},
};

static const ipu__kernel_operand gather_operands[] = {IPU__INPUT("x"), IPU__INPUT("indices"),
                                                      IPU__OUTPUT("out")};

static const ipu__cpu_impl gather_impls[] = {{.head = {"lanes", gather_fits}, .run = gather_run}};
/* clang-format off */
static const char *const gather_samples[] = {
    "float[3,5], int32[3,4]{0,4}; axis=1",
    "float[3,5], int32[2,5]{-3,2}",
    "float[4,3,2], int64[4,5,2]{0,2}; axis=-2",
    "float[4,3], int32[2,2]{0,3}",
    "float[4,3], int32[0,3]",
    "float[300,40], int32[700,40]{0,299}",
    "float[600,40], int64[600,200]{0,39}; axis=1",
    NULL,
};
/* clang-format on */

const ipu__op_def ipu__op_gather_elements = {
    .kernel       = {.name            = "gather_elements",
                     .operands        = gather_operands,
                     .n_operands      = 3,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = examine,
                     .ref             = gather_elements_ref,
                     .work            = indices_work,
                     .plan            = elements_plan,
                     .implementations = IPU__ON_CPU(gather_impls)},
    .n_in         = 2,
    .family       = "gather",
    .summary      = "elements of x along an axis, one index for each",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = 1,
    .infer        = gather_elements_infer,
    .grad         = gather_elements_grad,
    .fold         = ipu__fold_along_axis,
    .samples      = gather_samples,
};

ipu_value ipu_gather_elements(ipu_builder *b, ipu_value x, ipu_value indices, int axis)
{
    return ipu__emit1(b, "gather_elements", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), IPU__IN(x, indices));
}

static ipu_status scatter_elements_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool is_set;
    IPU_TRY(check_indices(call));
    IPU_TRY(ipu__op_want_same_type(call, X, UPDATES));
    IPU_TRY(ipu__op_want_shape(call, UPDATES, &call->operand[INDICES].shape));
    IPU_TRY(get_set(call, &is_set));
    *out = call->operand[X];
    return IPU_OK;
}

static void scatter_elements_grad(ipu__gradient *g)
{
    bool is_set = false;
    int  axis   = get_axis(g->call);
    get_set(g->call, &is_set);
    const ipu__kernel_value *updates = &g->call->operand[UPDATES];
    if (g->wanted[UPDATES]) g->d_in[UPDATES] = ipu_gather_elements(g->b, g->d_out[0], g->in[INDICES], axis);
    if (!g->wanted[X]) return;
    g->d_in[X] = g->d_out[0];
    if (!is_set) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, updates->type, IPU_SCALAR, 0),
                                 updates->shape);
    g->d_in[X]      = ipu_scatter_elements(g->b, g->d_out[0], g->in[INDICES], zeros, axis, IPU_SCATTER_SET);
}

static const ipu__kernel_operand scatter_operands[] = {IPU__INPUT("x"), IPU__INPUT("indices"),
                                                       IPU__INPUT("updates"), IPU__OUTPUT_OVER("out", X)};

static const ipu__cpu_impl scatter_impls[] = {{.head = {"lanes", scatter_fits}, .run = scatter_run}};
/* clang-format off */
static const char *const scatter_samples[] = {
    "float[3,5], int32[3,4]{0,4}, float[3,4]; axis=1 reduction=add",
    "float[3,5], int32[3,1]{0,4}, float[3,1]; axis=1",
    "float[4,3,2], int64[4,5,2]{-3,2}, float[4,5,2]; axis=-2 reduction=add",
    "float[4,3], int32[2,2]{0,3}, float[2,2]; reduction=add",
    "int32[5], int32[9]{0,4}, int32[9]; reduction=add",
    "int8[5], int32[9]{0,4}, int8[9]; reduction=add",
    "uint16[5], int32[9]{0,4}, uint16[9]; reduction=add",
    "uint64[5], int32[9]{0,4}, uint64[9]; reduction=add",
    "float[4,3], int32[0,3], float[0,3]",
    "float[30,160], int32[20,160]{0,29}, float[20,160]; reduction=add",
    "float[300,160], int64[300,180]{0,159}, float[300,180]; axis=1",
    NULL,
};
/* clang-format on */

const ipu__op_def ipu__op_scatter_elements = {
    .kernel       = {.name            = "scatter_elements",
                     .operands        = scatter_operands,
                     .n_operands      = 4,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = examine,
                     .ref             = scatter_elements_ref,
                     .work            = indices_work,
                     .ref_work        = scatter_elements_ref_work,
                     .plan            = elements_plan,
                     .implementations = IPU__ON_CPU(scatter_impls)},
    .n_in         = 3,
    .family       = "gather",
    .summary      = "x with elements along an axis set or added to, one index for each",
    .attributes   = attributes,
    .n_attributes = 2,
    .infer        = scatter_elements_infer,
    .grad         = scatter_elements_grad,
    .samples      = scatter_samples,
};

ipu_value ipu_scatter_elements(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, int axis,
                               ipu_scatter how)
{
    if (how != IPU_SCATTER_ADD && how != IPU_SCATTER_SET)
        return ipu__scatter_reduce_elements(b, x, indices, updates, axis, how);
    return ipu__emit1(b, "scatter_elements",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis),
                                IPU_TEXT_ATTRIBUTE("reduction", how == IPU_SCATTER_ADD ? "add" : "none")),
                      IPU__IN(x, indices, updates));
}
