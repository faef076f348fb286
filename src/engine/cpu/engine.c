/* Engines: creation and destruction. */
#include "engine/cpu/engine.h"

#include <pthread.h>
#include <string.h>

#include "engine/cpu/checking.h"
#include "engine/memory.h"
#include "engine/options.h"

/* ---- forks: a child has the memory but not the threads ---- */

static atomic_uint    fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add(&fork_generation, 1); }

static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

ipu_status ipu__engine_check(const ipu_engine *e)
{
    if (e->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed))
        return ipu__fail(IPU_FORKED,
                         "the engine was made before a fork, by the parent process: create one here");
    if (e->running)
        return ipu__fail(
            IPU_INVALID,
            "the engine is running: a stream callback must not use it (but for ipu_engine_interrupt)");
    return IPU_OK;
}

/* ---- memory ---- */

static bool product(size_t a, int64_t b, size_t *out)
{
    return b >= 0 && !__builtin_mul_overflow(a, (size_t)b, out);
}

static char *alloc_replicas(const ipu_engine *e, size_t stride)
{
    size_t bytes;
    return product(stride, e->replication, &bytes) ? ipu__alloc_pages(bytes) : NULL;
}

static bool alloc_remotes(ipu_engine *e)
{
    const ipu_executable *exe = e->exe;
    e->remotes                = ipu__alloc_zeroed(exe->remotes.n * sizeof *e->remotes);
    if (!e->remotes) return false;
    for (size_t i = 1; i < exe->remotes.n; i++) {
        size_t bytes;
        if (!product((size_t)exe->remotes.at[i].row_bytes, exe->remotes.at[i].n_rows, &bytes)) return false;
        e->remotes[i] = alloc_replicas(e, bytes);
        if (!e->remotes[i]) return false;
    }
    return true;
}

/* Records of a replica follow those of the one before, aligned as in the executable. */
static size_t rounded(size_t bytes) { return (size_t)ipu__memory_round((int64_t)bytes + 1); }

static bool alloc_memory(ipu_engine *e)
{
    const ipu_executable *exe = e->exe;
    size_t                n   = (size_t)e->replication;
    e->variables_stride       = rounded((size_t)exe->variable_bytes);
    e->gather_stride          = rounded((size_t)exe->gather_bytes);
    e->records_stride         = rounded(exe->records.n);
    e->variables              = alloc_replicas(e, e->variables_stride);
    e->gather                 = alloc_replicas(e, e->gather_stride);
    e->records                = alloc_replicas(e, e->records_stride);
    e->spans                  = ipu__alloc(exe->spans.n * n * sizeof *e->spans);
    e->groups                 = ipu__alloc(exe->groups.n * sizeof *e->groups);
    e->sets                   = ipu__alloc(exe->sets.n * sizeof *e->sets);
    e->connections            = ipu__alloc_zeroed(exe->streams.n * n * sizeof *e->connections);
    e->counters               = ipu__alloc_zeroed(exe->n_counters * sizeof *e->counters);
    e->paces                  = ipu__alloc((exe->programs.n + 1) * sizeof *e->paces);
    if (!e->variables || !e->gather || !e->records || !e->spans || !e->groups || !e->sets || !e->connections
        || !e->counters || !e->paces)
        return false;
    for (size_t i = 0; i < exe->programs.n; i++) ipu__pace_init(&e->paces[i]);
    return alloc_remotes(e);
}

static void set_initial_values(ipu_engine *e)
{
    for (size_t i = 0; i < e->exe->initial.n; i++)
        ipu__engine_move(e->lanes, e->exe->initial.at[i], 0, e->replication, NULL);
    for (size_t i = 0; i < e->exe->replication_indices.n; i++)
        for (int64_t r = 0; r < e->replication; r++) {
            uint32_t index = (uint32_t)r;
            memcpy(ipu__engine_pointer(e, r, e->exe->replication_indices.at[i]), &index, sizeof index);
        }
}

/* ---- life ---- */

