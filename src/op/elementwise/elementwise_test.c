/* Elementwise ops: accuracy against the C library, the same bits at all instruction levels, limits of types,
 * casts, errors. Gradients and broadcasting are also covered by tests/ops_test. */
#include "op/elementwise/elementwise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/elementwise/chain.h"

enum { N = 2048, N_LEVELS = 3 };

static const char *const names[] = {
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#include "op/elementwise/unary.inc"
#include "op/elementwise/binary.inc"
#undef UNARY
#undef BINARY
};

/* The levels this machine can run. */
static int levels(const ipu__float_blocks *out[N_LEVELS])
{
    int n    = 0;
    out[n++] = &ipu__float_blocks_base;
#if defined(__x86_64__)
    if (ipu__simd_has(IPU__SIMD_AVX2)) out[n++] = &ipu__float_blocks_avx2;
    if (ipu__simd_has(IPU__SIMD_AVX512)) out[n++] = &ipu__float_blocks_avx512;
#endif
    return n;
}

/* Floats in order: neighbours differ by 1. */
static int64_t place(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? -(int64_t)(bits & 0x7fffffff) : bits;
}

static bool gives_floats(int element)
{
    return element != IPU__ELEMENT_isnan && element != IPU__ELEMENT_isinf && element != IPU__ELEMENT_isfinite
        && !(element >= IPU__ELEMENT_equal && element <= IPU__ELEMENT_greater_equal);
}

/* x: floats of all bit patterns, `stride` apart; y: such patterns, and numbers a program has. */
static int make_inputs(uint64_t *next, float *x, float *y)
{
    const unsigned stride = 20011;
    int            n      = 0;
    for (; n < N && *next <= UINT32_MAX; n++, *next += stride) {
        uint32_t bits = (uint32_t)*next, other = bits * 2654435761u;
        memcpy(&x[n], &bits, sizeof bits);
        memcpy(&y[n], &other, sizeof other);
        if (bits % 3) y[n] = (float)((int)(other >> 16) % 200 - 100) / (float)(1 + bits % 4);
    }
    return n;
}

/* Floats computed in several roundings: steps allowed, or an error that is near whatever the result. */
typedef struct allowance {
    int64_t steps;
    double  error;
} allowance;

static allowance allowed(int element)
{
    switch (element) {
    case IPU__ELEMENT_hardswish:
    case IPU__ELEMENT_squared_difference: return (allowance){2, 0};
    case IPU__ELEMENT_gelu: return (allowance){8, 3e-38};
    case IPU__ELEMENT_tanhshrink:
        return (allowance){1, 1e-10}; /* two that cancel near 0, of which tanh is as exact as float needs */
    case IPU__ELEMENT_gelu_slope: return (allowance){1, 3e-7};
    default: return (allowance){1, 0};
    }
}

/* Steps from the double of the C library, rounded; very far if only one is NaN. */
static int64_t distance(float found, double expected)
{
    float rounded = (float)expected;
    if (isnan(found) || isnan(rounded)) return isnan(found) && isnan(rounded) ? 0 : INT64_MAX;
    return llabs(place(found) - place(rounded));
}

static void check_accuracy(int element, allowance within)
{
    static float             x[N], y[N], found[N_LEVELS][N];
    static double            wide_x[N], wide_y[N], expected[N];
    const double             parameters[] = {0.7, 20};
    const ipu__float_blocks *level[N_LEVELS];
    int                      n_levels = levels(level);
    for (uint64_t next = 0; next <= UINT32_MAX;) {
        int n = make_inputs(&next, x, y);
        for (int i = 0; i < n; i++) wide_x[i] = x[i], wide_y[i] = y[i];
        level[0]->f64[element]((const void *[]){wide_x, wide_y}, expected, n, parameters);
        for (int l = 0; l < n_levels; l++)
            level[l]->f32[element]((const void *[]){x, y}, found[l], n, parameters);
        for (int i = 0; i < n; i++) {
            for (int l = 1; l < n_levels; l++)
                if (memcmp(&found[l][i], &found[0][i], sizeof(float)) != 0 && !isnan(found[0][i]))
                    fail_msg("%s(%a, %a): level %d gives %a, level 0 %a", names[element], x[i], y[i], l,
                             found[l][i], found[0][i]);
            if (distance(found[0][i], expected[i]) > within.steps
                && !(fabs(found[0][i] - expected[i]) <= within.error))
                fail_msg("%s(%a, %a) = %a, expected %a", names[element], x[i], y[i], found[0][i],
                         expected[i]);
        }
    }
}

