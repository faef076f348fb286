/* Memory of tiles against cases computed by hand, laws that every cost keeps, and what is said when it fails.
 * The chip "tiny" has 4 tiles of 16 KiB. */
#include "base/alloc.h"
#include "cost_bench.h"
#include "random_program.h"

/* ---- memory ---- */

enum { STACKS = 6 * 200 + 112, STEP = 32 };

static void a_tile_may_be_full_to_the_byte_and_no_further(void **unused)
{
    (void)unused;
    for (int64_t over = -1; over <= 3; over++) {
        ipu_graph  *g = new_graph("tiny", 1, 1);
        ipu_program p = ipu_program_sequence(g);
        ipu_program_add_sync(p, IPU_SYNC_INTERNAL);
        ipu_graph_add_host_read(g, "x", on_tile(g, IPU_UINT8, 10000, 2, "x"));
        ipu_graph_add_host_read(g, "y", on_tile(g, IPU_UINT8, 16384 - STACKS - STEP - 10000 + over, 2, "y"));
        ipu_cost  *cost;
        ipu_status status = ipu_cost_estimate(g, &p, 1, &(ipu_cost_options){.strict = true}, &cost);
        assert_non_null(cost);
        assert_int_equal(status, over > 0 ? IPU_TILE_OVERFLOW : IPU_OK);
        assert_int_equal(summary_of(cost).memory_most, 16384 + over);
        assert_int_equal(summary_of(cost).fullest_tile, 2);
        assert_int_equal(summary_of(cost).n_overfull, over > 0);
        ipu_cost_overfull o;
        assert_int_equal(ipu_cost_overfull_at(cost, 0, &o), over > 0);
        if (over > 0) {
            assert_int_equal(o.tile, 2);
            assert_int_equal(o.over, over);
            assert_int_equal(o.n_tenants, 3);
            assert_string_equal(o.tenant[0], "\"x\"");
            assert_int_equal(o.tenant_bytes[0], 10000);
            assert_string_equal(o.tenant[1], "\"y\"");
            assert_string_equal(o.tenant[2], "stacks");
            assert_non_null(strstr(ipu_message(), "tile 2 of 4 is over-full by"));
            assert_non_null(strstr(ipu_message(), "\"x\": 10000 bytes"));
        }
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
}

static char warning[1000];

static void keep_warning(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)module;
    if (level == IPU_LOG_INFO) snprintf(warning, sizeof warning, "%s", text);
}

static void an_over_full_tile_is_told_and_no_error_unless_strict(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("tiny", 1, 1);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_sync(p, IPU_SYNC_INTERNAL);
    ipu_graph_add_host_read(g, "x", on_tile(g, IPU_UINT8, 16384, 3, "x"));
    ipu_log_set(IPU_LOG_INFO, keep_warning, NULL);
    ipu_cost *cost = estimate(g, p);
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
    assert_non_null(strstr(warning, "tile 3 of 4 is over-full by 1344 bytes (17728 of 16384)"));
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static ipu_cost_tile tile_of(const ipu_cost *cost, int64_t i)
{
    ipu_cost_tile t;
    assert_true(ipu_cost_tile_at(cost, i, &t));
    return t;
}

static void variables_share_memory_when_they_are_not_live_together(void **unused)
{
    (void)unused;
    ipu_graph  *g  = new_graph("tiny", 1, 1);
    ipu_program p  = ipu_program_sequence(g);
    ipu_tensor  in = on_tile(g, IPU_FLOAT, 100, 1, "in");
    ipu_tensor  t[4];
    for (int i = 0; i < 4; i++) t[i] = on_tile(g, IPU_FLOAT, 100, 0, "t");
    ipu_graph_add_host_write(g, "in", in);
    ipu_program_add_copy(p, in, t[0]);
    for (int i = 1; i < 4; i++) ipu_program_add_copy(p, t[i - 1], t[i]);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(tile_of(cost, 1).bytes[IPU_MEMORY_ALWAYS_LIVE], 400);
    assert_int_equal(tile_of(cost, 1).bytes[IPU_MEMORY_NOT_ALWAYS_LIVE], 0);
    assert_int_equal(tile_of(cost, 1).peak_step, -1);
    assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_NOT_ALWAYS_LIVE], 800); /* two at a time */
    assert_int_equal(tile_of(cost, 0).peak_step, 1);
    assert_int_equal(step_at(cost, 0).tile_bytes, tile_of(cost, 0).total - 400);
    assert_int_equal(step_at(cost, 3).tile_bytes, tile_of(cost, 0).total);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

