/* Data-dependent outputs by hand: order, counts, zeros after them, NaN, and what is refused. */
#include <math.h>

#include "op/graph_test.h"
#include "op/run_bench.h"

static void places_come_in_order_and_zeros_after_them(void **unused)
{
    (void)unused;
    const float   x[]        = {1, -0.0f, NAN, 0, 0, 2};
    const int64_t expected[] = {0, 0, 1, 0, 0, 0, 0, 2, 2, 0, 0, 0};
    bench         t          = bench_start();
    ipu_value     count, at = ipu_nonzero(t.b, bench_floats(&t, IPU_SHAPE(2, 3), x), &count);
    int           r = bench_result(&t, count);
    int64_t       n;
    bench_expect(&t, at, IPU_SHAPE(2, 6), expected);
    bench_read(&t, r, &n, sizeof n);
    assert_int_equal(n, 3);
    bench_end(&t);
}

static void a_scalar_has_no_coordinates_but_counts(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value count, at = ipu_nonzero(t.b, bench_floats(&t, IPU_SCALAR, (float[]){5}), &count);
    assert_int_equal(ipu_value_dim(at, 0), 0);
    bench_expect(&t, count, IPU_SCALAR, (int64_t[]){1});
    bench_end(&t);
}

/* Longer than a block, on two threads. */
static void parts_agree_on_where_theirs_go(void **unused)
{
    (void)unused;
    enum { N = 60000 };
    static int32_t x[N];
    static int64_t expected[N];
    int64_t        n = 0;
    for (int i = 0; i < N; i++)
        if ((x[i] = i * 7919 % 13 == 0)) expected[n++] = i;
    bench     t = bench_start();
    ipu_value count, at = ipu_nonzero(t.b, bench_ints(&t, IPU_SHAPE(N), x), &count);
    bench_expect(&t, at, IPU_SHAPE(1, N), expected);
    bench_end(&t);
}

static void slices_are_kept_where_the_condition_holds(void **unused)
{
    (void)unused;
    const float x[] = {1, 2, 3, 4, 5, 6};
    const bool  c[] = {false, true, true, false, true};
    static const struct {
        int     axis; /* 9: flat */
        int64_t n, shape[2];
        float   y[6];
    } cases[] = {{0, 3, {3, 2}, {3, 4, 5, 6, 0, 0}},
                 {-1, 2, {3, 2}, {2, 0, 4, 0, 6, 0}},
                 {9, 5, {5, 0}, {2, 3, 5, 0, 0}}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        bench     t = bench_start();
        ipu_value count, v = bench_floats(&t, IPU_SHAPE(3, 2), x);
        ipu_value condition = bench_input(&t, IPU_BOOL, IPU_SHAPE(cases[i].n), c);
        bool      flat      = cases[i].axis == 9;
        ipu_value y         = flat ? ipu_compress_flat(t.b, v, condition, &count)
                                   : ipu_compress(t.b, v, condition, cases[i].axis, &count);
        bench_expect(&t, y, (ipu_shape){flat ? 1 : 2, {cases[i].shape[0], cases[i].shape[1]}}, cases[i].y);
        bench_end(&t);
    }
}

static ipu_value kept(ipu_builder *b, ipu_value x)
{
    ipu_value count, c = ipu_constant_data(b, IPU_BOOL, IPU_SHAPE(3), (bool[]){false, true, true});
    ipu_value y = ipu_compress(b, x, c, 0, &count);
    ipu_value w = ipu_constant_data(b, IPU_FLOAT, IPU_SHAPE(3), (float[]){2, 3, 4});
    return ipu_reduce_sum(b, ipu_mul(b, y, w), NULL, 0, false);
}

static void only_what_is_kept_has_a_gradient(void **unused)
{
    (void)unused;
    graph_gradient(kept, IPU_SHAPE(3), (double[]){5, 6, 7}, (double[]){0, 2, 3});
}

/* All five outputs of ONNX's example, in both orders, with one zero to spare. */
static void uniques_are_sorted_or_in_the_order_they_are_found(void **unused)
{
    (void)unused;
    const float x[] = {2, 1, 1, 3, 4, 3};
    static const struct {
        float   values[6];
        int64_t indices[6], inverse[6], counts[6];
    } cases[] = {{{2, 1, 3, 4}, {0, 1, 3, 4}, {0, 1, 1, 2, 3, 2}, {1, 2, 2, 1}},
                 {{1, 2, 3, 4}, {1, 0, 3, 4}, {1, 0, 0, 2, 3, 2}, {2, 1, 2, 1}}};
    for (int sorted = 0; sorted < 2; sorted++) {
        bench       t   = bench_start();
        ipu_uniques u   = ipu_unique(t.b, bench_floats(&t, IPU_SHAPE(2, 3), x), sorted != 0);
        ipu_value   v[] = {u.indices, u.inverse, u.counts, u.count};
        int         r[4];
        int64_t     found[6];
        for (int i = 0; i < 4; i++) r[i] = bench_result(&t, v[i]);
        bench_expect(&t, u.values, IPU_SHAPE(6), cases[sorted].values);
        bench_read(&t, r[0], found, sizeof found);
        assert_memory_equal(found, cases[sorted].indices, sizeof found);
        bench_read(&t, r[1], found, sizeof found);
        assert_memory_equal(found, cases[sorted].inverse, sizeof found);
        bench_read(&t, r[2], found, sizeof found);
        assert_memory_equal(found, cases[sorted].counts, sizeof found);
        bench_read(&t, r[3], found, sizeof *found);
        assert_int_equal(found[0], 4);
        bench_end(&t);
    }
}

