/* The words of unary.inc and binary.inc for floating lanes: simple ones for any type of x, the others for
 * double. The file that includes this defines FN(name): the function that computes it. */
#ifndef IPU_OP_ELEMENTWISE_LANE_H
#define IPU_OP_ELEMENTWISE_LANE_H

#include <math.h>
#include <stdint.h>

#include "op/vector/float_math.h"

#define C(value) ((__typeof__(x))(value))
#define NEGATIVE(x) ((x) < 0)
#define NEG(x) (-(x))
#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
#define DIV(x, y) ((x) / (y))
#define SIGN(x) ((__typeof__(x))(((x) > 0) - ((x) < 0)))
#define BY_TYPE(name, x) _Generic((x), float : name##f, double : name)
#define ABS(x) BY_TYPE(fabs, x)(x)
#define SQRT(x) BY_TYPE(sqrt, x)(x)
#define FLOOR(x) BY_TYPE(floor, x)(x)
#define CEIL(x) BY_TYPE(ceil, x)(x)
#define ROUND(x) BY_TYPE(rint, x)(x)
#define TRUNC(x) BY_TYPE(trunc, x)(x)
/* NaN if either is. */
#define MAX(x, y) _Generic((x), float : larger_float, double : larger_double)(x, y)
#define MIN(x, y) _Generic((x), float : smaller_float, double : smaller_double)(x, y)
#define CLIP(x, low, high) _Generic((x), float : clip_float, double : clip_double)(x, low, high)

#define EXP(x) FN(exp)(x)
#define EXP2(x) FN(exp2)(x)
#define EXPM1(x) FN(expm1)(x)
#define LOG(x) FN(log)(x)
#define LOG2(x) FN(log2)(x)
#define LOG10(x) FN(log10)(x)
#define LOG1P(x) FN(log1p)(x)
#define SIN(x) FN(sin)(x)
#define COS(x) FN(cos)(x)
#define TAN(x) FN(tan)(x)
#define ASIN(x) FN(asin)(x)
#define ACOS(x) FN(acos)(x)
#define ATAN(x) FN(atan)(x)
#define SINH(x) FN(sinh)(x)
#define COSH(x) FN(cosh)(x)
#define TANH(x) FN(tanh)(x)
#define ASINH(x) FN(asinh)(x)
#define ACOSH(x) FN(acosh)(x)
#define ATANH(x) FN(atanh)(x)
#define ERF(x) FN(erf)(x)
#define ERFC(x) FN(erfc)(x)
#define GELU(x) _Generic((x), float : ipu__f_gelu, double : gelu_double)(x)
#define GELU_SLOPE(x) _Generic((x), float : ipu__f_gelu_slope, double : gelu_slope_double)(x)
#define POW(x, y) FN(pow)(x, y)
#define ATAN2(x, y) atan2(x, y)
#define FMOD(x, y) fmod(x, y)
#define MOD(x, y) mod_double(x, y)
#define FLOOR_DIV(x, y) floor_div_double(x, y)

#define EXTREME(T)                                                            \
    static inline T larger_##T(T x, T y) { return x > y || x != x ? x : y; }  \
    static inline T smaller_##T(T x, T y) { return x < y || x != x ? x : y; } \
    static inline T clip_##T(T x, T low, T high)                              \
    {                                                                         \
        T above = x < low ? low : x;                                          \
        return above > high ? high : above;                                   \
    }
EXTREME(float)
EXTREME(double)
#undef EXTREME

/* At -infinity its limit, 0. */
static inline double gelu_double(double x)
{
    double below = 0.5 * erfc(x * -0.70710678118654752440);
    return below == 0 ? -0.0 : x * below;
}

static inline double gelu_slope_double(double x)
{
    double density = exp(-0.5 * x * x) * 0.39894228040143267794;
    return 0.5 * erfc(x * -0.70710678118654752440) + (density > 0 ? x * density : 0);
}

static inline double mod_double(double x, double y)
{
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

/* The quotient that goes with mod_double: x / y might round up to the next integer. */
static inline double floor_div_double(double x, double y)
{
    if (y == 0) return x / y;
    return rint((x - mod_double(x, y)) / y);
}

#endif
