/* conv_weight_grad by products: d_w^T = columns of x times d_y^T, summed over the images.
 *
 * The rows of the product (channels and taps) or its columns (channels of y) are divided among parts, so
 * nothing is summed between parts.
 */
#include <string.h>

#include "op/conv/cpu/gemm.h"

enum { X = IPU__CONV_WEIGHT_GRAD_X, DY = IPU__CONV_WEIGHT_GRAD_DY, OUT = IPU__CONV_WEIGHT_GRAD_OUT };

enum { LINES = 16 }; /* rows of d_w made at a time from the product: a tile of the transposition, or two */

/* ---- at load ---- */

/* m: channels of x and taps, which are the part's rows, n: channels of y, k: columns of the images at once.
 * Direct: planes are the matrix of columns. */
static void describe(const ipu__columns *s, int index, int n_parts, ipu__conv_part *out)
{
    const ipu__conv *c    = &s->c;
    int64_t          rows = c->in * s->n_taps, at_once = ipu__conv_images_at_once(c, c->n);
    *out = (ipu__conv_part){.row = {0, rows}, .channel = {0, c->out}};
    /* What is not shared out is gathered by every part: d_y is transposed, which costs twice a copy. */
    if (rows >= 2 * c->out || c->out < 16 * n_parts)
        out->row = ipu__op_part(rows, 1, index, n_parts);
    else
        out->channel = ipu__op_part(c->out, 16, index, n_parts);
    ipu__xsmm_blocks sizes = {.m = out->row.end - out->row.begin,
                              .n = out->channel.end - out->channel.begin,
                              .k = s->n_outputs * at_once};
    if (sizes.m == 0 || sizes.n == 0) return;
    out->at_once   = at_once;
    out->is_direct = s->is_product && at_once == 1;
    sizes.mb       = ipu__xsmm_block(sizes.m, IPU__CONV_BLOCK, 6);
    sizes.nb       = ipu__xsmm_block(sizes.n, IPU__CONV_BLOCK, 64);
    sizes.kb       = ipu__xsmm_block(sizes.k, IPU__CONV_BLOCK, 16);
    out->blocks    = sizes;
    sizes.k        = s->n_outputs * (c->n % at_once);
    if (sizes.k > 0 && sizes.k < sizes.kb) sizes.kb = sizes.k;
    out->last = sizes;
}

/* Channels of x that the rows read. */
static ipu_interval planes_of(const ipu__columns *s, const ipu__conv_part *p)
{
    return (ipu_interval){p->row.begin / s->n_taps, ipu__op_ceil_div(p->row.end, s->n_taps)};
}

/* Floats from a row of the product, and of d_y^T, to the next. */
static int64_t width(const ipu__conv_part *p) { return ipu__conv_line_up(p->blocks.n); }

/* Whether one block of columns is all there are: then blocks of rows are complete one by one. */
static bool is_single(const ipu__columns *s, const ipu__conv_part *p)
{
    return s->c.n <= p->at_once && p->blocks.k <= p->blocks.kb;
}

/* Scratch in floats; each piece begins at a cache line. */
typedef struct room {
    int64_t panel, dy, dy_t, sums, n; /* planes come first */
} room;

static room get_room(const ipu__columns *s, const ipu__conv_part *p)
{
    room                    r      = {0};
    const ipu__xsmm_blocks *x      = &p->blocks;
    ipu_interval            planes = planes_of(s, p);
    int64_t                 lines  = LINES * ipu__conv_line_up(x->m);
    r.panel = s->in_place ? 0 : ipu__conv_line_up(p->at_once * (planes.end - planes.begin) * s->plane);
    r.dy    = r.panel + ipu__conv_line_up(x->mb * x->kb);
    r.dy_t  = r.dy + (x->n * x->kb > lines ? ipu__conv_line_up(x->n * x->kb) : lines);
    r.sums  = r.dy_t + x->kb * width(p);
    r.n     = r.sums + (is_single(s, p) ? x->mb : x->m) * width(p);
    return r;
}

static int64_t count_floats(const ipu__columns *s, const ipu__conv_part *p) { return get_room(s, p).n; }

static ipu_status make_blocks(const ipu__kernel_call *call, const ipu__columns *s, const ipu__conv_part *p,
                              ipu__xsmm_blocks *x)
{
    (void)call;
    return ipu__xsmm_blocks_make(x, p->is_direct ? s->n_outputs : p->blocks.kb, width(p), width(p), false,
                                 true);
}

const ipu__conv_way ipu__conv_weight_grad_way = {describe, count_floats, make_blocks};

/* ---- running ---- */

/* One group. */
typedef struct job {
    const ipu__conv_gemm *s;
    const ipu__conv_part *p;
    int64_t               bytes;
    float                *planes, *panel, *dy, *dy_t, *sums;
} job;

/* to[output][channel] of the part's channels, outputs [column, column + n) of images beginning at `dy`. */
static void transpose_dy(const job *j, const char *dy, int64_t column, int64_t n)
{
    const ipu__columns *s        = &j->s->base.columns;
    int64_t             channels = j->p->blocks.n, ld = j->p->blocks.kb;
    const char         *from = dy + j->p->channel.begin * s->n_outputs * j->bytes;
    if (s->type == IPU_FLOAT && j->p->at_once == 1) {
        ipu__transpose_floats((const float *)from + column, s->n_outputs, j->dy_t, width(j->p), channels, n);
        return;
    }
    ipu__outputs_gather(s->type, from, s->n_outputs, s->c.groups * s->c.out * s->n_outputs, s->n_outputs,
                        channels, column, n, j->dy, ld);
    ipu__transpose_floats(j->dy, ld, j->dy_t, width(j->p), channels, n);
}

