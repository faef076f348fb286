/* Which variables each step reads, writes, and writes completely.
 *
 * requires: a checked graph, in which a step writes no element twice, so that counting them tells whether a
 * variable is written completely. Produces the accesses of every compute set used, the functions called,
 * the vertices that need gathering and the constants in use.
 */
#include "engine/compile.h"

/* Slot of a variable in the open list; NULL on allocation failure. Constants have none: `unlisted`. */
static ipu__access *touch(ipu__compiler *c, uint32_t var, ipu__access *unlisted)
{
    if (c->var_stamp[var] != c->stamp) {
        c->var_stamp[var] = c->stamp;
        if (c->g->variables.at[var].kind != IPU__VARIABLE) {
            c->is_used[var]  = 1;
            c->var_slot[var] = IPU__NONE;
        } else {
            c->var_slot[var] = (uint32_t)c->accesses.n;
            if (!ipu__push(&c->accesses, (ipu__access){.var = var})) return NULL;
        }
    }
    return c->var_slot[var] == IPU__NONE ? unlisted : &c->accesses.at[c->var_slot[var]];
}

static bool note(ipu__compiler *c, uint32_t var, uint32_t flags, int64_t n)
{
    ipu__access  unlisted;
    ipu__access *access = touch(c, var, &unlisted);
    if (!access) return false;
    if (access != &unlisted) {
        access->flags |= flags;
        if (flags & IPU__WRITE) access->written += n;
    }
    return true;
}

static bool note_view(ipu__compiler *c, uint32_t view, uint32_t flags)
{
    if (view == 0) return true;
    ipu__view   v      = ipu__view_get(&c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece))
        if (!note(c, piece.var, flags, ipu__piece_count(&piece))) return false;
    return true;
}

static size_t begin_list(ipu__compiler *c)
{
    c->stamp++;
    return c->accesses.n;
}

static ipu__access_range end_list(ipu__compiler *c, size_t begin)
{
    for (size_t i = begin; i < c->accesses.n; i++) {
        ipu__access *a = &c->accesses.at[i];
        if (a->flags == IPU__WRITE && a->written == c->g->variables.at[a->var].n_elements)
            a->flags |= IPU__KILL;
    }
    return (ipu__access_range){begin, c->accesses.n - begin, true};
}

/* ---- compute sets ---- */

static const uint8_t direction_flags[] = {[IPU_DIRECTION_IN]    = IPU__READ,
                                          [IPU_DIRECTION_OUT]   = IPU__WRITE,
                                          [IPU_DIRECTION_INOUT] = IPU__READ | IPU__WRITE,
                                          [IPU_DIRECTION_STATE] = 0};

static bool note_field(ipu__compiler *c, uint32_t vertex, uint32_t view, uint32_t flags)
{
    ipu__run run;
    if (!ipu__view_contiguous(&c->g->views, view, &run)) {
        c->is_gathered[vertex] = 1;
        return note_view(c, view, flags);
    }
    return run.count == 0 || note(c, run.var, flags, run.count);
}

static bool note_vertex(ipu__compiler *c, uint32_t id)
{
    const ipu_graph    *g       = c->g;
    const ipu__vertex  *vertex  = &g->vertices.at[id];
    const ipu__codelet *codelet = &g->codelets.at[vertex->codelet];
    for (uint32_t i = 0; i < codelet->n_fields; i++) {
        uint32_t flags = direction_flags[ipu__field_direction(codelet->fields[i].form)],
                 link  = g->links.at[vertex->links + i];
        if (flags == 0) continue;
        if (!(link & IPU__LIST)) {
            if (!note_field(c, id, link, flags)) return false;
            continue;
        }
        const uint32_t *list = &g->lists.at[link & ~IPU__LIST];
        for (uint32_t k = 1; k <= list[0]; k++)
            if (!note_field(c, id, list[k], flags)) return false;
    }
    return true;
}

static ipu_status note_set(ipu__compiler *c, uint32_t set)
{
    if (c->set_access[set].known) return IPU_OK;
    const ipu__compute_set *cs    = &c->g->compute_sets.at[set];
    size_t                  begin = begin_list(c);
    for (uint32_t id = cs->first; id; id = c->g->vertices.at[id].next) {
        if (!note_vertex(c, id)) return ipu__fail_memory();
        IPU_TRY(ipu__compiler_advance(c, 1));
    }
    c->set_access[set] = end_list(c, begin);
    return IPU_OK;
}

