/* Importing: names, functions, dimensions and initial values as they should be, and graphs that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "onnx/run_test.h"

#define X2 VALUES(FLOATS(IPU_SHAPE(2), 1, -2))

static void expect_wrong(const char *source, ipu_status status, const char *because)
{
    expect_error(model(13, graph(source, NULL), none), X2, status, because);
}

/* ---- names ---- */

static void names_given_twice_are_refused(void **state)
{
    (void)state;
    expect_wrong("in x float[2]; out y; y = Neg(x); y = Exp(x)", IPU_INVALID, "value \"y\" is defined twice");
    expect_wrong("in x float[2]; out y; x = Neg(x)", IPU_INVALID, "value \"x\" is defined twice");
    expect_wrong("in x float[2]; const k int64[1] 1; const k int64[1] 1; out y; y = Neg(x)", IPU_INVALID,
                 "value \"k\" is defined twice");
    expect_error(model(13, graph("in x float[2]; in x float[2]; out y; y = Neg(x)", NULL), none),
                 VALUES(FLOATS(IPU_SHAPE(2), 1, 2), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_INVALID, "x");
}

static void names_that_nothing_gives_and_cycles_are_refused(void **state)
{
    (void)state;
    expect_wrong("in x float[2]; out y; y = Neg(z)", IPU_INVALID,
                 "value \"z\" is used before any node gives it");
    expect_wrong("in x float[2]; out z; y = Neg(x)", IPU_INVALID, "value \"z\" is used before");
    expect_wrong("in x float[2]; out b; a = Add(x, b); b = Neg(a)", IPU_INVALID,
                 "value \"b\" is used before");
    expect_wrong("in x float[2]; out a; a = Neg(a)", IPU_INVALID, "value \"a\" is used before");
    /* What a graph within gives is not seen outside. */
    const bytes branch[] = {graph("out t; t = Neg(x)", NULL)};
    expect_error(
        model(
            13,
            graph(
                "in x float[2]; const c bool[] 1; out y; z = If(c) then_branch=@0 else_branch=@0; y = Neg(t)",
                branch),
            none),
        X2, IPU_INVALID, "value \"t\" is used before");
}

static void errors_say_which_node_it_was(void **state)
{
    (void)state;
    expect_wrong("in x float[2]; const k float[3] 1 2 3; out y; a = Neg(x); y = Add(a, k)", IPU_INVALID,
                 "node 2 (Add)");
    expect_wrong("in x float[2]; out y; y = Concat(x) axis=0.5", IPU_INVALID,
                 "attribute \"axis\" must be an integer");
    expect_wrong("in x float[2]; out y; y = Concat(x) axis=7", IPU_INVALID, "axis 7");
    expect_wrong("in x float[2]; out y; y = Neg()", IPU_INVALID, "input 0 is missing");
}

static void ops_that_are_not_known_are_listed_all_at_once(void **state)
{
    (void)state;
    const char *source = "in x float[2]; out y; a = Foo(x); b = my:Bar(a); y = Foo(b); z = Neg(x)";
    expect_wrong(source, IPU_UNSUPPORTED, "2 of its ops cannot be imported");
    expect_wrong(source, IPU_UNSUPPORTED, "Foo (2)");
    expect_wrong(source, IPU_UNSUPPORTED, "my.Bar (1)");
}

static void an_output_may_be_an_input_or_an_initial_value_or_another_output(void **state)
{
    (void)state;
    ipu_onnx_value out[4];
    run_file(model(13,
                   graph("in x float[2]; const k float[1] 7; out x; out k; out y; out y; y = Neg(x)", NULL),
                   none),
             X2, out, 4);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2), 1, -2);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(1), 7);
    ASSERT_ARRAY(&out[2], IPU_SHAPE(2), -1, 2);
    ASSERT_ARRAY(&out[3], IPU_SHAPE(2), -1, 2);
    for (int i = 0; i < 4; i++) ipu_onnx_value_free(&out[i]);
}

/* ---- tensors by name ---- */

