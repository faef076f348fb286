/* Products of float matrices inside other kernels: by libxsmm where it works, else by a plain loop.
 *
 * Created at load, for sizes known then; running one makes no choices and allocates nothing.
 */
#ifndef IPU_OP_PRODUCT_PRODUCT_H
#define IPU_OP_PRODUCT_PRODUCT_H

#include "base/simd.h"
#include "op/product/xsmm.h"

/* c[m][n] (+)= a[m][k] b[k][n], rows lda, ldb, ldc apart. */
typedef struct ipu__product {
    int64_t          m, n, k, lda, ldb, ldc;
    bool             transpose_a; /* a is stored as [k][m] */
    bool             add;         /* add to the contents of c */
    bool             has_kernels;
    ipu__xsmm_blocks blocks;
} ipu__product;

/* Sizes, strides and flags must be set; sizes may be 0. */
void ipu__product_make(ipu__product *p);
void ipu__product_run(const ipu__product *p, const float *a, const float *b, float *c);

/* ---- product_simd.c ---- */

typedef struct ipu__product_loops {
    void (*run)(const ipu__product *p, const float *a, const float *b, float *c);
} ipu__product_loops;

IPU__SIMD_DECLARE(extern const ipu__product_loops, ipu__product_loops)

#endif
