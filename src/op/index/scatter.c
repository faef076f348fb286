/* Scatter: rows put or added where indices say (scatter_nd), and the gradient of gather.
 *
 * Sources are first sorted by the row they go to: each row of the result is written once, by one part, in
 * the order of the indices, and the bits do not depend on the number of parts. Sums of half and bfloat16 are
 * made in float and rounded once.
 */
#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/index/gather.h"
#include "op/number.h"
#include "op/replicas.h"

/* gather_grad: dy, indices, out. scatter_nd: x, indices, updates, out. */
typedef struct job {
    ipu__rows   rows;
    ipu_type    type;
    bool        is_set;
    int64_t     padding; /* a row that gets nothing; -1: none */
    const void *base;    /* NULL: zeros */
    const void *indices, *from;
    void       *out;
} job;

/* ---- the meaning ---- */

static bool adds(ipu_type type) { return type != IPU_BOOL; }

/* Integers wrap. */
static void add_integer(ipu_type type, void *to, const void *from)
{
    uint64_t x = 0, y = 0;
    memcpy(&x, to, ipu_type_size(type));
    memcpy(&y, from, ipu_type_size(type));
    x += y;
    memcpy(to, &x, ipu_type_size(type));
}

static void scatter_ref(const job *j)
{
    const ipu__rows *r    = &j->rows;
    size_t           unit = ipu_type_size(j->type);
    for (int64_t at = 0; at < r->outer * r->extent * r->inner; at++) {
        int64_t     o = at / (r->extent * r->inner), row = at / r->inner % r->extent;
        char       *to  = (char *)j->out + (size_t)at * unit;
        double      sum = j->base ? ipu__number_load(j->type, j->base, at) : 0;
        const char *last;
        if (!j->base) memset(to, 0, unit);
        if (j->base && to != (const char *)j->base + (size_t)at * unit)
            memcpy(to, (const char *)j->base + (size_t)at * unit, unit);
        for (int64_t i = 0; i < r->n && row != j->padding; i++) {
            if (ipu__rows_find(r, j->indices, i) != row) continue;
            int64_t source = (o * r->n + i) * r->inner + at % r->inner;
            last           = (const char *)j->from + (size_t)source * unit;
            if (j->is_set)
                memcpy(to, last, unit);
            else if (ipu__op_is_floating(j->type))
                sum += ipu__number_load(j->type, j->from, source);
            else
                add_integer(j->type, to, last);
        }
        if (!j->is_set && ipu__op_is_floating(j->type)) ipu__number_store(j->type, j->out, at, sum);
    }
}

/* ---- sorted ---- */

/* Scratch: where the sources of each row begin in `order`, and the sources; then a row in float. */
typedef struct sorted {
    int64_t *first; /* extent + 1 */
    int64_t *order; /* n */
    float   *row;   /* inner, for half and bfloat16 */
} sorted;

static bool in_float(ipu_type type) { return type == IPU_HALF || type == IPU_BFLOAT16; }

static size_t sorted_bytes(const ipu__rows *r, ipu_type type)
{
    double bytes = 8.0 * ((double)r->extent + 1 + (double)r->n)
                 + (in_float(type) ? 4.0 * (double)r->inner : 0);
    return bytes < 0x1p47 ? (size_t)bytes : SIZE_MAX;
}

static ipu_status sort_sources(const job *j, sorted *s)
{
    const ipu__rows *r = &j->rows;
    memset(s->first, 0, (size_t)(r->extent + 1) * sizeof *s->first);
    for (int64_t i = 0; i < r->n; i++) {
        int64_t row = ipu__rows_find(r, j->indices, i);
        if (row < 0) return ipu__rows_fail(r, j->indices, i);
        if (row != j->padding) s->first[row]++;
    }
    int64_t sum = 0;
    for (int64_t row = 0; row <= r->extent; row++) { /* ends; filling from the back makes them begins */
        sum += s->first[row];
        s->first[row] = sum;
    }
    for (int64_t i = r->n - 1; i >= 0; i--) {
        int64_t row = ipu__rows_find(r, j->indices, i);
        if (row != j->padding) s->order[--s->first[row]] = i;
    }
    return IPU_OK;
}

#define ADD_ROW(T, U)                                                  \
    static void add_row_##T(void *to, const void *from, int64_t n)     \
    {                                                                  \
        T *restrict x       = to;                                      \
        const T *restrict y = from;                                    \
        for (int64_t i = 0; i < n; i++) x[i] = (T)((U)x[i] + (U)y[i]); \
    }
