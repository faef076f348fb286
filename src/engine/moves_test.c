/* Moves, against element lists of random views: merged, cut and never too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/support/random.h"
#include "base/status.h"
#include "engine/cpu/move.h"
#include "engine/moves.h"
#include "graph/graph.h"

/* Two variables of 2000 bytes each, some distance apart, in one memory. */
enum { N = 500, FIRST = 64, SECOND = 64 + 4 * N + 192, BYTES = SECOND + 4 * N + 64 };

typedef struct fixture {
    ipu_graph  *g;
    ipu_tensor  x, y;
    ipu__place  places[3];
    ipu__layout layout;
} fixture;

static void open_fixture(fixture *f)
{
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &f->g), IPU_OK);
    f->x         = ipu_graph_add_variable(f->g, IPU_INT32, IPU_SHAPE(N), "x");
    f->y         = ipu_graph_add_variable(f->g, IPU_INT32, IPU_SHAPE(N), "y");
    f->places[1] = ipu__place_make(IPU__SPACE_VARIABLE, FIRST);
    f->places[2] = ipu__place_make(IPU__SPACE_VARIABLE, SECOND);
    f->layout    = (ipu__layout){&f->g->views, f->places};
}

static int64_t offset_of(const fixture *f, uint32_t var, int64_t element)
{
    return ipu__place_offset(f->places[var]) + 4 * element;
}

/* Byte offsets of the elements of a view, in order. */
static int64_t list_offsets(const fixture *f, ipu_tensor t, int64_t *out)
{
    ipu__runs runs = ipu__view_runs(&f->g->views, t.id);
    ipu__run  run;
    int64_t   n = 0;
    while (ipu__runs_next(&runs, &run))
        for (int64_t i = 0; i < run.count; i++) out[n++] = offset_of(f, run.var, run.start + i * run.stride);
    return n;
}

static void run_all(const ipu__moves *m, char *memory, char *host)
{
    char *bases[IPU__N_SPACES] = {[IPU__SPACE_VARIABLE] = memory, [IPU__SPACE_HOST] = host};
    for (size_t i = m->at.n; i-- > 0;) ipu__move_run(m, i, bases, bases); /* any order is correct */
}

static void fill(char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = (char)(i * 37 + (i >> 8) * 11);
}

/* A view of `n` <= 240 elements without aliases if `once`. */
static ipu_tensor random_view(test_random *r, ipu_tensor t, bool once)
{
    t = ipu_tensor_reshape(ipu_tensor_slice(t, random_in(r, 0, 20), 500 - random_in(r, 0, 19), 0),
                           IPU_SHAPE(-1));
    t = ipu_tensor_slice(t, 0, 240 + 24 * random_in(r, 0, 9), 0);
    t = ipu_tensor_reshape(t, IPU_SHAPE(2, 3, 4, -1));
    for (int i = 0; i < 4; i++) {
        int perm[4] = {0, 1, 2, 3};
        random_shuffle(r, perm, 4);
        int d = (int)random_in(r, 0, 3);
        switch (random_in(r, 0, 4)) {
        case 0: t = ipu_tensor_permute(t, perm, 4); break;
        case 1: t = ipu_tensor_reverse(t, d); break;
        case 2: t = ipu_tensor_subsample(t, random_in(r, 1, 2), d); break;
        case 3:
            if (!once && ipu_tensor_n_elements(t) < 500) t = ipu_tensor_broadcast(t, 2, d);
            break;
        default: {
            ipu_shape s  = ipu_tensor_shape(t);
            int64_t   at = random_in(r, 0, s.dim[d]);
            t = ipu_tensor_concat2(ipu_tensor_slice(t, at, s.dim[d], d), ipu_tensor_slice(t, 0, at, d), d);
        }
        }
    }
    return ipu_tensor_flatten(t);
}

