/* 14: a codelet that is compiled while the program runs.
 *
 * Teaches ipu_graph_add_codelet_source and ipu_graph_add_codelet_file: the body is text, made here for one
 * polynomial, so that its coefficients are constants to the compiler. The system's C compiler makes code
 * for this very CPU; the next run finds it in the cache. The last part shows what a mistake looks like.
 *
 * Expect:
 *     p(x) = 2 + 3 x + 0.5 x^2
 *     p(0) = 2
 *     p(1) = 5.5
 *     p(2) = 10
 *     p(3) = 15.5
 *     a mistake: wrong.c:5
 */
#include <string.h>

#include "example.h"

enum { N = 4, N_COEFFICIENTS = 3 };

/* The source of a codelet that computes c[0] + c[1] x + c[2] x^2 ..., by Horner's rule. */
static void write_source(const float *c, int n, char *out, size_t bytes)
{
    int at = snprintf(out, bytes,
                      "#include \"ipu/codelet.h\"\n"
                      "#define POLYNOMIAL(F) F(IN_VECTOR, float, x) F(OUT_VECTOR, float, y)\n"
                      "IPU_VERTEX(Polynomial, POLYNOMIAL)\n"
                      "{\n"
                      "    for (size_t i = 0; i < v->y.size; i++) {\n"
                      "        float x = v->x.data[i], y = 0;\n");
    for (int k = n - 1; k >= 0; k--)
        at += snprintf(out + at, bytes - (size_t)at, "        y = y * x + (float)%a;\n", (double)c[k]);
    snprintf(out + at, bytes - (size_t)at, "        v->y.data[i] = y;\n    }\n    return true;\n}\n");
}

static void print_polynomial(const float *c, int n)
{
    printf("p(x) =");
    for (int k = 0; k < n; k++) {
        printf("%s %g", k ? " +" : "", (double)c[k]);
        if (k == 1) printf(" x");
        if (k > 1) printf(" x^%d", k);
    }
    printf("\n");
}

static void show_mistake(const ipu_target *target)
{
    static const char wrong[] = "#include \"ipu/codelet.h\"\n"
                                "#define FIELDS(F) F(OUT, float, y)\n"
                                "IPU_VERTEX(Wrong, FIELDS)\n"
                                "{\n"
                                "    *v->z = 1; return true;\n"
                                "}\n";
    ipu_graph        *g;
    CHECK(ipu_graph_create(target, 1, &g));
    ipu_graph_add_codelet_source(g, "wrong.c", wrong, NULL);
    EXPECT(ipu_graph_status(g) == IPU_INVALID);
    /* The whole message is the compiler's own, after the line of the call above. */
    const char *at = strstr(ipu_graph_message(g), "wrong.c:5");
    printf("a mistake: %.9s\n", at ? at : ipu_graph_message(g));
    ipu_graph_destroy(g);
}

int main(void)
{
    static const float coefficients[N_COEFFICIENTS] = {2, 3, 0.5f};
    const float        x[N]                         = {0, 1, 2, 3};
    float              y[N];
    char               source[1024];
    write_source(coefficients, N_COEFFICIENTS, source, sizeof source);
    print_polynomial(coefficients, N_COEFFICIENTS);

    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));

    /* All codelets that the text defines are known from here on. A file is as easy:
     * ipu_graph_add_codelet_file(g, "polynomial.c", "-DDEGREE=2"). */
    ipu_graph_add_codelet_source(g, "polynomial.c", source, NULL);

    ipu_tensor in  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "x");
    ipu_tensor out = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "y");
    ipu_graph_set_tile_mapping(g, in, 0);
    ipu_graph_set_tile_mapping(g, out, 0);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "polynomial");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Polynomial");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", in);
    ipu_vertex_connect(v, "y", out);
    ipu_graph_add_host_write(g, "x", in);
    ipu_graph_add_host_read(g, "y", out);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);

    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);
    CHECK(ipu_engine_write(e, "x", x, sizeof x));
    CHECK(ipu_engine_run(e, 0));
    CHECK(ipu_engine_read(e, "y", y, sizeof y));
    for (int i = 0; i < N; i++) {
        printf("p(%g) = %g\n", (double)x[i], (double)y[i]);
        EXPECT(y[i] == 2 + 3 * x[i] + 0.5f * x[i] * x[i]);
    }
    ipu_engine_destroy(e);
    show_mistake(&target);
    return 0;
}
