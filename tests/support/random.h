/* Random numbers for property tests: the same seed gives the same test on every machine.
 *
 * IPU_TEST_SEED and IPU_TEST_COUNT in the environment override the seed and the number of trials.
 */
#ifndef IPU_TESTS_RANDOM_H
#define IPU_TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct test_random {
    uint64_t state;
} test_random;

/* splitmix64: any seed will do, also 0. */
static inline uint64_t random_bits(test_random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z          = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z          = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* begin <= result <= end */
static inline int64_t random_in(test_random *r, int64_t begin, int64_t end)
{
    return begin + (int64_t)(random_bits(r) % (uint64_t)(end - begin + 1));
}

static inline bool random_chance(test_random *r, int percent) { return random_in(r, 0, 99) < percent; }

static inline void random_shuffle(test_random *r, int *values, int n)
{
    for (int i = n - 1; i > 0; i--) {
        int j     = (int)random_in(r, 0, i);
        int keep  = values[i];
        values[i] = values[j];
        values[j] = keep;
    }
}

static inline uint64_t test_number(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static inline uint64_t test_seed(uint64_t otherwise) { return test_number("IPU_TEST_SEED", otherwise); }

static inline int test_count(int otherwise)
{
    return (int)test_number("IPU_TEST_COUNT", (uint64_t)otherwise);
}

#endif
