/* Lowering: a model becomes variables, host handles and a program on a graph.
 *
 * Each value is a variable of its own, spread over the tiles; the engine shares memory by liveness. Views
 * stay views until a kernel needs them contiguous. A parameter or state is updated in place if an op can
 * overwrite it after its last read, otherwise by a copy at the end. If values are bound to variables in
 * windows of the graph (one IPU of several), what is computed from them is placed there too.
 * requires: a model without errors whose blocks are all closed.
 */
#include <string.h>

#include "graph/graph.h"
#include "model/model.h"

#define AT_END UINT32_MAX /* a position after all ops */

/* Limit on pieces of views in a model; that many take seconds and a gigabyte. */
enum { MOST_PIECES = 1 << 26 };

typedef struct lowering {
    ipu_model  *m;
    ipu_graph  *g;
    ipu_program program;    /* being appended to */
    uint32_t   *last_use;   /* by value: position of the last op that may read its memory */
    uint32_t   *position;   /* by op: of the op of block 0 that it is, or that contains it */
    uint8_t    *is_operand; /* by value: a kernel's operand */
    uint32_t   *in_place;   /* by value: the kept or carried value whose variable it takes, or 0 */

    ipu__model_settled_fn settled; /* may be NULL */
    void                 *user;
    uint32_t
        *last_read; /* by value: last_use, except for updates that take it unchanged; if `settled` is set */
    ipu_graph **window; /* by value that is kept: where it is; NULL if all are in `g` */
} lowering;

static ipu_status lower_block(lowering *l, uint32_t block);

static ipu_status status_of(const lowering *l)
{
    ipu_status status = ipu_graph_status(l->g);
    return status == IPU_OK ? IPU_OK : ipu__fail(status, "%s", ipu_graph_message(l->g));
}

/* Makes errors of the graph name the user's line. */
static void set_place(const lowering *l, uint32_t location)
{
    const ipu__location *at = &l->m->locations.at[location];
    ipu_here(at->file, at->line);
}

/* ---- uses and liveness ---- */

static bool is_view(const ipu__model_op *op) { return op->kind == IPU__MODEL_OP && op->def->view; }

static void number_block(lowering *l, uint32_t block, uint32_t *next, bool is_top)
{
    const ipu__block *b = &l->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op     = &l->m->ops.at[b->order.at[i]];
        l->position[b->order.at[i]] = *next;
        if (op->kind != IPU__MODEL_OP) {
            number_block(l, op->body, next, false);
            if (op->kind == IPU__MODEL_IF) number_block(l, op->otherwise, next, false);
        }
        if (is_top) ++*next;
    }
}

static void use(lowering *l, uint32_t id, uint32_t at)
{
    if (at > l->last_use[id]) l->last_use[id] = at;
}

/* Goes backwards, so that a view passes the uses of its result on to what it views. */
static void note_uses(lowering *l, uint32_t block)
{
    const ipu__block *b  = &l->m->blocks.at[block];
    uint32_t          at = block == 0 ? AT_END : l->position[b->op];
    for (size_t i = 0; i < b->yields.n; i++) use(l, b->yields.at[i], at);
    use(l, b->go_on, at);
    for (size_t i = b->order.n; i-- > 0;) {
        const ipu__model_op *op  = &l->m->ops.at[b->order.at[i]];
        uint32_t             own = l->position[b->order.at[i]];
        if (op->kind != IPU__MODEL_OP) {
            note_uses(l, op->body);
            if (op->kind == IPU__MODEL_IF) note_uses(l, op->otherwise);
        }
        for (uint32_t k = 0; k < op->n_in; k++) {
            use(l, op->in[k], is_view(op) ? l->last_use[op->first_out] : own);
            use(l, op->in[k], own);
            if (!is_view(op)) l->is_operand[op->in[k]] = 1;
        }
    }
}

