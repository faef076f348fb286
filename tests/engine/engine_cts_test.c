/* What every engine must do: one suite, run on all that are listed (engine/engine.h), and on the CPU's without anything
 * that the record calls optional. A case that an engine cannot pass stands in `excluded`, with the reason.
 */
#include "support/machine.h"

#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"

static const struct {
    const char *engine, *part; /* of names of cases */
    const char *reason;
} excluded[] = {
    {"null", "value", "its variables have no memory: they read as zeros"},
};

/* The CPU's functions that are required, alone: all else is done by src/engine/run, through buffers of its own. */
static ipu__engine_def bare;

/* The engine under test. */
static const ipu__engine_def *tested;

/* ---- programs ---- */

#define DOUBLE(F) F(IN, float, x) F(OUT, float, y)
IPU_VERTEX(Double, DOUBLE)
{
    *v->y = 2 * *v->x;
    return true;
}

#define PICKY(F) F(IN, float, x)
IPU_VERTEX(Picky, PICKY)
{
    return *v->x != 3;
}

static ipu_engine *start_with(ipu_graph *g, const ipu_program *programs, size_t n, const char *option)
{
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_ok(ipu_options_create(&options));
    assert_ok(ipu_options_set(options, "threads", "2"));
    if (option) assert_ok(ipu_options_set(options, option, "true"));
    assert_ok(ipu_executable_compile(g, programs, n, options, &exe));
    assert_ok(ipu__engine_create(tested, exe, options, NULL, &e));
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    ipu_graph_destroy(g);
    return e;
}

static ipu_engine *start(ipu_program p) { return start_with(p.graph, &p, 1, NULL); }

static ipu_tensor floats(ipu_graph *g, int64_t n, const char *name)
{
    return machine_variable(g, IPU_FLOAT, IPU_SHAPE(n), name);
}

/* A step that calls back: a transfer of "tick", which counts. */
typedef struct ticks {
    int         n, fails_at;
    ipu_status  status;
    ipu_engine *interrupts;
} ticks;

static ipu_status tick(void *user, void *data, size_t bytes)
{
    ticks *t = user;
    (void)data;
    assert_int_equal(bytes, 4);
    t->n++;
    if (t->interrupts) ipu_engine_interrupt(t->interrupts);
    return t->n == t->fails_at ? t->status : IPU_OK;
}

static ipu_program ticking(ipu_graph *g, const char *stream)
{
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  t = machine_variable(g, IPU_INT32, IPU_SHAPE(1), stream);
    ipu_program_add_write(p, t, ipu_graph_add_device_to_host(g, stream, IPU_INT32, 1));
    return p;
}

static void expect_floats(ipu_engine *e, const char *handle, int64_t replica, const float *expected, size_t n)
{
    float found[16];
    assert_true(n <= 16);
    assert_ok(ipu_engine_read_replica(e, handle, replica, found, n * sizeof *found));
    for (size_t i = 0; i < n; i++)
        if (found[i] != expected[i])
            fail_msg("%s[%zu]: expected %g, found %g", handle, i, (double)expected[i], (double)found[i]);
}
#define EXPECT(e, handle, replica, ...)                             \
    expect_floats(e, handle, replica, (const float[]){__VA_ARGS__}, \
                  sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* ---- values ---- */

static void value_written_is_read(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(2);
    ipu_program p = ipu_program_sequence(g);
    floats(g, 3, "x");
    ipu_engine *e = start(p);
    EXPECT(e, "x", 0, 0, 0, 0);
    assert_ok(ipu_engine_write(e, "x", (float[]){1, 2, 3}, 12));
    assert_ok(ipu_engine_write_replica(e, "x", 1, (float[]){4, 5, 6}, 12));
    EXPECT(e, "x", 0, 1, 2, 3);
    EXPECT(e, "x", 1, 4, 5, 6);
    ipu_engine_destroy(e);
}

static void value_of_a_view_is_in_its_order(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(1);
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  x = floats(g, 6, "x");
    ipu_graph_add_host_read(g, "turned", ipu_tensor_transpose(ipu_tensor_reshape(x, IPU_SHAPE(2, 3))));
    ipu_graph_add_host_write(g, "backwards", ipu_tensor_reverse(x, 0));
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_write(e, "backwards", (float[]){6, 5, 4, 3, 2, 1}, 24));
    EXPECT(e, "x", 0, 1, 2, 3, 4, 5, 6);
    EXPECT(e, "turned", 0, 1, 4, 2, 5, 3, 6);
    ipu_engine_destroy(e);
}

