/* RNN, GRU and LSTM of ONNX against the equations of its documents: every option, few and many steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "onnx/run_test.h"

enum { RNN, GRU, LSTM, BATCH = 2, FEATURES = 3, HIDDEN = 2, MOST_STEPS = 40, MOST_ROWS = 4 * HIDDEN };
enum { HAS_BIAS = 1, HAS_LENGTHS = 2, HAS_STATE = 4, HAS_PEEPHOLES = 8 };

static const char *const op_names[] = {"RNN", "GRU", "LSTM"};
static const int         n_gates[]  = {1, 3, 4};

typedef double scalar_function(double x);

typedef struct variant {
    int              kind, version, n_steps, n_directions;
    bool             is_reverse, batch_first, reset_after, coupled;
    unsigned         has;
    double           clip;
    scalar_function *f[6]; /* of the first direction, then of the second */
    const char      *attributes;
    bool             is_op; /* the op library's layer says the same */
} variant;

/* What the test draws, as floats so that both sides compute with the same numbers. */
typedef struct numbers {
    float   x[MOST_STEPS * BATCH * FEATURES], w[2 * MOST_ROWS * FEATURES], r[2 * MOST_ROWS * HIDDEN];
    float   b[2 * 2 * MOST_ROWS], h[2 * BATCH * HIDDEN], c[2 * BATCH * HIDDEN], p[2 * 3 * HIDDEN];
    int32_t lengths[BATCH];
} numbers;

static void draw(numbers *k, int n_steps)
{
    uint32_t state = 7;
    float   *all   = (float *)k;
    for (size_t i = 0; i < offsetof(numbers, lengths) / sizeof(float); i++) {
        state  = state * 1664525u + 1013904223u;
        all[i] = (float)((double)(state >> 8) / 8388608 - 1);
    }
    k->lengths[0] = (int32_t)(n_steps - 1);
    k->lengths[1] = (int32_t)((n_steps + 1) / 2);
}

/* ---- the equations ---- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x > 0 ? x : 0; }
static double leaky(double x) { return x > 0 ? x : 0.25 * x; }
static double hard_sigmoid(double x) { return fmin(fmax(0.5 * x + 0.25, 0), 1); }
static double affine(double x) { return 0.75 * x - 0.5; }
static double scaled_tanh(double x) { return 1.5 * tanh(0.5 * x); }
static double elu(double x) { return x >= 0 ? x : 0.5 * expm1(x); }
static double thresholded(double x) { return x >= 0.25 ? x : 0; }
static double softsign(double x) { return x / (1 + fabs(x)); }
static double softplus(double x) { return log1p(exp(x)); }

typedef struct cell {
    const variant *v;
    const numbers *k;
    int            direction;
    double         h[HIDDEN], c[HIDDEN];
} cell;

static double dot(const float *row, const double *with, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)row[i] * with[i];
    return sum;
}

/* Row `row` of gate products: of W and x, of R and h, and the two biases. */
static double of_x(const cell *s, int row, const double *x)
{
    int at = s->direction * n_gates[s->v->kind] * HIDDEN + row;
    return dot(s->k->w + (size_t)at * FEATURES, x, FEATURES);
}
static double of_h(const cell *s, int row, const double *h)
{
    int at = s->direction * n_gates[s->v->kind] * HIDDEN + row;
    return dot(s->k->r + (size_t)at * HIDDEN, h, HIDDEN);
}
static double bias(const cell *s, int row, int of_r)
{
    int rows = n_gates[s->v->kind] * HIDDEN;
    return s->v->has & HAS_BIAS ? (double)s->k->b[(s->direction * 2 + of_r) * rows + row] : 0;
}
static double peephole(const cell *s, int gate, int i)
{
    return s->v->has & HAS_PEEPHOLES ? (double)s->k->p[(s->direction * 3 + gate) * HIDDEN + i] : 0;
}
static double activate(const cell *s, int which, double x)
{
    int per = s->v->kind == LSTM ? 3 : s->v->kind == GRU ? 2 : 1;
    if (s->v->clip > 0 && x > s->v->clip) x = s->v->clip;
    if (s->v->clip > 0 && x < -s->v->clip) x = -s->v->clip;
    return s->v->f[s->direction * per + which](x);
}
static double gate(const cell *s, int g, int i, const double *x, double more)
{
    int row = g * HIDDEN + i;
    return of_x(s, row, x) + of_h(s, row, s->h) + bias(s, row, 0) + bias(s, row, 1) + more;
}

