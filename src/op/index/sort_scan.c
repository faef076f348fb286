/* cumsum and cumprod: running sums and products along an axis.
 *
 * x is [outer, n, inner]; each (outer, inner) is a lane that one part does, some neighbours at a time.
 * Floating types run in double and are rounded where they are stored: every result is rounded once.
 */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/number.h"
#include "op/op.h"
#include "op/replicas.h"

enum { X, OUT };               /* of cumsum and cumprod */
enum { G_X, G_DY, G_DX };      /* of cumprod_grad */
enum { LANES = 64, FEW = 16 }; /* lanes at a time: plain, with scratch */

typedef struct lanes {
    int64_t  outer, n, inner;
    ipu_type type;
    bool     is_product, exclusive, reverse;
} lanes;

static lanes get_lanes(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", x->rank, &axis); /* infer has seen it */
    lanes l = {1, x->dim[axis], 1, call->operand[X].type, call->def != &ipu__op_cumsum.kernel, false, false};
    for (int d = 0; d < axis; d++) l.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) l.inner *= x->dim[d];
    l.exclusive = ipu__op_int(call, "exclusive") != 0;
    l.reverse   = ipu__op_int(call, "reverse") != 0;
    return l;
}

/* Element k of the run, from its end if it is reversed, in lane 0. */
static inline int64_t element(const lanes *l, int64_t o, int64_t k)
{
    return (o * l->n + (l->reverse ? l->n - 1 - k : k)) * l->inner;
}

/* ---- running ---- */

/* Lanes i of block `o`, in accumulators of type A. */
#define SCAN(name, T, A, LOAD, STORE)                                                              \
    static void scan_##name(const lanes *l, int64_t o, ipu_interval i, const void *from, void *to) \
    {                                                                                              \
        const T *x   = from;                                                                       \
        T       *out = to;                                                                         \
        A        run[LANES];                                                                       \
        int64_t  n = i.end - i.begin;                                                              \
        for (int64_t j = 0; j < n; j++) run[j] = l->is_product;                                    \
        for (int64_t k = 0; k < l->n; k++) {                                                       \
            int64_t at = element(l, o, k) + i.begin;                                               \
            for (int64_t j = 0; j < n; j++) {                                                      \
                A v = LOAD(x[at + j]), before = run[j];                                            \
                run[j]      = l->is_product ? before * v : before + v;                             \
                out[at + j] = STORE(l->exclusive ? before : run[j]);                               \
            }                                                                                      \
        }                                                                                          \
    }
#define AS_DOUBLE(v) ((double)(v))
#define AS_FLOAT(v) ((float)(v))
#define SAME(v) (v)
#define HALF_LOAD(v) ((double)ipu_half_to_float(v))
#define HALF_STORE(v) ipu_half_from_float((float)(v))
#define BFLOAT16_LOAD(v) ((double)ipu_bfloat16_to_float(v))
#define BFLOAT16_STORE(v) ipu_bfloat16_from_float((float)(v))
SCAN(float, float, double, AS_DOUBLE, AS_FLOAT)
SCAN(double, double, double, SAME, SAME)
SCAN(half, ipu_half, double, HALF_LOAD, HALF_STORE)
SCAN(bfloat16, ipu_bfloat16, double, BFLOAT16_LOAD, BFLOAT16_STORE)
SCAN(int8, uint8_t, uint32_t, SAME, (uint8_t))
SCAN(int16, uint16_t, uint32_t, SAME, (uint16_t))
SCAN(int32, uint32_t, uint32_t, SAME, SAME)
SCAN(int64, uint64_t, uint64_t, SAME, SAME)

typedef void (*scan_fn)(const lanes *l, int64_t o, ipu_interval i, const void *from, void *to);
static const scan_fn scans[IPU_N_TYPES] = {
    /* NULL: not a type that adds */
    [IPU_FLOAT] = scan_float,       [IPU_DOUBLE] = scan_double, [IPU_HALF] = scan_half,
    [IPU_BFLOAT16] = scan_bfloat16, [IPU_INT32] = scan_int32,   [IPU_UINT32] = scan_int32,
    [IPU_INT64] = scan_int64,       [IPU_UINT64] = scan_int64,  [IPU_INT8] = scan_int8,
    [IPU_UINT8] = scan_int8,        [IPU_INT16] = scan_int16,   [IPU_UINT16] = scan_int16,
};

