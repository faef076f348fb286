/* Streams, remote buffers, printing, options and the progress of a compile, as a user meets them. */
#include "support/machine.h"

#include <stdalign.h>

/* A program that reads the stream "in" of 3 floats to "x", doubles it, and writes the stream "out". */
static ipu_program echo_program(int64_t n_replicas, ipu_stream_mode mode)
{
    ipu_graph *g    = machine_graph(n_replicas);
    ipu_tensor x    = machine_variable(g, IPU_FLOAT, IPU_SHAPE(3), "x"),
               y    = machine_variable(g, IPU_FLOAT, IPU_SHAPE(3), "y");
    ipu_stream  in  = ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 3, mode);
    ipu_stream  out = ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, 3);
    ipu_program p   = ipu_program_sequence(g);
    ipu_program_add_read(p, in, ipu_tensor_reverse(x, 0));
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){x, x, y}, 3);
    ipu_program_add_write(p, y, out);
    return p;
}

/* ---- streams ---- */

static void a_ring_begins_again_after_its_last_transfer(void **state)
{
    (void)state;
    ipu_engine *e      = machine_start(echo_program(1, IPU_STREAM_REPLICATE));
    float       in[6]  = {1, 2, 3, 10, 20, 30};
    float       out[9] = {0};
    assert_ok(ipu_engine_connect_stream(e, "in", in, sizeof in));
    assert_ok(ipu_engine_connect_stream(e, "out", out, sizeof out));
    for (int i = 0; i < 4; i++) assert_ok(ipu_engine_run(e, 0));
    /* The fourth went over the first. */
    assert_memory_equal(out, ((float[]){60, 40, 20, 60, 40, 20, 6, 4, 2}), sizeof out);
    ipu_engine_destroy(e);
}

static void each_replica_has_a_connection_of_its_own(void **state)
{
    (void)state;
    ipu_engine *e        = machine_start(echo_program(2, IPU_STREAM_REPLICATE));
    float       in[2][3] = {{1, 2, 3}, {4, 5, 6}}, out[2][3] = {{0}};
    for (int64_t r = 0; r < 2; r++) {
        assert_ok(ipu_engine_connect_stream_replica(e, "in", r, in[r], sizeof in[r]));
        assert_ok(ipu_engine_connect_stream_replica(e, "out", r, out[r], sizeof out[r]));
    }
    assert_ok(ipu_engine_run(e, 0));
    assert_memory_equal(out, ((float[]){6, 4, 2, 12, 10, 8}), sizeof out);
    assert_status(ipu_engine_connect_stream_replica(e, "in", 2, in[0], sizeof in[0]), IPU_INVALID);
    assert_says("replica 2");
    ipu_engine_destroy(e);
}

static void a_broadcast_gives_all_replicas_one_transfer(void **state)
{
    (void)state;
    ipu_engine *e     = machine_start(echo_program(2, IPU_STREAM_BROADCAST));
    float       in[6] = {1, 2, 3, 4, 5, 6}, out[2][3] = {{0}};
    assert_ok(ipu_engine_connect_stream(e, "in", in, sizeof in));
    for (int64_t r = 0; r < 2; r++)
        assert_ok(ipu_engine_connect_stream_replica(e, "out", r, out[r], sizeof out[r]));
    assert_ok(ipu_engine_run(e, 0));
    assert_memory_equal(out, ((float[]){6, 4, 2, 6, 4, 2}), sizeof out);
    assert_ok(ipu_engine_run(e, 0));
    assert_memory_equal(out, ((float[]){12, 10, 8, 12, 10, 8}), sizeof out);
    ipu_engine_destroy(e);
}

static ipu_status refuse_third(void *user, void *data, size_t bytes)
{
    int *calls = user;
    memset(data, 0, bytes);
    return ++*calls == 3 ? IPU_IO : IPU_OK;
}

