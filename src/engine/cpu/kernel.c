/* Kernels: choosing an implementation, and running its parts on the engine's threads. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "engine/cpu/engine.h"
#include "engine/memory.h"

/* 20 us at some 5 operations per ns: below that a second thread costs more than it gives. */
#define WORTH_OPERATIONS 1e5

/* OpenMP, if something that uses it (oneDNN) is loaded. */
extern void omp_set_num_threads(int n) __attribute__((weak));
extern int  omp_get_max_threads(void) __attribute__((weak));

int ipu__openmp_enter(ipu_engine *e)
{
    if (e->exe->kernels.n == 0 || !omp_set_num_threads || !omp_get_max_threads) return 0;
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void ipu__openmp_leave(ipu_engine *e, int before)
{
    (void)e;
    if (before > 0) omp_set_num_threads(before);
}

static void limit_openmp(void *data, int part, int n_parts)
{
    (void)data, (void)n_parts;
    if (part > 0 && omp_set_num_threads) omp_set_num_threads(1);
}

/* ---- at creation ---- */

static const ipu_kernel_impl *find_impl(const ipu_kernel_call *call, int n_parts)
{
    for (int i = 0; i < call->def->n_implementations; i++) {
        const ipu_kernel_impl *impl = &call->def->implementations[i];
        if (impl->fits(call, ipu__cpu_features(), n_parts)) return impl;
    }
    return NULL;
}

/* A function of the call, the CPU and the number of threads alone, so that results do not vary. */
static void choose(const ipu_engine *e, const ipu_kernel_call *call, ipu__kernel *kernel)
{
    kernel->n_parts = 1;
    if (e->check) return; /* by the reference */
    kernel->n_parts = call->def->work(call) >= WORTH_OPERATIONS ? e->n_threads : 1;
    kernel->impl    = find_impl(call, kernel->n_parts);
    if (kernel->impl) return;
    kernel->n_parts = 1;
    kernel->impl    = find_impl(call, 1);
}

static ipu_status prepare(ipu_engine *e, const ipu__exe_kernel *from, ipu__kernel *kernel)
{
    const ipu_kernel_call *call = &from->call;
    size_t                 n    = (size_t)call->n_operands;
    kernel->operands            = ipu__alloc(n * (size_t)e->replication * sizeof *kernel->operands);
    if (!kernel->operands) return ipu__fail_memory();
    for (int64_t r = 0; r < e->replication; r++)
        for (size_t i = 0; i < n; i++)
            kernel->operands[(size_t)r * n + i] = ipu__engine_pointer(e, r, from->place[i]);
    kernel->is_idle = !ipu__kernel_has_output(call);
    if (kernel->is_idle) return IPU_OK;
    choose(e, call, kernel);
    const ipu_kernel_impl *impl = kernel->impl;
    if (!impl) return IPU_OK;
    size_t bytes = impl->scratch_bytes ? impl->scratch_bytes(call, kernel->n_parts) : 0;
    if (bytes >= (size_t)1 << 48) { /* SIZE_MAX: it could not be found out */
        kernel->impl = NULL;        /* nothing to release */
        return ipu__fail_memory();
    }
    kernel->scratch_bytes = (size_t)ipu__memory_round((int64_t)bytes);
    size_t scratch        = kernel->scratch_bytes * (size_t)kernel->n_parts;
    if (scratch > e->scratch_bytes) e->scratch_bytes = scratch;
    if (!impl->prepare) return IPU_OK;
    ipu_status status = impl->prepare(call, kernel->n_parts, &kernel->state);
    if (status != IPU_OK) kernel->impl = NULL; /* nothing to release */
    return status;
}

ipu_status ipu__engine_prepare_kernels(ipu_engine *e)
{
    size_t n = e->exe->kernels.n;
    if (n == 0) return IPU_OK;
    e->kernels = ipu__alloc_zeroed(n * sizeof *e->kernels);
    e->parts   = ipu__alloc_zeroed((size_t)e->n_threads * sizeof *e->parts);
    if (!e->kernels || !e->parts) return ipu__fail_memory();
    if (e->pool) ipu__pool_run_each(e->pool, limit_openmp, NULL);
    ipu_status status = IPU_OK;
    int        before = ipu__openmp_enter(e);
    for (size_t i = 0; i < n && status == IPU_OK; i++)
        status = prepare(e, &e->exe->kernels.at[i], &e->kernels[i]);
    ipu__openmp_leave(e, before);
    IPU_TRY(status);
    e->scratch = ipu__alloc_pages(e->scratch_bytes);
    return ipu__or_memory(e->scratch != NULL);
}

void ipu__engine_release_kernels(ipu_engine *e)
{
    for (size_t i = 0; e->kernels && i < e->exe->kernels.n; i++) {
        ipu__kernel *kernel = &e->kernels[i];
        if (kernel->impl && kernel->impl->release && kernel->state) kernel->impl->release(kernel->state);
        ipu__free(kernel->operands);
    }
    ipu__free(e->kernels);
    ipu__free(e->parts);
    ipu__free_pages(e->scratch, e->scratch_bytes);
}

/* ---- running ---- */

typedef struct call {
    ipu_engine            *e;
    const ipu__kernel     *kernel;
    const ipu_kernel_call *call;
    void *const           *operands;
} call;

/* A part that fails keeps its sentence: messages belong to threads. */
static void run_part(void *data, int part, int n_parts)
{
    const call *c = data;
    ipu_engine *e = c->e;
    (void)n_parts;
    if (part >= c->kernel->n_parts) return;
    char *scratch         = e->scratch + (size_t)part * c->kernel->scratch_bytes;
    e->parts[part].status = c->kernel->impl->run(c->call, c->kernel->state, c->operands, scratch, part,
                                                 c->kernel->n_parts);
    if (e->parts[part].status != IPU_OK)
        snprintf(e->parts[part].message, IPU__PART_MESSAGE_BYTES, "%.*s", IPU__PART_MESSAGE_BYTES - 1,
                 ipu_message());
}

static ipu_status run_call(call *c)
{
    if (!c->kernel->impl) {
        const ipu_kernel_def *def    = c->call->def;
        ipu_status            status = def->examine ? def->examine(c->call, c->operands) : IPU_OK;
        if (status != IPU_OK) return ipu__fail(status, "kernel \"%s\": %s", def->name, ipu_message());
        if (!c->kernel->is_idle) def->ref(c->call, c->operands);
        return IPU_OK;
    }
    if (c->kernel->n_parts > 1)
        ipu__pool_run(c->e->pool, run_part, c);
    else
        run_part(c, 0, 1);
    for (int part = 0; part < c->kernel->n_parts; part++) {
        const ipu__part *p = &c->e->parts[part];
        if (p->status != IPU_OK)
            return ipu__fail(p->status, "kernel \"%s\": %s", c->call->def->name, p->message);
    }
    return IPU_OK;
}

ipu_status ipu__engine_run_kernel(ipu_engine *e, const ipu__instruction *i)
{
    const ipu__exe_kernel *from   = &e->exe->kernels.at[i->a];
    const ipu__kernel     *kernel = &e->kernels[i->a];
    ipu__engine_move(e, from->gather, 0, e->replication, NULL);
    for (int64_t r = 0; r < e->replication; r++) {
        call c = {e, kernel, &from->call, kernel->operands + r * from->call.n_operands};
        IPU_TRY(run_call(&c));
    }
    ipu__engine_move(e, from->scatter, 0, e->replication, NULL);
    e->counts.supersteps++;
    return IPU_OK;
}
