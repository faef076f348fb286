/* Toom-Cook convolution against double sums: layouts, parts, edges of tiles, epilogues; its accuracy; where
 * it is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/conv/cpu/lanes_toom.h"
#include "op/vector/lanes.h"

/* ---- calls ---- */

typedef struct conv_case {
    int64_t     n, in, out, x[2];
    bool        bias;
    const char *epilogue; /* NULL: none */
} conv_case;

typedef struct bench {
    ipu_attribute    with[1];
    int64_t          extent[2];
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
    ipu_shape          x = IPU_SHAPE(c->n, c->in, c->x[0], c->x[1]), w = IPU_SHAPE(c->out, c->in, 5, 5);
    ipu_shape          y = IPU_SHAPE(c->n, c->out, c->x[0] - 4, c->x[1] - 4);
    b->call              = (ipu__kernel_call){
                     .def = &op->kernel, .attributes = b->with, .n_operands = op->kernel.n_operands};
    b->out = op->n_in;
    for (int i = 0; i < b->call.n_operands; i++)
        b->call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    b->call.operand[0].shape      = kind == IPU__CONV_INPUT_GRAD ? y : x;
    b->call.operand[1].shape      = kind == IPU__CONV_WEIGHT_GRAD ? y : w;
    b->call.operand[b->out].shape = kind == IPU__CONV_FORWARD ? y : kind == IPU__CONV_INPUT_GRAD ? x : w;
    for (int d = 0; d < 2; d++) b->extent[d] = kind == IPU__CONV_INPUT_GRAD ? c->x[d] : 5;
    b->call.n_attributes = 1;
    b->with[0]           = IPU__INTS(kind == IPU__CONV_INPUT_GRAD ? "size" : "kernel", b->extent, 2);
    if (kind != IPU__CONV_FORWARD) return;
    b->call.n_attributes = c->epilogue != NULL;
    b->with[0]           = IPU_TEXT_ATTRIBUTE("epilogue", c->epilogue);
    if (c->bias) b->call.operand[IPU__CONV_BIAS].shape = IPU_SHAPE(c->out);
    if (c->epilogue && strstr(c->epilogue, "a1")) b->call.operand[IPU__CONV_BIAS + 1].shape = y;
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
        b->plain[i]          = calloc(b->n[i] + 1, sizeof(float));
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

/* ---- runs ---- */

/* Where element `i` of the plain values lies. */
static size_t place_of(const ipu__kernel_call *call, int operand, size_t n, size_t i)
{
    size_t row = n / (size_t)call->operand[operand].shape.dim[0], image = i / row;
    return call->layout[operand] == IPU__LAYOUT_LANES
             ? (image / IPU__LANES * row + i % row) * IPU__LANES + image % IPU__LANES
             : i;
}

/* All ones are a NaN: what is read before it is written is seen. */
static float *aligned_floats(size_t n)
{
    float *p = aligned_alloc(64, (n * sizeof *p / 64 + 1) * 64);
    assert_non_null(p);
    memset(p, 0xff, n * sizeof *p);
    return p;
}

static const ipu__cpu_impl *implementation(const ipu__kernel_call *call, const char *name)
{
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++)
        if (strcmp(all.at[i].head.name, name) == 0) return &all.at[i];
    fail_msg("no such implementation");
    return NULL;
}

