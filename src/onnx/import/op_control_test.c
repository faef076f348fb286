/* Branches, loops, scans, sequences: taken apart at import where that is possible, else run by the model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "onnx/run_test.h"

/* Ops of a kind in the model that the file becomes, with these inputs. */
static size_t count_kind(bytes file, const ipu_onnx_value *in, size_t n_in, ipu__model_op_kind kind)
{
    ipu_onnx         *opened;
    ipu_onnx_session *s      = session_of(file, &opened, NULL);
    ipu_onnx_value    out[8] = {{0}};
    size_t            n_out = ipu_onnx_n_outputs(opened), n = 0;
    if (ipu_onnx_session_run(s, in, n_in, out, n_out) != IPU_OK) fail_msg("%s", ipu_message());
    const ipu_model *m = ipu_onnx_session_model(s);
    for (size_t i = 0; i < m->ops.n; i++) n += m->ops.at[i].kind == kind;
    for (size_t i = 0; i < n_out; i++) ipu_onnx_value_free(&out[i]);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(opened);
    return n;
}
#define COUNT_LOOPS(file, in) count_kind(file, in, IPU__MODEL_LOOP)

/* ---- If ---- */

static bytes if_model(const char *then_graph, const char *else_graph)
{
    const bytes subs[] = {graph(then_graph, NULL), graph(else_graph, NULL)};
    return model(
        16, graph("in c bool[]; in x float[2]; out y; y = If(c) then_branch=@0 else_branch=@1", subs), none);
}

static void a_condition_of_the_run_takes_either_branch(void **state)
{
    (void)state;
    bytes file = if_model("out t; t = Neg(x)", "out t; t = Add(x, x)");
    EXPECT(file, VALUES(BOOL(true), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), -1, -2);
    EXPECT(file, VALUES(BOOL(false), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), 2, 4);
    assert_int_equal(count_kind(file, VALUES(BOOL(false), FLOATS(IPU_SHAPE(2), 1, 2)), IPU__MODEL_IF), 1);
}

static void branches_of_different_shapes_make_the_condition_a_compile_time_input(void **state)
{
    (void)state;
    bytes file = if_model("out t; t = Concat(x, x) axis=0", "out t; t = Identity(x)");
    EXPECT(file, VALUES(BOOL(true), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(4), 1, 2, 1, 2);
    EXPECT(file, VALUES(BOOL(false), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), 1, 2);
    bytes bad = if_model("out t; out u; t = Neg(x); u = Neg(x)", "out t; t = Neg(x)");
    expect_error(bad, VALUES(BOOL(true), FLOATS(IPU_SHAPE(2), 1, 2)), IPU_INVALID,
                 "its branches give 2 and 1 values");
}

static void a_condition_computed_from_inputs_makes_them_compile_time_inputs(void **state)
{
    (void)state;
    const bytes subs[] = {graph("out t; t = Concat(x, x) axis=0", NULL),
                          graph("out t; t = Identity(x)", NULL)};
    const bytes deep[] = {graph("out t; t = If(c) then_branch=@0 else_branch=@1", subs), subs[1]};
    bytes       file   = model(13,
                               graph("in x float[2]; const z float[] 0; out y; s = ReduceSum(x) keepdims=0;"
                                             "c = Greater(s, z); y = If(c) then_branch=@0 else_branch=@1",
                                     deep),
                               none);
    EXPECT(file, VALUES(FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(4), 1, 2, 1, 2);
    EXPECT(file, VALUES(FLOATS(IPU_SHAPE(2), 1, -2)), IPU_SHAPE(2), 1, -2);
}

/* ---- Loop ---- */

/* y doubles until it exceeds a limit; the turns are collected. */
static bytes doubling(int64_t most)
{
    const bytes body[] = {graph("in i int64[]; in go bool[]; in a float[]; out more; out b; out seen;"
                                "b = Add(a, a); more = Less(b, limit); seen = Identity(b)",
                                NULL)};
    char        source[300];
    snprintf(source, sizeof source,
             "in a float[]; in limit float[]; const n int64[] %lld; const yes bool[] 1; out b; out seen;"
             "b seen = Loop(n, yes, a) body=@0",
             (long long)most);
    return model(13, graph(source, body), none);
}

static void a_loop_ends_when_its_condition_says_so(void **state)
{
    (void)state;
    ipu_onnx_value out[2];
    bytes          file = doubling(100);
    run_file(file, VALUES(FLOATS((ipu_shape){0}, 3), FLOATS((ipu_shape){0}, 40)), out, 2);
    ASSERT_ARRAY(&out[0], (ipu_shape){0}, 48);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(4), 6, 12, 24, 48);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
    assert_int_equal(COUNT_LOOPS(file, VALUES(FLOATS((ipu_shape){0}, 3), FLOATS((ipu_shape){0}, 40))), 1);
    run_file(doubling(2), VALUES(FLOATS((ipu_shape){0}, 3), FLOATS((ipu_shape){0}, 40)), out, 2);
    ASSERT_ARRAY(&out[0], (ipu_shape){0}, 12);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2), 6, 12);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
}

