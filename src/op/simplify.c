/* What rules of simplification ask of the op they are given. */
#include "op/simplify.h"

bool ipu__simplify_is_like(const ipu__simplify *s, int i)
{
    const ipu__kernel_value *in = &s->call.operand[i], *out = &s->call.operand[ipu__op_of(s->call.def)->n_in];
    return in->type == out->type && ipu__shape_equal(&in->shape, &out->shape);
}

ipu_status ipu__simplify_if_alike(ipu__simplify *s)
{
    if (ipu__simplify_is_like(s, 0)) s->same = 0;
    return IPU_OK;
}
