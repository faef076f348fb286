/* Internals of quantisation: 8-bit numbers, their loops, and what integer products share. */
#ifndef IPU_OP_QUANTIZE_QUANTIZE_H
#define IPU_OP_QUANTIZE_QUANTIZE_H

#include <math.h>

#include "base/simd.h"
#include "op/op.h"

/* For `n` elements. `each`: scale and zero have one value per element, else one for all. */
typedef struct ipu__quantize_loops {
    void (*to_uint8)(const float *x, const float *scale, const float *zero, bool each, void *y, int64_t n);
    void (*to_int8)(const float *x, const float *scale, const float *zero, bool each, void *y, int64_t n);
    void (*from_uint8)(const void *x, const float *scale, const float *zero, bool each, float *y, int64_t n);
    void (*from_int8)(const void *x, const float *scale, const float *zero, bool each, float *y, int64_t n);
    void (*from_int32)(const void *x, const float *scale, const float *zero, bool each, float *y, int64_t n);
    void (*fake)(const float *x, const float *scale, const float *zero, bool each, const float range[2],
                 float *y, int64_t n);
    /* The minimum and maximum of x, *low and *high. */
    void (*range)(const float *x, int64_t n, float *low, float *high);
    /* sum[i] * scale[i], rounded, clamped, and zero added */
    void (*finish_uint8)(const int32_t *sum, const float *scale, float zero, void *y, int64_t n);
    void (*finish_int8)(const int32_t *sum, const float *scale, float zero, void *y, int64_t n);
    /* out[i,j] = sum over k of a[i,k] * b[j,k]; rows have k elements, a multiple of 32. */
    void (*dots)(const int16_t *a, const int16_t *b, int64_t k, int64_t m, int64_t n, int32_t *out,
                 int64_t stride);
    /* Corrects the sums of a row for zero points: to[j] += left_zero * column[j] - row * right_zero[j], where
     * `row` is the sum of the row of a, and column[j] = k * right_zero[j] minus the sum of column j of b. */
    void (*correct)(int32_t *to, const uint32_t *column, const uint32_t *right_zero, uint32_t left_zero,
                    uint32_t row, int64_t n);
    uint32_t (*sum_int8)(const void *x, int64_t n);
    uint32_t (*sum_uint8)(const void *x, int64_t n);
    void (*subtract)(uint32_t *from, const int8_t *x, int64_t n); /* from[i] -= x[i] */
    void (*flip)(const int8_t *x, int8_t *to, int64_t n);         /* uint8 minus 128, as int8 */
} ipu__quantize_loops;
IPU__SIMD_DECLARE(extern const ipu__quantize_loops, ipu__quantize_loops_of)

/* Element `i` of int8, uint8 or int32. */
static inline int32_t ipu__quantized_load(ipu_type type, const void *from, int64_t i)
{
    switch (type) {
    case IPU_INT8: return ((const int8_t *)from)[i];
    case IPU_UINT8: return ((const uint8_t *)from)[i];
    default: return ((const int32_t *)from)[i];
    }
}

/* Stores element `i` of int8 or uint8; `value` is already rounded. NaN becomes the minimum. */
static inline void ipu__quantized_store(ipu_type type, void *to, int64_t i, double value)
{
    double low = type == IPU_INT8 ? -128 : 0, high = low + 255;
    value = !(value > low) ? low : value > high ? high : value;
    if (type == IPU_INT8)
        ((int8_t *)to)[i] = (int8_t)value;
    else
        ((uint8_t *)to)[i] = (uint8_t)value;
}

static inline bool ipu__is_8_bits(ipu_type type) { return type == IPU_INT8 || type == IPU_UINT8; }

/* Checks that the operand is int8 or uint8. */
ipu_status ipu__want_8_bits(const ipu__kernel_call *call, int operand);

/* Checks the number of scales or zero points: 1 or `n`. */
ipu_status ipu__want_scales(const ipu__kernel_call *call, int operand, int64_t n, const char *of);

/* ---- products ---- */

/* The roles of operands; -1 if absent. `right` is the weight of a convolution. */
typedef struct ipu__int8_roles {
    int left, right, left_zero, right_zero, left_scale, right_scale, y_scale, y_zero, bias, out;
} ipu__int8_roles;

/* For matmul_integer, conv_integer, qlinear_matmul or qlinear_conv. */
const ipu__int8_roles *ipu__int8_roles_of(const ipu__kernel_call *call);

/* Checks types, and scales and zero points: 1 or `n_left` of `left`, 1 or `n_right` of `right`. */
ipu_status ipu__int8_infer(const ipu__kernel_call *call, const ipu__int8_roles *r, int64_t n_left,
                           int64_t n_right, ipu_type *out);

/* The zero point of position `i`; the scale of a result, and of `n` from there on. */
int32_t ipu__int8_zero(const ipu__kernel_call *call, void *const *operand, int zero, int64_t i);
float   ipu__int8_scale(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                        int64_t i_left, int64_t i_right);
void    ipu__int8_scales(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                         int64_t i_left, int64_t i_right, int64_t n, float *to);

/* Stores sum `value` as element `at` of the output. */
void ipu__int8_store(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand, int64_t at,
                     uint32_t value, int64_t i_left, int64_t i_right);

enum { IPU__INT8_BLOCK = 64, IPU__INT8_DEPTH = 32 }; /* rows and columns at a time; k is padded to this */

static inline int64_t ipu__int8_depth(int64_t k)
{
    return ipu__op_ceil_div(k, IPU__INT8_DEPTH) * IPU__INT8_DEPTH;
}

/* to[i] is element i * step of x minus `zero`; zeros from n up to `depth`. */
void ipu__int8_pack(ipu_type type, const void *x, int64_t step, int64_t n, int32_t zero, int64_t depth,
                    int16_t *to);

/* Stores `n` sums of a row as elements from `at` of the output; `scales`: of each, unused if it is int32. */
void ipu__int8_finish(const ipu__kernel_call *call, const ipu__int8_roles *r,
                      const ipu__quantize_loops *loops, void *const *operand, const int32_t *sums,
                      const float *scales, int64_t n, int64_t at);

/* ---- onednn.c: exact if the CPU adds four products at a time in 32 bits ---- */

/* out[i,j] = sum over k of a[i,k] * b[k,j]; a is int8 or uint8, b is int8, out is int32. */
typedef struct ipu__int8_dims {
    int64_t  m, n, k;
    ipu_type a_type;
    int64_t  b_k, b_n, out_m; /* strides */
} ipu__int8_dims;

typedef struct ipu__int8_gemm ipu__int8_gemm;

bool ipu__int8_gemm_fits(unsigned cpu_features, const ipu__int8_dims *dims);
/* Bytes of scratch for a product. Statuses: OUT_OF_MEMORY; if oneDNN refuses, `make` reports it. */
ipu_status ipu__int8_gemm_bytes(const ipu__int8_dims *dims, size_t *out);
/* Owned: ipu__int8_gemm_free, which accepts NULL. */
ipu_status ipu__int8_gemm_make(const ipu__int8_dims *dims, ipu__int8_gemm **out);
void       ipu__int8_gemm_free(ipu__int8_gemm *g);
ipu_status ipu__int8_gemm_run(ipu__int8_gemm *g, const void *a, const int8_t *b, int32_t *out, void *scratch);

#endif
