/* The models of an executor: the network of its module, in its precision, trained.
 *
 * requires: inputs of the executor are known.
 */
#include "train/executor/executor.h"

ipu_status ipu__executor_build(ipu__executor_program *p, const ipu__engine_def *engine,
                               ipu__parallel_models *out)
{
    *out             = (ipu__parallel_models){.engine = engine};
    ipu__port *ports = ipu__alloc((p->streams.inputs.n + 1) * sizeof *ports);
    if (!ports) return ipu__fail_memory();
    for (size_t i = 0; i < p->streams.inputs.n; i++) ports[i] = p->streams.inputs.at[i].port;
    ipu_status status = ipu__module_build(p->x->module, ports, p->streams.inputs.n, p->x->training,
                                          &out->net);
    ipu__free(ports);
    IPU_TRY(status);
    if (out->net->outputs.n == 0)
        return ipu__fail(IPU_INVALID,
                         "the network has no output: name one with ipu_model_output or ipu_nn_loss");
    p->weights.numbers.n = 0;
    IPU_TRY(ipu__module_register(p->x->module, out->net, &p->weights.numbers));
    IPU_TRY(ipu__executor_set_precision(p, out));
    IPU_TRY(ipu__parallel_begin_stages(&p->over, out->net));
    if (p->x->training) IPU_TRY(ipu__parallel_train(&p->over, &p->x->how, out));
    IPU_TRY(ipu__executor_finish_precision(p, out));
    return ipu__parallel_end_stages(&p->over, out->net);
}

ipu_status ipu__executor_lower_for_chip(ipu__executor_program *p, ipu__parallel_program *out)
{
    ipu__parallel_models models;
    *out              = (ipu__parallel_program){0};
    ipu_status status = ipu__executor_build(p, NULL, &models);
    if (status == IPU_OK) status = ipu__parallel_lower(&p->over, &models, out);
    ipu__parallel_models_fini(&models);
    return status;
}
