/* Reductions: results worked out by hand, the accuracy of long sums, and what is refused. */
#include "op/call_test.h"
#include "op/graph_test.h"

#include "ipu/op/reduce.h"
#include "op/reduce/reduce.h"

static const ipu_attribute rows[] = {
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .ints = (int64_t[]){1}, .n_ints = 1}};
static const double six[] = {1, -2, 3, 4, 5, -6};
#define SIX CALL_IN({IPU_FLOAT, {2, {2, 3}}, six})

static void each_reduction_is_what_its_name_says(void **unused)
{
    (void)unused;
    call_expect("reduce_sum", rows, 1, SIX, 0, CALL_VALUES(2, 3));
    call_expect("reduce_mean", rows, 1, SIX, 0, CALL_VALUES(2.0 / 3, 1));
    call_expect("reduce_prod", rows, 1, SIX, 0, CALL_VALUES(-6, -120));
    call_expect("reduce_max", rows, 1, SIX, 0, CALL_VALUES(3, 5));
    call_expect("reduce_min", rows, 1, SIX, 0, CALL_VALUES(-2, -6));
    call_expect("reduce_sum_square", rows, 1, SIX, 0, CALL_VALUES(14, 77));
    call_expect("reduce_sum", NULL, 0, SIX, 0, CALL_VALUES(5));
    call_expect("argmax", &IPU_INT_ATTRIBUTE("axis", 1), 1, SIX, 0, CALL_VALUES(2, 1));
    call_expect("argmin", &IPU_INT_ATTRIBUTE("axis", 0), 1, SIX, 0, CALL_VALUES(0, 0, 1));
    call_input flags = {IPU_BOOL, {2, {2, 3}}, CALL_VALUES(0, 0, 0, 1, 1, 0)};
    call_expect("reduce_any", rows, 1, &flags, 1, 0, CALL_VALUES(0, 1));
    call_expect("reduce_all", rows, 1, &flags, 1, 0, CALL_VALUES(0, 0));
}

static void dimensions_are_dropped_or_kept_wherever_they_lie(void **unused)
{
    (void)unused;
    double x[24];
    for (int i = 0; i < 24; i++) x[i] = i;
    call_input    in     = {IPU_FLOAT, {3, {2, 3, 4}}, x};
    ipu_attribute axes[] = {
        {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .ints = (int64_t[]){0, -1}, .n_ints = 2},
        IPU_INT_ATTRIBUTE("keep_dims", 1)};
    call_expect("reduce_sum", axes, 2, &in, 1, 0, CALL_VALUES(60, 92, 124));
    call_made made = call_make("reduce_sum", axes, 2, &in, 1, IPU_FLOAT);
    assert_true(ipu__shape_equal(&made.call.operand[1].shape, &IPU_SHAPE(1, 3, 1)));
    call_free(&made);
    axes[0].ints   = (int64_t[]){1};
    axes[0].n_ints = 1;
    call_expect("reduce_max", axes, 1, &in, 1, 0, CALL_VALUES(8, 9, 10, 11, 20, 21, 22, 23));
}

static void of_nothing_the_sum_is_0_the_product_1_the_mean_nan(void **unused)
{
    (void)unused;
    call_input none = {IPU_FLOAT, {2, {2, 0}}, NULL}, flags = {IPU_BOOL, {2, {2, 0}}, NULL};
    call_expect("reduce_sum", rows, 1, &none, 1, 0, CALL_VALUES(0, 0));
    call_expect("reduce_prod", rows, 1, &none, 1, 0, CALL_VALUES(1, 1));
    call_expect("reduce_mean", rows, 1, &none, 1, 0, CALL_VALUES(NAN, NAN));
    call_expect("reduce_any", rows, 1, &flags, 1, 0, CALL_VALUES(0, 0));
    call_expect("reduce_all", rows, 1, &flags, 1, 0, CALL_VALUES(1, 1));
    none.shape = IPU_SHAPE(0, 3);
    call_expect("reduce_max", rows, 1, &none, 1, 0, NULL);
}

static void nan_stays_and_infinity_counts(void **unused)
{
    (void)unused;
    double     x[] = {1, NAN, 5, -INFINITY, INFINITY, 2};
    call_input in  = {IPU_FLOAT, {2, {2, 3}}, x};
    call_expect("reduce_max", rows, 1, &in, 1, 0, CALL_VALUES(NAN, INFINITY));
    call_expect("reduce_min", rows, 1, &in, 1, 0, CALL_VALUES(NAN, -INFINITY));
    call_expect("reduce_sum", rows, 1, &in, 1, 0, CALL_VALUES(NAN, NAN));
    call_expect("argmax", &IPU_INT_ATTRIBUTE("axis", 1), 1, &in, 1, 0, CALL_VALUES(1, 1));
    call_expect("argmin", &IPU_INT_ATTRIBUTE("axis", 1), 1, &in, 1, 0, CALL_VALUES(1, 0));
}

