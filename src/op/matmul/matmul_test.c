/* matmul: products worked out by hand, errors, and the price of PopLibs' test vectors. */
#include "op/call_test.h"
#include "op/matmul/matmul.h"

static const ipu_attribute flags[2][2][2] = {
    {{{.name = "transpose_a", .i = 0}, {.name = "transpose_b", .i = 0}},
     {{.name = "transpose_a", .i = 0}, {.name = "transpose_b", .i = 1}}},
    {{{.name = "transpose_a", .i = 1}, {.name = "transpose_b", .i = 0}},
     {{.name = "transpose_a", .i = 1}, {.name = "transpose_b", .i = 1}}},
};

#define NONE                    \
    {                           \
        IPU_FLOAT, IPU_SHAPE(0) \
    }
#define OPERANDS(a, b, out)                     \
    {                                           \
        (a), (b), NULL, NULL, NULL, NULL, (out) \
    }

static ipu__kernel_call call_of(ipu_type type, ipu_shape a, ipu_shape b, ipu_shape out)
{
    return (ipu__kernel_call){.def        = &ipu__op_matmul.kernel,
                              .n_operands = IPU__MATMUL_OUT + 1,
                              .operand    = {{type, a}, {type, b}, NONE, NONE, NONE, NONE, {type, out}}};
}

static ipu__kernel_call transposed(ipu__kernel_call call, int a, int b)
{
    call.attributes   = flags[a][b];
    call.n_attributes = 2;
    return call;
}

static void products_are_those_of_the_book(void **unused)
{
    (void)unused;
    float a[] = {1, 2, 3, 4, 5, 6}, a_t[] = {1, 4, 2, 5, 3, 6};       /* 2 x 3 */
    float b[] = {7, 8, 9, 10, 11, 12}, b_t[] = {7, 9, 11, 8, 10, 12}; /* 3 x 2 */
    float expected[] = {58, 64, 139, 154};
    for (int i = 0; i < 4; i++) {
        int              ta = i & 1, tb = i >> 1;
        float            out[4]    = {0};
        void            *operand[] = OPERANDS(ta ? a_t : a, tb ? b_t : b, out);
        ipu__kernel_call call      = transposed(call_of(IPU_FLOAT, ta ? IPU_SHAPE(3, 2) : IPU_SHAPE(2, 3),
                                                   tb ? IPU_SHAPE(2, 3) : IPU_SHAPE(3, 2), IPU_SHAPE(2, 2)),
                                                ta, tb);
        assert_int_equal(call.def->check(&call), IPU_OK);
        call.def->ref(&call, operand);
        assert_memory_equal(out, expected, sizeof out);
    }
}

static void every_matrix_of_a_batch_has_its_own_product(void **unused)
{
    (void)unused;
    int32_t          a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40}, out[2] = {0}; /* two of 1 x 2 by 2 x 1 */
    void            *operand[] = OPERANDS(a, b, out);
    ipu__kernel_call call = call_of(IPU_INT32, IPU_SHAPE(2, 1, 2), IPU_SHAPE(2, 2, 1), IPU_SHAPE(2, 1, 1));
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    assert_int_equal(out[0], 1 * 10 + 2 * 20);
    assert_int_equal(out[1], 3 * 30 + 4 * 40);
}

/* numpy's rules, on numbers that tell where they came from. */
static void batches_broadcast_and_vectors_lose_their_dimension(void **unused)
{
    (void)unused;
    int64_t a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40, 50, 60}, out[6];
    void   *operand[] = OPERANDS(a, b, out);
    /* a: two of 1 x 2, b: one batch of three of 2 x 1 */
    ipu__kernel_call call = call_of(IPU_INT64, IPU_SHAPE(2, 1, 1, 2), IPU_SHAPE(3, 2, 1),
                                    IPU_SHAPE(2, 3, 1, 1));
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    const int64_t expected[] = {50, 110, 170, 110, 250, 390};
    assert_memory_equal(out, expected, sizeof expected);
    call = call_of(IPU_INT64, IPU_SHAPE(2), IPU_SHAPE(3, 2, 1), IPU_SHAPE(3, 1));
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    assert_memory_equal(out, expected, 3 * sizeof *expected);
    call = call_of(IPU_INT64, IPU_SHAPE(2, 1, 2), IPU_SHAPE(2), IPU_SHAPE(2, 1));
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    assert_true(out[0] == 50 && out[1] == 110);
    call = call_of(IPU_INT64, IPU_SHAPE(2), IPU_SHAPE(2), IPU_SCALAR);
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    assert_true(out[0] == 50);
}

