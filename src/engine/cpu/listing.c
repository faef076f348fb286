/* What an engine chose for its kernels: implementations, parts, layouts and their price. */
#include "engine/cpu/engine.h"

bool ipu_engine_kernel_at(const ipu_engine *e, size_t i, ipu_engine_kernel *out)
{
    if (i >= e->exe->kernels.n) return false;
    const ipu__kernel     *kernel = &e->kernels[i];
    const ipu_kernel_call *call   = kernel->call ? kernel->call : &e->exe->kernels.at[i].call;
    *out                          = (ipu_engine_kernel){
                                 .name           = call->def->name,
                                 .implementation = kernel->is_idle ? "nothing"
                                                 : kernel->impl    ? kernel->impl->name
                                                                   : "reference",
                                 .n_operands     = call->n_operands,
                                 .n_parts        = kernel->n_states > 1 ? kernel->n_states : kernel->n_parts,
                                 .n_chunks       = kernel->n_chunks > 1 ? kernel->n_chunks : 1,
                                 .operations     = e->exe->kernels.at[i].call.def->work(&e->exe->kernels.at[i].call),
                                 .turned_bytes   = kernel->turned_bytes,
    };
    return true;
}

bool ipu_engine_operand_at(const ipu_engine *e, size_t i, int operand, ipu_engine_operand *out)
{
    if (i >= e->exe->kernels.n) return false;
    const ipu_kernel_call *whole =
        &e->exe->kernels.at[i].call; /* one that runs in chunks has a call for a chunk */
    const ipu_kernel_call *call = e->kernels[i].call ? e->kernels[i].call : whole;
    if (operand < 0 || operand >= whole->n_operands) return false;
    *out = (ipu_engine_operand){
        .name      = whole->def->operands[operand].name,
        .type      = whole->operand[operand].type,
        .shape     = whole->operand[operand].shape,
        .layout    = ipu__layout_name((ipu_layout)call->layout[operand]),
        .is_output = whole->def->operands[operand].access != IPU_ACCESS_READ,
        .is_absent = !ipu__kernel_has(whole, operand),
    };
    return true;
}
