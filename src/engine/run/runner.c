/* Runners: they execute instructions, several of them concurrently for bodies of parallel steps.
 *
 * The engine determines the number of runners for bodies. Body i always runs on runner i modulo that number, so
 * that a run's results and errors do not depend on timing.
 * requires: a valid executable, in which bodies share nothing that a run changes (validate_parallel.c).
 */
#include <stdio.h>
#include <string.h>

#include "engine/memory.h"
#include "engine/run/run.h"

/* ---- life ---- */

/* If the host cannot see variables, all transfers go through the buffer, not just those of views. */
static int64_t staging_bytes(const ipu_engine *e)
{
    const ipu_executable *exe  = e->exe;
    int64_t               most = exe->staging_bytes;
    if (e->def->map) return most;
    for (size_t i = 0; i < exe->transfers.n; i++) {
        const ipu__exe_transfer *t     = &exe->transfers.at[i];
        int64_t                  bytes = ipu__memory_align(exe->tensors.at[t->tensor].bytes);
        if (t->rows != IPU__NONE) bytes += exe->tensors.at[t->rows].bytes;
        if (bytes > most) most = bytes;
    }
    for (size_t i = 0; i < exe->prints.n; i++) {
        uint32_t t = exe->prints.at[i].tensor;
        if (t != IPU__NONE && exe->tensors.at[t].bytes > most) most = exe->tensors.at[t].bytes;
    }
    return most;
}

ipu_status ipu__runners_create(ipu_engine *e)
{
    int n      = e->def->n_runners ? e->def->n_runners(e) : 0;
    e->runners = ipu__alloc_zeroed((size_t)(n + 1) * sizeof *e->runners);
    if (!e->runners) return ipu__fail_memory();
    e->n_runners               = n;
    e->runners->counts.threads = e->settings.threads;
    for (int i = 0; i <= n; i++) {
        ipu__runner *l = &e->runners[i];
        l->e           = e;
        l->index       = i;
        l->last_pc     = IPU__NONE;
        l->staging     = ipu__alloc_pages((size_t)staging_bytes(e));
        l->calls       = ipu__alloc((size_t)e->exe->n_functions * sizeof *l->calls);
        if (!l->staging || !l->calls) return ipu__fail_memory();
    }
    return IPU_OK;
}

void ipu__runners_destroy(ipu_engine *e)
{
    for (int i = 0; e->runners && i <= e->n_runners; i++) {
        ipu__free_pages(e->runners[i].staging, (size_t)staging_bytes(e));
        ipu__free(e->runners[i].calls);
    }
    ipu__free(e->runners);
}

/* ---- running ---- */

typedef struct job {
    ipu_engine             *e;
    const ipu__instruction *parallel;
} job;

static void note_failure(ipu_engine *e, uint64_t body)
{
    unsigned long long before = atomic_load_explicit(&e->failed_body, memory_order_relaxed);
    while (body < before
           && !atomic_compare_exchange_weak_explicit(&e->failed_body, &before, body, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
}

/* Each runner keeps the message of its error, because messages are per thread. */
static void run_runner(void *data, int k, int n)
{
    const job   *j = data;
    ipu__runner *l = &j->e->runners[1 + k];
    l->status      = IPU_OK;
    for (uint64_t body = (uint64_t)k; body < j->parallel->n; body += (uint64_t)n) {
        l->body   = body;
        l->status = ipu__runner_run(l, j->e->exe->bodies.at[j->parallel->a + body], 0);
        if (j->e->times) ipu__times_end(l);
        if (l->status == IPU_OK) continue;
        note_failure(j->e, body);
        snprintf(l->message, sizeof l->message, "%.*s", IPU__RUNNER_MESSAGE_BYTES - 1, ipu_message());
        return;
    }
}

static void add_counts(ipu_engine_counters *sum, ipu_engine_counters *more)
{
    sum->supersteps += more->supersteps;
    sum->vertices += more->vertices;
    sum->copied_bytes += more->copied_bytes;
    sum->streamed_bytes += more->streamed_bytes;
    *more = (ipu_engine_counters){0};
}

static ipu_status run_at_once(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine        *e      = l->e;
    int                n      = i->n < (uint64_t)e->n_runners ? (int)i->n : e->n_runners;
    const ipu__runner *failed = NULL;
    e->def->at_once(e, n, run_runner, &(job){e, i});
    for (int k = 1; k <= n; k++) {
        ipu__runner *other = &e->runners[k];
        add_counts(&l->counts, &other->counts);
        if (other->status == IPU_INTERRUPTED) atomic_store(&e->interrupted, 0);
        if (other->status != IPU_OK && (!failed || other->body < failed->body)) failed = other;
    }
    atomic_store_explicit(&e->failed_body, IPU__NO_BODY, memory_order_relaxed);
    return failed ? ipu__fail(failed->status, "%s", failed->message) : IPU_OK;
}

/* The time of the step includes that of its bodies. */
ipu_status ipu__runner_run_bodies(ipu__runner *l, const ipu__instruction *i, uint32_t depth)
{
    ipu_engine *e      = l->e;
    ipu_status  status = IPU_OK;
    uint32_t    pc     = (uint32_t)(i - e->exe->code.at);
    int64_t     began  = l->last_ns;
    if (e->n_runners > 0 && i->n > 1) return run_at_once(l, i);
    l->last_pc = IPU__NONE; /* the step's time continues while its bodies run */
    for (uint64_t k = 0; k < i->n && status == IPU_OK; k++)
        status = ipu__runner_run(l, e->exe->bodies.at[i->a + k], depth);
    if (!e->times) return status;
    ipu__times_end(l);
    e->times[pc].nanoseconds += l->last_ns - began;
    return status;
}
