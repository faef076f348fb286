/* Fuses elementwise ops: those that feed one another and have the same shape become one op "chain".
 *
 * Ops are visited in the order they run. An op joins the groups of its inputs, and the group then runs in the
 * op's place. Once something outside uses a result of a group, its place is sealed: an op may still join if
 * all its inputs are available there. Values needed outside become results of the chain. One walk suffices,
 * and no cycle can arise.
 */
#include "model/fuse/fuse.h"

#include <locale.h>
#include <string.h>

/* ---- shared with other fusions ---- */

bool ipu__is_op(const ipu__model_op *op, const char *name)
{
    return op && !op->dead && op->kind == IPU__MODEL_OP && strcmp(op->def->kernel.name, name) == 0;
}

bool ipu__is_zero(const ipu_model *m, uint32_t id)
{
    static const char zeros[sizeof(double)] = {0};
    return m->values.at[id].kind == IPU__VALUE_CONSTANT
        && ipu__op_n_elements(&m->base.values.at[id].shape) == 1
        && memcmp(m->values.at[id].data, zeros, ipu_type_size(m->base.values.at[id].type)) == 0;
}

bool ipu__is_together(const ipu_model *m, const ipu__model_op *a, const ipu__model_op *b)
{
    return a->block == b->block && a->recompute == b->recompute
        && ipu__model_same_stage(m, a->stage, b->stage);
}

/* ---- chains ---- */

enum { WINDOW = 64 }; /* most ops between two that are joined, since it lengthens the lives of values */

typedef struct group {
    uint32_t   joined; /* the group it has been merged into + 1; 0: itself */
    uint32_t   in[IPU__CHAIN_MAX_IN];
    int        n_in, n_ops, n_live; /* results still needed outside */
    uint32_t   block, recompute;
    ipu__stage stage;
    uint32_t   place; /* the op in whose place it runs */
    size_t     last;  /* position of its last op */
    bool       sealed;
    ipu_shape  shape;
} group;

typedef struct fusing {
    ipu_model         *m;
    const ipu__op_def *chain;
    uint32_t          *left;   /* by value: uses outside its group */
    uint32_t          *group;  /* by op: its group + 1, or 0 */
    size_t            *at;     /* by op: position */
    bool              *wanted; /* by value: a chainable op of the same block and shape uses it */
    size_t             n_ops;  /* when the pass began; later ones are chains */
    IPU__ARRAY(group) groups;
    IPU__ARRAY(uint32_t) order; /* a block's new order */
    ipu__renames renames;
    size_t       position;
    size_t       n_sealed; /* all groups before this one are sealed */
    uint32_t     block;
    bool         changed;
} fusing;

/* ---- groups ---- */

static uint32_t root_of(const fusing *f, uint32_t at)
{
    while (f->groups.at && f->groups.at[at].joined) at = f->groups.at[at].joined - 1;
    return at;
}

/* The group + 1 of the op that produces `id`, or 0. */
static uint32_t group_of(const fusing *f, uint32_t id)
{
    const ipu__model_value *v = &f->m->values.at[id];
    if (id == 0 || v->kind != IPU__VALUE_OP || v->of >= f->n_ops || !f->group[v->of]) return 0;
    return root_of(f, f->group[v->of] - 1) + 1;
}

static bool has_input(const group *g, uint32_t id)
{
    for (int i = 0; i < g->n_in; i++)
        if (g->in[i] == id) return true;
    return false;
}

static bool add_input(group *g, uint32_t id)
{
    if (has_input(g, id)) return true;
    if (g->n_in == IPU__CHAIN_MAX_IN) return false;
    g->in[g->n_in++] = id;
    return true;
}

/* Whether the op may join that group, leaving limits aside. */
static bool may_join(const fusing *f, const ipu__model_op *op, uint32_t at)
{
    const group *g = &f->groups.at[at];
    return g->block == f->block && g->recompute == op->recompute
        && ipu__model_same_stage(f->m, g->stage, op->stage) && f->position - g->last <= WINDOW
        && ipu__shape_equal(&g->shape, &f->m->base.values.at[op->first_out].shape);
}

