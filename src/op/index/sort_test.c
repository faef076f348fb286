/* Sorting and running sums by hand: ties, NaN, zeros, and what is refused. */
#include <math.h>
#include <sys/resource.h>

#include "op/op.h"
#include "op/run_bench.h"

static void equal_elements_keep_their_order(void **unused)
{
    (void)unused;
    const float   x[]            = {2, 1, 2, 1, 3};
    const int32_t expected[2][5] = {{1, 3, 0, 2, 4}, {4, 0, 2, 1, 3}};
    for (int descending = 0; descending < 2; descending++) {
        bench t = bench_start();
        bench_expect(&t, ipu_argsort(t.b, bench_floats(&t, IPU_SHAPE(5), x), 0, descending != 0),
                     IPU_SHAPE(5), expected[descending]);
        bench_end(&t);
    }
}

static void nan_is_the_largest_and_both_zeros_are_equal(void **unused)
{
    (void)unused;
    const float   x[]        = {0, NAN, -INFINITY, -0.0f, INFINITY, -1};
    const int32_t expected[] = {2, 5, 0, 3, 4, 1}, first[] = {1, 4};
    bench         t = bench_start();
    bench_expect(&t, ipu_argsort(t.b, bench_floats(&t, IPU_SHAPE(6), x), 0, false), IPU_SHAPE(6), expected);
    bench_end(&t);
    t = bench_start();
    ipu_value indices;
    ipu_topk(t.b, bench_floats(&t, IPU_SHAPE(6), x), 2, 0, true, &indices);
    bench_expect(&t, indices, IPU_SHAPE(2), first);
    bench_end(&t);
}

/* Long enough for radix; numbers of both signs that differ in every byte. */
static void long_lanes_come_out_in_order(void **unused)
{
    (void)unused;
    enum { N = 500, COLUMNS = 3 };
    static int64_t data[N * COLUMNS], found[N * COLUMNS];
    uint64_t       z = 7;
    for (int i = 0; i < N * COLUMNS; i++) {
        z       = z * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = (int64_t)(z ^ z >> 31) >> (i % 60);
    }
    bench     t = bench_start();
    ipu_value x = bench_input(&t, IPU_INT64, IPU_SHAPE(N, COLUMNS), data);
    int       r = bench_result(&t, ipu_sort(t.b, x, 0, false, NULL));
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, r, found, sizeof found);
    for (int c = 0; c < COLUMNS; c++) {
        uint64_t before = 0, after = 0;
        for (int i = 0; i < N; i++) {
            before += (uint64_t)data[i * COLUMNS + c];
            after += (uint64_t)found[i * COLUMNS + c];
            if (i > 0) assert_true(found[(i - 1) * COLUMNS + c] <= found[i * COLUMNS + c]);
        }
        assert_true(before == after);
    }
    bench_end(&t);
}

/* Comparing each with each would take minutes. */
static void the_reference_sorts_long_lanes(void **unused)
{
    (void)unused;
    enum { N = 1 << 19 };
    static int32_t   x[N], values[N], indices[N];
    void            *operand[] = {x, values, indices};
    ipu__kernel_call call      = {
             .def        = &ipu__op_sort.kernel,
             .n_operands = 3,
             .operand    = {{IPU_INT32, IPU_SHAPE(N)}, {IPU_INT32, IPU_SHAPE(N)}, {IPU_INT32, IPU_SHAPE(N)}}};
    for (int i = 0; i < N; i++) x[i] = (int32_t)(((uint32_t)i * 2654435761u) >> 13) - 1000;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    call.def->ref(&call, operand);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_utime.tv_sec - before.ru_utime.tv_sec < 60);
    for (int i = 0; i < N; i++) {
        assert_int_equal(values[i], x[indices[i]]);
        if (i == 0) continue;
        if (values[i] < values[i - 1] || (values[i] == values[i - 1] && indices[i] < indices[i - 1]))
            fail_msg("%d of %d follows %d of %d", values[i], indices[i], values[i - 1], indices[i - 1]);
    }
    assert_true(ipu__kernel_ref_work(&call) < 1e9);
}

