/* 11: mistakes, and what the library says about them.
 *
 * Teaches to read errors: each function below makes one mistake. Those in a graph are found before
 * anything runs and name the line of the call; those of a run name the step or vertex that
 * stopped it. Nothing aborts, and an engine whose run failed can run again.
 *
 * Expect: expected/11_errors.expected. The messages are the output.
 */
#include <string.h>

#include "example.h"

#define NEGATE(F)          \
    F(IN_VECTOR, float, x) \
    F(OUT_VECTOR, float, y)
IPU_VERTEX(Negate, NEGATE)
{
    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] = -v->x.data[i];
    return true;
}

#define INVERT(F)   \
    F(IN, float, x) \
    F(OUT, float, y)
IPU_VERTEX(Invert, INVERT)
{
    if (*v->x == 0) return false; /* "this cannot be": the run stops */
    *v->y = 1 / *v->x;
    return true;
}

static ipu_tensor vector(ipu_graph *g, int64_t n, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(n), name);
    ipu_graph_map_linearly(g, t);
    return t;
}

static ipu_tensor constant(ipu_graph *g, ipu_type type, double value, const char *name)
{
    ipu_tensor t = ipu_graph_add_constant_value(g, type, IPU_SHAPE(1), value, name);
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

/* A vertex complete but for its fields, in a compute set that the program runs. */
static ipu_vertex add_vertex(ipu_graph *g, ipu_program p, const char *codelet)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "work");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_program_add_execute(p, cs);
    return v;
}

/* ---- mistakes in a graph ---- */

static void unmapped_element(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(8), "x"), y = vector(g, 8, "y");
    ipu_graph_set_tile_mapping(g, ipu_tensor_slice(x, 0, 6, 0), 0); /* 6 and 7 are on no tile */
    ipu_program_add_copy(p, x, y);
}

static void vertex_without_a_tile(ipu_graph *g, ipu_program p)
{
    ipu_tensor      x = vector(g, 8, "x"), y = vector(g, 8, "y");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "work");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Negate");
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_program_add_execute(p, cs);
}

static void tile_out_of_range(ipu_graph *g, ipu_program p)
{
    ipu_vertex v = add_vertex(g, p, "Negate");
    ipu_graph_set_vertex_tile(g, v, 1472); /* the last tile is 1471 */
}

static void field_not_connected(ipu_graph *g, ipu_program p)
{
    ipu_tensor      x  = vector(g, 8, "x");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "work");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Negate");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", x); /* and y? */
    ipu_program_add_execute(p, cs);
}

static void field_connected_twice(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 8, "x"), y = vector(g, 8, "y");
    ipu_vertex v = add_vertex(g, p, "Negate");
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "x", y);
}

static void no_such_field(ipu_graph *g, ipu_program p)
{
    ipu_tensor z = vector(g, 8, "z");
    ipu_vertex v = add_vertex(g, p, "Negate");
    ipu_vertex_connect(v, "z", z);
}

static void wrong_type(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = ipu_graph_add_variable(g, IPU_HALF, IPU_SHAPE(8), "x");
    ipu_vertex v = add_vertex(g, p, "Negate");
    ipu_vertex_connect(v, "x", x);
}

static void wrong_length(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 8, "x");
    ipu_vertex v = add_vertex(g, p, "Invert");
    ipu_vertex_connect(v, "x", x);
}

static void no_such_codelet(ipu_graph *g, ipu_program p)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "work");
    ipu_graph_add_vertex(g, cs, "Negat");
    ipu_program_add_execute(p, cs);
}

static void two_write_one_element(ipu_graph *g, ipu_program p)
{
    ipu_tensor      x = vector(g, 8, "x"), y = vector(g, 8, "y");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "work");
    for (int i = 0; i < 2; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Negate");
        ipu_graph_set_vertex_tile(g, v, i);
        ipu_vertex_connect(v, "x", x);
        ipu_vertex_connect(v, "y", ipu_tensor_slice(y, 3 * i, 3 * i + 5, 0)); /* 0..4 and 3..7 */
    }
    ipu_program_add_execute(p, cs);
}