static void copies_move_every_element(void **state)
{
    (void)state;
    static char    memory[BYTES], expected[BYTES];
    static int64_t from_at[4 * N], to_at[4 * N];
    uint64_t       seed = test_seed(1);
    for (int trial = 0; trial < test_count(400); trial++) {
        fixture     f;
        test_random r = {seed + (uint64_t)trial};
        open_fixture(&f);
        ipu_tensor to = random_view(&r, f.y, true), from = random_view(&r, f.x, false);
        int64_t    n = ipu_tensor_n_elements(to) < ipu_tensor_n_elements(from) ? ipu_tensor_n_elements(to)
                                                                               : ipu_tensor_n_elements(from);
        to           = ipu_tensor_slice(to, 0, n, 0);
        from         = ipu_tensor_slice(from, 0, n, 0);
        assert_string_equal(ipu_graph_message(f.g), "");
        fill(memory, BYTES);
        memcpy(expected, memory, BYTES);
        assert_int_equal(list_offsets(&f, from, from_at), n);
        assert_int_equal(list_offsets(&f, to, to_at), n);
        for (int64_t i = 0; i < n; i++) memcpy(expected + to_at[i], memory + from_at[i], 4);
        ipu__moves m = {0};
        assert_true(ipu__moves_add_copy(&m, 0, &f.layout, from.id, to.id));
        run_all(&m, memory, NULL);
        if (memcmp(memory, expected, BYTES) != 0)
            fail_msg("IPU_TEST_SEED=%llu", (unsigned long long)(seed + (uint64_t)trial));
        ipu__moves_fini(&m);
        ipu_graph_destroy(f.g);
    }
}

static void packing_and_unpacking_keep_the_order(void **state)
{
    (void)state;
    static char    memory[BYTES], before[BYTES], packed[8 * N + 1];
    static int64_t at[4 * N];
    uint64_t       seed = test_seed(2);
    for (int trial = 0; trial < test_count(400); trial++) {
        fixture     f;
        test_random r = {seed + (uint64_t)trial};
        open_fixture(&f);
        ipu_tensor t = random_view(
            &r, ipu_tensor_concat2(ipu_tensor_slice(f.x, 0, 250, 0), ipu_tensor_slice(f.y, 250, 500, 0), 0),
            true);
        int64_t n    = list_offsets(&f, t, at);
        char   *host = packed + 1; /* host memory need not be aligned */
        fill(memory, BYTES);
        memcpy(before, memory, BYTES);
        ipu__place place = ipu__place_make(IPU__SPACE_HOST, 0);
        ipu__moves pack = {0}, unpack = {0};
        assert_true(ipu__moves_add_pack(&pack, 0, &f.layout, t.id, place));
        assert_true(ipu__moves_add_unpack(&unpack, 0, &f.layout, place, t.id));
        run_all(&pack, memory, host);
        for (int64_t i = 0; i < n; i++) assert_memory_equal(host + 4 * i, memory + at[i], 4);
        memset(memory, 0, BYTES);
        run_all(&unpack, memory, host);
        for (int64_t i = 0; i < n; i++)
            memset(memory + at[i], 0, memcmp(memory + at[i], before + at[i], 4) == 0 ? 4 : 0);
        for (int64_t i = 0; i < BYTES; i++) assert_int_equal(memory[i], 0);
        ipu__moves_fini(&pack);
        ipu__moves_fini(&unpack);
        ipu_graph_destroy(f.g);
    }
}

static void what_is_contiguous_on_both_sides_is_one_move(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    ipu_tensor x = ipu_tensor_reshape(f.x, IPU_SHAPE(20, 25)), y = ipu_tensor_reshape(f.y, IPU_SHAPE(20, 25));
    ipu_tensor pairs[][2] = {{x, y},
                             {ipu_tensor_transpose(x), ipu_tensor_transpose(y)},
                             {ipu_tensor_reverse(x, 0), ipu_tensor_reverse(y, 0)}};
    for (size_t i = 0; i < 3; i++) {
        ipu__moves m = {0};
        assert_true(ipu__moves_add_copy(&m, 0, &f.layout, pairs[i][0].id, pairs[i][1].id));
        assert_int_equal(m.at.n, 1);
        assert_int_equal(m.at.at[0].n_loops, 0);
        assert_int_equal(m.at.at[0].unit, 4 * N);
        ipu__moves_fini(&m);
    }
    ipu_graph_destroy(f.g);
}

