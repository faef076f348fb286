/* Training over several batches and replicas: gradients accumulate in states of the network's model, which
 * are shared with the optimizer's step, a separate model.
 */
#include "model/parallel/lower.h"

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

/* The factor for sums of gradients. */
static double gradient_scale(const ipu__parallel *o)
{
    if (o->reduction == IPU_REDUCTION_SUM) return 1;
    double n = o->running_mean ? 1 : (double)o->accumulation;
    return 1 / (n * (double)ipu__parallel_n_replicas(o));
}

/* sum + gradient, or the running mean: after k batches, for batch k + 1, mean + (gradient - mean) / (k + 1).
 * For a single batch: the scaled gradient itself, whatever was there. */
static ipu_value accumulated(const ipu__parallel *o, ipu_model *m, ipu_value sum, ipu_value gradient,
                             ipu_value count)
{
    ipu_builder *b = ipu_model_builder(m);
    if (ipu_value_type(gradient) != ipu_value_type(sum))
        gradient = ipu_cast(b, gradient, ipu_value_type(sum));
    if (o->accumulation == 1) {
        double scale = gradient_scale(o); /* here, where it may be done while the gradient is computed */
        return scale == 1 ? gradient : ipu_mul(b, gradient, ipu_scalar_like(b, gradient, scale));
    }
    if (!o->running_mean || o->reduction != IPU_REDUCTION_MEAN) return ipu_add(b, sum, gradient);
    ipu_value n = ipu_cast(b, count, ipu_value_type(sum));
    return ipu_add(b, sum, ipu_div(b, ipu_sub(b, gradient, sum), n));
}

static ipu_type type_of_sum(ipu_value w) { return ipu_value_type(w) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT; }

/* A state of the network known to nothing else; its name is a label. */
static ipu_value add_state(ipu__parallel_models *out, ipu_type type, ipu_shape shape, const char *first,
                           const char *second)
{
    ipu_builder *b    = ipu_model_builder(out->net);
    char        *name = ipu__parallel_free_name(out, first, second);
    ipu_value    none = {b, 0};
    if (!name) ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
    ipu_value state = name ? ipu_model_state(out->net, type, shape, NULL, name) : none;
    ipu__free(name);
    return state;
}

/* Accumulates gradients of the network's parameters in states; untrained ones have none. */
static void accumulate(const ipu__parallel *o, ipu__parallel_models *out, const ipu_value *w,
                       const ipu_value *dw, size_t n)
{
    ipu_model   *m     = out->net;
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    count = {b, 0};
    if (o->running_mean) {
        ipu_value done = add_state(out, IPU_INT32, IPU_SCALAR, "gradient_count", "");
        count          = ipu_add(b, done, ipu_scalar_like(b, done, 1));
        ipu_model_update(m, done, count);
        out->ties.count.net = done.id;
    }
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        if (!dw[i].id) continue;
        ipu_value sum = add_state(out, type_of_sum(w[i]), ipu_value_shape(w[i]), ipu_value_name(w[i]),
                                  ".gradient");
        ipu_model_update(m, sum, accumulated(o, m, sum, dw[i], count));
        if (!ipu__push(&out->ties.trained, (ipu__trained){.parameter.net = w[i].id, .sum.net = sum.id}))
            ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
    }
    out->ties.scale.net = m->loss_scale;
}

/* What the step shares has the same name as in the network. Sums are cleared afterwards (shard.c). */
static void add_step(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *out,
                     ipu_value *w, ipu_value *gradient)
{
    ipu_model *net = out->net, *m = out->step;
    size_t     n = out->ties.trained.n;
    for (size_t i = 0; i < n; i++) {
        ipu__trained *t = &out->ties.trained.at[i];
        ipu_value whole = ipu__model_handle(net, t->parameter.net), sum = ipu__model_handle(net, t->sum.net);
        ipu_shape shape = ipu_value_shape(whole), part = ipu__parallel_shard_shape(o, shape);
        w[i]        = ipu_model_parameter(m, ipu_value_type(whole), part, NULL, ipu_value_name(whole));
        gradient[i] = ipu_model_state(m, ipu_value_type(sum), part, NULL, ipu_value_name(sum));
        if (ipu__parallel_n_shards(o, &shape) > 1) ipu__model_mark_shard(m, w[i]);
        t->parameter.step = w[i].id;
        t->sum.step       = gradient[i].id;
    }
    double scale = o->accumulation > 1 ? gradient_scale(o) : 1; /* of one: already done */
    if (m->base.status == IPU_OK) ipu__nn_step(m, how, scale, w, gradient, n);
    if (out->ties.count.net) {
        ipu_value count = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL,
                                          net->base.values.at[out->ties.count.net].name);
        ipu_model_update(m, count, ipu_scalar_like(&m->base, count, 0));
        out->ties.count.step = count.id;
    }
    out->ties.scale.step = out->ties.scale.net ? m->loss_scale : 0;
}

/* The host accesses both models' kept values by name, so names must be unique. */
static ipu_status check_names(const ipu__parallel_models *models)
{
    const ipu_model *step = models->step;
    uint32_t         known;
    for (size_t i = 0; i < step->states.n; i++) {
        const char *name = step->base.values.at[step->states.at[i]].name;
        if (!ipu__ties_has_step(&models->ties, step->states.at[i])
            && ipu__map_find(&models->net->names, name, &known))
            return ipu__fail(
                IPU_INVALID,
                "training: the name \"%s\" is taken: the optimizer has a state of that name, and so "
                "has the network an input, parameter, state or output: rename the latter",
                name);
    }
    return IPU_OK;
}

/* The optimizer's step as a separate model. */
static ipu_status build_step(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *out)
{
    size_t     n    = out->ties.trained.n + 1;
    ipu_value *mine = ipu__alloc(2 * n * sizeof *mine);
    if (!mine) return ipu__fail_memory();
    ipu_status status = ipu_model_create(&out->step);
    if (status == IPU_OK) {
        out->step->rounds_at_random = out->net->rounds_at_random;
        add_step(o, how, out, mine, mine + n);
        status = status_of(out->step);
    }
    ipu__free(mine);
    return status == IPU_OK ? check_names(out) : status;
}

ipu_status ipu__parallel_train(const ipu__parallel *o, const ipu_nn_training *how, ipu__parallel_models *out)
{
    if (!is_split(o, out->net)) {
        ipu_nn_train_with(out->net, how);
        return status_of(out->net);
    }
    ipu_model *m = out->net;
    size_t     n = m->parameters.n;
    ipu__model_any_stage(m); /* losses and sums of gradients go where their inputs are */
    ipu_value *w = ipu__alloc(2 * (n + 1) * sizeof *w);
    if (!w) return ipu__fail_memory();
    ipu_value *dw = w + n + 1;
    for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
    if (ipu__nn_check_training(m, how)) ipu__nn_gradients(m, how, w, n, dw);
    ipu_status status = status_of(m);
    if (status == IPU_OK) {
        accumulate(o, out, w, dw, n);
        status = status_of(m);
    }
    if (status == IPU_OK) status = build_step(o, how, out);
    ipu__free(w);
    return status;
}
