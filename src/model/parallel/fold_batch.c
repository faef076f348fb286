/* Folds replicas into one larger batch: one walk finds values of which only sums are needed, another emits
 * every op anew for the values of all replicas.
 *
 * requires: a model without random numbers, branches and loops; others are refused.
 */
#include "model/parallel/fold_batch.h"

#include <stdio.h>
#include <string.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "op/replicas.h"

/* Ops run one replica at a time are no faster folded, so they may make up at most this share of all
 * operations. */
static const double MOST_ONE_BY_ONE = 0.1;

typedef struct about {
    bool varies; /* differs between replicas */
    bool sums;   /* only its sum over replicas is needed */
    bool used;
} about;

typedef struct folding {
    const ipu_model *m;
    ipu_model       *to;
    int64_t          n;
    const uint8_t   *is_sum; /* by id */
    uint32_t        *ids;
    about           *about;  /* by id */
    ipu__folded     *folded; /* by id; null value: not created yet */
    double           work, one_by_one;
    const char      *first; /* op that is run replica by replica */
    char            *reason;
} folding;

/* ---- refusing ---- */

static bool refuse(folding *f, const char *format, const char *a, const char *b)
{
    if (!*f->reason) snprintf(f->reason, IPU__FOLD_REASON, format, a, b);
    return false;
}

static bool can_be(folding *f)
{
    const ipu_model *m = f->m;
    if (m->seed) return refuse(f, "the network draws random numbers, which differ between replicas", "", "");
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++)
        if (m->ops.at[m->blocks.at[0].order.at[i]].kind != IPU__MODEL_OP)
            return refuse(f, "the network has branches or loops", "", "");
    return true;
}

/* ---- what is needed of values ---- */

static bool is_sum_state(const folding *f, uint32_t id) { return f->is_sum[id] != 0; }

static bool is_any(const ipu__op_def *op, const ipu__op_def *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (op == list[i]) return true;
    return false;
}

/* Whether the op's result for a sum of input `i`, and of the other inputs that vary, is the sum of its
 * results. */
static bool is_linear(const folding *f, const ipu__model_op *op, uint32_t i)
{
    static const ipu__op_def *const linear[] = {&ipu__op_add,        &ipu__op_sub,           &ipu__op_neg,
                                                &ipu__op_identity,   &ipu__op_stop_gradient, &ipu__op_reshape,
                                                &ipu__op_expand,     &ipu__op_slice,         &ipu__op_concat,
                                                &ipu__op_transpose,  &ipu__op_reduce_sum,    &ipu__op_reverse,
                                                &ipu__op_reduce_mean};
    if (is_any(op->def, linear, sizeof linear / sizeof *linear))
        return ipu__op_is_floating(f->m->base.values.at[op->first_out].type);
    if (op->def == &ipu__op_cast)
        return ipu__op_is_floating(f->m->base.values.at[op->in[0]].type)
            && ipu__op_is_floating(f->m->base.values.at[op->first_out].type);
    if (op->def == &ipu__op_mul) return !f->about[op->in[1 - i]].varies;
    return op->def == &ipu__op_div && i == 0 && !f->about[op->in[1]].varies;
}

static void look_forward(folding *f)
{
    const ipu_model *m = f->m;
    for (size_t i = 0; i < m->inputs.n; i++) f->about[m->inputs.at[i]].varies = true;
    for (size_t i = 0; i < m->states.n; i++)
        f->about[m->states.at[i]].varies = is_sum_state(f, m->states.at[i]);
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        const ipu__model_op *op     = &m->ops.at[m->blocks.at[0].order.at[i]];
        bool                 varies = false;
        for (uint32_t k = 0; k < op->n_in; k++) varies |= op->in[k] && f->about[op->in[k]].varies;
        for (uint32_t k = 0; k < op->n_out; k++) f->about[op->first_out + k].varies = varies;
    }
}

static bool is_used(const folding *f, const ipu__model_op *op)
{
    bool used = false;
    for (uint32_t k = 0; k < op->n_out; k++) used |= f->about[op->first_out + k].used;
    return used && !op->dead;
}

static bool look_at_updates(folding *f, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t update = f->m->values.at[ids[i]].update;
        if (!update) continue;
        f->about[update].used = true;
        if (is_sum_state(f, ids[i])) continue;
        f->about[update].sums = false;
        if (f->about[update].varies)
            return refuse(f, "each replica changes \"%s\" by what is in its own batch%s",
                          f->m->base.values.at[ids[i]].name, "");
    }
    return true;
}

