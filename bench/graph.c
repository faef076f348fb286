/* What the graph layer and the engine cost: building and compiling, and running vertices against the same work
 * in plain C on the same threads. Times are medians of 5 rounds, ours and the peer's in turn. */
#include <pthread.h>
#include <string.h>

#include "bench.h"

enum { TILES = 1472, WORKERS = 6, VERTICES = TILES * WORKERS };

/* ---- codelets ---- */

#define EMPTY(F) F(IN, float, x)
IPU_VERTEX(Empty, EMPTY)
{
    (void)v;
    return true;
}

#define ADD(F) F(IN_VECTOR, float, a) F(IN_VECTOR, float, b) F(OUT_VECTOR, float, c)
IPU_VERTEX(Add, ADD)
{
    for (size_t i = 0; i < v->c.size; i++) v->c.data[i] = v->a.data[i] + v->b.data[i];
    return true;
}

/* Not inlined: both sides run the same machine code. */
__attribute__((noinline)) static void triad(float *restrict a, const float *restrict b,
                                            const float *restrict c, float s, size_t n)
{
    for (size_t i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

#define TRIAD(F) F(OUT_VECTOR, float, a) F(IN_POINTER, float, b) F(IN_POINTER, float, c) F(STATE, float, s)
IPU_VERTEX(Triad, TRIAD)
{
    triad(v->a.data, v->b, v->c, v->s, v->a.size);
    return true;
}

/* Rows of a plate: the mean of the four neighbours. Border columns stay. */
__attribute__((noinline)) static void jacobi_row(float *restrict to, const float *restrict up,
                                                 const float *restrict row, const float *restrict down,
                                                 size_t n)
{
    for (size_t i = 1; i + 1 < n; i++) to[i] = 0.25f * (up[i] + down[i] + row[i - 1] + row[i + 1]);
}

#define JACOBI(F)               \
    F(IN_POINTER, float, above) \
    F(IN_VECTOR, float, rows) F(IN_POINTER, float, below) F(OUT_POINTER, float, to) F(STATE, uint32_t, width)
IPU_VERTEX(Jacobi, JACOBI)
{
    size_t w = v->width, n = v->rows.size / w;
    for (size_t r = 0; r < n; r++) {
        const float *row = v->rows.data + r * w;
        jacobi_row(v->to + r * w, r ? row - w : v->above, row, r + 1 < n ? row + w : v->below, w);
        v->to[r * w]         = row[0];
        v->to[r * w + w - 1] = row[w - 1];
    }
    return true;
}

/* ---- helpers ---- */

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    BENCH_CHECK(ipu_target_find("gc200", 1, &target));
    BENCH_CHECK(ipu_graph_create(&target, 1, &g));
    const ipu_codelet *const codelets[] = {&Empty, &Add, &Triad, &Jacobi};
    for (size_t i = 0; i < sizeof codelets / sizeof *codelets; i++) ipu_graph_add_codelet(g, codelets[i]);
    return g;
}

static ipu_engine *compile(ipu_graph *g, ipu_program p)
{
    ipu_executable *exe;
    ipu_engine     *e;
    BENCH_CHECK(ipu_executable_compile(g, &p, 1, NULL, &exe));
    BENCH_CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return e;
}

static void run(void *engine) { BENCH_CHECK(ipu_engine_run(engine, 0)); }

static int n_threads(ipu_engine *e)
{
    ipu_engine_counters counters;
    ipu_engine_get_counters(e, &counters);
    return counters.threads;
}

/* The peer's threads: `part(user, i, n)` on n threads at once, started anew (some 20 us of a run of
 * tens of milliseconds). */
typedef struct peer_job {
    void (*part)(void *user, int i, int n);
    void *user;
    int   i, n;
} peer_job;

static void *peer_thread(void *job)
{
    peer_job *j = job;
    j->part(j->user, j->i, j->n);
    return NULL;
}

static void peer_run(void (*part)(void *, int, int), void *user, int n)
{
    enum { MOST = 256 };
    pthread_t threads[MOST];
    peer_job  jobs[MOST];
    for (int i = 1; i < n && i < MOST; i++) {
        jobs[i] = (peer_job){part, user, i, n};
        if (pthread_create(&threads[i], NULL, peer_thread, &jobs[i]) != 0) exit(1);
    }
    part(user, 0, n);
    for (int i = 1; i < n && i < MOST; i++) pthread_join(threads[i], NULL);
}

/* ---- building and compiling ---- */

enum { EACH = 16 }; /* elements of a field */

/* The graph of `sets` compute sets, and its program. */
static ipu_graph *build(int sets, ipu_program *out)
{
    ipu_graph *g = new_graph();
    ipu_tensor a = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(VERTICES * EACH), "a");
    ipu_tensor b = ipu_graph_clone(g, a, "b"), c = ipu_graph_clone(g, a, "c");
    ipu_graph_map_linearly(g, a);
    ipu_graph_map_linearly(g, b);
    ipu_graph_map_linearly(g, c);
    ipu_program p = ipu_program_sequence(g);
    for (int s = 0; s < sets; s++) {
        ipu_compute_set cs = ipu_graph_add_compute_set(g, "add");
        for (int64_t i = 0; i < VERTICES; i++) {
            ipu_vertex v = ipu_graph_add_vertex(g, cs, "Add");
            ipu_graph_set_vertex_tile(g, v, i / WORKERS);
            ipu_vertex_connect(v, "a", ipu_tensor_slice(a, i * EACH, (i + 1) * EACH, 0));
            ipu_vertex_connect(v, "b", ipu_tensor_slice(b, i * EACH, (i + 1) * EACH, 0));
            ipu_vertex_connect(v, "c", ipu_tensor_slice(c, i * EACH, (i + 1) * EACH, 0));
        }
        ipu_program_add_execute(p, cs);
    }
    *out = p;
    return g;
}

