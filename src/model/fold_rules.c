/* The algebra that folding knows, as a table: the op it is about, and a rule. */
#include <string.h>

#include "graph/graph.h"
#include "model/fold.h"

typedef struct situation {
    ipu__folding   *f;
    ipu__model_op  *op;
    ipu_kernel_call call;
    double          neutral; /* of the row of the table */
    uint32_t        same;
} situation;

/* The op of that input, if it is one of the same kind. */
static const ipu__model_op *inner(const situation *s)
{
    const ipu__model_op *op = ipu__pass_definer(s->f->m, s->op->in[0]);
    return op && op->def == s->op->def ? op : NULL;
}

static const ipu__builder_value *shown(const situation *s, uint32_t id)
{
    return &s->f->m->base.values.at[id];
}

/* Whether the output has the type and shape of input `i`. */
static bool is_like(const situation *s, uint32_t i)
{
    const ipu_kernel_value *in = &s->call.operand[i], *out = &s->call.operand[s->op->n_in];
    return s->op->in[i] && in->type == out->type && ipu__shape_equal(&in->shape, &out->shape);
}

static bool is_all(const situation *s, uint32_t id, double number)
{
    const ipu__model_value *v = &s->f->m->values.at[id];
    uint64_t                bits;
    if (id == 0 || v->kind != IPU__VALUE_CONSTANT) return false;
    ipu_type type = shown(s, id)->type;
    size_t   size = ipu_type_size(type), n = (size_t)ipu__op_n_elements(&shown(s, id)->shape);
    if (!ipu__value_from_double(type, number, &bits)) return false;
    for (size_t i = 0; i < n; i++)
        if (memcmp((const char *)v->data + i * size, &bits, size) != 0) return false;
    return true;
}

/* ---- rules: each may set s->same, or change the op in place and note it ---- */

static ipu_status neutral_right(situation *s)
{
    if (is_like(s, 0) && is_all(s, s->op->in[1], s->neutral)) s->same = s->op->in[0];
    return IPU_OK;
}

static ipu_status neutral_either(situation *s)
{
    if (is_like(s, 1) && is_all(s, s->op->in[0], s->neutral)) s->same = s->op->in[1];
    return neutral_right(s);
}

static ipu_status twice_is_none(situation *s)
{
    const ipu__model_op *before = inner(s);
    if (before) s->same = before->in[0];
    return IPU_OK;
}

static ipu_status same_if_alike(situation *s)
{
    if (is_like(s, 0)) s->same = s->op->in[0];
    return IPU_OK;
}

static ipu_status reshape(situation *s)
{
    const ipu__model_op *before = inner(s);
    if (before) {
        s->op->in[0]       = before->in[0];
        s->call.operand[0] = (ipu_kernel_value){shown(s, before->in[0])->type,
                                                shown(s, before->in[0])->shape};
        s->f->changed      = true;
    }
    return same_if_alike(s);
}

static ipu_status slice(situation *s)
{
    size_t         n;
    const int64_t *step = ipu__op_ints(&s->call, "step", &n);
    for (size_t i = 0; i < n; i++)
        if (step[i] < 0) return IPU_OK;
    return same_if_alike(s);
}

static ipu_status concat(situation *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->op->n_in; i++) n += s->op->in[i] != 0;
    return n == 1 ? same_if_alike(s) : IPU_OK;
}

/* Over dimensions of one element: nothing is added up, and dimensions may go. */
static ipu_status reduce(situation *s)
{
    const ipu_kernel_value *in = &s->call.operand[0], *out = &s->call.operand[s->op->n_in];
    if (in->type != out->type || ipu__op_n_elements(&in->shape) != ipu__op_n_elements(&out->shape)
        || ipu__op_n_elements(&in->shape) == 0)
        return IPU_OK;
    if (is_like(s, 0)) return same_if_alike(s);
    ipu__model_op *op = s->op;
    op->def           = ipu__op_find("reshape");
    op->n_attributes  = 0;
    if (!ipu__pass_set_attribute(s->f->m, op, IPU__INTS("shape", out->shape.dim, out->shape.rank)))
        return ipu__fail_memory();
    s->f->changed = true;
    return IPU_OK;
}

/* ---- transposes ---- */

