/* Compute sets: calling the bodies of vertices, here or on all threads.
 *
 * Every vertex of a superstep runs even if one has failed, so that the failure reported does not depend on
 * the order in which threads run them.
 */
#include <stdio.h>
#include <string.h>

#include "base/host/clock.h"
#include "engine/cpu/checking.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/move.h"

enum {
    WORTH_NANOSECONDS      = 8000,   /* see parallel.c */
    COLD_WORTH_NANOSECONDS = 100000, /* for the first run, which also waits for memory */
    VERTEX_NANOSECONDS     = 3,      /* first guess, until a run has been timed */
    BYTES_PER_NANOSECOND   = 8,
};

static void note_failure(ipu__cpu_runner *l, uint32_t vertex, int64_t replica)
{
    unsigned long long failure = (unsigned long long)l->e->exe->vertices.at[vertex].number << 32
                               | (unsigned long long)replica;
    unsigned long long before = atomic_load_explicit(&l->failed, memory_order_relaxed);
    while (failure < before
           && !atomic_compare_exchange_weak_explicit(&l->failed, &before, failure, memory_order_relaxed,
                                                     memory_order_relaxed))
        ;
}

static bool call_multi(const ipu__group *group, char *record, unsigned n_workers)
{
    bool ok = true;
    for (unsigned worker = 0; worker < n_workers; worker++) ok &= group->compute(record, worker, n_workers);
    return ok;
}

static void run_gathering(ipu__cpu_runner *l, const ipu__group *group, int64_t replica, int64_t i,
                          char *record)
{
    const ipu_executable        *exe     = l->e->exe;
    const ipu__exe_vertex_moves *moves   = &exe->vertex_moves.at[group->first_moves + i];
    char *const                 *bases   = l->bases[replica];
    unsigned                     workers = exe->n_workers;
    for (uint32_t m = moves->gather; m < moves->scatter; m++) ipu__move_run(&exe->moves, m, bases, bases);
    if (!(group->multi ? call_multi(group, record, workers) : group->compute(record, 0, workers)))
        note_failure(l, group->first_vertex + (uint32_t)i, replica);
    for (uint32_t m = moves->scatter; m < moves->end; m++) ipu__move_run(&exe->moves, m, bases, bases);
}

/* Vertices begin <= i < end of the group. */
static void run_group(ipu__cpu_runner *l, const ipu__group *group, int64_t replica, int64_t begin,
                      int64_t end)
{
    ipu_compute_fn compute = group->compute;
    unsigned       workers = l->e->exe->n_workers;
    size_t         stride  = group->stride;
    char          *record  = group->records + (size_t)replica * l->e->records_stride + (size_t)begin * stride;
    if (group->first_moves != IPU__NONE) {
        for (int64_t i = begin; i < end; i++, record += stride) run_gathering(l, group, replica, i, record);
        return;
    }
    if (group->multi) {
        for (int64_t i = begin; i < end; i++, record += stride)
            if (!call_multi(group, record, workers))
                note_failure(l, group->first_vertex + (uint32_t)i, replica);
        return;
    }
    for (int64_t i = begin; i < end; i++, record += stride)
        if (!compute(record, 0, workers)) note_failure(l, group->first_vertex + (uint32_t)i, replica);
}

/* Vertices begin <= i < end of the set, of one replica. */
static void run_vertices(ipu__cpu_runner *l, const ipu__set *set, int64_t replica, int64_t begin, int64_t end)
{
    for (uint32_t k = 0; k < set->n_groups; k++) {
        const ipu__group *group = &set->groups[k];
        int64_t           from  = begin > group->begin ? begin : group->begin;
        int64_t           to    = end < group->end ? end : group->end;
        if (from < to) run_group(l, group, replica, from - group->begin, to - group->begin);
    }
}

/* Item i is vertex i % n of replica i / n. */
static void run_items(const ipu__work *work, int64_t begin, int64_t end)
{
    const ipu__set *set = work->object;
    while (begin < end) {
        int64_t replica = begin / set->n_vertices, first = begin % set->n_vertices;
        int64_t n = set->n_vertices - first < end - begin ? set->n_vertices - first : end - begin;
        run_vertices(work->runner, set, replica, first, first + n);
        begin += n;
    }
}

static void run_set(ipu__cpu_runner *l, const ipu__set *set)
{
    int64_t   replication = l->e->replication;
    ipu__work work        = {.runner = l, .run = run_items, .object = set};
    if (set->parallel && l->pool)
        ipu__parallel_run(&work, set->n_vertices * replication);
    else
        for (int64_t r = 0; r < replication; r++) run_vertices(l, set, r, 0, set->n_vertices);
}

/* Every so often, timing decides how the next runs go: on one thread if the work is too short to be worth
 * sharing, or if sharing took longer. The results are the same either way. */
