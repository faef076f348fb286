/* Liveness: random programs compute the same whether or not variables share memory, and variables that
 * should share do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/support/random.h"
#include "ipu/ipu.h"

#define MIX(F) F(IN_VECTOR, uint32_t, a) F(IN_VECTOR, uint32_t, b) F(OUT_VECTOR, uint32_t, to)
IPU_VERTEX(Mix, MIX)
{
    for (size_t i = 0; i < v->to.size; i++) v->to.data[i] = v->a.data[i] * 3 + v->b.data[i] * 5 + 1;
    return true;
}

#define STIR(F) F(IN_VECTOR, uint32_t, a) F(INOUT_VECTOR, uint32_t, to)
IPU_VERTEX(Stir, STIR)
{
    for (size_t i = 0; i < v->to.size; i++) v->to.data[i] = v->to.data[i] * 31 + v->a.data[i] + (uint32_t)i;
    return true;
}

#define COUNT_DOWN(F) F(INOUT, uint32_t, n) F(OUT, bool, more)
IPU_VERTEX(CountDown, COUNT_DOWN)
{
    *v->more = *v->n > 0;
    *v->n -= *v->n > 0;
    return true;
}

enum { N_VARS = 12, N_ELEMENTS = 8, DEPTH = 4, N_FUNCTIONS = 3, N_PROGRAMS = 3, N_CONTROLS = 4 };

typedef struct maker {
    test_random  random;
    ipu_graph   *g;
    ipu_tensor   vars[N_VARS], result, controls;
    ipu_function functions[N_FUNCTIONS];
    int          n_functions;
} maker;

static ipu_tensor variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_set_tile_mapping(g, t, 0);
    return t;
}

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    ipu_graph_add_codelet(g, &Mix);
    ipu_graph_add_codelet(g, &Stir);
    ipu_graph_add_codelet(g, &CountDown);
    return g;
}

/* A step that runs one vertex. */
static void add_vertex(ipu_graph *g, ipu_program p, const char *codelet, size_t n, const char *const *fields,
                       const ipu_tensor *tensors)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, codelet);
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, codelet);
    ipu_graph_set_vertex_tile(g, v, 0);
    for (size_t i = 0; i < n; i++) ipu_vertex_connect(v, fields[i], tensors[i]);
    ipu_program_add_execute(p, cs);
}

static void add_mix(ipu_graph *g, ipu_program p, ipu_tensor a, ipu_tensor b, ipu_tensor to)
{
    add_vertex(g, p, "Mix", 3, (const char *const[]){"a", "b", "to"}, (ipu_tensor[]){a, b, to});
}

static void add_stir(ipu_graph *g, ipu_program p, ipu_tensor a, ipu_tensor to)
{
    add_vertex(g, p, "Stir", 2, (const char *const[]){"a", "to"}, (ipu_tensor[]){a, to});
}

/* ---- random programs ---- */

static int64_t in(maker *m, int64_t begin, int64_t end) { return random_in(&m->random, begin, end); }

/* Three different variables, or the same part of each. */
static void pick(maker *m, ipu_tensor out[3])
{
    int order[N_VARS];
    for (int i = 0; i < N_VARS; i++) order[i] = i;
    random_shuffle(&m->random, order, N_VARS);
    int64_t begin = 0, end = N_ELEMENTS;
    if (random_chance(&m->random, 25)) begin = in(m, 0, N_ELEMENTS - 1), end = in(m, begin + 1, N_ELEMENTS);
    for (int i = 0; i < 3; i++) out[i] = ipu_tensor_slice(m->vars[order[i]], begin, end, 0);
}

static void add_steps(maker *m, ipu_program p, int depth);

static ipu_program new_body(maker *m, int depth)
{
    ipu_program body = ipu_program_sequence(m->g);
    add_steps(m, body, depth + 1);
    return body;
}

static ipu_tensor control(maker *m) { return ipu_tensor_index(m->controls, in(m, 0, N_CONTROLS - 1)); }

