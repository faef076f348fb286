/* A model compiled: a copy of it is optimised and lowered to a graph, which is compiled. */
#include "model/model.h"

static ipu_status lower_and_compile(ipu_model *m, const ipu_target *target, const ipu_options *options,
                                    ipu_executable **out)
{
    ipu_graph  *g;
    ipu_program run;
    IPU_TRY(ipu_model_optimise(m, IPU_PASS_ALL));
    IPU_TRY(ipu_graph_create(target, 1, &g));
    ipu_status status = ipu_model_lower(m, g, &run);
    if (status == IPU_OK) status = ipu_executable_compile(g, &run, 1, options, out);
    ipu_graph_destroy(g);
    return status;
}

ipu_status ipu_model_compile(ipu_model *m, const ipu_target *target, const ipu_options *options,
                             ipu_executable **out)
{
    *out = NULL;
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    ipu_model *copy = ipu__model_copy(m);
    if (!copy) return ipu__fail_memory();
    ipu_status status = lower_and_compile(copy, target, options, out);
    ipu_model_destroy(copy);
    return status;
}