static void slices_of_an_axis_are_compared_as_a_whole(void **unused)
{
    (void)unused;
    const float x[] = {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1},
                y[] = {0, 1, 1, 1, 2, 1, 0, 0, 0, 1, 1, 1, 2, 1, 0, 0};
    bench       t   = bench_start();
    ipu_uniques u   = ipu_unique_slices(t.b, bench_floats(&t, IPU_SHAPE(2, 4, 2), x), 1, true);
    int         r   = bench_result(&t, u.inverse);
    int64_t     inverse[4];
    bench_expect(&t, u.values, IPU_SHAPE(2, 4, 2), y);
    bench_read(&t, r, inverse, sizeof inverse);
    assert_memory_equal(inverse, ((int64_t[]){1, 0, 2, 0}), sizeof inverse);
    bench_end(&t);
}

static void nans_are_one_and_both_zeros_are(void **unused)
{
    (void)unused;
    const float x[] = {NAN, 0, -0.0f, NAN, -1};
    bench       t   = bench_start();
    ipu_uniques u   = ipu_unique(t.b, bench_floats(&t, IPU_SHAPE(5), x), true);
    bench_expect(&t, u.counts, IPU_SHAPE(5), (int64_t[]){1, 2, 2, 0, 0});
    bench_end(&t);
}

/* Weights are of n-grams, in the order of the pool: 2, 3, 5, 4 and (5,6), (7,8), (6,7). */
static void ngrams_are_counted_with_gaps_and_weighed(void **unused)
{
    (void)unused;
    const int64_t pool[] = {2, 3, 5, 4, 5, 6, 7, 8, 6, 7}, begin[] = {0, 4}, index[] = {0, 1, 2, 3, 4, 5, 6};
    const int32_t x[]       = {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8};
    const float   weights[] = {1, 10, 100, 1000, 2, 3, 4};
    ipu_tf_idf_options o    = {.mode            = "TF",
                               .min_gram_length = 1,
                               .max_gram_length = 2,
                               .max_skip_count  = 5,
                               .pool            = pool,
                               .n_pool          = 10,
                               .ngram_counts    = begin,
                               .n_ngram_counts  = 2,
                               .ngram_indexes   = index,
                               .n_ngram_indexes = 7};
    static const struct {
        const char *mode;
        float       y[7];
    } cases[] = {{"TF", {0, 3, 1, 0, 1, 3, 1}},
                 {"IDF", {0, 10, 100, 0, 2, 3, 4}},
                 {"TFIDF", {0, 30, 100, 0, 2, 9, 4}}};
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        bench t = bench_start();
        o.mode  = cases[i].mode;
        bench_expect(
            &t, ipu_tf_idf(t.b, bench_ints(&t, IPU_SHAPE(12), x), bench_floats(&t, IPU_SHAPE(7), weights), o),
            IPU_SHAPE(7), cases[i].y);
        bench_end(&t);
    }
}

static void what_makes_no_sense_is_refused(void **unused)
{
    (void)unused;
    bench     t = bench_start();
    ipu_value count;
    ipu_compress(t.b, bench_floats(&t, IPU_SHAPE(2), ((float[2]){0})),
                 bench_input(&t, IPU_BOOL, IPU_SHAPE(3), ((bool[3]){0})), 0, &count);
    bench_refused(&t, "\"condition\" has 3 elements: expected at most 2");
    ipu_unique_slices(t.b, bench_floats(&t, IPU_SHAPE(2), ((float[2]){0})), 1, true);
    bench_refused(&t, "axis = 1 is out of range");
    ipu_tf_idf(t.b, bench_ints(&t, IPU_SHAPE(2), ((int32_t[2]){0})), IPU_NO_VALUE,
               (ipu_tf_idf_options){.mode            = "TF",
                                    .max_gram_length = 2,
                                    .pool            = (int64_t[]){1, 2, 3},
                                    .n_pool          = 3,
                                    .ngram_counts    = (int64_t[]){0, 2},
                                    .n_ngram_counts  = 2,
                                    .ngram_indexes   = (int64_t[]){0, 1, 2},
                                    .n_ngram_indexes = 3});
    bench_refused(&t, "n-grams of 2 numbers lie from 2 to 3");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_come_in_order_and_zeros_after_them),
        cmocka_unit_test(a_scalar_has_no_coordinates_but_counts),
        cmocka_unit_test(parts_agree_on_where_theirs_go),
        cmocka_unit_test(slices_are_kept_where_the_condition_holds),
        cmocka_unit_test(only_what_is_kept_has_a_gradient),
        cmocka_unit_test(uniques_are_sorted_or_in_the_order_they_are_found),
        cmocka_unit_test(slices_of_an_axis_are_compared_as_a_whole),
        cmocka_unit_test(nans_are_one_and_both_zeros_are),
        cmocka_unit_test(ngrams_are_counted_with_gaps_and_weighed),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
