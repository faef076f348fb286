/* Converts rows of half to floats and back: the last elements of a row by masks if available, since rows may
 * be short. */
#include "op/vector/half.h"

#if defined(__AVX512F__)
#include <immintrin.h>

enum { WIDTH = 16 };

static inline void widen_row(const ipu_half *from, float *to, int64_t n)
{
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    if (i == n) return;
    __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
    _mm512_mask_storeu_ps(to + i, rest, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, from + i)));
}

static inline void narrow_row(const float *from, ipu_half *to, int64_t n)
{
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH)
        _mm256_storeu_si256((void *)(to + i), _mm512_cvtps_ph(_mm512_loadu_ps(from + i), NEAREST));
    if (i == n) return;
    __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
    _mm256_mask_storeu_epi16(to + i, rest, _mm512_cvtps_ph(_mm512_maskz_loadu_ps(rest, from + i), NEAREST));
}
#else
static inline void widen_row(const ipu_half *from, float *to, int64_t n)
{
    ipu_half_to_floats(from, to, (size_t)n);
}

static inline void narrow_row(const float *from, ipu_half *to, int64_t n)
{
    ipu_half_from_floats(from, to, (size_t)n);
}
#endif

static void widen(const ipu_half *from, int64_t step, float *to, int64_t to_step, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) widen_row(from + r * step, to + r * to_step, n);
}

static void narrow(const float *from, int64_t step, ipu_half *to, int64_t to_step, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) narrow_row(from + r * step, to + r * to_step, n);
}

const ipu__half_loops IPU__SIMD(ipu__half_loops_at) = {widen, narrow};
