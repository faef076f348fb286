/* 02: variables, constants, and the four ways in and out.
 *
 * Teaches what holds values (variables, constants, initial values), that an engine keeps them
 * from run to run, and how data move: a stream from memory (a ring), a stream to a callback,
 * a host handle that needs no step of the program, and a print step that goes to the log.
 *
 * Expect: expected/02_variables_and_streams.expected
 */
#include <string.h>

#include "example.h"

enum { N = 4 };

/* Called for every transfer of stream "out". */
static ipu_status show(void *user, void *data, size_t bytes)
{
    int         *n_transfers = user;
    const float *value       = data;
    printf("run %d: out receives", (*n_transfers)++);
    for (size_t i = 0; i < bytes / sizeof *value; i++) printf(" %g", value[i]);
    putchar('\n');
    return IPU_OK;
}

/* The library never prints: what a print step says arrives here. */
static void print(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)module;
    if (level == IPU_LOG_PRINT) printf("       print: %s\n", text);
}

static ipu_engine *build(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));

    /* A variable is undefined until written, unless it has an initial value. A constant has its
     * values for ever. Both are on tiles: here x on tile 0, the others where we like. */
    const float ones[N] = {1, 1, 1, 1}, before[N] = {-1, -1, -1, -1};
    ipu_tensor  x      = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "x");
    ipu_tensor  last   = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "last");
    ipu_tensor  border = ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(N), ones, "border");
    ipu_graph_set_initial_value(g, last, before);
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, last, 1);
    ipu_graph_map_linearly(g, border); /* one element on each of tiles 0 to 3 */

    /* A transfer of "in" fills x; a transfer of "out" takes three tensors joined to one view. */
    ipu_stream in  = ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, N, IPU_STREAM_REPLICATE);
    ipu_stream out = ipu_graph_add_device_to_host(g, "out", IPU_FLOAT, 3 * N);
    ipu_tensor all = ipu_tensor_concat((ipu_tensor[]){last, border, x}, 3, 0);

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_read(p, in, x);
    ipu_program_add_write(p, all, out);
    ipu_program_add_print(p, "x", x);
    ipu_program_add_copy(p, x, last); /* seen by the next run */

    /* Between runs the host reaches `last` by name. */
    ipu_graph_add_host_read(g, "last", last);
    ipu_graph_add_host_write(g, "last", last);

    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);
    return e;
}

int main(void)
{
    ipu_log_set(IPU_LOG_PRINT, print, NULL);
    ipu_engine *e = build();

    /* Two transfers' worth of memory: the third run begins again at the first. */
    float ring[2][N]  = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    int   n_transfers = 0;
    CHECK(ipu_engine_connect_stream(e, "in", ring, sizeof ring));
    CHECK(ipu_engine_connect_callback(e, "out", show, &n_transfers));
    for (int run = 0; run < 3; run++) CHECK(ipu_engine_run(e, 0));

    float seen[N];
    CHECK(ipu_engine_read(e, "last", seen, sizeof seen));
    printf("host reads last: %g %g %g %g\n", seen[0], seen[1], seen[2], seen[3]);
    EXPECT(memcmp(seen, ring[0], sizeof seen) == 0);

    CHECK(ipu_engine_write(e, "last", (float[N]){9, 9, 9, 9}, sizeof(float[N])));
    CHECK(ipu_engine_run(e, 0));
    EXPECT(n_transfers == 4);

    ipu_engine_destroy(e);
    return 0;
}
