/* States of executors: who has the newest, parts of them, seeds, and executors that go on where another one is. */
#include <inttypes.h>
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

enum { FEATURES = 3, MOST = 16 };

/* Parameters, running means, random numbers and states of an optimizer. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)n, (void)user;
    ipu_value x = ipu_nn_dropout(m, ipu_nn_linear(m, in[0], 8, "hidden"), 0.5);
    x           = ipu_nn_linear(m, ipu_nn_batch_norm(m, x, "norm"), 2, "out");
    ipu_model_output(m, x, "y");
    if (ipu_nn_is_training(m))
        ipu_nn_loss(m, ipu_reduce_mean(b, ipu_mul(b, x, x), (int[]){0, 1}, 2, false), "loss");
}

/* y = total + x, total += mean of x */
static void adding(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    total = ipu_model_state(m, IPU_FLOAT, IPU_SCALAR, NULL, "total");
    (void)n, (void)user;
    ipu_model_output(m, ipu_add(b, total, in[0]), "y");
    ipu_model_update(m, total, ipu_add(b, total, ipu_reduce_mean(b, in[0], (int[]){0}, 1, false)));
}

static void drawing(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_model_output(m, ipu_dropout(ipu_model_builder(m), in[0], ipu_model_seed(m), 0.5), "y");
}

static float inputs[MOST * FEATURES];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < MOST * FEATURES; i++) inputs[i] = (float)(i * 7 % 11) - 5;
    return 0;
}

typedef struct trained {
    ipu_module   *module;
    ipu_executor *x;
} trained;

static trained make(ipu_forward_fn fn, ipu_executor_options options, bool training)
{
    static const ipu_nn_training adam = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.05}};
    trained                      t;
    OK(ipu_module_create(fn, NULL, &t.module));
    OK(training ? ipu_training_model(t.module, &options, &adam, &t.x)
                : ipu_inference_model(t.module, &options, &t.x));
    return t;
}

static void destroy(trained t)
{
    ipu_executor_destroy(t.x);
    ipu_module_destroy(t.module);
}

static void step(trained t, int64_t n)
{
    OK(ipu_executor_run(t.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(n, FEATURES), inputs}, 1));
}

static ipu_npz state_of(trained t)
{
    ipu_npz z;
    OK(ipu_executor_get_state(t.x, &z));
    return z;
}

static void expect_same(const ipu_npz *a, const ipu_npz *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        assert_string_equal(a->arrays[i].name, b->arrays[i].name);
        assert_memory_equal(a->arrays[i].array.data, b->arrays[i].array.data,
                            ipu_array_bytes(&a->arrays[i].array));
    }
}

/* `n` values of x, each of them `in`; the first y of each of two replicas. */
static void expect_y(trained t, int64_t n, float in, float first, float second)
{
    float data[MOST];
    for (int i = 0; i < MOST; i++) data[i] = in;
    OK(ipu_executor_run(t.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(n), data}, 1));
    const float *y = ipu_executor_output(t.x, "y")->data;
    assert_true(y[0] == first && y[n / 2] == second);
}

/* ---- who has the newest weights ---- */

static void a_module_knows_when_it_is_behind(void **state)
{
    (void)state;
    trained          t     = make(forward, (ipu_executor_options){0}, true);
    trained          other = make(forward, (ipu_executor_options){0}, true);
    const ipu_array *unused;
    assert_false(ipu_module_is_behind(t.module));
    step(t, 4);
    step(other, 4);
    for (int i = 0; i < 2; i++) {
        int64_t before = ipu_module_version(t.module);
        step(t, 4);
        assert_true(ipu_module_is_behind(t.module));
        assert_int_equal(ipu_module_version(t.module), before); /* what it has itself has not changed */
        OK(ipu_module_weight(t.module, "out.weight", &unused));
        assert_false(ipu_module_is_behind(t.module));
        assert_true(ipu_module_version(t.module) > before);
        OK(ipu_module_weight(other.module, "out.weight", &unused));
        assert_int_not_equal(ipu_module_version(t.module), ipu_module_version(other.module));
    }
    int64_t before = ipu_module_version(t.module);
    OK(ipu_module_set_weight(t.module, "out.bias", &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), inputs}));
    assert_true(ipu_module_version(t.module) > before && !ipu_module_is_behind(t.module));
    destroy(other);
    destroy(t);
}

/* ---- parts of a state ---- */

static bool is_moment(const char *name) { return strstr(name, ".square") != NULL; }

