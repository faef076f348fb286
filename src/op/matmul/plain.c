/* matmul in plain C, for every type: blocks of sums, each in the order in which `ref` adds. */
#include <string.h>

#include "base/alloc.h"
#include "op/matmul/matmul.h"
#include "op/matmul/types.h"

/* A row of b, or a piece of it, as sums want it. */
#define LOAD_ROW(T, Sum, load)                                         \
    static void row_##T(const T *from, int64_t stride, int n, Sum *to) \
    {                                                                  \
        for (int j = 0; j < n; j++) to[j] = load(from[j * stride]);    \
    }
LOAD_ROW(float, float, float_of_float)
LOAD_ROW(double, double, double_of_double)
LOAD_ROW(int32_t, uint32_t, word_of_int)
LOAD_ROW(int64_t, uint64_t, long_of_int)
LOAD_ROW(uint32_t, uint32_t, word_of_word)
LOAD_ROW(uint64_t, uint64_t, long_of_long)
LOAD_ROW(ipu_bfloat16, float, ipu_bfloat16_to_float)

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

#define PLAIN(T, Sum, load, store)                                                                        \
    typedef struct block_##T {                                                                            \
        Sum sum[ROWS][COLUMNS], row[COLUMNS];                                                             \
    } block_##T;                                                                                          \
    static void add_row_##T(Sum *restrict sum, const Sum *restrict row, Sum factor, int columns)          \
    {                                                                                                     \
        for (int j = 0; j < columns; j += STEP)                                                           \
            for (int l = j; l < j + STEP; l++) sum[l] += factor * row[l];                                 \
    }                                                                                                     \
    static void do_block_##T(const ipu__matmul *mm, const T *x, const T *y, T *to, int rows, int columns, \
                             block_##T *block)                                                            \
    {                                                                                                     \
        memset(block, 0, sizeof *block);                                                                  \
        for (int64_t p = 0; p < mm->k; p++) {                                                             \
            row_##T(y + p * mm->b_k, mm->b_n, columns, block->row);                                       \
            for (int i = 0; i < rows; i++)                                                                \
                add_row_##T(block->sum[i], block->row, load(x[i * mm->a_m + p * mm->a_k]), columns);      \
        }                                                                                                 \
        for (int i = 0; i < rows; i++)                                                                    \
            for (int j = 0; j < columns; j++) to[i * mm->n + j] = store(block->sum[i][j]);                \
    }                                                                                                     \
    static void plain_##T(const ipu__matmul *mm, const void *a, const void *b, void *out,                 \
                          const ipu__matmul_part *mine, void *scratch)                                    \
    {                                                                                                     \
        ipu_interval rows = mine->row, columns = mine->column;                                            \
        for (int64_t i = rows.begin; i < rows.end; i += ROWS)                                             \
            for (int64_t j = columns.begin; j < columns.end; j += COLUMNS) {                              \
                int64_t down = rows.end - i, across = columns.end - j;                                    \
                do_block_##T(mm, (const T *)a + i * mm->a_m, (const T *)b + j * mm->b_n,                  \
                             (T *)out + i * mm->n + j, (int)(down < ROWS ? down : ROWS),                  \
                             (int)(across < COLUMNS ? across : COLUMNS), scratch);                        \
            }                                                                                             \
    }

IPU__MATMUL_TYPES(PLAIN)

static const struct {
    void (*run)(const ipu__matmul *mm, const void *a, const void *b, void *out, const ipu__matmul_part *mine,
                void *scratch);
    size_t scratch_bytes;
} by_type[IPU_N_TYPES] = {
#define X(T, Sum, load, store) [IPU_TYPE_OF(T)] = {plain_##T, sizeof(block_##T)},
    IPU__MATMUL_TYPES(X)
#undef X
};

ipu_status ipu__matmul_plain_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    ipu__epilogue *e = ipu__alloc_zeroed(sizeof *e);
    *out             = NULL;
    if (!e) return ipu__fail_memory();
    ipu_status status = ipu__epilogue_init(e, call);
    if (status == IPU_OK)
        *out = e;
    else
        ipu__free(e);
    return status;
}

void ipu__matmul_plain_release(void *prepared)
{
    if (!prepared) return;
    ipu__epilogue_fini(prepared);
    ipu__free(prepared);
}

/* What comes before the epilogue's. */
static size_t block_bytes(ipu_type type) { return (by_type[type].scratch_bytes + 63) / 64 * 64; }

size_t ipu__matmul_plain_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    size_t more = ipu__epilogue_scratch_bytes(call);
    return more == SIZE_MAX ? more : block_bytes(call->operand[IPU__MATMUL_OUT].type) + more;
}

ipu_status ipu__matmul_plain_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                 void *scratch, int part, int n_parts)
{
    ipu__matmul      mm    = ipu__matmul_get(call);
    ipu__matmul_part mine  = ipu__matmul_part_get(&mm, part, n_parts);
    ipu_type         type  = call->operand[IPU__MATMUL_OUT].type;
    int64_t          bytes = (int64_t)ipu_type_size(type);
    for (int64_t i = mine.batch.begin; i < mine.batch.end; i++) {
        int64_t a, b;
        ipu__matmul_at(&mm, i, &a, &b);
        by_type[type].run(&mm, (char *)operand[IPU__MATMUL_A] + a * bytes,
                          (char *)operand[IPU__MATMUL_B] + b * bytes,
                          (char *)operand[IPU__MATMUL_OUT] + i * mm.m * mm.n * bytes, &mine, scratch);
        ipu__matmul_finish(&mm, state, operand, i, mine.row.begin, mine.row.end - mine.row.begin,
                           mine.column.begin, mine.column.end - mine.column.begin,
                           (char *)scratch + block_bytes(type));
    }
    return IPU_OK;
}
