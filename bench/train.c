/* Training, loading included: images per second beside eager PyTorch in the same run, and what it takes to
 * begin.
 *
 *     train [--threads N] [--data FOLDER] [NAME...]
 *
 * FOLDER holds MNIST's IDX files, not compressed; without it digits are drawn. Steps of our executor with a
 * loader, steps with batches that lie ready in memory, and PyTorch's run in turn, the best of some rounds.
 * PyTorch has its images in memory and gathers a batch by one index, the least that loading can take there;
 * "DataLoader" is its own. in next: share of a step that is spent in ipu_loader_next. loading: what a step
 * takes longer than with ready batches, workers and caches included. Start and memory are those of a fresh
 * process: from before exec to the end of its first step, and its peak after a whole epoch. Needs
 * python3-torch.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

typedef struct row {
    const char *name;
    int64_t     batch;
    double      bar; /* of PyTorch's speed with its DataLoader, at 2 threads; 0: none */
} row;

static const row rows[] = {
    {"seed-cnn", 16, 4}, {"seed-cnn", 64, 0}, {"mnist-cnn", 16, 0}, {"mnist-cnn", 64, 0}};

enum { N_READY = 64, LOADER_PERCENT = 5, PLAIN_MS = 150, GZIP_MS = 400, RESIDENT_MB = 120 };

/* ---- ours ---- */

typedef struct trainer {
    ipu_options  *options;
    ipu_dataset  *dataset;
    ipu_loader   *loader;
    ipu_module   *module;
    ipu_executor *executor;
    double        in_loader; /* seconds */
} trainer;

static void trainer_make(trainer *t, const char *name, int64_t batch, const char *threads, const char *folder)
{
    ipu_nn_training training = {.optimizer = {.rate = 1e-3, .momentum = 0.9}};
    *t                       = (trainer){0};
    BENCH_CHECK(ipu_options_create(&t->options));
    BENCH_CHECK(ipu_options_set(t->options, "threads", threads));
    ipu_executor_options how = {.engine = t->options, .cache_folder = ""};
    BENCH_CHECK(ipu_dataset_open(folder, IPU_TRAIN, NULL, &t->dataset));
    BENCH_CHECK(ipu_loader_create(t->dataset, &how,
                                  &(ipu_loader_options){.batch_size = batch, .shuffle = true}, &t->loader));
    BENCH_CHECK(ipu_module_named(name, &t->module));
    BENCH_CHECK(ipu_training_model(t->module, &how, &training, &t->executor));
}

static void trainer_end(trainer *t)
{
    ipu_executor_destroy(t->executor);
    ipu_module_destroy(t->module);
    ipu_loader_destroy(t->loader);
    ipu_dataset_destroy(t->dataset);
    ipu_options_destroy(t->options);
}

static ipu_batch next_batch(trainer *t)
{
    ipu_batch batch;
    double    begin = bench_now();
    while (!ipu_loader_next(t->loader, &batch))
        BENCH_CHECK(ipu_loader_status(t->loader)); /* the next epoch */
    t->in_loader += bench_now() - begin;
    return batch;
}

/* Seconds per step. `ready`: batches to take in turn instead of the loader's; NULL: none. */
static double our_time(trainer *t, int steps, ipu_array (*ready)[2])
{
    double begin = bench_now();
    for (int i = 0; i < steps; i++) {
        const ipu_array *arrays = ready ? ready[i % N_READY] : next_batch(t).arrays;
        BENCH_CHECK(ipu_executor_run(t->executor, arrays, 2));
    }
    return (bench_now() - begin) / steps;
}

static void make_ready(trainer *t, ipu_array (*ready)[2])
{
    for (int i = 0; i < N_READY; i++) {
        ipu_batch batch = next_batch(t);
        for (int k = 0; k < 2; k++) {
            const ipu_array *a = &batch.arrays[k];
            BENCH_CHECK(ipu_array_create(a->type, a->shape, &ready[i][k]));
            memcpy(ready[i][k].data, a->data, ipu_array_bytes(a));
        }
    }
}

/* ---- beside PyTorch ---- */

static bool peer_train(bench_peer *p, const row *r, const char *folder, const char *how)
{
    char line[512];
    snprintf(line, sizeof line, "train %s %lld %s %s", r->name, (long long)r->batch, folder, how);
    return bench_ask(p, line, sizeof line) && strncmp(line, "ready", 5) == 0;
}

/* Not the median: one disturbed thread stops the others, and on a busy machine most rounds are disturbed. */
static double best(const double *times, int n)
{
    double least = times[0];
    for (int i = 1; i < n; i++) least = times[i] < least ? times[i] : least;
    return least;
}

static double per_second(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static void compare(bench_peer *p, const row *r, const char *threads, const char *folder)
{
    enum { ROUNDS = 9 };
    double    with[ROUNDS], without[ROUNDS], gathered[ROUNDS], loaded[ROUNDS], inside[ROUNDS];
    ipu_array ready[N_READY][2];
    trainer   t;
    trainer_make(&t, r->name, r->batch, threads, folder);
    make_ready(&t, ready);
    our_time(&t, 20, NULL);
    int steps = (int)(0.15 / our_time(&t, 50, NULL)) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        t.in_loader = 0;
        with[i]     = our_time(&t, steps, NULL);
        inside[i]   = t.in_loader / steps;
        without[i]  = our_time(&t, steps, ready);
        gathered[i] = peer_train(p, r, folder, "gather") ? bench_peer_time(p, steps / 2 + 1) : 0;
        loaded[i]   = peer_train(p, r, folder, "loader") ? bench_peer_time(p, steps / 2 + 1) : 0;
    }
    double a = best(with, ROUNDS), b = best(without, ROUNDS);
    double c = best(gathered, ROUNDS), d = best(loaded, ROUNDS);
    double in_next = 100 * best(inside, ROUNDS) / a, loading = 100 * (a - b) / a;
    printf("%-10s %5lld %7s %9.0f %9.0f %7.2f %11.0f %7.2f %8.1f%% %8.1f%%%s\n", r->name, (long long)r->batch,
           threads, per_second(r->batch, a), per_second(r->batch, c), c / a, per_second(r->batch, d), d / a,
           in_next, loading,
           r->bar > 0 && (d / a < r->bar || in_next > LOADER_PERCENT) ? "  below its bar" : "");
    fflush(stdout);
    for (int i = 0; i < N_READY; i++)
        for (int k = 0; k < 2; k++) ipu_array_free(&ready[i][k]);
    trainer_end(&t);
}

