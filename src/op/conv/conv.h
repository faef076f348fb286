/* Convolutions in pieces: shared by the three ops, their implementations and their price. */
#ifndef IPU_OP_CONV_CONV_H
#define IPU_OP_CONV_CONV_H

#include "op/elementwise/epilogue.h"

/* Operands of conv, with the inputs of the epilogue before `out`; and of the two gradients. */
enum { IPU__CONV_X, IPU__CONV_W, IPU__CONV_BIAS, IPU__CONV_OUT = 3 + IPU__EPILOGUE_IN };
enum { IPU__CONV_INPUT_GRAD_DY, IPU__CONV_INPUT_GRAD_W, IPU__CONV_INPUT_GRAD_OUT };
enum { IPU__CONV_WEIGHT_GRAD_X, IPU__CONV_WEIGHT_GRAD_DY, IPU__CONV_WEIGHT_GRAD_OUT };

typedef enum ipu__conv_kind { IPU__CONV_FORWARD, IPU__CONV_INPUT_GRAD, IPU__CONV_WEIGHT_GRAD } ipu__conv_kind;

/* y[n, g*out+o, Y] = sum over c, K of x[n, g*in+c, Y*stride - pad + K*dilation] * w[g*out+o, c, K]. There are
 * three convolved dimensions: missing ones come first and are 1. */
typedef struct ipu__conv {
    ipu__conv_kind kind;
    int            rank;               /* actual number of convolved dimensions */
    int64_t        n, groups, in, out; /* channels per group */
    int64_t        x[3], y[3], k[3], stride[3], pad[3], pad_end[3], dilation[3];
} ipu__conv;

/* The call, of any of the three ops, must have passed `check`. */
ipu__conv ipu__conv_get(const ipu__kernel_call *call);

/* Multiplications and additions. */
double ipu__conv_work(const ipu__kernel_call *call);

static inline int64_t ipu__conv_volume(const int64_t dim[3]) { return dim[0] * dim[1] * dim[2]; }

/* For all three records. */
#define IPU__CONV_ATTRIBUTES                                                                                 \
    {.name = "stride", .kind = IPU_ATTRIBUTE_INTS, .meaning = "one per convolved dimension; none: 1"},       \
        {.name    = "padding",                                                                               \
         .kind    = IPU_ATTRIBUTE_INTS,                                                                      \
         .meaning = "zeros around: one per convolved dimension, or all begins, then all ends"},              \
        {.name = "dilation", .kind = IPU_ATTRIBUTE_INTS, .meaning = "distance of taps; none: 1"},            \
    {                                                                                                        \
        .name = "groups", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "channels in so many groups" \
    }

/* ---- ref.c ---- */

void ipu__conv_ref(const ipu__kernel_call *call, void *const *operand);

/* ---- plan.c ---- */

ipu_status ipu__conv_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);

#endif