/* Whether output `out` of an op may be written over the value `kept`, which is one of its inputs. */
static bool may_overwrite(const ipu_model *m, const ipu__model_op *op, uint32_t out, uint32_t kept)
{
    ipu__kernel_call call = ipu__model_call(m, op);
    for (uint32_t k = 0; k < op->n_in; k++)
        if (op->in[k] == kept && ipu__kernel_may_share(&call, (int)k, (int)(op->n_in + out))) return true;
    return false;
}

static void choose_in_place(lowering *l, uint32_t kept)
{
    const ipu_model        *m     = l->m;
    uint32_t                value = m->values.at[kept].update;
    const ipu__model_value *v     = &m->values.at[value];
    if (!value || v->kind != IPU__VALUE_OP || v->block != 0 || l->in_place[value]) return;
    const ipu__model_op *op = &m->ops.at[v->of];
    if (op->kind != IPU__MODEL_OP || is_view(op) || l->last_use[kept] > l->position[v->of]) return;
    bool is_free = l->last_use[kept] < l->position[v->of]; /* its old value has no later reader */
    if (is_free || may_overwrite(m, op, v->at, kept)) l->in_place[value] = kept;
}

/* An update that is itself a kept value, or a view of one, takes its previous value. */
static void use_updates(lowering *l, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (l->m->values.at[ids[i]].update != ids[i]) use(l, l->m->values.at[ids[i]].update, AT_END);
}

/* Chooses what loop bodies may write over the values they carry. */
static ipu_status choose_carried(lowering *l)
{
    const ipu_model *m     = l->m;
    uint32_t        *marks = ipu__alloc_zeroed(m->values.n * sizeof *marks), mark = 0;
    if (!marks) return ipu__fail_memory();
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (op->kind != IPU__MODEL_LOOP || op->dead) continue;
        const ipu__block *body = &m->blocks.at[op->body];
        for (uint32_t k = 0; k < body->n_carried; k++)
            if (!l->in_place[body->yields.at[k]]
                && ipu__model_carries_in_place(m, op->body, k, marks, ++mark))
                l->in_place[body->yields.at[k]] = body->first_carried + k;
    }
    ipu__free(marks);
    return IPU_OK;
}

static void use_outputs(lowering *l)
{
    for (size_t i = 0; i < l->m->outputs.n; i++) use(l, l->m->outputs.at[i].value, AT_END);
}

static void use_viewed_updates(lowering *l, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t                value = l->m->values.at[ids[i]].update;
        const ipu__model_value *v     = &l->m->values.at[value];
        if (value != ids[i] && (v->kind != IPU__VALUE_OP || is_view(&l->m->ops.at[v->of])))
            use(l, value, AT_END);
    }
}

/* Leaves last_use all 0 again. */
static ipu_status note_reads(lowering *l)
{
    size_t bytes = l->m->values.n * sizeof *l->last_read;
    l->last_read = ipu__alloc(bytes);
    if (!l->last_read) return ipu__fail_memory();
    use_outputs(l);
    use_viewed_updates(l, l->m->parameters.at, l->m->parameters.n);
    use_viewed_updates(l, l->m->states.at, l->m->states.n);
    note_uses(l, 0);
    memcpy(l->last_read, l->last_use, bytes);
    memset(l->last_use, 0, bytes);
    return IPU_OK;
}

static ipu_status prepare(lowering *l)
{
    const ipu_model *m    = l->m;
    uint32_t         next = 1;
    l->last_use           = ipu__alloc_zeroed(m->values.n * sizeof *l->last_use);
    l->is_operand         = ipu__alloc_zeroed(m->values.n);
    l->in_place           = ipu__alloc_zeroed(m->values.n * sizeof *l->in_place);
    l->position           = ipu__alloc_zeroed(m->ops.n * sizeof *l->position);
    if (!l->last_use || !l->is_operand || !l->in_place || !l->position) return ipu__fail_memory();
    number_block(l, 0, &next, true);
    if (l->settled) IPU_TRY(note_reads(l));
    use_outputs(l);
    use_updates(l, m->parameters.at, m->parameters.n);
    use_updates(l, m->states.at, m->states.n);
    note_uses(l, 0);
    for (size_t i = 0; i < m->parameters.n; i++) choose_in_place(l, m->parameters.at[i]);
    for (size_t i = 0; i < m->states.n; i++) choose_in_place(l, m->states.at[i]);
    return choose_carried(l);
}

