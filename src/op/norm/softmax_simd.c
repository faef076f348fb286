/* The loops of the softmax family in float.
 *
 * Sums use 32 lanes, which are added up every 1024 elements. `out` may be the same memory as an input.
 */
#include "op/norm/softmax.h"

#include <math.h>

#include "op/vector/exp.h"

enum { LANES = 32, BLOCK = 1024 };

/* Lane l of a block, for each l; then the lanes in pairs. */
#define ADD_UP(total, n, TERM)                                          \
    do {                                                                \
        float   lane[LANES] = {0};                                      \
        int64_t k           = 0;                                        \
        for (; k + LANES <= (n); k += LANES)                            \
            for (int l = 0; l < LANES; l++) lane[l] += TERM(k + l);     \
        for (int l = 0; k < (n); k++, l++) lane[l] += TERM(k);          \
        for (int width = LANES / 2; width > 0; width /= 2)              \
            for (int l = 0; l < width; l++) lane[l] += lane[l + width]; \
        (total) += lane[0];                                             \
    } while (0)

static float largest(const float *x, int64_t n)
{
    float   lane[LANES], most = -INFINITY;
    int64_t k = 0;
    if (n >= LANES) {
        for (int l = 0; l < LANES; l++) lane[l] = x[l];
        for (k = LANES; k + LANES <= n; k += LANES)
            for (int l = 0; l < LANES; l++) lane[l] = x[k + l] > lane[l] ? x[k + l] : lane[l];
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int l = 0; l < width; l++) lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
        most = lane[0];
    }
    for (; k < n; k++) most = x[k] > most ? x[k] : most;
    return most;
}

static inline int64_t block_at(int64_t i, int64_t n) { return n - i < BLOCK ? n - i : BLOCK; }

static void scaled(const float *x, float scale, const float *less, float *out, int64_t n)
{
    float most = largest(x, n), sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = block_at(i, n);
        IPU__INDEPENDENT
        for (int64_t j = i; j < i + m; j++) out[j] = ipu__exp_below(x[j] - most);
#define TERM(j) out[i + (j)]
        ADD_UP(sum, m, TERM);
#undef TERM
    }
    scale /= sum;
    if (less) {
        IPU__INDEPENDENT
        for (int64_t i = 0; i < n; i++) out[i] = out[i] * scale - less[i];
    } else
        for (int64_t i = 0; i < n; i++) out[i] *= scale;
}

static void softmax_row(const float *x, const float *dy, float *out, int64_t n)
{
    (void)dy;
    scaled(x, 1, NULL, out, n);
}

static void log_softmax_row(const float *x, const float *dy, float *out, int64_t n)
{
    (void)dy;
    float most = largest(x, n), sum = 0, e[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = block_at(i, n);
        for (int64_t j = 0; j < m; j++) e[j] = ipu__exp_below(x[i + j] - most);
#define TERM(j) e[j]
        ADD_UP(sum, m, TERM);
#undef TERM
    }
    float log_sum = logf(sum);
    IPU__INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = x[i] - most - log_sum;
}

static void softmax_grad_row(const float *y, const float *dy, float *out, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = block_at(i, n);
#define TERM(j) y[i + (j)] * dy[i + (j)]
        ADD_UP(sum, m, TERM);
#undef TERM
    }
    IPU__INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = y[i] * (dy[i] - sum);
}

static void log_softmax_grad_row(const float *y, const float *dy, float *out, int64_t n)
{
    float sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = block_at(i, n);
#define TERM(j) dy[i + (j)]
        ADD_UP(sum, m, TERM);
#undef TERM
    }
    IPU__INDEPENDENT
    for (int64_t i = 0; i < n; i++) out[i] = dy[i] - ipu__exp_below(y[i] > 88 ? 88 : y[i]) * sum;
}

/* ---- down columns: `out` is memory of its own here ---- */

/* Sums of 32 rows, then of those: `part` is what has not been added to `sums` yet. */
enum { ROWS = 32 };

static inline void clear(float *restrict sums, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++) sums[c] = 0;
}

