/* Losses.
 *
 *     ipu_value loss = ipu_cross_entropy(b, logits, labels);            mean over the batch
 *     ipu_value each = ipu_cross_entropy_with(b, logits, labels,
 *                          (ipu_loss_options){.reduction = IPU_LOSS_NONE, .label_smoothing = 0.1});
 *
 * Predictions for classes are [N, C] or [N, C, d...], with integer labels (int32 or int64) [N] or [N, d...].
 * A label that is neither a class nor the ignored one stops the run. Everything but labels has one floating
 * type.
 */
#ifndef IPU_OP_LOSS_H
#define IPU_OP_LOSS_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ipu_loss_reduction {
    IPU_LOSS_MEAN, /* over all elements; with class weights, divided by the weights of the labels */
    IPU_LOSS_SUM,
    IPU_LOSS_NONE,
    IPU_LOSS_BATCH_MEAN /* the sum divided by dimension 0 */
} ipu_loss_reduction;

typedef struct ipu_loss_options {
    ipu_loss_reduction reduction;
    ipu_value          weight; /* [C]: per class. Null means 1 */
    bool               has_ignore_index;
    int64_t            ignore_index; /* label to ignore; -100 unless has_ignore_index */
    double label_smoothing;          /* cross entropy: share of the target spread evenly over all classes */
} ipu_loss_options;

/* -log_probs[label]. */
ipu_value ipu_nll_loss(ipu_builder *b, ipu_value log_probs, ipu_value labels);
ipu_value ipu_nll_loss_with(ipu_builder *b, ipu_value log_probs, ipu_value labels, ipu_loss_options options);
/* -log_softmax(logits)[label]; or, if `target` has the type and shape of `logits`, the sum over classes of
 * -target * log_softmax(logits). */
ipu_value ipu_cross_entropy(ipu_builder *b, ipu_value logits, ipu_value target);
ipu_value ipu_cross_entropy_with(ipu_builder *b, ipu_value logits, ipu_value target,
                                 ipu_loss_options options);

/* ---- element by element, `x` and `target` of one shape ---- */

ipu_value ipu_mse_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction);
ipu_value ipu_l1_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction);
/* d^2 / (2 beta) where |d| < beta, |d| - beta / 2 elsewhere; beta >= 0. */
ipu_value ipu_smooth_l1_loss(ipu_builder *b, ipu_value x, ipu_value target, double beta,
                             ipu_loss_reduction reduction);
/* delta times smooth_l1 with beta = delta > 0. */
ipu_value ipu_huber_loss(ipu_builder *b, ipu_value x, ipu_value target, double delta,
                         ipu_loss_reduction reduction);
/* Of probabilities; logarithms are clamped at -100. */
ipu_value ipu_bce_loss(ipu_builder *b, ipu_value probabilities, ipu_value target,
                       ipu_loss_reduction reduction);
/* `pos_weight` (broadcast; null means 1) multiplies the term of the target. */
ipu_value ipu_bce_with_logits_loss(ipu_builder *b, ipu_value logits, ipu_value target, ipu_value pos_weight,
                                   ipu_loss_reduction reduction);
/* Each loss is multiplied by `weight` (broadcast; null means 1). */
ipu_value ipu_bce_loss_with(ipu_builder *b, ipu_value probabilities, ipu_value target, ipu_value weight,
                            ipu_loss_reduction reduction);
ipu_value ipu_bce_with_logits_loss_with(ipu_builder *b, ipu_value logits, ipu_value target,
                                        ipu_value pos_weight, ipu_value weight, ipu_loss_reduction reduction);
/* target * (log target - log_probs), 0 where target is; with `log_target` the target is given as its
 * logarithm. */
ipu_value ipu_kl_div_loss(ipu_builder *b, ipu_value log_probs, ipu_value target, bool log_target,
                          ipu_loss_reduction reduction);

/* ---- negative log likelihoods ---- */

typedef struct ipu_poisson_options {
    ipu_loss_reduction reduction;
    bool               is_rate; /* x is the rate, not its logarithm */
    bool               full;    /* add Stirling's approximation of log(target!) */
    double             eps;     /* added to a rate before taking its logarithm; 0 means 1e-8 */
} ipu_poisson_options;

