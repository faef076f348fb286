/* Converts rows of sixteen images to lanes (IPU__LAYOUT_LANES) and back. Channels of one image to blocks
 * (IPU__LAYOUT_BLOCKED) work the same way: rows are then the planes of sixteen channels. */
#ifndef IPU_OP_VECTOR_LANES_H
#define IPU_OP_VECTOR_LANES_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

enum { IPU__LANES = IPU__LAYOUT_WIDTH };

typedef struct ipu__lane_turns {
    /* `n` floats of each of sixteen rows, which are `step` apart: element i of row l to and from lanes[i * 16 + l]. */
    void (*turn)(const float *x, int64_t step, int64_t n, float *lanes);
    void (*turn_back)(const float *lanes, int64_t n, float *x, int64_t step);
} ipu__lane_turns;

IPU__SIMD_DECLARE(extern const ipu__lane_turns, ipu__lane_turns_at)

/* Parts of data in lanes are stretches of memory, so that what one op of a program wrote is read by the next
 * one in the same thread: rows of [n_groups][n_channels][n_rows][...][16], numbered consecutively. */
typedef struct ipu__lanes_piece {
    int64_t      group;
    ipu_interval channel, row; /* if several channels, whole ones */
} ipu__lanes_piece;

/* Removes the first piece from `left`; returns false if nothing is left. */
static inline bool ipu__lanes_next(ipu_interval *left, int64_t n_channels, int64_t n_rows,
                                   ipu__lanes_piece *out)
{
    int64_t at = left->begin, n = left->end - at;
    if (n <= 0) return false;
    int64_t c = at / n_rows % n_channels, row = at % n_rows, whole = row == 0 ? n / n_rows : 0;
    if (whole > n_channels - c) whole = n_channels - c;
    if (n > n_rows - row) n = n_rows - row;
    out->group   = at / n_rows / n_channels;
    out->channel = (ipu_interval){c, c + (whole > 0 ? whole : 1)};
    out->row     = (ipu_interval){row, whole > 0 ? n_rows : row + n};
    left->begin += whole > 0 ? whole * n_rows : n;
    return true;
}

#endif
