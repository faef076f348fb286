/* Passes: what they drop, what they merge, and that they leave everything else alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/pass/pass.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static ipu_value binary(ipu_model *m, const char *op, ipu_value a, ipu_value b)
{
    return ipu__emit1(&m->base, op, NULL, 0, IPU__IN(a, b));
}

static ipu_value number_like(ipu_value x, double value)
{
    return ipu_constant_value(x.builder, ipu_value_type(x), ipu_value_shape(x), value);
}

static void optimise(ipu_model *m, unsigned passes)
{
    assert_string_equal(ipu_builder_message(&m->base), "");
    if (ipu_model_optimise(m, passes) != IPU_OK) fail_msg("%s", ipu_message());
}

static const float *constant_at(const ipu_model *m, size_t output)
{
    const ipu__model_value *v = &m->values.at[m->outputs.at[output].value];
    assert_int_equal(v->kind, IPU__VALUE_CONSTANT);
    return v->data;
}

/* ---- dead code ---- */

static void test_what_no_output_needs_is_dropped(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_value  y = binary(m, "add", x, x);
    binary(m, "add", binary(m, "add", y, x), y);
    ipu_model_output(m, y, "y");
    assert_int_equal(ipu_model_n_ops(m), 3);
    optimise(m, IPU_PASS_DCE);
    assert_int_equal(ipu_model_n_ops(m), 1);
    assert_int_equal(m->blocks.at[0].order.n, 1);
    assert_int_equal(ipu_model_output_at(m, 0, NULL).id, y.id);
    ipu_model_destroy(m);
}

static void test_what_an_update_needs_stays(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "w");
    ipu_model_update(m, w, binary(m, "add", w, w));
    optimise(m, IPU_PASS_DCE);
    assert_int_equal(ipu_model_n_ops(m), 1);
    ipu_model_destroy(m);
}

/* ---- common subexpressions ---- */

static void test_equal_ops_become_one(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_value  y = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "y");
    ipu_value  a = binary(m, "add", x, y), b = binary(m, "add", y, x);
    ipu_model_output(m, binary(m, "add", a, x), "one");
    ipu_model_output(m, binary(m, "add", b, x), "two");
    optimise(m, IPU_PASS_CSE);
    assert_int_equal(ipu_model_n_ops(m), 2);
    assert_int_equal(m->outputs.at[0].value, m->outputs.at[1].value);
    ipu_model_destroy(m);
}

static void test_ops_with_other_attributes_or_order_stay_two(void **state)
{
    (void)state;
    ipu_model    *m = new_model();
    ipu_value     x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 4), "x");
    ipu_value     y = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 4), "y");
    ipu_attribute t = IPU_INT_ATTRIBUTE("transpose_b", 1);
    ipu_model_output(m, ipu__emit1(&m->base, "matmul", &t, 1, IPU__IN(x, y)), "one");
    ipu_model_output(m, binary(m, "matmul", x, y), "two");
    ipu_model_output(m, binary(m, "matmul", y, x), "three");
    optimise(m, IPU_PASS_CSE);
    assert_int_equal(ipu_model_n_ops(m), 3);
    ipu_model_destroy(m);
}

static void test_copies_made_for_a_gradient_stay_apart(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_model_output(m, binary(m, "add", x, x), "one");
    m->recompute = 1;
    ipu_model_output(m, binary(m, "add", x, x), "two");
    optimise(m, IPU_PASS_CSE);
    assert_int_equal(ipu_model_n_ops(m), 2);
    ipu_model_destroy(m);
}

static void test_equal_constants_become_one(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    for (int i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + i), 0};
        ipu_model_output(m, binary(m, "add", x, number_like(x, i == 2 ? 2 : 1)), name);
    }
    optimise(m, IPU_PASS_CSE);
    assert_int_equal(ipu_model_n_ops(m), 2);
    assert_int_equal(m->outputs.at[0].value, m->outputs.at[1].value);
    assert_int_not_equal(m->outputs.at[0].value, m->outputs.at[2].value);
    ipu_model_destroy(m);
}

