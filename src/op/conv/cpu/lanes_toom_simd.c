/* Values at points, and products at one point: convolutions along columns, tiles of which stay in registers
 * as in lanes_simd.c. Three columns of y are processed at a time, so that values at points stay in cache. */
#include "op/conv/cpu/lanes_toom.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#include "op/vector/lanes.h"
#include "op/vector/unroll.h"

enum {
    POINTS          = IPU__TOOM_POINTS,
    WIDE            = IPU__TOOM_WIDE,
    KERNEL          = IPU__TOOM_KERNEL,
    SPAN            = WIDE + KERNEL - 1, /* columns of x for WIDE of y */
    CHANNELS        = 3,
    ROWS            = 9,
    GRAD_CHANNELS   = 2,
    GRAD_ROWS       = 13,
    WEIGHT_CHANNELS = 3,
};

typedef ipu__lanes_shape shape;
typedef __m512           vec;

INLINE vec  load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void store(float *p, vec v) { _mm512_storeu_ps(p, v); }
INLINE vec  add(vec x, vec y) { return _mm512_add_ps(x, y); }
INLINE vec  sub(vec x, vec y) { return _mm512_sub_ps(x, y); }
INLINE vec  mul(float c, vec x) { return _mm512_mul_ps(_mm512_set1_ps(c), x); }
/* y + c x, and y - c x */
INLINE vec more(float c, vec x, vec y) { return _mm512_fmadd_ps(_mm512_set1_ps(c), x, y); }
INLINE vec less(float c, vec x, vec y) { return _mm512_fnmadd_ps(_mm512_set1_ps(c), x, y); }

/* ---- points ---- */

/* Of the pair +-at: the polynomial of the squares of the others, u^2 - second u + first, and the product of what +at is
 * away from all others: 2 at (at^2 - b^2) (at^2 - c^2). */
typedef struct pair {
    float at, square, first, second, scale;
} pair;

enum { PAIRS = 3, INFINITE = 2 * PAIRS };
static const pair pairs[PAIRS] = {
    {0.5f, 0.25f, 4, 5, 2.8125f}, {1, 1, 1, 4.25f, -4.5f}, {2, 4, 0.25f, 1.25f, 45}};
#define ALL 5.25f /* of all squares: u^3 - ALL u^2 + ALL u - 1 */

/* c x, and y + c x: additions have a unit of their own. */
INLINE vec times(float c, vec x) { return c == 1 ? x : mul(c, x); }
INLINE vec plus(float c, vec x, vec y) { return c == 1 ? add(x, y) : more(c, x, y); }

/* SPAN columns of x to points. */
INLINE void turn_x(const vec d[SPAN], vec m[POINTS])
{
    UNROLLED for (int k = 0; k < PAIRS; k++)
    {
        const pair p    = pairs[k];
        vec        odd  = plus(p.first, d[1], less(p.second, d[3], d[5]));
        vec        even = plus(p.at * p.first, d[0], less(p.at * p.second, d[2], times(p.at, d[4])));
        m[2 * k]        = add(odd, even);
        m[2 * k + 1]    = sub(odd, even);
    }
    m[INFINITE] = sub(more(ALL, d[2], less(ALL, d[4], d[6])), d[0]);
}

/* The same turned about: what SPAN columns of d_x get. */
INLINE void turn_x_back(const vec m[POINTS], vec d[SPAN])
{
    d[6] = m[INFINITE];
    UNROLLED for (int k = 0; k < PAIRS; k++)
    {
        const pair p    = pairs[k];
        vec        odd  = add(m[2 * k], m[2 * k + 1]);
        vec        even = times(p.at, sub(m[2 * k], m[2 * k + 1]));
        d[5]            = k == 0 ? odd : add(odd, d[5]);
        d[3]            = k == 0 ? mul(-p.second, odd) : less(p.second, odd, d[3]);
        d[1]            = k == 0 ? mul(p.first, odd) : plus(p.first, odd, d[1]);
        d[4]            = k == 0 ? less(ALL, d[6], even) : add(even, d[4]);
        d[2]            = less(p.second, even, k == 0 ? mul(ALL, d[6]) : d[2]);
        d[0]            = k == 0 ? sub(mul(p.first, even), d[6]) : plus(p.first, even, d[0]);
    }
}

