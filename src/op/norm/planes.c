/* Normalisation of planes in float: group norm, instance norm, batch norm over [N, C, d...].
 *
 * Parts are whole units. In group norm, a channel's sums over the batch are kept in the state, and combined
 * by the last part to finish. Batch norm of small planes goes down blocks of columns: all planes of some
 * channels, in all images.
 */
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "op/vector/floats.h"
#include "op/norm/norm.h"
#include "op/number.h"

enum { CHUNK = 4096, COLUMNS = 256, SMALL_PLANE = 64, SUMS = 3 };

typedef struct planes {
    ipu__norm              s;
    const ipu__norm_loops *loops;
    bool                   by_columns;
    double    *sums; /* gradient of group norm: sum(dy), its product with x, and sum(dx) of each plane */
    int64_t    n_all_planes;
    atomic_int n_left; /* parts that have not yet finished */
} planes;

static void planes_release(void *state)
{
    planes *p = state;
    if (p) ipu__free(p->sums);
    ipu__free(p);
}

static bool is_by_columns(const ipu__norm *s)
{
    return s->kind == IPU__NORM_BATCH && s->inner <= SMALL_PLANE;
}

static ipu_status planes_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    planes *p = ipu__alloc_zeroed(sizeof *p);
    if (!p) return ipu__fail_memory();
    p->s            = ipu__norm_of(call);
    p->loops        = &IPU__SIMD_PICK(ipu__norm_loops);
    p->by_columns   = is_by_columns(&p->s);
    p->n_all_planes = p->s.n_units * p->s.n_planes;
    atomic_init(&p->n_left, n_parts);
    if (p->s.is_grad && !(p->sums = ipu__alloc((size_t)p->n_all_planes * SUMS * sizeof *p->sums + 1))) {
        planes_release(p);
        return ipu__fail_memory();
    }
    *out = p;
    return IPU_OK;
}

static bool floats_fit(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[0].type != IPU_DOUBLE;
}

/* Chunks of x, dy and the result as floats; or, by columns, all rows of some. */
static size_t planes_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__norm s = ipu__norm_of(call);
    return 3 * (is_by_columns(&s) ? (size_t)s.n_planes * COLUMNS : (size_t)CHUNK) * sizeof(float);
}

static double weight_of(const ipu__norm *s, void *const *operand, bool has, int at, int64_t channel,
                        double otherwise)
{
    return has ? ipu__number_load(s->type, operand[at], channel) : otherwise;
}

static int64_t chunk_at(int64_t i, int64_t n) { return n - i < CHUNK ? n - i : CHUNK; }

/* ---- forward ---- */

/* Means and squared deviations of the chunks, put together. */
static void unit_stats(const planes *p, void *const *operand, int64_t unit, float *scratch, double *mean,
                       double *var)
{
    const ipu__norm *s        = &p->s;
    bool             is_whole = s->kind != IPU__NORM_BATCH; /* the planes of a group lie together */
    int64_t          n_runs = is_whole ? 1 : s->n_planes, run = is_whole ? s->n_each : s->inner;
    double           so_far = 0, middle = 0, away = 0;
    for (int64_t k = 0; k < n_runs; k++)
        for (int64_t i = 0; i < run; i += CHUNK) {
            int64_t at = ipu__norm_plane(s, unit, k) * s->inner + i, n = chunk_at(i, run);
            double  own, squares;
            p->loops->stats(ipu__floats_get(s->type, operand[s->at.x], at, n, scratch), n, true, &own,
                            &squares);
            double step = own - middle, share = (double)n / (so_far + (double)n);
            away += squares + step * step * so_far * share;
            middle += step * share;
            so_far += (double)n;
        }
    *mean = s->n_each > 0 ? middle : NAN;
    *var  = away / (double)s->n_each;
}

