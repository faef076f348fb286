/* 09: the same graph on four IPUs.
 *
 * Teaches replication: you write the graph of one replica; each of four IPUs has it with values of its own.
 * What differs comes from its own stream or from the replication index; a broadcast stream gives
 * all the same. The replicas then add up a vector over a ring: in each of three rounds every
 * one passes on what it received last and adds what arrives (an all-reduce, as in training).
 *
 * Expect: expected/09_replicated_graph.expected
 */
#include "example.h"

enum { REPLICAS = 4, N = 3 };

/* own = scale * data + 100 * replica */
#define MAKE(F)               \
    F(IN, uint32_t, replica)  \
    F(IN, float, scale)       \
    F(IN_VECTOR, float, data) \
    F(OUT_VECTOR, float, own)
IPU_VERTEX(Make, MAKE)
{
    for (size_t i = 0; i < v->own.size; i++)
        v->own.data[i] = *v->scale * v->data.data[i] + 100.0f * (float)*v->replica;
    return true;
}

#define ACCUMULATE(F)      \
    F(IN_VECTOR, float, x) \
    F(INOUT_VECTOR, float, sum)
IPU_VERTEX(Accumulate, ACCUMULATE)
{
    for (size_t i = 0; i < v->sum.size; i++) v->sum.data[i] += v->x.data[i];
    return true;
}

static ipu_tensor vector(ipu_graph *g, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), name);
    ipu_graph_map_linearly(g, t);
    return t;
}

static ipu_compute_set one_vertex(ipu_graph *g, const char *codelet, ipu_vertex *v)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, codelet);
    *v                 = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, *v, 0);
    return cs;
}

/* own = scale * data + 100 * replica, with data and scale from the host. */
static void add_inputs(ipu_graph *g, ipu_program p, ipu_tensor own)
{
    ipu_stream data_in  = ipu_graph_add_host_to_device(g, "data", IPU_FLOAT, N, IPU_STREAM_REPLICATE);
    ipu_stream scale_in = ipu_graph_add_host_to_device(g, "scale", IPU_FLOAT, 1, IPU_STREAM_BROADCAST);
    ipu_tensor data     = vector(g, "data");
    ipu_tensor scale    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "scale");
    ipu_tensor replica  = ipu_graph_add_replication_index(g, "replica");
    ipu_vertex v;
    ipu_graph_set_tile_mapping(g, scale, 0);
    ipu_graph_set_tile_mapping(g, replica, 0);

    ipu_compute_set make = one_vertex(g, "Make", &v);
    ipu_vertex_connect(v, "replica", replica);
    ipu_vertex_connect(v, "scale", scale);
    ipu_vertex_connect(v, "data", data);
    ipu_vertex_connect(v, "own", own);

    ipu_program_add_read(p, data_in, data);
    ipu_program_add_read(p, scale_in, scale);
    ipu_program_add_execute(p, make);
}

/* sum = own of all replicas, by passing everything once around the ring. */
static void add_all_reduce(ipu_graph *g, ipu_program p, ipu_tensor own, ipu_tensor sum)
{
    const int64_t next[REPLICAS] = {1, 2, 3, 0};
    ipu_tensor    leaving = vector(g, "leaving"), arriving = vector(g, "arriving");
    ipu_vertex    v;

    ipu_compute_set accumulate = one_vertex(g, "Accumulate", &v);
    ipu_vertex_connect(v, "x", arriving);
    ipu_vertex_connect(v, "sum", sum);

    ipu_program round = ipu_program_sequence(g);
    ipu_program_add_cross_replica_copy(round, leaving, arriving, next, REPLICAS);
    ipu_program_add_execute(round, accumulate);
    ipu_program_add_copy(round, arriving, leaving);

    ipu_program_add_copy(p, own, sum);
    ipu_program_add_copy(p, own, leaving);
    ipu_program_add_repeat(p, REPLICAS - 1, round);
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", REPLICAS, &target));
    CHECK(ipu_graph_create(&target, REPLICAS, &g));
    ipu_graph_add_codelet(g, &Make);
    ipu_graph_add_codelet(g, &Accumulate);
    printf("%d IPUs, %d tiles; a replica has %d tiles\n", (int)target.n_ipus,
           (int)ipu_target_n_tiles(&target), (int)ipu_graph_n_tiles(g));

    ipu_tensor  own = vector(g, "own"), sum = vector(g, "sum");
    ipu_program p = ipu_program_sequence(g);
    add_inputs(g, p, own);
    add_all_reduce(g, p, own, sum);
    ipu_graph_add_host_read(g, "own", own);
    ipu_graph_add_host_read(g, "sum", sum);
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    float data[REPLICAS][N] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}}, scale = 2;
    for (int r = 0; r < REPLICAS; r++)
        CHECK(ipu_engine_connect_stream_replica(e, "data", r, data[r], sizeof data[r]));
    CHECK(ipu_engine_connect_stream(e, "scale", &scale, sizeof scale));
    CHECK(ipu_engine_run(e, 0));

    for (int r = 0; r < REPLICAS; r++) {
        float mine[N], all[N];
        CHECK(ipu_engine_read_replica(e, "own", r, mine, sizeof mine));
        CHECK(ipu_engine_read_replica(e, "sum", r, all, sizeof all));
        printf("replica %d: own %3g %3g %3g   sum %g %g %g\n", r, mine[0], mine[1], mine[2], all[0], all[1],
               all[2]);
        for (int i = 0; i < N; i++)
            EXPECT(all[i] == 2 * (data[0][i] + data[1][i] + data[2][i] + data[3][i]) + 600);
    }
    ipu_engine_destroy(e);
    return 0;
}
