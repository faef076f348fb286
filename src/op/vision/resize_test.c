/* Resizing by hand: ONNX's examples of every coordinate mode, explicit scales, all types, errors. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

/* 1, 2, 3, ... */
static ipu_value counted(bench *t, ipu_shape shape)
{
    static float numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (float)(i + 1);
    return bench_floats(t, shape, numbers);
}

/* Values near the ones expected, which are given with few digits. Ends the bench. */
static void expect_near(bench *t, ipu_value y, ipu_shape shape, const float *expected)
{
    float found[64];
    assert_int_equal(ipu_builder_status(t->b), IPU_OK);
    ipu_shape own = ipu_value_shape(y);
    assert_true(ipu__shape_equal(&own, &shape));
    int     r = bench_result(t, y);
    int64_t n = ipu_value_n_elements(y);
    bench_ok(bench_run(t, "2"));
    bench_read(t, r, found, (size_t)n * sizeof *found);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(found[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i]))))
            fail_msg("element %d is %.9g, expected %.9g", (int)i, (double)found[i], (double)expected[i]);
    bench_end(t);
}

static void the_nearest_is_chosen_by_rounding_or_by_a_side(void **unused)
{
    (void)unused;
    static const struct {
        ipu_resize_nearest nearest;
        float              row[8];
    } cases[] = {{IPU_RESIZE_ROUND_PREFER_FLOOR, {1, 1, 2, 2, 2, 3, 3, 3}},
                 {IPU_RESIZE_ROUND_PREFER_CEIL, {1, 1, 2, 2, 3, 3, 3, 3}},
                 {IPU_RESIZE_FLOOR, {1, 1, 1, 2, 2, 2, 3, 3}},
                 {IPU_RESIZE_CEIL, {1, 2, 2, 3, 3, 3, 3, 3}}};
    for (size_t i = 0; i < IPU__COUNT(cases);
         i++) { /* o * 3 / 8: 0, 0.375, 0.75, 1.125, 1.5, 1.875, 2.25, 2.625 */
        bench              t       = bench_start();
        ipu_resize_options options = {.coordinates = IPU_RESIZE_ASYMMETRIC, .nearest = cases[i].nearest};
        bench_expect(&t, ipu_resize(t.b, counted(&t, IPU_SHAPE(1, 3)), (int64_t[]){1, 8}, options),
                     IPU_SHAPE(1, 8), cases[i].row);
        bench_end(&t);
    }
}

static void any_type_has_a_nearest(void **unused)
{
    (void)unused;
    const bool x[] = {true, false}, y[] = {true, true, false, false, true, true, false, false};
    bench      t = bench_start();
    bench_expect(&t,
                 ipu_resize_by(t.b, bench_input(&t, IPU_BOOL, IPU_SHAPE(1, 2), x), (double[]){2, 2},
                               (ipu_resize_options){0}),
                 IPU_SHAPE(2, 4), y);
    bench_end(&t);
}

/* From [1 2; 3 4] and 1 .. 16, as ONNX has them. */
static void lines_lie_where_the_coordinates_say(void **unused)
{
    (void)unused;
    bench t = bench_start();
    expect_near(&t,
                ipu_resize_by(t.b, counted(&t, IPU_SHAPE(2, 2)), (double[]){2, 2},
                              (ipu_resize_options){.mode = IPU_RESIZE_LINEAR}),
                IPU_SHAPE(4, 4),
                (float[]){1, 1.25f, 1.75f, 2, 1.5f, 1.75f, 2.25f, 2.5f, 2.5f, 2.75f, 3.25f, 3.5f, 3, 3.25f,
                          3.75f, 4});
    t = bench_start();
    expect_near(
        &t,
        ipu_resize(t.b, counted(&t, IPU_SHAPE(2, 2)), (int64_t[]){4, 4},
                   (ipu_resize_options){.mode = IPU_RESIZE_LINEAR, .coordinates = IPU_RESIZE_ALIGN_CORNERS}),
        IPU_SHAPE(4, 4),
        (float[]){1, 4 / 3.0f, 5 / 3.0f, 2, 5 / 3.0f, 2, 7 / 3.0f, 8 / 3.0f, 7 / 3.0f, 8 / 3.0f, 3, 10 / 3.0f,
                  3, 10 / 3.0f, 11 / 3.0f, 4});
    t = bench_start(); /* one output: the first column, and not between two */
    expect_near(&t,
                ipu_resize(t.b, counted(&t, IPU_SHAPE(4, 4)), (int64_t[]){3, 1},
                           (ipu_resize_options){.mode        = IPU_RESIZE_LINEAR,
                                                .coordinates = IPU_RESIZE_PYTORCH_HALF_PIXEL}),
                IPU_SHAPE(3, 1), (float[]){5 / 3.0f, 7, 37 / 3.0f});
}

