/* Recurrent layers: torch's numbers, every implementation against the reference, empty sequences. */
#include "op/call_test.h"

#include "op/sequence/recurrent.h"

/* ---- beside torch ---- */

enum { T = 3, N = 2, I = 3, H = 2, MAX = 32 };

/* The numbers that torch was given: eighths between -5/8 and 5/8, and `plus`. */
static const double *numbers(int seed, double plus)
{
    static double tables[16][MAX];
    for (int k = 0; k < MAX; k++) tables[seed][k] = (double)((k * 7 + seed * 3) % 11 - 5) / 8 + plus;
    return tables[seed];
}

typedef struct layer {
    const char *op, *activation; /* NULL: none */
    int         n_gates;
    bool        reverse;
    double      bias; /* added to b_ih */
    double      y[T * N * H], c_n[N * H], d_b_ih[4 * H], d_b_hh[4 * H], d_h0[N * H], d_c0[N * H];
} layer;

/* torch 1.13 in double; gradients of sum(y * numbers(8)) + sum(h_n * numbers(9)) + sum(c_n * numbers(10)). */
static const layer layers[] = {
    {.op         = "rnn",
     .activation = "tanh",
     .n_gates    = 1,
     .y = {-0.606347592713803, -0.625734635675147, -0.498174426229455, -0.644378261043901, -0.831753311215184,
           -0.393429961819747, -0.824580387635031, -0.431146927819121, -0.832776077525081, -0.182709736469583,
           -0.841061519919229, -0.184743993288154},
     .d_b_ih = {-0.191852682941587, -0.364598880497023},
     .d_h0   = {-0.238886103839833, 0.108322369677343, 0.110829264963408, -0.105032951044335}},
    {.op         = "rnn",
     .activation = "tanh",
     .n_gates    = 1,
     .reverse    = true,
     .y = {-0.845917820157193, -0.244727767431121, -0.85345491646162, -0.248174459556724, -0.826995800856687,
           -0.393786223934303, -0.818723580253115, -0.43420881037388, -0.575862391285789, -0.586211902368224,
           -0.46211715726001, -0.606347592713803},
     .d_b_ih = {-0.0412271991227001, -0.514847395011031},
     .d_h0   = {-0.241023883416063, 0.144084936623539, 0.141826112112837, -0.0867540921408154}},
    {.op         = "rnn",
     .activation = "relu",
     .n_gates    = 1,
     .bias       = 1,
     .y = {0.296875, 0.265625, 0.453125, 0.234375, 0.2578125, 0.466796875, 0.3046875, 0.392578125, 0.34765625,
           0.593017578125, 0.33984375, 0.557373046875},
     .d_b_ih = {-0.0234375, -0.396484375},
     .d_h0   = {-0.3564453125, 0.176513671875, 0.19140625, -0.1787109375}},
    {.op         = "rnn",
     .activation = "relu",
     .n_gates    = 1,
     .reverse    = true,
     .bias       = 1,
     .y = {0.3125, 0.518798828125, 0.3046875, 0.483154296875, 0.28125, 0.466796875, 0.328125, 0.392578125,
           0.34375, 0.328125, 0.5, 0.296875},
     .d_b_ih = {0.0234375, -0.525390625},
     .d_h0   = {-0.3359375, 0.216796875, 0.2119140625, -0.138427734375}},
    {.op      = "gru",
     .n_gates = 3,
     .y = {0.493408928332381, -0.0714832231980646, 0.707795870139843, 0.116034883722814, 0.620864249492081,
           0.0456964207767787, 0.73722279251167, 0.142954367275488, 0.518912234802431, -0.308552995420911,
           0.580236797509995, -0.267893453058279},
     .d_b_ih = {0.00473669589608389, 0.00132069735483477, 0.0486579059101044, -0.0804846332648219,
                -0.0100878348668077, -0.234281681390065},
     .d_b_hh = {0.00473669589608389, 0.00132069735483477, 0.0486579059101044, -0.0804846332648219,
                0.0010208033830261, -0.0732774658288523},
     .d_h0   = {-0.178131928584562, 0.232390432988894, -0.0565952088129085, -0.24414568285789}},
    {.op      = "gru",
     .n_gates = 3,
     .reverse = true,
     .y = {0.629819780363972, -0.0123558700372415, 0.697102584019633, 0.036161703093377, 0.479034058049067,
           -0.106363189831194, 0.614629432392157, -0.0334720176580126, 0.286194925153051, -0.399955916402472,
           0.513223932896993, -0.269780882479538},
     .d_b_ih = {-0.0306526274736661, 0.0100937073755791, 0.0113557411258488, 0.0194953596734288,
                -0.153476137376726, -0.412205225809184},
     .d_b_hh = {-0.0306526274736661, 0.0100937073755791, 0.0113557411258488, 0.0194953596734288,
                -0.0540637001554412, -0.122982599273414},
     .d_h0   = {-0.113162007887367, 0.205364163429263, -0.0427784710817296, -0.145825069206405}},
    {.op      = "lstm",
     .n_gates = 4,
     .y      = {0.350736212267419, 0.034988609643521, 0.113851251838176, 0.150993238293587, 0.341548927334831,
                0.0489727359677205, 0.219512081347819, 0.123049543426033, 0.231539952959555, -0.0984526133983068,
                0.183219748087848, -0.0508516059922904},
     .c_n    = {0.513356214343241, -0.126114411285351, 0.384097833510895, -0.0663891928248658},
     .d_b_ih = {-0.128743724409038, 0.0123204195479717, 0.0575713018580707, -0.0247312222136723,
                -0.0639235688359426, -0.0506712185140523, -0.0273869297693264, -0.00563691464586155},
     .d_h0   = {-0.0258045290346588, 0.0564738517478248, -0.0343274670765226, -0.049571902450627},
     .d_c0   = {0.00057985176425913, 0.105443915326924, -0.141449970622863, -0.10309650248993}},
    {.op      = "lstm",
     .n_gates = 4,
     .reverse = true,
     .y   = {0.315208057253044, 0.0169714461634016, 0.257159878913851, 0.0695648900797765, 0.338085058299295,
             -0.0055672958282014, 0.208824249430692, 0.0600512074846267, 0.261790422056002, -0.105828350480545,
             0.0667469785125465, -0.00651535434501237},
     .c_n = {0.54929843587392, 0.026039009211679, 0.425122396426186, 0.111216820886592},
     .d_b_ih = {-0.132681560166351, -0.0267850376241718, 0.0509782260338227, -0.0127041469414299,
                -0.0691269077833649, -0.0774654702583397, -0.0303342845061587, -0.0224946241212907},
     .d_h0   = {-0.00403866884615691, 0.0364721644400979, -0.0480004848691251, -0.038007938662241},
     .d_c0   = {0.0347150522079628, 0.10930686065429, -0.12546108155145, -0.0658892966690571}},
};

