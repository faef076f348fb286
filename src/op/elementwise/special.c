/* Special functions: compositions of elementwise ops, by expansions; their gradients are those of the expansions.
 *
 * The expansions are as exact as float; so are results in double. One op at a time: compilers may emit arguments in
 * any order, and the order of ops is that in which gradients are added up.
 */
#include "ipu/op/special.h"
#include "ipu/op/shape.h"

#include <math.h>

#include "graph/graph.h"
#include "op/compose.h"

static ipu_value number(ipu_builder *b, ipu_value like, double value)
{
    return ipu_scalar_like(b, like, value);
}

/* x where `condition`, else a number that does no harm. */
static ipu_value only_where(ipu_builder *b, ipu_value condition, ipu_value x, double otherwise)
{
    return ipu_where(b, condition, x, number(b, x, otherwise));
}

/* Coefficients from that of the highest power on; at least two. */
typedef struct series {
    const double *of;
    int           n;
} series;
#define SERIES(...) \
    ((series){(const double[]){__VA_ARGS__}, (int)IPU__COUNT(((const double[]){__VA_ARGS__}))})

static ipu_value polynomial(ipu_builder *b, ipu_value x, series s)
{
    ipu_value y = ipu__plus(b, ipu__times(b, x, s.of[0]), s.of[1]);
    for (int i = 2; i < s.n; i++) y = ipu__plus(b, ipu_mul(b, y, x), s.of[i]);
    return y;
}

/* ---- the error function ---- */

/* Two polynomials in w = -log(1 - x^2) by M. Giles (Approximating the erfinv function, 2010). */
#define ERFINV_MIDDLE                                                                                      \
    SERIES(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, \
           -0.00417768164, 0.246640727, 1.50140941)
#define ERFINV_TAILS                                                                                     \
    SERIES(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, \
           0.00943887047, 1.00167406, 2.83297682)

static ipu_value erfinv(ipu_builder *b, ipu_value x)
{
    ipu_value at_end    = ipu_equal(b, ipu_abs(b, x), number(b, x, 1));
    ipu_value inner     = ipu_where(b, at_end, number(b, x, 0), x);
    ipu_value to_one    = ipu__from(b, 1, inner);
    ipu_value w         = ipu_neg(b, ipu_log(b, ipu_mul(b, to_one, ipu__plus(b, inner, 1))));
    ipu_value is_middle = ipu_less(b, w, number(b, w, 5));
    ipu_value middle    = polynomial(b, ipu__minus(b, w, 2.5), ERFINV_MIDDLE);
    ipu_value tail_w    = ipu_where(b, is_middle, number(b, x, 5), w);
    ipu_value tails     = polynomial(b, ipu__minus(b, ipu_sqrt(b, tail_w), 3), ERFINV_TAILS);
    ipu_value y         = ipu_mul(b, ipu_where(b, is_middle, middle, tails), inner);
    ipu_value is_above  = ipu_greater(b, x, number(b, x, 0));
    ipu_value end       = ipu_where(b, is_above, number(b, x, INFINITY), number(b, x, -INFINITY));
    return ipu_where(b, at_end, end, y);
}

static ipu_value ndtri(ipu_builder *b, ipu_value x)
{
    return ipu__times(b, erfinv(b, ipu__minus(b, ipu__times(b, x, 2), 1)), sqrt(2));
}

static ipu_value erfcx(ipu_builder *b, ipu_value x)
{
    const double far      = 4; /* above it the asymptotic series is exact enough */
    ipu_value    is_far   = ipu_greater(b, x, number(b, x, far));
    ipu_value    near     = ipu_where(b, is_far, number(b, x, 0), x);
    ipu_value    grown    = ipu_exp(b, ipu_square(b, near));
    ipu_value    by_erfc  = ipu_mul(b, grown, ipu_erfc(b, near));
    ipu_value    r        = ipu_reciprocal(b, only_where(b, is_far, x, far));
    ipu_value    expanded = polynomial(b, ipu_square(b, r),
                                       SERIES(-945.0 / 32, 105.0 / 16, -15.0 / 8, 3.0 / 4, -1.0 / 2, 1));
    return ipu_where(b, is_far, ipu__times(b, ipu_mul(b, r, expanded), 1 / sqrt(M_PI)), by_erfc);
}