static void half_sums_in_float_and_rounds_once(void **unused)
{
    (void)unused;
    enum { K = 4096 }; /* a sum in half would stop at 2048: 2048 + 1 rounds back */
    ipu_half a[K], b[K], out = {0};
    for (int i = 0; i < K; i++) a[i].bits = b[i].bits = 0x3c00;
    void            *operand[] = OPERANDS(a, b, &out);
    ipu__kernel_call call      = call_of(IPU_HALF, IPU_SHAPE(1, K), IPU_SHAPE(K, 1), IPU_SHAPE(1, 1));
    assert_int_equal(call.def->check(&call), IPU_OK);
    call.def->ref(&call, operand);
    assert_true(ipu_half_to_float(out) == 4096);
}

static void int32_wraps_and_float_sums_in_order(void **unused)
{
    (void)unused;
    int32_t          a[] = {INT32_MAX, 2}, b[] = {2, 3}, out = 0;
    float            x[] = {1, 0x1p-24f, 0x1p-24f}, y[] = {1, 1, 1}, sum = 0;
    void            *ints[] = OPERANDS(a, b, &out), *floats[] = OPERANDS(x, y, &sum);
    ipu__kernel_call call = call_of(IPU_INT32, IPU_SHAPE(1, 2), IPU_SHAPE(2, 1), IPU_SHAPE(1, 1));
    call.def->ref(&call, ints);
    assert_int_equal(out, 4); /* 2^32 - 2 + 6 */
    call = call_of(IPU_FLOAT, IPU_SHAPE(1, 3), IPU_SHAPE(3, 1), IPU_SHAPE(1, 1));
    call.def->ref(&call, floats);
    assert_true(sum == 1); /* each addition is rounded; the other order gives 1 + 2^-23 */
}

/* All parts of a kernel of libxsmm, one after the other. */
static void run_xsmm(const ipu__kernel_call *call, int n_parts, void *const *operand)
{
    void *prepared, *scratch = NULL;
    assert_int_equal(posix_memalign(&scratch, 64, ipu__matmul_xsmm_scratch_bytes(call, n_parts) + 64), 0);
    assert_int_equal(ipu__matmul_xsmm_prepare(call, n_parts, &prepared), IPU_OK);
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(ipu__matmul_xsmm_run(call, prepared, operand, scratch, i, n_parts), IPU_OK);
    ipu__matmul_xsmm_release(prepared);
    free(scratch);
}

/* Few rows or columns, and weights whose rows are 2 and 4 KB apart: such blocks have few rows, and some are left. */
static void rows_that_meet_in_the_cache_make_the_same_product(void **unused)
{
    (void)unused;
    enum { MOST = 45, MOST_K = 1024 };
    static float  a[MOST * MOST_K], b[MOST * MOST_K], out[MOST * MOST], expected[MOST * MOST];
    const int64_t sizes[][3] = {{16, 45, 1024}, {45, 16, 1024}, {45, 33, 1024}, {9, 31, 512},
                                {31, 9, 512},   {8, 7, 1024},   {17, 40, 256}};
    for (int i = 0; i < MOST * MOST_K; i++) { /* sums are exact, in any order */
        a[i] = (float)(i % 5 - 2);
        b[i] = (float)(i % 7 - 3);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t          m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
        void            *fast[] = OPERANDS(a, b, out), *slow[] = OPERANDS(a, b, expected);
        ipu__kernel_call call = transposed(
            call_of(IPU_FLOAT, IPU_SHAPE(m, k), IPU_SHAPE(n, k), IPU_SHAPE(m, n)), 0, 1);
        if (!ipu__matmul_xsmm_fits(&call, ipu__cpu_machine_here(), 1)) skip();
        call.def->ref(&call, slow);
        for (int n_parts = 1; n_parts <= 3; n_parts++) {
            memset(out, 0xff, sizeof out);
            run_xsmm(&call, n_parts, fast);
            assert_memory_equal(out, expected, (size_t)(m * n) * sizeof *out);
        }
    }
}

