/* Replicas of an executor as one larger batch: whether that is wanted and can be, and what it counts as. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "train/executor.h"

int64_t ipu__executor_n_graphs(const ipu_executor *x) { return x->options.replicas / x->n_folded; }

/* What of the options keeps replicas apart; "": nothing. */
static const char *kept_apart(const ipu_executor_options *o, const ipu_model *net)
{
    if (o->replicas == 1) return "there is one replica";
    if (o->no_fold) return "option no_fold is set";
    if (ipu_model_n_stages(net) > 1) return "the network is cut into stages, which run side by side";
    if (o->shard_optimizer) return "each replica has its own part of the optimizer's states";
    if (o->optimizer_off_chip || o->activations_off_chip)
        return "replicas have streaming memory of their own";
    return "";
}

/* What the network itself calls so is its own. */
static bool is_sum(const void *user, const char *state)
{
    const ipu_executor *x = user;
    return ipu__executor_is_gradient_sum(state) && ipu__module_find(x->module, state) == SIZE_MAX;
}

ipu_status ipu__executor_fold(ipu_executor *x, ipu__executor_models *m)
{
    ipu_model *folded = NULL;
    x->n_folded       = 1;
    snprintf(x->fold_reason, sizeof x->fold_reason, "%s", kept_apart(&x->options, m->net));
    if (!*x->fold_reason)
        IPU_TRY(ipu__model_fold_batch(m->net, x->options.replicas, is_sum, x, &folded, x->fold_reason));
    if (folded) {
        ipu_model_destroy(m->net);
        m->net      = folded;
        m->n_folded = x->n_folded = x->options.replicas;
    }
    if (x->options.replicas > 1)
        ipu__log(IPU_LOG_DEBUG, "train", folded ? "%d replicas run as one larger batch%s" : "%d replicas: %s",
                 (int)x->options.replicas, x->fold_reason);
    return IPU_OK;
}

const char *ipu_executor_fold_reason(const ipu_executor *x) { return x->exe ? x->fold_reason : NULL; }
