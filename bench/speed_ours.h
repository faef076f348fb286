/* Our side of bench/speed.c: one network, trained or run by an executor, in a process that answers lines.
 *
 * The lines are those of bench/torch/speed.py. speed_profile prints host times of its steps instead.
 */
#ifndef IPU_BENCH_SPEED_OURS_H
#define IPU_BENCH_SPEED_OURS_H

#include <math.h>
#include <string.h>

#include "speed_network.h"

/* ---- a process of its own ---- */

/* A line of /proc/self/status, in bytes. */
static double speed_memory(const char *key)
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
static void speed_forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

static int64_t speed_weights(speed_ours *s)
{
    int64_t sum = 0;
    for (size_t i = 0; i < ipu_module_n_weights(s->module); i++) {
        const ipu_array *a;
        BENCH_CHECK(ipu_module_weight_at(s->module, i, NULL, &a));
        sum += ipu_array_n_elements(a);
    }
    return sum;
}

static int speed_work(const char *name, const char *batch, const char *mode, const char *threads)
{
    char       line[256];
    speed_ours s;
    double     empty = speed_memory("VmRSS:");
    speed_make(&s, name, strtoll(batch, NULL, 10), strcmp(mode, "train") == 0, threads, false,
               IPU_PRECISION_FLOAT);
    speed_time(&s, 3);
    printf("ready %.9g\n", ipu_executor_compile_seconds(s.executor, NULL));
    fflush(stdout);
    speed_forget_peak();
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "time ", 5) == 0) {
            speed_time(&s, 1);
            printf("%.9g\n", speed_time(&s, (int)strtol(line + 5, NULL, 10)));
        } else {
            double peak = speed_memory("VmHWM:");
            printf("%lld 0 %.0f %.0f\n", (long long)speed_weights(&s), peak - empty, peak);
        }
        fflush(stdout);
    }
    speed_end(&s);
    return 0;
}

/* ---- where the time goes ---- */

/* Seconds in one call, the least of some windows, and operations. A sum over steps of one kind has their name. */
typedef struct speed_step {
    char   name[48], shape[64]; /* shape: of its first operand */
    int    n;
    double seconds, operations, each; /* each: of one step */
} speed_step;

static int speed_by_time(const void *a, const void *b)
{
    double x = ((const speed_step *)a)->seconds, y = ((const speed_step *)b)->seconds;
    return (x < y) - (x > y);
}

static void speed_print_steps(speed_step *steps, size_t n, double least)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += steps[i].seconds;
    qsort(steps, n, sizeof *steps, speed_by_time);
    for (size_t i = 0; i < n && steps[i].seconds > least * sum; i++)
        printf("%10.1f %5.1f%% %5d %9.3f %8.1f  %s%s%s\n", 1e6 * steps[i].seconds,
               100 * steps[i].seconds / sum, steps[i].n, 1e-6 * steps[i].operations,
               steps[i].operations / steps[i].seconds * 1e-9, steps[i].name, *steps[i].shape ? "  " : "",
               steps[i].shape);
}

static bool speed_same(const speed_step *a, const speed_step *b, bool alike)
{
    return strcmp(a->name, b->name) == 0
        && (!alike || (a->each == b->each && strcmp(a->shape, b->shape) == 0));
}

/* Steps of one kind together, `alike`: only those of one size; number of them. */
static size_t speed_kinds(const speed_step *steps, size_t n, bool alike, speed_step *kinds)
{
    size_t n_kinds = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < n_kinds && !speed_same(&kinds[k], &steps[i], alike)) k++;
        if (k == n_kinds) {
            kinds[n_kinds]   = (speed_step){.each = steps[i].each};
            speed_step *kind = &kinds[n_kinds++];
            memcpy(kind->name, steps[i].name, sizeof kind->name);
            if (alike) memcpy(kind->shape, steps[i].shape, sizeof kind->shape);
        }
        kinds[k].n++;
        kinds[k].seconds += steps[i].seconds;
        kinds[k].operations += steps[i].operations;
    }
    return n_kinds;
}

