/* Dot products, conversions and transpositions, at every instruction level. */
#include "base/simd.h"
#include "op/product/xsmm.h"

#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

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

static void bias(const float *restrict b, float *restrict out, int64_t step, int64_t rows, int64_t n,
                 bool relu)
{
    for (int64_t r = 0; r < rows; r++, out += step) {
        if (relu)
            for (int64_t i = 0; i < n; i++) {
                float v = out[i] + b[i];
                out[i]  = v < 0 ? 0 : v; /* NaN and -0 stay */
            }
        else
            for (int64_t i = 0; i < n; i++) out[i] += b[i];
    }
}

/* ---- transposing: tiles of one vector squared ---- */

#if defined(__AVX512F__)
enum { TILE = 16 };

/* Neighbouring rows are interleaved by elements, then by pairs: t[4g+j] has in lane l column 4l+j of rows 4g to
 * 4g+3. Then lanes of four such are gathered. */
static inline void transpose_tile(const float *from, int64_t from_ld, float *to, int64_t to_ld)
{
    __m512 r[16], t[16];
    for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_ps(from + i * from_ld);
    for (int i = 0; i < 16; i += 2) {
        t[i]     = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i]     = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int j = 0; j < 4; j++) {
        __m512 a = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x44), b = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xee);
        __m512 c = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x44);
        __m512 d = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xee);
        _mm512_storeu_ps(to + j * to_ld, _mm512_shuffle_f32x4(a, c, 0x88));
        _mm512_storeu_ps(to + (4 + j) * to_ld, _mm512_shuffle_f32x4(a, c, 0xdd));
        _mm512_storeu_ps(to + (8 + j) * to_ld, _mm512_shuffle_f32x4(b, d, 0x88));
        _mm512_storeu_ps(to + (12 + j) * to_ld, _mm512_shuffle_f32x4(b, d, 0xdd));
    }
}
#elif defined(__AVX2__)
enum { TILE = 8 };

/* Rows are interleaved in pairs, then in fours, then halves are exchanged. */
static inline void transpose_tile(const float *from, int64_t from_ld, float *to, int64_t to_ld)
{
    __m256 r[8], t[8];
    for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_ld);
    for (int i = 0; i < 8; i += 2) {
        t[i]     = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i]     = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}
#else
enum { TILE = 8 };

static inline void transpose_tile(const float *from, int64_t from_ld, float *to, int64_t to_ld)
{
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) to[j * to_ld + i] = from[i * from_ld + j];
}
#endif

static void transpose_any(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                          int64_t columns)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) to[j * to_ld + i] = from[i * from_ld + j];
}

/* Along a few rows at a time: they may lie so far apart that all of them meet in one set of a cache. */
static void transpose(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t rows,
                      int64_t columns)
{
    int64_t whole_rows = rows / TILE * TILE, whole_columns = columns / TILE * TILE;
    for (int64_t i = 0; i < whole_rows; i += TILE)
        for (int64_t j = 0; j < whole_columns; j += TILE)
            transpose_tile(from + i * from_ld + j, from_ld, to + j * to_ld + i, to_ld);
    transpose_any(from + whole_columns, from_ld, to + whole_columns * to_ld, to_ld, whole_rows,
                  columns - whole_columns);
    transpose_any(from + whole_rows * from_ld, from_ld, to + whole_rows, to_ld, rows - whole_rows, columns);
}

const ipu__xsmm_loops IPU__SIMD(ipu__xsmm_loops_at) = {dots, from_bfloat16, to_bfloat16, bias, transpose};
