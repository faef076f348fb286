/* Pooling with sixteen planes side by side: images in lanes or channels in blocks, which it treats alike.
 *
 * Parts get stretches of memory of whole rows. A scatter cannot know the windows its indices come from: it
 * assumes that they do not overlap, as is usual, so that a part writes its own rows; indices found elsewhere
 * are added by the last part to finish.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/vector/floats.h"
#include "op/vector/lanes.h"
#include "op/pool/pool.h"

enum { FROM, AT, TO }; /* of gather and scatter */

ipu__kernel_layouts ipu__pool_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts, (void)operand;
    unsigned bits = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    (void)call;
    bits |= IPU__LAYOUT_BIT(IPU__LAYOUT_LANES) | IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    return (ipu__kernel_layouts){bits, bits, true};
}

/* ---- planes as floats: in place, or converted into scratch, that of the first operand before that of the result ---- */

static const float *plane_in(ipu_type type, const void *from, int64_t i, int64_t n, float *scratch)
{
    return ipu__floats_get(type, from, i * n * IPU__LANES, n * IPU__LANES, scratch);
}

static float *plane_out(ipu_type type, void *to, int64_t i, int64_t n, float *scratch)
{
    return type == IPU_FLOAT ? (float *)to + i * n * IPU__LANES : scratch;
}

/* Vectors [begin, end) of the plane are done. */
static void plane_done(ipu_type type, const float *plane, void *to, int64_t i, int64_t n, int64_t begin,
                       int64_t end)
{
    if (type != IPU_FLOAT)
        ipu__floats_store(type, plane + begin * IPU__LANES, to, (i * n + begin) * IPU__LANES,
                          (end - begin) * IPU__LANES);
}

static int64_t n_rows(const ipu__pooling *p) { return p->axis[0].out * p->axis[1].out; }

/* Takes the first plane, or rows of it, off `left`, which counts rows of the smaller side; false: none is left. */
static bool next_plane(const ipu__pooling *p, ipu_interval *left, int64_t *plane, ipu_interval *row)
{
    if (left->begin >= left->end) return false;
    *plane       = left->begin / n_rows(p);
    int64_t base = *plane * n_rows(p), end = base + n_rows(p) < left->end ? base + n_rows(p) : left->end;
    *row        = (ipu_interval){left->begin - base, end - base};
    left->begin = end;
    return true;
}

void ipu__pool_lanes_max(const ipu__pooling *p, ipu_type type, void *const *operand, int32_t *spare,
                         float *scratch, int part, int n_parts)
{
    const ipu__pool_lane_loops *loops = &IPU__SIMD_PICK(ipu__pool_lane_loops_of);
    ipu_interval mine = ipu__op_part(p->planes / IPU__LANES * n_rows(p), 1, part, n_parts), row;
    int64_t      i;
    while (next_plane(p, &mine, &i, &row)) {
        const float *x  = plane_in(type, operand[0], i, p->in_plane, scratch);
        float       *y  = plane_out(type, operand[1], i, p->out_plane, scratch + p->in_plane * IPU__LANES);
        int32_t     *at = spare ? spare : (int32_t *)operand[2] + i * p->out_plane * IPU__LANES;
        loops->max(p, x, row.begin, row.end, y, at, spare != NULL);
        plane_done(type, y, operand[1], i, p->out_plane, row.begin * p->axis[2].out,
                   row.end * p->axis[2].out);
    }
}

void ipu__pool_lanes_average(const ipu__pooling *p, ipu_type type, void *const *operand, float *scratch,
                             int part, int n_parts)
{
    const ipu__pool_lane_loops *loops = &IPU__SIMD_PICK(ipu__pool_lane_loops_of);
    ipu_interval mine = ipu__op_part(p->planes / IPU__LANES * n_rows(p), 1, part, n_parts), row;
    int64_t      i;
    while (next_plane(p, &mine, &i, &row)) {
        const float *x = plane_in(type, operand[0], i, p->in_plane, scratch);
        float       *y = plane_out(type, operand[1], i, p->out_plane, scratch + p->in_plane * IPU__LANES);
        loops->average(p, x, row.begin, row.end, y);
        plane_done(type, y, operand[1], i, p->out_plane, row.begin * p->axis[2].out,
                   row.end * p->axis[2].out);
    }
}

