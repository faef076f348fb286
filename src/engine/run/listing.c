/* What an engine chose for its kernels: implementations, parts, layouts and their price. */
#include "engine/run/run.h"

bool ipu_engine_kernel_at(const ipu_engine *e, size_t i, ipu_engine_kernel *out)
{
    if (i >= e->exe->kernels.n) return false;
    const ipu__kernel_call *call = &e->exe->kernels.at[i].call;
    *out                         = (ipu_engine_kernel){.name           = call->def->name,
                                                       .implementation = "nothing",
                                                       .n_operands     = call->n_operands,
                                                       .n_parts        = 1,
                                                       .n_chunks       = 1,
                                                       .operations     = call->def->work(call)};
    if (e->def->describe) e->def->describe(e, i, out);
    return true;
}

bool ipu_engine_operand_at(const ipu_engine *e, size_t i, int operand, ipu_engine_operand *out)
{
    if (i >= e->exe->kernels.n) return false;
    const ipu__kernel_call *call = &e->exe->kernels.at[i].call;
    if (operand < 0 || operand >= call->n_operands) return false;
    *out = (ipu_engine_operand){
        .name      = call->def->operands[operand].name,
        .type      = call->operand[operand].type,
        .shape     = call->operand[operand].shape,
        .layout    = e->def->layout ? e->def->layout(e, i, operand) : "plain",
        .is_output = call->def->operands[operand].access != IPU__ACCESS_READ,
        .is_absent = !ipu__kernel_has(call, operand),
    };
    return true;
}
