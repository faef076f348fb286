/* softmax, log_softmax and their gradients along one dimension.
 *
 * Inputs are read as [outer, n, inner]. The exponentials and sums are in float, or in double for double; the
 * reference works in double for all types.
 */
#include "op/norm/softmax.h"

#include <math.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/softmax.h"
#include "op/vector/floats.h"
#include "op/vector/lanes.h"
#include "op/number.h"
#include "op/reduce/reduce.h"
#include "op/replicas.h"

enum { X, DY }; /* of gradients x is the op's result, and there is dy */

static const ipu__op_def *const by_kind[IPU__N_SOFTMAX_KINDS] = {
    [IPU__SOFTMAX]          = &ipu__op_softmax,
    [IPU__LOG_SOFTMAX]      = &ipu__op_log_softmax,
    [IPU__SOFTMAX_GRAD]     = &ipu__op_softmax_grad,
    [IPU__LOG_SOFTMAX_GRAD] = &ipu__op_log_softmax_grad,
};

typedef struct rows {
    ipu__softmax_kind         kind;
    const ipu__softmax_loops *loops;
    ipu_type                  type;
    int64_t                   outer, n, inner;
    int64_t                   columns; /* done together, where inner > 1 */
} rows;

/* A block of columns as floats, at most 64 KiB: it stays in the second cache. */
enum { BLOCK_FLOATS = 16384, MOST_COLUMNS = 64 };

/* Rows shorter than this would be done element by element for the most part: sixteen of them are turned, and are
 * columns then. */
enum { LEAST_ROW = 32 };

static rows rows_of(const ipu__kernel_call *call)
{
    const ipu_shape *shape = &call->operand[X].shape;
    rows             r     = {.type = call->operand[X].type, .outer = 1, .inner = 1};
    int              axis  = 0;
    while (&by_kind[r.kind]->kernel != call->def) r.kind++;
    ipu__op_axis(call, "axis", shape->rank, &axis); /* seen by infer */
    r.n = shape->dim[axis];
    for (int d = 0; d < shape->rank; d++)
        if (d != axis) *(d < axis ? &r.outer : &r.inner) *= shape->dim[d];
    r.loops   = &IPU__SIMD_PICK(ipu__softmax_loops_at).at[r.kind];
    r.columns = r.n > 0 ? BLOCK_FLOATS / r.n : 1;
    if (r.columns < 16) r.columns = 16;
    if (r.columns > MOST_COLUMNS) r.columns = MOST_COLUMNS;
    if (r.columns > r.inner) r.columns = r.inner;
    return r;
}

static bool has_dy(const rows *r) { return r->kind == IPU__SOFTMAX_GRAD || r->kind == IPU__LOG_SOFTMAX_GRAD; }

/* ---- the meaning ---- */

static void ref_forward(const rows *r, const void *x, void *out, int64_t at)
{
    double most = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < r->n; i++) most = fmax(most, ipu__number_load(r->type, x, at + i * r->inner));
    for (int64_t i = 0; i < r->n; i++) sum += exp(ipu__number_load(r->type, x, at + i * r->inner) - most);
    for (int64_t i = 0; i < r->n; i++) {
        double v = ipu__number_load(r->type, x, at + i * r->inner) - most;
        ipu__number_store(r->type, out, at + i * r->inner,
                          r->kind == IPU__SOFTMAX ? exp(v) / sum : v - log(sum));
    }
}

static void ref_backward(const rows *r, const void *y, const void *dy, void *out, int64_t at)
{
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) {
        double d = ipu__number_load(r->type, dy, at + i * r->inner);
        sum += r->kind == IPU__SOFTMAX_GRAD ? d * ipu__number_load(r->type, y, at + i * r->inner) : d;
    }
    for (int64_t i = 0; i < r->n; i++) {
        double d = ipu__number_load(r->type, dy, at + i * r->inner);
        double v = ipu__number_load(r->type, y, at + i * r->inner);
        ipu__number_store(r->type, out, at + i * r->inner,
                          r->kind == IPU__SOFTMAX_GRAD ? v * (d - sum) : d - exp(v) * sum);
    }
}

static void softmax_ref(const ipu__kernel_call *call, void *const *operand)
{
    rows r = rows_of(call);
    for (int64_t o = 0; o < r.outer; o++)
        for (int64_t i = 0; i < r.inner; i++) {
            int64_t at = o * r.n * r.inner + i;
            if (has_dy(&r))
                ref_backward(&r, operand[X], operand[DY], operand[2], at);
            else
                ref_forward(&r, operand[X], operand[1], at);
        }
}

