/* Gradients of whole models, run by the engine: by hand, against finite differences, second derivatives; and what
 * is said where there is none.
 */
#include "support/derive.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static ipu_value input(ipu_model *m, ipu_shape shape, const char *name)
{
    return ipu_model_input(m, IPU_DOUBLE, shape, name);
}

static ipu_value total(ipu_builder *b, ipu_value x) { return ipu_reduce_sum(b, x, NULL, 0, false); }

static double run_and_read(ipu_engine *e, const char *name)
{
    double value;
    derive_run(e);
    derive_read(e, name, &value, sizeof value);
    return value;
}

/* ---- first derivatives ---- */

static void a_small_net_has_the_gradient_worked_out_by_hand(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SHAPE(2), "x"), w = input(m, IPU_SHAPE(2), "w"), d[2];
    /* y = sum((x w)^2): dy/dx = 2 x w^2, dy/dw = 2 x^2 w */
    ipu_value product = ipu_mul(b, x, w);
    ipu_value y       = total(b, ipu_mul(b, product, product));
    ipu_model_gradients(m, y, (ipu_value[]){x, w}, 2, NULL, d);
    ipu_model_output(m, d[0], "d_x");
    ipu_model_output(m, d[1], "d_w");
    assert_string_equal(ipu_value_name(d[0]), "grad/x");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", (double[]){3, -1}, 16);
    derive_write(e, "w", (double[]){2, 5}, 16);
    derive_run(e);
    double dx[2], dw[2];
    derive_read(e, "d_x", dx, sizeof dx);
    derive_read(e, "d_w", dw, sizeof dw);
    assert_true(dx[0] == 24 && dx[1] == -50);
    assert_true(dw[0] == 36 && dw[1] == 10);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void inputs_intermediates_and_y_itself_can_be_x(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SCALAR, "x"), d[3];
    ipu_value    h = ipu_mul(b, x, x), y = ipu_mul(b, h, h);
    ipu_model_gradients(m, y, (ipu_value[]){x, h, y}, 3, NULL, d);
    ipu_model_output(m, d[0], "d_x");
    ipu_model_output(m, d[1], "d_h");
    ipu_model_output(m, d[2], "d_y");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", &(double){3}, 8);
    assert_true(run_and_read(e, "d_x") == 4 * 27);
    assert_true(run_and_read(e, "d_h") == 18);
    assert_true(run_and_read(e, "d_y") == 1);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void a_gradient_given_for_y_is_passed_on(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SHAPE(2), "x"), g = input(m, IPU_SHAPE(2), "g"), d;
    ipu_value    y = ipu_mul(b, x, x);
    ipu_model_gradients(m, y, &x, 1, &(ipu_gradient_options){.d_y = g}, &d);
    ipu_model_output(m, d, "d");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", (double[]){3, 4}, 16);
    derive_write(e, "g", (double[]){10, -1}, 16);
    derive_run(e);
    double found[2];
    derive_read(e, "d", found, sizeof found);
    assert_true(found[0] == 60 && found[1] == -8);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void no_gradient_passes_a_stop(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SCALAR, "x"), d;
    ipu_value    y = ipu_mul(b, x, ipu_stop_gradient(b, ipu_mul(b, x, x)));
    ipu_model_gradients(m, y, &x, 1, NULL, &d);
    ipu_model_output(m, d, "d");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", &(double){3}, 8);
    assert_true(run_and_read(e, "d") == 9); /* not 27 */
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

/* ---- random expressions ---- */

static ipu_value random_expression(ipu_builder *b, unsigned *seed, ipu_value *pool, unsigned n,
                                   unsigned n_ops)
{
    for (unsigned i = 0; i < n_ops; i++, n++)
        pool[n] = derive_random_op(b, seed, pool[n - 1 - derive_draw(seed, n < 4 ? n : 4)],
                                   pool[derive_draw(seed, n)]);
    return total(b, pool[n - 1]);
}

static void random_expressions_agree_with_finite_differences(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 40; k++) {
        unsigned     seed = k;
        ipu_model   *m    = new_model();
        ipu_builder *b    = ipu_model_builder(m);
        ipu_value    pool[64];
        pool[0]     = input(m, IPU_SHAPE(3, 3), "p");
        pool[1]     = input(m, IPU_SHAPE(3, 3), "q");
        ipu_value y = random_expression(b, &seed, pool, 2, 4 + k % 20);
        /* q may not take part: then there is no gradient to ask for. */
        y = ipu_add(b, y, total(b, ipu_mul(b, pool[0], pool[1])));
        derive_check(m, y, pool, 2, NULL, k);
        ipu_model_destroy(m);
    }
}

/* ---- second derivatives ---- */

