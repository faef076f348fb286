/* Renamed values: a table with path compression, applied to the whole model at once. */
#include "model/pass/pass.h"

#include <string.h>

/* ---- renaming ---- */

static bool reach(ipu__renames *r, uint32_t id)
{
    if (!ipu__reserve(&r->to, id >= r->to.n ? id + 1 - r->to.n : 0)) return false;
    while (r->to.n <= id) {
        r->to.at[r->to.n] = (uint32_t)r->to.n;
        r->to.n++;
    }
    return true;
}

uint32_t ipu__renamed(ipu__renames *r, uint32_t id)
{
    while (id < r->to.n && r->to.at[id] != id) {
        uint32_t next = r->to.at[id];
        if (next < r->to.n) r->to.at[id] = r->to.at[next]; /* path halving */
        id = next;
    }
    return id;
}

bool ipu__rename(ipu__renames *r, uint32_t from, uint32_t to)
{
    to = ipu__renamed(r, to);
    if (!reach(r, from)) return false;
    IPU__ASSERT(r->to.at[from] == from);
    if (from != to) {
        r->to.at[from] = to;
        r->any         = true;
    }
    return true;
}

void ipu__rename_inputs(ipu__renames *r, ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) op->in[i] = ipu__renamed(r, op->in[i]);
}

/* Inputs, parameters and states keep their names, which are handles. */
static bool may_be_named(const ipu_model *m, uint32_t id)
{
    ipu__value_kind kind = m->values.at[id].kind;
    return kind == IPU__VALUE_OP || kind == IPU__VALUE_CONSTANT;
}

/* A value that already has a name, or is a handle, gets an additional one. */
static void hand_names_on(ipu__renames *r, ipu_model *m)
{
    bool ok = true;
    for (size_t i = 0; i < m->aliases.n; i++) m->aliases.at[i].id = ipu__renamed(r, m->aliases.at[i].id);
    for (uint32_t id = 1; id < r->to.n; id++) {
        uint32_t    to   = ipu__renamed(r, id);
        const char *name = m->base.values.at[id].name;
        if (to == id || !*name) continue;
        if (!*m->base.values.at[to].name && may_be_named(m, to))
            m->base.values.at[to].name = name;
        else if (strcmp(m->base.values.at[to].name, name) != 0)
            ok = ok && ipu__model_add_alias(m, to, name);
    }
    if (!ok) ipu__builder_fail(&m->base, IPU_OUT_OF_MEMORY, "out of memory");
}

void ipu__renames_apply(ipu__renames *r, ipu_model *m)
{
    if (!r->any) return;
    for (size_t i = 0; i < m->ops.n; i++)
        if (!m->ops.at[i].dead) ipu__rename_inputs(r, &m->ops.at[i]);
    for (size_t i = 0; i < m->blocks.n; i++) {
        ipu__block *block = &m->blocks.at[i];
        for (size_t k = 0; k < block->yields.n; k++)
            block->yields.at[k] = ipu__renamed(r, block->yields.at[k]);
        block->go_on = ipu__renamed(r, block->go_on);
    }
    for (size_t i = 0; i < m->outputs.n; i++)
        m->outputs.at[i].value = ipu__renamed(r, m->outputs.at[i].value);
    for (size_t i = 0; i < m->values.n; i++) m->values.at[i].update = ipu__renamed(r, m->values.at[i].update);
    hand_names_on(r, m);
}

void ipu__renames_fini(ipu__renames *r)
{
    ipu__array_fini(&r->to);
    r->any = false;
}

/* ---- new values and attributes ---- */

uint32_t ipu__pass_add_value(ipu_model *m, ipu__builder_value shown, ipu__model_value value)
{
    if (!ipu__reserve(&m->values, 1) || !ipu__push(&m->base.values, shown)) return 0;
    m->values.at[m->values.n++] = value;
    return (uint32_t)m->values.n - 1;
}

uint32_t ipu__pass_copy_value(ipu_model *m, uint32_t id)
{
    return ipu__pass_add_value(m, m->base.values.at[id], m->values.at[id]);
}

uint32_t ipu__pass_add_constant(ipu_model *m, ipu__kernel_value value, const void *data, uint32_t location)
{
    ipu__builder_value shown = {value.type, value.shape, ""};
    /* constants are not ops: wherever first used, they are usable everywhere */
    return ipu__pass_add_value(
        m, shown, (ipu__model_value){.kind = IPU__VALUE_CONSTANT, .data = data, .location = location});
}

bool ipu__pass_set_attribute(ipu_model *m, ipu__model_op *op, ipu_attribute a)
{
    ipu_attribute *own = ipu__arena_alloc(&m->base.arena, (op->n_attributes + 1) * sizeof *own);
    size_t         n   = 0;
    if (!own) return false;
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, a.name) != 0) own[n++] = op->attributes[i];
    ipu__kernel_call call = {.attributes = &a, .n_attributes = 1};
    if (ipu__builder_keep_attributes(&m->base, &call) != IPU_OK) return false;
    own[n++]         = call.attributes[0];
    op->attributes   = own;
    op->n_attributes = n;
    return true;
}
