/* Tile mappings against a plain array with one tile per element.
 *
 * Random views are mapped, remapped and queried, through the root graph and through windows on it; then the
 * guarantees of linear mapping, and every invalid argument.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/support/random.h"
#include "ipu/graph.h"

enum { N_TILES = 40, N_VARIABLES = 4, VARIABLE_ELEMENTS = 120, N_WINDOWS = 4, MAX_ELEMENTS = 600 };

typedef struct window {
    ipu_graph *graph;
    int64_t    n, tiles[N_TILES]; /* tile t of the window is tiles[t] of the root */
} window;

typedef struct world {
    test_random random;
    uint64_t    seed;
    ipu_tensor  variables[N_VARIABLES];
    int64_t     tile[N_VARIABLES][VARIABLE_ELEMENTS]; /* of the root; -1: unmapped */
    window      windows[N_WINDOWS];                   /* the first is the root */
} world;

/* A view and where its elements are: places[i] points into world.tile. */
typedef struct selection {
    ipu_tensor tensor;
    int        n;
    int64_t   *place[MAX_ELEMENTS];
} selection;

static ipu_graph *new_graph(int64_t n_tiles)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, n_tiles), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

static void fail_here(const world *w, const char *what, int line)
{
    fail_msg("line %d: %s (IPU_TEST_SEED=%llu IPU_TEST_COUNT=1)\n%s", line, what, (unsigned long long)w->seed,
             ipu_graph_message(w->windows[0].graph));
}

#define CHECK(w, condition)                                   \
    do {                                                      \
        if (!(condition)) fail_here(w, #condition, __LINE__); \
    } while (0)

static void add_windows(world *w)
{
    window *root = &w->windows[0];
    root->n      = N_TILES;
    for (int64_t t = 0; t < N_TILES; t++) root->tiles[t] = t;
    for (int k = 1; k < N_WINDOWS; k++) {
        const window *of = &w->windows[random_in(&w->random, 0, k - 1)];
        window       *v  = &w->windows[k];
        int64_t       numbers[N_TILES];
        v->n = random_in(&w->random, 1, of->n);
        if (random_chance(&w->random, 50)) {
            int64_t begin = random_in(&w->random, 0, of->n - v->n);
            for (int64_t t = 0; t < v->n; t++) numbers[t] = begin + t;
            v->graph = ipu_graph_add_virtual_range(of->graph, begin, begin + v->n);
        } else {
            int shuffled[N_TILES];
            for (int t = 0; t < of->n; t++) shuffled[t] = t;
            random_shuffle(&w->random, shuffled, (int)of->n);
            for (int64_t t = 0; t < v->n; t++) numbers[t] = shuffled[t];
            v->graph = ipu_graph_add_virtual(of->graph, numbers, v->n);
        }
        CHECK(w, v->graph != NULL && ipu_graph_n_tiles(v->graph) == v->n);
        for (int64_t t = 0; t < v->n; t++) v->tiles[t] = of->tiles[numbers[t]];
    }
}

static void world_init(world *w, uint64_t seed)
{
    *w                  = (world){.seed = seed, .random = {seed}};
    w->windows[0].graph = new_graph(N_TILES);
    add_windows(w);
    for (int v = 0; v < N_VARIABLES; v++) {
        ipu_graph *g = w->windows[random_in(&w->random, 0, N_WINDOWS - 1)].graph;
        char       name[8];
        snprintf(name, sizeof name, "v%d", v);
        w->variables[v] = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(6, 20), name);
        for (int i = 0; i < VARIABLE_ELEMENTS; i++) w->tile[v][i] = -1;
    }
}

static const window *any_window(world *w) { return &w->windows[random_in(&w->random, 0, N_WINDOWS - 1)]; }

/* A random view of one variable, or of two joined. What it selects is taken from the view itself, which
 * tensor_test.c covers. */
