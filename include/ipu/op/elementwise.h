/* Elementwise ops: each output element depends on the input elements at the same position.
 *
 *     ipu_value y = ipu_relu(b, ipu_add(b, x, bias));       [64,128] + [128]
 *
 * Multiple inputs are broadcast by numpy's rule (dimensions, counted from the last, are equal or 1) and have
 * one type. Below, "floating" means half, bfloat16, float or double; "numbers" adds integers, which wrap.
 * Values and gradients in edge cases match PyTorch's functions of the same names.
 */
#ifndef IPU_OP_ELEMENTWISE_H
#define IPU_OP_ELEMENTWISE_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one input: numbers ---- */
ipu_value ipu_neg(ipu_builder *b, ipu_value x);
ipu_value ipu_abs(ipu_builder *b, ipu_value x);
ipu_value ipu_sign(ipu_builder *b, ipu_value x);
ipu_value ipu_square(ipu_builder *b, ipu_value x);
ipu_value ipu_relu(ipu_builder *b, ipu_value x);
ipu_value ipu_relu6(ipu_builder *b, ipu_value x);
/* low <= x <= high. The gradient at the bounds is 1 for clip, 0 for hardtanh. */
ipu_value ipu_clip(ipu_builder *b, ipu_value x, double low, double high);
ipu_value ipu_hardtanh(ipu_builder *b, ipu_value x, double low, double high);
/* x where x > threshold, else value. */
ipu_value ipu_threshold(ipu_builder *b, ipu_value x, double threshold, double value);
/* x - bias where x > lambda, x + bias where x < -lambda, else 0. PyTorch's hardshrink has the bias 0, its
 * softshrink the bias lambda. */
ipu_value ipu_shrink(ipu_builder *b, ipu_value x, double lambda, double bias);

/* ---- one input: floating ---- */
ipu_value ipu_sqrt(ipu_builder *b, ipu_value x);
ipu_value ipu_rsqrt(ipu_builder *b, ipu_value x);
ipu_value ipu_reciprocal(ipu_builder *b, ipu_value x);
ipu_value ipu_exp(ipu_builder *b, ipu_value x);
ipu_value ipu_exp2(ipu_builder *b, ipu_value x);
ipu_value ipu_expm1(ipu_builder *b, ipu_value x);
ipu_value ipu_log(ipu_builder *b, ipu_value x);
ipu_value ipu_log2(ipu_builder *b, ipu_value x);
ipu_value ipu_log10(ipu_builder *b, ipu_value x);
ipu_value ipu_log1p(ipu_builder *b, ipu_value x);
ipu_value ipu_sin(ipu_builder *b, ipu_value x);
ipu_value ipu_cos(ipu_builder *b, ipu_value x);
ipu_value ipu_tan(ipu_builder *b, ipu_value x);
ipu_value ipu_asin(ipu_builder *b, ipu_value x);
ipu_value ipu_acos(ipu_builder *b, ipu_value x);
ipu_value ipu_atan(ipu_builder *b, ipu_value x);
ipu_value ipu_sinh(ipu_builder *b, ipu_value x);
ipu_value ipu_cosh(ipu_builder *b, ipu_value x);
ipu_value ipu_tanh(ipu_builder *b, ipu_value x);
ipu_value ipu_asinh(ipu_builder *b, ipu_value x);
ipu_value ipu_acosh(ipu_builder *b, ipu_value x);
ipu_value ipu_atanh(ipu_builder *b, ipu_value x);
ipu_value ipu_erf(ipu_builder *b, ipu_value x);
ipu_value ipu_erfc(ipu_builder *b, ipu_value x);
ipu_value ipu_sigmoid(ipu_builder *b, ipu_value x);
ipu_value ipu_log_sigmoid(ipu_builder *b, ipu_value x);
ipu_value ipu_leaky_relu(ipu_builder *b, ipu_value x, double alpha);
ipu_value ipu_elu(ipu_builder *b, ipu_value x, double alpha);
ipu_value ipu_celu(ipu_builder *b, ipu_value x, double alpha);
ipu_value ipu_selu(ipu_builder *b, ipu_value x);
/* gamma times elu, and alpha x + beta clipped to 0 to 1: selu and hardsigmoid with custom constants. */
ipu_value ipu_selu_with(ipu_builder *b, ipu_value x, double alpha, double gamma);
ipu_value ipu_hardsigmoid_with(ipu_builder *b, ipu_value x, double alpha, double beta);
/* scale x where positive, else scale alpha (exp(input_scale x) - 1): elu, selu and celu in one. */
ipu_value ipu_scaled_elu(ipu_builder *b, ipu_value x, double alpha, double scale, double input_scale);
/* Exact (erf), and the approximation by tanh. */
ipu_value ipu_gelu(ipu_builder *b, ipu_value x);
ipu_value ipu_gelu_tanh(ipu_builder *b, ipu_value x);
/* The derivative of ipu_gelu. */
ipu_value ipu_gelu_slope(ipu_builder *b, ipu_value x);
ipu_value ipu_silu(ipu_builder *b, ipu_value x);
ipu_value ipu_mish(ipu_builder *b, ipu_value x);
/* log(1 + exp(beta x)) / beta, or x where beta x > threshold. PyTorch's defaults: 1, 20. */
ipu_value ipu_softplus(ipu_builder *b, ipu_value x, double beta, double threshold);
ipu_value ipu_softsign(ipu_builder *b, ipu_value x);
/* x - tanh(x). */
ipu_value ipu_tanhshrink(ipu_builder *b, ipu_value x);
/* The first half of `axis` times the sigmoid of the second. */
ipu_value ipu_glu(ipu_builder *b, ipu_value x, int axis);
ipu_value ipu_hardsigmoid(ipu_builder *b, ipu_value x);
ipu_value ipu_hardswish(ipu_builder *b, ipu_value x);
ipu_value ipu_floor(ipu_builder *b, ipu_value x);
ipu_value ipu_ceil(ipu_builder *b, ipu_value x);
/* Ties to even. */
ipu_value ipu_round(ipu_builder *b, ipu_value x);
ipu_value ipu_trunc(ipu_builder *b, ipu_value x);
/* To `decimals` digits after the decimal point, or before it if negative. */
ipu_value ipu_round_to(ipu_builder *b, ipu_value x, int decimals);
/* x - trunc(x). */
ipu_value ipu_frac(ipu_builder *b, ipu_value x);
/* The argument of a real number as a complex one: pi below 0, otherwise 0; NaN for NaN. */
ipu_value ipu_angle(ipu_builder *b, ipu_value x);
/* `nan` in place of NaN, `above` of infinity, `below` of minus infinity; a NaN for `above` or `below` is the largest
 * or the least finite number of the type. */