static void values_are_copied_computed_and_kept(void **state)
{
    (void)state;
    ipu_graph      *g = machine_graph(2);
    ipu_tensor      x = floats(g, 3, "x"), y = floats(g, 3, "y"), z = floats(g, 3, "z");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "double");
    ipu_program     p  = ipu_program_sequence(g);
    ipu_graph_add_codelet(g, &Double);
    for (int64_t i = 0; i < 3; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Double");
        ipu_graph_set_vertex_tile(g, v, i);
        ipu_vertex_connect(v, "x", ipu_tensor_index(x, i));
        ipu_vertex_connect(v, "y", ipu_tensor_index(y, 2 - i));
    }
    ipu_program_add_execute(p, cs);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){x, ipu_tensor_reverse(y, 0), z}, 3);
    ipu_program_add_copy(p, ipu_tensor_reverse(z, 0), x);
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_write(e, "x", (float[]){1, 2, 3}, 12));
    assert_ok(ipu_engine_write_replica(e, "x", 1, (float[]){1, 1, 2}, 12));
    assert_ok(ipu_engine_run(e, 0));
    EXPECT(e, "y", 0, 6, 4, 2);
    EXPECT(e, "x", 0, 9, 6, 3);
    EXPECT(e, "x", 1, 6, 3, 3);
    assert_ok(ipu_engine_run(e, 0));
    EXPECT(e, "x", 0, 9, 18, 27);
    ipu_engine_destroy(e);
}

static void values_at_the_start_are_those_of_the_graph(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(2);
    ipu_tensor  x = floats(g, 2, "x"), y = floats(g, 2, "y");
    ipu_tensor  c = ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(2), (float[]){5, 7}, "c");
    ipu_program p = ipu_program_sequence(g), at_start = ipu_program_sequence(g);
    ipu_graph_set_tile_mapping(g, c, 0);
    ipu_graph_set_initial_value(g, x, (float[]){3, 4});
    ipu_program_add_copy(at_start, c, y);
    ipu_graph_add_start(g, at_start);
    ipu_engine *e = start(p);
    for (int64_t r = 0; r < 2; r++) {
        EXPECT(e, "x", r, 3, 4);
        EXPECT(e, "y", r, 5, 7);
    }
    ipu_engine_destroy(e);
}

static void values_of_replicas_meet(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(4);
    ipu_tensor  x = floats(g, 2, "x"), y = floats(g, 2, "y");
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_cross_replica_copy(p, ipu_tensor_reverse(x, 0), y, (int64_t[]){1, 2, 3, 0}, 4);
    ipu_program_add_all_reduce(p, x);
    ipu_program_add_all_reduce_wait(p);
    ipu_engine *e = start(p);
    for (int64_t r = 0; r < 4; r++)
        assert_ok(ipu_engine_write_replica(e, "x", r, (float[]){(float)r, (float)(10 * r)}, 8));
    assert_ok(ipu_engine_run(e, 0));
    for (int64_t r = 0; r < 4; r++) {
        EXPECT(e, "x", r, 6, 60);
        EXPECT(e, "y", (r + 1) % 4, (float)(10 * r), (float)r);
    }
    ipu_engine_destroy(e);
}

/* Loops, branches and switches by values; the loop counts down. */
static void values_decide_what_runs(void **state)
{
    (void)state;
    ipu_graph *g     = machine_graph(2);
    ipu_tensor n     = machine_variable(g, IPU_INT32, IPU_SCALAR, "n"),
               less  = machine_variable(g, IPU_INT32, IPU_SCALAR, "less");
    ipu_tensor  left = machine_variable(g, IPU_INT32, IPU_SCALAR, "left");
    ipu_program p = ipu_program_sequence(g), body = ticking(g, "turn"), yes = ticking(g, "then"),
                no = ticking(g, "else"), third = ticking(g, "case 3"), rest = ticking(g, "default");
    ipu_program_add_kernel(body, "add", NULL, 0, (ipu_tensor[]){n, less, left}, 3);
    ipu_program_add_copy(body, left, n);
    ipu_program_add_switch(p, n, (ipu_switch_case[]){{3, third}, {4, no}}, 2, rest);
    ipu_program_add_while_true(p, ipu_program_sequence(g), n, body);
    ipu_program_add_if(p, n, yes, no);
    ipu_engine              *e       = start(p);
    static const char *const names[] = {"turn", "then", "else", "case 3", "default"};
    static const int         runs[]  = {3, 0, 1, 1, 0};
    ticks                    t[5]    = {{0}};
    for (int64_t r = 0; r < 2; r++)
        for (int i = 0; i < 5; i++)
            assert_ok(ipu_engine_connect_callback_replica(e, names[i], r, tick, &t[i]));
    assert_ok(ipu_engine_write(e, "n", &(int32_t){3}, 4));
    assert_ok(ipu_engine_write(e, "less", &(int32_t){-1}, 4));
    assert_ok(ipu_engine_run(e, 0));
    for (int i = 0; i < 5; i++) assert_int_equal(t[i].n, 2 * runs[i]);
    assert_ok(ipu_engine_write_replica(e, "n", 1, &(int32_t){1}, 4));
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("diverges");
    ipu_engine_destroy(e);
}

