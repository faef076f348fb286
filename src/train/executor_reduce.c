/* Gradients of all replicas, added up before the optimizer's step.
 *
 * A replica exchanges with the one whose number differs in bit 0, then 1, and so on: all of them then make the same
 * additions, with the same bits.
 */
#include "graph/graph.h"
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

/* With the replica whose number differs in bit 0, then 1, ... */
static void add_up(ipu_graph *g, ipu_program p, ipu_tensor all, int64_t n, int64_t *partner)
{
    ipu_tensor sum = ipu_graph_add_variable(g, ipu_tensor_type(all), ipu_tensor_shape(all), "gradients");
    ipu_graph_map_linearly(g, sum);
    ipu_tensor arriving = ipu_graph_clone(g, sum, "gradients.arriving");
    ipu_program_add_copy(p, all, sum);
    for (int64_t bit = 1; bit < n; bit *= 2) {
        for (int64_t r = 0; r < n; r++) partner[r] = r ^ bit;
        ipu_program_add_cross_replica_copy(p, sum, arriving, partner, (size_t)n);
        ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){sum, arriving, sum}, 3);
    }
    ipu_program_add_copy(p, sum, all);
}

ipu_status ipu__executor_reduce(const ipu_executor *x, ipu__executor_lowered *l, ipu_program p)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_DOUBLE}; /* that sums have */
    int64_t               n       = ipu_graph_replication(l->g);
    (void)x;
    if (n == 1) return IPU_OK;
    ipu_tensor *parts   = ipu__alloc((l->models.step->states.n + 1) * sizeof *parts);
    int64_t    *partner = ipu__alloc((size_t)n * sizeof *partner);
    ipu_status  status  = parts && partner ? IPU_OK : ipu__fail_memory();
    for (size_t i = 0; status == IPU_OK && i < sizeof types / sizeof *types; i++) {
        ipu_tensor all = all_sums(l, types[i], parts);
        if (all.id) add_up(l->g, p, all, n, partner);
    }
    ipu__free(parts);
    ipu__free(partner);
    return status == IPU_OK ? ipu__executor_graph_status(l->g) : status;
}
