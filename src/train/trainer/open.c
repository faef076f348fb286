/* A trainer's life: what it is asked for is checked, executors and loaders are made, and what came of it is read. */
#include <string.h>

#include "base/alloc.h"
#include "train/trainer/trainer.h"

/* ---- what it is asked for ---- */

static void or_else(const char **word, const char *usual)
{
    if (!*word) *word = usual;
}

static void complete(ipu_trainer *t)
{
    ipu_trainer_options *o = &t->options;
    ipu_trainer_words   *w = &o->words;
    if (o->n_epochs == 0) o->n_epochs = 1;
    if (o->loader.batch_size == 0) o->loader.batch_size = 1;
    if (o->input.rank == 0) {
        o->input = ipu_dataset_field_at(o->data, 0)->shape;
        ipu_module_fit_sample(o->module, 0, &o->input);
    }
    if (o->executor.output_mode == IPU_OUTPUT_DEFAULT) o->executor.output_mode = IPU_OUTPUT_ALL;
    if (!ipu__trainer_is_first(t)) o->events = (ipu_trainer_events){0};
    or_else(&w->resume, "IPU_TRAINER_RESUME");
    or_else(&w->restart, "IPU_TRAINER_RESTART");
    or_else(&w->keep, "keep_diverged");
    or_else(&w->folder, "checkpoint_folder");
    or_else(&w->rate, "rate");
    or_else(&w->loss_scale, "loss_scale");
    or_else(&w->constant, "a schedule of its own length");
    or_else(&w->program, "a trainer");
    or_else(&w->data, "the data");
}

static int64_t n_elements(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++) n *= shape->dim[d];
    return n;
}

static ipu_status check_test(const ipu_trainer *t)
{
    const ipu_dataset *data = t->options.data, *test = t->options.test;
    if (ipu_dataset_n_fields(test) != t->n_fields)
        return ipu__fail(IPU_INVALID,
                         "a trainer's data have %zu fields and its test set has %zu: expected as many",
                         t->n_fields, ipu_dataset_n_fields(test));
    for (size_t i = 0; i < t->n_fields; i++) {
        const ipu_field *a = ipu_dataset_field_at(data, i), *b = ipu_dataset_field_at(test, i);
        if (a->type != b->type || a->shape.rank != b->shape.rank
            || memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof *a->shape.dim) != 0)
            return ipu__fail(IPU_INVALID,
                             "field %zu, \"%s\", of a trainer's test set has another type or shape than in "
                             "its data",
                             i, b->name);
    }
    return IPU_OK;
}

static ipu_status check(const ipu_trainer *t)
{
    const ipu_trainer_options *o = &t->options;
    if (o->n_epochs < 0 || o->checkpoint_every < 0 || o->patience < 0 || o->log_every < 0)
        return ipu__fail(
            IPU_INVALID,
            "a trainer's n_epochs, checkpoint_every, patience and log_every: expected none below 0, "
            "found %lld, %lld, %lld and %lld",
            (long long)o->n_epochs, (long long)o->checkpoint_every, (long long)o->patience,
            (long long)o->log_every);
    if (o->loader.keep_last)
        return ipu__fail(IPU_INVALID,
                         "a trainer's loader has keep_last: expected full batches only, as its network is "
                         "compiled for them");
    if (o->patience > 0 && !o->test)
        return ipu__fail(IPU_INVALID, "a trainer's patience is with the test loss: expected a test set");
    const ipu_field *first = ipu_dataset_field_at(o->data, 0);
    if (o->input.rank > 0 && n_elements(&o->input) != n_elements(&first->shape))
        return ipu__fail(IPU_INVALID,
                         "a trainer's input has %lld elements: expected the %lld of field \"%s\"",
                         (long long)n_elements(&o->input), (long long)n_elements(&first->shape), first->name);
    return o->test ? check_test(t) : IPU_OK;
}

/* ---- life ---- */

static ipu_status open_network(ipu_trainer *t)
{
    const ipu_trainer_options  *o   = &t->options;
    const ipu_executor_options *x   = &o->executor;
    const ipu_loader_options    all = {
           .batch_size = o->loader.batch_size, .n_workers = o->loader.n_workers, .keep_last = true};
    IPU_TRY(ipu_training_model(o->module, x, &o->training, &t->executor));
    IPU_TRY(ipu_loader_create(o->data, x, &o->loader, &t->loader));
    if (o->test) IPU_TRY(ipu_loader_create(o->test, NULL, &all, &t->test_loader));
    t->n_runs = ipu_loader_n_batches(t->loader);
    if (t->n_runs > 0) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "a trainer's data are a dataset whose number of samples is not known: expected one that "
                     "tells how many there are");
}