static void do_unit(const planes *p, void *const *operand, int64_t unit, float *scratch)
{
    const ipu__norm *s      = &p->s;
    float           *result = scratch + CHUNK;
    double           mean, var;
    unit_stats(p, operand, unit, scratch, &mean, &var);
    ((float *)operand[s->at.mean])[unit] = (float)mean;
    ((float *)operand[s->at.var])[unit]  = (float)var;
    for (int64_t k = 0; k < s->n_planes; k++) {
        int64_t channel = ipu__norm_channel(s, unit, k), first = ipu__norm_plane(s, unit, k) * s->inner;
        double  scale = weight_of(s, operand, s->has_weight, s->at.weight, channel, 1)
                     / sqrt(var + s->epsilon);
        double shift = weight_of(s, operand, s->has_bias, s->at.bias, channel, 0);
        for (int64_t i = 0; i < s->inner; i += CHUNK) {
            int64_t n = chunk_at(i, s->inner), at = first + i;
            float  *y = s->type == IPU_FLOAT ? (float *)operand[s->at.y] + at : result;
            p->loops->plane(ipu__floats_get(s->type, operand[s->at.x], at, n, scratch), (float)mean,
                            (float)scale, (float)shift, y, n);
            if (y == result) ipu__floats_store(s->type, y, operand[s->at.y], at, n);
        }
    }
}

/* ---- down columns ---- */

/* The planes of some channels, as columns of [N, C * inner]. */
typedef struct block {
    int64_t first_channel, n_channels, first, n; /* channels; columns */
    int64_t step;                                /* from row to row of the floats */
} block;

/* The rows of some columns as floats: where they lie, or copied. */
static const float *get_columns(const ipu__norm *s, const void *from, block *k, float *buffer)
{
    int64_t step = s->channels * s->inner;
    k->step      = step;
    if (s->type == IPU_FLOAT) return (const float *)from + k->first;
    k->step = k->n;
    for (int64_t row = 0; row < s->n_planes; row++)
        ipu__floats_load(s->type, from, row * step + k->first, k->n, buffer + row * k->n);
    return buffer;
}

/* Sums of columns to sums of channels. */
static void add_up_planes(double *sums, const block *k, int64_t inner)
{
    for (int64_t c = 0; c < k->n_channels; c++) {
        double sum = 0;
        for (int64_t i = 0; i < inner; i++) sum += sums[c * inner + i];
        sums[c] = sum;
    }
}

static void do_columns(const planes *p, void *const *operand, block *k, float *scratch)
{
    const ipu__norm *s = &p->s;
    const float     *x = get_columns(s, operand[s->at.x], k, scratch);
    double           mean[COLUMNS], sums[COLUMNS];
    float            middle[COLUMNS], scale[COLUMNS], shift[COLUMNS], y[COLUMNS];
    p->loops->column_sums(x, s->n_planes, k->step, k->n, sums);
    add_up_planes(sums, k, s->inner);
    for (int64_t i = 0; i < k->n; i++) mean[i] = sums[i / s->inner] / (double)s->n_each;
    p->loops->column_squares(x, s->n_planes, k->step, k->n, mean, sums);
    add_up_planes(sums, k, s->inner);
    for (int64_t i = 0; i < k->n; i++) {
        int64_t channel = k->first_channel + i / s->inner;
        double  var     = sums[i / s->inner] / (double)s->n_each;
        double  weight  = weight_of(s, operand, s->has_weight, s->at.weight, channel, 1);
        middle[i]       = (float)mean[i];
        scale[i]        = (float)(weight / sqrt(var + s->epsilon));
        shift[i]        = (float)weight_of(s, operand, s->has_bias, s->at.bias, channel, 0);
        ((float *)operand[s->at.mean])[channel] = (float)mean[i];
        ((float *)operand[s->at.var])[channel]  = (float)var;
    }
    for (int64_t row = 0; row < s->n_planes; row++) {
        p->loops->columns(x + row * k->step, middle, scale, shift, y, k->n);
        ipu__floats_store(s->type, y, operand[s->at.y], row * s->channels * s->inner + k->first, k->n);
    }
}

/* What the gradient of x is made of: dx = a * dy + b * (x - mean) + c. */
typedef struct mixture {
    double a, b, c;
} mixture;