/* What is at points to WIDE columns of y. */
INLINE void turn_y(const vec m[POINTS], vec y[WIDE])
{
    y[2] = m[INFINITE];
    UNROLLED for (int k = 0; k < PAIRS; k++)
    {
        const pair p    = pairs[k];
        vec        even = add(m[2 * k], m[2 * k + 1]), odd = sub(m[2 * k], m[2 * k + 1]);
        y[0] = k == 0 ? even : add(even, y[0]);
        y[1] = k == 0 ? mul(p.at, odd) : plus(p.at, odd, y[1]);
        y[2] = plus(p.square, even, y[2]);
    }
}

/* The same turned about: WIDE columns of d_y to points. */
INLINE void turn_y_back(const vec d[WIDE], vec m[POINTS])
{
    UNROLLED for (int k = 0; k < PAIRS; k++)
    {
        const pair p    = pairs[k];
        vec        even = plus(p.square, d[2], d[0]), odd = times(p.at, d[1]);
        m[2 * k]     = add(even, odd);
        m[2 * k + 1] = sub(even, odd);
    }
    m[INFINITE] = d[2];
}

/* ---- weights: sixteen rows of kernels at a time, which lie one after the other ---- */

enum { EACH = IPU__LANES };

INLINE __m512i counted(void)
{
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
}

INLINE __mmask16 first_of(int64_t n) { return (__mmask16)(n >= EACH ? 0xffff : n <= 0 ? 0 : (1 << n) - 1); }

/* Columns of `n` rows at `w`. */
INLINE void load_columns(const float *w, int64_t n, vec column[KERNEL])
{
    vec     in[KERNEL];
    __m512i at = _mm512_mullo_epi32(counted(), _mm512_set1_epi32(KERNEL));
    UNROLLED for (int v = 0; v < KERNEL; v++)
        in[v] = _mm512_maskz_loadu_ps(first_of(n * KERNEL - v * EACH), w + v * EACH);
    UNROLLED for (int c = 0; c < KERNEL; c++)
    {
        __m512i vector = _mm512_srli_epi32(at, 4);
        column[c]      = _mm512_setzero_ps();
        UNROLLED for (int v = 0; v < KERNEL; v++) /* of indices, the last four bits count */
            column[c] = _mm512_mask_permutexvar_ps(
                column[c], _mm512_cmpeq_epi32_mask(vector, _mm512_set1_epi32(v)), at, in[v]);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(1));
    }
}

INLINE void store_columns(float *w, int64_t n, const vec column[KERNEL])
{
    UNROLLED for (int v = 0; v < KERNEL; v++)
    {
        __m512i at  = _mm512_add_epi32(counted(), _mm512_set1_epi32(v * EACH));
        __m512i row = _mm512_srli_epi32(_mm512_mullo_epi32(at, _mm512_set1_epi32(205)), 10); /* at / KERNEL */
        __m512i c   = _mm512_sub_epi32(at, _mm512_mullo_epi32(row, _mm512_set1_epi32(KERNEL)));
        vec     out = _mm512_setzero_ps();
        UNROLLED for (int k = 0; k < KERNEL; k++) out = _mm512_mask_permutexvar_ps(
            out, _mm512_cmpeq_epi32_mask(c, _mm512_set1_epi32(k)), row, column[k]);
        _mm512_mask_storeu_ps(w + v * EACH, first_of(n * KERNEL - v * EACH), out);
    }
}

static void weights(const float *w, int64_t n, ipu_interval which, float *at_points)
{
    for (int64_t i = which.begin; i < which.end; i += EACH) {
        vec       c[KERNEL];
        __mmask16 there = first_of(which.end - i);
        load_columns(w + i * KERNEL, which.end - i, c);
        UNROLLED for (int k = 0; k < PAIRS; k++)
        {
            const pair p    = pairs[k];
            vec        even = mul(1 / p.scale, more(p.square * p.square, c[4], more(p.square, c[2], c[0])));
            vec        odd  = mul(p.at / p.scale, more(p.square, c[3], c[1]));
            _mm512_mask_storeu_ps(at_points + 2 * k * n + i, there, add(odd, even));
            _mm512_mask_storeu_ps(at_points + (2 * k + 1) * n + i, there, sub(odd, even));
        }
        _mm512_mask_storeu_ps(at_points + INFINITE * n + i, there, c[4]);
    }
}

