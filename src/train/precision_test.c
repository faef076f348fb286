/* Precision: networks in half against float, weights of half that nearest rounding leaves where they are, loss scales
 * that find themselves, and modules whose weights stay what they are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

/* ---- what the tests share ---- */

static ipu_array floats(ipu_shape shape, float low, float high, unsigned seed)
{
    ipu_array a;
    OK(ipu_array_create(IPU_FLOAT, shape, &a));
    float *x = a.data;
    for (int64_t i = 0; i < ipu_array_n_elements(&a); i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = low + (high - low) * (float)(seed >> 8) * 0x1p-24f;
    }
    return a;
}

static ipu_executor *trainer(ipu_forward_fn fn, ipu_executor_options options, ipu_nn_training how,
                             ipu_module **module)
{
    ipu_executor *x;
    OK(ipu_module_create(fn, NULL, module));
    OK(ipu_training_model(*module, &options, &how, &x));
    return x;
}

static void finish(ipu_executor *x, ipu_module *module)
{
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* One array of the executor's state, as floats. */
static ipu_type state_of(ipu_executor *x, const char *name, float *out, size_t n)
{
    ipu_npz  z;
    ipu_type type = IPU_BOOL;
    OK(ipu_executor_get_state(x, &z));
    for (size_t i = 0; i < z.n; i++) {
        const ipu_array *a = &z.arrays[i].array;
        if (strcmp(z.arrays[i].name, name) != 0) continue;
        type = a->type;
        assert_int_equal(ipu_array_n_elements(a), n);
        for (size_t k = 0; k < n; k++) out[k] = (float)ipu_array_value(a, (int64_t)k);
    }
    ipu_npz_free(&z);
    if (type == IPU_BOOL) fail_msg("there is no state \"%s\"", name);
    return type;
}

static ipu_options *one_thread(void)
{
    ipu_options *o;
    OK(ipu_options_create(&o));
    OK(ipu_options_set(o, "threads", "1"));
    return o;
}

/* All of it as bytes: equal ones are the same state. Owned: free. */
static char *all_state(ipu_executor *x, size_t *bytes)
{
    ipu_npz z;
    char   *all = NULL;
    *bytes      = 0;
    OK(ipu_executor_get_state(x, &z));
    for (size_t i = 0; i < z.n; i++) {
        size_t n = ipu_array_bytes(&z.arrays[i].array);
        all      = realloc(all, *bytes + n + 1);
        assert_non_null(all);
        if (n) memcpy(all + *bytes, z.arrays[i].array.data, n);
        *bytes += n;
    }
    ipu_npz_free(&z);
    return all;
}

/* ---- updates below half a unit in the last place ---- */

enum { WEIGHTS = 4096, STEPS = 64 };

/* The gradient of each weight, all of which begin as 1, is the input. */
static void constant_gradient(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n, (void)user;
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(WEIGHTS), NULL, "w");
    ipu_model_set_initial(m, w, (ipu_initial){IPU_INITIAL_CONSTANT, 1, 0});
    ipu_nn_loss(m, ipu_reduce_sum(b, ipu_mul(b, w, in[0]), NULL, 0, false), "loss");
}

/* `w` after so many steps of +2^-13 each: an eighth of what is between 1 and the next half. */
static void step_up(ipu_executor_options options, double loss_scale, float out[WEIGHTS])
{
    ipu_module   *module;
    ipu_executor *x  = trainer(constant_gradient, options,
                               (ipu_nn_training){.optimizer = {.rate = 1}, .loss_scale = loss_scale}, &module);
    int64_t       n  = ipu_executor_options_n_batches(&options);
    ipu_array     in = floats(IPU_SHAPE(n * WEIGHTS), -0x1p-13f, -0x1p-13f, 1);
    for (int i = 0; i < STEPS; i++) OK(ipu_executor_run(x, &in, 1));
    assert_int_equal(state_of(x, "w", out, WEIGHTS),
                     options.precision == IPU_PRECISION_HALF ? IPU_HALF : IPU_FLOAT);
    const ipu_array *a;
    OK(ipu_module_weight(module, "w", &a)); /* as the network was built, with the same numbers */
    assert_int_equal(a->type, IPU_FLOAT);
    assert_memory_equal(a->data, out, WEIGHTS * sizeof *out);
    if (options.replicas > 1) {
        static ipu_half one[WEIGHTS], other[WEIGHTS];
        OK(ipu_engine_read_replica(ipu_executor_engine(x), "w", 0, one, sizeof one));
        OK(ipu_engine_read_replica(ipu_executor_engine(x), "w", 1, other, sizeof other));
        assert_memory_equal(one, other,
                            sizeof one); /* replicas have the same weights, whatever rounds them */
    }
    ipu_array_free(&in);
    finish(x, module);
}

