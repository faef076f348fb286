/* Functions of double without branches, tables or calls, so that compilers vectorise them.
 *
 * For values that are or come from floats, with results that are rounded to float: relative errors are under
 * 2^-30, and results beyond the range of float may saturate at some number outside it (exp(1e6) is 1e304).
 * Polynomials interpolate at Chebyshev nodes; their errors are given with them. No fma: all machines give the
 * same bits.
 */
#ifndef IPU_OP_VECTOR_VECTOR_MATH_H
#define IPU_OP_VECTOR_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t ipu__v_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ipu__v_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Adding it leaves the nearest whole number in the low bits, for |x| < 2^51. */
#define IPU__V_SHIFT 0x1.8p52

/* 2^n times (exp(r) - 1), and 2^n. */
typedef struct ipu__v_scaled {
    double part, scale;
} ipu__v_scaled;

/* |r| <= ln 2 / 2: 2^-31.8. `shifted` is n + IPU__V_SHIFT, |n| < 1023. */
static inline ipu__v_scaled ipu__v_exp_parts(double r, double shifted)
{
    double scale = ipu__v_double((ipu__v_bits(shifted) + 1023) << 52);
    double p     = 0x1.a15179fd33d7fp-13;
    p            = p * r + 0x1.6d7543e4cd474p-10;
    p            = p * r + 0x1.1110c63289c47p-7;
    p            = p * r + 0x1.5554accfda591p-5;
    p            = p * r + 0x1.55555567533bdp-3;
    p            = p * r + 0x1.000000287f87bp-1;
    p            = p * r + 1;
    return (ipu__v_scaled){scale * (r * p), scale};
}

static inline double ipu__v_clamp(double x, double most)
{
    double low = x < -most ? -most : x; /* NaN stays NaN */
    return low > most ? most : low;
}

static inline ipu__v_scaled ipu__v_exp_of(double x)
{
    double y       = ipu__v_clamp(x, 700);
    double shifted = y * 0x1.71547652b82fep+0 + IPU__V_SHIFT, n = shifted - IPU__V_SHIFT;
    double r = (y - n * 0x1.62e42fefa2000p-1) - n * 0x1.9ef35793c7673p-41; /* ln 2: 40 bits, the rest */
    return ipu__v_exp_parts(r, shifted);
}

static inline double ipu__v_exp(double x)
{
    ipu__v_scaled e = ipu__v_exp_of(x);
    return e.scale + e.part;
}

static inline double ipu__v_expm1(double x)
{
    ipu__v_scaled e = ipu__v_exp_of(x);
    return e.part + (e.scale - 1);
}

static inline double ipu__v_exp2(double x)
{
    double        y       = ipu__v_clamp(x, 1000);
    double        shifted = y + IPU__V_SHIFT, n = shifted - IPU__V_SHIFT;
    ipu__v_scaled e = ipu__v_exp_parts((y - n) * 0x1.62e42fefa39efp-1, shifted);
    return e.scale + e.part;
}

/* x = 2^n m, sqrt(1/2) <= m < sqrt(2); log(m) = 2 atanh(s), s = (m - 1) / (m + 1): 2^-37.8. */
static inline double ipu__v_log(double x)
{
    const uint64_t half  = UINT64_C(0x3fe6a09e667f3bcd); /* sqrt(1/2) */
    uint64_t       above = ipu__v_bits(x) + (UINT64_C(0x3ff0000000000000) - half);
    double         n     = ipu__v_double(above >> 52 | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023);
    double         m     = ipu__v_double((above & UINT64_C(0xfffffffffffff)) + half);
    double         s = (m - 1) / (m + 1), z = s * s;
    double         p = 0x1.e3aa7f45b8804p-3;
    p                = p * z + 0x1.2432e795eb895p-2;
    p                = p * z + 0x1.999a9bd4003ccp-2;
    p                = p * z + 0x1.555554db60956p-1;
    p                = p * z + 0x1.0000000004991p+1;
    double y         = n * 0x1.62e42fefa39efp-1 + s * p;
    double edge      = x == 0 ? -INFINITY : NAN;
    double inside    = x < INFINITY ? y : x;
    return x > 0 ? inside : edge;
}

static inline double ipu__v_log2(double x) { return ipu__v_log(x) * 1.4426950408889634074; }
static inline double ipu__v_log10(double x) { return ipu__v_log(x) * 0.43429448190325182765; }

/* Adds back what 1 + x loses. */
static inline double ipu__v_log1p(double x)
{
    double u = 1 + x, lost = x - (u - 1);
    return ipu__v_log(u) + (x < INFINITY ? lost : 0);
}

