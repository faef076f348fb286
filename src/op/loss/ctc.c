/* ctc: minus the log probability of all ways in which outputs over time can spell a target; its gradient.
 *
 * States of a target are blank, label 1, blank, label 2 .. blank. alpha[t][s]: log probability of all ways to
 * be in state s at step t; beta[t][s]: of completing the target from there. All in double.
 */
#include "op/loss/ctc.h"

#include <math.h>

#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/loss.h"
#include "op/index/gather.h"
#include "op/loss/loss.h"
#include "op/number.h"

enum {
    LOG_PROBS      = IPU__CTC_LOG_PROBS,
    TARGETS        = IPU__CTC_TARGETS,
    INPUT_LENGTHS  = IPU__CTC_INPUT_LENGTHS,
    TARGET_LENGTHS = IPU__CTC_TARGET_LENGTHS,
    LOSS           = IPU__CTC_N_IN, /* of ctc */
    D_LOSS         = IPU__CTC_N_IN, /* of ctc_grad */
    D_LOG_PROBS
};

/* ---- one sequence ---- */

typedef struct sequence {
    const ipu__kernel_call *call;
    void *const            *operand;
    int64_t                 steps, n, classes, most_labels; /* of all */
    int64_t                 i, n_steps, n_states, blank;    /* of this one */
    double                 *alpha, *beta, *next, *row;
} sequence;

static sequence sequence_of(const ipu__kernel_call *call, void *const *operand)
{
    const int64_t *x = call->operand[LOG_PROBS].shape.dim;
    return (sequence){.call        = call,
                      .operand     = operand,
                      .steps       = x[0],
                      .n           = x[1],
                      .classes     = x[2],
                      .most_labels = call->operand[TARGETS].shape.dim[1],
                      .blank       = ipu__op_int(call, "blank")};
}

/* Doubles of scratch: all of alpha for the gradient, else two rows. */
static double doubles(const ipu__kernel_call *call, bool is_grad)
{
    sequence q      = sequence_of(call, NULL);
    double   states = 2 * (double)q.most_labels + 1;
    return is_grad ? ((double)q.steps + 2) * states + (double)q.classes : 2 * states;
}

static int64_t load_index(const sequence *q, int operand, int64_t i)
{
    return ipu__index_load(q->call->operand[operand].type, q->operand[operand], i);
}

static int64_t label(const sequence *q, int64_t state)
{
    return state % 2 ? load_index(q, TARGETS, q->i * q->most_labels + state / 2) : q->blank;
}

static double log_prob(const sequence *q, int64_t t, int64_t k)
{
    return ipu__number_load(q->call->operand[LOG_PROBS].type, q->operand[LOG_PROBS],
                            (t * q->n + q->i) * q->classes + k);
}

/* Whether a blank between two labels may be left out: if they differ. */
static bool may_skip_to(const sequence *q, int64_t s)
{
    return s >= 2 && s % 2 && label(q, s) != label(q, s - 2);
}

static double log_add(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;
    return least == -HUGE_VAL ? most : most + log1p(exp(least - most));
}

static ipu_status fail_length(const char *what, int64_t i, int64_t found, int64_t most)
{
    return ipu__fail(IPU_ABORTED, "ctc: %s %lld is %lld: expected 0 to %lld", what, (long long)i,
                     (long long)found, (long long)most);
}

/* Sequence `i`, or why not. */
static ipu_status begin(sequence *q, int64_t i)
{
    q->i             = i;
    q->n_steps       = load_index(q, INPUT_LENGTHS, i);
    int64_t n_labels = load_index(q, TARGET_LENGTHS, i);
    if (q->n_steps < 0 || q->n_steps > q->steps) return fail_length("input length", i, q->n_steps, q->steps);
    if (n_labels < 0 || n_labels > q->most_labels)
        return fail_length("target length", i, n_labels, q->most_labels);
    q->n_states = 2 * n_labels + 1;
    for (int64_t s = 1; s < q->n_states; s += 2)
        if (label(q, s) < 0 || label(q, s) >= q->classes)
            return ipu__fail(IPU_ABORTED, "ctc: label %lld of target %lld is %lld: expected 0 to %lld",
                             (long long)(s / 2), (long long)i, (long long)label(q, s),
                             (long long)q->classes - 1);
    return IPU_OK;
}

