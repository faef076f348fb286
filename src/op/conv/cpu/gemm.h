/* Convolutions as matrix products, by kernels of libxsmm: shared by forward and gradients. */
#ifndef IPU_OP_CONV_CPU_GEMM_H
#define IPU_OP_CONV_CPU_GEMM_H

#include "op/conv/cpu/columns.h"
#include "op/product/xsmm.h"

typedef struct ipu__conv_part {
    ipu_interval     image, row, channel; /* the part's share; what rows are depends on the kernel */
    ipu__xsmm_blocks blocks;
    ipu__xsmm_blocks last;      /* the same for the remaining images; of size 0 if there are none */
    int64_t          at_once;   /* images whose outputs are columns of one matrix; 0: no work */
    bool             is_direct; /* its meaning depends on the kernel */
} ipu__conv_part;

typedef struct ipu__conv_gemm {
    ipu__conv_state base;
    ipu__conv_part  parts[];
} ipu__conv_gemm;

/* Decided by a kernel at load. */
typedef struct ipu__conv_way {
    void (*describe)(const ipu__columns *columns, int index, int n_parts, ipu__conv_part *out);
    int64_t (*count_floats)(const ipu__columns *columns, const ipu__conv_part *part); /* in bytes */
    ipu_status (*make_blocks)(const ipu__kernel_call *call, const ipu__columns *columns,
                              const ipu__conv_part *part, ipu__xsmm_blocks *blocks);
} ipu__conv_way;

/* Block sizes are chosen as for matmul (op/matmul/xsmm.c). */
enum { IPU__CONV_BLOCK = 256 };

static inline int64_t ipu__conv_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ipu__conv_line_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Images whose outputs are columns of one matrix: one if it has enough outputs, else several. */
static inline int64_t ipu__conv_images_at_once(const ipu__conv *c, int64_t n_images)
{
    int64_t outputs = ipu__conv_volume(c->y);
    return outputs >= 96 ? 1 : ipu__conv_least(n_images, (IPU__CONV_BLOCK + outputs - 1) / outputs);
}

/* Blocks of `sizes`, and for the `n_left` columns of the last images. */
static inline void ipu__conv_set_blocks(ipu__conv_part *part, ipu__xsmm_blocks sizes, int64_t n_left)
{
    part->blocks = sizes;
    sizes.n      = n_left;
    if (n_left > 0 && n_left < sizes.nb) sizes.nb = n_left;
    part->last = sizes;
}

/* Scratch of forward and input_grad, in floats: planes, a panel of columns, weights, sums. Each piece starts
 * at a cache line. */
typedef struct ipu__conv_room {
    int64_t panel, weights, sums, n;
} ipu__conv_room;

static inline ipu__conv_room ipu__conv_make_room(int64_t planes, int64_t panel, int64_t weights, int64_t sums)
{
    ipu__conv_room r = {.panel = ipu__conv_line_up(planes)};
    r.weights        = r.panel + ipu__conv_line_up(panel);
    r.sums           = r.weights + ipu__conv_line_up(weights);
    r.n              = r.sums + ipu__conv_line_up(sums);
    return r;
}

/* For all three ops: checks the type, CPU features, and that nothing is empty. */
bool ipu__conv_gemm_fits(const ipu__kernel_call *call, const void *machine, int n_parts);

size_t     ipu__conv_gemm_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__conv_gemm_prepare(const ipu__kernel_call *call, int n_parts, void **out);

extern const ipu__conv_way ipu__conv_forward_way, ipu__conv_input_grad_way, ipu__conv_weight_grad_way;

ipu_status ipu__conv_forward_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                 void *scratch, int index, int n_parts);
ipu_status ipu__conv_input_grad_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                    void *scratch, int index, int n_parts);
ipu_status ipu__conv_weight_grad_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int index, int n_parts);

#endif