/* Lanes begin .. end of all, some of one block at a time. */
static ipu_interval next_lanes(const lanes *l, ipu_interval *left, int64_t most, int64_t *o)
{
    *o             = left->begin / l->inner;
    ipu_interval i = {left->begin % l->inner, l->inner};
    if (i.end - i.begin > most) i.end = i.begin + most;
    if (i.end - i.begin > left->end - left->begin) i.end = i.begin + left->end - left->begin;
    left->begin += i.end - i.begin;
    return i;
}

/* The meaning, one lane after the other. */
static void scan_ref(const ipu__kernel_call *call, void *const *operand)
{
    lanes l = get_lanes(call);
    for (int64_t lane = 0; lane < l.outer * l.inner; lane++) {
        int64_t i = lane % l.inner;
        scans[l.type](&l, lane / l.inner, (ipu_interval){i, i + 1}, operand[X], operand[OUT]);
    }
}

static ipu_status scan_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch;
    lanes        l     = get_lanes(call);
    int64_t      grain = l.inner > 1 ? ipu__op_line(l.type) : 1;
    ipu_interval left  = ipu__op_part(l.outer * l.inner, grain, part, n_parts);
    while (left.begin < left.end) {
        int64_t      o;
        ipu_interval i = next_lanes(&l, &left, LANES, &o);
        scans[l.type](&l, o, i, operand[X], operand[OUT]);
    }
    return IPU_OK;
}

/* ---- the gradient of cumprod ---- */

/* dx[k] is the product of what comes before k times s[k], where s[k] = dy[k] + x[k + 1] s[k + 1]: right also
 * where x is 0. Exclusive: s[k] = dy[k + 1] + x[k + 1] s[k + 1], nothing at the end. */
static double product_before(const lanes *l, const void *x, int64_t o, int64_t i, int64_t k)
{
    double p = 1;
    for (int64_t j = 0; j < k; j++) p *= ipu__number_load(l->type, x, element(l, o, j) + i);
    return p;
}

static double sum_behind(const lanes *l, void *const *operand, int64_t o, int64_t i, int64_t k)
{
    double s = 0, p = 1;
    for (int64_t j = l->exclusive ? k + 1 : k; j < l->n; j++) {
        if (!l->exclusive && j > k) p *= ipu__number_load(l->type, operand[G_X], element(l, o, j) + i);
        s += p * ipu__number_load(l->type, operand[G_DY], element(l, o, j) + i);
        if (l->exclusive) p *= ipu__number_load(l->type, operand[G_X], element(l, o, j) + i);
    }
    return s;
}

static void cumprod_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    lanes l = get_lanes(call);
    for (int64_t lane = 0; lane < l.outer * l.inner; lane++)
        for (int64_t k = 0; k < l.n; k++) {
            int64_t o = lane / l.inner, i = lane % l.inner;
            double  d = product_before(&l, operand[G_X], o, i, k) * sum_behind(&l, operand, o, i, k);
            ipu__number_store(l.type, operand[G_DX], element(&l, o, k) + i, d);
        }
}

static double cumprod_grad_ref_work(const ipu__kernel_call *call)
{
    return 4 * (double)get_lanes(call).n * (double)ipu__op_n_elements(&call->operand[G_X].shape);
}

static size_t cumprod_grad_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    double bytes = (double)get_lanes(call).n * FEW * sizeof(double);
    return bytes < 0x1p47 ? (size_t)bytes : SIZE_MAX;
}

