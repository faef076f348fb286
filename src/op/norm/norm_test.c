/* Normalisation: values worked out by hand, numbers far from 0, running statistics, gradients in half. */
#include "op/call_test.h"
#include "op/graph_test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "ipu/op/norm.h"
#include "op/norm/norm.h"

static ipu_attribute epsilon(double value) { return IPU_FLOAT_ATTRIBUTE("epsilon", value); }

static void rows_have_mean_0_and_variance_1(void **unused)
{
    (void)unused;
    ipu_attribute e    = epsilon(0.75);
    call_input    in[] = {{IPU_FLOAT, {2, {2, 4}}, CALL_VALUES(1, 2, 3, 4, 5, 5, 5, 5)},
                          {IPU_FLOAT, {1, {4}}, CALL_VALUES(1, 1, 2, 2)},
                          {IPU_FLOAT, {1, {4}}, CALL_VALUES(0, 1, 0, 0)}};
    double        s    = 1 / sqrt(1.25 + 0.75);
    call_expect("layer_norm", &e, 1, in, 3, 0, CALL_VALUES(-1.5 * s, -0.5 * s + 1, s, 3 * s, 0, 1, 0, 0));
    call_expect("layer_norm", &e, 1, in, 3, 1, CALL_VALUES(2.5, 5));
    call_expect("layer_norm", &e, 1, in, 3, 2, CALL_VALUES(1.25, 0));
    call_expect("layer_norm", &e, 1, in, 1, 0, CALL_VALUES(-1.5 * s, -0.5 * s, 0.5 * s, 1.5 * s, 0, 0, 0, 0));
    double r = 1 / sqrt(7.5 + 0.75), q = 5 / sqrt(25.75);
    call_expect("rms_norm", &e, 1, in, 2, 0, CALL_VALUES(r, 2 * r, 6 * r, 8 * r, q, q, 2 * q, 2 * q));
    call_expect("rms_norm", &e, 1, in, 2, 1, CALL_VALUES(7.5, 25));
}

/* 2 images of 2 channels of 2. */
static const double eight[] = {1, 3, 0, 8, -2, 2, 4, 4};

static void units_are_channels_groups_or_images(void **unused)
{
    (void)unused;
    ipu_attribute by_image[]   = {epsilon(0), IPU_INT_ATTRIBUTE("groups", 1)};
    ipu_attribute by_channel[] = {epsilon(0), IPU_INT_ATTRIBUTE("groups", 2)};
    ipu_attribute zero         = epsilon(0);
    call_input    in[]         = {{IPU_FLOAT, {3, {2, 2, 2}}, eight}};
    call_expect("batch_norm", &zero, 1, in, 1, 1, CALL_VALUES(1, 4));
    call_expect("batch_norm", &zero, 1, in, 1, 2, CALL_VALUES(3.5, 8));
    double a = 1 / sqrt(3.5), b = 1 / sqrt(8);
    call_expect("batch_norm", &zero, 1, in, 1, 0, CALL_VALUES(0, 2 * a, -4 * b, 4 * b, -3 * a, a, 0, 0));
    call_expect("group_norm", by_image, 2, in, 1, 1, CALL_VALUES(3, 2));
    call_expect("group_norm", by_image, 2, in, 1, 2, CALL_VALUES(9.5, 6));
    call_expect("group_norm", by_channel, 2, in, 1, 1, CALL_VALUES(2, 4, 0, 4));
    call_expect("group_norm", by_channel, 2, in, 1, 2, CALL_VALUES(1, 16, 4, 0));
}

/* In float the mean of squares less the square of the mean would be nothing but rounding. */
static void numbers_far_from_0_keep_their_variance(void **unused)
{
    (void)unused;
    enum { N = 10000 };
    double *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < N; i++) x[i] = 20000 + i % 4;
    static const char *const ops[]    = {"layer_norm", "group_norm", "batch_norm", "batch_norm"};
    static const ipu_shape   shapes[] = {{2, {1, N}}, {3, {1, 1, N}}, {3, {1, 1, N}}, {2, {N, 1}}};
    for (int i = 0; i < 4; i++) {
        ipu_attribute groups = IPU_INT_ATTRIBUTE("groups", 1);
        call_input    in     = {IPU_FLOAT, shapes[i], x};
        call_made     made   = call_make(ops[i], &groups, i == 1, &in, 1, IPU_FLOAT);
        call_check(&made, 1);
        assert_true(fabs((double)*(float *)made.data[5] - 1.25) < 1e-4);
        int last = ipu__cpu_impls_of(made.call.def).n - 1; /* for floats */
        call_run(&made.call, &ipu__cpu_impls_of(made.call.def).at[last], made.data, 1);
        assert_true(fabs((double)*(float *)made.data[4] - 20001.5) < 0.01);
        assert_true(fabs((double)*(float *)made.data[5] - 1.25) < 1e-4);
        call_free(&made);
    }
    free(x);
}

