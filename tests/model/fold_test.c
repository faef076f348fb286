/* Replicas folded into one larger batch: the same numbers as one by one and as one large batch, for a table
 * of networks; what is refused, and why; what devices and prices are told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { SIDE = 14, N_WORDS = 11, TIME = 5, CLASSES = 10, STEPS = 3 };

/* ---- networks ---- */

static void give(ipu_model *m, ipu_value scores, const ipu_value *in, size_t n)
{
    ipu_builder *b = ipu_model_builder(m);
    scores         = ipu_log_softmax(b, scores, 1);
    ipu_model_output(m, scores, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, scores, in[1]), "loss");
}

static void mlp(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_layer_norm(m, ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 24, "f1"), 1, "norm");
    give(m, ipu_nn_linear(m, ipu_nn_rms_norm(m, ipu_gelu(b, x), "rms"), CLASSES, "f2"), in, n);
}

/* Words to classes: attention over an embedding, mean over time. */
static void encoder(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    const ipu_nn_encoder_options layer = {.n_heads = 2, .n_inner = 12, .gelu = true};
    ipu_value                    x     = ipu_nn_embedding(m, in[0], N_WORDS, 8, "words");
    x                                  = ipu_nn_encoder_layer(m, x, IPU_NO_VALUE, layer, "layer");
    give(m, ipu_nn_linear(m, ipu_reduce_mean(b, x, (int[]){1}, 1, false), CLASSES, "out"), in, n);
}

static void recurrent(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_embedding(m, in[0], N_WORDS, 6, "words");
    x           = ipu_nn_lstm(m, x, 7, (ipu_nn_recurrent_options){.batch_first = true}, NULL, "r");
    give(m, ipu_nn_linear(m, ipu_index(b, x, TIME - 1, 1), CLASSES, "out"), in, n);
}

/* An output without a batch, losses of several kinds, a penalty that no batch has a part in, weights used
 * twice. */
static void many_losses(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_reshape(b, in[0], IPU_SHAPE(-1, SIDE));
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(SIDE, SIDE), NULL, "tied");
    ipu_model_set_initial(m, w, (ipu_initial){IPU_INITIAL_UNIFORM, -0.3, 0.3});
    ipu_value h     = ipu_tanh(b, ipu_matmul(b, x, w));
    ipu_value back  = ipu_matmul_with(b, h, w, false, true);
    ipu_value mse   = ipu_mse_loss(b, back, x, IPU_LOSS_MEAN);
    ipu_value total = ipu_reduce_sum_square(b, w, NULL, 0, false);
    ipu_value rows  = ipu_reshape(b, h, IPU_SHAPE(-1, SIDE * SIDE));
    ipu_value most  = ipu_reduce_max(b, rows, (int[]){0}, 1, false);
    ipu_model_output(m, total, "total");
    ipu_model_output(m, ipu_argmax(b, rows, 1, false), "largest");
    ipu_model_output(m, most, "most");
    if (n > 1) ipu_nn_loss(m, ipu_add(b, mse, ipu_mul(b, mse, ipu_scalar_like(b, mse, 0.5))), "mse");
    if (n > 1) ipu_nn_loss(m, ipu_mul(b, total, ipu_scalar_like(b, total, 1e-3)), "penalty");
    if (n > 1) ipu_nn_loss(m, ipu_sqrt(b, ipu_add(b, mse, ipu_scalar_like(b, mse, 1))), "root");
}

/* A mean of weighted labels is another one in each replica. */
static void weighted(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    static const float weights[CLASSES] = {1, 2, 1, 0.5f, 1, 3, 1, 1, 0.25f, 1};
    ipu_builder       *b                = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_linear(m, ipu_flatten(b, in[0], 1), CLASSES, "f");
    ipu_model_output(m, x, "scores");
    ipu_value weight = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(CLASSES), weights);
    if (n > 1)
        ipu_nn_loss(m, ipu_cross_entropy_with(b, x, in[1], (ipu_loss_options){.weight = weight}), "loss");
}

