/* Internals of pooling: windows over a plane of three dimensions (leading ones 1), and the loops over a
 * plane. */
#ifndef IPU_OP_POOL_POOL_H
#define IPU_OP_POOL_POOL_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

enum { IPU__POOL_DIMS = 3 };

typedef struct ipu__pool_axis {
    int64_t in, out, kernel, stride, begin, end, dilation; /* begin, end: padding */
} ipu__pool_axis;

typedef struct ipu__pooling {
    int64_t        planes;
    int64_t        in_plane, out_plane; /* elements */
    bool           include_padding;
    ipu__pool_axis axis[IPU__POOL_DIMS];
} ipu__pooling;

/* `x` is the shape of the larger side. The call's lists have been checked. */
ipu__pooling ipu__pool_of(const ipu__kernel_call *call, const ipu_shape *x, bool has_dilation);

/* Outputs lo <= o < hi of an axis for which tap `tap` of the window is inside the input. */
static inline void ipu__pool_valid(const ipu__pool_axis *a, int64_t tap, int64_t *lo, int64_t *hi)
{
    int64_t first = a->begin - tap * a->dilation, last = a->in - 1 + first; /* 0 <= o * stride - first < in */
    *lo = first > 0 ? (first + a->stride - 1) / a->stride : 0;
    *hi = last < 0 ? 0 : last / a->stride + 1;
    if (*hi > a->out) *hi = a->out;
    if (*lo > *hi) *lo = *hi;
}

/* The number of elements that window `o` is averaged over, along one axis. */
static inline int64_t ipu__pool_count(const ipu__pool_axis *a, int64_t o, bool include_padding)
{
    int64_t begin = o * a->stride - a->begin, end = begin + a->kernel;
    int64_t limit = a->in + (include_padding ? a->end : 0);
    if (end > limit) end = limit;
    if (!include_padding && begin < 0) begin = 0;
    return end > begin ? end - begin : 1;
}

/* Taps lo <= k < hi of window `o` along an axis that are inside the input. */
static inline void ipu__pool_taps(const ipu__pool_axis *a, int64_t o, int64_t *lo, int64_t *hi)
{
    int64_t first = o * a->stride - a->begin; /* of the input: 0 <= first + k * dilation < in */
    *lo           = first < 0 ? (-first + a->dilation - 1) / a->dilation : 0;
    *hi           = first >= a->in ? 0 : (a->in - 1 - first) / a->dilation + 1;
    if (*hi > a->kernel) *hi = a->kernel;
    if (*lo > *hi) *lo = *hi;
}

typedef struct ipu__pool_loops {
    void (*max)(const ipu__pooling *p, const float *x, float *y, int32_t *indices);
    void (*average)(const ipu__pooling *p, const float *x, float *y);
    void (*average_grad)(const ipu__pooling *p, const float *dy, float *dx);
} ipu__pool_loops;
IPU__SIMD_DECLARE(extern const ipu__pool_loops, ipu__pool_loops_of)

/* ---- planes of vectors (lanes.c): sixteen images in lanes, or sixteen channels in blocks ---- */

/* Rows [begin, end) of the smaller side, for one plane; a row is (depth, height). */
typedef struct ipu__pool_lane_loops {
    /* `indices` are for all rows, or if `of_row`, for one row, reused. */
    void (*max)(const ipu__pooling *p, const float *x, int64_t begin, int64_t end, float *y, int32_t *indices,
                bool of_row);
    void (*average)(const ipu__pooling *p, const float *x, int64_t begin, int64_t end, float *y);
    /* All rows. */
    void (*average_grad)(const ipu__pooling *p, const float *dy, float *dx);
    /* Scatters into windows that do not overlap, and zeroes the rest of these rows of windows. Returns true
     * if there are indices elsewhere. */
    bool (*scatter)(const ipu__pooling *p, const float *dy, const int32_t *indices, int64_t begin,
                    int64_t end, float *dx);
} ipu__pool_lane_loops;
IPU__SIMD_DECLARE(extern const ipu__pool_lane_loops, ipu__pool_lane_loops_of)

ipu__kernel_layouts ipu__pool_layouts(const ipu__kernel_call *call, int n_parts, int operand);

/* Whether the call's operands, which share a layout, have this one. */
static inline bool ipu__pool_is_turned(const ipu__kernel_call *call)
{
    return call->layout[0] != IPU__LAYOUT_PLAIN;
}

/* `scratch`, for types other than float: sixteen planes of the first operand and of the result. `spare`: room
 * for the indices of a row of vectors if they are not wanted; else NULL. */
void ipu__pool_lanes_max(const ipu__pooling *p, ipu_type type, void *const *operand, int32_t *spare,
                         float *scratch, int part, int n_parts);
void ipu__pool_lanes_average(const ipu__pooling *p, ipu_type type, void *const *operand, float *scratch,
                             int part, int n_parts);
void ipu__pool_lanes_average_grad(const ipu__pooling *p, ipu_type type, void *const *operand, float *scratch,
                                  int part, int n_parts);

ipu_status ipu__pool_scatter_prepare(const ipu__kernel_call *call, int n_parts, void **state);
void       ipu__pool_scatter_release(void *state);
ipu_status ipu__pool_lanes_scatter(const ipu__kernel_call *call, void *state, void *const *operand,
                                   float *scratch, int part, int n_parts);
ipu_status ipu__pool_lanes_gather(const ipu__kernel_call *call, void *const *operand, float *scratch,
                                  int part, int n_parts);
ipu_status ipu__pool_fail_index(const ipu__kernel_call *call, int32_t at, int64_t n);

#endif
