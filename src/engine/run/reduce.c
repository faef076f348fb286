/* Sums over replicas, here and in other processes.
 *
 * The engine adds up this process's replicas immediately. The sum with other processes continues in the background
 * (comm/comm.h), as a tree over ranks; the wait writes the result to all replicas. The additions are the same as in a
 * single process with all the replicas, in rank order.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/text.h"
#include "engine/memory.h"
#include "engine/run/run.h"

/* ---- the steps ---- */

static int64_t n_rounds(int64_t size)
{
    int64_t n = 0;
    while (size > 1) {
        size /= 2;
        n++;
    }
    return n;
}

ipu_status ipu__engine_all_reduce(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine            *e      = l->e;
    const ipu__exe_reduce *reduce = &e->exe->reduces.at[i->a];
    e->runners->counts.supersteps++;
    if (reduce->n_elements == 0) return IPU_OK;
    if (!e->sums)
        return e->replication > 1 ? e->def->reduce(l, i->a, IPU__REDUCE_ADD | IPU__REDUCE_SPREAD, NULL)
                                  : IPU_OK;
    ipu__sum *sum = &e->sums[i->a];
    if (sum->has_begun)
        return ipu__engine_abort(e, i, "all_reduce: the sum that was begun before was not waited for");
    size_t bytes = (size_t)reduce->n_elements * ipu_type_size(reduce->type);
    if (sum->data || e->replication > 1) IPU_TRY(e->def->reduce(l, i->a, IPU__REDUCE_ADD, sum->data));
    sum->job       = (ipu__comm_job){.kind = IPU__COMM_ALL_REDUCE, .type = reduce->type, .bytes = bytes};
    sum->job.data  = sum->data ? sum->data : ipu__engine_map(e, 0, e->exe->pieces.at[reduce->first].place);
    sum->has_begun = true;
    e->comm_bytes += (int64_t)bytes * n_rounds(ipu_comm_size(e->comm));
    ipu__comm_begin(e->comm, &sum->job);
    return IPU_OK;
}

ipu_status ipu__engine_all_reduce_wait(ipu_engine *e)
{
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; e->sums && i < e->exe->reduces.n; i++) {
        ipu__sum *sum = &e->sums[i];
        if (!sum->has_begun) continue;
        sum->has_begun    = false;
        ipu_status of_sum = ipu__comm_wait(e->comm, &sum->job, &e->comm_waited);
        if (of_sum == IPU_OK && (sum->data || e->replication > 1))
            of_sum = e->def->reduce(e->runners, i, IPU__REDUCE_SPREAD, sum->data);
        if (of_sum != IPU_OK) status = of_sum;
    }
    return status;
}

/* ---- joining ---- */

void ipu__engine_leave(ipu_engine *e)
{
    ipu__engine_all_reduce_wait(e);
    ipu__free_pages(e->sums_data, e->sums_bytes);
    ipu__free(e->sums);
    e->sums       = NULL;
    e->sums_data  = NULL;
    e->sums_bytes = 0;
    e->comm       = NULL;
}

/* If it is one piece visible to the host, it is summed in place. */
static size_t packed_bytes(const ipu_engine *e, const ipu__exe_reduce *r)
{
    if (r->n == 1 && e->def->map) return 0;
    return (size_t)ipu__memory_align(r->n_elements * (int64_t)ipu_type_size(r->type));
}

/* All must have the same sums in the same order, or one would wait for something that never comes. */
static ipu_status agree(const ipu_executable *exe, ipu_comm *comm)
{
    ipu__text all = {0};
    char      hash_text[IPU__HASH_TEXT], value[96];
    int64_t   n = 0, n_elements = 0;
    for (size_t i = 0; i < exe->code.n; i++) {
        if (exe->code.at[i].op != IPU__CODE_ALL_REDUCE && exe->code.at[i].op != IPU__CODE_ALL_REDUCE_WAIT)
            continue;
        const ipu__exe_reduce *r = exe->code.at[i].op == IPU__CODE_ALL_REDUCE
                                     ? &exe->reduces.at[exe->code.at[i].a]
                                     : NULL;
        ipu__text_add(&all, "%d %" PRId64 ";", r ? (int)r->type : -1, r ? r->n_elements : 0);
        n += r != NULL;
        n_elements += r ? r->n_elements : 0;
    }
    if (all.failed) {
        ipu__text_fini(&all);
        return ipu__fail_memory();
    }
    ipu__hash128 hash = ipu__hash_bytes(all.at, all.n);
    ipu__text_fini(&all);
    ipu__hash_print(&hash, hash_text);
    snprintf(value, sizeof value, "%" PRId64 ", of %" PRId64 " elements in all (hash %.8s)", n, n_elements,
             hash_text);
    return ipu_comm_agree(comm, &(ipu_comm_item){"a program whose sums over processes are", value}, 1);
}

ipu_status ipu_engine_join(ipu_engine *e, ipu_comm *comm)
{
    const ipu_executable *exe = e->exe;
    IPU_TRY(ipu__engine_check(e));
    ipu__engine_leave(e);
    if (ipu_comm_size(comm) == 1) return IPU_OK;
    IPU_TRY(agree(exe, comm));
    for (size_t i = 0; i < exe->reduces.n; i++) e->sums_bytes += packed_bytes(e, &exe->reduces.at[i]);
    e->sums      = ipu__alloc_zeroed((exe->reduces.n + 1) * sizeof *e->sums);
    e->sums_data = ipu__alloc_pages(e->sums_bytes);
    if (!e->sums || !e->sums_data) {
        ipu__engine_leave(e);
        return ipu__fail_memory();
    }
    e->comm  = comm;
    char *at = e->sums_data;
    for (size_t i = 0; i < exe->reduces.n; i++) {
        size_t bytes = packed_bytes(e, &exe->reduces.at[i]);
        if (bytes > 0) e->sums[i].data = at;
        at += bytes;
    }
    return IPU_OK;
}

void ipu_engine_comm_counters(const ipu_engine *e, double *waited, int64_t *bytes)
{
    if (waited) *waited = e->comm_waited;
    if (bytes) *bytes = e->comm_bytes;
}
