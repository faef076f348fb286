/* Dot products and conversions: loops that every level of instructions makes vector code of. */
#include "base/simd.h"
#include "op/xsmm.h"

#include <string.h>

enum { LANES = 16, ROWS = IPU__DOT_ROWS };

/* Sums go to 16 lanes, which are then added in pairs. */
static void dots(const float *restrict x, const float *restrict w, int64_t w_step, int64_t n,
                 float out[IPU__DOT_ROWS])
{
    float   sum[ROWS][LANES] = {{0}};
    int64_t i                = 0;
    for (; i + LANES <= n; i += LANES)
        for (int r = 0; r < ROWS; r++)
            for (int l = 0; l < LANES; l++) sum[r][l] += x[i + l] * w[r * w_step + i + l];
    for (; i < n; i++)
        for (int r = 0; r < ROWS; r++) sum[r][0] += x[i] * w[r * w_step + i];
    for (int r = 0; r < ROWS; r++) {
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int l = 0; l < width; l++) sum[r][l] += sum[r][l + width];
        out[r] = sum[r][0];
    }
}

static void from_bfloat16(const ipu_bfloat16 *restrict from, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i].bits << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* Nearest, ties to even, NaN kept quiet; no branches. */
static void to_bfloat16(const float *restrict from, ipu_bfloat16 *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, &from[i], sizeof u);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
        to[i].bits = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? nan : rounded);
    }
}

const ipu__xsmm_loops IPU__SIMD(ipu__xsmm_loops_at) = {dots, from_bfloat16, to_bfloat16};
