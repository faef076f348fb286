/* Trainers for more than classes: tests by the loss alone, metrics of one's own, rates that follow the tests, and an event that ends a
 * training. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/threads_test.h"
#include "ipu/ipu.h"
#include "train/trainer/trainer_test.h"

/* ---- regression: two sums of the features, or the first of them ---- */

enum { TARGETS = 2 };

static void make_sample(int64_t i, float *x, float *y)
{
    y[0] = y[1] = 0;
    for (int f = 0; f < FEATURES; f++) {
        x[f] = (float)((i * 5 + f * 3) % 13) / 13;
        y[0] += x[f];
        y[1] += (f % 2 ? 1 : -1) * x[f];
    }
}

static ipu_status draw_pair(void *user, int64_t i, void *const *fields)
{
    float y[TARGETS];
    (void)user;
    make_sample(i, fields[0], y);
    memcpy(fields[1], y, sizeof y);
    return IPU_OK;
}

static ipu_status draw_number(void *user, int64_t i, void *const *fields)
{
    float y[TARGETS];
    (void)user;
    make_sample(i, fields[0], y);
    *(float *)fields[1] = y[0];
    return IPU_OK;
}

static ipu_status draw_alone(void *user, int64_t i, void *const *fields)
{
    float y[TARGETS];
    (void)user;
    make_sample(i, fields[0], y);
    return IPU_OK;
}

typedef ipu_status (*draw_fn)(void *user, int64_t i, void *const *fields);

static ipu_dataset *make_set(draw_fn drawn, size_t n_fields, ipu_shape target, int64_t n)
{
    const ipu_field fields[] = {{"x", IPU_FLOAT, IPU_SHAPE(FEATURES)}, {"y", IPU_FLOAT, target}};
    ipu_dataset    *d;
    assert_ok(ipu_dataset_create(fields, n_fields, n, (ipu_dataset_functions){.get = drawn}, NULL, &d));
    return d;
}

static void regress(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    y = ipu_nn_linear(m, in[0], TARGETS, "a");
    ipu_model_output(m, y, "y");
    if (n > 1) ipu_nn_loss(m, ipu_mse_loss(b, y, in[1], IPU_LOSS_MEAN), "loss");
}

static void regress_number(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    y = ipu_squeeze(b, ipu_nn_linear(m, in[0], 1, "a"), 1);
    ipu_model_output(m, y, "y");
    if (n > 1) ipu_nn_loss(m, ipu_mse_loss(b, y, in[1], IPU_LOSS_MEAN), "loss");
}

/* As most networks are written. */
static void regress_in_training(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    regress_number(m, in, ipu_nn_is_training(m) ? n : 1, user);
}

static void encode(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n;
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    y = ipu_nn_linear(m, ipu_nn_linear(m, in[0], 2, "a"), FEATURES, "b");
    ipu_nn_loss(m, ipu_mse_loss(b, y, in[0], IPU_LOSS_MEAN), "loss");
}

typedef struct task {
    ipu_dataset        *train, *test;
    ipu_module         *module;
    ipu_trainer_options options;
} task;

static task make_task(ipu_forward_fn build, draw_fn drawn, size_t n_fields, ipu_shape target)
{
    task k = {.train = make_set(drawn, n_fields, target, N_TRAIN),
              .test  = make_set(drawn, n_fields, target, N_TEST)};
    assert_ok(ipu_module_create(build, NULL, &k.module));
    k.options        = usual();
    k.options.module = k.module;
    k.options.data   = k.train;
    k.options.test   = k.test;
    return k;
}

static void free_task(task *k)
{
    ipu_module_destroy(k->module);
    ipu_dataset_destroy(k->train);
    ipu_dataset_destroy(k->test);
}

/* By the predictions for all of the test set at once. */
static double expected_loss(const task *k, int n_targets)
{
    ipu_executor *x;
    float         in[N_TEST][FEATURES], y[TARGETS];
    double        sum = 0;
    for (int64_t i = 0; i < N_TEST; i++) make_sample(i, in[i], y);
    assert_ok(ipu_inference_model(k->module, NULL, &x));
    assert_ok(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(N_TEST, FEATURES), in}, 1));
    const ipu_array *out = ipu_executor_output(x, "y");
    for (int64_t i = 0; i < N_TEST; i++) {
        make_sample(i, in[0], y);
        for (int c = 0; c < n_targets; c++)
            sum += pow(ipu_array_value(out, i * n_targets + c) - (double)y[c], 2);
    }
    ipu_executor_destroy(x);
    return sum / N_TEST / n_targets;
}

