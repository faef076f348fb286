/* Networks in half: which ops run in which type, what stays float, and what is rounded stochastically. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "model/nn/nn.h"
#include "model/precision/precision.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static void halve(ipu_model *m, bool weights)
{
    assert_string_equal(ipu_builder_message(&m->base), "");
    if (ipu__model_to_half(m, weights) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
}

static void round_at_random(ipu_model *m)
{
    if (ipu__model_round_at_random(m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
}

/* The type of the first result of op `name`; bool if there is none. */
static ipu_type type_of(const ipu_model *m, const char *name)
{
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (!op->dead && op->kind == IPU__MODEL_OP && strcmp(op->def->kernel.name, name) == 0)
            return m->base.values.at[op->first_out].type;
    }
    return IPU_BOOL;
}

static int count(const ipu_model *m, const char *name)
{
    int n = 0;
    for (size_t i = 0; i < m->ops.n; i++)
        n += !m->ops.at[i].dead && m->ops.at[i].kind == IPU__MODEL_OP
          && strcmp(m->ops.at[i].def->kernel.name, name) == 0;
    return n;
}

/* A network with something of every kind. */
static ipu_model *network(ipu_value *loss)
{
    ipu_model   *m      = new_model();
    ipu_builder *b      = &m->base;
    ipu_value    x      = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 3, 8, 8), "x");
    ipu_value    labels = ipu_model_input(m, IPU_INT32, IPU_SHAPE(4), "labels");
    x                   = ipu_relu(b, ipu_nn_conv(m, x, 6, 3, "conv"));
    x                   = ipu_nn_batch_norm(m, x, "norm");
    x                   = ipu_tanh(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 5, "fc"));
    ipu_model_output(m, x, "features");
    *loss = ipu_nll_loss(b, ipu_log_softmax(b, x, 1), labels);
    ipu_nn_loss(m, *loss, "loss");
    return m;
}

static void products_run_in_half_and_probabilities_in_float(void **state)
{
    (void)state;
    ipu_value  loss;
    ipu_model *m = network(&loss);
    halve(m, false);
    assert_int_equal(type_of(m, "conv"), IPU_HALF);
    assert_int_equal(type_of(m, "relu"), IPU_HALF);
    assert_int_equal(type_of(m, "batch_norm"), IPU_HALF);
    assert_int_equal(type_of(m, "matmul"), IPU_HALF);
    assert_int_equal(type_of(m, "tanh"), IPU_HALF);
    assert_int_equal(type_of(m, "log_softmax"), IPU_FLOAT);
    assert_int_equal(type_of(m, "nll"), IPU_FLOAT);
    for (size_t i = 0; i < m->outputs.n; i++)
        assert_int_equal(ipu_value_type(ipu_model_output_at(m, i, NULL)), IPU_FLOAT);
    for (size_t i = 0; i < m->parameters.n; i++)
        assert_int_equal(ipu_value_type(ipu_model_parameter_at(m, i)), IPU_FLOAT);
    for (size_t i = 0; i < m->states.n; i++) /* running means */
        assert_int_equal(ipu_value_type(ipu__model_handle(m, m->states.at[i])), IPU_FLOAT);
    ipu_model_destroy(m);
}

static void gradients_are_of_the_type_of_their_weights(void **state)
{
    (void)state;
    for (int weights = 0; weights < 2; weights++) {
        ipu_value  loss, w[6], dw[6];
        ipu_model *m = network(&loss);
        halve(m, weights);
        size_t n = ipu_model_n_parameters(m);
        assert_int_equal(n, 6);
        for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
        ipu_model_gradients(m, loss, w, n, NULL, dw);
        assert_string_equal(ipu_builder_message(&m->base), "");
        for (size_t i = 0; i < n; i++)
            assert_int_equal(ipu_value_type(dw[i]), weights ? IPU_HALF : IPU_FLOAT);
        ipu_model_destroy(m);
    }
}

static void weights_begin_with_what_they_began_with_rounded(void **state)
{
    (void)state;
    const float initial[] = {1 + 0x1p-12f, -2, 1e-9f, 70000};
    ipu_model  *m         = new_model();
    ipu_value   x         = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(1, 4), "x");
    ipu_value   w         = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4, 1), initial, "w");
    ipu_model_output(m, ipu_matmul(&m->base, x, w), "y");
    halve(m, true);
    const ipu_half *now = m->values.at[w.id].data;
    assert_int_equal(ipu_value_type(w), IPU_HALF);
    for (int i = 0; i < 4; i++) assert_int_equal(now[i].bits, ipu_half_from_float(initial[i]).bits);
    ipu_model_destroy(m);
}

