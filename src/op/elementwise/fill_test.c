/* fill: the bits for each type, and rejected values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "op/op.h"

static ipu__kernel_call call_of(ipu_type type, const ipu_attribute *value)
{
    return (ipu__kernel_call){.def          = &ipu__op_fill.kernel,
                              .attributes   = value,
                              .n_attributes = 1,
                              .n_operands   = 1,
                              .operand      = {{type, {1, {1}}}}};
}

static uint64_t bits_of(ipu_type type, ipu_attribute value)
{
    ipu__kernel_call call   = call_of(type, &value);
    uint64_t         bits   = 0; /* low bytes first */
    void            *out[1] = {&bits};
    if (call.def->check(&call) != IPU_OK) fail_msg("%s", ipu_message());
    call.def->ref(&call, out);
    return bits;
}

static ipu_attribute whole(int64_t i) { return IPU_INT_ATTRIBUTE("value", i); }
static ipu_attribute real(double f) { return IPU_FLOAT_ATTRIBUTE("value", f); }

static void each_type_gets_its_own_bits(void **unused)
{
    (void)unused;
    assert_int_equal(bits_of(IPU_BOOL, whole(1)), 1);
    assert_int_equal(bits_of(IPU_INT8, whole(-128)), 0x80);
    assert_int_equal(bits_of(IPU_INT8, real(127)), 0x7f);
    assert_int_equal(bits_of(IPU_UINT8, whole(255)), 0xff);
    assert_int_equal(bits_of(IPU_INT16, real(-2)), 0xfffe);
    assert_int_equal(bits_of(IPU_UINT16, whole(65535)), 0xffff);
    assert_int_equal(bits_of(IPU_INT32, whole(INT32_MIN)), 0x80000000);
    assert_int_equal(bits_of(IPU_UINT32, real(4294967295.0)), 0xffffffff);
    assert_int_equal(bits_of(IPU_INT64, whole(INT64_MIN)), UINT64_C(1) << 63);
    assert_true(bits_of(IPU_INT64, whole(INT64_MAX)) == INT64_MAX);
    assert_int_equal(bits_of(IPU_UINT64, real(0x1p63)), UINT64_C(1) << 63);
    assert_true(bits_of(IPU_UINT64, whole(INT64_MAX - 1)) == INT64_MAX - 1);
    assert_int_equal(bits_of(IPU_HALF, whole(1)), 0x3c00);
    assert_int_equal(bits_of(IPU_HALF, real(0.1)), 0x2e66);
    assert_int_equal(bits_of(IPU_BFLOAT16, real(0.1)), 0x3dcd);
    assert_int_equal(bits_of(IPU_FLOAT, real(0.1)), 0x3dcccccd);
    assert_int_equal(bits_of(IPU_FLOAT, whole(-1)), 0xbf800000);
    assert_int_equal(bits_of(IPU_DOUBLE, real(0.1)), UINT64_C(0x3fb999999999999a));
}

static void floating_types_take_what_is_not_finite(void **unused)
{
    (void)unused;
    assert_int_equal(bits_of(IPU_HALF, real(1e300)), 0x7c00);
    assert_int_equal(bits_of(IPU_FLOAT, real(-(double)INFINITY)), 0xff800000);
    assert_true((bits_of(IPU_HALF, real((double)NAN)) & 0x7fff) > 0x7c00);
    assert_true((bits_of(IPU_BFLOAT16, real((double)NAN)) & 0x7fff) > 0x7f80);
}

static void refuse(ipu_type type, ipu_attribute value, const char *message)
{
    ipu__kernel_call call = call_of(type, &value);
    assert_int_equal(call.def->check(&call), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
}

static void values_a_type_cannot_hold_are_refused(void **unused)
{
    (void)unused;
    refuse(IPU_BOOL, whole(2), "fill: bool cannot hold the value 2");
    refuse(IPU_INT8, whole(128), "fill: int8 cannot hold the value 128");
    refuse(IPU_INT8, whole(-129), "fill: int8 cannot hold the value -129");
    refuse(IPU_UINT8, whole(-1), "fill: uint8 cannot hold the value -1");
    refuse(IPU_UINT16, whole(65536), "fill: uint16 cannot hold the value 65536");
    refuse(IPU_UINT64, whole(-1), "fill: uint64 cannot hold the value -1");
    refuse(IPU_INT32, real(0.5), "fill: int32 cannot hold the value 0.5");
    refuse(IPU_INT32, real(0x1p31), "fill: int32 cannot hold the value 2147483648");
    refuse(IPU_INT64, real(0x1p63), "fill: int64 cannot hold the value 9.2233720368547758e+18");
    refuse(IPU_INT32, real((double)NAN), "fill: int32 cannot hold the value nan");
    refuse(IPU_UINT8, real(-1), "fill: uint8 cannot hold the value -1");
}

static void calls_that_make_no_sense_are_refused(void **unused)
{
    (void)unused;
    ipu_attribute    value = whole(1);
    ipu__kernel_call call  = call_of(IPU_FLOAT, &value);
    refuse(IPU_FLOAT, IPU_TEXT_ATTRIBUTE("value", "one"),
           "fill: attribute \"value\" must be a float, found text");
    refuse(IPU_FLOAT, IPU_INT_ATTRIBUTE("velue", 1),
           "fill: unknown attribute \"velue\": it takes \"value\", \"shape\", \"type\"");
    call.n_attributes = 0;
    assert_int_equal(call.def->check(&call), IPU_INVALID);
    assert_string_equal(ipu_message(), "fill: attribute \"value\" is missing: give an int or a float");
    call.n_operands = 2;
    assert_int_equal(call.def->check(&call), IPU_INVALID);
    assert_string_equal(ipu_message(), "fill: expected 1 operand (out), found 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_gets_its_own_bits),
        cmocka_unit_test(floating_types_take_what_is_not_finite),
        cmocka_unit_test(values_a_type_cannot_hold_are_refused),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
