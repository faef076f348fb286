/* Engines: the list of them, creation and destruction. */
#include <pthread.h>
#include <string.h>

#include "engine/run/run.h"

enum { MOST_ENGINES = 16 };
const ipu__engine_def *ipu__engines[MOST_ENGINES + 1] = {&ipu__cpu_engine, &ipu__null_engine};

static int n_engines(void)
{
    int n = 0;
    while (ipu__engines[n]) n++;
    return n;
}

bool ipu__engine_add(const ipu__engine_def *def)
{
    int n = n_engines();
    if (n < MOST_ENGINES) ipu__engines[n] = def;
    return n < MOST_ENGINES;
}

const ipu__engine_def *ipu__engine_find(const char *name)
{
    int i = 0;
    while (ipu__engines[i] && strcmp(ipu__engines[i]->name, name) != 0) i++;
    return ipu__engines[i];
}

const char *ipu_engine_at(int i, const char **summary)
{
    if (i < 0 || i >= n_engines()) return NULL;
    if (summary) *summary = ipu__engines[i]->summary;
    return ipu__engines[i]->name;
}

const char *ipu_engine_name(const ipu_engine *e) { return e->def->name; }

char *ipu__engine_map(const ipu_engine *e, int64_t replica, ipu__place place)
{
    return e->def->map ? e->def->map(e, replica, place) : NULL;
}

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

static bool alloc_remotes(ipu_engine *e)
{
    const ipu_executable *exe = e->exe;
    e->remotes                = ipu__alloc_zeroed(exe->remotes.n * sizeof *e->remotes);
    if (!e->remotes) return false;
    for (size_t i = 1; i < exe->remotes.n; i++) {
        size_t row = (size_t)exe->remotes.at[i].row_bytes, bytes;
        if (!product(row, exe->remotes.at[i].n_rows, &bytes) || !product(bytes, e->replication, &bytes))
            return false;
        e->remotes[i] = ipu__alloc_pages(bytes);
        if (!e->remotes[i]) return false;
    }
    return true;
}

/* ---- life ---- */

static ipu_status init(ipu_engine *e)
{
    const ipu_executable *exe = e->exe;
    e->connections = ipu__alloc_zeroed(exe->streams.n * (size_t)e->replication * sizeof *e->connections);
    e->counters    = ipu__alloc_zeroed(exe->n_counters * sizeof *e->counters);
    if (!e->connections || !e->counters || !alloc_remotes(e)) return ipu__fail_memory();
    IPU_TRY(ipu__times_init(e));
    IPU_TRY(ipu__runners_create(e));
    IPU_TRY(e->def->create(e));
    return ipu__engine_start(e);
}

static ipu_status use_device(ipu_engine *e, ipu_device *given)
{
    const ipu_executable *exe       = e->exe;
    bool                  on_demand = e->settings.attach == IPU__ATTACH_ON_DEMAND;
    double                wait      = e->settings.wait_seconds;
    if (given && given->n_ipus < exe->n_ipus)
        return ipu__fail(IPU_INVALID,
                         "the program needs %lld IPUs, and the device has %lld: open a larger one",
                         (long long)exe->n_ipus, (long long)given->n_ipus);
    if (given) {
        e->device = ipu__device_retain(given);
        return on_demand ? IPU_OK : ipu_device_attach(given, wait);
    }
    if (e->settings.attach == IPU__ATTACH_NEVER) return IPU_OK;
    return ipu__device_use(ipu__exe_text(exe, exe->chip), exe->n_ipus, wait, on_demand, &e->device);
}

ipu_status ipu_engine_create(ipu_executable *exe, const ipu_options *options, ipu_engine **out)
{
    return ipu_engine_create_on(exe, options, NULL, out);
}

static ipu_status check_kernels(const ipu__engine_def *def, const ipu_executable *exe)
{
    for (size_t i = 0; def->supports && i < exe->kernels.n; i++)
        if (!def->supports(&exe->kernels.at[i].call))
            return ipu__fail(IPU_UNSUPPORTED,
                             "the engine \"%s\" has no kernel \"%s\": compile the model for it (option "
                             "\"engine\" or IPU_ENGINE), so that other ops take its place",
                             def->name, exe->kernels.at[i].call.def->name);
    return IPU_OK;
}

static ipu_status create(const ipu__engine_def *def, ipu_executable *exe, const ipu__settings *settings,
                         ipu_device *device, ipu_engine **out)
{
    if (settings->check && !exe->check)
        return ipu__fail(IPU_INVALID, "option \"check\": the executable was compiled without it: "
                                      "give the option to ipu_executable_compile, or set IPU_CHECK=1");
    if (exe->check && !def->checks)
        return ipu__fail(IPU_UNSUPPORTED,
                         "the engine \"%s\" has no checking mode, and the executable was compiled for it: "
                         "use the engine \"%s\", or compile without the option \"check\" (IPU_CHECK)",
                         def->name, ipu__engines[0]->name);
    IPU_TRY(check_kernels(def, exe));
    pthread_once(&fork_once, watch_forks);
    ipu_engine *e = ipu__alloc_zeroed(sizeof *e);
    if (!e) return ipu__fail_memory();
    e->def             = def;
    e->exe             = ipu_executable_retain(exe);
    e->settings        = *settings;
    e->replication     = exe->replication;
    e->fork_generation = atomic_load(&fork_generation);
    atomic_init(&e->interrupted, 0);
    atomic_init(&e->failed_body, IPU__NO_BODY);
    ipu_status status = use_device(e, device);
    if (status == IPU_OK) status = init(e);
    if (status != IPU_OK) {
        ipu_engine_destroy(e);
        return status;
    }
    *out = e;
    return IPU_OK;
}

ipu_status ipu__engine_create(const ipu__engine_def *def, ipu_executable *exe, const ipu_options *options,
                              ipu_device *device, ipu_engine **out)
{
    ipu__settings settings;
    *out = NULL;
    IPU_TRY(ipu__options_settle(options, &settings));
    return create(def ? def : ipu__engine_find(settings.engine), exe, &settings, device, out);
}

ipu_status ipu_engine_create_on(ipu_executable *exe, const ipu_options *options, ipu_device *device,
                                ipu_engine **out)
{
    return ipu__engine_create(NULL, exe, options, device, out);
}

void ipu_engine_destroy(ipu_engine *e)
{
    if (!e) return;
    const ipu_executable *exe = e->exe;
    size_t                n   = (size_t)e->replication;
    ipu__engine_leave(e);
    e->def->destroy(e);
    ipu__runners_destroy(e);
    for (size_t i = 1; e->remotes && i < exe->remotes.n; i++)
        ipu__free_pages(e->remotes[i],
                        (size_t)(exe->remotes.at[i].row_bytes * exe->remotes.at[i].n_rows) * n);
    void *const owned[] = {e->remotes, e->connections, e->counters, e->times};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
    ipu_device_close(e->device);
    ipu_executable_release(e->exe);
    ipu__free(e);
}

ipu_device *ipu_engine_device(ipu_engine *e) { return e->device; }

void ipu_engine_get_counters(const ipu_engine *e, ipu_engine_counters *out) { *out = e->runners->counts; }
