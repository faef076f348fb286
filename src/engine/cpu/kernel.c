/* Kernels: choosing an implementation, and running its parts, or whole replicas, on the threads of a
 * runner. */
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/memory.h"

/* 4 us at some 5 operations per ns. Below that a second thread costs more than it gains; above, the cost of
 * fetching lines from the other thread's cache exceeds that of synchronising. */
#define WORTH_OPERATIONS 2e4
/* Matrix products run ten times as many per ns, so the sizes of operands count as well. fc2 of seed-cnn, three
 * products of 32000 operations, took 3.6 us on two threads and takes 2.4 on one. */
#define WORTH_NANOSECONDS 2500
#define OPERATIONS_PER_NANOSECOND 40
#define BYTES_PER_NANOSECOND 32

/* Present if something that uses OpenMP (oneDNN) is loaded. */
extern void omp_set_num_threads(int n) __attribute__((weak));
extern int  omp_get_max_threads(void) __attribute__((weak));

int ipu__openmp_enter(ipu__cpu *e)
{
    if (e->exe->kernels.n == 0 || !omp_set_num_threads || !omp_get_max_threads) return 0;
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

void ipu__openmp_leave(ipu__cpu *e, int before)
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

/* Whether threads that run whole replicas would be busy at least three quarters of the time. */
static bool shares_replicas(int64_t replication, int threads)
{
    int64_t rounds = (replication + threads - 1) / threads;
    return replication > 1 && threads > 1 && 3 * rounds * threads <= 4 * replication;
}

static bool is_worth_sharing(const ipu__kernel_call *call, double work)
{
    double bytes = 0;
    for (int i = 0; i < call->n_operands; i++) {
        double n = (double)ipu_type_size(call->operand[i].type);
        for (int d = 0; d < call->operand[i].shape.rank; d++) n *= (double)call->operand[i].shape.dim[d];
        bytes += n;
    }
    return work >= WORTH_OPERATIONS
        && work / OPERATIONS_PER_NANOSECOND + bytes / BYTES_PER_NANOSECOND >= WORTH_NANOSECONDS;
}

/* Depends only on the call, the CPU, and the number of threads and replicas, so that results do not vary. */
static void choose(const ipu__cpu *e, const ipu__kernel_call *call, int threads, ipu__kernel *kernel)
{
    kernel->n_parts = kernel->n_states = 1;
    if (e->check) return; /* uses the reference */
    double work = call->def->work(call);
    if (shares_replicas(e->replication, threads) && work * (double)e->replication >= WORTH_OPERATIONS) {
        kernel->n_states = e->replication < threads ? (int)e->replication : threads;
        kernel->impl     = ipu__cpu_find_impl(call, ipu__cpu_machine_here(), 1);
        return;
    }
    kernel->n_parts = is_worth_sharing(call, work) ? threads : 1;
    kernel->impl    = ipu__cpu_find_impl(call, ipu__cpu_machine_here(), kernel->n_parts);
    if (kernel->impl) return;
    kernel->n_parts = 1;
    kernel->impl    = ipu__cpu_find_impl(call, ipu__cpu_machine_here(), 1);
}

static ipu_status prepare_states(const ipu__kernel_call *call, ipu__kernel *kernel)
{
    ipu_status status = IPU_OK;
    kernel->states    = ipu__alloc_zeroed((size_t)kernel->n_states * sizeof *kernel->states);
    if (!kernel->states) return ipu__fail_memory();
    for (int i = 0; kernel->impl->prepare && i < kernel->n_states && status == IPU_OK; i++) {
        status = kernel->impl->prepare(call, kernel->n_parts, &kernel->states[i]);
        if (status != IPU_OK) kernel->states[i] = NULL; /* nothing to release */
    }
    return status;
}

/* Kernels run by bodies have the threads of a runner. */
static ipu_status begin(const ipu__cpu *e, size_t i)
{
    const ipu__exe_kernel *from   = &e->exe->kernels.at[i];
    ipu__kernel           *kernel = &e->kernels[i];
    size_t                 n      = (size_t)from->call.n_operands;
    kernel->call                  = &from->call;
    kernel->operands              = ipu__alloc(n * (size_t)e->replication * sizeof *kernel->operands);
    if (!kernel->operands) return ipu__fail_memory();
    for (int64_t r = 0; r < e->replication; r++)
        for (size_t k = 0; k < n; k++)
            kernel->operands[(size_t)r * n + k] = ipu__cpu_pointer(e, r, from->place[k]);
    kernel->is_idle = !ipu__kernel_has_output(&from->call);
    kernel->n_parts = kernel->n_states = 1;
    if (!kernel->is_idle)
        choose(e, &from->call, e->in_body[i] ? e->runners[e->n_runners].n_threads : e->n_threads, kernel);
    return IPU_OK;
}

static ipu_status prepare(const ipu__cpu *e, size_t i, size_t *scratch_bytes)
{
    ipu__kernel         *kernel = &e->kernels[i];
    const ipu__cpu_impl *impl   = kernel->impl;
    if (!impl) return IPU_OK;
    size_t bytes = impl->scratch_bytes ? impl->scratch_bytes(kernel->call, kernel->n_parts) : 0;
    if (bytes >= (size_t)1 << 48) return ipu__fail_memory(); /* SIZE_MAX: finding out failed */
    kernel->scratch_bytes = (size_t)ipu__memory_room(&ipu__cpu_spacing, (int64_t)bytes);
    size_t scratch        = kernel->scratch_bytes * (size_t)(kernel->n_parts * kernel->n_states);
    if (scratch > scratch_bytes[0]) scratch_bytes[0] = scratch;
    if (e->in_body[i] && scratch > scratch_bytes[1]) scratch_bytes[1] = scratch;
    return prepare_states(kernel->call, kernel);
}

ipu_status ipu__cpu_prepare_kernels(ipu__cpu *e)
{
    size_t n = e->exe->kernels.n, scratch_bytes[2] = {0}; /* over all kernels, and over those in bodies */
    if (n == 0) return IPU_OK;
    e->kernels = ipu__alloc_zeroed(n * sizeof *e->kernels);
    e->in_body = ipu__alloc_zeroed(n * sizeof *e->in_body);
    if (!e->kernels || !e->in_body) return ipu__fail_memory();
    if (e->n_runners > 0) IPU_TRY(ipu__exe_kernels_in_bodies(e->exe, e->in_body));
    for (int i = 0; i <= e->n_runners; i++)
        if (e->runners[i].pool) ipu__pool_run_each(e->runners[i].pool, limit_openmp, NULL);
    ipu_status status = IPU_OK;
    int        before = ipu__openmp_enter(e);
    for (size_t i = 0; i < n && status == IPU_OK; i++) status = begin(e, i);
    if (status == IPU_OK) status = ipu__cpu_choose_rows(e);
    if (status == IPU_OK) status = ipu__cpu_choose_layouts(e);
    for (size_t i = 0; i < n && status == IPU_OK; i++) status = prepare(e, i, scratch_bytes);
    ipu__openmp_leave(e, before);
    return status == IPU_OK ? ipu__cpu_runners_prepare(e, scratch_bytes[0], scratch_bytes[1]) : status;
}

void ipu__cpu_release_kernels(ipu__cpu *e)
{
    for (size_t i = 0; e->kernels && i < e->exe->kernels.n; i++) {
        ipu__kernel *kernel = &e->kernels[i];
        for (int k = 0; kernel->states && k < kernel->n_states; k++)
            if (kernel->impl->release && kernel->states[k]) kernel->impl->release(kernel->states[k]);
        ipu__free(kernel->states);
        ipu__free(kernel->operands);
        ipu__free(kernel->own_call);
        ipu__free(kernel->chunk_bytes);
    }
    ipu__free(e->kernels);
}

/* ---- running ---- */

typedef struct call {
    ipu__cpu_runner        *runner;
    const ipu__kernel      *kernel;
    const ipu__kernel_call *call;
    void *const            *operands; /* of one replica, or of the first */
} call;

/* Each part keeps the message of its error, because messages are per thread. */
static void note(ipu__part *part, ipu_status status, int64_t replica)
{
    part->status  = status;
    part->replica = replica;
    if (status != IPU_OK)
        snprintf(part->message, sizeof part->message, "%.*s", IPU__PART_MESSAGE_BYTES - 1, ipu_message());
}

/* Slices start at the same place for all kernels with the same number of parts, so that their lines stay
 * with one core. */
static char *scratch_of(const ipu__cpu_runner *l, int part, int n_parts)
{
    return l->scratch + (size_t)part * (l->scratch_bytes / (size_t)n_parts / 64 * 64);
}

static void run_part(void *data, int part, int n_parts)
{
    const call        *c      = data;
    const ipu__kernel *kernel = c->kernel;
    (void)n_parts;
    if (part >= kernel->n_parts) return;
    char *scratch = scratch_of(c->runner, part, kernel->n_parts);
    note(&c->runner->parts[part],
         kernel->impl->run(c->call, kernel->states[0], c->operands, scratch, part, kernel->n_parts), 0);
}

static ipu_status run_reference(const call *c, void *const *operands)
{
    const ipu__kernel_def *def = c->call->def;
    if (def->examine) IPU_TRY(def->examine(c->call, operands));
    if (!c->kernel->is_idle) def->ref(c->call, operands);
    return IPU_OK;
}

/* Every n_states-th replica, until one fails. */
static void run_replicas(void *data, int part, int n_parts)
{
    const call        *c           = data;
    const ipu__kernel *kernel      = c->kernel;
    int64_t            replication = c->runner->e->replication;
    (void)n_parts;
    if (part >= kernel->n_states) return;
    char      *scratch = scratch_of(c->runner, part, kernel->n_states);
    ipu_status status  = IPU_OK;
    int64_t    r       = part;
    for (; r < replication; r += kernel->n_states) {
        void *const *operands = c->operands + r * c->call->n_operands;
        status = kernel->impl ? kernel->impl->run(c->call, kernel->states[part], operands, scratch, 0, 1)
                              : run_reference(c, operands);
        if (status != IPU_OK) break;
    }
    note(&c->runner->parts[part], status, r);
}

/* Error of the lowest-numbered failed replica, from its first failed part. */
static ipu_status conclude(const call *c, int n)
{
    const ipu__part *parts = c->runner->parts, *failed = NULL;
    for (int i = 0; i < n; i++)
        if (parts[i].status != IPU_OK && (!failed || parts[i].replica < failed->replica)) failed = &parts[i];
    if (!failed) return IPU_OK;
    return ipu__fail(failed->status, "kernel \"%s\": %s", c->call->def->name, failed->message);
}

static ipu_status run_call(call *c)
{
    const ipu__kernel *kernel = c->kernel;
    if (!kernel->impl)
        note(&c->runner->parts[0], run_reference(c, c->operands), 0);
    else if (kernel->n_parts > 1)
        ipu__pool_run(c->runner->pool, run_part, c);
    else
        run_part(c, 0, 1);
    return conclude(c, kernel->n_parts);
}

static ipu_status run_calls(call *c)
{
    if (c->kernel->n_states > 1) {
        ipu__pool_run(c->runner->pool, run_replicas, c);
        return conclude(c, c->kernel->n_states);
    }
    for (int64_t r = 0; r < c->runner->e->replication; r++, c->operands += c->call->n_operands)
        IPU_TRY(run_call(c));
    return IPU_OK;
}

ipu_status ipu__cpu_run_kernel(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n)
{
    const ipu__cpu        *e      = l->e;
    const ipu__exe_kernel *from   = &e->exe->kernels.at[i->a];
    const ipu__kernel     *kernel = &e->kernels[i->a];
    call                   c      = {l, kernel, kernel->call, kernel->operands};
    *n                            = 1;
    if (kernel->n_chunks > 0) return ipu__cpu_run_rows(l, i, n);
    bool has_inf = false;
    ipu__cpu_move(l, from->gather, 0, e->replication, NULL);
    if (e->check_floats) IPU_TRY(ipu__floats_check_inputs(e, i, &has_inf));
    IPU_TRY(run_calls(&c));
    if (e->check_floats) IPU_TRY(ipu__floats_check_outputs(e, i, has_inf));
    ipu__cpu_move(l, from->scatter, 0, e->replication, NULL);
    return IPU_OK;
}
