/* Sessions: one executable for each set of shapes and of values that decide shapes; outputs cut to their extents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "onnx/run_test.h"

static ipu_onnx         *file;
static ipu_onnx_session *session;

static void begin(bytes b) { session = session_of(b, &file, NULL); }

static void end(void)
{
    ipu_onnx_session_destroy(session);
    ipu_onnx_close(file);
}

static void run_once(const ipu_onnx_value *in, size_t n_in, ipu_onnx_value *out)
{
    if (ipu_onnx_session_run(session, in, n_in, out, 1) != IPU_OK) fail_msg("%s", ipu_message());
}

#define RUN(in, shape, ...)                       \
    do {                                          \
        ipu_onnx_value only_;                     \
        run_once(in, &only_);                     \
        ASSERT_ARRAY(&only_, shape, __VA_ARGS__); \
        ipu_onnx_value_free(&only_);              \
    } while (0)

#define REFUSE(in, status, words_of)                                                                    \
    do {                                                                                                \
        ipu_onnx_value none_;                                                                           \
        assert_int_equal(ipu_onnx_session_run(session, in, &none_, 1), status);                         \
        if (!strstr(ipu_message(), words_of)) fail_msg("expected \"%s\": %s", words_of, ipu_message()); \
        assert_true(none_.kind == IPU_ONNX_NONE && !none_.array.data);                                  \
    } while (0)

#define SHAPE2(a, b) value(IPU_INT64, IPU_SHAPE(2), (const int64_t[]){a, b})
#define SIX FLOATS(IPU_SHAPE(6), 1, 2, 3, 4, 5, 6)

static void values_that_decide_shapes_have_an_executable_each(void **state)
{
    (void)state;
    begin(model(13, graph("in x float[6]; in s int64[2]; out y; y = Reshape(x, s)", NULL), none));
    assert_int_equal(ipu_onnx_session_n_compiled(session), 0);
    RUN(VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ipu_executable *first = ipu_onnx_session_executable(session);
    RUN(VALUES(SIX, SHAPE2(3, -1)), IPU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 2);
    assert_ptr_not_equal(ipu_onnx_session_executable(session), first);
    RUN(VALUES(FLOATS(IPU_SHAPE(6), 6, 5, 4, 3, 2, 1), SHAPE2(2, 3)), IPU_SHAPE(2, 3), 6, 5, 4, 3, 2, 1);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 2);
    assert_ptr_equal(ipu_onnx_session_executable(session), first);
    end();
}

static void shapes_have_an_executable_each_and_the_oldest_goes(void **state)
{
    (void)state;
    float ones[100];
    for (int i = 0; i < 100; i++) ones[i] = 1;
    begin(model(13, graph("in x float[N]; out y; y = ReduceSum(x) keepdims=0", NULL), none));
    for (int n = 1; n <= 70; n++) {
        RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(n), ones)), (ipu_shape){0}, n);
        assert_int_equal(ipu_onnx_session_n_compiled(session), n < 64 ? n : 64);
    }
    RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(1), ones)), (ipu_shape){0}, 1); /* was dropped, is made again */
    RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(0), NULL)), (ipu_shape){0}, 0);
    end();
}

static void options_say_how_many_executables_are_held(void **state)
{
    (void)state;
    const float ones[3] = {1, 1, 1};
    session = session_of(model(13, graph("in x float[N]; out y; y = ReduceSum(x) keepdims=0", NULL), none),
                         &file, &(ipu_onnx_options){.most_executables = 2});
    for (int n = 1; n <= 3; n++) RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(n), ones)), (ipu_shape){0}, n);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 2);
    ipu_executable *third = ipu_onnx_session_executable(session);
    RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(1), ones)), (ipu_shape){0}, 1); /* in place of the second */
    RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(3), ones)), (ipu_shape){0}, 3);
    assert_ptr_equal(ipu_onnx_session_executable(session), third);
    end();
}

static void several_inputs_that_decide_are_found_one_after_another(void **state)
{
    (void)state;
    begin(model(
        13,
        graph("in x float[6]; in s int64[2]; in n int64[1]; in k int64[]; out y; t = Reshape(x, s);"
              "e = Add(n, k); u = Expand(k, n); v = Cast(u) to=1; w = ReduceSum(v) keepdims=0; y = Mul(t, w)",
              NULL),
        none));
    const int64_t two = 2;
    RUN(VALUES(SIX, SHAPE2(2, 3), value(IPU_INT64, IPU_SHAPE(1), &two), INT64(5)), IPU_SHAPE(2, 3), 10, 20,
        30, 40, 50, 60);
    RUN(VALUES(SIX, SHAPE2(2, 3), value(IPU_INT64, IPU_SHAPE(1), &two), INT64(1)), IPU_SHAPE(2, 3), 2, 4, 6,
        8, 10, 12);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 1); /* k decides nothing */
    end();
}