/* A mask of -1e9 would become minus infinity, an epsilon of 1e-12 zero. */
static void constants_that_half_cannot_hold_keep_their_ops_in_float(void **state)
{
    (void)state;
    static const double values[] = {-1e9, 1e-12, 0.5, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        ipu_model   *m = new_model();
        ipu_builder *b = &m->base;
        ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3, 3), "x");
        ipu_value    y = ipu_matmul(b, x, x);
        ipu_model_output(m, ipu_maximum(b, y, ipu_scalar_like(b, y, values[i])), "y");
        halve(m, false);
        assert_int_equal(type_of(m, "matmul"), IPU_HALF);
        assert_int_equal(type_of(m, "maximum"), i < 2 ? IPU_FLOAT : IPU_HALF);
        ipu_model_destroy(m);
    }
}

static void wishes_of_the_user_and_other_types_are_left(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = &m->base;
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3, 3), "x");
    ipu_value    d = ipu_model_input(m, IPU_DOUBLE, IPU_SHAPE(3, 3), "d");
    ipu_value    y = ipu_cast(b, ipu_matmul(b, x, x), IPU_FLOAT);
    ipu_model_output(m, ipu_tanh(b, ipu_add(b, y, x)), "y");
    ipu_model_output(m, ipu_sqrt(b, ipu_matmul(b, d, ipu_cast(b, x, IPU_DOUBLE))), "z");
    halve(m, false);
    assert_int_equal(type_of(m, "tanh"), IPU_FLOAT);
    assert_int_equal(type_of(m, "sqrt"), IPU_DOUBLE);
    ipu_model_destroy(m);
}

static void branches_and_loops_give_what_they_gave(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = &m->base;
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3, 3), "x"), inside, index, out;
    ipu_value    y = ipu_matmul(b, x, x);
    ipu_model_loop(m, 3, IPU_NO_VALUE, &y, 1, &inside, &index);
    ipu_value next = ipu_relu(b, ipu_matmul(b, inside, x));
    ipu_model_yield(m, &next, 1);
    ipu_model_end(m, &out, 1);
    ipu_model_if(m, ipu_greater(b, ipu_reduce_sum(b, out, NULL, 0, false),
                                ipu_constant_value(b, IPU_FLOAT, IPU_SCALAR, 0)));
    ipu_value a = ipu_tanh(b, ipu_matmul(b, out, out));
    ipu_model_yield(m, &a, 1);
    ipu_model_else(m);
    ipu_model_yield(m, &y, 1);
    ipu_model_end(m, &out, 1);
    ipu_model_output(m, out, "y");
    halve(m, false);
    assert_int_equal(type_of(m, "matmul"), IPU_HALF);
    assert_int_equal(type_of(m, "tanh"), IPU_HALF);
    assert_int_equal(ipu_value_type(ipu_model_output_at(m, 0, NULL)), IPU_FLOAT);
    round_at_random(m);
    assert_int_equal(type_of(m, "matmul"), IPU_FLOAT);
    ipu_model_destroy(m);
}

static void what_is_cast_once_serves_all_in_its_place(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = &m->base;
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3, 3), "x");
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(3, 3), NULL, "w");
    ipu_value    y = ipu_matmul(b, x, w);
    for (int i = 0; i < 5; i++) y = ipu_matmul(b, y, w);
    ipu_model_output(m, y, "y");
    halve(m, false);
    assert_int_equal(count(m, "cast"), 3); /* x, w, and y at the end */
    ipu_model_destroy(m);
}