/* Steps up are each taken with a chance of 1/8 of a unit of 2^-10: their number has a variance of STEPS 7/64. */
static void assert_arrived(const float *w)
{
    double mean = 0, unit = 0x1p-10, sigma = unit * sqrt(STEPS * 7.0 / 64 / WEIGHTS);
    for (int i = 0; i < WEIGHTS; i++) mean += (double)w[i] / WEIGHTS;
    if (!(fabs(mean - (1 + STEPS * 0x1p-13)) < 4 * sigma))
        fail_msg("mean %.9g, expected %.9g +- %.3g", mean, 1 + STEPS * 0x1p-13, 4 * sigma);
}

static void nearest_rounding_stalls_and_stochastic_rounding_arrives(void **state)
{
    (void)state;
    static float w[WEIGHTS], again[WEIGHTS], other[WEIGHTS];
    step_up((ipu_executor_options){.precision = IPU_PRECISION_HALF}, 0, w);
    for (int i = 0; i < WEIGHTS; i++) assert_true(w[i] == 1);
    ipu_executor_options half = {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true};
    step_up(half, 0, w);
    assert_arrived(w);
    step_up(half, 0, again);
    assert_memory_equal(w, again, sizeof w);
    half.seed = 1;
    step_up(half, 0, other);
    assert_arrived(other);
    assert_memory_not_equal(w, other, sizeof w);
}

static void weights_are_rounded_alike_in_all_replicas(void **state)
{
    (void)state;
    static float         w[WEIGHTS];
    ipu_executor_options o = {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true, .replicas = 2};
    step_up(o, 0, w);
    assert_arrived(w);
    o.shard_optimizer = true;
    step_up(o, 0, w);
    assert_arrived(w);
    o = (ipu_executor_options){
        .precision = IPU_PRECISION_HALF, .stochastic_rounding = true, .gradient_accumulation = 2};
    step_up(o, 16, w);
    assert_arrived(w);
}

static void master_weights_do_not_stall(void **state)
{
    (void)state;
    static float w[WEIGHTS];
    step_up((ipu_executor_options){.precision = IPU_PRECISION_MIXED}, 0, w);
    for (int i = 0; i < WEIGHTS; i++) assert_true(w[i] == 1 + STEPS * 0x1p-13f);
}

/* ---- networks ---- */

enum { BATCH = 16, SIDE = 8 };

/* Pictures [n, 1, 8, 8] and labels. */
static void build(ipu_model *m, const ipu_value *in, size_t n, bool staged)
{
    ipu_builder *b = ipu_model_builder(m);
    if (staged) ipu_model_stage(m, "first");
    ipu_value x = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, in[0], 4, 3, "conv")), 2);
    x           = ipu_nn_batch_norm(m, x, "norm");
    if (staged) ipu_model_stage(m, "second");
    x = ipu_nn_dropout(m, ipu_tanh(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 12, "hidden")), 0.1);
    x = ipu_log_softmax(b, ipu_nn_linear(m, x, 4, "out"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

static void network(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    build(m, in, n, false);
}

static void staged_network(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    build(m, in, n, true);
}

typedef struct set {
    ipu_array arrays[2];
} set;

/* Four kinds of pictures: which quarter is bright. */
static set pictures(int64_t n, unsigned seed)
{
    set s = {.arrays = {floats(IPU_SHAPE(n, 1, SIDE, SIDE), 0, 1, seed)}};
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &s.arrays[1]));
    float   *x     = s.arrays[0].data;
    int32_t *label = s.arrays[1].data;
    for (int64_t i = 0; i < n; i++) {
        label[i] = (int32_t)((i * 7 + (int64_t)seed) % 4);
        for (int y = 0; y < SIDE; y++)
            for (int k = 0; k < SIDE; k++)
                if (y / 4 * 2 + k / 4 == label[i]) x[i * SIDE * SIDE + y * SIDE + k] += 0.7f;
    }
    return s;
}

static void free_set(set *s)
{
    for (int i = 0; i < 2; i++) ipu_array_free(&s->arrays[i]);
}

