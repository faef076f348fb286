/* dft: the discrete Fourier transform along an axis; the last dimension is 1 (real) or 2 (real, imaginary).
 *
 * Lengths with small prime factors are done in stages (dft_simd.c), others as a convolution with a chirp
 * whose length is a power of 2 (Bluestein). Everything is computed in double. The inverse is the transform
 * with real and imaginary parts exchanged before and after.
 */
#include "op/signal/dft.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "ipu/op/signal.h"
#include "op/builder.h"
#include "op/number.h"

enum { X, OUT };
enum { LARGEST_FACTOR = 31, MOST_LANES = 8, BLOCK = 1 << 17 }; /* elements that are transformed together */
static const int64_t most = (int64_t)1 << 28;                  /* elements of the axis */

/* ---- geometry ---- */

typedef struct shape {
    int64_t  outer, n, inner, n_out; /* [outer, n, inner, parts] -> [outer, n_out, inner, 2] */
    int      parts;
    bool     inverse;
    ipu_type type;
} shape;

static shape get_shape(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", x->rank, &axis); /* infer has seen it */
    shape s = {1,
               x->dim[axis],
               1,
               x->dim[axis],
               (int)x->dim[x->rank - 1],
               ipu__op_int(call, "inverse") != 0,
               call->operand[X].type};
    if (ipu__op_int(call, "onesided")) s.n_out = s.n / 2 + 1;
    for (int d = 0; d < axis; d++) s.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank - 1; d++) s.inner *= x->dim[d];
    return s;
}

static ipu_status dft_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape;
    int              axis;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    if (x->dim[x->rank - 1] != 1 && x->dim[x->rank - 1] != 2)
        return ipu__fail(IPU_INVALID, "dft: the last dimension of \"x\" %s must be 1 (real) or 2 (complex)",
                         ipu__shape_str(x));
    if (axis == x->rank - 1 || x->dim[axis] < 1 || x->dim[axis] > most)
        return ipu__fail(IPU_INVALID,
                         "dft: axis %d of \"x\" %s: expected one before the last, of 1 to 2^28 elements",
                         axis, ipu__shape_str(x));
    if (ipu__op_int(call, "onesided") && ipu__op_int(call, "inverse"))
        return ipu__fail(IPU_INVALID, "dft: an inverse transform cannot be onesided");
    *out                        = call->operand[X];
    out->shape.dim[x->rank - 1] = 2;
    if (ipu__op_int(call, "onesided")) out->shape.dim[axis] = x->dim[axis] / 2 + 1;
    return IPU_OK;
}

/* ---- the meaning ---- */

static void dft_ref(const ipu__kernel_call *call, void *const *operand)
{
    shape s = get_shape(call);
    for (int64_t at = 0; at < s.outer * s.n_out * s.inner; at++) {
        int64_t o = at / s.inner / s.n_out, k = at / s.inner % s.n_out, i = at % s.inner;
        double  re = 0, im = 0;
        for (int64_t j = 0; j < s.n; j++) {
            double  angle = (s.inverse ? 2 : -2) * M_PI * (double)(j * k % s.n) / (double)s.n;
            int64_t from  = ((o * s.n + j) * s.inner + i) * s.parts;
            double  a = ipu__number_load(s.type, operand[X], from), c = cos(angle), w = sin(angle);
            double  b = s.parts == 2 ? ipu__number_load(s.type, operand[X], from + 1) : 0;
            re += a * c - b * w;
            im += a * w + b * c;
        }
        double scale = s.inverse ? 1 / (double)s.n : 1;
        ipu__number_store(s.type, operand[OUT], 2 * at, re * scale);
        ipu__number_store(s.type, operand[OUT], 2 * at + 1, im * scale);
    }
}

static double dft_ref_work(const ipu__kernel_call *call)
{
    shape s = get_shape(call);
    return 40 * (double)(s.outer * s.inner) * (double)s.n * (double)s.n_out;
}

/* ---- what is made at load ---- */

typedef struct state {
    shape                 s;
    ipu__dft_plan         plan;
    const ipu__dft_loops *loops;
    bool                  is_chirped;
    ipu__dft_data         chirp, hat; /* e^(-pi i j^2 / n), and the transform of its conjugate */
    double               *memory;
} state;