/* Many variables, each live for some steps: bytes at each step, added up variable by variable. */
static void memory_of_each_step_agrees_with_a_count_by_variable(void **unused)
{
    (void)unused;
    enum { STEPS = 60, VARIABLES = 12 };
    test_random r = {test_seed(7)};
    for (int round = test_count(50); round > 0; round--) {
        ipu_graph  *g = new_graph("tiny", 1, 1);
        ipu_program p = ipu_program_sequence(g);
        ipu_tensor  t[VARIABLES];
        int64_t     tile[VARIABLES], size[VARIABLES], first[VARIABLES], last[VARIABLES];
        for (int i = 0; i < VARIABLES; i++) {
            tile[i]  = random_in(&r, 0, 3);
            size[i]  = random_in(&r, 1, 30);
            first[i] = random_in(&r, 0, STEPS - 1);
            last[i]  = random_in(&r, first[i], STEPS - 1);
            t[i]     = on_tile(g, IPU_UINT8, size[i], tile[i], "t");
        }
        for (int s = 0; s < STEPS;
             s++) { /* a value is written, then read: every step accesses at most one thing */
            ipu_program step = ipu_program_sequence(g);
            ipu_program_add_sync(step, IPU_SYNC_INTERNAL);
            for (int i = 0; i < VARIABLES; i++) {
                const ipu_attribute value = IPU_INT_ATTRIBUTE("value", 1);
                if (s == first[i]) ipu_program_add_kernel(step, "fill", &value, 1, &t[i], 1);
                if (s == last[i]) ipu_program_add_print(step, "t", t[i]);
            }
            ipu_program_add(p, step);
        }
        ipu_cost     *cost = estimate(g, p);
        ipu_cost_step row;
        int           s = -1;
        for (int64_t n = 0; ipu_cost_step_at(cost, n, &row); n++) {
            int64_t most = 0;
            if (strcmp(row.kind, "sync") != 0) continue;
            s++;
            for (int64_t k = 0; k < 4; k++) { /* at a sync, what was written before and is read later */
                ipu_cost_tile now  = tile_of(cost, k);
                int64_t       live = now.total - now.bytes[IPU_MEMORY_NOT_ALWAYS_LIVE]
                             - now.bytes[IPU_MEMORY_TEMPORARIES];
                for (int i = 0; i < VARIABLES; i++)
                    if (tile[i] == k && first[i] < s && last[i] >= s) live += size[i];
                ipu_cost_tile during;
                assert_true(ipu_cost_tile_during(cost, k, n, &during));
                assert_int_equal(during.total, live);
                assert_int_equal(during.peak_step, n);
                if (live > most) most = live;
            }
            assert_int_equal(row.tile_bytes, most);
        }
        assert_int_equal(s, STEPS - 1);
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
}

static void what_a_loop_carries_is_live_all_through_it(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("tiny", 1, 1);
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_tensor  in = on_tile(g, IPU_FLOAT, 100, 1, "in"), out = on_tile(g, IPU_FLOAT, 100, 1, "out");
    ipu_tensor  carried = on_tile(g, IPU_FLOAT, 100, 0, "carried"), a = on_tile(g, IPU_FLOAT, 100, 0, "a"),
               b = on_tile(g, IPU_FLOAT, 100, 0, "b");
    ipu_graph_add_host_write(g, "in", in);
    ipu_graph_add_host_read(g, "out", out);
    ipu_program_add_copy(p, in, carried);
    ipu_program_add_copy(body, carried, a); /* reads what the turn before has written */
    ipu_program_add_copy(body, a, b);
    ipu_program_add_copy(body, b, carried);
    ipu_program_add_repeat(p, 3, body);
    ipu_program_add_copy(p, in, out);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_ALWAYS_LIVE], 0);
    assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_NOT_ALWAYS_LIVE],
                     1200); /* all three while a goes to b */
    assert_int_equal(tile_of(cost, 0).peak_step, 3);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void branches_write_a_variable_only_if_all_do(void **unused)
{
    (void)unused;
    for (int both = 0; both < 2; both++) {
        ipu_graph  *g = new_graph("tiny", 1, 1);
        ipu_program p = ipu_program_sequence(g), then = ipu_program_sequence(g),
                    other = ipu_program_sequence(g);
        ipu_tensor in = on_tile(g, IPU_FLOAT, 100, 1, "in"), x = on_tile(g, IPU_FLOAT, 100, 0, "x");
        ipu_tensor flag = on_tile(g, IPU_BOOL, 1, 1, "flag"), out = on_tile(g, IPU_FLOAT, 100, 1, "out");
        ipu_graph_add_host_write(g, "in", in);
        ipu_graph_add_host_write(g, "flag", flag);
        ipu_program_add_copy(then, in, x);
        if (both) ipu_program_add_copy(other, in, x);
        ipu_program_add_if(p, flag, then, other);
        ipu_program_add_copy(p, x, out);
        ipu_cost *cost = estimate(g, p);
        assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_ALWAYS_LIVE], both ? 0 : 400);
        assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_NOT_ALWAYS_LIVE], both ? 400 : 0);
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
}

