/* Growing arrays: contents survive growth, refusal changes nothing, sizes cannot wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"

static void *refusing(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)ptr, (void)old_bytes, (void)new_bytes;
    return NULL;
}

static int reset(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void pushed_elements_survive_growth(void **state)
{
    (void)state;
    IPU__ARRAY(int) list = {0};
    for (int i = 0; i < 10000; i++) assert_true(ipu__push(&list, i * 3));
    assert_int_equal(list.n, 10000);
    assert_true(list.capacity >= list.n);
    for (int i = 0; i < 10000; i++) assert_int_equal(list.at[i], i * 3);
    ipu__array_fini(&list);
    assert_null(list.at);
    assert_int_equal(list.n, 0);
    assert_int_equal(list.capacity, 0);
}

static void structs_are_pushed_as_compound_literals(void **state)
{
    (void)state;
    struct pair {
        int a, b;
    };
    IPU__ARRAY(struct pair) list = {0};
    assert_true(ipu__push(&list, (struct pair){1, 2}));
    assert_int_equal(list.at[0].a, 1);
    assert_int_equal(list.at[0].b, 2);
    ipu__array_fini(&list);
}

static void reserve_makes_room_without_changing_the_count(void **state)
{
    (void)state;
    IPU__ARRAY(char) list = {0};
    assert_true(ipu__reserve(&list, 1000));
    assert_int_equal(list.n, 0);
    assert_true(list.capacity >= 1000);
    memset(list.at, 'x', 1000);
    char *before = list.at;
    assert_true(ipu__reserve(&list, 1000));
    assert_ptr_equal(list.at, before);
    ipu__array_fini(&list);
}

static void refusal_changes_nothing(void **state)
{
    (void)state;
    IPU__ARRAY(long) list = {0};
    assert_true(ipu__push(&list, 5));
    while (list.n < list.capacity) assert_true(ipu__push(&list, 6));
    size_t n = list.n;
    ipu__alloc_set(refusing, NULL);
    assert_false(ipu__push(&list, 7));
    ipu__alloc_set(NULL, NULL);
    assert_int_equal(list.n, n);
    assert_int_equal(list.at[0], 5);
    ipu__array_fini(&list);
}

static void sizes_that_would_wrap_are_refused(void **state)
{
    (void)state;
    IPU__ARRAY(double) list = {0};
    assert_false(ipu__reserve(&list, SIZE_MAX));
    assert_false(ipu__reserve(&list, SIZE_MAX / sizeof(double)));
    assert_null(list.at);
    assert_int_equal(list.capacity, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_elements_survive_growth),
        cmocka_unit_test(structs_are_pushed_as_compound_literals),
        cmocka_unit_test(reserve_makes_room_without_changing_the_count),
        cmocka_unit_test_teardown(refusal_changes_nothing, reset),
        cmocka_unit_test(sizes_that_would_wrap_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
