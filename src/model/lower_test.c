/* Lowering: what a model computes when run, what is updated in place, and the initial values of what it
 * keeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

static ipu_target target;

static int setup(void **state)
{
    (void)state;
    return ipu_target_find("gc200", 1, &target) != IPU_OK;
}

static ipu_value add(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value out;
    ipu_emit(b, "add", NULL, 0, (ipu_value[]){x, y}, 2, &out, 1);
    return out;
}

static ipu_engine *start(ipu_model *m)
{
    ipu_executable *exe;
    ipu_engine     *e;
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
    float value[4];
    if (ipu_engine_read(e, name, value, sizeof value) != IPU_OK) fail_msg("%s", ipu_message());
    return value[0];
}

static void kept_values_begin_as_told_and_are_updated_after_the_run(void **state)
{
    (void)state;
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b    = ipu_model_builder(m);
    const float  w0[] = {1, 2, 3, 4};
    ipu_value    x    = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_value    w    = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4), w0, "w");
    ipu_value    s    = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "s");
    ipu_value    c    = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "c");
    ipu_model_set_initial(m, c, (ipu_initial){IPU_INITIAL_CONSTANT, 5, 0});
    ipu_value next = add(b, w, x);
    ipu_model_update(m, w, next); /* in place: no later reader */
    ipu_model_update(m, s, c);    /* two kept values are exchanged */
    ipu_model_update(m, c, s);
    ipu_model_output(m, add(b, next, s), "y");
    ipu_model_output(m, c, "c_before");
    ipu_engine *e     = start(m);
    const float one[] = {1, 1, 1, 1};
    assert_int_equal(ipu_engine_write(e, "x", one, sizeof one), IPU_OK);
    run(e);
    assert_true(read_float(e, "y") == 2);
    assert_true(read_float(e, "w") == 2);
    assert_true(read_float(e, "s") == 5);
    assert_true(read_float(e, "c") == 0);
    assert_true(read_float(e, "c_before") == 5);
    run(e);
    assert_true(read_float(e, "y") == 8);
    assert_true(read_float(e, "s") == 0);
    assert_true(read_float(e, "c_before") == 0);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void a_model_has_the_cost_of_what_is_compiled(void **state)
{
    (void)state;
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(8, 16), "x");
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(16, 4), NULL, "w");
    ipu_matmul(b, x, x); /* invalid */
    ipu_cost *cost;
    assert_int_equal(ipu_model_cost(m, &target, NULL, &cost), IPU_INVALID);
    assert_null(cost);
    ipu_model_destroy(m);

    assert_int_equal(ipu_model_create(&m), IPU_OK);
    b = ipu_model_builder(m);
    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(8, 16), "x");
    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(16, 4), NULL, "w");
    ipu_model_output(m, ipu_matmul(b, x, w), "y");
    ipu_matmul(b, x, ipu_transpose(b, x, (int[]){1, 0}, 2)); /* unused, so it costs nothing */
    assert_int_equal(ipu_model_cost(m, &target, NULL, &cost), IPU_OK);
    ipu_cost_summary s;
    ipu_cost_get_summary(cost, &s);
    assert_true(s.operations == 2.0 * 8 * 16 * 4);
    assert_true(s.cycles.total > 0 && s.memory_total >= 4 * (8 * 16 + 16 * 4 + 8 * 4));
    ipu_cost_destroy(cost);
    assert_int_equal(ipu_model_n_ops(m), 3); /* the model itself is unchanged */
    ipu_model_destroy(m);
}

/* 2^41 rows without elements: looping over them, in a run or when folding, would take hours. */
static void what_has_no_elements_takes_no_time(void **state)
{
    (void)state;
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder    *b     = ipu_model_builder(m);
    const ipu_shape empty = IPU_SHAPE(2, 1 << 20, 1 << 20, 0);
    ipu_value       x     = ipu_model_input(m, IPU_FLOAT, empty, "x");
    ipu_value       known = ipu_log_softmax(b, ipu_constant_value(b, IPU_DOUBLE, empty, 0), -1);
    ipu_model_output(m, ipu_log_softmax(b, x, -1), "y");
    ipu_model_output(m, ipu_cast(b, known, IPU_FLOAT), "known");
    ipu_engine *e = start(m);
    run(e);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void errors_name_values_and_the_line(void **state)
{
    (void)state;
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_value    y = ipu_model_input(m, IPU_INT32, IPU_SHAPE(4), "labels");
    ipu_value    z;
    ipu_emit(b, "add", NULL, 0, (ipu_value[]){x, y}, 2, &z, 1);
    assert_int_equal(z.id, 0);
    assert_int_equal(ipu_builder_status(b), IPU_INVALID);
    assert_non_null(strstr(ipu_builder_message(b), "lower_test.c:"));
    assert_non_null(strstr(ipu_builder_message(b), "\"labels\" int32[4]"));
    ipu_executable *exe;
    assert_int_equal(ipu_model_compile(m, &target, NULL, &exe), IPU_INVALID);
    assert_null(exe);
    ipu_model_destroy(m);
}

/* One takes the other's old value; a third takes something independent. */
static void what_another_update_takes_is_not_written_over(void **state)
{
    (void)state;
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b   = ipu_model_builder(m);
    ipu_value    one = ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(4), 1);
    ipu_value    now = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "now");
    ipu_value    old = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "old");
    ipu_value    two = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(4), NULL, "two"), next = add(b, now, one);
    ipu_model_update(m, old, now);
    ipu_model_update(m, two, add(b, next, next)); /* written directly: the old value has no reader */
    ipu_model_update(m, now, next);
    ipu_engine *e = start(m);
    for (int i = 1; i <= 3; i++) {
        run(e);
        assert_true(read_float(e, "now") == (float)i);
        assert_true(read_float(e, "old") == (float)i - 1);
        assert_true(read_float(e, "two") == 2 * (float)i);
    }
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_values_begin_as_told_and_are_updated_after_the_run),
        cmocka_unit_test(what_another_update_takes_is_not_written_over),
        cmocka_unit_test(a_model_has_the_cost_of_what_is_compiled),
        cmocka_unit_test(what_has_no_elements_takes_no_time),
        cmocka_unit_test(errors_name_values_and_the_line),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
