/* conv_weight_grad by products: d_w^T = columns of x times d_y^T, summed over the images.
 *
 * Parts share out the rows of the product (channels and taps) or its columns (channels of y), so that nothing is
 * summed between them.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/conv_gemm.h"

enum { X = IPU__CONV_WEIGHT_GRAD_X, DY = IPU__CONV_WEIGHT_GRAD_DY, OUT = IPU__CONV_WEIGHT_GRAD_OUT };

enum { LINES = 8 }; /* rows of d_w made at a time from the product: a block of the transposition */

typedef struct part {
    ipu_interval     row, channel; /* of the product: channels and taps of x; channels of y */
    ipu_interval     plane;        /* channels of x that the rows read */
    ipu__xsmm_blocks blocks;       /* m: rows, n: channels of y, k: columns of the images at once */
    ipu__xsmm_blocks last;         /* the same for the fewer images that may be left; k is 0 if none are */
} part;

typedef struct state {
    ipu__columns columns;
    int64_t      at_once;
    bool         is_direct; /* x itself is the matrix of columns */
    part         parts[];
} state;

/* ---- at load ---- */

static void describe(const ipu__columns *s, int64_t at_once, int index, int n_parts, part *out)
{
    const ipu__conv *c    = &s->c;
    int64_t          rows = c->in * s->n_taps;
    *out                  = (part){.row = {0, rows}, .channel = {0, c->out}};
    /* What is not shared out is gathered by every part: d_y is transposed, which costs twice a copy. */
    if (rows >= 2 * c->out || c->out < 16 * n_parts)
        out->row = ipu__op_part(rows, 1, index, n_parts);
    else
        out->channel = ipu__op_part(c->out, 16, index, n_parts);
    out->plane = (ipu_interval){out->row.begin / s->n_taps, ipu__op_ceil_div(out->row.end, s->n_taps)};
    ipu__xsmm_blocks sizes = {.m = out->row.end - out->row.begin,
                              .n = out->channel.end - out->channel.begin,
                              .k = s->n_outputs * at_once};
    if (sizes.m == 0 || sizes.n == 0) return;
    sizes.mb    = ipu__xsmm_block(sizes.m, IPU__CONV_BLOCK, 6);
    sizes.nb    = ipu__xsmm_block(sizes.n, IPU__CONV_BLOCK, 64);
    sizes.kb    = ipu__xsmm_block(sizes.k, IPU__CONV_BLOCK, 16);
    out->blocks = sizes;
    sizes.k     = s->n_outputs * (c->n % at_once);
    if (sizes.k > 0 && sizes.k < sizes.kb) sizes.kb = sizes.k;
    out->last = sizes;
}

static bool is_empty(const part *p) { return p->blocks.m == 0 || p->blocks.n == 0; }

/* Floats from a row of the product, and of d_y^T, to the next. */
static int64_t width(const part *p) { return ipu__conv_line_up(p->blocks.n); }

/* Whether one block of columns is all there are: then blocks of rows are complete one by one. */
static bool is_single(const ipu__columns *s, int64_t at_once, const part *p)
{
    return s->c.n <= at_once && p->blocks.k <= p->blocks.kb;
}

/* Scratch in floats; each piece begins at a cache line. */
typedef struct room {
    int64_t panel, dy, dy_t, sums, n; /* planes come first */
} room;

static room get_room(const ipu__columns *s, int64_t at_once, const part *p)
{
    room                    r = {0};
    const ipu__xsmm_blocks *x = &p->blocks;
    if (is_empty(p)) return r;
    int64_t lines = LINES * ipu__conv_line_up(x->m);
    r.panel       = s->in_place ? 0 : ipu__conv_line_up(at_once * (p->plane.end - p->plane.begin) * s->plane);
    r.dy          = r.panel + ipu__conv_line_up(x->mb * x->kb);
    r.dy_t        = r.dy + (x->n * x->kb > lines ? ipu__conv_line_up(x->n * x->kb) : lines);
    r.sums        = r.dy_t + x->kb * width(p);
    r.n           = r.sums + (is_single(s, at_once, p) ? x->mb : x->m) * width(p);
    return r;
}

size_t ipu__conv_weight_grad_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    ipu__conv    c       = ipu__conv_get(call);
    int64_t      at_once = ipu__conv_images_at_once(&c, c.n), most = 0;
    ipu__columns s;
    if (ipu__columns_init(&s, &c, call->operand[OUT].type) != IPU_OK) return SIZE_MAX;
    for (int i = 0; i < n_parts; i++) {
        part p;
        describe(&s, at_once, i, n_parts, &p);
        room r = get_room(&s, at_once, &p);
        if (r.n > most) most = r.n;
    }
    ipu__columns_fini(&s);
    return (size_t)most * sizeof(float);
}