static ipu_value log_ndtr(ipu_builder *b, ipu_value x)
{
    ipu_value is_left   = ipu_less(b, x, number(b, x, -1));
    ipu_value t         = ipu__times(b, x, sqrt(0.5));
    ipu_value left      = only_where(b, is_left, t, -1);
    ipu_value by_scaled = ipu_log(b, ipu__times(b, erfcx(b, ipu_neg(b, left)), 0.5));
    by_scaled           = ipu_sub(b, by_scaled, ipu_square(b, left));
    ipu_value right     = ipu_where(b, is_left, number(b, x, 0), t);
    return ipu_where(b, is_left, by_scaled, ipu_log1p(b, ipu__times(b, ipu_erfc(b, right), -0.5)));
}

/* ---- logarithms, and products with them ---- */

static ipu_value sinc(ipu_builder *b, ipu_value x)
{
    ipu_value is_zero = ipu_equal(b, x, number(b, x, 0)), one = number(b, x, 1);
    ipu_value angle = ipu__times(b, ipu_where(b, is_zero, one, x), M_PI);
    return ipu_where(b, is_zero, one, ipu_div(b, ipu_sin(b, angle), angle));
}

/* x times the logarithm of y, or of 1 + y; 0 where x is 0 and the logarithm is not a number to multiply by. */
static ipu_value product_with_log(ipu_builder *b, ipu_value x, ipu_value y, bool plus_1)
{
    ipu_value no_log  = ipu_less_equal(b, y, number(b, y, plus_1 ? -1 : 0));
    no_log            = ipu_logical_or(b, no_log, ipu_equal(b, y, number(b, y, INFINITY)));
    ipu_value skipped = ipu_logical_and(b, ipu_equal(b, x, number(b, x, 0)), no_log);
    ipu_value safe    = ipu_where(b, skipped, number(b, y, 1), y);
    return ipu_mul(b, x, plus_1 ? ipu_log1p(b, safe) : ipu_log(b, safe));
}

static ipu_value xlogy(ipu_builder *b, ipu_value x, ipu_value y) { return product_with_log(b, x, y, false); }

static ipu_value xlog1py(ipu_builder *b, ipu_value x, ipu_value y) { return product_with_log(b, x, y, true); }

static ipu_value entr(ipu_builder *b, ipu_value x)
{
    ipu_value y = ipu_neg(b, product_with_log(b, x, x, false));
    return ipu_where(b, ipu_less(b, x, number(b, x, 0)), number(b, x, -INFINITY), y);
}

/* Of equal infinities the infinity. */
ipu_value ipu__log_add_exp(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value apart = ipu_where(b, ipu_equal(b, x, y), number(b, x, 0), ipu_sub(b, x, y));
    ipu_value rest  = ipu_log1p(b, ipu_exp(b, ipu_neg(b, ipu_abs(b, apart))));
    return ipu_add(b, ipu_maximum(b, x, y), rest);
}

static ipu_value log_add_exp2(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value of_x = ipu__times(b, x, log(2)), of_y = ipu__times(b, y, log(2));
    return ipu__times(b, ipu__log_add_exp(b, of_x, of_y), 1 / log(2));
}

/* ---- the gamma function ---- */

enum { SHIFT = 8 }; /* Stirling's series is exact enough above it */

/* x moved above the shift. */
typedef struct shifted {
    ipu_value is_low; /* whether it had to be */
    ipu_value low;    /* x where it was, else 1 */
    ipu_value z;
} shifted;

static shifted shift(ipu_builder *b, ipu_value x)
{
    ipu_value is_low = ipu_less(b, x, number(b, x, SHIFT));
    ipu_value low    = only_where(b, is_low, x, 1);
    return (shifted){is_low, low, ipu_where(b, is_low, ipu__plus(b, x, SHIFT), x)};
}

/* x or 1 - x, which is not below 1/2. */
static ipu_value reflected(ipu_builder *b, ipu_value x, ipu_value *is_left)
{
    *is_left = ipu_less(b, x, number(b, x, 0.5));
    return ipu_where(b, *is_left, ipu__from(b, 1, x), x);
}

/* How far x is from the nearest whole number, times pi; of what is not to the left that of `otherwise`. */
static ipu_value from_whole(ipu_builder *b, ipu_value x, ipu_value is_left, double otherwise)
{
    ipu_value inner = only_where(b, is_left, x, otherwise);
    return ipu__times(b, ipu_sub(b, inner, ipu_round(b, inner)), M_PI);
}