static void a_call_adds_what_its_function_needs(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("tiny", 1, 1);
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_tensor  in = on_tile(g, IPU_FLOAT, 100, 1, "in"), out = on_tile(g, IPU_FLOAT, 100, 2, "out");
    ipu_tensor  local = on_tile(g, IPU_FLOAT, 100, 0, "local"), more = on_tile(g, IPU_FLOAT, 50, 0, "more");
    ipu_graph_add_host_write(g, "in", in);
    ipu_graph_add_host_read(g, "out", out);
    ipu_program_add_copy(body, in, local);
    ipu_program_add_copy(body, local, out);
    ipu_function f = ipu_graph_add_function(g, body, "f");
    ipu_program_add_call(p, f);
    ipu_program_add_copy(p, ipu_tensor_slice(in, 0, 50, 0), more);
    ipu_program_add_call(p, f);
    ipu_program_add_copy(p, more, ipu_tensor_slice(out, 0, 50, 0));
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(tile_of(cost, 0).bytes[IPU_MEMORY_NOT_ALWAYS_LIVE], 600);
    assert_int_equal(step_at(cost, 2).tile_bytes - step_at(cost, 0).tile_bytes,
                     200); /* with and without `more` */
    assert_string_equal(step_at(cost, tile_of(cost, 0).peak_step).part, "function \"f\"");
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void categories_of_a_tile(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = table_set(g);
    ipu_tensor      y  = on_tile(g, IPU_FLOAT, 10, 1, "y");
    add_vertex(g, cs, "Touch", 0, "x", y);
    add_vertex(g, cs, "Touch", 0, "x", y);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_cost     *cost = estimate(g, p);
    ipu_cost_tile t    = tile_of(cost, 0);
    assert_int_equal(t.bytes[IPU_MEMORY_ALWAYS_LIVE], 8 * 4 + 6 * 2);
    assert_int_equal(t.bytes[IPU_MEMORY_MESSAGES], 40);
    /* Table: list 8 + two runs 16, factor 4, steps 8 + 8, pointer 4, entry 8. Touch: run 8, entry 8. */
    assert_int_equal(t.bytes[IPU_MEMORY_VERTEX_STATE], 24 + 4 + 16 + 4 + 8 + 2 * 16);
    assert_int_equal(t.bytes[IPU_MEMORY_CODE], 2 * 512 + STEP);
    assert_int_equal(t.bytes[IPU_MEMORY_EXCHANGE_CODE], 32 + 16);
    assert_int_equal(t.bytes[IPU_MEMORY_STACK], STACKS);
    assert_int_equal(step_at(cost, 0).fullest_tile, 0);
    assert_memory_equal(step_at(cost, 0).memory, t.bytes, sizeof t.bytes);
    assert_int_equal(tile_of(cost, 1).bytes[IPU_MEMORY_EXCHANGE_CODE], 32 + 16);
    assert_int_equal(tile_of(cost, 2).bytes[IPU_MEMORY_EXCHANGE_CODE], 0);
    assert_int_equal(summary_of(cost).n_edges, 5);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

/* ---- laws ---- */

static void more_work_is_never_cheaper(void **unused)
{
    (void)unused;
    ipu_cost_cycles before = {0};
    for (int64_t n = 1; n < 200; n++) {
        ipu_graph      *g  = new_graph("tiny", 1, 1);
        ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
        add_vertex(g, cs, "Touch", 1, "x", on_tile(g, IPU_FLOAT, n, 0, "x"));
        ipu_cost_cycles now = price_set(g, cs).cycles;
        assert_true(now.compute >= before.compute && now.exchange > before.exchange
                    && now.total > before.total);
        before = now;
        ipu_graph_destroy(g);
    }
}

static void check_sums(const ipu_cost *cost)
{
    ipu_cost_summary s   = summary_of(cost);
    ipu_cost_cycles  sum = {0}, programs = {0}, c;
    ipu_cost_step    step;
    int64_t          bytes = 0, categories = 0;
    bool             is_parallel = false;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &step); i++) {
        is_parallel |= strcmp(step.kind, "parallel") == 0;
        assert_int_equal(step.cycles.total,
                         step.cycles.compute + step.cycles.exchange + step.cycles.sync + step.cycles.host);
        sum.total += step.count * step.cycles.total;
        sum.compute += step.count * step.cycles.compute;
        assert_in_range(step.tile_bytes, 1, s.memory_most);
        int64_t on_tile_now = 0;
        for (int k = 0; k < IPU_N_MEMORY_CATEGORIES; k++) on_tile_now += step.memory[k];
        assert_int_equal(on_tile_now, step.tile_bytes);
        ipu_cost_tile during;
        assert_true(ipu_cost_tile_during(cost, step.fullest_tile, i, &during));
        assert_int_equal(during.total, step.tile_bytes);
        for (int k = 0; k < IPU_N_MEMORY_CATEGORIES; k++) assert_int_equal(during.bytes[k], step.memory[k]);
        assert_false(ipu_cost_tile_during(cost, s.n_tiles, i, &during));
        assert_false(ipu_cost_tile_during(cost, 0, s.n_steps, &during));
        assert_false(ipu_cost_tile_during(cost, 0, -1, &during));
    }
    for (int64_t i = 0; ipu_cost_program_at(cost, i, &c); i++) programs.total += c.total;
    if (is_parallel) { /* the longest of the bodies counts */
        assert_in_range(s.cycles.total, 1, sum.total);
        assert_in_range(s.cycles.compute, 0, sum.compute);
    } else {
        assert_int_equal(s.cycles.total, sum.total);
        assert_int_equal(s.cycles.compute, sum.compute);
    }
    assert_int_equal(s.cycles.total, programs.total);
    ipu_cost_tile tile;
    for (int64_t t = 0; ipu_cost_tile_at(cost, t, &tile); t++) {
        int64_t all = 0;
        for (int k = 0; k < IPU_N_MEMORY_CATEGORIES; k++) all += tile.bytes[k];
        assert_int_equal(all, tile.total);
        bytes += all;
    }
    for (int k = 0; k < IPU_N_MEMORY_CATEGORIES; k++) categories += s.memory[k];
    assert_int_equal(s.memory_total, bytes);
    assert_int_equal(s.memory_total, categories);
}

