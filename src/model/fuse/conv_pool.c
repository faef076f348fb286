/* Fuses a convolution, relu and max_pool into conv_max_pool, so that the convolution's full result never
 * exists; and what is left of their gradients, pool_scatter, conv_weight_grad and the sum for the bias, into
 * one op on pooled values.
 *
 * The mask of relu is then part of the indices: windows without a positive element have none. If the
 * scattered gradient has other users, only the bias's sum moves before the scatter, which changes no sum over
 * planes.
 */
#include <string.h>

#include "model/fuse/fuse.h"

enum { MOST_WITH = 10 };

/* A scatter of masked gradients; NO_OP if there is none. */
#define NO_OP UINT32_MAX
typedef struct backward {
    uint32_t scatter, where, weights, bias,
        cast;   /* ops; bias: the sum for it, taken of `cast` if that is of half */
    bool alone; /* the scatter has no other user */
} backward;

static bool same_shape(const ipu_model *m, uint32_t a, uint32_t b)
{
    return ipu__shape_equal(&m->base.values.at[a].shape, &m->base.values.at[b].shape);
}

/* ---- forward ---- */

static bool are_all(const ipu__kernel_call *call, const char *name, int64_t value)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    for (size_t i = 0; i < n; i++)
        if (list[i] != value) return false;
    return true;
}

/* Adjacent windows without padding. */
static bool has_plain_windows(const ipu__kernel_call *call)
{
    size_t         n, n_strides;
    const int64_t *kernel  = ipu__op_ints(call, "kernel", &n);
    const int64_t *strides = ipu__op_ints(call, "strides", &n_strides);
    for (size_t i = 0; i < n_strides; i++)
        if (strides[i] != kernel[i]) return false;
    return are_all(call, "pads", 0) && are_all(call, "dilations", 1) && ipu__op_int(call, "ceil_mode") == 0;
}

/* The convolution before a pool, if its result has no other user; *relu is the one between, or NULL. */
static ipu__model_op *conv_before(ipu_model *m, const ipu__model_op *pool, const uint32_t *uses,
                                  ipu__model_op **relu)
{
    ipu__model_op *op = ipu__pass_definer(m, pool->in[0]);
    *relu             = NULL;
    if (ipu__is_op(op, "relu") && uses[op->first_out] == 1) {
        *relu = op;
        op    = ipu__pass_definer(m, op->in[0]);
    }
    if (!ipu__is_op(op, "conv") || uses[op->first_out] != 1 || !ipu__is_together(m, op, pool)) return NULL;
    ipu__kernel_call call = ipu__model_call(m, op);
    if (ipu__attribute_find(&call, "epilogue") || call.operand[0].type == IPU_DOUBLE) return NULL;
    return !*relu || ipu__is_together(m, *relu, pool) ? op : NULL;
}

/* Turns the pool into the fused op. */
static ipu_status fuse_forward(ipu_model *m, uint32_t id, ipu__model_op *conv, ipu__model_op *relu)
{
    ipu__model_op   *pool   = &m->ops.at[id];
    ipu__kernel_call before = ipu__model_call(m, conv), windows = ipu__model_call(m, pool);
    ipu_attribute    with[MOST_WITH];
    uint32_t        *in = ipu__arena_alloc(&m->base.arena, 3 * sizeof *in);
    size_t           n  = 0;
    if (!in) return ipu__fail_memory();
    for (size_t i = 0; i < before.n_attributes && n < MOST_WITH - 2; i++) with[n++] = before.attributes[i];
    with[n]               = *ipu__attribute_find(&windows, "kernel");
    with[n++].name        = "window";
    with[n++]             = IPU_INT_ATTRIBUTE("relu", relu != NULL);
    ipu__kernel_call call = {.def = &ipu__op_conv_max_pool.kernel, .attributes = with, .n_attributes = n};
    IPU_TRY(ipu__builder_keep_attributes(&m->base, &call));
    memcpy(in, conv->in, 3 * sizeof *in);
    pool->def          = &ipu__op_conv_max_pool;
    pool->attributes   = call.attributes;
    pool->n_attributes = call.n_attributes;
    pool->in           = in;
    pool->n_in         = 3;
    conv->dead         = true;
    if (relu) relu->dead = true;
    return IPU_OK;
}