/* A small network with tanh, as a function of w. */
static ipu_value mlp(ipu_model *m, ipu_value w)
{
    ipu_builder *b = ipu_model_builder(m);
    double       data[12], more[12];
    for (int i = 0; i < 12; i++) data[i] = 0.1 * i - 0.5, more[i] = 0.3 - 0.07 * i;
    ipu_value x = ipu_constant_data(b, IPU_DOUBLE, IPU_SHAPE(4, 3), data);
    ipu_value v = ipu_constant_data(b, IPU_DOUBLE, IPU_SHAPE(4, 3), more);
    ipu_value h = ipu_tanh(b, ipu_matmul(b, x, w));
    ipu_value o = ipu_tanh(b, ipu_matmul(b, h, ipu_matmul(b, w, w)));
    ipu_value e = ipu_sub(b, o, v);
    return total(b, ipu_mul(b, e, e));
}

static void hessian_times_vector_agrees_with_differences_of_the_gradient(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    w = input(m, IPU_SHAPE(3, 3), "w"), v = input(m, IPU_SHAPE(3, 3), "v"), d;
    ipu_model_gradients(m, mlp(m, w), &w, 1, NULL, &d);
    ipu_value along = total(b, ipu_mul(b, d, v));
    derive_check(m, along, (ipu_value[]){w, v}, 2, NULL, 7);
    ipu_model_destroy(m);
}

/* The gradient of softmax is one op, which is differentiated through its composition. */
static void compositions_are_differentiated(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        ipu_model           *m = new_model();
        ipu_builder         *b = ipu_model_builder(m);
        ipu_value            x = input(m, IPU_SHAPE(2, 3), "x"), w = input(m, IPU_SHAPE(2, 3), "w"), d[2];
        ipu_value            h = ipu_tanh(b, ipu_mul(b, x, w)), s = ipu_softmax(b, ipu_exp(b, h), 1);
        ipu_value            y       = total(b, ipu_mul(b, s, ipu_mul(b, s, w)));
        ipu_gradient_options options = {.checkpoints = &h, .n_checkpoints = again ? 1 : 0};
        ipu_model_gradients(m, y, (ipu_value[]){x, w}, 2, &options, d);
        y = total(b, ipu_mul(b, d[0], ipu_sigmoid(b, d[1])));
        derive_check(m, y, (ipu_value[]){x, w}, 2, &options, 5);
        ipu_model_destroy(m);
    }
}

/* A layer that is one kernel, with a gradient that is one kernel. */
static ipu_value whole_layer(ipu_builder *b, int kind, ipu_value x, ipu_value w)
{
    ipu_recurrent_options none       = {0};
    int                   gates      = kind == 0 ? 1 : kind == 1 ? 3 : 4;
    ipu_value             all        = ipu_reshape(b, w, IPU_SHAPE(8, 2));
    ipu_value             weights[4] = {
                    ipu_slice(b, all, 0, 2 * gates, 0), ipu_slice(b, all, 8 - 2 * gates, 8, 0), {NULL, 0}, {NULL, 0}};
    if (kind == 0) return ipu_rnn(b, x, weights, 4, IPU_NO_VALUE, none, NULL);
    if (kind == 1) return ipu_gru(b, x, weights, 4, IPU_NO_VALUE, none, NULL);
    if (kind == 2) return ipu_lstm(b, x, weights, 4, IPU_NO_VALUE, IPU_NO_VALUE, none, NULL, NULL);
    ipu_value v = ipu_reshape(b, ipu_slice(b, all, 0, 6, 0), IPU_SHAPE(3, 2, 2));
    return ipu_attention(b, x, ipu_tanh(b, x), v, IPU_NO_VALUE, (ipu_attention_options){.causal = true});
}

static void whole_layers_are_taken_apart_for_second_derivatives(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++)
        for (int order = 1; order < 3; order++) {
            ipu_model   *m = new_model();
            ipu_builder *b = ipu_model_builder(m);
            ipu_value    x = input(m, IPU_SHAPE(3, 2, 2), "x"), w = input(m, IPU_SHAPE(16), "w"), d[2];
            ipu_value    h = whole_layer(b, kind, x, w), y = total(b, ipu_mul(b, h, h));
            if (order == 2) {
                ipu_model_gradients(m, y, (ipu_value[]){x, w}, 2,
                                    &(ipu_gradient_options){.higher_order = true}, d);
                y = ipu_add(b, total(b, ipu_mul(b, d[0], d[0])), total(b, ipu_mul(b, d[1], w)));
            }
            derive_check(m, y, (ipu_value[]){x, w}, 2, NULL, 3);
            ipu_model_destroy(m);
        }
}

