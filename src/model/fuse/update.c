/* Updates: fuses the gradient of a linear layer's weights, if only sgd uses it, and that of its input with
 * the step of sgd into linear_sgd. The weights' gradient is then never stored, and weights are read once for
 * both.
 *
 * It runs where the input's gradient did if nothing reads the weights after that; otherwise after the last
 * reader, and without that gradient.
 */
#include <string.h>

#include "model/fuse/fuse.h"
#include "op/matmul/linear_sgd.h"

enum { PARAMETER, GRADIENT, RATE, STEP, MOMENTUM, SGD_IN }; /* inputs of sgd */

typedef struct update {
    ipu_model *m;
    uint32_t  *uses; /* by value, for those that existed before */
    size_t     n_uses;
    uint32_t   sgd, weight, input; /* ops; input: UINT32_MAX if none */
    size_t     place;              /* position in the block's order after which it runs */
} update;

static bool has_attribute(const ipu__model_op *op, const char *name)
{
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0
            && !(op->attributes[i].kind == IPU_ATTRIBUTE_INT && op->attributes[i].i == 0))
            return true;
    return false;
}

static bool is_float_matrix(const ipu_model *m, uint32_t value)
{
    const ipu__builder_value *v = &m->base.values.at[value];
    return value && v->type == IPU_FLOAT && v->shape.rank == 2;
}

/* A product of two matrices and nothing else. */
static bool is_product(const ipu_model *m, const ipu__model_op *op, bool transpose_a)
{
    return op && !op->dead && op->kind == IPU__MODEL_OP && op->def == &ipu__op_matmul
        && is_float_matrix(m, op->in[0]) && is_float_matrix(m, op->in[1])
        && has_attribute(op, "transpose_a") == transpose_a && !has_attribute(op, "transpose_b")
        && !has_attribute(op, "epilogue") && !has_attribute(op, "partials");
}

static int64_t dim(const ipu_model *m, uint32_t value, int i)
{
    return m->base.values.at[value].shape.dim[i];
}

static bool is_wanted(const ipu_model *m, const ipu__model_op *weight, const ipu__model_op *sgd)
{
    const uint32_t   in[] = {weight->in[0], weight->in[1], sgd->in[PARAMETER]};
    ipu__kernel_call call = {.def = &ipu__op_linear_sgd.kernel, .n_operands = 3};
    for (int i = 0; i < call.n_operands; i++)
        call.operand[i] = (ipu__kernel_value){m->base.values.at[in[i]].type, m->base.values.at[in[i]].shape};
    return ipu__engine_fuses(m->engine, &call);
}

static bool is_candidate(const update *u, const ipu__model_op *sgd)
{
    const ipu_model *m = u->m;
    if (sgd->dead || sgd->kind != IPU__MODEL_OP || sgd->def != &ipu__op_sgd || sgd->n_in != SGD_IN
        || sgd->block != 0 || !is_float_matrix(m, sgd->in[PARAMETER]) || sgd->in[GRADIENT] >= u->n_uses
        || u->uses[sgd->in[GRADIENT]] != 1)
        return false;
    const ipu__model_op *weight = ipu__pass_definer(u->m, sgd->in[GRADIENT]);
    if (!is_product(m, weight, true) || weight->block != 0
        || !ipu__model_same_stage(m, sgd->stage, weight->stage))
        return false;
    return dim(m, weight->in[0], 0) >= IPU__LINEAR_SGD_LEAST && is_wanted(m, weight, sgd)
        && dim(m, sgd->in[PARAMETER], 0) >= IPU__LINEAR_SGD_LEAST && dim(m, sgd->in[PARAMETER], 1) > 0;
}

/* ---- where ---- */

/* Ops that read a value, directly or through views; branches and loops count as readers of everything. */
typedef struct readers {
    const ipu_model *m;
    uint8_t         *is_same; /* by value: the one in question, or a view of it */
} readers;

static bool reads(const readers *r, const ipu__model_op *op)
{
    if (op->kind != IPU__MODEL_OP) return true;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (r->is_same[op->in[i]]) {
            if (op->def->view) r->is_same[op->first_out] = 1;
            return true;
        }
    return false;
}

/* The position after which all inputs are available and nothing but `except` reads the weights and their
 * momentum any more. */
static bool find_place(const update *u, uint32_t except, size_t *out)
{
    const ipu_model     *m   = u->m;
    const ipu__model_op *sgd = &m->ops.at[u->sgd], *weight = &m->ops.at[u->weight];
    readers              r = {m, ipu__alloc_zeroed(m->values.n + 1)};
    if (!r.is_same) return false;
    const uint32_t in[]           = {weight->in[0], weight->in[1],      sgd->in[RATE],
                                     sgd->in[STEP], sgd->in[PARAMETER], sgd->in[MOMENTUM]};
    r.is_same[sgd->in[PARAMETER]] = 1;
    r.is_same[sgd->in[MOMENTUM]]  = sgd->in[MOMENTUM] != 0;
    *out                          = 0;
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        uint32_t             id     = m->blocks.at[0].order.at[i];
        const ipu__model_op *op     = &m->ops.at[id];
        bool                 before = id != u->sgd && id != except && reads(&r, op);
        for (size_t k = 0; k < sizeof in / sizeof *in; k++)
            before |= in[k] && m->values.at[in[k]].kind == IPU__VALUE_OP && m->values.at[in[k]].of == id;
        if (before) *out = i;
    }
    ipu__free(r.is_same);
    return true;
}