static double build_and_compile(int sets)
{
    double      t0 = bench_now();
    ipu_program p;
    ipu_graph  *g = build(sets, &p);
    ipu_engine *e = compile(g, p);
    double      t = bench_now() - t0;
    ipu_engine_destroy(e);
    return t;
}

/* Of this process, in bytes: "VmRSS" now, "VmHWM" at its peak. */
static double resident(const char *what)
{
    char  line[256];
    FILE *f  = fopen("/proc/self/status", "r");
    long  kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, strlen(what)) == 0) kb = strtol(line + strlen(what) + 1, NULL, 10);
    if (f) fclose(f);
    return 1024.0 * (double)kb;
}

/* Runs first, in a process that has used no memory yet. */
static void bench_memory(void)
{
    enum { SETS = 100, FIELDS = 3 };
    double          before = resident("VmRSS"), vertices = (double)SETS * VERTICES;
    double          tensors = 3.0 * VERTICES * EACH * sizeof(float);
    ipu_program     p;
    ipu_graph      *g = build(SETS, &p);
    ipu_executable *exe;
    ipu_engine     *e;
    BENCH_CHECK(ipu_executable_compile(g, &p, 1, NULL, &exe));
    BENCH_CHECK(ipu_engine_create(exe, NULL, &e));
    run(e);
    printf(
        "memory of graph, executable and engine: %.0f bytes a vertex of %d fields, %.0f at the peak; budget %d\n",
        (resident("VmRSS") - before - 2 * tensors) / vertices, FIELDS,
        (resident("VmHWM") - before - 2 * tensors) / vertices, 120 + 60 * FIELDS);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void bench_build(void)
{
    enum { ROUNDS = 5 };
    double few[ROUNDS], many[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        few[r]  = build_and_compile(10);
        many[r] = build_and_compile(100);
    }
    double a = bench_median(few, ROUNDS), b = bench_median(many, ROUNDS);
    printf(
        "build and compile, %d vertices a set: 10 sets %.0f ms, 100 sets %.0f ms, %.1fx, %.0f ns a vertex\n",
        VERTICES, 1e3 * a, 1e3 * b, b / a, 1e9 * b / (100.0 * VERTICES));
}

/* ---- supersteps ---- */

typedef struct empty_bench {
    ipu_engine    *e;
    ipu_compute_fn fn;
    struct Empty  *records;
} empty_bench;

static void empty_ours(void *user) { run(((empty_bench *)user)->e); }

static void empty_peer(void *user)
{
    empty_bench *b = user;
    for (int i = 0; i < VERTICES; i++)
        if (!b->fn(&b->records[i], 0, WORKERS)) exit(1);
}

static void bench_empty(void)
{
    ipu_graph      *g  = new_graph();
    ipu_tensor      x  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(VERTICES), "x");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "empty");
    ipu_graph_map_linearly(g, x);
    static const float zeros[VERTICES];
    ipu_graph_set_initial_value(g, x, zeros);
    for (int i = 0; i < VERTICES; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Empty");
        ipu_graph_set_vertex_tile(g, v, i / WORKERS);
        ipu_vertex_connect(v, "x", ipu_tensor_index(x, i));
    }
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    volatile ipu_compute_fn fn = Empty.compute; /* as unknown to the compiler as it is to the engine */
    empty_bench             b  = {compile(g, p), fn, calloc(VERTICES, sizeof(struct Empty))};
    bench_row("8,832 empty vertices / bare indirect calls", bench_against(empty_ours, empty_peer, &b, 200));
    ipu_engine_destroy(b.e);
    free(b.records);
}

