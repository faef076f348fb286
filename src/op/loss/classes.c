/* Losses with a margin between classes, and losses for several labels at once: compositions. */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/loss.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/compose.h"
#include "op/loss/loss.h"

enum { X, LABELS, WEIGHT };

/* Rows of scores: [n, classes]; a vector or a scalar is one row. */
static ipu_shape rows_of(const ipu_shape *x)
{
    if (x->rank == 0) return IPU_SHAPE(1, 1);
    return x->rank == 1 ? IPU_SHAPE(1, x->dim[0]) : *x;
}

/* ---- inference ---- */

static ipu_status want_labels(const ipu__kernel_call *call)
{
    ipu_type type = call->operand[LABELS].type;
    if (type == IPU_INT32 || type == IPU_INT64) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"labels\" must be int32 or int64, found %s%s", call->def->name,
                     ipu_type_name(type), ipu__shape_str(&call->operand[LABELS].shape));
}

static ipu_status one_for_each(const ipu__kernel_call *call, ipu_shape rows, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    *out = (ipu__kernel_value){call->operand[X].type, reduction == IPU_LOSS_NONE ? rows : IPU_SCALAR};
    return IPU_OK;
}

static ipu_status one_for_each_row(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_shape shape = call->operand[X].shape;
    if (shape.rank > 0) shape.rank--;
    return one_for_each(call, shape, out);
}

static ipu_status multi_margin_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t   p    = ipu__op_int(call, "p");
    ipu_shape rows = rows_of(&call->operand[X].shape);
    if (p != 1 && p != 2)
        return ipu__fail(IPU_INVALID, "multi_margin_loss: p = %lld: expected 1 or 2", (long long)p);
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 0, 2));
    IPU_TRY(want_labels(call));
    IPU_TRY(ipu__op_want_rank(call, LABELS, 0, 1));
    if (ipu__op_n_elements(&call->operand[LABELS].shape) != rows.dim[0])
        return ipu__op_want_shape(call, LABELS, &IPU_SHAPE(rows.dim[0]));
    IPU_TRY(one_for_each(call, call->operand[LABELS].shape, out));
    if (!ipu__kernel_has(call, WEIGHT)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, X, WEIGHT));
    return ipu__op_want_shape(call, WEIGHT, &IPU_SHAPE(rows.dim[1]));
}

static ipu_status multilabel_margin_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 0, 2));
    IPU_TRY(want_labels(call));
    IPU_TRY(ipu__op_want_shape(call, LABELS, &call->operand[X].shape));
    return one_for_each_row(call, out);
}

static ipu_status multilabel_soft_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_same_type(call, X, LABELS));
    IPU_TRY(ipu__op_want_shape(call, LABELS, &call->operand[X].shape));
    IPU_TRY(ipu__loss_weight_check(call, X, WEIGHT));
    return one_for_each_row(call, out);
}

/* ---- compositions ---- */

static ipu_value mean_of_classes(ipu_builder *b, ipu_value losses, const int *axes, int n, int64_t classes)
{
    ipu_value sum = ipu_reduce_sum(b, losses, axes, n, false);
    return ipu_div(b, sum, ipu_scalar_like(b, sum, (double)classes));
}

static ipu_value finish(ipu_builder *b, const ipu__kernel_call *call, ipu_value losses)
{
    ipu_value out = ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
    return ipu__as_shape(b, out, call->operand[call->def->n_operands - 1].shape);
}

static void multi_margin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    ipu_shape rows = rows_of(&call->operand[X].shape), of_rows = IPU_SHAPE(rows.dim[0]);
    ipu_shape column = IPU_SHAPE(rows.dim[0], 1);
    ipu_value x      = ipu__as_shape(b, in[X], rows);
    ipu_value labels = ipu__as_shape(b, ipu__as_type(b, in[LABELS], IPU_INT32), of_rows);
    ipu_value own    = ipu_gather_elements(b, x, ipu__as_shape(b, labels, column), 1);
    ipu_value losses = ipu_relu(b, ipu__plus(b, ipu_sub(b, x, own), ipu__op_float(call, "margin")));
    if (ipu__op_int(call, "p") == 2) losses = ipu_square(b, losses);
    if (ipu__has(in[WEIGHT])) {
        ipu_value factor = ipu_gather(b, in[WEIGHT], labels, 0);
        losses           = ipu_mul(b, losses, ipu__as_shape(b, factor, column));
    }
    ipu_value others = ipu_one_hot_with(b, labels, rows.dim[1], call->operand[X].type, -1, 0, 1);
    losses           = mean_of_classes(b, ipu_mul(b, losses, others), (int[]){1}, 1, rows.dim[1]);
    out[0]           = finish(b, call, losses);
}

