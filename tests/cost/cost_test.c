/* Cycles against cases computed by hand, and against a count element by element. The chip "tiny" has 4 tiles;
 * sync 600, launch 11, 6 workers, 4 B a cycle, 160 cycles for a further message. */
#include "cost_bench.h"
#include "graph/kernel.h"
#include "random.h"

/* ---- compute ---- */

static void one_vertex_on_one_tile(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_vertex_set_cycles(add_vertex(g, cs, "Touch", 0, "x", on_tile(g, IPU_FLOAT, 8, 0, "x")), 100);
    ipu_cost_step s = price_set(g, cs);
    assert_int_equal(s.cycles.compute, 11 + 6 * 100);
    assert_int_equal(s.cycles.exchange, 0);
    assert_int_equal(s.cycles.sync, 600);
    assert_int_equal(s.cycles.host, 0);
    assert_int_equal(s.cycles.total, 1211);
    assert_int_equal(s.n_vertices, 1);
    assert_int_equal(s.active_tiles, 1);
    assert_true(s.balance == 0.25); /* one of four tiles */
    ipu_graph_destroy(g);
}

static int64_t compute_of(const int64_t *cycles, int n)
{
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      x  = on_tile(g, IPU_FLOAT, 8, 2, "x");
    for (int i = 0; i < n; i++) ipu_vertex_set_cycles(add_vertex(g, cs, "Touch", 2, "x", x), cycles[i]);
    int64_t compute = price_set(g, cs).cycles.compute;
    ipu_graph_destroy(g);
    return compute;
}

static void vertices_are_dealt_to_six_workers_longest_first(void **unused)
{
    (void)unused;
    assert_int_equal(compute_of((int64_t[]){100, 100, 100, 100, 100, 100}, 6), 11 + 6 * 100);
    assert_int_equal(compute_of((int64_t[]){100, 100, 100, 100, 100, 100, 100}, 7), 11 + 6 * 200);
    assert_int_equal(compute_of((int64_t[]){4, 5, 5, 10, 9, 8, 7, 6}, 8), 11 + 6 * 10);
    assert_int_equal(compute_of((int64_t[]){1, 1, 1, 1, 1, 1, 50}, 7), 11 + 6 * 50);
}

static void a_multi_vertex_has_all_workers_to_itself(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      x  = on_tile(g, IPU_FLOAT, 8, 0, "x");
    ipu_vertex_set_cycles(add_vertex(g, cs, "Wide", 0, "x", x), 50);
    ipu_vertex_set_cycles(add_vertex(g, cs, "Touch", 0, "x", x), 100);
    ipu_vertex_set_cycles(add_vertex(g, cs, "Wide", 0, "x", x), 7);
    assert_int_equal(price_set(g, cs).cycles.compute, 11 + 6 * (100 + 50 + 7));
    ipu_graph_destroy(g);
}

