/* roi_align, its gradient, and roi_align_max.
 *
 * A sample is a sum over two elements along each axis. Their positions and number are computed in double for
 * all types and implementations.
 */
#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/pool.h"
#include "ipu/op/shape.h"
#include "ipu/op/vision.h"
#include "op/index/gather.h"
#include "op/number.h"

enum { X, ROIS, BATCH, Y, INDICES, WEIGHTS }; /* of the gradient: d_y, rois, batch -> d_x */

/* ---- geometry ---- */

typedef struct align {
    int64_t  n, channels, in[2], rois, out[2]; /* heights, widths */
    int64_t  ratio;
    double   scale;
    bool     half_pixel;
    ipu_type type, index_type;
} align;

static align get_align(const ipu__kernel_call *call, int image, int regions)
{
    const ipu_shape *x = &call->operand[image].shape, *y = &call->operand[regions].shape;
    return (align){.n          = x->dim[0],
                   .channels   = x->dim[1],
                   .in         = {x->dim[2], x->dim[3]},
                   .rois       = y->dim[0],
                   .out        = {y->dim[2], y->dim[3]},
                   .ratio      = ipu__op_int(call, "sampling_ratio"),
                   .scale      = ipu__op_float(call, "scale"),
                   .half_pixel = ipu__op_int(call, "half_pixel") != 0,
                   .type       = call->operand[image].type,
                   .index_type = call->operand[BATCH].type};
}

/* A region along one axis: 0 is y, 1 is x. */
typedef struct span {
    double  begin, cell;
    int64_t samples; /* of a cell */
} span;

enum { MOST_SAMPLES = 1 << 20 };

static span get_span(const align *a, const void *rois, int64_t roi, int axis)
{
    double offset = a->half_pixel ? 0.5 : 0;
    double begin  = ipu__number_load(a->type, rois, 4 * roi + 1 - axis) * a->scale - offset;
    double end = ipu__number_load(a->type, rois, 4 * roi + 3 - axis) * a->scale - offset, size = end - begin;
    if (!a->half_pixel && !(size >= 1)) size = 1;
    span   s     = {begin, size / (double)a->out[axis], a->ratio};
    double cells = ceil(s.cell);
    if (a->ratio == 0) s.samples = cells > 0 ? cells < MOST_SAMPLES ? (int64_t)cells : MOST_SAMPLES : 0;
    return s;
}

typedef struct taps {
    int     n; /* 0: outside */
    int64_t index[2];
    double  weight[2];
} taps;

static taps get_taps(const align *a, const span *s, int axis, int64_t cell, int64_t sample)
{
    int64_t size = a->in[axis];
    double  p    = s->begin + (double)cell * s->cell + ((double)sample + 0.5) * s->cell / (double)s->samples;
    if (!(p >= -1 && p <= (double)size)) return (taps){0};
    if (p < 0) p = 0;
    int64_t low = (int64_t)p;
    if (low >= size - 1) return (taps){1, {size - 1}, {1}};
    return (taps){2, {low, low + 1}, {1 - (p - (double)low), p - (double)low}};
}

/* Samples of a cell that may lie in the image, and one on each side that does not: regions may reach far beyond. */
static ipu_interval samples_near(const align *a, const span *s, int axis, int64_t cell)
{
    double base = s->begin + (double)cell * s->cell, step = s->cell / (double)s->samples;
    if (s->samples < 1) return (ipu_interval){0, 0};
    if (!isfinite(base) || !isfinite(step)) return (ipu_interval){0, 1}; /* all of them are outside */
    if (step <= 0) return (ipu_interval){0, s->samples};
    double low = floor((-1 - base) / step) - 2, high = ceil(((double)a->in[axis] - base) / step) + 2;
    double last = (double)s->samples - 1;
    low         = low < 0 ? 0 : low > last ? last : low;
    high        = high > last + 1 ? last + 1 : high < low + 1 ? low + 1 : high;
    return (ipu_interval){(int64_t)low, (int64_t)high};
}

static double count_of(const span s[2])
{
    double n = (double)s[0].samples * (double)s[1].samples;
    return n > 1 ? n : 1;
}

/* The image of a region, or -1. */
static int64_t image_of(const align *a, const void *batch, int64_t roi)
{
    return ipu__index_fix(ipu__index_load(a->index_type, batch, roi), a->n);
}

/* ---- inference ---- */

