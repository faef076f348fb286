/* 13: memory beside the chip, and functions.
 *
 * Teaches remote buffers (rows of memory beside the chip, for what does not fit on tiles) and functions (a
 * body compiled once and called from several places). The matrix stays in a remote buffer; the
 * program brings in one row after another by a row number that it counts itself, smooths the
 * row twice by calling the same function, and writes it back.
 *
 * Expect:
 *     row 0:  0  0  0  1  2  3  2  1  0  0  0
 *     row 1: 18 18  9  0  0  0  0  0  9 18 18
 *     row 2:  5  8  9  9  9  9  9  9  9  8  5
 */
#include <string.h>

#include "example.h"

enum { ROWS = 3, N = 11 };

/* out[i] = sum of x[i-1], x[i], x[i+1]; what lies outside counts as 0. */
#define SMOOTH(F)            \
    F(IN_VECTOR, int32_t, x) \
    F(OUT_VECTOR, int32_t, out)
IPU_VERTEX(Smooth, SMOOTH)
{
    size_t n = v->x.size;
    for (size_t i = 0; i < n; i++) {
        v->out.data[i] = v->x.data[i];
        if (i > 0) v->out.data[i] += v->x.data[i - 1];
        if (i + 1 < n) v->out.data[i] += v->x.data[i + 1];
    }
    return true;
}

#define COUNT(F) F(INOUT, uint32_t, i)
IPU_VERTEX(Count, COUNT)
{
    ++*v->i;
    return true;
}

static ipu_tensor variable(ipu_graph *g, ipu_type type, int64_t n, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, IPU_SHAPE(n), name);
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

static ipu_compute_set one_vertex(ipu_graph *g, const char *codelet, ipu_vertex *v)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, codelet);
    *v                 = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, *v, 0);
    return cs;
}

/* A function works on the tensors it names: its argument is put into x, its result is found there. */
static ipu_function smooth(ipu_graph *g, ipu_tensor x)
{
    ipu_tensor      out = variable(g, IPU_INT32, N, "out");
    ipu_vertex      v;
    ipu_compute_set cs = one_vertex(g, "Smooth", &v);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "out", out);
    ipu_program body = ipu_program_sequence(g);
    ipu_program_add_execute(body, cs);
    ipu_program_add_copy(body, out, x);
    return ipu_graph_add_function(g, body, "smooth");
}

static ipu_program build(ipu_graph *g)
{
    ipu_remote_buffer matrix = ipu_graph_add_remote_buffer(g, "matrix", IPU_INT32, N, ROWS);
    ipu_tensor        x      = variable(g, IPU_INT32, N, "x");
    ipu_tensor        row    = variable(g, IPU_UINT32, 1, "row");
    ipu_tensor        zero   = ipu_graph_add_constant_value(g, IPU_UINT32, IPU_SHAPE(1), 0, "zero");
    ipu_function      f      = smooth(g, x);
    ipu_vertex        v;
    ipu_compute_set   count = one_vertex(g, "Count", &v);
    ipu_graph_set_tile_mapping(g, zero, 0);
    ipu_vertex_connect(v, "i", row);

    ipu_program body = ipu_program_sequence(g);
    ipu_program_add_remote_read(body, matrix, row, x);
    ipu_program_add_call(body, f);
    ipu_program_add_call(body, f);
    ipu_program_add_remote_write(body, x, matrix, row);
    ipu_program_add_execute(body, count);

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, zero, row);
    ipu_program_add_repeat(p, ROWS, body);
    return p;
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Smooth);
    ipu_graph_add_codelet(g, &Count);
    ipu_program p = build(g);
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    const int32_t before[ROWS][N] = {
        {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0},
        {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9},
        {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
    };
    const int32_t expected[ROWS][N] = {
        {0, 0, 0, 1, 2, 3, 2, 1, 0, 0, 0},
        {18, 18, 9, 0, 0, 0, 0, 0, 9, 18, 18},
        {5, 8, 9, 9, 9, 9, 9, 9, 9, 8, 5},
    };
    for (int r = 0; r < ROWS; r++)
        CHECK(ipu_engine_write_remote(e, "matrix", 0, r, before[r], sizeof before[r]));
    CHECK(ipu_engine_run(e, 0));
    for (int r = 0; r < ROWS; r++) {
        int32_t after[N];
        CHECK(ipu_engine_read_remote(e, "matrix", 0, r, after, sizeof after));
        printf("row %d:", r);
        for (int i = 0; i < N; i++) printf(" %2d", after[i]);
        putchar('\n');
        EXPECT(memcmp(after, expected[r], sizeof after) == 0);
    }
    ipu_engine_destroy(e);
    return 0;
}
