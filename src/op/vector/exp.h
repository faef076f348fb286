/* e^x in float, in arithmetic that compilers turn into vector code: the same bits at every level. */
#ifndef IPU_OP_VECTOR_EXP_H
#define IPU_OP_VECTOR_EXP_H

#include <stdint.h>
#include <string.h>

/* For |x| <= 87.3, to 2 ulp: Cody and Waite's reduction, the series up to x^7 / 7!. */
static inline __attribute__((always_inline)) float ipu__exp_within(float x)
{
    const float shift = 0x1.8p23f;
    float       t = x * 0x1.715476p0f + shift, n = t - shift;
    float       r = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;
    float       p = 1.f / 5040;
    p             = p * r + 1.f / 720;
    p             = p * r + 1.f / 120;
    p             = p * r + 1.f / 24;
    p             = p * r + 1.f / 6;
    p             = p * r + 0.5f;
    p             = p * r * r + r + 1;
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) + (127u << 23); /* the low bits of t are n: 2^n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* For x <= 88. Below e^-87.3, near the smallest normal number, it is 0. */
static inline __attribute__((always_inline)) float ipu__exp_below(float x)
{
    const float least = -87.3f;
    float       y     = ipu__exp_within(x < least ? least : x); /* NaN stays NaN */
    return x < least ? 0 : y;
}

#endif
