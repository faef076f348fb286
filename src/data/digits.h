/* Synthetic handwritten digits, at any size. Public half: ipu/dataset.h. */
#ifndef IPU_DATA_DIGITS_H
#define IPU_DATA_DIGITS_H

#include <stdint.h>

/* Draws sample `i` of `seed`, light on dark, into `size` x `size` floats from 0 to 1, in a centred box of
 * 20/28 of the size. Returns the digit. The result is the same on all machines. */
int ipu__digits_render(uint32_t seed, int64_t i, int size, float *canvas);

#endif
