/* Logs of trainings. What they hold ends where the training is, also when it goes on from a checkpoint of before: rows after that
 * are cut, and event files say that theirs are superseded. */
#include "train/trainer/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/host/folder.h"
#include "base/text.h"
#include "train/trainer/trainer.h"

static const char step_columns[] =
    "step,epoch,batch,loss,mean_loss,accuracy,rate,samples,samples_per_second,seconds,time";
static const char epoch_columns[] =
    "epoch,step,loss,accuracy,test_loss,test_accuracy,samples,samples_per_second,seconds,time";

/* ---- opening ---- */

static ipu_status open_table(const char *folder, const char *name, const char *columns, ipu__csv *out)
{
    ipu__text path = {0};
    ipu__text_add(&path, "%s/%s", folder, name);
    ipu_status status = path.failed ? ipu__fail_memory() : ipu__csv_open(path.at, columns, out);
    ipu__text_fini(&path);
    return status;
}

static ipu_status open_tables(ipu_trainer *t)
{
    const ipu_trainer_options *o   = &t->options;
    ipu__trainer_log          *log = &t->log;
    IPU_TRY(ipu__folder_make(o->log_folder, 0777));
    IPU_TRY(open_table(o->log_folder, "steps.csv", step_columns, &log->steps));
    IPU_TRY(open_table(o->log_folder, "epochs.csv", epoch_columns, &log->epochs));
    if (o->begin != IPU_TRAINER_NEW || (ipu__csv_is_empty(&log->steps) && ipu__csv_is_empty(&log->epochs)))
        return IPU_OK;
    return ipu__fail(
        IPU_INVALID,
        "%s holds the log of an earlier training: go on with that from its checkpoint with %s, begin anew with %s, or "
        "use another folder",
        o->log_folder, o->words.resume, o->words.restart);
}

ipu_status ipu__trainer_log_open(ipu_trainer *t)
{
    bool is_mine = t->options.log_folder && ipu__trainer_is_first(t);
    return ipu__trainer_agree(t, is_mine ? open_tables(t) : IPU_OK);
}

/* ---- beginning ---- */

static ipu_status restart(ipu__csv *table)
{
    return ipu__csv_is_empty(table) ? IPU_OK : ipu__csv_restart(table);
}

/* What the training goes on from was written before its checkpoint; but for an epoch whose test was interrupted. */
static ipu_status cut_tables(ipu_trainer *t)
{
    ipu__trainer_log *log = &t->log;
    if (t->resumed_from < 0) {
        IPU_TRY(restart(&log->steps));
        return restart(&log->epochs);
    }
    IPU_TRY(ipu__csv_cut(&log->steps, t->record.runs));
    return ipu__csv_cut(&log->epochs, t->record.n_epochs - !ipu__trainer_is_evaluated(t));
}

/* In a cell of a table of Markdown. */
static void add_cell(ipu__text *text, const char *value)
{
    for (; *value; value++)
        if (*value == '|' || *value == '\\' || *value == '`' || *value == '<')
            ipu__text_add(text, "\\%c", *value);
        else
            ipu__text_add_bytes(text, *value == '\n' || *value == '\r' ? " " : value, 1);
}

static ipu_status write_settings(const ipu_trainer *t)
{
    ipu__text   text = {0};
    const char *key;
    json_t     *value;
    ipu__text_add(&text, "| setting | value |\n|---|---|\n");
    json_object_foreach(t->settings, key, value)
    {
        char *said = json_is_string(value) ? NULL
                                           : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        ipu__text_add(&text, "| ");
        add_cell(&text, key);
        ipu__text_add(&text, " | ");
        add_cell(&text, said ? said : json_is_string(value) ? json_string_value(value) : "");
        ipu__text_add(&text, " |\n");
        free(said);
    }
    ipu_status status = text.failed ? ipu__fail_memory()
                                    : ipu_summary_add_text(t->log.summary, 0, "settings", text.at);
    ipu__text_fini(&text);
    return status;
}

static ipu_status begin(ipu_trainer *t)
{
    ipu__trainer_log *log   = &t->log;
    int64_t           after = t->resumed_from >= 0 ? t->record.runs + 1 : 0;
    log->seconds            = t->record.seconds;
    log->n_samples          = t->record.n_samples;
    IPU_TRY(cut_tables(t));
    IPU_TRY(ipu_summary_open(t->options.log_folder, t->options.begin == IPU_TRAINER_NEW ? -1 : after,
                             &log->summary));
    return t->resumed_from < 0 ? write_settings(t) : IPU_OK;
}

ipu_status ipu__trainer_log_begin(ipu_trainer *t)
{
    bool is_mine = t->options.log_folder && ipu__trainer_is_first(t);
    return ipu__trainer_agree(t, is_mine ? begin(t) : IPU_OK);
}

