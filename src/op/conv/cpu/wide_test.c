/* Convolutions of 16-bit types by implementations for floats: against double sums, in parts, with bias and epilogue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sanitized.h"
#include "base/simd.h"
#include "op/conv/cpu/wide.h"
#include "op/product/xsmm.h"

typedef struct conv_case {
    int64_t n, in, out, x[2], k, padding[2];
    bool    bias;
} conv_case;

/* Tiles of 3x3; sixteen images in lanes, of which some or all have room at once; more images than have room; fewer
 * than parts; one tap. */
static const conv_case cases[] = {
    {4, 32, 32, {12, 10}, 3, {1, 1}, true},   {7, 16, 48, {9, 9}, 3, {0, 0}, false},
    {32, 1, 6, {12, 12}, 3, {0, 0}, true},    {64, 6, 8, {20, 20}, 5, {0, 0}, true},
    {48, 64, 64, {14, 14}, 3, {1, 1}, false}, {1, 32, 64, {16, 16}, 3, {1, 1}, true},
    {1, 48, 96, {12, 14}, 1, {0, 0}, false},  {5, 32, 32, {12, 12}, 1, {0, 0}, true},
};

enum { N_CASES = sizeof cases / sizeof *cases, MOST_PARTS = 3 };

typedef struct bench {
    ipu_attribute    with[3];
    int64_t          extent[2];
    ipu__kernel_call call;
    size_t           n[IPU__MAX_OPERANDS];
    void            *operand[IPU__MAX_OPERANDS];
    double          *expected;
    int              out;
} bench;

static const ipu__op_def *const ops[] = {
    [IPU__CONV_FORWARD]     = &ipu__op_conv,
    [IPU__CONV_INPUT_GRAD]  = &ipu__op_conv_input_grad,
    [IPU__CONV_WEIGHT_GRAD] = &ipu__op_conv_weight_grad,
};

static void make_call(bench *b, const conv_case *c, ipu__conv_kind kind, ipu_type type, const char *epilogue)
{
    ipu_shape x = IPU_SHAPE(c->n, c->in, c->x[0], c->x[1]), w = IPU_SHAPE(c->out, c->in, c->k, c->k);
    ipu_shape y = IPU_SHAPE(c->n, c->out, c->x[0] + 2 * c->padding[0] - c->k + 1,
                            c->x[1] + 2 * c->padding[1] - c->k + 1);
    b->out      = ops[kind]->n_in;
    b->call     = (ipu__kernel_call){.def          = &ops[kind]->kernel,
                                     .attributes   = b->with,
                                     .n_attributes = 1,
                                     .n_operands   = ops[kind]->kernel.n_operands};
    b->with[0]  = IPU__INTS("padding", c->padding, 2);
    for (int i = 0; i < b->call.n_operands; i++) b->call.operand[i] = (ipu__kernel_value){type, IPU_SHAPE(0)};
    b->call.operand[0].shape      = kind == IPU__CONV_INPUT_GRAD ? y : x;
    b->call.operand[1].shape      = kind == IPU__CONV_WEIGHT_GRAD ? y : w;
    b->call.operand[b->out].shape = kind == IPU__CONV_FORWARD ? y : kind == IPU__CONV_INPUT_GRAD ? x : w;
    for (int d = 0; d < 2; d++) b->extent[d] = kind == IPU__CONV_INPUT_GRAD ? c->x[d] : c->k;
    if (kind != IPU__CONV_FORWARD) {
        b->with[b->call.n_attributes++] = IPU__INTS(kind == IPU__CONV_INPUT_GRAD ? "size" : "kernel",
                                                    b->extent, 2);
        return;
    }
    if (c->bias) b->call.operand[IPU__CONV_BIAS].shape = IPU_SHAPE(c->out);
    if (epilogue) b->with[b->call.n_attributes++] = IPU_TEXT_ATTRIBUTE("epilogue", epilogue);
    if (epilogue && strstr(epilogue, "a3")) {
        b->call.operand[IPU__CONV_BIAS + 1].shape = IPU_SHAPE(c->out, 1, 1);
        b->call.operand[IPU__CONV_BIAS + 2].shape = IPU_SHAPE(1);
        b->call.operand[IPU__CONV_BIAS + 3].shape = y;
    }
}

/* 16-bit numbers to work on, and by `ref`, in double, what is to come of them. */
static void make_bench(bench *b, const conv_case *c, ipu__conv_kind kind, ipu_type type, const char *epilogue)
{
    void    *wide[IPU__MAX_OPERANDS];
    uint64_t seed = 1;
    make_call(b, c, kind, type, epilogue);
    if (b->call.def->check(&b->call) != IPU_OK) fail_msg("%s", ipu_message());
    ipu__kernel_call twin = b->call;
    for (int i = 0; i < b->call.n_operands; i++) {
        size_t n   = (size_t)ipu__op_n_elements(&b->call.operand[i].shape);
        float *all = calloc(n + 1, sizeof *all);
        wide[i]    = calloc(n + 1, sizeof(double));
        b->n[i]    = n;
        assert_non_null(b->operand[i] = aligned_alloc(64, (n * 2 / 64 + 1) * 64));
        assert_true(all && wide[i]);
        for (size_t k = 0; k < n; k++) {
            seed   = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            all[k] = (float)((double)(seed >> 40) * 0x1p-23 - 1);
        }
        ipu__from_floats(type, all, b->operand[i], (int64_t)n);
        ipu__to_floats(type, b->operand[i], all, (int64_t)n);
        for (size_t k = 0; k < n; k++) ((double *)wide[i])[k] = all[k];
        twin.operand[i].type = IPU_DOUBLE;
        free(all);
    }
    twin.def->ref(&twin, wide);
    b->expected = wide[b->out];
    for (int i = 0; i < b->call.n_operands; i++)
        if (i != b->out) free(wide[i]);
}

