/* Random numbers: their distributions, what they depend on and what not, and errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

enum { N = 40000 };

typedef ipu_value (*draw_fn)(ipu_builder *b, ipu_value seed);

static ipu_value uniform(ipu_builder *b, ipu_value seed)
{
    return ipu_random_uniform(b, seed, IPU_FLOAT, IPU_SHAPE(N), -1, 3);
}

static ipu_value normal(ipu_builder *b, ipu_value seed)
{
    return ipu_random_normal(b, seed, IPU_FLOAT, IPU_SHAPE(N), 5, 2);
}

static ipu_value bernoulli(ipu_builder *b, ipu_value seed)
{
    return ipu_random_bernoulli(b, seed, IPU_FLOAT, IPU_SHAPE(N), 0.3);
}

static ipu_value whole(ipu_builder *b, ipu_value seed)
{
    return ipu_cast(b, ipu_random_int(b, seed, IPU_INT32, IPU_SHAPE(N), -2, 4), IPU_FLOAT);
}

static ipu_value dropped(ipu_builder *b, ipu_value seed)
{
    return ipu_dropout(b, ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(N), 1), seed, 0.25);
}

/* A second op of the same kind. */
static ipu_value second(ipu_builder *b, ipu_value seed)
{
    uniform(b, seed);
    return uniform(b, seed);
}

static void draw(draw_fn fn, uint32_t seed, uint32_t step, const char *threads, float *out)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_builder    *b;
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_options    *options;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    ipu_program p = ipu_program_sequence(g);
    assert_int_equal(ipu_builder_create(g, p, &b), IPU_OK);
    ipu_value s = ipu_constant_data(b, IPU_UINT32, IPU_SHAPE(2), (uint32_t[]){seed, step});
    ipu_graph_add_host_read(g, "out", ipu_value_tensor(fn(b, s)));
    if (ipu_builder_status(b) != IPU_OK) fail_msg("%s", ipu_builder_message(b));
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", threads), IPU_OK);
    assert_int_equal(ipu_executable_compile(g, &p, 1, options, &exe), IPU_OK);
    assert_int_equal(ipu_engine_create(exe, options, &e), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "out", out, N * sizeof *out), IPU_OK);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    ipu_builder_destroy(b);
    ipu_graph_destroy(g);
}

typedef struct moments {
    double mean, variance, least, most;
} moments;

static moments moments_of(const float *x)
{
    moments m = {.least = x[0], .most = x[0]};
    for (int i = 0; i < N; i++) {
        m.mean += (double)x[i] / N;
        m.least = fmin(m.least, (double)x[i]);
        m.most  = fmax(m.most, (double)x[i]);
    }
    for (int i = 0; i < N; i++) m.variance += ((double)x[i] - m.mean) * ((double)x[i] - m.mean) / N;
    return m;
}

static void check(draw_fn fn, double mean, double variance, double least, double most)
{
    static float x[N];
    draw(fn, 1, 0, "2", x);
    moments m = moments_of(x);
    /* Five standard deviations of a mean of N; variances scatter at most twice as far, in these cases. */
    double scatter = 5 * sqrt(variance / N);
    if (fabs(m.mean - mean) > scatter) fail_msg("mean %g, expected %g", m.mean, mean);
    if (fabs(m.variance - variance) > 2 * scatter * sqrt(variance))
        fail_msg("variance %g, expected %g", m.variance, variance);
    if (m.least < least || m.most > most) fail_msg("found %g to %g", m.least, m.most);
}

static void numbers_have_the_distribution_they_say(void **state)
{
    (void)state;
    check(uniform, 1, 16. / 12, -1, 3);
    check(normal, 5, 4, 5 - 12, 5 + 12);
    check(bernoulli, 0.3, 0.21, 0, 1);
    check(whole, 0.5, 35. / 12, -2, 3);
    check(dropped, 1, 1. / 3, 0, 4. / 3 + 1e-6); /* x / (1 - p) or 0: the mean stays */
}

/* Neighbours, also those that share a word pair of Box and Muller's, have nothing to do with each other. */
static void neighbours_are_not_correlated(void **state)
{
    (void)state;
    static float x[N];
    draw(normal, 7, 3, "1", x);
    for (int apart = 1; apart <= 5; apart++) {
        double sum = 0;
        for (int i = 0; i + apart < N; i++) sum += ((double)x[i] - 5) * ((double)x[i + apart] - 5) / 4;
        if (fabs(sum / N) > 5 / sqrt(N)) fail_msg("%d apart: correlation %g", apart, sum / N);
    }
}

static void seed_step_and_op_decide_and_threads_do_not(void **state)
{
    (void)state;
    static float first[N], other[N];
    draw(uniform, 1, 0, "1", first);
    draw(uniform, 1, 0, "2", other);
    assert_memory_equal(first, other, sizeof first);
    draw(uniform, 2, 0, "1", other);
    assert_memory_not_equal(first, other, sizeof first);
    draw(uniform, 1, 1, "1", other);
    assert_memory_not_equal(first, other, sizeof first);
    draw(second, 1, 0, "1", other);
    assert_memory_not_equal(first, other, sizeof first);
}

static void refuse(ipu_value v, const char *why)
{
    assert_int_equal(v.id, 0);
    if (!strstr(ipu_builder_message(v.builder), why))
        fail_msg("expected \"%s\" in \"%s\"", why, ipu_builder_message(v.builder));
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        ipu_model *m;
        assert_int_equal(ipu_model_create(&m), IPU_OK);
        ipu_builder *b    = ipu_model_builder(m);
        ipu_value    seed = ipu_model_seed(m), x = ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(3), 0);
        switch (i) {
        case 0: refuse(ipu_dropout(b, x, seed, 1.5), "p = 1.5: expected a probability"); break;
        case 1: refuse(ipu_dropout(b, x, x, 0.5), "\"seed\" must be uint32"); break;
        case 2:
            refuse(ipu_random_int(b, seed, IPU_UINT8, IPU_SHAPE(3), 0, 300), "low < high that the type");
            break;
        default: refuse(ipu_random_normal(b, seed, IPU_INT32, IPU_SHAPE(3), 0, 1), "found int32"); break;
        }
        ipu_model_destroy(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_have_the_distribution_they_say),
        cmocka_unit_test(neighbours_are_not_correlated),
        cmocka_unit_test(seed_step_and_op_decide_and_threads_do_not),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
