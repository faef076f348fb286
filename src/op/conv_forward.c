/* conv by products: y = w x columns of x, for each group and each image or, if they are small, a few of them.
 *
 * Columns are gathered a block at a time, which stays in the second-level cache. Sums go straight to y where
 * it is float and a block belongs to one image.
 */
#include "base/alloc.h"
#include "op/conv_gemm.h"

typedef struct part {
    ipu__conv_part   range;   /* rows are columns of the matrix */
    ipu_interval     channel; /* of y, of each group */
    ipu__xsmm_blocks blocks;  /* m: channels out, k: channels in and taps, n: columns of the images at once */
    ipu__xsmm_blocks last;    /* the same for the fewer images that may be left; n is 0 if none are */
    int64_t          at_once;
    bool             is_direct; /* sums go to y */
} part;

typedef struct state {
    ipu__columns  columns;
    ipu__epilogue epilogue;
    bool          has_bias;
    int           n_parts;
    part          parts[];
} state;

bool ipu__conv_gemm_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)n_parts;
    ipu__conv c    = ipu__conv_get(call);
    ipu_type  type = call->operand[0].type;
    if (!ipu__xsmm_works(cpu_features) || type == IPU_DOUBLE) return false;
    return c.n > 0 && c.groups > 0 && c.in > 0 && c.out > 0 && ipu__conv_volume(c.y) > 0
        && ipu__conv_volume(c.x) > 0 && ipu__conv_volume(c.k) > 0;
}

/* ---- at load ---- */

/* Whole images; where there are fewer than parts, channels of y, so that weights are read once, or, if those
 * are few, columns, so that they are gathered once. */
static void describe(const ipu__columns *s, int index, int n_parts, part *out)
{
    const ipu__conv *c = &s->c;
    *out               = (part){.range = {{0, c->n}, {0, s->n_outputs}}, .channel = {0, c->out}};
    if (c->n % n_parts == 0 || c->n >= 4 * n_parts)
        out->range.image = ipu__op_part(c->n, 1, index, n_parts);
    else if (c->out >= 64 * n_parts)
        out->channel = ipu__op_part(c->out, 16, index, n_parts);
    else
        out->range.row = ipu__op_part(s->n_outputs, c->y[2] >= 16 ? c->y[2] : 1, index, n_parts);
    int64_t images   = out->range.image.end - out->range.image.begin;
    int64_t width    = out->range.row.end - out->range.row.begin;
    int64_t channels = out->channel.end - out->channel.begin;
    if (images == 0 || width == 0 || channels == 0) return;
    out->at_once           = width < s->n_outputs ? 1 : ipu__conv_images_at_once(c, images);
    out->is_direct         = s->type == IPU_FLOAT && out->at_once == 1;
    ipu__xsmm_blocks sizes = {.m = channels, .k = c->in * s->n_taps, .n = width * out->at_once};
    sizes.mb               = ipu__xsmm_block(sizes.m, IPU__CONV_BLOCK, 6);
    sizes.kb               = ipu__xsmm_block(sizes.k, IPU__CONV_BLOCK, 8);
    /* With few rows in the matrix, blocks are wider and still fit the cache. */
    int64_t wide = IPU__CONV_BLOCK * IPU__CONV_BLOCK / sizes.kb / 64 * 64;
    sizes.nb     = ipu__xsmm_block(sizes.n, wide > IPU__MAX_COLUMNS ? IPU__MAX_COLUMNS : wide, 64);
    out->blocks  = sizes;
    sizes.n      = width * (images % out->at_once);
    if (sizes.n > 0 && sizes.n < sizes.nb) sizes.nb = sizes.n;
    out->last = sizes;
}

/* Scratch in floats; each piece begins at a cache line. */
typedef struct room {
    int64_t panel, weights, sums, n; /* planes come first */
} room;

static room get_room(const ipu__columns *s, const part *p)
{
    room r = {0};
    if (p->at_once == 0) return r;
    const ipu__xsmm_blocks *x = &p->blocks;
    r.panel                   = s->in_place ? 0 : ipu__conv_line_up(p->at_once * s->c.in * s->plane);
    r.weights = r.panel + (s->is_product && p->is_direct ? 0 : ipu__conv_line_up(x->kb * x->nb));
    r.sums    = r.weights + (s->type == IPU_FLOAT ? 0 : ipu__conv_line_up(x->mb * x->kb));
    r.n       = r.sums + (p->is_direct ? 0 : ipu__conv_line_up(x->mb * x->nb));
    return r;
}

