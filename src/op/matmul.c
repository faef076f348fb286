/* matmul: out = a x b, with an optional batch dimension in front and either operand transposed.
 *
 * Sums run over ascending k in the accumulating type (float for half) and every operation is
 * rounded; an implementation may order sums otherwise and then agrees to rounding.
 */
#include "op/matmul.h"

#include <string.h>

#include "graph/graph.h"

enum { A = IPU__MATMUL_A, B = IPU__MATMUL_B, OUT = IPU__MATMUL_OUT };

ipu__matmul ipu__matmul_get(const ipu_kernel_call *call)
{
    const ipu_shape *out = &call->operand[OUT].shape, *a = &call->operand[A].shape;
    int64_t          transpose_a = ipu__op_int(call, "transpose_a");
    int64_t          transpose_b = ipu__op_int(call, "transpose_b");
    int              row = out->rank - 2, column = out->rank - 1;
    ipu__matmul      mm = {.batch       = out->rank == 3 ? out->dim[0] : 1,
                           .m           = out->dim[row],
                           .n           = out->dim[column],
                           .k           = a->dim[transpose_a ? row : column],
                           .transpose_a = transpose_a != 0,
                           .transpose_b = transpose_b != 0};
    mm.a_m              = mm.transpose_a ? 1 : mm.k;
    mm.a_k              = mm.transpose_a ? mm.m : 1;
    mm.b_k              = mm.transpose_b ? 1 : mm.n;
    mm.b_n              = mm.transpose_b ? mm.k : 1;
    return mm;
}

ipu__matmul_part ipu__matmul_part_get(const ipu__matmul *mm, int part, int n_parts)
{
    if (mm->batch >= n_parts)
        return (ipu__matmul_part){ipu__op_part(mm->batch, 1, part, n_parts), {0, mm->m}};
    return (ipu__matmul_part){{0, mm->batch}, ipu__op_part(mm->m, 1, part, n_parts)};
}

/* ---- by type ---- */

static float    float_of_float(float x) { return x; }
static double   double_of_double(double x) { return x; }
static uint32_t word_of_int(int32_t x) { return (uint32_t)x; }
static int32_t  int_of_word(uint32_t x) { return (int32_t)x; }

/* The meaning, for one matrix of the batch. Sum: the type that accumulates. */
#define REF(T, Sum, load, store)                                                                    \
    static void ref_##T(const ipu__matmul *mm, const void *a, const void *b, void *out)             \
    {                                                                                               \
        const T *x = a, *y = b;                                                                     \
        T       *to = out;                                                                          \
        for (int64_t i = 0; i < mm->m; i++)                                                         \
            for (int64_t j = 0; j < mm->n; j++) {                                                   \
                Sum sum = 0;                                                                        \
                for (int64_t p = 0; p < mm->k; p++)                                                 \
                    sum += load(x[i * mm->a_m + p * mm->a_k]) * load(y[p * mm->b_k + j * mm->b_n]); \
                to[i * mm->n + j] = store(sum);                                                     \
            }                                                                                       \
    }

/* A row of b, or a piece of it, as sums want it. */
#define LOAD_ROW(T, Sum, load)                                         \
    static void row_##T(const T *from, int64_t stride, int n, Sum *to) \
    {                                                                  \
        for (int j = 0; j < n; j++) to[j] = load(from[j * stride]);    \
    }
LOAD_ROW(float, float, float_of_float)
LOAD_ROW(double, double, double_of_double)
LOAD_ROW(int32_t, uint32_t, word_of_int)

static void row_ipu_half(const ipu_half *from, int64_t stride, int n, float *to)
{
    if (stride == 1) {
        ipu_half_to_floats(from, to, (size_t)n);
        return;
    }
    for (int j = 0; j < n; j++) to[j] = ipu_half_to_float(from[j * stride]);
}

/* The same sums, up to ROWS x COLUMNS of them at a time, each in the same order: a row of b is
 * loaded once for all of them. STEP: a fixed inner length, which makes vector code. */
enum { ROWS = 8, COLUMNS = 256, STEP = 16 };

