/* Trainers: what is told, learning rates, tests, patience, interruptions, checkpoints and what refuses them, divergence,
 * several processes, misuse. */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "comm/threads_test.h"
#include "ipu/ipu.h"
#include "train/trainer/trainer_test.h"

/* ---- tests ---- */

static void test_whole(void **state)
{
    (void)state;
    story s = {0};
    assert_ok(run(&s, usual()));
    ipu_trainer_results r = results(&s);
    assert_int_equal(s.n_compiled, 1);
    assert_int_equal(s.n_steps, 3 * RUNS);
    assert_int_equal(s.n_epochs, 3);
    assert_int_equal(s.n_checkpoints + s.n_messages, 0);
    assert_int_equal(r.n_epochs, 3);
    assert_int_equal(r.runs, 3 * RUNS);
    assert_int_equal(r.runs_per_epoch, RUNS);
    assert_int_equal(r.n_points, 3 * RUNS);
    assert_true(r.points[3 * RUNS - 1] == s.last_loss && r.runs_per_point == 1 && r.seconds > 0);
    assert_true(r.epochs[2].loss < r.epochs[0].loss && r.epochs[2].test_loss < r.epochs[0].test_loss);
    assert_true(r.epochs[2].test_accuracy > 0.8 && r.epochs[2].accuracy > 0.8);
    assert_true(r.resumed_from == -1 && r.last_saved == -1 && !r.has_diverged);
    assert_int_equal(ipu_executor_n_steps(ipu_trainer_executor(s.trainer)), 3 * RUNS);
    assert_ok(ipu_trainer_run(s.trainer)); /* finished */
    assert_int_equal(s.n_steps, 3 * RUNS);
    close_story(&s);
}

static double rate_of(void *user, int64_t run, int64_t n_runs)
{
    return *(double *)user * (double)(run + 1) / (double)n_runs;
}

static void test_rates(void **state)
{
    (void)state;
    story               s    = {0};
    double              rate = 0.5;
    ipu_trainer_options o    = usual();
    o.schedule.kind          = IPU_SCHEDULE_COSINE;
    assert_ok(run(&s, o));
    const ipu_schedule same = {.kind = IPU_SCHEDULE_COSINE, .rate = 0.05, .n_steps = 3 * RUNS};
    for (int i = 0; i < 3 * RUNS; i++) assert_true(s.rates[i] == ipu_schedule_rate(&same, i));
    close_story(&s);
    o.schedule = (ipu_schedule){.kind         = IPU_SCHEDULE_MILESTONES,
                                .gamma        = 0.5,
                                .milestones   = (const double[]){0.5, 0.75},
                                .n_milestones = 2};
    assert_ok(run(&s, o));
    for (int i = 0; i < 3 * RUNS; i++)
        assert_true(s.rates[i] == (2 * i < 3 * RUNS ? 0.05 : 4 * i < 9 * RUNS ? 0.025 : 0.0125));
    close_story(&s);
    o.schedule = (ipu_schedule){.rate = 0.02};
    o.n_epochs = 1;
    assert_ok(run(&s, o));
    assert_true(s.rates[0] == 0.02 && s.rates[RUNS - 1] == 0.02);
    close_story(&s);
    o.rate      = rate_of;
    o.rate_user = &rate;
    assert_ok(run(&s, o));
    for (int i = 0; i < RUNS; i++) assert_true(s.rates[i] == rate_of(&rate, i, RUNS));
    close_story(&s);
}

static void test_patience(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = usual();
    o.n_epochs            = 8;
    o.patience            = 2;
    o.schedule            = (ipu_schedule){.rate = 1e-30}; /* no epoch is better than the first */
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = 1000;
    assert_ok(run(&s, o));
    assert_int_equal(results(&s).n_epochs, 3);
    assert_int_equal(s.n_checkpoints, 1);
    close_story(&s);
    o.begin = IPU_TRAINER_RESUME;
    assert_ok(run(&s, o));
    assert_int_equal(s.n_steps, 0);
    assert_non_null(strstr(s.message, "is finished: 3 epochs"));
    close_story(&s);
}