static void add_while(maker *m, ipu_program p, int depth)
{
    ipu_tensor  count     = variable(m->g, IPU_UINT32, IPU_SCALAR, "count");
    ipu_tensor  more      = variable(m->g, IPU_BOOL, IPU_SCALAR, "more");
    ipu_program condition = ipu_program_sequence(m->g);
    ipu_program_add_copy(p, control(m), count);
    if (random_chance(&m->random, 50)) add_steps(m, condition, depth + 1);
    add_vertex(m->g, condition, "CountDown", 2, (const char *const[]){"n", "more"},
               (ipu_tensor[]){count, more});
    ipu_program_add_while_true(p, condition, more, new_body(m, depth));
}

static void add_switch(maker *m, ipu_program p, int depth)
{
    ipu_switch_case cases[] = {{0, new_body(m, depth)}, {2, new_body(m, depth)}};
    ipu_program     null    = {m->g, 0};
    ipu_program_add_switch(p, control(m), cases, 2,
                           random_chance(&m->random, 50) ? new_body(m, depth) : null);
}

static void add_compound(maker *m, ipu_program p, int depth)
{
    ipu_program null = {m->g, 0};
    switch (in(m, 0, 4)) {
    case 0: ipu_program_add_repeat(p, in(m, 0, 3), new_body(m, depth)); break;
    case 1: add_while(m, p, depth); break;
    case 2:
        ipu_program_add_if(p, control(m), new_body(m, depth),
                           random_chance(&m->random, 50) ? new_body(m, depth) : null);
        break;
    case 3: add_switch(m, p, depth); break;
    default: ipu_program_add(p, new_body(m, depth)); break;
    }
}

static void add_steps(maker *m, ipu_program p, int depth)
{
    for (int64_t n = in(m, 1, 7); n > 0; n--) {
        ipu_tensor t[3];
        pick(m, t);
        int64_t kind = in(m, 0, 99);
        if (kind < 35) {
            ipu_program_add_copy(p, t[0], t[1]);
        } else if (kind < 50) {
            add_mix(m->g, p, t[0], t[1], t[2]);
        } else if (kind < 60) {
            add_stir(m->g, p, t[0], t[1]);
        } else if (kind < 75) {
            add_stir(m->g, p, m->vars[in(m, 0, N_VARS - 1)], m->result);
        } else if (kind < 80) { /* undefined, then written in two halves */
            ipu_tensor to = m->vars[in(m, 0, N_VARS - 1)];
            ipu_program_add_write_undef(p, to);
            for (int64_t half = 0; half < N_ELEMENTS; half += N_ELEMENTS / 2)
                ipu_program_add_copy(p, ipu_tensor_slice(m->result, half, half + N_ELEMENTS / 2, 0),
                                     ipu_tensor_slice(to, half, half + N_ELEMENTS / 2, 0));
        } else if (kind < 88 && m->n_functions > 0) {
            ipu_program_add_call(p, m->functions[in(m, 0, m->n_functions - 1)]);
        } else if (depth < DEPTH) {
            add_compound(m, p, depth);
        }
    }
}

static ipu_graph *make(uint64_t seed, ipu_program *programs)
{
    maker m = {.random = {seed}, .g = new_graph()};
    for (int i = 0; i < N_VARS; i++) m.vars[i] = variable(m.g, IPU_UINT32, IPU_SHAPE(N_ELEMENTS), "v");
    m.result   = variable(m.g, IPU_UINT32, IPU_SHAPE(N_ELEMENTS), "result");
    m.controls = variable(m.g, IPU_UINT32, IPU_SHAPE(N_CONTROLS), "controls");
    ipu_graph_add_host_read(m.g, "result", m.result);
    ipu_graph_add_host_write(m.g, "controls", m.controls);
    for (; m.n_functions < N_FUNCTIONS; m.n_functions++)
        m.functions[m.n_functions] = ipu_graph_add_function(m.g, new_body(&m, DEPTH - 3), "f");
    for (int i = 0; i < N_PROGRAMS; i++) {
        programs[i] = new_body(&m, 0);
        add_stir(m.g, programs[i], m.vars[in(&m, 0, N_VARS - 1)], m.result);
    }
    assert_string_equal(ipu_graph_message(m.g), "");
    return m.g;
}

