/* Converts networks of floats to networks of halves.
 *
 * Ops are visited in the order they run, and the types of values change on the way: inputs an op wants in
 * another type are cast, and outputs have inferred types. An op that follows its inputs is in half if they
 * are; weights and constants have no say in it, so that a bias is added in half to a convolution's result.
 */
#include "model/precision/precision.h"

#include <math.h>
#include <string.h>

#include "model/pass/pass.h"

bool ipu__is_exact_in_half(const ipu__op_def *op) { return (op->flags & IPU__OP_EXACT_IN_HALF) || op->view; }

/* ---- new ops ---- */

uint32_t ipu__precision_add_op(ipu_model *m, ipu__order *order, const ipu__model_op *like,
                               const ipu__op_def *def, const ipu_attribute *attributes, size_t n,
                               const uint32_t *in, const ipu__kernel_value *out, uint32_t n_out)
{
    ipu__model_op    made = *like;
    ipu__kernel_call call = {.attributes = attributes, .n_attributes = n};
    uint32_t         id   = (uint32_t)m->ops.n;
    if (ipu__builder_keep_attributes(&m->base, &call) != IPU_OK) return 0;
    made.kind         = IPU__MODEL_OP;
    made.def          = def;
    made.attributes   = call.attributes;
    made.n_attributes = n;
    made.n_in         = (uint32_t)def->n_in;
    made.n_out        = n_out;
    made.body = made.otherwise = IPU__NO_BLOCK;
    made.first_out             = (uint32_t)m->values.n;
    made.in                    = ipu__arena_copy(&m->base.arena, in, made.n_in * sizeof *in);
    if (!made.in || !ipu__push(&m->ops, made) || !ipu__push(order, id)) return 0;
    for (uint32_t i = 0; i < n_out; i++) {
        ipu__model_value v = {
            .kind = IPU__VALUE_OP, .of = id, .at = i, .block = made.block, .location = made.location};
        if (!ipu__pass_add_value(m, (ipu__builder_value){out[i].type, out[i].shape, ""}, v)) return 0;
    }
    return made.first_out;
}

uint32_t ipu__precision_add_cast(ipu_model *m, ipu__order *order, const ipu__model_op *like, uint32_t id,
                                 ipu_type type)
{
    return ipu__precision_add_op(m, order, like, &ipu__op_cast,
                                 IPU__WITH(IPU_TEXT_ATTRIBUTE("to", ipu_type_name(type))), &id,
                                 &(ipu__kernel_value){type, m->base.values.at[id].shape}, 1);
}

void ipu__precision_set_order(ipu_model *m, uint32_t block, ipu__order *order)
{
    ipu__block *b = &m->blocks.at[block];
    ipu__free(b->order.at);
    b->order.at       = order->at;
    b->order.n        = order->n;
    b->order.capacity = order->capacity;
    *order            = (ipu__order){0};
}

/* ---- the pass ---- */

typedef struct halved {
    ipu_type original;
    bool     is_weak; /* weights, constants, and anything computed from them alone */
    bool     fits;    /* a constant within half's range */
    /* Its last cast, and where that can be used. */
    uint32_t   cast, cast_block, cast_recompute;
    ipu__stage cast_stage;
    ipu_type   cast_type;
} halved;

typedef struct halving {
    ipu_model *m;
    halved    *values; /* those that existed when the pass began */
    size_t     n_values;
} halving;

static ipu_type type_of(const halving *h, uint32_t id) { return h->m->base.values.at[id].type; }

static bool is_wide(ipu_type type) { return type == IPU_DOUBLE || type == IPU_BFLOAT16; }

static ipu_status halve_block(halving *h, uint32_t block);

/* The value as `type`: itself, or a cast. 0 if out of memory. */
static uint32_t as_type(halving *h, ipu__order *order, const ipu__model_op *like, uint32_t id, ipu_type type)
{
    halved *v = &h->values[id];
    if (type_of(h, id) == type) return id;
    bool is_near = v->cast_block == like->block && v->cast_recompute == like->recompute
                && ipu__model_same_stage(h->m, v->cast_stage, like->stage);
    if (v->cast && v->cast_type == type && is_near) return v->cast;
    uint32_t cast     = ipu__precision_add_cast(h->m, order, like, id, type);
    v->cast           = cast;
    v->cast_type      = type;
    v->cast_block     = like->block;
    v->cast_recompute = like->recompute;
    v->cast_stage     = like->stage;
    return cast;
}

/* ---- the types an op wants ---- */

typedef enum wish { AS_IT_IS, HALVES, ORIGINALS } wish;