static void expect(const layer *l, const char *what, ipu_type type, const void *found, const double *expected,
                   int n)
{
    double slack = type == IPU_DOUBLE ? 1e-13 : 1e-6;
    for (int i = 0; i < n; i++)
        if (!(fabs(call_load(type, found, i) - expected[i]) <= slack))
            fail_msg("%s%s, %s, %s %d is %.15g, torch has %.15g", l->op, l->reverse ? " reversed" : "",
                     ipu_type_name(type), what, i, call_load(type, found, i), expected[i]);
}

static size_t attributes_of(const layer *l, ipu_attribute out[2])
{
    out[0] = IPU_INT_ATTRIBUTE("reverse", l->reverse);
    out[1] = IPU_TEXT_ATTRIBUTE("activation", l->activation);
    return l->activation ? 2 : 1;
}

static call_made run_forwards(const layer *l, ipu_type type)
{
    int           rows = l->n_gates * H;
    ipu_attribute attributes[2];
    size_t        n    = attributes_of(l, attributes);
    call_made     made = call_make(
            l->op, attributes, n,
            CALL_IN({IPU_FLOAT, {3, {T, N, I}}, numbers(1, 0)}, {IPU_FLOAT, {2, {rows, I}}, numbers(2, 0)},
                    {IPU_FLOAT, {2, {rows, H}}, numbers(3, 0)}, {IPU_FLOAT, {1, {rows}}, numbers(4, l->bias)},
                    {IPU_FLOAT, {1, {rows}}, numbers(5, 0)}, {IPU_FLOAT, {2, {N, H}}, numbers(6, 0)},
                    {IPU_FLOAT, {2, {N, H}}, numbers(7, 0)}),
            type);
    call_check_parts(&made, 1, false);
    return made;
}

