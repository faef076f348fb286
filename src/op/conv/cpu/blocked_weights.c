/* conv_weight_grad in blocks of sixteen channels.
 *
 * A task is all taps from some channels of x to 16 or 32 of d_y. Its sums stay in scratch while images pass
 * through in blocks of rows, which stay in the second-level cache for all taps. Each part has its own tasks,
 * so nothing has to be added up between parts.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/conv/cpu/blocked.h"
#include "op/vector/lanes.h"

enum {
    X           = IPU__CONV_WEIGHT_GRAD_X,
    DY          = IPU__CONV_WEIGHT_GRAD_DY,
    OUT         = IPU__CONV_WEIGHT_GRAD_OUT,
    MOST_KERNEL = 11,
    MOST_STRIDE = 2,
    MOST_FEW    = 15,        /* channels of a stem */
    ROWS_BYTES  = 96 << 10,  /* of rows of 16 channels of x */
    TASK_BYTES  = 32 << 10,  /* of the sums of a task, if it has several blocks of channels of x */
    MOST_BYTES  = 2048 << 10 /* of a row, where it cannot be less */
};

typedef struct state {
    ipu__conv c;
    bool      vectors, x_plain, y_plain, in_place;
    int64_t   depth, units; /* of x: numbers of a pixel that lie together, and how many such planes */
    int64_t   n_taps;
    int64_t   deep, n_groups;          /* vectors of d_y of a task; how many such */
    int64_t   units_at_once, n_chunks; /* of a task */
    int64_t   rows, read_rows, pitch;  /* of a block: of d_y, of x; columns of x where it is read */
    int64_t   first, plane; /* offset of the first column; floats of one plane of the rows that are read */
    int64_t   tap[];        /* offsets; of stems, of all channels */
} state;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool stays_inside(const ipu__conv *c)
{
    for (int d = 1; d < 3; d++)
        if (c->pad[d] < 0 || c->pad[d] > 0
            || (c->y[d] - 1) * c->stride[d] + (c->k[d] - 1) * c->dilation[d] >= c->x[d])
            return false;
    return true;
}

/* All but the taps. */
static state shape_of(const ipu__kernel_call *call, int n_parts)
{
    state            s = {.c = ipu__conv_get(call)};
    const ipu__conv *c = &s.c;
    s.vectors          = c->in % IPU__BLOCK == 0;
    s.depth            = s.vectors ? IPU__BLOCK : 1;
    s.units            = c->in / s.depth;
    s.x_plain          = call->layout[X] != IPU__LAYOUT_BLOCKED;
    s.y_plain          = call->layout[DY] != IPU__LAYOUT_BLOCKED;
    s.n_taps           = c->k[1] * c->k[2];
    s.in_place         = stays_inside(c) && !(s.vectors && s.x_plain);
    int64_t tap_bytes  = s.n_taps * IPU__BLOCK * IPU__BLOCK * IPU__TILE_DEEP * (int64_t)sizeof(float);
    s.units_at_once    = s.vectors ? TASK_BYTES / tap_bytes : s.units;
    s.units_at_once    = s.units_at_once < 1 ? 1 : least(s.units_at_once, s.units);
    s.n_chunks         = ceil_div(s.units, s.units_at_once);
    int64_t blocks     = c->out / IPU__BLOCK;
    s.deep             = ceil_div(blocks, IPU__TILE_DEEP) * s.n_chunks >= n_parts ? IPU__TILE_DEEP : 1;
    s.deep             = least(s.deep, blocks);
    s.n_groups         = ceil_div(blocks, s.deep);
    int64_t span       = (c->k[1] - 1) * c->dilation[1] + 1;
    s.pitch            = (c->y[2] - 1) * c->stride[2] + (c->k[2] - 1) * c->dilation[2] + 1;
    int64_t line       = s.pitch * (s.vectors ? s.depth : s.units) * (int64_t)sizeof(float);
    s.rows             = (ROWS_BYTES / line - span) / c->stride[1] + 1;
    s.rows             = s.rows < 1 ? 1 : least(s.rows, c->y[1]);
    s.read_rows        = (s.rows - 1) * c->stride[1] + span;
    s.plane            = s.read_rows * s.pitch * s.depth;
    if (s.in_place) {
        s.pitch = c->x[2];
        s.plane = c->x[1] * c->x[2] * s.depth;
    }
    return s;
}

