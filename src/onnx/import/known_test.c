/* Values that must be known: what becomes a compile-time input, what is unrolled, and what is done again for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/model.h"
#include "onnx/import/import.h"
#include "onnx/run_test.h"

enum { MOST_INPUTS = 130 };

typedef struct result {
    bool    fixed[MOST_INPUTS];
    int64_t n_begun;
    size_t  n_inputs, n_ops, n_constants, n_blocks;
    char   *text;
} result;

/* `whole`: what inputs are of which `in` are parts, as of one batch; NULL: the same. */
static result import_part(bytes b, const ipu_onnx_value *in, const ipu_onnx_value *whole, size_t n,
                          const bool *fixed)
{
    ipu_onnx        *file;
    ipu__imported    made;
    result           r       = {0};
    ipu_onnx_options options = {.inputs = in, .n_inputs = n};
    if (fixed) memcpy(r.fixed, fixed, sizeof r.fixed);
    if (ipu_onnx_read(b.at, b.n, NULL, &file) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__onnx_import(file, &options, whole, r.fixed, &made) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(made.m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_print(made.m, 0, NULL, &r.text) != IPU_OK) fail_msg("%s", ipu_message());
    r.n_begun  = made.n_begun;
    r.n_inputs = ipu_model_n_inputs(made.m);
    r.n_ops    = ipu_model_n_ops(made.m);
    r.n_blocks = made.m->blocks.n;
    for (size_t i = 1; i < made.m->values.n; i++)
        r.n_constants += made.m->values.at[i].kind == IPU__VALUE_CONSTANT;
    ipu__imported_fini(&made);
    ipu_onnx_close(file);
    return r;
}

static result import(bytes b, const ipu_onnx_value *in, size_t n, const bool *fixed)
{
    return import_part(b, in, NULL, n, fixed);
}

/* The model is the one that comes of knowing from the first what turned out to be needed. */
static void assert_same_when_known(bytes b, const ipu_onnx_value *in, size_t n, const result *r)
{
    result known = import(b, in, n, r->fixed);
    assert_string_equal(r->text, known.text);
    assert_memory_equal(r->fixed, known.fixed, sizeof known.fixed);
    ipu_free(known.text);
}

#define SHAPE(a, b) value(IPU_INT64, IPU_SHAPE(2), (const int64_t[]){a, b})
#define SIX FLOATS(IPU_SHAPE(6), 1, 2, 3, 4, 5, 6)

/* ---- inputs ---- */

static void inputs_that_decide_shapes_are_found_in_one_pass(void **state)
{
    (void)state;
    enum { N = 120 };
    static const int64_t  shape[] = {2, 3};
    static ipu_onnx_value in[N + 1];
    char                 *source = ipu__arena_alloc(&pool, N * 200);
    size_t                at     = (size_t)sprintf(source, "in x float[6]; const flat int64[1] -1; ");
    in[0]                        = SIX;
    for (int i = 0; i < N; i++) {
        in[i + 1] = value(IPU_INT64, IPU_SHAPE(2), shape);
        at += (size_t)sprintf(source + at, "in s%d int64[2]; ", i);
    }
    at += (size_t)sprintf(source + at, "x0 = Identity(x); ");
    for (int i = 0; i < N; i++) /* every second one is only added */
        at += i % 2 ? (size_t)sprintf(source + at, "x%d = Reshape(x%d, flat); u%d = Add(s%d, s%d); ", i + 1,
                                      i, i, i, i)
                    : (size_t)sprintf(source + at, "a%d = Neg(x%d); x%d = Reshape(a%d, s%d); ", i, i, i + 1,
                                      i, i);
    sprintf(source + at, "out x%d", N);
    bytes  b = model(13, graph(source, NULL), none);
    result r = import(b, in, N + 1, NULL);
    assert_int_equal(r.n_begun, 1 + 2 * N);
    assert_int_equal(r.n_inputs, 1 + N / 2);
    for (int i = 0; i < N; i++) assert_int_equal(r.fixed[i + 1], i % 2 == 0);
    assert_false(r.fixed[0]);
    assert_same_when_known(b, in, N + 1, &r);
    ipu_free(r.text);
}

/* One batch of two: what is fixed is whole, whatever was made of its part before. */
static result import_half(bytes b, const ipu_onnx_value *whole, size_t n)
{
    static ipu_onnx_value in[MOST_INPUTS];
    for (size_t i = 0; i < n; i++) {
        in[i] = whole[i];
        if (in[i].array.shape.rank > 0) in[i].array.shape.dim[0] /= 2;
    }
    result r = import_part(b, in, whole, n, NULL);
    for (size_t i = 0; i < n; i++)
        if (r.fixed[i]) in[i] = whole[i];
    assert_same_when_known(b, in, n, &r);
    return r;
}

static void inputs_of_one_batch_are_found_in_one_pass(void **state)
{
    (void)state;
    enum { N = 120 };
    static const int64_t  shape[] = {1, -1};
    static ipu_onnx_value in[N + 1];
    char                 *source = ipu__arena_alloc(&pool, N * 200);
    size_t                at     = (size_t)sprintf(source, "in x float[N]; const flat int64[1] -1; ");
    in[0]                        = SIX;
    for (int i = 0; i < N; i++) {
        in[i + 1] = value(IPU_INT64, IPU_SHAPE(2), shape);
        at += (size_t)sprintf(source + at, "in s%d int64[K]; ", i);
    }
    at += (size_t)sprintf(source + at, "x0 = Identity(x); ");
    for (int i = 0; i < N; i++) /* every second one is only added */
        at += i % 2 ? (size_t)sprintf(source + at, "x%d = Reshape(x%d, flat); u%d = Add(s%d, s%d); ", i + 1,
                                      i, i, i, i)
                    : (size_t)sprintf(source + at, "a%d = Neg(x%d); x%d = Reshape(a%d, s%d); ", i, i, i + 1,
                                      i, i);
    sprintf(source + at, "out x%d", N);
    result r = import_half(model(13, graph(source, NULL), none), in, N + 1);
    assert_int_equal(r.n_begun, 1 + 2 * N + N / 2); /* each Reshape twice */
    assert_int_equal(r.n_inputs, 1 + N / 2);
    for (int i = 0; i < N; i++) assert_int_equal(r.fixed[i + 1], i % 2 == 0);
    ipu_free(r.text);
}

/* Back to the first node that has it, in a branch as well; what it has been asked for before does not matter. */
static void what_was_made_of_a_part_is_made_again(void **state)
{
    (void)state;
    const int64_t sizes[]    = {1, -1};
    const bytes   branches[] = {graph("out t; t = Mul(s, two)", NULL), graph("out t; t = Identity(s)", NULL)};
    bytes         b          = model(
                         13,
                         graph("in x float[N]; in s int64[K]; in c bool[]; const two int64[2] 1 1; out y; out z; p = Neg(x); "
                                                "q = Abs(p); n = Shape(s); e = ConstantOfShape(n); i = If(c) then_branch=@0 else_branch=@1; "
                                                "f = Reshape(p, i); y = Relu(f); z = Neg(e)",
                               branches),
                         none);
    const ipu_onnx_value yes = value(IPU_BOOL, IPU_SCALAR, (const bool[]){true});
    result               r   = import_half(b, VALUES(SIX, value(IPU_INT64, IPU_SHAPE(2), sizes), yes));
    assert_true(!r.fixed[0] && r.fixed[1] && r.fixed[2]);
    /* To f, with both branches, as they differ, and the one that c chooses; then from n on. */
    assert_int_equal(r.n_begun, (5 + 2) + (1 + 1) + 1 + (3 + 1 + 3));
    assert_int_equal(r.n_inputs, 1);
    ipu_free(r.text);
}

static void an_input_is_fixed_with_all_that_a_value_needs(void **state)
{
    (void)state;
    bytes b = model(
        13,
        graph("in x float[6]; in a int64[1]; in b int64[1]; in c int64[1]; in seen int64[1]; out y; "
              "p = Mul(a, b); q = Concat(p, c) axis=0; y = Reshape(x, q)",
              NULL),
        none);
    const ipu_onnx_value one = value(IPU_INT64, IPU_SHAPE(1), (const int64_t[]){1}),
                         two = value(IPU_INT64, IPU_SHAPE(1), (const int64_t[]){2}),
                         six = value(IPU_INT64, IPU_SHAPE(1), (const int64_t[]){3});
    result r                 = import(b, VALUES(SIX, one, two, six, one), NULL);
    assert_true(!r.fixed[0] && r.fixed[1] && r.fixed[2] && r.fixed[3] && !r.fixed[4]);
    assert_int_equal(r.n_begun, 3);
    ipu_free(r.text);
    /* Where one is not given, nothing is fixed and the message has all of them. */
    ipu_onnx        *file;
    ipu__imported    made;
    bool             fixed[5] = {false};
    ipu_onnx_value   some[]   = {SIX, one, value(IPU_INT64, IPU_SHAPE(1), NULL), six};
    ipu_onnx_options options  = {.inputs = some, .n_inputs = 4};
    assert_int_equal(ipu_onnx_read(b.at, b.n, NULL, &file), IPU_OK);
    assert_int_equal(ipu__onnx_import(file, &options, NULL, fixed, &made), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "it depends on input \"a\", \"b\", \"c\": give its value"));
    for (int i = 0; i < 5; i++) assert_false(fixed[i]);
    /* And where inputs may not become fixed, though their values are given. */
    ipu_model *m;
    some[2] = two;
    assert_int_equal(ipu_onnx_import(file, &options, &m), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "it depends on input \"a\", \"b\", \"c\": give its value"));
    ipu_onnx_close(file);
}

