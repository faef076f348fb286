/* Computing values from constants: for folding, and for importers that must know a shape. */
#include "model/evaluate.h"

#include <string.h>

#include "graph/graph.h"
#include "model/pass.h"

enum { MOST_DEPTH = 2000 }; /* of values that are made of values */

/* Of a reference, and of all that one evaluation computes: some seconds at most. */
#define MOST_WORK 0x1p26
#define MOST_WORK_OF_ALL 0x1p28
#define MOST_BYTES_OF_ALL 0x1p29

void ipu__evaluation_fini(ipu__evaluation *e)
{
    ipu_graph_destroy(e->scratch);
    ipu__array_fini(&e->known);
}

/* ---- views ---- */

static ipu_status scratch_graph(ipu__evaluation *e)
{
    ipu_target target;
    if (e->scratch) return IPU_OK;
    IPU_TRY(ipu_target_find("gc200", 1, &target)); /* which does not matter: nothing is mapped */
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

static ipu_status compute_view(ipu__evaluation *e, const ipu__model_op *op, const ipu_kernel_call *call,
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

ipu_status ipu__evaluate_op(ipu__evaluation *e, const ipu__model_op *op, const ipu_kernel_call *call,
                            void *const *operand)
{
    if (op->def->view) return compute_view(e, op, call, operand);
    if (op->def->kernel.examine) IPU_TRY(op->def->kernel.examine(call, operand));
    if (ipu__kernel_has_output(call)) op->def->kernel.ref(call, operand);
    return IPU_OK;
}

ipu_status ipu__evaluate_alloc(ipu_model *m, const ipu__model_op *op, const ipu_kernel_call *call,
                               void **operand)
{
    for (int i = (int)op->n_in; i < call->n_operands; i++) {
        const ipu_kernel_value *v     = &call->operand[i];
        size_t                  bytes = (size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type);
        operand[i]                    = ipu__arena_alloc(&m->base.arena, bytes + 1);
        if (!operand[i]) return ipu__fail_memory();
    }
    return IPU_OK;
}

/* ---- values of values ---- */

static ipu_status evaluate(ipu__evaluation *e, uint32_t id, int depth, const void **data);

/* Whether it may be computed; its cost is added to `e`. A view costs by its elements. */
static bool afford(ipu__evaluation *e, const ipu__model_op *op, const ipu_kernel_call *call)
{
    double work = 0, bytes = 0;
    if (op->def->flags & IPU__OP_IMPURE) return false;
    if (!op->def->view && !op->def->kernel.ref) return false;
    for (int i = (int)op->n_in; i < call->n_operands; i++) {
        double n = (double)ipu__op_n_elements(&call->operand[i].shape);
        work += n;
        bytes += n * (double)ipu_type_size(call->operand[i].type);
    }
    if (!op->def->view && op->def->kernel.work) work += op->def->kernel.work(call);
    if (work > MOST_WORK || e->work + work > MOST_WORK_OF_ALL || e->bytes + bytes > MOST_BYTES_OF_ALL)
        return false;
    e->work += work;
    e->bytes += bytes;
    return true;
}

static ipu_status evaluate_definer(ipu__evaluation *e, ipu__model_op *op, int depth, bool *known)
{
    void           *operand[IPU__MAX_OPERANDS] = {NULL};
    ipu_kernel_call call                       = ipu__model_call(e->m, op);
    *known                                     = false;
    for (uint32_t i = 0; i < op->n_in; i++) {
        const void *data = NULL;
        if (!op->in[i]) continue;
        IPU_TRY(evaluate(e, op->in[i], depth + 1, &data));
        if (!data) return IPU_OK;
        operand[i] = (void *)(uintptr_t)data;
    }
    if (!afford(e, op, &call)) return IPU_OK;
    IPU_TRY(ipu__evaluate_alloc(e->m, op, &call, operand));
    IPU_TRY(ipu__evaluate_op(e, op, &call, operand));
    for (uint32_t i = 0; i < op->n_out; i++) e->known.at[op->first_out + i] = operand[op->n_in + i];
    *known = true;
    return IPU_OK;
}

static ipu_status evaluate(ipu__evaluation *e, uint32_t id, int depth, const void **data)
{
    const ipu__model_value *v = &e->m->values.at[id];
    *data                     = NULL;
    if (v->kind == IPU__VALUE_CONSTANT) {
        *data = v->data;
        return IPU_OK;
    }
    while (e->known.n < e->m->values.n)
        if (!ipu__push(&e->known, NULL)) return ipu__fail_memory();
    *data             = e->known.at[id];
    ipu__model_op *op = ipu__pass_definer(e->m, id);
    if (*data || !op || depth > MOST_DEPTH) return IPU_OK;
    bool known;
    IPU_TRY(evaluate_definer(e, op, depth, &known));
    if (known) *data = e->known.at[id];
    return IPU_OK;
}

ipu_status ipu__evaluate(ipu__evaluation *e, uint32_t id, const void **data)
{
    return evaluate(e, id, 0, data);
}
