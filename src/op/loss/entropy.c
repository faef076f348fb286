/* softmax_nll: cross entropy of logits with labels, a row at a time; softmax_nll_grad: its gradient.
 *
 * Being one kernel, it never stores the log probabilities. With labels smoothed by e, of C classes,
 *     loss = (1 - e) w[label] (L - x[label]) + e / C sum_c w[c] (L - x[c]),  L = log(sum(exp(x)))
 */
#include <math.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/softmax.h"
#include "op/loss/loss.h"
#include "op/number.h"
#include "op/reduce/reduce.h"
#include "op/norm/softmax.h"

enum { LOGITS, LABELS, WEIGHT, LOSS, LABEL_WEIGHT }; /* softmax_nll */
enum { D_LOSS = 3, D_LOGITS };                       /* softmax_nll_grad */

typedef struct entropy {
    ipu__labelled             l;
    bool                      has_weight;
    double                    smoothing;
    const ipu__softmax_table *table;
} entropy;

static entropy entropy_of(const ipu__kernel_call *call)
{
    return (entropy){.l          = ipu__labelled_of(call, &call->operand[LOGITS].shape, LABELS),
                     .has_weight = ipu__kernel_has(call, WEIGHT),
                     .smoothing  = ipu__op_float(call, "label_smoothing"),
                     .table      = &IPU__SIMD_PICK(ipu__softmax_loops_at)};
}

static double weight_of(const entropy *e, void *const *operand, int64_t c)
{
    return e->has_weight ? ipu__number_load(e->l.type, operand[WEIGHT], c) : 1;
}

/* Where the scores of label i begin. */
static int64_t first_score(const entropy *e, int64_t i)
{
    return i / e->l.inner * e->l.classes * e->l.inner + i % e->l.inner;
}

/* ---- the meaning ---- */

static double log_sum(const entropy *e, const void *logits, int64_t at)
{
    double most = -HUGE_VAL, sum = 0;
    if (e->l.classes == 0) return most;
    for (int64_t c = 0; c < e->l.classes; c++)
        most = fmax(most, ipu__number_load(e->l.type, logits, at + c * e->l.inner));
    for (int64_t c = 0; c < e->l.classes; c++)
        sum += exp(ipu__number_load(e->l.type, logits, at + c * e->l.inner) - most);
    return most + log(sum);
}

static void entropy_ref(const ipu__kernel_call *call, void *const *operand)
{
    entropy e = entropy_of(call);
    for (int64_t i = 0; i < e.l.n * e.l.inner; i++) {
        int64_t label = ipu__label(&e.l, operand[LABELS], i), at = first_score(&e, i);
        double  loss = 0, each = 0, w = label < 0 ? 0 : weight_of(&e, operand, label);
        if (label >= 0) {
            double all = log_sum(&e, operand[LOGITS], at);
            for (int64_t c = 0; c < e.l.classes; c++)
                each += weight_of(&e, operand, c)
                      * (all - ipu__number_load(e.l.type, operand[LOGITS], at + c * e.l.inner));
            loss = (1 - e.smoothing) * w
                 * (all - ipu__number_load(e.l.type, operand[LOGITS], at + label * e.l.inner));
            if (e.smoothing != 0) loss += e.smoothing / (double)e.l.classes * each;
        }
        ipu__number_store(e.l.type, operand[LOSS], i, loss);
        ipu__number_store(e.l.type, operand[LABEL_WEIGHT], i, w);
    }
}

