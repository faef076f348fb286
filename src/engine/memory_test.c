/* The memory planner: things needed at the same time never overlap, others share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/support/random.h"
#include "base/alloc.h"
#include "engine/cpu/cpu.h"

static int64_t check_plan(const ipu__tenant *t, size_t n)
{
    int64_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (t[i].bytes == 0) continue;
        assert_int_equal(t[i].offset % IPU__MEMORY_ALIGN, 0);
        if (t[i].offset + t[i].bytes > end) end = t[i].offset + t[i].bytes;
        for (size_t k = 0; k < i; k++) {
            bool together = t[i].first <= t[k].last && t[k].first <= t[i].last && t[k].bytes > 0;
            bool overlap  = t[i].offset < t[k].offset + t[k].bytes && t[k].offset < t[i].offset + t[i].bytes;
            if (together && overlap)
                fail_msg("tenants %u and %u overlap (IPU_TEST_SEED)", (unsigned)t[i].id, (unsigned)t[k].id);
        }
    }
    return end;
}

static void tenants_of_the_same_moment_do_not_overlap(void **state)
{
    (void)state;
    enum { MOST = 200 };
    for (int trial = 0; trial < test_count(300); trial++) {
        test_random r = {test_seed(1) + (uint64_t)trial};
        ipu__tenant t[MOST];
        size_t      n       = (size_t)random_in(&r, 0, MOST);
        int64_t     moments = random_in(&r, 1, 100), unit = random_in(&r, 0, 1) ? 1 : 4096, bytes, most = 0;
        for (size_t i = 0; i < n; i++) {
            int64_t first = random_in(&r, 0, moments), last = random_in(&r, first, moments);
            int64_t size = unit * random_in(&r, 0, 3) * random_in(&r, 0, 1000);
            t[i]         = (ipu__tenant){(uint32_t)i, first, last, size, -1};
            most += ipu__memory_room(&ipu__cpu_spacing, t[i].bytes);
        }
        assert_true(ipu__memory_plan(t, n, &ipu__cpu_spacing, &bytes));
        assert_true(check_plan(t, n) <= bytes);
        assert_true(bytes <= most);
    }
}

static void a_chain_needs_two_at_a_time(void **state)
{
    (void)state;
    enum { N = 1000 };
    static ipu__tenant t[N];
    int64_t            bytes;
    for (uint32_t i = 0; i < N; i++) t[i] = (ipu__tenant){i, i, i + 1, 4096, 0};
    assert_true(ipu__memory_plan(t, N, &ipu__cpu_spacing, &bytes));
    check_plan(t, N);
    assert_int_equal(bytes, 2 * 4096);
}

/* A chain of five, each of `each` bytes: the memory it takes. */
static int64_t chain_of_five(int64_t each)
{
    ipu__tenant t[5];
    int64_t     bytes;
    for (uint32_t i = 0; i < 5; i++) t[i] = (ipu__tenant){i, i, i + 1, each, 0};
    assert_true(ipu__memory_plan(t, 5, &ipu__cpu_spacing, &bytes));
    assert_true(bytes >= check_plan(t, 5));
    return bytes;
}

static void what_caches_hold_is_not_shared(void **state)
{
    (void)state;
    int64_t small = 64 << 10, middle = 200 << 10, large = 1 << 20;
    assert_int_equal(chain_of_five(small), 2 * ipu__memory_room(&ipu__cpu_spacing, small));
    assert_int_equal(chain_of_five(middle), 5 * ipu__memory_room(&ipu__cpu_spacing, middle));
    assert_int_equal(chain_of_five(large), 2 * ipu__memory_room(&ipu__cpu_spacing, large));
}

static void the_best_fitting_hole_is_taken(void **state)
{
    (void)state;
    /* 0 and 2 leave holes of 512 and 128 bytes; 4 fits both */
    ipu__tenant t[] = {
        {0, 0, 0, 512, 0}, {1, 0, 9, 256, 0}, {2, 0, 0, 128, 0}, {3, 0, 9, 64, 0}, {4, 1, 9, 128, 0}};
    int64_t bytes, offsets[5];
    assert_true(ipu__memory_plan(t, 5, &ipu__cpu_spacing, &bytes));
    for (size_t i = 0; i < 5; i++) offsets[t[i].id] = t[i].offset;
    assert_int_equal(offsets[4], offsets[2]);
    assert_int_equal(bytes, 512 + 256 + 128 + 64);
}

/* In order of first moments, 1 would move in above 0 and leave no room for 2 below it. */
static void small_ones_are_not_in_the_way_of_large_ones(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    ipu__tenant t[] = {{0, 0, 1, 4 * MIB, 0}, {1, 1, 9, 1 * MIB, 0}, {2, 2, 9, 6 * MIB, 0}};
    int64_t     bytes;
    assert_true(ipu__memory_plan(t, 3, &ipu__cpu_spacing, &bytes));
    check_plan(t, 3);
    assert_int_equal(bytes, ipu__memory_room(&ipu__cpu_spacing, 1 * MIB)
                                + ipu__memory_room(&ipu__cpu_spacing, 6 * MIB));
}

/* 100,000 at once, all replaced by 100,000 others: takes minutes if holes are not merged. */
static void many_tenants_take_no_time(void **state)
{
    (void)state;
    enum { N = 100000 };
    ipu__tenant *t = malloc(2 * N * sizeof *t);
    int64_t      bytes;
    for (uint32_t i = 0; i < 2 * N; i++) t[i] = (ipu__tenant){i, i / N, i / N, 4, 0};
    assert_true(ipu__memory_plan(t, 2 * N, &ipu__cpu_spacing, &bytes));
    assert_int_equal(bytes, (int64_t)N * IPU__MEMORY_ALIGN);
    free(t);
}

static void *refuse(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    int *left = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return (*left)-- > 0 ? realloc(ptr, new_bytes) : NULL;
}

static void refused_memory_is_reported(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    ipu__tenant t[] = {{0, 0, 0, 64, 0}, {1, 0, 9, 64, 0}, {2, 1, 9, 64, 0}};
    int64_t     bytes;
    int         left = 0, needed = 0;
    ipu__alloc_set(refuse, &left);
    while (left = needed, !ipu__memory_plan(t, 3, &ipu__cpu_spacing, &bytes)) needed++;
    assert_int_equal(needed, 2);
    assert_int_equal(bytes, 128);
    ipu__tenant large[] = {{0, 0, 1, 4 * MIB, 0}, {1, 1, 9, 1 * MIB, 0}, {2, 2, 9, 6 * MIB, 0}};
    for (needed = 0; left = needed, !ipu__memory_plan(large, 3, &ipu__cpu_spacing, &bytes);) needed++;
    ipu__alloc_set(NULL, NULL);
    assert_int_equal(needed, 3);
    check_plan(large, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_of_the_same_moment_do_not_overlap),
        cmocka_unit_test(a_chain_needs_two_at_a_time),
        cmocka_unit_test(what_caches_hold_is_not_shared),
        cmocka_unit_test(the_best_fitting_hole_is_taken),
        cmocka_unit_test(small_ones_are_not_in_the_way_of_large_ones),
        cmocka_unit_test(many_tenants_take_no_time),
        cmocka_unit_test(refused_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
