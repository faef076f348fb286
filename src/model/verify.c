/* Verifies a model: everything refers to something that exists, is defined before use and visible there, and
 * has inferred types and shapes. For tests, after parsing, and after passes in debug builds.
 * requires: all blocks closed.
 */
#include <string.h>

#include "model/model.h"

typedef struct verifying {
    const ipu_model *m;
    uint8_t         *is_defined; /* by value: defined in a block being visited */
    uint8_t         *is_met;     /* by op: found in some order */
} verifying;

static ipu_status verify_block(verifying *v, uint32_t block, uint32_t owner);

static ipu_status fail_at(const verifying *v, uint32_t location, const char *what, uint32_t id)
{
    char where[512];
    return ipu__fail(IPU_INVALID, "%s%s (value %u)", ipu__model_where(v->m, location, where), what, id);
}

/* ---- values ---- */

static ipu_status verify_use(const verifying *v, uint32_t id, uint32_t location)
{
    if (id >= v->m->values.n) return fail_at(v, location, "there is no such value", id);
    if (id != 0 && !v->is_defined[id])
        return fail_at(v, location, "a value is used before it is defined, or outside of its block", id);
    return IPU_OK;
}

static ipu_status verify_decision(const verifying *v, uint32_t id, uint32_t location)
{
    IPU_TRY(verify_use(v, id, location));
    const ipu__builder_value *value = &v->m->base.values.at[id];
    if (id == 0 || (value->type == IPU_BOOL && ipu__op_n_elements(&value->shape) == 1)) return IPU_OK;
    return fail_at(v, location, "what decides must be one bool", id);
}

static ipu_status verify_same(const verifying *v, uint32_t a, uint32_t b, uint32_t location)
{
    const ipu__builder_value *x = &v->m->base.values.at[a], *y = &v->m->base.values.at[b];
    if (x->type == y->type && ipu__shape_equal(&x->shape, &y->shape)) return IPU_OK;
    return fail_at(v, location, "what a branch or loop gives differs from what goes out of it", b);
}

/* Defines a value of kind `kind`, number `at` of `of`, which must happen once. */
static ipu_status define(verifying *v, uint32_t id, ipu__value_kind kind, uint32_t of, uint32_t at,
                         uint32_t block, uint32_t location)
{
    if (id == 0 || id >= v->m->values.n) return fail_at(v, location, "there is no such value", id);
    const ipu__model_value *value = &v->m->values.at[id];
    if (v->is_defined[id]) return fail_at(v, location, "a value is defined twice", id);
    if (value->kind != kind || value->of != of || value->at != at || value->block != block)
        return fail_at(v, location, "a value does not know what defines it", id);
    v->is_defined[id] = 1;
    return IPU_OK;
}

/* ---- ops ---- */

static ipu_status verify_inference(const verifying *v, const ipu__model_op *op)
{
    ipu__kernel_call  call = ipu__model_call(v->m, op);
    ipu__kernel_value out[IPU__MAX_OPERANDS];
    int               n = ipu__op_n_out(op->def);
    if ((int)op->n_in != op->def->n_in || (int)op->n_out != n)
        return fail_at(v, op->location, "an op has another number of operands than its record",
                       op->first_out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!op->in[i] && !op->def->kernel.operands[i].optional)
            return fail_at(v, op->location, "an input that an op needs is missing", op->first_out);
    IPU_TRY(ipu__op_check_attributes(&call));
    memcpy(out, call.operand + op->n_in, (size_t)n * sizeof *out);
    call.n_operands = op->def->n_in;
    IPU_TRY(op->def->infer(&call, out));
    for (int i = 0; i < n; i++)
        if (out[i].type != call.operand[op->def->n_in + i].type
            || !ipu__shape_equal(&out[i].shape, &call.operand[op->def->n_in + i].shape))
            return fail_at(v, op->location, "an output has another type or shape than inference gives",
                           op->first_out + (uint32_t)i);
    return IPU_OK;
}

/* Checks the numbers and types of a block's inputs and results. */
static ipu_status verify_yields(const verifying *v, const ipu__model_op *op, uint32_t block)
{
    const ipu__block *b = &v->m->blocks.at[block];
    if (!b->is_closed || b->yields.n != op->n_out)
        return fail_at(v, op->location, "a block yields another number of values than go out", op->first_out);
    for (uint32_t i = 0; i < op->n_out; i++)
        IPU_TRY(verify_same(v, op->first_out + i, b->yields.at[i], op->location));
    return IPU_OK;
}

static ipu_status verify_carried(const verifying *v, const ipu__model_op *op)
{
    const ipu__block *b = &v->m->blocks.at[op->body];
    if (op->n_in != b->n_carried + 1 || op->n_out != b->n_carried)
        return fail_at(v, op->location, "a loop carries another number of values than go in and out",
                       op->first_out);
    for (uint32_t i = 0; i < b->n_carried; i++)
        IPU_TRY(verify_same(v, b->first_carried + i, op->in[i + 1], op->location));
    return IPU_OK;
}

static ipu_status verify_control(verifying *v, uint32_t id)
{
    const ipu__model_op *op      = &v->m->ops.at[id];
    bool                 is_loop = op->kind == IPU__MODEL_LOOP;
    if (op->n_in < 1 || op->body >= v->m->blocks.n || (!is_loop && op->otherwise >= v->m->blocks.n)
        || (!is_loop && !op->in[0]))
        return fail_at(v, op->location, "a branch or loop is not whole", op->first_out);
    IPU_TRY(verify_decision(v, op->in[0], op->location));
    if (is_loop) IPU_TRY(verify_carried(v, op));
    IPU_TRY(verify_block(v, op->body, id));
    IPU_TRY(verify_yields(v, op, op->body));
    if (is_loop) return IPU_OK;
    IPU_TRY(verify_block(v, op->otherwise, id));
    return verify_yields(v, op, op->otherwise);
}

