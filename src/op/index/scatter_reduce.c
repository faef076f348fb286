/* scatter_reduce: rows multiplied with, or compared with, those that indices name; what ipu_scatter_nd and
 * ipu_scatter_elements become where elements are not set or added. Parts are rows of x; each part reads all
 * indices, so that a row is changed in their order whatever the number of parts.
 */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/index/gather.h"

enum { X, INDICES, UPDATES, OUT }; /* [rows, inner], [n], [n, inner] */

typedef enum fold { MUL, MAX, MIN, N_FOLDS } fold;
static const char *const fold_names[N_FOLDS] = {"mul", "max", "min"};

static ipu_status get_fold(const ipu__kernel_call *call, fold *out)
{
    const char *name = ipu__op_text(call, "reduction");
    int         i    = 0;
    while (i < N_FOLDS && strcmp(fold_names[i], name) != 0) i++;
    *out = (fold)i;
    if (i < N_FOLDS) return IPU_OK;
    return ipu__fail(IPU_INVALID, "scatter_reduce: reduction \"%s\": expected mul, max or min", name);
}

static ipu_status scatter_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    fold how;
    IPU_TRY(get_fold(call, &how));
    IPU_TRY(ipu__op_want_rank(call, X, 2, 2));
    IPU_TRY(ipu__op_want_rank(call, INDICES, 1, 1));
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    IPU_TRY(ipu__op_want_same_type(call, X, UPDATES));
    if (call->operand[X].type == IPU_BOOL)
        return ipu__fail(IPU_INVALID,
                         "scatter_reduce: \"x\" must be of a floating or an integer type, found bool");
    *out = call->operand[X];
    return ipu__op_want_shape(call, UPDATES,
                              &IPU_SHAPE(call->operand[INDICES].shape.dim[0], out->shape.dim[1]));
}

/* ---- folding a row: x op= y ---- */

#define FOLD(T, name, load, store)                                           \
    static void fold_##name(fold how, void *to, const void *from, int64_t n) \
    {                                                                        \
        T       *x = to;                                                     \
        const T *y = from;                                                   \
        for (int64_t i = 0; i < n; i++) {                                    \
            __typeof__(load(x[i])) a = load(x[i]), c = load(y[i]);           \
            if (how == MUL)                                                  \
                x[i] = store(a * c);                                         \
            else if (how == MAX ? c > a || c != c : c < a || c != c)         \
                x[i] = y[i];                                                 \
        }                                                                    \
    }
#define AS_IT_IS(v) (v)
#define AS_WORD(v) ((uint32_t)(v))
FOLD(float, float, AS_IT_IS, AS_IT_IS)
FOLD(double, double, AS_IT_IS, AS_IT_IS)
FOLD(ipu_half, half, ipu_half_to_float, ipu_half_from_float)
FOLD(ipu_bfloat16, bfloat16, ipu_bfloat16_to_float, ipu_bfloat16_from_float)
FOLD(uint8_t, uint8, AS_WORD, (uint8_t))
FOLD(uint16_t, uint16, AS_WORD, (uint16_t))
FOLD(uint32_t, uint32, AS_IT_IS, AS_IT_IS)
FOLD(uint64_t, uint64, AS_IT_IS, AS_IT_IS)

/* Signed ones are multiplied as unsigned ones are: the low bits are the same. */
#define FOLD_SIGNED(T, name, as)                                             \
    static void fold_##name(fold how, void *to, const void *from, int64_t n) \
    {                                                                        \
        T       *x = to;                                                     \
        const T *y = from;                                                   \
        if (how == MUL) {                                                    \
            fold_##as(how, to, from, n);                                     \
            return;                                                          \
        }                                                                    \
        for (int64_t i = 0; i < n; i++)                                      \
            if (how == MAX ? y[i] > x[i] : y[i] < x[i]) x[i] = y[i];         \
    }
FOLD_SIGNED(int8_t, int8, uint8)
FOLD_SIGNED(int16_t, int16, uint16)
FOLD_SIGNED(int32_t, int32, uint32)
FOLD_SIGNED(int64_t, int64, uint64)

