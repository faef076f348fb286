/* Executors: their life, compiling, running. */
#include "train/executor/executor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/host/clock.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"
#include "engine/executable.h"
#include "engine/options.h"
#include "ipu/comm.h"
#include "model/fit.h"
#include "session/cache.h"
#include "train/training.h"

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

static const ipu__session_def programs;

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
    x->batches                    = (ipu__batches){.each       = o->device_iterations * o->gradient_accumulation,
                                                   .replicas   = o->replicas,
                                                   .group_size = o->input_group_size,
                                                   .mode       = ipu__executor_output_mode(x),
                                                   .period     = o->output_period,
                                                   .orthogonal = o->orthogonal_inputs};
    x->session                    = (ipu__session){.def       = &programs,
                                                   .user      = x,
                                                   .options   = o->engine,
                                                   .most      = (size_t)o->most_executables,
                                                   .device_id = o->device_id,
                                                   .alone     = o->device_alone};
    *out                          = x;
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
    ipu__session_fini(&x->session);
    x->p = NULL;
}

void ipu_executor_destroy(ipu_executor *x)
{
    if (!x) return;
    forget(x);
    ipu__arguments_fini(&x->asked);
    ipu_npz_free(&x->pending);
    ipu_npz_free(&x->carried);
    free_training(&x->how);
    ipu_options_destroy(x->own_engine);
    ipu__free(x->rates);
    ipu__free(x);
}

/* ---- compiling ---- */

/* Where the cache has it: by everything that the executable depends on. */
static ipu_status find_place(ipu__executor_program *p)
{
    ipu__text    t = {0};
    ipu__hash128 net, step = {0};
    char         text[IPU__HASH_TEXT];
    p->base.folder = ipu__cache_folder(p->x->options.cache_folder);
    if (!p->base.folder) return IPU_OK;
    IPU_TRY(ipu__model_hash(p->models->net, &net));
    if (p->models->step) IPU_TRY(ipu__model_hash(p->models->step, &step));
    ipu__hash_print(&net, text);
    ipu__text_add(&t, "%s ", text);
    ipu__hash_print(&step, text);
    ipu__text_add(&t, "%s %" PRId64 " %d ", text, p->streams.n_folded, (int)ipu__executor_output_mode(p->x));
    ipu__executor_options_add_key(&p->x->options, &t);
    ipu_status status = t.failed ? ipu__fail_memory() : IPU_OK;
    if (status == IPU_OK) p->base.key = ipu__hash_bytes(t.at, t.n);
    ipu__text_fini(&t);
    return status;
}

/* What is priced is lowered when that is first asked for, and kept. */
static ipu_status lower_for_chip(ipu__executor_program *p)
{
    if (p->chip.g) return IPU_OK;
    ipu_status status = ipu__executor_lower_for_chip(p, &p->chip);
    if (status != IPU_OK) ipu__parallel_program_fini(&p->chip);
    return status;
}

static ipu_status compile_program(void *user, ipu__compiled *c)
{
    const ipu_options     *options = ((const ipu_executor *)user)->options.engine;
    ipu__executor_program *p       = (ipu__executor_program *)c;
    ipu__parallel_program  host;
    ipu__settings          settings;
    IPU_TRY(ipu__options_settle(options, &settings));
    ipu_status status = ipu__parallel_lower(&p->over, p->models, &host);
    if (status == IPU_OK && settings.estimate) status = lower_for_chip(p);
    if (status == IPU_OK)
        status = ipu__executable_compile(host.g, &host.run, 1, options, p->chip.g, &p->chip.run, &c->exe);
    ipu__parallel_program_fini(&host);
    return status;
}

static void destroy_program(void *user, ipu__compiled *c)
{
    ipu__executor_program *p = (ipu__executor_program *)c;
    ipu_module            *m = ((const ipu_executor *)user)->module;
    if (ipu__weights_leave(&m->weights, &p->weights) != IPU_OK)
        ipu__log(IPU_LOG_ERR, "train", "weights of an executor that is gone are lost: %s", ipu_message());
    ipu__parallel_program_fini(&p->chip);
    ipu__streams_fini(&p->streams);
    ipu__executor_state_fini(p);
    ipu__parallel_fini(&p->over);
    ipu__compiled_fini(c);
    ipu__free(p);
}

static const ipu__session_def programs = {.compile = compile_program, .destroy = destroy_program};

