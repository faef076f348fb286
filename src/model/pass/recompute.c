/* Recomputation: clones of blocks, for the gradients of branches and loops, and copies of forward values
 * between checkpoints, which gradient ops use so that the originals need not stay in memory.
 *
 * Copies are emitted right before the op that uses them (ipu__model_substitute), and live until the pass goes
 * past a checkpoint; if the same value is needed after that, it is computed once more.
 */
#include "model/grad/gradient.h"

/* ---- clones of blocks ---- */

ipu_value ipu__clone_of(const ipu__diff *p, uint32_t id)
{
    return ipu__model_handle(p->m, p->values.at[id].copy ? p->values.at[id].copy : id);
}

/* `copy` replaces `id`, and gets its name. */
static void set_copy(ipu__diff *p, uint32_t id, ipu_value copy)
{
    if (!ipu__diff_cover(p)) return;
    p->values.at[id].copy              = copy.id;
    p->m->base.values.at[copy.id].name = p->m->base.values.at[id].name;
}

static void clone_op(ipu__diff *p, const ipu__model_op *op)
{
    ipu__kernel_call call = ipu__model_call(p->m, op);
    uint32_t         in[IPU__MAX_OPERANDS];
    ipu_value        out[IPU__MAX_OPERANDS];
    for (uint32_t i = 0; i < op->n_in; i++) in[i] = ipu__clone_of(p, op->in[i]).id;
    if (ipu__model_add_op(p->m, op, in, call.operand + op->n_in, out) != IPU_OK) {
        ipu__diff_fail_memory(p);
        return;
    }
    for (uint32_t i = 0; i < op->n_out && ipu__diff_ok(p); i++) set_copy(p, op->first_out + i, out[i]);
}

/* What the clone of `block` yields; NULL if out of memory. Owned: ipu__free. */
static ipu_value *cloned_yields(ipu__diff *p, uint32_t block)
{
    const ipu__block *from   = &p->m->blocks.at[block];
    ipu_value        *values = ipu__alloc(from->yields.n * sizeof *values);
    if (!values) ipu__diff_fail_memory(p);
    for (size_t i = 0; values && i < from->yields.n; i++) values[i] = ipu__clone_of(p, from->yields.at[i]);
    return values;
}

static void clone_branch(ipu__diff *p, uint32_t block)
{
    ipu__clone_block(p, block);
    ipu_value *yields = ipu__diff_ok(p) ? cloned_yields(p, block) : NULL;
    if (yields) ipu_model_yield(p->m, yields, p->m->blocks.at[block].yields.n);
    ipu__free(yields);
}

static void end_clone(ipu__diff *p, const ipu__model_op *op)
{
    ipu_value *out = ipu__alloc(op->n_out * sizeof *out);
    if (!out) {
        ipu__diff_fail_memory(p);
        return;
    }
    if (ipu__diff_ok(p)) ipu_model_end(p->m, out, op->n_out);
    for (uint32_t i = 0; i < op->n_out && ipu__diff_ok(p); i++) set_copy(p, op->first_out + i, out[i]);
    ipu__free(out);
}

static void clone_if(ipu__diff *p, const ipu__model_op *op)
{
    ipu_model_if(p->m, ipu__clone_of(p, op->in[0]));
    clone_branch(p, op->body);
    ipu_model_else(p->m);
    clone_branch(p, op->otherwise);
    end_clone(p, op);
}

static void clone_loop(ipu__diff *p, const ipu__model_op *op)
{
    uint32_t   n = op->n_in - 1, body = op->body;
    ipu_value *carried = ipu__alloc(2 * (n + 1) * sizeof *carried), index;
    if (!carried) {
        ipu__diff_fail_memory(p);
        return;
    }
    ipu_value *inside = carried + n + 1;
    for (uint32_t i = 0; i < n; i++) carried[i] = ipu__clone_of(p, op->in[i + 1]);
    ipu_model_loop(p->m, op->most, ipu__clone_of(p, op->in[0]), carried, n, inside, &index);
    for (uint32_t i = 0; i < n && ipu__diff_ok(p); i++)
        set_copy(p, p->m->blocks.at[body].first_carried + i, inside[i]);
    if (ipu__diff_ok(p)) set_copy(p, p->m->blocks.at[body].index, index);
    ipu__free(carried);
    if (ipu__diff_ok(p)) ipu__clone_block(p, body);
    ipu_value *yields = ipu__diff_ok(p) ? cloned_yields(p, body) : NULL;
    if (yields)
        ipu_model_yield_while(p->m, ipu__clone_of(p, p->m->blocks.at[body].go_on), yields,
                              p->m->blocks.at[body].yields.n);
    ipu__free(yields);
    end_clone(p, op);
}

void ipu__clone_block(ipu__diff *p, uint32_t block)
{
    for (size_t i = 0; i < p->m->blocks.at[block].order.n && ipu__diff_ok(p) && ipu__diff_cover(p); i++) {
        ipu__model_op        op = p->m->ops.at[p->m->blocks.at[block].order.at[i]]; /* ops move */
        const ipu__location *at = &p->m->locations.at[op.location];
        if (op.dead) continue;
        ipu_enter(at->file, at->line);
        if (op.kind == IPU__MODEL_OP)
            clone_op(p, &op);
        else if (op.kind == IPU__MODEL_IF)
            clone_if(p, &op);
        else
            clone_loop(p, &op);
        ipu_leave();
    }
}

