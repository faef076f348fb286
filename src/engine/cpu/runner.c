/* Runners: threads for programs, and for the concurrent bodies of parallel steps.
 *
 * There are as many runners for bodies as threads, or as bodies in the largest step if that is less; spare threads
 * are distributed among the runners.
 */
#include "engine/cpu/cpu.h"

/* ---- life ---- */

static int64_t most_bodies(const ipu_executable *exe)
{
    uint64_t most = 0;
    for (size_t i = 0; i < exe->code.n; i++)
        if (exe->code.at[i].op == IPU__CODE_PARALLEL && exe->code.at[i].n > most) most = exe->code.at[i].n;
    return (int64_t)most;
}

static void set_bases(const ipu__cpu *e, ipu__cpu_runner *l)
{
    for (int64_t r = 0; r < e->replication; r++) {
        char **bases               = l->bases[r];
        bases[IPU__SPACE_VARIABLE] = e->variables + (size_t)r * e->variables_stride;
        bases[IPU__SPACE_CONSTANT] = e->exe->constants;
        bases[IPU__SPACE_GATHER]   = e->gather + (size_t)r * e->gather_stride;
        bases[IPU__SPACE_SPANS]    = (char *)(e->spans + (size_t)r * e->exe->spans.n);
    }
}

static ipu_status create_runner(ipu__cpu *e, ipu__cpu_runner *l, int n_threads)
{
    l->e         = e;
    l->run       = &e->engine->runners[l - e->runners];
    l->n_threads = n_threads;
    atomic_init(&l->failed, IPU__NO_FAILURE);
    l->bases         = ipu__alloc_zeroed((size_t)e->replication * sizeof *l->bases);
    l->parts         = ipu__alloc_zeroed((size_t)n_threads * sizeof *l->parts);
    l->shares_memory = ipu__alloc((size_t)n_threads * sizeof *l->shares + alignof(ipu__share));
    if (!l->bases || !l->parts || !l->shares_memory) return ipu__fail_memory();
    size_t past = (uintptr_t)l->shares_memory % alignof(ipu__share);
    l->shares   = (void *)((char *)l->shares_memory + (past ? alignof(ipu__share) - past : 0));
    set_bases(e, l);
    return n_threads > 1 ? ipu__pool_create(n_threads, &l->pool) : IPU_OK;
}

int ipu__cpu_n_runners(const ipu_engine *e)
{
    int     threads = e->settings.threads;
    int64_t bodies  = threads > 1 && !e->exe->check ? most_bodies(e->exe) : 0;
    int     n       = bodies < threads ? (int)bodies : threads;
    return n < 2 ? 0 : n;
}

ipu_status ipu__cpu_runners_create(ipu__cpu *e)
{
    int n      = e->engine->n_runners;
    e->runners = ipu__alloc_zeroed((size_t)(n + 1) * sizeof *e->runners);
    if (!e->runners) return ipu__fail_memory();
    e->n_runners      = n;
    ipu_status status = create_runner(e, &e->runners[0], e->n_threads);
    for (int i = 1; i <= n && status == IPU_OK; i++)
        status = create_runner(e, &e->runners[i], e->n_threads / n);
    return status;
}

ipu_status ipu__cpu_runners_prepare(ipu__cpu *e, size_t scratch_bytes, size_t scratch_bytes_in_bodies)
{
    for (int i = 0; i <= e->n_runners; i++) {
        ipu__cpu_runner *l = &e->runners[i];
        l->scratch_bytes   = i ? scratch_bytes_in_bodies : scratch_bytes;
        l->scratch         = ipu__alloc_pages(l->scratch_bytes);
        if (!l->scratch) return ipu__fail_memory();
    }
    return IPU_OK;
}

void ipu__cpu_runners_destroy(ipu__cpu *e)
{
    for (int i = 0; e->runners && i <= e->n_runners; i++) {
        ipu__cpu_runner *l = &e->runners[i];
        ipu__pool_destroy(l->pool);
        ipu__free_pages(l->scratch, l->scratch_bytes);
        void *const owned[] = {l->bases, l->parts, l->shares_memory};
        for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) ipu__free(owned[k]);
    }
    ipu__free(e->runners);
}

/* ---- running ---- */

typedef struct job {
    void (*fn)(void *data, int k, int n);
    void *data;
    int   n;
} job;

static void run_part(void *data, int part, int n_parts)
{
    const job *j = data;
    (void)n_parts;
    if (part < j->n) j->fn(j->data, part, j->n);
}

void ipu__cpu_at_once(ipu_engine *e, int n, void (*fn)(void *data, int k, int n), void *data)
{
    ipu__pool_run(ipu__cpu_of(e)->runners->pool, run_part, &(job){fn, data, n});
}
