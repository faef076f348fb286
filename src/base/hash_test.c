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

static void a_hash_goes_on_where_another_ended(void **state)
{
    (void)state;
    ipu__hash128 whole = ipu__hash_bytes("foobar", 6), foo = ipu__hash_bytes("foo", 3);
    foo = ipu__hash_more(&foo, "bar", 3);
    assert_memory_equal(foo.bytes, whole.bytes, sizeof foo.bytes);
}

static void the_hash_of_much_depends_on_every_bit_and_on_the_length(void **state)
{
    (void)state;
    char         data[100] = {0}, text[IPU__HASH_TEXT];
    ipu__hash128 before    = ipu__hash_bulk(data, sizeof data);
    ipu__hash_print(&before, text);
    assert_string_equal(text, "7b07a96725201d87ce18f70a5620d1a1"); /* stored in files */
    for (size_t i = 0; i < 8 * sizeof data; i++) {
        data[i / 8] ^= (char)(1 << i % 8);
        ipu__hash128 after = ipu__hash_bulk(data, sizeof data);
        assert_memory_not_equal(after.bytes, before.bytes, sizeof after.bytes);
        data[i / 8] ^= (char)(1 << i % 8);
    }
    for (size_t n = 0; n < sizeof data; n++) {
        ipu__hash128 less = ipu__hash_bulk(data, n);
        assert_memory_not_equal(less.bytes, before.bytes, sizeof less.bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_vectors_hold),
        cmocka_unit_test(a_hash_goes_on_where_another_ended),
        cmocka_unit_test(the_hash_of_much_depends_on_every_bit_and_on_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