static void a_callback_that_fails_stops_the_run_with_its_status(void **state)
{
    (void)state;
    ipu_engine *e     = machine_start(echo_program(1, IPU_STREAM_REPLICATE));
    int         calls = 0;
    float       out[3];
    assert_ok(ipu_engine_connect_callback(e, "in", refuse_third, &calls));
    assert_ok(ipu_engine_connect_stream(e, "out", out, sizeof out));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_run(e, 0));
    assert_status(ipu_engine_run(e, 0), IPU_IO);
    assert_says("\"in\"");
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(calls, 4);
    ipu_engine_destroy(e);
}

/* Large enough for all threads to share it, and no whole number of lines. */
enum { LENT = 50001 };

typedef struct lender {
    const float *data;
    int          calls;
} lender;

static const void *lend_twice(void *user, size_t bytes)
{
    lender *l = user;
    assert_int_equal(bytes, LENT * sizeof(float));
    return l->calls++ < 2 ? l->data + l->calls : NULL;
}

static void memory_that_is_lent_is_read_where_it_lies(void **state)
{
    (void)state;
    static float data[LENT + 2], x[LENT];
    for (int i = 0; i < LENT + 2; i++) data[i] = (float)i;
    ipu_graph  *g = machine_graph(1);
    ipu_tensor  t = machine_variable(g, IPU_FLOAT, IPU_SHAPE(LENT), "x");
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_read(p, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, LENT, IPU_STREAM_REPLICATE), t);
    ipu_program_add_write(p, t, ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, LENT));
    ipu_engine *e = machine_start(p);
    lender      l = {data, 0};
    assert_ok(ipu_engine_connect_lender_replica(e, "in", 0, lend_twice, &l));
    assert_ok(ipu_engine_connect_stream(e, "out", x, sizeof x));
    for (int run = 1; run <= 2; run++) {
        assert_ok(ipu_engine_run(e, 0));
        assert_memory_equal(x, data + run, sizeof x);
    }
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("\"in\": its callback lent nothing");
    assert_status(ipu_engine_connect_lender_replica(e, "out", 0, lend_twice, &l), IPU_INVALID);
    assert_says("to the host");
    assert_status(ipu_engine_connect_lender_replica(e, "in", 0, NULL, NULL), IPU_INVALID);
    ipu_engine_destroy(e);
}

typedef struct placer {
    float *data;
    int    calls;
} placer;

/* Every other transfer is wanted. */
static void *place_some(void *user, size_t bytes)
{
    placer *p = user;
    assert_int_equal(bytes, LENT * sizeof(float));
    return p->calls++ % 2 == 0 ? p->data + p->calls : NULL;
}

static void results_go_to_memory_that_is_named(void **state)
{
    (void)state;
    static float data[LENT], x[LENT + 4];
    for (int i = 0; i < LENT; i++) data[i] = (float)i;
    ipu_graph  *g = machine_graph(1);
    ipu_tensor  t = machine_variable(g, IPU_FLOAT, IPU_SHAPE(LENT), "x");
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_read(p, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, LENT, IPU_STREAM_REPLICATE), t);
    ipu_program_add_write(p, t, ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, LENT));
    ipu_engine *e  = machine_start(p);
    placer      to = {x, 0};
    assert_ok(ipu_engine_connect_stream(e, "in", data, sizeof data));
    assert_ok(ipu_engine_connect_place_replica(e, "out", 0, place_some, &to));
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < LENT + 4; i++) x[i] = -1;
        assert_ok(ipu_engine_run(e, 0));
        assert_int_equal(to.calls, run + 1);
        if (run == 1) {
            for (int i = 0; i < LENT + 4; i++) assert_true(x[i] == -1);
            continue;
        }
        assert_memory_equal(x + run + 1, data, sizeof data);
        assert_true(x[run] == -1 && x[run + 1 + LENT] == -1);
    }
    assert_status(ipu_engine_connect_place_replica(e, "in", 0, place_some, &to), IPU_INVALID);
    assert_says("to the device");
    assert_status(ipu_engine_connect_place_replica(e, "out", 0, NULL, NULL), IPU_INVALID);
    ipu_engine_destroy(e);
}