static ipu_status init(ipu_engine *e)
{
    if (!alloc_memory(e)) return ipu__fail_memory();
    IPU_TRY(ipu__lanes_create(e));
    ipu__engine_prepare_sets(e);
    set_initial_values(e);
    if (e->exe->check) IPU_TRY(ipu__checking_create(e));
    IPU_TRY(ipu__engine_prepare_kernels(e));
    return ipu__engine_start(e);
}

static ipu_status use_device(ipu_engine *e, const ipu__settings *settings, ipu_device *given)
{
    const ipu_executable *exe       = e->exe;
    bool                  on_demand = settings->attach == IPU__ATTACH_ON_DEMAND;
    e->wait_seconds                 = settings->wait_seconds;
    if (given && given->n_ipus < exe->n_ipus)
        return ipu__fail(IPU_INVALID,
                         "the program needs %lld IPUs, and the device has %lld: open a larger one",
                         (long long)exe->n_ipus, (long long)given->n_ipus);
    if (given) {
        e->device = ipu__device_retain(given);
        return on_demand ? IPU_OK : ipu_device_attach(given, e->wait_seconds);
    }
    if (settings->attach == IPU__ATTACH_NEVER) return IPU_OK;
    return ipu__device_use(ipu__exe_text(exe, exe->chip), exe->n_ipus, e->wait_seconds, on_demand,
                           &e->device);
}

ipu_status ipu_engine_create(ipu_executable *exe, const ipu_options *options, ipu_engine **out)
{
    return ipu_engine_create_on(exe, options, NULL, out);
}

ipu_status ipu_engine_create_on(ipu_executable *exe, const ipu_options *options, ipu_device *device,
                                ipu_engine **out)
{
    ipu__settings settings;
    *out = NULL;
    IPU_TRY(ipu__options_settle(options, &settings));
    if (settings.check && !exe->check)
        return ipu__fail(IPU_INVALID, "option \"check\": the executable was compiled without it: "
                                      "give the option to ipu_executable_compile, or set IPU_CHECK=1");
    pthread_once(&fork_once, watch_forks);
    ipu_engine *e = ipu__alloc_zeroed(sizeof *e);
    if (!e) return ipu__fail_memory();
    e->exe             = ipu_executable_retain(exe);
    e->replication     = exe->replication;
    e->n_threads       = settings.threads;
    e->layouts         = settings.layouts;
    e->check_floats    = settings.check_floats;
    e->fork_generation = atomic_load(&fork_generation);
    atomic_init(&e->interrupted, 0);
    atomic_init(&e->failed_body, IPU__NO_FAILURE);
    ipu_status status = use_device(e, &settings, device);
    if (status == IPU_OK) status = ipu__times_init(e, settings.profile);
    if (status == IPU_OK) status = init(e);
    if (status != IPU_OK) {
        ipu_engine_destroy(e);
        return status;
    }
    *out = e;
    return IPU_OK;
}

void ipu_engine_destroy(ipu_engine *e)
{
    if (!e) return;
    const ipu_executable *exe = e->exe;
    size_t                n   = (size_t)e->replication;
    ipu__engine_leave(e);
    ipu__engine_release_kernels(e);
    ipu__checking_destroy(e);
    ipu__lanes_destroy(e);
    for (size_t i = 1; e->remotes && i < exe->remotes.n; i++)
        ipu__free_pages(e->remotes[i],
                        (size_t)(exe->remotes.at[i].row_bytes * exe->remotes.at[i].n_rows) * n);
    ipu__free_pages(e->variables, e->variables_stride * n);
    ipu__free_pages(e->gather, e->gather_stride * n);
    ipu__free_pages(e->records, e->records_stride * n);
    void *const owned[] = {e->remotes,     e->spans,    e->groups, e->sets,
                           e->connections, e->counters, e->paces,  e->in_body};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
    ipu__free(e->times);
    ipu_device_close(e->device);
    ipu_executable_release(e->exe);
    ipu__free(e);
}

ipu_device *ipu_engine_device(ipu_engine *e) { return e->device; }

void ipu_engine_get_counters(const ipu_engine *e, ipu_engine_counters *out) { *out = e->lanes->counts; }
