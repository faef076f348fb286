/* Determinants and inverses by known numbers, and the cofactors of singular matrices. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

static void determinants_are_those_of_small_matrices(void **unused)
{
    (void)unused;
    static const double x[] = {1, 2, 3, 4, /**/ 0, 2, -3, 0, /**/ 1, 2, 2, 4, /**/ 0, 0, 0, 0};
    graph_bench         t   = graph_start();
    graph_expect(&t, ipu_det(t.b, graph_floats(&t, IPU_SHAPE(4, 2, 2), x)), GRAPH_VALUES(-2, 6, 0, 0));
    static const double y[] = {0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 0, 5, 7, 0, 0, 0}; /* a cycle of 4: odd */
    t                       = graph_start();
    graph_expect(&t, ipu_det(t.b, graph_floats(&t, IPU_SHAPE(4, 4), y)), GRAPH_VALUES(-210));
    t = graph_start();
    graph_expect(&t, ipu_det(t.b, graph_floats(&t, IPU_SHAPE(2, 0, 0), x)), GRAPH_VALUES(1, 1));
    t = graph_start();
    graph_refused(&t, ipu_det(t.b, graph_floats(&t, IPU_SHAPE(2, 3), x)), "must be equal");
}

static ipu_value det(ipu_builder *b, ipu_value x) { return ipu_det(b, x); }

static void a_singular_matrix_has_cofactors(void **unused)
{
    (void)unused;
    graph_gradient(det, IPU_SHAPE(2, 2), (double[]){1, 2, 2, 4}, (double[]){4, -2, -2, 1});
    graph_gradient(det, IPU_SHAPE(3, 3), (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9},
                   (double[]){-3, 6, -3, 6, -12, 6, -3, 6, -3});
    graph_gradient(det, IPU_SHAPE(3, 3), (double[]){1, 2, 0, 0, 0, 0, 0, 0, 5}, /* a row of zeros */
                   (double[]){0, 0, 0, -10, 5, 0, 0, 0, 0});
    graph_gradient(det, IPU_SHAPE(3, 3), (double[]){1, 2, 3, 2, 4, 6, 3, 6, 9}, (double[9]){0});
    graph_gradient(det, IPU_SHAPE(1, 1), (double[]){0}, (double[]){1});
}

static void an_inverse_undoes_its_matrix(void **unused)
{
    (void)unused;
    static const double x[] = {2, 1, 1, 1, /**/ 0, 4, -2, 0, /**/ 1, 2, 2, 4};
    graph_bench         t   = graph_start();
    graph_expect(&t, ipu_inverse(t.b, graph_floats(&t, IPU_SHAPE(3, 2, 2), x)),
                 GRAPH_VALUES(1, -1, -1, 2, 0, -0.5, 0.25, 0, NAN, NAN, NAN, NAN));
    double many[64];
    for (int i = 0; i < 64; i++) many[i] = (i * 37 % 11) - 5 + (i % 9 == 0 ? 12 : 0);
    t           = graph_start();
    ipu_value a = graph_floats(&t, IPU_SHAPE(8, 8), many);
    double    one[64];
    for (int i = 0; i < 64; i++) one[i] = i % 9 == 0;
    graph_expect(&t, ipu_matmul(t.b, a, ipu_inverse(t.b, a)), one, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(determinants_are_those_of_small_matrices),
        cmocka_unit_test(a_singular_matrix_has_cofactors),
        cmocka_unit_test(an_inverse_undoes_its_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
