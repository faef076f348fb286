/* The test set, and what a network makes of it. */
#include <math.h>
#include <string.h>

#include "ipu/scores.h"
#include "train/trainer.h"

/* What is compiled takes full batches: fields of a short one are copied and filled up with zeros. */
static ipu_status fill_up(ipu_trainer *t, ipu_array *fields, int64_t n)
{
    for (size_t i = 0; i + 1 < t->n_fields; i++) {
        ipu_array *rest = &t->rest[i];
        if (!rest->data) {
            ipu_shape shape = fields[i].shape;
            shape.dim[0]    = n;
            IPU_TRY(ipu_array_create(fields[i].type, shape, rest));
        }
        memset(rest->data, 0, ipu_array_bytes(rest));
        memcpy(rest->data, fields[i].data, ipu_array_bytes(&fields[i]));
        fields[i] = *rest;
    }
    return IPU_OK;
}

const ipu_array *ipu__trainer_find_scores(const ipu_executor *x, int64_t n)
{
    for (size_t i = 0; i < ipu_executor_n_outputs(x); i++) {
        const ipu_array *a = ipu_executor_output_at(x, i, NULL);
        if (ipu_scores_fit(a, n)) return a;
    }
    return NULL;
}

void ipu__trainer_count(const ipu_array *scores, const ipu_array *labels, int64_t n, ipu__trainer_tally *t)
{
    int64_t n_classes = scores->shape.dim[1];
    for (int64_t i = 0; i < n; i++) {
        int64_t label = llround(ipu_array_value(labels, i));
        t->right += ipu_scores_best(scores, i * n_classes, n_classes) == label;
        t->loss += ipu_scores_loss(scores, i * n_classes, n_classes, label);
    }
    t->n += n;
}

/* The kernels of a training look for themselves. */
static ipu_status check_labels(const ipu_trainer *t, const ipu_array *labels, int64_t n, int64_t n_classes)
{
    for (int64_t i = 0; i < n; i++) {
        long long label = llround(ipu_array_value(labels, i));
        if (label >= n_classes)
            return ipu__fail(IPU_INVALID,
                             "%s: a label of the test set is %lld: the network has classes 0 to %lld",
                             t->options.words.data, label, (long long)n_classes - 1);
    }
    return IPU_OK;
}

static ipu_status evaluate_batch(ipu_trainer *t, const ipu_batch *batch, ipu__trainer_tally *tally)
{
    int64_t          n      = ipu_loader_combined_batch_size(t->test_loader);
    const ipu_array *labels = &batch->arrays[t->n_fields - 1];
    ipu_array        arrays[IPU_MAX_FIELDS];
    ipu__trainer_batch(t, batch, arrays);
    if (batch->n_samples < n) IPU_TRY(fill_up(t, arrays, n));
    IPU_TRY(ipu_executor_run(t->tester, arrays, t->n_fields - 1));
    const ipu_array *scores = ipu__trainer_find_scores(t->tester, n);
    if (!scores)
        return ipu__fail(IPU_INVALID, "the model has no output [%lld, classes] to be evaluated by",
                         (long long)n);
    IPU_TRY(check_labels(t, labels, batch->n_samples, scores->shape.dim[1]));
    ipu__trainer_count(scores, labels, batch->n_samples, tally);
    return IPU_OK;
}

static void tell_batch(const ipu_trainer *t, const ipu_batch *batch, const ipu__trainer_tally *tally)
{
    const ipu_trainer_events *e = &t->options.events;
    if (e->testing)
        e->testing(e->user, &(ipu_trainer_test){.batch     = batch->index,
                                                .n_batches = ipu_loader_n_batches(t->test_loader),
                                                .accuracy  = tally->right / (double)tally->n});
}

static ipu_status evaluate_all(ipu_trainer *t, ipu__trainer_tally *tally)
{
    ipu_batch batch;
    IPU_TRY(ipu_loader_seek(t->test_loader, (ipu_loader_position){0}));
    while (!ipu__trainer_is_told(t) && ipu_loader_next(t->test_loader, &batch)) {
        IPU_TRY(evaluate_batch(t, &batch, tally));
        tell_batch(t, &batch, tally);
    }
    return ipu_loader_status(t->test_loader);
}

/* By the first process, which tells the others. */
ipu_status ipu__trainer_evaluate(ipu_trainer *t)
{
    ipu__trainer_tally tally = {0};
    if (!t->tester) return IPU_OK;
    if (ipu__trainer_is_first(t)) IPU_TRY(evaluate_all(t, &tally));
    double results[2] = {tally.right / (double)tally.n, tally.loss / (double)tally.n};
    IPU_TRY(ipu__trainer_tell(t, results, 2, ipu__trainer_is_told(t)));
    if (t->stops) return IPU_OK;
    ipu_trainer_epoch *last = &t->record.epochs[t->record.n_epochs - 1];
    last->test_accuracy     = results[0];
    last->test_loss         = results[1];
    return isfinite(results[1]) ? IPU_OK : ipu__trainer_diverge(t, "the test loss is", results[1]);
}
