/* Sixteen images in the lanes of a vector. Tiles of outputs stay in registers: as many as there are, less
 * those for a weight and an input, so that each loaded value is used as often as possible. */
#include "op/conv/cpu/lanes.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#include <string.h>

#include "op/vector/lanes.h"
#include "op/vector/unroll.h"

enum {
    WIDE            = 9,
    CHANNELS        = 3,
    GRAD_CHANNELS   = 2,
    MOST_KERNEL     = 5,
    WEIGHT_CHANNELS = 5,
    WEIGHT_ROWS     = 3,
    SQUARE_CHANNELS = 3
};

typedef ipu__lanes_shape shape;

/* ---- tiles: functions of constant sizes, of which tables are made ---- */

#define EACH_WIDTH(F, a) F(a, 1) F(a, 2) F(a, 3) F(a, 4) F(a, 5) F(a, 6) F(a, 7) F(a, 8) F(a, 9)

/* Outputs [j, j + wide) of row i, of `channels` channels from c on. */
INLINE void forward_tile(const shape *s, const float *x, const float *w, const float *bias, int64_t c,
                         int64_t i, int64_t j, float *y, const int channels, const int wide)
{
    __m512        sum[CHANNELS][WIDE];
    const int64_t taps = s->in * s->k_rows * s->k_columns;
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < wide; k++)
        sum[o][k] = _mm512_set1_ps(bias ? bias[c + o] : 0);
    w += c * taps;
    for (int64_t in = 0; in < s->in; in++)
        for (int64_t row = 0; row < s->k_rows; row++) {
            const float *from = x + (in * s->x_plane + (i + row) * s->x_columns + j) * IPU__LANES;
            for (int64_t column = 0; column < s->k_columns; column++, w++, from += IPU__LANES) {
                __m512 weight[CHANNELS];
                HIDE(from);
                UNROLLED for (int o = 0; o < channels; o++) weight[o] = _mm512_set1_ps(w[o * taps]);
                UNROLLED for (int k = 0; k < wide; k++)
                {
                    __m512 value = _mm512_loadu_ps(from + k * IPU__LANES);
                    HOLD(value);
                    UNROLLED for (int o = 0; o < channels; o++)
                        sum[o][k] = _mm512_fmadd_ps(value, weight[o], sum[o][k]);
                }
            }
        }
    if (s->relu) /* NaN stays, and so does -0 */
        UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < wide; k++)
            sum[o][k] = _mm512_max_ps(_mm512_setzero_ps(), sum[o][k]);
    UNROLLED for (int o = 0; o < channels; o++)
    {
        float *to = y + ((c + o) * s->y_plane + i * s->y_columns + j) * IPU__LANES;
        UNROLLED for (int k = 0; k < wide; k++) _mm512_storeu_ps(to + k * IPU__LANES, sum[o][k]);
    }
}

typedef void (*forward_fn)(const shape *s, const float *x, const float *w, const float *bias, int64_t c,
                           int64_t i, int64_t j, float *y);
#define FORWARD(channels, wide)                                                                           \
    static void forward_##channels##_##wide(const shape *s, const float *x, const float *w,               \
                                            const float *bias, int64_t c, int64_t i, int64_t j, float *y) \
    {                                                                                                     \
        forward_tile(s, x, w, bias, c, i, j, y, channels, wide);                                          \
    }
/* clang-format off */
EACH_WIDTH(FORWARD, 1)
EACH_WIDTH(FORWARD, 2)
EACH_WIDTH(FORWARD, 3)
#define NAME(channels, wide) forward_##channels##_##wide,
static const forward_fn forward_tiles[CHANNELS][WIDE] = {
    {EACH_WIDTH(NAME, 1)}, {EACH_WIDTH(NAME, 2)}, {EACH_WIDTH(NAME, 3)}};
#undef NAME
/* clang-format on */

/* The same of one channel, for kernels of a known width: a row of weights is in registers, so that a value is loaded
 * once for all of them. */
