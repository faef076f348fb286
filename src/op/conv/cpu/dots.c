/* conv_weight_grad with few channels: dot products of rows of d_y and rows of x, without transposing or
 * gathering.
 *
 * A block of OUTS channels of y times TAPS (channel, tap) pairs is kept in registers, a vector of partial
 * sums for each pair, over all rows of all images; lanes are added up at the end. Blocks are divided among
 * parts.
 */
#include "op/conv/cpu/dots.h"

#include <string.h>

#include "base/host/cpu.h"
#include "op/conv/cpu/columns.h"
#include "op/product/xsmm.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { X = IPU__CONV_WEIGHT_GRAD_X, DY = IPU__CONV_WEIGHT_GRAD_DY, OUT = IPU__CONV_WEIGHT_GRAD_OUT };

enum { OUTS = 5, TAPS = 5, LANES = 16 };

enum {
    CACHED = 4096
}; /* floats of d_y that a block works on at a time: they stay in the first-level cache */

/* Rows of one image for one block. */
typedef struct block {
    const float *dy[OUTS], *x[TAPS];
    int64_t      dy_step, x_step, n_rows, n_columns;
} block;

/* ---- the block in registers: every loop over it is unrolled, or it would be in memory ---- */

__attribute__((target("avx512f"))) static void add_block_512(const block *b, float *sums)
{
    __m512 acc[OUTS][TAPS];
#pragma GCC unroll 5
    for (int o = 0; o < OUTS; o++)
#pragma GCC unroll 5
        for (int t = 0; t < TAPS; t++) acc[o][t] = _mm512_loadu_ps(sums + (o * TAPS + t) * LANES);
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t i = 0; i < b->n_columns; i += LANES) {
            int64_t   left = b->n_columns - i, y_at = r * b->dy_step + i, x_at = r * b->x_step + i;
            __mmask16 mask = left >= LANES ? (__mmask16)0xffff : (__mmask16)((1 << left) - 1);
            __m512    y[OUTS];
#pragma GCC unroll 5
            for (int o = 0; o < OUTS; o++) y[o] = _mm512_maskz_loadu_ps(mask, b->dy[o] + y_at);
#pragma GCC unroll 5
            for (int t = 0; t < TAPS; t++) {
                __m512 x = _mm512_maskz_loadu_ps(mask, b->x[t] + x_at);
#pragma GCC unroll 5
                for (int o = 0; o < OUTS; o++) acc[o][t] = _mm512_fmadd_ps(y[o], x, acc[o][t]);
            }
        }
#pragma GCC unroll 5
    for (int o = 0; o < OUTS; o++)
#pragma GCC unroll 5
        for (int t = 0; t < TAPS; t++) _mm512_storeu_ps(sums + (o * TAPS + t) * LANES, acc[o][t]);
}

/* One channel of y at a time: there are 16 registers. */
__attribute__((target("avx2,fma"))) static void add_channel_256(const block *b, int o, float *sums)
{
    enum { WIDTH = 8 };
    static const int32_t ones[2 * WIDTH] = {-1, -1, -1, -1, -1, -1, -1, -1};
    __m256               acc[TAPS];
#pragma GCC unroll 5
    for (int t = 0; t < TAPS; t++) acc[t] = _mm256_loadu_ps(sums + (o * TAPS + t) * LANES);
    for (int64_t r = 0; r < b->n_rows; r++)
        for (int64_t i = 0; i < b->n_columns; i += WIDTH) {
            int64_t left = b->n_columns - i, y_at = r * b->dy_step + i, x_at = r * b->x_step + i;
            __m256i mask = _mm256_loadu_si256((const __m256i *)(ones + (left >= WIDTH ? 0 : WIDTH - left)));
            __m256  y    = _mm256_maskload_ps(b->dy[o] + y_at, mask);
#pragma GCC unroll 5
            for (int t = 0; t < TAPS; t++)
                acc[t] = _mm256_fmadd_ps(y, _mm256_maskload_ps(b->x[t] + x_at, mask), acc[t]);
        }
#pragma GCC unroll 5
    for (int t = 0; t < TAPS; t++) _mm256_storeu_ps(sums + (o * TAPS + t) * LANES, acc[t]);
}