static void step_lstm(cell *s, const double *x)
{
    double h[HIDDEN], c[HIDDEN];
    for (int j = 0; j < HIDDEN; j++) {
        double i = activate(s, 0, gate(s, 0, j, x, peephole(s, 0, j) * s->c[j]));
        double f = s->v->coupled ? 1 - i : activate(s, 0, gate(s, 2, j, x, peephole(s, 2, j) * s->c[j]));
        c[j]     = f * s->c[j] + i * activate(s, 1, gate(s, 3, j, x, 0));
        double o = activate(s, 0, gate(s, 1, j, x, peephole(s, 1, j) * c[j]));
        h[j]     = o * s->v->f[s->direction * 3 + 2](c[j]);
    }
    memcpy(s->h, h, sizeof h);
    memcpy(s->c, c, sizeof c);
}

static void step_gru(cell *s, const double *x)
{
    double h[HIDDEN], r[HIDDEN], reset[HIDDEN];
    for (int j = 0; j < HIDDEN; j++) r[j] = activate(s, 0, gate(s, 1, j, x, 0));
    for (int j = 0; j < HIDDEN; j++) reset[j] = r[j] * s->h[j];
    for (int j = 0; j < HIDDEN; j++) {
        int    row    = 2 * HIDDEN + j;
        double z      = activate(s, 0, gate(s, 0, j, x, 0));
        double before = s->v->reset_after ? r[j] * (of_h(s, row, s->h) + bias(s, row, 1))
                                          : of_h(s, row, reset) + bias(s, row, 1);
        double hidden = activate(s, 1, of_x(s, row, x) + before + bias(s, row, 0));
        h[j]          = (1 - z) * hidden + z * s->h[j];
    }
    memcpy(s->h, h, sizeof h);
}

static void step(cell *s, const double *x)
{
    double h[HIDDEN];
    if (s->v->kind == LSTM) {
        step_lstm(s, x);
        return;
    }
    if (s->v->kind == GRU) {
        step_gru(s, x);
        return;
    }
    for (int j = 0; j < HIDDEN; j++) h[j] = activate(s, 0, gate(s, 0, j, x, 0));
    memcpy(s->h, h, sizeof h);
}

typedef struct expected {
    double y[MOST_STEPS * 2 * BATCH * HIDDEN], h[2 * BATCH * HIDDEN], c[2 * BATCH * HIDDEN];
} expected;

/* Sequence `b` in one direction. A sequence that has ended gives 0 and keeps its state. */
static void expect_sequence(const variant *v, const numbers *k, int d, int b, expected *out)
{
    cell s      = {.v = v, .k = k, .direction = d};
    int  states = v->batch_first ? (b * v->n_directions + d) * HIDDEN : (d * BATCH + b) * HIDDEN;
    for (int j = 0; j < HIDDEN && v->has & HAS_STATE; j++) {
        s.h[j] = (double)k->h[states + j];
        s.c[j] = v->kind == LSTM ? (double)k->c[states + j] : 0;
    }
    int n = v->has & HAS_LENGTHS ? k->lengths[b] : v->n_steps;
    for (int i = 0; i < n; i++) {
        int    t = v->is_reverse || d == 1 ? n - 1 - i : i;
        double x[FEATURES];
        int    from = (v->batch_first ? b * v->n_steps + t : t * BATCH + b) * FEATURES;
        for (int j = 0; j < FEATURES; j++) x[j] = (double)k->x[from + j];
        step(&s, x);
        int to = v->batch_first ? ((b * v->n_steps + t) * v->n_directions + d) * HIDDEN
                                : ((t * v->n_directions + d) * BATCH + b) * HIDDEN;
        memcpy(out->y + to, s.h, sizeof s.h);
    }
    memcpy(out->h + states, s.h, sizeof s.h);
    memcpy(out->c + states, s.c, sizeof s.c);
}

/* ---- a file of the variant ---- */