/* Ten samples are two batches of four and one of two. */
static void test_loss_alone(void **state)
{
    (void)state;
    for (int scalar = 0; scalar < 2; scalar++) {
        ipu_trainer        *t;
        ipu_trainer_results r;
        task                k = scalar ? make_task(regress_number, draw_number, 2, IPU_SCALAR)
                                       : make_task(regress, draw_pair, 2, IPU_SHAPE(TARGETS));
        assert_ok(ipu_trainer_create(&k.options, &t));
        assert_ok(ipu_trainer_run(t));
        ipu_trainer_get_results(t, &r);
        assert_true(r.n_epochs == 3 && isnan(r.epochs[2].test_accuracy) && isnan(r.epochs[2].accuracy));
        assert_true(r.epochs[2].test_loss < r.epochs[0].test_loss);
        double expected = expected_loss(&k, scalar ? 1 : TARGETS);
        if (fabs(r.epochs[2].test_loss - expected) > 1e-6 * expected)
            fail_msg("test loss %g, expected %g", r.epochs[2].test_loss, expected);
        ipu_trainer_destroy(t);
        free_task(&k);
    }
}

/* What is tested goes on after an interruption, and counts as patience does. */
static void test_loss_alone_resumed(void **state)
{
    (void)state;
    story s                     = {.stop_at = RUNS + 2};
    task  k                     = make_task(regress, draw_pair, 2, IPU_SHAPE(TARGETS));
    k.options.checkpoint_folder = folder;
    k.options.begin             = IPU_TRAINER_RESUME;
    k.options.events            = (ipu_trainer_events){0};
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    ipu_trainer_interrupt(s.trainer);
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INTERRUPTED);
    assert_ok(ipu_trainer_run(s.trainer));
    double last = results(&s).epochs[2].test_loss;
    assert_true(last > 0);
    close_story(&s);
    assert_ok(ipu_trainer_create(&k.options, &s.trainer)); /* finished, and tested */
    assert_ok(ipu_trainer_run(s.trainer));
    assert_true(results(&s).epochs[2].test_loss == last);
    close_story(&s);
    free_task(&k);
}

static void test_one_field(void **state)
{
    (void)state;
    story s = {0};
    task  k = make_task(encode, draw_alone, 1, IPU_SCALAR);
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_ok(ipu_trainer_run(s.trainer));
    assert_true(results(&s).epochs[2].test_loss < results(&s).epochs[0].test_loss
                && results(&s).epochs[2].test_loss > 0);
    close_story(&s);
    free_task(&k);
}

static void test_nothing_to_test_by(void **state)
{
    (void)state;
    story s = {0};
    task  k = make_task(regress_in_training, draw_number, 2, IPU_SCALAR);
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INVALID);
    assert_says(
        "it has no output [samples, classes]; and given all 2 fields outside of training, it gives no scalar output that "
        "is its loss");
    assert_int_equal(results(&s).runs, 0);
    close_story(&s);
    free_task(&k);
}

/* The loss that is put behind a file's output for training is there for tests, too. */
static void test_onnx(void **state)
{
    (void)state;
    story       s = {0};
    char        path[160];
    ipu_module *file;
    task        k = make_task(regress_in_training, draw_number, 2, IPU_SCALAR);
    snprintf(path, sizeof path, "%s/net.onnx", box);
    k.options.test     = NULL;
    k.options.n_epochs = 1;
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_ok(ipu_trainer_run(s.trainer));
    close_story(&s);
    assert_ok(ipu_module_write_onnx(k.module, NULL, path));
    assert_ok(ipu_module_from_onnx(path, "mse", &file));
    k.options.module            = file;
    k.options.test              = k.test;
    k.options.loader.batch_size = 1; /* as it was written for */
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_ok(ipu_trainer_run(s.trainer));
    assert_true(results(&s).epochs[0].test_loss > 0 && isnan(results(&s).epochs[0].test_accuracy));
    close_story(&s);
    ipu_module_destroy(file);
    remove(path);
    free_task(&k);
}

