/* "Did you mean": near names are found, far ones are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static const char *hint_for(ipu__nearest *nearest, const char *wanted)
{
    static const char *const names[] = {"threads", "memory.share", "print.limit", "x", "AdderVertex"};
    *nearest                         = ipu__nearest_to(wanted);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) ipu__nearest_try(nearest, names[i]);
    return ipu__nearest_hint(nearest);
}

static void near_names_are_suggested(void **state)
{
    (void)state;
    ipu__nearest n;
    assert_string_equal(hint_for(&n, "thraeds"), " (did you mean \"threads\"?)");
    assert_string_equal(hint_for(&n, "thread"), " (did you mean \"threads\"?)");
    assert_string_equal(hint_for(&n, "addervertex"), " (did you mean \"AdderVertex\"?)");
    assert_string_equal(hint_for(&n, "memory.shares"), " (did you mean \"memory.share\"?)");
    assert_string_equal(hint_for(&n, "y"), " (did you mean \"x\"?)");
}

static void far_names_are_not(void **state)
{
    (void)state;
    ipu__nearest n;
    assert_string_equal(hint_for(&n, "completely different"), "");
    char longer[200];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_string_equal(hint_for(&n, longer), "");
    ipu__nearest none = ipu__nearest_to("threads");
    assert_string_equal(ipu__nearest_hint(&none), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_names_are_suggested),
        cmocka_unit_test(far_names_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
