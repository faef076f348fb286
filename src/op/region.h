/* Regions: intervals of one dimension of which alone a value is used, or outside of which it is 0. How ops pass them on:
 * `region` and `zeros` of records, for the pass that computes regions only (model/pass/slice_propagation.c).
 */
#ifndef IPU_OP_REGION_H
#define IPU_OP_REGION_H

#include "op/op.h"

/* The dimension of the region in each operand; -1: the whole operand is used, or computed. */
typedef struct ipu__regions {
    int  in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    bool all; /* all inputs that the region is in must be 0 outside, not only the one examined */
} ipu__regions;

/* Only a region along dimension `axis` of the outputs is used. Returns false if all of the inputs is
 * needed. */
bool ipu__region_of(const ipu__kernel_call *call, int axis, ipu__regions *out);
/* Input `input` is 0 outside a region along `axis`: what can be computed from the region alone. Outputs that
 * have a dimension are 0 outside. Returns false if nothing can. */
bool ipu__region_of_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out);

/* ---- for `region` and `zeros` ---- */

/* Dimension `axis` of the input is dimension `to` of the output (or -1), and `region` determines the rest. */
bool ipu__region_through(const ipu__kernel_call *call, int input, int axis, int to, ipu__regions *out);
/* Outputs after the first are computed whole: they are sums over the region. */
void ipu__region_only_first(ipu__regions *out);
/* The dimension of `shape` of size `extent` with `before` elements in front of it (like dimension `axis` of
 * `like`), or -1. */
int ipu__region_same_axis(const ipu_shape *shape, const ipu_shape *like, int axis);

#endif
