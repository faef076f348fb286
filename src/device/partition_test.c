/* Partitions: numbers of devices, IPUs, boards and machines, as in captured output of the tools. */
#include "device/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static ipu_partition built(ipu__arena *arena, ipu__partition_spec spec)
{
    ipu_partition p;
    assert_int_equal(ipu__partition_build(arena, &spec, &p), IPU_OK);
    return p;
}

static void the_default_is_a_machine_of_four_gc200s(void **state)
{
    (void)state;
    ipu__arena    arena = {0};
    ipu_partition p     = built(&arena, (ipu__partition_spec){0});
    assert_string_equal(p.name, "default");
    assert_string_equal(p.chip, "gc200");
    assert_string_equal(p.arch, "ipu2");
    assert_true(p.elastic && p.reconfigurable);
    assert_int_equal(p.n_ipus, 4);
    assert_int_equal(p.n_machines, 1);
    assert_string_equal(p.machines[0].type, "M2000");
    assert_int_equal(p.tiles_per_ipu, 1472);
    assert_true(p.clock_hz == 1.33e9);
    ipu__arena_fini(&arena);
}

/* 4 = {0,1}, 5 = {2,3}, 6 = {0,1,2,3}: captures of a machine of four. */
static void devices_are_numbered_by_size_then_place(void **state)
{
    (void)state;
    static const int expected[7][2] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {0, 2}, {2, 2}, {0, 4}};
    ipu__arena       arena          = {0};
    ipu_partition    p              = built(&arena, (ipu__partition_spec){0});
    assert_int_equal(p.n_devices, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(p.devices[i].id, i);
        assert_int_equal(p.devices[i].first, expected[i][0]);
        assert_int_equal(p.devices[i].n_ipus, expected[i][1]);
        assert_string_equal(p.devices[i].target, i < 4 ? "Fabric" : "Multi IPU");
    }
    ipu__arena_fini(&arena);
}

/* IDs 0,1,2,3 are IPU# 3,2,1,0; 0 and 1 share board 0002, 2 and 3 board 0001. */
static void numbers_count_down_and_boards_are_pairs(void **state)
{
    (void)state;
    ipu__arena    arena = {0};
    ipu_partition p     = built(&arena, (ipu__partition_spec){.target = "pod16"});
    assert_int_equal(p.n_machines, 4);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(p.singles[i].index, i);
        assert_int_equal(p.singles[i].number, 3 - i % 4);
        assert_ptr_equal(p.singles[i].machine, &p.machines[i / 4]);
        assert_memory_equal(p.singles[i].board + 5, i % 4 < 2 ? "0002" : "0001", 4);
        for (int k = 0; k < i; k++)
            assert_int_equal(strcmp(p.singles[k].board, p.singles[i].board) == 0, k / 2 == i / 2);
    }
    ipu__arena_fini(&arena);
}

static void a_partition_of_n_has_2n_minus_1_devices(void **state)
{
    (void)state;
    for (int n = 1; n <= 256; n *= 2) {
        ipu__arena    arena = {0};
        ipu_partition p     = built(&arena, (ipu__partition_spec){.target = "bow", .n_ipus = n});
        assert_int_equal(p.n_devices, 2 * n - 1);
        assert_int_equal(p.devices[2 * n - 2].n_ipus, n);
        assert_int_equal(p.devices[2 * n - 2].first, 0);
        ipu__arena_fini(&arena);
    }
}

static void a_fixed_partition_is_one_device(void **state)
{
    (void)state;
    ipu__arena    arena = {0};
    ipu_partition p     = built(&arena, (ipu__partition_spec){.target = "pod64", .fixed = true});
    assert_int_equal(p.n_devices, 1);
    assert_int_equal(p.devices[0].n_ipus, 64);
    assert_string_equal(p.devices[0].target, "Multi IPU");
    ipu__arena_fini(&arena);
}

static void cards_are_on_pcie(void **state)
{
    (void)state;
    ipu__arena    arena = {0};
    ipu_partition c600  = built(&arena, (ipu__partition_spec){.target = "c600"});
    ipu_partition c2    = built(&arena, (ipu__partition_spec){.target = "c2"});
    assert_string_equal(c600.devices[0].target, "PCIe");
    assert_string_equal(c600.arch, "ipu21");
    assert_null(c600.machines[0].board[1]);
    assert_int_equal(c2.n_machines, 1);
    assert_string_equal(c2.machines[0].type, "C2");
    assert_string_equal(c2.singles[0].board, c2.singles[1].board);
    ipu__arena_fini(&arena);
}

static void names_that_could_leave_the_folder_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"p", "p1", "my-pod_16.b", "0"};
    static const char *const bad[]  = {"", ".", "..", "a/b", "-p", "a b", "\xc3\xa9", "p\n"};
    char                     longest[IPU__PARTITION_BYTES + 1];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(ipu__partition_check_name(good[i]), IPU_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ipu__partition_check_name(bad[i]), IPU_INVALID);
    memset(longest, 'p', sizeof longest);
    longest[IPU__PARTITION_BYTES] = 0;
    assert_int_equal(ipu__partition_check_name(longest), IPU_INVALID);
    longest[IPU__PARTITION_BYTES - 1] = 0;
    assert_int_equal(ipu__partition_check_name(longest), IPU_OK);
}

static void a_device_that_is_not_there_says_which_are(void **state)
{
    (void)state;
    ipu__arena             arena = {0};
    ipu_partition          p     = built(&arena, (ipu__partition_spec){0});
    const ipu_device_info *d;
    assert_int_equal(ipu_partition_find_device(&p, 6, &d), IPU_OK);
    assert_int_equal(d->n_ipus, 4);
    static const int wrong[] = {-1, 7, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ipu_partition_find_device(&p, wrong[i], &d), IPU_NOT_FOUND);
        assert_non_null(strstr(ipu_message(), "0 to 6"));
        assert_null(d);
    }
    ipu__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_a_machine_of_four_gc200s),
        cmocka_unit_test(devices_are_numbered_by_size_then_place),
        cmocka_unit_test(numbers_count_down_and_boards_are_pairs),
        cmocka_unit_test(a_partition_of_n_has_2n_minus_1_devices),
        cmocka_unit_test(a_fixed_partition_is_one_device),
        cmocka_unit_test(cards_are_on_pcie),
        cmocka_unit_test(names_that_could_leave_the_folder_are_refused),
        cmocka_unit_test(a_device_that_is_not_there_says_which_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
