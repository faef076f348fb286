/* The loops of convolutions that are not products: rows gathered, added up, and taps of one channel. */
#include <string.h>

#include "base/simd.h"
#include "op/conv_columns.h"

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

/* 16 floats anywhere, in as many registers as that takes. */
typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));

/* Not functions: those could not pass such values the same way at every level. */
#define LOAD(from) (*(const lanes *)(from))
#define STORE(to) (*(lanes *)(to))

typedef float few_lanes __attribute__((vector_size(16), aligned(4), may_alias));

/* All of a row in vectors of one kind; the last overlaps the one before. */
#define SUM_ROW(vector, width)                                                                 \
    for (int64_t i = 0; i < n_columns; i += (width)) {                                         \
        int64_t at  = i + (width) <= n_columns ? i : n_columns - (width);                      \
        vector  sum = (vector){0} + bias;                                                      \
        for (int64_t t = 0; t < n_taps; t++) sum += w[t] * *(const vector *)(x + tap[t] + at); \
        *(vector *)(y + at) = sum;                                                             \
    }

/* Four rows at a time: their sums do not wait for one another, and a weight is loaded once for all. */
static int64_t sum_rows(const float *restrict x, int64_t pitch, const int64_t *tap, const float *w,
                        int64_t n_taps, float bias, float *restrict y, int64_t n_rows, int64_t n_columns)
{
    int64_t r = 0;
    for (; r + 4 <= n_rows; r += 4, x += 4 * pitch, y += 4 * n_columns)
        for (int64_t i = 0; i < n_columns; i += 16) {
            int64_t at = i + 16 <= n_columns ? i : n_columns - 16;
            lanes   a = (lanes){0} + bias, b = a, c = a, d = a;
            for (int64_t t = 0; t < n_taps; t++) {
                const float *from   = x + tap[t] + at;
                lanes        factor = (lanes){0} + w[t];
                a += factor * LOAD(from);
                b += factor * LOAD(from + pitch);
                c += factor * LOAD(from + 2 * pitch);
                d += factor * LOAD(from + 3 * pitch);
            }
            STORE(y + at)                 = a;
            STORE(y + n_columns + at)     = b;
            STORE(y + 2 * n_columns + at) = c;
            STORE(y + 3 * n_columns + at) = d;
        }
    return r;
}

static void sum_taps(const float *restrict x, int64_t pitch, const int64_t *tap, const float *w,
                     int64_t n_taps, float bias, float *restrict y, int64_t n_rows, int64_t n_columns)
{
    int64_t done = n_columns >= 16 ? sum_rows(x, pitch, tap, w, n_taps, bias, y, n_rows, n_columns) : 0;
    x += done * pitch;
    y += done * n_columns;
    for (int64_t r = done; r < n_rows; r++, x += pitch, y += n_columns) {
        if (n_columns >= 16) {
            SUM_ROW(lanes, 16)
        } else if (n_columns >= 4) {
            SUM_ROW(few_lanes, 4)
        } else {
            for (int64_t i = 0; i < n_columns; i++) {
                y[i] = bias;
                for (int64_t t = 0; t < n_taps; t++) y[i] += w[t] * x[tap[t] + i];
            }
        }
    }
}

static void spread_taps(float *restrict x, const int64_t *tap, const float *w, int64_t n_taps,
                        const float *restrict y, int64_t n)
{
    for (int64_t t = 0; t < n_taps; t++) {
        float  *to = x + tap[t], factor = w[t];
        int64_t i = 0;
        for (; i + 16 <= n; i += 16) STORE(to + i) = LOAD(to + i) + factor * LOAD(y + i);
        for (; i < n; i++) to[i] += factor * y[i];
    }
}

/* N taps at once: what they are multiplied with is loaded once for all. */
#define DOTS(N)                                                                                          \
    static void dots##N(const float *restrict x, const int64_t *tap, const float *restrict y, int64_t n, \
                        float *restrict lane)                                                            \
    {                                                                                                    \
        lanes   s[N];                                                                                    \
        int64_t i = 0;                                                                                   \
        for (int t = 0; t < (N); t++) s[t] = LOAD(lane + 16 * t);                                        \
        for (; i + 16 <= n; i += 16) {                                                                   \
            lanes v = LOAD(y + i);                                                                       \
            for (int t = 0; t < (N); t++) s[t] += LOAD(x + tap[t] + i) * v;                              \
        }                                                                                                \
        for (int t = 0; t < (N); t++) STORE(lane + 16 * t) = s[t];                                       \
        for (int l = 0; i < n; i++, l++)                                                                 \
            for (int t = 0; t < (N); t++) lane[16 * t + l] += x[tap[t] + i] * y[i];                      \
    }
DOTS(9)
DOTS(3)
DOTS(1)

static void dots(const float *x, const int64_t *tap, int64_t n_taps, const float *y, int64_t n, float *lane)
{
    int64_t t = 0;
    for (; t + 9 <= n_taps; t += 9) dots9(x, tap + t, y, n, lane + 16 * t);
    for (; t + 3 <= n_taps; t += 3) dots3(x, tap + t, y, n, lane + 16 * t);
    for (; t < n_taps; t++) dots1(x, tap + t, y, n, lane + 16 * t);
}

const ipu__columns_loops IPU__SIMD(ipu__columns_loops_at) = {gather,   scatter,     copy_rows,
                                                             sum_taps, spread_taps, dots};