static void the_default_is_poplibs_cost_of_an_addition(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      a = on_tile(g, IPU_FLOAT, 17, 0, "a"), b = ipu_graph_clone(g, a, "b"),
               c = ipu_graph_clone(g, a, "c");
    ipu_vertex v = add_vertex(g, cs, "Add", 0, "a", a);
    ipu_vertex_connect(v, "b", b);
    ipu_vertex_connect(v, "c", c);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(step_at(cost, 0).cycles.compute, 11 + 6 * (29 + 3 * 9)); /* 17 floats: 9 vectors of 2 */
    assert_string_equal(ipu_cost_note_at(cost, IPU_COST_BY_DEFAULT, 0), "cycles of codelet \"Add\"");
    assert_null(ipu_cost_note_at(cost, IPU_COST_BY_DEFAULT, 1));
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

typedef struct seen {
    int     calls;
    int64_t returns;
} seen;

static int64_t look(const ipu_vertex_info *v, const ipu_target *target, void *user)
{
    seen  *s = user;
    double x;
    s->calls++;
    assert_string_equal(ipu_vertex_info_codelet(v), "Table");
    assert_string_equal(ipu_target_chip_name(target), "tiny");
    assert_int_equal(ipu_vertex_info_n_runs(v, "rows"), 2);
    assert_int_equal(ipu_vertex_info_run_size(v, "rows", 0), 3);
    assert_int_equal(ipu_vertex_info_run_size(v, "rows", 1), 5);
    assert_int_equal(ipu_vertex_info_run_size(v, "rows", 2), -1);
    assert_int_equal(ipu_vertex_info_size(v, "rows"), 8);
    assert_int_equal(ipu_vertex_info_size(v, "h"), 6);
    assert_int_equal(ipu_vertex_info_size(v, "steps"), 4);
    assert_int_equal(ipu_vertex_info_size(v, "nothing"), -1);
    assert_int_equal(ipu_vertex_info_type(v, "h"), IPU_HALF);
    assert_int_equal(ipu_vertex_info_type(v, "nothing"), IPU_N_TYPES);
    assert_true(ipu_vertex_info_state(v, "factor", 0, &x) && x == 1.5);
    assert_true(ipu_vertex_info_state(v, "steps", 3, &x) && x == 40);
    assert_false(ipu_vertex_info_state(v, "steps", 4, &x));
    assert_false(ipu_vertex_info_state(v, "rows", 0, &x));
    return s->returns;
}

static void an_estimator_sees_sizes_state_and_target(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = table_set(g);
    seen            s  = {.returns = 77};
    ipu_graph_set_cycle_estimator(g, "Table", look, &s);
    assert_int_equal(price_set(g, cs).cycles.compute, 11 + 6 * 77);
    assert_int_equal(s.calls, 1);
    ipu_graph_set_cycle_estimator(g, "Table", NULL, NULL);
    /* 6 halves: 2 vectors; runs of 3 and 5 floats: 2 and 3 vectors, 4 more cycles for each run */
    assert_int_equal(price_set(g, cs).cycles.compute, 11 + 6 * (29 + 2 + 5 + 8));
    ipu_graph_destroy(g);
}

/* ---- exchange ---- */

static void an_element_is_received_once_by_a_tile_and_sent_once_to_all(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      x  = on_tile(g, IPU_FLOAT, 10, 0, "x");
    add_vertex(g, cs, "Touch", 1, "x", x);
    ipu_cost_step s = price_set(g, cs);
    assert_int_equal(s.cycles.exchange, 10);
    assert_int_equal(s.bytes_received, 40);
    assert_int_equal(s.bytes_sent, 40);
    assert_int_equal(s.messages, 1);
    add_vertex(g, cs, "Touch", 1, "x", ipu_tensor_slice(x, 2, 7, 0)); /* the same elements, the same tile */
    s = price_set(g, cs);
    assert_int_equal(s.cycles.exchange, 10);
    assert_int_equal(s.bytes_exchanged, 40);
    add_vertex(g, cs, "Touch", 2, "x", x);
    add_vertex(g, cs, "Touch", 3, "x", x);
    add_vertex(g, cs, "Touch", 0, "x", x); /* local: nothing moves */
    s = price_set(g, cs);
    assert_int_equal(s.cycles.exchange, 10);
    assert_int_equal(s.bytes_exchanged, 120);
    assert_int_equal(s.bytes_received, 40);
    assert_int_equal(s.bytes_sent, 40);
    assert_int_equal(s.messages, 3);
    ipu_graph_destroy(g);
}

static void messages_beyond_the_first_of_a_tile_cost(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    add_vertex(g, cs, "Touch", 1, "x", on_tile(g, IPU_FLOAT, 10, 0, "x"));
    add_vertex(g, cs, "Touch", 1, "x", on_tile(g, IPU_FLOAT, 5, 2, "y"));
    add_vertex(g, cs, "Touch", 1, "x", on_tile(g, IPU_FLOAT, 1, 0, "z"));
    ipu_cost_step s = price_set(g, cs);
    assert_int_equal(s.cycles.exchange, 16 + 2 * 160);
    assert_int_equal(s.messages, 3);
    ipu_graph_destroy(g);
}

static void outputs_elsewhere_travel_after(void **unused)
{
    (void)unused;
    ipu_graph      *g  = new_graph("tiny", 1, 1);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      y  = on_tile(g, IPU_FLOAT, 12, 3, "y");
    add_vertex(g, cs, "Put", 1, "y", ipu_tensor_slice(y, 0, 4, 0));
    add_vertex(g, cs, "Put", 2, "y", ipu_tensor_slice(y, 4, 12, 0));
    ipu_cost_step s = price_set(g, cs);
    assert_int_equal(s.cycles.exchange, 12 + 160); /* tile 3 takes both, one after the other */
    assert_int_equal(s.bytes_sent, 32);
    assert_int_equal(s.bytes_received, 48);
    ipu_compute_set bump = ipu_graph_add_compute_set(g, "bump");
    add_vertex(g, bump, "Raise", 0, "y", y);
    s = price_set(g, bump);
    assert_int_equal(s.cycles.exchange, 12 + 12); /* there and back */
    ipu_graph_destroy(g);
}

static void messages_are_whole_words(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("tiny", 1, 1);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, on_tile(g, IPU_HALF, 3, 0, "x"), on_tile(g, IPU_HALF, 3, 1, "y"));
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(step_at(cost, 0).cycles.exchange, 2);
    assert_int_equal(step_at(cost, 0).bytes_received, 8);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static ipu_cost_step price_copy(ipu_graph *g, ipu_tensor from, ipu_tensor to)
{
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, from, to);
    ipu_cost     *cost = estimate(g, p);
    ipu_cost_step s    = step_at(cost, 0);
    ipu_cost_destroy(cost);
    return s;
}

