/* Running normalisation: the references, and rows (layer norm, rms norm) in float.
 *
 * Gradients of weights are sums over all rows: each block of rows has its own, and the last part to finish
 * adds them up. Blocks depend on the sizes only, so threads make no difference.
 */
#include <math.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "op/vector/floats.h"
#include "op/norm/norm.h"
#include "op/number.h"
#include "op/reduce/reduce.h"

/* ---- the meaning ---- */

/* Element j of a unit, and which weight it has. */
static int64_t element(const ipu__norm *s, int64_t unit, int64_t j, int64_t *weight)
{
    if (s->kind == IPU__NORM_LAYER || s->kind == IPU__NORM_RMS) {
        *weight = j;
        return unit * s->n_each + j;
    }
    *weight = ipu__norm_channel(s, unit, j / s->inner);
    return ipu__norm_plane(s, unit, j / s->inner) * s->inner + j % s->inner;
}

static double number(ipu_type type, void *const *operand, int at, int64_t i)
{
    return ipu__number_load(type, operand[at], i);
}

static double weight_of(const ipu__norm *s, void *const *operand, int64_t i)
{
    return s->has_weight ? number(s->type, operand, s->at.weight, i) : 1;
}

static void ref_unit(const ipu__norm *s, void *const *operand, int64_t unit)
{
    double  mean = 0, var = 0;
    int64_t w;
    if (s->kind != IPU__NORM_RMS) {
        for (int64_t j = 0; j < s->n_each; j++)
            mean += number(s->type, operand, s->at.x, element(s, unit, j, &w));
        mean /= (double)s->n_each;
        ipu__number_store(s->stat_type, operand[s->at.mean], unit, mean);
    }
    for (int64_t j = 0; j < s->n_each; j++) {
        double away = number(s->type, operand, s->at.x, element(s, unit, j, &w)) - mean;
        var += away * away;
    }
    var /= (double)s->n_each;
    ipu__number_store(s->stat_type, operand[s->at.var], unit, var);
    for (int64_t j = 0; j < s->n_each; j++) {
        int64_t i = element(s, unit, j, &w);
        double  y = (number(s->type, operand, s->at.x, i) - mean) / sqrt(var + s->epsilon)
                 * weight_of(s, operand, w);
        if (s->has_bias) y += number(s->type, operand, s->at.bias, w);
        ipu__number_store(s->type, operand[s->at.y], i, y);
    }
}

void ipu__norm_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__norm s = ipu__norm_of(call);
    for (int64_t unit = 0; unit < s.n_units; unit++) ref_unit(&s, operand, unit);
}

static double mean_of(const ipu__norm *s, void *const *operand, int64_t unit)
{
    return s->kind == IPU__NORM_RMS ? 0 : number(s->stat_type, operand, s->at.mean, unit);
}

static double scale_of(const ipu__norm *s, void *const *operand, int64_t unit)
{
    return 1 / sqrt(number(s->stat_type, operand, s->at.var, unit) + s->epsilon);
}

static void ref_grad_unit(const ipu__norm *s, void *const *operand, int64_t unit)
{
    double  mean = mean_of(s, operand, unit), scale = scale_of(s, operand, unit), sum = 0, product = 0;
    int64_t w;
    for (int64_t j = 0; j < s->n_each; j++) {
        int64_t i = element(s, unit, j, &w);
        double  g = number(s->type, operand, s->at.dy, i) * weight_of(s, operand, w);
        sum += g;
        product += g * (number(s->type, operand, s->at.x, i) - mean) * scale;
    }
    if (s->kind == IPU__NORM_RMS) sum = 0;
    for (int64_t j = 0; j < s->n_each; j++) {
        int64_t i      = element(s, unit, j, &w);
        double  g      = number(s->type, operand, s->at.dy, i) * weight_of(s, operand, w);
        double  normal = (number(s->type, operand, s->at.x, i) - mean) * scale, n = (double)s->n_each;
        bool    is_on = !s->relu || number(s->type, operand, s->at.x, i) > 0;
        ipu__number_store(s->type, operand[s->at.dx], i,
                          is_on ? scale * (g - sum / n - normal * product / n) : 0);
    }
}

/* Every element that has weight w: slow, and plain. */
static void ref_grad_weight(const ipu__norm *s, void *const *operand, int64_t w)
{
    double  d_weight = 0, d_bias = 0;
    int64_t own;
    for (int64_t unit = 0; unit < s->n_units; unit++) {
        double mean = mean_of(s, operand, unit), scale = scale_of(s, operand, unit);
        for (int64_t j = 0; j < s->n_each; j++) {
            int64_t i = element(s, unit, j, &own);
            if (own != w) continue;
            double dy = number(s->type, operand, s->at.dy, i);
            d_bias += dy;
            d_weight += dy * (number(s->type, operand, s->at.x, i) - mean) * scale;
        }
    }
    ipu__number_store(s->type, operand[s->at.d_weight], w, d_weight);
    if (s->at.d_bias >= 0) ipu__number_store(s->type, operand[s->at.d_bias], w, d_bias);
}

