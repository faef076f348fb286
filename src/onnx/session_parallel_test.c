/* Sessions over several IPUs: the results of one IPU, batch by batch and bit for bit, in stages, in replicas and with several
 * batches to a run; what does not divide is refused; the price is that of all IPUs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "onnx/run_test.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { ROWS = 2, SAMPLE = 2 * 6 * 6, CLASSES = 5, MOST_BATCHES = 8, N_OUT = 3 };

static ipu_options *exactly; /* one thread and plain layouts: docs/multi-ipu.md */
static float        pictures[MOST_BATCHES * ROWS * SAMPLE];
static bytes        network;

/* An initializer of numbers from -1 to 1. */
static bytes weights(const char *name, const char *type, size_t n)
{
    static unsigned seed = 5;
    float          *data = ipu__arena_alloc(&pool, n * sizeof *data);
    for (size_t i = 0; i < n; i++) {
        seed    = seed * 1664525u + 1013904223u;
        data[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return block(5, tensor(name, type, raw(data, n * sizeof *data)));
}

/* Scores, their mean over all of a batch (a scalar) and the best class; where it is flattened says input t. */
static bytes make_network(void)
{
    bytes nodes = graph(
        "in x float[N,2,6,6]; in t int64[2]; out y; out m; out best;"
        "c = Conv(x, k); r = Relu(c); f = Reshape(r, t); h = MatMul(f, v); s = Tanh(h); z = MatMul(s, w);"
        "y = Softmax(z) axis=1; l = Log(y); m = ReduceMean(l) keepdims=0; best = ArgMax(y) axis=1 keepdims=0",
        NULL);
    return model(13,
                 JOIN(nodes, weights("k", "float[4,2,3,3]", 72), weights("v", "float[64,16]", 1024),
                      weights("w", "float[16,5]", 80)),
                 none);
}

static int set_up(void **state)
{
    unsigned seed = 3;
    (void)state;
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        seed        = seed * 1664525u + 1013904223u;
        pictures[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    network = make_network();
    OK(ipu_options_create(&exactly));
    OK(ipu_options_set(exactly, "threads", "1"));
    OK(ipu_options_set(exactly, "memory.layouts", "false"));
    return unsetenv("IPU_CACHE_DIR");
}

static int tear_down(void **state)
{
    ipu_options_destroy(exactly);
    return free_pool(state);
}

static const int64_t flat[2] = {-1, 64};

/* The batches from `first` on. */
static void run_for(ipu_onnx_session *s, int64_t first, int64_t n, ipu_onnx_value *out, size_t n_out)
{
    ipu_onnx_value in[] = {value(IPU_FLOAT, IPU_SHAPE(n * ROWS, 2, 6, 6), pictures + first * ROWS * SAMPLE),
                           value(IPU_INT64, IPU_SHAPE(2), flat)};
    OK(ipu_onnx_session_run(s, in, 2, out, n_out));
}

static void run(ipu_onnx_session *s, int64_t first, int64_t n, ipu_onnx_value out[N_OUT])
{
    run_for(s, first, n, out, N_OUT);
}

static void free_all(ipu_onnx_value out[N_OUT])
{
    for (int i = 0; i < N_OUT; i++) ipu_onnx_value_free(&out[i]);
}

static void assert_part(const ipu_onnx_value *whole, int64_t k, const ipu_onnx_value *part, const char *what)
{
    size_t bytes_of = ipu_array_bytes(&part->array);
    if (memcmp((const char *)whole->array.data + (size_t)k * bytes_of, part->array.data, bytes_of) != 0)
        fail_msg("%s: batch %lld differs", what, (long long)k);
}

/* Batch by batch, what one IPU gives. */
static void compare(ipu_onnx_options options, const char *what)
{
    ipu_onnx         *one_file, *file;
    ipu_onnx_options  plain = {.options = exactly};
    ipu_onnx_value    out[N_OUT], part[N_OUT];
    ipu_onnx_session *one = session_of(network, &one_file, &plain);
    options.options       = exactly;
    ipu_onnx_session *s   = session_of(network, &file, &options);
    int64_t           n = (options.batches ? options.batches : 1) * (options.replicas ? options.replicas : 1);
    for (int turn = 0; turn < 2; turn++) {
        run(s, 0, n, out);
        assert_int_equal(out[0].array.shape.dim[0], n * ROWS);
        assert_int_equal(out[1].array.shape.rank, n > 1);
        assert_int_equal(ipu_array_n_elements(&out[1].array), n);
        assert_int_equal(ipu_array_n_elements(&out[2].array), n * ROWS);
        for (int64_t k = 0; k < n; k++) {
            run(one, k, 1, part);
            for (int i = 0; i < N_OUT; i++) assert_part(&out[i], k, &part[i], what);
            free_all(part);
        }
        free_all(out);
    }
    assert_int_equal(ipu_onnx_session_n_compiled(s), 1);
    ipu_onnx_session_destroy(s);
    ipu_onnx_session_destroy(one);
    ipu_onnx_close(file);
    ipu_onnx_close(one_file);
}

static void results_are_those_of_one_ipu(void **state)
{
    (void)state;
    compare((ipu_onnx_options){.batches = 3}, "3 batches");
    compare((ipu_onnx_options){.stages = 4}, "4 stages in turn");
    compare((ipu_onnx_options){.stages = 4, .batches = 2}, "4 stages in turn, 2 batches");
    compare((ipu_onnx_options){.stages = 4, .batches = 4}, "4 stages");
    compare((ipu_onnx_options){.stages = 2, .batches = 7}, "2 stages");
    compare((ipu_onnx_options){.stages = 3, .batches = 3}, "3 stages on 4 IPUs");
    compare((ipu_onnx_options){.replicas = 4}, "4 replicas");
    compare((ipu_onnx_options){.replicas = 2, .batches = 3}, "2 replicas, 3 batches");
    compare((ipu_onnx_options){.replicas = 2, .stages = 2, .batches = 4}, "2 replicas of 2 stages");
}

/* Runs after it leave them as they are, also where not all are wanted, or a run fails. */
static void outputs_are_the_callers(void **state)
{
    (void)state;
    ipu_onnx         *file;
    ipu_onnx_value    first[N_OUT], again[N_OUT], other[N_OUT];
    ipu_onnx_value    gone = value(IPU_FLOAT, IPU_SHAPE(2 * ROWS, 2, 6, 6), NULL);
    ipu_onnx_options  two  = {.options = exactly, .batches = 2};
    ipu_onnx_session *s    = session_of(network, &file, &two);
    run(s, 0, 2, first);
    run_for(s, 2, 2, other, 1);
    assert_int_equal(ipu_onnx_session_run(s, VALUES(gone, value(IPU_INT64, IPU_SHAPE(2), flat)), again,
                                          N_OUT),
                     IPU_INVALID);
    assert_null(again[0].array.data);
    run(s, 0, 2, again);
    for (int i = 0; i < N_OUT; i++) {
        assert_ptr_not_equal(first[i].array.data, again[i].array.data);
        assert_part(&again[i], 0, &first[i], "the same again");
    }
    assert_memory_not_equal(first[0].array.data, other[0].array.data, ipu_array_bytes(&first[0].array));
    ipu_onnx_value_free(&other[0]);
    free_all(again);
    free_all(first);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

/* Outputs whose extents depend on data, and sequences, go over IPUs; but not over batches. */
static void extents_and_sequences_pass_stages(void **state)
{
    (void)state;
    ipu_onnx      *file;
    ipu_onnx_value out[2];
    const float    x[] = {1, -2, 3, 0};
    ipu_onnx_value in  = value(IPU_FLOAT, IPU_SHAPE(4), x);
    const char    *nodes =
        "in x float[4]; out n; out q; a = Abs(x); b = Relu(x); n = NonZero(b); q = SequenceConstruct(a, b)";
    bytes             b = model(13, graph(nodes, NULL), none);
    ipu_onnx_session *s = session_of(b, &file, &(ipu_onnx_options){.stages = 2});
    OK(ipu_onnx_session_run(s, &in, 1, out, 2));
    ASSERT_ARRAY(&out[0], IPU_SHAPE(1, 2), 0, 2);
    assert_int_equal(out[1].kind, IPU_ONNX_SEQUENCE);
    assert_int_equal(out[1].n_items, 2);
    ASSERT_ARRAY(&out[1].items[0], IPU_SHAPE(4), 1, 2, 3, 0);
    ASSERT_ARRAY(&out[1].items[1], IPU_SHAPE(4), 1, 0, 3, 0);
    ipu_onnx_value_free(&out[0]);
    ipu_onnx_value_free(&out[1]);
    /* one that nobody wants is taken all the same */
    OK(ipu_onnx_session_run(s, &in, 1, out, 1));
    ipu_onnx_value_free(&out[0]);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    s = session_of(b, &file, &(ipu_onnx_options){.batches = 2});
    assert_int_equal(ipu_onnx_session_run(s, &in, 1, out, 2), IPU_UNSUPPORTED);
    if (!strstr(ipu_message(), "output 0 is as large as its data say")) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

/* Tensors from within, of the first stage, of the last and a weight, which each batch gives again. */
static void tensors_from_within_are_given_batch_by_batch(void **state)
{
    (void)state;
    enum { ALL = 6 };
    const char            *names[] = {"c", "z", "v"};
    const ipu_onnx_options list[]  = {{.batches = 4},
                                      {.stages = 3},
                                      {.stages = 2, .batches = 4},
                                      {.replicas = 2, .stages = 2, .batches = 2},
                                      {.replicas = 4}};
    ipu_onnx              *one_file, *file;
    ipu_onnx_value         out[ALL], part[ALL];
    ipu_onnx_options       plain = {.options = exactly, .outputs = names, .n_outputs = 3};
    ipu_onnx_session      *one   = session_of(network, &one_file, &plain);
    for (size_t k = 0; k < sizeof list / sizeof *list; k++) {
        ipu_onnx_options options = list[k];
        int64_t          n       = list[k].stages == 3 ? 1 : 4;
        options.options          = exactly;
        options.outputs          = names;
        options.n_outputs        = 3;
        ipu_onnx_session *s      = session_of(network, &file, &options);
        run_for(s, 0, n, out, ALL);
        for (int64_t b = 0; b < n; b++) {
            run_for(one, b, 1, part, ALL);
            for (int i = 0; i < ALL; i++)
                assert_part(&out[i], b, &part[i], i < N_OUT ? "output" : names[i - N_OUT]);
            for (int i = 0; i < ALL; i++) ipu_onnx_value_free(&part[i]);
        }
        assert_int_equal(out[3].array.shape.dim[0], n * ROWS);
        assert_int_equal(out[5].array.shape.dim[0], n * 64);
        for (int i = 0; i < ALL; i++) ipu_onnx_value_free(&out[i]);
        ipu_onnx_session_destroy(s);
        ipu_onnx_close(file);
    }
    ipu_onnx_session_destroy(one);
    ipu_onnx_close(one_file);
}

/* Inputs that decide shapes are the same for all batches. That they do is found out with parts of them, of which a model
 * can be made as well (t), cannot be made (u) or which there are not (v). */
static void inputs_that_decide_shapes_are_whole(void **state)
{
    (void)state;
    static const float x[8]  = {1, 2, 3, 4, 5, 6, 7, 8};
    const char        *nodes = "in x float[N,2]; in t int64[2]; in u int64[4]; in v int64[3]; out y;"
                               "a = Reshape(x, t); b = Reshape(a, u); y = Reshape(b, v)";
    bytes              b     = model(13, graph(nodes, NULL), none);
    const int64_t      t[] = {-1, 1}, u[] = {1, 2, 1, 2}, v[] = {1, 2, 2}, other[] = {2, 1, 2};
    ipu_onnx_value     out, in[] = {value(IPU_FLOAT, IPU_SHAPE(4, 2), x), value(IPU_INT64, IPU_SHAPE(2), t),
                                    value(IPU_INT64, IPU_SHAPE(4), u), value(IPU_INT64, IPU_SHAPE(3), v)};
    ipu_onnx          *file;
    ipu_onnx_session  *s = session_of(b, &file, &(ipu_onnx_options){.batches = 2});
    for (size_t turn = 0; turn < 3; turn++) {
        if (turn == 2) in[3].array.data = (void *)(uintptr_t)other;
        OK(ipu_onnx_session_run(s, in, 4, &out, 1));
        ASSERT_ARRAY(&out, turn == 2 ? IPU_SHAPE(4, 1, 2) : IPU_SHAPE(2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8);
        ipu_onnx_value_free(&out);
        assert_int_equal(ipu_onnx_session_n_compiled(s), turn == 2 ? 2 : 1);
    }
    assert_non_null(ipu_onnx_session_model(s));
    assert_int_equal(ipu_model_n_inputs(ipu_onnx_session_model(s)), 1);
    /* What is wrong with another is told of that one. */
    in[0].array.shape = IPU_SHAPE(3, 2);
    assert_int_equal(ipu_onnx_session_run(s, in, 4, &out, 1), IPU_INVALID);
    if (!strstr(ipu_message(), "input \"x\": a run has 2 batches")) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    s = NULL;
    OK(ipu_onnx_session_create(file, &(ipu_onnx_options){.batches = 2}, &s));
    assert_int_equal(ipu_onnx_session_run(s, in, 4, &out, 1), IPU_INVALID);
    if (!strstr(ipu_message(), "input \"x\": a run has 2 batches")) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

static void expect_refused(const char *nodes, ipu_onnx_options options, const ipu_onnx_value *in, size_t n,
                           ipu_status status, const char *says)
{
    ipu_onnx         *file;
    ipu_onnx_value    out;
    ipu_onnx_session *s = NULL;
    bytes             b = model(13, graph(nodes, NULL), none);
    OK(ipu_onnx_read(b.at, b.n, NULL, &file));
    ipu_status found = ipu_onnx_session_create(file, &options, &s);
    if (found == IPU_OK) found = ipu_onnx_session_run(s, in, n, &out, 1);
    if (found != status || !strstr(ipu_message(), says))
        fail_msg("expected status %d and \"%s\", found %d: %s", status, says, found, ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

static void what_does_not_divide_is_refused(void **state)
{
    (void)state;
    static const float six[6] = {0};
    const char        *add    = "in x float[N]; in y float; out z; a = Relu(x); z = Add(a, y)";
    ipu_onnx_value     x5 = value(IPU_FLOAT, IPU_SHAPE(5), six), x6 = value(IPU_FLOAT, IPU_SHAPE(6), six),
                   scalar = value(IPU_FLOAT, (ipu_shape){0}, six);
    expect_refused(add, (ipu_onnx_options){.batches = 3}, VALUES(x5, x6), IPU_INVALID,
                   "input \"x\": a run has 3 batches (batches 3 x replicas 1)");
    expect_refused(add, (ipu_onnx_options){.batches = 3}, VALUES(x5, x6), IPU_INVALID,
                   "expected a multiple of 3, found 5 in [5]");
    expect_refused(add, (ipu_onnx_options){.replicas = 2}, VALUES(x6, scalar), IPU_INVALID,
                   "input \"y\": a run has 2 batches (batches 1 x replicas 2), which divide its dimension 0: "
                   "expected a multiple of 2, found a scalar");
    expect_refused("in x seq(float[2]); out z; z = SequenceLength(x)", (ipu_onnx_options){.batches = 2},
                   VALUES(((ipu_onnx_value){.kind = IPU_ONNX_SEQUENCE})), IPU_INVALID, "found a sequence");
    expect_refused("in x float[2]; out z; z = Relu(x)", (ipu_onnx_options){.batches = 4}, VALUES(x6),
                   IPU_INVALID, "found 6 in [6] (input \"x\" should have shape [8], found [6])");
    expect_refused(add, (ipu_onnx_options){.stages = 65}, NULL, 0, IPU_INVALID, "stages: expected 1 to 64");
    expect_refused(add, (ipu_onnx_options){.replicas = 3}, NULL, 0, IPU_INVALID,
                   "replicas: expected 1 or a power of two, found 3");
    expect_refused(add, (ipu_onnx_options){.batches = -1}, NULL, 0, IPU_INVALID, "batches: expected 1 to");
    expect_refused(add, (ipu_onnx_options){.stages = 9}, VALUES(x6, scalar), IPU_INVALID, "stages");
    expect_refused("in x float[N]; out z; r = RandomUniformLike(x); z = Add(x, r)",
                   (ipu_onnx_options){.replicas = 2}, VALUES(x6), IPU_UNSUPPORTED, "draws random numbers");
}

/* Random numbers go on from batch to batch as they do from run to run. */
static void batches_draw_what_runs_draw(void **state)
{
    (void)state;
    static const float x[8] = {0};
    bytes b = model(13, graph("in x float[N]; out z; r = RandomUniformLike(x); z = Add(x, r)", NULL), none);
    ipu_onnx      *file[2];
    ipu_onnx_value all, part, in = value(IPU_FLOAT, IPU_SHAPE(8), x),
                              half = value(IPU_FLOAT, IPU_SHAPE(4), x);
    ipu_onnx_session *one          = session_of(b, &file[0], NULL),
                     *two          = session_of(b, &file[1], &(ipu_onnx_options){.batches = 2});
    OK(ipu_onnx_session_run(two, &in, 1, &all, 1));
    for (int64_t k = 0; k < 2; k++) {
        OK(ipu_onnx_session_run(one, &half, 1, &part, 1));
        assert_part(&all, k, &part, "random");
        ipu_onnx_value_free(&part);
    }
    ipu_onnx_value_free(&all);
    ipu_onnx_session_destroy(one);
    ipu_onnx_session_destroy(two);
    ipu_onnx_close(file[0]);
    ipu_onnx_close(file[1]);
}

static int64_t price(ipu_onnx_options options, int64_t *n_ipus)
{
    ipu_onnx        *file;
    ipu_cost        *cost;
    ipu_cost_summary sum, same;
    ipu_cost_ipu     ipu;
    ipu_target       target;
    ipu_onnx_value   out[N_OUT];
    OK(ipu_target_find("gc200", 1, &target));
    options.target      = &target;
    ipu_onnx_session *s = session_of(network, &file, &options);
    run(s, 0, (options.batches ? options.batches : 1) * (options.replicas ? options.replicas : 1), out);
    free_all(out);
    OK(ipu_onnx_session_price(s, &cost));
    OK(ipu_onnx_session_cost(s, &same));
    ipu_cost_get_summary(cost, &sum);
    assert_int_equal(sum.cycles.total, same.cycles.total);
    *n_ipus = 0;
    while (ipu_cost_ipu_at(cost, *n_ipus, &ipu)) ++*n_ipus;
    ipu_cost_destroy(cost);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    return sum.cycles.total;
}

static void the_price_is_that_of_all_ipus(void **state)
{
    (void)state;
    int64_t n, one = price((ipu_onnx_options){0}, &n), eight, turns, pipeline;
    assert_int_equal(n, 1);
    eight = price((ipu_onnx_options){.batches = 8}, &n); /* which are streamed, too */
    assert_int_equal(n, 1);
    assert_true(eight > 8 * one);
    assert_int_equal(price((ipu_onnx_options){.batches = 4}, &n), eight / 2);
    turns = price((ipu_onnx_options){.stages = 2}, &n);
    assert_int_equal(n, 2);
    assert_true(turns > one);
    pipeline = price((ipu_onnx_options){.stages = 2, .batches = 8}, &n);
    assert_int_equal(n, 2);
    assert_true(pipeline < 8 * turns);
    assert_int_equal(price((ipu_onnx_options){.replicas = 2}, &n) > one, true);
    assert_int_equal(n, 1); /* a replica is like the other */
    price((ipu_onnx_options){.stages = 3}, &n);
    assert_int_equal(n, 4);
}

/* What another session compiled is taken for the same options only. */
static void the_cache_tells_them_apart(void **state)
{
    (void)state;
    char                   box[]  = "/tmp/ipu-session-parallel-test-XXXXXX", command[128];
    const ipu_onnx_options list[] = {{0}, {.batches = 4}, {.replicas = 4}, {.stages = 2, .batches = 4}};
    assert_non_null(mkdtemp(box));
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
            ipu_onnx        *file;
            ipu_onnx_value   out[N_OUT];
            ipu_onnx_options options = list[i];
            options.cache_folder     = box;
            ipu_onnx_session *s      = session_of(network, &file, &options);
            run(s, 0, 4, out);
            assert_int_equal(ipu_onnx_session_was_cached(s), again);
            ipu_model *m = ipu_onnx_session_model(
                s); /* imported now, if it came from the cache: of one batch */
            assert_non_null(m);
            assert_int_equal(ipu_value_shape(ipu_model_input_at(m, 0)).dim[0], i == 0 ? 4 * ROWS : ROWS);
            free_all(out);
            ipu_onnx_session_destroy(s);
            ipu_onnx_close(file);
        }
    snprintf(command, sizeof command, "rm -rf '%s'", box);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_one_ipu),
        cmocka_unit_test(outputs_are_the_callers),
        cmocka_unit_test(extents_and_sequences_pass_stages),
        cmocka_unit_test(tensors_from_within_are_given_batch_by_batch),
        cmocka_unit_test(inputs_that_decide_shapes_are_whole),
        cmocka_unit_test(what_does_not_divide_is_refused),
        cmocka_unit_test(batches_draw_what_runs_draw),
        cmocka_unit_test(the_price_is_that_of_all_ipus),
        cmocka_unit_test(the_cache_tells_them_apart),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
