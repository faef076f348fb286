/* Pooling of one plane of floats, tap by tap over rows of the output: rows are what vectorises. */
#include <math.h>
#include <string.h>

#include "op/pool/pool.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Rows of the input that tap (d, h) of the windows of output row (od, oh) meets; false: padding. */
static bool input_row(const ipu__pooling *p, const int64_t o[2], const int64_t tap[2], int64_t *row)
{
    int64_t at[2];
    for (int i = 0; i < 2; i++) {
        at[i] = o[i] * p->axis[i].stride - p->axis[i].begin + tap[i] * p->axis[i].dilation;
        if (at[i] < 0 || at[i] >= p->axis[i].in) return false;
    }
    *row = (at[0] * p->axis[1].in + at[1]) * p->axis[2].in;
    return true;
}

/* One tap along a row: x[o * stride + shift] for o in [lo, hi). */
static void max_tap(const float *restrict x, int64_t stride, int64_t shift, int32_t first, int64_t lo,
                    int64_t hi, float *restrict y, int32_t *restrict indices)
{
    for (int64_t o = lo; o < hi; o++) {
        float v    = x[o * stride + shift];
        bool  wins = v > y[o] || v != v;
        y[o]       = wins ? v : y[o];
        indices[o] = wins ? first + (int32_t)(o * stride) : indices[o];
    }
}

/* The same for neighbours two apart, which compilers know how to load. */
static void max_tap2(const float *restrict x, int32_t first, int64_t n, float *restrict y,
                     int32_t *restrict indices)
{
    for (int64_t o = 0; o < n; o++) {
        float v    = x[2 * o];
        bool  wins = v > y[o] || v != v;
        y[o]       = wins ? v : y[o];
        indices[o] = wins ? first + (int32_t)(2 * o) : indices[o];
    }
}

static void max_row(const ipu__pooling *p, const float *x, const int64_t o[2], float *y, int32_t *indices)
{
    const ipu__pool_axis *w = &p->axis[2];
    for (int64_t i = 0; i < w->out; i++) {
        y[i]       = -INFINITY;
        indices[i] = -1;
    }
    for (int64_t d = 0; d < p->axis[0].kernel; d++)
        for (int64_t h = 0; h < p->axis[1].kernel; h++) {
            int64_t row, lo, hi;
            if (!input_row(p, o, (int64_t[]){d, h}, &row)) continue;
            for (int64_t k = 0; k < w->kernel; k++) {
                int64_t shift = k * w->dilation - w->begin;
                int32_t first = (int32_t)(row + shift);
                ipu__pool_valid(w, k, &lo, &hi);
                if (w->stride == 2)
                    max_tap2(x + row + shift + 2 * lo, first + (int32_t)(2 * lo), hi - lo, y + lo,
                             indices + lo);
                else
                    max_tap(x + row, w->stride, shift, first, lo, hi, y, indices);
            }
        }
}

/* Windows of 2 x 2, two apart, all of them inside: what most networks have. One pass over two rows. */
#if defined(__AVX512F__)
static inline void choose(__m512 v, __m512i at, __m512 *best, __m512i *where)
{
    __mmask16 wins = _mm512_cmp_ps_mask(v, *best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    *best          = _mm512_mask_mov_ps(*best, wins, v);
    *where         = _mm512_mask_mov_epi32(*where, wins, at);
}

/* Rows are short: masks rather than a loop for what is left. */
static void max_pairs(const float *restrict upper, const float *restrict lower, int32_t first, int32_t below,
                      int64_t n, float *restrict y, int32_t *restrict indices)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i one = _mm512_set1_epi32(1), odd = _mm512_add_epi32(even, one);
    for (int64_t o = 0; o < n; o += 16) {
        uint32_t  pairs = n - o >= 16 ? UINT32_MAX : (1u << 2 * (n - o)) - 1; /* of floats */
        __mmask16 low = (__mmask16)pairs, high = (__mmask16)(pairs >> 16);
        __mmask16 mask = (__mmask16)(n - o >= 16 ? 0xffff : (1u << (n - o)) - 1);
        __m512    a    = _mm512_maskz_loadu_ps(low, upper + 2 * o),
               b       = _mm512_maskz_loadu_ps(high, upper + 2 * o + 16);
        __m512 c       = _mm512_maskz_loadu_ps(low, lower + 2 * o),
               d       = _mm512_maskz_loadu_ps(high, lower + 2 * o + 16);
        __m512i at     = _mm512_add_epi32(even, _mm512_set1_epi32(first + (int32_t)(2 * o)));
        __m512i down = _mm512_add_epi32(at, _mm512_set1_epi32(below)), where = at;
        __m512  best = _mm512_permutex2var_ps(a, even, b);
        choose(_mm512_permutex2var_ps(a, odd, b), _mm512_add_epi32(at, one), &best, &where);
        choose(_mm512_permutex2var_ps(c, even, d), down, &best, &where);
        choose(_mm512_permutex2var_ps(c, odd, d), _mm512_add_epi32(down, one), &best, &where);
        _mm512_mask_storeu_ps(y + o, mask, best);
        _mm512_mask_storeu_epi32(indices + o, mask, where);
    }
}
#else
static void max_pairs(const float *restrict upper, const float *restrict lower, int32_t first, int32_t below,
                      int64_t n, float *restrict y, int32_t *restrict indices)
{
    for (int64_t o = 0; o < n; o++) {
        float   a = upper[2 * o], b = upper[2 * o + 1], c = lower[2 * o], d = lower[2 * o + 1];
        int32_t at   = first + (int32_t)(2 * o);
        int32_t best = at;
        bool    wins = b > a || b != b;
        a            = wins ? b : a;
        best         = wins ? at + 1 : best;
        wins         = c > a || c != c;
        a            = wins ? c : a;
        best         = wins ? at + below : best;
        wins         = d > a || d != d;
        y[o]         = wins ? d : a;
        indices[o]   = wins ? at + below + 1 : best;
    }
}
#endif

