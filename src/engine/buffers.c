/* Buffers: variables that nothing but kernels touches, and those whole.
 *
 * How such a variable lies in memory is between its kernels: an engine may choose a layout for it (graph/kernel.h).
 * Everything else that can be named, a vertex, copy, stream, host handle or view of a part, finds variables plain.
 * requires: access. `is_plain` is complete when all kernels are lowered.
 */
#include "engine/compile.h"

static void mark(ipu__compiler *c, uint32_t view)
{
    if (view == 0) return;
    ipu__view   v      = ipu__view_get(&c->g->views, view);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) c->is_plain[piece.var] = 1;
}

static void mark_set(ipu__compiler *c, uint32_t set)
{
    const ipu__access_range *range = &c->set_access[set];
    for (size_t i = range->begin; range->known && i < range->begin + range->n; i++)
        c->is_plain[c->accesses.at[i].var] = 1;
}

/* Bodies are programs too: all steps there are, whether programs reach them or not. */
void ipu__buffers_find(ipu__compiler *c)
{
    const ipu_graph *g = c->g;
    for (size_t p = 0; p < g->programs.n; p++)
        for (size_t i = 0; i < g->programs.at[p].steps.n; i++) {
            const ipu__step *step = &g->programs.at[p].steps.at[i];
            if (step->kind == IPU__STEP_EXECUTE) mark_set(c, step->object);
            mark(c, step->from);
            mark(c, step->rows);
            if (step->kind != IPU__STEP_WRITE_UNDEF) mark(c, step->to);
        }
    for (size_t i = 0; i < g->host_handles.n; i++) mark(c, g->host_handles.at[i].view);
    for (size_t i = 0; i < g->initial_values.n; i++) mark(c, g->initial_values.at[i].view);
}

void ipu__buffers_note(ipu__compiler *c, uint32_t view, bool in_place, uint32_t *variable)
{
    ipu__run run;
    *variable  = IPU__NONE;
    bool whole = in_place && ipu__view_contiguous(&c->g->views, view, &run) && run.count > 0 && run.start == 0
              && run.count == c->g->variables.at[run.var].n_elements
              && c->g->variables.at[run.var].kind == IPU__VARIABLE;
    if (whole)
        *variable = run.var;
    else
        mark(c, view);
}

/* Variables that kernels named become numbers of buffers. */
ipu_status ipu__buffers_number(ipu__compiler *c)
{
    ipu_executable *exe    = c->exe;
    uint32_t       *number = ipu__alloc_zeroed(c->g->variables.n * sizeof *number); /* + 1 */
    if (!number) return ipu__fail_memory();
    for (size_t i = 0; i < exe->kernels.n; i++)
        for (int k = 0; k < exe->kernels.at[i].call.n_operands; k++) {
            uint32_t *buffer = &exe->kernels.at[i].buffer[k];
            if (*buffer == IPU__NONE) continue;
            uint32_t variable = *buffer;
            *buffer           = IPU__NONE;
            if (c->is_plain[variable]) continue;
            if (number[variable] == 0) number[variable] = ++exe->n_buffers;
            *buffer = number[variable] - 1;
        }
    ipu__free(number);
    return IPU_OK;
}
