/* linear_sgd in pieces: gradients of a linear layer fused with a step of sgd on its weights. */
#ifndef IPU_OP_MATMUL_LINEAR_SGD_H
#define IPU_OP_MATMUL_LINEAR_SGD_H

#include "op/matmul/matmul.h"
#include "op/optimizer/optimizer.h"

/* y = x w^T with w[out][in]. */
enum {
    IPU__LINEAR_SGD_DY, /* [batch][out] */
    IPU__LINEAR_SGD_X,  /* [batch][in] */
    IPU__LINEAR_SGD_PARAMETER,
    IPU__LINEAR_SGD_RATE,
    IPU__LINEAR_SGD_STEP,
    IPU__LINEAR_SGD_MOMENTUM,
    IPU__LINEAR_SGD_NEW_PARAMETER,
    IPU__LINEAR_SGD_NEW_MOMENTUM,
    IPU__LINEAR_SGD_DX, /* [batch][in], or absent */
    IPU__LINEAR_SGD_OPERANDS
};

/* Smallest number of rows of w, and of the batch if dx is wanted, that can be tiled. */
enum { IPU__LINEAR_SGD_LEAST = 3 };

/* The calls it replaces: dy^T x, the step that uses this gradient, and dy w. */
ipu__kernel_call ipu__linear_sgd_gradient(const ipu__kernel_call *call);
ipu__kernel_call ipu__linear_sgd_update(const ipu__kernel_call *call);
ipu__kernel_call ipu__linear_sgd_input_gradient(const ipu__kernel_call *call);

/* The parameters of sgd in this step; `o` is ipu__optimizer_get of the update. */
void ipu__linear_sgd_set_step(const ipu__kernel_call *call, void *const *operand, ipu__optimizer *o);

/* ---- linear_sgd_simd.c ---- */

/* Sums over k of a[k][row] * b[k][column], kept in registers until complete. Rows of `b` and of results are
 * `b_step` and `step` apart, a is packed: [k][rows]. */
typedef struct ipu__outer_tile {
    int          rows, columns;
    int64_t      k, b_step, step;
    const float *a, *b;
    float       *out, *momentum;
    const float *next, *next_momentum; /* what the next tile writes, prefetched meanwhile */
    float        keep, rate;
} ipu__outer_tile;

typedef struct ipu__linear_sgd_loops {
    int most_rows, vectors, width;
    /* out = sums */
    void (*store)(const ipu__outer_tile *tile);
    /* momentum = keep * momentum + sums, out -= rate * momentum */
    void (*update)(const ipu__outer_tile *tile);
    void (*add)(const float *from, float *to, int64_t n);
    /* 0 where x is not above 0 */
    void (*mask)(const float *x, float *to, int64_t n);
} ipu__linear_sgd_loops;

IPU__SIMD_DECLARE(extern const ipu__linear_sgd_loops, ipu__linear_sgd_loops_at)

/* ---- linear_sgd_run.c ---- */

bool                ipu__linear_sgd_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__linear_sgd_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__linear_sgd_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__linear_sgd_prepare(const ipu__kernel_call *call, int n_parts, void **out);
ipu_status          ipu__linear_sgd_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                        void *scratch, int index, int n_parts);

#endif
