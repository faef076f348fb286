/* Real models of ../shared/data: their test data, and how many of MNIST's test images they read right.
 * Run from the root of the repository; skips where the data are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define MODELS "../shared/data/onnx"
#define MNIST "../shared/data/mnist"

enum { MOST_PATH = 300, MOST_SETS = 10 };

static void need(const char *path)
{
    if (access(path, R_OK) == 0) return;
    print_message("SKIP: %s is not there\n", path);
    skip();
}

static ipu_onnx *open_model(const char *name)
{
    char      path[MOST_PATH];
    ipu_onnx *file;
    snprintf(path, sizeof path, MODELS "/%s/model.onnx", name);
    need(path);
    if (ipu_onnx_open(path, &file) != IPU_OK) fail_msg("%s", ipu_message());
    return file;
}

static ipu_onnx_value read_value(const char *name, int set, const char *which, const ipu_onnx_port *port)
{
    char           path[MOST_PATH];
    ipu_onnx_value v;
    snprintf(path, sizeof path, MODELS "/%s/test_data_set_%d/%s_0.pb", name, set, which);
    if (ipu_onnx_value_open(path, port, &v) != IPU_OK) fail_msg("%s", ipu_message());
    return v;
}

static int64_t largest(const ipu_array *a)
{
    int64_t best = 0;
    for (int64_t i = 1; i < ipu_array_n_elements(a); i++)
        if (ipu_array_value(a, i) > ipu_array_value(a, best)) best = i;
    return best;
}

/* One input, one output; the number of sets that ran. `most_off`: how many elements may be off by `step`. */
static int run_sets(const char *name, double step, int64_t most_off)
{
    ipu_onnx         *file = open_model(name);
    ipu_onnx_session *s;
    ipu_onnx_port     in_port, out_port;
    int               set = 0;
    ipu_onnx_input_at(file, 0, &in_port);
    ipu_onnx_output_at(file, 0, &out_port);
    assert_int_equal(ipu_onnx_session_create(file, NULL, &s), IPU_OK);
    for (; set < MOST_SETS; set++) {
        char folder[MOST_PATH];
        snprintf(folder, sizeof folder, MODELS "/%s/test_data_set_%d", name, set);
        if (access(folder, R_OK) != 0) break;
        ipu_onnx_value       in       = read_value(name, set, "input", &in_port), out;
        ipu_onnx_value       expected = read_value(name, set, "output", &out_port);
        ipu_array_difference d        = {0};
        if (ipu_onnx_session_run(s, &in, 1, &out, 1) != IPU_OK) fail_msg("%s: %s", name, ipu_message());
        /* the tolerances of ONNX's own runner */
        if (!ipu_array_is_close(&expected.array, &out.array, 1e-3, 1e-7, &d) && (d.n < 0 || d.n > most_off))
            fail_msg("%s, set %d: %d elements differ; first %d: expected %g, found %g", name, set, (int)d.n,
                     (int)d.first, d.expected, d.found);
        assert_true(ipu_array_is_close(&expected.array, &out.array, 1e-3, 1e-7 + step, NULL));
        if (step > 0) assert_int_equal(largest(&expected.array), largest(&out.array));
        ipu_onnx_value_free(&in), ipu_onnx_value_free(&out), ipu_onnx_value_free(&expected);
    }
    assert_int_equal(ipu_onnx_session_n_compiled(s), 1);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    return set;
}

static void small_networks_give_their_test_data(void **state)
{
    (void)state;
    assert_int_equal(run_sets("mnist-cntk", 0, 0), 4);
    assert_int_equal(run_sets("cnn_mnist_pytorch", 0, 0), 4);
}

static void recurrent_networks_give_their_test_data(void **state)
{
    (void)state;
    assert_int_equal(run_sets("cntk_test_LSTM.tanh.bidirectional", 0, 0), 1);
    assert_int_equal(run_sets("cntk_test_RNN.bidirectional.one_layer.relu", 0, 0), 1);
}

static void resnet_50_gives_its_test_data(void **state)
{
    (void)state;
    assert_int_equal(run_sets("light_resnet50", 0, 0), 1);
}

/* Scores are quantised in steps of 0.1531. What lies on the border of two steps, in any of 66 quantisations,
 * may fall to the other side by another order of sums: 20 scores of 1000 do, all by one step. */
static void a_quantised_mobilenet_gives_its_test_data_to_a_step(void **state)
{
    (void)state;
    assert_int_equal(run_sets("mobilenet_v3", 0.1532, 50), 1);
}

/* ---- MNIST ---- */

enum { N_IMAGES = 10000, PIXELS = 28 * 28 };

/* `n` bytes after the first `skipped` of a gzip file. */
static uint8_t *read_gzip(const char *path, size_t skipped, size_t n)
{
    char     command[MOST_PATH];
    uint8_t *data = malloc(skipped + n);
    need(path);
    snprintf(command, sizeof command, "gzip -dc %s", path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_int_equal(fread(data, 1, skipped + n, pipe), skipped + n);
    pclose(pipe);
    memmove(data, data + skipped, n);
    return data;
}

/* Pixels are (value / scale - mean) / deviation. */
static int count_right(const char *name, double scale, double mean, double deviation)
{
    ipu_onnx         *file   = open_model(name);
    uint8_t          *images = read_gzip(MNIST "/t10k-images-idx3-ubyte.gz", 16, (size_t)N_IMAGES * PIXELS);
    uint8_t          *labels = read_gzip(MNIST "/t10k-labels-idx1-ubyte.gz", 8, N_IMAGES);
    ipu_onnx_session *s;
    float             x[PIXELS];
    int               right = 0;
    ipu_onnx_value    in    = {.kind = IPU_ONNX_ARRAY, .array = {IPU_FLOAT, IPU_SHAPE(1, 1, 28, 28), x}}, out;
    assert_int_equal(ipu_onnx_session_create(file, NULL, &s), IPU_OK);
    for (int i = 0; i < N_IMAGES; i++) {
        for (int k = 0; k < PIXELS; k++) x[k] = (float)((images[i * PIXELS + k] / scale - mean) / deviation);
        if (ipu_onnx_session_run(s, &in, 1, &out, 1) != IPU_OK) fail_msg("%s: %s", name, ipu_message());
        right += largest(&out.array) == labels[i];
        ipu_onnx_value_free(&out);
    }
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    free(images);
    free(labels);
    return right;
}

/* As counted by an evaluation in double, in C of its own. */
static void networks_read_as_many_digits_as_they_should(void **state)
{
    (void)state;
    assert_in_range(count_right("mnist-cntk", 1, 0, 1), 9890, 9892);
    assert_in_range(count_right("cnn_mnist_pytorch", 255, 0.1307, 0.3081), 9906, 9908);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_networks_give_their_test_data),
        cmocka_unit_test(recurrent_networks_give_their_test_data),
        cmocka_unit_test(resnet_50_gives_its_test_data),
        cmocka_unit_test(a_quantised_mobilenet_gives_its_test_data_to_a_step),
        cmocka_unit_test(networks_read_as_many_digits_as_they_should),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