/* exp(x) - target x, or x - target log(x), for a Poisson distribution. */
ipu_value ipu_poisson_nll_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_poisson_options options);
/* (log(variance) + (x - target)^2 / variance) / 2, plus log(2 pi) / 2 if `full`. Variances count as at least `eps`
 * (PyTorch: 1e-6); they have the shape of x, or 1 in place of its last dimension, or lack it. */
ipu_value ipu_gaussian_nll_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_value variance, bool full,
                                double eps, ipu_loss_reduction reduction);

/* ---- with a margin; targets are 1 or -1 ---- */

/* log(1 + exp(-target x)). */
ipu_value ipu_soft_margin_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_loss_reduction reduction);

/* x where the target is 1, max(0, margin - x) where it is -1. PyTorch's margin: 1. */
ipu_value ipu_hinge_embedding_loss(ipu_builder *b, ipu_value x, ipu_value target, double margin,
                                   ipu_loss_reduction reduction);
/* max(0, margin - target (x - other)). */
ipu_value ipu_margin_ranking_loss(ipu_builder *b, ipu_value x, ipu_value other, ipu_value target,
                                  double margin, ipu_loss_reduction reduction);
/* Of rows [n, d] and targets [n], or [d] and a scalar: 1 - cosine where the target is 1, max(0, cosine -
 * margin) where it is -1. */
ipu_value ipu_cosine_embedding_loss(ipu_builder *b, ipu_value x, ipu_value other, ipu_value target,
                                    double margin, ipu_loss_reduction reduction);

typedef struct ipu_triplet_options {
    ipu_loss_reduction reduction;
    double             margin; /* 0 means 1 */
    double             p;      /* of the norm; 0 means 2 */
    double             eps;    /* added to each difference; 0 means 1e-6 */
    bool               swap;   /* if negative is nearer to positive than to anchor, use that distance */
} ipu_triplet_options;

/* Of vectors [..., d]: max(0, margin + |anchor - positive| - |anchor - negative|). */
ipu_value ipu_triplet_margin_loss(ipu_builder *b, ipu_value anchor, ipu_value positive, ipu_value negative,
                                  ipu_triplet_options options);

/* ---- with a margin between classes, or several labels ---- */

/* For scores [n, classes] and labels [n], or one row and a scalar: the sum over the other classes of max(0, margin -
 * x[label] + x[i]), squared if p is 2, times `weight` of the label (null means 1), divided by the number of classes. */
ipu_value ipu_multi_margin_loss(ipu_builder *b, ipu_value x, ipu_value labels, ipu_value weight, int p,
                                double margin, ipu_loss_reduction reduction);
/* For scores and labels [n, classes], or one row: the sum over labels and non-labels of max(0, 1 - x[label] +
 * x[i]), divided by the number of classes. The first negative label ends those of a row. */
ipu_value ipu_multilabel_margin_loss(ipu_builder *b, ipu_value x, ipu_value labels,
                                     ipu_loss_reduction reduction);
/* Binary cross entropy of sigmoid(logits), times `weight` (broadcast; null means 1), averaged over the last
 * dimension. */
ipu_value ipu_multilabel_soft_margin_loss(ipu_builder *b, ipu_value logits, ipu_value target,
                                          ipu_value weight, ipu_loss_reduction reduction);

/* ---- sequences ---- */

typedef struct ipu_ctc_options {
    int64_t            blank;         /* the class that stands for no label */
    ipu_loss_reduction reduction;     /* mean: of losses each divided by the length of its target */
    bool               zero_infinity; /* give 0 if the input is too short for the target */
} ipu_ctc_options;

/* Connectionist temporal classification: minus the log probability that the outputs over time, after removing
 * repetitions and blanks, spell the target. log_probs [steps, n, classes] (from ipu_log_softmax), targets [n,
 * most] with `target_lengths` [n] labels each, `input_lengths` [n] steps; integers are int32 or int64. */
ipu_value ipu_ctc_loss(ipu_builder *b, ipu_value log_probs, ipu_value targets, ipu_value input_lengths,
                       ipu_value target_lengths, ipu_ctc_options options);

