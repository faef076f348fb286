/* Gradients of loops.
 *
 * The backward loop runs from the last executed turn to the first. In each, it takes the values carried into
 * that turn from stacks, redoes the body and goes backward over it. The stacks come from the forward loop,
 * which is replaced by one that also carries them, as far as the backward body turns out to use them.
 */
#include <string.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "model/grad/gradient.h"

typedef struct loop {
    ipu__diff    *p;
    uint32_t      id;
    ipu__model_op op;
    uint32_t      n;        /* carried values */
    bool          vary;     /* the number of turns is known only after it has run */
    ipu_value     turns;    /* int32 */
    bool         *needed;   /* carried values that get a gradient */
    uint32_t     *stacks;   /* by carried value; defined by `rebuild` */
    uint32_t      backward; /* block of the backward loop */
} loop;

static const ipu__block *body_of(const loop *l) { return &l->p->m->blocks.at[l->op.body]; }
static uint32_t          carried(const loop *l, uint32_t i) { return body_of(l)->first_carried + i; }

static const ipu__builder_value *type_of(const loop *l, uint32_t id) { return &l->p->m->base.values.at[id]; }

static ipu_value int_scalar(const loop *l, int64_t value)
{
    return ipu_constant_value(&l->p->m->base, IPU_INT32, IPU_SCALAR, (double)value);
}

/* ---- which values matter ---- */

static void mark(ipu__diff *p, uint32_t id) { p->values.at[id].seen = p->walk; }

/* Marks everything that the blocks of `op` use. */
static void mark_inside(ipu__diff *p, uint32_t block)
{
    if (block == IPU__NO_BLOCK) return;
    const ipu__block *b = &p->m->blocks.at[block];
    mark(p, b->go_on);
    for (size_t i = 0; i < b->yields.n; i++) mark(p, b->yields.at[i]);
    for (size_t i = 0; i < b->order.n; i++) {
        const ipu__model_op *op = &p->m->ops.at[b->order.at[i]];
        for (uint32_t k = 0; k < op->n_in; k++) mark(p, op->in[k]);
        mark_inside(p, op->body);
        mark_inside(p, op->otherwise);
    }
}

/* Kills the op and all in it. */
static void bury(ipu_model *m, uint32_t id)
{
    ipu__model_op *op        = &m->ops.at[id];
    uint32_t       blocks[2] = {op->body, op->otherwise};
    op->dead                 = true;
    for (int k = 0; k < 2; k++) {
        if (blocks[k] == IPU__NO_BLOCK) continue;
        ipu__block *block = &m->blocks.at[blocks[k]];
        for (size_t i = 0; i < block->order.n; i++) bury(m, block->order.at[i]);
        block->order.n = block->yields.n = 0;
        block->go_on                     = 0;
    }
}

/* Marks what the marked values of a block depend on. With `drop`, removes ops that produce none of it. */
static void mark_sources(ipu__diff *p, uint32_t block, bool drop)
{
    ipu__block *b    = &p->m->blocks.at[block];
    size_t      keep = b->order.n;
    for (size_t i = b->order.n; i-- > 0;) {
        uint32_t       id   = b->order.at[i];
        ipu__model_op *op   = &p->m->ops.at[id];
        bool           used = false;
        for (uint32_t k = 0; k < op->n_out; k++) used |= p->values.at[op->first_out + k].seen == p->walk;
        if (drop && !used) bury(p->m, id);
        if (!used) continue;
        for (uint32_t k = 0; k < op->n_in; k++) mark(p, op->in[k]);
        mark_inside(p, op->body);
        mark_inside(p, op->otherwise);
        if (drop) b->order.at[--keep] = id;
    }
    if (!drop) return;
    memmove(b->order.at, b->order.at + keep, (b->order.n - keep) * sizeof *b->order.at);
    b->order.n -= keep;
}

/* A carried value needs a gradient if it depends on an x and, some turns later, affects one that has a
 * gradient after the loop. */
