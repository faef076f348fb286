/* Pipelines: every schedule gives bit for bit the numbers of one IPU with the same accumulation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { WIDTH = 6, BATCH = 3 };

/* The network's contents, and whether it names its stages. */
typedef struct network {
    int  n_layers, n_stages; /* stages: 0 if none are named */
    bool dropout, batch_norm, skip, tied;
    bool late; /* the input is used again at the end, and there is a loop in the middle */
    bool
        hollow; /* with stages between them of which nothing is left: constants, unused ops, nothing at all */
} network;

static ipu_value layer(ipu_model *m, const network *net, ipu_value x, ipu_value shared, int i)
{
    ipu_builder *b = ipu_model_builder(m);
    char         name[32];
    snprintf(name, sizeof name, "fc%d", i);
    if (net->tied && (i == 0 || i == net->n_layers - 1))
        x = ipu_matmul(b, x, shared);
    else
        x = ipu_nn_linear(m, x, WIDTH, name);
    snprintf(name, sizeof name, "norm%d", i);
    if (net->batch_norm) x = ipu_nn_batch_norm(m, x, name);
    x = ipu_tanh(b, x);
    return net->dropout ? ipu_nn_dropout(m, x, 0.25) : x;
}

/* Three turns, whose carried values the gradient needs. */
static ipu_value looped(ipu_model *m, ipu_value x)
{
    ipu_value inside, index, after;
    ipu_model_loop(m, 3, IPU_NO_VALUE, &x, 1, &inside, &index);
    inside = ipu_tanh(ipu_model_builder(m), ipu_add(ipu_model_builder(m), inside, x));
    ipu_model_yield(m, &inside, 1);
    ipu_model_end(m, &after, 1);
    return after;
}

/* A stage whose ops do nothing in a run: x times a constant 1, and an unused op. */
static ipu_value begin_hollow(ipu_model *m, const char *name, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_model_stage(m, name);
    ipu_tanh(b, x);
    return ipu_exp(b, ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(WIDTH), 0));
}

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const network *net = user;
    ipu_builder   *b   = ipu_model_builder(m);
    ipu_value      x = in[0], first = in[0], shared = {0}, ones = {0};
    if (net->tied) {
        shared = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(WIDTH, WIDTH), NULL, "shared");
        ipu_model_set_initial(m, shared, (ipu_initial){IPU_INITIAL_UNIFORM, -0.5, 0.5});
    }
    if (net->hollow && net->n_stages) ones = begin_hollow(m, "front", x);
    for (int i = 0; i < net->n_layers; i++) {
        char name[32];
        if (net->hollow && net->n_stages && i == net->n_layers / 2) begin_hollow(m, "middle", x);
        snprintf(name, sizeof name, "s%d", i * net->n_stages / net->n_layers);
        if (net->n_stages) ipu_model_stage(m, name);
        if (net->skip && i == net->n_layers - 1) x = ipu_add(b, x, first);
        if (net->late && i == net->n_layers - 1) x = ipu_add(b, x, in[0]);
        if (net->late && i == net->n_layers / 2) x = looped(m, x);
        x = layer(m, net, x, shared, i);
        if (i == 0) first = x;
        if (i == 0 && ones.id) x = ipu_mul(b, x, ones);
    }
    ipu_model_output(m, x, "y");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_mse_loss(b, x, in[1], IPU_LOSS_MEAN), "loss");
}

