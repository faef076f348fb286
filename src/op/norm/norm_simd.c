/* The loops of normalisation in float.
 *
 * Sums use 32 lanes, in stretches of 4096 elements that stay in the first-level cache while they are read
 * twice, for the mean and for the deviations from it; stretches are combined in double (Chan, Golub, LeVeque
 * 1979).
 */
#include "op/norm/norm.h"

enum { LANES = 32, STRETCH = 4096 };

#define ADD_UP(total, n, TERM)                                          \
    do {                                                                \
        float   lane[LANES] = {0};                                      \
        int64_t k           = 0;                                        \
        for (; k + LANES <= (n); k += LANES)                            \
            for (int l = 0; l < LANES; l++) lane[l] += TERM(k + l);     \
        for (int l = 0; k < (n); k++, l++) lane[l] += TERM(k);          \
        for (int width = LANES / 2; width > 0; width /= 2)              \
            for (int l = 0; l < width; l++) lane[l] += lane[l + width]; \
        (total) = lane[0];                                              \
    } while (0)

static inline int64_t stretch_at(int64_t i, int64_t n) { return n - i < STRETCH ? n - i : STRETCH; }

static void stats(const float *x, int64_t n, bool centred, double *mean, double *squares)
{
    double middle = 0, away = 0;
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t      m   = stretch_at(i, n);
        const float *at  = x + i;
        float        sum = 0, own = 0, deviations;
        if (centred) {
#define TERM(j) at[j]
            ADD_UP(sum, m, TERM);
#undef TERM
            own = sum / (float)m;
        }
#define TERM(j) (at[j] - own) * (at[j] - own)
        ADD_UP(deviations, m, TERM);
#undef TERM
        double step = (double)own - middle, share = (double)m / (double)(i + m);
        away += (double)deviations + step * step * (double)i * share;
        middle += step * share;
    }
    *mean    = middle;
    *squares = away;
}

static void row(const float *restrict x, float mean, float             scale, const float *restrict weight,
                const float *restrict bias, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

static void grad_row(const float *restrict dy, const float *restrict x, float mean, float scale, bool centred,
                     const float *restrict weight, float *restrict dx, float *restrict d_weight,
                     float *restrict d_bias, int64_t n)
{
    double sum = 0, product = 0;
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = stretch_at(i, n);
        float   part;
#define TERM(j) dy[i + (j)] * weight[i + (j)]
        ADD_UP(part, m, TERM);
#undef TERM
        sum += (double)part;
#define TERM(j) dy[i + (j)] * weight[i + (j)] * ((x[i + (j)] - mean) * scale)
        ADD_UP(part, m, TERM);
#undef TERM
        product += (double)part;
    }
    float a = centred ? (float)(sum / (double)n) : 0, b = (float)(product / (double)n);
    for (int64_t i = 0; i < n; i++) {
        float g = dy[i] * weight[i], normal = (x[i] - mean) * scale;
        dx[i] = scale * (g - a - normal * b);
        d_weight[i] += dy[i] * normal;
        d_bias[i] += dy[i];
    }
}

static void plane(const float *restrict x, float mean, float scale, float shift, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * scale + shift;
}

static void grad_sums(const float *dy, const float *x, float mean, int64_t n, double *sum, double *product)
{
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = stretch_at(i, n);
        float   part;
#define TERM(j) dy[i + (j)]
        ADD_UP(part, m, TERM);
#undef TERM
        *sum += (double)part;
#define TERM(j) dy[i + (j)] * (x[i + (j)] - mean)
        ADD_UP(part, m, TERM);
#undef TERM
        *product += (double)part;
    }
}

static void grad_plane(const float *restrict dy, const float *restrict x, float mean, float a, float b,
                       float c, float *restrict dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dx[i] = a * dy[i] + b * (x[i] - mean) + c;
}

static double mask_plane(const float *restrict x, float *restrict dx, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) dx[i] = x[i] > 0 ? dx[i] : 0;
    for (int64_t i = 0; i < n; i++) sum += (double)dx[i];
    return sum;
}

static void column_sums(const float *restrict x, int64_t n, int64_t step, int64_t columns,
                        double *restrict sum)
{
    for (int64_t c = 0; c < columns; c++) sum[c] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) sum[c] += (double)x[i * step + c];
}

static void column_squares(const float *restrict x, int64_t n, int64_t step, int64_t columns,
                           const double *restrict mean, double *restrict squares)
{
    for (int64_t c = 0; c < columns; c++) squares[c] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) {
            double away = (double)x[i * step + c] - mean[c];
            squares[c] += away * away;
        }
}

static void column_products(const float *restrict dy, const float *restrict x, int64_t n, int64_t step,
                            int64_t columns, const double *restrict mean, double *restrict sum,
                            double *restrict product)
{
    for (int64_t c = 0; c < columns; c++) sum[c] = product[c] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++) {
            double d = (double)dy[i * step + c];
            sum[c] += d;
            product[c] += d * ((double)x[i * step + c] - mean[c]);
        }
}

static void columns(const float *restrict x, const float *restrict mean, const float *restrict scale,
                    const float *restrict shift, float *restrict y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
}

static void grad_columns(const float *restrict dy, const float *restrict x, const float *restrict mean,
                         const float *restrict a, const float *restrict b, const float *restrict c,
                         float *restrict dx, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dx[i] = a[i] * dy[i] + b[i] * (x[i] - mean[i]) + c[i];
}

const ipu__norm_loops IPU__SIMD(ipu__norm_loops) = {
    .stats           = stats,
    .row             = row,
    .grad_row        = grad_row,
    .plane           = plane,
    .grad_sums       = grad_sums,
    .grad_plane      = grad_plane,
    .mask_plane      = mask_plane,
    .column_sums     = column_sums,
    .column_squares  = column_squares,
    .column_products = column_products,
    .columns         = columns,
    .grad_columns    = grad_columns,
};
