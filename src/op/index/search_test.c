/* Places, counts, membership, medians and norms that are limited, by hand. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/search.h"

static ipu_value as_float(graph_bench *t, ipu_value v) { return ipu_cast(t->b, v, IPU_FLOAT); }

/* ---- places ---- */

static void values_go_before_or_behind_their_equals(void **unused)
{
    (void)unused;
    const double sequence[] = {1, 3, 3, 5}, values[] = {0, 1, 3, 4, 5, 9};
    for (int right = 0; right < 2; right++) {
        graph_bench t = graph_start();
        ipu_value s = graph_floats(&t, IPU_SHAPE(4), sequence), x = graph_floats(&t, IPU_SHAPE(2, 3), values);
        ipu_value v = ipu_searchsorted(t.b, s, x, right);
        if (right)
            graph_expect(&t, as_float(&t, v), GRAPH_VALUES(0, 1, 3, 3, 4, 4));
        else
            graph_expect(&t, as_float(&t, v), GRAPH_VALUES(0, 0, 1, 3, 3, 4));
    }
    graph_bench t = graph_start(); /* each row has a sequence of its own */
    ipu_value   s = graph_floats(&t, IPU_SHAPE(2, 3), (double[]){1, 2, 3, 10, 20, 30});
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){2.5, 15, 2.5, 15});
    graph_expect(&t, as_float(&t, ipu_searchsorted(t.b, s, x, false)), GRAPH_VALUES(2, 3, 0, 1));
    t = graph_start();
    s = graph_floats(&t, IPU_SHAPE(0), values);
    x = graph_floats(&t, IPU_SHAPE(2), values);
    graph_expect(&t, as_float(&t, ipu_searchsorted(t.b, s, x, false)), GRAPH_VALUES(0, 0));
    t = graph_start();
    s = graph_floats(&t, IPU_SHAPE(2, 3), values);
    x = graph_floats(&t, IPU_SHAPE(3, 1), values);
    graph_refused(&t, ipu_searchsorted(t.b, s, x, false), "\"values\"");
}

/* ---- counts ---- */

static void what_is_out_of_range_is_not_counted(void **unused)
{
    (void)unused;
    const int32_t numbers[] = {2, 0, 2, -1, 3, 2};
    graph_bench   t         = graph_start();
    ipu_value     x         = graph_labels(&t, IPU_SHAPE(2, 3), numbers);
    graph_expect(&t, as_float(&t, ipu_bincount(t.b, x, IPU_NO_VALUE, 3)), GRAPH_VALUES(1, 0, 3));
    t           = graph_start();
    x           = graph_labels(&t, IPU_SHAPE(6), numbers);
    ipu_value w = graph_floats(&t, IPU_SHAPE(6), (double[]){0.5, 1, 2, 100, 100, 4});
    graph_expect(&t, ipu_bincount(t.b, x, w, 3), GRAPH_VALUES(1, 0, 6.5));
    t = graph_start();
    x = graph_labels(&t, IPU_SHAPE(6), numbers);
    graph_refused(&t, ipu_bincount(t.b, x, IPU_NO_VALUE, 0), "size = 0: expected 1");
}

static void bins_include_both_ends(void **unused)
{
    (void)unused;
    const double x[] = {-1, 0, 0.5, 1, 1.9, 2, 3};
    graph_bench  t   = graph_start();
    graph_expect(&t, ipu_histogram(t.b, graph_floats(&t, IPU_SHAPE(7), x), 2, 0, 2), GRAPH_VALUES(2, 3));
    t = graph_start();
    graph_expect(&t, ipu_histogram(t.b, graph_floats(&t, IPU_SHAPE(7), x), 4, 0, 0),
                 GRAPH_VALUES(1, 2, 2, 2));
    t = graph_start(); /* all alike: from 1 below to 1 above */
    graph_expect(&t, ipu_histogram(t.b, graph_floats(&t, IPU_SHAPE(2), (double[]){5, 5}), 3, 0, 0),
                 GRAPH_VALUES(0, 2, 0));
    t = graph_start();
    graph_refused(&t, ipu_histogram(t.b, graph_floats(&t, IPU_SHAPE(2), x), 3, 2, 1), "the smaller first");
}

/* ---- membership ---- */

static void elements_are_among_others_or_not(void **unused)
{
    (void)unused;
    for (int invert = 0; invert < 2; invert++) {
        graph_bench t = graph_start();
        ipu_value   x = graph_labels(&t, IPU_SHAPE(4), (int32_t[]){1, 2, 3, 4});
        ipu_value   y = graph_labels(&t, IPU_SHAPE(3, 1), (int32_t[]){4, 9, 2});
        ipu_value   v = as_float(&t, ipu_isin(t.b, x, y, invert));
        graph_expect(&t, v, (double[]){invert, !invert, invert, !invert}, 4);
    }
}