static void copies_between_tiles_and_within(void **unused)
{
    (void)unused;
    ipu_graph    *g = new_graph("gc200", 1, 1);
    ipu_tensor    x = on_tile(g, IPU_FLOAT, 1000, 0, "x"), y = on_tile(g, IPU_FLOAT, 1000, 1, "y");
    ipu_cost_step s = price_copy(g, x, y);
    assert_int_equal(s.cycles.exchange, 1000);
    assert_int_equal(s.cycles.compute, 0);
    assert_int_equal(s.cycles.total, 1600);
    s = price_copy(g, x, on_tile(g, IPU_FLOAT, 1000, 0, "z"));
    assert_int_equal(s.cycles.exchange, 0);
    assert_int_equal(s.cycles.compute, 288 + 500);
    s = price_copy(g, ipu_tensor_broadcast(ipu_tensor_slice(x, 0, 1, 0), 1000, 0), y);
    assert_int_equal(s.cycles.exchange, 1); /* received once */
    s = price_copy(g, ipu_tensor_reverse(x, 0), y);
    assert_int_equal(s.cycles.exchange, 1000);
    assert_int_equal(s.messages, 1);
    s = price_copy(g, ipu_tensor_slice(x, 0, 0, 0), ipu_tensor_slice(y, 0, 0, 0));
    assert_int_equal(s.cycles.total, 0);
    ipu_graph_destroy(g);
}

/* What each tile receives and sends, element by element. */
enum { TILES = 4, VARS = 3, ELEMENTS = 40 };

typedef struct naive {
    bool taken[TILES][VARS][ELEMENTS];
    int  home[VARS][ELEMENTS];
} naive;

static int64_t naive_exchange(const naive *n)
{
    int64_t most = 0;
    for (int t = 0; t < TILES; t++) {
        int64_t in = 0, out = 0, messages = 0;
        for (int from = 0; from < TILES; from++)
            for (int v = 0; v < VARS; v++) {
                int64_t words = 0;
                for (int e = 0; e < ELEMENTS; e++)
                    words += n->taken[t][v][e] && n->home[v][e] == from && from != t;
                in += words;
                messages += words > 0;
            }
        for (int v = 0; v < VARS; v++)
            for (int e = 0; e < ELEMENTS; e++) {
                bool wanted = false;
                for (int to = 0; to < TILES; to++) wanted |= to != t && n->taken[to][v][e];
                out += wanted && n->home[v][e] == t;
            }
        if (messages > 0) in += 160 * (messages - 1);
        if (in > most) most = in;
        if (out > most) most = out;
    }
    return most;
}

