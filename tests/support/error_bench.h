/* A workbench for provoking errors: a graph with some tensors, codelets and a program, and what a
 * message must say. Each user of it is one test executable: it defines the codelets.
 */
#ifndef IPU_TESTS_ERROR_BENCH_H
#define IPU_TESTS_ERROR_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define ADDER(F) F(IN, float, x) F(IN, float, y) F(OUT, float, sum)
IPU_VERTEX(Adder, ADDER)
{
    *v->sum = *v->x + *v->y;
    return true;
}

#define SCALE(F) F(IN_VECTOR, float, from) F(OUT_VECTOR, float, to) F(STATE, float, factor)
IPU_VERTEX(Scale, SCALE)
{
    for (size_t i = 0; i < v->to.size; i++) v->to.data[i] = v->factor * v->from.data[i];
    return true;
}

#define INCREMENT(F) F(INOUT_POINTER, float, values) F(STATE, int8_t, n)
IPU_VERTEX(Increment, INCREMENT)
{
    for (int8_t i = 0; i < v->n; i++) v->values[i] += 1;
    return true;
}

#define SUM_ROWS(F) F(IN_VECTORS, float, rows) F(OUT_VECTOR, float, sums)
IPU_VERTEX(SumRows, SUM_ROWS)
{
    for (size_t r = 0; r < v->rows.size; r++) {
        v->sums.data[r] = 0;
        for (size_t i = 0; i < v->rows.data[r].size; i++) v->sums.data[r] += v->rows.data[r].data[i];
    }
    return true;
}

enum { N_TILES = 8 };

/* A graph with a program and a compute set that runs in it, and some mapped tensors. */
typedef struct bench {
    ipu_graph      *g;
    ipu_program     p;
    ipu_compute_set cs;
    ipu_tensor      x, y, z;    /* float[8], each on tile 0 */
    ipu_tensor      flag, c, h; /* a bool, a constant float[8], a half[8] */
} bench;

static inline ipu_graph *new_graph(int64_t n_ipus, int64_t replication)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", n_ipus, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, N_TILES), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, replication, &g), IPU_OK);
    return g;
}

static inline ipu_tensor mapped(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

static inline bench start(void)
{
    bench b = {.g = new_graph(1, 1)};
    ipu_graph_add_codelet(b.g, &Adder);
    ipu_graph_add_codelet(b.g, &Scale);
    ipu_graph_add_codelet(b.g, &Increment);
    ipu_graph_add_codelet(b.g, &SumRows);
    b.x    = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "x");
    b.y    = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "y");
    b.z    = mapped(b.g, IPU_FLOAT, IPU_SHAPE(8), "z");
    b.h    = mapped(b.g, IPU_HALF, IPU_SHAPE(8), "h");
    b.flag = mapped(b.g, IPU_BOOL, IPU_SCALAR, "flag");
    b.c    = ipu_graph_add_constant_value(b.g, IPU_FLOAT, IPU_SHAPE(8), 3, "c");
    ipu_graph_set_tile_mapping(b.g, b.c, 0);
    b.cs = ipu_graph_add_compute_set(b.g, "work");
    b.p  = ipu_program_sequence(b.g);
    ipu_program_add_execute(b.p, b.cs);
    return b;
}

/* Builds on a line of this file: errors of the call it is an argument of must name that call's line. */
static inline ipu_tensor element(ipu_tensor t, int64_t i) { return ipu_tensor_slice(t, i, i + 1, 0); }

static inline void expect_text(const char *message, const char *text)
{
    if (!strstr(message, text)) fail_msg("expected \"%s\" in:\n%s", text, message);
}

static inline void expect_line(const char *message, const char *file, int line)
{
    char where[300];
    snprintf(where, sizeof where, "%s:%d", file, line);
    const char *at = strstr(message, where);
    if (!at || (at[strlen(where)] >= '0' && at[strlen(where)] <= '9'))
        fail_msg("expected \"%s\" in:\n%s", where, message);
}

/* Compiling must fail at `line` with all of these texts in the message, NULL at the end. Ends the bench. */
static inline void expect_error_in(const char *file, bench *b, ipu_status status, int line, ...)
{
    ipu_executable *exe   = NULL;
    ipu_status      found = ipu_graph_check(b->g, &b->p, 1);
    char           *first = strdup(ipu_message());
    if (found != status) fail_msg("line %d: status %d, expected %d: %s", line, found, status, first);
    assert_int_equal(ipu_executable_compile(b->g, &b->p, 1, NULL, &exe), status);
    assert_null(exe);
    assert_string_equal(ipu_message(), first);
    expect_line(first, file, line);
    va_list texts;
    va_start(texts, line);
    for (const char *text = va_arg(texts, const char *); text; text = va_arg(texts, const char *))
        expect_text(first, text);
    va_end(texts);
    free(first);
    ipu_graph_destroy(b->g);
}

#define expect_error(b, ...) expect_error_in(__FILE__, b, IPU_INVALID, __VA_ARGS__)
#define expect_not_found(b, ...) expect_error_in(__FILE__, b, IPU_NOT_FOUND, __VA_ARGS__)

static inline void expect_good(bench *b)
{
    ipu_status status = ipu_graph_check(b->g, &b->p, 1);
    if (status != IPU_OK) fail_msg("%s", ipu_message());
    ipu_graph_destroy(b->g);
}

static inline ipu_vertex add_adder(bench *b, ipu_tensor x, ipu_tensor y, ipu_tensor sum)
{
    ipu_vertex v = ipu_graph_add_vertex(b->g, b->cs, "Adder");
    ipu_graph_set_vertex_tile(b->g, v, 1);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_vertex_connect(v, "sum", sum);
    return v;
}

static inline ipu_vertex add_scale(bench *b, ipu_tensor from, ipu_tensor to)
{
    ipu_vertex v = ipu_graph_add_vertex(b->g, b->cs, "Scale");
    ipu_graph_set_vertex_tile(b->g, v, 1);
    ipu_vertex_connect(v, "from", from);
    ipu_vertex_connect(v, "to", to);
    ipu_vertex_set(v, "factor", 2);
    return v;
}

#endif
