/* Images, extents that depend on data, signals, quantised ops and training of ONNX: versions and options that
 * the public suite does not have, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "onnx/run_test.h"

static bytes of(int version, const char *source) { return model(version, graph(source, NULL), none); }

/* ---- resizing ---- */

#define IN2 VALUES(FLOATS(IPU_SHAPE(1, 1, 1, 2), 1, 3))
#define IN3 VALUES(FLOATS(IPU_SHAPE(3), 1, 2, 3))

static void old_versions_say_their_scales_in_other_places(void **state)
{
    (void)state;
    EXPECT(of(1, "in x float[1,1,1,2]; out y; y = Upsample(x) height_scale=2.0 width_scale=2.0"), IN2,
           IPU_SHAPE(1, 1, 2, 4), 1, 1, 3, 3, 1, 1, 3, 3);
    EXPECT(of(7, "in x float[1,1,1,2]; out y; y = Upsample(x) scales=[1.0,1.0,1.0,2.0] mode='linear'"), IN2,
           IPU_SHAPE(1, 1, 1, 4), 1, 2, 3, 3);
    EXPECT(of(9, "in x float[1,1,1,2]; const s float[4] 1 1 1 3; out y; y = Upsample(x, s)"), IN2,
           IPU_SHAPE(1, 1, 1, 6), 1, 1, 1, 3, 3, 3);
    EXPECT(of(10, "in x float[3]; const s float[1] 0.7; out y; y = Resize(x, s)"), IN3, IPU_SHAPE(2), 1, 2);
    expect_error(of(9, "in x float[3]; const s float[2] 1 1; out y; y = Upsample(x, s)"), IN3, IPU_INVALID,
                 "2 scales for 1 dimensions");
}

/* 10 * 0.7f is 7 in float, less in double. */
static void extents_are_scaled_in_float(void **state)
{
    (void)state;
    EXPECT(of(13, "in x float[10]; const s float[1] 0.7; out y; y = Resize(x, -, s) "
                  "coordinate_transformation_mode='asymmetric' nearest_mode='floor'"),
           VALUES(FLOATS(IPU_SHAPE(10), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)), IPU_SHAPE(7), 0, 1, 2, 4, 5, 7, 8);
}

static void since_opset_18_only_some_axes_need_be_named(void **state)
{
    (void)state;
    EXPECT(of(18, "in x float[1,1,1,2]; const s int64[1] 4; out y; y = Resize(x, -, -, s) axes=[3]"), IN2,
           IPU_SHAPE(1, 1, 1, 4), 1, 1, 3, 3);
    EXPECT(of(18, "in x float[1,1,1,2]; const s float[1] 2; out y; y = Resize(x, -, s) axes=[-1]"), IN2,
           IPU_SHAPE(1, 1, 1, 4), 1, 1, 3, 3);
    EXPECT(of(18, "in x float[3]; const r float[2] 0.5 1; const s int64[1] 2; out y; y = Resize(x, r, -, s) "
                  "coordinate_transformation_mode='tf_crop_and_resize' mode='linear' axes=[0]"),
           IN3, IPU_SHAPE(2), 2, 3);
    EXPECT(of(11, "in x float[3]; const r float[2] 0 0.5; const s float[1] 2; out y; y = Resize(x, r, s) "
                  "coordinate_transformation_mode='tf_crop_and_resize' mode='linear'"),
           IN3, IPU_SHAPE(3), 1, 1.5, 2);
}

static void resizing_that_is_not_known_is_refused(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"y = Resize(x, -, s) antialias=1", "antialias"},
        {"y = Resize(x, -, s) mode='area'", "mode \"area\""},
        {"y = Resize(x, -, s) coordinate_transformation_mode='half_pixel_symmetric'", "half_pixel_symmetric"},
        {"y = Resize(x, -, -, s) keep_aspect_ratio_policy='not_larger'", "not_larger"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char source[300];
        snprintf(source, sizeof source, "in x float[3]; const s float[1] 2; out y; %s", lines[i][0]);
        expect_error(of(19, source), IN3, IPU_UNSUPPORTED, lines[i][1]);
    }
    expect_error(of(13, "in x float[3]; out y; y = Resize(x)"), IN3, IPU_INVALID, "neither scales nor sizes");
}

static void regions_are_half_a_pixel_off_before_opset_16(void **state)
{
    (void)state;
    const char    *source = "in x float[1,1,2,2]; const r float[1,4] 0 0 1 1; const i int64[1] 0; out y;"
                            "y = RoiAlign(x, r, i) sampling_ratio=1 %s";
    char           text_of[300];
    ipu_onnx_value x = FLOATS(IPU_SHAPE(1, 1, 2, 2), 0, 1, 2, 3);
    snprintf(text_of, sizeof text_of, source, "");
    EXPECT(of(10, text_of), VALUES(x), IPU_SHAPE(1, 1, 1, 1), 1.5);
    EXPECT(of(16, text_of), VALUES(x), IPU_SHAPE(1, 1, 1, 1), 0);
    snprintf(text_of, sizeof text_of, source, "coordinate_transformation_mode='output_half_pixel'");
    EXPECT(of(16, text_of), VALUES(x), IPU_SHAPE(1, 1, 1, 1), 1.5);
}

