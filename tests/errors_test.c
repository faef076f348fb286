/* Every mistake in mappings, vertices, shapes and handles that a compile must find, provoked: the message
 * must hold this file's name, the line of the wrong call, and the names and element ranges involved.
 */
#include "support/error_bench.h"

/* ---- mapping ---- */

static void an_unmapped_variable_is_named_with_its_range(void **state)
{
    (void)state;
    bench      b    = start();
    int        line = __LINE__ + 1;
    ipu_tensor u    = ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(8), "halfway");
    ipu_graph_set_tile_mapping(b.g, ipu_tensor_slice(u, 0, 5, 0), 3);
    ipu_program_add_copy(b.p, b.x, u);
    expect_error(&b, line, "halfway", "[5, 8)", "tile", NULL);
}

static void an_unmapped_variable_of_a_vertex_is_named(void **state)
{
    (void)state;
    bench      b    = start();
    int        line = __LINE__ + 1;
    ipu_tensor u    = ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SCALAR, "nowhere");
    add_adder(&b, u, element(b.x, 0), element(b.y, 0));
    expect_error(&b, line, "nowhere", NULL);
}

static void a_variable_that_no_program_uses_need_not_be_mapped(void **state)
{
    (void)state;
    bench b = start();
    ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(8), "spare");
    expect_good(&b);
}

static void a_vertex_without_a_tile_is_named(void **state)
{
    (void)state;
    bench      b    = start();
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "x", element(b.x, 0));
    ipu_vertex_connect(v, "y", element(b.x, 1));
    ipu_vertex_connect(v, "sum", element(b.y, 0));
    expect_error(&b, line, "Adder", "work", "tile", NULL);
}

static void a_tile_out_of_range_is_refused(void **state)
{
    (void)state;
    bench b = start();
    ipu_graph_set_tile_mapping(b.g, b.x, N_TILES);
    expect_error(&b, __LINE__ - 1, "8", "tile", NULL);
    b            = start();
    ipu_vertex v = add_adder(&b, element(b.x, 0), element(b.x, 1), element(b.y, 0));
    ipu_graph_set_vertex_tile(b.g, v, -1);
    expect_error(&b, __LINE__ - 1, "-1", "tile", NULL);
}

/* ---- fields ---- */

static void an_unconnected_field_is_named(void **state)
{
    (void)state;
    bench      b    = start();
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "x", element(b.x, 0));
    ipu_vertex_connect(v, "sum", element(b.y, 0));
    expect_error(&b, line, "Adder", "\"y\"", NULL);
}

static void state_that_is_not_set_is_named(void **state)
{
    (void)state;
    bench      b    = start();
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Scale");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "from", b.x);
    ipu_vertex_connect(v, "to", b.y);
    expect_error(&b, line, "Scale", "\"factor\"", NULL);
}

static void a_field_connected_twice_is_refused(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = add_adder(&b, element(b.x, 0), element(b.x, 1), element(b.y, 0));
    ipu_vertex_connect(v, "y", element(b.x, 2));
    expect_error(&b, __LINE__ - 1, "Adder", "\"y\"", NULL);
}

static void a_type_mismatch_names_both_types(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "x", element(b.h, 0));
    expect_error(&b, __LINE__ - 1, "Adder", "\"x\"", "float", "half", NULL);
}

static void a_length_mismatch_names_the_length(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "x", ipu_tensor_slice(b.x, 0, 3, 0));
    expect_error(&b, __LINE__ - 1, "Adder", "\"x\"", "3", NULL);
}

static void a_pointer_takes_any_length(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "values", ipu_tensor_slice(b.x, 0, 3, 0));
    ipu_vertex_set(v, "n", 3);
    expect_good(&b);
}