/* ---- in float ---- */

static bool is_short(const rows *r) { return r->inner == 1 && r->type == IPU_FLOAT && r->n < LEAST_ROW; }

static bool rows_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[X].type != IPU_DOUBLE;
}

/* Inputs and result as floats, and sums. */
static size_t rows_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    rows   r     = rows_of(call);
    size_t block = (size_t)(r.n * r.columns) * sizeof(float);
    if (is_short(&r)) return (size_t)(3 * r.n + 3) * IPU__LANES * sizeof(float);
    return r.inner == 1 && r.type == IPU_FLOAT ? 0 : 3 * block + 3 * MOST_COLUMNS * sizeof(float);
}

static ipu_status rows_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    rows *r = ipu__alloc(sizeof *r);
    if (!r) return ipu__fail_memory();
    *r   = rows_of(call);
    *out = r;
    return IPU_OK;
}

static void rows_release(void *state) { ipu__free(state); }

/* `columns` columns at element `at`, through scratch. */
static void do_block(const rows *r, void *const *operand, int64_t at, int64_t columns, float *scratch)
{
    float *x = scratch, *dy = x + r->n * r->columns, *out = dy + r->n * r->columns;
    float *sums = out + r->n * r->columns;
    void  *to   = operand[has_dy(r) ? 2 : 1];
    for (int64_t i = 0; i < (columns == r->inner ? 1 : r->n); i++) {
        int64_t n = columns == r->inner ? r->n * columns : columns;
        ipu__floats_load(r->type, operand[X], at + i * r->inner, n, x + i * columns);
        if (has_dy(r)) ipu__floats_load(r->type, operand[DY], at + i * r->inner, n, dy + i * columns);
    }
    if (r->inner == 1)
        r->loops->row(x, dy, out, r->n);
    else
        r->loops->columns(x, dy, out, r->n, columns, sums);
    for (int64_t i = 0; i < (columns == r->inner ? 1 : r->n); i++)
        ipu__floats_store(r->type, out + i * columns, to, at + i * r->inner,
                          columns == r->inner ? r->n * columns : columns);
}

/* `n_rows` <= 16 rows of r->n as columns of [r->n][n_rows]. */
static void turn(const rows *r, const float *x, int64_t n_rows, float *columns)
{
    if (n_rows == IPU__LANES) {
        IPU__SIMD_PICK(ipu__lane_turns_at).turn(x, r->n, r->n, columns);
        return;
    }
    for (int64_t k = 0; k < n_rows; k++)
        for (int64_t i = 0; i < r->n; i++) columns[i * n_rows + k] = x[k * r->n + i];
}

static void turn_back(const rows *r, const float *columns, int64_t n_rows, float *x)
{
    if (n_rows == IPU__LANES) {
        IPU__SIMD_PICK(ipu__lane_turns_at).turn_back(columns, r->n, x, r->n);
        return;
    }
    for (int64_t k = 0; k < n_rows; k++)
        for (int64_t i = 0; i < r->n; i++) x[k * r->n + i] = columns[i * n_rows + k];
}

static void do_short_rows(const rows *r, void *const *operand, ipu_interval which, float *scratch)
{
    float *x = scratch, *dy = x + r->n * IPU__LANES, *out = dy + r->n * IPU__LANES;
    for (int64_t k = which.begin; k < which.end; k += IPU__LANES) {
        int64_t at = k * r->n, n_rows = which.end - k < IPU__LANES ? which.end - k : IPU__LANES;
        turn(r, (const float *)operand[X] + at, n_rows, x);
        if (has_dy(r)) turn(r, (const float *)operand[DY] + at, n_rows, dy);
        r->loops->columns(x, dy, out, r->n, n_rows, out + r->n * IPU__LANES);
        turn_back(r, out, n_rows, (float *)operand[has_dy(r) ? 2 : 1] + at);
    }
}

static ipu_status rows_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)call;
    const rows  *r      = state;
    int64_t      blocks = ipu__op_ceil_div(r->inner, r->columns > 0 ? r->columns : 1);
    ipu_interval mine   = ipu__op_part(r->outer * blocks, 1, part, n_parts);
    if (is_short(r)) {
        if (r->n > 0) do_short_rows(r, operand, mine, scratch);
        return IPU_OK;
    }
    for (int64_t k = mine.begin; k < mine.end && r->n > 0; k++) {
        int64_t column = k % blocks * r->columns, at = k / blocks * r->n * r->inner + column;
        int64_t columns = r->inner - column < r->columns ? r->inner - column : r->columns;
        if (r->inner == 1 && r->type == IPU_FLOAT)
            r->loops->row((const float *)operand[X] + at, has_dy(r) ? (const float *)operand[DY] + at : NULL,
                          (float *)operand[has_dy(r) ? 2 : 1] + at, r->n);
        else
            do_block(r, operand, at, columns, scratch);
    }
    return IPU_OK;
}

