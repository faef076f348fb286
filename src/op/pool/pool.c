/* Pooling: geometry, inference, references, implementations over planes.
 *
 * A plane is one channel of one image. Indices are positions in a plane; -1 stands for a window that contains
 * only padding. Averages and their gradients are summed in float (double for double).
 */
#include "op/pool/pool.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "op/vector/floats.h"
#include "op/number.h"

/* ---- geometry ---- */

/* List `name` of the call at dimension i, or `otherwise`. */
static int64_t listed(const ipu__kernel_call *call, const char *name, size_t i, int64_t otherwise)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    return i < n ? list[i] : otherwise;
}

static ipu_status check_list(const ipu__kernel_call *call, const char *name, size_t want, int64_t least)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    if (n != 0 && n != want)
        return ipu__fail(IPU_INVALID,
                         "%s: \"%s\" has %zu numbers: expected %zu, for the dimensions after the channels",
                         call->def->name, name, n, want);
    for (size_t i = 0; i < n; i++)
        if (list[i] < least || list[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "%s: \"%s\" has %lld: expected %lld or more", call->def->name, name,
                             (long long)list[i], (long long)least);
    return IPU_OK;
}

static ipu_status check_lists(const ipu__kernel_call *call, int n_dims, bool has_dilation)
{
    size_t n = (size_t)n_dims;
    IPU_TRY(check_list(call, "kernel", n, 1));
    IPU_TRY(check_list(call, "strides", n, 1));
    IPU_TRY(check_list(call, "pads", 2 * n, 0));
    if (has_dilation) IPU_TRY(check_list(call, "dilations", n, 1));
    for (int i = 0; i < n_dims; i++) {
        int64_t window = has_dilation ? listed(call, "dilations", (size_t)i, 1) : 1;
        window         = window * (listed(call, "kernel", (size_t)i, 1) - 1) + 1;
        for (size_t side = 0; side < 2; side++)
            if (listed(call, "pads", side * n + (size_t)i, 0) >= window)
                return ipu__fail(IPU_INVALID,
                                 "%s: padding of %lld in dimension %d: expected less than the window, %lld",
                                 call->def->name, (long long)listed(call, "pads", side * n + (size_t)i, 0), i,
                                 (long long)window);
    }
    return IPU_OK;
}

/* torch's rule: with ceil_mode a last window must begin inside the input or the padding before it. */
static int64_t windows(const ipu__pool_axis *a, bool ceil_mode)
{
    int64_t room = a->in + a->begin + a->end - a->dilation * (a->kernel - 1) - 1;
    if (room < 0) return 0;
    int64_t n = (room + (ceil_mode ? a->stride - 1 : 0)) / a->stride + 1;
    if (ceil_mode && (n - 1) * a->stride >= a->in + a->begin) n--;
    return n;
}

ipu__pooling ipu__pool_of(const ipu__kernel_call *call, const ipu_shape *x, bool has_dilation)
{
    ipu__pooling p      = {.planes = x->dim[0] * x->dim[1], .in_plane = 1, .out_plane = 1};
    int          n_dims = x->rank - 2, skip = IPU__POOL_DIMS - n_dims;
    for (int d = 0; d < IPU__POOL_DIMS; d++) {
        size_t i  = (size_t)(d - skip);
        p.axis[d] = (ipu__pool_axis){1, 1, 1, 1, 0, 0, 1};
        if (d < skip) continue;
        ipu__pool_axis *a = &p.axis[d];
        a->in             = x->dim[2 + i];
        a->kernel         = listed(call, "kernel", i, 1);
        a->stride         = listed(call, "strides", i, a->kernel);
        a->begin          = listed(call, "pads", i, 0);
        a->end            = listed(call, "pads", (size_t)n_dims + i, 0);
        a->dilation       = has_dilation ? listed(call, "dilations", i, 1) : 1;
        a->out            = windows(a, ipu__op_int(call, "ceil_mode") != 0);
        p.in_plane *= a->in;
        p.out_plane *= a->out;
    }
    return p;
}

static void output_shape(const ipu__pooling *p, const ipu_shape *x, ipu_shape *out)
{
    *out = *x;
    for (int d = 2; d < x->rank; d++) out->dim[d] = p->axis[IPU__POOL_DIMS - x->rank + d].out;
}

static ipu_status fail_small(const ipu__kernel_call *call, const ipu_shape *x)
{
    return ipu__fail(IPU_INVALID, "%s: x %s is smaller than the window: there is nothing to give",
                     call->def->name, ipu__shape_str(x));
}

