/* Functions of float, computed in float without branches, tables or calls, so that compilers vectorise them.
 *
 * For functions that networks spend time in; the others are in double (vector_math.h). No fma: all machines
 * give the same bits. Polynomials are sums of pairs: with latencies of three cycles each for multiply and
 * add, Horner's scheme would be twice as slow.
 */
#ifndef IPU_OP_VECTOR_FLOAT_MATH_H
#define IPU_OP_VECTOR_FLOAT_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define IPU__F_INLINE static inline __attribute__((always_inline))

/* Beyond it the normal distribution underflows in float. */
#define IPU__F_NORMAL_END 13.1f

/* e^(-z^2 / 2), and the factor that turns it into the normal distribution function at -z. */
typedef struct ipu__f_normal {
    float density, tail;
} ipu__f_normal;

/* 0 <= z <= IPU__F_NORMAL_END. The square is kept exact in two parts: rounding it would cost 50 ulp of the
 * result. Cody and Waite's reduction, a polynomial at Chebyshev's nodes: 2^-24.4. */
IPU__F_INLINE float ipu__f_normal_exp(float z)
{
    uint32_t bits;
    memcpy(&bits, &z, sizeof bits);
    bits &= 0xfffff000u;
    float head;
    memcpy(&head, &bits, sizeof head);
    const float shift = 0x1.8p23f;
    float       y = head * head, rest = (z - head) * (z + head);
    float       t = y * -0x1.715476p-1f + shift, n = t - shift;
    float       r = -0.5f * (((y + n * 0x1.62ep0f) + n * 0x1.0bfbe8p-14f) + rest), s = r * r;
    float       a = 0.5f + r * 0x1.5554b8p-3f, b = 0x1.555508p-5f + r * 0x1.122e6ep-7f;
    float       p = (a + s * (b + s * 0x1.6d3402p-10f)) * s + r + 1;
    memcpy(&bits, &t, sizeof bits);
    bits = (bits << 23) + (127u << 23); /* the low bits of t are n: 2^n */
    float power;
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

/* tail: u = 1 / (z + 2.8) times a polynomial of (z - 2.8) / (z + 2.8) = 1 - 5.6 u, at Chebyshev's nodes: 2^-23.9. */
IPU__F_INLINE ipu__f_normal ipu__f_normal_of(float z)
{
    float u = 1 / (z + 2.8f), t = 1 - 5.6f * u, s = t * t, f = s * s;
    float a = 0x1.713cb8p-1f - t * 0x1.ed568ap-2f, b = 0x1.896f6cp-3f - t * 0x1.6e9ec0p-6f;
    float c = 0x1.0aef30p-8f * t - 0x1.013e6ep-6f, d = 0x1.231950p-9f - t * 0x1.d5a954p-12f;
    float p = (a + s * b) + f * ((c + s * d) - f * 0x1.5006b4p-12f);
    return (ipu__f_normal){ipu__f_normal_exp(z), u * p};
}

/* x times the normal distribution function at x: max(x, 0) minus |x| times the function at -|x|. To 8 ulp, or
 * 3e-38. */
IPU__F_INLINE float ipu__f_gelu(float x)
{
    float         a = fabsf(x), z = a > IPU__F_NORMAL_END ? IPU__F_NORMAL_END : a; /* NaN stays NaN */
    ipu__f_normal n = ipu__f_normal_of(z);
    return (x > 0 ? x : 0) - z * n.tail * n.density;
}

/* Its derivative: the normal distribution function plus x times its density. To 3e-7. */
IPU__F_INLINE float ipu__f_gelu_slope(float x)
{
    float         a = fabsf(x), z = a > IPU__F_NORMAL_END ? IPU__F_NORMAL_END : a;
    ipu__f_normal n    = ipu__f_normal_of(z);
    float         more = n.density * (z * 0x1.988454p-2f - n.tail);
    return x < 0 ? -more : 1 + more;
}

#endif
