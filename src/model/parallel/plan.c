/* Which op of a network runs where, and by which routes values get there. See plan.h. */
#include "model/parallel/plan.h"

#include <inttypes.h>
#include <string.h>

#define NOWHERE UINT32_MAX

typedef struct planning {
    ipu__plan       *p;
    const ipu_model *m;
    IPU__ARRAY(uint32_t) used; /* values of block 0 that an op reads, including in nested blocks */
    uint32_t *lowest;          /* by value: the first position that reads it */
    bool      failed;
} planning;

/* ---- values read by ops ---- */

static void note_block(planning *g, uint32_t block);

static void note_value(planning *g, uint32_t id)
{
    const ipu__model_value *v = &g->m->values.at[id];
    if (id == 0 || v->block != 0 || v->kind == IPU__VALUE_CONSTANT) return;
    if (!ipu__push(&g->used, id)) g->failed = true;
}

static void note_op(planning *g, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) note_value(g, op->in[i]);
    if (op->kind != IPU__MODEL_OP) note_block(g, op->body);
    if (op->kind == IPU__MODEL_IF) note_block(g, op->otherwise);
}

static void note_block(planning *g, uint32_t block)
{
    const ipu__block *b = &g->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &g->m->ops.at[b->order.at[i]];
        if (!op->dead) note_op(g, op);
    }
    for (size_t i = 0; i < b->yields.n; i++) note_value(g, b->yields.at[i]);
    note_value(g, b->go_on);
}

static void note_uses(planning *g, const ipu__model_op *op)
{
    g->used.n = 0;
    note_op(g, op);
}

/* Live op `i` of block 0, or NULL. */
static const ipu__model_op *op_at(const planning *g, size_t i, uint32_t *id)
{
    *id                     = g->m->blocks.at[0].order.at[i];
    const ipu__model_op *op = &g->m->ops.at[*id];
    return op->dead ? NULL : op;
}

static size_t n_ops(const planning *g) { return g->m->blocks.at[0].order.n; }

/* ---- positions of ops ---- */

static bool is_kept(const ipu__model_value *v)
{
    return v->kind == IPU__VALUE_PARAMETER || v->kind == IPU__VALUE_STATE;
}

static bool is_updated(const ipu_model *m, uint32_t id)
{
    const ipu__model_value *v = &m->values.at[id];
    return is_kept(v) && v->update != 0 && v->update != id;
}

/* Ops with a stage go there; others go where the last of their inputs is produced, if any is produced by an
 * op. */
static void place_forward(planning *g)
{
    ipu__plan *p = g->p;
    for (size_t i = 0; i < n_ops(g); i++) {
        uint32_t             id;
        const ipu__model_op *op = op_at(g, i, &id);
        if (!op) continue;
        p->op_position[id] = NOWHERE;
        if (op->stage.number != IPU__STAGE_ANY) {
            p->op_position[id] = op->stage.is_backward ? 2 * p->n_stages - 1 - op->stage.number
                                                       : op->stage.number;
            continue;
        }
        note_uses(g, op);
        for (size_t k = 0; k < g->used.n; k++) {
            const ipu__model_value *v = &g->m->values.at[g->used.at[k]];
            if (v->kind != IPU__VALUE_OP || p->op_position[v->of] == NOWHERE) continue;
            if (p->op_position[id] == NOWHERE || p->op_position[v->of] > p->op_position[id])
                p->op_position[id] = p->op_position[v->of];
        }
    }
}

static void lower_to(uint32_t *to, uint32_t position)
{
    if (position != NOWHERE && (*to == NOWHERE || position < *to)) *to = position;
}

/* Anything not placed yet goes where its first reader is. */
static void place_backward(planning *g)
{
    ipu__plan *p = g->p;
    for (size_t i = n_ops(g); i-- > 0;) {
        uint32_t             id;
        const ipu__model_op *op = op_at(g, i, &id);
        if (!op) continue;
        for (uint32_t k = 0; k < op->n_out && op->stage.number == IPU__STAGE_ANY; k++)
            if (p->op_position[id] == NOWHERE) lower_to(&p->op_position[id], g->lowest[op->first_out + k]);
        note_uses(g, op);
        for (size_t k = 0; k < g->used.n; k++) lower_to(&g->lowest[g->used.at[k]], p->op_position[id]);
    }
}

/* What only an update needs goes where the updated value is first read. */
static void place_updates(planning *g)
{
    for (uint32_t id = 1; id < g->m->values.n; id++) {
        const ipu__model_value *v = &g->m->values.at[id];
        if (!is_updated(g->m, id) || g->m->values.at[v->update].kind != IPU__VALUE_OP) continue;
        uint32_t *of = &g->p->op_position[g->m->values.at[v->update].of];
        if (*of == NOWHERE) *of = g->lowest[id] == NOWHERE ? 0 : g->lowest[id];
    }
}

