/* Losses that compare element by element: compositions, and the functions that emit them.
 *
 * requires: a target of the same type and shape as the prediction.
 */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "op/loss/loss.h"

enum { X, TARGET, WEIGHT, POS_WEIGHT = WEIGHT, LOGIT_WEIGHT };

/* ---- inference ---- */

static ipu_status loss_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, TARGET));
    IPU_TRY(ipu__op_want_shape(call, TARGET, &call->operand[X].shape));
    *out = call->operand[X];
    if (reduction != IPU_LOSS_NONE) out->shape = IPU_SCALAR;
    return IPU_OK;
}

static ipu_status smooth_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool   is_huber = call->def == &ipu__op_huber_loss.kernel;
    double width    = ipu__op_float(call, is_huber ? "delta" : "beta");
    if (is_huber && !(width > 0))
        return ipu__fail(IPU_INVALID, "huber_loss: delta = %g: expected more than 0", width);
    if (!(width >= 0)) return ipu__fail(IPU_INVALID, "smooth_l1_loss: beta = %g: expected 0 or more", width);
    return loss_infer(call, out);
}

ipu_status ipu__loss_weight_check(const ipu__kernel_call *call, int x, int weight)
{
    if (!ipu__kernel_has(call, weight)) return IPU_OK;
    const ipu__kernel_operand *names = call->def->operands;
    const ipu_shape           *all = &call->operand[x].shape, *w = &call->operand[weight].shape;
    IPU_TRY(ipu__op_want_same_type(call, x, weight));
    bool fits = w->rank <= all->rank;
    for (int i = 1; i <= w->rank && fits; i++)
        fits = w->dim[w->rank - i] == 1 || w->dim[w->rank - i] == all->dim[all->rank - i];
    if (fits) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" %s does not broadcast to \"%s\" %s", call->def->name,
                     names[weight].name, ipu__shape_str(w), names[x].name, ipu__shape_str(all));
}

static ipu_status bce_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(loss_infer(call, out));
    return ipu__loss_weight_check(call, X, WEIGHT);
}

static ipu_status bce_with_logits_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(loss_infer(call, out));
    IPU_TRY(ipu__loss_weight_check(call, X, POS_WEIGHT));
    return ipu__loss_weight_check(call, X, LOGIT_WEIGHT);
}

/* ---- compositions ---- */

static void mse_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = ipu__loss_reduce(b, call, ipu_square(b, ipu_sub(b, in[X], in[TARGET])), IPU_NO_VALUE);
}

static void l1_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = ipu__loss_reduce(b, call, ipu_abs(b, ipu_sub(b, in[X], in[TARGET])), IPU_NO_VALUE);
}

/* `curve` * d^2 / 2 where |d| < width, slope * |d| - what makes them meet elsewhere. */
static ipu_value rounded_l1(ipu_builder *b, ipu_value d, double width, double curve, double slope)
{
    ipu_value size   = ipu_abs(b, d);
    ipu_value inside = ipu_mul(b, ipu_square(b, d), ipu_scalar_like(b, d, curve / 2));
    ipu_value beyond = ipu_sub(b, size, ipu_scalar_like(b, d, width / 2));
    if (slope != 1) beyond = ipu_mul(b, beyond, ipu_scalar_like(b, d, slope));
    return ipu_where(b, ipu_less(b, size, ipu_scalar_like(b, d, width)), inside, beyond);
}

static void smooth_l1_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    double    beta = ipu__op_float(call, "beta");
    ipu_value d    = ipu_sub(b, in[X], in[TARGET]);
    out[0]         = ipu__loss_reduce(b, call, beta > 0 ? rounded_l1(b, d, beta, 1 / beta, 1) : ipu_abs(b, d),
                                      IPU_NO_VALUE);
}

static void huber_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    double    delta = ipu__op_float(call, "delta");
    ipu_value d     = ipu_sub(b, in[X], in[TARGET]);
    out[0]          = ipu__loss_reduce(b, call, rounded_l1(b, d, delta, 1, delta), IPU_NO_VALUE);
}

/* Never below -100, and with a gradient of 0, not of infinity times 0, at 0. */
static ipu_value safe_log(ipu_builder *b, ipu_value p)
{
    ipu_value is_zero = ipu_equal(b, p, ipu_scalar_like(b, p, 0));
    ipu_value least   = ipu_scalar_like(b, p, -100);
    ipu_value log     = ipu_log(b, ipu_where(b, is_zero, ipu_scalar_like(b, p, 1), p));
    return ipu_maximum(b, ipu_where(b, is_zero, least, log), least);
}

