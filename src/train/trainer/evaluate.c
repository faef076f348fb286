/* The test set, and what a network makes of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ipu/scores.h"
#include "train/trainer/trainer.h"

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

/* ---- what tests ---- */

/* What is tested is the network as it would be used: rounded to the nearest. The last batch may be a short one. */
static ipu_status open_tester(ipu_trainer *t)
{
    const ipu_executor_options *x = &t->options.executor;
    return ipu_inference_model(t->options.module,
                               &(ipu_executor_options){.target           = x->target,
                                                       .device_id        = x->device_id,
                                                       .attach           = x->attach,
                                                       .cache_folder     = x->cache_folder,
                                                       .engine           = x->engine,
                                                       .precision        = x->precision,
                                                       .most_executables = 2},
                               &t->tester);
}

/* For batches of `n` samples and their first `n_fields` fields. */
static ipu_status compile_tester(ipu_trainer *t, int64_t n, size_t n_fields)
{
    ipu_array arrays[IPU_MAX_FIELDS];
    if (!t->tester) IPU_TRY(open_tester(t));
    ipu__trainer_describe(t, n, arrays);
    return ipu_executor_compile(t->tester, arrays, n_fields);
}

/* The output "loss", or the first that is a floating scalar. NULL: there is none. */
static const ipu_array *find_loss(const ipu_executor *x)
{
    const ipu_array *found = ipu_executor_output(x, "loss");
    for (size_t i = 0; !found && i < ipu_executor_n_outputs(x); i++) {
        const ipu_array *a = ipu_executor_output_at(x, i, NULL);
        if (a->type >= IPU_HALF && a->shape.rank == 0) found = a;
    }
    return found && ipu_array_n_elements(found) == 1 ? found : NULL;
}

/* The network is given all fields. `why`: it is not tested by scores. */
static ipu_status compile_for_loss(ipu_trainer *t, int64_t n, const char *why)
{
    int64_t    n_samples = ipu_dataset_n_samples(t->options.test), rest = n_samples > 0 ? n_samples % n : 0;
    ipu_status status = compile_tester(t, n, t->n_fields);
    if (status != IPU_OK && status != IPU_INVALID) return status;
    if (status != IPU_OK) {
        char message[512];
        snprintf(message, sizeof message, "%s", ipu_message());
        return ipu__fail(status, "%s; and by its loss: %s", why, message);
    }
    if (!find_loss(t->tester))
        return ipu__fail(
            IPU_INVALID,
            "%s; and given all %zu fields outside of training, it gives no scalar output that is its loss",
            why, t->n_fields);
    t->tests_loss = true;
    return rest ? compile_tester(t, rest, t->n_fields) : IPU_OK;
}

/* Labels that are scalars may be compared with scores, for which the network needs the other fields only. */
static ipu_status compile_for_scores(ipu_trainer *t, int64_t n, char *why, size_t size)
{
    ipu_status status = compile_tester(t, n, t->n_fields - 1);
    if (status == IPU_OK && ipu__trainer_find_scores(t->tester, n)) return IPU_OK;
    if (status != IPU_OK && status != IPU_INVALID) return status;
    snprintf(why, size, "the network cannot be tested by scores: %s%.300s",
             status == IPU_OK ? "it has no output [samples, classes]" : "",
             status == IPU_OK ? "" : ipu_message());
    ipu_executor_destroy(t->tester);
    t->tester = NULL;
    return IPU_OK;
}

ipu_status ipu__trainer_compile_test(ipu_trainer *t)
{
    const ipu_field *labels = ipu_dataset_field_at(t->options.test, t->n_fields - 1);
    int64_t          n      = ipu_loader_combined_batch_size(t->test_loader);
    char why[512]           = "the network cannot be tested by scores: there are no labels that are scalars";
    if (t->tester && ipu_executor_is_compiled(t->tester)) return IPU_OK;
    if (labels->shape.rank == 0 && t->n_fields > 1) IPU_TRY(compile_for_scores(t, n, why, sizeof why));
    return t->tester ? IPU_OK : compile_for_loss(t, n, why);
}

/* ---- a batch ---- */

/* A batch that is filled up would have another mean: one that is short is run as it is. */
static ipu_status evaluate_loss(ipu_trainer *t, const ipu_batch *batch, ipu_array *arrays,
                                ipu__trainer_tally *tally)
{
    const ipu_trainer_options *o = &t->options;
    IPU_TRY(ipu_executor_run(t->tester, arrays, t->n_fields));
    const ipu_array *loss = find_loss(t->tester);
    tally->loss += (loss ? ipu_array_value(loss, 0) : (double)NAN) * (double)batch->n_samples;
    tally->right += o->metric ? o->metric(o->metric_user, t->tester, batch) : (double)NAN;
    tally->n += batch->n_samples;
    return IPU_OK;
}

static ipu_status evaluate_scores(ipu_trainer *t, const ipu_batch *batch, ipu_array *arrays,
                                  ipu__trainer_tally *tally)
{
    int64_t          n      = ipu_loader_combined_batch_size(t->test_loader);
    const ipu_array *labels = &batch->arrays[t->n_fields - 1];
    double           right  = tally->right;
    if (batch->n_samples < n) IPU_TRY(fill_up(t, arrays, n));
    IPU_TRY(ipu_executor_run(t->tester, arrays, t->n_fields - 1));
    const ipu_array *scores = ipu__trainer_find_scores(t->tester, n);
    IPU_TRY(check_labels(t, labels, batch->n_samples, scores->shape.dim[1]));
    ipu__trainer_count(scores, labels, batch->n_samples, tally);
    if (t->options.metric) tally->right = right + t->options.metric(t->options.metric_user, t->tester, batch);
    return IPU_OK;
}

static ipu_status evaluate_batch(ipu_trainer *t, const ipu_batch *batch, ipu__trainer_tally *tally)
{
    ipu_array arrays[IPU_MAX_FIELDS];
    ipu__trainer_batch(t, batch, arrays);
    return t->tests_loss ? evaluate_loss(t, batch, arrays, tally) : evaluate_scores(t, batch, arrays, tally);
}

static void tell_batch(const ipu_trainer *t, const ipu_batch *batch, const ipu__trainer_tally *tally)
{
    const ipu_trainer_events *e = &t->options.events;
    if (e->testing)
        e->testing(e->user, &(ipu_trainer_test){.batch     = batch->index,
                                                .n_batches = ipu_loader_n_batches(t->test_loader),
                                                .accuracy  = tally->right / (double)tally->n});
}

/* ---- the test set ---- */

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
    if (!t->options.test) return IPU_OK;
    if (ipu__trainer_is_first(t)) IPU_TRY(evaluate_all(t, &tally));
    double results[2] = {tally.right / (double)tally.n, tally.loss / (double)tally.n};
    IPU_TRY(ipu__trainer_tell(t, results, 2, ipu__trainer_is_told(t)));
    if (t->stops) return IPU_OK;
    ipu_trainer_epoch *last = &t->record.epochs[t->record.n_epochs - 1];
    last->test_accuracy     = results[0];
    last->test_loss         = results[1];
    return isfinite(results[1]) ? IPU_OK : ipu__trainer_diverge(t, "the test loss is", results[1]);
}
