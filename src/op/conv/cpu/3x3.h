/* Kernels of 3 x 3, with stride 1 or 2, on planes as they are: accesses outside are masked, nothing is
 * copied. */
#ifndef IPU_OP_CONV_CPU_3X3_H
#define IPU_OP_CONV_CPU_3X3_H

#include <stdint.h>

#include "base/simd.h"

/* Output (i, j) reads 3 columns from j * stride - pad on, with zeros for missing ones, and 3 rows from i *
 * stride on. */
typedef struct ipu__rows_3x3 {
    const float **row; /* (n_rows - 1) * stride + 3 of n_x floats: zeros where x has no such row */
    int64_t       n_x, pad, stride;
    int64_t       n_rows, n_columns; /* of outputs; at least 4 rows */
} ipu__rows_3x3;

/* NULL if a level has no instructions for it (3x3_simd.c). */
typedef struct ipu__conv_3x3_loops {
    /* y[i][j] = bias + the sum over taps of w times what the output reads. */
    void (*sum)(const ipu__rows_3x3 *x, const float w[9], float bias, float *y);
    /* lane[t], in 16 pieces, += the sum over outputs of y[i][j] times what tap t of it reads. */
    void (*dots)(const ipu__rows_3x3 *x, const float *y, float lane[9 * 16]);
} ipu__conv_3x3_loops;

IPU__SIMD_DECLARE(extern const ipu__conv_3x3_loops, ipu__conv_3x3_loops_at)

#endif