/* Name, operations and shape of a step of the engine's program. */
static void speed_describe(const ipu_engine *e, const ipu_step_time *t, speed_step *out)
{
    ipu_engine_kernel  kernel;
    ipu_engine_operand operand;
    size_t             n = 0;
    snprintf(out->name, sizeof out->name, "%s", t->kernel >= 0 ? t->name : t->kind);
    if (t->kernel < 0 || !ipu_engine_kernel_at(e, (size_t)t->kernel, &kernel)) return;
    out->operations = out->each = kernel.operations;
    if (!ipu_engine_operand_at(e, (size_t)t->kernel, 0, &operand)) return;
    for (int d = 0; d < operand.shape.rank && n < sizeof out->shape; d++)
        n += (size_t)snprintf(out->shape + n, sizeof out->shape - n, "%s%lld", d ? "x" : "",
                              (long long)operand.shape.dim[d]);
}

/* Steps that ran, each with the least of its times in `windows` windows of `calls` calls. */
static size_t speed_measure_steps(speed_ours *s, int windows, int calls, speed_step **out)
{
    ipu_step_time *times = NULL, *before = NULL;
    double        *least = NULL;
    size_t         n     = 0;
    for (int w = 0; w <= windows; w++) { /* the first warms up */
        speed_time(s, calls);
        ipu_free(before);
        before = times;
        BENCH_CHECK(ipu_engine_step_times(ipu_executor_engine(s->executor), &times, &n));
        if (!least && !(least = calloc(n + 1, sizeof *least))) exit(1);
        for (size_t i = 0; before && i < n; i++) {
            double each = (times[i].seconds - before[i].seconds) / calls;
            least[i]    = w == 1 || each < least[i] ? each : least[i];
        }
    }
    if (!(*out = calloc(n + 1, sizeof **out))) exit(1);
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = (speed_step){.n = 1, .seconds = least[i]};
        speed_describe(ipu_executor_engine(s->executor), &times[i], &(*out)[i]);
    }
    free(least);
    ipu_free(times);
    ipu_free(before);
    return n;
}

/* Host times of the steps of one call, the largest first. */
static void speed_profile(const char *name, int64_t batch, bool trains, const char *threads,
                          ipu_precision precision)
{
    speed_ours  s;
    speed_step *steps;
    double      plain = 1e9, sum = 0;
    speed_make(&s, name, batch, trains, threads, false, precision);
    speed_time(&s, 2);
    double once    = speed_time(&s, 1);
    int    calls   = 1 + (int)(0.01 / once);
    int    windows = 6 + (int)fmin(30, 1 / (once * calls));
    for (int i = 0; i < windows; i++) plain = fmin(plain, speed_time(&s, calls));
    speed_end(&s);
    speed_make(&s, name, batch, trains, threads, true, precision);
    size_t      n     = speed_measure_steps(&s, windows, calls, &steps);
    speed_step *kinds = calloc(n + 1, sizeof *kinds);
    if (!kinds) exit(1);
    for (size_t i = 0; i < n; i++) sum += steps[i].seconds;
    printf("\n%s%s, batch %lld, %s, %s thread%s: %.1f us; %zu steps measured one by one: %.1f us\n", name,
           precision == IPU_PRECISION_FLOAT ? "" : " in half", (long long)batch, trains ? "train" : "infer",
           threads, strcmp(threads, "1") == 0 ? "" : "s", 1e6 * plain, n, 1e6 * sum);
    printf("%10s %6s %5s %9s %8s  %s\n", "us", "share", "steps", "MFLOP", "GFLOP/s", "kind");
    speed_print_steps(kinds, speed_kinds(steps, n, false, kinds), 0.003);
    printf("%10s %6s %5s %9s %8s  %s\n", "", "", "", "", "", "of one size");
    speed_print_steps(kinds, speed_kinds(steps, n, true, kinds), 0.01);
    fflush(stdout);
    free(kinds);
    free(steps);
    speed_end(&s);
}

#endif
