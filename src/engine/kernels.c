/* Kernel steps: where operands are, and which must be copied because a kernel cannot use them in place.
 *
 * requires: liveness (places). An operand is used in place if it is one aligned run; otherwise, or if an
 * input shares memory with an output in a way the kernel does not allow, it goes through gather memory.
 */
#include <string.h>

#include "engine/compile.h"
#include "engine/memory.h"

typedef struct operand {
    uint32_t           view;
    ipu__kernel_access access;
    int64_t            bytes;
    bool               direct;
    ipu__place         place;
} operand;

static void find_operand(const ipu__compiler *c, const ipu__kernel_step *step, int i, operand *out)
{
    ipu__run  run;
    ipu__view view = ipu__view_get(&c->g->views, step->views[i]);
    int64_t   unit = (int64_t)ipu_type_size(view.type);
    *out = (operand){step->views[i], step->call.def->operands[i].access, view.n_elements * unit, true,
                     IPU__EMPTY_PLACE};
    if (view.n_elements == 0) return;
    out->direct = ipu__view_contiguous(&c->g->views, out->view, &run);
    if (!out->direct) return;
    out->place  = c->places[run.var] + (uint64_t)(run.start * unit);
    out->direct = out->place % IPU__MEMORY_ALIGN == 0;
}

/* An input in the memory of an output: allowed only element for element, and only if either operand says
 * so. */
static bool clashes(const ipu__kernel_call *call, const operand *operands, int in, int out)
{
    const operand *a = &operands[in], *b = &operands[out];
    if (!a->direct || !b->direct || a->bytes == 0 || b->bytes == 0) return false;
    if (a->place >= b->place + (uint64_t)b->bytes || b->place >= a->place + (uint64_t)a->bytes) return false;
    return !ipu__kernel_may_share(call, in, out) || a->place != b->place || a->bytes != b->bytes;
}

static ipu_status gather(ipu__compiler *c, const ipu__kernel_call *call, operand *operands, uint32_t *batch)
{
    ipu__moves *moves = &c->exe->moves;
    size_t      first = moves->at.n;
    int64_t     used  = ipu__gather_begin(c);
    for (int i = 0; i < call->n_operands; i++) {
        for (int k = 0; k < call->n_operands && operands[i].access == IPU__ACCESS_READ; k++)
            if (operands[k].access != IPU__ACCESS_READ && clashes(call, operands, i, k))
                operands[i].direct = false;
    }
    for (int i = 0; i < call->n_operands; i++) {
        operand *o = &operands[i];
        if (o->direct) continue;
        o->place = ipu__place_make(IPU__SPACE_GATHER, used);
        used += ipu__memory_room(c->engine->spacing, o->bytes);
        if (o->access == IPU__ACCESS_WRITE) continue;
        if (!ipu__moves_add_pack(moves, first, &c->layout, o->view, o->place)) return ipu__fail_memory();
    }
    if (used > c->exe->gather_bytes) c->exe->gather_bytes = used;
    return ipu__lower_batch(c, first, batch);
}

static ipu_status scatter(ipu__compiler *c, const operand *operands, int n, uint32_t *batch)
{
    ipu__moves *moves = &c->exe->moves;
    size_t      first = moves->at.n;
    for (int i = 0; i < n; i++) {
        const operand *o = &operands[i];
        if (o->direct || o->access == IPU__ACCESS_READ) continue;
        if (!ipu__moves_add_unpack(moves, first, &c->layout, o->place, o->view)) return ipu__fail_memory();
    }
    return ipu__lower_batch(c, first, batch);
}

/* Preserves NULL. */
static bool copy_text(ipu_executable *exe, const char **text)
{
    if (!*text) return true;
    *text = ipu__arena_strdup(&exe->arena, *text);
    return *text != NULL;
}

static bool copy_attributes(ipu_executable *exe, ipu__kernel_call *call)
{
    ipu_attribute *own = ipu__arena_copy(&exe->arena, call->attributes, call->n_attributes * sizeof *own);
    if (!own) return false;
    for (size_t i = 0; i < call->n_attributes; i++) {
        ipu_attribute *a = &own[i];
        if (a->kind != IPU_ATTRIBUTE_TEXT) a->text = NULL;
        if (!copy_text(exe, &a->name) || !copy_text(exe, &a->text)) return false;
        if (a->kind != IPU_ATTRIBUTE_INTS) a->ints = NULL;
        if (a->ints) a->ints = ipu__arena_copy(&exe->arena, a->ints, a->n_ints * sizeof *a->ints);
        if (a->kind == IPU_ATTRIBUTE_INTS && a->n_ints > 0 && !a->ints) return false;
    }
    call->attributes = own;
    return true;
}

ipu_status ipu__lower_kernel(ipu__compiler *c, uint32_t kernel_step, uint32_t *out)
{
    ipu_executable         *exe  = c->exe;
    const ipu__kernel_step *step = &c->g->kernel_steps.at[kernel_step];
    *out                         = c->kernel_of[kernel_step];
    if (*out != IPU__NONE) return IPU_OK;
    operand         operands[IPU__MAX_OPERANDS];
    ipu__exe_kernel kernel = {.call = step->call};
    int             n      = step->call.n_operands;
    for (int i = 0; i < n; i++) find_operand(c, step, i, &operands[i]);
    if (!copy_attributes(exe, &kernel.call)) return ipu__fail_memory();
    IPU_TRY(gather(c, &step->call, operands, &kernel.gather));
    IPU_TRY(scatter(c, operands, n, &kernel.scatter));
    for (int i = 0; i < n; i++) {
        kernel.place[i] = operands[i].place;
        ipu__buffers_note(c, operands[i].view, operands[i].direct,
                          step->call.def->operands[i].access == IPU__ACCESS_READ, &kernel.buffer[i]);
    }
    *out                      = (uint32_t)exe->kernels.n;
    c->kernel_of[kernel_step] = *out;
    return ipu__or_memory(ipu__push(&exe->kernels, kernel));
}