static void layers_give_what_torch_gives(void **unused)
{
    (void)unused;
    static const ipu_type types[] = {IPU_DOUBLE, IPU_FLOAT};
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int t = 0; t < 2; t++) {
            const layer *l    = &layers[i];
            call_made    made = run_forwards(l, types[t]);
            int          y    = ipu__op_find(l->op)->n_in;
            expect(l, "y", types[t], made.data[y], l->y, T * N * H);
            expect(l, "h_n", types[t], made.data[y + 1], l->y + (l->reverse ? 0 : (T - 1) * N * H), N * H);
            if (l->n_gates == 4) expect(l, "c_n", types[t], made.data[y + 2], l->c_n, N * H);
            call_free(&made);
        }
}

/* An operand of a call that was made, as the input of another. */
static const double *values_of(const call_made *made, int operand, double *out)
{
    for (int64_t i = 0; i < ipu__op_n_elements(&made->call.operand[operand].shape); i++)
        out[i] = call_load(made->call.operand[operand].type, made->data[operand], i);
    return out;
}

/* A bias is added in every step and row: its gradient is their sum. */
static void check_bias(const layer *l, ipu_type type, const void *gradient, const double *expected)
{
    double sum[4 * H] = {0};
    int    wide       = l->n_gates * H;
    for (int i = 0; i < T * N * wide; i++) sum[i % wide] += call_load(type, gradient, i);
    for (int i = 0; i < wide; i++)
        if (!(fabs(sum[i] - expected[i]) <= (type == IPU_DOUBLE ? 1e-13 : 2e-6)))
            fail_msg("%s, gradient of bias %d is %.15g, torch has %.15g", l->op, i, sum[i], expected[i]);
}

static void check_gradient(const layer *l, ipu_type type)
{
    static double    y[MAX], gates[T * N * 4 * H], cells[MAX];
    ipu_attribute    attributes[2];
    size_t           n    = attributes_of(l, attributes);
    int              rows = l->n_gates * H, out = ipu__op_find(l->op)->n_in;
    call_made        forward = run_forwards(l, type);
    const call_input d_y     = {IPU_FLOAT, {3, {T, N, H}}, numbers(8, 0)},
                     d_h     = {IPU_FLOAT, {2, {N, H}}, numbers(9, 0)},
                     d_c     = {IPU_FLOAT, {2, {N, H}}, numbers(10, 0)},
                     w       = {IPU_FLOAT, {2, {rows, H}}, numbers(3, 0)},
                     h0      = {IPU_FLOAT, {2, {N, H}}, numbers(6, 0)},
                     c0      = {IPU_FLOAT, {2, {N, H}}, numbers(7, 0)},
                     saved   = {IPU_FLOAT, {3, {T, N, H}}, values_of(&forward, out, y)};
    call_made made;
    if (l->n_gates == 1)
        made = call_make("rnn_grad", attributes, n, CALL_IN(d_y, d_h, w, saved), type);
    else if (l->n_gates == 3)
        made = call_make("gru_grad", attributes, n,
                         CALL_IN(d_y, d_h, w, saved,
                                 {IPU_FLOAT, {3, {T, N, 4 * H}}, values_of(&forward, out + 2, gates)}, h0),
                         type);
    else
        made = call_make("lstm_grad", attributes, n,
                         CALL_IN(d_y, d_h, d_c, w,
                                 {IPU_FLOAT, {3, {T, N, 4 * H}}, values_of(&forward, out + 3, gates)},
                                 {IPU_FLOAT, {3, {T, N, H}}, values_of(&forward, out + 4, cells)}, c0),
                         type);
    call_check_parts(&made, 1, false);
    int d_ih = ipu__op_of(made.call.def)->n_in;
    check_bias(l, type, made.data[d_ih], l->d_b_ih);
    if (l->n_gates == 3) check_bias(l, type, made.data[d_ih + 1], l->d_b_hh);
    expect(l, "d_h0", type, made.data[d_ih + 1 + (l->n_gates == 3)], l->d_h0, N * H);
    if (l->n_gates == 4) expect(l, "d_c0", type, made.data[d_ih + 2], l->d_c0, N * H);
    call_free(&made);
    call_free(&forward);
}

static void gradients_are_those_of_torch(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        check_gradient(&layers[i], IPU_DOUBLE);
        check_gradient(&layers[i], IPU_FLOAT);
    }
}

/* ---- implementations ---- */

typedef struct sizes {
    int64_t steps, batch, inputs, hidden;
} sizes;

/* One of what each implementation does differently: single rows and columns, more parts than rows, more than
 * a block of columns, nothing at all. */
static const sizes all_sizes[] = {{1, 1, 1, 1},   {2, 3, 5, 7},    {3, 4, 0, 3},
                                  {3, 0, 2, 3},   {0, 2, 2, 3},    {2, 2, 2, 0},
                                  {3, 9, 17, 33}, {2, 5, 600, 70}, {2, 16, 28, 130}};

