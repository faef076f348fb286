/* Group norm with sixteen images side by side (IPU__LAYOUT_LANES), in float; planes.c does plain ones.
 *
 * A part gets channels of one group of images, or several whole groups if these divide evenly. Means are over
 * whole groups of channels: if parts meet within one, both compute it. Each operand may be in lanes or not;
 * those that are not are converted a stretch at a time. A channel's sums over the batch are kept in the
 * state, and combined by the last part to finish.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "op/vector/lanes.h"
#include "op/norm/norm.h"
#include "op/elementwise/wide.h"

enum {
    STRETCH = 512, /* vectors: of three operands, at most 96 K */
    SUMS    = 3,   /* of a channel */
};

typedef struct lanes {
    ipu__norm                   s;
    const ipu__cpu_impl        *plain; /* NULL: it is for lanes */
    void                       *state; /* of `plain` */
    const ipu__norm_lane_loops *loops;
    int64_t                     n_images;
    double
        *sums; /* gradient: of each group of images and channel, sum(dy), its product with x, and sum(dx) */
    atomic_int n_left; /* parts that have not finished */
} lanes;

static const ipu__cpu_impl *plain_of(const ipu__norm *s)
{
    return s->is_grad ? &ipu__norm_plane_grad_implementations[0] : &ipu__norm_plane_implementations[0];
}

static bool is_plain(const ipu__kernel_call *call)
{
    for (int i = 0; i < call->n_operands; i++)
        if (call->layout[i] != IPU__LAYOUT_PLAIN) return false;
    return true;
}

static bool fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu__norm s = ipu__norm_of(call);
    return plain_of(&s)->head.fits(call, machine, n_parts);
}

static ipu__kernel_layouts layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    ipu__norm s        = ipu__norm_of(call);
    unsigned  bits     = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    bool      is_image = operand == s.at.x || operand == s.at.y || operand == s.at.dy || operand == s.at.dx;
    if (is_image && s.type == IPU_FLOAT && s.inner > 0) bits |= IPU__LAYOUT_BIT(IPU__LAYOUT_LANES);
    return (ipu__kernel_layouts){bits, bits, false};
}

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__norm s = ipu__norm_of(call);
    if (is_plain(call)) return plain_of(&s)->scratch_bytes(call, n_parts);
    return 3 * (size_t)STRETCH * IPU__LANES * sizeof(float);
}

static void release(void *state)
{
    lanes *p = state;
    if (p && p->state) p->plain->release(p->state);
    if (p) ipu__free(p->sums);
    ipu__free(p);
}

static ipu_status prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    ipu_status status = IPU_OK;
    lanes     *p      = ipu__alloc_zeroed(sizeof *p);
    if (!p) return ipu__fail_memory();
    p->s        = ipu__norm_of(call);
    p->loops    = &IPU__SIMD_PICK(ipu__norm_lane_loops_of);
    p->n_images = p->s.n_units / p->s.groups;
    atomic_init(&p->n_left, n_parts);
    if (is_plain(call)) {
        p->plain = plain_of(&p->s);
        status   = p->plain->prepare(call, n_parts, &p->state);
    } else if (p->s.is_grad) {
        p->sums = ipu__alloc((size_t)(p->n_images / IPU__LANES * p->s.channels) * SUMS * sizeof *p->sums);
        if (!p->sums) status = ipu__fail_memory();
    }
    if (status == IPU_OK) {
        *out = p;
        return IPU_OK;
    }
    release(p);
    return status;
}

/* ---- one group of images ---- */

typedef struct job {
    const lanes            *p;
    const ipu__kernel_call *call;
    void *const            *operand;
    float                  *scratch;
    int64_t                 images; /* which sixteen */
    int     held; /* operand whose group is in `scratch` from element `held_at` on; -1: none */
    int64_t held_at;
} job;

/* Of an image of channels [c, i]. */
static int64_t image_floats(const job *j) { return j->p->s.channels * j->p->s.inner; }

static bool is_turned(const job *j, int operand) { return j->call->layout[operand] == IPU__LAYOUT_LANES; }