/* ---- constants ---- */

static void test_ops_on_constants_are_computed(void **state)
{
    (void)state;
    ipu_model *m      = new_model();
    float      two[2] = {1, 2};
    ipu_value  a      = ipu_constant_data(&m->base, IPU_FLOAT, IPU_SHAPE(2), two);
    ipu_value  b      = binary(m, "add", binary(m, "add", a, a), a);
    ipu_model_output(m, b, "b");
    optimise(m, IPU_PASS_FOLD);
    assert_int_equal(ipu_model_n_ops(m), 0);
    assert_float_equal(constant_at(m, 0)[0], 3, 0);
    assert_float_equal(constant_at(m, 0)[1], 6, 0);
    ipu_model_destroy(m);
}

static void test_small_things_are_not_folded_into_large_ones(void **state)
{
    (void)state;
    ipu_model    *m     = new_model();
    int64_t       dim[] = {1000, 1000}, few[] = {10};
    ipu_attribute with[] = {IPU_FLOAT_ATTRIBUTE("value", 3), IPU__INTS("shape", dim, 2)};
    ipu_model_output(m, ipu__emit1(&m->base, "fill", with, 2, NULL, 0), "large");
    with[1] = IPU__INTS("shape", few, 1);
    ipu_model_output(m, ipu__emit1(&m->base, "fill", with, 2, NULL, 0), "small");
    optimise(m, IPU_PASS_FOLD);
    assert_int_equal(ipu_model_n_ops(m), 1);
    assert_int_equal(m->values.at[m->outputs.at[0].value].kind, IPU__VALUE_OP);
    assert_float_equal(constant_at(m, 1)[9], 3, 0);
    ipu_model_destroy(m);
}

static void test_adding_nothing_is_left_out(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 3), "x"), zero = number_like(x, 0);
    ipu_model_output(m, binary(m, "add", binary(m, "add", x, zero), x), "right");
    ipu_model_output(m, binary(m, "add", zero, x), "left");
    optimise(m, IPU_PASS_ALL);
    assert_int_equal(ipu_model_n_ops(m), 1);
    assert_int_equal(m->outputs.at[1].value, x.id);
    ipu_model_destroy(m);
}

/* ---- the whole ---- */

static void test_names_go_to_what_stands_in(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    binary(m, "add", x, x);
    ipu_value y = ipu_named(&m->base, binary(m, "add", x, x), "doubled");
    ipu_value z = ipu_named(&m->base, binary(m, "add", x, number_like(x, 0)), "plus nothing");
    ipu_model_output(m, y, "y");
    ipu_model_output(m, z, "z");
    optimise(m, IPU_PASS_ALL);
    assert_string_equal(ipu_value_name(ipu_model_output_at(m, 0, NULL)), "doubled");
    assert_string_equal(ipu_value_name(ipu_model_output_at(m, 1, NULL)), "x");
    ipu_model_destroy(m);
}

static void test_a_broken_model_and_unknown_passes_are_refused(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    assert_int_equal(ipu_model_optimise(m, 1u << 20), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "0x100000"));
    ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(-4), "x");
    assert_int_equal(ipu_model_optimise(m, IPU_PASS_ALL), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "negative"));
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_no_output_needs_is_dropped),
        cmocka_unit_test(test_what_an_update_needs_stays),
        cmocka_unit_test(test_equal_ops_become_one),
        cmocka_unit_test(test_ops_with_other_attributes_or_order_stay_two),
        cmocka_unit_test(test_copies_made_for_a_gradient_stay_apart),
        cmocka_unit_test(test_equal_constants_become_one),
        cmocka_unit_test(test_ops_on_constants_are_computed),
        cmocka_unit_test(test_small_things_are_not_folded_into_large_ones),
        cmocka_unit_test(test_adding_nothing_is_left_out),
        cmocka_unit_test(test_names_go_to_what_stands_in),
        cmocka_unit_test(test_a_broken_model_and_unknown_passes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
