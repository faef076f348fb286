/* conv: values worked out by hand, the three kernels as each other's adjoints, errors, prices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/host/cpu.h"
#include "base/simd.h"
#include "op/conv/conv.h"
#include "op/product/xsmm.h"

/* ---- calls ---- */

typedef struct conv_case {
    ipu_shape x, w;
    int64_t   stride[3], padding[6], dilation[3], groups;
} conv_case;

typedef struct bench {
    ipu_attribute    with[5];
    int64_t          size[3], kernel[3];
    ipu__kernel_call forward, input_grad, weight_grad;
} bench;

/* One case as each of the three kernels; `out` is inferred. */
static void make_bench(const conv_case *c, ipu_type type, bench *b)
{
    int rank = c->x.rank - 2;
    for (int i = 0; i < rank; i++) {
        b->size[i]   = c->x.dim[2 + i];
        b->kernel[i] = c->w.dim[2 + i];
    }
    b->with[0]                   = IPU__INTS("stride", c->stride, rank);
    b->with[1]                   = IPU__INTS("padding", c->padding, 2 * rank);
    b->with[2]                   = IPU__INTS("dilation", c->dilation, rank);
    b->with[3]                   = IPU_INT_ATTRIBUTE("groups", c->groups);
    const ipu__kernel_value none = {IPU_FLOAT, IPU_SHAPE(0)};
    b->forward                   = (ipu__kernel_call){.def          = &ipu__op_conv.kernel,
                                                      .attributes   = b->with,
                                                      .n_attributes = 4,
                                                      .n_operands   = ipu__op_conv.kernel.n_operands};
    for (int i = 0; i < b->forward.n_operands; i++) b->forward.operand[i] = none;
    b->forward.operand[IPU__CONV_X] = (ipu__kernel_value){type, c->x};
    b->forward.operand[IPU__CONV_W] = (ipu__kernel_value){type, c->w};
    assert_int_equal(ipu__op_conv.infer(&b->forward, &b->forward.operand[IPU__CONV_OUT]), IPU_OK);
    ipu__kernel_value y = b->forward.operand[IPU__CONV_OUT];
    b->input_grad       = (ipu__kernel_call){.def          = &ipu__op_conv_input_grad.kernel,
                                             .n_attributes = 5,
                                             .n_operands   = 3,
                                             .operand      = {y, {type, c->w}, {type, c->x}}};
    b->weight_grad      = (ipu__kernel_call){.def          = &ipu__op_conv_weight_grad.kernel,
                                             .n_attributes = 5,
                                             .n_operands   = 3,
                                             .operand      = {{type, c->x}, y, {type, c->w}}};
}

static void check_and_run(bench *b, ipu__kernel_call *call, void *const *operand)
{
    b->with[4]       = call == &b->input_grad ? IPU__INTS("size", b->size, b->with[0].n_ints)
                                              : IPU__INTS("kernel", b->kernel, b->with[0].n_ints);
    call->attributes = b->with;
    if (call->def->check(call) != IPU_OK) fail_msg("%s", ipu_message());
    call->def->ref(call, operand);
}

/* ---- values ---- */

static void a_convolution_slides_its_kernel(void **unused)
{
    (void)unused;
    const conv_case c   = {IPU_SHAPE(1, 1, 3, 3), IPU_SHAPE(1, 1, 2, 2), {1, 1}, {0}, {1, 1}, 1};
    float           x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w[] = {1, 10, 100, 1000}, bias[] = {0.5f}, y[4];
    void           *operand[IPU__MAX_OPERANDS] = {x, w, bias};
    bench           b;
    operand[IPU__CONV_OUT] = y;
    make_bench(&c, IPU_FLOAT, &b);
    b.forward.operand[IPU__CONV_BIAS].shape = IPU_SHAPE(1);
    check_and_run(&b, &b.forward, operand);
    assert_true(y[0] == 1 + 20 + 400 + 5000 + 0.5f);
    assert_true(y[1] == 2 + 30 + 500 + 6000 + 0.5f);
    assert_true(y[2] == 4 + 50 + 700 + 8000 + 0.5f);
    assert_true(y[3] == 5 + 60 + 800 + 9000 + 0.5f);
}