static void a_loop_that_does_not_begin_gives_what_it_was_given(void **state)
{
    (void)state;
    const bytes body[] = {graph("in i int64[]; in go bool[]; in a float[2]; out go; out b; out seen;"
                                "b = Add(a, a); seen = Identity(b)",
                                NULL)};
    const char *source =
        "in a float[2]; in c bool[]; const n int64[] 30; out b; out seen; b seen = Loop(n, c, a) body=@0";
    ipu_onnx_value out[2];
    run_file(model(13, graph(source, body), none), VALUES(FLOATS(IPU_SHAPE(2), 1, 2), BOOL(false)), out, 2);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2), 1, 2);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(0, 2), 0);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
    const char *none_at_all =
        "in a float[2]; const n int64[] 0; out b; out seen; b seen = Loop(n, -, a) body=@0";
    run_file(model(13, graph(none_at_all, body), none), VALUES(FLOATS(IPU_SHAPE(2), 1, 2)), out, 2);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2), 1, 2);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(0, 2), 0);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
}

static void many_turns_are_a_loop_of_the_model_and_few_are_not(void **state)
{
    (void)state;
    const bytes body[] = {graph("in i int64[]; in go bool[]; in a float[]; out go; out b; out seen;"
                                "f = Cast(i) to=1; b = Add(a, f); seen = Mul(b, f)",
                                NULL)};
    const char *source = "in a float[]; in n int64[]; out b; out seen; b seen = Loop(n, -, a) body=@0";
    bytes       file   = model(13, graph(source, body), none);
    double      expected[40], sum = 1;
    for (int i = 0; i < 40; i++) {
        sum += i;
        expected[i] = sum * i;
    }
    for (int n = 5; n <= 40; n += 35) {
        ipu_onnx_value out[2];
        run_file(file, VALUES(FLOATS((ipu_shape){0}, 1), INT64(n)), out, 2);
        assert_array(&out[1], IPU_SHAPE(n), expected);
        for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
        assert_int_equal(COUNT_LOOPS(file, VALUES(FLOATS((ipu_shape){0}, 1), INT64(n))), n > 16);
    }
}

static void a_condition_that_is_always_true_leaves_the_number_of_turns_known(void **state)
{
    (void)state;
    const bytes body[] = {graph("in i int64[]; in go bool[]; in a float[1]; out more; out b; out b;"
                                "b = Add(a, a); more = Identity(go)",
                                NULL)};
    const char *source = "in a float[1]; const n int64[] 20; const yes bool[] 1; out y;"
                         "b all = Loop(n, yes, a) body=@0; y = ReduceMax(all) keepdims=0";
    bytes       file   = model(13, graph(source, body), none);
    EXPECT(file, VALUES(FLOATS(IPU_SHAPE(1), 1)), (ipu_shape){0}, 1 << 20);
    assert_int_equal(COUNT_LOOPS(file, VALUES(FLOATS(IPU_SHAPE(1), 1))), 1);
}

