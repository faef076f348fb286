/* Mistakes in networks: every message must hold this file's name, the line of the wrong call, the op, and the
 * names and shapes of the values involved. What is merely empty must work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

/* A model with some values to go wrong with. */
typedef struct bench {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, w, image, labels, mask; /* float[4,6], float[6,3], float[2,3,8,8], int32[4], bool[4,6] */
} bench;

static bench start(void)
{
    bench t;
    assert_int_equal(ipu_model_create(&t.m), IPU_OK);
    t.b      = ipu_model_builder(t.m);
    t.x      = ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(4, 6), "x");
    t.w      = ipu_model_parameter(t.m, IPU_FLOAT, IPU_SHAPE(6, 3), NULL, "w");
    t.image  = ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(2, 3, 8, 8), "image");
    t.labels = ipu_model_input(t.m, IPU_INT32, IPU_SHAPE(4), "labels");
    t.mask   = ipu_model_input(t.m, IPU_BOOL, IPU_SHAPE(4, 6), "mask");
    assert_int_equal(ipu_builder_status(t.b), IPU_OK);
    return t;
}

/* The words follow, NULL at the end. */
static void expect_error(bench *t, int line, ...)
{
    char        place[64];
    va_list     words;
    const char *message = ipu_builder_message(t->b);
    snprintf(place, sizeof place, "model_errors_test.c:%d", line);
    if (ipu_builder_status(t->b) == IPU_OK) fail_msg("line %d: no error", line);
    if (!strstr(message, place)) fail_msg("expected \"%s\" in: %s", place, message);
    va_start(words, line);
    for (const char *word; (word = va_arg(words, const char *));)
        if (!strstr(message, word)) fail_msg("expected \"%s\" in: %s", word, message);
    va_end(words);
    ipu_target      target;
    ipu_executable *exe = NULL;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_compile(t->m, &target, NULL, &exe), ipu_builder_status(t->b));
    assert_non_null(strstr(ipu_message(), place));
    ipu_model_destroy(t->m);
}

#define WRONG(expression, ...)                         \
    do {                                               \
        bench     t = start();                         \
        ipu_value v = (expression);                    \
        assert_int_equal(v.id, 0);                     \
        expect_error(&t, __LINE__, __VA_ARGS__, NULL); \
    } while (0)

/* ---- ranks, shapes, types ---- */

static void wrong_ranks_are_named(void **unused)
{
    (void)unused;
    WRONG(ipu_conv(t.b, t.x, t.image, IPU_NO_VALUE, (ipu_conv_options){0}), "conv", "\"x\" float[4,6]",
          "rank");
    WRONG(ipu_conv(t.b, t.image, t.w, IPU_NO_VALUE, (ipu_conv_options){0}), "conv", "\"w\" float[6,3]");
    WRONG(ipu_cross_entropy(t.b, t.x, t.image), "\"image\" float[2,3,8,8]", "\"x\" float[4,6]");
    WRONG(ipu_group_norm(t.b, ipu_reduce_sum(t.b, t.x, NULL, 0, false), IPU_NO_VALUE, IPU_NO_VALUE, 2, 1e-5),
          "group_norm", "rank");
    WRONG(ipu_matmul(t.b, t.x, ipu_reduce_sum(t.b, t.x, NULL, 0, false)), "matmul", "\"x\" float[4,6]");
}

static void wrong_shapes_are_named(void **unused)
{
    (void)unused;
    WRONG(ipu_matmul(t.b, t.x, t.x), "matmul", "inner dimensions differ", "[4,6]", "\"x\"");
    WRONG(ipu_add(t.b, t.x, t.w), "add", "\"x\" float[4,6]", "\"w\" float[6,3]", "broadcast");
    WRONG(ipu_linear(t.b, t.x, t.w, IPU_NO_VALUE), "\"x\" float[4,6]", "\"w\" float[6,3]");
    WRONG(ipu_reshape(t.b, t.x, IPU_SHAPE(5, 5)), "reshape", "\"x\" float[4,6]", "[5,5]");
    WRONG(ipu_expand(t.b, t.x, IPU_SHAPE(4, 7)), "expand", "\"x\" float[4,6]");
    WRONG(ipu_concat(t.b, (ipu_value[]){t.x, t.w}, 2, 0), "concat", "\"x\" float[4,6]", "\"w\" float[6,3]");
    WRONG(ipu_mse_loss(t.b, t.x, t.w, IPU_LOSS_MEAN), "mse_loss", "\"w\" float[6,3]");
    WRONG(ipu_conv(t.b, t.image, ipu_constant_value(t.b, IPU_FLOAT, IPU_SHAPE(4, 3, 9, 9), 0), IPU_NO_VALUE,
                   (ipu_conv_options){0}),
          "conv", "\"image\" float[2,3,8,8]", "[4,3,9,9]");
}