static void implementations_agree_and_parts_make_no_difference(void **unused)
{
    (void)unused;
    static const struct {
        const char *op;
        ipu_shape   x, stat, weight;
        int64_t     groups; /* 0: none */
    } cases[] = {
        {"layer_norm", {2, {70, 300}}, {1, {70}}, {1, {300}}, 0},
        {"layer_norm", {2, {3, 9000}}, {1, {3}}, {1, {9000}}, 0},
        {"rms_norm", {3, {2, 9, 33}}, {2, {2, 9}}, {1, {33}}, 0},
        {"group_norm", {4, {3, 6, 70, 71}}, {2, {3, 3}}, {1, {6}}, 3},
        {"group_norm", {2, {5, 6}}, {2, {5, 2}}, {1, {6}}, 2},
        {"batch_norm", {2, {50, 300}}, {1, {300}}, {1, {300}}, 0},
        {"batch_norm", {4, {7, 90, 3, 3}}, {1, {90}}, {1, {90}}, 0},
        {"batch_norm", {4, {5, 3, 70, 70}}, {1, {3}}, {1, {3}}, 0},
    };
    static const ipu_type types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    for (size_t c = 0; c < IPU__COUNT(cases); c++)
        for (size_t t = 0; t < IPU__COUNT(types); t++) {
            ipu_attribute groups = IPU_INT_ATTRIBUTE("groups", cases[c].groups);
            bool          is_rms = strcmp(cases[c].op, "rms_norm") == 0;
            call_input    x = {IPU_FLOAT, cases[c].x, NULL}, w = {IPU_FLOAT, cases[c].weight, NULL};
            call_input    forward[] = {x, w, w};
            call_made     made = call_make(cases[c].op, &groups, cases[c].groups > 0, forward, is_rms ? 2 : 3,
                                           types[t]);
            call_check(&made, 4);
            char grad[32];
            snprintf(grad, sizeof grad, "%s_grad", cases[c].op);
            int64_t n   = ipu__op_n_elements(&cases[c].stat);
            double *var = malloc((size_t)n * sizeof *var);
            assert_non_null(var);
            for (int64_t i = 0; i < n; i++) var[i] = 0.5 + 0.01 * (double)i;
            call_input mean = {IPU_DOUBLE, cases[c].stat, NULL}, square = {IPU_DOUBLE, cases[c].stat, var};
            call_input backward[] = {x, x, mean, square, w}, rms_backward[] = {x, x, square, w};
            call_made  back = call_make(grad, &groups, cases[c].groups > 0, is_rms ? rms_backward : backward,
                                       is_rms ? 4 : 5, types[t]);
            call_check(&back, 300);
            free(var);
            call_free(&made);
            call_free(&back);
        }
}

static ipu_batch_norm_result batch(graph_bench *t, bool training)
{
    *t               = graph_start();
    ipu_value x      = graph_floats(t, IPU_SHAPE(2, 2, 2), eight);
    ipu_value weight = graph_floats(t, IPU_SHAPE(2), (double[]){2, 1});
    ipu_value bias   = graph_floats(t, IPU_SHAPE(2), (double[]){0, 1});
    ipu_value mean   = graph_floats(t, IPU_SHAPE(2), (double[]){0, 10});
    ipu_value var    = graph_floats(t, IPU_SHAPE(2), (double[]){1, 4});
    return ipu_batch_norm(t->b, x, weight, bias, mean, var,
                          (ipu_batch_norm_options){.training = training, .momentum = 0.25, .epsilon = 1e-9});
}

