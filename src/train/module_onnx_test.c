/* Modules and ONNX files: what is trained is written, read and trained again; losses by name; the executable cache. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

static char folder[] = "/tmp/ipu-module-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/net.onnx", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* Pictures whose bright half tells the class, for "seed-cnn". */
static void pictures(ipu_array out[2], int64_t n)
{
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, 1, 28, 28), &out[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &out[1]));
    float *x = out[0].data;
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)out[1].data)[i] = (int32_t)(i % 2);
        for (int k = 0; k < 784; k++)
            x[i * 784 + k] = (k < 392) == (i % 2 == 0) ? 1 : (float)((i * k) % 7) / 16;
    }
}

static void free_pictures(ipu_array a[2])
{
    for (int i = 0; i < 2; i++) ipu_array_free(&a[i]);
}

static double loss_of(const ipu_executor *x)
{
    double loss;
    OK(ipu_executor_scalar(x, "loss", &loss));
    return loss;
}

static void run_file(const ipu_array *in, ipu_onnx_value *out)
{
    ipu_onnx         *file;
    ipu_onnx_session *s;
    ipu_onnx_value    x = {.kind = IPU_ONNX_ARRAY, .array = *in};
    OK(ipu_onnx_open(path, &file));
    OK(ipu_onnx_session_create(file, &(ipu_onnx_options){0}, &s));
    OK(ipu_onnx_session_run(s, &x, 1, out, 1));
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

static void assert_close(const ipu_array *a, const ipu_array *b)
{
    ipu_array_difference d;
    if (!ipu_array_is_close(a, b, 1e-5, 1e-5, &d))
        fail_msg("element %lld: expected %g, found %g (%lld differ)", (long long)d.first, d.expected, d.found,
                 (long long)d.n);
}

static void a_trained_network_is_written_and_says_the_same(void **state)
{
    (void)state;
    ipu_module   *module;
    ipu_executor *training, *inference;
    ipu_array     in[2];
    pictures(in, 4);
    OK(ipu_module_named("seed-cnn", &module));
    assert_int_equal(ipu_module_write_onnx(module, NULL, path), IPU_INVALID);
    OK(ipu_training_model(module, NULL, &(ipu_nn_training){.optimizer = {.rate = 0.05}}, &training));
    for (int i = 0; i < 20; i++) OK(ipu_executor_run(training, in, 2));
    assert_true(loss_of(training) < 0.5);
    const char *const metadata[] = {"mean", "0.5"};
    OK(ipu_module_write_onnx(
        module, &(ipu_module_write_options){.batch = 4, .metadata = metadata, .n_metadata = 1}, path));
    OK(ipu_inference_model(module, NULL, &inference));
    OK(ipu_executor_run(inference, in, 1));
    ipu_onnx_value out = {0};
    run_file(&in[0], &out);
    assert_close(ipu_executor_output(inference, "scores"), &out.array);
    ipu_onnx_value_free(&out);

    ipu_onnx     *file;
    ipu_onnx_port port;
    const char   *key, *value;
    OK(ipu_onnx_open(path, &file));
    assert_int_equal(ipu_onnx_n_inputs(file), 1); /* labels are not of inference */
    ipu_onnx_input_at(file, 0, &port);
    assert_string_equal(port.name, "images");
    assert_int_equal(port.shape.dim[0], 4);
    ipu_onnx_metadata_at(file, 0, &key, &value);
    assert_string_equal(key, "mean");
    assert_string_equal(value, "0.5");
    ipu_onnx_close(file);
    ipu_executor_destroy(training);
    ipu_executor_destroy(inference);
    ipu_module_destroy(module);
    free_pictures(in);
}

static void a_file_is_trained_on_with_a_loss_and_saved(void **state)
{
    (void)state;
    ipu_module   *module;
    ipu_executor *training, *inference;
    ipu_array     in[2];
    pictures(in, 4);
    OK(ipu_module_from_onnx(path, "nll", &module)); /* of the test before */
    OK(ipu_training_model(module, NULL, &(ipu_nn_training){.optimizer = {.rate = 0.05}}, &training));
    OK(ipu_executor_run(training, in, 2));
    double first = loss_of(training);
    for (int i = 0; i < 30; i++) OK(ipu_executor_run(training, in, 2));
    if (!(loss_of(training) < 0.5 * first)) fail_msg("%g to %g", first, loss_of(training));
    const ipu_array *w;
    OK(ipu_module_weight(module, "fc2.bias", &w));
    assert_int_equal(ipu_array_n_elements(w), 10);
    OK(ipu_inference_model(module, NULL, &inference));
    OK(ipu_executor_run(inference, in, 1));
    OK(ipu_module_write_onnx(module, NULL, path));
    ipu_onnx_value out = {0};
    run_file(&in[0], &out);
    assert_close(ipu_executor_output(inference, "scores"), &out.array);
    ipu_onnx_value_free(&out);
    ipu_executor_destroy(training);
    ipu_executor_destroy(inference);
    ipu_module_destroy(module);
    free_pictures(in);
}

static void assert_fit(const ipu_module *module, size_t i, ipu_shape sample, ipu_shape expected)
{
    ipu_module_fit_sample(module, i, &sample);
    assert_int_equal(sample.rank, expected.rank);
    assert_memory_equal(sample.dim, expected.dim, (size_t)expected.rank * sizeof *expected.dim);
}

static void samples_take_the_shape_of_the_file(void **state)
{
    (void)state;
    ipu_module *module, *own;
    OK(ipu_module_from_onnx(path, "nll", &module)); /* of the test before: images [4,1,28,28] */
    OK(ipu_module_named("seed-cnn", &own));
    assert_fit(module, 0, IPU_SHAPE(784), IPU_SHAPE(1, 28, 28));
    assert_fit(module, 0, IPU_SHAPE(14, 56), IPU_SHAPE(1, 28, 28));
    assert_fit(module, 0, IPU_SHAPE(1, 28, 28), IPU_SHAPE(1, 28, 28));
    assert_fit(module, 0, IPU_SHAPE(783), IPU_SHAPE(783));
    assert_fit(module, 0, IPU_SHAPE(2, 784), IPU_SHAPE(2, 784));
    assert_fit(module, 0, IPU_SHAPE(0), IPU_SHAPE(0));
    assert_fit(module, 0, IPU_SCALAR, IPU_SCALAR);
    assert_fit(module, 1, IPU_SHAPE(784), IPU_SHAPE(784)); /* the labels, which the file knows nothing of */
    assert_fit(own, 0, IPU_SHAPE(784), IPU_SHAPE(784));
    ipu_module_destroy(module);
    ipu_module_destroy(own);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    ipu_module   *module;
    ipu_executor *x;
    ipu_array     in[2];
    assert_int_equal(ipu_module_from_onnx(path, "crossentropy", &module), IPU_NOT_FOUND);
    assert_non_null(strstr(ipu_message(), "cross_entropy, nll, mse"));
    assert_int_equal(ipu_module_from_onnx("/nowhere/net.onnx", "nll", &module), IPU_IO);
    assert_int_equal(ipu_module_named("sead-cnn", &module), IPU_NOT_FOUND);
    assert_non_null(strstr(ipu_message(), "seed-cnn, mnist-cnn"));
    pictures(in, 4);
    OK(ipu_module_from_onnx(path, NULL, &module));
    OK(ipu_training_model(module, NULL, NULL, &x));
    assert_int_equal(ipu_executor_run(x, in, 1), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "0 outputs of one element: name a loss"));
    assert_int_equal(ipu_executor_run(x, in, 2), IPU_INVALID);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_pictures(in);
}