/* ---- backward ---- */

/* Whether it sums up each whole plane; *per_channel: also over all images, keeping no dimension. */
static bool sums_planes(const ipu_model *m, const ipu__model_op *op, bool *per_channel)
{
    bool mask[IPU_MAX_RANK] = {false};
    if (!ipu__is_op(op, "reduce_sum")) return false;
    ipu__kernel_call call = ipu__model_call(m, op);
    int              rank = call.operand[0].shape.rank;
    if (ipu__op_axes(&call, "axes", rank, mask) != IPU_OK) return false;
    for (int d = 2; d < rank; d++)
        if (!mask[d]) return false;
    *per_channel = mask[0] && !mask[1] && ipu__op_int(&call, "keep_dims") == 0;
    return true;
}

/* Finds the only user of the indices, if it scatters what the relu of `pool` masks. */
static bool find_scatter(ipu_model *m, const ipu__model_op *pool, const uint32_t *uses, backward *out)
{
    *out = (backward){NO_OP, NO_OP, NO_OP, NO_OP, NO_OP, true};
    for (uint32_t i = 0; i < m->ops.n; i++)
        if (ipu__is_op(&m->ops.at[i], "pool_scatter") && m->ops.at[i].in[1] == pool->first_out + 1)
            out->scatter = i;
    if (out->scatter == NO_OP || uses[pool->first_out + 1] != 1) return false;
    const ipu__model_op *scatter = &m->ops.at[out->scatter], *where = ipu__pass_definer(m, scatter->in[0]);
    if (!ipu__is_op(where, "where") || !ipu__is_zero(m, where->in[2]) || !ipu__is_together(m, where, scatter))
        return false;
    const ipu__model_op *greater = ipu__pass_definer(m, where->in[0]);
    out->where                   = (uint32_t)(where - m->ops.at);
    return ipu__is_op(greater, "greater") && greater->in[0] == pool->first_out
        && ipu__is_zero(m, greater->in[1]) && same_shape(m, where->in[1], where->first_out)
        && same_shape(m, greater->in[0], where->first_out);
}

/* Moves a sum over planes of the scatter, or of its cast, to the values that are scattered. */
static bool move_sum(ipu_model *m, uint32_t id, const uint32_t *uses, backward *b)
{
    const ipu__model_op *scatter = &m->ops.at[b->scatter], *where = &m->ops.at[b->where];
    ipu__model_op       *sum = &m->ops.at[id], *cast = NULL;
    bool                 per_channel = false;
    if (!sums_planes(m, sum, &per_channel) || sum->block != scatter->block) return false;
    if (sum->in[0] != scatter->first_out) {
        cast = ipu__pass_definer(m, sum->in[0]);
        if (!ipu__is_op(cast, "cast") || cast->in[0] != scatter->first_out || uses[cast->first_out] != 1
            || !ipu__is_together(m, cast, scatter))
            return false;
        m->base.values.at[cast->first_out].shape = m->base.values.at[where->first_out].shape;
    }
    *(cast ? &cast->in[0] : &sum->in[0]) = where->first_out;
    bool is_float                        = m->base.values.at[sum->first_out].type == IPU_FLOAT;
    if (per_channel && is_float && b->bias == NO_OP && ipu__is_together(m, sum, scatter)) {
        b->bias = id;
        b->cast = cast ? (uint32_t)(cast - m->ops.at) : NO_OP;
    }
    return true;
}

static void find_users(ipu_model *m, const uint32_t *uses, backward *b)
{
    const ipu__model_op *scatter = &m->ops.at[b->scatter];
    uint32_t             found = 0, value = scatter->first_out;
    for (uint32_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (ipu__is_op(op, "conv_weight_grad") && op->in[1] == value && op->in[0] != value
            && ipu__is_together(m, op, scatter)) {
            b->alone   = b->alone && b->weights == NO_OP;
            b->weights = i;
            found++;
        } else if (move_sum(m, i, uses, b)) {
            found++;
        }
    }
    b->alone = b->alone && b->weights != NO_OP && found == uses[value];
}