/* An array of a sequence decides: all of them are known then. */
static void a_sequence_is_fixed_as_a_whole(void **state)
{
    (void)state;
    bytes          b        = model(17,
                                    graph("in x float[6]; in s seq(int64); const k int64[] 1; out y; t = SequenceAt(s, k);"
                                                          "y = Reshape(x, t)",
                                          NULL),
                                    none);
    ipu_onnx_value two[]    = {SHAPE(9, 9), SHAPE(3, 2)};
    ipu_onnx_value sequence = {.kind = IPU_ONNX_SEQUENCE, .items = two, .n_items = 2};
    result         r        = import(b, VALUES(SIX, sequence), NULL);
    assert_true(!r.fixed[0] && r.fixed[1]);
    assert_int_equal(r.n_inputs, 1);
    assert_same_when_known(b, VALUES(SIX, sequence), &r);
    ipu_free(r.text);
}

/* ---- what did without a value that is known later ---- */

static void a_branch_is_chosen_when_its_condition_comes_to_be_known(void **state)
{
    (void)state;
    const bytes          branches[] = {graph("out t; t = Neg(x)", NULL), graph("out t; t = Exp(x)", NULL)};
    bytes                b          = model(13,
                                            graph("in x float[6]; in s int64[2]; in other bool[]; const one int64[] 1; out y; out z; "
                                                                          "n = ReduceMax(s) keepdims=0; p = Abs(x); c = Greater(n, one); "
                                                                          "i = If(c) then_branch=@0 else_branch=@1; "
                                                                          "z = If(other) then_branch=@0 else_branch=@1; y = Reshape(i, s)",
                                                  branches),
                                            none);
    const ipu_onnx_value in[]       = {SIX, SHAPE(2, 3), BOOL(true)};
    result               r          = import(b, in, 3, NULL);
    assert_true(!r.fixed[0] && r.fixed[1] && !r.fixed[2]);
    assert_int_equal(r.n_blocks, 3); /* only the other one has branches */
    assert_non_null(strstr(r.text, "neg"));
    /* 3 nodes, If and its two nodes, If with two, Reshape; then If and its node, If with two, Reshape. */
    assert_int_equal(r.n_begun, 3 + 3 + 3 + 1 + 2 + 3 + 1);
    assert_same_when_known(b, in, 3, &r);
    ipu_free(r.text);
    ipu_onnx_value out[2];
    run_file(b, in, 3, out, 2);
    ASSERT_ARRAY(&out[0], IPU_SHAPE(2, 3), -1, -2, -3, -4, -5, -6);
    ASSERT_ARRAY(&out[1], IPU_SHAPE(6), -1, -2, -3, -4, -5, -6);
    for (int i = 0; i < 2; i++) ipu_onnx_value_free(&out[i]);
}