/* Data that change after they were lent: what was copied before does not. */
typedef struct changing {
    float *data;
    int    first; /* element that is lent first */
} changing;

static const void *lend_some(void *user, size_t bytes)
{
    const changing *c = user;
    assert_int_equal(bytes, 4 * sizeof(float));
    return c->data + c->first;
}

static ipu_status change(void *user, void *data, size_t bytes)
{
    changing *c = user;
    memset(data, 0, bytes);
    for (int i = 0; i < 8; i++) c->data[i] += 100;
    return IPU_OK;
}

static ipu_status give_fives(void *user, void *data, size_t bytes)
{
    (void)user;
    for (size_t i = 0; i < bytes / sizeof(float); i++) ((float *)data)[i] = 5;
    return IPU_OK;
}

/* Reads "in" to x, lets "tick" change what lies there, and negates x: in the same program, or in a second one. */
static ipu_engine *start_changing(int n_programs, bool is_seen)
{
    ipu_graph *g = machine_graph(1);
    ipu_tensor x = is_seen ? machine_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x")
                           : ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x"),
               t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1), "t"),
               y = machine_variable(g, IPU_FLOAT, IPU_SHAPE(4), "y");
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, t, 0);
    ipu_program p[2] = {ipu_program_sequence(g), ipu_program_sequence(g)};
    ipu_program_add_read(p[0], ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 4, IPU_STREAM_REPLICATE), x);
    ipu_program_add_read(p[0], ipu_graph_add_host_to_device(g, "tick", IPU_FLOAT, 1, IPU_STREAM_REPLICATE),
                         t);
    ipu_program_add_kernel(p[n_programs - 1], "neg", NULL, 0, (ipu_tensor[]){x, y}, 2);
    ipu_executable *exe = machine_compile(g, p, (size_t)n_programs);
    ipu_engine     *e   = machine_engine(exe, "2");
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return e;
}

static void expect_first(ipu_engine *e, int n_programs, float first)
{
    float y[4];
    for (int i = 0; i < n_programs; i++) assert_ok(ipu_engine_run(e, (size_t)i));
    assert_ok(ipu_engine_read(e, "y", y, sizeof y));
    for (int i = 0; i < 4; i++) assert_true(y[i] == -(first + (float)i));
}

static void kernels_read_lent_memory_in_place(void **state)
{
    (void)state;
    alignas(64) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    float             fives[4];
    changing          c = {data, 0};
    ipu_engine       *e = start_changing(1, false);
    assert_ok(ipu_engine_connect_lender_replica(e, "in", 0, lend_some, &c));
    assert_ok(ipu_engine_connect_callback(e, "tick", change, &c));
    expect_first(e, 1, 100); /* as it was when the kernel ran */
    c.first = 4;
    expect_first(e, 1, 204);
    c.first = 1; /* no place for a kernel to read from: copied, and changed later */
    expect_first(e, 1, 201);
    c.first = 0;
    expect_first(e, 1, 400);
    assert_ok(ipu_engine_connect_callback(e, "in", give_fives, NULL));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_read(e, "y", fives, sizeof fives));
    for (int i = 0; i < 4; i++) assert_true(fives[i] == -5);
    ipu_engine_destroy(e);
}

/* The host may look at it later, or another program needs it, when nothing is lent any more. */
static void what_is_needed_after_a_run_is_copied(void **state)
{
    (void)state;
    for (int n_programs = 1; n_programs <= 2; n_programs++) {
        alignas(64) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
        changing          c       = {data, 0};
        ipu_engine       *e       = start_changing(n_programs, n_programs == 1);
        assert_ok(ipu_engine_connect_lender_replica(e, "in", 0, lend_some, &c));
        assert_ok(ipu_engine_connect_callback(e, "tick", change, &c));
        expect_first(e, n_programs, 0);
        expect_first(e, n_programs, 100);
        ipu_engine_destroy(e);
    }
}

