/* Stages of a model: which ops belong to them, what they may use, and that text, copies and passes keep them
 * apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/matmul.h"
#include "ipu/nn.h"
#include "ipu/op/reduce.h"
#include "model/model.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static void expect_ok(ipu_status status)
{
    if (status != IPU_OK) fail_msg("%s", ipu_message());
}

static ipu_value parameter(ipu_model *m, int64_t n, const char *name)
{
    return ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(n, n), NULL, name);
}

/* x w0 | tanh, w1, + x | w2, squared and summed; gradients of all weights are outputs. */
static ipu_model *three_stages(void)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    w[3], dw[3], x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 4), "x");
    w[0] = parameter(m, 4, "w0"), w[1] = parameter(m, 4, "w1"), w[2] = parameter(m, 4, "w2");
    ipu_model_stage(m, "a");
    ipu_value y = ipu_matmul(b, x, w[0]);
    ipu_model_stage(m, "b");
    y = ipu_matmul(b, ipu_tanh(b, y), w[1]);
    ipu_model_stage(m, "c");
    y              = ipu_matmul(b, ipu_add(b, y, x), w[2]);
    ipu_value loss = ipu_reduce_sum(b, ipu_mul(b, y, y), NULL, 0, false);
    ipu_model_output(m, loss, "loss");
    ipu_model_gradients(m, loss, w, 3, NULL, dw);
    for (int i = 0; i < 3; i++) ipu_model_output(m, dw[i], (const char *[]){"d0", "d1", "d2"}[i]);
    expect_ok(ipu_builder_status(b));
    return m;
}

/* ---- stages of ops ---- */

static void gradients_are_of_the_backward_stage_of_their_op(void **state)
{
    (void)state;
    ipu_model *m     = three_stages();
    int        n[6]  = {0};
    bool       seen  = false;
    uint32_t   names = 0;
    assert_int_equal(ipu_model_n_stages(m), 3);
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++) {
        ipu__stage s = m->ops.at[m->blocks.at[0].order.at[i]].stage;
        assert_true(s.number < 3);
        n[s.is_backward ? 5 - s.number : s.number]++;
        assert_true(!seen || s.is_backward);
        seen |= s.is_backward;
    }
    for (int i = 0; i < 6; i++) assert_true(n[i] > 0);
    for (size_t i = 0; i < m->outputs.n; i++) {
        const ipu__model_op *op = &m->ops.at[m->values.at[m->outputs.at[i].value].of];
        if (m->outputs.at[i].name[0] == 'd') {
            assert_int_equal(op->stage.number, m->outputs.at[i].name[1] - '0');
            assert_true(op->stage.is_backward);
            names++;
        }
    }
    assert_int_equal(names, 3);
    ipu_model_destroy(m);
}

static void a_model_without_names_has_one_stage(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    assert_int_equal(ipu_model_n_stages(m), 1);
    ipu_model_stage(m, "only");
    ipu_model_stage(m, "only");
    assert_int_equal(ipu_model_n_stages(m), 1);
    ipu_model_destroy(m);
}

static void text_and_hash_know_stages(void **state)
{
    (void)state;
    ipu_model   *m = three_stages(), *again, *copy = ipu__model_copy(m);
    char        *text, *twice;
    ipu__hash128 one, two;
    expect_ok(ipu_model_print(m, 0, NULL, &text));
    assert_non_null(strstr(text, "stage \"b\" backward;"));
    expect_ok(ipu_model_parse(text, strlen(text), "text", NULL, &again));
    expect_ok(ipu_model_print(again, 0, NULL, &twice));
    assert_string_equal(text, twice);
    assert_int_equal(ipu_model_n_stages(again), 3);
    expect_ok(ipu__model_hash(m, &one));
    expect_ok(ipu__model_hash(copy, &two));
    assert_memory_equal(&one, &two, sizeof one);
    copy->ops.at[0].stage.number = 1;
    expect_ok(ipu__model_hash(copy, &two));
    assert_memory_not_equal(&one, &two, sizeof one);
    ipu_free(text);
    ipu_free(twice);
    ipu_model_destroy(again);
    ipu_model_destroy(copy);
    ipu_model_destroy(m);
}

/* ---- errors ---- */

static void expect_failure(ipu_model *m, const char *part)
{
    assert_int_equal(ipu_builder_status(ipu_model_builder(m)), IPU_INVALID);
    if (!strstr(ipu_builder_message(ipu_model_builder(m)), part))
        fail_msg("%s", ipu_builder_message(ipu_model_builder(m)));
    ipu_model_destroy(m);
}

static void an_op_does_not_use_a_later_stage(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3), "x");
    ipu_model_stage(m, "first");
    ipu_model_stage(m, "second");
    ipu_value y = ipu_tanh(b, x);
    ipu_model_stage(m, "first");
    ipu_tanh(b, y);
    expect_failure(m, "an op of stage \"first\" uses");
}

static void names_are_checked(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_model_stage(m, "");
    expect_failure(m, "expected a name");
    m           = new_model();
    ipu_value x = ipu_model_input(m, IPU_BOOL, IPU_SCALAR, "x");
    ipu_model_if(m, x);
    ipu_model_stage(m, "inside");
    expect_failure(m, "begins inside a branch or loop");
}

/* ---- passes ---- */

static void passes_do_not_mix_stages(void **state)
{
    (void)state;
    static const char text[] =
        "model {\n  input x float[2];\n  stage \"a\";\n  stage \"b\";\n  stage \"a\";\n"
        "  y = tanh(x);\n  stage \"b\";\n  z = tanh(x);\n  u = exp(z);\n"
        "  stage \"a\";\n  v = exp(y);\n"
        "  output u2 = u;\n  output v2 = v;\n}\n";
    ipu_model *m;
    expect_ok(ipu_model_parse(text, strlen(text), "text", NULL, &m));
    expect_ok(ipu_model_optimise(m, IPU_PASS_CSE));
    assert_int_equal(ipu_model_n_ops(m), 4);
    expect_ok(ipu_model_optimise(m, IPU_PASS_ALL));
    assert_int_equal(ipu_model_n_ops(m), 2); /* a chain each */
    m->stages.n = 0;
    expect_ok(ipu__model_verify(m));
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_of_the_backward_stage_of_their_op),
        cmocka_unit_test(a_model_without_names_has_one_stage),
        cmocka_unit_test(text_and_hash_know_stages),
        cmocka_unit_test(an_op_does_not_use_a_later_stage),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(passes_do_not_mix_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
