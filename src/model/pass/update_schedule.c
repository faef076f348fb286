/* Update scheduling: runs updates as early as possible, so that what waits for them need not wait for the
 * rest.
 *
 * Ops run in order of creation, in which sums of gradients come after all gradients. Here ops that update
 * given parameters and states, along with casts and views used only by them, move up to their last input; but
 * not past readers of the old values, so that these can still be updated in place.
 */
#include <string.h>

#include "model/model.h"

typedef struct mover {
    ipu_model *m;
    uint8_t   *moves;             /* by op */
    uint8_t   *feeds;             /* by op: something that moves depends on it */
    uint8_t   *is_done;           /* by op: already in the new order */
    uint32_t  *last_use;          /* by value: position + 1 of its last reader that stays; 0 if none */
    IPU__ARRAY(uint32_t) waiting; /* ops that move, in order */
    IPU__ARRAY(uint32_t) order;
} mover;

/* The op of block 0 that produces a value, or UINT32_MAX. */
static uint32_t producer(const ipu_model *m, uint32_t value)
{
    const ipu__model_value *v = &m->values.at[value];
    return value && v->kind == IPU__VALUE_OP && v->block == 0 ? v->of : UINT32_MAX;
}

static bool is_light(const ipu__model_op *op)
{
    return op->kind == IPU__MODEL_OP && (op->def->view || op->def == &ipu__op_cast);
}

static void mark(mover *v, uint32_t op, const uint32_t *uses)
{
    const ipu__model_op *o = &v->m->ops.at[op];
    v->moves[op]           = 1;
    for (uint32_t i = 0; i < o->n_in; i++) {
        uint32_t from = producer(v->m, o->in[i]);
        if (from == UINT32_MAX || v->moves[from]) continue;
        if (is_light(&v->m->ops.at[from]) && uses[o->in[i]] == 1)
            mark(v, from, uses);
        else
            v->feeds[from] = 1;
    }
}

/* Whether the op produces the next value of `kept`. */
static bool is_overwritten(const ipu_model *m, const ipu__model_op *op, uint32_t kept)
{
    const ipu__model_value *v       = &m->values.at[kept];
    bool                    is_kept = v->kind == IPU__VALUE_PARAMETER || v->kind == IPU__VALUE_STATE;
    return is_kept && v->update >= op->first_out && v->update < op->first_out + op->n_out;
}

/* Views pass the uses of their results on. Branches and loops are not examined: they count as readers of
 * everything. */
static void find_last_uses(mover *v)
{
    const ipu__block *b          = &v->m->blocks.at[0];
    bool              has_bodies = false;
    for (size_t i = b->order.n; i-- > 0;) {
        uint32_t             id = b->order.at[i];
        const ipu__model_op *op = &v->m->ops.at[id];
        has_bodies |= op->kind != IPU__MODEL_OP;
        if (v->moves[id]) continue;
        uint32_t own = (uint32_t)i + 1;
        if (op->kind == IPU__MODEL_OP && op->def->view && v->last_use[op->first_out] > own)
            own = v->last_use[op->first_out];
        for (uint32_t k = 0; k < op->n_in; k++)
            if (v->last_use[op->in[k]] < own) v->last_use[op->in[k]] = own;
    }
    for (size_t i = 0; has_bodies && i < v->m->values.n; i++) v->last_use[i] = (uint32_t)b->order.n;
}

static bool is_ready(const mover *v, uint32_t op)
{
    const ipu__model_op *o = &v->m->ops.at[op];
    for (uint32_t i = 0; i < o->n_in; i++) {
        uint32_t from = producer(v->m, o->in[i]);
        if (from != UINT32_MAX && !v->is_done[from]) return false;
        if (o->in[i] && is_overwritten(v->m, o, o->in[i]) && v->last_use[o->in[i]]
            && !v->is_done[v->m->blocks.at[0].order.at[v->last_use[o->in[i]] - 1]])
            return false;
    }
    return true;
}

static bool put(mover *v, uint32_t op)
{
    v->is_done[op] = 1;
    return ipu__push(&v->order, op);
}

/* Waiting ops are in the order of all ops, so that one pass finds chains. */
static bool put_ready(mover *v)
{
    size_t kept = 0;
    bool   ok   = true;
    for (size_t i = 0; ok && i < v->waiting.n; i++) {
        uint32_t op = v->waiting.at[i];
        if (is_ready(v, op))
            ok = put(v, op);
        else
            v->waiting.at[kept++] = op;
    }
    v->waiting.n = kept;
    return ok;
}

static bool move_all(mover *v)
{
    ipu__block *b  = &v->m->blocks.at[0];
    bool        ok = true;
    for (size_t i = 0; ok && i < b->order.n; i++)
        if (v->moves[b->order.at[i]]) ok = ipu__push(&v->waiting, b->order.at[i]);
    ok = ok && put_ready(v); /* those that depend on no op at all */
    for (size_t i = 0; ok && i < b->order.n; i++) {
        uint32_t op = b->order.at[i];
        if (v->moves[op]) continue;
        ok = put(v, op) && (!v->feeds[op] || put_ready(v));
    }
    while (ok && v->waiting.n > 0) { /* those with a later reader after all: in original order */
        ok = put(v, v->waiting.at[0]);
        memmove(v->waiting.at, v->waiting.at + 1, --v->waiting.n * sizeof *v->waiting.at);
    }
    if (!ok) return false;
    IPU__ASSERT(v->waiting.n == 0 && v->order.n == b->order.n);
    for (size_t i = 0; i < b->order.n; i++) b->order.at[i] = v->order.at[i];
    return true;
}

ipu_status ipu__model_schedule_updates(ipu_model *m, const uint32_t *kept, size_t n)
{
    mover     v    = {.m = m};
    uint32_t *uses = ipu__model_count_uses(m);
    v.moves        = ipu__alloc_zeroed(m->ops.n + 1);
    v.feeds        = ipu__alloc_zeroed(m->ops.n + 1);
    v.is_done      = ipu__alloc_zeroed(m->ops.n + 1);
    v.last_use     = ipu__alloc_zeroed((m->values.n + 1) * sizeof *v.last_use);
    bool ok        = uses && v.moves && v.feeds && v.is_done && v.last_use;
    for (size_t i = 0; ok && i < n; i++) {
        uint32_t op = producer(m, m->values.at[kept[i]].update);
        if (op != UINT32_MAX && m->ops.at[op].kind == IPU__MODEL_OP) mark(&v, op, uses);
    }
    if (ok) find_last_uses(&v);
    for (size_t i = 0; ok && i < n; i++)
        if (v.last_use[kept[i]]) v.feeds[m->blocks.at[0].order.at[v.last_use[kept[i]] - 1]] = 1;
    ok = ok && move_all(&v);
    ipu__free(uses);
    ipu__free(v.moves);
    ipu__free(v.feeds);
    ipu__free(v.is_done);
    ipu__free(v.last_use);
    ipu__array_fini(&v.waiting);
    ipu__array_fini(&v.order);
    return ok ? IPU_OK : ipu__fail_memory();
}