INLINE void single_tile(const shape *s, const float *x, const float *w, const float *bias, int64_t c,
                        int64_t i, int64_t j, float *y, const int wide, const int kernel)
{
    __m512 sum[WIDE];
    UNROLLED for (int k = 0; k < wide; k++) sum[k] = _mm512_set1_ps(bias ? bias[c] : 0);
    w += c * s->in * s->k_rows * kernel;
    for (int64_t in = 0; in < s->in; in++)
        for (int64_t row = 0; row < s->k_rows; row++, w += kernel) {
            const float *from = x + (in * s->x_plane + (i + row) * s->x_columns + j) * IPU__LANES;
            __m512       weight[MOST_KERNEL];
            HIDE(from);
            UNROLLED for (int column = 0; column < kernel; column++)
                weight[column] = _mm512_set1_ps(w[column]);
            UNROLLED for (int k = 0; k < wide + kernel - 1; k++)
            {
                __m512 value = _mm512_loadu_ps(from + k * IPU__LANES);
                HOLD(value);
                UNROLLED for (int column = 0; column < kernel; column++) if (k >= column && k - column < wide)
                    sum[k - column] = _mm512_fmadd_ps(value, weight[column], sum[k - column]);
            }
        }
    float *to = y + (c * s->y_plane + i * s->y_columns + j) * IPU__LANES;
    UNROLLED for (int k = 0; k < wide; k++)
        _mm512_storeu_ps(to + k * IPU__LANES, s->relu ? _mm512_max_ps(_mm512_setzero_ps(), sum[k]) : sum[k]);
}

#define SINGLE(kernel, wide)                                                                                \
    static void single_##kernel##_##wide(const shape *s, const float *x, const float *w, const float *bias, \
                                         int64_t c, int64_t i, int64_t j, float *y)                         \
    {                                                                                                       \
        single_tile(s, x, w, bias, c, i, j, y, wide, kernel);                                               \
    }
/* clang-format off */
EACH_WIDTH(SINGLE, 3)
EACH_WIDTH(SINGLE, 5)
#define NAME(kernel, wide) single_##kernel##_##wide,
static const forward_fn single_tiles[2][WIDE] = {{EACH_WIDTH(NAME, 3)}, {EACH_WIDTH(NAME, 5)}};
#undef NAME
/* clang-format on */

/* The last tile of a row begins earlier rather than being narrower. */
static void forward(const shape *s, const float *x, const float *w, const float *bias, float *y)
{
    int64_t n = (s->y_columns + WIDE - 1) / WIDE, wide = (s->y_columns + n - 1) / n, channels;
    bool    has_single = s->k_columns == 3 || s->k_columns == 5;
    for (int64_t c = 0; c < s->out; c += channels) {
        channels = s->out - c < CHANNELS ? s->out - c : CHANNELS;
        if (has_single && s->in == 1) channels = 1;
        forward_fn tile = channels == 1 && has_single ? single_tiles[s->k_columns == 5][wide - 1]
                                                      : forward_tiles[channels - 1][wide - 1];
        for (int64_t i = 0; i < s->y_rows; i++)
            for (int64_t j = 0; j < s->y_columns; j += wide)
                tile(s, x, w, bias, c, i, j + wide > s->y_columns ? s->y_columns - wide : j, y);
    }
}

/* What row i of d_x, of `channels` channels from c on, gets from d_y's columns [j, j + wide): columns [j, j + wide +
 * kernel - 1). Nothing is computed for padding, of which the convolution that this also is would have much. */
typedef struct grad_place {
    int64_t c, i, j;        /* i: of the rows at hand */
    int64_t first_k, end_k; /* rows of the kernel */
    int64_t y_row;          /* for row 0 of the kernel */
} grad_place;