static void floats_are_within_an_ulp_and_alike_on_all_levels(void **unused)
{
    (void)unused;
    for (int element = 0; element < IPU__ELEMENT_where; element++) {
        if (ipu__float_blocks_base.f32[element] && gives_floats(element))
            check_accuracy(element, allowed(element));
    }
}

static void an_element_has_its_bits_wherever_it_stands(void **unused)
{
    (void)unused;
    static float   x[97], all[97], one[97];
    const double   parameters[] = {0.5, 3};
    const unsigned picked[] = {IPU__ELEMENT_exp, IPU__ELEMENT_sin, IPU__ELEMENT_gelu, IPU__ELEMENT_softplus};
    for (int i = 0; i < 97; i++) x[i] = i == 50 ? 3e7f : (float)(i - 48) * 0.37f; /* one angle is large */
    for (size_t e = 0; e < IPU__COUNT(picked); e++) {
        ipu__block_fn run = ipu__element_block(IPU__LANE_F32, (int)picked[e]);
        run((const void *[]){x, x}, all, 97, parameters);
        for (int i = 0; i < 97; i++) run((const void *[]){&x[i], &x[i]}, &one[i], 1, parameters);
        assert_memory_equal(all, one, sizeof all);
    }
}

/* ---- single values ---- */

static uint64_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float    x;
    memcpy(&x, &low, sizeof x);
    return x;
}

static ipu__kernel_call call_of(const char *op, ipu_type type, ipu_shape shape, int n_in)
{
    ipu__kernel_call call = {.def = &ipu__op_find(op)->kernel, .n_operands = n_in};
    for (int i = 0; i < n_in; i++) call.operand[i] = (ipu__kernel_value){type, shape};
    return call;
}

/* Bits of one element, by `ref` and by the implementation, which must agree. */
static uint64_t run_one(ipu__kernel_call *call, const uint64_t *in)
{
    static _Alignas(64) char scratch[1 << 16];
    uint64_t                 by_ref = 0, by_run = 0, x[3] = {0};
    void                    *state, *ref[4], *run[4];
    int                      n_in = ipu__op_of(call->def)->n_in;
    assert_int_equal(ipu__op_of(call->def)->infer(call, &call->operand[n_in]), IPU_OK);
    call->n_operands = n_in + 1;
    assert_int_equal(call->def->check(call), IPU_OK);
    for (int i = 0; i < n_in; i++) {
        x[i]   = in[i];
        ref[i] = run[i] = &x[i];
    }
    ref[n_in] = &by_ref;
    run[n_in] = &by_run;
    call->def->ref(call, ref);
    assert_true(ipu__chain_op_scratch_bytes() <= sizeof scratch);
    assert_int_equal(ipu__element_impl->prepare(call, 1, &state), IPU_OK);
    assert_int_equal(ipu__element_impl->run(call, state, run, scratch, 0, 1), IPU_OK);
    ipu__element_impl->release(state);
    bool is_nan = call->operand[n_in].type == IPU_FLOAT && isnan(float_of(by_ref)) && isnan(float_of(by_run));
    if (!is_nan) assert_int_equal(by_ref, by_run);
    return by_ref;
}

static uint64_t binary(const char *op, ipu_type type, uint64_t x, uint64_t y)
{
    ipu__kernel_call call = call_of(op, type, IPU_SCALAR, 2);
    return run_one(&call, (const uint64_t[]){x, y});
}

static uint64_t unary(const char *op, ipu_type type, uint64_t x)
{
    ipu__kernel_call call = call_of(op, type, IPU_SCALAR, 1);
    return run_one(&call, &x);
}

static void integers_wrap(void **unused)
{
    (void)unused;
    assert_int_equal(binary("add", IPU_INT8, 0x7f, 1), 0x80);
    assert_int_equal(binary("add", IPU_UINT8, 255, 2), 1);
    assert_int_equal(binary("add", IPU_INT16, 0x8000, 0xffff), 0x7fff); /* -32768 - 1 */
    assert_int_equal(binary("mul", IPU_UINT16, 65535, 65535), 1);
    assert_int_equal(binary("add", IPU_INT32, 0x7fffffff, 1), 0x80000000);
    assert_int_equal(binary("mul", IPU_UINT32, UINT32_MAX, UINT32_MAX), 1);
    assert_int_equal(binary("sub", IPU_INT64, (uint64_t)INT64_MIN, 1), INT64_MAX);
    assert_int_equal(binary("add", IPU_UINT64, UINT64_MAX, 1), 0);
    assert_int_equal(unary("neg", IPU_INT8, 0x80), 0x80);
    assert_int_equal(unary("abs", IPU_INT32, 0x80000000), 0x80000000);
    assert_int_equal(unary("neg", IPU_UINT32, 1), UINT32_MAX);
    assert_int_equal(binary("pow", IPU_INT32, 3, 21), 0x6f7c52b3 /* 3^21 modulo 2^32 */);
}

