/* Losses of distributions, for several labels and with a margin between classes: values worked out by
 * hand. */
#include "op/graph_test.h"

#include "ipu/op/loss.h"

/* ---- distributions ---- */

static void poisson_losses_take_a_rate_or_its_logarithm(void **unused)
{
    (void)unused;
    const double        log_rate[] = {0, 1, -1}, rate[] = {1, 2, 0.5}, target[] = {0, 1, 4};
    ipu_poisson_options o = {.reduction = IPU_LOSS_NONE};
    graph_bench         t = graph_start();
    ipu_value x = graph_floats(&t, IPU_SHAPE(3), log_rate), y = graph_floats(&t, IPU_SHAPE(3), target);
    graph_expect(&t, ipu_poisson_nll_loss(t.b, x, y, o), GRAPH_VALUES(1, exp(1) - 1, exp(-1) + 4));
    t         = graph_start();
    x         = graph_floats(&t, IPU_SHAPE(3), rate);
    y         = graph_floats(&t, IPU_SHAPE(3), target);
    o.is_rate = true;
    graph_expect(&t, ipu_poisson_nll_loss(t.b, x, y, o), GRAPH_VALUES(1, 2 - log(2), 0.5 + 4 * log(2)));
    t               = graph_start();
    x               = graph_floats(&t, IPU_SHAPE(3), rate);
    y               = graph_floats(&t, IPU_SHAPE(3), target);
    o.full          = true;
    double stirling = 4 * log(4) - 4 + 0.5 * log(2 * M_PI * 4); /* only of targets over 1 */
    graph_expect(&t, ipu_poisson_nll_loss(t.b, x, y, o),
                 GRAPH_VALUES(1, 2 - log(2), 0.5 + 4 * log(2) + stirling));
}

static void gaussian_losses_take_a_variance_for_each_or_for_a_row(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4}, target[] = {1, 0, 3, 1}, each[] = {1, 4, 0, 9}, rows[] = {1, 4};
    graph_bench  t = graph_start();
    ipu_value    a = graph_floats(&t, IPU_SHAPE(2, 2), x), b = graph_floats(&t, IPU_SHAPE(2, 2), target);
    ipu_value    v = graph_floats(&t, IPU_SHAPE(2, 2), each);
    graph_expect(&t, ipu_gaussian_nll_loss(t.b, a, b, v, false, 0.5, IPU_LOSS_NONE),
                 GRAPH_VALUES(0, (log(4) + 1) / 2, log(0.5) / 2, (log(9) + 1) / 2));
    for (int kept = 0; kept < 2; kept++) {
        t = graph_start();
        a = graph_floats(&t, IPU_SHAPE(2, 2), x);
        b = graph_floats(&t, IPU_SHAPE(2, 2), target);
        v = graph_floats(&t, kept ? IPU_SHAPE(2, 1) : IPU_SHAPE(2), rows);
        graph_expect(&t, ipu_gaussian_nll_loss(t.b, a, b, v, true, 1e-6, IPU_LOSS_SUM),
                     GRAPH_VALUES(2 * log(2 * M_PI) + 2 + log(4) + 9.0 / 8));
    }
    t = graph_start();
    a = graph_floats(&t, IPU_SHAPE(2, 2), x);
    v = graph_floats(&t, IPU_SHAPE(4), x);
    graph_refused(&t, ipu_gaussian_nll_loss(t.b, a, a, v, false, 1e-6, IPU_LOSS_SUM),
                  "must have the shape of \"x\"");
}

/* ---- classes ---- */

static const double scores[] = {1, 2, 0.5, 0, 0, 3};

static ipu_value multi_margin(graph_bench *t, int p, const double *weights, ipu_loss_reduction reduction)
{
    *t               = graph_start();
    ipu_value x      = graph_floats(t, IPU_SHAPE(2, 3), scores);
    ipu_value labels = graph_labels(t, IPU_SHAPE(2), (int32_t[]){1, 0});
    ipu_value w      = weights ? graph_floats(t, IPU_SHAPE(3), weights) : IPU_NO_VALUE;
    return ipu_multi_margin_loss(t->b, x, labels, w, p, 2, reduction);
}

/* Row 0: 2 - 2 + {1, 0.5} for the others; row 1: 2 - 0 + {0, 3}. */
static void each_other_class_is_held_at_its_margin(void **unused)
{
    (void)unused;
    graph_bench t;
    ipu_value   v = multi_margin(&t, 1, NULL, IPU_LOSS_NONE);
    graph_expect(&t, v, GRAPH_VALUES(1.5 / 3, 7.0 / 3));
    v = multi_margin(&t, 2, NULL, IPU_LOSS_SUM);
    graph_expect(&t, v, GRAPH_VALUES((1.25 + 29) / 3));
    v = multi_margin(&t, 1, (double[]){10, 100, 1000}, IPU_LOSS_MEAN); /* by the labels */
    graph_expect(&t, v, GRAPH_VALUES((150 + 70) / 6.0));
    t = graph_start();
    v = ipu_multi_margin_loss(t.b, graph_floats(&t, IPU_SHAPE(3), scores),
                              graph_labels(&t, IPU_SCALAR, (int32_t[]){1}), IPU_NO_VALUE, 1, 2,
                              IPU_LOSS_NONE);
    assert_int_equal(ipu_value_rank(v), 0);
    graph_expect(&t, v, GRAPH_VALUES(0.5));
    v = multi_margin(&t, 3, NULL, IPU_LOSS_NONE);
    graph_refused(&t, v, "p = 3: expected 1 or 2");
}