static const ipu__cpu_impl implementations[] = {
    {
        .head          = {"rows", rows_fits},
        .scratch_bytes = rows_scratch_bytes,
        .prepare       = rows_prepare,
        .release       = rows_release,
        .run           = rows_run,
    },
};

/* ---- inference, gradients, pricing ---- */

static ipu_status softmax_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status softmax_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(softmax_infer(call, out));
    IPU_TRY(ipu__op_want_same_type(call, X, DY));
    return ipu__op_want_shape(call, DY, &call->operand[X].shape);
}

static void emit_grad(ipu__gradient *g, const char *op)
{
    ipu_attribute axis = IPU_INT_ATTRIBUTE("axis", ipu__op_int(g->call, "axis"));
    if (g->wanted[X]) g->d_in[X] = ipu__emit1(g->b, op, &axis, 1, IPU__IN(g->out[0], g->d_out[0]));
}

static void softmax_grad(ipu__gradient *g) { emit_grad(g, "softmax_grad"); }
static void log_softmax_grad(ipu__gradient *g) { emit_grad(g, "log_softmax_grad"); }

static void softmax_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    int       axis = (int)ipu__op_int(call, "axis");
    ipu_value sum  = ipu_reduce_sum(b, ipu_mul(b, in[X], in[DY]), &axis, 1, true);
    out[0]         = ipu_mul(b, in[X], ipu_sub(b, in[DY], sum));
}

static void log_softmax_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                     ipu_value *out)
{
    int       axis = (int)ipu__op_int(call, "axis");
    ipu_value sum  = ipu_reduce_sum(b, in[DY], &axis, 1, true);
    out[0]         = ipu_sub(b, in[DY], ipu_mul(b, ipu_exp(b, in[X]), sum));
}

static void softmin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = ipu_softmax(b, ipu_neg(b, in[X]), (int)ipu__op_int(call, "axis"));
}

static double softmax_work(const ipu__kernel_call *call)
{
    double n = (double)ipu__op_n_elements(&call->operand[X].shape);
    return call->def == &ipu__op_softmax_grad.kernel ? 4 * n : 20 * n; /* an exponential is about 15 */
}

/* Maximum, difference, exponential, sum and product, or for gradients products, sum and difference. */
static ipu_status softmax_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    rows         r        = rows_of(call);
    bool         is_half  = r.type == IPU_HALF;
    double       exp_loop = is_half ? 4 : 6, others = has_dy(&r) ? 9 : 12;
    ipu__op_loop loop = {4 * 29, is_half ? 4 : 2, (r.kind == IPU__SOFTMAX_GRAD ? 0 : exp_loop) + others};
    IPU_TRY(ipu__reduce_plan_rows(&loop, r.outer * r.inner, r.n, has_dy(&r) ? 1 : 2, target, out));
    out->basis = "our estimate: PopLibs' figures for exp and binary operations, one pass after another";
    return IPU_OK;
}

/* ---- the records ---- */

static const ipu__kernel_operand operands[]      = {IPU__INPUT("x"), IPU__OUTPUT_OVER("out", X)};
static const ipu__kernel_operand grad_operands[] = {IPU__INPUT("y"), IPU__INPUT("dy"),
                                                    IPU__OUTPUT_OVER("dx", DY)};

static const ipu_op_attribute attributes[] = {
    {.name      = "axis",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -1,
     .meaning   = "dimension, negative from the end"},
};

/* A row and columns; more columns than a block; more than a block of a row; empty ones; enough to share. */
static const char *const samples[]         = {"float[3,4]",
                                              "float[37,10]",
                                              "float[7]; axis=0",
                                              "float[3,4]; axis=0",
                                              "float[2,5,3]; axis=1",
                                              "float[2,3,70]; axis=1",
                                              "float[2,1,3]; axis=1",
                                              "float[0,4]",
                                              "float[4,0]",
                                              "float[3,2100]",
                                              "float[80,100]",
                                              "float[4,1500,20]; axis=1",
                                              NULL};