static void integers_divide_as_documented(void **unused)
{
    (void)unused;
    const uint64_t minus_7 = (uint32_t)-7, minus_2 = (uint32_t)-2;
    assert_int_equal((int32_t)binary("div", IPU_INT32, minus_7, 2), -3);
    assert_int_equal((int32_t)binary("floor_div", IPU_INT32, minus_7, 2), -4);
    assert_int_equal((int32_t)binary("fmod", IPU_INT32, minus_7, 2), -1);
    assert_int_equal((int32_t)binary("mod", IPU_INT32, minus_7, 2), 1);
    assert_int_equal((int32_t)binary("mod", IPU_INT32, 7, minus_2), -1);
    assert_int_equal((int32_t)binary("floor_div", IPU_INT32, 7, minus_2), -4);
    assert_int_equal(binary("div", IPU_INT32, 5, 0), 0);
    assert_int_equal(binary("mod", IPU_INT32, 5, 0), 5);
    assert_int_equal(binary("div", IPU_INT64, (uint64_t)INT64_MIN, UINT64_MAX), (uint64_t)INT64_MIN);
    assert_int_equal(binary("div", IPU_INT32, 0x80000000, UINT32_MAX), 0x80000000);
    assert_int_equal(binary("div", IPU_UINT64, UINT64_MAX, 2), INT64_MAX);
    assert_int_equal(binary("pow", IPU_INT32, 2, minus_2), 0);
    assert_int_equal((int32_t)binary("pow", IPU_INT32, UINT32_MAX, minus_7), -1);
}

static void shifts_leave_nothing_but_the_sign(void **unused)
{
    (void)unused;
    assert_int_equal(binary("shift_left", IPU_INT8, 3, 7), 0x80);
    assert_int_equal(binary("shift_left", IPU_INT8, 3, 9), 0);
    assert_int_equal(binary("shift_left", IPU_INT32, 1, 31), 0x80000000);
    assert_int_equal(binary("shift_left", IPU_INT32, 1, 32), 0);
    assert_int_equal(binary("shift_left", IPU_INT32, 1, UINT32_MAX), 0);
    assert_int_equal((int32_t)binary("shift_right", IPU_INT32, (uint32_t)-5, 1), -3);
    assert_int_equal((int32_t)binary("shift_right", IPU_INT32, (uint32_t)-5, 40), -1);
    assert_int_equal(binary("shift_right", IPU_UINT32, 0x80000000, 31), 1);
    assert_int_equal(binary("shift_right", IPU_UINT64, UINT64_MAX, 64), 0);
    assert_int_equal(unary("bitwise_not", IPU_UINT8, 0x0f), 0xf0);
    assert_int_equal(unary("bitwise_not", IPU_BOOL, 1), 0);
}

static float binary_float(const char *op, float x, float y)
{
    return float_of(binary(op, IPU_FLOAT, float_bits(x), float_bits(y)));
}

static void results_are_rounded_to_nearest_even(void **unused)
{
    (void)unused;
    assert_true(binary_float("add", 1, 0x1p-24f) == 1);
    assert_true(binary_float("add", 1, 3 * 0x1p-24f) == 1 + 0x1p-22f);
    /* half: 1 + 2^-11 lies between two, a little more does not; the largest twice is infinity */
    assert_int_equal(binary("add", IPU_HALF, 0x3c00, 0x1000), 0x3c00);
    assert_int_equal(binary("add", IPU_HALF, 0x3c00, 0x1001), 0x3c01);
    assert_int_equal(binary("add", IPU_HALF, 0x7bff, 0x7bff), 0x7c00);
    /* bfloat16: 1 + 2^-8 likewise */
    assert_int_equal(binary("add", IPU_BFLOAT16, 0x3f80, 0x3b80), 0x3f80);
    assert_int_equal(binary("add", IPU_BFLOAT16, 0x3f80, 0x3b81), 0x3f81);
}

