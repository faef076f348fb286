/* Normalisation, dropout, random numbers, losses of ONNX: what changed from opset to opset, and training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "onnx/run_test.h"

static bytes of(int version, const char *source) { return model(version, graph(source, NULL), none); }

static void run_training(bytes b, const ipu_onnx_value *in, size_t n_in, ipu_onnx_value *out, size_t n_out)
{
    ipu_onnx         *file;
    ipu_onnx_session *s = session_of(b, &file, &(ipu_onnx_options){.training = true});
    if (ipu_onnx_session_run(s, in, n_in, out, n_out) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

/* ---- batch normalisation; variance of 1 2 3 4 is 1.25, with an epsilon of 0.0 + 1.0 it is 2.25 ---- */

#define NORM_HEAD \
    "in x float[2,1,2]; const s float[1] 3; const b float[1] 10; const m float[1] 1; const v float[1] 3;"
#define NORM_IN VALUES(FLOATS(IPU_SHAPE(2, 1, 2), 1, 2, 3, 4))
#define GIVEN 10, 11.5, 13, 14.5 /* mean 1, variance 3 and epsilon 1 */
#define BATCH 7, 9, 11, 13       /* mean 2.5, variance 1.25 and epsilon 1: 3 / 1.5 */

static void inference_takes_the_statistics_given_whatever_the_opset(void **state)
{
    (void)state;
    EXPECT(of(1, NORM_HEAD
              "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0 is_test=1 consumed_inputs=[0,0]"),
           NORM_IN, IPU_SHAPE(2, 1, 2), GIVEN);
    EXPECT(of(6, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0"), NORM_IN,
           IPU_SHAPE(2, 1, 2), GIVEN);
    EXPECT(of(9, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0"), NORM_IN,
           IPU_SHAPE(2, 1, 2), GIVEN);
    EXPECT(of(15, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0"), NORM_IN,
           IPU_SHAPE(2, 1, 2), GIVEN);
}

static void an_epsilon_of_zero_is_zero(void **state)
{
    (void)state;
    EXPECT(of(15, "in x float[2,1,2]; const s float[1] 1; const b float[1] 0; const m float[1] 0;"
                  "const v float[1] 1e-6;"
                  "out y; y = BatchNormalization(x, s, b, m, v) epsilon=0.0"),
           NORM_IN, IPU_SHAPE(2, 1, 2), 1000, 2000, 3000, 4000);
}

static void outputs_of_training_make_an_old_node_train(void **state)
{
    (void)state;
    ipu_onnx_value out[5];
    run_file(of(9, NORM_HEAD
                "out y; out rm; out rv; out sm; out sv; y, rm, rv, sm, sv = BatchNormalization(x, s, b, m, v)"
                " epsilon=1.0 momentum=0.75"),
             NORM_IN, out, 5);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2, 1, 2), BATCH);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(1), 1 * 0.75 + 2.5 * 0.25);
    ASSERT_ARRAY(&out[2], IPU_SHAPE(1), 3 * 0.75 + 1.25 * 0.25);
    ASSERT_ARRAY(&out[3], IPU_SHAPE(1), 2.5);
    ASSERT_ARRAY(&out[4], IPU_SHAPE(1), 1.25);
    for (int i = 0; i < 5; i++) ipu_onnx_value_free(&out[i]);
    EXPECT(of(14, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0 training_mode=1"),
           NORM_IN, IPU_SHAPE(2, 1, 2), BATCH);
}

static void before_opset_7_training_is_what_the_import_says_unless_it_is_a_test(void **state)
{
    (void)state;
    ipu_onnx_value y;
    run_training(of(6, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0"), NORM_IN, &y, 1);
    ASSERT_ARRAY(&y, IPU_SHAPE(2, 1, 2), BATCH);
    ipu_onnx_value_free(&y);
    run_training(of(6, NORM_HEAD "out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0 is_test=1"),
                 NORM_IN, &y, 1);
    ASSERT_ARRAY(&y, IPU_SHAPE(2, 1, 2), GIVEN);
    ipu_onnx_value_free(&y);
}

static void without_spatial_each_place_is_a_channel(void **state)
{
    (void)state;
    EXPECT(of(7,
              "in x float[2,1,2]; const s float[1,2] 1 2; const b float[1,2] 0 0; const m float[1,2] 1 2;"
              "const v float[1,2] 3 3; out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0 spatial=0"),
           NORM_IN, IPU_SHAPE(2, 1, 2), 0, 0, 1, 2);
}

static void scales_of_another_type_than_x_are_computed_wide(void **state)
{
    (void)state;
    static const uint16_t half[] = {0x3c00, 0x4000, 0x4200, 0x4400}; /* 1 2 3 4 */
    ipu_onnx_value        y;
    run_file(of(15, "in x half[2,1,2]; const s float[1] 3; const b float[1] 10; const m float[1] 1;"
                    "const v float[1] 3; out y; y = BatchNormalization(x, s, b, m, v) epsilon=1.0"),
             VALUES(value(IPU_HALF, IPU_SHAPE(2, 1, 2), half)), &y, 1);
    assert_int_equal(y.array.type, IPU_HALF);
    ASSERT_ARRAY(&y, IPU_SHAPE(2, 1, 2), GIVEN);
    ipu_onnx_value_free(&y);
}

/* ---- others ---- */

static void layer_normalisation_gives_its_statistics_and_broadcasts_its_scale(void **state)
{
    (void)state;
    ipu_onnx_value out[3];
    ipu_onnx_value x = FLOATS(IPU_SHAPE(2, 2), 1, 3, 5, 9);
    run_file(of(17, "in x float[2,2]; const s float[1] 2; const b float[2] 1 10; out y; out m; out d;"
                    "y, m, d = LayerNormalization(x, s, b) epsilon=0.0"),
             VALUES(x), out, 3);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2, 2), -1, 12, -1, 12);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2, 1), 2, 7);
    ASSERT_ARRAY(&out[2], IPU_SHAPE(2, 1), 1, 0.5);
    for (int i = 0; i < 3; i++) ipu_onnx_value_free(&out[i]);
    EXPECT(of(17, "in x float[2,2]; const s float[2,2] 1 1 1 1; out y;"
                  "y = LayerNormalization(x, s) axis=0 epsilon=0.25"),
           VALUES(x), IPU_SHAPE(2, 2), -3.5 / 3, -1.5 / 3, 0.5 / 3, 4.5 / 3);
}