static double small_number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return ((double)(*seed >> 8) * 0x1p-23 - 1) * 0.3;
}

static call_input small(int rank, int64_t a, int64_t b, int64_t c, double **kept)
{
    call_input in   = {IPU_FLOAT, {rank, {a, b, c}}, NULL};
    int64_t    n    = ipu__op_n_elements(&in.shape);
    uint32_t   seed = (uint32_t)(a * 7 + b * 3 + c);
    *kept           = malloc((size_t)(n + 1) * sizeof **kept);
    assert_non_null(*kept);
    for (int64_t i = 0; i < n; i++) (*kept)[i] = small_number(&seed);
    in.values = *kept;
    return in;
}

static void check_sizes(const char *op, const sizes *s, bool with_state, bool training, ipu_type type)
{
    const ipu__op_def *def  = ipu__op_find(op);
    int64_t            rows = s->hidden * (strcmp(op, "rnn") == 0 ? 1 : strcmp(op, "gru") == 0 ? 3 : 4);
    double            *kept[7];
    call_input         in[7]        = {small(3, s->steps, s->batch, s->inputs, &kept[0]),
                                       small(2, rows, s->inputs, 0, &kept[1]),
                                       small(2, rows, s->hidden, 0, &kept[2]),
                                       small(1, rows, 0, 0, &kept[3]),
                                       small(1, rows, 0, 0, &kept[4]),
                                       small(2, s->batch, s->hidden, 0, &kept[5]),
                                       small(2, s->batch, s->hidden, 0, &kept[6])};
    ipu_attribute      attributes[] = {IPU_INT_ATTRIBUTE("reverse", with_state),
                                       IPU_INT_ATTRIBUTE("training", training)};
    call_made made = call_make(op, attributes, def->n_attributes == 2 && strcmp(op, "rnn") != 0 ? 2 : 1, in,
                               with_state ? (size_t)def->n_in : 3, type);
    call_check_parts(&made, 1, false);
    call_free(&made);
    for (int i = 0; i < 7; i++) free(kept[i]);
}

static void implementations_do_what_ref_says(void **unused)
{
    (void)unused;
    static const char *const ops[]   = {"rnn", "gru", "lstm"};
    static const ipu_type    types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16};
    for (size_t i = 0; i < sizeof all_sizes / sizeof *all_sizes; i++)
        for (int op = 0; op < 3; op++)
            for (int choice = 0; choice < 4; choice++)
                for (int t = 0; t < 3; t++)
                    check_sizes(ops[op], &all_sizes[i], choice & 1, choice & 2, types[t]);
}

static void check_back(const char *op, const sizes *s, bool with_state, ipu_type type)
{
    bool       is_lstm = strcmp(op, "lstm_grad") == 0, is_rnn = strcmp(op, "rnn_grad") == 0;
    double    *kept[7];
    call_input d_y        = small(3, s->steps, s->batch, s->hidden, &kept[0]),
               state      = small(2, s->batch, s->hidden, 0, &kept[1]),
               w          = small(2,
                                  s->hidden
                                      * (is_rnn    ? 1
                                         : is_lstm ? 4
                                                   : 3),
                                  s->hidden, 0, &kept[2]),
               saved      = small(3, s->steps, s->batch, s->hidden, &kept[3]),
               gates      = small(3, s->steps, s->batch, 4 * s->hidden, &kept[4]),
               none       = {IPU_FLOAT, {1, {0}}, NULL};
    call_input    h       = with_state ? state : none;
    ipu_attribute reverse = IPU_INT_ATTRIBUTE("reverse", with_state);
    call_made     made    = is_rnn  ? call_make(op, &reverse, 1, CALL_IN(d_y, h, w, saved), type)
                          : is_lstm ? call_make(op, &reverse, 1, CALL_IN(d_y, h, h, w, gates, saved, h), type)
                                    : call_make(op, &reverse, 1, CALL_IN(d_y, h, w, saved, gates, h), type);
    call_check_parts(&made, 1, false);
    ;
    call_free(&made);
    for (int i = 0; i < 5; i++) free(kept[i]);
}

static void implementations_of_gradients_do_what_ref_says(void **unused)
{
    (void)unused;
    static const char *const ops[]   = {"rnn_grad", "gru_grad", "lstm_grad"};
    static const ipu_type    types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16};
    for (size_t i = 0; i < sizeof all_sizes / sizeof *all_sizes; i++)
        for (int op = 0; op < 3; op++)
            for (int t = 0; t < 3; t++) {
                check_back(ops[op], &all_sizes[i], false, types[t]);
                check_back(ops[op], &all_sizes[i], true, types[t]);
            }
}