static void edges_are_those_of_pytorch(void **unused)
{
    (void)unused;
    assert_true(isnan(binary_float("maximum", NAN, 1)) && isnan(binary_float("maximum", 1, NAN)));
    assert_true(isnan(binary_float("minimum", NAN, 1)) && isnan(binary_float("minimum", 1, NAN)));
    assert_true(isnan(float_of(unary("relu", IPU_FLOAT, float_bits(NAN)))));
    assert_true(isnan(float_of(unary("clip", IPU_FLOAT, float_bits(NAN)))));
    assert_true(binary_float("mod", -7, 3) == 2 && binary_float("fmod", -7, 3) == -1);
    assert_true(binary_float("floor_div", -7, 2) == -4);
    assert_true(binary_float("pow", -2, 3) == -8 && isnan(binary_float("pow", -2, 0.5f)));
    assert_true(binary_float("pow", 0, 0) == 1 && binary_float("pow", 0, -1) == INFINITY);
    assert_true(float_of(unary("round", IPU_FLOAT, float_bits(2.5f))) == 2);
    assert_true(float_of(unary("sign", IPU_FLOAT, float_bits(-0.0f))) == 0);
    assert_true(float_of(unary("softplus", IPU_FLOAT, float_bits(30))) == 30);
    assert_true(float_of(unary("sigmoid", IPU_FLOAT, float_bits(-200))) == 0);
    assert_int_equal(unary("isinf", IPU_HALF, 0xfc00), 1);
    assert_int_equal(unary("isfinite", IPU_HALF, 0x7bff), 1);
}

/* ---- casts ---- */

static uint64_t cast(ipu_type from, uint64_t x, ipu_type to)
{
    ipu__kernel_call    call      = call_of("cast", from, IPU_SCALAR, 1);
    const ipu_attribute attribute = IPU_TEXT_ATTRIBUTE("to", ipu_type_name(to));
    call.attributes               = &attribute;
    call.n_attributes             = 1;
    return run_one(&call, &x);
}

static uint64_t cast_float(float x, ipu_type to) { return cast(IPU_FLOAT, float_bits(x), to); }

static uint64_t cast_double(double x, ipu_type to)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return cast(IPU_DOUBLE, bits, to);
}

static void casts_to_integers_truncate_and_saturate(void **unused)
{
    (void)unused;
    assert_int_equal(cast_float(-1.9f, IPU_INT32), (uint32_t)-1);
    assert_int_equal(cast_float(200, IPU_INT8), 127);
    assert_int_equal(cast_float(-200, IPU_INT8), 0x80);
    assert_int_equal(cast_float(-3, IPU_UINT8), 0);
    assert_int_equal(cast_float(3e9f, IPU_INT32), INT32_MAX);
    assert_int_equal(cast_float(3e9f, IPU_UINT32), 3000000000u);
    assert_int_equal(cast_float(5e9f, IPU_UINT32), UINT32_MAX);
    assert_int_equal(cast_float(1e30f, IPU_INT64), INT64_MAX);
    assert_int_equal(cast_float(-1e30f, IPU_INT64), (uint64_t)INT64_MIN);
    assert_int_equal(cast_float(1e30f, IPU_UINT64), UINT64_MAX);
    assert_int_equal(cast_double(0x1p63 - 0x1p10, IPU_INT64), INT64_MAX - 1023);
    for (int type = IPU_INT8; type <= IPU_UINT64; type++) {
        assert_int_equal(cast_float(NAN, (ipu_type)type), 0);
        assert_int_equal(cast_float(42.7f, (ipu_type)type), 42);
    }
    assert_int_equal(cast(IPU_HALF, 0x7c00, IPU_INT16), INT16_MAX);
}

static void casts_of_integers_wrap_and_floats_round_once(void **unused)
{
    (void)unused;
    assert_int_equal(cast(IPU_INT64, 0x123456789a, IPU_INT16), 0x789a);
    assert_int_equal(cast(IPU_INT8, 0xff, IPU_UINT64), UINT64_MAX);
    assert_int_equal(cast(IPU_UINT8, 0xff, IPU_INT64), 255);
    assert_int_equal(cast(IPU_INT32, 0x100, IPU_BOOL), 1);
    assert_int_equal(cast_float(NAN, IPU_BOOL), 1);
    assert_int_equal(cast_float(-0.0f, IPU_BOOL), 0);
    assert_int_equal(cast(IPU_BOOL, 1, IPU_HALF), 0x3c00);
    assert_true(float_of(cast(IPU_INT64, (UINT64_C(1) << 60) + (UINT64_C(1) << 36) + 1, IPU_FLOAT))
                == 0x1p60f + 0x1p37f);
    /* a double just over the middle of two halves: by way of float it would go down */
    assert_int_equal(cast_double(1 + 0x1p-11 + 0x1p-40, IPU_HALF), 0x3c01);
    assert_int_equal(cast_double(1 + 0x1p-11, IPU_HALF), 0x3c00);
    assert_int_equal(cast_double(1 + 0x1p-8 + 0x1p-50, IPU_BFLOAT16), 0x3f81);
    assert_int_equal(cast_double(1e300, IPU_HALF), 0x7c00);
}