void ipu__pool_lanes_average_grad(const ipu__pooling *p, ipu_type type, void *const *operand, float *scratch,
                                  int part, int n_parts)
{
    const ipu__pool_lane_loops *loops = &IPU__SIMD_PICK(ipu__pool_lane_loops_of);
    ipu_interval                mine  = ipu__op_part(p->planes / IPU__LANES, 1, part, n_parts);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float *dy = plane_in(type, operand[0], i, p->out_plane, scratch);
        float       *dx = plane_out(type, operand[1], i, p->in_plane, scratch + p->out_plane * IPU__LANES);
        loops->average_grad(p, dy, dx);
        plane_done(type, dx, operand[1], i, p->in_plane, 0, p->in_plane);
    }
}

/* ---- by indices ---- */

typedef struct scatter {
    ipu__pooling p;         /* windows as they are taken to be; planes of vectors */
    bool         has_guess; /* there are as many elements as windows, at least */
    atomic_bool  misses;    /* indices in other windows, found by any part */
    atomic_int   n_left;    /* parts that have not finished */
} scatter;

static int64_t plane_of(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int d = 2; d < shape->rank; d++) n *= shape->dim[d];
    return n;
}

ipu_status ipu__pool_scatter_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    const ipu_shape *small = &call->operand[FROM].shape, *large = &call->operand[TO].shape;
    scatter         *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->p         = (ipu__pooling){.planes    = small->dim[0] * small->dim[1] / IPU__LANES,
                                  .in_plane  = plane_of(large),
                                  .out_plane = plane_of(small)};
    s->has_guess = true;
    for (int i = 0; i < IPU__POOL_DIMS; i++) {
        int     d  = small->rank - IPU__POOL_DIMS + i;
        int64_t in = d < 2 ? 1 : large->dim[d], out = d < 2 ? 1 : small->dim[d];
        s->p.axis[i] = (ipu__pool_axis){
            .in = in, .out = out, .stride = out > 0 ? in / out : 0, .dilation = 1};
        s->has_guess = s->has_guess && s->p.axis[i].stride > 0;
    }
    atomic_init(&s->n_left, n_parts);
    atomic_init(&s->misses, false);
    *state = s;
    return IPU_OK;
}

void ipu__pool_scatter_release(void *state) { ipu__free(state); }

/* Whether the element is in the window that it is taken to be in. */
static bool is_inside(const ipu__pooling *p, int64_t window, int64_t at)
{
    for (int d = IPU__POOL_DIMS - 1; d >= 0; d--) {
        const ipu__pool_axis *a = &p->axis[d];
        int64_t               i = at % a->in / a->stride;
        if ((i < a->out ? i : a->out - 1) != window % a->out) return false;
        at /= a->in;
        window /= a->out;
    }
    return true;
}

/* Of one plane of vectors: what the loop has left out, or all. */
static ipu_status add_misses(const ipu__kernel_call *call, const scatter *s, const float *dy,
                             const int32_t *at, float *dx)
{
    const ipu__pooling *p = &s->p;
    for (int64_t k = 0; k < p->out_plane * IPU__LANES; k++) {
        if (at[k] == -1) continue;
        if (at[k] < -1 || at[k] >= p->in_plane) return ipu__pool_fail_index(call, at[k], p->in_plane);
        if (s->has_guess && is_inside(p, k / IPU__LANES, at[k])) continue;
        dx[at[k] * IPU__LANES + k % IPU__LANES] += dy[k];
    }
    return IPU_OK;
}

static const int32_t *indices_of(const ipu__pooling *p, void *const *operand, int64_t i)
{
    return (const int32_t *)operand[AT] + i * p->out_plane * IPU__LANES;
}