static void a_list_of_runs_needs_rank_2_or_a_list(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "SumRows");
    ipu_vertex_connect(v, "rows", b.x);
    expect_error(&b, __LINE__ - 1, "SumRows", "\"rows\"", "[8]", NULL);
    b = start();
    v = ipu_graph_add_vertex(b.g, b.cs, "SumRows");
    ipu_vertex_connect_list(v, "sums", &b.x, 1);
    expect_error(&b, __LINE__ - 1, "SumRows", "\"sums\"", NULL);
}

static void an_unknown_field_names_the_nearest(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "summ", element(b.y, 0));
    expect_not_found(&b, __LINE__ - 1, "Adder", "\"summ\"", "\"sum\"", NULL);
}

static void state_must_be_representable_and_of_its_kind(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_vertex_set(v, "n", 200);
    expect_error(&b, __LINE__ - 1, "Increment", "\"n\"", "200", "int8", NULL);
    b = start();
    v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_vertex_set(v, "n", 1.5);
    expect_error(&b, __LINE__ - 1, "\"n\"", "1.5", NULL);
    b = start();
    v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_vertex_set(v, "values", 1);
    expect_error(&b, __LINE__ - 1, "\"values\"", NULL);
    b = start();
    v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_vertex_connect(v, "n", b.x);
    expect_error(&b, __LINE__ - 1, "\"n\"", NULL);
    b = start();
    v = ipu_graph_add_vertex(b.g, b.cs, "Increment");
    ipu_vertex_set_data(v, "n", (int8_t[]){1, 2}, 2);
    expect_error(&b, __LINE__ - 1, "\"n\"", "2", NULL);
}

/* ---- codelets ---- */

static void an_unknown_codelet_names_the_nearest(void **state)
{
    (void)state;
    bench b = start();
    ipu_graph_add_vertex(b.g, b.cs, "Addder");
    expect_not_found(&b, __LINE__ - 1, "\"Addder\"", "\"Adder\"", NULL);
}

static void another_codelet_of_the_same_name_is_refused(void **state)
{
    (void)state;
    bench       b    = start();
    ipu_codelet fake = Scale;
    fake.name        = "Adder";
    ipu_graph_add_codelet(b.g, &Adder);
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    ipu_graph_add_codelet(b.g, &fake);
    expect_error(&b, __LINE__ - 1, "\"Adder\"", NULL);
}

static void a_codelet_without_a_body_does_not_compile(void **state)
{
    (void)state;
    bench       b        = start();
    ipu_codelet bodiless = Adder;
    bodiless.name        = "Ghost";
    bodiless.compute     = NULL;
    ipu_graph_add_codelet(b.g, &bodiless);
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Ghost");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "x", element(b.x, 0));
    ipu_vertex_connect(v, "y", element(b.x, 0));
    ipu_vertex_connect(v, "sum", element(b.y, 0));
    ipu_executable *exe = NULL;
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_OK);
    assert_int_equal(ipu_executable_compile(b.g, &b.p, 1, NULL, &exe), IPU_INVALID);
    assert_null(exe);
    expect_line(ipu_message(), __FILE__, line);
    expect_text(ipu_message(), "\"Ghost\"");
    expect_text(ipu_message(), "body");
    ipu_graph_destroy(b.g);
}

/* ---- races ---- */

static void a_write_write_race_names_both_vertices_and_the_range(void **state)
{
    (void)state;
    bench      b      = start();
    int        first  = __LINE__ + 1;
    ipu_vertex v      = ipu_graph_add_vertex(b.g, b.cs, "Scale");
    int        second = __LINE__ + 1;
    ipu_vertex w      = ipu_graph_add_vertex(b.g, b.cs, "Scale");
    ipu_graph_set_vertex_tile(b.g, v, 1);
    ipu_graph_set_vertex_tile(b.g, w, 2);
    ipu_vertex_connect(v, "from", ipu_tensor_slice(b.x, 0, 5, 0));
    ipu_vertex_connect(v, "to", ipu_tensor_slice(b.y, 0, 5, 0));
    ipu_vertex_set(v, "factor", 2);
    ipu_vertex_connect(w, "from", ipu_tensor_slice(b.x, 3, 8, 0));
    ipu_vertex_connect(w, "to", ipu_tensor_slice(b.y, 3, 8, 0));
    ipu_vertex_set(w, "factor", 2);
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_INVALID);
    expect_line(ipu_message(), __FILE__, first);
    expect_error(&b, second, "Scale", "work", "\"y\"", "[3, 5)", NULL);
}

