/* Digits as people write them: pen courses, for digits_draw.c to vary and draw. */
#ifndef IPU_DATA_STROKES_H
#define IPU_DATA_STROKES_H

#include <stdint.h>

/* In hundredths of a box of about 100 x 100, x to the right and y down. */
typedef struct ipu__pen {
    int8_t x, y;
} ipu__pen;

/* Between points: a sharp turn at the previous point; the pen is lifted; the shape ends. */
enum { IPU__PEN_SIGN = -128, IPU__PEN_TURN = 1, IPU__PEN_UP, IPU__PEN_END };

typedef struct ipu__shape {
    int             digit;
    float           weight;    /* frequency among the shapes of its digit */
    const ipu__pen *from, *to; /* the same points at both ends of a range of forms; `to` NULL: one form */
} ipu__shape;

extern const ipu__shape ipu__shapes[];
extern const int        ipu__n_shapes;

#endif
