/* Parallel steps on engines of one and several threads: results, memory, failures, saving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cpu/cpu.h"
#include "engine/file/validate.h"
#include "ipu/ipu.h"

enum { N = 64, BODIES = 4, TURNS = 5 };

typedef struct bench {
    ipu_graph   *g;
    ipu_program  main;
    ipu_tensor   x[BODIES], y[BODIES];
    ipu_function f[BODIES];
} bench;

static ipu_tensor new_variable(ipu_graph *g, const char *kind, int i)
{
    char name[16];
    snprintf(name, sizeof name, "%s%d", kind, i);
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), name);
    ipu_graph_set_tile_mapping(g, t, i);
    return t;
}

/* y = (x + x) + x * x, through two variables that only the function uses. */
static ipu_function new_function(bench *b, int i)
{
    ipu_program p     = ipu_program_sequence(b->g);
    ipu_tensor  twice = new_variable(b->g, "twice", i), square = new_variable(b->g, "square", i);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){b->x[i], b->x[i], twice}, 3);
    ipu_program_add_kernel(p, "mul", NULL, 0, (ipu_tensor[]){b->x[i], b->x[i], square}, 3);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){twice, square, b->y[i]}, 3);
    return ipu_graph_add_function(b->g, p, "f");
}

static bench start(int64_t replication)
{
    bench      b;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", replication, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, replication, &b.g), IPU_OK);
    b.main = ipu_program_sequence(b.g);
    for (int i = 0; i < BODIES; i++) {
        char name[8];
        b.x[i] = new_variable(b.g, "x", i);
        b.y[i] = new_variable(b.g, "y", i);
        b.f[i] = new_function(&b, i);
        snprintf(name, sizeof name, "x%d", i);
        ipu_graph_add_host_write(b.g, name, b.x[i]);
        snprintf(name, sizeof name, "y%d", i);
        ipu_graph_add_host_read(b.g, name, b.y[i]);
    }
    return b;
}

/* All functions at once, then each y becomes the next x; this is repeated TURNS times. */
static void add_rounds(bench *b)
{
    ipu_program bodies[BODIES], round = ipu_program_sequence(b->g);
    for (int i = 0; i < BODIES; i++) {
        bodies[i] = ipu_program_sequence(b->g);
        ipu_program_add_call(bodies[i], b->f[i]);
    }
    ipu_program_add_parallel(round, bodies, BODIES);
    for (int i = 0; i < BODIES; i++) ipu_program_add_copy(round, b->y[i], b->x[(i + 1) % BODIES]);
    ipu_program_add_repeat(b->main, TURNS, round);
}

static void set(ipu_options *options, const char *name, const char *value)
{
    assert_int_equal(ipu_options_set(options, name, value), IPU_OK);
}

static ipu_engine *new_engine(const bench *b, const char *threads, bool check)
{
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    set(options, "threads", threads);
    if (check) set(options, "check", "true");
    if (ipu_executable_compile(b->g, &b->main, 1, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_engine_create(exe, options, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return e;
}

static void run(ipu_engine *e)
{
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
}

static void write_inputs(ipu_engine *e)
{
    for (int i = 0; i < BODIES; i++) {
        char  name[8];
        float x[N];
        snprintf(name, sizeof name, "x%d", i);
        for (int k = 0; k < N; k++) x[k] = 1e-4f * (float)(i * N + k);
        assert_int_equal(ipu_engine_write(e, name, x, sizeof x), IPU_OK);
    }
}

static void read_outputs(ipu_engine *e, float out[BODIES][N])
{
    for (int i = 0; i < BODIES; i++) {
        char name[8];
        snprintf(name, sizeof name, "y%d", i);
        assert_int_equal(ipu_engine_read(e, name, out[i], sizeof out[i]), IPU_OK);
    }
}

static void expected_outputs(float out[BODIES][N])
{
    float x[BODIES][N];
    for (int i = 0; i < BODIES; i++)
        for (int k = 0; k < N; k++) x[i][k] = 1e-4f * (float)(i * N + k);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < BODIES; i++)
            for (int k = 0; k < N; k++) out[i][k] = (x[i][k] + x[i][k]) + x[i][k] * x[i][k];
        for (int i = 0; i < BODIES; i++) memcpy(x[(i + 1) % BODIES], out[i], sizeof out[i]);
    }
}

static void check_rounds(int64_t replication, const char *threads, bool check)
{
    bench b = start(replication);
    float got[BODIES][N], expected[BODIES][N];
    add_rounds(&b);
    ipu_engine *e = new_engine(&b, threads, check);
    expected_outputs(expected);
    for (int i = 0; i < 3; i++) {
        write_inputs(e);
        run(e);
        read_outputs(e, got);
        assert_memory_equal(got, expected, sizeof got);
    }
    ipu_engine_destroy(e);
    ipu_graph_destroy(b.g);
}

static const char *const all_threads[] = {"1", "2", "3", "4", "8"};
enum { N_THREADS = sizeof all_threads / sizeof *all_threads };

static void results_are_the_same_on_any_number_of_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) check_rounds(1, all_threads[i], false);
}

