/* Loops: their results when run, and which carried values are overwritten in place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "model/model.h"

enum { N = 3 };

/* A loop over two values a and b; `body` fills next[0..2). Returns the model; *loop receives its body. */
typedef void (*body_fn)(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next);

static ipu_model *make(body_fn body, int64_t most)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_value in[2] = {ipu_model_input(m, IPU_INT32, IPU_SHAPE(N), "a"),
                       ipu_model_input(m, IPU_INT32, IPU_SHAPE(N), "b")};
    ipu_value inside[2], next[2], after[2], index;
    ipu_model_loop(m, most, IPU_NO_VALUE, in, 2, inside, &index);
    body(ipu_model_builder(m), inside, index, next);
    ipu_model_yield(m, next, 2);
    ipu_model_end(m, after, 2);
    ipu_model_output(m, after[0], "a_after");
    ipu_model_output(m, after[1], "b_after");
    assert_string_equal(ipu_builder_message(ipu_model_builder(m)), "");
    assert_int_equal(ipu__model_verify(m), IPU_OK);
    return m;
}

static bool is_in_place(const ipu_model *m, uint32_t i)
{
    uint32_t *marks = calloc(m->values.n, sizeof *marks);
    bool      is    = ipu__model_carries_in_place(m, m->ops.at[0].body, i, marks, 1);
    free(marks);
    return is;
}

static void run(ipu_model *m, int32_t a[N], int32_t b[N])
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_compile(m, &target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "a", a, N * sizeof *a), IPU_OK);
    assert_int_equal(ipu_engine_write(e, "b", b, N * sizeof *b), IPU_OK);
    if (ipu_engine_run(e, 0) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_engine_read(e, "a_after", a, N * sizeof *a), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "b_after", b, N * sizeof *b), IPU_OK);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(m);
}

/* Checks whether a and b are overwritten in place, and runs 4 turns from a = 1 2 3, b = 10 20 30. */
static void check(body_fn body, bool a_in_place, bool b_in_place, const int32_t *want_a,
                  const int32_t *want_b)
{
    ipu_model *m    = make(body, 4);
    int32_t    a[N] = {1, 2, 3}, b[N] = {10, 20, 30};
    assert_int_equal(is_in_place(m, 0), a_in_place);
    assert_int_equal(is_in_place(m, 1), b_in_place);
    run(m, a, b);
    assert_memory_equal(a, want_a, sizeof a);
    assert_memory_equal(b, want_b, sizeof b);
}

static void sums(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    next[0] = ipu_add(b, inside[0], index);
    next[1] = ipu_add(b, inside[1], next[0]); /* a as it is after the turn */
}

static void sums_are_done_in_place(void **state)
{
    (void)state;
    check(sums, true, true, (int32_t[]){7, 8, 9}, (int32_t[]){24, 38, 52});
}

static void fibonacci(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    (void)index;
    next[0] = inside[1];
    next[1] = ipu_add(b, inside[0], inside[1]);
}

static void what_is_yielded_elsewhere_is_not_overwritten(void **state)
{
    (void)state;
    check(fibonacci, false, false, (int32_t[]){32, 64, 96}, (int32_t[]){53, 106, 159});
}

static void swap(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    (void)b, (void)index;
    next[0] = inside[1];
    next[1] = inside[0];
}

static void two_values_change_places(void **state)
{
    (void)state;
    check(swap, false, false, (int32_t[]){1, 2, 3}, (int32_t[]){10, 20, 30});
}

static void used_later(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    ipu_value turned = ipu_reverse(b, inside[0], 0);
    next[0]          = ipu_add(b, inside[0], index);
    next[1]          = ipu_add(b, turned, index); /* a view of the old a */
}

static void what_a_view_reads_later_is_not_overwritten(void **state)
{
    (void)state;
    check(used_later, false, false, (int32_t[]){7, 8, 9}, (int32_t[]){9, 8, 7});
}

static void reads_itself(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    (void)index;
    next[0] = ipu_add(b, inside[0], ipu_reverse(b, inside[0], 0));
    next[1] = ipu_add(b, inside[1], inside[1]);
}

static void what_an_op_also_reads_in_another_order_is_not_overwritten(void **state)
{
    (void)state;
    check(reads_itself, false, true, (int32_t[]){32, 32, 32}, (int32_t[]){160, 320, 480});
}

static void as_it_is(ipu_builder *b, const ipu_value *inside, ipu_value index, ipu_value *next)
{
    (void)b, (void)index;
    next[0] = inside[0];
    next[1] = inside[0];
}

static void what_does_not_change_stays(void **state)
{
    (void)state;
    check(as_it_is, false, false, (int32_t[]){1, 2, 3}, (int32_t[]){1, 2, 3});
}

static void no_turn_changes_nothing(void **state)
{
    (void)state;
    int32_t a[N] = {1, 2, 3}, b[N] = {10, 20, 30};
    run(make(sums, 0), a, b);
    assert_memory_equal(a, ((int32_t[]){1, 2, 3}), sizeof a);
    assert_memory_equal(b, ((int32_t[]){10, 20, 30}), sizeof b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_done_in_place),
        cmocka_unit_test(what_is_yielded_elsewhere_is_not_overwritten),
        cmocka_unit_test(two_values_change_places),
        cmocka_unit_test(what_a_view_reads_later_is_not_overwritten),
        cmocka_unit_test(what_an_op_also_reads_in_another_order_is_not_overwritten),
        cmocka_unit_test(what_does_not_change_stays),
        cmocka_unit_test(no_turn_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
