/* 06: loops and conditions on the device.
 *
 * Teaches control flow: repeat, while, if, switch and abort_if. The values that decide are
 * ordinary scalars that vertices write. The program takes numbers from a stream and walks each
 * one down to 1 (halve an even number; triple an odd one and add 1: Collatz), counting steps.
 *
 * Expect: expected/06_loops_and_conditions.expected
 */
#include <string.h>

#include "example.h"

enum { LIMIT = 10000, LETTERS = 8 };

/* Everything the conditions below ask, worked out by one vertex. */
#define QUESTIONS(F)         \
    F(STATE, int32_t, limit) \
    F(IN, int32_t, n)        \
    F(IN, int32_t, steps)    \
    F(OUT, bool, going)      \
    F(OUT, bool, odd)        \
    F(OUT, bool, too_large)  \
    F(OUT, int32_t, length)
IPU_VERTEX(Questions, QUESTIONS)
{
    *v->going     = *v->n != 1;
    *v->odd       = *v->n % 2 == 1;
    *v->too_large = *v->n > v->limit;
    *v->length    = *v->steps < 10 ? 0 : *v->steps < 100 ? 1 : 2;
    return true;
}

/* n = n * times / by + plus, and one more step. */
#define MOVE(F)              \
    F(STATE, int32_t, times) \
    F(STATE, int32_t, by)    \
    F(STATE, int32_t, plus)  \
    F(INOUT, int32_t, n)     \
    F(INOUT, int32_t, steps)
IPU_VERTEX(Move, MOVE)
{
    *v->n = *v->n * v->times / v->by + v->plus;
    ++*v->steps;
    return true;
}

typedef struct walk {
    ipu_tensor n, steps, going, odd, too_large, length, label;
} walk;

static ipu_tensor on_tile_0(ipu_graph *g, ipu_tensor t)
{
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

static ipu_tensor scalar(ipu_graph *g, ipu_type type, const char *name)
{
    return on_tile_0(g, ipu_graph_add_variable(g, type, IPU_SCALAR, name));
}

static ipu_program ask(ipu_graph *g, const walk *w)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "questions");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Questions");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_set(v, "limit", LIMIT);
    ipu_vertex_connect(v, "n", w->n);
    ipu_vertex_connect(v, "steps", w->steps);
    ipu_vertex_connect(v, "going", w->going);
    ipu_vertex_connect(v, "odd", w->odd);
    ipu_vertex_connect(v, "too_large", w->too_large);
    ipu_vertex_connect(v, "length", w->length);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    return p;
}

static ipu_program move(ipu_graph *g, const walk *w, int times, int by, int plus)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "move");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Move");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_set(v, "times", times);
    ipu_vertex_set(v, "by", by);
    ipu_vertex_set(v, "plus", plus);
    ipu_vertex_connect(v, "n", w->n);
    ipu_vertex_connect(v, "steps", w->steps);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    return p;
}

static ipu_program say(ipu_graph *g, const walk *w, const char *text)
{
    char padded[LETTERS] = "";
    memcpy(padded, text, strlen(text));
    ipu_tensor  c = on_tile_0(g, ipu_graph_add_constant(g, IPU_INT8, IPU_SHAPE(LETTERS), padded, text));
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, c, w->label);
    return p;
}

/* One number: read, walk, write. */
static ipu_program walk_one(ipu_graph *g, const walk *w)
{
    ipu_stream  start = ipu_graph_add_host_to_device(g, "start", IPU_INT32, 1, IPU_STREAM_REPLICATE);
    ipu_stream  steps = ipu_graph_add_device_to_host(g, "steps", IPU_INT32, 1);
    ipu_stream  label = ipu_graph_add_device_to_host(g, "label", IPU_INT8, LETTERS);
    ipu_tensor  zero  = on_tile_0(g, ipu_graph_add_constant_value(g, IPU_INT32, IPU_SCALAR, 0, "zero"));
    ipu_program body  = ipu_program_sequence(g);
    ipu_program_add_abort_if(body, w->too_large, "the number has grown past the limit");
    ipu_program_add_if(body, w->odd, move(g, w, 3, 1, 1), move(g, w, 1, 2, 0));

    ipu_program one = ipu_program_sequence(g);
    ipu_program_add_read(one, start, w->n);
    ipu_program_add_copy(one, zero, w->steps);
    ipu_program_add_while_true(one, ask(g, w), w->going, body);
    const ipu_switch_case lengths[] = {{0, say(g, w, "short")}, {1, say(g, w, "middle")}};
    ipu_program_add_switch(one, w->length, lengths, 2, say(g, w, "long"));
    ipu_program_add_write(one, w->steps, steps);
    ipu_program_add_write(one, w->label, label);
    return one;
}

static int32_t plain_c(int32_t n)
{
    int32_t steps = 0;
    for (; n != 1; steps++) n = n % 2 == 1 ? n * 3 + 1 : n / 2;
    return steps;
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));
    ipu_graph_add_codelet(g, &Questions);
    ipu_graph_add_codelet(g, &Move);
    const walk w = {
        .n         = scalar(g, IPU_INT32, "n"),
        .steps     = scalar(g, IPU_INT32, "steps"),
        .going     = scalar(g, IPU_BOOL, "going"),
        .odd       = scalar(g, IPU_BOOL, "odd"),
        .too_large = scalar(g, IPU_BOOL, "too_large"),
        .length    = scalar(g, IPU_INT32, "length"),
        .label     = on_tile_0(g, ipu_graph_add_variable(g, IPU_INT8, IPU_SHAPE(LETTERS), "label")),
    };

    enum { N = 5 };
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_repeat(p, N, walk_one(g, &w));
    ipu_engine *e = example_engine(g, p);
    ipu_graph_destroy(g);

    int32_t start[N] = {1, 6, 7, 27, 97}, steps[N];
    char    label[N][LETTERS];
    CHECK(ipu_engine_connect_stream(e, "start", start, sizeof start));
    CHECK(ipu_engine_connect_stream(e, "steps", steps, sizeof steps));
    CHECK(ipu_engine_connect_stream(e, "label", label, sizeof label));
    CHECK(ipu_engine_run(e, 0));
    for (int i = 0; i < N; i++) {
        printf("%3d reaches 1 in %3d steps: %s\n", start[i], steps[i], label[i]);
        EXPECT(steps[i] == plain_c(start[i]));
    }

    /* 703 climbs to 250504 on its way: the program stops itself, and the engine lives on. */
    start[0] = 703;
    EXPECT(ipu_engine_run(e, 0) == IPU_ABORTED);
    const char *message = strstr(ipu_message(), "the number");
    EXPECT(message);
    printf("703: %s\n", message);
    ipu_engine_destroy(e);
    return 0;
}