static const void *lend_in_turn(void *user, size_t bytes)
{
    changing *c = user;
    c->first += 4;
    assert_int_equal(bytes, 4 * sizeof(float));
    return c->data + c->first - 4;
}

/* A program that is part of another in two places has its READ twice: each brings what comes after it its own. */
static void a_read_in_two_places_serves_both(void **state)
{
    (void)state;
    alignas(64) float data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    float             found[4];
    changing          c = {data, 0};
    ipu_graph        *g = machine_graph(1);
    ipu_tensor        x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x"),
               y[2]     = {machine_variable(g, IPU_FLOAT, IPU_SHAPE(4), "y0"),
                           machine_variable(g, IPU_FLOAT, IPU_SHAPE(4), "y1")};
    ipu_program read = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_program_add_read(read, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 4, IPU_STREAM_REPLICATE), x);
    for (int i = 0; i < 2; i++) {
        ipu_program_add(p, read);
        ipu_program_add_kernel(p, "neg", NULL, 0, (ipu_tensor[]){x, y[i]}, 2);
    }
    ipu_engine *e = machine_start(p);
    assert_ok(ipu_engine_connect_lender_replica(e, "in", 0, lend_in_turn, &c));
    assert_ok(ipu_engine_run(e, 0));
    c.first = 0;
    assert_ok(ipu_engine_run(e, 0));
    for (int i = 0; i < 2; i++) {
        assert_ok(ipu_engine_read(e, i == 0 ? "y0" : "y1", found, sizeof found));
        for (int k = 0; k < 4; k++) assert_true(found[k] == -(float)(4 * i + k));
    }
    ipu_engine_destroy(e);
}

static ipu_status interrupt_from_callback(void *user, void *data, size_t bytes)
{
    memset(data, 0, bytes);
    ipu_engine_interrupt(*(ipu_engine **)user);
    return IPU_OK;
}

static void a_callback_may_interrupt_its_engine(void **state)
{
    (void)state;
    ipu_engine *e      = machine_start(echo_program(1, IPU_STREAM_REPLICATE));
    float       out[3] = {-1, -1, -1};
    assert_ok(ipu_engine_connect_callback(e, "in", interrupt_from_callback, &e));
    assert_ok(ipu_engine_connect_stream(e, "out", out, sizeof out));
    assert_status(ipu_engine_run(e, 0), IPU_INTERRUPTED);
    assert_true(out[0] == -1);
    ipu_engine_destroy(e);
}

static void streams_are_checked_before_anything_runs(void **state)
{
    (void)state;
    ipu_engine *e     = machine_start(echo_program(1, IPU_STREAM_REPLICATE));
    float       in[7] = {0}, out[3], x[3] = {5, 5, 5};
    assert_ok(ipu_engine_write(e, "x", x, sizeof x));
    assert_ok(ipu_engine_connect_stream(e, "in", in, 12));
    assert_status(ipu_engine_run(e, 0), IPU_INVALID);
    assert_says("\"out\"");
    assert_ok(ipu_engine_read(e, "x", x, sizeof x));
    assert_true(x[0] == 5 && x[2] == 5);
    assert_status(ipu_engine_connect_stream(e, "out", out, 16), IPU_INVALID);
    assert_says("\"out\"");
    assert_says("12");
    assert_says("16");
    assert_status(ipu_engine_connect_stream(e, "out", out, 0), IPU_INVALID);
    assert_status(ipu_engine_connect_stream(e, "out", NULL, 12), IPU_INVALID);
    assert_status(ipu_engine_connect_callback(e, "out", NULL, NULL), IPU_INVALID);
    assert_status(ipu_engine_connect_stream(e, "outt", out, 12), IPU_NOT_FOUND);
    assert_says("\"outt\"");
    assert_says("\"out\"");
    ipu_engine_destroy(e);
}

