/* Interpreting rows of scores: argmax, probabilities, cross-entropy. */
#include "ipu/scores.h"

#include <math.h>

static const double tolerance = 1e-3; /* for a sum of half-precision probabilities */

int64_t ipu_scores_best(const ipu_array *a, int64_t first, int64_t n)
{
    int64_t best  = 0;
    double  value = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double x = ipu_array_value(a, first + i);
        if (!(x > value)) continue;
        best  = i;
        value = x;
    }
    return best;
}

/* log of the sum of exponentials, without overflow. */
static double log_sum(const ipu_array *a, int64_t first, int64_t n)
{
    int64_t best = ipu_scores_best(a, first, n);
    double  most = ipu_array_value(a, first + best), sum = 1;
    for (int64_t i = 0; i < n; i++)
        if (i != best) sum += exp(ipu_array_value(a, first + i) - most);
    return most + log(sum);
}

/* Log-probabilities need no special case: the logarithm of the sum of their exponentials is 0. */
void ipu_scores_probabilities(const ipu_array *a, int64_t first, int64_t n, double *out)
{
    double sum = 0, least = INFINITY;
    for (int64_t i = 0; i < n; i++) {
        out[i] = ipu_array_value(a, first + i);
        sum += out[i];
        least = fmin(least, out[i]);
    }
    if (least >= 0 && fabs(sum - 1) < tolerance) return;
    double all = log_sum(a, first, n);
    for (int64_t i = 0; i < n; i++) out[i] = exp(out[i] - all);
}

double ipu_scores_loss(const ipu_array *a, int64_t first, int64_t n, int64_t label)
{
    if (label < 0 || label >= n) return NAN;
    return log_sum(a, first, n) - ipu_array_value(a, first + label);
}

bool ipu_scores_fit(const ipu_array *a, int64_t n_samples)
{
    return a && a->type >= IPU_HALF && a->shape.rank == 2 && a->shape.dim[0] == n_samples
        && a->shape.dim[1] > 0;
}
