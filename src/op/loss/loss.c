/* Losses: of labels (nll, cross entropy) as compositions, reductions, and the functions that emit them.
 *
 * requires: nll.c and entropy.c for the kernels, elementwise.c for the rest of the records.
 */
#include "op/loss/loss.h"

#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/softmax.h"

/* ---- reduction ---- */

static const char *const reductions[] = {[IPU_LOSS_MEAN]       = "mean",
                                         [IPU_LOSS_SUM]        = "sum",
                                         [IPU_LOSS_NONE]       = "none",
                                         [IPU_LOSS_BATCH_MEAN] = "batch_mean"};

const char *ipu__loss_reduction_text(ipu_loss_reduction reduction)
{
    return (unsigned)reduction < IPU__COUNT(reductions) ? reductions[reduction] : "?";
}

ipu_status ipu__loss_reduction_get(const ipu__kernel_call *call, ipu_loss_reduction *out)
{
    const char *text = ipu__op_text(call, "reduction");
    for (unsigned i = 0; i < IPU__COUNT(reductions); i++)
        if (strcmp(text, reductions[i]) == 0) {
            *out = (ipu_loss_reduction)i;
            return IPU_OK;
        }
    return ipu__fail(IPU_INVALID,
                     "%s: reduction \"%s\": expected \"mean\", \"sum\", \"none\" or \"batch_mean\"",
                     call->def->name, text);
}

ipu_value ipu__loss_reduce(ipu_builder *b, const ipu__kernel_call *call, ipu_value losses, ipu_value weights)
{
    ipu_loss_reduction reduction = IPU_LOSS_MEAN;
    ipu__loss_reduction_get(call, &reduction); /* seen by infer */
    if (reduction == IPU_LOSS_NONE) return losses;
    if (reduction == IPU_LOSS_MEAN && !ipu__has(weights)) return ipu_reduce_mean(b, losses, NULL, 0, false);
    ipu_value sum = ipu_reduce_sum(b, losses, NULL, 0, false);
    if (reduction == IPU_LOSS_MEAN) return ipu_div(b, sum, ipu_reduce_sum(b, weights, NULL, 0, false));
    if (reduction == IPU_LOSS_SUM) return sum;
    return ipu_div(b, sum, ipu_scalar_like(b, sum, (double)ipu_value_dim(losses, 0)));
}

/* ---- labels ---- */

enum { SCORES, LABELS, WEIGHT, OUT };

ipu_status ipu__label_fail(const ipu__labelled *l, const void *labels, int64_t i)
{
    int64_t label = l->label_type == IPU_INT64 ? ((const int64_t *)labels)[i] : ((const int32_t *)labels)[i];
    return ipu__fail(IPU_ABORTED, "label %lld is %lld: expected 0 to %lld, or %lld to be ignored",
                     (long long)i, (long long)label, (long long)l->classes - 1, (long long)l->ignore_index);
}

ipu__labelled ipu__labelled_of(const ipu__kernel_call *call, const ipu_shape *scores, int labels)
{
    ipu__labelled l = {.type         = call->operand[SCORES].type,
                       .n            = scores->dim[0],
                       .classes      = scores->dim[1],
                       .inner        = 1,
                       .label_type   = call->operand[labels].type,
                       .ignore_index = ipu__op_int(call, "ignore_index")};
    for (int d = 2; d < scores->rank; d++) l.inner *= scores->dim[d];
    return l;
}

ipu_status ipu__labelled_check(const ipu__kernel_call *call, const ipu__kernel_value *scores, int labels,
                               int weight)
{
    const ipu__kernel_value *l    = &call->operand[labels];
    ipu_shape                want = {.rank = scores->shape.rank - 1};
    for (int d = 0; d < want.rank; d++) want.dim[d] = scores->shape.dim[d == 0 ? 0 : d + 1];
    if (l->type != IPU_INT32 && l->type != IPU_INT64)
        return ipu__fail(IPU_INVALID, "%s: \"%s\" must be int32 or int64, found %s%s", call->def->name,
                         call->def->operands[labels].name, ipu_type_name(l->type), ipu__shape_str(&l->shape));
    IPU_TRY(ipu__op_want_shape(call, labels, &want));
    if (!ipu__kernel_has(call, weight)) return IPU_OK;
    if (call->operand[weight].type != scores->type)
        return ipu__fail(IPU_INVALID, "%s: \"%s\" must be %s, as the predictions are, found %s%s",
                         call->def->name, call->def->operands[weight].name, ipu_type_name(scores->type),
                         ipu_type_name(call->operand[weight].type),
                         ipu__shape_str(&call->operand[weight].shape));
    return ipu__op_want_shape(call, weight, &IPU_SHAPE(scores->shape.dim[1]));
}

