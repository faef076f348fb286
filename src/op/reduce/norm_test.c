/* Sums that leave out what is not a number, and counts, by hand. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"

static const double numbers[] = {1, NAN, 0, NAN, NAN, -2.5};

static ipu_value sum_of_numbers(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_nansum(b, x, NULL, 0, false);
}

static void what_is_not_a_number_is_not_added(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 3), numbers);
    graph_expect(&t, ipu_reduce_nansum(t.b, x, (int[]){0}, 1, false), GRAPH_VALUES(1, 0, -2.5));
    t = graph_start();
    x = ipu_reduce_nansum(t.b, graph_floats(&t, IPU_SHAPE(2, 3), numbers), (int[]){-1}, 1, true);
    assert_int_equal(ipu_value_shape(x).rank, 2);
    graph_expect(&t, x, GRAPH_VALUES(1, -2.5));
    t = graph_start();
    x = graph_labels(&t, IPU_SHAPE(3), (int32_t[]){3, -1, 5});
    graph_expect(&t, ipu_cast(t.b, ipu_reduce_nansum(t.b, x, NULL, 0, false), IPU_FLOAT), GRAPH_VALUES(7));
    graph_gradient(sum_of_numbers, IPU_SHAPE(6), numbers, (double[]){1, 0, 1, 0, 0, 1});
}

static void elements_that_are_not_0_are_counted(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 3), numbers);
    x             = ipu_reduce_count_nonzero(t.b, x, (int[]){1}, 1, false);
    assert_int_equal(ipu_value_type(x), IPU_INT32);
    graph_expect(&t, ipu_cast(t.b, x, IPU_FLOAT), GRAPH_VALUES(2, 3)); /* NaN is not 0 */
    t = graph_start();
    x = ipu_cast(t.b, graph_labels(&t, IPU_SHAPE(4), (int32_t[]){0, 1, -1, 1}), IPU_BOOL);
    graph_expect(&t, ipu_cast(t.b, ipu_reduce_count_nonzero(t.b, x, NULL, 0, false), IPU_FLOAT),
                 GRAPH_VALUES(3));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2), numbers);
    graph_refused(&t, ipu_reduce_count_nonzero(t.b, x, (int[]){3}, 1, false), "axes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_a_number_is_not_added),
        cmocka_unit_test(elements_that_are_not_0_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
