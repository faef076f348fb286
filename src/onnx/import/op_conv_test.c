/* Convolutions and pooling of ONNX: padding in all its ways, indices, dequantised operands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "onnx/run_test.h"

static bytes of(int version, const char *source) { return model(version, graph(source, NULL), none); }

/* ---- auto_pad ---- */

#define IN5 VALUES(FLOATS(IPU_SHAPE(1, 1, 5), 1, 2, 3, 4, 5))
#define IN4 VALUES(FLOATS(IPU_SHAPE(1, 1, 4), 1, 2, 3, 4))

static void auto_pad_puts_the_odd_zero_where_it_says(void **state)
{
    (void)state;
    const char *head = "in x float[1,1,4]; const w float[1,1,2] 1 10; out y;";
    char        upper[200], lower[200];
    snprintf(upper, sizeof upper, "%s y = Conv(x, w) auto_pad='SAME_UPPER'", head);
    snprintf(lower, sizeof lower, "%s y = Conv(x, w) auto_pad='SAME_LOWER'", head);
    EXPECT(of(1, upper), IN4, IPU_SHAPE(1, 1, 4), 21, 32, 43, 4);
    EXPECT(of(11, lower), IN4, IPU_SHAPE(1, 1, 4), 10, 21, 32, 43);
}

static void auto_pad_of_strides_and_dilations_keeps_ceil_of_the_extent(void **state)
{
    (void)state;
    EXPECT(of(11, "in x float[1,1,5]; const w float[1,1,3] 1 10 100; out y; y = Conv(x, w) "
                  "auto_pad='SAME_UPPER' strides=[2]"),
           IN5, IPU_SHAPE(1, 1, 3), 210, 432, 54);
    EXPECT(of(11, "in x float[1,1,5]; const w float[1,1,2] 1 10; out y; y = Conv(x, w) "
                  "auto_pad='SAME_UPPER' dilations=[2]"),
           IN5, IPU_SHAPE(1, 1, 5), 20, 31, 42, 53, 4);
    EXPECT(of(11, "in x float[1,1,5]; const w float[1,1,2] 1 10; out y;"
                  "y = Conv(x, w) auto_pad='VALID' strides=[2]"),
           IN5, IPU_SHAPE(1, 1, 2), 21, 43);
}

static void pads_of_the_two_sides_may_differ(void **state)
{
    (void)state;
    EXPECT(of(11, "in x float[1,1,4]; const w float[1,1,2] 1 10; const b float[1] 100; out y;"
                  "y = Conv(x, w, b) pads=[2,0] kernel_shape=[2]"),
           IN4, IPU_SHAPE(1, 1, 5), 100, 110, 121, 132, 143);
}

