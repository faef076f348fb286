/* conv and conv_input_grad in blocks of sixteen channels.
 *
 * Both consist of passes of one kind: results lie on a grid, and all read their inputs at the same offsets.
 * conv is one pass. The gradient of a strided convolution has one for each remainder of its coordinates, so
 * that the zeros between strides are never multiplied.
 *
 * Parts get whole images if these divide evenly, else rows of large ones or channels of the result.
 */
#include "op/conv/cpu/blocked.h"

#include <string.h>

#include "base/alloc.h"
#include "op/elementwise/epilogue_affine.h"
#include "op/vector/lanes.h"

enum {
    MOST_KERNEL = 11,
    MOST_STRIDE = 2,
    MOST_FEW    = 15,         /* channels of a stem */
    READ_BYTES  = 128 << 10,  /* of what a block of results reads, which is used again for each channel */
    PANEL_BYTES = 384 << 10,  /* of packed weights */
    MOST_BYTES  = 2048 << 10, /* of either, where it cannot be less */
    LARGE_BYTES = 16 << 20,   /* of results that caches would not keep, but fetch first */
    GROUP       = IPU__TILE_DEEP * IPU__BLOCK
};

/* ---- geometry ---- */

/* Taps along one dimension: of kernel element k[i] a result reads at (its number * step + off[i]). */
typedef struct axis {
    int     n;
    int64_t k[MOST_KERNEL], off[MOST_KERNEL];
    int64_t extent;         /* results */
    int64_t y_begin;        /* where they are, `y_step` apart */
    int64_t y_step, x_step; /* of the result, and of what is read */
    int64_t low, span;      /* least offset, and from it to the last and one */
} axis;

typedef struct pass {
    axis    row, column;
    bool    in_place;                /* nothing that is read lies outside */
    int64_t rows, columns;           /* of a block of results */
    int64_t read_rows, read_columns; /* of what it reads */
    int64_t pitch_rows, pitch;       /* rows of a channel, and columns, where it is read */
    int64_t first_tap, n_taps;
    int64_t weights; /* floats before those of the pass, in the panel of a group */
} pass;

typedef struct state {
    ipu__conv      c; /* flat, if it has one tap and covers all */
    bool           is_grad, vectors, x_plain, y_plain;
    int64_t        depth;                /* numbers at a tap */
    int64_t        units, channels;      /* blocks (or channels) that are read; channels of the result */
    int64_t        x[2], y[2];           /* extents of what is read and of the result */
    int64_t        n_groups, group_size; /* floats of a group's weights */
    int64_t        spare;                /* where among them those of taps that no result reads go */
    int64_t        groups_at_once;
    int64_t        read_size, result_size; /* floats of scratch */
    ipu__epilogue  epilogue;
    bool           stream;       /* results past the caches */
    bool           on_registers; /* the epilogue is `affine` */
    ipu__affine    affine;
    int            n_passes;
    pass           passes[MOST_STRIDE * MOST_STRIDE];
    const int64_t *tap;
    int64_t        taps[];
} state;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void measure(axis *a)
{
    int64_t high = 0;
    for (int i = 0; i < a->n; i++) {
        if (i == 0 || a->off[i] < a->low) a->low = a->off[i];
        if (i == 0 || a->off[i] > high) high = a->off[i];
    }
    a->span = high - a->low + 1;
}

static axis forward_axis(const ipu__conv *c, int d)
{
    axis a = {.n = (int)c->k[d], .extent = c->y[d], .y_step = 1, .x_step = c->stride[d]};
    for (int i = 0; i < a.n; i++) {
        a.k[i]   = i;
        a.off[i] = i * c->dilation[d] - c->pad[d];
    }
    measure(&a);
    return a;
}

/* Of d_x's coordinates that leave `remainder`. */
static axis grad_axis(const ipu__conv *c, int d, int64_t remainder)
{
    int64_t s = c->stride[d];
    axis    a = {.y_begin = remainder, .y_step = s, .x_step = 1};
    a.extent  = c->x[d] > remainder ? (c->x[d] - remainder + s - 1) / s : 0;
    for (int64_t k = 0; k < c->k[d]; k++) {
        int64_t at = remainder + c->pad[d] - k * c->dilation[d];
        if ((at % s + s) % s != 0) continue;
        a.k[a.n]     = k;
        a.off[a.n++] = at / s;
    }
    measure(&a);
    return a;
}

