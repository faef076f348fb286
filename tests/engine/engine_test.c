/* What an engine promises: values, memory, threads, interruption, forks and the errors of a run.
 *
 * Streams, remote buffers and printing are in streams_test.c.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "support/machine.h"

#define COUNT(F) F(INOUT, int32_t, n) F(STATE, int32_t, by)
IPU_VERTEX(Count, COUNT)
{
    *v->n = (int32_t)((uint32_t)*v->n + (uint32_t)v->by);
    return true;
}

#define SMALLER(F) F(IN, int32_t, n) F(STATE, int32_t, limit)
IPU_VERTEX(Smaller, SMALLER)
{
    return *v->n < v->limit;
}

#define TWICE(F) F(IN_VECTOR, int32_t, from) F(OUT_VECTOR, int32_t, to)
IPU_VERTEX(Twice, TWICE)
{
    for (size_t i = 0; i < v->to.size; i++) v->to.data[i] = (int32_t)(2u * (uint32_t)v->from.data[i] + 1u);
    return true;
}

static ipu_graph *new_graph(int64_t n_replicas)
{
    ipu_graph *g = machine_graph(n_replicas);
    ipu_graph_add_codelet(g, &Count);
    ipu_graph_add_codelet(g, &Smaller);
    ipu_graph_add_codelet(g, &Twice);
    return g;
}

static void add_count(ipu_program p, ipu_tensor n, int by)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(p.graph, "count");
    ipu_vertex      v  = ipu_graph_add_vertex(p.graph, cs, "Count");
    ipu_graph_set_vertex_tile(p.graph, v, 3);
    ipu_vertex_connect(v, "n", n);
    ipu_vertex_set(v, "by", by);
    ipu_program_add_execute(p, cs);
}

static void add_twice(ipu_program p, ipu_tensor from, ipu_tensor to)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(p.graph, "twice");
    ipu_vertex      v  = ipu_graph_add_vertex(p.graph, cs, "Twice");
    ipu_graph_set_vertex_tile(p.graph, v, 1);
    ipu_vertex_connect(v, "from", from);
    ipu_vertex_connect(v, "to", to);
    ipu_program_add_execute(p, cs);
}

/* A program that adds 1 to the int32 "n" `times` times. */
static ipu_program counting_program(int64_t n_replicas, int64_t times)
{
    ipu_graph  *g    = new_graph(n_replicas);
    ipu_tensor  n    = machine_variable(g, IPU_INT32, IPU_SCALAR, "n");
    ipu_program body = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_graph_set_initial_value(g, n, &(int32_t){0});
    add_count(body, n, 1);
    ipu_program_add_repeat(p, times, body);
    return p;
}

/* ---- values ---- */

static void values_persist_from_run_to_run_of_one_engine(void **state)
{
    (void)state;
    ipu_program     p   = counting_program(1, 10);
    ipu_executable *exe = machine_compile(p.graph, &p, 1);
    ipu_engine     *a = machine_engine(exe, "1"), *b = machine_engine(exe, "2");
    for (int i = 0; i < 3; i++) assert_ok(ipu_engine_run(a, 0));
    assert_int_equal(machine_read_int(a, "n"), 30);
    assert_int_equal(machine_read_int(b, "n"), 0);
    assert_ok(ipu_engine_write(b, "n", &(int32_t){7}, 4));
    assert_ok(ipu_engine_run(b, 0));
    assert_int_equal(machine_read_int(b, "n"), 17);
    ipu_engine_destroy(a);
    ipu_engine_destroy(b);
    ipu_executable_release(exe);
    ipu_graph_destroy(p.graph);
}

