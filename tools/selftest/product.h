/* Matrices whose product can be checked quickly and to the last bit.
 *
 * Elements are -1, 0 and 1, so that every element of a product of matrices of `side` is a whole number up to
 * `side`, which half holds exactly up to 2048 and float up to 2^24, whatever the order of the sums. */
#ifndef TOOLS_SELFTEST_PRODUCT_H
#define TOOLS_SELFTEST_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

void product_fill(float *x, size_t side, uint64_t seed);

/* Rows of c that are not those of a b. Each is compared by c x = a (b x), for numbers x at random of which
 * none is 0 (Freivalds): a wrong element is always seen, and several in a row unless they cancel each other.
 * Below 0: out of memory. */
int64_t product_wrong_rows(const float *a, const float *b, const float *c, size_t side);

#endif
