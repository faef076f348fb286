/* Sixteen floats at every level that has multiply-adds, for Winograd transforms. */
#ifndef IPU_OP_CONV_CPU_WINOGRAD_VEC_H
#define IPU_OP_CONV_CPU_WINOGRAD_VEC_H

#include <immintrin.h>

#include "op/vector/unroll.h"

#if defined(__AVX512F__)
typedef __m512 vec;
INLINE vec     load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void    store(float *p, vec v) { _mm512_storeu_ps(p, v); }
INLINE vec     zero(void) { return _mm512_setzero_ps(); }
INLINE vec     add(vec x, vec y) { return _mm512_add_ps(x, y); }
INLINE vec     sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
INLINE vec     mul(float c, vec x) { return _mm512_mul_ps(_mm512_set1_ps(c), x); }
/* y + c x, and y - c x */
INLINE vec more(float c, vec x, vec y) { return _mm512_fmadd_ps(_mm512_set1_ps(c), x, y); }
INLINE vec less(float c, vec x, vec y) { return _mm512_fnmadd_ps(_mm512_set1_ps(c), x, y); }
INLINE vec times(vec x, vec y, vec z) { return _mm512_fmadd_ps(x, y, z); }
INLINE vec relu(vec x) { return _mm512_max_ps(_mm512_setzero_ps(), x); } /* NaN stays NaN */
#else
typedef struct vec {
    __m256 lo, hi;
} vec;
INLINE vec  load(const float *p) { return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void store(float *p, vec v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}
INLINE vec zero(void) { return (vec){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
INLINE vec add(vec x, vec y) { return (vec){_mm256_add_ps(x.lo, y.lo), _mm256_add_ps(x.hi, y.hi)}; }
INLINE vec sub(vec x, vec y) { return (vec){_mm256_sub_ps(x.lo, y.lo), _mm256_sub_ps(x.hi, y.hi)}; }
INLINE vec mul(float c, vec x)
{
    __m256 by = _mm256_set1_ps(c);
    return (vec){_mm256_mul_ps(by, x.lo), _mm256_mul_ps(by, x.hi)};
}
INLINE vec more(float c, vec x, vec y)
{
    __m256 by = _mm256_set1_ps(c);
    return (vec){_mm256_fmadd_ps(by, x.lo, y.lo), _mm256_fmadd_ps(by, x.hi, y.hi)};
}
INLINE vec less(float c, vec x, vec y)
{
    __m256 by = _mm256_set1_ps(c);
    return (vec){_mm256_fnmadd_ps(by, x.lo, y.lo), _mm256_fnmadd_ps(by, x.hi, y.hi)};
}
INLINE vec times(vec x, vec y, vec z)
{
    return (vec){_mm256_fmadd_ps(x.lo, y.lo, z.lo), _mm256_fmadd_ps(x.hi, y.hi, z.hi)};
}
INLINE vec relu(vec x)
{
    __m256 none = _mm256_setzero_ps();
    return (vec){_mm256_max_ps(none, x.lo), _mm256_max_ps(none, x.hi)};
}
#endif

/* The points. */
#define A 0.70710678118654752f
#define B 1.41421356237309505f

#endif