static void third_derivatives_are_gradients_too(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SCALAR, "x"), d = ipu_mul(b, ipu_mul(b, x, x), ipu_mul(b, x, x));
    for (int i = 0; i < 3; i++) ipu_model_gradients(m, d, &x, 1, NULL, &d);
    ipu_model_output(m, d, "d");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", &(double){2}, 8);
    assert_true(run_and_read(e, "d") == 48); /* x^4 -> 24 x */
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

/* ---- errors ---- */

static void assert_says(ipu_model *m, const char *what)
{
    const char *message = ipu_builder_message(ipu_model_builder(m));
    if (!strstr(message, what)) fail_msg("expected \"%s\" in \"%s\"", what, message);
}

static void y_must_be_a_scalar_or_have_a_gradient(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = input(m, IPU_SHAPE(2), "x"), d;
    ipu_model_gradients(m, ipu_named(ipu_model_builder(m), ipu_mul(ipu_model_builder(m), x, x), "squares"),
                        &x, 1, NULL, &d);
    assert_int_equal(d.id, 0);
    assert_says(m, "\"squares\" double[2] is not a scalar");
    assert_says(m, "model_gradients_test.c:");
    ipu_model_destroy(m);
}

static void an_x_that_y_does_not_depend_on_is_named(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SHAPE(2), "x"), z = input(m, IPU_SHAPE(2), "z"), d[2];
    ipu_model_gradients(m, total(b, x), (ipu_value[]){x, z}, 2, NULL, d);
    assert_says(m, "does not depend on \"z\" double[2]");
    ipu_model_destroy(m);
}

static void the_op_that_cuts_the_path_is_named_with_its_line(void **state)
{
    (void)state;
    ipu_model   *m    = new_model();
    ipu_builder *b    = ipu_model_builder(m);
    ipu_value    x    = input(m, IPU_SHAPE(4), "x"), d;
    int          line = __LINE__ + 1;
    ipu_value    i    = ipu_argmax(b, x, 0, false);
    ipu_value    y = ipu_mul(b, ipu_cast(b, i, IPU_DOUBLE), ipu_constant_value(b, IPU_DOUBLE, IPU_SCALAR, 2));
    char         where[64];
    ipu_model_gradients(m, ipu_named(b, y, "loss"), &x, 1, NULL, &d);
    snprintf(where, sizeof where, "model_gradients_test.c:%d: argmax", line);
    assert_says(m, "\"loss\" double[] does not depend differentiably on \"x\" double[4]");
    assert_says(m, where);
    ipu_model_destroy(m);
}

static void a_stop_that_cuts_the_only_path_is_named(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SCALAR, "x"), d;
    ipu_model_gradients(m, ipu_mul(b, ipu_stop_gradient(b, x), ipu_stop_gradient(b, x)), &x, 1, NULL, &d);
    assert_says(m, "stop_gradient");
    ipu_model_destroy(m);
}

static void integers_have_no_gradient(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  i = ipu_model_input(m, IPU_INT32, IPU_SCALAR, "i"), x = input(m, IPU_SCALAR, "x"), d;
    ipu_model_gradients(m, x, &i, 1, NULL, &d);
    assert_says(m, "\"i\" int32[] has no gradient");
    ipu_model_destroy(m);
}

static void a_gradient_of_another_shape_is_refused(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SHAPE(2), "x"), g = input(m, IPU_SHAPE(3), "g"), d;
    ipu_model_gradients(m, ipu_mul(b, x, x), &x, 1, &(ipu_gradient_options){.d_y = g}, &d);
    assert_says(m, "options.d_y is \"g\" double[3]");
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_net_has_the_gradient_worked_out_by_hand),
        cmocka_unit_test(inputs_intermediates_and_y_itself_can_be_x),
        cmocka_unit_test(a_gradient_given_for_y_is_passed_on),
        cmocka_unit_test(no_gradient_passes_a_stop),
        cmocka_unit_test(random_expressions_agree_with_finite_differences),
        cmocka_unit_test(hessian_times_vector_agrees_with_differences_of_the_gradient),
        cmocka_unit_test(compositions_are_differentiated),
        cmocka_unit_test(whole_layers_are_taken_apart_for_second_derivatives),
        cmocka_unit_test(third_derivatives_are_gradients_too),
        cmocka_unit_test(y_must_be_a_scalar_or_have_a_gradient),
        cmocka_unit_test(an_x_that_y_does_not_depend_on_is_named),
        cmocka_unit_test(the_op_that_cuts_the_path_is_named_with_its_line),
        cmocka_unit_test(a_stop_that_cuts_the_only_path_is_named),
        cmocka_unit_test(integers_have_no_gradient),
        cmocka_unit_test(a_gradient_of_another_shape_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