static wish wish_of(const halving *h, const ipu__model_op *op)
{
    int  n = 0, n_strong_floats = 0, n_halves = 0;
    bool is_other = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        ipu_type type = type_of(h, op->in[i]);
        if (!op->in[i] || !ipu__op_is_floating(type)) continue;
        bool is_strong = !h->values[op->in[i]].is_weak;
        n++;
        n_halves += type == IPU_HALF;
        n_strong_floats += is_strong && type == IPU_FLOAT;
        is_other |= is_wide(h->values[op->in[i]].original);
    }
    if (n == 0 || op->def == &ipu__op_cast || op->def == &ipu__op_cast_stochastic) return AS_IT_IS;
    if (is_other) return ORIGINALS;
    if (op->def->flags & IPU__OP_SHORT_IN_HALF) return ORIGINALS;
    if (op->def->flags & IPU__OP_GAINS_IN_HALF) return HALVES;
    if (n_halves == 0) return AS_IT_IS;
    if (n_strong_floats > 0) return ORIGINALS;
    return HALVES;
}

/* The type of input `i` for an op in half. States keep their type if possible: running means are float even
 * for half inputs. */
static ipu_type wanted_type(const halving *h, const ipu__model_op *op, uint32_t i, wish w, bool with_states)
{
    uint32_t id = op->in[i];
    if (w == AS_IT_IS) return type_of(h, id);
    if (w == ORIGINALS) return h->values[id].original;
    bool is_state = h->m->values.at[id].kind == IPU__VALUE_STATE;
    return type_of(h, id) == IPU_FLOAT && (with_states || !is_state) ? IPU_HALF : type_of(h, id);
}

/* Infers the op's output types and shapes; returns false if it does not accept such inputs. */
static bool infer(const halving *h, const ipu__model_op *op, wish w, bool with_states, ipu__kernel_value *out)
{
    ipu__kernel_call call = ipu__model_call(h->m, op);
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!op->in[i]) continue;
        call.operand[i].type = wanted_type(h, op, i, w, with_states);
        if (call.operand[i].type == IPU_HALF && !h->values[op->in[i]].fits) return false;
    }
    memcpy(out, call.operand + op->n_in, op->n_out * sizeof *out);
    call.n_operands = op->def->n_in;
    return op->def->infer(&call, out) == IPU_OK;
}

static void note_weak(halving *h, const ipu__model_op *op)
{
    bool is_weak = op->def != &ipu__op_cast;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && ipu__op_is_floating(type_of(h, op->in[i]))) is_weak &= h->values[op->in[i]].is_weak;
    for (uint32_t i = 0; i < op->n_out; i++) h->values[op->first_out + i].is_weak = is_weak;
}

static ipu_status halve_op(halving *h, uint32_t id, ipu__order *order)
{
    ipu__model_op     op = h->m->ops.at[id]; /* a copy: ops move when casts are added */
    ipu__kernel_value out[IPU__MAX_OPERANDS];
    bool              with_states = false;
    wish              w           = wish_of(h, &op);
    if (w == HALVES && !infer(h, &op, w, false, out)) {
        with_states = infer(h, &op, w, true, out);
        if (!with_states) w = ORIGINALS;
    }
    if (w == AS_IT_IS && !infer(h, &op, w, false, out)) w = ORIGINALS;
    if (w == ORIGINALS && !infer(h, &op, w, false, out))
        return ipu__fail(IPU_INVALID, "op %s does not take what it was built with", op.def->kernel.name);
    for (uint32_t i = 0; i < op.n_in; i++) {
        if (!op.in[i]) continue;
        op.in[i] = as_type(h, order, &op, op.in[i], wanted_type(h, &op, i, w, with_states));
        if (!op.in[i]) return ipu__fail_memory();
    }
    for (uint32_t i = 0; i < op.n_out; i++) h->m->base.values.at[op.first_out + i].type = out[i].type;
    return ipu__push(order, id) ? IPU_OK : ipu__fail_memory();
}

/* ---- branches and loops: their inputs and outputs keep their types ---- */

static ipu_status halve_yields(halving *h, uint32_t block, ipu__order *order)
{
    ipu__model_op like = h->m->ops.at[h->m->blocks.at[block].op];
    like.block         = block;
    for (size_t i = 0; i < h->m->blocks.at[block].yields.n; i++) {
        uint32_t id = h->m->blocks.at[block].yields.at[i];
        id          = as_type(h, order, &like, id, h->values[id].original);
        if (!id) return ipu__fail_memory();
        h->m->blocks.at[block].yields.at[i] = id;
    }
    return IPU_OK;
}

static ipu_status halve_control(halving *h, uint32_t id, ipu__order *order)
{
    ipu__model_op op = h->m->ops.at[id];
    for (uint32_t i = 1; i < op.n_in; i++) {
        op.in[i] = as_type(h, order, &op, op.in[i], h->values[op.in[i]].original);
        if (!op.in[i]) return ipu__fail_memory();
    }
    IPU_TRY(halve_block(h, op.body));
    if (op.kind == IPU__MODEL_IF) IPU_TRY(halve_block(h, op.otherwise));
    return ipu__push(order, id) ? IPU_OK : ipu__fail_memory();
}

static ipu_status halve_ops(halving *h, uint32_t block, ipu__order *order)
{
    for (size_t i = 0; i < h->m->blocks.at[block].order.n; i++) {
        uint32_t             id = h->m->blocks.at[block].order.at[i];
        const ipu__model_op *op = &h->m->ops.at[id];
        if (op->dead) continue;
        bool is_op = op->kind == IPU__MODEL_OP;
        if (is_op) note_weak(h, op);
        IPU_TRY(is_op ? halve_op(h, id, order) : halve_control(h, id, order));
    }
    return block == 0 ? IPU_OK : halve_yields(h, block, order);
}

