/* Several IPUs in the model of the chip: parallel steps, kernels on the tiles of a virtual graph, links, and what is
 * told of each IPU. The chip "tiny" has 4 tiles; launch 11, 6 workers. */
#include <jansson.h>

#include "cost_bench.h"
#include "graph/graph.h"

static ipu_compute_set busy_set(ipu_graph *g, int64_t tile, int64_t cycles)
{
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_vertex_set_cycles(add_vertex(g, cs, "Touch", tile, "x", on_tile(g, IPU_FLOAT, 8, tile, "x")), cycles);
    return cs;
}

static ipu_program executes(ipu_graph *g, ipu_compute_set cs, int times)
{
    ipu_program p = ipu_program_sequence(g);
    for (int i = 0; i < times; i++) ipu_program_add_execute(p, cs);
    return p;
}

static int64_t total_of(const ipu_cost *cost) { return summary_of(cost).cycles.total; }

static ipu_cost_ipu ipu_at(const ipu_cost *cost, int64_t i)
{
    ipu_cost_ipu ipu;
    assert_true(ipu_cost_ipu_at(cost, i, &ipu));
    return ipu;
}

/* ---- parallel steps ---- */

static void a_parallel_step_takes_as_long_as_its_longest_body(void **unused)
{
    (void)unused;
    ipu_graph      *g   = new_graph("tiny", 2, 1);
    ipu_compute_set one = busy_set(g, 0, 100), other = busy_set(g, 4, 70);
    ipu_program     bodies[] = {executes(g, one, 1), executes(g, other, 3), {g, 0}};
    ipu_program     apart = ipu_program_sequence(g), together = ipu_program_sequence(g);
    for (int i = 0; i < 2; i++) ipu_program_add(apart, bodies[i]);
    ipu_program_add_parallel(together, bodies, 3);
    ipu_program_add_parallel(together, bodies, 3);
    ipu_cost *cost = estimate(g, apart), *first = estimate(g, bodies[0]), *second = estimate(g, bodies[1]),
             *both = estimate(g, together);
    assert_int_equal(total_of(cost), total_of(first) + total_of(second));
    assert_true(total_of(second) > total_of(first));
    assert_int_equal(total_of(both), 2 * total_of(second));
    char note[128];
    snprintf(note, sizeof note, "at the same time, in cycles: %lld, %lld, 0; the longest is counted",
             (long long)total_of(first), (long long)total_of(second));
    assert_string_equal(step_at(both, 0).note, note);
    assert_string_equal(step_at(both, 0).kind, "parallel");
    assert_int_equal(ipu_at(both, 0).cycles, 2 * (11 + 6 * 100));
    assert_int_equal(ipu_at(both, 1).cycles, 2 * 3 * (11 + 6 * 70));
    ipu_cost *const all[] = {cost, first, second, both};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) ipu_cost_destroy(all[i]);
    ipu_graph_destroy(g);
}

static void the_report_has_a_line_for_each_ipu(void **unused)
{
    (void)unused;
    ipu_graph   *g        = new_graph("tiny", 4, 2);
    ipu_program  bodies[] = {executes(g, busy_set(g, 0, 100), 1), executes(g, busy_set(g, 4, 70), 3)};
    ipu_program  p        = ipu_program_sequence(g);
    json_error_t error;
    char        *text, *json;
    ipu_program_add_parallel(p, bodies, 2);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(ipu_cost_print(cost, 0, &text), IPU_OK);
    assert_non_null(strstr(text, "IPUs (of one replica)"));
    char line[64];
    snprintf(line, sizeof line, "      1 %14d", 3 * (11 + 6 * 70));
    assert_non_null(strstr(text, line));
    assert_null(strstr(text, "\n      2 "));
    assert_int_equal(ipu_cost_json(cost, 0, &json), IPU_OK);
    json_t       *o    = json_loads(json, 0, &error);
    const json_t *ipus = json_object_get(json_object_get(o, "execution"), "ipus");
    assert_int_equal(json_array_size(ipus), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(ipus, 0), "cycles")), 11 + 6 * 100);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(ipus, 1), "fullest_tile")), 4);
    json_decref(o);
    ipu_free(text);
    ipu_free(json);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void one_ipu_has_no_line_of_its_own(void **unused)
{
    (void)unused;
    ipu_graph *g    = new_graph("tiny", 1, 1);
    ipu_cost  *cost = estimate(g, executes(g, busy_set(g, 0, 100), 1));
    char      *text;
    assert_int_equal(ipu_cost_print(cost, 0, &text), IPU_OK);
    assert_null(strstr(text, "IPUs (of one replica)"));
    ipu_free(text);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

/* ---- kernels on a window ---- */

enum { M = 64 };

static ipu_program multiply_on(ipu_graph *g)
{
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  t[3];
    for (int i = 0; i < 3; i++) {
        t[i] = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(M, M), "t");
        ipu_graph_map_linearly(g, t[i]);
    }
    ipu_program_add_kernel(p, "matmul", NULL, 0, t, 3);
    return p;
}