/* Row 0 has the labels 2 and 0: what comes after -1 does not count. Row 1 has none. */
static void labels_end_at_the_first_that_is_negative(void **unused)
{
    (void)unused;
    graph_bench t      = graph_start();
    ipu_value   x      = graph_floats(&t, IPU_SHAPE(2, 4), (double[]){1, 2, 0.5, 1.5, 9, 9, 9, 9});
    ipu_value   labels = graph_labels(&t, IPU_SHAPE(2, 4), (int32_t[]){2, 0, -1, 1, -1, 0, 1, 2});
    double      sum    = (1 - 0.5 + 2) + (1 - 0.5 + 1.5) + (1 - 1 + 2) + (1 - 1 + 1.5);
    graph_expect(&t, ipu_multilabel_margin_loss(t.b, x, labels, IPU_LOSS_NONE), GRAPH_VALUES(sum / 4, 0));
}

static double binary(double x, double target) { return log(1 + exp(x)) - target * x; }

static void several_labels_are_a_mean_of_binary_losses(void **unused)
{
    (void)unused;
    graph_bench t      = graph_start();
    ipu_value   x      = graph_floats(&t, IPU_SHAPE(1, 2), (double[]){1, -2});
    ipu_value   target = graph_floats(&t, IPU_SHAPE(1, 2), (double[]){1, 0});
    ipu_value   w      = graph_floats(&t, IPU_SHAPE(2), (double[]){1, 10});
    double      loss   = (binary(1, 1) + 10 * binary(-2, 0)) / 2;
    graph_expect(&t, ipu_multilabel_soft_margin_loss(t.b, x, target, w, IPU_LOSS_NONE), GRAPH_VALUES(loss));
}

/* ---- element by element ---- */

static void binary_losses_are_weighed(void **unused)
{
    (void)unused;
    graph_bench t      = graph_start();
    ipu_value   x      = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){0.5, 0.25, 0.5, 0.5});
    ipu_value   target = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){1, 0, 1, 0});
    ipu_value   w      = graph_floats(&t, IPU_SHAPE(2, 1), (double[]){1, 10});
    double      sum    = log(2) - log(0.75) + 20 * log(2);
    graph_expect(&t, ipu_bce_loss_with(t.b, x, target, w, IPU_LOSS_MEAN), GRAPH_VALUES(sum / 4));
    t      = graph_start();
    x      = graph_floats(&t, IPU_SHAPE(2), (double[]){1, -2});
    target = graph_floats(&t, IPU_SHAPE(2), (double[]){1, 0});
    w      = graph_floats(&t, IPU_SHAPE(2), (double[]){2, 3});
    graph_expect(&t, ipu_bce_with_logits_loss_with(t.b, x, target, IPU_NO_VALUE, w, IPU_LOSS_SUM),
                 GRAPH_VALUES(2 * binary(1, 1) + 3 * binary(-2, 0)));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2), (double[]){1, -2});
    w = graph_floats(&t, IPU_SHAPE(3), (double[]){2, 3, 4});
    graph_refused(&t, ipu_bce_loss_with(t.b, x, x, w, IPU_LOSS_SUM),
                  "\"weight\" [3] does not broadcast to \"x\" [2]");
}

static void soft_margins_grow_with_what_is_wrong(void **unused)
{
    (void)unused;
    graph_bench t      = graph_start();
    ipu_value   x      = graph_floats(&t, IPU_SHAPE(3), (double[]){2, 2, -100});
    ipu_value   target = graph_floats(&t, IPU_SHAPE(3), (double[]){1, -1, 1});
    graph_expect(&t, ipu_soft_margin_loss(t.b, x, target, IPU_LOSS_NONE),
                 GRAPH_VALUES(log(1 + exp(-2)), log(1 + exp(2)), 100));
}

static ipu_value triplet(graph_bench *t, ipu_triplet_options options)
{
    *t          = graph_start();
    ipu_value a = graph_floats(t, IPU_SHAPE(2, 2), (double[]){0, 0, 0, 0});
    ipu_value p = graph_floats(t, IPU_SHAPE(2, 2), (double[]){3, 4, 6, 8});
    ipu_value n = graph_floats(t, IPU_SHAPE(2, 2), (double[]){0, 10, 9, 12});
    return ipu_triplet_margin_loss(t->b, a, p, n, options);
}

/* Distances from the anchor: 5 and 10 of the positive, 10 and 15 of the negative, which are sqrt(45) and 5 apart. */
static void triplets_keep_the_negative_farther_than_the_positive(void **unused)
{
    (void)unused;
    graph_bench         t;
    ipu_triplet_options o = {.reduction = IPU_LOSS_NONE, .margin = 7, .eps = 1e-12};
    ipu_value           v = triplet(&t, o);
    graph_expect(&t, v, GRAPH_VALUES(2, 2));
    o.swap = true;
    v      = triplet(&t, o);
    graph_expect(&t, v, GRAPH_VALUES(12 - sqrt(45), 12));
    o.swap = false;
    o.p    = 1;
    v      = triplet(&t, o);
    graph_expect(&t, v, GRAPH_VALUES(7 + 7 - 10, 7 + 14 - 21));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson_losses_take_a_rate_or_its_logarithm),
        cmocka_unit_test(gaussian_losses_take_a_variance_for_each_or_for_a_row),
        cmocka_unit_test(each_other_class_is_held_at_its_margin),
        cmocka_unit_test(labels_end_at_the_first_that_is_negative),
        cmocka_unit_test(several_labels_are_a_mean_of_binary_losses),
        cmocka_unit_test(binary_losses_are_weighed),
        cmocka_unit_test(soft_margins_grow_with_what_is_wrong),
        cmocka_unit_test(triplets_keep_the_negative_farther_than_the_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