static void random_inputs_agree_with_a_count_by_element(void **unused)
{
    (void)unused;
    test_random r = {test_seed(12345)};
    for (int round = test_count(300); round > 0; round--) {
        ipu_graph      *g  = new_graph("tiny", 1, 1);
        ipu_compute_set cs = ipu_graph_add_compute_set(g, "cs");
        ipu_tensor      t[VARS];
        naive           n = {0};
        for (int v = 0; v < VARS; v++) {
            t[v] = on_tile(g, IPU_FLOAT, ELEMENTS, 0, "v");
            for (int i = 0; i < 5; i++) {
                int begin = (int)random_in(&r, 0, ELEMENTS - 1), tile = (int)random_in(&r, 0, TILES - 1);
                ipu_graph_set_tile_mapping(g, ipu_tensor_slice(t[v], begin, ELEMENTS, 0), tile);
                for (int e = begin; e < ELEMENTS; e++) n.home[v][e] = tile;
            }
        }
        for (int i = 0; i < 12; i++) {
            int        v = (int)random_in(&r, 0, VARS - 1), tile = (int)random_in(&r, 0, TILES - 1);
            int        begin = (int)random_in(&r, 0, ELEMENTS - 1), stride = 1 + (int)random_in(&r, 0, 2);
            ipu_tensor x = ipu_tensor_subsample(ipu_tensor_slice(t[v], begin, ELEMENTS, 0), stride, 0);
            add_vertex(g, cs, "Touch", tile, "x", random_chance(&r, 50) ? x : ipu_tensor_reverse(x, 0));
            for (int e = begin; e < ELEMENTS; e += stride) n.taken[tile][v][e] = true;
        }
        assert_int_equal(price_set(g, cs).cycles.exchange, naive_exchange(&n));
        ipu_graph_destroy(g);
    }
}

static void links_between_ipus_are_slower(void **unused)
{
    (void)unused;
    ipu_graph    *g = new_graph("gc200", 2, 1);
    ipu_tensor    x = on_tile(g, IPU_FLOAT, 34000, 0, "x");
    ipu_cost_step s = price_copy(g, x, on_tile(g, IPU_FLOAT, 34000, 1472, "y"));
    assert_int_equal(s.link_bytes, 136000);
    assert_int_equal(s.cycles.sync, 600 + 40);  /* ceil(15 ns x 1.33 GHz x 1 hop x 2) */
    assert_int_equal(s.cycles.exchange, 34000); /* 136000 B at 4 links x 16 GB/s x 0.85: 3325 cycles, less */
    ipu_compute_set cs    = ipu_graph_add_compute_set(g, "cs");
    ipu_tensor      w     = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1472 * 1000), "w");
    ipu_graph      *first = ipu_graph_add_virtual_range(g, 0, 1472);
    ipu_graph_map_linearly(first, w);
    for (int64_t i = 0; i < 1472; i++)
        add_vertex(g, cs, "Touch", 1472 + i, "x", ipu_tensor_slice(w, i * 1000, (i + 1) * 1000, 0));
    s = price_set(g, cs);
    assert_int_equal(s.link_bytes, 1472 * 4000);
    assert_int_equal(s.cycles.exchange, 143953); /* ceil(5,888,000 B x 1.33 GHz / 54.4 GB/s) */
    ipu_graph_destroy(g);
}

/* ---- off the chip ---- */

