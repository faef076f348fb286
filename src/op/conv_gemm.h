/* Convolutions as products of matrices, by kernels of libxsmm: what forward and gradients have in common. */
#ifndef IPU_OP_CONV_GEMM_H
#define IPU_OP_CONV_GEMM_H

#include "op/conv_columns.h"
#include "op/xsmm.h"

/* Images [image.begin, image.end), in each of them rows [row.begin, row.end) of whatever the kernel splits
 * when there are fewer images than parts. */
typedef struct ipu__conv_part {
    ipu_interval image, row;
} ipu__conv_part;

/* Sizes of blocks are chosen as for matmul (matmul_xsmm.c). */
enum { IPU__CONV_BLOCK = 256 };

static inline int64_t ipu__conv_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ipu__conv_line_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Images whose outputs are columns of one matrix: one if it has enough, else as many as make some. */
static inline int64_t ipu__conv_images_at_once(const ipu__conv *c, int64_t n_images)
{
    int64_t outputs = ipu__conv_volume(c->y);
    return outputs >= 96 ? 1 : ipu__conv_least(n_images, (IPU__CONV_BLOCK + outputs - 1) / outputs);
}

/* For all three ops: the type, features, and nothing empty. */
bool ipu__conv_gemm_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts);

size_t     ipu__conv_forward_scratch_bytes(const ipu_kernel_call *call, int n_parts);
ipu_status ipu__conv_forward_prepare(const ipu_kernel_call *call, int n_parts, void **out);
void       ipu__conv_forward_release(void *prepared);
ipu_status ipu__conv_forward_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                 void *scratch, int index, int n_parts);

size_t     ipu__conv_input_grad_scratch_bytes(const ipu_kernel_call *call, int n_parts);
ipu_status ipu__conv_input_grad_prepare(const ipu_kernel_call *call, int n_parts, void **out);
void       ipu__conv_input_grad_release(void *prepared);
ipu_status ipu__conv_input_grad_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                    void *scratch, int index, int n_parts);

size_t     ipu__conv_weight_grad_scratch_bytes(const ipu_kernel_call *call, int n_parts);
ipu_status ipu__conv_weight_grad_prepare(const ipu_kernel_call *call, int n_parts, void **out);
void       ipu__conv_weight_grad_release(void *prepared);
ipu_status ipu__conv_weight_grad_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int index, int n_parts);

#endif