/* ---- tensors ---- */

static ipu_tensor add_variable(lowering *l, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(l->g, type, shape, name);
    ipu_graph_map_linearly(l->g, t);
    return t;
}

static ipu_tensor variable_for(lowering *l, uint32_t id)
{
    const ipu__builder_value *v = &l->m->base.values.at[id];
    return add_variable(l, v->type, v->shape, v->name);
}

static ipu_tensor tensor_of(lowering *l, uint32_t id)
{
    ipu_model              *m = l->m;
    const ipu__model_value *v = &m->values.at[id];
    if (m->tensors.at[id].id == 0 && v->kind == IPU__VALUE_CONSTANT) {
        const ipu__builder_value *value = &m->base.values.at[id];
        ipu_tensor t = ipu_graph_add_constant(l->g, value->type, value->shape, v->data, value->name);
        ipu_graph_map_linearly(l->g, t);
        m->tensors.at[id] = t;
    }
    return m->tensors.at[id];
}

static ipu_tensor copied(lowering *l, ipu_tensor t, const char *name)
{
    ipu_tensor copy = add_variable(l, ipu_tensor_type(t), ipu_tensor_shape(t), name);
    ipu_program_add_copy(l->program, t, copy);
    return copy;
}

/* ---- ops ---- */

static ipu_status lower_view(lowering *l, const ipu__model_op *op, const ipu__kernel_call *call)
{
    ipu_tensor in[IPU__MAX_OPERANDS];
    for (uint32_t i = 0; i < op->n_in; i++)
        in[i] = op->in[i] ? tensor_of(l, op->in[i]) : (ipu_tensor){l->g, 0};
    ipu_tensor t = op->def->view(l->g, call, in);
    IPU_TRY(status_of(l));
    if (l->is_operand[op->first_out] && !ipu_tensor_is_contiguous(t))
        t = copied(l, t, l->m->base.values.at[op->first_out].name);
    l->m->tensors.at[op->first_out] = t;
    return status_of(l);
}

static ipu_status lower_kernel(lowering *l, const ipu__model_op *op, const ipu__kernel_call *call)
{
    ipu_tensor operands[IPU__MAX_OPERANDS];
    for (uint32_t i = 0; i < op->n_in; i++)
        operands[i] = op->in[i] ? tensor_of(l, op->in[i]) : (ipu_tensor){l->g, 0};
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t id            = op->first_out + i;
        l->m->tensors.at[id]   = l->in_place[id] ? tensor_of(l, l->in_place[id]) : variable_for(l, id);
        operands[op->n_in + i] = l->m->tensors.at[id];
    }
    ipu_program_add_kernel(l->program, call->def->name, call->attributes, call->n_attributes, operands,
                           (size_t)call->n_operands);
    return status_of(l);
}

/* The steps of `block` as a separate program, ending with copies of what it yields. */
static ipu_status lower_body(lowering *l, uint32_t block, const ipu_tensor *results, ipu_program *out)
{
    ipu_program       around = l->program;
    const ipu__block *b      = &l->m->blocks.at[block];
    l->program               = ipu_program_sequence(l->g);
    ipu_status status        = lower_block(l, block);
    for (size_t i = 0; status == IPU_OK && i < b->yields.n; i++) {
        ipu_program_add_copy(l->program, tensor_of(l, b->yields.at[i]), results[i]);
        status = status_of(l);
    }
    *out       = l->program;
    l->program = around;
    return status;
}

static ipu_tensor as_predicate(ipu_tensor t) { return ipu_tensor_reshape(t, IPU_SHAPE(1)); }