static void streams_go_at_the_rate_of_the_host(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("gc200", 1, 1);
    ipu_tensor  x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(13750), "x");
    ipu_program p = ipu_program_sequence(g);
    ipu_graph_map_linearly(g, x); /* 9 or 10 elements a tile */
    ipu_program_add_read(p, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 13750, IPU_STREAM_REPLICATE), x);
    ipu_remote_buffer r = ipu_graph_add_remote_buffer(g, "r", IPU_FLOAT, 13750, 1);
    ipu_program_add_remote_write(p, x, r, (ipu_tensor){g, 0});
    ipu_cost     *cost = estimate(g, p);
    ipu_cost_step s    = step_at(cost, 0);
    assert_int_equal(s.cycles.exchange, 10);
    assert_int_equal(s.cycles.host, 13300 - 10); /* 55,000 B at 5.5 GB/s: 10 us */
    assert_int_equal(s.cycles.total, 600 + 13300);
    assert_string_equal(s.name, "\"in\" -> \"x\"");
    s = step_at(cost, 1);
    assert_int_equal(s.cycles.exchange + s.cycles.host, 3658); /* ceil(55,000 x 1.33 / 20) */
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void what_the_chip_lacks_is_said(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("tiny", 1, 1);
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  x = on_tile(g, IPU_FLOAT, 4, 0, "x");
    ipu_program_add_read(p, ipu_graph_add_host_to_device(g, "in", IPU_FLOAT, 4, IPU_STREAM_REPLICATE), x);
    ipu_cost *cost = estimate(g, p);
    assert_non_null(strstr(step_at(cost, 0).note, "not modelled on this chip"));
    assert_int_equal(step_at(cost, 0).cycles.host, 0);
    bool has_host = false;
    for (int64_t i = 0; ipu_cost_note_at(cost, IPU_COST_UNKNOWN_ON_CHIP, i); i++)
        has_host |= strstr(ipu_cost_note_at(cost, IPU_COST_UNKNOWN_ON_CHIP, i), "host_bytes_per_second")
                 != NULL;
    assert_true(has_host);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

/* 1000 floats on each tile of each replica, one IPU each. */
static ipu_graph *replicated(int64_t n, ipu_tensor *x)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    target.n_ipus = n; /* which ipu_target_find refuses where it is no power of two */
    assert_int_equal(ipu_graph_create(&target, n, &g), IPU_OK);
    *x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(1472 * 1000), "x");
    ipu_graph_map_linearly(g, *x);
    return g;
}