static void one_reads_what_another_writes(ipu_graph *g, ipu_program p)
{
    ipu_tensor      x = vector(g, 8, "x"), y = vector(g, 8, "y"), z = vector(g, 8, "z");
    ipu_compute_set cs    = ipu_graph_add_compute_set(g, "work");
    ipu_vertex      first = ipu_graph_add_vertex(g, cs, "Negate");
    ipu_graph_set_vertex_tile(g, first, 0);
    ipu_vertex_connect(first, "x", x);
    ipu_vertex_connect(first, "y", y);
    ipu_vertex second = ipu_graph_add_vertex(g, cs, "Negate"); /* but both run at the same time */
    ipu_graph_set_vertex_tile(g, second, 1);
    ipu_vertex_connect(second, "x", y);
    ipu_vertex_connect(second, "y", z);
    ipu_program_add_execute(p, cs);
}

static void copy_of_different_sizes(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 8, "x"), y = vector(g, 6, "y");
    ipu_program_add_copy(p, x, y);
}

static void copy_onto_itself(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 8, "x");
    ipu_program_add_copy(p, ipu_tensor_slice(x, 0, 6, 0), ipu_tensor_slice(x, 2, 8, 0));
}

static void write_to_a_constant(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 1, "x"), one = constant(g, IPU_FLOAT, 1, "one");
    ipu_program_add_copy(p, x, one);
}

static void slice_out_of_range(ipu_graph *g, ipu_program p)
{
    ipu_tensor x = vector(g, 8, "x"), y = vector(g, 8, "y");
    ipu_program_add_copy(p, ipu_tensor_slice(x, 4, 12, 0), y);
}

static void kernel_with_wrong_shapes(ipu_graph *g, ipu_program p)
{
    ipu_tensor a = ipu_tensor_reshape(vector(g, 12, "a"), IPU_SHAPE(3, 4));
    ipu_tensor b = ipu_tensor_reshape(vector(g, 10, "b"), IPU_SHAPE(5, 2));
    ipu_tensor c = ipu_tensor_reshape(vector(g, 6, "c"), IPU_SHAPE(3, 2));
    ipu_program_add_kernel(p, "matmul", NULL, 0, (ipu_tensor[]){a, b, c}, 3);
}

static void several_at_once(ipu_graph *g, ipu_program p)
{
    vertex_without_a_tile(g, p);
    field_not_connected(g, p);
    unmapped_element(g, p);
}

/* ---- mistakes of a run ---- */

static void vertex_returns_false(ipu_graph *g, ipu_program p)
{
    ipu_tensor zero = constant(g, IPU_FLOAT, 0, "zero"), y = vector(g, 1, "y");
    ipu_vertex v = add_vertex(g, p, "Invert");
    ipu_vertex_connect(v, "x", zero);
    ipu_vertex_connect(v, "y", y);
}

static void abort_on_condition(ipu_graph *g, ipu_program p)
{
    ipu_tensor overflow = constant(g, IPU_BOOL, 1, "overflow");
    ipu_program_add_abort_if(p, overflow, "the sum overflowed");
}

static void error_step(ipu_graph *g, ipu_program p)
{
    ipu_tensor temperature = constant(g, IPU_FLOAT, 451, "temperature");
    ipu_program_add_error(p, "too hot for paper", temperature);
}

static void row_out_of_range(ipu_graph *g, ipu_program p)
{
    ipu_remote_buffer rows = ipu_graph_add_remote_buffer(g, "rows", IPU_FLOAT, 8, 3);
    ipu_tensor        row = constant(g, IPU_UINT32, 3, "row"), x = vector(g, 8, "x");
    ipu_program_add_remote_read(p, rows, row, x); /* rows 0 to 2 exist */
}

static void stream_not_connected(ipu_graph *g, ipu_program p)
{
    ipu_stream in = ipu_graph_add_host_to_device(g, "images", IPU_FLOAT, 8, IPU_STREAM_REPLICATE);
    ipu_program_add_read(p, in, vector(g, 8, "x"));
}

static void replicas_diverge(ipu_graph *g, ipu_program p)
{
    ipu_tensor index = ipu_graph_add_replication_index(g, "index");
    ipu_graph_set_tile_mapping(g, index, 0);
    ipu_program then = ipu_program_sequence(g);
    ipu_program_add_sync(then, IPU_SYNC_GLOBAL);
    ipu_program_add_if(p, index, then, (ipu_program){0}); /* replica 0 would not, replica 1 would */
}

