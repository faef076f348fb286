/* add: what the sums are where types differ in how they end, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "op/op.h"

static ipu_kernel_call call_of(ipu_type type, ipu_shape shape)
{
    return (ipu_kernel_call){.def        = &ipu__op_add.kernel,
                             .n_operands = 3,
                             .operand    = {{type, shape}, {type, shape}, {type, shape}}};
}

/* Of two scalars given by their bits (low bytes first): by the meaning and by the implementation, which
 * must agree. */
static uint64_t sum(ipu_type type, uint64_t x, uint64_t y)
{
    uint64_t        by_ref = 0, by_run = 0;
    ipu_kernel_call call  = call_of(type, IPU_SCALAR);
    void           *ref[] = {&x, &y, &by_ref}, *run[] = {&x, &y, &by_run};
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, ref);
    assert_int_equal(call.def->implementations[0].run(&call, NULL, run, NULL, 0, 1), IPU_OK);
    assert_int_equal(by_ref, by_run);
    return by_ref;
}

static float sum_of_floats(float x, float y)
{
    uint64_t a = 0, b = 0, bits;
    float    out;
    memcpy(&a, &x, sizeof x);
    memcpy(&b, &y, sizeof y);
    bits = sum(IPU_FLOAT, a, b);
    memcpy(&out, &bits, sizeof out);
    return out;
}

static double sum_of_doubles(double x, double y)
{
    uint64_t a, b, bits;
    double   out;
    memcpy(&a, &x, sizeof x);
    memcpy(&b, &y, sizeof y);
    bits = sum(IPU_DOUBLE, a, b);
    memcpy(&out, &bits, sizeof out);
    return out;
}

static void integers_wrap(void **unused)
{
    (void)unused;
    assert_int_equal(sum(IPU_INT8, 0x7f, 1), 0x80);
    assert_int_equal(sum(IPU_UINT8, 255, 2), 1);
    assert_int_equal(sum(IPU_INT16, 0x8000, 0xffff), 0x7fff); /* -32768 - 1 */
    assert_int_equal(sum(IPU_UINT16, 65535, 65535), 65534);
    assert_int_equal(sum(IPU_INT32, 0x7fffffff, 1), 0x80000000);
    assert_int_equal(sum(IPU_UINT32, UINT32_MAX, 3), 2);
    assert_int_equal(sum(IPU_INT64, (uint64_t)INT64_MIN, UINT64_MAX), INT64_MAX);
    assert_int_equal(sum(IPU_UINT64, UINT64_MAX, 1), 0);
}

static void floats_round_to_nearest_even(void **unused)
{
    (void)unused;
    assert_true(sum_of_floats(1, 0x1p-24f) == 1);
    assert_true(sum_of_floats(1, 3 * 0x1p-24f) == 1 + 0x1p-22f);
    assert_true(sum_of_doubles(0.1, 0.2) == 0.30000000000000004);
    /* half: 1 + 2^-11 lies between two, a little more does not; the largest twice is infinity */
    assert_int_equal(sum(IPU_HALF, 0x3c00, 0x1000), 0x3c00);
    assert_int_equal(sum(IPU_HALF, 0x3c00, 0x1001), 0x3c01);
    assert_int_equal(sum(IPU_HALF, 0x7bff, 0x7bff), 0x7c00);
    /* bfloat16: 1 + 2^-8 likewise */
    assert_int_equal(sum(IPU_BFLOAT16, 0x3f80, 0x3b80), 0x3f80);
    assert_int_equal(sum(IPU_BFLOAT16, 0x3f80, 0x3b81), 0x3f81);
}

static void refuse(const ipu_kernel_call *call, const char *message)
{
    assert_int_equal(call->def->check(call), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
}

static void calls_that_make_no_sense_are_refused(void **unused)
{
    (void)unused;
    const ipu_attribute extra = IPU_INT_ATTRIBUTE("value", 1);
    ipu_kernel_call     call  = call_of(IPU_FLOAT, IPU_SHAPE(3, 4));
    call.operand[1].shape     = IPU_SHAPE(4, 3);
    refuse(&call, "add: shapes differ: a [3,4] + b [4,3] -> out [3,4]");
    call.operand[1].shape = IPU_SHAPE(3, 4, 1);
    refuse(&call, "add: shapes differ: a [3,4] + b [3,4,1] -> out [3,4]");
    call.operand[1].shape = IPU_SHAPE(3, 4);
    call.operand[2].shape = IPU_SHAPE(12);
    refuse(&call, "add: shapes differ: a [3,4] + b [3,4] -> out [12]");
    call.operand[2] = (ipu_kernel_value){IPU_HALF, IPU_SHAPE(3, 4)};
    refuse(&call, "add: types differ: a float + b float -> out half");
    call = call_of(IPU_BOOL, IPU_SHAPE(3));
    refuse(&call, "add: bool is not a type that can be added");
    call.attributes   = &extra;
    call.n_attributes = 1;
    refuse(&call, "add: unknown attribute \"value\": it takes none");
    call.n_operands = 2;
    refuse(&call, "add: expected 3 operands (a, b, out), found 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(floats_round_to_nearest_even),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