/* Into `plan`; false: a factor is too large. */
static bool find_factors(int64_t n, ipu__dft_plan *plan)
{
    plan->n         = n;
    plan->n_factors = 0;
    for (int r = 4; n > 1; r = r == 4 ? 2 : r == 2 ? 3 : r + 2) {
        if (r > LARGEST_FACTOR) return false;
        for (; n % r == 0; n /= r) plan->factor[plan->n_factors++] = r;
    }
    return true;
}

/* The length of the stages. */
static int64_t stages_of(int64_t n)
{
    ipu__dft_plan plan;
    int64_t       padded = 1;
    if (find_factors(n, &plan)) return n;
    while (padded < 2 * n - 1) padded *= 2;
    return padded;
}

static int64_t lanes_of(int64_t stages)
{
    int64_t n = BLOCK / stages;
    return n < 1 ? 1 : n > MOST_LANES ? MOST_LANES : n;
}

static void fill_roots(double *re, double *im, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        re[k] = cos(2 * M_PI * (double)k / (double)n);
        im[k] = -sin(2 * M_PI * (double)k / (double)n);
    }
}

/* `work`: room for two arrays of the stages' length. */
static void fill_chirp(state *t, ipu__dft_data work)
{
    int64_t n = t->s.n, m = t->plan.n;
    memset(t->hat.re, 0, (size_t)m * sizeof *t->hat.re);
    memset(t->hat.im, 0, (size_t)m * sizeof *t->hat.im);
    for (int64_t j = 0; j < n; j++) {
        double angle   = M_PI * (double)(j * j % (2 * n)) / (double)n;
        t->chirp.re[j] = cos(angle);
        t->chirp.im[j] = -sin(angle);
        int64_t back   = j ? m - j : 0;
        t->hat.re[j] = t->hat.re[back] = t->chirp.re[j];
        t->hat.im[j] = t->hat.im[back] = -t->chirp.im[j];
    }
    if (!t->loops->transform(&t->plan, 1, t->hat, work)) return;
    memcpy(t->hat.re, work.re, (size_t)m * sizeof *work.re);
    memcpy(t->hat.im, work.im, (size_t)m * sizeof *work.im);
}

static void dft_release(void *data)
{
    state *t = data;
    if (t) ipu__free(t->memory);
    ipu__free(t);
}

static ipu_status dft_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    state *t = ipu__alloc_zeroed(sizeof *t);
    if (!t) return ipu__fail_memory();
    t->s      = get_shape(call);
    t->loops  = &IPU__SIMD_PICK(ipu__dft_loops_of);
    int64_t n = t->s.n, m = stages_of(n);
    t->is_chirped = m != n;
    t->memory     = ipu__alloc((size_t)(t->is_chirped ? 6 * m + 2 * n : 2 * m) * sizeof *t->memory);
    if (!t->memory) {
        dft_release(t);
        return ipu__fail_memory();
    }
    find_factors(m, &t->plan);
    fill_roots(t->memory, t->memory + m, m);
    t->plan.re = t->memory;
    t->plan.im = t->memory + m;
    if (t->is_chirped) {
        double *at = t->memory + 2 * m;
        t->hat     = (ipu__dft_data){at, at + m};
        t->chirp   = (ipu__dft_data){at + 2 * m, at + 2 * m + n};
        fill_chirp(t, (ipu__dft_data){at + 2 * m + 2 * n, at + 3 * m + 2 * n});
    }
    *out = t;
    return IPU_OK;
}

static size_t dft_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    int64_t m = stages_of(get_shape(call).n);
    return (size_t)(4 * m * lanes_of(m)) * sizeof(double);
}

/* ---- running ---- */

static int64_t element(const shape *s, int64_t lane, int64_t j, int64_t n, int parts)
{
    return ((lane / s->inner * n + j) * s->inner + lane % s->inner) * parts;
}

