/* Elementwise functions made of others: rounding to digits, signs, bounds by values, gated and scaled units.
 *
 * Half types are computed in float where there is more than one rounding. What the gradient is where there is none in
 * mathematics is PyTorch's choice.
 */
#include <float.h>
#include <math.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "op/compose.h"

enum { X, Y, LOW = 1, HIGH };

/* ---- inference ---- */

static ipu_status floating_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status want_number(const ipu__kernel_call *call)
{
    if (call->operand[X].type != IPU_BOOL) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"x\" must be of a floating or an integer type, found bool%s",
                     call->def->name, ipu__shape_str(&call->operand[X].shape));
}

static ipu_status pair_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_number(call));
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    out->type = call->operand[X].type;
    return ipu__op_broadcast(call, 2, &out->shape);
}

static ipu_status floating_pair_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    return pair_infer(call, out);
}

static ipu_value number(ipu_builder *b, ipu_value like, double value)
{
    return ipu_scalar_like(b, like, value);
}

/* ---- rounding ---- */

/* A power of ten below 1 would not be exact: the scale is one above it, and divides or multiplies. */
static void round_to_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    double decimals = (double)ipu__op_int(call, "decimals");
    if (decimals == 0) {
        out[0] = ipu_round(b, in[X]);
        return;
    }
    ipu_value x = ipu__wide(b, in[X]), scale = number(b, x, pow(10, fabs(decimals)));
    x      = decimals < 0 ? ipu_div(b, x, scale) : ipu_mul(b, x, scale);
    x      = ipu_round(b, x);
    x      = decimals < 0 ? ipu_mul(b, x, scale) : ipu_div(b, x, scale);
    out[0] = ipu__as_type(b, x, call->operand[X].type);
}

static void frac_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = ipu_sub(b, in[X], ipu_trunc(b, in[X]));
}

/* ---- signs ---- */

static void angle_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    ipu_value is_below = ipu_less(b, in[X], number(b, in[X], 0));
    ipu_value of_sign  = ipu_where(b, is_below, number(b, in[X], M_PI), number(b, in[X], 0));
    out[0]             = ipu_where(b, ipu_isnan(b, in[X]), in[X], of_sign);
}

static ipu_status signbit_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_number(call));
    *out = (ipu__kernel_value){IPU_BOOL, call->operand[X].shape};
    return IPU_OK;
}

/* -0 is the zero whose reciprocal is below 0. */
static ipu_value sign_bit(ipu_builder *b, ipu_value x)
{
    ipu_value zero = number(b, x, 0), is_below = ipu_less(b, x, zero);
    if (!ipu__op_is_floating(ipu_value_type(x))) return is_below;
    ipu_value of_zero = ipu_less(b, ipu_reciprocal(b, x), zero);
    of_zero           = ipu_logical_and(b, ipu_equal(b, x, zero), of_zero);
    return ipu_logical_or(b, is_below, of_zero);
}

static void signbit_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = sign_bit(b, in[X]);
}

static void copysign_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    (void)call;
    ipu_value size = ipu_abs(b, in[X]), is_minus = sign_bit(b, in[Y]);
    out[0] = ipu_where(b, is_minus, ipu_neg(b, size), size);
}

static void heaviside_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    ipu_value zero = number(b, in[X], 0);
    ipu_value step = ipu_cast(b, ipu_greater(b, in[X], zero), call->operand[X].type);
    out[0]         = ipu_where(b, ipu_equal(b, in[X], zero), in[Y], step);
}

/* ---- what is not a number ---- */

static double largest_of(ipu_type type)
{
    switch (type) {
    case IPU_HALF: return 65504;
    case IPU_BFLOAT16: return 0x1.fep127;
    case IPU_FLOAT: return (double)FLT_MAX;
    default: return DBL_MAX;
    }
}

static void nan_to_num_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    ipu_value x     = in[X], y;
    double    above = ipu__op_float(call, "above"), below = ipu__op_float(call, "below");
    double    largest = largest_of(call->operand[X].type);
    if (isnan(above)) above = largest;
    if (isnan(below)) below = -largest;
    y      = ipu_where(b, ipu_isnan(b, x), number(b, x, ipu__op_float(call, "nan")), x);
    y      = ipu_where(b, ipu_equal(b, x, number(b, x, INFINITY)), number(b, x, above), y);
    out[0] = ipu_where(b, ipu_equal(b, x, number(b, x, -INFINITY)), number(b, x, below), y);
}

/* ---- the larger and the smaller ---- */

/* x where `is_it` or y is not a number. */
static ipu_value extreme(ipu_builder *b, ipu_value is_it, ipu_value x, ipu_value y)
{
    return ipu_where(b, ipu_logical_or(b, is_it, ipu_isnan(b, y)), x, y);
}

