/* conv_integer and qlinear_conv by oneDNN's matrix product.
 *
 * Channels of the image are moved last, so that a tap of a patch is one run of bytes; weights are reordered
 * alike. Padding is the zero point, and the contribution of zero points to sums is subtracted at the end.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/quantize/conv.h"

typedef struct layout {
    const ipu__kernel_call    *call;
    const ipu__int8_roles     *r;
    const ipu__quantize_loops *loops;
    ipu__conv                  c;
    int64_t                    taps, in, out, k;          /* in, out: elements of a plane */
    int64_t                    block, blocks;             /* outputs at once; how often in a plane */
    bool                       is_signed, flips, is_copy; /* is_copy: patches are the image itself */
    /* in the scratch memory, after oneDNN's */
    size_t image, patches, weights, sums, column, zero, line, scales, end;
} layout;

static size_t rounded(double bytes) { return ((size_t)bytes + 63) / 64 * 64; }

static bool is_pointwise(const ipu__conv *c)
{
    for (int d = 0; d < 3; d++)
        if (c->k[d] != 1 || c->stride[d] != 1 || c->pad[d] != 0 || c->pad_end[d] != 0) return false;
    return true;
}

static layout get_layout(const ipu__kernel_call *call, int n_parts)
{
    enum { MOST = 256, LEAST = 64 };
    layout l    = {.call = call, .r = ipu__int8_roles_of(call), .c = ipu__int8_conv_get(call)};
    l.loops     = &IPU__SIMD_PICK(ipu__quantize_loops_of);
    l.taps      = ipu__conv_volume(l.c.k);
    l.in        = ipu__conv_volume(l.c.x);
    l.out       = ipu__conv_volume(l.c.y);
    l.k         = l.c.in * l.taps;
    bool few    = l.c.n * l.c.groups * ipu__op_ceil_div(l.out, MOST) < 4 * (int64_t)n_parts;
    l.block     = few ? LEAST : MOST;
    l.block     = l.block < l.out ? l.block : l.out;
    l.blocks    = l.block > 0 ? ipu__op_ceil_div(l.out, l.block) : 0;
    l.is_signed = call->operand[l.r->left].type == IPU_INT8;
    l.flips     = call->operand[l.r->right].type == IPU_UINT8;
    l.is_copy   = is_pointwise(&l.c);
    return l;
}

static ipu__int8_dims get_dims(const layout *l, int64_t m)
{
    return (ipu__int8_dims){.m      = m,
                            .n      = l->c.out,
                            .k      = l->k,
                            .a_type = l->call->operand[l->r->left].type,
                            .b_k    = 1,
                            .b_n    = l->k,
                            .out_m  = l->c.out};
}

bool ipu__int8_conv_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    layout         l    = get_layout(call, n_parts);
    ipu__int8_dims dims = get_dims(&l, l.out);
    return l.c.n > 0 && l.c.out >= 8 && ipu__int8_gemm_fits(ipu__cpu_features_of(machine), &dims);
}

/* Outputs of the last block of a plane, where they are fewer; 0: they are not. */
static int64_t tail_of(const layout *l) { return l->out % l->block; }

static ipu_status get_offsets(layout *l)
{
    ipu__int8_dims dims = get_dims(l, l->block), tail = get_dims(l, tail_of(l));
    size_t         bytes = 0, tail_bytes = 0;
    double         m = (double)l->block, n = (double)l->c.out, k = (double)l->k;
    IPU_TRY(ipu__int8_gemm_bytes(&dims, &bytes));
    if (tail.m > 0) IPU_TRY(ipu__int8_gemm_bytes(&tail, &tail_bytes));
    l->image   = rounded((double)(bytes > tail_bytes ? bytes : tail_bytes));
    l->patches = l->image + rounded((double)l->in * (double)l->c.in);
    l->weights = l->patches + (l->is_copy ? 0 : rounded(m * k));
    l->sums    = l->weights + rounded(n * k);
    l->column  = l->sums + rounded(4 * m * n);
    l->zero    = l->column + rounded(4 * n);
    l->line    = l->zero + rounded(4 * n);
    l->scales  = l->line + rounded(4 * m);
    l->end     = l->scales + rounded(4 * m);
    return IPU_OK;
}

size_t ipu__int8_conv_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    layout l = get_layout(call, n_parts);
    return get_offsets(&l) == IPU_OK ? l.end : SIZE_MAX;
}

typedef struct state {
    layout l;
    int    n_parts;
    struct {
        ipu__int8_gemm *gemm, *tail;
    } part[];
} state;

void ipu__int8_conv_onednn_release(void *prepared)
{
    state *s = prepared;
    for (int i = 0; s && i < s->n_parts; i++) {
        ipu__int8_gemm_free(s->part[i].gemm);
        ipu__int8_gemm_free(s->part[i].tail);
    }
    ipu__free(s);
}

ipu_status ipu__int8_conv_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->part);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts          = n_parts;
    s->l                = get_layout(call, n_parts);
    ipu__int8_dims dims = get_dims(&s->l, s->l.block), tail = get_dims(&s->l, tail_of(&s->l));
    ipu_status     status = get_offsets(&s->l);
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        status = ipu__int8_gemm_make(&dims, &s->part[i].gemm);
        if (status == IPU_OK && tail.m > 0) status = ipu__int8_gemm_make(&tail, &s->part[i].tail);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__int8_conv_onednn_release(s);
    return status;
}

/* ---- running ---- */