static void groups_have_a_scale_each_and_since_opset_21_channels_do(void **state)
{
    (void)state;
    ipu_onnx_value x = FLOATS(IPU_SHAPE(1, 4), 1, 3, 5, 9);
    EXPECT(of(18, "in x float[1,4]; const s float[2] 1 10; const b float[2] 0 100; out y;"
                  "y = GroupNormalization(x, s, b) num_groups=2 epsilon=0.0"),
           VALUES(x), IPU_SHAPE(1, 4), -1, 1, 90, 110);
    EXPECT(of(21, "in x float[1,4]; const s float[4] 1 2 3 4; const b float[4] 0 0 0 0; out y;"
                  "y = GroupNormalization(x, s, b) num_groups=2 epsilon=0.0"),
           VALUES(x), IPU_SHAPE(1, 4), -1, 2, -3, 4);
}

static void rows_of_zeros_stay_zero_when_divided_by_their_norm(void **state)
{
    (void)state;
    ipu_onnx_value x = FLOATS(IPU_SHAPE(2, 2), 3, -4, 0, 0);
    EXPECT(of(1, "in x float[2,2]; out y; y = LpNormalization(x)"), VALUES(x), IPU_SHAPE(2, 2), 0.6, -0.8, 0,
           0);
    EXPECT(of(1, "in x float[2,2]; out y; y = LpNormalization(x) p=1 axis=0"), VALUES(x), IPU_SHAPE(2, 2), 1,
           -1, 0, 0);
    expect_error(of(1, "in x float[2,2]; out y; y = LpNormalization(x) p=3"), VALUES(x), IPU_INVALID,
                 "expected 1 or 2");
}