static ipu_status lower_if(lowering *l, const ipu__model_op *op)
{
    ipu_program then, otherwise;
    ipu_tensor *results = &l->m->tensors.at[op->first_out];
    for (uint32_t i = 0; i < op->n_out; i++) results[i] = variable_for(l, op->first_out + i);
    IPU_TRY(lower_body(l, op->body, results, &then));
    IPU_TRY(lower_body(l, op->otherwise, results, &otherwise));
    ipu_program_add_if(l->program, as_predicate(tensor_of(l, op->in[0])), then, otherwise);
    return status_of(l);
}

/* A loop body's yields reach the carried variables all at once: one that is itself a carried variable, or a
 * view of one, goes through a copy. */
static ipu_status copy_back(lowering *l, const ipu__block *b, const ipu_tensor *carried)
{
    ipu_tensor *from   = ipu__alloc((b->yields.n + 1) * sizeof *from);
    ipu_status  status = from ? IPU_OK : ipu__fail_memory();
    for (size_t i = 0; from && i < b->yields.n; i++) {
        bool through = false;
        from[i]      = tensor_of(l, b->yields.at[i]);
        for (size_t k = 0; k < b->yields.n && !through; k++)
            through = k != i && ipu_tensor_intersects(from[i], carried[k]);
        if (!through && !ipu_tensor_equal(from[i], carried[i]))
            through = ipu_tensor_intersects(from[i], carried[i]);
        if (through) from[i] = copied(l, from[i], NULL);
    }
    for (size_t i = 0; from && i < b->yields.n; i++)
        if (!ipu_tensor_equal(from[i], carried[i])) ipu_program_add_copy(l->program, from[i], carried[i]);
    ipu__free(from);
    return status == IPU_OK ? status_of(l) : status;
}

static void add_kernel3(lowering *l, const char *name, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_program_add_kernel(l->program, name, NULL, 0, (ipu_tensor[]){a, b, out}, 3);
}

static ipu_tensor scalar(lowering *l, ipu_type type, double value)
{
    ipu_tensor t = ipu_graph_add_constant_value(l->g, type, IPU_SCALAR, value, NULL);
    ipu_graph_set_tile_mapping(l->g, t, 0);
    return t;
}

typedef struct turns {
    ipu_tensor index, go_on; /* go_on null: a fixed number of turns */
} turns;

static ipu_status lower_turn(lowering *l, const ipu__model_op *op, const turns *t)
{
    const ipu__block *b       = &l->m->blocks.at[op->body];
    ipu_tensor       *carried = &l->m->tensors.at[op->first_out];
    IPU_TRY(lower_block(l, op->body));
    if (b->go_on) ipu_program_add_copy(l->program, tensor_of(l, b->go_on), t->go_on);
    IPU_TRY(copy_back(l, b, carried));
    add_kernel3(l, IPU__KERNEL(add), t->index, scalar(l, IPU_INT32, 1), t->index);
    return status_of(l);
}

/* While go_on and index < most. */
static void add_while(lowering *l, const ipu__model_op *op, const turns *t, ipu_program body)
{
    ipu_program around = l->program;
    ipu_tensor  below  = add_variable(l, IPU_BOOL, IPU_SCALAR, NULL),
               goes    = add_variable(l, IPU_BOOL, IPU_SCALAR, NULL);
    l->program         = ipu_program_sequence(l->g);
    add_kernel3(l, IPU__KERNEL(less), t->index, scalar(l, IPU_INT32, (double)op->most), below);
    add_kernel3(l, IPU__KERNEL(logical_and), below, t->go_on, goes);
    ipu_program condition = l->program;
    l->program            = around;
    ipu_program_add_while_true(l->program, condition, as_predicate(goes), body);
}

