/* For tests of trainers: data, a network, a training that notes what it is told, weights to compare, and a folder. */
#ifndef IPU_TRAIN_TRAINER_TRAINER_TEST_H
#define IPU_TRAIN_TRAINER_TRAINER_TEST_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipu/ipu.h"

#define assert_ok(call)                                                 \
    do {                                                                \
        if ((call) != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)
#define assert_says(part)                                                                          \
    do {                                                                                           \
        if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in: %s", part, ipu_message()); \
    } while (0)

enum { FEATURES = 6, CLASSES = 3, N_TRAIN = 44, N_TEST = 10, BATCH = 4, RUNS = N_TRAIN / BATCH };

static char         box[] = "/tmp/ipu-trainer-test-XXXXXX";
static char         folder[128];
static ipu_dataset *data, *test;
static ipu_options *engine;

/* ---- data: a class makes one feature large ---- */

static inline ipu_status draw(void *user, int64_t i, void *const *fields)
{
    int64_t seed  = *(const int64_t *)user;
    int32_t label = (int32_t)(i % CLASSES);
    float  *x     = fields[0];
    for (int f = 0; f < FEATURES; f++)
        x[f] = (float)((i * 7 + f * 13 + seed) % 11) / 22 + (f == label ? 0.75f : 0);
    *(int32_t *)fields[1] = label;
    return IPU_OK;
}

static inline ipu_dataset *make_dataset(int64_t n, int64_t *seed)
{
    const ipu_field fields[] = {{"x", IPU_FLOAT, IPU_SHAPE(FEATURES)}, {"y", IPU_INT32, IPU_SCALAR}};
    ipu_dataset    *d;
    assert_ok(ipu_dataset_create(fields, 2, n, (ipu_dataset_functions){.get = draw}, seed, &d));
    return d;
}

static inline void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n;
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 8, "a");
    x              = ipu_log_softmax(b, ipu_nn_linear(m, ipu_tanh(b, x), CLASSES, "b"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m)) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* ---- a training, and what it told ---- */

typedef struct story {
    ipu_trainer *trainer;
    ipu_module  *module;
    int          n_compiled, n_steps, n_tests, n_epochs, n_checkpoints, n_messages, n_warnings;
    int          stop_at;      /* step, from 1; 0: never */
    bool         stop_in_test; /* of the first epoch */
    double       rates[8 * RUNS], last_loss;
    char         message[512], checkpoint[512];
} story;

static inline void on_compiled(void *user) { ((story *)user)->n_compiled++; }

static inline void on_step(void *user, const ipu_trainer_step *step)
{
    story *s               = user;
    s->rates[s->n_steps++] = step->rate;
    s->last_loss           = step->loss;
    assert_int_equal(step->n_batches, RUNS);
    assert_true(step->seconds_left >= 0 && step->n_samples == BATCH);
    if (s->n_steps == s->stop_at) ipu_trainer_interrupt(s->trainer);
}

static inline void on_testing(void *user, const ipu_trainer_test *t)
{
    story *s = user;
    assert_true(t->batch < t->n_batches);
    assert_true(t->accuracy >= 0 && t->accuracy <= 1);
    if (s->stop_in_test && s->n_tests++ == 0) ipu_trainer_interrupt(s->trainer);
}

static inline void on_epoch(void *user, int64_t i, const ipu_trainer_epoch *e)
{
    (void)i;
    story *s = user;
    s->n_epochs++;
    assert_true(e->n_samples == RUNS * BATCH && e->accuracy >= 0 && e->loss > 0);
}

static inline void on_checkpoint(void *user, const char *path)
{
    story *s = user;
    s->n_checkpoints++;
    snprintf(s->checkpoint, sizeof s->checkpoint, "%s", path);
    assert_int_equal(access(path, R_OK), 0);
}

static inline void on_message(void *user, ipu_log_level level, const char *text)
{
    story *s = user;
    s->n_messages++;
    s->n_warnings += level == IPU_LOG_WARN;
    snprintf(s->message, sizeof s->message, "%s", text);
}

static inline ipu_trainer_options usual(void)
{
    return (ipu_trainer_options){.data     = data,
                                 .test     = test,
                                 .n_epochs = 3,
                                 .executor = {.engine = engine},
                                 .loader   = {.batch_size = BATCH, .shuffle = true, .seed = 5},
                                 .training = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.05}}};
}

static inline ipu_status try_open(story *s, ipu_trainer_options o)
{
    o.events = (ipu_trainer_events){s, on_compiled, on_step, on_testing, on_epoch, on_checkpoint, on_message};
    if (!o.module) {
        assert_ok(ipu_module_create(forward, NULL, &s->module));
        o.module = s->module;
    }
    return ipu_trainer_create(&o, &s->trainer);
}

static inline void close_story(story *s)
{
    ipu_trainer_destroy(s->trainer);
    ipu_module_destroy(s->module);
    *s = (story){0};
}

static inline ipu_trainer_results results(const story *s)
{
    ipu_trainer_results r;
    ipu_trainer_get_results(s->trainer, &r);
    return r;
}

static inline ipu_status run(story *s, ipu_trainer_options o)
{
    assert_ok(try_open(s, o));
    return ipu_trainer_run(s->trainer);
}

/* All weights, one after another. */
typedef struct bits {
    size_t n;
    float  at[128];
} bits;

static inline bits take_bits(const story *s)
{
    bits b = {0};
    for (size_t i = 0; i < ipu_module_n_weights(s->module); i++) {
        const char      *name;
        const ipu_array *a;
        assert_ok(ipu_module_weight_at(s->module, i, &name, &a));
        assert_true(b.n + (size_t)ipu_array_n_elements(a) <= 128);
        memcpy(b.at + b.n, a->data, ipu_array_bytes(a));
        b.n += (size_t)ipu_array_n_elements(a);
    }
    assert_true(b.n > 0);
    return b;
}

static inline void assert_same_bits(bits a, bits b)
{
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.at, b.at, a.n * sizeof *a.at);
}

static inline bits whole(ipu_trainer_options o)
{
    story s             = {0};
    o.checkpoint_folder = NULL;
    assert_ok(run(&s, o));
    bits b = take_bits(&s);
    close_story(&s);
    return b;
}

/* ---- what they share ---- */

static int64_t seeds[] = {1, 2};

static inline int begin_all(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(folder, sizeof folder, "%s/checkpoints", box);
    data = make_dataset(N_TRAIN, &seeds[0]);
    test = make_dataset(N_TEST, &seeds[1]);
    assert_ok(ipu_options_create(&engine));
    assert_ok(ipu_options_set(engine, "threads", "1"));
    return 0;
}

static inline int empty_folder(void **state)
{
    (void)state;
    char path[512];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%.200s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove(path);
    }
    if (d) closedir(d);
    rmdir(folder);
    return 0;
}

static inline int end_all(void **state)
{
    (void)state;
    ipu_dataset_destroy(data);
    ipu_dataset_destroy(test);
    ipu_options_destroy(engine);
    return rmdir(box);
}

#endif
