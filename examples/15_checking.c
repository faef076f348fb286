/* 15: checking mode, and a mistake that it finds.
 *
 * Teaches the option "check" (or IPU_CHECK=1 before any program): vertices then work on guarded copies of
 * what they are connected to, and the engine knows of every element whether it has a value. Each tile here
 * takes differences of its part of a row; one version of the codelet goes one element too far, into the
 * part of the next tile, which a plain run would not notice.
 *
 * Expect: expected/15_checking.expected.
 */
#include <string.h>

#include "example.h"

enum { TILES = 3, EACH = 4, N = TILES * EACH };

#define DIFFERENCES(F)     \
    F(IN_VECTOR, float, x) \
    F(OUT_VECTOR, float, d)

IPU_VERTEX(TooFar, DIFFERENCES)
{
    for (size_t i = 0; i < v->x.size; i++) v->d.data[i] = v->x.data[(i + 1) % v->x.size] - v->x.data[i];
    return true;
}

IPU_VERTEX(Differences, DIFFERENCES)
{
    for (size_t i = 0; i < v->d.size; i++) v->d.data[i] = v->x.data[i + 1] - v->x.data[i];
    return true;
}

/* A row of N + 1 numbers and its N differences, EACH of them on a tile. The host writes `given` numbers. */
static ipu_engine *make(const char *codelet, int64_t given)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &TooFar);
    ipu_graph_add_codelet(g, &Differences);

    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N + 1), "x");
    ipu_tensor d = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "d");
    ipu_graph_map_linearly(g, x);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "differences");
    for (int64_t tile = 0; tile < TILES; tile++) {
        ipu_tensor part = ipu_tensor_slice(d, tile * EACH, (tile + 1) * EACH, 0);
        ipu_vertex v    = ipu_graph_add_vertex(g, cs, codelet);
        ipu_graph_set_tile_mapping(g, part, tile);
        ipu_graph_set_vertex_tile(g, v, tile);
        ipu_vertex_connect(v, "x", ipu_tensor_slice(x, tile * EACH, (tile + 1) * EACH + 1, 0));
        ipu_vertex_connect(v, "d", part);
    }
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_graph_add_host_write(g, "x", ipu_tensor_slice(x, 0, given, 0));
    ipu_graph_add_host_read(g, "d", d);

    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    CHECK(ipu_options_create(&options));
    CHECK(ipu_options_set(options, "check", "true"));
    CHECK(ipu_executable_compile(g, &p, 1, options, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return e;
}

/* The message names this file as the compiler did: print it without folders. */
static void print_message(const char *text)
{
    const char *base  = strrchr(__FILE__, '/');
    size_t      extra = base ? (size_t)(base + 1 - __FILE__) : 0;
    for (const char *at = text; *at; at++) {
        if (strncmp(at, __FILE__, strlen(__FILE__)) == 0) at += extra;
        putchar(*at);
    }
    putchar('\n');
}

static void try(const char *title, const char *codelet, int64_t given)
{
    float x[N + 1], d[N];
    for (int i = 0; i <= N; i++) x[i] = (float)(i * i);
    ipu_engine *e = make(codelet, given);
    CHECK(ipu_engine_write(e, "x", x, (size_t)given * sizeof *x));
    printf("%s\n", title);
    if (ipu_engine_run(e, 0) != IPU_OK) {
        print_message(ipu_message());
    } else {
        CHECK(ipu_engine_read(e, "d", d, sizeof d));
        for (int i = 0; i < N; i++) printf("%g%s", d[i], i < N - 1 ? " " : "\n");
    }
    ipu_engine_destroy(e);
}

int main(void)
{
    try("one element too far", "TooFar", N + 1);
    try("a number that nobody wrote", "Differences", N);
    try("right", "Differences", N + 1);
    return 0;
}
