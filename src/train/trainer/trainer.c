/* The loop of a training: runs, epochs, and the way from the beginning to the end or to a stop. */
#include "train/trainer/trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/host/clock.h"
#include "base/log.h"

/* ---- what is told ---- */

void ipu__trainer_say(const ipu_trainer *t, ipu_log_level level, const char *format, ...)
{
    const ipu_trainer_events *e = &t->options.events;
    char                      text[1024];
    va_list                   args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!ipu__trainer_is_first(t)) return;
    if (e->message)
        e->message(e->user, level, text);
    else
        ipu__log_text(level, "train", text);
}

static void tell_epoch(ipu_trainer *t)
{
    const ipu_trainer_events *e    = &t->options.events;
    int64_t                   last = t->record.n_epochs - 1;
    ipu__trainer_log_epoch(t);
    if (e->epoch) e->epoch(e->user, last, &t->record.epochs[last]);
}

static void tell_step(ipu_trainer *t, const ipu_batch *batch, double rate, double loss)
{
    const ipu_trainer_events  *e     = &t->options.events;
    const ipu__trainer_record *r     = &t->record;
    int64_t                    total = t->n_runs * t->options.n_epochs;
    const ipu_trainer_step     step  = {.epoch              = batch->epoch,
                                        .batch              = batch->index,
                                        .n_epochs           = t->options.n_epochs,
                                        .n_batches          = t->n_runs,
                                        .n_samples          = batch->n_samples * t->n_ranks,
                                        .rate               = rate,
                                        .loss               = loss,
                                        .mean_loss          = ipu__trainer_record_loss(r),
                                        .accuracy           = ipu__trainer_record_accuracy(r),
                                        .samples_per_second = r->seconds > 0 ? r->n_samples / r->seconds : 0,
                                        .seconds_left = (double)(total - r->runs) * r->seconds / (double)r->runs};
    ipu__trainer_log_step(t, &step);
    if (e->step) e->step(e->user, &step);
}

/* ---- where it is ---- */

/* Several processes know it when they have met. */
static bool is_stopped(ipu_trainer *t) { return t->n_ranks > 1 ? t->stops : ipu__trainer_is_told(t); }

/* So many epochs have been no better than one before. */
static bool is_impatient(const ipu_trainer *t)
{
    const ipu__trainer_record *r    = &t->record;
    double                     best = INFINITY;
    int64_t                    at   = -1;
    for (int64_t i = 0; i < r->n_epochs; i++) {
        if (!(r->epochs[i].test_loss < best)) continue;
        best = r->epochs[i].test_loss;
        at   = i;
    }
    return t->options.patience > 0 && at >= 0 && r->n_epochs - 1 - at >= t->options.patience;
}

bool ipu__trainer_is_finished(const ipu_trainer *t)
{
    return t->position.epoch >= t->options.n_epochs
        || (t->position.batch == 0 && (t->ends || is_impatient(t)));
}

bool ipu__trainer_is_evaluated(const ipu_trainer *t)
{
    const ipu__trainer_record *r = &t->record;
    return !t->options.test || r->n_epochs == 0 || !isnan(r->epochs[r->n_epochs - 1].test_loss);
}

static bool is_due(const ipu_trainer *t)
{
    return t->options.checkpoint_every && t->record.runs % t->options.checkpoint_every == 0;
}

/* ---- a run of the device ---- */

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

/* It depends on the number of the run alone, so that a training that goes on has the same. */
static double find_rate(const ipu_trainer *t)
{
    const ipu_trainer_options *o        = &t->options;
    ipu_schedule               schedule = o->schedule;
    int64_t                    n_runs   = t->n_runs * o->n_epochs;
    if (o->rate) return o->rate(o->rate_user, t->record.runs, n_runs);
    if (schedule.rate == 0) schedule.rate = o->training.optimizer.rate;
    if (schedule.n_steps == 0) schedule.n_steps = n_runs;
    return ipu_schedule_rate(&schedule, t->record.runs);
}

/* How many of a run's samples were right, or what the metric says. NaN: not known. */
static double count_right(const ipu_trainer *t, const ipu_batch *batch)
{
    const ipu_array   *labels = &batch->arrays[t->n_fields - 1];
    const ipu_array   *scores = labels->shape.rank == 1 && t->n_fields > 1
                                  ? ipu__trainer_find_scores(t->executor, batch->n_samples)
                                  : NULL;
    ipu__trainer_tally tally  = {0};
    if (t->options.metric) return t->options.metric(t->options.metric_user, t->executor, batch);
    if (!scores) return (double)NAN;
    ipu__trainer_count(scores, labels, batch->n_samples, &tally);
    return tally.right;
}

static ipu_status run_batch(ipu_trainer *t, const ipu_batch *batch, double began)
{
    ipu_array arrays[IPU_MAX_FIELDS];
    double    rate = find_rate(t);
    ipu__trainer_batch(t, batch, arrays);
    IPU_TRY(ipu_executor_set_rate(t->executor, 0, rate));
    IPU_TRY(ipu_executor_run(t->executor, arrays, t->n_fields));
    double loss = find_loss(t->executor), right = count_right(t, batch);
    IPU_TRY(ipu__trainer_add_up(t, &loss, &right, ipu__trainer_is_told(t)));
    ipu__trainer_record_run(&t->record, batch->n_samples * t->n_ranks, loss, right,
                            ipu__clock_seconds() - began);
    tell_step(t, batch, rate, loss);
    t->position = (ipu_loader_position){batch->epoch, batch->index + 1};
    if (t->position.batch == t->n_runs) t->position = (ipu_loader_position){batch->epoch + 1, 0};
    return isfinite(loss) ? IPU_OK : ipu__trainer_diverge(t, "the loss is", loss);
}