size_t ipu__conv_forward_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    ipu__conv    c = ipu__conv_get(call);
    ipu__columns s;
    int64_t      most = 0;
    if (ipu__columns_init(&s, &c, call->operand[0].type) != IPU_OK) return SIZE_MAX;
    for (int i = 0; i < n_parts; i++) {
        part p;
        describe(&s, i, n_parts, &p);
        room r = get_room(&s, &p);
        if (r.n > most) most = r.n;
    }
    ipu__columns_fini(&s);
    size_t more = ipu__epilogue_scratch_bytes(call);
    return more == SIZE_MAX ? more : (size_t)ipu__conv_line_up(most) * sizeof(float) + more;
}

static ipu_status make_blocks(const state *s, const part *p, ipu__xsmm_blocks *x)
{
    bool    direct = s->columns.is_product && p->is_direct;
    int64_t lda    = s->columns.type == IPU_FLOAT ? x->k : x->kb;
    return ipu__xsmm_blocks_make(x, lda, direct ? s->columns.n_outputs : p->blocks.nb,
                                 p->is_direct ? s->columns.n_outputs : p->blocks.nb, false, s->has_bias);
}

ipu_status ipu__conv_forward_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    ipu__conv c = ipu__conv_get(call);
    state    *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out        = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts        = n_parts;
    s->has_bias       = ipu__kernel_has(call, IPU__CONV_BIAS);
    ipu_status status = ipu__columns_init(&s->columns, &c, call->operand[0].type);
    if (status == IPU_OK) status = ipu__epilogue_init(&s->epilogue, call);
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        part *p = &s->parts[i];
        describe(&s->columns, i, n_parts, p);
        if (p->at_once > 0) status = make_blocks(s, p, &p->blocks);
        if (p->last.n > 0 && status == IPU_OK) status = make_blocks(s, p, &p->last);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_forward_release(s);
    return status;
}

void ipu__conv_forward_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    ipu__epilogue_fini(&s->epilogue);
    ipu__columns_fini(&s->columns);
    ipu__free(s);
}

/* ---- running ---- */

/* One group of the images at once. */
typedef struct job {
    const state            *s;
    const part             *p;
    const ipu__xsmm_blocks *x;
    const char             *w, *bias;
    char                   *y;      /* of the first image */
    const float            *planes; /* likewise */
    int64_t                 image_step, bytes;
    float                  *panel, *weights, *sums;
    void *const            *operand;
    int64_t                 channel; /* of y, in the first image, among those of all */
    void                   *chain_scratch;
} job;

/* The epilogue on columns of `rows` channels that are complete, image by image. */
static void finish(const job *j, int64_t row, int64_t rows, int64_t column, int64_t n)
{
    const ipu__columns *s = &j->s->columns;
    for (int64_t done = 0; done < n && j->s->epilogue.chain;) {
        int64_t image = (column + done) / s->n_outputs, at = (column + done) % s->n_outputs;
        int64_t m     = ipu__conv_least(n - done, s->n_outputs - at);
        int64_t first = j->channel + image * s->c.groups * s->c.out + row;
        ipu__epilogue_run(&j->s->epilogue, j->operand, first * s->n_outputs + at, m, s->n_outputs, rows,
                          j->chain_scratch);
        done += m;
    }
}

static const float *get_columns(const job *j, int64_t k, int64_t depth, int64_t column, int64_t n)
{
    const ipu__columns *s = &j->s->columns;
    if (s->is_product && j->p->is_direct) return j->planes + k * s->plane + column;
    ipu__columns_gather(s, j->planes, j->image_step, k, depth, column, n, j->panel, j->p->blocks.nb);
    return j->panel;
}

static const float *get_weights(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const char *from = j->w + (row * j->x->k + k) * j->bytes;
    if (j->s->columns.type == IPU_FLOAT) return (const float *)from;
    for (int64_t i = 0; i < rows; i++)
        ipu__to_floats(j->s->columns.type, from + i * j->x->k * j->bytes, j->weights + i * j->x->kb, depth);
    return j->weights;
}

static void fill_bias(const job *j, float *sums, int64_t ld, int64_t row, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows && j->bias; i++) {
        float value;
        ipu__to_floats(j->s->columns.type, j->bias + (row + i) * j->bytes, &value, 1);
        for (int64_t l = 0; l < n; l++) sums[i * ld + l] = value;
    }
}