/* An op that each replica needs one of, next to much work that they share. */
static void resized(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 64, "f1"));
    x           = ipu_nn_linear(m, x, 16, "f2");
    x           = ipu_reshape(b, x, IPU_SHAPE(ipu_value_dim(x, 0), 1, 4, 4));
    x           = ipu_resize(b, x, (int64_t[]){ipu_value_dim(x, 0), 1, 2, 3},
                             (ipu_resize_options){.mode = IPU_RESIZE_LINEAR});
    give(m, ipu_nn_linear(m, ipu_flatten(b, x, 1), CLASSES, "f3"), in, n);
}

typedef struct row {
    const char    *name;
    ipu_forward_fn fn;
    bool           has_words, is_not_a_mean; /* of the losses of samples: one large batch has another */
    double         slack;                    /* 0: 1e-5 */
} row;

static const row rows[] = {
    {"seed-cnn", NULL, false, false, 0},
    {"mnist-cnn", NULL, false, false, 0},
    {"mlp", mlp, false, false, 0},
    {"encoder", encoder, true, false, 0},
    {"recurrent", recurrent, true, false, 0},
    {"losses", many_losses, false, true, 0},
    {"weighted", weighted, false, true, 0},
    {"resized", resized, false, false, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static ipu_module *module_of(const row *r)
{
    ipu_module *module;
    if (r->fn)
        OK(ipu_module_create(r->fn, NULL, &module));
    else
        OK(ipu_module_named(r->name, &module));
    return module;
}

/* ---- running ---- */

typedef struct batch {
    ipu_array in[2];
} batch;

static batch samples(const row *r, int64_t n, unsigned seed)
{
    batch s;
    OK(ipu_array_create(r->has_words ? IPU_INT32 : IPU_FLOAT,
                        r->has_words ? IPU_SHAPE(n, TIME) : IPU_SHAPE(n, 1, SIDE, SIDE), &s.in[0]));
    OK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &s.in[1]));
    for (int64_t i = 0; i < ipu_array_n_elements(&s.in[0]); i++) {
        seed = seed * 1664525u + 1013904223u;
        if (r->has_words)
            ((int32_t *)s.in[0].data)[i] = (int32_t)(seed >> 16) % N_WORDS;
        else
            ((float *)s.in[0].data)[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    for (int64_t i = 0; i < n; i++) ((int32_t *)s.in[1].data)[i] = (int32_t)((seed >> 8) + i * 7) % CLASSES;
    return s;
}

typedef struct outcome {
    ipu_module   *module;
    ipu_executor *x;
} outcome;

/* STEPS runs on `n` samples each. */
static outcome train(const row *r, ipu_executor_options options, const ipu_nn_training *how, int64_t n)
{
    outcome o = {.module = module_of(r)};
    OK(ipu_training_model(o.module, &options, how, &o.x));
    for (int i = 0; i < STEPS; i++) {
        batch s = samples(r, n, 5 + (unsigned)i);
        OK(ipu_executor_run(o.x, s.in, 2));
        for (int k = 0; k < 2; k++) ipu_array_free(&s.in[k]);
    }
    return o;
}

static void end(outcome *o)
{
    ipu_executor_destroy(o->x);
    ipu_module_destroy(o->module);
}

static void compare(const char *network, const char *what, const ipu_array *a, const ipu_array *b,
                    double slack)
{
    double size = 0;
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->shape.rank, b->shape.rank);
    for (int d = 0; d < a->shape.rank; d++) assert_int_equal(a->shape.dim[d], b->shape.dim[d]);
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) size = fmax(size, fabs(ipu_array_value(a, i)));
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++)
        if (!(fabs(ipu_array_value(a, i) - ipu_array_value(b, i)) <= slack * size))
            fail_msg("%s: \"%s\", element %lld: %.9g and %.9g", network, what, (long long)i,
                     ipu_array_value(a, i), ipu_array_value(b, i));
}

static void compare_states(const char *network, outcome *a, outcome *b, double slack)
{
    ipu_npz p, q;
    OK(ipu_executor_get_state(a->x, &p));
    OK(ipu_executor_get_state(b->x, &q));
    assert_int_equal(p.n, q.n);
    for (size_t i = 0; i < p.n; i++) {
        assert_string_equal(p.arrays[i].name, q.arrays[i].name);
        compare(network, p.arrays[i].name, &p.arrays[i].array, &q.arrays[i].array, slack);
    }
    ipu_npz_free(&p);
    ipu_npz_free(&q);
}