/* 4 * 0.6 is 2.4: two outputs, but corners as if there were 2.4. */
static void a_scale_is_used_as_it_was_given(void **unused)
{
    (void)unused;
    bench t = bench_start();
    expect_near(&t,
                ipu_resize_by(t.b, counted(&t, IPU_SHAPE(2, 4)), (double[]){0.6, 0.6},
                              (ipu_resize_options){.mode        = IPU_RESIZE_LINEAR,
                                                   .coordinates = IPU_RESIZE_ALIGN_CORNERS}),
                IPU_SHAPE(1, 2), (float[]){1, 3.142857f});
    t = bench_start();
    expect_near(&t,
                ipu_resize_by(t.b, counted(&t, IPU_SHAPE(2, 4)), (double[]){0.6, 0.6},
                              (ipu_resize_options){.mode = IPU_RESIZE_LINEAR}),
                IPU_SHAPE(1, 2), (float[]){2.6666665f, 4.3333331f});
}

static void cubics_are_those_of_onnx(void **unused)
{
    (void)unused;
    const double scales[] = {0.8, 0.8};
    bench        t        = bench_start();
    expect_near(&t,
                ipu_resize_by(t.b, counted(&t, IPU_SHAPE(4, 4)), scales,
                              (ipu_resize_options){.mode = IPU_RESIZE_CUBIC}),
                IPU_SHAPE(3, 3),
                (float[]){1.47119141f, 2.78125f, 4.08251953f, 6.71142578f, 8.02148438f, 9.32275391f,
                          11.91650391f, 13.2265625f, 14.52783203f});
    t = bench_start();
    expect_near(&t,
                ipu_resize_by(
                    t.b, counted(&t, IPU_SHAPE(4, 4)), scales,
                    (ipu_resize_options){.mode = IPU_RESIZE_CUBIC, .cubic_a = -0.5, .exclude_outside = true}),
                IPU_SHAPE(3, 3),
                (float[]){1.36812675f, 2.6695014f, 4.0133367f, 6.57362535f, 7.875f, 9.2188353f, 11.94896657f,
                          13.25034122f, 14.59417652f});
}

static void outside_of_a_cut_there_is_the_value_given(void **unused)
{
    (void)unused;
    bench              t       = bench_start();
    ipu_resize_options options = {.mode          = IPU_RESIZE_LINEAR,
                                  .coordinates   = IPU_RESIZE_TF_CROP_AND_RESIZE,
                                  .roi_begin     = {0.4, 0.6},
                                  .roi_end       = {1.2, 1.7},
                                  .extrapolation = 10};
    expect_near(&t, ipu_resize(t.b, counted(&t, IPU_SHAPE(4, 4)), (int64_t[]){3, 3}, options),
                IPU_SHAPE(3, 3), (float[]){7.6f, 10, 10, 12.4f, 10, 10, 10, 10, 10});
}

static ipu_value twice_wide(ipu_builder *b, ipu_value x)
{
    ipu_value y = ipu_resize(b, x, (int64_t[]){1, 4}, (ipu_resize_options){.mode = IPU_RESIZE_LINEAR});
    ipu_value w = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(1, 4), (float[]){1, 10, 100, 1000});
    return ipu_reduce_sum(b, ipu_mul(b, y, w), NULL, 0, false);
}

/* Outputs are x0, 0.75 x0 + 0.25 x1, 0.25 x0 + 0.75 x1, x1. */
static void gradients_go_back_by_the_same_weights(void **unused)
{
    (void)unused;
    graph_gradient(twice_wide, IPU_SHAPE(1, 2), (double[]){3, 5}, (double[]){1 + 7.5 + 25, 2.5 + 75 + 1000});
}

static void what_cannot_be_resized_is_refused(void **unused)
{
    (void)unused;
    bench t = bench_start();
    ipu_resize_by(t.b, counted(&t, IPU_SHAPE(2, 2)), (double[]){2, 0}, (ipu_resize_options){0});
    bench_refused(&t, "scale_1 = 0: expected a number above 0");
    ipu_resize(t.b, bench_ints(&t, IPU_SHAPE(1), ((int32_t[1]){0})), (int64_t[]){2},
               (ipu_resize_options){.mode = IPU_RESIZE_LINEAR});
    bench_refused(&t, "\"x\" must be");
    ipu_emit(t.b, "resize",
             IPU__WITH(IPU__INTS("sizes", ((int64_t[]){3}), 1), IPU_FLOAT_ATTRIBUTE("scale_0", 2)),
             (ipu_value[]){counted(&t, IPU_SHAPE(2))}, 1, (ipu_value[1]){IPU_NO_VALUE}, 1);
    bench_refused(&t, "expected one of them");
    ipu_resize(t.b, counted(&t, IPU_SHAPE(2)), (int64_t[]){3},
               (ipu_resize_options){.mode = (ipu_resize_mode)9});
    bench_refused(&t, "mode = \"?\"");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nearest_is_chosen_by_rounding_or_by_a_side),
        cmocka_unit_test(any_type_has_a_nearest),
        cmocka_unit_test(lines_lie_where_the_coordinates_say),
        cmocka_unit_test(a_scale_is_used_as_it_was_given),
        cmocka_unit_test(cubics_are_those_of_onnx),
        cmocka_unit_test(outside_of_a_cut_there_is_the_value_given),
        cmocka_unit_test(gradients_go_back_by_the_same_weights),
        cmocka_unit_test(what_cannot_be_resized_is_refused),
    };
    return cmocka_run_group_tests_name("resize", tests, NULL, NULL);
}
