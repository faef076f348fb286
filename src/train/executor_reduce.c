/* Gradients of all replicas of all processes, added up before the optimizer's step. */
#include "graph/graph.h"
#include "ipu/comm.h"
#include "train/executor.h"

/* All sums of gradients of one type as one vector; null: there are none. `parts`: room for all states. */
static ipu_tensor all_sums(const ipu__executor_lowered *l, ipu_type type, ipu_tensor *parts)
{
    const ipu_model *m = l->models.step;
    size_t           n = 0;
    for (size_t i = 0; i < m->states.n; i++) {
        uint32_t id = m->states.at[i];
        if (!m->values.at[id].bound.id || !ipu__executor_is_gradient_sum(m->base.values.at[id].name)
            || m->base.values.at[id].type != type)
            continue;
        parts[n++] = ipu_tensor_flatten(m->values.at[id].bound);
    }
    return n > 0 ? ipu_tensor_concat(parts, n, 0) : (ipu_tensor){l->g, 0};
}

ipu_status ipu__executor_reduce(const ipu_executor *x, ipu__executor_lowered *l, ipu_program p)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_DOUBLE}; /* that sums have */
    if (ipu_graph_replication(l->g) == 1 && ipu_comm_size(x->options.comm) == 1) return IPU_OK;
    ipu_tensor *parts = ipu__alloc((l->models.step->states.n + 1) * sizeof *parts);
    if (!parts) return ipu__fail_memory();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        ipu_tensor all = all_sums(l, types[i], parts);
        if (all.id) ipu_program_add_all_reduce(p, all);
    }
    ipu_program_add_all_reduce_wait(p);
    ipu__free(parts);
    return ipu__executor_graph_status(l->g);
}
