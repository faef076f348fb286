/* Reductions: sums, means, extremes over dimensions, and where the extremes are.
 *
 *     ipu_value mean = ipu_reduce_mean(b, x, (int[]){2, 3}, 2, true);   [N,C,H,W] -> [N,C,1,1]
 *     ipu_value all  = ipu_reduce_sum(b, x, NULL, 0, false);            a scalar
 *
 * `axes` lists the dimensions to reduce, in any order, negative ones counted from the end; none means all.
 * They are dropped, or kept with 1 element if `keep_dims`. The result has the type of `x`. Sums of half and
 * bfloat16 are accumulated in float and rounded once; integer sums and products wrap. Sums do not depend on
 * the number of threads. Over no elements the sum is 0, the product 1 and the mean NaN; a maximum is an
 * error.
 */
#ifndef IPU_OP_REDUCE_H
#define IPU_OP_REDUCE_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

ipu_value ipu_reduce_sum(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_mean(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_prod(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* NaN if any element is. The gradient is shared equally among all elements that attain the maximum. */
ipu_value ipu_reduce_max(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_min(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_sum_square(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* Sum of absolute values, and root of the sum of squares. */
ipu_value ipu_reduce_l1(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_l2(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* log(sum(exp(x))), without overflow. */
ipu_value ipu_reduce_logsumexp(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* `unbiased`: divide by n - 1 rather than n. */
ipu_value ipu_reduce_variance(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims,
                              bool unbiased);
/* Square root of the variance; half types are computed in float. */
ipu_value ipu_reduce_std(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims,
                         bool unbiased);
/* The p-th root of the sum of |x|^p, in float for half types. p = 0 counts nonzero elements; INFINITY gives the
 * largest magnitude, -INFINITY the smallest. */
ipu_value ipu_reduce_norm(ipu_builder *b, ipu_value x, double p, const int *axes, int n_axes, bool keep_dims);
/* x with every slice along `axis` whose p-norm exceeds `max_norm` scaled down to it. */
ipu_value ipu_renorm(ipu_builder *b, ipu_value x, double p, int axis, double max_norm);
/* The sum of what is not NaN. */
ipu_value ipu_reduce_nansum(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* How many elements are not 0, of any type, as int32. */
ipu_value ipu_reduce_count_nonzero(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
/* Of bool, to bool. */
ipu_value ipu_reduce_any(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);
ipu_value ipu_reduce_all(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims);

/* Index (int32) of the largest or smallest element along `axis`: the first of equal ones, or the last with
 * `select_last`; that of a NaN if there is one. */
ipu_value ipu_argmax(ipu_builder *b, ipu_value x, int axis, bool keep_dims);
ipu_value ipu_argmin(ipu_builder *b, ipu_value x, int axis, bool keep_dims);
ipu_value ipu_argmax_with(ipu_builder *b, ipu_value x, int axis, bool keep_dims, bool select_last);
ipu_value ipu_argmin_with(ipu_builder *b, ipu_value x, int axis, bool keep_dims, bool select_last);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_reduce_sum(...) IPU_AT(ipu_reduce_sum(__VA_ARGS__))
#define ipu_reduce_mean(...) IPU_AT(ipu_reduce_mean(__VA_ARGS__))
#define ipu_reduce_prod(...) IPU_AT(ipu_reduce_prod(__VA_ARGS__))
#define ipu_reduce_max(...) IPU_AT(ipu_reduce_max(__VA_ARGS__))
#define ipu_reduce_min(...) IPU_AT(ipu_reduce_min(__VA_ARGS__))
#define ipu_reduce_sum_square(...) IPU_AT(ipu_reduce_sum_square(__VA_ARGS__))
#define ipu_reduce_l1(...) IPU_AT(ipu_reduce_l1(__VA_ARGS__))
#define ipu_reduce_l2(...) IPU_AT(ipu_reduce_l2(__VA_ARGS__))
#define ipu_reduce_logsumexp(...) IPU_AT(ipu_reduce_logsumexp(__VA_ARGS__))
#define ipu_reduce_variance(...) IPU_AT(ipu_reduce_variance(__VA_ARGS__))
#define ipu_reduce_std(...) IPU_AT(ipu_reduce_std(__VA_ARGS__))
#define ipu_reduce_norm(...) IPU_AT(ipu_reduce_norm(__VA_ARGS__))
#define ipu_renorm(...) IPU_AT(ipu_renorm(__VA_ARGS__))
#define ipu_reduce_nansum(...) IPU_AT(ipu_reduce_nansum(__VA_ARGS__))
#define ipu_reduce_count_nonzero(...) IPU_AT(ipu_reduce_count_nonzero(__VA_ARGS__))
#define ipu_reduce_any(...) IPU_AT(ipu_reduce_any(__VA_ARGS__))
#define ipu_reduce_all(...) IPU_AT(ipu_reduce_all(__VA_ARGS__))
#define ipu_argmax(...) IPU_AT(ipu_argmax(__VA_ARGS__))
#define ipu_argmin(...) IPU_AT(ipu_argmin(__VA_ARGS__))
#define ipu_argmax_with(...) IPU_AT(ipu_argmax_with(__VA_ARGS__))
#define ipu_argmin_with(...) IPU_AT(ipu_argmin_with(__VA_ARGS__))
#endif
#endif
