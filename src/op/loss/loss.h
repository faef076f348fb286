/* Internals of losses: labels, and reducing elements to one number. */
#ifndef IPU_OP_LOSS_LOSS_H
#define IPU_OP_LOSS_LOSS_H

#include "ipu/op/loss.h"
#include "op/op.h"

/* ---- labels ---- */

/* Predictions as [n, classes, inner], labels as [n, inner]. */
typedef struct ipu__labelled {
    ipu_type type;
    int64_t  n, classes, inner;
    ipu_type label_type;
    int64_t  ignore_index;
} ipu__labelled;

/* Label i: a class, -1 if it is to be ignored, -2 if it is invalid. */
static inline int64_t ipu__label(const ipu__labelled *l, const void *labels, int64_t i)
{
    int64_t label = l->label_type == IPU_INT64 ? ((const int64_t *)labels)[i] : ((const int32_t *)labels)[i];
    if (label == l->ignore_index) return -1;
    return label >= 0 && label < l->classes ? label : -2;
}

/* The error for label i, which is invalid. */
ipu_status ipu__label_fail(const ipu__labelled *l, const void *labels, int64_t i);

/* `scores` is the operand with classes in dimension 1. */
ipu__labelled ipu__labelled_of(const ipu__kernel_call *call, const ipu_shape *scores, int labels);
/* Checks that labels and the optional weight fit predictions of that shape and type. */
ipu_status ipu__labelled_check(const ipu__kernel_call *call, const ipu__kernel_value *scores, int labels,
                               int weight);

#define IPU__IGNORE_ATTRIBUTE                                                 \
    {                                                                         \
        .name = "ignore_index", .kind = IPU_ATTRIBUTE_INT, .otherwise = -100, \
        .meaning = "label that counts for nothing"                            \
    }

/* ---- reduction ---- */

#define IPU__REDUCTION_ATTRIBUTE                                                        \
    {                                                                                   \
        .name = "reduction", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "mean",      \
        .meaning = "\"mean\", \"sum\", \"none\" or \"batch_mean\" (sum by dimension 0)" \
    }

/* Checks that `weight`, if present, has the type of `x` and broadcasts to it. */
ipu_status ipu__loss_weight_check(const ipu__kernel_call *call, int x, int weight);

const char *ipu__loss_reduction_text(ipu_loss_reduction reduction);
ipu_status  ipu__loss_reduction_get(const ipu__kernel_call *call, ipu_loss_reduction *out);
/* `losses` have dimension 0 of `n_batch`; `weights` is null if all count equally. */
ipu_value ipu__loss_reduce(ipu_builder *b, const ipu__kernel_call *call, ipu_value losses, ipu_value weights);

#endif