static ipu_status remember_ports(const ipu__executor_program *p)
{
    ipu_module *m = p->x->module;
    m->ports.n    = 0;
    if (!ipu__reserve(&m->ports, p->streams.inputs.n)) return ipu__fail_memory();
    for (size_t i = 0; i < p->streams.inputs.n; i++) m->ports.at[m->ports.n++] = p->streams.inputs.at[i].port;
    m->is_compiled = true;
    return IPU_OK;
}

/* A replica's weights and the optimizer's states, against the IPUs it has. */
static ipu_status warn_if_too_large(const ipu__executor_program *p, const ipu_model *net)
{
    ipu_target target;
    int64_t    bytes = 0;
    int64_t    n     = ipu__parallel_ipus_per_replica(&p->over, (int64_t)ipu_model_n_stages(net));
    IPU_TRY(ipu_target_find(p->x->options.target, n, &target));
    for (size_t i = 0; i < p->kept.n; i++) {
        const ipu__executor_kept *k = &p->kept.at[i];
        if (k->is_off_chip) continue;
        bytes += (k->is_divided ? k->n_part : ipu__op_n_elements(&k->shape))
               * (int64_t)ipu_type_size(k->type);
    }
    ipu__warn_if_too_large(bytes, &target);
    return IPU_OK;
}

static ipu_status fold(ipu__executor_program *p, ipu__parallel_models *models)
{
    IPU_TRY(ipu__parallel_fold(&p->over, models));
    p->streams.n_folded = models->n_folded;
    memcpy(p->fold_reason, models->fold_reason, sizeof p->fold_reason);
    return IPU_OK;
}

const char *ipu_executor_fold_reason(const ipu_executor *x) { return x->p ? x->p->fold_reason : NULL; }

int64_t ipu__executor_n_graphs(const ipu__executor_program *p)
{
    return p->x->options.replicas / p->streams.n_folded;
}

static ipu_status compile(ipu__executor_program *p, const ipu_array *in, size_t n)
{
    const ipu_executor_options *o      = &p->x->options;
    ipu__parallel_models        models = {0};
    ipu__settings               settings;
    IPU_TRY(ipu__executor_make_inputs(p, in, n));
    ipu_status status = ipu__options_settle(o->engine, &settings);
    if (status == IPU_OK) status = ipu__executor_build(p, ipu__engine_find(settings.engine), &models);
    if (status == IPU_OK) status = ipu__executor_check_ipus(o, (int64_t)ipu_model_n_stages(models.net));
    if (status == IPU_OK) status = ipu__executor_make_outputs(p, &models);
    if (status == IPU_OK) status = ipu__executor_list_kept(p, &models);
    if (status == IPU_OK) status = warn_if_too_large(p, models.net);
    if (status == IPU_OK) status = fold(p, &models);
    if (status == IPU_OK) status = ipu__executor_note_program(p, &models);
    p->models = &models;
    if (status == IPU_OK) status = find_place(p);
    if (status == IPU_OK) status = ipu__session_compile(&p->x->session, &p->base);
    if (status == IPU_OK) status = remember_ports(p);
    p->models = NULL;
    ipu__parallel_models_fini(&models);
    return status;
}

/* ---- engines ---- */

/* An engine as the executor wants it: with its streams, weights and states. */
static ipu_status begin_engine(ipu__executor_program *p)
{
    IPU_TRY(ipu__executor_join(p));
    IPU_TRY(ipu__streams_connect(&p->streams, p->base.engine));
    IPU_TRY(ipu__executor_begin_seed(p));
    IPU_TRY(ipu__executor_write_rates(p));
    IPU_TRY(ipu__weights_sync(&p->x->module->weights, &p->weights));
    return ipu__executor_set_pending(p);
}

/* The session leaves the device with the last of its engines. */
static void drop_engine(ipu__executor_program *p)
{
    ipu__session *s           = &p->x->session;
    bool          has_another = false;
    if (ipu__weights_leave(&p->x->module->weights, &p->weights) != IPU_OK)
        ipu__log(IPU_LOG_ERR, "train", "weights of an engine that is gone are lost: %s", ipu_message());
    p->weights.version = 0;
    ipu_engine_destroy(p->base.engine);
    p->base.engine = NULL;
    for (size_t i = 0; i < s->compiled.n; i++) has_another |= s->compiled.at[i]->engine != NULL;
    if (!has_another) ipu__session_leave(s);
}

