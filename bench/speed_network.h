/* One network, trained or run by an executor, with inputs that lie in memory. */
#ifndef IPU_BENCH_SPEED_NETWORK_H
#define IPU_BENCH_SPEED_NETWORK_H

#include <math.h>
#include <string.h>

#include "bench.h"
#include "../tests/support/networks.h"

typedef struct speed_ours {
    const network *net;
    bool           trains;
    ipu_options   *options;
    ipu_module    *module;
    ipu_executor  *executor;
    ipu_array      in[2];
} speed_ours;

static const network *speed_network(const char *name)
{
    for (size_t i = 0; i < N_NETWORKS; i++)
        if (strcmp(networks[i].name, name) == 0) return &networks[i];
    fprintf(stderr, "there is no network %s\n", name);
    exit(1);
}

static void speed_forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const network *net    = user;
    ipu_value      scores = net->forward(m, in[0]);
    if (ipu_nn_is_training(m) && n > 1)
        ipu_nn_loss(m, ipu_nll_loss(ipu_model_builder(m), scores, in[1]), "loss");
    else
        ipu_model_output(m, scores, "scores");
}

static void speed_fill(speed_ours *s, int64_t batch)
{
    ipu_shape shape = {.rank = s->net->input.rank + 1, .dim = {batch}};
    memcpy(shape.dim + 1, s->net->input.dim, (size_t)s->net->input.rank * sizeof *shape.dim);
    BENCH_CHECK(ipu_array_create(IPU_FLOAT, shape, &s->in[0]));
    BENCH_CHECK(ipu_array_create(IPU_INT32, IPU_SHAPE(batch), &s->in[1]));
    float   *x      = s->in[0].data;
    int32_t *labels = s->in[1].data;
    uint32_t state  = 1;
    for (int64_t i = 0; i < ipu_array_n_elements(&s->in[0]); i++) {
        state = state * 1664525 + 1013904223; /* Knuth's; as spread out as normal numbers of variance 1 */
        x[i]  = ((float)(state >> 8) / 8388608.0f - 1) * 1.732f;
    }
    for (int64_t i = 0; i < batch; i++) labels[i] = (int32_t)(i * 7 % 10);
}

static void speed_make(speed_ours *s, const char *name, int64_t batch, bool trains, const char *threads,
                       bool measured, ipu_precision precision)
{
    *s = (speed_ours){.net = speed_network(name), .trains = trains};
    speed_fill(s, batch);
    BENCH_CHECK(ipu_options_create(&s->options));
    BENCH_CHECK(ipu_options_set(s->options, "threads", threads));
    if (measured) BENCH_CHECK(ipu_options_set(s->options, "profile", "true"));
    ipu_executor_options how      = {.engine = s->options, .cache_folder = "", .precision = precision};
    ipu_nn_training      training = {.optimizer = {.rate = 1e-3, .momentum = 0.9}};
    BENCH_CHECK(ipu_module_create(speed_forward, (void *)(uintptr_t)s->net, &s->module));
    if (trains)
        BENCH_CHECK(ipu_training_model(s->module, &how, &training, &s->executor));
    else
        BENCH_CHECK(ipu_inference_model(s->module, &how, &s->executor));
    BENCH_CHECK(ipu_executor_compile(s->executor, s->in, trains ? 2 : 1));
}

static void speed_end(speed_ours *s)
{
    ipu_executor_destroy(s->executor);
    ipu_module_destroy(s->module);
    ipu_options_destroy(s->options);
    for (int i = 0; i < 2; i++) ipu_array_free(&s->in[i]);
}

/* Seconds per call. */
static double speed_time(speed_ours *s, int calls)
{
    double begin = bench_now();
    for (int i = 0; i < calls; i++) BENCH_CHECK(ipu_executor_run(s->executor, s->in, s->trains ? 2 : 1));
    return (bench_now() - begin) / calls;
}

#endif
