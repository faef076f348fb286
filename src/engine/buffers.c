/* Buffers: variables that only kernels access, and only as a whole.
 *
 * The memory layout of such a variable concerns only its kernels, so an engine may choose it (cpu/layout.c).
 * Everything else, be it a vertex, copy, stream, host handle or partial view, expects variables to be plain.
 * requires: access. `is_plain` is complete when all kernels are lowered.
 */
#include "engine/compile.h"

static void mark(ipu__compiler *c, uint32_t view)
{
    if (view == 0) return;
    ipu__view   v      = ipu__view_get(&c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) c->is_plain[piece.var] = IPU__PLAIN_OTHER;
}

/* The variable that a view covers completely and in order; 0 if there is none. */
static uint32_t whole_of(const ipu__compiler *c, uint32_t view)
{
    ipu__run run;
    bool     whole = ipu__view_contiguous(&c->g->views, view, &run) && run.count > 0 && run.start == 0
              && run.count == c->g->variables.at[run.var].n_elements
              && c->g->variables.at[run.var].kind == IPU__VARIABLE;
    return whole ? run.var : 0;
}

/* `by`: a stream, or the host between runs. */
static void mark_whole(ipu__compiler *c, uint32_t view, uint8_t by)
{
    uint32_t variable = whole_of(c, view);
    if (variable && c->is_plain[variable] < by)
        c->is_plain[variable] = by;
    else
        mark(c, view);
}

static void mark_set(ipu__compiler *c, uint32_t set)
{
    const ipu__access_range *range = &c->set_access[set];
    for (size_t i = range->begin; range->known && i < range->begin + range->n; i++)
        c->is_plain[c->accesses.at[i].var] = IPU__PLAIN_OTHER;
}

static void mark_handle(ipu__compiler *c, const ipu__host_handle *handle)
{
    if (handle->is_write)
        mark_whole(c, handle->view, IPU__PLAIN_HOST);
    else
        mark(c, handle->view);
}

/* Bodies are programs too: go through all steps, whether programs reach them or not. */
void ipu__buffers_find(ipu__compiler *c)
{
    const ipu_graph *g = c->g;
    for (size_t i = 0; i < g->host_handles.n; i++) mark_handle(c, &g->host_handles.at[i]);
    for (size_t p = 0; p < g->programs.n; p++)
        for (size_t i = 0; i < g->programs.at[p].steps.n; i++) {
            const ipu__step *step = &g->programs.at[p].steps.at[i];
            if (step->kind == IPU__STEP_EXECUTE) mark_set(c, step->object);
            mark(c, step->from);
            mark(c, step->rows);
            if (step->kind == IPU__STEP_READ)
                mark_whole(c, step->to, IPU__PLAIN_READ);
            else if (step->kind != IPU__STEP_WRITE_UNDEF)
                mark(c, step->to);
        }
    for (size_t i = 0; i < g->initial_values.n; i++) mark(c, g->initial_values.at[i].view);
}

void ipu__buffers_note(ipu__compiler *c, uint32_t view, bool in_place, bool is_read, uint32_t *variable)
{
    uint32_t whole = in_place ? whole_of(c, view) : 0;
    *variable      = whole ? whole : IPU__NONE;
    if (!whole || (!is_read && c->is_plain[whole])) mark(c, view);
}

void ipu__buffers_read(ipu__compiler *c, uint32_t view, uint32_t transfer)
{
    uint32_t variable = whole_of(c, view);
    if (!variable) return;
    if (c->read_by[variable] != IPU__NONE) mark(c, view); /* the step occurs several times in the program */
    c->read_by[variable] = transfer;
}

/* Whether one READ brings it in every run that needs it, and only kernels read it. */
static bool is_lent(const ipu__compiler *c, uint32_t variable)
{
    return c->is_plain[variable] == IPU__PLAIN_READ && !c->is_kept[variable]
        && c->read_by[variable] != IPU__NONE;
}

/* Variables used by kernels get buffer numbers, or are lent. */
ipu_status ipu__buffers_number(ipu__compiler *c)
{
    ipu_executable *exe    = c->exe;
    uint32_t       *number = ipu__alloc_zeroed(c->g->variables.n * sizeof *number); /* + 1 */
    if (!number) return ipu__fail_memory();
    for (size_t i = 0; i < exe->kernels.n; i++)
        for (int k = 0; k < exe->kernels.at[i].call.n_operands; k++) {
            uint32_t *buffer = &exe->kernels.at[i].buffer[k];
            if (*buffer == IPU__NONE) continue;
            uint32_t variable        = *buffer;
            *buffer                  = IPU__NONE;
            ipu__exe_lending lending = {c->read_by[variable], (uint32_t)i, (uint32_t)k};
            if (is_lent(c, variable) && !ipu__push(&exe->lendings, lending)) {
                ipu__free(number);
                return ipu__fail_memory();
            }
            if (c->is_plain[variable]) continue;
            if (number[variable] == 0) number[variable] = ++exe->n_buffers;
            *buffer = number[variable] - 1;
        }
    ipu__free(number);
    return IPU_OK;
}