static void cumprod_grad_lanes(const lanes *l, int64_t o, ipu_interval i, void *const *operand,
                               double *before)
{
    double  run[FEW];
    int64_t n = i.end - i.begin;
    for (int64_t j = 0; j < n; j++) run[j] = 1;
    for (int64_t k = 0; k < l->n; k++)
        for (int64_t j = 0; j < n; j++) {
            before[k * FEW + j] = run[j];
            run[j] *= ipu__number_load(l->type, operand[G_X], element(l, o, k) + i.begin + j);
        }
    for (int64_t j = 0; j < n; j++) run[j] = 0;
    for (int64_t k = l->n - 1; k >= 0; k--)
        for (int64_t j = 0; j < n; j++) {
            int64_t at = element(l, o, k) + i.begin + j;
            double  x  = ipu__number_load(l->type, operand[G_X], at),
                   dy  = ipu__number_load(l->type, operand[G_DY], at);
            double s   = l->exclusive ? run[j]
                                      : run[j] + dy; /* run: x[k + 1] s[k + 1], and dy[k + 1] if exclusive */
            ipu__number_store(l->type, operand[G_DX], at, before[k * FEW + j] * s);
            run[j] = l->exclusive ? dy + x * s : x * s;
        }
}

static ipu_status cumprod_grad_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                   void *scratch, int part, int n_parts)
{
    (void)state;
    lanes        l    = get_lanes(call);
    ipu_interval left = ipu__op_part(l.outer * l.inner, l.inner > 1 ? ipu__op_line(l.type) : 1, part,
                                     n_parts);
    while (left.begin < left.end && l.n > 0) {
        int64_t      o;
        ipu_interval i = next_lanes(&l, &left, FEW, &o);
        cumprod_grad_lanes(&l, o, i, operand, scratch);
    }
    return IPU_OK;
}

/* ---- records ---- */

static ipu_status scan_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    if (!scans[call->operand[X].type])
        return ipu__fail(IPU_INVALID, "%s: \"x\" must be of a floating or an integer type, found %s%s",
                         call->def->name, ipu_type_name(call->operand[X].type),
                         ipu__shape_str(&call->operand[X].shape));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status cumprod_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, G_X));
    IPU_TRY(ipu__op_want_same_type(call, G_X, G_DY));
    IPU_TRY(ipu__op_want_shape(call, G_DY, &call->operand[G_X].shape));
    return scan_infer(call, out);
}

static double scan_work(const ipu__kernel_call *call)
{
    return 2 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

/* What a lane waits for, where there are fewer lanes than workers, is not hidden. */
static ipu_status scan_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t      n    = ipu__op_n_elements(&call->operand[X].shape);
    ipu__op_loop loop = {29, 1, 6};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 2, target, out));
    if (n > 0) out->bytes_received = out->bytes_sent = 2 * (int64_t)ipu_type_size(call->operand[X].type);
    out->basis = "our estimate: two passes over each tile's share, the sums of tiles exchanged in between";
    return IPU_OK;
}

static ipu_value scan(ipu_builder *b, const char *op, ipu_value x, int64_t axis, bool exclusive, bool reverse)
{
    return ipu__emit1(b, op,
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("exclusive", exclusive),
                                IPU_INT_ATTRIBUTE("reverse", reverse)),
                      IPU__IN(x));
}

static void cumsum_grad(ipu__gradient *g)
{
    g->d_in[X] = scan(g->b, "cumsum", g->d_out[0], ipu__op_int(g->call, "axis"),
                      ipu__op_int(g->call, "exclusive") != 0, ipu__op_int(g->call, "reverse") == 0);
}

static void cumprod_grad(ipu__gradient *g)
{
    g->d_in[X] = ipu__emit1(g->b, "cumprod_grad", g->call->attributes, g->call->n_attributes,
                            IPU__IN(g->in[X], g->d_out[0]));
}

/* Where x has no zeros. */
static void cumprod_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    bool      exclusive = ipu__op_int(call, "exclusive") != 0, reverse = ipu__op_int(call, "reverse") != 0;
    int64_t   axis = ipu__op_int(call, "axis");
    ipu_value y    = scan(b, "cumprod", in[G_X], axis, exclusive, reverse);
    ipu_value sums = scan(b, "cumsum", ipu_mul(b, y, in[G_DY]), axis, exclusive, !reverse);
    out[0]         = ipu_div(b, sums, in[G_X]);
}

static const ipu_op_attribute attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "dimension to run along"},
    {.name = "exclusive", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: without the element itself"},
    {.name = "reverse", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: from the end"},
};
static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT_OVER("out", X)};

static const ipu__cpu_impl impls[] = {{.head = {"lanes", ipu__op_fits_always}, .run = scan_run}};

