/* Stacks of recurrent layers in both directions, run by an engine and compared with torch. */
#include "op/run_bench.h"

#include <math.h>

enum { N = 2, T = 2, I = 3, H = 2, STATES = 4, WEIGHTS = 16, MAX = 64 };

/* The numbers torch was given: eighths between -5/8 and 5/8. */
static ipu_value numbers(bench *t, int seed, ipu_shape shape)
{
    float values[MAX];
    for (int k = 0; k < MAX; k++) values[k] = (float)((k * 7 + seed * 3) % 11 - 5) / 8;
    return bench_floats(t, shape, values);
}

/* Two layers of two directions; the second takes both outputs of the first. */
static void make_weights(bench *t, int n_gates, ipu_value out[WEIGHTS])
{
    for (int i = 0; i < WEIGHTS; i++) {
        ipu_shape bias = IPU_SHAPE(n_gates * H), shape = IPU_SHAPE(n_gates * H, H);
        if (i % 4 == 0) shape.dim[1] = i < 8 ? I : 2 * H;
        out[i] = numbers(t, i + 1, i % 4 < 2 ? shape : bias);
    }
}

static void expect_near(bench *t, int result, const double *expected, int n)
{
    float found[MAX];
    bench_read(t, result, found, (size_t)n * sizeof *found);
    for (int i = 0; i < n; i++)
        if (!(fabs((double)found[i] - expected[i]) <= 2e-6))
            fail_msg("result %d element %d is %.9g, torch has %.9g", result, i, (double)found[i],
                     expected[i]);
}

static const ipu_recurrent_options both_ways = {.n_layers = 2, .bidirectional = true, .batch_first = true};

static void lstm_is_that_of_torch(void **unused)
{
    (void)unused;
    static const double y_of_torch[] = {0.237733291,  -0.199253878,  0.1835919,    -0.106092993,
                                        0.231725254,  -0.305483779,  0.0633490434, -0.0760672155,
                                        0.0164820083, -0.0356400409, 0.238204023,  -0.130899403,
                                        0.110076028,  -0.193560716,  0.245455268,  -0.165432643},
                        h_of_torch[] = {0.0514201149, -0.306676326, 0.15428568,  -0.166292795,
                                        0.134858848,  -0.192813445, 0.146310056, -0.238299811,
                                        0.231725254,  -0.305483779, 0.110076028, -0.193560716,
                                        0.1835919,    -0.106092993, 0.238204023, -0.130899403},
                        c_of_torch[] = {0.0815054528, -0.899832763, 0.197947219, -0.380486205,
                                        0.352986876,  -0.428858018, 0.393130551, -0.513053041,
                                        0.463359188,  -0.603917542, 0.214279452, -0.359308267,
                                        0.346014291,  -0.150736969, 0.492088293, -0.184291855};
    for (int quick = 0; quick < 2; quick++) {
        bench                 t = bench_start();
        ipu_value             weights[WEIGHTS], h_n, c_n;
        ipu_recurrent_options options = both_ways;
        options.no_gradients          = quick;
        make_weights(&t, 4, weights);
        ipu_value y         = ipu_lstm(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, WEIGHTS,
                                       numbers(&t, 31, IPU_SHAPE(STATES, N, H)),
                                       numbers(&t, 32, IPU_SHAPE(STATES, N, H)), options, &h_n, &c_n);
        int       results[] = {bench_result(&t, y), bench_result(&t, h_n), bench_result(&t, c_n)};
        bench_ok(bench_run(&t, "2"));
        expect_near(&t, results[0], y_of_torch, 16);
        expect_near(&t, results[1], h_of_torch, 16);
        expect_near(&t, results[2], c_of_torch, 16);
        bench_end(&t);
    }
}

static void gru_is_that_of_torch(void **unused)
{
    (void)unused;
    static const double y_of_torch[] = {0.32049117,  -0.456056828, 0.145850647,    -0.396793899,
                                        0.362814922, -0.557376492, -0.00507647387, -0.230521519,
                                        0.517105288, -0.270213055, 0.252401532,    -0.525375114,
                                        0.475603623, -0.539274615, 0.154281795,    -0.625402015},
                        h_of_torch[] = {-0.0691617837, -0.670165368, 0.405679778, -0.307474214,
                                        0.136013111,   -0.274461701, 0.134429919, -0.0744678257,
                                        0.362814922,   -0.557376492, 0.475603623, -0.539274615,
                                        0.145850647,   -0.396793899, 0.252401532, -0.525375114};
    bench     t                      = bench_start();
    ipu_value weights[WEIGHTS], h_n;
    make_weights(&t, 3, weights);
    ipu_value y         = ipu_gru(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, WEIGHTS,
                                  numbers(&t, 31, IPU_SHAPE(STATES, N, H)), both_ways, &h_n);
    int       results[] = {bench_result(&t, y), bench_result(&t, h_n)};
    bench_ok(bench_run(&t, "1"));
    expect_near(&t, results[0], y_of_torch, 16);
    expect_near(&t, results[1], h_of_torch, 16);
    bench_end(&t);
}