static void (*const folds[IPU_N_TYPES])(fold how, void *to, const void *from, int64_t n) = {
    [IPU_FLOAT] = fold_float,       [IPU_DOUBLE] = fold_double, [IPU_HALF] = fold_half,
    [IPU_BFLOAT16] = fold_bfloat16, [IPU_INT8] = fold_int8,     [IPU_UINT8] = fold_uint8,
    [IPU_INT16] = fold_int16,       [IPU_UINT16] = fold_uint16, [IPU_INT32] = fold_int32,
    [IPU_UINT32] = fold_uint32,     [IPU_INT64] = fold_int64,   [IPU_UINT64] = fold_uint64,
};

/* Rows `mine`. An index that is out of range is left out; *bad is the first of them, -1: none. */
static void do_rows(const ipu__kernel_call *call, void *const *operand, ipu_interval mine, int64_t *bad)
{
    const ipu_shape *x     = &call->operand[X].shape;
    size_t           pitch = (size_t)x->dim[1] * ipu_type_size(call->operand[X].type);
    fold             how   = MUL;
    get_fold(call, &how);
    char *out = operand[OUT];
    *bad      = -1;
    if (operand[OUT] != operand[X])
        memcpy(out + (size_t)mine.begin * pitch, (const char *)operand[X] + (size_t)mine.begin * pitch,
               (size_t)(mine.end - mine.begin) * pitch);
    for (int64_t i = 0; i < call->operand[INDICES].shape.dim[0]; i++) {
        int64_t row = ipu__index_fix(ipu__index_load(call->operand[INDICES].type, operand[INDICES], i),
                                     x->dim[0]);
        if (row < 0 && *bad < 0) *bad = i;
        if (row < mine.begin || row >= mine.end) continue;
        folds[call->operand[X].type](how, out + (size_t)row * pitch,
                                     (const char *)operand[UPDATES] + (size_t)i * pitch, x->dim[1]);
    }
}

static void scatter_ref(const ipu__kernel_call *call, void *const *operand)
{
    int64_t bad;
    do_rows(call, operand, (ipu_interval){0, call->operand[X].shape.dim[0]}, &bad);
}

static ipu_status scatter_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu__kernel_value *x = &call->operand[X];
    int64_t                  bad, line = ipu__op_line(x->type);
    int64_t                  grain = x->shape.dim[1] > 0 ? ipu__op_ceil_div(line, x->shape.dim[1]) : line;
    do_rows(call, operand, ipu__op_part(x->shape.dim[0], grain, part, n_parts), &bad);
    if (bad < 0) return IPU_OK;
    return ipu__index_fail(call->operand[INDICES].type, operand[INDICES], bad, x->shape.dim[0]);
}

static ipu_status scatter_examine(const ipu__kernel_call *call, void *const *operand)
{
    ipu__rows rows = ipu__rows_axis(&call->operand[X].shape, 0, &call->operand[INDICES]);
    return ipu__rows_examine(&rows, operand[INDICES]);
}

static double scatter_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[X].shape)
         + 2 * (double)ipu__op_n_elements(&call->operand[UPDATES].shape);
}

static ipu_status scatter_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    const ipu_shape *x = &call->operand[X].shape;
    return ipu__rows_plan(x->dim[0] + call->operand[INDICES].shape.dim[0], x->dim[1], call->operand[X].type,
                          target, out);
}

/* ---- the gradient ---- */

/* 1 where equal, in the type of a. */
static ipu_value same(ipu_builder *b, ipu_value a, ipu_value c)
{
    return ipu_cast(b, ipu_equal(b, a, c), ipu_value_type(a));
}

static ipu_value add_rows(ipu_builder *b, ipu_value to, ipu_value indices, ipu_value rows)
{
    return ipu_scatter_nd(b, to, ipu_unsqueeze(b, indices, 1), rows, IPU_SCATTER_ADD);
}

