/* Optimizers divided among replicas and kept in streaming memory: the same numbers as whole ones on chip, bit
 * for bit except for norms; converting states between them; modelled memory and time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { FEATURES = 91, HIDDEN = 97, CLASSES = 5, MOST = 48 };

/* 91 x 97 is an odd number of weights, over 1024 for each of 8 replicas; the others are small and stay whole. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_tanh(b, ipu_nn_linear(m, in[0], HIDDEN, "hidden"));
    x           = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "out"), 1);
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

static float   pictures[MOST * FEATURES];
static int32_t labels[MOST];

static int fill(void **state)
{
    unsigned seed = 7;
    (void)state;
    for (size_t i = 0; i < MOST * FEATURES; i++) {
        seed        = seed * 1664525u + 1013904223u;
        pictures[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (size_t i = 0; i < MOST; i++) labels[i] = (int32_t)(i * 7 % CLASSES);
    return 0;
}

typedef struct trained {
    ipu_module   *module;
    ipu_executor *x;
} trained;

static trained begin(ipu_executor_options options, const ipu_nn_training *how)
{
    trained t;
    options.no_fold = true;
    OK(ipu_module_create(forward, NULL, &t.module));
    OK(ipu_training_model(t.module, &options, how, &t.x));
    return t;
}

static void step(trained *t, int n_steps, const ipu_executor_options *options)
{
    int64_t   n    = 2 * ipu_executor_options_n_batches(options);
    ipu_array in[] = {{IPU_FLOAT, IPU_SHAPE(n, FEATURES), pictures}, {IPU_INT32, IPU_SHAPE(n), labels}};
    assert_in_range(n, 1, MOST);
    for (int i = 0; i < n_steps; i++) OK(ipu_executor_run(t->x, in, 2));
}

static void end(trained *t)
{
    ipu_executor_destroy(t->x);
    ipu_module_destroy(t->module);
}

static ipu_npz state_of(trained *t)
{
    ipu_npz z;
    OK(ipu_executor_get_state(t->x, &z));
    return z;
}

/* Tolerance 0 means the same bits. */
static void assert_same_state(ipu_npz a, ipu_npz b, double tolerance, const char *what)
{
    assert_int_equal(a.n, b.n);
    for (size_t i = 0; i < a.n; i++) {
        const ipu_array *p = &a.arrays[i].array, *q = &b.arrays[i].array;
        assert_string_equal(a.arrays[i].name, b.arrays[i].name);
        assert_int_equal(p->shape.rank, q->shape.rank);
        assert_int_equal(ipu_array_bytes(p), ipu_array_bytes(q));
        if (tolerance == 0 && memcmp(p->data, q->data, ipu_array_bytes(p)) != 0)
            fail_msg("%s: \"%s\" differs", what, a.arrays[i].name);
        for (int64_t k = 0; tolerance > 0 && k < ipu_array_n_elements(p); k++) {
            double u = ipu_array_value(p, k), v = ipu_array_value(q, k);
            if (!(fabs(u - v) <= tolerance * (1 + fabs(u))))
                fail_msg("%s: \"%s\"[%lld]: %g and %g", what, a.arrays[i].name, (long long)k, u, v);
        }
    }
    ipu_npz_free(&a);
    ipu_npz_free(&b);
}

/* The same training with `changed` options; final states are equal. */
static void compare(ipu_executor_options options, ipu_executor_options changed, const ipu_nn_training *how,
                    double tolerance, const char *what)
{
    trained a = begin(options, how), b = begin(changed, how);
    step(&a, 3, &options);
    step(&b, 3, &changed);
    assert_same_state(state_of(&a), state_of(&b), tolerance, what);
    end(&a);
    end(&b);
}