static void compare_outputs(const char *network, outcome *a, outcome *b, double slack)
{
    assert_int_equal(ipu_executor_n_outputs(a->x), ipu_executor_n_outputs(b->x));
    for (size_t i = 0; i < ipu_executor_n_outputs(a->x); i++) {
        const char      *name;
        const ipu_array *found = ipu_executor_output_at(a->x, i, &name);
        compare(network, name, found, ipu_executor_output_at(b->x, i, NULL), slack);
    }
}

/* Folded and not: weights, states of the optimizer and outputs are equal to rounding. */
static void check(const row *r, ipu_executor_options options, const ipu_nn_training *how, int64_t n)
{
    double  slack   = r->slack > 0 ? r->slack : 1e-5;
    outcome folded  = train(r, options, how, n);
    options.no_fold = true;
    outcome apart   = train(r, options, how, n);
    assert_string_equal(ipu_executor_fold_reason(folded.x), "");
    assert_string_equal(ipu_executor_fold_reason(apart.x), "option no_fold is set");
    compare_states(r->name, &apart, &folded, slack);
    compare_outputs(r->name, &apart, &folded, slack);
    end(&folded);
    end(&apart);
}

/* ---- tests ---- */

static void folded_replicas_give_what_replicas_give(void **state)
{
    static const ipu_output_mode modes[] = {IPU_OUTPUT_FINAL, IPU_OUTPUT_ALL, IPU_OUTPUT_EVERY_N,
                                            IPU_OUTPUT_SUM};
    const row                   *r       = *state;
    const ipu_nn_training        how     = {.optimizer = {.rate = 0.05, .momentum = 0.9}};
    int                          turn    = 0;
    for (int replicas = 2; replicas <= 64; replicas = replicas == 2 ? 8 : replicas * 8)
        for (int accumulation = 1; accumulation <= 3; accumulation += 2) {
            ipu_executor_options options = {.replicas              = replicas,
                                            .gradient_accumulation = accumulation,
                                            .output_mode           = modes[turn++ % 4],
                                            .output_period         = 2};
            check(r, options, &how, (int64_t)replicas * accumulation * (replicas == 64 ? 1 : 3));
        }
}

static void folded_replicas_are_one_large_batch(void **state)
{
    const row            *r   = *state;
    const ipu_nn_training how = {.optimizer = {.kind = IPU_NN_SGD, .rate = 0.05, .momentum = 0.5}};
    for (int n = 1; n <= 2; n++) {
        ipu_executor_options many = {.replicas = 8, .gradient_accumulation = n},
                             one  = {.gradient_accumulation = n};
        outcome a = train(r, many, &how, 48), b = train(r, one, &how, 48);
        compare_states(r->name, &b, &a, 2e-5);
        end(&a);
        end(&b);
    }
}

/* What an executor can be asked for, on one network. */
static void options_of_training_do_not_mind_folding(void **state)
{
    (void)state;
    const ipu_nn_group    frozen = {.parameters = "f1.*", .frozen = true};
    const ipu_nn_group    slow   = {.parameters = "*.bias", .optimizer = {.rate = 0.01}};
    const ipu_nn_training adam   = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.002}};
    const ipu_nn_training how[]  = {
         adam,
         {.optimizer = {.rate = 0.1}, .groups = &frozen, .n_groups = 1},
         {.optimizer = {.rate = 0.1}, .groups = &slow, .n_groups = 1, .max_gradient_norm = 0.1},
         {.optimizer = {.rate = 0.1}, .loss_scale = 128, .max_gradient = 0.01},
         {.optimizer = {.rate = 0.1}, .loss_scale = 64, .loss_scale_period = 2},
    };
    const ipu_executor_options options[] = {
        {.replicas = 4, .device_iterations = 2, .output_mode = IPU_OUTPUT_ALL},
        {.replicas = 4, .gradient_accumulation = 2, .running_mean = true},
        {.replicas = 4, .gradient_accumulation = 2, .reduction = IPU_REDUCTION_SUM},
        {.replicas = 4, .input_group_size = 2, .gradient_accumulation = 2, .output_mode = IPU_OUTPUT_ALL},
        {.replicas = 4, .input_group_size = 4, .device_iterations = 2, .output_mode = IPU_OUTPUT_SUM},
    };
    row r   = rows[2];
    r.slack = 1e-4; /* Adam divides by what is nearly zero */
    for (size_t i = 0; i < sizeof how / sizeof *how; i++)
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            check(&r, options[k], &how[i], 2 * ipu_executor_options_n_batches(&options[k]));
}