/* A product: that of all others. An extreme: shared by all that are equal to it. */
static void scatter_grad(ipu__gradient *g)
{
    ipu_builder *b = g->b;
    ipu_value    x = g->in[X], updates = g->in[UPDATES], indices = g->in[INDICES];
    ipu_value    d   = g->d_out[0], mask_x, mask_u;
    fold         how = MUL;
    get_fold(g->call, &how);
    if (how == MUL) {
        d = ipu_mul(b, d, g->out[0]);
        if (g->wanted[X]) g->d_in[X] = ipu_div(b, d, x);
        if (g->wanted[UPDATES]) g->d_in[UPDATES] = ipu_div(b, ipu_gather(b, d, indices, 0), updates);
        return;
    }
    mask_x = same(b, x, g->out[0]);
    mask_u = same(b, updates, ipu_gather(b, g->out[0], indices, 0));
    d      = ipu_div(b, d, add_rows(b, mask_x, indices, mask_u));
    if (g->wanted[X]) g->d_in[X] = ipu_mul(b, d, mask_x);
    if (g->wanted[UPDATES]) g->d_in[UPDATES] = ipu_mul(b, ipu_gather(b, d, indices, 0), mask_u);
}

/* ---- the record ---- */

static const ipu__kernel_operand operands[]  = {IPU__INPUT("x"), IPU__INPUT("indices"), IPU__INPUT("updates"),
                                                IPU__OUTPUT_OVER("out", X)};
static const ipu__cpu_impl implementations[] = {{.head = {"rows", ipu__op_fits_always}, .run = scatter_run}};
static const ipu_op_attribute attributes[]   = {
      {.name = "reduction", .kind = IPU_ATTRIBUTE_TEXT, .required = true, .meaning = "mul, max or min"}};
static const char *const samples[] = {"float[5,3]{0.5,2}, int32[4]{0,4}, float[4,3]{0.5,2}; reduction=mul",
                                      "float[5,3], int64[4]{-5,4}, float[4,3]; reduction=max",
                                      "float[5,1], int32[9]{0,4}, float[9,1]; reduction=min",
                                      "int8[5,3]{-9,9}, int32[4]{0,4}, int8[4,3]{-9,9}; reduction=mul",
                                      "uint8[5,3], int32[4]{0,4}, uint8[4,3]; reduction=max",
                                      "int16[5,3]{-9,9}, int32[4]{0,4}, int16[4,3]{-9,9}; reduction=min",
                                      "uint16[5,3], int32[4]{0,4}, uint16[4,3]; reduction=mul",
                                      "int32[5,3]{-9,9}, int32[4]{0,4}, int32[4,3]{-9,9}; reduction=max",
                                      "uint32[5,3], int32[4]{0,4}, uint32[4,3]; reduction=mul",
                                      "int64[5,3]{-9,9}, int32[4]{0,4}, int64[4,3]{-9,9}; reduction=min",
                                      "uint64[5,3], int32[4]{0,4}, uint64[4,3]; reduction=max",
                                      "float[5,0], int32[4]{0,4}, float[4,0]; reduction=mul",
                                      "float[500,100], int32[900]{0,499}, float[900,100]; reduction=max",
                                      NULL};