/* ---- beginning ---- */

static double peak_mb(void)
{
    char   line[256];
    double found = 0;
    FILE  *f     = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0) found = 1024e-6 * strtod(line + 6, NULL);
    if (f) fclose(f);
    return found;
}

/* The child: a step, which it tells of, then an epoch, and its peak. */
static int run_first(const char *name, const char *threads, const char *folder, bool whole_epoch)
{
    trainer t;
    trainer_make(&t, name, 16, threads, folder);
    our_time(&t, 1, NULL);
    printf("1\n");
    fflush(stdout);
    if (whole_epoch) our_time(&t, (int)ipu_loader_n_batches(t.loader), NULL);
    printf("%f\n", peak_mb());
    trainer_end(&t);
    return 0;
}

/* Seconds from here to the first step of a new process; *peak in MB. */
static double start_to_first(const char *self, const char *threads, const char *folder, bool whole_epoch,
                             double *peak)
{
    int  up[2];
    char line[64];
    if (pipe(up) != 0) exit(1);
    double begin = bench_now();
    pid_t  child = fork();
    if (child == 0) {
        dup2(up[1], 1);
        close(up[0]);
        execl(self, self, whole_epoch ? "--epoch" : "--first", threads, folder, (char *)NULL);
        _exit(127);
    }
    close(up[1]);
    FILE  *from = fdopen(up[0], "r");
    bool   told = from && fgets(line, sizeof line, from);
    double took = bench_now() - begin;
    told        = told && fgets(line, sizeof line, from);
    *peak       = told ? strtod(line, NULL) : 0;
    if (from) fclose(from);
    waitpid(child, NULL, 0);
    return told ? took : 1e9;
}

static void report_start(const char *self, const char *threads, const char *folder, const char *what,
                         int limit_ms)
{
    enum { ROUNDS = 7 };
    double times[ROUNDS], peak;
    for (int i = 0; i < ROUNDS; i++) times[i] = start_to_first(self, threads, folder, false, &peak);
    double ms = 1e3 * bench_median(times, ROUNDS);
    start_to_first(self, threads, folder, true, &peak);
    printf("seed-cnn, %-5s  to first step %6.1f ms%s   resident %6.1f MB%s\n", what, ms,
           ms > limit_ms ? " (OVER)" : "", peak, peak > RESIDENT_MB ? " (OVER)" : "");
    fflush(stdout);
}

/* ---- data ---- */

static void shell(const char *format, const char *a, const char *b)
{
    char line[1024];
    snprintf(line, sizeof line, format, a, b);
    if (system(line) != 0) exit(1); /* NOLINT(cert-env33-c): paths of our own */
}

static void measure(const char *self, const char *threads, const char *folder, const char *zipped,
                    char **names, int n_names)
{
    bench_peer p;
    if (!bench_start_peer(&p, threads)) exit(1);
    printf("%-10s %5s %7s %9s %9s %7s %11s %7s %9s %9s\n", "images/s", "batch", "threads", "ours", "PyTorch",
           "ratio", "DataLoader", "ratio", "in next", "loading");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool wanted = n_names == 0;
        for (int k = 0; k < n_names; k++) wanted |= strcmp(names[k], rows[i].name) == 0;
        if (wanted) compare(&p, &rows[i], threads, folder);
    }
    bench_end_peer(&p);
    report_start(self, threads, folder, "plain", PLAIN_MS);
    report_start(self, threads, zipped, "gzip", GZIP_MS);
}

int main(int argc, char **argv)
{
    const char *threads = "2", *folder = NULL;
    char        box[] = "/tmp/ipu-bench-XXXXXX", drawn[64], zipped[64], self[1024];
    int         at    = 1;
    if (argc == 4 && (strcmp(argv[1], "--first") == 0 || strcmp(argv[1], "--epoch") == 0))
        return run_first("seed-cnn", argv[2], argv[3], argv[1][2] == 'e');
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--threads") == 0) threads = argv[at + 1];
        if (strcmp(argv[at], "--data") == 0) folder = argv[at + 1];
    }
    signal(SIGPIPE, SIG_IGN);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0 || !mkdtemp(box)) return 1;
    self[n] = 0;
    snprintf(drawn, sizeof drawn, "%s/plain", box);
    snprintf(zipped, sizeof zipped, "%s/gzip", box);
    if (!folder) BENCH_CHECK(ipu_digits_write(folder = drawn, NULL, NULL, NULL));
    shell("to='%s'; mkdir \"$to\" && cp '%s'/*-ubyte \"$to\" && gzip \"$to\"/*", zipped, folder);
    measure(self, threads, folder, zipped, argv + at, argc - at);
    shell("rm -r '%s'%s", box, "");
    return 0;
}
