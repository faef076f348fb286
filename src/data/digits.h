/* Digits drawn as by hand, at any size. Public half: ipu/dataset.h. */
#ifndef IPU_DATA_DIGITS_H
#define IPU_DATA_DIGITS_H

#include <stdint.h>

/* Draws sample `i` of `seed`, light on dark, into `size` x `size` floats from 0 to 1: in its box of 20/28 of
 * the size, in the middle. Returns the digit. All machines draw the same. */
int ipu__digits_render(uint32_t seed, int64_t i, int size, float *canvas);

#endif
