/* Branches and loops: the blocks of an IF or LOOP op, opened, filled and closed.
 *
 * The op is in `ops` as soon as its first block opens, but gets outputs and a place in an order list only
 * when the last block ends. So everything open can be reached from m->block.
 */
#include "model/model.h"

static void fail_memory(ipu_model *m)
{
    if (m->base.status == IPU_OK) m->base.status = IPU_OUT_OF_MEMORY;
    ipu__fail_memory();
}

static const ipu__builder_value *type_of(const ipu_model *m, uint32_t id) { return &m->base.values.at[id]; }

static bool same_type(const ipu_model *m, uint32_t a, uint32_t b)
{
    const ipu__builder_value *x = type_of(m, a), *y = type_of(m, b);
    return x->type == y->type && ipu__shape_equal(&x->shape, &y->shape);
}

static const char *str(const ipu_model *m, uint32_t id) { return ipu__value_str(ipu__model_handle(m, id)); }

/* Whether the value can be used here; if not, sets the error. */
static bool check_use(ipu_model *m, const char *caller, ipu_value v)
{
    if (!ipu__builder_has(&m->base, caller, v)) return false;
    if (ipu__model_sees(m, v.id)) return true;
    ipu__builder_fail(&m->base, IPU_INVALID,
                      "%s: %s was made in a branch or loop that has ended: yield it from there", caller,
                      ipu__value_str(v));
    return false;
}

/* A value that decides must be one bool. */
static bool check_decision(ipu_model *m, const char *caller, const char *what, ipu_value v)
{
    if (!check_use(m, caller, v)) return false;
    if (ipu_value_type(v) == IPU_BOOL && ipu_value_n_elements(v) == 1) return true;
    ipu__builder_fail(&m->base, IPU_INVALID, "%s: %s must be one bool, found %s: compare it with something",
                      caller, what, ipu__value_str(v));
    return false;
}

/* ---- opening ---- */

/* Adds the op; its outputs and place follow when it ends. Returns false if out of memory. */
static bool add_op(ipu_model *m, ipu__model_op op, const uint32_t *in, uint32_t *id)
{
    op.in        = ipu__arena_copy(&m->base.arena, in, op.n_in * sizeof *op.in);
    op.block     = m->block;
    op.location  = ipu__model_here(m);
    op.recompute = m->recompute;
    op.stage     = m->stage;
    op.body = op.otherwise = IPU__NO_BLOCK;
    *id                    = (uint32_t)m->ops.n;
    if (op.in && ipu__push(&m->ops, op)) return true;
    fail_memory(m);
    return false;
}

/* Opens a block of op `op` in the one being built. */
static bool open_block(ipu_model *m, uint32_t op, uint32_t *block)
{
    *block = (uint32_t)m->blocks.n;
    if (!ipu__push(&m->blocks, (ipu__block){.op = op, .parent = m->block})) {
        fail_memory(m);
        return false;
    }
    m->block = *block;
    return true;
}

void ipu_model_if(ipu_model *m, ipu_value condition)
{
    uint32_t op, block;
    if (!check_decision(m, __func__, "the condition", condition)) return;
    if (!add_op(m, (ipu__model_op){.kind = IPU__MODEL_IF, .n_in = 1}, &condition.id, &op)) return;
    if (open_block(m, op, &block)) m->ops.at[op].body = block;
}

/* The op whose block is being built; sets the error and returns NULL if there is none of that kind. */
static ipu__model_op *open_op(ipu_model *m, const char *caller, const char *what)
{
    if (m->base.status != IPU_OK) return NULL;
    if (m->block != 0) return &m->ops.at[m->blocks.at[m->block].op];
    ipu__builder_fail(&m->base, IPU_INVALID, "%s: there is no open %s", caller, what);
    return NULL;
}

void ipu_model_else(ipu_model *m)
{
    ipu__model_op *op = open_op(m, __func__, "branch");
    char           where[512];
    uint32_t       block;
    if (!op) return;
    ipu__model_where(m, op->location, where);
    if (op->kind != IPU__MODEL_IF || op->otherwise != IPU__NO_BLOCK)
        ipu__builder_fail(&m->base, IPU_INVALID,
                          "ipu_model_else: what is open (%sthe %s) has no other branch", where,
                          op->kind == IPU__MODEL_IF ? "second branch of an if" : "loop");
    else if (!m->blocks.at[m->block].is_closed)
        ipu__builder_fail(
            &m->base, IPU_INVALID,
            "ipu_model_else: the first branch (%sif) has not yielded: call ipu_model_yield before", where);
    if (m->base.status != IPU_OK) return;
    uint32_t id = m->blocks.at[m->block].op;
    m->block    = op->block;
    if (open_block(m, id, &block)) m->ops.at[id].otherwise = block;
}