static const char *const samples[] = {"float[7,3]{0.5,1.5}",
                                      "float[3,5,2]{0.5,1.5}; axis=1 exclusive=1",
                                      "float[3,5]{0.5,1.5}; axis=-1 reverse=1",
                                      "float[4,6]; axis=1 exclusive=1 reverse=1",
                                      "int32[9]",
                                      "int64[2,9]; axis=1 reverse=1",
                                      "int8[2,9]; axis=1",
                                      "uint16[2,9]; axis=1 exclusive=1",
                                      "uint64[9]",
                                      "float[0,3]",
                                      "float[20,7,300]{0.8,1.2}; axis=1",
                                      NULL};

#define SCAN_OP(op, op_summary, grad_fn)                         \
    const ipu__op_def ipu__op_##op = {                           \
        .kernel       = {.name            = #op,                 \
                         .operands        = operands,            \
                         .n_operands      = 2,                   \
                         .check           = ipu__op_check,       \
                         .rows            = ipu__op_rows,        \
                         .ref             = scan_ref,            \
                         .work            = scan_work,           \
                         .plan            = scan_plan,           \
                         .implementations = IPU__ON_CPU(impls)}, \
        .n_in         = 1,                                       \
        .family       = "sort",                                  \
        .summary      = (op_summary),                            \
        .flags        = IPU__OP_SHORT_IN_HALF,                   \
        .attributes   = attributes,                              \
        .n_attributes = 3,                                       \
        .infer        = scan_infer,                              \
        .grad         = (grad_fn),                               \
        .fold         = ipu__fold_along_axis,                    \
        .samples      = samples,                                 \
    }
SCAN_OP(cumsum, "running sums along an axis", cumsum_grad);
SCAN_OP(cumprod, "running products along an axis", cumprod_grad);

static const ipu__kernel_operand grad_operands[] = {IPU__INPUT("x"), IPU__INPUT("dy"), IPU__OUTPUT("dx")};

static const ipu__cpu_impl grad_impls[] = {
    {.head = {"lanes", ipu__op_fits_always}, .scratch_bytes = cumprod_grad_scratch, .run = cumprod_grad_run}};

static const char *const grad_samples[] = {"float[7,3]{0.5,1.5}, float[7,3]",
                                           "float[3,5,2]{0.5,1.5}, float[3,5,2]; axis=1 exclusive=1",
                                           "float[3,5]{0.5,1.5}, float[3,5]; axis=-1 reverse=1",
                                           "float[4,6]{0.5,1.5}, float[4,6]; axis=1 exclusive=1 reverse=1",
                                           "float[0,3], float[0,3]",
                                           "float[20,9,300]{0.8,1.2}, float[20,9,300]; axis=1",
                                           NULL};

const ipu__op_def ipu__op_cumprod_grad = {
    .kernel       = {.name            = "cumprod_grad",
                     .operands        = grad_operands,
                     .n_operands      = 3,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = cumprod_grad_ref,
                     .work            = scan_work,
                     .ref_work        = cumprod_grad_ref_work,
                     .plan            = scan_plan,
                     .implementations = IPU__ON_CPU(grad_impls)},
    .n_in         = 2,
    .family       = "sort",
    .summary      = "the gradient of cumprod, also where x is 0",
    .attributes   = attributes,
    .n_attributes = 3,
    .infer        = cumprod_grad_infer,
    .compose      = cumprod_grad_compose,
    .fold         = ipu__fold_along_axis,
    .samples      = grad_samples,
};

/* ---- functions ---- */

ipu_value ipu_cumsum_with(ipu_builder *b, ipu_value x, int axis, bool exclusive, bool reverse)
{
    return scan(b, "cumsum", x, axis, exclusive, reverse);
}

ipu_value ipu_cumprod_with(ipu_builder *b, ipu_value x, int axis, bool exclusive, bool reverse)
{
    return scan(b, "cumprod", x, axis, exclusive, reverse);
}

ipu_value ipu_cumsum(ipu_builder *b, ipu_value x, int axis)
{
    return scan(b, "cumsum", x, axis, false, false);
}
ipu_value ipu_cumprod(ipu_builder *b, ipu_value x, int axis)
{
    return scan(b, "cumprod", x, axis, false, false);
}