const ipu__op_def ipu__op_scatter_reduce = {
    .kernel       = {.name            = "scatter_reduce",
                     .operands        = operands,
                     .n_operands      = 4,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = scatter_examine,
                     .ref             = scatter_ref,
                     .work            = scatter_work,
                     .plan            = scatter_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 3,
    .family       = "gather",
    .summary      = "rows of x multiplied or compared with those that indices name for them",
    .attributes   = attributes,
    .n_attributes = 1,
    .infer        = scatter_infer,
    .grad         = scatter_grad,
    .samples      = samples,
};

/* ---- as rows ---- */

static ipu_value emit(ipu_builder *b, ipu_value x, ipu_value rows, ipu_value updates, int64_t n_rows,
                      ipu_scatter how)
{
    ipu_shape shape = ipu_value_shape(x);
    int64_t   all = ipu__op_n_elements(&shape), inner = n_rows ? all / n_rows : 0,
            n     = ipu_value_n_elements(rows);
    fold      f   = how == IPU_SCATTER_MUL ? MUL : how == IPU_SCATTER_MAX ? MAX : MIN;
    ipu_value out = ipu__emit1(b, "scatter_reduce", IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", fold_names[f])),
                               IPU__IN(ipu_reshape(b, x, IPU_SHAPE(n_rows, inner)),
                                       ipu_reshape(b, rows, IPU_SHAPE(n)),
                                       ipu_reshape(b, updates, IPU_SHAPE(n, inner))));
    return ipu_reshape(b, out, shape);
}

/* Negative ones from the end; one out of range is moved past all rows, so that the run stops. */
static ipu_value scaled_index(ipu_builder *b, ipu_value index, int64_t extent, int64_t stride, int64_t n_rows)
{
    ipu_value zero = ipu_scalar_like(b, index, 0), n = ipu_scalar_like(b, index, (double)extent);
    ipu_value i  = ipu_where(b, ipu_less(b, index, zero), ipu_add(b, index, n), index);
    ipu_value ok = ipu_logical_and(b, ipu_greater_equal(b, i, zero), ipu_less(b, i, n));
    ipu_value at = ipu_mul(b, i, ipu_scalar_like(b, index, (double)stride));
    return ipu_where(b, ok, at, ipu_scalar_like(b, index, (double)n_rows));
}

/* Shapes are checked by the op that sets: its rules are the same. */
static bool check(ipu_builder *b, const char *op, const ipu_attribute *with, size_t n_with, ipu_value x,
                  ipu_value indices, ipu_value updates)
{
    if (!ipu__builder_has(b, op, x) || !ipu__builder_has(b, op, indices) || !ipu__builder_has(b, op, updates))
        return false;
    const ipu__op_def *def  = ipu__op_find(op);
    ipu__kernel_call   call = {.def          = &def->kernel,
                               .attributes   = with,
                               .n_attributes = n_with,
                               .n_operands   = 3,
                               .operand      = {{ipu_value_type(x), ipu_value_shape(x)},
                                                {ipu_value_type(indices), ipu_value_shape(indices)},
                                                {ipu_value_type(updates), ipu_value_shape(updates)}}};
    ipu__kernel_value  out;
    ipu_status         status = def->infer(&call, &out);
    if (status != IPU_OK) ipu__builder_fail(b, status, "%s", ipu_message());
    return status == IPU_OK;
}

ipu_value ipu__scatter_reduce_nd(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates,
                                 ipu_scatter how)
{
    if (!check(b, "scatter_nd", NULL, 0, x, indices, updates)) return (ipu_value){b, 0};
    int64_t   k = ipu_value_dim(indices, -1), n_rows = 1, stride = 1;
    ipu_value rows = {b, 0};
    for (int d = 0; d < k; d++) n_rows *= ipu_value_dim(x, d);
    for (int d = (int)k - 1; d >= 0; d--) {
        ipu_value at = scaled_index(b, ipu_index(b, indices, d, -1), ipu_value_dim(x, d), stride, n_rows);
        rows         = ipu__has(rows) ? ipu_add(b, rows, at) : at;
        stride *= ipu_value_dim(x, d);
    }
    return emit(b, x, rows, updates, n_rows, how);
}

/* Every element of x is a row. */
ipu_value ipu__scatter_reduce_elements(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates,
                                       int axis, ipu_scatter how)
{
    if (!check(b, "scatter_elements", &IPU_INT_ATTRIBUTE("axis", axis), 1, x, indices, updates))
        return (ipu_value){b, 0};
    int       rank = ipu_value_rank(x), at = axis < 0 ? axis + rank : axis;
    int64_t   n_rows = ipu_value_n_elements(x), stride = 1;
    ipu_value rows = {b, 0};
    for (int d = rank - 1; d >= 0; d--) {
        ipu_shape own = {.rank = rank};
        for (int i = 0; i < rank; i++) own.dim[i] = i == d ? ipu_value_dim(indices, d) : 1;
        ipu_value part = d == at
                           ? scaled_index(b, indices, ipu_value_dim(x, d), stride, n_rows)
                           : ipu_reshape(
                               b, ipu_arange(b, ipu_value_type(indices), own.dim[d], 0, (double)stride), own);
        rows           = ipu__has(rows) ? ipu_add(b, rows, part) : part;
        stride *= ipu_value_dim(x, d);
    }
    return emit(b, x, rows, updates, n_rows, how);
}
