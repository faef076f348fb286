/* From points to outputs, four by four, and what follows: for a file that defines POINTS, the number of
 * points along a dimension, point_of, the position of one, and output_1d, the transform. */
#ifndef IPU_OP_CONV_CPU_WINOGRAD_OUT_H
#define IPU_OP_CONV_CPU_WINOGRAD_OUT_H

#include "op/conv/cpu/winograd.h"
#include "op/conv/cpu/winograd_vec.h"

INLINE void tile_out(const ipu__wino_row *r, const ipu__wino_end *end, const float *from, float *to,
                     const float *adds, const int64_t n_rows, const int64_t n_columns)
{
    vec z[POINTS][4];
    UNROLLED for (int k = 0; k < POINTS; k++)
    {
        vec m[POINTS];
        UNROLLED for (int i = 0; i < POINTS; i++) m[i] = load(from + point_of(i, k) * r->point_step);
        output_1d(m, z[k]);
    }
    vec scale = end->scale ? load(end->scale) : zero(), shift = end->shift ? load(end->shift) : zero();
    UNROLLED for (int i = 0; i < 4; i++)
    {
        vec row[POINTS], y[4];
        if (i >= n_rows) break;
        UNROLLED for (int k = 0; k < POINTS; k++) row[k] = z[k][i];
        output_1d(row, y);
        int64_t at = i * r->n_columns * WIDTH;
        UNROLLED for (int k = 0; k < 4; k++)
        {
            if (k >= n_columns) break;
            vec v = end->scale ? times(y[k], scale, shift) : add(y[k], shift);
            if (adds) v = add(v, load(adds + at + k * WIDTH));
            if (end->relu) v = relu(v);
            store(to + at + k * WIDTH, v);
        }
    }
}

static void output(const ipu__wino_row *r, const ipu__wino_end *end, const float *points, float *y)
{
    int64_t n_rows = r->n_rows < 4 ? r->n_rows : 4;
    for (int64_t tile = 0; tile < r->n_tiles; tile++) {
        const float *from      = points + tile * r->tile_step;
        const float *adds      = end->add ? end->add + tile * 4 * WIDTH : NULL;
        float       *to        = y + tile * 4 * WIDTH;
        int64_t      n_columns = r->n_columns - tile * 4;
        if (n_rows == 4 && n_columns >= 4)
            tile_out(r, end, from, to, adds, 4, 4);
        else
            tile_out(r, end, from, to, adds, n_rows, n_columns);
    }
}

#endif
