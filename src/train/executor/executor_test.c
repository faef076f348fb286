/* Executors: batching and output modes of PopTorch, accumulation and replicas against larger batches, weights that
 * follow their module, states that resume, optimizers that change. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { FEATURES = 3, CLASSES = 4 };

/* x [n, 3] -> scores, a loss, and a running count of batches. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_tanh(b, ipu_nn_linear(m, in[0], 5, "hidden"));
    x           = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "out"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

typedef struct set {
    ipu_array arrays[2];
} set;

static set samples(int64_t n, unsigned seed)
{
    set s = {0};
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, FEATURES), &s.arrays[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &s.arrays[1]));
    float *x = s.arrays[0].data;
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < FEATURES; k++) {
            seed                = seed * 1664525u + 1013904223u;
            x[i * FEATURES + k] = (float)(seed >> 8) * 0x1p-23f - 1;
        }
        ((int32_t *)s.arrays[1].data)[i] = (x[i * FEATURES] > 0) + 2 * (x[i * FEATURES + 1] > 0);
    }
    return s;
}

static void free_set(set *s)
{
    for (int i = 0; i < 2; i++) ipu_array_free(&s->arrays[i]);
}

static ipu_module *module_of(ipu_forward_fn fn)
{
    ipu_module *module;
    OK(ipu_module_create(fn, NULL, &module));
    return module;
}

static void weight(ipu_module *module, const char *name, float *out, size_t n)
{
    const ipu_array *a;
    OK(ipu_module_weight(module, name, &a));
    assert_int_equal(ipu_array_n_elements(a), n);
    memcpy(out, a->data, n * sizeof *out);
}

static void assert_close(const float *a, const float *b, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance))
            fail_msg("element %zu: %g and %g", i, (double)a[i], (double)b[i]);
}

/* Weights "hidden.weight" after training on 48 samples, 4 passes, with these options. */
static void train(ipu_executor_options options, ipu_nn_optimizer how, float out[15])
{
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    OK(ipu_training_model(module, &options, &(ipu_nn_training){.optimizer = how}, &x));
    set     s       = samples(48, 1);
    int64_t batches = ipu_executor_options_n_batches(&options), size = 2 * batches;
    for (int pass = 0; pass < 4; pass++)
        for (int64_t i = 0; i + size <= 48; i += size) {
            ipu_array part[2] = {s.arrays[0], s.arrays[1]};
            part[0].data = (float *)s.arrays[0].data + i * FEATURES, part[0].shape.dim[0] = size;
            part[1].data = (int32_t *)s.arrays[1].data + i, part[1].shape.dim[0] = size;
            OK(ipu_executor_run(x, part, 2));
        }
    weight(module, "hidden.weight", out, 15);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_set(&s);
}

static void device_iterations_are_runs(void **state)
{
    (void)state;
    float                  one[15], four[15];
    const ipu_nn_optimizer how = {.rate = 0.1, .momentum = 0.9};
    train((ipu_executor_options){0}, how, one);
    train((ipu_executor_options){.device_iterations = 4}, how, four);
    assert_memory_equal(one, four, sizeof one);
}

static void accumulation_and_replicas_are_larger_batches(void **state)
{
    (void)state;
    const ipu_nn_optimizer     list[] = {{.rate = 0.1, .momentum = 0.9}, {.kind = IPU_NN_ADAM, .rate = 0.01}};
    const ipu_executor_options ways[] = {
        {.gradient_accumulation = 4},
        {.gradient_accumulation = 4, .running_mean = true},
        {.replicas = 4},
        {.gradient_accumulation = 2, .replicas = 2},
        {.gradient_accumulation = 2, .replicas = 2, .running_mean = true, .device_iterations = 3},
    };
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        float expected[15], found[15];
        train(ways[0], list[k], expected);
        for (size_t i = 1; i < sizeof ways / sizeof *ways; i++) {
            train(ways[i], list[k], found);
            assert_close(expected, found, 15, 1e-5f);
        }
        /* A sum takes steps that are four times as large, which Adam does not notice. */
        ipu_nn_optimizer smaller = list[k];
        if (k == 0) smaller.rate /= 4;
        train((ipu_executor_options){.gradient_accumulation = 4, .reduction = IPU_REDUCTION_SUM}, smaller,
              found);
        assert_close(expected, found, 15, k == 0 ? 1e-5f : 1e-3f);
    }
}

