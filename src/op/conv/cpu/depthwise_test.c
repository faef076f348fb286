/* Depthwise convolutions: the same numbers as the reference for every way of cutting rows into vectors.
 * Values are small integers, so that sums are exact in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/conv/cpu/3x3.h"
#include "op/conv/cpu/columns.h"
#include "op/conv/cpu/depthwise.h"

typedef struct shape_case {
    int64_t n, channels, multiplier; /* of x; channels of y for each */
    int64_t x[3], k[3], stride[3], pad[6], dilation[3];
} shape_case;

enum { KINDS = 3 };

typedef struct trial {
    ipu_attribute    with[5];
    ipu__kernel_call call;
    void            *operand[IPU__MAX_OPERANDS];
} trial;

static const ipu__op_def *const ops[KINDS] = {&ipu__op_conv, &ipu__op_conv_input_grad,
                                              &ipu__op_conv_weight_grad};

static ipu_shape with_extents(int64_t n, int64_t channels, const int64_t extent[3])
{
    return IPU_SHAPE(n, channels, extent[0], extent[1], extent[2]);
}

static void make_trial(const shape_case *c, int kind, ipu_type type, trial *t)
{
    int64_t y[3];
    for (int d = 0; d < 3; d++)
        y[d] = (c->x[d] + c->pad[d] + c->pad[d + 3] - c->dilation[d] * (c->k[d] - 1) - 1) / c->stride[d] + 1;
    ipu_shape x_shape = with_extents(c->n, c->channels, c->x);
    ipu_shape y_shape = with_extents(c->n, c->channels * c->multiplier, y);
    ipu_shape w_shape = with_extents(c->channels * c->multiplier, 1, c->k);
    t->with[0]        = IPU__INTS("stride", c->stride, 3);
    t->with[1]        = IPU__INTS("padding", c->pad, 6);
    t->with[2]        = IPU__INTS("dilation", c->dilation, 3);
    t->with[3]        = IPU_INT_ATTRIBUTE("groups", c->channels);
    t->with[4] = kind == IPU__CONV_INPUT_GRAD ? IPU__INTS("size", c->x, 3) : IPU__INTS("kernel", c->k, 3);
    memset(t->operand, 0, sizeof t->operand);
    t->call  = (ipu__kernel_call){.def          = &ops[kind]->kernel,
                                  .attributes   = t->with,
                                  .n_attributes = kind == IPU__CONV_FORWARD ? 4 : 5,
                                  .n_operands   = ops[kind]->kernel.n_operands};
    int last = t->call.n_operands - 1;
    for (int i = 0; i < t->call.n_operands; i++) t->call.operand[i] = (ipu__kernel_value){type, IPU_SHAPE(0)};
    t->call.operand[0].shape = kind == IPU__CONV_INPUT_GRAD ? y_shape : x_shape;
    t->call.operand[1].shape = kind == IPU__CONV_WEIGHT_GRAD ? y_shape : w_shape;
    if (ops[kind]->infer(&t->call, &t->call.operand[last]) != IPU_OK) fail_msg("%s", ipu_message());
    if (t->call.def->check(&t->call) != IPU_OK) fail_msg("%s", ipu_message());
}

/* Exactly as much memory as the operand has, for the address sanitizer. */
static void *make_values(const ipu__kernel_value *v, int seed)
{
    int64_t n = ipu__op_n_elements(&v->shape);
    void   *p = aligned_alloc(64, ((size_t)n * ipu_type_size(v->type) + 63) / 64 * 64 + 64);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        float value = (float)((i * 7 + seed) % 11 % 4 - 1);
        if (v->type == IPU_FLOAT)
            ((float *)p)[i] = value;
        else
            ((ipu_half *)p)[i] = ipu_half_from_float(value);
    }
    return p;
}

static void *run_parts(const trial *t, int kind, int n_parts)
{
    static ipu_status (*const run[KINDS])(const ipu__kernel_call *, void *, void *const *, void *, int,
                                          int) = {ipu__conv_depthwise_forward_run,
                                                  ipu__conv_depthwise_input_grad_run,
                                                  ipu__conv_depthwise_weight_grad_run};
    int    out                                 = t->call.n_operands - 1;
    void  *operand[IPU__MAX_OPERANDS], *state, *scratch;
    size_t bytes = ipu__conv_depthwise_scratch_bytes(&t->call, n_parts);
    assert_true(ipu__conv_depthwise_fits(&t->call, ipu__cpu_machine_here(), n_parts));
    memcpy(operand, t->operand, sizeof operand);
    operand[out] = make_values(&t->call.operand[out], 5);
    scratch      = aligned_alloc(64, bytes / 64 * 64 + 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes);
    assert_int_equal(ipu__conv_depthwise_prepare(&t->call, n_parts, &state), IPU_OK);
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(run[kind](&t->call, state, operand, scratch, i, n_parts), IPU_OK);
    ipu__conv_release(state);
    free(scratch);
    return operand[out];
}

