/* The loops of attention in float: rows of scores become probabilities, forwards and backwards.
 *
 * Sums and maxima use 32 lanes, which are then combined in pairs.
 */
#include <math.h>

#include "op/sequence/attention.h"
#include "op/vector/exp.h"
#include "op/vector/unroll.h"

enum { LANES = 32 };

INLINE float scaled(const float *s, const float *mask, float scale, int64_t i)
{
    return mask ? s[i] * scale + mask[i] : s[i] * scale;
}

INLINE float most_of(const float *s, const float *mask, float scale, int64_t n)
{
    float lanes[LANES], most = -INFINITY;
    for (int l = 0; l < LANES; l++) lanes[l] = -INFINITY;
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float x  = scaled(s, mask, scale, i + l);
            lanes[l] = x > lanes[l] ? x : lanes[l];
        }
    for (; i < n; i++) {
        float x = scaled(s, mask, scale, i);
        most    = x > most ? x : most;
    }
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] = lanes[l + width] > lanes[l] ? lanes[l + width] : lanes[l];
    return lanes[0] > most ? lanes[0] : most;
}

/* s = e^(scale s + mask - top); the sum of them. */
INLINE float exp_of(float *s, const float *mask, float scale, float top, int64_t n)
{
    float   lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float x  = ipu__exp_below(scaled(s, mask, scale, i + l) - top);
            s[i + l] = x;
            lanes[l] += x;
        }
    for (; i < n; i++) {
        s[i] = ipu__exp_below(scaled(s, mask, scale, i) - top);
        sum += s[i];
    }
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return sum + lanes[0];
}

INLINE float row_with(float *s, const float *mask, float scale, int64_t seen, int64_t n, float *most)
{
    *most     = most_of(s, mask, scale, seen);
    float sum = exp_of(s, mask, scale, *most, seen);
    for (int64_t i = seen; i < n; i++) s[i] = 0;
    return sum;
}

static float row(float *s, const float *mask, float scale, int64_t seen, int64_t n, float *most)
{
    return mask ? row_with(s, mask, scale, seen, n, most) : row_with(s, NULL, scale, seen, n, most);
}

static void row_back(float *restrict s, float *restrict d, const float *restrict mask, float scale, float lse,
                     float minus, int64_t seen, int64_t n)
{
    if (mask)
        for (int64_t i = 0; i < seen; i++) s[i] = ipu__exp_below(s[i] * scale + mask[i] - lse);
    else
        for (int64_t i = 0; i < seen; i++) s[i] = ipu__exp_below(s[i] * scale - lse);
    for (int64_t i = 0; i < seen; i++) d[i] = scale * s[i] * (d[i] - minus);
    for (int64_t i = seen; i < n; i++) s[i] = d[i] = 0;
}

static void multiply(float *x, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] *= by;
}

static float dot(const float *x, const float *y, int64_t n)
{
    float   lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] += lanes[l + width];
    return sum + lanes[0];
}

const ipu__attention_loops IPU__SIMD(ipu__attention_loops) = {
    .row = row, .row_back = row_back, .multiply = multiply, .dot = dot};