/* Elements [at, at + n) of sixteen images, n at most STRETCH: in place, or turned into `scratch`. */
static const float *get(const job *j, int operand, int64_t at, int64_t n, float *scratch)
{
    const float *images = (const float *)j->operand[operand] + j->images * image_floats(j) * IPU__LANES;
    if (is_turned(j, operand)) return images + at * IPU__LANES;
    if (operand == j->held) return j->scratch + (at - j->held_at) * IPU__LANES;
    IPU__SIMD_PICK(ipu__lane_turns_at).turn(images + at, image_floats(j), n, scratch);
    return scratch;
}

static float *get_out(const job *j, int operand, int64_t at, float *scratch)
{
    if (!is_turned(j, operand)) return scratch;
    return (float *)j->operand[operand] + (j->images * image_floats(j) + at) * IPU__LANES;
}

static void put(const job *j, int operand, int64_t at, int64_t n, const float *scratch)
{
    float *images = (float *)j->operand[operand] + j->images * image_floats(j) * IPU__LANES;
    if (!is_turned(j, operand))
        IPU__SIMD_PICK(ipu__lane_turns_at).turn_back(scratch, n, images + at, image_floats(j));
}

/* Turns all of a group of channels once, if there is room. `get` with the beginning of scratch then finds it there. */
static void hold(job *j, int operand, int64_t group)
{
    int64_t n  = j->p->s.n_each;
    j->held    = -1;
    j->held_at = group * n;
    if (is_turned(j, operand) || n > STRETCH) return;
    get(j, operand, j->held_at, n, j->scratch);
    j->held = operand;
}

static int64_t stretch_at(int64_t i, int64_t end) { return end - i < STRETCH ? end - i : STRETCH; }

static float weight_of(const job *j, bool has, int at, int64_t channel, float otherwise)
{
    return has ? ((const float *)j->operand[at])[channel] : otherwise;
}

/* A unit is 16 groups of channels, one of each image. */
typedef struct unit {
    float mean[IPU__LANES], scale[IPU__LANES];
} unit;

static float *stat_at(const job *j, int operand, int64_t group, int lane)
{
    return (float *)j->operand[operand] + (j->images * IPU__LANES + lane) * j->p->s.groups + group;
}

static void find_unit(const job *j, int64_t group, bool is_owner, unit *u)
{
    const ipu__norm *s     = &j->p->s;
    int64_t          begin = group * s->n_each, end = begin + s->n_each;
    double           sum[IPU__LANES] = {0}, squares[IPU__LANES] = {0};
    float            var[IPU__LANES];
    for (int64_t i = begin; i < end; i += STRETCH) {
        int64_t n = stretch_at(i, end);
        j->p->loops->sum(get(j, s->at.x, i, n, j->scratch), n, sum);
    }
    j->p->loops->means(sum, (double)s->n_each, u->mean);
    for (int64_t i = begin; i < end; i += STRETCH) {
        int64_t n = stretch_at(i, end);
        j->p->loops->squares(get(j, s->at.x, i, n, j->scratch), u->mean, n, squares);
    }
    j->p->loops->variances(squares, (double)s->n_each, var);
    j->p->loops->scales(var, s->epsilon, u->scale);
    for (int l = 0; is_owner && l < IPU__LANES; l++) {
        *stat_at(j, s->at.mean, group, l) = u->mean[l];
        *stat_at(j, s->at.var, group, l)  = var[l];
    }
}

