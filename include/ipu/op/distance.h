/* Distances and similarities of vectors, and covariances.
 *
 *     ipu_value d = ipu_cdist(b, queries, keys, 2);                 [n,d], [m,d] -> [n,m]
 *     ipu_value c = ipu_cosine_similarity(b, x, y, -1, 1e-8);
 *
 * Types are floating; p is as in ipu_reduce_norm. Half and bfloat16 are computed in float except for
 * differences. The gradient of a distance of 0 is taken to be 0.
 */
#ifndef IPU_OP_DISTANCE_H
#define IPU_OP_DISTANCE_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The p-norm of x - y + eps over the last dimension; x and y are broadcast. PyTorch: 2, 1e-6. */
ipu_value ipu_pairwise_distance(ipu_builder *b, ipu_value x, ipu_value y, double p, double eps,
                                bool keep_dims);
/* The cosine of the angle between vectors along `axis`; lengths count as at least `eps` (PyTorch: 1e-8). x and
 * y are broadcast; a scalar is a vector of one. */
ipu_value ipu_cosine_similarity(ipu_builder *b, ipu_value x, ipu_value y, int axis, double eps);
/* Distances between each row of x [..., n, d] and each row of y [..., m, d]: [..., n, m]. */
ipu_value ipu_cdist(ipu_builder *b, ipu_value x, ipu_value y, double p);
/* Distances between all pairs of rows of x [n, d], the first before the second: [n (n - 1) / 2]. At most 4096
 * rows. */
ipu_value ipu_pdist(ipu_builder *b, ipu_value x, double p);

/* Covariances of the rows of x [n, observations]: [n, n]. `frequencies`: how often each observation counts, `weights`:
 * how much (null means 1). The sum is divided by the number of observations minus `correction`. */
ipu_value ipu_covariance(ipu_builder *b, ipu_value x, ipu_value frequencies, ipu_value weights,
                         double correction);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_pairwise_distance(...) IPU_AT(ipu_pairwise_distance(__VA_ARGS__))
#define ipu_cosine_similarity(...) IPU_AT(ipu_cosine_similarity(__VA_ARGS__))
#define ipu_cdist(...) IPU_AT(ipu_cdist(__VA_ARGS__))
#define ipu_pdist(...) IPU_AT(ipu_pdist(__VA_ARGS__))
#define ipu_covariance(...) IPU_AT(ipu_covariance(__VA_ARGS__))
#endif
#endif