static bool look_back(folding *f)
{
    const ipu_model *m = f->m;
    for (size_t id = 0; id < m->values.n; id++) f->about[id].sums = true;
    for (size_t i = 0; i < m->outputs.n; i++) {
        f->about[m->outputs.at[i].value].used = true;
        f->about[m->outputs.at[i].value].sums = false;
    }
    if (!look_at_updates(f, m->parameters.at, m->parameters.n)
        || !look_at_updates(f, m->states.at, m->states.n))
        return false;
    for (size_t i = m->blocks.at[0].order.n; i-- > 0;) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        if (!is_used(f, op)) continue;
        for (uint32_t k = 0; k < op->n_in; k++) {
            if (!op->in[k]) continue;
            f->about[op->in[k]].used = true;
            if (!f->about[op->first_out].sums || !is_linear(f, op, k)) f->about[op->in[k]].sums = false;
        }
    }
    for (size_t i = 0; i < m->states.n; i++)
        if (is_sum_state(f, m->states.at[i]) && !f->about[m->states.at[i]].sums)
            return refuse(f, "more than the sum of \"%s\" is used%s", m->base.values.at[m->states.at[i]].name,
                          "");
    return true;
}

/* ---- inputs and kept values ---- */

static ipu_value kept(folding *f, uint32_t id)
{
    const ipu__builder_value *v   = &f->m->base.values.at[id];
    const ipu__model_value   *own = &f->m->values.at[id];
    ipu_value                 out = own->kind == IPU__VALUE_STATE
                                      ? ipu_model_state(f->to, v->type, v->shape, own->data, v->name)
                                      : ipu_model_parameter(f->to, v->type, v->shape, own->data, v->name);
    if (!ipu__has(out)) return out;
    f->to->values.at[out.id].initial = own->initial;
    f->to->values.at[out.id].key     = own->key;
    f->ids[id]                       = out.id;
    return out;
}

static void take_in(folding *f)
{
    const ipu_model *m = f->m;
    for (size_t i = 0; i < m->inputs.n; i++) {
        ipu__builder_value v = m->base.values.at[m->inputs.at[i]];
        if (v.shape.rank == 0) v.shape = IPU_SHAPE(1);
        v.shape.dim[0] *= f->n;
        f->folded[m->inputs.at[i]] = (ipu__folded){ipu_model_input(f->to, v.type, v.shape, v.name),
                                                   IPU__FOLDED_ROWS, 0};
    }
    for (size_t i = 0; i < m->parameters.n; i++)
        f->folded[m->parameters.at[i]].value = kept(f, m->parameters.at[i]);
    for (size_t i = 0; i < m->states.n; i++) {
        uint32_t id   = m->states.at[i];
        f->folded[id] = (ipu__folded){kept(f, id), is_sum_state(f, id) ? IPU__FOLDED_SUM : IPU__FOLDED_SAME,
                                      0};
    }
}

static ipu__folded value_of(folding *f, uint32_t id)
{
    const ipu__builder_value *v = &f->m->base.values.at[id];
    if (id == 0) return (ipu__folded){.value = IPU_NO_VALUE};
    if (!ipu__has(f->folded[id].value) && f->m->values.at[id].kind == IPU__VALUE_CONSTANT)
        f->folded[id].value = ipu_constant_data(&f->to->base, v->type, v->shape, f->m->values.at[id].data);
    return f->folded[id];
}

/* ---- ops ---- */

static void emit_same(ipu__replicas *r, const ipu_value *in)
{
    const ipu__op_def *op = ipu__op_of(r->call->def);
    ipu_value          out[IPU__MAX_OPERANDS];
    ipu_emit(r->b, op->kernel.name, r->call->attributes, r->call->n_attributes, in, (size_t)op->n_in, out,
             (size_t)ipu__op_n_out(op));
    for (int i = 0; i < ipu__op_n_out(op); i++) r->out[i] = (ipu__folded){.value = out[i]};
}

