/* Whole networks: how long a training step takes to compile, and the memory it plans and uses.
 *
 *     models [NAME...]        each in a process of its own, so that peaks do not mix
 *
 * compile: model to executable, the best of some. planned: what the engine will hold. run: growth of the resident set
 * over that of the empty process while steps run, with model and executable let go.
 */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "../tests/support/networks.h"

typedef struct row {
    const char *name;
    int64_t     batch;
    double      limit_ms; /* 0: none */
    int         compiles;
} row;

static const row rows[] = {
    {"seed-cnn", 16, 20, 9}, {"mnist-cnn", 16, 0, 9}, {"mlp", 16, 0, 9},        {"lstm", 64, 0, 5},
    {"resnet18", 8, 0, 3},   {"bert-mini", 4, 0, 3},  {"resnet50", 1, 1000, 3}, {"bert-base", 1, 1500, 3},
};

static const double MIB = 1 << 20;

/* A line of /proc/self/status, in bytes. */
static double memory_of(const char *key)
{
    char   line[256];
    double found = 0;
    FILE  *f     = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) found = 1024 * strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return found;
}

/* From now on VmHWM is the peak since now. */
static void reset_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

static const network *find_network(const char *name)
{
    for (size_t i = 0; i < N_NETWORKS; i++)
        if (strcmp(networks[i].name, name) == 0) return &networks[i];
    return NULL;
}

static double weight_bytes(ipu_model *m)
{
    double sum = 0;
    for (size_t i = 0; i < ipu_model_n_parameters(m); i++)
        sum += 4 * (double)ipu_value_n_elements(ipu_model_parameter_at(m, i));
    return sum;
}

static double time_compile(ipu_model *m, const ipu_target *target, int n, ipu_executable **out)
{
    double best = 1e9;
    for (int i = 0; i < n; i++) {
        ipu_executable_release(*out);
        double begin = bench_now();
        BENCH_CHECK(ipu_model_compile(m, target, NULL, out));
        double seconds = bench_now() - begin;
        if (seconds < best) best = seconds;
    }
    return best;
}

static void measure(const row *r)
{
    const network  *net = find_network(r->name);
    ipu_target      target;
    ipu_model      *m;
    ipu_executable *exe = NULL;
    ipu_engine     *e;
    int64_t         planned, unshared;
    double          empty = memory_of("VmRSS:");
    BENCH_CHECK(ipu_target_find("gc200", 1, &target));
    BENCH_CHECK(ipu_model_create(&m));
    double begin = bench_now();
    network_build(m, net, r->batch, true, 0.01);
    double built = bench_now() - begin;
    BENCH_CHECK(ipu_builder_status(ipu_model_builder(m)));
    size_t n_ops   = ipu_model_n_ops(m);
    double weights = weight_bytes(m), compiled = time_compile(m, &target, r->compiles, &exe);
    ipu_executable_memory(exe, &planned, &unshared);
    ipu_model_destroy(m);
    BENCH_CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    reset_peak();
    for (int i = 0; i < 2; i++) BENCH_CHECK(ipu_engine_run(e, 0));
    double used = memory_of("VmHWM:") - empty;
    ipu_engine_destroy(e);
    char limit[32] = "";
    if (r->limit_ms > 0)
        snprintf(limit, sizeof limit, "%s %.0f", compiled * 1e3 < r->limit_ms ? "<" : "OVER", r->limit_ms);
    printf("%-10s %5lld %6zu %9.1f %9.1f %-9s %9.1f %9.1f %9.1f %9.1f %6.2f\n", r->name, (long long)r->batch,
           n_ops, built * 1e3, compiled * 1e3, limit, weights / MIB, (double)planned / MIB,
           (double)unshared / MIB, used / MIB, used / (double)planned);
    fflush(stdout);
}

/* In a child, whose exit status says whether it went well. */
static bool measure_apart(const row *r)
{
    int   status = 1;
    pid_t child  = fork();
    if (child == 0) {
        measure(r);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    bool ok = true;
    printf("%-10s %5s %6s %9s %9s %-9s %9s %9s %9s %9s %6s\n", "network", "batch", "ops", "build ms",
           "compile", "limit", "weights", "planned", "unshared", "run MiB", "ratio");
    fflush(stdout);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++) wanted |= strcmp(argv[k], rows[i].name) == 0;
        if (wanted) ok = measure_apart(&rows[i]) && ok;
    }
    return ok ? 0 : 1;
}
