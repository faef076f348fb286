/* Graphs: places of errors, the first error, variables by number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("tiny", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

static ipu_tensor new_vector(ipu_graph *g)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(3), "v");
    return t;
}

static void expect_place(const ipu_graph *g, int line)
{
    char place[300];
    snprintf(place, sizeof place, "%s:%d: ", __FILE__, line);
    if (strncmp(ipu_graph_message(g), place, strlen(place)) != 0)
        fail_msg("expected an error at %s, found: %s", place, ipu_graph_message(g));
}

static void an_error_names_the_call_it_is_in_not_the_calls_in_its_arguments(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_graph_set_tile_mapping(g, ipu_tensor_reverse(new_vector(g), 0), 99);
    expect_place(g, __LINE__ - 1);
    ipu_graph_destroy(g);

    g = new_graph();
    ipu_graph_set_tile_mapping(g, ipu_tensor_reverse(new_vector(g), 5), 0);
    expect_place(g, __LINE__ - 1);
    ipu_graph_destroy(g);
}

static void a_binding_says_where_it_is(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_here("script.py", 7);
    (ipu_graph_add_variable)(g, IPU_FLOAT, IPU_SHAPE(-1), "v");
    assert_non_null(strstr(ipu_graph_message(g), "script.py:7: "));
    ipu_here(NULL, 0);
    ipu_graph_destroy(g);
}

static void the_first_error_stays(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    assert_string_equal(ipu_graph_message(g), "");
    ipu_graph_set_tile_mapping(g, new_vector(g), -1);
    int line = __LINE__ - 1;
    assert_int_equal(ipu_graph_status(g), IPU_INVALID);
    ipu_tensor t = new_vector(g);
    assert_false(ipu_tensor_valid(t));
    ipu_graph_map_linearly(g, t);
    expect_place(g, line);
    ipu_graph_destroy(g);
}

static void variables_can_be_listed(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_tensor a = new_vector(g), b = ipu_graph_add_constant_value(g, IPU_HALF, IPU_SCALAR, 1, "one");
    assert_int_equal(ipu_graph_n_variables(g), 2);
    assert_true(ipu_tensor_equal(ipu_graph_variable_at(g, 0), a));
    assert_true(ipu_tensor_equal(ipu_graph_variable_at(g, 1), b));
    assert_false(ipu_tensor_valid(ipu_graph_variable_at(g, 2)));
    assert_false(ipu_tensor_valid(ipu_graph_variable_at(g, -1)));
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_names_the_call_it_is_in_not_the_calls_in_its_arguments),
        cmocka_unit_test(a_binding_says_where_it_is),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(variables_can_be_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
