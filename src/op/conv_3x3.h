/* Kernels of 3 x 3 and stride 1 on planes as they are: what lies outside is masked, nothing is copied. */
#ifndef IPU_OP_CONV_3X3_H
#define IPU_OP_CONV_3X3_H

#include <stdint.h>

#include "base/simd.h"

/* Output (i, j) reads columns j - pad to j - pad + 2 of rows i, i + 1 and i + 2; columns that are not there
 * are zeros. */
typedef struct ipu__rows_3x3 {
    const float **row; /* n_rows + 2 of n_x floats, which are zeros where x has no such row */
    int64_t       n_x, pad;
    int64_t       n_rows, n_columns; /* of outputs; at least 4 rows */
} ipu__rows_3x3;

/* NULL where a level has no instructions for it (conv_3x3_simd.c). */
typedef struct ipu__conv_3x3_loops {
    /* y[i][j] = bias + the sum over taps of w times what the output reads. */
    void (*sum)(const ipu__rows_3x3 *x, const float w[9], float bias, float *y);
    /* lane[t], in 16 pieces, += the sum over outputs of y[i][j] times what tap t of it reads. */
    void (*dots)(const ipu__rows_3x3 *x, const float *y, float lane[9 * 16]);
} ipu__conv_3x3_loops;

IPU__SIMD_DECLARE(extern const ipu__conv_3x3_loops, ipu__conv_3x3_loops_at)

#endif
