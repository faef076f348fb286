/* Gather: rows of x by index, along an axis (gather) or over the first dimensions (gather_nd).
 *
 * Bits are copied: every type will do. The gradient of gather is gather_grad (scatter.c), of gather_nd it is
 * scatter_nd.
 */
#include "op/index/gather.h"

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/replicas.h"

enum { X, INDICES, OUT };

/* ---- rows ---- */

ipu_status ipu__index_fail(ipu_type type, const void *indices, int64_t i, int64_t extent)
{
    return ipu__fail(IPU_ABORTED, "index %lld at position %lld is out of range: expected %lld to %lld",
                     (long long)ipu__index_load(type, indices, i), (long long)i, (long long)-extent,
                     (long long)extent - 1);
}

ipu__rows ipu__rows_axis(const ipu_shape *x, int axis, const ipu__kernel_value *indices)
{
    ipu__rows r = {.outer      = 1,
                   .extent     = x->dim[axis],
                   .inner      = 1,
                   .n          = ipu__op_n_elements(&indices->shape),
                   .k          = 1,
                   .dims       = {x->dim[axis]},
                   .index_type = indices->type};
    for (int d = 0; d < axis; d++) r.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) r.inner *= x->dim[d];
    return r;
}

ipu__rows ipu__rows_nd(const ipu_shape *x, const ipu__kernel_value *indices)
{
    const ipu_shape *s = &indices->shape;
    ipu__rows        r = {.outer = 1, .extent = 1, .inner = 1, .n = 1, .index_type = indices->type};
    r.k                = (int)s->dim[s->rank - 1];
    for (int d = 0; d < s->rank - 1; d++) r.n *= s->dim[d];
    for (int d = 0; d < x->rank; d++) {
        if (d < r.k) r.dims[d] = x->dim[d];
        *(d < r.k ? &r.extent : &r.inner) *= x->dim[d];
    }
    return r;
}

int64_t ipu__rows_find(const ipu__rows *rows, const void *indices, int64_t i)
{
    int64_t row = 0;
    for (int k = 0; k < rows->k; k++) {
        int64_t index = ipu__index_fix(ipu__index_load(rows->index_type, indices, i * rows->k + k),
                                       rows->dims[k]);
        if (index < 0) return -1;
        row = row * rows->dims[k] + index;
    }
    return row;
}

ipu_status ipu__rows_fail(const ipu__rows *rows, const void *indices, int64_t i)
{
    for (int k = 0; k < rows->k; k++) {
        int64_t at = i * rows->k + k;
        if (ipu__index_fix(ipu__index_load(rows->index_type, indices, at), rows->dims[k]) < 0)
            return ipu__index_fail(rows->index_type, indices, at, rows->dims[k]);
    }
    return IPU_OK;
}

ipu_status ipu__rows_examine(const ipu__rows *rows, const void *indices)
{
    for (int64_t i = 0; i < rows->n; i++)
        if (ipu__rows_find(rows, indices, i) < 0) return ipu__rows_fail(rows, indices, i);
    return IPU_OK;
}

ipu_status ipu__rows_plan(int64_t n, int64_t inner, ipu_type type, const ipu_target *target,
                          ipu__kernel_plan *out)
{
    *out = (ipu__kernel_plan){
        .basis = "PopLibs' multiSlice: 30 cycles, 19 per row, 2 per 2 elements; rows (or, "
                 "where they are few, columns too) dealt evenly to the tiles"};
    if (n == 0 || inner == 0) return IPU_OK;
    int64_t tiles = ipu_target_n_tiles(target), workers = ipu_target_n_workers(target);
    int64_t column_split = n < tiles ? tiles / n : 1;
    if (column_split > inner) column_split = inner;
    int64_t columns = ipu__op_ceil_div(inner, column_split), rows = ipu__op_ceil_div(n, tiles);
    double  vectors     = (double)ipu__op_ceil_div(columns, 2);
    double  turns       = (double)ipu__op_ceil_div(rows, workers);
    out->cycles         = ipu__op_count((double)workers * (30 + turns * (19 + vectors * 2)));
    out->n_tiles        = ipu__op_ceil_div(n, rows) * ipu__op_ceil_div(inner, columns);
    out->bytes_received = out->bytes_sent = ipu__op_count((double)rows * (double)columns
                                                          * (double)ipu_type_size(type));
    return IPU_OK;
}

/* ---- copying rows ---- */

static ipu__rows axis_rows(const ipu__kernel_call *call)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis); /* infer has seen it */
    return ipu__rows_axis(&call->operand[X].shape, axis, &call->operand[INDICES]);
}

static ipu__rows nd_rows(const ipu__kernel_call *call)
{
    return ipu__rows_nd(&call->operand[X].shape, &call->operand[INDICES]);
}

static void copy_ref(const ipu__kernel_call *call, const ipu__rows *rows, void *const *operand)
{
    size_t bytes = (size_t)rows->inner * ipu_type_size(call->operand[X].type);
    for (int64_t o = 0; o < rows->outer; o++)
        for (int64_t i = 0; i < rows->n; i++) {
            int64_t row = ipu__rows_find(rows, operand[INDICES], i);
            char   *to  = (char *)operand[OUT] + (size_t)(o * rows->n + i) * bytes;
            if (row >= 0)
                memcpy(to, (const char *)operand[X] + (size_t)(o * rows->extent + row) * bytes, bytes);
        }
}