/* For sums, by ops that are linear in them. */
static void emit_sum(folding *f, const ipu__model_op *op, ipu__replicas *r)
{
    ipu_value in[IPU__MAX_OPERANDS] = {IPU_NO_VALUE};
    for (uint32_t i = 0; i < op->n_in; i++) {
        ipu_type type = ipu__replicas_sum_type(r->call->operand[i].type);
        in[i]         = r->in[i].value;
        if (!op->in[i]) continue;
        if (is_linear(f, op, i))
            in[i] = ipu__replicas_sum(r, &r->in[i], &r->call->operand[i].shape);
        else if (ipu_value_type(in[i]) != type)
            in[i] = ipu_cast(r->b, in[i], type);
    }
    ipu_type to = ipu__replicas_sum_type(r->call->operand[op->n_in].type);
    if (op->def != &ipu__op_cast)
        emit_same(r, in);
    else
        r->out[0].value = ipu_value_type(in[0]) == to ? in[0] : ipu_cast(r->b, in[0], to);
    r->out[0].kind = IPU__FOLDED_SUM;
}

static ipu_value of_replica(const ipu__replicas *r, int i, int64_t replica)
{
    const ipu__folded *in = &r->in[i];
    if (!ipu__has(in->value) || in->kind != IPU__FOLDED_ROWS) return in->value;
    const ipu_shape *one = &r->call->operand[i].shape;
    int64_t          n   = one->rank ? one->dim[in->axis] : 1;
    ipu_value        v   = ipu_slice(r->b, in->value, replica * n, (replica + 1) * n, in->axis);
    return one->rank ? v : ipu_reshape(r->b, v, *one);
}

/* An op for each replica; `parts` has room for that many values per output. */
static void emit_one_by_one(ipu__replicas *r, ipu_value *parts)
{
    const ipu__op_def *op    = ipu__op_of(r->call->def);
    int                n_out = ipu__op_n_out(op);
    for (int64_t k = 0; k < r->n; k++) {
        ipu_value in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
        for (int i = 0; i < op->n_in; i++) in[i] = of_replica(r, i, k);
        ipu_emit(r->b, op->kernel.name, r->call->attributes, r->call->n_attributes, in, (size_t)op->n_in, out,
                 (size_t)n_out);
        for (int i = 0; i < n_out; i++)
            parts[i * r->n + k] = r->call->operand[op->n_in + i].shape.rank
                                    ? out[i]
                                    : ipu_reshape(r->b, out[i], IPU_SHAPE(1));
    }
    for (int i = 0; i < n_out; i++)
        r->out[i] = (ipu__folded){ipu_concat(r->b, parts + i * r->n, (size_t)r->n, 0), IPU__FOLDED_ROWS, 0};
}

static ipu_status fold_varying(folding *f, const ipu__model_op *op, ipu__replicas *r)
{
    double work = op->def->kernel.work ? op->def->kernel.work(r->call) : 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i] && r->in[i].kind == IPU__FOLDED_SUM) {
            emit_sum(f, op, r);
            return IPU_OK;
        }
    f->work += work;
    if (ipu__replicas_fold(r)) return IPU_OK;
    ipu_value *parts = ipu__alloc(op->n_out * (size_t)f->n * sizeof *parts);
    if (!parts) return ipu__fail_memory();
    if (!f->first) f->first = op->def->kernel.name;
    f->one_by_one += work;
    emit_one_by_one(r, parts);
    ipu__free(parts);
    return IPU_OK;
}

static ipu_status fold_op(folding *f, const ipu__model_op *op)
{
    ipu__kernel_call call = ipu__model_call(f->m, op);
    ipu__folded      in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS] = {{.value = IPU_NO_VALUE}};
    ipu_value        plain[IPU__MAX_OPERANDS];
    bool             sums[IPU__MAX_OPERANDS], used[IPU__MAX_OPERANDS], varies = false;
    ipu__replicas    r = {&f->to->base, &call, f->n, in, sums, used, out};
    for (uint32_t i = 0; i < op->n_in; i++) {
        in[i]    = value_of(f, op->in[i]);
        plain[i] = in[i].value;
        varies |= op->in[i] && in[i].kind != IPU__FOLDED_SAME;
    }
    for (uint32_t i = 0; i < op->n_out; i++) {
        sums[i] = f->about[op->first_out + i].sums;
        used[i] = f->about[op->first_out + i].used;
    }
    f->to->recompute  = op->recompute;
    ipu_status status = IPU_OK;
    if (varies)
        status = fold_varying(f, op, &r);
    else
        emit_same(&r, plain);
    f->to->recompute = 0;
    for (uint32_t i = 0; i < op->n_out; i++) f->folded[op->first_out + i] = out[i];
    return status;
}

