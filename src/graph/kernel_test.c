/* Kernels by name and attributes of a call: every way to find them, and what is said when they are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/kernel.h"

static const ipu_kernel_def stand_in = {.name = "soup"};

static ipu_kernel_call call_with(const ipu_attribute *attributes, size_t n)
{
    return (ipu_kernel_call){.def = &stand_in, .attributes = attributes, .n_attributes = n};
}

static void kernels_are_found_by_name(void **unused)
{
    (void)unused;
    for (const ipu_kernel_def *const *def = ipu__kernels; *def; def++)
        assert_ptr_equal(ipu__kernel_find((*def)->name), *def);
    assert_non_null(ipu__kernel_find("matmul"));
    assert_null(ipu__kernel_find("matmu"));
    assert_null(ipu__kernel_find(""));
    assert_null(ipu__kernel_find(NULL));
}

static void attributes_are_found_or_have_their_default(void **unused)
{
    (void)unused;
    const ipu_attribute list[] = {IPU_INT_ATTRIBUTE("n", -7), IPU_FLOAT_ATTRIBUTE("x", 0.25)};
    ipu_kernel_call     call   = call_with(list, 2);
    int64_t             i      = 0;
    double              f      = 0;
    assert_int_equal(ipu__attribute_int(&call, "n", 3, &i), IPU_OK);
    assert_int_equal(i, -7);
    assert_int_equal(ipu__attribute_int(&call, "m", 3, &i), IPU_OK);
    assert_int_equal(i, 3);
    assert_int_equal(ipu__attribute_float(&call, "x", 1.5, &f), IPU_OK);
    assert_true(f == 0.25);
    assert_int_equal(ipu__attribute_float(&call, "y", 1.5, &f), IPU_OK);
    assert_true(f == 1.5);
    assert_ptr_equal(ipu__attribute_find(&call, "x"), &list[1]);
    assert_null(ipu__attribute_find(&call, "y"));
}

static void an_attribute_of_another_kind_is_refused(void **unused)
{
    (void)unused;
    static const int64_t ints[] = {1, 2};
    const ipu_attribute  list[] = {IPU_INT_ATTRIBUTE("n", 1),
                                   IPU_TEXT_ATTRIBUTE("t", "one"),
                                   {.name = "l", .kind = IPU_ATTRIBUTE_INTS, .ints = ints, .n_ints = 2}};
    ipu_kernel_call      call   = call_with(list, 3);
    int64_t              i      = 42;
    double               f      = 42;
    assert_int_equal(ipu__attribute_float(&call, "n", 0, &f), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: attribute \"n\" must be a float, found an int");
    assert_int_equal(ipu__attribute_int(&call, "t", 0, &i), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: attribute \"t\" must be an int, found text");
    assert_int_equal(ipu__attribute_int(&call, "l", 0, &i), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: attribute \"l\" must be an int, found a list of ints");
    assert_int_equal(i, 42);
    assert_true(f == 42);
}

static void attributes_nobody_knows_are_refused(void **unused)
{
    (void)unused;
    static const char *const known[] = {"n", "x", NULL}, *const none[] = {NULL};
    const ipu_attribute good[]  = {IPU_INT_ATTRIBUTE("x", 1), IPU_INT_ATTRIBUTE("n", 1)};
    const ipu_attribute wrong[] = {IPU_INT_ATTRIBUTE("n", 1), IPU_INT_ATTRIBUTE("nn", 1)};
    const ipu_attribute twice[] = {IPU_INT_ATTRIBUTE("n", 1), IPU_INT_ATTRIBUTE("n", 2)};
    const ipu_attribute blank[] = {IPU_INT_ATTRIBUTE(NULL, 1)};
    ipu_kernel_call     call    = call_with(good, 2);
    assert_int_equal(ipu__attributes_known(&call, known), IPU_OK);
    assert_int_equal(ipu__attributes_known(&call, none), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: unknown attribute \"x\": it takes none");
    call = call_with(wrong, 2);
    assert_int_equal(ipu__attributes_known(&call, known), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: unknown attribute \"nn\": it takes \"n\", \"x\"");
    call = call_with(twice, 2);
    assert_int_equal(ipu__attributes_known(&call, known), IPU_INVALID);
    assert_string_equal(ipu_message(), "soup: attribute \"n\" is given twice");
    call = call_with(blank, 1);
    assert_int_equal(ipu__attributes_known(&call, known), IPU_INVALID);
    assert_null(ipu__attribute_find(&call, "n"));
    call = call_with(NULL, 0);
    assert_int_equal(ipu__attributes_known(&call, none), IPU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_found_by_name),
        cmocka_unit_test(attributes_are_found_or_have_their_default),
        cmocka_unit_test(an_attribute_of_another_kind_is_refused),
        cmocka_unit_test(attributes_nobody_knows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