/* There is either one that is ready or none: what failed is tried again. */
static ipu_status create_engine(ipu__executor_program *p)
{
    if (p->base.engine) return IPU_OK;
    IPU_TRY(ipu__session_start(&p->x->session, &p->base));
    ipu_status status = begin_engine(p);
    if (status != IPU_OK) {
        char *why = ipu__strdup(ipu_message());
        drop_engine(p);
        if (why) ipu__fail(status, "%s", why);
        ipu__free(why);
        return status;
    }
    ipu__alloc_trim(); /* the models it was made from are gone */
    return IPU_OK;
}

/* ---- which program runs ---- */

/* `p` goes on where the one that ran before is. */
static ipu_status take_over(ipu__executor_program *p)
{
    ipu_executor          *x    = p->x;
    ipu__executor_program *from = x->p;
    if (!from || from == p || !from->base.engine) return IPU_OK;
    bool has_newest = from->weights.version == x->module->weights.version;
    IPU_TRY(create_engine(p));
    IPU_TRY(ipu__executor_write_rates(p));
    IPU_TRY(ipu__weights_sync(&p->x->module->weights, &p->weights));
    return ipu__executor_hand_over(from, p, has_newest ? IPU__HANDED_OF_REPLICAS : IPU__HANDED_NONE);
}

static ipu_status make(ipu_executor *x, const ipu_array *in, size_t n, ipu__executor_program **out)
{
    ipu__executor_program *p = *out = ipu__alloc_zeroed(sizeof *p);
    if (!p) return ipu__fail_memory();
    p->x               = x;
    p->over            = ipu__executor_over(&x->options, x->training);
    p->streams.batches = x->batches;
    ipu__executor_use_weights(p);
    IPU_TRY(ipu__arguments_copy(&x->asked, &p->base.arguments));
    IPU_TRY(compile(p, in, n));
    if (x->options.attach == IPU_ATTACH_ALWAYS || x->carried.n > 0) IPU_TRY(create_engine(p));
    if (x->carried.n > 0) IPU_TRY(ipu__executor_carry_state(p, &x->carried));
    IPU_TRY(take_over(p));
    return ipu__session_keep(&x->session, &p->base);
}

static ipu_status make_new(ipu_executor *x, const ipu_array *in, size_t n)
{
    double                 begin  = ipu__clock_seconds();
    ipu__executor_program *p      = NULL;
    ipu_status             status = make(x, in, n, &p);
    if (status != IPU_OK) {
        if (p) destroy_program(x, &p->base);
        if (x->session.compiled.n == 0) ipu__session_leave(&x->session);
        return status;
    }
    ipu_npz_free(&x->carried);
    p->base.seconds = ipu__clock_seconds() - begin;
    x->must_compile = false;
    x->p            = p;
    return IPU_OK;
}

static ipu_status change(ipu_executor *x, const ipu_array *in, size_t n)
{
    ipu__executor_program *found = (ipu__executor_program *)ipu__session_find(&x->session, &x->asked);
    if (!found) return make_new(x, in, n);
    IPU_TRY(take_over(found));
    x->p = found;
    return IPU_OK;
}

ipu_status ipu_executor_compile(ipu_executor *x, const ipu_array *in, size_t n)
{
    if (x->p && !x->must_compile && x->options.most_executables == 0) return IPU_OK;
    IPU_TRY(ipu__executor_ask(x, in, n));
    if (x->p && !x->must_compile)
        return ipu__arguments_fit(&x->p->base.arguments, &x->asked) ? IPU_OK : change(x, in, n);
    if (x->must_compile && x->p && x->p->base.engine) IPU_TRY(ipu_executor_get_state(x, &x->carried));
    forget(x);
    return make_new(x, in, n);
}

bool ipu_executor_is_compiled(const ipu_executor *x) { return x->p != NULL; }

size_t ipu_executor_n_compiled(const ipu_executor *x) { return x->session.compiled.n; }

double ipu_executor_compile_seconds(const ipu_executor *x, bool *was_cached)
{
    if (was_cached) *was_cached = x->p && x->p->base.was_cached;
    return x->p ? x->p->base.seconds : 0;
}

ipu_status ipu_executor_cost(ipu_executor *x, const ipu_cost_options *options, ipu_cost **out)
{
    *out = NULL;
    if (!x->p) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    IPU_TRY(lower_for_chip(x->p));
    return ipu_cost_estimate(x->p->chip.g, &x->p->chip.run, 1, options, out);
}

/* ---- running ---- */