/* Makes output `at` of the newest op replace `old`; 0 if it replaces nothing. */
static bool add_output(ipu_model *m, const ipu__model_op *made, uint32_t at, uint32_t old,
                       const ipu__kernel_value *type, ipu__renames *renames)
{
    ipu__builder_value shown = {type->type, type->shape, old ? m->base.values.at[old].name : ""};
    ipu__model_value   value = {.kind     = IPU__VALUE_OP,
                                .of       = (uint32_t)m->ops.n - 1,
                                .at       = at,
                                .block    = made->block,
                                .location = made->location};
    uint32_t           id    = ipu__pass_add_value(m, shown, value);
    return id && (!old || ipu__rename(renames, old, id));
}

/* conv_max_pool_weight_grad, with the attributes of both and those of the op it replaces. */
static ipu_status make_grad(ipu_model *m, const backward *b, ipu__model_op *made, ipu__kernel_call *call)
{
    const ipu__model_op *weights = &m->ops.at[b->weights], *scatter = &m->ops.at[b->scatter];
    ipu__kernel_call     before = ipu__model_call(m, weights), scattered = ipu__model_call(m, scatter);
    ipu_attribute        with[MOST_WITH];
    size_t               n = 0;
    for (size_t i = 0; i < before.n_attributes && n < MOST_WITH - 2; i++) with[n++] = before.attributes[i];
    with[n++] = *ipu__attribute_find(&scattered, "size");
    with[n++] = IPU_INT_ATTRIBUTE("bias", b->bias == NO_OP ? 0 : b->cast == NO_OP ? 1 : 2);
    *made     = *weights;
    made->def = &ipu__op_conv_max_pool_weight_grad;
    *call     = (ipu__kernel_call){
            .def = &made->def->kernel, .attributes = with, .n_attributes = n, .n_operands = made->def->n_in};
    call->operand[0] = before.operand[0];
    call->operand[1] = scattered.operand[0];
    call->operand[2] = scattered.operand[1];
    IPU_TRY(made->def->infer(call, call->operand + 3));
    IPU_TRY(ipu__builder_keep_attributes(&m->base, call));
    made->attributes   = call->attributes;
    made->n_attributes = call->n_attributes;
    made->n_in         = 3;
    made->n_out        = 2;
    made->first_out    = (uint32_t)m->values.n;
    made->in           = ipu__arena_alloc(&m->base.arena, 3 * sizeof *made->in);
    if (!made->in) return ipu__fail_memory();
    made->in[0] = weights->in[0];
    made->in[1] = m->ops.at[b->where].in[1];
    made->in[2] = scatter->in[1];
    return IPU_OK;
}

/* Puts it where the first of the ops it replaces is: nothing it needs comes later. */
static void put_in_place(ipu_model *m, uint32_t id, const backward *b)
{
    ipu__block *block = &m->blocks.at[m->ops.at[id].block];
    for (size_t i = 0; i < block->order.n; i++) {
        if (block->order.at[i] != b->weights && block->order.at[i] != b->bias) continue;
        block->order.at[i] = id;
        return;
    }
}