/* Labels' shape, or a scalar. */
static ipu_status infer_out(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    *out = (ipu__kernel_value){call->operand[SCORES].type, IPU_SCALAR};
    if (reduction != IPU_LOSS_NONE) return IPU_OK;
    const ipu_shape *scores = &call->operand[SCORES].shape;
    out->shape.rank         = scores->rank - 1;
    for (int d = 0; d < out->shape.rank; d++) out->shape.dim[d] = scores->dim[d == 0 ? 0 : d + 1];
    return IPU_OK;
}

static ipu_status nll_loss_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, SCORES));
    IPU_TRY(ipu__op_want_rank(call, SCORES, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__labelled_check(call, &call->operand[SCORES], LABELS, WEIGHT));
    return infer_out(call, out);
}

static bool has_probabilities(const ipu__kernel_call *call)
{
    return ipu__op_is_floating(call->operand[LABELS].type);
}

static ipu_status cross_entropy_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    double smoothing = ipu__op_float(call, "label_smoothing");
    if (!(smoothing >= 0 && smoothing <= 1))
        return ipu__fail(IPU_INVALID, "cross_entropy: label_smoothing = %g: expected 0 to 1", smoothing);
    IPU_TRY(ipu__op_want_floating(call, SCORES));
    IPU_TRY(ipu__op_want_rank(call, SCORES, 2, IPU_MAX_RANK));
    if (!has_probabilities(call)) {
        IPU_TRY(ipu__labelled_check(call, &call->operand[SCORES], LABELS, WEIGHT));
        return infer_out(call, out);
    }
    IPU_TRY(ipu__op_want_same_type(call, SCORES, LABELS));
    IPU_TRY(ipu__op_want_shape(call, LABELS, &call->operand[SCORES].shape));
    if (ipu__kernel_has(call, WEIGHT)) {
        IPU_TRY(ipu__op_want_same_type(call, SCORES, WEIGHT));
        IPU_TRY(ipu__op_want_shape(call, WEIGHT, &IPU_SHAPE(call->operand[SCORES].shape.dim[1])));
    }
    return infer_out(call, out);
}

/* ---- compositions ---- */

static void nll_loss_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_value     both[2];
    ipu_attribute ignore = IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(call, "ignore_index"));
    ipu_emit(b, "nll", &ignore, 1, in, 3, both, 2);
    out[0] = ipu__loss_reduce(b, call, both[0], both[1]);
}

/* [C] so that it broadcasts along dimension 1 of [N, C, d...]. */
static ipu_value along_classes(ipu_builder *b, ipu_value weight, ipu_value like)
{
    ipu_shape shape = {.rank = ipu_value_rank(like) - 1};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = d == 0 ? ipu_value_dim(weight, 0) : 1;
    return shape.rank == 1 ? weight : ipu_reshape(b, weight, shape);
}

static ipu_value entropy_of_probabilities(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in)
{
    double    smoothing = ipu__op_float(call, "label_smoothing");
    ipu_value target = in[LABELS], losses = ipu_log_softmax(b, in[SCORES], 1);
    int       classes = 1;
    if (smoothing != 0) {
        double each = smoothing / (double)call->operand[SCORES].shape.dim[1];
        target      = ipu_mul(b, target, ipu_scalar_like(b, target, 1 - smoothing));
        target      = ipu_add(b, target, ipu_scalar_like(b, target, each));
    }
    if (ipu__has(in[WEIGHT])) target = ipu_mul(b, target, along_classes(b, in[WEIGHT], in[SCORES]));
    losses = ipu_neg(b, ipu_reduce_sum(b, ipu_mul(b, losses, target), &classes, 1, false));
    /* the mean is over what labels would be: weights of classes do not count */
    return ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

static void cross_entropy_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                  ipu_value *out)
{
    if (has_probabilities(call)) {
        out[0] = entropy_of_probabilities(b, call, in);
        return;
    }
    ipu_value     both[2];
    ipu_attribute attributes[] = {
        IPU_INT_ATTRIBUTE("ignore_index", ipu__op_int(call, "ignore_index")),
        IPU_FLOAT_ATTRIBUTE("label_smoothing", ipu__op_float(call, "label_smoothing")),
    };
    ipu_emit(b, "softmax_nll", attributes, 2, in, 3, both, 2);
    out[0] = ipu__loss_reduce(b, call, both[0], both[1]);
}

