/* Mistakes planted in programs, and what checking mode must say of each: vertex, tile, field, elements of
 * which variable, and the lines of both. Without the mistake it must say nothing and compute the same.
 */
#include <signal.h>

#include "engine/cpu/cpu.h"
#include "support/error_bench.h"
#include "support/random.h"

/* ---- running ---- */

static ipu_options *checking(void)
{
    ipu_options *options;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "check", "true"), IPU_OK);
    return options;
}

/* Compiles and destroys the graph. */
static ipu_engine *make_engine(ipu_graph *g, ipu_program p)
{
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_options    *options = checking();
    if (ipu_executable_compile(g, &p, 1, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_engine_create(exe, NULL, &e) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return e;
}

/* The bench must run into a finding that holds all of these texts, NULL at the end. Ends the bench. */
static void expect_finding(bench *b, int line, ...)
{
    ipu_engine *e      = make_engine(b->g, b->p);
    ipu_status  status = ipu_engine_run(e, 0);
    char       *said   = strdup(ipu_message());
    if (status != IPU_ABORTED) fail_msg("line %d: status %d, expected a finding", line, (int)status);
    if (line) expect_line(said, __FILE__, line);
    va_list texts;
    va_start(texts, line);
    for (const char *text = va_arg(texts, const char *); text; text = va_arg(texts, const char *))
        expect_text(said, text);
    va_end(texts);
    free(said);
    ipu_engine_destroy(e);
}

static void expect_nothing(bench *b)
{
    ipu_engine *e = make_engine(b->g, b->p);
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("accused: %s", ipu_message());
    ipu_engine_destroy(e);
}

static void fill(bench *b, ipu_tensor t)
{
    ipu_attribute value = IPU_INT_ATTRIBUTE("value", 1);
    ipu_program   p     = ipu_program_sequence(b->g);
    ipu_program_add_kernel(p, "fill", &value, 1, &t, 1);
    ipu_program_add(p, b->p);
    b->p = p;
}

/* ---- mistakes of bodies, at random ---- */

typedef enum mistake {
    NONE,
    PAST_END,
    BEFORE_BEGINNING,
    WRITES_IN,
    PAST_POINTER,
    PAST_ROW,
    PAST_ROWS,
    BEFORE_ROWS,
    READS_PAST_ROWS,
    FAR_AWAY,
    DIVIDES_BY_ZERO,
    CHANGES_STATE,
    CHANGES_TABLE,
    MOVES_POINTER,
    N_BODY_MISTAKES,
    NOT_INITIALISED = N_BODY_MISTAKES,
    FORGOTTEN,
    N_MISTAKES
} mistake;

/* Sanitizers would report it before the processor does. */
__attribute__((noinline, no_sanitize("integer-divide-by-zero"))) static int divide(int a, int b)
{
    return a / b;
}

/* y = x + 1, z doubled, rows filled with 7; and one mistake. */
#define WORKER(F)                 \
    F(IN_VECTOR, float, x)        \
    F(OUT_VECTOR, float, y)       \
    F(INOUT_POINTER, float, z)    \
    F(OUT_VECTORS, int16_t, rows) \
    F(STATE_VECTOR, float, table) F(STATE, uint32_t, n) F(STATE, int32_t, mistake)
IPU_VERTEX(Worker, WORKER)
{
    uint32_t n = v->n;
    for (uint32_t i = 0; i < n; i++) v->y.data[i] = v->x.data[i] + v->table.data[0];
    for (uint32_t i = 0; i < n; i++) v->z[i] *= 2;
    for (size_t r = 0; r < v->rows.size; r++)
        for (size_t i = 0; i < v->rows.data[r].size; i++) v->rows.data[r].data[i] = 7;
    switch (v->mistake) {
    case PAST_END: v->y.data[n] = 3; break;
    case BEFORE_BEGINNING: v->y.data[-1] = 3; break;
    case WRITES_IN: ((float *)v->x.data)[n / 2] = -99; break;
    case PAST_POINTER: v->z[n + 1] = 3; break;
    case PAST_ROW: v->rows.data[1].data[v->rows.data[1].size] = 7; break;
    case PAST_ROWS: v->rows.data[v->rows.size + 1].data[3] = 7; break;
    case BEFORE_ROWS: v->rows.data[-1].data[-2] = 7; break;
    case READS_PAST_ROWS:
        for (size_t r = 0; r <= v->rows.size; r++)
            for (size_t i = 0; i < v->rows.data[r].size; i++) v->y.data[0] += v->rows.data[r].data[i];
        break;
    case FAR_AWAY: *(volatile float *)(uintptr_t)(v->mistake * 8) = 3; break;
    case DIVIDES_BY_ZERO: v->rows.data[1].data[0] = (int16_t)divide(7, (int)v->rows.data[0].size); break;
    case CHANGES_STATE: v->n--; break;
    case CHANGES_TABLE: ((float *)v->table.data)[0] = 5; break;
    case MOVES_POINTER: v->z++; break;
    default: break;
    }
    return true;
}

typedef struct plan {
    test_random random;
    bench       b;
    ipu_tensor  rows;
    mistake     mistake;
    int64_t     n_vertices, faulty, each, tile;
    bool        reversed; /* x and y come in reverse order: their runs are gathered */
    int         variable_line, vertex_line;
} plan;

static ipu_tensor add_variable(plan *p, ipu_type type, ipu_shape shape, const char *name)
{
    p->variable_line = __LINE__ + 1;
    ipu_tensor t     = ipu_graph_add_variable(p->b.g, type, shape, name);
    ipu_graph_set_tile_mapping(p->b.g, t, 0);
    return t;
}

static void make_variables(plan *p)
{
    float ones[64];
    for (int i = 0; i < 64; i++) ones[i] = 1;
    int64_t n    = p->n_vertices * p->each;
    p->b         = (bench){.g = new_graph(1, 1)};
    p->b.x       = add_variable(p, IPU_FLOAT, IPU_SHAPE(n), "x");
    p->b.y       = add_variable(p, IPU_FLOAT, IPU_SHAPE(n), "y");
    p->b.z       = add_variable(p, IPU_FLOAT, IPU_SHAPE(n), "z");
    p->rows      = add_variable(p, IPU_INT16, IPU_SHAPE(p->n_vertices, 6), "rows");
    p->b.cs      = ipu_graph_add_compute_set(p->b.g, "work");
    p->b.p       = ipu_program_sequence(p->b.g);
    int64_t hole = p->faulty * p->each; /* its first element is never written */
    if (p->mistake == NOT_INITIALISED) {
        ipu_graph_set_initial_value(p->b.g, ipu_tensor_slice(p->b.x, 0, hole, 0), ones);
        ipu_graph_set_initial_value(p->b.g, ipu_tensor_slice(p->b.x, hole + 1, n, 0), ones);
    } else {
        ipu_graph_set_initial_value(p->b.g, p->b.x, ones);
    }
    ipu_graph_set_initial_value(p->b.g, p->b.z, ones);
    if (p->mistake == FORGOTTEN) ipu_program_add_write_undef(p->b.p, element(p->b.z, hole));
}

static void make_vertices(plan *p)
{
    ipu_graph_add_codelet(p->b.g, &Worker);
    for (int64_t k = 0; k < p->n_vertices; k++) {
        int64_t    begin = k * p->each, end = begin + p->each;
        ipu_tensor x = ipu_tensor_slice(p->b.x, begin, end, 0), y = ipu_tensor_slice(p->b.y, begin, end, 0);
        ipu_tensor row = ipu_tensor_index(p->rows, k), none = ipu_tensor_slice(row, 0, 0, 0);
        p->vertex_line = __LINE__ + 1;
        ipu_vertex v   = ipu_graph_add_vertex(p->b.g, p->b.cs, "Worker");
        ipu_graph_set_vertex_tile(p->b.g, v, (p->tile + k) % N_TILES);
        ipu_vertex_connect(v, "x", p->reversed ? ipu_tensor_reverse(x, 0) : x);
        ipu_vertex_connect(v, "y", p->reversed ? ipu_tensor_reverse(y, 0) : y);
        ipu_vertex_connect(v, "z", ipu_tensor_slice(p->b.z, begin, end, 0));
        ipu_vertex_connect_list(v, "rows", (ipu_tensor[]){none, row}, 2);
        ipu_vertex_set_data(v, "table", (float[]){1}, 1);
        ipu_vertex_set(v, "n", (double)p->each);
        bool is_faulty = k == p->faulty && p->mistake < N_BODY_MISTAKES;
        ipu_vertex_set(v, "mistake", is_faulty ? (double)p->mistake : NONE);
    }
    ipu_program_add_execute(p->b.p, p->b.cs);
}

/* What must be said: field, kind, and the element of the variable (-1: none) that it is about. */
typedef struct expectation {
    const char *field, *kind, *variable;
    int64_t     element;
} expectation;

static expectation expect_of(const plan *p)
{
    int64_t begin = p->faulty * p->each, end = begin + p->each, half = begin + p->each / 2;
    switch (p->mistake) {
    case PAST_END: return (expectation){"y", "1 element past the end of", "y", p->reversed ? begin : end - 1};
    case BEFORE_BEGINNING:
        return (expectation){"y", "1 element before the beginning of", "y", p->reversed ? end - 1 : begin};
    case WRITES_IN:
        return (expectation){"x", "writes to an in field", "x", p->reversed ? end - 1 - p->each / 2 : half};
    case PAST_POINTER: return (expectation){"z", "2 elements past the end of", "z", end - 1};
    case PAST_ROW: return (expectation){"rows", "1 element past the end of the 6", "rows", p->faulty * 6 + 5};
    case PAST_ROWS: return (expectation){"rows", "touches row 3: it is connected to 2 rows", NULL, -1};
    case BEFORE_ROWS: return (expectation){"rows", "touches row -1: it is connected to 2 rows", NULL, -1};
    case READS_PAST_ROWS: return (expectation){"rows", "touches row 2: it is connected to 2 rows", NULL, -1};
    case FAR_AWAY: return (expectation){NULL, "touches memory at 0x", NULL, -1};
    case DIVIDES_BY_ZERO: return (expectation){NULL, "divides a whole number by zero", NULL, -1};
    case CHANGES_STATE: return (expectation){"n", "changes it in the vertex itself", NULL, -1};
    case CHANGES_TABLE: return (expectation){"table", "writes to a state field", NULL, -1};
    case MOVES_POINTER: return (expectation){"z", "changes it in the vertex itself", NULL, -1};
    case NOT_INITIALISED: return (expectation){"x", "which nothing has written", "x", begin};
    default: return (expectation){"z", "which nothing has written", "z", begin};
    }
}

static void check_report(const plan *p, const char *said)
{
    expectation x = expect_of(p);
    char        who[200], where[400];
    int         n = snprintf(who, sizeof who,
                             ":%d: vertex \"Worker\" of compute set \"work\" on tile %d: ", p->vertex_line,
                             (int)((p->tile + p->faulty) % N_TILES));
    if (x.field) snprintf(who + n, sizeof who - (size_t)n, "field \"%s\": ", x.field);
    expect_text(said, who);
    expect_text(said, x.kind);
    if (strchr(said, '\n')) fail_msg("expected one finding:\n%s", said);
    if (!x.variable) return;
    snprintf(where, sizeof where, "elements [%d, %d) of variable \"%s\" (added at %s:%d)", (int)x.element,
             (int)x.element + 1, x.variable, __FILE__, p->variable_line);
    expect_text(said, where);
}

static void check_results(ipu_engine *e, const plan *p)
{
    float   y[64], z[64];
    int16_t rows[36];
    size_t  bytes = (size_t)(p->n_vertices * p->each) * sizeof *y;
    assert_int_equal(ipu_engine_read(e, "y", y, bytes), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "z", z, bytes), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "rows", rows, (size_t)p->n_vertices * 6 * sizeof *rows), IPU_OK);
    for (int i = 0; i < p->n_vertices * p->each; i++) assert_true(y[i] == 2 && z[i] == 2);
    for (int i = 0; i < p->n_vertices * 6; i++) assert_int_equal(rows[i], 7);
}