static void find_needed(loop *l)
{
    ipu__diff *p       = l->p;
    bool       changed = true;
    for (uint32_t i = 0; i < l->n; i++)
        l->needed[i] = p->values.at[carried(l, i)].is_active && p->values.at[l->op.first_out + i].d;
    while (changed) {
        changed = false;
        p->walk++;
        for (uint32_t i = 0; i < l->n; i++)
            if (l->needed[i]) mark(p, body_of(l)->yields.at[i]);
        mark_sources(p, l->op.body, false);
        for (uint32_t i = 0; i < l->n; i++) {
            const ipu__diff_value *v = &p->values.at[carried(l, i)];
            if (l->needed[i] || !v->is_active || v->seen != p->walk) continue;
            l->needed[i] = changed = true;
        }
    }
}

/* ---- stacks: [turns, elements] ---- */

static ipu_shape stack_shape(const loop *l, uint32_t i)
{
    return IPU_SHAPE(l->op.most, ipu__op_n_elements(&type_of(l, carried(l, i))->shape));
}

static ipu_value read_stack(const loop *l, uint32_t i, ipu_value turn)
{
    ipu_builder *b     = &l->p->m->base;
    ipu_value    stack = ipu__model_handle(l->p->m, l->stacks[i]);
    ipu_shape    shape = type_of(l, carried(l, i))->shape; /* values move */
    return ipu_reshape(b, ipu_dynamic_slice(b, stack, turn, 1, 0), shape);
}

static ipu_value write_stack(const loop *l, ipu_value stack, ipu_value value, ipu_value turn)
{
    ipu_builder *b = &l->p->m->base;
    return ipu_dynamic_update_slice(
        b, stack, ipu_reshape(b, value, IPU_SHAPE(1, ipu_value_n_elements(value))), turn, 0);
}

/* A value to be defined later. */
static uint32_t add_place(const loop *l, ipu_type type, ipu_shape shape)
{
    ipu_model *m     = l->p->m;
    uint32_t   block = m->block;
    m->block         = l->op.block;
    uint32_t id      = ipu__model_add_value(m, (ipu__kernel_value){type, shape}, NULL,
                                            (ipu__model_value){.kind = IPU__VALUE_OP})
                      .id;
    m->block = block;
    return id;
}

/* Defines `place` as `from`; 0 means that nobody uses it. */
static void define(const loop *l, uint32_t place, uint32_t from)
{
    ipu_model        *m  = l->p->m;
    ipu__model_op     op = {.kind      = IPU__MODEL_OP,
                            .def       = &ipu__op_identity,
                            .in        = ipu__arena_copy(&m->base.arena, &from, sizeof from),
                            .n_in      = 1,
                            .first_out = place,
                            .n_out     = 1,
                            .block     = l->op.block,
                            .body      = IPU__NO_BLOCK,
                            .otherwise = IPU__NO_BLOCK,
                            .location  = l->op.location,
                            .stage     = l->op.stage,
                            .dead      = from == 0};
    ipu__model_value *v  = &m->values.at[place];
    v->kind = IPU__VALUE_OP, v->of = (uint32_t)m->ops.n, v->at = 0;
    bool ok = op.in && ipu__push(&m->ops, op)
           && (op.dead || ipu__push(&m->blocks.at[l->op.block].order, (uint32_t)m->ops.n - 1));
    if (!ok) ipu__diff_fail_memory(l->p);
}

/* The loop's output that already is the stack of carried value `i`, or 0. */
static uint32_t find_stack(const loop *l, uint32_t i)
{
    const ipu_model *m = l->p->m;
    for (uint32_t j = 0; j < l->n; j++) {
        const ipu__model_value *v = &m->values.at[body_of(l)->yields.at[j]];
        if (v->kind != IPU__VALUE_OP || v->block != l->op.body) continue;
        const ipu__model_op *write = &m->ops.at[v->of];
        if (write->kind != IPU__MODEL_OP || write->def != &ipu__op_dynamic_update_slice) continue;
        const ipu__model_value *row = &m->values.at[write->in[1]];
        if (write->in[0] != carried(l, j) || write->in[2] != body_of(l)->index || row->kind != IPU__VALUE_OP)
            continue;
        const ipu__model_op *flat = &m->ops.at[row->of];
        ipu_shape            want = stack_shape(l, i);
        if (flat->kind == IPU__MODEL_OP && flat->def == &ipu__op_reshape && flat->in[0] == carried(l, i)
            && ipu__shape_equal(&want, &type_of(l, carried(l, j))->shape))
            return l->op.first_out + j;
    }
    return 0;
}

