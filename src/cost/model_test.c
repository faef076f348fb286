/* The model's numbers: their sources, what a chip lacks, and sums that stay in range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cost/model.h"

static ipu_target target_of(const char *chip, int64_t n_ipus)
{
    ipu_target t;
    assert_int_equal(ipu_target_find(chip, n_ipus, &t), IPU_OK);
    return t;
}

static void constants_are_the_chips_and_then_ours(void **unused)
{
    (void)unused;
    ipu_target   t = target_of("gc200", 1);
    ipu_constant c, found;
    bool         is_ours = false;
    for (int64_t i = 0; ipu__cost_constant_at(&t, i, &c); i++) {
        assert_true(*c.source && *c.unit);
        if (strncmp(c.source, "OpenIPU: ", 9) == 0) is_ours = true;
        if (is_ours) {
            assert_true(c.certainty == IPU_CERTAIN_DEFINED || c.certainty == IPU_CERTAIN_LOW);
            continue;
        }
        assert_int_equal(ipu_target_constant(&t, c.name, &found), IPU_OK);
        assert_true(found.value == c.value);
    }
    assert_true(is_ours);
}

static void a_chip_has_a_constant_or_is_said_to_lack_it(void **unused)
{
    (void)unused;
    const char *name, *what;
    int64_t     n_constants[2] = {0}, n_unknown[2] = {0};
    const char *chips[] = {"gc200", "gc2"};
    for (int i = 0; i < 2; i++) {
        ipu_target   t = target_of(chips[i], 1);
        ipu_constant c;
        while (ipu__cost_constant_at(&t, n_constants[i], &c)) n_constants[i]++;
        for (; ipu__cost_unknown_at(&t, n_unknown[i], &name, &what); n_unknown[i]++)
            assert_int_equal(ipu_target_constant(&t, name, &c), IPU_NOT_FOUND);
    }
    assert_int_equal(n_unknown[0], 0);
    assert_int_equal(n_unknown[1], 4); /* messages, local copies (two), streaming memory */
    assert_int_equal(n_constants[0], n_constants[1] + n_unknown[1]);
}

static void an_unknown_rate_takes_no_time(void **unused)
{
    (void)unused;
    ipu_target      t = target_of("tiny", 1);
    ipu__cost_model m;
    ipu__cost_model_init(&m, &t, 1);
    assert_true(m.host_rate == 0);
    assert_int_equal(ipu__cost_at_rate(&m, 1000000, m.host_rate), 0);
    assert_int_equal(ipu__cost_at_rate(&m, 8, 4e9), 2); /* 1 GHz */
    assert_int_equal(ipu__cost_ceil(9, 4), 3);
    assert_int_equal(ipu__cost_ceil(1e300, 1), INT64_MAX);
}

static void a_sync_over_links_is_poplibs_formula(void **unused)
{
    (void)unused;
    ipu_target      t = target_of("gc2", 16);
    ipu__cost_model m;
    ipu__cost_model_init(&m, &t, 4);
    assert_int_equal(m.n_tiles, 4 * 1216);
    assert_int_equal(m.all_ipus, 16);
    assert_int_equal(ipu__cost_hops(&m, 1), 0);
    assert_int_equal(ipu__cost_hops(&m, 2), 48);
    assert_int_equal(ipu__cost_hops(&m, 16), 240);
}

static void sums_do_not_overflow(void **unused)
{
    (void)unused;
    assert_int_equal(ipu__cost_add(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(ipu__cost_add(2, 3), 5);
    assert_int_equal(ipu__cost_times(INT64_MAX / 2, 3), INT64_MAX);
    assert_int_equal(ipu__cost_times(INT64_MAX, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_the_chips_and_then_ours),
        cmocka_unit_test(a_chip_has_a_constant_or_is_said_to_lack_it),
        cmocka_unit_test(an_unknown_rate_takes_no_time),
        cmocka_unit_test(a_sync_over_links_is_poplibs_formula),
        cmocka_unit_test(sums_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