static void weights_back(const float *at_points, int64_t n, ipu_interval which, float *w)
{
    for (int64_t i = which.begin; i < which.end; i += EACH) {
        vec       c[KERNEL];
        __mmask16 there = first_of(which.end - i);
        c[4]            = _mm512_maskz_loadu_ps(there, at_points + INFINITE * n + i);
        UNROLLED for (int k = 0; k < PAIRS; k++)
        {
            const pair p    = pairs[k];
            vec        one  = _mm512_maskz_loadu_ps(there, at_points + 2 * k * n + i);
            vec        two  = _mm512_maskz_loadu_ps(there, at_points + (2 * k + 1) * n + i);
            vec        even = mul(1 / p.scale, sub(one, two)), odd = mul(p.at / p.scale, add(one, two));
            c[0] = k == 0 ? even : add(even, c[0]);
            c[1] = k == 0 ? odd : add(odd, c[1]);
            c[2] = k == 0 ? mul(p.square, even) : more(p.square, even, c[2]);
            c[3] = k == 0 ? mul(p.square, odd) : more(p.square, odd, c[3]);
            c[4] = more(p.square * p.square, even, c[4]);
        }
        store_columns(w + i * KERNEL, which.end - i, c);
    }
}

/* ---- columns of images to points and back ---- */

/* What is at points: element (point, channel, row) is vector (point * channels + channel) * rows + row. */
typedef struct at_points {
    float  *data;
    int64_t channels, rows;
} at_points;

INLINE float *at_point(const at_points *m, int64_t point, int64_t channel, int64_t row)
{
    return m->data + ((point * m->channels + channel) * m->rows + row) * EACH;
}

INLINE int64_t points_floats(const at_points *m) { return POINTS * m->channels * m->rows * EACH; }

/* Rows of a channel: SPAN columns of x from column j on. */
INLINE void points_of_x(const float *x, int64_t columns, int64_t j, int64_t n_rows, float *to, int64_t step)
{
    for (int64_t i = 0; i < n_rows; i++, to += EACH) {
        vec d[SPAN], m[POINTS];
        UNROLLED for (int k = 0; k < SPAN; k++) d[k] = load(x + (i * columns + j + k) * EACH);
        turn_x(d, m);
        UNROLLED for (int k = 0; k < POINTS; k++) store(to + k * step, m[k]);
    }
}

/* WIDE columns of d_y, the first `skip` of which are taken for 0: another tile has them. */
INLINE void points_of_y(const float *dy, int64_t columns, int64_t j, int64_t skip, int64_t n_rows, float *to,
                        int64_t step)
{
    for (int64_t i = 0; i < n_rows; i++, to += EACH) {
        vec d[WIDE], m[POINTS];
        UNROLLED for (int k = 0; k < WIDE; k++) d[k] = k < skip ? _mm512_setzero_ps()
                                                                : load(dy + (i * columns + j + k) * EACH);
        turn_y_back(d, m);
        UNROLLED for (int k = 0; k < POINTS; k++) store(to + k * step, m[k]);
    }
}

/* The last tile of a row begins earlier rather than being narrower; so do blocks of rows. */
INLINE int64_t tile_at(const shape *s, int64_t j)
{
    return j + WIDE > s->y_columns ? s->y_columns - WIDE : j;
}

/* ---- forward ---- */

/* What a tile of products reads and writes. Weights are those of its first channel. */
typedef struct place {
    const float *from, *w;
    float       *to;
    int64_t      from_step, w_step, to_step; /* floats from channel to channel */
    int64_t      n_from;
    int64_t      row; /* gradient: the first one, */
    unsigned     has; /* and which of the rows from it less KERNEL - 1 on are there */
} place;

/* `rows` rows of `channels` channels. */
INLINE void forward_tile(const place *p, const int channels, const int rows)
{
    vec          sum[CHANNELS][ROWS];
    const float *w = p->w, *from = p->from;
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < rows; k++)
        sum[o][k] = _mm512_setzero_ps();
    for (int64_t in = 0; in < p->n_from; in++, from += p->from_step) {
        const float *at = from;
        for (int tap = 0; tap < KERNEL; tap++, w++, at += EACH) {
            vec weight[CHANNELS];
            HIDE(at);
            UNROLLED for (int o = 0; o < channels; o++) weight[o] = _mm512_set1_ps(w[o * p->w_step]);
            UNROLLED for (int k = 0; k < rows; k++)
            {
                vec value = load(at + k * EACH);
                HOLD(value);
                UNROLLED for (int o = 0; o < channels; o++)
                    sum[o][k] = _mm512_fmadd_ps(value, weight[o], sum[o][k]);
            }
        }
    }
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < rows; k++)
        store(p->to + o * p->to_step + k * EACH, sum[o][k]);
}