static void parts_of_a_state_are_set_alone(void **state)
{
    (void)state;
    trained t = make(forward, (ipu_executor_options){0}, true);
    step(t, 4);
    ipu_npz first = state_of(t);
    step(t, 4);
    ipu_npz         second = state_of(t);
    ipu_named_array some[MOST];
    ipu_npz         moments = {.arrays = some};
    for (size_t i = 0; i < first.n; i++)
        if (is_moment(first.arrays[i].name)) {
            assert_true(moments.n < MOST);
            ipu_array later        = second.arrays[i].array;
            second.arrays[i].array = first.arrays[i].array; /* what is expected */
            first.arrays[i].array  = later;
            some[moments.n++]      = second.arrays[i];
        }
    assert_true(moments.n > 0);
    const ipu_array *unused;
    OK(ipu_module_weight(t.module, "out.weight", &unused));
    OK(ipu_executor_update_state(t.x, &moments));
    assert_false(ipu_module_is_behind(t.module)); /* weights are as they were */
    ipu_npz found = state_of(t);
    expect_same(&found, &second);
    ipu_npz_free(&found);
    float     bias[2] = {3, 4};
    ipu_array a       = {IPU_FLOAT, IPU_SHAPE(2), bias};
    OK(ipu_executor_update_state(t.x, &(ipu_npz){&(ipu_named_array){(char *)"out.bias", a}, 1}));
    assert_true(ipu_module_is_behind(t.module));
    OK(ipu_module_weight(t.module, "out.bias", &unused));
    assert_memory_equal(unused->data, bias, sizeof bias);
    ipu_npz_free(&second);
    ipu_npz_free(&first);
    destroy(t);
}

static void refuse(trained t, const char *name, ipu_array a, const char *why)
{
    float           more    = 9;
    ipu_named_array some[2] = {{(char *)"total", {IPU_FLOAT, IPU_SCALAR, &more}},
                               {(char *)(uintptr_t)name, a}};
    assert_int_equal(ipu_executor_update_state(t.x, &(ipu_npz){some, 2}), IPU_INVALID);
    if (!strstr(ipu_message(), why)) fail_msg("%s", ipu_message());
}

static void a_part_that_is_wrong_changes_nothing(void **state)
{
    (void)state;
    trained   t    = make(adding, (ipu_executor_options){.replicas = 2, .no_fold = true}, false);
    float     five = 5;
    ipu_array a    = {IPU_FLOAT, IPU_SCALAR, &five};
    refuse(t, "total", a, "not been compiled");
    expect_y(t, 2, 1, 1, 1);
    refuse(t, "totals", a, "no array \"totals\"");
    refuse(t, "total@2", a, "no array \"total@2\"");
    refuse(t, "total@1x", a, "no array \"total@1x\"");
    refuse(t, "total@1", (ipu_array){IPU_FLOAT, IPU_SHAPE(1), &five}, "rank 0, found float of 1 and rank 1");
    refuse(t, "total@1", (ipu_array){IPU_INT32, IPU_SCALAR, &five}, "expected float");
    expect_y(t, 2, 0, 1, 1);
    OK(ipu_executor_update_state(t.x, &(ipu_npz){&(ipu_named_array){(char *)"total@1", a}, 1}));
    expect_y(t, 2, 0, 1, 5);
    destroy(t);
}

/* ---- another executor goes on ---- */

/* All but running means: of those of each replica a module has the first. */
static void expect_same_but_means(const ipu_npz *a, const ipu_npz *b)
{
    size_t n = 0;
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const ipu_named_array *p = &a->arrays[i], *q = &b->arrays[i];
        if (strncmp(p->name, "norm.", 5) != 0 && ++n)
            assert_memory_equal(p->array.data, q->array.data, ipu_array_bytes(&p->array));
    }
    assert_true(n > 10);
}

static void give_weights(trained from, trained to)
{
    for (size_t i = 0; i < ipu_module_n_weights(from.module); i++) {
        const char      *name;
        const ipu_array *a;
        OK(ipu_module_weight_at(from.module, i, &name, &a));
        OK(ipu_module_set_weight(to.module, name, a));
    }
}

