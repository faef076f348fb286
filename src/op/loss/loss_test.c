/* Losses: values worked out by hand, ignored and invalid labels, numbers at the limits of their range. */
#include "op/graph_test.h"

#include "ipu/op/loss.h"

static const double log_probs[] = {-1, -2, -3, -4, -5, -6};
static const double weights[]   = {1, 2, 3};

static ipu_value nll(graph_bench *t, const int32_t *labels, ipu_loss_options options, bool weighted)
{
    *t             = graph_start();
    ipu_value x    = graph_floats(t, IPU_SHAPE(2, 3), log_probs);
    ipu_value y    = graph_labels(t, IPU_SHAPE(2), labels);
    options.weight = weighted ? graph_floats(t, IPU_SHAPE(3), weights) : IPU_NO_VALUE;
    return ipu_nll_loss_with(t->b, x, y, options);
}

static void nll_picks_labels_and_weighs_them(void **unused)
{
    (void)unused;
    graph_bench      t;
    ipu_loss_options mean = {0}, sum = {.reduction = IPU_LOSS_SUM}, none = {.reduction = IPU_LOSS_NONE};
    ipu_loss_options batch    = {.reduction = IPU_LOSS_BATCH_MEAN};
    int32_t          labels[] = {2, 0};
    ipu_value        v        = nll(&t, labels, mean, false);
    graph_expect(&t, v, GRAPH_VALUES(3.5));
    v = nll(&t, labels, mean, true);
    graph_expect(&t, v, GRAPH_VALUES((3 * 3 + 1 * 4) / 4.0));
    v = nll(&t, labels, sum, true);
    graph_expect(&t, v, GRAPH_VALUES(13));
    v = nll(&t, labels, none, true);
    graph_expect(&t, v, GRAPH_VALUES(9, 4));
    v = nll(&t, labels, batch, true);
    graph_expect(&t, v, GRAPH_VALUES(6.5));
}

static void ignored_labels_count_for_nothing(void **unused)
{
    (void)unused;
    graph_bench      t;
    ipu_loss_options ignore_2 = {.has_ignore_index = true, .ignore_index = 2}, usual = {0};
    ipu_value        v = nll(&t, (int32_t[]){2, 0}, ignore_2, false);
    graph_expect(&t, v, GRAPH_VALUES(4));
    v = nll(&t, (int32_t[]){1, -100}, usual, false);
    graph_expect(&t, v, GRAPH_VALUES(2));
    v = nll(&t, (int32_t[]){-100, -100}, usual, false);
    graph_expect(&t, v, GRAPH_VALUES(NAN)); /* 0 / 0, as PyTorch has it */
    ignore_2.reduction = IPU_LOSS_NONE;
    v                  = nll(&t, (int32_t[]){2, 0}, ignore_2, true);
    graph_expect(&t, v, GRAPH_VALUES(0, 4));
}

static void a_label_that_is_no_class_stops_the_run(void **unused)
{
    (void)unused;
    graph_bench t;
    double      out;
    ipu_value   v = nll(&t, (int32_t[]){2, 7}, (ipu_loss_options){0}, false);
    assert_int_equal(graph_run(&t, v, &out, 1), IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "label 1 is 7: expected 0 to 2, or -100 to be ignored"));
    graph_end(&t);
    t = graph_start();
    v = ipu_cross_entropy(t.b, graph_floats(&t, IPU_SHAPE(2, 3), log_probs),
                          graph_labels(&t, IPU_SHAPE(2), (int32_t[]){-1, 0}));
    assert_int_equal(graph_run(&t, v, &out, 1), IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "label 0 is -1"));
    graph_end(&t);
}

/* Logits whose softmax is 1/8, 2/8, 5/8 in each row, shifted. */
static ipu_value logits(graph_bench *t)
{
    *t = graph_start();
    return graph_floats(t, IPU_SHAPE(2, 3), (double[]){0, log(2), log(5), 30 + log(5), 30, 30 + log(2)});
}

