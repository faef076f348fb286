/* `ipu hostsynclatencytest`, gc-hostsynclatencytest: how long host and device take to synchronise.
 *
 * A sync is a step of a program that waits for the host: the device counts, and sends its count through a
 * stream whose callback checks that it is the next. An iteration is one run of --mark-count of them. Then
 * runs of a single sync are timed from outside: the cost of starting a program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/codelet.h"
#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"

enum { MOST_TIMES = 1 << 20, RUNS = 1000, MOST_IPUS = 256 };
enum { ITERATION, SINGLE, N_PROGRAMS };

typedef struct latency {
    selftest    s;
    const char *hsp, *mode;
    int64_t     delay_cycles, delays, marks, iterations;
    ipu_engine *engine;
    uint32_t    expected;
    int64_t     wrong;
    double      last, *times; /* between one sync and the next, in seconds: the first MOST_TIMES */
    size_t      n_times;
    double      seconds;         /* for all iterations */
    double      run_times[RUNS]; /* of single-sync runs */
} latency;

#define COUNT(F) F(INOUT, uint32_t, count)
/* cppcheck-suppress internalAstError; it cannot parse the macro */
IPU_VERTEX(SelftestCount, COUNT)
{
    ++*v->count;
    return true;
}

/* ---- programs ---- */

/* Every IPU counts, on its first tile. */
static ipu_program add_sync(const latency *t, ipu_graph *g)
{
    int64_t         n               = t->s.target.n_ipus;
    ipu_tensor      counts          = ipu_graph_add_variable(g, IPU_UINT32, IPU_SHAPE(n), "counts");
    ipu_compute_set cs              = ipu_graph_add_compute_set(g, "count");
    ipu_stream      out             = ipu_graph_add_device_to_host(g, "sync", IPU_UINT32, n);
    ipu_program     p               = ipu_program_sequence(g);
    uint32_t        zero[MOST_IPUS] = {0};
    ipu_graph_add_codelet(g, &SelftestCount);
    ipu_graph_set_initial_value(g, counts, zero);
    for (int64_t i = 0; i < n; i++) {
        ipu_tensor count = ipu_tensor_index(counts, i);
        ipu_graph_set_tile_mapping(g, count, i * t->s.target.tiles_per_ipu);
        ipu_graph_add_vertex_with(g, cs, "SelftestCount", i * t->s.target.tiles_per_ipu,
                                  IPU_FIELDS(IPU_TO("count", count)));
    }
    ipu_program_add_execute(p, cs);
    ipu_program_add_write(p, counts, out);
    return p;
}

/* The host's part of a sync. */
static ipu_status meet(void *user, void *data, size_t bytes)
{
    latency        *t      = user;
    const uint32_t *counts = data;
    double          now    = progress_now();
    t->expected++;
    for (size_t i = 0; i < bytes / sizeof *counts; i++) {
        uint32_t count = counts[i];
        selftest_spoil(&count, 1);
        t->wrong += count != t->expected;
    }
    if (t->last > 0 && t->n_times < MOST_TIMES) t->times[t->n_times++] = now - t->last;
    t->last = now;
    return IPU_OK;
}

static tool_exit load(latency *t)
{
    ipu_program programs[N_PROGRAMS];
    ipu_graph  *g = selftest_graph(&t->s);
    if (!g) return TOOL_FAILED;
    programs[SINGLE]    = add_sync(t, g);
    programs[ITERATION] = ipu_program_sequence(g);
    ipu_program_add_repeat(programs[ITERATION], t->marks, programs[SINGLE]);
    tool_exit code = selftest_load(&t->s, g, programs, N_PROGRAMS, &t->engine);
    ipu_graph_destroy(g);
    if (code != TOOL_OK) return code;
    return ipu_engine_connect_callback(t->engine, "sync", meet, t) == IPU_OK ? TOOL_OK : selftest_fail();
}

/* ---- results ---- */

/* Like the vendor's, without decimals unless it is small. */
static void microseconds(double seconds, char out[DEVICE_TEXT])
{
    snprintf(out, DEVICE_TEXT, "%.*f", seconds < 1e-4 ? 3 : 0, seconds * 1e6);
}

static double per_iteration(const latency *t) { return t->seconds / (double)t->iterations; }

static void print_begin(const latency *t)
{
    char mode[16];
    snprintf(mode, sizeof mode, "%c%s", t->mode[0] - 'a' + 'A', t->mode + 1);
    printf("o Using device Id - %d\n", t->s.info->id);
    printf("o Using sync mode: %s, HSP: %s\n", mode, t->hsp);
    printf("  - Issuing %lld syncs, %lld delays of %lld cycles\n", (long long)t->marks, (long long)t->delays,
           (long long)t->delay_cycles);
    printf("o Loading binary on all tiles... ");
    fflush(stdout);
}

static void print_end(latency *t)
{
    char average[DEVICE_TEXT];
    microseconds(per_iteration(t), average);
    printf("o Syncs took on average %s us\n", average);
    if (t->n_times)
        printf("  - One sync: p50 %.3f us, p99 %.3f us\n", selftest_quantile(t->times, t->n_times, 0.5) * 1e6,
               selftest_quantile(t->times, t->n_times, 0.99) * 1e6);
    printf("  - A run of one sync: p50 %.3f us, p99 %.3f us\n",
           selftest_quantile(t->run_times, RUNS, 0.5) * 1e6,
           selftest_quantile(t->run_times, RUNS, 0.99) * 1e6);
    printf("  - Modelled: N/A (the model of the chip has no latency of a host sync)\n");
    printf("o Result - %s\n", t->wrong ? "Fail" : "Pass");
}