/* Branches of different shapes need the condition there and then. */
static void branches_that_differ_fix_their_condition(void **state)
{
    (void)state;
    const bytes branches[] = {graph("out t; const k int64[1] 2; t = Unsqueeze(x, k)", NULL),
                              graph("out t; const k int64[2] 1 2; t = Unsqueeze(x, k)", NULL)};
    bytes       b          = model(
                       13, graph("in x float[2,3]; in c bool[]; out y; y = If(c) then_branch=@0 else_branch=@1", branches),
                       none);
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    result               r = import(b, VALUES(x, BOOL(true)), NULL);
    assert_true(r.fixed[1]);
    assert_int_equal(r.n_blocks, 1);
    assert_same_when_known(b, VALUES(x, BOOL(true)), &r);
    ipu_free(r.text);
    EXPECT(b, VALUES(x, BOOL(true)), IPU_SHAPE(2, 3, 1), 1, 2, 3, 4, 5, 6);
    EXPECT(b, VALUES(x, BOOL(false)), IPU_SHAPE(2, 1, 1, 3), 1, 2, 3, 4, 5, 6);
}

/* The extent of NonZero would depend on data, which Reshape cannot take, were the input not needed before. */
static void an_extent_is_known_with_its_input(void **state)
{
    (void)state;
    bytes b = model(
        13, graph("in x float[6]; in s int64[2]; out y; out z; z = NonZero(s); y = Reshape(x, s)", NULL),
        none);
    const ipu_onnx_value in[] = {SIX, SHAPE(6, 1)};
    result               r    = import(b, in, 2, NULL);
    assert_null(strstr(r.text, "count"));
    assert_same_when_known(b, in, 2, &r);
    ipu_free(r.text);
}

