/* A training's data, network and trainer, opened and closed. */
#include "train/session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "folder.h"
#include "output.h"
#include "run/picture.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- what affects the result ---- */

/* FNV-1a: tells files apart unless forged. */
static uint64_t digest(const char *data, size_t bytes)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3;
    return hash;
}

static tool_exit make_text(train_session *s)
{
    char file[17] = "";
    if (s->settings.from_file) {
        size_t bytes;
        char  *content = tool_read(s->settings.model, &bytes);
        if (!content) return TOOL_FAILED;
        snprintf(file, sizeof file, "%016" PRIx64, digest(content, bytes));
        free(content);
    }
    s->text = train_settings_text(&s->settings, file);
    return s->text ? TOOL_OK : tool_fail("out of memory");
}

/* ---- opening ---- */

/* A classifier needs pictures with integer labels. */
static tool_exit check_dataset(const train_session *s, const ipu_dataset *d)
{
    if (ipu_dataset_n_fields(d) == 2 && ipu_dataset_field_at(d, 0)->type == IPU_FLOAT
        && ipu_dataset_field_at(d, 1)->shape.rank == 0)
        return TOOL_OK;
    return tool_fail("%s: expected images and labels", s->settings.data);
}

static tool_exit open_data(train_session *s)
{
    const ipu_dataset_options options = {
        .mean = s->settings.mean, .std = s->settings.std, .raw = s->settings.raw};
    if (ipu_dataset_open(s->settings.data, IPU_TRAIN, &options, &s->train) != IPU_OK
        || ipu_dataset_open(s->settings.data, IPU_TEST, &options, &s->test) != IPU_OK)
        return failed();
    tool_exit code = check_dataset(s, s->train);
    return code == TOOL_OK ? check_dataset(s, s->test) : code;
}

ipu_status train_session_module(const train_session *s, ipu_module **out)
{
    const train_settings *a = &s->settings;
    if (a->from_file) {
        IPU_TRY(ipu_module_from_onnx(a->model, a->loss, out));
    } else {
        IPU_TRY(ipu_module_named(a->model, out));
    }
    ipu_module_set_seed(*out, (uint32_t)a->seed);
    return IPU_OK;
}

static tool_exit make_options(train_session *s)
{
    const train_settings *a = &s->settings;
    char                  threads[32];
    snprintf(threads, sizeof threads, "%lld", (long long)a->threads);
    if (ipu_options_create(&s->engine) != IPU_OK
        || (a->threads >= 0 && ipu_options_set(s->engine, "threads", threads) != IPU_OK))
        return failed();
    s->how     = (ipu_nn_training){.optimizer         = {.kind         = a->optimizer,
                                                         .rate         = a->rate,
                                                         .momentum     = a->momentum,
                                                         .weight_decay = a->weight_decay},
                                   .loss_scale        = a->loss_scale,
                                   .loss_scale_period = a->loss_scale_period};
    s->options = (ipu_executor_options){.device_iterations     = a->device_iterations,
                                        .gradient_accumulation = a->gradient_accumulation,
                                        .output_mode           = IPU_OUTPUT_ALL,
                                        .seed                  = (uint32_t)a->seed,
                                        .target                = a->target,
                                        .engine                = s->engine,
                                        .comm                  = s->group.comm,
                                        .precision             = a->precision,
                                        .stochastic_rounding   = a->stochastic_rounding,
                                        .half_partials         = a->half_partials};
    train_ipus_apply(&a->ipus, &s->options);
    return train_session_module(s, &s->module) == IPU_OK ? TOOL_OK : failed();
}

/* What options are called on the command line. */
static ipu_trainer_words words_of(const train_settings *a)
{
    return (ipu_trainer_words){.resume     = "--resume",
                               .restart    = "--restart",
                               .keep       = "--keep",
                               .folder     = "--checkpoint-dir",
                               .rate       = "--lr",
                               .loss_scale = "--loss-scale",
                               .constant   = "--schedule constant",
                               .program    = "ipu train",
                               .data       = a->data};
}

