/* What gathers and scatters share: reading indices, rows picked by index, what that costs. */
#ifndef IPU_OP_INDEX_GATHER_H
#define IPU_OP_INDEX_GATHER_H

#include <string.h>

#include "ipu/op/gather.h"
#include "op/op.h"

/* Element `i` of int32, int64 or uint32. */
static inline int64_t ipu__index_load(ipu_type type, const void *from, int64_t i)
{
    switch (type) {
    case IPU_INT32: return ((const int32_t *)from)[i];
    case IPU_UINT32: return ((const uint32_t *)from)[i];
    default: return ((const int64_t *)from)[i];
    }
}

/* The index within 0 .. extent, or -1: out of range. */
static inline int64_t ipu__index_fix(int64_t index, int64_t extent)
{
    if (index < 0) index += extent;
    return index >= 0 && index < extent ? index : -1;
}

/* "index 7 at 3 is out of range" with status ABORTED. */
ipu_status ipu__index_fail(ipu_type type, const void *indices, int64_t i, int64_t extent);

/* x as [outer, extent, inner]: `n` indices, each of `k` numbers, name rows of `inner` elements. */
typedef struct ipu__rows {
    int64_t  outer, extent, inner, n;
    int      k;
    int64_t  dims[IPU_MAX_RANK]; /* of the k numbers; extent is their product */
    ipu_type index_type;
} ipu__rows;

/* The shape of x where `axis` is indexed; where its first `k` dimensions are. */
ipu__rows ipu__rows_axis(const ipu_shape *x, int axis, const ipu__kernel_value *indices);
ipu__rows ipu__rows_nd(const ipu_shape *x, const ipu__kernel_value *indices);

/* Row that index `i` names, or -1. */
int64_t    ipu__rows_find(const ipu__rows *rows, const void *indices, int64_t i);
ipu_status ipu__rows_fail(const ipu__rows *rows, const void *indices, int64_t i);
/* All of them are in range. */
ipu_status ipu__rows_examine(const ipu__rows *rows, const void *indices);

/* `n` rows of `inner` elements dealt to the tiles, each fetched from another tile. */
ipu_status ipu__rows_plan(int64_t n, int64_t inner, ipu_type type, const ipu_target *target,
                          ipu__kernel_plan *out);

/* The functions of ipu/op/gather.h where elements are multiplied, or the larger or smaller stays. */
ipu_value ipu__scatter_reduce_nd(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates,
                                 ipu_scatter how);
ipu_value ipu__scatter_reduce_elements(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates,
                                       int axis, ipu_scatter how);

#endif