static int64_t bytes_on(const ipu_cost *cost, int64_t tile, ipu_memory_category category)
{
    ipu_cost_tile t;
    assert_true(ipu_cost_tile_at(cost, tile, &t));
    return t.bytes[category];
}

static void a_kernel_is_charged_to_the_tiles_of_its_graph(void **unused)
{
    (void)unused;
    ipu_graph    *g = new_graph("gc200", 2, 1), *h = new_graph("gc200", 2, 1);
    int64_t       n     = ipu_graph_n_tiles(g) / 2;
    ipu_cost     *left  = estimate(g, multiply_on(g));
    ipu_cost     *right = estimate(h, multiply_on(ipu_graph_add_virtual_range(h, n, 2 * n)));
    ipu_cost_step a = step_at(left, 0), b = step_at(right, 0);
    assert_int_equal(a.cycles.compute, b.cycles.compute);
    assert_int_equal(a.active_tiles, b.active_tiles);
    assert_int_equal(ipu_at(left, 0).cycles, a.cycles.compute);
    assert_int_equal(ipu_at(left, 1).cycles, 0);
    assert_int_equal(ipu_at(right, 0).cycles, 0);
    assert_int_equal(ipu_at(right, 1).cycles, a.cycles.compute);
    for (int64_t t = 0; t < n; t++)
        for (int c = IPU_MEMORY_TEMPORARIES; c <= IPU_MEMORY_EXCHANGE_CODE; c++) {
            assert_int_equal(bytes_on(left, t, c), bytes_on(right, n + t, c));
            assert_int_equal(bytes_on(left, n + t, c), bytes_on(right, t, c));
        }
    assert_true(bytes_on(right, n, IPU_MEMORY_CODE) > bytes_on(right, 0, IPU_MEMORY_CODE));
    ipu_cost_destroy(left);
    ipu_cost_destroy(right);
    ipu_graph_destroy(g);
    ipu_graph_destroy(h);
}

static void a_kernel_on_a_few_tiles_takes_longer(void **unused)
{
    (void)unused;
    ipu_graph *g = new_graph("gc200", 1, 1), *h = new_graph("gc200", 1, 1);
    ipu_cost  *all = estimate(g, multiply_on(g)),
             *few  = estimate(h, multiply_on(ipu_graph_add_virtual_range(h, 100, 108)));
    assert_true(step_at(few, 0).active_tiles <= 8);
    assert_true(step_at(few, 0).cycles.compute > step_at(all, 0).cycles.compute);
    assert_true(bytes_on(few, 100, IPU_MEMORY_CODE) > bytes_on(few, 99, IPU_MEMORY_CODE));
    assert_int_equal(bytes_on(few, 108, IPU_MEMORY_CODE), bytes_on(few, 99, IPU_MEMORY_CODE));
    ipu_cost_destroy(all);
    ipu_cost_destroy(few);
    ipu_graph_destroy(g);
    ipu_graph_destroy(h);
}