static void wrong_types_are_named(void **unused)
{
    (void)unused;
    WRONG(ipu_add(t.b, t.x, t.labels), "add", "\"x\" float[4,6]", "\"labels\" int32[4]", "cast");
    WRONG(ipu_exp(t.b, t.labels), "exp", "\"labels\" int32[4]", "float");
    WRONG(ipu_softmax(t.b, t.mask, -1), "softmax", "\"mask\" bool[4,6]");
    WRONG(ipu_where(t.b, t.x, t.x, t.x), "where", "bool", "\"x\" float[4,6]");
    WRONG(ipu_logical_and(t.b, t.x, t.mask), "logical_and", "\"x\" float[4,6]");
    WRONG(ipu_nll_loss(t.b, t.x, t.mask), "\"mask\" bool[4,6]");
    WRONG(ipu_matmul(t.b, t.x, ipu_cast(t.b, t.w, IPU_HALF)), "matmul", "half[6,3]", "\"x\" float[4,6]");
}

static void wrong_parameters_are_named(void **unused)
{
    (void)unused;
    WRONG(ipu_softmax(t.b, t.x, 2), "softmax", "axis", "2", "rank 2");
    WRONG(ipu_reduce_sum(t.b, t.x, (int[]){1, -1}, 2, false), "reduce_sum", "twice");
    WRONG(ipu_group_norm(t.b, t.image, IPU_NO_VALUE, IPU_NO_VALUE, 2, 1e-5), "group_norm", "group",
          "\"image\"");
    WRONG(ipu_conv(t.b, t.image, ipu_constant_value(t.b, IPU_FLOAT, IPU_SHAPE(4, 3, 3, 3), 0), IPU_NO_VALUE,
                   (ipu_conv_options){.groups = 2}),
          "conv", "group");
    WRONG(ipu_transpose(t.b, t.x, (int[]){0, 0}, 2), "transpose", "\"x\" float[4,6]");
}

/* ---- ops by name ---- */

static void an_op_that_is_not_there_has_a_neighbour(void **unused)
{
    (void)unused;
    bench     t = start();
    ipu_value y;
    ipu_emit(t.b, "sofmax", NULL, 0, &t.x, 1, &y, 1);
    expect_error(&t, __LINE__ - 1, "sofmax", "softmax", NULL);
    t                   = start();
    ipu_attribute wrong = IPU_INT_ATTRIBUTE("axes", 1);
    ipu_emit(t.b, "softmax", &wrong, 1, &t.x, 1, &y, 1);
    expect_error(&t, __LINE__ - 1, "softmax", "\"axes\"", "\"axis\"", NULL);
    t = start();
    ipu_emit(t.b, "matmul", NULL, 0, &t.x, 1, &y, 1);
    expect_error(&t, __LINE__ - 1, "matmul", "\"b\"", "missing", NULL);
}

/* ---- sizes ---- */

static void element_counts_that_overflow_are_refused(void **unused)
{
    (void)unused;
    const int64_t huge = INT64_C(1) << 40;
    WRONG(ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(huge, huge), "too much"), "1099511627776");
    WRONG(ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(huge, 1024, 0), "none, too much"), "2^47 elements");
    WRONG(ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(3, -1), "less than none"), "negative");
    WRONG(ipu_constant_value(t.b, IPU_DOUBLE, IPU_SHAPE(huge, huge, huge), 0), "1099511627776");
    WRONG(ipu_expand(t.b, ipu_reduce_sum(t.b, t.x, NULL, 0, false), IPU_SHAPE(huge, huge)), "expand");
    WRONG(ipu_tile(t.b, t.x, (int64_t[]){huge, huge}, 2), "tile", "\"x\" float[4,6]");
    WRONG(ipu_pad(t.b, t.x, (int64_t[]){INT64_MAX, 0}, (int64_t[]){1, 0}, IPU_PAD_CONSTANT, 0), "pad");
    WRONG(ipu_reshape(t.b, t.x, IPU_SHAPE(huge, huge, huge)), "reshape");
}

