/* Loops of convolutions other than matrix products: gathering and adding rows, and the taps of one
 * channel. */
#include <string.h>

#include "base/simd.h"
#include "op/conv/cpu/columns.h"

/* Floats of a register. */
#if defined(__AVX512F__)
enum { WIDTH = 16 };
#elif defined(__AVX__)
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif

/* Rows are short and their lengths odd: a last vector overlaps the one before. */
static inline void copy(const float *from, float *to, int64_t n)
{
    int64_t i = 0;
    if (n >= 16) {
        for (; i + 16 <= n; i += 16) memcpy(to + i, from + i, 16 * sizeof *to);
        if (i < n) memcpy(to + n - 16, from + n - 16, 16 * sizeof *to);
    } else if (n >= 8) {
        memcpy(to, from, 8 * sizeof *to);
        memcpy(to + n - 8, from + n - 8, 8 * sizeof *to);
    } else if (n >= 4) {
        memcpy(to, from, 4 * sizeof *to);
        memcpy(to + n - 4, from + n - 4, 4 * sizeof *to);
    } else {
        for (; i < n; i++) to[i] = from[i];
    }
}

static void gather(const ipu__columns *s, const float *planes, int64_t row, int64_t n_rows,
                   const ipu__column_run *runs, int n_runs, float *to, int64_t to_ld)
{
    int64_t channel = row / s->n_taps, t = row % s->n_taps;
    for (int64_t i = 0; i < n_rows; i++) {
        const float *from = planes + channel * s->plane + s->tap[t];
        for (int r = 0; r < n_runs; r++)
            copy(from + runs[r].from, to + i * to_ld + runs[r].to, runs[r].length);
        if (++t == s->n_taps) {
            t = 0;
            channel++;
        }
    }
}

static inline void add(const float *restrict from, float *restrict to, int64_t n)
{
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) to[i + l] += from[i + l];
    for (; i + 4 <= n; i += 4)
        for (int l = 0; l < 4; l++) to[i + l] += from[i + l];
    for (; i < n; i++) to[i] += from[i];
}

static void scatter(const ipu__columns *s, float *planes, int64_t row, int64_t n_rows,
                    const ipu__column_run *runs, int n_runs, const float *from, int64_t from_ld)
{
    int64_t channel = row / s->n_taps, t = row % s->n_taps;
    for (int64_t i = 0; i < n_rows; i++) {
        float *to = planes + channel * s->plane + s->tap[t];
        for (int r = 0; r < n_runs; r++)
            add(from + i * from_ld + runs[r].to, to + runs[r].from, runs[r].length);
        if (++t == s->n_taps) {
            t = 0;
            channel++;
        }
    }
}

static void copy_rows(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t n_rows,
                      int64_t n_columns)
{
    for (int64_t i = 0; i < n_rows; i++) copy(from + i * from_ld, to + i * to_ld, n_columns);
}

/* Floats anywhere in memory, in as many registers as that takes. */
typedef float lanes16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef float lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float lanes4 __attribute__((vector_size(16), aligned(4), may_alias));

/* Not functions: those could not pass such values the same way at every level. */
#define LOAD(vector, from) (*(const vector *)(from))
#define STORE(vector, to) (*(vector *)(to))

/* Where a vector begins that holds column `i` of `n`: the last one overlaps the one before. */
static inline int64_t place(int64_t i, int64_t width, int64_t n) { return i + width <= n ? i : n - width; }

/* Every other element: of two vectors, the second of which begins with the last element of the first. What is
 * read ends with what is picked. */