static inline double ipu__v_tanh(double x)
{
    double t = ipu__v_expm1(-2 * fabs(x));
    return copysign(t / (2 + t), x);
}

static inline double ipu__v_sinh(double x)
{
    double t = ipu__v_expm1(fabs(x));
    return copysign(0.5 * (t + t / (t + 1)), x);
}

static inline double ipu__v_cosh(double x)
{
    double e = ipu__v_exp(fabs(x));
    return 0.5 * (e + 1 / e);
}

static inline double ipu__v_asinh(double x)
{
    double a = fabs(x), y = ipu__v_log1p(a + a * (a / (1 + sqrt(a * a + 1))));
    return a < INFINITY ? copysign(y, x) : x;
}

static inline double ipu__v_acosh(double x)
{
    double t = x - 1, y = ipu__v_log1p(t + sqrt(t * (t + 2)));
    return x < 1 ? NAN : y;
}

static inline double ipu__v_atanh(double x)
{
    double a = fabs(x);
    return copysign(0.5 * ipu__v_log1p(2 * a / (1 - a)), x);
}

/* ---- circular ---- */

/* Above it, n times the first part of pi / 2 is no longer exact. */
#define IPU__V_LARGEST_ANGLE 0x1p20

typedef struct ipu__v_angle {
    double   rest; /* |rest| <= pi / 4 */
    uint64_t quarter;
} ipu__v_angle;

