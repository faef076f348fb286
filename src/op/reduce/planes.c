/* Sums and means of planes in float or 16-bit types, over [N, C, d...]: of each plane, or of each channel in all images.
 *
 * What layers of convolutions ask for: global pooling and gradients of biases. Planes may be plain, or sixteen of them,
 * of images or channels, side by side. Parts have outputs of their own; stretches of a plane are added up in double.
 */
#include "op/vector/floats.h"
#include "op/vector/lanes.h"
#include "op/norm/norm.h"
#include "op/reduce/reduce.h"

enum { X, OUT, STRETCH = 512, NARROW_STRETCH = 64 }; /* vectors; of 16-bit types, as floats on the stack */
enum { SMALL = 64, IMAGES = 64 };                    /* elements of a plane; so many are added up in float */

typedef struct planes {
    int64_t  images, channels, inner;
    bool     by_channel; /* one output for each channel; else for each plane */
    double   factor;
    ipu_type type;
} planes;

static bool planes_of(const ipu__kernel_call *call, planes *out)
{
    const ipu_shape *x    = &call->operand[X].shape;
    ipu__reduce_kind kind = ipu__reduce_kind_of(call);
    bool             is_reduced[IPU_MAX_RANK];
    ipu_type         type = call->operand[X].type;
    if ((type != IPU_FLOAT && type != IPU_HALF && type != IPU_BFLOAT16) || x->rank < 3) return false;
    if (kind != IPU__REDUCE_SUM && kind != IPU__REDUCE_MEAN) return false;
    if (ipu__op_axes(call, "axes", x->rank, is_reduced) != IPU_OK || is_reduced[1]) return false;
    *out = (planes){x->dim[0], x->dim[1], 1, is_reduced[0], 1, type};
    for (int d = 2; d < x->rank; d++) {
        if (!is_reduced[d]) return false;
        out->inner *= x->dim[d];
    }
    if (out->images < 1 || out->channels < 1 || out->inner < 1) return false;
    int64_t n = out->inner * (out->by_channel ? out->images : 1);
    if (kind == IPU__REDUCE_MEAN) out->factor = 1 / (double)n;
    return true;
}

ipu__kernel_layouts ipu__reduce_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    planes   p;
    unsigned bits = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    (void)n_parts;
    if (operand == X && planes_of(call, &p))
        bits |= IPU__LAYOUT_BIT(IPU__LAYOUT_LANES) | IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    return (ipu__kernel_layouts){bits, bits, false};
}

/* Adds the sums of sixteen planes that lie side by side, the first at element `at`. */
static void add_lanes(const planes *p, const void *x, int64_t at, double *sum)
{
    float   narrow[NARROW_STRETCH * IPU__LANES];
    int64_t step = p->type == IPU_FLOAT ? STRETCH : NARROW_STRETCH;
    for (int64_t i = 0; i < p->inner; i += step) {
        int64_t n = p->inner - i < step ? p->inner - i : step;
        IPU__SIMD_PICK(ipu__norm_lane_loops_of)
            .sum(ipu__floats_get(p->type, x, at + i * IPU__LANES, n * IPU__LANES, narrow), n, sum);
    }
}

static double sum_plane(const planes *p, const void *x, int64_t at)
{
    const ipu__reduce_loops *loops = &IPU__SIMD_PICK(ipu__reduce_loops_at).at[IPU__SUM_FLOAT][IPU__FOLD_SUM];
    float                    narrow[IPU__REDUCE_LEAF];
    double                   sum = 0;
    for (int64_t i = 0; i < p->inner; i += IPU__REDUCE_LEAF) {
        float   part;
        int64_t n = p->inner - i < IPU__REDUCE_LEAF ? p->inner - i : IPU__REDUCE_LEAF;
        loops->run(ipu__floats_get(p->type, x, at + i, n, narrow), n, &part);
        sum += (double)part;
    }
    return sum;
}

static void store(const planes *p, void *out, int64_t i, double sum)
{
    float value = (float)(sum * p->factor);
    ipu__floats_store(p->type, &value, out, i, 1);
}

/* Sixteen channels of one image, or of all. */
static void do_blocked(const planes *p, const void *x, void *out, int64_t first, int64_t end)
{
    int64_t n_blocks = p->channels / IPU__LANES, plane = p->inner * IPU__LANES;
    for (int64_t i = first; i < end; i++) {
        double sum[IPU__LANES] = {0};
        for (int64_t image = 0; image < (p->by_channel ? p->images : 1); image++)
            add_lanes(p, x, (image * n_blocks + i) * plane, sum);
        for (int l = 0; l < IPU__LANES; l++) store(p, out, i * IPU__LANES + l, sum[l]);
    }
}

/* A channel of sixteen images, or of all. */
static void do_lanes(const planes *p, const void *x, void *out, int64_t first, int64_t end)
{
    int64_t n_groups = p->images / IPU__LANES, plane = p->inner * IPU__LANES;
    for (int64_t i = first; i < end; i++) {
        double  sum[IPU__LANES] = {0}, all = 0;
        int64_t group = i / p->channels, channel = i % p->channels;
        for (int64_t g = 0; g < (p->by_channel ? n_groups : 1); g++)
            add_lanes(p, x, (g * p->channels + i) * plane, sum);
        for (int l = 0; l < IPU__LANES; l++) {
            all += sum[l];
            if (!p->by_channel) store(p, out, (group * IPU__LANES + l) * p->channels + channel, sum[l]);
        }
        if (p->by_channel) store(p, out, channel, all);
    }
}

/* A channel of all images of float, whose planes are too small for loops of their own: they are added to one another
 * first. */
static double sum_small(const planes *p, const float *x)
{
    const ipu__reduce_loops *loops = &IPU__SIMD_PICK(ipu__reduce_loops_at).at[IPU__SUM_FLOAT][IPU__FOLD_SUM];
    int64_t                  step  = p->channels * p->inner;
    double                   sum   = 0;
    for (int64_t image = 0; image < p->images; image += IMAGES) {
        float all[SMALL] = {0}, part;
        loops->rows(all, x + image * step, p->images - image < IMAGES ? p->images - image : IMAGES, step,
                    p->inner);
        loops->run(all, p->inner, &part);
        sum += (double)part;
    }
    return sum;
}

static void do_plain(const planes *p, const void *x, void *out, int64_t first, int64_t end)
{
    bool is_small = p->by_channel && p->inner <= SMALL && p->type == IPU_FLOAT;
    for (int64_t i = first; i < end; i++) {
        double sum = is_small ? sum_small(p, (const float *)x + i * p->inner) : 0;
        for (int64_t image = 0; !is_small && image < (p->by_channel ? p->images : 1); image++)
            sum += sum_plane(p, x, (image * p->channels + i) * p->inner);
        store(p, out, i, sum);
    }
}

bool ipu__reduce_planes_run(const ipu__kernel_call *call, void *const *operand, int part, int n_parts)
{
    planes p;
    if (!planes_of(call, &p)) return false;
    int          how  = call->layout[X];
    int64_t      n    = p.channels * (p.by_channel ? 1 : p.images); /* outputs */
    bool         many = how == IPU__LAYOUT_BLOCKED || (how == IPU__LAYOUT_LANES && !p.by_channel);
    ipu_interval mine = ipu__op_part(many ? n / IPU__LANES : n, 1, part, n_parts);
    (how == IPU__LAYOUT_BLOCKED ? do_blocked
     : how == IPU__LAYOUT_LANES ? do_lanes
                                : do_plain)(&p, operand[X], operand[OUT], mine.begin, mine.end);
    return true;
}
