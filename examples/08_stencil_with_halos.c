/* 08: heat on a plate, on every tile of a GC200.
 *
 * Teaches a stencil: the plate is cut into 23 x 64 blocks, one for each of the 1472 tiles. To advance, a
 * tile needs its own block and a rim one cell wide from its neighbours (the halo). Here the halo is just
 * a view: a slice that is one cell larger than the block on every side. Which cells must travel
 * between tiles follows from the mapping. Two copies of the plate take turns, since a
 * compute set may not read what it writes.
 *
 * The heaters, held at 100 degrees, are tiles without a vertex. Expect: expected/08_stencil_with_halos.expected,
 * in which each character is a tile; the result is checked bit for bit against a plain C loop.
 */
#include <string.h>

#include "example.h"

enum { TILE_ROWS = 23, TILE_COLUMNS = 64 };                                 /* 1472 tiles in all */
enum { HEIGHT = 8, WIDTH = 4 };                                             /* cells of a tile's block */
enum { ROWS = TILE_ROWS * HEIGHT + 2, COLUMNS = TILE_COLUMNS * WIDTH + 2 }; /* with a cold rim */

static const char *const heaters[TILE_ROWS] = {
    [5]  = "        ########     ###########        ####       ####",
    [6]  = "           ##          ##      ##        ##         ##",
    [7]  = "           ##          ##       ##       ##         ##",
    [8]  = "           ##          ##       ##       ##         ##",
    [9]  = "           ##          ##      ##        ##         ##",
    [10] = "           ##          #########         ##         ##",
    [11] = "           ##          ##                ##         ##",
    [12] = "           ##          ##                ##         ##",
    [13] = "           ##          ##                ##         ##",
    [14] = "           ##          ##                 ##       ##",
    [15] = "        ########     ######                #########",
};

static bool is_heater(int tile)
{
    const char *row    = heaters[tile / TILE_COLUMNS];
    size_t      column = (size_t)(tile % TILE_COLUMNS);
    return row && column < strlen(row) && row[column] == '#';
}

/* New temperature of each cell of a block: the mean of its four neighbours. `old` has a row
 * more above and below, and a cell more at both ends of a row. */
#define DIFFUSE(F)            \
    F(IN_VECTORS, float, old) \
    F(OUT_VECTORS, float, new)
IPU_VERTEX(Diffuse, DIFFUSE)
{
    for (size_t r = 0; r < v->new.size; r++) {
        const float *above = v->old.data[r].data, *here = v->old.data[r + 1].data;
        const float *below = v->old.data[r + 2].data;
        float       *to    = v->new.data[r].data;
        for (size_t c = 0; c < v->new.data[r].size; c++)
            to[c] = 0.25f * (above[c + 1] + below[c + 1] + here[c] + here[c + 2]);
    }
    return true;
}

/* The block of a tile, grown by `halo` cells on every side. */
static ipu_tensor block_of(ipu_tensor plate, int tile, int halo)
{
    int64_t row = 1 + tile / TILE_COLUMNS * HEIGHT, column = 1 + tile % TILE_COLUMNS * WIDTH;
    return ipu_tensor_slice_all(plate, (int64_t[]){row - halo, column - halo},
                                (int64_t[]){row + HEIGHT + halo, column + WIDTH + halo});
}

static ipu_tensor add_plate(ipu_graph *g, const char *name)
{
    ipu_tensor plate = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(ROWS, COLUMNS), name);
    ipu_graph_set_tile_mapping(g, plate, 0); /* the rim stays there, the rest moves: */
    for (int tile = 0; tile < TILE_ROWS * TILE_COLUMNS; tile++)
        ipu_graph_set_tile_mapping(g, block_of(plate, tile, 0), tile);
    return plate;
}

static ipu_compute_set diffuse(ipu_graph *g, ipu_tensor from, ipu_tensor to)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "diffuse");
    for (int tile = 0; tile < TILE_ROWS * TILE_COLUMNS; tile++) {
        if (is_heater(tile)) continue;
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Diffuse");
        ipu_graph_set_vertex_tile(g, v, tile);
        ipu_vertex_connect(v, "old", block_of(from, tile, 1)); /* a run for each row */
        ipu_vertex_connect(v, "new", block_of(to, tile, 0));
    }
    return cs;
}

