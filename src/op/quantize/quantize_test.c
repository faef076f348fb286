/* Quantisation by hand: ties, limits, NaN, zero points, gradients, products of extremes, errors. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

#define UINT8(t, shape, data) bench_input(t, IPU_UINT8, shape, data)
#define INT8(t, shape, data) bench_input(t, IPU_INT8, shape, data)

static void ties_go_to_even_and_what_does_not_fit_to_the_edge(void **unused)
{
    (void)unused;
    const float   x[]        = {0, 1, 3, 5, -1, 1000, -254, -1000, NAN, INFINITY};
    const uint8_t zero       = 128;
    const uint8_t expected[] = {128, 128, 130, 130, 128, 255, 1, 0, 0, 255}; /* 0.5 and 2.5 are ties */
    bench         t          = bench_start();
    ipu_value     q          = ipu_quantize_linear(t.b, bench_floats(&t, IPU_SHAPE(10), x),
                                                   bench_floats(&t, IPU_SCALAR, (float[]){2}),
                                                   UINT8(&t, IPU_SCALAR, &zero), 0);
    bench_expect(&t, q, IPU_SHAPE(10), expected);
    bench_end(&t);
}

static void a_scale_for_each_place_of_an_axis(void **unused)
{
    (void)unused;
    const float   x[]     = {-162, 10, -100, 232, -20,  -50,  -76,  0,    0,
                             252,  32, -44,  245, -485, -960, -270, -375, -470};
    const float   scale[] = {2, 4, 5};
    const uint8_t zero[]  = {84, 24, 196},
                  q[]     = {3, 89, 34, 200, 74, 59, 5, 24, 24, 87, 32, 13, 245, 99, 4, 142, 121, 102};
    for (int way = 0; way < 2; way++) { /* ONNX's example of both, which are each other's inverse */
        bench     t = bench_start();
        ipu_value s = bench_floats(&t, IPU_SHAPE(3), scale), z = UINT8(&t, IPU_SHAPE(3), zero);
        ipu_value y = way == 0 ? ipu_quantize_linear(t.b, bench_floats(&t, IPU_SHAPE(1, 3, 3, 2), x), s, z, 1)
                               : ipu_dequantize_linear(t.b, UINT8(&t, IPU_SHAPE(1, 3, 3, 2), q), s, z, -3);
        bench_expect(&t, y, IPU_SHAPE(1, 3, 3, 2), way == 0 ? (const void *)q : x);
        bench_end(&t);
    }
}

static void int32_less_its_zero_point_is_exact(void **unused)
{
    (void)unused;
    const int32_t x[] = {2000000001, -2000000001}, zero = 2000000000;
    const float   y[] = {0.5f, -2000000000.5f};
    bench         t   = bench_start();
    bench_expect(&t,
                 ipu_dequantize_linear(t.b, bench_ints(&t, IPU_SHAPE(2), x),
                                       bench_floats(&t, IPU_SCALAR, (float[]){0.5f}),
                                       bench_ints(&t, IPU_SCALAR, &zero), 0),
                 IPU_SHAPE(2), y);
    bench_end(&t);
}

static void the_range_of_x_and_0_is_spread_over_uint8(void **unused)
{
    (void)unused;
    static const struct {
        float   x[6];
        uint8_t y[6];
        float   scale;
        uint8_t zero;
    } cases[] = {{{0, 2, -3, -2.5f, 1.34f, 0.5f}, {153, 255, 0, 26, 221, 179}, 5 / 255.0f, 153},
                 {{-1, -2.1f, -1.3f, -2.5f, -3.34f, -4}, {191, 121, 172, 96, 42, 0}, 4 / 255.0f, 255},
                 {{1, 2.1f, 1.3f, 2.5f, 3.34f, 4}, {64, 134, 83, 159, 213, 255}, 4 / 255.0f, 0},
                 {{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, 1, 0}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        bench     t = bench_start();
        ipu_value scale, zero,
            y = ipu_dynamic_quantize_linear(t.b, bench_floats(&t, IPU_SHAPE(6), cases[i].x), &scale, &zero);
        int     a = bench_result(&t, scale), b = bench_result(&t, zero);
        float   found_scale;
        uint8_t found_zero;
        bench_expect(&t, y, IPU_SHAPE(6), cases[i].y);
        bench_read(&t, a, &found_scale, sizeof found_scale);
        bench_read(&t, b, &found_zero, sizeof found_zero);
        assert_true(found_scale == cases[i].scale);
        assert_int_equal(found_zero, cases[i].zero);
        bench_end(&t);
    }
}

static ipu_value fake(ipu_builder *b, ipu_value x)
{
    ipu_value scale = ipu_constant_value(b, IPU_FLOAT, IPU_SCALAR, 0.5);
    ipu_value zero  = ipu_constant_value(b, IPU_INT32, IPU_SCALAR, 1);
    ipu_value y     = ipu_fake_quantize(b, x, scale, zero, 0, -2, 3);
    ipu_value w     = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(6), (float[]){1, 2, 3, 4, 5, 6});
    return ipu_reduce_sum(b, ipu_mul(b, y, w), NULL, 0, false);
}

