/* 10: library kernels and your own vertices in one program.
 *
 * Teaches kernels: operations over whole tensors (here matmul) that the engine runs with a library
 * made for it. A kernel is a step like any other, so it mixes freely with compute sets: this
 * program is a network of two layers that computes exclusive or, whose matrix products are kernels
 * and whose activation is a vertex.
 *
 * Expect:
 *     0 xor 0 = 0
 *     0 xor 1 = 1
 *     1 xor 0 = 1
 *     1 xor 1 = 0
 */
#include "example.h"

enum { CASES = 4, INPUTS = 2, HIDDEN = 2 };

/* x = max(0, x + bias), in place. */
#define BIAS_RELU(F)          \
    F(IN_VECTOR, float, bias) \
    F(INOUT_VECTOR, float, x)
IPU_VERTEX(BiasRelu, BIAS_RELU)
{
    for (size_t i = 0; i < v->x.size; i++) {
        float sum    = v->x.data[i] + v->bias.data[i];
        v->x.data[i] = sum > 0 ? sum : 0;
    }
    return true;
}

static ipu_tensor weights(ipu_graph *g, ipu_shape shape, const float *values, const char *name)
{
    ipu_tensor t = ipu_graph_add_constant(g, IPU_FLOAT, shape, values, name);
    ipu_graph_map_linearly(g, t);
    return t;
}

static ipu_tensor values(ipu_graph *g, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, shape, name);
    ipu_graph_map_linearly(g, t);
    return t;
}

/* out = a b: operands in the kernel's order, the result last. */
static void add_matmul(ipu_program p, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_program_add_kernel(p, "matmul", NULL, 0, (ipu_tensor[]){a, b, out}, 3);
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &BiasRelu);

    /* Both hidden units add their inputs; the second fires only when both are on. */
    ipu_tensor w1   = weights(g, IPU_SHAPE(INPUTS, HIDDEN), (float[]){1, 1, 1, 1}, "w1");
    ipu_tensor bias = weights(g, IPU_SHAPE(HIDDEN), (float[]){0, -1}, "bias");
    ipu_tensor w2   = weights(g, IPU_SHAPE(HIDDEN, 1), (float[]){1, -2}, "w2");
    ipu_tensor x    = values(g, IPU_SHAPE(CASES, INPUTS), "x");
    ipu_tensor h    = values(g, IPU_SHAPE(CASES, HIDDEN), "h");
    ipu_tensor y    = values(g, IPU_SHAPE(CASES, 1), "y");

    ipu_compute_set activate = ipu_graph_add_compute_set(g, "activate");
    for (int i = 0; i < CASES; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, activate, "BiasRelu");
        ipu_graph_set_vertex_tile(g, v, i);
        ipu_vertex_connect(v, "bias", bias);
        ipu_vertex_connect(v, "x", ipu_tensor_index(h, i));
    }

    ipu_program p = ipu_program_sequence(g);
    add_matmul(p, x, w1, h);
    ipu_program_add_execute(p, activate);
    add_matmul(p, h, w2, y);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    const float table[CASES][INPUTS] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    float       result[CASES];
    CHECK(ipu_engine_write(e, "x", table, sizeof table));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "y", result, sizeof result));
    for (int i = 0; i < CASES; i++) {
        printf("%g xor %g = %g\n", table[i][0], table[i][1], result[i]);
        EXPECT(result[i] == (float)(table[i][0] != table[i][1]));
    }
    ipu_engine_destroy(e);
    return 0;
}
