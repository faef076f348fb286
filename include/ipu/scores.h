/* Scores: interpreting the output of a classifier.
 *
 *     const ipu_array *a = ipu_executor_output(model, "scores");        [samples, classes]
 *     int64_t          n = a->shape.dim[1];
 *     for (int64_t i = 0; i < a->shape.dim[0]; i++) printf("%d\n", (int)ipu_scores_best(a, i * n, n));
 *
 * A row holds scores, log-probabilities or probabilities: `n` elements of an array starting at `first`.
 */
#ifndef IPU_SCORES_H
#define IPU_SCORES_H

#include "ipu/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether `a` has such a row for each of `n_samples`: [n_samples, classes], of a floating type. `a` may be
 * NULL. */
bool ipu_scores_fit(const ipu_array *a, int64_t n_samples);

/* The index of the largest, the first of equal ones; 0 if all are NaN. */
int64_t ipu_scores_best(const ipu_array *a, int64_t first, int64_t n);

/* The elements themselves or their exponentials, whichever add up to one, otherwise their softmax. */
void ipu_scores_probabilities(const ipu_array *a, int64_t first, int64_t n, double *out);

/* Cross-entropy of scores or log-probabilities: minus the log-probability of `label`. NaN if there is no such
 * class. */
double ipu_scores_loss(const ipu_array *a, int64_t first, int64_t n, int64_t label);

#ifdef __cplusplus
}
#endif
#endif