static ipu_status infer_windows(const ipu__kernel_call *call, const ipu_shape *x, bool has_dilation,
                                ipu_shape *out)
{
    size_t n;
    ipu__op_ints(call, "kernel", &n);
    if (n == 0) return ipu__fail(IPU_INVALID, "%s: \"kernel\" is empty", call->def->name);
    IPU_TRY(check_lists(call, x->rank - 2, has_dilation));
    ipu__pooling p = ipu__pool_of(call, x, has_dilation);
    output_shape(&p, x, out);
    if (p.in_plane > INT32_MAX)
        return ipu__fail(IPU_INVALID, "%s: a plane of %s has more than 2^31 elements", call->def->name,
                         ipu__shape_str(x));
    for (int d = 2; d < x->rank; d++)
        if (out->dim[d] < 1 && x->dim[0] * x->dim[1] > 0) return fail_small(call, x);
    return IPU_OK;
}

/* ---- max_pool ---- */

enum { X, Y, INDICES }; /* max_pool: x -> y, indices */

static ipu_status max_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 3, 5));
    out[0].type = call->operand[X].type;
    out[1].type = IPU_INT32;
    IPU_TRY(infer_windows(call, &call->operand[X].shape, true, &out[0].shape));
    out[1].shape   = out[0].shape;
    int64_t wanted = ipu__op_int(call, "indices");
    if (wanted == 0) out[1].shape = IPU_SHAPE(0);
    if (wanted == 0 || wanted == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "max_pool: attribute \"indices\" must be 0 or 1, found %lld",
                     (long long)wanted);
}

/* Calls fn for each tap of window (d, h, w) that is inside, in order. */
#define EACH_TAP(p, o, at, body)                                       \
    for (int64_t kd = 0; kd < (p)->axis[0].kernel; kd++)               \
        for (int64_t kh = 0; kh < (p)->axis[1].kernel; kh++)           \
            for (int64_t kw = 0; kw < (p)->axis[2].kernel; kw++) {     \
                int64_t at = place((p), (o), (int64_t[]){kd, kh, kw}); \
                if (at >= 0) body;                                     \
            }

/* The place in its plane of tap `tap` of output `o`; -1: padding. */
static int64_t place(const ipu__pooling *p, int64_t o, const int64_t tap[IPU__POOL_DIMS])
{
    int64_t at[IPU__POOL_DIMS];
    for (int d = IPU__POOL_DIMS - 1; d >= 0; d--) {
        const ipu__pool_axis *a = &p->axis[d];
        at[d]                   = o % a->out * a->stride - a->begin + tap[d] * a->dilation;
        o /= a->out;
        if (at[d] < 0 || at[d] >= a->in) return -1;
    }
    return (at[0] * p->axis[1].in + at[1]) * p->axis[2].in + at[2];
}

static void max_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type     type    = call->operand[X].type;
    ipu__pooling p       = ipu__pool_of(call, &call->operand[X].shape, true);
    int32_t     *indices = ipu__kernel_has(call, INDICES) ? operand[INDICES] : NULL;
    for (int64_t i = 0; i < p.planes * p.out_plane; i++) {
        int64_t first = i / p.out_plane * p.in_plane, where = -1;
        double  most = -HUGE_VAL;
        EACH_TAP(&p, i % p.out_plane, at, {
            double v = ipu__number_load(type, operand[X], first + at);
            if (v > most || isnan(v)) {
                most  = v;
                where = at;
            }
        })
        ipu__number_store(type, operand[Y], i, most);
        if (indices) indices[i] = (int32_t)where;
    }
}

static bool fits_floats(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[0].type != IPU_DOUBLE;
}

typedef struct state {
    ipu__pooling           p;
    ipu_type               type;
    const ipu__pool_loops *loops;
} state;

static ipu_status prepare(const ipu__kernel_call *call, const ipu_shape *x, bool has_dilation, void **out)
{
    state *s = ipu__alloc(sizeof *s);
    if (!s) return ipu__fail_memory();
    *s                   = (state){.p     = ipu__pool_of(call, x, has_dilation),
                                   .type  = call->operand[0].type,
                                   .loops = &IPU__SIMD_PICK(ipu__pool_loops_of)};
    s->p.include_padding = !has_dilation && ipu__op_int(call, "count_include_pad") != 0;
    *out                 = s;
    return IPU_OK;
}

static void release(void *s) { ipu__free(s); }

