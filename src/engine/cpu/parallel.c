/* Sharing items among the engine's threads.
 *
 * Each thread starts with its own range, the same in every superstep, so that its data stay in its caches;
 * threads that finish early take chunks from the others' ranges.
 */
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/move.h"

enum {
    CHUNKS            = 8, /* per thread range: granularity of what others can take */
    LINE_BYTES        = 64,
    WORTH_COPY_BYTES  = 32 << 10, /* two to four microseconds on one thread */
    WORTH_NANOSECONDS = 8000, /* of work on one thread: anything less is done before another has started */
};

static void run_shares(void *data, int part, int n_parts)
{
    const ipu__work *work = data;
    for (int k = 0; k < n_parts; k++) {
        ipu__share *share = &work->runner->shares[(part + k) % n_parts];
        while (atomic_load_explicit(&share->next, memory_order_relaxed) < share->end) {
            long long at = atomic_fetch_add_explicit(&share->next, work->chunk, memory_order_relaxed);
            if (at >= share->end) break;
            work->run(work, at, at + work->chunk < share->end ? at + work->chunk : share->end);
        }
    }
}

void ipu__parallel_run(ipu__work *work, int64_t n)
{
    const ipu__cpu_runner *l = work->runner;
    work->chunk              = n / ((int64_t)l->n_threads * CHUNKS);
    if (work->chunk < 1) work->chunk = 1;
    for (int64_t part = 0; part < l->n_threads; part++) {
        atomic_store_explicit(&l->shares[part].next, n * part / l->n_threads, memory_order_relaxed);
        l->shares[part].end = n * (part + 1) / l->n_threads;
    }
    ipu__pool_run(l->pool, run_shares, work);
}

/* Item i is move i % n of replica i / n. */
static void run_moves(const ipu__work *work, int64_t begin, int64_t end)
{
    const ipu__cpu_runner *l       = work->runner;
    const ipu__exe_batch  *batch   = work->object;
    int64_t                replica = work->first_replica + begin / batch->n, move = begin % batch->n;
    for (; begin < end; begin++) {
        int64_t to = work->to_replica ? work->to_replica[replica] : replica;
        ipu__move_run(&l->e->exe->moves, (size_t)(batch->first + move), l->bases[to], l->bases[replica]);
        if (++move == batch->n) {
            move = 0;
            replica++;
        }
    }
}

/* One run of bytes, divided into as many parts as threads: each then has its part in its own caches, where kernels
 * that divide the same batch find it. */
typedef struct run_copy {
    char       *to;
    const char *from;
    size_t      bytes;
} run_copy;

static void copy_part(void *data, int part, int n_parts)
{
    const run_copy *c = data;
    size_t lines = c->bytes / LINE_BYTES, begin = lines * (size_t)part / (size_t)n_parts * LINE_BYTES,
           end = part == n_parts - 1 ? c->bytes : lines * (size_t)(part + 1) / (size_t)n_parts * LINE_BYTES;
    memcpy(c->to + begin, c->from + begin, end - begin);
}

static bool copy_run(ipu__cpu_runner *l, const ipu__exe_batch *b, int64_t replica)
{
    const ipu__move *m = &l->e->exe->moves.at.at[b->first];
    if (m->n_loops > 0 || m->bytes < WORTH_COPY_BYTES) return false;
    run_copy copy = {ipu__place_pointer(m->to, l->bases[replica]),
                     ipu__place_pointer(m->from, l->bases[replica]), m->bytes};
    ipu__pool_run(l->pool, copy_part, &copy);
    return true;
}

void ipu__cpu_move(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, const int64_t *to_replica)
{
    const ipu__exe_batch *b    = &l->e->exe->batches.at[batch];
    int64_t               n    = (end - first) * b->n;
    ipu__work             work = {
                    .runner = l, .run = run_moves, .object = b, .first_replica = first, .to_replica = to_replica};
    if (n == 0 || (l->pool && n == 1 && !to_replica && copy_run(l, b, first))) return;
    if (l->pool && n > 1 && l->e->batch_ns[batch] * (end - first) > WORTH_NANOSECONDS)
        ipu__parallel_run(&work, n);
    else
        run_moves(&work, 0, n);
}

void ipu__cpu_move_packed(ipu__cpu_runner *l, uint32_t batch, int64_t first, int64_t end, void *host)
{
    for (int64_t r = first; r < end; r++) l->bases[r][IPU__SPACE_HOST] = host;
    ipu__cpu_move(l, batch, first, end, NULL);
}
