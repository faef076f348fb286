/* nll: minus the log probability of each label, and its weight; nll_grad: its gradient.
 *
 * Both are linear in their first input and each is the gradient of the other.
 */
#include <string.h>

#include "graph/graph.h"
#include "op/loss/loss.h"
#include "op/number.h"
#include "op/reduce/reduce.h"

enum { SCORES, LABELS, WEIGHT, LOSS, LABEL_WEIGHT }; /* nll */
enum { D_LOSS, D_SCORES = 3 };                       /* nll_grad: labels and weight as above */

static double weight_of(const ipu__kernel_call *call, void *const *operand, int64_t label)
{
    return ipu__kernel_has(call, WEIGHT)
             ? ipu__number_load(call->operand[WEIGHT].type, operand[WEIGHT], label)
             : 1;
}

/* ---- nll ---- */

/* Labels begin <= i < end; false at the first that is no label, which is then *bad. */
static bool do_nll(const ipu__kernel_call *call, void *const *operand, ipu_interval range, int64_t *bad)
{
    ipu__labelled l     = ipu__labelled_of(call, &call->operand[SCORES].shape, LABELS);
    bool          is_ok = true;
    for (int64_t i = range.begin; i < range.end; i++) {
        int64_t label = ipu__label(&l, operand[LABELS], i), n = i / l.inner, k = i % l.inner;
        double  w = 0, loss = 0;
        if (label >= 0) {
            w    = weight_of(call, operand, label);
            loss = -w * ipu__number_load(l.type, operand[SCORES], (n * l.classes + label) * l.inner + k);
        } else if (label == -2 && is_ok) {
            is_ok = false;
            *bad  = i;
        }
        ipu__number_store(l.type, operand[LOSS], i, loss);
        ipu__number_store(l.type, operand[LABEL_WEIGHT], i, w);
    }
    return is_ok;
}

/* Labels that are none count for nothing here; implementations stop the run. */
static void nll_ref(const ipu__kernel_call *call, void *const *operand)
{
    int64_t bad;
    do_nll(call, operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[LABELS].shape)}, &bad);
}

static ipu_status nll_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)state, (void)scratch;
    int64_t      bad = 0, n = ipu__op_n_elements(&call->operand[LABELS].shape);
    ipu_interval mine = ipu__op_part(n, ipu__op_line(call->operand[LOSS].type), part, n_parts);
    if (do_nll(call, operand, mine, &bad)) return IPU_OK;
    ipu__labelled l = ipu__labelled_of(call, &call->operand[SCORES].shape, LABELS);
    return ipu__label_fail(&l, operand[LABELS], bad);
}

static ipu_status nll_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, SCORES));
    IPU_TRY(ipu__op_want_rank(call, SCORES, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__labelled_check(call, &call->operand[SCORES], LABELS, WEIGHT));
    out[0] = out[1] = (ipu__kernel_value){call->operand[SCORES].type, call->operand[LABELS].shape};
    return IPU_OK;
}

static void nll_gradient(ipu__gradient *g)
{
    if (!g->wanted[SCORES] || !ipu__has(g->d_out[0])) return;
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(g->call, "ignore_index")),
                                  IPU_INT_ATTRIBUTE("classes", g->call->operand[SCORES].shape.dim[1])};
    g->d_in[SCORES]            = ipu__emit1(g->b, "nll_grad", attributes, 2,
                                            IPU__IN(g->d_out[0], g->in[LABELS], g->in[WEIGHT]));
}

/* ---- nll_grad ---- */

/* Planes [n, class] begin <= i < end, zero but where a label says so. */
static void do_nll_grad(const ipu__kernel_call *call, void *const *operand, ipu_interval planes)
{
    ipu__labelled l    = ipu__labelled_of(call, &call->operand[D_SCORES].shape, LABELS);
    size_t        size = ipu_type_size(l.type);
    if (planes.begin >= planes.end || l.inner == 0) return;
    memset((char *)operand[D_SCORES] + (size_t)(planes.begin * l.inner) * size, 0,
           (size_t)((planes.end - planes.begin) * l.inner) * size);
    for (int64_t n = planes.begin / l.classes; n <= (planes.end - 1) / l.classes; n++)
        for (int64_t k = 0; k < l.inner; k++) {
            int64_t label = ipu__label(&l, operand[LABELS], n * l.inner + k), plane = n * l.classes + label;
            if (label < 0 || plane < planes.begin || plane >= planes.end) continue;
            double d = ipu__number_load(l.type, operand[D_LOSS], n * l.inner + k);
            ipu__number_store(l.type, operand[D_SCORES], plane * l.inner + k,
                              -weight_of(call, operand, label) * d);
        }
}

static void nll_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu_shape *shape = &call->operand[D_SCORES].shape;
    do_nll_grad(call, operand, (ipu_interval){0, shape->dim[0] * shape->dim[1]});
}

static ipu_status nll_grad_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                               int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu_shape *shape = &call->operand[D_SCORES].shape;
    do_nll_grad(call, operand, ipu__op_part(shape->dim[0] * shape->dim[1], 16, part, n_parts));
    return IPU_OK;
}

