/* Which batches' outputs sessions give, and replicas that get the same input: the modes of executors, with their results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "onnx/run_test.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

static int set_up(void **state)
{
    (void)state;
    return unsetenv("IPU_CACHE_DIR");
}

static const float one_to_eight[] = {1, 2, 3, 4, 5, 6, 7, 8};

static bytes of(const char *nodes) { return model(13, graph(nodes, NULL), none); }

/* Ten times the input, in two ops so that there may be two stages, and its sum, a scalar. */
static bytes counting(void)
{
    return of("in x float[N]; const two float[] 2; const five float[] 5; out tens; out sum;"
              "a = Mul(x, two); tens = Mul(a, five); sum = ReduceSum(x) keepdims=0");
}

typedef struct row {
    ipu_onnx_options options;
    ipu_shape        tens, sum;
    double           tens_are[8], sum_is[4];
} row;

/* Those of src/train/executor/output_test.c, and stages. */
static const row rows[] = {
    {{.batches = 4}, {1, {8}}, {1, {4}}, {10, 20, 30, 40, 50, 60, 70, 80}, {3, 7, 11, 15}},
    {{.batches = 4, .output_mode = IPU_OUTPUT_ALL},
     {1, {8}},
     {1, {4}},
     {10, 20, 30, 40, 50, 60, 70, 80},
     {3, 7, 11, 15}},
    {{.batches = 4, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 2},
     {1, {4}},
     {1, {2}},
     {30, 40, 70, 80},
     {7, 15}},
    {{.batches = 4, .stages = 2, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 4},
     {1, {2}},
     {0, {0}},
     {70, 80},
     {15}},
    {{.batches = 4, .output_mode = IPU_OUTPUT_FINAL}, {1, {2}}, {0, {0}}, {70, 80}, {15}},
    {{.batches = 4, .stages = 2, .output_mode = IPU_OUTPUT_FINAL}, {1, {2}}, {0, {0}}, {70, 80}, {15}},
    {{.batches = 2, .replicas = 2, .output_mode = IPU_OUTPUT_FINAL},
     {1, {4}},
     {1, {2}},
     {50, 60, 70, 80},
     {11, 15}},
    {{.batches = 4, .output_mode = IPU_OUTPUT_SUM}, {1, {2}}, {0, {0}}, {160, 200}, {36}},
    {{.batches = 4, .stages = 2, .output_mode = IPU_OUTPUT_SUM}, {1, {2}}, {0, {0}}, {160, 200}, {36}},
    {{.output_mode = IPU_OUTPUT_SUM}, {1, {8}}, {0, {0}}, {10, 20, 30, 40, 50, 60, 70, 80}, {36}},
    {{.batches = 2, .replicas = 2, .output_mode = IPU_OUTPUT_SUM},
     {1, {4}},
     {1, {2}},
     {60, 80, 100, 120},
     {14, 22}},
    {{.batches = 4, .output_mode = IPU_OUTPUT_MEAN}, {1, {2}}, {0, {0}}, {40, 50}, {9}},
    {{.batches = 2, .replicas = 2, .stages = 2, .output_mode = IPU_OUTPUT_MEAN},
     {1, {4}},
     {1, {2}},
     {30, 40, 50, 60},
     {7, 11}},
    {{.batches = 4, .replicas = 2, .input_group_size = 2, .output_mode = IPU_OUTPUT_FINAL},
     {1, {4}},
     {1, {2}},
     {70, 80, 70, 80},
     {15, 15}},
    {{.batches = 1, .replicas = 4, .input_group_size = 2},
     {1, {16}},
     {1, {4}},
     {10, 20, 30, 40, 10, 20, 30, 40},
     {10, 10, 26, 26}},
    {{.replicas = 2, .input_group_size = 2, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 2},
     {1, {8}},
     {0, {0}},
     {10, 20, 30, 40, 50, 60, 70, 80},
     {36}},
};

static void assert_row(const row *r, const ipu_onnx_value out[2])
{
    assert_int_equal(out[0].array.shape.rank, r->tens.rank);
    assert_int_equal(out[0].array.shape.dim[0], r->tens.dim[0]);
    for (int64_t i = 0; i < 8 && i < r->tens.dim[0]; i++)
        assert_true(ipu_array_value(&out[0].array, i) == r->tens_are[i]);
    assert_array(&out[1], r->sum, r->sum_is);
}

static void output_modes_are_those_of_executors(void **state)
{
    (void)state;
    ipu_onnx_value x = value(IPU_FLOAT, IPU_SHAPE(8), one_to_eight);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ipu_onnx         *file;
        ipu_onnx_value    out[2];
        ipu_onnx_session *s = session_of(counting(), &file, &rows[i].options);
        for (int again = 0; again < 2; again++) {
            OK(ipu_onnx_session_run(s, &x, 1, out, 2));
            assert_row(&rows[i], out);
            for (int k = 0; k < 2; k++) ipu_onnx_value_free(&out[k]);
        }
        assert_int_equal(ipu_onnx_session_n_compiled(s), 1);
        ipu_onnx_session_destroy(s);
        ipu_onnx_close(file);
    }
}

