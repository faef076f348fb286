/* Floats moved to where kernels want them: transposed, or converted from and to the 16-bit types. */
#include <string.h>

#include "op/xsmm.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "base/cpu.h"

/* 8 x 8 at a time: rows are interleaved in pairs, then in fours, then halves are exchanged. */
__attribute__((target("avx"))) static void transpose_8x8(const float *from, int64_t from_ld, float *to,
                                                         int64_t to_ld)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_ld);
    for (int i = 0; i < 8; i += 2) {
        t[i]     = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i]     = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

static bool has_avx(void) { return (ipu__cpu_features() & IPU__CPU_AVX2) != 0; }
#else
static void transpose_8x8(const float *from, int64_t from_ld, float *to, int64_t to_ld)
{
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) to[j * to_ld + i] = from[i * from_ld + j];
}

static bool has_avx(void) { return true; }
#endif

static void transpose_any(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                          int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * to_ld + i] = from[i * from_ld + j];
}

void ipu__transpose_floats(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                           int64_t columns)
{
    int64_t whole_rows = has_avx() ? rows / 8 * 8 : 0, whole_columns = columns / 8 * 8;
    for (int64_t j = 0; j < whole_columns; j += 8)
        for (int64_t i = 0; i < whole_rows; i += 8)
            transpose_8x8(from + i * from_ld + j, from_ld, to + j * to_ld + i, to_ld);
    transpose_any(from + whole_columns, from_ld, to + whole_columns * to_ld, to_ld, whole_rows,
                  columns - whole_columns);
    transpose_any(from + whole_rows * from_ld, from_ld, to + whole_rows, to_ld, rows - whole_rows, columns);
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
