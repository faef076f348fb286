/* Wire format: what protobuf-c may be given, and what it must not be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "onnx.pb-c.h"
#include "onnx/make_test.h"
#include "onnx/wire.h"

static ipu_status check(bytes b) { return ipu__wire_check(&ipu__model_proto__descriptor, b.at, b.n); }

static void expect_refused(bytes b, const char *because)
{
    assert_int_equal(check(b), IPU_INVALID);
    if (!strstr(ipu_message(), because)) fail_msg("expected \"%s\", found: %s", because, ipu_message());
}

static bytes small_model(void)
{
    return model(13,
                 graph("in x float[2,N]; const k int64[2] 3 -4; out y; y = Reshape(x, k) allowzero=1", NULL),
                 none);
}

static void what_is_well_formed_passes(void **state)
{
    (void)state;
    assert_int_equal(check(small_model()), IPU_OK);
    assert_int_equal(check(none), IPU_OK);
    /* Fields that nobody knows, of all kinds. */
    bytes extra = JOIN(number(1000, -1), block(1001, raw("abc", 3)), real(1002, 1),
                       join(varint(1003 << 3 | 1), raw("12345678", 8)));
    assert_int_equal(check(extra), IPU_OK);
}

static void a_message_cut_anywhere_is_refused_or_unpacks(void **state)
{
    (void)state;
    bytes  all     = small_model();
    size_t refused = 0;
    for (size_t n = 0; n < all.n; n++) {
        unsigned char *own = ipu__alloc(n + 1); /* of that size, so that reading on is noticed */
        memcpy(own, all.at, n);
        bytes cut = {own, n};
        if (check(cut) == IPU_OK) {
            Ipu__ModelProto *m = ipu__model_proto__unpack(NULL, n, own);
            assert_non_null(m);
            ipu__model_proto__free_unpacked(m, NULL);
        } else
            refused++;
        ipu__free(own);
    }
    assert_true(refused > all.n - 8); /* all but those that end between fields of the file itself */
}

static void gigabytes_claimed_by_a_few_bytes_are_refused(void **state)
{
    (void)state;
    expect_refused(join(varint(2 << 3 | 2), varint((uint64_t)1 << 30)), "longer than what holds it");
    expect_refused(join(varint(2 << 3 | 2), varint(UINT64_MAX)), "longer than what holds it");
    /* Longer than the message it is in, though not than the file. */
    bytes inner = join(varint(2 << 3 | 2), varint(20));
    expect_refused(join(block(7, inner), text(2, "0123456789012345678901234567890")),
                   "longer than what holds it");
    bytes any = small_model();
    assert_int_equal(ipu__wire_check(&ipu__model_proto__descriptor, any.at, (size_t)INT32_MAX + 1),
                     IPU_INVALID);
}

static void numbers_without_end_and_kinds_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    expect_refused(raw("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13), "a number without end");
    expect_refused(raw("\x08", 1), "a number without end");
    expect_refused(raw("\x0d\x01\x02", 3), "ends within a number");
    expect_refused(raw("\x00\x01", 2), "a tag that is none");
    for (int kind = 3; kind <= 7; kind++)
        if (kind != 5)
            expect_refused(join(varint((uint64_t)(1 << 3 | kind)), varint(0)), "kind that does not exist");
}

/* A graph in an attribute of a node in a graph in ... */
static bytes nested(int depth)
{
    bytes g = none;
    for (int i = 0; i < depth; i++) g = block(1, block(5, block(6, g)));
    return block(7, g);
}

static void deep_nesting_is_refused_before_anything_recurses(void **state)
{
    (void)state;
    assert_int_equal(check(nested(30)), IPU_OK);
    expect_refused(nested(40), "nested more than");
    /* 0.9 MB of it, made backwards: lengths of what is within come first. */
    size_t         bytes_of = 900000, at = bytes_of;
    unsigned char *data = ipu__arena_alloc(&pool, bytes_of);
    for (int i = 0; at > 40; i++) {
        bytes length = varint(bytes_of - at);
        at -= length.n;
        memcpy(data + at, length.at, length.n);
        data[--at] = i % 3 == 0 ? 6 << 3 | 2 : i % 3 == 1 ? 5 << 3 | 2 : 1 << 3 | 2;
    }
    expect_refused(block(7, (bytes){data + at, bytes_of - at}), "nested more than");
}

static void a_file_that_would_grow_without_bound_is_refused(void **state)
{
    (void)state;
    /* Empty nodes: two bytes each, a structure of some hundred. */
    size_t         n    = 4 << 20;
    unsigned char *data = ipu__arena_alloc(&pool, n);
    for (size_t i = 0; i < n; i += 2) {
        data[i]     = 1 << 3 | 2;
        data[i + 1] = 0;
    }
    expect_refused(block(7, (bytes){data, n}), "too much for its size");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_well_formed_passes),
        cmocka_unit_test(a_message_cut_anywhere_is_refused_or_unpacks),
        cmocka_unit_test(gigabytes_claimed_by_a_few_bytes_are_refused),
        cmocka_unit_test(numbers_without_end_and_kinds_that_do_not_exist_are_refused),
        cmocka_unit_test(deep_nesting_is_refused_before_anything_recurses),
        cmocka_unit_test(a_file_that_would_grow_without_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}