static void a_kernel_shape_that_is_not_the_weights_is_refused(void **state)
{
    (void)state;
    expect_error(of(11,
                    "in x float[1,1,4]; const w float[1,1,2] 1 10; out y; y = Conv(x, w) kernel_shape=[3]"),
                 IN4, IPU_INVALID, "kernel_shape[0] is 3, but the weight has 2");
    expect_error(of(11, "in x float[1,1,4]; const w float[1,1,2] 1 10; out y; y = Conv(x, w) strides=[1,1]"),
                 IN4, IPU_INVALID, "strides has 2 numbers; expected 1");
    expect_error(of(11,
                    "in x float[1,1,4]; const w float[1,1,2] 1 10; out y; y = Conv(x, w) auto_pad='SAME'"),
                 IN4, IPU_INVALID, "expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
}

/* ---- transposed: x = [1,2], w = [1,10,100] with stride 2 is 1 10 102 20 200 ---- */

#define TRANSPOSED(attributes)                                                 \
    "in x float[1,1,2]; const w float[1,1,3] 1 10 100; const b float[1] 1000;" \
    "out y; y = ConvTranspose(x, w, b) strides=[2] " attributes
#define IN2 VALUES(FLOATS(IPU_SHAPE(1, 1, 2), 1, 2))

static void output_padding_is_what_padding_took_or_the_bias(void **state)
{
    (void)state;
    EXPECT(of(11, TRANSPOSED("")), IN2, IPU_SHAPE(1, 1, 5), 1001, 1010, 1102, 1020, 1200);
    EXPECT(of(11, TRANSPOSED("pads=[1,1] output_padding=[1]")), IN2, IPU_SHAPE(1, 1, 4), 1010, 1102, 1020,
           1200);
    EXPECT(of(11, TRANSPOSED("output_padding=[1]")), IN2, IPU_SHAPE(1, 1, 6), 1001, 1010, 1102, 1020, 1200,
           1000);
}

static void output_shape_says_what_is_cut_and_since_opset_11_where(void **state)
{
    (void)state;
    EXPECT(of(11, TRANSPOSED("output_shape=[4]")), IN2, IPU_SHAPE(1, 1, 4), 1010, 1102, 1020, 1200);
    EXPECT(of(1, TRANSPOSED("output_shape=[4]")), IN2, IPU_SHAPE(1, 1, 4), 1001, 1010, 1102, 1020);
    EXPECT(of(11, TRANSPOSED("output_shape=[4] auto_pad='SAME_UPPER'")), IN2, IPU_SHAPE(1, 1, 4), 1001, 1010,
           1102, 1020);
    EXPECT(of(11, TRANSPOSED("auto_pad='SAME_LOWER'")), IN2, IPU_SHAPE(1, 1, 4), 1010, 1102, 1020, 1200);
    EXPECT(of(11, TRANSPOSED("output_shape=[7]")), IN2, IPU_SHAPE(1, 1, 7), 1001, 1010, 1102, 1020, 1200,
           1000, 1000);
    EXPECT(of(1, TRANSPOSED("output_shape=[1,1,5]")), IN2, IPU_SHAPE(1, 1, 5), 1001, 1010, 1102, 1020, 1200);
}

/* ---- pooling ---- */

static void indices_count_through_the_whole_tensor(void **state)
{
    (void)state;
    static const float x[] = {1, 2, 3, 9, 5, 6, 4, 1, 1, 7, 1, 1};
    ipu_onnx_value     out[2];
    const char        *source = "in x float[2,1,2,3]; out y; out i; y, i = MaxPool(x) kernel_shape=[2,2] %s";
    char               text_of[200];
    snprintf(text_of, sizeof text_of, source, "");
    run_file(of(8, text_of), VALUES(value(IPU_FLOAT, IPU_SHAPE(2, 1, 2, 3), x)), out, 2);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2, 1, 1, 2), 9, 6, 7, 1);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2, 1, 1, 2), 3, 5, 9, 7);
    assert_int_equal(out[1].array.type, IPU_INT64);
    ipu_onnx_value_free(&out[0]), ipu_onnx_value_free(&out[1]);
    snprintf(text_of, sizeof text_of, source, "storage_order=1");
    run_file(of(8, text_of), VALUES(value(IPU_FLOAT, IPU_SHAPE(2, 1, 2, 3), x)), out, 2);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2, 1, 1, 2), 1, 5, 7,
                 8); /* column times 2 plus row; the plane begins at 6 */
    ipu_onnx_value_free(&out[0]), ipu_onnx_value_free(&out[1]);
}