static void load(const shape *s, const void *x, int64_t first, int64_t n_lanes, ipu__dft_data to)
{
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t q = 0; q < n_lanes; q++) {
            int64_t at             = element(s, first + q, j, s->n, s->parts);
            to.re[j * n_lanes + q] = ipu__number_load(s->type, x, at);
            to.im[j * n_lanes + q] = s->parts == 2 ? ipu__number_load(s->type, x, at + 1) : 0;
        }
}

static void store(const shape *s, ipu__dft_data from, int64_t first, int64_t n_lanes, void *out)
{
    double scale = s->inverse ? 1 / (double)s->n : 1;
    for (int64_t k = 0; k < s->n_out; k++)
        for (int64_t q = 0; q < n_lanes; q++) {
            int64_t at = element(s, first + q, k, s->n_out, 2);
            ipu__number_store(s->type, out, at, from.re[k * n_lanes + q] * scale);
            ipu__number_store(s->type, out, at + 1, from.im[k * n_lanes + q] * scale);
        }
}

static void exchange(ipu__dft_data *d)
{
    double *re = d->re;
    d->re      = d->im;
    d->im      = re;
}

/* x (.)= w, element by element; w is the same for all lanes. */
static void multiply(ipu__dft_data x, ipu__dft_data w, int64_t n, int64_t n_lanes)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t q = j * n_lanes; q < (j + 1) * n_lanes; q++) {
            double re = x.re[q] * w.re[j] - x.im[q] * w.im[j];
            x.im[q]   = x.re[q] * w.im[j] + x.im[q] * w.re[j];
            x.re[q]   = re;
        }
}

static ipu__dft_data transformed(const state *t, int64_t n_lanes, ipu__dft_data *x, ipu__dft_data *y)
{
    if (t->loops->transform(&t->plan, n_lanes, *x, *y)) {
        ipu__dft_data swap = *x;
        *x                 = *y;
        *y                 = swap;
    }
    return *x;
}

/* Convolved with the chirp: j k = (j^2 + k^2 - (j - k)^2) / 2. */
static ipu__dft_data chirped(const state *t, int64_t n_lanes, ipu__dft_data x, ipu__dft_data y)
{
    int64_t n = t->s.n, m = t->plan.n;
    size_t  rest = (size_t)((m - n) * n_lanes) * sizeof *x.re;
    multiply(x, t->chirp, n, n_lanes);
    memset(x.re + n * n_lanes, 0, rest);
    memset(x.im + n * n_lanes, 0, rest);
    multiply(transformed(t, n_lanes, &x, &y), t->hat, m, n_lanes);
    exchange(&x);
    exchange(&y);
    transformed(t, n_lanes, &x, &y);
    exchange(&x);
    for (int64_t i = 0; i < n * n_lanes; i++) {
        x.re[i] /= (double)m;
        x.im[i] /= (double)m;
    }
    multiply(x, t->chirp, n, n_lanes);
    return x;
}

static ipu_status dft_run(const ipu__kernel_call *call, void *data, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)call;
    const state *t = data;
    int64_t      m = t->plan.n, block = lanes_of(m);
    ipu_interval mine = ipu__op_part(t->s.outer * t->s.inner, block, part, n_parts);
    for (int64_t first = mine.begin; first < mine.end; first += block) {
        int64_t       n_lanes = mine.end - first < block ? mine.end - first : block;
        double       *memory  = scratch;
        ipu__dft_data x = {memory, memory + m * block}, y = {memory + 2 * m * block, memory + 3 * m * block};
        load(&t->s, operand[X], first, n_lanes, x);
        if (t->s.inverse) exchange(&x);
        x = t->is_chirped ? chirped(t, n_lanes, x, y) : transformed(t, n_lanes, &x, &y);
        if (t->s.inverse) exchange(&x);
        store(&t->s, x, first, n_lanes, operand[OUT]);
    }
    return IPU_OK;
}

/* ---- the gradient ---- */

static ipu_value emit(ipu_builder *b, ipu_value x, int64_t axis, bool inverse, bool onesided)
{
    return ipu__emit1(b, "dft",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("inverse", inverse),
                                IPU_INT_ATTRIBUTE("onesided", onesided)),
                      IPU__IN(x));
}