static void fill(ipu_array *a, unsigned seed)
{
    float *at = a->data;
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) {
        seed  = seed * 1664525u + 1013904223u;
        at[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
}

/* The results of three runs: the outputs of the last, and all states. */
typedef struct result {
    ipu_npz   state;
    ipu_array outputs[2];
    size_t    n_outputs;
} result;

static ipu_options *threads(const char *n)
{
    ipu_options *o;
    OK(ipu_options_create(&o));
    OK(ipu_options_set(o, "threads", n));
    return o;
}

static void keep_outputs(ipu_executor *x, result *out)
{
    out->n_outputs = ipu_executor_n_outputs(x);
    for (size_t i = 0; i < out->n_outputs; i++) {
        const ipu_array *a = ipu_executor_output_at(x, i, NULL);
        OK(ipu_array_create(a->type, a->shape, &out->outputs[i]));
        memcpy(out->outputs[i].data, a->data, ipu_array_bytes(a));
    }
}

static result run(network net, ipu_executor_options options, bool training, const char *n_threads)
{
    ipu_module           *module;
    ipu_executor         *x;
    result                r   = {0};
    ipu_options          *own = threads(n_threads);
    const ipu_nn_training how = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.05}};
    options.engine            = own;
    OK(ipu_module_create(forward, &net, &module));
    if (training)
        OK(ipu_training_model(module, &options, &how, &x));
    else
        OK(ipu_inference_model(module, &options, &x));
    int64_t   n = BATCH * ipu_executor_options_n_batches(&options);
    ipu_array in[2];
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, WIDTH), &in[0]));
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, WIDTH), &in[1]));
    for (unsigned i = 0; i < 3; i++) {
        fill(&in[0], i), fill(&in[1], i + 10);
        OK(ipu_executor_run(x, in, training ? 2 : 1));
    }
    OK(ipu_executor_get_state(x, &r.state));
    keep_outputs(x, &r);
    ipu_array_free(&in[0]);
    ipu_array_free(&in[1]);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_options_destroy(own);
    return r;
}

static void free_result(result *r)
{
    ipu_npz_free(&r->state);
    for (size_t i = 0; i < r->n_outputs; i++) ipu_array_free(&r->outputs[i]);
}

static void expect_same(const ipu_array *a, const ipu_array *b, const char *what, double tolerance)
{
    assert_int_equal(ipu_array_bytes(a), ipu_array_bytes(b));
    if (tolerance == 0 && memcmp(a->data, b->data, ipu_array_bytes(a)) == 0) return;
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) {
        double x = ipu_array_value(a, i), y = ipu_array_value(b, i);
        if (!(fabs(x - y) <= tolerance * fabs(x)))
            fail_msg("%s: element %d: %.9g on one IPU, %.9g", what, (int)i, x, y);
    }
}

static void expect_equal(const result *one, const result *other, double tolerance)
{
    assert_int_equal(one->state.n, other->state.n);
    for (size_t i = 0; i < one->state.n; i++) {
        size_t k = 0;
        while (k < other->state.n && strcmp(other->state.arrays[k].name, one->state.arrays[i].name) != 0) k++;
        assert_true(k < other->state.n);
        expect_same(&one->state.arrays[i].array, &other->state.arrays[k].array, one->state.arrays[i].name,
                    tolerance);
    }
    assert_int_equal(one->n_outputs, other->n_outputs);
    for (size_t i = 0; i < one->n_outputs; i++)
        expect_same(&one->outputs[i], &other->outputs[i], "output", tolerance);
}

static const ipu_pipeline_schedule schedules[] = {IPU_PIPELINE_GROUPED, IPU_PIPELINE_INTERLEAVED,
                                                  IPU_PIPELINE_SEQUENTIAL};

/* All schedules, with activations kept, recomputed and off chip, against `one`. */
static void compare_with(result *one, network net, ipu_executor_options options, bool training,
                         const char *n_threads, double tolerance)
{
    for (int i = 0; i < 3; i++)
        for (int way = 0; way < (training ? 4 : 1); way++) {
            options.schedule             = schedules[i];
            options.recompute            = way & 1;
            options.activations_off_chip = way & 2;
            result other                 = run(net, options, training, n_threads);
            expect_equal(one, &other, tolerance);
            free_result(&other);
        }
    free_result(one);
}

/* Against a network without stages. */
static void compare(network net, ipu_executor_options options, bool training, const char *n_threads,
                    double tolerance)
{
    network              plain = net;
    ipu_executor_options base  = options;
    plain.n_stages = 0, base.stages = 0, base.n_stage_ipus = 0, base.no_fold = true;
    result one = run(plain, base, training, n_threads);
    compare_with(&one, net, options, training, n_threads, tolerance);
}

