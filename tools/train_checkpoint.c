/* A training goes on from checkpoints, and makes them: its part of train_session.h. */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "train_session.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* The caller's own part of a checkpoint: {"options": ..., "record": ...}. NULL: out of memory. */
static char *make_text(const train_session *s)
{
    json_t *all  = json_pack("{s:O, s:o}", "options", s->options_json, "record",
                             train_record_json(&s->record));
    char   *text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(all);
    return text;
}

tool_exit train_session_save_checkpoint(train_session *s)
{
    if (!s->settings.checkpoint_dir || s->last_saved == s->record.runs) return TOOL_OK;
    tool_exit code = train_session_check_weights(s);
    if (code != TOOL_OK) return code;
    ipu_checkpoint c = {.step     = s->record.runs,
                        .position = s->position,
                        .text     = make_text(s),
                        .model    = (char *)s->settings.model};
    ipu_status     status;
    if (!c.text) return tool_fail("out of memory");
    status = ipu_executor_get_state(s->trainer, &c.state);
    if (status == IPU_OK && s->store) status = ipu_checkpoint_save(s->store, &c);
    ipu_npz_free(&c.state);
    free(c.text);
    if (status != IPU_OK) {
        progress_clear(&s->progress);
        return failed();
    }
    s->last_saved = s->record.runs;
    return TOOL_OK;
}

/* What the text of a checkpoint says, taken over. */
static tool_exit take_text(train_session *s, const ipu_checkpoint *c)
{
    json_error_t wrong;
    json_t      *all  = c->text ? json_loads(c->text, 0, &wrong) : NULL;
    tool_exit    code = TOOL_FAILED;
    if (!all)
        tool_fail("--resume: the newest checkpoint in %s was not written by ipu train",
                  s->settings.checkpoint_dir);
    else
        code = train_settings_compare(json_object_get(all, "options"), s->options_json);
    if (code == TOOL_OK && !train_record_parse(&s->record, json_object_get(all, "record")))
        code = tool_fail("--resume: the newest checkpoint in %s has no record of its training",
                         s->settings.checkpoint_dir);
    json_decref(all);
    return code;
}

static tool_exit take(train_session *s, const ipu_checkpoint *c)
{
    if (c->model && strcmp(c->model, s->settings.model) != 0)
        return tool_fail("--resume: the checkpoint in %s is of the model %s, not of %s",
                         s->settings.checkpoint_dir, c->model, s->settings.model);
    tool_exit code = take_text(s, c);
    if (code != TOOL_OK) return code;
    if (ipu_executor_set_state(s->trainer, &c->state) != IPU_OK
        || ipu_loader_seek(s->loader, c->position) != IPU_OK)
        return failed();
    s->position     = c->position;
    s->resumed_from = s->last_saved = c->step;
    if (s->position.epoch >= s->settings.epochs)
        progress_line(&s->progress, "the training in %s is finished: %lld epochs", s->settings.checkpoint_dir,
                      (long long)s->position.epoch);
    else
        progress_line(&s->progress, "going on from %s: epoch %lld, batch %lld of %lld",
                      s->settings.checkpoint_dir, (long long)s->position.epoch + 1,
                      (long long)s->position.batch, (long long)s->n_runs);
    return TOOL_OK;
}

/* What was passed over is told whatever the log is set to: work is lost with it. */
static tool_exit load_last(train_session *s, ipu_checkpoint *c, const char **path)
{
    ipu_status  status = ipu_checkpoint_load_last(s->store, c);
    const char *hint   = status == IPU_INVALID ? " with --restart" : "";
    if (status == IPU_NOT_FOUND) {
        progress_line(&s->progress, "no checkpoint in %s: from the beginning", s->settings.checkpoint_dir);
        return TOOL_OK;
    }
    if (status != IPU_OK) return tool_fail("--resume: %s%s", ipu_message(), hint);
    *path = ipu_checkpoint_store_at(s->store, ipu_checkpoint_store_n(s->store) - 1);
    return TOOL_OK;
}

/* Of rank 0: the newest checkpoint. `path` NULL: there is none. */
static tool_exit find_checkpoint(train_session *s, ipu_checkpoint *c, const char **path)
{
    const char *folder = s->settings.checkpoint_dir;
    *path              = NULL;
    if (ipu_checkpoint_store_open(folder, 0, &s->store) != IPU_OK) return failed();
    if (s->settings.restart) return ipu_checkpoint_store_restart(s->store) == IPU_OK ? TOOL_OK : failed();
    if (s->settings.resume) return load_last(s, c, path);
    size_t n = ipu_checkpoint_store_n(s->store);
    if (n == 0) return TOOL_OK;
    return tool_fail(
        "%s holds a checkpoint of an earlier training, %s: go on from it with --resume, begin anew with "
        "--restart, or use another folder",
        folder, ipu_checkpoint_store_at(s->store, n - 1));
}

tool_exit train_session_resume(train_session *s)
{
    ipu_checkpoint c    = {0};
    const char    *path = NULL;
    tool_exit      code = TOOL_OK;
    double         has_one;
    bool           first = train_group_is_first(&s->group);
    if (first) code = find_checkpoint(s, &c, &path);
    if (path) code = take(s, &c);
    has_one = path != NULL;
    code    = train_group_agree(&s->group, code); /* what is wrong with it is told once */
    if (code == TOOL_OK) code = train_group_tell(&s->group, &has_one, 1, false);
    if (code == TOOL_OK && has_one != 0) code = train_group_share_checkpoint(&s->group, path, &c);
    if (code == TOOL_OK && has_one != 0 && !first) code = take(s, &c);
    ipu_checkpoint_free(&c);
    return code;
}
