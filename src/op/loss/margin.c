/* Losses with a margin: compositions, and the functions that emit them. Targets are 1 or -1. */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "op/compose.h"
#include "op/loss/loss.h"

enum { X, PAIR_TARGET, OTHER = 1, TARGET, POSITIVE = 1, NEGATIVE };

static ipu_status reduced(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    if (reduction != IPU_LOSS_NONE) out->shape = IPU_SCALAR;
    return IPU_OK;
}

static ipu_status hinge_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, PAIR_TARGET));
    IPU_TRY(ipu__op_want_shape(call, PAIR_TARGET, &call->operand[X].shape));
    *out = call->operand[X];
    return reduced(call, out);
}

static ipu_status ranking_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    for (int i = OTHER; i <= TARGET; i++) {
        IPU_TRY(ipu__op_want_same_type(call, X, i));
        IPU_TRY(ipu__op_want_shape(call, i, &call->operand[X].shape));
    }
    *out = call->operand[X];
    return reduced(call, out);
}

/* Vectors of one shape; losses have it but for the last dimension. */
static ipu_status triplet_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    for (int i = POSITIVE; i <= NEGATIVE; i++) {
        IPU_TRY(ipu__op_want_same_type(call, X, i));
        IPU_TRY(ipu__op_want_shape(call, i, &call->operand[X].shape));
    }
    *out = call->operand[X];
    out->shape.rank--;
    return reduced(call, out);
}

/* [n, d] and [n], or [d] and a scalar. */
static ipu_status cosine_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, 2));
    IPU_TRY(ipu__op_want_same_type(call, X, OTHER));
    IPU_TRY(ipu__op_want_same_type(call, X, TARGET));
    IPU_TRY(ipu__op_want_shape(call, OTHER, &call->operand[X].shape));
    *out            = call->operand[X];
    out->shape.rank = out->shape.rank - 1;
    IPU_TRY(ipu__op_want_shape(call, TARGET, &out->shape));
    return reduced(call, out);
}

static ipu_value not_below_0(ipu_builder *b, ipu_value x) { return ipu_clip(b, x, 0, (double)INFINITY); }

static void hinge_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value x = in[X], target = in[PAIR_TARGET], zero = ipu_scalar_like(b, x, 0);
    ipu_value left  = not_below_0(b, ipu_sub(b, ipu_scalar_like(b, x, ipu__op_float(call, "margin")), x));
    ipu_value far   = ipu_where(b, ipu_not_equal(b, target, ipu_scalar_like(b, x, 1)), left, zero);
    ipu_value close = ipu_where(b, ipu_not_equal(b, target, ipu_scalar_like(b, x, -1)), x, zero);
    out[0]          = ipu__loss_reduce(b, call, ipu_add(b, far, close), IPU_NO_VALUE);
}

static void ranking_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value ahead = ipu_mul(b, in[TARGET], ipu_sub(b, in[X], in[OTHER]));
    ipu_value left  = ipu_sub(b, ipu_scalar_like(b, ahead, ipu__op_float(call, "margin")), ahead);
    out[0]          = ipu__loss_reduce(b, call, not_below_0(b, left), IPU_NO_VALUE);
}

static void soft_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value behind = ipu_neg(b, ipu_mul(b, in[PAIR_TARGET], in[X]));
    out[0]           = ipu__loss_reduce(b, call, ipu_softplus(b, behind, 1, 20), IPU_NO_VALUE);
}

static ipu_value triplet_distance(ipu_builder *b, const ipu__kernel_call *call, ipu_value x, ipu_value y)
{
    ipu_value apart = ipu__plus(b, ipu_sub(b, x, y), ipu__op_float(call, "eps"));
    return ipu_reduce_norm(b, apart, ipu__op_float(call, "p"), (int[]){-1}, 1, false);
}