static ipu_status lower_loop(lowering *l, const ipu__model_op *op)
{
    const ipu__block *b       = &l->m->blocks.at[op->body];
    ipu_tensor       *carried = &l->m->tensors.at[op->first_out];
    turns             t       = {.index = add_variable(l, IPU_INT32, IPU_SCALAR, NULL), .go_on = {l->g, 0}};
    for (uint32_t i = 0; i < op->n_out; i++) {
        carried[i]                             = variable_for(l, op->first_out + i);
        l->m->tensors.at[b->first_carried + i] = carried[i];
        ipu_program_add_copy(l->program, tensor_of(l, op->in[i + 1]), carried[i]);
    }
    l->m->tensors.at[b->index] = t.index;
    ipu_program_add_copy(l->program, scalar(l, IPU_INT32, 0), t.index);
    if (b->go_on || op->in[0]) {
        t.go_on = add_variable(l, IPU_BOOL, IPU_SCALAR, NULL);
        ipu_program_add_copy(l->program,
                             op->in[0] ? ipu_tensor_reshape(tensor_of(l, op->in[0]), IPU_SCALAR)
                                       : scalar(l, IPU_BOOL, 1),
                             t.go_on);
    }
    ipu_program around = l->program, body = ipu_program_sequence(l->g);
    l->program        = body;
    ipu_status status = lower_turn(l, op, &t);
    l->program        = around;
    IPU_TRY(status);
    if (t.go_on.id)
        add_while(l, op, &t, body);
    else
        ipu_program_add_repeat(l->program, op->most, body);
    return status_of(l);
}

/* Adds pairwise with the replica whose number differs in bit 0, then 1, ...: all perform the same
 * additions. */
static ipu_status lower_replica_sum(lowering *l, const ipu__model_op *op)
{
    int64_t    n        = ipu_graph_replication(l->g), partner[64];
    ipu_tensor sum      = copied(l, tensor_of(l, op->in[0]), "replica_sum"),
               arriving = variable_for(l, op->first_out);
    if (n > (int64_t)(sizeof partner / sizeof *partner))
        return ipu__fail(IPU_UNSUPPORTED, "a sum over replicas: expected at most 64, found %lld",
                         (long long)n);
    for (int64_t bit = 1; bit < n; bit *= 2) {
        for (int64_t r = 0; r < n; r++) partner[r] = r ^ bit;
        ipu_program_add_cross_replica_copy(l->program, sum, arriving, partner, (size_t)n);
        add_kernel3(l, IPU__KERNEL(add), sum, arriving, sum);
    }
    l->m->tensors.at[op->first_out] = sum;
    return status_of(l);
}

/* ---- windows ---- */

/* From now on lowers to `g`. Returns the previous graph. */
static ipu_graph *enter(lowering *l, ipu_graph *g)
{
    ipu_graph *before = l->g;
    l->g = l->program.graph = g;
    return before;
}

/* An op goes into the window (virtual graph) that one of its inputs is in; if none is, it may go anywhere. */
static ipu_graph *window_of(const lowering *l, const ipu__model_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        ipu_tensor t = l->m->tensors.at[op->in[i]];
        if (op->in[i] && t.id && t.graph != l->g && l->m->values.at[op->in[i]].kind != IPU__VALUE_CONSTANT)
            return t.graph;
    }
    return l->g;
}

/* A kept value goes into the window of the other inputs of the first op that reads it. */
static ipu_status find_windows(lowering *l)
{
    const ipu_model  *m       = l->m;
    const ipu__block *b       = &m->blocks.at[0];
    bool              has_any = false;
    for (size_t i = 1; i < m->values.n && !has_any; i++)
        has_any = m->values.at[i].bound.id && m->values.at[i].bound.graph != l->g;
    if (!has_any) return IPU_OK;
    l->window = ipu__alloc_zeroed(m->values.n * sizeof *l->window);
    if (!l->window) return ipu__fail_memory();
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &m->ops.at[b->order.at[i]];
        ipu_graph           *g  = NULL;
        for (uint32_t k = 0; k < op->n_in && !op->dead && !g; k++) {
            ipu_tensor t = m->values.at[op->in[k]].bound;
            if (t.id && t.graph != l->g) g = t.graph;
        }
        for (uint32_t k = 0; k < op->n_in && g; k++)
            if (!l->window[op->in[k]]) l->window[op->in[k]] = g;
    }
    return IPU_OK;
}

