/* Optimizers: the meaning of each rule, its checks and its price.
 *
 * The meaning is computed in double and rounded once, for the parameter and for each state. Inputs are the
 * parameter, its gradient, the rate and the step's number if a rule needs them, then the states; outputs are
 * the new parameter and the new states.
 */
#include "op/optimizer/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "op/vector/floats.h"
#include "op/number.h"

enum { P, G, MAX_STATES = IPU__OPTIMIZER_MAX_STATES };

/* ---- the meaning: one element; p and s[] are old values and become the new ---- */

/* The gradient with the parameter's decay in it, or the decay is the parameter's own. */
static double decayed(const ipu__optimizer *o, double *p, double g)
{
    if (!o->decoupled) return g + o->weight_decay * *p;
    *p *= 1 - o->rate * o->weight_decay;
    return g;
}

void ipu__sgd_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    g = decayed(o, p, g);
    if (o->has[0]) {
        s[0] = o->first ? g : o->momentum * s[0] + (1 - o->dampening) * g;
        g    = o->nesterov ? g + o->momentum * s[0] : s[0];
    }
    *p -= o->rate * g;
}

static void adam_moments(const ipu__optimizer *o, double *p, double g, double *s)
{
    s[0] = o->beta1 * s[0] + (1 - o->beta1) * g;
    s[1] = o->beta2 * s[1] + (1 - o->beta2) * g * g;
    if (o->has[2]) s[2] = fmax(s[2], s[1]);
    double root = sqrt(o->has[2] ? s[2] : s[1]) / sqrt(o->bias2) + o->epsilon;
    *p -= o->rate / o->bias1 * s[0] / root;
}

static void adam_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    adam_moments(o, p, g + o->weight_decay * *p, s);
}

static void adamw_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    *p *= 1 - o->rate * o->weight_decay;
    adam_moments(o, p, g, s);
}

static void adamax_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    g    = decayed(o, p, g);
    s[0] = o->beta1 * s[0] + (1 - o->beta1) * g;
    s[1] = fmax(o->beta2 * s[1], fabs(g) + o->epsilon);
    *p -= o->rate / o->bias1 * s[0] / s[1];
}

static void rmsprop_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    g           = decayed(o, p, g);
    s[0]        = o->alpha * s[0] + (1 - o->alpha) * g * g;
    double size = s[0];
    if (o->has[1]) {
        s[1] = o->alpha * s[1] + (1 - o->alpha) * g;
        size -= s[1] * s[1];
    }
    double d = g / (o->tensorflow ? sqrt(size + o->epsilon) : sqrt(size) + o->epsilon);
    if (o->tensorflow) d *= o->rate;
    if (o->has[2]) d = s[2] = o->momentum * s[2] + d;
    *p -= o->tensorflow ? d : o->rate * d;
}

static void adagrad_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    g = decayed(o, p, g);
    s[0] += g * g;
    *p -= o->rate / (1 + (o->step - 1) * o->rate_decay) * g / (sqrt(s[0]) + o->epsilon);
}

static void adadelta_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    g            = decayed(o, p, g);
    s[0]         = o->rho * s[0] + (1 - o->rho) * g * g;
    double delta = sqrt(s[1] + o->epsilon) / sqrt(s[0] + o->epsilon) * g;
    s[1]         = o->rho * s[1] + (1 - o->rho) * delta * delta;
    *p -= o->rate * delta;
}

static void lamb_one(const ipu__optimizer *o, double *p, double g, double *s)
{
    double added = o->weight_decay * *p;
    if (o->l2) g += added;
    s[0] = o->beta1 * s[0] + (1 - o->beta1) * g;
    s[1] = o->beta2 * s[1] + (1 - o->beta2) * g * g;
    *p   = s[0] / o->bias1 / (sqrt(s[1] / o->bias2) + o->epsilon) + (o->l2 ? 0 : added);
}

/* ---- rules ---- */

