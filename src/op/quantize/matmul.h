/* matmul_integer and qlinear_matmul in pieces. */
#ifndef IPU_OP_QUANTIZE_MATMUL_H
#define IPU_OP_QUANTIZE_MATMUL_H

#include "op/matmul/matmul.h"
#include "op/quantize/quantize.h"

ipu__matmul ipu__int8_matmul_get(const ipu__kernel_call *call);

bool       ipu__int8_matmul_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__int8_matmul_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__int8_matmul_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__int8_matmul_onednn_release(void *prepared);
ipu_status ipu__int8_matmul_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                       void *scratch, int part, int n_parts);

#endif
