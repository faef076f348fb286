/* 22: replicas: the same network on several IPUs, each with samples of its own.
 *
 * Teaches data parallel training (ipu_executor_options.replicas): the arrays of a run hold a batch for each
 * replica, gradients are averaged over all of them before the step, and so eight replicas with a batch of 2
 * make the step that one makes with a batch of 16. On the host, replicas of a network whose samples do not
 * depend on each other run as one larger batch; a network with dropout cannot, since each replica drops
 * elements of its own, and the executor says so. The modelled cost is that of eight IPUs either way.
 *
 * Expect:
 *     8 replicas, folded: 16 samples a run
 *     8 losses
 *     8 replicas, one by one: 16 samples a run
 *     8 losses
 *     1 replica: 16 samples a run
 *     1 loss
 *     the weights are the same to rounding
 *     with dropout: the network draws random numbers, which differ between replicas
 */
#include <math.h>
#include <string.h>

#include "example.h"

enum { N = 16, FEATURES = 5, HIDDEN = 7, CLASSES = 3, N_WEIGHTS = FEATURES * HIDDEN };

/* `user` NULL: no elements are dropped. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_tanh(b, ipu_nn_linear(m, in[0], HIDDEN, "hidden"));
    if (user) x = ipu_nn_dropout(m, x, 0.5);
    x = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "scores"), 1);
    if (n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

static float   features[N * FEATURES];
static int32_t labels[N];

static void make_samples(void)
{
    uint32_t seed = 3;
    for (int i = 0; i < N * FEATURES; i++) {
        seed        = seed * 1664525u + 1013904223u;
        features[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < N; i++) labels[i] = (features[i * FEATURES] > 0) + (features[i * FEATURES + 1] > 0);
}

static ipu_executor *train(ipu_module *module, const ipu_executor_options *options)
{
    const ipu_array in[] = {{IPU_FLOAT, IPU_SHAPE(N, FEATURES), features}, {IPU_INT32, IPU_SHAPE(N), labels}};
    ipu_executor   *x;
    CHECK(ipu_training_model(module, options, &(ipu_nn_training){.optimizer = {.rate = 0.2, .momentum = 0.9}},
                             &x));
    for (int step = 0; step < 10; step++) CHECK(ipu_executor_run(x, in, 2));
    return x;
}

/* Trains `replicas` from the same beginning as all others, and keeps the first layer's weights. */
static void compare(int64_t replicas, bool no_fold, float weights[N_WEIGHTS])
{
    ipu_executor_options options = {.replicas = replicas, .no_fold = no_fold};
    ipu_module          *module;
    const ipu_array     *a;
    CHECK(ipu_module_create(forward, NULL, &module));
    ipu_executor *x = train(module, &options);
    EXPECT((*ipu_executor_fold_reason(x) == 0) == (replicas > 1 && !no_fold));
    EXPECT(ipu_device_n_ipus(ipu_engine_device(ipu_executor_engine(x))) == replicas);
    printf("%d replica%s%s: %d samples a run\n", (int)replicas, replicas > 1 ? "s" : "",
           no_fold        ? ", one by one"
           : replicas > 1 ? ", folded"
                          : "",
           N);
    printf("%d loss%s\n", (int)ipu_array_n_elements(ipu_executor_output(x, "loss")),
           replicas > 1 ? "es" : "");
    CHECK(ipu_module_weight(module, "hidden.weight", &a));
    memcpy(weights, a->data, N_WEIGHTS * sizeof *weights);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

int main(void)
{
    float       folded[N_WEIGHTS], apart[N_WEIGHTS], one[N_WEIGHTS];
    ipu_module *module;
    make_samples();
    compare(8, false, folded);
    compare(8, true, apart);
    compare(1, false, one);
    for (int i = 0; i < N_WEIGHTS; i++) {
        EXPECT(fabsf(folded[i] - apart[i]) < 1e-5f);
        EXPECT(fabsf(folded[i] - one[i]) < 1e-5f);
    }
    printf("the weights are the same to rounding\n");

    bool drops = true;
    CHECK(ipu_module_create(forward, &drops, &module));
    ipu_executor *x = train(module, &(ipu_executor_options){.replicas = 8});
    printf("with dropout: %s\n", ipu_executor_fold_reason(x));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return 0;
}
