/* Epilogues: elementwise ops that are the only user of a matmul or convolution become part of it.
 *
 * The fused op runs where the last op it absorbed ran: nothing else needs its result earlier, and all inputs
 * are available by then.
 */
#include <string.h>

#include "model/fuse/fuse.h"

typedef struct epilogues {
    ipu_model   *m;
    uint32_t    *uses;  /* by value */
    uint32_t    *user;  /* by value: the op that has all its uses + 1, or 0 */
    uint32_t    *moved; /* by op: the op that runs in its place + 1, or 0 */
    bool        *away;  /* by op: it runs elsewhere */
    ipu__renames renames;
    bool         changed;
} epilogues;

/* ---- users ---- */

static void note_users(epilogues *e)
{
    const ipu_model *m = e->m;
    for (uint32_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        for (uint32_t k = 0; !op->dead && k < op->n_in; k++) {
            uint32_t same = 0;
            for (uint32_t j = 0; j < op->n_in; j++) same += op->in[j] == op->in[k];
            if (same == e->uses[op->in[k]]) e->user[op->in[k]] = i + 1;
        }
    }
}

static bool same_shape(const ipu_model *m, uint32_t a, uint32_t b)
{
    return ipu__shape_equal(&m->base.values.at[a].shape, &m->base.values.at[b].shape);
}

/* The op that may be absorbed next: the only user of `value`. */
static ipu__model_op *next_op(epilogues *e, const ipu__model_op *op, uint32_t value)
{
    if (!e->user[value]) return NULL;
    ipu__model_op *user = &e->m->ops.at[e->user[value] - 1];
    bool           ok   = !user->dead && ipu__is_chainable(e->m, user) && user->block == op->block
           && ipu__model_same_stage(e->m, user->stage, op->stage) && same_shape(e->m, user->first_out, value);
    return ok ? user : NULL;
}

/* ---- trying ---- */

/* The first operand for epilogues. */
static int first_extra(const ipu__op_def *def)
{
    for (int i = 0; i < def->n_in; i++)
        if (strcmp(def->kernel.operands[i].name, "e0") == 0) return i;
    return def->n_in;
}

/* The result's type with this epilogue. Returns the status of its `infer`; INVALID if the op does not take
 * it. */
static ipu_status would_give(const epilogues *e, const ipu__model_op *op, const ipu__chain_text *c,
                             ipu__kernel_value *out)
{
    ipu__model_op with = *op;
    uint32_t      in[IPU__MAX_OPERANDS];
    ipu_attribute attributes[IPU__MAX_OPERANDS];
    int           at = first_extra(op->def);
    if (c->n_in - 1 > op->def->n_in - at || op->n_attributes + 1 > IPU__MAX_OPERANDS) return IPU_INVALID;
    memcpy(in, op->in, op->n_in * sizeof *in);
    for (int i = 1; i < c->n_in; i++) in[at + i - 1] = c->in[i];
    if (op->n_attributes) memcpy(attributes, op->attributes, op->n_attributes * sizeof *attributes);
    attributes[op->n_attributes] = IPU_TEXT_ATTRIBUTE("epilogue", c->out.at);
    with.in                      = in;
    with.attributes              = attributes;
    with.n_attributes            = op->n_attributes + 1;
    ipu__kernel_call call        = ipu__model_call(e->m, &with);
    call.n_operands              = op->def->n_in;
    return op->def->infer(&call, out);
}

/* Writes the absorbed ops, in order, as a chain whose first operand is the result of `op` alone. */
static bool write_chain(const epilogues *e, const ipu__model_op *op, const uint32_t *taken, int n,
                        ipu__chain_text *c)
{
    bool ok = ipu__chain_operand(c, op->first_out);
    for (int i = 0; i < n; i++) ok = ok && ipu__chain_step(c, &e->m->ops.at[taken[i]]);
    if (ok) ipu__chain_results(c, &e->m->ops.at[taken[n - 1]].first_out, 1);
    return ok && !c->out.failed;
}

/* *ok: whether the op can absorb the first `n`, with the last one's result unchanged. */
static ipu_status takes(const epilogues *e, const ipu__model_op *op, const uint32_t *taken, int n, bool *ok)
{
    ipu__chain_text           c                        = {0};
    ipu__kernel_value         gives[IPU__MAX_OPERANDS] = {{0}};
    const ipu__builder_value *last   = &e->m->base.values.at[e->m->ops.at[taken[n - 1]].first_out];
    ipu_status                status = IPU_INVALID;
    if (write_chain(e, op, taken, n, &c)) status = would_give(e, op, &c, gives);
    if (c.out.failed) status = IPU_OUT_OF_MEMORY;
    ipu__chain_text_fini(&c);
    *ok = status == IPU_OK && gives[0].type == last->type && ipu__shape_equal(&gives[0].shape, &last->shape);
    return status == IPU_OUT_OF_MEMORY ? ipu__fail_memory() : IPU_OK;
}

/* ---- rewriting ---- */