static void the_cache_tells_modes_apart(void **state)
{
    (void)state;
    char           box[] = "/tmp/ipu-session-output-test-XXXXXX", command[128];
    ipu_onnx_value x     = value(IPU_FLOAT, IPU_SHAPE(8), one_to_eight);
    assert_non_null(mkdtemp(box));
    const ipu_output_mode modes[] = {IPU_OUTPUT_ALL, IPU_OUTPUT_FINAL, IPU_OUTPUT_SUM, IPU_OUTPUT_MEAN};
    const double          sums[]  = {3, 15, 36, 9};
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < 4; i++) {
            ipu_onnx         *file;
            ipu_onnx_value    out[2];
            ipu_onnx_options  options = {.batches = 4, .output_mode = modes[i], .cache_folder = box};
            ipu_onnx_session *s       = session_of(counting(), &file, &options);
            OK(ipu_onnx_session_run(s, &x, 1, out, 2));
            assert_int_equal(ipu_onnx_session_was_cached(s), again);
            assert_true(ipu_array_value(&out[1].array, 0) == sums[i]);
            for (int k = 0; k < 2; k++) ipu_onnx_value_free(&out[k]);
            ipu_onnx_session_destroy(s);
            ipu_onnx_close(file);
        }
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    assert_int_equal(system(command), 0);
}

/* A run of `b` on `in`; the outputs are the caller's, and those of a run that fails are none. */
static ipu_status run(bytes b, ipu_onnx_options options, const ipu_onnx_value *in, ipu_onnx_value *out,
                      size_t n_out)
{
    ipu_onnx         *file;
    ipu_onnx_session *s      = session_of(b, &file, &options);
    ipu_status        status = ipu_onnx_session_run(s, in, 1, out, n_out);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    return status;
}

/* Halves whose sum is no half, and whole numbers. */
static void means_are_of_the_outputs_type(void **state)
{
    (void)state;
    enum { N = 1000, HALF = 10, INT32 = 6 };
    static float     data[2 * N];
    char             nodes[128];
    ipu_onnx_options options = {.batches = N, .output_mode = IPU_OUTPUT_MEAN};
    ipu_onnx_value   out[2], x = value(IPU_FLOAT, IPU_SHAPE(2 * N), data);
    snprintf(nodes, sizeof nodes, "in x float[N]; out h; out i; h = Cast(x) to=%d; i = Cast(x) to=%d", HALF,
             INT32);
    for (int i = 0; i < N; i++) {
        data[2 * i]     = (float)(i % 2 ? 102 : 100); /* 101 in the mean; 101000 is no half */
        data[2 * i + 1] = i == 0 ? -1 : 0;
    }
    OK(run(of(nodes), options, &x, out, 2));
    assert_true(out[0].array.type == IPU_HALF && out[1].array.type == IPU_INT32);
    assert_true(ipu_array_value(&out[0].array, 0) == 101);
    assert_true(fabs(ipu_array_value(&out[0].array, 1) + 0.001) < 1e-5);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2), 101, 0);
    for (int k = 0; k < 2; k++) ipu_onnx_value_free(&out[k]);
}

static void expect_refused(bytes b, ipu_onnx_options options, ipu_status status, const char *says)
{
    ipu_onnx_value out[2], x = value(IPU_FLOAT, IPU_SHAPE(8), one_to_eight);
    ipu_status     found = run(b, options, &x, out, 1);
    if (found != status || !strstr(ipu_message(), says))
        fail_msg("expected %d, %s; found %d: %s", status, says, found, ipu_message());
}