static ipu_status check_regions(const ipu__kernel_call *call)
{
    int64_t rois = call->operand[ROIS].shape.dim[0], ratio = ipu__op_int(call, "sampling_ratio");
    double  scale = ipu__op_float(call, "scale");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 4, 4));
    IPU_TRY(ipu__op_want_same_type(call, X, ROIS));
    IPU_TRY(ipu__op_want_rank(call, ROIS, 2, 2));
    IPU_TRY(ipu__op_want_shape(call, ROIS, &IPU_SHAPE(rois, 4)));
    IPU_TRY(ipu__op_want_integer(call, BATCH));
    IPU_TRY(ipu__op_want_shape(call, BATCH, &IPU_SHAPE(rois)));
    if (ratio >= 0 && ratio <= MOST_SAMPLES && scale > 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: sampling_ratio = %lld, scale = %g: expected 0 or more, and above 0",
                     call->def->name, (long long)ratio, scale);
}

static ipu_status check_size(const ipu__kernel_call *call, const char *name, int64_t size[2])
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    if (n != 2 || list[0] < 1 || list[1] < 1 || list[0] > INT32_MAX || list[1] > INT32_MAX / list[0])
        return ipu__fail(IPU_INVALID, "%s: %s: expected a height and a width of 1 or more", call->def->name,
                         name);
    size[0] = list[0];
    size[1] = list[1];
    return IPU_OK;
}

static ipu_status align_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape;
    int64_t          size[2];
    IPU_TRY(check_regions(call));
    IPU_TRY(check_size(call, "size", size));
    if (x->dim[2] < 1 || x->dim[3] < 1 || x->dim[2] > INT32_MAX || x->dim[3] > INT32_MAX / x->dim[2])
        return ipu__fail(IPU_INVALID, "%s: \"x\" %s: expected planes of 1 to 2^31 elements", call->def->name,
                         ipu__shape_str(x));
    out[0] = (ipu__kernel_value){call->operand[X].type,
                                 IPU_SHAPE(call->operand[ROIS].shape.dim[0], x->dim[1], size[0], size[1])};
    return IPU_OK;
}

static ipu_status max_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(align_infer(call, out));
    out[1] = (ipu__kernel_value){IPU_INT32, out[0].shape};
    out[2] = out[0];
    return IPU_OK;
}

static ipu_status grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *dy = &call->operand[X].shape;
    int64_t          size[2], n = ipu__op_int(call, "n");
    IPU_TRY(check_regions(call));
    IPU_TRY(check_size(call, "size", size));
    if (dy->dim[0] != call->operand[ROIS].shape.dim[0] || n < 0)
        return ipu__fail(IPU_INVALID, "roi_align_grad: \"d_y\" %s for %lld regions of %lld images",
                         ipu__shape_str(dy), (long long)call->operand[ROIS].shape.dim[0], (long long)n);
    *out = (ipu__kernel_value){call->operand[X].type, IPU_SHAPE(n, dy->dim[1], size[0], size[1])};
    return IPU_OK;
}

static ipu_status examine_batch(const ipu__kernel_call *call, const align *a, const void *batch)
{
    for (int64_t i = 0; i < a->rois; i++)
        if (image_of(a, batch, i) < 0) return ipu__index_fail(call->operand[BATCH].type, batch, i, a->n);
    return IPU_OK;
}

static ipu_status examine(const ipu__kernel_call *call, void *const *operand)
{
    bool  is_grad = call->def == &ipu__op_roi_align_grad.kernel;
    align a       = is_grad ? get_align(call, Y, X) : get_align(call, X, Y);
    return examine_batch(call, &a, operand[BATCH]);
}

/* ---- references ---- */

/* The mean of cell `cell` of plane `plane`. */
static double mean_of(const align *a, const span s[2], const void *x, int64_t plane, const int64_t cell[2])
{
    double       sum  = 0;
    ipu_interval rows = samples_near(a, &s[0], 0, cell[0]), columns = samples_near(a, &s[1], 1, cell[1]);
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = columns.begin; j < columns.end; j++) {
            taps v = get_taps(a, &s[0], 0, cell[0], i), h = get_taps(a, &s[1], 1, cell[1], j);
            for (int k = 0; k < v.n * h.n; k++) {
                int64_t at = (plane * a->in[0] + v.index[k / h.n]) * a->in[1] + h.index[k % h.n];
                sum += v.weight[k / h.n] * h.weight[k % h.n] * ipu__number_load(a->type, x, at);
            }
        }
    return sum / count_of(s);
}