static ipu_trainer_begin begin_of(const train_settings *a)
{
    return a->resume ? IPU_TRAINER_RESUME : a->restart ? IPU_TRAINER_RESTART : IPU_TRAINER_NEW;
}

static tool_exit open_trainer(train_session *s, ipu_trainer_events events)
{
    static const char *const places[] = {"data"};
    const train_settings    *a        = &s->settings;
    tool_exit                code     = make_options(s);
    if (code != TOOL_OK) return code;
    ipu_trainer_options options = {
        .module            = s->module,
        .data              = s->train,
        .test              = s->test,
        .schedule          = train_settings_schedule(a),
        .executor          = s->options,
        .training          = s->how,
        .loader            = {.batch_size = a->batch_size, .shuffle = true, .seed = (uint64_t)a->seed},
        .n_epochs          = a->epochs,
        .patience          = a->patience,
        .checkpoint_folder = a->checkpoint_dir,
        .checkpoint_every  = a->checkpoint_every,
        .begin             = begin_of(a),
        .log_folder        = a->log,
        .log_every         = a->log_every,
        .log_weights       = a->log_weights,
        .model             = a->model,
        .settings          = s->text,
        .may_differ        = places,
        .n_may_differ      = 1,
        .keep_diverged     = a->keep,
        .events            = events,
        .words             = words_of(a)};
    return ipu_trainer_create(&options, &s->trainer) == IPU_OK ? TOOL_OK : failed();
}

/* Finds out at the start about places that cannot be written at the end. */
static tool_exit prepare_places(const train_settings *a)
{
    tool_exit code = TOOL_OK;
    if (a->save) code = folder_make_for(a->save);
    if (a->plot && code == TOOL_OK) code = folder_make_for(a->plot);
    if (a->profile && code == TOOL_OK) code = folder_make(a->profile);
    return code;
}

tool_exit train_session_open(train_session *s, const tool_arguments *args, ipu_trainer_events events)
{
    *s             = (train_session){0};
    tool_exit code = train_group_open(&s->group);
    if (code == TOOL_OK) code = train_group_read_settings(&s->group, &s->settings, args);
    if (code != TOOL_OK) return code;
    s->silence = train_group_is_first(&s->group) ? NULL : fopen("/dev/null", "w");
    progress_open(&s->progress, s->silence ? s->silence : s->settings.json ? stderr : stdout);
    if (s->group.size > 1) s->progress.live = false; /* a launcher mixes it with that of others */
    code = open_data(s);
    if (code == TOOL_OK && (s->settings.checkpoint_dir || s->settings.log || s->group.size > 1))
        code = make_text(s);
    if (code == TOOL_OK) code = open_trainer(s, events);
    if (code == TOOL_OK && train_group_is_first(&s->group)) code = prepare_places(&s->settings);
    return code;
}

ipu_trainer_results train_session_results(const train_session *s)
{
    ipu_trainer_results r;
    ipu_trainer_get_results(s->trainer, &r);
    return r;
}

void train_session_close(train_session *s, tool_exit code)
{
    if (s->trainer && train_session_results(s).is_known) s->group.is_told = true;
    ipu_trainer_destroy(s->trainer);
    ipu_module_destroy(s->module);
    ipu_options_destroy(s->engine);
    ipu_dataset_destroy(s->train);
    ipu_dataset_destroy(s->test);
    free(s->text);
    if (s->silence) fclose(s->silence);
    train_group_close(&s->group, code);
}

/* ---- the result ---- */

tool_exit train_session_write_onnx(train_session *s, const char *path)
{
    char mean[32], std[32];
    snprintf(mean, sizeof mean, "%.15g", s->settings.mean);
    snprintf(std, sizeof std, "%.15g", s->settings.std);
    const char *const metadata[] = {
        PICTURE_RAW, s->settings.raw ? "true" : "false", PICTURE_MEAN, mean, PICTURE_STD, std};
    const ipu_module_write_options options = {.metadata = metadata, .n_metadata = s->settings.raw ? 1 : 3};
    return ipu_module_write_onnx(s->module, &options, path) == IPU_OK ? TOOL_OK : failed();
}