/* The numbers up to a limit, as many as there are. */
static bytes counting(const char *after)
{
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in a float[]; out more; out b; out b; b = Add(a, one);"
              "more = Less(b, limit)",
              NULL)};
    char source[400];
    snprintf(
        source, sizeof source,
        "in limit float[]; const z float[] 0; const one float[] 1; const n int64[] 50; const yes bool[] 1;"
        "out y; last all = Loop(n, yes, z) body=@0; %s",
        after);
    return model(13, graph(source, body), none);
}

static void outputs_whose_extent_depends_on_data_are_cut(void **state)
{
    (void)state;
    begin(counting("y = Add(all, one)"));
    RUN(VALUES(FLOATS((ipu_shape){0}, 3)), IPU_SHAPE(3), 2, 3, 4);
    RUN(VALUES(FLOATS((ipu_shape){0}, 5)), IPU_SHAPE(5), 2, 3, 4, 5, 6);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 1);
    end();
    begin(counting("y = Softplus(all); s = Identity(all)"));
    ipu_onnx_value out;
    run_once(VALUES(FLOATS((ipu_shape){0}, 4)), &out);
    assert_int_equal(out.array.shape.dim[0], 4);
    ipu_onnx_value_free(&out);
    end();
}

static void ops_that_cannot_take_such_extents_are_refused(void **state)
{
    (void)state;
    begin(counting("y = Softmax(all) axis=0"));
    REFUSE(VALUES(FLOATS((ipu_shape){0}, 3)), IPU_UNSUPPORTED, "depends on data");
    end();
}

static void what_does_not_fit_is_refused_and_the_session_goes_on(void **state)
{
    (void)state;
    begin(model(13,
                graph("in x float[2,3]; in k int64[]; out y; "
                      "a = ReduceSum(x) keepdims=0; f = Cast(k) to=1; y = Add(a, f)",
                      NULL),
                none));
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    RUN(VALUES(x, INT64(1)), (ipu_shape){0}, 22);
    REFUSE(VALUES(x, FLOATS((ipu_shape){0}, 1)), IPU_INVALID, "input \"k\" must be int64, found float");
    REFUSE(VALUES(x), IPU_INVALID, "input \"k\" must be a tensor");
    REFUSE(VALUES(x, ((ipu_onnx_value){.kind = IPU_ONNX_SEQUENCE})), IPU_INVALID, "must be a tensor");
    REFUSE(VALUES(x, INT64(1), INT64(1)), IPU_INVALID, "2 inputs and 1 outputs");
    ipu_onnx_value out[2];
    assert_int_equal(ipu_onnx_session_run(session, VALUES(x, INT64(1)), out, 2), IPU_INVALID);
    RUN(VALUES(x, INT64(2)), (ipu_shape){0}, 23);
    end();
    begin(model(13, graph("in x float[2,3]; const w float[2,3] 1 2 3 4 5 6; out y; y = Add(x, w)", NULL),
                none));
    REFUSE(VALUES(FLOATS(IPU_SHAPE(4), 1, 2, 3, 4)), IPU_INVALID, "should have shape [2,3], found [4]");
    end();
}