static void on_signal(int number) { (void)number; }

/* What a program does about signals stays its own. */
static void set_handlers(void (*handler)(int))
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE};
    for (int i = 0; i < 3; i++) assert_true(signal(numbers[i], handler) != SIG_ERR);
}

static void assert_handlers_of_before(void)
{
    struct sigaction now;
    assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
    assert_true(now.sa_handler == on_signal);
}

static void planted_mistakes_are_found_where_they_are(void **state)
{
    (void)state;
    set_handlers(on_signal);
    uint64_t seed = test_seed(1);
    for (int k = 0, count = test_count(240); k < count; k++) {
        plan p       = {.random = {seed + (uint64_t)k}, .mistake = (mistake)(k % N_MISTAKES)};
        p.n_vertices = random_in(&p.random, 1, 6);
        p.each       = random_in(&p.random, 2, 10);
        p.faulty     = random_in(&p.random, 0, p.n_vertices - 1);
        p.tile       = random_in(&p.random, 0, N_TILES - 1);
        p.reversed   = random_chance(&p.random, 50);
        make_variables(&p);
        make_vertices(&p);
        ipu_graph_add_host_read(p.b.g, "y", p.b.y);
        ipu_graph_add_host_read(p.b.g, "z", p.b.z);
        ipu_graph_add_host_read(p.b.g, "rows", p.rows);
        ipu_engine *e      = make_engine(p.b.g, p.b.p);
        ipu_status  status = ipu_engine_run(e, 0);
        if ((status == IPU_OK) != (p.mistake == NONE) || (status != IPU_OK && status != IPU_ABORTED))
            fail_msg("IPU_TEST_SEED=%llu: mistake %d: status %d: %s", (unsigned long long)seed + (unsigned)k,
                     (int)p.mistake, (int)status, status ? ipu_message() : "");
        if (status == IPU_OK) check_results(e, &p);
        if (status != IPU_OK) check_report(&p, ipu_message());
        assert_handlers_of_before();
        ipu_engine_destroy(e);
    }
    set_handlers(SIG_DFL);
}

