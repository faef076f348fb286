/* Pooling of planes whose elements are vectors of sixteen planes, window by window. */
#include <math.h>
#include <string.h>

#include "op/vector/lanes.h"
#include "op/pool/pool.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* The taps of a window that are inside. */
typedef struct window {
    int64_t first[IPU__POOL_DIMS]; /* of the input, for tap 0 */
    int64_t lo[IPU__POOL_DIMS], hi[IPU__POOL_DIMS];
} window;

static inline void set_axis(const ipu__pooling *p, int axis, int64_t o, window *w)
{
    w->first[axis] = o * p->axis[axis].stride - p->axis[axis].begin;
    ipu__pool_taps(&p->axis[axis], o, &w->lo[axis], &w->hi[axis]);
}

static inline void set_row(const ipu__pooling *p, int64_t row, window *w)
{
    set_axis(p, 0, row / p->axis[1].out, w);
    set_axis(p, 1, row % p->axis[1].out, w);
}

/* The element of the plane that tap (d, h) meets, for tap 0 of the last axis. */
static inline int64_t row_of(const ipu__pooling *p, const window *w, int64_t d, int64_t h)
{
    int64_t depth = w->first[0] + d * p->axis[0].dilation, height = w->first[1] + h * p->axis[1].dilation;
    return (depth * p->axis[1].in + height) * p->axis[2].in + w->first[2];
}

#define EACH_TAP(p, w, at, body)                                        \
    for (int64_t kd = (w)->lo[0]; kd < (w)->hi[0]; kd++)                \
        for (int64_t kh = (w)->lo[1]; kh < (w)->hi[1]; kh++) {          \
            int64_t in_row = row_of((p), (w), kd, kh);                  \
            for (int64_t kw = (w)->lo[2]; kw < (w)->hi[2]; kw++) {      \
                const int64_t at = in_row + kw * (p)->axis[2].dilation; \
                body                                                    \
            }                                                           \
        }

/* ---- the largest ---- */