static ipu_status max_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    return prepare(call, &call->operand[X].shape, true, out);
}

/* A plane of either side as floats. */
static size_t plane_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    int64_t n = 0;
    if (call->operand[0].type == IPU_FLOAT) return 0;
    for (int i = 0; i < 2; i++) {
        int64_t plane = 1;
        for (int d = 2; d < call->operand[i].shape.rank; d++) plane *= call->operand[i].shape.dim[d];
        n += plane;
    }
    if (ipu__pool_is_turned(call)) n *= IPU__LAYOUT_WIDTH;
    return (size_t)n * sizeof(float);
}

/* Where to write plane `i` of `to` as floats: itself, or scratch. */
static float *plane_out(const state *s, void *to, int64_t i, int64_t n, float *scratch)
{
    return s->type == IPU_FLOAT ? (float *)to + i * n : scratch;
}

static void plane_done(const state *s, const float *plane, void *to, int64_t i, int64_t n)
{
    if (s->type != IPU_FLOAT) ipu__floats_store(s->type, plane, to, i * n, n);
}

/* Indices that are not wanted go to scratch: those of a row of vectors, or of a plane. */
static int64_t n_spare(const ipu__kernel_call *call, const ipu__pooling *p)
{
    const int64_t line = IPU__LAYOUT_WIDTH;
    if (ipu__kernel_has(call, INDICES)) return 0;
    return ipu__pool_is_turned(call) ? p->axis[2].out * line : (p->out_plane + line - 1) / line * line;
}

static size_t max_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__pooling p = ipu__pool_of(call, &call->operand[X].shape, true);
    return (size_t)n_spare(call, &p) * sizeof(int32_t) + plane_bytes(call, n_parts);
}

static ipu_status max_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    const state *s      = prepared;
    ipu_interval mine   = ipu__op_part(s->p.planes, 1, part, n_parts);
    bool         wants  = ipu__kernel_has(call, INDICES);
    float       *floats = (float *)scratch + n_spare(call, &s->p);
    if (ipu__pool_is_turned(call)) {
        ipu__pool_lanes_max(&s->p, s->type, operand, wants ? NULL : scratch, floats, part, n_parts);
        return IPU_OK;
    }
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float *x = ipu__floats_get(s->type, operand[X], i * s->p.in_plane, s->p.in_plane, floats);
        float       *y = plane_out(s, operand[Y], i, s->p.out_plane, floats + s->p.in_plane);
        s->loops->max(&s->p, x, y, wants ? (int32_t *)operand[INDICES] + i * s->p.out_plane : scratch);
        plane_done(s, y, operand[Y], i, s->p.out_plane);
    }
    return IPU_OK;
}

/* Indices that were not wanted are, after all. */
static ipu_value emit_indices(const ipu__gradient *g)
{
    ipu_attribute list[8];
    ipu_value     out[2] = {{g->b, 0}, {g->b, 0}};
    size_t        n      = 0;
    for (size_t i = 0; i < g->call->n_attributes && n < IPU__COUNT(list); i++)
        if (strcmp(g->call->attributes[i].name, "indices") != 0) list[n++] = g->call->attributes[i];
    ipu_emit(g->b, "max_pool", list, n, g->in, 1, out, 2);
    return out[1];
}

static void max_grad(ipu__gradient *g)
{
    const ipu_shape *x       = &g->call->operand[X].shape;
    ipu_value        indices = ipu__kernel_has(g->call, INDICES) ? g->out[1] : emit_indices(g);
    g->d_in[0] = ipu__emit1(g->b, "pool_scatter", IPU__WITH(IPU__INTS("size", x->dim + 2, x->rank - 2)),
                            IPU__IN(g->d_out[0], indices));
}

/* ---- average_pool ---- */

static ipu_status average_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 3, 5));
    out->type = call->operand[X].type;
    return infer_windows(call, &call->operand[X].shape, false, &out->shape);
}

static double divisor(const ipu__pooling *p, int64_t o)
{
    double n = 1;
    for (int d = IPU__POOL_DIMS - 1; d >= 0; d--) {
        n *= (double)ipu__pool_count(&p->axis[d], o % p->axis[d].out, p->include_padding);
        o /= p->axis[d].out;
    }
    return n;
}