/* ---- workers ---- */

/* Worker w writes where data say: whether two meet depends on the data. */
#define MEET(F) F(IN_VECTOR, int32_t, where) F(OUT_VECTOR, int32_t, to)
IPU_MULTI_VERTEX(Meet, MEET)
{
    for (size_t i = worker; i < v->where.size; i += n_workers)
        v->to.data[v->where.data[i]] = (int32_t)(100 + worker);
    return true;
}

static bench start_meeting(const int32_t where[4])
{
    bench      b  = start();
    ipu_tensor w  = mapped(b.g, IPU_INT32, IPU_SHAPE(4), "where"),
               to = mapped(b.g, IPU_INT32, IPU_SHAPE(4), "to");
    ipu_graph_set_initial_value(b.g, w, where);
    ipu_graph_add_codelet(b.g, &Meet);
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Meet");
    ipu_graph_set_vertex_tile(b.g, v, 5);
    ipu_vertex_connect(v, "where", w);
    ipu_vertex_connect(v, "to", to);
    return b;
}

static void a_race_of_workers_that_only_some_data_trigger_is_found(void **state)
{
    (void)state;
    bench good = start_meeting((int32_t[]){3, 1, 2, 0}), bad = start_meeting((int32_t[]){0, 1, 2, 1});
    expect_nothing(&good);
    expect_finding(&bad, 0, "\"Meet\"", "tile 5", "\"to\"", "workers 1 and 3", "[1, 2)", NULL);
}