static void entropy_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    entropy e     = entropy_of(call);
    double  total = 0, each = e.smoothing / (double)(e.l.classes > 0 ? e.l.classes : 1);
    for (int64_t c = 0; c < e.l.classes; c++) total += weight_of(&e, operand, c);
    for (int64_t i = 0; i < e.l.n * e.l.inner; i++) {
        int64_t label = ipu__label(&e.l, operand[LABELS], i), at = first_score(&e, i);
        double  all = label < 0 ? 0 : log_sum(&e, operand[LOGITS], at);
        double  d   = ipu__number_load(e.l.type, operand[D_LOSS], i);
        double  w   = label < 0 ? 0 : (1 - e.smoothing) * weight_of(&e, operand, label);
        for (int64_t c = 0; c < e.l.classes; c++) {
            int64_t j = at + c * e.l.inner;
            double  v = 0;
            if (label >= 0) {
                double p = exp(ipu__number_load(e.l.type, operand[LOGITS], j) - all);
                v        = (w + each * total) * p - each * weight_of(&e, operand, c) - (c == label ? w : 0);
            }
            ipu__number_store(e.l.type, operand[D_LOGITS], j, d * v);
        }
    }
}

/* ---- rows in float ---- */

static bool entropy_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[LOGITS].type != IPU_DOUBLE;
}

/* A row of scores, one of results, the weights of classes, and what smoothing takes from each. */
static size_t entropy_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return 4 * (size_t)call->operand[LOGITS].shape.dim[1] * sizeof(float);
}

static ipu_status entropy_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    entropy *e = ipu__alloc(sizeof *e);
    if (!e) return ipu__fail_memory();
    *e   = entropy_of(call);
    *out = e;
    return IPU_OK;
}

static void entropy_release(void *state) { ipu__free(state); }

static const float *load_row(const entropy *e, const void *logits, int64_t at, float *row)
{
    const ipu__labelled *l = &e->l;
    if (l->inner == 1 && l->type == IPU_FLOAT) return (const float *)logits + at;
    if (l->inner == 1 && l->type == IPU_HALF)
        ipu_half_to_floats((const ipu_half *)logits + at, row, (size_t)l->classes);
    else
        for (int64_t c = 0; c < l->classes; c++)
            row[c] = (float)ipu__number_load(l->type, logits, at + c * l->inner);
    return row;
}

static void store_row(const entropy *e, const float *row, void *out, int64_t at)
{
    const ipu__labelled *l = &e->l;
    if (l->inner == 1 && l->type == IPU_HALF)
        ipu_half_from_floats(row, (ipu_half *)out + at, (size_t)l->classes);
    else
        for (int64_t c = 0; c < l->classes; c++)
            ipu__number_store(l->type, out, at + c * l->inner, (double)row[c]);
}

/* All of them if there is a use for them; NULL: all 1. */
static const float *load_weights(const entropy *e, void *const *operand, float *weights)
{
    if (!e->has_weight) return NULL;
    for (int64_t c = 0; c < e->l.classes; c++) weights[c] = (float)weight_of(e, operand, c);
    return weights;
}

static float smoothed_loss(const float *log_probs, const float *weights, int64_t n)
{
    float sum = 0;
    if (weights)
        for (int64_t c = 0; c < n; c++) sum -= weights[c] * log_probs[c];
    else
        for (int64_t c = 0; c < n; c++) sum -= log_probs[c];
    return sum;
}

static ipu_status entropy_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)call;
    const entropy *e   = state;
    int64_t        n   = e->l.classes;
    float         *row = scratch, *log_probs = row + n;
    ipu_interval   mine    = ipu__op_part(e->l.n * e->l.inner, ipu__op_line(e->l.type), part, n_parts);
    const float   *weights = load_weights(e, operand, log_probs + n);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t label = ipu__label(&e->l, operand[LABELS], i);
        float   loss = 0, w = 0;
        if (label == -2) return ipu__label_fail(&e->l, operand[LABELS], i);
        if (label >= 0) {
            e->table->at[IPU__LOG_SOFTMAX].row(load_row(e, operand[LOGITS], first_score(e, i), row), NULL,
                                               log_probs, n);
            w    = weights ? weights[label] : 1;
            loss = (float)(1 - e->smoothing) * w * -log_probs[label];
            if (e->smoothing != 0)
                loss += (float)(e->smoothing / (double)n) * smoothed_loss(log_probs, weights, n);
        }
        ipu__number_store(e->l.type, operand[LOSS], i, (double)loss);
        ipu__number_store(e->l.type, operand[LABEL_WEIGHT], i, (double)w);
    }
    return IPU_OK;
}

