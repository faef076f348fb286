/* Loops of quantisation, and 16-bit dot products.
 *
 * The dots are written so that compilers find the instruction that multiplies and adds pairs.
 */
#include <math.h>

#include "op/quantize/quantize.h"

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/* NaN becomes `low`. */
static inline float limit(float x, float low, float high)
{
    x = x > low ? x : low;
    return x < high ? x : high;
}

#define TO(T, LOW, HIGH)                                                                                     \
    static void to_##T(const float *x, const float *scale, const float *zero, bool each, void *y, int64_t n) \
    {                                                                                                        \
        T          *to = y;                                                                                  \
        const float s = scale[0], z = zero[0];                                                               \
        if (each)                                                                                            \
            IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                                 \
                to[i] = (T)(int32_t)limit(rintf(x[i] / scale[i]) + zero[i], LOW, HIGH);                      \
        else                                                                                                 \
            IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                                 \
                to[i] = (T)(int32_t)limit(rintf(x[i] / s) + z, LOW, HIGH);                                   \
    }
TO(uint8_t, 0, 255)
TO(int8_t, -128, 127)

#define FROM(T)                                                                                            \
    static void from_##T(const void *x, const float *scale, const float *zero, bool each, float *y,        \
                         int64_t n)                                                                        \
    {                                                                                                      \
        const T    *from = x;                                                                              \
        const float s = scale[0], z = zero[0];                                                             \
        if (each)                                                                                          \
            IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = ((float)from[i] - zero[i]) * scale[i]; \
        else                                                                                               \
            IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = ((float)from[i] - z) * s;              \
    }
FROM(uint8_t)
FROM(int8_t)
FROM(int32_t)

static void fake(const float *x, const float *scale, const float *zero, bool each, const float range[2],
                 float *y, int64_t n)
{
    const float low = range[0], high = range[1], s = scale[0], z = zero[0];
    if (each)
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)
            y[i] = (limit(rintf(x[i] / scale[i]) + zero[i], low, high) - zero[i]) * scale[i];
    else
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)
            y[i] = (limit(rintf(x[i] / s) + z, low, high) - z) * s;
}

enum { LANES = 32 };

static void find_range(const float *x, int64_t n, float *low, float *high)
{
    float   l[LANES], h[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++) l[k] = *low, h[k] = *high;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            l[k] = x[i + k] < l[k] ? x[i + k] : l[k];
            h[k] = x[i + k] > h[k] ? x[i + k] : h[k];
        }
    for (; i < n; i++) {
        l[0] = x[i] < l[0] ? x[i] : l[0];
        h[0] = x[i] > h[0] ? x[i] : h[0];
    }
    for (int k = 0; k < LANES; k++) {
        *low  = l[k] < *low ? l[k] : *low;
        *high = h[k] > *high ? h[k] : *high;
    }
}

#define FINISH(T, LOW, HIGH)                                                                       \
    static void finish_##T(const int32_t *sum, const float *scale, float zero, void *y, int64_t n) \
    {                                                                                              \
        T *to = y;                                                                                 \
        IPU__INDEPENDENT for (int64_t i = 0; i < n; i++)                                           \
            to[i] = (T)(int32_t)limit(rintf((float)sum[i] * scale[i]) + zero, LOW, HIGH);          \
    }
FINISH(uint8_t, 0, 255)
FINISH(int8_t, -128, 127)

/* 255 * 255 * 32768 < 2^31: what one round adds up does not overflow. */
enum { ROUND = 32768, TILE = 4 };

static inline int32_t dot(const int16_t *a, const int16_t *b, int64_t k)
{
    int32_t sum = 0;
    for (int64_t i = 0; i < k; i++) sum += (int32_t)a[i] * (int32_t)b[i];
    return sum;
}

/* One row of a by four of b. */
static inline void dot4(const int16_t *restrict a, const int16_t *const *b, int64_t k, int32_t sum[TILE])
{
    const int16_t *restrict b0 = b[0], *restrict b1 = b[1], *restrict b2 = b[2], *restrict b3 = b[3];
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int64_t i = 0; i < k; i++) {
        s0 += (int32_t)a[i] * (int32_t)b0[i];
        s1 += (int32_t)a[i] * (int32_t)b1[i];
        s2 += (int32_t)a[i] * (int32_t)b2[i];
        s3 += (int32_t)a[i] * (int32_t)b3[i];
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
}

