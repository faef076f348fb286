/* Batches of a run: into which arrays divide, and how many are given. What streams do with them is tested with executors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "session/streams.h"

static void batches_are_counted(void **state)
{
    (void)state;
    const struct {
        ipu__batches batches;
        int64_t      in, out;
    } rows[] = {
        {{1, 1, 1, IPU_OUTPUT_ALL, 0, false}, 1, 1},   {{6, 4, 1, IPU_OUTPUT_ALL, 0, false}, 24, 24},
        {{6, 4, 2, IPU_OUTPUT_ALL, 0, false}, 12, 24}, {{6, 4, 4, IPU_OUTPUT_EVERY_N, 3, false}, 6, 8},
        {{6, 4, 4, IPU_OUTPUT_FINAL, 0, false}, 6, 4}, {{6, 4, 1, IPU_OUTPUT_SUM, 0, false}, 24, 4},
        {{6, 4, 1, IPU_OUTPUT_MEAN, 0, false}, 24, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ipu__batches_in(&rows[i].batches), rows[i].in);
        assert_int_equal(ipu__batches_out(&rows[i].batches), rows[i].out);
    }
}

static void arrays_divide_into_batches(void **state)
{
    (void)state;
    const ipu__batches two = {2, 2, 2, IPU_OUTPUT_ALL, 0, false}, one = {1, 2, 2, IPU_OUTPUT_ALL, 0, false};
    ipu_array          a = {.type = IPU_INT64, .shape = IPU_SHAPE(6, 5)};
    ipu__port          port;
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_OK);
    assert_int_equal(port.type, IPU_INT32);
    assert_true(port.shape.rank == 2 && port.shape.dim[0] == 3 && port.shape.dim[1] == 5);
    a.shape.dim[0] = 7;
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"x\" holds 7 samples"));
    assert_int_equal(ipu__batches_port(&one, &a, "x", &port), IPU_OK);
    a = (ipu_array){.type = IPU_DOUBLE, .shape = IPU_SCALAR};
    assert_int_equal(ipu__batches_port(&one, &a, "x", &port), IPU_OK);
    assert_true(port.type == IPU_FLOAT && port.shape.rank == 0);
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_INVALID); /* one for several */
}

static void expect_groups(ipu_grouping kind, int64_t size, const int64_t expected[4])
{
    int64_t found[4];
    assert_int_equal(ipu_replica_groups(kind, size, 4, found), IPU_OK);
    assert_memory_equal(found, expected, sizeof found);
}

static void replicas_are_put_into_groups(void **state)
{
    (void)state;
    int64_t unused[4];
    expect_groups(IPU_GROUPING_ALL, 0, (int64_t[]){0, 0, 0, 0});
    expect_groups(IPU_GROUPING_CONSECUTIVE, 2, (int64_t[]){0, 0, 1, 1});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 2, (int64_t[]){0, 1, 0, 1});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 1, (int64_t[]){0, 1, 2, 3});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 4, (int64_t[]){0, 0, 0, 0});
    expect_groups(IPU_GROUPING_NONE, 0, (int64_t[]){0, 1, 2, 3});
    assert_int_equal(ipu_replica_groups(IPU_GROUPING_CONSECUTIVE, 3, 4, unused), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "divides the 4 replicas, found 3"));
    assert_int_equal(ipu_replica_groups(IPU_GROUPING_ORTHOGONAL, 0, 4, unused), IPU_INVALID);
    assert_int_equal(ipu_replica_groups((ipu_grouping)4, 1, 4, unused), IPU_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_counted),
        cmocka_unit_test(arrays_divide_into_batches),
        cmocka_unit_test(replicas_are_put_into_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