static void ranks_above_eight_are_refused(void **unused)
{
    (void)unused;
    bench     t = start();
    ipu_value v = ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), "deep");
    assert_int_equal(ipu_value_rank(ipu_add(t.b, v, v)), 8);
    ipu_unsqueeze(t.b, v, 0);
    expect_error(&t, __LINE__ - 1, "\"deep\"", NULL);
}

/* ---- gradients ---- */

static void a_path_without_gradient_names_the_op_where_it_ends(void **unused)
{
    (void)unused;
    bench     t      = start();
    ipu_value scores = ipu_named(t.b, ipu_matmul(t.b, t.x, t.w), "scores");
    ipu_value best   = ipu_cast(t.b, ipu_argmax(t.b, scores, 1, false), IPU_FLOAT), d_w;
    ipu_model_gradients(t.m, ipu_reduce_sum(t.b, best, NULL, 0, false), &t.w, 1, NULL, &d_w);
    expect_error(&t, __LINE__ - 1, "\"w\"", "argmax", NULL);
    t              = start();
    ipu_value loss = ipu_reduce_sum(t.b, ipu_stop_gradient(t.b, ipu_matmul(t.b, t.x, t.w)), NULL, 0, false);
    ipu_model_gradients(t.m, loss, &t.w, 1, NULL, &d_w);
    expect_error(&t, __LINE__ - 1, "\"w\"", "stop_gradient", NULL);
}

static void a_value_that_does_not_matter_is_named(void **unused)
{
    (void)unused;
    bench     t = start();
    ipu_value d_w, loss = ipu_reduce_sum(t.b, t.x, NULL, 0, false);
    ipu_model_gradients(t.m, loss, &t.w, 1, NULL, &d_w);
    expect_error(&t, __LINE__ - 1, "\"w\"", NULL);
    t    = start();
    loss = ipu_reduce_sum(t.b, t.x, NULL, 0, false);
    ipu_model_gradients(t.m, loss, &t.w, 1, &(ipu_gradient_options){.allow_unused = true}, &d_w);
    assert_int_equal(ipu_builder_status(t.b), IPU_OK);
    assert_int_equal(d_w.id, 0);
    ipu_model_destroy(t.m);
}

static void gradients_are_of_scalars_by_floats(void **unused)
{
    (void)unused;
    bench     t = start();
    ipu_value d;
    ipu_model_gradients(t.m, ipu_matmul(t.b, t.x, t.w), &t.w, 1, NULL, &d);
    expect_error(&t, __LINE__ - 1, "[4,3]", "scalar", NULL);
    t              = start();
    ipu_value loss = ipu_nll_loss(t.b, t.x, t.labels);
    ipu_model_gradients(t.m, loss, &t.labels, 1, NULL, &d);
    expect_error(&t, __LINE__ - 1, "\"labels\"", NULL);
}

/* ---- the model itself ---- */

static void names_are_unique(void **unused)
{
    (void)unused;
    WRONG(ipu_model_input(t.m, IPU_FLOAT, IPU_SHAPE(3), "x"), "\"x\"");
    WRONG(ipu_model_parameter(t.m, IPU_FLOAT, IPU_SHAPE(3), NULL, "x"), "\"x\"");
}

static void updates_have_the_shape_of_what_is_kept(void **unused)
{
    (void)unused;
    bench t = start();
    ipu_model_update(t.m, t.w, t.x);
    expect_error(&t, __LINE__ - 1, "\"w\"", "[4,6]", NULL);
    t = start();
    ipu_model_update(t.m, t.x, t.x);
    expect_error(&t, __LINE__ - 1, "\"x\"", NULL);
}

static void a_value_of_another_model_is_refused(void **unused)
{
    (void)unused;
    bench other = start();
    WRONG(ipu_add(t.b, t.x, other.x), "add");
    ipu_model_destroy(other.m);
}