/* Whether a value is available where the sealed group runs. */
static bool is_ready(const fusing *f, uint32_t id, const group *g)
{
    const ipu__model_value *v = &f->m->values.at[id];
    if (v->kind != IPU__VALUE_OP || v->block != f->block) return true;
    uint32_t other = group_of(f, id);
    if (!other) return f->at[v->of] < f->at[g->place];
    const group *by = &f->groups.at[other - 1];
    return by == g || (by->sealed && f->at[by->place] < f->at[g->place]);
}

/* Whether the op may join that group although it is sealed. Not worthwhile if the op can be fused with one of
 * its users: its result would have to be kept for that. */
static bool may_join_late(const fusing *f, const ipu__model_op *op, uint32_t at)
{
    if (f->wanted[op->first_out]) return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && !is_ready(f, op->in[i], &f->groups.at[at])) return false;
    return true;
}

/* Combines the groups in `list` and the op; returns false if the result would be too large. */
static bool combine(const fusing *f, const ipu__model_op *op, const uint32_t *list, int n, group *out)
{
    *out = (group){.n_ops     = 1,
                   .n_live    = 1,
                   .block     = f->block,
                   .recompute = op->recompute,
                   .stage     = op->stage,
                   .place     = (uint32_t)(op - f->m->ops.at),
                   .last      = f->position,
                   .shape     = f->m->base.values.at[op->first_out].shape};
    for (int i = 0; i < n; i++) {
        const group *g = &f->groups.at[list[i]];
        out->n_ops += g->n_ops;
        out->n_live += g->n_live;
        for (int k = 0; k < g->n_in; k++)
            if (!add_input(out, g->in[k])) return false;
    }
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t id = op->in[i], uses = 0;
        bool     inside = false, again = false;
        for (int k = 0; k < n; k++) inside |= group_of(f, id) == list[k] + 1;
        for (uint32_t k = 0; k < op->n_in; k++) uses += op->in[k] == id;
        for (uint32_t k = 0; k < i; k++) again |= op->in[k] == id;
        if (inside && !again && f->left[id] == uses) out->n_live--;
        if (id && !inside && !add_input(out, id)) return false;
    }
    return out->n_ops <= IPU__CHAIN_MAX_STEPS && out->n_live <= IPU__CHAIN_MAX_OUT;
}

/* ---- visiting ops ---- */

static void seal_inputs(fusing *f, const ipu__model_op *op, uint32_t except)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t at = group_of(f, op->in[i]);
        if (at && at != except && f->groups.at) f->groups.at[at - 1].sealed = true;
    }
}

/* Groups the op may join, each once, newest first: either the sealed ones or the others. */
static int find_groups(const fusing *f, const ipu__model_op *op, bool sealed,
                       uint32_t list[IPU__MAX_OPERANDS])
{
    int n = 0;
    if (!f->groups.at) return 0; /* none yet */
    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t at = group_of(f, op->in[i]);
        int      k  = 0;
        if (!at || f->groups.at[at - 1].sealed != sealed || !may_join(f, op, at - 1)) continue;
        while (k < n && list[k] > at - 1) k++;
        if (k < n && list[k] == at - 1) continue;
        memmove(list + k + 1, list + k, (size_t)(n - k) * sizeof *list);
        list[k] = at - 1;
        n++;
    }
    return n;
}

/* Merges the groups in `list` and the op into `g`. */
static bool join(fusing *f, uint32_t id, const uint32_t *list, int n, const group *g)
{
    const ipu__model_op *op   = &f->m->ops.at[id];
    uint32_t             made = (uint32_t)f->groups.n;
    if (!ipu__push(&f->groups, *g)) return false;
    for (int i = 0; i < n; i++) f->groups.at[list[i]].joined = made + 1;
    f->group[id] = made + 1;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (group_of(f, op->in[i]) == made + 1) f->left[op->in[i]]--;
    seal_inputs(f, op, made + 1);
    return true;
}