/* perm[i]: which dimension of the input is dimension i of the output. */
static int get_perm(const ipu_kernel_call *call, int64_t perm[IPU_MAX_RANK])
{
    size_t         n;
    const int64_t *given = ipu__op_ints(call, "perm", &n);
    int            rank  = call->operand[0].shape.rank;
    for (int i = 0; i < rank; i++) perm[i] = n ? given[i] : rank - 1 - i;
    for (int i = 0; i < rank; i++) perm[i] += perm[i] < 0 ? rank : 0;
    return rank;
}

static ipu_status transpose(situation *s)
{
    int64_t              perm[IPU_MAX_RANK], first[IPU_MAX_RANK];
    const ipu__model_op *before = inner(s);
    int                  rank   = get_perm(&s->call, perm);
    if (before) {
        ipu_kernel_call call = ipu__model_call(s->f->m, before);
        get_perm(&call, first);
        for (int i = 0; i < rank; i++) perm[i] = first[perm[i]];
        if (!ipu__pass_set_attribute(s->f->m, s->op, IPU__INTS("perm", perm, rank)))
            return ipu__fail_memory();
        s->op->in[0]  = before->in[0];
        s->f->changed = true;
    }
    for (int i = 0; i < rank; i++)
        if (perm[i] != i) return IPU_OK;
    s->same = s->op->in[0];
    return IPU_OK;
}

static bool swaps_last_two(const ipu_model *m, const ipu__model_op *op)
{
    int64_t         perm[IPU_MAX_RANK];
    ipu_kernel_call call = ipu__model_call(m, op);
    int             rank = get_perm(&call, perm);
    if (rank < 2 || perm[rank - 1] != rank - 2 || perm[rank - 2] != rank - 1) return false;
    for (int i = 0; i < rank - 2; i++)
        if (perm[i] != i) return false;
    return true;
}

static ipu_status matmul(situation *s)
{
    static const char *const flag[] = {"transpose_a", "transpose_b"};
    const ipu_op_def        *swap   = ipu__op_find("transpose");
    for (uint32_t i = 0; i < 2; i++) {
        const ipu__model_op *before = ipu__pass_definer(s->f->m, s->op->in[i]);
        if (!swap || !before || before->def != swap || !swaps_last_two(s->f->m, before)) continue;
        bool on = !ipu__op_int(&s->call, flag[i]);
        if (!ipu__pass_set_attribute(s->f->m, s->op, IPU_INT_ATTRIBUTE(flag[i], on)))
            return ipu__fail_memory();
        s->op->n_attributes -= !on; /* the last now, and what it is anyway */
        s->op->in[i]  = before->in[0];
        s->f->changed = true;
    }
    return IPU_OK;
}

/* ---- the table ---- */

typedef struct rule {
    const char *op;
    ipu_status (*apply)(situation *s);
    double neutral;
} rule;

static const rule rules[] = {
    {"add", neutral_either, 0},
    {"sub", neutral_right, 0},
    {"mul", neutral_either, 1},
    {"div", neutral_right, 1},
    {"pow", neutral_right, 1},
    {"neg", twice_is_none, 0},
    {"logical_not", twice_is_none, 0},
    {"identity", same_if_alike, 0},
    {"cast", same_if_alike, 0},
    {"expand", same_if_alike, 0},
    {"reshape", reshape, 0},
    {"transpose", transpose, 0},
    {"slice", slice, 0},
    {"concat", concat, 0},
    {"reduce_sum", reduce, 0},
    {"reduce_mean", reduce, 0},
    {"reduce_max", reduce, 0},
    {"reduce_min", reduce, 0},
    {"reduce_prod", reduce, 0},
    {"matmul", matmul, 0},
};
_Static_assert(IPU__COUNT(rules) <= IPU__FOLD_RULES, "more rules than there is room for");

void ipu__fold_find_rules(ipu__folding *f)
{
    for (size_t i = 0; i < IPU__COUNT(rules); i++) f->rule[i] = ipu__op_find(rules[i].op);
}

ipu_status ipu__fold_simplify(ipu__folding *f, ipu__model_op *op, uint32_t *same)
{
    *same = 0;
    for (size_t i = 0; i < IPU__COUNT(rules); i++) {
        if (f->rule[i] != op->def) continue;
        situation s = {
            .f = f, .op = op, .call = ipu__model_call(f->m, op), .neutral = rules[i].neutral, .same = 0};
        IPU_TRY(rules[i].apply(&s));
        *same = s.same;
        return IPU_OK;
    }
    return IPU_OK;
}
