/* Stages, by which a network over several IPUs is cut.
 *
 * Each op of a model has one; ops of gradients have the backward stage of the op they differentiate. Ops
 * emitted for bookkeeping (seeds, sums of losses and of gradients) have no particular stage, and go where
 * their inputs are.
 */
#include <string.h>

#include "model/model.h"

static uint32_t find_stage(const ipu_model *m, const char *name)
{
    uint32_t i = 0;
    while (i < m->stages.n && strcmp(m->stages.at[i], name) != 0) i++;
    return i;
}

void ipu_model_stage(ipu_model *m, const char *name)
{
    ipu_builder *b = &m->base;
    if (b->status != IPU_OK) return;
    if (!name || !*name) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_model_stage: expected a name");
        return;
    }
    if (m->block != 0) {
        ipu__builder_fail(
            b, IPU_INVALID,
            "ipu_model_stage: stage \"%s\" begins inside a branch or loop, which is of one stage: "
            "name it before",
            name);
        return;
    }
    uint32_t number = find_stage(m, name);
    if (number == m->stages.n) {
        const char *own = ipu__arena_strdup(&b->arena, name);
        if (!own || !ipu__push(&m->stages, own)) {
            ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
            return;
        }
    }
    m->stage = (ipu__stage){number, false};
}

size_t ipu_model_n_stages(const ipu_model *m) { return m->stages.n ? m->stages.n : 1; }

/* Whether stage `s` has any forward ops left. */
static bool has_ops(const ipu_model *m, uint32_t s)
{
    const ipu__block *whole = &m->blocks.at[0];
    for (size_t i = 0; i < whole->order.n; i++) {
        ipu__stage of = m->ops.at[whole->order.at[i]].stage;
        if (of.number == s && !of.is_backward) return true;
    }
    return false;
}

size_t ipu__model_leave_out_stages(ipu_model *m, bool *is_kept)
{
    size_t before = m->stages.n, n = 0;
    for (uint32_t s = 0; s < before; s++) {
        is_kept[s] = has_ops(m, s);
        if (is_kept[s]) m->stages.at[n++] = m->stages.at[s];
    }
    if (n == 0 || n == before) {
        for (size_t s = 0; s < before; s++) is_kept[s] = true;
        return 0;
    }
    for (size_t i = 0; i < m->ops.n; i++) {
        ipu__stage *stage  = &m->ops.at[i].stage;
        uint32_t    number = 0;
        if (stage->number == IPU__STAGE_ANY) continue;
        for (uint32_t s = 0; s <= stage->number; s++) number += is_kept[s];
        stage->number = number > 0 ? number - 1 : 0;
    }
    m->stages.n = n;
    return before - n;
}

ipu__stage ipu__model_any_stage(ipu_model *m)
{
    ipu__stage before = m->stage;
    m->stage          = (ipu__stage){IPU__STAGE_ANY, false};
    return before;
}

ipu_status ipu__model_check_stage(const ipu_model *m, const char *op, uint32_t id)
{
    const ipu__model_value *v = &m->values.at[id];
    if (m->stages.n == 0 || m->stage.number == IPU__STAGE_ANY || m->stage.is_backward
        || v->kind != IPU__VALUE_OP)
        return IPU_OK;
    ipu__stage of = m->ops.at[v->of].stage;
    if (of.number == IPU__STAGE_ANY || of.is_backward || of.number <= m->stage.number) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "%s: an op of stage \"%s\" uses %s of stage \"%s\", which comes later: compute it in "
                     "\"%s\" or before, or name the stages in the order in which they run",
                     op, m->stages.at[m->stage.number], ipu__value_str(ipu__model_handle(m, id)),
                     m->stages.at[of.number], m->stages.at[m->stage.number]);
}