static bool are_pairs(const ipu__pool_axis *a)
{
    return a->kernel == 2 && a->stride == 2 && a->dilation == 1 && a->begin == 0 && 2 * a->out <= a->in;
}

static void max(const ipu__pooling *p, const float *x, float *y, int32_t *indices)
{
    int64_t n = p->axis[2].out;
    if (p->axis[0].in == 1 && p->axis[0].out == 1 && p->axis[0].begin == 0 && are_pairs(&p->axis[1])
        && are_pairs(&p->axis[2])) {
        int64_t width = p->axis[2].in;
        for (int64_t h = 0; h < p->axis[1].out; h++)
            max_pairs(x + 2 * h * width, x + (2 * h + 1) * width, (int32_t)(2 * h * width), (int32_t)width, n,
                      y + h * n, indices + h * n);
        return;
    }
    for (int64_t d = 0; d < p->axis[0].out; d++)
        for (int64_t h = 0; h < p->axis[1].out; h++) {
            int64_t at = (d * p->axis[1].out + h) * n;
            max_row(p, x, (int64_t[]){d, h}, y + at, indices + at);
        }
}

static float share(const ipu__pooling *p, const int64_t o[2])
{
    return (float)(ipu__pool_count(&p->axis[0], o[0], p->include_padding)
                   * ipu__pool_count(&p->axis[1], o[1], p->include_padding));
}

static void average_row(const ipu__pooling *p, const float *x, const int64_t o[2], float *restrict y)
{
    const ipu__pool_axis *w = &p->axis[2];
    for (int64_t i = 0; i < w->out; i++) y[i] = 0;
    for (int64_t d = 0; d < p->axis[0].kernel; d++)
        for (int64_t h = 0; h < p->axis[1].kernel; h++) {
            int64_t row, lo, hi;
            if (!input_row(p, o, (int64_t[]){d, h}, &row)) continue;
            for (int64_t k = 0; k < w->kernel; k++) {
                const float *restrict from = x + row + k * w->dilation - w->begin;
                ipu__pool_valid(w, k, &lo, &hi);
                for (int64_t i = lo; i < hi; i++) y[i] += from[i * w->stride];
            }
        }
    float rows = share(p, o);
    for (int64_t i = 0; i < w->out; i++) y[i] /= rows * (float)ipu__pool_count(w, i, p->include_padding);
}

static void average(const ipu__pooling *p, const float *x, float *y)
{
    for (int64_t d = 0; d < p->axis[0].out; d++)
        for (int64_t h = 0; h < p->axis[1].out; h++)
            average_row(p, x, (int64_t[]){d, h}, y + (d * p->axis[1].out + h) * p->axis[2].out);
}

static void average_grad_row(const ipu__pooling *p, const float *dy, const int64_t o[2], float *dx)
{
    const ipu__pool_axis *w    = &p->axis[2];
    float                 rows = share(p, o);
    for (int64_t i = 0; i < w->out; i++) {
        float   part  = dy[i] / (rows * (float)ipu__pool_count(w, i, p->include_padding));
        int64_t begin = i * w->stride - w->begin, first = begin < 0 ? 0 : begin, end = begin + w->kernel;
        if (end > w->in) end = w->in;
        for (int64_t d = 0; d < p->axis[0].kernel; d++)
            for (int64_t h = 0; h < p->axis[1].kernel; h++) {
                int64_t row;
                if (!input_row(p, o, (int64_t[]){d, h}, &row)) continue;
                for (int64_t k = first; k < end; k++) dx[row + k] += part;
            }
    }
}

static void average_grad(const ipu__pooling *p, const float *dy, float *dx)
{
    memset(dx, 0, (size_t)p->in_plane * sizeof *dx);
    for (int64_t d = 0; d < p->axis[0].out; d++)
        for (int64_t h = 0; h < p->axis[1].out; h++)
            average_grad_row(p, dy + (d * p->axis[1].out + h) * p->axis[2].out, (int64_t[]){d, h}, dx);
}

const ipu__pool_loops IPU__SIMD(ipu__pool_loops_of) = {max, average, average_grad};