static ipu_status run(ipu__executor_program *p, const ipu_array *in)
{
    p->streams.keeps_times = p->x->keeps_times;
    IPU_TRY(ipu__streams_begin(&p->streams, in));
    IPU_TRY(ipu__weights_sync(&p->x->module->weights, &p->weights));
    ipu_status status = ipu_engine_run(p->base.engine, 0);
    ipu__session_has_run(&p->x->session);
    if (p->updates_weights) ipu__weights_has_newest(&p->x->module->weights, &p->weights);
    if (status != IPU_OK) {
        IPU_TRY(ipu__executor_clear_sums(p));
        return status;
    }
    p->x->n_runs++;
    return ipu__streams_read(&p->streams);
}

ipu_status ipu_executor_run(ipu_executor *x, const ipu_array *in, size_t n)
{
    if (x->options.attach == IPU_ATTACH_NEVER)
        return ipu__fail(IPU_INVALID, "option attach: \"never\" compiles only: this executor cannot run");
    IPU_TRY(ipu_executor_compile(x, in, n));
    IPU_TRY(create_engine(x->p));
    if (x->options.most_executables == 0) IPU_TRY(ipu__executor_fail_other_inputs(x->p, in, n));
    return run(x->p, in);
}

void ipu_executor_interrupt(ipu_executor *x)
{
    ipu_engine *e = ipu_executor_engine(x);
    if (e) ipu_engine_interrupt(e);
}

size_t ipu_executor_n_outputs(const ipu_executor *x) { return x->p ? x->p->streams.outputs.n : 0; }

const ipu_array *ipu_executor_output_at(const ipu_executor *x, size_t i, const char **name)
{
    if (i >= ipu_executor_n_outputs(x)) return NULL;
    if (name) *name = x->p->streams.outputs.at[i].name;
    return &x->p->streams.outputs.at[i].array;
}

const ipu_array *ipu_executor_output(const ipu_executor *x, const char *name)
{
    for (size_t i = 0; i < ipu_executor_n_outputs(x); i++)
        if (strcmp(x->p->streams.outputs.at[i].name, name) == 0) return &x->p->streams.outputs.at[i].array;
    return NULL;
}

static ipu_status fail_output(const ipu_executor *x, const char *name)
{
    ipu__nearest near  = ipu__nearest_to(name);
    ipu__text    names = {0};
    if (ipu_executor_n_outputs(x) == 0)
        return ipu__fail(IPU_INVALID, "there is no output \"%.100s\": nothing has been compiled", name);
    for (size_t i = 0; i < x->p->streams.outputs.n; i++) {
        ipu__nearest_try(&near, x->p->streams.outputs.at[i].name);
        ipu__text_add(&names, "%s\"%s\"", i ? ", " : "", x->p->streams.outputs.at[i].name);
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
    return ipu_executor_engine(x) ? ipu__executor_write_rates(x->p) : IPU_OK;
}

double ipu_executor_rate(const ipu_executor *x, size_t group)
{
    return x->training && group <= x->how.n_groups ? x->rates[group] : (double)NAN;
}

ipu_status ipu_executor_set_optimizer(ipu_executor *x, const ipu_nn_training *how)
{
    if (!x->training) return fail_group(x, 0);
    bool same = ipu__training_equal(&x->how, how);
    IPU_TRY(take_training(x, how));
    if (!same) x->must_compile = x->p != NULL;
    return ipu_executor_engine(x) && same ? ipu__executor_write_rates(x->p) : IPU_OK;
}

int64_t ipu_executor_n_steps(const ipu_executor *x)
{
    return x->training ? x->n_runs * x->options.device_iterations : 0;
}

/* ---- device ---- */

ipu_status ipu_executor_attach(ipu_executor *x)
{
    if (!x->p) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    if (x->options.attach == IPU_ATTACH_NEVER)
        return ipu__fail(IPU_INVALID,
                         "option attach: \"never\" compiles only: there is nothing to attach to");
    if (!x->p->base.engine) return create_engine(x->p);
    return ipu__session_attach(&x->session);
}

ipu_status ipu_executor_detach(ipu_executor *x)
{
    if (!ipu_executor_is_attached(x))
        return ipu__fail(IPU_INVALID, "the executor is not attached to a device");
    if (x->module->weights.holder == &x->p->weights) IPU_TRY(ipu__weights_fetch(&x->module->weights));
    return ipu__session_detach(&x->session);
}

bool ipu_executor_is_attached(const ipu_executor *x) { return ipu__session_is_attached(&x->session); }

ipu_executable *ipu_executor_executable(ipu_executor *x) { return x->p ? x->p->base.exe : NULL; }
ipu_engine     *ipu_executor_engine(ipu_executor *x) { return x->p ? x->p->base.engine : NULL; }