static bool stays_inside(const axis *a, int64_t extent)
{
    return a->n == 0 || (a->low >= 0 && (a->extent - 1) * a->x_step + a->low + a->span <= extent);
}

/* Sizes of a pass's blocks: as many rows, or columns if there is one row, as READ_BYTES has. */
static void cut(const state *s, pass *p)
{
    const axis *r = &p->row, *c = &p->column;
    int64_t     line = s->units * s->depth * (int64_t)sizeof(float);
    p->in_place      = !(s->x_plain && s->vectors) && stays_inside(r, s->x[0]) && stays_inside(c, s->x[1]);
    p->rows          = 1;
    p->columns       = c->extent;
    if (r->extent > 1) {
        int64_t wide = ((c->extent - 1) * c->x_step + c->span) * line;
        int64_t rows = (READ_BYTES / wide - r->span) / r->x_step + 1;
        p->rows      = rows < 1 ? 1 : least(rows, r->extent);
    } else {
        int64_t columns = READ_BYTES / line / IPU__TILE_WIDE * IPU__TILE_WIDE;
        p->columns      = least(columns < 2 * IPU__TILE_WIDE ? 2 * IPU__TILE_WIDE : columns, c->extent);
    }
    p->read_rows    = (p->rows - 1) * r->x_step + r->span;
    p->read_columns = (p->columns - 1) * c->x_step + c->span;
    p->pitch_rows   = p->in_place ? s->x[0] : p->read_rows;
    p->pitch        = p->in_place ? s->x[1] : p->read_columns;
}

static void add_pass(state *s, axis row, axis column)
{
    pass *p = &s->passes[s->n_passes];
    *p      = (pass){.row = row, .column = column};
    if (row.extent == 0 || column.extent == 0) return;
    cut(s, p);
    p->n_taps       = s->units * row.n * column.n;
    p->weights      = s->group_size;
    const pass *was = p > s->passes ? p - 1 : NULL;
    p->first_tap    = was ? was->first_tap + was->n_taps : 0;
    s->group_size += p->n_taps * s->depth * GROUP;
    if (!p->in_place)
        s->read_size = p->read_rows * p->read_columns * s->units * s->depth > s->read_size
                         ? p->read_rows * p->read_columns * s->units * s->depth
                         : s->read_size;
    int64_t result = p->rows * p->columns * GROUP;
    if (s->y_plain && result > s->result_size) s->result_size = result;
    s->n_passes++;
}

/* One tap that reads each pixel where it is: an image is one row. */
static void flatten(ipu__conv *c)
{
    for (int d = 1; d < 3; d++)
        if (c->k[d] != 1 || c->stride[d] != 1 || c->pad[d] != 0 || c->x[d] != c->y[d]) return;
    c->x[2] *= c->x[1];
    c->y[2] = c->x[2];
    c->x[1] = c->y[1] = 1;
}

