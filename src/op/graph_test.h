/* For tests of emitted ops: values built in a graph, run by an engine, read as doubles. */
#ifndef IPU_OP_GRAPH_TEST_H
#define IPU_OP_GRAPH_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/model.h"
#include "op/number.h"
#include "op/op.h"

typedef struct graph_bench {
    ipu_graph   *g;
    ipu_program  p;
    ipu_builder *b;
} graph_bench;

static inline graph_bench graph_start(void)
{
    graph_bench t;
    ipu_target  target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &t.g), IPU_OK);
    t.p = ipu_program_sequence(t.g);
    assert_int_equal(ipu_builder_create(t.g, t.p, &t.b), IPU_OK);
    return t;
}

static inline void graph_end(graph_bench *t)
{
    ipu_builder_destroy(t->b);
    ipu_graph_destroy(t->g);
}

static inline ipu_value graph_floats(graph_bench *t, ipu_shape shape, const double *values)
{
    float floats[256];
    for (int64_t i = 0; i < ipu__op_n_elements(&shape); i++) floats[i] = (float)values[i];
    return ipu_constant_data(t->b, IPU_FLOAT, shape, floats);
}

static inline ipu_value graph_labels(graph_bench *t, ipu_shape shape, const int32_t *labels)
{
    return ipu_constant_data(t->b, IPU_INT32, shape, labels);
}

/* Runs what has been emitted; *out[0..n) receives `v`. */
static inline ipu_status graph_run(graph_bench *t, ipu_value v, double *out, int64_t n)
{
    ipu_executable *exe = NULL;
    ipu_engine     *e   = NULL;
    float           floats[256];
    if (ipu_builder_status(t->b) != IPU_OK) fail_msg("%s", ipu_builder_message(t->b));
    assert_int_equal(ipu_value_n_elements(v), n);
    assert_int_equal(ipu_value_type(v), IPU_FLOAT);
    ipu_tensor result = ipu_graph_add_variable(t->g, IPU_FLOAT, ipu_value_shape(v), "result");
    ipu_graph_map_linearly(t->g, result);
    ipu_program_add_copy(t->p, ipu_value_tensor(v), result);
    ipu_graph_add_host_read(t->g, "result", result);
    if (ipu_executable_compile(t->g, &t->p, 1, NULL, &exe) != IPU_OK
        || ipu_engine_create(exe, NULL, &e) != IPU_OK)
        fail_msg("%s", ipu_message());
    ipu_status status = ipu_engine_run(e, 0);
    if (status == IPU_OK)
        assert_int_equal(ipu_engine_read(e, "result", floats, (size_t)n * sizeof *floats), IPU_OK);
    for (int64_t i = 0; i < n && status == IPU_OK; i++) out[i] = (double)floats[i];
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    return status;
}

/* Ends the bench. */
static inline void graph_expect(graph_bench *t, ipu_value v, const double *expected, int64_t n)
{
    double found[256];
    if (graph_run(t, v, found, n) != IPU_OK) fail_msg("%s", ipu_message());
    for (int64_t i = 0; i < n; i++) {
        double a = expected[i], b = found[i];
        if (isnan(a) ? !isnan(b) : !(a == b || fabs(a - b) <= 2e-6 * (fabs(a) > 1 ? fabs(a) : 1)))
            fail_msg("element %lld is %.9g, expected %.9g", (long long)i, b, a);
    }
    graph_end(t);
}

static inline void graph_refused(graph_bench *t, ipu_value v, const char *words)
{
    assert_int_equal(v.id, 0);
    assert_int_equal(ipu_builder_status(t->b), IPU_INVALID);
    if (!strstr(ipu_builder_message(t->b), words))
        fail_msg("\"%s\" is not in \"%s\"", words, ipu_builder_message(t->b));
    graph_end(t);
}

/* The gradient of the scalar fn(x), by a model. */
static inline void graph_gradient(ipu_value (*fn)(ipu_builder *b, ipu_value x), ipu_shape shape,
                                  const double *x, const double *expected)
{
    ipu_model      *m   = NULL;
    ipu_executable *exe = NULL;
    ipu_engine     *e   = NULL;
    ipu_target      target;
    float           floats[256];
    int64_t         n = ipu__op_n_elements(&shape);
    for (int64_t i = 0; i < n; i++) floats[i] = (float)x[i];
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_value v = ipu_model_parameter(m, IPU_FLOAT, shape, floats, "x"), d;
    ipu_value y = fn(ipu_model_builder(m), v);
    ipu_model_gradients(m, y, &v, 1, NULL, &d);
    ipu_model_output(m, d, "d");
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK || ipu_engine_create(exe, NULL, &e) != IPU_OK
        || ipu_engine_run(e, 0) != IPU_OK
        || ipu_engine_read(e, "d", floats, (size_t)n * sizeof *floats) != IPU_OK)
        fail_msg("%s", ipu_message());
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)floats[i] - expected[i])
              <= 1e-6 * (fabs(expected[i]) > 1 ? fabs(expected[i]) : 1)))
            fail_msg("gradient %lld is %.9g, expected %.9g", (long long)i, (double)floats[i], expected[i]);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(m);
}

#define GRAPH_VALUES(...) ((const double[]){__VA_ARGS__}), (sizeof((double[]){__VA_ARGS__}) / sizeof(double))

#endif
