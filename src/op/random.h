/* Random bits by the block. */
#ifndef IPU_OP_RANDOM_H
#define IPU_OP_RANDOM_H

#include "base/simd.h"
#include "op/op.h"

/* What all elements of a call share: Philox's key, and the last two words of its counter. */
typedef struct ipu__random {
    uint32_t key[2]; /* seed, number of the op */
    uint32_t step, replica;
} ipu__random;

enum { IPU__RANDOM_BLOCK = 1024 }; /* words made at once: a multiple of 4 */

typedef struct ipu__random_loops {
    /* Words first .. first + IPU__RANDOM_BLOCK; first is a multiple of 4. Word i is word i % 4 of what Philox makes
     * of counter {i / 4 low, i / 4 high, step, replica}. */
    void (*bits)(const ipu__random *r, int64_t first, uint32_t *out);
    /* y = word < limit ? 0 : x * scale. */
    void (*drop)(const uint32_t *words, uint32_t limit, float scale, const float *x, float *y, int64_t n);
    /* out = low + width * (word >> 8) / 2^24 */
    void (*uniform)(const uint32_t *words, double low, double width, float *out, int64_t n);
} ipu__random_loops;
IPU__SIMD_DECLARE(extern const ipu__random_loops, ipu__random_loops_of)

/* Word i alone. */
uint32_t ipu__random_word(const ipu__random *r, int64_t i);

/* Of a call whose operands `seed` and the next are the seed and the replica, with attribute "key". */
ipu_status  ipu__random_check(const ipu_kernel_call *call, int seed);
ipu__random ipu__random_get(const ipu_kernel_call *call, void *const *operand, int seed);

#endif