/* [channels, elements] of a group of an image as [elements, channels]. */
static void turn_image(const layout *l, const int8_t *x, int8_t *to)
{
    enum { AT_ONCE = 64 };
    for (int64_t first = 0; first < l->in; first += AT_ONCE)
        for (int64_t c = 0; c < l->c.in; c++)
            for (int64_t i = first; i < l->in && i < first + AT_ONCE; i++)
                to[i * l->c.in + c] = x[c * l->in + i];
}

/* Weights of a group as [out channels, taps, channels] of int8; what goes into ipu__quantize_loops'
 * `correct`. */
static void turn_weights(const layout *l, void *const *operand, int64_t group, char *scratch)
{
    int8_t   *to     = (int8_t *)(scratch + l->weights);
    uint32_t *column = (uint32_t *)(scratch + l->column), *zero = (uint32_t *)(scratch + l->zero);
    for (int64_t o = 0; o < l->c.out; o++) {
        int64_t       channel = group * l->c.out + o;
        const int8_t *w       = (const int8_t *)operand[l->r->right] + channel * l->k;
        int8_t       *row     = to + o * l->k;
        for (int64_t t = 0; t < l->taps; t++)
            for (int64_t c = 0; c < l->c.in; c++) row[t * l->c.in + c] = w[c * l->taps + t];
        if (l->flips) l->loops->flip(row, row, l->k);
        int32_t z = ipu__int8_zero(l->call, operand, l->r->right_zero, channel) - (l->flips ? 128 : 0);
        zero[o]   = (uint32_t)z;
        column[o] = (uint32_t)l->k * zero[o] - l->loops->sum_int8(row, l->k);
    }
}

static const int8_t *make_patches(const layout *l, int32_t x_zero, int64_t o, int64_t n, char *scratch)
{
    const int8_t *image = (const int8_t *)(scratch + l->image);
    int8_t       *to    = (int8_t *)(scratch + l->patches);
    if (l->is_copy) return image + o * l->c.in;
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < l->taps; t++, to += l->c.in) {
            int64_t at = ipu__int8_conv_place(&l->c, o + i, t);
            if (at < 0)
                memset(to, x_zero, (size_t)l->c.in);
            else
                memcpy(to, image + at * l->c.in, (size_t)l->c.in);
        }
    return (const int8_t *)(scratch + l->patches);
}

/* Sums [n, out channels] of outputs from `o` on go where they belong. */
static void finish(const layout *l, void *const *operand, int64_t image, int64_t group, int64_t o, int64_t n,
                   char *scratch)
{
    const int32_t *sums   = (const int32_t *)(scratch + l->sums);
    int32_t       *line   = (int32_t *)(scratch + l->line);
    float         *scales = (float *)(scratch + l->scales);
    for (int64_t c = 0; c < l->c.out; c++) {
        int64_t  channel = group * l->c.out + c;
        uint32_t bias    = ipu__int8_conv_bias(l->call, l->r, operand, channel);
        float    scale   = l->r->y_scale < 0 ? 1 : ipu__int8_scale(l->call, l->r, operand, 0, channel);
        for (int64_t i = 0; i < n; i++) {
            line[i]   = (int32_t)((uint32_t)sums[i * l->c.out + c] + bias);
            scales[i] = scale;
        }
        ipu__int8_finish(l->call, l->r, l->loops, operand, line, scales, n,
                         (image * l->c.groups * l->c.out + channel) * l->out + o);
    }
}

static ipu_status run_block(const state *s, const layout *l, int part, void *const *operand, int64_t image,
                            int64_t group, int64_t o, char *scratch)
{
    int64_t         n        = l->out - o < l->block ? l->out - o : l->block;
    ipu__int8_gemm *g        = n == l->block ? s->part[part].gemm : s->part[part].tail;
    int32_t         x_zero   = ipu__int8_zero(l->call, operand, l->r->left_zero, 0);
    const int8_t   *patches  = make_patches(l, x_zero, o, n, scratch);
    int32_t        *sums     = (int32_t *)(scratch + l->sums);
    bool            corrects = l->flips || x_zero != 0 || ipu__kernel_has(l->call, l->r->right_zero);
    IPU_TRY(ipu__int8_gemm_run(g, patches, (const int8_t *)(scratch + l->weights), sums, scratch));
    for (int64_t i = 0; i < n && corrects; i++) {
        const int8_t *row = patches + i * l->k;
        l->loops->correct(sums + i * l->c.out, (const uint32_t *)(scratch + l->column),
                          (const uint32_t *)(scratch + l->zero), (uint32_t)x_zero,
                          (l->is_signed ? l->loops->sum_int8 : l->loops->sum_uint8)(row, l->k), l->c.out);
    }
    finish(l, operand, image, group, o, n, scratch);
    return IPU_OK;
}

ipu_status ipu__int8_conv_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int part, int n_parts)
{
    const state  *s            = prepared;
    layout        l            = s->l;
    ipu_interval  mine         = ipu__op_part(l.c.groups * l.c.n * l.blocks, 1, part, n_parts);
    const int8_t *x            = operand[l.r->left];
    int64_t       turned_group = -1, turned = -1;
    l.call = call;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t group = i / (l.c.n * l.blocks), image = i / l.blocks % l.c.n;
        int64_t plane = image * l.c.groups + group;
        if (group != turned_group) turn_weights(&l, operand, group, scratch);
        if (plane != turned) turn_image(&l, x + plane * l.c.in * l.in, (int8_t *)scratch + l.image);
        turned_group = group;
        turned       = plane;
        IPU_TRY(run_block(s, &l, part, operand, image, group, i % l.blocks * l.block, scratch));
    }
    return IPU_OK;
}