static bytes file_of(const variant *v)
{
    char source[800];
    int  T = v->n_steps, D = v->n_directions, G = n_gates[v->kind] * HIDDEN;
    int  a = v->batch_first ? BATCH : T, b = v->batch_first ? T : BATCH;
    int  e = v->batch_first ? BATCH : D, f = v->batch_first ? D : BATCH;
    snprintf(
        source, sizeof source,
        "in X float[%d,%d,3]; in W float[%d,%d,3]; in R float[%d,%d,2]; in B float[%d,%d]; in L int32[2];"
        "in h float[%d,%d,2]; in c float[%d,%d,2]; in P float[%d,6]; out Y; out Yh; %s"
        "Y, Yh%s = %s(X, W, R, %s, %s, %s%s%s) hidden_size=2 %s",
        a, b, D, G, D, G, D, 2 * G, e, f, e, f, D, v->kind == LSTM ? "out Yc; " : "",
        v->kind == LSTM ? ", Yc" : "", op_names[v->kind], v->has & HAS_BIAS ? "B" : "-",
        v->has & HAS_LENGTHS ? "L" : "-", v->has & HAS_STATE ? "h" : "-",
        v->kind != LSTM      ? ""
        : v->has & HAS_STATE ? ", c"
                             : ", -",
        v->has & HAS_PEEPHOLES ? ", P" : "", v->attributes);
    return model(v->version, graph(source, NULL), none);
}

static void assert_near(const ipu_onnx_value *found, const double *want, int64_t n, const char *what)
{
    assert_int_equal(ipu_array_n_elements(&found->array), n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(ipu_array_value(&found->array, i) - want[i]) < 2e-5))
            fail_msg("%s[%d] is %g; expected %g", what, (int)i, ipu_array_value(&found->array, i), want[i]);
}

static size_t count_ops(const ipu_model *m, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++)
        n += m->ops.at[i].kind == IPU__MODEL_OP && strcmp(m->ops.at[i].def->kernel.name, name) == 0;
    return n;
}

static size_t count_loops(const ipu_model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++) n += m->ops.at[i].kind == IPU__MODEL_LOOP;
    return n;
}

