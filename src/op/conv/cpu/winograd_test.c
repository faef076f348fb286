/* Winograd's convolution against double sums: every layout, parts, paddings, edges of tiles, epilogues; its
 * accuracy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/conv/cpu/winograd.h"

/* ---- calls ---- */

typedef struct conv_case {
    int64_t     n, in, out, x[2], padding[4];
    int         bias;
    const char *epilogue; /* NULL: none */
    bool        is_strided;
} conv_case;

typedef struct bench {
    ipu_attribute    with[4];
    int64_t          extent[2], stride[2];
    ipu__kernel_call call;
    size_t           n[IPU__MAX_OPERANDS];
    float           *plain[IPU__MAX_OPERANDS];
    double          *expected;
    int              out;
} bench;

static uint64_t seed = 1;

static float number(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(seed >> 40) * 0x1p-23 - 1);
}

static const ipu__op_def *op_of(ipu__conv_kind kind)
{
    return kind == IPU__CONV_FORWARD    ? &ipu__op_conv
         : kind == IPU__CONV_INPUT_GRAD ? &ipu__op_conv_input_grad
                                        : &ipu__op_conv_weight_grad;
}

static void make_call(bench *b, const conv_case *c, ipu__conv_kind kind)
{
    const ipu__op_def *op = op_of(kind);
    ipu_shape          x = IPU_SHAPE(c->n, c->in, c->x[0], c->x[1]), w = IPU_SHAPE(c->out, c->in, 3, 3);
    int64_t            stride = c->is_strided ? 2 : 1, extent[2];
    for (int d = 0; d < 2; d++) extent[d] = (c->x[d] + c->padding[d] + c->padding[2 + d] - 3) / stride + 1;
    ipu_shape y = IPU_SHAPE(c->n, c->out, extent[0], extent[1]);
    b->call     = (ipu__kernel_call){
            .def = &op->kernel, .attributes = b->with, .n_operands = op->kernel.n_operands};
    b->out       = op->n_in;
    b->with[0]   = IPU__INTS("padding", c->padding, 4);
    b->with[1]   = IPU__INTS("stride", b->stride, 2);
    b->stride[0] = b->stride[1] = stride;
    b->call.n_attributes        = 2;
    for (int i = 0; i < b->call.n_operands; i++)
        b->call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    b->call.operand[0].shape      = kind == IPU__CONV_INPUT_GRAD ? y : x;
    b->call.operand[1].shape      = kind == IPU__CONV_WEIGHT_GRAD ? y : w;
    b->call.operand[b->out].shape = kind == IPU__CONV_FORWARD ? y : kind == IPU__CONV_INPUT_GRAD ? x : w;
    for (int d = 0; d < 2; d++) b->extent[d] = kind == IPU__CONV_INPUT_GRAD ? c->x[d] : 3;
    if (kind != IPU__CONV_FORWARD)
        b->with[b->call.n_attributes++] = IPU__INTS(kind == IPU__CONV_INPUT_GRAD ? "size" : "kernel",
                                                    b->extent, 2);
    if (kind != IPU__CONV_FORWARD) return;
    if (c->bias) b->call.operand[IPU__CONV_BIAS].shape = IPU_SHAPE(c->out);
    if (!c->epilogue) return;
    b->with[b->call.n_attributes++] = IPU_TEXT_ATTRIBUTE("epilogue", c->epilogue);
    if (strstr(c->epilogue, "a1")) b->call.operand[IPU__CONV_BIAS + 1].shape = y;
    if (strstr(c->epilogue, "a2")) b->call.operand[IPU__CONV_BIAS + 2].shape = IPU_SHAPE(c->out, 1, 1);
}

/* Numbers to work on, and by `ref`, in double, what is to come of them. */
static void make_bench(bench *b, const conv_case *c, ipu__conv_kind kind)
{
    ipu__kernel_call twin;
    void            *wide[IPU__MAX_OPERANDS];
    make_call(b, c, kind);
    if (b->call.def->check(&b->call) != IPU_OK) fail_msg("%s", ipu_message());
    twin = b->call;
    for (int i = 0; i < b->call.n_operands; i++) {
        b->n[i]              = (size_t)ipu__op_n_elements(&b->call.operand[i].shape);
        b->plain[i]          = calloc(b->n[i] + 16, sizeof(float));
        wide[i]              = calloc(b->n[i] + 1, sizeof(double));
        twin.operand[i].type = IPU_DOUBLE;
        assert_true(b->plain[i] && wide[i]);
        for (size_t k = 0; k < b->n[i] && i != b->out; k++)
            ((double *)wide[i])[k] = b->plain[i][k] = number();
    }
    twin.def->ref(&twin, wide);
    for (int i = 0; i < b->call.n_operands; i++)
        if (i != b->out) free(wide[i]);
    b->expected = wide[b->out];
}