static void replicas_run_over_threads_too(void **state)
{
    (void)state;
    for (int64_t replication = 2; replication <= 8; replication *= 2)
        for (int i = 0; i < N_THREADS; i++) check_rounds(replication, all_threads[i], false);
}

static void checking_runs_bodies_one_after_another(void **state)
{
    (void)state;
    check_rounds(1, "2", true);
    check_rounds(2, "4", true);
}

/* A body's steps in the first of two parallel steps, and a function that is also called outside them. */
static void functions_are_called_from_several_steps(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        bench       b = start(1);
        ipu_program first[2], second[2];
        float       got[BODIES][N];
        for (int k = 0; k < 2; k++) {
            first[k]  = ipu_program_sequence(b.g);
            second[k] = ipu_program_sequence(b.g);
            ipu_program_add_call(first[k], b.f[k]);
            ipu_program_add_call(second[k], b.f[1 - k]); /* now by the other body */
            ipu_program_add_call(second[k], b.f[2 + k]);
        }
        ipu_program_add_call(b.main, b.f[3]);
        ipu_program_add_parallel(b.main, first, 2);
        for (int k = 0; k < 2; k++) ipu_program_add_copy(b.main, b.y[k], b.x[k]);
        ipu_program_add_parallel(b.main, second, 2);
        ipu_engine *e = new_engine(&b, all_threads[i], false);
        write_inputs(e);
        run(e);
        read_outputs(e, got);
        for (int body = 0; body < BODIES; body++)
            for (int k = 0; k < N; k++) {
                float x = 1e-4f * (float)(body * N + k);
                for (int turn = 0; turn < (body < 2 ? 2 : 1); turn++) x = (x + x) + x * x;
                assert_true(got[body][k] == x);
            }
        ipu_engine_destroy(e);
        ipu_graph_destroy(b.g);
    }
}

/* ---- operands and fields that are gathered ---- */

#define MIX(F) F(IN_VECTOR, float, x) F(OUT_VECTOR, float, y)
IPU_VERTEX(Mix, MIX)
{
    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] = v->x.data[i] + 1;
    return true;
}

/* y = columns of (x + x), then each + 1, with a kernel and a vertex that both need packed memory. */
static ipu_program new_gathering_body(bench *b, int i)
{
    ipu_program     p       = ipu_program_sequence(b->g);
    ipu_shape       shape   = IPU_SHAPE(8, N / 8);
    ipu_tensor      columns = ipu_tensor_transpose(ipu_tensor_reshape(b->x[i], shape));
    ipu_tensor      packed  = new_variable(b->g, "packed", i);
    ipu_compute_set cs      = ipu_graph_add_compute_set(b->g, "mix");
    ipu_vertex      v       = ipu_graph_add_vertex(b->g, cs, "Mix");
    ipu_program_add_kernel(p, "add", NULL, 0,
                           (ipu_tensor[]){columns, columns, ipu_tensor_reshape(packed, shape)}, 3);
    ipu_graph_set_vertex_tile(b->g, v, i);
    ipu_vertex_connect(v, "x", ipu_tensor_reverse(packed, 0));
    ipu_vertex_connect(v, "y", ipu_tensor_reverse(b->y[i], 0));
    ipu_program_add_execute(p, cs);
    return p;
}