INLINE void grad_tile(const shape *s, const float *dy, const float *w, grad_place p, float *dx,
                      const int channels, const int wide, const int kernel)
{
    __m512        sum[GRAD_CHANNELS][WIDE + MOST_KERNEL - 1];
    const int64_t taps = s->k_rows * s->k_columns;
    float        *to   = dx + (p.c * s->x_plane + p.i * s->x_columns + p.j) * IPU__LANES;
    const int64_t next = s->x_plane * IPU__LANES; /* channel */
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < wide + kernel - 1; k++)
        sum[o][k] = p.j == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(to + o * next + k * IPU__LANES);
    for (int64_t out = 0; out < s->out; out++)
        for (int64_t row = p.first_k; row < p.end_k; row++) {
            const float *weights = w + ((out * s->in + p.c) * s->k_rows + row) * s->k_columns;
            const float *from = dy + (out * s->y_plane + (p.y_row - row) * s->y_columns + p.j) * IPU__LANES;
            if (channels == 1) { /* there are registers for a row of weights: values are loaded once */
                __m512 weight[MOST_KERNEL];
                HIDE(from);
                UNROLLED for (int column = 0; column < kernel; column++)
                    weight[column] = _mm512_set1_ps(weights[column]);
                UNROLLED for (int k = wide - 1; k >= 0; k--) /* columns in the order they have below */
                {
                    __m512 value = _mm512_loadu_ps(from + k * IPU__LANES);
                    HOLD(value);
                    UNROLLED for (int column = 0; column < kernel; column++)
                        sum[0][k + column] = _mm512_fmadd_ps(value, weight[column], sum[0][k + column]);
                }
                continue;
            }
            UNROLLED for (int column = 0; column < kernel; column++)
            {
                __m512 weight[GRAD_CHANNELS];
                HIDE(from);
                UNROLLED for (int o = 0; o < channels; o++)
                    weight[o] = _mm512_set1_ps(weights[o * taps + column]);
                UNROLLED for (int k = 0; k < wide; k++)
                {
                    __m512 value = _mm512_loadu_ps(from + k * IPU__LANES);
                    HOLD(value);
                    UNROLLED for (int o = 0; o < channels; o++)
                        sum[o][k + column] = _mm512_fmadd_ps(value, weight[o], sum[o][k + column]);
                }
            }
        }
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < wide + kernel - 1; k++)
        _mm512_storeu_ps(to + o * next + k * IPU__LANES, sum[o][k]);
}

typedef void (*grad_fn)(const shape *s, const float *dy, const float *w, grad_place p, float *dx);
#define GRAD(channels, wide, kernel)                                                                 \
    static void grad_##channels##_##wide##_##kernel(const shape *s, const float *dy, const float *w, \
                                                    grad_place p, float *dx)                         \
    {                                                                                                \
        grad_tile(s, dy, w, p, dx, channels, wide, kernel);                                          \
    }
#define GRADS(channels, wide) GRAD(channels, wide, 3) GRAD(channels, wide, 5)
/* clang-format off */
EACH_WIDTH(GRADS, 1)
EACH_WIDTH(GRADS, 2)
#define NAME3(channels, wide) grad_##channels##_##wide##_3,
#define NAME5(channels, wide) grad_##channels##_##wide##_5,
static const grad_fn grad_tiles[2][GRAD_CHANNELS][WIDE] = {
    {{EACH_WIDTH(NAME3, 1)}, {EACH_WIDTH(NAME3, 2)}}, {{EACH_WIDTH(NAME5, 1)}, {EACH_WIDTH(NAME5, 2)}}};
/* clang-format on */

static void input_grad(const shape *s, const float *dy, const float *w, int64_t begin, int64_t end,
                       int64_t first, float *dx)
{
    const grad_fn(*tiles)[WIDE] = grad_tiles[s->k_columns == 5];
    /* What the first tile of a row does not begin. */
    for (int64_t c = begin; c < end && s->y_columns > WIDE; c++)
        memset(dx + c * s->x_plane * IPU__LANES, 0,
               (size_t)(s->x_rows * s->x_columns * IPU__LANES) * sizeof *dx);
    for (int64_t c = begin; c < end; c += GRAD_CHANNELS) {
        int64_t channels = end - c < GRAD_CHANNELS ? end - c : GRAD_CHANNELS;
        for (int64_t i = 0; i < s->x_rows; i++) {
            int64_t    row = first + i;
            grad_place p   = {.c = c, .i = i, .y_row = row};
            p.first_k      = row >= s->y_rows ? row - s->y_rows + 1 : 0;
            p.end_k        = row + 1 < s->k_rows ? row + 1 : s->k_rows;
            for (p.j = 0; p.j < s->y_columns; p.j += WIDE) {
                int64_t wide = s->y_columns - p.j < WIDE ? s->y_columns - p.j : WIDE;
                tiles[channels - 1][wide - 1](s, dy, w, p, dx);
            }
        }
    }
}

