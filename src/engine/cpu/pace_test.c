/* Pace, with simulated times: it finds the faster way, keeps it, follows a change, and leaves long runs
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/cpu/cpu.h"

enum { US = 1000, LONG_ENOUGH = 2000 }; /* number of runs: several trials */

/* Simulates runs that take `shared` or `alone`. Returns how many were run alone. */
static int run(ipu__pace *p, int n, int64_t shared, int64_t alone)
{
    int n_alone = 0;
    for (int i = 0; i < n; i++) {
        n_alone += p->alone;
        ipu__pace_note(p, p->alone ? alone : shared);
    }
    return n_alone;
}

static ipu__pace made(void)
{
    ipu__pace p;
    ipu__pace_init(&p);
    return p;
}

static void threads_share_what_they_do_sooner(void **state)
{
    (void)state;
    ipu__pace p       = made();
    int       n_alone = run(&p, LONG_ENOUGH, 100 * US, 150 * US);
    assert_true(n_alone > 0); /* it was tried */
    assert_true(n_alone < LONG_ENOUGH / 20);
}

static void the_caller_alone_does_what_threads_only_delay(void **state)
{
    (void)state;
    ipu__pace p = made();
    assert_true(run(&p, LONG_ENOUGH, 450 * US, 270 * US) > LONG_ENOUGH * 9 / 10);
}

static void a_change_that_saves_little_is_none(void **state)
{
    (void)state;
    ipu__pace p = made();
    assert_true(run(&p, LONG_ENOUGH, 100 * US, 97 * US) < LONG_ENOUGH / 20);
}

static void it_follows_when_times_change(void **state)
{
    (void)state;
    ipu__pace p = made();
    run(&p, LONG_ENOUGH, 450 * US, 270 * US);
    run(&p, LONG_ENOUGH, 190 * US, 270 * US);
    assert_false(run(&p, 1, 190 * US, 270 * US));
    run(&p, LONG_ENOUGH, 450 * US, 270 * US);
    assert_true(p.alone || p.trial > 0);
}

static void long_runs_are_shared_without_a_trial(void **state)
{
    (void)state;
    ipu__pace p = made();
    assert_int_equal(run(&p, LONG_ENOUGH, 9000 * US, 6000 * US), 0);
}

/* A machine that was busy during the choice must not leave a program on one thread for ever. */
static void long_runs_alone_try_to_share_again(void **state)
{
    (void)state;
    ipu__pace p = made();
    run(&p, LONG_ENOUGH, 7000 * US, 6000 * US);
    assert_true(run(&p, LONG_ENOUGH, 2200 * US, 4000 * US) < LONG_ENOUGH / 2);
    assert_false(p.alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_what_they_do_sooner),
        cmocka_unit_test(the_caller_alone_does_what_threads_only_delay),
        cmocka_unit_test(a_change_that_saves_little_is_none),
        cmocka_unit_test(it_follows_when_times_change),
        cmocka_unit_test(long_runs_are_shared_without_a_trial),
        cmocka_unit_test(long_runs_alone_try_to_share_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