/* A bit of everything: two programs, loops, branches, functions, streams, kernels. */
static const char everything[] = "graph target gc200 ipus 2 tiles 4 replication 2 {\n"
                                 "  codelet Sum { in vector float x, out float y }\n"
                                 "  var a float[8] on { 0: 0..3, 1: 3..8 };\n"
                                 "  var b float[8] on 1;\n"
                                 "  var s float on 3;\n"
                                 "  var go bool on 0;\n"
                                 "  var n int32 on 0;\n"
                                 "  const c float[8] = {1, 2, 3, 4, 5, 6, 7, 8} on 2;\n"
                                 "  remote \"r\" float 8 rows 4;\n"
                                 "  stream in \"in\" float 8 replicate;\n"
                                 "  host_read \"s\" s;\n"
                                 "  compute_set sum { vertex Sum on 2 { x = a, y = s } }\n"
                                 "  function f { copy c -> b; execute sum; }\n"
                                 "  program {\n"
                                 "    read \"in\" -> a;\n"
                                 "    kernel fill (b) { value = 1.5 };\n"
                                 "    repeat 3 { call f; copy b -> a; }\n"
                                 "    while_true { sync internal; } go { call f; }\n"
                                 "    if go { call f; } else { remote_write a -> \"r\"; }\n"
                                 "    switch n { case 0 { execute sum; } default { write_undef b; } }\n"
                                 "    cross_replica_copy a -> b {1, 0};\n"
                                 "    print \"s\" s;\n"
                                 "    abort_if go \"no\";\n"
                                 "  }\n"
                                 "  program { copy {c[7: 8*-1]}[8] -> a; }\n"
                                 "}\n";