/* Each label of a row against each class that is none of them; the labels end at the first that is negative. */
static void multilabel_margin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                      ipu_value *out)
{
    ipu_shape rows = rows_of(&call->operand[X].shape);
    int64_t   n = rows.dim[0], classes = rows.dim[1];
    ipu_shape of_labels = IPU_SHAPE(n, classes, 1), of_classes = IPU_SHAPE(n, 1, classes);
    ipu_type  type   = call->operand[X].type;
    ipu_value x      = ipu__as_shape(b, in[X], rows);
    ipu_value labels = ipu__as_shape(b, ipu__as_type(b, in[LABELS], IPU_INT32), rows);
    ipu_value zero   = ipu_scalar_like(b, labels, 0);
    ipu_value there  = ipu_cumprod(b, ipu_cast(b, ipu_greater_equal(b, labels, zero), IPU_INT32), 1);
    ipu_value marks  = ipu_one_hot(b, labels, classes, IPU_INT32);
    marks            = ipu_mul(b, marks, ipu__as_shape(b, there, of_labels));
    ipu_value others = ipu_equal(b, ipu_reduce_max(b, marks, (int[]){1}, 1, false), zero);
    ipu_value own    = ipu_gather_elements(b, x, ipu_maximum(b, labels, zero), 1);
    x                = ipu__as_shape(b, x, of_classes);
    ipu_value losses = ipu_relu(b, ipu__plus(b, ipu_sub(b, x, ipu__as_shape(b, own, of_labels)), 1));
    there            = ipu__as_shape(b, ipu_cast(b, there, type), of_labels);
    others           = ipu__as_shape(b, ipu_cast(b, others, type), of_classes);
    losses           = ipu_mul(b, losses, ipu_mul(b, there, others));
    out[0]           = finish(b, call, mean_of_classes(b, losses, (int[]){1, 2}, 2, classes));
}

static void multilabel_soft_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                    ipu_value *out)
{
    ipu_value losses = ipu_bce_with_logits_loss(b, in[X], in[LABELS], IPU_NO_VALUE, IPU_LOSS_NONE);
    if (ipu__has(in[WEIGHT])) losses = ipu_mul(b, losses, in[WEIGHT]);
    losses = ipu_reduce_mean(b, losses, (int[]){-1}, 1, false);
    out[0] = ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

/* ---- records ---- */

static const ipu__kernel_operand multi_margin_operands[]      = {IPU__INPUT("x"), IPU__INPUT("labels"),
                                                                 IPU__OPTIONAL("weight"), IPU__OUTPUT("loss")};
static const ipu__kernel_operand multilabel_margin_operands[] = {IPU__INPUT("x"), IPU__INPUT("labels"),
                                                                 IPU__OUTPUT("loss")};
static const ipu__kernel_operand multilabel_soft_operands[]   = {IPU__INPUT("logits"), IPU__INPUT("target"),
                                                                 IPU__OPTIONAL("weight"), IPU__OUTPUT("loss")};

static const ipu_op_attribute multi_margin_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "p", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "2: what is missing is squared"},
    {.name = "margin", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "lead that is enough"}};
static const ipu_op_attribute multilabel_margin_attributes[] = {IPU__REDUCTION_ATTRIBUTE};
#define multilabel_soft_attributes multilabel_margin_attributes

static const char *const multi_margin_samples[] = {
    "float[3,5], int32[3]{0,4}", "float[3,5], int64[3]{0,4}; p=2 margin=0.7 reduction=sum",
    "float[3,5], int32[3]{0,4}, float[5]{0.5,2}; reduction=none", "float[5], int32[]{0,4}; reduction=none",
    NULL};
static const char *const multilabel_margin_samples[] = {"float[3,5], int32[3,5]{-1,4}",
                                                        "float[3,5], int64[3,5]{0,4}; reduction=sum",
                                                        "float[5], int32[5]{-1,4}; reduction=none", NULL};
static const char *const multilabel_soft_samples[]   = {
      "float[3,5], float[3,5]{0,1}", "float[3,5], float[3,5]{0,1}, float[5]{0.5,2}; reduction=sum",
      "float[5], float[5]{0,1}; reduction=none", NULL};

#define RECORD(op, which, text)                                                                    \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                          \
                                                       .operands   = which##_operands,             \
                                                       .n_operands = IPU__COUNT(which##_operands), \
                                                       .check      = ipu__op_check},                    \
                                      .n_in         = IPU__COUNT(which##_operands) - 1,            \
                                      .family       = "loss",                                      \
                                      .summary      = (text),                                      \
                                      .attributes   = which##_attributes,                          \
                                      .n_attributes = IPU__COUNT(which##_attributes),              \
                                      .infer        = which##_infer,                               \
                                      .compose      = which##_compose,                             \
                                      .samples      = which##_samples}
RECORD(multi_margin_loss, multi_margin, "max(0, margin - x[label] + x[i]) over the other classes i");
RECORD(multilabel_margin_loss, multilabel_margin,
       "max(0, 1 - x[label] + x[i]) over labels and classes i that are none");
RECORD(multilabel_soft_margin_loss, multilabel_soft,
       "binary cross entropy of sigmoid(logits), the mean over classes");

/* ---- functions ---- */

static ipu_attribute reduction_attribute(ipu_loss_reduction reduction)
{
    return IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(reduction));
}

ipu_value ipu_multi_margin_loss(ipu_builder *b, ipu_value x, ipu_value labels, ipu_value weight, int p,
                                double margin, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "multi_margin_loss",
                      IPU__WITH(reduction_attribute(reduction), IPU_INT_ATTRIBUTE("p", p),
                                IPU_FLOAT_ATTRIBUTE("margin", margin)),
                      IPU__IN(x, labels, weight));
}

ipu_value ipu_multilabel_margin_loss(ipu_builder *b, ipu_value x, ipu_value labels,
                                     ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "multilabel_margin_loss", IPU__WITH(reduction_attribute(reduction)),
                      IPU__IN(x, labels));
}

ipu_value ipu_multilabel_soft_margin_loss(ipu_builder *b, ipu_value logits, ipu_value target,
                                          ipu_value weight, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "multilabel_soft_margin_loss", IPU__WITH(reduction_attribute(reduction)),
                      IPU__IN(logits, target, weight));
}