/* Against the same stages in sequence on one IPU: in half, a value has a cast in each stage that uses it. */
static void compare_stages(network net, ipu_executor_options options)
{
    const int64_t        all[4] = {0};
    ipu_executor_options base   = options;
    base.stage_ipus = all, base.n_stage_ipus = (size_t)(options.stages ? options.stages : net.n_stages);
    base.schedule = IPU_PIPELINE_SEQUENTIAL;
    result one    = run(net, base, true, "1");
    compare_with(&one, net, options, true, "1", 0);
}

static void stages_are_one_ipu_bit_for_bit(void **state)
{
    (void)state;
    const ipu_executor_options o = {.gradient_accumulation = 8, .output_mode = IPU_OUTPUT_ALL};
    compare((network){.n_layers = 4, .n_stages = 2}, o, true, "1", 0);
    compare((network){.n_layers = 4, .n_stages = 4}, o, true, "1", 0);
}

static void stages_one_after_another_need_no_second_batch(void **state)
{
    (void)state;
    const network net   = {.n_layers = 4, .n_stages = 2, .dropout = true, .skip = true};
    network       plain = net;
    plain.n_stages      = 0;
    result one          = run(plain, (ipu_executor_options){0}, true, "1");
    result other        = run(net, (ipu_executor_options){.schedule = IPU_PIPELINE_SEQUENTIAL}, true, "1");
    expect_equal(&one, &other, 0);
    free_result(&one);
    free_result(&other);
}

static void several_stages_share_an_ipu(void **state)
{
    (void)state;
    const int64_t        three[] = {0, 1, 0}, four[] = {0, 1, 1, 0};
    ipu_executor_options o = {.gradient_accumulation = 7, .output_mode = IPU_OUTPUT_ALL};
    o.stage_ipus = three, o.n_stage_ipus = 3;
    compare((network){.n_layers = 5, .n_stages = 3, .skip = true}, o, true, "1", 0);
    o.stage_ipus = four, o.n_stage_ipus = 4;
    compare((network){.n_layers = 5, .n_stages = 4, .skip = true}, o, true, "1", 0);
}

static void stages_of_nothing_are_left_out(void **state)
{
    (void)state;
    const int64_t        ipus[] = {2, 0, 3, 1}, two[] = {0, 0, 1, 1};
    const network        net = {.n_layers = 4, .n_stages = 2, .hollow = true};
    ipu_executor_options o   = {.output_mode = IPU_OUTPUT_ALL, .n_stage_ipus = 4};
    o.gradient_accumulation  = 3; /* as required by a pipeline of two stages */
    o.stage_ipus             = ipus;
    compare(net, o, true, "1", 0);
    o.stage_ipus = two;
    compare(net, o, true, "1", 0);
    o.gradient_accumulation = 1, o.device_iterations = 2;
    compare(net, o, false, "1", 0);
}

static void ipus_of_three_stages_are_rounded_up(void **state)
{
    (void)state;
    ipu_executor_options o = {
        .gradient_accumulation = 7, .round_ipus = true, .output_mode = IPU_OUTPUT_ALL, .replicas = 2};
    compare((network){.n_layers = 5, .n_stages = 3, .skip = true}, o, true, "1", 0);
}

static unsigned below(unsigned *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 16) % n;
}

enum { MOST_STAGES = 6 };

static network any_network(unsigned *seed)
{
    network net    = {.n_layers = 2 + (int)below(seed, MOST_STAGES)};
    int     most   = net.n_layers < MOST_STAGES ? net.n_layers : MOST_STAGES;
    net.n_stages   = 2 + (int)below(seed, (unsigned)most - 1);
    net.dropout    = below(seed, 2);
    net.batch_norm = below(seed, 2);
    net.skip       = below(seed, 2);
    net.tied       = below(seed, 2);
    net.late       = below(seed, 2);
    return net;
}