static ipu_value log_gamma_right(ipu_builder *b, ipu_value x)
{
    shifted   s       = shift(b, x);
    ipu_value product = s.low;
    for (int k = 1; k < SHIFT; k++) product = ipu_mul(b, product, ipu__plus(b, s.low, k));
    ipu_value r    = ipu_reciprocal(b, s.z);
    ipu_value rest = ipu_mul(b, r, polynomial(b, ipu_square(b, r), SERIES(1.0 / 1260, -1.0 / 360, 1.0 / 12)));
    ipu_value half = ipu__minus(b, s.z, 0.5);
    ipu_value y    = ipu_sub(b, ipu_mul(b, half, ipu_log(b, s.z)), s.z);
    y              = ipu__plus(b, ipu_add(b, y, rest), 0.5 * log(2 * M_PI));
    return ipu_sub(b, y, only_where(b, s.is_low, ipu_log(b, product), 0));
}

static ipu_value lgamma_of(ipu_builder *b, ipu_value x)
{
    ipu_value is_left, right = reflected(b, x, &is_left);
    ipu_value y    = log_gamma_right(b, right);
    ipu_value size = ipu_abs(b, ipu_sin(b, from_whole(b, x, is_left, 0.5)));
    return ipu_where(b, is_left, ipu_sub(b, ipu__from(b, log(M_PI), ipu_log(b, size)), y), y);
}

/* term(x) + term(x + 1) + ... up to the shift, 0 where x is not below it. */
static ipu_value summed_below(ipu_builder *b, const shifted *s,
                              ipu_value (*term)(ipu_builder *b, ipu_value x))
{
    ipu_value total = term(b, s->low);
    for (int k = 1; k < SHIFT; k++) total = ipu_add(b, total, term(b, ipu__plus(b, s->low, k)));
    return only_where(b, s->is_low, total, 0);
}

/* Infinite at 0, not a number at whole numbers below. */
static ipu_value digamma(ipu_builder *b, ipu_value x)
{
    ipu_value is_left, right = reflected(b, x, &is_left);
    shifted   s     = shift(b, right);
    ipu_value r     = ipu_reciprocal(b, s.z);
    ipu_value r2    = ipu_square(b, r);
    ipu_value rest  = ipu_mul(b, r2, polynomial(b, r2, SERIES(1.0 / 252, -1.0 / 120, 1.0 / 12)));
    rest            = ipu_add(b, rest, ipu__times(b, r, 0.5));
    ipu_value y     = ipu_sub(b, ipu_log(b, s.z), rest);
    y               = ipu_sub(b, y, summed_below(b, &s, ipu_reciprocal));
    ipu_value angle = from_whole(b, x, is_left, 0.25), pi = number(b, x, M_PI);
    y                  = ipu_where(b, is_left, ipu_sub(b, y, ipu_div(b, pi, ipu_tan(b, angle))), y);
    ipu_value is_below = ipu_less(b, x, number(b, x, 0));
    ipu_value is_pole  = ipu_logical_and(b, is_below, ipu_equal(b, ipu_round(b, x), x));
    return ipu_where(b, is_pole, number(b, x, NAN), y);
}

static ipu_value one_over_square(ipu_builder *b, ipu_value x) { return ipu_square(b, ipu_reciprocal(b, x)); }

static ipu_value trigamma(ipu_builder *b, ipu_value x)
{
    ipu_value is_left, right = reflected(b, x, &is_left);
    shifted   s    = shift(b, right);
    ipu_value r    = ipu_reciprocal(b, s.z);
    ipu_value r2   = ipu_square(b, r);
    ipu_value rest = ipu_mul(b, r, polynomial(b, r2, SERIES(1.0 / 42, -1.0 / 30, 1.0 / 6, 1)));
    rest           = ipu_add(b, rest, ipu__times(b, r2, 0.5));
    ipu_value y    = ipu_add(b, rest, summed_below(b, &s, one_over_square));
    ipu_value sine = ipu_sin(b, from_whole(b, x, is_left, 0.5));
    ipu_value pole = ipu_square(b, ipu_div(b, number(b, x, M_PI), sine));
    return ipu_where(b, is_left, ipu_sub(b, pole, y), y);
}

/* ---- modified Bessel functions of the first kind ---- */

/* Polynomials of Abramowitz and Stegun 9.8.1 to 9.8.4: in (x / 3.75)^2 near 0, in 3.75 / x beyond. */
static const double i0_near[] = {0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0};
static const double i0_far[]  = {0.00392377,  -0.01647633, 0.02635537, -0.02057706, 0.00916281,
                                 -0.00157565, 0.00225319,  0.01328592, 0.39894228};
