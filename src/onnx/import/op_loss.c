/* Losses of ONNX. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

static ipu_loss_options options_of(ipu__node *n)
{
    const char      *reduction = ipu__attr_text(n, "reduction", "mean");
    ipu_loss_options o         = {.weight           = ipu__in(n, 2),
                                  .has_ignore_index = ipu__attr(n, "ignore_index") != NULL,
                                  .ignore_index     = ipu__attr_int(n, "ignore_index", 0)};
    if (strcmp(reduction, "mean") == 0)
        o.reduction = IPU_LOSS_MEAN;
    else if (strcmp(reduction, "sum") == 0)
        o.reduction = IPU_LOSS_SUM;
    else if (strcmp(reduction, "none") == 0)
        o.reduction = IPU_LOSS_NONE;
    else
        ipu__node_fail(n, IPU_INVALID, "reduction is \"%.40s\"; expected none, sum or mean", reduction);
    return o;
}

void ipu__onnx_NegativeLogLikelihoodLoss(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), labels = ipu__in_needed(n, 1);
    ipu__give(n, 0, ipu_nll_loss_with(n->b, x, labels, options_of(n)));
}

void ipu__onnx_SoftmaxCrossEntropyLoss(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), labels = ipu__in_needed(n, 1);
    if (!ipu__wants(n, 1)) {
        ipu__give(n, 0, ipu_cross_entropy_with(n->b, x, labels, options_of(n)));
        return;
    }
    ipu_value log_prob = ipu_log_softmax(n->b, x, 1);
    ipu__give(n, 0, ipu_nll_loss_with(n->b, log_prob, labels, options_of(n)));
    ipu__give(n, 1, log_prob);
}
