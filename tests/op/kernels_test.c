/* What engines tell of their kernels: implementations and layouts of a network's, which the host sees nothing of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/simd.h"
#include "ipu/ipu.h"
#include "support/networks.h"

enum { BATCH = 32 };
#define OK(expr) assert_int_equal(expr, IPU_OK)

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const network *net = user;
    (void)n;
    ipu_model_output(m, net->forward(m, in[0]), "scores");
}

typedef struct counts {
    int    n, turned; /* kernels, those that turn operands */
    int    by_layout[3];
    double operations;
} counts;

static int number_of(const char *layout)
{
    static const char *const names[] = {"plain", "lanes", "blocked"};
    for (int i = 0; i < 3; i++)
        if (strcmp(layout, names[i]) == 0) return i;
    fail_msg("there is no layout %s", layout);
    return -1;
}

static counts count(const ipu_engine *e)
{
    counts             c = {0};
    ipu_engine_kernel  kernel;
    ipu_engine_operand operand;
    for (; ipu_engine_kernel_at(e, (size_t)c.n, &kernel); c.n++) {
        int n_out = 0;
        assert_true(*kernel.name && *kernel.implementation && kernel.n_parts >= 1 && kernel.n_chunks >= 1);
        c.turned += kernel.turned_bytes > 0;
        c.operations += kernel.operations;
        for (int k = 0; k < kernel.n_operands; k++) {
            assert_true(ipu_engine_operand_at(e, (size_t)c.n, k, &operand));
            assert_true(*operand.name);
            n_out += operand.is_output && !operand.is_absent;
            c.by_layout[number_of(operand.layout)] += !operand.is_absent;
        }
        assert_true(n_out >= 1);
        assert_false(ipu_engine_operand_at(e, (size_t)c.n, kernel.n_operands, &operand));
        assert_false(ipu_engine_operand_at(e, (size_t)c.n, -1, &operand));
    }
    assert_false(ipu_engine_operand_at(e, (size_t)c.n, 0, &operand));
    return c;
}

/* Scores of the first network, and what its engine tells. */
static counts run_network(const char *layouts, float *scores)
{
    const network *net = &networks[0];
    ipu_options   *options;
    ipu_module    *module;
    ipu_executor  *executor;
    ipu_array      in;
    ipu_shape      shape = {.rank = net->input.rank + 1, .dim = {BATCH}};
    memcpy(shape.dim + 1, net->input.dim, (size_t)net->input.rank * sizeof *shape.dim);
    OK(ipu_array_create(IPU_FLOAT, shape, &in));
    for (int64_t i = 0; i < ipu_array_n_elements(&in); i++) ((float *)in.data)[i] = (float)(i % 17) / 16;
    OK(ipu_options_create(&options));
    OK(ipu_options_set(options, "memory.layouts", layouts));
    OK(ipu_options_set(options, "threads", "2"));
    ipu_executor_options how = {.engine = options, .cache_folder = ""};
    OK(ipu_module_create(forward, (void *)(uintptr_t)net, &module));
    OK(ipu_inference_model(module, &how, &executor));
    OK(ipu_executor_run(executor, &in, 1));
    const ipu_array *out = ipu_executor_output_at(executor, 0, NULL);
    memcpy(scores, out->data, ipu_array_bytes(out));
    counts c = count(ipu_executor_engine(executor));
    ipu_executor_destroy(executor);
    ipu_module_destroy(module);
    ipu_options_destroy(options);
    ipu_array_free(&in);
    return c;
}

static void kernels_tell_how_they_run(void **state)
{
    (void)state;
    static float plain[BATCH * 10], chosen[BATCH * 10];
    counts       a = run_network("false", plain), b = run_network("true", chosen);
    assert_true(a.n >= 5 && a.n == b.n && a.operations == b.operations && a.operations >= BATCH * 5e5);
    assert_int_equal(a.by_layout[1] + a.by_layout[2], 0);
    assert_int_equal(a.by_layout[0], b.by_layout[0] + b.by_layout[1] + b.by_layout[2]);
    for (int i = 0; i < BATCH * 10; i++) assert_true(fabsf(plain[i] - chosen[i]) <= 1e-4f);
    if (!ipu__simd_has(IPU__SIMD_AVX512)) skip();
    assert_true(b.by_layout[1] >= 2); /* 32 images in lanes between convolution and pooling */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_tell_how_they_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