/* All but the taps and the epilogue. */
static state shape_of(const ipu__kernel_call *call)
{
    state s   = {.c = ipu__conv_get(call)};
    s.is_grad = s.c.kind == IPU__CONV_INPUT_GRAD;
    int x     = s.is_grad ? IPU__CONV_INPUT_GRAD_DY : IPU__CONV_X;
    int y     = s.is_grad ? IPU__CONV_INPUT_GRAD_OUT : IPU__CONV_OUT;
    flatten(&s.c);
    int64_t read = s.is_grad ? s.c.out : s.c.in;
    s.channels   = s.is_grad ? s.c.in : s.c.out;
    s.vectors    = read % IPU__BLOCK == 0;
    s.depth      = s.vectors ? IPU__BLOCK : 1;
    s.units      = read / s.depth;
    s.x_plain    = call->layout[x] != IPU__LAYOUT_BLOCKED;
    s.y_plain    = call->layout[y] != IPU__LAYOUT_BLOCKED;
    s.n_groups   = (s.channels + GROUP - 1) / GROUP;
    for (int d = 0; d < 2; d++) {
        s.x[d] = s.is_grad ? s.c.y[1 + d] : s.c.x[1 + d];
        s.y[d] = s.is_grad ? s.c.x[1 + d] : s.c.y[1 + d];
    }
    if (s.is_grad) {
        for (int64_t i = 0; i < s.c.stride[1]; i++)
            for (int64_t j = 0; j < s.c.stride[2]; j++)
                add_pass(&s, grad_axis(&s.c, 1, i), grad_axis(&s.c, 2, j));
        s.spare = s.group_size;
        if (s.n_passes < s.c.stride[1] * s.c.stride[2]) s.group_size += s.depth * GROUP;
    } else {
        add_pass(&s, forward_axis(&s.c, 1), forward_axis(&s.c, 2));
    }
    int64_t pixels   = s.c.n * s.y[0] * s.y[1];
    s.stream         = !s.y_plain && pixels * s.channels * (int64_t)sizeof(float) >= LARGE_BYTES;
    s.groups_at_once = PANEL_BYTES / ((int64_t)sizeof(float) * s.group_size + 1);
    if (s.groups_at_once < 1) s.groups_at_once = 1;
    s.groups_at_once = least(s.groups_at_once, s.n_groups);
    return s;
}

/* ---- what fits ---- */

bool ipu__conv_blocked_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT
        || (ipu__cpu_features_of(machine) & IPU__SIMD_AVX512) != IPU__SIMD_AVX512
        || !IPU__SIMD_PICK(ipu__blocked_loops_at).pack)
        return false;
    if (c.groups != 1 || c.k[0] != 1 || c.x[0] != 1 || c.y[0] != 1 || c.n < 1) return false;
    bool is_grad = c.kind == IPU__CONV_INPUT_GRAD;
    if (c.in < 1 || c.out < 1 || c.out % IPU__BLOCK != 0) return false;
    if (c.in % IPU__BLOCK != 0 && (is_grad || c.in > MOST_FEW)) return false;
    for (int d = 1; d < 3; d++)
        if (c.k[d] < 1 || c.k[d] > MOST_KERNEL || c.stride[d] > MOST_STRIDE || c.x[d] < 1 || c.y[d] < 1)
            return false;
    state   s     = shape_of(call);
    int64_t bytes = (int64_t)sizeof(float);
    return s.group_size * bytes <= MOST_BYTES && s.read_size * bytes <= MOST_BYTES
        && s.passes[0].columns * GROUP * bytes <= MOST_BYTES;
}

ipu__kernel_layouts ipu__conv_blocked_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const ipu__kernel_layouts plain = {IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN),
                                       false};
    ipu__kernel_layouts both = {IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN) | IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED),
                                IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED), false};
    ipu__conv           c    = ipu__conv_get(call);
    (void)n_parts;
    if (c.kind == IPU__CONV_INPUT_GRAD) return operand == IPU__CONV_INPUT_GRAD_W ? plain : both;
    if (operand == IPU__CONV_X) return c.in % IPU__BLOCK == 0 ? both : plain;
    ipu__affine affine;
    if (operand <= IPU__CONV_BIAS || !(ipu__affine_of(call, &affine) || ipu__epilogue_is_flat(call)))
        return plain;
    if (operand != IPU__CONV_OUT)
        return ipu__affine_layouts(call, operand, IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED));
    both.tied = true;
    return both;
}

/* ---- at load ---- */

/* Offsets of taps from what the first pixel of a row of tiles reads, in the order of the weights. */
static void fill_taps(const state *s, const pass *p, int64_t *tap)
{
    int64_t row_low = p->in_place ? 0 : p->row.low, column_low = p->in_place ? 0 : p->column.low;
    for (int64_t u = 0; u < s->units; u++)
        for (int i = 0; i < p->row.n; i++)
            for (int j = 0; j < p->column.n; j++)
                *tap++ = ((u * p->pitch_rows + p->row.off[i] - row_low) * p->pitch + p->column.off[j]
                          - column_low)
                       * s->depth;
}