/* ---- outputs that are written in part ---- */

#define BYTES(F) F(OUT_VECTOR, uint8_t, to) F(STATE, uint8_t, first)
IPU_VERTEX(Bytes, BYTES)
{
    for (size_t i = v->first; i < v->to.size; i++) v->to.data[i] = (uint8_t)(i * 7);
    return true;
}

enum { N_BYTES = 255 };

static ipu_engine *make_bytes(int first, const uint8_t *initial)
{
    bench      b = start();
    ipu_tensor t = mapped(b.g, IPU_UINT8, IPU_SHAPE(N_BYTES), "bytes");
    if (initial) ipu_graph_set_initial_value(b.g, t, initial);
    ipu_graph_add_codelet(b.g, &Bytes);
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Bytes");
    ipu_graph_set_vertex_tile(b.g, v, 0);
    ipu_vertex_connect(v, "to", t);
    ipu_vertex_set(v, "first", first);
    ipu_graph_add_host_read(b.g, "bytes", t);
    return make_engine(b.g, b.p);
}

static void every_value_counts_as_written(void **state)
{
    (void)state;
    uint8_t     found[N_BYTES];
    ipu_engine *e = make_bytes(0, NULL);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "bytes", found, sizeof found), IPU_OK);
    for (size_t i = 0; i < N_BYTES; i++) assert_int_equal(found[i], (uint8_t)(i * 7));
    ipu_engine_destroy(e);
}

