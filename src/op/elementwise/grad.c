/* Gradients of elementwise ops, as ops, from the columns of unary.inc and binary.inc.
 *
 * At kinks they follow PyTorch.
 */
#include <math.h>

#include "ipu/op/elementwise.h"
#include "op/elementwise/elementwise.h"

#define K(value) ipu_scalar_like(b, x, value)
#define NEG(x) ipu_neg(b, x)
#define ABS(x) ipu_abs(b, x)
#define SIGN(x) ipu_sign(b, x)
#define SQUARE(x) ipu_square(b, x)
#define RSQRT(x) ipu_rsqrt(b, x)
#define EXP(x) ipu_exp(b, x)
#define LOG(x) ipu_log(b, x)
#define SIN(x) ipu_sin(b, x)
#define COS(x) ipu_cos(b, x)
#define SINH(x) ipu_sinh(b, x)
#define COSH(x) ipu_cosh(b, x)
#define SIGMOID(x) ipu_sigmoid(b, x)
#define FLOOR(x) ipu_floor(b, x)
#define TRUNC(x) ipu_trunc(b, x)
#define ADD(x, y) ipu_add(b, x, y)
#define SUB(x, y) ipu_sub(b, x, y)
#define MUL(x, y) ipu_mul(b, x, y)
#define DIV(x, y) ipu_div(b, x, y)
#define POW(x, y) ipu_pow(b, x, y)
#define AND(x, y) ipu_logical_and(b, x, y)
#define EQUAL(x, y) ipu_equal(b, x, y)
#define GREATER(x, y) ipu_greater(b, x, y)
#define LESS(x, y) ipu_less(b, x, y)
#define GREATER_EQUAL(x, y) ipu_greater_equal(b, x, y)
#define LESS_EQUAL(x, y) ipu_less_equal(b, x, y)
#define BETWEEN(low, x, high) AND(GREATER(x, low), LESS(x, high))
#define WHERE(condition, x, y) ipu_where(b, condition, x, y)

static ipu_value erf_slope(ipu_builder *b, ipu_value x) { return MUL(K(M_2_SQRTPI), EXP(NEG(SQUARE(x)))); }

/* The second derivative of gelu: the normal distribution's density times 2 - x^2. */
static ipu_value gelu_bend(ipu_builder *b, ipu_value x)
{
    ipu_value square  = SQUARE(x);
    ipu_value density = MUL(K(0.5 * M_2_SQRTPI * M_SQRT1_2), EXP(MUL(K(-0.5), square)));
    return MUL(density, SUB(K(2), square));
}

/* It is x s, s = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). */
static ipu_value gelu_tanh_slope(ipu_builder *b, ipu_value x)
{
    const double two_c  = 2 * M_2_SQRTPI * M_SQRT1_2;
    ipu_value    square = SQUARE(x);
    ipu_value    s      = SIGMOID(MUL(MUL(K(two_c), x), ADD(K(1), MUL(K(0.044715), square))));
    ipu_value    slope  = MUL(K(two_c), ADD(K(1), MUL(K(3 * 0.044715), square)));
    return MUL(s, ADD(K(1), MUL(MUL(x, SUB(K(1), s)), slope)));
}

static ipu_value silu_slope(ipu_builder *b, ipu_value x)
{
    ipu_value s = SIGMOID(x);
    return MUL(s, ADD(K(1), MUL(x, SUB(K(1), s))));
}

static ipu_value mish_slope(ipu_builder *b, ipu_value x)
{
    ipu_value t = ipu_tanh(b, ipu_softplus(b, x, 1, INFINITY));
    return ADD(t, MUL(MUL(x, SIGMOID(x)), SUB(K(1), SQUARE(t))));
}

static ipu_value hardswish_slope(ipu_builder *b, ipu_value x)
{
    ipu_value between = ADD(DIV(x, K(3)), K(0.5));
    return WHERE(LESS(x, K(-3)), K(0), WHERE(LESS_EQUAL(x, K(3)), between, K(1)));
}