static ipu_status fuse_backward(ipu_model *m, uint32_t pool, const backward *b)
{
    ipu__renames     renames = {0};
    ipu__model_op    made;
    ipu__kernel_call call;
    uint32_t         id = (uint32_t)m->ops.n;
    IPU_TRY(make_grad(m, b, &made, &call));
    uint32_t weights = m->ops.at[b->weights].first_out;
    uint32_t bias    = b->bias == NO_OP ? 0 : m->ops.at[b->bias].first_out;
    bool     ok      = ipu__pass_set_attribute(m, &m->ops.at[pool], IPU_INT_ATTRIBUTE("mask", 1))
           && ipu__push(&m->ops, made) && add_output(m, &made, 0, weights, &call.operand[3], &renames)
           && add_output(m, &made, 1, bias, &call.operand[4], &renames);
    if (ok) {
        put_in_place(m, id, b);
        m->ops.at[b->scatter].dead = m->ops.at[b->weights].dead = true;
        if (b->bias != NO_OP) m->ops.at[b->bias].dead = true;
        if (b->cast != NO_OP) m->ops.at[b->cast].dead = true;
        ipu__renames_apply(&renames, m);
    }
    ipu__renames_fini(&renames);
    return ok ? IPU_OK : ipu__fail_memory();
}

/* ---- both directions ---- */

/* Drops what has no user any more, up to the gradient that is masked. */
static ipu_status drop_mask(ipu_model *m, uint32_t where)
{
    uint32_t *uses = ipu__model_count_uses(m);
    if (!uses) return ipu__fail_memory();
    ipu__model_op *op = &m->ops.at[where], *greater = ipu__pass_definer(m, op->in[0]);
    op->dead = uses[op->first_out] == 0;
    if (op->dead && uses[greater->first_out] == 1) greater->dead = true;
    ipu__free(uses);
    return IPU_OK;
}

/* Whether the engine wants `def` for this convolution's operands. */
static bool is_wanted(const ipu_model *m, const ipu__model_op *conv, const ipu__op_def *def)
{
    ipu__kernel_call call = ipu__model_call(m, conv);
    call.def              = &def->kernel;
    call.n_operands       = def->n_in;
    return ipu__engine_fuses(m->engine, &call);
}

static ipu_status fuse_pool(ipu_model *m, uint32_t id, const uint32_t *uses, bool *changed)
{
    ipu__model_op   *relu, *conv = conv_before(m, &m->ops.at[id], uses, &relu);
    ipu__kernel_call call = ipu__model_call(m, &m->ops.at[id]);
    backward         b;
    if (!conv || !has_plain_windows(&call) || !is_wanted(m, conv, &ipu__op_conv_max_pool)) return IPU_OK;
    IPU_TRY(fuse_forward(m, id, conv, relu));
    *changed = true;
    if (!relu || !find_scatter(m, &m->ops.at[id], uses, &b)) return IPU_OK;
    find_users(m, uses, &b);
    if (!b.alone || !is_wanted(m, conv, &ipu__op_conv_max_pool_weight_grad)) return IPU_OK;
    IPU_TRY(fuse_backward(m, id, &b));
    return drop_mask(m, b.where);
}

/* Unused indices are not computed. */
static ipu_status drop_indices(ipu_model *m, bool *changed)
{
    uint32_t *uses = ipu__model_count_uses(m);
    bool      ok   = uses != NULL;
    for (size_t i = 0; ok && i < m->ops.n; i++) {
        ipu__model_op *op = &m->ops.at[i];
        if (!ipu__is_op(op, "max_pool") && !ipu__is_op(op, "conv_max_pool")) continue;
        ipu__kernel_call call = ipu__model_call(m, op);
        if (uses[op->first_out + 1] != 0 || ipu__op_int(&call, "indices") == 0) continue;
        ok = ipu__pass_set_attribute(m, op, IPU_INT_ATTRIBUTE("indices", 0));
        m->base.values.at[op->first_out + 1].shape = IPU_SHAPE(0);
        *changed                                   = true;
    }
    ipu__free(uses);
    return ok ? IPU_OK : ipu__fail_memory();
}

ipu_status ipu__fuse_conv_pools(ipu_model *m, bool *changed)
{
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; i < m->ops.n && status == IPU_OK; i++) {
        if (!ipu__is_op(&m->ops.at[i], "max_pool")) continue;
        uint32_t *uses = ipu__model_count_uses(m);
        status         = uses ? fuse_pool(m, i, uses, changed) : ipu__fail_memory();
        ipu__free(uses);
    }
    return status == IPU_OK ? drop_indices(m, changed) : status;
}