static void mean_and_variance_go_over_the_axes_given(void **state)
{
    (void)state;
    EXPECT(of(9, "in x float[2,2]; out y; y = MeanVarianceNormalization(x) axes=[1]"),
           VALUES(FLOATS(IPU_SHAPE(2, 2), 1, 3, 5, 9)), IPU_SHAPE(2, 2), -1, 1, -1, 1);
}

/* ---- dropout and random numbers ---- */

static void dropout_of_inference_is_its_input_and_a_mask_of_ones(void **state)
{
    (void)state;
    static const int versions[] = {1, 6, 7, 10, 12, 13};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        ipu_onnx_value out[2];
        run_file(of(versions[i], "in x float[3]; out y; out m; y, m = Dropout(x)"),
                 VALUES(FLOATS(IPU_SHAPE(3), 1, 2, 3)), out, 2);
        ASSERT_ARRAY(&out[0], IPU_SHAPE(3), 1, 2, 3);
        ASSERT_ARRAY(&out[1], IPU_SHAPE(3), 1, 1, 1);
        assert_int_equal(out[1].array.type, versions[i] < 10 ? IPU_FLOAT : IPU_BOOL);
        ipu_onnx_value_free(&out[0]), ipu_onnx_value_free(&out[1]);
    }
}

/* Of `n` elements, all 1: as many are dropped as the ratio says, and the others are scaled. */
static void check_dropped(const ipu_onnx_value *y, double ratio)
{
    int64_t n = ipu_array_n_elements(&y->array), dropped = 0;
    for (int64_t i = 0; i < n; i++) {
        double v = ipu_array_value(&y->array, i);
        if (v == 0)
            dropped++;
        else
            assert_float_equal(v, 1 / (1 - ratio), 1e-6);
    }
    assert_float_equal((double)dropped / (double)n, ratio, 0.03);
}

static void dropout_of_training_drops_its_share(void **state)
{
    (void)state;
    static float   ones[4000];
    ipu_onnx_value x = value(IPU_FLOAT, IPU_SHAPE(4000), ones), out[2];
    for (int i = 0; i < 4000; i++) ones[i] = 1;
    run_training(of(7, "in x float[4000]; out y; y = Dropout(x) ratio=0.25"), VALUES(x), out, 1);
    check_dropped(&out[0], 0.25);
    ipu_onnx_value_free(&out[0]);
    run_training(of(6, "in x float[4000]; out y; y = Dropout(x) ratio=0.25 is_test=1"), VALUES(x), out, 1);
    check_dropped(&out[0], 0);
    ipu_onnx_value_free(&out[0]);
    run_file(
        of(13,
           "in x float[4000]; const r float[] 0.75; const t bool[] 1; out y; out m; y, m = Dropout(x, r, t)"),
        VALUES(x), out, 2);
    check_dropped(&out[0], 0.75);
    for (int64_t i = 0; i < 4000; i++)
        assert_true((ipu_array_value(&out[0].array, i) != 0) == (ipu_array_value(&out[1].array, i) != 0));
    ipu_onnx_value_free(&out[0]), ipu_onnx_value_free(&out[1]);
    expect_error(of(13, "in x float[4]; const r float[] 1; const t bool[] 1; out y; y = Dropout(x, r, t)"),
                 VALUES(value(IPU_FLOAT, IPU_SHAPE(4), ones)), IPU_INVALID,
                 "expected 0 or more, less than 1");
}

static void moments(const ipu_onnx_value *v, double *mean, double *variance)
{
    int64_t n = ipu_array_n_elements(&v->array);
    *mean = *variance = 0;
    for (int64_t i = 0; i < n; i++) *mean += ipu_array_value(&v->array, i) / (double)n;
    for (int64_t i = 0; i < n; i++) *variance += pow(ipu_array_value(&v->array, i) - *mean, 2) / (double)n;
}

