/* Executors that are run with arrays of several shapes: whichever executable runs goes on where the one before was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { FEATURES = 3, CLASSES = 4, MOST = 64 };

/* Parameters, running means, random numbers and, in training, states of an optimizer. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_dropout(m, ipu_relu(b, ipu_nn_linear(m, in[0], 16, "hidden")), 0.5);
    x           = ipu_nn_batch_norm(m, x, "norm");
    x           = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "out"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* y = total + x, total += mean of x. `user`: another name of the state. */
static void adding(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    total = ipu_model_state(m, IPU_FLOAT, IPU_SCALAR, NULL, user ? user : "total");
    (void)n;
    ipu_value x = in[0];
    if (ipu_value_type(x) != IPU_FLOAT) x = ipu_cast(b, x, IPU_FLOAT);
    ipu_model_output(m, ipu_add(b, total, x), "y");
    ipu_model_update(m, total, ipu_add(b, total, ipu_reduce_mean(b, x, (int[]){0}, 1, false)));
}

static float   inputs[MOST * FEATURES];
static int32_t targets[MOST];

static int fill(void **state)
{
    (void)state;
    unsigned seed = 5;
    for (int i = 0; i < MOST * FEATURES; i++) {
        seed      = seed * 1664525u + 1013904223u;
        inputs[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int i = 0; i < MOST; i++) targets[i] = i % CLASSES;
    return 0;
}

/* `n` samples, not the same in each step. */
static ipu_status run_step(ipu_executor *x, int64_t n, int64_t step)
{
    const ipu_array in[2] = {{IPU_FLOAT, IPU_SHAPE(n, FEATURES), inputs + step * FEATURES},
                             {IPU_INT32, IPU_SHAPE(n), targets + step}};
    return ipu_executor_run(x, in, 2);
}

static ipu_module *module_of(ipu_forward_fn fn)
{
    ipu_module *module;
    OK(ipu_module_create(fn, NULL, &module));
    return module;
}

static void assert_same_state(const ipu_npz *a, const ipu_npz *b, int64_t step)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const ipu_named_array *p = &a->arrays[i], *q = &b->arrays[i];
        assert_string_equal(p->name, q->name);
        if (memcmp(p->array.data, q->array.data, ipu_array_bytes(&p->array)) != 0)
            fail_msg("step %d: \"%s\" differs", (int)step, p->name);
    }
}

static const ipu_nn_training adam = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.05}};

/* One step from `state` on (n 0: the first), by an executor that has never been run with anything else. */
static void step_alone(ipu_executor_options options, double rate, int64_t n, int64_t step, ipu_npz *state)
{
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    options.most_executables = 0;
    OK(ipu_training_model(module, &options, &adam, &x));
    if (state->n > 0) OK(ipu_executor_set_state(x, state));
    OK(ipu_executor_set_rate(x, 0, rate));
    ipu_npz_free(state);
    OK(run_step(x, n, step));
    OK(ipu_executor_get_state(x, state));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void training_goes_on_with_other_shapes_bit_for_bit(void **state)
{
    (void)state;
    const ipu_executor_options ways[]  = {{.most_executables = 1},
                                          {.most_executables = 2},
                                          {.most_executables = 8, .attach = IPU_ATTACH_ON_DEMAND},
                                          {.most_executables = 2, .gradient_accumulation = 2},
                                          {.most_executables = 2, .replicas = 2},
                                          {.most_executables = 2, .replicas = 2, .shard_optimizer = true},
                                          {.most_executables = 2, .optimizer_off_chip = true}};
    const int64_t              sizes[] = {8, 8, 12, 8, 16, 12, 8};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        ipu_module   *module = module_of(forward);
        ipu_npz       alone  = {0}, found;
        ipu_executor *x;
        OK(ipu_training_model(module, &ways[k], &adam, &x));
        for (int64_t i = 0; i < (int64_t)(sizeof sizes / sizeof *sizes); i++) {
            double rate = i < 3 ? 0.05 : 0.01;
            step_alone(ways[k], rate, sizes[i], i, &alone);
            OK(ipu_executor_set_rate(x, 0, rate));
            OK(run_step(x, sizes[i], i));
            OK(ipu_executor_get_state(x, &found));
            assert_same_state(&found, &alone, i);
            ipu_npz_free(&found);
        }
        int64_t most = ways[k].most_executables < 3 ? ways[k].most_executables : 3;
        assert_int_equal(ipu_executor_n_compiled(x), most);
        assert_int_equal(ipu_executor_n_steps(x), 7);
        ipu_npz_free(&alone);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
}

static void expect_y(ipu_executor *x, int64_t n, float in, float expected)
{
    float data[8];
    for (int i = 0; i < 8; i++) data[i] = in;
    OK(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(n), data}, 1));
    const ipu_array *y = ipu_executor_output(x, "y");
    assert_int_equal(y->shape.dim[0], n);
    for (int64_t i = 0; i < n; i++) assert_true(((float *)y->data)[i] == expected);
}

