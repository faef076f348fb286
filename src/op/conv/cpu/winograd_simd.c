/* Transforms of F(4x4, 3x3) at the points 0, +-a, +-b and infinity, a = sqrt(1/2), b = sqrt(2): since a b =
 * 1, half of the factors are 1, and squares are exact. Sixteen channels at a time. */
#include "op/conv/cpu/winograd.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include "op/conv/cpu/winograd_vec.h"

enum { WIDTH = IPU__WINO_WIDTH };

/* ---- in one direction ---- */

INLINE void input_1d(const vec d[6], vec t[6])
{
    vec even_a = less(2.0f, d[2], d[4]), odd_a = less(2.0f, d[1], d[3]);
    vec even_b = less(0.5f, d[2], d[4]), odd_b = less(0.5f, d[1], d[3]);
    t[0] = add(d[0], less(2.5f, d[2], d[4]));
    t[1] = more(A, odd_a, even_a);
    t[2] = less(A, odd_a, even_a);
    t[3] = more(B, odd_b, even_b);
    t[4] = less(B, odd_b, even_b);
    t[5] = add(d[1], less(2.5f, d[3], d[5]));
}

INLINE void output_1d(const vec m[6], vec y[4])
{
    vec even_a = add(m[1], m[2]), odd_a = sub(m[1], m[2]);
    vec even_b = add(m[3], m[4]), odd_b = sub(m[3], m[4]);
    y[0] = add(add(m[0], even_a), even_b);
    y[1] = mul(A, more(2.0f, odd_b, odd_a));
    y[2] = more(2.0f, even_b, mul(0.5f, even_a));
    y[3] = more(A, more(4.0f, odd_b, mul(0.5f, odd_a)), m[5]);
}

INLINE void gradient_1d(const vec y[4], vec t[6])
{
    vec even_a = more(0.5f, y[2], y[0]), odd_a = more(0.5f, y[3], y[1]);
    vec even_b = more(2.0f, y[2], y[0]), odd_b = more(2.0f, y[3], y[1]);
    t[0] = y[0];
    t[1] = more(A, odd_a, even_a);
    t[2] = less(A, odd_a, even_a);
    t[3] = more(B, odd_b, even_b);
    t[4] = less(B, odd_b, even_b);
    t[5] = y[3];
}

/* The transpose of input_1d. */
INLINE void spread_1d(const vec t[6], vec e[6])
{
    vec even_a = add(t[1], t[2]), odd_a = sub(t[1], t[2]);
    vec even_b = add(t[3], t[4]), odd_b = sub(t[3], t[4]);
    e[0] = t[0];
    e[1] = less(A, odd_b, less(B, odd_a, t[5]));
    e[2] = less(2.5f, t[0], less(2.0f, even_a, mul(-0.5f, even_b)));
    e[3] = more(B, odd_b, more(A, odd_a, mul(-2.5f, t[5])));
    e[4] = add(t[0], add(even_a, even_b));
    e[5] = t[5];
}

INLINE void weights_1d(const vec g[3], vec t[6])
{
    vec even_a = mul(-2.0f / 3, more(0.5f, g[2], g[0]));
    vec even_b = mul(1.0f / 6, more(2.0f, g[2], g[0]));
    t[0]       = g[0];
    t[1]       = less(A * 2 / 3, g[1], even_a);
    t[2]       = more(A * 2 / 3, g[1], even_a);
    t[3]       = more(B / 6, g[1], even_b);
    t[4]       = less(B / 6, g[1], even_b);
    t[5]       = g[2];
}

INLINE void weight_grad_1d(const vec s[6], vec g[3])
{
    vec even_a = add(s[1], s[2]), odd_a = sub(s[1], s[2]);
    vec even_b = add(s[3], s[4]), odd_b = sub(s[3], s[4]);
    g[0] = more(1.0f / 6, even_b, less(2.0f / 3, even_a, s[0]));
    g[1] = less(A * 2 / 3, odd_a, mul(B / 6, odd_b));
    g[2] = more(1.0f / 3, sub(even_b, even_a), s[5]);
}

/* ---- tiles ---- */

/* Six rows of sixteen channels; those that are not in the plane are one vector of zeros, over and over. */
typedef struct rows {
    const float *row[6];
    int64_t      step[6];
} rows;

static const float zeros[WIDTH] __attribute__((aligned(64)));

static rows rows_of(const ipu__wino_row *r, const float *x)
{
    rows from;
    for (int i = 0; i < 6; i++) {
        int64_t at   = r->row + i;
        bool    is   = at >= 0 && at < r->n_rows;
        from.row[i]  = is ? x + at * r->n_columns * WIDTH : zeros;
        from.step[i] = is ? WIDTH : 0;
    }
    return from;
}