static void first_alpha(const sequence *q, double *to)
{
    for (int64_t s = 0; s < q->n_states; s++) to[s] = s < 2 ? log_prob(q, 0, label(q, s)) : -HUGE_VAL;
}

static void next_alpha(const sequence *q, int64_t t, const double *from, double *to)
{
    for (int64_t s = 0; s < q->n_states; s++) {
        double sum = from[s];
        if (s >= 1) sum = log_add(sum, from[s - 1]);
        if (may_skip_to(q, s)) sum = log_add(sum, from[s - 2]);
        to[s] = sum + log_prob(q, t, label(q, s));
    }
}

/* The loss from the last row of alpha. */
static double loss_of(const sequence *q, const double *alpha)
{
    if (q->n_steps == 0) return q->n_states == 1 ? 0 : HUGE_VAL;
    double end = alpha[q->n_states - 1];
    return -(q->n_states > 1 ? log_add(end, alpha[q->n_states - 2]) : end);
}

/* q->next becomes beta of step t, from q->beta of step t + 1. */
static void previous_beta(sequence *q, int64_t t)
{
    for (int64_t s = 0; s < q->n_states; s++) {
        double sum = q->beta[s] + log_prob(q, t + 1, label(q, s));
        if (s + 1 < q->n_states) sum = log_add(sum, q->beta[s + 1] + log_prob(q, t + 1, label(q, s + 1)));
        if (s + 2 < q->n_states && may_skip_to(q, s + 2))
            sum = log_add(sum, q->beta[s + 2] + log_prob(q, t + 1, label(q, s + 2)));
        q->next[s] = sum;
    }
    double *swap = q->beta;
    q->beta      = q->next;
    q->next      = swap;
}

static void store_row(const sequence *q, int64_t t, const double *row)
{
    for (int64_t k = 0; k < q->classes; k++)
        ipu__number_store(q->call->operand[D_LOG_PROBS].type, q->operand[D_LOG_PROBS],
                          (t * q->n + q->i) * q->classes + k, row ? row[k] : 0);
}

static ipu_status do_loss(sequence *q, double *memory)
{
    double    *rows[2] = {memory, memory + 2 * q->most_labels + 1}, loss = NAN;
    ipu_status status = begin(q, q->i);
    if (status == IPU_OK) {
        if (q->n_steps > 0) first_alpha(q, rows[0]);
        for (int64_t t = 1; t < q->n_steps; t++) next_alpha(q, t, rows[(t - 1) % 2], rows[t % 2]);
        loss = loss_of(q, rows[(q->n_steps + 1) % 2]);
    }
    ipu__number_store(q->call->operand[LOSS].type, q->operand[LOSS], q->i, loss);
    return status;
}

/* d loss / d log_probs[t][k] is minus the probability of passing a state of label k at step t. */
static ipu_status do_grad(sequence *q, double *memory)
{
    int64_t states = 2 * q->most_labels + 1;
    double  by = ipu__number_load(q->call->operand[D_LOSS].type, q->operand[D_LOSS], q->i), loss = HUGE_VAL;
    q->alpha          = memory;
    q->beta           = memory + q->steps * states;
    q->next           = q->beta + states;
    q->row            = q->next + states;
    ipu_status status = begin(q, q->i);
    if (status == IPU_OK && q->n_steps > 0) {
        first_alpha(q, q->alpha);
        for (int64_t t = 1; t < q->n_steps; t++)
            next_alpha(q, t, q->alpha + (t - 1) * states, q->alpha + t * states);
        loss = loss_of(q, q->alpha + (q->n_steps - 1) * states);
    }
    int64_t n_steps = isfinite(loss) ? q->n_steps : 0;
    for (int64_t t = q->steps - 1; t >= n_steps; t--) store_row(q, t, NULL);
    for (int64_t t = n_steps - 1; t >= 0; t--) {
        if (t + 1 == n_steps)
            for (int64_t s = 0; s < q->n_states; s++) q->beta[s] = s >= q->n_states - 2 ? 0 : -HUGE_VAL;
        else
            previous_beta(q, t);
        for (int64_t k = 0; k < q->classes; k++) q->row[k] = 0;
        for (int64_t s = 0; s < q->n_states; s++)
            q->row[label(q, s)] -= by * exp(q->alpha[t * states + s] + q->beta[s] + loss);
        store_row(q, t, q->row);
    }
    return status;
}

