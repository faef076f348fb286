/* So many windows, as even as can be: against a loop over them. */
#include "op/graph_test.h"

#include "ipu/op/elementwise.h"
#include "ipu/op/pool.h"
#include "ipu/op/reduce.h"

enum { H = 5, W = 7, ROWS = 2, COLUMNS = 3 };

typedef struct found {
    double mean[ROWS * COLUMNS], max[ROWS * COLUMNS], place[ROWS * COLUMNS];
} found;

/* PyTorch's windows: from the whole part of i size / n on to that of (i + 1) size / n, rounded up. */
static found find(const double *x)
{
    found f;
    for (int w = 0; w < ROWS * COLUMNS; w++) {
        int    i = w / COLUMNS, j = w % COLUMNS, n = 0;
        double sum = 0, max = -INFINITY;
        for (int r = i * H / ROWS; r < ((i + 1) * H + ROWS - 1) / ROWS; r++)
            for (int c = j * W / COLUMNS; c < ((j + 1) * W + COLUMNS - 1) / COLUMNS; c++, n++) {
                double value = x[r * W + c];
                sum += value;
                if (!(value > max)) continue;
                max        = value;
                f.place[w] = r * W + c;
            }
        f.mean[w] = sum / n;
        f.max[w]  = max;
    }
    return f;
}

static void fill(double *x)
{
    for (int i = 0; i < H * W; i++) x[i] = i * 17 % 23; /* some are equal */
}

static void windows_that_overlap_are_those_of_pytorch(void **unused)
{
    (void)unused;
    const int64_t size[] = {ROWS, COLUMNS};
    double        x[H * W];
    fill(x);
    found f = find(x);
    for (int which = 0; which < 3; which++) {
        graph_bench t = graph_start();
        ipu_value   v = graph_floats(&t, IPU_SHAPE(1, 1, H, W), x), at;
        if (which == 0) {
            graph_expect(&t, ipu_adaptive_average_pool(t.b, v, size), f.mean, ROWS * COLUMNS);
            continue;
        }
        v = ipu_adaptive_max_pool(t.b, v, size, &at);
        graph_expect(&t, which == 1 ? v : ipu_cast(t.b, at, IPU_FLOAT), which == 1 ? f.max : f.place,
                     ROWS * COLUMNS);
    }
}

static void windows_side_by_side_are_those_of_a_kernel(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4, 5, 9, 8, 7};
    graph_bench  t   = graph_start();
    ipu_value    at;
    graph_expect(
        &t, ipu_adaptive_average_pool(t.b, graph_floats(&t, IPU_SHAPE(1, 1, 2, 4), x), (int64_t[]){1, 2}),
        GRAPH_VALUES(4.25, 5.5));
    t = graph_start();
    graph_expect(&t, ipu_adaptive_average_pool(t.b, graph_floats(&t, IPU_SHAPE(1, 2, 4), x), (int64_t[]){1}),
                 GRAPH_VALUES(2.5, 7.25));
    t = graph_start();
    ipu_adaptive_max_pool(t.b, graph_floats(&t, IPU_SHAPE(1, 2, 4), x), (int64_t[]){2}, &at);
    graph_expect(&t, ipu_cast(t.b, at, IPU_FLOAT), GRAPH_VALUES(1, 3, 1, 2));
    t = graph_start();
    graph_expect(&t,
                 ipu_adaptive_max_pool(t.b, graph_floats(&t, IPU_SHAPE(1, 2, 4), x), (int64_t[]){3}, NULL),
                 GRAPH_VALUES(2, 3, 4, 9, 9, 8));
}

static ipu_value sum_of_largest(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_adaptive_max_pool(b, x, (int64_t[]){3}, NULL), NULL, 0, false);
}

static ipu_value sum_of_means(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_adaptive_average_pool(b, x, (int64_t[]){3}), NULL, 0, false);
}

static void gradients_go_to_the_windows(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 9, 4};
    graph_gradient(sum_of_largest, IPU_SHAPE(1, 1, 4), x, (double[]){0, 1, 2, 0});
    graph_gradient(sum_of_means, IPU_SHAPE(1, 1, 4), x, (double[]){0.5, 1, 1, 0.5});
}

static void sizes_that_make_no_sense_are_refused(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4};
    graph_bench  t   = graph_start();
    ipu_value    v   = graph_floats(&t, IPU_SHAPE(1, 1, 4), x);
    graph_refused(&t, ipu_adaptive_average_pool(t.b, v, (int64_t[]){-1}), "-1 windows along dimension 2");
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(2, 2), x);
    graph_refused(&t, ipu_adaptive_max_pool(t.b, v, (int64_t[]){1}, NULL), "adaptive_max_pool");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_that_overlap_are_those_of_pytorch),
        cmocka_unit_test(windows_side_by_side_are_those_of_a_kernel),
        cmocka_unit_test(gradients_go_to_the_windows),
        cmocka_unit_test(sizes_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
