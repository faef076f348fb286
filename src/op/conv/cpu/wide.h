/* Convolutions of half and bfloat16 by implementations for float: listed by an op before its own ones. */
#ifndef IPU_OP_CONV_CPU_WIDE_H
#define IPU_OP_CONV_CPU_WIDE_H

#include "engine/cpu/impl.h"
#include "op/conv/conv.h"

bool                ipu__conv_wide_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_wide_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_wide_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_wide_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_wide_release(void *prepared);
ipu_status          ipu__conv_wide_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                       void *scratch, int part, int n_parts);

#endif