static bool meet_op(fusing *f, uint32_t id)
{
    const ipu__model_op *op = &f->m->ops.at[id];
    uint32_t             list[IPU__MAX_OPERANDS];
    group                g;
    int                  n = find_groups(f, op, false, list);
    if (n > 0 && combine(f, op, list, n, &g)) return join(f, id, list, n, &g);
    if (n > 1 && combine(f, op, list, 1, &g)) return join(f, id, list, 1, &g);
    n = find_groups(f, op, true, list);
    for (int i = 0; i < n && f->groups.at; i++) {
        if (!may_join_late(f, op, list[i]) || !combine(f, op, &list[i], 1, &g)) continue;
        g.place  = f->groups.at[list[i]].place;
        g.sealed = true;
        return join(f, id, &list[i], 1, &g);
    }
    if (combine(f, op, NULL, 0, &g)) return join(f, id, NULL, 0, &g);
    seal_inputs(f, op, 0);
    return true;
}

static void seal_all(fusing *f)
{
    while (f->n_sealed < f->groups.n) f->groups.at[f->n_sealed++].sealed = true;
}

static void note_wanted(fusing *f)
{
    const ipu_model *m = f->m;
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (op->dead || !ipu__is_chainable(m, op)) continue;
        const ipu_shape *shape = &m->base.values.at[op->first_out].shape;
        for (uint32_t k = 0; k < op->n_in; k++)
            f->wanted[op->in[k]] |= m->values.at[op->in[k]].block == op->block
                                 && ipu__shape_equal(&m->base.values.at[op->in[k]].shape, shape);
    }
}

static bool find_chains(fusing *f, uint32_t block)
{
    const ipu__block *b = &f->m->blocks.at[block];
    f->block            = block;
    for (size_t i = 0; i < b->order.n; i++, f->position++) {
        uint32_t       id = b->order.at[i];
        ipu__model_op *op = &f->m->ops.at[id];
        f->at[id]         = f->position;
        if (op->dead) continue;
        if (ipu__is_chainable(f->m, op) && f->left[op->first_out] > 0) {
            if (!meet_op(f, id)) return false;
            continue;
        }
        seal_inputs(f, op, 0);
        if (op->kind != IPU__MODEL_OP) seal_all(f); /* its blocks may use anything */
    }
    seal_all(f);
    return true;
}

/* ---- making chains ---- */

/* A value for output `at` of the new op `op`: that of the op it replaces, or a placeholder. */
static bool add_output(fusing *f, uint32_t op, uint32_t at, uint32_t old, const ipu__kernel_value *type)
{
    ipu__builder_value shown = {type->type, type->shape, old ? f->m->base.values.at[old].name : ""};
    ipu__model_value   value = {.kind     = IPU__VALUE_OP,
                                .of       = op,
                                .at       = at,
                                .block    = f->m->ops.at[op].block,
                                .location = f->m->ops.at[op].location};
    uint32_t           id    = ipu__pass_add_value(f->m, shown, value);
    return id && (!old || ipu__rename(&f->renames, old, id));
}

typedef struct members {
    uint32_t op[IPU__CHAIN_MAX_STEPS], result[IPU__CHAIN_MAX_OUT];
    int      n, n_results;
} members;

static ipu_status write_chain(fusing *f, members *all, ipu__chain_text *c)
{
    bool ok = true;
    for (int i = 0; i < all->n; i++) {
        ipu__model_op *op = &f->m->ops.at[all->op[i]];
        ipu__rename_inputs(&f->renames, op);
        ok = ok && ipu__chain_step(c, op);
        if (f->left[op->first_out] > 0) all->result[all->n_results++] = op->first_out;
    }
    IPU__ASSERT(ok);
    ipu__chain_results(c, all->result, all->n_results);
    return ok && !c->out.failed ? IPU_OK : ipu__fail_memory();
}

