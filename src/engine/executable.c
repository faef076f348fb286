/* Compiling a graph to an executable, and the lifetime of executables. */
#include "engine/executable.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "engine/checkinfo.h"
#include "engine/compile.h"
#include "engine/engine.h"
#include "graph/check/check.h"
#include "engine/memory.h"
#include "engine/options.h"
#include "engine/file/validate.h"
#include "ipu/cost.h"

/* ---- progress ---- */

static _Thread_local struct {
    ipu_progress_fn fn;
    void           *user;
} progress;

void ipu_set_compile_progress(ipu_progress_fn fn, void *user)
{
    progress.fn   = fn;
    progress.user = user;
}

static ipu_status report(ipu__compiler *c)
{
    if (!c->progress || c->progress(c->progress_user, c->percent, 100)) return IPU_OK;
    return ipu__fail(IPU_INTERRUPTED, "the compilation was stopped by its progress callback at %d%%",
                     c->percent);
}

ipu_status ipu__compiler_advance(ipu__compiler *c, int64_t work)
{
    c->work_done += work;
    if (!c->progress || c->work_done * 100 < (c->percent + 1) * c->work_total) return IPU_OK;
    int percent = (int)(c->work_done * 100 / c->work_total);
    c->percent  = percent < 100 ? percent : 99; /* 100 only when complete */
    return report(c);
}

/* ---- pieces of the executable that several passes make ---- */

uint32_t ipu__compiler_text(ipu__compiler *c, const char *text)
{
    ipu_executable *exe   = c->exe;
    size_t          bytes = strlen(text) + 1, at = exe->strings.n;
    if (at > 0 && bytes == 1) return 0;
    if (at + bytes >= IPU__NONE || !ipu__reserve(&exe->strings, bytes)) return IPU__NONE;
    memcpy(exe->strings.at + at, text, bytes);
    exe->strings.n += bytes;
    return (uint32_t)at;
}

/* Unknown on allocation failure, which `finish` reports. */
uint32_t ipu__compiler_location(ipu__compiler *c, uint32_t graph_location)
{
    ipu_executable *exe = c->exe;
    uint32_t       *id  = &c->location_of[graph_location];
    if (graph_location == 0 || *id != IPU__NONE) return graph_location == 0 ? 0 : *id;
    const ipu__location *at = &c->g->locations.at[graph_location];
    uint32_t             file;
    bool                 ok = true;
    if (!ipu__map_find(&c->files, at->file, &file)) {
        file = ipu__compiler_text(c, at->file);
        ok   = file != IPU__NONE && ipu__map_set(&c->files, at->file, file);
    }
    ok  = ok && ipu__push(&exe->locations, (ipu__exe_location){file, at->line});
    *id = ok ? (uint32_t)exe->locations.n - 1 : 0;
    if (!ok) c->out_of_memory = true;
    return *id;
}

bool ipu__compiler_constant(ipu__compiler *c, const void *data, size_t bytes, size_t align, ipu__place *out)
{
    size_t padding = (align - c->constants.n % align) % align;
    if (!ipu__reserve(&c->constants, bytes + padding)) return false;
    memset(c->constants.at + c->constants.n, 0, padding);
    c->constants.n += padding;
    *out = ipu__place_make(IPU__SPACE_CONSTANT, (int64_t)c->constants.n);
    if (bytes) memcpy(c->constants.at + c->constants.n, data, bytes);
    c->constants.n += bytes;
    return true;
}

const char *ipu__exe_where(const ipu_executable *exe, uint32_t location, char buffer[IPU__EXE_WHERE_BYTES])
{
    const ipu__exe_location *at = &exe->locations.at[location];
    buffer[0]                   = 0;
    if (location) snprintf(buffer, IPU__EXE_WHERE_BYTES, "%s:%d", ipu__exe_text(exe, at->file), at->line);
    return buffer;
}

/* ---- the compiler ---- */

static uint32_t *alloc_none(size_t n)
{
    uint32_t *array = ipu__alloc(n * sizeof *array);
    if (array) memset(array, 0xff, n * sizeof *array);
    return array;
}