/* Several panels and groups, a depth that is not packed at once, rests in every direction, all transpositions. */
static void panels_make_the_same_product(void **unused)
{
    (void)unused;
    enum { MOST = 40 * 8000, MOST_OUT = 300 * 700 };
    static float    a[MOST], b[MOST], out[MOST_OUT], expected[MOST_OUT];
    static ipu_half ha[MOST], hb[MOST], h_out[MOST_OUT], h_expected[MOST_OUT];
    const int64_t   sizes[][3] = {
          {135, 700, 300}, {300, 300, 70}, {40, 35, 8000}, {35, 40, 8000}, {270, 2, 40}};
    for (int i = 0; i < MOST; i++) { /* sums are exact, in any order */
        a[i]  = (float)(i % 5 - 2);
        b[i]  = (float)(i % 7 - 3);
        ha[i] = ipu_half_from_float(a[i]);
        hb[i] = ipu_half_from_float(b[i]);
    }
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        const int64_t *s  = sizes[i / 4];
        int            ta = i & 1, tb = i >> 1 & 1;
        ipu_shape      x = ta ? IPU_SHAPE(s[2], s[0]) : IPU_SHAPE(s[0], s[2]);
        ipu_shape      y = tb ? IPU_SHAPE(s[1], s[2]) : IPU_SHAPE(s[2], s[1]);
        for (int is_half = 0; is_half < 2; is_half++) {
            ipu_type type   = is_half ? IPU_HALF : IPU_FLOAT;
            void    *fast[] = OPERANDS(a, b, out), *slow[] = OPERANDS(a, b, expected);
            void    *fast_half[] = OPERANDS(ha, hb, h_out), *slow_half[] = OPERANDS(ha, hb, h_expected);
            ipu__kernel_call call = transposed(call_of(type, x, y, IPU_SHAPE(s[0], s[1])), ta, tb);
            if (!ipu__matmul_xsmm_fits(&call, ipu__cpu_machine_here(), 1)) skip();
            call.def->ref(&call, is_half ? slow_half : slow);
            for (int n_parts = 1; n_parts <= 2; n_parts++) {
                memset(out, 0xff, sizeof out);
                memset(h_out, 0xff, sizeof h_out);
                run_xsmm(&call, n_parts, is_half ? fast_half : fast);
                assert_memory_equal(is_half ? (void *)h_out : out, is_half ? (void *)h_expected : expected,
                                    (size_t)(s[0] * s[1]) * ipu_type_size(type));
            }
        }
    }
}

/* One picture on many threads: all parts but the first are without rows. */
static void parts_without_rows_or_columns_do_nothing(void **unused)
{
    (void)unused;
    enum { MOST_K = 1568, MOST = 40 };
    static float  a[MOST * MOST_K], b[MOST * MOST_K], out[MOST * MOST], expected[MOST * MOST];
    const int64_t sizes[][3] = {{1, 10, 1568}, {10, 1, 1568}, {3, 40, 7}, {40, 3, 7}, {1, 1, 1}, {9, 9, 20}};
    const int     parts[]    = {2, 7, 8, 24, 64, 256};
    for (int i = 0; i < MOST * MOST_K; i++) { /* sums are exact, in any order */
        a[i] = (float)(i % 5 - 2);
        b[i] = (float)(i % 7 - 3);
    }
    for (size_t i = 0; i < 4 * sizeof sizes / sizeof *sizes; i++) {
        int64_t   m = sizes[i / 4][0], n = sizes[i / 4][1], k = sizes[i / 4][2];
        int       ta = i & 1, tb = i >> 1 & 1;
        ipu_shape x = ta ? IPU_SHAPE(k, m) : IPU_SHAPE(m, k), y = tb ? IPU_SHAPE(n, k) : IPU_SHAPE(k, n);
        void     *fast[] = OPERANDS(a, b, out), *slow[] = OPERANDS(a, b, expected);
        ipu__kernel_call call = transposed(call_of(IPU_FLOAT, x, y, IPU_SHAPE(m, n)), ta, tb);
        if (!ipu__matmul_xsmm_fits(&call, ipu__cpu_machine_here(), 1)) skip();
        call.def->ref(&call, slow);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            memset(out, 0xff, sizeof out);
            run_xsmm(&call, parts[p], fast);
            assert_memory_equal(out, expected, (size_t)(m * n) * sizeof *out);
        }
    }
}

