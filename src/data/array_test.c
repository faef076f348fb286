/* Host arrays: sizes, zeros, elements of every type, impossible shapes, failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "data/array.h"

static void a_new_array_is_zero_and_has_its_size(void **state)
{
    (void)state;
    static const char zeros[4096];
    for (int type = 0; type < IPU_N_TYPES; type++) {
        ipu_array a;
        assert_int_equal(ipu_array_create((ipu_type)type, IPU_SHAPE(3, 1, 7), &a), IPU_OK);
        assert_int_equal(a.type, type);
        assert_int_equal(ipu_array_n_elements(&a), 21);
        assert_int_equal(ipu_array_bytes(&a), 21 * ipu_type_size((ipu_type)type));
        assert_memory_equal(a.data, zeros, ipu_array_bytes(&a));
        ipu_array_free(&a);
        assert_null(a.data);
        assert_int_equal(ipu_array_bytes(&a), 0);
    }
}

static void scalars_and_arrays_without_elements_exist(void **state)
{
    (void)state;
    ipu_array a, none = {0};
    assert_int_equal(ipu_array_create(IPU_DOUBLE, IPU_SCALAR, &a), IPU_OK);
    assert_int_equal(ipu_array_bytes(&a), 8);
    ipu_array_free(&a);
    assert_int_equal(ipu_array_create(IPU_DOUBLE, IPU_SHAPE(5, 0, 2), &a), IPU_OK);
    assert_non_null(a.data);
    assert_int_equal(ipu_array_n_elements(&a), 0);
    ipu_array_free(&a);
    assert_int_equal(ipu_array_n_elements(&none), 0);
    assert_int_equal(ipu_array_bytes(&none), 0);
    ipu_array_free(&none);
}

static void assert_refused(ipu_type type, ipu_shape shape, const char *why)
{
    char      byte = 0;
    ipu_array a    = {.data = &byte};
    assert_int_equal(ipu_array_create(type, shape, &a), IPU_INVALID);
    assert_null(a.data);
    if (!strstr(ipu_message(), why)) fail_msg("expected \"%s\" in \"%s\"", why, ipu_message());
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    assert_refused(IPU_FLOAT, IPU_SHAPE(3, -1), "[3,-1]: expected dimensions of 0 and more");
    assert_refused(IPU_FLOAT, IPU_SHAPE(INT64_MAX), "more bytes");
    assert_refused(IPU_INT8, IPU_SHAPE((int64_t)1 << 32, (int64_t)1 << 31), "more bytes");
    assert_refused(IPU_FLOAT, IPU_SHAPE(0, (int64_t)1 << 40, (int64_t)1 << 40), "more bytes");
    assert_refused(IPU_FLOAT, (ipu_shape){IPU_MAX_RANK + 1, {0}}, "rank 9: expected 0 to 8");
    assert_refused(IPU_FLOAT, (ipu_shape){-1, {0}}, "rank -1");
    assert_refused(IPU_N_TYPES, IPU_SCALAR, "type number 13");
    assert_refused((ipu_type)-1, IPU_SCALAR, "type number -1");
}

static void *refuse(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)ptr, (void)old_bytes, (void)new_bytes;
    return NULL;
}

static void refused_memory_is_an_error(void **state)
{
    (void)state;
    char      byte = 0;
    ipu_array a    = {.data = &byte};
    ipu__alloc_set(refuse, NULL);
    ipu_status status = ipu_array_create(IPU_FLOAT, IPU_SHAPE(4), &a);
    ipu__alloc_set(NULL, NULL);
    assert_int_equal(status, IPU_OUT_OF_MEMORY);
    assert_null(a.data);
}

#define CHECK_VALUE(TYPE, ctype, expected, ...)                                          \
    do {                                                                                 \
        ctype           elements[] = {__VA_ARGS__};                                      \
        const ipu_array one        = {TYPE, {1, {1}}, elements};                         \
        if (ipu_array_value(&one, 0) != (expected)) fail_msg("%s", ipu_type_name(TYPE)); \
    } while (0)

static void elements_of_every_type_are_numbers(void **state)
{
    (void)state;
    CHECK_VALUE(IPU_BOOL, uint8_t, 1, 1);
    CHECK_VALUE(IPU_BOOL, uint8_t, 1, 7); /* a byte in a file may be more than 1 */
    CHECK_VALUE(IPU_INT8, int8_t, -5, -5);
    CHECK_VALUE(IPU_UINT8, uint8_t, 251, 251);
    CHECK_VALUE(IPU_INT16, int16_t, -300, -300);
    CHECK_VALUE(IPU_UINT16, uint16_t, 65000, 65000);
    CHECK_VALUE(IPU_INT32, int32_t, -70000, -70000);
    CHECK_VALUE(IPU_UINT32, uint32_t, 4e9, 4000000000u);
    CHECK_VALUE(IPU_INT64, int64_t, -9007199254740992.0, -9007199254740992);
    CHECK_VALUE(IPU_UINT64, uint64_t, 18446744073709551616.0, UINT64_MAX);
    CHECK_VALUE(IPU_HALF, ipu_half, -2.5, ipu_half_from_float(-2.5f));
    CHECK_VALUE(IPU_BFLOAT16, ipu_bfloat16, 0.375, ipu_bfloat16_from_float(0.375f));
    CHECK_VALUE(IPU_FLOAT, float, 0.25, 0.25f);
    CHECK_VALUE(IPU_DOUBLE, double, 0.1, 0.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_array_is_zero_and_has_its_size),
        cmocka_unit_test(scalars_and_arrays_without_elements_exist),
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(refused_memory_is_an_error),
        cmocka_unit_test(elements_of_every_type_are_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
