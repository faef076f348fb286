/* Digits as people write them: the courses of the pen, for digits_draw.c to vary and to draw. */
#ifndef IPU_DATA_STROKES_H
#define IPU_DATA_STROKES_H

#include <stdint.h>

/* In hundredths of a box of about 100 x 100, x to the right and y down. */
typedef struct ipu__pen {
    int8_t x, y;
} ipu__pen;

/* Between points: the pen turns sharply at the point before; it is lifted; the shape ends. */
enum { IPU__PEN_SIGN = -128, IPU__PEN_TURN = 1, IPU__PEN_UP, IPU__PEN_END };

typedef struct ipu__shape {
    int             digit;
    float           weight;    /* how often it is written so, among the shapes of its digit */
    const ipu__pen *from, *to; /* the same points at either end of a range of forms; `to` NULL: one form */
} ipu__shape;

extern const ipu__shape ipu__shapes[];
extern const int        ipu__n_shapes;

#endif