/* Copies of a size that the compiler knows: one element per index is common. */
#define COPY_SMALL(T)                                                                                \
    static ipu_status copy_##T(const ipu__rows *rows, const void *indices, const char *x, char *out, \
                               ipu_interval range)                                                   \
    {                                                                                                \
        for (int64_t i = range.begin; i < range.end; i++) {                                          \
            int64_t row = ipu__rows_find(rows, indices, i);                                          \
            if (row < 0) return ipu__rows_fail(rows, indices, i);                                    \
            memcpy(out + (size_t)i * sizeof(T), x + (size_t)row * sizeof(T), sizeof(T));             \
        }                                                                                            \
        return IPU_OK;                                                                               \
    }
COPY_SMALL(uint32_t)
COPY_SMALL(uint64_t)

static ipu_status copy_rows(const ipu__rows *rows, size_t bytes, const void *indices, const char *x,
                            char *out, ipu_interval range)
{
    if (bytes == 4) return copy_uint32_t(rows, indices, x, out, range);
    if (bytes == 8) return copy_uint64_t(rows, indices, x, out, range);
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t row = ipu__rows_find(rows, indices, i);
        if (row < 0) return ipu__rows_fail(rows, indices, i);
        memcpy(out + (size_t)i * bytes, x + (size_t)row * bytes, bytes);
    }
    return IPU_OK;
}

static ipu_status copy_part(const ipu__kernel_call *call, const ipu__rows *rows, void *const *operand,
                            int part, int n_parts)
{
    size_t bytes = (size_t)rows->inner * ipu_type_size(call->operand[X].type);
    if (rows->inner == 0) return part == 0 ? ipu__rows_examine(rows, operand[INDICES]) : IPU_OK;
    ipu_interval mine = ipu__op_part(rows->outer * rows->n, 1, part, n_parts);
    for (int64_t at = mine.begin; at < mine.end;) {
        int64_t o = at / rows->n, begin = at % rows->n, end = rows->n;
        if (mine.end - at < end - begin) end = begin + mine.end - at;
        IPU_TRY(copy_rows(rows, bytes, operand[INDICES],
                          (const char *)operand[X] + (size_t)(o * rows->extent) * bytes,
                          (char *)operand[OUT] + (size_t)(o * rows->n) * bytes, (ipu_interval){begin, end}));
        at += end - begin;
    }
    return IPU_OK;
}

#define COPY_KERNEL(op, rows_of)                                                                    \
    static void op##_ref(const ipu__kernel_call *call, void *const *operand)                        \
    {                                                                                               \
        ipu__rows rows = rows_of(call);                                                             \
        copy_ref(call, &rows, operand);                                                             \
    }                                                                                               \
    static ipu_status op##_examine(const ipu__kernel_call *call, void *const *operand)              \
    {                                                                                               \
        ipu__rows rows = rows_of(call);                                                             \
        return ipu__rows_examine(&rows, operand[INDICES]);                                          \
    }                                                                                               \
    static ipu_status op##_run(const ipu__kernel_call *call, void *state, void *const *operand,     \
                               void *scratch, int part, int n_parts)                                \
    {                                                                                               \
        (void)state, (void)scratch;                                                                 \
        ipu__rows rows = rows_of(call);                                                             \
        return copy_part(call, &rows, operand, part, n_parts);                                      \
    }                                                                                               \
    static ipu_status op##_plan(const ipu__kernel_call *call, const ipu_target *target,             \
                                ipu__kernel_plan *out)                                              \
    {                                                                                               \
        ipu__rows rows = rows_of(call);                                                             \
        return ipu__rows_plan(rows.outer * rows.n, rows.inner, call->operand[X].type, target, out); \
    }                                                                                               \
    static const ipu__cpu_impl op##_implementations[] = {                                           \
        {.head = {"rows", ipu__op_fits_always}, .run = op##_run}};
COPY_KERNEL(gather, axis_rows)
COPY_KERNEL(gather_nd, nd_rows)

static double copy_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__INPUT("indices"), IPU__OUTPUT("out")};

/* ---- gather ---- */

static ipu_status gather_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *indices = &call->operand[INDICES].shape;
    int              axis;
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    if (x->rank - 1 + indices->rank > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID, "gather: %s by indices %s has rank %d: expected at most %d",
                         ipu__shape_str(x), ipu__shape_str(indices), x->rank - 1 + indices->rank,
                         IPU_MAX_RANK);
    *out = (ipu__kernel_value){call->operand[X].type, {.rank = 0}};
    for (int d = 0; d < axis; d++) out->shape.dim[out->shape.rank++] = x->dim[d];
    for (int d = 0; d < indices->rank; d++) out->shape.dim[out->shape.rank++] = indices->dim[d];
    for (int d = axis + 1; d < x->rank; d++) out->shape.dim[out->shape.rank++] = x->dim[d];
    return IPU_OK;
}