enum { LOOP = 100000 };

static void loop_peer(void *user)
{
    empty_bench *b = user;
    for (int i = 0; i < LOOP; i++)
        if (!b->fn(b->records, 0, WORKERS)) exit(1);
}

static void bench_loop(void)
{
    ipu_graph      *g  = new_graph();
    ipu_tensor      x  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "x");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "one");
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_initial_value(g, x, &(float){1});
    ipu_vertex v = ipu_graph_add_vertex(g, cs, "Empty");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", x);
    ipu_program body = ipu_program_sequence(g), p = ipu_program_sequence(g);
    ipu_program_add_execute(body, cs);
    ipu_program_add_repeat(p, LOOP, body);
    volatile ipu_compute_fn fn     = Empty.compute;
    struct Empty            record = {0};
    empty_bench             b      = {compile(g, p), fn, &record};
    bench_pair              pair   = bench_against(empty_ours, loop_peer, &b, 1);
    bench_row("one vertex in a repeat loop / bare call", (bench_pair){pair.ours / LOOP, pair.peer / LOOP});
    ipu_engine_destroy(b.e);
}

/* ---- triad ---- */

typedef struct triad_bench {
    ipu_engine *e;
    float      *a, *b, *c;
    int64_t     n;
    int         threads;
} triad_bench;

static void triad_ours(void *user) { run(((triad_bench *)user)->e); }

static void triad_part(void *user, int i, int n)
{
    triad_bench *t    = user;
    int64_t      from = t->n * i / n, to = t->n * (i + 1) / n;
    triad(t->a + from, t->b + from, t->c + from, 3.0f, (size_t)(to - from));
}

static void triad_peer(void *user) { peer_run(triad_part, user, ((triad_bench *)user)->threads); }

static void connect_slice(ipu_vertex v, const char *field, ipu_tensor t, int64_t from, int64_t to)
{
    ipu_vertex_connect(v, field, ipu_tensor_slice(t, from, to, 0));
}