static void value_may_abort(void **state)
{
    (void)state;
    ipu_graph      *g   = machine_graph(1);
    ipu_tensor      bad = machine_variable(g, IPU_BOOL, IPU_SCALAR, "bad"), x = floats(g, 1, "x");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "pick");
    ipu_program     p  = ipu_program_sequence(g);
    ipu_graph_add_codelet(g, &Picky);
    ipu_vertex v = ipu_graph_add_vertex(g, cs, "Picky");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", ipu_tensor_index(x, 0));
    ipu_program_add_abort_if(p, bad, "it is bad");
    ipu_program_add_execute(p, cs);
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_write(e, "x", &(float){3}, 4));
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("Picky");
    assert_ok(ipu_engine_write(e, "bad", "\1", 1));
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("it is bad");
    ipu_engine_destroy(e);
}

/* ---- streams and remote buffers ---- */

/* Stream "in" to x, which is doubled and goes to "out", both turned round if so told. */
static ipu_program doubling(ipu_graph *g, bool turned)
{
    ipu_tensor  x = floats(g, 4, "x"), y = floats(g, 4, "y");
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_read(p, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 4, IPU_STREAM_REPLICATE),
                         turned ? ipu_tensor_reverse(x, 0) : x);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){x, x, y}, 3);
    ipu_program_add_write(p, turned ? ipu_tensor_reverse(y, 0) : y,
                          ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, 4));
    return p;
}

static ipu_status give(void *user, void *data, size_t bytes)
{
    memcpy(data, user, bytes);
    return IPU_OK;
}

static ipu_status take(void *user, void *data, size_t bytes)
{
    memcpy(user, data, bytes);
    return IPU_OK;
}

static const void *lend(void *user, size_t bytes)
{
    (void)bytes;
    return user;
}

static void *place(void *user, size_t bytes)
{
    (void)bytes;
    return user;
}

static void values_stream_any_way(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        ipu_engine        *e     = start(doubling(machine_graph(1), turned));
        _Alignas(64) float in[4] = {1, 2, 3, 4}, out[4];
        for (int way = 0; way < 4; way++) {
            memset(out, 0, sizeof out);
            in[0] = (float)way;
            assert_ok(way == 0   ? ipu_engine_connect_stream(e, "in", in, sizeof in)
                      : way == 1 ? ipu_engine_connect_callback(e, "in", give, in)
                                 : ipu_engine_connect_lender_replica(e, "in", 0, lend, in + way - 2));
            if (way == 3) memmove(in + 1, in, 3 * sizeof *in); /* lent from a place that is not aligned */
            assert_ok(way == 0   ? ipu_engine_connect_stream(e, "out", out, sizeof out)
                      : way == 1 ? ipu_engine_connect_callback(e, "out", take, out)
                                 : ipu_engine_connect_place_replica(e, "out", 0, place, out));
            if (way == 3) assert_ok(ipu_engine_connect_lender_replica(e, "in", 0, lend, in));
            assert_ok(ipu_engine_run(e, 0));
            for (int i = 0; i < 4; i++) assert_true(out[i] == 2 * in[i]);
        }
        ipu_engine_destroy(e);
    }
}