static ipu_graph *window_of_kept(const lowering *l, uint32_t id)
{
    return l->window && l->window[id] ? l->window[id] : l->g;
}

static ipu_status lower_op_there(lowering *l, const ipu__model_op *op)
{
    if (op->kind == IPU__MODEL_IF) return lower_if(l, op);
    if (op->kind == IPU__MODEL_LOOP) return lower_loop(l, op);
    if (op->def == &ipu__op_replica_sum && ipu_graph_replication(l->g) > 1) return lower_replica_sum(l, op);
    ipu__kernel_call call = ipu__model_call(l->m, op);
    return op->def->view ? lower_view(l, op, &call) : lower_kernel(l, op, &call);
}

static ipu_status lower_op(lowering *l, const ipu__model_op *op)
{
    ipu_graph *before = enter(l, window_of(l, op));
    ipu_status status = lower_op_there(l, op);
    enter(l, before);
    return status;
}

/* The state that is updated by value `id` and by nothing else, or 0. */
static uint32_t state_of(const lowering *l, uint32_t id)
{
    const ipu_model *m     = l->m;
    uint32_t         state = 0;
    for (size_t i = 0; i < m->parameters.n; i++)
        if (m->values.at[m->parameters.at[i]].update == id) return 0;
    for (size_t i = 0; i < m->states.n; i++) {
        if (m->values.at[m->states.at[i]].update != id) continue;
        if (state) return 0;
        state = m->states.at[i];
    }
    return state;
}

/* Updates not done in place are copied here if the old value has no more readers. */
static ipu_status tell_settled(lowering *l, const ipu__model_op *op)
{
    uint32_t position = l->position[op - l->m->ops.at];
    if (op->kind != IPU__MODEL_OP || op->def->view) return IPU_OK;
    for (uint32_t id = op->first_out; id < op->first_out + op->n_out; id++) {
        uint32_t state = state_of(l, id);
        if (!state || l->last_read[id] > position || l->last_use[state] > position) continue;
        if (!l->in_place[id]) ipu_program_add_copy(l->program, l->m->tensors.at[id], l->m->tensors.at[state]);
        l->in_place[id] = state;
        IPU_TRY(l->settled(l->user, state, &l->program));
    }
    return status_of(l);
}

static ipu_status lower_block(lowering *l, uint32_t block)
{
    const ipu__block *b = &l->m->blocks.at[block];
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &l->m->ops.at[b->order.at[i]];
        if (op->dead) continue;
        set_place(l, op->location);
        IPU_TRY(lower_op(l, op));
        if (block == 0 && l->settled) IPU_TRY(tell_settled(l, op));
    }
    return IPU_OK;
}

/* ---- inputs, kept values, outputs ---- */

static void add_handles(lowering *l, uint32_t id, bool is_read)
{
    const char *name = l->m->base.values.at[id].name;
    if (l->m->values.at[id].bound.id) {
        l->m->tensors.at[id] = l->m->values.at[id].bound;
        return;
    }
    set_place(l, l->m->values.at[id].location);
    ipu_graph *before    = enter(l, window_of_kept(l, id));
    l->m->tensors.at[id] = variable_for(l, id);
    enter(l, before);
    ipu_graph_add_host_write(l->g, name, l->m->tensors.at[id]);
    if (is_read) ipu_graph_add_host_read(l->g, name, l->m->tensors.at[id]);
}