static void replicas_copy_over_links(void **unused)
{
    (void)unused;
    static const struct {
        int64_t n, to[4], cycles;
    } table[] = {
        {2, {1, 0}, 143953},       /* in pairs, as links_between_ipus_are_slower */
        {4, {2, 3, 0, 1}, 287906}, /* up and down: half as many links */
        {4, {3, 2, 1, 0}, 287906}, /* across, too */
        {4, {1, 2, 3, 0}, 287906},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ipu_tensor  x;
        ipu_graph  *g = replicated(table[i].n, &x);
        ipu_tensor  y = ipu_graph_clone(g, x, "y");
        ipu_program p = ipu_program_sequence(g);
        ipu_graph_map_linearly(g, y);
        ipu_program_add_cross_replica_copy(p, x, y, table[i].to, (size_t)table[i].n);
        ipu_cost *cost = estimate(g, p);
        assert_int_equal(step_at(cost, 0).cycles.exchange, table[i].cycles);
        assert_int_equal(step_at(cost, 0).cycles.sync, table[i].n == 2 ? 640 : 680);
        assert_int_equal(step_at(cost, 0).link_bytes, 1472 * 4000);
        assert_int_equal(summary_of(cost).n_tiles, 1472);
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
}

static void replicas_of_several_ipus_copy_to_the_same_place(void **unused)
{
    (void)unused;
    ipu_graph  *g = new_graph("gc200", 4, 2);
    ipu_program p = ipu_program_sequence(g);
    ipu_tensor  x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(2 * 1472 * 1000), "x");
    ipu_tensor  y = ipu_graph_clone(g, x, "y");
    ipu_graph_map_linearly(g, x);
    ipu_graph_map_linearly(g, y);
    ipu_program_add_cross_replica_copy(p, x, y, (int64_t[]){1, 0}, 2);
    ipu_cost *cost = estimate(g, p);
    assert_int_equal(step_at(cost, 0).cycles.exchange, 287906); /* 0 to 2, 1 to 3: each by two links */
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void a_sum_over_replicas_is_made_the_cheaper_way(void **unused)
{
    (void)unused;
    static const struct {
        int64_t     n, rounds, parts, exchange;
        const char *note;
    } table[] = {
        {1, 0, 1, 0, ""},
        {2, 1, 1, 143953, "by doubling: 1 round"},
        {4, 2, 1, 143953 + 287906, "by doubling: 2 rounds"},
        {3, 4, 3, 4 * 95969, "around a ring: 4 rounds"},
        {16, 30, 16, 30 * 17995, "around a ring: 30 rounds"}, /* a 16th by two links */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ipu_tensor  x;
        ipu_graph  *g = replicated(table[i].n, &x);
        ipu_program p = ipu_program_sequence(g);
        ipu_program_add_all_reduce(p, x);
        ipu_program_add_all_reduce_wait(p);
        ipu_cost     *cost = estimate(g, p);
        ipu_cost_step sum  = step_at(cost, 0);
        int64_t       part = (1472 * 4000 + table[i].parts - 1) / table[i].parts, hops = 1 + table[i].n / 4;
        assert_int_equal(sum.cycles.exchange, table[i].exchange);
        assert_int_equal(sum.link_bytes, part * table[i].rounds);
        assert_int_equal(sum.cycles.sync, (600 + (1330 * 15 * 2 * hops + 999) / 1000) * table[i].rounds);
        assert_true(table[i].n == 1 ? sum.cycles.compute == 0 : sum.cycles.compute > 0);
        assert_non_null(strstr(sum.note, table[i].note));
        assert_int_equal(step_at(cost, 1).cycles.total, 0);
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
}

static void a_kernel_costs_what_its_plan_says(void **unused)
{
    (void)unused;
    ipu_graph *g          = new_graph("gc200", 1, 1);
    ipu_tensor a          = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(256, 64), "a");
    ipu_tensor b          = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(64, 128), "b");
    ipu_tensor c          = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(256, 128), "c");
    ipu_tensor operands[] = {a, b, c};
    for (int i = 0; i < 3; i++) ipu_graph_map_linearly(g, operands[i]);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_kernel(p, "matmul", NULL, 0, operands, 3);
    ipu__kernel_call call = {.def = ipu__kernel_find("matmul")};
    for (int i = 0, k = 0; i < call.def->n_operands; i++) {
        bool is_given                   = !call.def->operands[i].optional;
        call.operand[call.n_operands++] = (ipu__kernel_value){
            IPU_FLOAT, is_given ? ipu_tensor_shape(operands[k++]) : IPU_SHAPE(0)};
    }
    ipu__kernel_plan plan;
    assert_int_equal(call.def->plan(&call, ipu_graph_target(g), &plan), IPU_OK);
    ipu_cost     *cost = estimate(g, p);
    ipu_cost_step s    = step_at(cost, 0);
    int64_t       most = plan.bytes_received > plan.bytes_sent ? plan.bytes_received : plan.bytes_sent;
    ipu_cost_tile tile;
    assert_int_equal(s.cycles.compute, plan.cycles);
    assert_int_equal(s.cycles.exchange, (most + 3) / 4);
    assert_int_equal(s.active_tiles, plan.n_tiles);
    assert_true(s.operations == 2.0 * 256 * 64 * 128);
    assert_true(summary_of(cost).operations == s.operations);
    assert_string_equal(s.note, plan.basis);
    assert_true(ipu_cost_tile_at(cost, 0, &tile));
    assert_int_equal(tile.bytes[IPU_MEMORY_TEMPORARIES], plan.tile_bytes);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

/* ---- programs ---- */

/* Copies of 40 and 80 bytes: 610 and 620 cycles. */
typedef struct copies {
    ipu_graph  *g;
    ipu_tensor  x, y, flag, n;
    ipu_program cheap, dear, p;
} copies;

static copies new_copies(void)
{
    copies c = {.g = new_graph("tiny", 1, 1)};
    c.x      = on_tile(c.g, IPU_FLOAT, 20, 0, "x");
    c.y      = on_tile(c.g, IPU_FLOAT, 20, 1, "y");
    c.flag   = on_tile(c.g, IPU_BOOL, 1, 0, "flag");
    c.n      = on_tile(c.g, IPU_INT32, 1, 0, "n");
    c.cheap  = ipu_program_sequence(c.g);
    c.dear   = ipu_program_sequence(c.g);
    c.p      = ipu_program_sequence(c.g);
    ipu_program_add_copy(c.cheap, ipu_tensor_slice(c.x, 0, 10, 0), ipu_tensor_slice(c.y, 0, 10, 0));
    ipu_program_add_copy(c.dear, c.x, c.y);
    return c;
}

enum { CHEAP = 610, DEAR = 620, PREDICATE = 601 };

