/* Composed distributions: means and variances of many draws; what dropout keeps; seeds of loops. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

enum { N = 20000 };

static ipu_value seed(bench *t)
{
    return bench_input(t, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){7, 3}));
}

static void draw(bench *t, ipu_value v, float *found, int64_t n)
{
    int r = bench_result(t, v);
    bench_ok(bench_run(t, "2"));
    bench_read(t, r, found, (size_t)n * sizeof *found);
    bench_end(t);
}

/* Mean and variance of n draws, the mean within five of its standard deviations, the variance within a tenth. */
static void expect_moments(const float *x, int64_t n, double mean, double variance)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i];
    for (int64_t i = 0; i < n; i++)
        squares += ((double)x[i] - sum / (double)n) * ((double)x[i] - sum / (double)n);
    if (!(fabs(sum / (double)n - mean) <= 5 * sqrt(variance / (double)n)))
        fail_msg("mean %g, expected %g", sum / (double)n, mean);
    if (!(fabs(squares / (double)n - variance) <= 0.1 * variance))
        fail_msg("variance %g, expected %g", squares / (double)n, variance);
}

static float drawn[N];

static void waiting_times_and_trials_have_their_moments(void **unused)
{
    (void)unused;
    bench t = bench_start();
    draw(&t, ipu_random_exponential(t.b, seed(&t), IPU_FLOAT, IPU_SHAPE(N), 4), drawn, N);
    expect_moments(drawn, N, 0.25, 1.0 / 16);
    t = bench_start();
    draw(&t, ipu_random_geometric(t.b, seed(&t), IPU_FLOAT, IPU_SHAPE(N), 0.25), drawn, N);
    expect_moments(drawn, N, 4, 12);
    for (int i = 0; i < N; i++) assert_true(drawn[i] >= 1 && drawn[i] == floorf(drawn[i]));
    t = bench_start();
    draw(&t, ipu_random_log_normal(t.b, seed(&t), IPU_FLOAT, IPU_SHAPE(N), 0.5, 0.5), drawn, N);
    expect_moments(drawn, N, exp(0.625), (exp(0.25) - 1) * exp(1.25));
}

/* It has no mean: half of it is within sigma of the median. */
static void half_of_a_cauchy_distribution_is_near_its_median(void **unused)
{
    (void)unused;
    bench t = bench_start();
    int   n = 0, below = 0;
    draw(&t, ipu_random_cauchy(t.b, seed(&t), IPU_FLOAT, IPU_SHAPE(N), 3, 2), drawn, N);
    for (int i = 0; i < N; i++) {
        n += drawn[i] > 1 && drawn[i] < 5;
        below += drawn[i] < 3;
    }
    assert_true(abs(n - N / 2) < 5 * sqrt(N) / 2 && abs(below - N / 2) < 5 * sqrt(N) / 2);
}

static ipu_value alike(bench *t, float value)
{
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = value;
    return bench_floats(t, IPU_SHAPE(N), x);
}

static void orders_and_rates_are_those_of_each_element(void **unused)
{
    (void)unused;
    const float orders[] = {0.3f, 1, 7}, rates[] = {0.5f, 11, 40};
    for (int i = 0; i < 3; i++) {
        bench t = bench_start();
        draw(&t, ipu_random_gamma(t.b, alike(&t, orders[i]), seed(&t)), drawn, N);
        expect_moments(drawn, N, (double)orders[i], (double)orders[i]);
        t = bench_start();
        draw(&t, ipu_random_poisson(t.b, alike(&t, rates[i]), seed(&t)), drawn, N);
        expect_moments(drawn, N, (double)rates[i], (double)rates[i]);
        for (int k = 0; k < N; k++) assert_true(drawn[k] >= 0 && drawn[k] == floorf(drawn[k]));
    }
}

static void rows_of_a_dirichlet_distribution_add_up_to_1(void **unused)
{
    (void)unused;
    enum { ROWS = N / 2 };
    static float order[N], first[ROWS];
    for (int i = 0; i < N; i++) order[i] = i % 2 ? 3 : 1;
    bench t = bench_start();
    draw(&t, ipu_random_dirichlet(t.b, bench_floats(&t, IPU_SHAPE(ROWS, 2), order), seed(&t)), drawn, N);
    for (int i = 0; i < ROWS; i++) {
        first[i] = drawn[2 * i];
        assert_true(fabs((double)drawn[2 * i] + (double)drawn[2 * i + 1] - 1) < 1e-6);
    }
    expect_moments(first, ROWS, 0.25, 0.25 * 0.75 / 5);
}

