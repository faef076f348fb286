/* Computes values from constants: for folding, and for importers that must know a shape. */
#include "model/evaluate.h"

#include <string.h>

#include "graph/graph.h"
#include "model/pass/pass.h"

/* For a reference, and for one whole evaluation: a second or two. */
#define MOST_WORK 0x1p25
#define MOST_WORK_OF_ALL 0x1p26
#define MOST_BYTES_OF_ALL 0x1p28

/* In `known`: this value cannot be computed. */
static const char not_known;

void ipu__evaluation_fini(ipu__evaluation *e)
{
    ipu_graph_destroy(e->scratch);
    ipu__array_fini(&e->known);
    ipu__array_fini(&e->lost);
    ipu__array_fini(&e->open);
}

/* ---- views ---- */

static ipu_status scratch_graph(ipu__evaluation *e)
{
    ipu_target target;
    if (e->scratch) return IPU_OK;
    IPU_TRY(ipu_target_find("gc200", 1, &target)); /* any chip will do: nothing is mapped */
    return ipu_graph_create(&target, 1, &e->scratch);
}

/* The elements that `view` selects of variables whose values are data[variable]. */
static void gather(ipu_graph *g, ipu_tensor view, uint32_t first, const void *const *data, char *out)
{
    size_t    bytes = ipu_type_size(ipu_tensor_type(view));
    ipu__runs runs  = ipu__view_runs(&g->views, view.id);
    ipu__run  run;
    while (ipu__runs_next(&runs, &run)) {
        const char *from = data[run.var - first];
        for (int64_t i = 0; i < run.count; i++, out += bytes)
            memcpy(out, from + (run.start + i * run.stride) * (int64_t)bytes, bytes);
    }
}

static ipu_status compute_view(ipu__evaluation *e, const ipu__model_op *op, const ipu__kernel_call *call,
                               void *const *operand)
{
    ipu_tensor  in[IPU__MAX_OPERANDS];
    const void *data[IPU__MAX_OPERANDS];
    IPU_TRY(scratch_graph(e));
    ipu_graph *g     = e->scratch;
    uint32_t   first = (uint32_t)g->variables.n, n = 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        in[i] = (ipu_tensor){g, 0};
        if (!op->in[i]) continue;
        in[i]     = ipu_graph_add_variable(g, call->operand[i].type, call->operand[i].shape, NULL);
        data[n++] = operand[i];
    }
    ipu_tensor view = op->def->view(g, call, in);
    if (ipu_graph_status(g) != IPU_OK) return ipu__fail(ipu_graph_status(g), "%s", ipu_graph_message(g));
    char *out = operand[op->n_in];
    if (out && ipu_tensor_n_elements(view) > 0) gather(g, view, first, data, out);
    return IPU_OK;
}

ipu_status ipu__evaluate_op(ipu__evaluation *e, const ipu__model_op *op, const ipu__kernel_call *call,
                            void *const *operand)
{
    if (op->def->view) return compute_view(e, op, call, operand);
    if (op->def->kernel.examine) IPU_TRY(op->def->kernel.examine(call, operand));
    if (ipu__kernel_has_output(call)) op->def->kernel.ref(call, operand);
    return IPU_OK;
}

ipu_status ipu__evaluate_alloc(ipu_model *m, const ipu__model_op *op, const ipu__kernel_call *call,
                               void **operand)
{
    for (int i = (int)op->n_in; i < call->n_operands; i++) {
        const ipu__kernel_value *v     = &call->operand[i];
        size_t                   bytes = (size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type);
        operand[i]                     = ipu__arena_alloc(&m->base.arena, bytes + 1);
        if (!operand[i]) return ipu__fail_memory();
    }
    return IPU_OK;
}

/* ---- computing values ---- */