static ipu_status infer(fusing *f, const ipu__chain_text *c, ipu__kernel_call *call)
{
    ipu_attribute program = IPU_TEXT_ATTRIBUTE("program", c->out.at);
    *call = (ipu__kernel_call){.def = &f->chain->kernel, .attributes = &program, .n_attributes = 1};
    for (int i = 0; i < f->chain->kernel.n_operands; i++)
        call->operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    for (int i = 0; i < c->n_in; i++) {
        const ipu__builder_value *v = &f->m->base.values.at[c->in[i]];
        call->operand[i]            = (ipu__kernel_value){v->type, v->shape};
    }
    call->n_operands = f->chain->n_in;
    IPU_TRY(f->chain->infer(call, call->operand + f->chain->n_in));
    return ipu__builder_keep_attributes(&f->m->base, call);
}

static ipu_status add_chain(fusing *f, const members *all, const ipu__chain_text *c)
{
    ipu__kernel_call call;
    ipu_model       *m = f->m;
    ipu__model_op made = m->ops.at[all->op[all->n - 1]]; /* supplies block, location, stage and recompute */
    uint32_t      id   = (uint32_t)m->ops.n;
    IPU_TRY(infer(f, c, &call));
    made.def          = f->chain;
    made.attributes   = call.attributes;
    made.n_attributes = call.n_attributes;
    made.n_in         = (uint32_t)f->chain->n_in;
    made.n_out        = (uint32_t)ipu__op_n_out(f->chain);
    made.first_out    = (uint32_t)m->values.n;
    made.in           = ipu__arena_alloc(&m->base.arena, made.n_in * sizeof *made.in);
    if (!made.in || !ipu__push(&m->ops, made) || !ipu__push(&f->order, id)) return ipu__fail_memory();
    memset(made.in, 0, made.n_in * sizeof *made.in);
    memcpy(made.in, c->in, (size_t)c->n_in * sizeof *made.in);
    for (uint32_t i = 0; i < made.n_out; i++) {
        uint32_t old = (int)i < all->n_results ? all->result[i] : 0;
        if (!add_output(f, id, i, old, &call.operand[made.n_in + i])) return ipu__fail_memory();
    }
    for (int i = 0; i < all->n; i++) m->ops.at[all->op[i]].dead = true;
    f->changed = true;
    return IPU_OK;
}

static ipu_status make_chain(fusing *f, members *all)
{
    ipu__chain_text c      = {0};
    ipu_status      status = write_chain(f, all, &c);
    if (status == IPU_OK) status = add_chain(f, all, &c);
    ipu__chain_text_fini(&c);
    return status;
}

/* ---- the pass ---- */

/* Ops of each group in the order of the block, collected where the group runs. */
static ipu_status rewrite_block(fusing *f, uint32_t block, uint32_t *next_member, uint32_t *first_member)
{
    f->order.n = 0;
    for (size_t i = f->m->blocks.at[block].order.n; i-- > 0;) { /* backwards: lists start with the first op */
        uint32_t id = f->m->blocks.at[block].order.at[i];
        if (!f->group[id]) continue;
        uint32_t at      = root_of(f, f->group[id] - 1);
        next_member[id]  = first_member[at];
        first_member[at] = id + 1;
    }
    for (size_t i = 0; i < f->m->blocks.at[block].order.n; i++) {
        uint32_t id    = f->m->blocks.at[block].order.at[i];
        uint32_t at    = f->group[id] ? root_of(f, f->group[id] - 1) : 0;
        bool     alone = !f->group[id] || !f->groups.at || f->groups.at[at].n_ops == 1;
        if (f->m->ops.at[id].dead) continue;
        if (alone) {
            ipu__rename_inputs(&f->renames, &f->m->ops.at[id]);
            if (!ipu__push(&f->order, id)) return ipu__fail_memory();
            continue;
        }
        if (f->groups.at[at].place != id) continue;
        members all = {.n = 0};
        for (uint32_t k = first_member[at]; k; k = next_member[k - 1]) all.op[all.n++] = k - 1;
        IPU_TRY(make_chain(f, &all));
    }
    f->m->blocks.at[block].order.n = 0;
    if (!ipu__reserve(&f->m->blocks.at[block].order, f->order.n)) return ipu__fail_memory();
    if (f->order.n) memcpy(f->m->blocks.at[block].order.at, f->order.at, f->order.n * sizeof *f->order.at);
    f->m->blocks.at[block].order.n = f->order.n;
    return IPU_OK;
}

