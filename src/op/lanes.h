/* Rows of sixteen images to lanes (IPU_LAYOUT_LANES) and back. Channels of one image to blocks (IPU_LAYOUT_BLOCKED) are
 * the same: rows are then the planes of sixteen channels. */
#ifndef IPU_OP_LANES_H
#define IPU_OP_LANES_H

#include "base/simd.h"
#include "graph/kernel.h"

enum { IPU__LANES = IPU__LAYOUT_WIDTH };

typedef struct ipu__lane_turns {
    /* `n` floats of each of sixteen rows, which are `step` apart: element i of row l to and from lanes[i * 16 + l]. */
    void (*turn)(const float *x, int64_t step, int64_t n, float *lanes);
    void (*turn_back)(const float *lanes, int64_t n, float *x, int64_t step);
} ipu__lane_turns;

IPU__SIMD_DECLARE(extern const ipu__lane_turns, ipu__lane_turns_at)

#endif