static void padding_stride_and_dilation_say_what_is_read(void **unused)
{
    (void)unused;
    /* taps 2 apart, outputs 2 apart, one zero before: x[-1], x[1]; x[1], x[3]; x[3], and one zero after */
    const conv_case c   = {IPU_SHAPE(1, 1, 5), IPU_SHAPE(1, 1, 2), {2}, {1, 1}, {2}, 1};
    double          x[] = {1, 2, 3, 4, 5}, w[] = {1, 10}, y[3];
    void           *operand[IPU__MAX_OPERANDS] = {x, w};
    bench           b;
    operand[IPU__CONV_OUT] = y;
    make_bench(&c, IPU_DOUBLE, &b);
    assert_int_equal(b.forward.operand[IPU__CONV_OUT].shape.dim[2], 3);
    check_and_run(&b, &b.forward, operand);
    assert_true(y[0] == 20 && y[1] == 2 + 40 && y[2] == 4);
}

static void groups_see_their_own_channels(void **unused)
{
    (void)unused;
    const conv_case c   = {IPU_SHAPE(1, 4, 1), IPU_SHAPE(2, 2, 1), {1}, {0}, {1}, 2};
    double          x[] = {1, 2, 3, 4}, w[] = {1, 10, 100, 1000}, y[2];
    void           *operand[IPU__MAX_OPERANDS] = {x, w};
    bench           b;
    operand[IPU__CONV_OUT] = y;
    make_bench(&c, IPU_DOUBLE, &b);
    check_and_run(&b, &b.forward, operand);
    assert_true(y[0] == 21 && y[1] == 4300);
}

/* ---- gradients: <conv(x, w), d> = <x, input_grad(d, w)> = <w, weight_grad(x, d)> ---- */

static double *numbers(const ipu_shape *shape, uint64_t seed)
{
    int64_t n = ipu__op_n_elements(shape);
    double *p = malloc((size_t)(n + 1) * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        p[i] = (double)(seed >> 40) * 0x1p-23 - 1;
    }
    return p;
}

static double dot(const double *a, const double *b, const ipu_shape *shape)
{
    double sum = 0;
    for (int64_t i = 0; i < ipu__op_n_elements(shape); i++) sum += a[i] * b[i];
    return sum;
}