static void states_of_inference_go_on_and_the_host_may_set_them(void **state)
{
    (void)state;
    ipu_module   *module = module_of(adding);
    ipu_executor *x, *other;
    OK(ipu_inference_model(module, &(ipu_executor_options){.most_executables = 2}, &x));
    OK(ipu_inference_model(module, &(ipu_executor_options){.most_executables = 2}, &other));
    expect_y(x, 4, 1, 1);
    expect_y(x, 2, 2, 3);
    expect_y(x, 8, 1, 4); /* in place of the first */
    expect_y(x, 4, 0, 4);
    expect_y(other, 4, 1, 5);
    expect_y(x, 8, 1, 6);
    float     ten = 10;
    ipu_array a   = {IPU_FLOAT, IPU_SCALAR, &ten};
    OK(ipu_module_set_weight(module, "total", &a));
    expect_y(x, 4, 1, 11);
    expect_y(x, 8, 1, 12);
    expect_y(other, 2, 1, 13);
    ipu_executor_destroy(x);
    ipu_executor_destroy(other);
    const ipu_array *total;
    OK(ipu_module_weight(module, "total", &total));
    assert_true(*(float *)total->data == 13);
    ipu_module_destroy(module);
}

static void expect_own_of_each_replica(const char *name)
{
    ipu_module   *module;
    ipu_executor *x;
    OK(ipu_module_create(adding, (void *)(uintptr_t)name, &module));
    OK(ipu_inference_model(
        module, &(ipu_executor_options){.most_executables = 2, .replicas = 2, .no_fold = true}, &x));
    float            in[4] = {1, 5, 1, 5}; /* a batch of one, then of two samples */
    const ipu_array *y;
    OK(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), in}, 1));
    float more[4] = {0, 0, 0, 0};
    OK(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(4), more}, 1));
    y = ipu_executor_output(x, "y");
    assert_memory_equal(y->data, ((float[]){1, 1, 5, 5}), 4 * sizeof(float));
    OK(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), in}, 1));
    y = ipu_executor_output(x, "y");
    assert_memory_equal(y->data, ((float[]){2, 10}), 2 * sizeof(float));
    float     zero = 0;
    ipu_array a    = {IPU_FLOAT, IPU_SCALAR, &zero};
    OK(ipu_module_set_weight(module, name, &a)); /* the host's is the newest: of both */
    OK(ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(4), more}, 1));
    y = ipu_executor_output(x, "y");
    assert_memory_equal(y->data, ((float[]){0, 0, 0, 0}), 4 * sizeof(float));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* Replicas that have states of their own, whatever they are called. */
static void each_replica_goes_on_with_its_own(void **state)
{
    (void)state;
    expect_own_of_each_replica("total");
    expect_own_of_each_replica("learning_rate_of_words");
}