/* Halves: sums over replicas are floats before they are rounded, so that they are nearer to what is meant. */
static void halves_fold_too(void **state)
{
    (void)state;
    const ipu_nn_training how = {.optimizer = {.rate = 0.05}, .loss_scale = 64};
    for (int precision = IPU_PRECISION_MIXED; precision <= IPU_PRECISION_HALF; precision++)
        for (int i = 0; i < 4; i++) {
            ipu_executor_options options = {.replicas = 4, .precision = (ipu_precision)precision};
            row                  r       = rows[i];
            r.slack                      = 0.02;
            check(&r, options, &how, 16);
        }
}

static void inference_folds_too(void **state)
{
    const row *r = *state;
    outcome    o[2];
    for (int k = 0; k < 2; k++) {
        ipu_executor_options options = {.replicas = 4, .device_iterations = 2, .no_fold = k == 1};
        batch                s       = samples(r, 24, 3);
        o[k].module                  = module_of(r);
        OK(ipu_inference_model(o[k].module, &options, &o[k].x));
        for (int i = 0; i < 2; i++) OK(ipu_executor_run(o[k].x, s.in, r->fn == many_losses ? 1 : 2));
        for (int i = 0; i < 2; i++) ipu_array_free(&s.in[i]);
    }
    assert_string_equal(ipu_executor_fold_reason(o[0].x), "");
    compare_outputs(r->name, &o[1], &o[0], 1e-5);
    end(&o[0]);
    end(&o[1]);
}

/* ---- what is refused ---- */

static void with_dropout(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_value x = ipu_nn_linear(m, ipu_flatten(ipu_model_builder(m), in[0], 1), 12, "f1");
    give(m, ipu_nn_linear(m, ipu_nn_dropout(m, x, 0.5), CLASSES, "f2"), in, n);
}

static void with_batch_norm(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_value x = ipu_nn_linear(m, ipu_flatten(ipu_model_builder(m), in[0], 1), 12, "f1");
    give(m, ipu_nn_linear(m, ipu_nn_batch_norm(m, x, "norm"), CLASSES, "f2"), in, n);
}

static void with_a_branch(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_nn_linear(m, ipu_flatten(b, in[0], 1), CLASSES, "f1"), y = ipu_neg(b, x);
    ipu_value sum = ipu_reduce_sum(b, ipu_model_parameter_at(m, 0), NULL, 0, false);
    ipu_model_if(m, ipu_greater(b, sum, ipu_scalar_like(b, sum, 0)));
    ipu_model_yield(m, &x, 1);
    ipu_model_else(m);
    ipu_model_yield(m, &y, 1);
    ipu_model_end(m, &x, 1);
    give(m, x, in, n);
}

static void with_much_that_is_apart(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    ipu_value x = ipu_resize(b, in[0], (int64_t[]){ipu_value_dim(in[0], 0), 1, 40, 40},
                             (ipu_resize_options){.mode = IPU_RESIZE_LINEAR});
    x           = ipu_reduce_mean(b, x, (int[]){1, 2}, 2, false);
    give(m, ipu_nn_linear(m, x, CLASSES, "f1"), in, n);
}

static void what_cannot_be_folded_says_why(void **state)
{
    (void)state;
    const struct {
        row         r;
        const char *reason;
    } list[] = {
        {{"dropout", with_dropout, false, true, 0}, "draws random numbers"},
        {{"batch norm", with_batch_norm, false, true, 0}, "each replica changes \"norm.running_mean\""},
        {{"branch", with_a_branch, false, true, 0}, "branches or loops"},
        {{"apart", with_much_that_is_apart, false, true, 0}, "\"resize\" takes a large part of the work"},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        outcome o = train(&list[i].r, (ipu_executor_options){.replicas = 4}, NULL, 12);
        if (!strstr(ipu_executor_fold_reason(o.x), list[i].reason))
            fail_msg("%s: expected \"%s\" in: %s", list[i].r.name, list[i].reason,
                     ipu_executor_fold_reason(o.x));
        end(&o);
    }
}