static void a_read_write_race_names_both_vertices_and_the_range(void **state)
{
    (void)state;
    bench b = start();
    add_scale(&b, ipu_tensor_slice(b.x, 0, 4, 0), ipu_tensor_slice(b.y, 0, 4, 0));
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Scale");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "from", ipu_tensor_slice(b.y, 2, 8, 0));
    ipu_vertex_connect(v, "to", ipu_tensor_slice(b.z, 2, 8, 0));
    ipu_vertex_set(v, "factor", 2);
    expect_error(&b, line, "Scale", "work", "\"y\"", "[2, 4)", NULL);
}

static void a_race_between_interleaved_views_is_found(void **state)
{
    (void)state;
    bench b = start();
    add_scale(&b, ipu_tensor_subsample(b.x, 2, 0), ipu_tensor_subsample(b.y, 2, 0));
    int        line = __LINE__ + 1;
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_graph_set_vertex_tile(b.g, v, 2);
    ipu_vertex_connect(v, "x", element(b.x, 0));
    ipu_vertex_connect(v, "y", element(b.x, 0));
    ipu_vertex_connect(v, "sum", element(b.y, 6));
    expect_error(&b, line, "Adder", "Scale", "\"y\"", "6", NULL);
}

static void interleaved_views_do_not_race(void **state)
{
    (void)state;
    bench b = start();
    add_scale(&b, ipu_tensor_subsample(b.x, 2, 0), ipu_tensor_subsample(b.y, 2, 0));
    add_scale(&b, ipu_tensor_subsample(b.x, 2, 0),
              ipu_tensor_subsample(ipu_tensor_slice(b.y, 1, 8, 0), 2, 0));
    expect_good(&b);
}

static void a_vertex_may_read_what_it_writes_itself(void **state)
{
    (void)state;
    bench b = start();
    add_adder(&b, element(b.x, 0), element(b.x, 1), element(b.x, 0));
    expect_good(&b);
}

static void an_output_that_repeats_elements_is_refused(void **state)
{
    (void)state;
    bench b = start();
    add_scale(&b, b.x, ipu_tensor_broadcast(ipu_tensor_slice(b.y, 0, 4, 0), 2, 0));
    ipu_status status = ipu_graph_check(b.g, &b.p, 1);
    assert_int_equal(status, IPU_INVALID);
    expect_text(ipu_message(), "Scale");
    expect_text(ipu_message(), "\"to\"");
    ipu_graph_destroy(b.g);
}

/* ---- shapes and handles ---- */

static void impossible_shapes_are_refused(void **state)
{
    (void)state;
    const int64_t big = (int64_t)1 << 32;
    bench         b   = start();
    ipu_graph_add_variable(b.g, IPU_FLOAT, (ipu_shape){.rank = 9}, "nine");
    expect_error(&b, __LINE__ - 1, "9", "8", NULL);
    b = start();
    ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(4, -2), "negative");
    expect_error(&b, __LINE__ - 1, "[4,-2]", NULL);
    b = start();
    ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(big, big), "huge");
    expect_error(&b, __LINE__ - 1, "[4294967296,4294967296]", NULL);
    b = start();
    ipu_graph_add_constant_value(b.g, IPU_FLOAT, IPU_SHAPE(big, big, 0, big), 1, "huge and empty");
    expect_error(&b, __LINE__ - 1, "4294967296", NULL);
    b = start();
    ipu_graph_add_variable(b.g, IPU_N_TYPES, IPU_SHAPE(4), "typeless");
    expect_error(&b, __LINE__ - 1, "type", NULL);
    b = start();
    ipu_graph_add_constant_value(b.g, IPU_INT8, IPU_SCALAR, 300, "too large");
    expect_error(&b, __LINE__ - 1, "300", "int8", NULL);
}

