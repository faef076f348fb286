/* Types, and half and bfloat16 against a reference in double arithmetic; arrays must match bit for bit. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/type.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void sizes_and_names_are_those_of_the_list(void **state)
{
    (void)state;
#define X(constant, text, ctype)                                    \
    assert_int_equal(ipu_type_size(IPU_##constant), sizeof(ctype)); \
    assert_string_equal(ipu_type_name(IPU_##constant), text);       \
    assert_int_equal(ipu_type_find(text), IPU_##constant);          \
    assert_int_equal(IPU_TYPE_OF(ctype), IPU_##constant);
    IPU_TYPE_LIST(X)
#undef X
    assert_int_equal(ipu_type_size(IPU_HALF), 2);
    assert_int_equal(ipu_type_size(IPU_BFLOAT16), 2);
    assert_int_equal(ipu_type_size(IPU_BOOL), 1);
}

static void what_is_no_type_is_said_to_be_none(void **state)
{
    (void)state;
    assert_string_equal(ipu_type_name(IPU_N_TYPES), "?");
    assert_string_equal(ipu_type_name((ipu_type)-1), "?");
    assert_int_equal(ipu_type_size(IPU_N_TYPES), 0);
    assert_int_equal(ipu_type_find("floaty"), IPU_N_TYPES);
    assert_int_equal(ipu_type_find("FLOAT"), IPU_N_TYPES);
    assert_int_equal(ipu_type_find(""), IPU_N_TYPES);
}

/* ---- half ---- */

/* The value of a finite half, from the definition. */
static double half_value(uint16_t bits)
{
    int    exponent = bits >> 10 & 31, fraction = bits & 1023;
    double a = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits & 0x8000 ? -a : a;
}

/* A non-NaN number as a half: counted in units in the last place, rounded by rint. */
static uint16_t half_reference(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double   a    = fabs((double)value);
    int      e;
    if (a >= 65520) return sign | 0x7c00; /* halfway from the largest half to the next step */
    frexp(a, &e);
    int    last  = (e - 1 > -14 ? e - 1 : -14) - 10;
    double units = rint(ldexp(a, -last));
    if (units < 1024) return (uint16_t)(sign | (int)units);
    return (uint16_t)(sign | ((last + 24) * 1024 + (int)units)); /* carries into the exponent */
}

static void check_half_from(uint32_t bits)
{
    float    value = float_of(bits);
    uint16_t found = ipu_half_from_float(value).bits, expected = half_reference(value);
    if (found != expected) fail_msg("%a (%08x): expected %04x, found %04x", value, bits, expected, found);
}

static void every_half_has_its_value(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float    value = ipu_half_to_float((ipu_half){(uint16_t)h});
        uint16_t size  = h & 0x7fff;
        if (size > 0x7c00)
            assert_true(isnan(value) && !signbit(value) == !(h & 0x8000));
        else if (size == 0x7c00)
            assert_int_equal(bits_of(value), h & 0x8000 ? 0xff800000 : 0x7f800000);
        else if ((double)value != half_value((uint16_t)h) || !signbit(value) != !(h & 0x8000))
            fail_msg("half %04x: expected %a, found %a", h, half_value((uint16_t)h), value);
    }
}

static void every_half_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t back = ipu_half_from_float(ipu_half_to_float((ipu_half){(uint16_t)h})).bits;
        bool     nan  = (h & 0x7fff) > 0x7c00; /* NaNs become quiet */
        if (back != (nan ? h | 0x200 : h)) fail_msg("half %04x came back as %04x", h, back);
    }
}

/* At each half, halfway to the next, and one float to either side of both. */
static void floats_at_and_around_every_tie_round_to_even(void **state)
{
    (void)state;
    for (uint16_t h = 0; h < 0x7c00; h++) {
        double   low  = half_value(h);
        double   high = h == 0x7bff ? 65536 : half_value((uint16_t)(h + 1));
        uint32_t at = bits_of((float)low), midway = bits_of((float)((low + high) / 2));
        for (int d = h ? -1 : 0; d <= 1; d++) {
            check_half_from(at + (uint32_t)d);
            check_half_from(0x80000000 | (at + (uint32_t)d));
            check_half_from(midway + (uint32_t)d);
            check_half_from(0x80000000 | (midway + (uint32_t)d));
        }
        check_half_from(midway - 1);
    }
}

