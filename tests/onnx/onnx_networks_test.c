/* The networks of support/networks.h written as ONNX.
 *
 *     onnx_networks_test              read again and run: the same results
 *     onnx_networks_test FOLDER       files of networks, branches and loops, for tests/onnx/check.py
 *     onnx_networks_test FOLDER -     files that standard input names, read and saved as FOLDER/0.onnx, ...
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "ipu/nn.h"
#include "ipu/onnx.h"
#include "networks.h"
#include "random.h"

enum { BATCH = 2, N_RUN = N_WORKLOADS };

/* Without a loss, as a trained network is used. */
static ipu_model *inference(const network *net)
{
    ipu_model *m;
    if (ipu_model_create(&m) != IPU_OK) abort();
    ipu_shape shape = {.rank = net->input.rank + 1, .dim = {BATCH}};
    memcpy(shape.dim + 1, net->input.dim, (size_t)net->input.rank * sizeof *shape.dim);
    ipu_nn_set_training(m, false);
    ipu_model_output(m, net->forward(m, ipu_model_input(m, IPU_FLOAT, shape, "x")), "y");
    return m;
}

static ipu_engine *engine_of(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe = NULL;
    ipu_engine     *e   = NULL;
    bool            ok  = ipu_target_find("gc200", 1, &target) == IPU_OK
           && ipu_model_compile(m, &target, NULL, &exe) == IPU_OK
           && ipu_engine_create(exe, NULL, &e) == IPU_OK;
    if (!ok) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    return e;
}

/* ---- running ---- */

static void run_file(const void *data, size_t bytes, const ipu_onnx_value *x, ipu_onnx_value *y)
{
    ipu_onnx         *file = NULL;
    ipu_onnx_session *s    = NULL;
    bool              ok   = ipu_onnx_read(data, bytes, NULL, &file) == IPU_OK
           && ipu_onnx_session_create(file, NULL, &s) == IPU_OK
           && ipu_onnx_session_run(s, x, 1, y, 1) == IPU_OK;
    if (!ok) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

static void a_network_gives_the_same_results(void **state)
{
    const network *net = *state;
    ipu_model     *m   = inference(net);
    ipu_engine    *e   = engine_of(m);
    ipu_onnx_value x = {.kind = IPU_ONNX_ARRAY}, y = {0};
    void          *data = NULL;
    size_t         bytes;
    ipu_array      own;
    ipu_value      in = ipu_model_input_at(m, 0), out = ipu_model_output_at(m, 0, NULL);
    assert_int_equal(ipu_array_create(IPU_FLOAT, ipu_value_shape(in), &x.array), IPU_OK);
    assert_int_equal(ipu_array_create(IPU_FLOAT, ipu_value_shape(out), &own), IPU_OK);
    test_random r = {3};
    for (int64_t i = 0; i < ipu_array_n_elements(&x.array); i++)
        ((float *)x.array.data)[i] = (float)random_in(&r, -1000, 1000) / 1000;
    assert_int_equal(ipu_engine_write(e, "x", x.array.data, ipu_array_bytes(&x.array)), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "y", own.data, ipu_array_bytes(&own)), IPU_OK);
    if (ipu_onnx_write_memory(m, NULL, &data, &bytes) != IPU_OK) fail_msg("%s", ipu_message());
    run_file(data, bytes, &x, &y);
    for (int64_t i = 0; i < ipu_array_n_elements(&own); i++)
        assert_true(fabs(ipu_array_value(&own, i) - ipu_array_value(&y.array, i)) < 1e-4);
    ipu_free(data);
    ipu_array_free(&own);
    ipu_onnx_value_free(&x);
    ipu_onnx_value_free(&y);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

/* ---- files for others to read ---- */

static int write_file(ipu_model *m, int64_t opset, bool external, const char *folder, const char *name)
{
    static const char *const metadata[] = {"network", "of the tests"};
    char                     path[600];
    ipu_onnx_write_options   options = {
          .opset = opset, .external = external, .metadata = metadata, .n_metadata = 1};
    snprintf(path, sizeof path, "%s/%s-%lld.onnx", folder, name, (long long)opset);
    ipu_status status = ipu_onnx_write(m, &options, path);
    if (status != IPU_OK && status != IPU_UNSUPPORTED) {
        fprintf(stderr, "%s: %s\n", path, ipu_message());
        return 1;
    }
    return 0;
}

static ipu_model *with_control(void)
{
    ipu_model *m;
    if (ipu_model_create(&m) != IPU_OK) abort();
    ipu_builder *b         = ipu_model_builder(m);
    ipu_value    condition = ipu_model_input(m, IPU_BOOL, IPU_SCALAR, "condition");
    ipu_value    x         = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3), "x"), y, inside, index;
    ipu_model_if(m, condition);
    y = ipu_gelu(b, x);
    ipu_model_yield(m, &y, 1);
    ipu_model_else(m);
    ipu_model_yield(m, &x, 1);
    ipu_model_end(m, &y, 1);
    ipu_model_loop(m, 4, condition, &y, 1, &inside, &index);
    y             = ipu_add(b, inside, ipu_mul(b, x, ipu_cast(b, index, IPU_FLOAT)));
    ipu_value sum = ipu_reduce_sum(b, y, NULL, 0, false);
    ipu_model_yield_while(m, ipu_less(b, sum, ipu_scalar_like(b, sum, 100)), &y, 1);
    ipu_model_end(m, &y, 1);
    ipu_model_output(m, y, "y");
    return m;
}