static double train(ipu_executor *x, int steps, int64_t n_batches)
{
    double last = 0;
    for (int i = 0; i < steps; i++) {
        set s = pictures(BATCH * n_batches, (unsigned)i % 8);
        OK(ipu_executor_run(x, s.arrays, 2));
        OK(ipu_executor_scalar(x, "loss", &last));
        free_set(&s);
    }
    return last;
}

static const ipu_nn_training momentum = {.optimizer = {.rate = 0.1, .momentum = 0.9}};

static void all_precisions_learn_the_same(void **state)
{
    (void)state;
    static const ipu_executor_options ways[] = {
        {.precision = IPU_PRECISION_FLOAT},
        {.precision = IPU_PRECISION_MIXED},
        {.precision = IPU_PRECISION_MIXED, .gradient_accumulation = 2},
        {.precision = IPU_PRECISION_MIXED, .replicas = 2},
        {.precision = IPU_PRECISION_MIXED, .replicas = 2, .no_fold = true},
        {.precision = IPU_PRECISION_MIXED, .stochastic_rounding = true},
        {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true},
        {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true, .replicas = 2},
        {.precision           = IPU_PRECISION_HALF,
         .stochastic_rounding = true,
         .replicas            = 2,
         .shard_optimizer     = true},
        {.precision = IPU_PRECISION_HALF, .half_partials = true}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ipu_module   *module;
        ipu_executor *x = trainer(network, ways[i], momentum, &module), *tester;
        train(x, 40, ipu_executor_options_n_batches(&ways[i]));
        OK(ipu_inference_model(module, &(ipu_executor_options){.precision = ways[i].precision}, &tester));
        set s = pictures(64, 99);
        OK(ipu_executor_run(tester, s.arrays, 1));
        const ipu_array *scores = ipu_executor_output(tester, "scores");
        int              right  = 0;
        assert_int_equal(scores->type, IPU_FLOAT);
        for (int k = 0; k < 64; k++) {
            const float *row  = (const float *)scores->data + k * 4;
            int          best = 0;
            for (int c = 1; c < 4; c++) best = row[c] > row[best] ? c : best;
            right += best == ((const int32_t *)s.arrays[1].data)[k];
        }
        if (right < 62) fail_msg("way %zu: %d of 64 are right", i, right);
        free_set(&s);
        ipu_executor_destroy(tester);
        finish(x, module);
    }
}

/* Words [n, 6] of 20, and labels: a table, a recurrent layer, a layer of a transformer. */
static void sequences(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_embedding(m, in[0], 20, 8, "words");
    x           = ipu_nn_lstm(m, x, 8, (ipu_nn_recurrent_options){.batch_first = true}, NULL, "lstm");
    x = ipu_nn_encoder_layer(m, x, IPU_NO_VALUE, (ipu_nn_encoder_options){.n_heads = 2, .n_inner = 16},
                             "encoder");
    x = ipu_nn_linear(m, ipu_reduce_mean(b, x, (int[]){1}, 1, false), 4, "out");
    if (n > 1) ipu_nn_loss(m, ipu_cross_entropy(b, x, in[1]), "loss");
}

static double loss_of_sequences(ipu_executor_options options)
{
    ipu_module   *module;
    ipu_executor *x = trainer(sequences, options, momentum, &module);
    ipu_array     in[2];
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(BATCH, 6), &in[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(BATCH), &in[1]));
    for (int i = 0; i < BATCH * 6; i++) ((int32_t *)in[0].data)[i] = i * 7 % 20;
    for (int i = 0; i < BATCH; i++) ((int32_t *)in[1].data)[i] = ((int32_t *)in[0].data)[i * 6] % 4;
    for (int i = 0; i < 12; i++) OK(ipu_executor_run(x, in, 2));
    double loss;
    OK(ipu_executor_scalar(x, "loss", &loss));
    for (int i = 0; i < 2; i++) ipu_array_free(&in[i]);
    finish(x, module);
    return loss;
}

static void recurrent_layers_and_attention_run_in_half_too(void **state)
{
    (void)state;
    double expected = loss_of_sequences((ipu_executor_options){0});
    assert_true(expected < 1.2); /* log 4 is 1.39 */
    for (int i = 0; i < 4; i++) {
        double found = loss_of_sequences(
            (ipu_executor_options){.precision           = i % 2 ? IPU_PRECISION_HALF : IPU_PRECISION_MIXED,
                                   .stochastic_rounding = i / 2 == 1});
        if (!(fabs(found - expected) < 0.05)) fail_msg("way %d: %g, expected %g", i, found, expected);
    }
}