/* Runs by itself, before all others, cannot be asked for, and travels with the executable. */
static void an_engine_begins_with_the_start_program(void **state)
{
    (void)state;
    ipu_program     p = counting_program(1, 10), start = ipu_program_sequence(p.graph);
    ipu_tensor      n = ipu_graph_variable_at(p.graph, 0);
    int32_t         value;
    void           *data;
    size_t          bytes;
    ipu_executable *exe, *loaded;
    ipu_engine     *e;
    add_count(start, n, 1000);
    ipu_graph_add_start(p.graph, start);
    ipu_graph_add_start(p.graph, start);
    assert_int_equal(ipu_executable_compile(p.graph, &p, 1, NULL, &exe), IPU_OK);
    assert_int_equal(ipu_executable_n_programs(exe), 1);
    assert_int_equal(ipu_executable_serialise(exe, &data, &bytes), IPU_OK);
    assert_int_equal(ipu_executable_deserialise(
                         data, bytes, (const ipu_codelet *[]){&Count, &Smaller, &Twice}, 3, NULL, &loaded),
                     IPU_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ipu_engine_create(i ? loaded : exe, NULL, &e), IPU_OK);
        assert_int_equal(ipu_engine_run(e, 1), IPU_INVALID);
        assert_int_equal(ipu_engine_read(e, "n", &value, sizeof value), IPU_OK);
        assert_int_equal(value, 2000);
        assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
        assert_int_equal(ipu_engine_read(e, "n", &value, sizeof value), IPU_OK);
        assert_int_equal(value, 2010);
        ipu_engine_destroy(e);
    }
    ipu_free(data);
    ipu_executable_release(exe);
    ipu_executable_release(loaded);
    ipu_graph_destroy(p.graph);
}

static void an_executable_outlives_its_graph(void **state)
{
    (void)state;
    ipu_program     p   = counting_program(1, 4);
    ipu_executable *exe = machine_compile(p.graph, &p, 1);
    ipu_graph_destroy(p.graph);
    assert_int_equal(ipu_executable_n_programs(exe), 1);
    assert_ptr_equal(ipu_executable_retain(exe), exe);
    ipu_executable_release(exe);
    ipu_engine *e = machine_engine(exe, "2");
    ipu_executable_release(exe);
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(machine_read_int(e, "n"), 4);
    ipu_engine_destroy(e);
}

static void programs_share_variables_and_run_by_number(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph(1);
    ipu_tensor  n    = machine_variable(g, IPU_INT32, IPU_SCALAR, "n");
    ipu_program p[2] = {ipu_program_sequence(g), ipu_program_sequence(g)};
    ipu_graph_set_initial_value(g, n, &(int32_t){100});
    add_count(p[0], n, 1);
    add_count(p[1], n, 10);
    ipu_executable *exe = machine_compile(g, p, 2);
    ipu_engine     *e   = machine_engine(exe, "1");
    assert_ok(ipu_engine_run(e, 1));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_run(e, 1));
    assert_int_equal(machine_read_int(e, "n"), 121);
    assert_status(ipu_engine_run(e, 2), IPU_INVALID);
    assert_says("2");
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void replicas_have_values_of_their_own(void **state)
{
    (void)state;
    ipu_graph *g  = new_graph(4);
    ipu_tensor n  = machine_variable(g, IPU_UINT32, IPU_SCALAR, "n"),
               i  = ipu_graph_add_replication_index(g, "i");
    ipu_program p = ipu_program_sequence(g);
    ipu_graph_set_tile_mapping(g, i, 2);
    ipu_program_add_copy(p, i, n);
    ipu_engine *e = machine_start(p);
    assert_ok(ipu_engine_write(e, "n", &(uint32_t){77}, 4));
    uint32_t value = 0;
    assert_ok(ipu_engine_read_replica(e, "n", 3, &value, 4));
    assert_int_equal(value, 77);
    assert_ok(ipu_engine_run(e, 0));
    for (uint32_t r = 0; r < 4; r++) {
        assert_ok(ipu_engine_read_replica(e, "n", r, &value, 4));
        assert_int_equal(value, r);
    }
    assert_status(ipu_engine_read_replica(e, "n", 4, &value, 4), IPU_INVALID);
    assert_status(ipu_engine_write_replica(e, "n", -1, &value, 4), IPU_INVALID);
    ipu_engine_destroy(e);
}

/* ---- memory ---- */

