/* Shuffling: permutations, by seed and epoch only, fair, and the same with indices of either width. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "train/shuffle.h"

static void each_epoch_is_a_permutation_of_its_own(void **state)
{
    (void)state;
    enum { N = 1000 };
    ipu__shuffle s;
    int64_t      before[N] = {0};
    assert_int_equal(ipu__shuffle_create(N, 7, &s), IPU_OK);
    for (int epoch = 0; epoch < 3; epoch++) {
        bool seen[N]  = {0};
        int  in_place = 0, as_before = 0;
        ipu__shuffle_begin(&s, epoch);
        for (int i = 0; i < N; i++) {
            int64_t drawn = ipu__shuffle_next(&s);
            assert_in_range(drawn, 0, N - 1);
            assert_false(seen[drawn]);
            seen[drawn] = true;
            in_place += drawn == i;
            as_before += epoch > 0 && drawn == before[i];
            before[i] = drawn;
        }
        assert_in_range(in_place, 0, 10); /* 1 is expected; over 10: once in 10^8 */
        assert_in_range(as_before, 0, 10);
    }
    ipu__shuffle_free(&s);
}

static void an_epoch_does_not_depend_on_what_was_drawn_before(void **state)
{
    (void)state;
    ipu__shuffle a, b;
    assert_int_equal(ipu__shuffle_create(50, UINT64_C(0x123456789abcdef), &a), IPU_OK);
    assert_int_equal(ipu__shuffle_create(50, UINT64_C(0x123456789abcdef), &b), IPU_OK);
    ipu__shuffle_begin(&a, 0);
    for (int i = 0; i < 33; i++) ipu__shuffle_next(&a);
    ipu__shuffle_begin(&a, 5);
    ipu__shuffle_begin(&b, 5);
    for (int i = 0; i < 50; i++) assert_int_equal(ipu__shuffle_next(&a), ipu__shuffle_next(&b));
    ipu__shuffle_free(&a);
    ipu__shuffle_free(&b);
}

/* All bits of the seed and of the epoch count. */
static void other_seeds_and_epochs_give_other_orders(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed;
        int64_t  epoch;
    } cases[] = {{0, 0}, {1, 0}, {UINT64_C(1) << 32, 0}, {0, 1}, {0, INT64_C(1) << 32}};
    enum { N = 64, CASES = sizeof cases / sizeof *cases };
    int64_t orders[CASES][N];
    for (int c = 0; c < CASES; c++) {
        ipu__shuffle s;
        assert_int_equal(ipu__shuffle_create(N, cases[c].seed, &s), IPU_OK);
        ipu__shuffle_begin(&s, cases[c].epoch);
        for (int i = 0; i < N; i++) orders[c][i] = ipu__shuffle_next(&s);
        ipu__shuffle_free(&s);
        for (int d = 0; d < c; d++) assert_memory_not_equal(orders[c], orders[d], sizeof *orders);
    }
}

/* The 24 orders of four samples come up equally often: chi square of 23 degrees is over 60 once in 30000. */
static void all_orders_are_equally_likely(void **state)
{
    (void)state;
    enum { ROUNDS = 24000 };
    int          counts[256] = {0};
    double       chi2        = 0;
    ipu__shuffle s;
    assert_int_equal(ipu__shuffle_create(4, 0, &s), IPU_OK);
    for (int epoch = 0; epoch < ROUNDS; epoch++) {
        int order = 0;
        ipu__shuffle_begin(&s, epoch);
        for (int i = 0; i < 4; i++) order = order * 4 + (int)ipu__shuffle_next(&s);
        counts[order]++;
    }
    ipu__shuffle_free(&s);
    int n_orders = 0;
    for (int i = 0; i < 256; i++) {
        if (counts[i]) chi2 += (counts[i] - ROUNDS / 24.0) * (counts[i] - ROUNDS / 24.0) / (ROUNDS / 24.0);
        n_orders += counts[i] > 0;
    }
    assert_int_equal(n_orders, 24);
    assert_true(chi2 < 60);
}

static void wide_indices_give_the_order_of_narrow_ones(void **state)
{
    (void)state;
    enum { N = 300 };
    ipu__shuffle a, b = {.n = N, .seed = 3, .wide = ipu__alloc(N * sizeof(int64_t))};
    assert_non_null(b.wide);
    assert_int_equal(ipu__shuffle_create(N, 3, &a), IPU_OK);
    assert_non_null(a.narrow);
    ipu__shuffle_begin(&a, 2);
    ipu__shuffle_begin(&b, 2);
    for (int i = 0; i < N; i++) assert_int_equal(ipu__shuffle_next(&a), ipu__shuffle_next(&b));
    ipu__shuffle_free(&a);
    ipu__shuffle_free(&b);
}

static void more_samples_than_memory_is_refused(void **state)
{
    (void)state;
    ipu__shuffle s;
    assert_int_equal(ipu__shuffle_create(INT64_MAX, 0, &s), IPU_OUT_OF_MEMORY);
    ipu__shuffle_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_epoch_is_a_permutation_of_its_own),
        cmocka_unit_test(an_epoch_does_not_depend_on_what_was_drawn_before),
        cmocka_unit_test(other_seeds_and_epochs_give_other_orders),
        cmocka_unit_test(all_orders_are_equally_likely),
        cmocka_unit_test(wide_indices_give_the_order_of_narrow_ones),
        cmocka_unit_test(more_samples_than_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