static void cross_entropy_is_nll_of_log_softmax(void **unused)
{
    (void)unused;
    graph_bench t;
    ipu_value   x = logits(&t);
    ipu_value   v = ipu_cross_entropy(t.b, x, graph_labels(&t, IPU_SHAPE(2), (int32_t[]){1, 1}));
    graph_expect(&t, v, GRAPH_VALUES((log(4) + log(8)) / 2));
    x = logits(&t);
    v = ipu_cross_entropy_with(t.b, x, graph_labels(&t, IPU_SHAPE(2), (int32_t[]){2, 0}),
                               (ipu_loss_options){.reduction = IPU_LOSS_NONE});
    graph_expect(&t, v, GRAPH_VALUES(log(1.6), log(1.6)));
    x = logits(&t);
    v = ipu_cross_entropy_with(t.b, x, graph_labels(&t, IPU_SHAPE(2), (int32_t[]){1, 0}),
                               (ipu_loss_options){.weight = graph_floats(&t, IPU_SHAPE(3), weights)});
    graph_expect(&t, v, GRAPH_VALUES((2 * log(4) + log(1.6)) / 3));
}

static void smoothed_labels_give_a_share_to_every_class(void **unused)
{
    (void)unused;
    graph_bench      t;
    double           each = (log(8) + log(4) + log(1.6)) / 3;
    ipu_loss_options o    = {.label_smoothing = 0.1};
    ipu_value        x    = logits(&t);
    ipu_value v = ipu_cross_entropy_with(t.b, x, graph_labels(&t, IPU_SHAPE(2), (int32_t[]){1, -100}), o);
    graph_expect(&t, v, GRAPH_VALUES(0.9 * log(4) + 0.1 * each));
    x = logits(&t);
    v = ipu_cross_entropy_with(t.b, x, graph_floats(&t, IPU_SHAPE(2, 3), (double[]){0, 1, 0, 1, 0, 0}), o);
    graph_expect(&t, v, GRAPH_VALUES((0.9 * log(4) + 0.1 * each + 0.9 * log(1.6) + 0.1 * each) / 2));
}

static void large_logits_do_not_overflow(void **unused)
{
    (void)unused;
    graph_bench      t    = graph_start();
    ipu_loss_options none = {.reduction = IPU_LOSS_NONE};
    ipu_value x = graph_floats(&t, IPU_SHAPE(3, 2), (double[]){1000, -1000, 1000, -1000, 0, -INFINITY});
    ipu_value v = ipu_cross_entropy_with(t.b, x, graph_labels(&t, IPU_SHAPE(3), (int32_t[]){1, 0, 0}), none);
    graph_expect(&t, v, GRAPH_VALUES(2000, 0, 0));
}

typedef ipu_value (*pair_loss)(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction);

static ipu_value smooth_half(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction r)
{
    return ipu_smooth_l1_loss(b, x, target, 0.5, r);
}

static ipu_value huber_2(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction r)
{
    return ipu_huber_loss(b, x, target, 2, r);
}

static ipu_value logit_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction r)
{
    return ipu_bce_with_logits_loss(b, x, target, IPU_NO_VALUE, r);
}

static ipu_value kl(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction r)
{
    return ipu_kl_div_loss(b, x, target, false, r);
}

static void check_pair(pair_loss fn, const double *x, const double *target, const double *expected)
{
    static const ipu_loss_reduction reductions[] = {IPU_LOSS_NONE, IPU_LOSS_MEAN, IPU_LOSS_SUM,
                                                    IPU_LOSS_BATCH_MEAN};
    double                          sum          = expected[0] + expected[1] + expected[2] + expected[3];
    double                          results[4]   = {0, sum / 4, sum, sum / 2};
    for (int i = 0; i < 4; i++) {
        graph_bench t = graph_start();
        ipu_value v = fn(t.b, graph_floats(&t, IPU_SHAPE(2, 2), x), graph_floats(&t, IPU_SHAPE(2, 2), target),
                         reductions[i]);
        graph_expect(&t, v, i == 0 ? expected : &results[i], i == 0 ? 4 : 1);
    }
}

