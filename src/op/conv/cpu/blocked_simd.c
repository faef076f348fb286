/* Tiles of outputs with sixteen channels in a vector, and the packing of weights for them. */
#include "op/conv/cpu/blocked.h"

#if defined(__AVX512F__)
#include <immintrin.h>

#include "op/vector/transpose16.h"

enum { WIDE = IPU__TILE_WIDE, DEEP = IPU__TILE_DEEP, BLOCK = IPU__BLOCK };

/* ---- tiles ---- */

INLINE void store(const ipu__tile *t, __m512 sum[DEEP][WIDE], float *y, const int deep, const int wide)
{
    if (t->scale) {
        UNROLLED for (int o = 0; o < deep; o++)
        {
            __m512 scale                                      = _mm512_loadu_ps(t->scale + o * BLOCK),
                   shift                                      = _mm512_loadu_ps(t->shift + o * BLOCK);
            UNROLLED for (int k = 0; k < wide; k++) sum[o][k] = _mm512_fmadd_ps(sum[o][k], scale, shift);
        }
    }
    if (t->add) {
        UNROLLED for (int o = 0; o < deep; o++)
        {
            const float *add = t->add + o * t->y_block;
            UNROLLED for (int k = 0; k < wide; k++, add += t->y_step)
            {
                HIDE(add);
                sum[o][k] = _mm512_add_ps(sum[o][k], _mm512_loadu_ps(add));
            }
        }
    }
    if (t->relu) { /* in this order: what is not a number stays */
        UNROLLED for (int o = 0; o < deep; o++) UNROLLED for (int k = 0; k < wide; k++)
            sum[o][k] = _mm512_max_ps(_mm512_setzero_ps(), sum[o][k]);
    }
    const int64_t step = t->y_step, block = t->y_block;
    const bool    past = t->stream;
    UNROLLED for (int o = 0; o < deep; o++)
    {
        float *to = y + o * block;
        if (past) {
            UNROLLED for (int k = 0; k < wide; k++, to += step)
            {
                HIDE(to);
                _mm512_stream_ps(to, sum[o][k]);
            }
        } else {
            UNROLLED for (int k = 0; k < wide; k++, to += step)
            {
                HIDE(to);
                _mm512_storeu_ps(to, sum[o][k]);
            }
        }
    }
}

/* `step`: numbers from a pixel to the next; `depth`: numbers at a tap. */
INLINE void tile(const ipu__tile *t, const float *x, float *y, const int deep, const int wide, const int step,
                 const int depth)
{
    __m512       sum[DEEP][WIDE];
    const float *w = t->w;
    UNROLLED for (int o = 0; o < deep; o++) UNROLLED for (int k = 0; k < wide; k++)
        sum[o][k] = t->scale ? _mm512_setzero_ps() : _mm512_loadu_ps(t->shift + o * BLOCK);
    for (int64_t tap = 0; tap < t->n_taps; tap++) {
        const float *from = x + t->tap[tap], *next = x + t->tap[tap + 1];
        UNROLLED for (int k = 0; k < wide && depth > 1; k++) _mm_prefetch(next + k * step, _MM_HINT_T0);
        for (int i = 0; i < depth; i++, from++, w += deep * BLOCK) {
            __m512 weight[DEEP];
            HIDE(from);
            UNROLLED for (int o = 0; o < deep; o++) weight[o] = _mm512_loadu_ps(w + o * BLOCK);
            UNROLLED for (int k = 0; k < wide; k++)
            {
                __m512 value = _mm512_set1_ps(from[k * step]);
                HOLD(value);
                UNROLLED for (int o = 0; o < deep; o++)
                    sum[o][k] = _mm512_fmadd_ps(value, weight[o], sum[o][k]);
            }
        }
    }
    store(t, sum, y, deep, wide);
}

#define EACH_WIDTH(F, a, b) \
    F(a, b, 1)              \
    F(a, b, 2)              \
    F(a, b, 3)              \
    F(a, b, 4)              \
    F(a, b, 5)              \
    F(a, b, 6) F(a, b, 7) F(a, b, 8) F(a, b, 9) F(a, b, 10) F(a, b, 11) F(a, b, 12) F(a, b, 13) F(a, b, 14)
#define STEP_0 16, 16
#define STEP_1 32, 16
#define STEP_2 1, 1
#define STEP_3 2, 1
#define CALL_TILE(...) tile(__VA_ARGS__)
#define TILE(steps, deep, wide)                                                              \
    static void tile_##steps##_##deep##_##wide(const ipu__tile *t, const float *x, float *y) \
    {                                                                                        \
        CALL_TILE(t, x, y, deep, wide, STEP_##steps);                                        \
    }
#define NAME(steps, deep, wide) tile_##steps##_##deep##_##wide,
/* clang-format off */
#define TILES(steps) EACH_WIDTH(TILE, steps, 1) EACH_WIDTH(TILE, steps, 2)
#define NAMES(steps) {{EACH_WIDTH(NAME, steps, 1)}, {EACH_WIDTH(NAME, steps, 2)}}
TILES(0)
TILES(1)
TILES(2)
TILES(3)
/* clang-format on */

/* ---- weights ---- */

static void pack(const float *w, int64_t step, int64_t n, int64_t n_taps, const int64_t *tap_at,
                 int64_t to_step, float *to)
{
    for (int64_t i = 0; i < n * n_taps; i += 16) {
        __m512    r[16];
        int64_t   left                             = n * n_taps - i < 16 ? n * n_taps - i : 16;
        __mmask16 mask                             = first_lanes(left);
        UNROLLED for (int k = 0; k < 16; k++) r[k] = _mm512_maskz_loadu_ps(mask, w + k * step + i);
        transpose(r);
        int64_t channel = i / n_taps, tap = i % n_taps;
        for (int k = 0; k < left; k++) {
            _mm512_storeu_ps(to + tap_at[tap] + channel * to_step, r[k]);
            if (++tap == n_taps) {
                tap = 0;
                channel++;
            }
        }
    }
}

static void fence(void) { _mm_sfence(); }

const ipu__blocked_loops IPU__SIMD(ipu__blocked_loops_at) = {
    {NAMES(0), NAMES(1), NAMES(2), NAMES(3)}, pack, fence};
#else
const ipu__blocked_loops IPU__SIMD(ipu__blocked_loops_at) = {0};
#endif
