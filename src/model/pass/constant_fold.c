/* Constant folding: computes ops on constants, and drops ops that change nothing.
 *
 * `x + 0` counts as x although -0 + 0 is 0. The algebra is in simplify.c.
 */
#include "model/pass/constant_fold.h"

#include <string.h>

enum {
    MOST_ELEMENTS = 1 << 20, /* per result */
    FREE_ELEMENTS = 1 << 12, /* per result larger than its inputs */
    MOST_WORK     = 1 << 24  /* elementary operations of a reference: a few milliseconds */
};

/* Budget for all results of a model: this much, plus a multiple of its constants. The rest is left to the
 * run. */
#define FREE_WORK 0x1p28
#define FREE_BYTES 0x1p28
enum { MOST_PER_ELEMENT = 64, MOST_PER_BYTE = 4 };

static void find_budget(ipu_model *m)
{
    double n = 0, bytes = 0;
    if (m->has_fold_budget) return;
    for (size_t i = 1; i < m->values.n; i++) {
        const ipu__builder_value *v = &m->base.values.at[i];
        if (m->values.at[i].kind != IPU__VALUE_CONSTANT) continue;
        n += (double)ipu__op_n_elements(&v->shape);
        bytes += (double)ipu__op_n_elements(&v->shape) * (double)ipu_type_size(v->type);
    }
    m->has_fold_budget = true;
    m->fold_work       = FREE_WORK + MOST_PER_ELEMENT * n;
    m->fold_bytes      = FREE_BYTES + MOST_PER_BYTE * bytes;
}

/* Whether the budget suffices; if so, it is charged. */
static bool afford(ipu_model *m, const ipu__model_op *op, const ipu__kernel_call *call)
{
    double work = 0, bytes = 0;
    for (uint32_t i = op->n_in; i < op->n_in + op->n_out; i++) {
        double n = (double)ipu__op_n_elements(&call->operand[i].shape);
        work += n;
        bytes += n * (double)ipu_type_size(call->operand[i].type);
    }
    if (!op->def->view) work += ipu__kernel_ref_work(call);
    if (work > m->fold_work || bytes > m->fold_bytes) return false;
    m->fold_work -= work;
    m->fold_bytes -= bytes;
    return true;
}

static bool is_constant(const ipu_model *m, uint32_t id)
{
    return id == 0 || m->values.at[id].kind == IPU__VALUE_CONSTANT;
}

/* Small enough to compute now; a small constant that would become a large one is better kept small. */
static bool is_worth_it(const ipu__model_op *op, const ipu__kernel_call *call)
{
    int64_t in = 0, out = 0;
    for (uint32_t i = 0; i < op->n_in; i++) in += ipu__op_n_elements(&call->operand[i].shape);
    for (uint32_t i = op->n_in; i < op->n_in + op->n_out; i++) {
        int64_t n = ipu__op_n_elements(&call->operand[i].shape);
        if (n > MOST_ELEMENTS) return false;
        out += n;
    }
    if (out > FREE_ELEMENTS && out > in) return false;
    return op->def->view || ipu__kernel_ref_work(call) <= MOST_WORK;
}

static bool is_foldable(ipu_model *m, const ipu__model_op *op, const ipu__kernel_call *call)
{
    if (op->def->flags & IPU__OP_IMPURE) return false;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (!is_constant(m, op->in[i])) return false;
    return is_worth_it(op, call) && afford(m, op, call);
}

/* ---- computing ---- */