typedef struct rule {
    const ipu__op_def *op;
    void (*one)(const ipu__optimizer *o, double *p, double g, double *s);
    size_t loop;              /* where it is in ipu__optimizer_loops */
    int    rate, step, state; /* operands: -1: none; the first state */
    int    n_states, n_needed;
    bool   gives_direction; /* in the type of the state, instead of a new parameter */
    double work;            /* operations for an element */
    /* For two floats on a tile: those of PopLibs' elementwise operations, one after the other: 3 for an
     * addition or a product, 10 for a quotient or a root. */
    double cycles;
} rule;

#define LOOP(name) offsetof(ipu__optimizer_loops, name)

/* clang-format off */
static const rule rules[] = {
    /*                           ref          fast                rate step state n needed direction work
     * cycles */
    {&ipu__op_sgd,            ipu__sgd_one, LOOP(sgd),     2,   3,   4,  1, 0,     false,     8,   24},
    {&ipu__op_adam,           adam_one,    LOOP(adam),     2,   3,   4,  3, 2,     false,    16,   69},
    {&ipu__op_adamw,          adamw_one,   LOOP(adamw),    2,   3,   4,  3, 2,     false,    16,   69},
    {&ipu__op_adamax,         adamax_one,  LOOP(adamax),   2,   3,   4,  2, 2,     false,    12,   43},
    {&ipu__op_rmsprop,        rmsprop_one, LOOP(rmsprop),  2,  -1,   3,  3, 1,     false,    16,   65},
    {&ipu__op_adagrad,        adagrad_one, LOOP(adagrad),  2,   3,   4,  1, 1,     false,     9,   41},
    {&ipu__op_adadelta,       adadelta_one, LOOP(adadelta), 2, -1,   3,  2, 2,     false,    17,   65},
    {&ipu__op_lamb_direction, lamb_one,    LOOP(lamb),     -1,   2,   3,  2, 2,     true,     14,   62},
    {&ipu__op_lamb,           NULL,        0,              2,   3,   4,  2, 2,     false,     0,    0},
};
/* clang-format on */

static const rule *rule_of(const ipu__kernel_call *call)
{
    const rule *r = rules;
    while (&r->op->kernel != call->def) r++;
    return r;
}

static ipu_type state_type(ipu_type parameter) { return parameter == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT; }

/* ---- check ---- */

static ipu_status check_scalar(const ipu__kernel_call *call, int i, bool may_be_integer)
{
    const ipu__kernel_value *v    = &call->operand[i];
    const char              *name = call->def->operands[i].name;
    bool                     ok   = v->type == IPU_FLOAT || v->type == IPU_DOUBLE
           || (may_be_integer && (v->type == IPU_INT32 || v->type == IPU_INT64));
    if (ok && ipu__op_n_elements(&v->shape) == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" must be a scalar, %s, found %s%s", call->def->name, name,
                     may_be_integer ? "int32, int64, float or double" : "float or double",
                     ipu_type_name(v->type), ipu__shape_str(&v->shape));
}

static ipu_status check_states(const ipu__kernel_call *call, const rule *r, ipu__kernel_value *out)
{
    ipu_type type = state_type(call->operand[P].type);
    for (int i = 0; i < r->n_states; i++) {
        int at = r->state + i;
        out[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
        if (call->def->operands[at].optional && !ipu__kernel_has(call, at)) continue;
        IPU_TRY(ipu__op_want_type(call, at, type));
        IPU_TRY(ipu__op_want_shape(call, at, &call->operand[P].shape));
        out[i] = call->operand[at];
    }
    return IPU_OK;
}

ipu_status ipu__optimizer_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const rule *r = rule_of(call);
    IPU_TRY(ipu__op_want_floating(call, P));
    if (call->operand[G].type != IPU_FLOAT) IPU_TRY(ipu__op_want_same_type(call, P, G));
    IPU_TRY(ipu__op_want_shape(call, G, &call->operand[P].shape));
    if (r->rate >= 0) IPU_TRY(check_scalar(call, r->rate, false));
    if (r->step >= 0 && (!call->def->operands[r->step].optional || ipu__kernel_has(call, r->step)))
        IPU_TRY(check_scalar(call, r->step, true));
    out[0] = call->operand[P];
    if (r->gives_direction) out[0].type = state_type(out[0].type);
    return check_states(call, r, out + 1);
}