/* Points of column j in the other direction: the first, the pair of a, the pair of b, or the last. */
typedef enum pass { FIRST, PAIR_A, PAIR_B, LAST } pass;

INLINE void column_in(const rows *from, int64_t j, vec *t, vec *u, const pass which, const bool is_whole)
{
#define D(i) load(from->row[i] + j * (is_whole ? WIDTH : from->step[i]))
    if (which == FIRST) {
        *t = add(D(0), less(2.5f, D(2), D(4)));
    } else if (which == LAST) {
        *t = add(D(1), less(2.5f, D(3), D(5)));
    } else {
        const float by = which == PAIR_A ? 2.0f : 0.5f, point = which == PAIR_A ? A : B;
        vec         even = less(by, D(2), D(4)), odd = less(by, D(1), D(3));
        *t = more(point, odd, even);
        *u = less(point, odd, even);
    }
#undef D
}

INLINE void column_or_none(const ipu__wino_row *r, const rows *from, int64_t j, vec *t, vec *u,
                           const pass which)
{
    if (j >= 0 && j < r->n_columns)
        column_in(from, j, t, u, which, false);
    else
        *t = *u = zero();
}

/* Tiles have two columns in common with the next, which stay in registers. */
INLINE void input_pass(const ipu__wino_row *r, const rows *from, float *points, const pass which,
                       const bool is_whole)
{
    const bool is_pair = which == PAIR_A || which == PAIR_B;
    const int  first   = which == FIRST ? 0 : which == PAIR_A ? 1 : which == PAIR_B ? 3 : 5;
    vec        t[6], u[6], out[6];
    float     *to = points + first * 6 * r->point_step;
    for (int k = 0; k < 2; k++) column_or_none(r, from, r->column + k, &t[k], &u[k], which);
    for (int64_t tile = 0; tile < r->n_tiles; tile++, to += r->tile_step) {
        int64_t j = r->column + tile * 4 + 2;
        if (j >= 0 && j + 4 <= r->n_columns) {
            UNROLLED for (int k = 0; k < 4; k++)
                column_in(from, j + k, &t[2 + k], &u[2 + k], which, is_whole);
        } else {
            UNROLLED for (int k = 0; k < 4; k++) column_or_none(r, from, j + k, &t[2 + k], &u[2 + k], which);
        }
        input_1d(t, out);
        UNROLLED for (int k = 0; k < 6; k++) store(to + k * r->point_step, out[k]);
        t[0] = t[4], t[1] = t[5];
        if (!is_pair) continue;
        input_1d(u, out);
        UNROLLED for (int k = 0; k < 6; k++) store(to + (6 + k) * r->point_step, out[k]);
        u[0] = u[4], u[1] = u[5];
    }
}

INLINE void input_row(const ipu__wino_row *r, const rows *from, float *points, const bool is_whole)
{
    input_pass(r, from, points, FIRST, is_whole);
    input_pass(r, from, points, PAIR_A, is_whole);
    input_pass(r, from, points, PAIR_B, is_whole);
    input_pass(r, from, points, LAST, is_whole);
}

static void input(const ipu__wino_row *r, const float *x, float *points)
{
    rows from = rows_of(r, x);
    if (r->row >= 0 && r->row + 6 <= r->n_rows)
        input_row(r, &from, points, true);
    else
        input_row(r, &from, points, false);
}

enum { POINTS = 6 };
INLINE int64_t point_of(int i, int k) { return i * 6 + k; }
#include "op/conv/cpu/winograd_out.h"

INLINE void tile_in(const ipu__wino_row *r, const float *from, float *to, const int64_t n_rows,
                    const int64_t n_columns)
{
    vec t[4][6];
    UNROLLED for (int k = 0; k < 4; k++)
    {
        vec y[4];
        UNROLLED for (int i = 0; i < 4; i++)
        {
            bool is_in = i < n_rows && k < n_columns;
            y[i]       = is_in ? load(from + (i * r->n_columns + k) * WIDTH) : zero();
        }
        gradient_1d(y, t[k]);
    }
    UNROLLED for (int i = 0; i < 6; i++)
    {
        vec row[4], p[6];
        UNROLLED for (int k = 0; k < 4; k++) row[k] = t[k][i];
        gradient_1d(row, p);
        UNROLLED for (int k = 0; k < 6; k++) store(to + (i * 6 + k) * r->point_step, p[k]);
    }
}

