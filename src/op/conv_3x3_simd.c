/* Kernels of 3 x 3: rows of x are loaded once for the three rows of outputs that read them. */
#include "op/conv_3x3.h"

#if defined(__AVX2__)
#include <immintrin.h>

/* ---- vectors of a level, and masks, which loads do not look behind ---- */

#if defined(__AVX512F__)
typedef __m512    vector;
typedef __mmask16 mask;
enum { WIDTH = 16 };
#define SPLAT(value) _mm512_set1_ps(value)
#define LOAD(from) _mm512_loadu_ps(from)
#define STORE(to, v) _mm512_storeu_ps(to, v)
#define TAKE(from, keep) _mm512_maskz_loadu_ps(keep, from)
#define PUT(to, keep, v) _mm512_mask_storeu_ps(to, keep, v)
#define MASK(bits) ((mask)(bits))
#else
typedef __m256  vector;
typedef __m256i mask;
enum { WIDTH = 8 };
#define SPLAT(value) _mm256_set1_ps(value)
#define LOAD(from) _mm256_loadu_ps(from)
#define STORE(to, v) _mm256_storeu_ps(to, v)
#define TAKE(from, keep) _mm256_maskload_ps(from, keep)
#define PUT(to, keep, v) _mm256_maskstore_ps(to, keep, v)
#define BITS _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128)
#define MASK(bits) _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits)), BITS), BITS)
#endif

/* Lanes l of a vector for which 0 <= first + l < n. */
static inline unsigned lanes_inside(int64_t first, int64_t n)
{
    const unsigned all = (1u << WIDTH) - 1;
    if (first <= -WIDTH || first >= n) return 0;
    unsigned from = first < 0 ? all << -first & all : all;
    return n - first < WIDTH ? from & ((1u << (n - first)) - 1) : from;
}

/* What outputs from column `at` on, in `lanes`, read: for each of the three columns of taps the lanes that are
 * in x; and, a bit for each, which of those are not all. */
typedef struct block {
    int64_t  at, first; /* of outputs, of x */
    unsigned lanes[3], edges;
} block;

enum { ALL = (1 << WIDTH) - 1 };

static inline block make_block(const ipu__rows_3x3 *x, int64_t at, unsigned lanes)
{
    block b = {.at = at, .first = at - x->pad};
    for (int t = 0; t < 3; t++) {
        b.lanes[t] = lanes & lanes_inside(b.first + t, x->n_x);
        if (b.lanes[t] != ALL) b.edges |= 1u << t;
    }
    return b;
}

/* Row `from` of x for column `t` of taps. `edges` is a constant: masks take time that additions need. */
#define READ(from, t) (edges >> (t)&1 ? TAKE((from) + first + (t), keep[t]) : LOAD((from) + first + (t)))

/* `call` with the edges that are: none, one at either end of a row, any. */
#define WITH_EDGES(edges, call) \
    switch (edges) {            \
    case 0: call(0); break;     \
    case 1: call(1); break;     \
    case 4: call(4); break;     \
    default: call(7); break;    \
    }

enum {
    STRIP = 32
}; /* rows of outputs that are done for all columns before the next: they stay in the cache */

/* ---- sums: four rows of outputs at a time; the last may be done again ---- */

enum { ROWS = 4 };

static inline int64_t place(int64_t i, int64_t width, int64_t n) { return i + width <= n ? i : n - width; }

