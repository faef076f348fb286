/* Executors: their life, compiling, running. */
#include "train/executor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "session/cache.h"
#include "engine/executable.h"
#include "engine/options.h"
#include "ipu/comm.h"
#include "model/fit.h"

/* ---- what is trained with ---- */

static void free_training(ipu_nn_training *how)
{
    for (size_t i = 0; how->groups && i < how->n_groups; i++)
        ipu__free((void *)(uintptr_t)how->groups[i].parameters);
    ipu__free((void *)(uintptr_t)how->groups);
    *how = (ipu_nn_training){0};
}

static ipu_status copy_training(const ipu_nn_training *from, ipu_nn_training *to)
{
    *to                  = *from;
    ipu_nn_group *groups = ipu__alloc_zeroed((from->n_groups + 1) * sizeof *groups);
    to->groups           = groups;
    to->n_groups         = 0;
    if (!groups) return ipu__fail_memory();
    for (size_t i = 0; i < from->n_groups; i++) {
        groups[i]            = from->groups[i];
        groups[i].parameters = ipu__strdup(from->groups[i].parameters ? from->groups[i].parameters : "");
        to->n_groups         = i + 1;
        if (!groups[i].parameters) return ipu__fail_memory();
    }
    return IPU_OK;
}

static const ipu_nn_optimizer *optimizer_of(const ipu_nn_training *how, size_t group)
{
    return group == 0 ? &how->optimizer : &how->groups[group - 1].optimizer;
}

static ipu_status take_training(ipu_executor *x, const ipu_nn_training *how)
{
    ipu_nn_training copy;
    double         *rates  = ipu__alloc((how->n_groups + 1) * sizeof *rates);
    ipu_status      status = rates ? copy_training(how, &copy) : ipu__fail_memory();
    if (status != IPU_OK) {
        if (rates) free_training(&copy);
        ipu__free(rates);
        return status;
    }
    for (size_t i = 0; i <= how->n_groups; i++) rates[i] = optimizer_of(how, i)->rate;
    free_training(&x->how);
    ipu__free(x->rates);
    x->how   = copy;
    x->rates = rates;
    return IPU_OK;
}

/* ---- life ---- */

static ipu_status take_engine_options(ipu_executor *x)
{
    if (!x->options.check_floats) return IPU_OK;
    IPU_TRY(ipu__options_copy(x->options.engine, &x->own_engine));
    x->options.engine = x->own_engine;
    return ipu_options_set(x->own_engine, "check.floats", "true");
}

static ipu_status create(ipu_module *module, const ipu_executor_options *options, const ipu_nn_training *how,
                         ipu_executor **out)
{
    *out            = NULL;
    ipu_executor *x = ipu__alloc_zeroed(sizeof *x);
    if (!x) return ipu__fail_memory();
    x->module         = module;
    x->training       = how != NULL;
    ipu_status status = ipu__executor_options_settle(options, &x->options);
    if (status == IPU_OK && !how) status = ipu__executor_options_check_inference(&x->options);
    if (status == IPU_OK && how) status = take_training(x, how);
    if (status == IPU_OK) status = take_engine_options(x);
    if (status != IPU_OK) {
        ipu_executor_destroy(x);
        return status;
    }
    const ipu_executor_options *o = &x->options;
    x->over                       = ipu__executor_over(o, x->training);
    x->n_batches = o->device_iterations * o->gradient_accumulation * (o->replicas / o->input_group_size);
    *out         = x;
    return IPU_OK;
}

ipu_status ipu_training_model(ipu_module *module, const ipu_executor_options *options,
                              const ipu_nn_training *how, ipu_executor **out)
{
    const ipu_nn_training plain = {.optimizer = {.rate = 0.01}};
    return create(module, options, how ? how : &plain, out);
}

ipu_status ipu_inference_model(ipu_module *module, const ipu_executor_options *options, ipu_executor **out)
{
    return create(module, options, NULL, out);
}

