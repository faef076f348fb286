/* 07: y = A x with A spread over 96 tiles in three ways.
 *
 * Teaches that the mapping is the algorithm. Rows, columns and square blocks are all blocks of some
 * size; a block's tile multiplies it by its part of x, and where several blocks share a row
 * their partial results are added in a second compute set. The result is the same; what
 * travels between tiles is not.
 *
 * Expect:
 *     blocks of   tiles  vertices  supersteps  numbers received by the busiest tile
 *      1 x 64        96        96           1  64
 *     96 x  1        64       160           2  64
 *      8 x  8        96       192           2  15
 */
#include <string.h>

#include "example.h"

enum { ROWS = 96, COLUMNS = 64, TILES = 96 };

#define MULTIPLY(F)         \
    F(IN_VECTORS, float, a) \
    F(IN_VECTOR, float, x)  \
    F(OUT_VECTOR, float, y)
IPU_VERTEX(Multiply, MULTIPLY)
{
    for (size_t r = 0; r < v->a.size; r++) {
        float sum = 0;
        for (size_t c = 0; c < v->x.size; c++) sum += v->a.data[r].data[c] * v->x.data[c];
        v->y.data[r] = sum;
    }
    return true;
}

#define SUM(F)                \
    F(IN_VECTOR, float, part) \
    F(OUT, float, sum)
IPU_VERTEX(Sum, SUM)
{
    float sum = 0;
    for (size_t i = 0; i < v->part.size; i++) sum += v->part.data[i];
    *v->sum = sum;
    return true;
}

/* How many elements of `t` a vertex on `tile` must be sent. */
static int64_t from_elsewhere(ipu_graph *g, ipu_tensor t, int64_t tile)
{
    ipu_tile_interval *at;
    size_t             n;
    int64_t            count = 0;
    CHECK(ipu_graph_tile_mapping(g, t, &at, &n));
    for (size_t i = 0; i < n; i++)
        if (at[i].tile != tile) count += at[i].end - at[i].begin;
    ipu_free(at);
    return count;
}

/* Blocks of `height` x `width`, each on a tile of its own. `part` has a row of partial results
 * for each column of blocks. */
static ipu_compute_set add_blocks(ipu_graph *g, ipu_tensor a, ipu_tensor x, ipu_tensor part, int height,
                                  int width, int64_t *received)
{
    ipu_compute_set cs   = ipu_graph_add_compute_set(g, "multiply");
    int64_t         tile = 0;
    for (int64_t r = 0; r < ROWS; r += height) {
        for (int64_t c = 0; c < COLUMNS; c += width, tile++) {
            ipu_tensor block = ipu_tensor_slice_all(a, (int64_t[]){r, c}, (int64_t[]){r + height, c + width});
            ipu_tensor its_x = ipu_tensor_slice(x, c, c + width, 0);
            ipu_tensor its_y = ipu_tensor_slice(ipu_tensor_index(part, c / width), r, r + height, 0);
            ipu_vertex v     = ipu_graph_add_vertex(g, cs, "Multiply");
            ipu_graph_set_tile_mapping(g, block, tile);
            ipu_graph_set_tile_mapping(g, its_y, tile);
            ipu_graph_set_vertex_tile(g, v, tile);
            ipu_vertex_connect(v, "a", block); /* rank 2: a run for each row */
            ipu_vertex_connect(v, "x", its_x);
            ipu_vertex_connect(v, "y", its_y);
            received[tile] += from_elsewhere(g, its_x, tile);
        }
    }
    printf("%2d x %2d     %5d", height, width, (int)tile);
    return cs;
}

/* y[r] is the sum of column r of `part`, on the tile where y[r] is. */
static ipu_compute_set add_sums(ipu_graph *g, ipu_tensor part, ipu_tensor y, int64_t *received)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "sum");
    for (int64_t r = 0; r < ROWS; r++) {
        ipu_tensor column = ipu_tensor_slice(part, r, r + 1, 1);
        ipu_vertex v      = ipu_graph_add_vertex(g, cs, "Sum");
        ipu_graph_set_vertex_tile(g, v, r);
        ipu_vertex_connect(v, "part", column);
        ipu_vertex_connect(v, "sum", ipu_tensor_index(y, r));
        received[r] += from_elsewhere(g, column, r);
    }
    return cs;
}

static void multiply(int height, int width, const float *a_data, const float *x_data, float *y_data)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_target_limit_tiles(&target, TILES));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Multiply);
    ipu_graph_add_codelet(g, &Sum);

    ipu_tensor a    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(ROWS, COLUMNS), "a");
    ipu_tensor x    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(COLUMNS), "x");
    ipu_tensor y    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1, ROWS), "y");
    ipu_tensor part = y; /* with one column of blocks, there is nothing to add up */
    if (width < COLUMNS)
        part = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(COLUMNS / width, ROWS), "part");
    ipu_graph_map_linearly(g, x); /* x[i] on tile i, */
    ipu_graph_map_linearly(g, y); /* and y[i] too */

    int64_t     received[TILES] = {0}, most = 0;
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, add_blocks(g, a, x, part, height, width, received));
    if (width < COLUMNS) ipu_program_add_execute(p, add_sums(g, part, ipu_tensor_index(y, 0), received));
    for (int i = 0; i < TILES; i++)
        if (received[i] > most) most = received[i];
    printf("  %8d  %10d  %d\n", (int)ipu_graph_n_vertices(g), (int)ipu_graph_n_compute_sets(g), (int)most);

    ipu_graph_add_host_write(g, "a", a);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);
    CHECK(ipu_engine_write(e, "a", a_data, sizeof(float[ROWS * COLUMNS])));
    CHECK(ipu_engine_write(e, "x", x_data, sizeof(float[COLUMNS])));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "y", y_data, sizeof(float[ROWS])));
    ipu_engine_destroy(e);
}

int main(void)
{
    /* Small whole numbers: every order of adding gives the same float. */
    static float a[ROWS][COLUMNS], x[COLUMNS], expected[ROWS], y[ROWS];
    for (int c = 0; c < COLUMNS; c++) x[c] = (float)(c % 5 - 2);
    for (int r = 0; r < ROWS; r++) {
        for (int c = 0; c < COLUMNS; c++) {
            a[r][c] = (float)((7 * r + 3 * c) % 11 - 5);
            expected[r] += a[r][c] * x[c];
        }
    }
    const int blocks[][2] = {{1, COLUMNS}, {ROWS, 1}, {8, 8}};
    puts("blocks of   tiles  vertices  supersteps  numbers received by the busiest tile");
    for (int i = 0; i < 3; i++) {
        multiply(blocks[i][0], blocks[i][1], a[0], x, y);
        EXPECT(memcmp(y, expected, sizeof y) == 0);
    }
    return 0;
}