static void gather_grad(ipu__gradient *g)
{
    int axis = 0;
    ipu__op_axis(g->call, "axis", g->call->operand[X].shape.rank, &axis);
    if (!g->wanted[X]) return;
    g->d_in[X] = ipu__emit1(g->b, "gather_grad",
                            IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis),
                                      IPU_INT_ATTRIBUTE("extent", g->call->operand[X].shape.dim[axis]),
                                      IPU_INT_ATTRIBUTE("padding", ipu__op_int(g->call, "padding"))),
                            IPU__IN(g->d_out[0], g->in[INDICES]));
}

static const ipu_op_attribute gather_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "dimension of x that is indexed"},
    {.name      = "padding",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -0x1p63,
     .meaning   = "index whose row gets no gradient; -2^63: none"},
};
/* clang-format off */
static const char *const gather_samples[] = {
    "float[2,5,3], int32[2,2]{-5,4}; axis=1",
    "float[5,4], int32[3]{0,4}",
    "float[3,7], int64[4]{0,6}; axis=-1",
    "float[6], int32[]{0,5}",
    "float[4,0], int32[3]{0,3}",
    "float[4,2], int32[0]",
    "float[100,257], int32[21,20]{0,99}",
    "float[300,1000], int64[400]{0,999}; axis=1",
    NULL,
};
/* clang-format on */

const ipu__op_def ipu__op_gather = {
    .kernel       = {.name            = "gather",
                     .operands        = operands,
                     .n_operands      = 3,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = gather_examine,
                     .ref             = gather_ref,
                     .work            = copy_work,
                     .plan            = gather_plan,
                     .implementations = IPU__ON_CPU(gather_implementations)},
    .n_in         = 2,
    .family       = "gather",
    .summary      = "slices of x along an axis, by index",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = gather_attributes,
    .n_attributes = 2,
    .infer        = gather_infer,
    .grad         = gather_grad,
    .fold         = ipu__fold_gather,
    .samples      = gather_samples,
};

ipu_value ipu_gather(ipu_builder *b, ipu_value x, ipu_value indices, int axis)
{
    return ipu__emit1(b, "gather", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), IPU__IN(x, indices));
}

ipu_value ipu_embedding(ipu_builder *b, ipu_value table, ipu_value indices, int64_t padding)
{
    return ipu__emit1(b, "gather", IPU__WITH(IPU_INT_ATTRIBUTE("padding", padding)), IPU__IN(table, indices));
}

/* ---- gather_nd ---- */

static ipu_status gather_nd_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *indices = &call->operand[INDICES].shape;
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    int64_t k = indices->rank > 0 ? indices->dim[indices->rank - 1] : 0;
    if (k < 1 || k > x->rank || indices->rank - 1 + x->rank - k > IPU_MAX_RANK)
        return ipu__fail(
            IPU_INVALID,
            "gather_nd: indices %s: expected a last dimension of 1 to %d, the rank of x, and a result of "
            "rank %d at most",
            ipu__shape_str(indices), x->rank, IPU_MAX_RANK);
    *out = (ipu__kernel_value){call->operand[X].type, {.rank = 0}};
    for (int d = 0; d < indices->rank - 1; d++) out->shape.dim[out->shape.rank++] = indices->dim[d];
    for (int d = (int)k; d < x->rank; d++) out->shape.dim[out->shape.rank++] = x->dim[d];
    return IPU_OK;
}

static void gather_nd_grad(ipu__gradient *g)
{
    const ipu__kernel_value *x = &g->call->operand[X];
    if (!g->wanted[X]) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, x->type, IPU_SCALAR, 0), x->shape);
    g->d_in[X]      = ipu_scatter_nd(g->b, zeros, g->in[INDICES], g->d_out[0], IPU_SCATTER_ADD);
}

/* clang-format off */
static const char *const gather_nd_samples[] = {
    "float[6,3], int32[6,1]{0,5}",
    "float[5,4,3], int32[6,2]{0,3}",
    "float[4,4], int64[2,3,2]{-4,3}",
    "float[5,2], int32[0,1]",
    "float[40,50,60], int32[3000,2]{0,39}",
    NULL,
};
/* clang-format on */

const ipu__op_def ipu__op_gather_nd = {
    .kernel  = {.name            = "gather_nd",
                .operands        = operands,
                .n_operands      = 3,
                .check           = ipu__op_check,
                .rows            = ipu__op_rows,
                .examine         = gather_nd_examine,
                .ref             = gather_nd_ref,
                .work            = copy_work,
                .plan            = gather_nd_plan,
                .implementations = IPU__ON_CPU(gather_nd_implementations)},
    .n_in    = 2,
    .family  = "gather",
    .summary = "slices of x over its first dimensions, by rows of indices",
    .flags   = IPU__OP_EXACT_IN_HALF,
    .infer   = gather_nd_infer,
    .grad    = gather_nd_grad,
    .samples = gather_nd_samples,
};

ipu_value ipu_gather_nd(ipu_builder *b, ipu_value x, ipu_value indices)
{
    return ipu__emit1(b, "gather_nd", NULL, 0, IPU__IN(x, indices));
}