static void a_chain_of_temporaries_shares_memory(void **state)
{
    (void)state;
    enum { LENGTH = 50, ELEMENTS = 1 << 18 }; /* of 1 MiB each */
    ipu_graph  *g   = new_graph(1);
    ipu_program p   = ipu_program_sequence(g);
    ipu_tensor  x   = machine_variable(g, IPU_INT32, IPU_SCALAR, "x"),
               y    = machine_variable(g, IPU_INT32, IPU_SCALAR, "y");
    ipu_tensor last = {g, 0};
    for (int i = 0; i < LENGTH; i++) {
        ipu_tensor t = ipu_graph_add_variable(g, IPU_INT32, IPU_SHAPE(ELEMENTS), "temporary");
        ipu_graph_map_linearly(g, t);
        if (i == 0)
            ipu_program_add_copy(p, ipu_tensor_broadcast(ipu_tensor_flatten(x), ELEMENTS, 0), t);
        else
            add_twice(p, last, t);
        last = t;
    }
    ipu_program_add_copy(p, ipu_tensor_at(last, (int64_t[]){ELEMENTS - 1}, 1), y);
    ipu_executable *exe = machine_compile(g, &p, 1);
    int64_t         planned, unshared;
    ipu_executable_memory(exe, &planned, &unshared);
    assert_true(unshared >= (int64_t)LENGTH << 20);
    assert_in_range(planned, 2 << 20, (4 << 20) - 1);
    ipu_engine *e = machine_engine(exe, "2");
    assert_ok(ipu_engine_write(e, "x", &(int32_t){0}, 4));
    assert_ok(ipu_engine_run(e, 0));
    uint32_t expected = 0; /* 2^49 - 1, which wraps */
    for (int i = 1; i < LENGTH; i++) expected = 2 * expected + 1;
    assert_int_equal((uint32_t)machine_read_int(e, "y"), expected);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static atomic_int n_allocations;

static void *counting_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    atomic_fetch_add(&n_allocations, 1);
    return realloc(ptr, new_bytes);
}

/* Loops, branches, calls, gathers, copies, streams and kernels. */
static ipu_program busy_program(void)
{
    ipu_program p          = counting_program(1, 3);
    ipu_graph  *g          = p.graph;
    ipu_tensor  x          = machine_variable(g, IPU_INT32, IPU_SHAPE(6, 4), "x"),
               y           = machine_variable(g, IPU_INT32, IPU_SHAPE(4, 6), "y");
    ipu_tensor        f    = machine_variable(g, IPU_INT32, IPU_SCALAR, "f");
    ipu_stream        in   = ipu_graph_add_host_to_device(g, "in", IPU_INT32, 24, IPU_STREAM_REPLICATE);
    ipu_stream        out  = ipu_graph_add_device_to_host(g, "out", IPU_INT32, 24);
    ipu_remote_buffer far  = ipu_graph_add_remote_buffer(g, "far", IPU_INT32, 24, 2);
    ipu_program       body = ipu_program_sequence(g), none = {g, 0};
    ipu_program_add_read(body, in, ipu_tensor_transpose(x));
    add_twice(body, ipu_tensor_transpose(x), ipu_tensor_reverse(y, 0));
    ipu_program_add_copy(body, ipu_tensor_transpose(y), x);
    ipu_program_add_kernel(body, "add", NULL, 0, (ipu_tensor[]){x, ipu_tensor_transpose(y), x}, 3);
    ipu_program_add_remote_write(body, y, far, (ipu_tensor){g, 0});
    ipu_program_add_write(body, ipu_tensor_transpose(y), out);
    ipu_program_add_call(p, ipu_graph_add_function(g, body, "body"));
    ipu_program_add_if(p, f, body, none);
    ipu_program_add_switch(p, f, (ipu_switch_case[]){{0, body}, {1, none}}, 2, body);
    return p;
}

static void a_run_does_not_allocate(void **state)
{
    (void)state;
    int32_t in[24] = {0}, out[48];
    ipu__alloc_set(counting_alloc, NULL);
    ipu_engine *e = machine_start(busy_program());
    assert_true(atomic_load(&n_allocations) > 0);
    assert_ok(ipu_engine_connect_stream(e, "in", in, sizeof in));
    assert_ok(ipu_engine_connect_stream(e, "out", out, sizeof out));
    assert_ok(ipu_engine_write(e, "f", &(int32_t){0}, 4));
    atomic_store(&n_allocations, 0);
    for (int i = 0; i < 20; i++) assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(atomic_load(&n_allocations), 0);
    ipu_engine_destroy(e);
    ipu__alloc_set(NULL, NULL);
}

/* ---- threads ---- */

static void *run_many(void *engine)
{
    for (int i = 0; i < 200; i++)
        if (ipu_engine_run(engine, 0) != IPU_OK) return "failed";
    return NULL;
}

