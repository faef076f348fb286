/* The softmax family: values worked out by hand, logits that overflow, and errors. */
#include "op/call_test.h"

static const ipu_attribute down = {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .i = 0};

static void results_are_those_of_the_formula(void **unused)
{
    (void)unused;
    double     x[]   = {0, log(2), log(5), 1, 1, 1};
    call_input in    = {IPU_FLOAT, {2, {2, 3}}, x};
    double     third = 1.0 / 3;
    call_expect("softmax", NULL, 0, &in, 1, 0, CALL_VALUES(0.125, 0.25, 0.625, third, third, third));
    call_expect("log_softmax", NULL, 0, &in, 1, 0,
                CALL_VALUES(-log(8), -log(4), log(0.625), -log(3), -log(3), -log(3)));
    double column = 1 / (1 + exp(1));
    in.shape      = IPU_SHAPE(6, 1);
    call_expect("softmax", NULL, 0, &in, 1, 0, CALL_VALUES(1, 1, 1, 1, 1, 1));
    in.shape  = IPU_SHAPE(2, 3);
    in.values = CALL_VALUES(0, 1, 2, 1, 1, 3);
    call_expect("softmax", &down, 1, &in, 1, 0,
                CALL_VALUES(column, 0.5, column, 1 - column, 0.5, 1 - column));
}

static void large_logits_do_not_overflow(void **unused)
{
    (void)unused;
    double     x[] = {1000, 1000, -1000, 3e38, -3e38, 3e38, -INFINITY, 0, -INFINITY};
    call_input in  = {IPU_FLOAT, {2, {3, 3}}, x};
    call_expect("softmax", NULL, 0, &in, 1, 0, CALL_VALUES(0.5, 0.5, 0, 0.5, 0, 0.5, 0, 1, 0));
    in.shape = IPU_SHAPE(1, 3);
    call_expect("log_softmax", NULL, 0, &in, 1, 0, CALL_VALUES(-log(2), -log(2), -2000 - log(2)));
}

static void nothing_but_minus_infinity_and_nan_give_nan(void **unused)
{
    (void)unused;
    double     x[] = {-INFINITY, -INFINITY, 0, NAN};
    call_input in  = {IPU_FLOAT, {2, {2, 2}}, x};
    call_expect("softmax", NULL, 0, &in, 1, 0, CALL_VALUES(NAN, NAN, NAN, NAN));
    call_expect("log_softmax", NULL, 0, &in, 1, 0, CALL_VALUES(NAN, NAN, NAN, NAN));
}

static void gradients_are_those_of_the_formula(void **unused)
{
    (void)unused;
    call_input in[] = {{IPU_FLOAT, {1, {3}}, CALL_VALUES(0.125, 0.25, 0.625)},
                       {IPU_FLOAT, {1, {3}}, CALL_VALUES(1, 2, 4)}};
    double     s    = 0.125 + 0.5 + 2.5;
    call_expect("softmax_grad", NULL, 0, in, 2, 0,
                CALL_VALUES(0.125 * (1 - s), 0.25 * (2 - s), 0.625 * (4 - s)));
    in[0].values = CALL_VALUES(log(0.125), log(0.25), log(0.625));
    call_expect("log_softmax_grad", NULL, 0, in, 2, 0, CALL_VALUES(1 - 0.875, 2 - 1.75, 4 - 4.375));
}

static void implementations_agree_and_parts_make_no_difference(void **unused)
{
    (void)unused;
    static const struct {
        ipu_shape shape;
        int64_t   axis;
    } cases[] = {
        {{1, {1}}, 0},        {{2, {5, 33}}, 1},     {{2, {5, 33}}, 0},       {{3, {2, 5, 70}}, 1},
        {{2, {3, 2100}}, -1}, {{2, {2100, 130}}, 0}, {{3, {2, 1, 3}}, 1},     {{2, {0, 4}}, 1},
        {{2, {4, 0}}, 1},     {{2, {4, 0}}, 0},      {{4, {2, 3, 40, 9}}, 2}, {{2, {300, 64}}, 1},
    };
    static const char *const ops[]   = {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"};
    static const ipu_type    types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    for (size_t c = 0; c < IPU__COUNT(cases); c++)
        for (size_t o = 0; o < IPU__COUNT(ops); o++)
            for (size_t t = 0; t < IPU__COUNT(types); t++) {
                ipu_attribute axis = IPU_INT_ATTRIBUTE("axis", cases[c].axis);
                call_input    in[] = {{IPU_FLOAT, cases[c].shape, NULL}, {IPU_FLOAT, cases[c].shape, NULL}};
                call_made     made = call_make(ops[o], &axis, 1, in, o < 2 ? 1 : 2, types[t]);
                call_check(&made, o < 2 ? 1 : 400);
                call_free(&made);
            }
}

static void results_may_take_the_memory_of_the_input(void **unused)
{
    (void)unused;
    static const ipu_shape shapes[] = {{2, {7, 1500}}, {3, {3, 50, 7}}};
    static const ipu_type  types[]  = {IPU_FLOAT, IPU_HALF};
    for (int i = 0; i < 8; i++) {
        ipu_attribute axis   = IPU_INT_ATTRIBUTE("axis", 1);
        bool          grad   = i & 4;
        call_input    in[]   = {{IPU_FLOAT, shapes[i & 1], NULL}, {IPU_FLOAT, shapes[i & 1], NULL}};
        call_made     made   = call_make(grad ? "softmax_grad" : "log_softmax", &axis, 1, in, grad ? 2 : 1,
                                   types[i >> 1 & 1]);
        void         *over[] = {made.data[0], grad ? made.data[1] : made.data[0], made.data[1]};
        call_run(&made.call, &ipu__cpu_impls_of(made.call.def).at[0], made.data, 2);
        call_run(&made.call, &ipu__cpu_impls_of(made.call.def).at[0], over, 2);
        assert_memory_equal(made.data[grad ? 2 : 1], over[grad ? 1 : 0], made.bytes[0]);
        call_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_the_formula),
        cmocka_unit_test(large_logits_do_not_overflow),
        cmocka_unit_test(nothing_but_minus_infinity_and_nan_give_nan),
        cmocka_unit_test(gradients_are_those_of_the_formula),
        cmocka_unit_test(implementations_agree_and_parts_make_no_difference),
        cmocka_unit_test(results_may_take_the_memory_of_the_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