static void empty_tensors_are_fine_everywhere(void **state)
{
    (void)state;
    bench      b    = start();
    ipu_tensor none = ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(0, 3), "none");
    ipu_tensor more = ipu_graph_add_constant(b.g, IPU_FLOAT, IPU_SHAPE(0), NULL, "nothing");
    ipu_vertex v    = ipu_graph_add_vertex(b.g, b.cs, "Scale");
    ipu_graph_map_linearly(b.g, none);
    ipu_graph_set_tile_mapping(b.g, more, 0);
    ipu_graph_set_vertex_tile(b.g, v, 0);
    ipu_vertex_connect(v, "from", more);
    ipu_vertex_connect(v, "to", none);
    ipu_vertex_set(v, "factor", 1);
    ipu_program_add_copy(b.p, more, none);
    ipu_program_add_print(b.p, "none", none);
    ipu_program_add_write_undef(b.p, none);
    ipu_stream in = ipu_graph_add_host_to_device(b.g, "in", IPU_FLOAT, 0, IPU_STREAM_BROADCAST);
    ipu_program_add_read(b.p, in, none);
    ipu_graph_add_host_read(b.g, "none", none);
    expect_good(&b);
}

static void null_handles_are_refused_and_never_crash(void **state)
{
    (void)state;
    bench           b         = start();
    ipu_vertex      no_vertex = {b.g, 0};
    ipu_compute_set no_set    = {b.g, 0};
    ipu_graph_set_vertex_tile(b.g, no_vertex, 0);
    expect_error(&b, __LINE__ - 1, "vertex", NULL);
    b = start();
    ipu_vertex_connect((ipu_vertex){b.g, 0}, "x", b.x);
    expect_error(&b, __LINE__ - 1, "vertex", NULL);
    b            = start();
    no_set.graph = b.g;
    ipu_graph_add_vertex(b.g, no_set, "Adder");
    expect_error(&b, __LINE__ - 1, "compute set", NULL);
    b            = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "x", (ipu_tensor){b.g, 0});
    expect_error(&b, __LINE__ - 1, "null", NULL);
    b = start();
    ipu_graph_map_linearly(b.g, (ipu_tensor){b.g, 0});
    expect_error(&b, __LINE__ - 1, "null", NULL);
    ipu_vertex_connect((ipu_vertex){0}, "x", (ipu_tensor){0});
    ipu_program_add_copy((ipu_program){0}, (ipu_tensor){0}, (ipu_tensor){0});
    ipu_program_add_execute((ipu_program){0}, (ipu_compute_set){0});
    ipu_graph_destroy(NULL);
    ipu_engine_destroy(NULL);
    ipu_executable_release(NULL);
    ipu_free(NULL);
}

static void a_replication_that_does_not_divide_the_ipus_is_refused(void **state)
{
    (void)state;
    ipu_target target;
    ipu_graph *g = NULL;
    assert_int_equal(ipu_target_find("gc200", 4, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 3, &g), IPU_INVALID);
    expect_text(ipu_message(), "3");
    expect_text(ipu_message(), "4");
    assert_int_equal(ipu_graph_create(&target, 0, &g), IPU_INVALID);
    assert_null(g);
}

static void things_of_two_graphs_do_not_mix(void **state)
{
    (void)state;
    bench      other = start(), b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_vertex_connect(v, "x", element(other.x, 0));
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    ipu_graph_add_vertex(b.g, other.cs, "Adder");
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    ipu_graph_set_tile_mapping(b.g, other.x, 0);
    expect_error(&b, __LINE__ - 1, "graph", NULL);
    b = start();
    assert_int_equal(ipu_graph_check(b.g, &other.p, 1), IPU_INVALID);
    expect_text(ipu_message(), "graph");
    ipu_graph_destroy(b.g);
    expect_good(&other);
}