/* The gradient of one row. `less` receives what each class is lowered by, `weights` may be NULL. */
static void grad_row(const entropy *e, const float *x, const float *weights, float total, int64_t label,
                     float d, float *less, float *out)
{
    int64_t n    = e->l.classes;
    float   each = (float)(e->smoothing / (double)n);
    float   w    = (float)(1 - e->smoothing) * (weights ? weights[label] : 1);
    for (int64_t c = 0; c < n && e->smoothing != 0; c++) less[c] = d * each * (weights ? weights[c] : 1);
    e->table->scaled(x, d * (w + each * total), e->smoothing != 0 ? less : NULL, out, n);
    out[label] -= d * w;
}

static ipu_status entropy_grad_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                   void *scratch, int part, int n_parts)
{
    (void)call;
    const entropy *e   = state;
    int64_t        n   = e->l.classes;
    float         *row = scratch, *result = row + n, total = (float)n;
    ipu_interval   mine    = ipu__op_part(e->l.n * e->l.inner, ipu__op_line(e->l.type), part, n_parts);
    const float   *weights = load_weights(e, operand, result + n);
    float         *less    = result + 2 * n;
    bool           direct  = e->l.inner == 1 && e->l.type == IPU_FLOAT;
    if (weights) {
        total = 0;
        for (int64_t c = 0; c < n; c++) total += weights[c];
    }
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t label = ipu__label(&e->l, operand[LABELS], i), at = first_score(e, i);
        float  *out = direct ? (float *)operand[D_LOGITS] + at : result;
        if (label < 0) {
            for (int64_t c = 0; c < n; c++) out[c] = 0;
        } else {
            grad_row(e, load_row(e, operand[LOGITS], at, row), weights, total, label,
                     (float)ipu__number_load(e->l.type, operand[D_LOSS], i), less, out);
        }
        if (!direct) store_row(e, out, operand[D_LOGITS], at);
    }
    return IPU_OK;
}

/* ---- inference ---- */

static ipu_status check_smoothing(const ipu__kernel_call *call)
{
    double smoothing = ipu__op_float(call, "label_smoothing");
    if (smoothing >= 0 && smoothing <= 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: label_smoothing = %g: expected 0 to 1", call->def->name, smoothing);
}

static ipu_status entropy_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_smoothing(call));
    IPU_TRY(ipu__op_want_floating(call, LOGITS));
    IPU_TRY(ipu__op_want_rank(call, LOGITS, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__labelled_check(call, &call->operand[LOGITS], LABELS, WEIGHT));
    out[0] = out[1] = (ipu__kernel_value){call->operand[LOGITS].type, call->operand[LABELS].shape};
    return IPU_OK;
}

static ipu_status entropy_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_value both[2];
    IPU_TRY(entropy_infer(call, both));
    IPU_TRY(ipu__op_want_same_type(call, LOGITS, D_LOSS));
    IPU_TRY(ipu__op_want_shape(call, D_LOSS, &both[0].shape));
    *out = call->operand[LOGITS];
    return IPU_OK;
}

/* ---- gradient and compositions ---- */

static void entropy_gradient(ipu__gradient *g)
{
    if (!g->wanted[LOGITS] || !ipu__has(g->d_out[0])) return;
    ipu_attribute attributes[] = {
        IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(g->call, "ignore_index")),
        IPU_FLOAT_ATTRIBUTE("label_smoothing", ipu__op_float(g->call, "label_smoothing")),
    };
    g->d_in[LOGITS] = ipu__emit1(g->b, "softmax_nll_grad", attributes, 2,
                                 IPU__IN(g->in[LOGITS], g->in[LABELS], g->in[WEIGHT], g->d_out[0]));
}

