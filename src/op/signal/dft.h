/* Internals of discrete Fourier transforms: the stages for one length, over several transforms side by
 * side. */
#ifndef IPU_OP_SIGNAL_DFT_H
#define IPU_OP_SIGNAL_DFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/simd.h"

enum { IPU__DFT_FACTORS = 48 };

typedef struct ipu__dft_plan {
    int64_t       n; /* the product of the factors */
    int           n_factors, factor[IPU__DFT_FACTORS];
    const double *re, *im; /* e^(-2 pi i k / n) for k < n */
} ipu__dft_plan;

/* Real and imaginary parts: element j of transform q is at [j * n_lanes + q]. */
typedef struct ipu__dft_data {
    double *re, *im;
} ipu__dft_data;

typedef struct ipu__dft_loops {
    /* Forward and unscaled; the result is in `x`, or in `y` if it returns true. Both are overwritten. */
    bool (*transform)(const ipu__dft_plan *plan, int64_t n_lanes, ipu__dft_data x, ipu__dft_data y);
} ipu__dft_loops;
IPU__SIMD_DECLARE(extern const ipu__dft_loops, ipu__dft_loops_of)

#endif
