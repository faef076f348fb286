/* A training that goes on from a checkpoint, in other objects, ends with the bits of one that was not stopped: weights,
 * running statistics, states of optimizers and of random ops, and what it gives on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tiny_training.h"

enum { N_RUNS = 24 };

static char box[] = "/tmp/ipu-resume-test-XXXXXX";
static char path[64];

static int make_box(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(path, sizeof path, "%s/c.npz", box);
    return 0;
}

static int remove_box(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(box);
}

static ipu_checkpoint whole(const tiny_options *options)
{
    tiny_training  t;
    ipu_checkpoint c;
    assert_true(tiny_begin(&t, options));
    assert_true(tiny_run(&t, N_RUNS));
    assert_true(tiny_get(&t, &c));
    tiny_end(&t);
    return c;
}

/* Stopped after `stop` runs; `compiled`: the state is set when the executor is compiled already. */
static ipu_checkpoint in_parts(const tiny_options *options, int64_t stop, bool compiled)
{
    tiny_training  t;
    ipu_checkpoint c;
    assert_true(tiny_begin(&t, options));
    assert_true(tiny_run(&t, stop));
    assert_true(tiny_get(&t, &c));
    tiny_end(&t);
    if (ipu_checkpoint_write(path, &c) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_checkpoint_free(&c);
    if (ipu_checkpoint_read(path, &c) != IPU_OK) fail_msg("%s", ipu_message());
    assert_true(tiny_begin(&t, options));
    if (compiled) assert_true(tiny_run(&t, 2)); /* other weights, another place */
    assert_true(tiny_set(&t, &c));
    ipu_checkpoint_free(&c);
    assert_true(tiny_run(&t, N_RUNS - stop));
    assert_true(tiny_get(&t, &c));
    tiny_end(&t);
    return c;
}

static void assert_resumes(const tiny_options *options)
{
    ipu_checkpoint expected = whole(options), same = whole(options);
    assert_true(tiny_is_equal(&expected.state, &same.state)); /* or nothing below says anything */
    static const int64_t stops[] = {1, 7, 8, N_RUNS - 1};
    for (int i = 0; i < 4; i++) {
        ipu_checkpoint found = in_parts(options, stops[i], i % 2);
        assert_int_equal(found.position.epoch, expected.position.epoch);
        assert_int_equal(found.position.batch, expected.position.batch);
        if (!tiny_is_equal(&expected.state, &found.state)) fail_msg("stopped after %d", (int)stops[i]);
        ipu_checkpoint_free(&found);
    }
    ipu_checkpoint_free(&expected);
    ipu_checkpoint_free(&same);
}

static void every_optimizer_goes_on(void **state)
{
    (void)state;
    static const ipu_nn_optimizer optimizers[] = {
        {.kind = IPU_NN_SGD, .momentum = 0.9},
        {.kind = IPU_NN_ADAM, .amsgrad = true},
        {.kind = IPU_NN_ADAMW},
        {.kind = IPU_NN_ADAMAX},
        {.kind = IPU_NN_RMSPROP, .momentum = 0.5, .centered = true},
        {.kind = IPU_NN_ADAGRAD},
        {.kind = IPU_NN_LAMB},
        {.kind = IPU_NN_ADADELTA},
    };
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        assert_resumes(&(tiny_options){.training = {.optimizer = optimizers[i]}});
}

static void accumulation_iterations_and_replicas_go_on(void **state)
{
    (void)state;
    static const ipu_executor_options how[] = {
        {.device_iterations = 3},
        {.gradient_accumulation = 2},
        {.gradient_accumulation = 2, .device_iterations = 2, .reduction = IPU_REDUCTION_SUM},
        {.gradient_accumulation = 3, .running_mean = true, .seed = 9},
        {.replicas = 2, .gradient_accumulation = 2},
        {.replicas = 2, .input_group_size = 2, .device_iterations = 2},
    };
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        assert_resumes(
            &(tiny_options){how[i], {.optimizer = {.kind = IPU_NN_ADAM}}, .n_workers = (int)i - 1});
}

static void groups_and_clipping_go_on(void **state)
{
    (void)state;
    const ipu_nn_group groups[] = {{.parameters = "f2.*", .optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}},
                                   {.parameters = "f1.bias", .frozen = true}};
    assert_resumes(&(tiny_options){
        .how      = {.device_iterations = 2},
        .training = {
            .optimizer = {.momentum = 0.9}, .groups = groups, .n_groups = 2, .max_gradient_norm = 0.5}});
}

/* Another number in any array, or another place, and the end is another: or the tests above would prove nothing. */
static void every_part_of_a_checkpoint_matters(void **state)
{
    (void)state;
    const tiny_options options  = {.training = {.optimizer = {.kind = IPU_NN_ADAM}}};
    ipu_checkpoint     expected = whole(&options), c, found;
    tiny_training      t;
    assert_true(tiny_begin(&t, &options));
    assert_true(tiny_run(&t, 5));
    assert_true(tiny_get(&t, &c));
    tiny_end(&t);
    for (size_t i = 0; i <= c.state.n; i++) {
        ipu_named_array *a = i < c.state.n ? &c.state.arrays[i] : NULL;
        if (a && strncmp(a->name, "learning_rate", 13) == 0) continue; /* the schedule sets it */
        if (a && a->array.type == IPU_FLOAT)
            *(float *)a->array.data += 1;
        else if (a)
            *(unsigned char *)a->array.data ^= 1;
        else
            c.position.batch++;
        assert_true(tiny_begin(&t, &options));
        assert_true(tiny_set(&t, &c));
        assert_true(tiny_run(&t, N_RUNS - 5));
        assert_true(tiny_get(&t, &found));
        tiny_end(&t);
        if (tiny_is_equal(&expected.state, &found.state)) fail_msg("%s", a ? a->name : "position");
        ipu_checkpoint_free(&found);
    }
    ipu_checkpoint_free(&c);
    ipu_checkpoint_free(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_goes_on),
        cmocka_unit_test(accumulation_iterations_and_replicas_go_on),
        cmocka_unit_test(groups_and_clipping_go_on),
        cmocka_unit_test(every_part_of_a_checkpoint_matters),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}
