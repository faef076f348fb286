/* Internals of grid_sample: the taps of a position along one axis. */
#ifndef IPU_OP_VISION_GRID_SAMPLE_H
#define IPU_OP_VISION_GRID_SAMPLE_H

#include "ipu/op/vision.h"
#include "op/op.h"

enum { IPU__GRID_TAPS = 4 };

typedef struct ipu__grid {
    ipu_grid_mode    mode;
    ipu_grid_padding padding;
    bool             align_corners;
    int64_t          n, channels, in[2], out; /* in: height, width; out: positions per image */
} ipu__grid;

/* The attributes. Statuses: INVALID. */
ipu_status ipu__grid_read(const ipu__kernel_call *call, ipu__grid *out);

typedef struct ipu__grid_place {
    int     n;
    int64_t index[IPU__GRID_TAPS];                         /* -1: beyond the edge, reads 0 */
    double  weight[IPU__GRID_TAPS], slope[IPU__GRID_TAPS]; /* slope: of the weight, by the grid's number */
} ipu__grid_place;

ipu__grid_place ipu__grid_at(const ipu__grid *g, int axis, double number);

/* grid_sample as other ops: for second derivatives. */
void ipu__grid_sample_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out);

#endif
