/* Kernels of 5 x 5 on sixteen images in lanes (lanes.h) with fewer multiplications: the Toom-Cook algorithm
 * along rows of a kernel, direct sums along columns.
 *
 * Directly, three outputs of a row of a kernel take 15 products. They are also a product of polynomials,
 * which is determined by its values at 7 points, each taking one product: x is transformed to values at
 * points, 7 columns for 3 of y; so are rows of weights, 5 to 7; the products are transformed back to 3
 * outputs. At each point, what remains is a convolution along columns. Gradients use the transposed
 * transforms: d_y goes the way of y backwards, d_x that of x, d_w that of w.
 *
 * Points are +-1/2, +-1, +-2 and infinity: factors of images are exact in float, and 1.1 to 1.7 bits are lost
 * (docs/performance.md).
 */
#ifndef IPU_OP_CONV_CPU_LANES_TOOM_H
#define IPU_OP_CONV_CPU_LANES_TOOM_H

#include "engine/cpu/impl.h"
#include "op/conv/cpu/lanes.h"

enum {
    IPU__TOOM_POINTS = 7,
    IPU__TOOM_WIDE   = 3,
    IPU__TOOM_KERNEL = 5,
    IPU__TOOM_FLOATS = 96 << 10 /* of images at points, to stay in the second-level cache */
};

/* Whether this is faster than the loops of lanes.h for such a convolution. */
bool ipu__toom_pays(const ipu__conv *c);

/* Floats of scratch per part, starting with weights at points. */
int64_t ipu__toom_scratch(const ipu__conv *c, const ipu__lanes_shape *s);
int64_t ipu__toom_weights(const ipu__conv *c);

/* Tiles of d_y's columns that the weight gradient processes at a time. */
static inline int64_t ipu__toom_tiles(const ipu__lanes_shape *s)
{
    const int64_t one = (s->in * s->x_rows + s->out * s->y_rows) * IPU__TOOM_POINTS * IPU__LAYOUT_WIDTH;
    const int64_t n = IPU__TOOM_FLOATS / one, all = (s->y_columns + IPU__TOOM_WIDE - 1) / IPU__TOOM_WIDE;
    return n < 1 ? 1 : n < all ? n : all;
}

/* One group of sixteen images; `s` is that of whole images. `rows` are numbered across channels: those of y,
 * or of x for its gradient. `w` are weights at points, [IPU__TOOM_POINTS][out * in * IPU__TOOM_KERNEL]. NULL
 * if a level has no instructions for it (lanes_toom_simd.c). */
typedef struct ipu__toom_loops {
    /* Transforms rows [begin, end) of `n` kernel rows to weights at points, [IPU__TOOM_POINTS][n], or
     * back. */
    void (*weights)(const float *w, int64_t n, ipu_interval which, float *at_points);
    void (*weights_back)(const float *at_points, int64_t n, ipu_interval which, float *w);
    void (*forward)(const ipu__lanes_shape *s, const float *x, const float *w, const float *bias,
                    ipu_interval rows, float *y, float *scratch);
    void (*input_grad)(const ipu__lanes_shape *s, const float *dy, const float *w, ipu_interval rows,
                       float *dx, float *scratch);
    /* Adds to weights at points. */
    void (*weight_grad)(const ipu__lanes_shape *s, const float *x, const float *dy, ipu_interval rows,
                        float *w, float *scratch);
} ipu__toom_loops;

IPU__SIMD_DECLARE(extern const ipu__toom_loops, ipu__toom_loops_at)

#endif