/* What compiling made. */
static void forget(ipu_executor *x)
{
    if (x->module->holder == x) {
        if (ipu__module_fetch(x->module) != IPU_OK)
            ipu__log(IPU_LOG_ERR, "train", "weights of an executor that is gone are lost: %s", ipu_message());
        x->module->holder = NULL;
    }
    ipu_engine_destroy(x->engine);
    ipu_executable_release(x->exe);
    ipu__parallel_program_fini(&x->chip);
    x->engine  = NULL;
    x->exe     = NULL;
    x->version = 0;
    ipu__executor_io_fini(x);
    ipu__executor_state_fini(x);
}

void ipu_executor_destroy(ipu_executor *x)
{
    if (!x) return;
    forget(x);
    ipu_npz_free(&x->pending);
    ipu_npz_free(&x->carried);
    free_training(&x->how);
    ipu__parallel_fini(&x->over);
    ipu_options_destroy(x->own_engine);
    ipu__free(x->rates);
    ipu__free(x);
}

/* ---- compiling ---- */

/* Everything that the executable depends on. */
static ipu_status cache_key(ipu_executor *x, const ipu__parallel_models *models, ipu__hash128 *out)
{
    ipu__text    t = {0};
    ipu__hash128 net, step = {0};
    char         text[IPU__HASH_TEXT];
    IPU_TRY(ipu__model_hash(models->net, &net));
    if (models->step) IPU_TRY(ipu__model_hash(models->step, &step));
    ipu__hash_print(&net, text);
    ipu__text_add(&t, "%s ", text);
    ipu__hash_print(&step, text);
    ipu__text_add(&t, "%s %" PRId64 " %d ", text, x->n_folded, (int)ipu__executor_output_mode(x));
    ipu__executor_options_add_key(&x->options, &t);
    ipu_status status = t.failed ? ipu__fail_memory() : IPU_OK;
    if (status == IPU_OK) *out = ipu__hash_bytes(t.at, t.n);
    ipu__text_fini(&t);
    return status;
}

/* What is priced is lowered when that is first asked for, and kept. */
static ipu_status lower_for_chip(ipu_executor *x)
{
    if (x->chip.g) return IPU_OK;
    ipu_status status = ipu__executor_lower_for_chip(x, &x->chip);
    if (status != IPU_OK) ipu__parallel_program_fini(&x->chip);
    return status;
}

static ipu_status compile_program(ipu_executor *x, const ipu__parallel_models *models)
{
    ipu__parallel_program host;
    ipu__settings         settings;
    IPU_TRY(ipu__options_settle(x->options.engine, &settings));
    ipu_status status = ipu__parallel_lower(&x->over, models, &host);
    if (status == IPU_OK && settings.estimate) status = lower_for_chip(x);
    if (status == IPU_OK)
        status = ipu__executable_compile(host.g, &host.run, 1, x->options.engine, x->chip.g, &x->chip.run,
                                         &x->exe);
    ipu__parallel_program_fini(&host);
    return status;
}

static ipu_status compile_models(ipu_executor *x, const ipu__parallel_models *models)
{
    const char  *folder = ipu__cache_folder(x->options.cache_folder);
    ipu__hash128 key;
    x->was_cached = false;
    if (folder) {
        IPU_TRY(cache_key(x, models, &key));
        ipu_status status = ipu__cache_load(folder, &key, x->options.engine, &x->exe);
        x->was_cached     = status == IPU_OK;
        if (status != IPU_NOT_FOUND) return status;
    }
    ipu_status status = compile_program(x, models);
    if (status == IPU_OK && folder) ipu__cache_store(folder, &key, x->exe);
    return status;
}

static ipu_status remember_ports(ipu_executor *x)
{
    ipu_module *m = x->module;
    m->ports.n    = 0;
    if (!ipu__reserve(&m->ports, x->inputs.n)) return ipu__fail_memory();
    for (size_t i = 0; i < x->inputs.n; i++) m->ports.at[m->ports.n++] = x->inputs.at[i].port;
    m->is_compiled = true;
    return IPU_OK;
}