static void floats_all_over_the_range_round_like_the_reference(void **state)
{
    (void)state;
    for (uint64_t u = 0; u < (uint64_t)1 << 32; u += 1009) {
        float value = float_of((uint32_t)u);
        if (!isnan(value)) check_half_from((uint32_t)u);
    }
}

static void known_halves(void **state)
{
    (void)state;
    static const struct {
        float    value;
        uint16_t bits;
    } known[] = {
        {0.0f, 0x0000},     {-0.0f, 0x8000},      {1.0f, 0x3c00},       {-2.0f, 0xc000},
        {0.1f, 0x2e66},     {65504.0f, 0x7bff},   {65519.996f, 0x7bff}, {65520.0f, 0x7c00},
        {1e30f, 0x7c00},    {-INFINITY, 0xfc00},  {0x1p-14f, 0x0400},   {0x1p-24f, 0x0001},
        {0x1p-25f, 0x0000}, {0x1.000002p-25f, 1}, {-0x1p-149f, 0x8000}, {0x1.ffep-15f, 0x0400},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint16_t found = ipu_half_from_float(known[i].value).bits;
        if (found != known[i].bits)
            fail_msg("%a: expected %04x, found %04x", known[i].value, known[i].bits, found);
    }
}

static void nan_stays_nan_with_its_sign(void **state)
{
    (void)state;
    static const uint32_t nans[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0x7fa00000};
    for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
        ipu_half     h = ipu_half_from_float(float_of(nans[i]));
        ipu_bfloat16 b = ipu_bfloat16_from_float(float_of(nans[i]));
        assert_true((h.bits & 0x7fff) > 0x7c00);
        assert_true((b.bits & 0x7fff) > 0x7f80);
        assert_int_equal(h.bits >> 15, nans[i] >> 31);
        assert_int_equal(b.bits >> 15, nans[i] >> 31);
    }
}

/* ---- arrays ---- */

enum { CHUNK = 1 << 16 };
static float    floats[CHUNK];
static ipu_half halves[CHUNK];

/* Seven at a time: four, and one by one. */
static void check_short_arrays(void)
{
    enum { N = 7 };
    ipu_half few[N];
    float    back[N];
    for (uint64_t base = 0; base + N <= (uint64_t)1 << 32; base += (uint64_t)N * 4999) {
        for (uint64_t i = 0; i < N; i++) back[i] = float_of((uint32_t)(base + i));
        ipu_half_from_floats(back, few, N);
        for (int i = 0; i < N; i++) assert_int_equal(few[i].bits, ipu_half_from_float(back[i]).bits);
    }
    for (int base = 0; base + N <= 1 << 16; base += N) {
        for (int i = 0; i < N; i++) few[i].bits = (uint16_t)(base + i);
        ipu_half_to_floats(few, back, N);
        for (int i = 0; i < N; i++) assert_int_equal(bits_of(back[i]), bits_of(ipu_half_to_float(few[i])));
    }
}

static void check_arrays(void)
{
    check_short_arrays();
    for (uint64_t base = 0; base < (uint64_t)1 << 32; base += (uint64_t)CHUNK * 2011) {
        for (uint64_t i = 0; i < CHUNK; i++) floats[i] = float_of((uint32_t)(base + i * 2011));
        ipu_half_from_floats(floats, halves, CHUNK);
        for (int i = 0; i < CHUNK; i++)
            if (halves[i].bits != ipu_half_from_float(floats[i]).bits)
                fail_msg("%08x: array %04x, scalar %04x", bits_of(floats[i]), halves[i].bits,
                         ipu_half_from_float(floats[i]).bits);
    }
    for (int i = 0; i < CHUNK; i++) halves[i].bits = (uint16_t)i;
    ipu_half_to_floats(halves, floats, CHUNK);
    for (int i = 0; i < CHUNK; i++) {
        uint32_t array = bits_of(floats[i]), scalar = bits_of(ipu_half_to_float(halves[i]));
        if (array != scalar) fail_msg("half %04x: array %08x, scalar %08x", i, array, scalar);
    }
}

static void arrays_give_the_bits_of_the_scalar(void **state)
{
    (void)state;
    check_arrays();
}

