/* A workbench for costs: codelets that do nothing, small graphs, and one step priced.
 * Each user of it is one test executable: it defines the codelets.
 */
#ifndef IPU_TESTS_COST_BENCH_H
#define IPU_TESTS_COST_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define ADD(F) F(IN_VECTOR, float, a) F(IN_VECTOR, float, b) F(OUT_VECTOR, float, c)
IPU_VERTEX(Add, ADD)
{
    (void)v;
    return true;
}

#define TOUCH(F) F(IN_VECTOR, float, x)
IPU_VERTEX(Touch, TOUCH)
{
    (void)v;
    return true;
}

#define PUT(F) F(OUT_VECTOR, float, y)
IPU_VERTEX(Put, PUT)
{
    (void)v;
    return true;
}

#define RAISE(F) F(INOUT_VECTOR, float, y)
IPU_VERTEX(Raise, RAISE)
{
    (void)v;
    return true;
}

#define WIDE(F) F(IN_VECTOR, float, x)
IPU_MULTI_VERTEX(Wide, WIDE)
{
    (void)v, (void)worker, (void)n_workers;
    return true;
}

#define TABLE(F)               \
    F(IN_VECTORS, float, rows) \
    F(STATE, float, factor) F(STATE_VECTOR, uint16_t, steps) F(IN_POINTER, ipu_half, h)
IPU_VERTEX(Table, TABLE)
{
    (void)v;
    return true;
}

static inline ipu_graph *new_graph(const char *chip, int64_t ipus, int64_t replication)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find(chip, ipus, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, replication, &g), IPU_OK);
    const ipu_codelet *const codelets[] = {&Add, &Touch, &Put, &Raise, &Wide, &Table};
    for (size_t i = 0; i < sizeof codelets / sizeof *codelets; i++) ipu_graph_add_codelet(g, codelets[i]);
    return g;
}

static inline ipu_tensor on_tile(ipu_graph *g, ipu_type type, int64_t n, int64_t tile, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, IPU_SHAPE(n), name);
    ipu_graph_set_tile_mapping(g, t, tile);
    return t;
}

static inline ipu_vertex add_vertex(ipu_graph *g, ipu_compute_set cs, const char *codelet, int64_t tile,
                                    const char *field, ipu_tensor t)
{
    ipu_vertex v = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, tile);
    ipu_vertex_connect(v, field, t);
    return v;
}

static inline ipu_cost *estimate(ipu_graph *g, ipu_program p)
{
    ipu_cost *cost;
    assert_string_equal(ipu_graph_message(g), "");
    ipu_status status = ipu_cost_estimate(g, &p, 1, NULL, &cost);
    if (status != IPU_OK) print_error("%s\n", ipu_message());
    assert_int_equal(status, IPU_OK);
    return cost;
}

static inline ipu_cost_step step_at(const ipu_cost *cost, int64_t i)
{
    ipu_cost_step s;
    assert_true(ipu_cost_step_at(cost, i, &s));
    return s;
}

static inline ipu_cost_summary summary_of(const ipu_cost *cost)
{
    ipu_cost_summary s;
    ipu_cost_get_summary(cost, &s);
    return s;
}

/* The first step of a program that executes `cs`. */
static inline ipu_cost_step price_set(ipu_graph *g, ipu_compute_set cs)
{
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_cost     *cost = estimate(g, p);
    ipu_cost_step s    = step_at(cost, 0);
    ipu_cost_destroy(cost);
    s.name = s.where = s.note = s.part = NULL;
    return s;
}

static inline ipu_compute_set table_set(ipu_graph *g)
{
    ipu_compute_set cs      = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      x       = on_tile(g, IPU_FLOAT, 8, 0, "x");
    ipu_tensor      rows[2] = {ipu_tensor_slice(x, 0, 3, 0), ipu_tensor_slice(x, 3, 8, 0)};
    ipu_vertex      v       = add_vertex(g, cs, "Table", 0, "h", on_tile(g, IPU_HALF, 6, 0, "h"));
    ipu_vertex_connect_list(v, "rows", rows, 2);
    ipu_vertex_set(v, "factor", 1.5);
    ipu_vertex_set_data(v, "steps", (uint16_t[]){10, 20, 30, 40}, 4);
    return cs;
}

#endif
