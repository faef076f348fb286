/* Lending: kernels read a stream's data where the host has them. */
#include "engine/cpu/cpu.h"

enum { LENT_ALIGN = 16 }; /* for memory that kernels read: see impl.h */

/* Points kernels that use what this READ brings to it. Returns false if there are none. */
static bool point_kernels(const ipu__cpu *e, uint32_t transfer, void *data)
{
    bool any = false;
    for (size_t i = 0; i < e->exe->lendings.n; i++) {
        const ipu__exe_lending *l = &e->exe->lendings.at[i];
        if (l->transfer != transfer) continue;
        e->kernels[l->kernel].operands[l->operand] = data;
        any                                        = true;
    }
    return any;
}

/* Not for bodies of parallel steps, replicas or checking mode: these get copies. */
bool ipu__cpu_lend(ipu_engine *engine, uint32_t transfer, const void *data)
{
    const ipu__cpu        *e = engine->own;
    const ipu__exe_tensor *t = &e->exe->tensors.at[e->exe->transfers.at[transfer].tensor];
    if (e->replication > 1 || e->n_runners > 0 || e->check) return false;
    if (!data) return point_kernels(e, transfer, ipu__cpu_pointer(e, 0, t->place));
    void *lent = (void *)(uintptr_t)data; /* kernels only read from it */
    return (uintptr_t)data % LENT_ALIGN == 0 && point_kernels(e, transfer, lent);
}
