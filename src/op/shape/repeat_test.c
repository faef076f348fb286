/* Elements repeated by counts, and lines on diagonals, by hand. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"

static void elements_are_repeated_as_counts_say(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4, 5, 6};
    graph_bench  t   = graph_start();
    ipu_value    v   = graph_floats(&t, IPU_SHAPE(2, 3), x),
              n      = graph_labels(&t, IPU_SHAPE(3), (int32_t[]){2, 0, 1});
    graph_expect(&t, ipu_repeat_by(t.b, v, n, 3, 1), GRAPH_VALUES(1, 1, 3, 4, 4, 6));
    t = graph_start(); /* one count for all */
    v = graph_floats(&t, IPU_SHAPE(3), x);
    n = graph_labels(&t, IPU_SHAPE(1), (int32_t[]){2});
    graph_expect(&t, ipu_repeat_by(t.b, v, n, 6, -1), GRAPH_VALUES(1, 1, 2, 2, 3, 3));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(3), x);
    n = graph_labels(&t, IPU_SHAPE(3), (int32_t[]){0, 0, 0});
    graph_expect(&t, ipu_repeat_by(t.b, v, n, 0, 0), NULL, 0);
}

static ipu_value weighted(ipu_builder *b, ipu_value x)
{
    ipu_value counts  = ipu_constant_data(b, IPU_INT32, IPU_SHAPE(3), (int32_t[]){2, 0, 1});
    ipu_value weights = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(3), (float[]){1, 10, 100});
    return ipu_reduce_sum(b, ipu_mul(b, ipu_repeat_by(b, x, counts, 3, 0), weights), NULL, 0, false);
}

static void an_element_has_the_gradient_of_all_its_places(void **unused)
{
    (void)unused;
    graph_gradient(weighted, IPU_SHAPE(3), (double[]){1, 2, 3}, (double[]){11, 0, 100});
}

static void counts_must_be_one_or_as_many(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3};
    graph_bench  t   = graph_start();
    ipu_value    v = graph_floats(&t, IPU_SHAPE(3), x), n = graph_labels(&t, IPU_SHAPE(2), (int32_t[]){1, 1});
    graph_refused(&t, ipu_repeat_by(t.b, v, n, 2, 0), "one for each of the 3 elements");
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(3), x);
    n = graph_labels(&t, IPU_SHAPE(1), (int32_t[]){1});
    graph_refused(&t, ipu_repeat_by(t.b, v, n, -1, 0), "size = -1");
}

static void lines_are_put_on_diagonals(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4};
    graph_bench  t   = graph_start();
    graph_expect(&t, ipu_diag_embed(t.b, graph_floats(&t, IPU_SHAPE(2, 2), x), 0, -2, -1),
                 GRAPH_VALUES(1, 0, 0, 2, 3, 0, 0, 4));
    t = graph_start();
    graph_expect(&t, ipu_diag_embed(t.b, graph_floats(&t, IPU_SHAPE(2), x), 1, 0, 1),
                 GRAPH_VALUES(0, 1, 0, 0, 0, 2, 0, 0, 0));
    t = graph_start(); /* rows and columns the other way round: below the diagonal becomes above it */
    graph_expect(&t, ipu_diag_embed(t.b, graph_floats(&t, IPU_SHAPE(2), x), -1, 1, 0),
                 GRAPH_VALUES(0, 1, 0, 0, 0, 2, 0, 0, 0));
    t           = graph_start(); /* matrices in the dimensions around the batch */
    ipu_value v = ipu_diag_embed(t.b, graph_floats(&t, IPU_SHAPE(2, 2), x), 0, 0, 2);
    graph_expect(&t, v, GRAPH_VALUES(1, 0, 3, 0, 0, 2, 0, 4));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2), x);
    graph_refused(&t, ipu_diag_embed(t.b, v, 0, 1, -1), "rows and columns are both dimension 1");
}

/* What is taken from the diagonal again is what was put there. */
static void a_diagonal_undoes_it(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4, 5, 6};
    for (int64_t offset = -2; offset <= 2; offset++) {
        graph_bench t = graph_start();
        ipu_value   v = ipu_diag_embed(t.b, graph_floats(&t, IPU_SHAPE(2, 3), x), offset, -2, -1);
        graph_expect(&t, ipu_diagonal(t.b, v, offset, -2, -1), x, 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_repeated_as_counts_say),
        cmocka_unit_test(an_element_has_the_gradient_of_all_its_places),
        cmocka_unit_test(counts_must_be_one_or_as_many),
        cmocka_unit_test(lines_are_put_on_diagonals),
        cmocka_unit_test(a_diagonal_undoes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
