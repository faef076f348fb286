/* The image a convolution reads, laid out so that neighbouring outputs read neighbours at every tap, and
 * matrices gathered from it.
 *
 * A plane is the part of one channel that the taps reach: padding is stored as zeros, and elements a stride
 * apart are adjacent. So tap t of output (i, j, k) reads plane[tap[t] + (i * pitch[1] + j) * pitch[2] + k]. A
 * matrix of columns has a row for each (channel, tap) and a column for each output: convolutions are products
 * with it.
 */
#ifndef IPU_OP_CONV_CPU_COLUMNS_H
#define IPU_OP_CONV_CPU_COLUMNS_H

#include "base/simd.h"
#include "op/conv/conv.h"

enum { IPU__MAX_COLUMNS = 1024 }; /* per call */

typedef struct ipu__columns {
    ipu__conv c;
    ipu_type  type;
    bool      in_place;          /* x itself already has this layout: float, no padding, stride 1 */
    bool      is_product;        /* planes are the matrix: a kernel of size 1 */
    int64_t   n_taps, n_outputs; /* per channel */
    int64_t   pitch[3];          /* extents of what is reached, with elements a stride apart */
    int64_t   n_offsets[3];      /* offsets below the strides at which taps may be */
    int64_t   plane;             /* floats: one such box per offset */
    int64_t   flat;              /* from the first output to the last, as laid out in a plane, plus one */
    int64_t  *tap;               /* position of tap t of output 0 */
} ipu__columns;

/* Statuses: OUT_OF_MEMORY. */
ipu_status ipu__columns_init(ipu__columns *columns, const ipu__conv *c, ipu_type type);
void       ipu__columns_fini(ipu__columns *columns);

/* The beginning of states that implementations prepare. */
typedef struct ipu__conv_state {
    ipu__columns  columns;
    ipu__epilogue epilogue; /* empty except for conv */
} ipu__conv_state;

/* Allocates a state of `bytes` with this beginning, for columns of `c`; the rest is zeros. Statuses: as of
 * ipu__epilogue_init. */
ipu_status ipu__conv_prepare(const ipu__kernel_call *call, const ipu__conv *c, ipu_type type, size_t bytes,
                             void **out);
void       ipu__conv_release(void *prepared);

/* Copies `n` channels of one image from x (in its type) to planes; and back, writing the elements of x that
 * planes hold and zeroing the rest. */
void ipu__columns_stage(const ipu__columns *columns, const void *x, int64_t n, float *planes);
void ipu__columns_unstage(const ipu__columns *columns, float *planes, int64_t n, void *x);

/* Copies one channel to a plane that holds zeros except for what this function may have put there before. */
void ipu__columns_fill(const ipu__columns *columns, const void *x, float *plane);

/* Adjacent columns that read adjacent elements. */
typedef struct ipu__column_run {
    int64_t from; /* for tap 0, in channel 0 */
    int64_t to, length;
} ipu__column_run;

/* Loops (conv_simd.c) over runs of each of `n_rows` rows, which start according to `plane` and `tap`. */
typedef struct ipu__columns_loops {
    void (*gather)(const ipu__columns *columns, const float *planes, int64_t row, int64_t n_rows,
                   const ipu__column_run *runs, int n_runs, float *to, int64_t to_ld);
    void (*scatter)(const ipu__columns *columns, float *planes, int64_t row, int64_t n_rows,
                    const ipu__column_run *runs, int n_runs, const float *from, int64_t from_ld);
    /* to[i][j] = from[i][j] */
    void (*copy_rows)(const float *from, int64_t from_ld, float *to, int64_t to_ld, int64_t n_rows,
                      int64_t n_columns);
    /* to[i][j] = from[i][j * stride] */
    void (*pick_rows)(const float *from, int64_t from_ld, int64_t stride, float *to, int64_t to_ld,
                      int64_t n_rows, int64_t n_columns);
    /* y[i][j] = bias + sum over t of w[t] * x[tap[t] + i * pitch + j]; rows of y are contiguous. */
    void (*sum_taps)(const float *x, int64_t pitch, const int64_t *tap, const float *w, int64_t n_taps,
                     float bias, float *y, int64_t n_rows, int64_t n_columns);
    /* x[tap[t] + j] += w[t] * y[j] */
    void (*spread_taps)(float *x, const int64_t *tap, const float *w, int64_t n_taps, const float *y,
                        int64_t n);
    /* lane[t], in 16 pieces, += the sum of x[tap[t] + i * pitch + j] * y[i][j]; rows of y as above. */
    void (*dots)(const float *x, int64_t pitch, const int64_t *tap, int64_t n_taps, const float *y,
                 int64_t n_rows, int64_t n_columns, float *lane);
} ipu__columns_loops;

IPU__SIMD_DECLARE(extern const ipu__columns_loops, ipu__columns_loops_at)

/* to[i][j] = row `row + i` of column `column + j`. Columns run over the outputs of images that are
 * `image_step` floats apart, the first of which begins at `planes`. */
void ipu__columns_gather(const ipu__columns *columns, const float *planes, int64_t image_step, int64_t row,
                         int64_t n_rows, int64_t column, int64_t n_columns, float *to, int64_t to_ld);
/* The inverse: planes += from. */
void ipu__columns_scatter(const ipu__columns *columns, float *planes, int64_t image_step, int64_t row,
                          int64_t n_rows, int64_t column, int64_t n_columns, const float *from,
                          int64_t from_ld);

/* Converts columns [begin, end) of one channel's outputs, in the same order and in `type`, of `n_rows`
 * channels that are `channel_step` elements apart, to floats to[i][j]; and back, with images `image_step`
 * elements apart. */
void ipu__outputs_gather(ipu_type type, const void *y, int64_t channel_step, int64_t image_step,
                         int64_t n_outputs, int64_t n_rows, int64_t column, int64_t n_columns, float *to,
                         int64_t to_ld);
void ipu__outputs_scatter(ipu_type type, void *y, int64_t channel_step, int64_t image_step, int64_t n_outputs,
                          int64_t n_rows, int64_t column, int64_t n_columns, const float *from,
                          int64_t from_ld);

#endif