#define PICK_ROWS(width, ...)                                                                      \
    static void pick_rows_##width(const float *restrict from, int64_t from_ld, float *restrict to, \
                                  int64_t to_ld, int64_t n_rows, int64_t n_columns)                \
    {                                                                                              \
        for (int64_t r = 0; r < n_rows; r++, from += from_ld, to += to_ld)                         \
            for (int64_t i = 0; i < n_columns; i += (width)) {                                     \
                int64_t      at              = place(i, width, n_columns);                         \
                lanes##width a               = LOAD(lanes##width, from + 2 * at);                  \
                lanes##width b               = LOAD(lanes##width, from + 2 * at + (width)-1);      \
                STORE(lanes##width, to + at) = __builtin_shufflevector(a, b, __VA_ARGS__);         \
            }                                                                                      \
    }
PICK_ROWS(16, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31)
PICK_ROWS(8, 0, 2, 4, 6, 9, 11, 13, 15)
PICK_ROWS(4, 0, 2, 5, 7)

static void pick_rows(const float *restrict from, int64_t from_ld, int64_t stride, float *restrict to,
                      int64_t to_ld, int64_t n_rows, int64_t n_columns)
{
    if (stride == 2 && n_columns >= 16 && WIDTH >= 16)
        pick_rows_16(from, from_ld, to, to_ld, n_rows, n_columns);
    else if (stride == 2 && n_columns >= 8 && WIDTH >= 8)
        pick_rows_8(from, from_ld, to, to_ld, n_rows, n_columns);
    else if (stride == 2 && n_columns >= 4)
        pick_rows_4(from, from_ld, to, to_ld, n_rows, n_columns);
    else
        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t i = 0; i < n_columns; i++) to[r * to_ld + i] = from[r * from_ld + i * stride];
}