/* ---- the backward loop ---- */

/* One turn: from gradients of the turn's results (in `inside`) to those of its inputs (in `next`). */
static void backward_turn(loop *l, const ipu__outside *o, ipu_value turn, const ipu_value *inside,
                          ipu_value *next, ipu_value *d_yields)
{
    ipu__diff *p = l->p;
    uint32_t   k = 0;
    for (uint32_t i = 0; i < l->n && ipu__diff_ok(p); i++) {
        ipu_value before = read_stack(l, i, turn);
        if (!ipu__diff_ok(p) || !ipu__diff_cover(p)) return;
        p->values.at[carried(l, i)].copy  = before.id;
        p->values.at[before.id].is_active = p->values.at[carried(l, i)].is_active;
        d_yields[i]                       = l->needed[i] ? inside[k++] : IPU_NO_VALUE;
    }
    if (!ipu__diff_ok(p)) return;
    p->values.at[body_of(l)->index].copy = turn.id;
    ipu__diff_block(p, l->op.body, d_yields);
    k = 0;
    for (uint32_t i = 0; i < l->n && ipu__diff_ok(p); i++)
        if (l->needed[i]) next[k++] = ipu__diff_take(p, p->values.at[carried(l, i)].copy);
    for (size_t i = 0; i < o->wanted.n && ipu__diff_ok(p); i++, k++) {
        ipu_value d                     = ipu__diff_of(p, o->wanted.at[i]);
        p->values.at[o->wanted.at[i]].d = 0;
        next[k]                         = ipu__has(d) ? ipu_add(&l->p->m->base, inside[k], d) : inside[k];
    }
}

/* The initial values of the backward loop. Returns how many it carries. */
static uint32_t begin_with(loop *l, const ipu__outside *o, ipu_value *values)
{
    ipu__diff *p = l->p;
    uint32_t   k = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!l->needed[i]) continue;
        ipu_value d = ipu__diff_of(p, l->op.first_out + i);
        values[k++] = ipu__has(d) ? d : ipu__diff_zeros_like(p, carried(l, i));
    }
    for (size_t i = 0; i < o->wanted.n; i++) values[k++] = ipu__diff_zeros_like(p, o->wanted.at[i]);
    return k;
}

/* results: gradients of the needed carried values before the loop, then of captured ones. */
static void backward(loop *l, const ipu__outside *o, ipu_value *results, ipu_value *room)
{
    ipu_model *m      = l->p->m;
    size_t     most   = l->n + o->wanted.n;
    ipu_value *inside = room, *next = room + most, *d_yields = next + most, index;
    uint32_t   n     = begin_with(l, o, results);
    ipu_value  last  = ipu_sub(&l->p->m->base, l->turns, int_scalar(l, 1));
    ipu_value  first = l->vary ? ipu_greater(&l->p->m->base, l->turns, int_scalar(l, 0)) : IPU_NO_VALUE;
    ipu_model_loop(m, l->op.most, first, results, n, inside, &index);
    if (!ipu__diff_ok(l->p) || !ipu__diff_cover(l->p)) return;
    l->backward = m->block;
    backward_turn(l, o, ipu_sub(&l->p->m->base, last, index), inside, next, d_yields);
    ipu_value go_on = IPU_NO_VALUE;
    if (l->vary) go_on = ipu_less(&l->p->m->base, ipu_add(&l->p->m->base, index, int_scalar(l, 1)), l->turns);
    ipu_model_yield_while(m, go_on, next, n);
    ipu_model_end(m, results, n);
}

/* ---- the forward loop, with stacks ---- */

typedef struct forward {
    ipu_value *in, *inside, *yields, *out;
    uint32_t   n; /* values carried so far */
} forward;

