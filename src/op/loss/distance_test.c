/* Norms, distances and covariances by hand; gradients at points without a slope. */
#include "op/graph_test.h"

#include "ipu/op/distance.h"
#include "ipu/op/reduce.h"

static void norms_are_of_any_order(void **unused)
{
    (void)unused;
    const double x[] = {3, -4, 0, 0, 0, 0};
    const struct {
        double p, first, second;
    } norms[] = {
        {2, 5, 0},        {1, 7, 0},        {0, 2, 0}, {3, cbrt(91), 0}, {0.5, pow(sqrt(3) + 2, 2), 0},
        {INFINITY, 4, 0}, {-INFINITY, 0, 0}};
    for (size_t i = 0; i < IPU__COUNT(norms); i++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(2, 3), x);
        graph_expect(&t, ipu_reduce_norm(t.b, v, norms[i].p, (int[]){-1}, 1, false),
                     GRAPH_VALUES(norms[i].first, norms[i].second));
    }
    graph_bench t = graph_start();
    ipu_value   v = graph_floats(&t, IPU_SHAPE(2), (double[]){2, -4});
    graph_expect(&t, ipu_reduce_norm(t.b, v, -1, NULL, 0, false), GRAPH_VALUES(1 / (0.5 + 0.25)));
}

static ipu_value norm_of_order_3(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_norm(b, x, 3, NULL, 0, false);
}
static ipu_value norm_of_order_half(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_norm(b, x, 0.5, NULL, 0, false);
}
static ipu_value deviation(ipu_builder *b, ipu_value x) { return ipu_reduce_std(b, x, NULL, 0, false, true); }

static void gradients_are_0_where_there_is_no_slope(void **unused)
{
    (void)unused;
    graph_gradient(norm_of_order_3, IPU_SHAPE(2), (double[]){0, 0}, (double[]){0, 0});
    graph_gradient(norm_of_order_3, IPU_SHAPE(2), (double[]){-2, 0}, (double[]){-1, 0});
    graph_gradient(norm_of_order_half, IPU_SHAPE(2), (double[]){0, 4}, (double[]){0, 1});
    graph_gradient(deviation, IPU_SHAPE(3), (double[]){2, 2, 2}, (double[]){0, 0, 0});
    graph_gradient(deviation, IPU_SHAPE(2), (double[]){1, 3}, (double[]){-sqrt(0.5), sqrt(0.5)});
}

static void deviations_are_roots_of_variances(void **unused)
{
    (void)unused;
    const double x[] = {1, 3, 5, 7, 7, 7};
    graph_bench  t   = graph_start();
    ipu_value    v   = graph_floats(&t, IPU_SHAPE(2, 3), x), out;
    graph_expect(&t, ipu_reduce_std(t.b, v, (int[]){1}, 1, false, true), GRAPH_VALUES(2, 0));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(3), x);
    ipu_emit(t.b, "reduce_std", (ipu_attribute[]){IPU_FLOAT_ATTRIBUTE("correction", 2.5)}, 1, &v, 1, &out, 1);
    graph_expect(&t, out, GRAPH_VALUES(4));
}

static void distances_of_pairs(void **unused)
{
    (void)unused;
    const double x[] = {0, 0, 3, 4}, y[] = {0, 1, 3, 4, 6, 8};
    graph_bench  t = graph_start();
    ipu_value    a = graph_floats(&t, IPU_SHAPE(2, 2), x), b = graph_floats(&t, IPU_SHAPE(3, 2), y);
    graph_expect(&t, ipu_cdist(t.b, a, b, 2), GRAPH_VALUES(1, 5, 10, sqrt(18), 0, 5));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), x);
    b = graph_floats(&t, IPU_SHAPE(2, 1, 3, 2), (double[]){0, 1, 3, 4, 6, 8, 0, 0, 0, 0, 0, 0});
    graph_expect(&t, ipu_cdist(t.b, a, b, 1), GRAPH_VALUES(1, 7, 14, 6, 0, 7, 0, 0, 0, 7, 7, 7));
    t = graph_start();
    b = graph_floats(&t, IPU_SHAPE(3, 2), y);
    graph_expect(&t, ipu_pdist(t.b, b, INFINITY), GRAPH_VALUES(3, 7, 4));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), x);
    b = graph_floats(&t, IPU_SHAPE(2), y);
    graph_expect(&t, ipu_pairwise_distance(t.b, a, b, 1, 0.5, true), GRAPH_VALUES(0.5 + 0.5, 3.5 + 3.5));
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), x);
    b = graph_floats(&t, IPU_SHAPE(2, 3), y);
    graph_refused(&t, ipu_cdist(t.b, a, b, 2), "must be equal in their last dimension");
    t = graph_start();
    a = ipu_constant_value(t.b, IPU_FLOAT, IPU_SHAPE(4097, 1), 0);
    graph_refused(&t, ipu_pdist(t.b, a, 2), "has 4097 rows: expected at most 4096");
}

static void cosines_are_those_of_the_angle(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(3, 2), (double[]){1, 0, 1, 1, 0, 0});
    ipu_value   y = graph_floats(&t, IPU_SHAPE(2), (double[]){0, 5});
    graph_expect(&t, ipu_cosine_similarity(t.b, x, y, -1, 1e-8), GRAPH_VALUES(0, sqrt(0.5), 0));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){1, 0, 1, 2});
    y = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){-1, 0, -1, 2});
    graph_expect(&t, ipu_cosine_similarity(t.b, x, y, 0, 10),
                 GRAPH_VALUES(-0.02, 0.04)); /* too short for eps */
}

/* Rows (1, 2, 4) and (0, 2, 1), the last column twice. */
static void covariances_count_observations(void **unused)
{
    (void)unused;
    const double rows[] = {1, 2, 4, 0, 2, 1};
    graph_bench  t      = graph_start();
    ipu_value    x      = graph_floats(&t, IPU_SHAPE(2, 3), rows);
    graph_expect(&t, ipu_covariance(t.b, x, IPU_NO_VALUE, IPU_NO_VALUE, 1),
                 GRAPH_VALUES(7.0 / 3, 0.5, 0.5, 1));
    t               = graph_start();
    x               = graph_floats(&t, IPU_SHAPE(2, 3), rows);
    ipu_value often = graph_floats(&t, IPU_SHAPE(3), (double[]){1, 1, 2});
    graph_expect(&t, ipu_covariance(t.b, x, often, IPU_NO_VALUE, 1),
                 GRAPH_VALUES(2.25, 0.25 * 4 / 3, 0.25 * 4 / 3, 2.0 / 3));
    t                = graph_start(); /* weights of 1/2 take as much away as they count for */
    x                = graph_floats(&t, IPU_SHAPE(2, 3), rows);
    ipu_value halves = graph_floats(&t, IPU_SHAPE(3), (double[]){0.5, 0.5, 0.5});
    graph_expect(&t, ipu_covariance(t.b, x, IPU_NO_VALUE, halves, 1), GRAPH_VALUES(7.0 / 3, 0.5, 0.5, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_of_any_order),
        cmocka_unit_test(gradients_are_0_where_there_is_no_slope),
        cmocka_unit_test(deviations_are_roots_of_variances),
        cmocka_unit_test(distances_of_pairs),
        cmocka_unit_test(cosines_are_those_of_the_angle),
        cmocka_unit_test(covariances_count_observations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
