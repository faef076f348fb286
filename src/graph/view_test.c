/* Views below the tensor functions: nests, builders and packing, against plain lists of elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/support/random.h"
#include "graph/view.h"

enum { MOST = 4096 };

typedef struct list {
    int     n;
    int64_t at[MOST];
} list;

static void add_elements(list *out, const ipu__piece *p, int level, int64_t start)
{
    if (level == p->n_loops) {
        assert_true(out->n < MOST);
        out->at[out->n++] = start;
        return;
    }
    for (int64_t i = 0; i < p->loop[level].count; i++)
        add_elements(out, p, level + 1, start + i * p->loop[level].stride);
}

static void elements_of(const ipu__piece *p, list *out)
{
    out->n = 0;
    add_elements(out, p, 0, p->start);
}

static void assert_same(const list *a, const list *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->at, b->at, sizeof *a->at * (size_t)a->n);
}

/* A nest of `n` elements, its counts a random factorisation. */
static ipu__piece random_nest(test_random *r, int64_t n)
{
    ipu__piece p = {.var = (uint32_t)random_in(r, 1, 3), .start = random_in(r, 0, 1000)};
    while (n > 1 || random_chance(r, 20)) {
        int64_t count = random_in(r, 1, n < 6 ? n : 6);
        while (n % count) count--;
        p.loop[p.n_loops++] = (ipu__loop){count, random_in(r, -12, 12)};
        n /= count;
        if (p.n_loops == 6) {
            p.loop[p.n_loops++] = (ipu__loop){n, random_in(r, -2, 2)};
            break;
        }
    }
    return p;
}

static void normalising_keeps_the_elements_and_leaves_no_loop_to_merge(void **state)
{
    (void)state;
    static list before, after;
    test_random r = {test_seed(11)};
    for (int i = 0, n = test_count(3000); i < n; i++) {
        ipu__piece p = random_nest(&r, random_in(&r, 1, 200));
        elements_of(&p, &before);
        ipu__nest_normalise(&p);
        elements_of(&p, &after);
        assert_same(&before, &after);
        assert_int_equal(ipu__piece_count(&p), before.n);
        for (int k = 0; k < p.n_loops; k++) {
            assert_true(p.loop[k].count > 1);
            if (k > 0) assert_true(p.loop[k - 1].stride != p.loop[k].count * p.loop[k].stride);
        }
    }
}

static void aligned_nests_have_the_same_counts_and_their_old_elements(void **state)
{
    (void)state;
    static list a0, b0, a1, b1;
    test_random r         = {test_seed(12)};
    int         n_aligned = 0, n = test_count(3000);
    for (int i = 0; i < n; i++) {
        int64_t    count = random_in(&r, 1, 240);
        ipu__piece a = random_nest(&r, count), b = random_nest(&r, count);
        ipu__nest_normalise(&a);
        ipu__nest_normalise(&b);
        elements_of(&a, &a0);
        elements_of(&b, &b0);
        if (!ipu__nest_align(&a, &b)) continue;
        n_aligned++;
        elements_of(&a, &a1);
        elements_of(&b, &b1);
        assert_same(&a0, &a1);
        assert_same(&b0, &b1);
        assert_int_equal(a.n_loops, b.n_loops);
        for (int k = 0; k < a.n_loops; k++) assert_int_equal(a.loop[k].count, b.loop[k].count);
    }
    assert_true(n_aligned > n / 4);
}

/* Reads a view back, through its runs and through its pieces. */
static void read_back(const ipu__view_pool *pool, uint32_t id, list *by_runs, list *by_pieces, uint32_t var)
{
    ipu__runs   runs   = ipu__view_runs(pool, id);
    ipu__view   view   = ipu__view_get(pool, id);
    ipu__pieces pieces = ipu__view_pieces(pool, &view);
    by_runs->n = by_pieces->n = 0;
    for (ipu__run run; ipu__runs_next(&runs, &run);) {
        assert_int_equal(run.var, var);
        if (run.count == 1) assert_int_equal(run.stride, 1);
        for (int64_t i = 0; i < run.count; i++) by_runs->at[by_runs->n++] = run.start + i * run.stride;
    }
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        add_elements(by_pieces, &piece, 0, piece.start);
}

/* Pieces and ranges of pieces go in; however the builder joins them, the elements come out in order. */
static void a_packed_view_reads_back_as_it_was_built(void **state)
{
    (void)state;
    static list       expected, part, by_runs, by_pieces;
    test_random       r    = {test_seed(13)};
    ipu__view_pool    pool = {0};
    ipu__view_builder b    = {0};
    for (int i = 0, n = test_count(2000); i < n; i++) {
        bool wide  = random_chance(&r, 30);
        expected.n = 0;
        for (int64_t k = random_in(&r, 1, 6); k > 0; k--) {
            ipu__piece p = random_nest(&r, random_in(&r, 1, 60));
            p.var        = 2;
            if (wide) p.start += (int64_t)1 << 40;
            ipu__nest_normalise(&p);
            elements_of(&p, &part);
            int64_t begin = random_in(&r, 0, part.n - 1), end = random_in(&r, begin + 1, part.n);
            if (random_chance(&r, 50)) {
                begin = 0;
                end   = part.n;
                ipu__view_add(&b, &p);
            } else {
                ipu__view_add_range(&b, &p, begin, end);
            }
            for (int64_t e = begin; e < end; e++) expected.at[expected.n++] = part.at[e];
        }
        ipu_shape shape = IPU_SHAPE(expected.n);
        uint32_t  id    = ipu__view_commit(&b, &pool, IPU_HALF, &shape);
        assert_true(id != 0);
        read_back(&pool, id, &by_runs, &by_pieces, 2);
        assert_same(&expected, &by_runs);
        assert_same(&expected, &by_pieces);
        ipu__view view = ipu__view_get(&pool, id);
        assert_int_equal(view.type, IPU_HALF);
        assert_int_equal(view.n_elements, expected.n);
    }
    ipu__view_builder_fini(&b);
    ipu__array_fini(&pool.words);
}

static void a_run_of_neighbours_is_contiguous_however_it_was_built(void **state)
{
    (void)state;
    ipu__view_pool    pool = {0};
    ipu__view_builder b    = {0};
    ipu__run          run;
    ipu_shape         shape = IPU_SHAPE(24);
    for (int64_t i = 0; i < 6; i++) {
        ipu__piece p = {.var = 7, .start = 100 + 4 * i, .n_loops = 2, .loop = {{2, 2}, {2, 1}}};
        ipu__view_add(&b, &p);
    }
    uint32_t id = ipu__view_commit(&b, &pool, IPU_FLOAT, &shape);
    assert_true(ipu__view_contiguous(&pool, id, &run));
    assert_int_equal(run.var, 7);
    assert_int_equal(run.start, 100);
    assert_int_equal(run.count, 24);
    ipu__view view = ipu__view_get(&pool, id);
    assert_int_equal(view.n_pieces, 1);
    ipu__view_builder_fini(&b);
    ipu__array_fini(&pool.words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalising_keeps_the_elements_and_leaves_no_loop_to_merge),
        cmocka_unit_test(aligned_nests_have_the_same_counts_and_their_old_elements),
        cmocka_unit_test(a_packed_view_reads_back_as_it_was_built),
        cmocka_unit_test(a_run_of_neighbours_is_contiguous_however_it_was_built),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