static void values_go_to_rows_and_back(void **state)
{
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        ipu_graph        *g    = machine_graph(2);
        ipu_tensor        x    = machine_variable(g, IPU_FLOAT, IPU_SHAPE(2, 2), "x");
        ipu_tensor        rows = machine_variable(g, IPU_INT32, IPU_SHAPE(2), "rows");
        ipu_tensor        view = turned ? ipu_tensor_reverse(x, 1) : x;
        ipu_remote_buffer far  = ipu_graph_add_remote_buffer(g, "far", IPU_FLOAT, 2, 3);
        ipu_program       p[2] = {ipu_program_sequence(g), ipu_program_sequence(g)};
        ipu_program_add_remote_write(p[0], view, far, rows);
        ipu_program_add_remote_read(p[1], far, rows, view);
        ipu_engine *e = start_with(g, p, 2, NULL);
        float       row[2];
        assert_ok(ipu_engine_write(e, "x", (float[]){1, 2, 3, 4}, 16));
        assert_ok(ipu_engine_write(e, "rows", (int32_t[]){2, 0}, 8));
        assert_ok(ipu_engine_run(e, 0));
        assert_ok(ipu_engine_read_remote(e, "far", 1, 2, row, sizeof row));
        assert_true(row[turned] == 1 && row[1 - turned] == 2);
        assert_ok(ipu_engine_write(e, "rows", (int32_t[]){0, 2}, 8));
        assert_ok(ipu_engine_run(e, 1));
        EXPECT(e, "x", 1, 3, 4, 1, 2);
        assert_ok(ipu_engine_write(e, "rows", (int32_t[]){0, 3}, 8));
        assert_status(ipu_engine_run(e, 1), IPU_ABORTED);
        assert_says("row 3");
        ipu_engine_destroy(e);
    }
}

static void rows_are_the_hosts(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(2);
    ipu_program p = ipu_program_sequence(g);
    float       row[2];
    ipu_graph_add_remote_buffer(g, "far", IPU_FLOAT, 2, 3);
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_write_remote(e, "far", 1, 2, (float[]){8, 9}, 8));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_read_remote(e, "far", 1, 2, row, sizeof row));
    assert_true(row[0] == 8 && row[1] == 9);
    assert_ok(ipu_engine_read_remote(e, "far", 0, 2, row, sizeof row));
    assert_true(row[0] == 0 && row[1] == 0);
    assert_status(ipu_engine_read_remote(e, "far", 0, 3, row, sizeof row), IPU_INVALID);
    ipu_engine_destroy(e);
}

/* ---- control ---- */

static void loops_and_functions_take_their_turns(void **state)
{
    (void)state;
    ipu_graph   *g = machine_graph(1);
    ipu_program  p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_function f = ipu_graph_add_function(g, ticking(g, "tick"), "f");
    ipu_program_add_call(body, f);
    ipu_program_add_repeat(body, 2, ticking(g, "tock"));
    ipu_program_add_repeat(p, 3, body);
    ipu_program_add_call(p, f);
    ipu_engine *e = start(p);
    ticks       t = {0}, u = {0};
    assert_ok(ipu_engine_connect_callback(e, "tick", tick, &t));
    assert_ok(ipu_engine_connect_callback(e, "tock", tick, &u));
    for (int run = 1; run <= 2; run++) {
        assert_ok(ipu_engine_run(e, 0));
        assert_int_equal(t.n, 4 * run);
        assert_int_equal(u.n, 6 * run);
    }
    ipu_engine_destroy(e);
}

static void bodies_all_run_and_the_first_failure_is_told(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(1);
    ipu_program p = ipu_program_sequence(g), bodies[] = {ticking(g, "a"), ticking(g, "b"), ticking(g, "c")};
    ipu_program_add_parallel(p, bodies, 3);
    ipu_engine *e    = start(p);
    ticks       t[3] = {{0}};
    for (int i = 0; i < 3; i++)
        assert_ok(ipu_engine_connect_callback(e, (const char[]){(char)('a' + i), 0}, tick, &t[i]));
    assert_ok(ipu_engine_run(e, 0));
    for (int i = 0; i < 3; i++) assert_int_equal(t[i].n, 1);
    t[1].fails_at = t[2].fails_at = 2;
    t[1].status                   = IPU_IO;
    t[2].status                   = IPU_BUSY;
    assert_status(ipu_engine_run(e, 0), IPU_IO);
    assert_says("\"b\"");
    ipu_engine_destroy(e);
}

static void loops_end(void **state)
{
    (void)state;
    ipu_graph *g    = machine_graph(1);
    ipu_tensor flag = machine_variable(g, IPU_BOOL, IPU_SCALAR, "flag"),
               no   = machine_variable(g, IPU_BOOL, IPU_SCALAR, "no");
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_program_add_copy(body, no, flag);
    ipu_program_add_while_true(p, ipu_program_sequence(g), flag, body);
    ipu_program not_yet = ipu_program_sequence(g);
    ipu_program_add_kernel(not_yet, "logical_not", NULL, 0, (ipu_tensor[]){no, flag}, 2);
    ipu_program_add_while_false(p, ipu_program_sequence(g), flag, not_yet);
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_run(e, 0));
    ipu_engine_destroy(e);
}