/* The op that computes the gradient of the layer's input, and its position. */
static uint32_t find_input(const update *u, size_t *at)
{
    const ipu_model     *m   = u->m;
    const ipu__model_op *sgd = &m->ops.at[u->sgd], *weight = &m->ops.at[u->weight];
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        *at                     = i;
        if (is_product(m, op, false) && op->in[0] == weight->in[0] && op->in[1] == sgd->in[PARAMETER]
            && ipu__model_same_stage(m, op->stage, sgd->stage))
            return m->blocks.at[0].order.at[i];
    }
    return UINT32_MAX;
}

/* Returns false if out of memory. */
static bool choose(update *u)
{
    const ipu_model *m = u->m;
    size_t           at, place, own = 0;
    u->input = find_input(u, &at);
    if (u->input != UINT32_MAX) {
        if (!find_place(u, u->input, &place)) return false;
        u->place = at;
        if (place < at) return true;
    }
    u->input = UINT32_MAX;
    if (!find_place(u, UINT32_MAX, &place)) return false;
    while (m->blocks.at[0].order.at[own] != u->sgd) own++;
    u->place = place < own ? place : own;
    return true;
}

/* ---- rewriting ---- */

static bool add_output(update *u, uint32_t op, uint32_t at, uint32_t old, ipu__renames *renames)
{
    ipu_model         *m     = u->m;
    ipu__builder_value shown = {IPU_FLOAT, IPU_SHAPE(0), ""};
    ipu__model_value   value = {
          .kind = IPU__VALUE_OP, .of = op, .at = at, .block = 0, .location = m->ops.at[op].location};
    if (old) shown = m->base.values.at[old];
    uint32_t id = ipu__pass_add_value(m, shown, value);
    return id && (!old || ipu__rename(renames, old, id));
}

/* Inserts the op after its place and removes those it replaces. */
static bool put(update *u, uint32_t id)
{
    ipu_model *m               = u->m;
    m->ops.at[u->sgd].dead     = true;
    m->ops.at[u->weight].dead  = true;
    IPU__ARRAY(uint32_t) order = {0};
    const ipu__block *block    = &m->blocks.at[0];
    if (u->input != UINT32_MAX) m->ops.at[u->input].dead = true;
    bool ok = ipu__reserve(&order, block->order.n + 1);
    for (size_t i = 0; ok && i < block->order.n; i++) {
        if (!m->ops.at[block->order.at[i]].dead) ok = ipu__push(&order, block->order.at[i]);
        if (ok && i == u->place) ok = ipu__push(&order, id);
    }
    for (size_t i = 0; ok && i < order.n; i++) block->order.at[i] = order.at[i];
    if (ok) m->blocks.at[0].order.n = order.n;
    ipu__array_fini(&order);
    return ok;
}

static bool join(update *u)
{
    ipu_model          *m   = u->m;
    const ipu__model_op sgd = m->ops.at[u->sgd], weight = m->ops.at[u->weight];
    bool                has_input = u->input != UINT32_MAX;
    ipu__model_op       made      = sgd; /* supplies attributes, block and stage */
    uint32_t            id        = (uint32_t)m->ops.n;
    ipu__renames        renames   = {0};
    const uint32_t      in[]      = {weight.in[0], weight.in[1], sgd.in[PARAMETER],
                                     sgd.in[RATE], sgd.in[STEP], sgd.in[MOMENTUM]};
    made.def                      = &ipu__op_linear_sgd;
    made.location                 = weight.location;
    made.n_in                     = IPU__LINEAR_SGD_NEW_PARAMETER;
    made.n_out                    = IPU__LINEAR_SGD_OPERANDS - IPU__LINEAR_SGD_NEW_PARAMETER;
    made.first_out                = (uint32_t)m->values.n;
    made.in                       = ipu__arena_alloc(&m->base.arena, sizeof in);
    if (!made.in) return false;
    memcpy(made.in, in, sizeof in);
    if (has_input
        && !ipu__pass_set_attribute(
            m, &made, (ipu_attribute){.name = "input_gradient", .kind = IPU_ATTRIBUTE_INT, .i = 1}))
        return false;
    bool ok = ipu__push(&m->ops, made) && add_output(u, id, 0, sgd.first_out, &renames)
           && add_output(u, id, 1, sgd.first_out + 1, &renames)
           && add_output(u, id, 2, has_input ? m->ops.at[u->input].first_out : 0, &renames) && put(u, id);
    if (ok) ipu__renames_apply(&renames, m);
    ipu__renames_fini(&renames);
    return ok;
}

ipu_status ipu__fuse_updates(ipu_model *m, bool *changed)
{
    update   u  = {.m = m, .uses = ipu__model_count_uses(m), .n_uses = m->values.n};
    bool     ok = u.uses != NULL;
    uint32_t n  = (uint32_t)m->ops.n;
    for (u.sgd = 0; ok && u.sgd < n; u.sgd++) {
        if (!is_candidate(&u, &m->ops.at[u.sgd])) continue;
        u.weight = m->values.at[m->ops.at[u.sgd].in[GRADIENT]].of;
        ok       = choose(&u) && join(&u);
        *changed = true;
    }
    ipu__free(u.uses);
    return ok ? IPU_OK : ipu__fail_memory();
}