bool ipu__conv_blocked_weights_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT
        || (ipu__cpu_features_of(machine) & IPU__SIMD_AVX512) != IPU__SIMD_AVX512
        || !IPU__SIMD_PICK(ipu__weights_loops_at).vectors[0])
        return false;
    if (c.groups != 1 || c.k[0] != 1 || c.x[0] != 1 || c.y[0] != 1 || c.n < 1) return false;
    if (c.in < 1 || c.out < 1 || c.out % IPU__BLOCK != 0) return false;
    if (c.in % IPU__BLOCK != 0 && c.in > MOST_FEW) return false;
    for (int d = 1; d < 3; d++)
        if (c.k[d] < 1 || c.k[d] > MOST_KERNEL || c.stride[d] > MOST_STRIDE || c.x[d] < 1 || c.y[d] < 1)
            return false;
    state s = shape_of(call, n_parts);
    return s.read_rows * s.pitch * (s.vectors ? s.depth : s.units) * (int64_t)sizeof(float) <= MOST_BYTES;
}

ipu__kernel_layouts ipu__conv_blocked_weights_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const unsigned plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), blocked = IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    (void)n_parts;
    if (operand == OUT || (operand == X && call->operand[X].shape.dim[1] % IPU__BLOCK != 0))
        return (ipu__kernel_layouts){plain, plain, false};
    return (ipu__kernel_layouts){plain | blocked, blocked, false};
}

/* ---- at load ---- */

ipu_status ipu__conv_blocked_weights_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state   shape = shape_of(call, n_parts);
    int64_t n     = shape.n_taps * (shape.vectors ? 1 : shape.units);
    state  *s = *out = ipu__alloc_zeroed(sizeof *s + (size_t)n * sizeof *s->tap);
    if (!s) return ipu__fail_memory();
    *s                 = shape;
    const ipu__conv *c = &s->c;
    for (int64_t t = 0; t < n; t++)
        s->tap[t] = t / s->n_taps * s->plane
                  + (t % s->n_taps / c->k[2] * c->dilation[1] * s->pitch + t % c->k[2] * c->dilation[2])
                        * s->depth;
    return IPU_OK;
}

void ipu__conv_blocked_weights_release(void *prepared) { ipu__free(prepared); }

/* Scratch, in floats: sums [unit][vector of d_y][channel and tap][16], rows of x, rows of d_y. */
static int64_t sums_of_unit(const state *s) { return s->deep * s->depth * s->n_taps * IPU__BLOCK; }
static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }
static int64_t read_floats(const state *s)
{
    return s->in_place ? 0 : line_up(s->plane * (s->vectors ? 1 : s->units));
}

size_t ipu__conv_blocked_weights_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    state   s  = shape_of(call, n_parts);
    int64_t dy = s.y_plain ? s.deep * s.rows * s.c.y[2] * IPU__BLOCK : 0;
    return (size_t)(s.units_at_once * sums_of_unit(&s) + read_floats(&s) + dy) * sizeof(float);
}

/* ---- rows ---- */

typedef struct job {
    const state *s;
    const float *x, *dy; /* all images */
    float       *sums, *read, *turned;
    int64_t      group, unit, n_units; /* of the task */
    int64_t      deep;
} job;

/* Row `row` of one plane of x, from its `begin`, which may lie outside, on. */
static void read_row(const state *s, const float *plane, int64_t row, float *to)
{
    const ipu__conv *c     = &s->c;
    int64_t          begin = -c->pad[2], n = s->pitch, width = c->x[2], depth = s->depth;
    int64_t          before = begin < 0 ? least(-begin, n) : 0;
    int64_t          inside = least(begin + n, width) - (begin + before);
    if (row < 0 || row >= c->x[1] || inside <= 0) {
        memset(to, 0, (size_t)(n * depth) * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)(before * depth) * sizeof *to);
    to += before * depth;
    if (s->vectors && s->x_plain)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn(plane + row * width + begin + before, c->x[1] * width, inside, to);
    else
        memcpy(to, plane + (row * width + begin + before) * depth, (size_t)(inside * depth) * sizeof *to);
    memset(to + inside * depth, 0, (size_t)((n - before - inside) * depth) * sizeof *to);
}

/* What rows of d_y from `row` on read of planes [unit, unit + n). */
static const float *read_rows(const job *j, int64_t image, int64_t unit, int64_t n, int64_t row)
{
    const state     *s     = j->s;
    const ipu__conv *c     = &s->c;
    int64_t          plane = c->x[1] * c->x[2] * s->depth;
    const float     *x     = j->x + (image * s->units + unit) * plane;
    if (s->in_place) return x + row * c->stride[1] * s->pitch * s->depth;
    for (int64_t u = 0; u < n; u++)
        for (int64_t i = 0; i < s->read_rows; i++)
            read_row(s, x + u * plane, row * c->stride[1] - c->pad[1] + i,
                     j->read + u * s->plane + i * s->pitch * s->depth);
    return j->read;
}

