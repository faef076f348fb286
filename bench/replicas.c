/* Replicas on host threads: 8 of a batch each, folded into one larger batch and one by one, beside one
 * replica with that larger batch, in the same run.
 *
 *     replicas [--threads N] [NAME...]
 *
 * Steps of training on digits that lie ready in memory, in turn, the best of many short rounds. Folded replicas may
 * take 1.15 times what one replica takes. /
 */
#include <string.h>

#include "bench.h"

enum { REPLICAS = 8, SIDE = 28, ROUNDS = 60, LEAST = 5, MOST_SECONDS = 10 };
static const double BAR = 1.15;

typedef struct row {
    const char *name;
    int64_t     batch;
} row;

static const row rows[] = {{"seed-cnn", 4}, {"seed-cnn", 16}, {"mnist-cnn", 4}, {"mnist-cnn", 16}};

typedef struct trainer {
    ipu_module   *module;
    ipu_executor *executor;
} trainer;

static trainer trainer_make(const char *name, const ipu_executor_options *options)
{
    trainer t;
    BENCH_CHECK(ipu_module_named(name, &t.module));
    BENCH_CHECK(ipu_training_model(
        t.module, options, &(ipu_nn_training){.optimizer = {.rate = 1e-3, .momentum = 0.9}}, &t.executor));
    return t;
}

static void trainer_end(trainer *t)
{
    ipu_executor_destroy(t->executor);
    ipu_module_destroy(t->module);
}

static double seconds_per_step(trainer *t, const ipu_array in[2], int steps)
{
    double begin = bench_now();
    for (int i = 0; i < steps; i++) BENCH_CHECK(ipu_executor_run(t->executor, in, 2));
    return (bench_now() - begin) / steps;
}

static void make_samples(int64_t n, ipu_array in[2])
{
    uint32_t seed = 1;
    BENCH_CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, 1, SIDE, SIDE), &in[0]));
    BENCH_CHECK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &in[1]));
    for (int64_t i = 0; i < n * SIDE * SIDE; i++) {
        seed                     = seed * 1664525u + 1013904223u;
        ((float *)in[0].data)[i] = (float)(seed >> 8) * 0x1p-24f;
    }
    for (int64_t i = 0; i < n; i++) ((int32_t *)in[1].data)[i] = (int32_t)(i * 7 % 10);
}

/* One replica, folded, one by one; false: folded ones are over the bar. */
static bool compare(const row *r, const ipu_options *engine, const char *threads)
{
    ipu_executor_options how[3] = {
        {.replicas = 1}, {.replicas = REPLICAS}, {.replicas = REPLICAS, .no_fold = true}};
    double    best[3] = {1e9, 1e9, 1e9};
    trainer   t[3];
    ipu_array in[2];
    make_samples(r->batch * REPLICAS, in);
    for (int k = 0; k < 3; k++) {
        how[k].engine       = engine;
        how[k].cache_folder = "";
        t[k]                = trainer_make(r->name, &how[k]);
        seconds_per_step(&t[k], in, 5);
    }
    int    steps = (int)(0.02 / seconds_per_step(&t[0], in, 5)) + 1;
    double begin = bench_now();
    for (int i = 0; i < ROUNDS && (i < LEAST || bench_now() - begin < MOST_SECONDS); i++)
        for (int k = 0; k < 3; k++) {
            double seconds = seconds_per_step(&t[k], in, steps);
            if (seconds < best[k]) best[k] = seconds;
        }
    double folded = best[1] / best[0], apart = best[2] / best[0];
    printf("%-10s %5lld %7s %12.3f %12.3f %7.2f %12.3f %7.2f%s\n", r->name, (long long)r->batch, threads,
           1e3 * best[0], 1e3 * best[1], folded, 1e3 * best[2], apart, folded > BAR ? "  over 1.15" : "");
    for (int k = 0; k < 3; k++) trainer_end(&t[k]);
    for (int k = 0; k < 2; k++) ipu_array_free(&in[k]);
    return folded <= BAR;
}

static bool is_asked_for(const char *name, char *const *names, int n)
{
    bool found = n == 0;
    for (int i = 0; i < n; i++) found |= strcmp(names[i], name) == 0;
    return found;
}

int main(int argc, char **argv)
{
    const char  *threads = "2";
    ipu_options *engine;
    bool         ok = true;
    if (argc > 2 && strcmp(argv[1], "--threads") == 0) {
        threads = argv[2];
        argc -= 2, argv += 2;
    }
    BENCH_CHECK(ipu_options_create(&engine));
    BENCH_CHECK(ipu_options_set(engine, "threads", threads));
    printf("%-10s %5s %7s %12s %12s %7s %12s %7s\n", "network", "batch", "threads", "1 x 8B ms", "folded ms",
           "ratio", "one by one", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is_asked_for(rows[i].name, argv + 1, argc - 1)) ok &= compare(&rows[i], engine, threads);
    ipu_options_destroy(engine);
    return ok ? 0 : 1;
}
