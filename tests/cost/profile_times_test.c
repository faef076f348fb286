/* Measured host time of steps: how often each ran, how long it took, and both beside the estimates.
 * Given the name of a file, writes a profile with times there as JSON, for tests/profile_test.sh. */
#include <jansson.h>
#include <time.h>

#include "machine.h"
#include "random_program.h"

enum { SLOW_NANOSECONDS = 2000000, N_RUNS = 3, N_RANDOM = 200 };

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#define ADD_ONE(F) F(INOUT, int32_t, x)
IPU_VERTEX(Fast, ADD_ONE)
{
    ++*v->x;
    return true;
}

IPU_VERTEX(Slow, ADD_ONE)
{
    for (int64_t end = now() + SLOW_NANOSECONDS; now() < end;)
        ;
    ++*v->x;
    return true;
}

#define COMPARE(F) F(IN, int32_t, x) F(IN, int32_t, y) F(OUT, bool, less)
IPU_VERTEX(Compare, COMPARE)
{
    *v->less = *v->x < *v->y;
    return true;
}

#define REFUSE(F) F(IN, int32_t, x)
IPU_VERTEX(Refuse, REFUSE)
{
    return *v->x < 0;
}

static ipu_compute_set set_of(ipu_graph *g, const char *codelet, ipu_tensor x, const char *name)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, name);
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", x);
    return cs;
}

static ipu_program executing(ipu_graph *g, ipu_compute_set cs)
{
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    return p;
}

static ipu_graph *new_graph(void)
{
    ipu_graph *g = machine_graph(1);
    ipu_graph_add_codelet(g, &Fast);
    ipu_graph_add_codelet(g, &Slow);
    ipu_graph_add_codelet(g, &Compare);
    ipu_graph_add_codelet(g, &Refuse);
    return g;
}

static ipu_options *profiling(void)
{
    ipu_options *options;
    assert_ok(ipu_options_create(&options));
    assert_ok(ipu_options_set(options, "profile", "true"));
    assert_ok(ipu_options_set(options, "threads", "2"));
    return options;
}

static ipu_engine *start(ipu_program p)
{
    ipu_options    *options = profiling();
    ipu_executable *exe;
    ipu_engine     *e;
    assert_ok(ipu_executable_compile(p.graph, &p, 1, options, &exe));
    assert_ok(ipu_engine_create(exe, options, &e));
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return e;
}

static ipu_cost *priced(ipu_program p)
{
    ipu_cost *cost;
    assert_ok(ipu_cost_estimate(p.graph, &p, 1, NULL, &cost));
    return cost;
}

static void add_times(const ipu_engine *e, ipu_cost *cost)
{
    ipu_step_time *times;
    size_t         n;
    assert_ok(ipu_engine_step_times(e, &times, &n));
    for (size_t i = 1; i < n; i++) /* sorted, each place once */
        assert_true(times[i - 1].program < times[i].program
                    || (times[i - 1].program == times[i].program && times[i - 1].step < times[i].step));
    assert_ok(ipu_cost_set_times(cost, times, n));
    ipu_free(times);
}

/* The first step of that kind whose name begins so. */
static ipu_cost_step find(const ipu_cost *cost, const char *kind, const char *name)
{
    ipu_cost_step s;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++)
        if (strcmp(s.kind, kind) == 0 && strncmp(s.name, name, strlen(name)) == 0) return s;
    fail_msg("no step %s %s", kind, name);
    return s;
}

