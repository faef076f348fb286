/* 05: compute sets over all tiles, and one to gather the result.
 *
 * Teaches data parallelism: spread a vector over the tiles, ask where its elements are, put one
 * vertex beside each part, and add up the parts' sums on one tile. A compute set is one superstep:
 * what a vertex of it writes, another vertex may read only in a later one.
 *
 * Expect:
 *     100000 numbers on 1472 tiles: 67 or 68 on each
 *     2945 vertices in 3 compute sets
 *     sum of squares: 333328333350000
 */
#include "example.h"

enum { N = 100000 };

/* One vertex, but its body runs once for each worker of the tile (six on a GC200). The workers
 * share the run between them: worker w takes elements w, w + n_workers, ... */
#define SQUARES(F) F(INOUT_VECTOR, int64_t, x)
IPU_MULTI_VERTEX(Squares, SQUARES)
{
    for (size_t i = worker; i < v->x.size; i += n_workers) v->x.data[i] *= v->x.data[i];
    return true;
}

#define SUM(F)               \
    F(IN_VECTOR, int64_t, x) \
    F(OUT, int64_t, sum)
IPU_VERTEX(Sum, SUM)
{
    int64_t sum = 0;
    for (size_t i = 0; i < v->x.size; i++) sum += v->x.data[i];
    *v->sum = sum;
    return true;
}

static void add_sum(ipu_graph *g, ipu_compute_set cs, int64_t tile, ipu_tensor x, ipu_tensor sum)
{
    ipu_vertex v = ipu_graph_add_vertex(g, cs, "Sum");
    ipu_graph_set_vertex_tile(g, v, tile);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "sum", sum);
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Squares);
    ipu_graph_add_codelet(g, &Sum);

    ipu_tensor x     = ipu_graph_add_variable(g, IPU_INT64, IPU_SHAPE(N), "x");
    ipu_tensor parts = ipu_graph_add_variable(g, IPU_INT64, IPU_SHAPE(ipu_graph_n_tiles(g)), "parts");
    ipu_tensor total = ipu_graph_add_variable(g, IPU_INT64, IPU_SCALAR, "total");
    ipu_graph_map_linearly(g, x);
    ipu_graph_map_linearly(g, parts); /* one partial sum on each tile */
    ipu_graph_set_tile_mapping(g, total, 0);

    ipu_compute_set square = ipu_graph_add_compute_set(g, "square");
    ipu_compute_set partly = ipu_graph_add_compute_set(g, "partial sums");
    ipu_compute_set finish = ipu_graph_add_compute_set(g, "total");

    /* Where the elements are, in tensor order: one interval per tile. */
    ipu_tile_interval *at;
    size_t             n;
    CHECK(ipu_graph_tile_mapping(g, x, &at, &n));
    int64_t least = N, most = 0;
    for (size_t i = 0; i < n; i++) {
        ipu_tensor mine = ipu_tensor_slice(x, at[i].begin, at[i].end, 0);
        ipu_vertex v    = ipu_graph_add_vertex(g, square, "Squares");
        ipu_graph_set_vertex_tile(g, v, at[i].tile);
        ipu_vertex_connect(v, "x", mine);
        add_sum(g, partly, at[i].tile, mine, ipu_tensor_index(parts, at[i].tile));

        int64_t size = at[i].end - at[i].begin;
        if (size < least) least = size;
        if (size > most) most = size;
    }
    printf("%d numbers on %d tiles: %d or %d on each\n", N, (int)n, (int)least, (int)most);
    ipu_free(at);
    add_sum(g, finish, 0, parts, total);

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, square);
    ipu_program_add_execute(p, partly);
    ipu_program_add_execute(p, finish);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "total", total);
    printf("%d vertices in %d compute sets\n", (int)ipu_graph_n_vertices(g),
           (int)ipu_graph_n_compute_sets(g));

    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    static int64_t number[N];
    int64_t        expected = 0, sum;
    for (int64_t i = 0; i < N; i++) {
        number[i] = i;
        expected += i * i;
    }
    CHECK(ipu_engine_write(e, "x", number, sizeof number));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "total", &sum, sizeof sum));
    printf("sum of squares: %lld\n", (long long)sum);
    EXPECT(sum == expected);

    ipu_engine_destroy(e);
    return 0;
}
