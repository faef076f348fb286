/* 12: a graph as text, and back.
 *
 * Teaches the text form (docs/text-format.md): print a graph with its programs, parse the text, and
 * run what was parsed. Codelets go by name: the text has their signatures, the parser is given
 * the bodies. `ipu dump` reads the same language.
 *
 * Expect: expected/12_text_form.expected
 */
#include <string.h>

#include "example.h"

enum { N = 6 };

#define SCALE(F)        \
    F(STATE, float, by) \
    F(INOUT_VECTOR, float, x)
IPU_VERTEX(Scale, SCALE)
{
    for (size_t i = 0; i < v->x.size; i++) v->x.data[i] *= v->by;
    return true;
}

/* Every other element of x doubled, five times; then x reversed into y. */
static ipu_graph *build(ipu_program *p)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Scale);

    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "x");
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "y");
    ipu_graph_set_initial_value(g, x, (float[N]){1, 2, 3, 4, 5, 6});
    ipu_graph_map_linearly_by(g, x, 2, 2);
    ipu_graph_set_tile_mapping(g, y, 0);

    ipu_compute_set cs = ipu_graph_add_compute_set(g, "scale");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Scale");
    ipu_graph_set_vertex_tile(g, v, 1);
    ipu_vertex_connect(v, "x", ipu_tensor_subsample(x, 2, 0));
    ipu_vertex_set(v, "by", 2);

    ipu_program body = ipu_program_sequence(g);
    ipu_program_add_execute(body, cs);
    *p = ipu_program_sequence(g);
    ipu_program_add_repeat(*p, 5, body);
    ipu_program_add_copy(*p, ipu_tensor_reverse(x, 0), y);
    ipu_graph_add_host_read(g, "y", y);
    return g;
}

static void run(ipu_graph *g, ipu_program p, float y[N])
{
    ipu_engine *e = example_engine(g, p);
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "y", y, sizeof(float[N])));
    ipu_engine_destroy(e);
}

int main(void)
{
    ipu_program p;
    ipu_graph  *g = build(&p);
    char       *text, *again;
    CHECK(ipu_graph_print(g, &p, 1, 0, NULL, &text));
    fputs(text, stdout);

    ipu_parsed               parsed;
    const ipu_codelet *const bodies[] = {&Scale};
    CHECK(ipu_graph_parse(text, strlen(text), "printed.ipu", bodies, 1, NULL, &parsed));
    CHECK(ipu_graph_print(parsed.graph, parsed.programs, parsed.n_programs, 0, NULL, &again));
    EXPECT(strcmp(text, again) == 0);
    puts("\nparsed and printed again: the same text");

    float built_y[N], parsed_y[N];
    run(g, p, built_y);
    run(parsed.graph, parsed.programs[0], parsed_y);
    EXPECT(memcmp(built_y, parsed_y, sizeof built_y) == 0);
    EXPECT(memcmp(built_y, (float[N]){6, 160, 4, 96, 2, 32}, sizeof built_y) == 0);
    printf("run from the text: y =");
    for (int i = 0; i < N; i++) printf(" %g", parsed_y[i]);
    putchar('\n');

    /* A mistake in a text is reported as a compiler would. */
    const char *wrong = "graph target gc200 {\n  var x floaty[4] on 0;\n}\n";
    ipu_parsed  none;
    EXPECT(ipu_graph_parse(wrong, strlen(wrong), "wrong.ipu", NULL, 0, NULL, &none) == IPU_INVALID);
    printf("\n%s\n", ipu_message());

    ipu_free(text);
    ipu_free(again);
    ipu_graph_destroy(parsed.graph);
    ipu_graph_destroy(g);
    return 0;
}
