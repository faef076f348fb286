/* The gradient of relu after that of group norm or a linear layer: where(greater(x, 0), dx, 0), with x the
 * layer's input.
 *
 * group_norm_grad and linear_sgd have x at hand and mask their results as they go ("relu"), which saves
 * another pass over x, dx and the result. group_norm_grad then also gives the sums per channel, which are the
 * gradient of a bias before the relu.
 */
#include <string.h>

#include "model/fuse/fuse.h"

/* dx of an op that can mask it by its input 1; 0 if it cannot. */
static uint32_t masked_of(const ipu__model_op *grad)
{
    if (ipu__is_op(grad, "group_norm_grad")) return grad->first_out;
    return ipu__is_op(grad, "linear_sgd") ? grad->first_out + 2 : 0;
}

/* The gradient op that can absorb the mask of `where`, or NULL. */
static ipu__model_op *find(ipu_model *m, const ipu__model_op *where, const uint32_t *uses)
{
    if (!ipu__is_op(where, "where") || !ipu__is_zero(m, where->in[2])) return NULL;
    ipu__model_op *greater = ipu__pass_definer(m, where->in[0]), *grad = ipu__pass_definer(m, where->in[1]);
    if (!ipu__is_op(greater, "greater") || !ipu__is_zero(m, greater->in[1]) || !masked_of(grad)) return NULL;
    bool is_its = where->in[1] == masked_of(grad) && greater->in[0] == grad->in[1];
    return is_its && uses[where->in[0]] == 1 && uses[where->in[1]] == 1 && ipu__is_together(m, where, greater)
                && ipu__is_together(m, where, grad)
             ? grad
             : NULL;
}

static uint32_t sums_of(const ipu__model_op *grad) { return grad->first_out + 3; }

/* The masked gradient of a norm that `op` sums up per channel, or NULL. */
static ipu__model_op *find_summed(ipu_model *m, const ipu__model_op *op)
{
    bool mask[IPU_MAX_RANK] = {false};
    if (!ipu__is_op(op, "reduce_sum")) return NULL;
    ipu__model_op *grad = ipu__pass_definer(m, op->in[0]);
    if (!ipu__is_op(grad, "group_norm_grad") || op->in[0] != grad->first_out || !ipu__is_together(m, op, grad)
        || m->base.values.at[sums_of(grad)].shape.dim[0] == 0)
        return NULL;
    ipu__kernel_call call = ipu__model_call(m, op);
    int              rank = call.operand[0].shape.rank;
    if (ipu__op_axes(&call, "axes", rank, mask) != IPU_OK || ipu__op_int(&call, "keep_dims") != 0)
        return NULL;
    for (int d = 0; d < rank; d++)
        if (mask[d] != (d != 1)) return NULL;
    return grad;
}

static bool take_sums(ipu_model *m, ipu__renames *renames)
{
    bool ok = true;
    for (size_t i = 0; ok && i < m->ops.n; i++) {
        ipu__model_op *op = &m->ops.at[i], *grad = find_summed(m, op);
        if (!grad) continue;
        op->dead = true;
        ok       = ipu__rename(renames, op->first_out, sums_of(grad));
    }
    if (ok) ipu__renames_apply(renames, m);
    return ok;
}

static void drop_dead(ipu_model *m)
{
    for (size_t b = 0; b < m->blocks.n; b++) {
        ipu__block *block = &m->blocks.at[b];
        size_t      kept  = 0;
        for (size_t i = 0; i < block->order.n; i++)
            if (!m->ops.at[block->order.at[i]].dead) block->order.at[kept++] = block->order.at[i];
        block->order.n = kept;
    }
}

ipu_status ipu__fuse_norms(ipu_model *m, bool *changed)
{
    uint32_t    *uses    = ipu__model_count_uses(m);
    bool         ok      = uses != NULL;
    ipu__renames renames = {0};
    for (size_t i = 0; ok && i < m->ops.n; i++) {
        ipu__model_op *where = &m->ops.at[i], *grad = find(m, where, uses);
        if (!grad) continue;
        ipu__pass_definer(m, where->in[0])->dead = where->dead = true;
        if (ipu__is_op(grad, "group_norm_grad"))
            m->base.values.at[sums_of(grad)].shape = IPU_SHAPE(
                m->base.values.at[grad->first_out].shape.dim[1]);
        ok = ipu__pass_set_attribute(m, grad, IPU_INT_ATTRIBUTE("relu", 1))
          && ipu__rename(&renames, where->first_out, masked_of(grad));
        *changed = true;
    }
    if (ok && *changed) {
        ipu__renames_apply(&renames, m);
        ok = take_sums(m, &renames);
        drop_dead(m);
    }
    ipu__renames_fini(&renames);
    ipu__free(uses);
    return ok ? IPU_OK : ipu__fail_memory();
}
