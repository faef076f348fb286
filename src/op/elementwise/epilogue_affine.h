/* Epilogues of convolutions that consist of a scale and shift per channel, an addition and relu, in this
 * order, each of them optional: what inference batch norm and residual blocks amount to. Implementations
 * apply them in registers, whatever the layout.
 */
#ifndef IPU_OP_ELEMENTWISE_EPILOGUE_AFFINE_H
#define IPU_OP_ELEMENTWISE_EPILOGUE_AFFINE_H

#include "engine/cpu/impl.h"
#include "op/elementwise/epilogue.h"

enum { IPU__AFFINE_STEPS = 8 };

typedef struct ipu__affine {
    int n_steps;
    struct {
        enum { IPU__AFFINE_ADD, IPU__AFFINE_SUB, IPU__AFFINE_MUL } kind;
        int  operand; /* of the call: a number per channel, or one for all */
        bool single;
    } step[IPU__AFFINE_STEPS];
    int  add; /* operand of the result's shape to add next, or 0 */
    bool relu;
} ipu__affine;

/* Whether the epilogue of `call`, in float, has this form, or there is none. Channels are dimension 1 of the
 * result. */
bool ipu__affine_of(const ipu__kernel_call *call, ipu__affine *out);

/* result * scale[i] + shift[i] for channels [begin, begin + n), with `bias` (may be NULL) included. Returns
 * false if scale is 1 throughout. */
bool ipu__affine_get(const ipu__affine *a, void *const *operand, const float *bias, int64_t begin, int64_t n,
                     float *scale, float *shift);

/* `layouts` of the result and of e0..: `takes`, and plain, tied; operands of other shapes plain. */
ipu__kernel_layouts ipu__affine_layouts(const ipu__kernel_call *call, int operand, unsigned takes);

#endif