ADD_ROW(float, float)
ADD_ROW(double, double)
ADD_ROW(uint8_t, uint32_t)
ADD_ROW(uint16_t, uint32_t)
ADD_ROW(uint32_t, uint32_t)
ADD_ROW(uint64_t, uint64_t)

static void add_row(ipu_type type, void *to, const void *from, int64_t n)
{
    static void (*const by_size[])(void *to, const void *from, int64_t n) = {
        [1] = add_row_uint8_t, [2] = add_row_uint16_t, [4] = add_row_uint32_t, [8] = add_row_uint64_t};
    if (type == IPU_FLOAT)
        add_row_float(to, from, n);
    else if (type == IPU_DOUBLE)
        add_row_double(to, from, n);
    else
        by_size[ipu_type_size(type)](to, from, n);
}

static void floats_from(ipu_type type, const void *from, float *to, int64_t n, bool add)
{
    if (type == IPU_HALF && !add) {
        ipu_half_to_floats(from, to, (size_t)n);
        return;
    }
    enum { BLOCK = 256 };
    float block[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        if (type == IPU_HALF)
            ipu_half_to_floats((const ipu_half *)from + i, block, (size_t)m);
        else
            for (int64_t k = 0; k < m; k++)
                block[k] = ipu_bfloat16_to_float(((const ipu_bfloat16 *)from)[i + k]);
        for (int64_t k = 0; k < m; k++) to[i + k] = add ? to[i + k] + block[k] : block[k];
    }
}

static void floats_to(ipu_type type, const float *from, void *to, int64_t n)
{
    if (type == IPU_HALF)
        ipu_half_from_floats(from, to, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) ((ipu_bfloat16 *)to)[i] = ipu_bfloat16_from_float(from[i]);
}

/* Columns begin .. end of row `row` of block `o`. */
static void make_row(const job *j, const sorted *s, int64_t o, int64_t row, ipu_interval columns)
{
    const ipu__rows *r    = &j->rows;
    size_t           unit = ipu_type_size(j->type);
    int64_t          n = columns.end - columns.begin, first = s->first[row], end = s->first[row + 1];
    size_t at = (size_t)((o * r->extent + row) * r->inner + columns.begin) * unit, bytes = (size_t)n * unit;
    const char *base  = j->base ? (const char *)j->base + at : NULL;
    const char *from  = (const char *)j->from + (size_t)(o * r->n * r->inner + columns.begin) * unit;
    char       *to    = (char *)j->out + at;
    size_t      pitch = (size_t)r->inner * unit;
    if (j->is_set && end > first) {
        memcpy(to, from + (size_t)s->order[end - 1] * pitch, bytes);
        return;
    }
    if (in_float(j->type) && end > first) {
        if (base)
            floats_from(j->type, base, s->row, n, false);
        else
            memset(s->row, 0, (size_t)n * sizeof *s->row);
        for (int64_t i = first; i < end; i++)
            floats_from(j->type, from + (size_t)s->order[i] * pitch, s->row, n, true);
        floats_to(j->type, s->row, to, n);
        return;
    }
    if (base && base != to) memcpy(to, base, bytes);
    if (!base && end > first)
        memcpy(to, from + (size_t)s->order[first++] * pitch, bytes);
    else if (!base)
        memset(to, 0, bytes);
    for (int64_t i = first; i < end; i++) add_row(j->type, to, from + (size_t)s->order[i] * pitch, n);
}

static ipu_status scatter_part(const job *j, void *scratch, int part, int n_parts)
{
    const ipu__rows *r = &j->rows;
    sorted           s = {.first = scratch};
    s.order            = s.first + r->extent + 1;
    void *end          = s.order + r->n;
    s.row              = end;
    IPU_TRY(sort_sources(j, &s));
    int64_t      n       = r->outer * r->extent;
    bool         few     = n < 8 * (int64_t)n_parts; /* rows: then columns are dealt */
    ipu_interval rows    = few ? (ipu_interval){0, n} : ipu__op_part(n, 1, part, n_parts);
    ipu_interval columns = {0, r->inner};
    if (few) columns = ipu__op_part(r->inner, ipu__op_line(j->type), part, n_parts);
    for (int64_t row = rows.begin; row < rows.end && columns.begin < columns.end; row++)
        make_row(j, &s, row / r->extent, row % r->extent, columns);
    return IPU_OK;
}

/* ---- gather_grad ---- */

enum { DY, INDICES, DX };

