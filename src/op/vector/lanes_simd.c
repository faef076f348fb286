/* Converts sixteen rows of floats to lanes and back: blocks of 16 x 16 in registers if there are 32 of
 * them. */
#include "op/vector/lanes.h"

#if defined(__AVX512F__)
#include "op/vector/transpose16.h"

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
