/* Test data that is recognised after passing through a device, and arithmetic on measurements. */
#ifndef TOOLS_SELFTEST_DATA_H
#define TOOLS_SELFTEST_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pseudo-random number that depends on every bit of `seed` and `i`; different pairs hardly ever share
 * one. */
uint64_t selftest_random(uint64_t seed, uint64_t i);

/* Words 0, 1, 2, ... of `seed`. */
void selftest_fill(uint32_t *words, size_t n, uint64_t seed);

typedef struct selftest_errors {
    int64_t  wrong; /* words */
    bool     any;   /* set: the rest describes the first wrong word */
    size_t   at;
    uint32_t expected, found;
} selftest_errors;

/* Counts words that differ, and records the first ever. Returns the count of this call. */
int64_t selftest_compare(const uint32_t *expected, const uint32_t *found, size_t n, selftest_errors *errors);

/* With IPU_SELFTEST_FAULT=1 in the environment, flips one bit in the middle of the first data it is given, to
 * show that the tests can fail. Returns whether it did. */
bool selftest_spoil(uint32_t *words, size_t n);

/* Gigabits (1e9) per second; 0 if no time passed. */
double selftest_gbps(double bytes, double seconds);

/* The value that a `share` (0 to 1) of them do not exceed. Sorts them. */
double selftest_quantile(double *values, size_t n, double share);

#endif