static void refuse(ipu__kernel_call call, const char *message)
{
    assert_int_equal(call.def->check(&call), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
}

static void shapes_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    ipu__kernel_call inner = call_of(IPU_FLOAT, IPU_SHAPE(64, 784), IPU_SHAPE(512, 128), IPU_SHAPE(64, 128));
    refuse(inner, "matmul: inner dimensions differ: a [64,784] x b [512,128]");
    refuse(transposed(inner, 1, 0), "matmul: inner dimensions differ: a [64,784] transposed x b [512,128]");
    refuse(transposed(inner, 0, 1), "matmul: inner dimensions differ: a [64,784] x b [512,128] transposed");
    refuse(call_of(IPU_FLOAT, IPU_SHAPE(2, 3), IPU_SHAPE(3, 4), IPU_SHAPE(4, 2)),
           "matmul: output \"out\" must be float[2,4], found float[4,2]");
    refuse(
        call_of(IPU_FLOAT, IPU_SHAPE(2, 3, 4), IPU_SHAPE(5, 4, 6), IPU_SHAPE(2, 3, 6)),
        "matmul: batch dimensions do not broadcast: a [2,3,4] x b [5,4,6]: counted from the last they must be "
        "equal or 1");
    refuse(transposed(call_of(IPU_FLOAT, IPU_SHAPE(4), IPU_SHAPE(4, 2), IPU_SHAPE(2)), 1, 0),
           "matmul: transpose_a = 1, but \"a\" [4] is a vector");
    refuse(call_of(IPU_FLOAT, IPU_SCALAR, IPU_SHAPE(4), IPU_SCALAR),
           "matmul: \"a\" must have rank 1 to 8, found float[]");
}

static void types_attributes_and_counts_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    const ipu_attribute two  = IPU_INT_ATTRIBUTE("transpose_a", 2),
                        real = IPU_FLOAT_ATTRIBUTE("transpose_b", 1);
    ipu__kernel_call call    = call_of(IPU_INT8, IPU_SHAPE(2, 2), IPU_SHAPE(2, 2), IPU_SHAPE(2, 2));
    refuse(call,
           "matmul: expected float, half, bfloat16, double, or an integer of 32 or 64 bits, found int8");
    call.operand[1].type = IPU_FLOAT;
    refuse(call, "matmul: \"a\" and \"b\" must have one type, found int8[2,2] and float[2,2]: cast one");
    call.n_attributes = 1;
    call.attributes   = &two;
    refuse(call, "matmul: attribute \"transpose_a\" must be 0 or 1, found 2");
    call.attributes = &real;
    refuse(call, "matmul: attribute \"transpose_b\" must be an int, found a float");
    call.n_operands = 4; /* a kernel step may leave e0 to e3 out, a call may not */
    refuse(call, "matmul: expected 7 operands (a, b, e0, e1, e2, e3, out), found 4");
}

/* Cycles of the estimate as re-implemented from PopLibs, weights loaded 64 and 128 bits at a time. */
static void the_amp_estimate_gives_its_test_vectors(void **unused)
{
    (void)unused;
    const ipu__amp half_half  = {IPU__AMP_COMMON, 16, 16, 64, 6, true};
    const ipu__amp half_float = {IPU__AMP_COMMON, 8, 16, 32, 6, false};
    const ipu__amp all_float  = {IPU__AMP_FLOAT, 16, 8, 64, 6, false};
    const struct {
        const ipu__amp *amp;
        int             load_bytes, positions, in_groups, out_groups, cycles;
    } vectors[] = {
        {&half_half, 8, 96, 4, 2, 5011},   {&half_half, 16, 96, 4, 2, 4755},
        {&half_float, 8, 96, 4, 2, 4755},  {&half_float, 16, 96, 4, 2, 4627},
        {&all_float, 8, 96, 8, 2, 17787},  {&all_float, 16, 96, 8, 2, 17275},
        {&half_half, 8, 768, 8, 1, 26653}, {&half_half, 8, 24, 4, 2, 2707},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        ipu__amp amp = *vectors[i].amp;
        amp.load_cycles *= 8.0 / vectors[i].load_bytes;
        double cycles = ipu__amp_1x1_cycles(&amp, 1, vectors[i].positions, vectors[i].in_groups,
                                            vectors[i].out_groups);
        assert_int_equal((int)cycles, vectors[i].cycles);
    }
}