/* Rows [row, row + rows) of the kernels from channel `in` of x to `channels` of y, from c on. */
INLINE void weight_tile(const shape *s, const float *x, const float *dy, int64_t c, int64_t in, int64_t row,
                        float *dw, const int channels, const int kernel, const int rows)
{
    __m512        sum[WEIGHT_CHANNELS][MOST_KERNEL * WEIGHT_ROWS];
    const int64_t plane = s->y_plane * IPU__LANES;
    UNROLLED for (int o = 0; o < channels; o++) UNROLLED for (int k = 0; k < kernel * rows; k++)
        sum[o][k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < s->y_rows; i++) {
        const float *from = x + (in * s->x_plane + (i + row) * s->x_columns) * IPU__LANES;
        const float *by   = dy + (c * s->y_plane + i * s->y_columns) * IPU__LANES;
        for (int64_t j = 0; j < s->y_columns; j++, from += IPU__LANES, by += IPU__LANES) {
            __m512 gradient[WEIGHT_CHANNELS];
            HIDE(from);
            UNROLLED for (int o = 0; o < channels; o++) gradient[o] = _mm512_loadu_ps(by + o * plane);
            UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int k = 0; k < kernel; k++)
            {
                __m512 value = _mm512_loadu_ps(from + (r * s->x_columns + k) * IPU__LANES);
                HOLD(value);
                UNROLLED for (int o = 0; o < channels; o++)
                    sum[o][r * kernel + k] = _mm512_fmadd_ps(value, gradient[o], sum[o][r * kernel + k]);
            }
        }
    }
    UNROLLED for (int o = 0; o < channels; o++)
    {
        float *to = dw + (((c + o) * s->in + in) * s->k_rows + row) * s->k_columns;
        UNROLLED for (int k = 0; k < kernel * rows; k++) to[k] += _mm512_reduce_add_ps(sum[o][k]);
    }
}

typedef void (*weight_fn)(const shape *s, const float *x, const float *dy, int64_t c, int64_t in, int64_t row,
                          float *dw);
#define WEIGHT(channels, kernel, rows)                                                                 \
    static void weight_##channels##_##kernel##_##rows(const shape *s, const float *x, const float *dy, \
                                                      int64_t c, int64_t in, int64_t row, float *dw)   \
    {                                                                                                  \
        weight_tile(s, x, dy, c, in, row, dw, channels, kernel, rows);                                 \
    }
/* clang-format off */
WEIGHT(1, 3, 1) WEIGHT(2, 3, 1) WEIGHT(3, 3, 1) WEIGHT(4, 3, 1) WEIGHT(5, 3, 1)
WEIGHT(1, 5, 1) WEIGHT(2, 5, 1) WEIGHT(3, 5, 1) WEIGHT(4, 5, 1) WEIGHT(5, 5, 1)
WEIGHT(1, 3, 3) WEIGHT(2, 3, 3) WEIGHT(3, 3, 3)
static const weight_fn weight_tiles[2][WEIGHT_CHANNELS] = {
    {weight_1_3_1, weight_2_3_1, weight_3_3_1, weight_4_3_1, weight_5_3_1},
    {weight_1_5_1, weight_2_5_1, weight_3_5_1, weight_4_5_1, weight_5_5_1}};
static const weight_fn square_tiles[SQUARE_CHANNELS] = {weight_1_3_3, weight_2_3_3, weight_3_3_3};
/* clang-format on */

/* Channels are shared out to as few tiles as can be, evenly. Those of 3 x 3 have all rows of the kernel. */
static void weight_grad(const shape *s, const float *x, const float *dy, float *dw)
{
    bool    is_square = s->k_columns == 3 && s->k_rows == WEIGHT_ROWS;
    int64_t most = is_square ? SQUARE_CHANNELS : WEIGHT_CHANNELS, n_blocks = (s->out + most - 1) / most;
    int64_t block = (s->out + n_blocks - 1) / n_blocks, rows = is_square ? WEIGHT_ROWS : 1;
    for (int64_t c = 0; c < s->out; c += block) {
        int64_t   channels = s->out - c < block ? s->out - c : block;
        weight_fn tile     = is_square ? square_tiles[channels - 1]
                                       : weight_tiles[s->k_columns == 5][channels - 1];
        for (int64_t in = 0; in < s->in; in++)
            for (int64_t row = 0; row < s->k_rows; row += rows) tile(s, x, dy, c, in, row, dw);
    }
}

const ipu__lanes_loops IPU__SIMD(ipu__lanes_loops_at) = {forward, input_grad, weight_grad};
#else
const ipu__lanes_loops IPU__SIMD(ipu__lanes_loops_at) = {0};
#endif