static void tensors_of_the_file_are_found_in_the_model(void **state)
{
    (void)state;
    bytes functions = function("my", "Twice", 13, "in a; out b; within = Add(a, a); b = Identity(within)");
    bytes b         = model(13,
                            graph("in x float[2]; const k float[2] 3 4; const unused float[1] 0; out y; "
                                          "same = Identity(x); s = Shape(x); f = my:Twice(same); again = Identity(k); "
                                          "y = Add(f, again)",
                                  NULL),
                            functions);
    ipu_onnx  *file;
    ipu_model *m;
    assert_int_equal(ipu_onnx_read(b.at, b.n, NULL, &file), IPU_OK);
    if (ipu_onnx_import(file, NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_onnx_close(file); /* names are the model's */
    ipu_value x = ipu_model_value_named(m, "x"), k = ipu_model_value_named(m, "k");
    assert_int_equal(x.id, ipu_model_input_at(m, 0).id);
    assert_int_equal(ipu_model_value_named(m, "same").id, x.id);
    assert_int_equal(ipu_value_dim(k, 0), 2);
    assert_int_equal(ipu_model_value_named(m, "again").id, k.id);
    assert_int_equal(ipu_value_type(ipu_model_value_named(m, "s")), IPU_INT64);
    assert_int_equal(ipu_model_value_named(m, "f").id, ipu_model_value_named(m, "within").id);
    assert_int_equal(ipu_model_value_named(m, "y").id, ipu_model_output_at(m, 0, NULL).id);
    assert_int_equal(ipu_model_value_named(m, "agian").id, 0);
    assert_string_equal(ipu_message(), "the model has no value \"agian\" (did you mean \"again\"?)");
    ipu_model_destroy(m);
}

/* ---- functions ---- */

static void functions_are_inlined_with_names_of_their_own(void **state)
{
    (void)state;
    bytes functions = join(function("my", "Twice", 13, "in a; out b; t = Add(a, a); b = Identity(t)"),
                           function("my", "Four", 13, "in a; out b; t = my:Twice(a); b = my:Twice(t)"));
    EXPECT(model(13, graph("in x float[2]; out y; t = my:Four(x); a = my:Twice(t); y = Neg(a)", NULL),
                 functions),
           X2, IPU_SHAPE(2), -8, 16);
}

static void attributes_of_functions_reach_their_nodes(void **state)
{
    (void)state;
    bytes functions = join(function("my", "Inner", 13, "in a; out b; b = LeakyRelu(a) alpha=$slope"),
                           function("my", "Outer", 13, "in a; out b; b = my:Inner(a) slope=$s"));
    EXPECT(model(13, graph("in x float[2]; out y; y = my:Outer(x) s=0.25", NULL), functions), X2,
           IPU_SHAPE(2), 1, -0.5);
    /* Not given: the op's own default. */
    EXPECT(model(13, graph("in x float[2]; out y; y = my:Outer(x)", NULL), functions), X2, IPU_SHAPE(2), 1,
           -0.02);
    expect_error(model(13, graph("in x float[2]; out y; y = LeakyRelu(x) alpha=$s", NULL), none), X2,
                 IPU_INVALID, "it is in none");
}

static void functions_of_newer_files_have_defaults(void **state)
{
    (void)state;
    bytes f = JOIN(text(1, "F"), text(10, "my"), block(9, opset("", 13)),
                   statements("in a; out b; b = LeakyRelu(a) alpha=$s", NULL, true),
                   block(11, attribute("other", "2.0", NULL)), block(11, attribute("s", "0.25", NULL)));
    EXPECT(model(13, graph("in x float[2]; out y; y = my:F(x)", NULL), block(25, f)), X2, IPU_SHAPE(2), 1,
           -0.5);
    EXPECT(model(13, graph("in x float[2]; out y; y = my:F(x) s=0.5", NULL), block(25, f)), X2, IPU_SHAPE(2),
           1, -1);
}

static void inputs_that_a_call_leaves_out_are_left_out_within(void **state)
{
    (void)state;
    bytes f = function("my", "F", 13, "in a; in low; in high; out b; b = Clip(a, low, high)");
    EXPECT(model(13, graph("in x float[2]; const h float[] 0.5; out y; y = my:F(x, -, h)", NULL), f), X2,
           IPU_SHAPE(2), 0.5, -2);
    EXPECT(model(13, graph("in x float[2]; const l float[] -1; out y; y = my:F(x, l)", NULL), f), X2,
           IPU_SHAPE(2), 1, -1);
}

static void functions_without_end_are_refused(void **state)
{
    (void)state;
    bytes itself = function("my", "F", 13, "in a; out b; b = my:F(a)");
    expect_error(model(13, graph("in x float[2]; out y; y = my:F(x)", NULL), itself), X2, IPU_INVALID,
                 "without end");
    bytes both = join(function("my", "F", 13, "in a; out b; b = my:G(a)"),
                      function("my", "G", 13, "in a; out b; b = my:F(a)"));
    expect_error(model(13, graph("in x float[2]; out y; y = my:F(x)", NULL), both), X2, IPU_INVALID,
                 "without end");
    /* Not endless, but 2^50 nodes. */
    bytes doubling = function("my", "F0", 13, "in a; out b; b = Neg(a)");
    for (int i = 1; i <= 50; i++) {
        char name[10], source[80];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(source, sizeof source, "in a; out b; t = my:F%d(a); b = my:F%d(t)", i - 1, i - 1);
        doubling = join(doubling, function("my", name, 13, source));
    }
    expect_error(model(13, graph("in x float[2]; out y; y = my:F50(x)", NULL), doubling), X2, IPU_INVALID,
                 "nodes once");
}

/* ---- dimensions ---- */

static ipu_status import_with(bytes file, const char *const *dims, size_t n, ipu_shape *found)
{
    ipu_onnx  *opened;
    ipu_model *m;
    assert_int_equal(ipu_onnx_read(file.at, file.n, NULL, &opened), IPU_OK);
    ipu_status  status = ipu_onnx_import(opened, &(ipu_onnx_options){.dims = dims, .n_dims = n}, &m);
    const char *name;
    if (status == IPU_OK) *found = ipu_value_shape(ipu_model_output_at(m, 0, &name));
    ipu_model_destroy(m);
    ipu_onnx_close(opened);
    return status;
}

static void dimensions_with_names_are_given_by_options(void **state)
{
    (void)state;
    bytes       file   = model(13, graph("in x float[N,-1,3]; out y; y = Neg(x)", NULL), none);
    const char *dims[] = {"N=4", "x.1=5"}, *bad[] = {"N=4", "x.1=five"}, *negative[] = {"N=-4", "x.1=5"};
    ipu_shape   found;
    if (import_with(file, dims, 2, &found) != IPU_OK) fail_msg("%s", ipu_message());
    assert_true(found.rank == 3 && found.dim[0] == 4 && found.dim[1] == 5 && found.dim[2] == 3);
    assert_int_equal(import_with(file, dims, 1, &found), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "--shape x.1=8"));
    assert_int_equal(import_with(file, NULL, 0, &found), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "--shape N=8"));
    assert_int_equal(import_with(file, bad, 2, &found), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "x.1=five"));
    assert_int_equal(import_with(file, negative, 2, &found), IPU_INVALID);
}

