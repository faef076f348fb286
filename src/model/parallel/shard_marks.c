/* Marks parameters of which each replica has a part, and sums over all parts. */
#include "model/model.h"

void ipu__model_mark_shard(ipu_model *m, ipu_value parameter)
{
    if (m->base.status == IPU_OK && !ipu__push(&m->shards, parameter.id))
        ipu__builder_fail(&m->base, IPU_OUT_OF_MEMORY, "out of memory");
}

bool ipu__model_is_shard(const ipu_model *m, ipu_value v)
{
    for (size_t i = 0; i < m->shards.n; i++)
        if (m->shards.at[i] == v.id) return true;
    return false;
}

ipu_value ipu__model_sum_shards(ipu_model *m, ipu_value shard, ipu_value v)
{
    return ipu__model_is_shard(m, shard) ? ipu__emit1(&m->base, "replica_sum", NULL, 0, IPU__IN(v)) : v;
}
