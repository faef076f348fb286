/* Products of vectors, logarithms of determinants, solutions and bilinear forms, by hand. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/linalg.h"
#include "ipu/op/matmul.h"
#include "ipu/op/reduce.h"

static void vectors_in_space_have_a_product(void **unused)
{
    (void)unused;
    const double x[] = {1, 0, 0, 2, 3, 4}, y[] = {0, 1, 0, 5, 6, 7};
    graph_bench  t = graph_start();
    ipu_value    a = graph_floats(&t, IPU_SHAPE(2, 3), x), c = graph_floats(&t, IPU_SHAPE(2, 3), y);
    graph_expect(&t, ipu_cross(t.b, a, c, -1), GRAPH_VALUES(0, 0, 1, -3, 6, -3));
    t = graph_start(); /* one vector down the first dimension, with two across */
    a = graph_floats(&t, IPU_SHAPE(3, 1), x + 3);
    c = graph_floats(&t, IPU_SHAPE(3, 2), (double[]){0, 5, 1, 6, 0, 7});
    graph_expect(&t, ipu_cross(t.b, a, c, 0), GRAPH_VALUES(-4, -3, 0, 6, 2, -3));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(3, 2), x);
    graph_refused(&t, ipu_cross(t.b, a, a, 1), "dimension 1 must be 3");
}

static ipu_value log_size(ipu_builder *b, ipu_value x)
{
    ipu_value out;
    ipu_slogdet(b, x, &out);
    return ipu_reduce_sum(b, out, NULL, 0, false);
}

static void a_determinant_is_a_sign_and_a_logarithm(void **unused)
{
    (void)unused;
    const double x[] = {0, 2, 3, 0, 2, 1, 1, 1, 1, 2, 2, 4};
    for (int which = 0; which < 2; which++) {
        graph_bench t = graph_start();
        ipu_value   size, sign = ipu_slogdet(t.b, graph_floats(&t, IPU_SHAPE(3, 2, 2), x), &size);
        if (which)
            graph_expect(&t, size, GRAPH_VALUES(log(6), 0, -INFINITY));
        else
            graph_expect(&t, sign, GRAPH_VALUES(-1, 1, 0));
    }
    graph_gradient(log_size, IPU_SHAPE(2, 2), x + 4, (double[]){1, -1, -1, 2}); /* the inverse, transposed */
}

static const double a_of_2[] = {2, 1, 1, 1, 0, 4, -2, 0}; /* inverses: 1 -1 -1 2, and 0 -.5 .25 0 */

static void systems_of_equations_are_solved(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   a = graph_floats(&t, IPU_SHAPE(2, 2, 2), a_of_2);
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){3, 2, 4, 6}); /* a vector for each matrix */
    graph_expect(&t, ipu_solve(t.b, a, x, false), GRAPH_VALUES(1, 1, -3, 1));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2, 2), a_of_2);
    x = graph_floats(&t, IPU_SHAPE(2), (double[]){3, 2}); /* one vector */
    graph_expect(&t, ipu_solve(t.b, a, x, false), GRAPH_VALUES(1, 1, -1, 0.75));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), a_of_2);
    x = graph_floats(&t, IPU_SHAPE(2, 3), (double[]){3, 1, 0, 2, 0, 1}); /* a matrix */
    graph_expect(&t, ipu_solve(t.b, a, x, false), GRAPH_VALUES(1, 1, -1, 1, -1, 2));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), a_of_2);
    x = graph_floats(&t, IPU_SHAPE(1, 2), (double[]){3, 1});
    graph_expect(&t, ipu_solve(t.b, a, x, true), GRAPH_VALUES(2, -1));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), a_of_2);
    x = graph_floats(&t, IPU_SHAPE(3, 1), a_of_2);
    graph_refused(&t, ipu_solve(t.b, a, x, false), "solve: \"a\" [2,2] does not go with \"x\" [3,1]");
}

static void each_weight_is_a_bilinear_form(void **unused)
{
    (void)unused;
    const double weight[] = {1, 0, 0, 1, 0, 2, 0, 0};
    graph_bench  t        = graph_start();
    ipu_value    x        = graph_floats(&t, IPU_SHAPE(2, 1, 2), (double[]){1, 2, -1, 3});
    ipu_value    y        = graph_floats(&t, IPU_SHAPE(2, 1, 2), (double[]){3, 4, 5, 6});
    ipu_value    w        = graph_floats(&t, IPU_SHAPE(2, 2, 2), weight);
    ipu_value    bias     = graph_floats(&t, IPU_SHAPE(2), (double[]){0.5, -1});
    graph_expect(&t, ipu_bilinear(t.b, x, y, w, bias), GRAPH_VALUES(11.5, 7, 13.5, -13));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2), (double[]){1, 2});
    w = graph_floats(&t, IPU_SHAPE(1, 2, 2), weight);
    graph_expect(&t, ipu_bilinear(t.b, x, x, w, IPU_NO_VALUE), GRAPH_VALUES(5));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(3), weight);
    w = graph_floats(&t, IPU_SHAPE(1, 2, 2), weight);
    graph_refused(&t, ipu_bilinear(t.b, x, x, w, IPU_NO_VALUE), "has 2 elements for the last dimension");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_in_space_have_a_product),
        cmocka_unit_test(a_determinant_is_a_sign_and_a_logarithm),
        cmocka_unit_test(systems_of_equations_are_solved),
        cmocka_unit_test(each_weight_is_a_bilinear_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
