/* Masks before pools: the gradient of relu(x) before max_pool, computed on pooled values.
 *
 * A window's index says where its largest element is, so a condition on that element is one on the pooled
 * value: masking the large planes that pool_scatter gives equals scattering the masked small ones. That
 * touches at most a quarter of the elements, and values before the pool are no longer needed.
 */
#include <string.h>

#include "model/fuse/fuse.h"

/* where(greater(y, c), pool_scatter(d, indices), 0), with y pooled to `pooled` and `indices`. */
typedef struct masked {
    uint32_t where, greater, scatter; /* ops */
    uint32_t pooled;                  /* value */
} masked;

static uint32_t number_of(const ipu_model *m, const ipu__model_op *op) { return (uint32_t)(op - m->ops.at); }

static bool is_scalar(const ipu_model *m, uint32_t id)
{
    return m->values.at[id].kind == IPU__VALUE_CONSTANT
        && ipu__op_n_elements(&m->base.values.at[id].shape) == 1;
}

static bool find(ipu_model *m, const ipu__model_op *where, const uint32_t *uses, masked *out)
{
    if (!ipu__is_op(where, "where") || !ipu__is_zero(m, where->in[2])) return false;
    ipu__model_op *greater = ipu__pass_definer(m, where->in[0]),
                  *scatter = ipu__pass_definer(m, where->in[1]);
    if (!ipu__is_op(greater, "greater") || !ipu__is_op(scatter, "pool_scatter")
        || !is_scalar(m, greater->in[1]) || uses[where->in[0]] != 1 || uses[where->in[1]] != 1)
        return false;
    const ipu__model_op *pool = ipu__pass_definer(m, scatter->in[1]);
    if (!ipu__is_op(pool, "max_pool") || pool->in[0] != greater->in[0]
        || scatter->in[1] != pool->first_out + 1 || !ipu__is_together(m, where, greater)
        || !ipu__is_together(m, where, scatter))
        return false;
    *out = (masked){number_of(m, where), number_of(m, greater), number_of(m, scatter), pool->first_out};
    return true;
}

/* Moves greater and where in front of the scatter, which is known to come after the pool. */
static bool move(ipu_model *m, const masked *x, ipu__renames *renames)
{
    ipu__model_op *where = &m->ops.at[x->where], *greater = &m->ops.at[x->greater],
                  *scatter = &m->ops.at[x->scatter];
    uint32_t    small      = scatter->in[0];
    ipu__block *b          = &m->blocks.at[where->block];
    size_t      kept = 0, at = 0;
    if (!ipu__rename(renames, where->first_out, scatter->first_out)) return false;
    ipu__renames_apply(renames, m);
    greater->in[0]                              = x->pooled;
    m->base.values.at[greater->first_out].shape = m->base.values.at[small].shape;
    where->in[1]                                = small;
    m->base.values.at[where->first_out].shape   = m->base.values.at[small].shape;
    scatter->in[0]                              = where->first_out;
    for (size_t i = 0; i < b->order.n; i++) { /* without the two, which are at or after `kept` */
        if (b->order.at[i] == x->scatter) at = kept;
        if (b->order.at[i] != x->where && b->order.at[i] != x->greater) b->order.at[kept++] = b->order.at[i];
    }
    memmove(&b->order.at[at + 2], &b->order.at[at], (kept - at) * sizeof *b->order.at);
    b->order.at[at]     = x->greater;
    b->order.at[at + 1] = x->where;
    return true;
}

ipu_status ipu__fuse_masks(ipu_model *m, bool *changed)
{
    uint32_t *uses = ipu__model_count_uses(m);
    bool      ok   = uses != NULL;
    for (size_t i = 0; ok && i < m->ops.n; i++) {
        ipu__renames renames = {0};
        masked       x;
        if (m->ops.at[i].kind != IPU__MODEL_OP || !find(m, &m->ops.at[i], uses, &x)) continue;
        ok       = move(m, &x, &renames);
        *changed = true;
        ipu__renames_fini(&renames);
    }
    ipu__free(uses);
    return ok ? IPU_OK : ipu__fail_memory();
}
