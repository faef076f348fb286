/* The test set, and what a network makes of it: its part of train_session.h. */
#include <math.h>
#include <string.h>

#include "output.h"
#include "scores.h"
#include "train_session.h"

static tool_exit failed(train_session *s)
{
    progress_clear(&s->progress);
    return tool_fail("%s", ipu_message());
}

/* What is compiled takes full batches: images of a short one are copied and filled up with zeros. */
static ipu_status fill_up(train_session *s, ipu_array *images, int64_t n)
{
    ipu_shape shape = images->shape;
    shape.dim[0]    = n;
    if (!s->rest.data) IPU_TRY(ipu_array_create(images->type, shape, &s->rest));
    memset(s->rest.data, 0, ipu_array_bytes(&s->rest));
    memcpy(s->rest.data, images->data, ipu_array_bytes(images));
    *images = s->rest;
    return IPU_OK;
}

const ipu_array *train_find_scores(const ipu_executor *x, int64_t n)
{
    for (size_t i = 0; i < ipu_executor_n_outputs(x); i++) {
        const ipu_array *a = ipu_executor_output_at(x, i, NULL);
        if (scores_fit(a, n)) return a;
    }
    return NULL;
}

void train_count(const ipu_array *scores, const ipu_array *labels, int64_t n, train_tally *t)
{
    int64_t n_classes = scores->shape.dim[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t label = llround(ipu_array_value(labels, i));
        t->right += scores_best(scores, i * n_classes, n_classes) == label;
        t->loss += scores_loss(scores, i * n_classes, n_classes, label);
    }
    t->n += n;
}

/* The kernels of a training look for themselves. */
static tool_exit check_labels(const train_session *s, const ipu_batch *batch, int64_t n_classes)
{
    for (int64_t i = 0; i < batch->n_samples; i++) {
        long long label = llround(ipu_array_value(&batch->arrays[1], i));
        if (label >= n_classes)
            return tool_fail("%s: a label of the test set is %lld: the network has classes 0 to %lld",
                             s->settings.data, label, (long long)n_classes - 1);
    }
    return TOOL_OK;
}

static tool_exit evaluate_batch(train_session *s, const ipu_batch *batch, train_tally *t)
{
    int64_t   n = ipu_loader_combined_batch_size(s->test_loader);
    ipu_array arrays[2];
    train_session_batch(s, batch, arrays);
    if ((batch->n_samples < n && fill_up(s, &arrays[0], n) != IPU_OK)
        || ipu_executor_run(s->tester, arrays, 1) != IPU_OK)
        return failed(s);
    const ipu_array *scores = train_find_scores(s->tester, n);
    if (!scores) return tool_fail("the model has no output [%lld, classes] to be evaluated by", (long long)n);
    tool_exit code = check_labels(s, batch, scores->shape.dim[1]);
    if (code == TOOL_OK) train_count(scores, &batch->arrays[1], batch->n_samples, t);
    return code;
}

static tool_exit evaluate_all(train_session *s, train_tally *t, bool (*stop)(void))
{
    tool_exit code = TOOL_OK;
    ipu_batch batch;
    if (ipu_loader_seek(s->test_loader, (ipu_loader_position){0}) != IPU_OK) return failed(s);
    while (code == TOOL_OK && !stop() && ipu_loader_next(s->test_loader, &batch)) {
        code = evaluate_batch(s, &batch, t);
        progress_show(&s->progress, &(progress_state){.what         = "testing",
                                                      .done         = batch.index + 1,
                                                      .total        = ipu_loader_n_batches(s->test_loader),
                                                      .loss         = NAN,
                                                      .accuracy     = t->n ? t->right / (double)t->n : NAN,
                                                      .seconds_left = -1});
    }
    if (code == TOOL_OK && ipu_loader_status(s->test_loader) != IPU_OK) code = failed(s);
    return code;
}

/* By rank 0, who tells the others. */
tool_exit train_session_evaluate(train_session *s, bool (*stop)(void))
{
    train_tally t          = {0};
    tool_exit   code       = train_group_is_first(&s->group) ? evaluate_all(s, &t, stop) : TOOL_OK;
    double      results[2] = {t.right / (double)t.n, t.loss / (double)t.n};
    if (code == TOOL_OK) code = train_group_tell(&s->group, results, 2, stop());
    if (code != TOOL_OK || s->group.stops) return code;
    train_epoch *last   = &s->record.epochs[s->record.n_epochs - 1];
    last->test_accuracy = results[0];
    last->test_loss     = results[1];
    return isfinite(results[1]) ? TOOL_OK : train_session_diverge(s, "the test loss is", results[1]);
}