/* Assigns each stage 1, 2 or 4 IPUs. */
static void any_ipus(unsigned *seed, int n_stages, int64_t ipus[MOST_STAGES])
{
    int n = 1 << below(seed, n_stages < 4 ? 2 : 3), turn = (int)below(seed, 4);
    for (int i = 0; i < n_stages; i++) ipus[i] = i < n ? (i + turn) % n : (int)below(seed, (unsigned)n);
}

static void any_arrangement_gives_the_same_numbers(void **state)
{
    (void)state;
    unsigned    seed  = 1;
    const char *cases = getenv("IPU_TEST_CASES");
    for (int i = 0, n = cases ? atoi(cases) : 20; i < n; i++) {
        int64_t              ipus[MOST_STAGES];
        network              net = any_network(&seed), plain = net;
        int64_t              batches = 2 * net.n_stages - 1 + (int64_t)below(&seed, 4);
        ipu_executor_options base    = {.gradient_accumulation = batches, .output_mode = IPU_OUTPUT_ALL};
        ipu_executor_options o       = base;
        any_ipus(&seed, net.n_stages, ipus);
        o.stage_ipus           = ipus;
        o.n_stage_ipus         = (size_t)net.n_stages;
        o.schedule             = schedules[below(&seed, 3)];
        o.recompute            = below(&seed, 2);
        o.activations_off_chip = below(&seed, 2);
        plain.n_stages         = 0;
        result one = run(plain, base, true, "1"), other = run(net, o, true, "1");
        expect_equal(&one, &other, 0);
        free_result(&one);
        free_result(&other);
    }
}

static void dropout_norms_skips_and_ties_pass_stages(void **state)
{
    (void)state;
    const ipu_executor_options o = {.gradient_accumulation = 9, .output_mode = IPU_OUTPUT_SUM};
    compare((network){.n_layers = 4, .n_stages = 4, .dropout = true}, o, true, "1", 0);
    compare((network){.n_layers = 4, .n_stages = 2, .batch_norm = true}, o, true, "1", 0);
    compare((network){.n_layers = 5, .n_stages = 4, .skip = true}, o, true, "1", 0);
    compare((network){.n_layers = 4, .n_stages = 4, .tied = true}, o, true, "1", 0);
    compare((network){6, 4, true, true, true, true, true, false}, o, true, "1", 0);
}

static void loops_and_late_inputs_pass_stages(void **state)
{
    (void)state;
    const ipu_executor_options o = {
        .gradient_accumulation = 8, .output_mode = IPU_OUTPUT_EVERY_N, .output_period = 4};
    compare((network){.n_layers = 4, .n_stages = 4, .late = true}, o, true, "1", 0);
    compare((network){.n_layers = 3, .n_stages = 2, .late = true, .skip = true}, o, true, "1", 0);
}

static void halves_and_random_rounding_go_with_stages(void **state)
{
    (void)state;
    ipu_executor_options o = {.gradient_accumulation = 8, .precision = IPU_PRECISION_MIXED};
    compare((network){.n_layers = 4, .n_stages = 4, .batch_norm = true, .skip = true}, o, true, "1", 0);
    compare_stages((network){.n_layers = 4, .n_stages = 4, .batch_norm = true, .tied = true}, o);
    o.precision = IPU_PRECISION_HALF, o.stochastic_rounding = true;
    compare_stages((network){.n_layers = 4, .n_stages = 2, .skip = true, .tied = true}, o);
    o.stages = 4;
    compare_stages((network){.n_layers = 4, .skip = true}, o);
}

static void nothing_is_read_before_it_is_written(void **state)
{
    (void)state;
    ipu_executor_options o = {.gradient_accumulation = 7};
    setenv("IPU_CHECK", "1", 1);
    compare((network){4, 4, true, true, true, true, true, false}, o, true, "1", 0);
    unsetenv("IPU_CHECK");
}

static void iterations_and_replicas_go_with_stages(void **state)
{
    (void)state;
    compare((network){.n_layers = 4, .n_stages = 2, .dropout = true},
            (ipu_executor_options){.gradient_accumulation = 4, .device_iterations = 3, .running_mean = true},
            true, "1", 0);
    compare((network){.n_layers = 4, .n_stages = 2, .dropout = true, .skip = true},
            (ipu_executor_options){.gradient_accumulation = 4, .replicas = 2, .output_mode = IPU_OUTPUT_ALL},
            true, "1", 0);
}