static void average_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type     type = call->operand[X].type;
    ipu__pooling p    = ipu__pool_of(call, &call->operand[X].shape, false);
    p.include_padding = ipu__op_int(call, "count_include_pad") != 0;
    for (int64_t i = 0; i < p.planes * p.out_plane; i++) {
        int64_t first = i / p.out_plane * p.in_plane;
        double  sum   = 0;
        EACH_TAP(&p, i % p.out_plane, at, sum += ipu__number_load(type, operand[X], first + at))
        ipu__number_store(type, operand[Y], i, sum / divisor(&p, i % p.out_plane));
    }
}

static ipu_status average_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    return prepare(call, &call->operand[X].shape, false, out);
}

/* Each plane of the first operand, of `from` elements, to one of the second, of `to`. */
static ipu_status run_planes(const state *s, void *const *operand, float *scratch, ipu_interval mine,
                             int64_t from, int64_t to,
                             void (*loop)(const ipu__pooling *p, const float *in, float *out))
{
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const float *in  = ipu__floats_get(s->type, operand[0], i * from, from, scratch);
        float       *out = plane_out(s, operand[1], i, to, scratch + from);
        loop(&s->p, in, out);
        plane_done(s, out, operand[1], i, to);
    }
    return IPU_OK;
}

static ipu_status average_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    const state *s = prepared;
    if (ipu__pool_is_turned(call)) {
        ipu__pool_lanes_average(&s->p, s->type, operand, scratch, part, n_parts);
        return IPU_OK;
    }
    return run_planes(s, operand, scratch, ipu__op_part(s->p.planes, 1, part, n_parts), s->p.in_plane,
                      s->p.out_plane, s->loops->average);
}

/* All attributes of the call, and "size" with the larger side's extents. */
static ipu_value with_size(ipu_builder *b, const char *op, const ipu__kernel_call *call, const ipu_shape *x,
                           ipu_value in)
{
    ipu_attribute list[8];
    size_t        n = 0;
    for (size_t i = 0; i < call->n_attributes && n < 7; i++)
        if (strcmp(call->attributes[i].name, "size") != 0) list[n++] = call->attributes[i];
    if (x) list[n++] = IPU__INTS("size", x->dim + 2, x->rank - 2);
    return ipu__emit1(b, op, list, n, IPU__IN(in));
}

static void average_grad(ipu__gradient *g)
{
    g->d_in[0] = with_size(g->b, "average_pool_grad", g->call, &g->call->operand[X].shape, g->d_out[0]);
}

/* ---- average_pool_grad: dy -> dx ---- */

static ipu_status sized(const ipu__kernel_call *call, const ipu_shape *small, ipu_shape *out)
{
    size_t         n;
    const int64_t *size = ipu__op_ints(call, "size", &n);
    if (n != (size_t)small->rank - 2)
        return ipu__fail(IPU_INVALID, "%s: \"size\" has %zu numbers: expected %d", call->def->name, n,
                         small->rank - 2);
    *out = *small;
    for (size_t i = 0; i < n; i++) {
        if (size[i] < 0 || size[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "%s: \"size\" has %lld", call->def->name, (long long)size[i]);
        out->dim[2 + i] = size[i];
    }
    return IPU_OK;
}

static ipu_status average_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_shape pooled;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 3, 5));
    out->type = call->operand[X].type;
    IPU_TRY(sized(call, &call->operand[X].shape, &out->shape));
    IPU_TRY(infer_windows(call, &out->shape, false, &pooled));
    return ipu__op_want_shape(call, X, &pooled);
}

static void average_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type     type = call->operand[Y].type;
    ipu__pooling p    = ipu__pool_of(call, &call->operand[Y].shape, false);
    p.include_padding = ipu__op_int(call, "count_include_pad") != 0;
    for (int64_t plane = 0; plane < p.planes; plane++)
        for (int64_t to = 0; to < p.in_plane; to++) {
            double sum = 0;
            for (int64_t o = 0; o < p.out_plane; o++) {
                double d = ipu__number_load(type, operand[X], plane * p.out_plane + o) / divisor(&p, o);
                EACH_TAP(&p, o, at, sum += at == to ? d : 0)
            }
            ipu__number_store(type, operand[Y], plane * p.in_plane + to, sum);
        }
}

static ipu_status average_grad_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    return prepare(call, &call->operand[Y].shape, false, out);
}

static ipu_status average_grad_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                   void *scratch, int part, int n_parts)
{
    const state *s = prepared;
    if (ipu__pool_is_turned(call)) {
        ipu__pool_lanes_average_grad(&s->p, s->type, operand, scratch, part, n_parts);
        return IPU_OK;
    }
    return run_planes(s, operand, scratch, ipu__op_part(s->p.planes, 1, part, n_parts), s->p.out_plane,
                      s->p.in_plane, s->loops->average_grad);
}