static const double i1_near[] = {0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5};
static const double i1_far[]  = {-0.00420059, 0.01787654,  -0.02895312, 0.02282967, -0.01031555,
                                 0.00163801,  -0.00362018, -0.03988024, 0.39894228};

/* `scaled`: times exp(-|x|). */
static ipu_value bessel(ipu_builder *b, ipu_value x, int order, bool scaled)
{
    series    near_series = {order ? i1_near : i0_near, IPU__COUNT(i0_near)};
    series    far_series  = {order ? i1_far : i0_far, IPU__COUNT(i0_far)};
    ipu_value size        = ipu_abs(b, x);
    ipu_value is_near     = ipu_less(b, size, number(b, x, 3.75));
    ipu_value inner       = only_where(b, is_near, size, 0);
    ipu_value outer       = ipu_where(b, is_near, number(b, x, 3.75), size);
    ipu_value near        = polynomial(b, ipu_square(b, ipu__times(b, inner, 1 / 3.75)), near_series);
    ipu_value far         = polynomial(b, ipu_div(b, number(b, x, 3.75), outer), far_series);
    far                   = ipu_mul(b, far, ipu_rsqrt(b, outer));
    if (scaled)
        near = ipu_mul(b, near, ipu_exp(b, ipu_neg(b, inner)));
    else
        far = ipu_mul(b, far, ipu_exp(b, outer));
    if (order == 1) near = ipu_mul(b, near, inner);
    ipu_value y = ipu_where(b, is_near, near, far);
    return order == 1 ? ipu_mul(b, y, ipu_sign(b, x)) : y;
}

static ipu_value i0(ipu_builder *b, ipu_value x) { return bessel(b, x, 0, false); }
static ipu_value i0e(ipu_builder *b, ipu_value x) { return bessel(b, x, 0, true); }
static ipu_value i1(ipu_builder *b, ipu_value x) { return bessel(b, x, 1, false); }
static ipu_value i1e(ipu_builder *b, ipu_value x) { return bessel(b, x, 1, true); }

/* ---- records ---- */

enum { X, Y, ORDER_0 = 0, ORDER_1 };

static ipu_status alike(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    *out = call->operand[X];
    return IPU_OK;
}

static const ipu__kernel_operand one_in[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand two_in[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT("out")};

#define RECORD(op, list, attributes_, n_attributes_, infer_, text) \
    const ipu__op_def ipu__op_##op = {                             \
        .kernel       = {.name       = #op,                        \
                         .operands   = list,                       \
                         .n_operands = (int)IPU__COUNT(list),      \
                         .check      = ipu__op_check},                  \
        .n_in         = (int)IPU__COUNT(list) - 1,                 \
        .family       = "special",                                 \
        .summary      = (text),                                    \
        .attributes   = (attributes_),                             \
        .n_attributes = (n_attributes_),                           \
        .infer        = infer_,                                    \
        .compose      = op##_compose,                              \
        .samples      = op##_samples,                              \
    }

