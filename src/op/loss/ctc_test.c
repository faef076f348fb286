/* ctc against enumeration of all paths, targets that cannot be spelled, reductions; losses with a margin by
 * hand. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

enum { STEPS = 5, CLASSES = 3 };

/* A path with repetitions and blanks left out is the target. */
static bool spells(const int *path, int n_steps, int blank, const int32_t *target, int n_labels)
{
    int found = 0;
    for (int t = 0; t < n_steps; t++) {
        if (path[t] == blank || (t > 0 && path[t] == path[t - 1])) continue;
        if (found == n_labels || path[t] != target[found]) return false;
        found++;
    }
    return found == n_labels;
}

static double loss_by_paths(const double *x, int stride, int n_steps, int blank, const int32_t *target,
                            int n_labels)
{
    double sum     = 0;
    int    n_paths = 1;
    for (int t = 0; t < n_steps; t++) n_paths *= CLASSES;
    for (int p = 0; p < n_paths; p++) {
        int    path[STEPS], rest = p;
        double log = 0;
        for (int t = 0; t < n_steps; t++, rest /= CLASSES) {
            path[t] = rest % CLASSES;
            log += x[t * stride + path[t]];
        }
        if (spells(path, n_steps, blank, target, n_labels)) sum += exp(log);
    }
    return -log(sum);
}

static const int32_t targets[] = {1, 2, 0, /**/ 1, 1, 0, /**/ 0, 0, 0, /**/ 2, 2, 2};
static const int32_t steps[] = {5, 4, 3, 5}, lengths[] = {2, 2, 0, 3};
enum { N = 4 };

static void fill(double *x)
{
    for (int i = 0; i < STEPS * N; i++) {
        double p[CLASSES], sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += p[k] = 1 + (i * 7 + k * 5) % 11;
        for (int k = 0; k < CLASSES; k++) x[i * CLASSES + k] = log(p[k] / sum);
    }
}

static ipu_value emit(graph_bench *t, const double *x, const int32_t *labels, const int32_t *n_steps,
                      ipu_ctc_options options)
{
    return ipu_ctc_loss(t->b, graph_floats(t, IPU_SHAPE(STEPS, N, CLASSES), x),
                        graph_labels(t, IPU_SHAPE(N, 3), labels), graph_labels(t, IPU_SHAPE(N), n_steps),
                        graph_labels(t, IPU_SHAPE(N), lengths), options);
}

static void the_loss_is_that_of_all_paths(void **unused)
{
    (void)unused;
    double x[STEPS * N * CLASSES], each[N], mean = 0, sum = 0;
    fill(x);
    for (int i = 0; i < N; i++) {
        each[i] = loss_by_paths(x + i * CLASSES, N * CLASSES, steps[i], 0, targets + 3 * i, lengths[i]);
        sum += each[i];
        mean += each[i] / (lengths[i] > 1 ? lengths[i] : 1) / N;
    }
    graph_bench t = graph_start();
    graph_expect(&t, emit(&t, x, targets, steps, (ipu_ctc_options){.reduction = IPU_LOSS_NONE}), each, N);
    t = graph_start();
    graph_expect(&t, emit(&t, x, targets, steps, (ipu_ctc_options){.reduction = IPU_LOSS_SUM}), &sum, 1);
    t = graph_start();
    graph_expect(&t, emit(&t, x, targets, steps, (ipu_ctc_options){0}), &mean, 1);
}

/* 2 2 2 needs blanks between: five steps; four are too few. No steps spell nothing, and only that. */
static void what_cannot_be_spelled_is_infinite_or_0(void **unused)
{
    (void)unused;
    static const int32_t few[] = {0, 2, 0, 4};
    double               x[STEPS * N * CLASSES], each[N] = {INFINITY, INFINITY, 0, INFINITY};
    fill(x);
    graph_bench t = graph_start();
    graph_expect(&t, emit(&t, x, targets, few, (ipu_ctc_options){.reduction = IPU_LOSS_NONE}), each, N);
    t = graph_start();
    graph_expect(
        &t, emit(&t, x, targets, few, (ipu_ctc_options){.reduction = IPU_LOSS_NONE, .zero_infinity = true}),
        (double[N]){0}, N);
}

