/* Converts rows of half to floats and back, at every instruction level (half_simd.c). */
#ifndef IPU_OP_VECTOR_HALF_H
#define IPU_OP_VECTOR_HALF_H

#include <stdint.h>

#include "base/simd.h"
#include "ipu/type.h"

/* `rows` rows of `n` elements, `step` and `to_step` apart. To half: to nearest, ties to even. */
typedef struct ipu__half_loops {
    void (*widen)(const ipu_half *from, int64_t step, float *to, int64_t to_step, int64_t rows, int64_t n);
    void (*narrow)(const float *from, int64_t step, ipu_half *to, int64_t to_step, int64_t rows, int64_t n);
} ipu__half_loops;

IPU__SIMD_DECLARE(extern const ipu__half_loops, ipu__half_loops_at)

#endif