/* ---- copies of values ---- */

typedef struct again_value {
    uint32_t copy, since; /* the copy is valid if `since` is the current stretch */
    bool     is_kept;
} again_value;

typedef struct ipu__recompute {
    ipu__diff   *p;
    again_value *values; /* by id, up to first_new */
    uint32_t     stretch;
    uint32_t     number; /* recompute number of its ops (m->recompute); 0 before the first */
    IPU__ARRAY(uint32_t) todo;
} ipu__recompute;

void ipu__recompute_begin(ipu__diff *p, const ipu_value *checkpoints, size_t n, ipu_value kept)
{
    ipu__recompute *again = ipu__alloc_zeroed(sizeof *again);
    if (again) again->values = ipu__alloc_zeroed(p->first_new * sizeof *again->values);
    if (!again || !again->values) {
        ipu__free(again);
        ipu__diff_fail_memory(p);
        return;
    }
    again->p       = p;
    again->stretch = 1;
    p->again = p->m->again = again;
    for (size_t i = 0; i < n; i++) {
        if (!ipu__builder_has(&p->m->base, "ipu_model_gradients: options.checkpoints", checkpoints[i]))
            return;
        again->values[checkpoints[i].id].is_kept = true;
    }
    again->values[kept.id].is_kept = true;
}

void ipu__recompute_end(ipu__diff *p)
{
    if (!p->again) return;
    ipu__free(p->again->values);
    ipu__array_fini(&p->again->todo);
    ipu__free(p->again);
    p->again = p->m->again = NULL;
}

void ipu__recompute_step(ipu__diff *p, const ipu__model_op *op)
{
    ipu__recompute *again = p->again;
    bool            ends  = false;
    for (uint32_t i = 0; i < op->n_out; i++)
        ends |= op->first_out + i < p->first_new && again->values[op->first_out + i].is_kept;
    if (!ends) return;
    again->stretch++;
    again->number = 0;
}

/* Whether the op that computes `id` can be repeated. */
static bool is_copied(const ipu__recompute *again, uint32_t id)
{
    const ipu__diff        *p = again->p;
    const ipu__model_value *v = &p->m->values.at[id];
    if (id == 0 || id >= p->first_new || v->kind != IPU__VALUE_OP || again->values[id].is_kept) return false;
    const ipu__model_op *op = &p->m->ops.at[v->of];
    return op->kind == IPU__MODEL_OP && !(op->def->flags & IPU__OP_IMPURE);
}

static uint32_t known(const ipu__recompute *again, uint32_t id)
{
    if (!is_copied(again, id)) return id;
    return again->values[id].since == again->stretch ? again->values[id].copy : 0;
}

static bool copy_op(ipu__recompute *again, const ipu__model_op *op)
{
    ipu__diff           *p    = again->p;
    ipu_model           *m    = p->m;
    ipu__kernel_call     call = ipu__model_call(m, op);
    uint32_t             in[IPU__MAX_OPERANDS];
    ipu_value            out[IPU__MAX_OPERANDS];
    const ipu__location *at = &m->locations.at[op->location];
    for (uint32_t i = 0; i < op->n_in; i++) in[i] = op->in[i] ? known(again, op->in[i]) : 0;
    if (!again->number) again->number = ++m->n_recomputes;
    m->recompute = again->number;
    ipu_enter(at->file, at->line);
    ipu_status status = ipu__model_add_op(m, op, in, call.operand + op->n_in, out);
    ipu_leave();
    m->recompute = 0;
    if (status != IPU_OK || !ipu__diff_cover(p)) return false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t id                       = op->first_out + i;
        again->values[id].copy            = out[i].id;
        again->values[id].since           = again->stretch;
        p->values.at[out[i].id].origin    = id;
        p->values.at[out[i].id].is_active = p->values.at[id].is_active;
        m->base.values.at[out[i].id].name = m->base.values.at[id].name;
    }
    return true;
}

/* What must be computed before the op on top of `todo`, or 0. */
static uint32_t missing(const ipu__recompute *again, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && !known(again, op->in[i])) return op->in[i];
    return 0;
}

uint32_t ipu__model_substitute(ipu_model *m, uint32_t id)
{
    ipu__recompute *again = m->again;
    if (!again || !is_copied(again, id)) return id;
    bool ok = known(again, id) || ipu__push(&again->todo, id);
    while (ok && again->todo.n > 0) {
        ipu__model_op op   = m->ops.at[m->values.at[again->todo.at[again->todo.n - 1]].of];
        uint32_t      need = missing(again, &op);
        if (need)
            ok = ipu__push(&again->todo, need);
        else if (known(again, again->todo.at[again->todo.n - 1]) || (ok = copy_op(again, &op)))
            again->todo.n--;
    }
    if (!ok) ipu__diff_fail_memory(again->p);
    return ok ? known(again, id) : id;
}
