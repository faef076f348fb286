/* The build id: matches the one in the file of the object that contains the library. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/host/build.h"

static void it_is_that_of_the_file(void **state)
{
    (void)state;
    size_t         bytes, again;
    const void    *id   = ipu__build_id(&bytes);
    unsigned char *file = malloc(1 << 20);
    Dl_info        object;
    assert_int_not_equal(dladdr((const void *)(uintptr_t)&ipu__build_id, &object), 0);
    FILE *f = fopen(object.dli_fname, "rb");
    assert_non_null(f);
    size_t n = fread(file, 1, 1 << 20, f);
    fclose(f);
    if (!id) {
        free(file);
        skip(); /* linked without one */
    }
    assert_in_range(bytes, 8, 64);
    assert_non_null(memmem(file, n, id, bytes));
    assert_ptr_equal(ipu__build_id(&again), id);
    assert_int_equal(again, bytes);
    static const unsigned char zero[64];
    assert_memory_not_equal(id, zero, bytes);
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_that_of_the_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