static inline void add_part(float *restrict sums, float *restrict part, int64_t columns)
{
    for (int64_t c = 0; c < columns; c++) {
        sums[c] += part[c];
        part[c] = 0;
    }
}

#define ADD_UP_COLUMNS(TERM)                                                       \
    do {                                                                           \
        clear(sums, columns);                                                      \
        clear(part, columns);                                                      \
        for (int64_t i = 0; i < n; i++) {                                          \
            for (int64_t c = 0; c < columns; c++) {                                \
                int64_t at = i * columns + c;                                      \
                part[c] += TERM;                                                   \
            }                                                                      \
            if (i % ROWS == ROWS - 1 || i == n - 1) add_part(sums, part, columns); \
        }                                                                          \
    } while (0)

/* As ADD_UP does with the elements of a row, in place. Where one exponential is 1 and all others are next to nothing, their
 * sum is then what is added to it, which the logarithm is all about. */
static void add_in_pairs(float *restrict e, int64_t n, int64_t columns, float *restrict sums)
{
    for (int64_t width = LANES / 2; width > 0; width /= 2)
        for (int64_t i = 0; i < width && i + width < n; i++)
            for (int64_t c = 0; c < columns; c++) e[i * columns + c] += e[(i + width) * columns + c];
    for (int64_t c = 0; c < columns; c++) sums[c] = e[c];
}

/* The largest of each column, and e^(x - that), in `out`. */
static void exp_columns(const float *restrict x, float *restrict out, int64_t n, int64_t columns,
                        float *restrict most)
{
    for (int64_t c = 0; c < columns; c++) most[c] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            most[c] = x[i * columns + c] > most[c] ? x[i * columns + c] : most[c];
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            out[i * columns + c] = ipu__exp_below(x[i * columns + c] - most[c]);
}

static void softmax_columns(const float *x, const float *dy, float *restrict out, int64_t n, int64_t columns,
                            float *restrict sums)
{
    (void)dy;
    float *restrict part = sums + columns;
    exp_columns(x, out, n, columns, part + columns);
    ADD_UP_COLUMNS(out[at]);
    for (int64_t c = 0; c < columns; c++) sums[c] = 1 / sums[c];
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) out[i * columns + c] *= sums[c];
}

static void log_softmax_columns(const float *restrict x, const float *dy, float *restrict out, int64_t n,
                                int64_t columns, float *restrict sums)
{
    (void)dy;
    float *restrict part = sums + columns, *restrict most = part + columns;
    exp_columns(x, out, n, columns, most);
    if (n <= LANES)
        add_in_pairs(out, n, columns, sums);
    else
        ADD_UP_COLUMNS(out[at]);
    for (int64_t c = 0; c < columns; c++) sums[c] = logf(sums[c]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) out[i * columns + c] = x[i * columns + c] - most[c] - sums[c];
}

static void softmax_grad_columns(const float *restrict y, const float *restrict dy, float *restrict out,
                                 int64_t n, int64_t columns, float *restrict sums)
{
    float *restrict part = sums + columns;
    ADD_UP_COLUMNS(y[at] * dy[at]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            out[i * columns + c] = y[i * columns + c] * (dy[i * columns + c] - sums[c]);
}

static void log_softmax_grad_columns(const float *restrict y, const float *restrict dy, float *restrict out,
                                     int64_t n, int64_t columns, float *restrict sums)
{
    float *restrict part = sums + columns;
    ADD_UP_COLUMNS(dy[at]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            out[i * columns + c] = dy[i * columns + c]
                                 - ipu__exp_below(y[i * columns + c] > 88 ? 88 : y[i * columns + c])
                                       * sums[c];
}

const ipu__softmax_table IPU__SIMD(ipu__softmax_loops_at) = {
    .at =
        {
            [IPU__SOFTMAX]          = {softmax_row, softmax_columns},
            [IPU__LOG_SOFTMAX]      = {log_softmax_row, log_softmax_columns},
            [IPU__SOFTMAX_GRAD]     = {softmax_grad_row, softmax_grad_columns},
            [IPU__LOG_SOFTMAX_GRAD] = {log_softmax_grad_row, log_softmax_grad_columns},
        },
    .scaled = scaled};