/* A momentum without memory for it would be left out in silence. */
static ipu_status check_momentum(const ipu__kernel_call *call, int at)
{
    if (ipu__op_float(call, "momentum") == 0 || ipu__kernel_has(call, at)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: momentum = %g needs the input \"%s\"", call->def->name,
                     ipu__op_float(call, "momentum"), call->def->operands[at].name);
}

static ipu_status sgd_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_momentum(call, 4));
    if (ipu__op_int(call, "nesterov")
        && (ipu__op_float(call, "momentum") <= 0 || ipu__op_float(call, "dampening") != 0))
        return ipu__fail(IPU_INVALID,
                         "sgd: nesterov needs a momentum over 0 and no dampening, found %g and %g",
                         ipu__op_float(call, "momentum"), ipu__op_float(call, "dampening"));
    return ipu__optimizer_infer(call, out);
}

static ipu_status rmsprop_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(check_momentum(call, 5));
    return ipu__optimizer_infer(call, out);
}

/* ---- running ---- */

static double attribute(const ipu__kernel_call *call, const char *name)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0)
            return op->attributes[i].kind == IPU_ATTRIBUTE_INT ? (double)ipu__op_int(call, name)
                                                               : ipu__op_float(call, name);
    return 0;
}

ipu__optimizer ipu__optimizer_get(const ipu__kernel_call *call)
{
    const rule    *r = rule_of(call);
    ipu__optimizer o = {.momentum     = attribute(call, "momentum"),
                        .dampening    = attribute(call, "dampening"),
                        .weight_decay = attribute(call, "weight_decay"),
                        .beta1        = attribute(call, "beta1"),
                        .beta2        = attribute(call, "beta2"),
                        .epsilon      = attribute(call, "epsilon"),
                        .alpha        = attribute(call, "alpha"),
                        .rho          = attribute(call, "rho"),
                        .rate_decay   = attribute(call, "rate_decay"),
                        .decoupled    = attribute(call, "decoupled") != 0,
                        .l2           = attribute(call, "l2") != 0,
                        .nesterov     = attribute(call, "nesterov") != 0,
                        .uncorrected  = attribute(call, "uncorrected") != 0,
                        .tensorflow   = attribute(call, "tensorflow") != 0};
    for (int i = 0; i < r->n_states; i++) o.has[i] = i < r->n_needed || ipu__kernel_has(call, r->state + i);
    /* Torch keeps no momentum where its factor is 0. */
    if (r->op == &ipu__op_sgd && o.momentum == 0) o.has[0] = false;
    if (r->op == &ipu__op_rmsprop && o.momentum == 0) o.has[2] = false;
    return o;
}

/* And what follows from the scalars of a step. */
static void set_step(const ipu__kernel_call *call, void *const *operand, ipu__optimizer *o)
{
    const rule *r = rule_of(call);
    if (r->rate >= 0) o->rate = ipu__number_load(call->operand[r->rate].type, operand[r->rate], 0);
    if (r->step < 0 || !ipu__kernel_has(call, r->step)) return;
    o->step  = ipu__number_load(call->operand[r->step].type, operand[r->step], 0);
    o->first = o->step == 1;
    o->bias1 = o->uncorrected ? 1 : 1 - pow(o->beta1, o->step);
    o->bias2 = o->uncorrected ? 1 : 1 - pow(o->beta2, o->step);
}

