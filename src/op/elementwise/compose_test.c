/* Elementwise functions made of others: against libm, at edges by hand, and gradients where PyTorch chose one. */
#include "op/graph_test.h"

#include <float.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"

typedef ipu_value (*function)(ipu_builder *b, ipu_value x);
typedef ipu_value (*function_of_2)(ipu_builder *b, ipu_value x, ipu_value y);

static void check(function fn, const double *x, const double *expected, int64_t n)
{
    graph_bench t = graph_start();
    graph_expect(&t, fn(t.b, graph_floats(&t, IPU_SHAPE(n), x)), expected, n);
}

static void check_pairs(function_of_2 fn, const double *x, const double *y, const double *expected, int64_t n)
{
    graph_bench t    = graph_start();
    ipu_value   left = graph_floats(&t, IPU_SHAPE(n), x);
    graph_expect(&t, fn(t.b, left, graph_floats(&t, IPU_SHAPE(n), y)), expected, n);
}

static ipu_value sum(ipu_builder *b, ipu_value x) { return ipu_reduce_sum(b, x, NULL, 0, false); }

/* ---- rounding ---- */

static ipu_value to_tenths(ipu_builder *b, ipu_value x) { return ipu_round_to(b, x, 1); }
static ipu_value to_hundreds(ipu_builder *b, ipu_value x) { return ipu_round_to(b, x, -2); }
static ipu_value to_ones(ipu_builder *b, ipu_value x) { return ipu_round_to(b, x, 0); }

static void numbers_are_rounded_to_digits(void **unused)
{
    (void)unused;
    check(to_tenths, (double[]){0.25, 0.75, -1.234, 7}, (double[]){0.2, 0.8, -1.2, 7}, 4);
    check(to_hundreds, (double[]){149, 150, 250, -951}, (double[]){100, 200, 200, -1000}, 4);
    check(to_ones, (double[]){0.5, 1.5, -2.4}, (double[]){0, 2, -2}, 3);
    check(ipu_frac, (double[]){1.25, -1.25, 3, -0.5}, (double[]){0.25, -0.25, 0, -0.5}, 4);
}

/* ---- signs ---- */

static ipu_value sign_bit(ipu_builder *b, ipu_value x) { return ipu_cast(b, ipu_signbit(b, x), IPU_FLOAT); }

static void minus_zero_has_a_sign(void **unused)
{
    (void)unused;
    check(sign_bit, (double[]){0, -0.0, 1, -1, INFINITY, -INFINITY}, (double[]){0, 1, 0, 1, 0, 1}, 6);
    check_pairs(ipu_copysign, (double[]){1, -1, 2, -2}, (double[]){-0.0, 0, -INFINITY, 3},
                (double[]){-1, 1, -2, 2}, 4);
    check(ipu_angle, (double[]){-2, 0, -0.0, 3, NAN}, (double[]){M_PI, 0, 0, 0, NAN}, 5);
    graph_bench t = graph_start();
    ipu_value   x = graph_labels(&t, IPU_SHAPE(3), (int32_t[]){-3, 0, 3});
    graph_expect(&t, ipu_cast(t.b, ipu_signbit(t.b, x), IPU_FLOAT), GRAPH_VALUES(1, 0, 0));
    t = graph_start();
    x = ipu_constant_value(t.b, IPU_BOOL, IPU_SHAPE(2), 1);
    graph_refused(&t, ipu_signbit(t.b, x), "found bool");
}

static void a_step_has_the_value_that_is_given_at_0(void **unused)
{
    (void)unused;
    check_pairs(ipu_heaviside, (double[]){-2, 0, -0.0, 5, NAN}, (double[]){7, 0.5, 9, 7, 7},
                (double[]){0, 0.5, 9, 1, 0}, 5);
}

/* ---- what is not a number ---- */

static ipu_value with_limits(ipu_builder *b, ipu_value x) { return ipu_nan_to_num(b, x, 0, NAN, NAN); }
static ipu_value with_numbers(ipu_builder *b, ipu_value x) { return ipu_nan_to_num(b, x, 1, 2, -3); }
static ipu_value sum_of_numbers(ipu_builder *b, ipu_value x) { return sum(b, with_limits(b, x)); }

static void numbers_are_put_in_place_of_what_is_none(void **unused)
{
    (void)unused;
    const double x[] = {NAN, INFINITY, -INFINITY, 1.5}, largest = (double)FLT_MAX;
    check(with_limits, x, (double[]){0, largest, -largest, 1.5}, 4);
    check(with_numbers, x, (double[]){1, 2, -3, 1.5}, 4);
    graph_gradient(sum_of_numbers, IPU_SHAPE(4), x, (double[]){0, 0, 0, 1});
    graph_bench t = graph_start();
    ipu_value   v = ipu_cast(t.b, graph_floats(&t, IPU_SHAPE(4), x), IPU_HALF);
    v             = ipu_nan_to_num(t.b, v, 0, NAN, NAN);
    graph_expect(&t, ipu_cast(t.b, v, IPU_FLOAT), GRAPH_VALUES(0, 65504, -65504, 1.5));
}

/* ---- the larger and the smaller ---- */

static ipu_value larger_than_1(ipu_builder *b, ipu_value x)
{
    return sum(b, ipu_fmax(b, x, ipu_scalar_like(b, x, 1)));
}