static void free_bench(bench *b)
{
    for (int i = 0; i < b->call.n_operands; i++) free(b->plain[i]);
    free(b->expected);
}

/* ---- layouts ---- */

/* Where element `i` of the plain values lies in a blocked buffer. */
static size_t blocked_at(const ipu_shape *s, size_t i)
{
    size_t plane = (size_t)(s->dim[2] * s->dim[3]), channel = i / plane, at = i % plane;
    return (channel / 16 * plane + at) * 16 + channel % 16;
}

static float *aligned_floats(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p / 64 + 1) * 64);
    assert_non_null(p);
    memset(p, 0xff, n * sizeof *p);
    return p;
}

static const ipu__cpu_impl *winograd(const ipu__kernel_call *call)
{
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.at[i].head.name, "winograd") == 0) return &all.at[i];
    fail_msg("no such implementation");
    return NULL;
}

/* Runs it in `n_parts`, the last first, and gives its result in plain order. */
static float *run(const bench *b, const ipu__kernel_call *call, int n_parts)
{
    const ipu__cpu_impl *impl                       = winograd(call);
    void                *operand[IPU__MAX_OPERANDS] = {0}, *state = NULL;
    size_t               bytes   = impl->scratch_bytes(call, n_parts);
    float               *scratch = aligned_floats(bytes / sizeof(float)), *result;
    for (int i = 0; i < call->n_operands; i++) {
        float *to = operand[i] = aligned_floats(b->n[i] + 16);
        for (size_t k = 0; k < b->n[i] && i != b->out; k++)
            to[call->layout[i] == IPU__LAYOUT_BLOCKED ? blocked_at(&call->operand[i].shape, k) : k] =
                b->plain[i][k];
    }
    if (impl->prepare(call, n_parts, &state) != IPU_OK) fail_msg("%s", ipu_message());
    for (int i = n_parts - 1; i >= 0; i--) {
        memset(scratch, 0xff, bytes);
        assert_int_equal(impl->run(call, state, operand, scratch, i, n_parts), IPU_OK);
    }
    impl->release(state);
    result            = aligned_floats(b->n[b->out] + 16);
    const float *from = operand[b->out];
    for (size_t k = 0; k < b->n[b->out]; k++)
        result[k] =
            from[call->layout[b->out] == IPU__LAYOUT_BLOCKED ? blocked_at(&call->operand[b->out].shape, k)
                                                             : k];
    for (int i = 0; i < call->n_operands; i++) free(operand[i]);
    free(scratch);
    return result;
}

/* The largest error, in parts of the root mean square of the results. */
static double error_of(const bench *b, const float *found)
{
    double worst = 0, squares = 0;
    size_t n = b->n[b->out];
    for (size_t i = 0; i < n; i++) {
        double e = fabs(found[i] - b->expected[i]);
        squares += b->expected[i] * b->expected[i];
        if (!(e <= worst)) worst = e;
    }
    return worst / sqrt(squares / (double)n);
}

/* ---- tests ---- */

/* Each of the operands that may be blocked is so or not, by the bits of `blocked`; those that are tied
 * together. */
static ipu__kernel_call with_layouts(const bench *b, unsigned blocked)
{
    const ipu__cpu_impl *impl = winograd(&b->call);
    ipu__kernel_call     call = b->call;
    int                  bit = 1, tied = 0;
    for (int i = 0; i < call.n_operands; i++) {
        ipu__kernel_layouts may = impl->layouts(&b->call, 1, i);
        assert_true(may.takes & IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN));
        if (!ipu__kernel_has(&call, i) || !(may.takes & IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED))) continue;
        unsigned at = may.tied ? 0 : (unsigned)bit++;
        tied += may.tied;
        call.layout[i] = blocked >> at & 1 ? IPU__LAYOUT_BLOCKED : IPU__LAYOUT_PLAIN;
    }
    assert_true(tied <= 2);
    return call;
}

static void check_case(const conv_case *c, ipu__conv_kind kind, int parts)
{
    bench  b;
    float *first = NULL;
    make_bench(&b, c, kind);
    for (unsigned blocked = 0; blocked < 8; blocked++) {
        ipu__kernel_call call  = with_layouts(&b, blocked);
        float           *found = run(&b, &call, parts);
        if (!(error_of(&b, found) < 2e-5))
            fail_msg("%s [%d,%d->%d,%d,%d], layouts %u, %d parts: %g", call.def->name, (int)c->n, (int)c->in,
                     (int)c->out, (int)c->x[0], (int)c->x[1], blocked, parts, error_of(&b, found));
        if (!first) first = found;
        assert_memory_equal(found, first, b.n[b.out] * sizeof *found);
        if (found != first) free(found);
    }
    free(first);
    free_bench(&b);
}