/* One input, no attributes: value, ranges that tests draw from. */
#define FUNCTION(op, value, range, range2, text)                                                \
    static void op##_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, \
                             ipu_value *out)                                                    \
    {                                                                                           \
        out[0] = ipu__as_type(b, value(b, ipu__wide(b, in[X])), call->operand[X].type);         \
    }                                                                                           \
    static const char *const op##_samples[] = {"float[23]{" range "}", "float[3,0]",            \
                                               "float[2,5]{" range2 "}", NULL};                 \
    RECORD(op, one_in, NULL, 0, alike, text);                                                   \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x) { return ipu__emit1(b, #op, NULL, 0, IPU__IN(x)); }

FUNCTION(erfinv, erfinv, "-0.97,0.97", "-0.5,0.5", "inverse of erf")
FUNCTION(ndtri, ndtri, "0.05,0.95", "0.3,0.7", "inverse of the normal distribution function")
FUNCTION(erfcx, erfcx, "-2,3.9", "4.1,20", "exp(x^2) erfc(x)")
FUNCTION(log_ndtr, log_ndtr, "-0.9,4", "-20,-1.1", "logarithm of the normal distribution function")
FUNCTION(sinc, sinc, "0.1,3", "-3,-0.1", "sin(pi x) / (pi x)")
FUNCTION(entr, entr, "0.1,3", "0.2,0.9", "-x log(x), -infinity below 0")
FUNCTION(lgamma, lgamma_of, "0.6,12", "-2.9,-2.1", "log |gamma(x)|")
FUNCTION(digamma, digamma, "0.6,12", "-2.8,-2.2", "derivative of lgamma")
FUNCTION(i0, i0, "-3.7,3.7", "3.8,7", "modified Bessel function of the first kind and order 0")
FUNCTION(i0e, i0e, "-3.7,3.7", "3.8,12", "exp(-|x|) i0(x)")
FUNCTION(i1, i1, "0.1,3.7", "-7,-3.8", "modified Bessel function of the first kind and order 1")
FUNCTION(i1e, i1e, "0.1,3.7", "-12,-3.8", "exp(-|x|) i1(x)")

/* Two inputs of one type, which are broadcast. */
static ipu_status pair_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    out->type = call->operand[X].type;
    return ipu__op_broadcast(call, 2, &out->shape);
}

#define FUNCTION_OF_2(op, value, range, range2, text)                                                \
    static void op##_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,      \
                             ipu_value *out)                                                         \
    {                                                                                                \
        ipu_value x = ipu__wide(b, in[X]), y = ipu__wide(b, in[Y]);                                  \
        out[0] = ipu__as_type(b, value(b, x, y), call->operand[X].type);                             \
    }                                                                                                \
    static const char *const op##_samples[] = {"float[23]{" range "}, float[23]{" range2 "}",        \
                                               "float[3,1]{" range "}, float[4]{" range2 "}",        \
                                               "float[2,0]{" range "}, float[1]{" range2 "}", NULL}; \
    RECORD(op, two_in, NULL, 0, pair_infer, text);                                                   \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, ipu_value y)                                     \
    {                                                                                                \
        return ipu__emit1(b, #op, NULL, 0, IPU__IN(x, y));                                           \
    }

FUNCTION_OF_2(xlogy, xlogy, "-2,2", "0.3,3", "x log(y), 0 where x is 0")
FUNCTION_OF_2(xlog1py, xlog1py, "-2,2", "-0.6,3", "x log(1 + y), 0 where x is 0")
FUNCTION_OF_2(logaddexp, ipu__log_add_exp, "-2,0", "0.1,2", "log(exp(x) + exp(y))")
FUNCTION_OF_2(logaddexp2, log_add_exp2, "-2,0", "0.1,2", "logarithm of base 2 of 2^x + 2^y")

static void logit_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    double    eps = ipu__op_float(call, "eps");
    ipu_value x   = ipu__wide(b, in[X]);
    if (eps >= 0) x = ipu_clip(b, x, eps, 1 - eps);
    ipu_value odds = ipu_div(b, x, ipu__from(b, 1, x));
    out[0]         = ipu__as_type(b, ipu_log(b, odds), call->operand[X].type);
}

static const ipu_op_attribute logit_attributes[] = {
    {.name      = "eps",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = -1,
     .meaning   = "how far x is kept from 0 and 1; negative: it is not"}};
static const char *const logit_samples[] = {"float[23]{0.1,0.9}", "float[3,5]{0.25,0.75}; eps=0.2", NULL};
RECORD(logit, one_in, logit_attributes, 1, alike, "log(x / (1 - x))");

ipu_value ipu_logit(ipu_builder *b, ipu_value x, double eps)
{
    return ipu__emit1(b, "logit", IPU__WITH(IPU_FLOAT_ATTRIBUTE("eps", eps)), IPU__IN(x));
}

/* ---- with an order ---- */

enum { MOST_DIMENSIONS = 1000 /* of mvlgamma, each of which is some thirty ops */ };

static ipu_status mvlgamma_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t p = ipu__op_int(call, "p");
    if (p < 1 || p > MOST_DIMENSIONS)
        return ipu__fail(IPU_INVALID, "mvlgamma: p = %lld: expected 1 to %d", (long long)p, MOST_DIMENSIONS);
    return alike(call, out);
}

static void mvlgamma_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    int       p = (int)ipu__op_int(call, "p");
    ipu_value x = ipu__wide(b, in[X]), y = lgamma_of(b, x);
    for (int k = 1; k < p; k++) y = ipu_add(b, y, lgamma_of(b, ipu__minus(b, x, k / 2.0)));
    out[0] = ipu__as_type(b, ipu__plus(b, y, p * (p - 1) / 4.0 * log(M_PI)), call->operand[X].type);
}