static void check_case(const shape_case *c, int kind, ipu_type type)
{
    trial t;
    make_trial(c, kind, type, &t);
    int       out   = t.call.n_operands - 1;
    ipu_shape shape = t.call.operand[out].shape;
    size_t    bytes = (size_t)ipu__op_n_elements(&shape) * ipu_type_size(type);
    for (int i = 0; i <= out; i++)
        if (i < 2 || i == out) t.operand[i] = make_values(&t.call.operand[i], i);
    t.call.def->ref(&t.call, t.operand);
    for (int n_parts = 1; n_parts <= 3; n_parts += 2) {
        void *found = run_parts(&t, kind, n_parts);
        if (memcmp(found, t.operand[out], bytes) != 0)
            fail_msg(
                "kind %d, type %d, x %lld x %lld, kernel %lld x %lld, stride %lld, padding %lld, %d parts",
                kind, (int)type, (long long)c->x[1], (long long)c->x[2], (long long)c->k[1],
                (long long)c->k[2], (long long)c->stride[2], (long long)c->pad[2], n_parts);
        free(found);
    }
    for (int i = 0; i <= out; i++) free(t.operand[i]);
}

static void check_all(const shape_case *c)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_case(c, kind, IPU_FLOAT);
        check_case(c, kind, IPU_HALF);
    }
}

static void rows_of_any_length_are_the_references(void **unused)
{
    (void)unused;
    for (int64_t width = 3; width <= 50; width++)
        for (int64_t pad = 0; pad <= 2; pad++)
            for (int64_t stride = 1; stride <= 2; stride++) {
                const shape_case c = {
                    2,        3, 1, {1, 8, width}, {1, 3, 3}, {1, stride, stride}, {0, pad, pad, 0, pad, pad},
                    {1, 1, 1}};
                check_all(&c);
            }
}

static void columns_of_any_length_are_the_references(void **unused)
{
    (void)unused;
    for (int64_t height = 1; height <= 12; height++)
        for (int64_t stride = 1; stride <= 2; stride++) {
            const shape_case c = {
                1, 11, 1, {1, height, 41}, {1, 3, 3}, {1, stride, stride}, {0, 1, 1, 0, 1, 1}, {1, 1, 1}};
            check_all(&c);
        }
}

static void kernels_strides_and_multipliers_are_the_references(void **unused)
{
    (void)unused;
    /* clang-format off */
    const shape_case cases[] = {
        {2, 3, 1, {1, 20, 37}, {1, 5, 5}, {1, 1, 1}, {0, 2, 2, 0, 2, 2}, {1, 1, 1}},
        {2, 3, 1, {1, 20, 37}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1, 0, 1, 1}, {1, 1, 1}},
        {1, 2, 1, {1, 40, 41}, {1, 7, 7}, {1, 2, 3}, {0, 3, 3, 0, 3, 2}, {1, 1, 1}},
        {2, 3, 2, {1, 19, 18}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1, 0, 1, 1}, {1, 1, 1}},
        {1, 9, 3, {1, 6, 33},  {1, 3, 3}, {1, 1, 1}, {0, 0, 2, 0, 1, 0}, {1, 1, 1}},
        {1, 2, 1, {1, 24, 24}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2, 0, 2, 2}, {1, 2, 2}},
        {1, 2, 1, {1, 24, 24}, {1, 3, 3}, {1, 1, 1}, {0, -1, -1, 0, 1, -2}, {1, 1, 1}},
        {1, 2, 1, {1, 24, 24}, {1, 3, 3}, {1, 1, 1}, {0, 4, 5, 0, 6, 4}, {1, 1, 1}},
        {1, 2, 1, {1, 1, 100}, {1, 1, 9}, {1, 1, 1}, {0, 0, 4, 0, 0, 4}, {1, 1, 1}},
        {1, 2, 1, {5, 9, 18},  {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
        {1, 2, 1, {5, 9, 18},  {1, 3, 3}, {1, 1, 1}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}},
        {1, 2, 1, {5, 9, 18},  {1, 3, 3}, {2, 1, 1}, {0, 1, 1, 0, 1, 1}, {1, 1, 1}},
        {2, 3, 1, {1, 20, 37}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0, 0, 0, 0}, {1, 1, 1}},
        {2, 3, 1, {1, 20, 37}, {1, 1, 3}, {1, 2, 1}, {0, 0, 1, 0, 0, 1}, {1, 1, 1}},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_all(&cases[i]);
}

/* What a mask leaves out is not multiplied by zero either. */
static void an_infinite_element_stays_where_it_is(void **unused)
{
    (void)unused;
    const shape_case c = {1, 2, 1, {1, 28, 28}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1, 0, 1, 1}, {1, 1, 1}};
    trial            t;
    make_trial(&c, IPU__CONV_WEIGHT_GRAD, IPU_FLOAT, &t);
    for (int i = 0; i < 3; i++) t.operand[i] = make_values(&t.call.operand[i], i);
    float *x = t.operand[0], *dy = t.operand[1];
    for (int i = 0; i < 2 * 28 * 28; i++) dy[i] = 1;
    x[13]               = INFINITY;  /* in the top row, which the taps at the bottom never meet */
    x[28 * 28 + 28 * 5] = -INFINITY; /* in the first column, which the taps on the right never meet */
    float *dw           = run_parts(&t, IPU__CONV_WEIGHT_GRAD, 1);
    for (int k = 0; k < 9; k++) {
        assert_true(k < 6 ? dw[k] == INFINITY : isfinite(dw[k]));
        assert_true(k % 3 < 2 ? dw[9 + k] == -INFINITY : isfinite(dw[9 + k]));
    }
    free(dw);
    for (int i = 0; i < 3; i++) free(t.operand[i]);
}