static int64_t total_of(const copies *c, int64_t while_count)
{
    ipu_cost *cost;
    assert_int_equal(
        ipu_cost_estimate(c->g, &c->p, 1, &(ipu_cost_options){.while_count = while_count}, &cost), IPU_OK);
    int64_t         total = summary_of(cost).cycles.total;
    ipu_cost_cycles program;
    assert_true(ipu_cost_program_at(cost, 0, &program));
    assert_int_equal(program.total, total);
    ipu_cost_destroy(cost);
    return total;
}

static void repeats_multiply(void **unused)
{
    (void)unused;
    copies      c     = new_copies();
    ipu_program inner = ipu_program_sequence(c.g);
    ipu_program_add_repeat(inner, 7, c.cheap);
    ipu_program_add_copy(inner, c.x, c.y);
    ipu_program_add_repeat(c.p, 10, inner);
    ipu_program_add_repeat(c.p, 0, c.dear);
    assert_int_equal(total_of(&c, 0), 10 * (7 * CHEAP + DEAR));
    ipu_cost *cost = estimate(c.g, c.p);
    assert_int_equal(step_at(cost, 2).count, 70);
    assert_int_equal(step_at(cost, 2).depth, 2);
    assert_int_equal(step_at(cost, 3).count, 10);
    assert_int_equal(step_at(cost, 5).count, 0);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(c.g);
}

static void sums_too_large_stay_at_the_largest_number(void **unused)
{
    (void)unused;
    copies      c     = new_copies();
    ipu_program outer = ipu_program_sequence(c.g);
    ipu_program_add_repeat(outer, INT64_MAX / 2, c.cheap);
    ipu_program_add_repeat(c.p, INT64_MAX / 2, outer);
    assert_int_equal(total_of(&c, 0), INT64_MAX);
    ipu_graph_destroy(c.g);
}

static void loops_that_data_decide_are_counted_as_asked(void **unused)
{
    (void)unused;
    copies c = new_copies();
    ipu_program_add_while_true(c.p, c.cheap, c.flag, c.dear);
    assert_int_equal(total_of(&c, 0), 2 * (CHEAP + PREDICATE) + DEAR);
    assert_int_equal(total_of(&c, 5), 6 * (CHEAP + PREDICATE) + 5 * DEAR);
    ipu_cost *cost = estimate(c.g, c.p);
    assert_string_equal(step_at(cost, 1).note, "data-dependent: counted 1 time");
    ipu_cost_destroy(cost);
    ipu_graph_destroy(c.g);
}

static void of_branches_the_dearest_is_counted_and_all_are_shown(void **unused)
{
    (void)unused;
    copies c = new_copies();
    ipu_program_add_if(c.p, c.flag, c.cheap, c.dear);
    assert_int_equal(total_of(&c, 0), PREDICATE + DEAR);
    ipu_cost *cost = estimate(c.g, c.p);
    assert_int_equal(step_at(cost, 1).count, 0);
    assert_int_equal(step_at(cost, 1).cycles.total, CHEAP);
    assert_non_null(strstr(step_at(cost, 1).note, "dearer"));
    assert_int_equal(step_at(cost, 2).count, 1);
    ipu_cost_destroy(cost);
    ipu_program null = {c.g, 0};
    ipu_program both = ipu_program_sequence(c.g);
    ipu_program_add_copy(both, c.x, c.y);
    ipu_program_add_copy(both, c.x, c.y);
    ipu_switch_case cases[] = {{0, both}, {1, null}};
    ipu_program_add_switch(c.p, c.n, cases, 2, null);
    assert_int_equal(total_of(&c, 0), PREDICATE + DEAR + PREDICATE + 2 * DEAR);
    ipu_graph_destroy(c.g);
}