/* ---- epochs ---- */

static ipu_status train_epoch_rest(ipu_trainer *t)
{
    ipu_batch batch;
    int64_t   epoch = t->position.epoch;
    double    began = ipu__clock_seconds();
    while (!is_stopped(t) && t->position.epoch == epoch && ipu_loader_next(t->loader, &batch)) {
        IPU_TRY(run_batch(t, &batch, began));
        began = ipu__clock_seconds();
        if (is_due(t) && t->position.epoch == epoch) IPU_TRY(ipu__trainer_save(t));
    }
    return ipu_loader_status(t->loader);
}

/* Whether one of the processes was asked to end. */
static ipu_status agree_on_end(ipu_trainer *t)
{
    double wanted = atomic_load(&t->wants_end), unused = 0;
    IPU_TRY(ipu__trainer_add_up(t, &wanted, &unused, t->stops));
    t->ends = wanted > 0;
    return IPU_OK;
}

static ipu_status train_epoch_whole(ipu_trainer *t)
{
    int64_t epoch = t->position.epoch;
    IPU_TRY(train_epoch_rest(t));
    if (t->position.epoch == epoch) return IPU_OK;
    IPU_TRY(ipu__trainer_record_epoch(&t->record));
    IPU_TRY(ipu__trainer_evaluate(t));
    tell_epoch(t);
    IPU_TRY(agree_on_end(t));
    if (t->options.checkpoint_every && !is_due(t) && !ipu__trainer_is_finished(t)) return IPU_OK;
    return ipu__trainer_save(t);
}

/* ---- from the beginning to the end ---- */

static ipu_status compile_both(ipu_trainer *t)
{
    ipu_array arrays[IPU_MAX_FIELDS];
    ipu__trainer_describe(t, ipu_loader_combined_batch_size(t->loader), arrays);
    IPU_TRY(ipu_executor_compile(t->executor, arrays, t->n_fields));
    return t->options.test && ipu__trainer_is_first(t) ? ipu__trainer_compile_test(t) : IPU_OK;
}

/* What the progress of a compilation stops is an interruption as any other, where nobody else has to know of it. */
static ipu_status compile(ipu_trainer *t)
{
    const ipu_trainer_events *e      = &t->options.events;
    ipu_status                status = compile_both(t);
    if (status == IPU_INTERRUPTED && t->n_ranks == 1) {
        atomic_store(&t->is_interrupted, true);
        return IPU_OK;
    }
    IPU_TRY(status);
    if (e->compiled && !t->was_compiled && !is_stopped(t)) e->compiled(e->user);
    t->was_compiled = !is_stopped(t);
    return IPU_OK;
}

/* Of the training, and of its log. */
static ipu_status find_place(ipu_trainer *t)
{
    IPU_TRY(ipu__trainer_settings_agree(t));
    IPU_TRY(ipu__trainer_log_open(t));
    if (t->options.checkpoint_folder) IPU_TRY(ipu__trainer_resume(t));
    return ipu__trainer_log_begin(t);
}

/* Both networks, before the clock starts; an epoch that was not tested because it was interrupted is so now. */
static ipu_status begin(ipu_trainer *t)
{
    t->stops = false;
    if (!t->has_begun) IPU_TRY(find_place(t));
    t->has_begun = true;
    IPU_TRY(compile(t));
    if (is_stopped(t) || ipu__trainer_is_evaluated(t)) return IPU_OK;
    IPU_TRY(ipu__trainer_evaluate(t));
    if (!is_stopped(t)) tell_epoch(t);
    return IPU_OK;
}

static ipu_status stop(ipu_trainer *t)
{
    const ipu_trainer_options *o = &t->options;
    if (t->record.runs > 0) IPU_TRY(ipu__trainer_save(t));
    atomic_store(&t->is_interrupted, false);
    t->has_failed = false;
    if (t->last_saved < 0)
        return ipu__fail(IPU_INTERRUPTED, "stopped after run %lld; nothing is kept",
                         (long long)t->record.runs);
    return ipu__fail(IPU_INTERRUPTED, "stopped after run %lld; %s goes on from %s", (long long)t->last_saved,
                     o->words.resume, o->checkpoint_folder);
}

/* An interruption that comes when all is trained and tested does not matter any more. */
ipu_status ipu_trainer_run(ipu_trainer *t)
{
    if (t->has_failed)
        return ipu__fail(IPU_INVALID,
                         "this training has failed before: go on from a checkpoint with another trainer");
    t->has_failed = true;
    IPU_TRY(begin(t));
    while (!is_stopped(t) && !ipu__trainer_is_finished(t)) IPU_TRY(train_epoch_whole(t));
    if (!ipu__trainer_is_finished(t) || !ipu__trainer_is_evaluated(t)) return stop(t);
    IPU_TRY(ipu__trainer_check_result(t));
    t->has_failed = false;
    return IPU_OK;
}

void ipu_trainer_interrupt(ipu_trainer *t) { atomic_store(&t->is_interrupted, true); }

void ipu_trainer_stop(ipu_trainer *t) { atomic_store(&t->wants_end, true); }

ipu_status ipu_trainer_save_checkpoint(ipu_trainer *t)
{
    return t->has_begun ? ipu__trainer_save(t) : IPU_OK;
}
