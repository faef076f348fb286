/* Shared by self-tests: the device, signals, engines, and text about what is measured. */
#include "selftest/selftest.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipu/cost.h"
#include "output.h"

/* ---- signals ---- */

static volatile sig_atomic_t stop_signal;

/* The second one has its default effect. */
static void on_signal(int number)
{
    stop_signal = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/* Signals ignored by the parent (a shell's background job) stay ignored. */
static void catch_signal(int number)
{
    struct sigaction old, new = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&new.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(number, &new, NULL);
}

bool selftest_is_stopped(void) { return stop_signal != 0; }

/* ---- the device ---- */

tool_exit selftest_fail(void) { return tool_fail("%s", ipu_message()); }

tool_exit selftest_look(selftest *s)
{
    *s = (selftest){.began = progress_now()};
    progress_open(&s->progress, stderr);
    if (ipu_device_list_create(0, &s->list) != IPU_OK) return selftest_fail();
    s->partition = ipu_device_list_active(s->list);
    return TOOL_OK;
}

tool_exit selftest_attach(selftest *s, int id)
{
    if (ipu_partition_find_device(s->partition, id, &s->info) != IPU_OK
        || ipu_target_find(s->partition->chip, s->info->n_ipus, &s->target) != IPU_OK
        || ipu_device_open(id, &s->device) != IPU_OK)
        return selftest_fail();
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    ipu_status status = ipu_device_attach(s->device, 0);
    if (status == IPU_BUSY)
        return tool_fail("device %d is occupied by another process: %s", id, ipu_message());
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

/* The one that IPU_DEVICE_ID allows. If that is no device, attaching reports it. */
static int default_device(const ipu_partition *p, int otherwise)
{
    const char *text = getenv("IPU_DEVICE_ID");
    char       *end  = NULL;
    long        id   = text && *text ? strtol(text, &end, 10) : -1;
    return id >= 0 && (size_t)id < p->n_devices && !*end ? (int)id : otherwise;
}

static tool_exit begin(selftest *s, const char *id, bool whole)
{
    int number = 0;
    *s         = (selftest){0};
    if (id && !device_number(id, &number)) return TOOL_USAGE;
    SELFTEST_TRY(selftest_look(s));
    const ipu_partition *p = s->partition;
    if (!id) number = default_device(p, whole ? p->devices[p->n_devices - 1].id : 0);
    return selftest_attach(s, number);
}

tool_exit selftest_begin(selftest *s, const char *id) { return begin(s, id, false); }

tool_exit selftest_begin_all(selftest *s, const char *id) { return begin(s, id, true); }

tool_exit selftest_end(selftest *s, tool_exit code)
{
    if (s->progress.out) progress_clear(&s->progress);
    ipu_device_close(s->device);
    ipu_device_list_destroy(s->list);
    if (code != TOOL_INTERRUPTED) return code;
    return stop_signal == SIGTERM ? TOOL_TERMINATED : TOOL_INTERRUPTED;
}

bool selftest_option(const tool_arguments *args, int option, const char *name, int64_t least, int64_t most,
                     int64_t *out)
{
    const char *text = args->values[option];
    return !text || tool_integer(name, text, least, most, out);
}

tool_exit selftest_tiles(const selftest *s, int64_t *tiles)
{
    if (*tiles == 0) *tiles = s->target.tiles_per_ipu;
    if (*tiles <= s->target.tiles_per_ipu) return TOOL_OK;
    return tool_fail("option --tiles: an IPU has %lld tiles, not %lld", (long long)s->target.tiles_per_ipu,
                     (long long)*tiles);
}

static bool read_number(const char *path, double *out)
{
    char  line[64] = "", *end = line;
    FILE *f = fopen(path, "re");
    if (f && fgets(line, sizeof line, f)) *out = strtod(line, &end);
    if (f) fclose(f);
    return end > line; /* "max" has no digits */
}

/* A container may have less than its host: its limit less its usage, from either version of cgroups. */
static double left_in_container(void)
{
    static const char *const files[][2] = {{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
                                           {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                            "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
    double                   limit, used;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (read_number(files[i][0], &limit) && read_number(files[i][1], &used)) return fmax(limit - used, 0);
    return INFINITY;
}

/* MemAvailable includes what the kernel could reclaim; without that line, free pages count. */
double selftest_memory(void)
{
    double free_bytes = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char   line[128];
    FILE  *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "MemAvailable:", 13)) free_bytes = strtod(line + 13, NULL) * 1024;
    if (f) fclose(f);
    return fmin(free_bytes, left_in_container()) / 2;
}

bool selftest_has_memory(double bytes, const char *advice)
{
    char   wanted[32], most[32];
    double memory = selftest_memory();
    if (bytes <= memory) return true;
    tool_format(bytes, "B", wanted, sizeof wanted);
    tool_format(memory, "B", most, sizeof most);
    tool_fail("this would take %s of this host's memory, and half of what is free are %s: %s", wanted, most,
              advice);
    return false;
}

/* ---- programs ---- */

ipu_graph *selftest_graph(const selftest *s)
{
    ipu_graph *g;
    if (ipu_graph_create(&s->target, 1, &g) == IPU_OK) return g;
    selftest_fail();
    return NULL;
}

ipu_status selftest_price(ipu_graph *g, const ipu_program *programs, size_t n, double *seconds)
{
    ipu_cost *cost;
    IPU_TRY(ipu_cost_estimate(g, programs, n, NULL, &cost));
    for (size_t i = 0; i < n; i++) {
        ipu_cost_cycles cycles = {0};
        ipu_cost_program_at(cost, (int64_t)i, &cycles);
        seconds[i] = (double)cycles.total / ipu_target_clock_hz(ipu_graph_target(g));
    }
    ipu_cost_destroy(cost);
    return IPU_OK;
}

tool_exit selftest_load(const selftest *s, ipu_graph *g, const ipu_program *programs, size_t n,
                        ipu_engine **out)
{
    ipu_executable *exe    = NULL;
    ipu_status      status = ipu_executable_compile(g, programs, n, NULL, &exe);
    if (status == IPU_OK) status = ipu_engine_create_on(exe, NULL, s->device, out);
    ipu_executable_release(exe);
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

tool_exit selftest_run(ipu_engine *e, size_t program, double *seconds)
{
    if (selftest_is_stopped()) return TOOL_INTERRUPTED;
    double     began  = progress_now();
    ipu_status status = ipu_engine_run(e, program);
    *seconds += progress_now() - began;
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

bool selftest_knows(const selftest *s, const char *constant)
{
    ipu_constant c;
    return ipu_target_constant(&s->target, constant, &c) == IPU_OK;
}

/* ---- showing ---- */

void selftest_show(selftest *s, const char *what, int64_t done, int64_t total)
{
    if (!s->progress.live || progress_now() - s->began < 1) return;
    progress_show(
        &s->progress,
        &(progress_state){
            .what = what, .done = done, .total = total, .loss = NAN, .accuracy = NAN, .seconds_left = -1});
}

bool selftest_set(json_t *object, const char *key, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return device_set(object, key, text);
}

static json_t *measurement(const selftest *s)
{
    json_t *out = json_object();
    if (selftest_set(out, "device", "virtual") && selftest_set(out, "measured", "time of this host")
        && selftest_set(out, "modelled_for", "%s", s->partition->chip))
        return out;
    json_decref(out);
    return NULL;
}

tool_exit selftest_finish(selftest *s, tool_exit verdict, json_t *out)
{
    progress_clear(&s->progress);
    if (!out) {
        printf("Measured on virtual IPUs of this host; \"modelled\" is an estimate for the chip %s.\n",
               s->partition->chip);
        return verdict;
    }
    if (json_object_set_new(out, "measurement", measurement(s)) != 0) {
        json_decref(out);
        out = NULL;
    }
    tool_exit printed = tool_print_json(stdout, out);
    return verdict == TOOL_OK ? printed : verdict;
}