static void check(const variant *v)
{
    static numbers  k;
    static expected want;
    draw(&k, v->n_steps);
    memset(&want, 0, sizeof want);
    for (int d = 0; d < v->n_directions; d++)
        for (int b = 0; b < BATCH; b++) expect_sequence(v, &k, d, b, &want);
    int               T = v->n_steps, D = v->n_directions, G = n_gates[v->kind] * HIDDEN;
    ipu_shape         x     = v->batch_first ? IPU_SHAPE(BATCH, T, FEATURES) : IPU_SHAPE(T, BATCH, FEATURES);
    ipu_shape         state = v->batch_first ? IPU_SHAPE(BATCH, D, HIDDEN) : IPU_SHAPE(D, BATCH, HIDDEN);
    ipu_onnx_value    in[]  = {value(IPU_FLOAT, x, k.x),
                               value(IPU_FLOAT, IPU_SHAPE(D, G, FEATURES), k.w),
                               value(IPU_FLOAT, IPU_SHAPE(D, G, HIDDEN), k.r),
                               value(IPU_FLOAT, IPU_SHAPE(D, 2 * G), k.b),
                               value(IPU_INT32, IPU_SHAPE(BATCH), k.lengths),
                               value(IPU_FLOAT, state, k.h),
                               value(IPU_FLOAT, state, k.c),
                               value(IPU_FLOAT, IPU_SHAPE(D, 3 * HIDDEN), k.p)};
    ipu_onnx         *file;
    ipu_onnx_session *s      = session_of(file_of(v), &file, NULL);
    ipu_onnx_value    out[3] = {{0}};
    size_t            n_out  = v->kind == LSTM ? 3 : 2;
    if (ipu_onnx_session_run(s, in, 8, out, n_out) != IPU_OK) fail_msg("%s", ipu_message());
    assert_near(&out[0], want.y, (int64_t)T * D * BATCH * HIDDEN, "Y");
    assert_near(&out[1], want.h, (int64_t)D * BATCH * HIDDEN, "Y_h");
    if (v->kind == LSTM) assert_near(&out[2], want.c, (int64_t)D * BATCH * HIDDEN, "Y_c");
    static const char *const layers[] = {"rnn", "gru", "lstm"};
    assert_int_equal(count_ops(ipu_onnx_session_model(s), layers[v->kind]), v->is_op ? D : 0);
    assert_int_equal(count_loops(ipu_onnx_session_model(s)), v->n_steps > 32 ? D : 0);
    for (size_t i = 0; i < n_out; i++) ipu_onnx_value_free(&out[i]);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

/* ---- tests ---- */

#define DEFAULTS_RNN \
    {                \
        tanh, tanh   \
    }
#define DEFAULTS_GRU                 \
    {                                \
        sigmoid, tanh, sigmoid, tanh \
    }
#define DEFAULTS_LSTM                            \
    {                                            \
        sigmoid, tanh, tanh, sigmoid, tanh, tanh \
    }

static void what_the_op_library_has_becomes_its_layer(void **state)
{
    (void)state;
    static const variant variants[] = {
        {.kind         = RNN,
         .version      = 7,
         .n_steps      = 3,
         .n_directions = 1,
         .f            = DEFAULTS_RNN,
         .attributes   = "",
         .is_op        = true},
        {.kind         = RNN,
         .version      = 1,
         .n_steps      = 4,
         .n_directions = 2,
         .has          = HAS_BIAS | HAS_STATE,
         .f            = {relu, tanh},
         .attributes   = "direction='bidirectional' activations=['Relu','tanh'] output_sequence=1",
         .is_op        = true},
        {.kind         = GRU,
         .version      = 14,
         .n_steps      = 4,
         .n_directions = 2,
         .has          = HAS_BIAS | HAS_STATE,
         .reset_after  = true,
         .f            = DEFAULTS_GRU,
         .attributes   = "direction='bidirectional' linear_before_reset=1",
         .is_op        = true},
        {.kind         = GRU,
         .version      = 14,
         .n_steps      = 3,
         .n_directions = 1,
         .is_reverse   = true,
         .reset_after  = true,
         .batch_first  = true,
         .has          = HAS_STATE,
         .f            = DEFAULTS_GRU,
         .attributes   = "direction='reverse' linear_before_reset=1 layout=1",
         .is_op        = true},
        {.kind         = LSTM,
         .version      = 7,
         .n_steps      = 5,
         .n_directions = 2,
         .has          = HAS_BIAS | HAS_STATE,
         .f            = DEFAULTS_LSTM,
         .attributes   = "direction='bidirectional'",
         .is_op        = true},
        {.kind         = LSTM,
         .version      = 14,
         .n_steps      = 4,
         .n_directions = 2,
         .batch_first  = true,
         .has          = HAS_BIAS | HAS_STATE,
         .f            = DEFAULTS_LSTM,
         .attributes   = "direction='bidirectional' layout=1",
         .is_op        = true},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) check(&variants[i]);
}

static void what_it_has_not_is_made_of_steps(void **state)
{
    (void)state;
    static const variant variants[] = {
        {.kind         = GRU,
         .version      = 7,
         .n_steps      = 4,
         .n_directions = 2,
         .has          = HAS_BIAS | HAS_STATE,
         .f            = DEFAULTS_GRU,
         .attributes   = "direction='bidirectional'"},
        {.kind         = GRU,
         .version      = 7,
         .n_steps      = 3,
         .n_directions = 1,
         .has          = HAS_BIAS,
         .clip         = 0.5,
         .reset_after  = true,
         .f            = DEFAULTS_GRU,
         .attributes   = "linear_before_reset=1 clip=0.5"},
        {.kind         = LSTM,
         .version      = 7,
         .n_steps      = 4,
         .n_directions = 1,
         .has          = HAS_BIAS | HAS_STATE | HAS_PEEPHOLES,
         .f            = DEFAULTS_LSTM,
         .attributes   = ""},
        {.kind         = LSTM,
         .version      = 7,
         .n_steps      = 3,
         .n_directions = 2,
         .has          = HAS_BIAS | HAS_STATE,
         .coupled      = true,
         .f            = DEFAULTS_LSTM,
         .attributes   = "direction='bidirectional' input_forget=1"},
        {.kind         = LSTM,
         .version      = 1,
         .n_steps      = 3,
         .n_directions = 1,
         .has          = HAS_BIAS | HAS_STATE,
         .clip         = 0.25,
         .f            = DEFAULTS_LSTM,
         .attributes   = "clip=0.25"},
        {.kind         = RNN,
         .version      = 7,
         .n_steps      = 3,
         .n_directions = 1,
         .has          = HAS_BIAS,
         .clip         = 0.5,
         .f            = DEFAULTS_RNN,
         .attributes   = "clip=0.5"},
    };
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) check(&variants[i]);
}

