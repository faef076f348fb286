/* The blocks, packing and conversions that products consist of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/host/cpu.h"
#include "op/product/xsmm.h"

static void blocks_are_even_and_whole_grains(void **unused)
{
    (void)unused;
    assert_int_equal(ipu__xsmm_block(100, 256, 64), 100);
    assert_int_equal(ipu__xsmm_block(256, 256, 64), 256);
    assert_int_equal(ipu__xsmm_block(257, 256, 6), 132); /* two of 129, rounded up to grains */
    assert_int_equal(ipu__xsmm_block(1000, 256, 64), 256);
    assert_int_equal(ipu__xsmm_block(784, 256, 8), 200);
}

/* Every size around tiles of 8 x 8 and 16 x 16, between wider buffers, with nothing written beside it. */
static void transposing_moves_every_element(void **unused)
{
    (void)unused;
    enum { MOST = 35, LD = 37 };
    float from[MOST * LD], to[MOST * LD];
    for (int i = 0; i < MOST * LD; i++) from[i] = (float)i;
    for (int rows = 0; rows <= MOST; rows++)
        for (int columns = 0; columns <= MOST; columns++) {
            for (int i = 0; i < MOST * LD; i++) to[i] = -1;
            ipu__transpose_floats(from, LD, to, LD, rows, columns);
            for (int i = 0; i < MOST; i++)
                for (int j = 0; j < LD; j++)
                    assert_true(to[i * LD + j] == (i < columns && j < rows ? from[j * LD + i] : -1));
        }
}

static void conversions_are_those_of_single_values(void **unused)
{
    (void)unused;
    static const uint32_t bits[] = {0,          0x80000000, 0x3f800000, 0x3f808000, 0x3f818000, 0x3f807fff,
                                    0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f800001, 0xffbfffff,
                                    0x00000001, 0x00008000, 0x33000001, 0x477fe000, 0x477fefff, 0x477ff000};
    enum { N = sizeof bits / sizeof *bits };
    float        from[N], back[N];
    ipu_bfloat16 b[N];
    ipu_half     h[N];
    memcpy(from, bits, sizeof from);
    ipu__from_floats(IPU_BFLOAT16, from, b, N);
    ipu__from_floats(IPU_HALF, from, h, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(b[i].bits, ipu_bfloat16_from_float(from[i]).bits);
        assert_int_equal(h[i].bits, ipu_half_from_float(from[i]).bits);
    }
    ipu__to_floats(IPU_BFLOAT16, b, back, N);
    for (int i = 0; i < N; i++) {
        float one = ipu_bfloat16_to_float(b[i]);
        assert_memory_equal(&one, &back[i], sizeof one);
    }
}

static void dots_are_sums_of_products(void **unused)
{
    (void)unused;
    enum { N = 67, STEP = 70 };
    float x[N], w[IPU__DOT_ROWS * STEP], out[IPU__DOT_ROWS];
    for (int i = 0; i < N; i++) x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < IPU__DOT_ROWS * STEP; i++) w[i] = (float)(i % 7 - 3);
    for (int n = 0; n <= N; n++) {
        IPU__SIMD_PICK(ipu__xsmm_loops_at).dots(x, w, STEP, n, out);
        for (int r = 0; r < IPU__DOT_ROWS; r++) {
            float sum = 0; /* exact: small whole numbers */
            for (int i = 0; i < n; i++) sum += x[i] * w[r * STEP + i];
            assert_true(out[r] == sum);
        }
    }
}

static void a_bias_is_added_to_rows_and_relu_keeps_nan(void **unused)
{
    (void)unused;
    enum { N = 21, STEP = 25 };
    float b[N], out[2 * STEP];
    for (int relu = 0; relu < 2; relu++) {
        for (int i = 0; i < N; i++) b[i] = (float)(i % 5 - 2);
        for (int i = 0; i < 2 * STEP; i++) out[i] = i == 3 ? NAN : (float)(i % 7 - 3);
        IPU__SIMD_PICK(ipu__xsmm_loops_at).bias(b, out, STEP, 2, N, relu);
        for (int i = 0; i < 2 * STEP; i++) {
            float v = (float)(i % 7 - 3) + (i % STEP < N ? b[i % STEP] : 0);
            if (i == 3)
                assert_true(isnan(out[i]));
            else
                assert_true(out[i] == (relu && v < 0 && i % STEP < N ? 0 : v));
        }
    }
}