static bool is_here(void)
{
    return ipu__xsmm_works(ipu__cpu_features()) && IPU__SIMD_PICK(ipu__wino_loops_at).input != NULL;
}

static void all_layouts_give_the_same_in_any_number_of_parts(void **unused)
{
    (void)unused;
    static const conv_case cases[] = {
        {1, 16, 16, {4, 4}, {1, 1, 1, 1}, 0, NULL, false},
        {3, 16, 32, {9, 14}, {1, 1, 1, 1}, 1, "relu a0; out t0", false},
        {2, 32, 16, {12, 12}, {0, 0, 0, 0}, 1, "add a0 a1; relu t0; out t1", false},
        {2, 32, 48, {7, 7}, {2, 2, 2, 2}, 0, "add a1 a0; out t0", false},
        {1, 80, 144, {5, 70}, {0, 1, 2, 0}, 1, "abs a0; out t0", false},
        {1, 160, 208, {3, 3}, {1, 1, 1, 1}, 0, NULL, false},
        {2, 16, 48, {6, 6}, {1, 1, 1, 1}, 1, "mul a0 a2; add t0 a1; relu t1; out t2", false},
        {2, 16, 32, {6, 6}, {1, 1, 1, 1}, 0, "div a0 a2; sub t0 a1; out t1", false},
        {20, 16, 96, {3, 6}, {1, 3, 4, 0}, 1, NULL, false},
        {5, 48, 16, {1, 1}, {1, 1, 1, 1}, 0, NULL, false},
        {3, 32, 64, {13, 13}, {0, 0, 0, 0}, 0, NULL, false}, /* from here on d_y has fewer tiles than d_x */
        {2, 16, 48, {9, 6}, {0, 0, 1, 0}, 0, NULL, false},
        {7, 16, 16, {5, 9}, {1, 0, 0, 0}, 0, NULL, false},
        {2, 16, 32, {8, 8}, {1, 1, 1, 1}, 1, "relu a0; out t0", true},
        {1, 48, 80, {21, 34}, {0, 0, 0, 0}, 0, "add a0 a1; out t0", true},
        {3, 32, 16, {5, 3}, {2, 1, 0, 2}, 0, NULL, true},
        {9, 256, 160, {7, 7}, {1, 1, 1, 1}, 0, NULL, true},
    };
    if (!is_here()) skip();
    for (size_t i = 0; i < IPU__COUNT(cases); i++)
        for (int kind = 0; kind < 3; kind++)
            for (int parts = 1; parts <= 5 && !(kind > 0 && cases[i].is_strided); parts++)
                check_case(&cases[i], (ipu__conv_kind)kind, parts);
}

/* Sums of 512 x 9 products of numbers from all over [-1, 1]: direct sums in float are off by up to 5e-6. */
static void errors_are_small(void **unused)
{
    (void)unused;
    static const conv_case c = {1, 512, 16, {8, 8}, {1, 1, 1, 1}, 0, NULL, false};
    if (!is_here()) skip();
    bench b;
    make_bench(&b, &c, IPU__CONV_FORWARD);
    float *found = run(&b, &b.call, 1);
    print_message("largest error over 512 channels: %.2g\n", error_of(&b, found));
    assert_true(error_of(&b, found) < 2.5e-5);
    free(found);
    free_bench(&b);
}

static bool fits(const conv_case *c, ipu__conv_kind kind, unsigned features, int n_parts)
{
    bench b;
    make_call(&b, c, kind);
    return winograd(&b.call)->head.fits(&b.call, &(ipu__cpu_machine){features}, n_parts);
}

static void it_is_taken_where_it_pays(void **unused)
{
    (void)unused;
    conv_case resnet = {32, 64, 64, {32, 32}, {1, 1, 1, 1}, 0, NULL, false};
    if (!is_here()) skip();
    for (int kind = 0; kind < 3; kind++) {
        assert_true(fits(&resnet, (ipu__conv_kind)kind, ipu__cpu_features(), 2));
        assert_false(fits(&resnet, (ipu__conv_kind)kind, 0, 2));
    }
    conv_case odd = resnet, small = {1, 512, 512, {3, 3}, {0, 0, 0, 0}, 0, NULL, false};
    odd.in = 40;
    assert_false(fits(&odd, IPU__CONV_FORWARD, ipu__cpu_features(), 2));
    assert_false(
        fits(&small, IPU__CONV_FORWARD, ipu__cpu_features(), 2)); /* transforming the weights costs more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts_give_the_same_in_any_number_of_parts),
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(it_is_taken_where_it_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
