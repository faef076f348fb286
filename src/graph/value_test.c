/* Numbers as elements: integer limits, and single rounding for the short floats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

static void integers_take_what_they_can_hold_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        ipu_type type;
        double   least, most;
    } ranges[] = {
        {IPU_BOOL, 0, 1},
        {IPU_INT8, -128, 127},
        {IPU_UINT8, 0, 255},
        {IPU_INT16, -32768, 32767},
        {IPU_UINT16, 0, 65535},
        {IPU_INT32, -2147483648.0, 2147483647.0},
        {IPU_UINT32, 0, 4294967295.0},
        {IPU_INT64, -0x1p63, 0x1p63 - 1024},
        {IPU_UINT64, 0, 0x1p64 - 2048},
    };
    char out[8];
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_true(ipu__value_from_double(ranges[i].type, ranges[i].least, out));
        assert_true(ipu__value_from_double(ranges[i].type, ranges[i].most, out));
        double below = ranges[i].least - (ranges[i].least < -0x1p60 ? 2048 : 1);
        assert_false(ipu__value_from_double(ranges[i].type, below, out));
        double above = ranges[i].most + (ranges[i].most > 0x1p60 ? 4096 : 1);
        assert_false(ipu__value_from_double(ranges[i].type, above, out));
        assert_false(ipu__value_from_double(ranges[i].type, 0.5, out));
        assert_false(ipu__value_from_double(ranges[i].type, NAN, out));
    }
    int16_t n;
    assert_true(ipu__value_from_double(IPU_INT16, -300, &n));
    assert_int_equal(n, -300);
    assert_false(ipu__value_from_double(IPU_N_TYPES, 1, out));
}

static uint16_t half_bits(double value)
{
    ipu_half h;
    assert_true(ipu__value_from_double(IPU_HALF, value, &h));
    return h.bits;
}

static void a_double_is_rounded_to_half_once(void **state)
{
    (void)state;
    assert_int_equal(half_bits(1), 0x3c00);
    assert_int_equal(half_bits(1 + 0x1p-11), 0x3c00);               /* a tie: to even */
    assert_int_equal(half_bits(1 + 0x1p-11 + 0x1p-40), 0x3c01);     /* just above it: up */
    assert_int_equal(half_bits(1 + 3 * 0x1p-11 - 0x1p-40), 0x3c01); /* just below the next: down */
    assert_int_equal(half_bits(-1 - 0x1p-11 - 0x1p-40), 0xbc01);
    assert_int_equal(half_bits(1e300), 0x7c00);
    assert_int_equal(half_bits(-INFINITY), 0xfc00);
    assert_int_equal(half_bits(NAN) & 0x7c00, 0x7c00);
    ipu_bfloat16 b;
    assert_true(ipu__value_from_double(IPU_BFLOAT16, 1 + 0x1p-8 + 0x1p-40, &b));
    assert_int_equal(b.bits, 0x3f81);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_take_what_they_can_hold_and_nothing_else),
        cmocka_unit_test(a_double_is_rounded_to_half_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
