/* Arenas: alignment, no overlap, large pieces, refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"

static int live;

static void *counting(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        live--;
        free(ptr);
        return NULL;
    }
    if (!ptr) live++;
    return realloc(ptr, new_bytes);
}

static void *refusing(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)ptr, (void)old_bytes, (void)new_bytes;
    return NULL;
}

static int reset(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void pieces_are_aligned_and_do_not_overlap(void **state)
{
    (void)state;
    enum { N = 2000 };
    static unsigned char *at[N];
    ipu__arena            arena = {0};
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * 37 % 300);
        at[i]        = ipu__arena_alloc(&arena, bytes);
        assert_non_null(at[i]);
        assert_int_equal((uintptr_t)at[i] % 16, 0);
        memset(at[i], i & 0xff, bytes);
    }
    for (int i = 0; i < N; i++)
        for (size_t j = 0; j < (size_t)(i * 37 % 300); j++)
            if (at[i][j] != (i & 0xff)) fail_msg("piece %d was overwritten at %zu", i, j);
    ipu__arena_fini(&arena);
}

static void a_piece_larger_than_any_block_fits(void **state)
{
    (void)state;
    ipu__arena arena = {0};
    char      *small = ipu__arena_strdup(&arena, "before");
    char      *large = ipu__arena_alloc(&arena, 5 << 20);
    assert_non_null(large);
    memset(large, 1, 5 << 20);
    char *after = ipu__arena_strdup(&arena, "after");
    assert_string_equal(small, "before");
    assert_string_equal(after, "after");
    ipu__arena_fini(&arena);
}

static void copies_are_copies(void **state)
{
    (void)state;
    ipu__arena arena  = {0};
    int        data[] = {1, 2, 3};
    int       *copy   = ipu__arena_copy(&arena, data, sizeof data);
    data[1]           = 9;
    assert_int_equal(copy[0], 1);
    assert_int_equal(copy[1], 2);
    assert_int_equal(copy[2], 3);
    assert_non_null(ipu__arena_copy(&arena, NULL, 0));
    ipu__arena_fini(&arena);
}

static void fini_frees_every_block_and_leaves_an_empty_arena(void **state)
{
    (void)state;
    live = 0;
    ipu__alloc_set(counting, NULL);
    ipu__arena arena = {0};
    for (int i = 0; i < 100; i++) assert_non_null(ipu__arena_alloc(&arena, 3000));
    assert_in_range(live, 2, 99);
    ipu__arena_fini(&arena);
    assert_int_equal(live, 0);
    assert_non_null(ipu__arena_alloc(&arena, 1)); /* usable again */
    ipu__arena_fini(&arena);
    ipu__arena_fini(&arena);
    assert_int_equal(live, 0);
}

static void refusal_is_null_and_what_was_there_stays(void **state)
{
    (void)state;
    ipu__arena arena = {0};
    char      *text  = ipu__arena_strdup(&arena, "kept");
    ipu__alloc_set(refusing, NULL);
    assert_null(ipu__arena_alloc(&arena, 1 << 20));
    assert_null(ipu__arena_alloc(&arena, SIZE_MAX));
    assert_string_equal(text, "kept");
    assert_non_null(ipu__arena_alloc(&arena, 16)); /* still room in the block at hand */
    ipu__alloc_set(NULL, NULL);
    ipu__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_do_not_overlap),
        cmocka_unit_test(a_piece_larger_than_any_block_fits),
        cmocka_unit_test(copies_are_copies),
        cmocka_unit_test_teardown(fini_frees_every_block_and_leaves_an_empty_arena, reset),
        cmocka_unit_test_teardown(refusal_is_null_and_what_was_there_stays, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