/* Four batches of two samples in one step are one batch of eight. */
static void accumulated_gradients_are_those_of_the_whole_batch(void **state)
{
    (void)state;
    float found[2][15];
    set   s = samples(8, 3);
    for (int k = 0; k < 2; k++) {
        ipu_module          *module  = module_of(forward);
        ipu_executor_options options = {.gradient_accumulation = k ? 4 : 1};
        ipu_executor        *x;
        OK(ipu_training_model(module, &options, &(ipu_nn_training){.optimizer = {.rate = 0.5}}, &x));
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        weight(module, "hidden.weight", found[k], 15);
        assert_int_equal(ipu_executor_n_steps(x), 5);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    assert_close(found[0], found[1], 15, 1e-6f);
    free_set(&s);
}

/* ---- outputs ---- */

static void count(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    (void)user;
    ipu_model_output(m, ipu_mul(b, in[0], ipu_scalar_like(b, in[0], 10)), "tens");
    ipu_model_output(m, ipu_reduce_sum(b, in[0], NULL, 0, false), "sum");
}

static void expect(const ipu_executor *x, const char *name, ipu_shape shape, const float *values)
{
    const ipu_array *a = ipu_executor_output(x, name);
    assert_non_null(a);
    assert_int_equal(a->shape.rank, shape.rank);
    for (int i = 0; i < shape.rank; i++) assert_int_equal(a->shape.dim[i], shape.dim[i]);
    assert_memory_equal(a->data, values, ipu_array_bytes(a));
}

static void wide_types_are_taken_for_those_of_a_device(void **state)
{
    (void)state;
    ipu_module   *module = module_of(count);
    double        data[] = {1, 2, 3, 4};
    ipu_array     in     = {IPU_DOUBLE, IPU_SHAPE(4), data};
    ipu_executor *x;
    OK(ipu_inference_model(module, &(ipu_executor_options){.device_iterations = 2}, &x));
    OK(ipu_executor_run(x, &in, 1));
    expect(x, "tens", IPU_SHAPE(4), (float[]){10, 20, 30, 40});
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* ---- weights ---- */

static void what_one_trains_another_runs(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *training, *inference;
    set           s = samples(32, 5);
    OK(ipu_training_model(module, NULL, &(ipu_nn_training){.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.05}},
                          &training));
    OK(ipu_inference_model(module, NULL, &inference));
    double right[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 150 && k > 0; i++) OK(ipu_executor_run(training, s.arrays, 2));
        OK(ipu_executor_run(inference, s.arrays, 1));
        const float *scores = ipu_executor_output(inference, "scores")->data;
        int          n      = 0;
        for (int i = 0; i < 32; i++) {
            int best = 0;
            for (int c = 1; c < CLASSES; c++)
                if (scores[i * CLASSES + c] > scores[i * CLASSES + best]) best = c;
            n += best == ((int32_t *)s.arrays[1].data)[i];
        }
        right[k] = n / 32.0;
    }
    assert_true(right[1] > 0.9 && right[1] > right[0]);
    double loss;
    OK(ipu_executor_scalar(training, "loss", &loss));
    assert_true(loss < 0.3);
    /* The trainer goes on from what the host sets. */
    ipu_array zeros;
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(CLASSES, 5), &zeros));
    OK(ipu_module_set_weight(module, "out.weight", &zeros));
    float     bias[CLASSES] = {0};
    ipu_array none          = {IPU_FLOAT, IPU_SHAPE(CLASSES), bias};
    OK(ipu_module_set_weight(module, "out.bias", &none));
    OK(ipu_executor_run(inference, s.arrays, 1));
    assert_true(fabsf(((const float *)ipu_executor_output(inference, "scores")->data)[0] - logf(0.25f))
                < 1e-6f);
    OK(ipu_executor_run(training, s.arrays, 2));
    OK(ipu_executor_scalar(training, "loss", &loss));
    assert_true(fabs(loss - log(4)) < 1e-5);
    assert_int_equal(ipu_executor_scalar(training, "los", &loss), IPU_INVALID);
    assert_true(isnan(loss));
    assert_non_null(strstr(ipu_message(), "there is no output \"los\" (did you mean \"loss\"?)"));
    assert_non_null(strstr(ipu_message(), "\"scores\""));
    ipu_array_free(&zeros);
    ipu_executor_destroy(training);
    ipu_executor_destroy(inference);
    ipu_module_destroy(module);
    free_set(&s);
}