/* What was tested by its loss is written without it. */
static void test_written_without_labels(void **state)
{
    (void)state;
    story     s = {0};
    char      path[160];
    ipu_onnx *file;
    task      k = make_task(regress, draw_pair, 2, IPU_SHAPE(TARGETS));
    snprintf(path, sizeof path, "%s/net.onnx", box);
    k.options.n_epochs = 1;
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_ok(ipu_trainer_run(s.trainer));
    close_story(&s);
    assert_int_equal(ipu_module_write_onnx(k.module, &(ipu_module_write_options){.n_inputs = 3}, path),
                     IPU_INVALID);
    assert_says("at most the 2 inputs");
    assert_ok(ipu_module_write_onnx(k.module, &(ipu_module_write_options){.n_inputs = 1}, path));
    assert_ok(ipu_onnx_open(path, &file));
    assert_int_equal(ipu_onnx_n_inputs(file), 1);
    assert_int_equal(ipu_onnx_n_outputs(file), 1);
    ipu_onnx_close(file);
    remove(path);
    free_task(&k);
}

/* ---- metrics ---- */

/* Absolute errors of the first target. */
static double absolute_error(void *user, const ipu_executor *x, const ipu_batch *batch)
{
    const ipu_array *y   = ipu_executor_output(x, "y");
    double           sum = 0;
    assert_int_equal(batch->n_arrays, 2);
    for (int64_t i = 0; i < batch->n_samples; i++)
        sum += fabs(ipu_array_value(y, i * TARGETS) - ipu_array_value(&batch->arrays[1], i * TARGETS));
    (*(int *)user)++;
    return sum;
}

/* Of the second class only. */
static double found_of_second(void *user, const ipu_executor *x, const ipu_batch *batch)
{
    double n = 0;
    for (int64_t i = 0; i < batch->n_samples; i++)
        n += ipu_scores_best(ipu_executor_output(x, "scores"), i * CLASSES, CLASSES) == 1;
    (*(int *)user)++;
    return n;
}

static void test_metrics(void **state)
{
    (void)state;
    int   n               = 0;
    story s               = {0};
    task  k               = make_task(regress, draw_pair, 2, IPU_SHAPE(TARGETS));
    k.options.metric      = absolute_error;
    k.options.metric_user = &n;
    assert_ok(ipu_trainer_create(&k.options, &s.trainer));
    assert_ok(ipu_trainer_run(s.trainer));
    const ipu_trainer_epoch *e = results(&s).epochs;
    assert_int_equal(n, 3 * (RUNS + 3));
    assert_true(e[2].accuracy > 0 && e[2].accuracy < e[0].accuracy);
    /* The mean of absolute values is no more than the root of that of squares, of which the loss is half for each target. */
    assert_true(e[2].test_accuracy > 0 && e[2].test_accuracy <= sqrt(TARGETS * e[2].test_loss));
    close_story(&s);
    free_task(&k);
    n                     = 0;
    ipu_trainer_options o = usual();
    o.metric              = found_of_second;
    o.metric_user         = &n;
    assert_ok(run(&s, o));
    e = results(&s).epochs;
    assert_int_equal(n, 3 * (RUNS + 3));
    assert_true(e[2].test_accuracy > 0.1 && e[2].test_accuracy < 0.6
                && e[2].test_loss > 0); /* a third of them */
    close_story(&s);
}

/* ---- rates that follow what was told ---- */

static double follow(void *user, int64_t run_number, int64_t n_runs)
{
    ipu_trainer_results r;
    (void)run_number;
    (void)n_runs;
    ipu_trainer_get_results(((story *)user)->trainer, &r);
    double rate = 0.05;
    for (int64_t i = 0; i < r.n_epochs; i++) rate *= r.epochs[i].test_loss < 1 ? 0.5 : 0.9;
    return rate;
}

static void test_following_rates(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = usual();
    o.rate                = follow;
    o.rate_user           = &s;
    assert_ok(run(&s, o));
    bits expected = take_bits(&s);
    assert_true(s.rates[0] == 0.05 && s.rates[RUNS - 1] == 0.05 && s.rates[RUNS] < 0.05
                && s.rates[2 * RUNS] < s.rates[RUNS]);
    close_story(&s);
    o.checkpoint_folder = folder;
    o.begin             = IPU_TRAINER_RESUME;
    s.stop_at           = RUNS + 3;
    assert_int_equal(run(&s, o), IPU_INTERRUPTED);
    close_story(&s);
    assert_ok(run(&s, o));
    assert_same_bits(expected, take_bits(&s));
    close_story(&s);
}

