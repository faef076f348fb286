/* Batch norm with sixteen channels side by side (IPU__LAYOUT_BLOCKED), in float; planes.c does plain ones.
 *
 * Parts are blocks of sixteen channels. Stretches of a plane stay in the first-level cache while they are read
 * twice, for the mean and for the deviations from it; they are combined in double (Chan, Golub, LeVeque 1979).
 */
#include <math.h>

#include "base/alloc.h"
#include "op/vector/lanes.h"
#include "op/norm/norm.h"

enum { STRETCH = 256 }; /* vectors: 16 K */

typedef struct blocked {
    ipu__norm                   s;
    const ipu__cpu_impl        *plain; /* NULL: it is for blocks */
    void                       *state; /* of `plain` */
    const ipu__norm_lane_loops *loops;
} blocked;

static const ipu__cpu_impl *plain_of(const ipu__norm *s)
{
    return s->is_grad ? &ipu__norm_plane_grad_implementations[0] : &ipu__norm_plane_implementations[0];
}

static bool fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu__norm s = ipu__norm_of(call);
    return plain_of(&s)->head.fits(call, machine, n_parts);
}

static bool is_image(const ipu__norm *s, int operand)
{
    return operand == s->at.x || operand == s->at.y || operand == s->at.dy || operand == s->at.dx;
}

static ipu__kernel_layouts layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    ipu__norm s    = ipu__norm_of(call);
    unsigned  bits = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    if (!is_image(&s, operand)) return (ipu__kernel_layouts){bits, bits, false};
    if (s.type == IPU_FLOAT && s.n_each > 0) bits |= IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    return (ipu__kernel_layouts){bits, bits, true};
}

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__norm s = ipu__norm_of(call);
    return call->layout[s.at.x] == IPU__LAYOUT_BLOCKED ? 0 : plain_of(&s)->scratch_bytes(call, n_parts);
}

static void release(void *state)
{
    blocked *p = state;
    if (p && p->state) p->plain->release(p->state);
    ipu__free(p);
}

static ipu_status prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    blocked *p = ipu__alloc_zeroed(sizeof *p);
    if (!p) return ipu__fail_memory();
    p->s              = ipu__norm_of(call);
    p->loops          = &IPU__SIMD_PICK(ipu__norm_lane_loops_of);
    ipu_status status = IPU_OK;
    if (call->layout[p->s.at.x] != IPU__LAYOUT_BLOCKED) {
        p->plain = plain_of(&p->s);
        status   = p->plain->prepare(call, n_parts, &p->state);
    }
    if (status == IPU_OK) {
        *out = p;
        return IPU_OK;
    }
    release(p);
    return status;
}

/* ---- sixteen channels ---- */

typedef struct job {
    const blocked *p;
    void *const   *operand;
    int64_t        block;
} job;

static float *plane_of(const job *j, int operand, int64_t image)
{
    const ipu__norm *s = &j->p->s;
    return (float *)j->operand[operand]
         + (image * s->channels / IPU__LANES + j->block) * s->inner * IPU__LANES;
}

/* A number of each of the sixteen channels. */
static float *numbers_of(const job *j, int operand)
{
    return (float *)j->operand[operand] + j->block * IPU__LANES;
}

static int64_t stretch_at(int64_t i, int64_t n) { return n - i < STRETCH ? n - i : STRETCH; }

static void add_stretch(const job *j, const float *x, int64_t n, double so_far, double *middle, double *away)
{
    double sum[IPU__LANES] = {0}, squares[IPU__LANES] = {0}, share = (double)n / (so_far + (double)n);
    float  own[IPU__LANES];
    j->p->loops->sum(x, n, sum);
    for (int l = 0; l < IPU__LANES; l++) own[l] = (float)(sum[l] / (double)n);
    j->p->loops->squares(x, own, n, squares);
    for (int l = 0; l < IPU__LANES; l++) {
        double step = (double)own[l] - middle[l];
        away[l] += squares[l] + step * step * so_far * share;
        middle[l] += step * share;
    }
}

