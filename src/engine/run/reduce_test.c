/* Sums over replicas: in one process, and in several, simulated by threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/threads_test.h"
#include "ipu/engine.h"
#include "ipu/graph.h"
#include "ipu/options.h"
#include "ipu/program.h"
#include "ipu/text.h"

enum { N = 5000, MOST = 8 };

static float value(int64_t replica, int64_t i) { return 1.0f / (float)(3 + replica * 7 + i % 1000); }

static float tree(int64_t first, int64_t n, int64_t i)
{
    return n == 1 ? value(first, i) : tree(first, n / 2, i) + tree(first + n / 2, n / 2, i);
}

/* What is summed: all of x but a strip, and y, in one step; z in another, while y is being written. */
typedef struct setup {
    ipu_graph      *g;
    ipu_executable *exe;
} setup;

static setup build(int64_t replicas, const char *check)
{
    setup        s;
    ipu_target   target;
    ipu_options *options;
    assert_int_equal(ipu_target_find("gc200", replicas, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, replicas, &s.g), IPU_OK);
    ipu_tensor x      = ipu_graph_add_variable(s.g, IPU_FLOAT, IPU_SHAPE(50, N / 50), "x"),
               y      = ipu_graph_add_variable(s.g, IPU_FLOAT, IPU_SHAPE(7), "y"),
               z      = ipu_graph_add_variable(s.g, IPU_DOUBLE, IPU_SHAPE(3), "z"),
               w      = ipu_graph_add_variable(s.g, IPU_FLOAT, IPU_SHAPE(N), "w");
    ipu_program p     = ipu_program_sequence(s.g);
    ipu_tensor  all[] = {x, y, z, w};
    for (int i = 0; i < 4; i++) {
        ipu_graph_map_linearly(s.g, all[i]);
        ipu_graph_add_host_write(s.g, (char[]){"xyzw"[i], 0}, all[i]);
        ipu_graph_add_host_read(s.g, (char[]){"xyzw"[i], 0}, all[i]);
    }
    ipu_tensor part = ipu_tensor_flatten(ipu_tensor_slice(x, 10, N / 50, 1));
    ipu_program_add_all_reduce(p, ipu_tensor_concat((ipu_tensor[]){y, part}, 2, 0));
    ipu_program_add_all_reduce(p, z);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){w, w, w}, 3);
    ipu_program_add_all_reduce_wait(p);
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "check", check), IPU_OK);
    if (ipu_executable_compile(s.g, &p, 1, options, &s.exe) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_options_destroy(options);
    return s;
}

static void destroy(setup *s)
{
    ipu_executable_release(s->exe);
    ipu_graph_destroy(s->g);
}

/* Writes, runs and reads; replica r of this engine is number `first` + r of `total`. Returns false if
 * something is wrong. */
static bool run_engine(ipu_engine *e, int64_t first, int64_t replicas, int64_t total)
{
    static _Thread_local float x[N], w[N];
    float                      y[7];
    double                     z[3];
    bool                       ok = true;
    for (int64_t r = 0; r < replicas; r++) {
        for (int i = 0; i < N; i++) x[i] = w[i] = value(first + r, i);
        for (int i = 0; i < 7; i++) y[i] = value(first + r, i);
        for (int i = 0; i < 3; i++) z[i] = (double)(first + r);
        ok = ok && ipu_engine_write_replica(e, "x", r, x, sizeof x) == IPU_OK
          && ipu_engine_write_replica(e, "y", r, y, sizeof y) == IPU_OK
          && ipu_engine_write_replica(e, "z", r, z, sizeof z) == IPU_OK
          && ipu_engine_write_replica(e, "w", r, w, sizeof w) == IPU_OK;
    }
    ok = ok && ipu_engine_run(e, 0) == IPU_OK;
    for (int64_t r = 0; ok && r < replicas; r++) {
        ok = ipu_engine_read_replica(e, "x", r, x, sizeof x) == IPU_OK
          && ipu_engine_read_replica(e, "y", r, y, sizeof y) == IPU_OK
          && ipu_engine_read_replica(e, "z", r, z, sizeof z) == IPU_OK
          && ipu_engine_read_replica(e, "w", r, w, sizeof w) == IPU_OK;
        for (int i = 0; ok && i < N; i++) {
            float expected = i % (N / 50) < 10 ? value(first + r, i) : tree(0, total, i);
            ok = memcmp(&x[i], &expected, sizeof expected) == 0 && w[i] == 2 * value(first + r, i);
        }
        for (int i = 0; ok && i < 7; i++) ok = y[i] == tree(0, total, i);
        for (int i = 0; ok && i < 3; i++) ok = 2 * z[i] == (double)(total * (total - 1));
    }
    return ok;
}

static void check_alone(int64_t replicas, const char *n_threads, const char *check)
{
    setup        s = build(replicas, check);
    ipu_engine  *e;
    ipu_options *options;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", n_threads), IPU_OK);
    if (ipu_engine_create(s.exe, options, &e) != IPU_OK) fail_msg("%s", ipu_message());
    for (int turn = 0; turn < 2; turn++)
        if (!run_engine(e, 0, replicas, replicas))
            fail_msg("%lld replicas: %s", (long long)replicas, ipu_message());
    ipu_engine_destroy(e);
    ipu_options_destroy(options);
    destroy(&s);
}

static void replicas_have_the_bits_of_the_tree_with_any_number_of_threads(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 16; n *= 2) {
        check_alone(n, "1", "false");
        check_alone(n, "3", "false");
    }
}