static bool compiler_init(ipu__compiler *c)
{
    const ipu_graph *g = c->g;
    c->set_access      = ipu__alloc_zeroed(g->compute_sets.n * sizeof *c->set_access);
    c->var_stamp       = ipu__alloc_zeroed(g->variables.n * sizeof *c->var_stamp);
    c->var_slot        = ipu__alloc_zeroed(g->variables.n * sizeof *c->var_slot);
    c->is_gathered     = ipu__alloc_zeroed(g->vertices.n);
    c->is_used         = ipu__alloc_zeroed(g->variables.n);
    c->is_plain        = ipu__alloc_zeroed(g->variables.n);
    c->is_kept         = ipu__alloc_zeroed(g->variables.n);
    c->read_by         = alloc_none(g->variables.n);
    c->group.touched   = ipu__alloc_zeroed(g->variables.n * sizeof *c->group.touched);
    c->places          = ipu__alloc_zeroed(g->variables.n * sizeof *c->places);
    c->set_of          = alloc_none(g->compute_sets.n);
    c->codelet_of      = alloc_none(g->codelets.n);
    c->kernel_of       = alloc_none(g->kernel_steps.n);
    c->location_of     = alloc_none(g->locations.n);
    c->function_of     = alloc_none(g->functions.n);
    c->parallel_of     = alloc_none(g->n_parallels);
    c->group_of        = alloc_none(2 * g->codelets.n);
    c->layout          = (ipu__layout){&g->views, c->places};
    c->work_total      = 2 * (int64_t)g->vertices.n;
    return c->set_access && c->var_stamp && c->var_slot && c->is_gathered && c->is_used && c->is_plain
        && c->is_kept && c->read_by && c->group.touched && c->places && c->set_of && c->codelet_of
        && c->kernel_of && c->location_of && c->function_of && c->group_of && c->parallel_of;
}

static void compiler_fini(ipu__compiler *c)
{
    void *const owned[] = {c->is_kept,     c->read_by,    c->set_access, c->var_stamp,     c->var_slot,
                           c->is_gathered, c->is_used,    c->is_plain,   c->group.touched, c->places,
                           c->set_of,      c->codelet_of, c->kernel_of,  c->location_of,   c->function_of,
                           c->group_of,    c->parallel_of};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
    ipu__array_fini(&c->accesses);
    ipu__array_fini(&c->functions);
    ipu__array_fini(&c->constants);
    ipu__map_fini(&c->files);
}

static ipu_status place_constants(ipu__compiler *c)
{
    static const char nothing[IPU__MEMORY_ALIGN];
    ipu__place        empty;
    if (!ipu__compiler_constant(c, nothing, sizeof nothing, IPU__MEMORY_ALIGN, &empty))
        return ipu__fail_memory();
    for (size_t i = 1; i < c->g->variables.n; i++) {
        const ipu__variable *v = &c->g->variables.at[i];
        if (!c->is_used[i]) continue;
        if (v->kind == IPU__CONSTANT
            && !ipu__compiler_constant(c, v->data, (size_t)v->n_elements * ipu_type_size(v->type),
                                       IPU__MEMORY_ALIGN, &c->places[i]))
            return ipu__fail_memory();
        if (v->kind == IPU__REPLICATION_INDEX && !ipu__push(&c->exe->replication_indices, c->places[i]))
            return ipu__fail_memory();
    }
    return IPU_OK;
}

bool ipu__exe_add_names(ipu_executable *exe)
{
    bool ok = true;
    for (size_t i = 1; ok && i < exe->streams.n; i++)
        ok = ipu__map_set(&exe->stream_names, ipu__exe_text(exe, exe->streams.at[i].handle), (uint32_t)i);
    for (size_t i = 1; ok && i < exe->remotes.n; i++)
        ok = ipu__map_set(&exe->remote_names, ipu__exe_text(exe, exe->remotes.at[i].handle), (uint32_t)i);
    for (size_t i = 0; ok && i < exe->handles.n; i++)
        ok = ipu__map_set(exe->handles.at[i].is_write ? &exe->write_names : &exe->read_names,
                          ipu__exe_text(exe, exe->handles.at[i].handle), (uint32_t)i);
    return ok;
}

/* Returns the unused capacity of a growing array. */
static bool trim(void **at, size_t *capacity, size_t n, size_t element_bytes)
{
    if (n == 0 || *capacity == n) return true;
    void *less = ipu__realloc(*at, *capacity * element_bytes, n * element_bytes);
    if (!less) return false;
    *at       = less;
    *capacity = n;
    return true;
}

#define TRIM(a) trim((void **)&(a)->at, &(a)->capacity, (a)->n, sizeof *(a)->at)

static ipu_status finish(ipu__compiler *c)
{
    ipu_executable *exe = c->exe;
    exe->constants      = ipu__alloc_pages(c->constants.n);
    if (!exe->constants) return ipu__fail_memory();
    exe->constant_bytes = c->constants.n;
    memcpy(exe->constants, c->constants.at, c->constants.n);
    bool trimmed = TRIM(&exe->records) && TRIM(&exe->vertices) && TRIM(&exe->vertex_moves)
                && TRIM(&exe->spans) && TRIM(&exe->moves.at) && TRIM(&exe->moves.loops)
                && TRIM(&exe->strings);
    return ipu__or_memory(!c->out_of_memory && trimmed && ipu__exe_add_names(exe));
}