static void optimizers_may_be_divided_or_off_chip(void **state)
{
    (void)state;
    const network net = {.n_layers = 4, .n_stages = 2, .tied = true};
    compare(net, (ipu_executor_options){.gradient_accumulation = 4, .replicas = 2, .shard_optimizer = true},
            true, "1", 0);
    compare(net, (ipu_executor_options){.gradient_accumulation = 4, .optimizer_off_chip = true}, true, "1",
            0);
}

static void inference_is_pipelined_too(void **state)
{
    (void)state;
    compare((network){.n_layers = 4, .n_stages = 4, .skip = true, .batch_norm = true},
            (ipu_executor_options){.device_iterations = 6}, false, "1", 0);
    compare((network){.n_layers = 4, .n_stages = 2},
            (ipu_executor_options){.device_iterations = 2, .replicas = 2}, false, "1", 0);
}

/* ---- automatic stages ---- */

static void chosen_stages_give_the_same_numbers(void **state)
{
    (void)state;
    const network net     = {.n_layers = 6, .dropout = true, .batch_norm = true, .skip = true, .tied = true};
    const int64_t three[] = {0, 1, 1};
    compare(net, (ipu_executor_options){.gradient_accumulation = 8, .stages = 4}, true, "1", 0);
    compare(net,
            (ipu_executor_options){
                .gradient_accumulation = 5, .stages = 3, .stage_ipus = three, .n_stage_ipus = 3},
            true, "1", 0);
    compare(net, (ipu_executor_options){.device_iterations = 5, .stages = 2}, false, "1", 0);
}

/* Weights of one of the tools' networks after two steps on noise. */
static void train_named(const char *name, const char *layouts, ipu_executor_options options, ipu_npz *out)
{
    enum { N = 4 };
    ipu_module   *module;
    ipu_executor *x;
    ipu_array     in[2];
    ipu_options  *own             = threads("1");
    options.engine                = own;
    options.gradient_accumulation = 8;
    OK(ipu_options_set(own, "memory.layouts", layouts));
    OK(ipu_module_named(name, &module));
    OK(ipu_training_model(module, &options, &(ipu_nn_training){.optimizer = {.rate = 0.1, .momentum = 0.9}},
                          &x));
    OK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(8 * N, 1, 28, 28), &in[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(8 * N), &in[1]));
    fill(&in[0], 3);
    for (int i = 0; i < 8 * N; i++) ((int32_t *)in[1].data)[i] = i % 10;
    for (int i = 0; i < 2; i++) OK(ipu_executor_run(x, in, 2));
    OK(ipu_executor_get_state(x, out));
    ipu_array_free(&in[0]);
    ipu_array_free(&in[1]);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_options_destroy(own);
}

/* Values between stages have plain layout, and kernels given other layouts may sum in another order. */
static void convolutions_pass_stages(void **state)
{
    (void)state;
    const char *const names[] = {"seed-cnn", "mnist-cnn"}, *const layouts[] = {"false", "true"};
    for (int i = 0; i < 4; i++) {
        result one = {0}, other = {0};
        train_named(names[i % 2], layouts[i / 2], (ipu_executor_options){0}, &one.state);
        for (int64_t n = 2; n <= 4; n *= 2) {
            train_named(names[i % 2], layouts[i / 2],
                        (ipu_executor_options){.stages = n, .recompute = n == 4}, &other.state);
            expect_equal(&one, &other, i < 2 ? 0 : 1e-4);
            free_result(&other);
        }
        free_result(&one);
    }
}

/* ---- errors ---- */