static void engines_run_side_by_side(void **state)
{
    (void)state;
    enum { N = 4 };
    ipu_program     p   = counting_program(1, 10);
    ipu_executable *exe = machine_compile(p.graph, &p, 1);
    ipu_engine     *engines[N];
    pthread_t       threads[N];
    ipu_graph_destroy(p.graph);
    for (int i = 0; i < N; i++) engines[i] = machine_engine(exe, i % 2 ? "2" : "1");
    ipu_executable_release(exe);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_many, engines[i]), 0);
    for (int i = 0; i < N; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
        assert_int_equal(machine_read_int(engines[i], "n"), 2000);
        ipu_engine_destroy(engines[i]);
    }
}

/* Asserts only after joining: a failed one must not leave a thread of its own. */
static void *build_and_run(void *result)
{
    ipu_executable *exe = NULL;
    ipu_engine     *e   = NULL;
    int32_t         n   = 0;
    ipu_program     p   = counting_program(1, 25);
    if (ipu_executable_compile(p.graph, &p, 1, NULL, &exe) == IPU_OK
        && ipu_engine_create(exe, NULL, &e) == IPU_OK && ipu_engine_run(e, 0) == IPU_OK
        && ipu_engine_read(e, "n", &n, sizeof n) == IPU_OK)
        *(int32_t *)result = n;
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(p.graph);
    return NULL;
}

static void graphs_are_built_and_compiled_side_by_side(void **state)
{
    (void)state;
    enum { N = 4 };
    pthread_t threads[N];
    int32_t   results[N] = {0};
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, build_and_run, &results[i]), 0);
    for (int i = 0; i < N; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < N; i++) assert_int_equal(results[i], 25);
}

/* Large enough that threads share each copy; none may begin before the one it depends on has ended. */
static void copies_that_depend_on_each_other_keep_their_order(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    ipu_graph  *g = new_graph(1);
    ipu_tensor  x = machine_variable(g, IPU_INT32, IPU_SHAPE(N), "x"), y = ipu_graph_clone(g, x, "y");
    ipu_tensor  z = ipu_graph_clone(g, x, "z"), w = machine_variable(g, IPU_INT32, IPU_SHAPE(N), "w");
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, x, y); /* read after write */
    ipu_program_add_copy(p, ipu_tensor_reverse(y, 0), z);
    ipu_program_add_copy(p, w, y);                        /* write after read */
    ipu_program_add_copy(p, z, w);                        /* write after read, read after write */
    ipu_program_add_copy(p, ipu_tensor_reverse(y, 0), x); /* the old w, reversed */
    ipu_executable *exe = machine_compile(g, &p, 1);
    ipu_engine     *e   = machine_engine(exe, "4");
    int32_t        *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b);
    assert_true(a && b);
    for (int32_t i = 0; i < N; i++) a[i] = i, b[i] = -i;
    assert_ok(ipu_engine_write(e, "x", a, N * sizeof *a));
    assert_ok(ipu_engine_write(e, "w", b, N * sizeof *b));
    for (int run = 0; run < 10; run++) assert_ok(ipu_engine_run(e, 0)); /* an even number: all as before */
    assert_ok(ipu_engine_read(e, "x", a, N * sizeof *a));
    assert_ok(ipu_engine_read(e, "w", b, N * sizeof *b));
    for (int32_t i = 0; i < N; i++)
        if (a[i] != i || b[i] != -i) fail_msg("element %d is %d and %d", i, a[i], b[i]);
    free(a);
    free(b);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void *interrupt_soon(void *engine)
{
    usleep(20000);
    ipu_engine_interrupt(engine);
    return NULL;
}

static void another_thread_interrupts_a_run(void **state)
{
    (void)state;
    ipu_engine *e = machine_start(counting_program(1, INT64_MAX));
    pthread_t   thread;
    for (int i = 0; i < 50 && machine_read_int(e, "n") == 0; i++) { /* it may come before the run begins */
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, e), 0);
        assert_status(ipu_engine_run(e, 0), IPU_INTERRUPTED);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    assert_int_not_equal(machine_read_int(e, "n"), 0);
    ipu_engine_destroy(e);
}

static ipu_engine *signalled;

static void on_alarm(int number)
{
    (void)number;
    ipu_engine_interrupt(signalled);
}

