/* Training over several batches and replicas: gradients are added up in states of the network's model, which the
 * optimizer's step, a model of its own, shares by their names.
 */
#include <stdio.h>
#include <string.h>

#include "model/parallel/parallel.h"

static ipu_status status_of(ipu_model *m)
{
    ipu_builder *b = ipu_model_builder(m);
    return ipu_builder_status(b) == IPU_OK ? IPU_OK
                                           : ipu__fail(ipu_builder_status(b), "%s", ipu_builder_message(b));
}

static bool is_split(const ipu__parallel *o, const ipu_model *net)
{
    return o->accumulation * ipu__parallel_n_replicas(o) > 1 || o->optimizer_off_chip || o->stages > 1
        || ipu_model_n_stages(net) > 1;
}

void ipu__parallel_gradient_name(const char *parameter, char out[IPU__GRADIENT_NAME])
{
    snprintf(out, IPU__GRADIENT_NAME, "%.250s" IPU__GRADIENT_SUFFIX, parameter);
}

/* What sums of gradients are multiplied by. */
static double gradient_scale(const ipu__parallel *o)
{
    if (o->reduction == IPU_REDUCTION_SUM) return 1;
    double n = o->running_mean ? 1 : (double)o->accumulation;
    return 1 / (n * (double)ipu__parallel_n_replicas(o));
}

/* sum + gradient, or the mean so far: after k batches of which this is number k + 1, mean + (gradient - mean) / (k + 1).
 * Of one batch: the gradient itself, scaled, whatever was there. */
static ipu_value accumulated(const ipu__parallel *o, ipu_model *m, ipu_value sum, ipu_value gradient,
                             ipu_value count)
{
    ipu_builder *b = ipu_model_builder(m);
    if (ipu_value_type(gradient) != ipu_value_type(sum))
        gradient = ipu_cast(b, gradient, ipu_value_type(sum));
    if (o->accumulation == 1) {
        double scale = gradient_scale(o); /* here, where it may be done as the gradient is computed */
        return scale == 1 ? gradient : ipu_mul(b, gradient, ipu_scalar_like(b, gradient, scale));
    }
    if (!o->running_mean || o->reduction != IPU_REDUCTION_MEAN) return ipu_add(b, sum, gradient);
    ipu_value n = ipu_cast(b, count, ipu_value_type(sum));
    return ipu_add(b, sum, ipu_div(b, ipu_sub(b, gradient, sum), n));
}

/* Gradients of the network's parameters go to states; what is not trained has none. */
static void accumulate(const ipu__parallel *o, ipu_model *m, const ipu_value *w, const ipu_value *dw,
                       size_t n)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    count = {b, 0};
    if (o->running_mean) {
        ipu_value done = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__GRADIENT_COUNT);
        count          = ipu_add(b, done, ipu_scalar_like(b, done, 1));
        ipu_model_update(m, done, count);
    }
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        if (!dw[i].id) continue;
        char     name[IPU__GRADIENT_NAME];
        ipu_type type = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        ipu__parallel_gradient_name(ipu_value_name(w[i]), name);
        ipu_value sum = ipu_model_state(m, type, ipu_value_shape(w[i]), NULL, name);
        ipu_model_update(m, sum, accumulated(o, m, sum, dw[i], count));
    }
}

/* The optimizer's step as a model of its own: parameters, sums and what else it shares have the names they have in the
 * network. Sums are cleared afterwards (shard.c). */
static ipu_status build_step(const ipu__parallel *o, const ipu_nn_training *how, const ipu_value *w,
                             const ipu_value *dw, size_t n, ipu__parallel_models *out)
{
    IPU_TRY(ipu_model_create(&out->step));
    ipu_model   *m      = out->step;
    ipu_builder *b      = ipu_model_builder(m);
    m->rounds_at_random = out->net->rounds_at_random;
    ipu_value *mine     = ipu__alloc(2 * (n + 1) * sizeof *mine);
    size_t     k        = 0;
    if (!mine) return ipu__fail_memory();
    ipu_value *gradient = mine + n + 1;
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        char name[IPU__GRADIENT_NAME];
        if (!dw[i].id) continue;
        ipu__parallel_gradient_name(ipu_value_name(w[i]), name);
        ipu_shape whole = ipu_value_shape(w[i]), shape = ipu__parallel_shard_shape(o, whole);
        mine[k]     = ipu_model_parameter(m, ipu_value_type(w[i]), shape, NULL, ipu_value_name(w[i]));
        ipu_type t  = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        gradient[k] = ipu_model_state(m, t, shape, NULL, name);
        if (ipu__parallel_n_shards(o, &whole) > 1) ipu__model_mark_shard(m, mine[k]);
        k++;
    }
    double scale = o->accumulation > 1 ? gradient_scale(o) : 1; /* of one: done already */
    if (ipu_builder_status(b) == IPU_OK) ipu__nn_step(m, how, scale, mine, gradient, k);
    if (o->running_mean) {
        ipu_value count = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__GRADIENT_COUNT);
        ipu_model_update(m, count, ipu_scalar_like(b, count, 0));
    }
    ipu__free(mine);
    return status_of(m);
}

ipu_status ipu__parallel_train(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *out)
{
    if (!is_split(o, out->net)) {
        ipu_nn_train_with(out->net, how);
        return status_of(out->net);
    }
    ipu_model *m = out->net;
    size_t     n = m->parameters.n;
    ipu__model_any_stage(m); /* losses and sums of gradients are where what they add up is */
    ipu_value *w = ipu__alloc(2 * (n + 1) * sizeof *w);
    if (!w) return ipu__fail_memory();
    ipu_value *dw = w + n + 1;
    for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
    if (ipu__nn_check_training(m, how)) ipu__nn_gradients(m, how, w, n, dw);
    ipu_status status = status_of(m);
    if (status == IPU_OK) {
        accumulate(o, m, w, dw, n);
        status = status_of(m);
    }
    if (status == IPU_OK) status = build_step(o, how, w, dw, n, out);
    ipu__free(w);
    return status;
}

bool ipu__parallel_is_gradient_sum(const char *name)
{
    size_t n = strlen(name), m = strlen(IPU__GRADIENT_SUFFIX);
    return n > m && strcmp(name + n - m, IPU__GRADIENT_SUFFIX) == 0;
}
