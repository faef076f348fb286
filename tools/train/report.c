/* The final report of training: text or JSON, the modelled cost of a step, its profile. */
#include "train/report.h"

#include <math.h>
#include <string.h>

#include "folder.h"
#include "output.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- the price of a step ---- */

typedef struct price {
    bool        known;
    const char *chip;
    double      cycles, seconds;               /* per step of the optimizer */
    double      ipu_cycles[TRAIN_STAGES_MOST]; /* compute cycles of each IPU of a replica */
} price;

static tool_exit find_price(train_session *s, price *out)
{
    ipu_cost        *cost;
    ipu_cost_summary sum;
    ipu_cost_ipu     ipu;
    *out            = (price){0};
    ipu_executor *x = ipu_trainer_executor(s->trainer);
    if (!ipu_executor_is_compiled(x)) return TOOL_OK;
    if (ipu_executor_cost(x, NULL, &cost) != IPU_OK) return failed();
    ipu_cost_get_summary(cost, &sum);
    double n = (double)s->settings.device_iterations;
    *out     = (price){true, sum.chip, (double)sum.cycles.total / n, sum.seconds / n, {0}};
    for (int64_t i = 0; i < TRAIN_STAGES_MOST && ipu_cost_ipu_at(cost, i, &ipu); i++)
        out->ipu_cycles[i] = (double)ipu.cycles / n;
    ipu_cost_destroy(cost);
    return TOOL_OK;
}

static const double *ipu_cycles(const price *p) { return p->known ? p->ipu_cycles : NULL; }

/* ---- JSON ---- */

static json_t *epochs_json(const ipu_trainer_results *r)
{
    json_t *list = json_array();
    bool    ok   = list != NULL;
    for (int64_t i = 0; ok && i < r->n_epochs; i++) {
        const ipu_trainer_epoch *e = &r->epochs[i];
        ok                         = json_array_append_new(
                                         list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "loss", tool_json_finite(e->loss), "accuracy",
                                                         tool_json_finite(e->accuracy), "test_loss", tool_json_finite(e->test_loss),
                                                         "test_accuracy", tool_json_finite(e->test_accuracy), "images_per_second",
                                                         tool_json_finite(e->n_samples / e->seconds)))
          == 0;
    }
    if (ok) return list;
    json_decref(list);
    return NULL;
}

static json_t *text_or_null(const char *text) { return text ? tool_json_text(text) : json_null(); }

static json_t *whole_json(train_session *s, const ipu_trainer_results *r, const price *p, bool stopped)
{
    ipu_executor *x        = ipu_trainer_executor(s->trainer);
    double        top1     = r->n_epochs ? r->epochs[r->n_epochs - 1].test_accuracy : NAN;
    bool          cached   = false;
    double        compiled = ipu_executor_compile_seconds(x, &cached);
    json_t *modelled = p->known ? json_pack("{s:s, s:f, s:f}", "chip", p->chip, "cycles_per_step", p->cycles,
                                            "seconds_per_step", p->seconds)
                                : json_null();
    json_t *all      = json_pack("{s:o, s:o, s:o, s:o, s:b, s:I, s:o, s:o, s:o}", "model",
                                 tool_json_text(s->settings.model), "data", tool_json_text(s->settings.data),
                                 "epochs", epochs_json(r), "top1", tool_json_finite(top1), "interrupted",
                                 (int)stopped, "runs", (json_int_t)r->runs, "seconds",
                                 tool_json_finite(r->seconds), "images_per_second",
                                 tool_json_finite(r->n_samples / r->seconds), "resumed_from",
                            r->resumed_from < 0 ? json_null() : json_integer((json_int_t)r->resumed_from));
    json_t *rest     = json_pack("{s:f, s:b, s:f, s:o, s:o, s:o}", "compile_ms", 1e3 * compiled,
                                 "compiled_before", (int)cached, "waited_for_data_s",
                                 ipu_loader_waited(ipu_trainer_loader(s->trainer)), "saved",
                                 text_or_null(stopped ? NULL : s->settings.save), "modelled", modelled, "ipus",
                                 train_ipus_json(&s->settings.ipus, x, ipu_cycles(p)));
    bool    ok       = all && rest && json_object_update(all, rest) == 0
           && json_object_set_new(all, "group", train_group_json(&s->group, x)) == 0;
    json_decref(rest);
    if (ok) return all;
    json_decref(all);
    return NULL;
}

