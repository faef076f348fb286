/* Internals of softmax: loops over one row, or over adjacent columns. */
#ifndef IPU_OP_NORM_SOFTMAX_H
#define IPU_OP_NORM_SOFTMAX_H

#include "base/simd.h"
#include "op/op.h"

typedef struct ipu__softmax_loops {
    /* From x (and dy, for gradients) to out, n elements; out may be either of them. */
    void (*row)(const float *x, const float *dy, float *out, int64_t n);
    /* Likewise down each of `columns` columns of [n, columns], with 3 x columns floats of scratch. */
    void (*columns)(const float *x, const float *dy, float *out, int64_t n, int64_t columns, float *sums);
} ipu__softmax_loops;

typedef enum ipu__softmax_kind {
    IPU__SOFTMAX,
    IPU__LOG_SOFTMAX,
    IPU__SOFTMAX_GRAD,
    IPU__LOG_SOFTMAX_GRAD,
    IPU__N_SOFTMAX_KINDS
} ipu__softmax_kind;

typedef struct ipu__softmax_table {
    ipu__softmax_loops at[IPU__N_SOFTMAX_KINDS];
    /* scale * softmax(x) - less[i]; `less` may be NULL. */
    void (*scaled)(const float *x, float scale, const float *less, float *out, int64_t n);
} ipu__softmax_table;
IPU__SIMD_DECLARE(extern const ipu__softmax_table, ipu__softmax_loops_at)

#endif