/* A state that every run adds its input to. */
static void adding(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    total = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(2), NULL, "total");
    (void)n, (void)user;
    ipu_model_update(m, total, ipu_add(b, total, in[0]));
    ipu_model_output(m, ipu_add(b, total, total), "before, twice");
}

static void states_that_inference_changes_are_fetched(void **state)
{
    (void)state;
    ipu_module   *module = module_of(adding);
    ipu_executor *first, *second;
    float         one[2] = {1, 2}, total[2];
    ipu_array     x      = {IPU_FLOAT, IPU_SHAPE(2), one};
    OK(ipu_inference_model(module, NULL, &first));
    OK(ipu_inference_model(module, NULL, &second));
    for (int run = 1; run <= 3; run++) { /* more than once: what was fetched before is old */
        OK(ipu_executor_run(first, &x, 1));
        weight(module, "total", total, 2);
        assert_close(total, (float[]){(float)run, 2 * (float)run}, 2, 0);
    }
    /* Another executor goes on from there, and the first from what that one made of it. */
    OK(ipu_executor_run(second, &x, 1));
    OK(ipu_executor_run(first, &x, 1));
    assert_close(ipu_executor_output(first, "before, twice")->data, (float[]){8, 16}, 2, 0);
    weight(module, "total", total, 2);
    assert_close(total, (float[]){5, 10}, 2, 0);
    ipu_executor_destroy(first);
    weight(module, "total", total, 2);
    assert_close(total, (float[]){5, 10}, 2, 0);
    ipu_executor_destroy(second);
    ipu_module_destroy(module);
}

static void weights_outlive_the_executor_that_trained_them(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    set           s = samples(8, 5);
    float         before[15], after[15];
    OK(ipu_training_model(module, NULL, NULL, &x));
    OK(ipu_executor_run(x, s.arrays, 2));
    weight(module, "hidden.weight", before, 15);
    OK(ipu_executor_run(x, s.arrays, 2));
    assert_true(ipu_executor_is_attached(x));
    OK(ipu_executor_detach(x));
    assert_false(ipu_executor_is_attached(x));
    assert_int_equal(ipu_executor_detach(x), IPU_INVALID);
    ipu_executor_destroy(x);
    weight(module, "hidden.weight", after, 15);
    assert_memory_not_equal(before, after, sizeof before);
    ipu_module_destroy(module);
    free_set(&s);
}

