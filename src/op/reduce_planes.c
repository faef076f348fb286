/* Sums and means of planes in float, over [N, C, d...]: of each plane, or of each channel in all images.
 *
 * What layers of convolutions ask for: global pooling and gradients of biases. Planes may be plain, or sixteen of them,
 * of images or channels, side by side. Parts have outputs of their own; stretches of a plane are added up in double.
 */
#include "op/lanes.h"
#include "op/norm.h"
#include "op/reduce.h"

enum { X, OUT, STRETCH = 512 };

typedef struct planes {
    int64_t images, channels, inner;
    bool    by_channel; /* one output for each channel; else for each plane */
    double  factor;
} planes;

static bool planes_of(const ipu_kernel_call *call, planes *out)
{
    const ipu_shape *x    = &call->operand[X].shape;
    ipu__reduce_kind kind = ipu__reduce_kind_of(call);
    bool             is_reduced[IPU_MAX_RANK];
    if (call->operand[X].type != IPU_FLOAT || x->rank < 3) return false;
    if (kind != IPU__REDUCE_SUM && kind != IPU__REDUCE_MEAN) return false;
    if (ipu__op_axes(call, "axes", x->rank, is_reduced) != IPU_OK || is_reduced[1]) return false;
    *out = (planes){x->dim[0], x->dim[1], 1, is_reduced[0], 1};
    for (int d = 2; d < x->rank; d++) {
        if (!is_reduced[d]) return false;
        out->inner *= x->dim[d];
    }
    if (out->images < 1 || out->channels < 1 || out->inner < 1) return false;
    int64_t n = out->inner * (out->by_channel ? out->images : 1);
    if (kind == IPU__REDUCE_MEAN) out->factor = 1 / (double)n;
    return true;
}

ipu_kernel_layouts ipu__reduce_layouts(const ipu_kernel_call *call, int n_parts, int operand)
{
    planes   p;
    unsigned bits = IPU_LAYOUT_BIT(IPU_LAYOUT_PLAIN);
    (void)n_parts;
    if (operand == X && planes_of(call, &p))
        bits |= IPU_LAYOUT_BIT(IPU_LAYOUT_LANES) | IPU_LAYOUT_BIT(IPU_LAYOUT_BLOCKED);
    return (ipu_kernel_layouts){bits, bits, false};
}

/* Adds the sums of sixteen planes that lie side by side. */
static void add_lanes(const float *x, int64_t n, double *sum)
{
    for (int64_t i = 0; i < n; i += STRETCH)
        IPU__SIMD_PICK(ipu__norm_lane_loops_of)
            .sum(x + i * IPU__LANES, n - i < STRETCH ? n - i : STRETCH, sum);
}

static double sum_plane(const float *x, int64_t n)
{
    const ipu__reduce_loops *loops = &IPU__SIMD_PICK(ipu__reduce_loops_at).at[IPU__SUM_FLOAT][IPU__FOLD_SUM];
    double                   sum   = 0;
    for (int64_t i = 0; i < n; i += IPU__REDUCE_LEAF) {
        float part;
        loops->run(x + i, n - i < IPU__REDUCE_LEAF ? n - i : IPU__REDUCE_LEAF, &part);
        sum += (double)part;
    }
    return sum;
}

/* Sixteen channels of one image, or of all. */
static void do_blocked(const planes *p, const float *x, float *out, int64_t first, int64_t end)
{
    int64_t n_blocks = p->channels / IPU__LANES, plane = p->inner * IPU__LANES;
    for (int64_t i = first; i < end; i++) {
        double sum[IPU__LANES] = {0};
        for (int64_t image = 0; image < (p->by_channel ? p->images : 1); image++)
            add_lanes(x + (image * n_blocks + i) * plane, p->inner, sum);
        for (int l = 0; l < IPU__LANES; l++) out[i * IPU__LANES + l] = (float)(sum[l] * p->factor);
    }
}

/* A channel of sixteen images, or of all. */
static void do_lanes(const planes *p, const float *x, float *out, int64_t first, int64_t end)
{
    int64_t n_groups = p->images / IPU__LANES, plane = p->inner * IPU__LANES;
    for (int64_t i = first; i < end; i++) {
        double  sum[IPU__LANES] = {0}, all = 0;
        int64_t group = i / p->channels, channel = i % p->channels;
        for (int64_t g = 0; g < (p->by_channel ? n_groups : 1); g++)
            add_lanes(x + (g * p->channels + i) * plane, p->inner, sum);
        for (int l = 0; l < IPU__LANES; l++) {
            all += sum[l];
            if (!p->by_channel)
                out[(group * IPU__LANES + l) * p->channels + channel] = (float)(sum[l] * p->factor);
        }
        if (p->by_channel) out[channel] = (float)(all * p->factor);
    }
}

static void do_plain(const planes *p, const float *x, float *out, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++) {
        double sum = 0;
        for (int64_t image = 0; image < (p->by_channel ? p->images : 1); image++)
            sum += sum_plane(x + (image * p->channels + i) * p->inner, p->inner);
        out[i] = (float)(sum * p->factor);
    }
}

bool ipu__reduce_planes_run(const ipu_kernel_call *call, void *const *operand, int part, int n_parts)
{
    planes p;
    if (!planes_of(call, &p)) return false;
    int          how  = call->layout[X];
    int64_t      n    = p.channels * (p.by_channel ? 1 : p.images); /* outputs */
    bool         many = how == IPU_LAYOUT_BLOCKED || (how == IPU_LAYOUT_LANES && !p.by_channel);
    ipu_interval mine = ipu__op_part(many ? n / IPU__LANES : n, 1, part, n_parts);
    (how == IPU_LAYOUT_BLOCKED ? do_blocked
     : how == IPU_LAYOUT_LANES ? do_lanes
                               : do_plain)(&p, operand[X], operand[OUT], mine.begin, mine.end);
    return true;
}
