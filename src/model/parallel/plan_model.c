/* The parts of a network as separate models. See plan.h. */
#include "model/parallel/plan.h"

uint32_t ipu__plan_output_position(const ipu__plan *p, size_t i)
{
    uint32_t at = p->value_position[p->m->outputs.at[i].value];
    return at == IPU__EVERYWHERE ? 0 : at;
}

bool ipu__plan_is_first(const ipu__plan *p, size_t route)
{
    const ipu__route *r = &p->routes.at[route];
    for (size_t i = 0; i < route; i++)
        if (p->routes.at[i].from == r->from && p->routes.at[i].value == r->value) return false;
    return true;
}

static void bury(ipu_model *m, uint32_t id)
{
    ipu__model_op *op       = &m->ops.at[id];
    uint32_t       blocks[] = {op->body, op->otherwise};
    op->dead                = true;
    for (int i = 0; i < 2; i++) {
        if (blocks[i] == IPU__NO_BLOCK) continue;
        ipu__block *block = &m->blocks.at[blocks[i]];
        for (size_t k = 0; k < block->order.n; k++) bury(m, block->order.at[k]);
        block->order.n = block->yields.n = 0;
        block->go_on                     = 0;
    }
}

static void keep_members(const ipu__plan *p, uint32_t position, ipu_model *copy)
{
    const uint8_t *is_member = p->is_member + (size_t)position * p->m->ops.n;
    ipu__block    *b         = &copy->blocks.at[0];
    size_t         kept      = 0;
    for (size_t i = 0; i < b->order.n; i++) {
        uint32_t id = b->order.at[i];
        if (is_member[id] && !copy->ops.at[id].dead)
            b->order.at[kept++] = id;
        else
            bury(copy, id);
    }
    b->order.n = kept;
}

static bool is_kept_there(const ipu__plan *p, uint32_t position, uint32_t id)
{
    if (p->value_position[id] != IPU__EVERYWHERE) return p->value_position[id] == position;
    if (ipu__plan_uses(p, position, id)) return true;
    for (size_t i = 0; i < p->m->outputs.n; i++)
        if (p->m->outputs.at[i].value == id && ipu__plan_output_position(p, i) == position) return true;
    for (uint32_t k = 1; k < p->m->values.n; k++) /* another value's update is this one */
        if (p->m->values.at[k].update == id && p->value_position[k] == position) return true;
    return false;
}

static void keep_values(const ipu__plan *p, uint32_t position, ipu_model *copy)
{
    size_t n = 0;
    for (size_t i = 0; i < p->m->inputs.n; i++)
        if (p->value_position[p->m->inputs.at[i]] == position) copy->inputs.at[n++] = p->m->inputs.at[i];
    copy->inputs.n = n;
    n              = 0;
    for (size_t i = 0; i < p->m->parameters.n; i++)
        if (is_kept_there(p, position, p->m->parameters.at[i]))
            copy->parameters.at[n++] = p->m->parameters.at[i];
    copy->parameters.n = n;
    n                  = 0;
    for (size_t i = 0; i < p->m->states.n; i++)
        if (is_kept_there(p, position, p->m->states.at[i])) copy->states.at[n++] = p->m->states.at[i];
    copy->states.n = n;
    for (uint32_t id = 1; id < copy->values.n; id++)
        if (p->value_position[id] != position) copy->values.at[id].update = 0;
}

static bool keep_ends(const ipu__plan *p, uint32_t position, ipu_model *copy)
{
    size_t n = 0;
    for (size_t i = 0; i < p->m->outputs.n; i++)
        if (ipu__plan_output_position(p, i) == position) copy->outputs.at[n++] = p->m->outputs.at[i];
    copy->outputs.n = n;
    for (size_t i = 0; i < p->routes.n; i++) {
        const ipu__route *r = &p->routes.at[i];
        if (r->from == position && ipu__plan_is_first(p, i)
            && !ipu__push(&copy->outputs, (ipu__model_output){.value = r->value}))
            return false;
        if (r->to != position) continue;
        copy->values.at[r->value].kind = IPU__VALUE_INPUT;
        if (!ipu__push(&copy->inputs, r->value)) return false;
    }
    return true;
}

ipu_model *ipu__plan_part(const ipu__plan *p, uint32_t position)
{
    ipu_model *copy = ipu__model_copy(p->m);
    if (!copy) return NULL;
    copy->stages.n = 0; /* it has a single stage */
    keep_members(p, position, copy);
    keep_values(p, position, copy);
    if (keep_ends(p, position, copy)) return copy;
    ipu_model_destroy(copy);
    return NULL;
}

ipu_model *ipu__plan_kept(const ipu__plan *p, const uint8_t *is_wanted)
{
    ipu_model *copy = ipu__model_copy(p->m);
    size_t     n    = 0;
    if (!copy) return NULL;
    for (size_t i = 0; i < copy->blocks.at[0].order.n; i++) bury(copy, copy->blocks.at[0].order.at[i]);
    copy->blocks.at[0].order.n = copy->inputs.n = copy->outputs.n = copy->stages.n = 0;
    for (size_t i = 0; i < p->m->parameters.n; i++)
        if (is_wanted[p->m->parameters.at[i]]) copy->parameters.at[n++] = p->m->parameters.at[i];
    copy->parameters.n = n;
    n                  = 0;
    for (size_t i = 0; i < p->m->states.n; i++)
        if (is_wanted[p->m->states.at[i]]) copy->states.at[n++] = p->m->states.at[i];
    copy->states.n = n;
    for (uint32_t id = 1; id < copy->values.n; id++) copy->values.at[id].update = 0;
    return copy;
}