static void losses_of_pairs_are_those_of_the_book(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, -3, 0.25}, target[] = {1, -1, 0, 0};
    check_pair(ipu_mse_loss, x, target, (double[]){0, 9, 9, 0.0625});
    check_pair(ipu_l1_loss, x, target, (double[]){0, 3, 3, 0.25});
    check_pair(smooth_half, x, target, (double[]){0, 2.75, 2.75, 0.0625});
    check_pair(huber_2, x, target, (double[]){0, 4, 4, 0.03125});
}

static void binary_losses_stay_finite_at_the_ends(void **unused)
{
    (void)unused;
    check_pair(ipu_bce_loss, (double[]){0, 1, 0.5, 0.25}, (double[]){1, 1, 0.5, 0},
               (double[]){100, 0, log(2), -log(0.75)});
    check_pair(logit_loss, (double[]){1000, 1000, 0, -1000}, (double[]){1, 0, 0.5, 1},
               (double[]){0, 1000, log(2), 1000});
    check_pair(kl, (double[]){-1, -2, -3, 0}, (double[]){0, 1, 0.5, 0},
               (double[]){0, 2, 0.5 * (log(0.5) + 3), 0});
}

static ipu_value half_yes(ipu_builder *b, ipu_value x)
{
    ipu_value target = ipu_constant_value(b, IPU_FLOAT, ipu_value_shape(x), 0.5);
    return ipu_bce_with_logits_loss(b, x, target, IPU_NO_VALUE, IPU_LOSS_SUM);
}

static ipu_value yes(ipu_builder *b, ipu_value x)
{
    return ipu_bce_loss(b, x, ipu_constant_value(b, IPU_FLOAT, ipu_value_shape(x), 1), IPU_LOSS_SUM);
}

static ipu_value second_class(ipu_builder *b, ipu_value x)
{
    int32_t labels[] = {1, -100};
    return ipu_cross_entropy(b, x, ipu_constant_data(b, IPU_INT32, IPU_SHAPE(2), labels));
}

static void gradients_are_finite_at_the_odd_places(void **unused)
{
    (void)unused;
    graph_gradient(half_yes, IPU_SHAPE(3), (double[]){0, 1000, -1000}, (double[]){0, 0.5, -0.5});
    graph_gradient(yes, IPU_SHAPE(2), (double[]){0, 0.5}, (double[]){0, -2});
    graph_gradient(second_class, IPU_SHAPE(2, 2), (double[]){0, 0, 5, 6}, (double[]){0.5, -0.5, 0, 0});
}

static void what_does_not_fit_is_refused(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 3), log_probs);
    graph_refused(&t, ipu_cross_entropy(t.b, x, graph_labels(&t, IPU_SHAPE(3), (int32_t[]){0, 1, 2})),
                  "\"target\" must have shape [2], found int32[3]");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 3), log_probs);
    graph_refused(&t, ipu_nll_loss(t.b, x, graph_floats(&t, IPU_SHAPE(2), weights)),
                  "\"labels\" must be int32 or int64, found float[2]");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 3), log_probs);
    graph_refused(&t, ipu_mse_loss(t.b, x, graph_floats(&t, IPU_SHAPE(3), weights), IPU_LOSS_MEAN),
                  "\"target\" must have shape [2,3], found float[3]");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 3), log_probs);
    graph_refused(&t,
                  ipu_cross_entropy_with(t.b, x, graph_labels(&t, IPU_SHAPE(2), (int32_t[]){0, 1}),
                                         (ipu_loss_options){.label_smoothing = 1.5}),
                  "label_smoothing = 1.5: expected 0 to 1");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 3), log_probs);
    graph_refused(&t, ipu_huber_loss(t.b, x, x, 0, IPU_LOSS_MEAN), "delta = 0: expected more than 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nll_picks_labels_and_weighs_them),
        cmocka_unit_test(ignored_labels_count_for_nothing),
        cmocka_unit_test(a_label_that_is_no_class_stops_the_run),
        cmocka_unit_test(cross_entropy_is_nll_of_log_softmax),
        cmocka_unit_test(smoothed_labels_give_a_share_to_every_class),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(losses_of_pairs_are_those_of_the_book),
        cmocka_unit_test(binary_losses_stay_finite_at_the_ends),
        cmocka_unit_test(gradients_are_finite_at_the_odd_places),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
