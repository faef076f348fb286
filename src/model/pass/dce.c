/* Dead code elimination: drops what no output or update needs, including in branches and loops.
 *
 * Uses are followed backwards from outputs and updates. Branches and loops are followed result by result:
 * unused results are removed, along with what was computed only for them.
 */
#include <string.h>

#include "model/pass/pass.h"

typedef struct liveness {
    ipu_model *m;
    bool      *used; /* by value */
    bool      *live; /* by op */
    IPU__ARRAY(uint32_t) todo;
    bool failed;
} liveness;

static void use(liveness *l, uint32_t id)
{
    if (id == 0 || l->used[id]) return;
    l->used[id] = true;
    if (!ipu__push(&l->todo, id)) l->failed = true;
}

static void use_inputs(liveness *l, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) use(l, op->in[i]);
}

/* Value `at` carried by a loop: its initial value, and its value in the next turn. */
static void use_carried(liveness *l, const ipu__model_op *op, uint32_t at)
{
    use(l, op->in[1 + at]);
    use(l, l->m->blocks.at[op->body].yields.at[at]);
}

static void use_result(liveness *l, uint32_t op_id, uint32_t at)
{
    const ipu__model_op *op    = &l->m->ops.at[op_id];
    bool                 again = l->live[op_id];
    l->live[op_id]             = true;
    switch (op->kind) {
    case IPU__MODEL_OP:
        if (!again) use_inputs(l, op);
        break;
    case IPU__MODEL_IF:
        use(l, op->in[0]);
        use(l, l->m->blocks.at[op->body].yields.at[at]);
        use(l, l->m->blocks.at[op->otherwise].yields.at[at]);
        break;
    case IPU__MODEL_LOOP:
        use(l, op->in[0]);
        use(l, l->m->blocks.at[op->body].go_on);
        use_carried(l, op, at);
        break;
    }
}

static void follow(liveness *l)
{
    const ipu_model *m = l->m;
    for (size_t i = 0; i < m->outputs.n; i++) use(l, m->outputs.at[i].value);
    for (size_t i = 0; i < m->values.n; i++) use(l, m->values.at[i].update);
    while (l->todo.n > 0) {
        const ipu__model_value *v = &m->values.at[l->todo.at[--l->todo.n]];
        if (v->kind == IPU__VALUE_OP) use_result(l, v->of, v->at);
        if (v->kind == IPU__VALUE_CARRIED) use_carried(l, &m->ops.at[m->blocks.at[v->of].op], v->at);
    }
}

/* ---- unused results of branches and loops ---- */

static bool is_needed(const liveness *l, const ipu__model_op *op, uint32_t at)
{
    if (l->used[op->first_out + at]) return true;
    return op->kind == IPU__MODEL_LOOP && l->used[l->m->blocks.at[op->body].first_carried + at];
}

static void drop_yields(const liveness *l, const ipu__model_op *op, ipu__block *block)
{
    size_t kept = 0;
    for (uint32_t i = 0; i < op->n_out; i++)
        if (is_needed(l, op, i)) block->yields.at[kept++] = block->yields.at[i];
    block->yields.n = kept;
}

/* Renumbers the needed ones of values first .. first + n to be contiguous. */
static bool close_ranks(liveness *l, ipu__renames *r, const ipu__model_op *op, uint32_t first, uint32_t *out)
{
    uint32_t kept = 0;
    *out          = (uint32_t)l->m->values.n;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!is_needed(l, op, i)) continue;
        uint32_t id = ipu__pass_copy_value(l->m, first + i);
        if (!id || !ipu__rename(r, first + i, id)) return false;
        l->m->values.at[id].at = kept++;
    }
    return true;
}

static bool drop_results(liveness *l, ipu__renames *r, ipu__model_op *op)
{
    uint32_t    first_out, first_carried = 0, kept = 0;
    ipu__block *body = &l->m->blocks.at[op->body];
    if (!close_ranks(l, r, op, op->first_out, &first_out)) return false;
    if (op->kind == IPU__MODEL_LOOP && !close_ranks(l, r, op, body->first_carried, &first_carried))
        return false;
    drop_yields(l, op, body);
    if (op->kind == IPU__MODEL_IF) drop_yields(l, op, &l->m->blocks.at[op->otherwise]);
    if (op->kind == IPU__MODEL_LOOP) {
        for (uint32_t i = 0; i < op->n_out; i++)
            if (is_needed(l, op, i)) op->in[1 + kept++] = op->in[1 + i];
        op->n_in            = 1 + kept;
        body->n_carried     = kept;
        body->first_carried = first_carried;
    }
    op->n_out     = (uint32_t)body->yields.n;
    op->first_out = first_out;
    return true;
}

static bool shrink(liveness *l, bool *changed)
{
    ipu__renames r  = {0};
    bool         ok = true;
    for (size_t i = 0; ok && i < l->m->ops.n; i++) {
        ipu__model_op *op   = &l->m->ops.at[i];
        bool           full = true;
        if (op->dead || !l->live[i] || op->kind == IPU__MODEL_OP) continue;
        for (uint32_t k = 0; k < op->n_out; k++) full = full && is_needed(l, op, k);
        if (full) continue;
        ok       = drop_results(l, &r, op);
        *changed = true;
    }
    ipu__renames_apply(&r, l->m);
    ipu__renames_fini(&r);
    return ok;
}

/* ---- the pass ---- */

static void drop_ops(liveness *l, bool *changed)
{
    ipu_model *m = l->m;
    for (size_t i = 0; i < m->blocks.n; i++) {
        ipu__block *block = &m->blocks.at[i];
        size_t      kept  = 0;
        for (size_t k = 0; k < block->order.n; k++) {
            uint32_t id = block->order.at[k];
            *changed |= !l->live[id] && !m->ops.at[id].dead;
            if (!l->live[id]) m->ops.at[id].dead = true;
            if (!m->ops.at[id].dead) block->order.at[kept++] = id;
        }
        block->order.n = kept;
    }
}

ipu_status ipu__model_dce(ipu_model *m, bool *changed)
{
    liveness l = {.m    = m,
                  .used = ipu__alloc_zeroed(m->values.n * sizeof *l.used),
                  .live = ipu__alloc_zeroed(m->ops.n * sizeof *l.live)};
    *changed   = false;
    bool ok    = l.used && l.live;
    if (ok) follow(&l);
    ok = ok && !l.failed && shrink(&l, changed);
    if (ok) drop_ops(&l, changed);
    ipu__array_fini(&l.todo);
    ipu__free(l.used);
    ipu__free(l.live);
    return ok ? IPU_OK : ipu__fail_memory();
}