static void test_no_test(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = usual();
    o.test                = NULL;
    o.n_epochs            = 0;
    assert_ok(run(&s, o));
    ipu_trainer_results r = results(&s);
    assert_int_equal(r.n_epochs, 1);
    assert_true(isnan(r.epochs[0].test_loss) && isnan(r.epochs[0].test_accuracy)
                && r.epochs[0].accuracy >= 0);
    close_story(&s);
}

/* Rows of the data as pictures, which the network flattens: the same numbers. */
static void test_input(void **state)
{
    (void)state;
    story               s        = {0};
    ipu_trainer_options o        = usual();
    bits                expected = whole(o);
    o.input                      = IPU_SHAPE(2, 3);
    assert_ok(run(&s, o));
    assert_same_bits(expected, take_bits(&s));
    close_story(&s);
    o.input = IPU_SHAPE(2, 4);
    assert_int_equal(try_open(&s, o), IPU_INVALID);
    assert_says("a trainer's input has 8 elements: expected the 6 of field \"x\"");
    close_story(&s);
}

/* A network that a row of the data does not fit as it is: what is multiplied is told to have two dimensions. */
static void forward_picture(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_reduce_sum(b, in[0], (const int[]){2}, 1, false);
    ipu_model_output(m, ipu_nn_linear(m, x, CLASSES, "a"), "scores");
}

static void write_picture_network(const char *path)
{
    ipu_module     *module;
    ipu_executor   *x;
    const ipu_array one = {.type = IPU_FLOAT, .shape = IPU_SHAPE(1, 2, 3)};
    assert_ok(ipu_module_create(forward_picture, NULL, &module));
    assert_ok(ipu_inference_model(module, NULL, &x));
    assert_ok(ipu_executor_compile(x, &one, 1));
    assert_ok(ipu_module_write_onnx(module, NULL, path));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* Nobody says in which shape: the file does. */
static void test_input_of_a_file(void **state)
{
    (void)state;
    story               s = {0};
    char                path[sizeof box + 16];
    ipu_trainer_options o = usual();
    snprintf(path, sizeof path, "%s/net.onnx", box);
    write_picture_network(path);
    assert_ok(ipu_module_from_onnx(path, "cross_entropy", &s.module));
    o.module = s.module;
    assert_ok(run(&s, o));
    assert_true(results(&s).epochs[2].test_accuracy >= 0);
    bits found = take_bits(&s);
    close_story(&s);
    assert_ok(ipu_module_from_onnx(path, "cross_entropy", &s.module));
    o.module = s.module;
    o.input  = IPU_SHAPE(2, 3);
    assert_ok(run(&s, o));
    assert_same_bits(found, take_bits(&s));
    close_story(&s);
    assert_ok(ipu_module_from_onnx(path, "cross_entropy", &s.module));
    o.module = s.module;
    o.input  = IPU_SHAPE(FEATURES); /* as they are: what is asked for is done */
    assert_int_not_equal(run(&s, o), IPU_OK);
    close_story(&s);
    assert_int_equal(remove(path), 0);
}

/* ---- stops ---- */

static void test_interrupted(void **state)
{
    (void)state;
    ipu_trainer_options o        = usual();
    bits                expected = whole(o);
    for (int at = 1; at <= 2 * RUNS; at += RUNS - 1) {
        story s = {.stop_at = at};
        assert_int_equal(run(&s, o), IPU_INTERRUPTED);
        assert_says("; nothing is kept");
        assert_int_equal(results(&s).runs, at);
        assert_ok(ipu_trainer_run(s.trainer));
        assert_int_equal(s.n_compiled, 1);
        assert_same_bits(expected, take_bits(&s));
        close_story(&s);
    }
    story s = {.stop_in_test = true};
    assert_int_equal(run(&s, o), IPU_INTERRUPTED);
    assert_true(isnan(results(&s).epochs[0].test_loss));
    assert_ok(ipu_trainer_run(s.trainer));
    assert_true(results(&s).epochs[0].test_loss > 0);
    assert_same_bits(expected, take_bits(&s));
    close_story(&s);
    assert_ok(try_open(&s, o));
    ipu_trainer_interrupt(s.trainer); /* before it has begun */
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INTERRUPTED);
    assert_int_equal(results(&s).runs, 0);
    close_story(&s);
}