/* A replica's weights and the optimizer's states, against the IPUs it has. */
static ipu_status warn_if_too_large(const ipu_executor *x, const ipu_model *net)
{
    ipu_target target;
    int64_t    bytes = 0;
    int64_t    n     = ipu__parallel_ipus_per_replica(&x->over, (int64_t)ipu_model_n_stages(net));
    IPU_TRY(ipu_target_find(x->options.target, n, &target));
    for (size_t i = 0; i < x->kept.n; i++) {
        const ipu__executor_kept *k = &x->kept.at[i];
        if (k->is_off_chip) continue;
        bytes += (k->is_divided ? k->n_part : ipu__op_n_elements(&k->shape))
               * (int64_t)ipu_type_size(k->type);
    }
    ipu__warn_if_too_large(bytes, &target);
    return IPU_OK;
}

static ipu_status fold(ipu_executor *x, ipu__parallel_models *models)
{
    IPU_TRY(ipu__parallel_fold(&x->over, models));
    x->n_folded = models->n_folded;
    memcpy(x->fold_reason, models->fold_reason, sizeof x->fold_reason);
    return IPU_OK;
}

const char *ipu_executor_fold_reason(const ipu_executor *x) { return x->exe ? x->fold_reason : NULL; }
int64_t     ipu__executor_n_graphs(const ipu_executor *x) { return x->options.replicas / x->n_folded; }

static ipu_status compile(ipu_executor *x, const ipu_array *in, size_t n)
{
    ipu__parallel_models models = {0};
    ipu__settings        settings;
    IPU_TRY(ipu__executor_make_inputs(x, in, n));
    ipu_status status = ipu__options_settle(x->options.engine, &settings);
    if (status == IPU_OK) status = ipu__executor_build(x, ipu__engine_find(settings.engine), &models);
    if (status == IPU_OK)
        status = ipu__executor_check_ipus(&x->options, (int64_t)ipu_model_n_stages(models.net));
    if (status == IPU_OK) status = ipu__executor_make_outputs(x, &models);
    if (status == IPU_OK) status = ipu__executor_list_kept(x, &models);
    if (status == IPU_OK) status = warn_if_too_large(x, models.net);
    if (status == IPU_OK) status = fold(x, &models);
    if (status == IPU_OK) status = ipu__executor_note_program(x, &models);
    if (status == IPU_OK) status = compile_models(x, &models);
    if (status == IPU_OK) status = remember_ports(x);
    ipu__parallel_models_fini(&models);
    return status;
}

static ipu_status create_engine(ipu_executor *x)
{
    if (x->engine) return IPU_OK;
    if (x->options.device_id > 0) {
        ipu_device *device;
        IPU_TRY(ipu_device_open(x->options.device_id - 1, &device));
        ipu_status status = ipu_engine_create_on(x->exe, x->options.engine, device, &x->engine);
        ipu_device_close(device); /* the engine keeps it */
        IPU_TRY(status);
    } else {
        IPU_TRY(ipu_engine_create(x->exe, x->options.engine, &x->engine));
    }
    IPU_TRY(ipu__executor_join(x));
    IPU_TRY(ipu__executor_connect(x));
    IPU_TRY(ipu__executor_begin_seed(x));
    IPU_TRY(ipu__executor_write_rates(x));
    IPU_TRY(ipu__executor_sync(x));
    IPU_TRY(ipu__executor_set_pending(x));
    ipu__alloc_trim(); /* the models it was made from are gone */
    return IPU_OK;
}

ipu_status ipu_executor_compile(ipu_executor *x, const ipu_array *in, size_t n)
{
    if (x->exe && !x->must_compile) return IPU_OK;
    double begin = ipu__clock_seconds();
    if (x->must_compile && x->engine) IPU_TRY(ipu_executor_get_state(x, &x->carried));
    forget(x);
    ipu_status status = compile(x, in, n);
    if (status == IPU_OK && (x->options.attach == IPU_ATTACH_ALWAYS || x->carried.n > 0))
        status = create_engine(x);
    if (status == IPU_OK && x->carried.n > 0) status = ipu__executor_carry_state(x, &x->carried);
    if (status != IPU_OK) {
        forget(x);
        return status;
    }
    ipu_npz_free(&x->carried);
    x->must_compile    = false;
    x->compile_seconds = ipu__clock_seconds() - begin;
    return IPU_OK;
}

