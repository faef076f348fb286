/* Going back to a mark: ids only grow, so anything newer is at the end of every list. */
#include "model/rewind.h"

ipu__model_mark ipu__model_take_mark(const ipu_model *m)
{
    return (ipu__model_mark){.n_values      = (uint32_t)m->values.n,
                             .n_ops         = (uint32_t)m->ops.n,
                             .n_blocks      = (uint32_t)m->blocks.n,
                             .block         = m->block,
                             .n_outputs     = m->outputs.n,
                             .n_aliases     = m->aliases.n,
                             .n_losses      = m->losses.n,
                             .n_customs     = m->customs.n,
                             .n_shards      = m->shards.n,
                             .n_stages      = m->stages.n,
                             .n_scope       = m->base.scope.n,
                             .seed          = m->seed,
                             .rounding_seed = m->rounding_seed,
                             .n_keys        = m->n_keys,
                             .next_key      = m->base.next_key,
                             .recompute     = m->recompute,
                             .stage         = m->stage};
}

/* Removes ids from `first` on from the list. */
static void cut(const uint32_t *ids, size_t *n, uint32_t first)
{
    while (*n > 0 && ids[*n - 1] >= first) --*n;
}

static void cut_names(ipu_model *m, const uint32_t *ids, size_t n, uint32_t first)
{
    while (n > 0 && ids[n - 1] >= first) (void)ipu__map_remove(&m->names, m->base.values.at[ids[--n]].name);
}

static void forget_updates(ipu_model *m, const uint32_t *kept, size_t n, uint32_t first)
{
    for (size_t i = 0; i < n; i++) {
        ipu__model_value *v = &m->values.at[kept[i]];
        if (v->update >= first) v->update = 0;
    }
}

static void cut_blocks(ipu_model *m, const ipu__model_mark *mark)
{
    for (size_t i = mark->n_blocks; i < m->blocks.n; i++) {
        ipu__array_fini(&m->blocks.at[i].order);
        ipu__array_fini(&m->blocks.at[i].yields);
    }
    m->blocks.n = mark->n_blocks;
    m->block    = mark->block;
    /* other blocks have ended, and received nothing since */
    for (uint32_t i = m->block; i != IPU__NO_BLOCK; i = m->blocks.at[i].parent)
        cut(m->blocks.at[i].order.at, &m->blocks.at[i].order.n, mark->n_ops);
}

void ipu__model_rewind(ipu_model *m, const ipu__model_mark *mark)
{
    uint32_t first = mark->n_values;
    for (size_t i = mark->n_outputs; i < m->outputs.n; i++)
        (void)ipu__map_remove(&m->names, m->outputs.at[i].name);
    cut_names(m, m->inputs.at, m->inputs.n, first);
    cut_names(m, m->parameters.at, m->parameters.n, first);
    cut_names(m, m->states.at, m->states.n, first);
    cut(m->inputs.at, &m->inputs.n, first);
    cut(m->parameters.at, &m->parameters.n, first);
    cut(m->states.at, &m->states.n, first);
    forget_updates(m, m->parameters.at, m->parameters.n, first);
    forget_updates(m, m->states.at, m->states.n, first);
    cut_blocks(m, mark);
    m->values.n = m->base.values.n = first;
    m->ops.n                       = mark->n_ops;
    m->outputs.n                   = mark->n_outputs;
    m->aliases.n                   = mark->n_aliases;
    m->losses.n                    = mark->n_losses;
    m->customs.n                   = mark->n_customs;
    m->shards.n                    = mark->n_shards;
    m->stages.n                    = mark->n_stages;
    m->base.scope.n                = mark->n_scope;
    m->seed                        = mark->seed;
    m->rounding_seed               = mark->rounding_seed;
    m->n_keys                      = mark->n_keys;
    m->base.next_key               = mark->next_key;
    m->recompute                   = mark->recompute;
    m->stage                       = mark->stage;
    m->base.status                 = IPU_OK;
    ipu__free(m->base.message);
    m->base.message = NULL;
}

ipu_status ipu__model_fix_input(ipu_model *m, uint32_t id, const ipu_array *a)
{
    ipu__builder_value *shown = &m->base.values.at[id];
    ipu__model_value   *v     = &m->values.at[id];
    size_t              bytes = ipu_array_bytes(a);
    void *own = bytes ? ipu__arena_copy(&m->base.arena, a->data, bytes) : ipu__arena_alloc(&m->base.arena, 1);
    if (!own) return ipu__fail_memory();
    (void)ipu__map_remove(&m->names, shown->name);
    shown->name  = "";
    shown->shape = a->shape;
    v->kind      = IPU__VALUE_CONSTANT;
    v->data      = own;
    return IPU_OK;
}

void ipu__model_drop_fixed_inputs(ipu_model *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->inputs.n; i++)
        if (m->values.at[m->inputs.at[i]].kind == IPU__VALUE_INPUT) m->inputs.at[kept++] = m->inputs.at[i];
    m->inputs.n = kept;
}
