/* Tensors with too many elements to enumerate: views of them take no time, or are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "ipu/tensor.h"

#define MANY ((int64_t)1 << 40)

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

static void columns_of_many_rows_are_selected_piece_by_piece(void **state)
{
    (void)state;
    ipu_graph *g    = new_graph();
    ipu_tensor x    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(3, 4), "x");
    ipu_tensor last = ipu_tensor_broadcast(ipu_tensor_slice(x, 2, 3, 0), MANY, 0);
    ipu_tensor rows = ipu_tensor_concat2(x, last, 0), column = ipu_tensor_slice(rows, 1, 2, 1);
    assert_int_equal(ipu_graph_status(g), IPU_OK);
    assert_int_equal(ipu_tensor_n_elements(column), MANY + 3);
    ipu__view view = ipu__view_get(&g->views, column.id);
    assert_in_range(view.n_pieces, 1, 3);
    ipu__runs runs = ipu__view_runs(&g->views, column.id);
    ipu__run  run;
    int64_t   n = 0;
    while (ipu__runs_next(&runs, &run)) {
        for (int64_t i = 0; i < run.count && n + i < 5; i++)
            assert_int_equal(run.start + i * run.stride, 1 + 4 * (n + i < 2 ? n + i : 2));
        n += run.count;
    }
    assert_int_equal(n, MANY + 3);
    ipu_graph_destroy(g);
}

static void rows_without_number_are_not_joined_side_by_side(void **state)
{
    (void)state;
    ipu_graph *g      = new_graph();
    ipu_tensor x      = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1, 1), "x");
    ipu_tensor y      = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(2), "y");
    ipu_tensor many   = ipu_tensor_broadcast(x, MANY, 0);
    ipu_tensor list[] = {many, ipu_tensor_broadcast(ipu_tensor_reshape(y, IPU_SHAPE(2, 1)), MANY / 2, 0)};
    ipu_tensor_concat(list, 2, 1);
    assert_int_equal(ipu_graph_status(g), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_graph_message(g), "too irregularly"));
    ipu_graph_destroy(g);
}

int main(void)
{
    setrlimit(RLIMIT_CPU,
              &(struct rlimit){60, 60}); /* CPU time, not wall-clock time, which other processes affect */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_of_many_rows_are_selected_piece_by_piece),
        cmocka_unit_test(rows_without_number_are_not_joined_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