/* ---- other steps ---- */

static bool note_kernel(ipu__compiler *c, const ipu__kernel_step *kernel)
{
    static const uint32_t flags[] = {[IPU__ACCESS_READ]   = IPU__READ,
                                     [IPU__ACCESS_WRITE]  = IPU__WRITE,
                                     [IPU__ACCESS_UPDATE] = IPU__READ | IPU__WRITE};
    for (int i = 0; i < kernel->call.n_operands; i++)
        if (!note_view(c, kernel->views[i], flags[kernel->call.def->operands[i].access])) return false;
    return true;
}

ipu_status ipu__access_step(ipu__compiler *c, const ipu__step *step, ipu__access_range *out)
{
    if (step->kind == IPU__STEP_EXECUTE) {
        *out = c->set_access[step->object];
        return IPU_OK;
    }
    size_t begin = begin_list(c);
    bool   ok    = note_view(c, step->from, IPU__READ) && note_view(c, step->rows, IPU__READ)
           && note_view(c, step->to, IPU__WRITE);
    if (ok && step->kind == IPU__STEP_KERNEL) ok = note_kernel(c, &c->g->kernel_steps.at[step->object]);
    *out = end_list(c, begin);
    return ipu__or_memory(ok);
}

void ipu__access_drop(ipu__compiler *c, const ipu__step *step, const ipu__access_range *range)
{
    if (step->kind != IPU__STEP_EXECUTE) c->accesses.n = range->begin;
}

/* ---- what programs reach ---- */

static ipu_status find_in_body(ipu__compiler *c, const ipu__body *body);

static ipu_status find_function(ipu__compiler *c, uint32_t function)
{
    if (c->function_of[function] != IPU__NONE) return IPU_OK;
    const ipu__body *body = &c->g->functions.at[function].body;
    IPU_TRY(find_in_body(c, body));
    c->function_of[function] = (uint32_t)c->functions.n;
    return ipu__or_memory(ipu__push(&c->functions, *body));
}

/* Bodies become functions that only their step calls. */
static ipu_status find_parallel(ipu__compiler *c, const ipu__step *step)
{
    if (c->parallel_of[step->object] != IPU__NONE) return IPU_OK;
    for (int64_t i = 0; i < step->n; i++) IPU_TRY(find_in_body(c, &step->cases[i].body));
    c->has_parallel              = true;
    c->parallel_of[step->object] = (uint32_t)c->functions.n;
    for (int64_t i = 0; i < step->n; i++)
        if (!ipu__push(&c->functions, step->cases[i].body)) return ipu__fail_memory();
    return IPU_OK;
}

static ipu_status find_in_body(ipu__compiler *c, const ipu__body *body)
{
    const ipu__step *steps = ipu__body_steps(c->g, body);
    for (uint32_t i = 0; i < body->n_steps && steps; i++) {
        const ipu__step *step = &steps[i];
        if (step->kind == IPU__STEP_REPEAT && step->n == 0) continue;
        if (step->kind == IPU__STEP_EXECUTE) IPU_TRY(note_set(c, step->object));
        if (step->kind == IPU__STEP_CALL) IPU_TRY(find_function(c, step->object));
        if (step->kind == IPU__STEP_PARALLEL) IPU_TRY(find_parallel(c, step));
        IPU_TRY(find_in_body(c, &step->body));
        IPU_TRY(find_in_body(c, &step->other));
        for (int64_t k = 0; step->kind == IPU__STEP_SWITCH && k < step->n; k++)
            IPU_TRY(find_in_body(c, &step->cases[k].body));
    }
    return IPU_OK;
}

ipu_status ipu__access_find(ipu__compiler *c)
{
    for (size_t i = 0; i < c->n_programs; i++) {
        uint32_t  program = c->programs[i].id;
        ipu__body body    = {program, (uint32_t)c->g->programs.at[program].steps.n};
        IPU_TRY(find_in_body(c, &body));
    }
    return IPU_OK;
}
