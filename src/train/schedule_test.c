/* Schedules: values that PyTorch's have, ends where they stay, warm-up. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ipu/schedule.h"

#define ASSERT_RATE(s, step, expected)                                                             \
    do {                                                                                           \
        double found_ = ipu_schedule_rate(&(s), step);                                             \
        if (!(fabs(found_ - (expected)) < 1e-12)) fail_msg("step %d: %.17g", (int)(step), found_); \
    } while (0)

static void rates_are_those_of_pytorch(void **state)
{
    (void)state;
    ipu_schedule s = {.rate = 0.5};
    ASSERT_RATE(s, 0, 0.5);
    ASSERT_RATE(s, 1000000, 0.5);
    s = (ipu_schedule){.kind = IPU_SCHEDULE_STEP, .rate = 0.5, .gamma = 0.1, .period = 30};
    ASSERT_RATE(s, 29, 0.5);
    ASSERT_RATE(s, 30, 0.05);
    ASSERT_RATE(s, 60, 0.005);
    s = (ipu_schedule){.kind = IPU_SCHEDULE_EXPONENTIAL, .rate = 0.5, .gamma = 0.9};
    ASSERT_RATE(s, 3, 0.5 * 0.729);
    s = (ipu_schedule){.kind = IPU_SCHEDULE_LINEAR, .rate = 0.5, .last = 0.1, .n_steps = 4};
    ASSERT_RATE(s, 1, 0.4);
    ASSERT_RATE(s, 4, 0.1);
    ASSERT_RATE(s, 5, 0.1);
    s = (ipu_schedule){.kind = IPU_SCHEDULE_COSINE, .rate = 1, .last = 0.2, .n_steps = 10};
    ASSERT_RATE(s, 0, 1);
    ASSERT_RATE(s, 5, 0.6);
    ASSERT_RATE(s, 10, 0.2);
    ASSERT_RATE(s, 99, 0.2);
}

static void a_warm_up_goes_before(void **state)
{
    (void)state;
    ipu_schedule s = {.kind = IPU_SCHEDULE_LINEAR, .rate = 1, .n_steps = 14, .warmup = 4};
    ASSERT_RATE(s, 0, 0.25);
    ASSERT_RATE(s, 3, 1);
    ASSERT_RATE(s, 4, 1);
    ASSERT_RATE(s, 9, 0.5);
    ASSERT_RATE(s, 14, 0);
}

static void milestones_are_shares_of_all_steps(void **state)
{
    (void)state;
    const double halves[] = {0.75, 0.5}, steps[] = {30, 80};
    ipu_schedule s = {.kind         = IPU_SCHEDULE_MILESTONES,
                      .rate         = 0.5,
                      .gamma        = 0.1,
                      .n_steps      = 7,
                      .milestones   = halves,
                      .n_milestones = 2};
    ASSERT_RATE(s, 0, 0.5);
    ASSERT_RATE(s, 3, 0.5); /* 3 of 7 is less than half of them, and 5 less than three quarters */
    ASSERT_RATE(s, 4, 0.05);
    ASSERT_RATE(s, 5, 0.05);
    ASSERT_RATE(s, 6, 0.005);
    ASSERT_RATE(s, 100, 0.005);
    s.warmup = 4; /* which is among the steps that shares are of */
    ASSERT_RATE(s, 1, 0.25);
    ASSERT_RATE(s, 4, 0.05);
    s.warmup     = 0;
    s.n_steps    = 1;
    s.milestones = steps;
    ASSERT_RATE(s, 29, 0.5);
    ASSERT_RATE(s, 30, 0.05);
    ASSERT_RATE(s, 79, 0.05);
    ASSERT_RATE(s, 80, 0.005);
    s.n_milestones = 0;
    ASSERT_RATE(s, 80, 0.5);
}

/* Each hundredth of each number of steps is reached by the step that comes first, as whole numbers say. */
static void no_milestone_is_late_by_rounding(void **state)
{
    (void)state;
    for (int n = 1; n <= 1000; n += 27)
        for (int percent = 1; percent < 100; percent++) {
            const double share = percent / 100.0;
            const int    first = (percent * n + 99) / 100;
            ipu_schedule s     = {.kind         = IPU_SCHEDULE_MILESTONES,
                                  .rate         = 1,
                                  .gamma        = 0.5,
                                  .n_steps      = n,
                                  .milestones   = &share,
                                  .n_milestones = 1};
            ASSERT_RATE(s, first - 1, 1);
            ASSERT_RATE(s, first, 0.5);
        }
}

static void what_makes_no_sense_gives_a_rate_all_the_same(void **state)
{
    (void)state;
    ipu_schedule s = {.kind = IPU_SCHEDULE_STEP, .rate = 0.5, .gamma = 0.1};
    ASSERT_RATE(s, 7, 0.5);
    ASSERT_RATE(s, -1, 0.5);
    s = (ipu_schedule){.kind = IPU_SCHEDULE_COSINE, .rate = 1, .last = 0.25, .n_steps = 3, .warmup = 5};
    ASSERT_RATE(s, 8, 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_pytorch),
        cmocka_unit_test(a_warm_up_goes_before),
        cmocka_unit_test(milestones_are_shares_of_all_steps),
        cmocka_unit_test(no_milestone_is_late_by_rounding),
        cmocka_unit_test(what_makes_no_sense_gives_a_rate_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