static void align_ref(const ipu__kernel_call *call, void *const *operand)
{
    align a = get_align(call, X, Y);
    for (int64_t i = 0; i < a.rois * a.channels * a.out[0] * a.out[1]; i++) {
        int64_t cell[2] = {i / a.out[1] % a.out[0], i % a.out[1]};
        int64_t c = i / (a.out[0] * a.out[1]) % a.channels, roi = i / (a.out[0] * a.out[1]) / a.channels;
        int64_t image = image_of(&a, operand[BATCH], roi);
        span    s[2]  = {get_span(&a, operand[ROIS], roi, 0), get_span(&a, operand[ROIS], roi, 1)};
        ipu__number_store(a.type, operand[Y], i,
                          image < 0 ? 0 : mean_of(&a, s, operand[X], image * a.channels + c, cell));
    }
}

/* What a cell gives to the element at `at` along an axis, over all of its samples. */
static double weight_of(const align *a, const span *s, int axis, int64_t cell, int64_t at)
{
    double       sum  = 0;
    ipu_interval near = samples_near(a, s, axis, cell);
    for (int64_t i = near.begin; i < near.end; i++) {
        taps t = get_taps(a, s, axis, cell, i);
        for (int k = 0; k < t.n; k++) sum += t.index[k] == at ? t.weight[k] : 0;
    }
    return sum;
}

static void grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    align   a    = get_align(call, Y, X);
    int64_t area = a.in[0] * a.in[1];
    for (int64_t i = 0; i < a.n * a.channels * area; i++) {
        double  sum = 0;
        int64_t c   = i / area % a.channels;
        for (int64_t roi = 0; roi < a.rois; roi++) {
            if (image_of(&a, operand[BATCH], roi) != i / area / a.channels) continue;
            span s[2] = {get_span(&a, operand[ROIS], roi, 0), get_span(&a, operand[ROIS], roi, 1)};
            for (int64_t cell = 0; cell < a.out[0] * a.out[1]; cell++) {
                double w = weight_of(&a, &s[0], 0, cell / a.out[1], i % area / a.in[1]);
                if (w == 0) continue;
                w *= weight_of(&a, &s[1], 1, cell % a.out[1], i % a.in[1]) / count_of(s);
                sum += w
                     * ipu__number_load(a.type, operand[X],
                                        (roi * a.channels + c) * a.out[0] * a.out[1] + cell);
            }
        }
        ipu__number_store(a.type, operand[Y], i, sum);
    }
}

/* ---- one sample for all channels at once ---- */

static bool fits_floats(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[X].type == IPU_FLOAT;
}

/* Calls `body` for each tap of cell (row, column), with its place in a plane and its weight. */
#define EACH_TAP(a, s, row, column, at, w, body)                                     \
    for (ipu_interval r_ = samples_near((a), &(s)[0], 0, (row)),                     \
                      c_ = samples_near((a), &(s)[1], 1, (column));                  \
         r_.begin < r_.end; r_.begin++) {                                            \
        taps v_ = get_taps((a), &(s)[0], 0, (row), r_.begin);                        \
        for (int64_t j_ = c_.begin; j_ < c_.end && v_.n > 0; j_++) {                 \
            taps h_ = get_taps((a), &(s)[1], 1, (column), j_);                       \
            for (int k_ = 0; k_ < v_.n * h_.n; k_++) {                               \
                int64_t at = v_.index[k_ / h_.n] * (a)->in[1] + h_.index[k_ % h_.n]; \
                float   w  = (float)(v_.weight[k_ / h_.n] * h_.weight[k_ % h_.n]);   \
                body;                                                                \
            }                                                                        \
        }                                                                            \
    }

static size_t sums_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return (size_t)call->operand[X].shape.dim[1] * sizeof(float);
}

static ipu_status align_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state;
    align        a    = get_align(call, X, Y);
    float       *sums = scratch, *y = operand[Y];
    int64_t      area = a.in[0] * a.in[1], cells = a.out[0] * a.out[1];
    ipu_interval mine = ipu__op_part(a.rois * cells, 1, part, n_parts);
    IPU_TRY(examine_batch(call, &a, operand[BATCH]));
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t      roi = i / cells, row = i % cells / a.out[1], column = i % a.out[1];
        const float *x    = (const float *)operand[X] + image_of(&a, operand[BATCH], roi) * a.channels * area;
        span         s[2] = {get_span(&a, operand[ROIS], roi, 0), get_span(&a, operand[ROIS], roi, 1)};
        float        one  = 1 / (float)count_of(s);
        for (int64_t c = 0; c < a.channels; c++) sums[c] = 0;
        EACH_TAP(&a, s, row, column, at, w,
                 for (int64_t c = 0; c < a.channels; c++) sums[c] += w * x[c * area + at])
        for (int64_t c = 0; c < a.channels; c++)
            y[(roi * a.channels + c) * cells + i % cells] = sums[c] * one;
    }
    return IPU_OK;
}

