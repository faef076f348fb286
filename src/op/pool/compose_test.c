/* p-norm pooling, unpooling, and norms over channels and moments, by hand. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

static void windows_have_their_norm(void **unused)
{
    (void)unused;
    static const double x[] = {3, -4, 0, 12, 5};
    graph_bench         t   = graph_start();
    ipu_value           v   = graph_floats(&t, IPU_SHAPE(1, 1, 5), x);
    graph_expect(&t, ipu_lp_pool(t.b, v, 2, (ipu_pool_options){.kernel = {2}, .stride = {1}}),
                 GRAPH_VALUES(5, 4, 12, 13));
    t = graph_start(); /* a last window of one element is the norm of that, padding counts nothing */
    v = graph_floats(&t, IPU_SHAPE(1, 1, 5), x);
    graph_expect(&t, ipu_lp_pool(t.b, v, 1, (ipu_pool_options){.kernel = {2}, .ceil_mode = true}),
                 GRAPH_VALUES(7, 12, 5));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(1, 1, 5), x);
    graph_expect(&t, ipu_lp_pool(t.b, v, 3, (ipu_pool_options){.kernel = {3}, .stride = {4}, .padding = {1}}),
                 GRAPH_VALUES(cbrt(27 + 64), cbrt(12 * 144 + 125)));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(1, 1, 5), x);
    graph_expect(&t, ipu_global_lp_pool(t.b, v, 2), GRAPH_VALUES(sqrt(9 + 16 + 144 + 25)));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(1, 1, 5), x);
    graph_refused(&t, ipu_lp_pool(t.b, v, 0, (ipu_pool_options){.kernel = {2}}), "p = 0");
}

static ipu_value norm_of_zeros(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_lp_pool(b, x, 3, (ipu_pool_options){.kernel = {2}}), NULL, 0, false);
}

static void a_window_of_zeros_passes_no_gradient(void **unused)
{
    (void)unused;
    graph_gradient(norm_of_zeros, IPU_SHAPE(1, 1, 4), (double[]){0, 0, 0, 2}, (double[]){0, 0, 0, 1});
}

static void maxima_go_back_where_they_were(void **unused)
{
    (void)unused;
    static const double x[] = {5, 6, 7, 8};
    graph_bench         t   = graph_start();
    ipu_value           v   = graph_floats(&t, IPU_SHAPE(1, 2, 2), x);
    ipu_value           at  = graph_labels(&t, IPU_SHAPE(1, 2, 2), (int32_t[]){1, 3, 0, 0});
    graph_expect(&t, ipu_max_unpool(t.b, v, at, (int64_t[]){4}), GRAPH_VALUES(0, 5, 0, 6, 8, 0, 0, 0));
    t  = graph_start();
    v  = graph_floats(&t, IPU_SHAPE(1, 2, 2), x);
    at = graph_labels(&t, IPU_SHAPE(1, 2, 2), (int32_t[]){1, 3, 4, 7});
    graph_expect(&t, ipu_max_unpool_flat(t.b, v, at, (int64_t[]){4}), GRAPH_VALUES(0, 5, 0, 6, 7, 0, 0, 8));
}

static void bytes_have_maxima(void **unused)
{
    (void)unused;
    static const double x[] = {-128, -3, 127, 4};
    graph_bench         t   = graph_start();
    ipu_value           v   = ipu_cast(t.b, graph_floats(&t, IPU_SHAPE(1, 1, 4), x), IPU_INT8), at;
    ipu_value           y   = ipu_max_pool_with_indices(t.b, v, (ipu_pool_options){.kernel = {2}}, &at);
    assert_int_equal(ipu_value_type(y), IPU_INT8);
    y = ipu_add(t.b, ipu_cast(t.b, y, IPU_FLOAT),
                ipu_mul(t.b, ipu_cast(t.b, at, IPU_FLOAT),
                        ipu_constant_value(t.b, IPU_FLOAT, IPU_SCALAR, 1000)));
    graph_expect(&t, y, GRAPH_VALUES(997, 2127));
}

/* Of an even size, PyTorch has one channel more before, ONNX after. */
static void neighbours_are_counted_as_asked(void **unused)
{
    (void)unused;
    static const double x[] = {1, 2, 3};
    for (int before = 0; before < 2; before++) {
        double sums[2][3] = {{1 + 4, 4 + 9, 9}, {1, 1 + 4, 4 + 9}}, expected[3];
        for (int i = 0; i < 3; i++) expected[i] = x[i] / sqrt(2 + 0.5 * sums[before][i] / 2);
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(1, 3, 1), x);
        graph_expect(&t,
                     ipu_local_response_norm(
                         t.b, v,
                         (ipu_local_response_options){
                             .size = 2, .alpha = 0.5, .beta = 0.5, .bias = 2, .has_before = before == 0}),
                     expected, 3);
    }
}

static void moments_become_0_and_1(void **unused)
{
    (void)unused;
    static const double x[] = {1, 3, 10, 30};
    graph_bench         t   = graph_start();
    ipu_value           v   = graph_floats(&t, IPU_SHAPE(2, 2), x);
    graph_expect(&t, ipu_mean_variance_norm(t.b, v, (int[]){1}, 1, 1e-9), GRAPH_VALUES(-1, 1, -1, 1));
}

static void the_first_largest_is_1(void **unused)
{
    (void)unused;
    static const double x[] = {1, 3, 3, 2, -1, -2};
    graph_bench         t   = graph_start();
    graph_expect(&t, ipu_hardmax(t.b, graph_floats(&t, IPU_SHAPE(2, 3), x), -1),
                 GRAPH_VALUES(0, 1, 0, 1, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_have_their_norm),
        cmocka_unit_test(a_window_of_zeros_passes_no_gradient),
        cmocka_unit_test(maxima_go_back_where_they_were),
        cmocka_unit_test(bytes_have_maxima),
        cmocka_unit_test(neighbours_are_counted_as_asked),
        cmocka_unit_test(moments_become_0_and_1),
        cmocka_unit_test(the_first_largest_is_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
