/* The loops of attention in float: rows of scores become probabilities, forwards and backwards.
 *
 * Sums and maxima go to 32 lanes, which are then taken together in order.
 */
#include <math.h>

#include "op/attention.h"
#include "op/exp.h"

enum { LANES = 32 };

static float most_of(const float *x, int64_t n)
{
    float lanes[LANES], most = -INFINITY;
    for (int l = 0; l < LANES; l++) lanes[l] = -INFINITY;
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    for (int l = 0; l < LANES; l++) most = lanes[l] > most ? lanes[l] : most;
    return most;
}

static float sum_of(const float *x, int64_t n)
{
    float   lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[i + l];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    for (; i < n; i++) sum += x[i];
    return sum;
}

static float row(float *s, const float *mask, float scale, int64_t seen, int64_t n, float *most)
{
    if (mask)
        for (int64_t i = 0; i < seen; i++) s[i] = s[i] * scale + mask[i];
    else
        for (int64_t i = 0; i < seen; i++) s[i] = s[i] * scale;
    float top = most_of(s, seen);
    for (int64_t i = 0; i < seen; i++) s[i] = ipu__exp_below(s[i] - top);
    for (int64_t i = seen; i < n; i++) s[i] = 0;
    *most = top;
    return sum_of(s, seen);
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
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    for (; i < n; i++) sum += x[i] * y[i];
    return sum;
}

const ipu__attention_loops IPU__SIMD(ipu__attention_loops) = {
    .row = row, .row_back = row_back, .multiply = multiply, .dot = dot};