static void forward(const job *j)
{
    const ipu__norm *s                  = &j->p->s;
    double           middle[IPU__LANES] = {0}, away[IPU__LANES] = {0}, so_far = 0;
    for (int64_t image = 0; image < s->n_planes; image++)
        for (int64_t i = 0; i < s->inner; i += STRETCH) {
            int64_t n = stretch_at(i, s->inner);
            add_stretch(j, plane_of(j, s->at.x, image) + i * IPU__LANES, n, so_far, middle, away);
            so_far += (double)n;
        }
    float mean[IPU__LANES], scale[IPU__LANES], shift[IPU__LANES];
    for (int l = 0; l < IPU__LANES; l++) {
        double var                   = away[l] / (double)s->n_each;
        double weight                = s->has_weight ? (double)numbers_of(j, s->at.weight)[l] : 1;
        mean[l]                      = (float)middle[l];
        scale[l]                     = (float)(weight / sqrt(var + s->epsilon));
        shift[l]                     = s->has_bias ? numbers_of(j, s->at.bias)[l] : 0;
        numbers_of(j, s->at.mean)[l] = mean[l];
        numbers_of(j, s->at.var)[l]  = (float)var;
    }
    for (int64_t image = 0; image < s->n_planes; image++)
        j->p->loops->normalise_by(plane_of(j, s->at.x, image), mean, scale, shift, s->inner,
                                  plane_of(j, s->at.y, image));
}

static void backward(const job *j)
{
    const ipu__norm  *s               = &j->p->s;
    double            sum[IPU__LANES] = {0}, product[IPU__LANES] = {0}, n_each = (double)s->n_each;
    const float      *mean = numbers_of(j, s->at.mean);
    ipu__norm_mixture m;
    for (int64_t image = 0; image < s->n_planes; image++)
        for (int64_t i = 0; i < s->inner; i += STRETCH)
            j->p->loops->products(plane_of(j, s->at.dy, image) + i * IPU__LANES,
                                  plane_of(j, s->at.x, image) + i * IPU__LANES, mean, stretch_at(i, s->inner),
                                  sum, product);
    for (int l = 0; l < IPU__LANES; l++) {
        double scale                     = 1 / sqrt((double)numbers_of(j, s->at.var)[l] + s->epsilon);
        double weight                    = s->has_weight ? (double)numbers_of(j, s->at.weight)[l] : 1;
        m.a[l]                           = (float)(scale * weight);
        m.b[l]                           = (float)(-scale * scale * scale * weight * product[l] / n_each);
        m.c[l]                           = (float)(-scale * weight * sum[l] / n_each);
        numbers_of(j, s->at.d_weight)[l] = (float)(product[l] * scale);
        numbers_of(j, s->at.d_bias)[l]   = (float)sum[l];
    }
    for (int64_t image = 0; image < s->n_planes; image++)
        j->p->loops->grad(plane_of(j, s->at.dy, image), plane_of(j, s->at.x, image), mean, &m, s->inner,
                          plane_of(j, s->at.dx, image));
}

static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    const blocked *p = state;
    if (p->plain) return p->plain->run(call, p->state, operand, scratch, part, n_parts);
    ipu_interval blocks = ipu__op_part(p->s.channels / IPU__LANES, 1, part, n_parts);
    for (int64_t i = blocks.begin; i < blocks.end; i++)
        (p->s.is_grad ? backward : forward)(&(job){p, operand, i});
    return IPU_OK;
}

#define BLOCKED                                                                           \
    {                                                                                     \
        {                                                                                 \
            .head = {"planes", fits}, .layouts = layouts, .scratch_bytes = scratch_bytes, \
            .prepare = prepare, .release = release, .run = run                            \
        }                                                                                 \
    }
const ipu__cpu_impl ipu__norm_batch_implementations[1]      = BLOCKED;
const ipu__cpu_impl ipu__norm_batch_grad_implementations[1] = BLOCKED;
