/* Special functions against libm, round trips, recurrences and series; what is at poles and ends. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/special.h"

typedef ipu_value (*function)(ipu_builder *b, ipu_value x);

static void check(function fn, const double *x, const double *expected, int64_t n)
{
    graph_bench t = graph_start();
    graph_expect(&t, fn(t.b, graph_floats(&t, IPU_SHAPE(n), x)), expected, n);
}

/* fn(x) = expected(x) for n numbers from `low` on, within `limit` of the value or of 1. */
static void check_within(double limit, function fn, double (*expected)(double), double low, double high,
                         int n)
{
    graph_bench t = graph_start();
    double      x[256], y[256];
    for (int i = 0; i < n; i++) x[i] = (double)(float)(low + (high - low) * i / (n - 1));
    assert_int_equal(graph_run(&t, fn(t.b, graph_floats(&t, IPU_SHAPE(n), x)), y, n), IPU_OK);
    graph_end(&t);
    for (int i = 0; i < n; i++) {
        double z = expected(x[i]);
        if (!(fabs(y[i] - z) <= limit * fmax(1, fabs(z))))
            fail_msg("of %.9g: %.9g, expected %.9g", x[i], y[i], z);
    }
}

static void check_range(function fn, double (*expected)(double), double low, double high, int n)
{
    check_within(2e-6, fn, expected, low, high, n);
}

/* ---- what libm has ---- */

static double scaled_erfc(double x) { return exp(x * x) * erfc(x); }
static double log_normal(double x) { return log(0.5 * erfc(-x * sqrt(0.5))); }

static void gamma_and_error_functions_are_those_of_libm(void **unused)
{
    (void)unused;
    check_within(4e-6, ipu_lgamma, lgamma, 0.01, 30, 200); /* terms of 10 cancel below 8 */
    check_within(4e-6, ipu_lgamma, lgamma, -4.9, -4.1, 50);
    check_range(ipu_erfcx, scaled_erfc, -2, 20, 200);
    check_range(ipu_log_ndtr, log_normal, -20, 4, 200);
}

/* ---- logarithms, and products with them ---- */

typedef ipu_value (*function_of_2)(ipu_builder *b, ipu_value x, ipu_value y);

static void check_pairs(function_of_2 fn, const double *x, const double *y, const double *expected, int64_t n)
{
    graph_bench t    = graph_start();
    ipu_value   left = graph_floats(&t, IPU_SHAPE(n), x);
    graph_expect(&t, fn(t.b, left, graph_floats(&t, IPU_SHAPE(n), y)), expected, n);
}

static void products_with_logarithms_are_0_at_0(void **unused)
{
    (void)unused;
    const double x[] = {0, 0, 0, 2, -1, 0, 1}, y[] = {0, -1, INFINITY, 3, 0.5, NAN, 0};
    check_pairs(ipu_xlogy, x, y, (double[]){0, 0, 0, 2 * log(3), -log(0.5), NAN, -INFINITY}, 7);
    check_pairs(ipu_xlog1py, x, y, (double[]){0, 0, 0, 2 * log(4), -log(1.5), NAN, 0}, 7);
    check(ipu_entr, (double[]){-1, 0, 1, 0.5, INFINITY}, (double[]){-INFINITY, 0, 0, 0.5 * log(2), -INFINITY},
          5);
}

static void exponentials_are_added_without_overflow(void **unused)
{
    (void)unused;
    const double x[] = {0, 1000, -INFINITY, INFINITY, -1, 3}, y[] = {0, 999, -INFINITY, INFINITY, -200, NAN};
    check_pairs(ipu_logaddexp, x, y, (double[]){log(2), 1000 + log1p(exp(-1)), -INFINITY, INFINITY, -1, NAN},
                6);
    check_pairs(ipu_logaddexp2, x, y, (double[]){1, 1000 + log2(1.5), -INFINITY, INFINITY, -1, NAN}, 6);
}

static ipu_value sum_of_logaddexp(ipu_builder *b, ipu_value x)
{
    ipu_value y = ipu_logaddexp(b, x, ipu_scalar_like(b, x, 1)), out;
    ipu_emit(b, "reduce_sum", NULL, 0, &y, 1, &out, 1);
    return out;
}

static void the_gradient_of_logaddexp_is_a_share(void **unused)
{
    (void)unused;
    graph_gradient(sum_of_logaddexp, IPU_SHAPE(3), (double[]){1, 3, -2},
                   (double[]){0.5, 1 / (1 + exp(-2)), 1 / (1 + exp(3))});
}

