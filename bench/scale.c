/* Several processes that train together: images per second of ranks of one thread, as many as there are processors, beside
 * one rank of one, and what share of the time they wait for one another.
 *
 *     scale [NETWORK [BATCH]]      mnist-cnn, 64 pictures to each rank
 *
 * Ranks are started with mpirun, in turn with the one they are compared to, and each counts its best round: on a machine
 * that does other things too, only the ratio means something, and where others take the processors not even that: the last
 * column is what an image costs in processor time, of all threads, beside one rank alone, which does not depend on them. The
 * bar: 0.9 of as many times one. Needs openmpi-bin.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { TURNS = 3, ROUNDS = 5, STEPS = 20, WARM = 3, PIXELS = 28, MOST = 8 };

static const double bar = 0.9; /* of perfect scaling */

/* ---- one rank ---- */

typedef struct trainer {
    ipu_comm     *comm;
    ipu_options  *options;
    ipu_module   *module;
    ipu_executor *executor;
    ipu_array     in[2];
} trainer;

static void make(trainer *t, const char *network, int64_t batch)
{
    const ipu_nn_training training = {.optimizer = {.rate = 1e-3, .momentum = 0.9}};
    BENCH_CHECK(ipu_comm_open(&t->comm));
    BENCH_CHECK(ipu_options_create(&t->options));
    BENCH_CHECK(ipu_options_set(t->options, "threads", "1"));
    ipu_executor_options how = {.engine = t->options, .cache_folder = "", .comm = t->comm};
    BENCH_CHECK(ipu_module_named(network, &t->module));
    BENCH_CHECK(ipu_training_model(t->module, &how, &training, &t->executor));
    BENCH_CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(batch, 1, PIXELS, PIXELS), &t->in[0]));
    BENCH_CHECK(ipu_array_create(IPU_INT32, IPU_SHAPE(batch), &t->in[1]));
    float   *x    = t->in[0].data;
    uint32_t seed = 1 + (uint32_t)ipu_comm_rank(t->comm);
    for (int64_t i = 0; i < batch * PIXELS * PIXELS; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int64_t i = 0; i < batch; i++) ((int32_t *)t->in[1].data)[i] = (int32_t)(i % 10);
}

static void end(trainer *t)
{
    for (int i = 0; i < 2; i++) ipu_array_free(&t->in[i]);
    ipu_executor_destroy(t->executor);
    ipu_module_destroy(t->module);
    ipu_options_destroy(t->options);
    ipu_comm_close(t->comm);
}

/* Seconds of processors that this process has had. */
static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Prints images per second of all ranks in the best round, the share of waiting in it, and processor seconds per image. */
static int run_rank(const char *network, int64_t batch)
{
    trainer t;
    double  best = 1e9, share = 0, cpu;
    make(&t, network, batch);
    for (int i = 0; i < WARM; i++) BENCH_CHECK(ipu_executor_run(t.executor, t.in, 2));
    cpu = cpu_now();
    for (int round = 0; round < ROUNDS; round++) {
        double before, after, begin = bench_now();
        ipu_engine_comm_counters(ipu_executor_engine(t.executor), &before, NULL);
        for (int i = 0; i < STEPS; i++) BENCH_CHECK(ipu_executor_run(t.executor, t.in, 2));
        double seconds = bench_now() - begin;
        ipu_engine_comm_counters(ipu_executor_engine(t.executor), &after, NULL);
        if (seconds >= best) continue;
        best  = seconds;
        share = (after - before) / seconds;
    }
    cpu = (cpu_now() - cpu) / (double)(ROUNDS * STEPS * batch);
    if (ipu_comm_rank(t.comm) == 0)
        printf("%.1f %.6f %.9f\n", (double)(STEPS * batch * ipu_comm_size(t.comm)) / best, share, cpu);
    end(&t);
    return 0;
}

/* ---- all of them ---- */

typedef struct result {
    double speed, share, cpu;
} result;

static bool measure(int ranks, const char *self, const char *network, int64_t batch, result *best)
{
    char   command[4096];
    result one = {0};
    snprintf(command, sizeof command,
             "mpirun %s --mca plm isolated --oversubscribe --bind-to none -n %d '%s' --rank '%s' %lld",
             geteuid() == 0 ? "--allow-run-as-root" : "", ranks, self, network, (long long)batch);
    FILE *p = popen(command, "r");
    if (!p) return false;
    int n = fscanf(p, "%lf %lf %lf", &one.speed, &one.share, &one.cpu);
    if (pclose(p) != 0 || n != 3) return false;
    if (best->speed > 0 && best->cpu < one.cpu) one.cpu = best->cpu;
    if (one.speed < best->speed) one = (result){best->speed, best->share, one.cpu};
    *best = one;
    return true;
}

int main(int argc, char **argv)
{
    bool        is_rank = argc > 1 && strcmp(argv[1], "--rank") == 0;
    const char *network = argc > 1 + is_rank ? argv[1 + is_rank] : "mnist-cnn";
    int64_t     batch   = argc > 2 + is_rank ? atoll(argv[2 + is_rank]) : 64;
    if (is_rank) return run_rank(network, batch);
    if (system("command -v mpirun > /dev/null") != 0) {
        printf("scale: no mpirun here: apt-get install openmpi-bin\n");
        return 0;
    }
    result best[MOST] = {{0}};
    long   processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool   ok         = true;
    int    n          = 1;
    while (n < MOST && 1 << n <= processors) n++;
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < n; i++)
            if (!measure(1 << i, argv[0], network, batch, &best[i])) {
                fprintf(stderr, "scale: %d ranks did not come to an end\n", 1 << i);
                return 1;
            }
    printf("%s, %lld pictures to each rank of 1 thread, %ld processors\n", network, (long long)batch,
           processors);
    printf("%6s %12s %8s %14s %12s\n", "ranks", "images/s", "speed-up", "communication", "CPU/image");
    for (int i = 0; i < n; i++) {
        double times = best[i].speed / best[0].speed;
        bool   holds = times >= bar * (1 << i);
        printf("%6d %12.0f %7.2fx %12.1f %% %11.2fx%s\n", 1 << i, best[i].speed, times, 100 * best[i].share,
               best[i].cpu / best[0].cpu, holds ? "" : "   below the bar");
        ok = ok && holds;
    }
    return ok ? 0 : 1;
}