/* Programs of a graph, including the start program. */
typedef struct program_list {
    ipu_graph         *g;
    const ipu_program *at;
    size_t             n;
} program_list;

static ipu_status run_passes(ipu__compiler *c)
{
    ipu_executable *exe = c->exe;
    if (!compiler_init(c) || !ipu__push(&exe->locations, (ipu__exe_location){0})
        || ipu__compiler_text(c, "") != 0)
        return ipu__fail_memory();
    exe->chip = ipu__compiler_text(c, ipu_target_chip_name(&c->g->target));
    if (exe->chip == IPU__NONE) return ipu__fail_memory();
    IPU_TRY(report(c));
    IPU_TRY(ipu__access_find(c));
    IPU_TRY(ipu__liveness_plan(c));
    IPU_TRY(place_constants(c));
    IPU_TRY(ipu__lower_host(c));
    ipu__buffers_find(c);
    IPU_TRY(ipu__lower_programs(c));
    IPU_TRY(ipu__buffers_number(c));
    if (c->check) IPU_TRY(ipu__check_info_build(c));
    IPU_TRY(finish(c));
    c->percent = 100;
    return report(c);
}

/* Estimates the cost of the programs, for device counters. */
static ipu_status estimate(ipu_executable *exe, const program_list *chip)
{
    ipu_cost        *cost;
    ipu_cost_cycles  cycles;
    ipu_cost_summary summary;
    IPU_TRY(ipu_cost_estimate(chip->g, chip->at, chip->n, NULL, &cost));
    for (size_t i = 0; i < exe->programs.n && ipu_cost_program_at(cost, (int64_t)i, &cycles); i++)
        exe->programs.at[i].cycles = cycles.total;
    ipu_cost_get_summary(cost, &summary);
    exe->tile_bytes = summary.memory_total * summary.replication;
    ipu_cost_destroy(cost);
    return IPU_OK;
}

static ipu_status compile(const program_list *host, const program_list *chip, const ipu_options *options,
                          ipu_executable **out)
{
    ipu_graph         *g        = host->g;
    const ipu_program *programs = host->at;
    size_t             n        = host->n;
    ipu__settings      settings;
    IPU_TRY(ipu__graph_check(g, programs, n, true));
    IPU_TRY(ipu__options_settle(options, &settings));
    ipu_executable *exe = ipu__alloc_zeroed(sizeof *exe);
    if (!exe) return ipu__fail_memory();
    atomic_init(&exe->references, 1);
    exe->replication     = g->root->replication;
    exe->start           = g->root->start ? (uint32_t)n - 1 : IPU__NONE;
    exe->n_workers       = (unsigned)ipu_target_n_workers(&g->root->target);
    exe->n_ipus          = g->root->target.n_ipus;
    exe->tile_bytes      = -1;
    ipu__compiler c      = {.g             = g->root,
                            .exe           = exe,
                            .programs      = programs,
                            .n_programs    = n,
                            .engine        = ipu__engine_find(settings.engine),
                            .share         = settings.share,
                            .profile       = settings.profile,
                            .check         = settings.check,
                            .progress      = progress.fn,
                            .progress_user = progress.user};
    ipu_status    status = run_passes(&c);
    if (status == IPU_OUT_OF_MEMORY && exe->moves.at.n == IPU__MOST_MOVES)
        status = ipu__fail(
            IPU_UNSUPPORTED,
            "copies and transfers of over %d parts of up to %d bytes, which is too much to run "
            "on a host: expected smaller tensors, or more regular views of them",
            IPU__MOST_MOVES, IPU__MOVE_BYTES);
    if (status == IPU_OK && settings.estimate) status = estimate(exe, chip);
    compiler_fini(&c);
#ifndef NDEBUG
    if (status == IPU_OK) status = ipu__executable_validate(exe);
    IPU__ASSERT(status != IPU_INVALID);
#endif
    if (status != IPU_OK) {
        ipu_executable_release(exe);
        return status;
    }
    ipu__log(IPU_LOG_DEBUG, "engine",
             "compiled %zu programs: %zu instructions, %zu compute sets, %zu vertices, %zu moves, "
             "%lld bytes of variables (%lld unshared)",
             n, exe->code.n, exe->sets.n, exe->vertices.n, exe->moves.at.n, (long long)exe->variable_bytes,
             (long long)exe->unshared_bytes);
    *out = exe;
    return IPU_OK;
}