/* ---- remote buffers ---- */

/* Program 0 writes rows "rows" of "far" from "x", program 1 reads them. */
static ipu_engine *remote_machine(int64_t n_replicas)
{
    ipu_graph        *g    = machine_graph(n_replicas);
    ipu_tensor        x    = machine_variable(g, IPU_INT16, IPU_SHAPE(2, 4), "x");
    ipu_tensor        rows = machine_variable(g, IPU_INT32, IPU_SHAPE(2), "rows");
    ipu_remote_buffer far  = ipu_graph_add_remote_buffer(g, "far", IPU_INT16, 4, 3);
    ipu_program       p[]  = {ipu_program_sequence(g), ipu_program_sequence(g)};
    ipu_program_add_remote_write(p[0], x, far, rows);
    ipu_program_add_remote_read(p[1], far, rows, x);
    ipu_executable *exe = machine_compile(g, p, 2);
    ipu_engine     *e   = machine_engine(exe, "1");
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return e;
}

static void rows_go_where_the_row_numbers_say(void **state)
{
    (void)state;
    ipu_engine *e    = remote_machine(1);
    int16_t     x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, row[4];
    assert_ok(ipu_engine_write(e, "x", x, sizeof x));
    assert_ok(ipu_engine_write(e, "rows", (int32_t[]){2, 0}, 8));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_read_remote(e, "far", 0, 2, row, sizeof row));
    assert_memory_equal(row, x, sizeof row);
    assert_ok(ipu_engine_read_remote(e, "far", 0, 1, row, sizeof row));
    assert_memory_equal(row, ((int16_t[4]){0}), sizeof row);
    assert_ok(ipu_engine_write_remote(e, "far", 0, 1, (int16_t[]){9, 9, 9, 9}, 8));
    assert_ok(ipu_engine_write(e, "rows", (int32_t[]){1, 0}, 8));
    assert_ok(ipu_engine_run(e, 1));
    assert_ok(ipu_engine_read(e, "x", x, sizeof x));
    assert_memory_equal(x, ((int16_t[]){9, 9, 9, 9, 5, 6, 7, 8}), sizeof x);
    ipu_engine_destroy(e);
}

static void a_row_out_of_range_stops_the_run(void **state)
{
    (void)state;
    const int32_t wrong[] = {3, -1, INT32_MIN, INT32_MAX};
    ipu_engine   *e       = remote_machine(1);
    for (int i = 0; i < 8; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", wrong[i % 4]);
        assert_ok(ipu_engine_write(e, "rows", (int32_t[]){0, wrong[i % 4]}, 8));
        assert_status(ipu_engine_run(e, (size_t)i / 4), IPU_ABORTED);
        assert_says("\"far\"");
        assert_says(number);
        assert_says(__FILE__);
    }
    assert_ok(ipu_engine_write(e, "rows", (int32_t[]){0, 2}, 8));
    assert_ok(ipu_engine_run(e, 0));
    ipu_engine_destroy(e);
}

static void rows_of_the_host_are_checked(void **state)
{
    (void)state;
    ipu_engine *e = remote_machine(2);
    int16_t     row[4];
    assert_status(ipu_engine_read_remote(e, "far", 0, 3, row, sizeof row), IPU_INVALID);
    assert_says("\"far\"");
    assert_says("3");
    assert_status(ipu_engine_read_remote(e, "far", 2, 0, row, sizeof row), IPU_INVALID);
    assert_status(ipu_engine_write_remote(e, "far", -1, 0, row, sizeof row), IPU_INVALID);
    assert_status(ipu_engine_write_remote(e, "far", 0, -1, row, sizeof row), IPU_INVALID);
    assert_status(ipu_engine_write_remote(e, "far", 0, 0, row, 6), IPU_INVALID);
    assert_says("6");
    assert_status(ipu_engine_write_remote(e, "fra", 0, 0, row, 8), IPU_NOT_FOUND);
    assert_says("\"far\"");
    ipu_engine_destroy(e);
}