static void types_count_as_shapes_do(void **state)
{
    (void)state;
    ipu_module   *module = module_of(adding);
    ipu_executor *x;
    OK(ipu_inference_model(module, &(ipu_executor_options){.most_executables = 4}, &x));
    expect_y(x, 2, 1, 1);
    OK(ipu_executor_run(x, &(ipu_array){IPU_DOUBLE, IPU_SHAPE(2), (double[]){1, 1}}, 1)); /* a float there */
    assert_int_equal(ipu_executor_n_compiled(x), 1);
    OK(ipu_executor_run(x, &(ipu_array){IPU_INT32, IPU_SHAPE(2), (int32_t[]){1, 1}}, 1));
    OK(ipu_executor_run(x, &(ipu_array){IPU_INT64, IPU_SHAPE(2), (int64_t[]){1, 1}}, 1));
    assert_int_equal(ipu_executor_n_compiled(x), 2);
    expect_y(x, 2, 1, 5);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void what_fails_leaves_the_others(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    OK(ipu_training_model(module, &(ipu_executor_options){.most_executables = 4}, &adam, &x));
    OK(run_step(x, 8, 0));
    ipu_npz before, after;
    OK(ipu_executor_get_state(x, &before));
    const ipu_array wrong[2] = {{IPU_FLOAT, IPU_SHAPE(8, FEATURES + 1), inputs},
                                {IPU_INT32, IPU_SHAPE(8), targets}};
    assert_int_equal(ipu_executor_run(x, wrong, 2), IPU_INVALID); /* the weights are of another shape */
    if (!strstr(ipu_message(), "hidden.weight")) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_executor_n_compiled(x), 1);
    OK(ipu_executor_get_state(x, &after));
    assert_same_state(&after, &before, 0);
    OK(run_step(x, 8, 0));
    ipu_npz_free(&before);
    ipu_npz_free(&after);
    ipu_executor_destroy(x);
    assert_int_equal(ipu_training_model(module, &(ipu_executor_options){.most_executables = -1}, &adam, &x),
                     IPU_INVALID);
    ipu_module_destroy(module);
}

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_leaves_the_others(void **state)
{
    (void)state;
    enum { MANY = 100000000 };
    ipu_status status = IPU_OUT_OF_MEMORY;
    for (int allowed = 0; status != IPU_OK; allowed += 1 + allowed / 16) {
        assert_in_range(allowed, 0, 100000);
        calls_left = MANY;
        ipu__alloc_set(limited, NULL);
        ipu_module   *module = module_of(adding);
        ipu_executor *x;
        float         ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
        OK(ipu_inference_model(module, &(ipu_executor_options){.most_executables = 2}, &x));
        expect_y(x, 4, 1, 1);
        calls_left = allowed;
        status     = ipu_executor_run(x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), ones}, 1);
        calls_left = MANY;
        if (status != IPU_OK) assert_int_equal(status, IPU_OUT_OF_MEMORY);
        assert_int_equal(ipu_executor_n_compiled(x), status == IPU_OK ? 2 : 1);
        expect_y(x, 4, 1, status == IPU_OK ? 3 : 2);
        expect_y(x, 2, 1, status == IPU_OK ? 4 : 3);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
        ipu__alloc_set(NULL, NULL);
    }
}

/* Another optimizer is for all of them: they are made anew as they are wanted. */
static void another_optimizer_is_for_all_shapes(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    ipu_npz       found;
    OK(ipu_training_model(module, &(ipu_executor_options){.most_executables = 4}, &adam, &x));
    OK(run_step(x, 8, 0));
    OK(run_step(x, 12, 0));
    assert_int_equal(ipu_executor_n_compiled(x), 2);
    OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.optimizer = {.rate = 0.01, .momentum = 0.9}}));
    OK(run_step(x, 12, 0));
    assert_int_equal(ipu_executor_n_compiled(x), 1);
    OK(run_step(x, 8, 0));
    OK(ipu_executor_get_state(x, &found));
    bool has_momentum = false;
    for (size_t i = 0; i < found.n; i++) has_momentum |= strstr(found.arrays[i].name, "momentum") != NULL;
    assert_true(has_momentum);
    ipu_npz_free(&found);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void all_shapes_come_from_the_cache_and_are_on_one_device(void **state)
{
    (void)state;
    char box[] = "/tmp/ipu-executor-shapes-test-XXXXXX", command[64];
    assert_non_null(mkdtemp(box));
    const ipu_executor_options options = {.most_executables = 2, .cache_folder = box};
    for (int turn = 0; turn < 2; turn++) {
        ipu_module   *module = module_of(forward);
        ipu_executor *x;
        ipu_device   *device = NULL;
        OK(ipu_training_model(module, &options, &adam, &x));
        for (int64_t n = 8; n <= 12; n += 4) {
            bool was_cached;
            OK(run_step(x, n, 0));
            ipu_executor_compile_seconds(x, &was_cached);
            assert_int_equal(was_cached, turn == 1);
            if (n == 8)
                device = ipu_engine_device(ipu_executor_engine(x));
            else
                assert_ptr_equal(ipu_engine_device(ipu_executor_engine(x)), device);
        }
        assert_true(device != NULL);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_goes_on_with_other_shapes_bit_for_bit),
        cmocka_unit_test(states_of_inference_go_on_and_the_host_may_set_them),
        cmocka_unit_test(each_replica_goes_on_with_its_own),
        cmocka_unit_test(types_count_as_shapes_do),
        cmocka_unit_test(what_fails_leaves_the_others),
        cmocka_unit_test(refused_memory_leaves_the_others),
        cmocka_unit_test(another_optimizer_is_for_all_shapes),
        cmocka_unit_test(all_shapes_come_from_the_cache_and_are_on_one_device),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