/* Four rows at a time, whose sums do not wait for one another, and one at a time. */
#define SUM_TAPS(width)                                                                                  \
    static void sum_taps_##width(const float *restrict x, int64_t pitch, const int64_t *tap,             \
                                 const float *restrict w, int64_t n_taps, float bias, float *restrict y, \
                                 int64_t n_rows, int64_t n_columns)                                      \
    {                                                                                                    \
        int64_t r = 0;                                                                                   \
        for (; r + 4 <= n_rows; r += 4)                                                                  \
            for (int64_t i = 0; i < n_columns; i += (width)) {                                           \
                int64_t      at   = place(i, width, n_columns);                                          \
                const float *from = x + r * pitch + at;                                                  \
                float       *to   = y + r * n_columns + at;                                              \
                lanes##width sum[4];                                                                     \
                for (int o = 0; o < 4; o++) sum[o] = (lanes##width){0} + bias;                           \
                for (int64_t t = 0; t < n_taps; t++)                                                     \
                    for (int o = 0; o < 4; o++)                                                          \
                        sum[o] += w[t] * LOAD(lanes##width, from + o * pitch + tap[t]);                  \
                for (int o = 0; o < 4; o++) STORE(lanes##width, to + o * n_columns) = sum[o];            \
            }                                                                                            \
        for (; r < n_rows; r++)                                                                          \
            for (int64_t i = 0; i < n_columns; i += (width)) {                                           \
                int64_t      at  = place(i, width, n_columns);                                           \
                lanes##width sum = (lanes##width){0} + bias;                                             \
                for (int64_t t = 0; t < n_taps; t++)                                                     \
                    sum += w[t] * LOAD(lanes##width, x + r * pitch + at + tap[t]);                       \
                STORE(lanes##width, y + r * n_columns + at) = sum;                                       \
            }                                                                                            \
    }
SUM_TAPS(16)
SUM_TAPS(8)
SUM_TAPS(4)

static void sum_taps(const float *restrict x, int64_t pitch, const int64_t *tap, const float *w,
                     int64_t n_taps, float bias, float *restrict y, int64_t n_rows, int64_t n_columns)
{
    if (n_columns >= 16 && WIDTH >= 16)
        sum_taps_16(x, pitch, tap, w, n_taps, bias, y, n_rows, n_columns);
    else if (n_columns >= 8 && WIDTH >= 8)
        sum_taps_8(x, pitch, tap, w, n_taps, bias, y, n_rows, n_columns);
    else if (n_columns >= 4)
        sum_taps_4(x, pitch, tap, w, n_taps, bias, y, n_rows, n_columns);
    else
        for (int64_t r = 0; r < n_rows; r++)
            for (int64_t i = 0; i < n_columns; i++) {
                float sum = bias;
                for (int64_t t = 0; t < n_taps; t++) sum += w[t] * x[r * pitch + tap[t] + i];
                y[r * n_columns + i] = sum;
            }
}

static void spread_taps(float *restrict x, const int64_t *tap, const float *w, int64_t n_taps,
                        const float *restrict y, int64_t n)
{
    for (int64_t t = 0; t < n_taps; t++) {
        float  *to = x + tap[t], factor = w[t];
        int64_t i = 0;
        for (; i + 16 <= n; i += 16)
            STORE(lanes16, to + i) = LOAD(lanes16, to + i) + factor * LOAD(lanes16, y + i);
        for (; i < n; i++) to[i] += factor * y[i];
    }
}

/* ---- dot products: in 16 lanes at every level, so many registers' worth at a time ---- */

enum { LANES = 16 };

typedef float   vector __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

/* From element LANES - n on: zeros for n lanes that the vector before has seen to. */
static const int32_t masks[2 * LANES] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

#define TAKE(from, keep) ((keep) ? (vector)(LOAD(mask, from) & LOAD(mask, keep)) : LOAD(vector, from))

/* A block of columns of all rows, N taps: y is loaded once for all. `keep`: a mask of columns; NULL: all. */
#define DOTS(N)                                                                                            \
    static inline __attribute__((always_inline)) void dots##N(const float *restrict x, int64_t pitch,      \
                                                              const int64_t *tap, const float *restrict y, \
                                                              int64_t step, int64_t n_rows,                \
                                                              const int32_t *keep, float *restrict lane)   \
    {                                                                                                      \
        vector s[N];                                                                                       \
        for (int t = 0; t < (N); t++) s[t] = LOAD(vector, lane + LANES * t);                               \
        for (int64_t r = 0; r < n_rows; r++, x += pitch, y += step) {                                      \
            vector v = TAKE(y, keep);                                                                      \
            for (int t = 0; t < (N); t++) s[t] += TAKE(x + tap[t], keep) * v;                              \
        }                                                                                                  \
        for (int t = 0; t < (N); t++) STORE(vector, lane + LANES * t) = s[t];                              \
    }
DOTS(9)
DOTS(3)
DOTS(1)

/* All columns. */
#define DOTS_OF_ROWS(name)                                                                     \
    static void name##_rows(const float *x, int64_t pitch, const int64_t *tap, const float *y, \
                            int64_t n_rows, int64_t n_columns, float *lane)                    \
    {                                                                                          \
        int64_t whole = n_columns / LANES * LANES, last = n_columns - LANES;                   \
        for (int h = 0; h < LANES; h += WIDTH) {                                               \
            for (int64_t i = h; i < whole; i += LANES)                                         \
                name(x + i, pitch, tap, y + i, n_columns, n_rows, NULL, lane + h);             \
            if (whole < n_columns)                                                             \
                name(x + last + h, pitch, tap, y + last + h, n_columns, n_rows,                \
                     masks + LANES - (whole - last) + h, lane + h);                            \
        }                                                                                      \
    }
DOTS_OF_ROWS(dots9)
DOTS_OF_ROWS(dots3)
DOTS_OF_ROWS(dots1)

static void dots(const float *x, int64_t pitch, const int64_t *tap, int64_t n_taps, const float *y,
                 int64_t n_rows, int64_t n_columns, float *lane)
{
    int64_t t = 0;
    if (n_columns < LANES) {
        for (; t < n_taps; t++)
            for (int64_t i = 0; i < n_rows * n_columns; i++)
                lane[LANES * t + i % n_columns] += x[tap[t] + i / n_columns * pitch + i % n_columns] * y[i];
        return;
    }
    for (; t + 9 <= n_taps; t += 9) dots9_rows(x, pitch, tap + t, y, n_rows, n_columns, lane + LANES * t);
    for (; t + 3 <= n_taps; t += 3) dots3_rows(x, pitch, tap + t, y, n_rows, n_columns, lane + LANES * t);
    for (; t < n_taps; t++) dots1_rows(x, pitch, tap + t, y, n_rows, n_columns, lane + LANES * t);
}

const ipu__columns_loops IPU__SIMD(ipu__columns_loops_at) = {gather,   scatter,     copy_rows, pick_rows,
                                                             sum_taps, spread_taps, dots};