static void add_random(lowering *l, const ipu__model_value *v, ipu_tensor t)
{
    uint32_t      seed[2]    = {l->m->seed_value, 0};
    bool          uniform    = v->initial.kind == IPU_INITIAL_UNIFORM;
    ipu_attribute settings[] = {IPU_FLOAT_ATTRIBUTE(uniform ? "low" : "mean", v->initial.a),
                                IPU_FLOAT_ATTRIBUTE(uniform ? "high" : "std", v->initial.b),
                                /* distinct from those of random ops, which count up from 0 */
                                IPU_INT_ATTRIBUTE("key", (int64_t)(IPU__FIRST_INITIAL_KEY + v->key))};
    ipu_tensor    key        = ipu_graph_add_constant(l->g, IPU_UINT32, IPU_SHAPE(2), seed, NULL);
    ipu_graph_map_linearly(l->g, key);
    ipu_program_add_kernel(l->program, uniform ? IPU__KERNEL(random_uniform) : IPU__KERNEL(random_normal),
                           settings, 3, (ipu_tensor[]){key, t}, 2);
}

static void add_start(lowering *l, uint32_t id)
{
    const ipu__model_value *v = &l->m->values.at[id];
    ipu_tensor              t = l->m->tensors.at[id];
    if (v->bound.id) return;
    set_place(l, v->location);
    if (v->data) {
        ipu_graph_set_initial_value(l->g, t, v->data);
        return;
    }
    ipu_graph *before = enter(l, t.graph);
    if (v->initial.kind == IPU_INITIAL_CONSTANT) {
        ipu_attribute value = IPU_FLOAT_ATTRIBUTE("value", v->initial.a);
        ipu_program_add_kernel(l->program, IPU__KERNEL(fill), &value, 1, &t, 1);
    } else {
        add_random(l, v, t);
    }
    enter(l, before);
}

static ipu_status lower_boundary(lowering *l)
{
    const ipu_model *m = l->m;
    for (size_t i = 0; i < m->inputs.n; i++) add_handles(l, m->inputs.at[i], false);
    for (size_t i = 0; i < m->parameters.n; i++) add_handles(l, m->parameters.at[i], true);
    for (size_t i = 0; i < m->states.n; i++) add_handles(l, m->states.at[i], true);
    ipu_program run = l->program;
    l->program      = ipu_program_sequence(l->g);
    for (size_t i = 0; i < m->parameters.n; i++) add_start(l, m->parameters.at[i]);
    for (size_t i = 0; i < m->states.n; i++) add_start(l, m->states.at[i]);
    ipu_graph_add_start(l->g, l->program);
    l->program = run;
    return status_of(l);
}

/* Whether a tensor lies in memory that an update will change. */
static bool is_updated_memory(const lowering *l, ipu_tensor t, uint32_t except)
{
    const ipu_model *m = l->m;
    for (int kind = 0; kind < 2; kind++) {
        size_t          n   = kind ? m->states.n : m->parameters.n;
        const uint32_t *ids = kind ? m->states.at : m->parameters.at;
        for (size_t i = 0; i < n; i++)
            if (ids[i] != except && m->values.at[ids[i]].update
                && ipu_tensor_intersects(t, m->tensors.at[ids[i]]))
                return true;
    }
    return false;
}

/* Values that are not results of ops lie in variables that an update may change after the run. */
static bool needs_care(const lowering *l, uint32_t id)
{
    const ipu__model_value *v = &l->m->values.at[id];
    if (v->kind == IPU__VALUE_PARAMETER || v->kind == IPU__VALUE_STATE) return true;
    return v->kind == IPU__VALUE_OP && is_view(&l->m->ops.at[v->of]);
}

static ipu_status lower_outputs(lowering *l)
{
    ipu_model *m        = l->m;
    m->output_tensors.n = 0;
    if (!ipu__reserve(&m->output_tensors, m->outputs.n)) return ipu__fail_memory();
    for (size_t i = 0; i < m->outputs.n; i++) {
        const ipu__model_output *out = &m->outputs.at[i];
        set_place(l, out->location);
        ipu_tensor t = tensor_of(l, out->value);
        if (ipu_tensor_contains_constant(t) || (needs_care(l, out->value) && is_updated_memory(l, t, 0)))
            t = copied(l, t, out->name);
        if (out->name) ipu_graph_add_host_read(l->g, out->name, t);
        m->output_tensors.at[m->output_tensors.n++] = t;
    }
    return status_of(l);
}

