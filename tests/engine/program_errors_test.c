/* Every mistake in copies, streams, control flow and kernels that a compile must find, provoked: the
 * message must hold this file's name, the line of the wrong call, and the names involved.
 */
#include "support/error_bench.h"

/* ---- copies ---- */

static void a_copy_of_different_sizes_names_both(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.p, b.x, ipu_tensor_slice(b.y, 0, 5, 0));
    expect_error(&b, __LINE__ - 1, "8", "5", NULL);
}

static void a_copy_of_different_types_names_both(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.p, b.x, b.h);
    expect_error(&b, __LINE__ - 1, "float", "half", NULL);
}

static void a_copy_onto_itself_names_the_overlap(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.p, ipu_tensor_slice(b.x, 0, 5, 0), ipu_tensor_slice(b.x, 3, 8, 0));
    expect_error(&b, __LINE__ - 1, "\"x\"", "[3, 5)", NULL);
}

static void a_copy_to_repeated_elements_is_refused(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.p, b.x, ipu_tensor_broadcast(ipu_tensor_slice(b.y, 0, 4, 0), 2, 0));
    expect_error(&b, __LINE__ - 1, "twice", NULL);
}

static void nothing_writes_to_a_constant(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy(b.p, b.x, b.c);
    expect_error(&b, __LINE__ - 1, "\"c\"", "constant", NULL);
    b            = start();
    ipu_stream s = ipu_graph_add_host_to_device(b.g, "in", IPU_FLOAT, 8, IPU_STREAM_REPLICATE);
    ipu_program_add_read(b.p, s, b.c);
    expect_error(&b, __LINE__ - 1, "\"c\"", "constant", NULL);
    b                = start();
    ipu_tensor ops[] = {b.x, b.y, b.c};
    ipu_program_add_kernel(b.p, "add", NULL, 0, ops, 3);
    expect_error(&b, __LINE__ - 1, "\"c\"", "constant", NULL);
    b = start();
    ipu_graph_set_initial_value(b.g, b.c, (float[8]){0});
    expect_error(&b, __LINE__ - 1, "constant", NULL);
    b = start();
    ipu_graph_add_host_write(b.g, "c", b.c);
    expect_error(&b, __LINE__ - 1, "\"c\"", "constant", NULL);
    b            = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_graph_set_vertex_tile(b.g, v, 0);
    ipu_vertex_connect(v, "x", element(b.x, 0));
    ipu_vertex_connect(v, "y", element(b.x, 1));
    ipu_vertex_connect(v, "sum", element(b.c, 0));
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_INVALID);
    expect_text(ipu_message(), "\"c\"");
    expect_text(ipu_message(), "constant");
    ipu_graph_destroy(b.g);
}

/* ---- streams and remote buffers ---- */

static void a_stream_of_another_size_or_type_is_refused(void **state)
{
    (void)state;
    bench      b = start();
    ipu_stream s = ipu_graph_add_host_to_device(b.g, "in", IPU_FLOAT, 7, IPU_STREAM_REPLICATE);
    ipu_program_add_read(b.p, s, b.x);
    expect_error(&b, __LINE__ - 1, "\"in\"", "7", "8", NULL);
    b = start();
    s = ipu_graph_add_device_to_host(b.g, "out", IPU_HALF, 8);
    ipu_program_add_write(b.p, b.x, s);
    expect_error(&b, __LINE__ - 1, "\"out\"", "half", "float", NULL);
    b = start();
    s = ipu_graph_add_device_to_host(b.g, "out", IPU_FLOAT, 8);
    ipu_program_add_read(b.p, s, b.x);
    expect_error(&b, __LINE__ - 1, "\"out\"", NULL);
    b = start();
    s = ipu_graph_add_host_to_device(b.g, "in", IPU_FLOAT, 8, IPU_STREAM_BROADCAST);
    ipu_program_add_write(b.p, b.x, s);
    expect_error(&b, __LINE__ - 1, "\"in\"", NULL);
}

static void handles_are_unique_within_their_kind(void **state)
{
    (void)state;
    bench b = start();
    ipu_graph_add_host_to_device(b.g, "s", IPU_FLOAT, 8, IPU_STREAM_REPLICATE);
    ipu_graph_add_remote_buffer(b.g, "s", IPU_FLOAT, 8, 2);
    ipu_graph_add_host_read(b.g, "s", b.x);
    ipu_graph_add_host_write(b.g, "s", b.x);
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    ipu_graph_add_device_to_host(b.g, "s", IPU_FLOAT, 8);
    expect_error(&b, __LINE__ - 1, "\"s\"", NULL);
    b = start();
    ipu_graph_add_host_read(b.g, "s", b.x);
    ipu_graph_add_host_read(b.g, "s", b.x);
    expect_error(&b, __LINE__ - 1, "\"s\"", NULL);
}