/* ---- text ---- */

tool_exit train_report(train_session *s, bool stopped)
{
    price     p;
    tool_exit code = find_price(s, &p);
    progress_clear(&s->progress);
    if (code != TOOL_OK) return code;
    const ipu_trainer_results r = train_session_results(s);
    ipu_executor             *x = ipu_trainer_executor(s->trainer);
    if (s->settings.json) return tool_print_json(stdout, whole_json(s, &r, &p, stopped));
    if (p.known) {
        char time[32];
        tool_format(p.seconds, "s", time, sizeof time);
        printf("one step on %s: %s, %.0f cycles, modelled\n", p.chip, time, p.cycles);
    }
    train_group_print(&s->group, x, r.seconds);
    train_ipus_print(&s->settings.ipus, x, ipu_cycles(&p));
    if (r.n_epochs && isfinite(r.epochs[r.n_epochs - 1].test_accuracy) && !stopped)
        printf("top1 score: %.4f\n", r.epochs[r.n_epochs - 1].test_accuracy);
    if (s->settings.save && !stopped) printf("saved %s\n", s->settings.save);
    return TOOL_OK;
}

/* ---- the profile ---- */

/* A training executor for the same network, with its own module and for this process alone. */
static ipu_status open_measured(const train_session *s, ipu_module *module, const ipu_options *engine,
                                ipu_executor **out)
{
    ipu_executor_options options = s->options;
    options.engine               = engine;
    options.comm                 = NULL;
    return ipu_training_model(module, &options, &s->how, out);
}

static ipu_status run_measured(train_session *s, ipu_executor *x)
{
    ipu_loader *loader = ipu_trainer_loader(s->trainer);
    ipu_shape   images = ipu_dataset_field_at(s->train, 0)->shape;
    ipu_batch   batch;
    ipu_array   arrays[2];
    IPU_TRY(ipu_loader_seek(loader, (ipu_loader_position){0}));
    if (!ipu_loader_next(loader, &batch)) return ipu_loader_status(loader);
    for (size_t i = 0; i < 2; i++) arrays[i] = batch.arrays[i];
    ipu_module_fit_sample(s->module, 0, &images);
    arrays[0].shape.rank = images.rank + 1;
    memcpy(arrays[0].shape.dim + 1, images.dim, (size_t)images.rank * sizeof *images.dim);
    return ipu_executor_run(x, arrays, 2);
}

tool_exit train_profile(train_session *s)
{
    ipu_module   *module  = NULL;
    ipu_executor *x       = NULL;
    ipu_cost     *cost    = NULL;
    ipu_options  *options = NULL;
    const char   *threads = ipu_options_get(s->engine, "threads");
    ipu_status    status  = ipu_options_create(&options);
    if (status == IPU_OK) status = ipu_options_set(options, "threads", threads);
    if (status == IPU_OK) status = ipu_options_set(options, "profile", "true");
    if (status == IPU_OK) status = train_session_module(s, &module);
    if (status == IPU_OK) status = open_measured(s, module, options, &x);
    if (status == IPU_OK) status = run_measured(s, x);
    if (status == IPU_OK) status = ipu_executor_cost(x, NULL, &cost);
    tool_exit code = status == IPU_OK
                       ? folder_write_profile(s->settings.profile, cost, ipu_executor_engine(x))
                       : failed();
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_options_destroy(options);
    return code;
}
