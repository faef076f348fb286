/* Data that a self-test sends through a device and knows again, and arithmetic on what was measured. */
#ifndef TOOLS_SELFTEST_DATA_H
#define TOOLS_SELFTEST_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number that depends on every bit of `seed` and `i`: the same for the same two, for others hardly ever. */
uint64_t selftest_random(uint64_t seed, uint64_t i);

/* Words 0, 1, 2 ... of `seed`. */
void selftest_fill(uint32_t *words, size_t n, uint64_t seed);

typedef struct selftest_errors {
    int64_t  wrong; /* words */
    bool     any;   /* the others say which is the first */
    size_t   at;
    uint32_t expected, found;
} selftest_errors;

/* Adds the words that are not as expected; keeps the first ever. Returns how many there are here. */
int64_t selftest_compare(const uint32_t *expected, const uint32_t *found, size_t n, selftest_errors *errors);

/* With IPU_SELFTEST_FAULT=1 in the environment, flips one bit in the middle of what is given first: everyone
 * may see that the tests fail. Returns whether it did. */
bool selftest_spoil(uint32_t *words, size_t n);

/* Gigabits (1e9) per second; 0 for no time. */
double selftest_gbps(double bytes, double seconds);

/* The value that `share` (0 to 1) of them do not exceed. Sorts them. */
double selftest_quantile(double *values, size_t n, double share);

#endif
