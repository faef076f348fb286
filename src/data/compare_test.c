/* Comparing arrays: tolerances, NaNs and infinities, types and shapes, integers beyond double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ipu/data.h"

static ipu_array floats(float *data, int64_t n) { return (ipu_array){IPU_FLOAT, {1, {n}}, data}; }

static void tolerances_are_absolute_and_relative_to_what_was_expected(void **state)
{
    (void)state;
    float                x[] = {0, 1, 100, -100}, y[] = {0.001f, 1.01f, 101.5f, -99};
    ipu_array            a = floats(x, 4), b = floats(y, 4);
    ipu_array_difference d;
    assert_true(ipu_array_is_close(&a, &b, 0.02, 0.002, &d));
    assert_int_equal(d.n, 0);
    assert_false(ipu_array_is_close(&a, &b, 0.012, 0.002, &d));
    assert_int_equal(d.n, 1);
    assert_int_equal(d.first, 2);
    assert_true(d.expected == 100 && d.found == 101.5 && fabs(d.tolerance - 1.202) < 1e-9);
    assert_false(ipu_array_is_close(&a, &b, 0.005, 0, &d));
    assert_int_equal(d.n, 4);
    assert_int_equal(d.first, 0);
    assert_int_equal(d.worst, 2);
    assert_false(ipu_array_is_close(&a, &b, 0.005, 0, NULL));
    assert_true(ipu_array_is_close(&a, &a, 0, 0, NULL));
}

static void numbers_that_are_none_equal_only_themselves(void **state)
{
    (void)state;
    float     special[] = {NAN, INFINITY, -INFINITY, 1e38f, 0};
    ipu_array a         = floats(special, 5);
    assert_true(ipu_array_is_close(&a, &a, 0, 0, NULL));
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) {
            ipu_array x = floats(&special[i], 1), y = floats(&special[k], 1);
            if (i != k) assert_false(ipu_array_is_close(&x, &y, 0.5, 1e30, NULL) && !(i >= 3 && k >= 3));
        }
    float     zeros[] = {0.0f}, negative[] = {-0.0f};
    ipu_array p = floats(zeros, 1), n = floats(negative, 1);
    assert_true(ipu_array_is_close(&p, &n, 0, 0, NULL));
}

static void types_shapes_and_presence_must_agree(void **state)
{
    (void)state;
    float                x[6] = {0};
    ipu_array            a = floats(x, 6), b = {IPU_FLOAT, {2, {2, 3}}, x}, c = {IPU_INT32, {1, {6}}, x};
    ipu_array            none = {IPU_FLOAT, {1, {6}}, NULL}, empty = floats(x, 0), shorter = floats(x, 5);
    ipu_array_difference d;
    assert_false(ipu_array_is_close(&a, &b, 0, 0, &d));
    assert_int_equal(d.n, -1);
    assert_false(ipu_array_is_close(&a, &c, 0, 0, &d));
    assert_false(ipu_array_is_close(&a, &none, 0, 0, &d));
    assert_false(ipu_array_is_close(&a, &shorter, 0, 0, &d));
    assert_true(ipu_array_is_close(&empty, &empty, 0, 0, &d));
}

static void integers_beyond_the_doubles_are_compared_exactly(void **state)
{
    (void)state;
    int64_t   x[] = {9007199254740993}, y[] = {9007199254740992};
    ipu_array a = {IPU_INT64, {0, {0}}, x}, b = {IPU_INT64, {0, {0}}, y};
    assert_false(ipu_array_is_close(&a, &b, 0, 0, NULL));
    assert_true(ipu_array_is_close(&a, &b, 0, 1, NULL));
    assert_true(ipu_array_is_close(&a, &a, 0, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tolerances_are_absolute_and_relative_to_what_was_expected),
        cmocka_unit_test(numbers_that_are_none_equal_only_themselves),
        cmocka_unit_test(types_shapes_and_presence_must_agree),
        cmocka_unit_test(integers_beyond_the_doubles_are_compared_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