/* Whole numbers are x / 0.5 + 1: -2 .. 3 is x from -1.5 to 1, and a quarter beyond, which rounds to the
 * edge. */
static void gradients_pass_where_nothing_was_cut_off(void **unused)
{
    (void)unused;
    const double x[] = {0.3, 1.2, 1.3, -1.7, -1.8, 40}, d[] = {1, 2, 0, 4, 0, 0};
    graph_gradient(fake, IPU_SHAPE(6), x, d);
}

static void fake_is_there_and_back(void **unused)
{
    (void)unused;
    const float   x[]  = {0.3f, -7, 0.26f, 0.75f, 100, -0.1f};
    const uint8_t zero = 100;
    const int32_t wide = 100;
    bench         t    = bench_start();
    ipu_value     v = bench_floats(&t, IPU_SHAPE(6), x), s = bench_floats(&t, IPU_SCALAR, (float[]){0.25f});
    ipu_value     z = UINT8(&t, IPU_SCALAR, &zero);
    ipu_value     a = ipu_dequantize_linear(t.b, ipu_quantize_linear(t.b, v, s, z, 0), s, z, 0);
    ipu_value     b = ipu_fake_quantize(t.b, v, s, bench_ints(&t, IPU_SCALAR, &wide), 0, 0, 255);
    int           p = bench_result(&t, a), q = bench_result(&t, b);
    float         there[6], back[6];
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, p, there, sizeof there);
    bench_read(&t, q, back, sizeof back);
    assert_memory_equal(there, back, sizeof there);
    assert_true(there[4] == 38.75f); /* 255 - 100 steps */
    bench_end(&t);
}

static void products_of_matrices_are_those_of_onnx(void **unused)
{
    (void)unused;
    const uint8_t a[] = {11, 7, 3, 10, 6, 2, 9, 5, 1, 8, 4, 0}, b[] = {1, 4, 2, 5, 3, 6}, zero = 12;
    const int32_t y[] = {-38, -83, -44, -98, -50, -113, -56, -128};
    const uint8_t p[] = {208, 236, 0, 238, 3, 214, 255, 29}, p_zero = 113, q_zero = 114, z_zero = 118;
    const uint8_t q[] = {152, 51, 244, 60, 26, 255, 0, 127, 246, 127, 254, 247},
                  z[] = {168, 115, 255, 1, 66, 151};
    bench t           = bench_start();
    bench_expect(&t,
                 ipu_matmul_integer(t.b, UINT8(&t, IPU_SHAPE(4, 3), a), UINT8(&t, IPU_SHAPE(3, 2), b),
                                    UINT8(&t, IPU_SHAPE(1), &zero), IPU_NO_VALUE),
                 IPU_SHAPE(4, 2), y);
    bench_end(&t);
    t                   = bench_start();
    ipu_quantized left  = {UINT8(&t, IPU_SHAPE(2, 4), p), bench_floats(&t, IPU_SHAPE(1), (float[]){0.0066f}),
                           UINT8(&t, IPU_SHAPE(1), &p_zero)};
    ipu_quantized right = {UINT8(&t, IPU_SHAPE(4, 3), q), bench_floats(&t, IPU_SHAPE(1), (float[]){0.00705f}),
                           UINT8(&t, IPU_SHAPE(1), &q_zero)};
    bench_expect(&t,
                 ipu_qlinear_matmul(t.b, left, right, bench_floats(&t, IPU_SHAPE(1), (float[]){0.0107f}),
                                    UINT8(&t, IPU_SHAPE(1), &z_zero)),
                 IPU_SHAPE(2, 3), z);
    bench_end(&t);
}

/* Where products of two neighbours were added in 16 bits they would saturate. */
static void the_largest_products_are_exact(void **unused)
{
    (void)unused;
    enum { N = 64 };
    static uint8_t a[N * N];
    static int8_t  b[N * N];
    static int32_t y[N * N];
    memset(a, 255, sizeof a);
    memset(b, -128, sizeof b);
    for (int i = 0; i < N * N; i++) y[i] = 255 * -128 * N;
    bench t = bench_start();
    bench_expect(&t,
                 ipu_matmul_integer(t.b, UINT8(&t, IPU_SHAPE(N, N), a), INT8(&t, IPU_SHAPE(N, N), b),
                                    IPU_NO_VALUE, IPU_NO_VALUE),
                 IPU_SHAPE(N, N), y);
    bench_end(&t);
}

