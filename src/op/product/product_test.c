/* Products inside kernels: libxsmm's blocks and the plain loop against sums in double, at various sizes;
 * loops of several kernels compiled for several instruction levels, which must not differ at all. */
#include "op/call_test.h"

#include "op/sequence/attention.h"
#include "op/optimizer/optimizer.h"
#include "op/product/product.h"
#include "op/sequence/recurrent.h"

static float number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) * 0x1p-23f - 1;
}

static float *floats(int64_t n, uint32_t seed)
{
    float *out = aligned_alloc(64, ((size_t)n * sizeof *out + 127) / 64 * 64);
    assert_non_null(out);
    for (int64_t i = 0; i < n; i++) out[i] = number(&seed);
    return out;
}

static void check_product(const ipu__product *p, const float *a, const float *b, const float *old,
                          const float *c)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->ldc; j++) {
            double sum = p->add ? (double)old[i * p->ldc + j] : 0;
            for (int64_t k = 0; k < p->k && j < p->n; k++)
                sum += (double)a[p->transpose_a ? k * p->lda + i : i * p->lda + k]
                     * (double)b[k * p->ldb + j];
            if (j >= p->n) sum = (double)old[i * p->ldc + j]; /* between rows nothing is touched */
            if (!(fabs(sum - (double)c[i * p->ldc + j]) <= 1e-5 * (1 + (double)p->k / 10)))
                fail_msg("%lld x %lld x %lld, element %lld,%lld is %.9g, expected %.9g", (long long)p->m,
                         (long long)p->n, (long long)p->k, (long long)i, (long long)j,
                         (double)c[i * p->ldc + j], sum);
        }
}

static void try_product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool add)
{
    ipu__product p = {
        .m = m, .n = n, .k = k, .ldb = n + 3, .ldc = n + 2, .transpose_a = transpose_a, .add = add};
    p.lda    = (transpose_a ? m : k) + 1;
    float *a = floats((m + k + 2) * p.lda, 1), *b = floats((k + 1) * p.ldb, 2),
          *old = floats((m + 1) * p.ldc, 3);
    ipu__product_make(&p);
    for (int plain = 0; plain < 2; plain++) {
        float *c = floats((m + 1) * p.ldc, 3);
        if (plain) p.has_kernels = false;
        ipu__product_run(&p, a, b, c);
        check_product(&p, a, b, old, c);
        free(c);
    }
    free(a);
    free(b);
    free(old);
}

static void products_are_sums_of_products(void **unused)
{
    (void)unused;
    static const int64_t sizes[][3] = {{1, 1, 1},  {3, 5, 7},     {0, 4, 4},    {4, 0, 4},     {4, 4, 0},
                                       {7, 64, 9}, {33, 130, 70}, {5, 70, 520}, {2, 300, 1030}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int flags = 0; flags < 4; flags++)
            try_product(sizes[i][0], sizes[i][1], sizes[i][2], flags & 1, flags & 2);
}

/* ---- levels ---- */

#if defined(__x86_64__)
enum { ROWS = 3, HIDDEN = 37, N = ROWS * HIDDEN };

static void run_lstm(const ipu__recurrent_loops *loops, float *out)
{
    float *gates = floats(4 * N, 1), *bias = floats(8 * HIDDEN, 2), *old = floats(N, 3);
    for (int i = 0; i < 4 * N; i++) gates[i] *= 30;
    loops->lstm(&(ipu__recurrent_step){.rows    = ROWS,
                                       .hidden  = HIDDEN,
                                       .bias_ih = bias,
                                       .bias_hh = bias,
                                       .c_old   = old,
                                       .gates   = gates,
                                       .c       = out,
                                       .h       = out + N});
    memcpy(out + 2 * N, gates, 4 * N * sizeof *out);
    free(gates);
    free(bias);
    free(old);
}

static void run_adam(const ipu__optimizer_loops *loops, float *out)
{
    ipu__optimizer o = {.rate         = 0.1,
                        .beta1        = 0.9,
                        .beta2        = 0.99,
                        .epsilon      = 1e-8,
                        .weight_decay = 0.1,
                        .bias1        = 0.1,
                        .bias2        = 0.01};
    float         *p = floats(N, 1), *g = floats(N, 2), *m = floats(N, 3), *v = floats(N, 4);
    for (int i = 0; i < N; i++) v[i] *= v[i];
    loops->adam(&o, &(ipu__optimizer_block){
                        .n = N, .p = p, .g = g, .s = {m, v}, .new_p = out, .new_s = {out + N, out + 2 * N}});
    free(p);
    free(g);
    free(m);
    free(v);
}

static void run_row(const ipu__attention_loops *loops, float *out)
{
    float *s = floats(N, 5);
    out[N]   = loops->row(s, NULL, 20, N - 5, N, &out[N + 1]);
    memcpy(out, s, N * sizeof *out);
    free(s);
}

#define SAME(run, table, n)                                \
    do {                                                   \
        static float base[n], level[n];                    \
        run(&table##_base, base);                          \
        if (ipu__simd_has(IPU__SIMD_AVX2)) {               \
            run(&table##_avx2, level);                     \
            assert_memory_equal(level, base, sizeof base); \
        }                                                  \
        if (ipu__simd_has(IPU__SIMD_AVX512)) {             \
            run(&table##_avx512, level);                   \
            assert_memory_equal(level, base, sizeof base); \
        }                                                  \
    } while (0)

static void all_levels_give_the_same_bits(void **unused)
{
    (void)unused;
    SAME(run_lstm, ipu__recurrent_loops, 6 * N);
    SAME(run_adam, ipu__optimizer_loops, 3 * N);
    SAME(run_row, ipu__attention_loops, N + 2);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_sums_of_products),
#if defined(__x86_64__)
        cmocka_unit_test(all_levels_give_the_same_bits),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