static void bodies_gather_into_memory_of_their_own(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        bench       b = start(2);
        ipu_program bodies[BODIES], round = ipu_program_sequence(b.g);
        float       got[BODIES][N];
        ipu_graph_add_codelet(b.g, &Mix);
        for (int k = 0; k < BODIES; k++) bodies[k] = new_gathering_body(&b, k);
        ipu_program_add_parallel(round, bodies, BODIES);
        ipu_program_add_repeat(b.main, 50, round);
        ipu_engine *e = new_engine(&b, all_threads[i], false);
        write_inputs(e);
        run(e);
        read_outputs(e, got);
        for (int body = 0; body < BODIES; body++)
            for (int k = 0; k < N; k++) {
                int   from = k % 8 * 8 + k / 8; /* the column becomes the row */
                float x    = 1e-4f * (float)(body * N + from);
                assert_true(got[body][k] == (x + x) + 1);
            }
        ipu_engine_destroy(e);
        ipu_graph_destroy(b.g);
    }
}

/* ---- streams ---- */

typedef struct source {
    int   calls;
    float value;
} source;

static ipu_status give(void *user, void *data, size_t bytes)
{
    source *s = user;
    float  *x = data;
    s->calls++;
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = s->value + (float)s->calls;
    return IPU_OK;
}

static ipu_status refuse(void *user, void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return IPU_NOT_FOUND;
}

/* Into a non-contiguous variable, so that the transfer goes through a buffer. */
static void each_body_reads_its_own_stream(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        bench       b = start(1);
        ipu_program bodies[BODIES];
        source      sources[BODIES];
        float       got[BODIES][N];
        for (int k = 0; k < BODIES; k++) {
            char name[8];
            snprintf(name, sizeof name, "s%d", k);
            ipu_stream s = ipu_graph_add_host_to_device(b.g, name, IPU_FLOAT, N, IPU_STREAM_REPLICATE);
            bodies[k]    = ipu_program_sequence(b.g);
            ipu_program_add_read(bodies[k], s, ipu_tensor_reverse(b.x[k], 0));
            ipu_program_add_call(bodies[k], b.f[k]);
        }
        ipu_program_add_parallel(b.main, bodies, BODIES);
        ipu_engine *e = new_engine(&b, all_threads[i], false);
        for (int k = 0; k < BODIES; k++) {
            char name[8];
            snprintf(name, sizeof name, "s%d", k);
            sources[k] = (source){0, (float)k};
            assert_int_equal(ipu_engine_connect_callback(e, name, give, &sources[k]), IPU_OK);
        }
        for (int k = 0; k < 20; k++) run(e);
        read_outputs(e, got);
        for (int k = 0; k < BODIES; k++) {
            float x = (float)k + 20;
            assert_int_equal(sources[k].calls, 20);
            assert_true(got[k][0] == (x + x) + x * x);
        }
        ipu_engine_counters counts;
        ipu_engine_get_counters(e, &counts);
        assert_int_equal(counts.runs, 20);
        assert_int_equal(counts.supersteps, 20 * BODIES * 3);
        assert_int_equal(counts.streamed_bytes, 20 * BODIES * N * (int64_t)sizeof(float));
        ipu_engine_destroy(e);
        ipu_graph_destroy(b.g);
    }
}

/* ---- failures ---- */

static void add_error(bench *b, ipu_program p, int i)
{
    char text[32];
    snprintf(text, sizeof text, "body %d failed", i);
    ipu_program_add_error(p, text, (ipu_tensor){b->g, 0});
}

/* Bodies 1 and 3 fail; 1 is the slowest of all. */
static void the_failure_of_the_first_body_is_told(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        bench       b = start(1);
        ipu_program bodies[BODIES], work = ipu_program_sequence(b.g);
        for (int k = 0; k < BODIES; k++) bodies[k] = ipu_program_sequence(b.g);
        ipu_program_add_call(work, b.f[1]);
        ipu_program_add_repeat(bodies[1], 2000, work);
        add_error(&b, bodies[1], 1);
        add_error(&b, bodies[3], 3);
        ipu_program_add_parallel(b.main, bodies, BODIES);
        ipu_engine *e = new_engine(&b, all_threads[i], false);
        for (int k = 0; k < 5; k++) {
            assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
            assert_non_null(strstr(ipu_message(), "body 1 failed"));
        }
        ipu_engine_destroy(e);
        ipu_graph_destroy(b.g);
    }
}

static ipu_status interrupt(void *user, void *data, size_t bytes)
{
    ipu_engine *const *e = user;
    memset(data, 0, bytes);
    ipu_engine_interrupt(*e);
    return IPU_OK;
}