static void ref_grad_sum(const ipu__norm *s, void *const *operand, int64_t w)
{
    double  sum = 0;
    int64_t own;
    for (int64_t unit = 0; unit < s->n_units; unit++)
        for (int64_t j = 0; j < s->n_each; j++) {
            int64_t i = element(s, unit, j, &own);
            if (own == w) sum += number(s->type, operand, s->at.dx, i);
        }
    ipu__number_store(s->type, operand[s->at.d_sum], w, sum);
}

void ipu__norm_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__norm s = ipu__norm_of(call);
    for (int64_t w = 0; w < s.n_weights; w++) ref_grad_weight(&s, operand, w); /* dx may be where dy is */
    for (int64_t unit = 0; unit < s.n_units; unit++) ref_grad_unit(&s, operand, unit);
    for (int64_t w = 0; s.relu && w < s.n_weights; w++) ref_grad_sum(&s, operand, w);
}

/* ---- rows ---- */

typedef struct rows {
    ipu__norm              s;
    const ipu__norm_loops *loops;
    int64_t                block, n_blocks; /* rows */
    float                 *sums;            /* of gradients: n_blocks x [d_weight, d_bias] x n_each */
    atomic_int             n_left;          /* parts that have not yet finished */
} rows;

enum { LEAST_ROWS = 8, MOST_BLOCKS = 64, MOST_SUMS = 1 << 20 };

static void cut_rows(rows *r)
{
    int64_t most = r->s.n_each > 0 ? MOST_SUMS / r->s.n_each : 1;
    if (most < 4) most = 4;
    if (most > MOST_BLOCKS) most = MOST_BLOCKS;
    r->n_blocks = ipu__op_ceil_div(r->s.n_units, LEAST_ROWS);
    if (r->n_blocks > most) r->n_blocks = most;
    if (r->n_blocks < 1) r->n_blocks = 1;
    r->block    = ipu__op_ceil_div(r->s.n_units, r->n_blocks);
    r->n_blocks = r->block > 0 ? ipu__op_ceil_div(r->s.n_units, r->block) : 1;
}

static void rows_release(void *state)
{
    rows *r = state;
    if (r) ipu__free(r->sums);
    ipu__free(r);
}

static ipu_status rows_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    rows *r = ipu__alloc_zeroed(sizeof *r);
    if (!r) return ipu__fail_memory();
    r->s     = ipu__norm_of(call);
    r->loops = &IPU__SIMD_PICK(ipu__norm_loops);
    cut_rows(r);
    atomic_init(&r->n_left, n_parts);
    if (r->s.is_grad) {
        r->sums = ipu__alloc((size_t)(r->n_blocks * 2 * r->s.n_each) * sizeof *r->sums + 1);
        if (!r->sums) {
            rows_release(r);
            return ipu__fail_memory();
        }
    }
    *out = r;
    return IPU_OK;
}

static bool floats_fit(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[0].type != IPU_DOUBLE;
}

/* Weight and bias, and of other types than float x, dy and the result. */
static size_t rows_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__norm s = ipu__norm_of(call);
    return (size_t)(5 * s.n_each) * sizeof(float);
}

/* The weights as floats: all `otherwise` if there are none. */
static const float *weights_get(const ipu__norm *s, bool has, void *const *operand, int at, float otherwise,
                                float *buffer)
{
    if (has) return ipu__floats_get(s->type, operand[at], 0, s->n_weights, buffer);
    for (int64_t i = 0; i < s->n_weights; i++) buffer[i] = otherwise;
    return buffer;
}

static ipu_status rows_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)call;
    const rows      *r      = state;
    const ipu__norm *s      = &r->s;
    int64_t          n      = s->n_each;
    float           *buffer = scratch, *x_buffer = buffer + 2 * n, *result = x_buffer + n;
    const float     *weight = weights_get(s, s->has_weight, operand, s->at.weight, 1, buffer);
    const float     *bias   = weights_get(s, s->has_bias, operand, s->at.bias, 0, buffer + n);
    ipu_interval     mine   = ipu__op_part(s->n_units, 16, part, n_parts);
    for (int64_t unit = mine.begin; unit < mine.end; unit++) {
        const float *x = ipu__floats_get(s->type, operand[s->at.x], unit * n, n, x_buffer);
        double       mean, var;
        r->loops->stats(x, n, s->kind == IPU__NORM_LAYER, &mean, &var);
        var /= (double)n;
        if (n == 0) mean = NAN;
        if (s->at.mean >= 0) ((float *)operand[s->at.mean])[unit] = (float)mean;
        ((float *)operand[s->at.var])[unit] = (float)var;
        float *y = s->type == IPU_FLOAT ? (float *)operand[s->at.y] + unit * n : result;
        r->loops->row(x, (float)mean, (float)(1 / sqrt(var + s->epsilon)), weight, bias, y, n);
        if (y == result) ipu__floats_store(s->type, y, operand[s->at.y], unit * n, n);
    }
    return IPU_OK;
}