static void averages_count_padding_only_where_they_are_told_to(void **state)
{
    (void)state;
    EXPECT(of(7, "in x float[1,1,4]; out y; y = AveragePool(x) kernel_shape=[2] pads=[1,1] strides=[2]"), IN4,
           IPU_SHAPE(1, 1, 3), 1, 2.5, 4);
    EXPECT(of(7, "in x float[1,1,4]; out y; y = AveragePool(x) kernel_shape=[2] pads=[1,1] strides=[2] "
                 "count_include_pad=1"),
           IN4, IPU_SHAPE(1, 1, 3), 0.5, 2.5, 2);
    EXPECT(
        of(1,
           "in x float[1,1,4]; out y; y = AveragePool(x) kernel_shape=[3] auto_pad='SAME_LOWER' strides=[2]"),
        IN4, IPU_SHAPE(1, 1, 2), 1.5, 3);
    EXPECT(of(11, "in x float[1,1,4]; out y; y = AveragePool(x) kernel_shape=[3] strides=[2] ceil_mode=1"),
           IN4, IPU_SHAPE(1, 1, 2), 2, 3.5);
    expect_error(of(19, "in x float[1,1,4]; out y; y = AveragePool(x) kernel_shape=[2] dilations=[2]"), IN4,
                 IPU_UNSUPPORTED, "dilations other than 1");
}

static void norms_of_windows_take_p_as_a_float_in_opset_1(void **state)
{
    (void)state;
    EXPECT(of(1, "in x float[1,1,4]; out y; y = LpPool(x) kernel_shape=[2] p=1.0"), IN4, IPU_SHAPE(1, 1, 3),
           3, 5, 7);
    EXPECT(of(2, "in x float[1,1,4]; out y; y = LpPool(x) kernel_shape=[2] strides=[2] p=1"), IN4,
           IPU_SHAPE(1, 1, 2), 3, 7);
    EXPECT(of(2, "in x float[1,1,2]; out y; y = GlobalLpPool(x)"), VALUES(FLOATS(IPU_SHAPE(1, 1, 2), 3, 4)),
           IPU_SHAPE(1, 1, 1), 5);
    EXPECT(of(1, "in x float[1,1,4]; out y; y = GlobalMaxPool(x)"), IN4, IPU_SHAPE(1, 1, 1), 4);
}

static void unpooling_puts_maxima_back(void **state)
{
    (void)state;
    EXPECT(of(11, "in x float[1,1,2]; const i int64[1,1,2] 1 2; out y;"
                  "y = MaxUnpool(x, i) kernel_shape=[2] strides=[2]"),
           IN2, IPU_SHAPE(1, 1, 4), 0, 1, 2, 0);
    expect_error(of(11, "in x float[1,1,2]; const i int64[1,1,2] 1 2; const s int64[1] 5; out y;"
                        "y = MaxUnpool(x, i, s) kernel_shape=[2] strides=[2]"),
                 IN2, IPU_INVALID, "output_shape has 1 numbers; expected 3");
}

/* ---- dequantised operands ---- */

static size_t count_ops(const ipu_model *m, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++)
        n += m->ops.at[i].kind == IPU__MODEL_OP && strcmp(m->ops.at[i].def->kernel.name, name) == 0;
    return n;
}

