/* Grids, regions and boxes by hand: edges, centres, overlaps, and errors. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

/* 0 .. 5 as an image of 3 x 2. */
static ipu_value image(bench *t)
{
    return bench_floats(t, IPU_SHAPE(1, 1, 3, 2), ((const float[]){0, 1, 2, 3, 4, 5}));
}

/* ONNX's grid for it, with places far outside. */
static ipu_value places(bench *t)
{
    static const float grid[] = {-1, -1, -0.5f, -0.5f, -0.2f, -0.2f, 0, 0,
                                 0,  0,  -0.2f, -0.2f, 0.5f,  0.5f,  1, 1};
    return bench_floats(t, IPU_SHAPE(1, 2, 4, 2), grid);
}

static ipu_value far_places(bench *t)
{
    static const float grid[] = {-10, -10, -5, -5, -0.2f, -0.2f, 10, 10, 10, 10, -0.2f, -0.2f, 5, 5, 10, 10};
    return bench_floats(t, IPU_SHAPE(1, 2, 4, 2), grid);
}

/* Within 1e-4, as the examples are given. Ends the bench. */
static void expect_near(bench *t, ipu_value y, ipu_shape shape, const float *expected)
{
    float found[64];
    if (ipu_builder_status(t->b) != IPU_OK) fail_msg("%s", ipu_builder_message(t->b));
    ipu_shape own = ipu_value_shape(y);
    assert_true(ipu__shape_equal(&own, &shape));
    int     r = bench_result(t, y);
    int64_t n = ipu_value_n_elements(y);
    bench_ok(bench_run(t, "2"));
    bench_read(t, r, found, (size_t)n * sizeof *found);
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(found[i] - expected[i]) <= 1e-4f))
            fail_msg("element %d is %.9g, expected %.9g", (int)i, (double)found[i], (double)expected[i]);
    bench_end(t);
}

static void samples_are_those_of_onnx(void **unused)
{
    (void)unused;
    static const struct {
        ipu_grid_sample_options options;
        bool                    is_far;
        float                   y[8];
    } cases[] = {
        {{IPU_GRID_BILINEAR, IPU_GRID_ZEROS, false}, false, {0, 0.5f, 1.7f, 2.5f, 2.5f, 1.7f, 4.5f, 1.25f}},
        {{IPU_GRID_BILINEAR, IPU_GRID_ZEROS, true}, false, {0, 1.25f, 2, 2.5f, 2.5f, 2, 3.75f, 5}},
        {{IPU_GRID_NEAREST, IPU_GRID_ZEROS, false}, false, {0, 0, 2, 2, 2, 2, 5, 0}},
        {{IPU_GRID_BICUBIC, IPU_GRID_ZEROS, false},
         false,
         {-0.1406f, 0.3828f, 1.7556f, 2.9688f, 2.9688f, 1.7556f, 5.1445f, 1.3906f}},
        {{IPU_GRID_BILINEAR, IPU_GRID_ZEROS, false}, true, {0, 0, 1.7f, 0, 0, 1.7f, 0, 0}},
        {{IPU_GRID_BILINEAR, IPU_GRID_BORDER, false}, true, {0, 0, 1.7f, 5, 5, 1.7f, 5, 5}},
        {{IPU_GRID_BILINEAR, IPU_GRID_REFLECTION, false}, true, {2.5f, 0, 1.7f, 2.5f, 2.5f, 1.7f, 5, 2.5f}}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        bench     t    = bench_start();
        ipu_value grid = cases[i].is_far ? far_places(&t) : places(&t);
        expect_near(&t, ipu_grid_sample(t.b, image(&t), grid, cases[i].options), IPU_SHAPE(1, 1, 2, 4),
                    cases[i].y);
    }
}

static void places_that_are_no_numbers_read_nothing_they_should_not(void **unused)
{
    (void)unused;
    const float grid[] = {NAN, 0, INFINITY, 0, 0, -INFINITY, 1e30f, -1e30f};
    for (int mode = 0; mode < 3; mode++)
        for (int padding = 0; padding < 3; padding++) {
            bench                   t = bench_start();
            ipu_grid_sample_options o = {(ipu_grid_mode)mode, (ipu_grid_padding)padding, false};
            ipu_value y = ipu_grid_sample(t.b, image(&t), bench_floats(&t, IPU_SHAPE(1, 1, 4, 2), grid), o);
            int       r = bench_result(&t, y);
            float     found[4];
            bench_ok(bench_run(&t, "1"));
            bench_read(&t, r, found, sizeof found);
            for (int i = 0; i < 4 && padding == 0; i++) assert_true(found[i] == 0);
            bench_end(&t);
        }
}

/* theta of the identity, and of x and y swapped. */
static void an_affine_grid_maps_places(void **unused)
{
    (void)unused;
    const float theta[] = {1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0.25f};
    bench       t       = bench_start();
    expect_near(&t, ipu_affine_grid(t.b, bench_floats(&t, IPU_SHAPE(2, 2, 3), theta), 1, 2, false),
                IPU_SHAPE(2, 1, 2, 2), (float[]){-0.5f, 0, 0.5f, 0, 0, -0.25f, 0, 0.75f});
}