static ipu_status gather_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *dy = &call->operand[DY].shape, *indices = &call->operand[INDICES].shape;
    int64_t          extent = ipu__op_int(call, "extent");
    int              axis, rank = dy->rank - indices->rank + 1;
    IPU_TRY(ipu__op_want_floating(call, DY));
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    if (rank < 1)
        return ipu__fail(IPU_INVALID, "gather_grad: dy %s must have the dimensions of indices %s",
                         ipu__shape_str(dy), ipu__shape_str(indices));
    IPU_TRY(ipu__op_axis(call, "axis", rank, &axis));
    for (int d = 0; d < indices->rank; d++)
        if (dy->dim[axis + d] != indices->dim[d])
            return ipu__fail(IPU_INVALID,
                             "gather_grad: dy %s must have the dimensions of indices %s from %d on",
                             ipu__shape_str(dy), ipu__shape_str(indices), axis);
    if (extent < 0)
        return ipu__fail(IPU_INVALID, "gather_grad: extent = %lld: expected 0 or more", (long long)extent);
    *out = (ipu__kernel_value){call->operand[DY].type, {.rank = rank}};
    for (int d = 0; d < axis; d++) out->shape.dim[d] = dy->dim[d];
    out->shape.dim[axis] = extent;
    for (int d = axis + 1; d < rank; d++) out->shape.dim[d] = dy->dim[d + indices->rank - 1];
    return IPU_OK;
}

static job gather_grad_job(const ipu__kernel_call *call, void *const *operand)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[DX].shape.rank, &axis);
    job j     = {.rows    = ipu__rows_axis(&call->operand[DX].shape, axis, &call->operand[INDICES]),
                 .type    = call->operand[DX].type,
                 .from    = operand[DY],
                 .indices = operand[INDICES],
                 .out     = operand[DX]};
    j.padding = ipu__index_fix(ipu__op_int(call, "padding"), j.rows.extent);
    return j;
}

/* What padding rows did not get comes back from none. */
static void gather_grad_grad(ipu__gradient *g)
{
    ipu_builder *b       = g->b;
    int64_t      padding = ipu__op_int(g->call, "padding");
    int          axis    = 0;
    ipu__op_axis(g->call, "axis", g->call->operand[DX].shape.rank, &axis);
    if (!g->wanted[DY]) return;
    ipu_value d = ipu_gather(b, g->d_out[0], g->in[INDICES], axis);
    padding     = ipu__index_fix(padding, g->call->operand[DX].shape.dim[axis]);
    if (padding >= 0) {
        ipu_value indices = g->in[INDICES];
        ipu_value is_row  = ipu_not_equal(b, indices, ipu_scalar_like(b, indices, (double)padding));
        ipu_shape shape   = ipu_value_shape(indices);
        while (shape.rank < g->call->operand[DY].shape.rank - axis) shape.dim[shape.rank++] = 1;
        if (ipu_value_type(indices) != IPU_UINT32) { /* the same row counted from the end */
            double    back = (double)(padding - g->call->operand[DX].shape.dim[axis]);
            ipu_value also = ipu_not_equal(b, indices, ipu_scalar_like(b, indices, back));
            is_row         = ipu_logical_and(b, is_row, also);
        }
        d = ipu_mul(b, d, ipu_cast(b, ipu_reshape(b, is_row, shape), ipu_value_type(d)));
    }
    g->d_in[DY] = d;
}

/* ---- scatter_nd ---- */

enum { S_X, S_INDICES, S_UPDATES, S_OUT };

static ipu_status get_set(const ipu__kernel_call *call, bool *is_set)
{
    const char *how = ipu__op_text(call, "reduction");
    *is_set         = strcmp(how, "none") == 0;
    if (!*is_set && strcmp(how, "add") != 0)
        return ipu__fail(IPU_INVALID, "%s: reduction \"%s\": expected none or add", call->def->name, how);
    ipu_type type = call->operand[S_X].type;
    if (!*is_set && !adds(type))
        return ipu__fail(IPU_INVALID, "%s: %s cannot be added: expected a floating or an integer type",
                         call->def->name, ipu_type_name(type));
    return IPU_OK;
}

