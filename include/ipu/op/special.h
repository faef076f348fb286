/* Special functions, elementwise, for floating types; half and bfloat16 are computed in float.
 *
 *     ipu_value y = ipu_lgamma(b, x);
 *
 * Each is composed of elementwise ops, with float's accuracy even in double. Gradients are those of the
 * functions; values at poles and ends match PyTorch's.
 */
#ifndef IPU_OP_SPECIAL_H
#define IPU_OP_SPECIAL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inverses of ipu_erf and of the normal distribution function. */
ipu_value ipu_erfinv(ipu_builder *b, ipu_value x);
ipu_value ipu_ndtri(ipu_builder *b, ipu_value x);
/* exp(x^2) erfc(x), and the logarithm of the normal distribution function, without overflow. */
ipu_value ipu_erfcx(ipu_builder *b, ipu_value x);
ipu_value ipu_log_ndtr(ipu_builder *b, ipu_value x);

/* sin(pi x) / (pi x), 1 at 0. */
ipu_value ipu_sinc(ipu_builder *b, ipu_value x);
/* log(x / (1 - x)), of x between eps and 1 - eps; eps < 0: of x as it is. */
ipu_value ipu_logit(ipu_builder *b, ipu_value x, double eps);

/* x log(y) and x log(1 + y), which are 0 where x is 0 and y is a number; -x log(x), -infinity below 0. */
ipu_value ipu_xlogy(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_xlog1py(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_entr(ipu_builder *b, ipu_value x);
/* log(exp(x) + exp(y)), and the same of base 2, without overflow. */
ipu_value ipu_logaddexp(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_logaddexp2(ipu_builder *b, ipu_value x, ipu_value y);

/* log |gamma(x)|, and that of the multivariate gamma function of p >= 1 dimensions. */
ipu_value ipu_lgamma(ipu_builder *b, ipu_value x);
ipu_value ipu_mvlgamma(ipu_builder *b, ipu_value x, int p);
/* The derivative of ipu_lgamma, and the derivative of that, of order 0 or 1. */
ipu_value ipu_digamma(ipu_builder *b, ipu_value x);
ipu_value ipu_polygamma(ipu_builder *b, ipu_value x, int order);

/* Modified Bessel functions of the first kind, of order 0 and 1; the e variants are multiplied by exp(-|x|). */
ipu_value ipu_i0(ipu_builder *b, ipu_value x);
ipu_value ipu_i0e(ipu_builder *b, ipu_value x);
ipu_value ipu_i1(ipu_builder *b, ipu_value x);
ipu_value ipu_i1e(ipu_builder *b, ipu_value x);

/* Greatest common divisor and least common multiple of integers, broadcast; never negative. */
ipu_value ipu_gcd(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_lcm(ipu_builder *b, ipu_value x, ipu_value y);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_erfinv(...) IPU_AT(ipu_erfinv(__VA_ARGS__))
#define ipu_ndtri(...) IPU_AT(ipu_ndtri(__VA_ARGS__))
#define ipu_erfcx(...) IPU_AT(ipu_erfcx(__VA_ARGS__))
#define ipu_log_ndtr(...) IPU_AT(ipu_log_ndtr(__VA_ARGS__))
#define ipu_sinc(...) IPU_AT(ipu_sinc(__VA_ARGS__))
#define ipu_logit(...) IPU_AT(ipu_logit(__VA_ARGS__))
#define ipu_xlogy(...) IPU_AT(ipu_xlogy(__VA_ARGS__))
#define ipu_xlog1py(...) IPU_AT(ipu_xlog1py(__VA_ARGS__))
#define ipu_entr(...) IPU_AT(ipu_entr(__VA_ARGS__))
#define ipu_logaddexp(...) IPU_AT(ipu_logaddexp(__VA_ARGS__))
#define ipu_logaddexp2(...) IPU_AT(ipu_logaddexp2(__VA_ARGS__))
#define ipu_lgamma(...) IPU_AT(ipu_lgamma(__VA_ARGS__))
#define ipu_mvlgamma(...) IPU_AT(ipu_mvlgamma(__VA_ARGS__))
#define ipu_digamma(...) IPU_AT(ipu_digamma(__VA_ARGS__))
#define ipu_polygamma(...) IPU_AT(ipu_polygamma(__VA_ARGS__))
#define ipu_i0(...) IPU_AT(ipu_i0(__VA_ARGS__))
#define ipu_i0e(...) IPU_AT(ipu_i0e(__VA_ARGS__))
#define ipu_i1(...) IPU_AT(ipu_i1(__VA_ARGS__))
#define ipu_i1e(...) IPU_AT(ipu_i1e(__VA_ARGS__))
#define ipu_gcd(...) IPU_AT(ipu_gcd(__VA_ARGS__))
#define ipu_lcm(...) IPU_AT(ipu_lcm(__VA_ARGS__))
#endif
#endif