/* slow and fast work, loops, a function that is called twice, a sequence used in two places. */
static ipu_program everything(ipu_graph *g)
{
    ipu_tensor      x       = machine_variable(g, IPU_INT32, IPU_SCALAR, "x");
    ipu_tensor      n       = machine_variable(g, IPU_INT32, IPU_SCALAR, "n");
    ipu_tensor      m       = machine_variable(g, IPU_INT32, IPU_SCALAR, "m");
    ipu_tensor      go      = machine_variable(g, IPU_BOOL, IPU_SCALAR, "go");
    ipu_compute_set compare = set_of(g, "Compare", n, "compare");
    ipu_vertex      last    = {g, (uint32_t)ipu_graph_n_vertices(g)};
    ipu_vertex_connect(last, "y", m);
    ipu_vertex_connect(last, "less", go);
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g), thrice = ipu_program_sequence(g);
    ipu_program_add_execute(p, set_of(g, "Fast", x, "fast"));
    ipu_program_add_repeat(p, 5, executing(g, set_of(g, "Slow", x, "slow")));
    ipu_program_add_repeat(thrice, 3, executing(g, set_of(g, "Fast", x, "called")));
    ipu_function f = ipu_graph_add_function(g, thrice, "f");
    ipu_program_add_call(p, f);
    ipu_program_add_call(p, f);
    ipu_program twice = executing(g, set_of(g, "Fast", x, "used twice"));
    ipu_program_add(p, twice);
    ipu_program_add_repeat(p, 4, twice);
    ipu_program_add_execute(body, set_of(g, "Fast", n, "count"));
    ipu_program_add_while_true(p, executing(g, compare), go, body);
    ipu_program_add_if(p, go, executing(g, set_of(g, "Fast", x, "then")),
                       executing(g, set_of(g, "Fast", x, "else")));
    return p;
}

static void run(ipu_engine *e, int32_t turns)
{
    assert_ok(ipu_engine_write(e, "n", &(int32_t){0}, sizeof turns));
    assert_ok(ipu_engine_write(e, "m", &turns, sizeof turns));
    assert_ok(ipu_engine_run(e, 0));
}

static void steps_ran_as_often_as_they_ran(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *name;
        int64_t     runs; /* of one run of the program, in which the while loop turns 7 times */
    } expected[] = {
        {"execute", "fast", 1},       {"execute", "slow", 5},  {"execute", "called", 6},
        {"execute", "used twice", 5}, {"execute", "count", 7}, {"execute", "compare", 8},
        {"execute", "then", 0},       {"execute", "else", 1},  {"call", "function \"f\"", 1},
        {"while_true", "", 8},        {"if", "", 1},           {"repeat", "5", 1},
    };
    ipu_graph  *g    = new_graph();
    ipu_program p    = everything(g);
    ipu_engine *e    = start(p);
    ipu_cost   *cost = priced(p);
    for (int i = 1; i <= N_RUNS; i++) {
        run(e, 7);
        add_times(e, cost);
        for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
            ipu_cost_step s = find(cost, expected[k].kind, expected[k].name);
            if (s.host_runs != i * expected[k].runs)
                fail_msg("%s %s: %lld runs, expected %lld", s.kind, s.name, (long long)s.host_runs,
                         (long long)(i * expected[k].runs));
            assert_true(s.host_seconds >= 0);
        }
    }
    ipu_cost_destroy(cost);
    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
}

/* What must hold is asserted; whether what holds on a machine that does nothing else does is returned. */
static bool times_look_right(ipu_program p, ipu_cost *cost)
{
    ipu_engine    *e     = start(p);
    int64_t        begin = now();
    ipu_step_time *times;
    size_t         n;
    run(e, 7);
    double took = 1e-9 * (double)(now() - begin), sum = 0;
    assert_ok(ipu_engine_step_times(e, &times, &n));
    for (size_t i = 0; i < n; i++) sum += times[i].seconds;
    ipu_free(times);
    add_times(e, cost);
    ipu_engine_destroy(e);
    ipu_cost_step slow = find(cost, "execute", "slow"), fast = find(cost, "execute", "fast");
    assert_true(slow.host_seconds >= 5 * 1e-9 * SLOW_NANOSECONDS);
    assert_true(sum >= slow.host_seconds);
    assert_true(sum <= took);
    return sum > 0.8 * took && fast.host_seconds < slow.host_seconds / 10;
}