static ipu_engine *new_engine(ipu_graph *g, const ipu_program *programs, size_t n, const char *share,
                              int64_t *planned)
{
    ipu_options    *options;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "memory.share", share), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", "1"), IPU_OK);
    if (ipu_executable_compile(g, programs, n, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, options, &e), IPU_OK);
    if (planned) ipu_executable_memory(exe, planned, NULL);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return e;
}

static void sharing_memory_changes_no_result(void **state)
{
    (void)state;
    uint64_t seed     = test_seed(1);
    int64_t  together = 0, apart = 0;
    for (int trial = 0; trial < test_count(400); trial++) {
        test_random r = {seed + (uint64_t)trial};
        ipu_program programs[N_PROGRAMS];
        ipu_graph  *g = make(seed + (uint64_t)trial, programs);
        int64_t     a, b;
        ipu_engine *e[] = {new_engine(g, programs, N_PROGRAMS, "true", &a),
                           new_engine(g, programs, N_PROGRAMS, "false", &b)};
        together += a;
        apart += b;
        for (int run = 0; run < 8; run++) {
            uint32_t controls[N_CONTROLS], results[2][N_ELEMENTS];
            size_t   program = (size_t)random_in(&r, 0, N_PROGRAMS - 1);
            for (int i = 0; i < N_CONTROLS; i++) controls[i] = (uint32_t)random_in(&r, 0, 3);
            for (int i = 0; i < 2; i++) {
                assert_int_equal(ipu_engine_write(e[i], "controls", controls, sizeof controls), IPU_OK);
                assert_int_equal(ipu_engine_run(e[i], program), IPU_OK);
                assert_int_equal(ipu_engine_read(e[i], "result", results[i], sizeof results[i]), IPU_OK);
            }
            if (memcmp(results[0], results[1], sizeof results[0]) != 0)
                fail_msg("run %d: IPU_TEST_SEED=%llu IPU_TEST_COUNT=1", run,
                         (unsigned long long)(seed + (uint64_t)trial));
        }
        ipu_engine_destroy(e[0]);
        ipu_engine_destroy(e[1]);
        ipu_graph_destroy(g);
    }
    assert_true(together < apart);
}

/* ---- single cases ---- */

static int64_t planned(ipu_graph *g, const ipu_program *programs, size_t n)
{
    ipu_executable *exe;
    int64_t         bytes;
    if (ipu_executable_compile(g, programs, n, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_memory(exe, &bytes, NULL);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return bytes;
}

enum { SIZE = 1024, BYTES = 4 * SIZE };

/* Each of n + 1 variables mixed into the next. */
static void make_chain(ipu_graph *g, ipu_program p, ipu_tensor *t, int n)
{
    for (int i = 0; i <= n; i++) t[i] = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "t");
    for (int i = 0; i < n; i++) add_mix(g, p, t[i], t[i], t[i + 1]);
}

static void a_chain_keeps_its_input_and_shares_the_rest(void **state)
{
    (void)state;
    ipu_tensor  t[21];
    ipu_graph  *g = new_graph();
    ipu_program p = ipu_program_sequence(g);
    make_chain(g, p, t, 20);
    assert_int_equal(planned(g, &p, 1), 3 * BYTES);
}

static void add(ipu_program p, ipu_tensor a, ipu_tensor b, ipu_tensor out)
{
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){a, b, out}, 3);
}

/* input -> t0 -> t1 ... by kernels that may write over what they read. */
static void kernels_write_over_inputs_that_end_there(void **state)
{
    (void)state;
    for (int reused = 0; reused < 2; reused++) {
        ipu_graph  *g     = new_graph();
        ipu_program p     = ipu_program_sequence(g);
        ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"), t[10];
        ipu_graph_add_host_write(g, "input", input);
        for (int i = 0; i < 10; i++) {
            t[i] = ipu_graph_clone(g, input, "t");
            add(p, i ? t[i - 1] : input, input, t[i]);
        }
        if (reused) add(p, t[3], input, t[9]); /* t[3] lives on, so t[4] needs memory of its own */
        assert_int_equal(planned(g, &p, 1), (reused ? 3 : 2) * BYTES);
    }
}