static inline ipu__v_angle ipu__v_reduce(double x)
{
    double shifted = x * 0x1.45f306dc9c883p-1 + IPU__V_SHIFT, n = shifted - IPU__V_SHIFT;
    double rest = ((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) - n * 0x1.3198a2e037073p-69;
    return (ipu__v_angle){rest, ipu__v_bits(shifted)};
}

/* sin: 2^-37.6; cos: 2^-33.8. */
static inline double ipu__v_sin_of(double r)
{
    double z = r * r, p = 0x1.6cb705ab009a5p-19;
    p = p * z - 0x1.a00ee6c0c035cp-13;
    p = p * z + 0x1.11110749ae1d9p-7;
    p = p * z - 0x1.55555549458edp-3;
    p = p * z + 0x1.fffffffff679bp-1;
    return r * p;
}

static inline double ipu__v_cos_of(double r)
{
    double z = r * r, p = 0x1.990637e3b0096p-16;
    p = p * z - 0x1.6c078282d43f7p-10;
    p = p * z + 0x1.55553a7cd54b0p-5;
    p = p * z - 0x1.ffffffbdc7bd6p-2;
    return p * z + 0x1.ffffffff976b3p-1;
}

/* `quarter` quarter-turns: bit 0 swaps sine and cosine, bit 1 flips the sign. */
static inline double ipu__v_turned(double r, uint64_t quarter)
{
    double even = ipu__v_sin_of(r), odd = ipu__v_cos_of(r);
    double y = quarter & 1 ? odd : even;
    return ipu__v_double(ipu__v_bits(y) ^ (quarter & 2) << 62);
}

static inline double ipu__v_sin(double x)
{
    ipu__v_angle a = ipu__v_reduce(x);
    return ipu__v_turned(a.rest, a.quarter);
}

static inline double ipu__v_cos(double x)
{
    ipu__v_angle a = ipu__v_reduce(x);
    return ipu__v_turned(a.rest, a.quarter + 1);
}

static inline double ipu__v_tan(double x)
{
    ipu__v_angle a = ipu__v_reduce(x);
    return ipu__v_turned(a.rest, a.quarter) / ipu__v_turned(a.rest, a.quarter + 1);
}

/* |x| <= tan(pi / 8): 2^-35.4. */
static inline double ipu__v_atan_of(double x)
{
    double z = x * x, p = 0x1.819baafa04130p-5;
    p = p * z - 0x1.5a5c869bf9dc9p-4;
    p = p * z + 0x1.c437bac1d59c2p-4;
    p = p * z - 0x1.247ca6022e782p-3;
    p = p * z + 0x1.9998fda4eed01p-3;
    p = p * z - 0x1.55555480eb995p-2;
    p = p * z + 0x1.ffffffffd077bp-1;
    return x * p;
}

static inline double ipu__v_atan(double x)
{
    double a = fabs(x), inverse = 1 / a, t = a > 1 ? inverse : a;
    double turned = (t - 1) / (t + 1), u = t > 0.41421356 ? turned : t;
    double y    = ipu__v_atan_of(u) + (t > 0.41421356 ? 0x1.921fb54442d18p-1 : 0);
    double rest = 0x1.921fb54442d18p+0 - y;
    return copysign(a > 1 ? rest : y, x);
}

/* |x| <= 1/2: 2^-39.9. */
static inline double ipu__v_asin_of(double x)
{
    double z = x * x, p = 0x1.0dfd1bd654455p-5;
    p = p * z + 0x1.f629adc37bfd0p-10;
    p = p * z + 0x1.52d7cc2ee83c1p-6;
    p = p * z + 0x1.66159f4d6f957p-6;
    p = p * z + 0x1.f288c843fcacbp-6;
    p = p * z + 0x1.6db20caadac35p-5;
    p = p * z + 0x1.33334261eafb1p-4;
    p = p * z + 0x1.55555542fd1e4p-3;
    p = p * z + 0x1.0000000000e84p+0;
    return x * p;
}

/* asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)) */
static inline double ipu__v_asin(double x)
{
    double a = fabs(x), root = sqrt((1 - a) * 0.5);
    double y = ipu__v_asin_of(a > 0.5 ? root : a), far = 0x1.921fb54442d18p+0 - 2 * y;
    return copysign(a > 0.5 ? far : y, x);
}

static inline double ipu__v_acos(double x)
{
    double a = fabs(x), root = sqrt((1 - a) * 0.5);
    double y    = ipu__v_asin_of(a > 0.5 ? root : a);
    double near = 0x1.921fb54442d18p+0 - copysign(y, x), far = x > 0 ? 2 * y : 0x1.921fb54442d18p+1 - 2 * y;
    return a > 0.5 ? far : near;
}

/* ---- error function ---- */

/* z >= 0: exp(-z^2) g / (1 + 2 z), g a polynomial of (z - 3) / (z + 3): 2^-33.9 up to 10.5. */
static inline double ipu__v_erfc_of(double z)
{
    double t = (z - 3) / (z + 3), p = 0x1.1d781ecd65935p-15;
    p = p * t + 0x1.0e8123f57354bp-13;
    p = p * t - 0x1.081baee87de80p-13;
    p = p * t - 0x1.9f2c202189fd4p-11;
    p = p * t + 0x1.f03d4797344cfp-10;
    p = p * t + 0x1.4c2467a76c1a7p-9;
    p = p * t - 0x1.857506040cd15p-6;
    p = p * t + 0x1.17c96a56d1a69p-4;
    p = p * t - 0x1.e88b8fededc0fp-4;
    p = p * t + 0x1.09836c7f2cdb5p-3;
    p = p * t - 0x1.85a15a41776f1p-5;
    p = p * t - 0x1.15c084d636d0cp-3;
    p = p * t + 0x1.40c522d7c29f2p+0;
    return ipu__v_exp(-z * z) * p / (1 + 2 * z);
}

static inline double ipu__v_erfc(double x)
{
    double a = fabs(x), y = ipu__v_erfc_of(a < 30 ? a : 30), rest = 2 - y;
    double all = x < 0 ? rest : y;
    return x == x ? all : x;
}

/* |x| < sqrt(1/2): x times a polynomial of x^2, 2^-36.3. */
static inline double ipu__v_erf(double x)
{
    double a = fabs(x), z = x * x, p = 0x1.97eb02f46b9eap-14;
    p          = p * z - 0x1.b8197220b8906p-11;
    p          = p * z + 0x1.56054a68e1eb4p-8;
    p          = p * z - 0x1.b829241337fc7p-6;
    p          = p * z + 0x1.ce2f0dc36a3b5p-4;
    p          = p * z - 0x1.812746889bbf7p-2;
    p          = p * z + 0x1.20dd75041cc9cp+0;
    double far = 1 - ipu__v_erfc_of(a < 30 ? a : 30), y = a < 0.7 ? a * p : far;
    return x == x ? copysign(y, x) : x;
}

/* ---- powers ---- */

/* Whether it is an integer; all numbers beyond 2^52 are. */
static inline int ipu__v_is_whole(double x)
{
    double a = fabs(x), n = (a + 0x1p52) - 0x1p52;
    return a >= 0x1p52 || n == a;
}

static inline double ipu__v_pow(double x, double y)
{
    double a = fabs(x), product = y * ipu__v_log(a);
    double positive = ipu__v_exp(a == 1 || y == 0 ? 0 : product);
    double negative = ipu__v_is_whole(0.5 * y) ? positive : -positive;
    double of_less  = x == 0 ? positive : NAN;
    double below    = ipu__v_is_whole(y) ? negative : of_less;
    double all      = copysign(1, x) < 0 ? below : positive;
    double is_nan   = x != x || y != y ? NAN : all;
    return x == 1 || y == 0 ? 1 : is_nan;
}

#endif
