/* Roll, diagonals, triangles, depth and space, reversed sequences: element by element, and errors. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

static ipu_value count(graph_bench *t, ipu_shape shape)
{
    double data[64];
    for (int i = 0; i < 64; i++) data[i] = i;
    return graph_floats(t, shape, data);
}

static void elements_past_the_end_come_to_the_front(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = count(&t, IPU_SHAPE(2, 3)), y;
    graph_expect(&t, ipu_roll(t.b, x, &(int64_t){1}, NULL, 1), GRAPH_VALUES(5, 0, 1, 2, 3, 4));
    t = graph_start();
    x = count(&t, IPU_SHAPE(2, 3));
    graph_expect(&t, ipu_roll(t.b, x, (int64_t[]){-5, 1}, (int[]){1, 0}, 2), GRAPH_VALUES(5, 3, 4, 2, 0, 1));
    t = graph_start();
    x = count(&t, IPU_SHAPE(2, 3));
    ipu_emit(t.b, "roll", (ipu_attribute[]){IPU__INTS("shifts", ((int64_t[]){1, 2}), 2)}, 1, &x, 1, &y, 1);
    graph_refused(&t, y, "2 shifts and 0 axes");
}

static void a_diagonal_is_where_rows_meet_columns(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    graph_expect(&t, ipu_diagonal(t.b, count(&t, IPU_SHAPE(3, 4)), 1, 0, 1), GRAPH_VALUES(1, 6, 11));
    t = graph_start();
    graph_expect(&t, ipu_diagonal(t.b, count(&t, IPU_SHAPE(3, 4)), -2, 0, 1), GRAPH_VALUES(8));
    t = graph_start(); /* [rows, batch, columns] */
    graph_expect(&t, ipu_diagonal(t.b, count(&t, IPU_SHAPE(2, 2, 2)), 0, 0, -1), GRAPH_VALUES(0, 5, 2, 7));
    t = graph_start();
    graph_refused(&t, ipu_diagonal(t.b, count(&t, IPU_SHAPE(3, 4)), 0, 1, -1), "both dimension 1");
}

static void channels_go_to_blocks_in_either_order(void **unused)
{
    (void)unused;
    for (int order = 0; order < 2; order++) {
        static const double expected[2][8] = {{0, 2, 4, 6, 1, 3, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}};
        graph_bench         t              = graph_start();
        ipu_value           x              = count(&t, IPU_SHAPE(1, 8, 1, 1));
        graph_expect(&t, ipu_depth_to_space(t.b, x, 2, (ipu_depth_order)order), expected[order], 8);
        t = graph_start();
        x = count(&t, IPU_SHAPE(2, 4, 2, 3));
        x = ipu_depth_to_space(t.b, x, 2, (ipu_depth_order)order);
        assert_int_equal(ipu_value_dim(x, 3), 6);
        x = ipu_space_to_depth(t.b, x, 2, (ipu_depth_order)order);
        double same[48];
        for (int i = 0; i < 48; i++) same[i] = i;
        graph_expect(&t, x, same, 48);
    }
    graph_bench t = graph_start();
    graph_refused(&t, ipu_depth_to_space(t.b, count(&t, IPU_SHAPE(1, 6, 1, 1)), 2, IPU_DEPTH_CRD),
                  "does not divide the channels");
}

static void only_the_first_steps_are_reversed(void **unused)
{
    (void)unused;
    static const int32_t lengths[] = {4, 3, 2, 0};
    graph_bench          t         = graph_start();
    ipu_value            n         = graph_labels(&t, IPU_SHAPE(4), lengths);
    graph_expect(&t, ipu_reverse_sequence(t.b, count(&t, IPU_SHAPE(4, 4)), n, 0, 1),
                 GRAPH_VALUES(3, 2, 1, 0, 6, 5, 4, 7, 9, 8, 10, 11, 12, 13, 14, 15));
    t = graph_start();
    n = graph_labels(&t, IPU_SHAPE(4), lengths);
    graph_expect(&t, ipu_reverse_sequence(t.b, count(&t, IPU_SHAPE(4, 4)), n, 1, 0),
                 GRAPH_VALUES(12, 9, 6, 3, 8, 5, 2, 7, 4, 1, 10, 11, 0, 13, 14, 15));
}

static void triangles_and_ones_follow_the_diagonal(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = count(&t, IPU_SHAPE(2, 3)), y;
    ipu_emit(t.b, "trilu", (ipu_attribute[]){IPU_INT_ATTRIBUTE("k", 1)}, 1, &x, 1, &y, 1);
    graph_expect(&t, y, GRAPH_VALUES(0, 1, 2, 0, 0, 5));
    t = graph_start();
    x = count(&t, IPU_SHAPE(2, 3));
    ipu_emit(t.b, "trilu", (ipu_attribute[]){IPU_INT_ATTRIBUTE("upper", 0)}, 1, &x, 1, &y, 1);
    graph_expect(&t, y, GRAPH_VALUES(0, 0, 0, 3, 4, 0));
    t = graph_start();
    graph_expect(&t, ipu_eye_like(t.b, count(&t, IPU_SHAPE(2, 3)), IPU_FLOAT, 1),
                 GRAPH_VALUES(0, 1, 0, 0, 0, 1));
    t = graph_start();
    graph_refused(&t, ipu_eye_like(t.b, count(&t, IPU_SHAPE(3)), IPU_FLOAT, 0), "expected a matrix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_past_the_end_come_to_the_front),
        cmocka_unit_test(a_diagonal_is_where_rows_meet_columns),
        cmocka_unit_test(channels_go_to_blocks_in_either_order),
        cmocka_unit_test(only_the_first_steps_are_reversed),
        cmocka_unit_test(triangles_and_ones_follow_the_diagonal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