static void bench_triad(int64_t n)
{
    ipu_graph      *g = new_graph();
    ipu_tensor      t[3];
    const char     *names[3] = {"a", "b", "c"};
    ipu_compute_set cs       = ipu_graph_add_compute_set(g, "triad");
    for (int k = 0; k < 3; k++) {
        t[k] = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(n), names[k]);
        ipu_graph_map_linearly(g, t[k]);
        ipu_graph_add_host_write(g, names[k], t[k]);
    }
    for (int64_t i = 0; i < VERTICES; i++) {
        int64_t    from = n * i / VERTICES, to = n * (i + 1) / VERTICES;
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Triad");
        ipu_graph_set_vertex_tile(g, v, i / WORKERS);
        for (int k = 0; k < 3; k++) connect_slice(v, names[k], t[k], from, to);
        ipu_vertex_set(v, "s", 3);
    }
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    size_t      bytes = (size_t)n * sizeof(float);
    triad_bench b     = {
            compile(g, p), bench_floats((size_t)n), bench_floats((size_t)n), bench_floats((size_t)n), n, 0};
    float *const data[3] = {b.a, b.b, b.c};
    for (int k = 0; k < 3; k++) {
        for (int64_t i = 0; i < n; i++) data[k][i] = (float)(i % 7);
        BENCH_CHECK(ipu_engine_write(b.e, names[k], data[k], bytes));
    }
    b.threads = n_threads(b.e);
    bench_row("triad a = b + s*c, 64 Mi floats / plain C", bench_against(triad_ours, triad_peer, &b, 1));
    ipu_engine_destroy(b.e);
    for (int k = 0; k < 3; k++) bench_free_floats(data[k]);
}

/* ---- why large variables are laid out of step (src/engine/memory.h) ---- */

typedef struct step_bench {
    float *block;
    size_t n, stagger; /* elements */
} step_bench;

static void triad_apart(const step_bench *b, size_t gap)
{
    float *second = b->block + b->n + gap, *third = second + b->n + gap;
    triad(b->block, second, third, 3.0f, b->n);
}

static void out_of_step(void *user) { triad_apart(user, ((step_bench *)user)->stagger); }
static void in_step(void *user) { triad_apart(user, 0); }

static void bench_stagger(void)
{
    step_bench b = {NULL, (size_t)64 << 20, (4096 + 21 * 64) / sizeof(float)};
    b.block      = bench_floats(3 * b.n + 4 * b.stagger);
    for (size_t i = 0; i < 3 * b.n + 4 * b.stagger; i++) b.block[i] = 1;
    bench_row("plain C triad, arrays out of step / in step", bench_against(out_of_step, in_step, &b, 1));
    bench_free_floats(b.block);
}

/* ---- Jacobi ---- */

enum { SIDE = 4096, SWEEPS = 4 };

typedef struct jacobi_bench {
    ipu_engine *e;
    float      *a, *b;
    int         threads;
} jacobi_bench;

static void jacobi_ours(void *user) { run(((jacobi_bench *)user)->e); }

static void jacobi_part(void *user, int i, int n)
{
    jacobi_bench *j    = user;
    int           from = 1 + (SIDE - 2) * i / n, to = 1 + (SIDE - 2) * (i + 1) / n;
    for (int r = from; r < to; r++) {
        const float *row = j->a + (size_t)r * SIDE;
        float       *out = j->b + (size_t)r * SIDE;
        jacobi_row(out, row - SIDE, row, row + SIDE, SIDE);
        out[0]        = row[0];
        out[SIDE - 1] = row[SIDE - 1];
    }
}

static void jacobi_peer(void *user)
{
    jacobi_bench *j = user;
    for (int s = 0; s < SWEEPS; s++) {
        peer_run(jacobi_part, j, j->threads);
        float *swap = j->a;
        j->a        = j->b;
        j->b        = swap;
    }
}

/* One sweep from `x` to `y`: a vertex has a strip of rows, and the rows above and below it from its neighbours. */
static ipu_compute_set sweep(ipu_graph *g, ipu_tensor x, ipu_tensor y)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "sweep");
    for (int64_t t = 0; t < TILES; t++) {
        int64_t    from = 1 + (SIDE - 2) * t / TILES, to = 1 + (SIDE - 2) * (t + 1) / TILES;
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Jacobi");
        ipu_graph_set_vertex_tile(g, v, t);
        connect_slice(v, "above", x, from - 1, from);
        connect_slice(v, "rows", x, from, to);
        connect_slice(v, "below", x, to, to + 1);
        connect_slice(v, "to", y, from, to);
        ipu_vertex_set(v, "width", SIDE);
    }
    return cs;
}