static void average_grad_grad(ipu__gradient *g)
{
    g->d_in[0] = with_size(g->b, "average_pool", g->call, NULL, g->d_out[0]);
}

/* ---- by indices: gather x -> y, scatter y -> x ---- */

enum { FROM, AT, TO };

static ipu_status check_indices(const ipu__kernel_call *call)
{
    IPU_TRY(ipu__op_want_floating(call, FROM));
    IPU_TRY(ipu__op_want_rank(call, FROM, 3, 5));
    IPU_TRY(ipu__op_want_type(call, AT, IPU_INT32));
    const ipu_shape *x = &call->operand[FROM].shape, *at = &call->operand[AT].shape;
    if (at->rank == x->rank && at->dim[0] == x->dim[0] && at->dim[1] == x->dim[1]) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"indices\" %s and %s must agree in the first two dimensions",
                     call->def->name, ipu__shape_str(at), ipu__shape_str(x));
}

static ipu_status gather_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_indices(call));
    *out = (ipu__kernel_value){call->operand[FROM].type, call->operand[AT].shape};
    return IPU_OK;
}

static ipu_status scatter_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_indices(call));
    IPU_TRY(ipu__op_want_shape(call, AT, &call->operand[FROM].shape));
    out->type = call->operand[FROM].type;
    return sized(call, &call->operand[FROM].shape, &out->shape);
}

static int64_t plane_of(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int d = 2; d < shape->rank; d++) n *= shape->dim[d];
    return n;
}

static int64_t planes_of(const ipu__kernel_call *call)
{
    return call->operand[AT].shape.dim[0] * call->operand[AT].shape.dim[1];
}

ipu_status ipu__pool_fail_index(const ipu__kernel_call *call, int32_t at, int64_t n)
{
    return ipu__fail(IPU_ABORTED, "%s: index %d in a plane of %lld elements", call->def->name, (int)at,
                     (long long)n);
}

static void gather_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type       type = call->operand[FROM].type;
    int64_t        from = plane_of(&call->operand[FROM].shape), n = plane_of(&call->operand[AT].shape);
    const int32_t *at = operand[AT];
    for (int64_t i = 0; i < planes_of(call) * n; i++) {
        bool is_there = at[i] >= 0 && at[i] < from;
        ipu__number_store(type, operand[TO], i,
                          is_there ? ipu__number_load(type, operand[FROM], i / n * from + at[i]) : 0);
    }
}

static void scatter_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type       type = call->operand[FROM].type;
    int64_t        n = plane_of(&call->operand[FROM].shape), to = plane_of(&call->operand[TO].shape);
    const int32_t *at = operand[AT];
    for (int64_t i = 0; i < planes_of(call) * to; i++) {
        double sum = 0;
        for (int64_t k = i / to * n; k < (i / to + 1) * n; k++)
            if (at[k] == i % to) sum += ipu__number_load(type, operand[FROM], k);
        ipu__number_store(type, operand[TO], i, sum);
    }
}

static ipu_status gather_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                             void *scratch, int part, int n_parts)
{
    (void)prepared;
    if (ipu__pool_is_turned(call)) return ipu__pool_lanes_gather(call, operand, scratch, part, n_parts);
    ipu_type     type = call->operand[FROM].type;
    int64_t      from = plane_of(&call->operand[FROM].shape), n = plane_of(&call->operand[AT].shape);
    ipu_interval mine   = ipu__op_part(planes_of(call), 1, part, n_parts);
    float       *floats = scratch, *y = floats + from;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const int32_t *at = (const int32_t *)operand[AT] + i * n;
        const float   *x  = ipu__floats_get(type, operand[FROM], i * from, from, floats);
        float         *to = type == IPU_FLOAT ? (float *)operand[TO] + i * n : y;
        for (int64_t k = 0; k < n; k++) {
            if (at[k] < -1 || at[k] >= from) return ipu__pool_fail_index(call, at[k], from);
            to[k] = at[k] >= 0 ? x[at[k]] : 0;
        }
        if (type != IPU_FLOAT) ipu__floats_store(type, to, operand[TO], i * n, n);
    }
    return IPU_OK;
}

