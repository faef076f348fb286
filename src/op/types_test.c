/* Integers at the limits of their ranges, powers with exponents of another type, activations with non-default
 * parameters. */
#include "op/run_bench.h"

static void large_unsigned_numbers_are_not_negative(void **unused)
{
    (void)unused;
    static const uint64_t x[] = {1, UINT64_MAX, UINT64_C(1) << 63};
    bench                 t   = bench_start();
    ipu_value             v   = bench_input(&t, IPU_UINT64, IPU_SHAPE(3), x);
    bench_expect(&t, ipu_reduce_max(t.b, v, NULL, 0, false), IPU_SCALAR, &x[1]);
    bench_expect(&t, ipu_reduce_min(t.b, v, NULL, 0, false), IPU_SCALAR, &x[0]);
    bench_expect(&t, ipu_argmax(t.b, v, 0, false), IPU_SCALAR, &(int32_t){1});
    bench_expect(&t, ipu_argmin(t.b, v, 0, false), IPU_SCALAR, &(int32_t){0});
    bench_expect(&t, ipu_cumsum(t.b, v, 0), IPU_SHAPE(3), (uint64_t[]){1, 0, UINT64_C(1) << 63});
    bench_end(&t);
}

static void the_least_is_found_though_it_has_no_opposite(void **unused)
{
    (void)unused;
    static const int64_t x[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, 0};
    static const int8_t  y[] = {5, -128, 127, -1};
    bench                t   = bench_start();
    ipu_value            v   = bench_input(&t, IPU_INT64, IPU_SHAPE(4), x);
    ipu_value            w   = bench_input(&t, IPU_INT8, IPU_SHAPE(4), y);
    bench_expect(&t, ipu_argmin(t.b, v, 0, false), IPU_SCALAR, &(int32_t){1});
    bench_expect(&t, ipu_reduce_min(t.b, v, NULL, 0, false), IPU_SCALAR, &x[1]);
    bench_expect(&t, ipu_argmin(t.b, w, 0, false), IPU_SCALAR, &(int32_t){1});
    bench_expect(&t, ipu_argmax(t.b, w, 0, false), IPU_SCALAR, &(int32_t){2});
    bench_expect(&t, ipu_cumprod(t.b, w, 0), IPU_SHAPE(4), (int8_t[]){5, -128, -128, -128});
    bench_end(&t);
}

static void powers_may_be_of_another_type(void **unused)
{
    (void)unused;
    static const int32_t base[] = {2, -3, 5};
    bench                t      = bench_start();
    ipu_value            x      = bench_ints(&t, IPU_SHAPE(3), base),
              y                 = bench_floats(&t, IPU_SHAPE(3), ((float[]){3, 2, 0.5f}));
    bench_expect(&t, ipu_pow_mixed(t.b, x, y), IPU_SHAPE(3), (int32_t[]){8, 9, 2});
    bench_expect(&t, ipu_pow_mixed(t.b, y, x), IPU_SHAPE(3), (float[]){9, 0.125f, 0.03125f});
    bench_expect(&t, ipu_pow_mixed(t.b, x, bench_input(&t, IPU_UINT64, IPU_SCALAR, (uint64_t[]){3})),
                 IPU_SHAPE(3), (int32_t[]){8, -27, 125});
    bench_end(&t);
}

static void activations_take_numbers_of_ones_own(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value x = bench_floats(&t, IPU_SHAPE(4), ((float[]){-4, -1, 0.5f, 3}));
    bench_expect(&t, ipu_hardsigmoid_with(t.b, x, 0.5, 0.5), IPU_SHAPE(4), (float[]){0, 0, 0.75f, 1});
    bench_expect(&t, ipu_selu_with(t.b, ipu_relu(t.b, x), 3, 2), IPU_SHAPE(4), (float[]){0, 0, 1, 6});
    bench_expect(&t, ipu_shrink(t.b, x, 0.5, 1), IPU_SHAPE(4), (float[]){-3, 0, 0, 2});
    bench_expect(&t,
                 ipu_shrink(t.b, bench_input(&t, IPU_UINT64, IPU_SHAPE(2), ((uint64_t[]){1, 200})), 1.5, 3),
                 IPU_SHAPE(2), (uint64_t[]){0, 197});
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_unsigned_numbers_are_not_negative),
        cmocka_unit_test(the_least_is_found_though_it_has_no_opposite),
        cmocka_unit_test(powers_may_be_of_another_type),
        cmocka_unit_test(activations_take_numbers_of_ones_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
