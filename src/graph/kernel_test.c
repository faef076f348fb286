/* Kernels by name and attributes of a call: every way to find them, and the messages when they are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/kernel.h"

static const ipu__kernel_def stand_in = {.name = "soup"};

static ipu__kernel_call call_with(const ipu_attribute *attributes, size_t n)
{
    return (ipu__kernel_call){.def = &stand_in, .attributes = attributes, .n_attributes = n};
}

static void kernels_are_found_by_name(void **unused)
{
    (void)unused;
    for (const ipu__kernel_def *const *def = ipu__kernels; *def; def++)
        assert_ptr_equal(ipu__kernel_find((*def)->name), *def);
    assert_non_null(ipu__kernel_find("matmul"));
    assert_null(ipu__kernel_find("matmu"));
    assert_null(ipu__kernel_find(""));
    assert_null(ipu__kernel_find(NULL));
}

static void attributes_are_found(void **unused)
{
    (void)unused;
    const ipu_attribute list[] = {IPU_INT_ATTRIBUTE("n", -7), IPU_FLOAT_ATTRIBUTE("x", 0.25),
                                  IPU_INT_ATTRIBUTE(NULL, 1)};
    ipu__kernel_call    call   = call_with(list, 3);
    assert_ptr_equal(ipu__attribute_find(&call, "n"), &list[0]);
    assert_ptr_equal(ipu__attribute_find(&call, "x"), &list[1]);
    assert_null(ipu__attribute_find(&call, "y"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_found_by_name),
        cmocka_unit_test(attributes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