static void bench_jacobi(void)
{
    ipu_graph *g = new_graph();
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(SIDE, SIDE), "x");
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(SIDE, SIDE), "y");
    ipu_graph_map_linearly_by(g, x, SIDE, SIDE);
    ipu_graph_map_linearly_by(g, y, SIDE, SIDE);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_write(g, "y", y);
    ipu_program p = ipu_program_sequence(g), two = ipu_program_sequence(g);
    ipu_program_add_execute(two, sweep(g, x, y));
    ipu_program_add_execute(two, sweep(g, y, x));
    ipu_program_add_repeat(p, SWEEPS / 2, two);
    size_t       bytes = (size_t)SIDE * SIDE * sizeof(float);
    jacobi_bench b = {compile(g, p), bench_floats((size_t)SIDE * SIDE), bench_floats((size_t)SIDE * SIDE), 0};
    for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) b.a[i] = b.b[i] = (float)(i % 11);
    BENCH_CHECK(ipu_engine_write(b.e, "x", b.a, bytes));
    BENCH_CHECK(ipu_engine_write(b.e, "y", b.b, bytes));
    b.threads       = n_threads(b.e);
    bench_pair pair = bench_against(jacobi_ours, jacobi_peer, &b, 1);
    bench_row("Jacobi sweep 4096 x 4096 / plain C", (bench_pair){pair.ours / SWEEPS, pair.peer / SWEEPS});
    ipu_engine_destroy(b.e);
    bench_free_floats(b.a);
    bench_free_floats(b.b);
}

/* ---- engines side by side ---- */

enum { ENGINES = 4, SMALL = 1024, ROUNDS = 200 };

static ipu_engine *small_engine(void)
{
    ipu_graph  *g = new_graph();
    ipu_tensor  x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(3, SMALL * SMALL), "x");
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_graph_map_linearly(g, x);
    ipu_graph_add_host_write(g, "x", x);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "triad");
    for (int64_t i = 0; i < TILES; i++) {
        int64_t    from = (int64_t)SMALL * SMALL * i / TILES, to = (int64_t)SMALL * SMALL * (i + 1) / TILES;
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "Triad");
        ipu_graph_set_vertex_tile(g, v, i);
        connect_slice(v, "a", ipu_tensor_index(x, 0), from, to);
        connect_slice(v, "b", ipu_tensor_index(x, 1), from, to);
        connect_slice(v, "c", ipu_tensor_index(x, 2), from, to);
        ipu_vertex_set(v, "s", 0.5);
    }
    ipu_program_add_execute(body, cs);
    ipu_program_add_repeat(p, ROUNDS, body);
    return compile(g, p);
}

static void *run_thread(void *engine)
{
    run(engine);
    return NULL;
}

static void side_by_side(void *user)
{
    ipu_engine **e = user;
    pthread_t    threads[ENGINES];
    for (int i = 0; i < ENGINES; i++)
        if (pthread_create(&threads[i], NULL, run_thread, e[i]) != 0) exit(1);
    for (int i = 0; i < ENGINES; i++) pthread_join(threads[i], NULL);
}

static void one_by_one(void *user)
{
    ipu_engine **e = user;
    for (int i = 0; i < ENGINES; i++) run(e[i]);
}

static void bench_engines(void)
{
    ipu_engine *e[ENGINES];
    float      *data = calloc(3 * SMALL * SMALL, sizeof *data);
    for (int i = 0; i < ENGINES; i++) {
        e[i] = small_engine();
        BENCH_CHECK(ipu_engine_write(e[i], "x", data, 3 * SMALL * SMALL * sizeof *data));
    }
    bench_row("4 engines at once / one after the other", bench_against(side_by_side, one_by_one, e, 1));
    for (int i = 0; i < ENGINES; i++) ipu_engine_destroy(e[i]);
    free(data);
}

int main(void)
{
    bench_memory();
    bench_build();
    bench_header();
    bench_empty();
    bench_loop();
    bench_triad((int64_t)64 << 20);
    bench_stagger();
    bench_jacobi();
    bench_engines();
    return 0;
}
