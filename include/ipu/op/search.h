/* Places in sorted sequences, counts, membership, medians and modes.
 *
 *     ipu_value places = ipu_searchsorted(b, boundaries, x, false);      int32, of the shape of x
 *     ipu_value counts = ipu_bincount(b, labels, IPU_NO_VALUE, 10);      int32[10]
 *
 * Both inputs are of one type where there are two. No gradients, but of elements that are
 * chosen: ipu_median, ipu_kthvalue and ipu_mode.
 */
#ifndef IPU_OP_SEARCH_H
#define IPU_OP_SEARCH_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many elements of the last dimension of `sequence`, which is ascending, come before each value, including equal
 * ones if `right`. `sequence` has one dimension, or those of `values` except for the last. */
ipu_value ipu_searchsorted(ipu_builder *b, ipu_value sequence, ipu_value values, bool right);
/* For 0 <= i < size, the number of elements of x (integers) equal to i, as int32, or the sum of their weights.
 * Others are ignored. */
ipu_value ipu_bincount(ipu_builder *b, ipu_value x, ipu_value weights, int64_t size);
/* Counts elements in `bins` of equal width from min to max, both inclusive; if min == max, from the smallest to the
 * largest element. In the type of x, which is floating. */
ipu_value ipu_histogram(ipu_builder *b, ipu_value x, int64_t bins, double min, double max);
/* bool: whether an element of x is among `tests`, or is not with `invert`. */
ipu_value ipu_isin(ipu_builder *b, ipu_value x, ipu_value tests, bool invert);
/* The median along `axis`, the lower of two, keeping the axis with 1 element. *indices (may be NULL): its
 * position, int32. NaN if there is one, unless NaNs are skipped. */
ipu_value ipu_median(ipu_builder *b, ipu_value x, int axis, bool skip_nan, ipu_value *indices);
/* The k-th smallest, counted from 1, in the same way. */
ipu_value ipu_kthvalue(ipu_builder *b, ipu_value x, int64_t k, int axis, ipu_value *indices);
/* The element there is most of, the least of several, and the last place where it is. */
ipu_value ipu_mode(ipu_builder *b, ipu_value x, int axis, ipu_value *indices);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_searchsorted(...) IPU_AT(ipu_searchsorted(__VA_ARGS__))
#define ipu_bincount(...) IPU_AT(ipu_bincount(__VA_ARGS__))
#define ipu_histogram(...) IPU_AT(ipu_histogram(__VA_ARGS__))
#define ipu_isin(...) IPU_AT(ipu_isin(__VA_ARGS__))
#define ipu_median(...) IPU_AT(ipu_median(__VA_ARGS__))
#define ipu_kthvalue(...) IPU_AT(ipu_kthvalue(__VA_ARGS__))
#define ipu_mode(...) IPU_AT(ipu_mode(__VA_ARGS__))
#endif
#endif