static ipu_status polygamma_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t order = ipu__op_int(call, "order");
    if (order == ORDER_0 || order == ORDER_1) return alike(call, out);
    return ipu__fail(IPU_INVALID, "polygamma: order %lld is not supported, only 0 and 1", (long long)order);
}

static void polygamma_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    ipu_value x = ipu__wide(b, in[X]);
    ipu_value y = ipu__op_int(call, "order") == ORDER_0 ? digamma(b, x) : trigamma(b, x);
    out[0]      = ipu__as_type(b, y, call->operand[X].type);
}

static const ipu_op_attribute mvlgamma_attributes[] = {
    {.name = "p", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "dimensions, at least 1"}};
static const ipu_op_attribute polygamma_attributes[] = {{.name     = "order",
                                                         .kind     = IPU_ATTRIBUTE_INT,
                                                         .required = true,
                                                         .meaning  = "which derivative of digamma: 0 or 1"}};

static const char *const mvlgamma_samples[]  = {"float[7]{1.6,9}; p=1", "float[7]{1.6,9}; p=3", NULL};
static const char *const polygamma_samples[] = {"float[23]{0.6,12}; order=0", "float[23]{0.6,12}; order=1",
                                                "float[5]{-2.8,-2.2}; order=1", NULL};

RECORD(mvlgamma, one_in, mvlgamma_attributes, 1, mvlgamma_infer,
       "logarithm of the multivariate gamma function");
RECORD(polygamma, one_in, polygamma_attributes, 1, polygamma_infer, "derivatives of digamma");

ipu_value ipu_mvlgamma(ipu_builder *b, ipu_value x, int p)
{
    return ipu__emit1(b, "mvlgamma", IPU__WITH(IPU_INT_ATTRIBUTE("p", p)), IPU__IN(x));
}

ipu_value ipu_polygamma(ipu_builder *b, ipu_value x, int order)
{
    return ipu__emit1(b, "polygamma", IPU__WITH(IPU_INT_ATTRIBUTE("order", order)), IPU__IN(x));
}

/* ---- common divisors ---- */

/* Steps of Euclid's algorithm: no two numbers of a type need more. */
static int euclid_steps(ipu_type type)
{
    switch (ipu_type_size(type)) {
    case 1: return type == IPU_INT8 ? 12 : 13;
    case 2: return 24;
    case 4: return 47;
    default: return 93;
    }
}

static ipu_status divisor_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    if (!ipu__op_is_integer(call->operand[X].type)) return ipu__op_want_integer(call, X);
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    out->type = call->operand[X].type;
    return ipu__op_broadcast(call, 2, &out->shape);
}

static ipu_value divisor(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in)
{
    ipu_value x = ipu_abs(b, in[X]), y = ipu_abs(b, in[Y]), zero = number(b, x, 0);
    x = ipu_expand(b, x, call->operand[Y + 1].shape);
    y = ipu_expand(b, y, call->operand[Y + 1].shape);
    for (int i = 0; i < euclid_steps(call->operand[X].type); i++) {
        ipu_value is_found = ipu_equal(b, y, zero), rest = ipu_mod(b, x, y);
        x = ipu_where(b, is_found, x, y);
        y = ipu_where(b, is_found, y, rest);
    }
    return x;
}

static void gcd_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = divisor(b, call, in);
}

static void lcm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value by = divisor(b, call, in), safe = ipu_maximum(b, by, number(b, by, 1));
    out[0] = ipu_abs(b, ipu_mul(b, ipu_div(b, in[X], safe), in[Y]));
}

static const char *const gcd_samples[] = {"int32[9], int32[9]", "int32[2,1]{-30,30}, int32[3]{1,30}",
                                          "int64[3], int64[3]", NULL};
#define lcm_samples gcd_samples
RECORD(gcd, two_in, NULL, 0, divisor_infer, "greatest common divisor of integers");
RECORD(lcm, two_in, NULL, 0, divisor_infer, "least common multiple of integers");

ipu_value ipu_gcd(ipu_builder *b, ipu_value x, ipu_value y)
{
    return ipu__emit1(b, "gcd", NULL, 0, IPU__IN(x, y));
}
ipu_value ipu_lcm(ipu_builder *b, ipu_value x, ipu_value y)
{
    return ipu__emit1(b, "lcm", NULL, 0, IPU__IN(x, y));
}
