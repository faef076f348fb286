/* Blocks of random bits. */
#ifndef IPU_OP_RANDOM_RANDOM_H
#define IPU_OP_RANDOM_RANDOM_H

#include <string.h>

#include "base/simd.h"
#include "op/op.h"

/* Shared by all elements of a call: Philox's key, and the last two words of its counter. */
typedef struct ipu__random {
    uint32_t key[2]; /* seed, key of the op */
    uint32_t step, replica;
} ipu__random;

enum { IPU__RANDOM_BLOCK = 1024 }; /* words generated at a time: a multiple of 4 */

typedef struct ipu__random_loops {
    /* Words first .. first + IPU__RANDOM_BLOCK; first is a multiple of 4. Word i is word i % 4 of Philox's
     * output for counter {i / 4 low, i / 4 high, step, replica}. */
    void (*bits)(const ipu__random *r, int64_t first, uint32_t *out);
    /* y = word < limit ? 0 : x * scale. */
    void (*drop)(const uint32_t *words, uint32_t limit, float scale, const float *x, float *y, int64_t n);
    /* out = low + width * (word >> 8) / 2^24 */
    void (*uniform)(const uint32_t *words, double low, double width, float *out, int64_t n);
    /* out = ipu__random_half(x, word) */
    void (*to_half)(const uint32_t *words, const float *x, ipu_half *out, int64_t n);
} ipu__random_loops;
IPU__SIMD_DECLARE(extern const ipu__random_loops, ipu__random_loops_of)

enum { IPU__HALF_TINY = 0x38800000, IPU__HALF_MOST = 0x477fe000 }; /* bits of 2^-14 and 65504, floats */

/* The half next to the float with these bits in the direction of 0, or the one after it away from 0, with a
 * probability given by the distance. The float is under 65504 in magnitude. 13 bits of the significand are
 * cut off, and more under 2^-14, where halves are 2^-24 apart. */
static inline uint16_t ipu__random_half_bits(uint32_t bits, uint32_t word)
{
    uint32_t magnitude = bits & 0x7fffffff, exponent = magnitude >> 23;
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    uint32_t cut         = exponent < 112 ? 126 - exponent : 14; /* bits, 14 to 126 */
    uint32_t whole       = cut < 32 ? significand >> cut : 0;
    uint32_t rest        = cut < 32 ? significand << (32 - cut) : significand >> (cut < 63 ? cut - 32 : 31);
    uint32_t tiny        = whole + (rest > word);
    uint32_t normal      = ((magnitude + (word >> 19)) >> 13) - (112 << 10);
    return (uint16_t)((bits >> 16 & 0x8000) | (magnitude < IPU__HALF_TINY ? tiny : normal));
}

/* Rounds up or down at random, so that the mean is the value; infinities, NaN and magnitudes of at least
 * 65504 are converted as usual. */
static inline ipu_half ipu__random_half(float value, uint32_t word)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) >= IPU__HALF_MOST) return ipu_half_from_float(value);
    return (ipu_half){ipu__random_half_bits(bits, word)};
}

/* A single word i. */
uint32_t ipu__random_word(const ipu__random *r, int64_t i);

/* For a call whose operands `seed` and the next are the seed and the replica, with attribute "key". */
ipu_status  ipu__random_check(const ipu__kernel_call *call, int seed);
ipu__random ipu__random_get(const ipu__kernel_call *call, void *const *operand, int seed);

#endif