/* `sum` and `product`: of the unit, of dy times weight and of that times x - mean. */
static mixture mix(const ipu__norm *s, double weight, double scale, double sum, double product)
{
    double n = (double)s->n_each;
    return (mixture){scale * weight, -scale * scale * scale * product / n, -scale * sum / n};
}

static double scale_of(const ipu__norm *s, void *const *operand, int64_t unit)
{
    return 1 / sqrt((double)((const float *)operand[s->at.var])[unit] + s->epsilon);
}

static void do_columns_grad(const planes *p, void *const *operand, block *k, float *scratch)
{
    const ipu__norm *s  = &p->s;
    const float     *x  = get_columns(s, operand[s->at.x], k, scratch);
    const float     *dy = get_columns(s, operand[s->at.dy], k, scratch + s->n_planes * COLUMNS);
    double           mean[COLUMNS], sum[COLUMNS], product[COLUMNS];
    float            middle[COLUMNS], a[COLUMNS], b[COLUMNS], c[COLUMNS], dx[COLUMNS];
    for (int64_t i = 0; i < k->n; i++) {
        middle[i] = ((const float *)operand[s->at.mean])[k->first_channel + i / s->inner];
        mean[i]   = (double)middle[i];
    }
    p->loops->column_products(dy, x, s->n_planes, k->step, k->n, mean, sum, product);
    add_up_planes(sum, k, s->inner);
    add_up_planes(product, k, s->inner);
    for (int64_t i = 0; i < k->n; i++) {
        int64_t own = i / s->inner, channel = k->first_channel + own;
        double  scale = scale_of(s, operand, channel);
        double  w     = weight_of(s, operand, s->has_weight, s->at.weight, channel, 1);
        mixture m     = mix(s, w, scale, w * sum[own], w * product[own]);
        a[i]          = (float)m.a;
        b[i]          = (float)m.b;
        c[i]          = (float)m.c;
        ipu__number_store(s->type, operand[s->at.d_weight], channel, product[own] * scale);
        ipu__number_store(s->type, operand[s->at.d_bias], channel, sum[own]);
    }
    for (int64_t row = 0; row < s->n_planes; row++) {
        p->loops->grad_columns(dy + row * k->step, x + row * k->step, middle, a, b, c, dx, k->n);
        ipu__floats_store(s->type, dx, operand[s->at.dx], row * s->channels * s->inner + k->first, k->n);
    }
}

/* ---- backward ---- */

static void plane_sums(const planes *p, void *const *operand, int64_t plane, float mean, float *scratch,
                       double *sums)
{
    const ipu__norm *s = &p->s;
    sums[0] = sums[1] = 0;
    for (int64_t i = 0; i < s->inner; i += CHUNK) {
        int64_t      n = chunk_at(i, s->inner), at = plane * s->inner + i;
        const float *x = ipu__floats_get(s->type, operand[s->at.x], at, n, scratch);
        p->loops->grad_sums(ipu__floats_get(s->type, operand[s->at.dy], at, n, scratch + CHUNK), x, mean, n,
                            &sums[0], &sums[1]);
    }
}

static void plane_grad(const planes *p, void *const *operand, int64_t plane, float mean, const mixture *m,
                       float *scratch)
{
    const ipu__norm *s      = &p->s;
    float           *result = scratch + 2 * CHUNK;
    for (int64_t i = 0; i < s->inner; i += CHUNK) {
        int64_t      n = chunk_at(i, s->inner), at = plane * s->inner + i;
        const float *x  = ipu__floats_get(s->type, operand[s->at.x], at, n, scratch);
        const float *dy = ipu__floats_get(s->type, operand[s->at.dy], at, n, scratch + CHUNK);
        float       *dx = s->type == IPU_FLOAT ? (float *)operand[s->at.dx] + at : result;
        p->loops->grad_plane(dy, x, mean, (float)m->a, (float)m->b, (float)m->c, dx, n);
        if (s->relu) p->sums[SUMS * plane + 2] += p->loops->mask_plane(x, dx, n);
        if (dx == result) ipu__floats_store(s->type, dx, operand[s->at.dx], at, n);
    }
}

