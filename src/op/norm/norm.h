/* Internals of normalisation: which elements share a mean, and the loops over them.
 *
 * A unit is what is normalised together: a row in layer norm, a group of channels of one image, or a channel
 * of a whole batch. A unit's `mean` is the mean and `var` the mean of squared deviations; rms_norm takes the
 * mean as 0. Both are float, or double for double, whatever the type of the elements.
 */
#ifndef IPU_OP_NORM_NORM_H
#define IPU_OP_NORM_NORM_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

typedef enum ipu__norm_kind {
    IPU__NORM_LAYER,
    IPU__NORM_RMS,
    IPU__NORM_GROUP,
    IPU__NORM_BATCH,
    IPU__N_NORM_KINDS
} ipu__norm_kind;

/* Operands of the ops and of their gradients; the table omits those that rms_norm does not have. */
typedef struct ipu__norm_operands {
    int x, weight, bias, y, mean, var; /* -1 if absent */
    int dy, dx, d_weight, d_bias;      /* in gradients */
    int d_sum;                         /* in group norm's gradient with `relu`: sums of dx */
} ipu__norm_operands;

typedef struct ipu__norm {
    ipu__norm_kind     kind;
    bool               is_grad;
    ipu__norm_operands at;
    ipu_type           type, stat_type;
    bool               has_weight, has_bias;
    bool    relu; /* in group norm's gradient: x is the output of a relu, dx the gradient of its input */
    double  epsilon;
    int64_t n_units, n_each, n_weights;
    /* Units consist of n_planes planes of `inner` contiguous elements each. Rows are one plane. */
    int64_t n_planes, inner, channels, groups;
} ipu__norm;

ipu__norm ipu__norm_of(const ipu__kernel_call *call);

/* Plane k of a unit: its number in memory, and its weight (for planes; rows have none). */
static inline int64_t ipu__norm_plane(const ipu__norm *s, int64_t unit, int64_t k)
{
    return s->kind == IPU__NORM_BATCH ? k * s->channels + unit : unit * s->n_planes + k;
}

static inline int64_t ipu__norm_channel(const ipu__norm *s, int64_t unit, int64_t k)
{
    return s->kind == IPU__NORM_BATCH ? unit : unit % s->groups * s->n_planes + k;
}

/* ---- loops in float (norm_simd.c) ---- */

typedef struct ipu__norm_loops {
    /* Sum, and sum of squared deviations from *mean = sum / n; or of squares if not `centred`. */
    void (*stats)(const float *x, int64_t n, bool centred, double *mean, double *squares);
    /* y = (x - mean) * scale * weight[i] + bias[i] */
    void (*row)(const float *x, float mean, float scale, const float *weight, const float *bias, float *y,
                int64_t n);
    /* dx, and additions to d_weight and d_bias. */
    void (*grad_row)(const float *dy, const float *x, float mean, float scale, bool centred,
                     const float *weight, float *dx, float *d_weight, float *d_bias, int64_t n);
    /* y = (x - mean) * scale + shift */
    void (*plane)(const float *x, float mean, float scale, float shift, float *y, int64_t n);
    /* Adds sum(dy) and sum(dy * (x - mean)). */
    void (*grad_sums)(const float *dy, const float *x, float mean, int64_t n, double *sum, double *product);
    /* dx = a * dy + b * (x - mean) + c */
    void (*grad_plane)(const float *dy, const float *x, float mean, float a, float b, float c, float *dx,
                       int64_t n);
    /* Sets dx to 0 where x is not above 0. Returns the resulting sum of dx. */
    double (*mask_plane)(const float *x, float *dx, int64_t n);
    /* Columns of [n, columns] in rows `step` apart: sums; sums of squared deviations; sums of dy and of
     * dy * (x - mean). */
    void (*column_sums)(const float *x, int64_t n, int64_t step, int64_t columns, double *sum);
    void (*column_squares)(const float *x, int64_t n, int64_t step, int64_t columns, const double *mean,
                           double *squares);
    void (*column_products)(const float *dy, const float *x, int64_t n, int64_t step, int64_t columns,
                            const double *mean, double *sum, double *product);
    /* Like `plane` and `grad_plane`, with separate numbers for each element. */
    void (*columns)(const float *x, const float *mean, const float *scale, const float *shift, float *y,
                    int64_t n);
    void (*grad_columns)(const float *dy, const float *x, const float *mean, const float *a, const float *b,
                         const float *c, float *dx, int64_t n);
} ipu__norm_loops;
IPU__SIMD_DECLARE(extern const ipu__norm_loops, ipu__norm_loops)

/* ---- the same for sixteen images side by side: means, scales, ... are vectors of 16 (lanes_simd.c) ---- */

/* dx = a * dy + b * (x - mean) + c */
typedef struct ipu__norm_mixture {
    float a[16], b[16], c[16];
} ipu__norm_mixture;

typedef struct ipu__norm_lane_loops {
    /* Adds the sum; the squared deviations; sum(dy) and sum(dy * (x - mean)). */
    void (*sum)(const float *x, int64_t n, double *total);
    void (*squares)(const float *x, const float *mean, int64_t n, double *total);
    /* y = (x - mean) * scale + shift */
    void (*normalise)(const float *x, const float *mean, const float *scale, float shift, int64_t n,
                      float *y);
    void (*normalise_by)(const float *x, const float *mean, const float *scale, const float *shift, int64_t n,
                         float *y); /* sixteen shifts */
    void (*products)(const float *dy, const float *x, const float *mean, int64_t n, double *total,
                     double *product);
    void (*grad)(const float *dy, const float *x, const float *mean, const ipu__norm_mixture *m, int64_t n,
                 float *dx);
    /* 0 where x is not above 0. Returns the sum of all. */
    double (*grad_relu)(const float *dy, const float *x, const float *mean, const ipu__norm_mixture *m,
                        int64_t n, float *dx);
    /* For sixteen units of `n` elements: turns sums into means, squared deviations into variances, and those
     * into 1 / sqrt(var + epsilon). */
    void (*means)(const double *sum, double n, float *mean);
    void (*variances)(const double *squares, double n, float *var);
    void (*scales)(const float *var, double epsilon, float *scale);
    /* For one channel, given sum(dy) and sum(dy * (x - mean)) of each unit: adds them times weight to those
     * of units; and adds the first, and the second times scale, up over units. */
    void (*add_channel)(const double *own, const double *mixed, double weight, const float *scale,
                        double *sum, double *product, double all[2]);
    /* Computes b and c. */
    void (*mix)(const float *scale, const double *sum, const double *product, double n, ipu__norm_mixture *m);
} ipu__norm_lane_loops;
IPU__SIMD_DECLARE(extern const ipu__norm_lane_loops, ipu__norm_lane_loops_of)

/* ---- kernels (kernel.c) ---- */

void       ipu__norm_ref(const ipu__kernel_call *call, void *const *operand);
void       ipu__norm_grad_ref(const ipu__kernel_call *call, void *const *operand);
double     ipu__norm_work(const ipu__kernel_call *call);
double     ipu__norm_ref_work(const ipu__kernel_call *call);
ipu_status ipu__norm_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);

extern const ipu__cpu_impl ipu__norm_row_implementations[1], ipu__norm_row_grad_implementations[1];
extern const ipu__cpu_impl ipu__norm_plane_implementations[1], ipu__norm_plane_grad_implementations[1];
extern const ipu__cpu_impl ipu__norm_group_implementations[2], ipu__norm_group_grad_implementations[2];
extern const ipu__cpu_impl ipu__norm_batch_implementations[1], ipu__norm_batch_grad_implementations[1];

#endif