static bool stop_compiling(void *user, int done, int total)
{
    (void)total;
    (void)user;
    return done < 50;
}

static void test_compilation_interrupted(void **state)
{
    (void)state;
    story s = {0};
    ipu_set_compile_progress(stop_compiling, NULL);
    assert_int_equal(run(&s, usual()), IPU_INTERRUPTED);
    ipu_set_compile_progress(NULL, NULL);
    assert_int_equal(s.n_compiled, 0);
    assert_ok(ipu_trainer_run(s.trainer));
    assert_int_equal(s.n_compiled, 1);
    close_story(&s);
}

static void test_resumed(void **state)
{
    (void)state;
    ipu_trainer_options o = usual();
    o.schedule.kind       = IPU_SCHEDULE_COSINE;
    bits expected         = whole(o);
    o.checkpoint_folder   = folder;
    o.begin               = IPU_TRAINER_RESUME;
    o.model               = "small";
    story s               = {.stop_at = RUNS + 3};
    assert_int_equal(run(&s, o), IPU_INTERRUPTED);
    assert_says("stopped after run 14; IPU_TRAINER_RESUME goes on from /tmp/");
    assert_non_null(strstr(s.message, "from the beginning"));
    assert_int_equal(s.n_checkpoints, 2); /* of the epoch and of the stop */
    assert_int_equal(results(&s).last_saved, RUNS + 3);
    close_story(&s);
    assert_ok(run(&s, o));
    assert_non_null(strstr(s.message, "epoch 2, batch 3 of 11"));
    assert_int_equal(s.n_steps, 2 * RUNS - 3);
    assert_int_equal(results(&s).resumed_from, RUNS + 3);
    assert_int_equal(results(&s).n_epochs, 3);
    assert_int_equal(results(&s).runs, 3 * RUNS);
    assert_same_bits(expected, take_bits(&s));
    close_story(&s);
    assert_ok(run(&s, o));
    assert_int_equal(s.n_steps, 0);
    assert_true(results(&s).epochs[2].test_accuracy > 0.5);
    assert_same_bits(expected, take_bits(&s));
    close_story(&s);
}

static void test_cadence(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = usual();
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = 5;
    assert_ok(run(&s, o));
    assert_int_equal(s.n_checkpoints, 7); /* 5, 10, ..., 30 and the end */
    assert_non_null(strstr(s.checkpoint, "000033.npz"));
    assert_ok(ipu_trainer_save_checkpoint(s.trainer)); /* it has one */
    assert_int_equal(s.n_checkpoints, 7);
    close_story(&s);
}

static void refuse(ipu_trainer_options o, const char *why)
{
    story s = {0};
    assert_int_equal(run(&s, o), IPU_INVALID);
    assert_says(why);
    assert_int_equal(s.n_steps, 0);
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INVALID);
    assert_says("this training has failed before");
    close_story(&s);
}