static void padding_is_the_zero_point(void **unused)
{
    (void)unused;
    const uint8_t x[] = {2, 3, 4, 5, 6, 7, 8, 9, 10}, w[] = {1, 1, 1, 1}, zero = 1;
    const int32_t y[] = {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9};
    bench         t   = bench_start();
    bench_expect(&t,
                 ipu_conv_integer(t.b, UINT8(&t, IPU_SHAPE(1, 1, 3, 3), x),
                                  UINT8(&t, IPU_SHAPE(1, 1, 2, 2), w), UINT8(&t, IPU_SCALAR, &zero),
                                  IPU_NO_VALUE, (ipu_conv_options){.padding = {1, 1}}),
                 IPU_SHAPE(1, 1, 4, 4), y);
    bench_end(&t);
}

static void a_convolution_adds_its_bias_before_it_is_scaled(void **unused)
{
    (void)unused;
    const int8_t  x[] = {1, 2, 3, 4}, w[] = {2, -3}, y[] = {6, 7, 8, 9, 0, -2, -4, -5};
    const int32_t bias[]  = {10, 2};
    bench         t       = bench_start();
    ipu_value     one     = bench_floats(&t, IPU_SCALAR, (float[]){1});
    ipu_quantized image   = {INT8(&t, IPU_SHAPE(1, 1, 4), x), one, IPU_NO_VALUE};
    ipu_quantized weights = {INT8(&t, IPU_SHAPE(2, 1, 1), w), one, IPU_NO_VALUE};
    bench_expect(&t,
                 ipu_qlinear_conv(t.b, image, weights, bench_floats(&t, IPU_SCALAR, (float[]){2}),
                                  IPU_NO_VALUE, bench_ints(&t, IPU_SHAPE(2), bias), (ipu_conv_options){0}),
                 IPU_SHAPE(1, 2, 4), y);
    bench_end(&t);
}

static void what_does_not_go_together_is_refused(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(2, 3), ((float[6]){0}));
    ipu_quantize_linear(t.b, x, bench_floats(&t, IPU_SHAPE(2), ((float[2]){1, 1})), IPU_NO_VALUE, 1);
    bench_refused(&t, "\"scale\" [2]: expected a scalar, or 3 elements");
    x = bench_floats(&t, IPU_SHAPE(2, 3), ((float[6]){0}));
    ipu_quantize_linear(t.b, x, bench_floats(&t, IPU_SCALAR, ((float[1]){1})),
                        bench_ints(&t, IPU_SCALAR, ((int32_t[1]){0})), 1);
    bench_refused(&t, "\"zero_point\" must be int8 or uint8, found int32");
    x = bench_floats(&t, IPU_SHAPE(2), ((float[2]){0}));
    ipu_fake_quantize(t.b, x, bench_floats(&t, IPU_SCALAR, ((float[1]){1})), IPU_NO_VALUE, 0, 3, 2);
    bench_refused(&t, "low = 3, high = 2");
    ipu_value a = UINT8(&t, IPU_SHAPE(2, 3), ((uint8_t[6]){0}));
    ipu_matmul_integer(t.b, a, a, IPU_NO_VALUE, IPU_NO_VALUE);
    bench_refused(&t, "inner dimensions differ: a [2,3] x b [2,3]");
    a = UINT8(&t, IPU_SHAPE(2, 3), ((uint8_t[6]){0}));
    ipu_matmul_integer(t.b, a, UINT8(&t, IPU_SHAPE(3, 2), ((uint8_t[6]){0})),
                       UINT8(&t, IPU_SHAPE(3), ((uint8_t[3]){0})), IPU_NO_VALUE);
    bench_refused(&t, "\"a_zero_point\" [3]: expected a scalar, or 2 elements: one for each row");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ties_go_to_even_and_what_does_not_fit_to_the_edge),
        cmocka_unit_test(a_scale_for_each_place_of_an_axis),
        cmocka_unit_test(int32_less_its_zero_point_is_exact),
        cmocka_unit_test(the_range_of_x_and_0_is_spread_over_uint8),
        cmocka_unit_test(gradients_pass_where_nothing_was_cut_off),
        cmocka_unit_test(fake_is_there_and_back),
        cmocka_unit_test(products_of_matrices_are_those_of_onnx),
        cmocka_unit_test(the_largest_products_are_exact),
        cmocka_unit_test(padding_is_the_zero_point),
        cmocka_unit_test(a_convolution_adds_its_bias_before_it_is_scaled),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
}
