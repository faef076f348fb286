/* Kernels depth first: each thread takes chunks of rows of the batch through a run of kernels, one chunk at a time.
 *
 * The compiler has found the runs (engine/rows.c) and given their variables separate memory. Threads synchronise
 * only at the end of a run. Kernels of a run are prepared for chunks, with a state per thread, even when run alone.
 */
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"

enum {
    MOST_CHUNK  = IPU__LAYOUT_WIDTH,
    LEAST_CHUNK = 4,
    /* For what a kernel reads and writes of a chunk: most of a second-level cache. */
    CACHE_BYTES = 768 << 10,
};
/* 20 us at some 5 operations per ns: shorter runs have little to gain. */
#define WORTH_OPERATIONS 1e5

typedef struct run {
    ipu__cpu_runner        *runner;
    const ipu__instruction *code;
    uint32_t                n;
    size_t scratch_bytes; /* per thread: the most that any kernel needs, as threads are at different ones */
} run;

static int64_t row_bytes(const ipu__kernel_value *value)
{
    int64_t bytes = (int64_t)ipu_type_size(value->type);
    for (int d = 1; d < value->shape.rank; d++) bytes *= value->shape.dim[d];
    return bytes;
}

/* ---- at creation ---- */

static ipu__kernel *kernel_at(const ipu__cpu *e, const run *r, uint32_t k)
{
    return &e->kernels[r->code[k].a];
}

static const ipu__exe_kernel *from_at(const ipu__cpu *e, const run *r, uint32_t k)
{
    return &e->exe->kernels.at[r->code[k].a];
}

static int64_t n_rows_of(const ipu__kernel_call *call, uint32_t rows)
{
    for (int i = 0; i < call->n_operands; i++)
        if (rows & (uint32_t)1 << i)
            return call->operand[i].shape.rank > 0 ? call->operand[i].shape.dim[0] : 0;
    return 0;
}

/* Whether the kernel can run row by row at all; *bytes: size of its rows. */
static bool is_fit(const ipu__cpu *e, const run *r, uint32_t k, int64_t n_rows, int64_t *bytes)
{
    const ipu__exe_kernel *from = from_at(e, r, k);
    uint32_t               rows = ipu__kernel_rows(&from->call);
    *bytes                      = 0;
    if (!rows || e->in_body[r->code[k].a] || kernel_at(e, r, k)->is_idle
        || e->exe->batches.at[from->gather].n > 0 || e->exe->batches.at[from->scatter].n > 0)
        return false;
    for (int i = 0; i < from->call.n_operands; i++) {
        const ipu__kernel_value *value = &from->call.operand[i];
        if (!(rows & (uint32_t)1 << i)) {
            if (from->call.def->operands[i].access != IPU__ACCESS_READ && ipu__kernel_has(&from->call, i))
                return false;
            continue;
        }
        if (value->shape.rank == 0 || value->shape.dim[0] != n_rows) return false;
        *bytes += row_bytes(value);
    }
    return true;
}

/* Rows per chunk; 0 if it is not worth it, or the batch is not a multiple. */
static int64_t choose_chunk(const ipu__cpu *e, const run *r)
{
    int64_t n_rows = n_rows_of(&from_at(e, r, 0)->call, ipu__kernel_rows(&from_at(e, r, 0)->call));
    int64_t most = 0, bytes, chunk = MOST_CHUNK;
    double  work = 0;
    for (uint32_t k = 0; k < r->n; k++) {
        if (!is_fit(e, r, k, n_rows, &bytes)) return 0;
        if (bytes > most) most = bytes;
        work += from_at(e, r, k)->call.def->work(&from_at(e, r, k)->call);
    }
    while (chunk > LEAST_CHUNK && chunk * most > CACHE_BYTES) chunk /= 2;
    int64_t n       = n_rows / chunk;
    bool    is_even = n % e->n_threads == 0 || n >= 4 * e->n_threads;
    return n_rows % chunk == 0 && n > 1 && is_even && work >= WORTH_OPERATIONS ? chunk : 0;
}

static ipu__kernel_call call_of_chunk(const ipu__kernel_call *call, int64_t chunk)
{
    ipu__kernel_call small = *call;
    uint32_t         rows  = ipu__kernel_rows(call);
    for (int i = 0; i < call->n_operands; i++)
        if (rows & (uint32_t)1 << i) small.operand[i].shape.dim[0] = chunk;
    return small;
}

static bool all_have_implementations(const ipu__cpu *e, const run *r, int64_t chunk)
{
    for (uint32_t k = 0; k < r->n; k++) {
        ipu__kernel_call call = call_of_chunk(&from_at(e, r, k)->call, chunk);
        if (call.def->check(&call) != IPU_OK || !ipu__cpu_find_impl(&call, ipu__cpu_machine_here(), 1))
            return false;
    }
    return true;
}