/* Every part has channels of its own. */
static ipu_status grad_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch;
    align        a    = get_align(call, Y, X);
    int64_t      area = a.in[0] * a.in[1], cells = a.out[0] * a.out[1];
    ipu_interval mine = ipu__op_part(a.channels, 1, part, n_parts);
    const float *dy   = operand[X];
    IPU_TRY(examine_batch(call, &a, operand[BATCH]));
    for (int64_t n = 0; n < a.n; n++)
        memset((float *)operand[Y] + (n * a.channels + mine.begin) * area, 0,
               (size_t)((mine.end - mine.begin) * area) * sizeof(float));
    for (int64_t i = 0; i < a.rois * cells && mine.begin < mine.end; i++) {
        int64_t roi = i / cells, row = i % cells / a.out[1], column = i % a.out[1];
        float  *dx   = (float *)operand[Y] + image_of(&a, operand[BATCH], roi) * a.channels * area;
        span    s[2] = {get_span(&a, operand[ROIS], roi, 0), get_span(&a, operand[ROIS], roi, 1)};
        float   one  = 1 / (float)count_of(s);
        EACH_TAP(&a, s, row, column, at, w,
                 for (int64_t c = mine.begin; c < mine.end; c++)
                     dx[c * area + at] += w * one * dy[(roi * a.channels + c) * cells + i % cells])
    }
    return IPU_OK;
}

/* ---- roi_align_max ---- */

typedef struct best {
    double  value, weight;
    int64_t at; /* in its plane; -1: none, 0 */
    bool    found;
} best;

static void offer(best *b, double value, double weight, int64_t at)
{
    if (b->found && !(value > b->value)) return;
    *b = (best){value, weight, at, true};
}

static best max_of(const align *a, const span s[2], const void *x, int64_t plane, const int64_t cell[2])
{
    best         b    = {.at = -1};
    ipu_interval rows = samples_near(a, &s[0], 0, cell[0]), columns = samples_near(a, &s[1], 1, cell[1]);
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = columns.begin; j < columns.end; j++) {
            taps v = get_taps(a, &s[0], 0, cell[0], i), h = get_taps(a, &s[1], 1, cell[1], j);
            for (int k = 0; k < v.n * h.n; k++) {
                int64_t at     = v.index[k / h.n] * a->in[1] + h.index[k % h.n];
                double  weight = v.weight[k / h.n] * h.weight[k % h.n];
                double  value  = weight * ipu__number_load(a->type, x, plane * a->in[0] * a->in[1] + at);
                offer(&b, value, weight, at);
            }
            if (v.n * h.n < 4) offer(&b, 0, 0, -1); /* elements that are beyond the edge weigh 0 */
        }
    return b;
}

static void max_cells(const ipu__kernel_call *call, void *const *operand, ipu_interval mine)
{
    align   a     = get_align(call, X, Y);
    int64_t cells = a.out[0] * a.out[1];
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t cell[2] = {i % cells / a.out[1], i % a.out[1]}, c = i / cells % a.channels;
        int64_t roi = i / cells / a.channels, image = image_of(&a, operand[BATCH], roi);
        span    s[2] = {get_span(&a, operand[ROIS], roi, 0), get_span(&a, operand[ROIS], roi, 1)};
        best    b    = {.at = -1};
        if (image >= 0) b = max_of(&a, s, operand[X], image * a.channels + c, cell);
        ipu__number_store(a.type, operand[Y], i, b.value);
        ipu__number_store(a.type, operand[WEIGHTS], i, b.weight);
        ((int32_t *)operand[INDICES])[i] = (int32_t)b.at;
    }
}

static void max_ref(const ipu__kernel_call *call, void *const *operand)
{
    max_cells(call, operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[Y].shape)});
}

static ipu_status max_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)state, (void)scratch;
    align a = get_align(call, X, Y);
    IPU_TRY(examine_batch(call, &a, operand[BATCH]));
    max_cells(call, operand, ipu__op_part(ipu__op_n_elements(&call->operand[Y].shape), 32, part, n_parts));
    return IPU_OK;
}

