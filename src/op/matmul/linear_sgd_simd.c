/* Tiles of outer products whose sums stay in registers, and go from there into weights and momenta.
 *
 * Tiles are as large as registers allow, less those for a row of b and a value of a. The update is rounded
 * exactly as in sgd, so that results are the same.
 */
#include "op/matmul/linear_sgd.h"

#include <string.h>

#include "op/vector/unroll.h"

#if defined(__AVX512F__)
#include <immintrin.h>
enum { ROWS = 6, VECTORS = 4, WIDTH = 16 };
typedef __m512 vector;
#define LOAD(from) _mm512_loadu_ps(from)
#define STORE(to, v) _mm512_storeu_ps(to, v)
#define LOAD_SOME(from, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), from)
#define STORE_SOME(to, n, v) _mm512_mask_storeu_ps(to, (__mmask16)((1u << (n)) - 1), v)
#define SAME(x) _mm512_set1_ps(x)
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define KEEP(vector) HOLD(vector)
#else
/* Sixteen registers. */
enum { ROWS = 4, VECTORS = 3 };
#if defined(__AVX2__)
#include <immintrin.h>
enum { WIDTH = 8 };
typedef __m256 vector;
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#else
enum { WIDTH = 4 };
typedef float vector __attribute__((vector_size(16)));
#define FMA(x, y, z) ((x) * (y) + (z))
#endif
#define LOAD(from) load_some(from, WIDTH)
#define STORE(to, v) store_some(to, WIDTH, v)
#define LOAD_SOME(from, n) load_some(from, n)
#define STORE_SOME(to, n, v) store_some(to, n, v)
#define SAME(x) ((vector){0} + (x))
#define KEEP(vector) ((void)0)

INLINE vector load_some(const float *from, int n)
{
    vector v = {0};
    memcpy(&v, from, (size_t)n * sizeof *from);
    return v;
}

INLINE void store_some(float *to, int n, vector v) { memcpy(to, &v, (size_t)n * sizeof *to); }
#endif

/* Lines that another thread has read have to be taken from it, which stores by themselves do nearly one after another. */
INLINE void claim(const float *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*at));
#else
    __builtin_prefetch(at, 1);
#endif
}

INLINE void claim_row(const float *at, const int vectors)
{
    UNROLLED for (int v = 0; v < vectors * WIDTH; v += 16) claim(at + v);
    claim(at + vectors * WIDTH - 1);
}

/* How many lanes of vector `v` there are. */
INLINE int lanes(const ipu__outer_tile *t, int v)
{
    int n = t->columns - v * WIDTH;
    return n < 0 ? 0 : n > WIDTH ? WIDTH : n;
}

INLINE vector load(const ipu__outer_tile *t, const float *from, int v, const bool is_whole)
{
    return is_whole ? LOAD(from + v * WIDTH) : LOAD_SOME(from + v * WIDTH, lanes(t, v));
}

INLINE void store(const ipu__outer_tile *t, float *to, int v, vector x, const bool is_whole)
{
    if (is_whole)
        STORE(to + v * WIDTH, x);
    else
        STORE_SOME(to + v * WIDTH, lanes(t, v), x);
}

INLINE void add_up(const ipu__outer_tile *t, vector sum[ROWS][VECTORS], const int rows, const int vectors,
                   const bool is_whole, const bool is_update)
{
    const float *a = t->a, *b = t->b;
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++) sum[r][v] = SAME(0.0f);
    int64_t k                                                                                    = 0;
    for (int r = 0; r < rows; r++) {
        claim_row(t->next + r * t->step, vectors);
        if (is_update) claim_row(t->next_momentum + r * t->step, vectors);
        for (int64_t end = (r + 1) * t->k / rows; k < end; k++, a += rows, b += t->b_step) {
            vector x[VECTORS];
            HIDE(b);
            UNROLLED for (int v = 0; v < vectors; v++)
            {
                x[v] = load(t, b, v, is_whole);
                KEEP(x[v]);
            }
            UNROLLED for (int i = 0; i < rows; i++)
            {
                vector y                                             = SAME(a[i]);
                UNROLLED for (int v = 0; v < vectors; v++) sum[i][v] = FMA(y, x[v], sum[i][v]);
            }
        }
    }
}

INLINE void update_tile(const ipu__outer_tile *t, const int rows, const int vectors, const bool is_whole)
{
    vector sum[ROWS][VECTORS];
    add_up(t, sum, rows, vectors, is_whole, true);
    const vector keep = SAME(t->keep), rate = SAME(t->rate);
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++)
    {
        float *out = t->out + r * t->step, *momentum = t->momentum + r * t->step;
        vector m = keep * load(t, momentum, v, is_whole) + sum[r][v];
        store(t, momentum, v, m, is_whole);
        store(t, out, v, load(t, out, v, is_whole) - rate * m, is_whole);
    }
}

INLINE void store_tile(const ipu__outer_tile *t, const int rows, const int vectors, const bool is_whole)
{
    vector sum[ROWS][VECTORS];
    add_up(t, sum, rows, vectors, is_whole, false);
    UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < vectors; v++)
        store(t, t->out + r * t->step, v, sum[r][v], is_whole);
}

/* ---- functions of constant sizes, of which tables are made ---- */

typedef void (*tile_fn)(const ipu__outer_tile *t);

/* All columns, one vector less, and any number of them. */
#define TILES(what, rows)                                                                                   \
    static void what##_##rows##_whole(const ipu__outer_tile *t) { what##_tile(t, rows, VECTORS, true); }    \
    static void what##_##rows##_less(const ipu__outer_tile *t) { what##_tile(t, rows, VECTORS - 1, true); } \
    static void what##_##rows##_some(const ipu__outer_tile *t) { what##_tile(t, rows, VECTORS, false); }
#define NAMES(what, rows) [rows] = {what##_##rows##_whole, what##_##rows##_less, what##_##rows##_some}

#if defined(__AVX512F__)
#define TABLE(what)                                                                                   \
    TILES(what, 3)                                                                                    \
    TILES(what, 4)                                                                                    \
    TILES(what, 5)                                                                                    \
    TILES(what, 6)                                                                                    \
    static const tile_fn what##_tiles[ROWS + 1][3] = {NAMES(what, 3), NAMES(what, 4), NAMES(what, 5), \
                                                      NAMES(what, 6)};
#else
#define TABLE(what) \
    TILES(what, 2)  \
    TILES(what, 3)  \
    TILES(what, 4)  \
    static const tile_fn what##_tiles[ROWS + 1][3] = {NAMES(what, 2), NAMES(what, 3), NAMES(what, 4)};
#endif

TABLE(update)
TABLE(store)

static int kind_of(const ipu__outer_tile *t)
{
    return t->columns == VECTORS * WIDTH ? 0 : t->columns == (VECTORS - 1) * WIDTH ? 1 : 2;
}

static void update(const ipu__outer_tile *t) { update_tiles[t->rows][kind_of(t)](t); }

static void store_sums(const ipu__outer_tile *t) { store_tiles[t->rows][kind_of(t)](t); }

static void add(const float *restrict from, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16) claim(to + i);
    for (int64_t i = 0; i < n; i++) to[i] += from[i];
}

static void mask(const float *restrict x, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = x[i] > 0 ? to[i] : 0;
}

const ipu__linear_sgd_loops IPU__SIMD(ipu__linear_sgd_loops_at) = {.most_rows = ROWS,
                                                                   .vectors   = VECTORS,
                                                                   .width     = WIDTH,
                                                                   .store     = store_sums,
                                                                   .update    = update,
                                                                   .add       = add,
                                                                   .mask      = mask};
