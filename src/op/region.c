/* How regions pass through an op: by its record, from a beginning in which they do not. */
#include "op/region.h"

static void begin(ipu__regions *out, int axis)
{
    out->all = false;
    for (int i = 0; i < IPU__MAX_OPERANDS; i++) {
        out->in[i]  = -1;
        out->out[i] = axis;
    }
}

bool ipu__region_of(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    begin(out, axis);
    return op->region && op->region(call, axis, out);
}

bool ipu__region_of_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    begin(out, axis);
    return op->zeros && op->zeros(call, input, axis, out);
}

bool ipu__region_through(const ipu__kernel_call *call, int input, int axis, int to, ipu__regions *out)
{
    return to >= 0 && ipu__region_of(call, to, out) && out->in[input] == axis;
}

void ipu__region_only_first(ipu__regions *out)
{
    for (int i = 1; i < IPU__MAX_OPERANDS; i++) out->out[i] = -1;
}

int ipu__region_same_axis(const ipu_shape *shape, const ipu_shape *like, int axis)
{
    int64_t before = 1, at = 1;
    for (int d = 0; d < axis; d++) before *= like->dim[d];
    for (int d = 0; d < shape->rank; d++) {
        if (at == before && shape->dim[d] == like->dim[axis]) return d;
        at *= shape->dim[d];
    }
    return -1;
}