static void dimensions_beyond_all_memory_are_an_error(void **state)
{
    (void)state;
    ipu_shape found;
    assert_int_not_equal(
        import_with(model(13, graph("in x float[4611686018427387904,4]; out y; y = Neg(x)", NULL), none),
                    NULL, 0, &found),
        IPU_OK);
    assert_int_not_equal(
        import_with(model(13, graph("in x float[9223372036854775807]; out y; y = Neg(x)", NULL), none), NULL,
                    0, &found),
        IPU_OK);
    const char *huge =
        "in x float[]; const k int64[3] 1099511627776 1099511627776 1099511627776; out y; y = Expand(x, k)";
    assert_int_not_equal(import_with(model(13, graph(huge, NULL), none), NULL, 0, &found), IPU_OK);
    /* Empty, but of dimensions that cannot be multiplied. */
    const char *empty = "in x float[0,4611686018427387904,4611686018427387904]; out y; y = Neg(x)";
    assert_int_not_equal(import_with(model(13, graph(empty, NULL), none), NULL, 0, &found), IPU_OK);
    const char *minus = "in x float[1]; const k int64[2] -3 1; out y; y = Expand(x, k)";
    assert_int_not_equal(import_with(model(13, graph(minus, NULL), none), NULL, 0, &found), IPU_OK);
}