static ipu_status verify_op(verifying *v, uint32_t id, uint32_t block)
{
    const ipu__model_op *op = &v->m->ops.at[id];
    if (op->block != block || v->is_met[id])
        return fail_at(v, op->location, "an op is in a block that is not its own, or twice", op->first_out);
    v->is_met[id] = 1;
    if (v->m->stages.n && op->stage.number != IPU__STAGE_ANY && op->stage.number >= v->m->stages.n)
        return fail_at(v, op->location, "an op is of a stage that does not exist", op->first_out);
    for (uint32_t i = 0; i < op->n_in; i++) IPU_TRY(verify_use(v, op->in[i], op->location));
    IPU_TRY(op->kind == IPU__MODEL_OP ? verify_inference(v, op) : verify_control(v, id));
    for (uint32_t i = 0; i < op->n_out; i++)
        IPU_TRY(define(v, op->first_out + i, IPU__VALUE_OP, id, i, block, op->location));
    return IPU_OK;
}

/* ---- blocks ---- */

static ipu_status define_inside(verifying *v, uint32_t block, const ipu__model_op *op)
{
    const ipu__block *b = &v->m->blocks.at[block];
    if (op->kind != IPU__MODEL_LOOP) return IPU_OK;
    for (uint32_t i = 0; i < b->n_carried; i++)
        IPU_TRY(define(v, b->first_carried + i, IPU__VALUE_CARRIED, block, i, block, op->location));
    IPU_TRY(define(v, b->index, IPU__VALUE_INDEX, block, 0, block, op->location));
    return IPU_OK;
}

/* What the block defined is invisible outside. */
static void forget(verifying *v, uint32_t block)
{
    const ipu__block *b = &v->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &v->m->ops.at[b->order.at[i]];
        for (uint32_t k = 0; !op->dead && k < op->n_out; k++) v->is_defined[op->first_out + k] = 0;
    }
    for (uint32_t i = 0; i < b->n_carried; i++) v->is_defined[b->first_carried + i] = 0;
    if (b->index) v->is_defined[b->index] = 0;
}

static ipu_status verify_block(verifying *v, uint32_t block, uint32_t owner)
{
    const ipu__block *b = &v->m->blocks.at[block];
    if (b->op != owner) return fail_at(v, 0, "a block does not know the op it belongs to", block);
    uint32_t location = owner == IPU__NO_BLOCK ? 0 : v->m->ops.at[owner].location;
    if (owner != IPU__NO_BLOCK) IPU_TRY(define_inside(v, block, &v->m->ops.at[owner]));
    for (size_t i = 0; i < b->order.n; i++) {
        if (b->order.at[i] >= v->m->ops.n) return fail_at(v, location, "there is no such op", b->order.at[i]);
        if (!v->m->ops.at[b->order.at[i]].dead) IPU_TRY(verify_op(v, b->order.at[i], block));
    }
    for (size_t i = 0; i < b->yields.n; i++) IPU_TRY(verify_use(v, b->yields.at[i], location));
    IPU_TRY(verify_decision(v, b->go_on, location));
    if (owner != IPU__NO_BLOCK) forget(v, block);
    return IPU_OK;
}

/* ---- entry point ---- */

/* Inputs, kept values and constants are defined from the start; constants inside blocks only there. */
static void define_givens(verifying *v)
{
    for (size_t i = 1; i < v->m->values.n; i++) {
        ipu__value_kind kind = v->m->values.at[i].kind;
        v->is_defined[i]     = kind == IPU__VALUE_INPUT || kind == IPU__VALUE_PARAMETER
                        || kind == IPU__VALUE_STATE || kind == IPU__VALUE_CONSTANT;
    }
}

static ipu_status verify(verifying *v)
{
    const ipu_model *m = v->m;
    define_givens(v);
    IPU_TRY(verify_block(v, 0, IPU__NO_BLOCK));
    for (size_t i = 0; i < m->ops.n; i++) {
        uint32_t owner = m->blocks.at[m->ops.at[i].block].op;
        if (!m->ops.at[i].dead && !v->is_met[i] && (owner == IPU__NO_BLOCK || v->is_met[owner]))
            return fail_at(v, m->ops.at[i].location, "an op is in no block", m->ops.at[i].first_out);
    }
    for (size_t i = 0; i < m->outputs.n; i++)
        IPU_TRY(verify_use(v, m->outputs.at[i].value, m->outputs.at[i].location));
    for (size_t i = 1; i < m->values.n; i++) {
        uint32_t update = m->values.at[i].update;
        IPU_TRY(verify_use(v, update, m->values.at[i].location));
        if (update) IPU_TRY(verify_same(v, (uint32_t)i, update, m->values.at[i].location));
        if (m->values.at[i].kind == IPU__VALUE_CONSTANT && !m->values.at[i].data)
            return fail_at(v, m->values.at[i].location, "a constant has no data", (uint32_t)i);
    }
    return IPU_OK;
}

ipu_status ipu__model_verify(const ipu_model *m)
{
    verifying  v      = {m, ipu__alloc_zeroed(m->values.n), ipu__alloc_zeroed(m->ops.n)};
    bool       ok     = v.is_defined && v.is_met;
    ipu_status status = ok ? IPU_OK : ipu__fail_memory();
    if (ok && m->values.n != m->base.values.n)
        status = ipu__fail(IPU_INVALID, "a model of %zu values has a table of %zu", m->values.n,
                           m->base.values.n);
    if (status == IPU_OK) status = verify(&v);
    ipu__free(v.is_defined);
    ipu__free(v.is_met);
    return status;
}