/* As front ends do where they capture another network for each shape. */
static void training_goes_on_in_another_module_bit_for_bit(void **state)
{
    (void)state;
    const ipu_executor_options ways[] = {{0},
                                         {.optimizer_off_chip = true},
                                         {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true},
                                         {.replicas = 2},
                                         {.replicas = 2, .no_fold = true, .shard_optimizer = true}};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        trained t = make(forward, ways[k], true), other = make(forward, ways[k], true);
        step(other, 4);
        step(t, 4);
        step(t, 4);
        for (int has_given = 0; has_given < 2;
             has_given++) { /* the weights are the device's alone, or in both modules */
            if (has_given) give_weights(t, other);
            OK(ipu_executor_take_over(other.x, t.x));
            ipu_npz expected = state_of(t), found = state_of(other);
            if (ways[k].replicas == 0 || !has_given)
                expect_same(&found, &expected);
            else
                expect_same_but_means(&found, &expected);
            ipu_npz_free(&found);
            ipu_npz_free(&expected);
            step(t, 4);
            step(other, 4);
            const float *y = ipu_executor_output(t.x, "y")->data;
            assert_memory_equal(ipu_executor_output(other.x, "y")->data, y, 8);
        }
        destroy(t);
        destroy(other);
    }
}

static void states_of_inference_go_on_in_another_module(void **state)
{
    (void)state;
    const ipu_executor_options two = {.replicas = 2, .no_fold = true, .attach = IPU_ATTACH_ON_DEMAND};
    trained                    t = make(adding, two, false), other = make(adding, two, false);
    trained                    alone = make(adding, (ipu_executor_options){0}, false);
    float                      in[2] = {1, 5}, zero = 0;
    OK(ipu_executor_take_over(t.x, other.x)); /* which has never been anywhere */
    OK(ipu_executor_run(t.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), in}, 1));
    assert_int_equal(ipu_executor_take_over(other.x, t.x), IPU_INVALID);
    if (!strstr(ipu_message(), "attach")) fail_msg("%s", ipu_message());
    OK(ipu_executor_compile(other.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(4), NULL}, 1));
    OK(ipu_executor_attach(other.x));
    OK(ipu_executor_take_over(other.x, t.x));
    assert_true(ipu_module_is_behind(t.module) && ipu_module_is_behind(other.module));
    expect_y(other, 4, 0, 1, 5); /* each replica has its own */
    expect_y(other, 4, 2, 3, 7);
    OK(ipu_executor_take_over(t.x, other.x)); /* and back */
    expect_y(t, 2, 0, 3, 7);
    OK(ipu_module_set_weight(t.module, "total", &(ipu_array){IPU_FLOAT, IPU_SCALAR, &zero}));
    OK(ipu_executor_take_over(other.x, t.x)); /* whose weights are the host's: each module has its own */
    expect_y(other, 4, 0, 3, 7);
    OK(ipu_executor_run(alone.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), in}, 1));
    assert_int_equal(ipu_executor_take_over(alone.x, t.x), IPU_INVALID);
    if (!strstr(ipu_message(), "of 1 replicas, found one of 2")) fail_msg("%s", ipu_message());
    destroy(alone);
    destroy(other);
    destroy(t);
}

/* ---- seeds ---- */

static void draw(trained t, float out[4 * FEATURES])
{
    step(t, 4);
    memcpy(out, ipu_executor_output(t.x, "y")->data, 4 * FEATURES * sizeof *out);
}

static void a_seed_begins_random_numbers_anew(void **state)
{
    (void)state;
    for (int64_t replicas = 1; replicas <= 2; replicas++) {
        float   first[4 * FEATURES], second[4 * FEATURES], found[4 * FEATURES];
        trained t     = make(drawing, (ipu_executor_options){.seed = 7, .replicas = replicas}, false);
        trained other = make(drawing, (ipu_executor_options){.seed = 1, .replicas = replicas}, false);
        draw(t, first);
        draw(t, second);
        assert_memory_not_equal(first, second, sizeof first);
        OK(ipu_executor_set_seed(other.x, 5)); /* before it is compiled */
        draw(other, found);
        OK(ipu_executor_set_seed(t.x, 5));
        draw(t, first);
        assert_memory_equal(found, first, sizeof first);
        OK(ipu_executor_set_seed(t.x, 7));
        OK(ipu_executor_set_seed(other.x, 7));
        draw(t, first);
        draw(t, found);
        assert_memory_equal(found, second, sizeof second);
        draw(other, found);
        assert_memory_equal(found, first, sizeof first);
        destroy(t);
        destroy(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_module_knows_when_it_is_behind),
        cmocka_unit_test(parts_of_a_state_are_set_alone),
        cmocka_unit_test(a_part_that_is_wrong_changes_nothing),
        cmocka_unit_test(training_goes_on_in_another_module_bit_for_bit),
        cmocka_unit_test(states_of_inference_go_on_in_another_module),
        cmocka_unit_test(a_seed_begins_random_numbers_anew),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
