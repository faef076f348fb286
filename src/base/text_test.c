/* Text under construction: lengths around the small buffer, quoting, failure remembered to the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/text.h"

static int calls_left, live;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        live--;
        free(ptr);
        return NULL;
    }
    if (calls_left-- <= 0) return NULL;
    if (!ptr) live++;
    return realloc(ptr, new_bytes);
}

static int reset(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void pieces_come_out_in_order(void **state)
{
    (void)state;
    ipu__text t = {0};
    ipu__text_add(&t, "%d tiles, ", 1472);
    ipu__text_add_bytes(&t, "abcdef", 3);
    ipu__text_add(&t, "%s", "!");
    assert_int_equal(t.n, strlen("1472 tiles, abc!"));
    char *done = ipu__text_take(&t);
    assert_string_equal(done, "1472 tiles, abc!");
    assert_null(t.at);
    ipu__free(done);
}

static void text_of_any_length_is_whole(void **state)
{
    (void)state;
    for (int n = 0; n < 1100; n++) {
        ipu__text t = {0};
        ipu__text_add(&t, "<%*s>", n, "");
        ipu__text_add(&t, "%s", "end");
        char *done = ipu__text_take(&t);
        assert_int_equal(strlen(done), n + 5);
        assert_string_equal(done + n + 1, ">end");
        ipu__free(done);
    }
}

static void nothing_added_is_the_empty_string(void **state)
{
    (void)state;
    ipu__text t    = {0};
    char     *done = ipu__text_take(&t);
    assert_string_equal(done, "");
    ipu__free(done);
}

static void quoting_escapes_what_c_would(void **state)
{
    (void)state;
    ipu__text t = {0};
    ipu__text_add_quoted(&t, "a\"b\\c\nd\te\x01\x7f\xc3\xa9");
    char *done = ipu__text_take(&t);
    assert_string_equal(done, "\"a\\\"b\\\\c\\nd\\te\\x01\\x7f\xc3\xa9\"");
    ipu__free(done);
}

static void one_refusal_makes_the_whole_text_null(void **state)
{
    (void)state;
    char *done = NULL;
    ipu__alloc_set(limited, NULL);
    live = 0;
    for (int allowed = 0; !done; allowed++) {
        assert_in_range(allowed, 0, 20);
        calls_left  = allowed;
        ipu__text t = {0};
        for (int i = 0; i < 10; i++) ipu__text_add(&t, "%100d", i);
        ipu__text_add(&t, "%1000d", 7);
        assert_true(t.failed == (calls_left < 0));
        done = ipu__text_take(&t);
        assert_int_equal(live, done ? 1 : 0);
    }
    assert_int_equal(strlen(done), 2000);
    ipu__free(done);
    assert_int_equal(live, 0);
}

static void fini_frees_text_that_is_not_taken(void **state)
{
    (void)state;
    ipu__alloc_set(limited, NULL);
    calls_left = 10, live = 0;
    ipu__text t = {0};
    ipu__text_add(&t, "x");
    assert_int_equal(live, 1);
    ipu__text_fini(&t);
    assert_int_equal(live, 0);
    ipu__text_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_out_in_order),
        cmocka_unit_test(text_of_any_length_is_whole),
        cmocka_unit_test(nothing_added_is_the_empty_string),
        cmocka_unit_test(quoting_escapes_what_c_would),
        cmocka_unit_test_teardown(one_refusal_makes_the_whole_text_null, reset),
        cmocka_unit_test_teardown(fini_frees_text_that_is_not_taken, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