static void test_refused(void **state)
{
    (void)state;
    ipu_trainer_options o = usual(), other;
    o.checkpoint_folder   = folder;
    o.model               = "small";
    o.n_epochs            = 1;
    o.schedule.kind       = IPU_SCHEDULE_COSINE;
    story s               = {0};
    assert_ok(run(&s, o));
    close_story(&s);
    refuse(o, "go on from it with IPU_TRAINER_RESUME, begin anew with IPU_TRAINER_RESTART");
    o.words.resume = "--again";
    refuse(o, "go on from it with --again");
    o.words.resume = NULL;
    o.begin        = IPU_TRAINER_RESUME;
    other          = o;
    other.model    = "large";
    refuse(other, "is of the model small, not of large");
    other                         = o;
    other.training.optimizer.rate = 0.5;
    refuse(other,
           "IPU_TRAINER_RESUME: \"rate\" is 0.05 in the checkpoint, and 0.5 now: go on with the same, or use "
           "another checkpoint_folder");
    other                          = o;
    other.training.optimizer.decay = IPU_DECAY_DECOUPLED;
    refuse(other, "\"optimizer\" is");
    other                            = o;
    other.training.max_gradient_norm = 1;
    refuse(other, "\"max-gradient-norm\" is 0.0 in the checkpoint, and 1.0 now");
    other          = o;
    other.n_epochs = 2;
    refuse(other,
           "\"epochs\" is 1 in the checkpoint, and 2 now (with a schedule of its own length it may differ)");
    other      = o;
    other.data = test;
    refuse(other, "\"data digest\" is");
    o.begin    = IPU_TRAINER_RESTART;
    o.schedule = (ipu_schedule){0};
    assert_ok(run(&s, o));
    close_story(&s);
    o.begin    = IPU_TRAINER_RESUME;
    o.n_epochs = 2; /* of a constant rate it may differ */
    assert_ok(run(&s, o));
    assert_int_equal(results(&s).resumed_from, RUNS);
    close_story(&s);
}

static void test_settings(void **state)
{
    (void)state;
    const char *const   names[] = {"where"};
    ipu_trainer_options o       = usual();
    o.checkpoint_folder         = folder;
    o.n_epochs                  = 1;
    o.settings                  = "{\"augment\": true, \"where\": \"here\"}";
    o.may_differ                = names;
    o.n_may_differ              = 1;
    story s                     = {0};
    assert_ok(run(&s, o));
    close_story(&s);
    o.begin    = IPU_TRAINER_RESUME;
    o.settings = "{\"augment\": true, \"where\": \"there\"}";
    assert_ok(run(&s, o));
    close_story(&s);
    o.settings = "{\"augment\": false, \"where\": \"here\"}";
    refuse(o, "\"augment\" is true in the checkpoint, and false now");
    o.settings = "{\"where\": \"here\"}";
    refuse(o, "\"augment\" is true in the checkpoint, and not there now");
    o.settings = "[1]";
    assert_int_equal(try_open(&s, o), IPU_INVALID);
    assert_says("expected a JSON object, found [1]");
    close_story(&s);
    o.settings = "{";
    assert_int_equal(try_open(&s, o), IPU_INVALID);
    assert_says("expected a JSON object, found {: ");
    close_story(&s);
}

/* ---- divergence ---- */

static void test_diverges(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = usual();
    o.training.optimizer  = (ipu_nn_optimizer){.kind = IPU_NN_SGD, .rate = 1e38};
    o.checkpoint_folder   = folder;
    assert_int_equal(run(&s, o), IPU_ABORTED);
    assert_says("the training diverged: the loss is ");
    assert_says(" of 11: a lower rate than 1e+38 may help; nothing of it is saved (keep_diverged does)");
    assert_true(results(&s).has_diverged && s.n_checkpoints == 0);
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INVALID);
    assert_int_equal(ipu_trainer_save_checkpoint(s.trainer), IPU_ABORTED);
    close_story(&s);
    o.keep_diverged = true;
    assert_int_equal(run(&s, o), IPU_ABORTED);
    assert_says("it is kept all the same");
    assert_ok(ipu_trainer_save_checkpoint(s.trainer));
    assert_int_equal(s.n_checkpoints, 1);
    close_story(&s);
}

/* ---- misuse ---- */