/* Bodies that never end: one is interrupted from outside, and what follows them never runs. */
static void interruption_stops_all_bodies(void **state)
{
    (void)state;
    for (int i = 0; i < N_THREADS; i++) {
        bench       b = start(1);
        ipu_program bodies[BODIES], nothing = {b.g, 0};
        ipu_tensor  yes = ipu_graph_add_constant_value(b.g, IPU_BOOL, IPU_SCALAR, 1, "yes");
        ipu_stream  s   = ipu_graph_add_host_to_device(b.g, "s", IPU_FLOAT, N, IPU_STREAM_REPLICATE);
        ipu_engine *e;
        ipu_graph_set_tile_mapping(b.g, yes, 0);
        for (int k = 0; k < BODIES; k++) {
            bodies[k] = ipu_program_sequence(b.g);
            if (k == 0) ipu_program_add_read(bodies[k], s, b.x[k]);
            ipu_program_add_while_true(bodies[k], nothing, yes, nothing);
        }
        ipu_program_add_parallel(b.main, bodies, BODIES);
        ipu_program_add_error(b.main, "after", (ipu_tensor){b.g, 0});
        e = new_engine(&b, all_threads[i], false);
        assert_int_equal(ipu_engine_connect_callback(e, "s", interrupt, &e), IPU_OK);
        for (int k = 0; k < 3; k++) assert_int_equal(ipu_engine_run(e, 0), IPU_INTERRUPTED);
        assert_int_equal(ipu_engine_connect_callback(e, "s", refuse, NULL), IPU_OK);
        assert_int_equal(ipu_engine_run(e, 0), IPU_NOT_FOUND); /* the others are stopped as well */
        assert_non_null(strstr(ipu_message(), "stream \"s\": its callback returned"));
        ipu_engine_destroy(e);
        ipu_graph_destroy(b.g);
    }
}

/* ---- files ---- */