static void a_tile_alone_costs_what_the_estimate_says(void **unused)
{
    (void)unused;
    ipu_target       target;
    ipu__kernel_plan plan;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, 1), IPU_OK);
    ipu__kernel_call call = call_of(IPU_FLOAT, IPU_SHAPE(96, 64), IPU_SHAPE(64, 32), IPU_SHAPE(96, 32));
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.cycles, 17787);
    assert_int_equal(plan.n_tiles, 1);
    assert_int_equal(plan.bytes_received, 0);
    assert_int_equal(plan.bytes_sent, 0);
    assert_int_equal(plan.tile_bytes, 4 * (96 * 64 + 64 * 32 + 96 * 32));
    call = call_of(IPU_INT32, IPU_SHAPE(6, 5), IPU_SHAPE(5, 4), IPU_SHAPE(6, 4));
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.cycles, 11 + 6 * (26 + 6 * 5 * 4 / 6 * 14));
}

static void half_partials_take_twice_the_channels_at_once(void **unused)
{
    (void)unused;
    ipu_target       target;
    ipu__kernel_plan plan, wide;
    ipu_attribute    half = IPU_TEXT_ATTRIBUTE("partials", "half"),
                  other   = IPU_TEXT_ATTRIBUTE("partials", "int");
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, 1), IPU_OK);
    ipu__kernel_call call = call_of(IPU_HALF, IPU_SHAPE(96, 64), IPU_SHAPE(64, 32), IPU_SHAPE(96, 32));
    assert_int_equal(call.def->plan(&call, &target, &wide), IPU_OK);
    call.attributes   = &half;
    call.n_attributes = 1;
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.cycles, 5011);
    assert_true(wide.cycles > 1.7 * (double)plan.cycles);
    assert_int_equal(wide.tile_bytes - plan.tile_bytes, 96 * 32 * 2);
    call.attributes = &other;
    assert_int_equal(call.def->check(&call), IPU_INVALID);
    assert_string_equal(ipu_message(), "matmul: partials \"int\": expected float or half");
}

/* Two tiles, 32 positions x 8 inputs x 32 channels of float: each takes half of the positions or of
 * the channels and receives half of what both need. */
static void tiles_receive_what_they_do_not_hold(void **unused)
{
    (void)unused;
    ipu_target       target;
    ipu__kernel_plan plan;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, 2), IPU_OK);
    ipu__kernel_call call = call_of(IPU_FLOAT, IPU_SHAPE(32, 8), IPU_SHAPE(8, 32), IPU_SHAPE(32, 32));
    assert_int_equal(call.def->plan(&call, &target, &plan), IPU_OK);
    assert_int_equal(plan.n_tiles, 2);
    assert_int_equal(plan.bytes_received, 32 * 8 * 4 / 2);
    assert_int_equal(plan.bytes_sent, 32 * 8 * 4 / 2);
    assert_int_equal(plan.tile_bytes, 4 * (32 * 8 + 16 * 8 + 32 * 16));
}

/* Sixteen rows of a innermost. */
static void turn(const float *a, int64_t m, int64_t k, float *to)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) to[(i / 16 * k + j) * 16 + i % 16] = a[i * k + j];
}