static void a_signal_handler_interrupts_a_run(void **state)
{
    (void)state;
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    struct sigaction old, action = {.sa_handler = on_alarm};
    signalled = machine_start(counting_program(1, INT64_MAX));
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    assert_status(ipu_engine_run(signalled, 0), IPU_INTERRUPTED);
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    ipu_engine_destroy(signalled);
}

static void an_early_interrupt_stops_the_next_run_only(void **state)
{
    (void)state;
    ipu_engine *e = machine_start(counting_program(1, 5));
    ipu_engine_interrupt(e);
    assert_status(ipu_engine_run(e, 0), IPU_INTERRUPTED);
    int32_t before = machine_read_int(e, "n");
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(machine_read_int(e, "n"), before + 5);
    ipu_engine_destroy(e);
}

/* 0: all as promised; otherwise what was not. */
static int try_in_child(ipu_engine *e, ipu_executable *exe)
{
    ipu_options *options;
    ipu_engine  *own;
    int32_t      n = 0;
    if (ipu_engine_run(e, 0) != IPU_FORKED) return 1;
    ipu_engine_destroy(e);
    if (ipu_options_create(&options) != IPU_OK || ipu_options_set(options, "threads", "1") != IPU_OK)
        return 2;
    if (ipu_engine_create(exe, options, &own) != IPU_OK) return 3;
    if (ipu_engine_run(own, 0) != IPU_OK || ipu_engine_read(own, "n", &n, sizeof n) != IPU_OK) return 4;
    return n == 5 ? 0 : 5;
}

static void a_forked_child_must_make_its_own_engine(void **state)
{
    (void)state;
    ipu_program     p   = counting_program(1, 5);
    ipu_executable *exe = machine_compile(p.graph, &p, 1);
    ipu_engine     *e   = machine_engine(exe, "2");
    assert_ok(ipu_engine_run(e, 0));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(try_in_child(e, exe));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(machine_read_int(e, "n"), 10);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(p.graph);
}

/* ---- programs that stop themselves ---- */

static void a_vertex_that_returns_false_is_named(void **state)
{
    (void)state;
    char            where[300];
    ipu_program     p  = counting_program(1, 3);
    ipu_graph      *g  = p.graph;
    ipu_tensor      m  = machine_variable(g, IPU_INT32, IPU_SCALAR, "m");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "guards");
    for (int i = 0; i < 3; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Smaller");
        ipu_graph_set_vertex_tile(g, v, 5 + i);
        ipu_vertex_connect(v, "n", m);
        ipu_vertex_set(v, "limit", i == 0 ? 100 : 10);
    }
    snprintf(where, sizeof where, "%s:%d", __FILE__, __LINE__ - 5);
    ipu_program_add_execute(p, cs);
    ipu_program_add_copy(p, m, ipu_tensor_at(machine_variable(g, IPU_INT32, IPU_SCALAR, "after"), NULL, 0));
    ipu_engine *e = machine_start(p);
    assert_ok(ipu_engine_write(e, "m", &(int32_t){9}, 4));
    assert_ok(ipu_engine_run(e, 0));
    assert_int_equal(machine_read_int(e, "after"), 9);
    assert_ok(ipu_engine_write(e, "m", &(int32_t){10}, 4));
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("\"Smaller\"");
    assert_says("\"guards\"");
    assert_says("tile 6");
    assert_says(where);
    assert_int_equal(machine_read_int(e, "n"), 6); /* what came before it was done */
    assert_int_equal(machine_read_int(e, "after"), 9);
    assert_ok(ipu_engine_write(e, "m", &(int32_t){0}, 4));
    assert_ok(ipu_engine_run(e, 0));
    ipu_engine_destroy(e);
}