/* Names remain available in the folded model. */
static void hand_name_on(folding *f, uint32_t id)
{
    ipu_value   v    = f->folded[id].value;
    const char *name = f->m->base.values.at[id].name;
    if (!ipu__has(v) || !*name || *f->to->base.values.at[v.id].name) return;
    if (f->to->values.at[v.id].kind != IPU__VALUE_OP) return;
    const char *own = ipu__arena_strdup(&f->to->base.arena, name);
    if (own) f->to->base.values.at[v.id].name = own;
}

static ipu_status fold_ops(folding *f)
{
    const ipu_model *m = f->m;
    for (size_t i = 0; i < m->blocks.at[0].order.n && f->to->base.status == IPU_OK; i++) {
        const ipu__model_op *op = &m->ops.at[m->blocks.at[0].order.at[i]];
        const ipu__location *at = &m->locations.at[op->location];
        if (!is_used(f, op)) continue;
        ipu_enter(at->file, at->line);
        ipu_status status = fold_op(f, op);
        ipu_leave();
        IPU_TRY(status);
        for (uint32_t k = 0; k < op->n_out && f->to->base.status == IPU_OK; k++)
            hand_name_on(f, op->first_out + k);
    }
    return IPU_OK;
}

/* ---- outputs ---- */

static void give_out(folding *f)
{
    const ipu_model *m = f->m;
    ipu__replicas    r = {.b = &f->to->base, .n = f->n};
    for (size_t i = 0; i < m->outputs.n && f->to->base.status == IPU_OK; i++) {
        ipu__folded v    = value_of(f, m->outputs.at[i].value);
        ipu_value   rows = ipu__replicas_rows(&r, &v, &m->base.values.at[m->outputs.at[i].value].shape, 0);
        ipu_model_output(f->to, rows, m->outputs.at[i].name);
    }
    for (int kind = 0; kind < 2; kind++) {
        size_t          n   = kind ? m->states.n : m->parameters.n;
        const uint32_t *ids = kind ? m->states.at : m->parameters.at;
        for (size_t i = 0; i < n && f->to->base.status == IPU_OK; i++) {
            uint32_t update = m->values.at[ids[i]].update;
            if (!update) continue;
            ipu__folded v = value_of(f, update);
            if (is_sum_state(f, ids[i]))
                v.value = ipu__replicas_sum(&r, &v, &m->base.values.at[update].shape);
            ipu_model_update(f->to, f->folded[ids[i]].value, v.value);
        }
    }
}

static ipu_status fold(folding *f)
{
    if (!can_be(f)) return IPU_OK;
    look_forward(f);
    if (!look_back(f)) return IPU_OK;
    take_in(f);
    IPU_TRY(fold_ops(f));
    if (f->to->base.status == IPU_OK) give_out(f);
    if (f->to->base.status == IPU_OUT_OF_MEMORY) return ipu__fail_memory();
    if (f->to->base.status != IPU_OK)
        refuse(f, "%s%s", ipu_builder_message(&f->to->base), "");
    else if (f->one_by_one > MOST_ONE_BY_ONE * f->work)
        refuse(f, "\"%s\" takes a large part of the work, and each replica needs one of its own%s", f->first,
               "");
    return IPU_OK;
}

ipu_status ipu__model_fold_batch(const ipu_model *m, int64_t n, const uint8_t *is_sum, ipu_model **out,
                                 uint32_t *ids, char reason[IPU__FOLD_REASON])
{
    folding f         = {.m = m, .n = n, .is_sum = is_sum, .reason = reason};
    f.ids             = ids;
    *out              = NULL;
    reason[0]         = 0;
    f.about           = ipu__alloc_zeroed(m->values.n * sizeof *f.about);
    f.folded          = ipu__alloc_zeroed(m->values.n * sizeof *f.folded);
    ipu_status status = f.about && f.folded ? ipu_model_create(&f.to) : ipu__fail_memory();
    if (f.to) {
        f.to->seed_value   = m->seed_value;
        f.to->is_inference = m->is_inference;
        status             = fold(&f);
    }
    if (status == IPU_OK && !*reason) {
        *out = f.to;
        f.to = NULL;
    }
    ipu_model_destroy(f.to);
    ipu__free(f.about);
    ipu__free(f.folded);
    return status;
}