#define PLAIN(T, Sum, load, store)                                                                           \
    typedef struct block_##T {                                                                               \
        Sum sum[ROWS][COLUMNS], row[COLUMNS];                                                                \
    } block_##T;                                                                                             \
    static void add_row_##T(Sum *restrict sum, const Sum *restrict row, Sum factor, int columns)             \
    {                                                                                                        \
        for (int j = 0; j < columns; j += STEP)                                                              \
            for (int l = j; l < j + STEP; l++) sum[l] += factor * row[l];                                    \
    }                                                                                                        \
    static void do_block_##T(const ipu__matmul *mm, const T *x, const T *y, T *to, int rows, int columns,    \
                             block_##T *block)                                                               \
    {                                                                                                        \
        memset(block, 0, sizeof *block);                                                                     \
        for (int64_t p = 0; p < mm->k; p++) {                                                                \
            row_##T(y + p * mm->b_k, mm->b_n, columns, block->row);                                          \
            for (int i = 0; i < rows; i++)                                                                   \
                add_row_##T(block->sum[i], block->row, load(x[i * mm->a_m + p * mm->a_k]), columns);         \
        }                                                                                                    \
        for (int i = 0; i < rows; i++)                                                                       \
            for (int j = 0; j < columns; j++) to[i * mm->n + j] = store(block->sum[i][j]);                   \
    }                                                                                                        \
    static void plain_##T(const ipu__matmul *mm, const void *a, const void *b, void *out, ipu_interval rows, \
                          void *scratch)                                                                     \
    {                                                                                                        \
        for (int64_t i = rows.begin; i < rows.end; i += ROWS)                                                \
            for (int64_t j = 0; j < mm->n; j += COLUMNS) {                                                   \
                int64_t down = rows.end - i, across = mm->n - j;                                             \
                do_block_##T(mm, (const T *)a + i * mm->a_m, (const T *)b + j * mm->b_n,                     \
                             (T *)out + i * mm->n + j, (int)(down < ROWS ? down : ROWS),                     \
                             (int)(across < COLUMNS ? across : COLUMNS), scratch);                           \
            }                                                                                                \
    }

#define MATMUL(T, Sum, load, store) REF(T, Sum, load, store) PLAIN(T, Sum, load, store)
MATMUL(float, float, float_of_float, float_of_float)
MATMUL(double, double, double_of_double, double_of_double)
MATMUL(ipu_half, float, ipu_half_to_float, ipu_half_from_float)
MATMUL(int32_t, uint32_t, word_of_int, int_of_word) /* unsigned: it wraps */

static const struct {
    void (*ref)(const ipu__matmul *mm, const void *a, const void *b, void *out);
    void (*plain)(const ipu__matmul *mm, const void *a, const void *b, void *out, ipu_interval rows,
                  void *scratch);
    size_t scratch_bytes;
} by_type[IPU_N_TYPES] = {
    /* all NULL: not a type that multiplies */
    [IPU_FLOAT]  = {ref_float, plain_float, sizeof(block_float)},
    [IPU_DOUBLE] = {ref_double, plain_double, sizeof(block_double)},
    [IPU_HALF]   = {ref_ipu_half, plain_ipu_half, sizeof(block_ipu_half)},
    [IPU_INT32]  = {ref_int32_t, plain_int32_t, sizeof(block_int32_t)},
};

/* ---- check ---- */

static ipu_status check_flag(const ipu_kernel_call *call, const char *name, bool *out)
{
    int64_t value = ipu__op_int(call, name);
    if (value != 0 && value != 1)
        return ipu__fail(IPU_INVALID, "matmul: attribute \"%s\" must be 0 or 1, found %lld", name,
                         (long long)value);
    *out = value;
    return IPU_OK;
}

static ipu_status infer_shape(const ipu_kernel_value *v, bool transpose_a, bool transpose_b, ipu_shape *out)
{
    const ipu_shape *a = &v[A].shape, *b = &v[B].shape;
    const char      *a_text = ipu__shape_str(a), *b_text = ipu__shape_str(b);
    const char      *a_note = transpose_a ? " transposed" : "", *b_note = transpose_b ? " transposed" : "";
    int              rank = a->rank;
    if ((rank != 2 && rank != 3) || b->rank != rank)
        return ipu__fail(IPU_INVALID, "matmul: expected operands of rank 2, or all of rank 3: a %s x b %s",
                         a_text, b_text);
    if (rank == 3 && a->dim[0] != b->dim[0])
        return ipu__fail(IPU_INVALID, "matmul: batch dimensions differ: a %s x b %s", a_text, b_text);
    if (a->dim[rank - 1 - transpose_a] != b->dim[rank - 2 + transpose_b])
        return ipu__fail(IPU_INVALID, "matmul: inner dimensions differ: a %s%s x b %s%s", a_text, a_note,
                         b_text, b_note);
    *out               = *a;
    out->dim[rank - 2] = a->dim[rank - 2 + transpose_a];
    out->dim[rank - 1] = b->dim[rank - 1 - transpose_b];
    return IPU_OK;
}

