/* 16: ops of the library and your own vertices on the same tensors.
 *
 * Teaches builders: `ipu_builder_create` takes a graph and a program, and every function of the op library
 * (ipu/op.h) then appends kernel steps to that program. Values and tensors turn into one another, so that what
 * an op computed can be given to a vertex and back: here a vertex of ours sharpens what a softmax gave.
 *
 * Expect:
 *     logits    1.00  2.00  3.00  4.00
 *     softmax   0.03  0.09  0.24  0.64
 *     sharper   0.00  0.02  0.12  0.86
 */
#include "example.h"

enum { CLASSES = 4 };

#define SQUARE(F)             \
    F(IN_VECTOR, float, from) \
    F(OUT_VECTOR, float, to)
IPU_VERTEX(Square, SQUARE)
{
    for (size_t i = 0; i < v->to.size; i++) v->to.data[i] = v->from.data[i] * v->from.data[i];
    return true;
}

static void print_row(ipu_engine *e, const char *name)
{
    float row[CLASSES];
    CHECK(ipu_engine_read(e, name, row, sizeof row));
    printf("%-8s", name);
    for (int i = 0; i < CLASSES; i++) printf("  %.2f", row[i]);
    printf("\n");
}

int main(void)
{
    ipu_target   target;
    ipu_graph   *g;
    ipu_builder *b;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Square);
    ipu_program p = ipu_program_sequence(g);
    CHECK(ipu_builder_create(g, p, &b));

    ipu_tensor logits = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(CLASSES), "logits");
    ipu_graph_map_linearly(g, logits);

    /* Ops first: a kernel step each. */
    ipu_value  shares  = ipu_softmax(b, ipu_builder_value(b, logits), 0);
    ipu_tensor softmax = ipu_value_tensor(shares);

    /* Then a vertex on what they gave ... */
    ipu_tensor      squares = ipu_graph_clone(g, softmax, "squares");
    ipu_compute_set cs      = ipu_graph_add_compute_set(g, "square");
    ipu_graph_add_vertex_with(g, cs, "Square", 0, IPU_FIELDS(IPU_TO("from", softmax), IPU_TO("to", squares)));
    ipu_program_add_execute(p, cs);

    /* ... and ops on what it gave. */
    ipu_value s       = ipu_builder_value(b, squares);
    ipu_value sharper = ipu_div(b, s, ipu_reduce_sum(b, s, NULL, 0, false));

    ipu_graph_add_host_write(g, "logits", logits);
    ipu_graph_add_host_read(g, "logits", logits);
    ipu_graph_add_host_read(g, "softmax", softmax);
    ipu_graph_add_host_read(g, "sharper", ipu_value_tensor(sharper));
    CHECK(ipu_builder_status(b));
    ipu_builder_destroy(b);
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    CHECK(ipu_engine_write(e, "logits", (float[]){1, 2, 3, 4}, CLASSES * sizeof(float)));
    CHECK(ipu_engine_run(e, 0));
    print_row(e, "logits");
    print_row(e, "softmax");
    print_row(e, "sharper");
    ipu_engine_destroy(e);
    return 0;
}
