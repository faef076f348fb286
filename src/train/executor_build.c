/* The models of an executor: of the network with its gradients, and of the optimizer's step.
 *
 * requires: inputs of the executor are known. Gradients of several batches are added up in states of the network's
 * model, which the step's model shares by their names.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/graph.h"
#include "train/executor.h"

/* ---- models ---- */

void ipu__executor_models_fini(ipu__executor_models *m)
{
    ipu_model_destroy(m->net);
    ipu_model_destroy(m->step);
    *m = (ipu__executor_models){0};
}

static ipu_status status_of(ipu_model *m)
{
    ipu_builder *b = ipu_model_builder(m);
    return ipu_builder_status(b) == IPU_OK ? IPU_OK
                                           : ipu__fail(ipu_builder_status(b), "%s", ipu_builder_message(b));
}

static bool is_split(const ipu_executor *x, const ipu_model *net)
{
    return x->options.gradient_accumulation * ipu__executor_n_replicas(x) > 1 || x->options.optimizer_off_chip
        || x->options.stages > 1 || ipu_model_n_stages(net) > 1;
}

void ipu__executor_gradient_name(const char *parameter, char out[IPU__GRADIENT_NAME])
{
    snprintf(out, IPU__GRADIENT_NAME, "%.250s" IPU__GRADIENT_SUFFIX, parameter);
}

/* What sums of gradients are multiplied by. */
static double gradient_scale(const ipu_executor *x)
{
    const ipu_executor_options *o = &x->options;
    if (o->reduction == IPU_REDUCTION_SUM) return 1;
    double n = o->running_mean ? 1 : (double)o->gradient_accumulation;
    return 1 / (n * (double)ipu__executor_n_replicas(x));
}

/* sum + gradient, or the mean so far: after k batches of which this is number k + 1, mean + (gradient - mean) / (k + 1).
 * Of one batch: the gradient itself, scaled, whatever was there. */
static ipu_value accumulated(const ipu_executor *x, ipu_model *m, ipu_value sum, ipu_value gradient,
                             ipu_value count)
{
    ipu_builder *b = ipu_model_builder(m);
    if (ipu_value_type(gradient) != ipu_value_type(sum))
        gradient = ipu_cast(b, gradient, ipu_value_type(sum));
    if (x->options.gradient_accumulation == 1) {
        double scale = gradient_scale(x); /* here, where it may be done as the gradient is computed */
        return scale == 1 ? gradient : ipu_mul(b, gradient, ipu_scalar_like(b, gradient, scale));
    }
    if (!x->options.running_mean || x->options.reduction != IPU_REDUCTION_MEAN)
        return ipu_add(b, sum, gradient);
    ipu_value n = ipu_cast(b, count, ipu_value_type(sum));
    return ipu_add(b, sum, ipu_div(b, ipu_sub(b, gradient, sum), n));
}

/* Gradients of the network's parameters go to states; what is not trained has none. */
static void accumulate(const ipu_executor *x, ipu_model *m, const ipu_value *w, const ipu_value *dw, size_t n)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    count = {b, 0};
    if (x->options.running_mean) {
        ipu_value done = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__GRADIENT_COUNT);
        count          = ipu_add(b, done, ipu_scalar_like(b, done, 1));
        ipu_model_update(m, done, count);
    }
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        if (!dw[i].id) continue;
        char     name[IPU__GRADIENT_NAME];
        ipu_type type = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        ipu__executor_gradient_name(ipu_value_name(w[i]), name);
        ipu_value sum = ipu_model_state(m, type, ipu_value_shape(w[i]), NULL, name);
        ipu_model_update(m, sum, accumulated(x, m, sum, dw[i], count));
    }
}

/* The optimizer's step as a model of its own: parameters, sums and what else it shares have the names they have in the
 * network. Sums are cleared afterwards (executor_shard.c). */
static ipu_status build_step(const ipu_executor *x, const ipu_value *w, const ipu_value *dw, size_t n,
                             ipu__executor_models *out)
{
    IPU_TRY(ipu_model_create(&out->step));
    ipu_model   *m      = out->step;
    ipu_builder *b      = ipu_model_builder(m);
    m->rounds_at_random = ipu__executor_rounds_at_random(x, out);
    ipu_value *mine     = ipu__alloc(2 * (n + 1) * sizeof *mine);
    size_t     k        = 0;
    if (!mine) return ipu__fail_memory();
    ipu_value *gradient = mine + n + 1;
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        char name[IPU__GRADIENT_NAME];
        if (!dw[i].id) continue;
        ipu__executor_gradient_name(ipu_value_name(w[i]), name);
        ipu_shape whole = ipu_value_shape(w[i]), shape = ipu__executor_shard_shape(x, whole);
        mine[k]     = ipu_model_parameter(m, ipu_value_type(w[i]), shape, NULL, ipu_value_name(w[i]));
        ipu_type t  = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        gradient[k] = ipu_model_state(m, t, shape, NULL, name);
        if (ipu__executor_n_shards(x, &whole) > 1) ipu__model_mark_shard(m, mine[k]);
        k++;
    }
    double scale = x->options.gradient_accumulation > 1 ? gradient_scale(x) : 1; /* of one: done already */
    if (ipu_builder_status(b) == IPU_OK) ipu__nn_step(m, &x->how, scale, mine, gradient, k);
    if (x->options.running_mean) {
        ipu_value count = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__GRADIENT_COUNT);
        ipu_model_update(m, count, ipu_scalar_like(b, count, 0));
    }
    ipu__free(mine);
    return status_of(m);
}

static ipu_status build_training(ipu_executor *x, ipu__executor_models *out)
{
    if (!is_split(x, out->net)) {
        ipu_nn_train_with(out->net, &x->how);
        return status_of(out->net);
    }
    ipu_model *m = out->net;
    size_t     n = m->parameters.n;
    ipu__model_any_stage(m); /* losses and sums of gradients are where what they add up is */
    ipu_value *w = ipu__alloc(2 * (n + 1) * sizeof *w);
    if (!w) return ipu__fail_memory();
    ipu_value *dw = w + n + 1;
    for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
    if (ipu__nn_check_training(m, &x->how)) ipu__nn_gradients(m, &x->how, w, n, dw);
    ipu_status status = status_of(m);
    if (status == IPU_OK) {
        accumulate(x, m, w, dw, n);
        status = status_of(m);
    }
    if (status == IPU_OK) status = build_step(x, w, dw, n, out);
    ipu__free(w);
    return status;
}

ipu_status ipu__executor_build(ipu_executor *x, const ipu__engine_def *engine, ipu__executor_models *out)
{
    *out             = (ipu__executor_models){.engine = engine};
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
    IPU_TRY(ipu__executor_begin_stages(x, out->net));
    if (x->training) IPU_TRY(build_training(x, out));
    IPU_TRY(ipu__executor_finish_precision(x, out));
    return ipu__executor_end_stages(x, out->net);
}

bool ipu__executor_is_gradient_sum(const char *name)
{
    size_t n = strlen(name), m = strlen(IPU__GRADIENT_SUFFIX);
    return n > m && strcmp(name + n - m, IPU__GRADIENT_SUFFIX) == 0;
}
