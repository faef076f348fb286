/* 01: hello from a tile.
 *
 * Teaches the whole path once, in the smallest program there is: a target, a graph, a variable,
 * a vertex on a tile, a program, an engine. Every later example is this one with more in it.
 *
 * Expect:
 *     gc200: 1472 tiles of 624 KiB, 6 workers each
 *     hello from tile 0
 *     hello from tile 735
 *     hello from tile 1471
 */
#include "example.h"

enum { LETTERS = 32 };

/* What a vertex computes. The list of fields makes `struct Hello`, which the body sees as `v`: a
 * number fixed when the graph is built, and a run of bytes that the vertex writes. */
#define HELLO(F)            \
    F(STATE, int32_t, tile) \
    F(OUT_VECTOR, uint8_t, text)

IPU_VERTEX(Hello, HELLO)
{
    for (size_t i = 0; i < v->text.size; i++) v->text.data[i] = 0; /* the host will read all of it */
    snprintf((char *)v->text.data, v->text.size, "hello from tile %d", v->tile);
    return true;
}

int main(void)
{
    /* The machine to compile for: one GC200. Nothing of it needs to be in this computer. */
    ipu_target target;
    CHECK(ipu_target_find("gc200", 1, &target));
    printf("%s: %d tiles of %d KiB, %d workers each\n", ipu_target_chip_name(&target),
           (int)ipu_target_n_tiles(&target), (int)(ipu_target_bytes_per_tile(&target) / 1024),
           (int)ipu_target_n_workers(&target));

    ipu_graph *g;
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Hello);

    /* Three rows of text, and three vertices that run at the same time. Each row lies on the
     * tile of the vertex that writes it; every element and every vertex needs a tile. */
    const int64_t   tiles[] = {0, 735, 1471};
    ipu_tensor      text    = ipu_graph_add_variable(g, IPU_UINT8, IPU_SHAPE(3, LETTERS), "text");
    ipu_compute_set greet   = ipu_graph_add_compute_set(g, "greet");
    for (int i = 0; i < 3; i++) {
        ipu_tensor row = ipu_tensor_index(text, i);
        ipu_vertex v   = ipu_graph_add_vertex(g, greet, "Hello");
        ipu_graph_set_tile_mapping(g, row, tiles[i]);
        ipu_graph_set_vertex_tile(g, v, tiles[i]);
        ipu_vertex_connect(v, "text", row);
        ipu_vertex_set(v, "tile", (double)tiles[i]);
    }
    ipu_graph_add_host_read(g, "text", text); /* let the host look at it after a run */

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, greet);

    /* Builders return no status: the first mistake is kept in the graph, and compiling reports
     * it with the file and line of the call. */
    ipu_executable *exe;
    ipu_engine     *e;
    CHECK(ipu_executable_compile(g, &p, 1, NULL, &exe));
    ipu_graph_destroy(g); /* the executable does not need it */
    CHECK(ipu_engine_create(exe, NULL, &e));
    CHECK(ipu_engine_run(e, 0));

    char lines[3][LETTERS];
    CHECK(ipu_engine_read(e, "text", lines, sizeof lines));
    for (int i = 0; i < 3; i++) puts(lines[i]);

    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    return 0;
}