static void a_remote_copy_must_fit_its_rows(void **state)
{
    (void)state;
    bench             b    = start();
    ipu_tensor        none = {b.g, 0};
    ipu_remote_buffer r    = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 3, 4);
    ipu_program_add_remote_read(b.p, r, none, b.x);
    expect_error(&b, __LINE__ - 1, "\"far\"", "float[8]", NULL);
    b              = start();
    r              = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 4, 4);
    ipu_tensor row = mapped(b.g, IPU_INT32, IPU_SHAPE(3), "row");
    ipu_program_add_remote_write(b.p, b.x, r, row);
    expect_error(&b, __LINE__ - 1, "\"far\"", "12", "float[8]", NULL);
    b = start();
    r = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 4, 4);
    ipu_program_add_remote_write(b.p, b.x, r, ipu_tensor_slice(b.y, 0, 2, 0));
    expect_error(&b, __LINE__ - 1, "row", "float", NULL);
    b    = start();
    none = (ipu_tensor){b.g, 0};
    r    = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 4, 1);
    ipu_program_add_remote_write(b.p, b.x, r, none);
    expect_error(&b, __LINE__ - 1, "\"far\"", NULL);
}

/* ---- control flow ---- */

static void a_predicate_is_one_bool_or_integer(void **state)
{
    (void)state;
    bench       b    = start();
    ipu_program body = ipu_program_sequence(b.g), none = {b.g, 0};
    ipu_program_add_if(b.p, ipu_tensor_slice(b.x, 0, 2, 0), body, none);
    expect_error(&b, __LINE__ - 1, "predicate", "float[2]", NULL);
    b    = start();
    body = ipu_program_sequence(b.g);
    ipu_program_add_while_true(b.p, body, element(b.x, 0), body);
    expect_error(&b, __LINE__ - 1, "predicate", "float[1]", NULL);
    b    = start();
    body = ipu_program_sequence(b.g);
    ipu_program_add_while_false(b.p, body, ipu_tensor_broadcast(ipu_tensor_flatten(b.flag), 3, 0), body);
    expect_error(&b, __LINE__ - 1, "predicate", "bool[3]", NULL);
    b = start();
    ipu_program_add_abort_if(b.p, element(b.h, 0), "stop");
    expect_error(&b, __LINE__ - 1, "predicate", "half[1]", NULL);
}

static void a_switch_has_each_case_once(void **state)
{
    (void)state;
    bench           b    = start();
    ipu_program     body = ipu_program_sequence(b.g), none = {b.g, 0};
    ipu_tensor      control = mapped(b.g, IPU_INT32, IPU_SCALAR, "control");
    ipu_switch_case cases[] = {{4, body}, {-7, body}, {4, body}};
    ipu_program_add_switch(b.p, control, cases, 3, none);
    expect_error(&b, __LINE__ - 1, "4", "twice", NULL);
    b             = start();
    body          = ipu_program_sequence(b.g);
    cases[0].body = body;
    none          = (ipu_program){b.g, 0};
    ipu_program_add_switch(b.p, element(b.x, 0), cases, 1, none);
    expect_error(&b, __LINE__ - 1, "float", NULL);
}

static void a_repeat_count_is_not_negative(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_repeat(b.p, -2, ipu_program_sequence(b.g));
    expect_error(&b, __LINE__ - 1, "-2", NULL);
}

static void a_cross_replica_copy_is_a_permutation_in_which_none_stays(void **state)
{
    (void)state;
    const int64_t wrong[][2] = {{0, 1}, {1, 1}, {1, 2}, {-1, 0}};
    for (int i = 0; i < 4; i++) {
        bench b = {.g = new_graph(2, 2)};
        b.p     = ipu_program_sequence(b.g);
        b.x     = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "x");
        b.y     = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "y");
        ipu_program_add_cross_replica_copy(b.p, b.x, b.y, wrong[i], 2);
        expect_error(&b, __LINE__ - 1, "replica", NULL);
    }
    bench b = {.g = new_graph(2, 2)};
    b.p     = ipu_program_sequence(b.g);
    b.x     = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "x");
    b.y     = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "y");
    ipu_program_add_cross_replica_copy(b.p, b.x, b.y, (int64_t[]){1}, 1);
    expect_error(&b, __LINE__ - 1, "2", NULL);
}

static void null_programs_and_objects_are_refused(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_copy((ipu_program){b.g, 0}, b.x, b.y);
    expect_error(&b, __LINE__ - 1, "program", NULL);
    b = start();
    ipu_program_add_execute(b.p, (ipu_compute_set){b.g, 0});
    expect_error(&b, __LINE__ - 1, "compute set", NULL);
    b = start();
    ipu_program_add_repeat(b.p, 3, (ipu_program){b.g, 0});
    expect_error(&b, __LINE__ - 1, "program", NULL);
    b = start();
    ipu_program_add_call(b.p, (ipu_function){b.g, 0});
    expect_error(&b, __LINE__ - 1, "function", NULL);
    b = start();
    ipu_program_add_read(b.p, (ipu_stream){b.g, 0}, b.x);
    expect_error(&b, __LINE__ - 1, "stream", NULL);
    b = start();
    ipu_program_add_remote_write(b.p, b.x, (ipu_remote_buffer){b.g, 0}, (ipu_tensor){b.g, 0});
    expect_error(&b, __LINE__ - 1, "remote buffer", NULL);
    b = start();
    ipu_program_add_copy(b.p, (ipu_tensor){b.g, 0}, b.y);
    expect_error(&b, __LINE__ - 1, "null", NULL);
    b = start();
    ipu_program_add_print(b.p, "t", (ipu_tensor){b.g, 0});
    expect_error(&b, __LINE__ - 1, "null", NULL);
}

