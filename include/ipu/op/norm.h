/* Normalisation: mean 0 and variance 1 over some of the elements, then a weight and a bias.
 *
 *     ipu_value y = ipu_layer_norm(b, x, weight, bias, 1, 1e-5);
 *     ipu_batch_norm_result r = ipu_batch_norm(b, x, weight, bias, mean, var,
 *                                              (ipu_batch_norm_options){.training = true});
 *
 * y = (x - mean) / sqrt(var + epsilon) * weight + bias, with the variance that divides by n. Weights and
 * biases have the type of `x` and default to 1 and 0 if null. Means and variances are kept in at least float.
 */
#ifndef IPU_OP_NORM_H
#define IPU_OP_NORM_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Over the last `n_dims` dimensions; weight and bias have their shape. */
ipu_value ipu_layer_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, int n_dims,
                         double epsilon);
/* The same without subtracting the mean: x / sqrt(mean(x^2) + epsilon) * weight. */
ipu_value ipu_rms_norm(ipu_builder *b, ipu_value x, ipu_value weight, int n_dims, double epsilon);
/* [N, C, d...]: over C / groups channels of one image; weight and bias [C]. */
ipu_value ipu_group_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, int64_t groups,
                         double epsilon);
/* Over each channel of one image. */
ipu_value ipu_instance_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, double epsilon);
/* (x - mean) / (standard deviation + epsilon) over `axes`; none means all. */
ipu_value ipu_mean_variance_norm(ipu_builder *b, ipu_value x, const int *axes, int n_axes, double epsilon);

typedef struct ipu_local_response_options {
    int64_t size;  /* of the window, in channels */
    double  alpha; /* 0 means 1e-4 */
    double  beta;  /* 0 means 0.75 */
    double  bias;  /* 0 means 1 */
    /* Channels in the window before the current one, if has_before; otherwise size / 2, as in PyTorch. */
    int64_t before;
    bool    has_before;
} ipu_local_response_options;

/* x / (bias + alpha mean(x^2))^beta, with the mean over a window of neighbouring channels (dimension 1);
 * channels beyond the ends count as 0. */
ipu_value ipu_local_response_norm(ipu_builder *b, ipu_value x, ipu_local_response_options options);
/* x / max(l2 norm along `axis`, epsilon). */
ipu_value ipu_l2_normalize(ipu_builder *b, ipu_value x, int axis, double epsilon);
/* v scaled so that its slices are as long as g says; a slice is what one element of g is broadcast to. */
ipu_value ipu_weight_norm(ipu_builder *b, ipu_value v, ipu_value g);

typedef struct ipu_batch_norm_options {
    bool   training; /* use the statistics of this batch rather than `mean` and `var` */
    double momentum; /* weight of this batch in the new running statistics; 0 means 0.1 */
    double epsilon;  /* 0 means 1e-5 */
} ipu_batch_norm_options;

typedef struct ipu_batch_norm_result {
    ipu_value y;
    ipu_value mean, var; /* new running statistics, for ipu_model_update; outside training, those passed in */
} ipu_batch_norm_result;

/* [N, C, d...]: over each channel of all images. `mean` and `var` (divided by n - 1, as in PyTorch) are the
 * running statistics [C]; in training they may be null, and are then null in the result. */
ipu_batch_norm_result ipu_batch_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias,
                                     ipu_value mean, ipu_value var, ipu_batch_norm_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_batch_norm, ipu_batch_norm_result)
#define ipu_layer_norm(...) IPU_AT(ipu_layer_norm(__VA_ARGS__))
#define ipu_rms_norm(...) IPU_AT(ipu_rms_norm(__VA_ARGS__))
#define ipu_group_norm(...) IPU_AT(ipu_group_norm(__VA_ARGS__))
#define ipu_instance_norm(...) IPU_AT(ipu_instance_norm(__VA_ARGS__))
#define ipu_mean_variance_norm(...) IPU_AT(ipu_mean_variance_norm(__VA_ARGS__))
#define ipu_local_response_norm(...) IPU_AT(ipu_local_response_norm(__VA_ARGS__))
#define ipu_l2_normalize(...) IPU_AT(ipu_l2_normalize(__VA_ARGS__))
#define ipu_weight_norm(...) IPU_AT(ipu_weight_norm(__VA_ARGS__))
#define ipu_batch_norm(...) ipu_batch_norm_left((IPU_ENTER, ipu_batch_norm(__VA_ARGS__)))
#endif
#endif
