/* Finding values by name, in models, in their copies and after passes; and the errors if there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/nn.h"
#include "ipu/op.h"
#include "model/model.h"

typedef struct net {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, w, s, h, y, loss;
} net;

static net begin(void)
{
    net n;
    assert_int_equal(ipu_model_create(&n.m), IPU_OK);
    n.b = ipu_model_builder(n.m);
    n.x = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(2), "x");
    ipu_builder_push_scope(n.b, "layer");
    n.w = ipu_model_parameter(n.m, IPU_FLOAT, IPU_SHAPE(2), (float[]){1, 2}, "w");
    n.s = ipu_model_state(n.m, IPU_FLOAT, IPU_SHAPE(2), NULL, "s");
    n.h = ipu_named(n.b, ipu_mul(n.b, n.x, n.w), "h");
    ipu_builder_pop_scope(n.b);
    n.y    = ipu_exp(n.b, n.h);
    n.loss = ipu_reduce_sum(n.b, ipu_add(n.b, n.y, n.s), NULL, 0, false);
    ipu_model_output(n.m, n.loss, "loss");
    assert_string_equal(ipu_builder_message(n.b), "");
    return n;
}

static void assert_is(ipu_model *m, const char *name, ipu_value v)
{
    ipu_value found = ipu_model_value_named(m, name);
    if (found.id != v.id || (found.id && found.builder != ipu_model_builder(m)))
        fail_msg("\"%s\" is value %u; expected %u", name, found.id, v.id);
}

static void assert_none(ipu_model *m, const char *name, const char *message)
{
    assert_is(m, name, IPU_NO_VALUE);
    assert_string_equal(ipu_message(), message);
    assert_string_equal(ipu_builder_message(ipu_model_builder(m)), "");
}

static void values_are_found_by_their_names(void **state)
{
    (void)state;
    net n = begin();
    assert_is(n.m, "x", n.x);
    assert_is(n.m, "layer/w", n.w);
    assert_is(n.m, "layer/s", n.s);
    assert_is(n.m, "layer/h", n.h);
    assert_is(n.m, "loss", n.loss);
    assert_none(n.m, "layer/v", "the model has no value \"layer/v\" (did you mean \"layer/w\"?)");
    assert_none(n.m, "something else", "the model has no value \"something else\"");
    assert_none(n.m, "", "a value without a name was asked for");
    assert_none(n.m, NULL, "a value without a name was asked for");
    /* of two with the same name the first one counts, inputs and outputs before both */
    ipu_value first = ipu_named(n.b, ipu_neg(n.b, n.y), "twice");
    ipu_named(n.b, ipu_neg(n.b, first), "twice");
    assert_is(n.m, "twice", first);
    ipu_model_output(n.m, n.y, "twice");
    assert_is(n.m, "twice", n.y);
    ipu_model_destroy(n.m);
}

static void gradients_are_taken_of_values_found_by_name(void **state)
{
    (void)state;
    net       n    = begin();
    ipu_value at[] = {ipu_model_value_named(n.m, "layer/h"), ipu_model_value_named(n.m, "layer/w")}, d[2];
    ipu_model_gradients(n.m, ipu_model_value_named(n.m, "loss"), at, 2, NULL, d);
    ipu_model_output(n.m, d[0], "d_h");
    ipu_model_output(n.m, d[1], "d_w");
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    float           d_h[2], d_w[2];
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_compile(n.m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "x", (float[]){0, 0.5f}, 2 * sizeof(float)), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "d_h", d_h, sizeof d_h), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "d_w", d_w, sizeof d_w), IPU_OK);
    assert_float_equal(d_h[0], 1, 1e-6);
    assert_float_equal(d_h[1], 2.7182818f, 1e-5);
    assert_float_equal(d_w[0], 0, 1e-6);
    assert_float_equal(d_w[1], 1.3591409f, 1e-5);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(n.m);
}

/* Values made in a branch are visible there only. */
static void values_of_a_branch_are_found_within_it(void **state)
{
    (void)state;
    net       n   = begin();
    ipu_value yes = ipu_constant_data(n.b, IPU_BOOL, IPU_SCALAR, (bool[]){true}), result;
    ipu_model_if(n.m, yes);
    ipu_value inner = ipu_named(n.b, ipu_neg(n.b, n.y), "inner");
    assert_is(n.m, "inner", inner);
    assert_is(n.m, "layer/h", n.h);
    ipu_model_yield(n.m, &inner, 1);
    ipu_model_else(n.m);
    assert_none(n.m, "inner", "the model has no value \"inner\"");
    ipu_model_yield(n.m, &n.y, 1);
    ipu_model_end(n.m, &result, 1);
    assert_none(n.m, "inner", "the model has no value \"inner\"");
    ipu_model_destroy(n.m);
}

static void names_live_as_long_as_their_values(void **state)
{
    (void)state;
    net       n    = begin();
    ipu_value gone = ipu_named(n.b, ipu_neg(n.b, n.y), "gone");
    ipu_value same = ipu_named(n.b, ipu_mul(n.b, n.x, n.w), "same"), sum = ipu_add(n.b, n.h, same);
    ipu_value zero = ipu_named(n.b, ipu_add(n.b, n.x, ipu_scalar_like(n.b, n.x, 0)), "x again");
    ipu_model_output(n.m, sum, "sum");
    ipu_model_output(n.m, ipu_neg(n.b, zero), "minus");
    assert_true(ipu__model_add_alias(n.m, same.id, "alias"));
    assert_is(n.m, "alias", same);
    ipu_model *copy = ipu__model_copy(n.m);
    assert_is(copy, "gone", (ipu_value){ipu_model_builder(copy), gone.id});
    assert_is(copy, "alias", (ipu_value){ipu_model_builder(copy), same.id});
    if (ipu_model_optimise(copy, IPU_PASS_FOLD | IPU_PASS_CSE | IPU_PASS_DCE) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_none(copy, "gone", "the model has no value \"gone\"");
    /* both became one; and x, which it equals */
    ipu_value h = ipu_model_value_named(copy, "layer/h");
    assert_int_not_equal(h.id, 0);
    assert_is(copy, "same", h);
    assert_is(copy, "alias", h);
    assert_is(copy, "x again", (ipu_value){ipu_model_builder(copy), n.x.id});
    assert_is(n.m, "gone", gone);
    ipu_model_destroy(copy);
    ipu_model_destroy(n.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found_by_their_names),
        cmocka_unit_test(gradients_are_taken_of_values_found_by_name),
        cmocka_unit_test(values_of_a_branch_are_found_within_it),
        cmocka_unit_test(names_live_as_long_as_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