/* `count` roundings of `value`, by the reference and in parts. */
static void round_many(float value, int64_t key, int count, float *x, ipu_half *out, ipu_half *again)
{
    uint32_t         seed[2] = {7, 9}, scratch[1024];
    ipu_attribute    a       = IPU_INT_ATTRIBUTE("key", key);
    ipu__kernel_call call    = call_of("cast_stochastic", IPU_FLOAT, IPU_SHAPE(count), 3);
    for (int i = 0; i < count; i++) x[i] = value;
    call.operand[1]   = (ipu__kernel_value){IPU_UINT32, IPU_SHAPE(2)};
    call.operand[2]   = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.attributes   = &a;
    call.n_attributes = 1;
    assert_int_equal(ipu__op_of(call.def)->infer(&call, &call.operand[3]), IPU_OK);
    call.n_operands = 4;
    call.def->ref(&call, (void *[]){x, seed, NULL, out});
    for (int part = 0; part < 3; part++)
        ipu__cpu_impls_of(call.def).at->run(&call, NULL, (void *[]){x, seed, NULL, again}, scratch, part, 3);
    assert_memory_equal(out, again, (size_t)count * sizeof *out);
}

/* With n roundings of a value that lies at p between two halves, one unit apart, the mean has a standard deviation of
 * sqrt(p (1 - p) / n) units. */
static void stochastic_casts_keep_halves_and_the_mean(void **unused)
{
    (void)unused;
    enum { COUNT = 40000 };
    static float    x[COUNT];
    static ipu_half out[COUNT], again[COUNT], other[COUNT];
    const float values[] = {1 + 0x1p-12f, -3.0001f,    0.3e-6f,     65503,   -65503, 1.5f,     0x1p-24f, 0,
                            0x1p-25f,     -0x1.8p-26f, 0x1.ffp-15f, 6.1e-5f, -1e-3f, 2049.25f, 1e-7f};
    for (size_t v = 0; v < IPU__COUNT(values); v++) {
        double unit = values[v] == 0 ? 0x1p-24 : fmax(ldexp(1, ilogb(values[v]) - 10), 0x1p-24);
        double down = floor(fabs(values[v]) / unit), p = fabs(values[v]) / unit - down, sum = 0;
        round_many(values[v], 0, COUNT, x, out, again);
        for (int i = 0; i < COUNT; i++) {
            double y = fabs((double)ipu_half_to_float(out[i])) / unit;
            assert_true(y == down || (p > 0 && y == down + 1));
            assert_true(signbit(ipu_half_to_float(out[i])) == signbit(values[v]));
            sum += y - down;
        }
        assert_true(fabs(sum / COUNT - p) <= 4 * sqrt(p * (1 - p) / COUNT));
    }
    round_many(1 + 0x1p-12f, 0, COUNT, x, out, again);
    round_many(1 + 0x1p-12f, 1, COUNT, x, other, again);
    assert_memory_not_equal(out, other, sizeof out); /* ops draw numbers of their own */
}

static void stochastic_casts_of_what_no_half_is_next_to(void **unused)
{
    (void)unused;
    static const struct {
        float    x;
        uint16_t bits;
    } cases[] = {{65504, 0x7bff}, {65519, 0x7bff}, {65520, 0x7c00}, {-1e9f, 0xfc00}, {INFINITY, 0x7c00}};
    float    x[2];
    ipu_half out[2], again[2];
    for (size_t i = 0; i < IPU__COUNT(cases); i++) {
        round_many(cases[i].x, 0, 2, x, out, again);
        assert_int_equal(out[0].bits, cases[i].bits);
    }
    round_many(NAN, 0, 2, x, out, again);
    assert_true(isnan(ipu_half_to_float(out[1])));
}

/* ---- errors ---- */