static void any_selection(world *w, selection *s)
{
    ipu_tensor parts[2];
    for (int k = 0; k < 2; k++) {
        ipu_tensor t = w->variables[random_in(&w->random, 0, N_VARIABLES - 1)];
        int64_t    a = random_in(&w->random, 0, 5), b = random_in(&w->random, 0, 19);
        if (random_chance(&w->random, 50)) t = ipu_tensor_slice(t, a, random_in(&w->random, a, 6), 0);
        if (random_chance(&w->random, 50)) t = ipu_tensor_slice(t, b, random_in(&w->random, b, 20), 1);
        if (random_chance(&w->random, 30)) t = ipu_tensor_transpose(t);
        if (random_chance(&w->random, 30)) t = ipu_tensor_reverse(t, 0);
        if (random_chance(&w->random, 20)) t = ipu_tensor_subsample(t, 3, 1);
        if (random_chance(&w->random, 20)) t = ipu_tensor_broadcast(t, 2, 0);
        parts[k] = ipu_tensor_flatten(t);
    }
    s->tensor = random_chance(&w->random, 40) ? ipu_tensor_concat(parts, 2, 0) : parts[0];
    s->n      = 0;
    ipu_region *regions;
    size_t      n;
    CHECK(w, ipu_tensor_var_regions(s->tensor, &regions, &n) == IPU_OK);
    for (size_t r = 0; r < n; r++) {
        int v = 0;
        while (!ipu_tensor_intersects(w->variables[v], regions[r].variable)) v++;
        for (int64_t i = regions[r].begin; i < regions[r].end; i++) s->place[s->n++] = &w->tile[v][i];
    }
    ipu_free(regions);
}

static void map_to_one_tile(world *w)
{
    selection     s;
    const window *v    = any_window(w);
    int64_t       tile = random_in(&w->random, 0, v->n - 1);
    any_selection(w, &s);
    ipu_graph_set_tile_mapping(v->graph, s.tensor, tile);
    for (int i = 0; i < s.n; i++) *s.place[i] = v->tiles[tile];
}

static void map_by_intervals(world *w)
{
    selection         s;
    const window     *v = any_window(w);
    ipu_tile_interval map[5];
    size_t            n = (size_t)random_in(&w->random, 0, 5);
    any_selection(w, &s);
    for (size_t k = 0; k < n; k++) {
        int64_t begin = random_in(&w->random, 0, s.n), end = random_in(&w->random, begin, s.n);
        map[k] = (ipu_tile_interval){random_in(&w->random, 0, v->n - 1), begin, end};
        for (int64_t i = begin; i < end; i++) *s.place[i] = v->tiles[map[k].tile];
    }
    ipu_graph_set_tile_intervals(v->graph, s.tensor, map, n);
}

/* A root tile as numbered by the window: -1 stays, -2 means not visible. */
static int64_t shown_as(const window *v, int64_t tile)
{
    if (tile < 0) return tile;
    for (int64_t t = 0; t < v->n; t++)
        if (v->tiles[t] == tile) return t;
    return -2;
}

/* The mapping must be complete, in order, and must not split a run on one tile. */
static void check_query(world *w, const window *v, const selection *s)
{
    ipu_tile_interval *map;
    size_t             n;
    int64_t            at = 0, previous = -2;
    bool               shown = true;
    for (int i = 0; i < s->n; i++) shown = shown && shown_as(v, *s->place[i]) != -2;
    ipu_status status = ipu_graph_tile_mapping(v->graph, s->tensor, &map, &n);
    CHECK(w, status == (shown ? IPU_OK : IPU_INVALID));
    if (!shown) return;
    for (size_t k = 0; k < n; k++) {
        CHECK(w, map[k].begin == at && map[k].end > at && map[k].end <= s->n);
        CHECK(w, map[k].tile != previous);
        for (; at < map[k].end; at++) CHECK(w, map[k].tile == shown_as(v, *s->place[at]));
        previous = map[k].tile;
    }
    CHECK(w, at == s->n);
    ipu_free(map);
}

static void random_mappings_agree_with_one_tile_per_element(void **state)
{
    (void)state;
    static world w;
    uint64_t     seed = test_seed(1);
    for (int trial = 0, n = test_count(150); trial < n; trial++) {
        world_init(&w, seed + (uint64_t)trial);
        for (int step = 0; step < 40; step++) {
            if (random_chance(&w.random, 50))
                map_to_one_tile(&w);
            else
                map_by_intervals(&w);
            selection s;
            any_selection(&w, &s);
            check_query(&w, any_window(&w), &s);
        }
        CHECK(&w, ipu_graph_status(w.windows[0].graph) == IPU_OK);
        ipu_graph_destroy(w.windows[0].graph);
    }
}

static void a_clone_has_the_mapping_of_its_model(void **state)
{
    (void)state;
    static world w;
    uint64_t     seed = test_seed(5000);
    for (int trial = 0; trial < 40; trial++) {
        world_init(&w, seed + (uint64_t)trial);
        for (int step = 0; step < 6; step++) map_by_intervals(&w);
        selection s;
        any_selection(&w, &s);
        ipu_tensor clone = ipu_graph_clone(w.windows[0].graph, s.tensor, "clone");
        CHECK(&w, ipu_tensor_n_elements(clone) == s.n);
        CHECK(&w, !ipu_tensor_contains_aliases(clone) && !ipu_tensor_intersects(clone, s.tensor));
        s.tensor = clone;
        check_query(&w, &w.windows[0], &s);
        clone = ipu_graph_clone_as(w.windows[0].graph, IPU_HALF, s.tensor, "half");
        CHECK(&w, ipu_tensor_type(clone) == IPU_HALF);
        s.tensor = clone;
        check_query(&w, &w.windows[0], &s);
        ipu_graph_destroy(w.windows[0].graph);
    }
}