static void rnn_is_that_of_torch(void **unused)
{
    (void)unused;
    static const double y_of_torch[] = {-0.85383727,  0.783117633, -0.86599101,  -0.285710433,
                                        -0.947734386, 0.968925845, -0.841807759, 0.0266719623,
                                        -0.81838153,  0.741435281, -0.848302172, -0.309821401,
                                        -0.919763084, 0.974649834, -0.750578856, -0.325562595};
    bench               t            = bench_start();
    ipu_value           weights[WEIGHTS];
    make_weights(&t, 1, weights);
    ipu_value y      = ipu_rnn(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, WEIGHTS,
                               numbers(&t, 31, IPU_SHAPE(STATES, N, H)), both_ways, NULL);
    int       result = bench_result(&t, y);
    bench_ok(bench_run(&t, "2"));
    expect_near(&t, result, y_of_torch, 16);
    bench_end(&t);
}

/* Each number that enters the second layer is dropped or doubled: with p near 1 all are dropped, and what is
 * left are biases and state. */
static void dropout_is_between_layers(void **unused)
{
    (void)unused;
    bench                 t       = bench_start();
    ipu_recurrent_options options = {.n_layers = 2, .dropout = 0.999999};
    ipu_value             w[8];
    float                 found[T * N * H];
    for (int i = 0; i < 8; i++)
        w[i] = numbers(&t, i + 1, i % 4 > 1 ? IPU_SHAPE(H) : i == 0 ? IPU_SHAPE(H, I) : IPU_SHAPE(H, H));
    options.seed = bench_input(&t, IPU_UINT32, IPU_SHAPE(2), (uint32_t[]){3, 4});
    ipu_value x  = numbers(&t, 30, IPU_SHAPE(T, N, I));
    int       y  = bench_result(&t, ipu_rnn(t.b, x, w, 8, IPU_NO_VALUE, options, NULL));
    bench_ok(bench_run(&t, "1"));
    bench_read(&t, y, found, sizeof found);
    for (int i = 0; i < H; i++) { /* seeds of the second layer's biases are 7 and 8 */
        double bias = (double)((i * 7 + 21) % 11 - 5) / 8 + (double)((i * 7 + 24) % 11 - 5) / 8;
        assert_true(fabs((double)found[i] - tanh(bias)) < 1e-6 && found[i] == found[H + i]);
    }
    bench_end(&t);
}

static void errors_say_what_was_expected(void **unused)
{
    (void)unused;
    bench     t    = bench_start();
    ipu_value none = IPU_NO_VALUE, weights[WEIGHTS];
    make_weights(&t, 4, weights);
    ipu_lstm(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, 4, none, none, both_ways, NULL, NULL);
    bench_refused(&t, "4 weights: expected 16");
    make_weights(&t, 4, weights);
    ipu_lstm(t.b, numbers(&t, 30, IPU_SHAPE(N, I)), weights, WEIGHTS, none, none, both_ways, NULL, NULL);
    bench_refused(&t, "x must have rank 3, found");
    make_weights(&t, 4, weights);
    ipu_gru(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, WEIGHTS, none, both_ways, NULL);
    bench_refused(&t, "gru: \"w_hh\" must have shape [6,2], found float[8,2]");
    make_weights(&t, 1, weights);
    ipu_recurrent_options dropping = both_ways;
    dropping.dropout               = 0.5;
    ipu_rnn(t.b, numbers(&t, 30, IPU_SHAPE(N, T, I)), weights, WEIGHTS, none, dropping, NULL);
    bench_refused(&t, "ipu_rnn: dropout = 0.5 needs a seed");
    ipu_rnn(t.b, none, weights, WEIGHTS, none, both_ways, NULL);
    bench_refused(&t, "ipu_rnn: the value is null");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lstm_is_that_of_torch),        cmocka_unit_test(gru_is_that_of_torch),
        cmocka_unit_test(rnn_is_that_of_torch),         cmocka_unit_test(dropout_is_between_layers),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
