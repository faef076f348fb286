/* 19: a model written as an ONNX file, and a file that runs.
 *
 * Teaches both directions of ONNX (ipu/onnx.h, docs/onnx.md). A small network is trained, and what the engine has
 * learnt is written as ONNX, which any runtime reads. That is then opened as anybody's would be: asked what
 * it holds, run by a session, and made a model again, whose weights are parameters that can be trained further.
 *
 * Expect:
 *     sphere: 1 input, 1 output, ops Gemm Add Tanh
 *     the session and the engine agree
 *     the file as a model: 4 parameters, further steps lower the loss
 */
#include <math.h>

#include "example.h"

enum { BATCH = 32, IN = 4, HIDDEN = 16 };

/* Whether x lies inside the unit sphere: something that no plane tells. */
static void draw(float *x, float *inside)
{
    static unsigned state = 1;
    for (int n = 0; n < BATCH; n++) {
        float square = 0;
        for (int i = 0; i < IN; i++) {
            state         = state * 1664525u + 1013904223u;
            x[n * IN + i] = (float)(state >> 8) / (1 << 23) - 1;
            square += x[n * IN + i] * x[n * IN + i];
        }
        inside[n] = square < 1;
    }
}

static ipu_value network(ipu_model *m, ipu_value x)
{
    x = ipu_tanh(ipu_model_builder(m), ipu_nn_linear(m, x, HIDDEN, "hidden"));
    return ipu_nn_linear(m, x, 1, "score");
}

/* Adds loss and optimizer to a model with input "x", and compiles it. */
static ipu_engine *train(ipu_model *m, ipu_value score, const ipu_target *target)
{
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_builder    *b    = ipu_model_builder(m);
    ipu_value       want = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(BATCH, 1), "inside");
    ipu_value       loss = ipu_bce_with_logits_loss(b, score, want, IPU_NO_VALUE, IPU_LOSS_MEAN);
    ipu_nn_train(m, loss, (ipu_nn_optimizer){.rate = 0.2, .momentum = 0.9});
    ipu_model_output(m, loss, "loss");
    CHECK(ipu_model_compile(m, target, NULL, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    return e;
}

/* The mean loss of so many steps. */
static float run_steps(ipu_engine *e, int n)
{
    float x[BATCH * IN], inside[BATCH], loss, sum = 0;
    for (int i = 0; i < n; i++) {
        draw(x, inside);
        CHECK(ipu_engine_write(e, "x", x, sizeof x));
        CHECK(ipu_engine_write(e, "inside", inside, sizeof inside));
        CHECK(ipu_engine_run(e, 0));
        CHECK(ipu_engine_read(e, "loss", &loss, sizeof loss));
        sum += loss;
    }
    return sum / (float)n;
}

static void show(const ipu_onnx *file)
{
    ipu_onnx_info     info;
    ipu_onnx_op_count op;
    ipu_onnx_get_info(file, &info);
    printf("%s: %zu input, %zu output, ops", info.graph_name, ipu_onnx_n_inputs(file),
           ipu_onnx_n_outputs(file));
    for (size_t i = 0; ipu_onnx_op_count_at(file, i, &op); i++) printf(" %s", op.name);
    printf("\n");
}

/* The file through a session, beside the network itself with the same weights. */
static void compare(ipu_onnx *file, ipu_model *m, ipu_engine *trained, const ipu_target *target)
{
    ipu_onnx_session *s;
    ipu_executable   *exe;
    ipu_engine       *e;
    ipu_onnx_value    x = {.kind = IPU_ONNX_ARRAY}, y = {0};
    float             own[BATCH], inside[BATCH], data[IN * HIDDEN];
    CHECK(ipu_onnx_session_create(file, NULL, &s));
    CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(BATCH, IN), &x.array));
    draw(x.array.data, inside);
    CHECK(ipu_onnx_session_run(s, &x, 1, &y, 1));

    CHECK(ipu_model_compile(m, target, NULL, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    for (size_t i = 0; i < ipu_model_n_parameters(m); i++) {
        ipu_value w     = ipu_model_parameter_at(m, i);
        size_t    bytes = (size_t)ipu_value_n_elements(w) * sizeof(float);
        CHECK(ipu_engine_read(trained, ipu_value_name(w), data, bytes));
        CHECK(ipu_engine_write(e, ipu_value_name(w), data, bytes));
    }
    CHECK(ipu_engine_write(e, "x", x.array.data, ipu_array_bytes(&x.array)));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "score", own, sizeof own));
    for (int i = 0; i < BATCH; i++) EXPECT(fabsf(((float *)y.array.data)[i] - own[i]) < 1e-4f);
    printf("the session and the engine agree\n");
    ipu_onnx_value_free(&x);
    ipu_onnx_value_free(&y);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_onnx_session_destroy(s);
}

int main(void)
{
    ipu_target target;
    ipu_model *m, *inference, *again;
    ipu_onnx  *file;
    void      *data;
    size_t     bytes;
    CHECK(ipu_target_find("gc200", 1, &target));

    CHECK(ipu_model_create(&m));
    ipu_value   x       = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(BATCH, IN), "x");
    ipu_engine *trained = train(m, network(m, x), &target);
    float       before  = run_steps(trained, 100);

    CHECK(ipu_model_create(&inference));
    x = ipu_model_input(inference, IPU_FLOAT, IPU_SHAPE(BATCH, IN), "x");
    ipu_model_output(inference, network(inference, x), "score");
    ipu_onnx_write_options how = {.engine = trained, .graph_name = "sphere"};
    CHECK(ipu_onnx_write_memory(inference, &how, &data, &bytes)); /* ipu_onnx_write: to a file */

    CHECK(ipu_onnx_read(data, bytes, NULL, &file)); /* ipu_onnx_open: from a file */
    ipu_free(data);
    show(file);
    compare(file, inference, trained, &target);

    const char *name;
    CHECK(ipu_onnx_import(file, &(ipu_onnx_options){.training = true}, &again));
    printf("the file as a model: %zu parameters", ipu_model_n_parameters(again));
    ipu_engine *further = train(again, ipu_model_output_at(again, 0, &name), &target);
    float       after   = run_steps(further, 200);
    EXPECT(after < before);
    printf(", further steps lower the loss\n");

    ipu_engine_destroy(further);
    ipu_engine_destroy(trained);
    ipu_onnx_close(file);
    ipu_model_destroy(again);
    ipu_model_destroy(inference);
    ipu_model_destroy(m);
    return 0;
}