static void refuse(const char *op, ipu__kernel_value x, ipu__kernel_value y, const char *message)
{
    ipu__kernel_call  call = {.def = &ipu__op_find(op)->kernel, .n_operands = 2, .operand = {x, y}};
    ipu__kernel_value out;
    assert_int_equal(ipu__op_of(call.def)->infer(&call, &out), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
}

static void calls_that_make_no_sense_are_refused(void **unused)
{
    (void)unused;
    const ipu__kernel_value f = {IPU_FLOAT, IPU_SHAPE(3, 4)}, g = {IPU_FLOAT, IPU_SHAPE(4, 3)};
    const ipu__kernel_value h = {IPU_HALF, IPU_SHAPE(3, 4)}, b = {IPU_BOOL, IPU_SHAPE(3)};
    refuse("add", f, g,
           "add: \"y\" float[4,3] does not broadcast with [3,4]: dimensions, counted from the last, must be "
           "equal or 1");
    refuse("mul", f, h, "mul: \"x\" and \"y\" must have one type, found float[3,4] and half[3,4]: cast one");
    refuse("add", b, b, "add: \"x\" must be a number, found bool[3]");
    refuse("logical_and", f, f, "logical_and: \"x\" must be bool, found float[3,4]");
    refuse("shift_left", f, f, "shift_left: \"x\" must be an integer, found float[3,4]");
    refuse("atan2", (ipu__kernel_value){IPU_INT32, IPU_SHAPE(1)},
           (ipu__kernel_value){IPU_INT32, IPU_SHAPE(1)},
           "atan2: \"x\" must be half, bfloat16, float or double, found int32[1]");
    refuse("where", f, f, "where: \"condition\" must be bool, found float[3,4]");
}

/* ---- prices: facts of PopLibs, worked out by hand ---- */

static int64_t cycles_of(const char *op, ipu_type type, int n_in, int64_t n)
{
    ipu_target       target;
    ipu__kernel_plan plan;
    ipu__kernel_call call = call_of(op, type, IPU_SHAPE(n * 1472), n_in); /* n on each tile of a GC200 */
    call.n_operands       = n_in + 1;
    call.operand[n_in]    = call.operand[0];
    assert_int_equal(ipu_target_find("gc200", 0, &target), IPU_OK);
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.n_tiles, 1472);
    assert_int_equal(plan.bytes_received, 0);
    return plan.cycles;
}

static void cycles_are_those_of_poplibs(void **unused)
{
    (void)unused;
    assert_int_equal(cycles_of("add", IPU_FLOAT, 2, 1200), 1985);
    assert_int_equal(cycles_of("add", IPU_HALF, 2, 1200), 1067);
    assert_int_equal(cycles_of("relu", IPU_FLOAT, 1, 1200), 20 + 6 * (17 + 100 * 3));
    assert_int_equal(cycles_of("exp", IPU_HALF, 1, 1200), 20 + 6 * (33 + 50 * 4));
    assert_int_equal(cycles_of("abs", IPU_FLOAT, 1, 1200), 20 + 6 * (17 + 200 * 5));
}

static void what_is_broadcast_is_exchanged(void **unused)
{
    (void)unused;
    ipu_target       target;
    ipu__kernel_plan plan;
    ipu__kernel_call call = call_of("add", IPU_FLOAT, IPU_SHAPE(1472, 100), 2);
    call.operand[1]       = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(100)};
    call.operand[2]       = call.operand[0];
    call.n_operands       = 3;
    assert_int_equal(ipu_target_find("gc200", 0, &target), IPU_OK);
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.bytes_received, 400);
    assert_int_equal(plan.bytes_sent, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_within_an_ulp_and_alike_on_all_levels),
        cmocka_unit_test(an_element_has_its_bits_wherever_it_stands),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(integers_divide_as_documented),
        cmocka_unit_test(shifts_leave_nothing_but_the_sign),
        cmocka_unit_test(results_are_rounded_to_nearest_even),
        cmocka_unit_test(edges_are_those_of_pytorch),
        cmocka_unit_test(casts_to_integers_truncate_and_saturate),
        cmocka_unit_test(casts_of_integers_wrap_and_floats_round_once),
        cmocka_unit_test(stochastic_casts_keep_halves_and_the_mean),
        cmocka_unit_test(stochastic_casts_of_what_no_half_is_next_to),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
        cmocka_unit_test(cycles_are_those_of_poplibs),
        cmocka_unit_test(what_is_broadcast_is_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