static void failures_stop_a_run_and_not_the_next(void **state)
{
    (void)state;
    ipu_graph  *g    = machine_graph(1);
    ipu_program p[2] = {ticking(g, "tick"), ipu_program_sequence(g)};
    ipu_program_add(p[0], p[0]);
    ipu_program_add_error(p[1], "enough", (ipu_tensor){0});
    ipu_engine *e = start_with(g, p, 2, NULL);
    ticks       t = {.fails_at = 1, .status = IPU_IO};
    assert_status(ipu_engine_run(e, 0), IPU_INVALID);
    assert_says("\"tick\" is not connected");
    assert_ok(ipu_engine_connect_callback(e, "tick", tick, &t));
    assert_status(ipu_engine_run(e, 0), IPU_IO);
    assert_int_equal(t.n, 1);
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(t.n, 3);
    t.interrupts = e;
    assert_status(ipu_engine_run(e, 0), IPU_INTERRUPTED);
    assert_int_equal(t.n, 4);
    t.interrupts = NULL;
    assert_ok(ipu_engine_run(e, 0));
    assert_status(ipu_engine_run(e, 1), IPU_ABORTED);
    assert_says("enough");
    assert_status(ipu_engine_run(e, 2), IPU_INVALID);
    ipu_engine_destroy(e);
}

/* ---- what is told of it ---- */

static void counters_count(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(1);
    ipu_program p = doubling(g, false);
    ipu_program_add_copy(p, floats(g, 4, "a"), floats(g, 4, "b"));
    ipu_engine         *e = start(p);
    ipu_engine_counters c;
    float               data[4] = {0};
    assert_ok(ipu_engine_connect_stream(e, "in", data, sizeof data));
    assert_ok(ipu_engine_connect_stream(e, "out", data, sizeof data));
    for (int i = 0; i < 3; i++) assert_ok(ipu_engine_run(e, 0));
    ipu_engine_get_counters(e, &c);
    assert_int_equal(c.runs, 3);
    assert_int_equal(c.supersteps, 3);
    assert_int_equal(c.streamed_bytes, 3 * 2 * 16);
    assert_int_equal(c.copied_bytes, 3 * 16);
    assert_int_equal(c.threads, 2);
    assert_string_equal(ipu_engine_name(e), tested->name);
    ipu_engine_destroy(e);
}

static void kernels_are_listed(void **state)
{
    (void)state;
    ipu_engine        *e = start(doubling(machine_graph(1), false));
    ipu_engine_kernel  k;
    ipu_engine_operand o;
    assert_true(ipu_engine_kernel_at(e, 0, &k));
    assert_string_equal(k.name, "add");
    assert_true(k.implementation && k.n_parts >= 1 && k.n_chunks >= 1 && k.operations > 0);
    assert_int_equal(k.n_operands, 3);
    assert_true(ipu_engine_operand_at(e, 0, 2, &o));
    assert_true(o.is_output && o.type == IPU_FLOAT && o.shape.dim[0] == 4 && o.layout);
    assert_false(ipu_engine_kernel_at(e, 1, &k));
    assert_false(ipu_engine_operand_at(e, 0, 3, &o));
    ipu_engine_destroy(e);
}

static void steps_are_measured(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(1);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_repeat(p, 5, ticking(g, "tick"));
    ipu_engine    *e = start_with(g, &p, 1, "profile");
    ticks          t = {0};
    ipu_step_time *times;
    size_t         n;
    int64_t        runs = 0;
    assert_ok(ipu_engine_connect_callback(e, "tick", tick, &t));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_step_times(e, &times, &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(times[i].kind, "write") == 0) runs += times[i].runs;
    assert_int_equal(runs, 5);
    ipu_free(times);
    ipu_engine_destroy(e);
}

static void names_are_checked(void **state)
{
    (void)state;
    ipu_engine *e = start(doubling(machine_graph(1), false));
    float       x[5];
    assert_status(ipu_engine_read(e, "z", x, 16), IPU_NOT_FOUND);
    assert_status(ipu_engine_read(e, "x", x, 20), IPU_INVALID);
    assert_status(ipu_engine_read_replica(e, "x", 1, x, 16), IPU_INVALID);
    assert_status(ipu_engine_connect_stream(e, "inn", x, 16), IPU_NOT_FOUND);
    assert_says("did you mean \"in\"");
    ipu_engine_destroy(e);
}