/* Rows [row, row + n) of the sums of a group, as columns of d_w, to `out`. */
static void store(const job *j, char *out, int64_t row, int64_t n)
{
    const ipu__columns   *s   = &j->s->base.columns;
    const ipu__conv_part *p   = j->p;
    int64_t               all = s->c.in * s->n_taps, line = ipu__conv_line_up(n);
    char                 *to = out + (p->channel.begin * all + p->row.begin + row) * j->bytes;
    if (s->type == IPU_FLOAT) {
        ipu__transpose_floats(j->sums, width(p), (float *)to, all, n, p->blocks.n);
        return;
    }
    for (int64_t i = 0; i < p->blocks.n; i += LINES) {
        int64_t m = ipu__conv_least(p->blocks.n - i, LINES);
        ipu__transpose_floats(j->sums + i, width(p), j->dy, line, n, m);
        for (int64_t l = 0; l < m; l++)
            ipu__from_floats(s->type, j->dy + l * line, to + (i + l) * all * j->bytes, n);
    }
}

static void clear(const job *j, int64_t rows)
{
    memset(j->sums, 0, (size_t)(rows * width(j->p)) * sizeof *j->sums);
}

/* Where the columns of images lie. */
typedef struct source {
    const float *planes;
    int64_t      image_step;
} source;

static source stage(const job *j, const char *x, int64_t n_images)
{
    const ipu__columns   *s      = &j->s->base.columns;
    const ipu__conv_part *p      = j->p;
    int64_t               volume = ipu__conv_volume(s->c.x), step = s->c.groups * s->c.in * volume;
    ipu_interval          planes = planes_of(s, p);
    int64_t               n      = planes.end - planes.begin;
    const char           *first  = x + planes.begin * volume * j->bytes;
    if (s->in_place) return (source){(const float *)first, step};
    for (int64_t i = 0; i < n_images; i++)
        ipu__columns_stage(s, first + i * step * j->bytes, n, j->planes + i * n * s->plane);
    return (source){j->planes, n * s->plane};
}

/* Columns [k, k + depth) of rows [i, i + rows), times all of d_y^T. */
static void multiply(const job *j, const ipu__xsmm_blocks *b, const source *from, int64_t i, int64_t rows,
                     int64_t k, int64_t depth, float *sums)
{
    const ipu__columns   *s   = &j->s->base.columns;
    const ipu__conv_part *p   = j->p;
    int64_t               row = p->row.begin % s->n_taps + i;
    const float          *a   = j->p->is_direct ? from->planes + row * s->plane + k : j->panel;
    if (!j->p->is_direct)
        ipu__columns_gather(s, from->planes, from->image_step, row, rows, k, depth, j->panel, p->blocks.kb);
    for (int64_t c = 0; c < b->n; c += b->nb)
        ipu__xsmm_run(b, a, j->dy_t + c, sums + c, rows, ipu__conv_least(b->n - c, b->nb), depth, true);
}

/* One group: x and d_y of its first image, d_w. */
static void run_group(const job *j, const char *x, const char *dy, char *out)
{
    const ipu__columns   *s      = &j->s->base.columns;
    const ipu__conv_part *p      = j->p;
    int64_t               x_step = s->c.groups * s->c.in * ipu__conv_volume(s->c.x) * j->bytes;
    int64_t               y_step = s->c.groups * s->c.out * s->n_outputs * j->bytes;
    bool                  single = is_single(s, p);
    if (!single) clear(j, p->blocks.m);
    for (int64_t image = 0; image < s->c.n; image += j->p->at_once) {
        int64_t                 n    = ipu__conv_least(s->c.n - image, j->p->at_once);
        const ipu__xsmm_blocks *b    = n == j->p->at_once ? &p->blocks : &p->last;
        source                  from = stage(j, x + image * x_step, n);
        for (int64_t k = 0; k < b->k; k += b->kb) {
            int64_t depth = ipu__conv_least(b->k - k, b->kb);
            transpose_dy(j, dy + image * y_step, k, depth);
            for (int64_t i = 0; i < b->m; i += b->mb) {
                int64_t rows = ipu__conv_least(b->m - i, b->mb);
                if (single) clear(j, rows);
                multiply(j, b, &from, i, rows, k, depth, j->sums + (single ? 0 : i * width(p)));
                if (single) store(j, out, i, rows);
            }
        }
    }
    if (!single) store(j, out, 0, p->blocks.m);
}

ipu_status ipu__conv_weight_grad_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int index, int n_parts)
{
    const ipu__conv_gemm *s      = prepared;
    const ipu__columns   *v      = &s->base.columns;
    const ipu__conv      *c      = &v->c;
    const ipu__conv_part *p      = &s->parts[index];
    float                *floats = scratch;
    (void)call, (void)n_parts;
    if (p->at_once == 0) return IPU_OK;
    room r = get_room(v, p);
    job  j = {.s      = s,
              .p      = p,
              .bytes  = (int64_t)ipu_type_size(v->type),
              .planes = floats,
              .panel  = floats + r.panel,
              .dy     = floats + r.dy,
              .dy_t   = floats + r.dy_t,
              .sums   = floats + r.sums};
    for (int64_t g = 0; g < c->groups; g++)
        run_group(&j, (const char *)operand[X] + g * c->in * ipu__conv_volume(c->x) * j.bytes,
                  (const char *)operand[DY] + g * c->out * v->n_outputs * j.bytes,
                  (char *)operand[OUT] + g * c->out * c->in * v->n_taps * j.bytes);
    return IPU_OK;
}