static ipu_status matmul_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    bool transpose_a = false, transpose_b = false;
    IPU_TRY(check_flag(call, "transpose_a", &transpose_a));
    IPU_TRY(check_flag(call, "transpose_b", &transpose_b));
    IPU_TRY(ipu__op_want_same_type(call, A, B));
    out->type = call->operand[A].type;
    if (!by_type[out->type].ref)
        return ipu__fail(IPU_INVALID, "matmul: expected float, half, double or int32, found %s",
                         ipu_type_name(out->type));
    return infer_shape(call->operand, transpose_a, transpose_b, &out->shape);
}

/* ---- running ---- */

/* Matrix `i` of the batch, of `elements` elements each. */
static void *matrix(void *operand, ipu_type type, int64_t i, int64_t elements)
{
    return (char *)operand + (size_t)(i * elements) * ipu_type_size(type);
}

static void matmul_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__matmul mm   = ipu__matmul_get(call);
    ipu_type    type = call->operand[OUT].type;
    for (int64_t i = 0; i < mm.batch; i++)
        by_type[type].ref(&mm, matrix(operand[A], type, i, mm.m * mm.k),
                          matrix(operand[B], type, i, mm.k * mm.n),
                          matrix(operand[OUT], type, i, mm.m * mm.n));
}

static size_t plain_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    return by_type[call->operand[OUT].type].scratch_bytes;
}

static ipu_status plain_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state;
    ipu__matmul      mm   = ipu__matmul_get(call);
    ipu__matmul_part mine = ipu__matmul_part_get(&mm, part, n_parts);
    ipu_type         type = call->operand[OUT].type;
    for (int64_t i = mine.batch.begin; i < mine.batch.end; i++)
        by_type[type].plain(&mm, matrix(operand[A], type, i, mm.m * mm.k),
                            matrix(operand[B], type, i, mm.k * mm.n),
                            matrix(operand[OUT], type, i, mm.m * mm.n), mine.row, scratch);
    return IPU_OK;
}

static double matmul_work(const ipu_kernel_call *call)
{
    ipu__matmul mm = ipu__matmul_get(call);
    return 2.0 * (double)mm.batch * (double)mm.m * (double)mm.n * (double)mm.k;
}

static const ipu_kernel_operand operands[] = {IPU__INPUT("a"), IPU__INPUT("b"), IPU__OUTPUT("out")};

static const ipu_kernel_impl implementations[] = {
    {
        .name          = "onednn",
        .fits          = ipu__matmul_onednn_fits,
        .scratch_bytes = ipu__matmul_onednn_scratch_bytes,
        .prepare       = ipu__matmul_onednn_prepare,
        .release       = ipu__matmul_onednn_release,
        .run           = ipu__matmul_onednn_run,
    },
    {.name = "plain", .fits = ipu__op_fits_always, .scratch_bytes = plain_scratch_bytes, .run = plain_run},
};

static const ipu_op_attribute attributes[] = {
    {.name = "transpose_a", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the last two dimensions of a swapped"},
    {.name = "transpose_b", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the last two dimensions of b swapped"},
};

static const char *const samples[] = {"float[3,4], float[4,5]", "float[2,4,3], float[2,4,5]; transpose_a=1",
                                      NULL};

const ipu_op_def ipu__op_matmul = {
    .kernel       = {.name              = "matmul",
                     .operands          = operands,
                     .n_operands        = 3,
                     .check             = ipu__op_check,
                     .ref               = matmul_ref,
                     .work              = matmul_work,
                     .plan              = ipu__matmul_plan,
                     .implementations   = implementations,
                     .n_implementations = 2},
    .n_in         = 2,
    .family       = "matmul",
    .summary      = "matrix product, batched, either operand transposed",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = matmul_infer,
    .samples      = samples,
};