ipu_status ipu__conv_blocked_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    state   shape = shape_of(call);
    int64_t n     = 0;
    for (int i = 0; i < shape.n_passes; i++) n += shape.passes[i].n_taps;
    state *s = *out = ipu__alloc_zeroed(sizeof *s + (size_t)(n + 1) * sizeof *s->taps);
    if (!s) return ipu__fail_memory();
    *s     = shape;
    s->tap = s->taps;
    for (int i = 0; i < s->n_passes; i++) fill_taps(s, &s->passes[i], s->taps + s->passes[i].first_tap);
    ipu_status status = s->is_grad ? IPU_OK : ipu__epilogue_init(&s->epilogue, call);
    if (status != IPU_OK) {
        ipu__conv_blocked_release(s);
        *out = NULL;
        return status;
    }
    /* An addition to what is turned back to plain is done there. */
    s->on_registers = !s->is_grad && ipu__affine_of(call, &s->affine) && !(s->y_plain && s->affine.add);
    if (!s->on_registers) s->affine = (ipu__affine){0};
    return IPU_OK;
}

void ipu__conv_blocked_release(void *prepared)
{
    state *s = prepared;
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Scratch, in floats: scale, shift and weights, what is read, results to be turned and two rows of them, then the epilogue's. */
static int64_t panel_floats(const state *s)
{
    return s->groups_at_once * s->group_size + 2 * line_up(s->channels);
}
static int64_t result_floats(const state *s)
{
    return s->y_plain ? line_up(s->result_size) + line_up(s->y[1] * IPU__BLOCK) : 0;
}

size_t ipu__conv_blocked_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    state  s    = shape_of(call);
    size_t more = s.is_grad ? 0 : ipu__epilogue_scratch_bytes(call);
    if (more == SIZE_MAX) return more;
    return (size_t)(panel_floats(&s) + line_up(s.read_size) + result_floats(&s)) * sizeof(float) + more;
}

/* ---- weights ---- */

/* Of the 16 channels of the result from `channel` on, to vectors `wide` floats apart. */
static void pack_forward(const state *s, const float *w, int64_t channel, int64_t wide, float *to)
{
    const ipu__blocked_loops *loops  = &IPU__SIMD_PICK(ipu__blocked_loops_at);
    int64_t                   n_taps = s->c.k[1] * s->c.k[2], row = s->c.in * n_taps;
    int64_t                   at[MOST_KERNEL * MOST_KERNEL];
    if (!s->vectors || n_taps == 1) { /* in order */
        at[0] = 0;
        loops->pack(w + channel * row, row, row, 1, at, wide, to);
        return;
    }
    for (int64_t t = 0; t < n_taps; t++) at[t] = t * IPU__BLOCK * wide;
    for (int64_t u = 0; u < s->units; u++)
        loops->pack(w + channel * row + u * IPU__BLOCK * n_taps, row, IPU__BLOCK, n_taps, at, wide,
                    to + u * IPU__BLOCK * n_taps * wide);
}

/* Each tap has its place in one of the passes, if that has results. */
static void pack_grad(const state *s, const float *w, int64_t channel, int64_t wide, float *to)
{
    const ipu__blocked_loops *loops  = &IPU__SIMD_PICK(ipu__blocked_loops_at);
    int64_t                   n_taps = s->c.k[1] * s->c.k[2], row = s->c.in * n_taps;
    for (int64_t u = 0; u < s->units; u++) {
        int64_t at[MOST_KERNEL * MOST_KERNEL];
        for (int64_t t = 0; t < n_taps; t++) at[t] = s->spare / GROUP * wide;
        for (int n = 0; n < s->n_passes; n++) {
            const pass *p = &s->passes[n];
            for (int i = 0; i < p->row.n; i++)
                for (int j = 0; j < p->column.n; j++)
                    at[p->row.k[i] * s->c.k[2] + p->column.k[j]] = p->weights / GROUP * wide
                                                                 + ((u * p->row.n + i) * p->column.n + j)
                                                                       * IPU__BLOCK * wide;
        }
        for (int64_t i = 0; i < IPU__BLOCK; i++) {
            const float *from = w + (u * IPU__BLOCK + i) * row + channel * n_taps;
            if (n_taps == 1)
                memcpy(to + at[0] + i * wide, from, IPU__BLOCK * sizeof *to);
            else
                loops->pack(from, n_taps, 1, n_taps, at, wide, to + i * wide);
        }
    }
}