static void functions_and_shared_bodies_are_shown_once_and_counted_each_time(void **unused)
{
    (void)unused;
    copies       c = new_copies();
    ipu_function f = ipu_graph_add_function(c.g, c.cheap, "f");
    ipu_program_add_call(c.p, f);
    ipu_program_add(c.p, c.dear);
    ipu_program loop = ipu_program_sequence(c.g);
    ipu_program_add_call(loop, f);
    ipu_program_add(loop, c.dear);
    ipu_program_add_repeat(c.p, 4, loop);
    assert_int_equal(total_of(&c, 0), 5 * CHEAP + 5 * DEAR);
    ipu_cost     *cost = estimate(c.g, c.p);
    ipu_cost_step s;
    int           bodies = 0;
    for (int64_t i = 0; ipu_cost_step_at(cost, i, &s); i++) {
        if (strcmp(s.kind, "copy") != 0) continue;
        assert_int_equal(s.count, 5);
        bodies++;
    }
    assert_int_equal(bodies, 2);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(c.g);
}

/* Doubling 20 times: a million steps, 21 bodies. */
static void a_program_that_unfolds_to_very_much_is_still_short(void **unused)
{
    (void)unused;
    copies      c = new_copies();
    ipu_program p = c.cheap;
    for (int i = 0; i < 20; i++) {
        ipu_program twice = ipu_program_sequence(c.g);
        ipu_program_add(twice, p);
        ipu_program_add(twice, p);
        p = twice;
    }
    c.p = p;
    assert_int_equal(total_of(&c, 0), (int64_t)CHEAP << 20);
    ipu_cost *cost = estimate(c.g, c.p);
    assert_int_equal(summary_of(cost).n_steps, 41);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(c.g);
}

static void another_clock_changes_seconds_not_cycles(void **unused)
{
    (void)unused;
    const char *const chips[] = {"gc200", "bow"};
    ipu_cost_summary  s[2];
    for (int i = 0; i < 2; i++) {
        ipu_graph  *g = new_graph(chips[i], 1, 1);
        ipu_program p = ipu_program_sequence(g);
        ipu_program_add_copy(p, on_tile(g, IPU_FLOAT, 730, 0, "x"), on_tile(g, IPU_FLOAT, 730, 1, "y"));
        ipu_cost *cost = estimate(g, p);
        s[i]           = summary_of(cost);
        ipu_cost_destroy(cost);
        ipu_graph_destroy(g);
    }
    assert_int_equal(s[0].cycles.total, 1330);
    assert_int_equal(s[1].cycles.total, 1330);
    assert_true(s[0].seconds == 1330 / 1.33e9);
    assert_true(s[1].seconds == 1330 / 1.85e9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_vertex_on_one_tile),
        cmocka_unit_test(vertices_are_dealt_to_six_workers_longest_first),
        cmocka_unit_test(a_multi_vertex_has_all_workers_to_itself),
        cmocka_unit_test(the_default_is_poplibs_cost_of_an_addition),
        cmocka_unit_test(an_estimator_sees_sizes_state_and_target),
        cmocka_unit_test(an_element_is_received_once_by_a_tile_and_sent_once_to_all),
        cmocka_unit_test(messages_beyond_the_first_of_a_tile_cost),
        cmocka_unit_test(outputs_elsewhere_travel_after),
        cmocka_unit_test(messages_are_whole_words),
        cmocka_unit_test(copies_between_tiles_and_within),
        cmocka_unit_test(random_inputs_agree_with_a_count_by_element),
        cmocka_unit_test(links_between_ipus_are_slower),
        cmocka_unit_test(streams_go_at_the_rate_of_the_host),
        cmocka_unit_test(what_the_chip_lacks_is_said),
        cmocka_unit_test(replicas_copy_over_links),
        cmocka_unit_test(replicas_of_several_ipus_copy_to_the_same_place),
        cmocka_unit_test(a_sum_over_replicas_is_made_the_cheaper_way),
        cmocka_unit_test(a_kernel_costs_what_its_plan_says),
        cmocka_unit_test(repeats_multiply),
        cmocka_unit_test(sums_too_large_stay_at_the_largest_number),
        cmocka_unit_test(loops_that_data_decide_are_counted_as_asked),
        cmocka_unit_test(of_branches_the_dearest_is_counted_and_all_are_shown),
        cmocka_unit_test(functions_and_shared_bodies_are_shown_once_and_counted_each_time),
        cmocka_unit_test(a_program_that_unfolds_to_very_much_is_still_short),
        cmocka_unit_test(another_clock_changes_seconds_not_cycles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