static void triplet_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value far = triplet_distance(b, call, in[X], in[NEGATIVE]);
    if (ipu__op_int(call, "swap")) {
        ipu_value other = triplet_distance(b, call, in[POSITIVE], in[NEGATIVE]);
        far             = ipu_minimum(b, far, other);
    }
    ipu_value ahead = ipu_sub(b, triplet_distance(b, call, in[X], in[POSITIVE]), far);
    ipu_value left  = ipu_relu(b, ipu__plus(b, ahead, ipu__op_float(call, "margin")));
    out[0]          = ipu__loss_reduce(b, call, left, IPU_NO_VALUE);
}

static ipu_value dot(ipu_builder *b, ipu_value x, ipu_value y)
{
    return ipu_reduce_sum(b, ipu_mul(b, x, y), (int[]){-1}, 1, false);
}

/* PyTorch's: the squares of both lengths are at least 1e-12 more. */
static ipu_value cosine(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value more = ipu_scalar_like(b, x, 1e-12);
    ipu_value size = ipu_mul(b, ipu_add(b, dot(b, x, x), more), ipu_add(b, dot(b, y, y), more));
    return ipu_div(b, dot(b, x, y), ipu_sqrt(b, size));
}

/* Of half in float: 1e-12 would be 0. */
static void cosine_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_type  type = call->operand[X].type, wide = type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
    ipu_value target = ipu__as_type(b, in[TARGET], wide), zero = ipu_scalar_like(b, target, 0);
    ipu_value one    = ipu_scalar_like(b, target, 1),
              margin = ipu_scalar_like(b, target, ipu__op_float(call, "margin"));
    ipu_value cos    = cosine(b, ipu__as_type(b, in[X], wide), ipu__as_type(b, in[OTHER], wide));
    ipu_value close  = ipu_where(b, ipu_equal(b, target, one), ipu_sub(b, one, cos), zero);
    ipu_value far    = ipu_where(b, ipu_equal(b, target, ipu_neg(b, one)),
                                 not_below_0(b, ipu_sub(b, cos, margin)), zero);
    out[0]           = ipu__as_type(b, ipu__loss_reduce(b, call, ipu_add(b, close, far), IPU_NO_VALUE), type);
}

/* ---- records ---- */

static const ipu__kernel_operand target_operands[]  = {IPU__INPUT("x"), IPU__INPUT("target"),
                                                       IPU__OUTPUT("loss")};
static const ipu__kernel_operand pair_operands[]    = {IPU__INPUT("x"), IPU__INPUT("other"),
                                                       IPU__INPUT("target"), IPU__OUTPUT("loss")};
static const ipu__kernel_operand triplet_operands[] = {IPU__INPUT("anchor"), IPU__INPUT("positive"),
                                                       IPU__INPUT("negative"), IPU__OUTPUT("loss")};

static const ipu_op_attribute hinge_attributes[]   = {IPU__REDUCTION_ATTRIBUTE,
                                                      {.name      = "margin",
                                                       .kind      = IPU_ATTRIBUTE_FLOAT,
                                                       .otherwise = 1,
                                                       .meaning   = "distance that is far enough"}};
static const ipu_op_attribute ranking_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "margin", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "lead that is enough"}};
static const ipu_op_attribute cosine_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "margin", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "cosine that is small enough"}};