/* ---- gradients ---- */

static size_t keep(const ipu__kernel_call *call, ipu_attribute *list)
{
    static const char *const names[] = {"sampling_ratio", "scale", "half_pixel"};
    size_t                   n       = 0;
    for (size_t i = 0; i < IPU__COUNT(names); i++) {
        const ipu_attribute *a = ipu__attribute_find(call, names[i]);
        if (a) list[n++] = *a;
    }
    return n;
}

static void align_grad(ipu__gradient *g)
{
    ipu_attribute    list[5];
    size_t           n = keep(g->call, list);
    const ipu_shape *x = &g->call->operand[X].shape;
    if (!g->wanted[X]) return;
    list[n++]  = IPU__INTS("size", x->dim + 2, 2);
    list[n++]  = IPU_INT_ATTRIBUTE("n", x->dim[0]);
    g->d_in[X] = ipu__emit1(g->b, "roi_align_grad", list, n, IPU__IN(g->d_out[0], g->in[ROIS], g->in[BATCH]));
}

static void grad_grad(ipu__gradient *g)
{
    ipu_attribute list[5];
    size_t        n = keep(g->call, list);
    if (!g->wanted[X]) return;
    list[n++]  = IPU__INTS("size", g->call->operand[X].shape.dim + 2, 2);
    g->d_in[X] = ipu__emit1(g->b, "roi_align", list, n, IPU__IN(g->d_out[0], g->in[ROIS], g->in[BATCH]));
}

/* What each cell took, put back where it was in its region's image, and regions of an image added up. */
static void max_grad(ipu__gradient *g)
{
    ipu_builder             *b = g->b;
    const ipu__kernel_value *x = &g->call->operand[X];
    if (!g->wanted[X] || !ipu__has(g->d_out[0])) return;
    ipu_value d     = ipu_mul(b, g->d_out[0], g->out[WEIGHTS - Y]);
    ipu_value each  = ipu_pool_scatter(b, d, g->out[INDICES - Y], x->shape.dim + 2);
    ipu_value zeros = ipu_expand(b, ipu_constant_value(b, x->type, IPU_SCALAR, 0), x->shape);
    g->d_in[X]      = ipu_scatter_nd(b, zeros, ipu_unsqueeze(b, g->in[BATCH], 1), each, IPU_SCATTER_ADD);
}

/* ---- prices and records ---- */

/* Samples of a cell are 4 where their number depends on the region. */
static double n_taps(const ipu__kernel_call *call)
{
    bool   is_grad = call->def == &ipu__op_roi_align_grad.kernel;
    double ratio   = (double)ipu__op_int(call, "sampling_ratio");
    return 4 * (ratio > 0 ? ratio * ratio : 4)
         * (double)ipu__op_n_elements(&call->operand[is_grad ? X : Y].shape);
}

static double work(const ipu__kernel_call *call) { return 2 * n_taps(call); }

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {80, 1, 6};
    double       n    = n_taps(call);
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(n), 4, target, out));
    if (out->n_tiles > 0)
        out->bytes_received = out->bytes_sent = ipu__op_count(n / (double)out->n_tiles
                                                              * (double)ipu_type_size(call->operand[X].type));
    out->basis = "our estimate: 6 cycles for each element read at a computed place, all of them exchanged";
    return IPU_OK;
}

static const ipu__kernel_operand align_operands[] = {IPU__INPUT("x"), IPU__INPUT("rois"),
                                                     IPU__INPUT("batch_indices"), IPU__OUTPUT("y")};
static const ipu__kernel_operand grad_operands[]  = {IPU__INPUT("d_y"), IPU__INPUT("rois"),
                                                     IPU__INPUT("batch_indices"), IPU__OUTPUT("d_x")};
static const ipu__kernel_operand max_operands[]   = {
      IPU__INPUT("x"),  IPU__INPUT("rois"),     IPU__INPUT("batch_indices"),
      IPU__OUTPUT("y"), IPU__OUTPUT("indices"), IPU__OUTPUT("weights")};