/* Half has 11 bits: after one step from the same weights, results differ by no more than some of them. */
static void mixed_gradients_are_those_of_float_to_the_bits_of_half(void **state)
{
    (void)state;
    float w[2][36], mean[2][4];
    for (int way = 0; way < 2; way++) {
        ipu_module   *module;
        ipu_executor *x = trainer(
            network, (ipu_executor_options){.precision = way ? IPU_PRECISION_MIXED : IPU_PRECISION_FLOAT},
            (ipu_nn_training){.optimizer = {.rate = 1}}, &module);
        train(x, 1, 1);
        assert_int_equal(state_of(x, "conv.weight", w[way], 36), IPU_FLOAT);
        assert_int_equal(state_of(x, "norm.running_mean", mean[way], 4), IPU_FLOAT);
        finish(x, module);
    }
    float most = 0;
    for (int i = 0; i < 36; i++) most = fmaxf(most, fabsf(w[0][i] - w[1][i]));
    assert_true(most > 0 && most < 0.01f);
    for (int i = 0; i < 4; i++) assert_true(fabsf(mean[0][i] - mean[1][i]) < 0.001f);
}

static void states_of_half_resume_bit_for_bit(void **state)
{
    (void)state;
    const ipu_executor_options o = {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true};
    const ipu_nn_training how    = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.01}, .loss_scale_period = 4};
    ipu_module           *module, *other;
    ipu_npz               z;
    size_t                n, m;
    ipu_executor         *x = trainer(network, o, how, &module);
    train(x, 5, 1);
    OK(ipu_executor_get_state(x, &z));
    train(x, 5, 1);
    char         *expected = all_state(x, &n);
    ipu_executor *y        = trainer(network, o, how, &other);
    OK(ipu_executor_set_state(y, &z));
    train(y, 5, 1);
    char *found = all_state(y, &m);
    assert_int_equal(n, m);
    assert_memory_equal(expected, found, n);
    ipu_npz_free(&z);
    free(expected);
    free(found);
    finish(x, module);
    finish(y, other);
}

/* In two stages, with what they keep or compute again, the numbers are those of one. */
static void pipelines_round_as_one_ipu_does(void **state)
{
    (void)state;
    static const ipu_executor_options ways[] = {
        {.precision = IPU_PRECISION_MIXED},
        {.precision = IPU_PRECISION_MIXED, .stochastic_rounding = true},
        {.precision = IPU_PRECISION_MIXED, .stochastic_rounding = true, .recompute = true},
        {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true, .recompute = true},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const ipu_nn_training how = {.optimizer         = {.kind = IPU_NN_ADAM, .rate = 0.01},
                                     .loss_scale_period = 4};
        ipu_executor_options  o   = ways[i];
        ipu_module           *module[2];
        size_t                bytes[2];
        char                 *states[2];
        o.gradient_accumulation = 4;
        o.engine                = one_thread();
        for (int k = 0; k < 2; k++) {
            ipu_executor *x = trainer(k ? staged_network : network, o, how, &module[k]);
            train(x, 3, 4);
            states[k] = all_state(x, &bytes[k]);
            finish(x, module[k]);
        }
        assert_int_equal(bytes[0], bytes[1]);
        if (memcmp(states[0], states[1], bytes[0]) != 0) fail_msg("way %zu differs", i);
        free(states[0]);
        free(states[1]);
        ipu_options_destroy((ipu_options *)(uintptr_t)o.engine);
    }
}

static void modules_keep_floats_whoever_has_them(void **state)
{
    (void)state;
    ipu_module      *module;
    const ipu_array *w;
    ipu_executor *half = trainer(network, (ipu_executor_options){.precision = IPU_PRECISION_HALF}, momentum,
                                 &module),
                 *same;
    train(half, 2, 1);
    OK(ipu_module_weight(module, "out.weight", &w));
    for (int i = 0; i < 48; i++) {
        float x = ((const float *)w->data)[i];
        assert_true(ipu_half_to_float(ipu_half_from_float(x)) == x);
    }
    OK(ipu_training_model(module, NULL, &momentum, &same));
    train(same, 2, 1);
    OK(ipu_module_weight(module, "out.weight", &w));
    int n_other = 0;
    for (int i = 0; i < 48; i++) {
        float x = ((const float *)w->data)[i];
        n_other += ipu_half_to_float(ipu_half_from_float(x)) != x;
    }
    assert_true(n_other > 24); /* floats, as this one trains them */
    train(half, 1, 1);         /* takes them, rounded */
    ipu_executor_destroy(same);
    finish(half, module);
}

/* ---- loss scales ---- */