/* theta of the identity reads what is there; with z mirrored, the planes the other way round. */
static void a_volume_is_read_where_an_affine_grid_says(void **unused)
{
    (void)unused;
    const float x[]          = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
                mirrored[]   = {7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6};
    const float theta[2][12] = {{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1, 0}};
    for (int i = 0; i < 12; i++) {
        ipu_grid_sample_options o = {i / 2 % 2 ? IPU_GRID_NEAREST : IPU_GRID_BILINEAR,
                                     (ipu_grid_padding)(i / 4), i % 2};
        for (int k = 0; k < 2; k++) {
            bench     t    = bench_start();
            ipu_value grid = ipu_affine_grid_3d(t.b, bench_floats(&t, IPU_SHAPE(1, 3, 4), theta[k]), 2, 2, 3,
                                                o.align_corners);
            ipu_value v    = bench_floats(&t, IPU_SHAPE(1, 1, 2, 2, 3), x);
            expect_near(&t, ipu_grid_sample_3d(t.b, v, grid, o), IPU_SHAPE(1, 1, 2, 2, 3), k ? mirrored : x);
        }
    }
}

/* x = its column, so that the mean of a cell is the centre's column, where nothing is cut off. */
static void a_cell_is_the_mean_of_its_samples(void **unused)
{
    (void)unused;
    static float x[2 * 6 * 6];
    for (int row = 0; row < 6; row++)
        for (int column = 0; column < 6; column++) {
            x[row * 6 + column]      = (float)column;
            x[36 + row * 6 + column] = 100 + (float)row;
        }
    const float   rois[]  = {1, 1, 3, 4, 2, 0, 10, 8};
    const int64_t batch[] = {0, 1};
    for (int half_pixel = 0; half_pixel < 2; half_pixel++) {
        float       d          = half_pixel ? 0.5f : 0;
        bench       t          = bench_start();
        const float expected[] = {1.5f - d, 2.5f - d, 1.5f - d, 2.5f - d};
        ipu_value   y          = ipu_roi_align(
                       t.b, bench_floats(&t, IPU_SHAPE(2, 1, 6, 6), x), bench_floats(&t, IPU_SHAPE(1, 4), rois),
                       bench_input(&t, IPU_INT64, IPU_SHAPE(1), batch),
                       (ipu_roi_align_options){.height = 2, .width = 2, .half_pixel = half_pixel != 0});
        expect_near(&t, y, IPU_SHAPE(1, 1, 2, 2), expected);
    }
    bench     t = bench_start();
    ipu_value y = ipu_roi_align(
        t.b, bench_floats(&t, IPU_SHAPE(2, 1, 6, 6), x), bench_floats(&t, IPU_SHAPE(1, 4), rois + 4),
        bench_input(&t, IPU_INT64, IPU_SHAPE(1), batch + 1),
        (ipu_roi_align_options){.height = 2, .width = 1, .scale = 0.5, .sampling_ratio = 2});
    expect_near(&t, y, IPU_SHAPE(1, 1, 2, 1), (float[]){101, 103});
}

/* One sample in the middle of four elements: the largest of their quarters. */
static void the_largest_part_of_a_sample(void **unused)
{
    (void)unused;
    const float   x[] = {4, 8, -40, 12}, roi[] = {0, 0, 1, 1};
    const int32_t batch = 0;
    bench         t     = bench_start();
    expect_near(&t,
                ipu_roi_align(t.b, bench_floats(&t, IPU_SHAPE(1, 1, 2, 2), x),
                              bench_floats(&t, IPU_SHAPE(1, 4), roi), bench_ints(&t, IPU_SHAPE(1), &batch),
                              (ipu_roi_align_options){.sampling_ratio = 1, .is_max = true}),
                IPU_SHAPE(1, 1, 1, 1), (float[]){3});
}

static void a_region_of_no_image_stops_the_run(void **unused)
{
    (void)unused;
    const int32_t batch = 7;
    for (int is_max = 0; is_max < 2; is_max++) {
        bench     t = bench_start();
        ipu_value y = ipu_roi_align(t.b, image(&t),
                                    bench_floats(&t, IPU_SHAPE(1, 4), ((float[]){0, 0, 1, 1})),
                                    bench_ints(&t, IPU_SHAPE(1), &batch),
                                    (ipu_roi_align_options){.is_max = is_max != 0});
        bench_result(&t, y);
        assert_int_equal(bench_run(&t, "1"), IPU_ABORTED);
        assert_non_null(strstr(ipu_message(), "7"));
        bench_end(&t);
    }
}

/* ---- boxes ---- */

static const float boxes[]  = {0, 0,  1, 1,  0, 0.1f,  1, 1.1f,  0, -0.1f, 1, 0.9f,
                               0, 10, 1, 11, 0, 10.1f, 1, 11.1f, 0, 100,   1, 101};
static const float scores[] = {0.9f, 0.75f, 0.6f, 0.95f, 0.5f, 0.3f};

typedef struct boxes_case {
    int64_t most, bound;
    float   iou, score;
    int64_t count, selected[12];
} boxes_case;

