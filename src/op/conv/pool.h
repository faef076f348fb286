/* Internals of convolution, relu and max pooling as one op, and of the gradient of its weights.
 *
 * The convolution's result is large and read once, by the pool, so it need never exist as a whole. Windows do
 * not overlap. Implementations either keep it in registers (pool_direct.c), or call those of the constituent
 * ops on a few images at a time, which stay in cache (pool_pieces.c).
 */
#ifndef IPU_OP_CONV_POOL_H
#define IPU_OP_CONV_POOL_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/conv/conv.h"

enum { IPU__CONV_POOL_X, IPU__CONV_POOL_W, IPU__CONV_POOL_BIAS, IPU__CONV_POOL_Y, IPU__CONV_POOL_INDICES };
enum {
    IPU__CONV_POOL_GRAD_X,
    IPU__CONV_POOL_GRAD_DY,
    IPU__CONV_POOL_GRAD_INDICES,
    IPU__CONV_POOL_GRAD_DW,
    IPU__CONV_POOL_GRAD_DB
};

enum { IPU__CONV_POOL_WITH = 8 }; /* most attributes of a part */

/* The ops that a call stands for: conv and max_pool, or pool_scatter and conv_weight_grad. The intermediate
 * is conv's operand OUT, and scatter's. Contains pointers to itself, so it must not be moved. */
typedef struct ipu__conv_pool_calls {
    ipu__kernel_call conv, pool;
    ipu_attribute    conv_with[IPU__CONV_POOL_WITH], pool_with[IPU__CONV_POOL_WITH];
} ipu__conv_pool_calls;

/* For `n` images of a call that has passed `check`. */
void ipu__conv_pool_split(const ipu__kernel_call *call, int64_t n, ipu__conv_pool_calls *out);

static inline bool ipu__conv_pool_is_grad(const ipu__kernel_call *call)
{
    return call->def == &ipu__op_conv_max_pool_weight_grad.kernel;
}

/* ---- pool_pieces.c: both ops ---- */

bool ipu__conv_pool_pieces_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_pool_pieces_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_pool_pieces_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_pool_pieces_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_pool_pieces_release(void *prepared);
ipu_status ipu__conv_pool_pieces_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int part, int n_parts);

/* ---- pool_direct.c: both ops, for few channels of x and windows of 2 x 2 ---- */

enum { IPU__CONV_POOL_KERNEL = 3 }; /* rows and columns of weights whose gradient is supported here */

/* Vectors hold sixteen images of one channel, and so does x; or, if `blocked`, sixteen channels of one image,
 * while x is numbers. Elements of x are either. */
typedef struct ipu__conv_pool_shape {
    bool    blocked;
    int64_t in;                   /* channels of x */
    int64_t x_columns, x_plane;   /* elements of x between rows and between channels */
    int64_t y_columns, z_columns; /* of the convolved and the pooled plane */
    int64_t kernel;               /* forward: 3 or 5 rows and columns */
    bool    relu, mask;
} ipu__conv_pool_shape;

/* NULL if a level has no instructions for it (pool_simd.c). */
typedef struct ipu__conv_pool_loops {
    /* Computes row `row` of z and, if not NULL, of indices, from row 2 * row of x. `w` is
     * [in][kernel][kernel] numbers or vectors, and so is `bias`. */
    void (*forward)(const ipu__conv_pool_shape *s, const float *x, const float *w, const float *bias,
                    int64_t row, float *z, int32_t *indices);
    /* Adds to the sums for a channel of x, vectors [3][3], and to that for the bias, if that is not NULL,
     * from rows [begin, end) of d_z and indices, given by their row 0. Returns true if indices outside their
     * windows were skipped. */
    bool (*grad)(const ipu__conv_pool_shape *s, const float *x, const float *dz, const int32_t *indices,
                 int64_t begin, int64_t end, float *sums, float *bias);
} ipu__conv_pool_loops;

IPU__SIMD_DECLARE(extern const ipu__conv_pool_loops, ipu__conv_pool_loops_at)

bool ipu__conv_pool_direct_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_pool_direct_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_pool_direct_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_pool_direct_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_pool_direct_release(void *prepared);
ipu_status   ipu__conv_pool_direct_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                       void *scratch, int part, int n_parts);
ipu_interval ipu__conv_pool_direct_writes(const ipu__kernel_call *call, int operand, int part, int n_parts);

#endif