static void sums_are_in_saved_executables(void **state)
{
    (void)state;
    char            path[] = "/tmp/ipu_reduce_test_XXXXXX";
    setup           s      = build(4, "false");
    ipu_executable *loaded = NULL;
    ipu_engine     *e      = NULL;
    int             fd     = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (ipu_executable_save(s.exe, path) != IPU_OK
        || ipu_executable_load(path, NULL, 0, NULL, &loaded) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(loaded, NULL, &e), IPU_OK);
    assert_true(run_engine(e, 0, 4, 4));
    ipu_engine_destroy(e);
    ipu_executable_release(loaded);
    unlink(path);
    destroy(&s);
}

static void checking_mode_sees_sums_as_values(void **state)
{
    (void)state;
    check_alone(2, "1", "true");
}

/* ---- several processes ---- */

typedef struct task {
    int64_t         rank, replicas;
    ipu_executable *exe;
    pthread_t       thread;
    bool            ok;
    double          waited;
    int64_t         bytes;
} task;

static void *run_task(void *arg)
{
    task       *t   = arg;
    end         own = {t->rank};
    ipu_comm   *comm;
    ipu_engine *e;
    if (ipu__comm_create(&threads, &own, &comm) != IPU_OK) return NULL;
    if (ipu_engine_create(t->exe, NULL, &e) == IPU_OK) {
        t->ok = ipu_engine_join(e, comm) == IPU_OK;
        for (int turn = 0; turn < 3; turn++)
            t->ok = t->ok && run_engine(e, t->rank * t->replicas, t->replicas, n_ranks * t->replicas);
        ipu_engine_comm_counters(e, &t->waited, &t->bytes);
        ipu_engine_destroy(e);
    }
    ipu_comm_close(comm);
    return NULL;
}

static void check_group(int64_t ranks, int64_t replicas)
{
    task  tasks[MOST];
    setup s = build(replicas, "false");
    n_ranks = ranks;
    for (int64_t r = 0; r < ranks; r++) {
        tasks[r] = (task){.rank = r, .replicas = replicas, .exe = s.exe};
        assert_int_equal(pthread_create(&tasks[r].thread, NULL, run_task, &tasks[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) pthread_join(tasks[r].thread, NULL);
    for (int64_t r = 0; r < ranks; r++) {
        assert_true(tasks[r].ok);
        assert_true(tasks[r].waited > 0);
        assert_int_equal(tasks[r].bytes, 3 * ((N - 500 + 7) * 4 + 24) * (ranks == 2 ? 1 : 2));
    }
    destroy(&s);
}

static void processes_have_the_bits_of_one_with_all_replicas(void **state)
{
    (void)state;
    check_group(2, 1);
    check_group(4, 1);
    check_group(2, 2);
    check_group(4, 4);
}

/* ---- what is wrong ---- */

static void expect_problem(const char *steps, const char *message)
{
    char            text[1024];
    ipu_parsed      parsed;
    ipu_executable *exe = NULL;
    snprintf(
        text, sizeof text,
        "graph target gc200 ipus 2 tiles 2 replication 2 {\n var x float[8] on 0;\n var y float[8] on 0;\n"
        "var go bool on 0;\n program {\n%s\n }\n}\n",
        steps);
    if (ipu_graph_parse(text, strlen(text), "test", NULL, 0, NULL, &parsed) != IPU_OK)
        fail_msg("%s", ipu_message());
    ipu_status status = ipu_executable_compile(parsed.graph, parsed.programs, parsed.n_programs, NULL, &exe);
    if (!message && status != IPU_OK) fail_msg("%s", ipu_message());
    if (message && (status != IPU_INVALID || !strstr(ipu_message(), message)))
        fail_msg("expected \"%s\", found \"%s\"", message, status == IPU_OK ? "ok" : ipu_message());
    ipu_executable_release(exe);
    ipu_graph_destroy(parsed.graph);
}

static void what_is_being_added_up_is_touched_by_no_step(void **state)
{
    (void)state;
    expect_problem("all_reduce x; copy y -> x; all_reduce_wait;", "this copy step touches \"x\"");
    expect_problem("all_reduce x; copy x -> y; all_reduce_wait;", "this copy step touches \"x\"");
    expect_problem("all_reduce {x[0:4]}[4]; copy {y[0:4]}[4] -> {x[4:4]}[4]; all_reduce_wait;", NULL);
    expect_problem("all_reduce x; all_reduce x; all_reduce_wait;", "this all_reduce step touches \"x\"");
    expect_problem("all_reduce x; kernel add (x, y, y); all_reduce_wait;", "this kernel step touches");
    expect_problem("all_reduce x; all_reduce_wait; copy y -> x;", NULL);
    expect_problem("all_reduce x;", "the program ends while \"x\" is being added up");
}

static void loops_and_branches_are_followed(void **state)
{
    (void)state;
    expect_problem("repeat 3 { copy y -> x; all_reduce x; } all_reduce_wait;", "this copy step touches");
    expect_problem("repeat 3 { copy y -> x; all_reduce x; all_reduce_wait; }", NULL);
    expect_problem("if go { all_reduce x; } else { } copy y -> x; all_reduce_wait;",
                   "this copy step touches");
    expect_problem("all_reduce x; if go { all_reduce_wait; } else { copy x -> y; } all_reduce_wait;",
                   "this copy step touches");
    expect_problem("if go { all_reduce x; all_reduce_wait; } else { copy x -> y; } copy y -> x;", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas_have_the_bits_of_the_tree_with_any_number_of_threads),
        cmocka_unit_test(sums_are_in_saved_executables),
        cmocka_unit_test(checking_mode_sees_sums_as_values),
        cmocka_unit_test(processes_have_the_bits_of_one_with_all_replicas),
        cmocka_unit_test(what_is_being_added_up_is_touched_by_no_step),
        cmocka_unit_test(loops_and_branches_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
