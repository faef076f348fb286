/* A lower bound that needs no memory plan: activations, code and exchange buffers come on top. */
#include "model/fit.h"

#include <stdatomic.h>

#include "base/log.h"

int64_t ipu__model_kept_bytes(const ipu_model *m)
{
    int64_t bytes = 0;
    for (uint32_t id = 1; id < m->values.n; id++) {
        const ipu__model_value *v = &m->values.at[id];
        if (v->kind != IPU__VALUE_PARAMETER && v->kind != IPU__VALUE_STATE && v->kind != IPU__VALUE_CONSTANT)
            continue;
        const ipu__builder_value *type = &m->base.values.at[id];
        bytes += ipu__op_n_elements(&type->shape) * (int64_t)ipu_type_size(type->type);
    }
    return bytes;
}

void ipu__warn_if_too_large(int64_t bytes, const ipu_target *target)
{
    static atomic_flag is_told = ATOMIC_FLAG_INIT;
    int64_t            room    = ipu_target_n_tiles(target) * ipu_target_bytes_per_tile(target);
    if (bytes <= room || atomic_flag_test_and_set(&is_told)) return;
    ipu__log(
        IPU_LOG_WARN, "graph",
        "weights and states alone take %.1f MB, and %lld IPU%s of type %s %s %.1f MB: the program runs here, but "
        "would not fit on the chip; split it into stages on more IPUs, use half precision, or keep the "
        "optimizer's states off chip",
        (double)bytes / 1e6, (long long)target->n_ipus, target->n_ipus == 1 ? "" : "s",
        ipu_target_chip_name(target), target->n_ipus == 1 ? "has" : "have", (double)room / 1e6);
}