static void saved_weights_are_loaded_before_or_after_compiling(void **state)
{
    (void)state;
    char path[] = "/tmp/ipu-executor-test-XXXXXX";
    int  fd     = mkstemp(path);
    assert_true(fd >= 0);
    ipu_module   *module = module_of(forward), *other = module_of(forward), *wrong = module_of(count);
    ipu_executor *x, *y, *z;
    set           s = samples(8, 5);
    OK(ipu_training_model(module, NULL, NULL, &x));
    assert_int_equal(ipu_module_save(module, path), IPU_INVALID);
    for (int i = 0; i < 3; i++) OK(ipu_executor_run(x, s.arrays, 2));
    OK(ipu_module_save(module, path));
    OK(ipu_inference_model(module, NULL, &z));
    OK(ipu_executor_run(z, s.arrays, 1));
    float expected[8 * CLASSES];
    memcpy(expected, ipu_executor_output(z, "scores")->data, sizeof expected);

    OK(ipu_module_load(other, path));
    OK(ipu_inference_model(other, NULL, &y));
    OK(ipu_executor_run(y, s.arrays, 1));
    assert_memory_equal(ipu_executor_output(y, "scores")->data, expected, sizeof expected);
    for (int i = 0; i < 3; i++) OK(ipu_executor_run(x, s.arrays, 2));
    OK(ipu_module_load(module, path));
    OK(ipu_executor_run(z, s.arrays, 1));
    assert_memory_equal(ipu_executor_output(z, "scores")->data, expected, sizeof expected);

    OK(ipu_module_load(wrong, path));
    ipu_executor *never;
    OK(ipu_inference_model(wrong, NULL, &never));
    assert_int_equal(ipu_executor_run(never, s.arrays, 1), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"hidden.weight\" is not of the network"));
    /* The network is as if it had never been tried: what is of it can still be loaded. */
    const ipu_array *one;
    OK(ipu_module_weight(wrong, "hidden.weight", &one));
    assert_int_equal(ipu_module_n_weights(wrong), ipu_module_n_weights(module));
    ipu_executor *all[] = {x, y, z, never};
    for (size_t i = 0; i < 4; i++) ipu_executor_destroy(all[i]);
    ipu_module_destroy(module);
    ipu_module_destroy(other);
    ipu_module_destroy(wrong);
    remove(path);
    free_set(&s);
}

/* ---- states ---- */

static void with_dropout(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_dropout(m, ipu_relu(b, ipu_nn_linear(m, in[0], 16, "hidden")), 0.5);
    x           = ipu_nn_batch_norm(m, x, "norm");
    x           = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "out"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

static void assert_same_state(const ipu_npz *a, const ipu_npz *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->arrays[i].name, b->arrays[i].name);
        if (memcmp(a->arrays[i].array.data, b->arrays[i].array.data, ipu_array_bytes(&a->arrays[i].array))
            != 0)
            fail_msg("\"%s\" differs", a->arrays[i].name);
    }
}

static void a_state_resumes_bit_for_bit(void **state)
{
    (void)state;
    const ipu_executor_options ways[] = {{.seed = 7},
                                         {.device_iterations = 2, .gradient_accumulation = 2, .seed = 7},
                                         {.replicas = 2, .seed = 7}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        ipu_nn_training how = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}};
        set             s   = samples(16, 9);
        ipu_npz         half, whole, resumed;
        ipu_module     *module = module_of(with_dropout);
        ipu_executor   *x;
        OK(ipu_training_model(module, &ways[k], &how, &x));
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        OK(ipu_executor_get_state(x, &half));
        OK(ipu_executor_set_rate(x, 0, 0.02));
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        OK(ipu_executor_get_state(x, &whole));
        ipu_executor_destroy(x);
        ipu_module_destroy(module);

        module = module_of(with_dropout);
        ipu_module_set_seed(module, 1234);
        OK(ipu_training_model(module, &ways[k], &how, &x));
        if (k == 1) OK(ipu_executor_run(x, s.arrays, 2)); /* set before it is compiled, and after */
        OK(ipu_executor_set_state(x, &half));
        OK(ipu_executor_compile(x, s.arrays, 2));
        OK(ipu_executor_set_rate(x, 0, 0.02));
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        OK(ipu_executor_get_state(x, &resumed));
        assert_same_state(&whole, &resumed);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);

        module = module_of(forward);
        OK(ipu_training_model(module, NULL, &how, &x));
        OK(ipu_executor_compile(x, s.arrays, 2));
        assert_int_equal(ipu_executor_set_state(x, &half), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), "\"hidden.weight\" is of another type or shape"));
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
        ipu_npz_free(&half);
        ipu_npz_free(&whole);
        ipu_npz_free(&resumed);
        free_set(&s);
    }
}