/* ---- outputs and kept values ---- */

static ipu_status restore(halving *h, ipu__order *order, uint32_t *id)
{
    ipu__model_op like = {.block = 0, .stage = {IPU__STAGE_ANY, false}};
    if (*id >= h->n_values) return IPU_OK; /* restored already */
    uint32_t value = as_type(h, order, &like, *id, h->values[*id].original);
    if (!value) return ipu__fail_memory();
    *id = value;
    return IPU_OK;
}

static ipu_status restore_ends(halving *h, ipu__order *order)
{
    ipu_model *m = h->m;
    for (size_t i = 0; i < m->outputs.n; i++) IPU_TRY(restore(h, order, &m->outputs.at[i].value));
    for (size_t i = 0; i < m->losses.n; i++) IPU_TRY(restore(h, order, &m->losses.at[i]));
    for (size_t i = 0; i < m->states.n; i++) {
        uint32_t update = m->values.at[m->states.at[i]].update;
        if (update) IPU_TRY(restore(h, order, &update));
        m->values.at[m->states.at[i]].update = update;
    }
    return IPU_OK;
}

static ipu_status halve_block(halving *h, uint32_t block)
{
    ipu__order order  = {0};
    ipu_status status = halve_ops(h, block, &order);
    if (status == IPU_OK && block == 0) status = restore_ends(h, &order);
    if (status == IPU_OK) ipu__precision_set_order(h->m, block, &order);
    ipu__array_fini(&order);
    return status;
}

/* ---- entry point ---- */

static bool fits_in_half(const ipu_model *m, uint32_t id)
{
    const ipu__model_value *v = &m->values.at[id];
    if (v->kind != IPU__VALUE_CONSTANT || m->base.values.at[id].type != IPU_FLOAT) return true;
    int64_t      n = ipu__op_n_elements(&m->base.values.at[id].shape);
    const float *x = v->data;
    for (int64_t i = 0; i < n; i++) {
        float y = ipu_half_to_float(ipu_half_from_float(x[i]));
        if ((isfinite(x[i]) && !isfinite(y)) || (x[i] != 0 && y == 0)) return false;
    }
    return true;
}

static ipu_status halve_weight(ipu_model *m, uint32_t id)
{
    ipu__builder_value *shown = &m->base.values.at[id];
    ipu__model_value   *v     = &m->values.at[id];
    if (shown->type != IPU_FLOAT) return IPU_OK;
    shown->type = IPU_HALF;
    if (!v->data) return IPU_OK; /* initialised in the new type */
    size_t    n   = (size_t)ipu__op_n_elements(&shown->shape);
    ipu_half *own = ipu__arena_alloc(&m->base.arena, (n + 1) * sizeof *own);
    if (!own) return ipu__fail_memory();
    ipu_half_from_floats(v->data, own, n);
    v->data = own;
    return IPU_OK;
}

ipu_status ipu__model_to_half(ipu_model *m, bool weights)
{
    halving h = {
        .m = m, .values = ipu__alloc_zeroed(m->values.n * sizeof *h.values), .n_values = m->values.n};
    if (!h.values) return ipu__fail_memory();
    for (uint32_t i = 0; i < h.n_values; i++) {
        ipu__value_kind kind = m->values.at[i].kind;
        h.values[i].original = m->base.values.at[i].type;
        h.values[i].is_weak  = kind == IPU__VALUE_PARAMETER || kind == IPU__VALUE_CONSTANT
                           || kind == IPU__VALUE_STATE;
        h.values[i].fits = fits_in_half(m, i);
    }
    ipu_status status = IPU_OK;
    for (size_t i = 0; weights && status == IPU_OK && i < m->parameters.n; i++)
        status = halve_weight(m, m->parameters.at[i]);
    if (status == IPU_OK) status = halve_block(&h, 0);
    ipu__free(h.values);
#ifndef NDEBUG
    if (status == IPU_OK) {
        status = ipu__model_verify(m);
        IPU__ASSERT(status != IPU_INVALID);
    }
#endif
    return status;
}

ipu_status ipu__model_half_partials(ipu_model *m)
{
    for (size_t i = 0; i < m->ops.n; i++) {
        ipu__model_op *op  = &m->ops.at[i];
        bool           has = false;
        if (op->dead || op->kind != IPU__MODEL_OP || op->n_in == 0) continue;
        if (m->base.values.at[op->in[0]].type != IPU_HALF) continue;
        for (size_t k = 0; k < op->def->n_attributes; k++)
            has |= strcmp(op->def->attributes[k].name, "partials") == 0;
        if (has && !ipu__pass_set_attribute(m, op, IPU_TEXT_ATTRIBUTE("partials", "half")))
            return ipu__fail_memory();
    }
    return IPU_OK;
}