/* To be freed: out->at, unless it is `programs`. */
static ipu_status list_programs(ipu_graph *g, const ipu_program *programs, size_t n, program_list *out)
{
    *out = (program_list){g, programs, n};
    if (g->root->start == 0) return IPU_OK;
    ipu_program *all = n < SIZE_MAX / sizeof *all ? ipu__alloc((n + 1) * sizeof *all) : NULL;
    if (!all) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) all[i] = programs[i];
    all[n] = (ipu_program){g->root, g->root->start};
    *out   = (program_list){g, all, n + 1};
    return IPU_OK;
}

static void free_list(const program_list *list, const ipu_program *programs)
{
    if (list->at != programs) ipu__free((void *)(uintptr_t)list->at);
}

ipu_status ipu__executable_compile(ipu_graph *g, const ipu_program *programs, size_t n,
                                   const ipu_options *options, ipu_graph *chip,
                                   const ipu_program *chip_programs, ipu_executable **out)
{
    program_list run = {.at = programs}, priced = {.at = chip_programs};
    *out              = NULL;
    ipu_status status = list_programs(g, programs, n, &run);
    if (status == IPU_OK && chip) status = list_programs(chip, chip_programs, n, &priced);
    if (status == IPU_OK) status = compile(&run, chip ? &priced : &run, options, out);
    free_list(&run, programs);
    free_list(&priced, chip_programs);
    return status;
}

ipu_status ipu_executable_compile(ipu_graph *g, const ipu_program *programs, size_t n,
                                  const ipu_options *options, ipu_executable **out)
{
    return ipu__executable_compile(g, programs, n, options, NULL, NULL, out);
}

/* ---- life ---- */

ipu_executable *ipu_executable_retain(ipu_executable *exe)
{
    if (exe) atomic_fetch_add_explicit(&exe->references, 1, memory_order_relaxed);
    return exe;
}

static void destroy(ipu_executable *exe)
{
    ipu__free_pages(exe->constants, exe->constant_bytes);
    ipu__check_info_destroy(exe->check);
    ipu__arena_fini(&exe->arena);
    ipu__array_fini(&exe->strings);
    ipu__array_fini(&exe->locations);
    ipu__array_fini(&exe->codelets);
    ipu__array_fini(&exe->fields);
    ipu__array_fini(&exe->signatures);
    ipu__array_fini(&exe->sources);
    ipu__array_fini(&exe->sets);
    ipu__array_fini(&exe->groups);
    ipu__array_fini(&exe->vertices);
    ipu__array_fini(&exe->vertex_moves);
    ipu__array_fini(&exe->records);
    ipu__array_fini(&exe->spans);
    ipu__moves_fini(&exe->moves);
    ipu__array_fini(&exe->batches);
    ipu__array_fini(&exe->tensors);
    ipu__array_fini(&exe->kernels);
    ipu__array_fini(&exe->streams);
    ipu__array_fini(&exe->remotes);
    ipu__array_fini(&exe->transfers);
    ipu__array_fini(&exe->lendings);
    ipu__array_fini(&exe->handles);
    ipu__array_fini(&exe->switches);
    ipu__array_fini(&exe->cases);
    ipu__array_fini(&exe->crosses);
    ipu__array_fini(&exe->reduces);
    ipu__array_fini(&exe->pieces);
    ipu__array_fini(&exe->replicas);
    ipu__array_fini(&exe->prints);
    ipu__array_fini(&exe->replication_indices);
    ipu__array_fini(&exe->initial);
    ipu__array_fini(&exe->code);
    ipu__array_fini(&exe->steps);
    ipu__array_fini(&exe->bodies);
    ipu__array_fini(&exe->programs);
    ipu__array_fini(&exe->used_streams);
    ipu__array_fini(&exe->note);
    ipu__map *const maps[] = {&exe->stream_names, &exe->remote_names, &exe->write_names, &exe->read_names};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) ipu__map_fini(maps[i]);
    ipu__free(exe);
}

void ipu_executable_release(ipu_executable *exe)
{
    if (!exe || atomic_fetch_sub_explicit(&exe->references, 1, memory_order_acq_rel) != 1) return;
    destroy(exe);
}

size_t ipu_executable_n_programs(const ipu_executable *exe)
{
    return exe->programs.n - (exe->start != IPU__NONE);
}

void ipu_executable_memory(const ipu_executable *exe, int64_t *planned, int64_t *unshared)
{
    if (planned) *planned = exe->variable_bytes * exe->replication;
    if (unshared) *unshared = exe->unshared_bytes * exe->replication;
}