/* ---- kernels ---- */

static bool is_grad(const ipu__kernel_call *call) { return call->def == &ipu__op_ctc_grad.kernel; }

/* The first failure, after all have been done. */
static ipu_status do_sequences(const ipu__kernel_call *call, void *const *operand, double *memory,
                               ipu_interval mine)
{
    sequence   q      = sequence_of(call, operand);
    ipu_status result = IPU_OK;
    for (q.i = mine.begin; q.i < mine.end && result == IPU_OK; q.i++)
        result = (is_grad(call) ? do_grad : do_loss)(&q, memory);
    return result;
}

/* NaN where there is no memory for it; implementations have theirs. */
static void ctc_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__kernel_value *out    = &call->operand[call->n_operands - 1];
    double                   n      = doubles(call, is_grad(call));
    double                  *memory = n < 0x1p44 ? ipu__alloc((size_t)n * sizeof *memory) : NULL;
    for (int64_t i = 0; i < ipu__op_n_elements(&out->shape); i++)
        ipu__number_store(out->type, operand[call->n_operands - 1], i, (double)NAN);
    if (memory)
        (void)do_sequences(call, operand, memory, (ipu_interval){0, call->operand[LOG_PROBS].shape.dim[1]});
    ipu__free(memory);
}

static size_t ctc_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    double n = doubles(call, is_grad(call));
    return n < 0x1p44 ? (size_t)n * sizeof(double) : SIZE_MAX;
}

static ipu_status ctc_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)state;
    int64_t grain = is_grad(call) ? 1 : ipu__op_line(call->operand[LOSS].type);
    return do_sequences(call, operand, scratch,
                        ipu__op_part(call->operand[LOG_PROBS].shape.dim[1], grain, part, n_parts));
}

static ipu_status ctc_examine(const ipu__kernel_call *call, void *const *operand)
{
    sequence q = sequence_of(call, operand);
    for (int64_t i = 0; i < q.n; i++) IPU_TRY(begin(&q, i));
    return IPU_OK;
}

static ipu_status check_index(const ipu__kernel_call *call, int operand)
{
    return call->operand[operand].type == IPU_INT64 ? IPU_OK : ipu__op_want_type(call, operand, IPU_INT32);
}

static ipu_status check_inputs(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[LOG_PROBS].shape, *targets = &call->operand[TARGETS].shape;
    int64_t          blank = ipu__op_int(call, "blank");
    IPU_TRY(ipu__op_want_floating(call, LOG_PROBS));
    IPU_TRY(ipu__op_want_rank(call, LOG_PROBS, 3, 3));
    IPU_TRY(ipu__op_want_rank(call, TARGETS, 2, 2));
    IPU_TRY(ipu__op_want_shape(call, TARGETS, &IPU_SHAPE(x->dim[1], targets->dim[1])));
    for (int i = TARGETS; i <= TARGET_LENGTHS; i++) IPU_TRY(check_index(call, i));
    IPU_TRY(ipu__op_want_shape(call, INPUT_LENGTHS, &IPU_SHAPE(x->dim[1])));
    IPU_TRY(ipu__op_want_shape(call, TARGET_LENGTHS, &IPU_SHAPE(x->dim[1])));
    if (blank >= 0 && blank < x->dim[2]) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: blank = %lld: expected a class, 0 to %lld", call->def->name,
                     (long long)blank, (long long)x->dim[2] - 1);
}

static ipu_status ctc_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_inputs(call));
    *out = (ipu__kernel_value){call->operand[LOG_PROBS].type,
                               IPU_SHAPE(call->operand[LOG_PROBS].shape.dim[1])};
    return IPU_OK;
}

