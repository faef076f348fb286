/* Layers: their parameters, initial values, differences in training; every optimizer through ipu_nn_train. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

static ipu_engine *start(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_engine_create(exe, NULL, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    return e;
}

static void run(ipu_engine *e)
{
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
}

static float read_float(ipu_engine *e, const char *name)
{
    float value;
    if (ipu_engine_read(e, name, &value, sizeof value) != IPU_OK) fail_msg("%s", ipu_message());
    return value;
}

/* ---- parameters ---- */

static void expect_parameters(ipu_model *m, const char *want)
{
    char found[2048] = "";
    if (ipu_builder_status(ipu_model_builder(m)) != IPU_OK)
        fail_msg("%s", ipu_builder_message(ipu_model_builder(m)));
    for (size_t i = 0; i < ipu_model_n_parameters(m); i++) {
        ipu_value v = ipu_model_parameter_at(m, i);
        size_t    n = strlen(found);
        snprintf(found + n, sizeof found - n, "%s%s:", i ? " " : "", ipu_value_name(v));
        for (int d = 0; d < ipu_value_rank(v); d++) {
            n = strlen(found);
            snprintf(found + n, sizeof found - n, d ? "x%lld" : "%lld", (long long)ipu_value_dim(v, d));
        }
    }
    assert_string_equal(found, want);
    ipu_model_destroy(m);
}

static ipu_model *model_with(ipu_shape shape, ipu_value *x)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    *x = ipu_model_input(m, IPU_FLOAT, shape, "x");
    return m;
}

static void parameters_have_pytorchs_names_and_shapes(void **state)
{
    (void)state;
    ipu_value  x, y;
    ipu_model *m = model_with(IPU_SHAPE(2, 6, 9, 9), &x);
    y = ipu_nn_conv_with(m, x, 8, 3, (ipu_nn_options){.groups = 2, .no_bias = true, .padding = 1}, "c");
    y = ipu_nn_group_norm(m, ipu_nn_batch_norm(m, y, "b"), 4, "g");
    y = ipu_nn_conv_with(m, y, 4, 2, (ipu_nn_options){.stride = 2, .transposed = true}, "t");
    assert_int_equal(ipu_value_dim(y, 2), 18);
    ipu_nn_linear(m, ipu_nn_layer_norm(m, ipu_nn_rms_norm(m, y, "r"), 2, "l"), 5, "f");
    expect_parameters(m, "c.weight:8x3x3x3 b.weight:8 b.bias:8 g.weight:8 g.bias:8 t.weight:8x4x2x2 t.bias:4 "
                         "r.weight:18 l.weight:18x18 l.bias:18x18 f.weight:5x18 f.bias:5");
    m = model_with(IPU_SHAPE(3, 2, 4), &x);
    ipu_value last;
    y = ipu_nn_gru(m, x, 5, (ipu_nn_recurrent_options){.n_layers = 2, .bidirectional = true, .no_bias = true},
                   &last, "r");
    assert_int_equal(ipu_value_dim(y, 2), 10);
    assert_int_equal(ipu_value_dim(last, 0), 4);
    expect_parameters(m, "r.weight_ih_l0:15x4 r.weight_hh_l0:15x5 r.weight_ih_l0_reverse:15x4 "
                         "r.weight_hh_l0_reverse:15x5 r.weight_ih_l1:15x10 r.weight_hh_l1:15x5 "
                         "r.weight_ih_l1_reverse:15x10 r.weight_hh_l1_reverse:15x5");
    m = model_with(IPU_SHAPE(2, 3, 4), &x);
    ipu_nn_encoder_layer(m, x, IPU_NO_VALUE, (ipu_nn_encoder_options){.n_heads = 2, .n_inner = 8}, "e");
    expect_parameters(m, "e.self_attn.in_proj_weight:12x4 e.self_attn.in_proj_bias:12 "
                         "e.self_attn.out_proj.weight:4x4 e.self_attn.out_proj.bias:4 e.norm1.weight:4 "
                         "e.norm1.bias:4 e.linear1.weight:8x4 e.linear1.bias:8 e.linear2.weight:4x8 "
                         "e.linear2.bias:4 e.norm2.weight:4 e.norm2.bias:4");
}

static void weights_begin_within_their_bounds_and_differ(void **state)
{
    (void)state;
    enum { IN = 100, OUT = 50 };
    static float a[OUT * IN], b[OUT * IN], table[200 * 10];
    ipu_value    x;
    ipu_model   *m = model_with(IPU_SHAPE(2, IN), &x);
    ipu_value y = ipu_add(ipu_model_builder(m), ipu_nn_linear(m, x, OUT, "a"), ipu_nn_linear(m, x, OUT, "b"));
    ipu_value i = ipu_model_input(m, IPU_INT32, IPU_SHAPE(3), "i");
    ipu_model_output(m, y, "y");
    ipu_model_output(m, ipu_nn_embedding(m, i, 200, 10, "table"), "rows");
    ipu_engine *e = start(m);
    ipu_model_destroy(m);
    assert_int_equal(ipu_engine_read(e, "a.weight", a, sizeof a), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "b.weight", b, sizeof b), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "table.weight", table, sizeof table), IPU_OK);
    assert_memory_not_equal(a, b, sizeof a);
    double squares = 0, normal = 0;
    for (int k = 0; k < OUT * IN; k++) {
        assert_true(fabsf(a[k]) <= 0.1f); /* 1 / sqrt(100) */
        squares += (double)a[k] * (double)a[k] / (OUT * IN);
    }
    for (int k = 0; k < 2000; k++) normal += (double)table[k] * (double)table[k] / 2000;
    assert_true(fabs(squares - 0.01 / 3) < 0.0003);
    assert_true(fabs(normal - 1) < 0.2);
    ipu_engine_destroy(e);
}

