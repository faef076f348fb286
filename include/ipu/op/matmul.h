/* Matrix products.
 *
 *     ipu_value y = ipu_linear(b, x, weight, bias);      x [..., in], weight [out, in], bias [out]
 *     ipu_value s = ipu_matmul_with(b, q, k, false, true);    q [..., n, d], k [..., m, d]
 *
 * Types are float, half, bfloat16, double, int32 and int64. half and bfloat16 are multiplied and summed in
 * float and rounded at the end; integers wrap. The order of summation is up to the implementation.
 */
#ifndef IPU_OP_MATMUL_H
#define IPU_OP_MATMUL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* numpy's rules: the last two dimensions are matrices, those before are broadcast against each other; a
 * vector is one row on the left, one column on the right, and its dimension is dropped from the result. */
ipu_value ipu_matmul(ipu_builder *b, ipu_value a, ipu_value x);
/* The same with the last two dimensions of either swapped, which cannot be done with vectors. */
ipu_value ipu_matmul_with(ipu_builder *b, ipu_value a, ipu_value x, bool transpose_a, bool transpose_b);

typedef struct ipu_gemm_options {
    bool   transpose_a, transpose_b;
    double alpha, beta; /* 0 means 1 */
} ipu_gemm_options;

/* alpha * a x + beta * c; `c` is broadcast, and may be null. */
ipu_value ipu_gemm(ipu_builder *b, ipu_value a, ipu_value x, ipu_value c, ipu_gemm_options options);

/* x weight^T + bias; `bias` may be null. */
ipu_value ipu_linear(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_matmul(...) IPU_AT(ipu_matmul(__VA_ARGS__))
#define ipu_matmul_with(...) IPU_AT(ipu_matmul_with(__VA_ARGS__))
#define ipu_gemm(...) IPU_AT(ipu_gemm(__VA_ARGS__))
#define ipu_linear(...) IPU_AT(ipu_linear(__VA_ARGS__))
#endif
#endif
