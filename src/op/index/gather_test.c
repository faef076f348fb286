/* Gathers and scatters: elements by hand, indices out of range, bits that do not depend on threads. */
#include "op/run_bench.h"

static const float *count(void)
{
    static float data[4096];
    for (int i = 0; i < 4096; i++) data[i] = (float)i;
    return data;
}

#define FLOATS(...) bench_floats(&t, IPU_SHAPE(__VA_ARGS__), count())
#define INTS(n, ...) bench_ints(&t, IPU_SHAPE(n), ((int32_t[]){__VA_ARGS__}))

static void rows_and_columns_are_picked(void **unused)
{
    (void)unused;
    bench t = bench_start();
    bench_expect(&t, ipu_gather(t.b, FLOATS(3, 2), INTS(4, 2, 0, -1, -3), 0), IPU_SHAPE(4, 2),
                 (float[]){4, 5, 0, 1, 4, 5, 0, 1});
    bench_end(&t);
    t                 = bench_start();
    ipu_value indices = bench_input(&t, IPU_INT64, IPU_SHAPE(2, 1), (int64_t[]){1, 0});
    bench_expect(&t, ipu_gather(t.b, FLOATS(2, 3), indices, 1), IPU_SHAPE(2, 2, 1), (float[]){1, 0, 4, 3});
    bench_end(&t);
    t       = bench_start();
    indices = bench_input(&t, IPU_UINT32, IPU_SCALAR, (uint32_t[]){1});
    bench_expect(&t, ipu_embedding(t.b, FLOATS(2, 3), indices, IPU_NO_PADDING), IPU_SHAPE(3),
                 (float[]){3, 4, 5});
    bench_end(&t);
}

static void every_size_of_element_is_copied(void **unused)
{
    (void)unused;
    static const uint8_t  data[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                      13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    static const ipu_type types[]  = {IPU_BOOL, IPU_UINT8, IPU_HALF, IPU_INT32, IPU_DOUBLE};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int elements = 0; elements < 2; elements++) {
            size_t  unit = ipu_type_size(types[i]);
            uint8_t expected[32];
            uint8_t ones[64];
            bench   t = bench_start();
            for (int k = 0; k < 64; k++) ones[k] = types[i] == IPU_BOOL ? data[k] & 1 : data[k];
            memcpy(expected, ones + 2 * unit, unit);
            memcpy(expected + unit, ones, unit);
            ipu_value x = bench_input(&t, types[i], IPU_SHAPE(3), ones);
            ipu_value y = elements ? ipu_gather_elements(t.b, x, INTS(2, 2, 0), 0)
                                   : ipu_gather(t.b, x, INTS(2, 2, 0), 0);
            bench_expect(&t, y, IPU_SHAPE(2), expected);
            bench_end(&t);
        }
}

static void elements_are_picked_one_by_one(void **unused)
{
    (void)unused;
    bench     t       = bench_start();
    ipu_value indices = bench_ints(&t, IPU_SHAPE(2, 2), ((int32_t[]){2, 0, -1, 1}));
    bench_expect(&t, ipu_gather_elements(t.b, FLOATS(2, 3), indices, 1), IPU_SHAPE(2, 2),
                 (float[]){2, 0, 5, 4});
    bench_end(&t);
    t       = bench_start();
    indices = bench_ints(&t, IPU_SHAPE(1, 2), ((int32_t[]){1, 0})); /* fewer columns than x has */
    bench_expect(&t, ipu_gather_elements(t.b, FLOATS(2, 3), indices, 0), IPU_SHAPE(1, 2), (float[]){3, 1});
    bench_end(&t);
    t       = bench_start();
    indices = bench_ints(&t, IPU_SHAPE(2, 2), ((int32_t[]){1, 0, 0, -1}));
    bench_expect(&t, ipu_gather_nd(t.b, FLOATS(2, 2, 2), indices), IPU_SHAPE(2, 2), (float[]){4, 5, 2, 3});
    bench_end(&t);
}