static ipu_status fuse_chains(fusing *f)
{
    ipu_status status = IPU_OK;
    note_wanted(f);
    for (uint32_t b = 0; b < f->m->blocks.n; b++)
        if (!find_chains(f, b)) return ipu__fail_memory();
    uint32_t *next  = ipu__alloc_zeroed(f->n_ops * sizeof *next);
    uint32_t *first = ipu__alloc_zeroed(f->groups.n * sizeof *first);
    if (!next || !first) status = ipu__fail_memory();
    for (uint32_t b = 0; b < f->m->blocks.n && status == IPU_OK; b++)
        status = rewrite_block(f, b, next, first);
    if (status == IPU_OK) ipu__renames_apply(&f->renames, f->m);
    ipu__free(next);
    ipu__free(first);
    return status;
}

static ipu_status fuse(ipu_model *m, bool *changed)
{
    fusing f          = {.m = m, .chain = &ipu__op_chain, .n_ops = m->ops.n};
    f.left            = ipu__model_count_uses(m);
    f.group           = ipu__alloc_zeroed(m->ops.n * sizeof *f.group);
    f.at              = ipu__alloc_zeroed(m->ops.n * sizeof *f.at);
    f.wanted          = ipu__alloc_zeroed(m->values.n * sizeof *f.wanted);
    bool       ok     = f.left && f.group && f.at && f.wanted;
    ipu_status status = ok ? fuse_chains(&f) : ipu__fail_memory();
    *changed          = f.changed;
    ipu__renames_fini(&f.renames);
    ipu__array_fini(&f.groups);
    ipu__array_fini(&f.order);
    ipu__free(f.left);
    ipu__free(f.group);
    ipu__free(f.at);
    ipu__free(f.wanted);
    return status;
}

/* Gradient stops have no further meaning, and would keep ops apart. */
static ipu_status drop_stops(ipu_model *m)
{
    ipu__renames       r    = {0};
    const ipu__op_def *stop = ipu__op_find("stop_gradient");
    bool               ok   = true;
    for (size_t i = 0; i < m->ops.n && ok; i++) {
        ipu__model_op *op = &m->ops.at[i];
        if (op->dead || op->kind != IPU__MODEL_OP || op->def != stop) continue;
        op->dead = true;
        ok       = ipu__rename(&r, op->first_out, op->in[0]);
    }
    if (ok) ipu__renames_apply(&r, m);
    ipu__renames_fini(&r);
    return ok ? IPU_OK : ipu__fail_memory();
}

typedef ipu_status (*kind_fn)(ipu_model *m, bool *changed);

static ipu_status fuse_kinds(ipu_model *m, const kind_fn *kinds, size_t n, bool *changed)
{
    /* Chains hold numbers as text, which needs a decimal point whatever the program's locale. */
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return ipu__fail_memory();
    locale_t   before = uselocale(c);
    ipu_status status = drop_stops(m);
    for (size_t i = 0; status == IPU_OK && i < n; i++) {
        bool did = false;
        status   = kinds[i](m, &did);
        *changed |= did;
    }
    uselocale(before);
    freelocale(c);
    return status;
}

ipu_status ipu__model_fuse(ipu_model *m, bool *changed)
{
    static const kind_fn kinds[] = {ipu__fuse_epilogues, fuse};
    return fuse_kinds(m, kinds, sizeof kinds / sizeof *kinds, changed);
}

ipu_status ipu__model_fuse_for_host(ipu_model *m, bool *changed)
{
    static const kind_fn kinds[] = {ipu__fuse_masks, ipu__fuse_conv_pools, ipu__fuse_updates,
                                    ipu__fuse_norms};
    if (!m->engine->fuses) return IPU_OK;
    return fuse_kinds(m, kinds, sizeof kinds / sizeof *kinds, changed);
}