/* ---- printing ---- */

static void keep_text(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)module;
    if (level == IPU_LOG_PRINT) snprintf(user, 500, "%s", text);
}

static void printed_as(ipu_type type, ipu_shape shape, const void *data, const char *title,
                       const char *expected)
{
    char        text[500] = "";
    ipu_graph  *g         = machine_graph(1);
    ipu_program p         = ipu_program_sequence(g);
    ipu_tensor  t         = ipu_graph_add_constant(g, type, shape, data, "constant");
    ipu_graph_set_tile_mapping(g, t, 0);
    ipu_program_add_print(p, title, t);
    ipu_engine *e = machine_start(p);
    ipu_log_set(IPU_LOG_PRINT, keep_text, text);
    assert_ok(ipu_engine_run(e, 0));
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
    assert_string_equal(text, expected);
    ipu_engine_destroy(e);
}

static void tensors_print_in_brackets(void **state)
{
    (void)state;
    ipu_half half[] = {ipu_half_from_float(0.1f), ipu_half_from_float(-2)};
    printed_as(IPU_FLOAT, IPU_SHAPE(2), (float[]){1, 1.5f}, "x", "x: [1.0000000 1.5000000]");
    printed_as(IPU_INT8, IPU_SHAPE(3), (int8_t[]){-128, 0, 127}, NULL, "constant: [-128 0 127]");
    printed_as(IPU_UINT64, IPU_SCALAR, (uint64_t[]){UINT64_MAX}, "big", "big: 18446744073709551615");
    printed_as(IPU_BOOL, IPU_SHAPE(2), (bool[]){true, false}, "b", "b: [1 0]");
    printed_as(IPU_HALF, IPU_SHAPE(2), half, "h", "h: [0.0999756 -2.0000000]");
    printed_as(IPU_INT32, IPU_SHAPE(2, 2), (int32_t[]){1, 2, 3, 4}, "m", "m: [\n [1 2]\n [3 4]\n]");
    printed_as(IPU_INT32, IPU_SHAPE(0), NULL, "none", "none: []");
}

/* ---- options ---- */

static void options_are_checked(void **state)
{
    (void)state;
    ipu_options *o;
    assert_ok(ipu_options_create(&o));
    assert_status(ipu_options_set(o, "thread", "2"), IPU_NOT_FOUND);
    assert_says("\"thread\"");
    assert_says("\"threads\"");
    assert_status(ipu_options_set(o, "threads", "many"), IPU_INVALID);
    assert_says("\"threads\"");
    assert_says("many");
    assert_status(ipu_options_set(o, "threads", "-1"), IPU_INVALID);
    assert_ok(ipu_options_set(o, "threads", "3"));
    assert_string_equal(ipu_options_get(o, "threads"), "3");
    assert_ok(ipu_options_set(o, "debug.instrument", "true"));
    assert_ok(ipu_options_set_json(o, "{\"threads\": 4, \"target.syncMethod\": \"polling\"}"));
    assert_string_equal(ipu_options_get(o, "threads"), "4");
    assert_int_not_equal(ipu_options_set_json(o, "{\"threads\": 5, \"no such key\": 1}"), IPU_OK);
    assert_int_not_equal(ipu_options_set_json(o, "{\"threads\": 5,"), IPU_OK);
    assert_int_not_equal(ipu_options_set_json(o, "[5]"), IPU_OK);
    assert_string_equal(ipu_options_get(o, "threads"), "4");
    assert_null(ipu_options_get(o, "no such key"));
    ipu_options_destroy(o);
    ipu_options_destroy(NULL);
}