static void rounding_mode_and_flush_to_zero_change_nothing(void **state)
{
    (void)state;
#if defined(__x86_64__)
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040); /* flush to zero, denormals are zero */
    check_arrays();
    assert_int_equal(ipu_half_from_float(0x1p-24f).bits, 1);
    assert_int_equal(bits_of(ipu_half_to_float((ipu_half){1})), bits_of(0x1p-24f));
    _mm_setcsr(before);
#endif
    fesetround(FE_UPWARD);
    check_arrays();
    assert_int_equal(ipu_half_from_float(0.1f).bits, 0x2e66);
    fesetround(FE_TONEAREST);
}

static void arrays_of_any_length_write_just_that_many(void **state)
{
    (void)state;
    for (size_t n = 0; n < 40; n++) {
        float    from[41], back[41];
        ipu_half to[41];
        for (size_t i = 0; i < 41; i++) from[i] = back[i] = (float)i / 8, to[i].bits = 0xdead;
        back[n] = -77;
        ipu_half_from_floats(from, to, n);
        for (size_t i = 0; i < n; i++) assert_int_equal(to[i].bits, ipu_half_from_float(from[i]).bits);
        assert_int_equal(to[n].bits, 0xdead);
        ipu_half_to_floats(to, back, n);
        for (size_t i = 0; i < n; i++) assert_true(back[i] == from[i]);
        assert_true(back[n] == -77);
    }
}

/* ---- bfloat16 ---- */

static void every_bfloat16_survives_the_way_to_float_and_back(void **state)
{
    (void)state;
    for (uint32_t b = 0; b < 65536; b++) {
        float value = ipu_bfloat16_to_float((ipu_bfloat16){(uint16_t)b});
        assert_int_equal(bits_of(value), b << 16);
        bool     nan  = (b & 0x7fff) > 0x7f80;
        uint16_t back = ipu_bfloat16_from_float(value).bits;
        if (back != (nan ? b | 0x40 : b)) fail_msg("bfloat16 %04x came back as %04x", b, back);
    }
}

/* The nearer neighbour wins, or the even one on a tie. */
static void check_bfloat16_from(uint32_t bits)
{
    uint16_t low = (uint16_t)(bits >> 16);
    double   x = float_of(bits), a = float_of((uint32_t)low << 16);
    double   b    = low == 0x7f7f ? 0x1p128 : float_of((low + 1u) << 16);
    uint16_t best = x - a < b - x || (x - a == b - x && low % 2 == 0) ? low : (uint16_t)(low + 1);
    uint16_t plus = ipu_bfloat16_from_float((float)x).bits, minus = ipu_bfloat16_from_float((float)-x).bits;
    if (plus != best) fail_msg("%a: expected %04x, found %04x", x, best, plus);
    assert_int_equal(minus, best | 0x8000);
}

static void bfloat16_rounds_to_the_nearest_ties_to_even(void **state)
{
    (void)state;
    static const uint32_t rests[] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xffff};
    for (uint32_t upper = 0; upper < 0x7f80; upper++)
        for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) check_bfloat16_from(upper << 16 | rests[i]);
    assert_int_equal(ipu_bfloat16_from_float(float_of(0x7f7fffff)).bits, 0x7f80);
    assert_int_equal(ipu_bfloat16_from_float(INFINITY).bits, 0x7f80);
    assert_int_equal(ipu_bfloat16_from_float(3.14159265f).bits, 0x4049);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_names_are_those_of_the_list),
        cmocka_unit_test(what_is_no_type_is_said_to_be_none),
        cmocka_unit_test(every_half_has_its_value),
        cmocka_unit_test(every_half_survives_the_way_to_float_and_back),
        cmocka_unit_test(floats_at_and_around_every_tie_round_to_even),
        cmocka_unit_test(floats_all_over_the_range_round_like_the_reference),
        cmocka_unit_test(known_halves),
        cmocka_unit_test(nan_stays_nan_with_its_sign),
        cmocka_unit_test(arrays_give_the_bits_of_the_scalar),
        cmocka_unit_test(rounding_mode_and_flush_to_zero_change_nothing),
        cmocka_unit_test(arrays_of_any_length_write_just_that_many),
        cmocka_unit_test(every_bfloat16_survives_the_way_to_float_and_back),
        cmocka_unit_test(bfloat16_rounds_to_the_nearest_ties_to_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