static void readable(ipu_graph *g, ipu_program p)
{
    ipu_graph_add_host_read(g, "result", vector(g, 8, "x"));
    ipu_program_add_sync(p, IPU_SYNC_INTERNAL);
}

static ipu_status run(ipu_engine *e) { return ipu_engine_run(e, 0); }
static ipu_status run_program_3(ipu_engine *e) { return ipu_engine_run(e, 3); }

static ipu_status read_wrong_name(ipu_engine *e)
{
    float value[8];
    return ipu_engine_read(e, "resutl", value, sizeof value);
}

static ipu_status read_wrong_size(ipu_engine *e)
{
    float value[6];
    return ipu_engine_read(e, "result", value, sizeof value);
}

typedef struct mistake {
    const char *title;
    void (*build)(ipu_graph *g, ipu_program p);
    ipu_status (*use)(ipu_engine *e); /* NULL: it must not compile */
    int replication;                  /* 0: none */
} mistake;

static const mistake mistakes[] = {
    {"an element on no tile", unmapped_element, NULL, 0},
    {"a vertex without a tile", vertex_without_a_tile, NULL, 0},
    {"a tile out of range", tile_out_of_range, NULL, 0},
    {"a field not connected", field_not_connected, NULL, 0},
    {"a field connected twice", field_connected_twice, NULL, 0},
    {"no such field", no_such_field, NULL, 0},
    {"a field of another type", wrong_type, NULL, 0},
    {"a scalar field and eight elements", wrong_length, NULL, 0},
    {"no such codelet", no_such_codelet, NULL, 0},
    {"two vertices write one element", two_write_one_element, NULL, 0},
    {"a vertex reads what another writes", one_reads_what_another_writes, NULL, 0},
    {"a copy of different sizes", copy_of_different_sizes, NULL, 0},
    {"a copy onto itself", copy_onto_itself, NULL, 0},
    {"a write to a constant", write_to_a_constant, NULL, 0},
    {"a slice out of range", slice_out_of_range, NULL, 0},
    {"a kernel with wrong shapes", kernel_with_wrong_shapes, NULL, 0},
    {"several at once", several_at_once, NULL, 0},
    {"a vertex returns false", vertex_returns_false, run, 0},
    {"abort_if", abort_on_condition, run, 0},
    {"an error step", error_step, run, 0},
    {"a row out of range", row_out_of_range, run, 0},
    {"a stream not connected", stream_not_connected, run, 0},
    {"replicas that diverge", replicas_diverge, run, 2},
    {"no such program", readable, run_program_3, 0},
    {"no such handle", readable, read_wrong_name, 0},
    {"a handle of another size", readable, read_wrong_size, 0},
};

/* Messages name this file as the compiler was told; show it without its folders, whatever they are. */
static void print_message(const char *text)
{
    const char *base  = strrchr(__FILE__, '/');
    size_t      extra = base ? (size_t)(base + 1 - __FILE__) : 0;
    printf("    ");
    for (const char *at = text; *at; at++) {
        if (strncmp(at, __FILE__, strlen(__FILE__)) == 0) at += extra;
        putchar(*at);
        if (*at == '\n') printf("    ");
    }
    putchar('\n');
}

static void provoke(const mistake *m)
{
    int64_t         replication = m->replication ? m->replication : 1;
    ipu_target      target;
    ipu_graph      *g;
    ipu_executable *exe = NULL;
    ipu_engine     *e   = NULL;
    CHECK(ipu_target_find("gc200", replication, &target));
    CHECK(ipu_graph_create(&target, replication, &g));
    ipu_graph_add_codelet(g, &Negate);
    ipu_graph_add_codelet(g, &Invert);

    ipu_program p = ipu_program_sequence(g);
    m->build(g, p);
    ipu_status status = ipu_executable_compile(g, &p, 1, NULL, &exe);
    if (m->use) {
        CHECK(status);
        CHECK(ipu_engine_create(exe, NULL, &e));
        status = m->use(e);
    }
    EXPECT(status != IPU_OK);
    printf("%s\n", m->title);
    print_message(ipu_message());

    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

int main(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) provoke(&mistakes[i]);
    return 0;
}
