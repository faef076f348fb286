/* `ipu train`: trains a network on pictures, tests and saves it. A signal stops it in good order, with a
 * checkpoint. */
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "ipu/engine.h"
#include "output.h"
#include "train/loss_plot.h"
#include "train/report.h"

/* ---- signals ---- */

static volatile sig_atomic_t  stop_signal;
static _Atomic(ipu_trainer *) running; /* NULL if none */

/* The second one has its default effect. */
static void on_signal(int number)
{
    stop_signal    = number;
    ipu_trainer *t = atomic_load(&running);
    if (t) ipu_trainer_interrupt(t);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}

/* In this process; the others learn of it when they next communicate. */
static bool is_told(void) { return stop_signal != 0; }

/* Signals ignored by the parent (nohup, a shell's background job) stay ignored. */
static void catch_signal(int number)
{
    struct sigaction old, new = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&new.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(number, &new, NULL);
}

static tool_exit stop_code(void) { return stop_signal == SIGINT ? TOOL_INTERRUPTED : TOOL_TERMINATED; }

/* ---- progress ---- */

static bool compiling(void *user, int done, int total)
{
    train_session *s = user;
    progress_compiling(&s->progress, done, total);
    return s->group.size > 1 || !is_told();
}

static void on_compiled(void *user)
{
    train_session *s = user;
    char           ipus[256];
    train_ipus_text(&s->settings.ipus, ipu_trainer_executor(s->trainer), ipus, sizeof ipus);
    if (*ipus) progress_line(&s->progress, "%s", ipus);
}

static void on_step(void *user, const ipu_trainer_step *step)
{
    train_session *s = user;
    char           what[64];
    snprintf(what, sizeof what, "epoch %lld/%lld", (long long)step->epoch + 1, (long long)step->n_epochs);
    progress_show(&s->progress, &(progress_state){.what              = what,
                                                  .done              = step->batch + 1,
                                                  .total             = step->n_batches,
                                                  .loss              = step->mean_loss,
                                                  .accuracy          = step->accuracy,
                                                  .images_per_second = step->samples_per_second,
                                                  .seconds_left      = step->seconds_left});
}

static void on_testing(void *user, const ipu_trainer_test *test)
{
    train_session *s = user;
    progress_show(&s->progress, &(progress_state){.what         = "testing",
                                                  .done         = test->batch + 1,
                                                  .total        = test->n_batches,
                                                  .loss         = NAN,
                                                  .accuracy     = test->accuracy,
                                                  .seconds_left = -1});
}

static void on_epoch(void *user, int64_t i, const ipu_trainer_epoch *e)
{
    train_session *s            = user;
    char           accuracy[32] = "", test[64] = "";
    if (!isnan(e->accuracy)) snprintf(accuracy, sizeof accuracy, ", accuracy %.4f", e->accuracy);
    if (!isnan(e->test_accuracy))
        snprintf(test, sizeof test, ", test loss %.4f, test accuracy %.4f", e->test_loss, e->test_accuracy);
    else if (!isnan(e->test_loss))
        snprintf(test, sizeof test, ", test loss %.4f", e->test_loss);
    progress_line(&s->progress, "epoch %lld/%lld: loss %.4f%s%s, %.0f images/s", (long long)i + 1,
                  (long long)s->settings.epochs, e->loss, accuracy, test, e->n_samples / e->seconds);
}

static void on_message(void *user, ipu_log_level level, const char *text)
{
    train_session *s = user;
    if (level == IPU_LOG_WARN)
        tool_warn("%s", text);
    else
        progress_line(&s->progress, "%s", text);
}

/* ---- the end ---- */

/* --patience: why there are no more epochs. */
static void tell_of_patience(train_session *s, const ipu_trainer_results *r)
{
    const long long patience = s->settings.patience;
    if (patience == 0 || r->n_epochs >= s->settings.epochs) return;
    progress_line(&s->progress, "ended after epoch %lld: %lld epoch%s without a lower test loss",
                  (long long)r->n_epochs, patience, patience == 1 ? "" : "s");
}

/* Of rank 0. */
static tool_exit write_results(train_session *s)
{
    const train_settings     *a    = &s->settings;
    const ipu_trainer_results r    = train_session_results(s);
    tool_exit                 code = TOOL_OK;
    char                      title[256];
    snprintf(title, sizeof title, "Loss of %.200s", a->model);
    tell_of_patience(s, &r);
    if (a->save) code = train_session_write_onnx(s, a->save);
    if (code == TOOL_OK && a->plot) code = train_plot(&r, title, a->plot);
    ipu_set_compile_progress(NULL, NULL);
    if (code == TOOL_OK && a->profile) code = train_profile(s);
    return code == TOOL_OK ? train_report(s, false) : code;
}

/* ipu_message says where a stopped training will resume. */
static tool_exit stop(train_session *s)
{
    progress_line(&s->progress, "%s", ipu_message());
    tool_exit code = train_group_is_first(&s->group) ? train_report(s, true) : TOOL_OK;
    return code == TOOL_OK ? stop_code() : code;
}

/* --keep: saves the diverged state for its owner to inspect. */
static void keep_diverged(train_session *s)
{
    const char *save = s->settings.save;
    if (ipu_trainer_save_checkpoint(s->trainer) != IPU_OK) {
        tool_fail("%s", ipu_message());
        return;
    }
    if (!save || !train_group_is_first(&s->group)) return;
    if (train_session_write_onnx(s, save) == TOOL_OK) progress_line(&s->progress, "saved %s", save);
}

static tool_exit fail(train_session *s)
{
    const ipu_trainer_results r = train_session_results(s);
    progress_clear(&s->progress);
    if (!r.is_told_elsewhere) tool_fail("%s", ipu_message());
    if (r.has_diverged && s->settings.keep) keep_diverged(s);
    return TOOL_FAILED;
}

static tool_exit train(train_session *s)
{
    atomic_store(&running, s->trainer);
    if (is_told()) ipu_trainer_interrupt(s->trainer);
    ipu_status status = ipu_trainer_run(s->trainer);
    atomic_store(&running, NULL);
    if (status == IPU_INTERRUPTED) return stop(s);
    if (status != IPU_OK) return fail(s);
    return train_group_is_first(&s->group) ? write_results(s) : TOOL_OK;
}

tool_exit run_train(const tool_arguments *args)
{
    train_session            s;
    const ipu_trainer_events events = {.user     = &s,
                                       .compiled = on_compiled,
                                       .step     = on_step,
                                       .testing  = on_testing,
                                       .epoch    = on_epoch,
                                       .message  = on_message};
    tool_must_finish();
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
    ipu_set_compile_progress(compiling, &s);
    tool_exit code = train_session_open(&s, args, events);
    if (code == TOOL_OK) code = train(&s);
    ipu_set_compile_progress(NULL, NULL);
    train_session_close(&s, code);
    return code;
}