static void the_first_of_equals_is_found_or_the_last(void **unused)
{
    (void)unused;
    double        x[]          = {3, 7, 7, 3, NAN, 1, NAN, 2};
    call_input    in           = {IPU_FLOAT, {2, {2, 4}}, x};
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("axis", -1), IPU_INT_ATTRIBUTE("select_last", 1)};
    call_expect("argmax", attributes, 1, &in, 1, 0, CALL_VALUES(1, 0));
    call_expect("argmin", attributes, 1, &in, 1, 0, CALL_VALUES(0, 0));
    call_expect("argmax", attributes, 2, &in, 1, 0, CALL_VALUES(2, 2));
    call_expect("argmin", attributes, 2, &in, 1, 0, CALL_VALUES(3, 2));
}

/* 0.1f a million times: one after another, in float, gives 100958. */
static void a_long_sum_loses_nothing(void **unused)
{
    (void)unused;
    enum { N = 1000000 };
    double *x = malloc(N * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < N; i++) x[i] = (double)0.1f;
    static const ipu_shape shapes[] = {{1, {N}}, {2, {N, 1}}, {2, {N / 10, 10}}, {2, {10, N / 10}}};
    for (int s = 0; s < 4; s++)
        for (int axis = 0; axis < shapes[s].rank; axis++) {
            int64_t       list[]    = {axis};
            ipu_attribute attribute = IPU__INTS("axes", list, 1);
            call_input    in        = {IPU_FLOAT, shapes[s], x};
            call_made     made      = call_make("reduce_sum", &attribute, 1, &in, 1, IPU_FLOAT);
            float        *out       = made.data[1];
            double        exact     = (double)0.1f * (double)shapes[s].dim[axis];
            call_run(&made.call, &ipu__cpu_impls_of(made.call.def).at[0], made.data, 2);
            for (int64_t i = 0; i < ipu__op_n_elements(&made.call.operand[1].shape); i++)
                assert_true(fabs((double)out[i] - exact) <= exact * 0x1p-21);
            call_free(&made);
        }
    free(x);
}

static void half_sums_in_float_and_rounds_once(void **unused)
{
    (void)unused;
    double        ones[4096];
    ipu_attribute none[1] = {{0}};
    for (int i = 0; i < 4096; i++) ones[i] = 1;
    call_input in   = {IPU_FLOAT, {1, {4096}}, ones};
    call_made  made = call_make("reduce_sum", none, 0, &in, 1, IPU_HALF);
    call_check(&made, 1);
    assert_true(ipu_half_to_float(*(ipu_half *)made.data[1]) == 4096); /* in half it would stop at 2048 */
    call_free(&made);
}

static void implementations_agree_and_parts_make_no_difference(void **unused)
{
    (void)unused;
    static const struct {
        ipu_shape shape;
        int64_t   axes[3];
        size_t    n;
    } cases[] = {
        {{1, {150001}}, {0}, 0},
        {{2, {7, 2500}}, {1}, 1},
        {{2, {700, 33}}, {0}, 1},
        {{2, {5000, 30}}, {0}, 1},
        {{3, {40, 1100, 3}}, {1}, 1},
        {{3, {12, 7, 1500}}, {0, 2}, 2},
        {{4, {3, 50, 4, 60}}, {0, 2}, 2},
        {{4, {3, 50, 4, 60}}, {1, 3}, 2},
        {{3, {1, 1300, 1}}, {1}, 1},
        {{2, {3, 1700}}, {0}, 1},
        {{0, {0}}, {0}, 0},
        {{2, {3, 0}}, {0}, 1},
        {{5, {2, 3, 2, 5, 2}}, {0, 2, 4}, 3},
        {{2, {2000, 5}}, {1}, 1},
    };
    static const char *const ops[]   = {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min",
                                        "reduce_sum_square"};
    static const ipu_type    types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    for (size_t c = 0; c < IPU__COUNT(cases); c++)
        for (size_t o = 0; o < IPU__COUNT(ops); o++)
            for (size_t t = 0; t < IPU__COUNT(types); t++) {
                ipu_attribute axes = IPU__INTS("axes", cases[c].axes, cases[c].n);
                call_input    in   = {IPU_FLOAT, cases[c].shape, NULL};
                call_made     made = call_make(ops[o], &axes, 1, &in, 1, types[t]);
                call_check(&made, 50);
                call_free(&made);
            }
}

static void integers_wrap(void **unused)
{
    (void)unused;
    double     x[] = {2147483647, 2, 65536, 65536};
    call_input in  = {IPU_INT32, {2, {2, 2}}, x};
    call_expect("reduce_sum", rows, 1, &in, 1, 0, CALL_VALUES(-2147483647, 131072));
    call_expect("reduce_prod", rows, 1, &in, 1, 0, CALL_VALUES(-2, 0));
    call_expect("reduce_max", NULL, 0, &in, 1, 0, CALL_VALUES(2147483647));
}

