/* Convolutions with kernels of 3 x 3 by Winograd's F(4x4, 3x3): 36 products for 16 outputs, not 144.
 *
 * * Tiles of 4 x 4 outputs, which read 6 x 6 inputs, are transformed to values at the points 0, +-sqrt(1/2),
 * +-sqrt(2) and infinity in both directions, where a convolution is a product of each pair of channels: 36
 * products of matrices [tiles x channels] [channels x channels]. These points lose one bit of precision
 * compared with direct sums, while the usual 0, +-1, +-2 lose two or three: see docs/performance.md for
 * measurements.
 *
 * * Vectors hold sixteen channels (IPU__LAYOUT_BLOCKED); plain operands are converted a few rows at a time.
 */
#ifndef IPU_OP_CONV_CPU_WINOGRAD_H
#define IPU_OP_CONV_CPU_WINOGRAD_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/conv/conv.h"
#include "op/elementwise/epilogue_affine.h"
#include "op/product/xsmm.h"

enum { IPU__WINO_WIDTH = 16, IPU__WINO_TILE = 4, IPU__WINO_POINTS = 36 };
/* For stride 2: winograd_strided_simd.c. */
enum { IPU__WINO_STRIDED_POINTS = 25, IPU__WINO_SLOTS = 4 };

/* A row of tiles of sixteen channels in a plane [n_rows][n_columns][16]. */
typedef struct ipu__wino_row {
    int64_t n_rows, n_columns;
    int64_t row, column;           /* origin of the first tile; outside of the plane everything is 0 */
    int64_t n_tiles;               /* adjacent */
    int64_t point_step, tile_step; /* of the values at points, in floats */
    int64_t slot_step;             /* strided: between even and odd rows and columns */
} ipu__wino_row;

/* What follows the sums. */
typedef struct ipu__wino_end {
    const float *scale, *shift; /* for the sixteen channels, or NULL */
    const float *add;           /* a plane like that of the result, or NULL */
    bool         relu;
} ipu__wino_end;

/* NULL if a level has no instructions for it (winograd_simd.c). */
typedef struct ipu__wino_loops {
    /* Tiles of 6 x 6, 4 apart, to their points. */
    void (*input)(const ipu__wino_row *r, const float *x, float *points);
    /* Points to tiles of 4 x 4. The plane starts at the tiles: row and column are 0. */
    void (*output)(const ipu__wino_row *r, const ipu__wino_end *end, const float *points, float *y);
    /* Their transposes: tiles of 4 x 4 to points, and points to tiles of 6 x 6, which are added up. */
    void (*gradient)(const ipu__wino_row *r, const float *dy, float *points);
    void (*spread)(const ipu__wino_row *r, const float *points, float *x);
    /* Nine weights of sixteen channels, `tap_step` floats apart, to points; and the transpose, for sums at
     * points. */
    void (*weights)(const float *w, int64_t tap_step, float *points, int64_t point_step);
    void (*weight_grad)(const float *points, int64_t point_step, float *w);
} ipu__wino_loops;

IPU__SIMD_DECLARE(extern const ipu__wino_loops, ipu__wino_loops_at)

/* For conv only. Points are those of rows and columns, of which the last is infinity: there are 4 slots of
 * channels, 2 at infinity in one direction, 1 in both. */
typedef struct ipu__wino_strided_loops {
    /* Tiles of 9 x 9, 8 apart. */
    void (*input)(const ipu__wino_row *r, const float *x, float *points);
    void (*output)(const ipu__wino_row *r, const ipu__wino_end *end, const float *points, float *y);
    void (*weights)(const float *w, float *points, int64_t point_step, int64_t slot_step);
} ipu__wino_strided_loops;

IPU__SIMD_DECLARE(extern const ipu__wino_strided_loops, ipu__wino_strided_loops_at)

static inline int ipu__wino_strided_point(int row, int column) { return row * 5 + column; }
static inline int ipu__wino_strided_halvings(int point) { return (point / 5 == 4) + (point % 5 == 4); }

/* ---- calls and their division into parts: winograd.c ---- */

/* conv, or conv_input_grad as the convolution of d_y that it is; weight gradients as for conv. Spread: an
 * input gradient as the transpose of conv, whose tiles are those of d_y, which are fewer if there is no
 * padding. */
typedef struct ipu__wino_shape {
    ipu__conv_kind kind;
    bool           is_spread;
    bool           is_strided; /* by 2 */
    int64_t        n, in, out, x[2], y[2], pad[2];
    int64_t        tiles[2]; /* of y; spread: of x */
} ipu__wino_shape;

/* Rows of tiles are numbered across all images. Kept: values at points are kept for all of the part's tiles,
 * while weights, or their gradients, are processed `block` channels of y at a time; otherwise the reverse. */
typedef struct ipu__wino_part {
    ipu_interval row, in, out;
    bool         is_kept;
    int64_t      rows_at_once, block; /* channels of y at a time */
    int64_t      depth;               /* channels of x whose weights are transformed at a time */
    ipu__xsmm_fn product[2][2][2];    /* [last rows][last channels][add] */
    ipu__xsmm_fn strided[2][2][3];    /* [last rows][last channels][halvings] */
} ipu__wino_part;

typedef struct ipu__wino {
    ipu__wino_shape s;
    ipu__affine     affine;   /* the epilogue of conv, or */
    ipu__epilogue   epilogue; /* the epilogue if it is not affine */
    ipu__wino_part  parts[];
} ipu__wino;

/* Scratch of a part, in floats; each piece starts at a cache line. Weight gradients have sums in place of
 * weights. */
typedef struct ipu__wino_room {
    int64_t input_step, weights_step, output_step;     /* between points */
    int64_t weights, output, turned, small, affine, n; /* inputs come first */
} ipu__wino_room;

/* Channels at a point, over all slots, and points. */
static inline int64_t ipu__wino_wide(const ipu__wino_shape *s, int64_t in)
{
    return s->is_strided ? in * IPU__WINO_SLOTS : in;
}
/* Distance between tiles: rows of a product that are whole pages apart would all fall into the same cache
 * set. */
static inline int64_t ipu__wino_pitch(const ipu__wino_shape *s, int64_t in)
{
    int64_t wide = ipu__wino_wide(s, in);
    return wide % 1024 == 0 ? wide + IPU__WINO_WIDTH : wide;
}
static inline int64_t ipu__wino_n_points(const ipu__wino_shape *s)
{
    return s->is_strided ? IPU__WINO_STRIDED_POINTS : IPU__WINO_POINTS;
}

ipu__wino_room ipu__wino_make_room(const ipu__wino_shape *s, const ipu__wino_part *p);

/* Implements each of the three ops. */
bool                ipu__conv_winograd_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_winograd_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_winograd_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_winograd_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_winograd_release(void *prepared);
ipu_status          ipu__conv_winograd_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                           void *scratch, int part, int n_parts);

#endif