/* Whether it may be computed; adds its cost to `e`. A view costs its number of elements. */
static bool afford(ipu__evaluation *e, const ipu__model_op *op, const ipu__kernel_call *call)
{
    double work = 0, bytes = 0;
    if (op->def->flags & IPU__OP_IMPURE) return false;
    if (!op->def->view && !op->def->kernel.ref) return false;
    for (int i = (int)op->n_in; i < call->n_operands; i++) {
        double n = (double)ipu__op_n_elements(&call->operand[i].shape);
        work += n;
        bytes += n * (double)ipu_type_size(call->operand[i].type);
    }
    if (!op->def->view) work += ipu__kernel_ref_work(call);
    if (work > MOST_WORK || e->work + work > MOST_WORK_OF_ALL || e->bytes + bytes > MOST_BYTES_OF_ALL) {
        e->gave_up = true;
        return false;
    }
    e->work += work;
    e->bytes += bytes;
    return true;
}

/* NULL if not known yet. */
static const void *data_of(const ipu__evaluation *e, uint32_t id)
{
    const ipu__model_value *v = &e->m->values.at[id];
    return v->kind == IPU__VALUE_CONSTANT ? v->data : e->known.at[id];
}

static ipu_status lose(ipu__evaluation *e, uint32_t id)
{
    e->known.at[id] = &not_known;
    return ipu__push(&e->lost, id) ? IPU_OK : ipu__fail_memory();
}

/* Computes `op`, whose inputs are known. */
static ipu_status compute(ipu__evaluation *e, const ipu__model_op *op)
{
    void            *operand[IPU__MAX_OPERANDS] = {NULL};
    ipu__kernel_call call                       = ipu__model_call(e->m, op);
    if (!afford(e, op, &call)) {
        for (uint32_t i = 0; i < op->n_out; i++) IPU_TRY(lose(e, op->first_out + i));
        return IPU_OK;
    }
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i]) operand[i] = (void *)(uintptr_t)data_of(e, op->in[i]);
    IPU_TRY(ipu__evaluate_alloc(e->m, op, &call, operand));
    IPU_TRY(ipu__evaluate_op(e, op, &call, operand));
    for (uint32_t i = 0; i < op->n_out; i++) e->known.at[op->first_out + i] = operand[op->n_in + i];
    return IPU_OK;
}

/* Computes the last open value, or opens what it needs first. */
static ipu_status step(ipu__evaluation *e)
{
    uint32_t             id   = e->open.at[e->open.n - 1];
    const ipu__model_op *op   = ipu__pass_definer(e->m, id);
    bool                 lost = !op;
    for (uint32_t i = 0; !lost && i < op->n_in; i++) {
        const void *data = op->in[i] ? data_of(e, op->in[i]) : e;
        if (!data) return ipu__push(&e->open, op->in[i]) ? IPU_OK : ipu__fail_memory();
        lost = data == &not_known;
    }
    e->open.n--;
    return lost ? lose(e, id) : compute(e, op);
}

ipu_status ipu__evaluate(ipu__evaluation *e, uint32_t id, const void **data)
{
    ipu_status status = IPU_OK;
    *data             = NULL;
    while (e->known.n < e->m->values.n)
        if (!ipu__push(&e->known, NULL)) return ipu__fail_memory();
    e->open.n = 0;
    if (!data_of(e, id) && !ipu__push(&e->open, id)) return ipu__fail_memory();
    while (e->open.n > 0 && status == IPU_OK) status = step(e);
    if (status == IPU_OK && data_of(e, id) != &not_known) *data = data_of(e, id);
    return status;
}

bool ipu__evaluation_has(const ipu__evaluation *e, uint32_t id)
{
    return id < e->known.n && e->known.at[id] && e->known.at[id] != &not_known;
}

void ipu__evaluation_retry(ipu__evaluation *e)
{
    for (size_t i = 0; i < e->lost.n; i++) e->known.at[e->lost.at[i]] = NULL;
    e->lost.n  = 0;
    e->gave_up = false;
}

void ipu__evaluation_rewind(ipu__evaluation *e, size_t n_values)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->lost.n; i++)
        if (e->lost.at[i] < n_values) e->lost.at[kept++] = e->lost.at[i];
    e->lost.n = kept;
    if (e->known.n > n_values) e->known.n = n_values;
}