static void a_value_that_decides_a_shape_names_its_input(void **state)
{
    (void)state;
    ipu_shape found;
    bytes     file = model(
            13, graph("in x float[6]; in s int64[2]; out y; t = Neg(s); u = Neg(t); y = Reshape(x, u)", NULL),
            none);
    assert_int_equal(import_with(file, NULL, 0, &found), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "on input \"s\""));
    bytes data = model(13, graph("in x float[6]; out y; r = NonZero(x); y = Reshape(x, r)", NULL), none);
    assert_int_not_equal(import_with(data, NULL, 0, &found), IPU_OK);
}

static void very_long_chains_do_not_end_the_stack(void **state)
{
    (void)state;
    /* 100000 nodes, and then a shape that depends on all of them. */
    bytes          g = statements("in x float[6]; in s int64[1]; out y", NULL, false);
    size_t         n = 100000, at = 0;
    unsigned char *data = ipu__arena_alloc(&pool, n * 40);
    for (size_t i = 0; i < n; i++) {
        char line[40];
        snprintf(line, sizeof line, "v%06zu", i);
        char from[40];
        snprintf(from, sizeof from, i ? "v%06zu" : "s", i - 1);
        bytes b = block(1, JOIN(text(1, from), text(2, line), text(4, "Neg")));
        memcpy(data + at, b.at, b.n);
        at += b.n;
    }
    bytes     last = block(1, node("y = Reshape(x, v099999)", NULL));
    ipu_shape found;
    assert_int_equal(import_with(model(13, JOIN(g, (bytes){data, at}, last), none), NULL, 0, &found),
                     IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "on input \"s\""));
}

/* ---- initial values ---- */

static bytes sparse(const char *values_type, const char *values, const char *indices_type,
                    const char *indices, const char *dims)
{
    bytes all = join(block(1, tensor_of_numbers("w", values_type, values)),
                     block(2, tensor_of_numbers("", indices_type, indices)));
    for (char *end; *dims; dims = end + strspn(end, " ")) all = join(all, number(3, strtoll(dims, &end, 10)));
    return all;
}

static bytes with_sparse(bytes tensor_of)
{
    return model(13, join(graph("in x float[2]; out w; y = Neg(x)", NULL), block(15, tensor_of)), none);
}

static void sparse_tensors_are_made_dense(void **state)
{
    (void)state;
    EXPECT(with_sparse(sparse("float[2]", "5 6", "int64[2]", "1 5", "2 3")), X2, IPU_SHAPE(2, 3), 0, 5, 0, 0,
           0, 6);
    EXPECT(with_sparse(sparse("float[2]", "5 6", "int64[2,2]", "0 1 1 2", "2 3")), X2, IPU_SHAPE(2, 3), 0, 5,
           0, 0, 0, 6);
    EXPECT(with_sparse(sparse("float[0]", "", "int64[0]", "", "2")), X2, IPU_SHAPE(2), 0, 0);
}

static void sparse_tensors_that_point_outside_are_refused(void **state)
{
    (void)state;
    expect_error(with_sparse(sparse("float[1]", "5", "int64[1]", "6", "2 3")), X2, IPU_INVALID,
                 "out of range");
    expect_error(with_sparse(sparse("float[1]", "5", "int64[1]", "-1", "2 3")), X2, IPU_INVALID,
                 "out of range");
    expect_error(with_sparse(sparse("float[1]", "5", "int64[1,2]", "0 3", "2 3")), X2, IPU_INVALID,
                 "out of range");
    expect_error(with_sparse(sparse("float[1]", "5", "int64[1,2]", "-1 1", "2 3")), X2, IPU_INVALID,
                 "out of range");
    expect_error(with_sparse(sparse("float[2]", "5 6", "int64[1]", "1", "2 3")), X2, IPU_INVALID, "indices");
    expect_error(with_sparse(sparse("float[1]", "5", "int32[1]", "1", "2 3")), X2, IPU_INVALID, "indices");
    expect_error(with_sparse(sparse("float[1]", "5", "int64[1]", "1", "-2")), X2, IPU_INVALID,
                 "dimension 0 is -2");
    expect_error(with_sparse(number(3, 2)), X2, IPU_INVALID, "");
}

