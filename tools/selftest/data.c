/* Words from a counter, so that every part of a test can compute what any of them should be. */
#include "selftest/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* splitmix64 (Steele, Lea and Flood, 2014), with its state derived from both numbers. */
uint64_t selftest_random(uint64_t seed, uint64_t i)
{
    uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z          = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void selftest_fill(uint32_t *words, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) words[i] = (uint32_t)selftest_random(seed, i);
}

int64_t selftest_compare(const uint32_t *expected, const uint32_t *found, size_t n, selftest_errors *errors)
{
    int64_t wrong = 0;
    if (!memcmp(expected, found, n * sizeof *found)) return 0;
    for (size_t i = 0; i < n; i++) {
        if (expected[i] == found[i]) continue;
        wrong++;
        if (errors->any) continue;
        errors->any      = true;
        errors->at       = i;
        errors->expected = expected[i];
        errors->found    = found[i];
    }
    errors->wrong += wrong;
    return wrong;
}

bool selftest_spoil(uint32_t *words, size_t n)
{
    static enum { NOT_LOOKED, WANTED, NO_MORE } state;
    const char *wish = state == NOT_LOOKED ? getenv("IPU_SELFTEST_FAULT") : NULL;
    if (state == NOT_LOOKED) state = wish && !strcmp(wish, "1") ? WANTED : NO_MORE;
    if (state == NO_MORE || n == 0) return false;
    words[n / 2] ^= UINT32_C(1) << 16;
    state = NO_MORE;
    return true;
}

double selftest_gbps(double bytes, double seconds) { return seconds > 0 ? bytes * 8 / seconds / 1e9 : 0; }

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double selftest_quantile(double *values, size_t n, double share)
{
    if (n == 0) return NAN;
    qsort(values, n, sizeof *values, compare_doubles);
    double rank = ceil(share * (double)n);
    size_t i    = rank < 1 ? 0 : (size_t)rank - 1;
    return values[i < n ? i : n - 1];
}