static double    sinc_of(double x) { return x == 0 ? 1 : sin(M_PI * x) / (M_PI * x); }
static double    log_odds(double x) { return log(x) - log1p(-x); }
static ipu_value logit(ipu_builder *b, ipu_value x) { return ipu_logit(b, x, -1); }
static ipu_value logit_inside(ipu_builder *b, ipu_value x) { return ipu_logit(b, x, 0.25); }

static void sinc_and_logit_are_those_of_libm(void **unused)
{
    (void)unused;
    check_range(ipu_sinc, sinc_of, -6, 6, 241); /* 0 is among them */
    check_range(logit, log_odds, 0.01, 0.99, 99);
    check(logit, (double[]){0, 1, 0.5, 2}, (double[]){-INFINITY, INFINITY, 0, NAN}, 4);
    check(logit_inside, (double[]){-1, 0.5, 7}, (double[]){-log(3), 0, log(3)}, 3);
}

/* ---- round trips ---- */

static ipu_value there_and_back(ipu_builder *b, ipu_value x) { return ipu_erf(b, ipu_erfinv(b, x)); }

static ipu_value probability_of_quantile(ipu_builder *b, ipu_value x)
{
    return ipu_exp(b, ipu_log_ndtr(b, ipu_ndtri(b, x)));
}

static double same(double x) { return x; }

static void inverses_lead_back(void **unused)
{
    (void)unused;
    check_range(there_and_back, same, -0.99999, 0.99999, 200);
    check_range(probability_of_quantile, same, 0.0001, 0.9999, 200);
}

/* ---- recurrences and series ---- */

/* From 30 down by digamma(x) = digamma(x + 1) - 1 / x. */
static double slope_of_lgamma(double x)
{
    double below = 0;
    for (; x < 30; x++) below += 1 / x;
    return log(x) - 1 / (2 * x) - 1 / (12 * x * x) + 1 / (120 * x * x * x * x) - below;
}

static double bend_of_lgamma(double x)
{
    double below = 0;
    for (; x < 30; x++) below += 1 / (x * x);
    return below + 1 / x + 1 / (2 * x * x) + 1 / (6 * x * x * x) - 1 / (30 * pow(x, 5));
}

static double bessel(double x, int order)
{
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; k < 80; k++) sum += term *= x * x / 4 / k / (k + order);
    return sum;
}

static double bessel_0(double x) { return bessel(x, 0); }
static double bessel_1(double x) { return bessel(x, 1); }
static double scaled_bessel_0(double x) { return exp(-fabs(x)) * bessel(x, 0); }
static double scaled_bessel_1(double x) { return exp(-fabs(x)) * bessel(x, 1); }

static ipu_value trigamma(ipu_builder *b, ipu_value x) { return ipu_polygamma(b, x, 1); }
static ipu_value of_order_0(ipu_builder *b, ipu_value x) { return ipu_polygamma(b, x, 0); }

static void derivatives_of_lgamma_follow_their_recurrence(void **unused)
{
    (void)unused;
    const double euler = 0.57721566490153286;
    check(ipu_digamma, (double[]){1, 0.5, -0.5, 0, -1, -7},
          (double[]){-euler, -euler - 2 * log(2), 2 - euler - 2 * log(2), -INFINITY, NAN, NAN}, 6);
    check(trigamma, (double[]){1, 0.5, -0.5},
          (double[]){M_PI * M_PI / 6, M_PI * M_PI / 2, M_PI * M_PI / 2 + 4}, 3);
    check_range(ipu_digamma, slope_of_lgamma, 0.1, 20, 200);
    check_range(of_order_0, slope_of_lgamma, 0.1, 20, 50);
    check_range(trigamma, bend_of_lgamma, 0.1, 20, 200);
}

static void bessel_functions_are_their_series(void **unused)
{
    (void)unused;
    check_range(ipu_i0, bessel_0, -9, 9, 200);
    check_range(ipu_i1, bessel_1, -9, 9, 200);
    check_range(ipu_i0e, scaled_bessel_0, -20, 20, 200);
    check_range(ipu_i1e, scaled_bessel_1, -20, 20, 200);
}

static ipu_value of_3_dimensions(ipu_builder *b, ipu_value x) { return ipu_mvlgamma(b, x, 3); }

static double product_of_3(double x) { return 1.5 * log(M_PI) + lgamma(x) + lgamma(x - 0.5) + lgamma(x - 1); }