static void heat(float plate[ROWS][COLUMNS])
{
    memset(plate, 0, sizeof(float[ROWS][COLUMNS]));
    for (int r = 1; r < ROWS - 1; r++)
        for (int c = 1; c < COLUMNS - 1; c++)
            if (is_heater((r - 1) / HEIGHT * TILE_COLUMNS + (c - 1) / WIDTH)) plate[r][c] = 100;
}

/* The same two steps as a C programmer would write them without tiles. */
static void plain_step(float from[ROWS][COLUMNS], float to[ROWS][COLUMNS])
{
    for (int r = 1; r < ROWS - 1; r++)
        for (int c = 1; c < COLUMNS - 1; c++)
            if (!is_heater((r - 1) / HEIGHT * TILE_COLUMNS + (c - 1) / WIDTH))
                to[r][c] = 0.25f * (from[r - 1][c] + from[r + 1][c] + from[r][c - 1] + from[r][c + 1]);
}

/* One character for each tile: the mean temperature of its block. */
static void picture(float plate[ROWS][COLUMNS])
{
    static const char ramp[] = " .,:;-=+*oxOX%@#";
    for (int r = 0; r < TILE_ROWS; r++) {
        char line[TILE_COLUMNS + 1] = "";
        for (int c = 0; c < TILE_COLUMNS; c++) {
            float sum = 0;
            for (int i = 0; i < HEIGHT * WIDTH; i++)
                sum += plate[1 + r * HEIGHT + i / WIDTH][1 + c * WIDTH + i % WIDTH];
            int mean = (int)(sum / (HEIGHT * WIDTH));
            line[c]  = ramp[mean * (int)(sizeof ramp - 2) / 100];
        }
        printf("|%s|\n", line);
    }
}

int main(void)
{
    static float plate[ROWS][COLUMNS], plain[2][ROWS][COLUMNS];
    ipu_target   target;
    ipu_graph   *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Diffuse);

    heat(plate);
    ipu_tensor a = add_plate(g, "a"), b = add_plate(g, "b");
    ipu_graph_set_initial_value(g, a, plate);
    ipu_graph_set_initial_value(g, b, plate); /* rim and heaters are never written */

    enum { STEPS_A_RUN = 100 };
    ipu_program there_and_back = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_program_add_execute(there_and_back, diffuse(g, a, b));
    ipu_program_add_execute(there_and_back, diffuse(g, b, a));
    ipu_program_add_repeat(p, STEPS_A_RUN / 2, there_and_back);
    ipu_graph_add_host_read(g, "plate", a);

    printf("%d x %d cells on %d tiles; %d vertices in each of %d compute sets\n", ROWS - 2, COLUMNS - 2,
           (int)ipu_graph_n_tiles(g), (int)ipu_graph_n_vertices(g) / 2, (int)ipu_graph_n_compute_sets(g));
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    memcpy(plain[0], plate, sizeof plate);
    memcpy(plain[1], plate, sizeof plate);
    for (int run = 1; run <= 10; run++) {
        CHECK(ipu_engine_run(e, 0));
        CHECK(ipu_engine_read(e, "plate", plate, sizeof plate));
        for (int step = 0; step < STEPS_A_RUN; step++) plain_step(plain[step % 2], plain[1 - step % 2]);
        EXPECT(memcmp(plate, plain[0], sizeof plate) == 0);
        if (run != 1 && run != 10) continue;
        printf("\nafter %d supersteps\n", run * STEPS_A_RUN);
        picture(plate);
    }
    ipu_engine_counters counters;
    ipu_engine_get_counters(e, &counters);
    printf("\n%lld vertices ran in %lld supersteps; every cell equals the plain C loop's, bit for bit\n",
           (long long)counters.vertices, (long long)counters.supersteps);
    ipu_engine_destroy(e);
    return 0;
}
