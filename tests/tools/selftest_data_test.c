/* What the self-tests decide by: patterns, comparison, links, arithmetic. Every fault must be seen. */
#include "selftest/data.c"
#include "selftest/links.c"
#include "selftest/memory.c"
#include "selftest/product.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N = 1000 };

/* ---- comparison ---- */

static void equal_words_are_no_errors(void **state)
{
    (void)state;
    uint32_t        sent[N], got[N];
    selftest_errors e = {0};
    selftest_fill(sent, N, 7);
    selftest_fill(got, N, 7);
    assert_int_equal(selftest_compare(sent, got, N, &e), 0);
    assert_int_equal(e.wrong, 0);
    assert_false(e.any);
}

static void every_flipped_bit_is_an_error(void **state)
{
    (void)state;
    uint32_t sent[N], got[N];
    selftest_fill(sent, N, 7);
    selftest_fill(got, N, 7);
    for (size_t i = 0; i < N; i += 37)
        for (int bit = 0; bit < 32; bit++) {
            selftest_errors e = {0};
            got[i] ^= UINT32_C(1) << bit;
            assert_int_equal(selftest_compare(sent, got, N, &e), 1);
            assert_int_equal(e.wrong, 1);
            assert_int_equal(e.at, i);
            assert_int_equal(e.expected, sent[i]);
            assert_int_equal(e.found, sent[i] ^ UINT32_C(1) << bit);
            got[i] = sent[i];
        }
}

static void the_first_error_is_kept_and_all_are_counted(void **state)
{
    (void)state;
    uint32_t        sent[4] = {1, 2, 3, 4}, got[4] = {1, 9, 3, 8};
    selftest_errors e = {0};
    assert_int_equal(selftest_compare(sent, got, 4, &e), 2);
    assert_int_equal(selftest_compare(sent + 3, got + 3, 1, &e), 1);
    assert_int_equal(e.wrong, 3);
    assert_int_equal(e.at, 1);
    assert_int_equal(e.expected, 2);
    assert_int_equal(e.found, 9);
}

static void words_of_other_seeds_differ(void **state)
{
    (void)state;
    uint32_t        sent[N], got[N];
    selftest_errors e = {0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        selftest_fill(sent, N, seed);
        selftest_fill(got, N, seed + 1);
        assert_true(selftest_compare(sent, got, N, &e) > N - 5);
    }
}

static void a_fault_happens_once_and_only_on_request(void **state)
{
    (void)state;
    uint32_t words[9] = {0};
    assert_int_equal(setenv("IPU_SELFTEST_FAULT", "1", 1), 0);
    assert_false(selftest_spoil(words, 0));
    assert_true(selftest_spoil(words, 9));
    assert_int_equal(words[4], 1 << 16);
    assert_false(selftest_spoil(words, 9));
    for (int i = 0; i < 9; i++) assert_int_equal(words[i], i == 4 ? 1 << 16 : 0);
}

/* ---- memory ---- */

static void patterns_hold_and_every_fault_is_found(void **state)
{
    (void)state;
    uint64_t memory[N], found[MEMORY_FINDINGS];
    for (int p = 0; p < MEMORY_PATTERNS; p++) {
        const memory_pattern *pattern = &memory_patterns[p];
        memory_fill(pattern, 1471, memory, N);
        for (size_t i = 0; i < N; i++) assert_int_equal(memory[i], memory_word(pattern, 1471, i));
        memory_check(pattern, 1471, memory, N, found);
        assert_int_equal(found[0], 0);
        for (int bit = 0; bit < 64; bit += 7) {
            const size_t i = 15 * (size_t)bit;
            memory[i] ^= UINT64_C(1) << bit;
            memory_check(pattern, 1471, memory, N, found);
            assert_int_equal(found[0], 1);
            assert_int_equal(found[1], i);
            assert_int_equal(found[2], memory_word(pattern, 1471, i));
            assert_int_equal(found[3], memory[i]);
            memory[i] ^= UINT64_C(1) << bit;
        }
    }
}

/* A line of the address that is stuck makes two words one; so do tiles that share memory. */
static void words_at_each_others_places_are_found(void **state)
{
    (void)state;
    uint64_t memory[N], found[MEMORY_FINDINGS];
    for (int p = MEMORY_PATTERNS - 2; p < MEMORY_PATTERNS; p++) {
        memory_fill(&memory_patterns[p], 3, memory, N);
        uint64_t word = memory[10];
        memory[10]    = memory[11];
        memory[11]    = word;
        memory_check(&memory_patterns[p], 3, memory, N, found);
        assert_int_equal(found[0], 2);
        assert_int_equal(found[1], 10);
        memory_fill(&memory_patterns[p], 4, memory, N);
        memory_check(&memory_patterns[p], 3, memory, N, found);
        assert_int_equal(found[0], N);
    }
}

static void fixed_patterns_are_what_they_are_called(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x00, 0xff, 0x55, 0xaa};
    for (int p = 0; p < 4; p++) {
        uint64_t word;
        memory_fill(&memory_patterns[p], 0, &word, 1);
        for (int i = 0; i < 8; i++) assert_int_equal(word >> 8 * i & 0xff, bytes[p]);
        assert_int_equal(strtol(memory_patterns[p].name, NULL, 16), bytes[p]);
    }
}