static bool check_loop(ipu_model *m, int64_t most, ipu_value first, const ipu_value *carried, size_t n)
{
    const char *caller = "ipu_model_loop";
    if (m->base.status != IPU_OK) return false;
    if (most < 0 || most > INT32_MAX) {
        ipu__builder_fail(&m->base, IPU_INVALID, "%s: %lld turns: expected 0 to %d", caller, (long long)most,
                          INT32_MAX);
        return false;
    }
    if (ipu__has(first) && !check_decision(m, caller, "whether to begin", first)) return false;
    for (size_t i = 0; i < n; i++)
        if (!check_use(m, caller, carried[i])) return false;
    return true;
}

/* What the body sees: the carried values in order, then the index of the turn. */
static bool add_inside(ipu_model *m, uint32_t block, const ipu_value *carried, size_t n, ipu_value *inside,
                       ipu_value *index)
{
    m->blocks.at[block].first_carried = (uint32_t)m->values.n;
    m->blocks.at[block].n_carried     = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const ipu__builder_value *v = type_of(m, carried[i].id);
        inside[i]                   = ipu__model_add_value(
                              m, (ipu__kernel_value){v->type, v->shape}, NULL,
                              (ipu__model_value){.kind = IPU__VALUE_CARRIED, .of = block, .at = (uint32_t)i});
        if (!inside[i].id) return false;
    }
    *index                    = ipu__model_add_value(m, (ipu__kernel_value){IPU_INT32, IPU_SCALAR}, NULL,
                                                     (ipu__model_value){.kind = IPU__VALUE_INDEX, .of = block});
    m->blocks.at[block].index = index->id;
    return index->id != 0;
}

void ipu_model_loop(ipu_model *m, int64_t most, ipu_value first, const ipu_value *carried, size_t n,
                    ipu_value *inside, ipu_value *index)
{
    ipu_value unused;
    uint32_t  op, block;
    if (!index) index = &unused;
    *index = (ipu_value){&m->base, 0};
    for (size_t i = 0; i < n; i++) inside[i] = *index;
    if (!check_loop(m, most, first, carried, n)) return;
    uint32_t *in = ipu__alloc((n + 1) * sizeof *in);
    if (!in) {
        fail_memory(m);
        return;
    }
    in[0] = first.id;
    for (size_t i = 0; i < n; i++) in[i + 1] = carried[i].id;
    ipu__model_op own = {.kind = IPU__MODEL_LOOP, .n_in = (uint32_t)n + 1, .most = most};
    bool          ok  = add_op(m, own, in, &op);
    ipu__free(in);
    if (!ok || !open_block(m, op, &block)) return;
    m->ops.at[op].body = block;
    add_inside(m, block, carried, n, inside, index);
}

/* ---- yielding ---- */

/* Checks the number and types of what the block yields against those of `first`: consecutive ids, or a
 * list. */
static bool check_yields(ipu_model *m, const char *caller, const ipu__model_op *op, const ipu_value *values,
                         size_t n)
{
    const ipu__block *block = &m->blocks.at[m->block], *body = &m->blocks.at[op->body];
    bool              is_loop = op->kind == IPU__MODEL_LOOP;
    char              where[512];
    ipu__model_where(m, op->location, where);
    for (size_t i = 0; i < n; i++)
        if (!check_use(m, caller, values[i])) return false;
    if (!is_loop && block == body) return true;
    size_t want = is_loop ? block->n_carried : body->yields.n;
    if (n != want) {
        ipu__builder_fail(&m->base, IPU_INVALID, "%s: %zu values: expected %zu, as many as %s (%s%s)", caller,
                          n, want, is_loop ? "the loop carries" : "the first branch yields", where,
                          is_loop ? "loop" : "if");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t like = is_loop ? block->first_carried + (uint32_t)i : body->yields.at[i];
        if (same_type(m, values[i].id, like)) continue;
        ipu__builder_fail(&m->base, IPU_INVALID,
                          "%s: value %zu is %s: expected type and shape of %s, which %s (%s%s)", caller, i,
                          ipu__value_str(values[i]), str(m, like),
                          is_loop ? "the loop carries" : "the first branch yields", where,
                          is_loop ? "loop" : "if");
        return false;
    }
    return true;
}

