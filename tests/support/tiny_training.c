/* The tiny training: 61 samples of 6 numbers in 3 classes. */
#include "tiny_training.h"

#include <stdio.h>
#include <string.h>

#include "random.h"

enum { N_SAMPLES = 61, N_NUMBERS = 6, N_CLASSES = 3 };

#define OK_OR_TELL(call)                                       \
    do {                                                       \
        if ((call) != IPU_OK) {                                \
            fprintf(stderr, "%s: %s\n", #call, ipu_message()); \
            return false;                                      \
        }                                                      \
    } while (0)

static ipu_status get_sample(void *user, int64_t i, void *const *fields)
{
    (void)user;
    test_random r         = {(uint64_t)i};
    *(int32_t *)fields[1] = (int32_t)(i % N_CLASSES);
    for (int k = 0; k < N_NUMBERS; k++)
        ((float *)fields[0])[k] = (float)random_in(&r, -100, 100) / 100 + (float)(i % N_CLASSES == k);
    return IPU_OK;
}

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_relu(b, ipu_nn_linear(m, in[0], 8, "f1"));
    x              = ipu_nn_dropout(m, ipu_nn_batch_norm(m, x, "norm"), 0.25);
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, N_CLASSES, "f2"), 1);
    ipu_model_output(m, x, "scores");
    if (n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

bool tiny_begin(tiny_training *t, const tiny_options *options)
{
    const ipu_field fields[] = {{"x", IPU_FLOAT, {1, {N_NUMBERS}}}, {"label", IPU_INT32, {0}}};
    *t                       = (tiny_training){0};
    OK_OR_TELL(ipu_dataset_create(fields, 2, N_SAMPLES, (ipu_dataset_functions){.get = get_sample}, NULL,
                                  &t->dataset));
    OK_OR_TELL(ipu_loader_create(
        t->dataset, &options->how,
        &(ipu_loader_options){.batch_size = 2, .shuffle = true, .seed = 5, .n_workers = options->n_workers},
        &t->loader));
    OK_OR_TELL(ipu_module_create(forward, NULL, &t->module));
    ipu_module_set_seed(t->module, 11);
    OK_OR_TELL(ipu_training_model(t->module, &options->how, &options->training, &t->x));
    return true;
}

static bool run_one(tiny_training *t)
{
    ipu_batch batch;
    bool      more = ipu_loader_next(t->loader, &batch);
    OK_OR_TELL(ipu_loader_status(t->loader));
    if (!more && !ipu_loader_next(t->loader, &batch)) return false; /* an epoch was at its end */
    OK_OR_TELL(ipu_executor_set_rate(t->x, 0, 0.1 / (double)(10 + t->step)));
    OK_OR_TELL(ipu_executor_run(t->x, batch.arrays, batch.n_arrays));
    t->step++;
    return true;
}

bool tiny_run(tiny_training *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!run_one(t)) return false;
    return true;
}

void tiny_end(tiny_training *t)
{
    ipu_executor_destroy(t->x);
    ipu_module_destroy(t->module);
    ipu_loader_destroy(t->loader);
    ipu_dataset_destroy(t->dataset);
    *t = (tiny_training){0};
}

bool tiny_get(tiny_training *t, ipu_checkpoint *out)
{
    *out = (ipu_checkpoint){.step = t->step, .position = ipu_loader_get_position(t->loader)};
    OK_OR_TELL(ipu_executor_get_state(t->x, &out->state));
    return true;
}

bool tiny_set(tiny_training *t, const ipu_checkpoint *c)
{
    OK_OR_TELL(ipu_executor_set_state(t->x, &c->state));
    OK_OR_TELL(ipu_loader_seek(t->loader, c->position));
    t->step = c->step;
    return true;
}

static bool is_equal(const ipu_named_array *a, const ipu_named_array *b)
{
    return strcmp(a->name, b->name) == 0 && a->array.type == b->array.type
        && ipu_array_bytes(&a->array) == ipu_array_bytes(&b->array)
        && memcmp(a->array.data, b->array.data, ipu_array_bytes(&a->array)) == 0;
}

bool tiny_is_equal(const ipu_npz *a, const ipu_npz *b)
{
    if (a->n != b->n) fprintf(stderr, "%zu arrays and %zu\n", a->n, b->n);
    for (size_t i = 0; i < a->n && a->n == b->n; i++)
        if (!is_equal(&a->arrays[i], &b->arrays[i])) {
            fprintf(stderr, "\"%s\" and \"%s\" differ\n", a->arrays[i].name, b->arrays[i].name);
            return false;
        }
    return a->n == b->n;
}
