/* Loops of resizing. */
#include "op/vision/resize.h"

static void scale(const float *x, float w, float *y, int64_t n)
{
    IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = w * x[i];
}

static void add(const float *x, float w, float *y, int64_t n)
{
    IPU__INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] += w * x[i];
}

static void row(const ipu__resize_table *t, const float *x, float *y)
{
    const int64_t  n = t->to;
    const int32_t *i = t->index;
    const float   *w = t->weight;
    if (t->taps == 1) {
        IPU__INDEPENDENT for (int64_t o = 0; o < n; o++) y[o] = w[o] * x[i[o]];
    } else if (t->taps == 2) {
        IPU__INDEPENDENT for (int64_t o = 0; o < n; o++) y[o] = w[o] * x[i[o]] + w[n + o] * x[i[n + o]];
    } else {
        for (int64_t o = 0; o < n; o++) y[o] = 0;
        for (int64_t k = 0; k < t->taps; k++)
            IPU__INDEPENDENT for (int64_t o = 0; o < n; o++) y[o] += w[k * n + o] * x[i[k * n + o]];
    }
}

const ipu__resize_loops IPU__SIMD(ipu__resize_loops_of) = {scale, add, row};
