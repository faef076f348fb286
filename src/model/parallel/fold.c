/* Running replicas as one larger batch: whether that is wanted and possible. */
#include <stdio.h>

#include "base/log.h"
#include "model/parallel/parallel.h"

/* What keeps replicas separate, or "". */
static const char *kept_apart(const ipu__parallel *o, const ipu_model *net)
{
    if (o->replicas == 1) return "there is one replica";
    if (o->no_fold) return "option no_fold is set";
    if (ipu_model_n_stages(net) > 1) return "the network is cut into stages, which run side by side";
    if (o->shard_optimizer) return "each replica has its own part of the optimizer's states";
    if (o->optimizer_off_chip || o->activations_off_chip)
        return "replicas have streaming memory of their own";
    return "";
}

/* Makes the ties refer to the folded network, which has other ids. */
static void retie(ipu__ties *ties, const uint32_t *ids)
{
    for (size_t i = 0; i < ties->trained.n; i++) {
        ipu__trained *t  = &ties->trained.at[i];
        t->parameter.net = ids[t->parameter.net];
        t->sum.net       = ids[t->sum.net];
    }
    ties->count.net = ids[ties->count.net];
    ties->scale.net = ids[ties->scale.net];
}

static ipu_status fold(const ipu__parallel *o, ipu__parallel_models *m)
{
    ipu_model *folded;
    uint32_t  *ids    = ipu__alloc_zeroed(m->net->values.n * sizeof *ids);
    uint8_t   *is_sum = ipu__alloc_zeroed(m->net->values.n);
    ipu_status status = ids && is_sum ? IPU_OK : ipu__fail_memory();
    for (size_t i = 0; status == IPU_OK && i < m->ties.trained.n; i++)
        is_sum[m->ties.trained.at[i].sum.net] = 1;
    if (status == IPU_OK)
        status = ipu__model_fold_batch(m->net, o->replicas, is_sum, &folded, ids, m->fold_reason);
    if (status == IPU_OK && folded) {
        ipu_model_destroy(m->net);
        m->net      = folded;
        m->n_folded = o->replicas;
        retie(&m->ties, ids);
    }
    ipu__free(ids);
    ipu__free(is_sum);
    return status;
}

ipu_status ipu__parallel_fold(const ipu__parallel *o, ipu__parallel_models *m)
{
    m->n_folded = 1;
    snprintf(m->fold_reason, sizeof m->fold_reason, "%s", kept_apart(o, m->net));
    if (!*m->fold_reason) IPU_TRY(fold(o, m));
    if (o->replicas > 1)
        ipu__log(IPU_LOG_DEBUG, "model",
                 m->n_folded > 1 ? "%d replicas run as one larger batch%s" : "%d replicas: %s",
                 (int)o->replicas, m->fold_reason);
    return IPU_OK;
}
