/* Regions: intervals of one dimension of which alone a value is used, or outside of which it is 0. How ops pass them on:
 * `region` and `zeros` of records, for the pass that computes regions only (model/pass/slice_propagation.c).
 */
#ifndef IPU_OP_REGION_H
#define IPU_OP_REGION_H

#include "op/op.h"

/* Along which dimension the region is in each operand; -1: the whole operand is used, or made. */
typedef struct ipu__regions {
    int  in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    bool all; /* inputs that the region is in must all be 0 outside, not only the one that was looked at */
} ipu__regions;

/* Of the outputs only a region along dimension `axis` is used. False: all of the inputs is needed. */
bool ipu__region_of(const ipu_kernel_call *call, int axis, ipu__regions *out);
/* Input `input` is 0 outside a region along `axis`: what can be computed from the region alone. Outputs that have a
 * dimension are 0 outside. False: nothing. */
bool ipu__region_of_zeros(const ipu_kernel_call *call, int input, int axis, ipu__regions *out);

/* ---- for `region` and `zeros` ---- */

/* Dimension `axis` of the input is dimension `to` of the output (-1: none), and `region` says the rest. */
bool ipu__region_through(const ipu_kernel_call *call, int input, int axis, int to, ipu__regions *out);
/* Outputs behind the first are made whole: they are sums over the region. */
void ipu__region_only_first(ipu__regions *out);
/* The dimension of `shape` that is `extent` long with `before` elements in front of it (as dimension `axis` of
 * `like`); -1: none. */
int ipu__region_same_axis(const ipu_shape *shape, const ipu_shape *like, int axis);

#endif