static ipu_status nll_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t classes = ipu__op_int(call, "classes");
    IPU_TRY(ipu__op_want_floating(call, D_LOSS));
    IPU_TRY(ipu__op_want_rank(call, D_LOSS, 1, IPU_MAX_RANK - 1));
    if (classes < 0)
        return ipu__fail(IPU_INVALID, "nll_grad: classes = %lld: expected 0 or more", (long long)classes);
    const ipu_shape *loss = &call->operand[D_LOSS].shape;
    *out                  = (ipu__kernel_value){call->operand[D_LOSS].type, {.rank = loss->rank + 1}};
    for (int d = 0; d <= loss->rank; d++)
        out->shape.dim[d] = d == 1 ? classes : loss->dim[d == 0 ? 0 : d - 1];
    return ipu__labelled_check(call, out, LABELS, WEIGHT);
}

static void nll_grad_gradient(ipu__gradient *g)
{
    if (!g->wanted[D_LOSS]) return;
    ipu_attribute ignore = IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(g->call, "ignore_index"));
    ipu_emit(g->b, "nll", &ignore, 1, IPU__IN(g->d_out[0], g->in[LABELS], g->in[WEIGHT]), &g->d_in[D_LOSS],
             1);
}

/* ---- the records ---- */

static double nll_work(const ipu__kernel_call *call)
{
    return 10 * (double)ipu__op_n_elements(&call->operand[LABELS].shape);
}

static double nll_grad_work(const ipu__kernel_call *call)
{
    return nll_work(call) + (double)ipu__op_n_elements(&call->operand[D_SCORES].shape);
}

/* Each label picks one of its scores, which lie where the labels are sent. */
static ipu_status nll_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t n = ipu__op_n_elements(&call->operand[LABELS].shape);
    if (call->def == &ipu__op_nll_grad.kernel) n = ipu__op_n_elements(&call->operand[D_SCORES].shape);
    int64_t      labels = ipu__op_n_elements(&call->operand[LABELS].shape);
    ipu__op_loop loop   = {30, 1, call->def == &ipu__op_nll_grad.kernel ? 2 : 19};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 1, target, out));
    int64_t each        = ipu__op_ceil_div(labels, ipu_target_n_tiles(target));
    out->bytes_received = out->bytes_sent = 2 * each * (int64_t)ipu_type_size(call->operand[LABELS].type);
    out->basis = "our estimate: 19 cycles to find a score, as in PopLibs' multiSlice; 2 to clear an element";
    return IPU_OK;
}

static const ipu__kernel_operand nll_operands[]        = {IPU__INPUT("log_probs"), IPU__INPUT("labels"),
                                                          IPU__OPTIONAL("weight"), IPU__OUTPUT("loss"),
                                                          IPU__OUTPUT("label_weight")};
static const ipu__kernel_operand nll_grad_operands[]   = {IPU__INPUT("d_loss"), IPU__INPUT("labels"),
                                                          IPU__OPTIONAL("weight"), IPU__OUTPUT("d_log_probs")};
static const ipu__cpu_impl       nll_implementations[] = {
          {.head = {"plain", ipu__op_fits_always}, .run = nll_run},
};
static const ipu__cpu_impl nll_grad_implementations[] = {
    {.head = {"plain", ipu__op_fits_always}, .run = nll_grad_run},
};

static const ipu_op_attribute nll_attributes[]      = {IPU__IGNORE_ATTRIBUTE};
static const ipu_op_attribute nll_grad_attributes[] = {
    IPU__IGNORE_ATTRIBUTE,
    {.name     = "classes",
     .kind     = IPU_ATTRIBUTE_INT,
     .required = true,
     .meaning  = "extent of the class dimension"},
};

static const char *const nll_samples[] = {
    "float[3,10], int32[3]",
    "float[2,10,3], int64[2,3], float[10]{0.1,2}; ignore_index=3",
    "float[0,10], int32[0]",
    "float[64,10,200], int32[64,200]",
    NULL,
};
static const char *const nll_grad_samples[] = {
    "float[3], int32[3]; classes=10", "float[2,3], int64[2,3], float[10]{0.1,2}; classes=10 ignore_index=3",
    "float[0], int32[0]; classes=10", "float[3000], int32[3000]; classes=40", NULL};

const ipu__op_def ipu__op_nll = {
    .kernel       = {.name            = "nll",
                     .operands        = nll_operands,
                     .n_operands      = 5,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = nll_ref,
                     .work            = nll_work,
                     .plan            = nll_plan,
                     .implementations = IPU__ON_CPU(nll_implementations)},
    .n_in         = 3,
    .family       = "loss",
    .summary      = "minus weight[label] * log_probs[label], and weight[label]",
    .flags        = IPU__OP_SHORT_IN_HALF,
    .attributes   = nll_attributes,
    .n_attributes = IPU__COUNT(nll_attributes),
    .infer        = nll_infer,
    .grad         = nll_gradient,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED}, {IPU__AXIS_0, IPU__AXIS_0}),
    .samples      = nll_samples,
};
const ipu__op_def ipu__op_nll_grad = {
    .kernel       = {.name            = "nll_grad",
                     .operands        = nll_grad_operands,
                     .n_operands      = 4,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = nll_grad_ref,
                     .work            = nll_grad_work,
                     .plan            = nll_plan,
                     .implementations = IPU__ON_CPU(nll_grad_implementations)},
    .n_in         = 3,
    .family       = "loss",
    .summary      = "minus weight[label] * d_loss at each label, 0 elsewhere",
    .attributes   = nll_grad_attributes,
    .n_attributes = IPU__COUNT(nll_grad_attributes),
    .infer        = nll_grad_infer,
    .grad         = nll_grad_gradient,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED}, {IPU__AXIS_0}),
    .samples      = nll_grad_samples,
};