static ipu_value max_of(ipu_builder *b, ipu_value x) { return ipu_reduce_max(b, x, NULL, 0, false); }
static ipu_value prod_of(ipu_builder *b, ipu_value x) { return ipu_reduce_prod(b, x, NULL, 0, false); }
static ipu_value l2_of(ipu_builder *b, ipu_value x) { return ipu_reduce_l2(b, x, NULL, 0, false); }
static ipu_value logsumexp_of(ipu_builder *b, ipu_value x)
{
    return ipu_reduce_logsumexp(b, x, NULL, 0, false);
}

static void gradients_are_those_of_pytorch_at_the_odd_places(void **unused)
{
    (void)unused;
    graph_gradient(max_of, IPU_SHAPE(4), (double[]){1, 3, 3, 2}, (double[]){0, 0.5, 0.5, 0});
    graph_gradient(prod_of, IPU_SHAPE(3), (double[]){2, 3, 4}, (double[]){12, 8, 6});
    graph_gradient(prod_of, IPU_SHAPE(3), (double[]){2, 0, 4}, (double[]){0, 8, 0});
    graph_gradient(prod_of, IPU_SHAPE(3), (double[]){0, 0, 4}, (double[]){0, 0, 0});
    graph_gradient(l2_of, IPU_SHAPE(2), (double[]){3, 4}, (double[]){0.6, 0.8});
    graph_gradient(l2_of, IPU_SHAPE(2), (double[]){0, 0}, (double[]){0, 0});
    graph_gradient(logsumexp_of, IPU_SHAPE(2), (double[]){1000, 1000}, (double[]){0.5, 0.5});
}

static void logsumexp_neither_overflows_nor_loses_infinity(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    ipu_value   x = graph_floats(&t, IPU_SHAPE(3, 2),
                                 (double[]){1000, 1000, -INFINITY, -INFINITY, 0, INFINITY});
    graph_expect(&t, ipu_reduce_logsumexp(t.b, x, (int[]){1}, 1, false),
                 GRAPH_VALUES(1000 + log(2), -INFINITY, INFINITY));
    t = graph_start();
    x = graph_floats(&t, IPU_SHAPE(2, 2), (double[]){1, 3, 5, 5});
    graph_expect(&t, ipu_reduce_variance(t.b, x, (int[]){1}, 1, true, true), GRAPH_VALUES(2, 0));
}

static void check_refused(const char *op, const ipu_attribute *attribute, ipu_type type, ipu_shape shape,
                          const char *words)
{
    const ipu__op_def *def  = ipu__op_find(op);
    ipu__kernel_call   call = {.def          = &def->kernel,
                               .attributes   = attribute,
                               .n_attributes = attribute != NULL,
                               .n_operands   = 1,
                               .operand      = {{type, shape}}};
    ipu__kernel_value  out;
    assert_int_equal(def->infer(&call, &out), IPU_INVALID);
    if (!strstr(ipu_message(), words)) fail_msg("\"%s\" is not in \"%s\"", words, ipu_message());
}

static void what_makes_no_sense_is_refused(void **unused)
{
    (void)unused;
    int64_t       axes[] = {1, -1}, far[] = {2};
    ipu_attribute twice = IPU__INTS("axes", axes, 2), outside = IPU__INTS("axes", far, 1);
    check_refused("reduce_max", NULL, IPU_FLOAT, IPU_SHAPE(3, 0),
                  "reduce_max: \"x\" float[3,0] has no elements");
    check_refused("argmax", NULL, IPU_FLOAT, IPU_SHAPE(0, 3), "dimension 0 of \"x\" float[0,3]");
    check_refused("reduce_mean", NULL, IPU_INT32, IPU_SHAPE(3), "must be half, bfloat16, float or double");
    check_refused("reduce_any", NULL, IPU_FLOAT, IPU_SHAPE(3), "must be bool");
    check_refused("reduce_sum", NULL, IPU_BOOL, IPU_SHAPE(3), "found bool[3]");
    check_refused("reduce_sum", &twice, IPU_FLOAT, IPU_SHAPE(3, 4), "names dimension 1 twice");
    check_refused("reduce_sum", &outside, IPU_FLOAT, IPU_SHAPE(3, 4), "axes = 2 is out of range for rank 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reduction_is_what_its_name_says),
        cmocka_unit_test(dimensions_are_dropped_or_kept_wherever_they_lie),
        cmocka_unit_test(of_nothing_the_sum_is_0_the_product_1_the_mean_nan),
        cmocka_unit_test(nan_stays_and_infinity_counts),
        cmocka_unit_test(the_first_of_equals_is_found_or_the_last),
        cmocka_unit_test(a_long_sum_loses_nothing),
        cmocka_unit_test(half_sums_in_float_and_rounds_once),
        cmocka_unit_test(implementations_agree_and_parts_make_no_difference),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(gradients_are_those_of_pytorch_at_the_odd_places),
        cmocka_unit_test(logsumexp_neither_overflows_nor_loses_infinity),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