/* ---- levels of instructions ---- */

#if defined(__x86_64__)
enum { PITCH = 52, ROWS = 9, N_LEVELS = 3 };

static const struct {
    unsigned                   features;
    const ipu__columns_loops  *loops;
    const ipu__conv_3x3_loops *loops_3x3;
} levels[N_LEVELS] = {
    {0, &ipu__columns_loops_at_base, &ipu__conv_3x3_loops_at_base},
    {IPU__SIMD_AVX2, &ipu__columns_loops_at_avx2, &ipu__conv_3x3_loops_at_avx2},
    {IPU__SIMD_AVX512, &ipu__columns_loops_at_avx512, &ipu__conv_3x3_loops_at_avx512},
};

typedef struct numbers {
    float x[PITCH * (ROWS + 3)], dy[PITCH * ROWS], w[9];
} numbers;

static void make_numbers(numbers *n)
{
    for (int i = 0; i < PITCH * (ROWS + 3); i++) n->x[i] = sinf((float)i);
    for (int i = 0; i < PITCH * ROWS; i++) n->dy[i] = sinf((float)i * 1.7f);
    for (int i = 0; i < 9; i++) n->w[i] = sinf((float)i * 2.3f);
}

static void levels_give_the_same_bits(void **unused)
{
    (void)unused;
    static const int64_t tap[] = {0, 1, 2, 3, 4, PITCH, PITCH + 1, PITCH + 2, PITCH + 3, 2 * PITCH};
    static numbers       in;
    make_numbers(&in);
    for (int64_t n = 1; n <= PITCH - 4; n++) {
        float y[N_LEVELS][PITCH * ROWS] = {{0}}, lane[N_LEVELS][10 * 16] = {{0}};
        for (int l = 0; l < N_LEVELS; l++) {
            if (!ipu__simd_has(levels[l].features)) continue;
            levels[l].loops->sum_taps(in.x, PITCH, tap, in.w, 9, 0.1f, y[l], ROWS, n);
            levels[l].loops->dots(in.x, PITCH, tap, 10, in.dy, ROWS, n, lane[l]);
            assert_memory_equal(y[l], y[0], sizeof y[0]);
            assert_memory_equal(lane[l], lane[0], sizeof lane[0]);
        }
    }
}

/* Rows of `n` elements, in an array as long as they are. */
static void check_3x3(const numbers *in, int64_t n, int64_t pad, int64_t stride)
{
    float         y[N_LEVELS][PITCH * ROWS], lane[N_LEVELS][9 * 16] = {{0}};
    const float  *row[ROWS + 2];
    int64_t       n_columns = (n + 2 * pad - 3) / stride + 1, n_rows = (ROWS - 1) / stride + 1;
    ipu__rows_3x3 rows = {row, n, pad, stride, n_rows, n_columns};
    float        *x    = malloc((size_t)(n * (ROWS + 2)) * sizeof *x);
    assert_non_null(x);
    memcpy(x, in->x, (size_t)(n * (ROWS + 2)) * sizeof *x);
    for (int r = 0; r < ROWS + 2; r++) row[r] = x + r * n;
    int first = -1;
    for (int l = 0; l < N_LEVELS; l++) {
        if (!levels[l].loops_3x3->sum || !ipu__simd_has(levels[l].features)) continue;
        if (first < 0) first = l;
        memset(y[l], 0xff, sizeof y[l]);
        levels[l].loops_3x3->sum(&rows, in->w, 0.1f, y[l]);
        levels[l].loops_3x3->dots(&rows, in->dy, lane[l]);
        assert_memory_equal(y[l], y[first], sizeof y[0]);
        assert_memory_equal(lane[l], lane[first], sizeof lane[0]);
    }
    free(x);
}

static void levels_give_the_same_bits_for_3x3(void **unused)
{
    (void)unused;
    static numbers in;
    make_numbers(&in);
    for (int64_t pad = 0; pad <= 2; pad++)
        for (int64_t n = 4; n <= PITCH - 4; n++) {
            check_3x3(&in, n, pad, 1);
            check_3x3(&in, n, pad, 2);
        }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_any_length_are_the_references),
        cmocka_unit_test(columns_of_any_length_are_the_references),
        cmocka_unit_test(kernels_strides_and_multipliers_are_the_references),
        cmocka_unit_test(an_infinite_element_stays_where_it_is),
#if defined(__x86_64__)
        cmocka_unit_test(levels_give_the_same_bits),
        cmocka_unit_test(levels_give_the_same_bits_for_3x3),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