static void add_rows(const job *j, int64_t image, int64_t row)
{
    const state              *s       = j->s;
    const ipu__conv          *c       = &s->c;
    const ipu__weights_loops *loops   = &IPU__SIMD_PICK(ipu__weights_loops_at);
    int64_t                   columns = c->y[2], plane = c->y[1] * columns * IPU__BLOCK;
    const float              *dy = j->dy + (image * c->out / IPU__BLOCK + j->group * s->deep) * plane;
    ipu__weights_tile         t  = {.rows     = least(c->y[1] - row, s->rows),
                                    .columns  = columns,
                                    .x_step   = c->stride[2] * s->depth,
                                    .x_row    = c->stride[1] * s->pitch * s->depth,
                                    .y_row    = columns * IPU__BLOCK,
                                    .y_block  = plane,
                                    .sum_step = (s->vectors ? s->n_taps : 1) * IPU__BLOCK,
                                    .sum_block = s->depth * s->n_taps * (s->vectors ? 1 : s->units) * IPU__BLOCK};
    if (s->y_plain) {
        t.y_block = t.rows * t.y_row;
        for (int64_t o = 0; o < j->deep; o++)
            IPU__SIMD_PICK(ipu__lane_turns_at)
                .turn(dy + o * plane + row * columns, c->y[1] * columns, t.rows * columns,
                      j->turned + o * t.y_block);
        dy = j->turned;
    } else {
        dy += row * t.y_row;
    }
    if (!s->vectors) {
        const float *x = read_rows(j, image, 0, s->units, row);
        int64_t      n = s->units * s->n_taps, wide = ceil_div(n, ceil_div(n, IPU__WEIGHTS_WIDE));
        for (int64_t k = 0; k < n; k += wide) {
            t.tap = s->tap + k;
            loops->taps[j->deep - 1][least(n - k, wide) - 1](&t, x, dy, j->sums + k * IPU__BLOCK);
        }
        return;
    }
    for (int64_t u = 0; u < j->n_units; u++) {
        const float *x = read_rows(j, image, j->unit + u, 1, row);
        for (int64_t k = 0; k < s->n_taps; k++)
            loops->vectors[j->deep - 1](&t, x + s->tap[k], dy,
                                        j->sums + u * sums_of_unit(s) + k * IPU__BLOCK);
    }
}

/* ---- tasks ---- */

static void do_task(job *j, float *dw)
{
    const state *s   = j->s;
    int64_t      own = s->vectors ? sums_of_unit(s) : s->units * sums_of_unit(s);
    memset(j->sums, 0, (size_t)(s->units_at_once * sums_of_unit(s)) * sizeof *j->sums);
    for (int64_t image = 0; image < s->c.n; image++)
        for (int64_t row = 0; row < s->c.y[1]; row += s->rows) add_rows(j, image, row);
    int64_t n_each = own / s->deep / IPU__BLOCK; /* numbers of a row of d_w */
    int64_t step   = s->c.in * s->n_taps;
    for (int64_t u = 0; u < (s->vectors ? j->n_units : 1); u++)
        for (int64_t o = 0; o < j->deep; o++)
            IPU__SIMD_PICK(ipu__lane_turns_at)
                .turn_back(j->sums + u * own + o * n_each * IPU__BLOCK, n_each,
                           dw + (j->group * s->deep + o) * IPU__BLOCK * step + (j->unit + u) * n_each, step);
}

ipu_status ipu__conv_blocked_weights_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                         void *scratch, int part, int n_parts)
{
    const state *s = prepared;
    (void)call;
    job          j     = {.s = s, .x = operand[X], .dy = operand[DY], .sums = scratch};
    ipu_interval tasks = ipu__op_part(s->n_groups * s->n_chunks, 1, part, n_parts);
    j.read             = j.sums + s->units_at_once * sums_of_unit(s);
    j.turned           = j.read + read_floats(s);
    for (int64_t i = tasks.begin; i < tasks.end; i++) {
        j.group   = i / s->n_chunks;
        j.deep    = least(s->c.out / IPU__BLOCK - j.group * s->deep, s->deep);
        j.unit    = i % s->n_chunks * s->units_at_once;
        j.n_units = least(s->units - j.unit, s->units_at_once);
        do_task(&j, operand[OUT]);
    }
    return IPU_OK;
}