static void check_lanes(int64_t m, int64_t n, int64_t k, int n_parts)
{
    const call_input     in[] = {{IPU_FLOAT, {2, {m, k}}, NULL}, {IPU_FLOAT, {2, {n, k}}, NULL}};
    ipu_attribute        flag = IPU_INT_ATTRIBUTE("transpose_b", 1);
    call_made            made = call_make("matmul", &flag, 1, in, 2, IPU_FLOAT);
    const ipu__cpu_impl *impl = &ipu__cpu_impls_of(made.call.def).at[0];
    void                *operand[IPU__MAX_OPERANDS];
    float               *turned = aligned_alloc(64, (made.bytes[0] + 63) / 64 * 64);
    float               *found  = aligned_alloc(64, (made.bytes[IPU__MATMUL_OUT] + 63) / 64 * 64);
    assert_non_null(turned);
    assert_non_null(found);
    if (impl->head.fits(&made.call, ipu__cpu_machine_here(), n_parts)) {
        assert_true(impl->layouts(&made.call, n_parts, 0).native == IPU__LAYOUT_BIT(IPU__LAYOUT_LANES));
        call_run(&made.call, impl, made.data, n_parts);
        turn(made.data[0], m, k, turned);
        memcpy(operand, made.data, sizeof operand);
        operand[0]               = turned;
        operand[IPU__MATMUL_OUT] = found;
        made.call.layout[0]      = IPU__LAYOUT_LANES;
        call_run(&made.call, impl, operand, n_parts);
        for (int64_t i = 0; i < m * n; i++)
            assert_true(fabsf(found[i] - ((float *)made.data[IPU__MATMUL_OUT])[i]) <= 1e-5f * (float)k);
    }
    free(turned);
    free(found);
    call_free(&made);
}

static void rows_in_lanes_make_the_same_product(void **unused)
{
    (void)unused;
    for (int n_parts = 1; n_parts <= 3; n_parts++) {
        check_lanes(16, 100, 972, n_parts);
        check_lanes(48, 131, 33, n_parts);
        check_lanes(32, 512, 1024, n_parts); /* whose rows meet in the cache */
        check_lanes(16, 60, 2100, n_parts);
    }
    check_lanes(256, 300, 50, 2);
}

/* 104 rows for a part, and sums of products of half. */
static void parts_of_lanes_are_refused(void **unused)
{
    (void)unused;
    ipu_attribute    flag = IPU_INT_ATTRIBUTE("transpose_b", 1);
    ipu__kernel_call call = call_of(IPU_FLOAT, IPU_SHAPE(208, 50), IPU_SHAPE(300, 50), IPU_SHAPE(208, 300));
    call.attributes       = &flag;
    call.n_attributes     = 1;
    const unsigned plain  = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    assert_int_equal(ipu__cpu_impls_of(call.def).at[0].layouts(&call, 2, 0).takes, plain);
    assert_int_not_equal(ipu__cpu_impls_of(call.def).at[0].layouts(&call, 1, 0).takes, plain);
    assert_int_equal(ipu__cpu_impls_of(call.def).at[0].layouts(&call, 1, 1).takes, plain);
    for (int i = 0; i < call.n_operands; i++) call.operand[i].type = IPU_HALF;
    assert_int_equal(ipu__cpu_impls_of(call.def).at[0].layouts(&call, 1, 0).takes, plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_book),
        cmocka_unit_test(every_matrix_of_a_batch_has_its_own_product),
        cmocka_unit_test(batches_broadcast_and_vectors_lose_their_dimension),
        cmocka_unit_test(half_sums_in_float_and_rounds_once),
        cmocka_unit_test(int32_wraps_and_float_sums_in_order),
        cmocka_unit_test(rows_that_meet_in_the_cache_make_the_same_product),
        cmocka_unit_test(panels_make_the_same_product),
        cmocka_unit_test(parts_without_rows_or_columns_do_nothing),
        cmocka_unit_test(rows_in_lanes_make_the_same_product),
        cmocka_unit_test(parts_of_lanes_are_refused),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(types_attributes_and_counts_that_do_not_fit_are_refused),
        cmocka_unit_test(the_amp_estimate_gives_its_test_vectors),
        cmocka_unit_test(a_tile_alone_costs_what_the_estimate_says),
        cmocka_unit_test(half_partials_take_twice_the_channels_at_once),
        cmocka_unit_test(tiles_receive_what_they_do_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