static ipu_value resized(ipu_builder *b, ipu_value x, int axis, int64_t n)
{
    int64_t before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    int64_t own = ipu_value_dim(x, axis);
    if (own == n) return x;
    if (own > n) return ipu_slice(b, x, 0, n, axis);
    after[axis] = n - own;
    return ipu_pad(b, x, before, after, IPU_PAD_CONSTANT, 0);
}

/* The conjugate transpose: the inverse, times n. */
static void dft_grad(ipu__gradient *g)
{
    shape s    = get_shape(g->call);
    int   axis = 0, rank = g->call->operand[X].shape.rank;
    ipu__op_axis(g->call, "axis", rank, &axis);
    ipu_value d     = emit(g->b, resized(g->b, g->d_out[0], axis, s.n), axis, !s.inverse, false);
    double    scale = s.inverse ? 1 / (double)s.n : (double)s.n;
    d               = ipu_mul(g->b, d, ipu_scalar_like(g->b, d, scale));
    g->d_in[X]      = s.parts == 2 ? d : ipu_slice(g->b, d, 0, 1, rank - 1);
}

/* ---- the record ---- */

static double dft_work(const ipu__kernel_call *call)
{
    shape  s = get_shape(call);
    double m = (double)stages_of(s.n), each = 5 * m * (log2(m) + 1) * (m != (double)s.n ? 2 : 1);
    return (double)(s.outer * s.inner) * each;
}

static ipu_status dft_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    shape        s    = get_shape(call);
    int64_t      n    = s.outer * s.inner * s.n;
    ipu__op_loop loop = {40, 1, n > 0 ? dft_work(call) / (double)n : 0};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 2, target, out));
    if (n > 0) {
        double bytes        = 2 * (double)n / (double)out->n_tiles * (double)ipu_type_size(s.type);
        out->bytes_received = out->bytes_sent = ipu__op_count(bytes);
    }
    out->basis = "our estimate: a cycle for each of 5 n log2 n operations, all elements exchanged once";
    return IPU_OK;
}

static const ipu__kernel_operand operands[]        = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__cpu_impl       implementations[] = {{.head          = {"stockham", ipu__op_fits_always},
                                                       .scratch_bytes = dft_scratch,
                                                       .prepare       = dft_prepare,
                                                       .release       = dft_release,
                                                       .run           = dft_run}};
static const ipu_op_attribute    attributes[]      = {
            {.name      = "axis",
             .kind      = IPU_ATTRIBUTE_INT,
             .otherwise = 1,
             .meaning   = "dimension, negative from the end"},
            {.name = "inverse", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the inverse, divided by the length"},
            {.name = "onesided", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: only the first n / 2 + 1 frequencies"},
};
static const char *const samples[] = {"float[2,8,2]",
                                      "float[2,12,1]; onesided=1",
                                      "float[7,3,2]; axis=0 inverse=1",
                                      "float[2,1,1]; inverse=1",
                                      "float[2,37,2]",
                                      "float[2,3,74,1]; axis=-2 onesided=1",
                                      "float[3,41,2,2]; inverse=1",
                                      "float[2,30,2]",
                                      "float[5,16,11,2]",
                                      "float[0,4,2]",
                                      "float[60,128,1]",
                                      NULL};

const ipu__op_def ipu__op_dft = {
    .kernel       = {.name            = "dft",
                     .operands        = operands,
                     .n_operands      = 2,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = dft_ref,
                     .work            = dft_work,
                     .ref_work        = dft_ref_work,
                     .plan            = dft_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 1,
    .family       = "signal",
    .summary      = "discrete Fourier transform along a dimension",
    .flags        = IPU__OP_SHORT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = dft_infer,
    .grad         = dft_grad,
    .samples      = samples,
};

ipu_value ipu_dft(ipu_builder *b, ipu_value x, int axis, ipu_dft_options options)
{
    int rank = ipu_value_rank(x), at = axis < 0 ? axis + rank : axis;
    if (options.length > 0 && at >= 0 && at < rank - 1) x = resized(b, x, at, options.length);
    return emit(b, x, axis, options.inverse, options.onesided);
}