/* ---- loops ---- */

#define TURNS 20

static bytes slicing_body(const char *more)
{
    char source[400];
    snprintf(
        source, sizeof source,
        "in i int64[]; in go bool[]; in a float[1]; const one int64[1] 1; const zero int64[1] 0; out go; "
        "out b; e = Add(i, one); s = Slice(x, zero, e); r = ReduceSum(s) keepdims=1; %s b = Add(a, r)",
        more);
    return graph(source, NULL);
}

static bytes slicing_loops(int n, int between)
{
    const bytes body[] = {slicing_body("")};
    char       *source = ipu__arena_alloc(&pool, (size_t)n * (size_t)(between + 2) * 40 + 1000);
    size_t      at = (size_t)sprintf(source, "in x float[20]; in y0 float[1]; const n int64[] %d; out y%d; ",
                                     TURNS, n);
    for (int i = 0; i < n; i++) {
        at += (size_t)sprintf(source + at, "a%d_0 = Loop(n, -, y%d) body=@0; ", i, i);
        for (int k = 0; k < between; k++)
            at += (size_t)sprintf(source + at, "a%d_%d = Neg(a%d_%d); ", i, k + 1, i, k);
        at += (size_t)sprintf(source + at, "y%d = Identity(a%d_%d); ", i + 1, i, between);
    }
    return model(13, graph(source, body), none);
}

static const float twenty[TURNS] = {1};

static void loops_are_unrolled_where_they_stand(void **state)
{
    (void)state;
    enum { N = 50, BETWEEN = 10, BODY = 4 };
    bytes  b = slicing_loops(N, BETWEEN);
    result r = import(b, VALUES(value(IPU_FLOAT, IPU_SHAPE(TURNS), twenty), FLOATS(IPU_SHAPE(1), 0)), NULL);
    /* The loop's first turn, half of the next, and all of them; what stands before and behind once. */
    int64_t once = BETWEEN + 1, loop = 1 + BODY + 2, unrolled = 1 + TURNS * BODY;
    assert_int_equal(r.n_begun, N * (once + loop + unrolled));
    assert_int_equal(r.n_blocks, 1);
    ipu_free(r.text);
    EXPECT(slicing_loops(2, 2), VALUES(value(IPU_FLOAT, IPU_SHAPE(TURNS), twenty), FLOATS(IPU_SHAPE(1), 3)),
           IPU_SHAPE(1), 43);
}

/* What is in the body, in a function around it and behind it is as if nobody had gone back. */
static void weights_in_a_loop_that_is_unrolled_are_made_once(void **state)
{
    (void)state;
    const bytes body[]   = {slicing_body("const w float[1] 2; t = Mul(r, w); u = Mul(t, v);")};
    bytes       function = JOIN(text(1, "F"), text(10, "my"), block(9, opset("", 13)),
                                statements("in x; in y0; in v; in n; out y; y = Loop(n, -, y0) body=@0", body,
                                           true));
    bytes       b        = model(
                     13,
                     graph("in x float[20]; in y0 float[1]; const n int64[] 20; const v float[1] 5; out y; out z;"
                                        "z = Abs(v); y = my:F(x, y0, v, n)",
                           NULL),
                     block(25, function));
    result r = import(b, VALUES(value(IPU_FLOAT, IPU_SHAPE(TURNS), twenty), FLOATS(IPU_SHAPE(1), 0)), NULL);
    assert_int_equal(r.n_blocks, 1);
    /* v, n, one, zero, w; for each turn its number and whether it goes on. */
    assert_in_range(r.n_constants, 5 + TURNS, 5 + 2 * TURNS);
    ipu_free(r.text);
    EXPECT(model(13,
                 graph("in x float[20]; in y0 float[1]; const n int64[] 20; const v float[1] 5; out y;"
                       "y = my:F(x, y0, v, n)",
                       NULL),
                 block(25, function)),
           VALUES(value(IPU_FLOAT, IPU_SHAPE(TURNS), twenty), FLOATS(IPU_SHAPE(1), 3)), IPU_SHAPE(1), 23);
}