static int64_t deep_of(const state *s, int64_t group)
{
    return least(s->channels - group * GROUP, GROUP) / IPU__BLOCK;
}

static void pack_group(const state *s, const float *w, int64_t group, float *to)
{
    int64_t deep = deep_of(s, group);
    for (int64_t o = 0; o < deep; o++)
        (s->is_grad ? pack_grad : pack_forward)(s, w, group * GROUP + o * IPU__BLOCK, deep * IPU__BLOCK,
                                                to + o * IPU__BLOCK);
}

/* ---- what is read ---- */

/* `n` columns of one row of unit `u` of an image, from a row that may lie outside. */
static void read_row(const state *s, const float *image, int64_t u, int64_t row, int64_t column, int64_t n,
                     float *to)
{
    int64_t before = column < 0 ? least(-column, n) : 0, width = s->x[1], depth = s->depth;
    int64_t end = least(column + n, width), inside = end - (column + before);
    if (row < 0 || row >= s->x[0] || inside <= 0) {
        memset(to, 0, (size_t)(n * depth) * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)(before * depth) * sizeof *to);
    to += before * depth;
    if (s->x_plain && s->vectors)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn(image + (u * IPU__BLOCK * s->x[0] + row) * width + column + before, s->x[0] * width, inside,
                  to);
    else
        memcpy(to, image + ((u * s->x[0] + row) * width + column + before) * depth,
               (size_t)(inside * depth) * sizeof *to);
    memset(to + inside * depth, 0, (size_t)((n - before - inside) * depth) * sizeof *to);
}

/* A block of results: rows and columns of a pass. */
typedef struct block {
    const pass  *p;
    int64_t      row, n_rows, column, n_columns;
    const float *x; /* what its first pixel reads at offset 0 */
} block;

static void read_block(const state *s, const float *image, block *b, float *to)
{
    const pass *p   = b->p;
    int64_t     row = b->row * p->row.x_step, column = b->column * p->column.x_step;
    b->x = to;
    if (p->in_place) {
        b->x = image + (row * s->x[1] + column) * s->depth;
        return;
    }
    for (int64_t u = 0; u < s->units; u++)
        for (int64_t i = 0; i < (b->n_rows - 1) * p->row.x_step + p->row.span; i++)
            read_row(s, image, u, row + p->row.low + i, column + p->column.low,
                     (b->n_columns - 1) * p->column.x_step + p->column.span,
                     to + (u * p->pitch_rows + i) * p->pitch * s->depth);
}

/* ---- results ---- */

typedef struct job {
    const state *s;
    void *const *operand;
    const float *scale, *shift; /* of channels; scale NULL: 1 */
    float       *panel, *read, *result;
    void        *after; /* the epilogue's scratch */
} job;

static float *result_of(const job *j)
{
    return j->operand[j->s->is_grad ? IPU__CONV_INPUT_GRAD_OUT : IPU__CONV_OUT];
}

/* `n` pixels of sixteen channels to planes, the first at element `first`, `step` apart. */
static void turn_run(const job *j, const float *from, int64_t first, int64_t n, int64_t step)
{
    const state           *s     = j->s;
    const ipu__lane_turns *loops = &IPU__SIMD_PICK(ipu__lane_turns_at);
    int64_t                plane = s->y[0] * s->y[1];
    float                 *to = result_of(j) + first, *rows = j->result + line_up(s->result_size);
    if (step == 1) {
        loops->turn_back(from, n, to, plane);
        if (!s->on_registers)
            ipu__epilogue_run(&s->epilogue, j->operand, first, n, plane, IPU__BLOCK, j->after);
        return;
    }
    loops->turn_back(from, n, rows, n);
    for (int64_t l = 0; l < IPU__BLOCK; l++)
        for (int64_t k = 0; k < n; k++) to[l * plane + k * step] = rows[l * n + k];
}

