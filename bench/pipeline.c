/* Pipelines on several host threads: two balanced stages on one thread and on two, in the same run, and what each
 * schedule would take on the chip.
 *
 *     pipeline [--width N] [--batch N] [--steps N] [NAME...]
 *
 * A network of eight equal layers in two stages, trained with 32 batches to a step. The two numbers of threads take
 * turns; the best of some rounds counts. Cycles and bytes are modelled: of a run, and of variables that are live all the
 * time on all tiles. The bar is for the schedules in which stages overlap.
 */
#include <string.h>

#include "bench.h"

enum { N_LAYERS = 8, N_STAGES = 2, ACCUMULATION = 32, ROUNDS = 8 };
static const double bar = 1.6;

typedef struct setting {
    int64_t width, batch, steps;
} setting;

typedef struct row {
    const char           *name;
    ipu_pipeline_schedule schedule;
    bool                  recompute, off_chip, is_plain, has_bar;
} row;

static const row rows[] = {{"one IPU", 0, false, false, true, false},
                           {"grouped", IPU_PIPELINE_GROUPED, false, false, false, true},
                           {"grouped, recompute", IPU_PIPELINE_GROUPED, true, false, false, true},
                           {"grouped, off chip", IPU_PIPELINE_GROUPED, false, true, false, true},
                           {"interleaved", IPU_PIPELINE_INTERLEAVED, false, false, false, false},
                           {"sequential", IPU_PIPELINE_SEQUENTIAL, false, false, false, false}};

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const setting *s = user;
    ipu_builder   *b = ipu_model_builder(m);
    ipu_value      x = in[0];
    (void)n;
    for (int i = 0; i < N_LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "fc%d", i);
        x = ipu_relu(b, ipu_nn_linear(m, x, s->width, name));
    }
    ipu_nn_loss(m, ipu_mse_loss(b, x, in[1], IPU_LOSS_MEAN), "loss");
}

typedef struct trainer {
    ipu_options  *options;
    ipu_module   *module;
    ipu_executor *executor;
    ipu_array     in[2];
    double        best; /* seconds of a step */
} trainer;

static void make(trainer *t, setting *s, const row *r, const char *threads)
{
    *t = (trainer){.best = 1e9};
    BENCH_CHECK(ipu_options_create(&t->options));
    BENCH_CHECK(ipu_options_set(t->options, "threads", threads));
    ipu_executor_options how = {.gradient_accumulation = ACCUMULATION,
                                .stages                = r->is_plain ? 0 : N_STAGES,
                                .schedule              = r->schedule,
                                .recompute             = r->recompute,
                                .activations_off_chip  = r->off_chip,
                                .engine                = t->options,
                                .cache_folder          = ""};
    BENCH_CHECK(ipu_module_create(forward, s, &t->module));
    BENCH_CHECK(ipu_training_model(t->module, &how, NULL, &t->executor));
    for (int i = 0; i < 2; i++) {
        BENCH_CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(s->batch * ACCUMULATION, s->width), &t->in[i]));
        float *x = t->in[i].data;
        for (int64_t k = 0; k < ipu_array_n_elements(&t->in[i]); k++) x[k] = (float)(k % 17) / 17;
    }
    BENCH_CHECK(ipu_executor_run(t->executor, t->in, 2));
}

static void take_turn(trainer *t, int64_t steps)
{
    double begin = bench_now();
    for (int64_t i = 0; i < steps; i++) BENCH_CHECK(ipu_executor_run(t->executor, t->in, 2));
    double took = (bench_now() - begin) / (double)steps;
    if (took < t->best) t->best = took;
}

static void unmake(trainer *t)
{
    ipu_executor_destroy(t->executor);
    ipu_module_destroy(t->module);
    ipu_options_destroy(t->options);
    for (int i = 0; i < 2; i++) ipu_array_free(&t->in[i]);
}

static void measure(setting *s, const row *r)
{
    trainer          one, two;
    ipu_cost        *cost;
    ipu_cost_cycles  cycles;
    ipu_cost_summary all;
    make(&one, s, r, "1");
    make(&two, s, r, "2");
    for (int i = 0; i < ROUNDS; i++) take_turn(&one, s->steps), take_turn(&two, s->steps);
    BENCH_CHECK(ipu_executor_cost(one.executor, NULL, &cost));
    ipu_cost_program_at(cost, 0, &cycles);
    ipu_cost_get_summary(cost, &all);
    double ratio = one.best / two.best;
    printf("%-20s %9.2f %9.2f %6.2fx %-12s %11lld %11lld\n", r->name, one.best * 1e3, two.best * 1e3, ratio,
           !r->has_bar    ? ""
           : ratio >= bar ? "ok"
                          : "BELOW 1.6x",
           (long long)cycles.total, (long long)all.memory[IPU_MEMORY_ALWAYS_LIVE]);
    ipu_cost_destroy(cost);
    unmake(&one);
    unmake(&two);
}

int main(int argc, char **argv)
{
    setting s  = {256, 32, 1};
    int     at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        int64_t value = strtoll(argv[at + 1], NULL, 10);
        if (strcmp(argv[at], "--width") == 0) s.width = value;
        if (strcmp(argv[at], "--batch") == 0) s.batch = value;
        if (strcmp(argv[at], "--steps") == 0) s.steps = value;
    }
    printf("%-20s %9s %9s %7s %-12s %11s %11s\n", "ms per step", "1 thread", "2 threads", "ratio", "",
           "cycles", "kept bytes");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool wanted = at == argc;
        for (int k = at; k < argc; k++) wanted |= strcmp(argv[k], rows[i].name) == 0;
        if (wanted) measure(&s, &rows[i]);
    }
    return 0;
}