/* 5 x 7 x 6 in blocks of 4 x 4 x 4: what is left in every direction, with and without sums to begin with. */
static void kernels_of_blocks_make_the_product(void **unused)
{
    (void)unused;
    enum { M = 5, N = 7, K = 6 };
    float a[M * K], b[K * N], c[M * N];
    if (!ipu__xsmm_works(ipu__cpu_features())) skip();
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 5 - 2);
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 7 - 3);
    for (int add = 0; add < 2; add++) {
        ipu__xsmm_blocks x = {.m = M, .n = N, .k = K, .mb = 4, .nb = 4, .kb = 4};
        assert_int_equal(ipu__xsmm_blocks_make(&x, K, N, N, false, add), IPU_OK);
        for (int i = 0; i < M * N; i++) c[i] = add ? 100 : NAN;
        for (int k = 0; k < K; k += 4)
            for (int i = 0; i < M; i += 4)
                for (int j = 0; j < N; j += 4)
                    ipu__xsmm_run(&x, a + i * K + k, b + k * N + j, c + i * N + j, M - i < 4 ? M - i : 4,
                                  N - j < 4 ? N - j : 4, K - k < 4 ? K - k : 4, add || k > 0);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = add ? 100 : 0;
                for (int k = 0; k < K; k++) sum += a[i * K + k] * b[k * N + j];
                assert_true(c[i * N + j] == sum);
            }
    }
}

/* Threads that ask for the same kernels at once, in another order each, get the same ones. */
enum { N_ASKED = 60, N_ASKING = 4 };

typedef struct asking {
    pthread_t    thread;
    int          first;
    ipu__xsmm_fn got[N_ASKED];
} asking;

static void *ask(void *data)
{
    asking *a = data;
    for (int i = 0; i < N_ASKED; i++) {
        int k     = (a->first + i) % N_ASKED;
        a->got[k] = ipu__xsmm_get(5, 16, 1 + k, 100, 16, 16, false, k % 2);
    }
    return NULL;
}

static void a_kernel_is_made_once(void **unused)
{
    (void)unused;
    asking all[N_ASKING];
    if (!ipu__xsmm_works(ipu__cpu_features())) skip();
    for (int i = 0; i < N_ASKING; i++) {
        all[i].first = i * 7;
        assert_int_equal(pthread_create(&all[i].thread, NULL, ask, &all[i]), 0);
    }
    for (int i = 0; i < N_ASKING; i++) pthread_join(all[i].thread, NULL);
    for (int k = 0; k < N_ASKED; k++) {
        float a[5 * 100], b[N_ASKED * 16], c[5 * 16];
        for (int i = 0; i < 5 * 100; i++) a[i] = (float)(i % 3);
        for (int i = 0; i < N_ASKED * 16; i++) b[i] = 2;
        for (int i = 0; i < 5 * 16; i++) c[i] = 1;
        assert_non_null(all[0].got[k]);
        for (int i = 1; i < N_ASKING; i++) assert_true(all[i].got[k] == all[0].got[k]);
        all[0].got[k](b, a, c);
        float sum = k % 2 ? 1 : 0;
        for (int i = 0; i <= k; i++) sum += 2 * a[400 + i];
        assert_true(c[4 * 16 + 3] == sum);
    }
}

static void kernels_that_cannot_be_had_are_null(void **unused)
{
    (void)unused;
    assert_false(ipu__xsmm_works(0));
    assert_null(ipu__xsmm_get(0, 1, 1, 1, 1, 1, false, false));
    assert_null(ipu__xsmm_get((int64_t)1 << 40, 1, 1, 1, 1, 1, false, false));
    assert_null(ipu__xsmm_get(4, 4, 4, 3, 4, 4, false, false)); /* rows that overlap */
    assert_null(ipu__xsmm_get(4, 4, 4, 4, 4, 3, false, false));
    ipu__xsmm_blocks x = {.m = 2, .n = 2, .k = 2, .mb = 2, .nb = 2, .kb = 2};
    assert_int_equal(ipu__xsmm_blocks_make(&x, (int64_t)1 << 40, 2, 2, false, false), IPU_UNSUPPORTED);
    assert_string_equal(ipu_message(), "libxsmm has no kernel for 2 x 2 x 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_even_and_whole_grains),
        cmocka_unit_test(transposing_moves_every_element),
        cmocka_unit_test(conversions_are_those_of_single_values),
        cmocka_unit_test(dots_are_sums_of_products),
        cmocka_unit_test(a_bias_is_added_to_rows_and_relu_keeps_nan),
        cmocka_unit_test(kernels_of_blocks_make_the_product),
        cmocka_unit_test(a_kernel_is_made_once),
        cmocka_unit_test(kernels_that_cannot_be_had_are_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