static void a_window_of_a_window_numbers_its_own_tiles(void **state)
{
    (void)state;
    ipu_graph         *g     = new_graph(N_TILES);
    ipu_graph         *outer = ipu_graph_add_virtual_range(g, 10, 30);
    ipu_graph         *inner = ipu_graph_add_virtual(outer, (int64_t[]){5, 0, 19}, 3);
    ipu_tensor         x     = ipu_graph_add_variable(inner, IPU_FLOAT, IPU_SHAPE(9), "x");
    ipu_tile_interval *map;
    size_t             n;
    ipu_graph_map_linearly(inner, x);
    ipu_graph_set_tile_mapping(outer, ipu_tensor_slice(x, 8, 9, 0), 7);
    assert_int_equal(ipu_graph_status(g), IPU_OK);
    assert_int_equal(ipu_graph_tile_mapping(g, x, &map, &n), IPU_OK);
    assert_int_equal(n, 4);
    const int64_t expected[] = {15, 10, 29, 17};
    for (size_t k = 0; k < n; k++) assert_int_equal(map[k].tile, expected[k]);
    ipu_free(map);
    assert_int_equal(ipu_graph_tile_mapping(inner, ipu_tensor_slice(x, 0, 8, 0), &map, &n), IPU_OK);
    assert_int_equal(n, 3);
    for (size_t k = 0; k < 3; k++) assert_int_equal(map[k].tile, k);
    ipu_free(map);
    assert_int_equal(ipu_graph_tile_mapping(inner, x, &map, &n), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "17"));
    ipu_graph_destroy(g);
}

/* ---- linear mapping ---- */

typedef struct spread {
    int64_t elements, n_tiles, minimum, grain;
    size_t  n_used;
} spread;

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* Whole grains except for the very last, at least the minimum on every tile, and grain counts that differ
 * by at most one. */
static void check_spread(const spread *s, const ipu_tile_interval *map)
{
    int64_t at = 0, least = INT64_MAX, most = 0;
    for (size_t k = 0; k < s->n_used; k++) {
        int64_t n = map[k].end - map[k].begin;
        assert_int_equal(map[k].begin, at);
        assert_true(map[k].tile >= 0 && map[k].tile < s->n_tiles);
        if (k > 0) assert_true(map[k].tile > map[k - 1].tile);
        if (k + 1 < s->n_used) assert_int_equal(n % s->grain, 0);
        assert_true(n >= s->minimum || s->elements < s->minimum);
        int64_t grains = div_up(n, s->grain);
        if (grains < least) least = grains;
        if (grains > most) most = grains;
        at = map[k].end;
    }
    assert_int_equal(at, s->elements);
    assert_true(s->n_used == 0 || most - least <= 1);
}

/* With one more tile, the emptiest would fall below the minimum, or there are no more tiles. */
static void check_as_many_tiles_as_possible(const spread *s)
{
    int64_t grains = div_up(s->elements, s->grain), more = (int64_t)s->n_used + 1;
    if (more > s->n_tiles || more > grains) return;
    int64_t missing = grains * s->grain - s->elements;
    assert_true(grains / more * s->grain - missing < s->minimum);
}

static void linear_mapping_is_even_in_order_and_keeps_the_minimum(void **state)
{
    (void)state;
    test_random r = {test_seed(77)};
    for (int trial = 0, n = test_count(400); trial < n; trial++) {
        spread             s = {.elements = random_in(&r, 0, 300),
                                .n_tiles  = random_in(&r, 1, 64),
                                .minimum  = random_chance(&r, 40) ? 1 : random_in(&r, 1, 60),
                                .grain    = random_chance(&r, 40) ? 1 : random_in(&r, 1, 20)};
        ipu_graph         *g = new_graph(s.n_tiles);
        ipu_tensor         x = ipu_graph_add_variable(g, IPU_HALF, IPU_SHAPE(s.elements), "x");
        ipu_tile_interval *map;
        if (s.minimum == 1 && s.grain == 1)
            ipu_graph_map_linearly(g, x);
        else
            ipu_graph_map_linearly_by(g, x, s.minimum, s.grain);
        assert_int_equal(ipu_graph_status(g), IPU_OK);
        assert_int_equal(ipu_graph_tile_mapping(g, x, &map, &s.n_used), IPU_OK);
        check_spread(&s, map);
        check_as_many_tiles_as_possible(&s);
        ipu_free(map);
        ipu_graph_destroy(g);
    }
}

