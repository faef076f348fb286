/* Weight gradients with sixteen channels of d_y in a vector: sums over pixels stay in registers. */
#include "op/conv/cpu/blocked.h"

#if defined(__AVX512F__)
#include "op/vector/transpose16.h"

enum { WIDE = IPU__WEIGHTS_WIDE, DEEP = IPU__TILE_DEEP, BLOCK = IPU__BLOCK, AT_ONCE = 2 };

INLINE void load(const ipu__weights_tile *t, const float *sums, __m512 sum[DEEP][WIDE], const int deep,
                 const int wide)
{
    UNROLLED for (int o = 0; o < deep; o++) UNROLLED for (int k = 0; k < wide; k++)
        sum[o][k] = _mm512_loadu_ps(sums + o * t->sum_block + k * t->sum_step);
}

INLINE void store(const ipu__weights_tile *t, float *sums, __m512 sum[DEEP][WIDE], const int deep,
                  const int wide)
{
    UNROLLED for (int o = 0; o < deep; o++) UNROLLED for (int k = 0; k < wide; k++)
        _mm512_storeu_ps(sums + o * t->sum_block + k * t->sum_step, sum[o][k]);
}

/* Eight channels of x at a time. */
INLINE void by_vectors(const ipu__weights_tile *t, const float *x, const float *dy, float *sums,
                       const int deep)
{
    enum { HALF = BLOCK / 2 };
    for (int half = 0; half < 2; half++, x += HALF, sums += HALF * t->sum_step) {
        __m512 sum[DEEP][WIDE];
        load(t, sums, sum, deep, HALF);
        for (int64_t row = 0; row < t->rows; row++) {
            const float *from = x + row * t->x_row, *by = dy + row * t->y_row;
            for (int64_t i = 0; i < t->columns; i++, from += t->x_step, by += BLOCK) {
                __m512 gradient[DEEP];
                HIDE(from);
                UNROLLED for (int o = 0; o < deep; o++) gradient[o] = _mm512_loadu_ps(by + o * t->y_block);
                UNROLLED for (int k = 0; k < HALF; k++)
                {
                    __m512 value = _mm512_set1_ps(from[k]);
                    HOLD(value);
                    UNROLLED for (int o = 0; o < deep; o++)
                        sum[o][k] = _mm512_fmadd_ps(value, gradient[o], sum[o][k]);
                }
            }
        }
        store(t, sums, sum, deep, HALF);
    }
}

static void vectors_1(const ipu__weights_tile *t, const float *x, const float *dy, float *sums)
{
    by_vectors(t, x, dy, sums, 1);
}

static void vectors_2(const ipu__weights_tile *t, const float *x, const float *dy, float *sums)
{
    by_vectors(t, x, dy, sums, 2);
}

/* `n` pixels, so that offsets of taps are loaded once for them. */
INLINE void add_pixels(const ipu__weights_tile *t, const float *x, const float *dy, __m512 sum[DEEP][WIDE],
                       const int deep, const int wide, const int n)
{
    __m512 gradient[AT_ONCE][DEEP];
    UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int o = 0; o < deep; o++)
        gradient[i][o] = _mm512_loadu_ps(dy + i * BLOCK + o * t->y_block);
    UNROLLED for (int k = 0; k < wide; k++)
    {
        const float *from = x + t->tap[k];
        UNROLLED for (int i = 0; i < n; i++)
        {
            __m512 value = _mm512_set1_ps(from[i * t->x_step]);
            HOLD(value);
            UNROLLED for (int o = 0; o < deep; o++)
                sum[o][k] = _mm512_fmadd_ps(value, gradient[i][o], sum[o][k]);
        }
    }
}

INLINE void by_taps(const ipu__weights_tile *t, const float *x, const float *dy, float *sums, const int deep,
                    const int wide)
{
    __m512 sum[DEEP][WIDE];
    load(t, sums, sum, deep, wide);
    for (int64_t row = 0; row < t->rows; row++) {
        const float *from = x + row * t->x_row, *by = dy + row * t->y_row;
        int64_t      i = 0;
        for (; i + AT_ONCE <= t->columns; i += AT_ONCE)
            add_pixels(t, from + i * t->x_step, by + i * BLOCK, sum, deep, wide, AT_ONCE);
        for (; i < t->columns; i++) add_pixels(t, from + i * t->x_step, by + i * BLOCK, sum, deep, wide, 1);
    }
    store(t, sums, sum, deep, wide);
}

#define EACH_WIDTH(F, a) F(a, 1) F(a, 2) F(a, 3) F(a, 4) F(a, 5) F(a, 6) F(a, 7) F(a, 8) F(a, 9)
#define TAPS(deep, wide)                                                                          \
    static void taps_##deep##_##wide(const ipu__weights_tile *t, const float *x, const float *dy, \
                                     float *sums)                                                 \
    {                                                                                             \
        by_taps(t, x, dy, sums, deep, wide);                                                      \
    }
#define NAME(deep, wide) taps_##deep##_##wide,
/* clang-format off */
EACH_WIDTH(TAPS, 1)
EACH_WIDTH(TAPS, 2)
const ipu__weights_loops IPU__SIMD(ipu__weights_loops_at) = {
    {vectors_1, vectors_2}, {{EACH_WIDTH(NAME, 1)}, {EACH_WIDTH(NAME, 2)}}};
/* clang-format on */
#else
const ipu__weights_loops IPU__SIMD(ipu__weights_loops_at) = {0};
#endif