/* ---- the records ---- */

static const ipu__kernel_operand nll_operands[]     = {IPU__INPUT("log_probs"), IPU__INPUT("labels"),
                                                       IPU__OPTIONAL("weight"), IPU__OUTPUT("loss")};
static const ipu__kernel_operand entropy_operands[] = {IPU__INPUT("logits"), IPU__INPUT("target"),
                                                       IPU__OPTIONAL("weight"), IPU__OUTPUT("loss")};

static const ipu_op_attribute nll_attributes[]     = {IPU__REDUCTION_ATTRIBUTE, IPU__IGNORE_ATTRIBUTE};
static const ipu_op_attribute entropy_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    IPU__IGNORE_ATTRIBUTE,
    {.name    = "label_smoothing",
     .kind    = IPU_ATTRIBUTE_FLOAT,
     .meaning = "share of the target that goes to all classes alike"},
};

static const char *const nll_samples[]     = {"float[3,10], int32[3]",
                                              "float[3,10], int64[3]; reduction=sum",
                                              "float[2,10,3], int32[2,3]; reduction=none",
                                              "float[4,10], int32[4], float[10]{0.1,2}; ignore_index=3",
                                              "float[4,10], int32[4]; reduction=batch_mean",
                                              NULL};
static const char *const entropy_samples[] = {
    "float[3,10], int32[3]",
    "float[3,10], int64[3]; reduction=sum",
    "float[2,10,3], int32[2,3]; reduction=none",
    "float[4,10], int32[4], float[10]{0.1,2}; ignore_index=3 label_smoothing=0.1",
    "float[3,4], float[3,4]{0,1}",
    "float[3,4,2], float[3,4,2]{0,1}, float[4]{0.1,2}; label_smoothing=0.2",
    NULL};

const ipu__op_def ipu__op_nll_loss = {
    .kernel       = {.name = "nll_loss", .operands = nll_operands, .n_operands = 4, .check = ipu__op_check},
    .n_in         = 3,
    .family       = "loss",
    .summary      = "negative log likelihood of labels",
    .attributes   = nll_attributes,
    .n_attributes = IPU__COUNT(nll_attributes),
    .infer        = nll_loss_infer,
    .compose      = nll_loss_compose,
    .samples      = nll_samples,
};
const ipu__op_def ipu__op_cross_entropy = {
    .kernel       = {.name       = "cross_entropy",
                     .operands   = entropy_operands,
                     .n_operands = 4,
                     .check      = ipu__op_check},
    .n_in         = 3,
    .family       = "loss",
    .summary      = "cross entropy of logits with labels or class probabilities",
    .attributes   = entropy_attributes,
    .n_attributes = IPU__COUNT(entropy_attributes),
    .infer        = cross_entropy_infer,
    .compose      = cross_entropy_compose,
    .samples      = entropy_samples,
};

/* ---- functions ---- */

static ipu_value emit_labelled(ipu_builder *b, const char *op, ipu_value scores, ipu_value labels,
                               const ipu_loss_options *options, size_t n_attributes)
{
    ipu_attribute attributes[] = {
        IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(options->reduction)),
        IPU_INT_ATTRIBUTE("ignore_index", options->has_ignore_index ? options->ignore_index : -100),
        IPU_FLOAT_ATTRIBUTE("label_smoothing", options->label_smoothing),
    };
    return ipu__emit1(b, op, attributes, n_attributes, IPU__IN(scores, labels, options->weight));
}

ipu_value ipu_nll_loss_with(ipu_builder *b, ipu_value log_probs, ipu_value labels, ipu_loss_options options)
{
    return emit_labelled(b, "nll_loss", log_probs, labels, &options, 2);
}

ipu_value ipu_cross_entropy_with(ipu_builder *b, ipu_value logits, ipu_value target, ipu_loss_options options)
{
    return emit_labelled(b, "cross_entropy", logits, target, &options, 3);
}

ipu_value ipu_nll_loss(ipu_builder *b, ipu_value log_probs, ipu_value labels)
{
    return ipu_nll_loss_with(b, log_probs, labels, (ipu_loss_options){0});
}

ipu_value ipu_cross_entropy(ipu_builder *b, ipu_value logits, ipu_value target)
{
    return ipu_cross_entropy_with(b, logits, target, (ipu_loss_options){0});
}