static void add(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_model_output(m, ipu_add(ipu_model_builder(m), in[0], in[1]), "sum");
}

static void a_network_without_weights_is_written(void **state)
{
    (void)state;
    char            to[80];
    ipu_module     *module;
    ipu_executor   *x;
    ipu_onnx       *file;
    float           numbers[] = {1, 2};
    const ipu_array one = {IPU_FLOAT, IPU_SHAPE(2), numbers}, in[] = {one, one};
    snprintf(to, sizeof to, "%s/sum.onnx", folder);
    OK(ipu_module_create(add, NULL, &module));
    assert_int_equal(ipu_module_write_onnx(module, NULL, to), IPU_INVALID);
    OK(ipu_inference_model(module, NULL, &x));
    OK(ipu_executor_compile(x, in, 2));
    OK(ipu_module_write_onnx(module, &(ipu_module_write_options){.batch = 2}, to));
    OK(ipu_onnx_open(to, &file));
    assert_int_equal(ipu_onnx_n_inputs(file), 2);
    ipu_onnx_close(file);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void what_was_compiled_before_is_taken_from_the_cache(void **state)
{
    (void)state;
    char cache[64];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    double    loss[3];
    ipu_array in[2];
    pictures(in, 4);
    for (int i = 0; i < 3; i++) {
        ipu_module   *module;
        ipu_executor *x;
        bool          was_cached;
        OK(ipu_module_named("seed-cnn", &module));
        ipu_executor_options options = {.cache_folder = cache, .gradient_accumulation = i == 2 ? 2 : 1};
        OK(ipu_training_model(module, &options, NULL, &x));
        for (int k = 0; k < 3; k++) OK(ipu_executor_run(x, in, 2));
        loss[i] = loss_of(x);
        assert_true(ipu_executor_compile_seconds(x, &was_cached) > 0);
        assert_int_equal(was_cached, i == 1);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    assert_true(loss[0] == loss[1]);
    free_pictures(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trained_network_is_written_and_says_the_same),
        cmocka_unit_test(a_file_is_trained_on_with_a_loss_and_saved),
        cmocka_unit_test(samples_take_the_shape_of_the_file),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(a_network_without_weights_is_written),
        cmocka_unit_test(what_was_compiled_before_is_taken_from_the_cache),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
