/* The CPU engine: its memory, and its engine record. */
#include "engine/cpu/cpu.h"

#include <string.h>

#include "engine/cpu/checking.h"
#include "engine/cpu/move.h"
#include "engine/memory.h"

/* ---- memory ---- */

enum { PAGE = 4096 };

/* Large neighbours of equal size must not start at the same offset in a page or in the same cache sets: spaced apart,
 * a loop over three arrays of 256 MiB takes half the time or less (`make bench`, "arrays out of step / in step").
 *
 * Small plans are spread: as long as everything stays in the caches, writing to memory last written by another core
 * costs more than writing to one's own (seed-cnn, training batch of 16: 128 to 126 us; of 64, distant cores: 726 to
 * 707). Below `least_spread` there was no gain (inference of 16). */
const ipu__memory_spacing ipu__cpu_spacing = {.large        = 256 << 10,
                                              .page         = PAGE,
                                              .padding      = PAGE + 21 * IPU__MEMORY_ALIGN,
                                              .most_spread  = 3 << 20,
                                              .least_spread = 256 << 10};

static char *alloc_replicas(const ipu__cpu *e, size_t stride)
{
    size_t bytes;
    return __builtin_mul_overflow(stride, (size_t)e->replication, &bytes) ? NULL : ipu__alloc_pages(bytes);
}

/* Records of replicas are consecutive, aligned as in the executable. */
static size_t rounded(size_t bytes)
{
    return (size_t)ipu__memory_room(&ipu__cpu_spacing, (int64_t)bytes + 1);
}

static bool alloc_memory(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    size_t                n   = (size_t)e->replication;
    e->variables_stride       = rounded((size_t)exe->variable_bytes);
    e->gather_stride          = rounded((size_t)exe->gather_bytes);
    e->records_stride         = rounded(exe->records.n);
    e->variables              = alloc_replicas(e, e->variables_stride);
    e->gather                 = alloc_replicas(e, e->gather_stride);
    e->records                = alloc_replicas(e, e->records_stride);
    e->batch_ns               = ipu__alloc(exe->batches.n * sizeof *e->batch_ns);
    e->spans                  = ipu__alloc(exe->spans.n * n * sizeof *e->spans);
    e->groups                 = ipu__alloc(exe->groups.n * sizeof *e->groups);
    e->sets                   = ipu__alloc(exe->sets.n * sizeof *e->sets);
    e->paces                  = ipu__alloc((exe->programs.n + 1) * sizeof *e->paces);
    if (!e->variables || !e->gather || !e->records || !e->batch_ns || !e->spans || !e->groups || !e->sets
        || !e->paces)
        return false;
    for (size_t i = 0; i < exe->programs.n; i++) ipu__pace_init(&e->paces[i]);
    for (size_t i = 0; i < exe->batches.n; i++)
        e->batch_ns[i] = ipu__moves_nanoseconds(&exe->moves, exe->batches.at[i].first, exe->batches.at[i].n);
    return true;
}

static void set_initial_values(ipu__cpu *e)
{
    for (size_t i = 0; i < e->exe->initial.n; i++)
        ipu__cpu_move(e->runners, e->exe->initial.at[i], 0, e->replication, NULL);
    for (size_t i = 0; i < e->exe->replication_indices.n; i++)
        for (int64_t r = 0; r < e->replication; r++) {
            uint32_t index = (uint32_t)r;
            memcpy(ipu__cpu_pointer(e, r, e->exe->replication_indices.at[i]), &index, sizeof index);
        }
}

/* ---- life ---- */

static ipu_status create(ipu_engine *engine)
{
    ipu__cpu *e = engine->own = ipu__alloc_zeroed(sizeof *e);
    if (!e) return ipu__fail_memory();
    e->engine       = engine;
    e->exe          = engine->exe;
    e->replication  = engine->replication;
    e->n_threads    = engine->settings.threads;
    e->layouts      = engine->settings.layouts;
    e->check_floats = engine->settings.check_floats;
    if (!alloc_memory(e)) return ipu__fail_memory();
    IPU_TRY(ipu__cpu_runners_create(e));
    ipu__cpu_prepare_sets(e);
    set_initial_values(e);
    if (e->exe->check) IPU_TRY(ipu__checking_create(e));
    return ipu__cpu_prepare_kernels(e);
}

