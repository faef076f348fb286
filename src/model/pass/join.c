/* Turns sums of zero-padded values that lie side by side into concatenations.
 *
 * Gradients of slices have this form: for queries, keys and values from one product, say. Of two pads that
 * are added, the later one becomes a concat, and the sum becomes a pad of that, or disappears if no zeros are
 * left.
 */
#include <string.h>

#include "model/pass/pass.h"

typedef struct joining {
    ipu_model   *m;
    uint32_t    *uses;  /* by value */
    size_t      *place; /* by op: its position in its block's order */
    ipu__renames renames;
    bool         changed;
} joining;

/* A zero-padded value without other users. */
typedef struct padded {
    ipu__model_op *op;
    const int64_t *before, *after;
    ipu_shape      inner;
} padded;

static bool is_padded(const joining *j, const ipu__model_op *sum, uint32_t id, padded *out)
{
    ipu__model_op *op = ipu__pass_definer(j->m, id);
    size_t         n, n_after, n_inside;
    if (!op || op->def != &ipu__op_pad || op->block != sum->block || op->recompute != sum->recompute
        || j->uses[id] != 1 || !ipu__model_same_stage(j->m, op->stage, sum->stage))
        return false;
    ipu__kernel_call call = ipu__model_call(j->m, op);
    *out                  = (padded){.op     = op,
                                     .before = ipu__op_ints(&call, "before", &n),
                                     .after  = ipu__op_ints(&call, "after", &n_after),
                                     .inner  = call.operand[0].shape};
    const int64_t *inside = ipu__op_ints(&call, "inside", &n_inside);
    if (ipu__op_float(&call, "value") != 0 || n != (size_t)out->inner.rank || n_after != n) return false;
    for (size_t d = 0; d < n; d++)
        if (out->before[d] < 0 || out->after[d] < 0 || (d < n_inside && inside[d])) return false;
    return true;
}

/* The dimension along which b follows a while all others coincide, or -1. */
static int axis_of(const padded *a, const padded *b)
{
    int axis = -1;
    for (int d = 0; d < a->inner.rank; d++) {
        if (a->before[d] == b->before[d] && a->after[d] == b->after[d]) continue;
        if (axis >= 0) return -1;
        axis = d;
    }
    return axis >= 0 && a->before[axis] + a->inner.dim[axis] == b->before[axis] ? axis : -1;
}

/* `op`, the later of the two, becomes a concat of a and b. */
static bool make_concat(joining *j, ipu__model_op *op, const padded *a, const padded *b, int axis)
{
    ipu_model *m  = j->m;
    uint32_t  *in = ipu__arena_alloc(&m->base.arena, (size_t)ipu__op_concat.n_in * sizeof *in);
    if (!in) return false;
    memset(in, 0, (size_t)ipu__op_concat.n_in * sizeof *in);
    in[0]            = a->op->in[0];
    in[1]            = b->op->in[0];
    op->def          = &ipu__op_concat;
    op->in           = in;
    op->n_in         = (uint32_t)ipu__op_concat.n_in;
    op->n_attributes = 0;
    ipu_shape shape  = a->inner;
    shape.dim[axis] += b->inner.dim[axis];
    m->base.values.at[op->first_out].shape = shape;
    return ipu__pass_set_attribute(m, op, IPU_INT_ATTRIBUTE("axis", axis));
}

/* The sum becomes a pad of the joined value, or that value if no zeros are left. */
static bool make_pad(joining *j, ipu__model_op *sum, uint32_t joined, const int64_t *before,
                     const int64_t *after, int rank)
{
    bool any = false;
    for (int d = 0; d < rank; d++) any |= before[d] || after[d];
    if (!any) {
        sum->dead = true;
        j->uses[joined] += j->uses[sum->first_out] - 1;
        return ipu__rename(&j->renames, sum->first_out, joined);
    }
    sum->def          = &ipu__op_pad;
    sum->in[0]        = joined;
    sum->n_in         = (uint32_t)ipu__op_pad.n_in;
    sum->n_attributes = 0;
    return ipu__pass_set_attribute(j->m, sum, IPU__INTS("before", before, rank))
        && ipu__pass_set_attribute(j->m, sum, IPU__INTS("after", after, rank));
}

static bool join(joining *j, ipu__model_op *sum)
{
    padded a, b;
    if (!is_padded(j, sum, sum->in[0], &a) || !is_padded(j, sum, sum->in[1], &b) || a.op == b.op) return true;
    if (!ipu__shape_equal(&j->m->base.values.at[sum->in[0]].shape, &j->m->base.values.at[sum->in[1]].shape))
        return true;
    int axis = axis_of(&a, &b);
    if (axis < 0) {
        padded other = a;
        a            = b;
        b            = other;
        axis         = axis_of(&a, &b);
    }
    if (axis < 0) return true;
    bool           a_is_later = j->place[a.op - j->m->ops.at] > j->place[b.op - j->m->ops.at];
    ipu__model_op *later = a_is_later ? a.op : b.op, *sooner = a_is_later ? b.op : a.op;
    int64_t        after[IPU_MAX_RANK];
    memcpy(after, a.after, (size_t)a.inner.rank * sizeof *after);
    after[axis]  = b.after[axis];
    j->changed   = true;
    sooner->dead = true;
    return make_concat(j, later, &a, &b, axis)
        && make_pad(j, sum, later->first_out, a.before, after, a.inner.rank);
}

static bool join_block(joining *j, ipu__block *block)
{
    size_t kept = 0;
    for (size_t i = 0; i < block->order.n; i++) {
        uint32_t       id = block->order.at[i];
        ipu__model_op *op = &j->m->ops.at[id];
        j->place[id]      = i;
        if (op->dead) continue;
        ipu__rename_inputs(&j->renames, op);
        if (op->kind == IPU__MODEL_OP && op->def == &ipu__op_add && !join(j, op)) return false;
    }
    for (size_t i = 0; i < block->order.n; i++)
        if (!j->m->ops.at[block->order.at[i]].dead) block->order.at[kept++] = block->order.at[i];
    block->order.n = kept;
    return true;
}

ipu_status ipu__model_join(ipu_model *m, bool *changed)
{
    joining j  = {.m     = m,
                  .uses  = ipu__model_count_uses(m),
                  .place = ipu__alloc_zeroed((m->ops.n + 1) * sizeof *j.place)};
    bool    ok = j.uses && j.place;
    for (size_t i = 0; ok && i < m->blocks.n; i++) ok = join_block(&j, &m->blocks.at[i]);
    if (ok) ipu__renames_apply(&j.renames, m);
    *changed = j.changed;
    ipu__renames_fini(&j.renames);
    ipu__free(j.uses);
    ipu__free(j.place);
    return ok ? IPU_OK : ipu__fail_memory();
}