static void times_are_those_of_the_steps_and_sum_to_the_run(void **state)
{
    (void)state;
    ipu_graph  *g    = new_graph();
    ipu_program p    = everything(g);
    ipu_cost   *cost = priced(p);
    bool        ok   = false;
    for (int i = 0; i < 20 && !ok; i++) ok = times_look_right(p, cost);
    assert_true(ok);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void copies_that_run_together_count_as_the_first(void **state)
{
    (void)state;
    ipu_graph     *g = new_graph();
    ipu_tensor     a = machine_variable(g, IPU_INT32, IPU_SHAPE(64), "a"), t[4];
    ipu_program    p = ipu_program_sequence(g);
    ipu_step_time *times;
    size_t         n;
    for (int i = 0; i < 4; i++)
        t[i] = machine_variable(g, IPU_INT32, IPU_SHAPE(64), (const char[]){(char)('p' + i), 0});
    for (int i = 0; i < 3; i++) ipu_program_add_copy(p, a, t[i]);
    ipu_program_add_copy(p, t[0], t[3]); /* waits for the first */
    ipu_engine *e = start(p);
    assert_ok(ipu_engine_step_times(e, &times, &n));
    assert_int_equal(n, 0);
    ipu_free(times);
    for (int i = 0; i < N_RUNS; i++) assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_step_times(e, &times, &n));
    assert_int_equal(n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(times[i].program, p.id);
        assert_int_equal(times[i].step, 3 * i);
        assert_int_equal(times[i].runs, N_RUNS);
        assert_true(times[i].seconds > 0);
    }
    ipu_free(times);
    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
}

static void a_run_that_fails_is_measured_as_far_as_it_went(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph();
    ipu_tensor  x = machine_variable(g, IPU_INT32, IPU_SCALAR, "x");
    ipu_program p = executing(g, set_of(g, "Slow", x, "slow"));
    ipu_program_add_repeat(p, 2, ipu_program_sequence(g)); /* leaves no instruction */
    ipu_program_add_execute(p, set_of(g, "Refuse", x, "refuse"));
    ipu_program_add_execute(p, set_of(g, "Fast", x, "never"));
    ipu_engine *e    = start(p);
    ipu_cost   *cost = priced(p);
    assert_status(ipu_engine_run(e, 0), IPU_ABORTED);
    add_times(e, cost);
    ipu_cost_step slow = find(cost, "execute", "slow"), refuse = find(cost, "execute", "refuse");
    assert_int_equal(slow.host_runs, 1);
    assert_int_equal(refuse.host_runs, 1);
    assert_int_equal(find(cost, "execute", "never").host_runs, 0);
    assert_true(slow.host_seconds >= 1e-9 * SLOW_NANOSECONDS);
    assert_true(refuse.host_seconds > 0);
    ipu_cost_destroy(cost);
    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
}

static ipu_status bring_zeros(void *user, void *data, size_t bytes)
{
    (void)user;
    memset(data, 0, bytes);
    return IPU_OK;
}

static ipu_status take(void *user, void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return IPU_OK;
}

/* Supersteps that an engine has counted: those of its compute sets and kernels. */
static int64_t supersteps(const ipu_engine *e)
{
    ipu_engine_counters counters;
    ipu_engine_get_counters(e, &counters);
    return counters.supersteps;
}

static void assert_runs_add_up(random_program *rp)
{
    ipu_options    *options = profiling();
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_cost       *cost;
    ipu_cost_step   s;
    int64_t         runs = 0;
    assert_ok(ipu_executable_compile(rp->graph, rp->programs, RP_N_PROGRAMS, options, &exe));
    assert_ok(ipu_engine_create(exe, options, &e));
    for (int i = 0; i < rp->n_streams; i++)
        for (int64_t r = 0; r < (rp->streams[i].broadcast ? 1 : rp->replication); r++)
            assert_ok(ipu_engine_connect_callback_replica(
                e, rp->streams[i].handle, r, rp->streams[i].to_device ? bring_zeros : take, NULL));
    for (size_t i = 0; i < RP_N_PROGRAMS; i++) {
        ipu_status status = ipu_engine_run(e, i);
        if (status != IPU_OK && status != IPU_ABORTED) fail_msg("%s", ipu_message());
    }
    assert_ok(ipu_cost_estimate(rp->graph, rp->programs, RP_N_PROGRAMS, NULL, &cost));
    add_times(e, cost);
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++)
        if (strcmp(s.kind, "execute") == 0 || strcmp(s.kind, "kernel") == 0) runs += s.host_runs;
    assert_int_equal(runs, supersteps(e));
    ipu_cost_destroy(cost);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
}