static ipu_status ctc_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_inputs(call));
    IPU_TRY(ipu__op_want_same_type(call, LOG_PROBS, D_LOSS));
    IPU_TRY(ipu__op_want_shape(call, D_LOSS, &IPU_SHAPE(call->operand[LOG_PROBS].shape.dim[1])));
    *out = call->operand[LOG_PROBS];
    return IPU_OK;
}

static void ctc_gradient(ipu__gradient *g)
{
    if (!g->wanted[LOG_PROBS]) return;
    g->d_in[LOG_PROBS] = ipu__emit1(
        g->b, "ctc_grad", IPU__WITH(IPU_INT_ATTRIBUTE("blank", ipu__op_int(g->call, "blank"))),
        IPU__IN(g->in[LOG_PROBS], g->in[TARGETS], g->in[INPUT_LENGTHS], g->in[TARGET_LENGTHS], g->d_out[0]));
}

static double ctc_work(const ipu__kernel_call *call)
{
    sequence q    = sequence_of(call, NULL);
    double   each = (double)q.steps * (2 * (double)q.most_labels + 1) * 40;
    return (double)q.n * (is_grad(call) ? 2 * each + (double)q.steps * (double)q.classes : each);
}

static ipu_status ctc_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    sequence     q    = sequence_of(call, NULL);
    ipu__op_loop loop = {40, 1, q.n > 0 ? 2 * ctc_work(call) / (double)q.n + (double)q.classes : 0};
    IPU_TRY(ipu__op_plan_loop(&loop, q.n, 1, target, out));
    if (q.n > 0) out->tile_bytes = ipu__op_count(4 * doubles(call, is_grad(call)));
    out->basis = "our estimate: a sequence on a worker, 80 cycles for two additions of logarithms";
    return IPU_OK;
}

/* ---- the loss ---- */

static ipu_status ctc_loss_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    IPU_TRY(ctc_infer(call, out));
    if (reduction != IPU_LOSS_NONE) out->shape = IPU_SCALAR;
    return IPU_OK;
}

/* The mean is of losses per label. */
static void ctc_loss_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_loss_reduction reduction = IPU_LOSS_MEAN;
    ipu_value loss = ipu__emit1(b, "ctc", IPU__WITH(IPU_INT_ATTRIBUTE("blank", ipu__op_int(call, "blank"))),
                                in, IPU__CTC_N_IN);
    ipu__loss_reduction_get(call, &reduction);
    if (ipu__op_int(call, "zero_infinity"))
        loss = ipu_where(b, ipu_isinf(b, loss), ipu_scalar_like(b, loss, 0), loss);
    if (reduction == IPU_LOSS_MEAN) {
        ipu_value n = in[TARGET_LENGTHS];
        n           = ipu_cast(b, ipu_maximum(b, n, ipu_scalar_like(b, n, 1)), ipu_value_type(loss));
        loss        = ipu_div(b, loss, n);
    }
    out[0] = ipu__loss_reduce(b, call, loss, IPU_NO_VALUE);
}

/* ---- records ---- */

#define INPUTS \
    IPU__INPUT("log_probs"), IPU__INPUT("targets"), IPU__INPUT("input_lengths"), IPU__INPUT("target_lengths")
static const ipu__kernel_operand operands[]      = {INPUTS, IPU__OUTPUT("loss")};
static const ipu__kernel_operand grad_operands[] = {INPUTS, IPU__INPUT("d_loss"), IPU__OUTPUT("d_log_probs")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"sequences", ipu__op_fits_always}, .scratch_bytes = ctc_scratch, .run = ctc_run}};

#define BLANK_ATTRIBUTE                                                                     \
    {                                                                                       \
        .name = "blank", .kind = IPU_ATTRIBUTE_INT, .meaning = "class that stands for none" \
    }
