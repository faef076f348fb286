/* What a classifier says of one sample: a row of scores, log-probabilities or probabilities. */
#ifndef TOOLS_SCORES_H
#define TOOLS_SCORES_H

#include "ipu/data.h"

/* Of `n` elements of `a` from `first` on: the number of the greatest, the first of several; 0 if all are NaN. */
int64_t scores_best(const ipu_array *a, int64_t first, int64_t n);

/* Probabilities of the classes: the elements themselves or their exponentials if these add up to one, else their
 * softmax. */
void scores_probabilities(const ipu_array *a, int64_t first, int64_t n, double *out);

/* Cross-entropy of a row of scores or log-probabilities: minus the logarithm of what it gives `label`. */
double scores_loss(const ipu_array *a, int64_t first, int64_t n, int64_t label);

/* Whether `a` has one row of scores for each of `n_samples`: [n_samples, classes], of a floating type. */
bool scores_fit(const ipu_array *a, int64_t n_samples);

#endif
