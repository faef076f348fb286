/* Parallel steps on engines of one and several threads: results, memory, failures, saving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cpu/engine.h"
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

/* All functions at once, then each y becomes the next x; so TURNS times. */
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

static void results_are_the_same_on_any_number_of_threads(void **state)
{
    (void)state;
    static const char *const threads[] = {"1", "2", "3", "4", "8"};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) check_rounds(1, threads[i], false);
}

static void checking_runs_bodies_one_after_another(void **state)
{
    (void)state;
    check_rounds(1, "2", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_same_on_any_number_of_threads),
        cmocka_unit_test(checking_runs_bodies_one_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