/* In `n_parts`, the last first, twice, as a state must stand it; gives its result in plain order. */
static float *run(const bench *b, const ipu__kernel_call *call, int n_parts)
{
    const ipu__cpu_impl *impl                       = implementation(call, "toom");
    void                *operand[IPU__MAX_OPERANDS] = {0}, *state = NULL;
    size_t               bytes   = impl->scratch_bytes(call, n_parts);
    float               *scratch = aligned_floats(bytes / sizeof(float)), *result;
    for (int i = 0; i < call->n_operands; i++) {
        float *to = operand[i] = aligned_floats(b->n[i]);
        for (size_t k = 0; k < b->n[i] && i != b->out; k++)
            to[place_of(call, i, b->n[i], k)] = b->plain[i][k];
    }
    if (impl->prepare(call, n_parts, &state) != IPU_OK) fail_msg("%s", ipu_message());
    for (int i = 2 * n_parts - 1; i >= 0; i--) {
        memset(scratch, 0xff, bytes);
        assert_int_equal(impl->run(call, state, operand, scratch, i % n_parts, n_parts), IPU_OK);
    }
    impl->release(state);
    result            = aligned_floats(b->n[b->out]);
    const float *from = operand[b->out];
    for (size_t k = 0; k < b->n[b->out]; k++) result[k] = from[place_of(call, b->out, b->n[b->out], k)];
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

/* Each of the operands that may be in lanes is so or not, by the bits of `lanes`. */
static ipu__kernel_call with_layouts(const bench *b, unsigned lanes)
{
    const ipu__cpu_impl *impl = implementation(&b->call, "toom");
    ipu__kernel_call     call = b->call;
    int                  bit  = 1, at;
    for (int i = 0; i < call.n_operands; i++) {
        ipu__kernel_layouts may = impl->layouts(&b->call, 1, i);
        if (!ipu__kernel_has(&call, i) || !(may.takes & IPU__LAYOUT_BIT(IPU__LAYOUT_LANES))) continue;
        at             = may.tied ? 0 : bit++;
        call.layout[i] = lanes >> at & 1 ? IPU__LAYOUT_LANES : IPU__LAYOUT_PLAIN;
    }
    return call;
}

/* Parts of gradients of weights are added up in another order. */
static void check_case(const conv_case *c, ipu__conv_kind kind)
{
    bench  b;
    float *first = NULL;
    make_bench(&b, c, kind);
    for (int parts = 1; parts <= 5; parts++) {
        if (kind == IPU__CONV_WEIGHT_GRAD) {
            free(first);
            first = NULL;
        }
        for (unsigned lanes = 0; lanes < 8; lanes++) {
            ipu__kernel_call call  = with_layouts(&b, lanes);
            float           *found = run(&b, &call, parts);
            if (!(error_of(&b, found) < 2e-5))
                fail_msg("%s [%d,%d->%d,%d,%d], layouts %u, %d parts: %g", call.def->name, (int)c->n,
                         (int)c->in, (int)c->out, (int)c->x[0], (int)c->x[1], lanes, parts,
                         error_of(&b, found));
            if (!first) first = found;
            assert_memory_equal(found, first, b.n[b.out] * sizeof *found);
            if (found != first) free(found);
        }
    }
    free(first);
    free_bench(&b);
}

static bool is_here(void)
{
    return ipu__simd_has(IPU__SIMD_AVX512) && IPU__SIMD_PICK(ipu__toom_loops_at).forward != NULL;
}

static const conv_case cases[] = {
    {16, 5, 12, {13, 13}, true, "relu a0; out t0"},
    {32, 7, 11, {9, 9}, false, NULL}, /* the last tile of a row begins earlier */
    {16, 6, 10, {7, 12}, true, "add a0 a1; relu t0; out t1"},
    {48, 8, 32, {5, 10}, true, NULL},               /* one row of y */
    {16, 6, 11, {24, 10}, false, "abs a0; out t0"}, /* more rows than a tile */
    {32, 16, 32, {8, 7}, true, "relu a0; out t0"},
    {16, 9, 16, {17, 22}, false, NULL}, /* more tiles of columns than fit a cache */
};

static void all_layouts_give_the_same_in_any_number_of_parts(void **unused)
{
    (void)unused;
    if (!is_here()) skip();
    for (size_t i = 0; i < IPU__COUNT(cases); i++)
        for (int kind = 0; kind < 3; kind++) check_case(&cases[i], (ipu__conv_kind)kind);
}

/* Numbers from all over [-1, 1]: direct products in float are off by up to 2.4e-6, 1e-6 and 1e-5, this by 4.1e-6,
 * 5.5e-6 and 2.2e-6. */
static void errors_are_small(void **unused)
{
    (void)unused;
    static const conv_case c      = {64, 5, 12, {13, 13}, false, NULL};
    static const double    most[] = {8e-6, 1e-5, 5e-6};
    if (!is_here()) skip();
    for (int kind = 0; kind < 3; kind++) {
        bench b;
        make_bench(&b, &c, (ipu__conv_kind)kind);
        float *found = run(&b, &b.call, 1);
        print_message("largest error of %s: %.2g\n", b.call.def->name, error_of(&b, found));
        assert_true(error_of(&b, found) < most[kind]);
        free(found);
        free_bench(&b);
    }
}

/* Sixteen rows of kernels at a time, and what is left; others stay as they are. */
static void weights_go_to_points_and_back(void **unused)
{
    (void)unused;
    enum { N = 37, FIRST = 3, END = 30 };
    const float at[] = {0.5f, -0.5f, 1, -1, 2, -2};
    float       w[N * IPU__TOOM_KERNEL], turned[IPU__TOOM_POINTS * N], back[N * IPU__TOOM_KERNEL];
    if (!is_here()) skip();
    for (int i = 0; i < N * IPU__TOOM_KERNEL; i++) w[i] = number();
    for (int i = 0; i < IPU__TOOM_POINTS * N; i++) turned[i] = 9;
    IPU__SIMD_PICK(ipu__toom_loops_at).weights(w, N, (ipu_interval){FIRST, END}, turned);
    for (int p = 0; p < IPU__TOOM_POINTS; p++)
        for (int i = 0; i < N; i++) {
            const float *row  = w + i * IPU__TOOM_KERNEL;
            double       want = row[4], others = 1;
            for (int k = 3; k >= 0 && p < 6; k--) want = want * at[p] + row[k];
            for (int k = 0; k < 6 && p < 6; k++) others *= k == p ? 1 : at[p] - at[k];
            want = i < FIRST || i >= END ? 9 : want / others;
            assert_true(fabs(turned[p * N + i] - want) < 1e-6);
        }
    for (int i = 0; i < N * IPU__TOOM_KERNEL; i++) back[i] = 9;
    for (int i = 0; i < IPU__TOOM_POINTS * N; i++) turned[i] = number();
    IPU__SIMD_PICK(ipu__toom_loops_at).weights_back(turned, N, (ipu_interval){FIRST, END}, back);
    for (int i = 0; i < N * IPU__TOOM_KERNEL; i++) {
        int    row = i / IPU__TOOM_KERNEL, column = i % IPU__TOOM_KERNEL;
        double want = column == 4 ? turned[6 * N + row] : 0;
        for (int p = 0; p < 6; p++) {
            double others = 1;
            for (int k = 0; k < 6; k++) others *= k == p ? 1 : at[p] - at[k];
            want += turned[p * N + row] * pow(at[p], column) / others;
        }
        assert_true(fabs(back[i] - (row < FIRST || row >= END ? 9 : want)) < 1e-6);
    }
}

static bool fits(const conv_case *c, ipu__conv_kind kind, const char *name, unsigned features)
{
    bench b;
    make_call(&b, c, kind);
    return implementation(&b.call, name)->head.fits(&b.call, &(ipu__cpu_machine){features}, 2);
}

static void it_is_taken_where_it_pays(void **unused)
{
    (void)unused;
    const conv_case single = {16, 1, 4, {28, 28}, false, NULL}, narrow = {16, 8, 8, {12, 6}, false, NULL};
    if (!is_here()) skip();
    for (int kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < IPU__COUNT(cases); i++)
            assert_true(fits(&cases[i], (ipu__conv_kind)kind, "toom", ipu__cpu_features()));
        assert_false(fits(&cases[0], (ipu__conv_kind)kind, "toom", IPU__SIMD_AVX2));
        assert_false(fits(&single, (ipu__conv_kind)kind, "toom", ipu__cpu_features()));
        assert_false(fits(&narrow, (ipu__conv_kind)kind, "toom", ipu__cpu_features()));
        assert_true(fits(&single, (ipu__conv_kind)kind, "lanes", ipu__cpu_features()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_layouts_give_the_same_in_any_number_of_parts),
        cmocka_unit_test(errors_are_small),
        cmocka_unit_test(weights_go_to_points_and_back),
        cmocka_unit_test(it_is_taken_where_it_pays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
