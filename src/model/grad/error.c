/* Explains why there is no gradient: finds the op at which the path from x to y ends. */
#include "model/grad/gradient.h"

/* By value id, while searching for a path. */
enum { FROM_X = 1, TO_Y = 2, ACTIVE = 4, ON_PATH = 8 };

typedef struct path {
    ipu__diff     *p;
    unsigned char *marks;
} path;

static bool any_in(const path *s, const ipu__model_op *op, unsigned mark)
{
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && (s->marks[op->in[i]] & mark)) return true;
    return false;
}

static bool any_out(const path *s, const ipu__model_op *op, unsigned mark)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (s->marks[op->first_out + i] & mark) return true;
    return false;
}

/* A loop's carried values come from before the loop and from the previous turn. */
static void mark_carried(path *s, const ipu__model_op *op, bool backward)
{
    if (op->kind != IPU__MODEL_LOOP) return;
    const ipu__block *body = &s->p->m->blocks.at[op->body];
    for (uint32_t i = 0; i < body->n_carried; i++) {
        unsigned char *inside = &s->marks[body->first_carried + i];
        unsigned char *before = &s->marks[op->in[i + 1]], *turn = &s->marks[body->yields.at[i]];
        if (!backward) *inside |= (*before | *turn) & (FROM_X | ACTIVE);
        if (backward) *before |= *inside & TO_Y, *turn |= *inside & TO_Y;
    }
}

/* Calls `visit` on the ops of a block, and on those inside an op: before the op going forward, after it going
 * backward. */
static void walk(path *s, uint32_t block, bool backward, void (*visit)(path *s, const ipu__model_op *op))
{
    const ipu_model  *m = s->p->m;
    const ipu__block *b = &m->blocks.at[block];
    for (size_t k = 0; k < b->order.n; k++) {
        const ipu__model_op *op = &m->ops.at[b->order.at[backward ? b->order.n - 1 - k : k]];
        if (op->dead) continue;
        if (backward) visit(s, op);
        /* twice, since carried values go around */
        for (int turn = 0; turn < 2 && op->body != IPU__NO_BLOCK; turn++) {
            mark_carried(s, op, backward);
            walk(s, op->body, backward, visit);
            mark_carried(s, op, backward);
        }
        if (op->otherwise != IPU__NO_BLOCK) walk(s, op->otherwise, backward, visit);
        if (!backward) visit(s, op);
    }
}

static void mark_yields(path *s, uint32_t block, const ipu__model_op *op, bool backward)
{
    const ipu__block *b = &s->p->m->blocks.at[block];
    for (size_t i = 0; i < b->yields.n && i < op->n_out; i++) {
        unsigned char *out = &s->marks[op->first_out + i], *in = &s->marks[b->yields.at[i]];
        if (backward)
            *in |= *out & TO_Y;
        else
            *out |= *in & (FROM_X | ACTIVE);
    }
}

static void visit_blocks(path *s, const ipu__model_op *op, bool backward)
{
    if (op->body != IPU__NO_BLOCK) mark_yields(s, op->body, op, backward);
    if (op->otherwise != IPU__NO_BLOCK) mark_yields(s, op->otherwise, op, backward);
}

static void visit_forward(path *s, const ipu__model_op *op)
{
    visit_blocks(s, op, false);
    bool cut = op->kind == IPU__MODEL_OP && (op->def->flags & IPU__OP_NO_GRADIENT);
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t id = op->first_out + i;
        if (any_in(s, op, FROM_X)) s->marks[id] |= FROM_X;
        if (!cut && any_in(s, op, ACTIVE) && ipu__op_is_floating(s->p->m->base.values.at[id].type))
            s->marks[id] |= ACTIVE;
    }
}

static void visit_backward(path *s, const ipu__model_op *op)
{
    visit_blocks(s, op, true);
    if (!any_out(s, op, TO_Y)) return;
    for (uint32_t i = 0; i < op->n_in; i++) s->marks[op->in[i]] |= TO_Y;
}

/* Some input depends on x differentiably, but none of its results that lead to y does. */
static bool is_cut(const path *s, const ipu__model_op *op)
{
    return any_in(s, op, ACTIVE) && any_out(s, op, TO_Y) && !any_out(s, op, ON_PATH);
}

/* Has a gradient, but gave none to an input that depends on x. */
static bool is_silent(const path *s, const ipu__model_op *op)
{
    const ipu__diff_value *values = s->p->values.at;
    bool                   given = false, silent = false;
    for (uint32_t i = 0; i < op->n_out; i++) given |= values[op->first_out + i].d != 0;
    for (uint32_t i = 0; i < op->n_in; i++) silent |= (s->marks[op->in[i]] & ACTIVE) && !values[op->in[i]].d;
    return given && silent;
}

static const ipu__model_op *find(const path *s, bool (*is)(const path *s, const ipu__model_op *op))
{
    const ipu_model *m = s->p->m;
    for (size_t i = 0; i < m->ops.n; i++)
        if (!m->ops.at[i].dead && m->ops.at[i].first_out < s->p->first_new && is(s, &m->ops.at[i]))
            return &m->ops.at[i];
    return NULL;
}

static void fail(ipu__diff *p, ipu_value y, ipu_value x, const ipu__model_op *op)
{
    char where[512];
    ipu__builder_fail(
        &p->m->base, IPU_INVALID,
        "ipu_model_gradients: %s does not depend differentiably on %s: the path ends at %s%s, which "
        "gives %s",
        ipu__value_str(y), ipu__value_str(x), ipu__model_where(p->m, op->location, where),
        op->kind == IPU__MODEL_OP   ? op->def->kernel.name
        : op->kind == IPU__MODEL_IF ? "if"
                                    : "loop",
        ipu__value_str(ipu__model_handle(p->m, op->first_out)));
}

void ipu__diff_fail_cut(ipu__diff *p, ipu_value y, ipu_value x)
{
    ipu_model *m = p->m;
    path       s = {p, ipu__alloc_zeroed(m->values.n)};
    if (!s.marks || !ipu__diff_cover(p)) {
        ipu__free(s.marks);
        ipu__diff_fail_memory(p);
        return;
    }
    s.marks[x.id] = FROM_X | ACTIVE;
    s.marks[y.id] |= TO_Y;
    walk(&s, 0, false, visit_forward);
    for (uint32_t block = m->block; block != 0; block = m->blocks.at[block].parent)
        walk(&s, block, false, visit_forward);
    for (uint32_t block = m->block; block != IPU__NO_BLOCK; block = m->blocks.at[block].parent)
        walk(&s, block, true, visit_backward);
    for (size_t i = 0; i < m->values.n; i++)
        if ((s.marks[i] & (ACTIVE | TO_Y)) == (ACTIVE | TO_Y)) s.marks[i] |= ON_PATH;
    const ipu__model_op *op = find(&s, is_cut);
    if (!op) op = find(&s, is_silent);
    if ((s.marks[y.id] & FROM_X) && op)
        fail(p, y, x, op);
    else
        ipu__builder_fail(&m->base, IPU_INVALID,
                          "ipu_model_gradients: %s does not depend on %s%s: leave it out", ipu__value_str(y),
                          ipu__value_str(x),
                          m->block ? " (what an open loop carries counts as constant)" : "");
    ipu__free(s.marks);
}