/* Two outputs, the first of which is never read: it ends where it begins, as does the input. */
static void outputs_of_one_kernel_do_not_take_the_same_input(void **state)
{
    (void)state;
    ipu_attribute both  = IPU_TEXT_ATTRIBUTE("program", "add a0 a0; mul t0 a0; out t0 t1");
    ipu_graph    *g     = new_graph();
    ipu_program   p     = ipu_program_sequence(g);
    ipu_tensor    input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input");
    ipu_tensor    x = ipu_graph_clone(g, input, "x"), last = ipu_graph_clone(g, input, "last");
    ipu_builder  *b;
    ipu_value     out[2];
    ipu_graph_add_host_write(g, "input", input);
    add(p, input, input, x);
    assert_int_equal(ipu_builder_create(g, p, &b), IPU_OK);
    ipu_value in = ipu_builder_value(b, x);
    ipu_emit(b, "chain", &both, 1, &in, 1, out, 2);
    add(p, ipu_value_tensor(out[1]), input, last);
    ipu_builder_destroy(b);
    assert_int_equal(planned(g, &p, 1), 3 * BYTES); /* input, x and one output, the other and last */
}

static void what_a_later_turn_reads_is_not_shared(void **state)
{
    (void)state;
    for (int carried = 0; carried < 2; carried++) {
        ipu_graph  *g = new_graph();
        ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
        ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"),
                   x = ipu_graph_clone(g, input, "x"), y = ipu_graph_clone(g, input, "y"),
                   z = ipu_graph_clone(g, input, "z");
        ipu_graph_add_host_write(g, "input", input);
        add_mix(g, p, input, input, x);
        if (!carried) add_mix(g, body, input, input, x);
        add_mix(g, body, x, x, y); /* x ends here unless the next iteration reads it */
        add_mix(g, body, y, y, z);
        ipu_program_add_repeat(p, 3, body);
        assert_int_equal(planned(g, &p, 1), (carried ? 4 : 3) * BYTES);
    }
}

static void a_write_in_one_branch_only_does_not_end_a_value(void **state)
{
    (void)state;
    for (int both = 0; both < 2; both++) {
        ipu_graph  *g = new_graph();
        ipu_program p = ipu_program_sequence(g), then = ipu_program_sequence(g),
                    otherwise = ipu_program_sequence(g);
        ipu_tensor input      = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"), t[2],
                   x = ipu_graph_clone(g, input, "x"), z = ipu_graph_clone(g, input, "z");
        ipu_graph_add_host_write(g, "input", input);
        for (int i = 0; i < 2; i++) t[i] = ipu_graph_clone(g, input, "t");
        add_mix(g, p, input, input, t[0]);
        add_mix(g, p, t[0], t[0], t[1]); /* the two end here */
        add_mix(g, then, input, input, x);
        if (both) add_mix(g, otherwise, input, input, x);
        ipu_program_add_if(p, ipu_tensor_index(input, 0), then, otherwise);
        add_mix(g, p, x, x, z);
        assert_int_equal(planned(g, &p, 1), (both ? 3 : 4) * BYTES);
    }
}

static void several_programs_share_their_scratch(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph();
    ipu_program p[2];
    ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input");
    ipu_graph_add_host_write(g, "input", input);
    for (int i = 0; i < 2; i++) {
        ipu_tensor x = ipu_graph_clone(g, input, "x"), y = ipu_graph_clone(g, input, "y");
        p[i] = ipu_program_sequence(g);
        add_mix(g, p[i], input, input, x);
        add_mix(g, p[i], x, x, y);
    }
    assert_int_equal(planned(g, p, 2), 3 * BYTES);
}

