/* conv_integer and qlinear_conv in pieces. */
#ifndef IPU_OP_QUANTIZE_CONV_H
#define IPU_OP_QUANTIZE_CONV_H

#include "op/conv/conv.h"
#include "op/quantize/quantize.h"

ipu__conv ipu__int8_conv_get(const ipu__kernel_call *call);
/* The position in its plane of tap `tap` of output `o`; -1 for padding. */
int64_t  ipu__int8_conv_place(const ipu__conv *c, int64_t o, int64_t tap);
uint32_t ipu__int8_conv_bias(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                             int64_t channel);

bool       ipu__int8_conv_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__int8_conv_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__int8_conv_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__int8_conv_onednn_release(void *prepared);
ipu_status ipu__int8_conv_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int part, int n_parts);

#endif
