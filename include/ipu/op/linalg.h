/* Linear algebra: sums of products over named indices, determinants, inverses, solutions.
 *
 *     ipu_value scores = ipu_einsum(b, "bhid,bhjd->bhij", (ipu_value[]){q, k}, 2);
 *     ipu_value volume = ipu_det(b, frames);                          [n,3,3] -> [n]
 *
 * Matrices are the last two dimensions; those before are a batch.
 */
#ifndef IPU_OP_LINALG_H
#define IPU_OP_LINALG_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 1 to 16 values: torch.einsum, numpy.einsum. Letters name dimensions, "..." those before or between, which
 * are broadcast; a letter twice in one term takes a diagonal; letters missing from the result are summed over.
 * Without "->" the result has the ellipsis and the letters that occur once, in alphabetical order. Dimensions
 * of 1 are stretched. Two operands become a batched matrix product. */
ipu_value ipu_einsum(ipu_builder *b, const char *equation, const ipu_value *values, size_t n);

/* 0 for singular matrices, which still have a gradient; 1 for empty ones. Computed in double. */
ipu_value ipu_det(ipu_builder *b, ipu_value x);
/* NaN if singular. Computed in double. */
ipu_value ipu_inverse(ipu_builder *b, ipu_value x);
/* The sign of the determinant, and *log_size (may be NULL): the logarithm of its magnitude. */
ipu_value ipu_slogdet(ipu_builder *b, ipu_value x, ipu_value *log_size);
/* The y for which a y = x, `right`: for which y a = x; by the inverse of a. Not `right`, x may be a vector, or one for
 * each matrix: of the shape of a without its last dimension. */
ipu_value ipu_solve(ipu_builder *b, ipu_value a, ipu_value x, bool right);

/* Of vectors of 3 along `axis`, broadcast. Numbers. */
ipu_value ipu_cross(ipu_builder *b, ipu_value x, ipu_value y, int axis);
/* out[..., k] = sum over i, j of x[..., i] weight[k, i, j] y[..., j], + bias[k], which may be null. */
ipu_value ipu_bilinear(ipu_builder *b, ipu_value x, ipu_value y, ipu_value weight, ipu_value bias);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_einsum(...) IPU_AT(ipu_einsum(__VA_ARGS__))
#define ipu_det(...) IPU_AT(ipu_det(__VA_ARGS__))
#define ipu_inverse(...) IPU_AT(ipu_inverse(__VA_ARGS__))
#define ipu_slogdet(...) IPU_AT(ipu_slogdet(__VA_ARGS__))
#define ipu_solve(...) IPU_AT(ipu_solve(__VA_ARGS__))
#define ipu_cross(...) IPU_AT(ipu_cross(__VA_ARGS__))
#define ipu_bilinear(...) IPU_AT(ipu_bilinear(__VA_ARGS__))
#endif
#endif
