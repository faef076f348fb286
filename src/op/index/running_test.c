/* Running extremes and logarithms of sums, by hand. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/sort.h"

static ipu_value as_float(graph_bench *t, ipu_value v) { return ipu_cast(t->b, v, IPU_FLOAT); }

/* ---- sums of exponentials ---- */

static void sums_of_exponentials_do_not_overflow(void **unused)
{
    (void)unused;
    const double x[] = {-INFINITY, 0, 1, 500, 499, -3, 500};
    double       y[7], sum = 0;
    for (int i = 0; i < 7; i++) {
        sum += exp(x[i] - 500);
        y[i] = 500 + log(sum);
    }
    y[1]          = 0; /* far below 500 the sum above has no digits left */
    y[2]          = log(1 + exp(1));
    graph_bench t = graph_start();
    graph_expect(&t, ipu_logcumsumexp(t.b, graph_floats(&t, IPU_SHAPE(7), x), 0), y, 7);
    t = graph_start();
    graph_expect(&t, ipu_logcumsumexp(t.b, graph_floats(&t, IPU_SHAPE(2, 1), (double[]){3, 4}), -1),
                 GRAPH_VALUES(3, 4));
    t = graph_start();
    graph_refused(&t, ipu_logcumsumexp(t.b, graph_labels(&t, IPU_SHAPE(1), (int32_t[]){1}), 0), "\"x\"");
}

static ipu_value last_of_3(ipu_builder *b, ipu_value x)
{
    ipu_value last = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(3), (float[]){0, 0, 1});
    return ipu_reduce_sum(b, ipu_mul(b, ipu_logcumsumexp(b, x, 0), last), NULL, 0, false);
}

/* The slope of the logarithm of a sum of exponentials is their softmax. */
static void the_gradient_is_a_softmax(void **unused)
{
    (void)unused;
    double sum = exp(0.5) + exp(-1) + exp(2);
    graph_gradient(last_of_3, IPU_SHAPE(3), (double[]){0.5, -1, 2},
                   (double[]){exp(0.5) / sum, exp(-1) / sum, exp(2) / sum});
}

/* ---- extremes ---- */

static void check(bool is_max, const double *x, const double *values, const double *places, int64_t n)
{
    for (int which = 0; which < 2; which++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(n), x), at, y;
        y             = is_max ? ipu_cummax(t.b, v, 0, &at) : ipu_cummin(t.b, v, 0, &at);
        graph_expect(&t, which ? as_float(&t, at) : y, which ? places : values, n);
    }
}

static void of_equal_extremes_the_last_counts(void **unused)
{
    (void)unused;
    const double x[] = {2, 1, 2, 3, 0, 3, -1};
    check(true, x, (double[]){2, 2, 2, 3, 3, 3, 3}, (double[]){0, 0, 2, 3, 3, 5, 5}, 7);
    check(false, x, (double[]){2, 1, 1, 1, 0, 0, -1}, (double[]){0, 1, 1, 1, 4, 4, 6}, 7);
}

static void a_nan_stays_until_the_next(void **unused)
{
    (void)unused;
    check(true, (double[]){1, NAN, 5, NAN, 2}, (double[]){1, NAN, NAN, NAN, NAN}, (double[]){0, 1, 1, 3, 3},
          5);
}

static void extremes_are_of_whole_numbers_and_of_bool_too(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_labels(&t, IPU_SHAPE(2, 3), (int32_t[]){3, -1, 4, 1, 5, 0});
    graph_expect(&t, as_float(&t, ipu_cummin(t.b, x, 1, NULL)), GRAPH_VALUES(3, -1, -1, 1, 1, 0));
    t = graph_start();
    x = ipu_cast(t.b, graph_labels(&t, IPU_SHAPE(4), (int32_t[]){0, 1, 0, 1}), IPU_BOOL);
    x = ipu_cummax(t.b, x, 0, NULL);
    assert_int_equal(ipu_value_type(x), IPU_BOOL);
    graph_expect(&t, as_float(&t, x), GRAPH_VALUES(0, 1, 1, 1));
    t = graph_start();
    x = graph_floats(&t, IPU_SCALAR, (double[]){1});
    graph_refused(&t, ipu_cummax(t.b, x, 0, NULL), "cummax");
}

static ipu_value sum_of_largest(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_cummax(b, x, 0, NULL), NULL, 0, false);
}

static void the_gradient_goes_to_the_extremes(void **unused)
{
    (void)unused;
    graph_gradient(sum_of_largest, IPU_SHAPE(5), (double[]){1, 0, 3, 3, 2}, (double[]){2, 0, 1, 2, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_exponentials_do_not_overflow),
        cmocka_unit_test(the_gradient_is_a_softmax),
        cmocka_unit_test(of_equal_extremes_the_last_counts),
        cmocka_unit_test(a_nan_stays_until_the_next),
        cmocka_unit_test(extremes_are_of_whole_numbers_and_of_bool_too),
        cmocka_unit_test(the_gradient_goes_to_the_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
