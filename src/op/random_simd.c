/* Philox 4x32-10 for many counters at once, and what is made of its bits. */
#include "op/random.h"

enum { LANES = 16, ROUNDS = 10 };

/* Constants of Salmon et al. (base/philox.c). */
#define MULTIPLY_0 UINT32_C(0xd2511f53)
#define MULTIPLY_1 UINT32_C(0xcd9e8d57)
#define WEYL_0 UINT32_C(0x9e3779b9)
#define WEYL_1 UINT32_C(0xbb67ae85)

/* Counters first .. first + LANES. */
static void make_lanes(const ipu__random *r, uint64_t first, uint32_t out[4][LANES])
{
    uint32_t a[LANES], b[LANES], c[LANES], d[LANES], key0 = r->seed[0], key1 = r->seed[1];
    for (int i = 0; i < LANES; i++) {
        uint64_t counter = first + (uint64_t)i;
        a[i]             = (uint32_t)counter;
        b[i]             = (uint32_t)(counter >> 32);
        c[i]             = r->op;
        d[i]             = r->replica;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t p = (uint64_t)a[i] * MULTIPLY_0, q = (uint64_t)c[i] * MULTIPLY_1;
            a[i] = (uint32_t)(q >> 32) ^ b[i] ^ key0;
            c[i] = (uint32_t)(p >> 32) ^ d[i] ^ key1;
            b[i] = (uint32_t)q;
            d[i] = (uint32_t)p;
        }
        key0 += WEYL_0;
        key1 += WEYL_1;
    }
    for (int i = 0; i < LANES; i++) {
        out[0][i] = a[i];
        out[1][i] = b[i];
        out[2][i] = c[i];
        out[3][i] = d[i];
    }
}

static void bits(const ipu__random *r, int64_t block, int64_t n, uint32_t *out)
{
    int64_t n_counters = n < IPU__RANDOM_COUNTERS ? n : IPU__RANDOM_COUNTERS;
    for (int64_t i = 0; i < n_counters; i += LANES) {
        uint32_t lanes[4][LANES];
        make_lanes(r, (uint64_t)(block * IPU__RANDOM_COUNTERS + i), lanes);
        for (int l = 0; l < 4; l++)
            for (int k = 0; k < LANES; k++) out[l * IPU__RANDOM_COUNTERS + i + k] = lanes[l][k];
    }
}

static void uniform(const uint32_t *restrict from, float low, float step, float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = low + (float)(int32_t)(from[i] >> 8) * step;
}

static void drop(const uint32_t *restrict from, uint32_t limit, float scale, const float *restrict x,
                 float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (int32_t)(from[i] >> 8) < (int32_t)limit ? 0 : x[i] * scale;
}

const ipu__random_loops IPU__SIMD(ipu__random_loops_at) = {bits, uniform, drop};