typedef struct pending_update {
    ipu_tensor from, to;
} pending_update;

static ipu_status lower_updates(lowering *l, const uint32_t *ids, size_t n, pending_update *list,
                                size_t *n_list)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t value = l->m->values.at[ids[i]].update;
        if (!value || value == ids[i] || l->in_place[value] == ids[i]) continue;
        set_place(l, l->m->values.at[ids[i]].location);
        ipu_tensor from = tensor_of(l, value);
        if (needs_care(l, value) && is_updated_memory(l, from, 0)) from = copied(l, from, NULL);
        list[(*n_list)++] = (pending_update){from, l->m->tensors.at[ids[i]]};
    }
    return status_of(l);
}

static ipu_status lower_all_updates(lowering *l)
{
    const ipu_model *m    = l->m;
    size_t           n    = 0;
    pending_update  *list = ipu__alloc((m->parameters.n + m->states.n + 1) * sizeof *list);
    if (!list) return ipu__fail_memory();
    ipu_status status = lower_updates(l, m->parameters.at, m->parameters.n, list, &n);
    if (status == IPU_OK) status = lower_updates(l, m->states.at, m->states.n, list, &n);
    for (size_t i = 0; status == IPU_OK && i < n; i++)
        ipu_program_add_copy(l->program, list[i].from, list[i].to);
    ipu__free(list);
    return status == IPU_OK ? status_of(l) : status;
}

/* ---- entry points ---- */

static ipu_status check_ready(const ipu_model *m)
{
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    if (m->block == 0) return IPU_OK;
    char where[512];
    return ipu__fail(IPU_INVALID, "%sthis branch or loop has no end: ipu_model_end is missing",
                     ipu__model_where(m, m->ops.at[m->blocks.at[m->block].op].location, where));
}

static ipu_status lower(lowering *l)
{
    ipu_model *m = l->m;
    m->tensors.n = 0;
    if (!ipu__reserve(&m->tensors, m->values.n)) return ipu__fail_memory();
    for (size_t i = 0; i < m->values.n; i++) m->tensors.at[i] = (ipu_tensor){l->g, 0};
    m->tensors.n = m->values.n;
    IPU_TRY(prepare(l));
    IPU_TRY(find_windows(l));
    IPU_TRY(lower_boundary(l));
    IPU_TRY(lower_block(l, 0));
    IPU_TRY(lower_outputs(l));
    return lower_all_updates(l);
}

ipu_status ipu__model_lower_with(ipu_model *m, ipu_graph *g, ipu__model_settled_fn settled, void *user,
                                 ipu_program *out)
{
    IPU_TRY(check_ready(m));
    ipu__location here = ipu__here();
    lowering      l = {.m = m, .g = g, .program = ipu_program_sequence(g), .settled = settled, .user = user};
    int64_t      *most = &g->root->builder.most_added;
    *most              = g->root->builder.n_added + MOST_PIECES;
    ipu_status status  = lower(&l);
    *most              = 0;
    *out               = l.program;
    ipu_here(here.file, here.line);
    ipu__free(l.last_use);
    ipu__free(l.last_read);
    ipu__free(l.window);
    ipu__free(l.is_operand);
    ipu__free(l.in_place);
    ipu__free(l.position);
    return status;
}

ipu_status ipu_model_lower(ipu_model *m, ipu_graph *g, ipu_program *out)
{
    return ipu__model_lower_with(m, g, NULL, NULL, out);
}

void ipu__model_bind(ipu_model *m, uint32_t id, ipu_tensor t) { m->values.at[id].bound = t; }

ipu_tensor ipu_model_tensor(const ipu_model *m, ipu_value v)
{
    return v.id < m->tensors.n ? m->tensors.at[v.id] : (ipu_tensor){NULL, 0};
}