/* A virtual graph of tiles that are not neighbours is no window: the kernel has the whole replica. */
static void the_window_is_in_the_text(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("gc200", 2, 1);
    ipu_program p = multiply_on(
        ipu_graph_add_virtual_range(ipu_graph_add_virtual_range(g, 1000, 2000), 10, 20));
    ipu_program q = multiply_on(ipu_graph_add_virtual(g, (int64_t[]){1, 3}, 2));
    ipu_program_add(p, q);
    char      *text, *again;
    ipu_parsed parsed;
    assert_int_equal(ipu_graph_print(g, &p, 1, 0, NULL, &text), IPU_OK);
    assert_non_null(strstr(text, "on 1010..1020;"));
    assert_non_null(strstr(text, ");"));
    if (ipu_graph_parse(text, strlen(text), "text", NULL, 0, NULL, &parsed) != IPU_OK)
        fail_msg("%s", ipu_message());
    assert_int_equal(ipu_graph_print(parsed.graph, parsed.programs, 1, 0, NULL, &again), IPU_OK);
    assert_string_equal(text, again);
    assert_int_equal(parsed.graph->kernel_steps.at[1].first_tile, 1010);
    assert_int_equal(parsed.graph->kernel_steps.at[1].n_tiles, 10);
    assert_int_equal(parsed.graph->kernel_steps.at[2].first_tile, 0);
    assert_int_equal(parsed.graph->kernel_steps.at[2].n_tiles, ipu_graph_n_tiles(g));
    ipu_free(text);
    ipu_free(again);
    ipu_graph_destroy(parsed.graph);
    ipu_graph_destroy(g);
}

static void a_window_beyond_the_tiles_is_refused(void **unused)
{
    (void)unused;
    static const char *const windows[] = {"on 1..5", "on 2..2", "on 3..2", "on -1..2"};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char       text[256];
        ipu_parsed parsed;
        snprintf(text, sizeof text,
                 "graph target tiny { var x float[4] on 0; program { kernel fill (x) { value = 1 } %s; } }",
                 windows[i]);
        assert_int_equal(ipu_graph_parse(text, strlen(text), "text", NULL, 0, NULL, &parsed), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), i < 3 ? "expected some of 4" : "text:1:"));
    }
}

/* ---- models ---- */

static void a_model_is_lowered_into_a_window(void **unused)
{
    (void)unused;
    ipu_graph *g = new_graph("gc200", 2, 1);
    int64_t    n = ipu_graph_n_tiles(g) / 2;
    ipu_graph *v = ipu_graph_add_virtual_range(g, n, 2 * n);
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(16, 32), "x");
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(32, 8), NULL, "w");
    ipu_builder *b = ipu_model_builder(m);
    ipu_model_output(m, ipu_relu(b, ipu_matmul(b, x, w)), "y");
    ipu_program p;
    if (ipu_model_lower(m, v, &p) != IPU_OK) fail_msg("%s", ipu_message());
    assert_true(g->kernel_steps.n > 1);
    for (size_t i = 1; i < g->kernel_steps.n; i++) {
        assert_int_equal(g->kernel_steps.at[i].first_tile, n);
        assert_int_equal(g->kernel_steps.at[i].n_tiles, n);
    }
    for (size_t i = 1; i < g->variables.n; i++)
        for (size_t k = 0; k < g->variables.at[i].mapping.places.n; k++)
            assert_true(g->variables.at[i].mapping.places.at[k].tile >= n);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(ipu_at(cost, 0).cycles, 0);
    assert_true(ipu_at(cost, 1).cycles > 0);
    ipu_cost_destroy(cost);
    ipu_model_destroy(m);
    ipu_graph_destroy(g);
}

/* ---- links ---- */

static void copies_between_ipus_go_over_links(void **unused)
{
    (void)unused;
    ipu_graph *g = new_graph("gc200", 2, 1);
    int64_t    n = ipu_graph_n_tiles(g) / 2;
    ipu_tensor x = on_tile(g, IPU_FLOAT, 1000, 0, "x"), near = on_tile(g, IPU_FLOAT, 1000, 1, "near"),
               far = on_tile(g, IPU_FLOAT, 1000, n, "far");
    ipu_program p  = ipu_program_sequence(g);
    ipu_program_add_copy(p, x, near);
    ipu_program_add_copy(p, x, far);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(step_at(cost, 0).link_bytes, 0);
    assert_int_equal(step_at(cost, 1).link_bytes, 4000);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_parallel_step_takes_as_long_as_its_longest_body),
        cmocka_unit_test(the_report_has_a_line_for_each_ipu),
        cmocka_unit_test(one_ipu_has_no_line_of_its_own),
        cmocka_unit_test(a_kernel_is_charged_to_the_tiles_of_its_graph),
        cmocka_unit_test(a_kernel_on_a_few_tiles_takes_longer),
        cmocka_unit_test(the_window_is_in_the_text),
        cmocka_unit_test(a_window_beyond_the_tiles_is_refused),
        cmocka_unit_test(a_model_is_lowered_into_a_window),
        cmocka_unit_test(copies_between_ipus_go_over_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
