/* The builder over a graph: each op is a kernel step on new variables, or a view.
 *
 * requires: a graph that outlives the builder. Results are mapped linearly over its tiles.
 */
#include "graph/graph.h"
#include "op/builder.h"

typedef struct graph_builder {
    ipu_builder base;
    ipu_graph  *g;
    ipu_program program;
    IPU__ARRAY(ipu_tensor) tensors; /* by id; 0 unused */
} graph_builder;

static graph_builder *self(ipu_builder *b) { return (graph_builder *)b; }

/* The graph's own sentence already tells the place: the builder keeps it as it is. */
static ipu_status graph_status(const graph_builder *gb)
{
    ipu_status status = ipu_graph_status(gb->g);
    return status == IPU_OK ? IPU_OK : ipu__fail(status, "%s", ipu_graph_message(gb->g));
}

static ipu_status add(graph_builder *gb, ipu_tensor t, ipu_value *out)
{
    IPU_TRY(graph_status(gb));
    ipu_shape shape = ipu_tensor_shape(t);
    if (!ipu__push(&gb->tensors, t)) return ipu__fail_memory();
    *out = ipu__builder_add(&gb->base, ipu_tensor_type(t), &shape, NULL);
    return gb->base.status;
}

static ipu_status emit(ipu_builder *b, const ipu__op_def *op, const ipu__kernel_call *call,
                       const ipu_value *in, ipu_value *out)
{
    graph_builder *gb = self(b);
    ipu_tensor     operands[IPU__MAX_OPERANDS];
    for (int i = 0; i < op->n_in; i++)
        operands[i] = in[i].id ? gb->tensors.at[in[i].id] : (ipu_tensor){gb->g, 0};
    if (op->view) return add(gb, op->view(gb->g, call, operands), &out[0]);
    for (int i = op->n_in; i < call->n_operands; i++) {
        operands[i] = ipu_graph_add_variable(gb->g, call->operand[i].type, call->operand[i].shape, NULL);
        ipu_graph_map_linearly(gb->g, operands[i]);
    }
    ipu_program_add_kernel(gb->program, op->kernel.name, call->attributes, call->n_attributes, operands,
                           (size_t)call->n_operands);
    for (int i = op->n_in; i < call->n_operands; i++) IPU_TRY(add(gb, operands[i], &out[i - op->n_in]));
    return IPU_OK;
}

static ipu_status constant(ipu_builder *b, ipu__kernel_value value, const void *data, ipu_value *out)
{
    graph_builder *gb = self(b);
    ipu_tensor     t  = ipu_graph_add_constant(gb->g, value.type, value.shape, data, NULL);
    ipu_graph_map_linearly(gb->g, t);
    return add(gb, t, out);
}

static const ipu__builder_class graph_class = {.emit = emit, .constant = constant};

ipu_status ipu_builder_create(ipu_graph *g, ipu_program p, ipu_builder **out)
{
    *out = NULL;
    if (!g || !p.graph || p.graph->root != g->root || p.id == 0)
        return ipu__fail(IPU_INVALID, "ipu_builder_create: expected a graph and a program of it");
    graph_builder *gb = ipu__alloc_zeroed(sizeof *gb);
    if (!gb) return ipu__fail_memory();
    gb->g             = g;
    gb->program       = p;
    ipu_status status = ipu__builder_init(&gb->base, &graph_class);
    if (status == IPU_OK && !ipu__push(&gb->tensors, (ipu_tensor){g, 0})) status = ipu__fail_memory();
    if (status == IPU_OK)
        *out = &gb->base;
    else
        ipu_builder_destroy(&gb->base);
    return status;
}

void ipu_builder_destroy(ipu_builder *b)
{
    if (!b) return;
    ipu__array_fini(&self(b)->tensors);
    ipu__builder_fini(b);
    ipu__free(b);
}

ipu_value ipu_builder_value(ipu_builder *b, ipu_tensor t)
{
    ipu_value out = {b, 0};
    if (b->status != IPU_OK) return out;
    if (b->class != &graph_class)
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_builder_value: this builder is a model's, which has no tensors");
    else if (!ipu__graph_has(self(b)->g, __func__, t) || add(self(b), t, &out) != IPU_OK)
        ipu__builder_fail(b, IPU_INVALID, "%s", ipu_message());
    return out;
}

ipu_tensor ipu_value_tensor(ipu_value v)
{
    if (!v.builder || v.builder->class != &graph_class || v.id >= self(v.builder)->tensors.n)
        return (ipu_tensor){NULL, 0};
    return self(v.builder)->tensors.at[v.id];
}
