/* Compute sets and copies over threads: the same results on any number of them, and the first failure is
 * reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cpu/cpu.h"
#include "ipu/ipu.h"

enum { N = 20000 };

#define WEIGH(F) F(IN, uint32_t, x) F(OUT, uint32_t, y) F(STATE, uint32_t, number)
IPU_VERTEX(Weigh, WEIGH)
{
    *v->y = *v->x * 7 + v->number;
    return true;
}

#define PAIR(F) F(INOUT_VECTOR, uint32_t, x)
IPU_MULTI_VERTEX(Pair, PAIR)
{
    for (size_t i = worker; i < v->x.size; i += n_workers) v->x.data[i] = v->x.data[i] * 3 + worker;
    return true;
}

#define PICKY(F) F(IN, uint32_t, x) F(STATE, uint32_t, number)
IPU_VERTEX(Picky, PICKY)
{
    return *v->x != v->number;
}

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 2, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 2, &g), IPU_OK);
    ipu_graph_add_codelet(g, &Weigh);
    ipu_graph_add_codelet(g, &Pair);
    ipu_graph_add_codelet(g, &Picky);
    return g;
}

static ipu_tensor new_variable(ipu_graph *g, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_UINT32, IPU_SHAPE(N), name);
    ipu_graph_map_linearly(g, t);
    ipu_graph_add_host_write(g, name, t);
    ipu_graph_add_host_read(g, name, t);
    return t;
}

static ipu_engine *new_engine(ipu_graph *g, ipu_program p, const char *threads)
{
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", threads), IPU_OK);
    if (ipu_executable_compile(g, &p, 1, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_engine_create(exe, options, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return e;
}

/* y = 7 x + i; z = y transposed; columns of z changed, which need gathering and scattering; back to x. */
static void add_work(ipu_graph *g, ipu_program p, ipu_tensor x, ipu_tensor y, ipu_tensor z)
{
    ipu_compute_set weigh = ipu_graph_add_compute_set(g, "weigh"),
                    pair  = ipu_graph_add_compute_set(g, "pair");
    for (int64_t i = 0; i < N; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, weigh, "Weigh");
        ipu_graph_set_vertex_tile(g, v, i % 1472);
        ipu_vertex_connect(v, "x", ipu_tensor_index(x, i));
        ipu_vertex_connect(v, "y", ipu_tensor_index(y, i));
        ipu_vertex_set(v, "number", (double)i);
    }
    ipu_tensor columns = ipu_tensor_transpose(ipu_tensor_reshape(z, IPU_SHAPE(10, N / 10)));
    for (int64_t i = 0; i < N / 10; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, pair, "Pair");
        ipu_graph_set_vertex_tile(g, v, i % 1472);
        ipu_vertex_connect(v, "x", ipu_tensor_index(columns, i));
    }
    ipu_program_add_execute(p, weigh);
    ipu_program_add_copy(p, ipu_tensor_transpose(ipu_tensor_reshape(y, IPU_SHAPE(100, N / 100))), z);
    ipu_program_add_execute(p, pair);
    ipu_program_add_copy(p, z, x);
}

static void expect(uint32_t *x, uint32_t *y, uint32_t *z, unsigned n_workers)
{
    for (uint32_t i = 0; i < N; i++) y[i] = x[i] * 7 + i;
    for (uint32_t i = 0; i < N; i++) z[i] = y[i % 100 * (N / 100) + i / 100];
    for (uint32_t i = 0; i < N; i++) z[i] = z[i] * 3 + i / (N / 10) % n_workers;
    memcpy(x, z, N * sizeof *x);
}