static void parse(const char *text, ipu_parsed *out)
{
    ipu_status status = ipu_graph_parse(text, strlen(text), "text", NULL, 0, NULL, out);
    if (status != IPU_OK) print_error("%s\n", ipu_message());
    assert_int_equal(status, IPU_OK);
}

static void totals_are_sums(void **unused)
{
    (void)unused;
    ipu_parsed parsed;
    ipu_cost  *cost;
    parse(everything, &parsed);
    assert_int_equal(ipu_cost_estimate(parsed.graph, parsed.programs, parsed.n_programs, NULL, &cost),
                     IPU_OK);
    ipu_graph_destroy(parsed.graph); /* not needed any more */
    check_sums(cost);
    assert_non_null(strstr(step_at(cost, 0).where, "text:"));
    ipu_cost_destroy(cost);
}

static void random_programs_keep_the_laws(void **unused)
{
    (void)unused;
    static random_program rp;
    uint64_t              seed = test_seed(1);
    for (int n = 0, count = test_count(200); n < count; n++) {
        ipu_cost *cost;
        memset(&rp, 0, sizeof rp);
        random_program_create(&rp, seed + (uint64_t)n);
        ipu_status status = ipu_cost_estimate(rp.graph, rp.programs, RP_N_PROGRAMS, NULL, &cost);
        if (status != IPU_OK)
            print_error("seed %llu: %s\n", (unsigned long long)seed + (unsigned)n, ipu_message());
        assert_int_equal(status, IPU_OK);
        ipu_graph_destroy(rp.graph);
        check_sums(cost);
        ipu_cost_destroy(cost);
    }
}

/* ---- errors ---- */

static void mistakes_are_told(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_program     p  = ipu_program_sequence(g);
    ipu_tensor      x  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_cost       *cost;
    add_vertex(g, cs, "Touch", 0, "x", x);
    ipu_program_add_execute(p, cs);
    assert_int_equal(ipu_cost_estimate(g, &p, 1, NULL, &cost), IPU_INVALID);
    assert_null(cost);
    assert_non_null(strstr(ipu_message(), "\"x\""));
    ipu_graph_set_tile_mapping(g, x, 0);
    assert_int_equal(ipu_cost_estimate(g, &p, 1, &(ipu_cost_options){.while_count = -1}, &cost), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "while_count is -1"));
    assert_int_equal(ipu_cost_estimate(g, &p, 0, NULL, &cost), IPU_INVALID);
    ipu_graph_destroy(g);
}

static int64_t less_than_nothing(const ipu_vertex_info *v, const ipu_target *target, void *user)
{
    (void)v, (void)target, (void)user;
    return -3;
}