/* The state after `n` runs, from `begin` on or, if that is NULL, from the beginning. */
static void after_runs(ipu_forward_fn fn, const ipu_nn_training *how, set *s, int n, const ipu_npz *begin,
                       ipu_npz *out)
{
    const ipu_executor_options options = {.seed = 7};
    ipu_module                *module  = module_of(fn);
    ipu_executor              *x;
    OK(ipu_training_model(module, &options, how, &x));
    if (begin) OK(ipu_executor_set_state(x, begin));
    for (int i = 0; i < n; i++) OK(ipu_executor_run(x, s->arrays, 2));
    OK(ipu_executor_get_state(x, out));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* Set before there is an engine, and found not to fit when there is to be one. */
static void a_state_that_does_not_fit_fails_each_run(void **state)
{
    (void)state;
    const ipu_attach_when when[] = {IPU_ATTACH_ALWAYS, IPU_ATTACH_ON_DEMAND};
    const ipu_nn_training how    = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}};
    set                   s      = samples(16, 9);
    ipu_npz               right, wrong, found, none = {0};
    after_runs(forward, &how, &s, 5, NULL, &right);
    after_runs(with_dropout, &how, &s, 1, NULL, &wrong);
    for (size_t k = 0; k < sizeof when / sizeof *when; k++) {
        const ipu_executor_options options = {.attach = when[k], .seed = 7};
        ipu_module                *module  = module_of(forward);
        ipu_executor              *x;
        OK(ipu_training_model(module, &options, &how, &x));
        OK(ipu_executor_set_state(x, &wrong));
        for (int again = 0; again < 3; again++) {
            assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_INVALID);
            assert_non_null(strstr(ipu_message(), "the state is not of this model and optimizer"));
            assert_int_equal(ipu_executor_get_state(x, &found), IPU_INVALID); /* nothing half made */
            assert_false(ipu_executor_is_attached(x));
        }
        OK(ipu_executor_set_state(x, &right));
        OK(ipu_executor_run(x, s.arrays, 2));
        assert_true(ipu_executor_is_attached(x));
        OK(ipu_executor_get_state(x, &found));
        ipu_npz expected;
        after_runs(forward, &how, &s, 1, &right, &expected);
        assert_same_state(&expected, &found);
        ipu_npz_free(&expected);
        ipu_npz_free(&found);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    /* One of no arrays is none: it begins as if nothing had been set. */
    const ipu_executor_options later  = {.attach = IPU_ATTACH_ON_DEMAND, .seed = 7};
    ipu_module                *module = module_of(forward);
    ipu_executor              *x;
    OK(ipu_training_model(module, &later, &how, &x));
    OK(ipu_executor_set_state(x, &wrong));
    assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_INVALID);
    OK(ipu_executor_set_state(x, &none));
    OK(ipu_executor_set_rate(x, 0, 0.01));
    for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
    OK(ipu_executor_get_state(x, &found));
    assert_same_state(&right, &found);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_npz_free(&found);
    ipu_npz_free(&right);
    ipu_npz_free(&wrong);
    free_set(&s);
}

static void replicas_drop_different_elements(void **state)
{
    (void)state;
    ipu_module   *module = module_of(with_dropout);
    ipu_executor *x;
    set           s = samples(8, 9);
    memcpy((float *)s.arrays[0].data + 12, s.arrays[0].data,
           12 * sizeof(float)); /* both see the same samples */
    memcpy((int32_t *)s.arrays[1].data + 4, s.arrays[1].data, 4 * sizeof(int32_t));
    OK(ipu_training_model(module, &(ipu_executor_options){.replicas = 2}, NULL, &x));
    OK(ipu_executor_run(x, s.arrays, 2));
    const float *loss = ipu_executor_output(x, "loss")->data;
    assert_true(loss[0] != loss[1]);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_set(&s);
}

static void *interrupt_soon(void *x)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    ipu_executor_interrupt(x);
    return NULL;
}