static void fmax_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = ipu__op_is_floating(call->operand[X].type)
               ? extreme(b, ipu_greater_equal(b, in[X], in[Y]), in[X], in[Y])
               : ipu_maximum(b, in[X], in[Y]);
}

static void fmin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = ipu__op_is_floating(call->operand[X].type)
               ? extreme(b, ipu_less_equal(b, in[X], in[Y]), in[X], in[Y])
               : ipu_minimum(b, in[X], in[Y]);
}

static ipu_status clamp_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    for (int i = LOW; i <= HIGH; i++)
        if (ipu__kernel_has(call, i)) IPU_TRY(ipu__op_want_same_type(call, X, i));
    out->type = call->operand[X].type;
    return ipu__op_broadcast(call, 3, &out->shape);
}

static void clamp_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    ipu_value y = in[X];
    if (ipu__has(in[LOW])) y = ipu_where(b, ipu_less(b, y, in[LOW]), in[LOW], y);
    if (ipu__has(in[HIGH])) y = ipu_where(b, ipu_greater(b, y, in[HIGH]), in[HIGH], y);
    out[0] = y;
}

/* ---- units ---- */

static ipu_status glu_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(floating_infer(call, out));
    IPU_TRY(ipu__op_axis(call, "axis", out->shape.rank, &axis));
    if (out->shape.dim[axis] % 2)
        return ipu__fail(IPU_INVALID, "glu: dimension %d of \"x\" %s must be even: it is cut in two halves",
                         axis, ipu__shape_str(&out->shape));
    out->shape.dim[axis] /= 2;
    return IPU_OK;
}

static void glu_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis);
    int64_t   half  = call->operand[X].shape.dim[axis] / 2;
    ipu_value value = ipu_slice(b, in[X], 0, half, axis), gate = ipu_slice(b, in[X], half, 2 * half, axis);
    out[0] = ipu_mul(b, value, ipu_sigmoid(b, gate));
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }

/* With the numbers of selu it is selu. */
static void scaled_elu_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    double    alpha = ipu__op_float(call, "alpha"), scale = ipu__op_float(call, "scale");
    double    input_scale = ipu__op_float(call, "input_scale");
    ipu_value x           = in[X], zero;
    if (input_scale == 1 && is_near(alpha, 1.6732632423543772) && is_near(scale, 1.0507009873554805)) {
        out[0] = ipu_selu(b, x);
        return;
    }
    if (input_scale == 1) {
        x = ipu_elu(b, x, alpha);
    } else {
        zero            = number(b, x, 0);
        ipu_value below = ipu__times(b, ipu_minimum(b, x, zero), input_scale);
        below           = ipu__times(b, ipu_expm1(b, below), alpha);
        x               = ipu_where(b, ipu_greater(b, x, zero), x, below);
    }
    out[0] = scale == 1 ? x : ipu__times(b, x, scale);
}

/* ---- records ---- */

static const ipu__kernel_operand one_in[]   = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand two_in[]   = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT("out")};
static const ipu__kernel_operand three_in[] = {IPU__INPUT("x"), IPU__OPTIONAL("low"), IPU__OPTIONAL("high"),
                                               IPU__OUTPUT("out")};

static const ipu_op_attribute round_to_attributes[] = {
    {.name     = "decimals",
     .kind     = IPU_ATTRIBUTE_INT,
     .required = true,
     .meaning  = "digits behind the point, negative: in front of it"}};
static const ipu_op_attribute nan_to_num_attributes[] = {
    {.name = "nan", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "in place of NaN"},
    {.name      = "above",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = NAN,
     .meaning   = "in place of infinity; NaN: the largest finite number"},
    {.name      = "below",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = NAN,
     .meaning   = "in place of minus infinity; NaN: the least finite number"}};
static const ipu_op_attribute glu_attributes[]        = {{.name      = "axis",
                                                          .kind      = IPU_ATTRIBUTE_INT,
                                                          .otherwise = -1,
                                                          .meaning   = "the dimension that is cut in two halves"}};
static const ipu_op_attribute scaled_elu_attributes[] = {
    {.name      = "alpha",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1,
     .meaning   = "minus the limit far below 0, before it is scaled"},
    {.name = "scale", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "of the result"},
    {.name      = "input_scale",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1,
     .meaning   = "of x where it is not positive"}};

#define PAIRS "float[2,5], float[5]", "float[3,1]{0.3,2}, float[1,4]{-2,-0.3}"
static const char *const round_to_samples[]   = {"float[23]{-9,9}; decimals=1",
                                                 "float[3,5]{-90,90}; decimals=-1", NULL};