/* Extents that depend on data, and sequences: of one batch, and never as a sum. */
static void what_does_not_go_together_is_given_of_one_batch(void **state)
{
    (void)state;
    static const float     x[] = {1, 2, 3, 0, 0, 4};
    ipu_onnx_value         out[2], in = value(IPU_FLOAT, IPU_SHAPE(6), x);
    const char            *nodes   = "in x float[N]; out n; out q; a = Abs(x); b = Relu(x); n = NonZero(b);"
                                     "q = SequenceConstruct(a, b)";
    const ipu_onnx_options list[2] = {{.batches = 2, .output_mode = IPU_OUTPUT_FINAL},
                                      {.batches = 2, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 2}};
    for (int k = 0; k < 2; k++) {
        OK(run(of(nodes), list[k], &in, out, 2));
        ASSERT_ARRAY(&out[0], IPU_SHAPE(1, 1), 2);
        assert_int_equal(out[1].n_items, 2);
        ASSERT_ARRAY(&out[1].items[1], IPU_SHAPE(3), 0, 0, 4);
        for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
    }
    expect_refused(of(nodes), (ipu_onnx_options){.batches = 2, .output_mode = IPU_OUTPUT_SUM},
                   IPU_UNSUPPORTED, "output 0 is as large as its data say: there is no sum of it");
    expect_refused(of(nodes), (ipu_onnx_options){.output_mode = IPU_OUTPUT_MEAN}, IPU_UNSUPPORTED,
                   "there is no sum of it (ipu_onnx_options.output_mode)");
    expect_refused(of(nodes), (ipu_onnx_options){.replicas = 2, .output_mode = IPU_OUTPUT_FINAL},
                   IPU_UNSUPPORTED, "those of 2 batches of a run do not go together");
    expect_refused(of("in x float[N]; const z float[] 0; out y; y = Greater(x, z)"),
                   (ipu_onnx_options){.batches = 2, .output_mode = IPU_OUTPUT_SUM}, IPU_INVALID,
                   "output \"y\" is bool: there is no sum of it");
}

/* Tensors from within: of a stage before the last, an input, and a weight. */
static void tensors_from_within_are_given_by_the_mode(void **state)
{
    (void)state;
    const char            *names[] = {"a", "x", "five"};
    ipu_onnx              *file;
    ipu_onnx_value         out[5], x = value(IPU_FLOAT, IPU_SHAPE(8), one_to_eight);
    const ipu_onnx_options list[] = {
        {.batches = 4, .output_mode = IPU_OUTPUT_FINAL, .outputs = names, .n_outputs = 3},
        {.batches = 4, .stages = 2, .output_mode = IPU_OUTPUT_FINAL, .outputs = names, .n_outputs = 3},
        {.batches = 4, .output_mode = IPU_OUTPUT_MEAN, .outputs = names, .n_outputs = 3},
        {.batches = 4, .stages = 2, .output_mode = IPU_OUTPUT_MEAN, .outputs = names, .n_outputs = 3}};
    const double a[2][2] = {{14, 16}, {8, 10}}, xs[2][2] = {{7, 8}, {4, 5}}, five[] = {5};
    for (int k = 0; k < 4; k++) {
        ipu_onnx_session *s = session_of(counting(), &file, &list[k]);
        for (int again = 0; again < 2; again++) {
            OK(ipu_onnx_session_run(s, &x, 1, out, 5));
            assert_array(&out[2], IPU_SHAPE(2), a[k / 2]);
            assert_array(&out[3], IPU_SHAPE(2), xs[k / 2]);
            assert_array(&out[4], (ipu_shape){0}, five);
            for (int i = 0; i < 5; i++) ipu_onnx_value_free(&out[i]);
        }
        ipu_onnx_session_destroy(s);
        ipu_onnx_close(file);
    }
}

static void options_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    const struct {
        ipu_onnx_options options;
        const char      *says;
    } wrong[] = {
        {{.output_mode = (ipu_output_mode)9}, "output_mode: expected one of ipu_output_mode, found 9"},
        {{.output_mode = IPU_OUTPUT_EVERY_N}, "output_period: expected a number that divides the 1 batches"},
        {{.output_mode = IPU_OUTPUT_EVERY_N, .batches = 2, .replicas = 2, .output_period = 3},
         "divides the 4 batches of a run, found 3"},
        {{.replicas = 4, .input_group_size = 3}, "input_group_size: expected a number that divides the 4"},
        {{.input_group_size = 2}, "divides the 1 replicas, found 2"},
        {{.input_group_size = -1}, "input_group_size: expected 1 to 64 (0 is 1), found -1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ipu_onnx         *file;
        ipu_onnx_session *s;
        bytes             b = counting();
        OK(ipu_onnx_read(b.at, b.n, NULL, &file));
        assert_int_equal(ipu_onnx_session_create(file, &wrong[i].options, &s), IPU_INVALID);
        if (!strstr(ipu_message(), wrong[i].says)) fail_msg("%s: %s", wrong[i].says, ipu_message());
        ipu_onnx_close(file);
    }
    expect_refused(counting(), (ipu_onnx_options){.batches = 3, .replicas = 4, .input_group_size = 2},
                   IPU_INVALID,
                   "a run has 6 batches (batches 3 x replicas 4 / input_group_size 2), which divide");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_modes_are_those_of_executors),
        cmocka_unit_test(the_cache_tells_modes_apart),
        cmocka_unit_test(means_are_of_the_outputs_type),
        cmocka_unit_test(what_does_not_go_together_is_given_of_one_batch),
        cmocka_unit_test(tensors_from_within_are_given_by_the_mode),
        cmocka_unit_test(options_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, free_pool);
}