/* Results in scratch, [vector of channels][row][column][16], to rows of planes. */
static void turn_results(const job *j, int64_t image, const block *b, int64_t group)
{
    const state *s = j->s;
    const axis  *r = &b->p->row, *c = &b->p->column;
    bool         all  = r->y_step == 1 && c->y_step == 1 && b->n_columns == s->y[1]; /* rows are one run */
    int64_t      runs = all ? 1 : b->n_rows, n = b->n_rows * b->n_columns / runs;
    for (int64_t i = 0; i < deep_of(s, group) * runs; i++) {
        int64_t channel = image * s->channels + group * GROUP + i / runs * IPU__BLOCK;
        int64_t row     = r->y_begin + (b->row + i % runs) * r->y_step;
        int64_t first   = (channel * s->y[0] + row) * s->y[1] + c->y_begin + b->column * c->y_step;
        turn_run(j, j->result + i * n * IPU__BLOCK, first, n, c->y_step);
    }
}

/* The epilogue that tiles do not do, on results that lie in blocks. */
static void finish(const job *j, int64_t first, const block *b, int64_t deep)
{
    const state *s = j->s;
    if (!s->epilogue.chain || s->on_registers) return;
    for (int64_t o = 0; o < deep; o++)
        ipu__epilogue_run(&s->epilogue, j->operand,
                          first + (o * s->y[0] * s->y[1] + b->row * s->y[1] + b->column) * IPU__BLOCK,
                          b->n_columns * IPU__BLOCK, s->y[1] * IPU__BLOCK, b->n_rows, j->after);
}

static void do_rows(const job *j, ipu__tile *t, const block *b, int64_t deep, float *y, int64_t y_row)
{
    const state        *s = j->s;
    const axis         *c = &b->p->column;
    const ipu__tile_fn *tile =
        IPU__SIMD_PICK(ipu__blocked_loops_at).tile[ipu__tile_step(s->vectors, c->x_step)][deep - 1];
    int64_t      n_tiles = (b->n_columns + IPU__TILE_WIDE - 1) / IPU__TILE_WIDE;
    int64_t      base = b->n_columns / n_tiles, extra = b->n_columns % n_tiles;
    const float *add = t->add;
    for (int64_t i = 0; i < b->n_rows; i++) {
        const float *x  = b->x + i * b->p->row.x_step * b->p->pitch * s->depth;
        int64_t      at = i * y_row;
        for (int64_t k = 0; k < n_tiles; k++) {
            int64_t wide = base + (k < extra);
            t->add       = add ? add + at : NULL;
            tile[wide - 1](t, x, y + at);
            x += wide * c->x_step * s->depth;
            at += wide * t->y_step;
        }
    }
}

static void do_group(const job *j, int64_t image, const block *b, int64_t group, const float *w)
{
    const state *s = j->s;
    const axis  *r = &b->p->row, *c = &b->p->column;
    int64_t      deep  = deep_of(s, group);
    int64_t      plane = s->y[0] * s->y[1] * IPU__BLOCK;
    int64_t      first = (image * s->channels / IPU__BLOCK + group * IPU__TILE_DEEP) * plane;
    ipu__tile    t     = {.tap    = s->tap + b->p->first_tap,
                          .n_taps = b->p->n_taps,
                          .w      = w + b->p->weights / GROUP * deep * IPU__BLOCK,
                          .scale  = j->scale ? j->scale + group * GROUP : NULL,
                          .shift  = j->shift + group * GROUP,
                          .relu   = s->affine.relu,
                          .stream = s->stream};
    if (s->y_plain) {
        t.y_step  = IPU__BLOCK;
        t.y_block = b->n_rows * b->n_columns * IPU__BLOCK;
        do_rows(j, &t, b, deep, j->result, b->n_columns * IPU__BLOCK);
        turn_results(j, image, b, group);
        return;
    }
    int64_t at = first
               + ((r->y_begin + b->row * r->y_step) * s->y[1] + c->y_begin + b->column * c->y_step)
                     * IPU__BLOCK;
    t.y_step  = c->y_step * IPU__BLOCK;
    t.y_block = plane;
    t.add     = s->affine.add ? (const float *)j->operand[s->affine.add] + at : NULL;
    do_rows(j, &t, b, deep, result_of(j) + at, r->y_step * s->y[1] * IPU__BLOCK);
    finish(j, first, b, deep);
}