static void running_statistics_move_as_in_pytorch(void **unused)
{
    (void)unused;
    graph_bench           t;
    double                a = 2 / sqrt(3.5), b = 1 / sqrt(8);
    ipu_batch_norm_result r = batch(&t, true);
    graph_expect(&t, r.mean, GRAPH_VALUES(0.25 * 1, 10 + 0.25 * (4 - 10)));
    r = batch(&t, true);
    graph_expect(&t, r.var, GRAPH_VALUES(1 + 0.25 * (3.5 * 4 / 3 - 1), 4 + 0.25 * (8.0 * 4 / 3 - 4)));
    r = batch(&t, true);
    graph_expect(&t, r.y, GRAPH_VALUES(0, 2 * a, 1 - 4 * b, 1 + 4 * b, -3 * a, a, 1, 1));
    r = batch(&t, false);
    graph_expect(&t, r.y, GRAPH_VALUES(2, 6, -4, 0, -4, 4, -2, -2));
    r = batch(&t, false);
    graph_expect(&t, r.var, GRAPH_VALUES(1, 4));
}

static void compositions_are_what_they_say(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(2, 2, 2), eight);
    graph_expect(&t, ipu_instance_norm(t.b, x, IPU_NO_VALUE, IPU_NO_VALUE, 1e-12),
                 GRAPH_VALUES(-1, 1, -1, 1, -1, 1, 0, 0));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){3, 4, 0, 0});
    graph_expect(&t, ipu_l2_normalize(t.b, x, -1, 1e-12), GRAPH_VALUES(0.6, 0.8, 0, 0));
}

static void what_does_not_fit_is_refused(void **unused)
{
    (void)unused;
    ipu_value   none = IPU_NO_VALUE;
    graph_bench t    = graph_start();
    ipu_value   x    = graph_floats(&t, IPU_SHAPE(2, 2, 2), eight);
    graph_refused(&t, ipu_layer_norm(t.b, x, none, none, 4, 1e-5),
                  "n_dims = 4: expected 1 to the rank of \"x\"");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2, 2), eight);
    graph_refused(&t, ipu_group_norm(t.b, x, none, none, 3, 1e-5),
                  "groups = 3 does not divide the 2 channels");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2, 2), eight);
    graph_refused(&t, ipu_layer_norm(t.b, x, graph_floats(&t, IPU_SHAPE(3), eight), none, 1, 1e-5),
                  "\"weight\" must have shape [2], found float[3]");
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(1, 8), eight);
    ipu_batch_norm(t.b, x, none, none, none, none, (ipu_batch_norm_options){.training = true});
    graph_refused(&t, ipu_layer_norm(t.b, x, none, none, 1, 1e-5), "has one value in each channel");
}

/* ---- in lanes ---- */

enum { N = 32, C = 6, GROUPS = 3, INNER = 15, ROW = C * INNER, ALL = N * ROW };
enum { DY, X, MEAN, VAR, WEIGHT, DX, D_WEIGHT, D_BIAS, D_SUM, N_GRAD };

static void turn(const float *x, float *lanes, bool back)
{
    for (int i = 0; i < ALL; i++) {
        int at               = (i / ROW / 16 * ROW + i % ROW) * 16 + i / ROW % 16;
        lanes[back ? i : at] = x[back ? at : i];
    }
}

static void expect_near(const float *found, const float *expected, int n)
{
    for (int i = 0; i < n; i++)
        assert_true(fabsf(found[i] - expected[i]) <= 1e-4f * (1 + fabsf(expected[i])));
}

static void run_parts(const ipu__kernel_call *call, void *const *operand, int n_parts)
{
    const ipu__cpu_impl *impl = ipu__cpu_impls_of(call->def).at;
    while (!impl->head.fits(call, ipu__cpu_machine_here(), n_parts)) impl++;
    char *scratch = ipu__alloc_pages(impl->scratch_bytes(call, n_parts));
    void *state;
    assert_int_equal(impl->prepare(call, n_parts, &state), IPU_OK);
    for (int part = n_parts - 1; part >= 0; part--)
        assert_int_equal(impl->run(call, state, operand, scratch, part, n_parts), IPU_OK);
    impl->release(state);
    ipu__free_pages(scratch, impl->scratch_bytes(call, n_parts));
}