static void add_block_256(const block *b, float *sums)
{
    for (int o = 0; o < OUTS; o++) add_channel_256(b, o, sums);
}

/* ---- at load ---- */

typedef struct state {
    ipu__conv_state base;
    bool            has_512;
    int64_t n_rows, across, n_blocks; /* (channel, tap) pairs of a group; blocks of them; with those of y */
    int64_t at[];                     /* where a pair of output 0 lies in the planes */
} state;

enum { FEATURES_512 = IPU__CPU_AVX512F, FEATURES_256 = IPU__CPU_AVX2 | IPU__CPU_FMA };

/* Parts of the peak that the two ways reach, as measured by bench/ops with 1 to 64 channels: products lose to
 * transposing d_y, once for each row of the product, and to gathering, once for each channel of y; dot products to
 * lanes that are not used. */
static bool is_better(const ipu__conv *c)
{
    double rows = (double)(c->in * ipu__conv_volume(c->k)), outs = (double)c->out, length = (double)c->y[2];
    double lanes   = outs / (double)(ipu__op_ceil_div(c->out, LANES) * LANES);
    double product = 1 / (1 / lanes + 20 / rows + 10 / outs);
    double dots    = length / (double)(ipu__op_ceil_div(c->y[2], LANES) * LANES) * rows
                / (double)(ipu__op_ceil_div((int64_t)rows, TAPS) * TAPS) * outs
                / (double)(ipu__op_ceil_div(c->out, OUTS) * OUTS);
    return rows * outs <= 16384 && 0.65 * dots > product; /* partial sums stay in the second-level cache */
}

bool ipu__conv_dots_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    if ((ipu__cpu_features_of(machine) & FEATURES_512) != FEATURES_512
        && (ipu__cpu_features_of(machine) & FEATURES_256) != FEATURES_256)
        return false;
    if (call->operand[X].type == IPU_DOUBLE || c.n == 0 || c.groups == 0 || c.in == 0 || c.out == 0)
        return false;
    if (ipu__conv_volume(c.y) == 0 || ipu__conv_volume(c.x) == 0 || ipu__conv_volume(c.k) == 0) return false;
    return is_better(&c);
}

static int64_t line_up(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Planes of x, d_y as floats, sums. */
typedef struct room {
    int64_t dy, sums, n;
} room;

static room get_room(const ipu__columns *s, int64_t n_blocks)
{
    room r = {.dy = s->in_place ? 0 : line_up(s->c.in * s->plane)};
    r.sums = r.dy + (s->type == IPU_FLOAT ? 0 : line_up(s->c.out * s->n_outputs));
    r.n    = r.sums + n_blocks * OUTS * TAPS * LANES;
    return r;
}

static int64_t count_blocks(const ipu__columns *s)
{
    return ipu__op_ceil_div(s->c.out, OUTS) * ipu__op_ceil_div(s->c.in * s->n_taps, TAPS);
}

size_t ipu__conv_dots_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__conv    c = ipu__conv_get(call);
    ipu__columns s;
    (void)n_parts;
    if (ipu__columns_init(&s, &c, call->operand[X].type) != IPU_OK) return SIZE_MAX;
    size_t bytes = (size_t)get_room(&s, count_blocks(&s)).n * sizeof(float);
    ipu__columns_fini(&s);
    return bytes;
}

ipu_status ipu__conv_dots_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    int64_t   n = c.in * ipu__conv_volume(c.k);
    state    *s;
    IPU_TRY(ipu__conv_prepare(call, &c, call->operand[X].type, sizeof *s + (size_t)n * sizeof *s->at, out));
    s                     = *out;
    const ipu__columns *v = &s->base.columns;
    s->has_512            = (ipu__cpu_features() & FEATURES_512) == FEATURES_512;
    s->n_rows             = n;
    s->across             = ipu__op_ceil_div(n, TAPS);
    s->n_blocks           = count_blocks(v);
    for (int64_t i = 0; i < n; i++) s->at[i] = i / v->n_taps * v->plane + v->tap[i % v->n_taps];
    return IPU_OK;
}