/* Moves ops from `begin` on to the place of the loop in their block's order. */
static void take_place(const loop *l, size_t begin)
{
    ipu__block *b   = &l->p->m->blocks.at[l->op.block];
    size_t      end = b->order.n, n = end - begin, at = 0;
    uint32_t   *made = ipu__alloc(n * sizeof *made);
    if (!made) {
        ipu__diff_fail_memory(l->p);
        return;
    }
    while (at < begin && b->order.at[at] != l->id) at++;
    IPU__ASSERT(at < begin);
    memcpy(made, b->order.at + begin, n * sizeof *made);
    memmove(b->order.at + at + n, b->order.at + at + 1, (begin - at - 1) * sizeof *made);
    memcpy(b->order.at + at, made, n * sizeof *made);
    b->order.n = end - 1;
    ipu__free(made);
    bury(l->p->m, l->id);
}

static bool is_stacked(const loop *l, uint32_t i, uint32_t walk)
{
    return l->p->values.at[l->stacks[i]].seen == walk && !find_stack(l, i);
}

static void build_forward(loop *l, forward *f, uint32_t walk)
{
    ipu__diff *p = l->p;
    ipu_model *m = p->m;
    ipu_value  index;
    for (uint32_t i = 0; i < l->n; i++) f->in[i] = ipu__model_handle(m, l->op.in[i + 1]);
    f->n = l->n;
    for (uint32_t i = 0; i < l->n; i++)
        if (is_stacked(l, i, walk)) f->in[f->n++] = ipu__diff_zeros_like(p, l->stacks[i]);
    if (l->vary) f->in[f->n++] = int_scalar(l, 0);
    ipu_model_loop(m, l->op.most, ipu__model_handle(m, l->op.in[0]), f->in, f->n, f->inside, &index);
    if (!ipu__diff_ok(p) || !ipu__diff_cover(p)) return;
    for (uint32_t i = 0; i < l->n; i++) p->values.at[carried(l, i)].copy = f->inside[i].id;
    p->values.at[body_of(l)->index].copy = index.id;
    ipu__clone_block(p, l->op.body);
    uint32_t k = l->n;
    for (uint32_t i = 0; i < l->n && ipu__diff_ok(p); i++) {
        f->yields[i] = ipu__clone_of(p, body_of(l)->yields.at[i]);
        if (is_stacked(l, i, walk)) f->yields[k] = write_stack(l, f->inside[k], f->inside[i], index), k++;
    }
    if (l->vary) f->yields[k] = ipu_add(&l->p->m->base, f->inside[k], int_scalar(l, 1));
    if (!ipu__diff_ok(p)) return;
    ipu_model_yield_while(m, ipu__clone_of(p, body_of(l)->go_on), f->yields, f->n);
    ipu_model_end(m, f->out, f->n);
}

/* Makes the old loop's outputs, and what the backward loop uses, outputs of the new one. */
static void define_all(loop *l, const forward *f, uint32_t walk)
{
    uint32_t k = l->n;
    for (uint32_t i = 0; i < l->n && ipu__diff_ok(l->p); i++) {
        bool     used  = l->p->values.at[l->stacks[i]].seen == walk;
        uint32_t found = find_stack(l, i), from = 0;
        if (used) from = found ? f->out[found - l->op.first_out].id : f->out[k++].id;
        define(l, l->stacks[i], from);
    }
    for (uint32_t i = 0; i < l->n && ipu__diff_ok(l->p); i++) define(l, l->op.first_out + i, f->out[i].id);
    if (l->vary && ipu__diff_ok(l->p)) define(l, l->turns.id, f->out[k].id);
}

/* Drops what was made for the backward body but is not used by it; uses are marked with the walk's number.
 * Returns whether it uses any stack. */