static void a_short_list_gives_what_sorting_gives(void **unused)
{
    (void)unused;
    enum { N = 300 };
    float data[N];
    for (int i = 0; i < N; i++) data[i] = (float)(i * 7919 % 101) - 50; /* ties */
    for (int64_t k = 1; k <= 100; k = k * 2 + 1) {
        bench     t = bench_start();
        ipu_value x = bench_floats(&t, IPU_SHAPE(N), data), indices;
        ipu_topk(t.b, x, k, 0, false, &indices);
        ipu_value all = ipu_argsort(t.b, x, 0, false);
        int       r = bench_result(&t, indices), s = bench_result(&t, all);
        int32_t   a[N], b[N];
        bench_ok(bench_run(&t, "1"));
        bench_read(&t, r, a, (size_t)k * sizeof *a);
        bench_read(&t, s, b, sizeof b);
        assert_memory_equal(a, b, (size_t)k * sizeof *a);
        bench_end(&t);
    }
}

static void running_sums_go_both_ways(void **unused)
{
    (void)unused;
    static const struct {
        bool  exclusive, reverse;
        float sum[3], product[3];
    } cases[]       = {{false, false, {2, 5, 9}, {2, 6, 24}},
                       {true, false, {0, 2, 5}, {1, 2, 6}},
                       {false, true, {9, 7, 4}, {24, 12, 4}},
                       {true, true, {7, 4, 0}, {12, 4, 1}}};
    const float x[] = {2, 3, 4};
    for (size_t i = 0; i < 4; i++)
        for (int product = 0; product < 2; product++) {
            bench     t = bench_start();
            ipu_value v = bench_floats(&t, IPU_SHAPE(3), x);
            v           = product ? ipu_cumprod_with(t.b, v, 0, cases[i].exclusive, cases[i].reverse)
                                  : ipu_cumsum_with(t.b, v, 0, cases[i].exclusive, cases[i].reverse);
            bench_expect(&t, v, IPU_SHAPE(3), product ? cases[i].product : cases[i].sum);
            bench_end(&t);
        }
}

static void integers_wrap_and_halves_round_once(void **unused)
{
    (void)unused;
    bench t = bench_start();
    bench_expect(&t, ipu_cumsum(t.b, bench_ints(&t, IPU_SHAPE(2), ((int32_t[]){INT32_MAX, 1})), 0),
                 IPU_SHAPE(2), (int32_t[]){INT32_MAX, INT32_MIN});
    bench_end(&t);
    ipu_half x[] = {ipu_half_from_float(2048), ipu_half_from_float(1), ipu_half_from_float(1)};
    ipu_half y[] = {ipu_half_from_float(2048), ipu_half_from_float(2048), ipu_half_from_float(2050)};
    t            = bench_start();
    bench_expect(&t, ipu_cumsum(t.b, bench_input(&t, IPU_HALF, IPU_SHAPE(3), x), 0), IPU_SHAPE(3), y);
    bench_end(&t);
}

/* d/dx of x0, x0 x1, x0 x1 x2 with weights 1, 10, 100 where x is 2, 0, 3. */
static void products_have_gradients_at_zeros(void **unused)
{
    (void)unused;
    bench     t    = bench_start();
    ipu_value in[] = {bench_floats(&t, IPU_SHAPE(3), ((float[]){2, 0, 3})),
                      bench_floats(&t, IPU_SHAPE(3), ((float[]){1, 10, 100}))};
    bench_expect(&t, ipu__emit1(t.b, "cumprod_grad", NULL, 0, in, 2), IPU_SHAPE(3), (float[]){1, 620, 0});
    bench_end(&t);
}

static void what_cannot_be_is_refused(void **unused)
{
    (void)unused;
    bench t = bench_start();
    ipu_topk(t.b, bench_floats(&t, IPU_SHAPE(3), ((float[3]){0})), 4, 0, true, NULL);
    bench_refused(&t, "k = 4: expected 0 to 3");
    ipu_sort(t.b, bench_floats(&t, IPU_SCALAR, ((float[1]){0})), 0, true, NULL);
    bench_refused(&t, "out of range for rank 0");
    ipu_cumsum(t.b, bench_input(&t, IPU_BOOL, IPU_SHAPE(3), ((bool[3]){0})), 0);
    bench_refused(&t, "must be of a floating or an integer type, found bool[3]");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_elements_keep_their_order),
        cmocka_unit_test(nan_is_the_largest_and_both_zeros_are_equal),
        cmocka_unit_test(long_lanes_come_out_in_order),
        cmocka_unit_test(the_reference_sorts_long_lanes),
        cmocka_unit_test(a_short_list_gives_what_sorting_gives),
        cmocka_unit_test(running_sums_go_both_ways),
        cmocka_unit_test(integers_wrap_and_halves_round_once),
        cmocka_unit_test(products_have_gradients_at_zeros),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