static void a_turn_that_decides_a_shape_unrolls_its_loop(void **state)
{
    (void)state;
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in a float[1]; const one int64[1] 1; const zero int64[1] 0;"
              "out go; out b; e = Add(i, one); s = Slice(x, zero, e); r = ReduceSum(s) keepdims=1;"
              "b = Add(a, r)",
              NULL)};
    bytes  file = model(13,
                        graph("in x float[30]; in a float[1]; const n int64[] 30; out b;"
                               "b = Loop(n, -, a) body=@0",
                              body),
                        none);
    float  x[30];
    double expected = 0;
    for (int i = 0; i < 30; i++) {
        x[i] = (float)i;
        expected += (30 - i) * (double)i;
    }
    EXPECT(file, VALUES(value(IPU_FLOAT, IPU_SHAPE(30), x), FLOATS(IPU_SHAPE(1), 0)), IPU_SHAPE(1), expected);
    assert_int_equal(COUNT_LOOPS(file, VALUES(value(IPU_FLOAT, IPU_SHAPE(30), x), FLOATS(IPU_SHAPE(1), 0))),
                     0);
}

static void what_a_loop_computes_can_decide_a_shape(void **state)
{
    (void)state;
    const bytes body[] = {graph(
        "in i int64[]; in go bool[]; in a int64[1]; out go; out b; const one int64[1] 1; b = Add(a, one)",
        NULL)};
    bytes       file   = model(13,
                               graph("in x float[]; in a int64[1]; const n int64[] 20; out y;"
                                             "k = Loop(n, -, a) body=@0; y = Expand(x, k)",
                                     body),
                               none);
    EXPECT(file, VALUES(FLOATS((ipu_shape){0}, 7), value(IPU_INT64, IPU_SHAPE(1), (int64_t[]){-17})),
           IPU_SHAPE(3), 7, 7, 7);
}

static void shapes_that_grow_unroll_a_loop(void **state)
{
    (void)state;
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in a float[N]; out go; out b; b = Concat(a, x) axis=0", NULL)};
    bytes file = model(13, graph("in x float[1]; const n int64[] 20; out y; y = Loop(n, -, x) body=@0", body),
                       none);
    double sevens[21];
    for (int i = 0; i < 21; i++) sevens[i] = 7;
    ipu_onnx_value out;
    run_file(file, VALUES(FLOATS(IPU_SHAPE(1), 7)), &out, 1);
    assert_array(&out, IPU_SHAPE(21), sevens);
    ipu_onnx_value_free(&out);
}

static void loops_without_bound_are_refused_and_while_loops_run(void **state)
{
    (void)state;
    const bytes body[] = {graph(
        "in i int64[]; in go bool[]; in a float[]; out more; out b; b = Add(a, a); more = Less(b, limit)",
        NULL)};
    const char *source =
        "in a float[]; in limit float[]; const yes bool[] 1; out b; b = Loop(-, yes, a) body=@0";
    EXPECT(model(13, graph(source, body), none),
           VALUES(FLOATS((ipu_shape){0}, 1), FLOATS((ipu_shape){0}, 1000)), (ipu_shape){0}, 1024);
    const char *endless = "in a float[]; in limit float[]; out b; b = Loop(-, -, a) body=@0";
    expect_error(model(13, graph(endless, body), none),
                 VALUES(FLOATS((ipu_shape){0}, 1), FLOATS((ipu_shape){0}, 9)), IPU_INVALID,
                 "would never end");
    const bytes seen[] = {graph("in i int64[]; in go bool[]; in a float[]; out more; "
                                "out b; out b; b = Add(a, a); more = Less(b, limit)",
                                NULL)};
    const char *open =
        "in a float[]; in limit float[]; const yes bool[] 1; out b; b c = Loop(-, yes, a) body=@0";
    expect_error(model(13, graph(open, seen), none),
                 VALUES(FLOATS((ipu_shape){0}, 1), FLOATS((ipu_shape){0}, 9)), IPU_UNSUPPORTED,
                 "nothing bounds their number");
}

static void loops_within_loops_see_the_values_around_them(void **state)
{
    (void)state;
    const bytes inner[] = {graph("in j int64[]; in go2 bool[]; in p float[]; out go2; "
                                 "out q; f = Cast(i) to=1; t = Mul(f, scale); q = Add(p, t)",
                                 NULL)};
    const bytes outer[] = {
        graph("in i int64[]; in go bool[]; in a float[]; out go; out b; b = Loop(m, -, a) body=@0", inner)};
    bytes file = model(13,
                       graph("in a float[]; in scale float[]; const n int64[] 20; const m int64[] 18; out b;"
                             "b = Loop(n, -, a) body=@0",
                             outer),
                       none);
    EXPECT(file, VALUES(FLOATS((ipu_shape){0}, 1), FLOATS((ipu_shape){0}, 2)), (ipu_shape){0},
           1 + 2 * 18 * 190);
}