/* ---- an event that ends it ---- */

typedef struct ending {
    ipu_trainer *trainer;
    int64_t      step, epoch; /* after which it asks; -1: never */
    int          n_epochs;
} ending;

static void end_at_step(void *user, const ipu_trainer_step *step)
{
    ending *e = user;
    if (step->epoch * RUNS + step->batch == e->step) ipu_trainer_stop(e->trainer);
}

static void end_at_epoch(void *user, int64_t i, const ipu_trainer_epoch *epoch)
{
    ending *e = user;
    e->n_epochs++;
    assert_true(epoch->test_loss > 0);
    if (i == e->epoch) ipu_trainer_stop(e->trainer);
}

static ipu_trainer_results run_to_end(ipu_trainer_options o, ending *e)
{
    ipu_trainer_results r;
    assert_ok(ipu_module_create(forward, NULL, &o.module));
    o.events = (ipu_trainer_events){.user = e, .step = end_at_step, .epoch = end_at_epoch};
    assert_ok(ipu_trainer_create(&o, &e->trainer));
    assert_ok(ipu_trainer_run(e->trainer));
    ipu_trainer_get_results(e->trainer, &r);
    r.epochs = NULL;
    ipu_trainer_destroy(e->trainer);
    ipu_module_destroy(o.module);
    return r;
}

static void test_ended(void **state)
{
    (void)state;
    ipu_trainer_options o = usual();
    ending              e = {.step = RUNS + 2, .epoch = -1};
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = 1000;
    ipu_trainer_results r = run_to_end(o, &e);
    assert_true(r.n_epochs == 2 && r.runs == 2 * RUNS && e.n_epochs == 2);
    assert_int_equal(r.last_saved, 2 * RUNS);
    o.begin = IPU_TRAINER_RESUME; /* the third is still to be done */
    e       = (ending){.step = -1, .epoch = -1};
    r       = run_to_end(o, &e);
    assert_true(r.n_epochs == 3 && r.runs == 3 * RUNS && e.n_epochs == 1);
    o.checkpoint_folder = NULL;
    e                   = (ending){.step = -1, .epoch = 0};
    r                   = run_to_end(o, &e);
    assert_true(r.n_epochs == 1 && e.n_epochs == 1);
}

/* ---- the same of several processes, with threads in their place ---- */

typedef struct process {
    int64_t             rank;
    ending              ending;
    ipu_trainer_options options;
    ipu_trainer_results results;
    pthread_t           thread;
} process;

static void *run_process(void *arg)
{
    process *p   = arg;
    end      own = {p->rank};
    if (ipu__comm_create(&threads, &own, &p->options.executor.comm) != IPU_OK) return NULL;
    p->results = run_to_end(p->options, &p->ending);
    ipu_comm_close(p->options.executor.comm);
    return NULL;
}

static void test_processes_end(void **state)
{
    (void)state;
    ipu_trainer_options o = usual();
    o.loader.batch_size   = 2;
    process p[2]          = {{.options = o, .ending = {.step = -1, .epoch = 1}},
                             {.rank = 1, .options = o, .ending = {.step = -1, .epoch = -1}}};
    n_ranks               = 2;
    for (int64_t r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&p[r].thread, NULL, run_process, &p[r]), 0);
    for (int64_t r = 0; r < 2; r++) pthread_join(p[r].thread, NULL);
    drop_letters();
    for (int64_t r = 0; r < 2; r++) assert_true(p[r].results.n_epochs == 2 && p[r].results.runs == 2 * RUNS);
}

#define each(test) cmocka_unit_test_teardown(test, empty_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {each(test_loss_alone), each(test_loss_alone_resumed),
                                       each(test_one_field),  each(test_nothing_to_test_by),
                                       each(test_onnx),       each(test_written_without_labels),
                                       each(test_metrics),    each(test_following_rates),
                                       each(test_ended),      each(test_processes_end)};
    return cmocka_run_group_tests_name("trainer_metric", tests, begin_all, end_all);
}