static void optimizer_ref(const ipu__kernel_call *call, void *const *operand)
{
    const rule    *r      = rule_of(call);
    int            out    = r->op->n_in;
    ipu_type       p_type = call->operand[P].type, type = state_type(p_type);
    ipu__optimizer o = ipu__optimizer_get(call);
    set_step(call, operand, &o);
    int64_t n = ipu__op_n_elements(&call->operand[P].shape);
    for (int64_t i = 0; i < n; i++) {
        double p = ipu__number_load(p_type, operand[P], i), s[MAX_STATES] = {0};
        double g = ipu__number_load(call->operand[G].type, operand[G], i);
        for (int j = 0; j < r->n_states; j++)
            if (ipu__kernel_has(call, r->state + j)) s[j] = ipu__number_load(type, operand[r->state + j], i);
        r->one(&o, &p, g, s);
        ipu__number_store(call->operand[out].type, operand[out], i, p);
        for (int j = 0; j < r->n_states; j++)
            if (ipu__kernel_has(call, r->state + j)) ipu__number_store(type, operand[out + 1 + j], i, s[j]);
    }
}

static bool fast_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[P].type != IPU_DOUBLE;
}

static ipu_status fast_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    (void)n_parts;
    ipu__optimizer *o = ipu__alloc(sizeof *o);
    if (!o) return ipu__fail_memory();
    *o     = ipu__optimizer_get(call);
    *state = o;
    return IPU_OK;
}

enum { BLOCK = 1024 };

/* What is given a state but does not use it (a momentum of 0) hands it on. */
static void pass_on(const ipu__kernel_call *call, const rule *r, const ipu__optimizer *o,
                    void *const *operand, ipu_interval range)
{
    for (int i = 0; i < r->n_states; i++) {
        const float *from = operand[r->state + i];
        float       *to   = operand[r->op->n_in + 1 + i];
        if (o->has[i] || !ipu__kernel_has(call, r->state + i) || from == to) continue;
        memcpy(to + range.begin, from + range.begin, (size_t)(range.end - range.begin) * sizeof *to);
    }
}

/* Asks for cache lines that are written next: those that another thread has read, as products do, have to be
 * taken from it, which stores by themselves do nearly one after another. */
static void claim(const float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16)
#if defined(__x86_64__)
        __asm__ volatile("prefetchw %0" : : "m"(to[i]));
#else
        __builtin_prefetch(to + i, 1);
#endif
}

static void claim_block(const ipu__optimizer_block *x, int64_t ahead, int64_t n)
{
    claim(x->new_p + ahead, n);
    for (int i = 0; i < MAX_STATES; i++)
        if (x->new_s[i]) claim(x->new_s[i] + ahead, n);
}

static ipu_status fast_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)scratch;
    const rule       *r      = rule_of(call);
    int               out    = r->op->n_in;
    ipu_type          p_type = call->operand[P].type, g_type = call->operand[G].type;
    ipu_type          out_type = call->operand[out].type;
    ipu__optimizer    o        = *(ipu__optimizer *)state;
    ipu_interval      mine     = ipu__op_part(ipu__op_n_elements(&call->operand[P].shape), 64, part, n_parts);
    ipu__optimizer_fn loop = *(const ipu__optimizer_fn *)((const char *)&IPU__SIMD_PICK(ipu__optimizer_loops)
                                                          + r->loop);
    set_step(call, operand, &o);
    float p[BLOCK], g[BLOCK];
    for (int64_t i = mine.begin; i < mine.end; i += BLOCK) {
        int64_t              n = mine.end - i < BLOCK ? mine.end - i : BLOCK;
        ipu__optimizer_block x = {.n = n,
                                  .p = ipu__floats_get(p_type, operand[P], i, n, p),
                                  .g = ipu__floats_get(g_type, operand[G], i, n, g)};
        x.new_p                = out_type == IPU_FLOAT ? (float *)operand[out] + i : p;
        for (int j = 0; j < r->n_states; j++)
            if (o.has[j]) {
                x.s[j]     = (const float *)operand[r->state + j] + i;
                x.new_s[j] = (float *)operand[out + 1 + j] + i;
            }
        int64_t rest = mine.end - i - n;
        if (out_type == IPU_FLOAT) claim_block(&x, n, rest < BLOCK ? rest : BLOCK);
        loop(&o, &x);
        if (out_type != IPU_FLOAT) ipu__floats_store(out_type, p, operand[out], i, n);
    }
    pass_on(call, r, &o, operand, mine);
    return IPU_OK;
}