/* 300 products of 255 and 127, less one: scaled by 0.1 in float the sum is rounded at each step. */
static void products_of_dequantised_numbers_are_exact(void **state)
{
    (void)state;
    enum { N = 300 };
    static uint8_t x[N];
    static int8_t  w[2 * N];
    static char    source[500];
    for (int i = 0; i < N; i++) x[i] = 255, w[i] = 127, w[N + i] = (int8_t)(i % 2 ? -127 : 126);
    int32_t        bias[2] = {-1, 5};
    ipu_onnx_value in[]    = {value(IPU_UINT8, IPU_SHAPE(1, N), x), value(IPU_INT8, IPU_SHAPE(2, N), w),
                              value(IPU_INT32, IPU_SHAPE(2), bias)};
    snprintf(source, sizeof source,
             "in x uint8[1,300]; in w int8[2,300]; in b int32[2]; const s float[] 0.1; const z uint8[] 3;"
             "const t float[2] 0.3 0.7; const u float[2] 0.03 0.07; out y; xf = DequantizeLinear(x, s, z);"
             "wf = DequantizeLinear(w, t) axis=0; bf = DequantizeLinear(b, u) axis=0;"
             "y = Gemm(xf, wf, bf) transB=1");
    double            first = 252.0 * 127 * N - 1, second = 252.0 * (126 - 127) * N / 2 + 5;
    double            scale[2] = {(double)(0.1f * 0.3f), (double)(0.1f * 0.7f)};
    ipu_onnx_value    out;
    ipu_onnx         *file;
    ipu_onnx_session *s = session_of(of(13, source), &file, NULL);
    if (ipu_onnx_session_run(s, in, 3, &out, 1) != IPU_OK) fail_msg("%s", ipu_message());
    assert_true(((float *)out.array.data)[0] == (float)first * (float)scale[0]);
    assert_true(((float *)out.array.data)[1] == (float)second * (float)scale[1]);
    ipu_onnx_value_free(&out);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

static void a_convolution_of_dequantised_numbers_may_have_any_bias(void **state)
{
    (void)state;
    static const uint8_t x[] = {1, 2, 3, 4};
    ipu_onnx_value       in  = value(IPU_UINT8, IPU_SHAPE(1, 1, 4), x);
    const char          *head =
        "in x uint8[1,1,4]; const w int8[2,1,2] 1 10 2 20; const s float[] 0.5; const z uint8[] 1;"
        "const t float[2] 2 4; const b float[2] 100 200; out y; xf = DequantizeLinear(x, s, z);"
        "wf = DequantizeLinear(w, t) axis=0;";
    char source[600];
    snprintf(source, sizeof source, "%s y = Conv(xf, wf, b)", head);
    EXPECT(of(13, source), VALUES(in), IPU_SHAPE(1, 2, 3), 110, 121, 132, 240, 284, 328);
    snprintf(source, sizeof source, "%s y = GlobalAveragePool(xf)", head);
    EXPECT(of(13, source), VALUES(in), IPU_SHAPE(1, 1, 1), 0.75);
}

/* Training needs gradients of the weights: they stay as they are. */
static void in_training_dequantised_operands_stay_floats(void **state)
{
    (void)state;
    ipu_onnx        *file;
    ipu_model       *m;
    ipu_onnx_options training = {.training = true};
    bytes            b = of(13, "in x uint8[1,1,4]; const w int8[1,1,2] 1 10; const s float[] 0.5; out y;"
                                           "xf = DequantizeLinear(x, s); wf = DequantizeLinear(w, s);"
                                           "y = Conv(xf, wf)");
    assert_int_equal(ipu_onnx_read(b.at, b.n, NULL, &file), IPU_OK);
    assert_int_equal(ipu_onnx_import(file, &training, &m), IPU_OK);
    assert_int_equal(count_ops(m, "dequantize_linear"), 2);
    ipu_model_destroy(m);
    assert_int_equal(ipu_onnx_import(file, NULL, &m), IPU_OK);
    assert_int_equal(count_ops(m, "dequantize_linear"), 4);
    ipu_model_destroy(m);
    ipu_onnx_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(auto_pad_puts_the_odd_zero_where_it_says),
        cmocka_unit_test(auto_pad_of_strides_and_dilations_keeps_ceil_of_the_extent),
        cmocka_unit_test(pads_of_the_two_sides_may_differ),
        cmocka_unit_test(a_kernel_shape_that_is_not_the_weights_is_refused),
        cmocka_unit_test(output_padding_is_what_padding_took_or_the_bias),
        cmocka_unit_test(output_shape_says_what_is_cut_and_since_opset_11_where),
        cmocka_unit_test(indices_count_through_the_whole_tensor),
        cmocka_unit_test(averages_count_padding_only_where_they_are_told_to),
        cmocka_unit_test(norms_of_windows_take_p_as_a_float_in_opset_1),
        cmocka_unit_test(unpooling_puts_maxima_back),
        cmocka_unit_test(products_of_dequantised_numbers_are_exact),
        cmocka_unit_test(a_convolution_of_dequantised_numbers_may_have_any_bias),
        cmocka_unit_test(in_training_dequantised_operands_stay_floats),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