/* Every superstep that ran has its place among the steps of the cost. */
static void runs_of_random_programs_add_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= N_RANDOM; seed++) {
        random_program rp;
        random_program_create(&rp, seed);
        assert_string_equal(ipu_graph_message(rp.graph), "");
        assert_runs_add_up(&rp);
        ipu_graph_destroy(rp.graph);
    }
}

static void nothing_is_measured_unless_asked(void **state)
{
    (void)state;
    ipu_graph      *g = new_graph();
    ipu_program     p = executing(g, set_of(g, "Fast", machine_variable(g, IPU_INT32, IPU_SCALAR, "x"), "s"));
    ipu_options    *options = profiling();
    ipu_executable *plain, *exe;
    ipu_engine     *e;
    ipu_step_time  *times;
    size_t          n;
    assert_ok(ipu_executable_compile(g, &p, 1, NULL, &plain));
    assert_ok(ipu_executable_compile(g, &p, 1, options, &exe));
    assert_status(ipu_engine_create(plain, options, &e), IPU_INVALID);
    assert_says("\"profile\" is set for the engine and was not when its executable was compiled");
    assert_null(e);
    ipu_executable *const each[] = {plain, exe};
    for (int i = 0; i < 2; i++) {
        assert_ok(ipu_engine_create(each[i], NULL, &e));
        assert_ok(ipu_engine_run(e, 0));
        assert_status(ipu_engine_step_times(e, &times, &n), IPU_INVALID);
        assert_says("set the option \"profile\"");
        assert_null(times);
        ipu_engine_destroy(e);
    }
    ipu_executable_release(plain);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    ipu_graph_destroy(g);
}

static const char *json_path;

static void text_and_json_show_the_times(void **state)
{
    (void)state;
    ipu_graph    *g    = new_graph();
    ipu_program   p    = everything(g);
    ipu_engine   *e    = start(p);
    ipu_cost     *cost = priced(p);
    char         *text, expected[64];
    json_error_t  error;
    const json_t *step = NULL;
    size_t        i;
    for (int k = 0; k < N_RUNS; k++) run(e, 7);
    add_times(e, cost);
    ipu_cost_step slow = find(cost, "execute", "slow");
    assert_ok(ipu_cost_print(cost, IPU_PROFILE_STEPS, &text));
    snprintf(expected, sizeof expected, "%10.3f   execute slow", 1e6 * slow.host_seconds / (5 * N_RUNS));
    if (!strstr(text, expected)) fail_msg("expected \"%s\" in:\n%s", expected, text);
    if (!strstr(text, "-   execute then")) fail_msg("what did not run has a time:\n%s", text);
    ipu_free(text);
    assert_ok(ipu_cost_json(cost, 0, &text));
    json_t *o = json_loads(text, 0, &error);
    assert_non_null(o);
    json_array_foreach(json_object_get(o, "steps"), i, step)
    {
        const json_t *measured = json_object_get(step, "measured");
        if (strcmp(json_string_value(json_object_get(step, "name")), "then") == 0)
            assert_true(json_is_null(measured));
        if (strcmp(json_string_value(json_object_get(step, "name")), "slow") != 0) continue;
        assert_int_equal(json_integer_value(json_object_get(measured, "runs")), 5 * N_RUNS);
        assert_float_equal(json_real_value(json_object_get(measured, "seconds")), slow.host_seconds, 1e-9);
    }
    json_decref(o);
    FILE *file = json_path ? fopen(json_path, "w") : NULL;
    if (file) {
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    ipu_free(text);
    ipu_cost_destroy(cost);
    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_ran_as_often_as_they_ran),
        cmocka_unit_test(times_are_those_of_the_steps_and_sum_to_the_run),
        cmocka_unit_test(copies_that_run_together_count_as_the_first),
        cmocka_unit_test(a_run_that_fails_is_measured_as_far_as_it_went),
        cmocka_unit_test(runs_of_random_programs_add_up),
        cmocka_unit_test(nothing_is_measured_unless_asked),
        cmocka_unit_test(text_and_json_show_the_times),
    };
    json_path = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
