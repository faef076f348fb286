/* The ladder: shared and separate links, and random traffic against a walk from IPU to IPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cost/ladder.h"

enum { MOST_IPUS = 16 };

static ipu__cost_model model_of(const char *chip, int64_t n_ipus)
{
    ipu_target      t;
    ipu__cost_model m;
    assert_int_equal(ipu_target_find(chip, n_ipus, &t), IPU_OK);
    ipu__cost_model_init(&m, &t, 1);
    return m;
}

typedef struct flow {
    int64_t from, to, bytes;
} flow;

/* Cycles on a chip of 1 GHz: at 13.6 GB/s a link, 13600 bytes over one are 1000. */
static int64_t cycles(int64_t n_ipus, const flow *flows, size_t n)
{
    ipu__cost_model m = model_of("tiny", n_ipus);
    ipu__ladder     l;
    assert_true(ipu__ladder_init(&l, n_ipus));
    for (size_t i = 0; i < n; i++) ipu__ladder_add(&l, flows[i].from, flows[i].to, flows[i].bytes);
    int64_t out = ipu__ladder_cycles(&l, &m);
    ipu__ladder_fini(&l);
    return out;
}

#define CYCLES(n_ipus, ...) \
    cycles(n_ipus, (const flow[]){__VA_ARGS__}, sizeof((const flow[]){__VA_ARGS__}) / sizeof(flow))

static void each_way_has_links_of_its_own(void **unused)
{
    (void)unused;
    assert_int_equal(CYCLES(4, {0, 1, 13600}), 250); /* four links */
    assert_int_equal(CYCLES(4, {0, 2, 13600}), 500); /* two, up */
    assert_int_equal(CYCLES(4, {3, 1, 13600}), 500); /* two, down */
    assert_int_equal(CYCLES(4, {0, 3, 13600}), 500); /* across, and up on the other side */
    assert_int_equal(CYCLES(4, {2, 2, 13600}), 0);
    assert_int_equal(CYCLES(1, {0, 0, 13600}), 0);
    /* Both directions at once, the pair beside the crossing, and up beside down. */
    assert_int_equal(CYCLES(4, {0, 1, 27200}, {1, 0, 27200}, {0, 3, 13600}, {2, 0, 13600}), 500);
}

static void what_shares_links_waits(void **unused)
{
    (void)unused;
    assert_int_equal(CYCLES(4, {0, 1, 13600}, {0, 1, 13600}), 500);
    assert_int_equal(CYCLES(8, {0, 4, 13600}, {2, 4, 13600}), 1000);                /* at IPU 2 */
    assert_int_equal(CYCLES(8, {0, 2, 13600}, {2, 4, 13600}), 500);                 /* one after the other */
    assert_int_equal(CYCLES(8, {5, 1, 13600}, {3, 1, 13600}, {4, 1, 13600}), 1500); /* at IPU 3 */
    assert_int_equal(CYCLES(4, {0, 3, 13600}, {1, 3, 13600}), 1000);                /* both up from 1 */
}

static void without_routes_links_are_one(void **unused)
{
    (void)unused;
    ipu__cost_model m = model_of("c600", 4);
    ipu__ladder     l;
    assert_true(m.links == 4 && m.links_in_pair == 0);
    m.clock = 1e9;
    assert_true(ipu__ladder_init(&l, 4));
    ipu__ladder_add(&l, 0, 3, 13600);
    ipu__ladder_add(&l, 0, 1, 13600);
    assert_int_equal(ipu__ladder_cycles(&l, &m), 500);
    ipu__ladder_add(&l, 2, 3, 13600);
    ipu__ladder_add(&l, 1, 3, 13600); /* three arrive at IPU 3 */
    assert_int_equal(ipu__ladder_cycles(&l, &m), 750);
    assert_true(ipu__ladder_links(&m, 0, 1) == 4 && ipu__ladder_links(&m, 0, 2) == 4);
    ipu__ladder_fini(&l);
}

static void the_narrowest_part_of_a_way_counts(void **unused)
{
    (void)unused;
    ipu__cost_model m = model_of("gc200", 4);
    assert_true(ipu__ladder_links(&m, 2, 3) == 4);
    assert_true(ipu__ladder_links(&m, 3, 1) == 2 && ipu__ladder_links(&m, 1, 2) == 2);
    m.links_across = 1;
    assert_true(ipu__ladder_links(&m, 1, 2) == 1 && ipu__ladder_links(&m, 0, 2) == 2);
    m.links_across = 3;
    assert_true(ipu__ladder_links(&m, 1, 2) == 2);
}

/* ---- against a walk ---- */

typedef struct walk {
    int64_t pair[MOST_IPUS], across[MOST_IPUS], up[MOST_IPUS], down[MOST_IPUS];
} walk;

static void walk_flow(walk *w, flow f)
{
    int64_t at = f.from;
    if (at == f.to) return;
    if (at / 2 == f.to / 2) {
        w->pair[at] += f.bytes;
        return;
    }
    if (at % 2 != f.to % 2) {
        w->across[at] += f.bytes;
        at = at % 2 ? at - 1 : at + 1;
    }
    for (; at < f.to; at += 2) w->up[at] += f.bytes;
    for (; at > f.to; at -= 2) w->down[at] += f.bytes;
}

static int64_t most_of(const int64_t *at)
{
    int64_t most = 0;
    for (int i = 0; i < MOST_IPUS; i++) most = at[i] > most ? at[i] : most;
    return most;
}

static int64_t random_below(int64_t n)
{
    static uint32_t state = 1;
    state                 = state * 1664525u + 1013904223u;
    return (int64_t)(state >> 8) % n;
}

static void any_traffic_is_as_walked(void **unused)
{
    (void)unused;
    for (int round = 0; round < 2000; round++) {
        int64_t n_ipus = (int64_t)1 << random_below(5), n_flows = 1 + random_below(12);
        flow    flows[12];
        walk    w = {0};
        for (int64_t i = 0; i < n_flows; i++) {
            flows[i] = (flow){random_below(n_ipus), random_below(n_ipus), random_below(1000) * 272};
            walk_flow(&w, flows[i]);
        }
        /* 54.4, 27.2 and 27.2 bytes a cycle */
        int64_t pair = most_of(w.pair) * 5 / 272, expected = (most_of(w.across) * 10 + 271) / 272;
        int64_t up = most_of(w.up) * 10 / 272, down = most_of(w.down) * 10 / 272;
        if (pair > expected) expected = pair;
        if (up > expected) expected = up;
        if (down > expected) expected = down;
        assert_int_equal(cycles(n_ipus, flows, (size_t)n_flows), expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_has_links_of_its_own), cmocka_unit_test(what_shares_links_waits),
        cmocka_unit_test(without_routes_links_are_one),  cmocka_unit_test(the_narrowest_part_of_a_way_counts),
        cmocka_unit_test(any_traffic_is_as_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
