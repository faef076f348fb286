/* argmax and argmin: where the extremes along a dimension are.
 *
 * Columns that lie next to each other are searched together, so that memory is read in order. In a row the
 * extreme is found first, by the loops of reductions, then where it is.
 */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op/reduce.h"
#include "op/vector/floats.h"
#include "op/number.h"
#include "op/reduce/reduce.h"
#include "op/replicas.h"

enum { X, OUT };

typedef struct search {
    int64_t outer, n, inner; /* x as [outer, n, inner], searched along n */
    bool    largest, last;
} search;

static search search_of(const ipu__kernel_call *call)
{
    const ipu_shape *shape = &call->operand[X].shape;
    search           s     = {1, 1, 1, call->def == &ipu__op_argmax.kernel, ipu__op_int(call, "select_last")};
    int              axis  = 0;
    if (shape->rank == 0) return s;
    ipu__op_axis(call, "axis", shape->rank, &axis); /* seen by infer */
    s.n = shape->dim[axis];
    for (int d = 0; d < shape->rank; d++)
        if (d != axis) *(d < axis ? &s.outer : &s.inner) *= shape->dim[d];
    return s;
}

/* ---- the meaning ---- */

static bool beats(const search *s, double v, double best)
{
    if (isnan(best)) return s->last && isnan(v);
    if (isnan(v)) return true;
    if (v == best) return s->last;
    return s->largest ? v > best : v < best;
}

/* As uint64 in the same order; a smaller one is larger where the smallest is sought. */
static uint64_t whole_key(const search *s, ipu_type type, const void *x, int64_t i)
{
    uint64_t key = (uint64_t)ipu__whole_load(type, x, i);
    if (type != IPU_UINT64) key ^= UINT64_C(1) << 63;
    return s->largest ? key : ~key;
}

static bool element_beats(const search *s, ipu_type type, const void *x, int64_t i, int64_t best)
{
    if (ipu__op_is_floating(type))
        return beats(s, ipu__number_load(type, x, i), ipu__number_load(type, x, best));
    uint64_t a = whole_key(s, type, x, i), b = whole_key(s, type, x, best);
    return a > b || (a == b && s->last);
}

static void arg_ref(const ipu__kernel_call *call, void *const *operand)
{
    search   s    = search_of(call);
    ipu_type type = call->operand[X].type;
    int32_t *out  = operand[OUT];
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < s.inner; i++) {
            int64_t at   = o * s.n * s.inner + i;
            int32_t best = 0;
            for (int64_t j = 1; j < s.n; j++)
                if (element_beats(&s, type, operand[X], at + j * s.inner, at + best * s.inner))
                    best = (int32_t)j;
            out[o * s.inner + i] = best;
        }
}

/* ---- columns together ---- */

enum { COLUMNS = 64 };

/* Signs (of integers, bits) are turned for the smallest, and `last` looks from the end: then all is the first
 * largest. */
#define SIGN(v) (turn ? -(v) : (v))
#define BITS(v) ((v) ^ turn)
#define SEARCH(T, V, Turn, load, TURN)                                                                  \
    static void columns_##T(const search *s, const void *data, int64_t at, int n_columns, int32_t *out) \
    {                                                                                                   \
        const T *x = (const T *)data + at;                                                              \
        V        best[COLUMNS];                                                                         \
        Turn     turn = (Turn)(s->largest ? 0 : -1);                                                    \
        int32_t  where[COLUMNS];                                                                        \
        int64_t  first = s->last ? s->n - 1 : 0, step = s->last ? -1 : 1;                               \
        for (int c = 0; c < n_columns; c++) {                                                           \
            best[c]  = TURN((V)load(x[first * s->inner + c]));                                          \
            where[c] = (int32_t)first;                                                                  \
        }                                                                                               \
        for (int64_t k = 1, j = first + step; k < s->n; k++, j += step)                                 \
            for (int c = 0; c < n_columns; c++) {                                                       \
                V    v      = TURN((V)load(x[j * s->inner + c]));                                       \
                bool better = (v > best[c]) | ((v != v) & (best[c] == best[c]));                        \
                best[c]     = better ? v : best[c];                                                     \
                where[c]    = better ? (int32_t)j : where[c];                                           \
            }                                                                                           \
        for (int c = 0; c < n_columns; c++) out[c] = where[c];                                          \
    }