/* ---- extents that depend on data ---- */

static void boxes_are_as_many_as_asked_for(void **state)
{
    (void)state;
    const char    *source = "in b float[1,3,4]; in s float[1,1,3]; %s out y; y = NonMaxSuppression(b, s%s)";
    char           text_of[300];
    ipu_onnx_value b = FLOATS(IPU_SHAPE(1, 3, 4), 0, 0, 1, 1, 0, 0, 1, 0.9, 5, 5, 6, 6);
    ipu_onnx_value s = FLOATS(IPU_SHAPE(1, 1, 3), 0.5, 0.75, 0.25);
    snprintf(text_of, sizeof text_of, source, "const m int64[] 3; const i float[] 0.5;", ", m, i");
    EXPECT(of(11, text_of), VALUES(b, s), IPU_SHAPE(2, 3), 0, 0, 1, 0, 0, 2);
    snprintf(text_of, sizeof text_of, source, "const m int64[] 1; const i float[] 0.5;", ", m, i");
    EXPECT(of(10, text_of), VALUES(b, s), IPU_SHAPE(1, 3), 0, 0, 1);
    snprintf(text_of, sizeof text_of, source, "", "");
    EXPECT(of(10, text_of), VALUES(b, s), IPU_SHAPE(0, 3), 0);
    snprintf(text_of, sizeof text_of, source, "in m int64[];", ", m");
    EXPECT(of(10, text_of), VALUES(b, s, INT64(2)), IPU_SHAPE(2, 3), 0, 0, 1, 0, 0, 2);
}

static void what_is_found_passes_on_with_its_number(void **state)
{
    (void)state;
    EXPECT(of(13, "in x float[2,2]; out y; i = NonZero(x); y = Transpose(i)"),
           VALUES(FLOATS(IPU_SHAPE(2, 2), 0, 1, 2, 0)), IPU_SHAPE(2, 2), 0, 1, 1, 0);
    EXPECT(of(11, "in x float[4]; const c bool[3] 1 0 1; out y; z = Compress(x, c); y = Neg(z)"),
           VALUES(FLOATS(IPU_SHAPE(4), 1, 2, 3, 4)), IPU_SHAPE(2), -1, -3);
    EXPECT(of(11, "in x float[4]; out y; y = Unique(x) sorted=0"), VALUES(FLOATS(IPU_SHAPE(4), 3, 1, 3, 2)),
           IPU_SHAPE(3), 3, 1, 2);
    EXPECT(of(11, "in x float[2,2]; out y; y = Unique(x) axis=0"),
           VALUES(FLOATS(IPU_SHAPE(2, 2), 3, 1, 3, 1)), IPU_SHAPE(1, 2), 3, 1);
}

/* ---- signals ---- */

static void the_axis_of_a_transform_became_an_input(void **state)
{
    (void)state;
    ipu_onnx_value x = FLOATS(IPU_SHAPE(1, 2, 1), 3, 5);
    EXPECT(of(17, "in x float[1,2,1]; out y; y = DFT(x)"), VALUES(x), IPU_SHAPE(1, 2, 2), 8, 0, -2, 0);
    EXPECT(of(20, "in x float[1,2,1]; out y; y = DFT(x)"), VALUES(x), IPU_SHAPE(1, 2, 2), 8, 0, -2, 0);
    EXPECT(of(20, "in x float[1,2,1]; const a int64[] 0; out y; y = DFT(x, -, a)"), VALUES(x),
           IPU_SHAPE(1, 2, 2), 3, 0, 5, 0);
    EXPECT(of(17, "in x float[1,2,1]; const n int64[] 1; out y; y = DFT(x, n)"), VALUES(x),
           IPU_SHAPE(1, 1, 2), 3, 0);
    expect_error(of(17, "in x float[1,2,1]; out y; y = DFT(x) axis=3"), VALUES(x), IPU_INVALID,
                 "axis 3 is none of 3 dimensions");
}

/* ---- quantised ---- */

static void one_scale_needs_no_axis_that_x_has(void **state)
{
    (void)state;
    ipu_onnx_value y;
    run_file(of(13,
                "in x float[3]; const s float[] 0.5; const z int8[] -1; out y; y = QuantizeLinear(x, s, z)"),
             IN3, &y, 1);
    assert_int_equal(y.array.type, IPU_INT8);
    ASSERT_ARRAY(&y, IPU_SHAPE(3), 1, 3, 5);
    ipu_onnx_value_free(&y);
    run_file(of(21, "in x float[3]; const s float[] 0.5; out y; y = QuantizeLinear(x, s) output_dtype=3"),
             IN3, &y, 1);
    assert_int_equal(y.array.type, IPU_INT8);
    ASSERT_ARRAY(&y, IPU_SHAPE(3), 2, 4, 6);
    ipu_onnx_value_free(&y);
    expect_error(of(21, "in x float[3]; const s float[] 0.5; out y; y = QuantizeLinear(x, s) block_size=2"),
                 IN3, IPU_UNSUPPORTED, "block_size");
}

