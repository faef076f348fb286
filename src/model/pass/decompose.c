/* Replaces ops that an engine does not support by their compositions, whose ops may be decomposed in turn. */
#include <string.h>

#include "engine/engine.h"
#include "model/pass/pass.h"

enum { MOST_DEPTH = 8 }; /* of nested compositions; deeper means one that contains itself */

typedef struct decomposing {
    ipu_model   *m;
    ipu__renames renames;
} decomposing;

static ipu_status fail_unsupported(const ipu_model *m, const ipu__model_op *op)
{
    char where[512];
    return ipu__fail(IPU_UNSUPPORTED,
                     "%sthe engine \"%s\" has no kernel \"%s\", and it cannot be composed of others",
                     ipu__model_where(m, op->location, where), m->engine->name, op->def->kernel.name);
}

static bool is_lacking(const ipu_model *m, const ipu__model_op *op)
{
    if (op->dead || op->kind != IPU__MODEL_OP || !op->def->kernel.ref) return false;
    ipu__kernel_call call = ipu__model_call(m, op);
    return !ipu__engine_supports(m->engine, &call);
}

/* Emits the composition of op `id` at the end of its block. */
static ipu_status emit(decomposing *d, uint32_t id)
{
    ipu_model          *m  = d->m;
    const ipu__model_op op = m->ops.at[id];
    ipu_value           in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    ipu__kernel_call    call = ipu__model_call(m, &m->ops.at[id]);
    if (!op.def->compose) return fail_unsupported(m, &op);
    for (uint32_t i = 0; i < op.n_in; i++) in[i] = ipu__model_handle(m, ipu__renamed(&d->renames, op.in[i]));
    for (uint32_t i = 0; i < op.n_out; i++) out[i] = ipu__model_handle(m, 0);
    m->block     = op.block;
    m->stage     = op.stage;
    m->recompute = op.recompute;
    op.def->compose(&m->base, &call, in, out);
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    for (uint32_t i = 0; i < op.n_out; i++)
        if (out[i].id && !ipu__rename(&d->renames, op.first_out + i, out[i].id)) return ipu__fail_memory();
    m->ops.at[id].dead = true;
    return IPU_OK;
}

/* Decomposes position `at` of the block's order; *at becomes the last of its replacements. */
static ipu_status replace(decomposing *d, uint32_t block, size_t *at)
{
    ipu_model *m  = d->m;
    uint32_t   id = m->blocks.at[block].order.at[*at], location = m->ops.at[id].location;
    size_t     n = m->blocks.at[block].order.n;
    IPU_TRY(emit(d, id));
    uint32_t *order  = m->blocks.at[block].order.at;
    size_t    n_made = m->blocks.at[block].order.n - n;
    uint32_t *made   = ipu__alloc((n_made + 1) * sizeof *made);
    if (!made) return ipu__fail_memory();
    memcpy(made, order + n, n_made * sizeof *made);
    for (size_t i = 0; i < n_made; i++) m->ops.at[made[i]].location = location;
    memmove(order + *at + n_made, order + *at + 1, (n - *at - 1) * sizeof *order);
    memcpy(order + *at, made, n_made * sizeof *made);
    m->blocks.at[block].order.n = n + n_made - 1;
    ipu__free(made);
    *at += n_made;
    return IPU_OK;
}

static ipu_status decompose_block(decomposing *d, uint32_t block, bool *found)
{
    ipu_model *m = d->m;
    for (size_t at = 0; at < m->blocks.at[block].order.n; at++) {
        ipu__model_op *op = &m->ops.at[m->blocks.at[block].order.at[at]];
        ipu__rename_inputs(&d->renames, op);
        if (!is_lacking(m, op)) continue;
        *found = true;
        IPU_TRY(replace(d, block, &at));
        at--;
    }
    return IPU_OK;
}

ipu_status ipu__model_decompose(ipu_model *m, bool *changed)
{
    const ipu__stage stage     = m->stage;
    const uint32_t   recompute = m->recompute;
    ipu_status       status    = IPU_OK;
    bool             found     = true;
    for (int depth = 0; status == IPU_OK && found && depth < MOST_DEPTH; depth++) {
        decomposing d = {.m = m};
        found         = false;
        for (uint32_t b = 0; status == IPU_OK && b < m->blocks.n; b++)
            status = decompose_block(&d, b, &found);
        if (status == IPU_OK) ipu__renames_apply(&d.renames, m);
        ipu__renames_fini(&d.renames);
        *changed |= found;
    }
    m->block     = 0;
    m->stage     = stage;
    m->recompute = recompute;
    for (size_t i = 0; status == IPU_OK && found && i < m->ops.n; i++)
        if (is_lacking(m, &m->ops.at[i])) return fail_unsupported(m, &m->ops.at[i]);
    return status;
}
