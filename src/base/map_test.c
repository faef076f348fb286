/* The hash map, against a plain list; collisions, replacement, refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/map.h"

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

static void an_empty_map_finds_nothing(void **state)
{
    (void)state;
    ipu__map map   = {0};
    uint32_t value = 77;
    assert_false(ipu__map_find(&map, "x", &value));
    assert_int_equal(value, 77);
    ipu__map_fini(&map);
}

static void every_key_is_found_and_no_other(void **state)
{
    (void)state;
    enum { N = 5000 };
    static char keys[N][12];
    ipu__map    map = {0};
    uint32_t    value;
    char        other[12];
    for (uint32_t i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "key%u", i);
        assert_true(ipu__map_set(&map, keys[i], i * 7));
    }
    assert_int_equal(map.n, N);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(other, sizeof other, "key%u", i); /* equal text elsewhere */
        assert_true(ipu__map_find(&map, other, &value));
        assert_int_equal(value, i * 7);
        snprintf(other, sizeof other, "no%u", i);
        assert_false(ipu__map_find(&map, other, &value));
    }
    ipu__map_fini(&map);
}

static void setting_again_replaces(void **state)
{
    (void)state;
    ipu__map map = {0};
    uint32_t value;
    assert_true(ipu__map_set(&map, "", 1));
    assert_true(ipu__map_set(&map, "a", 2));
    assert_true(ipu__map_set(&map, "", 3));
    assert_int_equal(map.n, 2);
    assert_true(ipu__map_find(&map, "", &value));
    assert_int_equal(value, 3);
    assert_true(ipu__map_find(&map, "a", &value));
    assert_int_equal(value, 2);
    ipu__map_fini(&map);
}

/* Few keys over and over, to get long runs in which removals leave holes. */
static void removed_keys_are_gone_and_all_others_stay(void **state)
{
    (void)state;
    enum { N = 300 };
    static char keys[N][12];
    bool        is_there[N] = {false};
    ipu__map    map         = {0};
    uint32_t    value, seed = 1;
    size_t      n = 0;
    assert_false(ipu__map_remove(&map, "x"));
    for (int i = 0; i < N; i++) snprintf(keys[i], sizeof keys[i], "key%d", i);
    for (int turn = 0; turn < 20000; turn++) {
        seed  = seed * 1664525 + 1013904223;
        int k = (int)(seed >> 16) % N;
        if (is_there[k])
            assert_true(ipu__map_remove(&map, keys[k]));
        else
            assert_true(ipu__map_set(&map, keys[k], (uint32_t)k));
        n += is_there[k] ? (size_t)-1 : 1;
        is_there[k] = !is_there[k];
        assert_int_equal(map.n, n);
        if (turn % 100) continue;
        for (int i = 0; i < N; i++) {
            assert_int_equal(ipu__map_find(&map, keys[i], &value), is_there[i]);
            if (is_there[i]) assert_int_equal(value, i);
        }
        assert_false(ipu__map_remove(&map, "no"));
    }
    ipu__map_fini(&map);
}

/* A known collision of 32-bit FNV-1a. */
static void keys_of_equal_hash_are_told_apart(void **state)
{
    (void)state;
    ipu__map map = {0};
    uint32_t value;
    assert_int_equal(ipu__hash_text("costarring"), ipu__hash_text("liquid"));
    assert_true(ipu__map_set(&map, "costarring", 1));
    assert_false(ipu__map_find(&map, "liquid", &value));
    assert_true(ipu__map_set(&map, "liquid", 2));
    assert_true(ipu__map_find(&map, "costarring", &value));
    assert_int_equal(value, 1);
    assert_true(ipu__map_find(&map, "liquid", &value));
    assert_int_equal(value, 2);
    ipu__map_fini(&map);
}

static void the_hash_is_fnv_1a(void **state)
{
    (void)state;
    assert_int_equal(ipu__hash_text(""), 0x811c9dc5u);
    assert_int_equal(ipu__hash_text("a"), 0xe40c292cu);
    assert_int_equal(ipu__hash_text("foobar"), 0xbf9cf968u);
}

static void refusal_leaves_the_map_as_it_was(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
    ipu__map                 map    = {0};
    uint32_t                 value, n = 0;
    ipu__alloc_set(refusing, NULL);
    assert_false(ipu__map_set(&map, "a", 0));
    ipu__alloc_set(NULL, NULL);
    assert_true(ipu__map_set(&map, keys[n++], 0));
    ipu__alloc_set(refusing, NULL);
    while (n < 9 && ipu__map_set(&map, keys[n], n)) n++; /* until it would have to grow */
    ipu__alloc_set(NULL, NULL);
    assert_in_range(n, 1, 8);
    assert_int_equal(map.n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(ipu__map_find(&map, keys[i], &value));
        assert_int_equal(value, i);
    }
    ipu__map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing),
        cmocka_unit_test(every_key_is_found_and_no_other),
        cmocka_unit_test(setting_again_replaces),
        cmocka_unit_test(removed_keys_are_gone_and_all_others_stay),
        cmocka_unit_test(keys_of_equal_hash_are_told_apart),
        cmocka_unit_test(the_hash_is_fnv_1a),
        cmocka_unit_test_teardown(refusal_leaves_the_map_as_it_was, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