/* Two rows of a by four of b. */
static inline void dot24(const int16_t *restrict a, const int16_t *restrict c, const int16_t *const *b,
                         int64_t k, int32_t sum[2 * TILE])
{
    const int16_t *restrict b0 = b[0], *restrict b1 = b[1], *restrict b2 = b[2], *restrict b3 = b[3];
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0, t0 = 0, t1 = 0, t2 = 0, t3 = 0;
    for (int64_t i = 0; i < k; i++) {
        s0 += (int32_t)a[i] * (int32_t)b0[i];
        s1 += (int32_t)a[i] * (int32_t)b1[i];
        s2 += (int32_t)a[i] * (int32_t)b2[i];
        s3 += (int32_t)a[i] * (int32_t)b3[i];
        t0 += (int32_t)c[i] * (int32_t)b0[i];
        t1 += (int32_t)c[i] * (int32_t)b1[i];
        t2 += (int32_t)c[i] * (int32_t)b2[i];
        t3 += (int32_t)c[i] * (int32_t)b3[i];
    }
    sum[0] = s0, sum[1] = s1, sum[2] = s2, sum[3] = s3;
    sum[4] = t0, sum[5] = t1, sum[6] = t2, sum[7] = t3;
}

static inline void add(int32_t *to, const int32_t *sum, int64_t n, bool first)
{
    for (int64_t i = 0; i < n; i++) to[i] = first ? sum[i] : (int32_t)((uint32_t)to[i] + (uint32_t)sum[i]);
}

static void dots(const int16_t *a, const int16_t *b, int64_t k, int64_t m, int64_t n, int32_t *out,
                 int64_t stride)
{
    for (int64_t from = 0; from == 0 || from < k; from += ROUND) {
        int64_t depth = k - from < ROUND ? k - from : ROUND, j = 0;
        for (; j + TILE <= n; j += TILE) {
            const int16_t *rows[TILE];
            int32_t        sum[2 * TILE];
            int64_t        i = 0;
            for (int t = 0; t < TILE; t++) rows[t] = b + (j + t) * k + from;
            for (; i + 2 <= m; i += 2) {
                dot24(a + i * k + from, a + (i + 1) * k + from, rows, depth, sum);
                add(out + i * stride + j, sum, TILE, from == 0);
                add(out + (i + 1) * stride + j, sum + TILE, TILE, from == 0);
            }
            if (i == m) continue;
            dot4(a + i * k + from, rows, depth, sum);
            add(out + i * stride + j, sum, TILE, from == 0);
        }
        for (; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                int32_t sum = dot(a + i * k + from, b + j * k + from, depth);
                add(out + i * stride + j, &sum, 1, from == 0);
            }
    }
}

static void correct(int32_t *to, const uint32_t *column, const uint32_t *right_zero, uint32_t left_zero,
                    uint32_t row, int64_t n)
{
    IPU__INDEPENDENT for (int64_t j = 0; j < n; j++)
        to[j] = (int32_t)((uint32_t)to[j] + left_zero * column[j] - row * right_zero[j]);
}

#define SUM(T)                                                    \
    static uint32_t sum_##T(const void *x, int64_t n)             \
    {                                                             \
        const T *from = x;                                        \
        uint32_t sum  = 0;                                        \
        for (int64_t i = 0; i < n; i++) sum += (uint32_t)from[i]; \
        return sum;                                               \
    }
SUM(int8_t)
SUM(uint8_t)

static void subtract(uint32_t *from, const int8_t *x, int64_t n)
{
    IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) from[i] -= (uint32_t)x[i];
}

static void flip(const int8_t *x, int8_t *to, int64_t n)
{
    IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = (int8_t)(x[i] ^ -128);
}

const ipu__quantize_loops IPU__SIMD(ipu__quantize_loops_of) = {.to_uint8     = to_uint8_t,
                                                               .to_int8      = to_int8_t,
                                                               .from_uint8   = from_uint8_t,
                                                               .from_int8    = from_int8_t,
                                                               .from_int32   = from_int32_t,
                                                               .fake         = fake,
                                                               .range        = find_range,
                                                               .finish_uint8 = finish_uint8_t,
                                                               .finish_int8  = finish_int8_t,
                                                               .dots         = dots,
                                                               .correct      = correct,
                                                               .sum_int8     = sum_int8_t,
                                                               .sum_uint8    = sum_uint8_t,
                                                               .subtract     = subtract,
                                                               .flip         = flip};