static void check_adjoints(const conv_case *c)
{
    bench b;
    make_bench(c, IPU_DOUBLE, &b);
    ipu_shape y_shape = b.forward.operand[IPU__CONV_OUT].shape;
    double   *x = numbers(&c->x, 1), *w = numbers(&c->w, 2), *d = numbers(&y_shape, 3);
    double   *y = numbers(&y_shape, 4), *dx = numbers(&c->x, 5), *dw = numbers(&c->w, 6);
    void     *forward[IPU__MAX_OPERANDS] = {x, w}, *input_grad[] = {d, w, dx}, *weight_grad[] = {x, d, dw};
    forward[IPU__CONV_OUT] = y;
    check_and_run(&b, &b.forward, forward);
    check_and_run(&b, &b.input_grad, input_grad);
    check_and_run(&b, &b.weight_grad, weight_grad);
    double expected = dot(y, d, &y_shape);
    assert_true(expected != 0);
    assert_true(fabs(dot(x, dx, &c->x) - expected) <= 1e-12 * fabs(expected) + 1e-12);
    assert_true(fabs(dot(w, dw, &c->w) - expected) <= 1e-12 * fabs(expected) + 1e-12);
    double *all[] = {x, w, d, y, dx, dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void gradients_are_adjoints(void **unused)
{
    (void)unused;
    const conv_case cases[] = {
        {IPU_SHAPE(2, 3, 7), IPU_SHAPE(4, 3, 3), {1}, {0}, {1}, 1},
        {IPU_SHAPE(2, 3, 9), IPU_SHAPE(4, 3, 3), {3}, {2, 0}, {2}, 1},
        {IPU_SHAPE(2, 4, 6, 5), IPU_SHAPE(6, 2, 3, 3), {2, 1}, {1, 0, 1, 0}, {1, 2}, 2},
        {IPU_SHAPE(3, 5, 8, 7), IPU_SHAPE(5, 1, 3, 2), {1, 2}, {1, 1, 2, 0}, {1, 1}, 5},
        {IPU_SHAPE(1, 2, 5, 6), IPU_SHAPE(3, 2, 2, 2), {1, 1}, {1, 1, 0, -1}, {1, 1}, 1},
        {IPU_SHAPE(1, 2, 4, 5, 6), IPU_SHAPE(3, 2, 2, 3, 2), {1, 2, 1}, {1, 0, 1, 1, 0, 1}, {1, 1, 2}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_adjoints(&cases[i]);
}

/* ---- implementations ---- */

static const char *chosen(const ipu__kernel_call *call, unsigned features)
{
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++)
        if (all.at[i].head.fits(call, &(ipu__cpu_machine){features}, 2)) return all.at[i].head.name;
    return "ref";
}

static void implementations_go_by_shape_and_cpu(void **unused)
{
    (void)unused;
    const conv_case few  = {IPU_SHAPE(64, 1, 28, 28), IPU_SHAPE(32, 1, 3, 3), {1, 1}, {0}, {1, 1}, 1};
    const conv_case many = {IPU_SHAPE(2, 64, 8, 8), IPU_SHAPE(64, 64, 3, 3), {1, 1}, {1, 1, 1, 1}, {1, 1}, 1};
    const conv_case depth = {IPU_SHAPE(2, 8, 8, 8), IPU_SHAPE(8, 1, 3, 3), {1, 1}, {0}, {1, 1}, 8};
    const conv_case first = {IPU_SHAPE(16, 1, 28, 28), IPU_SHAPE(5, 1, 3, 3), {1, 1}, {0}, {1, 1}, 1};
    const conv_case seed  = {IPU_SHAPE(16, 5, 13, 13), IPU_SHAPE(12, 5, 5, 5), {1, 1}, {0}, {1, 1}, 1};
    const unsigned  avx2  = IPU__CPU_AVX2 | IPU__CPU_FMA;
    bench           b;
    make_bench(&depth, IPU_FLOAT, &b);
    assert_string_equal(chosen(&b.forward, 0), "depthwise");
    make_bench(&many, IPU_FLOAT, &b);
    b.with[4]                = IPU__INTS("kernel", b.kernel, 2);
    b.weight_grad.attributes = b.with;
    assert_string_equal(chosen(&b.forward, 0), "onednn");
    if (!ipu__xsmm_works(avx2)) skip();
    assert_string_equal(chosen(&b.forward, avx2), "gemm");
    assert_string_equal(chosen(&b.weight_grad, avx2), "gemm");
    make_bench(&few, IPU_FLOAT, &b);
    b.with[4]                = IPU__INTS("kernel", b.kernel, 2);
    b.weight_grad.attributes = b.with;
    assert_string_equal(chosen(&b.forward, avx2), "gemm");
    assert_string_equal(chosen(&b.weight_grad, avx2), "dots");
    assert_string_equal(chosen(&b.weight_grad, 0), "onednn");
    make_bench(&many, IPU_DOUBLE, &b);
    assert_string_equal(chosen(&b.forward, avx2), "ref");
    if (!ipu__simd_has(IPU__SIMD_AVX512)) return;
    make_bench(&seed, IPU_FLOAT, &b);
    assert_string_equal(chosen(&b.forward, IPU__SIMD_AVX512), "toom");
    assert_string_equal(chosen(&b.forward, avx2), "gemm");
    make_bench(&first, IPU_FLOAT, &b);
    assert_string_equal(chosen(&b.forward, IPU__SIMD_AVX512), "lanes");
}

static void run_parts(const ipu__kernel_call *call, const ipu__cpu_impl *impl, void *const *operand,
                      int n_parts)
{
    void  *state   = NULL;
    size_t bytes   = impl->scratch_bytes(call, n_parts);
    void  *scratch = aligned_alloc(64, (bytes / 64 + 1) * 64);
    assert_non_null(scratch);
    assert_int_equal(impl->prepare(call, n_parts, &state), IPU_OK);
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(impl->run(call, state, operand, scratch, i, n_parts), IPU_OK);
    impl->release(state);
    free(scratch);
}

/* Implementations that do without libraries, whose kernels add in an order that depends on their sizes. "lanes" adds
 * gradients of weights up by parts. */
static void check_parts(bench *b, ipu__kernel_call *call)
{
    void *operand[IPU__MAX_OPERANDS] = {0}, *first;
    int   out                        = call->n_operands - 1;
    b->with[4]                       = call == &b->input_grad ? IPU__INTS("size", b->size, b->with[0].n_ints)
                                                              : IPU__INTS("kernel", b->kernel, b->with[0].n_ints);
    call->attributes                 = b->with;
    size_t bytes                     = (size_t)ipu__op_n_elements(&call->operand[out].shape) * sizeof(float);
    for (int i = 0; i <= out; i++) {
        int64_t n  = ipu__op_n_elements(&call->operand[i].shape);
        operand[i] = calloc((size_t)n + 1, sizeof(float));
        assert_non_null(operand[i]);
        for (int64_t k = 0; k < n; k++) ((float *)operand[i])[k] = (float)(k * 37 % 101 - 50) / 17;
    }
    first = calloc(bytes + 1, 1);
    assert_non_null(first);
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        bool is_ours = strcmp(impl->head.name, "dots") == 0 || strcmp(impl->head.name, "depthwise") == 0
                    || (strcmp(impl->head.name, "lanes") == 0 && call != &b->weight_grad);
        if (!is_ours || !impl->head.fits(call, ipu__cpu_machine_here(), 1)) continue;
        for (int n = 1; n <= 7; n += 2) {
            memset(operand[out], 0xff, bytes);
            run_parts(call, impl, operand, n);
            if (n == 1) memcpy(first, operand[out], bytes);
            assert_memory_equal(operand[out], first, bytes);
        }
    }
    free(first);
    for (int i = 0; i <= out; i++) free(operand[i]);
}

static void own_loops_give_the_same_bits_in_any_number_of_parts(void **unused)
{
    (void)unused;
    const conv_case cases[] = {
        {IPU_SHAPE(5, 3, 20, 20), IPU_SHAPE(20, 3, 5, 5), {2, 2}, {2, 2, 2, 2}, {1, 1}, 1},
        {IPU_SHAPE(3, 1, 28, 28), IPU_SHAPE(32, 1, 3, 3), {1, 1}, {0}, {1, 1}, 1},
        {IPU_SHAPE(3, 8, 9, 9), IPU_SHAPE(16, 1, 3, 3), {1, 2}, {1, 1, 1, 1}, {1, 1}, 8},
        {IPU_SHAPE(16, 5, 13, 13), IPU_SHAPE(12, 5, 5, 5), {1, 1}, {0}, {1, 1}, 1},
        {IPU_SHAPE(48, 2, 6, 25), IPU_SHAPE(7, 2, 3, 3), {1, 1}, {0}, {1, 1}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b;
        make_bench(&cases[i], IPU_FLOAT, &b);
        check_parts(&b, &b.forward);
        check_parts(&b, &b.input_grad);
        check_parts(&b, &b.weight_grad);
    }
}

/* ---- what is refused ---- */

static void refuse(bench *b, const char *message)
{
    ipu__kernel_value out;
    b->forward.attributes = b->with;
    assert_int_equal(ipu__op_conv.infer(&b->forward, &out), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
}

static void calls_that_make_no_sense_are_refused(void **unused)
{
    (void)unused;
    const conv_case c = {IPU_SHAPE(1, 4, 5, 5), IPU_SHAPE(6, 2, 3, 3), {1, 1}, {0}, {1, 1}, 2};
    bench           b;
    const int64_t   zero[] = {0, 1}, three[] = {1, 1, 1};
    make_bench(&c, IPU_FLOAT, &b);
    b.with[3].i = 4;
    refuse(&b, "conv: \"w\" [6,2,3,3] has 6 channels: expected a multiple of groups = 4");
    b.with[3].i = 1;
    refuse(&b, "conv: \"x\" [1,4,5,5] has 4 channels in a group, \"w\" [6,2,3,3] has 2");
    b.with[3].i = 0;
    refuse(&b, "conv: groups = 0: expected at least 1");
    b.with[3].i    = 2;
    b.with[0].ints = zero;
    refuse(&b, "conv: stride has an element 0: expected 1 to 1073741824");
    b.with[0] = IPU__INTS("stride", three, 3);
    refuse(&b, "conv: stride has 3 elements: expected 2 for \"x\" [1,4,5,5]");
    make_bench(&c, IPU_FLOAT, &b);
    b.forward.operand[IPU__CONV_W].shape.dim[3] = 6;
    refuse(
        &b,
        "conv: dimension 1: a kernel of 6 with dilation 1 does not fit into 5 elements with padding 0 and 0");
    b.forward.operand[IPU__CONV_X].shape = IPU_SHAPE(4, 4);
    refuse(&b, "conv: \"x\" must have rank 3 to 5, found float[4,4]");
    b.forward.operand[IPU__CONV_X].type = IPU_INT32;
    refuse(&b, "conv: \"x\" must be half, bfloat16, float or double, found int32[4,4]");
}

/* ---- prices ---- */

static ipu__kernel_plan plan_with(const conv_case *c, ipu_type type, int kind, int64_t n_tiles,
                                  const char *partials)
{
    ipu_target       target;
    ipu__kernel_plan plan;
    bench            b;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (n_tiles) assert_int_equal(ipu_target_limit_tiles(&target, n_tiles), IPU_OK);
    make_bench(c, type, &b);
    ipu__kernel_call *call = kind == 0 ? &b.forward : kind == 1 ? &b.input_grad : &b.weight_grad;
    b.with[4]              = kind == 1 ? IPU__INTS("size", b.size, 2) : IPU__INTS("kernel", b.kernel, 2);
    ipu_attribute with[8]  = {IPU_TEXT_ATTRIBUTE("partials", partials)};
    memcpy(with + 1, b.with, call->n_attributes * sizeof *with);
    call->attributes = with;
    call->n_attributes++;
    assert_int_equal(call->def->plan(call, &target, &plan), IPU_OK);
    return plan;
}

static ipu__kernel_plan plan_of(const conv_case *c, ipu_type type, int kind, int64_t n_tiles)
{
    return plan_with(c, type, kind, n_tiles, "float");
}

static void a_convolution_of_1x1_costs_what_the_product_does(void **unused)
{
    (void)unused;
    const conv_case  c    = {IPU_SHAPE(1, 64, 8, 12), IPU_SHAPE(32, 64, 1, 1), {1, 1}, {0}, {1, 1}, 1};
    ipu__kernel_plan plan = plan_of(&c, IPU_FLOAT, 0, 1);
    assert_int_equal(plan.cycles,
                     17787); /* the vector of matmul_test: 96 positions, 64 inputs, 32 channels */
    assert_int_equal(plan.n_tiles, 1);
    assert_int_equal(plan.bytes_received, 0);
    assert_int_equal(plan.tile_bytes, 4 * (64 * 96 + 64 * 32 + 96 * 32));
}

static void more_tiles_cost_fewer_cycles_and_more_exchange(void **unused)
{
    (void)unused;
    const conv_case c = {IPU_SHAPE(16, 64, 32, 32), IPU_SHAPE(64, 64, 3, 3), {1, 1}, {1, 1, 1, 1}, {1, 1}, 1};
    for (int kind = 0; kind < 3; kind++) {
        ipu__kernel_plan one = plan_of(&c, IPU_HALF, kind, 1), all = plan_of(&c, IPU_HALF, kind, 0);
        assert_true(all.n_tiles > 1000 && all.n_tiles <= 1472);
        assert_true(all.cycles * 400 < one.cycles);
        assert_true(one.bytes_received == 0 && all.bytes_received > 0 && all.bytes_sent > 0);
        /* 64 products a cycle on a tile at the very most */
        assert_true((double)all.cycles > 16.0 * 64 * 64 * 9 * 32 * 32 / 64 / 1472);
    }
}

static void half_partials_are_cheaper_and_smaller(void **unused)
{
    (void)unused;
    const conv_case c = {IPU_SHAPE(16, 64, 32, 32), IPU_SHAPE(64, 64, 3, 3), {1, 1}, {1, 1, 1, 1}, {1, 1}, 1};
    for (int kind = 0; kind < 3; kind++) {
        ipu__kernel_plan wide = plan_of(&c, IPU_HALF, kind, 0);
        ipu__kernel_plan half = plan_with(&c, IPU_HALF, kind, 0, "half");
        assert_true(half.cycles < 0.75 * (double)wide.cycles);
        /* floats have no half partials */
        assert_int_equal(plan_of(&c, IPU_FLOAT, kind, 0).cycles,
                         plan_with(&c, IPU_FLOAT, kind, 0, "half").cycles);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_slides_its_kernel),
        cmocka_unit_test(padding_stride_and_dilation_say_what_is_read),
        cmocka_unit_test(groups_see_their_own_channels),
        cmocka_unit_test(gradients_are_adjoints),
        cmocka_unit_test(implementations_go_by_shape_and_cpu),
        cmocka_unit_test(own_loops_give_the_same_bits_in_any_number_of_parts),
        cmocka_unit_test(calls_that_make_no_sense_are_refused),
        cmocka_unit_test(a_convolution_of_1x1_costs_what_the_product_does),
        cmocka_unit_test(more_tiles_cost_fewer_cycles_and_more_exchange),
        cmocka_unit_test(half_partials_are_cheaper_and_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