static void checking_mode_is_an_engines_own(void **state)
{
    (void)state;
    ipu_graph      *g = machine_graph(1);
    ipu_program     p = ipu_program_sequence(g);
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_ok(ipu_options_create(&options));
    assert_ok(ipu_options_set(options, "check", "true"));
    assert_ok(ipu_executable_compile(g, &p, 1, options, &exe));
    ipu_status status = ipu__engine_create(tested, exe, options, NULL, &e);
    if (tested->checks) {
        assert_ok(status);
        assert_ok(ipu_engine_run(e, 0));
        ipu_engine_destroy(e);
    } else {
        assert_status(status, IPU_UNSUPPORTED);
        assert_says("has no checking mode");
        assert_null(e);
    }
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    ipu_graph_destroy(g);
}

static void a_child_cannot_use_it(void **state)
{
    (void)state;
    ipu_graph  *g = machine_graph(1);
    ipu_engine *e = start(ipu_program_sequence(g));
    int         status;
    pid_t       child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(ipu_engine_run(e, 0) == IPU_FORKED ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(ipu_engine_run(e, 0));
    ipu_engine_destroy(e);
}

/* ---- the suite ---- */

#define CASE(name)  \
    {               \
#name, name \
    }
static const struct {
    const char *name;
    void (*run)(void **state);
} cases[] = {
    CASE(value_written_is_read),
    CASE(value_of_a_view_is_in_its_order),
    CASE(values_are_copied_computed_and_kept),
    CASE(values_at_the_start_are_those_of_the_graph),
    CASE(values_of_replicas_meet),
    CASE(values_decide_what_runs),
    CASE(value_may_abort),
    CASE(values_stream_any_way),
    CASE(values_go_to_rows_and_back),
    CASE(rows_are_the_hosts),
    CASE(loops_and_functions_take_their_turns),
    CASE(bodies_all_run_and_the_first_failure_is_told),
    CASE(loops_end),
    CASE(failures_stop_a_run_and_not_the_next),
    CASE(counters_count),
    CASE(kernels_are_listed),
    CASE(steps_are_measured),
    CASE(names_are_checked),
    CASE(checking_mode_is_an_engines_own),
    CASE(a_child_cannot_use_it),
};
enum { N_CASES = sizeof cases / sizeof *cases, MOST = 8 * N_CASES };

static const char *why_not(const char *engine, const char *name)
{
    for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
        if (strcmp(engine, excluded[i].engine) == 0 && strstr(name, excluded[i].part))
            return excluded[i].reason;
    return NULL;
}

static int choose(void **state)
{
    tested = *state;
    return 0;
}

static void is_excluded(void **state)
{
    (void)state;
    skip();
}

static size_t add_cases(const ipu__engine_def *def, struct CMUnitTest *tests, size_t n)
{
    static char names[MOST][96];
    for (size_t i = 0; i < N_CASES; i++, n++) {
        const char *reason = why_not(def->name, cases[i].name);
        assert_true(n < MOST);
        snprintf(names[n], sizeof names[n], "%s_%s", def->name, cases[i].name);
        if (reason) printf("%s is excluded: %s\n", names[n], reason);
        tests[n] = (struct CMUnitTest){names[n], reason ? is_excluded : cases[i].run, choose, NULL,
                                       (void *)(uintptr_t)def};
    }
    return n;
}

int main(void)
{
    static struct CMUnitTest tests[MOST];
    size_t                   n = 0;
    bare                       = (ipu__engine_def){.name    = "bare",
                                                   .summary = "the CPU's, with what is required and no more",
                                                   .create  = ipu__cpu_engine.create,
                                                   .destroy = ipu__cpu_engine.destroy,
                                                   .execute = ipu__cpu_engine.execute,
                                                   .kernel  = ipu__cpu_engine.kernel,
                                                   .move    = ipu__cpu_engine.move,
                                                   .reduce  = ipu__cpu_engine.reduce,
                                                   .write   = ipu__cpu_engine.write,
                                                   .read    = ipu__cpu_engine.read,
                                                   .peek    = ipu__cpu_engine.peek};
    for (int i = 0; ipu__engines[i]; i++) n = add_cases(ipu__engines[i], tests, n);
    n = add_cases(&bare, tests, n);
    return _cmocka_run_group_tests("engine_cts", tests, n, NULL, NULL);
}