/* ---- parts ---- */

typedef struct share {
    ipu_interval image, group;
    int          part, n_parts; /* of rows, or of columns where there is one row */
} share;

static share share_of(const state *s, int part, int n_parts)
{
    share all = {{0, s->c.n}, {0, s->n_groups}, 0, 1};
    if (s->c.n % n_parts == 0 || s->c.n >= 4 * n_parts) {
        all.image = ipu__op_part(s->c.n, 1, part, n_parts);
    } else if (s->n_groups >= 2 * n_parts && s->y[0] * s->y[1] < 400 * n_parts) {
        all.group = ipu__op_part(s->n_groups, 1, part, n_parts);
    } else {
        all.part    = part;
        all.n_parts = n_parts;
    }
    return all;
}

static void do_pass(const job *j, const share *mine, int64_t image, const pass *p, ipu_interval groups)
{
    const state *s    = j->s;
    bool         flat = p->row.extent == 1;
    ipu_interval rows = {0, p->row.extent}, columns = {0, p->column.extent};
    *(flat ? &columns : &rows) = ipu__op_part(flat ? p->column.extent : p->row.extent, 1, mine->part,
                                              mine->n_parts);
    const float *x = (const float *)j->operand[0] + image * s->units * s->depth * s->x[0] * s->x[1];
    for (int64_t i = rows.begin; i < rows.end; i += p->rows)
        for (int64_t k = columns.begin; k < columns.end; k += p->columns) {
            block b = {.p         = p,
                       .row       = i,
                       .n_rows    = least(rows.end - i, p->rows),
                       .column    = k,
                       .n_columns = least(columns.end - k, p->columns)};
            read_block(s, x, &b, j->read);
            for (int64_t g = groups.begin; g < groups.end; g++)
                do_group(j, image, &b, g, j->panel + (g - groups.begin) * s->group_size);
        }
}

ipu_status ipu__conv_blocked_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                 void *scratch, int part, int n_parts)
{
    const state *s     = prepared;
    share        mine  = share_of(s, part, n_parts);
    float       *room  = scratch;
    float       *shift = room + line_up(s->channels);
    job          j     = {.s       = s,
                          .operand = operand,
                          .shift   = shift,
                          .panel   = shift + line_up(s->channels),
                          .read    = room + panel_floats(s)};
    j.result           = j.read + line_up(s->read_size);
    j.after            = j.result + result_floats(s);
    bool has_bias      = !s->is_grad && ipu__kernel_has(call, IPU__CONV_BIAS);
    if (ipu__affine_get(&s->affine, operand, has_bias ? operand[IPU__CONV_BIAS] : NULL, 0, s->channels, room,
                        shift))
        j.scale = room;
    if (mine.image.begin == mine.image.end) return IPU_OK;
    for (int64_t g = mine.group.begin; g < mine.group.end; g += s->groups_at_once) {
        ipu_interval groups = {g, least(g + s->groups_at_once, mine.group.end)};
        for (int64_t i = groups.begin; i < groups.end; i++)
            pack_group(s, operand[IPU__CONV_W], i, j.panel + (i - g) * s->group_size);
        for (int64_t i = mine.image.begin; i < mine.image.end; i++)
            for (int k = 0; k < s->n_passes; k++) do_pass(&j, &mine, i, &s->passes[k], groups);
    }
    if (s->stream) IPU__SIMD_PICK(ipu__blocked_loops_at).fence();
    return IPU_OK;
}