#define AS_IT_IS(v) (v)
SEARCH(float, float, int, AS_IT_IS, SIGN)
SEARCH(double, double, int, AS_IT_IS, SIGN)
SEARCH(ipu_half, float, int, ipu_half_to_float, SIGN)
SEARCH(ipu_bfloat16, float, int, ipu_bfloat16_to_float, SIGN)
SEARCH(int8_t, int32_t, int32_t, AS_IT_IS, BITS)
SEARCH(uint8_t, int32_t, int32_t, AS_IT_IS, BITS)
SEARCH(int16_t, int32_t, int32_t, AS_IT_IS, BITS)
SEARCH(uint16_t, int32_t, int32_t, AS_IT_IS, BITS)
SEARCH(int32_t, int32_t, int32_t, AS_IT_IS, BITS)
SEARCH(uint32_t, uint32_t, uint32_t, AS_IT_IS, BITS)
SEARCH(int64_t, int64_t, int64_t, AS_IT_IS, BITS)
SEARCH(uint64_t, uint64_t, uint64_t, AS_IT_IS, BITS)

typedef void (*columns_fn)(const search *s, const void *data, int64_t at, int n_columns, int32_t *out);
static const columns_fn by_type[IPU_N_TYPES] = {
    [IPU_FLOAT] = columns_float,           [IPU_DOUBLE] = columns_double,   [IPU_HALF] = columns_ipu_half,
    [IPU_BFLOAT16] = columns_ipu_bfloat16, [IPU_INT8] = columns_int8_t,     [IPU_UINT8] = columns_uint8_t,
    [IPU_INT16] = columns_int16_t,         [IPU_UINT16] = columns_uint16_t, [IPU_INT32] = columns_int32_t,
    [IPU_UINT32] = columns_uint32_t,       [IPU_INT64] = columns_int64_t,   [IPU_UINT64] = columns_uint64_t,
};

/* ---- one row: what the extreme is, then where ---- */

static int32_t row_float(const search *s, const float *x, const ipu__reduce_loops *extreme)
{
    float   best;
    int64_t i = s->last ? s->n - 1 : 0, step = s->last ? -1 : 1;
    extreme->run(x, s->n, &best);
    if (best != best)
        while (x[i] == x[i]) i += step;
    else
        while (x[i] != best) i += step;
    return (int32_t)i;
}

static bool has_rows(const search *s, ipu_type type)
{
    return s->inner == 1 && (type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16);
}

static size_t arg_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    search s = search_of(call);
    return has_rows(&s, call->operand[X].type) ? (size_t)s.n * sizeof(float) : 0;
}

static ipu_status arg_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)state;
    search       s    = search_of(call);
    ipu_type     type = call->operand[X].type;
    ipu_interval mine = ipu__op_part(s.outer * s.inner, 16, part, n_parts);
    int32_t     *out  = operand[OUT];
    if (has_rows(&s, type)) {
        ipu__reduce_fold         fold = s.largest ? IPU__FOLD_MAX : IPU__FOLD_MIN;
        const ipu__reduce_loops *best = &IPU__SIMD_PICK(ipu__reduce_loops_at).at[IPU__SUM_FLOAT][fold];
        for (int64_t i = mine.begin; i < mine.end; i++)
            out[i] = row_float(&s, ipu__floats_get(type, operand[X], i * s.n, s.n, scratch), best);
        return IPU_OK;
    }
    for (int64_t i = mine.begin; i < mine.end;) {
        int64_t row = i / s.inner, column = i % s.inner, n = s.inner - column;
        if (n > mine.end - i) n = mine.end - i;
        if (n > COLUMNS) n = COLUMNS;
        by_type[type](&s, operand[X], row * s.n * s.inner + column, (int)n, out + i);
        i += n;
    }
    return IPU_OK;
}

/* ---- the records ---- */

static ipu_status arg_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu__kernel_value *x    = &call->operand[X];
    int                      axis = 0, rank = x->shape.rank > 0 ? x->shape.rank : 1; /* a scalar: as [1] */
    if (!by_type[x->type])
        return ipu__fail(IPU_INVALID, "%s: \"x\" must be of a floating or an integer type, found %s%s",
                         call->def->name, ipu_type_name(x->type), ipu__shape_str(&x->shape));
    IPU_TRY(ipu__op_axis(call, "axis", rank, &axis));
    int64_t n = x->shape.rank > 0 ? x->shape.dim[axis] : 1;
    if (n == 0 || n > INT32_MAX)
        return ipu__fail(IPU_INVALID, "%s: dimension %d of \"x\" %s%s must have 1 to %d elements",
                         call->def->name, axis, ipu_type_name(x->type), ipu__shape_str(&x->shape), INT32_MAX);
    *out = (ipu__kernel_value){.type = IPU_INT32};
    for (int d = 0; d < x->shape.rank; d++)
        if (d != axis)
            out->shape.dim[out->shape.rank++] = x->shape.dim[d];
        else if (ipu__op_int(call, "keep_dims"))
            out->shape.dim[out->shape.rank++] = 1;
    return IPU_OK;
}