/* The statistics are there and stay: batch norm after training is an op like others. */
static void batch_norm_folds_after_training(void **state)
{
    (void)state;
    static const row r = {"batch norm", with_batch_norm, false, true, 0};
    inference_folds_too(&(void *){(void *)(uintptr_t)&r});
}

static void replicas_drop_different_elements(void **state)
{
    (void)state;
    const row            r    = {"dropout", with_dropout, false, true, 0};
    ipu_executor_options o    = {.replicas = 4, .input_group_size = 4}; /* all see the same samples */
    outcome              t    = train(&r, o, NULL, 3);
    const float         *loss = ipu_executor_output(t.x, "loss")->data;
    for (int i = 1; i < 4; i++) assert_true(loss[i] != loss[0]);
    end(&t);
}

/* ---- what others see ---- */

static void a_folded_executor_counts_as_its_replicas(void **state)
{
    (void)state;
    ipu_cost_summary s[2];
    for (int k = 0; k < 2; k++) {
        ipu_cost *cost;
        outcome   o = train(&rows[0], (ipu_executor_options){.replicas = 4, .no_fold = k == 1}, NULL, 8);
        OK(ipu_executor_cost(o.x, NULL, &cost));
        ipu_cost_get_summary(cost, &s[k]);
        ipu_cost_destroy(cost);
        assert_int_equal(ipu_device_n_ipus(ipu_engine_device(ipu_executor_engine(o.x))), 4);
        end(&o);
    }
    assert_int_equal(s[0].replication, 4);
    assert_int_equal(s[0].cycles.total, s[1].cycles.total);
    assert_int_equal(s[0].memory_total, s[1].memory_total);
    assert_true(s[0].operations == s[1].operations);
}

static void states_go_between_folded_and_not(void **state)
{
    (void)state;
    outcome a = train(&rows[2], (ipu_executor_options){.replicas = 4}, NULL, 8);
    outcome b = train(&rows[2], (ipu_executor_options){.replicas = 4, .no_fold = true}, NULL, 16);
    ipu_npz z;
    OK(ipu_executor_get_state(a.x, &z));
    OK(ipu_executor_set_state(b.x, &z));
    compare_states("mlp", &a, &b, 0);
    ipu_npz_free(&z);
    end(&a);
    end(&b);
}

static void reasons_come_with_compiling(void **state)
{
    (void)state;
    ipu_module   *module = module_of(&rows[2]);
    ipu_executor *x;
    OK(ipu_training_model(module, NULL, NULL, &x));
    assert_null(ipu_executor_fold_reason(x));
    batch s = samples(&rows[2], 4, 1);
    OK(ipu_executor_run(x, s.in, 2));
    assert_string_equal(ipu_executor_fold_reason(x), "there is one replica");
    for (int k = 0; k < 2; k++) ipu_array_free(&s.in[k]);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

int main(void)
{
    struct CMUnitTest tests[3 * N_ROWS + 9] = {{0}};
    char              names[3 * N_ROWS][80];
    size_t            n = 0;
    const struct {
        const char        *what;
        CMUnitTestFunction fn;
    } each[] = {{"folded and not", folded_replicas_give_what_replicas_give},
                {"one large batch", folded_replicas_are_one_large_batch},
                {"inference", inference_folds_too}};
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < N_ROWS; i++) {
            if (each[k].fn == folded_replicas_are_one_large_batch && rows[i].is_not_a_mean) continue;
            snprintf(names[n], sizeof names[n], "%s: %s", rows[i].name, each[k].what);
            tests[n] = (struct CMUnitTest){names[n], each[k].fn, NULL, NULL, (void *)(uintptr_t)&rows[i]};
            n++;
        }
    const struct CMUnitTest others[] = {
        cmocka_unit_test(options_of_training_do_not_mind_folding),
        cmocka_unit_test(halves_fold_too),
        cmocka_unit_test(what_cannot_be_folded_says_why),
        cmocka_unit_test(batch_norm_folds_after_training),
        cmocka_unit_test(replicas_drop_different_elements),
        cmocka_unit_test(a_folded_executor_counts_as_its_replicas),
        cmocka_unit_test(states_go_between_folded_and_not),
        cmocka_unit_test(reasons_come_with_compiling),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) tests[n++] = others[i];
    return _cmocka_run_group_tests("folding replicas", tests, n, NULL, NULL);
}
