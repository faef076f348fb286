/* Transforms for strides of 2: F(4x4, 2x2) at the points +-a, +-b and infinity, a = sqrt(1/2), b = sqrt(2).
 *
 * * Even and odd rows and columns of the image are four images, each convolved with the taps that meet it:
 * two in a direction if it is even, one if it is odd. Values at a point are those of the four images that
 * are not 0 there, side by side: at infinity one tap is nothing, so that 81 products, not 100, make 16
 * outputs.
 */
#include "op/conv/cpu/winograd.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include "op/conv/cpu/winograd_vec.h"

enum { WIDTH = IPU__WINO_WIDTH, READ = 9, LAST = 4 };

/* ---- in one direction ---- */

INLINE void odd_1d(const vec d[4], vec t[4])
{
    vec even_a = less(2.0f, d[0], d[2]), odd_a = less(2.0f, d[1], d[3]);
    vec even_b = less(0.5f, d[0], d[2]), odd_b = less(0.5f, d[1], d[3]);
    t[0] = more(A, even_a, odd_a);
    t[1] = less(A, even_a, odd_a);
    t[2] = more(B, even_b, odd_b);
    t[3] = less(B, even_b, odd_b);
}

/* Nine values: five at even places to points 0 to 4, four at odd ones to points 5 to 8, which have no
 * infinity. */
INLINE void both_1d(const vec d[READ], vec t[READ])
{
    const vec even[4] = {d[0], d[2], d[4], d[6]}, odd[4] = {d[1], d[3], d[5], d[7]};
    odd_1d(even, t);
    t[LAST] = add(d[0], less(2.5f, d[4], d[8]));
    odd_1d(odd, t + 5);
}

INLINE void output_1d(const vec m[5], vec y[4])
{
    vec even_a = add(m[0], m[1]), odd_a = sub(m[0], m[1]);
    vec even_b = add(m[2], m[3]), odd_b = sub(m[2], m[3]);
    y[0] = add(even_a, even_b);
    y[1] = mul(A, more(2.0f, odd_b, odd_a));
    y[2] = more(2.0f, even_b, mul(0.5f, even_a));
    y[3] = more(A, more(4.0f, odd_b, mul(0.5f, odd_a)), m[LAST]);
}

/* Three taps to the same nine. The factors are 1 / (2 a (a^2 - b^2)) and 1 / (2 b (b^2 - a^2)). */
INLINE void weights_1d(const vec g[3], vec t[READ])
{
    const float by_a = -B / 3, by_b = B / 6;
    t[0]    = mul(by_a, more(A, g[2], g[0]));
    t[1]    = mul(-by_a, less(A, g[2], g[0]));
    t[2]    = mul(by_b, more(B, g[2], g[0]));
    t[3]    = mul(-by_b, less(B, g[2], g[0]));
    t[LAST] = g[2];
    t[5]    = mul(by_a, g[1]);
    t[6]    = mul(-by_a, g[1]);
    t[7]    = mul(by_b, g[1]);
    t[8]    = mul(-by_b, g[1]);
}

/* ---- where values lie ---- */

/* Of values (i, k) of the nine by nine. */
INLINE int64_t place(const int i, const int k, int64_t point_step, int64_t slot_step)
{
    const int row = i < 5 ? i : i - 5, column = k < 5 ? k : k - 5, row_odd = i > 4, column_odd = k > 4;
    const int slot = row == LAST ? column_odd : column == LAST ? row_odd : row_odd * 2 + column_odd;
    return ipu__wino_strided_point(row, column) * point_step + slot * slot_step;
}

/* ---- tiles ---- */

static void column_in(const ipu__wino_row *r, const float *x, int64_t j, vec columns[READ][READ], int k)
{
    vec d[READ], t[READ];
    for (int i = 0; i < READ; i++) {
        int64_t row   = r->row + i;
        bool    is_in = j >= 0 && j < r->n_columns && row >= 0 && row < r->n_rows;
        d[i]          = is_in ? load(x + (row * r->n_columns + j) * WIDTH) : zero();
    }
    both_1d(d, t);
    UNROLLED for (int i = 0; i < READ; i++) columns[i][k] = t[i];
}

static void input(const ipu__wino_row *r, const float *x, float *points)
{
    for (int64_t tile = 0; tile < r->n_tiles; tile++, points += r->tile_step) {
        vec columns[READ][READ];
        for (int k = 0; k < READ; k++) column_in(r, x, r->column + tile * 8 + k, columns, k);
        UNROLLED for (int i = 0; i < READ; i++)
        {
            vec t[READ];
            both_1d(columns[i], t);
            UNROLLED for (int k = 0; k < READ; k++)
                store(points + place(i, k, r->point_step, r->slot_step), t[k]);
        }
    }
}

enum { POINTS = 5 };
INLINE int64_t point_of(int i, int k) { return ipu__wino_strided_point(i, k); }
#include "op/conv/cpu/winograd_out.h"

static void weights(const float *w, float *points, int64_t point_step, int64_t slot_step)
{
    vec t[3][READ];
    UNROLLED for (int k = 0; k < 3; k++)
    {
        vec g[3];
        UNROLLED for (int i = 0; i < 3; i++) g[i] = load(w + (i * 3 + k) * WIDTH);
        weights_1d(g, t[k]);
    }
    UNROLLED for (int i = 0; i < READ; i++)
    {
        vec row[3], p[READ];
        UNROLLED for (int k = 0; k < 3; k++) row[k] = t[k][i];
        weights_1d(row, p);
        UNROLLED for (int k = 0; k < READ; k++) store(points + place(i, k, point_step, slot_step), p[k]);
    }
}

const ipu__wino_strided_loops IPU__SIMD(ipu__wino_strided_loops_at) = {input, output, weights};
#else
const ipu__wino_strided_loops IPU__SIMD(ipu__wino_strided_loops_at) = {0};
#endif