/* Rows of x [n, 8] to one number each; the loss is that of squares, so faint that its gradients are below what half
 * has. */
static void faint(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n, (void)user;
    ipu_value y    = ipu_nn_linear(m, in[0], 1, "fc");
    ipu_value loss = ipu_reduce_mean(b, ipu_square(b, y), NULL, 0, false);
    ipu_nn_loss(m, ipu_mul(b, loss, ipu_scalar_like(b, loss, 1e-8)), "loss");
}

static void run_faint(ipu_executor *x, int steps, float spoil)
{
    ipu_array in = floats(IPU_SHAPE(BATCH, 8), -1, 1, 5);
    if (spoil != 0) ((float *)in.data)[3] = spoil;
    for (int i = 0; i < steps; i++) OK(ipu_executor_run(x, &in, 1));
    ipu_array_free(&in);
}

static void weights_after(ipu_precision precision, double scale, int64_t period, float w[8])
{
    ipu_module           *module;
    const ipu_nn_training how = {
        .optimizer = {.rate = 1e7}, .loss_scale = scale, .loss_scale_period = period};
    ipu_executor *x = trainer(faint, (ipu_executor_options){.precision = precision}, how, &module);
    run_faint(x, 10, 0);
    state_of(x, "fc.weight", w, 8);
    finish(x, module);
}

static void gradients_below_half_need_a_scale(void **state)
{
    (void)state;
    float expected[8], first[8], w[8];
    weights_after(IPU_PRECISION_FLOAT, 0, 0, expected);
    ipu_module   *module;
    ipu_executor *x = trainer(faint, (ipu_executor_options){.precision = IPU_PRECISION_MIXED},
                              (ipu_nn_training){.optimizer = {.rate = 1e7}}, &module);
    run_faint(x, 1, 0);
    state_of(x, "fc.weight", first, 8);
    run_faint(x, 9, 0);
    state_of(x, "fc.weight", w, 8);
    assert_memory_equal(first, w, sizeof w); /* not moved: not one bit */
    finish(x, module);
    for (int way = 0; way < 2; way++) {
        weights_after(IPU_PRECISION_MIXED, way ? 0x1p20 : 0, way ? 0 : 1, w);
        for (int i = 0; i < 8; i++) assert_true(fabsf(w[i] - expected[i]) < 0.01f);
        assert_true(fabsf(expected[0] - first[0]) > 0.05f);
    }
}

/* Random numbers go on whatever a step does. */
static bool is_of_scale(const char *name)
{
    return strncmp(name, "loss_scale", 10) == 0 || strstr(name, "seed");
}

/* All but the scale is what it was. */
static void assert_unchanged(ipu_executor *x, const ipu_npz *before)
{
    ipu_npz now;
    OK(ipu_executor_get_state(x, &now));
    assert_int_equal(now.n, before->n);
    for (size_t i = 0; i < now.n; i++) {
        assert_string_equal(now.arrays[i].name, before->arrays[i].name);
        size_t bytes = ipu_array_bytes(&now.arrays[i].array);
        if (is_of_scale(now.arrays[i].name)) continue;
        if (memcmp(now.arrays[i].array.data, before->arrays[i].array.data, bytes) != 0)
            fail_msg("\"%s\" has changed", now.arrays[i].name);
    }
    ipu_npz_free(&now);
}

static void steps_that_overflow_change_nothing_but_the_scale(void **state)
{
    (void)state;
    static const ipu_executor_options ways[] = {
        {.precision = IPU_PRECISION_FLOAT},
        {.precision = IPU_PRECISION_MIXED},
        {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true},
        {.precision = IPU_PRECISION_MIXED, .gradient_accumulation = 2},
        {.precision = IPU_PRECISION_HALF, .replicas = 2},
        {.precision = IPU_PRECISION_MIXED, .replicas = 2, .shard_optimizer = true},
        {.precision           = IPU_PRECISION_HALF,
         .stochastic_rounding = true,
         .replicas            = 2,
         .shard_optimizer     = true},
    };
    static const ipu_nn_optimizer optimizers[] = {{.rate = 0.1, .momentum = 0.9},
                                                  {.kind = IPU_NN_ADAM, .rate = 0.01}};
    for (size_t i = 0; i < 2 * (sizeof ways / sizeof *ways); i++) {
        ipu_module           *module;
        ipu_npz               before;
        float                 scale;
        const ipu_nn_training how = {.optimizer         = optimizers[i % 2],
                                     .loss_scale        = 1024,
                                     .loss_scale_period = 3,
                                     .max_gradient_norm = 1};
        ipu_executor         *x   = trainer(faint, ways[i / 2], how, &module);
        run_faint(x, 2, 0);
        OK(ipu_executor_get_state(x, &before));
        state_of(x, "loss_scale", &scale, 1);
        assert_true(scale == 1024);
        run_faint(x, 1, i % 3 ? INFINITY : NAN);
        assert_unchanged(x, &before);
        state_of(x, "loss_scale", &scale, 1);
        assert_true(scale == 512);
        run_faint(x, 2, 0); /* counts from the beginning */
        state_of(x, "loss_scale", &scale, 1);
        assert_true(scale == 512);
        run_faint(x, 1, 0);
        state_of(x, "loss_scale", &scale, 1);
        assert_true(scale == 1024);
        state_of(x, "loss_scale_good_steps", &scale, 1);
        assert_true(scale == 0);
        ipu_npz_free(&before);
        finish(x, module);
    }
}

