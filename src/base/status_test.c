/* Statuses: texts for every number, messages per thread, truncation, locations. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void every_status_has_a_text_and_no_other_number_has(void **state)
{
    (void)state;
    assert_string_equal(ipu_status_text(IPU_OK), "ok");
#define X(name, text) assert_string_equal(ipu_status_text(IPU_##name), text);
    IPU_STATUS_LIST(X)
#undef X
    assert_string_equal(ipu_status_text((ipu_status)(IPU_DEVICE_ERROR + 1)), "unknown status");
    assert_string_equal(ipu_status_text((ipu_status)-1), "unknown status");
}

static void fail_returns_the_status_and_keeps_the_sentence(void **state)
{
    (void)state;
    assert_int_equal(ipu__fail(IPU_IO, "expected %d, found %s", 3, "four"), IPU_IO);
    assert_string_equal(ipu_message(), "expected 3, found four");
    assert_int_equal(ipu__fail_memory(), IPU_OUT_OF_MEMORY);
    assert_non_null(strstr(ipu_message(), "out of memory"));
}

static void a_message_may_be_built_from_the_message_before(void **state)
{
    (void)state;
    ipu__fail(IPU_INVALID, "inner");
    ipu__fail(IPU_INVALID, "outer: %s", ipu_message());
    assert_string_equal(ipu_message(), "outer: inner");
}

static void a_message_too_long_is_cut_and_ends_in_0(void **state)
{
    (void)state;
    static char large[100000];
    memset(large, 'x', sizeof large - 1);
    assert_int_equal(ipu__fail(IPU_INVALID, "%s", large), IPU_INVALID);
    size_t n = strlen(ipu_message());
    assert_in_range(n, 10000, sizeof large - 2);
    assert_int_equal(strspn(ipu_message(), "x"), n);
}

static void *other_thread(void *arg)
{
    char *found = arg;
    snprintf(found, 64, "[%s]", ipu_message());
    ipu__fail(IPU_IO, "theirs");
    ipu_here("theirs.c", 9);
    return NULL;
}

static void message_and_location_belong_to_the_thread(void **state)
{
    (void)state;
    pthread_t thread;
    char      found[64];
    ipu__fail(IPU_IO, "ours");
    ipu_here("ours.c", 7);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, found), 0);
    pthread_join(thread, NULL);
    assert_string_equal(found, "[]");
    assert_string_equal(ipu_message(), "ours");
    assert_string_equal(ipu__here().file, "ours.c");
    assert_int_equal(ipu__here().line, 7);
}

static ipu_status tries(ipu_status inner, int *reached)
{
    IPU_TRY(inner);
    ++*reached;
    return IPU_OK;
}

static void try_returns_early_on_failure_only(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(tries(IPU_NOT_FOUND, &reached), IPU_NOT_FOUND);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(IPU_OK, &reached), IPU_OK);
    assert_int_equal(reached, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text_and_no_other_number_has),
        cmocka_unit_test(fail_returns_the_status_and_keeps_the_sentence),
        cmocka_unit_test(a_message_may_be_built_from_the_message_before),
        cmocka_unit_test(a_message_too_long_is_cut_and_ends_in_0),
        cmocka_unit_test(message_and_location_belong_to_the_thread),
        cmocka_unit_test(try_returns_early_on_failure_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
