/* 04: a vertex that adds two numbers.
 *
 * Teaches codelets: AdderVertex, which every Poplar tutorial begins with, in C. What is
 * `Input<float> x` there is F(IN, float, x) here; `compute()` is the block after IPU_VERTEX.
 *
 * Expect:
 *     AdderVertex: 3 fields, 24 bytes
 *       in float x
 *       in float y
 *       out float sum
 *     1.5 + 2.25 = 3.75
 *     3 + 4 = 7
 */
#include "example.h"

#define ADDER(F)    \
    F(IN, float, x) \
    F(IN, float, y) \
    F(OUT, float, sum)

IPU_VERTEX(AdderVertex, ADDER)
{
    *v->sum = *v->x + *v->y;
    return true; /* false would stop the program with an error that names this vertex */
}

/* The same list also made a record, which a graph, a printer or a binding can read. */
static void print_signature(const ipu_codelet *codelet)
{
    static const char *const form[] = {
#define X(name, text, direction, shape) text,
        IPU_FIELD_FORM_LIST(X)
#undef X
    };
    printf("%s: %u fields, %u bytes\n", codelet->name, codelet->n_fields, codelet->bytes);
    for (unsigned i = 0; i < codelet->n_fields; i++) {
        const ipu_codelet_field *field = &codelet->fields()[i];
        printf("  %s %s %s\n", form[field->form], ipu_type_name(field->type), field->name);
    }
}

static float add(ipu_engine *e, float x, float y)
{
    float sum;
    CHECK(ipu_engine_write(e, "x", &x, sizeof x));
    CHECK(ipu_engine_write(e, "y", &y, sizeof y));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "sum", &sum, sizeof sum));
    printf("%g + %g = %g\n", x, y, sum);
    return sum;
}

int main(void)
{
    print_signature(&AdderVertex);

    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &AdderVertex);

    ipu_tensor x   = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "x");
    ipu_tensor y   = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "y");
    ipu_tensor sum = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "sum");

    /* The numbers may lie anywhere. On a chip, y travels from tile 1 to the vertex on tile 0
     * before it runs: mapping and wiring say all there is to say about communication. */
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, y, 1);
    ipu_graph_set_tile_mapping(g, sum, 0);

    ipu_compute_set cs = ipu_graph_add_compute_set(g, "add");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "AdderVertex");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_vertex_connect(v, "sum", sum);

    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_write(g, "y", y);
    ipu_graph_add_host_read(g, "sum", sum);

    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);

    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    EXPECT(add(e, 1.5f, 2.25f) == 3.75f);
    EXPECT(add(e, 3, 4) == 7);

    ipu_engine_destroy(e);
    return 0;
}