static double optimizer_work(const ipu__kernel_call *call)
{
    return rule_of(call)->work * (double)ipu__op_n_elements(&call->operand[P].shape);
}

static ipu_status optimizer_plan(const ipu__kernel_call *call, const ipu_target *target,
                                 ipu__kernel_plan *out)
{
    const rule  *r    = rule_of(call);
    ipu__op_loop loop = {26, 2, r->cycles};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[P].shape), 2, target, out));
    out->basis = "PopLibs' elementwise operations one after the other, in one loop; state in float";
    return IPU_OK;
}

/* ---- records ---- */

static const ipu__cpu_impl implementations[] = {
    {.head = {"blocks", fast_fits}, .prepare = fast_prepare, .release = ipu__free, .run = fast_run},
};

#define FLOAT(n, v, text)                                                             \
    {                                                                                 \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = (v), .meaning = (text) \
    }
#define DECAY FLOAT("weight_decay", 0, "times the parameter, added to the gradient")
#define EITHER_DECAY DECAY, IPU__DECOUPLED
#define PURE_DECAY FLOAT("weight_decay", 0, "times rate and parameter, taken from the parameter")
#define BETAS(epsilon)                                                     \
    FLOAT("beta1", 0.9, "what the mean of gradients keeps of itself"),     \
        FLOAT("beta2", 0.999, "what the mean of squares keeps of itself"), \
        FLOAT("epsilon", epsilon, "added to what is divided by")

#define UNCORRECTED                                                    \
    {                                                                  \
        .name = "uncorrected", .kind = IPU_ATTRIBUTE_INT,              \
        .meaning = "1: means that began as zeros are used as they are" \
    }