/* Far out, where e^x would overflow, gates are 0 and 1 and nothing is NaN. */
static void large_sums_saturate(void **unused)
{
    (void)unused;
    static const double x[]   = {1000, -1000, 90, -90, 15, -15};
    static const double one[] = {1, 1, 1, 1}, zero[] = {0, 0, 0, 0};
    call_made           made = call_make("lstm", NULL, 0,
                                         CALL_IN({IPU_FLOAT, {3, {1, 6, 1}}, x}, {IPU_FLOAT, {2, {4, 1}}, one},
                                                 {IPU_FLOAT, {2, {4, 1}}, zero}),
                                         IPU_FLOAT);
    call_check_parts(&made, 1, false);
    const float *gates = made.data[10], *y = made.data[7];
    assert_true(gates[0] == 1 && gates[2] == 1 && gates[4] < 1e-37f && gates[6] == -1);
    assert_true(fabsf(y[0] - 0.7615941559558f) < 1e-6f && fabsf(y[1]) < 1e-37f);
    call_free(&made);
}

/* ---- what is refused ---- */

static void refused(const char *op, const ipu_attribute *attribute, const ipu__kernel_value *in, int n,
                    const char *message)
{
    const ipu__op_def *def  = ipu__op_find(op);
    ipu__kernel_call   call = {.def          = &def->kernel,
                               .attributes   = attribute,
                               .n_attributes = attribute != NULL,
                               .n_operands   = def->n_in};
    ipu__kernel_value  out[8];
    for (int i = 0; i < def->n_in; i++)
        call.operand[i] = i < n ? in[i] : (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    assert_int_equal(def->infer(&call, out), IPU_INVALID);
    if (!strstr(ipu_message(), message)) fail_msg("\"%s\" does not say \"%s\"", ipu_message(), message);
}

static void errors_say_what_was_expected(void **unused)
{
    (void)unused;
    ipu__kernel_value x = {IPU_FLOAT, IPU_SHAPE(3, 2, 4)}, w_ih = {IPU_FLOAT, IPU_SHAPE(20, 4)},
                      w_hh = {IPU_FLOAT, IPU_SHAPE(20, 5)}, bad = {IPU_FLOAT, IPU_SHAPE(20, 6)},
                      half = {IPU_HALF, IPU_SHAPE(20, 5)}, flat = {IPU_FLOAT, IPU_SHAPE(3, 2)},
                      huge = {IPU_FLOAT, IPU_SHAPE(4, INT64_MAX / 2)};
    ipu_attribute gelu = IPU_TEXT_ATTRIBUTE("activation", "gelu"), two = IPU_INT_ATTRIBUTE("reverse", 2);
    refused("lstm", NULL, (ipu__kernel_value[]){x, bad, w_hh}, 3,
            "\"w_ih\" must have shape [20,4], found float[20,6]");
    refused("lstm", NULL, (ipu__kernel_value[]){x, w_ih, bad}, 3, "\"w_hh\" must have shape [24,6]");
    refused("gru", NULL, (ipu__kernel_value[]){x, w_ih, w_hh}, 3, "must have shape [15,5]");
    refused("lstm", NULL, (ipu__kernel_value[]){x, w_ih, half}, 3, "must have one type");
    refused("lstm", NULL, (ipu__kernel_value[]){flat, w_ih, w_hh}, 3, "\"x\" must have rank 3");
    refused("lstm", NULL, (ipu__kernel_value[]){x, w_ih, w_hh, bad}, 4, "\"b_ih\" must have shape [20]");
    refused("lstm", NULL, (ipu__kernel_value[]){x, w_ih, huge}, 3, "\"w_hh\"");
    refused("lstm", &two, (ipu__kernel_value[]){x, w_ih, w_hh}, 3, "reverse must be 0 or 1, found 2");
    refused("rnn", &gelu, (ipu__kernel_value[]){x, w_ih, w_hh}, 3, "tanh or relu, found \"gelu\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_give_what_torch_gives),
        cmocka_unit_test(gradients_are_those_of_torch),
        cmocka_unit_test(implementations_do_what_ref_says),
        cmocka_unit_test(implementations_of_gradients_do_what_ref_says),
        cmocka_unit_test(large_sums_saturate),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