static void programs_of_two_graphs_do_not_mix(void **state)
{
    (void)state;
    bench other = start(), b = start();
    ipu_program_add_copy(b.p, b.x, other.y);
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    ipu_program_add(b.p, other.p);
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    ipu_program_add_execute(b.p, other.cs);
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    ipu_program_add_if(b.p, b.flag, b.p, other.p);
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    expect_good(&other);
}

static void a_program_may_hold_an_earlier_state_of_itself(void **state)
{
    (void)state;
    bench b = start();
    ipu_program_add_repeat(b.p, 2, b.p);
    ipu_program_add(b.p, b.p);
    expect_good(&b);
}

static void programs_that_grow_without_end_are_refused(void **state)
{
    (void)state;
    bench b = start();
    for (int i = 0; i < 60; i++) ipu_program_add(b.p, b.p);
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_UNSUPPORTED);
    expect_text(ipu_message(), "steps");
    ipu_graph_destroy(b.g);
    b = start();
    for (int i = 0; i < 100000; i++) {
        ipu_program outer = ipu_program_sequence(b.g);
        ipu_program_add_repeat(outer, 1, b.p);
        b.p = outer;
    }
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_UNSUPPORTED);
    expect_text(ipu_message(), "deep");
    ipu_graph_destroy(b.g);
}

/* ---- kernels ---- */

static void an_unknown_kernel_names_the_nearest(void **state)
{
    (void)state;
    bench      b     = start();
    ipu_tensor ops[] = {b.x, b.y, b.z};
    ipu_program_add_kernel(b.p, "ad", NULL, 0, ops, 3);
    expect_not_found(&b, __LINE__ - 1, "\"ad\"", "\"add\"", NULL);
}

static void a_kernel_with_wrong_operands_says_what_it_expects(void **state)
{
    (void)state;
    bench      b     = start();
    ipu_tensor ops[] = {b.x, ipu_tensor_slice(b.y, 0, 7, 0), b.z};
    ipu_program_add_kernel(b.p, "add", NULL, 0, ops, 3);
    expect_error(&b, __LINE__ - 1, "add", "[8]", "[7]", NULL);
    b                  = start();
    ipu_tensor types[] = {b.x, b.h, b.z};
    ipu_program_add_kernel(b.p, "add", NULL, 0, types, 3);
    expect_error(&b, __LINE__ - 1, "add", "float", "half", NULL);
    b                = start();
    ipu_tensor two[] = {b.x, b.z};
    ipu_program_add_kernel(b.p, "add", NULL, 0, two, 2);
    expect_error(&b, __LINE__ - 1, "add", "2", "3", NULL);
    b            = start();
    ipu_tensor m = ipu_tensor_reshape(b.x, IPU_SHAPE(2, 4)), mat[] = {m, m, b.z};
    ipu_program_add_kernel(b.p, "matmul", NULL, 0, mat, 3);
    expect_error(&b, __LINE__ - 1, "matmul", "[2,4]", NULL);
    b = start();
    ipu_program_add_kernel(b.p, "fill", NULL, 0, &b.x, 1);
    expect_error(&b, __LINE__ - 1, "fill", "\"value\"", NULL);
    b = start();
    ipu_program_add_kernel(b.p, "fill", (ipu_attribute[]){IPU_FLOAT_ATTRIBUTE("valu", 1)}, 1, &b.x, 1);
    expect_error(&b, __LINE__ - 1, "fill", "\"valu\"", "\"value\"", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_of_different_sizes_names_both),
        cmocka_unit_test(a_copy_of_different_types_names_both),
        cmocka_unit_test(a_copy_onto_itself_names_the_overlap),
        cmocka_unit_test(a_copy_to_repeated_elements_is_refused),
        cmocka_unit_test(nothing_writes_to_a_constant),
        cmocka_unit_test(a_stream_of_another_size_or_type_is_refused),
        cmocka_unit_test(handles_are_unique_within_their_kind),
        cmocka_unit_test(a_remote_copy_must_fit_its_rows),
        cmocka_unit_test(a_predicate_is_one_bool_or_integer),
        cmocka_unit_test(a_switch_has_each_case_once),
        cmocka_unit_test(a_repeat_count_is_not_negative),
        cmocka_unit_test(a_cross_replica_copy_is_a_permutation_in_which_none_stays),
        cmocka_unit_test(null_programs_and_objects_are_refused),
        cmocka_unit_test(programs_of_two_graphs_do_not_mix),
        cmocka_unit_test(a_program_may_hold_an_earlier_state_of_itself),
        cmocka_unit_test(programs_that_grow_without_end_are_refused),
        cmocka_unit_test(an_unknown_kernel_names_the_nearest),
        cmocka_unit_test(a_kernel_with_wrong_operands_says_what_it_expects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
