/* Sums over replicas, here and in other processes.
 *
 * Those of this process are added up at once, as a tree: 0 + 1, 2 + 3, then pairs of those. With other processes the sum
 * goes on in the background (comm/comm.h), as the tree over their ranks; what comes back is written to all replicas by
 * the wait. The additions are those of one process that has all the replicas, rank by rank.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "engine/cpu/engine.h"
#include "engine/memory.h"

enum {
    CHUNK        = 2048, /* elements, that fit a first-level cache with what they are added to */
    WORTH_CHUNKS = 4,    /* less is not shared among threads */
};

/* ---- this process's replicas ---- */

static char *element(const ipu_engine *e, int64_t replica, const ipu__exe_piece *p, size_t size, int64_t i)
{
    return ipu__engine_pointer(e, replica, p->place) + (size_t)i * size;
}

typedef struct run {
    const ipu_engine     *e;
    ipu_type              type;
    size_t                size;
    const ipu__exe_piece *piece;
    int64_t               begin; /* in the piece */
    size_t                n;
    char                 *sum; /* where it is, or is to be */
} run;

/* Replicas [first, first + count) to `out`, which may be the memory of the first. */
static void add_replicas(const run *r, int64_t first, int64_t count, char *out)
{
    _Alignas(64) char right[CHUNK * sizeof(double)];
    char             *a = element(r->e, first, r->piece, r->size, r->begin);
    if (count == 1) {
        if (a != out) memcpy(out, a, r->n * r->size);
        return;
    }
    if (count == 2) {
        ipu__comm_add(r->type, a, element(r->e, first + 1, r->piece, r->size, r->begin), out, r->n);
        return;
    }
    add_replicas(r, first, count / 2, out);
    add_replicas(r, first + count / 2, count - count / 2, right);
    ipu__comm_add(r->type, out, right, out, r->n);
}

static const ipu__exe_piece *find_piece(const ipu_executable *exe, const ipu__exe_reduce *reduce, int64_t at)
{
    const ipu__exe_piece *pieces = exe->pieces.at + reduce->first;
    uint32_t              low = 0, high = reduce->n;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (pieces[middle].at <= at)
            low = middle;
        else
            high = middle;
    }
    return &pieces[low];
}

/* What is done with a run of elements. */
typedef void (*run_fn)(const run *r);

typedef struct pass {
    uint32_t reduce;
    run_fn   fn;
    char    *data; /* of the sum, packed; NULL: it is in the memory of replica 0 */
} pass;

/* Item i is chunk i of the elements. */
static void run_chunks(const ipu__work *work, int64_t begin, int64_t end)
{
    const pass            *p      = work->object;
    const ipu_executable  *exe    = work->lane->e->exe;
    const ipu__exe_reduce *reduce = &exe->reduces.at[p->reduce];
    int64_t                at = begin * CHUNK, last = end * CHUNK;
    run r = {.e = work->lane->e, .type = reduce->type, .size = ipu_type_size(reduce->type)};
    if (last > reduce->n_elements) last = reduce->n_elements;
    for (r.piece = find_piece(exe, reduce, at); at < last; at += (int64_t)r.n) {
        if (at == r.piece->at + r.piece->n) r.piece++;
        int64_t left = r.piece->at + r.piece->n - at;
        if (left > last - at) left = last - at;
        r.begin = at - r.piece->at;
        r.n     = (size_t)(left < CHUNK ? left : CHUNK);
        r.sum   = p->data ? p->data + (size_t)at * r.size : element(r.e, 0, r.piece, r.size, r.begin);
        p->fn(&r);
    }
}

static void run_pass(ipu_engine *e, pass p)
{
    int64_t   n    = (e->exe->reduces.at[p.reduce].n_elements + CHUNK - 1) / CHUNK;
    ipu__work work = {.lane = e->lanes, .run = run_chunks, .object = &p};
    if (n == 0) return;
    if (e->lanes->pool && n * e->replication > WORTH_CHUNKS)
        ipu__parallel_run(&work, n);
    else
        run_chunks(&work, 0, n);
}

static void spread(const run *r)
{
    for (int64_t k = 0; k < r->e->replication; k++) {
        char *to = element(r->e, k, r->piece, r->size, r->begin);
        if (to != r->sum) memcpy(to, r->sum, r->n * r->size);
    }
}

static void add_here(const run *r) { add_replicas(r, 0, r->e->replication, r->sum); }

static void add_and_spread(const run *r)
{
    add_here(r);
    spread(r);
}

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

ipu_status ipu__engine_all_reduce(ipu_engine *e, const ipu__instruction *i)
{
    const ipu__exe_reduce *reduce = &e->exe->reduces.at[i->a];
    e->lanes->counts.supersteps++;
    if (reduce->n_elements == 0) return IPU_OK;
    if (!e->sums) {
        if (e->replication > 1) run_pass(e, (pass){i->a, add_and_spread, NULL});
        return IPU_OK;
    }
    ipu__sum *sum = &e->sums[i->a];
    if (sum->has_begun)
        return ipu__engine_abort(e, i, "all_reduce: the sum that was begun before was not waited for");
    size_t bytes = (size_t)reduce->n_elements * ipu_type_size(reduce->type);
    if (sum->data || e->replication > 1) run_pass(e, (pass){i->a, add_here, sum->data});
    sum->job      = (ipu__comm_job){.kind = IPU__COMM_ALL_REDUCE, .type = reduce->type, .bytes = bytes};
    sum->job.data = sum->data ? sum->data : ipu__engine_pointer(e, 0, e->exe->pieces.at[reduce->first].place);
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
        if (of_sum != IPU_OK) status = of_sum;
        if (of_sum == IPU_OK && (sum->data || e->replication > 1)) run_pass(e, (pass){i, spread, sum->data});
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

/* What is one piece is added up where it lies. */
static size_t packed_bytes(const ipu__exe_reduce *r)
{
    if (r->n == 1) return 0;
    return (size_t)ipu__memory_round(r->n_elements * (int64_t)ipu_type_size(r->type));
}

/* All have the same sums in the same order: else one would wait for what never comes. */
static ipu_status agree(const ipu_executable *exe, ipu_comm *comm)
{
    ipu__text all = {0};
    char      hash_text[IPU__HASH_TEXT], value[96];
    int64_t   n = 0, n_elements = 0;
    for (size_t i = 0; i < exe->code.n; i++) {
        if (exe->code.at[i].op != IPU__OP_ALL_REDUCE && exe->code.at[i].op != IPU__OP_ALL_REDUCE_WAIT)
            continue;
        const ipu__exe_reduce *r = exe->code.at[i].op == IPU__OP_ALL_REDUCE
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
    for (size_t i = 0; i < exe->reduces.n; i++) e->sums_bytes += packed_bytes(&exe->reduces.at[i]);
    e->sums      = ipu__alloc_zeroed((exe->reduces.n + 1) * sizeof *e->sums);
    e->sums_data = ipu__alloc_pages(e->sums_bytes);
    if (!e->sums || !e->sums_data) {
        ipu__engine_leave(e);
        return ipu__fail_memory();
    }
    e->comm  = comm;
    char *at = e->sums_data;
    for (size_t i = 0; i < exe->reduces.n; i++) {
        size_t bytes = packed_bytes(&exe->reduces.at[i]);
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
