/* Sixteen rows of floats turned to lanes and back: blocks of 16 x 16 in registers where there are 32 of them. */
#include "op/lanes.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

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

static __mmask16 first_lanes(int64_t n) { return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1); }

static void turn(const float *x, int64_t step, int64_t n, float *lanes)
{
    for (int64_t i = 0; i < n; i += IPU__LANES) {
        __m512    r[16];
        int64_t   left                             = n - i < 16 ? n - i : 16;
        __mmask16 mask                             = first_lanes(left);
        UNROLLED for (int k = 0; k < 16; k++) r[k] = _mm512_maskz_loadu_ps(mask, x + k * step + i);
        transpose(r);
        float *to = lanes + i * IPU__LANES;
        if (left == 16) {
            UNROLLED for (int k = 0; k < 16; k++) _mm512_storeu_ps(to + k * IPU__LANES, r[k]);
        } else {
            for (int k = 0; k < left; k++) _mm512_storeu_ps(to + k * IPU__LANES, r[k]);
        }
    }
}

static void turn_back(const float *lanes, int64_t n, float *x, int64_t step)
{
    for (int64_t i = 0; i < n; i += IPU__LANES) {
        __m512       r[16];
        int64_t      left = n - i < 16 ? n - i : 16;
        __mmask16    mask = first_lanes(left);
        const float *from = lanes + i * IPU__LANES;
        if (left == 16) {
            UNROLLED for (int k = 0; k < 16; k++) r[k] = _mm512_loadu_ps(from + k * IPU__LANES);
        } else {
            for (int k = 0; k < 16; k++)
                r[k] = k < left ? _mm512_loadu_ps(from + k * IPU__LANES) : _mm512_setzero_ps();
        }
        transpose(r);
        UNROLLED for (int k = 0; k < 16; k++) _mm512_mask_storeu_ps(x + k * step + i, mask, r[k]);
    }
}

#else
static void turn(const float *restrict x, int64_t step, int64_t n, float *restrict lanes)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < IPU__LANES; k++) lanes[i * IPU__LANES + k] = x[k * step + i];
}

static void turn_back(const float *restrict lanes, int64_t n, float *restrict x, int64_t step)
{
    for (int64_t k = 0; k < IPU__LANES; k++)
        for (int64_t i = 0; i < n; i++) x[k * step + i] = lanes[i * IPU__LANES + k];
}
#endif

const ipu__lane_turns IPU__SIMD(ipu__lane_turns_at) = {turn, turn_back};
