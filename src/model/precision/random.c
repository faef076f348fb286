/* Stochastic rounding: turns ops in half into ops in float whose results are rounded stochastically.
 *
 * The op's former result becomes that of the cast, so that its users stay as they are. Casts have keys, which
 * are copied when an op is recomputed, so that it is rounded identically.
 */
#include <string.h>

#include "model/pass/pass.h"
#include "model/precision/precision.h"

typedef struct rounding {
    ipu_model *m;
    ipu__order order;
    uint32_t  *wide; /* by value: the op that last widened it + 1, or 0 */
    size_t     n_values;
    uint32_t   seed;
} rounding;

static ipu_type type_of(const rounding *r, uint32_t id) { return r->m->base.values.at[id].type; }

/* Whether the op rounds its results to half. */
static bool rounds(const rounding *r, const ipu__model_op *op)
{
    bool takes = false, gives = false;
    for (uint32_t i = 0; i < op->n_in; i++) takes |= op->in[i] && type_of(r, op->in[i]) == IPU_HALF;
    for (uint32_t i = 0; i < op->n_out; i++) gives |= type_of(r, op->first_out + i) == IPU_HALF;
    return takes && gives && !ipu__is_exact_in_half(op->def);
}

static bool is_narrowing(const rounding *r, const ipu__model_op *op)
{
    return op->def == &ipu__op_cast && type_of(r, op->first_out) == IPU_HALF
        && type_of(r, op->in[0]) == IPU_FLOAT && r->m->values.at[op->in[0]].kind != IPU__VALUE_CONSTANT;
}

/* ---- one op ---- */

/* Makes existing value `id` the result of the new op that gave `first`, its only one. */
static void take_over(rounding *r, uint32_t id, uint32_t first)
{
    ipu_model     *m    = r->m;
    ipu__model_op *op   = &m->ops.at[m->values.at[first].of];
    op->first_out       = id;
    m->values.at[id].of = m->values.at[first].of;
    m->values.at[id].at = 0;
}

static ipu_status narrow(rounding *r, const ipu__model_op *like, uint32_t from, uint32_t id)
{
    ipu_model        *m    = r->m;
    uint32_t          in[] = {from, r->seed, 0};
    ipu__kernel_value out  = {IPU_HALF, m->base.values.at[id].shape};
    ipu_attribute     key  = IPU_INT_ATTRIBUTE("key", (int64_t)m->base.next_key);
    uint32_t first = ipu__precision_add_op(m, &r->order, like, &ipu__op_cast_stochastic, &key, 1, in, &out,
                                           1);
    if (!first) return ipu__fail_memory();
    m->base.next_key++;
    take_over(r, id, first);
    return IPU_OK;
}

static uint32_t widen(rounding *r, const ipu__model_op *like, uint32_t id)
{
    if (!id || type_of(r, id) != IPU_HALF) return id;
    bool                 is_old = id < r->n_values;
    const ipu__model_op *last   = is_old && r->wide[id] ? &r->m->ops.at[r->wide[id] - 1] : NULL;
    if (last && last->block == like->block && last->recompute == like->recompute
        && ipu__model_same_stage(r->m, last->stage, like->stage))
        return last->first_out;
    uint32_t wide = ipu__precision_add_cast(r->m, &r->order, like, id, IPU_FLOAT);
    if (wide && is_old) r->wide[id] = r->m->values.at[wide].of + 1;
    return wide;
}

/* The op's results on floats; returns false if it does not accept any. */
static bool infer(const rounding *r, const ipu__model_op *op, ipu__kernel_value *out)
{
    ipu__kernel_call call = ipu__model_call(r->m, op);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && call.operand[i].type == IPU_HALF) call.operand[i].type = IPU_FLOAT;
    memcpy(out, call.operand + op->n_in, op->n_out * sizeof *out);
    call.n_operands = op->def->n_in;
    return op->def->infer(&call, out) == IPU_OK;
}

/* Replaces the op's results by those on floats: halves rounded, others unchanged. */
static ipu_status round_op(rounding *r, uint32_t id)
{
    ipu_model        *m    = r->m;
    ipu__model_op     like = m->ops.at[id];
    ipu__kernel_value out[IPU__MAX_OPERANDS];
    uint32_t          in[IPU__MAX_OPERANDS];
    if (!infer(r, &like, out)) return ipu__push(&r->order, id) ? IPU_OK : ipu__fail_memory();
    for (uint32_t i = 0; i < like.n_in; i++) {
        in[i] = widen(r, &like, like.in[i]);
        if (like.in[i] && !in[i]) return ipu__fail_memory();
    }
    uint32_t first = ipu__precision_add_op(m, &r->order, &like, like.def, like.attributes, like.n_attributes,
                                           in, out, like.n_out);
    if (!first) return ipu__fail_memory();
    m->ops.at[id].dead = true;
    for (uint32_t i = 0; i < like.n_out; i++) {
        uint32_t          old  = like.first_out + i;
        ipu__kernel_value same = {type_of(r, old), m->base.values.at[old].shape};
        if (same.type == IPU_HALF && out[i].type == IPU_FLOAT) {
            IPU_TRY(narrow(r, &like, first + i, old));
            continue;
        }
        uint32_t copy = ipu__precision_add_op(m, &r->order, &like, &ipu__op_identity, NULL, 0,
                                              &(uint32_t){first + i}, &same, 1);
        if (!copy) return ipu__fail_memory();
        take_over(r, old, copy);
    }
    return IPU_OK;
}

static ipu_status round_block(rounding *r, uint32_t block)
{
    ipu_model *m = r->m;
    r->order     = (ipu__order){0};
    for (size_t i = 0; i < m->blocks.at[block].order.n; i++) {
        uint32_t      id = m->blocks.at[block].order.at[i];
        ipu__model_op op = m->ops.at[id];
        if (op.dead) continue;
        bool is_op = op.kind == IPU__MODEL_OP;
        if (is_op && is_narrowing(r, &op)) {
            m->ops.at[id].dead = true;
            IPU_TRY(narrow(r, &op, op.in[0], op.first_out));
        } else if (is_op && rounds(r, &op)) {
            IPU_TRY(round_op(r, id));
        } else if (!ipu__push(&r->order, id)) {
            return ipu__fail_memory();
        }
    }
    ipu__precision_set_order(m, block, &r->order);
    return IPU_OK;
}

/* ---- entry point ---- */

static bool has_halves(const ipu_model *m)
{
    for (size_t i = 1; i < m->values.n; i++)
        if (m->base.values.at[i].type == IPU_HALF) return true;
    return false;
}

ipu_status ipu__model_round_at_random(ipu_model *m)
{
    if (!has_halves(m)) return IPU_OK;
    rounding r = {.m = m, .seed = ipu_model_seed(m).id};
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    r.n_values        = m->values.n;
    r.wide            = ipu__alloc_zeroed(r.n_values * sizeof *r.wide);
    ipu_status status = r.wide ? IPU_OK : ipu__fail_memory();
    for (uint32_t b = 0; status == IPU_OK && b < m->blocks.n; b++) status = round_block(&r, b);
    ipu__array_fini(&r.order);
    ipu__free(r.wide);
#ifndef NDEBUG
    if (status == IPU_OK) {
        status = ipu__model_verify(m);
        IPU__ASSERT(status != IPU_INVALID);
    }
#endif
    return status;
}