/* clang-format off */
#define ATTRIBUTES                                                                                  \
    {.name = "size", .kind = IPU_ATTRIBUTE_INTS, .required = true,                                  \
     .meaning = "height and width of the output"},                                                  \
    {.name = "sampling_ratio", .kind = IPU_ATTRIBUTE_INT,                                           \
     .meaning = "samples along a side of a cell; 0: by its size"},                                  \
    {.name = "scale", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1,                                  \
     .meaning = "of the regions' coordinates to x's"},                                              \
    {.name = "half_pixel", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: coordinates are less 0.5"}
/* clang-format on */
static const ipu_op_attribute align_attributes[] = {ATTRIBUTES};
static const ipu_op_attribute grad_attributes[]  = {
     ATTRIBUTES, {.name = "n", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "images"}};

static const char *const align_samples[] = {
    "float[1,2,6,7], float[3,4]{0,6}, int64[3]{0,0}; size=[3,2] sampling_ratio=2",
    "float[2,2,6,7], float[3,4]{-2,12}, int32[3]{0,1}; size=[2,2] half_pixel=1 scale=0.5",
    "float[2,1,6,7], float[3,4]{-9,19}, int32[3]{0,1}; size=[2,3]",
    "float[2,1,6,7], float[0,4], int32[0]; size=[2,3]",
    "float[2,16,30,30], float[10,4]{0,30}, int32[10]{-1,1}; size=[7,7] sampling_ratio=2",
    NULL};
static const char *const grad_samples[] = {
    "float[3,2,3,2], float[3,4]{0,6}, int64[3]{0,0}; size=[6,7] sampling_ratio=2 n=1",
    "float[3,2,2,2], float[3,4]{-2,12}, int32[3]{0,1}; size=[6,7] half_pixel=1 scale=0.5 n=2",
    "float[0,1,2,3], float[0,4], int32[0]; size=[6,7] n=2",
    "float[6,4,5,5], float[6,4]{0,12}, int32[6]{0,1}; size=[12,12] sampling_ratio=2 n=2", NULL};

static const ipu__cpu_impl align_implementations[] = {
    {.head = {"channels", fits_floats}, .scratch_bytes = sums_bytes, .run = align_run}};
static const ipu__cpu_impl grad_implementations[] = {{.head = {"channels", fits_floats}, .run = grad_run}};
static const ipu__cpu_impl max_implementations[] = {{.head = {"cells", ipu__op_fits_always}, .run = max_run}};
#define max_samples align_samples
#define max_attributes align_attributes

#define RECORD(op, prefix, ...)                                                                                   \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                                    \
                                                       .operands        = prefix##_operands,                      \
                                                       .n_operands      = IPU__COUNT(prefix##_operands),          \
                                                       .check           = ipu__op_check,                          \
                                                       .rows            = ipu__op_rows,                           \
                                                       .examine         = examine,                                \
                                                       .ref             = prefix##_ref,                           \
                                                       .work            = work,                                   \
                                                       .plan            = plan,                                   \
                                                       .implementations = IPU__ON_CPU(prefix##_implementations)}, \
                                      .n_in         = 3,                                                          \
                                      .family       = "vision",                                                   \
                                      .attributes   = prefix##_attributes,                                        \
                                      .n_attributes = IPU__COUNT(prefix##_attributes),                            \
                                      .infer        = prefix##_infer,                                             \
                                      .samples      = prefix##_samples,                                           \
                                      __VA_ARGS__}
RECORD(roi_align, align, .flags = IPU__OP_SHORT_IN_HALF, .grad = align_grad,
       .summary = "regions of images, each cell the mean of its samples");
RECORD(roi_align_grad, grad, .grad = grad_grad,
       .summary = "the gradient of roi_align: each cell dealt to its samples");
RECORD(roi_align_max, max, .grad = max_grad,
       .summary = "regions of images, each cell the largest part of a sample, where it is and its weight");

ipu_value ipu_roi_align(ipu_builder *b, ipu_value x, ipu_value rois, ipu_value batch_indices,
                        ipu_roi_align_options o)
{
    int64_t       size[] = {o.height ? o.height : 1, o.width ? o.width : 1};
    ipu_value     in[]   = {x, rois, batch_indices}, out[3];
    ipu_attribute list[] = {IPU__INTS("size", size, 2), IPU_INT_ATTRIBUTE("sampling_ratio", o.sampling_ratio),
                            IPU_FLOAT_ATTRIBUTE("scale", o.scale == 0 ? 1 : o.scale),
                            IPU_INT_ATTRIBUTE("half_pixel", o.half_pixel)};
    ipu_emit(b, o.is_max ? "roi_align_max" : "roi_align", list, 4, in, 3, out, o.is_max ? 3 : 1);
    return out[0];
}