/* Each of dy, x and dx in lanes or not, with and without a relu before x. */
static void gradients_in_lanes_are_those_of_plain_images(void **unused)
{
    (void)unused;
    static float dy[ALL], x[ALL], mean[N * GROUPS], var[N * GROUPS], weight[C], dx[ALL], own[3][C],
        turned[3][ALL], found[ALL], sums[3][C];
    ipu__kernel_value image = {IPU_FLOAT, IPU_SHAPE(N, C, 5, 3)}, per_channel = {IPU_FLOAT, IPU_SHAPE(C)},
                      stat = {IPU_FLOAT, IPU_SHAPE(N, GROUPS)};
    for (int i = 0; i < ALL; i++) {
        dy[i] = (float)(i * 37 % 101) / 50 - 1;
        x[i]  = (float)(i * 53 % 97) / 50 - 1;
    }
    for (int i = 0; i < N * GROUPS; i++) {
        mean[i] = (float)(i % 7) / 10 - 0.3f;
        var[i]  = 0.5f + (float)(i % 5) / 4;
    }
    for (int i = 0; i < C; i++) weight[i] = 0.5f + (float)i / 4;
    for (int64_t relu = 0; relu < 2; relu++) {
        ipu_attribute    a[]  = {IPU_INT_ATTRIBUTE("groups", GROUPS), IPU_INT_ATTRIBUTE("relu", relu)};
        ipu__kernel_call call = {.def          = &ipu__op_group_norm_grad.kernel,
                                 .attributes   = a,
                                 .n_attributes = 2,
                                 .n_operands   = N_GRAD,
                                 .operand      = {image, image, stat, stat, per_channel, image, per_channel,
                                                  per_channel}};
        call.def->ref(&call, (void *[]){dy, x, mean, var, weight, dx, own[0], own[1], own[2]});
        for (int bits = 0; bits < 8; bits++)
            for (int n_parts = 1; n_parts <= 3; n_parts++) {
                call.layout[DY] = bits & 1, call.layout[X] = bits >> 1 & 1, call.layout[DX] = bits >> 2;
                if (call.layout[DY]) turn(dy, turned[0], false);
                if (call.layout[X]) turn(x, turned[1], false);
                run_parts(&call,
                          (void *[]){call.layout[DY] ? turned[0] : dy, call.layout[X] ? turned[1] : x, mean,
                                     var, weight, call.layout[DX] ? turned[2] : found, sums[0], sums[1],
                                     sums[2]},
                          n_parts);
                if (call.layout[DX]) turn(turned[2], found, true);
                expect_near(found, dx, ALL);
                expect_near(sums[0], own[0], C);
                expect_near(sums[1], own[1], C);
                if (relu) expect_near(sums[2], own[2], C);
            }
    }
}

static void slices_are_as_long_as_weight_norm_is_told(void **unused)
{
    (void)unused;
    const double v[] = {3, 4, 0, -5}, g[] = {10, 2};
    graph_bench  t = graph_start();
    ipu_value    x = graph_floats(&t, IPU_SHAPE(2, 2), v);
    graph_expect(&t, ipu_weight_norm(t.b, x, graph_floats(&t, IPU_SHAPE(2, 1), g)),
                 GRAPH_VALUES(6, 8, 0, -2));
    t = graph_start(); /* as a whole: its length is the root of 50 */
    x = graph_floats(&t, IPU_SHAPE(2, 2), v);
    graph_expect(&t, ipu_weight_norm(t.b, x, graph_floats(&t, IPU_SCALAR, g)),
                 GRAPH_VALUES(30 / sqrt(50), 40 / sqrt(50), 0, -50 / sqrt(50)));
    t = graph_start(); /* each element by itself */
    x = graph_floats(&t, IPU_SHAPE(2), (double[]){3, -4});
    graph_expect(&t, ipu_weight_norm(t.b, x, graph_floats(&t, IPU_SHAPE(2), g)), GRAPH_VALUES(10, -2));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(1, 2), v);
    graph_refused(&t, ipu_weight_norm(t.b, x, graph_floats(&t, IPU_SHAPE(2, 1), g)), "is not broadcast to");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_mean_0_and_variance_1),
        cmocka_unit_test(units_are_channels_groups_or_images),
        cmocka_unit_test(numbers_far_from_0_keep_their_variance),
        cmocka_unit_test(implementations_agree_and_parts_make_no_difference),
        cmocka_unit_test(running_statistics_move_as_in_pytorch),
        cmocka_unit_test(compositions_are_what_they_say),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(gradients_in_lanes_are_those_of_plain_images),
        cmocka_unit_test(slices_are_as_long_as_weight_norm_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