typedef void (*tile_fn)(const place *p);
#define EACH_ROWS(F, a) F(a, 1) F(a, 2) F(a, 3) F(a, 4) F(a, 5) F(a, 6) F(a, 7) F(a, 8) F(a, 9)
#define FORWARD(channels, rows) \
    static void forward_##channels##_##rows(const place *p) { forward_tile(p, channels, rows); }
/* clang-format off */
EACH_ROWS(FORWARD, 1)
EACH_ROWS(FORWARD, 2)
EACH_ROWS(FORWARD, 3)
#define NAME(channels, rows) forward_##channels##_##rows,
static const tile_fn forward_tiles[CHANNELS][ROWS] = {
    {EACH_ROWS(NAME, 1)}, {EACH_ROWS(NAME, 2)}, {EACH_ROWS(NAME, 3)}};
#undef NAME
/* clang-format on */

/* Rows of images that the stretch `rows`, counted through channels, has something of. */
static ipu_interval image_rows(ipu_interval rows, int64_t n)
{
    bool is_one = rows.begin / n == (rows.end - 1) / n;
    return is_one ? (ipu_interval){rows.begin % n, (rows.end - 1) % n + 1} : (ipu_interval){0, n};
}

/* Blocks of rows are as even as can be. */
static int64_t rows_of_blocks(int64_t n, int64_t most)
{
    int64_t n_blocks = (n + most - 1) / most, rows = (n + n_blocks - 1) / n_blocks;
    return rows < 1 ? 1 : rows < most ? rows : most;
}

/* A piece of y; row 0 of `x` is the first that row `first` of y needs. */
static void forward_products(const shape *s, const at_points *x, int64_t first, const float *w,
                             const ipu__lanes_piece *piece, const at_points *y)
{
    int64_t rows = rows_of_blocks(y->rows, ROWS), per_channel = s->in * KERNEL, channels;
    place   p = {
          .from_step = x->rows * EACH, .w_step = per_channel, .to_step = y->rows * EACH, .n_from = s->in};
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t c = 0; c < y->channels; c += channels) {
            channels = y->channels - c < CHANNELS ? y->channels - c : CHANNELS;
            p.w      = w + (point * s->out + piece->channel.begin + c) * per_channel;
            for (int64_t i = 0; i < y->rows; i += rows) {
                int64_t row = i + rows > y->rows ? y->rows - rows : i;
                p.from      = at_point(x, point, 0, piece->row.begin - first + row);
                p.to        = at_point(y, point, c, row);
                forward_tiles[channels - 1][rows - 1](&p);
            }
        }
}

static void forward_back(const shape *s, const at_points *from, const ipu__lanes_piece *piece, int64_t j,
                         const float *bias, float *y)
{
    const int64_t step = from->channels * from->rows * EACH;
    for (int64_t c = 0; c < from->channels; c++) {
        int64_t      channel = piece->channel.begin + c;
        vec          start   = _mm512_set1_ps(bias ? bias[channel] : 0);
        const float *at      = at_point(from, 0, c, 0);
        float       *to      = y + (channel * s->y_plane + piece->row.begin * s->y_columns + j) * EACH;
        for (int64_t i = 0; i < from->rows; i++, at += EACH, to += s->y_columns * EACH) {
            vec m[POINTS], out[WIDE];
            UNROLLED for (int k = 0; k < POINTS; k++) m[k] = load(at + k * step);
            turn_y(m, out);
            UNROLLED for (int k = 0; k < WIDE; k++)
            {
                out[k] = add(out[k], start);
                if (s->relu)
                    out[k] = _mm512_max_ps(_mm512_setzero_ps(), out[k]); /* NaN stays, and so does -0 */
                store(to + k * EACH, out[k]);
            }
        }
    }
}