typedef struct ipu_ctc_decode_options {
    int64_t blank;      /* the class that stands for no label */
    int64_t beam_width; /* prefixes kept after each step; 0 means 100 */
    int64_t top_paths;  /* 0 means 1; at most beam_width */
} ipu_ctc_decode_options;

typedef struct ipu_ctc_decoded {
    ipu_value scores;  /* [n, top]: log probabilities, largest first; -inf where there are fewer paths */
    ipu_value lengths; /* int32 [n, top] */
    ipu_value paths;   /* int32 [n, top, steps]: labels, then `blank` */
} ipu_ctc_decoded;

/* The label sequences that log_probs [steps, n, classes] most likely spell in the first `lengths` [n] (int32 or int64)
 * steps, by beam search: exact as long as there are no more prefixes than beam_width. No gradient. */
ipu_ctc_decoded ipu_ctc_decode(ipu_builder *b, ipu_value log_probs, ipu_value lengths,
                               ipu_ctc_decode_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_nll_loss(...) IPU_AT(ipu_nll_loss(__VA_ARGS__))
#define ipu_nll_loss_with(...) IPU_AT(ipu_nll_loss_with(__VA_ARGS__))
#define ipu_cross_entropy(...) IPU_AT(ipu_cross_entropy(__VA_ARGS__))
#define ipu_cross_entropy_with(...) IPU_AT(ipu_cross_entropy_with(__VA_ARGS__))
#define ipu_mse_loss(...) IPU_AT(ipu_mse_loss(__VA_ARGS__))
#define ipu_l1_loss(...) IPU_AT(ipu_l1_loss(__VA_ARGS__))
#define ipu_smooth_l1_loss(...) IPU_AT(ipu_smooth_l1_loss(__VA_ARGS__))
#define ipu_huber_loss(...) IPU_AT(ipu_huber_loss(__VA_ARGS__))
#define ipu_bce_loss(...) IPU_AT(ipu_bce_loss(__VA_ARGS__))
#define ipu_bce_with_logits_loss(...) IPU_AT(ipu_bce_with_logits_loss(__VA_ARGS__))
#define ipu_bce_loss_with(...) IPU_AT(ipu_bce_loss_with(__VA_ARGS__))
#define ipu_bce_with_logits_loss_with(...) IPU_AT(ipu_bce_with_logits_loss_with(__VA_ARGS__))
#define ipu_poisson_nll_loss(...) IPU_AT(ipu_poisson_nll_loss(__VA_ARGS__))
#define ipu_gaussian_nll_loss(...) IPU_AT(ipu_gaussian_nll_loss(__VA_ARGS__))
#define ipu_soft_margin_loss(...) IPU_AT(ipu_soft_margin_loss(__VA_ARGS__))
#define ipu_triplet_margin_loss(...) IPU_AT(ipu_triplet_margin_loss(__VA_ARGS__))
#define ipu_multi_margin_loss(...) IPU_AT(ipu_multi_margin_loss(__VA_ARGS__))
#define ipu_multilabel_margin_loss(...) IPU_AT(ipu_multilabel_margin_loss(__VA_ARGS__))
#define ipu_multilabel_soft_margin_loss(...) IPU_AT(ipu_multilabel_soft_margin_loss(__VA_ARGS__))
#define ipu_kl_div_loss(...) IPU_AT(ipu_kl_div_loss(__VA_ARGS__))
#define ipu_hinge_embedding_loss(...) IPU_AT(ipu_hinge_embedding_loss(__VA_ARGS__))
#define ipu_margin_ranking_loss(...) IPU_AT(ipu_margin_ranking_loss(__VA_ARGS__))
#define ipu_cosine_embedding_loss(...) IPU_AT(ipu_cosine_embedding_loss(__VA_ARGS__))
#define ipu_ctc_loss(...) IPU_AT(ipu_ctc_loss(__VA_ARGS__))
IPU_LEFT(ipu_ctc_decoded, ipu_ctc_decoded)
#define ipu_ctc_decode(...) ipu_ctc_decoded_left((IPU_ENTER, ipu_ctc_decode(__VA_ARGS__)))
#endif
#endif