static ipu_status set_epilogue(epilogues *e, uint32_t id, const uint32_t *taken, int n)
{
    ipu_model      *m    = e->m;
    ipu__model_op  *op   = &m->ops.at[id];
    ipu__chain_text c    = {0};
    uint32_t        last = m->ops.at[taken[n - 1]].first_out;
    bool            ok   = write_chain(e, op, taken, n, &c)
           && ipu__pass_set_attribute(m, op, IPU_TEXT_ATTRIBUTE("epilogue", c.out.at))
           && ipu__rename(&e->renames, last, op->first_out);
    for (int i = 1; ok && i < c.n_in; i++) op->in[first_extra(op->def) + i - 1] = c.in[i];
    ipu__chain_text_fini(&c);
    if (!ok) return ipu__fail_memory();
    m->base.values.at[op->first_out] = m->base.values.at[last];
    for (int i = 0; i < n; i++) m->ops.at[taken[i]].dead = true;
    e->moved[taken[n - 1]] = id + 1;
    e->away[id]            = true;
    e->changed             = true;
    return IPU_OK;
}

static bool wants_epilogue(const ipu__model_op *op)
{
    if (op->dead || op->kind != IPU__MODEL_OP || !(op->def->flags & IPU__OP_EPILOGUE)) return false;
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, "epilogue") == 0) return false;
    return op->n_in == (uint32_t)op->def->n_in;
}

/* Ops used only by `next`, which is to be absorbed, besides `value`: a mask, or the slope of an activation.
 * They are computed along with it. Returns their number. */
static int side_ops(epilogues *e, const ipu__model_op *next, uint32_t value, uint32_t out[IPU__MAX_OPERANDS])
{
    int n = 0;
    for (uint32_t i = 0; i < next->n_in; i++) {
        const ipu__model_value *v = &e->m->values.at[next->in[i]];
        if (next->in[i] == value || v->kind != IPU__VALUE_OP) continue;
        ipu__model_op *side = &e->m->ops.at[v->of];
        if (next_op(e, side, next->in[i]) != next || !ipu__is_chainable(e->m, side)) continue;
        if (side->dead || e->moved[v->of] || (n && out[n - 1] == v->of)) continue;
        ipu__rename_inputs(&e->renames, side);
        out[n++] = v->of;
    }
    return n;
}

/* Adds one more op to *n, with its side ops if possible; *n is unchanged if there is none. */
static ipu_status take_next(epilogues *e, const ipu__model_op *op, uint32_t *taken, int *n)
{
    uint32_t       value = *n ? e->m->ops.at[taken[*n - 1]].first_out : op->first_out;
    uint32_t       side[IPU__MAX_OPERANDS];
    ipu__model_op *next = next_op(e, op, value);
    bool           ok   = false;
    if (!next) return IPU_OK;
    ipu__rename_inputs(&e->renames, next);
    for (int n_side = side_ops(e, next, value, side); n_side >= 0 && !ok; n_side = n_side > 0 ? 0 : -1) {
        if (*n + n_side >= IPU__CHAIN_MAX_STEPS) continue;
        memcpy(taken + *n, side, (size_t)n_side * sizeof *side);
        taken[*n + n_side] = (uint32_t)(next - e->m->ops.at);
        IPU_TRY(takes(e, op, taken, *n + n_side + 1, &ok));
        if (ok) *n += n_side + 1;
    }
    return IPU_OK;
}

static ipu_status fuse_op(epilogues *e, uint32_t id)
{
    uint32_t             taken[IPU__CHAIN_MAX_STEPS];
    int                  n = 0, before = -1;
    const ipu__model_op *op = &e->m->ops.at[id];
    while (n > before) {
        before = n;
        IPU_TRY(take_next(e, op, taken, &n));
    }
    return n ? set_epilogue(e, id, taken, n) : IPU_OK;
}

/* ---- the pass ---- */

/* Removes absorbed ops, and puts those that absorbed them in the place of the last. */
static void put_in_order(const epilogues *e, ipu__block *block)
{
    size_t kept = 0;
    for (size_t i = 0; i < block->order.n; i++) {
        uint32_t id = block->order.at[i];
        if (e->moved[id])
            block->order.at[kept++] = e->moved[id] - 1;
        else if (!e->m->ops.at[id].dead && !e->away[id])
            block->order.at[kept++] = id;
    }
    block->order.n = kept;
}

static ipu_status fuse_all(epilogues *e)
{
    ipu_model *m = e->m;
    note_users(e);
    for (size_t b = 0; b < m->blocks.n; b++) {
        for (size_t i = 0; i < m->blocks.at[b].order.n; i++) {
            uint32_t id = m->blocks.at[b].order.at[i];
            if (!wants_epilogue(&m->ops.at[id])) continue;
            ipu__rename_inputs(&e->renames, &m->ops.at[id]);
            IPU_TRY(fuse_op(e, id));
        }
        put_in_order(e, &m->blocks.at[b]);
    }
    ipu__renames_apply(&e->renames, m);
    return IPU_OK;
}

ipu_status ipu__fuse_epilogues(ipu_model *m, bool *changed)
{
    epilogues  e      = {.m     = m,
                         .uses  = ipu__model_count_uses(m),
                         .user  = ipu__alloc_zeroed(m->values.n * sizeof *e.user),
                         .moved = ipu__alloc_zeroed(m->ops.n * sizeof *e.moved),
                         .away  = ipu__alloc_zeroed(m->ops.n * sizeof *e.away)};
    ipu_status status = e.uses && e.user && e.moved && e.away ? fuse_all(&e) : ipu__fail_memory();
    *changed          = e.changed;
    ipu__renames_fini(&e.renames);
    ipu__free(e.uses);
    ipu__free(e.user);
    ipu__free(e.moved);
    ipu__free(e.away);
    return status;
}