static void the_first_error_is_kept(void **unused)
{
    (void)unused;
    bench     t    = start();
    ipu_value y    = ipu_matmul(t.b, t.x, t.x);
    int       line = __LINE__ - 1;
    y              = ipu_softmax(t.b, ipu_add(t.b, y, t.labels), 7);
    assert_int_equal(y.id, 0);
    expect_error(&t, line, "matmul", NULL);
}

/* ---- nothing at all ---- */

static ipu_status run_empty(ipu_model *m, ipu_engine **out)
{
    ipu_target      target;
    ipu_executable *exe    = NULL;
    ipu_status      status = ipu_target_find("gc200", 1, &target);
    if (status == IPU_OK) status = ipu_model_compile(m, &target, NULL, &exe);
    if (status == IPU_OK) status = ipu_engine_create(exe, NULL, out);
    if (status == IPU_OK) status = ipu_engine_run(*out, 0);
    ipu_executable_release(exe);
    return status;
}

static void empty_batches_go_through(void **unused)
{
    (void)unused;
    ipu_model *m;
    float      d[6 * 3], sum = 1;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b    = ipu_model_builder(m);
    ipu_value    x    = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(0, 6), "x"), d_w;
    ipu_value    w    = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(6, 3), NULL, "w");
    ipu_value    y    = ipu_softmax(b, ipu_relu(b, ipu_matmul(b, x, w)), 1);
    ipu_value    loss = ipu_reduce_sum(b, y, NULL, 0, false);
    ipu_model_gradients(m, loss, &w, 1, NULL, &d_w);
    ipu_model_output(m, loss, "sum");
    ipu_model_output(m, d_w, "d_w");
    ipu_engine *e = NULL;
    if (run_empty(m, &e) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_read(e, "sum", &sum, sizeof sum), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "d_w", d, sizeof d), IPU_OK);
    assert_true(sum == 0);
    for (int i = 0; i < 18; i++) assert_true(d[i] == 0);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void an_empty_extreme_has_no_value(void **unused)
{
    (void)unused;
    WRONG(ipu_reduce_max(t.b, ipu_slice(t.b, t.x, 0, 0, 1), (int[]){1}, 1, false), "reduce_max", "[4,0]");
    WRONG(ipu_argmax(t.b, ipu_slice(t.b, t.x, 0, 0, 1), 1, false), "argmax", "[4,0]");
}

static void a_label_that_is_no_class_stops_the_run(void **unused)
{
    (void)unused;
    bench t = start();
    ipu_model_output(t.m, ipu_cross_entropy(t.b, t.x, t.labels), "loss");
    ipu_engine     *e   = NULL;
    ipu_executable *exe = NULL;
    ipu_target      target;
    int32_t         labels[4] = {0, 5, 6, 1};
    float           x[24]     = {0};
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_compile(t.m, &target, NULL, &exe), IPU_OK);
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "x", x, sizeof x), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "labels", labels, sizeof labels), IPU_OK);
    ipu_status status = ipu_engine_run(e, 0);
    assert_int_not_equal(status, IPU_OK);
    if (!strstr(ipu_message(), "6")) fail_msg("which label? %s", ipu_message());
    labels[2] = 2;
    assert_int_equal(ipu_engine_write(e, "labels", labels, sizeof labels), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(t.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_ranks_are_named),
        cmocka_unit_test(wrong_shapes_are_named),
        cmocka_unit_test(wrong_types_are_named),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(an_op_that_is_not_there_has_a_neighbour),
        cmocka_unit_test(element_counts_that_overflow_are_refused),
        cmocka_unit_test(ranks_above_eight_are_refused),
        cmocka_unit_test(a_path_without_gradient_names_the_op_where_it_ends),
        cmocka_unit_test(a_value_that_does_not_matter_is_named),
        cmocka_unit_test(gradients_are_of_scalars_by_floats),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(updates_have_the_shape_of_what_is_kept),
        cmocka_unit_test(a_value_of_another_model_is_refused),
        cmocka_unit_test(the_first_error_is_kept),
        cmocka_unit_test(empty_batches_go_through),
        cmocka_unit_test(an_empty_extreme_has_no_value),
        cmocka_unit_test(a_label_that_is_no_class_stops_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