/* Gradients of a step that was stopped are not of the next one. */
static void a_stopped_run_leaves_no_gradients_behind(void **state)
{
    (void)state;
    enum { BATCHES = 20000 };
    ipu_module          *module  = module_of(forward);
    ipu_executor_options options = {.gradient_accumulation = BATCHES, .running_mean = true};
    ipu_executor        *x;
    ipu_status           status = IPU_OK;
    set                  s      = samples(BATCHES, 9);
    float                sums[15];
    int32_t              count;
    OK(ipu_training_model(module, &options, NULL, &x));
    OK(ipu_executor_compile(x, s.arrays, 2));
    for (int i = 0; i < 20 && status == IPU_OK; i++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, x), 0);
        status = ipu_executor_run(x, s.arrays, 2);
        pthread_join(thread, NULL);
    }
    assert_int_equal(status, IPU_INTERRUPTED);
    OK(ipu_engine_read(ipu_executor_engine(x), "hidden.weight.gradient", sums, sizeof sums));
    OK(ipu_engine_read(ipu_executor_engine(x), "gradient_count", &count, sizeof count));
    for (int i = 0; i < 15; i++) assert_true(sums[i] == 0);
    assert_int_equal(count, 0);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_set(&s);
}

/* ---- optimizers ---- */

/* An optimizer that does not compile costs nothing of what the one before has gathered. */
static void states_survive_an_optimizer_that_is_refused(void **state)
{
    (void)state;
    const ipu_nn_group    wrong[] = {{"nothing.*", {.rate = 0.1}, false}};
    const ipu_nn_training good    = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}};
    set                   s       = samples(16, 11);
    float                 found[2][15];
    for (int k = 0; k < 2; k++) {
        ipu_module   *module = module_of(forward);
        ipu_executor *x;
        OK(ipu_training_model(module, NULL, &good, &x));
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        if (k) {
            OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.groups = wrong, .n_groups = 1}));
            for (int i = 0; i < 2; i++) assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_NOT_FOUND);
            OK(ipu_executor_set_optimizer(x, &good));
        }
        for (int i = 0; i < 5; i++) OK(ipu_executor_run(x, s.arrays, 2));
        weight(module, "hidden.weight", found[k], 15);
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    free_set(&s);
}

static void rates_change_without_compiling_and_optimizers_with_it(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    set           s = samples(16, 11);
    float         before[15], after[15];
    OK(ipu_training_model(module, NULL, &(ipu_nn_training){.optimizer = {.rate = 0.1}}, &x));
    OK(ipu_executor_run(x, s.arrays, 2));
    const ipu_executable *exe = ipu_executor_executable(x);
    OK(ipu_executor_set_rate(x, 0, 0));
    weight(module, "hidden.weight", before, 15);
    OK(ipu_executor_run(x, s.arrays, 2));
    weight(module, "hidden.weight", after, 15);
    assert_memory_equal(before, after, sizeof before);
    assert_ptr_equal(ipu_executor_executable(x), exe);
    OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.optimizer = {.rate = 0.2}}));
    OK(ipu_executor_run(x, s.arrays, 2));
    assert_ptr_equal(ipu_executor_executable(x), exe);
    OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}}));
    weight(module, "hidden.weight", before, 15);
    OK(ipu_executor_run(x, s.arrays, 2));
    weight(module, "hidden.weight", after, 15);
    for (int i = 0; i < 15; i++)
        assert_true(fabsf(fabsf(after[i] - before[i]) - 0.01f) < 1e-3f); /* Adam's first step */
    ipu_nn_optimizer decays = {.kind = IPU_NN_ADAM, .rate = 0.01, .weight_decay = 50};
    OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.optimizer = decays}));
    OK(ipu_executor_run(x, s.arrays, 2));
    weight(module, "hidden.weight", before, 15);
    decays.decay = IPU_DECAY_DECOUPLED;
    OK(ipu_executor_set_optimizer(x, &(ipu_nn_training){.optimizer = decays}));
    OK(ipu_executor_run(x, s.arrays, 2));
    weight(module, "hidden.weight", after, 15);
    for (int i = 0; i < 15; i++) /* half of the weight and a step, which is about the rate */
        assert_true(fabsf(after[i] - before[i] / 2) < 0.03f);
    assert_int_equal(ipu_executor_set_rate(x, 1, 0.1), IPU_INVALID);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_set(&s);
}