/* ---- training ---- */

#define TRAINING_OPSET block(8, opset("ai.onnx.preview.training", 1))

static void a_gradient_is_of_the_graphs_own_values(void **state)
{
    (void)state;
    bytes good = model(13,
                       graph("in x float[2]; out d; y = Mul(x, x);"
                             "d = ai.onnx.preview.training:Gradient(x) xs=['x'] y='y'",
                             NULL),
                       TRAINING_OPSET);
    EXPECT(good, VALUES(FLOATS(IPU_SHAPE(2), 3, 4)), IPU_SHAPE(2), 6, 8);
    bytes again = model(13,
                        graph("in x float[2]; out e; y = Mul(x, x); z = Mul(y, x);"
                              "d = ai.onnx.preview.training:Gradient(x) xs=['x'] y='z';"
                              "e = ai.onnx.preview.training:Gradient(x) xs=['x'] y='d'",
                              NULL),
                        TRAINING_OPSET);
    EXPECT(again, VALUES(FLOATS(IPU_SHAPE(2), 3, 4)), IPU_SHAPE(2), 18, 24);
    bytes unused = model(13,
                         graph("in x float[2]; in w float[1]; out d; y = Mul(x, x);"
                               "c, d = ai.onnx.preview.training:Gradient(x, w) xs=['x','w'] y='y'",
                               NULL),
                         TRAINING_OPSET);
    EXPECT(unused, VALUES(FLOATS(IPU_SHAPE(2), 3, 4), FLOATS(IPU_SHAPE(1), 1)), IPU_SHAPE(1), 0);
    bytes other = model(13,
                        graph("in x float[2]; in w float[2]; out d; y = Mul(x, x);"
                              "d = ai.onnx.preview.training:Gradient(w) xs=['x'] y='y'",
                              NULL),
                        TRAINING_OPSET);
    expect_error(other, VALUES(FLOATS(IPU_SHAPE(2), 3, 4), FLOATS(IPU_SHAPE(2), 3, 4)), IPU_UNSUPPORTED,
                 "at other values than the graph's own");
    bytes unknown = model(13,
                          graph("in x float[2]; out d; y = Mul(x, x);"
                                "d = ai.onnx.preview.training:Gradient(x) xs=['x'] y='z'",
                                NULL),
                          TRAINING_OPSET);
    expect_error(unknown, VALUES(FLOATS(IPU_SHAPE(2), 3, 4)), IPU_INVALID, "no node before it gives \"z\"");
}

/* alpha 0.5, beta 0.75: the first step is not corrected, later ones are. */
static void adams_rate_depends_on_the_number_of_steps(void **state)
{
    (void)state;
    const char *source =
        "in r float[]; in t int64[]; in x float[1]; in g float[1]; in v float[1]; in h float[1];"
        "out y; y, v2, h2 = ai.onnx.preview.training:Adam(r, t, x, g, v, h) alpha=0.5 beta=0.75 "
        "epsilon=0.0 norm_coefficient_post=0.5";
    bytes          file = model(13, graph(source, NULL), TRAINING_OPSET);
    ipu_onnx_value r = FLOATS((ipu_shape){0}, 1), x = FLOATS(IPU_SHAPE(1), 8), g = FLOATS(IPU_SHAPE(1), 4),
                   v = FLOATS(IPU_SHAPE(1), 2), h = FLOATS(IPU_SHAPE(1), 16);
    EXPECT(file, VALUES(r, INT64(0), x, g, v, h), IPU_SHAPE(1), 0.5 * (8 - 3.0 / 4));
    EXPECT(file, VALUES(r, INT64(2), x, g, v, h), IPU_SHAPE(1),
           0.5 * (8 - 3.0 / 4 * sqrt(1 - 0.5625) / 0.75));
    expect_error(model(13,
                       graph("in r float[]; in t int64[]; in x float[1]; out y;"
                             "y = ai.onnx.preview.training:Adam(r, t, x, x)",
                             NULL),
                       TRAINING_OPSET),
                 VALUES(r, INT64(0), x), IPU_INVALID, "4 inputs; expected 2 and a multiple of 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_versions_say_their_scales_in_other_places),
        cmocka_unit_test(extents_are_scaled_in_float),
        cmocka_unit_test(since_opset_18_only_some_axes_need_be_named),
        cmocka_unit_test(resizing_that_is_not_known_is_refused),
        cmocka_unit_test(regions_are_half_a_pixel_off_before_opset_16),
        cmocka_unit_test(boxes_are_as_many_as_asked_for),
        cmocka_unit_test(what_is_found_passes_on_with_its_number),
        cmocka_unit_test(the_axis_of_a_transform_became_an_input),
        cmocka_unit_test(one_scale_needs_no_axis_that_x_has),
        cmocka_unit_test(a_gradient_is_of_the_graphs_own_values),
        cmocka_unit_test(adams_rate_depends_on_the_number_of_steps),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
