/* Rows of half to floats and back: every half, floats between them, ends of rows, and memory beyond them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "op/vector/half.h"

enum { ALL = 1 << 16, STEP = 40, TO_STEP = 37, ROWS = 3 };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void every_half_is_as_it_is_alone(void **unused)
{
    (void)unused;
    ipu_half *halves = malloc(ALL * sizeof *halves), *back = malloc(ALL * sizeof *back);
    float    *floats = malloc(ALL * sizeof *floats);
    assert_true(halves && back && floats);
    for (int i = 0; i < ALL; i++) halves[i].bits = (uint16_t)i;
    IPU__SIMD_PICK(ipu__half_loops_at).widen(halves, ALL, floats, ALL, 1, ALL);
    for (int i = 0; i < ALL; i++) assert_int_equal(bits_of(floats[i]), bits_of(ipu_half_to_float(halves[i])));
    /* From a little beside what halves are, half way, and beyond. */
    for (uint32_t beside = 0; beside < 0x4000; beside += 0x7ff) {
        for (int i = 0; i < ALL; i++) {
            uint32_t bits = bits_of(ipu_half_to_float(halves[i])) + beside;
            memcpy(&floats[i], &bits, sizeof bits);
        }
        IPU__SIMD_PICK(ipu__half_loops_at).narrow(floats, ALL, back, ALL, 1, ALL);
        for (int i = 0; i < ALL; i++) assert_int_equal(back[i].bits, ipu_half_from_float(floats[i]).bits);
    }
    free(halves);
    free(back);
    free(floats);
}

static void rows_end_where_they_end(void **unused)
{
    (void)unused;
    for (int n = 0; n <= TO_STEP; n++) {
        ipu_half from[ROWS * STEP], back[ROWS * STEP];
        float    to[ROWS * TO_STEP];
        memset(to, 0xff, sizeof to);
        memset(back, 0xff, sizeof back);
        for (int i = 0; i < ROWS * STEP; i++) from[i] = ipu_half_from_float((float)i);
        IPU__SIMD_PICK(ipu__half_loops_at).widen(from, STEP, to, TO_STEP, ROWS, n);
        IPU__SIMD_PICK(ipu__half_loops_at).narrow(to, TO_STEP, back, STEP, ROWS, n);
        for (int r = 0; r < ROWS; r++) {
            for (int i = 0; i < TO_STEP; i++)
                assert_int_equal(bits_of(to[r * TO_STEP + i]),
                                 i < n ? bits_of((float)(r * STEP + i)) : UINT32_MAX);
            for (int i = 0; i < STEP; i++)
                assert_int_equal(back[r * STEP + i].bits, i < n ? from[r * STEP + i].bits : 0xffff);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_is_as_it_is_alone),
        cmocka_unit_test(rows_end_where_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