/* Of 16-bit types: planes are done whole, so that sums are rounded once. */
static ipu_status scatter_planes(const ipu__kernel_call *call, const scatter *s, void *const *operand,
                                 float *scratch, int part, int n_parts)
{
    const ipu__pooling         *p     = &s->p;
    const ipu__pool_lane_loops *loops = &IPU__SIMD_PICK(ipu__pool_lane_loops_of);
    ipu_type                    type  = call->operand[FROM].type;
    ipu_interval                mine  = ipu__op_part(p->planes, 1, part, n_parts);
    float                      *dx    = scratch + p->out_plane * IPU__LANES;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float   *dy     = plane_in(type, operand[FROM], i, p->out_plane, scratch);
        const int32_t *at     = indices_of(p, operand, i);
        bool           misses = true;
        if (s->has_guess)
            misses = loops->scatter(p, dy, at, 0, n_rows(p), dx);
        else
            memset(dx, 0, (size_t)(p->in_plane * IPU__LANES) * sizeof *dx);
        if (misses) IPU_TRY(add_misses(call, s, dy, at, dx));
        plane_done(type, dx, operand[TO], i, p->in_plane, 0, p->in_plane);
    }
    return IPU_OK;
}

static ipu_status add_all_misses(const ipu__kernel_call *call, const scatter *s, void *const *operand)
{
    const ipu__pooling *p = &s->p;
    for (int64_t i = 0; i < p->planes; i++)
        IPU_TRY(add_misses(call, s, (const float *)operand[FROM] + i * p->out_plane * IPU__LANES,
                           indices_of(p, operand, i), (float *)operand[TO] + i * p->in_plane * IPU__LANES));
    return IPU_OK;
}

ipu_status ipu__pool_lanes_scatter(const ipu__kernel_call *call, void *state, void *const *operand,
                                   float *scratch, int part, int n_parts)
{
    scatter                    *s      = state;
    const ipu__pooling         *p      = &s->p;
    const ipu__pool_lane_loops *loops  = &IPU__SIMD_PICK(ipu__pool_lane_loops_of);
    ipu_interval                mine   = ipu__op_part(p->planes * n_rows(p), 1, part, n_parts), row;
    bool                        misses = false;
    int64_t                     i;
    if (call->operand[FROM].type != IPU_FLOAT)
        return scatter_planes(call, s, operand, scratch, part, n_parts);
    while (s->has_guess && next_plane(p, &mine, &i, &row))
        misses |= loops->scatter(p, (const float *)operand[FROM] + i * p->out_plane * IPU__LANES,
                                 indices_of(p, operand, i), row.begin, row.end,
                                 (float *)operand[TO] + i * p->in_plane * IPU__LANES);
    if (misses) atomic_store_explicit(&s->misses, true, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return IPU_OK;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    if (!s->has_guess)
        memset(operand[TO], 0, (size_t)(p->planes * p->in_plane * IPU__LANES) * sizeof(float));
    else if (!atomic_exchange_explicit(&s->misses, false, memory_order_relaxed))
        return IPU_OK;
    return add_all_misses(call, s, operand);
}

ipu_status ipu__pool_lanes_gather(const ipu__kernel_call *call, void *const *operand, float *scratch,
                                  int part, int n_parts)
{
    ipu_type     type = call->operand[FROM].type;
    int64_t      from = plane_of(&call->operand[FROM].shape), n = plane_of(&call->operand[AT].shape);
    int64_t      n_planes = call->operand[AT].shape.dim[0] * call->operand[AT].shape.dim[1] / IPU__LANES;
    ipu_interval mine     = ipu__op_part(n_planes, 1, part, n_parts);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float   *x  = plane_in(type, operand[FROM], i, from, scratch);
        const int32_t *at = (const int32_t *)operand[AT] + i * n * IPU__LANES;
        float         *y  = plane_out(type, operand[TO], i, n, scratch + from * IPU__LANES);
        for (int64_t k = 0; k < n * IPU__LANES; k++) {
            if (at[k] < -1 || at[k] >= from) return ipu__pool_fail_index(call, at[k], from);
            y[k] = at[k] >= 0 ? x[at[k] * IPU__LANES + k % IPU__LANES] : 0;
        }
        plane_done(type, y, operand[TO], i, n, 0, n);
    }
    return IPU_OK;
}