static bool set_times(json_t *o, const char *name, double *times, size_t n)
{
    char p50[DEVICE_TEXT], p99[DEVICE_TEXT];
    snprintf(p50, sizeof p50, "%s_us_p50", name);
    snprintf(p99, sizeof p99, "%s_us_p99", name);
    if (n == 0) return selftest_set(o, p50, "N/A") && selftest_set(o, p99, "N/A");
    return selftest_set(o, p50, "%.3f", selftest_quantile(times, n, 0.5) * 1e6)
        && selftest_set(o, p99, "%.3f", selftest_quantile(times, n, 0.99) * 1e6);
}

static json_t *describe(latency *t)
{
    char    average[DEVICE_TEXT];
    json_t *o = json_object();
    microseconds(per_iteration(t), average);
    bool ok = device_set_number(o, "ipu_id", t->s.info->id) && device_set(o, "sync_mode", t->mode)
           && device_set(o, "hsp", t->hsp) && device_set_number(o, "delay_cycles", t->delay_cycles)
           && device_set_number(o, "num_delays", t->delays)
           && device_set_number(o, "iterations", t->iterations)
           && device_set_number(o, "mark_count", t->marks) && device_set(o, "split_increments", "N/A")
           && device_set(o, "time_to_sync_us", average) && set_times(o, "sync", t->times, t->n_times)
           && set_times(o, "run", t->run_times, RUNS) && device_set(o, "modelled_time_to_sync_us", "N/A")
           && device_set(o, "result", t->wrong ? "fail" : "pass");
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* ---- all of it ---- */

static tool_exit run_iterations(latency *t)
{
    for (int64_t i = 0; i < t->iterations; i++) {
        t->last = 0; /* the time between two runs is not a sync */
        SELFTEST_TRY(selftest_run(t->engine, ITERATION, &t->seconds));
        selftest_show(&t->s, "iterations", i + 1, t->iterations);
    }
    for (int i = 0; i < RUNS; i++) {
        t->last         = 0;
        t->run_times[i] = 0;
        SELFTEST_TRY(selftest_run(t->engine, SINGLE, &t->run_times[i]));
    }
    return TOOL_OK;
}

static tool_exit test(latency *t, bool json)
{
    t->times = malloc(MOST_TIMES * sizeof *t->times);
    if (!t->times) return tool_fail("out of memory");
    if (!json) print_begin(t);
    tool_exit code = load(t);
    if (!json) puts(code == TOOL_OK ? "done" : "failed");
    if (code == TOOL_OK) code = run_iterations(t);
    if (code != TOOL_OK) return code;
    json_t *out = json ? describe(t) : NULL;
    if (json && !out) return tool_fail("out of memory");
    if (!json) print_end(t);
    if (t->wrong)
        code = tool_fail("wrong syncs, that did not bring the count that was next: %lld",
                         (long long)t->wrong);
    return selftest_finish(&t->s, code, out);
}

/* Looks `text` up in a NULL-terminated list. */
static bool choose(const char *option, const char *text, const char *const *words, const char **out)
{
    if (!text) return true;
    for (int i = 0; words[i]; i++)
        if (!strcmp(text, words[i])) {
            *out = words[i];
            return true;
        }
    tool_usage("hostsynclatencytest", "option --%s: \"%s\" is not %s, %s or %s", option, text, words[0],
               words[1], words[2]);
    return false;
}

tool_exit run_hostsynclatencytest(const tool_arguments *args)
{
    static const char *const hsps[]  = {"hsp1", "hsp2", "both", NULL};
    static const char *const modes[] = {"posted", "polling", "hybrid", NULL};
    static latency           t; /* times are too large for the stack */
    t = (latency){
        .hsp = "hsp1", .mode = "polling", .delay_cycles = 5, .delays = 32, .marks = 4095, .iterations = 1};
    if (!choose("hsp", args->values[HOSTSYNC_HSP], hsps, &t.hsp)
        || !choose("sync-mode", args->values[HOSTSYNC_MODE], modes, &t.mode)
        || !selftest_option(args, HOSTSYNC_DELAY, "delay-cycles", 0, 20, &t.delay_cycles)
        || !selftest_option(args, HOSTSYNC_DELAYS, "num-delays", 0, 1 << 20, &t.delays)
        || !selftest_option(args, HOSTSYNC_MARKS, "mark-count", 1, 1 << 20, &t.marks)
        || !selftest_option(args, HOSTSYNC_ITERATIONS, "iterations", 1, 1 << 20, &t.iterations))
        return TOOL_USAGE;
    tool_exit code = selftest_begin(&t.s, args->values[HOSTSYNC_DEVICE]);
    if (code == TOOL_OK) code = test(&t, args->values[HOSTSYNC_JSON]);
    ipu_engine_destroy(t.engine);
    free(t.times);
    return selftest_end(&t.s, code);
}
