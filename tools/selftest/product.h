/* Matrices whose product can be checked quickly and to the last bit.
 *
 * Elements are -1, 0 and 1, so that every element of a product of matrices of `side` is an integer up to
 * `side`, exact in half up to 2048 and in float up to 2^24, whatever the order of summation. */
#ifndef TOOLS_SELFTEST_PRODUCT_H
#define TOOLS_SELFTEST_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

void product_fill(float *x, size_t side, uint64_t seed);

/* The number of rows of c that differ from a b. Each is checked by c x = a (b x), for random numbers x, none
 * of which is 0 (Freivalds): a single wrong element is always found, and several in a row unless they cancel
 * out. Below 0 if out of memory. */
int64_t product_wrong_rows(const float *a, const float *b, const float *c, size_t side);

#endif