static const char *const grad_samples[]    = {"float[3,4], float[3,4]",
                                              "float[37,10], float[37,10]",
                                              "float[7], float[7]; axis=0",
                                              "float[3,4], float[3,4]; axis=0",
                                              "float[2,5,3], float[2,5,3]; axis=1",
                                              "float[2,3,70], float[2,3,70]; axis=1",
                                              "float[0,4], float[0,4]",
                                              "float[3,2100], float[3,2100]",
                                              "float[400,100], float[400,100]",
                                              "float[4,1500,20], float[4,1500,20]; axis=1",
                                              NULL};
static const char *const softmin_samples[] = {"float[3,4]", "float[3,4]; axis=0", NULL};

#define KERNEL(name_, operands_, n_)                                                          \
    {                                                                                         \
        .name = #name_, .operands = operands_, .n_operands = n_, .check = ipu__op_check,      \
        .rows = ipu__op_rows, .ref = softmax_ref, .work = softmax_work, .plan = softmax_plan, \
        .implementations = IPU__ON_CPU(implementations)                                       \
    }

#define COMMON .family = "softmax", .attributes = attributes, .n_attributes = IPU__COUNT(attributes)

const ipu__op_def ipu__op_softmax = {
    .kernel = KERNEL(softmax, operands, 2),
    .n_in   = 1,
    COMMON,
    .infer   = softmax_infer,
    .grad    = softmax_grad,
    .summary = "exp(x) / sum(exp(x)) along a dimension",
    .flags   = IPU__OP_SHORT_IN_HALF,
    .fold    = ipu__fold_along_axis,
    .samples = samples,
};
const ipu__op_def ipu__op_log_softmax = {
    .kernel = KERNEL(log_softmax, operands, 2),
    .n_in   = 1,
    COMMON,
    .infer   = softmax_infer,
    .grad    = log_softmax_grad,
    .summary = "x - log(sum(exp(x))) along a dimension",
    .flags   = IPU__OP_SHORT_IN_HALF,
    .fold    = ipu__fold_along_axis,
    .samples = samples,
};
const ipu__op_def ipu__op_softmax_grad = {
    .kernel = KERNEL(softmax_grad, grad_operands, 3),
    .n_in   = 2,
    COMMON,
    .infer   = softmax_grad_infer,
    .compose = softmax_grad_compose,
    .summary = "y * (dy - sum(y * dy)): the gradient of softmax",
    .fold    = ipu__fold_along_axis,
    .samples = grad_samples,
};
const ipu__op_def ipu__op_log_softmax_grad = {
    .kernel = KERNEL(log_softmax_grad, grad_operands, 3),
    .n_in   = 2,
    COMMON,
    .infer   = softmax_grad_infer,
    .compose = log_softmax_grad_compose,
    .summary = "dy - exp(y) * sum(dy): the gradient of log_softmax",
    .fold    = ipu__fold_along_axis,
    .samples = grad_samples,
};
const ipu__op_def ipu__op_softmin = {
    .kernel = {.name = "softmin", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in   = 1,
    COMMON,
    .infer   = softmax_infer,
    .compose = softmin_compose,
    .summary = "softmax of -x",
    .samples = softmin_samples,
};

static void hardmax_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int axis = (int)ipu__op_int(call, "axis"), rank = call->operand[0].shape.rank;
    if (axis < 0) axis += rank;
    if (ipu__op_n_elements(&call->operand[0].shape) == 0)
        out[0] = ipu_identity(b, in[0]);
    else
        out[0] = ipu_one_hot_with(b, ipu_argmax(b, in[0], axis, false), call->operand[0].shape.dim[axis],
                                  call->operand[0].type, axis, 1, 0);
}

static const char *const hardmax_samples[] = {"float[3,4]", "float[2,3,4]; axis=1", "float[4,3]; axis=0",
                                              "float[0,3]", NULL};

const ipu__op_def ipu__op_hardmax = {
    .kernel = {.name = "hardmax", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in   = 1,
    COMMON,
    .flags   = IPU__OP_NO_GRADIENT,
    .infer   = softmax_infer,
    .compose = hardmax_compose,
    .summary = "1 at the first of the largest along a dimension, else 0",
    .samples = hardmax_samples,
};

ipu_value ipu_hardmax(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "hardmax", &IPU_INT_ATTRIBUTE("axis", axis), 1, IPU__IN(x));
}

ipu_value ipu_softmax(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "softmax", &IPU_INT_ATTRIBUTE("axis", axis), 1, IPU__IN(x));
}

ipu_value ipu_log_softmax(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "log_softmax", &IPU_INT_ATTRIBUTE("axis", axis), 1, IPU__IN(x));
}

ipu_value ipu_softmin(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "softmin", &IPU_INT_ATTRIBUTE("axis", axis), 1, IPU__IN(x));
}
