/* conv_input_grad by products: columns = w^T x d_y, which are then added to the elements they belong to. */
#include <string.h>

#include "op/conv/cpu/gemm.h"

enum { DY = IPU__CONV_INPUT_GRAD_DY, W = IPU__CONV_INPUT_GRAD_W, OUT = IPU__CONV_INPUT_GRAD_OUT };

/* ---- at load ---- */

/* m: channels of x and taps, k: channels of y, n: columns of the images at once. Direct: products are
 * elements of planes. */
static void describe(const ipu__columns *s, int index, int n_parts, ipu__conv_part *out)
{
    const ipu__conv *c = &s->c;
    *out               = (ipu__conv_part){.image = {0, c->n}, .channel = {0, c->in}};
    if (c->n % n_parts == 0 || c->n >= 4 * n_parts)
        out->image = ipu__op_part(c->n, 1, index, n_parts);
    else
        out->channel = ipu__op_part(c->in, 1, index, n_parts);
    int64_t images   = out->image.end - out->image.begin;
    int64_t channels = out->channel.end - out->channel.begin;
    if (images == 0 || channels == 0) return;
    out->at_once           = ipu__conv_images_at_once(c, images);
    out->is_direct         = s->is_product && out->at_once == 1;
    ipu__xsmm_blocks sizes = {.m = channels * s->n_taps, .k = c->out, .n = s->n_outputs * out->at_once};
    sizes.mb               = ipu__xsmm_block(sizes.m, IPU__CONV_BLOCK, 6);
    sizes.kb               = ipu__xsmm_block(sizes.k, IPU__CONV_BLOCK, 8);
    sizes.nb               = ipu__xsmm_block(sizes.n, IPU__CONV_BLOCK, 64);
    ipu__conv_set_blocks(out, sizes, s->n_outputs * (images % out->at_once));
}

static ipu__conv_room get_room(const ipu__columns *s, const ipu__conv_part *p)
{
    const ipu__xsmm_blocks *x        = &p->blocks;
    int64_t                 channels = p->channel.end - p->channel.begin;
    return ipu__conv_make_room(s->in_place ? 0 : p->at_once * channels * s->plane, x->k * x->nb,
                               s->type == IPU_FLOAT ? 0 : x->mb * x->kb, p->is_direct ? 0 : x->mb * x->nb);
}

static int64_t count_floats(const ipu__columns *s, const ipu__conv_part *p) { return get_room(s, p).n; }

/* w lies transposed, as kernels can take it; converted blocks of it too. */
static ipu_status make_blocks(const ipu__kernel_call *call, const ipu__columns *s, const ipu__conv_part *p,
                              ipu__xsmm_blocks *x)
{
    (void)call;
    int64_t lda = s->type == IPU_FLOAT ? s->c.in * s->n_taps : x->mb;
    return ipu__xsmm_blocks_make(x, lda, p->blocks.nb, p->is_direct ? s->n_outputs : p->blocks.nb, true,
                                 false);
}

const ipu__conv_way ipu__conv_input_grad_way = {describe, count_floats, make_blocks};

/* ---- running ---- */

/* One group of the images at once. */
typedef struct job {
    const ipu__conv_gemm   *s;
    const ipu__conv_part   *p;
    const ipu__xsmm_blocks *x;
    const char             *w, *dy;
    float                  *planes;
    int64_t                 image_step, bytes;
    float                  *panel, *weights, *sums;
} job;

/* Rows of a block begin at channel.begin. */
static const float *get_weights(const job *j, int64_t row, int64_t rows, int64_t k, int64_t depth)
{
    const ipu__columns *s    = &j->s->base.columns;
    int64_t             all  = s->c.in * s->n_taps;
    const char         *from = j->w + (k * all + j->p->channel.begin * s->n_taps + row) * j->bytes;
    if (s->type == IPU_FLOAT) return (const float *)from;
    ipu__rows_to_floats(s->type, from, all, j->weights, j->x->mb, depth, rows);
    return j->weights;
}

static void multiply(const job *j, int64_t column, int64_t n)
{
    const ipu__columns     *s  = &j->s->base.columns;
    const ipu__xsmm_blocks *x  = j->x;
    int64_t                 ld = j->p->blocks.nb;
    ipu__outputs_gather(s->type, j->dy, s->n_outputs, s->c.groups * s->c.out * s->n_outputs, s->n_outputs,
                        x->k, column, n, j->panel, ld);
    for (int64_t i = 0; i < x->m; i += x->mb) {
        int64_t rows = ipu__conv_least(x->m - i, x->mb);
        float  *sums = j->p->is_direct ? j->planes + i * s->plane + column : j->sums;
        for (int64_t k = 0; k < x->k; k += x->kb) {
            int64_t depth = ipu__conv_least(x->k - k, x->kb);
            ipu__xsmm_run(x, get_weights(j, i, rows, k, depth), j->panel + k * ld, sums, rows, n, depth,
                          k > 0);
        }
        if (!j->p->is_direct) ipu__columns_scatter(s, j->planes, j->image_step, i, rows, column, n, sums, ld);
    }
}

/* `dx` is where the part's first channel of the first image lies. */
static void run_images(job *j, char *dx, int64_t n_images, float *planes)
{
    const ipu__columns *s        = &j->s->base.columns;
    int64_t             step     = s->c.groups * s->c.in * ipu__conv_volume(s->c.x);
    int64_t             channels = j->p->channel.end - j->p->channel.begin;
    j->x                         = n_images == j->p->at_once ? &j->p->blocks : &j->p->last;
    j->planes                    = s->in_place ? (float *)dx : planes;
    j->image_step                = s->in_place ? step : channels * s->plane;
    for (int64_t i = 0; i < n_images && !j->p->is_direct; i++)
        memset(j->planes + i * j->image_step, 0, (size_t)(channels * s->plane) * sizeof(float));
    for (int64_t c = 0; c < j->x->n; c += j->x->nb) multiply(j, c, ipu__conv_least(j->x->n - c, j->x->nb));
    for (int64_t i = 0; i < n_images && !s->in_place; i++)
        ipu__columns_unstage(s, planes + i * j->image_step, channels, dx + i * step * j->bytes);
}

ipu_status ipu__conv_input_grad_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                    void *scratch, int index, int n_parts)
{
    const ipu__conv_gemm *s = prepared;
    const ipu__conv      *c = &s->base.columns.c;
    const ipu__conv_part *p = &s->parts[index];
    (void)call, (void)n_parts;
    if (p->at_once == 0) return IPU_OK;
    ipu__conv_room r      = get_room(&s->base.columns, p);
    float         *floats = scratch;
    job            j      = {.s       = s,
                             .p       = p,
                             .bytes   = (int64_t)ipu_type_size(s->base.columns.type),
                             .panel   = floats + r.panel,
                             .weights = floats + r.weights,
                             .sums    = floats + r.sums};
    int64_t        volume = ipu__conv_volume(c->x), y_step = c->out * s->base.columns.n_outputs;
    int64_t        w_step = c->out * c->in * s->base.columns.n_taps;
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once)
        for (int64_t g = 0; g < c->groups; g++) {
            int64_t channel = (i * c->groups + g) * c->in + p->channel.begin;
            j.w             = (const char *)operand[W] + g * w_step * j.bytes;
            j.dy            = (const char *)operand[DY] + (i * c->groups + g) * y_step * j.bytes;
            run_images(&j, (char *)operand[OUT] + channel * volume * j.bytes,
                       ipu__conv_least(p->image.end - i, p->at_once), floats);
        }
    return IPU_OK;
}