/* The mean is over all, whatever their weights. */
static ipu_value weighed(ipu_builder *b, const ipu__kernel_call *call, ipu_value losses, ipu_value weight)
{
    if (ipu__has(weight)) losses = ipu_mul(b, losses, weight);
    return ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

static void bce_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value one = ipu_scalar_like(b, in[X], 1);
    ipu_value yes = ipu_mul(b, in[TARGET], safe_log(b, in[X]));
    ipu_value no  = ipu_mul(b, ipu_sub(b, one, in[TARGET]), safe_log(b, ipu_sub(b, one, in[X])));
    out[0]        = weighed(b, call, ipu_neg(b, ipu_add(b, yes, no)), in[WEIGHT]);
}

/* (1 - t) x - (1 + (w - 1) t) log(sigmoid(x)) */
static void bce_with_logits_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                    ipu_value *out)
{
    ipu_value one = ipu_scalar_like(b, in[X], 1), log = ipu_log_sigmoid(b, in[X]);
    if (ipu__has(in[POS_WEIGHT])) {
        ipu_value more = ipu_mul(b, ipu_sub(b, in[POS_WEIGHT], one), in[TARGET]);
        log            = ipu_mul(b, ipu_add(b, one, more), log);
    }
    ipu_value losses = ipu_sub(b, ipu_mul(b, ipu_sub(b, one, in[TARGET]), in[X]), log);
    out[0]           = weighed(b, call, losses, in[LOGIT_WEIGHT]);
}

static void kl_div_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value t = in[TARGET], losses;
    if (ipu__op_int(call, "log_target")) {
        losses = ipu_mul(b, ipu_exp(b, t), ipu_sub(b, t, in[X]));
    } else {
        ipu_value zero = ipu_scalar_like(b, t, 0), one = ipu_scalar_like(b, t, 1);
        ipu_value some = ipu_greater(b, t, zero);
        ipu_value log  = ipu_log(b, ipu_where(b, some, t, one));
        losses         = ipu_where(b, some, ipu_mul(b, t, ipu_sub(b, log, in[X])), zero);
    }
    out[0] = ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

/* ---- the records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__INPUT("target"), IPU__OUTPUT("loss")};
static const ipu__kernel_operand bce_operands[]   = {IPU__INPUT("x"), IPU__INPUT("target"),
                                                     IPU__OPTIONAL("weight"), IPU__OUTPUT("loss")};
static const ipu__kernel_operand logit_operands[] = {IPU__INPUT("logits"), IPU__INPUT("target"),
                                                     IPU__OPTIONAL("pos_weight"), IPU__OPTIONAL("weight"),
                                                     IPU__OUTPUT("loss")};

static const ipu_op_attribute attributes[]        = {IPU__REDUCTION_ATTRIBUTE};
static const ipu_op_attribute smooth_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "beta", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "where the curve ends"},
};
static const ipu_op_attribute huber_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "delta", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "where the curve ends"},
};
static const ipu_op_attribute kl_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "log_target", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the target is given as logarithm"},
};

static const char *const samples[] = {"float[3,4], float[3,4]", "float[3,4], float[3,4]; reduction=sum",
                                      "float[5], float[5]; reduction=none",
                                      "float[2,3], float[2,3]; reduction=batch_mean", NULL};
static const char *const smooth_samples[] = {"float[3,4], float[3,4]",
                                             "float[3,4], float[3,4]; beta=0.5 reduction=sum",
                                             "float[5], float[5]; beta=0 reduction=none", NULL};
static const char *const huber_samples[]  = {"float[3,4], float[3,4]",
                                             "float[3,4], float[3,4]; delta=0.5 reduction=sum", NULL};
static const char *const bce_samples[]    = {"float[3,4]{0.1,0.9}, float[3,4]{0,1}",
                                             "float[5]{0.1,0.9}, float[5]{0,1}; reduction=none",
                                             "float[3,4]{0.1,0.9}, float[3,4]{0,1}, float[3,1]{0.5,3}", NULL};
static const char *const logit_samples[]  = {"float[3,4], float[3,4]{0,1}",
                                             "float[3,4], float[3,4]{0,1}, float[4]{0.5,3}; reduction=sum",
                                             "float[3,4], float[3,4]{0,1}, none, float[3,1]{0.5,3}", NULL};
static const char *const kl_samples[]     = {"float[3,4], float[3,4]{0.1,1}",
                                             "float[3,4], float[3,4]; log_target=1 reduction=batch_mean", NULL};

#define RECORD(name_, operands_, n_in_, attributes_, infer_, compose_, samples_, summary_)                   \
    const ipu__op_def ipu__op_##name_ = {                                                                    \
        .kernel  = {.name = #name_, .operands = operands_, .n_operands = n_in_ + 1, .check = ipu__op_check}, \
        .n_in    = n_in_,                                                                                    \
        .family  = "loss",                                                                                   \
        .summary = summary_,                                                                                 \
        .attributes   = attributes_,                                                                         \
        .n_attributes = IPU__COUNT(attributes_),                                                             \
        .infer        = infer_,                                                                              \
        .compose      = compose_,                                                                            \
        .samples      = samples_}

RECORD(mse_loss, operands, 2, attributes, loss_infer, mse_compose, samples, "(x - target)^2");
RECORD(l1_loss, operands, 2, attributes, loss_infer, l1_compose, samples, "|x - target|");
RECORD(smooth_l1_loss, operands, 2, smooth_attributes, smooth_infer, smooth_l1_compose, smooth_samples,
       "|x - target|, a parabola near 0");
RECORD(huber_loss, operands, 2, huber_attributes, smooth_infer, huber_compose, huber_samples,
       "(x - target)^2 / 2, straight beyond delta");
RECORD(bce_loss, bce_operands, 3, attributes, bce_infer, bce_compose, bce_samples,
       "binary cross entropy of probabilities");
RECORD(bce_with_logits_loss, logit_operands, 4, attributes, bce_with_logits_infer, bce_with_logits_compose,
       logit_samples, "binary cross entropy of sigmoid(logits)");
RECORD(kl_div_loss, operands, 2, kl_attributes, loss_infer, kl_div_compose, kl_samples,
       "target * (log(target) - x): the Kullback-Leibler divergence");

/* ---- functions ---- */