static void scatters_set_the_last_and_add_all(void **unused)
{
    (void)unused;
    const ipu_scatter hows[]        = {IPU_SCATTER_SET, IPU_SCATTER_ADD};
    const float       expected[][4] = {{0, 30, 2, 20}, {0, 41, 2, 23}};
    for (int i = 0; i < 2; i++)
        for (int nd = 0; nd < 2; nd++) {
            bench         t         = bench_start();
            const int32_t where[]   = {1, 3, -3};
            const float   updates[] = {10, 20, 30};
            ipu_value     x = FLOATS(4), y = bench_floats(&t, IPU_SHAPE(3), updates);
            ipu_value out = nd ? ipu_scatter_nd(t.b, x, bench_ints(&t, IPU_SHAPE(3, 1), where), y, hows[i])
                               : ipu_scatter_elements(t.b, x, bench_ints(&t, IPU_SHAPE(3), where), y, 0,
                                                      hows[i]);
            bench_expect(&t, out, IPU_SHAPE(4), expected[i]);
            bench_end(&t);
        }
}

static void sums_of_halves_are_rounded_once(void **unused)
{
    (void)unused;
    /* 2048 + 1 is 2048 in half, one by one for ever; the sum of all is not. */
    enum { N = 64 };
    ipu_half updates[N], x[1] = {ipu_half_from_float(2048)}, expected[1] = {ipu_half_from_float(2048 + N)};
    int32_t  indices[N] = {0};
    for (int i = 0; i < N; i++) updates[i] = ipu_half_from_float(1);
    for (int nd = 0; nd < 2; nd++) {
        bench     t   = bench_start();
        ipu_value vx  = bench_input(&t, IPU_HALF, IPU_SHAPE(1), x),
                  y   = bench_input(&t, IPU_HALF, IPU_SHAPE(N), updates);
        ipu_value out = nd ? ipu_scatter_nd(t.b, vx, bench_ints(&t, IPU_SHAPE(N, 1), indices), y,
                                            IPU_SCATTER_ADD)
                           : ipu_scatter_elements(t.b, vx, bench_ints(&t, IPU_SHAPE(N), indices), y, 0,
                                                  IPU_SCATTER_ADD);
        bench_expect(&t, out, IPU_SHAPE(1), expected);
        bench_end(&t);
    }
}

static void padding_gets_no_gradient(void **unused)
{
    (void)unused;
    bench         t            = bench_start();
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("extent", 3), IPU_INT_ATTRIBUTE("padding", -1)};
    ipu_value     in[]         = {FLOATS(4, 2), INTS(4, 0, 2, 1, 0)};
    bench_expect(&t, ipu__emit1(t.b, "gather_grad", attributes, 2, in, 2), IPU_SHAPE(3, 2),
                 (float[]){6, 8, 4, 5, 0, 0});
    bench_end(&t);
}

static void one_is_hot(void **unused)
{
    (void)unused;
    bench t = bench_start();
    bench_expect(&t, ipu_one_hot(t.b, INTS(3, 1, -1, 7), 3, IPU_FLOAT), IPU_SHAPE(3, 3),
                 (float[]){0, 1, 0, 0, 0, 1, 0, 0, 0});
    bench_end(&t);
    t = bench_start();
    bench_expect(&t, ipu_one_hot_with(t.b, INTS(2, 1, 0), 3, IPU_INT32, 0, 5, -1), IPU_SHAPE(3, 2),
                 (int32_t[]){-1, 5, 5, -1, -1, -1});
    bench_end(&t);
}

static void starts_are_moved_into_range(void **unused)
{
    (void)unused;
    static const struct {
        int32_t start;
        float   taken[2], updated[5];
    } cases[] = {{1, {1, 2}, {0, 0, 1, 3, 4}}, {-7, {0, 1}, {0, 1, 2, 3, 4}}, {9, {3, 4}, {0, 1, 2, 0, 1}}};
    for (size_t i = 0; i < 3; i++) {
        bench t = bench_start();
        bench_expect(&t, ipu_dynamic_slice(t.b, FLOATS(5), bench_ints(&t, IPU_SCALAR, &cases[i].start), 2, 0),
                     IPU_SHAPE(2), cases[i].taken);
        bench_end(&t);
        t = bench_start();
        bench_expect(&t,
                     ipu_dynamic_update_slice(t.b, FLOATS(5), FLOATS(2),
                                              bench_ints(&t, IPU_SCALAR, &cases[i].start), 0),
                     IPU_SHAPE(5), cases[i].updated);
        bench_end(&t);
    }
}

/* ---- out of range ---- */