static ipu_executable *compile(const bench *b)
{
    ipu_executable *exe;
    if (ipu_executable_compile(b->g, &b->main, 1, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    return exe;
}

static void a_loaded_executable_runs_the_same(void **state)
{
    (void)state;
    bench           b = start(1);
    float           got[BODIES][N], expected[BODIES][N];
    void           *data;
    size_t          bytes;
    ipu_executable *loaded;
    ipu_engine     *e;
    add_rounds(&b);
    ipu_executable *exe = compile(&b);
    assert_int_equal(ipu_executable_serialise(exe, &data, &bytes), IPU_OK);
    if (ipu_executable_deserialise(data, bytes, NULL, 0, NULL, &loaded) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(loaded, NULL, &e), IPU_OK);
    write_inputs(e);
    run(e);
    read_outputs(e, got);
    expected_outputs(expected);
    assert_memory_equal(got, expected, sizeof got);
    ipu_engine_destroy(e);
    ipu_free(data);
    ipu_executable_release(loaded);
    ipu_executable_release(exe);
    ipu_graph_destroy(b.g);
}

static int64_t planned_bytes(bool beside)
{
    bench       b = start(1);
    ipu_program bodies[BODIES];
    int64_t     planned;
    for (int i = 0; i < BODIES; i++) {
        bodies[i] = ipu_program_sequence(b.g);
        ipu_program_add_call(bodies[i], b.f[i]);
        if (!beside) ipu_program_add(b.main, bodies[i]);
    }
    if (beside) ipu_program_add_parallel(b.main, bodies, BODIES);
    ipu_executable *exe = compile(&b);
    ipu_executable_memory(exe, &planned, NULL);
    ipu_executable_release(exe);
    ipu_graph_destroy(b.g);
    return planned;
}

/* Run one after another, functions share memory for their variables. */
static void bodies_beside_one_another_share_no_memory(void **state)
{
    (void)state;
    int64_t variable = N * (int64_t)sizeof(float);
    assert_true(planned_bytes(true) >= planned_bytes(false) + (BODIES - 1) * variable);
}

static ipu__instruction *find_parallel(ipu_executable *exe)
{
    for (size_t i = 0; i < exe->code.n; i++)
        if (exe->code.at[i].op == IPU__CODE_PARALLEL) return &exe->code.at[i];
    fail_msg("there is no parallel instruction");
    return NULL;
}

/* What a hostile file could contain. */
static void contradictions_are_found(void **state)
{
    (void)state;
    bench b = start(2);
    add_rounds(&b);
    ipu_executable   *exe      = compile(&b);
    ipu__instruction *parallel = find_parallel(exe), *first = &exe->code.at[exe->bodies.at[0]];
    assert_int_equal(first->op, IPU__CODE_CALL);
    assert_int_equal(ipu__executable_validate(exe), IPU_OK);
#define WRONG(member, value, why)                                                                    \
    do {                                                                                             \
        __typeof__(member) before = (member);                                                        \
        (member)                  = (value);                                                         \
        assert_int_equal(ipu__executable_validate(exe), IPU_INVALID);                                \
        if (!strstr(ipu_message(), why)) fail_msg("\"%s\" does not say \"%s\"", ipu_message(), why); \
        (member) = before;                                                                           \
        assert_int_equal(ipu__executable_validate(exe), IPU_OK);                                     \
    } while (0)
    WRONG(parallel->n, 0, "an operand is out of range");
    WRONG(parallel->n, UINT64_MAX, "an operand is out of range");
    WRONG(parallel->n, BODIES + 1, "an operand is out of range");
    WRONG(parallel->a, 1, "an operand is out of range");
    WRONG(parallel->b, UINT32_MAX, "an operand is out of range");
    WRONG(parallel->b, parallel->b - 1, "an operand is out of range");
    WRONG(exe->bodies.at[1], exe->bodies.at[0], "an operand is out of range");
    WRONG(exe->bodies.at[1], UINT32_MAX, "an operand is out of range");
    const ipu__instruction *second = &exe->code.at[exe->bodies.at[1]];
    WRONG(*first, *second, "with another body of its parallel step");
    ipu__instruction nested = *parallel;
    nested.n                = 1;
    nested.b                = 0;
    nested.a                = 0;
    WRONG(*first, nested, "an operand is out of range");
    WRONG(first->op, IPU__CODE_CROSS_REPLICA, "");
#undef WRONG
    ipu_executable_release(exe);
    ipu_graph_destroy(b.g);
}

static void times_of_a_step_hold_those_of_its_bodies(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bench           b = start(1);
        ipu_options    *options;
        ipu_executable *exe;
        ipu_engine     *e;
        ipu_step_time  *times;
        size_t          n;
        double          most = 0;
        ipu_program     body = ipu_program_sequence(b.g), other = ipu_program_sequence(b.g),
                    work = ipu_program_sequence(b.g);
        ipu_program_add_call(work, b.f[0]);
        ipu_program_add_repeat(body, 300, work);
        ipu_program_add_call(other, b.f[1]);
        ipu_program_add_parallel(b.main, (ipu_program[]){body, other}, 2);
        assert_int_equal(ipu_options_create(&options), IPU_OK);
        set(options, "threads", i ? "2" : "1");
        set(options, "profile", "true");
        assert_int_equal(ipu_executable_compile(b.g, &b.main, 1, options, &exe), IPU_OK);
        assert_int_equal(ipu_engine_create(exe, options, &e), IPU_OK);
        run(e);
        assert_int_equal(ipu_engine_step_times(e, &times, &n), IPU_OK);
        double step = 0, inside = 0;
        for (size_t k = 0; k < n; k++) {
            if (times[k].program == b.main.id)
                step = times[k].seconds;
            else
                inside += times[k].seconds;
            if (times[k].program == b.main.id) assert_int_equal(times[k].runs, 1);
            if (times[k].seconds > most) most = times[k].seconds;
        }
        assert_true(step == most && step > 0 && inside > 0);
        assert_true(inside <= 2 * step + 1e-9);
        if (i == 0) assert_true(inside <= step + 1e-9);
        ipu_free(times);
        ipu_engine_destroy(e);
        ipu_executable_release(exe);
        ipu_options_destroy(options);
        ipu_graph_destroy(b.g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_same_on_any_number_of_threads),
        cmocka_unit_test(replicas_run_over_threads_too),
        cmocka_unit_test(checking_runs_bodies_one_after_another),
        cmocka_unit_test(functions_are_called_from_several_steps),
        cmocka_unit_test(bodies_gather_into_memory_of_their_own),
        cmocka_unit_test(each_body_reads_its_own_stream),
        cmocka_unit_test(the_failure_of_the_first_body_is_told),
        cmocka_unit_test(interruption_stops_all_bodies),
        cmocka_unit_test(bodies_beside_one_another_share_no_memory),
        cmocka_unit_test(a_loaded_executable_runs_the_same),
        cmocka_unit_test(contradictions_are_found),
        cmocka_unit_test(times_of_a_step_hold_those_of_its_bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
