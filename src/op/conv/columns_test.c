/* Windows as columns: against a loop over them, and back. */
#include "op/graph_test.h"

#include "ipu/op/conv.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"

enum { H = 4, W = 5, KH = 2, KW = 3, ROWS = 2, COLUMNS = 3 };

static const ipu_window_options windows = {
    .kernel = {KH, KW}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {3, 1}};

/* Element of a plane that tap `tap` of window `window` is, or -1: padding. */
static int place(int tap, int window)
{
    int row    = window / COLUMNS * 2 + tap / KW * 3 - 1;
    int column = window % COLUMNS + tap % KW;
    return row < 0 || row >= H ? -1 : row * W + column;
}

static void windows_become_columns(void **unused)
{
    (void)unused;
    double x[H * W], y[KH * KW * ROWS * COLUMNS];
    for (int i = 0; i < H * W; i++) x[i] = i + 1;
    for (int i = 0; i < KH * KW * ROWS * COLUMNS; i++) {
        int at = place(i / (ROWS * COLUMNS), i % (ROWS * COLUMNS));
        y[i]   = at < 0 ? 0 : x[at];
    }
    graph_bench t = graph_start();
    ipu_value   v = ipu_im2col(t.b, graph_floats(&t, IPU_SHAPE(1, 1, H, W), x), windows);
    ipu_shape   s = ipu_value_shape(v);
    assert_true(s.rank == 3 && s.dim[1] == KH * KW && s.dim[2] == ROWS * COLUMNS);
    graph_expect(&t, v, y, KH * KW * ROWS * COLUMNS);
}

static void columns_are_added_up_where_they_came_from(void **unused)
{
    (void)unused;
    double x[KH * KW * ROWS * COLUMNS], y[H * W] = {0};
    for (int i = 0; i < KH * KW * ROWS * COLUMNS; i++) {
        int at = place(i / (ROWS * COLUMNS), i % (ROWS * COLUMNS));
        x[i]   = i + 1;
        if (at >= 0) y[at] += x[i];
    }
    graph_bench t = graph_start();
    ipu_value   v = graph_floats(&t, IPU_SHAPE(KH * KW, ROWS * COLUMNS), x);
    graph_expect(&t, ipu_col2im(t.b, v, (int64_t[]){H, W}, windows), y, H * W);
}

static ipu_value sum_of_columns(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_sum(b, ipu_im2col(b, x, (ipu_window_options){.kernel = {2, 2}}), NULL, 0, false);
}

static void the_gradient_counts_windows(void **unused)
{
    (void)unused;
    graph_gradient(sum_of_columns, IPU_SHAPE(1, 3, 3), (double[]){1, 2, 3, 4, 5, 6, 7, 8, 9},
                   (double[]){1, 2, 1, 2, 4, 2, 1, 2, 1});
}

static void windows_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    const double x[] = {1, 2, 3, 4};
    graph_bench  t   = graph_start();
    ipu_value    v   = graph_floats(&t, IPU_SHAPE(1, 2, 2), x);
    graph_refused(&t, ipu_im2col(t.b, v, (ipu_window_options){.kernel = {3, 1}}),
                  "a window reaches over 3 elements");
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(1, 2, 2), x);
    graph_refused(&t, ipu_im2col(t.b, v, (ipu_window_options){.kernel = {0, 1}}), "\"kernel\" has 0");
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(4, 1), x);
    graph_refused(&t, ipu_col2im(t.b, v, (int64_t[]){3, 2}, (ipu_window_options){.kernel = {2, 2}}),
                  "a multiple of 4 rows, and 2 columns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_become_columns),
        cmocka_unit_test(columns_are_added_up_where_they_came_from),
        cmocka_unit_test(the_gradient_counts_windows),
        cmocka_unit_test(windows_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