static void a_number_is_larger_and_smaller_than_none(void **unused)
{
    (void)unused;
    const double x[] = {1, NAN, 3, NAN, -0.5}, y[] = {2, 5, NAN, NAN, -0.5};
    check_pairs(ipu_fmax, x, y, (double[]){2, 5, 3, NAN, -0.5}, 5);
    check_pairs(ipu_fmin, x, y, (double[]){1, 5, 3, NAN, -0.5}, 5);
    graph_gradient(larger_than_1, IPU_SHAPE(3), (double[]){0.5, 1, 2}, (double[]){0, 1, 1});
    graph_bench t = graph_start();
    ipu_value   v = graph_labels(&t, IPU_SHAPE(2), (int32_t[]){-4, 4});
    graph_expect(&t, ipu_cast(t.b, ipu_fmin(t.b, v, ipu_scalar_like(t.b, v, 1)), IPU_FLOAT),
                 GRAPH_VALUES(-4, 1));
}

static ipu_value clamped(ipu_builder *b, ipu_value x)
{
    return sum(b, ipu_clamp(b, x, ipu_scalar_like(b, x, -1), ipu_scalar_like(b, x, 1)));
}

static void bounds_may_be_values(void **unused)
{
    (void)unused;
    const double x[] = {-3, -1, 0.5, 1, 4, NAN};
    graph_bench  t   = graph_start();
    ipu_value    v = graph_floats(&t, IPU_SHAPE(6), x), low = graph_floats(&t, IPU_SHAPE(1), (double[]){-1});
    graph_expect(&t, ipu_clamp(t.b, v, low, IPU_NO_VALUE), GRAPH_VALUES(-1, -1, 0.5, 1, 4, NAN));
    t              = graph_start();
    v              = graph_floats(&t, IPU_SHAPE(2), x);
    ipu_value high = graph_floats(&t, IPU_SHAPE(2, 1), (double[]){-2, 7});
    low            = graph_floats(&t, IPU_SHAPE(2), (double[]){-1, -5});
    graph_expect(&t, ipu_clamp(t.b, v, low, high), GRAPH_VALUES(-2, -2, -1, -1)); /* the upper bound counts */
    graph_gradient(clamped, IPU_SHAPE(5), x, (double[]){0, 1, 1, 1, 0});
}

/* ---- units ---- */

static void a_half_is_the_gate_of_the_other(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4};
    double       g2 = 1 / (1 + exp(-2.0)), g3 = 1 / (1 + exp(-3.0)), g4 = 1 / (1 + exp(-4.0));
    graph_bench  t = graph_start();
    graph_expect(&t, ipu_glu(t.b, graph_floats(&t, IPU_SHAPE(2, 2), x), -1), GRAPH_VALUES(g2, 3 * g4));
    t = graph_start();
    graph_expect(&t, ipu_glu(t.b, graph_floats(&t, IPU_SHAPE(2, 2), x), 0), GRAPH_VALUES(g3, 2 * g4));
    t = graph_start();
    graph_refused(&t, ipu_glu(t.b, graph_floats(&t, IPU_SHAPE(3), x), 0), "must be even");
}

static ipu_value as_selu(ipu_builder *b, ipu_value x)
{
    return ipu_scaled_elu(b, x, 1.6732632423543772, 1.0507009873554805, 1);
}

static ipu_value three_scales(ipu_builder *b, ipu_value x) { return ipu_scaled_elu(b, x, 2, 3, 0.5); }
static ipu_value sum_of_scales(ipu_builder *b, ipu_value x) { return sum(b, three_scales(b, x)); }

static void elu_is_scaled_inside_and_outside(void **unused)
{
    (void)unused;
    const double x[] = {-2, -0.5, 0, 1.5, 200};
    double       low = 1.0507009873554805 * 1.6732632423543772;
    check(as_selu, x,
          (double[]){low * expm1(-2), low * expm1(-0.5), 0, 1.0507009873554805 * 1.5, 210.1401974710961}, 5);
    check(three_scales, x, (double[]){6 * expm1(-1), 6 * expm1(-0.25), 0, 4.5, 600}, 5);
    graph_gradient(sum_of_scales, IPU_SHAPE(3), (double[]){-2, -0.5, 1},
                   (double[]){3 * exp(-1), 3 * exp(-0.25), 3});
}

/* ---- of one formula ---- */

static void shrinking_and_lengths_are_those_of_libm(void **unused)
{
    (void)unused;
    check(ipu_tanhshrink, (double[]){-3, 0, 0.01, 2},
          (double[]){-3 - tanh(-3), 0, 0.01 - tanh(0.01), 2 - tanh(2)}, 4);
    check_pairs(ipu_hypot, (double[]){3, -5, 0, 1e30, INFINITY}, (double[]){4, 12, 0, 1e30, 1},
                (double[]){5, 13, 0, hypot(1e30, 1e30), INFINITY}, 5); /* squares are computed in double */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_to_digits),
        cmocka_unit_test(minus_zero_has_a_sign),
        cmocka_unit_test(a_step_has_the_value_that_is_given_at_0),
        cmocka_unit_test(numbers_are_put_in_place_of_what_is_none),
        cmocka_unit_test(a_number_is_larger_and_smaller_than_none),
        cmocka_unit_test(bounds_may_be_values),
        cmocka_unit_test(a_half_is_the_gate_of_the_other),
        cmocka_unit_test(elu_is_scaled_inside_and_outside),
        cmocka_unit_test(shrinking_and_lengths_are_those_of_libm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