static ipu_status check_stages(const planning *g)
{
    const ipu__plan *p = g->p;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        bool any = false;
        for (size_t i = 0; i < n_ops(g) && !any; i++) {
            uint32_t             id;
            const ipu__model_op *op = op_at(g, i, &id);
            any                     = op && op->stage.number == s && !op->stage.is_backward;
        }
        if (!any)
            return ipu__fail(IPU_INVALID,
                             "stage \"%s\" has nothing in it: no op of it is needed for an output or a loss. "
                             "Leave it out, or begin it (ipu_model_stage) before the ops it is meant to have",
                             g->m->stages.at[s]);
    }
    return IPU_OK;
}

static ipu_status place_ops(planning *g)
{
    place_forward(g);
    place_backward(g);
    place_updates(g);
    place_backward(g);
    for (size_t i = 0; i < n_ops(g); i++) {
        uint32_t id = g->m->blocks.at[0].order.at[i];
        if (g->p->op_position[id] == NOWHERE) g->p->op_position[id] = 0;
    }
    return g->failed ? ipu__fail_memory() : check_stages(g);
}

/* ---- positions of values ---- */

static uint32_t position_of(const planning *g, uint32_t id)
{
    const ipu__model_value *v     = &g->m->values.at[id];
    uint32_t                first = g->lowest[id] == NOWHERE ? 0 : g->lowest[id];
    switch (v->kind) {
    case IPU__VALUE_OP: return v->block == 0 ? g->p->op_position[v->of] : IPU__EVERYWHERE;
    case IPU__VALUE_INPUT: return first;
    case IPU__VALUE_PARAMETER:
    case IPU__VALUE_STATE: break;
    default: return IPU__EVERYWHERE;
    }
    if (!is_updated(g->m, id)) return IPU__EVERYWHERE;
    const ipu__model_value *next = &g->m->values.at[v->update];
    if (next->kind == IPU__VALUE_OP) return g->p->op_position[next->of];
    if (next->kind != IPU__VALUE_INPUT) return first;
    return g->lowest[v->update] == NOWHERE ? 0 : g->lowest[v->update];
}

static ipu_status fail_order(const planning *g, uint32_t value, uint32_t position)
{
    const ipu__plan *p    = g->p;
    uint32_t         made = p->value_position[value];
    return ipu__fail(
        IPU_INVALID,
        "stage \"%s\"%s reads %s, which is only there after stage \"%s\"%s: of one batch, stages run "
        "one after another. Compute it in the earlier stage, or put both into one",
        g->m->stages.at[ipu__plan_stage(p, position)], position < p->n_stages ? "" : " (backward)",
        ipu__value_str(ipu__model_handle(g->m, value)), g->m->stages.at[ipu__plan_stage(p, made)],
        made < p->n_stages ? "" : " (backward)");
}

static ipu_status place_values(planning *g)
{
    ipu__plan *p = g->p;
    for (uint32_t id = 1; id < g->m->values.n; id++) p->value_position[id] = position_of(g, id);
    for (uint32_t id = 1; id < g->m->values.n; id++) {
        if (p->value_position[id] == IPU__EVERYWHERE || g->lowest[id] == NOWHERE) continue;
        if (g->lowest[id] < p->value_position[id]) return fail_order(g, id, g->lowest[id]);
    }
    return IPU_OK;
}

/* ---- members and their reads ---- */

static uint8_t *members(const ipu__plan *p, uint32_t position)
{
    return p->is_member + (size_t)position * p->m->ops.n;
}

static uint8_t *uses(const ipu__plan *p, uint32_t position)
{
    return p->uses + (size_t)position * p->m->values.n;
}

static bool may_repeat(const ipu__model_op *op)
{
    return op->kind == IPU__MODEL_OP && !(op->def->flags & IPU__OP_IMPURE);
}

static void add_member(planning *g, uint32_t position, uint32_t id)
{
    members(g->p, position)[id] = 1;
    note_uses(g, &g->m->ops.at[id]);
    for (size_t k = 0; k < g->used.n; k++) uses(g->p, position)[g->used.at[k]] = 1;
}

/* The last stage goes backward right after going forward, so it need not recompute anything. */
static void add_repeated(planning *g, uint32_t stage)
{
    uint32_t position = 2 * g->p->n_stages - 1 - stage;
    for (size_t i = n_ops(g); i-- > 0;) {
        uint32_t             id;
        const ipu__model_op *op     = op_at(g, i, &id);
        bool                 wanted = false;
        if (!op || g->p->op_position[id] != stage || !may_repeat(op)) continue;
        for (uint32_t k = 0; k < op->n_out; k++) wanted |= uses(g->p, position)[op->first_out + k] != 0;
        if (wanted) add_member(g, position, id);
    }
}