/* y x^(y - 1), and 0 where y is: x might be 0. */
static ipu_value pow_slope(ipu_builder *b, ipu_value x, ipu_value y)
{
    return WHERE(EQUAL(y, K(0)), K(0), MUL(y, POW(x, SUB(y, K(1)))));
}

/* z log(x), and 0 where x is 0 and y is not negative. */
static ipu_value pow_slope_y(ipu_builder *b, ipu_value x, ipu_value y, ipu_value z)
{
    return WHERE(AND(EQUAL(x, K(0)), GREATER_EQUAL(y, K(0))), K(0), MUL(z, LOG(x)));
}

/* The gradient of the larger of x and y with respect to x: half of it where they are equal. */
static ipu_value larger(ipu_builder *b, ipu_value x, ipu_value y, ipu_value dz)
{
    return WHERE(EQUAL(x, y), MUL(dz, K(0.5)), WHERE(GREATER(x, y), dz, K(0)));
}

static ipu_value parameter(ipu_builder *b, const ipu__kernel_call *call, int i, ipu_value x)
{
    double parameters[IPU__MAX_ELEMENT_PARAMETERS];
    ipu__element_parameters(call, parameters);
    return ipu_scalar_like(b, x, parameters[i]);
}

#define NONE IPU_NO_VALUE
#define P parameter(b, g->call, 0, x)
#define Q parameter(b, g->call, 1, x)

#define UNARY(name, arity, types, form, value, gradient, ...)       \
    static void name##_grad(ipu__gradient *g)                       \
    {                                                               \
        ipu_builder *b = g->b;                                      \
        ipu_value    x = g->in[0], y = g->out[0], dy = g->d_out[0]; \
        (void)b, (void)x, (void)y, (void)dy;                        \
        g->d_in[0] = gradient;                                      \
    }
#include "op/elementwise/unary.inc"
#undef UNARY

#define BINARY(name, types, form, value, gradient_x, gradient_y, ...)             \
    static void name##_grad(ipu__gradient *g)                                     \
    {                                                                             \
        ipu_builder *b = g->b;                                                    \
        ipu_value    x = g->in[0], y = g->in[1], z = g->out[0], dz = g->d_out[0]; \
        (void)b, (void)x, (void)y, (void)z, (void)dz;                             \
        if (g->wanted[0]) g->d_in[0] = gradient_x;                                \
        if (g->wanted[1]) g->d_in[1] = gradient_y;                                \
    }
#include "op/elementwise/binary.inc"
#undef BINARY

static void where_grad(ipu__gradient *g)
{
    ipu_builder *b    = g->b;
    ipu_value    zero = ipu_scalar_like(b, g->d_out[0], 0);
    if (g->wanted[1]) g->d_in[1] = WHERE(g->in[0], g->d_out[0], zero);
    if (g->wanted[2]) g->d_in[2] = WHERE(g->in[0], zero, g->d_out[0]);
}

static void cast_grad(ipu__gradient *g)
{
    bool is_floating = ipu__op_is_floating(g->call->operand[0].type)
                    && ipu__op_is_floating(g->call->operand[1].type);
    if (is_floating) g->d_in[0] = ipu_cast(g->b, g->d_out[0], g->call->operand[0].type);
}

static void (*const gradients[IPU__N_ELEMENTS])(ipu__gradient *g) = {
#define UNARY(name, ...) [IPU__ELEMENT_##name] = name##_grad,
#define BINARY(name, ...) [IPU__ELEMENT_##name] = name##_grad,
#include "op/elementwise/binary.inc"
#include "op/elementwise/unary.inc"
    [IPU__ELEMENT_where] = where_grad,
    [IPU__ELEMENT_cast]  = cast_grad,
};

void ipu__element_grad(ipu__gradient *g)
{
    gradients[ipu__element_of(g->call->def)](g);
    for (int i = 0; i < ipu__op_of(g->call->def)->n_in; i++)
        if (ipu__has(g->d_in[i])) g->d_in[i] = ipu__sum_like(g->b, g->d_in[i], g->in[i]);
}