static void what_a_body_leaves_out_stays_as_it_was(void **state)
{
    (void)state;
    uint8_t found[N_BYTES], old[N_BYTES];
    for (int i = 0; i < N_BYTES; i++) old[i] = (uint8_t)(N_BYTES - i);
    ipu_engine *e = make_bytes(10, old);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "bytes", found, sizeof found), IPU_OK);
    for (int i = 0; i < N_BYTES; i++) assert_int_equal(found[i], i < 10 ? old[i] : (uint8_t)(i * 7));
    ipu_engine_destroy(e);
    e = make_bytes(10, NULL); /* then the first ten have no value */
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "bytes", found, sizeof found), IPU_INVALID);
    expect_text(ipu_message(), "host read \"bytes\": reads elements [0, 10) of variable \"bytes\"");
    ipu_engine_destroy(e);
}

/* ---- other readers ---- */

static void steps_that_read_unwritten_elements_are_named(void **state)
{
    (void)state;
    bench       b    = start();
    ipu_program none = {b.g, 0};
    ipu_program_add_print(b.p, "x", b.x);
    expect_finding(&b, __LINE__ - 1, "print", "[0, 8) of variable \"x\"", NULL);
    b = start(), none.graph = b.g;
    ipu_program_add_if(b.p, b.flag, ipu_program_sequence(b.g), none);
    expect_finding(&b, __LINE__ - 1, "predicate", "[0, 1) of variable \"flag\"", NULL);
    b = start();
    ipu_program_add_abort_if(b.p, b.flag, "never");
    expect_finding(&b, __LINE__ - 1, "abort_if", "\"flag\"", NULL);
    b = start();
    fill(&b, ipu_tensor_slice(b.x, 0, 3, 0));
    ipu_program_add_kernel(b.p, "add", NULL, 0, (ipu_tensor[]){b.c, b.x, b.y}, 3);
    expect_finding(&b, __LINE__ - 1, "kernel \"add\"", "operand", "[3, 8) of variable \"x\"", NULL);
}

static void what_a_step_decides_by_must_be_written(void **state)
{
    (void)state;
    bench       b       = start();
    ipu_program none    = {b.g, 0};
    ipu_tensor  control = mapped(b.g, IPU_INT32, IPU_SCALAR, "control");
    ipu_program_add_switch(b.p, control, &(ipu_switch_case){1, ipu_program_sequence(b.g)}, 1, none);
    expect_finding(&b, __LINE__ - 1, "switch", "[0, 1) of variable \"control\"", NULL);
    b                      = start();
    ipu_remote_buffer far  = ipu_graph_add_remote_buffer(b.g, "far", IPU_FLOAT, 4, 3);
    ipu_tensor        rows = mapped(b.g, IPU_INT32, IPU_SHAPE(2), "rows");
    ipu_graph_set_initial_value(b.g, element(rows, 0), (int32_t[]){1});
    ipu_program_add_remote_read(b.p, far, rows, b.x);
    expect_finding(&b, __LINE__ - 1, "\"far\"", "[1, 2) of variable \"rows\"", NULL);
    b = start();
    ipu_program_add_error(b.p, "the value is", b.x);
    expect_finding(&b, __LINE__ - 1, "error step", "[0, 8) of variable \"x\"", NULL);
}

/* Elements 10 and 11 of a 3 x 4 x 2 block come, with its dimensions in another order, as numbers 4 and 16. */
static void elements_are_found_through_any_view(void **state)
{
    (void)state;
    bench      b    = start();
    ipu_tensor cube = mapped(b.g, IPU_FLOAT, IPU_SHAPE(3, 4, 2), "cube");
    ipu_tensor to   = mapped(b.g, IPU_FLOAT, IPU_SHAPE(24), "to");
    ipu_tensor flat = ipu_tensor_flatten(cube);
    fill(&b, ipu_tensor_slice(flat, 0, 10, 0));
    fill(&b, ipu_tensor_slice(flat, 12, 24, 0));
    int perm[] = {2, 1, 0};
    add_scale(&b, ipu_tensor_flatten(ipu_tensor_permute(cube, perm, 3)), to);
    expect_finding(&b, 0, "field \"from\": reads elements [10, 11) of variable \"cube\"",
                   "and 1 more such elements", NULL);
}

static void constants_and_the_replication_index_have_values(void **state)
{
    (void)state;
    bench      b     = start();
    ipu_tensor index = ipu_graph_add_replication_index(b.g, "index");
    ipu_graph_set_tile_mapping(b.g, index, 0);
    ipu_program_add_print(b.p, "index", index);
    ipu_program_add_print(b.p, "c", b.c);
    add_scale(&b, b.c, b.x);
    expect_nothing(&b);
}