static void mvlgamma_is_a_sum_of_lgamma(void **unused)
{
    (void)unused;
    check_within(1e-5, of_3_dimensions, product_of_3, 1.2, 15, 100);
}

/* ---- ends ---- */

static void ends_are_infinite_and_what_is_beyond_is_none(void **unused)
{
    (void)unused;
    check(ipu_erfinv, (double[]){-1, 0, 1, 2}, (double[]){-INFINITY, 0, INFINITY, NAN}, 4);
    check(ipu_ndtri, (double[]){0, 0.5, 1, -1}, (double[]){-INFINITY, 0, INFINITY, NAN}, 4);
    check(ipu_lgamma, (double[]){0, -1, 1, 2}, (double[]){INFINITY, INFINITY, 0, 0}, 4);
    check(ipu_erfcx, (double[]){0, INFINITY}, (double[]){1, 0}, 2);
}

static ipu_value sum_of_erfinv(ipu_builder *b, ipu_value x)
{
    ipu_value out;
    ipu_value y = ipu_erfinv(b, x);
    ipu_emit(b, "reduce_sum", NULL, 0, &y, 1, &out, 1);
    return out;
}

/* The slope of the inverse is sqrt(pi) / 2 exp(y^2). */
static void the_slope_of_erfinv_is_that_of_the_inverse(void **unused)
{
    (void)unused;
    const double y[] = {0, 0.5, -1};
    double       x[3], d[3];
    for (int i = 0; i < 3; i++) {
        x[i] = erf(y[i]);
        d[i] = sqrt(M_PI) / 2 * exp(y[i] * y[i]);
    }
    graph_gradient(sum_of_erfinv, IPU_SHAPE(3), x, d);
}

/* ---- integers ---- */

static ipu_value divisors(graph_bench *t, ipu_value (*fn)(ipu_builder *b, ipu_value x, ipu_value y))
{
    *t            = graph_start();
    ipu_value x   = graph_labels(t, IPU_SHAPE(6), (int32_t[]){12, -12, 0, 0, 17, 1134903170});
    ipu_value y   = graph_labels(t, IPU_SHAPE(6), (int32_t[]){18, 18, 5, 0, 5, 701408733});
    ipu_value out = fn(t->b, x, y);
    return ipu_cast(t->b, out, IPU_FLOAT);
}

/* The last pair are the largest Fibonacci numbers of 32 bits: Euclid's algorithm takes longest. */
static void common_divisors_and_multiples(void **unused)
{
    (void)unused;
    graph_bench t;
    ipu_value   v = divisors(&t, ipu_gcd);
    graph_expect(&t, v, GRAPH_VALUES(6, 6, 5, 0, 1, 1));
    t = graph_start();
    v = ipu_lcm(t.b, graph_labels(&t, IPU_SHAPE(4, 1), (int32_t[]){4, -4, 0, 7}),
                graph_labels(&t, IPU_SHAPE(1), (int32_t[]){6}));
    graph_expect(&t, ipu_cast(t.b, v, IPU_FLOAT), GRAPH_VALUES(12, 12, 0, 42));
}

static void orders_that_there_are_not_are_refused(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(1), (double[]){1});
    graph_refused(&t, ipu_polygamma(t.b, x, 2), "order 2 is not supported, only 0 and 1");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(1), (double[]){1});
    graph_refused(&t, ipu_mvlgamma(t.b, x, 0), "p = 0: expected 1 to 1000");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(1), (double[]){1});
    graph_refused(&t, ipu_mvlgamma(t.b, x, 1001), "p = 1001: expected 1 to 1000");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(1), (double[]){1});
    graph_refused(&t, ipu_gcd(t.b, x, x), "\"x\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gamma_and_error_functions_are_those_of_libm),
        cmocka_unit_test(products_with_logarithms_are_0_at_0),
        cmocka_unit_test(exponentials_are_added_without_overflow),
        cmocka_unit_test(the_gradient_of_logaddexp_is_a_share),
        cmocka_unit_test(sinc_and_logit_are_those_of_libm),
        cmocka_unit_test(inverses_lead_back),
        cmocka_unit_test(derivatives_of_lgamma_follow_their_recurrence),
        cmocka_unit_test(bessel_functions_are_their_series),
        cmocka_unit_test(mvlgamma_is_a_sum_of_lgamma),
        cmocka_unit_test(ends_are_infinite_and_what_is_beyond_is_none),
        cmocka_unit_test(the_slope_of_erfinv_is_that_of_the_inverse),
        cmocka_unit_test(common_divisors_and_multiples),
        cmocka_unit_test(orders_that_there_are_not_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