static void an_abort_says_its_message_and_place(void **state)
{
    (void)state;
    char       where[300];
    ipu_graph *g  = new_graph(1);
    ipu_tensor b  = machine_variable(g, IPU_BOOL, IPU_SCALAR, "b"),
               x  = machine_variable(g, IPU_INT32, IPU_SHAPE(2), "x");
    ipu_program p = ipu_program_sequence(g), q = ipu_program_sequence(g);
    ipu_program_add_abort_if(p, b, "the flag is up");
    snprintf(where, sizeof where, "%s:%d", __FILE__, __LINE__ - 1);
    ipu_program_add_error(q, "x is wrong", x);
    ipu_executable *exe = machine_compile(g, (ipu_program[]){p, q}, 2);
    ipu_engine     *e   = machine_engine(exe, "1");
    assert_ok(ipu_engine_write(e, "b", &(bool){false}, 1));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_write(e, "b", &(bool){true}, 1));
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("the flag is up");
    assert_says(where);
    assert_ok(ipu_engine_write(e, "x", (int32_t[]){4, -5}, 8));
    assert_status(ipu_engine_run(e, 1), IPU_ABORTED);
    assert_says("x is wrong");
    assert_says("[4 -5]");
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void replicas_that_diverge_stop_the_run(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph(2);
    ipu_tensor  i = ipu_graph_add_replication_index(g, "i");
    ipu_program p = ipu_program_sequence(g), none = {g, 0};
    ipu_graph_set_tile_mapping(g, i, 0);
    int line = __LINE__ + 1;
    ipu_program_add_if(p, i, ipu_program_sequence(g), none);
    ipu_engine *e = machine_start(p);
    char        where[300];
    snprintf(where, sizeof where, "%s:%d", __FILE__, line);
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    assert_says("replica");
    assert_says(where);
    ipu_engine_destroy(e);
}

/* ---- host access ---- */

static void host_handles_are_checked(void **state)
{
    (void)state;
    ipu_graph  *g       = new_graph(1);
    ipu_program p       = ipu_program_sequence(g);
    int32_t     data[8] = {0};
    ipu_tensor  t       = machine_variable(g, IPU_INT32, IPU_SHAPE(6), "weights");
    ipu_graph_add_host_read(g, "weights reversed", ipu_tensor_reverse(t, 0));
    ipu_engine *e = machine_start(p);
    assert_status(ipu_engine_read(e, "weihgts", data, 24), IPU_NOT_FOUND);
    assert_says("\"weihgts\"");
    assert_says("\"weights\"");
    assert_status(ipu_engine_write(e, "x", data, 24), IPU_NOT_FOUND);
    assert_status(ipu_engine_read(e, "weights", data, 20), IPU_INVALID);
    assert_says("\"weights\"");
    assert_says("24");
    assert_says("20");
    assert_status(ipu_engine_write(e, "weights", NULL, 24), IPU_INVALID);
    assert_ok(ipu_engine_write(e, "weights", (int32_t[]){1, 2, 3, 4, 5, 6}, 24));
    assert_ok(ipu_engine_read(e, "weights reversed", data, 24));
    for (int i = 0; i < 6; i++) assert_int_equal(data[i], 6 - i);
    ipu_engine_destroy(e);
}

static void counters_tell_what_was_done(void **state)
{
    (void)state;
    ipu_engine         *e = machine_start(counting_program(2, 10));
    ipu_engine_counters c;
    for (int i = 0; i < 3; i++) assert_ok(ipu_engine_run(e, 0));
    ipu_engine_get_counters(e, &c);
    assert_int_equal(c.runs, 3);
    assert_int_equal(c.supersteps, 30);
    assert_int_equal(c.vertices, 60);
    assert_int_equal(c.threads, 2);
    ipu_engine_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_persist_from_run_to_run_of_one_engine),
        cmocka_unit_test(an_engine_begins_with_the_start_program),
        cmocka_unit_test(an_executable_outlives_its_graph),
        cmocka_unit_test(programs_share_variables_and_run_by_number),
        cmocka_unit_test(replicas_have_values_of_their_own),
        cmocka_unit_test(a_chain_of_temporaries_shares_memory),
        cmocka_unit_test(a_run_does_not_allocate),
        cmocka_unit_test(engines_run_side_by_side),
        cmocka_unit_test(graphs_are_built_and_compiled_side_by_side),
        cmocka_unit_test(copies_that_depend_on_each_other_keep_their_order),
        cmocka_unit_test(another_thread_interrupts_a_run),
        cmocka_unit_test(a_signal_handler_interrupts_a_run),
        cmocka_unit_test(an_early_interrupt_stops_the_next_run_only),
        cmocka_unit_test(a_forked_child_must_make_its_own_engine),
        cmocka_unit_test(a_vertex_that_returns_false_is_named),
        cmocka_unit_test(an_abort_says_its_message_and_place),
        cmocka_unit_test(replicas_that_diverge_stop_the_run),
        cmocka_unit_test(host_handles_are_checked),
        cmocka_unit_test(counters_tell_what_was_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
