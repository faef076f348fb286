/* stop_gradient: the same value, through which no gradient passes. A view: nothing moves. */
#include "ipu/model.h"
#include "op/op.h"
#include "op/replicas.h"

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    *out = call->operand[0];
    return IPU_OK;
}

static ipu_tensor view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g, (void)call;
    return in[0];
}

ipu_value ipu_stop_gradient(ipu_builder *b, ipu_value x)
{
    return ipu__emit1(b, "stop_gradient", NULL, 0, IPU__IN(x));
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};

static const char *const samples[] = {"float[2,3]", "int32[4]", "float[0,3]", NULL};

const ipu__op_def ipu__op_stop_gradient = {
    .kernel  = {.name = "stop_gradient", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in    = 1,
    .family  = "shape",
    .summary = "the same values; no gradient passes",
    .flags   = IPU__OP_NO_GRADIENT,
    .infer   = infer,
    .view    = view,
    .fold    = ipu__fold_elementwise,
    .samples = samples,
};