static const ipu_op_attribute attributes[]      = {BLANK_ATTRIBUTE};
static const ipu_op_attribute loss_attributes[] = {
    BLANK_ATTRIBUTE,
    IPU__REDUCTION_ATTRIBUTE,
    {.name    = "zero_infinity",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: 0 where no output can spell a target"},
};

/* clang-format off */
static const char *const samples[] = {
    "float[6,2,4]{-3,0}, int32[2,2]{1,3}, int32[2]{5,6}, int64[2]{0,2}",
    "float[7,2,3]{-3,0}, int64[2,3]{0,1}, int64[2]{7,7}, int32[2]{1,3}; blank=2",
    "float[3,1,4]{-3,0}, int32[1,0], int32[1]{3,3}, int32[1]{0,0}",
    "float[2,0,4], int32[0,2], int32[0], int32[0]",
    "float[40,40,9]{-4,0}, int32[40,8]{1,8}, int32[40]{30,40}, int32[40]{1,8}",
    NULL};
static const char *const grad_samples[] = {
    "float[6,2,4]{-3,0}, int32[2,2]{1,3}, int32[2]{5,6}, int64[2]{0,2}, float[2]",
    "float[7,2,3]{-3,0}, int64[2,3]{0,1}, int64[2]{7,7}, int32[2]{1,3}, float[2]; blank=2",
    "float[2,0,4], int32[0,2], int32[0], int32[0], float[0]",
    "float[40,40,9]{-4,0}, int32[40,8]{1,8}, int32[40]{30,40}, int32[40]{1,8}, float[40]",
    NULL};
static const char *const loss_samples[] = {
    "float[6,2,4]{-3,0}, int32[2,2]{1,3}, int32[2]{5,6}, int32[2]{0,2}",
    "float[6,2,4]{-3,0}, int32[2,2]{1,3}, int32[2]{5,6}, int32[2]{1,2}; reduction=sum zero_infinity=1",
    "float[6,2,4]{-3,0}, int32[2,2]{0,2}, int32[2]{5,6}, int64[2]{1,2}; reduction=none blank=3",
    NULL};
/* clang-format on */

#define KERNEL(op, operand_list, n)                                                                       \
    {                                                                                                     \
        .name = #op, .operands = operand_list, .n_operands = (n), .check = ipu__op_check,                 \
        .rows = ipu__op_rows, .examine = ctc_examine, .ref = ctc_ref, .work = ctc_work, .plan = ctc_plan, \
        .implementations = IPU__ON_CPU(implementations)                                                   \
    }

const ipu__op_def ipu__op_ctc = {
    .kernel       = KERNEL(ctc, operands, IPU__CTC_N_IN + 1),
    .n_in         = IPU__CTC_N_IN,
    .family       = "loss",
    .summary      = "minus the log probability that outputs over time spell a target",
    .flags        = IPU__OP_GRAD_ONCE | IPU__OP_SHORT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = 1,
    .infer        = ctc_infer,
    .grad         = ctc_gradient,
    .compose      = ipu__ctc_compose,
    .batch        = IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}),
    .samples      = samples,
};
const ipu__op_def ipu__op_ctc_grad = {
    .kernel       = KERNEL(ctc_grad, grad_operands, IPU__CTC_N_IN + 2),
    .n_in         = IPU__CTC_N_IN + 1,
    .family       = "loss",
    .summary      = "the gradient of ctc",
    .attributes   = attributes,
    .n_attributes = 1,
    .infer        = ctc_grad_infer,
    .batch   = IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_1}),
    .samples = grad_samples,
};
const ipu__op_def ipu__op_ctc_loss = {
    .kernel       = {.name       = "ctc_loss",
                     .operands   = operands,
                     .n_operands = IPU__CTC_N_IN + 1,
                     .check      = ipu__op_check},
    .n_in         = IPU__CTC_N_IN,
    .family       = "loss",
    .summary      = "connectionist temporal classification: ctc, reduced",
    .attributes   = loss_attributes,
    .n_attributes = IPU__COUNT(loss_attributes),
    .infer        = ctc_loss_infer,
    .compose      = ctc_loss_compose,
    .samples      = loss_samples,
};

ipu_value ipu_ctc_loss(ipu_builder *b, ipu_value log_probs, ipu_value targets, ipu_value input_lengths,
                       ipu_value target_lengths, ipu_ctc_options options)
{
    return ipu__emit1(b, "ctc_loss",
                      IPU__WITH(IPU_INT_ATTRIBUTE("blank", options.blank),
                                IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(options.reduction)),
                                IPU_INT_ATTRIBUTE("zero_infinity", options.zero_infinity)),
                      IPU__IN(log_probs, targets, input_lengths, target_lengths));
}
