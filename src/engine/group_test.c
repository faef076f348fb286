/* Groups of copies: which may run concurrently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/compile.h"

typedef struct fixture {
    ipu_graph      *g;
    ipu_tensor      x, y, z;
    ipu__copy_group group;
} fixture;

static int set_up(void **state)
{
    ipu_target target;
    fixture   *f = *state = calloc(1, sizeof *f);
    if (ipu_target_find("gc200", 1, &target) != IPU_OK || ipu_graph_create(&target, 1, &f->g) != IPU_OK)
        return -1;
    f->x             = ipu_graph_add_variable(f->g, IPU_FLOAT, IPU_SHAPE(100), "x");
    f->y             = ipu_graph_add_variable(f->g, IPU_FLOAT, IPU_SHAPE(100), "y");
    f->z             = ipu_graph_add_variable(f->g, IPU_FLOAT, IPU_SHAPE(100), "z");
    f->group.touched = calloc(f->g->variables.n, sizeof *f->group.touched);
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    free(f->group.touched);
    ipu_graph_destroy(f->g);
    free(f);
    return 0;
}

static ipu_tensor part(ipu_tensor t, int64_t begin, int64_t end)
{
    return ipu_tensor_slice(t, begin, end, 0);
}

static bool join(fixture *f, ipu_tensor from, ipu_tensor to)
{
    assert_int_equal(ipu_graph_status(f->g), IPU_OK);
    return ipu__group_join(&f->group, &f->g->views, from.id, to.id);
}

static void the_first_copy_opens_a_group(void **state)
{
    fixture *f = *state;
    assert_false(join(f, f->x, f->y));
    ipu__group_close(&f->group);
    assert_false(join(f, f->x, f->z));
    assert_true(join(f, f->x, f->y)); /* accesses of a closed group are forgotten */
}

static void copies_of_one_source_join(void **state)
{
    fixture *f = *state;
    assert_false(join(f, f->x, f->y));
    assert_true(join(f, f->x, f->z));
}

static void reading_what_was_written_waits(void **state)
{
    fixture *f = *state;
    assert_false(join(f, part(f->x, 0, 10), part(f->y, 0, 10)));
    assert_false(join(f, part(f->y, 9, 19), part(f->z, 0, 10)));
    assert_true(join(f, part(f->y, 19, 29), part(f->x, 0, 10)));
}

static void writing_what_was_read_waits(void **state)
{
    fixture *f = *state;
    assert_false(join(f, part(f->x, 0, 10), part(f->y, 0, 10)));
    assert_true(join(f, part(f->z, 0, 10), part(f->x, 10, 20)));
    assert_false(join(f, part(f->z, 0, 10), part(f->x, 5, 15)));
}

static void writing_twice_waits(void **state)
{
    fixture *f = *state;
    assert_false(join(f, part(f->x, 0, 10), part(f->y, 20, 30)));
    assert_true(join(f, part(f->x, 0, 10), part(f->y, 30, 40)));
    assert_true(join(f, part(f->x, 0, 10), part(f->y, 10, 20)));
    assert_false(join(f, part(f->x, 0, 10), part(f->y, 39, 49)));
    assert_true(join(f, part(f->x, 0, 10), part(f->y, 20, 30))); /* the previous group is forgotten */
}

/* Hulls of reversed and strided views extend as far as their elements. */
static void hulls_cover_every_direction(void **state)
{
    fixture *f = *state;
    assert_false(join(f, ipu_tensor_reverse(part(f->x, 20, 40), 0), part(f->y, 0, 20)));
    assert_false(join(f, part(f->z, 0, 1), part(f->x, 20, 21)));
    ipu__group_close(&f->group);
    assert_false(join(f, part(f->y, 0, 10), ipu_tensor_subsample(part(f->x, 50, 69), 2, 0)));
    assert_true(join(f, part(f->x, 69, 79), part(f->z, 0, 10)));
    assert_false(join(f, part(f->x, 68, 78), part(f->z, 20, 30)));
}

static void several_pieces_count_each(void **state)
{
    fixture   *f    = *state;
    ipu_tensor both = ipu_tensor_concat2(part(f->x, 0, 5), part(f->y, 0, 5), 0);
    assert_false(join(f, both, part(f->z, 0, 10)));
    assert_true(join(f, part(f->z, 50, 55), part(f->y, 5, 10)));
    assert_false(join(f, part(f->z, 50, 55), part(f->y, 4, 9)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_first_copy_opens_a_group),
        TEST(copies_of_one_source_join),
        TEST(reading_what_was_written_waits),
        TEST(writing_what_was_read_waits),
        TEST(writing_twice_waits),
        TEST(hulls_cover_every_direction),
        TEST(several_pieces_count_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