static void scales_stay_within_bounds(void **state)
{
    (void)state;
    ipu_module           *module;
    float                 scale;
    const ipu_nn_training how = {.optimizer = {.rate = 0.1}, .loss_scale_period = 1};
    ipu_executor         *x   = trainer(faint, (ipu_executor_options){0}, how, &module);
    run_faint(x, 12, 0);
    state_of(x, "loss_scale", &scale, 1);
    assert_true(scale == 0x1p24f); /* from 65536 */
    run_faint(x, 60, NAN);
    state_of(x, "loss_scale", &scale, 1);
    assert_true(scale == 0x1p-24f);
    finish(x, module);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    ipu_module   *module;
    ipu_executor *x;
    OK(ipu_module_create(faint, NULL, &module));
    assert_int_equal(ipu_inference_model(module, &(ipu_executor_options){.precision = 7}, &x), IPU_INVALID);
    assert_string_equal(ipu_message(), "option precision: expected 0 to 2, found 7");
    OK(ipu_training_model(module, NULL, &(ipu_nn_training){.optimizer = {.rate = 1}, .loss_scale_period = -1},
                          &x));
    ipu_array in = floats(IPU_SHAPE(BATCH, 8), -1, 1, 5);
    assert_int_equal(ipu_executor_run(x, &in, 1), IPU_INVALID);
    assert_non_null(
        strstr(ipu_message(), "expected a period of the loss scale of 0 to 2^31 - 1 steps, found -1"));
    ipu_array_free(&in);
    finish(x, module);
}

/* ---- prices ---- */

static double modelled(ipu_executor_options options)
{
    ipu_module   *module;
    ipu_cost     *cost;
    ipu_executor *x = trainer(network, options, momentum, &module);
    set           s = pictures(BATCH, 1);
    OK(ipu_executor_compile(x, s.arrays, 2));
    OK(ipu_executor_cost(x, NULL, &cost));
    ipu_cost_summary all;
    ipu_cost_get_summary(cost, &all);
    double cycles = (double)all.cycles.total;
    ipu_cost_destroy(cost);
    free_set(&s);
    finish(x, module);
    return cycles;
}

/* The chip rounds at random for nothing. */
static void rounding_at_random_is_priced_as_nearest(void **state)
{
    (void)state;
    double nearest = modelled((ipu_executor_options){.precision = IPU_PRECISION_MIXED});
    assert_true(
        modelled((ipu_executor_options){.precision = IPU_PRECISION_MIXED, .stochastic_rounding = true})
        == nearest);
    assert_true(modelled((ipu_executor_options){0}) != nearest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nearest_rounding_stalls_and_stochastic_rounding_arrives),
        cmocka_unit_test(weights_are_rounded_alike_in_all_replicas),
        cmocka_unit_test(master_weights_do_not_stall),
        cmocka_unit_test(all_precisions_learn_the_same),
        cmocka_unit_test(recurrent_layers_and_attention_run_in_half_too),
        cmocka_unit_test(mixed_gradients_are_those_of_float_to_the_bits_of_half),
        cmocka_unit_test(states_of_half_resume_bit_for_bit),
        cmocka_unit_test(pipelines_round_as_one_ipu_does),
        cmocka_unit_test(modules_keep_floats_whoever_has_them),
        cmocka_unit_test(gradients_below_half_need_a_scale),
        cmocka_unit_test(steps_that_overflow_change_nothing_but_the_scale),
        cmocka_unit_test(scales_stay_within_bounds),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(rounding_at_random_is_priced_as_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