static void damaged_initial_values_count_only_if_used(void **state)
{
    (void)state;
    bytes bad = block(5, tensor("w", "float[4]", raw("1234", 4)));
    EXPECT(model(13, join(graph("in x float[2]; out y; y = Neg(x)", NULL), bad), none), X2, IPU_SHAPE(2), -1,
           2);
    expect_error(model(13, join(graph("in x float[2]; out y; y = Add(x, w)", NULL), bad), none), X2,
                 IPU_INVALID, "tensor \"w\": expected 16 bytes");
}

static void not_a_number_where_a_number_decides_does_no_harm(void **state)
{
    (void)state;
    const char *range =
        "in x float[2]; const a float[] nan; const b float[] 3; const c float[] 1; out y; y = Range(a, b, c)";
    const char *step =
        "in x float[2]; const a float[] 0; const b float[] 3; const c float[] nan; out y; y = Range(a, b, c)";
    const char *far =
        "in x float[2]; const a float[] 0; const b float[] inf; const c float[] 1; out y; y = Range(a, b, c)";
    for (int i = 0; i < 3; i++) {
        ipu_shape found;
        bytes     file = model(13, graph(i == 0 ? range : i == 1 ? step : far, NULL), none);
        if (import_with(file, NULL, 0, &found) == IPU_OK) assert_int_equal(found.dim[0], 0);
    }
    const bytes    nan_data[] = {tensor("", "float[1]", raw((uint32_t[]){0x7fc00000}, 4))};
    ipu_onnx_value out;
    run_file(model(13, graph("in x float[2]; out y; k = Constant() value=#0; y = Add(x, k)", nan_data), none),
             X2, &out, 1);
    for (int i = 0; i < 2; i++) assert_true(isnan(ipu_array_value(&out.array, i)));
    ipu_onnx_value_free(&out);
}

static void floating_initial_values_are_parameters_in_training(void **state)
{
    (void)state;
    bytes file = model(
        13,
        graph("in x float[2]; const w float[2] 3 4; const k int64[1] 2; const unused float[1] 1; out y;"
              "t = Mul(x, w); y = Reshape(t, k)",
              NULL),
        none);
    ipu_onnx  *opened;
    ipu_model *m;
    assert_int_equal(ipu_onnx_read(file.at, file.n, NULL, &opened), IPU_OK);
    assert_int_equal(ipu_onnx_import(opened, &(ipu_onnx_options){.training = true}, &m), IPU_OK);
    assert_int_equal(ipu_model_n_parameters(m), 1);
    assert_string_equal(ipu_value_name(ipu_model_parameter_at(m, 0)), "w");
    ipu_model_destroy(m);
    assert_int_equal(ipu_onnx_import(opened, NULL, &m), IPU_OK);
    assert_int_equal(ipu_model_n_parameters(m), 0);
    ipu_model_destroy(m);
    ipu_onnx_close(opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_the_file_are_found_in_the_model),
        cmocka_unit_test(names_given_twice_are_refused),
        cmocka_unit_test(names_that_nothing_gives_and_cycles_are_refused),
        cmocka_unit_test(errors_say_which_node_it_was),
        cmocka_unit_test(ops_that_are_not_known_are_listed_all_at_once),
        cmocka_unit_test(an_output_may_be_an_input_or_an_initial_value_or_another_output),
        cmocka_unit_test(functions_are_inlined_with_names_of_their_own),
        cmocka_unit_test(attributes_of_functions_reach_their_nodes),
        cmocka_unit_test(functions_of_newer_files_have_defaults),
        cmocka_unit_test(inputs_that_a_call_leaves_out_are_left_out_within),
        cmocka_unit_test(functions_without_end_are_refused),
        cmocka_unit_test(dimensions_with_names_are_given_by_options),
        cmocka_unit_test(dimensions_beyond_all_memory_are_an_error),
        cmocka_unit_test(a_value_that_decides_a_shape_names_its_input),
        cmocka_unit_test(very_long_chains_do_not_end_the_stack),
        cmocka_unit_test(sparse_tensors_are_made_dense),
        cmocka_unit_test(sparse_tensors_that_point_outside_are_refused),
        cmocka_unit_test(damaged_initial_values_count_only_if_used),
        cmocka_unit_test(not_a_number_where_a_number_decides_does_no_harm),
        cmocka_unit_test(floating_initial_values_are_parameters_in_training),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