/* The inner turn decides a shape, then the outer one: both are unrolled, and what is between them. */
static void loops_within_loops_are_unrolled(void **state)
{
    (void)state;
    const bytes inner[] = {graph("in j int64[]; in go2 bool[]; in p float[1]; const one int64[1] 1; "
                                 "const zero int64[1] 0; out go2; out q; k = Add(i, j); e = Add(k, one); "
                                 "s = Slice(x, zero, e); r = ReduceSum(s) keepdims=1; q = Add(p, r)",
                                 NULL)};
    const bytes outer[] = {
        graph("in i int64[]; in go bool[]; in a float[1]; out go; out b; c = Neg(a); d = Neg(c); "
              "b = Loop(n, -, d) body=@0",
              inner)};
    bytes b = model(
        13,
        graph("in x float[40]; in a float[1]; const n int64[] 20; out b; b = Loop(n, -, a) body=@0", outer),
        none);
    float  x[40];
    double sum = 0;
    for (int i = 0; i < 40; i++) x[i] = (float)i;
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++)
            for (int k = 0; k <= i + j; k++) sum += x[k];
    const ipu_onnx_value in[] = {value(IPU_FLOAT, IPU_SHAPE(40), x), FLOATS(IPU_SHAPE(1), 1)};
    result               r    = import(b, in, 2, NULL);
    assert_int_equal(r.n_blocks, 1);
    ipu_free(r.text);
    EXPECT(b, VALUES(in[0], in[1]), IPU_SHAPE(1), sum + 1);
}

/* What a loop gave decides a shape much later; what was in between is done again once. */
static void a_loop_is_unrolled_for_what_comes_later(void **state)
{
    (void)state;
    const bytes          body[] = {graph(
                 "in i int64[]; in go bool[]; in a int64[1]; out go; out b; const one int64[1] 1; b = Add(a, one)",
                 NULL)};
    bytes                b      = model(13,
                                        graph("in x float[]; in a int64[1]; const n int64[] 20; out y; p = Neg(x); "
                                                                  "k = Loop(n, -, a) body=@0; q = Neg(p); r = Neg(q); y = Expand(r, k)",
                                              body),
                                        none);
    const ipu_onnx_value in[] = {FLOATS((ipu_shape){0}, 7), value(IPU_INT64, IPU_SHAPE(1), (int64_t[]){-17})};
    result               r    = import(b, in, 2, NULL);
    assert_true(r.fixed[1]);
    assert_int_equal(r.n_blocks, 1);
    assert_int_equal(r.n_begun, 1 + (1 + 2) + 3 + (1 + 20) + 3);
    assert_same_when_known(b, in, 2, &r);
    ipu_free(r.text);
    EXPECT(b, VALUES(in[0], in[1]), IPU_SHAPE(3), -7, -7, -7);
}

static void what_draws_numbers_cannot_decide_a_shape(void **state)
{
    (void)state;
    expect_error(
        model(13,
              graph("in x float[6]; in s float[2]; out y; r = RandomUniformLike(s); t = Add(r, s); "
                    "c = Cast(t) to=7; y = Reshape(x, c)",
                    NULL),
              none),
        VALUES(SIX, FLOATS(IPU_SHAPE(2), 2, 3)), IPU_UNSUPPORTED,
        "node 4 (Reshape): input 1, \"c\", decides a shape and depends on data that are known only when "
        "the model runs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_that_decide_shapes_are_found_in_one_pass),
        cmocka_unit_test(inputs_of_one_batch_are_found_in_one_pass),
        cmocka_unit_test(what_was_made_of_a_part_is_made_again),
        cmocka_unit_test(an_input_is_fixed_with_all_that_a_value_needs),
        cmocka_unit_test(a_sequence_is_fixed_as_a_whole),
        cmocka_unit_test(a_branch_is_chosen_when_its_condition_comes_to_be_known),
        cmocka_unit_test(branches_that_differ_fix_their_condition),
        cmocka_unit_test(an_extent_is_known_with_its_input),
        cmocka_unit_test(loops_are_unrolled_where_they_stand),
        cmocka_unit_test(weights_in_a_loop_that_is_unrolled_are_made_once),
        cmocka_unit_test(loops_within_loops_are_unrolled),
        cmocka_unit_test(a_loop_is_unrolled_for_what_comes_later),
        cmocka_unit_test(what_draws_numbers_cannot_decide_a_shape),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
