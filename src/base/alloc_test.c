/* The allocator: the hook sees every call and can refuse, pages are zeroed and aligned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

typedef struct log_book {
    int    allocated, freed, refuse_after; /* refuse_after < 0: never refuse */
    size_t last_bytes;
} log_book;

static void *counting(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    log_book *book = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        book->freed++;
        free(ptr);
        return NULL;
    }
    if (book->refuse_after == 0) return NULL;
    if (book->refuse_after > 0) book->refuse_after--;
    book->last_bytes = new_bytes;
    if (!ptr) book->allocated++;
    return realloc(ptr, new_bytes);
}

static int reset(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void the_hook_sees_every_allocation_and_free(void **state)
{
    (void)state;
    log_book book = {.refuse_after = -1};
    ipu__alloc_set(counting, &book);
    char *a = ipu__alloc(10), *b = ipu__strdup("four"), *c = ipu__alloc_zeroed(100);
    assert_string_equal(b, "four");
    for (int i = 0; i < 100; i++) assert_int_equal(c[i], 0);
    a = ipu__realloc(a, 10, 1000);
    assert_int_equal(book.last_bytes, 1000);
    ipu__free(a);
    ipu__free(b);
    ipu__free(c);
    assert_int_equal(book.allocated, 3);
    assert_int_equal(book.freed, 3);
}

static void size_0_is_memory_and_free_of_null_is_nothing(void **state)
{
    (void)state;
    log_book book = {.refuse_after = -1};
    ipu__alloc_set(counting, &book);
    void *p = ipu__alloc(0);
    assert_non_null(p);
    assert_int_equal(book.last_bytes, 1);
    p = ipu__realloc(p, 0, 0); /* not a free */
    assert_non_null(p);
    ipu__free(p);
    ipu__free(NULL);
    assert_int_equal(book.freed, 1);
}

static void refusal_is_null_everywhere(void **state)
{
    (void)state;
    log_book book = {.refuse_after = 0};
    ipu__alloc_set(counting, &book);
    assert_null(ipu__alloc(1));
    assert_null(ipu__alloc_zeroed(1));
    assert_null(ipu__strdup("x"));
    assert_null(ipu__alloc_pages(1));
    assert_int_equal(book.allocated, 0);
}

static void pages_are_zeroed_aligned_and_writable_to_the_last_byte(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 3 << 20};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char *p = ipu__alloc_pages(sizes[s]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < sizes[s]; i++)
            if (p[i] != 0) fail_msg("byte %zu of %zu is not 0", i, sizes[s]);
        if (sizes[s]) memset(p, 0xff, sizes[s]);
        ipu__free_pages(p, sizes[s]);
    }
    ipu__free_pages(NULL, 0);
}

static void trimming_keeps_what_is_in_use(void **state)
{
    (void)state;
    enum { N = 1000, BYTES = 6000 };
    char *block[N];
    for (int i = 0; i < N; i++) {
        assert_non_null(block[i] = ipu__alloc(BYTES));
        memset(block[i], i, BYTES);
    }
    for (int i = 0; i < N; i++)
        if (i % 10) ipu__free(block[i]);
    ipu__alloc_trim();
    for (int i = 0; i < N; i += 10) {
        for (int k = 0; k < BYTES; k++) assert_int_equal(block[i][k], (char)i);
        ipu__free(block[i]);
    }
}

static void pages_beyond_the_address_space_are_refused(void **state)
{
    (void)state;
    assert_null(ipu__alloc_pages(SIZE_MAX));
    assert_null(ipu__alloc_pages(SIZE_MAX - 4096));
    assert_null(ipu__alloc_pages((size_t)1 << 60));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_hook_sees_every_allocation_and_free, reset),
        cmocka_unit_test_teardown(size_0_is_memory_and_free_of_null_is_nothing, reset),
        cmocka_unit_test_teardown(refusal_is_null_everywhere, reset),
        cmocka_unit_test(pages_are_zeroed_aligned_and_writable_to_the_last_byte),
        cmocka_unit_test(trimming_keeps_what_is_in_use),
        cmocka_unit_test(pages_beyond_the_address_space_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