static ipu_status scatter_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    if (ipu__pool_is_turned(call))
        return ipu__pool_lanes_scatter(call, prepared, operand, scratch, part, n_parts);
    ipu_type     type = call->operand[FROM].type;
    int64_t      n = plane_of(&call->operand[FROM].shape), size = plane_of(&call->operand[TO].shape);
    ipu_interval mine   = ipu__op_part(planes_of(call), 1, part, n_parts);
    float       *floats = scratch, *x = floats + n;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        const int32_t *at = (const int32_t *)operand[AT] + i * n;
        const float   *y  = ipu__floats_get(type, operand[FROM], i * n, n, floats);
        float         *to = type == IPU_FLOAT ? (float *)operand[TO] + i * size : x;
        memset(to, 0, (size_t)size * sizeof *to);
        for (int64_t k = 0; k < n; k++) {
            if (at[k] < -1 || at[k] >= size) return ipu__pool_fail_index(call, at[k], size);
            if (at[k] >= 0) to[at[k]] += y[k];
        }
        if (type != IPU_FLOAT) ipu__floats_store(type, to, operand[TO], i * size, size);
    }
    return IPU_OK;
}

static size_t index_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    if (call->operand[FROM].type == IPU_FLOAT) return 0;
    return (size_t)(plane_of(&call->operand[FROM].shape) + plane_of(&call->operand[TO].shape))
         * (ipu__pool_is_turned(call) ? IPU__LAYOUT_WIDTH : 1) * sizeof(float);
}

static void gather_grad(ipu__gradient *g)
{
    const ipu_shape *x = &g->call->operand[FROM].shape;
    if (g->wanted[FROM])
        g->d_in[FROM] = ipu__emit1(g->b, "pool_scatter",
                                   IPU__WITH(IPU__INTS("size", x->dim + 2, x->rank - 2)),
                                   IPU__IN(g->d_out[0], g->in[AT]));
}

static void scatter_grad(ipu__gradient *g)
{
    if (g->wanted[FROM])
        g->d_in[FROM] = ipu__emit1(g->b, "pool_gather", NULL, 0, IPU__IN(g->d_out[0], g->in[AT]));
}

/* ---- pricing ---- */

static double n_taps(const ipu__kernel_call *call)
{
    size_t         n_dims;
    const int64_t *kernel = ipu__op_ints(call, "kernel", &n_dims);
    double         taps   = 1;
    for (size_t i = 0; i < n_dims; i++) taps *= (double)kernel[i];
    return taps;
}

static double window_work(const ipu__kernel_call *call)
{
    double n = (double)ipu__op_n_elements(&call->operand[0].shape);
    double m = (double)ipu__op_n_elements(&call->operand[1].shape);
    return n + (n < m ? n : m) * n_taps(call);
}

/* The references go through whole windows, those of gradients through all windows for each element. */
static double max_ref_work(const ipu__kernel_call *call)
{
    return 8 * (double)ipu__op_n_elements(&call->operand[Y].shape) * n_taps(call);
}
#define average_ref_work max_ref_work

static double average_grad_ref_work(const ipu__kernel_call *call)
{
    return 8 * (double)ipu__op_n_elements(&call->operand[X].shape) * (double)plane_of(&call->operand[Y].shape)
         * n_taps(call);
}

static double scatter_ref_work(const ipu__kernel_call *call)
{
    return 2 * (double)ipu__op_n_elements(&call->operand[TO].shape)
         * (double)plane_of(&call->operand[FROM].shape);
}
#define gather_ref_work NULL

static double index_work(const ipu__kernel_call *call)
{
    return 2 * (double)ipu__op_n_elements(&call->operand[FROM].shape)
         + (double)ipu__op_n_elements(&call->operand[TO].shape);
}

/* Planes over tiles; a vertex takes a cycle per vector and tap. PopLibs' pooling planner also counts bytes/4 for
 * exchange; here a plane and its windows are on one tile. */
static ipu_status plan_by(double work, double start, ipu_type type, const ipu_target *target,
                          ipu__kernel_plan *out)
{
    double width;
    IPU_TRY(ipu__op_constant(target, type == IPU_HALF ? "vector_width_half" : "vector_width_float", &width));
    ipu__op_loop loop = {start, width, 2};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(work), (int64_t)width, target, out));
    out->basis = "our estimate: two cycles for a vector of each tap, windows on the tile of their plane";
    return IPU_OK;
}

static ipu_status window_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    return plan_by(window_work(call), 40, call->operand[0].type, target, out);
}

static ipu_status index_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    return plan_by(4 * index_work(call), 30, call->operand[0].type, target, out);
}

/* ---- records ---- */