static void free_bench(bench *b)
{
    for (int i = 0; i < b->call.n_operands; i++) free(b->operand[i]);
    free(b->expected);
}

/* In parts, the last first, into what was not a number before. */
static void run(bench *b, int n_parts)
{
    void  *state;
    size_t bytes   = ipu__conv_wide_scratch_bytes(&b->call, n_parts);
    void  *scratch = aligned_alloc(64, (bytes / 64 + 1) * 64);
    assert_non_null(scratch);
    memset(scratch, 0xff, bytes);
    memset(b->operand[b->out], 0xff, b->n[b->out] * 2);
    assert_int_equal(ipu__conv_wide_prepare(&b->call, n_parts, &state), IPU_OK);
    for (int i = n_parts - 1; i >= 0; i--)
        assert_int_equal(ipu__conv_wide_run(&b->call, state, b->operand, scratch, i, n_parts), IPU_OK);
    ipu__conv_wide_release(state);
    free(scratch);
}

/* `times`: that it is rounded; then of sums that cancel each other. */
static void compare(const bench *b, ipu_type type, int times)
{
    float *found = calloc(b->n[b->out] + 1, sizeof *found);
    double most = 0, unit = type == IPU_HALF ? 0x1p-11 : 0x1p-8;
    assert_non_null(found);
    ipu__to_floats(type, b->operand[b->out], found, (int64_t)b->n[b->out]);
    for (size_t i = 0; i < b->n[b->out]; i++) most = fmax(most, fabs(b->expected[i]));
    for (size_t i = 0; i < b->n[b->out]; i++) {
        double bound = unit * (times * fabs(b->expected[i]) + (times > 1 ? 1 : 0.02) * most);
        if (!(fabs(found[i] - b->expected[i]) <= bound))
            fail_msg("element %zu of %zu: %g, expected %g", i, b->n[b->out], (double)found[i],
                     b->expected[i]);
    }
    free(found);
}

static int check(const conv_case *c, ipu__conv_kind kind, ipu_type type, const char *epilogue)
{
    bench b;
    int   n_runs = 0;
    make_call(&b, c, kind, type, epilogue);
    for (int parts = 1; parts <= MOST_PARTS; parts++) {
        if (!ipu__conv_wide_fits(&b.call, ipu__cpu_machine_here(), parts)) continue;
        if (n_runs++ == 0) make_bench(&b, c, kind, type, epilogue); /* which takes longer than all else */
        run(&b, parts);
        compare(&b, type, epilogue && strstr(epilogue, "neg") ? 4 : 1);
    }
    if (n_runs) free_bench(&b);
    return n_runs;
}

static void results_are_those_of_double_sums_rounded(void **unused)
{
    (void)unused;
    int n_runs[3] = {0};
    for (int i = 0; i < N_CASES; i++)
        for (int kind = 0; kind < 3; kind++) {
            n_runs[kind] += check(&cases[i], (ipu__conv_kind)kind, IPU_HALF, NULL);
            n_runs[kind] += check(&cases[i], (ipu__conv_kind)kind, IPU_BFLOAT16, NULL);
        }
    if (!ipu__simd_has(IPU__SIMD_AVX512)) skip();
    for (int kind = 0; kind < 3; kind++) assert_true(n_runs[kind] >= 12);
}

static void an_epilogue_works_on_the_result(void **unused)
{
    (void)unused;
    static const char *const epilogues[] = {
        "relu a0; out t0", "mul a0 a1; sub t0 a2; add t1 a3; relu t2; out t3", /* on floats */
        "relu a0; neg t0; out t1", "neg a0; mul a1 t0; mul t1 a2; sub a3 t2; out t3"};
    for (int i = 0; i < N_CASES; i++)
        for (int k = 0; k < 4 && !(IPU__SANITIZED && cases[i].n * cases[i].in > 1000); k++)
            check(&cases[i], IPU__CONV_FORWARD, IPU_HALF, epilogues[k]);
}

/* Floats have implementations of their own, and so do 16-bit types where there is nothing better for floats. */
static void nothing_else_is_taken(void **unused)
{
    (void)unused;
    const conv_case odd = {2, 3, 5, {7, 6}, 2, {0, 0}, true};
    bench           b;
    make_call(&b, &cases[0], IPU__CONV_FORWARD, IPU_FLOAT, NULL);
    assert_false(ipu__conv_wide_fits(&b.call, ipu__cpu_machine_here(), 1));
    make_call(&b, &odd, IPU__CONV_FORWARD, IPU_HALF, NULL);
    assert_false(ipu__conv_wide_fits(&b.call, ipu__cpu_machine_here(), 1));
    make_call(&b, &cases[0], IPU__CONV_FORWARD, IPU_HALF, NULL);
    assert_false(ipu__conv_wide_fits(&b.call, &(ipu__cpu_machine){0}, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_those_of_double_sums_rounded),
        cmocka_unit_test(an_epilogue_works_on_the_result),
        cmocka_unit_test(nothing_else_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