static void expect_error(network net, ipu_executor_options options, bool training, const char *part)
{
    ipu_module   *module;
    ipu_executor *x;
    OK(ipu_module_create(forward, &net, &module));
    if (training)
        OK(ipu_training_model(module, &options, NULL, &x));
    else
        OK(ipu_inference_model(module, &options, &x));
    int64_t   n     = BATCH * ipu_executor_options_n_batches(&options);
    ipu_array in[2] = {{.type = IPU_FLOAT, .shape = IPU_SHAPE(n, WIDTH)},
                       {.type = IPU_FLOAT, .shape = IPU_SHAPE(n, WIDTH)}};
    assert_int_equal(ipu_executor_compile(x, in, training ? 2 : 1), IPU_INVALID);
    if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in: %s", part, ipu_message());
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void errors_say_what_to_change(void **state)
{
    (void)state;
    const network        four  = {.n_layers = 4, .n_stages = 4};
    static const int64_t two[] = {0, 1};
    expect_error(
        four, (ipu_executor_options){.gradient_accumulation = 6}, true,
        "option gradient_accumulation: a pipeline of 4 stages fills and empties once in a step of the "
        "optimizer: expected at least 7 (2 x stages - 1), found 6");
    expect_error(
        four, (ipu_executor_options){.device_iterations = 3}, false,
        "option device_iterations: a pipeline of 4 stages fills and empties once in a run: expected at least "
        "4 (the number of stages), found 3");
    expect_error(four, (ipu_executor_options){.gradient_accumulation = 8, .stages = 2}, true,
                 "option stages: expected 4, as the network names its stages (from \"s0\" to \"s3\")");
    expect_error(four,
                 (ipu_executor_options){.gradient_accumulation = 8, .stage_ipus = two, .n_stage_ipus = 2},
                 true, "option stage_ipus: expected an IPU for each of the 4 stages");
    expect_error((network){.n_layers = 3, .n_stages = 3}, (ipu_executor_options){.gradient_accumulation = 8},
                 true, "power of two");
    expect_error((network){.n_layers = 128, .n_stages = 128},
                 (ipu_executor_options){.gradient_accumulation = 256, .target = "pod256"}, true,
                 "expected at most 64 for a replica");
    expect_error((network){.n_layers = 1}, (ipu_executor_options){.gradient_accumulation = 80, .stages = 32},
                 true, "expected no more stages than ops");
}

/* ---- modelled cost ---- */

typedef struct price {
    int64_t cycles, kept; /* per run; bytes live all the time, on all tiles */
} price;

static price price_of(network net, ipu_executor_options options)
{
    ipu_module      *module;
    ipu_executor    *x;
    ipu_cost        *cost;
    ipu_cost_cycles  cycles;
    ipu_cost_summary all;
    options.attach = IPU_ATTACH_NEVER;
    OK(ipu_module_create(forward, &net, &module));
    OK(ipu_training_model(module, &options, NULL, &x));
    int64_t   n  = 4096 * ipu_executor_options_n_batches(&options);
    ipu_array in = {.type = IPU_FLOAT, .shape = IPU_SHAPE(n, WIDTH)};
    OK(ipu_executor_compile(x, (ipu_array[]){in, in}, 2));
    OK(ipu_executor_cost(x, NULL, &cost));
    assert_true(ipu_cost_program_at(cost, 0, &cycles));
    ipu_cost_get_summary(cost, &all);
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return (price){cycles.total, all.memory[IPU_MEMORY_ALWAYS_LIVE]};
}

static void pipelines_take_less_time_and_schedules_less_memory(void **state)
{
    (void)state;
    const network        net     = {.n_layers = 8, .n_stages = 4};
    ipu_executor_options o       = {.gradient_accumulation = 16};
    price                grouped = price_of(net, o);
    o.recompute                  = true;
    price again                  = price_of(net, o);
    o.recompute = false, o.activations_off_chip = true;
    price off              = price_of(net, o);
    o.activations_off_chip = false, o.schedule = IPU_PIPELINE_INTERLEAVED;
    price interleaved = price_of(net, o);
    o.schedule        = IPU_PIPELINE_SEQUENTIAL;
    price sequential  = price_of(net, o);
    assert_true(2 * grouped.cycles < sequential.cycles);
    assert_true(interleaved.cycles < sequential.cycles);
    assert_true(grouped.cycles <= interleaved.cycles);
    assert_true(interleaved.kept < grouped.kept);
    assert_true(again.kept < grouped.kept);
    assert_true(off.kept < again.kept);
}

/* ---- allocation failure ---- */

static struct {
    long n, live, refuse; /* the number of the allocation to refuse, or 0 */
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        heap.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++heap.n == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    heap.live += p && !ptr;
    return p;
}

/* Compiles a network of two stages; on failure, releases what exists so far. */
static ipu_status compile_without(long refused, bool chosen)
{
    network              net     = {.n_layers = 2, .n_stages = chosen ? 0 : 2, .tied = true};
    ipu_executor_options options = {.gradient_accumulation = 4,
                                    .stages                = 2,
                                    .recompute             = chosen,
                                    .attach                = IPU_ATTACH_NEVER,
                                    .cache_folder          = ""};
    ipu_array            in      = {.type = IPU_FLOAT, .shape = IPU_SHAPE(4 * BATCH, WIDTH)};
    ipu_module          *module  = NULL;
    ipu_executor        *x       = NULL;
    heap.n = heap.live = 0;
    heap.refuse        = refused;
    ipu_status status  = ipu_module_create(forward, &net, &module);
    if (status == IPU_OK) status = ipu_training_model(module, &options, NULL, &x);
    if (status == IPU_OK) status = ipu_executor_compile(x, (ipu_array[]){in, in}, 2);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    if (heap.live != 0) fail_msg("allocation %ld refused: %ld left behind", refused, heap.live);
    return status;
}

/* A location that cannot be recorded only costs an error message its line: the program may continue. */
static void allocations_may_fail(void **state)
{
    (void)state;
    ipu__alloc_set(failing_alloc, NULL);
    for (int chosen = 0; chosen < 2; chosen++) {
        OK(compile_without(0, chosen));
        long n = heap.n, tolerated = 0;
        assert_true(n > 100);
        for (long i = 1; i <= n; i += 1 + n / 400) {
            ipu_status status = compile_without(i, chosen);
            if (status != IPU_OK && status != IPU_OUT_OF_MEMORY)
                fail_msg("allocation %ld of %ld refused: status %d: %s", i, n, status, ipu_message());
            tolerated += status == IPU_OK;
        }
        assert_in_range(tolerated, 0, 20);
    }
    ipu__alloc_set(NULL, NULL);
}

static void threads_change_no_more_than_rounding(void **state)
{
    (void)state;
    compare((network){.n_layers = 4, .n_stages = 4, .dropout = true, .skip = true},
            (ipu_executor_options){.gradient_accumulation = 8, .output_mode = IPU_OUTPUT_ALL}, true, "3",
            1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_are_one_ipu_bit_for_bit),
        cmocka_unit_test(stages_one_after_another_need_no_second_batch),
        cmocka_unit_test(several_stages_share_an_ipu),
        cmocka_unit_test(stages_of_nothing_are_left_out),
        cmocka_unit_test(ipus_of_three_stages_are_rounded_up),
        cmocka_unit_test(any_arrangement_gives_the_same_numbers),
        cmocka_unit_test(dropout_norms_skips_and_ties_pass_stages),
        cmocka_unit_test(loops_and_late_inputs_pass_stages),
        cmocka_unit_test(halves_and_random_rounding_go_with_stages),
        cmocka_unit_test(nothing_is_read_before_it_is_written),
        cmocka_unit_test(iterations_and_replicas_go_with_stages),
        cmocka_unit_test(optimizers_may_be_divided_or_off_chip),
        cmocka_unit_test(inference_is_pipelined_too),
        cmocka_unit_test(threads_change_no_more_than_rounding),
        cmocka_unit_test(chosen_stages_give_the_same_numbers),
        cmocka_unit_test(convolutions_pass_stages),
        cmocka_unit_test(allocations_may_fail),
        cmocka_unit_test(errors_say_what_to_change),
        cmocka_unit_test(pipelines_take_less_time_and_schedules_less_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