/* The weight of each class times e / C, to broadcast over [N, C, d...]. */
static ipu_value smoothing_weights(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in)
{
    double    each  = ipu__op_float(call, "label_smoothing") / (double)call->operand[LOGITS].shape.dim[1];
    ipu_value scale = ipu_scalar_like(b, in[LOGITS], each);
    if (!ipu__has(in[WEIGHT])) return scale;
    ipu_shape shape = {.rank = call->operand[LOGITS].shape.rank - 1};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = d == 0 ? call->operand[LOGITS].shape.dim[1] : 1;
    return ipu_mul(b, shape.rank == 1 ? in[WEIGHT] : ipu_reshape(b, in[WEIGHT], shape), scale);
}

/* 1 where a label counts, 0 where it is ignored. */
static ipu_value counted(ipu_builder *b, const ipu_attribute *ignore, ipu_value scores, ipu_value labels)
{
    ipu_value both[2];
    ipu_emit(b, "nll", ignore, 1, IPU__IN(scores, labels), both, 2);
    return both[1];
}

static void entropy_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int           classes   = 1;
    double        smoothing = ipu__op_float(call, "label_smoothing");
    ipu_attribute ignore    = IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(call, "ignore_index"));
    ipu_value     log_probs = ipu_log_softmax(b, in[LOGITS], 1);
    ipu_emit(b, "nll", &ignore, 1, IPU__IN(log_probs, in[LABELS], in[WEIGHT]), out, 2);
    if (smoothing == 0) return;
    ipu_value all = ipu_mul(b, log_probs, smoothing_weights(b, call, in));
    all = ipu_mul(b, ipu_reduce_sum(b, all, &classes, 1, false), counted(b, &ignore, log_probs, in[LABELS]));
    out[0] = ipu_sub(b, ipu_mul(b, out[0], ipu_scalar_like(b, out[0], 1 - smoothing)), all);
}

static void entropy_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    int           classes      = 1;
    double        smoothing    = ipu__op_float(call, "label_smoothing");
    ipu_value     d_loss       = in[D_LOSS];
    ipu_shape     kept         = call->operand[LOGITS].shape;
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(call, "ignore_index")),
                                  IPU_INT_ATTRIBUTE("classes", kept.dim[1])};
    kept.dim[1]                = 1;
    if (smoothing != 0) d_loss = ipu_mul(b, d_loss, ipu_scalar_like(b, d_loss, 1 - smoothing));
    ipu_value d = ipu__emit1(b, "nll_grad", attributes, 2, IPU__IN(d_loss, in[LABELS], in[WEIGHT]));
    if (smoothing != 0) {
        ipu_value count = ipu_mul(b, in[D_LOSS], counted(b, attributes, in[LOGITS], in[LABELS]));
        d = ipu_sub(b, d, ipu_mul(b, ipu_reshape(b, count, kept), smoothing_weights(b, call, in)));
    }
    ipu_value sum = ipu_reduce_sum(b, d, &classes, 1, true);
    out[0]        = ipu_sub(b, d, ipu_mul(b, ipu_softmax(b, in[LOGITS], 1), sum));
}

/* ---- the records ---- */

static double entropy_work(const ipu__kernel_call *call)
{
    return 20 * (double)ipu__op_n_elements(&call->operand[LOGITS].shape); /* an exponential is about 15 */
}

static ipu_status entropy_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__labelled l       = ipu__labelled_of(call, &call->operand[LOGITS].shape, LABELS);
    bool          is_half = l.type == IPU_HALF;
    ipu__op_loop  loop    = {4 * 29, is_half ? 4 : 2, (is_half ? 4 : 6) + 12};
    IPU_TRY(ipu__reduce_plan_rows(&loop, l.n * l.inner, l.classes, 2, target, out));
    out->bytes_received += 4;
    out->basis = "our estimate: PopLibs' figures for exp and binary operations, one pass after another";
    return IPU_OK;
}

