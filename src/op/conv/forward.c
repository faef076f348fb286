/* conv by products: y = w x columns of x, for each group and each image or, if they are small, a few of them.
 *
 * Columns are gathered in blocks that stay in the second-level cache. Sums go straight to y if it is float
 * and the block belongs to one image.
 */
#include "op/conv/cpu/gemm.h"

/* ---- at load ---- */

/* m: channels of y, k: channels of x and taps, n: columns of the images at once, which are the part's rows.
 * Direct: sums go to y. Parts have whole images; where there are fewer than parts, channels of y, so that
 * weights are read once, or, if those are few, columns, so that they are gathered once. */
static void describe(const ipu__columns *s, int index, int n_parts, ipu__conv_part *out)
{
    const ipu__conv *c = &s->c;
    *out = (ipu__conv_part){.image = {0, c->n}, .row = {0, s->n_outputs}, .channel = {0, c->out}};
    if (c->n % n_parts == 0 || c->n >= 4 * n_parts)
        out->image = ipu__op_part(c->n, 1, index, n_parts);
    else if (c->out >= 64 * n_parts)
        out->channel = ipu__op_part(c->out, 16, index, n_parts);
    else
        out->row = ipu__op_part(s->n_outputs, c->y[2] >= 16 ? c->y[2] : 1, index, n_parts);
    int64_t images   = out->image.end - out->image.begin;
    int64_t width    = out->row.end - out->row.begin;
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
    ipu__conv_set_blocks(out, sizes, width * (images % out->at_once));
}

static ipu__conv_room get_room(const ipu__columns *s, const ipu__conv_part *p)
{
    const ipu__xsmm_blocks *x = &p->blocks;
    return ipu__conv_make_room(s->in_place ? 0 : p->at_once * s->c.in * s->plane,
                               s->is_product && p->is_direct ? 0 : x->kb * x->nb,
                               s->type == IPU_FLOAT ? 0 : x->mb * x->kb, p->is_direct ? 0 : x->mb * x->nb);
}

static int64_t count_floats(const ipu__columns *s, const ipu__conv_part *p)
{
    return get_room(s, p).n; /* what follows is the epilogue's */
}

static ipu_status make_blocks(const ipu__kernel_call *call, const ipu__columns *s, const ipu__conv_part *p,
                              ipu__xsmm_blocks *x)
{
    bool    direct = s->is_product && p->is_direct;
    int64_t lda    = s->type == IPU_FLOAT ? x->k : x->kb;
    return ipu__xsmm_blocks_make(x, lda, direct ? s->n_outputs : p->blocks.nb,
                                 p->is_direct ? s->n_outputs : p->blocks.nb, false,
                                 ipu__kernel_has(call, IPU__CONV_BIAS));
}

const ipu__conv_way ipu__conv_forward_way = {describe, count_floats, make_blocks};

/* ---- running ---- */

/* One group of the images at once. */
typedef struct job {
    const ipu__conv_gemm   *s;
    const ipu__conv_part   *p;
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
    const ipu__columns *s = &j->s->base.columns;
    for (int64_t done = 0; done < n && j->s->base.epilogue.chain;) {
        int64_t image = (column + done) / s->n_outputs, at = (column + done) % s->n_outputs;
        int64_t m     = ipu__conv_least(n - done, s->n_outputs - at);
        int64_t first = j->channel + image * s->c.groups * s->c.out + row;
        ipu__epilogue_run(&j->s->base.epilogue, j->operand, first * s->n_outputs + at, m, s->n_outputs, rows,
                          j->chain_scratch);
        done += m;
    }
}

static const float *get_columns(const job *j, int64_t k, int64_t depth, int64_t column, int64_t n)
{
    const ipu__columns *s = &j->s->base.columns;
    if (s->is_product && j->p->is_direct) return j->planes + k * s->plane + column;
    ipu__columns_gather(s, j->planes, j->image_step, k, depth, column, n, j->panel, j->p->blocks.nb);
    return j->panel;
}

static const float *get_weights(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const char *from = j->w + (row * j->x->k + k) * j->bytes;
    if (j->s->base.columns.type == IPU_FLOAT) return (const float *)from;
    ipu__rows_to_floats(j->s->base.columns.type, from, j->x->k, j->weights, j->x->kb, rows, depth);
    return j->weights;
}

static void fill_bias(const job *j, float *sums, int64_t ld, int64_t row, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < rows && j->bias; i++) {
        float value;
        ipu__to_floats(j->s->base.columns.type, j->bias + (row + i) * j->bytes, &value, 1);
        for (int64_t l = 0; l < n; l++) sums[i * ld + l] = value;
    }
}

/* A block of columns is gathered once for all rows. */
static void multiply_direct(const job *j, int64_t column, int64_t n)
{
    const ipu__xsmm_blocks *x  = j->x;
    int64_t                 ld = j->s->base.columns.n_outputs;
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
    const ipu__columns     *s  = &j->s->base.columns;
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
    const ipu__columns *s    = &j->s->base.columns;
    int64_t             step = s->c.groups * s->c.in * ipu__conv_volume(s->c.x);
    j->x                     = n_images == j->p->at_once ? &j->p->blocks : &j->p->last;
    j->planes                = s->in_place ? (const float *)x : planes;
    j->image_step            = s->in_place ? step : s->c.in * s->plane;
    for (int64_t i = 0; i < n_images && !s->in_place; i++)
        ipu__columns_stage(s, x + i * step * j->bytes, s->c.in, planes + i * j->image_step);
    for (int64_t c = 0; c < j->x->n; c += j->x->nb)
        (j->p->is_direct ? multiply_direct : multiply_sums)(j, j->p->row.begin + c,
                                                            ipu__conv_least(j->x->n - c, j->x->nb));
}

ipu_status ipu__conv_forward_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                 void *scratch, int index, int n_parts)
{
    const ipu__conv_gemm *s = prepared;
    const ipu__conv      *c = &s->base.columns.c;
    const ipu__conv_part *p = &s->parts[index];
    (void)n_parts;
    if (p->at_once == 0) return IPU_OK;
    ipu__conv_room r      = get_room(&s->base.columns, p);
    float         *floats = scratch;
    job            j      = {.s             = s,
                             .p             = p,
                             .bytes         = (int64_t)ipu_type_size(s->base.columns.type),
                             .panel         = floats + r.panel,
                             .weights       = floats + r.weights,
                             .sums          = floats + r.sums,
                             .operand       = operand,
                             .chain_scratch = floats + r.n};
    int64_t        x_step = c->in * ipu__conv_volume(c->x), w_step = c->in * s->base.columns.n_taps;
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once)
        for (int64_t g = 0; g < c->groups; g++) {
            int64_t first = g * c->out + p->channel.begin;
            j.w           = (const char *)operand[IPU__CONV_W] + first * w_step * j.bytes;
            j.bias        = ipu__kernel_has(call, IPU__CONV_BIAS)
                              ? (const char *)operand[IPU__CONV_BIAS] + first * j.bytes
                              : NULL;
            j.channel     = i * c->groups * c->out + first;
            j.y           = (char *)operand[IPU__CONV_OUT] + j.channel * s->base.columns.n_outputs * j.bytes;
            run_images(&j, (const char *)operand[IPU__CONV_X] + (i * c->groups + g) * x_step * j.bytes,
                       ipu__conv_least(p->image.end - i, p->at_once), floats);
        }
    return IPU_OK;
}