/* ---- training and inference ---- */

static void dropout_and_batch_norm_rest_after_training(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        ipu_value  x;
        ipu_model *m = model_with(IPU_SHAPE(4, 1), &x);
        ipu_nn_set_training(m, training);
        ipu_model_output(
            m, ipu_reduce_sum(ipu_model_builder(m), ipu_nn_batch_norm(m, x, "b"), NULL, 0, false), "y");
        assert_int_equal(ipu_nn_dropout(m, x, 0.5).id == x.id, !training);
        ipu_engine *e = start(m);
        ipu_model_destroy(m);
        assert_int_equal(ipu_engine_write(e, "x", (float[]){1, 2, 3, 6}, 4 * sizeof(float)), IPU_OK);
        run(e);
        float y = read_float(e, "y"), mean = read_float(e, "b.running_mean"),
              var = read_float(e, "b.running_var");
        assert_true(fabsf(y - (training ? 0 : 12))
                    < 1e-3f); /* normalised by its own statistics, or by mean 0 and variance 1 */
        assert_true(fabsf(mean - (training ? 0.3f : 0)) < 1e-6f);
        assert_true(fabsf(var - (training ? 0.9f + 0.1f * 14 / 3 : 1)) < 1e-5f);
        ipu_engine_destroy(e);
    }
}

/* ---- optimizers ---- */

/* A line through points, and a parameter the loss does not depend on. */
static ipu_model *line(ipu_nn_optimizer how)
{
    ipu_value    x;
    ipu_model   *m = model_with(IPU_SHAPE(8, 1), &x);
    ipu_builder *b = ipu_model_builder(m);
    ipu_model_parameter(m, IPU_FLOAT, IPU_SCALAR, (float[]){7}, "unused");
    ipu_value y    = ipu_add(b, ipu_mul(b, x, ipu_scalar_like(b, x, 3)), ipu_scalar_like(b, x, -1));
    ipu_value loss = ipu_mse_loss(b, ipu_nn_linear(m, x, 1, "f"), y, IPU_LOSS_MEAN);
    ipu_model_output(m, loss, "loss");
    ipu_nn_train(m, loss, how);
    return m;
}

static void every_optimizer_fits_a_line(void **state)
{
    (void)state;
    const ipu_nn_optimizer list[] = {
        {.rate = 0.1},
        {.rate = 0.05, .momentum = 0.9, .nesterov = true},
        {.rate = 0.05, .momentum = 0.5, .dampening = 0.3},
        {.kind = IPU_NN_ADAM, .rate = 0.1},
        {.kind = IPU_NN_ADAM, .rate = 0.1, .amsgrad = true},
        {.kind = IPU_NN_ADAMW, .rate = 0.1, .weight_decay = 1e-4},
        {.kind = IPU_NN_ADAMAX, .rate = 0.1},
        {.kind = IPU_NN_RMSPROP, .rate = 0.01, .centered = true, .momentum = 0.5},
        {.kind = IPU_NN_ADAGRAD, .rate = 0.5},
        {.kind = IPU_NN_LAMB, .rate = 0.05},
        {.kind = IPU_NN_ADADELTA, .rate = 1, .epsilon = 1e-3},
        {.rate = 0.1, .momentum = 0.5, .weight_decay = 1e-4, .decay = IPU_DECAY_DECOUPLED},
    };
    float points[8];
    for (int i = 0; i < 8; i++) points[i] = (float)(i - 4) / 2;
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        ipu_model  *m = line(list[k]);
        ipu_engine *e = start(m);
        ipu_model_destroy(m);
        assert_int_equal(ipu_engine_write(e, "x", points, sizeof points), IPU_OK);
        run(e);
        float first = read_float(e, "loss");
        for (int step = 0; step < 300; step++) run(e);
        float last = read_float(e, "loss");
        if (!(last < 0.02f * first)) fail_msg("optimizer %zu: loss %g to %g", k, (double)first, (double)last);
        assert_true(read_float(e, "unused") == 7);
        assert_true(read_float(e, "learning_rate") == (float)list[k].rate);
        assert_int_equal(ipu_engine_write(e, "learning_rate", &(float){0}, sizeof(float)), IPU_OK);
        run(e);
        float before = read_float(e, "f.weight");
        if (list[k].momentum == 0) { /* at rate zero only momentum moves anything */
            run(e);
            assert_true(read_float(e, "f.weight") == before);
        }
        ipu_engine_destroy(e);
    }
}

static void mistakes_are_told(void **state)
{
    (void)state;
    ipu_value  x;
    ipu_model *m = model_with(IPU_SHAPE(2, 3), &x);
    assert_int_equal(ipu_nn_conv(m, x, 4, 3, "c").id, 0);
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "expected an input of rank 3 or more"));
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "nn_test.c:"));
    ipu_model_destroy(m);
    m = model_with(IPU_SHAPE(2, 3), &x);
    ipu_nn_linear(m, x, 4, "f");
    assert_int_equal(ipu_nn_linear(m, x, 4, "f").id, 0);
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "\"f.weight\" is taken"));
    ipu_model_destroy(m);
    m = model_with(IPU_SHAPE(2, 3), &x);
    assert_int_equal(ipu_nn_linear(m, x, 4, NULL).id, 0);
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "expected a name"));
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_have_pytorchs_names_and_shapes),
        cmocka_unit_test(weights_begin_within_their_bounds_and_differ),
        cmocka_unit_test(dropout_and_batch_norm_rest_after_training),
        cmocka_unit_test(every_optimizer_fits_a_line),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