static void forward(const shape *s, const float *x, const float *w, const float *bias, ipu_interval rows,
                    float *y, float *scratch)
{
    ipu_interval image = image_rows(rows, s->y_rows);
    at_points    from  = {.channels = s->in, .rows = image.end - image.begin + KERNEL - 1};
    float       *after = scratch + points_floats(&from);
    from.data          = scratch;
    for (int64_t tile = 0; tile < s->y_columns; tile += WIDE) {
        int64_t          j    = tile_at(s, tile);
        ipu_interval     left = rows;
        ipu__lanes_piece piece;
        for (int64_t c = 0; c < s->in; c++)
            points_of_x(x + (c * s->x_plane + image.begin * s->x_columns) * EACH, s->x_columns, j, from.rows,
                        at_point(&from, 0, c, 0), from.channels * from.rows * EACH);
        while (ipu__lanes_next(&left, s->out, s->y_rows, &piece)) {
            at_points to = {after, piece.channel.end - piece.channel.begin, piece.row.end - piece.row.begin};
            forward_products(s, &from, image.begin, w, &piece, &to);
            forward_back(s, &to, &piece, j, bias, y);
        }
    }
}

/* ---- gradient of x ---- */

/* `rows` rows of d_x of `channels` channels. Rows of d_y outside of the image would add nothing. */
INLINE void grad_tile(const place *p, const int channels, const int rows)
{
    vec          sum[GRAD_CHANNELS][GRAD_ROWS];
    const float *from = p->from, *w = p->w;
    int64_t      at = (p->row - (KERNEL - 1)) * EACH; /* less than 0 where there is nothing */
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < rows; k++)
        sum[o][k] = _mm512_setzero_ps();
    for (int64_t c = 0; c < p->n_from; c++, at += p->from_step, w += p->w_step) {
        unsigned has = p->has;
        HIDE(at);
        UNROLLED for (int i = 0; i < rows + KERNEL - 1; i++)
        {
            HIDE(has);
            if (!(has & 1u << i)) continue;
            vec value = load(from + (at + i * EACH));
            HOLD(value);
            HIDE(w);
            UNROLLED for (int k = i > KERNEL - 1 ? i - (KERNEL - 1) : 0; k <= i && k < rows; k++)
                UNROLLED for (int o = 0; o < channels; o++)
                    sum[o][k] = _mm512_fmadd_ps(value, _mm512_set1_ps(w[o * KERNEL + k + KERNEL - 1 - i]),
                                                sum[o][k]);
        }
    }
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < rows; k++)
        store(p->to + o * p->to_step + k * EACH, sum[o][k]);
}

#define EACH_GRAD_ROWS(F, a) EACH_ROWS(F, a) F(a, 10) F(a, 11) F(a, 12) F(a, 13)
#define GRAD(channels, rows) \
    static void grad_##channels##_##rows(const place *p) { grad_tile(p, channels, rows); }
/* clang-format off */
EACH_GRAD_ROWS(GRAD, 1)
EACH_GRAD_ROWS(GRAD, 2)
#define NAME(channels, rows) grad_##channels##_##rows,
static const tile_fn grad_tiles[GRAD_CHANNELS][GRAD_ROWS] = {{EACH_GRAD_ROWS(NAME, 1)}, {EACH_GRAD_ROWS(NAME, 2)}};
#undef NAME
/* clang-format on */

/* Bits of rows [row - (KERNEL - 1), row + rows) of d_y, of which there are `n`. */
static unsigned rows_there(int64_t row, int64_t rows, int64_t n)
{
    unsigned bits = 0;
    for (int64_t i = 0; i < rows + KERNEL - 1; i++)
        if (row + i >= KERNEL - 1 && row + i - (KERNEL - 1) < n) bits |= 1u << i;
    return bits;
}

/* A piece of d_x, from all of d_y. */
static void grad_products(const shape *s, const at_points *dy, const float *w, const ipu__lanes_piece *piece,
                          const at_points *dx)
{
    int64_t rows = rows_of_blocks(dx->rows, GRAD_ROWS), channels;
    place   p    = {
             .from_step = dy->rows * EACH, .w_step = s->in * KERNEL, .to_step = dx->rows * EACH, .n_from = s->out};
    for (int64_t i = 0; i < dx->rows; i += rows) {
        int64_t row = i + rows > dx->rows ? dx->rows - rows : i;
        p.row       = piece->row.begin + row;
        p.has       = rows_there(p.row, rows, s->y_rows);
        for (int64_t point = 0; point < POINTS; point++)
            for (int64_t c = 0; c < dx->channels; c += channels) {
                channels = dx->channels - c < GRAD_CHANNELS ? dx->channels - c : GRAD_CHANNELS;
                p.w      = w + (point * s->out * s->in + piece->channel.begin + c) * KERNEL;
                p.from   = at_point(dy, point, 0, 0);
                p.to     = at_point(dx, point, c, row);
                grad_tiles[channels - 1][rows - 1](&p);
            }
    }
}

