/* The loops of group norm with sixteen images side by side: every number is a vector of sixteen.
 *
 * Sums use four vectors; callers keep stretches short and add their sums up in double.
 */
#include <math.h>

#include "op/vector/lanes.h"
#include "op/norm/norm.h"

typedef float   lanes __attribute__((vector_size(sizeof(float) * IPU__LANES), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(sizeof(float) * IPU__LANES)));

enum { CHAINS = 4 };

#define AT(x, i) (*(const lanes *)((x) + (i)*IPU__LANES))

/* total[l] += the sum of TERM(i) over i < n */
#define ADD_UP(total, n, TERM)                                                \
    do {                                                                      \
        lanes   sum[CHAINS] = {{0}};                                          \
        int64_t k           = 0;                                              \
        for (; k + CHAINS <= (n); k += CHAINS)                                \
            for (int u = 0; u < CHAINS; u++) sum[u] += TERM(k + u);           \
        for (; k < (n); k++) sum[0] += TERM(k);                               \
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                       \
        for (int l = 0; l < IPU__LANES; l++) (total)[l] += (double)sum[0][l]; \
    } while (0)

static void sum(const float *x, int64_t n, double *total)
{
#define TERM(i) AT(x, i)
    ADD_UP(total, n, TERM);
#undef TERM
}

static void squares(const float *x, const float *mean, int64_t n, double *total)
{
    const lanes middle = AT(mean, 0);
#define TERM(i) (AT(x, i) - middle) * (AT(x, i) - middle)
    ADD_UP(total, n, TERM);
#undef TERM
}

static void normalise(const float *x, const float *mean, const float *scale, float shift, int64_t n, float *y)
{
    const lanes middle = AT(mean, 0), factor = AT(scale, 0);
    for (int64_t i = 0; i < n; i++) *(lanes *)(y + i * IPU__LANES) = (AT(x, i) - middle) * factor + shift;
}

static void normalise_by(const float *x, const float *mean, const float *scale, const float *shift, int64_t n,
                         float *y)
{
    const lanes middle = AT(mean, 0), factor = AT(scale, 0), more = AT(shift, 0);
    for (int64_t i = 0; i < n; i++) *(lanes *)(y + i * IPU__LANES) = (AT(x, i) - middle) * factor + more;
}

static void products(const float *dy, const float *x, const float *mean, int64_t n, double *total,
                     double *product)
{
    const lanes middle       = AT(mean, 0);
    lanes       sums[CHAINS] = {{0}}, mixed[CHAINS] = {{0}};
    int64_t     i = 0;
    for (; i + CHAINS <= n; i += CHAINS)
        for (int u = 0; u < CHAINS; u++) {
            sums[u] += AT(dy, i + u);
            mixed[u] += AT(dy, i + u) * (AT(x, i + u) - middle);
        }
    for (; i < n; i++) {
        sums[0] += AT(dy, i);
        mixed[0] += AT(dy, i) * (AT(x, i) - middle);
    }
    sums[0]  = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    mixed[0] = (mixed[0] + mixed[1]) + (mixed[2] + mixed[3]);
    for (int l = 0; l < IPU__LANES; l++) {
        total[l] += (double)sums[0][l];
        product[l] += (double)mixed[0][l];
    }
}

static void grad(const float *dy, const float *x, const float *mean, const ipu__norm_mixture *m, int64_t n,
                 float *dx)
{
    const lanes middle = AT(mean, 0), a = AT(m->a, 0), b = AT(m->b, 0), c = AT(m->c, 0);
    for (int64_t i = 0; i < n; i++)
        *(lanes *)(dx + i * IPU__LANES) = a * AT(dy, i) + b * (AT(x, i) - middle) + c;
}

/* In pairs. */
static double add_lanes(double *x)
{
    for (int width = IPU__LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) x[l] += x[l + width];
    return x[0];
}

static double grad_relu(const float *dy, const float *x, const float *mean, const ipu__norm_mixture *m,
                        int64_t n, float *dx)
{
    const lanes middle = AT(mean, 0), a = AT(m->a, 0), b = AT(m->b, 0), c = AT(m->c, 0), zero = {0};
    double      all[IPU__LANES] = {0};
    lanes       sum             = zero;
    for (int64_t i = 0; i < n; i++) {
        lanes at = AT(x, i), d = a * AT(dy, i) + b * (at - middle) + c;
        d = (lanes)((bits)d & (at > zero));
        sum += d;
        *(lanes *)(dx + i * IPU__LANES) = d;
    }
    for (int l = 0; l < IPU__LANES; l++) all[l] = (double)sum[l];
    return add_lanes(all);
}

/* ---- once for a unit or a channel ---- */

static void means(const double *restrict sum, double n, float *restrict mean)
{
    for (int l = 0; l < IPU__LANES; l++) mean[l] = (float)(sum[l] / n);
}

static void variances(const double *restrict squares, double n, float *restrict var)
{
    for (int l = 0; l < IPU__LANES; l++) var[l] = (float)(squares[l] / n);
}

static void scales(const float *restrict var, double epsilon, float *restrict scale)
{
    for (int l = 0; l < IPU__LANES; l++) scale[l] = (float)(1 / sqrt((double)var[l] + epsilon));
}

static void add_channel(const double *restrict own, const double *restrict mixed, double weight,
                        const float *restrict scale, double *restrict sum, double *restrict product,
                        double all[2])
{
    double first[IPU__LANES], second[IPU__LANES];
    for (int l = 0; l < IPU__LANES; l++) {
        sum[l] += weight * own[l];
        product[l] += weight * mixed[l];
        first[l]  = own[l];
        second[l] = mixed[l] * (double)scale[l];
    }
    all[0] += add_lanes(first);
    all[1] += add_lanes(second);
}

static void mix(const float *restrict scale, const double *restrict sum, const double *restrict product,
                double n, ipu__norm_mixture *restrict m)
{
    for (int l = 0; l < IPU__LANES; l++) {
        double factor = (double)scale[l];
        m->b[l]       = (float)(-factor * factor * factor * product[l] / n);
        m->c[l]       = (float)(-factor * sum[l] / n);
    }
}

const ipu__norm_lane_loops IPU__SIMD(ipu__norm_lane_loops_of) = {
    .sum          = sum,
    .squares      = squares,
    .normalise    = normalise,
    .normalise_by = normalise_by,
    .products     = products,
    .grad         = grad,
    .grad_relu    = grad_relu,
    .means        = means,
    .variances    = variances,
    .scales       = scales,
    .add_channel  = add_channel,
    .mix          = mix,
};
