/* Philox 4x32-10 for many counters side by side, and loops over its words. base/philox.c is the reference. */
#include "op/random/random.h"

enum { LANES = 64, GROUPS = IPU__RANDOM_BLOCK / 4 };

typedef struct lanes {
    uint32_t c[4][LANES];
} lanes;

static void round_of(lanes *s, uint32_t k0, uint32_t k1)
{
    for (int l = 0; l < LANES; l++) {
        uint64_t a = (uint64_t)0xD2511F53u * s->c[0][l], b = (uint64_t)0xCD9E8D57u * s->c[2][l];
        uint32_t c1 = s->c[1][l], c3 = s->c[3][l];
        s->c[0][l] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        s->c[1][l] = (uint32_t)b;
        s->c[2][l] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        s->c[3][l] = (uint32_t)a;
    }
}

static void bits(const ipu__random *r, int64_t first, uint32_t *out)
{
    for (int64_t g = 0; g < GROUPS; g += LANES) {
        lanes    s;
        uint32_t k0 = r->key[0], k1 = r->key[1];
        for (int l = 0; l < LANES; l++) {
            uint64_t counter = (uint64_t)(first / 4 + g + l);
            s.c[0][l]        = (uint32_t)counter;
            s.c[1][l]        = (uint32_t)(counter >> 32);
            s.c[2][l]        = r->step;
            s.c[3][l]        = r->replica;
        }
        for (int i = 0; i < 10; i++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) round_of(&s, k0, k1);
        for (int l = 0; l < LANES; l++)
            for (int w = 0; w < 4; w++) out[4 * (g + l) + w] = s.c[w][l];
    }
}

static void drop(const uint32_t *words, uint32_t limit, float scale, const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (words[i] >> 8) < limit ? 0 : x[i] * scale;
}

static void uniform(const uint32_t *words, double low, double width, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)(low + width * ((double)(int32_t)(words[i] >> 8) * 0x1p-24));
}

static void to_half(const uint32_t *words, const float *x, ipu_half *out, int64_t n)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        uint32_t magnitude = bits & 0x7fffffff;
        most               = magnitude > most ? magnitude : most;
        out[i].bits        = ipu__random_half_bits(bits, words[i]);
    }
    for (int64_t i = 0; most >= IPU__HALF_MOST && i < n; i++) out[i] = ipu__random_half(x[i], words[i]);
}

const ipu__random_loops IPU__SIMD(ipu__random_loops_of) = {bits, drop, uniform, to_half};