/* While it is trained: with a loss, and norms by the batch. */
static int write_training(const char *folder, const network *net)
{
    char       name[64];
    ipu_model *m;
    if (ipu_model_create(&m) != IPU_OK) abort();
    network_build(m, net, BATCH, true, 0.1);
    snprintf(name, sizeof name, "%s-training", net->name);
    int failed = write_file(m, 17, false, folder, name);
    ipu_model_destroy(m);
    return failed;
}

static int write_all(const char *folder)
{
    int failed = 0;
    for (size_t i = 0; i < N_RUN; i++) failed += write_training(folder, &networks[i]);
    for (size_t i = 0; i < N_NETWORKS; i++) {
        ipu_model *m        = inference(&networks[i]);
        bool       is_large = i >= N_RUN;
        if (!is_large) failed += write_file(m, 13, false, folder, networks[i].name);
        if (!is_large || i == N_RUN) failed += write_file(m, 17, is_large, folder, networks[i].name);
        ipu_model_destroy(m);
    }
    ipu_model *m = with_control();
    failed += write_file(m, 13, false, folder, "control") + write_file(m, 17, false, folder, "control");
    ipu_model_destroy(m);
    return failed ? 1 : 0;
}

static int save_listed(const char *folder)
{
    char from[600], to[600];
    int  failed = 0;
    for (int i = 0; fgets(from, sizeof from, stdin); i++) {
        ipu_onnx *file;
        from[strcspn(from, "\n")] = 0;
        snprintf(to, sizeof to, "%s/%d.onnx", folder, i);
        bool is_read = ipu_onnx_open(from, &file) == IPU_OK;
        bool ok      = is_read && ipu_onnx_save(file, to) == IPU_OK;
        if (!ok) fprintf(stderr, "%s: %s\n", from, ipu_message());
        failed += !ok;
        if (is_read) ipu_onnx_close(file);
    }
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc > 2) return save_listed(argv[1]);
    if (argc > 1) return write_all(argv[1]);
    struct CMUnitTest tests[N_RUN];
    for (size_t i = 0; i < N_RUN; i++)
        tests[i] = (struct CMUnitTest){networks[i].name, a_network_gives_the_same_results, NULL, NULL,
                                       (void *)&networks[i]};
    return _cmocka_run_group_tests("onnx_networks", tests, N_RUN, NULL, NULL);
}