static void neighbouring_copies_become_one_move(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    ipu__moves m = {0};
    for (int64_t i = 0; i < 50; i++)
        assert_true(ipu__moves_add_copy(&m, 0, &f.layout, ipu_tensor_slice(f.x, 10 * i, 10 * i + 10, 0).id,
                                        ipu_tensor_slice(f.y, 10 * i, 10 * i + 10, 0).id));
    assert_int_equal(m.at.n, 1);
    assert_int_equal(m.at.at[0].bytes, 4 * N);
    assert_true(ipu__moves_add_copy(&m, 1, &f.layout, f.x.id, f.y.id));
    assert_int_equal(m.at.n, 2); /* not joined across the start of a list */
    ipu__moves_fini(&m);
    ipu_graph_destroy(f.g);
}

/* Sizes around the largest move, as a run and as a transpose, of units of 1 to 8 bytes. */
static void large_moves_are_cut_and_complete(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 131072}, {1, 131073}, {1000, 999}, {70, 4000},
                                       {4000, 70},  {3, 200000}, {200000, 3}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t unit = 1; unit <= 8; unit *= 2) {
            int64_t     rows = sizes[i][0], columns = sizes[i][1], bytes = rows * columns * unit, moved = 0;
            char       *from = malloc((size_t)bytes), *to = malloc((size_t)bytes);
            char       *bases[IPU__N_SPACES] = {[IPU__SPACE_VARIABLE] = to, [IPU__SPACE_HOST] = from};
            ipu__moves  m                    = {0};
            ipu__stride loops[]              = {{rows, columns * unit, unit}, {columns, unit, rows * unit}};
            fill(from, (size_t)bytes);
            memset(to, 0, (size_t)bytes);
            assert_true(ipu__moves_add(&m, 0, 0, ipu__place_make(IPU__SPACE_HOST, 0), unit, loops, 2));
            for (size_t k = 0; k < m.at.n; k++) {
                assert_true(m.at.at[k].bytes <= IPU__MOVE_BYTES);
                moved += m.at.at[k].bytes;
                ipu__move_run(&m, k, bases, bases);
            }
            assert_int_equal(moved, bytes);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < columns; c++)
                    if (memcmp(to + (r * columns + c) * unit, from + (c * rows + r) * unit, (size_t)unit)
                        != 0)
                        fail_msg("row %lld, column %lld of %lldx%lld", (long long)r, (long long)c,
                                 (long long)rows, (long long)columns);
            ipu__moves_fini(&m);
            free(from);
            free(to);
        }
}

static void cursors_give_all_elements_in_any_portions(void **state)
{
    (void)state;
    static int64_t at[4 * N];
    uint64_t       seed = test_seed(3);
    for (int trial = 0; trial < test_count(200); trial++) {
        fixture     f;
        test_random r = {seed + (uint64_t)trial};
        open_fixture(&f);
        ipu_tensor  t = random_view(&r, f.x, false);
        int64_t     n = list_offsets(&f, t, at), done = 0;
        ipu__cursor cursor = ipu__cursor_make(&f.g->views, t.id);
        ipu__piece  nest;
        for (int64_t got, most;
             most = random_in(&r, 1, 90), (got = ipu__cursor_peek(&cursor, most, &nest)) > 0;) {
            int64_t index[IPU__MAX_LOOPS] = {0};
            assert_true(got <= most);
            assert_int_equal(ipu__piece_count(&nest), got);
            for (int64_t i = 0; i < got; i++, done++) {
                int64_t element = nest.start;
                for (int k = 0; k < nest.n_loops; k++) element += index[k] * nest.loop[k].stride;
                assert_int_equal(offset_of(&f, nest.var, element), at[done]);
                for (int k = nest.n_loops - 1; k >= 0 && ++index[k] == nest.loop[k].count; k--) index[k] = 0;
            }
            ipu__cursor_pass(&cursor, got);
        }
        assert_int_equal(done, n);
        ipu_graph_destroy(f.g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_move_every_element),
        cmocka_unit_test(packing_and_unpacking_keep_the_order),
        cmocka_unit_test(what_is_contiguous_on_both_sides_is_one_move),
        cmocka_unit_test(neighbouring_copies_become_one_move),
        cmocka_unit_test(large_moves_are_cut_and_complete),
        cmocka_unit_test(cursors_give_all_elements_in_any_portions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