/* ---- many problems at once ---- */

static int count_text(const char *message, const char *text)
{
    int n = 0;
    for (const char *at = strstr(message, text); at; at = strstr(at + 1, text)) n++;
    return n;
}

static void of_25_problems_20_are_told_and_the_rest_counted(void **state)
{
    (void)state;
    bench b = start();
    for (int i = 0; i < 25; i++) {
        ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Adder");
        ipu_vertex_connect(v, "x", element(b.x, 0));
        ipu_vertex_connect(v, "y", element(b.x, 1));
        ipu_vertex_connect(v, "sum", ipu_tensor_at(mapped(b.g, IPU_FLOAT, IPU_SCALAR, "out"), NULL, 0));
    }
    assert_int_equal(ipu_graph_check(b.g, &b.p, 1), IPU_INVALID);
    assert_int_equal(count_text(ipu_message(), __FILE__), 20);
    assert_int_equal(count_text(ipu_message(), "\n"), 20);
    expect_text(ipu_message(), "5 more");
    ipu_graph_destroy(b.g);
}

static void the_first_error_of_the_builders_comes_before_any_check(void **state)
{
    (void)state;
    bench b = start();
    ipu_graph_add_vertex(b.g, b.cs, "Adder");
    ipu_graph_set_tile_mapping(b.g, b.x, 99);
    ipu_program_add_copy(b.p, b.x, b.h);
    expect_error(&b, __LINE__ - 2, "99", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unmapped_variable_is_named_with_its_range),
        cmocka_unit_test(an_unmapped_variable_of_a_vertex_is_named),
        cmocka_unit_test(a_variable_that_no_program_uses_need_not_be_mapped),
        cmocka_unit_test(a_vertex_without_a_tile_is_named),
        cmocka_unit_test(a_tile_out_of_range_is_refused),
        cmocka_unit_test(an_unconnected_field_is_named),
        cmocka_unit_test(state_that_is_not_set_is_named),
        cmocka_unit_test(a_field_connected_twice_is_refused),
        cmocka_unit_test(a_type_mismatch_names_both_types),
        cmocka_unit_test(a_length_mismatch_names_the_length),
        cmocka_unit_test(a_pointer_takes_any_length),
        cmocka_unit_test(a_list_of_runs_needs_rank_2_or_a_list),
        cmocka_unit_test(an_unknown_field_names_the_nearest),
        cmocka_unit_test(state_must_be_representable_and_of_its_kind),
        cmocka_unit_test(an_unknown_codelet_names_the_nearest),
        cmocka_unit_test(another_codelet_of_the_same_name_is_refused),
        cmocka_unit_test(a_codelet_without_a_body_does_not_compile),
        cmocka_unit_test(a_write_write_race_names_both_vertices_and_the_range),
        cmocka_unit_test(a_read_write_race_names_both_vertices_and_the_range),
        cmocka_unit_test(a_race_between_interleaved_views_is_found),
        cmocka_unit_test(interleaved_views_do_not_race),
        cmocka_unit_test(a_vertex_may_read_what_it_writes_itself),
        cmocka_unit_test(an_output_that_repeats_elements_is_refused),
        cmocka_unit_test(impossible_shapes_are_refused),
        cmocka_unit_test(empty_tensors_are_fine_everywhere),
        cmocka_unit_test(null_handles_are_refused_and_never_crash),
        cmocka_unit_test(a_replication_that_does_not_divide_the_ipus_is_refused),
        cmocka_unit_test(things_of_two_graphs_do_not_mix),
        cmocka_unit_test(of_25_problems_20_are_told_and_the_rest_counted),
        cmocka_unit_test(the_first_error_of_the_builders_comes_before_any_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
