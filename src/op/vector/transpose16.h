/* Transposes sixteen by sixteen floats in AVX-512 registers. */
#ifndef IPU_OP_VECTOR_TRANSPOSE16_H
#define IPU_OP_VECTOR_TRANSPOSE16_H

#include <immintrin.h>
#include <stdint.h>

#include "op/vector/unroll.h"

INLINE void transpose(__m512 r[16])
{
    __m512 t[16];
    UNROLLED for (int i = 0; i < 16; i += 2)
    {
        t[i]     = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
#define PAIR(which, a, b) \
    _mm512_castpd_ps(_mm512_unpack##which##_pd(_mm512_castps_pd(t[a]), _mm512_castps_pd(t[b])))
    UNROLLED for (int i = 0; i < 16; i += 4)
    {
        r[i]     = PAIR(lo, i, i + 2);
        r[i + 1] = PAIR(hi, i, i + 2);
        r[i + 2] = PAIR(lo, i + 1, i + 3);
        r[i + 3] = PAIR(hi, i + 1, i + 3);
    }
#undef PAIR
    UNROLLED for (int i = 0; i < 4; i++)
    {
        t[i]      = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4]  = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8]  = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    UNROLLED for (int i = 0; i < 4; i++)
    {
        r[i]      = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8]  = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4]  = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

INLINE __mmask16 first_lanes(int64_t n) { return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1); }

#endif