static void refuse_open(ipu_trainer_options o, const char *why)
{
    story s = {0};
    assert_int_equal(try_open(&s, o), IPU_INVALID);
    assert_null(s.trainer);
    assert_says(why);
    close_story(&s);
}

static void test_misuse(void **state)
{
    (void)state;
    ipu_trainer_options o = usual();
    ipu_trainer        *t;
    assert_int_equal(ipu_trainer_create(&o, &t), IPU_INVALID);
    assert_says("found no module");
    o.data = NULL;
    refuse_open(o, "found no data");
    o          = usual();
    o.patience = -1;
    refuse_open(o, "expected none below 0, found 3, 0, -1 and 0");
    o                  = usual();
    o.loader.keep_last = true;
    refuse_open(o, "expected full batches only");
    o          = usual();
    o.test     = NULL;
    o.patience = 1;
    refuse_open(o, "expected a test set");
    o                   = usual();
    o.loader.batch_size = N_TRAIN + 1;
    refuse_open(o, "");
    float                 x[2] = {0};
    ipu_dataset          *rows;
    const ipu_named_array arrays[] = {{"x", {.type = IPU_FLOAT, .shape = IPU_SHAPE(2), .data = x}}};
    assert_ok(ipu_dataset_from_arrays(arrays, 1, &rows));
    o      = usual();
    o.test = rows;
    refuse_open(o, "have 2 fields and its test set has 1");
    ipu_dataset_destroy(rows);
    ipu_trainer_destroy(NULL);
}

/* ---- memory ---- */

static struct {
    atomic_long n, live;
    long        refuse;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        atomic_fetch_sub(&heap.live, ptr != NULL);
        free(ptr);
        return NULL;
    }
    if (atomic_fetch_add(&heap.n, 1) + 1 == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) atomic_fetch_add(&heap.live, 1);
    return p;
}

static void test_memory(void **state)
{
    (void)state;
    int64_t             seed = 1;
    long                refused;
    ipu_trainer_options o = usual();
    ipu__alloc_set(failing_alloc, NULL);
    o.data = o.test = make_dataset(N_TRAIN, &seed);
    assert_ok(ipu_module_create(forward, NULL, &o.module));
    o.checkpoint_folder = folder;
    o.loader.n_workers  = -1;
    o.executor.engine   = NULL;
    long before         = atomic_load(&heap.live);
    for (refused = 0;; refused++) {
        story s     = {0};
        heap.refuse = refused + 1;
        atomic_store(&heap.n, 0);
        ipu_status status = try_open(&s, o);
        close_story(&s);
        assert_int_equal(atomic_load(&heap.live), before);
        if (status == IPU_OK) break;
        assert_int_equal(status, IPU_OUT_OF_MEMORY);
    }
    assert_true(refused > 5);
    heap.refuse = 0;
    ipu_module_destroy(o.module);
    ipu_dataset_destroy(o.data);
    ipu__alloc_set(NULL, NULL);
}

/* ---- several processes, with threads in their place ---- */

typedef struct process {
    int64_t             rank, stop_after;
    ipu_trainer_options options;
    ipu_trainer        *trainer;
    ipu_status          status;
    ipu_trainer_results results;
    bits                weights;
    int                 n_epochs;
    char                message[512];
    pthread_t           thread;
} process;

static void count_epoch(void *user, int64_t i, const ipu_trainer_epoch *e)
{
    (void)i;
    (void)e;
    ((process *)user)->n_epochs++;
}

static void *run_process(void *arg)
{
    process *p   = arg;
    end      own = {p->rank};
    story    s   = {0};
    if (ipu__comm_create(&threads, &own, &p->options.executor.comm) != IPU_OK) return NULL;
    p->options.events = (ipu_trainer_events){.user = p, .epoch = count_epoch};
    p->status         = ipu_module_create(forward, NULL, &s.module);
    p->options.module = s.module;
    if (p->status == IPU_OK) p->status = ipu_trainer_create(&p->options, &s.trainer);
    if (p->status == IPU_OK && p->stop_after) ipu_trainer_interrupt(s.trainer);
    if (p->status == IPU_OK) p->status = ipu_trainer_run(s.trainer);
    snprintf(p->message, sizeof p->message, "%s", ipu_message());
    if (s.trainer) p->results = results(&s);
    if (p->status == IPU_OK) p->weights = take_bits(&s);
    close_story(&s);
    ipu_comm_close(p->options.executor.comm);
    return NULL;
}