#define LIST(n, text)                                              \
    {                                                              \
        .name = (n), .kind = IPU_ATTRIBUTE_INTS, .meaning = (text) \
    }
#define FLAG(n, text)                                             \
    {                                                             \
        .name = (n), .kind = IPU_ATTRIBUTE_INT, .meaning = (text) \
    }
#define WINDOW_ATTRIBUTES                                                                              \
    {.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "size of the window"}, \
        LIST("strides", "from window to window; none: the kernel's size"),                             \
        LIST("pads", "before each dimension, then after each; none: 0"),                               \
        FLAG("ceil_mode", "1: a last window that is only partly there counts")
#define SIZE_ATTRIBUTE                                                \
    {                                                                 \
        .name = "size", .kind = IPU_ATTRIBUTE_INTS, .required = true, \
        .meaning = "extents of the planes of the output"              \
    }
#define PADDING_ATTRIBUTE                                                       \
    {                                                                           \
        .name = "count_include_pad", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, \
        .meaning = "1: padding counts as elements, which are 0"                 \
    }

static const ipu_op_attribute max_attributes[]          = {WINDOW_ATTRIBUTES,
                                                           LIST("dilations", "between taps; none: 1"),
                                                           {.name      = "indices",
                                                            .kind      = IPU_ATTRIBUTE_INT,
                                                            .otherwise = 1,
                                                            .meaning = "0: not wanted, so that they have shape [0]"}};
static const ipu_op_attribute average_attributes[]      = {WINDOW_ATTRIBUTES, PADDING_ATTRIBUTE};
static const ipu_op_attribute average_grad_attributes[] = {WINDOW_ATTRIBUTES, PADDING_ATTRIBUTE,
                                                           SIZE_ATTRIBUTE};
static const ipu_op_attribute size_attributes[]         = {SIZE_ATTRIBUTE};

static const ipu__kernel_operand max_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y"), IPU__OUTPUT("indices")};
static const ipu__kernel_operand operands[]     = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu__kernel_operand index_operands[] = {IPU__INPUT("x"), IPU__INPUT("indices"),
                                                     IPU__OUTPUT("y")};

static const char *const max_samples[] = {
    "float[2,3,7]; kernel=[2]",
    "float[1,2,6,7]; kernel=[2,2]",
    "float[2,1,7,7]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1",
    "float[1,1,9,9]; kernel=[2,3] strides=[3,1] dilations=[2,2] pads=[0,1,1,2]",
    "float[1,2,4,5,4]; kernel=[2,2,2] strides=[1,2,2]",
    "float[2,0,4,4]; kernel=[2,2]",
    "float[4,16,32,32]; kernel=[2,2]",
    "float[2,8,33,31]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1]",
    "float[16,5,7,6]; kernel=[2,2]",
    "float[16,16,7,7]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1",
    "float[16,2,9,9]; kernel=[2,3] strides=[3,1] dilations=[2,2] pads=[0,1,1,2]",
    "float[32,1,4,5,4]; kernel=[2,2,2] strides=[1,2,2]",
    "float[1,32,7]; kernel=[2]",
    "float[16,5,7,6]; kernel=[2,2] indices=0",
    "float[2,16,7,7]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] indices=0",
    NULL};
static const char *const average_samples[] = {
    "float[2,3,7]; kernel=[2]",
    "float[1,2,6,7]; kernel=[2,2]",
    "float[2,1,7,7]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1",
    "float[2,1,7,8]; kernel=[3,2] strides=[2,3] pads=[1,1,0,1] ceil_mode=1 count_include_pad=0",
    "float[1,2,4,5,4]; kernel=[2,2,2] strides=[1,2,2]",
    "float[4,16,32,32]; kernel=[2,2]",
    "float[16,3,7,8]; kernel=[3,2] strides=[2,3] pads=[1,1,0,1] ceil_mode=1 count_include_pad=0",
    "float[2,16,4,5,4]; kernel=[2,2,2] strides=[1,2,2]",
    NULL};
static const char *const average_grad_samples[] = {
    "float[2,3,3]; kernel=[2] size=[7]",
    "float[2,1,4,4]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1 size=[7,7]",
    "float[2,1,3,3]; kernel=[3,3] strides=[2,2] pads=[0,1,1,1] count_include_pad=0 size=[6,5]",
    "float[1,2,3,2,2]; kernel=[2,2,2] strides=[1,2,2] size=[4,5,4]",
    "float[4,8,16,16]; kernel=[2,2] size=[32,32]",
    "float[16,1,4,4]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1 size=[7,7]",
    "float[1,32,3,2,2]; kernel=[2,2,2] strides=[1,2,2] size=[4,5,4]",
    NULL};