static const ipu__kernel_operand operands[]      = {IPU__INPUT("logits"), IPU__INPUT("labels"),
                                                    IPU__OPTIONAL("weight"), IPU__OUTPUT("loss"),
                                                    IPU__OUTPUT("label_weight")};
static const ipu__kernel_operand grad_operands[] = {IPU__INPUT("logits"), IPU__INPUT("labels"),
                                                    IPU__OPTIONAL("weight"), IPU__INPUT("d_loss"),
                                                    IPU__OUTPUT_OVER("d_logits", LOGITS)};

#define ROWS(run_)                                                                                          \
    {                                                                                                       \
        .head = {"rows", entropy_fits}, .scratch_bytes = entropy_scratch_bytes, .prepare = entropy_prepare, \
        .release = entropy_release, .run = run_                                                             \
    }
static const ipu__cpu_impl implementations[]      = {ROWS(entropy_run)};
static const ipu__cpu_impl grad_implementations[] = {ROWS(entropy_grad_run)};

static const ipu_op_attribute attributes[] = {
    IPU__IGNORE_ATTRIBUTE,
    {.name    = "label_smoothing",
     .kind    = IPU_ATTRIBUTE_FLOAT,
     .meaning = "share that goes to all classes alike"},
};

static const char *const samples[] = {
    "float[3,10], int32[3]",
    "float[2,10,3], int64[2,3], float[10]{0.1,2}; ignore_index=3 label_smoothing=0.1",
    "float[4,10], int32[4]; label_smoothing=0.3",
    "float[0,10], int32[0]",
    "float[60,1100], int32[60]",
    "float[4,20,150], int32[4,150]",
    NULL};
static const char *const grad_samples[] = {
    "float[3,10], int32[3], none, float[3]",
    "float[2,10,3], int64[2,3], float[10]{0.1,2}, float[2,3]; ignore_index=3 label_smoothing=0.1",
    "float[4,10], int32[4], none, float[4]; label_smoothing=0.3",
    "float[0,10], int32[0], none, float[0]",
    "float[60,1100], int32[60], none, float[60]",
    "float[4,20,150], int32[4,150], none, float[4,150]",
    NULL};

#define COMMON .family = "loss", .attributes = attributes, .n_attributes = IPU__COUNT(attributes)
const ipu__op_def ipu__op_softmax_nll = {
    .kernel = {.name            = "softmax_nll",
               .operands        = operands,
               .n_operands      = 5,
               .check           = ipu__op_check,
               .rows            = ipu__op_rows,
               .ref             = entropy_ref,
               .work            = entropy_work,
               .plan            = entropy_plan,
               .implementations = IPU__ON_CPU(implementations)},
    .n_in   = 3,
    COMMON,
    .summary = "nll of log_softmax in dimension 1, and weight[label]",
    .flags   = IPU__OP_SHORT_IN_HALF,
    .infer   = entropy_infer,
    .grad    = entropy_gradient,
    .compose = entropy_compose,
    .batch   = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED}, {IPU__AXIS_0, IPU__AXIS_0}),
    .samples = samples,
};
const ipu__op_def ipu__op_softmax_nll_grad = {
    .kernel = {.name            = "softmax_nll_grad",
               .operands        = grad_operands,
               .n_operands      = 5,
               .check           = ipu__op_check,
               .rows            = ipu__op_rows,
               .ref             = entropy_grad_ref,
               .work            = entropy_work,
               .plan            = entropy_plan,
               .implementations = IPU__ON_CPU(grad_implementations)},
    .n_in   = 4,
    COMMON,
    .summary = "the gradient of softmax_nll",
    .infer   = entropy_grad_infer,
    .compose = entropy_grad_compose,
    .batch   = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED, IPU__AXIS_0}, {IPU__AXIS_0}),
    .samples = grad_samples,
};