static ipu_status scatter_nd_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[S_X].shape, *indices = &call->operand[S_INDICES].shape;
    bool             is_set;
    IPU_TRY(ipu__op_want_integer(call, S_INDICES));
    IPU_TRY(ipu__op_want_same_type(call, S_X, S_UPDATES));
    IPU_TRY(get_set(call, &is_set));
    int64_t k = indices->rank > 0 ? indices->dim[indices->rank - 1] : 0;
    if (k < 1 || k > x->rank || indices->rank - 1 + x->rank - k > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID,
                         "scatter_nd: indices %s: expected a last dimension of 1 to %d, the rank of x",
                         ipu__shape_str(indices), x->rank);
    ipu_shape want = {.rank = 0};
    for (int d = 0; d < indices->rank - 1; d++) want.dim[want.rank++] = indices->dim[d];
    for (int d = (int)k; d < x->rank; d++) want.dim[want.rank++] = x->dim[d];
    IPU_TRY(ipu__op_want_shape(call, S_UPDATES, &want));
    *out = call->operand[S_X];
    return IPU_OK;
}

static job scatter_nd_job(const ipu__kernel_call *call, void *const *operand)
{
    job j = {.rows    = ipu__rows_nd(&call->operand[S_X].shape, &call->operand[S_INDICES]),
             .type    = call->operand[S_X].type,
             .padding = -1,
             .base    = operand[S_X],
             .indices = operand[S_INDICES],
             .from    = operand[S_UPDATES],
             .out     = operand[S_OUT]};
    get_set(call, &j.is_set);
    return j;
}

static void scatter_nd_grad(ipu__gradient *g)
{
    bool is_set = false;
    get_set(g->call, &is_set);
    const ipu__kernel_value *updates = &g->call->operand[S_UPDATES];
    if (g->wanted[S_UPDATES]) g->d_in[S_UPDATES] = ipu_gather_nd(g->b, g->d_out[0], g->in[S_INDICES]);
    if (!g->wanted[S_X]) return;
    g->d_in[S_X] = g->d_out[0];
    if (!is_set) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, updates->type, IPU_SCALAR, 0),
                                 updates->shape);
    g->d_in[S_X]    = ipu_scatter_nd(g->b, g->d_out[0], g->in[S_INDICES], zeros, IPU_SCATTER_SET);
}

/* ---- records ---- */

static void *const nowhere[IPU__MAX_OPERANDS];

#define SCATTER_KERNEL(op)                                                                                   \
    static void op##_ref(const ipu__kernel_call *call, void *const *operand)                                 \
    {                                                                                                        \
        job j = op##_job(call, operand);                                                                     \
        scatter_ref(&j);                                                                                     \
    }                                                                                                        \
    static ipu_status op##_examine(const ipu__kernel_call *call, void *const *operand)                       \
    {                                                                                                        \
        job j = op##_job(call, operand);                                                                     \
        return ipu__rows_examine(&j.rows, j.indices);                                                        \
    }                                                                                                        \
    static size_t op##_scratch(const ipu__kernel_call *call, int n_parts)                                    \
    {                                                                                                        \
        (void)n_parts;                                                                                       \
        job j = op##_job(call, nowhere);                                                                     \
        return sorted_bytes(&j.rows, j.type);                                                                \
    }                                                                                                        \
    static ipu_status op##_run(const ipu__kernel_call *call, void *state, void *const *operand,              \
                               void *scratch, int part, int n_parts)                                         \
    {                                                                                                        \
        (void)state;                                                                                         \
        job j = op##_job(call, operand);                                                                     \
        return scatter_part(&j, scratch, part, n_parts);                                                     \
    }                                                                                                        \
    static double op##_work(const ipu__kernel_call *call)                                                    \
    {                                                                                                        \
        job j = op##_job(call, nowhere);                                                                     \
        return ((double)j.rows.n + (double)j.rows.extent) * (double)j.rows.outer * (double)j.rows.inner;     \
    }                                                                                                        \
    static double op##_ref_work(const ipu__kernel_call *call)                                                \
    {                                                                                                        \
        job j = op##_job(call, nowhere);                                                                     \
        return op##_work(call) * ((double)j.rows.n + 1);                                                     \
    }                                                                                                        \
    static ipu_status op##_plan(const ipu__kernel_call *call, const ipu_target *target,                      \
                                ipu__kernel_plan *out)                                                       \
    {                                                                                                        \
        job j = op##_job(call, nowhere);                                                                     \
        return ipu__rows_plan(j.rows.outer * (j.rows.n + j.rows.extent), j.rows.inner, j.type, target, out); \
    }                                                                                                        \
    static const ipu__cpu_impl op##_implementations[] = {                                                    \
        {.head = {"sorted", ipu__op_fits_always}, .scratch_bytes = op##_scratch, .run = op##_run}};
SCATTER_KERNEL(gather_grad)
SCATTER_KERNEL(scatter_nd)

#define KERNEL(op_name, operand_list, n)                                                                  \
    {                                                                                                     \
        .name = #op_name, .operands = (operand_list), .n_operands = (n), .check = ipu__op_check,          \
        .rows = ipu__op_rows, .examine = op_name##_examine, .ref = op_name##_ref, .work = op_name##_work, \
        .plan = op_name##_plan, .ref_work = op_name##_ref_work,                                           \
        .implementations = IPU__ON_CPU(op_name##_implementations)                                         \
    }

static const ipu__kernel_operand gather_grad_operands[] = {IPU__INPUT("dy"), IPU__INPUT("indices"),
                                                           IPU__OUTPUT("dx")};

static const ipu_op_attribute gather_grad_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "dimension of x that was indexed"},
    {.name = "extent", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "what x has of it"},
    {.name      = "padding",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -0x1p63,
     .meaning   = "index whose row gets nothing; -2^63: none"},
};