static void kernels_run_by_their_reference(void **state)
{
    (void)state;
    bench      b   = start();
    ipu_tensor t[] = {mapped(b.g, IPU_FLOAT, IPU_SHAPE(32, 32), "a"),
                      mapped(b.g, IPU_FLOAT, IPU_SHAPE(32, 32), "b"),
                      mapped(b.g, IPU_FLOAT, IPU_SHAPE(32, 32), "c")};
    ipu_program_add_kernel(b.p, "matmul", NULL, 0, t, 3);
    ipu_executable *exe;
    ipu_engine     *plain, *checked;
    assert_int_equal(ipu_executable_compile(b.g, &b.p, 1, NULL, &exe), IPU_OK);
    assert_int_equal(ipu_engine_create(exe, NULL, &plain), IPU_OK);
    checked = make_engine(b.g, b.p);
    assert_non_null(ipu__cpu_of(plain)->kernels[0].impl);
    assert_null(ipu__cpu_of(checked)->kernels[0].impl);
    ipu_engine_destroy(plain);
    ipu_engine_destroy(checked);
    ipu_executable_release(exe);
}

static ipu_status ignore_transfer(void *user, void *data, size_t bytes)
{
    (void)user, (void)data, (void)bytes;
    return IPU_OK;
}

static void a_stream_to_the_host_is_checked(void **state)
{
    (void)state;
    bench      b   = start();
    ipu_stream out = ipu_graph_add_device_to_host(b.g, "out", IPU_FLOAT, 8);
    fill(&b, ipu_tensor_slice(b.x, 2, 8, 0));
    ipu_program_add_copy(b.p, b.x, b.y); /* a copy of nothing is no mistake yet */
    ipu_program_add_write(b.p, ipu_tensor_reverse(b.y, 0), out);
    int         line = __LINE__ - 1;
    ipu_engine *e    = make_engine(b.g, b.p);
    assert_int_equal(ipu_engine_connect_callback(e, "out", ignore_transfer, NULL), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
    expect_line(ipu_message(), __FILE__, line);
    expect_text(ipu_message(), "stream \"out\": reads elements [1, 2) of variable \"y\"");
    expect_text(ipu_message(), "and 1 more such elements");
    ipu_engine_destroy(e);
}

static void a_value_from_before_write_undef_is_stale(void **state)
{
    (void)state;
    bench b = start();
    b.p     = ipu_program_sequence(b.g);
    fill(&b, b.x);
    ipu_program_add_copy(b.p, b.x, b.y);
    ipu_program_add_write_undef(b.p, ipu_tensor_slice(b.x, 4, 6, 0));
    ipu_program_add_copy(b.p, b.x, b.z);
    add_scale(&b, b.z, b.y);
    ipu_program_add_execute(b.p, b.cs);
    expect_finding(&b, 0, "\"Scale\"", "tile 1", "\"from\"", "[4, 6) of variable \"z\"", NULL);
}

static void the_host_and_remote_buffers_carry_what_is_known(void **state)
{
    (void)state;
    float             data[8] = {0};
    bench             b       = start();
    ipu_remote_buffer rows    = ipu_graph_add_remote_buffer(b.g, "rows", IPU_FLOAT, 8, 2);
    ipu_tensor        first   = {b.g, 0};
    ipu_graph_add_host_write(b.g, "x", b.x);
    ipu_graph_add_host_read(b.g, "y", b.y);
    ipu_program_add_remote_write(b.p, b.x, rows, first);
    ipu_program_add_remote_read(b.p, rows, first, b.y);
    ipu_engine *e = make_engine(b.g, b.p);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "y", data, sizeof data), IPU_INVALID);
    assert_int_equal(ipu_engine_read_remote(e, "rows", 0, 0, data, sizeof data), IPU_INVALID);
    expect_text(ipu_message(), "\"rows\"");
    assert_int_equal(ipu_engine_read_remote(e, "rows", 0, 1, data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "x", data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK); /* an engine goes on after a finding */
    assert_int_equal(ipu_engine_read(e, "y", data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_read_remote(e, "rows", 0, 0, data, sizeof data), IPU_OK);
    ipu_engine_destroy(e);
}

static void replicas_are_told_apart(void **state)
{
    (void)state;
    float       data[8] = {0};
    ipu_graph  *g       = new_graph(2, 2);
    ipu_tensor  x       = mapped(g, IPU_FLOAT, IPU_SHAPE(8), "x");
    ipu_program p       = ipu_program_sequence(g);
    ipu_graph_add_host_write(g, "x", x);
    ipu_program_add_print(p, "x", x);
    ipu_engine *e = make_engine(g, p);
    assert_int_equal(ipu_engine_write_replica(e, "x", 0, data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
    expect_text(ipu_message(), "of replica 1");
    assert_null(strstr(ipu_message(), "of replica 0"));
    ipu_engine_destroy(e);
}

static void a_copy_between_replicas_carries_what_is_known(void **state)
{
    (void)state;
    float       data[8] = {0};
    ipu_graph  *g       = new_graph(2, 2);
    ipu_tensor  x = mapped(g, IPU_FLOAT, IPU_SHAPE(8), "x"), y = mapped(g, IPU_FLOAT, IPU_SHAPE(8), "y");
    ipu_program p = ipu_program_sequence(g);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_program_add_cross_replica_copy(p, x, y, (int64_t[]){1, 0}, 2);
    ipu_engine *e = make_engine(g, p);
    assert_int_equal(ipu_engine_write_replica(e, "x", 0, data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read_replica(e, "y", 1, data, sizeof data), IPU_OK);
    assert_int_equal(ipu_engine_read_replica(e, "y", 0, data, sizeof data), IPU_INVALID);
    ipu_engine_destroy(e);
}

static void many_findings_are_counted(void **state)
{
    (void)state;
    bench      b = start();
    ipu_tensor t = mapped(b.g, IPU_FLOAT, IPU_SHAPE(25), "t"), u = mapped(b.g, IPU_FLOAT, IPU_SHAPE(25), "u");
    for (int i = 0; i < 25; i++) add_scale(&b, element(t, i), element(u, i));
    expect_finding(&b, 0, "[19, 20) of variable \"t\"", "and 5 more findings", NULL);
}

/* ---- switching it on ---- */

static void the_option_belongs_to_the_compilation(void **state)
{
    (void)state;
    bench           b = start();
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_options    *options = checking();
    ipu_program_add_print(b.p, "x", b.x);
    assert_int_equal(ipu_executable_compile(b.g, &b.p, 1, NULL, &exe), IPU_OK);
    assert_int_equal(ipu_engine_create(exe, options, &e), IPU_INVALID);
    expect_text(ipu_message(), "ipu_executable_compile");
    ipu_executable_release(exe);
    ipu_options_destroy(options);

    assert_int_equal(setenv("IPU_CHECK", "1", 1), 0);
    assert_int_equal(ipu_executable_compile(b.g, &b.p, 1, NULL, &exe), IPU_OK);
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    assert_int_equal(setenv("IPU_CHECK", "maybe", 1), 0);
    assert_int_equal(ipu_executable_compile(b.g, &b.p, 1, NULL, &exe), IPU_INVALID);
    expect_text(ipu_message(), "IPU_CHECK");
    assert_int_equal(unsetenv("IPU_CHECK"), 0);
    ipu_graph_destroy(b.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planted_mistakes_are_found_where_they_are),
        cmocka_unit_test(a_race_of_workers_that_only_some_data_trigger_is_found),
        cmocka_unit_test(every_value_counts_as_written),
        cmocka_unit_test(what_a_body_leaves_out_stays_as_it_was),
        cmocka_unit_test(steps_that_read_unwritten_elements_are_named),
        cmocka_unit_test(what_a_step_decides_by_must_be_written),
        cmocka_unit_test(elements_are_found_through_any_view),
        cmocka_unit_test(constants_and_the_replication_index_have_values),
        cmocka_unit_test(kernels_run_by_their_reference),
        cmocka_unit_test(a_stream_to_the_host_is_checked),
        cmocka_unit_test(a_value_from_before_write_undef_is_stale),
        cmocka_unit_test(the_host_and_remote_buffers_carry_what_is_known),
        cmocka_unit_test(replicas_are_told_apart),
        cmocka_unit_test(a_copy_between_replicas_carries_what_is_known),
        cmocka_unit_test(many_findings_are_counted),
        cmocka_unit_test(the_option_belongs_to_the_compilation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