bool ipu_executor_is_compiled(const ipu_executor *x) { return x->exe != NULL; }

double ipu_executor_compile_seconds(const ipu_executor *x, bool *was_cached)
{
    if (was_cached) *was_cached = x->was_cached;
    return x->compile_seconds;
}

ipu_status ipu_executor_cost(ipu_executor *x, const ipu_cost_options *options, ipu_cost **out)
{
    *out = NULL;
    if (!x->exe) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    IPU_TRY(lower_for_chip(x));
    return ipu_cost_estimate(x->chip.g, &x->chip.run, 1, options, out);
}

/* ---- running ---- */

ipu_status ipu_executor_run(ipu_executor *x, const ipu_array *in, size_t n)
{
    if (x->options.attach == IPU_ATTACH_NEVER)
        return ipu__fail(IPU_INVALID, "option attach: \"never\" compiles only: this executor cannot run");
    IPU_TRY(ipu_executor_compile(x, in, n));
    IPU_TRY(create_engine(x));
    IPU_TRY(ipu__executor_take_inputs(x, in, n));
    IPU_TRY(ipu__executor_sync(x));
    IPU_TRY(ipu__executor_begin_times(x));
    for (size_t i = 0; i < x->in_wires.n; i++) x->in_wires.at[i].n_done = 0;
    for (size_t i = 0; i < x->out_wires.n; i++) x->out_wires.at[i].n_done = 0;
    ipu_status status = ipu_engine_run(x->engine, 0);
    if (x->updates_weights) ipu__executor_has_newest(x);
    if (status != IPU_OK) {
        IPU_TRY(ipu__executor_clear_sums(x));
        return status;
    }
    x->n_runs++;
    return ipu__executor_read_outputs(x);
}

void ipu_executor_interrupt(ipu_executor *x)
{
    if (x->engine) ipu_engine_interrupt(x->engine);
}

size_t ipu_executor_n_outputs(const ipu_executor *x) { return x->outputs.n; }

const ipu_array *ipu_executor_output_at(const ipu_executor *x, size_t i, const char **name)
{
    if (i >= x->outputs.n) return NULL;
    if (name) *name = x->outputs.at[i].name;
    return &x->outputs.at[i].array;
}

const ipu_array *ipu_executor_output(const ipu_executor *x, const char *name)
{
    for (size_t i = 0; i < x->outputs.n; i++)
        if (strcmp(x->outputs.at[i].name, name) == 0) return &x->outputs.at[i].array;
    return NULL;
}

static ipu_status fail_output(const ipu_executor *x, const char *name)
{
    ipu__nearest near  = ipu__nearest_to(name);
    ipu__text    names = {0};
    if (x->outputs.n == 0)
        return ipu__fail(IPU_INVALID, "there is no output \"%.100s\": nothing has been compiled", name);
    for (size_t i = 0; i < x->outputs.n; i++) {
        ipu__nearest_try(&near, x->outputs.at[i].name);
        ipu__text_add(&names, "%s\"%s\"", i ? ", " : "", x->outputs.at[i].name);
    }
    ipu_status status = names.failed
                          ? ipu__fail_memory()
                          : ipu__fail(IPU_INVALID, "there is no output \"%.100s\"%s: expected one of %.500s",
                                      name, ipu__nearest_hint(&near), names.at);
    ipu__text_fini(&names);
    return status;
}

ipu_status ipu_executor_scalar(const ipu_executor *x, const char *name, double *out)
{
    const ipu_array *a   = ipu_executor_output(x, name);
    double           sum = 0;
    *out                 = (double)NAN;
    if (!a) return fail_output(x, name);
    int64_t n = ipu_array_n_elements(a);
    if (n == 0) return ipu__fail(IPU_INVALID, "output \"%.100s\" has no elements, so no mean", name);
    for (int64_t i = 0; i < n; i++) sum += ipu_array_value(a, i);
    *out = sum / (double)n;
    return IPU_OK;
}

/* ---- optimizer ---- */

static ipu_status fail_group(const ipu_executor *x, size_t group)
{
    if (!x->training) return ipu__fail(IPU_INVALID, "this executor does not train: it has no learning rate");
    return ipu__fail(IPU_INVALID, "there is no group %zu of parameters: the last is %zu", group,
                     x->how.n_groups);
}