/* Not taken for what the run before was given. */
static void arrays_without_data_are_refused_unless_they_are_empty(void **state)
{
    (void)state;
    const ipu_onnx_value none_of_six = value(IPU_FLOAT, IPU_SHAPE(6), NULL);
    begin(model(13, graph("in x float[6]; in s int64[2]; out y; y = Reshape(x, s)", NULL), none));
    RUN(VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    REFUSE(VALUES(none_of_six, SHAPE2(2, 3)), IPU_INVALID,
           "input \"x\": expected 24 bytes of data for float[6], found none (NULL)");
    REFUSE(VALUES(SIX, value(IPU_INT64, IPU_SHAPE(2), NULL)), IPU_INVALID,
           "input \"s\": expected 16 bytes of data for int64[2]");
    REFUSE(VALUES(value(IPU_FLOAT, IPU_SHAPE(-6), NULL), SHAPE2(2, 3)), IPU_INVALID,
           "input \"x\": an array of shape [-6]");
    assert_int_equal(ipu_onnx_session_n_compiled(session), 1);
    end();
    /* a shape of no dimensions is known to be empty; so is what has none of a dimension */
    begin(model(13, graph("in x float[N]; in s int64[K]; out y; y = Reshape(x, s)", NULL), none));
    RUN(VALUES(FLOATS(IPU_SHAPE(1), 7), value(IPU_INT64, IPU_SHAPE(0), NULL)), (ipu_shape){0}, 7);
    RUN(VALUES(value(IPU_FLOAT, IPU_SHAPE(0), NULL), value(IPU_INT64, IPU_SHAPE(1), (const int64_t[]){-1})),
        IPU_SHAPE(0), 0);
    end();
    begin(model(13, graph("in s seq(float); out y; y = ConcatFromSequence(s) axis=0", NULL), none));
    ipu_onnx_value two[] = {FLOATS(IPU_SHAPE(1), 1), none_of_six};
    REFUSE(VALUES(((ipu_onnx_value){.kind = IPU_ONNX_SEQUENCE, .items = two, .n_items = 2})), IPU_INVALID,
           "input \"s\": expected 24 bytes");
    end();
    session = session_of(model(13, graph("in x float[N]; out y; y = Neg(x)", NULL), none), &file,
                         &(ipu_onnx_options){.batches = 2});
    REFUSE(VALUES(none_of_six), IPU_INVALID, "input \"x\": expected 24 bytes");
    end();
}

static void sequences_and_optionals_go_in_and_out(void **state)
{
    (void)state;
    begin(model(17,
                graph("in s seq(float); in o opt(float[1]); out t; "
                      "e = OptionalHasElement(o); t = SequenceInsert(s, k, p);"
                      "const k float[1] 9; const p int64[] 1; u = SequenceLength(s)",
                      NULL),
                none));
    ipu_onnx_value two[] = {FLOATS(IPU_SHAPE(1), 1), FLOATS(IPU_SHAPE(2), 2, 3)}, out;
    ipu_onnx_value s     = {.kind = IPU_ONNX_SEQUENCE, .items = two, .n_items = 2};
    run_once(VALUES(s), &out);
    assert_int_equal(out.kind, IPU_ONNX_SEQUENCE);
    assert_int_equal(out.n_items, 3);
    ASSERT_ARRAY(&out.items[0], IPU_SHAPE(1), 1);
    ASSERT_ARRAY(&out.items[1], IPU_SHAPE(1), 9);
    ASSERT_ARRAY(&out.items[2], IPU_SHAPE(2), 2, 3);
    ipu_onnx_value_free(&out);
    s.n_items = 1;
    run_once(VALUES(s, FLOATS(IPU_SHAPE(1), 5)), &out);
    assert_int_equal(out.n_items, 2);
    ipu_onnx_value_free(&out);
    assert_int_equal(ipu_onnx_session_n_compiled(session), 2);
    end();
}

/* ---- tensors besides the outputs ---- */

static const char *const anchors[] = {"t", "x", "k", "n", "y", "unused", "s"};

static bytes anchored(void)
{
    return model(
        13,
        graph("in x float[2]; in z seq(float); const k float[2] 3 4; const unused float[1] 9; out y; "
              "const one int64[] 1; t = Mul(x, k); n = NonZero(x); "
              "s = SequenceInsert(z, t); w = Neg(t); y = Exp(w)",
              NULL),
        none);
}

static void tensors_are_given_besides_the_outputs(void **state)
{
    (void)state;
    enum { N = 7 };
    ipu_onnx_value items[] = {FLOATS(IPU_SHAPE(1), 5)}, out[1 + N], plain;
    ipu_onnx_value in[]    = {FLOATS(IPU_SHAPE(2), 0, 0.5f),
                              {.kind = IPU_ONNX_SEQUENCE, .items = items, .n_items = 1}};
    session = session_of(anchored(), &file, &(ipu_onnx_options){.outputs = anchors, .n_outputs = N});
    if (ipu_onnx_session_run(session, in, 2, out, 1 + N) != IPU_OK) fail_msg("%s", ipu_message());
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2), 1, 0.13533528);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(2), 0, 2);
    ASSERT_ARRAY(&out[2], IPU_SHAPE(2), 0, 0.5);
    ASSERT_ARRAY(&out[3], IPU_SHAPE(2), 3, 4);
    ASSERT_ARRAY(&out[4], IPU_SHAPE(1, 1), 1); /* cut to its extent */
    ASSERT_ARRAY(&out[5], IPU_SHAPE(2), 1, 0.13533528);
    ASSERT_ARRAY(&out[6], IPU_SHAPE(1), 9);
    assert_int_equal(out[7].kind, IPU_ONNX_SEQUENCE);
    assert_int_equal(out[7].n_items, 2);
    ASSERT_ARRAY(&out[7].items[1], IPU_SHAPE(2), 0, 2);
    assert_int_equal(ipu_onnx_session_run(session, in, 2, &plain, 1), IPU_OK); /* fewer may be asked for */
    assert_memory_equal(plain.array.data, out[0].array.data, 2 * sizeof(float));
    ipu_onnx_value_free(&plain);
    for (int i = 0; i <= N; i++) ipu_onnx_value_free(&out[i]);
    ipu_onnx_value many[2 + N];
    assert_int_equal(ipu_onnx_session_run(session, in, 2, many, 2 + N), IPU_INVALID);
    end();
}

