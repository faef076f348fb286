/* Internals of resizing: the inputs that make up an output along one dimension, and the loops. */
#ifndef IPU_OP_VISION_RESIZE_H
#define IPU_OP_VISION_RESIZE_H

#include "base/simd.h"
#include "ipu/op/resize.h"
#include "op/op.h"

enum { IPU__RESIZE_TAPS = 4 };

/* One dimension. */
typedef struct ipu__resize_axis {
    ipu_resize_mode        mode;
    ipu_resize_coordinates coordinates;
    ipu_resize_nearest     nearest;
    bool                   exclude_outside;
    int64_t                in, out;
    double                 scale, length, a, begin, end; /* length: in * scale, as given */
} ipu__resize_axis;

/* Inputs and weights of output `o`; returns their number, or 0 if it lies outside and takes the extrapolation
 * value. */
int ipu__resize_taps(const ipu__resize_axis *axis, int64_t o, int64_t index[IPU__RESIZE_TAPS],
                     double weight[IPU__RESIZE_TAPS]);

/* Reads the attributes of a call whose `x` has the given shape. Statuses: INVALID, saying what is wrong. */
ipu_status ipu__resize_axes(const ipu__kernel_call *call, const ipu_shape *x,
                            ipu__resize_axis axes[IPU_MAX_RANK]);

/* `to` outputs, each made of `taps` of `from` elements; index and weight are [taps][to]. */
typedef struct ipu__resize_table {
    int64_t  from, to, taps;
    bool     is_identity;
    int32_t *index;
    float   *weight;
    bool    *is_outside; /* by output; NULL if none is */
} ipu__resize_table;

typedef struct ipu__resize_loops {
    /* y = w * x, and y += w * x */
    void (*scale)(const float *x, float w, float *y, int64_t n);
    void (*add)(const float *x, float w, float *y, int64_t n);
    /* Computes the outputs from one row. */
    void (*row)(const ipu__resize_table *t, const float *x, float *y);
} ipu__resize_loops;
IPU__SIMD_DECLARE(extern const ipu__resize_loops, ipu__resize_loops_of)

/* ---- resize_run.c ---- */

ipu_status ipu__resize_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__resize_release(void *prepared);
bool       ipu__resize_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__resize_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__resize_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                           int part, int n_parts);

#endif