static void no_class_is_drawn_twice(void **unused)
{
    (void)unused;
    enum { ROWS = 5000 };
    static float   x[ROWS * 3];
    static int32_t found[ROWS * 2], order[ROWS];
    int            first      = 0;
    bool           seen[ROWS] = {false};
    for (int i = 0; i < ROWS * 3; i++) x[i] = i % 3 ? 0 : logf(2); /* twice as likely as each of the others */
    bench t = bench_start();
    int   r = bench_result(&t,
                           ipu_multinomial_distinct(t.b, bench_floats(&t, IPU_SHAPE(ROWS, 3), x), seed(&t), 2));
    int   s = bench_result(&t, ipu_random_permutation(t.b, seed(&t), ROWS));
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, r, found, sizeof found);
    bench_read(&t, s, order, sizeof order);
    bench_end(&t);
    for (int i = 0; i < ROWS; i++) {
        assert_in_range(found[2 * i], 0, 2);
        assert_in_range(found[2 * i + 1], 0, 2);
        assert_int_not_equal(found[2 * i], found[2 * i + 1]);
        first += found[2 * i] == 0;
        assert_in_range(order[i], 0, ROWS - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
    assert_true(abs(first - ROWS / 2) < 5 * sqrt(ROWS) / 2);
}

/* ---- dropout ---- */

static void channels_drop_out_as_one(void **unused)
{
    (void)unused;
    enum { CHANNELS = N / 4 };
    int   left = 0;
    bench t    = bench_start();
    draw(&t,
         ipu_channel_dropout(t.b, ipu_reshape(t.b, alike(&t, 3), IPU_SHAPE(5, CHANNELS / 5, 4)), seed(&t),
                             0.25),
         drawn, N);
    for (int i = 0; i < CHANNELS; i++) {
        for (int k = 1; k < 4; k++) assert_true(drawn[4 * i + k] == drawn[4 * i]);
        assert_true(drawn[4 * i] == 0 || drawn[4 * i] == 4);
        left += drawn[4 * i] > 0;
    }
    assert_true(fabs(left - 0.75 * CHANNELS) < 5 * sqrt(0.1875 * CHANNELS));
}

static void alpha_dropout_keeps_mean_and_variance(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value s = seed(&t), x = ipu_random_normal(t.b, s, IPU_FLOAT, IPU_SHAPE(N), 0, 1);
    draw(&t, ipu_alpha_dropout(t.b, x, s, 0.3, false), drawn, N);
    expect_moments(drawn, N, 0, 1);
    t = bench_start();
    draw(&t, ipu_alpha_dropout(t.b, alike(&t, 5), seed(&t), 1, false), drawn, N);
    for (int i = 0; i < N; i++) assert_true(drawn[i] == 0);
}

/* ---- loops ---- */

static void each_turn_has_a_seed_of_its_own(void **unused)
{
    (void)unused;
    const uint32_t ratio  = UINT32_C(0x9E3779B9),
                   eighth = ratio * ratio * ratio * ratio * ratio * ratio * ratio * ratio;
    const struct {
        int32_t  turn;
        int      depth;
        uint32_t apart;
    } cases[] = {
        {0, 0, ratio}, {1, 0, 2 * ratio}, {2, 1, 3 * (ratio * ratio)}, {0, 7, eighth}, {0, INT32_MAX, 1}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        uint32_t  found[2];
        bench     t    = bench_start();
        ipu_value turn = bench_input(&t, IPU_INT32, IPU_SCALAR, ((const int32_t[]){cases[i].turn}));
        int       r    = bench_result(&t, ipu_seed_of_turn(t.b, seed(&t), turn, cases[i].depth));
        bench_ok(bench_run(&t, "1"));
        bench_read(&t, r, found, sizeof found);
        bench_end(&t);
        assert_int_equal(found[0], 7 + cases[i].apart);
        assert_int_equal(found[1], 3);
    }
}

static void what_is_no_probability_or_rate_is_refused(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   s = ipu_constant_data(t.b, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){1, 2}));
    graph_refused(&t, ipu_random_exponential(t.b, s, IPU_FLOAT, IPU_SHAPE(2), 0),
                  "rate = 0: expected more than 0");
    t = graph_start();
    s = ipu_constant_data(t.b, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){1, 2}));
    graph_refused(&t, ipu_random_geometric(t.b, s, IPU_FLOAT, IPU_SHAPE(2), 1.5), "expected a probability");
    t = graph_start();
    s = ipu_constant_data(t.b, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){1, 2}));
    graph_refused(&t, ipu_random_cauchy(t.b, s, IPU_INT32, IPU_SHAPE(2), 0, 1),
                  "expected half, bfloat16, float or double");
    t = graph_start();
    s = ipu_constant_data(t.b, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){1, 2}));
    graph_refused(&t,
                  ipu_multinomial_distinct(t.b, graph_floats(&t, IPU_SHAPE(3), (double[]){1, 2, 3}), s, 4),
                  "samples = 4 of 3 classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_times_and_trials_have_their_moments),
        cmocka_unit_test(half_of_a_cauchy_distribution_is_near_its_median),
        cmocka_unit_test(orders_and_rates_are_those_of_each_element),
        cmocka_unit_test(rows_of_a_dirichlet_distribution_add_up_to_1),
        cmocka_unit_test(no_class_is_drawn_twice),
        cmocka_unit_test(channels_drop_out_as_one),
        cmocka_unit_test(alpha_dropout_keeps_mean_and_variance),
        cmocka_unit_test(each_turn_has_a_seed_of_its_own),
        cmocka_unit_test(what_is_no_probability_or_rate_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