static ipu_status make_blocks(const state *s, const part *p, ipu__xsmm_blocks *x)
{
    return ipu__xsmm_blocks_make(x, s->is_direct ? s->columns.n_outputs : p->blocks.kb, width(p), width(p),
                                 false, true);
}

ipu_status ipu__conv_weight_grad_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    ipu__conv c = ipu__conv_get(call);
    state    *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out        = NULL;
    if (!s) return ipu__fail_memory();
    ipu_status status = ipu__columns_init(&s->columns, &c, call->operand[OUT].type);
    s->at_once        = ipu__conv_images_at_once(&c, c.n);
    s->is_direct      = s->columns.is_product && s->at_once == 1;
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        part *p = &s->parts[i];
        describe(&s->columns, s->at_once, i, n_parts, p);
        if (!is_empty(p)) status = make_blocks(s, p, &p->blocks);
        if (!is_empty(p) && p->last.k > 0 && status == IPU_OK) status = make_blocks(s, p, &p->last);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_weight_grad_release(s);
    return status;
}

void ipu__conv_weight_grad_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    ipu__columns_fini(&s->columns);
    ipu__free(s);
}

/* ---- running ---- */

/* One group. */
typedef struct job {
    const state *s;
    const part  *p;
    int64_t      bytes;
    float       *planes, *panel, *dy, *dy_t, *sums;
} job;

/* to[output][channel] of the part's channels, outputs [column, column + n) of images beginning at `dy`. */
static void transpose_dy(const job *j, const char *dy, int64_t column, int64_t n)
{
    const ipu__columns *s        = &j->s->columns;
    int64_t             channels = j->p->blocks.n, ld = j->p->blocks.kb;
    const char         *from = dy + j->p->channel.begin * s->n_outputs * j->bytes;
    if (s->type == IPU_FLOAT && j->s->at_once == 1) {
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
    const ipu__columns *s   = &j->s->columns;
    const part         *p   = j->p;
    int64_t             all = s->c.in * s->n_taps, line = ipu__conv_line_up(n);
    char               *to = out + (p->channel.begin * all + p->row.begin + row) * j->bytes;
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
    const ipu__columns *s      = &j->s->columns;
    const part         *p      = j->p;
    int64_t             volume = ipu__conv_volume(s->c.x), step = s->c.groups * s->c.in * volume;
    int64_t             n     = p->plane.end - p->plane.begin;
    const char         *first = x + p->plane.begin * volume * j->bytes;
    if (s->in_place) return (source){(const float *)first, step};
    for (int64_t i = 0; i < n_images; i++)
        ipu__columns_stage(s, first + i * step * j->bytes, n, j->planes + i * n * s->plane);
    return (source){j->planes, n * s->plane};
}

/* Columns [k, k + depth) of rows [i, i + rows), times all of d_y^T. */
static void multiply(const job *j, const ipu__xsmm_blocks *b, const source *from, int64_t i, int64_t rows,
                     int64_t k, int64_t depth, float *sums)
{
    const ipu__columns *s   = &j->s->columns;
    const part         *p   = j->p;
    int64_t             row = p->row.begin - p->plane.begin * s->n_taps + i;
    const float        *a   = j->s->is_direct ? from->planes + row * s->plane + k : j->panel;
    if (!j->s->is_direct)
        ipu__columns_gather(s, from->planes, from->image_step, row, rows, k, depth, j->panel, p->blocks.kb);
    for (int64_t c = 0; c < b->n; c += b->nb)
        ipu__xsmm_run(b, a, j->dy_t + c, sums + c, rows, ipu__conv_least(b->n - c, b->nb), depth, true);
}

/* One group: x and d_y of its first image, d_w. */
static void run_group(const job *j, const char *x, const char *dy, char *out)
{
    const ipu__columns *s      = &j->s->columns;
    const part         *p      = j->p;
    int64_t             x_step = s->c.groups * s->c.in * ipu__conv_volume(s->c.x) * j->bytes;
    int64_t             y_step = s->c.groups * s->c.out * s->n_outputs * j->bytes;
    bool                single = is_single(s, j->s->at_once, p);
    if (!single) clear(j, p->blocks.m);
    for (int64_t image = 0; image < s->c.n; image += j->s->at_once) {
        int64_t                 n    = ipu__conv_least(s->c.n - image, j->s->at_once);
        const ipu__xsmm_blocks *b    = n == j->s->at_once ? &p->blocks : &p->last;
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

ipu_status ipu__conv_weight_grad_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int index, int n_parts)
{
    const state        *s      = prepared;
    const ipu__columns *v      = &s->columns;
    const ipu__conv    *c      = &v->c;
    const part         *p      = &s->parts[index];
    float              *floats = scratch;
    (void)call, (void)n_parts;
    if (is_empty(p)) return IPU_OK;
    room r = get_room(v, s->at_once, p);
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
