/* Pooling inside: windows over a plane of three dimensions (leading ones 1), and the loops over a plane. */
#ifndef IPU_OP_POOL_H
#define IPU_OP_POOL_H

#include "base/simd.h"
#include "op/op.h"

enum { IPU__POOL_DIMS = 3 };

typedef struct ipu__pool_axis {
    int64_t in, out, kernel, stride, begin, end, dilation; /* begin, end: padding */
} ipu__pool_axis;

typedef struct ipu__pool {
    int64_t        planes;
    int64_t        in_plane, out_plane; /* elements */
    bool           include_padding;
    ipu__pool_axis axis[IPU__POOL_DIMS];
} ipu__pool;

/* Outputs lo <= o < hi of an axis for which tap `tap` of the window is inside the input. */
static inline void ipu__pool_valid(const ipu__pool_axis *a, int64_t tap, int64_t *lo, int64_t *hi)
{
    int64_t first = a->begin - tap * a->dilation, last = a->in - 1 + first; /* 0 <= o * stride - first < in */
    *lo = first > 0 ? (first + a->stride - 1) / a->stride : 0;
    *hi = last < 0 ? 0 : last / a->stride + 1;
    if (*hi > a->out) *hi = a->out;
    if (*lo > *hi) *lo = *hi;
}

/* By how many elements window `o` is divided along an axis. */
static inline int64_t ipu__pool_count(const ipu__pool_axis *a, int64_t o, bool include_padding)
{
    int64_t begin = o * a->stride - a->begin, end = begin + a->kernel;
    int64_t limit = a->in + (include_padding ? a->end : 0);
    if (end > limit) end = limit;
    if (!include_padding && begin < 0) begin = 0;
    return end > begin ? end - begin : 1;
}

typedef struct ipu__pool_loops {
    void (*max)(const ipu__pool *p, const float *x, float *y, int32_t *indices);
    void (*average)(const ipu__pool *p, const float *x, float *y);
    void (*average_grad)(const ipu__pool *p, const float *dy, float *dx);
} ipu__pool_loops;
IPU__SIMD_DECLARE(extern const ipu__pool_loops, ipu__pool_loops_of)

#endif