/* ---- running ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Channels and taps past the end are the last one again: what they give is not stored. */
static void add_block(const state *s, block *b, const float *planes, const float *dy, int64_t out,
                      int64_t row, float *sums)
{
    for (int o = 0; o < OUTS; o++)
        b->dy[o] = dy + least(out + o, s->base.columns.c.out - 1) * s->base.columns.n_outputs;
    for (int t = 0; t < TAPS; t++) b->x[t] = planes + s->at[least(row + t, s->n_rows - 1)];
    (s->has_512 ? add_block_512 : add_block_256)(b, sums);
}

/* `n` rows of outputs that begin at `planes` and `dy`. */
static void add_rows(const state *s, const float *planes, const float *dy, ipu_interval blocks, int64_t n,
                     float *sums)
{
    const ipu__columns *v = &s->base.columns;
    block   b   = {.dy_step = v->c.y[2], .x_step = v->pitch[2], .n_rows = n, .n_columns = v->c.y[2]};
    int64_t out = blocks.begin / s->across * OUTS, row = blocks.begin % s->across * TAPS;
    for (int64_t i = blocks.begin; i < blocks.end; i++, sums += OUTS * TAPS * LANES) {
        add_block(s, &b, planes, dy, out, row, sums);
        row += TAPS;
        if (row < s->n_rows) continue;
        row = 0;
        out += OUTS;
    }
}

static void add_image(const state *s, const float *planes, const float *dy, ipu_interval blocks, float *sums)
{
    const ipu__columns *v    = &s->base.columns;
    int64_t             rows = CACHED / OUTS / v->c.y[2] + 1;
    for (int64_t y0 = 0; y0 < v->c.y[0]; y0++)
        for (int64_t y1 = 0; y1 < v->c.y[1]; y1 += rows)
            add_rows(s, planes + (y0 * v->pitch[1] + y1) * v->pitch[2],
                     dy + (y0 * v->c.y[1] + y1) * v->c.y[2], blocks, least(v->c.y[1] - y1, rows), sums);
}

/* Lanes in pairs, to d_w of the group. */
static void store(const state *s, ipu_interval blocks, float *sums, char *out)
{
    const ipu__columns *v     = &s->base.columns;
    int64_t             bytes = (int64_t)ipu_type_size(v->type);
    for (int64_t i = blocks.begin; i < blocks.end; i++)
        for (int p = 0; p < OUTS * TAPS; p++, sums += LANES) {
            int64_t o = i / s->across * OUTS + p / TAPS, row = i % s->across * TAPS + p % TAPS;
            if (o >= v->c.out || row >= s->n_rows) continue;
            for (int width = LANES / 2; width > 0; width /= 2)
                for (int l = 0; l < width; l++) sums[l] += sums[l + width];
            ipu__from_floats(v->type, sums, out + (o * s->n_rows + row) * bytes, 1);
        }
}

ipu_status ipu__conv_dots_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    const state        *s      = prepared;
    const ipu__columns *v      = &s->base.columns;
    const ipu__conv    *c      = &v->c;
    ipu_interval        blocks = ipu__op_part(s->n_blocks, 1, part, n_parts);
    room                r      = get_room(v, s->n_blocks);
    float              *planes = scratch, *floats = planes + r.dy, *sums = planes + r.sums;
    int64_t             bytes = (int64_t)ipu_type_size(v->type), x_step = c->in * ipu__conv_volume(c->x);
    (void)call;
    for (int64_t g = 0; g < c->groups && blocks.begin < blocks.end; g++) {
        memset(sums, 0, (size_t)((blocks.end - blocks.begin) * OUTS * TAPS * LANES) * sizeof *sums);
        for (int64_t i = 0; i < c->n; i++) {
            const char *x  = (const char *)operand[X] + (i * c->groups + g) * x_step * bytes;
            const char *dy = (const char *)operand[DY] + (i * c->groups + g) * c->out * v->n_outputs * bytes;
            if (!v->in_place) ipu__columns_stage(v, x, c->in, planes);
            if (v->type != IPU_FLOAT) ipu__to_floats(v->type, dy, floats, c->out * v->n_outputs);
            add_image(s, v->in_place ? (const float *)x : planes,
                      v->type == IPU_FLOAT ? (const float *)dy : floats, blocks, sums);
        }
        store(s, blocks, sums, (char *)operand[OUT] + g * c->out * s->n_rows * bytes);
    }
    return IPU_OK;
}
#endif
