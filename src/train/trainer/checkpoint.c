/* A training goes on from checkpoints, and makes them. */
#include <stdlib.h>
#include <string.h>

#include "train/trainer/trainer.h"

/* ---- making ---- */

/* The caller's own part of a checkpoint: {"options": ..., "record": ...}. NULL: out of memory. */
static char *make_text(const ipu_trainer *t)
{
    json_t *all  = json_pack("{s:O, s:o}", "options", t->settings, "record",
                             ipu__trainer_record_json(&t->record));
    char   *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    return text;
}

static void tell_saved(const ipu_trainer *t)
{
    const ipu_trainer_events *e = &t->options.events;
    if (e->checkpoint && t->store)
        e->checkpoint(e->user, ipu_checkpoint_store_at(t->store, ipu_checkpoint_store_n(t->store) - 1));
}

ipu_status ipu__trainer_save(ipu_trainer *t)
{
    if (!t->options.checkpoint_folder || t->last_saved == t->record.runs) return IPU_OK;
    IPU_TRY(ipu__trainer_check_weights(t));
    ipu_checkpoint c = {.step     = t->record.runs,
                        .position = t->position,
                        .text     = make_text(t),
                        .model    = (char *)(uintptr_t)t->options.model};
    if (!c.text) return ipu__fail_memory();
    ipu_status status = ipu_executor_get_state(t->executor, &c.state);
    if (status == IPU_OK && t->store) status = ipu_checkpoint_save(t->store, &c);
    ipu_npz_free(&c.state);
    free(c.text);
    IPU_TRY(status);
    t->last_saved = t->record.runs;
    tell_saved(t);
    return IPU_OK;
}

/* ---- going on ---- */

/* What the text of a checkpoint says, taken over. */
static ipu_status take_json(ipu_trainer *t, const json_t *all)
{
    const ipu_trainer_options *o = &t->options;
    if (!all)
        return ipu__fail(IPU_INVALID, "%s: the newest checkpoint in %s was not written by %s",
                         o->words.resume, o->checkpoint_folder, o->words.program);
    IPU_TRY(ipu__trainer_settings_compare(t, json_object_get(all, "options")));
    if (!ipu__trainer_record_parse(&t->record, json_object_get(all, "record")))
        return ipu__fail(IPU_INVALID, "%s: the newest checkpoint in %s has no record of its training",
                         o->words.resume, o->checkpoint_folder);
    return IPU_OK;
}

static ipu_status take_text(ipu_trainer *t, const char *text)
{
    json_error_t wrong;
    json_t      *all    = text ? json_loads(text, 0, &wrong) : NULL;
    ipu_status   status = take_json(t, all);
    json_decref(all);
    return status;
}

static ipu_status take(ipu_trainer *t, const ipu_checkpoint *c)
{
    const ipu_trainer_options *o      = &t->options;
    const char                *folder = o->checkpoint_folder;
    if (c->model && o->model && strcmp(c->model, o->model) != 0)
        return ipu__fail(IPU_INVALID, "%s: the checkpoint in %s is of the model %s, not of %s",
                         o->words.resume, folder, c->model, o->model);
    IPU_TRY(take_text(t, c->text));
    IPU_TRY(ipu_executor_set_state(t->executor, &c->state));
    IPU_TRY(ipu_loader_seek(t->loader, c->position));
    t->position     = c->position;
    t->resumed_from = t->last_saved = c->step;
    if (ipu__trainer_is_finished(t))
        ipu__trainer_say(t, IPU_LOG_INFO, "the training in %s is finished: %lld epochs", folder,
                         (long long)t->position.epoch);
    else
        ipu__trainer_say(t, IPU_LOG_INFO, "going on from %s: epoch %lld, batch %lld of %lld", folder,
                         (long long)t->position.epoch + 1, (long long)t->position.batch,
                         (long long)t->n_runs);
    return IPU_OK;
}

static ipu_status load_last(ipu_trainer *t, ipu_checkpoint *c, const char **path)
{
    const ipu_trainer_words *w      = &t->options.words;
    ipu_status               status = ipu_checkpoint_load_last(t->store, c);
    if (status == IPU_NOT_FOUND) {
        ipu__trainer_say(t, IPU_LOG_INFO, "no checkpoint in %s: from the beginning",
                         t->options.checkpoint_folder);
        return IPU_OK;
    }
    if (status == IPU_INVALID)
        return ipu__fail(status, "%s: %s with %s", w->resume, ipu_message(), w->restart);
    if (status != IPU_OK) return ipu__fail(status, "%s: %s", w->resume, ipu_message());
    *path = ipu_checkpoint_store_at(t->store, ipu_checkpoint_store_n(t->store) - 1);
    return IPU_OK;
}

/* Of the first process: the newest checkpoint. `path` NULL: there is none. */
static ipu_status find_checkpoint(ipu_trainer *t, ipu_checkpoint *c, const char **path)
{
    const ipu_trainer_options *o      = &t->options;
    const char                *folder = o->checkpoint_folder;
    *path                             = NULL;
    IPU_TRY(ipu_checkpoint_store_open(folder, o->checkpoints_kept, &t->store));
    if (o->begin == IPU_TRAINER_RESTART) return ipu_checkpoint_store_restart(t->store);
    if (o->begin == IPU_TRAINER_RESUME) return load_last(t, c, path);
    size_t n = ipu_checkpoint_store_n(t->store);
    if (n == 0) return IPU_OK;
    return ipu__fail(
        IPU_INVALID,
        "%s holds a checkpoint of an earlier training, %s: go on from it with %s, begin anew with "
        "%s, or use another folder",
        folder, ipu_checkpoint_store_at(t->store, n - 1), o->words.resume, o->words.restart);
}

/* What is wrong with it is told once. */
static ipu_status take_last(ipu_trainer *t, ipu_checkpoint *c)
{
    const char *path   = NULL;
    ipu_status  status = IPU_OK;
    bool        first  = ipu__trainer_is_first(t);
    if (first) status = find_checkpoint(t, c, &path);
    if (status == IPU_OK && path) status = take(t, c);
    double has_one = path != NULL;
    IPU_TRY(ipu__trainer_agree(t, status));
    IPU_TRY(ipu__trainer_tell(t, &has_one, 1, false));
    if (has_one == 0) return IPU_OK;
    IPU_TRY(ipu__trainer_share_checkpoint(t, path, c));
    return first ? IPU_OK : take(t, c);
}

ipu_status ipu__trainer_resume(ipu_trainer *t)
{
    ipu_checkpoint c      = {0};
    ipu_status     status = take_last(t, &c);
    ipu_checkpoint_free(&c);
    return status;
}