static void linear_mapping_follows_the_order_of_the_view(void **state)
{
    (void)state;
    ipu_graph         *g = new_graph(4);
    ipu_tensor         x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 2), "x");
    ipu_tile_interval *map;
    size_t             n;
    ipu_graph_map_linearly(g, ipu_tensor_reverse(x, 0));
    assert_int_equal(ipu_graph_tile_mapping(g, x, &map, &n), IPU_OK);
    assert_int_equal(n, 4);
    for (size_t k = 0; k < n; k++) assert_int_equal(map[k].tile, 3 - k);
    ipu_free(map);
    ipu_graph_destroy(g);
}

/* ---- wrong arguments ---- */

static void check_refused(ipu_graph *g, const char *says, int line)
{
    char where[300];
    snprintf(where, sizeof where, "%s:%d", __FILE__, line);
    if (ipu_graph_status(g) != IPU_INVALID) fail_msg("line %d: accepted", line);
    const char *message = ipu_graph_message(g);
    if (!strstr(message, where)) fail_msg("line %d: \"%s\" does not say where", line, message);
    if (!strstr(message, says)) fail_msg("line %d: \"%s\" does not say \"%s\"", line, message, says);
}

#define REFUSED(says, ...)                                                         \
    do {                                                                           \
        ipu_graph *g = new_graph(N_TILES);                                         \
        ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x"); \
        assert_true(ipu_tensor_valid(x));                                          \
        (void)(__VA_ARGS__);                                                       \
        check_refused(g, says, __LINE__);                                          \
        ipu_graph_destroy(g);                                                      \
    } while (0)

#define MAP(...) (&(const ipu_tile_interval){__VA_ARGS__}), 1
#define TILES(...) \
    ((const int64_t[]){__VA_ARGS__}), (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void wrong_tiles_and_intervals_are_refused(void **state)
{
    (void)state;
    REFUSED("40", ipu_graph_set_tile_mapping(g, x, 40));
    REFUSED("-1", ipu_graph_set_tile_mapping(g, x, -1));
    REFUSED("40", ipu_graph_set_tile_intervals(g, x, MAP(40, 0, 32)));
    REFUSED("33", ipu_graph_set_tile_intervals(g, x, MAP(3, 0, 33)));
    REFUSED("-1", ipu_graph_set_tile_intervals(g, x, MAP(3, -1, 3)));
    REFUSED("5", ipu_graph_set_tile_intervals(g, x, MAP(3, 5, 4)));
    REFUSED("0", ipu_graph_map_linearly_by(g, x, 1, 0));
    REFUSED("-3", ipu_graph_map_linearly_by(g, x, -3, 1));
    REFUSED("40", ipu_graph_add_virtual(g, TILES(3, 40)));
    REFUSED("-1", ipu_graph_add_virtual(g, TILES(-1)));
    REFUSED("41", ipu_graph_add_virtual_range(g, 3, 41));
    REFUSED("5", ipu_graph_add_virtual_range(g, 5, 4));
    REFUSED("12", ipu_graph_set_tile_mapping(ipu_graph_add_virtual_range(g, 3, 15), x, 12));
    REFUSED("12", ipu_graph_add_virtual(ipu_graph_add_virtual_range(g, 3, 15), TILES(12)));
}

static void a_tensor_of_another_graph_is_not_mapped(void **state)
{
    (void)state;
    ipu_graph *other = new_graph(N_TILES);
    ipu_tensor y     = ipu_graph_add_variable(other, IPU_FLOAT, IPU_SHAPE(4), "y");
    REFUSED("graph", ipu_graph_set_tile_mapping(g, y, 0));
    REFUSED("graph", ipu_graph_map_linearly(g, y));
    REFUSED("graph", ipu_graph_clone(g, y, "z"));
    ipu_graph_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_mappings_agree_with_one_tile_per_element),
        cmocka_unit_test(a_clone_has_the_mapping_of_its_model),
        cmocka_unit_test(a_window_of_a_window_numbers_its_own_tiles),
        cmocka_unit_test(linear_mapping_is_even_in_order_and_keeps_the_minimum),
        cmocka_unit_test(linear_mapping_follows_the_order_of_the_view),
        cmocka_unit_test(wrong_tiles_and_intervals_are_refused),
        cmocka_unit_test(a_tensor_of_another_graph_is_not_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