static ipu_status set_chunk(const ipu__cpu *e, ipu__kernel *kernel, const ipu__kernel_call *call,
                            int64_t chunk)
{
    uint32_t rows = ipu__kernel_rows(call);
    if (kernel->n_chunks > 0) return IPU_OK; /* part of a run that another program shares */
    kernel->own_call    = ipu__alloc(sizeof *kernel->own_call);
    kernel->chunk_bytes = ipu__alloc_zeroed((size_t)call->n_operands * sizeof *kernel->chunk_bytes);
    if (!kernel->own_call || !kernel->chunk_bytes) return ipu__fail_memory();
    *kernel->own_call = call_of_chunk(call, chunk);
    kernel->call      = kernel->own_call;
    kernel->impl      = ipu__cpu_find_impl(kernel->call, ipu__cpu_machine_here(), 1);
    kernel->n_parts   = 1;
    kernel->n_states  = e->n_threads;
    kernel->n_chunks  = n_rows_of(call, rows) / chunk;
    for (int i = 0; i < call->n_operands; i++)
        if (rows & (uint32_t)1 << i) kernel->chunk_bytes[i] = (size_t)(row_bytes(&call->operand[i]) * chunk);
    return IPU_OK;
}

ipu_status ipu__cpu_choose_rows(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    if (!e->layouts || e->check || e->check_floats || e->replication > 1) return IPU_OK;
    for (size_t pc = 0; pc < exe->code.n; pc++) {
        run r = {.code = &exe->code.at[pc], .n = (uint32_t)exe->code.at[pc].n};
        if (r.code->op != IPU__CODE_KERNEL || r.n < 2) continue;
        int64_t chunk = choose_chunk(e, &r);
        pc += r.n - 1;
        if (chunk == 0 || !all_have_implementations(e, &r, chunk)) continue;
        for (uint32_t k = 0; k < r.n; k++)
            IPU_TRY(set_chunk(e, kernel_at(e, &r, k), &from_at(e, &r, k)->call, chunk));
    }
    return IPU_OK;
}

/* ---- running ---- */

static ipu_status run_chunk(const run *r, uint32_t k, int64_t chunk, int part)
{
    const ipu__cpu    *e      = r->runner->e;
    const ipu__kernel *kernel = kernel_at(e, r, k);
    void              *operand[IPU__MAX_OPERANDS];
    for (int i = 0; i < kernel->call->n_operands; i++)
        operand[i] = (char *)kernel->operands[i] + (size_t)chunk * kernel->chunk_bytes[i];
    return kernel->impl->run(kernel->call, kernel->states[part], operand,
                             r->runner->scratch + (size_t)part * r->scratch_bytes, 0, 1);
}

static void run_chunks(void *data, int part, int n_parts)
{
    const run       *r     = data;
    ipu__cpu_runner *l     = r->runner;
    int64_t          n     = kernel_at(l->e, r, 0)->n_chunks;
    ipu__part       *own   = &l->parts[part];
    int64_t          begin = n * part / n_parts, end = n * (part + 1) / n_parts;
    own->status = IPU_OK;
    for (int64_t chunk = begin; chunk < end; chunk++)
        for (uint32_t k = 0; k < r->n; k++) {
            if (part == 0 && l->e->engine->times)
                ipu__times_go_on(l->run, (uint32_t)(r->code - l->e->exe->code.at) + k);
            own->status  = run_chunk(r, k, chunk, part);
            own->replica = k;
            if (own->status == IPU_OK) continue;
            snprintf(own->message, sizeof own->message, "%.*s", IPU__PART_MESSAGE_BYTES - 1, ipu_message());
            return;
        }
}

ipu_status ipu__cpu_run_rows(ipu__cpu_runner *l, const ipu__instruction *i, uint32_t *n)
{
    const ipu__cpu *e = l->e;
    run             r = {.runner = l, .code = i, .n = 1};
    while (r.n < i->n && e->kernels[i[r.n].a].n_chunks == e->kernels[i->a].n_chunks) r.n++;
    ipu__time *times = e->engine->times;
    for (uint32_t k = 1; times && k < r.n; k++) times[(size_t)(i - e->exe->code.at) + k].runs++;
    *n = r.n;
    for (uint32_t k = 0; k < r.n; k++)
        if (kernel_at(e, &r, k)->scratch_bytes > r.scratch_bytes)
            r.scratch_bytes = kernel_at(e, &r, k)->scratch_bytes;
    if (l->pool)
        ipu__pool_run(l->pool, run_chunks, &r);
    else
        run_chunks(&r, 0, 1);
    for (int p = 0; p < l->n_threads; p++)
        if (l->parts[p].status != IPU_OK)
            return ipu__fail(l->parts[p].status, "kernel \"%s\": %s",
                             e->kernels[i[l->parts[p].replica].a].call->def->name, l->parts[p].message);
    return IPU_OK;
}