ipu_status ipu_executor_set_rate(ipu_executor *x, size_t group, double rate)
{
    if (!x->training || group > x->how.n_groups) return fail_group(x, group);
    if (!isfinite(rate)) return ipu__fail(IPU_INVALID, "expected a finite rate, found %g", rate);
    if (x->rates[group] == rate) return IPU_OK;
    x->rates[group] = rate;
    return x->engine ? ipu__executor_write_rates(x) : IPU_OK;
}

double ipu_executor_rate(const ipu_executor *x, size_t group)
{
    return x->training && group <= x->how.n_groups ? x->rates[group] : (double)NAN;
}

/* Whether all but rates is equal. */
static bool is_same_optimizer(ipu_nn_optimizer a, ipu_nn_optimizer b)
{
    return a.kind == b.kind && a.weight_decay == b.weight_decay && a.momentum == b.momentum
        && a.dampening == b.dampening && a.nesterov == b.nesterov && a.centered == b.centered
        && a.amsgrad == b.amsgrad && a.beta1 == b.beta1 && a.beta2 == b.beta2 && a.epsilon == b.epsilon
        && a.alpha == b.alpha && a.rate_decay == b.rate_decay && a.max_weight_norm == b.max_weight_norm
        && a.no_bias_correction == b.no_bias_correction && a.tensorflow == b.tensorflow
        && a.maximize == b.maximize && a.decay == b.decay;
}

static bool is_same_training(const ipu_nn_training *a, const ipu_nn_training *b)
{
    if (a->n_groups != b->n_groups || a->max_gradient_norm != b->max_gradient_norm
        || a->max_gradient != b->max_gradient || a->loss_scale != b->loss_scale
        || a->loss_scale_period != b->loss_scale_period || !is_same_optimizer(a->optimizer, b->optimizer))
        return false;
    for (size_t i = 0; i < a->n_groups; i++) {
        const ipu_nn_group *p = &a->groups[i], *q = &b->groups[i];
        if (p->frozen != q->frozen || !q->parameters || strcmp(p->parameters, q->parameters) != 0
            || !is_same_optimizer(p->optimizer, q->optimizer))
            return false;
    }
    return true;
}

ipu_status ipu_executor_set_optimizer(ipu_executor *x, const ipu_nn_training *how)
{
    if (!x->training) return fail_group(x, 0);
    bool same = is_same_training(&x->how, how);
    IPU_TRY(take_training(x, how));
    if (!same) x->must_compile = x->exe != NULL;
    return x->engine && same ? ipu__executor_write_rates(x) : IPU_OK;
}

int64_t ipu_executor_n_steps(const ipu_executor *x)
{
    return x->training ? x->n_runs * x->options.device_iterations : 0;
}

/* ---- device ---- */

ipu_status ipu_executor_attach(ipu_executor *x)
{
    if (!x->exe) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    if (x->options.attach == IPU_ATTACH_NEVER)
        return ipu__fail(IPU_INVALID,
                         "option attach: \"never\" compiles only: there is nothing to attach to");
    if (!x->engine) return create_engine(x);
    ipu_device *device = ipu_engine_device(x->engine);
    return device ? ipu_device_attach(device, 0) : IPU_OK;
}

ipu_status ipu_executor_detach(ipu_executor *x)
{
    ipu_device *device = x->engine ? ipu_engine_device(x->engine) : NULL;
    if (!device || !ipu_device_is_attached(device))
        return ipu__fail(IPU_INVALID, "the executor is not attached to a device");
    if (x->module->holder == x) IPU_TRY(ipu__module_fetch(x->module));
    return ipu_device_detach(device);
}

bool ipu_executor_is_attached(const ipu_executor *x)
{
    ipu_device *device = x->engine ? ipu_engine_device(x->engine) : NULL;
    return device && ipu_device_is_attached(device);
}

ipu_executable *ipu_executor_executable(ipu_executor *x) { return x->exe; }
ipu_engine     *ipu_executor_engine(ipu_executor *x) { return x->engine; }
