/* Algebraic simplification, from an op's record: flags, or a rule (`simplify`). */
#include <string.h>

#include "graph/graph.h"
#include "model/pass/constant_fold.h"
#include "op/simplify.h"

typedef struct simplifying {
    ipu__simplify  base;
    ipu__folding  *f;
    ipu__model_op *op;
} simplifying;

/* ---- callbacks for rules ---- */

static ipu__model_op *maker_of(const simplifying *s, int i)
{
    return ipu__pass_definer(s->f->m, s->op->in[i]);
}

static const ipu__op_def *maker(const ipu__simplify *base, int i, ipu__kernel_call *call)
{
    const simplifying   *s  = (const simplifying *)base;
    const ipu__model_op *op = maker_of(s, i);
    if (!op) return NULL;
    *call = ipu__model_call(s->f->m, op);
    return op->def;
}

static void pass_over(ipu__simplify *base, int i)
{
    simplifying *s                = (simplifying *)base;
    s->op->in[i]                  = maker_of(s, i)->in[0];
    const ipu__builder_value *now = &s->f->m->base.values.at[s->op->in[i]];
    base->call.operand[i]         = (ipu__kernel_value){now->type, now->shape};
    s->f->changed                 = true;
}

static ipu_status set(ipu__simplify *base, ipu_attribute attribute)
{
    simplifying *s = (simplifying *)base;
    if (!ipu__pass_set_attribute(s->f->m, s->op, attribute)) return ipu__fail_memory();
    s->op->n_attributes -= ipu__fold_is_default(s->op->def, &attribute); /* it is the last now */
    return IPU_OK;
}

static ipu_status become(ipu__simplify *base, const ipu__op_def *def, ipu_attribute attribute)
{
    simplifying *s      = (simplifying *)base;
    s->op->def          = def;
    s->op->n_attributes = 0;
    s->f->changed       = true;
    return set(base, attribute);
}

/* ---- flags ---- */

static bool is_all(const simplifying *s, int i, double number)
{
    uint32_t                id   = s->op->in[i];
    const ipu__model_value *v    = &s->f->m->values.at[id];
    ipu_type                type = s->base.call.operand[i].type;
    uint64_t                bits;
    if (id == 0 || v->kind != IPU__VALUE_CONSTANT) return false;
    size_t size = ipu_type_size(type), n = (size_t)ipu__op_n_elements(&s->base.call.operand[i].shape);
    if (!ipu__value_from_double(type, number, &bits)) return false;
    for (size_t k = 0; k < n; k++)
        if (memcmp((const char *)v->data + k * size, &bits, size) != 0) return false;
    return true;
}

/* x op 0 or x op 1, and vice versa if the op commutes. */
static void leave_neutral(simplifying *s, unsigned flags)
{
    double neutral = flags & IPU__OP_NEUTRAL_0 ? 0 : 1;
    if (!(flags & (IPU__OP_NEUTRAL_0 | IPU__OP_NEUTRAL_1))) return;
    if ((flags & IPU__OP_COMMUTES) && ipu__simplify_is_like(&s->base, 1) && is_all(s, 0, neutral))
        s->base.same = 1;
    if (ipu__simplify_is_like(&s->base, 0) && is_all(s, 1, neutral)) s->base.same = 0;
}

/* ---- both ---- */

ipu_status ipu__fold_simplify(ipu__folding *f, ipu__model_op *op, uint32_t *same)
{
    const ipu__model_op *before;
    unsigned             flags = op->def->flags;
    *same                      = 0;
    if (!op->def->simplify && !(flags & IPU__OP_LAWS)) return IPU_OK;
    simplifying s = {{ipu__model_call(f->m, op), -1, maker, pass_over, set, become}, f, op};
    leave_neutral(&s, flags);
    if (flags & IPU__OP_RESHAPES) IPU_TRY(ipu__simplify_if_alike(&s.base));
    if (op->def->simplify) IPU_TRY(op->def->simplify(&s.base));
    if (s.base.same >= 0) *same = op->in[s.base.same];
    if ((flags & IPU__OP_UNDOES_ITSELF) && (before = maker_of(&s, 0)) && before->def == op->def)
        *same = before->in[0];
    return IPU_OK;
}
