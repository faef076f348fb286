/* Programs: snapshots of bodies; everything a step names is copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

static ipu_graph *new_graph(int64_t n_replicas)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", n_replicas, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, n_replicas, &g), IPU_OK);
    return g;
}

static const ipu__step *step_of(ipu_program p, size_t i)
{
    assert_int_equal(ipu_graph_status(p.graph), IPU_OK);
    assert_true(i < p.graph->programs.at[p.id].steps.n);
    return &p.graph->programs.at[p.id].steps.at[i];
}

static void a_body_is_taken_as_it_is_at_that_moment(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph(1);
    ipu_program body = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_program_add_sync(body, IPU_SYNC_INTERNAL);
    ipu_program_add_repeat(p, 3, body);
    ipu_program_add_sync(body, IPU_SYNC_EXTERNAL);
    ipu_program_add(p, body);
    ipu_function f = ipu_graph_add_function(g, body, "f");
    ipu_program_add_sync(body, IPU_SYNC_GLOBAL);
    assert_int_equal(step_of(p, 0)->kind, IPU__STEP_REPEAT);
    assert_int_equal(step_of(p, 0)->n, 3);
    assert_int_equal(step_of(p, 0)->body.program, body.id);
    assert_int_equal(step_of(p, 0)->body.n_steps, 1);
    assert_int_equal(step_of(p, 1)->body.n_steps, 2);
    assert_int_equal(g->functions.at[f.id].body.n_steps, 2);
    assert_int_equal(g->programs.at[body.id].steps.n, 3);
    ipu_graph_destroy(g);
}

static void a_null_branch_is_empty(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph(1);
    ipu_tensor  flag = ipu_graph_add_variable(g, IPU_BOOL, IPU_SCALAR, "flag");
    ipu_program p = ipu_program_sequence(g), none = {g, 0};
    ipu_program_add_if(p, flag, none, none);
    ipu_program_add_switch(p, ipu_tensor_reinterpret(flag, IPU_UINT8), NULL, 0, none);
    assert_int_equal(step_of(p, 0)->body.program, 0);
    assert_int_equal(step_of(p, 0)->other.n_steps, 0);
    assert_int_equal(step_of(p, 1)->n, 0);
    ipu_graph_destroy(g);
}

static void arguments_are_copied(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph(2);
    ipu_tensor  x = ipu_graph_add_variable(g, IPU_INT32, IPU_SHAPE(4), "x"), y = ipu_graph_clone(g, x, "y");
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    int64_t     replicas[]  = {1, 0};
    ipu_switch_case cases[] = {{5, body}, {6, body}};
    char            title[] = "title", key[] = "value";
    ipu_attribute   value = IPU_INT_ATTRIBUTE(key, 12);
    ipu_program_add_cross_replica_copy(p, x, y, replicas, 2);
    ipu_program_add_switch(p, ipu_tensor_index(x, 0), cases, 2, body);
    ipu_program_add_print(p, title, x);
    ipu_program_add_print(p, NULL, ipu_tensor_slice(y, 1, 2, 0));
    ipu_program_add_kernel(p, "fill", &value, 1, &x, 1);
    replicas[0]    = 9;
    cases[1].value = 9;
    title[0] = key[0] = '?';
    value.i           = 0;
    assert_int_equal(step_of(p, 0)->replicas[0], 1);
    assert_int_equal(step_of(p, 1)->cases[1].value, 6);
    assert_string_equal(step_of(p, 2)->text, "title");
    assert_string_equal(step_of(p, 3)->text, "y");
    const ipu__kernel_call *call = &g->kernel_steps.at[step_of(p, 4)->object].call;
    assert_string_equal(call->attributes[0].name, "value");
    assert_int_equal(call->attributes[0].i, 12);
    assert_int_equal(call->n_operands, 1);
    assert_int_equal(call->operand[0].shape.dim[0], 4);
    ipu_graph_destroy(g);
}

static void each_step_knows_its_line(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph(1);
    ipu_program p = ipu_program_sequence(g);
    char        where[IPU__WHERE_BYTES];
    ipu_program_add_sync(p, IPU_SYNC_GLOBAL);
    int line = __LINE__ - 1;
    ipu_program_add_sync(p, IPU_SYNC_GLOBAL);
    for (int i = 0; i < 2; i++) {
        char expected[300];
        snprintf(expected, sizeof expected, "%s:%d", __FILE__, line + 2 * i);
        assert_non_null(strstr(ipu__graph_where(g, step_of(p, (size_t)i)->location, where), expected));
    }
    ipu_graph_destroy(g);
}

static void a_program_of_a_window_is_one_of_the_graph(void **state)
{
    (void)state;
    ipu_graph *g      = new_graph(1);
    ipu_graph *window = ipu_graph_add_virtual_range(g, 3, 5);
    ipu_tensor x      = ipu_graph_add_variable(window, IPU_INT32, IPU_SHAPE(4), "x"),
               y      = ipu_graph_clone(g, x, "y");
    ipu_program p = ipu_program_sequence(window), all = ipu_program_sequence(g);
    ipu_program_add_copy(p, x, y);
    ipu_program_add(all, p);
    assert_int_equal(step_of(all, 0)->body.n_steps, 1);
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_taken_as_it_is_at_that_moment),
        cmocka_unit_test(a_null_branch_is_empty),
        cmocka_unit_test(arguments_are_copied),
        cmocka_unit_test(each_step_knows_its_line),
        cmocka_unit_test(a_program_of_a_window_is_one_of_the_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