static void boxes_that_overlap_a_better_one_are_left_out(void **unused)
{
    (void)unused;
    static const boxes_case cases[] = {
        {3, 4, 0.5f, 0, 3, {0, 0, 3, 0, 0, 0, 0, 0, 5}},
        {2, 4, 0.5f, 0, 2, {0, 0, 3, 0, 0, 0}},
        {3, 4, 0.5f, 0.4f, 2, {0, 0, 3, 0, 0, 0}},
        {9, 4, 1, 0, 4, {0, 0, 3, 0, 0, 0, 0, 0, 1, 0, 0, 2}}, /* cut off by the bound */
        {0, 4, 0.5f, 0, 0, {0}}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        const boxes_case *c = &cases[i];
        bench             t = bench_start();
        ipu_value         count;
        ipu_value         y = ipu_non_max_suppression(t.b, bench_floats(&t, IPU_SHAPE(1, 6, 4), boxes),
                                                      bench_floats(&t, IPU_SHAPE(1, 1, 6), scores),
                                                      bench_input(&t, IPU_INT64, IPU_SHAPE(1), &c->most),
                                                      bench_floats(&t, IPU_SHAPE(1), &c->iou),
                                                      bench_floats(&t, IPU_SCALAR, &c->score),
                                                      (ipu_non_max_suppression_options){.bound = c->bound}, &count);
        int               r = bench_result(&t, count);
        int64_t           n;
        bench_expect(&t, y, IPU_SHAPE(4, 3), c->selected);
        bench_read(&t, r, &n, sizeof n);
        assert_int_equal(n, c->count);
        bench_end(&t);
    }
}

static void the_same_boxes_by_centres_or_with_corners_swapped(void **unused)
{
    (void)unused;
    const int64_t most = 2, expected[] = {0, 0, 3, 0, 0, 0};
    float         other[24];
    for (int centres = 0; centres < 2; centres++) {
        for (int i = 0; i < 6; i++) {
            const float *b           = boxes + 4 * i;
            const float  by_centre[] = {(b[1] + b[3]) / 2, (b[0] + b[2]) / 2, b[3] - b[1], b[2] - b[0]};
            const float  swapped[]   = {b[2], b[3], b[0], b[1]};
            memcpy(other + 4 * i, centres ? by_centre : swapped, sizeof swapped);
        }
        bench     t = bench_start();
        ipu_value count,
            y = ipu_non_max_suppression(t.b, bench_floats(&t, IPU_SHAPE(1, 6, 4), other),
                                        bench_floats(&t, IPU_SHAPE(1, 1, 6), scores),
                                        bench_input(&t, IPU_INT64, IPU_SCALAR, &most),
                                        bench_floats(&t, IPU_SCALAR, (float[]){0.5f}), IPU_NO_VALUE,
                                        (ipu_non_max_suppression_options){2, centres != 0}, &count);
        bench_expect(&t, y, IPU_SHAPE(2, 3), expected);
        bench_end(&t);
    }
}

static void what_does_not_fit_is_refused(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value count;
    ipu_grid_sample(t.b, image(&t), bench_floats(&t, IPU_SHAPE(1, 1, 1, 3), ((float[3]){0})),
                    (ipu_grid_sample_options){0});
    bench_refused(&t, "\"grid\" [1,1,1,3]: expected [1, out height, out width, 2]");
    ipu_affine_grid(t.b, bench_floats(&t, IPU_SHAPE(1, 2, 3), ((float[6]){0})), 4096, 4097, false);
    bench_refused(&t, "\"size\" is of more than 16777216 places");
    ipu_roi_align(t.b, image(&t), bench_floats(&t, IPU_SHAPE(1, 5), ((float[5]){0})),
                  bench_ints(&t, IPU_SHAPE(1), ((int32_t[1]){0})), (ipu_roi_align_options){0});
    bench_refused(&t, "\"rois\" must have shape [1,4]");
    ipu_non_max_suppression(t.b, bench_floats(&t, IPU_SHAPE(1, 6, 4), boxes),
                            bench_floats(&t, IPU_SHAPE(1, 6, 1), scores), IPU_NO_VALUE, IPU_NO_VALUE,
                            IPU_NO_VALUE, (ipu_non_max_suppression_options){0}, &count);
    bench_refused(&t, "expected [n, boxes, 4] and [n, classes, boxes]");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_those_of_onnx),
        cmocka_unit_test(places_that_are_no_numbers_read_nothing_they_should_not),
        cmocka_unit_test(an_affine_grid_maps_places),
        cmocka_unit_test(a_volume_is_read_where_an_affine_grid_says),
        cmocka_unit_test(a_cell_is_the_mean_of_its_samples),
        cmocka_unit_test(the_largest_part_of_a_sample),
        cmocka_unit_test(a_region_of_no_image_stops_the_run),
        cmocka_unit_test(boxes_that_overlap_a_better_one_are_left_out),
        cmocka_unit_test(the_same_boxes_by_centres_or_with_corners_swapped),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests_name("vision", tests, NULL, NULL);
}