/* Stretches of channels [first, end): what of it is of one channel. */
static void normalise(const job *j, const unit *u, int64_t first, int64_t end)
{
    const ipu__norm *s      = &j->p->s;
    float           *buffer = j->scratch + (ptrdiff_t)STRETCH * IPU__LANES;
    for (int64_t i = first * s->inner, n; i < end * s->inner; i += n) {
        n              = stretch_at(i, end * s->inner);
        const float *x = get(j, s->at.x, i, n, j->scratch);
        float       *y = get_out(j, s->at.y, i, buffer);
        for (int64_t k = i, m; k < i + n; k += m) {
            int64_t channel = k / s->inner, next = (channel + 1) * s->inner;
            float   weight = weight_of(j, s->has_weight, s->at.weight, channel, 1), scale[IPU__LANES];
            m              = (next < i + n ? next : i + n) - k;
            for (int l = 0; l < IPU__LANES; l++) scale[l] = u->scale[l] * weight;
            j->p->loops->normalise(x + (k - i) * IPU__LANES, u->mean, scale,
                                   weight_of(j, s->has_bias, s->at.bias, channel, 0), m,
                                   y + (k - i) * IPU__LANES);
        }
        put(j, s->at.y, i, n, y);
    }
}

/* Channels [begin, end): whole groups' numbers are found, those of groups that begin here are kept. */
static void forward(job *j, int64_t begin, int64_t end)
{
    const ipu__norm *s = &j->p->s;
    unit             u;
    for (int64_t c = begin; c < end;) {
        int64_t group = c / s->n_planes, next = (group + 1) * s->n_planes;
        if (next > end) next = end;
        hold(j, s->at.x, group);
        find_unit(j, group, c == group * s->n_planes, &u);
        normalise(j, &u, c, next);
        c = next;
    }
}

/* ---- gradients ---- */

static double *sums_of(const job *j, int64_t channel)
{
    return j->p->sums + (j->images * j->p->s.channels + channel) * SUMS;
}

/* Of the group's channels: sum(dy) and sum(dy * (x - mean)) for each image, weighted; and of those channels that are
 * in [begin, end), over images, to be kept. */
static void find_sums(const job *j, int64_t group, const unit *u, int64_t begin, int64_t end, double *sum,
                      double *product)
{
    const ipu__norm *s = &j->p->s;
    for (int64_t c = group * s->n_planes; c < (group + 1) * s->n_planes; c++) {
        double own[IPU__LANES] = {0}, mixed[IPU__LANES] = {0};
        double weight = (double)weight_of(j, s->has_weight, s->at.weight, c, 1);
        for (int64_t i = c * s->inner; i < (c + 1) * s->inner; i += STRETCH) {
            int64_t n = stretch_at(i, (c + 1) * s->inner);
            j->p->loops->products(get(j, s->at.dy, i, n, j->scratch),
                                  get(j, s->at.x, i, n, j->scratch + (ptrdiff_t)STRETCH * IPU__LANES),
                                  u->mean, n, own, mixed);
        }
        double all[2] = {0};
        j->p->loops->add_channel(own, mixed, weight, u->scale, sum, product, all);
        if (c < begin || c >= end) continue;
        double *keep = sums_of(j, c);
        keep[0]      = all[0];
        keep[1]      = all[1];
        keep[2]      = 0;
    }
}

/* Of channels [first, end), all of one group. */
static void grad(const job *j, const unit *u, const double *sum, const double *product, int64_t first,
                 int64_t end)
{
    const ipu__norm  *s    = &j->p->s;
    const ptrdiff_t   room = (ptrdiff_t)STRETCH * IPU__LANES;
    ipu__norm_mixture m;
    j->p->loops->mix(u->scale, sum, product, (double)s->n_each, &m);
    for (int64_t i = first * s->inner, n; i < end * s->inner; i += n) {
        n               = stretch_at(i, end * s->inner);
        const float *dy = get(j, s->at.dy, i, n, j->scratch), *x = get(j, s->at.x, i, n, j->scratch + room);
        float       *dx = get_out(j, s->at.dx, i, j->scratch + 2 * room);
        for (int64_t k = i, part; k < i + n; k += part) {
            int64_t channel = k / s->inner, next = (channel + 1) * s->inner, at = (k - i) * IPU__LANES;
            float   weight = weight_of(j, s->has_weight, s->at.weight, channel, 1);
            part           = (next < i + n ? next : i + n) - k;
            for (int l = 0; l < IPU__LANES; l++) m.a[l] = u->scale[l] * weight;
            if (s->relu)
                sums_of(j, channel)[2] += j->p->loops->grad_relu(dy + at, x + at, u->mean, &m, part, dx + at);
            else
                j->p->loops->grad(dy + at, x + at, u->mean, &m, part, dx + at);
        }
        put(j, s->at.dx, i, n, dx);
    }
}

