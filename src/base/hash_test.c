/* The hash, against the vectors its authors publish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

static void the_published_vectors_hold(void **state)
{
    (void)state;
    static const char *const vectors[][2] = {
        {"", "6c62272e07bb014262b821756295c58d"},
        {"a", "d228cb696f1a8caf78912b704e4a8964"},
        {"foobar", "343e1662793c64bf6f0d3597ba446f18"},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        char         text[IPU__HASH_TEXT];
        ipu__hash128 hash = ipu__hash_bytes(vectors[i][0], strlen(vectors[i][0]));
        ipu__hash_print(&hash, text);
        assert_string_equal(text, vectors[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_published_vectors_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