static const struct {
    const char      *name;
    ipu_nn_optimizer how;
    double           tolerance; /* for optimizers that need norms */
} optimizers[] = {
    {"sgd", {.rate = 0.1}, 0},
    {"momentum", {.rate = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .dampening = 0.5}, 0},
    {"adam", {.kind = IPU_NN_ADAM, .rate = 0.01, .weight_decay = 1e-3}, 0},
    {"amsgrad", {.kind = IPU_NN_ADAM, .rate = 0.01, .amsgrad = true}, 0},
    {"adamw", {.kind = IPU_NN_ADAMW, .rate = 0.01, .weight_decay = 1e-2}, 0},
    {"adamax", {.kind = IPU_NN_ADAMAX, .rate = 0.01}, 0},
    {"rmsprop", {.kind = IPU_NN_RMSPROP, .rate = 0.01, .momentum = 0.5, .centered = true}, 0},
    {"adagrad", {.kind = IPU_NN_ADAGRAD, .rate = 0.01}, 0},
    {"lamb", {.kind = IPU_NN_LAMB, .rate = 0.01, .weight_decay = 1e-2}, 2e-6},
    {"adadelta", {.kind = IPU_NN_ADADELTA, .rate = 1, .weight_decay = 1e-3}, 0},
    {"decoupled", {.rate = 0.1, .momentum = 0.9, .weight_decay = 1e-2, .decay = IPU_DECAY_DECOUPLED}, 0},
};

enum { N_OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static void parts_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    const ipu_executor_options ways[] = {{.replicas = 2, .gradient_accumulation = 3},
                                         {.replicas = 4, .device_iterations = 2},
                                         {.replicas = 8, .gradient_accumulation = 2},
                                         {.replicas = 8, .reduction = IPU_REDUCTION_SUM},
                                         {.replicas = 4, .gradient_accumulation = 2, .running_mean = true}};
    for (size_t k = 0; k < N_OPTIMIZERS; k++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            ipu_executor_options sharded = ways[i];
            sharded.shard_optimizer      = true;
            compare(ways[i], sharded, &(ipu_nn_training){.optimizer = optimizers[k].how},
                    optimizers[k].tolerance, optimizers[k].name);
        }
}

static void streaming_memory_gives_the_bits_of_tiles(void **state)
{
    (void)state;
    const ipu_executor_options ways[] = {{.gradient_accumulation = 3},
                                         {.replicas = 2, .gradient_accumulation = 2, .device_iterations = 2},
                                         {.replicas = 4, .shard_optimizer = true}};
    for (size_t k = 0; k < N_OPTIMIZERS; k++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            ipu_executor_options away = ways[i];
            away.optimizer_off_chip   = true;
            compare(ways[i], away, &(ipu_nn_training){.optimizer = optimizers[k].how}, 0, optimizers[k].name);
        }
}

/* Without accumulation and replicas the step is now a separate model. */
static void streaming_memory_works_for_one_batch(void **state)
{
    (void)state;
    ipu_nn_training how = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}, .max_gradient_norm = 0.5};
    compare((ipu_executor_options){0}, (ipu_executor_options){.optimizer_off_chip = true}, &how, 1e-6,
            "one batch");
}

static void norms_are_those_of_all_parts(void **state)
{
    (void)state;
    const ipu_executor_options whole = {.replicas = 4}, parts = {.replicas = 4, .shard_optimizer = true};
    /* small enough to clip every step */
    ipu_nn_training how = {.optimizer = {.rate = 0.5}, .max_gradient_norm = 1e-3};
    compare(whole, parts, &how, 1e-6, "clipped by norm");
    trained a = begin(whole, &how), b = begin(whole, &(ipu_nn_training){.optimizer = {.rate = 0.5}});
    step(&a, 1, &whole);
    step(&b, 1, &whole);
    const ipu_array *p, *q;
    OK(ipu_module_weight(a.module, "hidden.weight", &p));
    OK(ipu_module_weight(b.module, "hidden.weight", &q));
    assert_true(memcmp(p->data, q->data, ipu_array_bytes(p)) != 0);
    end(&a);
    end(&b);
}

static void groups_and_clipped_elements_are_divided_too(void **state)
{
    (void)state;
    const ipu_nn_group groups[] = {{"*.bias", {.kind = IPU_NN_ADAM, .rate = 0.01}, false},
                                   {"out.*", {0}, true}};
    ipu_nn_training    how      = {.optimizer    = {.rate = 0.1, .momentum = 0.9},
                                   .groups       = groups,
                                   .n_groups     = 2,
                                   .max_gradient = 1e-3,
                                   .loss_scale   = 128};
    compare((ipu_executor_options){.replicas = 4},
            (ipu_executor_options){.replicas = 4, .shard_optimizer = true}, &how, 0, "groups");
}

