/* Replicas as one larger batch: whether that is wanted and can be. */
#include <stdio.h>

#include "base/log.h"
#include "model/parallel/parallel.h"

/* What keeps replicas apart; "": nothing. */
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

static bool is_sum(const void *user, const char *state)
{
    (void)user;
    return ipu__parallel_is_gradient_sum(state);
}

ipu_status ipu__parallel_fold(const ipu__parallel *o, ipu__parallel_models *m)
{
    ipu_model *folded = NULL;
    m->n_folded       = 1;
    snprintf(m->fold_reason, sizeof m->fold_reason, "%s", kept_apart(o, m->net));
    if (!*m->fold_reason)
        IPU_TRY(ipu__model_fold_batch(m->net, o->replicas, is_sum, NULL, &folded, m->fold_reason));
    if (folded) {
        ipu_model_destroy(m->net);
        m->net      = folded;
        m->n_folded = o->replicas;
    }
    if (o->replicas > 1)
        ipu__log(IPU_LOG_DEBUG, "model", folded ? "%d replicas run as one larger batch%s" : "%d replicas: %s",
                 (int)o->replicas, m->fold_reason);
    return IPU_OK;
}