/* Of each batch, in order: none begins before the run, and an output is there after what it was made of. */
static void times_of_batches_are_noted(void **state)
{
    (void)state;
    static const ipu_output_mode modes[] = {IPU_OUTPUT_ALL, IPU_OUTPUT_FINAL, IPU_OUTPUT_SUM,
                                            IPU_OUTPUT_EVERY_N};
    static const size_t          n_out[] = {8, 2, 2, 4};
    set                          s       = samples(16, 1);
    for (int i = 0; i < 8; i++) {
        ipu_executor_options options = {.device_iterations = 4,
                                        .replicas          = 2,
                                        .output_mode       = modes[i / 2],
                                        .output_period     = 2,
                                        .no_fold           = i % 2};
        ipu_module          *module  = module_of(forward);
        ipu_executor        *x;
        size_t               n;
        OK(ipu_inference_model(module, &options, &x));
        OK(ipu_executor_run(x, s.arrays, 1));
        assert_null(ipu_executor_input_times(x, 0, &n));
        ipu_executor_keep_times(x, true);
        OK(ipu_executor_run(x, s.arrays, 1));
        const ipu_executor_time *in = ipu_executor_input_times(x, 0, &n);
        assert_int_equal(n, 8);
        for (size_t k = 0; k < n; k++)
            assert_true(in[k].begin >= in[0].begin && in[0].begin > 0 && in[k].end >= in[k].begin);
        const ipu_executor_time *out = ipu_executor_output_times(x, 0, &n);
        assert_int_equal(n, n_out[i / 2]);
        for (size_t k = 0; k < n; k++)
            assert_true(out[k].end >= out[k].begin && out[k].begin >= in[(k + 1) * 8 / n - 1].end);
        assert_null(ipu_executor_output_times(x, 1, &n));
        ipu_executor_keep_times(x, false);
        OK(ipu_executor_run(x, s.arrays, 1));
        assert_null(ipu_executor_input_times(x, 0, &n));
        ipu_executor_destroy(x);
        ipu_module_destroy(module);
    }
    free_set(&s);
}

static float run_linear(ipu_executor *x, set *s)
{
    OK(ipu_executor_run(x, s->arrays, 1));
    return *(const float *)ipu_executor_output(x, "scores")->data;
}

static void lent_weights_are_the_callers_memory(void **state)
{
    (void)state;
    ipu_module     *module = module_of(forward);
    ipu_executor   *train, *other;
    float           w[CLASSES] = {0.5F, 0, 0, 0}, elsewhere[CLASSES] = {0};
    const ipu_array lent = {IPU_FLOAT, IPU_SHAPE(CLASSES), w},
                    more = {IPU_FLOAT, IPU_SHAPE(CLASSES), elsewhere};
    const ipu_array *found;
    set              s = samples(8, 1);
    assert_int_equal(ipu_module_lend_weight(module, "out.bias", &lent), IPU_NOT_FOUND);
    OK(ipu_training_model(module, NULL, NULL, &train));
    OK(ipu_inference_model(module, NULL, &other));
    OK(ipu_executor_compile(train, s.arrays, 2));
    OK(ipu_module_lend_weight(module, "out.bias", &lent));
    OK(ipu_module_weight(module, "out.bias", &found));
    assert_ptr_equal(found->data, w);
    assert_true(w[0] == 0.5F);
    OK(ipu_executor_run(train, s.arrays, 2));
    assert_true(w[0] == 0.5F); /* not before it is asked for */
    OK(ipu_executor_copy_weights_to_host(train));
    assert_true(w[0] != 0.5F && w[1] != 0);
    /* What is changed there reaches all executors once one is told. */
    float before = run_linear(other, &s);
    w[0] += 1;
    assert_true(run_linear(other, &s) == before);
    OK(ipu_executor_copy_weights_to_device(train));
    assert_true(run_linear(other, &s) > before);
    /* Taken back, it is nobody's business any more. */
    OK(ipu_module_lend_weight(module, "out.bias", NULL));
    OK(ipu_executor_run(train, s.arrays, 2));
    float kept[CLASSES];
    memcpy(kept, w, sizeof kept);
    OK(ipu_module_weight(module, "out.bias", &found));
    assert_ptr_not_equal(found->data, w);
    assert_memory_equal(kept, w, sizeof kept);
    assert_true(((const float *)found->data)[1] != w[1]);
    OK(ipu_module_lend_weight(module, "out.bias", &lent));
    OK(ipu_module_lend_weight(module, "out.bias", &more));
    assert_int_equal(ipu_module_lend_weight(module, "hidden.bias", &lent), IPU_INVALID);
    ipu_executor_destroy(other);
    ipu_executor_destroy(train);
    ipu_module_destroy(module);
    free_set(&s);
}