static bool mark_used(loop *l)
{
    ipu__diff        *p    = l->p;
    const ipu__block *b    = &p->m->blocks.at[l->backward];
    bool              used = false;
    p->walk++;
    mark(p, b->go_on);
    for (size_t i = 0; i < b->yields.n; i++) mark(p, b->yields.at[i]);
    mark_sources(p, l->backward, true);
    for (uint32_t i = 0; i < l->n; i++) used |= p->values.at[l->stacks[i]].seen == p->walk;
    return used;
}

static void rebuild(loop *l)
{
    ipu__diff *p     = l->p;
    ipu_model *m     = p->m;
    size_t     most  = 2 * l->n + 1;
    bool       used  = mark_used(l);
    uint32_t   block = m->block, walk = p->walk;
    for (uint32_t i = 0; i < l->n && !used && !l->vary; i++) define(l, l->stacks[i], 0);
    if (!used && !l->vary) return;
    ipu_value *room = ipu__diff_new_values(p, 4 * most);
    if (!room) return;
    forward f    = {room, room + most, room + 2 * most, room + 3 * most, 0};
    m->block     = l->op.block;
    size_t begin = m->blocks.at[m->block].order.n;
    build_forward(l, &f, walk);
    if (ipu__diff_ok(p)) define_all(l, &f, walk);
    if (ipu__diff_ok(p)) take_place(l, begin);
    m->block = block;
    ipu__free(room);
}

/* ---- entry point ---- */

static void add_places(loop *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        l->stacks[i] = add_place(l, type_of(l, carried(l, i))->type, stack_shape(l, i));
    if (l->vary)
        l->turns = ipu__model_handle(l->p->m, add_place(l, IPU_INT32, IPU_SCALAR));
    else
        l->turns = int_scalar(l, l->op.most);
    ipu__diff_cover(l->p);
}

static void differentiate(loop *l)
{
    ipu__diff             *p       = l->p;
    ipu__outside           o       = {0};
    ipu_value             *results = NULL, *room = NULL;
    struct ipu__recompute *again = p->m->again;
    find_needed(l);
    add_places(l);
    bool ok = ipu__diff_ok(p) && ipu__diff_enter(p, &l->op, &o)
           && (results = ipu__diff_new_values(p, l->n + o.wanted.n))
           && (room = ipu__diff_new_values(p, 3 * (l->n + o.wanted.n)));
    if (ok) backward(l, &o, results, room);
    ok         = ok && ipu__diff_ok(p);
    uint32_t k = 0;
    for (uint32_t i = 0; i < l->n; i++) k += l->needed[i];
    ipu__diff_leave(p, &o, ok ? results + k : NULL);
    k = 0;
    for (uint32_t i = 0; ok && i < l->n; i++) {
        if (!l->needed[i]) continue;
        if (p->values.at[l->op.in[i + 1]].is_active) ipu__diff_add(p, l->op.in[i + 1], results[k]);
        k++;
    }
    ipu__stage stage = p->m->stage;
    p->m->again      = NULL; /* the forward loop uses forward values, and belongs to the forward stage */
    p->m->stage      = l->op.stage;
    if (ok && ipu__diff_ok(p)) rebuild(l);
    p->m->again = again;
    p->m->stage = stage;
    ipu__free(results);
    ipu__free(room);
}

void ipu__diff_loop(ipu__diff *p, uint32_t id)
{
    loop l = {.p = p, .id = id, .op = p->m->ops.at[id]};
    if (!ipu__diff_is_wanted(p, &l.op)) return;
    l.n    = l.op.n_in - 1;
    l.vary = l.op.in[0] || body_of(&l)->go_on;
    if (l.op.most == 0) { /* it never runs */
        for (uint32_t i = 0; i < l.n; i++)
            if (p->values.at[l.op.in[i + 1]].is_active)
                ipu__diff_add(p, l.op.in[i + 1], ipu__diff_of(p, l.op.first_out + i));
        return;
    }
    l.needed = ipu__alloc_zeroed(l.n * sizeof *l.needed);
    l.stacks = ipu__alloc_zeroed(l.n * sizeof *l.stacks);
    if (l.needed && l.stacks)
        differentiate(&l);
    else
        ipu__diff_fail_memory(p);
    ipu__free(l.needed);
    ipu__free(l.stacks);
}