static void sequences_end_at_their_lengths_in_both_directions(void **state)
{
    (void)state;
    unsigned all = HAS_BIAS | HAS_STATE | HAS_LENGTHS;
    variant  v   = {.version      = 14,
                    .n_steps      = 5,
                    .n_directions = 2,
                    .has          = all,
                    .attributes   = "direction='bidirectional'"};
    v.kind       = RNN;
    memcpy(v.f, (scalar_function *[6])DEFAULTS_RNN, sizeof v.f);
    check(&v);
    v.kind = GRU;
    memcpy(v.f, (scalar_function *[6])DEFAULTS_GRU, sizeof v.f);
    check(&v);
    v.kind = LSTM;
    memcpy(v.f, (scalar_function *[6])DEFAULTS_LSTM, sizeof v.f);
    check(&v);
    v.batch_first = true;
    v.attributes  = "direction='bidirectional' layout=1";
    check(&v);
}

static void many_steps_are_a_loop(void **state)
{
    (void)state;
    unsigned all = HAS_BIAS | HAS_STATE | HAS_LENGTHS;
    variant  v   = {.kind = GRU, .version = 14, .n_steps = MOST_STEPS, .n_directions = 2, .f = DEFAULTS_GRU};
    v.has        = all;
    v.attributes = "direction='bidirectional'";
    check(&v);
    v.kind = LSTM;
    v.has |= HAS_PEEPHOLES;
    memcpy(v.f, (scalar_function *[6])DEFAULTS_LSTM, sizeof v.f);
    check(&v);
}

static void every_activation_is_known_with_its_numbers(void **state)
{
    (void)state;
    static const struct {
        scalar_function *f[2];
        const char      *attributes;
    } pairs[] = {
        {{leaky, hard_sigmoid},
         "activations=['LeakyRelu','HardSigmoid'] activation_alpha=[0.25,0.5] activation_beta=[0.25]"},
        {{affine, scaled_tanh},
         "activations=['Affine','ScaledTanh'] activation_alpha=[0.75,1.5] activation_beta=[-0.5,0.5]"},
        {{elu, thresholded}, "activations=['Elu','ThresholdedRelu'] activation_alpha=[0.5,0.25]"},
        {{softsign, softplus}, "activations=['Softsign','Softplus']"},
        {{sigmoid, leaky}, "activations=['Sigmoid','LeakyRelu'] activation_alpha=[0.25]"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char attributes[200];
        snprintf(attributes, sizeof attributes, "direction='bidirectional' %s", pairs[i].attributes);
        variant v = {.kind         = RNN,
                     .version      = 7,
                     .n_steps      = 3,
                     .n_directions = 2,
                     .has          = HAS_BIAS,
                     .attributes   = attributes};
        memcpy(v.f, pairs[i].f, sizeof pairs[i].f);
        check(&v);
    }
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    static float             numbers_of[100];
    const char              *head = "in X float[3,2,3]; in W float[1,2,3]; in R float[1,2,2]; out Y;";
    char                     source[400];
    static const char *const lines[][2] = {
        {"Y = RNN(X, W, R) activations=['Gelu']", "activation \"Gelu\" is not known"},
        {"Y = RNN(X, W, R) direction='sideways'", "expected forward, reverse or bidirectional"},
        {"Y = RNN(X, W, R) direction='bidirectional'", "W has another shape"},
        {"Y = RNN(X, W, R, R)", "B has another shape"},
        {"Y = RNN(X, W, R) direction='bidirectional' activations=['Tanh']", "1 activations; expected 2"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(source, sizeof source, "%s %s", head, lines[i][0]);
        expect_error(model(14, graph(source, NULL), none),
                     VALUES(value(IPU_FLOAT, IPU_SHAPE(3, 2, 3), numbers_of),
                            value(IPU_FLOAT, IPU_SHAPE(1, 2, 3), numbers_of),
                            value(IPU_FLOAT, IPU_SHAPE(1, 2, 2), numbers_of)),
                     IPU_INVALID, lines[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_op_library_has_becomes_its_layer),
        cmocka_unit_test(what_it_has_not_is_made_of_steps),
        cmocka_unit_test(sequences_end_at_their_lengths_in_both_directions),
        cmocka_unit_test(many_steps_are_a_loop),
        cmocka_unit_test(every_activation_is_known_with_its_numbers),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