static const char *const gather_samples[] = {
    "float[2,2,5,2], int32[2,2,3,2]",       "float[4,16,16,16], int32[4,16,8,8]",
    "float[4,64,32,32], int32[4,64,16,16]", "float[16,3,5,2], int32[16,3,3,2]",
    "float[2,16,4,3,2], int32[2,16,1,3,2]", NULL};
static const char *const scatter_samples[] = {
    "float[2,2,3,2], int32[2,2,3,2]; size=[5,2]",   "float[4,64,8,8], int32[4,64,8,8]; size=[16,16]",
    "float[16,5,3,2], int32[16,5,3,2]; size=[7,4]", "float[2,16,1,3,2], int32[2,16,1,3,2]; size=[3,2,6]",
    "float[16,3,7], int32[16,3,7]; size=[10]",      NULL};

#define IMPLEMENTATION(name_, bytes, run_, prepare_, release_)                       \
    static const ipu__cpu_impl name_[] = {{.head          = {"planes", fits_floats}, \
                                           .layouts       = ipu__pool_layouts,       \
                                           .scratch_bytes = bytes,                   \
                                           .prepare       = prepare_,                \
                                           .release       = release_,                \
                                           .run           = run_}}
IMPLEMENTATION(max_implementations, max_bytes, max_run, max_prepare, release);
IMPLEMENTATION(average_implementations, plane_bytes, average_run, average_prepare, release);
IMPLEMENTATION(average_grad_implementations, plane_bytes, average_grad_run, average_grad_prepare, release);
IMPLEMENTATION(gather_implementations, index_bytes, gather_run, NULL, NULL);
IMPLEMENTATION(scatter_implementations, index_bytes, scatter_run, ipu__pool_scatter_prepare,
               ipu__pool_scatter_release);

#define RECORD(op, operands_, ins, prefix, attributes_, n_attributes_, work_, plan_, flags_, text, ...)           \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                                    \
                                                       .operands        = operands_,                              \
                                                       .n_operands      = IPU__COUNT(operands_),                  \
                                                       .check           = ipu__op_check,                          \
                                                       .rows            = ipu__op_rows,                           \
                                                       .ref             = prefix##_ref,                           \
                                                       .work            = work_,                                  \
                                                       .ref_work        = prefix##_ref_work,                      \
                                                       .plan            = plan_,                                  \
                                                       .implementations = IPU__ON_CPU(prefix##_implementations)}, \
                                      .n_in         = ins,                                                        \
                                      .family       = "pool",                                                     \
                                      .summary      = text,                                                       \
                                      .flags        = flags_,                                                     \
                                      .attributes   = attributes_,                                                \
                                      .n_attributes = n_attributes_,                                              \
                                      .infer        = prefix##_infer,                                             \
                                      .samples      = prefix##_samples,                                           \
                                      __VA_ARGS__}

RECORD(max_pool, max_operands, 1, max, max_attributes, IPU__COUNT(max_attributes), window_work, window_plan,
       IPU__OP_EXACT_IN_HALF, "the largest of each window, and where in its plane it is", .grad = max_grad,
       .batch = IPU__BATCH({IPU__AXIS_0}, {IPU__AXIS_0, IPU__AXIS_0}));
RECORD(average_pool, operands, 1, average, average_attributes, IPU__COUNT(average_attributes), window_work,
       window_plan, 0, "the mean of each window", .grad = average_grad,
       .batch = IPU__BATCH({IPU__AXIS_0}, {IPU__AXIS_0}));
RECORD(average_pool_grad, operands, 1, average_grad, average_grad_attributes,
       IPU__COUNT(average_grad_attributes), window_work, window_plan, 0,
       "the gradient of average_pool: each element dealt to its window", .grad = average_grad_grad,
       .batch = IPU__BATCH({IPU__AXIS_0}, {IPU__AXIS_0}));
RECORD(pool_gather, index_operands, 2, gather, NULL, 0, index_work, index_plan, IPU__OP_EXACT_IN_HALF,
       "elements of planes by their places", .grad = gather_grad,
       .batch = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}));
RECORD(pool_scatter, index_operands, 2, scatter, size_attributes, 1, index_work, index_plan, 0,
       "elements added up at their places in planes: the gradient of max_pool", .grad = scatter_grad,
       .batch = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}));