static const char *const gather_grad_samples[] = {
    "float[3,4], int32[3]{0,4}; extent=5",        "float[2,2,2,3], int32[2,2]{-5,4}; axis=1 extent=5",
    "float[3,9], int64[9]{0,6}; axis=1 extent=7", "float[6,3], int32[6]{0,3}; extent=4 padding=2",
    "float[4], int32[]{0,2}; extent=3",           "float[0,4], int32[0]; extent=3",
    "float[3,0], int32[3]{0,4}; extent=5",        "float[500,203], int32[500]{0,99}; extent=100",
    "float[500,203], int32[500]{0,1}; extent=2",  NULL,
};

const ipu__op_def ipu__op_gather_grad = {
    .kernel       = KERNEL(gather_grad, gather_grad_operands, 3),
    .n_in         = 2,
    .family       = "gather",
    .summary      = "the gradient of gather: rows of dy added up where indices say",
    .attributes   = gather_grad_attributes,
    .n_attributes = IPU__COUNT(gather_grad_attributes),
    .infer        = gather_grad_infer,
    .grad         = gather_grad_grad,
    .fold         = ipu__fold_gather_grad,
    .samples      = gather_grad_samples,
};

static const ipu__kernel_operand scatter_nd_operands[] = {
    IPU__INPUT("x"), IPU__INPUT("indices"), IPU__INPUT("updates"), IPU__OUTPUT_OVER("out", S_X)};

static const ipu_op_attribute scatter_nd_attributes[] = {
    {.name           = "reduction",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "none",
     .meaning        = "none: the last of equal indices stays; add: added to x"},
};

static const char *const scatter_nd_samples[] = {
    "float[5,4,3], int32[6,2]{0,3}, float[6,3]; reduction=add",
    "float[5,4,3], int32[1,2]{0,3}, float[1,3]",
    "float[50,4,3], int32[600,2]{0,3}, float[600,3]",
    "float[4,4], int64[2,3,2]{-4,3}, float[2,3]; reduction=add",
    "float[5,2], int32[0,1], float[0,2]",
    "int32[5,2], int32[7,1]{0,4}, int32[7,2]; reduction=add",
    "int8[5,2], int32[7,1]{0,4}, int8[7,2]; reduction=add",
    "uint64[5,2], int32[7,1]{0,4}, uint64[7,2]; reduction=add",
    "uint16[5,2], int32[7,1]{0,4}, uint16[7,2]; reduction=add",
    "float[70,300], int32[400,1]{0,69}, float[400,300]; reduction=add",
    NULL,
};

const ipu__op_def ipu__op_scatter_nd = {
    .kernel       = KERNEL(scatter_nd, scatter_nd_operands, 4),
    .n_in         = 3,
    .family       = "gather",
    .summary      = "x with slices over its first dimensions set or added to, by rows of indices",
    .attributes   = scatter_nd_attributes,
    .n_attributes = 1,
    .infer        = scatter_nd_infer,
    .grad         = scatter_nd_grad,
    .samples      = scatter_nd_samples,
};

ipu_value ipu_scatter_nd(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, ipu_scatter how)
{
    if (how != IPU_SCATTER_ADD && how != IPU_SCATTER_SET)
        return ipu__scatter_reduce_nd(b, x, indices, updates, how);
    return ipu__emit1(b, "scatter_nd",
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", how == IPU_SCATTER_ADD ? "add" : "none")),
                      IPU__IN(x, indices, updates));
}