/* ---- mistakes ---- */

static void mistakes_are_told(void **state)
{
    (void)state;
    ipu_module   *module = module_of(forward);
    ipu_executor *x;
    set           s = samples(9, 1);
    const struct {
        ipu_executor_options options;
        const char          *says;
    } rows[] = {
        {{.replicas = 3}, "power of two"},
        {{.device_iterations = -1}, "device_iterations: expected 1"},
        {{.replicas = 4, .input_group_size = 3}, "divides the 4 replicas"},
        {{.gradient_accumulation = 2}, "expected 1 for inference"},
        {{.output_mode = IPU_OUTPUT_EVERY_N, .device_iterations = 4, .output_period = 3},
         "divides the 4 batches"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ipu_inference_model(module, &rows[i].options, &x), IPU_INVALID);
        if (!strstr(ipu_message(), rows[i].says)) fail_msg("%s", ipu_message());
    }
    OK(ipu_training_model(module, &(ipu_executor_options){.device_iterations = 2}, NULL, &x));
    assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "Invalid batch dimension: input \"input0\" holds 9 samples"));
    s.arrays[0].shape.dim[0] = s.arrays[1].shape.dim[0] = 8;
    OK(ipu_executor_run(x, s.arrays, 2));
    s.arrays[0].shape.dim[0] = s.arrays[1].shape.dim[0] = 6;
    assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "Shape mismatch for input0"));
    assert_int_equal(ipu_executor_run(x, s.arrays, 1), IPU_INVALID);
    ipu_executor_destroy(x);
    OK(ipu_training_model(module, &(ipu_executor_options){.attach = IPU_ATTACH_NEVER}, NULL, &x));
    OK(ipu_executor_compile(x, s.arrays, 2));
    assert_int_equal(ipu_executor_run(x, s.arrays, 2), IPU_INVALID);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    module = module_of(count);
    OK(ipu_training_model(module, NULL, NULL, &x));
    assert_int_equal(ipu_executor_run(x, s.arrays, 1), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "there is no loss"));
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    free_set(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_iterations_are_runs),
        cmocka_unit_test(accumulation_and_replicas_are_larger_batches),
        cmocka_unit_test(accumulated_gradients_are_those_of_the_whole_batch),
        cmocka_unit_test(wide_types_are_taken_for_those_of_a_device),
        cmocka_unit_test(what_one_trains_another_runs),
        cmocka_unit_test(states_that_inference_changes_are_fetched),
        cmocka_unit_test(weights_outlive_the_executor_that_trained_them),
        cmocka_unit_test(saved_weights_are_loaded_before_or_after_compiling),
        cmocka_unit_test(a_state_resumes_bit_for_bit),
        cmocka_unit_test(a_state_that_does_not_fit_fails_each_run),
        cmocka_unit_test(replicas_drop_different_elements),
        cmocka_unit_test(a_stopped_run_leaves_no_gradients_behind),
        cmocka_unit_test(states_survive_an_optimizer_that_is_refused),
        cmocka_unit_test(rates_change_without_compiling_and_optimizers_with_it),
        cmocka_unit_test(times_of_batches_are_noted),
        cmocka_unit_test(lent_weights_are_the_callers_memory),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