static void small_loops_within_small_ones_are_unrolled_only_if_all_of_it_is_small(void **state)
{
    (void)state;
    const bytes inner[] = {
        graph("in j int64[]; in go2 bool[]; in p float[]; out go2; out q; f = Cast(j) to=1;"
              "q = Add(p, f)",
              NULL)};
    const bytes outer[] = {
        graph("in i int64[]; in go bool[]; in a float[]; out go; out b; b = Loop(n, -, a) body=@0", inner)};
    bytes file = model(13, graph("in a float[]; in n int64[]; out b; b = Loop(n, -, a) body=@0", outer),
                       none);
    for (int n = 4; n <= 8; n += 4) {
        EXPECT(file, VALUES(FLOATS((ipu_shape){0}, 1), INT64(n)), (ipu_shape){0}, 1 + 0.5 * n * n * (n - 1));
        size_t loops = COUNT_LOOPS(file, VALUES(FLOATS((ipu_shape){0}, 1), INT64(n)));
        assert_int_equal(loops > 0, n == 8);
    }
}

static void loops_that_would_fill_all_memory_are_refused(void **state)
{
    (void)state;
    const bytes swap[] = {
        graph("in i int64[]; in go bool[]; in a float[1]; in b float[2]; out go; out b; out a", NULL)};
    const bytes grow[] = {
        graph("in i int64[]; in go bool[]; in s seq(float); out go; out t; t = SequenceInsert(s, x)", NULL)};
    const char *endless =
        "in x float[2]; in z float[1]; const n int64[] 9e18; out y; q y = Loop(n, -, z, x) body=@0";
    const char          *longest = "in x float[2]; in z float[1]; const n int64[] 1000000000; "
                                   "out y; e = SequenceEmpty(); y = Loop(n, -, e) body=@0";
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(2), 1, 2), z = FLOATS(IPU_SHAPE(1), 1);
    expect_error(model(13, graph(endless, swap), none), VALUES(x, z), IPU_INVALID, "nodes once loops");
    expect_error(model(13, graph(longest, grow), none), VALUES(x, z), IPU_INVALID, "over 256 MiB");
}

/* ---- Scan ---- */

static void scan_takes_and_puts_along_axes_in_both_directions(void **state)
{
    (void)state;
    const bytes body[] = {graph("in s float[2]; in e float[2]; in f float[2]; out t; out u; out v;"
                                "t = Add(s, e); u = Sub(t, f); v = Mul(e, f)",
                                NULL)};
    const char *source = "in s float[2]; in x float[2,N]; in y float[N,2]; out t; "
                         "out u; out v; t u v = Scan(s, x, y) num_scan_inputs=2"
                         " scan_input_axes=[-1,0] scan_input_directions=[0,1] scan_output_axes=[-1,0]"
                         " scan_output_directions=[1,0] body=@0";
    bytes       file   = model(11, graph(source, body), none);
    for (int n = 3; n <= 50; n += 47) {
        float  x[100], y[100], s[2] = {1, 2};
        double t[2] = {1, 2}, u[100], v[100];
        for (int i = 0; i < 2 * n; i++) {
            x[i] = (float)(i % 7);
            y[i] = (float)(i % 5);
        }
        for (int i = 0; i < n; i++)
            for (int k = 0; k < 2; k++) {
                double e = (double)x[k * n + i], f = (double)y[(n - 1 - i) * 2 + k];
                t[k] += e;
                u[k * n + (n - 1 - i)] = t[k] - f;
                v[i * 2 + k]           = e * f;
            }
        ipu_onnx_value out[3];
        run_file(file,
                 VALUES(value(IPU_FLOAT, IPU_SHAPE(2), s), value(IPU_FLOAT, IPU_SHAPE(2, n), x),
                        value(IPU_FLOAT, IPU_SHAPE(n, 2), y)),
                 out, 3);
        assert_array(&out[0], IPU_SHAPE(2), t);
        assert_array(&out[1], IPU_SHAPE(2, n), u);
        assert_array(&out[2], IPU_SHAPE(n, 2), v);
        for (int i = 0; i < 3; i++) ipu_onnx_value_free(&out[i]);
    }
}

