/* Processes that train together, with threads in their place: weights, states and losses have the bits of one process
 * that has all the replicas; states resume in any layout. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/threads_test.h"
#include "engine/executable.h"
#include "ipu/ipu.h"

enum { SAMPLES = 64, FEATURES = 300, CLASSES = 4, MOST = 4 };

typedef struct task {
    int64_t              rank, n_epochs;
    ipu_executor_options options;
    uint32_t             seed;    /* of weights */
    int64_t              batch;   /* 0: 2 */
    double               rate;    /* 0: 0.01 */
    bool                 is_wide; /* another network */
    const ipu_npz       *resume;  /* NULL: from the beginning */
    ipu_npz              state;
    double               loss; /* of its last run */
    int                  n_between;
    ipu_status           status;
    uint32_t             next_seed; /* from the second epoch on; 0: none */
    char                 message[600];
    pthread_t            thread;
} task;

/* Over 256 KB of weights in two layers, what each replica draws for itself, and what each keeps. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    const task  *t = user;
    ipu_value    x = ipu_tanh(b, ipu_nn_linear(m, in[0], t->is_wide ? 400 : 300, "a"));
    x              = ipu_nn_batch_norm(m, ipu_nn_dropout(m, x, 0.25), "norm");
    x              = ipu_tanh(b, ipu_nn_linear(m, x, 300, "b"));
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "c"), 1);
    ipu_model_output(m, x, "scores");
    if (n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

static ipu_named_array arrays[2] = {{.name = (char[]){"x"}}, {.name = (char[]){"y"}}};

static ipu_dataset *make_dataset(void)
{
    ipu_dataset *d;
    unsigned     seed = 5;
    assert_int_equal(ipu_array_create(IPU_FLOAT, IPU_SHAPE(SAMPLES, FEATURES), &arrays[0].array), IPU_OK);
    assert_int_equal(ipu_array_create(IPU_INT32, IPU_SHAPE(SAMPLES), &arrays[1].array), IPU_OK);
    float *x = arrays[0].array.data;
    for (int i = 0; i < SAMPLES * FEATURES; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < SAMPLES; i++) ((int32_t *)arrays[1].array.data)[i] = i % CLASSES;
    assert_int_equal(ipu_dataset_from_arrays(arrays, 2, &d), IPU_OK);
    return d;
}

/* ---- one process ---- */

/* Kernels from the first sum that is begun to the wait for all. */
static int kernels_between(const ipu_executable *exe)
{
    int n = -1;
    for (size_t i = 0; i < exe->code.n && exe->code.at[i].op != IPU__CODE_ALL_REDUCE_WAIT; i++) {
        if (exe->code.at[i].op == IPU__CODE_ALL_REDUCE && n < 0) n = 0;
        if (exe->code.at[i].op == IPU__CODE_KERNEL && n >= 0) n++;
    }
    return n;
}

static ipu_status train(task *t, ipu_executor *x, ipu_loader *loader)
{
    ipu_batch batch;
    if (t->resume) {
        IPU_TRY(ipu_executor_set_state(x, t->resume));
        IPU_TRY(ipu_loader_seek(loader, (ipu_loader_position){1, 0}));
    }
    for (int64_t epoch = 0; epoch < t->n_epochs; epoch++) {
        if (epoch == 1 && t->next_seed) IPU_TRY(ipu_executor_set_seed(x, t->next_seed));
        while (ipu_loader_next(loader, &batch)) IPU_TRY(ipu_executor_run(x, batch.arrays, batch.n_arrays));
        IPU_TRY(ipu_loader_status(loader));
    }
    IPU_TRY(ipu_executor_scalar(x, "loss", &t->loss));
    t->n_between = kernels_between(ipu_executor_executable(x));
    return ipu_executor_get_state(x, &t->state);
}

static ipu_status run(task *t, ipu_dataset *d)
{
    const ipu_loader_options how     = {.batch_size = t->batch ? t->batch : 2, .shuffle = true, .seed = 3};
    const ipu_nn_training    optimal = {
           .optimizer = {.kind = IPU_NN_ADAM, .rate = t->rate != 0 ? t->rate : 0.01}};
    ipu_module   *module;
    ipu_executor *x      = NULL;
    ipu_loader   *loader = NULL;
    IPU_TRY(ipu_module_create(forward, t, &module));
    ipu_module_set_seed(module, t->seed);
    ipu_status status = ipu_training_model(module, &t->options, &optimal, &x);
    if (status == IPU_OK) status = ipu_loader_create(d, &t->options, &how, &loader);
    if (status == IPU_OK) status = train(t, x, loader);
    if (status != IPU_OK) snprintf(t->message, sizeof t->message, "%s", ipu_message());
    ipu_loader_destroy(loader);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return status;
}