#if defined(__AVX512F__)
static inline void choose(const float *x, int64_t at, __m512 *best, __m512i *where)
{
    __m512    v    = _mm512_loadu_ps(x + at * IPU__LANES);
    __mmask16 wins = _mm512_cmp_ps_mask(v, *best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    *best          = _mm512_mask_mov_ps(*best, wins, v);
    *where         = _mm512_mask_mov_epi32(*where, wins, _mm512_set1_epi32((int32_t)at));
}

static inline void max_window(const ipu__pooling *p, const float *x, const window *w, float *y,
                              int32_t *indices)
{
    __m512  best  = _mm512_set1_ps(-INFINITY);
    __m512i where = _mm512_set1_epi32(-1);
    EACH_TAP(p, w, at, choose(x, at, &best, &where);)
    _mm512_storeu_ps(y, best);
    _mm512_storeu_si512(indices, where);
}

/* A row of windows of 2 x 2, all inside, the first at element `at`. */
static void max_pairs(const float *x, int64_t at, int64_t below, int64_t n, float *y, int32_t *indices)
{
    for (int64_t o = 0; o < n; o++, at += 2) {
        __m512  best  = _mm512_loadu_ps(x + at * IPU__LANES);
        __m512i where = _mm512_set1_epi32((int32_t)at);
        choose(x, at + 1, &best, &where);
        choose(x, at + below, &best, &where);
        choose(x, at + below + 1, &best, &where);
        _mm512_storeu_ps(y + o * IPU__LANES, best);
        _mm512_storeu_si512(indices + o * IPU__LANES, where);
    }
}
#else
static inline void choose(const float *restrict x, int64_t at, float *restrict best, int32_t *restrict where)
{
    for (int64_t l = 0; l < IPU__LANES; l++) {
        float v    = x[at * IPU__LANES + l];
        bool  wins = v > best[l] || v != v;
        best[l]    = wins ? v : best[l];
        where[l]   = wins ? (int32_t)at : where[l];
    }
}

static inline void max_window(const ipu__pooling *p, const float *x, const window *w, float *y,
                              int32_t *indices)
{
    for (int64_t l = 0; l < IPU__LANES; l++) {
        y[l]       = -INFINITY;
        indices[l] = -1;
    }
    EACH_TAP(p, w, at, choose(x, at, y, indices);)
}

static void max_pairs(const float *x, int64_t at, int64_t below, int64_t n, float *y, int32_t *indices)
{
    for (int64_t o = 0; o < n; o++, at += 2, y += IPU__LANES, indices += IPU__LANES) {
        for (int64_t l = 0; l < IPU__LANES; l++) {
            y[l]       = x[at * IPU__LANES + l];
            indices[l] = (int32_t)at;
        }
        choose(x, at + 1, y, indices);
        choose(x, at + below, y, indices);
        choose(x, at + below + 1, y, indices);
    }
}
#endif

static bool are_pairs(const ipu__pool_axis *a)
{
    return a->kernel == 2 && a->stride == 2 && a->dilation == 1 && a->begin == 0 && 2 * a->out <= a->in;
}

static void max(const ipu__pooling *p, const float *x, int64_t begin, int64_t end, float *y, int32_t *indices,
                bool of_row)
{
    int64_t n = p->axis[2].out, width = p->axis[2].in;
    bool    has_pairs = p->axis[0].in == 1 && p->axis[0].out == 1 && p->axis[0].begin == 0
                  && are_pairs(&p->axis[1]) && are_pairs(&p->axis[2]);
    for (int64_t row = begin; row < end; row++) {
        int64_t  to    = row * n * IPU__LANES;
        int32_t *where = of_row ? indices : indices + to;
        window   w;
        if (has_pairs) {
            max_pairs(x, 2 * row * width, width, n, y + to, where);
            continue;
        }
        set_row(p, row, &w);
        for (int64_t o = 0; o < n; o++) {
            set_axis(p, 2, o, &w);
            max_window(p, x, &w, y + to + o * IPU__LANES, where + o * IPU__LANES);
        }
    }
}

/* ---- the mean ---- */

static float size_of(const ipu__pooling *p, int64_t row, int64_t o)
{
    const ipu__pool_axis *a = p->axis;
    return (float)(ipu__pool_count(&a[0], row / a[1].out, p->include_padding)
                   * ipu__pool_count(&a[1], row % a[1].out, p->include_padding)
                   * ipu__pool_count(&a[2], o, p->include_padding));
}

static void average(const ipu__pooling *p, const float *x, int64_t begin, int64_t end, float *y)
{
    for (int64_t row = begin; row < end; row++) {
        window w;
        set_row(p, row, &w);
        for (int64_t o = 0; o < p->axis[2].out; o++) {
            float sum[IPU__LANES] = {0}, size = size_of(p, row, o);
            float *restrict to = y + (row * p->axis[2].out + o) * IPU__LANES;
            set_axis(p, 2, o, &w);
            EACH_TAP(p, &w, at, for (int l = 0; l < IPU__LANES; l++) sum[l] += x[at * IPU__LANES + l];)
            for (int l = 0; l < IPU__LANES; l++) to[l] = sum[l] / size;
        }
    }
}

static void average_grad(const ipu__pooling *p, const float *dy, float *dx)
{
    memset(dx, 0, (size_t)(p->in_plane * IPU__LANES) * sizeof *dx);
    for (int64_t row = 0; row < p->axis[0].out * p->axis[1].out; row++) {
        window w;
        set_row(p, row, &w);
        for (int64_t o = 0; o < p->axis[2].out; o++) {
            float        share[IPU__LANES], size = size_of(p, row, o);
            const float *from = dy + (row * p->axis[2].out + o) * IPU__LANES;
            for (int l = 0; l < IPU__LANES; l++) share[l] = from[l] / size;
            set_axis(p, 2, o, &w);
            EACH_TAP(p, &w, at, for (int l = 0; l < IPU__LANES; l++) dx[at * IPU__LANES + l] += share[l];)
        }
    }
}

/* ---- by indices ---- */

/* One element of the plane, for which windows are looked through: what is said to be there. */
static inline void take(const float *restrict dy, const int32_t *restrict indices, int64_t at,
                        float *restrict dx)
{
    float *restrict to = dx + at * IPU__LANES;
    for (int l = 0; l < IPU__LANES; l++) to[l] = indices[l] == (int32_t)at ? dy[l] : 0;
}

#if defined(__AVX512F__)
static inline __mmask16 take_pair(__m512 v, __m512i index, int64_t at, float *dx)
{
    __mmask16 left  = _mm512_cmpeq_epi32_mask(index, _mm512_set1_epi32((int32_t)at));
    __mmask16 right = _mm512_cmpeq_epi32_mask(index, _mm512_set1_epi32((int32_t)at + 1));
    _mm512_storeu_ps(dx + at * IPU__LANES, _mm512_maskz_mov_ps(left, v));
    _mm512_storeu_ps(dx + (at + 1) * IPU__LANES, _mm512_maskz_mov_ps(right, v));
    return left | right;
}

/* Windows of 2 x 2, the first at element `at`. */
static bool scatter_pairs(const float *dy, const int32_t *indices, int64_t at, int64_t below, int64_t n,
                          float *dx)
{
    __mmask16 misses = 0;
    for (int64_t o = 0; o < n; o++, at += 2) {
        __m512    v     = _mm512_loadu_ps(dy + o * IPU__LANES);
        __m512i   index = _mm512_loadu_si512(indices + o * IPU__LANES);
        __mmask16 found = take_pair(v, index, at, dx) | take_pair(v, index, at + below, dx);
        misses |= _mm512_mask_cmpneq_epi32_mask(~found, index, _mm512_set1_epi32(-1));
    }
    return misses != 0;
}
#else
static bool scatter_pairs(const float *dy, const int32_t *indices, int64_t at, int64_t below, int64_t n,
                          float *dx)
{
    int32_t misses = 0;
    for (int64_t o = 0; o < n; o++, at += 2, dy += IPU__LANES, indices += IPU__LANES) {
        take(dy, indices, at, dx);
        take(dy, indices, at + 1, dx);
        take(dy, indices, at + below, dx);
        take(dy, indices, at + below + 1, dx);
        for (int l = 0; l < IPU__LANES; l++) {
            int32_t i = indices[l] - (int32_t)at;
            misses |= indices[l] != -1 && i != 0 && i != 1 && i != below && i != below + 1;
        }
    }
    return misses != 0;
}
#endif

/* Windows are as far apart as they are wide; the last ones of an axis reach to its end. */
static int64_t end_of(const ipu__pool_axis *a, int64_t o)
{
    return o + 1 == a->out ? a->in : (o + 1) * a->stride;
}

/* Window (row, o) of the larger plane. */
static bool scatter_window(const ipu__pooling *p, const float *dy, const int32_t *indices, int64_t row,
                           int64_t o, float *dx)
{
    const ipu__pool_axis *a = p->axis;
    int64_t               d = row / a[1].out, h = row % a[1].out;
    int                   n_found[IPU__LANES] = {0}, misses = 0;
    for (int64_t i = d * a[0].stride; i < end_of(&a[0], d); i++)
        for (int64_t j = h * a[1].stride; j < end_of(&a[1], h); j++)
            for (int64_t k = o * a[2].stride; k < end_of(&a[2], o); k++) {
                int64_t at = (i * a[1].in + j) * a[2].in + k;
                take(dy, indices, at, dx);
                for (int l = 0; l < IPU__LANES; l++) n_found[l] += indices[l] == (int32_t)at;
            }
    for (int l = 0; l < IPU__LANES; l++) misses |= indices[l] != -1 && n_found[l] == 0;
    return misses != 0;
}

static bool scatter(const ipu__pooling *p, const float *dy, const int32_t *indices, int64_t begin,
                    int64_t end, float *dx)
{
    const ipu__pool_axis *a     = p->axis;
    bool                  pairs = a[0].in == 1 && a[1].stride == 2 && a[2].stride == 2, misses = false;
    for (int64_t row = begin; row < end; row++) {
        int64_t from = row * a[2].out * IPU__LANES, n = 0;
        if (pairs && (row + 1 < a[1].out || a[1].in == 2 * a[1].out)) {
            n = a[2].in == 2 * a[2].out ? a[2].out : a[2].out - 1;
            misses |= scatter_pairs(dy + from, indices + from, 2 * row * a[2].in, a[2].in, n, dx);
        }
        for (; n < a[2].out; n++)
            misses |= scatter_window(p, dy + from + n * IPU__LANES, indices + from + n * IPU__LANES, row, n,
                                     dx);
    }
    return misses;
}

const ipu__pool_lane_loops IPU__SIMD(ipu__pool_lane_loops_of) = {max, average, average_grad, scatter};
