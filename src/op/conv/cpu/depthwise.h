/* Depthwise convolutions: an implementation of each of the three ops. */
#ifndef IPU_OP_CONV_CPU_DEPTHWISE_H
#define IPU_OP_CONV_CPU_DEPTHWISE_H

#include "op/conv/conv.h"

bool       ipu__conv_depthwise_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__conv_depthwise_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__conv_depthwise_prepare(const ipu__kernel_call *call, int n_parts, void **out);
ipu_status ipu__conv_depthwise_forward_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                           void *scratch, int part, int n_parts);
ipu_status ipu__conv_depthwise_input_grad_run(const ipu__kernel_call *call, void *prepared,
                                              void *const *operand, void *scratch, int part, int n_parts);
ipu_status ipu__conv_depthwise_weight_grad_run(const ipu__kernel_call *call, void *prepared,
                                               void *const *operand, void *scratch, int part, int n_parts);

#endif
