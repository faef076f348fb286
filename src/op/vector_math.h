/* Functions of double that compilers vectorise: no branches, no tables, no calls. */
#ifndef IPU_OP_VECTOR_MATH_H
#define IPU_OP_VECTOR_MATH_H

#include <math.h>

static inline double ipu__v_exp(double x) { return exp(x); }
static inline double ipu__v_exp2(double x) { return exp2(x); }
static inline double ipu__v_expm1(double x) { return expm1(x); }
static inline double ipu__v_log(double x) { return log(x); }
static inline double ipu__v_log1p(double x) { return log1p(x); }
static inline double ipu__v_sin(double x) { return sin(x); }
static inline double ipu__v_cos(double x) { return cos(x); }
static inline double ipu__v_tan(double x) { return tan(x); }
static inline double ipu__v_asin(double x) { return asin(x); }
static inline double ipu__v_acos(double x) { return acos(x); }
static inline double ipu__v_atan(double x) { return atan(x); }
static inline double ipu__v_sinh(double x) { return sinh(x); }
static inline double ipu__v_cosh(double x) { return cosh(x); }
static inline double ipu__v_tanh(double x) { return tanh(x); }
static inline double ipu__v_asinh(double x) { return asinh(x); }
static inline double ipu__v_acosh(double x) { return acosh(x); }
static inline double ipu__v_atanh(double x) { return atanh(x); }
static inline double ipu__v_erf(double x) { return erf(x); }
static inline double ipu__v_erfc(double x) { return erfc(x); }

#endif