static ipu_dataset *dataset;

static void *run_task(void *arg)
{
    task *t   = arg;
    end   own = {t->rank};
    if (ipu__comm_create(&threads, &own, &t->options.comm) != IPU_OK) return NULL;
    t->status = run(t, dataset);
    ipu_comm_close(t->options.comm);
    return NULL;
}

/* ---- several, and one with all the replicas ---- */

static void start_group(task *tasks, int64_t ranks)
{
    n_ranks = ranks;
    for (int64_t r = 0; r < ranks; r++) {
        tasks[r].rank   = r;
        tasks[r].status = IPU_ABORTED;
        assert_int_equal(pthread_create(&tasks[r].thread, NULL, run_task, &tasks[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) pthread_join(tasks[r].thread, NULL);
}

static void run_group(task *tasks, int64_t ranks)
{
    start_group(tasks, ranks);
    for (int64_t r = 0; r < ranks; r++)
        if (tasks[r].status != IPU_OK) fail_msg("rank %d: %s", (int)r, tasks[r].message);
}

static void assert_same_state(const ipu_npz *a, const ipu_npz *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const ipu_array *other = NULL;
        for (size_t k = 0; k < b->n; k++)
            if (strcmp(a->arrays[i].name, b->arrays[k].name) == 0) other = &b->arrays[k].array;
        if (!other) {
            fail_msg("%s is missing", a->arrays[i].name);
            return;
        }
        assert_int_equal(ipu_array_bytes(&a->arrays[i].array), ipu_array_bytes(other));
        if (memcmp(a->arrays[i].array.data, other->data, ipu_array_bytes(other)) != 0)
            fail_msg("%s differs", a->arrays[i].name);
    }
}

static ipu_options *one_thread(void)
{
    ipu_options *options;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", "1"), IPU_OK);
    return options;
}

static task alone(ipu_executor_options options, int64_t ranks, int64_t n_epochs, uint32_t next_seed)
{
    task t = {.options = options, .n_epochs = n_epochs, .seed = 7, .next_seed = next_seed};
    t.options.replicas *= ranks;
    if (run(&t, dataset) != IPU_OK) fail_msg("%s", t.message);
    return t;
}

static void check_group(int64_t ranks, ipu_executor_options options)
{
    ipu_options *engine = one_thread();
    task         tasks[MOST];
    double       loss = 0;
    options.engine    = engine;
    options.no_fold   = true;
    for (int64_t r = 0; r < ranks; r++)
        tasks[r] = (task){.options = options, .n_epochs = 2, .seed = 7 + (uint32_t)r, .next_seed = 9};
    task one = alone(options, ranks, 2, 9);
    run_group(tasks, ranks);
    for (int64_t r = 0; r < ranks; r++) {
        assert_same_state(&one.state, &tasks[r].state);
        assert_true(tasks[r].n_between >= 5); /* the backward pass goes on meanwhile */
        loss += tasks[r].loss / (double)ranks;
        ipu_npz_free(&tasks[r].state);
    }
    assert_true(loss > one.loss - 1e-6 && loss < one.loss + 1e-6);
    ipu_npz_free(&one.state);
    ipu_options_destroy(engine);
}

static void processes_train_as_one_with_all_replicas(void **state)
{
    (void)state;
    check_group(2, (ipu_executor_options){.replicas = 1});
    check_group(4, (ipu_executor_options){.replicas = 1});
    check_group(2, (ipu_executor_options){.replicas = 2, .gradient_accumulation = 3});
    check_group(2, (ipu_executor_options){.replicas              = 4,
                                          .input_group_size      = 2,
                                          .gradient_accumulation = 2,
                                          .device_iterations     = 2,
                                          .running_mean          = true});
    check_group(2, (ipu_executor_options){.replicas = 1, .reduction = IPU_REDUCTION_SUM});
    check_group(2,
                (ipu_executor_options){.replicas = 2, .gradient_accumulation = 2, .shard_optimizer = true});
}

static void states_resume_in_any_layout(void **state)
{
    (void)state;
    ipu_options               *engine = one_thread();
    task                       two[2], four[4];
    const ipu_executor_options options = {.replicas = 1, .engine = engine, .no_fold = true};
    task                       first = alone(options, 4, 1, 0), whole = alone(options, 4, 2, 0);
    for (int r = 0; r < 2; r++) {
        two[r]                  = (task){.options = options, .n_epochs = 1, .resume = &first.state};
        two[r].options.replicas = 2;
    }
    for (int r = 0; r < 4; r++) four[r] = (task){.options = options, .n_epochs = 1, .resume = &first.state};
    run_group(two, 2);
    run_group(four, 4);
    for (int r = 0; r < 2; r++) assert_same_state(&whole.state, &two[r].state);
    for (int r = 0; r < 4; r++) assert_same_state(&whole.state, &four[r].state);
    for (int r = 0; r < 2; r++) ipu_npz_free(&two[r].state);
    for (int r = 0; r < 4; r++) ipu_npz_free(&four[r].state);
    ipu_npz_free(&first.state);
    ipu_npz_free(&whole.state);
    ipu_options_destroy(engine);
}

/* `other`: what rank 1 does otherwise. Both fail, and hear of the same. */
static void check_difference(task other, const char *expected)
{
    ipu_options *engine = one_thread();
    task         t[2]   = {{.n_epochs = 1, .options = {.replicas = 1}}, other};
    t[1].n_epochs       = 1;
    for (int r = 0; r < 2; r++) t[r].options.engine = engine;
    if (t[1].options.replicas == 0) t[1].options.replicas = 1;
    start_group(t, 2);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(t[r].status, IPU_INVALID);
        if (!strstr(t[r].message, expected))
            fail_msg("expected \"%s\", found \"%s\"", expected, t[r].message);
        ipu_npz_free(&t[r].state);
    }
    assert_null(letters);
    ipu_options_destroy(engine);
}

static void what_processes_differ_in_is_named(void **state)
{
    (void)state;
    check_difference((task){.is_wide = true},
                     "rank 1 was started with a network (or batch size, or optimizer) of hash");
    check_difference((task){.batch = 4},
                     "rank 1 was started with a network (or batch size, or optimizer) of hash");
    check_difference((task){.rate = 0.02}, "rank 1 was started with learning rate 0.02, rank 0 with 0.01");
    check_difference((task){.options = {.replicas = 2}}, "rank 1 was started with replicas 2, rank 0 with 1");
    check_difference((task){.options = {.gradient_accumulation = 2}},
                     "gradient_accumulation 2, rank 0 with 1");
    check_difference((task){.options = {.device_iterations = 2}}, "device_iterations 2, rank 0 with 1");
    check_difference((task){.options = {.precision = IPU_PRECISION_MIXED}}, "precision 1, rank 0 with 0");
}

static void a_process_that_trains_less_fails_the_others(void **state)
{
    (void)state;
    ipu_options *engine = one_thread();
    task         t[2]   = {{.n_epochs = 2, .options = {.replicas = 1, .engine = engine}}, {.n_epochs = 1}};
    t[1].options        = t[0].options;
    start_group(t, 2);
    assert_int_equal(t[0].status, IPU_IO);
    assert_non_null(strstr(t[0].message, "rank 1"));
    for (int r = 0; r < 2; r++) ipu_npz_free(&t[r].state);
    drop_letters();
    ipu_options_destroy(engine);
}

static void *run_keep_last(void *arg)
{
    task *t   = arg;
    end   own = {t->rank};
    if (ipu__comm_create(&threads, &own, &t->options.comm) != IPU_OK) return NULL;
    const ipu_loader_options how = {.batch_size = 2, .keep_last = true};
    ipu_loader              *loader;
    t->status = ipu_loader_create(dataset, &t->options, &how, &loader);
    if (t->status != IPU_OK) snprintf(t->message, sizeof t->message, "%s", ipu_message());
    ipu_comm_close(t->options.comm);
    return NULL;
}

static void short_batches_cannot_be_divided(void **state)
{
    (void)state;
    task t[2] = {{.rank = 0}, {.rank = 1}};
    n_ranks   = 2;
    for (int r = 0; r < 2; r++) assert_int_equal(pthread_create(&t[r].thread, NULL, run_keep_last, &t[r]), 0);
    for (int r = 0; r < 2; r++) pthread_join(t[r].thread, NULL);
    assert_int_equal(t[0].status, IPU_INVALID);
    assert_non_null(strstr(t[0].message, "keep_last"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_train_as_one_with_all_replicas),
        cmocka_unit_test(states_resume_in_any_layout),
        cmocka_unit_test(short_batches_cannot_be_divided),
        cmocka_unit_test(what_processes_differ_in_is_named),
        cmocka_unit_test(a_process_that_trains_less_fails_the_others),
    };
    dataset    = make_dataset();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ipu_dataset_destroy(dataset);
    for (int i = 0; i < 2; i++) ipu_array_free(&arrays[i].array);
    return failed;
}