static ipu_status fold_constants(ipu__folding *f, ipu__model_op *op, const ipu__kernel_call *call)
{
    ipu_model *m                          = f->m;
    void      *operand[IPU__MAX_OPERANDS] = {NULL};
    for (uint32_t i = 0; i < op->n_in; i++) operand[i] = (void *)(uintptr_t)m->values.at[op->in[i]].data;
    IPU_TRY(ipu__evaluate_alloc(m, op, call, operand));
    ipu_status status = ipu__evaluate_op(&f->evaluation, op, call, operand);
    if (status == IPU_ABORTED) return IPU_OK; /* invalid values: the run will report it */
    IPU_TRY(status);
    for (uint32_t i = 0; i < op->n_out; i++) {
        uint32_t id = ipu__pass_add_constant(m, call->operand[op->n_in + i], operand[op->n_in + i],
                                             op->location);
        if (!id || !ipu__rename(&f->renames, op->first_out + i, id)) return ipu__fail_memory();
    }
    op->dead   = true;
    f->changed = true;
    return IPU_OK;
}

/* ---- the pass ---- */

bool ipu__fold_is_default(const ipu__op_def *def, const ipu_attribute *a)
{
    for (size_t i = 0; i < def->n_attributes; i++) {
        const ipu_op_attribute *own = &def->attributes[i];
        if (strcmp(own->name, a->name) != 0) continue;
        if (own->required || own->kind != a->kind) return false;
        if (a->kind == IPU_ATTRIBUTE_INT) return (double)a->i == own->otherwise;
        if (a->kind == IPU_ATTRIBUTE_FLOAT) return memcmp(&a->f, &own->otherwise, sizeof a->f) == 0;
    }
    return false;
}

static ipu_status drop_defaults(ipu__folding *f, ipu__model_op *op)
{
    size_t n = 0;
    for (size_t i = 0; i < op->n_attributes; i++) n += !ipu__fold_is_default(op->def, &op->attributes[i]);
    if (n == op->n_attributes) return IPU_OK;
    ipu_attribute *own = ipu__arena_alloc(&f->m->base.arena, (n + 1) * sizeof *own);
    if (!own) return ipu__fail_memory();
    n = 0;
    for (size_t i = 0; i < op->n_attributes; i++)
        if (!ipu__fold_is_default(op->def, &op->attributes[i])) own[n++] = op->attributes[i];
    op->attributes   = own;
    op->n_attributes = n;
    return IPU_OK;
}

static ipu_status fold_op(ipu__folding *f, ipu__model_op *op)
{
    IPU_TRY(drop_defaults(f, op));
    ipu__kernel_call call = ipu__model_call(f->m, op);
    if (is_foldable(f->m, op, &call)) return fold_constants(f, op, &call);
    uint32_t same = 0;
    IPU_TRY(ipu__fold_simplify(f, op, &same));
    if (!same) return IPU_OK;
    if (!ipu__rename(&f->renames, op->first_out, same)) return ipu__fail_memory();
    op->dead   = op->n_out == 1;
    f->changed = true;
    return IPU_OK;
}

static ipu_status walk(ipu__folding *f, uint32_t block)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->m->blocks.at[block].order.n; i++) {
        uint32_t       id = f->m->blocks.at[block].order.at[i];
        ipu__model_op *op = &f->m->ops.at[id];
        if (op->dead) continue;
        ipu__rename_inputs(&f->renames, op);
        if (op->kind == IPU__MODEL_OP) IPU_TRY(fold_op(f, op));
        if (op->kind != IPU__MODEL_OP) IPU_TRY(walk(f, op->body));
        if (op->kind == IPU__MODEL_IF) IPU_TRY(walk(f, op->otherwise));
        if (!op->dead) f->m->blocks.at[block].order.at[kept++] = id;
    }
    f->m->blocks.at[block].order.n = kept;
    return IPU_OK;
}

ipu_status ipu__model_fold(ipu_model *m, bool *changed)
{
    ipu__folding f = {.m = m, .evaluation = {.m = m}};
    find_budget(m);
    ipu_status status = walk(&f, 0);
    if (status == IPU_OK) ipu__renames_apply(&f.renames, m);
    *changed = f.changed;
    ipu__evaluation_fini(&f.evaluation);
    ipu__renames_fini(&f.renames);
    return status;
}
