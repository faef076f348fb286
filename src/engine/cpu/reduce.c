/* Sums over replicas: as a tree, 0 + 1, 2 + 3, then pairs of those, regardless of threads. */
#include <string.h>

#include "engine/cpu/cpu.h"

enum {
    CHUNK        = 2048, /* elements that fit a first-level cache together with their addends */
    WORTH_CHUNKS = 4,    /* anything less is not shared among threads */
};

static char *element(const ipu__cpu *e, int64_t replica, const ipu__exe_piece *p, size_t size, int64_t i)
{
    return ipu__cpu_pointer(e, replica, p->place) + (size_t)i * size;
}

typedef struct run {
    const ipu__cpu       *e;
    ipu_type              type;
    size_t                size;
    const ipu__exe_piece *piece;
    int64_t               begin; /* within the piece */
    size_t                n;
    char                 *sum; /* where it is, or goes */
} run;

/* Sums replicas [first, first + count) into `out`, which may be the memory of the first. */
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

/* Processes a run of elements. */
typedef void (*run_fn)(const run *r);

typedef struct pass {
    uint32_t reduce;
    run_fn   fn;
    char    *data; /* of the sum, packed; NULL if in the memory of replica 0 */
} pass;

/* Item i is chunk i of the elements. */
static void run_chunks(const ipu__work *work, int64_t begin, int64_t end)
{
    const pass            *p      = work->object;
    const ipu_executable  *exe    = work->runner->e->exe;
    const ipu__exe_reduce *reduce = &exe->reduces.at[p->reduce];
    int64_t                at = begin * CHUNK, last = end * CHUNK;
    run r = {.e = work->runner->e, .type = reduce->type, .size = ipu_type_size(reduce->type)};
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

ipu_status ipu__cpu_reduce(ipu__runner *runner, uint32_t reduce, unsigned what, void *packed)
{
    static const run_fn fns[] = {[IPU__REDUCE_ADD]                      = add_here,
                                 [IPU__REDUCE_SPREAD]                   = spread,
                                 [IPU__REDUCE_ADD | IPU__REDUCE_SPREAD] = add_and_spread};
    const ipu__cpu     *e     = ipu__cpu_of(runner->e);
    const pass          p     = {reduce, fns[what], packed};
    int64_t             n     = (e->exe->reduces.at[reduce].n_elements + CHUNK - 1) / CHUNK;
    ipu__work           work  = {.runner = e->runners, .run = run_chunks, .object = &p};
    if (n == 0) return IPU_OK;
    if (e->runners->pool && n * e->replication > WORTH_CHUNKS)
        ipu__parallel_run(&work, n);
    else
        run_chunks(&work, 0, n);
    return IPU_OK;
}
