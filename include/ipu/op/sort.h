/* Sorting, the k largest, and running sums, products and extremes.
 *
 *     ipu_value indices, best = ipu_topk(b, logits, 5, -1, true, &indices);
 *
 * Sorting is stable: of equal elements, the one with the lower index comes first. NaN is larger than any
 * number, as in PyTorch. Indices are int32; gradients pass through them.
 */
#ifndef IPU_OP_SORT_H
#define IPU_OP_SORT_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of `axis` in ascending or descending order. *indices (may be NULL): their original positions. */
ipu_value ipu_sort(ipu_builder *b, ipu_value x, int axis, bool descending, ipu_value *indices);
ipu_value ipu_argsort(ipu_builder *b, ipu_value x, int axis, bool descending);
/* The k largest (or smallest) elements of `axis`, in descending (ascending) order. */
ipu_value ipu_topk(ipu_builder *b, ipu_value x, int64_t k, int axis, bool largest, ipu_value *indices);

/* Element i is the sum (or product) of x up to and including i. Floating types and integers, which wrap. */
ipu_value ipu_cumsum(ipu_builder *b, ipu_value x, int axis);
ipu_value ipu_cumprod(ipu_builder *b, ipu_value x, int axis);
/* exclusive: excluding i itself; reverse: from the end. */
ipu_value ipu_cumsum_with(ipu_builder *b, ipu_value x, int axis, bool exclusive, bool reverse);
ipu_value ipu_cumprod_with(ipu_builder *b, ipu_value x, int axis, bool exclusive, bool reverse);
/* Element i is log(exp(x[0]) + ... + exp(x[i])), without overflow. */
ipu_value ipu_logcumsumexp(ipu_builder *b, ipu_value x, int axis);
/* Element i is the largest (the smallest) up to and with i, and after a NaN a NaN. *indices (may be NULL): where it
 * is, the last of several that are equal, int32. */
ipu_value ipu_cummax(ipu_builder *b, ipu_value x, int axis, ipu_value *indices);
ipu_value ipu_cummin(ipu_builder *b, ipu_value x, int axis, ipu_value *indices);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_sort(...) IPU_AT(ipu_sort(__VA_ARGS__))
#define ipu_argsort(...) IPU_AT(ipu_argsort(__VA_ARGS__))
#define ipu_topk(...) IPU_AT(ipu_topk(__VA_ARGS__))
#define ipu_cumsum(...) IPU_AT(ipu_cumsum(__VA_ARGS__))
#define ipu_cumprod(...) IPU_AT(ipu_cumprod(__VA_ARGS__))
#define ipu_cumsum_with(...) IPU_AT(ipu_cumsum_with(__VA_ARGS__))
#define ipu_cumprod_with(...) IPU_AT(ipu_cumprod_with(__VA_ARGS__))
#define ipu_logcumsumexp(...) IPU_AT(ipu_logcumsumexp(__VA_ARGS__))
#define ipu_cummax(...) IPU_AT(ipu_cummax(__VA_ARGS__))
#define ipu_cummin(...) IPU_AT(ipu_cummin(__VA_ARGS__))
#endif
#endif
