/* Scatters that multiply and compare: by hand, with equal indices, and indices that are out of range. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

static void equal_indices_all_count(void **unused)
{
    (void)unused;
    static const struct {
        ipu_scatter how;
        double      expected[6];
    } cases[]                = {{IPU_SCATTER_MUL, {1, 2, 3 * 2 * -4, 4, 5 * 3, 6}},
                                {IPU_SCATTER_MAX, {1, 2, 3, 4, 5, 6}},
                                {IPU_SCATTER_MIN, {1, 2, -4, 4, 3, 6}}};
    static const double  x[] = {1, 2, 3, 4, 5, 6}, updates[] = {2, 3, -4};
    static const int32_t at[] = {1, 0, -1, 0, 1, 0};
    for (int i = 0; i < 3; i++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(3, 2), x), u = graph_floats(&t, IPU_SHAPE(3), updates);
        graph_expect(&t, ipu_scatter_nd(t.b, v, graph_labels(&t, IPU_SHAPE(3, 2), at), u, cases[i].how),
                     cases[i].expected, 6);
    }
}

static void elements_are_found_along_an_axis(void **unused)
{
    (void)unused;
    static const double  x[] = {1, 2, 3, 4, 5, 6}, updates[] = {2, 9, 7, 0};
    static const int32_t at[] = {2, 0, -1, 1};
    graph_bench          t    = graph_start();
    ipu_value v = graph_floats(&t, IPU_SHAPE(2, 3), x), u = graph_floats(&t, IPU_SHAPE(2, 2), updates);
    graph_expect(&t,
                 ipu_scatter_elements(t.b, v, graph_labels(&t, IPU_SHAPE(2, 2), at), u, 1, IPU_SCATTER_MAX),
                 GRAPH_VALUES(9, 2, 3, 4, 5, 7));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 3), x), u = graph_floats(&t, IPU_SHAPE(2, 2), updates);
    graph_expect(&t,
                 ipu_scatter_elements(t.b, v, graph_labels(&t, IPU_SHAPE(2, 2), at), u, -1, IPU_SCATTER_MUL),
                 GRAPH_VALUES(9, 2, 6, 4, 0, 42));
}

static void an_index_out_of_range_stops_the_run(void **unused)
{
    (void)unused;
    static const double x[4] = {1, 2, 3, 4};
    double              out[4];
    graph_bench         t = graph_start();
    ipu_value           v = graph_floats(&t, IPU_SHAPE(2, 2), x), u = graph_floats(&t, IPU_SHAPE(1), x);
    ipu_value           at = graph_labels(&t, IPU_SHAPE(1, 2), (int32_t[]){0, 2});
    assert_int_equal(graph_run(&t, ipu_scatter_nd(t.b, v, at, u, IPU_SCATTER_MUL), out, 4), IPU_ABORTED);
    graph_end(&t);
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 2), x);
    graph_refused(&t,
                  ipu_scatter_nd(t.b, v, graph_labels(&t, IPU_SHAPE(1, 3), (int32_t[]){0, 0, 0}),
                                 graph_floats(&t, IPU_SHAPE(1), x), IPU_SCATTER_MUL),
                  "scatter_nd: indices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_indices_all_count),
        cmocka_unit_test(elements_are_found_along_an_axis),
        cmocka_unit_test(an_index_out_of_range_stops_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