static void frames_of_functions_share(void **state)
{
    (void)state;
    ipu_graph  *g     = new_graph();
    ipu_program p     = ipu_program_sequence(g);
    ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input");
    ipu_graph_add_host_write(g, "input", input);
    for (int i = 0; i < 5; i++) { /* five functions with two variables each, one live at a time */
        ipu_tensor  x = ipu_graph_clone(g, input, "x"), y = ipu_graph_clone(g, input, "y");
        ipu_program body = ipu_program_sequence(g);
        add_mix(g, body, input, input, x);
        add_mix(g, body, x, x, y);
        add_stir(g, body, y, input);
        ipu_program_add_call(p, ipu_graph_add_function(g, body, "f"));
    }
    assert_int_equal(planned(g, &p, 1), 3 * BYTES);
}

static void an_undefined_write_ends_a_value(void **state)
{
    (void)state;
    for (int undefined = 0; undefined < 2; undefined++) {
        ipu_graph  *g     = new_graph();
        ipu_program p     = ipu_program_sequence(g);
        ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"),
                   x = ipu_graph_clone(g, input, "x"), y = ipu_graph_clone(g, input, "y");
        ipu_graph_add_host_write(g, "input", input);
        add_mix(g, p, input, input, y);
        add_stir(g, p, y, input);
        if (undefined) ipu_program_add_write_undef(p, x);
        for (int64_t half = 0; half < SIZE; half += SIZE / 2) /* x is written in halves */
            ipu_program_add_copy(p, ipu_tensor_slice(input, half, half + SIZE / 2, 0),
                                 ipu_tensor_slice(x, half, half + SIZE / 2, 0));
        add_stir(g, p, x, input);
        assert_int_equal(planned(g, &p, 1), (undefined ? 2 : 3) * BYTES);
    }
}

/* Copies of one batch run concurrently: y must not be placed where x was, though x is read there for the
 * last time. */
static void copies_of_a_batch_do_not_share(void **state)
{
    (void)state;
    for (int one_batch = 0; one_batch < 2; one_batch++) {
        ipu_graph  *g     = new_graph();
        ipu_program p     = ipu_program_sequence(g);
        ipu_tensor  input = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"),
                   x = ipu_graph_clone(g, input, "x"), y = ipu_graph_clone(g, input, "y"),
                   z = ipu_graph_clone(g, input, "z");
        ipu_graph_add_host_write(g, "input", input);
        add_mix(g, p, input, input, x);
        ipu_program_add_copy(p, x, z);
        if (!one_batch) add_stir(g, p, input, z);
        ipu_program_add_copy(p, input, y);
        add_stir(g, p, y, z);
        assert_int_equal(planned(g, &p, 1), (one_batch ? 4 : 3) * BYTES);
    }
}

static void a_call_that_writes_all_ends_a_value(void **state)
{
    (void)state;
    ipu_graph  *g = new_graph();
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_tensor  t[3], input                       = variable(g, IPU_UINT32, IPU_SHAPE(SIZE), "input"),
                     x = ipu_graph_clone(g, input, "x");
    add_mix(g, body, input, input, x);
    make_chain(g, p, t, 2);
    ipu_program_add_call(p, ipu_graph_add_function(g, body, "f"));
    add_stir(g, p, x, t[0]);
    /* kept: the function's input and the chain's; shared: two of the chain, what the function writes */
    assert_int_equal(planned(g, &p, 1), 4 * BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sharing_memory_changes_no_result),
        cmocka_unit_test(a_chain_keeps_its_input_and_shares_the_rest),
        cmocka_unit_test(kernels_write_over_inputs_that_end_there),
        cmocka_unit_test(outputs_of_one_kernel_do_not_take_the_same_input),
        cmocka_unit_test(what_a_later_turn_reads_is_not_shared),
        cmocka_unit_test(a_write_in_one_branch_only_does_not_end_a_value),
        cmocka_unit_test(several_programs_share_their_scratch),
        cmocka_unit_test(frames_of_functions_share),
        cmocka_unit_test(an_undefined_write_ends_a_value),
        cmocka_unit_test(copies_of_a_batch_do_not_share),
        cmocka_unit_test(a_call_that_writes_all_ends_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