static void yield(ipu_model *m, const char *caller, ipu_value go_on, const ipu_value *values, size_t n)
{
    const ipu__model_op *op = open_op(m, caller, "branch or loop");
    if (!op) return;
    if (m->blocks.at[m->block].is_closed)
        ipu__builder_fail(&m->base, IPU_INVALID, "%s: this %s has yielded already", caller,
                          op->kind == IPU__MODEL_IF ? "branch" : "loop");
    else if (op->kind == IPU__MODEL_IF && ipu__has(go_on))
        ipu__builder_fail(&m->base, IPU_INVALID, "%s: a branch does not repeat: use ipu_model_yield", caller);
    if (m->base.status != IPU_OK) return;
    if (ipu__has(go_on) && !check_decision(m, caller, "whether to go on", go_on)) return;
    if (!check_yields(m, caller, op, values, n)) return;
    ipu__block *block = &m->blocks.at[m->block];
    if (!ipu__reserve(&block->yields, n)) {
        fail_memory(m);
        return;
    }
    for (size_t i = 0; i < n; i++) block->yields.at[block->yields.n++] = values[i].id;
    block->go_on     = go_on.id;
    block->is_closed = true;
}

void ipu_model_yield(ipu_model *m, const ipu_value *values, size_t n)
{
    yield(m, __func__, IPU_NO_VALUE, values, n);
}

void ipu_model_yield_while(ipu_model *m, ipu_value go_on, const ipu_value *values, size_t n)
{
    yield(m, __func__, go_on, values, n);
}

/* ---- ending ---- */

static bool check_end(ipu_model *m, const ipu__model_op *op, size_t n)
{
    const ipu__block *block = &m->blocks.at[m->block];
    char              where[512];
    ipu__model_where(m, op->location, where);
    const char *what = op->kind == IPU__MODEL_IF ? "if" : "loop";
    if (!block->is_closed)
        ipu__builder_fail(&m->base, IPU_INVALID,
                          "ipu_model_end: the %s (%s%s) has not yielded: call ipu_model_yield before",
                          op->kind == IPU__MODEL_IF ? "branch" : "loop", where, what);
    else if (op->kind == IPU__MODEL_IF && op->otherwise == IPU__NO_BLOCK)
        ipu__builder_fail(
            &m->base, IPU_INVALID,
            "ipu_model_end: the branch (%sif) has no other: call ipu_model_else and yield there", where);
    else if (n > block->yields.n)
        ipu__builder_fail(&m->base, IPU_INVALID, "ipu_model_end: %zu results: the %s (%s%s) yields %zu", n,
                          op->kind == IPU__MODEL_IF ? "branch" : "loop", where, what, block->yields.n);
    return m->base.status == IPU_OK;
}

void ipu_model_end(ipu_model *m, ipu_value *results, size_t n)
{
    for (size_t i = 0; i < n; i++) results[i] = (ipu_value){&m->base, 0};
    ipu__model_op *op = open_op(m, __func__, "branch or loop");
    if (!op || !check_end(m, op, n)) return;
    uint32_t id = m->blocks.at[m->block].op, body = op->body;
    uint32_t n_out = (uint32_t)m->blocks.at[body].yields.n;
    m->block       = op->block;
    op->first_out  = (uint32_t)m->values.n;
    op->n_out      = n_out;
    if (!ipu__push(&m->blocks.at[m->block].order, id)) {
        fail_memory(m);
        return;
    }
    for (uint32_t i = 0; i < n_out; i++) {
        const ipu__builder_value *v   = type_of(m, m->blocks.at[body].yields.at[i]);
        ipu_value                 out = ipu__model_add_value(m, (ipu__kernel_value){v->type, v->shape}, NULL,
                                                             (ipu__model_value){.kind = IPU__VALUE_OP, .of = id, .at = i});
        if (!out.id) return;
        if (i < n) results[i] = out;
    }
}
