/* Optimizers: several steps compared with torch.optim, every implementation with the reference, errors. */
#include "op/call_test.h"

#include "ipu/op/optimizer.h"

/* Without the compound literals of ipu/program.h: these are constants. */
#define REAL(n, v)                                         \
    {                                                      \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .f = (v) \
    }
#define WHOLE(n, v)                                      \
    {                                                    \
        .name = (n), .kind = IPU_ATTRIBUTE_INT, .i = (v) \
    }

/* ---- in step with torch ---- */

enum { N = 4, STEPS = 3, MAX_ATTRIBUTES = 5 };

static const double start[N]            = {1, -2, 0.5, 3};
static const double gradients[STEPS][N] = {{0.5, -1, 2, 0.25}, {-0.75, 0.5, 1.5, 0}, {1, 1.25, -0.5, -2}};

typedef struct run {
    const char   *op;
    ipu_attribute attributes[MAX_ATTRIBUTES]; /* up to the first without a name */
    bool          counts;                     /* has an operand "step" */
    bool          states[3];
    /* The parameter after STEPS steps by torch 1.13 in double, rate 0.1; where torch has no such variant, by its
     * formula. */
    double expected[N];
} run;

static const run runs[] = {
    {"sgd",
     {REAL("weight_decay", 0.01)},
     true,
     {false},
     {0.92202794899999996, -2.069155898, 0.19905129949999995, 3.1660589719999996}},
    {"sgd",
     {REAL("momentum", 0.9), REAL("dampening", 0.5), REAL("weight_decay", 0.01)},
     true,
     {true},
     {0.88166838724999996, -1.8308617744999998, -0.16116147512500009, 3.0198239429999996}},
    {"sgd",
     {REAL("momentum", 0.9), WHOLE("nesterov", 1)},
     true,
     {true},
     {0.84130000000000016, -2.0291000000000001, -0.49930000000000002, 3.2940250000000004}},
    {"adam",
     {REAL("weight_decay", 0.01)},
     true,
     {true, true},
     {0.88762585499919477, -1.9032268649128707, 0.23967391187076301, 2.8808110458696139}},
    {"adam",
     {REAL("beta1", 0.5), REAL("beta2", 0.6)},
     true,
     {true, true, true},
     {0.89973280808601774, -1.9694628714892062, 0.27441092416094293, 2.9351192499746448}},
    {"adamw",
     {REAL("weight_decay", 0.1)},
     true,
     {true, true},
     {0.86216291255207744, -1.8501356170742451, 0.22792659532373941, 2.8035221351759851}},
    {"adamax",
     {REAL("beta2", 0.5), REAL("weight_decay", 0.01)},
     true,
     {true, true},
     {0.89240940010136616, -1.8800171155477712, 0.1625041678454987, 2.8265291098312177}},
    {"adam",
     {REAL("beta1", 0), REAL("beta2", 0.5), WHOLE("uncorrected", 1)},
     true,
     {true, true},
     {0.8645002206165269, -2.067228428231998, 0.3015626407361273, 2.999724600011775}},
    {"adamw",
     {REAL("weight_decay", 0.1), WHOLE("uncorrected", 1)},
     true,
     {true, true},
     {0.593056320276292, -1.6864998690860908, -0.5447714847597613, 2.6010822852884385}},
    {"rmsprop",
     {REAL("alpha", 0.9), REAL("epsilon", 0.1), REAL("weight_decay", 0.01), WHOLE("tensorflow", 1)},
     false,
     {true},
     {0.8383785752987875, -2.0838652495445102, 0.09764023267430046, 3.185999946011289}},
    {"rmsprop",
     {REAL("alpha", 0.9), REAL("epsilon", 0.1), REAL("weight_decay", 0.01), REAL("momentum", 0.5),
      WHOLE("tensorflow", 1)},
     false,
     {true, true, true},
     {0.8143906054761851, -1.9586932252214118, -0.24752494231170624, 3.1257678377569937}},
    {"rmsprop",
     {REAL("weight_decay", 0.01)},
     false,
     {true},
     {0.082573882723235736, -2.1753198281404353, -0.89791711184663403, 2.9186957867405607}},
    {"rmsprop",
     {REAL("alpha", 0.9), REAL("momentum", 0.5)},
     false,
     {true, true, true},
     {0.57409252593135374, -1.8884748635911819, -0.33802746529706296, 2.7442485275249933}},
    {"adagrad",
     {REAL("rate_decay", 0.1), REAL("weight_decay", 0.01)},
     true,
     {true},
     {0.91266318328766594, -2.0002127084990184, 0.36164325322949731, 2.9731308146004918}},
    {"adadelta",
     {{0}},
     false,
     {true, true},
     {0.9996203869748519, -2.0002670468035726, 0.4995164221462532, 3.000116938020855}},
    {"adadelta",
     {REAL("rho", 0.5), REAL("epsilon", 0.01), REAL("weight_decay", 0.1)},
     false,
     {true, true},
     {0.9814843639537496, -2.008259447090817, 0.477848986095266, 2.99495308714164}},
    /* Decoupled: torch's steps without decay, the parameter multiplied by 1 - 0.1 * weight_decay before each. */
    {"adadelta",
     {REAL("rho", 0.5), REAL("epsilon", 0.01), REAL("weight_decay", 0.1), WHOLE("decoupled", 1)},
     false,
     {true, true},
     {0.9533313864867081, -1.9565544015633822, 0.4642628784960997, 2.9153652949229683}},
    {"sgd",
     {REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     true,
     {false},
     {0.7834999999999999, -1.7969999999999997, 0.15568749999999998, 2.7495624999999997}},
    {"sgd",
     {REAL("momentum", 0.9), REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     true,
     {true},
     {0.7677499999999999, -1.6754999999999995, -0.3123125, 2.707937499999999}},
    {"sgd",
     {REAL("momentum", 0.9), REAL("weight_decay", 0.5), WHOLE("nesterov", 1), WHOLE("decoupled", 1)},
     true,
     {true},
     {0.7028374999999999, -1.7616749999999999, -0.5112125, 2.8717937499999997}},
    {"sgd",
     {REAL("momentum", 0.9), REAL("dampening", 0.5), REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     true,
     {true},
     {0.7483749999999999, -1.5667499999999996, -0.19856250000000003, 2.6079374999999994}},
    {"adamax",
     {REAL("beta2", 0.5), REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     true,
     {true, true},
     {0.7601877324350121, -1.6107730642229425, 0.1069122867425988, 2.425039213686244}},
    {"rmsprop",
     {REAL("alpha", 0.9), REAL("momentum", 0.5), REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     false,
     {true, true, true},
     {0.45886077375989875, -1.6366342723974063, -0.35763706758442376, 2.357206855413882}},
    {"adagrad",
     {REAL("rate_decay", 0.1), REAL("weight_decay", 0.5), WHOLE("decoupled", 1)},
     true,
     {true},
     {0.7770854430121084, -1.7252359917154934, 0.3029623294492777, 2.5645648230914695}},
};

static const double zeros[N] = {0}, rate[] = {0.1};

static size_t n_attributes(const run *r)
{
    size_t n = 0;
    while (n < MAX_ATTRIBUTES && r->attributes[n].name) n++;
    return n;
}

/* With new values in the memory of the old, as an engine that keeps parameters runs it. */
static void take_steps(const run *r, ipu_type type, bool by_ref, double *result)
{
    static const call_input none  = {IPU_FLOAT, {1, {0}}, NULL};
    int                     state = 3 + r->counts, n_in = state;
    call_input              in[7] = {{IPU_FLOAT, {1, {N}}, start},
                                     {IPU_FLOAT, {1, {N}}, zeros},
                                     {IPU_FLOAT, {0}, rate},
                                     {IPU_INT32, {0}, zeros}};
    for (int i = 0; i < 3; i++) in[n_in++] = r->states[i] ? (call_input){IPU_FLOAT, {1, {N}}, zeros} : none;
    n_in           = ipu__op_find(r->op)->n_in;
    call_made made = call_make(r->op, r->attributes, n_attributes(r), in, (size_t)n_in, type);
    void     *operand[IPU__MAX_OPERANDS];
    memcpy(operand, made.data, sizeof operand);
    operand[n_in] = operand[0];
    for (int i = state; i < n_in; i++) operand[n_in + 1 + i - state] = operand[i];
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < N; i++) call_store(type, operand[1], i, gradients[k][i]);
        if (r->counts) call_store(IPU_INT32, operand[3], 0, k + 1);
        if (by_ref)
            made.call.def->ref(&made.call, operand);
        else
            call_run(&made.call, &ipu__cpu_impls_of(made.call.def).at[0], operand, 2);
    }
    for (int i = 0; i < N; i++) result[i] = call_load(type, operand[0], i);
    call_free(&made);
}

static void check_run(const run *r, ipu_type type, bool by_ref, double slack)
{
    double found[N];
    take_steps(r, type, by_ref, found);
    for (int i = 0; i < N; i++)
        if (!(fabs(found[i] - r->expected[i]) <= slack))
            fail_msg("%s in %s, run %td, element %d: %.17g, torch has %.17g", r->op, ipu_type_name(type),
                     r - runs, i, found[i], r->expected[i]);
}

static void steps_are_those_of_torch(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        check_run(&runs[i], IPU_DOUBLE, true, 1e-12);
        check_run(&runs[i], IPU_FLOAT, true, 2e-6);
        check_run(&runs[i], IPU_FLOAT, false, 2e-6);
    }
}

/* ---- implementations ---- */

/* Half and bfloat16 parameters have float states. */
static void check_types(const char *op, ipu_type parameter, ipu_type gradient, int64_t n)
{
    const ipu__op_def  *def         = ipu__op_find(op);
    call_input          in[7]       = {{parameter, {1, {n}}, NULL}, {gradient, {1, {n}}, NULL}};
    static const double one_tenth[] = {0.1}, third[] = {3};
    double             *positive = malloc((size_t)(n + 1) * sizeof *positive),
           *small                = malloc((size_t)(n + 1) * sizeof *small);
    assert_true(positive && small);
    for (int64_t i = 0; i < n; i++) {
        positive[i] = 1 + (double)(i % 7) / 7;
        small[i]    = positive[i] / 4; /* a mean whose square is far below the mean of squares */
    }
    for (int i = 2; i < def->n_in; i++) {
        const char *name = def->kernel.operands[i].name;
        in[i]            = (call_input){IPU_FLOAT, {1, {n}}, positive};
        if (strcmp(name, "mean") == 0) in[i].values = small;
        if (strcmp(name, "rate") == 0) in[i] = (call_input){IPU_FLOAT, {0}, one_tenth};
        if (strcmp(name, "step") == 0) in[i] = (call_input){IPU_INT64, {0}, third};
    }
    ipu_attribute half = REAL("momentum", 0.5);
    bool          has  = strcmp(op, "sgd") == 0 || strcmp(op, "rmsprop") == 0;
    call_made     made = call_make(op, has ? &half : NULL, has, in, (size_t)def->n_in, IPU_FLOAT);
    assert_int_equal(made.call.operand[def->n_in + 1].type, IPU_FLOAT);
    call_check(&made, 4);
    call_free(&made);
    free(positive);
    free(small);
}

static void parameters_may_be_half_with_state_in_float(void **unused)
{
    (void)unused;
    static const char *const ops[]   = {"sgd",     "adam",    "adamw",    "adamax",
                                        "rmsprop", "adagrad", "adadelta", "lamb_direction"};
    static const int64_t     sizes[] = {1, 63, 1024, 3000};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
            check_types(ops[i], IPU_HALF, IPU_HALF, sizes[j]);
            check_types(ops[i], IPU_HALF, IPU_FLOAT, sizes[j]);
            check_types(ops[i], IPU_BFLOAT16, IPU_BFLOAT16, sizes[j]);
            check_types(ops[i], IPU_FLOAT, IPU_FLOAT, sizes[j]);
        }
}

static void a_momentum_that_is_not_used_is_handed_on(void **unused)
{
    (void)unused;
    call_input in[] = {{IPU_FLOAT, {1, {2}}, start},
                       {IPU_FLOAT, {1, {2}}, start},
                       {IPU_FLOAT, {0}, rate},
                       {IPU_FLOAT, {1, {0}}, NULL},
                       {IPU_FLOAT, {1, {2}}, start + 2}};
    call_expect("sgd", NULL, 0, in, 5, 1, CALL_VALUES(0.5, 3));
    call_expect("sgd", NULL, 0, in, 5, 0, CALL_VALUES(0.9, -1.8));
}

static void nothing_is_a_parameter_too(void **unused)
{
    (void)unused;
    call_input in[] = {
        {IPU_FLOAT, {2, {0, 3}}, NULL}, {IPU_FLOAT, {2, {0, 3}}, NULL}, {IPU_FLOAT, {0}, rate}};
    call_expect("sgd", NULL, 0, in, 3, 0, NULL);
}

/* ---- what is refused ---- */

static void refused(const char *op, const ipu_attribute *attributes, size_t n, const ipu__kernel_value *in,
                    const char *message)
{
    const ipu__op_def *def  = ipu__op_find(op);
    ipu__kernel_call   call = {
          .def = &def->kernel, .attributes = attributes, .n_attributes = n, .n_operands = def->n_in};
    ipu__kernel_value out[4];
    for (int i = 0; i < def->n_in; i++) call.operand[i] = in[i];
    assert_int_equal(def->infer(&call, out), IPU_INVALID);
    if (!strstr(ipu_message(), message)) fail_msg("\"%s\" does not say \"%s\"", ipu_message(), message);
}

static void errors_say_what_was_expected(void **unused)
{
    (void)unused;
    ipu__kernel_value p = {IPU_HALF, IPU_SHAPE(4)}, scalar = {IPU_FLOAT, IPU_SCALAR},
                      s    = {IPU_FLOAT, IPU_SHAPE(4)};
    ipu__kernel_value none = {IPU_FLOAT, IPU_SHAPE(0)}, more = {IPU_FLOAT, IPU_SHAPE(5)},
                      whole = {IPU_INT32, IPU_SHAPE(4)};
    ipu_attribute momentum = REAL("momentum", 0.9), nesterov = WHOLE("nesterov", 1);
    refused("sgd", &momentum, 1, (ipu__kernel_value[]){p, p, scalar, none, none},
            "needs the input \"momentum\"");
    refused("sgd", &nesterov, 1, (ipu__kernel_value[]){p, p, scalar, none, none}, "nesterov needs");
    refused("sgd", NULL, 0, (ipu__kernel_value[]){p, p, p, none, none}, "\"rate\" must be a scalar");
    refused("sgd", NULL, 0, (ipu__kernel_value[]){p, more, scalar, none, none}, "\"gradient\"");
    refused("sgd", NULL, 0, (ipu__kernel_value[]){p, p, scalar, none, p}, "must be float, found half");
    refused("sgd", NULL, 0, (ipu__kernel_value[]){whole, whole, scalar, none, none}, "found int32[4]");
    refused("adam", NULL, 0, (ipu__kernel_value[]){p, p, scalar, whole, s, s, none},
            "\"step\" must be a scalar");
    refused("adam", NULL, 0, (ipu__kernel_value[]){p, p, scalar, scalar, s, more, none}, "\"square\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_torch),
        cmocka_unit_test(parameters_may_be_half_with_state_in_float),
        cmocka_unit_test(a_momentum_that_is_not_used_is_handed_on),
        cmocka_unit_test(nothing_is_a_parameter_too),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