void ipu__trainer_log_close(ipu__trainer_log *log)
{
    ipu__csv_close(&log->steps);
    ipu__csv_close(&log->epochs);
    ipu_summary_close(log->summary);
    log->summary = NULL;
}

/* ---- writing ---- */

/* Of a disk that is full for long, one warning is enough, though a few rows of one of the tables still have room. */
static void note(ipu_trainer *t, bool *fails, ipu_status status)
{
    bool was_told = t->log.steps_fail || t->log.epochs_fail;
    *fails        = status != IPU_OK;
    if (*fails && !was_told)
        ipu__trainer_say(
            t, IPU_LOG_WARN,
            "the log: %s; the training goes on, and what is not written until that is mended is left out",
            ipu_message());
}

/* UTC, as ISO 8601 has it. */
static void write_time(char *out, size_t size)
{
    struct timespec t;
    struct tm       parts;
    char            text[32];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out, size, "%s.%03dZ", text, (int)(t.tv_nsec / 1000000));
}

/* Those that are not known are left out. */
static ipu_status write_scalars(ipu_trainer *t, ipu_summary_scalar *scalars, size_t n)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (!isnan(scalars[i].value) || strstr(scalars[i].tag, "loss")) scalars[known++] = scalars[i];
    return ipu_summary_add_scalars(t->log.summary, t->record.runs, scalars, known);
}

static double speed(double n_samples, double seconds)
{
    return seconds > 0 ? n_samples / seconds : (double)NAN;
}

void ipu__trainer_log_step(ipu_trainer *t, const ipu_trainer_step *step)
{
    ipu__trainer_log          *log   = &t->log;
    const ipu__trainer_record *r     = &t->record;
    int64_t                    every = t->options.log_every;
    char                       when[48];
    if (!log->summary || (every > 0 && r->runs % every != 0)) return;
    double             pace      = speed(r->n_samples - log->n_samples, r->seconds - log->seconds);
    const double       row[]     = {(double)step->epoch + 1,
                                    (double)step->batch + 1,
                                    step->loss,
                                    step->mean_loss,
                                    step->accuracy,
                                    step->rate,
                                    r->n_samples,
                                    pace,
                                    r->seconds};
    ipu_summary_scalar scalars[] = {{"train/loss", step->loss},
                                    {"train/accuracy", step->accuracy},
                                    {"train/rate", step->rate},
                                    {"train/samples_per_second", pace}};
    write_time(when, sizeof when);
    ipu_status status = ipu__csv_add(&log->steps, r->runs, row, sizeof row / sizeof *row, when);
    if (status == IPU_OK) status = write_scalars(t, scalars, sizeof scalars / sizeof *scalars);
    note(t, &log->steps_fail, status);
    log->seconds   = r->seconds;
    log->n_samples = r->n_samples;
}

static ipu_status write_weights(ipu_trainer *t)
{
    ipu_module *module = t->options.module;
    char        tag[512];
    for (size_t i = 0; i < ipu_module_n_weights(module); i++) {
        const char      *name;
        const ipu_array *a;
        IPU_TRY(ipu_module_weight_at(module, i, &name, &a));
        if (a->type < IPU_HALF || ipu_array_n_elements(a) == 0) continue;
        snprintf(tag, sizeof tag, "weights/%s", name);
        IPU_TRY(ipu_summary_add_histogram(t->log.summary, t->record.runs, tag, a));
    }
    return IPU_OK;
}

void ipu__trainer_log_epoch(ipu_trainer *t)
{
    ipu__trainer_log          *log = &t->log;
    const ipu__trainer_record *r   = &t->record;
    char                       when[48];
    if (!log->summary || !ipu__trainer_is_evaluated(t)) return;
    const ipu_trainer_epoch *e         = &r->epochs[r->n_epochs - 1];
    double                   pace      = speed(e->n_samples, e->seconds);
    const double             row[]     = {(double)r->runs,  e->loss,      e->accuracy, e->test_loss,
                                          e->test_accuracy, e->n_samples, pace,        e->seconds};
    ipu_summary_scalar       scalars[] = {{"epoch/loss", e->loss},
                                          {"epoch/accuracy", e->accuracy},
                                          {"epoch/samples_per_second", pace},
                                          {"test/loss", e->test_loss},
                                          {"test/accuracy", e->test_accuracy}};
    write_time(when, sizeof when);
    ipu_status status = ipu__csv_add(&log->epochs, r->n_epochs, row, sizeof row / sizeof *row, when);
    if (status == IPU_OK) status = write_scalars(t, scalars, t->options.test ? 5 : 3);
    if (status == IPU_OK && t->options.log_weights) status = write_weights(t);
    note(t, &log->epochs_fail, status);
}