/* Nothing is rounded to half in another way, except constants and values exact in half. */
static void every_rounding_is_at_random(void **state)
{
    (void)state;
    ipu_value  loss, w[6], dw[6];
    ipu_model *m = network(&loss);
    halve(m, true);
    round_at_random(m);
    for (size_t i = 0; i < 6; i++) w[i] = ipu_model_parameter_at(m, i);
    ipu_model_gradients(m, loss, w, 6, NULL, dw);
    round_at_random(m);
    int n = 0;
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (op->dead || m->base.values.at[op->first_out].type != IPU_HALF) continue;
        bool is_random = strcmp(op->def->kernel.name, "cast_stochastic") == 0;
        n += is_random;
        bool is_constant = strcmp(op->def->kernel.name, "cast") == 0
                        && m->values.at[op->in[0]].kind == IPU__VALUE_CONSTANT;
        if (!is_random && !is_constant && !ipu__is_exact_in_half(op->def))
            fail_msg("%s rounds to half", op->def->kernel.name);
    }
    assert_true(n > 10);
    size_t before = m->ops.n;
    round_at_random(m); /* nothing is left to do */
    assert_int_equal(m->ops.n, before);
    ipu_model_destroy(m);
}

/* Masks and roundings with the same key would depend on the same random words. */
static void masks_and_roundings_have_keys_of_their_own(void **state)
{
    (void)state;
    ipu_model    *m       = new_model();
    ipu_builder  *b       = &m->base;
    ipu_value     x       = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_attribute p       = IPU_FLOAT_ATTRIBUTE("p", 0.5);
    const char   *names[] = {"fc1", "fc2", "fc3"};
    for (int i = 0; i < 3; i++) {
        x              = ipu_nn_linear(m, x, 8, names[i]);
        ipu_value in[] = {x, ipu_model_seed(m)};
        ipu_emit(b, "dropout", &p, 1, in, 2, &x, 1); /* like a front end, which does not know keys */
    }
    ipu_model_output(m, x, "y");
    halve(m, true);
    round_at_random(m);

    bool   taken[64] = {false};
    size_t n_masks = 0, n_roundings = 0;
    for (size_t i = 0; i < m->ops.n; i++) {
        const ipu__model_op *op = &m->ops.at[i];
        if (op->dead || op->kind != IPU__MODEL_OP) continue;
        bool is_mask = strcmp(op->def->kernel.name, "dropout") == 0;
        if (!is_mask && strcmp(op->def->kernel.name, "cast_stochastic") != 0) continue;
        ipu__kernel_call call = ipu__model_call(m, op);
        int64_t          key  = ipu__op_int(&call, "key");
        assert_in_range(key, 0, IPU__COUNT(taken) - 1);
        if (taken[key]) fail_msg("two ops have key %d", (int)key);
        taken[key] = true;
        n_masks += is_mask;
        n_roundings += !is_mask;
    }
    assert_int_equal(n_masks, 3);
    assert_true(n_roundings >= 3);
    ipu_model_destroy(m);
}

/* An op emitted again with its key draws the same numbers; a key in use is not assigned again. */
static void keys_that_are_given_are_kept_and_not_given_again(void **state)
{
    (void)state;
    ipu_model    *m      = new_model();
    ipu_builder  *b      = &m->base;
    ipu_value     x      = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_value     in[]   = {x, ipu_model_seed(m)};
    ipu_attribute with[] = {IPU_FLOAT_ATTRIBUTE("p", 0.5), IPU_INT_ATTRIBUTE("key", 5)};
    ipu_value     y;
    ipu_emit(b, "dropout", with, 2, in, 2, &y, 1);
    assert_int_equal(b->next_key, 6);
    with[1].i = 2;
    ipu_emit(b, "dropout", with, 2, in, 2, &y, 1);
    assert_int_equal(b->next_key, 6);
    with[1].i = UINT32_MAX; /* one for initial values */
    ipu_emit(b, "dropout", with, 2, in, 2, &y, 1);
    assert_int_equal(b->next_key, 6);
    ipu_dropout(b, x, in[1], 0.5);
    assert_int_equal(b->next_key, 7);
    assert_string_equal(ipu_builder_message(b), "");
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_run_in_half_and_probabilities_in_float),
        cmocka_unit_test(gradients_are_of_the_type_of_their_weights),
        cmocka_unit_test(weights_begin_with_what_they_began_with_rounded),
        cmocka_unit_test(constants_that_half_cannot_hold_keep_their_ops_in_float),
        cmocka_unit_test(wishes_of_the_user_and_other_types_are_left),
        cmocka_unit_test(branches_and_loops_give_what_they_gave),
        cmocka_unit_test(what_is_cast_once_serves_all_in_its_place),
        cmocka_unit_test(every_rounding_is_at_random),
        cmocka_unit_test(masks_and_roundings_have_keys_of_their_own),
        cmocka_unit_test(keys_that_are_given_are_kept_and_not_given_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