static void any_number_of_threads_computes_the_same(void **state)
{
    (void)state;
    static const char *const threads[] = {"1", "2", "5"};
    static uint32_t          x[2][N], y[N], z[N], found[N];
    for (size_t t = 0; t < 3; t++) {
        ipu_graph  *g = new_graph();
        ipu_program p = ipu_program_sequence(g);
        ipu_tensor  a = new_variable(g, "x"), b = new_variable(g, "y"), c = new_variable(g, "z");
        add_work(g, p, a, b, c);
        assert_string_equal(ipu_graph_message(g), "");
        ipu_engine *e = new_engine(g, p, threads[t]);
        ipu_graph_destroy(g);
        for (uint32_t r = 0; r < 2; r++) {
            for (uint32_t i = 0; i < N; i++) x[r][i] = i * 2654435761u + r;
            assert_int_equal(ipu_engine_write_replica(e, "x", r, x[r], sizeof x[r]), IPU_OK);
        }
        for (int run = 0; run < 6; run++) assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
        for (uint32_t r = 0; r < 2; r++) {
            for (int run = 0; run < 6; run++) expect(x[r], y, z, e->exe->n_workers);
            assert_int_equal(ipu_engine_read_replica(e, "x", r, found, sizeof found), IPU_OK);
            assert_memory_equal(found, x[r], sizeof found);
        }
        ipu_engine_counters counters;
        ipu_engine_get_counters(e, &counters);
        assert_int_equal(counters.runs, 6);
        assert_int_equal(counters.supersteps, 12);
        assert_int_equal(counters.vertices, 6 * 2 * (N + N / 10));
        assert_int_equal(counters.copied_bytes, 6 * 2 * 2 * 4 * N);
        assert_int_equal(counters.threads, atoi(threads[t]));
        ipu_engine_destroy(e);
    }
}

/* Vertices 19,999, 12,345 and 777 of replica 1 fail, and 13,000 of replica 0: 777 is reported, every time. */
static void the_failure_told_is_the_lowest(void **state)
{
    (void)state;
    static uint32_t x[N];
    ipu_graph      *g  = new_graph();
    ipu_program     p  = ipu_program_sequence(g);
    ipu_tensor      a  = new_variable(g, "x");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "watch");
    for (int64_t i = 0; i < N; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Picky");
        ipu_graph_set_vertex_tile(g, v, i % 1000);
        ipu_vertex_connect(v, "x", ipu_tensor_index(a, i));
        ipu_vertex_set(v, "number", (double)i);
    }
    ipu_program_add_execute(p, cs);
    ipu_engine *e = new_engine(g, p, "4");
    ipu_graph_destroy(g);
    for (int run = 0; run < 20; run++) {
        memset(x, 0xff, sizeof x);
        x[13000] = 13000;
        assert_int_equal(ipu_engine_write(e, "x", x, sizeof x), IPU_OK);
        x[19999] = 19999, x[12345] = 12345, x[777] = 777;
        assert_int_equal(ipu_engine_write_replica(e, "x", 1, x, sizeof x), IPU_OK);
        assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
        if (!strstr(ipu_message(), "vertex \"Picky\" of compute set \"watch\" on tile 777 of replica 1 (")
            || !strstr(ipu_message(), "execute_test.c:"))
            fail_msg("%s", ipu_message());
        memset(x, 0xff, sizeof x);
        assert_int_equal(ipu_engine_write(e, "x", x, sizeof x), IPU_OK);
        assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    }
    ipu_engine_destroy(e);
}

static void add_one(const ipu__work *work, int64_t begin, int64_t end)
{
    unsigned char *seen = *(unsigned char *const *)work->object;
    for (int64_t i = begin; i < end; i++) seen[i]++;
}

static void every_item_is_done_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 31, 32, 33, 1000, 12345};
    ipu_graph           *g       = new_graph();
    ipu_engine          *e       = new_engine(g, ipu_program_sequence(g), "4");
    unsigned char       *seen    = malloc(12345);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ipu__work work = {.runner = ipu__cpu_of(e)->runners, .run = add_one, .object = &seen};
        memset(seen, 0, 12345);
        ipu__parallel_run(&work, sizes[i]);
        for (int64_t k = 0; k < 12345; k++) assert_int_equal(seen[k], k < sizes[i]);
    }
    free(seen);
    ipu_engine_destroy(e);
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_computes_the_same),
        cmocka_unit_test(the_failure_told_is_the_lowest),
        cmocka_unit_test(every_item_is_done_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