static void gradient(const ipu__wino_row *r, const float *dy, float *points)
{
    int64_t n_rows = r->n_rows < 4 ? r->n_rows : 4;
    for (int64_t tile = 0; tile < r->n_tiles; tile++) {
        const float *from      = dy + tile * 4 * WIDTH;
        float       *to        = points + tile * r->tile_step;
        int64_t      n_columns = r->n_columns - tile * 4;
        if (n_rows == 4 && n_columns >= 4)
            tile_in(r, from, to, 4, 4);
        else
            tile_in(r, from, to, n_rows, n_columns);
    }
}

/* Row `i` of a tile that is added, of points in one direction. */
INLINE void row_spread(const ipu__wino_row *r, const vec t[6], int64_t row, int64_t column, float *y,
                       const bool is_whole)
{
    vec    e[6];
    float *to = y + (row * r->n_columns + column) * WIDTH;
    if (!is_whole && (row < 0 || row >= r->n_rows)) return;
    spread_1d(t, e);
    UNROLLED for (int k = 0; k < 6; k++) if (is_whole || (column + k >= 0 && column + k < r->n_columns))
        store(to + k * WIDTH, add(load(to + k * WIDTH), e[k]));
}

/* Even rows of the tile are made of other sums than odd ones: half of them fit the registers. */
INLINE void tile_spread(const ipu__wino_row *r, const float *from, int64_t column, float *y,
                        const bool is_whole)
{
    vec z[3][6];
#define P(i) load(from + ((i)*6 + k) * r->point_step)
    UNROLLED for (int k = 0; k < 6; k++)
    {
        vec first = P(0), even_a = add(P(1), P(2)), even_b = add(P(3), P(4));
        z[0][k] = first;
        z[1][k] = less(2.5f, first, less(2.0f, even_a, mul(-0.5f, even_b)));
        z[2][k] = add(first, add(even_a, even_b));
    }
    UNROLLED for (int i = 0; i < 3; i++) row_spread(r, z[i], r->row + 2 * i, column, y, is_whole);
    UNROLLED for (int k = 0; k < 6; k++)
    {
        vec last = P(5), odd_a = sub(P(1), P(2)), odd_b = sub(P(3), P(4));
        z[0][k] = less(A, odd_b, less(B, odd_a, last));
        z[1][k] = more(B, odd_b, more(A, odd_a, mul(-2.5f, last)));
        z[2][k] = last;
    }
    UNROLLED for (int i = 0; i < 3; i++) row_spread(r, z[i], r->row + 2 * i + 1, column, y, is_whole);
#undef P
}

static void spread(const ipu__wino_row *r, const float *points, float *y)
{
    bool is_in = r->row >= 0 && r->row + 6 <= r->n_rows;
    for (int64_t tile = 0; tile < r->n_tiles; tile++) {
        int64_t column = r->column + tile * 4;
        if (is_in && column >= 0 && column + 6 <= r->n_columns)
            tile_spread(r, points + tile * r->tile_step, column, y, true);
        else
            tile_spread(r, points + tile * r->tile_step, column, y, false);
    }
}

/* ---- weights ---- */

static void weights(const float *w, int64_t tap_step, float *points, int64_t point_step)
{
    vec t[3][6];
    UNROLLED for (int k = 0; k < 3; k++)
    {
        vec g[3];
        UNROLLED for (int i = 0; i < 3; i++) g[i] = load(w + (i * 3 + k) * tap_step);
        weights_1d(g, t[k]);
    }
    UNROLLED for (int i = 0; i < 6; i++)
    {
        vec row[3], p[6];
        UNROLLED for (int k = 0; k < 3; k++) row[k] = t[k][i];
        weights_1d(row, p);
        UNROLLED for (int k = 0; k < 6; k++) store(points + (i * 6 + k) * point_step, p[k]);
    }
}

static void weight_grad(const float *points, int64_t point_step, float *w)
{
    vec g[6][3];
    UNROLLED for (int k = 0; k < 6; k++)
    {
        vec s[6];
        UNROLLED for (int i = 0; i < 6; i++) s[i] = load(points + (i * 6 + k) * point_step);
        weight_grad_1d(s, g[k]);
    }
    UNROLLED for (int i = 0; i < 3; i++)
    {
        vec row[6], out[3];
        UNROLLED for (int k = 0; k < 6; k++) row[k] = g[k][i];
        weight_grad_1d(row, out);
        UNROLLED for (int k = 0; k < 3; k++) store(w + (i * 3 + k) * WIDTH, out[k]);
    }
}

const ipu__wino_loops IPU__SIMD(ipu__wino_loops_at) = {input, output, gradient, spread, weights, weight_grad};
#else
const ipu__wino_loops IPU__SIMD(ipu__wino_loops_at) = {0};
#endif
