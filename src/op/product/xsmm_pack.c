/* Packs floats for kernels: transposes them, or converts them from and to 16-bit types. */
#include <string.h>

#include "op/vector/half.h"
#include "op/product/xsmm.h"

void ipu__transpose_floats(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                           int64_t columns)
{
    IPU__SIMD_PICK(ipu__xsmm_loops_at).transpose(from, from_ld, to, to_ld, rows, columns);
}

void ipu__rows_to_floats(ipu_type type, const void *from, int64_t step, float *to, int64_t to_step,
                         int64_t rows, int64_t n)
{
    if (type == IPU_HALF) {
        IPU__SIMD_PICK(ipu__half_loops_at).widen(from, step, to, to_step, rows, n);
        return;
    }
    for (int64_t r = 0; r < rows; r++, to += to_step)
        if (type == IPU_FLOAT)
            memcpy(to, (const float *)from + r * step, (size_t)n * sizeof *to);
        else
            IPU__SIMD_PICK(ipu__xsmm_loops_at).from_bfloat16((const ipu_bfloat16 *)from + r * step, to, n);
}

void ipu__rows_from_floats(ipu_type type, const float *from, int64_t step, void *to, int64_t to_step,
                           int64_t rows, int64_t n)
{
    if (type == IPU_HALF) {
        IPU__SIMD_PICK(ipu__half_loops_at).narrow(from, step, to, to_step, rows, n);
        return;
    }
    for (int64_t r = 0; r < rows; r++, from += step)
        if (type == IPU_FLOAT)
            memcpy((float *)to + r * to_step, from, (size_t)n * sizeof *from);
        else
            IPU__SIMD_PICK(ipu__xsmm_loops_at).to_bfloat16(from, (ipu_bfloat16 *)to + r * to_step, n);
}

void ipu__to_floats(ipu_type type, const void *from, float *to, int64_t n)
{
    ipu__rows_to_floats(type, from, n, to, n, 1, n);
}

void ipu__from_floats(ipu_type type, const float *from, void *to, int64_t n)
{
    ipu__rows_from_floats(type, from, n, to, n, 1, n);
}