#define L2                                                                                                  \
    {                                                                                                       \
        .name = "l2", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the decay is added to the gradient instead" \
    }

#define RECORD(op, inputs, infer_fn, taken_apart, text)                                            \
    {                                                                                              \
        .kernel = {.name            = #op,                                                         \
                   .operands        = op##_operands,                                               \
                   .n_operands      = IPU__COUNT(op##_operands),                                   \
                   .check           = ipu__op_check,                                               \
                   .rows            = ipu__op_rows,                                                \
                   .ref             = optimizer_ref,                                               \
                   .work            = optimizer_work,                                              \
                   .plan            = optimizer_plan,                                              \
                   .implementations = IPU__ON_CPU(implementations)},                               \
        .n_in = (inputs), .family = "optimizer", .summary = (text), .attributes = op##_attributes, \
        .n_attributes = IPU__COUNT(op##_attributes), .infer = infer_fn, .compose = taken_apart,    \
        .samples = op##_samples                                                                    \
    }

static const ipu__kernel_operand sgd_operands[]   = {IPU__INPUT("parameter"),
                                                     IPU__INPUT("gradient"),
                                                     IPU__INPUT("rate"),
                                                     IPU__OPTIONAL("step"),
                                                     IPU__OPTIONAL("momentum"),
                                                     IPU__OUTPUT_OVER("new_parameter", 0),
                                                     IPU__OUTPUT_OVER("new_momentum", 4)};
static const ipu_op_attribute    sgd_attributes[] = {IPU__SGD_ATTRIBUTES};
static const char *const         sgd_samples[]    = {
               "float[3,5], float[3,5], float[]{0.1,1}",
               "float[7], float[7], float[]{0.1,1}; weight_decay=0.1",
               "float[3,5], float[3,5], float[]{0.1,1}, none, float[3,5]; momentum=0.9",
               "float[20], float[20], float[]{0.1,1}, float[]{2,3}, float[20]; momentum=0.9 dampening=0.5",
               "float[20], float[20], float[]{0.1,1}, int32[]{1,1}, float[20]; momentum=0.9 dampening=0.5",
               "float[20], float[20], float[]{0.1,1}, int32[]{1,1}, float[20]; momentum=0.9 nesterov=1",
               "half[1100], half[1100], float[]{0.1,1}, none, float[1100]; momentum=0.9 nesterov=1 weight_decay=0.01",
               "bfloat16[33], float[33], float[]{0.1,1}, none, float[33]; momentum=0",
               "float[20], float[20], float[]{0.1,1}, none, float[20]; momentum=0.9 weight_decay=0.5 decoupled=1",
               "half[99], half[99], float[]{0.1,1}; weight_decay=0.5 decoupled=1",
               "float[300,100], float[300,100], float[]{0.1,1}, none, float[300,100]; momentum=0.9",
               NULL};
const ipu__op_def ipu__op_sgd = RECORD(sgd, 5, sgd_infer, NULL, "a step of gradient descent with momentum");

#define ADAM_OPERANDS                                                                        \
    IPU__INPUT("parameter"), IPU__INPUT("gradient"), IPU__INPUT("rate"), IPU__INPUT("step"), \
        IPU__INPUT("mean"), IPU__INPUT("square"), IPU__OPTIONAL("max_square"),               \
        IPU__OUTPUT_OVER("new_parameter", 0), IPU__OUTPUT_OVER("new_mean", 4),               \
        IPU__OUTPUT_OVER("new_square", 5), IPU__OUTPUT_OVER("new_max_square", 6)
#define ADAM_SAMPLES                                                                                           \
    "float[3,5], float[3,5], float[]{0.1,1}, float[]{1,9}, float[3,5], float[3,5]{0,2}; weight_decay=0.1",     \
        "float[9], float[9], float[]{0.1,1}, int32[]{1,9}, float[9], float[9]{0,2}, float[9]{0,2}; beta1=0.8", \
        "float[9], float[9], float[]{0.1,1}, int32[]{1,9}, float[9], float[9]{0,2}; uncorrected=1",            \
        "half[1100], half[1100], float[]{0.1,1}, float[]{1,9}, float[1100], float[1100]{0,2}; epsilon=0.1",    \
        "float[200,100], float[200,100], float[]{0.1,1}, float[]{1,9}, float[200,100], float[200,100]{0,2}"

static const ipu__kernel_operand adam_operands[]   = {ADAM_OPERANDS};
static const ipu_op_attribute    adam_attributes[] = {BETAS(1e-8), DECAY, UNCORRECTED};
static const char *const         adam_samples[]    = {ADAM_SAMPLES, NULL};
const ipu__op_def ipu__op_adam = RECORD(adam, 7, ipu__optimizer_infer, NULL, "a step of Adam, or of AMSGrad");

static const ipu__kernel_operand adamw_operands[]   = {ADAM_OPERANDS};
static const ipu_op_attribute    adamw_attributes[] = {BETAS(1e-8), PURE_DECAY, UNCORRECTED};
static const char *const         adamw_samples[]    = {ADAM_SAMPLES, NULL};
const ipu__op_def                ipu__op_adamw      = RECORD(adamw, 7, ipu__optimizer_infer, NULL,
                                                             "a step of Adam, decaying past the gradient");

static const ipu__kernel_operand adamax_operands[]   = {IPU__INPUT("parameter"),
                                                        IPU__INPUT("gradient"),
                                                        IPU__INPUT("rate"),
                                                        IPU__INPUT("step"),
                                                        IPU__INPUT("mean"),
                                                        IPU__INPUT("largest"),
                                                        IPU__OUTPUT_OVER("new_parameter", 0),
                                                        IPU__OUTPUT_OVER("new_mean", 4),
                                                        IPU__OUTPUT_OVER("new_largest", 5)};
static const ipu_op_attribute    adamax_attributes[] = {BETAS(1e-8), EITHER_DECAY};
static const char *const         adamax_samples[]    = {
               "float[3,5], float[3,5], float[]{0.1,1}, float[]{1,9}, float[3,5], float[3,5]{0,2}; weight_decay=0.1",
               "float[40], float[40], float[]{0.1,1}, float[]{1,9}, float[40], float[40]{0,2}; weight_decay=0.5 decoupled=1",
               "half[1100], float[1100], float[]{0.1,1}, float[]{1,9}, float[1100], float[1100]{0,2}; beta1=0.5", NULL};
const ipu__op_def ipu__op_adamax = RECORD(adamax, 6, ipu__optimizer_infer, NULL,
                                          "a step of Adam by the infinity norm");

static const ipu__kernel_operand rmsprop_operands[]   = {IPU__INPUT("parameter"),
                                                         IPU__INPUT("gradient"),
                                                         IPU__INPUT("rate"),
                                                         IPU__INPUT("square"),
                                                         IPU__OPTIONAL("mean"),
                                                         IPU__OPTIONAL("momentum"),
                                                         IPU__OUTPUT_OVER("new_parameter", 0),
                                                         IPU__OUTPUT_OVER("new_square", 3),
                                                         IPU__OUTPUT_OVER("new_mean", 4),
                                                         IPU__OUTPUT_OVER("new_momentum", 5)};
static const ipu_op_attribute    rmsprop_attributes[] = {
       FLOAT("alpha", 0.99, "what the means keep of themselves"),
       FLOAT("epsilon", 1e-8, "added to what is divided by"),
       FLOAT("momentum", 0, "what the momentum keeps of itself"),
       EITHER_DECAY,
       {.name    = "tensorflow",
        .kind    = IPU_ATTRIBUTE_INT,
        .meaning = "1: epsilon is under the root, the rate enters the momentum"},
};
/* Squares over the squares of means: what is under the root stays positive. */
static const char *const rmsprop_samples[] = {
    "float[3,5], float[3,5], float[]{0.1,1}, float[3,5]{1,2}; weight_decay=0.1",
    "float[3,5], float[3,5], float[]{0.1,1}, float[3,5]{1,2}, none, float[3,5]; momentum=0.9 alpha=0.9",
    "float[40], float[40], float[]{0.1,1}, float[40]{1,2}, float[40]{-0.5,0.5}; epsilon=0.001",
    "half[99], half[99], float[]{0.1,1}, float[99]{1,2}, float[99]{-0.5,0.5}, float[99]; momentum=0.5",
    "float[40], float[40], float[]{0.1,1}, float[40]{1,2}, none, float[40]; momentum=0",
    "float[40], float[40], float[]{0.1,1}, float[40]{1,2}; weight_decay=0.5 decoupled=1",
    "float[40], float[40], float[]{0.1,1}, float[40]{1,2}; tensorflow=1 epsilon=0.1",
    "half[99], half[99], float[]{0.1,1}, float[99]{1,2}, float[99]{-0.5,0.5}, float[99]; tensorflow=1 momentum=0.5",
    NULL};
const ipu__op_def ipu__op_rmsprop = RECORD(rmsprop, 6, rmsprop_infer, NULL,
                                           "a step of RMSprop, centered if a mean is given");

static const ipu__kernel_operand adagrad_operands[]   = {IPU__INPUT("parameter"),
                                                         IPU__INPUT("gradient"),
                                                         IPU__INPUT("rate"),
                                                         IPU__INPUT("step"),
                                                         IPU__INPUT("sum"),
                                                         IPU__OUTPUT_OVER("new_parameter", 0),
                                                         IPU__OUTPUT_OVER("new_sum", 4)};
static const ipu_op_attribute    adagrad_attributes[] = {
       FLOAT("rate_decay", 0, "the rate is divided by 1 + (step - 1) times this"),
       EITHER_DECAY,
       FLOAT("epsilon", 1e-10, "added to what is divided by"),
};
static const char *const adagrad_samples[] = {
    "float[3,5], float[3,5], float[]{0.1,1}, float[]{1,9}, float[3,5]{0,2}; rate_decay=0.1 weight_decay=0.1",
    "float[40], float[40], float[]{0.1,1}, int32[]{1,9}, float[40]{0,2}; weight_decay=0.5 decoupled=1",
    "half[1100], half[1100], float[]{0.1,1}, int32[]{1,9}, float[1100]{0,2}", NULL};
const ipu__op_def ipu__op_adagrad = RECORD(adagrad, 5, ipu__optimizer_infer, NULL, "a step of Adagrad");

static const ipu__kernel_operand adadelta_operands[]   = {IPU__INPUT("parameter"),
                                                          IPU__INPUT("gradient"),
                                                          IPU__INPUT("rate"),
                                                          IPU__INPUT("square"),
                                                          IPU__INPUT("delta"),
                                                          IPU__OUTPUT_OVER("new_parameter", 0),
                                                          IPU__OUTPUT_OVER("new_square", 3),
                                                          IPU__OUTPUT_OVER("new_delta", 4)};
static const ipu_op_attribute    adadelta_attributes[] = {
       FLOAT("rho", 0.9, "what the means keep of themselves"),
       FLOAT("epsilon", 1e-6, "added under the roots"),
       EITHER_DECAY,
};
static const char *const adadelta_samples[] = {
    "float[3,5], float[3,5], float[]{0.1,1}, float[3,5]{0,2}, float[3,5]{0,2}; weight_decay=0.1",
    "float[40], float[40], float[]{0.1,1}, float[40]{0,2}, float[40]{0,2}; rho=0.5 weight_decay=0.5 decoupled=1",
    "half[1100], half[1100], float[]{0.1,1}, float[1100]{0,2}, float[1100]{0,2}; epsilon=0.01",
    "bfloat16[33], float[33], float[]{0.1,1}, float[33]{0,2}, float[33]{0,2}",
    "float[200,100], float[200,100], float[]{0.1,1}, float[200,100]{0,2}, float[200,100]{0,2}",
    NULL};
const ipu__op_def ipu__op_adadelta = RECORD(adadelta, 5, ipu__optimizer_infer, NULL, "a step of Adadelta");

static const ipu__kernel_operand lamb_direction_operands[]   = {IPU__INPUT("parameter"),
                                                                IPU__INPUT("gradient"),
                                                                IPU__INPUT("step"),
                                                                IPU__INPUT("mean"),
                                                                IPU__INPUT("square"),
                                                                IPU__OUTPUT("direction"),
                                                                IPU__OUTPUT_OVER("new_mean", 3),
                                                                IPU__OUTPUT_OVER("new_square", 4)};
static const ipu_op_attribute    lamb_direction_attributes[] = {
       BETAS(1e-6), FLOAT("weight_decay", 0, "times the parameter, added to the direction"), UNCORRECTED, L2};
static const char *const lamb_direction_samples[] = {
    "float[3,5], float[3,5], float[]{1,9}, float[3,5], float[3,5]{0,2}; weight_decay=0.1",
    "half[1100], half[1100], int32[]{1,9}, float[1100], float[1100]{0,2}",
    "float[9], float[9], int32[]{1,9}, float[9], float[9]{0,2}; uncorrected=1",
    "float[40], float[40], int32[]{1,9}, float[40], float[40]{0,2}; weight_decay=0.5 l2=1", NULL};
const ipu__op_def ipu__op_lamb_direction = RECORD(lamb_direction, 5, ipu__optimizer_infer,
                                                  ipu__lamb_direction_compose,
                                                  "where LAMB goes, before it is scaled");