static void wrong_estimates_are_told(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_program     p  = ipu_program_sequence(g);
    ipu_cost       *cost;
    ipu_vertex      v = add_vertex(g, cs, "Touch", 0, "x", on_tile(g, IPU_FLOAT, 4, 0, "x"));
    ipu_program_add_execute(p, cs);
    ipu_graph_set_cycle_estimator(g, "Touch", less_than_nothing, NULL);
    assert_int_equal(ipu_cost_estimate(g, &p, 1, NULL, &cost), IPU_INVALID);
    assert_null(cost);
    assert_non_null(strstr(ipu_message(), "\"Touch\" returned -3"));
    ipu_vertex_set_cycles(v, 5); /* goes before it */
    ipu_cost_destroy(estimate(g, p));
    ipu_vertex_set_cycles(v, 0);
    assert_int_equal(ipu_graph_status(g), IPU_INVALID);
    assert_non_null(strstr(ipu_graph_message(g), "0 cycles: expected 1 to 4294967295"));
    assert_non_null(strstr(ipu_graph_message(g), "cost_memory_test.c:"));
    ipu_graph_destroy(g);
    g = new_graph("tiny", 1, 1);
    ipu_graph_set_cycle_estimator(g, "Tuch", less_than_nothing, NULL);
    assert_int_equal(ipu_graph_status(g), IPU_NOT_FOUND);
    assert_non_null(strstr(ipu_graph_message(g), "did you mean \"Touch\"?"));
    ipu_graph_destroy(g);
}

static int64_t allowed, in_use;

static void *failing(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        in_use -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (allowed-- <= 0) return NULL;
    in_use += ptr == NULL;
    return realloc(ptr, new_bytes);
}

static ipu_status everything_once(void)
{
    ipu_parsed parsed;
    ipu_cost  *cost = NULL;
    char      *text = NULL;
    IPU_TRY(ipu_graph_parse(everything, strlen(everything), "text", NULL, 0, NULL, &parsed));
    ipu_status status = ipu_cost_estimate(parsed.graph, parsed.programs, parsed.n_programs, NULL, &cost);
    ipu_graph_destroy(parsed.graph);
    if (status == IPU_OK) {
        /* Of no step of the program: all are listed apart. */
        const ipu_step_time times[] = {{1, 0, 1, 1, "kernel", "another", 0}, {1, 1, 1, 1, "copy", "", -1}};
        status                      = ipu_cost_set_times(cost, times, 2);
        ipu_step_time apart;
        if (status == IPU_OK) assert_true(ipu_cost_host_step_at(cost, 1, &apart));
    }
    if (status == IPU_OK) status = ipu_cost_print(cost, IPU_PROFILE_STEPS, &text);
    if (status == IPU_OK) ipu_free(text);
    if (status == IPU_OK) status = ipu_cost_json(cost, IPU_PROFILE_TILES, &text);
    if (status == IPU_OK) ipu_free(text);
    ipu_cost_destroy(cost);
    return status;
}

static void every_allocation_may_fail(void **unused)
{
    (void)unused;
    ipu_status status = IPU_OUT_OF_MEMORY;
    for (int64_t n = 0; status != IPU_OK; n++) {
        allowed = n;
        in_use  = 0;
        ipu__alloc_set(failing, NULL);
        status = everything_once();
        ipu__alloc_set(NULL, NULL);
        assert_int_equal(in_use, 0);
        if (status != IPU_OK) assert_int_equal(status, IPU_OUT_OF_MEMORY);
        assert_in_range(n, 0, 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_may_be_full_to_the_byte_and_no_further),
        cmocka_unit_test(an_over_full_tile_is_told_and_no_error_unless_strict),
        cmocka_unit_test(variables_share_memory_when_they_are_not_live_together),
        cmocka_unit_test(memory_of_each_step_agrees_with_a_count_by_variable),
        cmocka_unit_test(what_a_loop_carries_is_live_all_through_it),
        cmocka_unit_test(branches_write_a_variable_only_if_all_do),
        cmocka_unit_test(a_call_adds_what_its_function_needs),
        cmocka_unit_test(categories_of_a_tile),
        cmocka_unit_test(more_work_is_never_cheaper),
        cmocka_unit_test(totals_are_sums),
        cmocka_unit_test(random_programs_keep_the_laws),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(wrong_estimates_are_told),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
