/* Convolution, relu and max pooling with windows of 2 x 2 in registers, and the gradient of the weights,
 * selecting per lane by the index within its window. Vectors are sixteen images, or sixteen channels
 * (pool.h). */
#include "op/conv/pool.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#include "op/vector/lanes.h"

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))

/* Compilers would load a value again for each use of it, or keep those of the turn before until registers run out. */
#define HOLD(vector) __asm__("" : "+v"(vector))
#define HIDE(pointer) __asm__("" : "+r"(pointer))

enum { WIDE = 5, MOST_KERNEL = 5, KERNEL = IPU__CONV_POOL_KERNEL };

typedef ipu__conv_pool_shape shape;

/* Element i of x, as a vector: that, or a number for all lanes. */
INLINE __m512 load_x(const float *x, int64_t i, const bool blocked)
{
    return blocked ? _mm512_set1_ps(x[i]) : _mm512_loadu_ps(x + i * IPU__LANES);
}

INLINE __m512 load_w(const float *w, int64_t i, const bool blocked)
{
    return blocked ? _mm512_loadu_ps(w + i * IPU__LANES) : _mm512_set1_ps(w[i]);
}

/* ---- forward ---- */

/* One row of x into the two rows of a tile that read it by these rows of the kernel; NULL: one does not. */
INLINE void add_row(__m512 sum[2][2 * WIDE], const float *x, const float *upper, const float *lower,
                    const int wide, const int kernel, const bool blocked)
{
    __m512 u[MOST_KERNEL], l[MOST_KERNEL];
    HIDE(x);
    UNROLLED for (int k = 0; k < kernel; k++)
    {
        if (upper) u[k] = load_w(upper, k, blocked);
        if (lower) l[k] = load_w(lower, k, blocked);
    }
    UNROLLED for (int i = 0; i < 2 * wide + kernel - 1; i++)
    {
        __m512 value = load_x(x, i, blocked);
        HOLD(value);
        UNROLLED for (int k = 0; k < kernel; k++) if (i >= k && i - k < 2 * wide)
        {
            if (upper) sum[0][i - k] = _mm512_fmadd_ps(value, u[k], sum[0][i - k]);
            if (lower) sum[1][i - k] = _mm512_fmadd_ps(value, l[k], sum[1][i - k]);
        }
    }
}

/* A window, its elements in the order in which the first of equals is taken. */
typedef struct window {
    __m512 v[4];
} window;

INLINE window window_at(const __m512 sum[2][2 * WIDE], int k)
{
    return (window){{sum[0][2 * k], sum[0][2 * k + 1], sum[1][2 * k], sum[1][2 * k + 1]}};
}

/* The largest of those that are numbers, and where it is. */
INLINE __m512 choose(const window *w, __m512i at, __m512i below, __m512i *where)
{
    const __m512i one    = _mm512_set1_epi32(1);
    __mmask16     right  = _mm512_cmp_ps_mask(w->v[1], w->v[0], _CMP_GT_OQ);
    __mmask16     rights = _mm512_cmp_ps_mask(w->v[3], w->v[2], _CMP_GT_OQ);
    __m512        upper = _mm512_max_ps(w->v[0], w->v[1]), lower = _mm512_max_ps(w->v[2], w->v[3]);
    __mmask16     is_below = _mm512_cmp_ps_mask(lower, upper, _CMP_GT_OQ);
    __m512i       down     = _mm512_add_epi32(at, below);
    at                     = _mm512_mask_add_epi32(at, right, at, one);
    *where = _mm512_mask_mov_epi32(at, is_below, _mm512_mask_add_epi32(down, rights, down, one));
    return _mm512_max_ps(upper, lower);
}

/* A NaN wins, the last of several, as with max_pool. */
static __attribute__((noinline)) __m512 choose_nan(const window *w, __m512 best, __m512i at, __m512i below,
                                                   __m512i *where)
{
    const __m512i one = _mm512_set1_epi32(1), down = _mm512_add_epi32(at, below);
    const __m512i i[4] = {at, _mm512_add_epi32(at, one), down, _mm512_add_epi32(down, one)};
    for (int k = 0; k < 4; k++) {
        __mmask16 is_nan = _mm512_cmp_ps_mask(w->v[k], w->v[k], _CMP_UNORD_Q);
        best             = _mm512_mask_mov_ps(best, is_nan, w->v[k]);
        *where           = _mm512_mask_mov_epi32(*where, is_nan, i[k]);
    }
    return best;
}

/* relu does not change which one is largest, but where none is above 0, all are. */
INLINE __m512i place_after_relu(const shape *s, __m512 best, __m512i at, __m512i where)
{
    if (s->mask) {
        __mmask16 is_above = _mm512_cmp_ps_mask(best, _mm512_setzero_ps(), _CMP_GT_OQ);
        return _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), is_above, where);
    }
    if (!s->relu) return where;
    return _mm512_mask_mov_epi32(where, _mm512_cmp_ps_mask(best, _mm512_setzero_ps(), _CMP_LE_OQ), at);
}