static void tensors_that_are_none_are_refused_with_the_nearest(void **state)
{
    (void)state;
    const char *const names[] = {"unsued"};
    ipu_onnx_value    x       = FLOATS(IPU_SHAPE(2), 1, 2), out[2];
    ipu_onnx_value    in[]    = {x, {.kind = IPU_ONNX_SEQUENCE}};
    session = session_of(anchored(), &file, &(ipu_onnx_options){.outputs = names, .n_outputs = 1});
    assert_int_equal(ipu_onnx_session_run(session, in, 2, out, 2), IPU_NOT_FOUND);
    assert_string_equal(ipu_message(),
                        "the ONNX model: its main graph has no tensor \"unsued\" (did you mean \"unused\"?)");
    end();
}

static void positions_outside_a_sequence_are_refused(void **state)
{
    (void)state;
    ipu_onnx_value two[] = {FLOATS(IPU_SHAPE(1), 1), FLOATS(IPU_SHAPE(2), 2, 3)};
    ipu_onnx_value s     = {.kind = IPU_ONNX_SEQUENCE, .items = two, .n_items = 2};
    begin(model(11, graph("in s seq(float); in p int64[]; out t; t = SequenceAt(s, p)", NULL), none));
    RUN(VALUES(s, INT64(0)), IPU_SHAPE(1), 1);
    RUN(VALUES(s, INT64(-1)), IPU_SHAPE(2), 2, 3);
    REFUSE(VALUES(s, INT64(2)), IPU_INVALID, "position 2 is none of a sequence of 2");
    REFUSE(VALUES(s, INT64(INT64_MIN)), IPU_INVALID, "is none of a sequence of 2");
    end();
    begin(model(
        11,
        graph(
            "in s seq(float); in p int64[]; out t; u = SequenceErase(s, p); t = ConcatFromSequence(u) axis=0",
            NULL),
        none));
    RUN(VALUES(s, INT64(0)), IPU_SHAPE(2), 2, 3);
    REFUSE(VALUES(s, INT64(-3)), IPU_INVALID, "position -3");
    s.n_items = 1;
    REFUSE(VALUES(s, INT64(0)), IPU_INVALID, "its sequence is empty");
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_decide_shapes_have_an_executable_each),
        cmocka_unit_test(shapes_have_an_executable_each_and_the_oldest_goes),
        cmocka_unit_test(options_say_how_many_executables_are_held),
        cmocka_unit_test(several_inputs_that_decide_are_found_one_after_another),
        cmocka_unit_test(outputs_whose_extent_depends_on_data_are_cut),
        cmocka_unit_test(ops_that_cannot_take_such_extents_are_refused),
        cmocka_unit_test(what_does_not_fit_is_refused_and_the_session_goes_on),
        cmocka_unit_test(arrays_without_data_are_refused_unless_they_are_empty),
        cmocka_unit_test(sequences_and_optionals_go_in_and_out),
        cmocka_unit_test(tensors_are_given_besides_the_outputs),
        cmocka_unit_test(tensors_that_are_none_are_refused_with_the_nearest),
        cmocka_unit_test(positions_outside_a_sequence_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