static void destroy(ipu_engine *engine)
{
    ipu__cpu *e = engine->own;
    if (!e) return;
    size_t n = (size_t)e->replication;
    ipu__cpu_release_kernels(e);
    ipu__checking_destroy(e);
    ipu__cpu_runners_destroy(e);
    ipu__free_pages(e->variables, e->variables_stride * n);
    ipu__free_pages(e->gather, e->gather_stride * n);
    ipu__free_pages(e->records, e->records_stride * n);
    void *const owned[] = {e->batch_ns, e->spans, e->groups, e->sets, e->paces, e->in_body, e};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
}

/* ---- running ---- */

static void begin_run(ipu_engine *engine, size_t program)
{
    ipu__cpu *e      = engine->own;
    e->openmp_before = ipu__openmp_enter(e);
    e->pace_began    = ipu__pace_begin(e, &e->paces[program]);
}

static void end_run(ipu_engine *engine, size_t program)
{
    ipu__cpu *e = engine->own;
    ipu__pace_end(&e->paces[program], e->pace_began);
    ipu__openmp_leave(e, e->openmp_before);
}

static ipu_status execute(ipu__runner *l, const ipu__instruction *i)
{
    return ipu__cpu_execute(ipu__cpu_runner_of(l), i);
}

static ipu_status run_kernel(ipu__runner *l, const ipu__instruction *i, uint32_t *n)
{
    return ipu__cpu_run_kernel(ipu__cpu_runner_of(l), i, n);
}

static ipu_status move(ipu__runner *l, uint32_t batch, const int64_t *to_replica)
{
    ipu__cpu_move(ipu__cpu_runner_of(l), batch, 0, l->e->replication, to_replica);
    return IPU_OK;
}

static ipu_status write_packed(ipu__runner *l, const ipu__exe_tensor *t, int64_t first, int64_t end,
                               const void *packed)
{
    void *host = (void *)(uintptr_t)packed; /* moves of such a tensor only read from it */
    ipu__cpu_move_packed(ipu__cpu_runner_of(l), t->batch, first, end, host);
    return IPU_OK;
}

static ipu_status read_packed(ipu__runner *l, const ipu__exe_tensor *t, int64_t replica, void *packed)
{
    ipu__cpu_move_packed(ipu__cpu_runner_of(l), t->batch, replica, replica + 1, packed);
    return IPU_OK;
}

static ipu_status peek(const ipu_engine *e, int64_t replica, ipu__place place, void *out, size_t bytes)
{
    memcpy(out, ipu__cpu_pointer(e->own, replica, place), bytes);
    return IPU_OK;
}

static char *map(const ipu_engine *e, int64_t replica, ipu__place place)
{
    return ipu__cpu_pointer(e->own, replica, place);
}

/* ---- what it chose ---- */

static void describe(const ipu_engine *e, size_t i, ipu_engine_kernel *out)
{
    const ipu__kernel *kernel = &ipu__cpu_of(e)->kernels[i];
    if (!kernel->is_idle) out->implementation = kernel->impl ? kernel->impl->head.name : "reference";
    out->n_parts      = kernel->n_states > 1 ? kernel->n_states : kernel->n_parts;
    out->n_chunks     = kernel->n_chunks > 1 ? kernel->n_chunks : 1;
    out->turned_bytes = kernel->turned_bytes;
}

static const char *layout(const ipu_engine *e, size_t i, int operand)
{
    return ipu__layout_name((ipu__memory_layout)ipu__cpu_of(e)->kernels[i].call->layout[operand]);
}

/* As many rows as a second-level cache has room for; sixteen, the width of a lane layout (impl.h). */
static const ipu__engine_depth depth = {
    .rows = IPU__LAYOUT_WIDTH, .row_bytes = 128 << 10, .same_bytes = 512 << 10};

const ipu__engine_def ipu__cpu_engine = {
    .name      = IPU__CPU_ENGINE,
    .summary   = "this host's processors, on all threads",
    .create    = create,
    .destroy   = destroy,
    .n_runners = ipu__cpu_n_runners,
    .at_once   = ipu__cpu_at_once,
    .begin_run = begin_run,
    .end_run   = end_run,
    .execute   = execute,
    .kernel    = run_kernel,
    .move      = move,
    .reduce    = ipu__cpu_reduce,
    .write     = write_packed,
    .read      = read_packed,
    .peek      = peek,
    .map       = map,
    .lend      = ipu__cpu_lend,
    .describe  = describe,
    .layout    = layout,
    .checks    = &ipu__cpu_checks,
    .fuses     = ipu__cpu_fuses,
    .spacing   = &ipu__cpu_spacing,
    .depth     = &depth,
    /* First: more than fits in caches, so that recomputing costs little; second: what fits, so that weights
     * are still cached. */
    .remat_bytes  = 24 << 20,
    .update_bytes = 8 << 20,
};