static double arg_work(const ipu__kernel_call *call)
{
    return 2 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

/* A tile for some outputs, which receives what it searches. */
static ipu_status arg_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    search       s     = search_of(call);
    int64_t      n_out = s.outer * s.inner, each = ipu__op_ceil_div(n_out, ipu_target_n_tiles(target)) * s.n;
    ipu__op_loop loop = {26, 1, 7};
    IPU_TRY(ipu__op_plan_loop(&loop, n_out * s.n, s.n, target, out));
    out->bytes_received = out->bytes_sent = each * (int64_t)ipu_type_size(call->operand[X].type);
    out->basis = "our estimate: 7 cycles for each element, as PopLibs' int32 binary operations";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"plain", ipu__op_fits_always}, .scratch_bytes = arg_scratch_bytes, .run = arg_run},
};

static const ipu_op_attribute attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "dimension to search, negative from the end"},
    {.name = "keep_dims", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: it stays, with 1 element"},
    {.name = "select_last", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the last of equal ones, not the first"},
};

static const char *const samples[] = {"float[3,4]",
                                      "float[3,4]; axis=1",
                                      "float[2,3,4]; axis=-2 keep_dims=1",
                                      "float[7]; axis=0",
                                      "float[]",
                                      "int32[3,50]; axis=1",
                                      "int32[3,50]; axis=1 select_last=1",
                                      "int8[3,50]{-9,9}; axis=1",
                                      "uint8[3,50]; axis=0",
                                      "int16[20,3]{-9,9}",
                                      "uint16[20,3]; select_last=1",
                                      "uint32[3,50]; axis=1",
                                      "int64[3,50]{-9,9}; axis=1",
                                      "uint64[3,50]; axis=1",
                                      "float[0,3]; axis=1",
                                      "float[40,1000]; axis=1",
                                      "float[3,500,101]; axis=1 select_last=1",
                                      NULL};

#define RECORD(name_, summary_)                                                                             \
    const ipu__op_def ipu__op_##name_ = {.kernel       = {.name            = #name_,                        \
                                                          .operands        = operands,                      \
                                                          .n_operands      = 2,                             \
                                                          .check           = ipu__op_check,                 \
                                                          .rows            = ipu__op_rows,                  \
                                                          .ref             = arg_ref,                       \
                                                          .work            = arg_work,                      \
                                                          .plan            = arg_plan,                      \
                                                          .implementations = IPU__ON_CPU(implementations)}, \
                                         .n_in         = 1,                                                 \
                                         .family       = "reduce",                                          \
                                         .summary      = summary_,                                          \
                                         .flags        = IPU__OP_NO_GRADIENT,                               \
                                         .attributes   = attributes,                                        \
                                         .n_attributes = IPU__COUNT(attributes),                            \
                                         .infer        = arg_infer,                                         \
                                         .fold         = ipu__fold_along_axis,                              \
                                         .samples      = samples}
RECORD(argmax, "index of the largest element along a dimension");
RECORD(argmin, "index of the smallest element along a dimension");

static ipu_value emit_arg(ipu_builder *b, const char *op, ipu_value x, int axis, bool keep_dims,
                          bool select_last)
{
    return ipu__emit1(b, op,
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("keep_dims", keep_dims),
                                IPU_INT_ATTRIBUTE("select_last", select_last)),
                      IPU__IN(x));
}

ipu_value ipu_argmax(ipu_builder *b, ipu_value x, int axis, bool keep_dims)
{
    return emit_arg(b, "argmax", x, axis, keep_dims, false);
}

ipu_value ipu_argmin(ipu_builder *b, ipu_value x, int axis, bool keep_dims)
{
    return emit_arg(b, "argmin", x, axis, keep_dims, false);
}

ipu_value ipu_argmax_with(ipu_builder *b, ipu_value x, int axis, bool keep_dims, bool select_last)
{
    return emit_arg(b, "argmax", x, axis, keep_dims, select_last);
}

ipu_value ipu_argmin_with(ipu_builder *b, ipu_value x, int axis, bool keep_dims, bool select_last)
{
    return emit_arg(b, "argmin", x, axis, keep_dims, select_last);
}
