/* `ipu train`: a network trained on pictures, tested, and saved. A signal stops it in order, with a checkpoint. */
#include <math.h>
#include <signal.h>
#include <stdio.h>

#include "ipu/engine.h"
#include "output.h"
#include "train_report.h"

/* ---- signals ---- */

static volatile sig_atomic_t stop_signal;

/* The second one does what it always does. */
static void on_signal(int number)
{
    stop_signal = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/* This process; the others hear of it when they meet next. */
static bool is_told(void) { return stop_signal != 0; }

static bool stopped(const train_session *s) { return s->group.size > 1 ? s->group.stops : is_told(); }

/* One that the parent ignores (nohup, a shell's background job) stays ignored. */
static void catch_signal(int number)
{
    struct sigaction old, new = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&new.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(number, &new, NULL);
}

static tool_exit stop_code(void) { return stop_signal == SIGINT ? TOOL_INTERRUPTED : TOOL_TERMINATED; }

/* ---- training ---- */

static bool compiling(void *user, int done, int total)
{
    train_session *s = user;
    progress_compiling(&s->progress, done, total);
    return s->group.size > 1 || !is_told();
}

/* The loss, or what stands first and could be one. */
static double find_loss(const ipu_executor *x)
{
    const char *found = "loss";
    double      loss  = (double)NAN;
    for (size_t i = 0; !ipu_executor_output(x, found) && i < ipu_executor_n_outputs(x); i++) {
        const char      *name;
        const ipu_array *a = ipu_executor_output_at(x, i, &name);
        if (a->type >= IPU_HALF && a->shape.rank < 2) found = name;
    }
    ipu_executor_scalar(x, found, &loss);
    return loss;
}

static void show(train_session *s)
{
    const train_record *r     = &s->record;
    int64_t             total = s->n_runs * s->settings.epochs;
    double              rate  = r->seconds > 0 ? r->n_samples / r->seconds : 0;
    char                what[64];
    snprintf(what, sizeof what, "epoch %lld/%lld", (long long)s->position.epoch + 1,
             (long long)s->settings.epochs);
    progress_show(&s->progress, &(progress_state){.what              = what,
                                                  .done              = s->position.batch + 1,
                                                  .total             = s->n_runs,
                                                  .loss              = train_record_loss(r),
                                                  .accuracy          = train_record_accuracy(r),
                                                  .images_per_second = rate,
                                                  .seconds_left      = (double)(total - r->runs) * r->seconds
                                                                / (double)r->runs});
}

static tool_exit failed(train_session *s)
{
    progress_clear(&s->progress);
    return tool_fail("%s", ipu_message());
}

static tool_exit run_batch(train_session *s, const ipu_batch *batch, double began)
{
    ipu_array   arrays[2];
    train_tally t    = {0};
    double      rate = train_settings_rate(&s->settings, s->record.runs, s->n_runs * s->settings.epochs);
    train_session_batch(s, batch, arrays);
    if (ipu_executor_set_rate(s->trainer, 0, rate) != IPU_OK
        || ipu_executor_run(s->trainer, arrays, 2) != IPU_OK)
        return failed(s);
    const ipu_array *scores = train_find_scores(s->trainer, batch->n_samples);
    double           loss   = find_loss(s->trainer);
    if (scores) train_count(scores, &batch->arrays[1], batch->n_samples, &t);
    double    right = scores ? t.right : -1;
    tool_exit code  = train_group_add_up(&s->group, &loss, &right, is_told());
    if (code != TOOL_OK) return code;
    train_record_run(&s->record, batch->n_samples * s->group.size, loss, right, progress_now() - began);
    show(s);
    s->position = (ipu_loader_position){batch->epoch, batch->index + 1};
    if (s->position.batch == s->n_runs) s->position = (ipu_loader_position){batch->epoch + 1, 0};
    return isfinite(loss) ? TOOL_OK : train_session_diverge(s, "the loss is", loss);
}

static bool due(const train_session *s)
{
    return s->settings.checkpoint_every && s->record.runs % s->settings.checkpoint_every == 0;
}

static tool_exit train_epoch_rest(train_session *s)
{
    ipu_batch batch;
    int64_t   epoch = s->position.epoch;
    tool_exit code  = TOOL_OK;
    double    began = progress_now();
    while (code == TOOL_OK && !stopped(s) && s->position.epoch == epoch
           && ipu_loader_next(s->loader, &batch)) {
        code  = run_batch(s, &batch, began);
        began = progress_now();
        if (code == TOOL_OK && due(s)) code = train_session_save_checkpoint(s);
    }
    if (code == TOOL_OK && ipu_loader_status(s->loader) != IPU_OK) code = failed(s);
    return code;
}

static void tell_epoch(train_session *s)
{
    const train_epoch *e            = &s->record.epochs[s->record.n_epochs - 1];
    char               accuracy[32] = "", test[64] = "";
    if (!isnan(e->accuracy)) snprintf(accuracy, sizeof accuracy, ", accuracy %.4f", e->accuracy);
    if (!isnan(e->test_accuracy))
        snprintf(test, sizeof test, ", test loss %.4f, test accuracy %.4f", e->test_loss, e->test_accuracy);
    progress_line(&s->progress, "epoch %lld/%lld: loss %.4f%s%s, %.0f images/s",
                  (long long)s->record.n_epochs, (long long)s->settings.epochs, e->loss, accuracy, test,
                  e->n_samples / e->seconds);
}

static tool_exit train_epoch_whole(train_session *s)
{
    int64_t   epoch = s->position.epoch;
    tool_exit code  = train_epoch_rest(s);
    if (code != TOOL_OK || s->position.epoch == epoch) return code;
    if (!train_record_epoch(&s->record)) return tool_fail("out of memory");
    code = train_session_evaluate(s, is_told);
    if (code == TOOL_OK) tell_epoch(s);
    if (code == TOOL_OK && (!s->settings.checkpoint_every || s->position.epoch == s->settings.epochs))
        code = train_session_save_checkpoint(s);
    return code;
}

static bool is_evaluated(const train_record *r)
{
    return r->n_epochs == 0 || !isnan(r->epochs[r->n_epochs - 1].test_accuracy);
}

/* Both networks, before the clock starts; an epoch that was not evaluated because a signal came is so now. */
static tool_exit begin(train_session *s)
{
    char      ipus[256];
    tool_exit code = train_session_compile(s, is_told);
    if (code == TOOL_OK && !stopped(s)) {
        train_ipus_text(&s->settings.ipus, s->trainer, ipus, sizeof ipus);
        if (*ipus) progress_line(&s->progress, "%s", ipus);
    }
    if (code != TOOL_OK || stopped(s) || is_evaluated(&s->record)) return code;
    code = train_session_evaluate(s, is_told);
    if (code == TOOL_OK && !stopped(s)) tell_epoch(s);
    return code;
}

/* Of rank 0. */
static tool_exit write_results(train_session *s)
{
    const train_settings *a    = &s->settings;
    tool_exit             code = TOOL_OK;
    char                  title[256];
    snprintf(title, sizeof title, "Loss of %.200s", a->model);
    if (a->save) code = train_session_write_onnx(s, a->save);
    if (code == TOOL_OK && a->plot) code = train_record_plot(&s->record, s->n_runs, title, a->plot);
    ipu_set_compile_progress(NULL, NULL);
    if (code == TOOL_OK && a->profile) code = train_profile(s);
    return code;
}

static tool_exit stop(train_session *s)
{
    tool_exit code = s->record.runs > 0 ? train_session_save_checkpoint(s) : TOOL_OK;
    if (code != TOOL_OK) return code;
    if (s->last_saved >= 0)
        progress_line(&s->progress, "stopped after run %lld; --resume goes on from %s",
                      (long long)s->last_saved, s->settings.checkpoint_dir);
    else
        progress_line(&s->progress, "stopped after run %lld; nothing is kept", (long long)s->record.runs);
    if (train_group_is_first(&s->group)) code = train_report(s, true);
    return code == TOOL_OK ? stop_code() : code;
}

enum { DOUBTFUL_LOSS = 1000000 }; /* of probabilities: beyond any that is learnt from */

/* All processes come here. */
static tool_exit check_result(train_session *s)
{
    double loss = s->record.n_epochs ? s->record.epochs[s->record.n_epochs - 1].test_loss : 0;
    if (!isfinite(loss) && !s->settings.keep) return train_session_diverge(s, "the test loss is", loss);
    if (loss > DOUBTFUL_LOSS && train_group_is_first(&s->group))
        tool_warn("the test loss is %g: the training has probably diverged; a lower --lr than %g may help",
                  loss, s->settings.rate);
    return train_session_check_weights(s);
}

/* A signal that comes when all is trained and tested does not matter any more. */
static tool_exit train(train_session *s)
{
    tool_exit code = begin(s);
    while (code == TOOL_OK && !stopped(s) && s->position.epoch < s->settings.epochs)
        code = train_epoch_whole(s);
    if (code != TOOL_OK) return code;
    if (s->position.epoch < s->settings.epochs || !is_evaluated(&s->record)) return stop(s);
    code = check_result(s);
    if (code != TOOL_OK || !train_group_is_first(&s->group)) return code;
    code = write_results(s);
    return code == TOOL_OK ? train_report(s, false) : code;
}

/* --keep: what it came to, for its owner to look into. */
static void keep_diverged(train_session *s)
{
    const char *save = s->settings.save;
    if (train_session_save_checkpoint(s) != TOOL_OK || !save || !train_group_is_first(&s->group)) return;
    if (train_session_write_onnx(s, save) == TOOL_OK) progress_line(&s->progress, "saved %s", save);
}

tool_exit run_train(const tool_arguments *args)
{
    train_session s;
    tool_must_finish();
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    ipu_set_compile_progress(compiling, &s);
    tool_exit code = train_session_open(&s, args);
    if (code == TOOL_OK) code = train(&s);
    if (s.has_diverged && s.settings.keep) keep_diverged(&s);
    ipu_set_compile_progress(NULL, NULL);
    train_session_close(&s, code);
    return code;
}