static const ipu_op_attribute soft_attributes[]    = {IPU__REDUCTION_ATTRIBUTE};
static const ipu_op_attribute triplet_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "margin", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "lead that is enough"},
    {.name      = "p",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 2,
     .meaning   = "of the norm, as reduce_norm has it"},
    {.name = "eps", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-6, .meaning = "added to each difference"},
    {.name    = "swap",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: negative may be nearer to positive than to anchor, and then counts from there"}};

static const char *const soft_samples[]    = {"float[3,4], float[3,4]{-1,1}",
                                              "float[5], float[5]{1,1}; reduction=none", NULL};
static const char *const triplet_samples[] = {
    "float[3,4], float[3,4], float[3,4]",
    "float[3,4], float[3,4], float[3,4]; p=1.0 margin=5.0 reduction=sum",
    "float[2,3,4], float[2,3,4], float[2,3,4]; swap=1 eps=0.1 reduction=none",
    "float[4], float[4], float[4]; margin=4.0", NULL};
static const char *const hinge_samples[]   = {"float[3,4], float[3,4]",
                                              "float[5], float[5]{-1,-1}; margin=0.3 reduction=sum",
                                              "float[5], float[5]{1,1}; reduction=none", NULL};
static const char *const ranking_samples[] = {"float[3,4], float[3,4], float[3,4]{-1,-1}",
                                              "float[5], float[5], float[5]{1,1}; margin=0.7 reduction=none",
                                              NULL};
static const char *const cosine_samples[]  = {
     "float[3,4], float[3,4], float[3]{1,1}",
     "float[3,4]{0.1,2}, float[3,4]{0.1,2}, float[3]{-1,-1}; margin=0.2 reduction=sum",
     "float[4], float[4], float[]{1,1}; reduction=none", NULL};

#define RECORD(name_, which, operands_, n_in_, summary_)                                 \
    const ipu__op_def ipu__op_##name_ = {.kernel       = {.name       = #name_,          \
                                                          .operands   = operands_,       \
                                                          .n_operands = (n_in_) + 1,     \
                                                          .check      = ipu__op_check},       \
                                         .n_in         = n_in_,                          \
                                         .family       = "loss",                         \
                                         .summary      = summary_,                       \
                                         .attributes   = which##_attributes,             \
                                         .n_attributes = IPU__COUNT(which##_attributes), \
                                         .infer        = which##_infer,                  \
                                         .compose      = which##_compose,                \
                                         .samples      = which##_samples}
RECORD(hinge_embedding_loss, hinge, target_operands, 2,
       "x where the target is 1, max(0, margin - x) where it is -1");
#define soft_infer hinge_infer
RECORD(soft_margin_loss, soft, target_operands, 2, "log(1 + exp(-target x))");
RECORD(triplet_margin_loss, triplet, triplet_operands, 3,
       "max(0, margin + distance of positive - distance of negative)");
RECORD(margin_ranking_loss, ranking, pair_operands, 3, "max(0, margin - target (x - other))");
RECORD(cosine_embedding_loss, cosine, pair_operands, 3,
       "1 - cosine where the target is 1, max(0, cosine - margin) where it is -1");

/* ---- functions ---- */

static ipu_value emit(ipu_builder *b, const char *op, const ipu_value *in, size_t n, double margin,
                      ipu_loss_reduction reduction)
{
    return ipu__emit1(b, op,
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(reduction)),
                                IPU_FLOAT_ATTRIBUTE("margin", margin)),
                      in, n);
}

ipu_value ipu_hinge_embedding_loss(ipu_builder *b, ipu_value x, ipu_value target, double margin,
                                   ipu_loss_reduction reduction)
{
    return emit(b, "hinge_embedding_loss", IPU__IN(x, target), margin, reduction);
}

ipu_value ipu_margin_ranking_loss(ipu_builder *b, ipu_value x, ipu_value other, ipu_value target,
                                  double margin, ipu_loss_reduction reduction)
{
    return emit(b, "margin_ranking_loss", IPU__IN(x, other, target), margin, reduction);
}

ipu_value ipu_cosine_embedding_loss(ipu_builder *b, ipu_value x, ipu_value other, ipu_value target,
                                    double margin, ipu_loss_reduction reduction)
{
    return emit(b, "cosine_embedding_loss", IPU__IN(x, other, target), margin, reduction);
}

ipu_value ipu_soft_margin_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "soft_margin_loss",
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(reduction))),
                      IPU__IN(x, target));
}

ipu_value ipu_triplet_margin_loss(ipu_builder *b, ipu_value anchor, ipu_value positive, ipu_value negative,
                                  ipu_triplet_options options)
{
    return ipu__emit1(b, "triplet_margin_loss",
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(options.reduction)),
                                IPU_FLOAT_ATTRIBUTE("margin", options.margin != 0 ? options.margin : 1),
                                IPU_FLOAT_ATTRIBUTE("p", options.p != 0 ? options.p : 2),
                                IPU_FLOAT_ATTRIBUTE("eps", options.eps != 0 ? options.eps : 1e-6),
                                IPU_INT_ATTRIBUTE("swap", options.swap)),
                      IPU__IN(anchor, positive, negative));
}