/* ---- medians ---- */

static void medians_are_the_lower_of_two(void **unused)
{
    (void)unused;
    const double x[] = {3, 1, 2, 4, 5, NAN, 1, 9};
    graph_bench  t   = graph_start();
    ipu_value    v   = graph_floats(&t, IPU_SHAPE(2, 4), x), at;
    graph_expect(&t, ipu_median(t.b, v, 1, false, NULL), GRAPH_VALUES(2, NAN));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 4), x);
    graph_expect(&t, ipu_median(t.b, v, 1, true, NULL), GRAPH_VALUES(2, 5));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 4), x);
    ipu_median(t.b, v, 1, false, &at);
    graph_expect(&t, as_float(&t, at), GRAPH_VALUES(2, 1));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 4), x);
    ipu_median(t.b, v, -1, true, &at);
    graph_expect(&t, as_float(&t, at), GRAPH_VALUES(2, 0));
    t = graph_start();
    v = graph_labels(&t, IPU_SHAPE(4), (int32_t[]){4, 3, 1, 2});
    graph_expect(&t, as_float(&t, ipu_median(t.b, v, 0, false, NULL)), GRAPH_VALUES(2));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 0), x);
    graph_refused(&t, ipu_median(t.b, v, 1, false, NULL), "has no elements");
}

static ipu_value median_of_4(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_median(b, x, 0, false, NULL), NULL, 0, false);
}

static void the_gradient_of_a_median_goes_to_its_element(void **unused)
{
    (void)unused;
    graph_gradient(median_of_4, IPU_SHAPE(4), (double[]){3, 1, 2, 4}, (double[]){0, 0, 1, 0});
}

/* ---- the k-th, the most frequent ---- */

static ipu_value third(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_kthvalue(b, x, 3, 0, NULL), NULL, 0, false);
}

static void the_kth_is_counted_from_the_smallest(void **unused)
{
    (void)unused;
    const double x[] = {3, 1, 2, 1, 9, NAN, 7, 8};
    for (int which = 0; which < 2; which++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(2, 4), x), at, y = ipu_kthvalue(t.b, v, 2, 1, &at);
        if (which)
            graph_expect(&t, as_float(&t, at), GRAPH_VALUES(3, 3));
        else
            graph_expect(&t, y, GRAPH_VALUES(1, 8));
    }
    graph_gradient(third, IPU_SHAPE(4), (double[]){3, 1, 2, 4}, (double[]){1, 0, 0, 0});
    graph_bench t = graph_start();
    graph_refused(&t, ipu_kthvalue(t.b, graph_floats(&t, IPU_SHAPE(2), x), 3, 0, NULL),
                  "k = 3: expected 1 to 2");
}

static ipu_value mode_of_5(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_mode(b, x, 0, NULL), NULL, 0, false);
}

static void the_mode_is_the_least_of_the_most_frequent(void **unused)
{
    (void)unused;
    const int32_t x[] = {5, 2, 5, 2, 9, 1, 1, 1, 3, 3};
    for (int which = 0; which < 2; which++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_labels(&t, IPU_SHAPE(2, 5), x), at, y = ipu_mode(t.b, v, -1, &at);
        if (which)
            graph_expect(&t, as_float(&t, at), GRAPH_VALUES(3, 2));
        else
            graph_expect(&t, as_float(&t, y), GRAPH_VALUES(2, 1));
    }
    graph_gradient(mode_of_5, IPU_SHAPE(5), (double[]){4, 2, 4, 7, 2}, (double[]){0, 0, 0, 0, 1});
}

/* ---- norms that are limited ---- */

static void slices_over_the_limit_are_made_shorter(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){3, 4, 0.3, 0.4});
    graph_expect(&t, ipu_renorm(t.b, x, 2, 0, 1), GRAPH_VALUES(0.6, 0.8, 0.3, 0.4));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){3, 4, 1, -1});
    graph_expect(&t, ipu_renorm(t.b, x, 1, 1, 4.5), GRAPH_VALUES(3, 3.6, 1, -0.9));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2), (double[]){3, 4});
    graph_refused(&t, ipu_renorm(t.b, x, 2, 0, 1), "renorm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_before_or_behind_their_equals),
        cmocka_unit_test(what_is_out_of_range_is_not_counted),
        cmocka_unit_test(bins_include_both_ends),
        cmocka_unit_test(elements_are_among_others_or_not),
        cmocka_unit_test(medians_are_the_lower_of_two),
        cmocka_unit_test(the_gradient_of_a_median_goes_to_its_element),
        cmocka_unit_test(the_kth_is_counted_from_the_smallest),
        cmocka_unit_test(the_mode_is_the_least_of_the_most_frequent),
        cmocka_unit_test(slices_over_the_limit_are_made_shorter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
