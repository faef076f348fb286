/* Lanes: what runs instructions, and bodies of parallel steps over several of them at the same time.
 *
 * There are as many lanes for bodies as threads, or as bodies in the largest step if those are fewer; threads that
 * are left over are dealt out to the lanes. Body i runs on lane i modulo the lanes, whatever others do, so that a
 * run's results and its failure do not depend on who is fast. requires: a valid executable, in which bodies share
 * nothing that a run changes (validate_parallel.c).
 */
#include <stdio.h>
#include <string.h>

#include "engine/cpu/engine.h"

/* ---- life ---- */

static int64_t most_bodies(const ipu_executable *exe)
{
    uint64_t most = 0;
    for (size_t i = 0; i < exe->code.n; i++)
        if (exe->code.at[i].op == IPU__OP_PARALLEL && exe->code.at[i].n > most) most = exe->code.at[i].n;
    return (int64_t)most;
}

static void set_bases(const ipu_engine *e, ipu__lane *l)
{
    for (int64_t r = 0; r < e->replication; r++) {
        char **bases               = l->bases[r];
        bases[IPU__SPACE_VARIABLE] = e->variables + (size_t)r * e->variables_stride;
        bases[IPU__SPACE_CONSTANT] = e->exe->constants;
        bases[IPU__SPACE_GATHER]   = e->gather + (size_t)r * e->gather_stride;
        bases[IPU__SPACE_SPANS]    = (char *)(e->spans + (size_t)r * e->exe->spans.n);
    }
}

static ipu_status create_lane(ipu_engine *e, ipu__lane *l, int n_threads)
{
    const ipu_executable *exe = e->exe;
    l->e                      = e;
    l->n_threads              = n_threads;
    l->last_pc                = IPU__NONE;
    atomic_init(&l->failed, IPU__NO_FAILURE);
    l->bases         = ipu__alloc_zeroed((size_t)e->replication * sizeof *l->bases);
    l->staging       = ipu__alloc_pages((size_t)exe->staging_bytes);
    l->calls         = ipu__alloc((size_t)exe->n_functions * sizeof *l->calls);
    l->parts         = ipu__alloc_zeroed((size_t)n_threads * sizeof *l->parts);
    l->shares_memory = ipu__alloc((size_t)n_threads * sizeof *l->shares + alignof(ipu__share));
    if (!l->bases || !l->staging || !l->calls || !l->parts || !l->shares_memory) return ipu__fail_memory();
    size_t past = (uintptr_t)l->shares_memory % alignof(ipu__share);
    l->shares   = (void *)((char *)l->shares_memory + (past ? alignof(ipu__share) - past : 0));
    set_bases(e, l);
    return n_threads > 1 ? ipu__pool_create(n_threads, &l->pool) : IPU_OK;
}

ipu_status ipu__lanes_create(ipu_engine *e)
{
    int64_t bodies = e->n_threads > 1 && !e->exe->check ? most_bodies(e->exe) : 0;
    int     n      = bodies < e->n_threads ? (int)bodies : e->n_threads;
    if (n < 2) n = 0;
    e->lanes = ipu__alloc_zeroed((size_t)(n + 1) * sizeof *e->lanes);
    if (!e->lanes) return ipu__fail_memory();
    e->n_lanes               = n;
    e->lanes->counts.threads = e->n_threads;
    ipu_status status        = create_lane(e, &e->lanes[0], e->n_threads);
    for (int i = 1; i <= n && status == IPU_OK; i++) status = create_lane(e, &e->lanes[i], e->n_threads / n);
    return status;
}

ipu_status ipu__lanes_prepare(ipu_engine *e, size_t scratch_bytes, size_t scratch_bytes_in_bodies)
{
    for (int i = 0; i <= e->n_lanes; i++) {
        ipu__lane *l     = &e->lanes[i];
        l->scratch_bytes = i ? scratch_bytes_in_bodies : scratch_bytes;
        l->scratch       = ipu__alloc_pages(l->scratch_bytes);
        if (!l->scratch) return ipu__fail_memory();
    }
    return IPU_OK;
}

void ipu__lanes_destroy(ipu_engine *e)
{
    for (int i = 0; e->lanes && i <= e->n_lanes; i++) {
        ipu__lane *l = &e->lanes[i];
        ipu__pool_destroy(l->pool);
        ipu__free_pages(l->staging, (size_t)e->exe->staging_bytes);
        ipu__free_pages(l->scratch, l->scratch_bytes);
        void *const owned[] = {l->bases, l->calls, l->parts, l->shares_memory};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) ipu__free(owned[k]);
    }
    ipu__free(e->lanes);
}

/* ---- running ---- */

typedef struct job {
    ipu_engine             *e;
    const ipu__instruction *parallel;
    int                     n_lanes;
} job;

static void note_failure(ipu_engine *e, uint64_t body)
{
    unsigned long long before = atomic_load_explicit(&e->failed_body, memory_order_relaxed);
    while (body < before
           && !atomic_compare_exchange_weak_explicit(&e->failed_body, &before, body, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
}

/* A lane that fails keeps its sentence: messages belong to threads. */
static void run_lane(void *data, int part, int n_parts)
{
    const job *j = data;
    (void)n_parts;
    if (part >= j->n_lanes) return;
    ipu__lane *l = &j->e->lanes[1 + part];
    l->status    = IPU_OK;
    for (uint64_t body = (uint64_t)part; body < j->parallel->n; body += (uint64_t)j->n_lanes) {
        l->body   = body;
        l->status = ipu__lane_run(l, j->e->exe->bodies.at[j->parallel->a + body], 0);
        if (j->e->times) ipu__times_end(l);
        if (l->status == IPU_OK) continue;
        note_failure(j->e, body);
        snprintf(l->message, sizeof l->message, "%.*s", IPU__LANE_MESSAGE_BYTES - 1, ipu_message());
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

static ipu_status run_at_once(ipu__lane *l, const ipu__instruction *i)
{
    ipu_engine      *e      = l->e;
    job              j      = {e, i, i->n < (uint64_t)e->n_lanes ? (int)i->n : e->n_lanes};
    const ipu__lane *failed = NULL;
    ipu__pool_run(l->pool, run_lane, &j);
    for (int k = 1; k <= j.n_lanes; k++) {
        ipu__lane *other = &e->lanes[k];
        add_counts(&l->counts, &other->counts);
        if (other->status == IPU_INTERRUPTED) atomic_store(&e->interrupted, 0);
        if (other->status != IPU_OK && (!failed || other->body < failed->body)) failed = other;
    }
    atomic_store_explicit(&e->failed_body, IPU__NO_FAILURE, memory_order_relaxed);
    return failed ? ipu__fail(failed->status, "%s", failed->message) : IPU_OK;
}

/* The time of the step holds that of its bodies. */
ipu_status ipu__lane_run_bodies(ipu__lane *l, const ipu__instruction *i, uint32_t depth)
{
    ipu_engine *e      = l->e;
    ipu_status  status = IPU_OK;
    uint32_t    pc     = (uint32_t)(i - e->exe->code.at);
    int64_t     began  = l->last_ns;
    if (e->n_lanes > 0 && i->n > 1) return run_at_once(l, i);
    l->last_pc = IPU__NONE; /* the step goes on while its bodies run */
    for (uint64_t k = 0; k < i->n && status == IPU_OK; k++)
        status = ipu__lane_run(l, e->exe->bodies.at[i->a + k], depth);
    if (!e->times) return status;
    ipu__times_end(l);
    e->times[pc].nanoseconds += l->last_ns - began;
    return status;
}