/* Columns [0, have) from j on have been written by tiles before. */
static void grad_back(const shape *s, const at_points *from, const ipu__lanes_piece *piece, int64_t j,
                      int64_t have, float *dx)
{
    const int64_t step = from->channels * from->rows * EACH;
    for (int64_t c = 0; c < from->channels; c++) {
        const float *at = at_point(from, 0, c, 0);
        float       *to = dx
                  + ((piece->channel.begin + c) * s->x_plane + piece->row.begin * s->x_columns + j) * EACH;
        for (int64_t i = 0; i < from->rows; i++, at += EACH, to += s->x_columns * EACH) {
            vec m[POINTS], out[SPAN];
            UNROLLED for (int k = 0; k < POINTS; k++) m[k] = load(at + k * step);
            turn_x_back(m, out);
            UNROLLED for (int k = 0; k < SPAN; k++)
                store(to + k * EACH, k < have ? add(out[k], load(to + k * EACH)) : out[k]);
        }
    }
}

static void input_grad(const shape *s, const float *dy, const float *w, ipu_interval rows, float *dx,
                       float *scratch)
{
    at_points from  = {.channels = s->out, .rows = s->y_rows};
    float    *after = scratch + points_floats(&from);
    from.data       = scratch;
    for (int64_t tile = 0; tile < s->y_columns; tile += WIDE) {
        int64_t          j    = tile_at(s, tile);
        ipu_interval     left = rows;
        ipu__lanes_piece piece;
        for (int64_t c = 0; c < s->out; c++)
            points_of_y(dy + c * s->y_plane * EACH, s->y_columns, j, tile - j, s->y_rows,
                        at_point(&from, 0, c, 0), from.channels * from.rows * EACH);
        while (ipu__lanes_next(&left, s->in, s->x_rows, &piece)) {
            at_points to = {after, piece.channel.end - piece.channel.begin, piece.row.end - piece.row.begin};
            grad_products(s, &from, w, &piece, &to);
            grad_back(s, &to, &piece, j, tile == 0 ? 0 : tile - j + KERNEL - 1, dx);
        }
    }
}

/* ---- gradient of weights ---- */

/* Sums of sixteen vectors' lanes, in their order. */
INLINE vec sums_of(const vec v[EACH])
{
    vec a[8], b[4], c[2];
    UNROLLED for (int k = 0; k < 8; k++) /* pairs of neighbours: lanes 0 and 2, and 1 and 3, of each four */
        a[k] = add(_mm512_unpacklo_ps(v[2 * k], v[2 * k + 1]), _mm512_unpackhi_ps(v[2 * k], v[2 * k + 1]));
    UNROLLED for (int k = 0; k < 4; k++) b[k] = add(_mm512_shuffle_ps(a[2 * k], a[2 * k + 1], 0x44),
                                                    _mm512_shuffle_ps(a[2 * k], a[2 * k + 1], 0xee));
    UNROLLED for (int k = 0; k < 2; k++) c[k] = add(_mm512_shuffle_f32x4(b[2 * k], b[2 * k + 1], 0x88),
                                                    _mm512_shuffle_f32x4(b[2 * k], b[2 * k + 1], 0xdd));
    return add(_mm512_shuffle_f32x4(c[0], c[1], 0x88), _mm512_shuffle_f32x4(c[0], c[1], 0xdd));
}

/* Kernels from a channel of x to some of d_y. */
typedef struct weight_place {
    const float *x, *dy;
    int64_t      dy_step;                        /* floats from channel to channel */
    int64_t      n_tiles, x_tile, dy_tile, rows; /* floats from tile to tile */
    float       *w;
    int64_t      w_step;
} weight_place;

