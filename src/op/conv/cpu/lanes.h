/* Convolutions with few channels: sixteen images side by side, one in each lane of a vector.
 *
 * Layouts with channels in lanes waste most lanes if there are 1, 5 or 12 channels. With images in the lanes,
 * a weight is one number for all of them and no shape wastes anything. Images in other layouts than
 * IPU__LAYOUT_LANES are converted before, and outputs back after, which takes a few percent of the time.
 */
#ifndef IPU_OP_CONV_CPU_LANES_H
#define IPU_OP_CONV_CPU_LANES_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/conv/conv.h"

/* The rows of x and y being processed, for all channels: element (c, i, j) of lane l is [(c * plane + i *
 * columns + j) * IPU__LANES + l]. Kernels have strides of 1 and no padding. */
typedef struct ipu__lanes_shape {
    int64_t in, out;
    int64_t x_rows, x_columns, y_rows, y_columns;
    int64_t x_plane, y_plane;  /* vectors from one channel to the next */
    int64_t k_rows, k_columns; /* gradients: 3 or 5 columns */
    bool    relu;              /* forward: apply it to the sum */
} ipu__lanes_shape;

/* NULL if a level has no instructions for it (lanes_simd.c). */
typedef struct ipu__lanes_loops {
    /* All of y, from rows of x that start where those of y do. `bias` may be NULL. */
    void (*forward)(const ipu__lanes_shape *s, const float *x, const float *w, const float *bias, float *y);
    /* Channels [begin, end) of rows [first, first + x_rows) of d_x, the first of which is at `dx` for channel
     * 0, from all of d_y, whose y_rows are those of the image. */
    void (*input_grad)(const ipu__lanes_shape *s, const float *dy, const float *w, int64_t begin, int64_t end,
                       int64_t first, float *dx);
    /* Adds to all weights. */
    void (*weight_grad)(const ipu__lanes_shape *s, const float *x, const float *dy, float *dw);
} ipu__lanes_loops;

IPU__SIMD_DECLARE(extern const ipu__lanes_loops, ipu__lanes_loops_at)

/* Implements each of the three ops, including what lanes_toom.h does of them. */
bool                ipu__conv_lanes_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
bool                ipu__conv_lanes_toom_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_lanes_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_lanes_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_lanes_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_lanes_release(void *prepared);
ipu_interval        ipu__conv_lanes_writes(const ipu__kernel_call *call, int operand, int part, int n_parts);
ipu_status          ipu__conv_lanes_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                        void *scratch, int part, int n_parts);

#endif
