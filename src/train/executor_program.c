/* The program of an executor: models of the network and of the optimizer's step, lowered to one graph.
 *
 * requires: inputs of the executor are known. Gradients of several batches are added up in states of the network's
 * model; replicas add theirs up between the two models by exchanging with the replica whose number differs in bit 0,
 * then 1, and so on: all of them then make the same additions, with the same bits.
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

static bool is_split(const ipu_executor *x)
{
    return x->training && x->options.gradient_accumulation * x->options.replicas > 1;
}

static void gradient_name(const char *parameter, char out[300])
{
    snprintf(out, 300, "%.250s" IPU__GRADIENT_SUFFIX, parameter);
}

/* sum + gradient, or the mean so far: after k batches of which this is number k + 1, mean + (gradient - mean) / (k + 1).
 */
static ipu_value accumulated(const ipu_executor *x, ipu_model *m, ipu_value sum, ipu_value gradient,
                             ipu_value count)
{
    ipu_builder *b = ipu_model_builder(m);
    if (ipu_value_type(gradient) != ipu_value_type(sum))
        gradient = ipu_cast(b, gradient, ipu_value_type(sum));
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
        char     name[300];
        ipu_type type = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        gradient_name(ipu_value_name(w[i]), name);
        ipu_value sum = ipu_model_state(m, type, ipu_value_shape(w[i]), NULL, name);
        ipu_model_update(m, sum, accumulated(x, m, sum, dw[i], count));
    }
}

/* What sums of gradients are multiplied by. */
static double gradient_scale(const ipu_executor *x)
{
    const ipu_executor_options *o = &x->options;
    if (o->reduction == IPU_REDUCTION_SUM) return 1;
    double n = o->running_mean ? 1 : (double)o->gradient_accumulation;
    return 1 / (n * (double)o->replicas);
}

/* The optimizer's step as a model of its own: parameters, sums and what else it shares have the names they have in the
 * network. */
static ipu_status build_step(const ipu_executor *x, const ipu_value *w, const ipu_value *dw, size_t n,
                             ipu_model **out)
{
    IPU_TRY(ipu_model_create(out));
    ipu_model   *m    = *out;
    ipu_builder *b    = ipu_model_builder(m);
    ipu_value   *mine = ipu__alloc(3 * (n + 1) * sizeof *mine);
    size_t       k    = 0;
    if (!mine) return ipu__fail_memory();
    ipu_value *gradient = mine + n + 1, *sums = gradient + n + 1;
    for (size_t i = 0; i < n && ipu_builder_status(b) == IPU_OK; i++) {
        char name[300];
        if (!dw[i].id) continue;
        gradient_name(ipu_value_name(w[i]), name);
        mine[k]     = ipu_model_parameter(m, ipu_value_type(w[i]), ipu_value_shape(w[i]), NULL,
                                          ipu_value_name(w[i]));
        ipu_type t  = ipu_value_type(w[i]) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        sums[k]     = ipu_model_state(m, t, ipu_value_shape(w[i]), NULL, name);
        gradient[k] = sums[k];
        k++;
    }
    if (ipu_builder_status(b) == IPU_OK) ipu__nn_step(m, &x->how, gradient_scale(x), mine, gradient, k);
    for (size_t i = 0; i < k && ipu_builder_status(b) == IPU_OK; i++)
        ipu_model_update(m, sums[i],
                         ipu_constant_value(b, ipu_value_type(sums[i]), ipu_value_shape(sums[i]), 0));
    if (x->options.running_mean) {
        ipu_value count = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__GRADIENT_COUNT);
        ipu_model_update(m, count, ipu_scalar_like(b, count, 0));
    }
    ipu__free(mine);
    return status_of(m);
}

static ipu_status build_training(ipu_executor *x, ipu__executor_models *out)
{
    if (!is_split(x)) {
        ipu_nn_train_with(out->net, &x->how);
        return status_of(out->net);
    }
    ipu_model *m = out->net;
    size_t     n = m->parameters.n;
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
    if (status == IPU_OK) status = build_step(x, w, dw, n, &out->step);
    ipu__free(w);
    return status;
}

ipu_status ipu__executor_build(ipu_executor *x, ipu__executor_models *out)
{
    *out             = (ipu__executor_models){0};
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
    return x->training ? build_training(x, out) : IPU_OK;
}

/* ---- lowering ---- */

static ipu_status graph_status(ipu_graph *g)
{
    return ipu_graph_status(g) == IPU_OK ? IPU_OK
                                         : ipu__fail(ipu_graph_status(g), "%s", ipu_graph_message(g));
}

static ipu_status optimised(const ipu_model *m, ipu_model **out)
{
    *out = ipu__model_copy(m);
    return *out ? ipu_model_optimise(*out, IPU_PASS_ALL) : ipu__fail_memory();
}

/* The kept value of that name; 0: there is none. */
static uint32_t find_kept(const ipu_model *m, const char *name)
{
    for (int kind = 0; kind < 2; kind++) {
        size_t          n   = kind ? m->states.n : m->parameters.n;
        const uint32_t *ids = kind ? m->states.at : m->parameters.at;
        for (size_t i = 0; i < n; i++)
            if (strcmp(m->base.values.at[ids[i]].name, name) == 0) return ids[i];
    }
    return 0;
}