static ipu_value impossible(ipu_builder *b, ipu_value x)
{
    static const int32_t labels[] = {1, 1}, n_steps[] = {2}, n[] = {2};
    return ipu_ctc_loss(b, x, ipu_constant_data(b, IPU_INT32, IPU_SHAPE(1, 2), labels),
                        ipu_constant_data(b, IPU_INT32, IPU_SHAPE(1), n_steps),
                        ipu_constant_data(b, IPU_INT32, IPU_SHAPE(1), n),
                        (ipu_ctc_options){.zero_infinity = true});
}

static void what_cannot_be_spelled_passes_no_gradient(void **unused)
{
    (void)unused;
    graph_gradient(impossible, IPU_SHAPE(2, 1, 2), (double[]){-1, -1, -1, -1}, (double[4]){0});
}

static void lengths_and_labels_out_of_range_stop_the_run(void **unused)
{
    (void)unused;
    static const int32_t bad_labels[] = {1, 3, 0, 1, 1, 0, 0, 0, 0, 2, 2, 2}, bad_steps[] = {6, 4, 3, 5};
    double               x[STEPS * N * CLASSES], out;
    fill(x);
    graph_bench t = graph_start();
    assert_int_equal(graph_run(&t, emit(&t, x, bad_labels, steps, (ipu_ctc_options){0}), &out, 1),
                     IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "label 1 of target 0 is 3: expected 0 to 2"));
    graph_end(&t);
    t = graph_start();
    assert_int_equal(graph_run(&t, emit(&t, x, targets, bad_steps, (ipu_ctc_options){0}), &out, 1),
                     IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "input length 0 is 6: expected 0 to 5"));
    graph_end(&t);
    t = graph_start();
    graph_refused(&t, emit(&t, x, targets, steps, (ipu_ctc_options){.blank = 3}), "expected a class, 0 to 2");
}

static void margins_are_kept_or_cost(void **unused)
{
    (void)unused;
    static const double x[] = {0.3, 0.3, 2, 1}, y[] = {1, -1, -1, 1}, z[] = {0.5, 1, 0.5, 0};
    graph_bench         t = graph_start();
    ipu_shape           s = IPU_SHAPE(4);
    graph_expect(
        &t, ipu_hinge_embedding_loss(t.b, graph_floats(&t, s, x), graph_floats(&t, s, y), 1, IPU_LOSS_NONE),
        GRAPH_VALUES(0.3, 0.7, 0, 1));
    t = graph_start();
    graph_expect(&t,
                 ipu_margin_ranking_loss(t.b, graph_floats(&t, s, x), graph_floats(&t, s, z),
                                         graph_floats(&t, s, y), 0.5, IPU_LOSS_SUM),
                 GRAPH_VALUES(0.7 + 0 + 2 + 0));
    static const double a[] = {3, 4, 1, 0, 1, 0}, c[] = {4, 3, 0, 2, 1, 1}, sign[] = {1, -1, -1};
    t = graph_start();
    graph_expect(&t,
                 ipu_cosine_embedding_loss(t.b, graph_floats(&t, IPU_SHAPE(3, 2), a),
                                           graph_floats(&t, IPU_SHAPE(3, 2), c),
                                           graph_floats(&t, IPU_SHAPE(3), sign), 0.2, IPU_LOSS_NONE),
                 GRAPH_VALUES(1 - 24.0 / 25, 0, M_SQRT1_2 - 0.2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_that_of_all_paths),
        cmocka_unit_test(what_cannot_be_spelled_is_infinite_or_0),
        cmocka_unit_test(what_cannot_be_spelled_passes_no_gradient),
        cmocka_unit_test(lengths_and_labels_out_of_range_stop_the_run),
        cmocka_unit_test(margins_are_kept_or_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