static inline __attribute__((always_inline)) void sum_rows(const ipu__rows_3x3 *x, const block *b,
                                                           unsigned edges, int64_t begin, int64_t end,
                                                           const float w[9], float bias, float *y)
{
    const mask keep[3] = {MASK(b->lanes[0]), MASK(b->lanes[1]), MASK(b->lanes[2])};
    int64_t    n = x->n_columns, first = b->first;
    vector     factor[9];
    for (int t = 0; t < 9; t++) factor[t] = SPLAT(w[t]);
    for (int64_t i = begin; i < end; i += ROWS) {
        int64_t at = place(i, ROWS, x->n_rows);
        vector  s[ROWS];
        for (int o = 0; o < ROWS; o++) s[o] = SPLAT(bias);
#pragma GCC unroll 6
        for (int k = 0; k < ROWS + 2; k++)
#pragma GCC unroll 3
            for (int t = 0; t < 3; t++) {
                vector v = READ(x->row[at + k], t);
#pragma GCC unroll 4
                for (int o = 0; o < ROWS; o++)
                    if (o <= k && k <= o + 2) s[o] += factor[3 * (k - o) + t] * v;
            }
        for (int o = 0; o < ROWS; o++)
            if (n < WIDTH)
                PUT(y + (at + o) * n, MASK(lanes_inside(0, n)), s[o]);
            else
                STORE(y + (at + o) * n + b->at, s[o]);
    }
}

static void sum(const ipu__rows_3x3 *x, const float w[9], float bias, float *y)
{
    int64_t n = x->n_columns;
    for (int64_t r = 0; r < x->n_rows; r += STRIP) {
        int64_t end = r + STRIP < x->n_rows ? r + STRIP : x->n_rows;
        for (int64_t i = 0; i < n; i += WIDTH) {
            int64_t at = n < WIDTH ? 0 : place(i, WIDTH, n);
            block   b  = make_block(x, at, lanes_inside(at, n));
#define SUM(edges) sum_rows(x, &b, edges, r, end, w, bias, y)
            WITH_EDGES(b.edges, SUM)
        }
    }
}

/* ---- dot products: two of three rows of x are those of the row of outputs before ---- */

enum { LANES = 16 };

static inline __attribute__((always_inline)) void dot_rows(const ipu__rows_3x3 *x, const block *b,
                                                           unsigned edges, int64_t begin, int64_t end,
                                                           const float *y, float *lane)
{
    const mask keep[3] = {MASK(b->lanes[0]), MASK(b->lanes[1]), MASK(b->lanes[2])};
    const mask inside  = MASK(lanes_inside(b->at, x->n_columns));
    int64_t    first   = b->first;
    vector     s[9], above[3], here[3];
    for (int t = 0; t < 9; t++) s[t] = LOAD(lane + LANES * t);
    for (int t = 0; t < 3; t++) above[t] = READ(x->row[begin], t);
    for (int t = 0; t < 3; t++) here[t] = READ(x->row[begin + 1], t);
    for (int64_t r = begin; r < end; r++) {
        const float *from = y + r * x->n_columns + b->at;
        vector       v    = edges == 7 ? TAKE(from, inside) : LOAD(from);
        for (int t = 0; t < 3; t++) {
            vector below = READ(x->row[r + 2], t);
            s[t] += above[t] * v;
            s[t + 3] += here[t] * v;
            s[t + 6] += below * v;
            above[t] = here[t];
            here[t]  = below;
        }
    }
    for (int t = 0; t < 9; t++) STORE(lane + LANES * t, s[t]);
}

static void dots(const ipu__rows_3x3 *x, const float *y, float *lane)
{
    for (int64_t r = 0; r < x->n_rows; r += STRIP) {
        int64_t end = r + STRIP < x->n_rows ? r + STRIP : x->n_rows;
        for (int64_t at = 0; at < x->n_columns; at += WIDTH) {
            block b = make_block(x, at, lanes_inside(at, x->n_columns));
#define DOTS(edges) dot_rows(x, &b, edges, r, end, y, lane + at % LANES)
            WITH_EDGES(b.edges, DOTS)
        }
    }
}

const ipu__conv_3x3_loops IPU__SIMD(ipu__conv_3x3_loops_at) = {sum, dots};
#else
const ipu__conv_3x3_loops IPU__SIMD(ipu__conv_3x3_loops_at) = {0};
#endif