static void expect_stop(bench *t, ipu_value v, const char *text)
{
    bench_result(t, v);
    for (int check = 0; check < 2; check++) {
        ipu_executable *exe = NULL;
        ipu_options    *options;
        ipu_engine     *e;
        bench_ok(ipu_options_create(&options));
        if (check) bench_ok(ipu_options_set(options, "check", "true"));
        bench_ok(ipu_executable_compile(t->g, &t->p, 1, options, &exe));
        bench_ok(ipu_engine_create(exe, options, &e));
        assert_int_equal(ipu_engine_run(e, 0), IPU_ABORTED);
        if (!strstr(ipu_message(), text)) fail_msg("expected \"%s\" in: %s", text, ipu_message());
        ipu_engine_destroy(e);
        ipu_executable_release(exe);
        ipu_options_destroy(options);
    }
    bench_end(t);
}

static void indices_out_of_range_stop_the_run(void **unused)
{
    (void)unused;
    bench t = bench_start();
    expect_stop(&t, ipu_gather(t.b, FLOATS(3, 2), INTS(3, 0, 2, 3), 0),
                "\"gather\": index 3 at position 2 is out of range: expected -3 to 2");
    t = bench_start();
    expect_stop(&t, ipu_gather(t.b, FLOATS(3, 0), INTS(1, -4), 0), "index -4 at position 0");
    t = bench_start();
    expect_stop(&t, ipu_gather_elements(t.b, FLOATS(3), INTS(2, 0, -4), 0), "index -4 at position 1");
    t = bench_start();
    expect_stop(&t, ipu_gather_nd(t.b, FLOATS(3, 2), bench_ints(&t, IPU_SHAPE(1, 2), ((int32_t[]){0, 2}))),
                "index 2 at position 1 is out of range: expected -2 to 1");
    t = bench_start();
    expect_stop(&t, ipu_scatter_elements(t.b, FLOATS(3), INTS(1, 3), FLOATS(1), 0, IPU_SCATTER_ADD),
                "\"scatter_elements\": index 3");
    t = bench_start();
    expect_stop(&t,
                ipu_scatter_nd(t.b, FLOATS(3), bench_ints(&t, IPU_SHAPE(1, 1), ((int32_t[]){5})), FLOATS(1),
                               IPU_SCATTER_SET),
                "\"scatter_nd\": index 5");
}

static void shapes_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    bench t = bench_start();
    ipu_gather(t.b, FLOATS(3, 2), FLOATS(2), 0);
    bench_refused(&t, "must be int32, int64 or uint32");
    ipu_gather(t.b, FLOATS(3, 2), INTS(1, 0), 2);
    bench_refused(&t, "axis = 2");
    ipu_gather_elements(t.b, FLOATS(3, 2), INTS(1, 0), 0);
    bench_refused(&t, "must have the rank of x");
    ipu_gather_nd(t.b, FLOATS(3), bench_ints(&t, IPU_SHAPE(1, 2), count()));
    bench_refused(&t, "last dimension of 1 to 1");
    ipu_scatter_nd(t.b, FLOATS(3), bench_ints(&t, IPU_SHAPE(2, 1), count()), FLOATS(3), IPU_SCATTER_SET);
    bench_refused(&t, "\"updates\" must have shape [2]");
    ipu_dynamic_slice(t.b, FLOATS(3), INTS(1, 0), 4, 0);
    bench_refused(&t, "size = 4: expected 0 to 3");
    ipu_dynamic_update_slice(t.b, FLOATS(3), FLOATS(2), INTS(2, 0, 1), 0);
    bench_refused(&t, "one element");
    ipu_one_hot_with(t.b, INTS(1, 0), 3, IPU_UINT8, -1, -1, 0);
    bench_refused(&t, "uint8 cannot hold on = -1");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_columns_are_picked),
        cmocka_unit_test(every_size_of_element_is_copied),
        cmocka_unit_test(elements_are_picked_one_by_one),
        cmocka_unit_test(scatters_set_the_last_and_add_all),
        cmocka_unit_test(sums_of_halves_are_rounded_once),
        cmocka_unit_test(padding_gets_no_gradient),
        cmocka_unit_test(one_is_hot),
        cmocka_unit_test(starts_are_moved_into_range),
        cmocka_unit_test(indices_out_of_range_stop_the_run),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
