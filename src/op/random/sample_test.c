/* Distributions given as inputs: how often each outcome is drawn, and that a seed determines the draws. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

static ipu_value seed(bench *t, uint32_t value)
{
    return bench_input(t, IPU_UINT32, IPU_SHAPE(2), ((const uint32_t[]){value, 0}));
}

/* Of n draws, p n of them within five standard deviations. */
static void expect_share(int64_t found, double n, double p)
{
    double limit = 5 * sqrt(n * p * (1 - p));
    if (!(fabs((double)found - n * p) <= limit))
        fail_msg("%lld of %g, expected %g within %g", (long long)found, n, n * p, limit);
}

static void each_element_has_its_own_probability(void **unused)
{
    (void)unused;
    enum { N = 8000 };
    static float  p[4 * N];
    static int8_t found[4 * N];
    const double  shares[] = {0, 0.1, 0.7, 1};
    int64_t       count[4] = {0};
    for (int i = 0; i < 4 * N; i++) p[i] = (float)shares[i % 4];
    bench t = bench_start();
    int r = bench_result(&t, ipu_bernoulli(t.b, bench_floats(&t, IPU_SHAPE(N, 4), p), seed(&t, 5), IPU_INT8));
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, r, found, sizeof found);
    for (int i = 0; i < 4 * N; i++) {
        assert_true(found[i] == 0 || found[i] == 1);
        count[i % 4] += found[i];
    }
    for (int k = 0; k < 4; k++) expect_share(count[k], N, shares[k]);
    bench_end(&t);
}

static void classes_are_drawn_by_their_exponentials(void **unused)
{
    (void)unused;
    enum { N = 20000 };
    static int64_t found[2 * N];
    const double   shares[2][3] = {{0.2, 0.3, 0.5}, {0, 0.25, 0.75}};
    float          x[6];
    int64_t        count[2][3] = {{0}};
    for (int i = 0; i < 6; i++)
        x[i] = (float)log(shares[i / 3][i % 3]) + 90; /* e^90 alone is more than a float */
    bench t = bench_start();
    int   r = bench_result(&t, ipu_multinomial(t.b, bench_floats(&t, IPU_SHAPE(2, 3), x), seed(&t, 5), N,
                                               IPU_INT64));
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, r, found, sizeof found);
    for (int i = 0; i < 2 * N; i++) {
        assert_in_range(found[i], 0, 2);
        count[i / N][found[i]]++;
    }
    for (int i = 0; i < 6; i++) expect_share(count[i / 3][i % 3], N, shares[i / 3][i % 3]);
    bench_end(&t);
}

static void a_seed_draws_the_same_and_another_does_not(void **unused)
{
    (void)unused;
    enum { N = 64 };
    static float p[N];
    uint8_t      found[4][N];
    for (int i = 0; i < N; i++) p[i] = 0.5f;
    for (int i = 0; i < 4; i++) { /* the last draws second in its builder */
        bench     t = bench_start();
        ipu_value x = bench_floats(&t, IPU_SHAPE(N), p), s = seed(&t, i == 2 ? 8 : 7);
        if (i == 3) ipu_bernoulli(t.b, x, s, IPU_UINT8);
        int r = bench_result(&t, ipu_bernoulli(t.b, x, s, IPU_UINT8));
        bench_ok(bench_run(&t, "1"));
        bench_read(&t, r, found[i], N);
        bench_end(&t);
    }
    assert_memory_equal(found[0], found[1], N);
    assert_memory_not_equal(found[0], found[2], N);
    assert_memory_not_equal(found[0], found[3], N);
}

static void nothing_to_draw_from_is_refused(void **unused)
{
    (void)unused;
    bench t = bench_start();
    ipu_multinomial(t.b, bench_floats(&t, IPU_SHAPE(2, 0), ((float[1]){0})), seed(&t, 1), 1, IPU_INT32);
    bench_refused(&t, "samples = 1 of 0 classes");
    ipu_multinomial(t.b, bench_floats(&t, IPU_SHAPE(1, 1), ((float[1]){0})), seed(&t, 1), 1, IPU_INT8);
    bench_refused(&t, "type int8: expected int32 or int64");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_has_its_own_probability),
        cmocka_unit_test(classes_are_drawn_by_their_exponentials),
        cmocka_unit_test(a_seed_draws_the_same_and_another_does_not),
        cmocka_unit_test(nothing_to_draw_from_is_refused),
    };
    return cmocka_run_group_tests_name("random_sample", tests, NULL, NULL);
}
