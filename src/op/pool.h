/* Pooling inside: windows, and loops over rows in float.
 *
 * Rows are taken apart by the stride: element c of a padded row lies in phase c % stride at c / stride. Tap k of
 * window i is then element i + k * dilation / stride of phase k * dilation % stride: every loop runs over
 * neighbours, whatever the stride.
 */
#ifndef IPU_OP_POOL_H
#define IPU_OP_POOL_H

#include "base/simd.h"
#include "op/op.h"

/* Always three dimensions: those that x lacks come first and are 1. */
typedef struct ipu__pool {
    int64_t planes;
    int64_t in[3], out[3], kernel[3], stride[3], before[3], after[3], dilation[3];
    int     n; /* dimensions there are */
    bool    include_padding;
} ipu__pool;

#define IPU__POOL_ATTRIBUTES                                                                              \
    {.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "extents of the window"}, \
        {.name    = "stride",                                                                             \
         .kind    = IPU_ATTRIBUTE_INTS,                                                                   \
         .meaning = "from window to window; left out: the kernel"},                                       \
        {.name    = "padding",                                                                            \
         .kind    = IPU_ATTRIBUTE_INTS,                                                                   \
         .meaning = "on both sides of each dimension; or twice as many: before, then behind"},            \
        {.name = "dilation", .kind = IPU_ATTRIBUTE_INTS, .meaning = "from tap to tap; left out: 1"},      \
        {.name    = "ceil_mode",                                                                          \
         .kind    = IPU_ATTRIBUTE_INT,                                                                    \
         .meaning = "1: a last window may reach past the padding"},                                       \
    {                                                                                                     \
        .name = "count_include_pad", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1,                           \
        .meaning = "averages: 1: divide by the taps within x and its padding, 0: within x"                \
    }

/* From the attributes and the shape of x, [batch, channels, ...]; *out: that of y. */
ipu_status ipu__pool_get(const ipu_kernel_call *call, const ipu_shape *x, ipu__pool *pool, ipu_shape *out);

/* Taps of window `i` of dimension `d` that lie within x. */
ipu_interval ipu__pool_taps(const ipu__pool *p, int d, int64_t i);
/* What an average over the window is divided by, in one dimension. */
int64_t ipu__pool_count(const ipu__pool *p, int d, int64_t i);

static inline int64_t ipu__pool_at(const ipu__pool *p, int d, int64_t i, int64_t tap)
{
    return i * p->stride[d] - p->before[d] + tap * p->dilation[d];
}

/* ---- rows in float ---- */

typedef struct ipu__pool_rows {
    int64_t width; /* of a padded row: what windows reach */
    int64_t pitch; /* of a phase */
    int64_t kept;  /* elements of a row of x that windows reach */
} ipu__pool_rows;

ipu__pool_rows ipu__pool_rows_get(const ipu__pool *p);

static inline int64_t ipu__pool_tap(const ipu__pool *p, const ipu__pool_rows *r, int64_t tap)
{
    int64_t c = tap * p->dilation[2];
    return c % p->stride[2] * r->pitch + c / p->stride[2];
}

bool ipu__pool_in_float(ipu_type type); /* float, half, bfloat16 */
/* `n` elements from `at` on; float: where they are, others: converted into `room`. */
const float *ipu__pool_load(ipu_type type, const void *from, int64_t at, int64_t n, float *room);
void         ipu__pool_store(ipu_type type, const float *from, void *to, int64_t at, int64_t n);

ipu_status ipu__pool_plan(const ipu__pool *p, ipu_type type, const ipu_target *target, ipu_kernel_plan *out);
double     ipu__pool_work(const ipu__pool *p);

typedef struct ipu__pool_loops {
    void (*max)(float *to, const float *from, int64_t n); /* the larger; NaN is the largest */
    void (*add)(float *to, const float *from, int64_t n);
    void (*divide)(float *to, const float *by, int64_t n);
    /* most[i] and where[i] become v[i] and k if v[i] is larger. */
    void (*seek)(float *most, int32_t *where, const float *v, int32_t k, int64_t n);
    /* to[i] += dy[i] where where[i] is k. */
    void (*give)(float *to, const int32_t *where, const float *dy, int32_t k, int64_t n);
    /* A row into its phases and back. */
    void (*split)(const float *row, int64_t n, int64_t stride, float *phases, int64_t pitch);
    void (*join)(const float *phases, int64_t pitch, int64_t stride, float *row, int64_t n);
} ipu__pool_loops;
IPU__SIMD_DECLARE(extern const ipu__pool_loops, ipu__pool_loops_at)

#endif