static void stages_have_parts_too(void **state)
{
    (void)state;
    const ipu_nn_training      how   = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}};
    const ipu_executor_options whole = {.replicas = 2, .stages = 2, .gradient_accumulation = 4};
    ipu_executor_options       parts = whole;
    parts.shard_optimizer            = true;
    compare(whole, parts, &how, 0, "stages");
    parts.optimizer_off_chip = parts.activations_off_chip = true;
    compare(whole, parts, &how, 0, "stages off chip");
}

/* Each weight's gradient is one number of the input. */
static void product(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    (void)user;
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4096), NULL, "w");
    ipu_nn_loss(m, ipu_reduce_mean(b, ipu_mul(b, in[0], w), NULL, 0, false), "loss");
}

/* An overflow in the first replica's part only stops the step of all. */
static void overflow_in_one_part_is_seen_by_all(void **state)
{
    (void)state;
    static float               numbers[4 * 4096];
    const ipu_executor_options parts = {.replicas = 4, .no_fold = true, .shard_optimizer = true};
    const ipu_nn_training      how   = {
               .optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}, .loss_scale = 1024, .loss_scale_period = 100};
    ipu_array in = {IPU_FLOAT, IPU_SHAPE(4, 4096), numbers};
    trained   t;
    for (size_t i = 0; i < 4 * 4096; i++) numbers[i] = 1;
    numbers[3 * 4096 + 5] = INFINITY;
    OK(ipu_module_create(product, NULL, &t.module));
    OK(ipu_training_model(t.module, &parts, &how, &t.x));
    OK(ipu_executor_run(t.x, &in, 1));
    ipu_npz z = state_of(&t);
    for (size_t i = 0; i < z.n; i++) {
        const ipu_array *a = &z.arrays[i].array;
        if (strcmp(z.arrays[i].name, "loss_scale") == 0) assert_true(ipu_array_value(a, 0) == 512);
        if (z.arrays[i].name[0] == 'w') /* and its states */
            for (int64_t k = 0; k < 4096; k++) assert_true(ipu_array_value(a, k) == 0);
    }
    ipu_npz_free(&z);
    end(&t);
}

/* 2 x 1025 x 1025 weights are exchanged in two chunks. */
static void large(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    (void)user;
    ipu_value x = ipu_nn_linear(m, in[0], 1025, "first");
    x           = ipu_nn_linear(m, ipu_nn_linear(m, x, 1025, "second"), 1025, "third");
    ipu_nn_loss(m, ipu_reduce_mean(b, ipu_mul(b, x, x), NULL, 0, false), "loss");
}

static void large_parameters_go_in_chunks(void **state)
{
    (void)state;
    const ipu_nn_training how = {.optimizer = {.rate = 0.1, .momentum = 0.9}};
    ipu_array             in  = {IPU_FLOAT, IPU_SHAPE(4, FEATURES), pictures};
    ipu_npz               found[2];
    for (int k = 0; k < 2; k++) {
        ipu_executor_options options = {.replicas = 4, .no_fold = true, .shard_optimizer = k == 1};
        trained              t;
        OK(ipu_module_create(large, NULL, &t.module));
        OK(ipu_training_model(t.module, &options, &how, &t.x));
        for (int i = 0; i < 2; i++) OK(ipu_executor_run(t.x, &in, 1));
        found[k] = state_of(&t);
        end(&t);
    }
    assert_same_state(found[0], found[1], 0, "large");
}

/* ---- states ---- */

static void states_go_from_any_to_any(void **state)
{
    (void)state;
    const ipu_nn_training      how    = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}};
    const ipu_executor_options ways[] = {
        {.replicas = 4},
        {.replicas = 4, .shard_optimizer = true},
        {.replicas = 4, .optimizer_off_chip = true},
        {.replicas = 4, .shard_optimizer = true, .optimizer_off_chip = true},
    };
    enum { N = sizeof ways / sizeof *ways };
    trained all = begin(ways[0], &how);
    step(&all, 4, &ways[0]);
    for (size_t from = 0; from < N; from++)
        for (size_t to = 0; to < N; to++) {
            trained a = begin(ways[from], &how), b = begin(ways[to], &how);
            step(&a, 2, &ways[from]);
            ipu_npz z = state_of(&a);
            OK(ipu_executor_set_state(b.x, &z));
            step(&b, 2, &ways[to]);
            assert_same_state(state_of(&all), state_of(&b), 0, "resumed");
            ipu_npz_free(&z);
            end(&a);
            end(&b);
        }
    end(&all);
}