static void scan_of_opset_8_runs_each_sequence_of_a_batch_to_its_length(void **state)
{
    (void)state;
    const bytes    body[] = {graph("in s float[]; in e float[]; out t; out t; t = Add(s, e)", NULL)};
    const char    *source = "in n int64[2]; in s float[2]; in x float[2,3]; out t; out u; "
                            "t u = Scan(n, s, x) num_scan_inputs=1 body=@0 directions=[1]";
    ipu_onnx_value out[2];
    run_file(model(8, graph(source, body), none),
             VALUES(value(IPU_INT64, IPU_SHAPE(2), (int64_t[]){3, 2}), FLOATS(IPU_SHAPE(2), 10, 20),
                    FLOATS(IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)),
             out, 2);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2), 16, 29);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2, 3), 13, 15, 16, 25, 29, 0);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
}

/* ---- gradients ---- */

static void gradients_pass_loops_and_branches(void **state)
{
    (void)state;
    const bytes branch[] = {graph("out t; t = Mul(b, w)", NULL), graph("out t; t = Identity(b)", NULL)};
    const bytes body[]   = {graph("in s float[]; in e float[]; out b; out b; b = Mul(s, e)", NULL)};
    const bytes all[]    = {branch[0], branch[1], body[0]};
    bytes       file     = model(11,
                                 graph("in c bool[]; in s float[]; in x float[20]; const w float[] 3; out y;"
                                                 "b seen = Scan(s, x) num_scan_inputs=1 body=@2;"
                                                 "y = If(c) then_branch=@0 else_branch=@1",
                                       all),
                                 none);
    ipu_onnx   *opened;
    ipu_model  *m;
    assert_int_equal(ipu_onnx_read(file.at, file.n, NULL, &opened), IPU_OK);
    if (ipu_onnx_import(opened, &(ipu_onnx_options){.training = true}, &m) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_int_equal(ipu_model_n_parameters(m), 1); /* w, which only a branch uses */
    ipu_value x[2] = {ipu_model_input_at(m, 2), ipu_model_parameter_at(m, 0)}, d[2];
    ipu_model_gradients(m, ipu_model_output_at(m, 0, &(const char *){NULL}), x, 2, NULL, d);
    ipu_model_output(m, d[0], "dx");
    ipu_model_output(m, d[1], "dw");
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    float           in[20], s = 2, dx[20], dw, product = 2;
    for (int i = 0; i < 20; i++) product *= in[i] = 1 + (float)(i % 3) / 8;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "x", in, sizeof in), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "s", &s, sizeof s), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "c", &(bool){true}, 1), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "dx", dx, sizeof dx), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "dw", &dw, sizeof dw), IPU_OK);
    assert_float_equal(dw, product, 1e-4 * product);
    for (int i = 0; i < 20; i++) assert_float_equal(dx[i], 3 * product / in[i], 1e-4 * product);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(m);
    ipu_onnx_close(opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_of_the_run_takes_either_branch),
        cmocka_unit_test(branches_of_different_shapes_make_the_condition_a_compile_time_input),
        cmocka_unit_test(a_condition_computed_from_inputs_makes_them_compile_time_inputs),
        cmocka_unit_test(a_loop_ends_when_its_condition_says_so),
        cmocka_unit_test(a_loop_that_does_not_begin_gives_what_it_was_given),
        cmocka_unit_test(many_turns_are_a_loop_of_the_model_and_few_are_not),
        cmocka_unit_test(a_condition_that_is_always_true_leaves_the_number_of_turns_known),
        cmocka_unit_test(a_turn_that_decides_a_shape_unrolls_its_loop),
        cmocka_unit_test(what_a_loop_computes_can_decide_a_shape),
        cmocka_unit_test(shapes_that_grow_unroll_a_loop),
        cmocka_unit_test(loops_without_bound_are_refused_and_while_loops_run),
        cmocka_unit_test(loops_within_loops_see_the_values_around_them),
        cmocka_unit_test(small_loops_within_small_ones_are_unrolled_only_if_all_of_it_is_small),
        cmocka_unit_test(loops_that_would_fill_all_memory_are_refused),
        cmocka_unit_test(scan_takes_and_puts_along_axes_in_both_directions),
        cmocka_unit_test(scan_of_opset_8_runs_each_sequence_of_a_batch_to_its_length),
        cmocka_unit_test(gradients_pass_loops_and_branches),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
