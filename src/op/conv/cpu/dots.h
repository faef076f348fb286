/* Weight gradients with few channels, by dot products: an implementation for x86-64. */
#ifndef IPU_OP_CONV_CPU_DOTS_H
#define IPU_OP_CONV_CPU_DOTS_H

#include "op/conv/conv.h"

bool       ipu__conv_dots_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__conv_dots_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__conv_dots_prepare(const ipu__kernel_call *call, int n_parts, void **out);
ipu_status ipu__conv_dots_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts);

#endif