static int engine_threads(ipu_executable *exe, const char *threads)
{
    ipu_engine_counters c;
    ipu_engine         *e = machine_engine(exe, threads);
    ipu_engine_get_counters(e, &c);
    ipu_engine_destroy(e);
    return c.threads;
}

static void the_environment_overrides_options(void **state)
{
    (void)state;
    ipu_graph      *g   = machine_graph(1);
    ipu_program     p   = ipu_program_sequence(g);
    ipu_executable *exe = machine_compile(g, &p, 1);
    ipu_engine     *e   = NULL;
    assert_int_equal(engine_threads(exe, "2"), 2);
    setenv("POPLAR_ENGINE_OPTIONS", "{\"threads\": \"3\", \"autoReport.all\": true}", 1);
    assert_int_equal(engine_threads(exe, "2"), 3);
    setenv("IPU_ENGINE_OPTIONS", "{\"threads\": 1}", 1);
    assert_int_equal(engine_threads(exe, "2"), 1);
    setenv("POPLAR_ENGINE_OPTIONS", "{\"threads\": ", 1);
    assert_status(ipu_engine_create(exe, NULL, &e), IPU_INVALID);
    assert_says("POPLAR_ENGINE_OPTIONS");
    unsetenv("POPLAR_ENGINE_OPTIONS");
    unsetenv("IPU_ENGINE_OPTIONS");
    assert_null(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

/* ---- progress ---- */

typedef struct watcher {
    int calls, last, stop_at;
} watcher;

static bool watch(void *user, int done, int total)
{
    watcher *w = user;
    if (done < w->last || done > total) return false;
    w->last = done;
    return ++w->calls != w->stop_at;
}

static void a_compile_tells_its_progress_and_can_be_stopped(void **state)
{
    (void)state;
    watcher         w   = {.stop_at = 0};
    ipu_program     p   = echo_program(1, IPU_STREAM_REPLICATE);
    ipu_executable *exe = NULL;
    ipu_set_compile_progress(watch, &w);
    assert_ok(ipu_executable_compile(p.graph, &p, 1, NULL, &exe));
    ipu_executable_release(exe);
    int calls = w.calls;
    assert_true(calls > 0);
    for (int i = 1; i <= calls; i++) {
        w   = (watcher){.stop_at = i};
        exe = NULL;
        assert_status(ipu_executable_compile(p.graph, &p, 1, NULL, &exe), IPU_INTERRUPTED);
        assert_null(exe);
        assert_int_equal(w.calls, i);
    }
    ipu_set_compile_progress(NULL, NULL);
    assert_ok(ipu_executable_compile(p.graph, &p, 1, NULL, &exe));
    ipu_executable_release(exe);
    ipu_graph_destroy(p.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_begins_again_after_its_last_transfer),
        cmocka_unit_test(each_replica_has_a_connection_of_its_own),
        cmocka_unit_test(a_broadcast_gives_all_replicas_one_transfer),
        cmocka_unit_test(a_callback_that_fails_stops_the_run_with_its_status),
        cmocka_unit_test(memory_that_is_lent_is_read_where_it_lies),
        cmocka_unit_test(results_go_to_memory_that_is_named),
        cmocka_unit_test(kernels_read_lent_memory_in_place),
        cmocka_unit_test(a_read_in_two_places_serves_both),
        cmocka_unit_test(what_is_needed_after_a_run_is_copied),
        cmocka_unit_test(a_callback_may_interrupt_its_engine),
        cmocka_unit_test(streams_are_checked_before_anything_runs),
        cmocka_unit_test(rows_go_where_the_row_numbers_say),
        cmocka_unit_test(a_row_out_of_range_stops_the_run),
        cmocka_unit_test(rows_of_the_host_are_checked),
        cmocka_unit_test(tensors_print_in_brackets),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(the_environment_overrides_options),
        cmocka_unit_test(a_compile_tells_its_progress_and_can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