static void share_kept(ipu_model *step, const ipu_model *net)
{
    for (int kind = 0; kind < 2; kind++) {
        size_t          n   = kind ? step->states.n : step->parameters.n;
        const uint32_t *ids = kind ? step->states.at : step->parameters.at;
        for (size_t i = 0; i < n; i++) {
            uint32_t other = find_kept(net, step->base.values.at[ids[i]].name);
            if (other) ipu__model_bind(step, ids[i], net->tensors.at[other]);
        }
    }
}

bool ipu__executor_is_gradient_sum(const char *name)
{
    size_t n = strlen(name), m = strlen(IPU__GRADIENT_SUFFIX);
    return n > m && strcmp(name + n - m, IPU__GRADIENT_SUFFIX) == 0;
}

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

static ipu_status reduce_replicas(const ipu_executor *x, ipu__executor_lowered *l, ipu_program p)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_DOUBLE}; /* that sums have */
    int64_t               n       = x->options.replicas;
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
    return status == IPU_OK ? graph_status(l->g) : status;
}

static void read_inputs(const ipu_executor *x, ipu__executor_lowered *l, ipu_program p)
{
    for (size_t i = 0; i < x->inputs.n; i++) {
        const ipu__executor_input *in = &x->inputs.at[i];
        ipu_tensor                 t  = l->models.net->tensors.at[l->models.net->inputs.at[i]];
        ipu_stream s = ipu_graph_add_host_to_device(l->g, in->stream, in->port.type, ipu_tensor_n_elements(t),
                                                    IPU_STREAM_REPLICATE);
        if (in->bytes > 0) ipu_program_add_read(p, s, t);
    }
}

/* After the network: streams of every batch, or sums. `begin` runs before all batches. */
static ipu_status give_outputs(const ipu_executor *x, ipu__executor_lowered *l, ipu_program begin,
                               ipu_program p)
{
    ipu_output_mode mode = ipu__executor_output_mode(x);
    for (size_t i = 0; i < x->outputs.n; i++) {
        const ipu__executor_output *out = &x->outputs.at[i];
        ipu_tensor                  t   = l->models.net->output_tensors.at[i];
        if (mode == IPU_OUTPUT_ALL || mode == IPU_OUTPUT_EVERY_N) {
            ipu_stream s = ipu_graph_add_device_to_host(l->g, out->stream, out->type,
                                                        ipu_tensor_n_elements(t));
            if (out->bytes > 0) ipu_program_add_write(p, t, s);
        } else if (mode == IPU_OUTPUT_SUM) {
            if (out->type == IPU_BOOL)
                return ipu__fail(IPU_INVALID, "output \"%s\" is bool: there is no sum of it (output mode)",
                                 out->name);
            ipu_tensor sum = ipu_graph_add_variable(l->g, out->type, ipu_tensor_shape(t), out->sum);
            ipu_graph_map_linearly(l->g, sum);
            ipu_graph_add_host_read(l->g, out->sum, sum);
            ipu_attribute zero = IPU_FLOAT_ATTRIBUTE("value", 0);
            ipu_program_add_kernel(begin, "fill", &zero, 1, &sum, 1);
            ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){sum, t, sum}, 3);
        }
    }
    return graph_status(l->g);
}

static ipu_program repeated(ipu_graph *g, int64_t n, ipu_program body)
{
    if (n == 1) return body;
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_repeat(p, n, body);
    return p;
}

static ipu_status lower(const ipu_executor *x, const ipu__executor_models *models, ipu__executor_lowered *l)
{
    ipu_target  target;
    ipu_program net, step;
    IPU_TRY(ipu_target_find(x->options.target, x->options.replicas, &target));
    IPU_TRY(ipu_graph_create(&target, x->options.replicas, &l->g));
    IPU_TRY(optimised(models->net, &l->models.net));
    IPU_TRY(ipu_model_lower(l->models.net, l->g, &net));
    ipu_program batch = ipu_program_sequence(l->g), begin = ipu_program_sequence(l->g);
    read_inputs(x, l, batch);
    ipu_program_add(batch, net);
    IPU_TRY(give_outputs(x, l, begin, batch));
    ipu_program iteration = repeated(l->g, x->options.gradient_accumulation, batch);
    if (models->step) {
        IPU_TRY(optimised(models->step, &l->models.step));
        share_kept(l->models.step, l->models.net);
        IPU_TRY(reduce_replicas(x, l, iteration));
        IPU_TRY(ipu_model_lower(l->models.step, l->g, &step));
        ipu_program_add(iteration, step);
    }
    l->run = ipu_program_sequence(l->g);
    ipu_program_add(l->run, begin);
    ipu_program_add(l->run, repeated(l->g, x->options.device_iterations, iteration));
    return graph_status(l->g);
}

ipu_status ipu__executor_lower(ipu_executor *x, const ipu__executor_models *models,
                               ipu__executor_lowered *out)
{
    *out = (ipu__executor_lowered){0};
    return lower(x, models, out);
}

void ipu__executor_lowered_fini(ipu__executor_lowered *l)
{
    ipu_graph_destroy(l->g);
    ipu__executor_models_fini(&l->models);
}
