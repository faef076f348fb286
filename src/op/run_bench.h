/* For tests: ops emitted into a graph and run by an engine, with plain arrays as inputs and outputs.
 *
 *     bench     t = bench_start();
 *     ipu_value y = ipu_reverse(t.b, bench_floats(&t, IPU_SHAPE(3), (float[]){1, 2, 3}), 0);
 *     bench_expect(&t, y, IPU_SHAPE(3), (float[]){3, 2, 1});
 *     bench_end(&t);
 */
#ifndef IPU_OP_RUN_BENCH_H
#define IPU_OP_RUN_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "op/op.h"

typedef struct bench {
    ipu_graph   *g;
    ipu_program  p;
    ipu_builder *b;
    ipu_engine  *e;
    int          n_results;
} bench;

#define bench_ok(call)                                                   \
    do {                                                                 \
        ipu_status status_ = (call);                                     \
        if (status_ != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)

static inline bench bench_start(void)
{
    bench      t = {0};
    ipu_target target;
    bench_ok(ipu_target_find("gc200", 1, &target));
    bench_ok(ipu_target_limit_tiles(&target, 16));
    bench_ok(ipu_graph_create(&target, 1, &t.g));
    t.p = ipu_program_sequence(t.g);
    bench_ok(ipu_builder_create(t.g, t.p, &t.b));
    return t;
}

static inline void bench_end(bench *t)
{
    ipu_engine_destroy(t->e);
    ipu_builder_destroy(t->b);
    ipu_graph_destroy(t->g);
}

static inline ipu_value bench_input(bench *t, ipu_type type, ipu_shape shape, const void *data)
{
    ipu_tensor x = ipu_graph_add_variable(t->g, type, shape, NULL);
    ipu_graph_map_linearly(t->g, x);
    ipu_graph_set_initial_value(t->g, x, data);
    return ipu_builder_value(t->b, x);
}

#define bench_floats(t, shape, data) bench_input(t, IPU_FLOAT, shape, data)
#define bench_ints(t, shape, data) bench_input(t, IPU_INT32, shape, data)

/* Marks a result to be read after the run; returns its number. */
static inline int bench_result(bench *t, ipu_value v)
{
    char name[32];
    if (ipu_builder_status(t->b) != IPU_OK) fail_msg("%s", ipu_builder_message(t->b));
    snprintf(name, sizeof name, "result %d", t->n_results);
    ipu_tensor out = ipu_graph_add_variable(t->g, ipu_value_type(v), ipu_value_shape(v), name);
    ipu_graph_map_linearly(t->g, out);
    ipu_graph_add_host_read(t->g, name, out);
    ipu_program_add_copy(t->p, ipu_value_tensor(v), out);
    return t->n_results++;
}

/* Compiles; runs. */
static inline ipu_status bench_run(bench *t, const char *threads)
{
    ipu_executable *exe = NULL;
    ipu_options    *options;
    bench_ok(ipu_executable_compile(t->g, &t->p, 1, NULL, &exe));
    bench_ok(ipu_options_create(&options));
    bench_ok(ipu_options_set(options, "threads", threads));
    ipu_engine_destroy(t->e);
    bench_ok(ipu_engine_create(exe, options, &t->e));
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    return ipu_engine_run(t->e, 0);
}

static inline void bench_read(bench *t, int result, void *out, size_t bytes)
{
    char name[32];
    snprintf(name, sizeof name, "result %d", result);
    bench_ok(ipu_engine_read(t->e, name, out, bytes));
}

/* Checks the only result of a test: its shape and bits, with one thread and with two. */
static inline void bench_expect(bench *t, ipu_value v, ipu_shape shape, const void *expected)
{
    if (ipu_builder_status(t->b) != IPU_OK) fail_msg("%s", ipu_builder_message(t->b));
    ipu_shape found = ipu_value_shape(v);
    if (!ipu__shape_equal(&found, &shape)) {
        char a[64], b[64];
        ipu_shape_text(&found, a, sizeof a);
        ipu_shape_text(&shape, b, sizeof b);
        fail_msg("shape %s, expected %s", a, b);
    }
    int    result = bench_result(t, v);
    size_t bytes  = (size_t)ipu_value_n_elements(v) * ipu_type_size(ipu_value_type(v));
    char  *data   = malloc(bytes + 1);
    assert_non_null(data);
    for (int threads = 1; threads <= 2; threads++) {
        bench_ok(bench_run(t, threads == 1 ? "1" : "2"));
        bench_read(t, result, data, bytes);
        assert_memory_equal(data, expected, bytes);
    }
    free(data);
}

/* The builder must have failed, with a message containing this. */
static inline void bench_refused(bench *t, const char *text)
{
    assert_int_equal(ipu_builder_status(t->b), IPU_INVALID);
    if (!strstr(ipu_builder_message(t->b), text))
        fail_msg("expected \"%s\" in: %s", text, ipu_builder_message(t->b));
    bench_end(t);
    *t = bench_start();
}

#endif