/* Windows of a tile, the first of which begins at element `first` of its plane. */
INLINE void pool_windows(const shape *s, const __m512 sum[2][2 * WIDE], int64_t first, float *z,
                         int32_t *indices, const int wide, const bool has_nan)
{
    const __m512  zero  = _mm512_setzero_ps();
    const __m512i below = _mm512_set1_epi32((int32_t)s->y_columns);
    __m512i       at    = _mm512_set1_epi32((int32_t)first);
    UNROLLED for (int k = 0; k < wide; k++)
    {
        __m512i where;
        window  w    = window_at(sum, k);
        __m512  best = choose(&w, at, below, &where);
        if (has_nan) best = choose_nan(&w, best, at, below, &where);
        if (indices) _mm512_storeu_si512(indices + k * IPU__LANES, place_after_relu(s, best, at, where));
        _mm512_storeu_ps(z + k * IPU__LANES, s->relu ? _mm512_max_ps(zero, best) : best);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(2));
    }
}

/* One look for all windows of a tile. */
INLINE void pool(const shape *s, const __m512 sum[2][2 * WIDE], int64_t first, float *z, int32_t *indices,
                 const int wide)
{
    __mmask16 nan = 0;
    UNROLLED for (int k = 0; k < 2 * wide; k++) nan |= _mm512_cmp_ps_mask(sum[0][k], sum[1][k], _CMP_UNORD_Q);
    if (__builtin_expect(nan != 0, 0)) {
        pool_windows(s, sum, first, z, indices, wide, true);
        return;
    }
    pool_windows(s, sum, first, z, indices, wide, false);
}

INLINE void forward_tile(const shape *s, const float *x, const float *w, const float *bias, int64_t first,
                         float *z, int32_t *indices, const int wide, const int kernel, const bool blocked)
{
    __m512        sum[2][2 * WIDE];
    const int64_t row   = s->x_columns * (blocked ? 1 : IPU__LANES),
                  w_row = kernel * (blocked ? IPU__LANES : 1);
    const __m512 begin  = bias ? load_w(bias, 0, blocked) : _mm512_setzero_ps();
    UNROLLED for (int i = 0; i < 2 * wide; i++) sum[0][i] = sum[1][i] = begin;
    for (int64_t in = 0; in < s->in; in++, w += kernel * w_row) {
        const float *from = x + in * s->x_plane * (blocked ? 1 : IPU__LANES);
        add_row(sum, from, w, NULL, wide, kernel, blocked);
        for (int k = 1; k < kernel; k++)
            add_row(sum, from + k * row, w + k * w_row, w + (k - 1) * w_row, wide, kernel, blocked);
        add_row(sum, from + kernel * row, NULL, w + (kernel - 1) * w_row, wide, kernel, blocked);
    }
    pool(s, (const __m512(*)[2 * WIDE]) sum, first, z, indices, wide);
}

typedef void (*forward_fn)(const shape *s, const float *x, const float *w, const float *bias, int64_t first,
                           float *z, int32_t *indices);
#define FORWARD(wide, kernel, blocked)                                                                \
    static void forward_##wide##_##kernel##_##blocked(const shape *s, const float *x, const float *w, \
                                                      const float *bias, int64_t first, float *z,     \
                                                      int32_t *indices)                               \
    {                                                                                                 \
        forward_tile(s, x, w, bias, first, z, indices, wide, kernel, blocked);                        \
    }
#define EACH_WIDTH(F, ...) \
    F(1, __VA_ARGS__) F(2, __VA_ARGS__) F(3, __VA_ARGS__) F(4, __VA_ARGS__) F(5, __VA_ARGS__)
#define NAME(wide, kernel, blocked) forward_##wide##_##kernel##_##blocked,
/* clang-format off */
EACH_WIDTH(FORWARD, 3, 0)
EACH_WIDTH(FORWARD, 5, 0)
EACH_WIDTH(FORWARD, 3, 1)
EACH_WIDTH(FORWARD, 5, 1)
static const forward_fn forward_tiles[2][2][WIDE] = {{{EACH_WIDTH(NAME, 3, 0)}, {EACH_WIDTH(NAME, 5, 0)}},
                                                     {{EACH_WIDTH(NAME, 3, 1)}, {EACH_WIDTH(NAME, 5, 1)}}};
/* clang-format on */

/* Tiles of a row are as even as can be. */
static void forward(const shape *s, const float *x, const float *w, const float *bias, int64_t row, float *z,
                    int32_t *indices)
{
    const forward_fn *tiles = forward_tiles[s->blocked][s->kernel == 5];
    int64_t           n = (s->z_columns + WIDE - 1) / WIDE, step = s->blocked ? 1 : IPU__LANES;
    x += 2 * row * s->x_columns * step;
    z += row * s->z_columns * IPU__LANES;
    if (indices) indices += row * s->z_columns * IPU__LANES;
    for (int64_t i = 0, at = 0; i < n; i++) {
        int64_t wide = (s->z_columns - at + n - i - 1) / (n - i);
        tiles[wide - 1](s, x + 2 * at * step, w, bias, 2 * (row * s->y_columns + at), z + at * IPU__LANES,
                        indices ? indices + at * IPU__LANES : NULL);
        at += wide;
    }
}