static const char *const frac_samples[]       = {"float[23]{-9,9}", "float[3,0]", NULL};
static const char *const angle_samples[]      = {"float[23]", NULL};
static const char *const signbit_samples[]    = {"float[23]", "int32[2,7]{-5,5}", "uint8[4]", NULL};
static const char *const copysign_samples[]   = {PAIRS, NULL};
static const char *const heaviside_samples[]  = {PAIRS, "int32[6]{-1,2}, int32[6]", NULL};
static const char *const nan_to_num_samples[] = {"float[23]", "float[5]; nan=1.5 above=3.0 below=-3.0", NULL};
static const char *const fmax_samples[]       = {PAIRS, "int32[2,7], int32[7]", NULL};
#define fmin_samples fmax_samples
static const char *const clamp_samples[]      = {"float[2,5], float[5]{-1,-0.5}, float[]{0.5,1}",
                                                 "float[5], float[2,1]{-1,0}, none", "int32[7], none, int32[7]",
                                                 "bool[4], bool[4], none", NULL};
static const char *const glu_samples[]        = {"float[3,8]", "float[4,3]; axis=0", "float[2,0]", NULL};
static const char *const scaled_elu_samples[] = {
    "float[23]", "float[23]; alpha=1.6732632423543772 scale=1.0507009873554805",
    "float[23]; alpha=0.5 scale=2.0", "float[23]; alpha=0.5 scale=2.0 input_scale=1.5", NULL};

#define RECORD(op, list, infer_, text, ...)                                            \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name       = #op,                   \
                                                  .operands   = list,                  \
                                                  .n_operands = (int)IPU__COUNT(list), \
                                                  .check      = ipu__op_check},             \
                                      .n_in    = (int)IPU__COUNT(list) - 1,            \
                                      .family  = "elementwise",                        \
                                      .summary = (text),                               \
                                      .infer   = infer_,                               \
                                      .compose = op##_compose,                         \
                                      .samples = op##_samples,                         \
                                      __VA_ARGS__}
#define WITH(op) .attributes = op##_attributes, .n_attributes = IPU__COUNT(op##_attributes)
#define PLAIN .attributes = NULL

RECORD(round_to, one_in, floating_infer, "nearest number of so many decimals, halves to even",
       WITH(round_to));
RECORD(frac, one_in, floating_infer, "x - trunc(x)", PLAIN);
RECORD(angle, one_in, floating_infer, "pi where below 0, else 0", PLAIN);
RECORD(signbit, one_in, signbit_infer, "whether it is below 0, or -0", PLAIN);
RECORD(nan_to_num, one_in, floating_infer, "finite numbers in place of NaN and infinities", WITH(nan_to_num));
RECORD(copysign, two_in, floating_pair_infer, "|x| with the sign of y", PLAIN);
RECORD(heaviside, two_in, pair_infer, "0 where x < 0, 1 where x > 0, else y", PLAIN);
RECORD(fmax, two_in, pair_infer, "the larger; the number if one is NaN", PLAIN);
RECORD(fmin, two_in, pair_infer, "the smaller; the number if one is NaN", PLAIN);
RECORD(clamp, three_in, clamp_infer, "x between low and high, which are values", PLAIN);
RECORD(glu, one_in, glu_infer, "the first half of an axis times the sigmoid of the second", WITH(glu));
RECORD(scaled_elu, one_in, floating_infer,
       "scale x where positive, else scale alpha (exp(input_scale x) - 1)", WITH(scaled_elu));

/* ---- functions ---- */

#define UNARY(op) \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x) { return ipu__emit1(b, #op, NULL, 0, IPU__IN(x)); }
#define BINARY(op)                                               \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, ipu_value y) \
    {                                                            \
        return ipu__emit1(b, #op, NULL, 0, IPU__IN(x, y));       \
    }
UNARY(frac)
UNARY(angle)
UNARY(signbit)
BINARY(copysign)
BINARY(heaviside)
BINARY(fmax)
BINARY(fmin)

ipu_value ipu_round_to(ipu_builder *b, ipu_value x, int decimals)
{
    return ipu__emit1(b, "round_to", IPU__WITH(IPU_INT_ATTRIBUTE("decimals", decimals)), IPU__IN(x));
}

ipu_value ipu_nan_to_num(ipu_builder *b, ipu_value x, double nan, double above, double below)
{
    return ipu__emit1(b, "nan_to_num",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("nan", nan), IPU_FLOAT_ATTRIBUTE("above", above),
                                IPU_FLOAT_ATTRIBUTE("below", below)),
                      IPU__IN(x));
}

ipu_value ipu_clamp(ipu_builder *b, ipu_value x, ipu_value low, ipu_value high)
{
    return ipu__emit1(b, "clamp", NULL, 0, IPU__IN(x, low, high));
}

ipu_value ipu_glu(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "glu", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), IPU__IN(x));
}

ipu_value ipu_scaled_elu(ipu_builder *b, ipu_value x, double alpha, double scale, double input_scale)
{
    return ipu__emit1(b, "scaled_elu",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("alpha", alpha), IPU_FLOAT_ATTRIBUTE("scale", scale),
                                IPU_FLOAT_ATTRIBUTE("input_scale", input_scale)),
                      IPU__IN(x));
}