static ipu_attribute reduction_attribute(ipu_loss_reduction reduction)
{
    return IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(reduction));
}

ipu_value ipu_mse_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "mse_loss", IPU__WITH(reduction_attribute(reduction)), IPU__IN(x, target));
}

ipu_value ipu_l1_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "l1_loss", IPU__WITH(reduction_attribute(reduction)), IPU__IN(x, target));
}

ipu_value ipu_smooth_l1_loss(ipu_builder *b, ipu_value x, ipu_value target, double beta,
                             ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "smooth_l1_loss",
                      IPU__WITH(reduction_attribute(reduction), IPU_FLOAT_ATTRIBUTE("beta", beta)),
                      IPU__IN(x, target));
}

ipu_value ipu_huber_loss(ipu_builder *b, ipu_value x, ipu_value target, double delta,
                         ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "huber_loss",
                      IPU__WITH(reduction_attribute(reduction), IPU_FLOAT_ATTRIBUTE("delta", delta)),
                      IPU__IN(x, target));
}

ipu_value ipu_bce_loss(ipu_builder *b, ipu_value probabilities, ipu_value target,
                       ipu_loss_reduction reduction)
{
    return ipu_bce_loss_with(b, probabilities, target, IPU_NO_VALUE, reduction);
}

ipu_value ipu_bce_loss_with(ipu_builder *b, ipu_value probabilities, ipu_value target, ipu_value weight,
                            ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "bce_loss", IPU__WITH(reduction_attribute(reduction)),
                      IPU__IN(probabilities, target, weight));
}

ipu_value ipu_bce_with_logits_loss(ipu_builder *b, ipu_value logits, ipu_value target, ipu_value pos_weight,
                                   ipu_loss_reduction reduction)
{
    return ipu_bce_with_logits_loss_with(b, logits, target, pos_weight, IPU_NO_VALUE, reduction);
}

ipu_value ipu_bce_with_logits_loss_with(ipu_builder *b, ipu_value logits, ipu_value target,
                                        ipu_value pos_weight, ipu_value weight, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "bce_with_logits_loss", IPU__WITH(reduction_attribute(reduction)),
                      IPU__IN(logits, target, pos_weight, weight));
}

ipu_value ipu_kl_div_loss(ipu_builder *b, ipu_value log_probs, ipu_value target, bool log_target,
                          ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "kl_div_loss",
                      IPU__WITH(reduction_attribute(reduction), IPU_INT_ATTRIBUTE("log_target", log_target)),
                      IPU__IN(log_probs, target));
}