/* ---- products ---- */

enum { SIDE = 48 };

static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];

static void make_product(void)
{
    product_fill(a, SIDE, 0);
    product_fill(b, SIDE, 1);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++) {
            float sum = 0;
            for (int j = 0; j < SIDE; j++) sum += a[i * SIDE + j] * b[j * SIDE + k];
            c[i * SIDE + k] = sum;
        }
}

static void a_product_is_right(void **state)
{
    (void)state;
    make_product();
    assert_int_equal(product_wrong_rows(a, b, c, SIDE), 0);
    assert_int_equal(product_wrong_rows(a, b, a, SIDE), SIDE);
}

/* Every bit of every element: the smallest changes a number by less than any sum would show. */
static void every_flipped_bit_makes_a_row_wrong(void **state)
{
    (void)state;
    make_product();
    for (int i = 0; i < SIDE * SIDE; i += 5)
        for (int bit = 0; bit < 32; bit++) {
            float    kept = c[i];
            uint32_t bits;
            memcpy(&bits, &c[i], sizeof bits);
            bits ^= UINT32_C(1) << bit;
            memcpy(&c[i], &bits, sizeof bits);
            assert_int_equal(product_wrong_rows(a, b, c, SIDE), c[i] != kept); /* -0 is 0 */
            c[i] = kept;
        }
}

static void elements_that_changed_places_are_wrong(void **state)
{
    (void)state;
    int swapped = 0;
    make_product();
    for (int i = 0; i + 1 < SIDE; i++) {
        float left = c[i], right = c[i + 1];
        c[i]     = right;
        c[i + 1] = left;
        assert_int_equal(product_wrong_rows(a, b, c, SIDE), left != right);
        swapped += left != right;
        c[i]     = left;
        c[i + 1] = right;
    }
    assert_true(swapped > SIDE / 2);
}

static void what_is_no_number_is_wrong(void **state)
{
    (void)state;
    make_product();
    const float bad[] = {NAN, INFINITY, -INFINITY, 1e30f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c[7] = bad[i];
        assert_int_equal(product_wrong_rows(a, b, c, SIDE), 1);
    }
}

/* ---- links ---- */

static void a_machine_of_four_is_a_ring(void **state)
{
    (void)state;
    static const int64_t expected[][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
    size_t               n;
    selftest_link       *links = selftest_links(4, &n);
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) assert_int_equal(links[i].ipu[k], expected[i][k]);
    free(links);
}

static void links_are_so_many(void **state)
{
    (void)state;
    static const struct {
        int64_t ipus;
        size_t  links; /* n / 2 rungs, n - 2 rails within a domain */
    } table[] = {{1, 0}, {2, 1}, {4, 4}, {16, 22}, {64, 94}, {128, 188}, {256, 376}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t         n;
        selftest_link *links = selftest_links(table[i].ipus, &n);
        assert_int_equal(n, table[i].links);
        assert_non_null(links);
        for (size_t k = 0; k < n; k++) assert_int_equal(links[k].ipu[0] / 64, links[k].ipu[1] / 64);
        free(links);
    }
}

/* ---- arithmetic ---- */

static void gigabits_are_decimal(void **state)
{
    (void)state;
    /* A published figure of gc-iputraffictest: 4096000 KB in 0.0792664 s are 423.3 Gb/s. */
    assert_true(fabs(selftest_gbps(4096000.0 * 1024, 0.0792664) - 423.3) < 0.05);
    assert_true(selftest_gbps(1e9, 0) == 0);
}

static void quantiles_are_values(void **state)
{
    (void)state;
    double v[100];
    for (int i = 0; i < 100; i++) v[i] = (i * 37 + 11) % 100 + 1;
    assert_true(selftest_quantile(v, 100, 0.5) == 50);
    assert_true(selftest_quantile(v, 100, 0.99) == 99);
    assert_true(selftest_quantile(v, 100, 1) == 100);
    assert_true(selftest_quantile(v, 100, 0) == 1);
    assert_true(selftest_quantile(v, 1, 0.99) == 1);
    assert_true(isnan(selftest_quantile(v, 0, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_words_are_no_errors),
        cmocka_unit_test(every_flipped_bit_is_an_error),
        cmocka_unit_test(the_first_error_is_kept_and_all_are_counted),
        cmocka_unit_test(words_of_other_seeds_differ),
        cmocka_unit_test(a_fault_happens_once_and_only_on_request),
        cmocka_unit_test(patterns_hold_and_every_fault_is_found),
        cmocka_unit_test(words_at_each_others_places_are_found),
        cmocka_unit_test(fixed_patterns_are_what_they_are_called),
        cmocka_unit_test(a_product_is_right),
        cmocka_unit_test(every_flipped_bit_makes_a_row_wrong),
        cmocka_unit_test(elements_that_changed_places_are_wrong),
        cmocka_unit_test(what_is_no_number_is_wrong),
        cmocka_unit_test(a_machine_of_four_is_a_ring),
        cmocka_unit_test(links_are_so_many),
        cmocka_unit_test(gigabits_are_decimal),
        cmocka_unit_test(quantiles_are_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