/* ---- the gradient of weights ---- */

/* Which element of their window lanes take. */
typedef struct taken {
    __mmask16 right, below, any;
} taken;

INLINE taken find(__m512i index, int64_t at, int64_t below)
{
    __m512i   rest = _mm512_sub_epi32(index, _mm512_set1_epi32((int32_t)at));
    __mmask16 k1   = _mm512_cmpeq_epi32_mask(rest, _mm512_set1_epi32(1)),
              k2   = _mm512_cmpeq_epi32_mask(rest, _mm512_set1_epi32((int32_t)below)),
              k3   = _mm512_cmpeq_epi32_mask(rest, _mm512_set1_epi32((int32_t)below + 1));
    taken t        = {k1 | k3, k2 | k3, k1 | k2 | k3 | _mm512_testn_epi32_mask(rest, rest)};
    return t;
}

/* A row of windows. The two columns of x on the left of a window are those on the right of the one before. */
INLINE __mmask16 grad_row(const shape *s, const float *x, const float *dz, const int32_t *indices, int64_t at,
                          __m512 sum[KERNEL][KERNEL], __m512 *bias, const bool blocked)
{
    __m512        left[KERNEL + 1][2];
    __mmask16     misses = 0;
    const int64_t row = s->x_columns * (blocked ? 1 : IPU__LANES), step = blocked ? 1 : IPU__LANES;
    UNROLLED for (int r = 0; r < KERNEL + 1; r++) UNROLLED for (int k = 0; k < 2; k++)
        left[r][k] = load_x(x + r * row, k, blocked);
    for (int64_t i = 0; i < s->z_columns; i++, at += 2, dz += IPU__LANES, indices += IPU__LANES) {
        __m512i index = _mm512_loadu_si512(indices);
        taken   t     = find(index, at, s->y_columns);
        __m512  d     = _mm512_maskz_loadu_ps(t.any, dz), before[KERNEL];
        misses |= _mm512_mask_cmpneq_epi32_mask((__mmask16)~t.any, index, _mm512_set1_epi32(-1));
        *bias = _mm512_add_ps(*bias, d);
        x += 2 * step;
        HIDE(x);
        UNROLLED for (int r = 0; r < KERNEL + 1; r++)
        {
            __m512 c = load_x(x + r * row, 0, blocked), e = load_x(x + r * row, 1, blocked), now[KERNEL];
            now[0] = _mm512_mask_mov_ps(left[r][0], t.right, left[r][1]);
            now[1] = _mm512_mask_mov_ps(left[r][1], t.right, c);
            now[2] = _mm512_mask_mov_ps(c, t.right, e);
            UNROLLED for (int k = 0; k < KERNEL; k++)
            {
                if (r > 0)
                    sum[r - 1][k] = _mm512_fmadd_ps(_mm512_mask_mov_ps(before[k], t.below, now[k]), d,
                                                    sum[r - 1][k]);
                before[k] = now[k];
            }
            left[r][0] = c;
            left[r][1] = e;
        }
    }
    return misses;
}

INLINE bool grad_rows(const shape *s, const float *x, const float *dz, const int32_t *indices, int64_t begin,
                      int64_t end, float *sums, float *bias, const bool blocked)
{
    __m512    sum[KERNEL][KERNEL], sum_bias = _mm512_setzero_ps();
    __mmask16 misses = 0;
    UNROLLED for (int r = 0; r < KERNEL; r++) UNROLLED for (int k = 0; k < KERNEL; k++)
        sum[r][k] = _mm512_loadu_ps(sums + (r * KERNEL + k) * IPU__LANES);
    for (int64_t row = begin; row < end; row++)
        misses |= grad_row(s, x + 2 * row * s->x_columns * (blocked ? 1 : IPU__LANES),
                           dz + row * s->z_columns * IPU__LANES, indices + row * s->z_columns * IPU__LANES,
                           2 * row * s->y_columns, sum, &sum_bias, blocked);
    UNROLLED for (int r = 0; r < KERNEL; r++) UNROLLED for (int k = 0; k < KERNEL; k++)
        _mm512_storeu_ps(sums + (r * KERNEL + k) * IPU__LANES, sum[r][k]);
    if (bias) _mm512_storeu_ps(bias, _mm512_add_ps(_mm512_loadu_ps(bias), sum_bias));
    return misses != 0;
}

static bool grad(const shape *s, const float *x, const float *dz, const int32_t *indices, int64_t begin,
                 int64_t end, float *sums, float *bias)
{
    return s->blocked ? grad_rows(s, x, dz, indices, begin, end, sums, bias, true)
                      : grad_rows(s, x, dz, indices, begin, end, sums, bias, false);
}

const ipu__conv_pool_loops IPU__SIMD(ipu__conv_pool_loops_at) = {forward, grad};
#else
const ipu__conv_pool_loops IPU__SIMD(ipu__conv_pool_loops_at) = {0};
#endif