static void grad_block(const rows *r, void *const *operand, int64_t block, const float *weight,
                       float *scratch)
{
    const ipu__norm *s = &r->s;
    int64_t          n = s->n_each, end = (block + 1) * r->block;
    float           *sums = r->sums + block * 2 * n, *dy_buffer = scratch, *x_buffer = scratch + n;
    float           *result = x_buffer + n;
    for (int64_t i = 0; i < 2 * n; i++) sums[i] = 0;
    for (int64_t unit = block * r->block; unit < end && unit < s->n_units; unit++) {
        const float *dy = ipu__floats_get(s->type, operand[s->at.dy], unit * n, n, dy_buffer);
        const float *x  = ipu__floats_get(s->type, operand[s->at.x], unit * n, n, x_buffer);
        float       *dx = s->type == IPU_FLOAT ? (float *)operand[s->at.dx] + unit * n : result;
        r->loops->grad_row(dy, x, (float)mean_of(s, operand, unit), (float)scale_of(s, operand, unit),
                           s->kind == IPU__NORM_LAYER, weight, dx, sums, sums + n, n);
        if (dx == result) ipu__floats_store(s->type, dx, operand[s->at.dx], unit * n, n);
    }
}

static ipu_status grad_rows_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                void *scratch, int part, int n_parts)
{
    (void)call;
    rows            *r      = state;
    const ipu__norm *s      = &r->s;
    int64_t          n      = s->n_each;
    float           *buffer = scratch;
    const float     *weight = weights_get(s, s->has_weight, operand, s->at.weight, 1, buffer);
    ipu_interval     mine   = ipu__op_part(r->n_blocks, 1, part, n_parts);
    for (int64_t block = mine.begin; block < mine.end; block++)
        grad_block(r, operand, block, weight, buffer + 2 * n);
    if (atomic_fetch_sub_explicit(&r->n_left, 1, memory_order_acq_rel) != 1) return IPU_OK;
    atomic_store_explicit(&r->n_left, n_parts, memory_order_relaxed);
    for (int64_t block = 1; block < r->n_blocks; block++)
        for (int64_t i = 0; i < 2 * n; i++) r->sums[i] += r->sums[block * 2 * n + i];
    ipu__floats_store(s->type, r->sums, operand[s->at.d_weight], 0, n);
    if (s->at.d_bias >= 0) ipu__floats_store(s->type, r->sums + n, operand[s->at.d_bias], 0, n);
    return IPU_OK;
}

#define ROWS(run_)                                                                                      \
    {                                                                                                   \
        {                                                                                               \
            .head = {"rows", floats_fit}, .scratch_bytes = rows_scratch_bytes, .prepare = rows_prepare, \
            .release = rows_release, .run = run_                                                        \
        }                                                                                               \
    }
const ipu__cpu_impl ipu__norm_row_implementations[1]      = ROWS(rows_run);
const ipu__cpu_impl ipu__norm_row_grad_implementations[1] = ROWS(grad_rows_run);

/* ---- pricing ---- */

/* The gradient's goes through all elements for each weight. */
double ipu__norm_ref_work(const ipu__kernel_call *call)
{
    ipu__norm s = ipu__norm_of(call);
    return ipu__norm_work(call) * (s.is_grad ? 2 * (double)s.n_weights + 1 : 1);
}

double ipu__norm_work(const ipu__kernel_call *call)
{
    ipu__norm s = ipu__norm_of(call);
    return (s.is_grad ? 12.0 : 8.0) * (double)s.n_units * (double)s.n_each;
}

/* Sum, deviations and result, three passes of a binary operation each; the gradient has five, and three for a mask
 * and what it leaves. */
ipu_status ipu__norm_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__norm    s      = ipu__norm_of(call);
    double       passes = s.is_grad ? s.relu ? 8 : 5 : 3;
    ipu__op_loop loop   = {passes * 29, s.type == IPU_HALF ? 4 : 2, passes * 3};
    IPU_TRY(ipu__reduce_plan_rows(&loop, s.n_units, s.n_each, 2, target, out));
    out->basis = "our estimate: PopLibs' figure for binary operations, one pass after another";
    return IPU_OK;
}
