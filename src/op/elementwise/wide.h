/* Kernels of half and bfloat16 by implementations for float: listed by an op before its own ones. */
#ifndef IPU_OP_ELEMENTWISE_WIDE_H
#define IPU_OP_ELEMENTWISE_WIDE_H

#include "engine/cpu/impl.h"
#include "op/op.h"

bool                ipu__wide_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__wide_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__wide_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__wide_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__wide_release(void *prepared);
ipu_status ipu__wide_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                         int part, int n_parts);

#define IPU__WIDE                                                               \
    {                                                                           \
        .head = {"wide", ipu__wide_fits}, .layouts = ipu__wide_layouts,         \
        .scratch_bytes = ipu__wide_scratch_bytes, .prepare = ipu__wide_prepare, \
        .release = ipu__wide_release, .run = ipu__wide_run                      \
    }

#endif
