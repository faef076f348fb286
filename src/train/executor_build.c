/* The models of an executor: the network of its module, in its precision, trained.
 *
 * requires: inputs of the executor are known.
 */
#include "train/executor.h"

ipu_status ipu__executor_build(ipu_executor *x, const ipu__engine_def *engine, ipu__parallel_models *out)
{
    *out             = (ipu__parallel_models){.engine = engine};
    ipu__port *ports = ipu__alloc((x->inputs.n + 1) * sizeof *ports);
    if (!ports) return ipu__fail_memory();
    for (size_t i = 0; i < x->inputs.n; i++) ports[i] = x->inputs.at[i].port;
    ipu_status status = ipu__module_build(x->module, ports, x->inputs.n, x->training, &out->net);
    ipu__free(ports);
    IPU_TRY(status);
    if (out->net->outputs.n == 0)
        return ipu__fail(IPU_INVALID,
                         "the network has no output: name one with ipu_model_output or ipu_nn_loss");
    x->weights.n = 0;
    IPU_TRY(ipu__module_register(x->module, out->net, &x->weights));
    IPU_TRY(ipu__executor_set_precision(x, out));
    IPU_TRY(ipu__parallel_begin_stages(&x->over, out->net));
    if (x->training) IPU_TRY(ipu__parallel_train(&x->over, &x->how, out));
    IPU_TRY(ipu__executor_finish_precision(x, out));
    return ipu__parallel_end_stages(&x->over, out->net);
}

ipu_status ipu__executor_lower_for_chip(ipu_executor *x, ipu__parallel_program *out)
{
    ipu__parallel_models models;
    *out              = (ipu__parallel_program){0};
    ipu_status status = ipu__executor_build(x, NULL, &models);
    if (status == IPU_OK) status = ipu__parallel_lower(&x->over, &models, out);
    ipu__parallel_models_fini(&models);
    return status;
}