static void check_random(const char *source, size_t n_in, ipu_type type, double mean, double variance)
{
    static float   halves[20000];
    ipu_onnx_value x = value(IPU_FLOAT, IPU_SHAPE(100, 200), halves), y;
    double         m, v;
    for (int i = 0; i < 20000; i++) halves[i] = 0.25;
    run_file(of(15, source), &x, n_in, &y, 1);
    assert_int_equal(y.array.type, type);
    assert_int_equal(ipu_array_n_elements(&y.array), 20000);
    moments(&y, &m, &v);
    assert_float_equal(m, mean, 0.03 * sqrt(variance));
    assert_float_equal(v, variance, 0.05 * variance);
    ipu_onnx_value_free(&y);
}

static void random_numbers_have_their_mean_variance_and_type(void **state)
{
    (void)state;
    check_random("out y; y = RandomNormal() shape=[100,200] mean=2.0 scale=3.0", 0, IPU_FLOAT, 2, 9);
    check_random("out y; y = RandomUniform() shape=[20000] low=1.0 high=4.0 dtype=11", 0, IPU_DOUBLE, 2.5,
                 0.75);
    check_random("in x float[100,200]; out y; y = RandomNormalLike(x) dtype=11", 1, IPU_DOUBLE, 0, 1);
    check_random("in x float[100,200]; out y; y = RandomUniformLike(x)", 1, IPU_FLOAT, 0.5, 1.0 / 12);
    check_random("in x float[100,200]; out y; y = Bernoulli(x) dtype=6", 1, IPU_INT32, 0.25, 0.1875);
    check_random("in x float[100,200]; out y; y = Multinomial(x) sample_size=200 dtype=7", 1, IPU_INT64, 99.5,
                 3333.25);
}

/* ---- losses ---- */

static void losses_ignore_a_label_and_divide_by_the_weights_of_the_others(void **state)
{
    (void)state;
    const char    *head = "in x float[3,2]; const l int64[3] 0 1 -1; const w float[2] 1 3; out y;";
    char           source[300];
    ipu_onnx_value x = FLOATS(IPU_SHAPE(3, 2), -1, -2, -3, -4, -5, -6);
    snprintf(source, sizeof source, "%s y = NegativeLogLikelihoodLoss(x, l, w) ignore_index=-1", head);
    EXPECT(of(13, source), VALUES(x), (ipu_shape){0}, (1 + 3 * 4) / 4.0);
    snprintf(source, sizeof source, "%s y = NegativeLogLikelihoodLoss(x, l) ignore_index=-1 reduction='none'",
             head);
    EXPECT(of(12, source), VALUES(x), IPU_SHAPE(3), 1, 4, 0);
    snprintf(source, sizeof source, "%s y = SoftmaxCrossEntropyLoss(x, l, w) ignore_index=-1 reduction='sum'",
             head);
    EXPECT(of(12, source), VALUES(x), (ipu_shape){0}, log1p(exp(-1)) + 3 * log1p(exp(1)));
    snprintf(source, sizeof source, "%s y = SoftmaxCrossEntropyLoss(x, l, w) reduction='most'", head);
    expect_error(of(12, source), VALUES(x), IPU_INVALID, "expected none, sum or mean");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inference_takes_the_statistics_given_whatever_the_opset),
        cmocka_unit_test(an_epsilon_of_zero_is_zero),
        cmocka_unit_test(outputs_of_training_make_an_old_node_train),
        cmocka_unit_test(before_opset_7_training_is_what_the_import_says_unless_it_is_a_test),
        cmocka_unit_test(without_spatial_each_place_is_a_channel),
        cmocka_unit_test(scales_of_another_type_than_x_are_computed_wide),
        cmocka_unit_test(layer_normalisation_gives_its_statistics_and_broadcasts_its_scale),
        cmocka_unit_test(groups_have_a_scale_each_and_since_opset_21_channels_do),
        cmocka_unit_test(rows_of_zeros_stay_zero_when_divided_by_their_norm),
        cmocka_unit_test(mean_and_variance_go_over_the_axes_given),
        cmocka_unit_test(dropout_of_inference_is_its_input_and_a_mask_of_ones),
        cmocka_unit_test(dropout_of_training_drops_its_share),
        cmocka_unit_test(random_numbers_have_their_mean_variance_and_type),
        cmocka_unit_test(losses_ignore_a_label_and_divide_by_the_weights_of_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