static void run_timed(ipu__cpu_runner *l, ipu__set *set)
{
    int64_t begin = ipu__clock_ns();
    run_set(l, set);
    int64_t took = ipu__clock_ns() - begin;
    if (set->parallel) {
        set->parallel = set->alone_ns == 0 || took < set->alone_ns;
    } else {
        set->alone_ns = took > 0 ? took : 1;
        set->parallel = took > (set->runs == 0 ? COLD_WORTH_NANOSECONDS : WORTH_NANOSECONDS);
    }
}

static ipu_status fail(ipu__cpu_runner *l, const ipu__exe_set *set)
{
    const ipu_executable *exe = l->e->exe;
    unsigned long long failed = atomic_exchange_explicit(&l->failed, IPU__NO_FAILURE, memory_order_relaxed);
    char               where[IPU__EXE_WHERE_BYTES], replica[32] = "";
    if (l->e->replication > 1)
        snprintf(replica, sizeof replica, " of replica %u", (unsigned)(failed & UINT32_MAX));
    for (uint32_t k = set->first_group; k < set->first_group + set->n_groups; k++) {
        const ipu__exe_group *group = &exe->groups.at[k];
        for (uint32_t i = group->first; i < group->first + group->n; i++) {
            const ipu__exe_vertex *vertex = &exe->vertices.at[i];
            if (vertex->number != failed >> 32) continue;
            ipu__exe_where(exe, vertex->location, where);
            return ipu__fail(IPU_ABORTED,
                             "vertex \"%s\" of compute set \"%s\" on tile %u%s%s%s%s returned false",
                             ipu__exe_text(exe, exe->codelets.at[group->codelet].name),
                             ipu__exe_text(exe, set->name), vertex->tile, replica, *where ? " (" : "", where,
                             *where ? ")" : "");
        }
    }
    return ipu__fail(IPU_ABORTED, "a vertex of compute set \"%s\" returned false",
                     ipu__exe_text(exe, set->name));
}

ipu_status ipu__cpu_execute(ipu__cpu_runner *l, const ipu__instruction *i)
{
    ipu__cpu *e   = l->e;
    ipu__set *set = &e->sets[i->a];
    if (e->check)
        IPU_TRY(ipu__checking_execute(e, i));
    else if (l->pool && set->may_be_parallel && (set->runs & (set->runs - 1)) == 0 && set->runs != 1)
        run_timed(l, set);
    else
        run_set(l, set);
    set->runs++;
    if (atomic_load_explicit(&l->failed, memory_order_relaxed) == IPU__NO_FAILURE) return IPU_OK;
    return fail(l, &e->exe->sets.at[i->a]);
}

/* ---- at creation ---- */

static void resolve_records(ipu__cpu *e, const ipu__exe_group *from, int64_t replica)
{
    const ipu__exe_codelet *codelet = &e->exe->codelets.at[from->codelet];
    const ipu__exe_field   *fields  = e->exe->fields.at + codelet->first_field;
    char                   *record  = e->records + (size_t)replica * e->records_stride + from->records;
    for (uint32_t i = 0; i < from->n; i++, record += codelet->bytes)
        for (uint32_t k = 0; k < codelet->n_fields; k++) {
            ipu__place place;
            memcpy(&place, record + fields[k], sizeof place);
            char *pointer = ipu__cpu_pointer(e, replica, place);
            memcpy(record + fields[k], &pointer, sizeof pointer);
        }
}

static void prepare_groups(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    for (int64_t r = 0; r < e->replication; r++) {
        if (exe->records.n)
            memcpy(e->records + (size_t)r * e->records_stride, exe->records.at, exe->records.n);
        for (size_t i = 0; i < exe->groups.n; i++) resolve_records(e, &exe->groups.at[i], r);
        for (size_t i = 0; i < exe->spans.n; i++) {
            const ipu__exe_span *span              = &exe->spans.at[i];
            e->spans[(size_t)r * exe->spans.n + i] = (ipu_span){ipu__cpu_pointer(e, r, span->place),
                                                                span->size};
        }
    }
}

void ipu__cpu_prepare_sets(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    prepare_groups(e);
    for (size_t i = 0; i < exe->sets.n; i++) {
        const ipu__exe_set *set = &exe->sets.at[i];
        int64_t n = 0, guess = (set->n_vertices * VERTEX_NANOSECONDS + set->bytes / BYTES_PER_NANOSECOND)
                             * e->replication;
        for (uint32_t k = set->first_group; k < set->first_group + set->n_groups; k++) {
            const ipu__exe_group   *from    = &exe->groups.at[k];
            const ipu__exe_codelet *codelet = &exe->codelets.at[from->codelet];
            e->groups[k]                    = (ipu__group){codelet->compute,  e->records + from->records,
                                                           codelet->bytes,    n,
                                                           n + from->n,       from->first,
                                                           from->first_moves, codelet->multi};
            n += from->n;
        }
        bool may   = e->n_threads > 1 && n * e->replication > 1;
        e->sets[i] = (ipu__set){.groups          = &e->groups[set->first_group],
                                .n_groups        = set->n_groups,
                                .n_vertices      = n,
                                .may_be_parallel = may,
                                .parallel        = may && guess > WORTH_NANOSECONDS};
    }
}