static void add_members(planning *g, bool recompute)
{
    ipu__plan *p = g->p;
    for (size_t i = 0; i < n_ops(g); i++) {
        uint32_t id;
        if (op_at(g, i, &id)) add_member(g, p->op_position[id], id);
    }
    for (uint32_t s = 0; recompute && p->n_positions > p->n_stages && s + 1 < p->n_stages; s++)
        add_repeated(g, s);
}

/* ---- routes ---- */

typedef struct routing {
    planning *g;
    uint8_t  *has; /* by position and value */
} routing;

static uint8_t *has(const routing *r, uint32_t position, uint32_t value)
{
    return &r->has[(size_t)position * r->g->m->values.n + value];
}

/* The last position on the same IPU that had it, or NOWHERE. */
static uint32_t last_on_ipu(const routing *r, uint32_t value, uint32_t position)
{
    for (uint32_t at = position; at-- > 0;)
        if (*has(r, at, value) && ipu__plan_ipu(r->g->p, at) == ipu__plan_ipu(r->g->p, position)) return at;
    return NOWHERE;
}

/* Where `position` gets the value from, which may itself have to get it first. */
static uint32_t source_of(const routing *r, uint32_t value, uint32_t position)
{
    const ipu__plan *p    = r->g->p;
    uint32_t         last = last_on_ipu(r, value, position), stage = ipu__plan_stage(p, position);
    if (last != NOWHERE) return last;
    if (position >= p->n_stages && p->value_position[value] <= stage) return stage;
    return position - 1;
}

static void route(routing *r, uint32_t value, uint32_t position)
{
    if (*has(r, position, value) || position == 0) return;
    uint32_t from = source_of(r, value, position);
    route(r, value, from);
    if (!ipu__push(&r->g->p->routes, (ipu__route){value, from, position})) r->g->failed = true;
    *has(r, position, value) = 1;
}

static bool is_made_there(const ipu__plan *p, uint32_t position, uint32_t value)
{
    const ipu__model_value *v = &p->m->values.at[value];
    return p->value_position[value] == position || (v->kind == IPU__VALUE_OP && members(p, position)[v->of]);
}

static ipu_status make_routes(planning *g)
{
    ipu__plan *p = g->p;
    routing    r = {g, ipu__alloc_zeroed((size_t)p->n_positions * g->m->values.n)};
    if (!r.has) return ipu__fail_memory();
    for (uint32_t id = 1; id < g->m->values.n; id++)
        if (p->value_position[id] != IPU__EVERYWHERE) *has(&r, p->value_position[id], id) = 1;
    for (uint32_t q = 0; q < p->n_positions; q++)
        for (uint32_t id = 1; id < g->m->values.n; id++) {
            if (!uses(p, q)[id] || p->value_position[id] == IPU__EVERYWHERE || is_made_there(p, q, id))
                continue;
            route(&r, id, q);
        }
    ipu__free(r.has);
    return g->failed ? ipu__fail_memory() : IPU_OK;
}

/* ---- entry points ---- */

static bool has_backward(const ipu_model *m)
{
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        if (!op->dead && op->stage.is_backward) return true;
    }
    return false;
}

static ipu_status plan(planning *g, bool recompute)
{
    ipu__plan *p      = g->p;
    size_t     n      = g->m->values.n;
    p->op_position    = ipu__alloc_zeroed((g->m->ops.n + 1) * sizeof *p->op_position);
    p->value_position = ipu__alloc_zeroed(n * sizeof *p->value_position);
    p->is_member      = ipu__alloc_zeroed((size_t)p->n_positions * (g->m->ops.n + 1));
    p->uses           = ipu__alloc_zeroed((size_t)p->n_positions * n);
    g->lowest         = ipu__alloc(n * sizeof *g->lowest);
    if (!p->op_position || !p->value_position || !p->is_member || !p->uses || !g->lowest)
        return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) g->lowest[i] = NOWHERE;
    IPU_TRY(place_ops(g));
    IPU_TRY(place_values(g));
    add_members(g, recompute);
    return g->failed ? ipu__fail_memory() : make_routes(g);
}

ipu_status ipu__plan_make(const ipu_model *m, const int64_t *stage_ipus, bool recompute, ipu__plan *out)
{
    uint32_t n        = (uint32_t)m->stages.n;
    *out              = (ipu__plan){.m = m, .stage_ipus = stage_ipus, .n_stages = n};
    out->n_positions  = has_backward(m) ? 2 * n : n;
    planning   g      = {.p = out, .m = m};
    ipu_status status = plan(&g, recompute);
    ipu__array_fini(&g.used);
    ipu__free(g.lowest);
    return status;
}

void ipu__plan_fini(ipu__plan *p)
{
    ipu__free(p->op_position);
    ipu__free(p->value_position);
    ipu__free(p->is_member);
    ipu__free(p->uses);
    ipu__array_fini(&p->routes);
    *p = (ipu__plan){0};
}