INLINE void weight_tile(const weight_place *p, const int channels)
{
    vec sum[EACH];
    UNROLLED for (int k = 0; k < EACH; k++) sum[k] = _mm512_setzero_ps();
    for (int64_t t = 0; t < p->n_tiles; t++) {
        const float *x = p->x + t * p->x_tile, *dy = p->dy + t * p->dy_tile;
        for (int64_t i = 0; i < p->rows; i++, x += EACH, dy += EACH) {
            vec gradient[WEIGHT_CHANNELS];
            HIDE(x);
            UNROLLED for (int o = 0; o < channels; o++) gradient[o] = load(dy + o * p->dy_step);
            UNROLLED for (int k = 0; k < KERNEL; k++)
            {
                vec value = load(x + k * EACH);
                HOLD(value);
                UNROLLED for (int o = 0; o < channels; o++)
                    sum[o * KERNEL + k] = _mm512_fmadd_ps(value, gradient[o], sum[o * KERNEL + k]);
            }
        }
    }
    vec all = sums_of(sum);
    UNROLLED for (int o = 0; o < channels; o++)
    {
        const __mmask16 own = (__mmask16)(((1 << KERNEL) - 1) << o * KERNEL);
        float          *to  = p->w + o * (p->w_step - KERNEL);
        _mm512_mask_storeu_ps(to, own, add(_mm512_maskz_loadu_ps(own, to), all));
    }
}

typedef void (*weight_fn)(const weight_place *p);
static void            weight_1(const weight_place *p) { weight_tile(p, 1); }
static void            weight_2(const weight_place *p) { weight_tile(p, 2); }
static void            weight_3(const weight_place *p) { weight_tile(p, 3); }
static const weight_fn weight_tiles[WEIGHT_CHANNELS] = {weight_1, weight_2, weight_3};

/* A piece of d_y and all of x, of tiles whose rows follow each other: those of x are x_rows. */
static void weight_products(const shape *s, const at_points *x, const at_points *dy, int64_t n_tiles,
                            const ipu__lanes_piece *piece, float *w)
{
    weight_place p = {.dy_step = dy->rows * EACH,
                      .n_tiles = n_tiles,
                      .x_tile  = s->x_rows * EACH,
                      .rows    = piece->row.end - piece->row.begin,
                      .w_step  = s->in * KERNEL};
    int64_t      channels;
    p.dy_tile = p.rows * EACH;
    for (int64_t point = 0; point < POINTS; point++)
        for (int64_t c = 0; c < dy->channels; c += channels) {
            channels = dy->channels - c < WEIGHT_CHANNELS ? dy->channels - c : WEIGHT_CHANNELS;
            p.dy     = at_point(dy, point, c, 0);
            for (int64_t in = 0; in < s->in; in++) {
                p.x = at_point(x, point, in, piece->row.begin);
                p.w = w + ((point * s->out + piece->channel.begin + c) * s->in + in) * KERNEL;
                weight_tiles[channels - 1](&p);
            }
        }
}

static void weight_grad(const shape *s, const float *x, const float *dy, ipu_interval rows, float *w,
                        float *scratch)
{
    const int64_t n = (s->y_columns + WIDE - 1) / WIDE, most = ipu__toom_tiles(s);
    for (int64_t first = 0; first < n; first += most) {
        int64_t          n_tiles = n - first < most ? n - first : most;
        at_points        from    = {.channels = s->in, .rows = n_tiles * s->x_rows};
        float           *after   = scratch + points_floats(&from);
        ipu_interval     left    = rows;
        ipu__lanes_piece piece;
        from.data = scratch;
        for (int64_t c = 0; c < s->in; c++)
            for (int64_t t = 0; t < n_tiles; t++)
                points_of_x(x + c * s->x_plane * EACH, s->x_columns, tile_at(s, (first + t) * WIDE),
                            s->x_rows, at_point(&from, 0, c, t * s->x_rows),
                            from.channels * from.rows * EACH);
        while (ipu__lanes_next(&left, s->out, s->y_rows, &piece)) {
            int64_t   n_rows = piece.row.end - piece.row.begin;
            at_points by     = {after, piece.channel.end - piece.channel.begin, n_tiles * n_rows};
            for (int64_t c = 0; c < by.channels; c++)
                for (int64_t t = 0; t < n_tiles; t++) {
                    int64_t tile = (first + t) * WIDE, j = tile_at(s, tile);
                    int64_t at = (piece.channel.begin + c) * s->y_plane + piece.row.begin * s->y_columns;
                    points_of_y(dy + at * EACH, s->y_columns, j, tile - j, n_rows,
                                at_point(&by, 0, c, t * n_rows), by.channels * by.rows * EACH);
                }
            weight_products(s, &from, &by, n_tiles, &piece, w);
        }
    }
}

const ipu__toom_loops IPU__SIMD(ipu__toom_loops_at) = {weights, weights_back, forward, input_grad,
                                                       weight_grad};
#else
const ipu__toom_loops IPU__SIMD(ipu__toom_loops_at) = {0};
#endif