static void run_both(process *p)
{
    n_ranks = 2;
    for (int64_t r = 0; r < 2; r++) {
        p[r].rank   = r;
        p[r].status = IPU_DEVICE_ERROR;
        assert_int_equal(pthread_create(&p[r].thread, NULL, run_process, &p[r]), 0);
    }
    for (int64_t r = 0; r < 2; r++) pthread_join(p[r].thread, NULL);
    drop_letters();
}

static void test_processes(void **state)
{
    (void)state;
    ipu_trainer_options o = usual();
    o.executor.no_fold    = true;
    o.loader.batch_size   = 2;
    o.executor.replicas   = 2;
    bits expected         = whole(o);
    o.executor.replicas   = 1;
    o.checkpoint_folder   = folder;
    o.begin               = IPU_TRAINER_RESUME;
    process p[2]          = {{.options = o}, {.options = o, .stop_after = 1}};
    run_both(p); /* one is told to stop, which both do after their first run */
    for (int r = 0; r < 2; r++) {
        assert_int_equal(p[r].status, IPU_INTERRUPTED);
        assert_int_equal(p[r].results.runs, 1);
        assert_true(p[r].results.is_known);
        p[r].stop_after = 0;
    }
    run_both(p);
    for (int r = 0; r < 2; r++) {
        if (p[r].status != IPU_OK) fail_msg("rank %d: %s", r, p[r].message);
        assert_int_equal(p[r].results.resumed_from, 1);
        assert_same_bits(expected, p[r].weights);
        assert_int_equal(p[r].n_epochs, r == 0 ? 3 : 0);
    }
}

static void test_processes_differ(void **state)
{
    (void)state;
    process p[2]                         = {{.options = usual()}, {.options = usual()}};
    p[1].options.training.optimizer.rate = 0.5;
    run_both(p);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(p[r].status, IPU_INVALID);
        assert_non_null(strstr(p[r].message, "rank 1 was started with rate 0.5, rank 0 with 0.05"));
        assert_true(p[r].results.is_known && p[r].results.is_told_elsewhere == (r == 1));
    }
    p[1].options          = usual();
    p[1].options.patience = 2;
    run_both(p);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(p[r].status, IPU_INVALID);
        assert_non_null(strstr(p[r].message, "rank 1 was started with patience 2, rank 0 with 0"));
    }
    p[1].options          = usual();
    p[0].options.settings = p[1].options.settings = "{}";
    for (int r = 0; r < 2; r++) p[r].options.checkpoint_folder = "/proc/none";
    run_both(p);
    assert_int_equal(p[0].status, p[1].status);
    assert_non_null(strstr(p[0].message, "/proc"));
    assert_non_null(strstr(p[1].message, "process 0 of the training has failed"));
    assert_true(p[1].results.is_known && p[1].results.is_told_elsewhere && !p[0].results.is_told_elsewhere);
}

#define each(test) cmocka_unit_test_teardown(test, empty_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {each(test_whole),           each(test_rates),
                                       each(test_patience),        each(test_no_test),
                                       each(test_input),           each(test_input_of_a_file),
                                       each(test_interrupted),     each(test_compilation_interrupted),
                                       each(test_resumed),         each(test_cadence),
                                       each(test_refused),         each(test_settings),
                                       each(test_diverges),        each(test_misuse),
                                       each(test_memory),          each(test_processes),
                                       each(test_processes_differ)};
    return cmocka_run_group_tests(tests, begin_all, end_all);
}
