/* Graphs: error locations, the first error, variables by number, constants of every type. */
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

static void a_replica_has_its_share_of_the_tiles(void **state)
{
    (void)state;
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 8, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 4, &g), IPU_OK);
    assert_int_equal(ipu_graph_n_tiles(g), 2 * 1472);
    assert_int_equal(ipu_graph_replication(g), 4);
    assert_int_equal(ipu_graph_target(g)->n_ipus, 8);
    ipu_graph *window = ipu_graph_add_virtual_range(g, 100, 110);
    assert_int_equal(ipu_graph_n_tiles(window), 10);
    assert_int_equal(ipu_graph_replication(window), 4);
    ipu_graph_destroy(g);
}

static void constants_are_converted_to_their_type(void **state)
{
    (void)state;
    ipu_graph *g     = new_graph();
    ipu_half   half  = ipu_half_from_float(-1.5f), got_half;
    int8_t     small = 0;
    uint64_t   large = 0;
    double     wide  = 0;
    bool       truth = false;
    struct {
        ipu_type    type;
        double      value;
        void       *got;
        const void *expected;
    } cases[] = {
        {IPU_HALF, -1.5, &got_half, &half},
        {IPU_INT8, -128, &small, &(int8_t){-128}},
        {IPU_UINT64, 9007199254740992.0, &large, &(uint64_t){9007199254740992u}},
        {IPU_DOUBLE, 0.1, &wide, &(double){0.1}},
        {IPU_BOOL, 1, &truth, &(bool){true}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ipu_tensor t = ipu_graph_add_constant_value(g, cases[i].type, IPU_SHAPE(3), cases[i].value, "c");
        ipu_tensor e = ipu_tensor_slice(t, 2, 3, 0);
        assert_int_equal(ipu_tensor_constant_value(e, cases[i].got, ipu_type_size(cases[i].type)), IPU_OK);
        assert_memory_equal(cases[i].got, cases[i].expected, ipu_type_size(cases[i].type));
    }
    assert_int_equal(ipu_graph_status(g), IPU_OK);
    assert_int_equal(ipu_graph_n_variables(g), 5);
    ipu_graph_destroy(g);
}

static void a_constant_keeps_its_values_when_the_caller_changes_his(void **state)
{
    (void)state;
    ipu_graph *g      = new_graph();
    int32_t    data[] = {1, 2, 3, 4}, got[4];
    char       name[] = "first";
    ipu_tensor t      = ipu_graph_add_constant(g, IPU_INT32, IPU_SHAPE(2, 2), data, name);
    data[0]           = 99;
    memset(name, 'x', 5);
    assert_int_equal(ipu_tensor_constant_value(ipu_tensor_transpose(t), got, sizeof got), IPU_OK);
    assert_memory_equal(got, ((int32_t[]){1, 3, 2, 4}), sizeof got);
    char text[60];
    ipu_tensor_text(t, text, sizeof text);
    assert_string_equal(text, "int32[2,2] {first[0:4]}");
    ipu_graph_destroy(g);
}

static void after_an_error_nothing_more_is_built(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "good");
    assert_string_equal(ipu_graph_message(g), "");
    ipu_tensor bad  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(-4), "bad");
    int        line = __LINE__ - 1;
    assert_false(ipu_tensor_valid(bad));
    assert_int_equal(ipu_graph_status(g), IPU_INVALID);
    expect_place(g, line);
    ipu_tensor      later = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "later");
    ipu_compute_set cs    = ipu_graph_add_compute_set(g, "later");
    assert_false(ipu_tensor_valid(later));
    assert_int_equal(cs.id, 0);
    assert_null(ipu_graph_add_virtual_range(g, 0, 1));
    assert_int_equal(ipu_graph_n_variables(g), 1);
    assert_int_equal(ipu_graph_n_compute_sets(g), 0);
    expect_place(g, line);
    ipu_graph_destroy(g);
}

static void initial_values_are_for_variables_only(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_tensor r = ipu_graph_add_replication_index(g, "r");
    ipu_graph_set_initial_value(g, r, &(uint32_t){0});
    assert_int_equal(ipu_graph_status(g), IPU_INVALID);
    expect_place(g, __LINE__ - 2);
    ipu_graph_destroy(g);
}

static const int  third_line = __LINE__ + 1;
static ipu_tensor third(ipu_tensor t) { return ipu_tensor_index(t, 2); }

static void an_error_in_a_helper_names_the_line_in_the_helper(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(2), "x");
    ipu_graph_set_tile_mapping(g, third(x), 0);
    expect_place(g, third_line);
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_names_the_call_it_is_in_not_the_calls_in_its_arguments),
        cmocka_unit_test(a_binding_says_where_it_is),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(variables_can_be_listed),
        cmocka_unit_test(a_replica_has_its_share_of_the_tiles),
        cmocka_unit_test(constants_are_converted_to_their_type),
        cmocka_unit_test(a_constant_keeps_its_values_when_the_caller_changes_his),
        cmocka_unit_test(after_an_error_nothing_more_is_built),
        cmocka_unit_test(initial_values_are_for_variables_only),
        cmocka_unit_test(an_error_in_a_helper_names_the_line_in_the_helper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