ipu_value ipu_nan_to_num(ipu_builder *b, ipu_value x, double nan, double above, double below);
/* Result is bool. */
ipu_value ipu_isnan(ipu_builder *b, ipu_value x);
ipu_value ipu_isinf(ipu_builder *b, ipu_value x);
ipu_value ipu_isfinite(ipu_builder *b, ipu_value x);

/* ---- two inputs: numbers ---- */
ipu_value ipu_add(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_sub(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_mul(ipu_builder *b, ipu_value x, ipu_value y);
/* Integers: rounds towards 0; x / 0 is 0, and x is the remainder by 0. */
ipu_value ipu_div(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_floor_div(ipu_builder *b, ipu_value x, ipu_value y);
/* The remainders that match floor_div (PyTorch's remainder), and division towards 0. */
ipu_value ipu_mod(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_fmod(ipu_builder *b, ipu_value x, ipu_value y);
/* Integers: negative powers are 0 except those of 1 and -1. */
ipu_value ipu_pow(ipu_builder *b, ipu_value x, ipu_value y);
/* The exponent may be of another type; the result has the type of x, as if by ipu_cast. */
ipu_value ipu_pow_mixed(ipu_builder *b, ipu_value x, ipu_value y);
/* NaN if either is; if they are equal, each gets half of the gradient. */
ipu_value ipu_maximum(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_minimum(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_squared_difference(ipu_builder *b, ipu_value x, ipu_value y);
/* As maximum and minimum, but the number where one of two is NaN; where they are equal x has the gradient. */
ipu_value ipu_fmax(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_fmin(ipu_builder *b, ipu_value x, ipu_value y);
/* 0 where x < 0, 1 where x > 0, y where x is 0. */
ipu_value ipu_heaviside(ipu_builder *b, ipu_value x, ipu_value y);
/* Whether the sign bit is set: below 0, or -0. */
ipu_value ipu_signbit(ipu_builder *b, ipu_value x);
/* Floating. |x| with the sign of y, and sqrt(x^2 + y^2). */
ipu_value ipu_copysign(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_hypot(ipu_builder *b, ipu_value x, ipu_value y);
/* Floating. The angle of the point (y, x), as C's atan2(x, y). */
ipu_value ipu_atan2(ipu_builder *b, ipu_value x, ipu_value y);
/* A slope for each channel of NCHW has shape [C,1,1]. */
ipu_value ipu_prelu(ipu_builder *b, ipu_value x, ipu_value slope);

/* ---- comparisons: any type, result is bool ---- */
ipu_value ipu_equal(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_not_equal(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_less(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_less_equal(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_greater(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_greater_equal(ipu_builder *b, ipu_value x, ipu_value y);

/* ---- bool; bits of integers and bool ---- */
ipu_value ipu_logical_and(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_logical_or(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_logical_xor(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_logical_not(ipu_builder *b, ipu_value x);
ipu_value ipu_bitwise_and(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_bitwise_or(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_bitwise_xor(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_bitwise_not(ipu_builder *b, ipu_value x);
/* Integers. Shifts by a negative amount, or by at least the number of bits, leave nothing but the sign. */
ipu_value ipu_shift_left(ipu_builder *b, ipu_value x, ipu_value y);
ipu_value ipu_shift_right(ipu_builder *b, ipu_value x, ipu_value y);

/* ---- more inputs, and types ---- */
/* x where `condition` (bool), else y; all three are broadcast. Any type. */
ipu_value ipu_where(ipu_builder *b, ipu_value condition, ipu_value x, ipu_value y);
/* x, but `low` where it is below that, and then `high` where it is above that; either may be null. Broadcast. The
 * gradient at the bounds is that of x. */
ipu_value ipu_clamp(ipu_builder *b, ipu_value x, ipu_value low, ipu_value high);
/* x + weight (y - x). */
ipu_value ipu_lerp(ipu_builder *b, ipu_value x, ipu_value y, ipu_value weight);
/* Any type to any other. Floating to integers: rounds towards 0, saturates, NaN becomes 0. Between integers:
 * modulo 2^bits. To bool: whether it is not 0. To floating: to nearest, ties to even. */
ipu_value ipu_cast(ipu_builder *b, ipu_value x, ipu_type type);
/* float to half, rounded up or down at random so that the mean is right: up with the probability of the fraction
 * that is cut off. `seed`: uint32[2] {seed, step}, as from ipu_model_seed; each call draws different numbers. The
 * gradient passes as through ipu_cast. */
ipu_value ipu_cast_stochastic(ipu_builder *b, ipu_value x, ipu_value seed);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_neg(...) IPU_AT(ipu_neg(__VA_ARGS__))
#define ipu_abs(...) IPU_AT(ipu_abs(__VA_ARGS__))
#define ipu_sign(...) IPU_AT(ipu_sign(__VA_ARGS__))
#define ipu_square(...) IPU_AT(ipu_square(__VA_ARGS__))
#define ipu_relu(...) IPU_AT(ipu_relu(__VA_ARGS__))
#define ipu_relu6(...) IPU_AT(ipu_relu6(__VA_ARGS__))
#define ipu_clip(...) IPU_AT(ipu_clip(__VA_ARGS__))
#define ipu_hardtanh(...) IPU_AT(ipu_hardtanh(__VA_ARGS__))
#define ipu_threshold(...) IPU_AT(ipu_threshold(__VA_ARGS__))
#define ipu_shrink(...) IPU_AT(ipu_shrink(__VA_ARGS__))
#define ipu_sqrt(...) IPU_AT(ipu_sqrt(__VA_ARGS__))
#define ipu_rsqrt(...) IPU_AT(ipu_rsqrt(__VA_ARGS__))
#define ipu_reciprocal(...) IPU_AT(ipu_reciprocal(__VA_ARGS__))
#define ipu_exp(...) IPU_AT(ipu_exp(__VA_ARGS__))
#define ipu_exp2(...) IPU_AT(ipu_exp2(__VA_ARGS__))
#define ipu_expm1(...) IPU_AT(ipu_expm1(__VA_ARGS__))
#define ipu_log(...) IPU_AT(ipu_log(__VA_ARGS__))
#define ipu_log2(...) IPU_AT(ipu_log2(__VA_ARGS__))
#define ipu_log10(...) IPU_AT(ipu_log10(__VA_ARGS__))
#define ipu_log1p(...) IPU_AT(ipu_log1p(__VA_ARGS__))
#define ipu_sin(...) IPU_AT(ipu_sin(__VA_ARGS__))
#define ipu_cos(...) IPU_AT(ipu_cos(__VA_ARGS__))
#define ipu_tan(...) IPU_AT(ipu_tan(__VA_ARGS__))
#define ipu_asin(...) IPU_AT(ipu_asin(__VA_ARGS__))
#define ipu_acos(...) IPU_AT(ipu_acos(__VA_ARGS__))
#define ipu_atan(...) IPU_AT(ipu_atan(__VA_ARGS__))
#define ipu_sinh(...) IPU_AT(ipu_sinh(__VA_ARGS__))
#define ipu_cosh(...) IPU_AT(ipu_cosh(__VA_ARGS__))
#define ipu_tanh(...) IPU_AT(ipu_tanh(__VA_ARGS__))
#define ipu_asinh(...) IPU_AT(ipu_asinh(__VA_ARGS__))
#define ipu_acosh(...) IPU_AT(ipu_acosh(__VA_ARGS__))
#define ipu_atanh(...) IPU_AT(ipu_atanh(__VA_ARGS__))
#define ipu_erf(...) IPU_AT(ipu_erf(__VA_ARGS__))
#define ipu_erfc(...) IPU_AT(ipu_erfc(__VA_ARGS__))
#define ipu_sigmoid(...) IPU_AT(ipu_sigmoid(__VA_ARGS__))
#define ipu_log_sigmoid(...) IPU_AT(ipu_log_sigmoid(__VA_ARGS__))
#define ipu_leaky_relu(...) IPU_AT(ipu_leaky_relu(__VA_ARGS__))
#define ipu_elu(...) IPU_AT(ipu_elu(__VA_ARGS__))
#define ipu_celu(...) IPU_AT(ipu_celu(__VA_ARGS__))
#define ipu_selu(...) IPU_AT(ipu_selu(__VA_ARGS__))
#define ipu_selu_with(...) IPU_AT(ipu_selu_with(__VA_ARGS__))
#define ipu_scaled_elu(...) IPU_AT(ipu_scaled_elu(__VA_ARGS__))
#define ipu_hardsigmoid_with(...) IPU_AT(ipu_hardsigmoid_with(__VA_ARGS__))
#define ipu_gelu(...) IPU_AT(ipu_gelu(__VA_ARGS__))
#define ipu_gelu_tanh(...) IPU_AT(ipu_gelu_tanh(__VA_ARGS__))
#define ipu_gelu_slope(...) IPU_AT(ipu_gelu_slope(__VA_ARGS__))
#define ipu_silu(...) IPU_AT(ipu_silu(__VA_ARGS__))
#define ipu_mish(...) IPU_AT(ipu_mish(__VA_ARGS__))
#define ipu_softplus(...) IPU_AT(ipu_softplus(__VA_ARGS__))
#define ipu_softsign(...) IPU_AT(ipu_softsign(__VA_ARGS__))
#define ipu_tanhshrink(...) IPU_AT(ipu_tanhshrink(__VA_ARGS__))
#define ipu_glu(...) IPU_AT(ipu_glu(__VA_ARGS__))
#define ipu_hardsigmoid(...) IPU_AT(ipu_hardsigmoid(__VA_ARGS__))
#define ipu_hardswish(...) IPU_AT(ipu_hardswish(__VA_ARGS__))
#define ipu_floor(...) IPU_AT(ipu_floor(__VA_ARGS__))
#define ipu_ceil(...) IPU_AT(ipu_ceil(__VA_ARGS__))
#define ipu_round(...) IPU_AT(ipu_round(__VA_ARGS__))
#define ipu_trunc(...) IPU_AT(ipu_trunc(__VA_ARGS__))
#define ipu_round_to(...) IPU_AT(ipu_round_to(__VA_ARGS__))
#define ipu_frac(...) IPU_AT(ipu_frac(__VA_ARGS__))
#define ipu_angle(...) IPU_AT(ipu_angle(__VA_ARGS__))
#define ipu_nan_to_num(...) IPU_AT(ipu_nan_to_num(__VA_ARGS__))
#define ipu_isnan(...) IPU_AT(ipu_isnan(__VA_ARGS__))
#define ipu_isinf(...) IPU_AT(ipu_isinf(__VA_ARGS__))
#define ipu_isfinite(...) IPU_AT(ipu_isfinite(__VA_ARGS__))
#define ipu_add(...) IPU_AT(ipu_add(__VA_ARGS__))
#define ipu_sub(...) IPU_AT(ipu_sub(__VA_ARGS__))
#define ipu_mul(...) IPU_AT(ipu_mul(__VA_ARGS__))
#define ipu_div(...) IPU_AT(ipu_div(__VA_ARGS__))
#define ipu_floor_div(...) IPU_AT(ipu_floor_div(__VA_ARGS__))
#define ipu_mod(...) IPU_AT(ipu_mod(__VA_ARGS__))
#define ipu_fmod(...) IPU_AT(ipu_fmod(__VA_ARGS__))
#define ipu_pow(...) IPU_AT(ipu_pow(__VA_ARGS__))
#define ipu_pow_mixed(...) IPU_AT(ipu_pow_mixed(__VA_ARGS__))
#define ipu_maximum(...) IPU_AT(ipu_maximum(__VA_ARGS__))
#define ipu_minimum(...) IPU_AT(ipu_minimum(__VA_ARGS__))
#define ipu_fmax(...) IPU_AT(ipu_fmax(__VA_ARGS__))
#define ipu_fmin(...) IPU_AT(ipu_fmin(__VA_ARGS__))
#define ipu_heaviside(...) IPU_AT(ipu_heaviside(__VA_ARGS__))
#define ipu_signbit(...) IPU_AT(ipu_signbit(__VA_ARGS__))
#define ipu_copysign(...) IPU_AT(ipu_copysign(__VA_ARGS__))
#define ipu_hypot(...) IPU_AT(ipu_hypot(__VA_ARGS__))
#define ipu_squared_difference(...) IPU_AT(ipu_squared_difference(__VA_ARGS__))
#define ipu_atan2(...) IPU_AT(ipu_atan2(__VA_ARGS__))
#define ipu_prelu(...) IPU_AT(ipu_prelu(__VA_ARGS__))
#define ipu_equal(...) IPU_AT(ipu_equal(__VA_ARGS__))
#define ipu_not_equal(...) IPU_AT(ipu_not_equal(__VA_ARGS__))
#define ipu_less(...) IPU_AT(ipu_less(__VA_ARGS__))
#define ipu_less_equal(...) IPU_AT(ipu_less_equal(__VA_ARGS__))
#define ipu_greater(...) IPU_AT(ipu_greater(__VA_ARGS__))
#define ipu_greater_equal(...) IPU_AT(ipu_greater_equal(__VA_ARGS__))
#define ipu_logical_and(...) IPU_AT(ipu_logical_and(__VA_ARGS__))
#define ipu_logical_or(...) IPU_AT(ipu_logical_or(__VA_ARGS__))
#define ipu_logical_xor(...) IPU_AT(ipu_logical_xor(__VA_ARGS__))
#define ipu_logical_not(...) IPU_AT(ipu_logical_not(__VA_ARGS__))
#define ipu_bitwise_and(...) IPU_AT(ipu_bitwise_and(__VA_ARGS__))
#define ipu_bitwise_or(...) IPU_AT(ipu_bitwise_or(__VA_ARGS__))
#define ipu_bitwise_xor(...) IPU_AT(ipu_bitwise_xor(__VA_ARGS__))
#define ipu_bitwise_not(...) IPU_AT(ipu_bitwise_not(__VA_ARGS__))
#define ipu_shift_left(...) IPU_AT(ipu_shift_left(__VA_ARGS__))
#define ipu_shift_right(...) IPU_AT(ipu_shift_right(__VA_ARGS__))
#define ipu_where(...) IPU_AT(ipu_where(__VA_ARGS__))
#define ipu_clamp(...) IPU_AT(ipu_clamp(__VA_ARGS__))
#define ipu_lerp(...) IPU_AT(ipu_lerp(__VA_ARGS__))
#define ipu_cast(...) IPU_AT(ipu_cast(__VA_ARGS__))
#define ipu_cast_stochastic(...) IPU_AT(ipu_cast_stochastic(__VA_ARGS__))
#endif
#endif
