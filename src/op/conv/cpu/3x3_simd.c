/* Kernels of 3 x 3: rows of x are loaded once for all rows of outputs that read them. */
#include "op/conv/cpu/3x3.h"

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
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31
#else
typedef __m256  vector;
typedef __m256i mask;
enum { WIDTH = 8 };
#define SPLAT(value) _mm256_set1_ps(value)
#define LOAD(from) _mm256_loadu_ps(from)
#define STORE(to, v) _mm256_storeu_ps(to, v)
#define TAKE(from, keep) _mm256_maskload_ps(from, keep)
#define PUT(to, keep, v) _mm256_maskstore_ps(to, keep, v)
#define EVEN 0, 2, 4, 6, 9, 11, 13, 15
#define BITS _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128)
#define MASK(bits) _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits)), BITS), BITS)
#endif

enum { ALL = (1 << WIDTH) - 1 };

/* Lanes l of a vector for which 0 <= first + l < n. */
static inline unsigned lanes_inside(int64_t first, int64_t n)
{
    if (first <= -WIDTH || first >= n) return 0;
    unsigned from = first < 0 ? (unsigned)ALL << -first & ALL : ALL;
    return n - first < WIDTH ? from & ((1u << (n - first)) - 1) : from;
}

/* What `n` outputs from column `at` on read: for each of the three columns of taps the lanes that are in x,
 * of two vectors if the stride is 2; and, a bit for each, which of those are not all. */
typedef struct block {
    int64_t  at, first; /* of outputs, of x */
    unsigned lanes[3][2], edges;
} block;

static inline block make_block(const ipu__rows_3x3 *x, int64_t at, int64_t n)
{
    block b = {.at = at, .first = at * x->stride - x->pad};
    for (int t = 0; t < 3; t++) {
        int64_t first = b.first + t, end = first + (n - 1) * x->stride + 1;
        if (end > x->n_x) end = x->n_x;
        for (int i = 0; i < x->stride; i++) {
            b.lanes[t][i] = lanes_inside(first + i * (WIDTH - 1), end);
            if (b.lanes[t][i] != ALL) b.edges |= 1u << t;
        }
    }
    return b;
}

/* The masks, and a load by them. `edges` and `stride` are constants: masks take time that additions need. */
#define KEEP(b)                                                                                             \
    {                                                                                                       \
        {MASK((b)->lanes[0][0]), MASK((b)->lanes[0][1])}, {MASK((b)->lanes[1][0]), MASK((b)->lanes[1][1])}, \
            {MASK((b)->lanes[2][0]), MASK((b)->lanes[2][1])},                                               \
    }
#define PART(from, t, i) (edges >> (t)&1 ? TAKE(from, keep[t][i]) : LOAD(from))

/* Row `from` of x for column `t` of taps. Every other element is that of two vectors, the second of which
 * begins with the last element of the first: what is read ends with what is used. */
#define READ(from, t)                                                                \
    (stride == 1 ? PART((from) + first + (t), t, 0)                                  \
                 : (vector)__builtin_shufflevector(PART((from) + first + (t), t, 0), \
                                                   PART((from) + first + (t) + WIDTH - 1, t, 1), EVEN))

/* `call` with the stride and the edges that are: none, one at either end of a row, any. */
#define WITH_EDGES(edges, stride, call)       \
    switch ((edges)*4 + (unsigned)(stride)) { \
    case 0 * 4 + 1: call(0, 1); break;        \
    case 1 * 4 + 1: call(1, 1); break;        \
    case 4 * 4 + 1: call(4, 1); break;        \
    case 0 * 4 + 2: call(0, 2); break;        \
    case 1 * 4 + 2: call(1, 2); break;        \
    case 4 * 4 + 2: call(4, 2); break;        \
    default:                                  \
        if ((stride) == 1)                    \
            call(7, 1);                       \
        else                                  \
            call(7, 2);                       \
    }

/* Rows of outputs that are done for all columns before the next: what they read stays in the cache. */
enum { STRIP = 32 };

/* ---- sums: four rows of outputs at a time; the last may be done again ---- */

enum { ROWS = 4 };

static inline int64_t place(int64_t i, int64_t width, int64_t n) { return i + width <= n ? i : n - width; }

static inline __attribute__((always_inline)) void sum_rows(const ipu__rows_3x3 *x, const block *b,
                                                           unsigned edges, int stride, int64_t begin,
                                                           int64_t end, const float w[9], float bias,
                                                           float *y)
{
    const mask keep[3][2] = KEEP(b);
    int64_t    n = x->n_columns, first = b->first;
    vector     factor[9];
    for (int t = 0; t < 9; t++) factor[t] = SPLAT(w[t]);
    for (int64_t i = begin; i < end; i += ROWS) {
        int64_t at = place(i, ROWS, x->n_rows);
        vector  s[ROWS];
        for (int o = 0; o < ROWS; o++) s[o] = SPLAT(bias);
#pragma GCC unroll 9
        for (int k = 0; k < (ROWS - 1) * stride + 3; k++)
#pragma GCC unroll 3
            for (int t = 0; t < 3; t++) {
                vector v = READ(x->row[at * stride + k], t);
#pragma GCC unroll 4
                for (int o = 0; o < ROWS; o++)
                    if (o * stride <= k && k <= o * stride + 2) s[o] += factor[3 * (k - o * stride) + t] * v;
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
            block   b  = make_block(x, at, n < WIDTH ? n : WIDTH);
#define SUM(edges, stride) sum_rows(x, &b, edges, stride, r, end, w, bias, y)
            WITH_EDGES(b.edges, x->stride, SUM)
        }
    }
}

/* ---- dot products: the first row or two of x are those of the row of outputs before ---- */

enum { LANES = 16 };

static inline __attribute__((always_inline)) void dot_rows(const ipu__rows_3x3 *x, const block *b,
                                                           unsigned edges, int stride, int64_t begin,
                                                           int64_t end, const float *y, float *lane)
{
    const mask keep[3][2] = KEEP(b);
    const mask inside     = MASK(lanes_inside(b->at, x->n_columns));
    int64_t    first      = b->first;
    vector     s[9], above[3], here[3];
    for (int t = 0; t < 9; t++) s[t] = LOAD(lane + LANES * t);
    for (int t = 0; t < 3; t++) above[t] = READ(x->row[begin * stride], t);
    for (int t = 0; t < 3; t++) here[t] = READ(x->row[begin * stride + 1], t);
    for (int64_t r = begin; r < end; r++) {
        const float *from = y + r * x->n_columns + b->at;
        vector       v    = edges == 7 ? TAKE(from, inside) : LOAD(from);
        for (int t = 0; t < 3; t++) {
            vector below = READ(x->row[r * stride + 2], t);
            if (stride == 2) here[t] = READ(x->row[r * stride + 1], t);
            s[t] += above[t] * v;
            s[t + 3] += here[t] * v;
            s[t + 6] += below * v;
            above[t] = stride == 1 ? here[t] : below;
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
            block b = make_block(x, at, x->n_columns - at < WIDTH ? x->n_columns - at : WIDTH);
#define DOTS(edges, stride) dot_rows(x, &b, edges, stride, r, end, y, lane + at % LANES)
            WITH_EDGES(b.edges, x->stride, DOTS)
        }
    }
}

const ipu__conv_3x3_loops IPU__SIMD(ipu__conv_3x3_loops_at) = {sum, dots};
#else
const ipu__conv_3x3_loops IPU__SIMD(ipu__conv_3x3_loops_at) = {0};
#endif