static void backward(job *j, int64_t begin, int64_t end)
{
    const ipu__norm *s = &j->p->s;
    unit             u;
    float            var[IPU__LANES];
    for (int64_t c = begin; c < end;) {
        int64_t group = c / s->n_planes, next = (group + 1) * s->n_planes;
        double  sum[IPU__LANES] = {0}, product[IPU__LANES] = {0};
        if (next > end) next = end;
        for (int l = 0; l < IPU__LANES; l++) {
            u.mean[l] = *stat_at(j, s->at.mean, group, l);
            var[l]    = *stat_at(j, s->at.var, group, l);
        }
        j->p->loops->scales(var, s->epsilon, u.scale);
        hold(j, s->at.dy, group);
        find_sums(j, group, &u, begin, end, sum, product);
        grad(j, &u, sum, product, c, next);
        c = next;
    }
}

static void add_up_channels(const lanes *p, void *const *operand)
{
    const ipu__norm *s = &p->s;
    for (int64_t c = 0; c < s->channels; c++) {
        double sum[SUMS] = {0};
        for (int64_t i = 0; i < p->n_images / IPU__LANES; i++)
            for (int k = 0; k < SUMS; k++) sum[k] += p->sums[(i * s->channels + c) * SUMS + k];
        ((float *)operand[s->at.d_bias])[c]   = (float)sum[0];
        ((float *)operand[s->at.d_weight])[c] = (float)sum[1];
        if (s->relu) ((float *)operand[s->at.d_sum])[c] = (float)sum[2];
    }
}

/* ---- parts ---- */

typedef struct share {
    ipu_interval images, channels; /* images: sixteens */
} share;

static share share_of(const ipu__norm *s, int part, int n_parts)
{
    int64_t n_groups = s->n_units / s->groups / IPU__LANES;
    if (n_groups % n_parts == 0) return (share){ipu__op_part(n_groups, 1, part, n_parts), {0, s->channels}};
    return (share){{0, n_groups}, ipu__op_part(s->channels, 1, part, n_parts)};
}

static ipu_interval writes(const ipu__kernel_call *call, int operand, int part, int n_parts)
{
    ipu__norm s     = ipu__norm_of(call);
    share     mine  = share_of(&s, part, n_parts);
    int64_t   plane = s.inner * IPU__LANES;
    (void)operand;
    if (mine.images.end - mine.images.begin == 1)
        return (ipu_interval){mine.channels.begin * plane, mine.channels.end * plane};
    return (ipu_interval){mine.images.begin * s.channels * plane, mine.images.end * s.channels * plane};
}

static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    lanes           *p = state;
    const ipu__norm *s = &p->s;
    if (p->plain) return p->plain->run(call, p->state, operand, scratch, part, n_parts);
    share mine = share_of(s, part, n_parts);
    for (int64_t i = mine.images.begin; i < mine.images.end; i++) {
        job j = {p, call, operand, scratch, i, -1, 0};
        (s->is_grad ? backward : forward)(&j, mine.channels.begin, mine.channels.end);
    }
    if (!s->is_grad) return IPU_OK;
    if (atomic_fetch_sub_explicit(&p->n_left, 1, memory_order_acq_rel) != 1) return IPU_OK;
    atomic_store_explicit(&p->n_left, n_parts, memory_order_relaxed);
    add_up_channels(p, operand);
    return IPU_OK;
}

#define LANES                                                                             \
    {                                                                                     \
        IPU__WIDE,                                                                        \
        {                                                                                 \
            .head = {"planes", fits}, .layouts = layouts, .scratch_bytes = scratch_bytes, \
            .prepare = prepare, .release = release, .run = run, .writes = writes          \
        }                                                                                 \
    }
const ipu__cpu_impl ipu__norm_group_implementations[2]      = LANES;
const ipu__cpu_impl ipu__norm_group_grad_implementations[2] = LANES;
