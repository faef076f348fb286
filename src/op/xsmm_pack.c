/* Floats moved to where kernels want them: transposed, or converted from and to the 16-bit types. */
#include <string.h>

#include "op/xsmm.h"

void ipu__transpose_floats(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                           int64_t columns)
{
    IPU__SIMD_PICK(ipu__xsmm_loops_at).transpose(from, from_ld, to, to_ld, rows, columns);
}

void ipu__to_floats(ipu_type type, const void *from, float *to, int64_t n)
{
    if (type == IPU_HALF)
        ipu_half_to_floats(from, to, (size_t)n);
    else if (type == IPU_FLOAT)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        IPU__SIMD_PICK(ipu__xsmm_loops_at).from_bfloat16(from, to, n);
}

void ipu__from_floats(ipu_type type, const float *from, void *to, int64_t n)
{
    if (type == IPU_HALF)
        ipu_half_from_floats(from, to, (size_t)n);
    else if (type == IPU_FLOAT)
        memcpy(to, from, (size_t)n * sizeof *from);
    else
        IPU__SIMD_PICK(ipu__xsmm_loops_at).to_bfloat16(from, to, n);
}