static ipu_status open_trainer(ipu_trainer *t)
{
    if (!t->options.module || !t->options.data)
        return ipu__fail(IPU_INVALID, "a trainer needs a module and data: found %s",
                         t->options.module ? "no data" : "no module");
    t->n_fields = ipu_dataset_n_fields(t->options.data);
    complete(t);
    IPU_TRY(check(t));
    IPU_TRY(ipu__trainer_settings_make(t));
    return open_network(t);
}

ipu_status ipu_trainer_create(const ipu_trainer_options *options, ipu_trainer **out)
{
    *out           = NULL;
    ipu_trainer *t = ipu__alloc_zeroed(sizeof *t);
    if (!t) return ipu__fail_memory();
    t->options                       = *options;
    t->options.executor.device_alone = false; /* it tests on the device that it trains on */
    t->rank                          = ipu_comm_rank(options->executor.comm);
    t->n_ranks                       = ipu_comm_size(options->executor.comm);
    t->resumed_from = t->last_saved = -1;
    atomic_init(&t->is_interrupted, false);
    atomic_init(&t->wants_end, false);
    ipu__trainer_record_init(&t->record);
    ipu_status status = open_trainer(t);
    if (status != IPU_OK) {
        ipu_trainer_destroy(t);
        return status;
    }
    *out = t;
    return IPU_OK;
}

void ipu_trainer_destroy(ipu_trainer *t)
{
    if (!t) return;
    ipu_checkpoint_store_close(t->store);
    ipu_loader_destroy(t->loader);
    ipu_loader_destroy(t->test_loader);
    ipu_executor_destroy(t->executor);
    ipu_executor_destroy(t->tester);
    for (size_t i = 0; i < IPU_MAX_FIELDS; i++) ipu_array_free(&t->rest[i]);
    ipu__trainer_log_close(&t->log);
    ipu__trainer_record_fini(&t->record);
    json_decref(t->settings);
    ipu__free(t);
}

/* ---- reading ---- */

void ipu__trainer_describe(const ipu_trainer *t, int64_t n, ipu_array out[IPU_MAX_FIELDS])
{
    for (size_t i = 0; i < t->n_fields; i++) {
        const ipu_field *f     = ipu_dataset_field_at(t->options.data, i);
        ipu_shape        shape = {.rank = f->shape.rank + 1, .dim = {n}};
        for (int d = 0; d < f->shape.rank; d++) shape.dim[d + 1] = f->shape.dim[d];
        out[i] = (ipu_array){.type = f->type, .shape = shape};
    }
    ipu__trainer_batch(t, &(ipu_batch){.arrays = out, .n_arrays = t->n_fields, .n_samples = n}, out);
}

void ipu__trainer_batch(const ipu_trainer *t, const ipu_batch *batch, ipu_array out[IPU_MAX_FIELDS])
{
    const ipu_shape *input = &t->options.input;
    for (size_t i = 0; i < t->n_fields; i++) out[i] = batch->arrays[i];
    if (input->rank == 0) return;
    out[0].shape.rank = input->rank + 1;
    memcpy(out[0].shape.dim + 1, input->dim, (size_t)input->rank * sizeof *input->dim);
}

void ipu_trainer_get_results(const ipu_trainer *t, ipu_trainer_results *out)
{
    const ipu__trainer_record *r = &t->record;
    *out                         = (ipu_trainer_results){.epochs            = r->epochs,
                                                         .n_epochs          = r->n_epochs,
                                                         .runs              = r->runs,
                                                         .runs_per_epoch    = t->n_runs,
                                                         .seconds           = r->seconds,
                                                         .n_samples         = r->n_samples,
                                                         .points            = r->points,
                                                         .n_points          = r->n_points,
                                                         .runs_per_point    = r->per_point,
                                                         .resumed_from      = t->resumed_from,
                                                         .last_saved        = t->last_saved,
                                                         .has_diverged      = t->has_diverged,
                                                         .is_known          = t->stops,
                                                         .is_told_elsewhere = t->is_elsewhere};
}

ipu_executor *ipu_trainer_executor(ipu_trainer *t) { return t->executor; }

ipu_loader *ipu_trainer_loader(ipu_trainer *t) { return t->loader; }