static void weights_that_are_set_reach_all_parts(void **state)
{
    (void)state;
    const ipu_nn_training how        = {.optimizer = {.rate = 0.1, .momentum = 0.9}};
    ipu_executor_options  options[2] = {{.replicas = 2}, {.replicas = 2, .shard_optimizer = true}};
    ipu_npz               found[2];
    for (int k = 0; k < 2; k++) {
        static float twos[FEATURES * HIDDEN];
        for (size_t i = 0; i < FEATURES * HIDDEN; i++) twos[i] = (float)(i % 3) * 0.1f;
        trained t = begin(options[k], &how);
        step(&t, 1, &options[k]);
        const ipu_array *w;
        OK(ipu_module_weight(t.module, "hidden.weight", &w));
        ipu_array mine = {IPU_FLOAT, w->shape, twos};
        OK(ipu_module_set_weight(t.module, "hidden.weight", &mine));
        step(&t, 2, &options[k]);
        found[k] = state_of(&t);
        end(&t);
    }
    assert_same_state(found[0], found[1], 0, "weights");
}

/* ---- modelled cost ---- */

enum { WIDE = 1024 };

static void wide(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n;
    (void)user;
    ipu_value x = ipu_relu(b, ipu_nn_linear(m, in[0], WIDE, "first"));
    x           = ipu_nn_linear(m, x, WIDE, "second");
    ipu_nn_loss(m, ipu_reduce_mean(b, ipu_mul(b, x, x), NULL, 0, false), "loss");
}

typedef struct price {
    int64_t most, always; /* bytes: on the fullest tile; on all tiles, permanently */
    int64_t cycles, host;
} price;

static price price_of(ipu_executor_options options)
{
    ipu_module      *module;
    ipu_executor    *x;
    ipu_cost        *cost;
    ipu_cost_summary all;
    options.attach = IPU_ATTACH_NEVER;
    int64_t   n    = ipu_executor_options_n_batches(&options);
    ipu_array in   = {.type = IPU_FLOAT, .shape = IPU_SHAPE(n, WIDE)};
    OK(ipu_module_create(wide, NULL, &module));
    OK(ipu_training_model(module, &options,
                          &(ipu_nn_training){.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}}, &x));
    OK(ipu_executor_compile(x, &in, 1));
    OK(ipu_executor_cost(x, NULL, &cost));
    ipu_cost_get_summary(cost, &all);
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return (price){all.memory_most, all.memory[IPU_MEMORY_ALWAYS_LIVE], all.cycles.total, all.cycles.host};
}

static void modelled_memory_shrinks(void **state)
{
    (void)state;
    enum { STATES = 2 * 2 * WIDE * WIDE * 4 }; /* two floats for each of two matrices' weights */
    price whole = price_of((ipu_executor_options){.replicas = 8}),
          parts = price_of((ipu_executor_options){.replicas = 8, .shard_optimizer = true}),
          away  = price_of((ipu_executor_options){.replicas = 8, .optimizer_off_chip = true}),
          both  = price_of(
               (ipu_executor_options){.replicas = 8, .shard_optimizer = true, .optimizer_off_chip = true});
    /* an eighth of the states; biases' states are not divided */
    assert_true(whole.always - parts.always > 0.98 * STATES * 7 / 8);
    assert_true(whole.always - away.always > STATES * 0.99);
    assert_true(whole.always - both.always > STATES * 0.99);
    assert_true(parts.most < whole.most && both.most < parts.most);
    /* Reading and writing take time, less for a part. */
    assert_true(away.host > both.host && both.host > parts.host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_give_the_bits_of_the_whole),
        cmocka_unit_test(streaming_memory_gives_the_bits_of_tiles),
        cmocka_unit_test(streaming_memory_works_for_one_batch),
        cmocka_unit_test(norms_are_those_of_all_parts),
        cmocka_unit_test(groups_and_clipped_elements_are_divided_too),
        cmocka_unit_test(stages_have_parts_too),
        cmocka_unit_test(overflow_in_one_part_is_seen_by_all),
        cmocka_unit_test(large_parameters_go_in_chunks),
        cmocka_unit_test(states_go_from_any_to_any),
        cmocka_unit_test(weights_that_are_set_reach_all_parts),
        cmocka_unit_test(modelled_memory_shrinks),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