/* A block of columns is gathered once for all rows. */
static void multiply_direct(const job *j, int64_t column, int64_t n)
{
    const ipu__xsmm_blocks *x  = j->x;
    int64_t                 ld = j->s->columns.n_outputs;
    float                  *y  = (float *)j->y + column;
    fill_bias(j, y, ld, 0, x->m, n);
    for (int64_t k = 0; k < x->k; k += x->kb) {
        int64_t      depth = ipu__conv_least(x->k - k, x->kb);
        const float *b     = get_columns(j, k, depth, column, n);
        for (int64_t i = 0; i < x->m; i += x->mb) {
            int64_t rows = ipu__conv_least(x->m - i, x->mb);
            ipu__xsmm_run(x, get_weights(j, i, rows, k, depth), b, y + i * ld, rows, n, depth,
                          k > 0 || j->bias);
            if (k + depth == x->k) finish(j, i, rows, column, n);
        }
    }
}

static void multiply_sums(const job *j, int64_t column, int64_t n)
{
    const ipu__columns     *s  = &j->s->columns;
    const ipu__xsmm_blocks *x  = j->x;
    const float            *b  = NULL;
    int64_t                 ld = j->p->blocks.nb;
    for (int64_t i = 0; i < x->m; i += x->mb) {
        int64_t rows = ipu__conv_least(x->m - i, x->mb);
        fill_bias(j, j->sums, ld, i, rows, n);
        for (int64_t k = 0; k < x->k; k += x->kb) {
            int64_t depth = ipu__conv_least(x->k - k, x->kb);
            if (!b || x->k > x->kb) b = get_columns(j, k, depth, column, n);
            ipu__xsmm_run(x, get_weights(j, i, rows, k, depth), b, j->sums, rows, n, depth, k > 0 || j->bias);
        }
        ipu__outputs_scatter(s->type, j->y + i * s->n_outputs * j->bytes, s->n_outputs,
                             s->c.groups * s->c.out * s->n_outputs, s->n_outputs, rows, column, n, j->sums,
                             ld);
        finish(j, i, rows, column, n);
    }
}

static void run_images(job *j, const char *x, int64_t n_images, float *planes)
{
    const ipu__columns *s    = &j->s->columns;
    int64_t             step = s->c.groups * s->c.in * ipu__conv_volume(s->c.x);
    j->x                     = n_images == j->p->at_once ? &j->p->blocks : &j->p->last;
    j->planes                = s->in_place ? (const float *)x : planes;
    j->image_step            = s->in_place ? step : s->c.in * s->plane;
    for (int64_t i = 0; i < n_images && !s->in_place; i++)
        ipu__columns_stage(s, x + i * step * j->bytes, s->c.in, planes + i * j->image_step);
    for (int64_t c = 0; c < j->x->n; c += j->x->nb)
        (j->p->is_direct ? multiply_direct : multiply_sums)(j, j->p->range.row.begin + c,
                                                            ipu__conv_least(j->x->n - c, j->x->nb));
}

ipu_status ipu__conv_forward_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                 void *scratch, int index, int n_parts)
{
    const state     *s = prepared;
    const ipu__conv *c = &s->columns.c;
    const part      *p = &s->parts[index];
    (void)call, (void)n_parts;
    if (p->at_once == 0) return IPU_OK;
    room    r      = get_room(&s->columns, p);
    float  *floats = scratch;
    job     j      = {.s             = s,
                      .p             = p,
                      .bytes         = (int64_t)ipu_type_size(s->columns.type),
                      .panel         = floats + r.panel,
                      .weights       = floats + r.weights,
                      .sums          = floats + r.sums,
                      .operand       = operand,
                      .chain_scratch = floats + ipu__conv_line_up(r.n)};
    int64_t x_step = c->in * ipu__conv_volume(c->x), w_step = c->in * s->columns.n_taps;
    for (int64_t i = p->range.image.begin; i < p->range.image.end; i += p->at_once)
        for (int64_t g = 0; g < c->groups; g++) {
            int64_t first = g * c->out + p->channel.begin;
            j.w           = (const char *)operand[IPU__CONV_W] + first * w_step * j.bytes;
            j.bias        = s->has_bias ? (const char *)operand[IPU__CONV_BIAS] + first * j.bytes : NULL;
            j.channel     = i * c->groups * c->out + first;
            j.y           = (char *)operand[IPU__CONV_OUT] + j.channel * s->columns.n_outputs * j.bytes;
            run_images(&j, (const char *)operand[IPU__CONV_X] + (i * c->groups + g) * x_step * j.bytes,
                       ipu__conv_least(p->range.image.end - i, p->at_once), floats);
        }
    return IPU_OK;
}