static void do_unit_grad(const planes *p, void *const *operand, int64_t unit, float *scratch)
{
    const ipu__norm *s     = &p->s;
    float            mean  = ((const float *)operand[s->at.mean])[unit];
    double           scale = scale_of(s, operand, unit), sum = 0, product = 0, all = 0, all_products = 0;
    for (int64_t k = 0; k < s->n_planes; k++) {
        int64_t plane = ipu__norm_plane(s, unit, k);
        double *sums  = p->sums + SUMS * plane;
        double  w     = weight_of(s, operand, s->has_weight, s->at.weight, ipu__norm_channel(s, unit, k), 1);
        plane_sums(p, operand, plane, mean, scratch, sums);
        sum += w * sums[0];
        product += w * sums[1];
        all += sums[0];
        all_products += sums[1];
        sums[1] *= scale;
        sums[2] = 0;
    }
    for (int64_t k = 0; k < s->n_planes; k++) {
        double  w = weight_of(s, operand, s->has_weight, s->at.weight, ipu__norm_channel(s, unit, k), 1);
        mixture m = mix(s, w, scale, sum, product);
        plane_grad(p, operand, ipu__norm_plane(s, unit, k), mean, &m, scratch);
    }
    if (s->kind != IPU__NORM_BATCH) return;
    ipu__number_store(s->type, operand[s->at.d_weight], unit, all_products * scale);
    ipu__number_store(s->type, operand[s->at.d_bias], unit, all);
}

/* Of group norm, where a channel's weight is in every image. */
static void add_up_channels(const planes *p, void *const *operand)
{
    const ipu__norm *s = &p->s;
    for (int64_t c = 0; c < s->channels; c++) {
        double sum[SUMS] = {0};
        for (int64_t plane = c; plane < p->n_all_planes; plane += s->channels)
            for (int k = 0; k < SUMS; k++) sum[k] += p->sums[SUMS * plane + k];
        ipu__number_store(s->type, operand[s->at.d_bias], c, sum[0]);
        ipu__number_store(s->type, operand[s->at.d_weight], c, sum[1]);
        if (s->relu) ipu__number_store(s->type, operand[s->at.d_sum], c, sum[2]);
    }
}

/* ---- parts ---- */

static ipu_status planes_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)call;
    planes          *p    = state;
    const ipu__norm *s    = &p->s;
    ipu_interval     mine = ipu__op_part(s->n_units, p->by_columns ? 16 : 1, part, n_parts);
    if (p->by_columns && s->inner > 0) {
        int64_t most = COLUMNS / s->inner;
        for (int64_t c = mine.begin; c < mine.end; c += most) {
            int64_t n = mine.end - c < most ? mine.end - c : most;
            block   k = {c, n, c * s->inner, n * s->inner, 0};
            (s->is_grad ? do_columns_grad : do_columns)(p, operand, &k, scratch);
        }
        return IPU_OK;
    }
    for (int64_t unit = mine.begin; unit < mine.end; unit++)
        (s->is_grad ? do_unit_grad : do_unit)(p, operand, unit, scratch);
    if (!s->is_grad || s->kind == IPU__NORM_BATCH) return IPU_OK;
    if (atomic_fetch_sub_explicit(&p->n_left, 1, memory_order_acq_rel) != 1) return IPU_OK;
    atomic_store_explicit(&p->n_left, n_parts, memory_order_relaxed);
    add_up_channels(p, operand);
    return IPU_OK;
}

#define PLANES                                                                      \
    {                                                                               \
        {                                                                           \
            .head = {"planes", floats_fit}, .scratch_bytes = planes_scratch_bytes,  \
            .prepare = planes_prepare, .release = planes_release, .run = planes_run \
        }                                                                           \
    }
const ipu__cpu_impl ipu__norm_plane_implementations[1]      = PLANES;
const ipu__cpu_impl ipu__norm_plane_grad_implementations[1] = PLANES;
