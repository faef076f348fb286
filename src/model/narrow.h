/* What narrowing's halves share: narrow.c walks the model, narrow_rules.c knows how ops pass regions on. */
#ifndef IPU_MODEL_NARROW_H
#define IPU_MODEL_NARROW_H

#include "model/pass.h"

/* Along which dimension the region is in each operand; -1: the whole operand is used, or made. */
typedef struct ipu__narrowing {
    int  in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    bool all; /* inputs that the region is in must all be 0 outside, not only the one that was looked at */
} ipu__narrowing;

/* Of outputs only a region along dimension `axis` is used: what that needs. False: the op knows no such thing. */
bool ipu__narrow_by_output(const ipu_kernel_call *call, uint32_t n_in, int axis, ipu__narrowing *out);
/* Input `input` is 0 outside a region along `axis`: what can be computed from the region alone. Outputs that have a
 * dimension are 0 outside. */
bool ipu__narrow_by_input(const ipu_kernel_call *call, uint32_t n_in, uint32_t input, int axis,
                          ipu__narrowing *out);

/* The dimension of `shape` that is `extent` long with `before` elements in front of it (as dimension `axis` of
 * `like`); -1: none. */
int ipu__narrow_same_axis(const ipu_shape *shape, const ipu_shape *like, int axis);

#endif
