/* Convolutions by oneDNN: an implementation of each of the three ops. */
#ifndef IPU_OP_CONV_CPU_ONEDNN_H
#define IPU_OP_CONV_CPU_ONEDNN_H

#include "op/conv/conv.h"

bool       ipu__conv_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__conv_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__conv_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__conv_onednn_release(void *prepared);
ipu_status ipu__conv_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                void *scratch, int index, int n_parts);

#endif
