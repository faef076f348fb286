/* Random bits by element: lane (i / 256) % 4 of Philox's output for counter (i / 1024) * 256 + i % 256.
 *
 * So a block of 1024 elements is 256 counters next to each other, all of lane 0 first: no shuffling. The key is
 * {seed, step}; the upper half of the counter is {key of the op, replica}.
 */
#ifndef IPU_OP_RANDOM_H
#define IPU_OP_RANDOM_H

#include "base/simd.h"
#include "op/op.h"

enum { IPU__RANDOM_COUNTERS = 256, IPU__RANDOM_BLOCK = 4 * IPU__RANDOM_COUNTERS };

typedef struct ipu__random {
    uint32_t seed[2], op, replica;
} ipu__random;

/* `seed` and `replica` are operands (replica may be absent); attribute "key". */
ipu__random ipu__random_get(const ipu_kernel_call *call, void *const *operand, int seed, int replica);
ipu_status  ipu__random_check(const ipu_kernel_call *call, int seed, int replica);

/* Bits of element `i`, one at a time. */
uint32_t ipu__random_bits(const ipu__random *r, int64_t i);

/* Elements of block `block`, up to the n-th (1 <= n <= 1024): out[l * 256 + c] is lane l of counter c. */
typedef struct ipu__random_loops {
    void (*bits)(const ipu__random *r, int64_t block, int64_t n, uint32_t *out);
    /* to = low + bits * step, n floats. */
    void (*uniform)(const uint32_t *bits, float low, float step, float *to, int64_t n);
    /* to = bits >> 8 < limit ? 0 : x * scale. */
    void (*drop)(const uint32_t *bits, uint32_t limit, float scale, const float *x, float *to, int64_t n);
} ipu__random_loops;
IPU__SIMD_DECLARE(extern const ipu__random_loops, ipu__random_loops_at)

/* 24 bits of an element as a number from 0 up to 1. */
static inline double ipu__random_unit(uint32_t bits) { return (double)(bits >> 8) * 0x1p-24; }

/* The least whole number k for which k / 2^24 >= p: bits >> 8 < k has probability p. */
uint32_t ipu__random_limit(double p);

#define IPU__RANDOM_KEY                                                       \
    {                                                                         \
        .name = "key", .kind = IPU_ATTRIBUTE_INT,                             \
        .meaning = "number that tells this op from others with the same seed" \
    }

#endif
