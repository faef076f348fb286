/* Elementwise ops in ONNX: those with attributes, and those that it has no name for. */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op.h"
#include "onnx/export/export.h"

/* ---- one node with numbers ---- */

static bool put_alpha(ipu__wop *o, const char *onnx_op, double alpha)
{
    /* ONNX's numbers are floats, which is too little for a double. */
    if (o->call.operand[0].type == IPU_DOUBLE && alpha != (float)alpha) return false;
    Ipu__NodeProto *node = ipu__put_same(o, onnx_op, 1, 1);
    if (node) ipu__put_float(o->w, node, "alpha", alpha);
    return node;
}

bool ipu__write_leaky_relu(ipu__wop *o)
{
    return put_alpha(o, "LeakyRelu", ipu__op_float(&o->call, "alpha"));
}

bool ipu__write_elu(ipu__wop *o) { return put_alpha(o, "Elu", ipu__op_float(&o->call, "alpha")); }
bool ipu__write_celu(ipu__wop *o) { return put_alpha(o, "Celu", ipu__op_float(&o->call, "alpha")); }

bool ipu__write_selu(ipu__wop *o)
{
    return o->call.operand[0].type != IPU_DOUBLE && ipu__put_same(o, "Selu", 1, 1);
}

bool ipu__write_softplus(ipu__wop *o)
{
    bool is_plain = ipu__op_float(&o->call, "beta") == 1 && ipu__op_float(&o->call, "threshold") >= 20;
    return is_plain && o->call.operand[0].type != IPU_DOUBLE && ipu__put_same(o, "Softplus", 1, 1);
}

bool ipu__write_hardsigmoid(ipu__wop *o)
{
    if (o->call.operand[0].type == IPU_DOUBLE) return false;
    Ipu__NodeProto *node = ipu__put_same(o, "HardSigmoid", 1, 1);
    if (node) ipu__put_float(o->w, node, "alpha", 1.0 / 6);
    if (node) ipu__put_float(o->w, node, "beta", 0.5);
    return node;
}

bool ipu__write_shrink(ipu__wop *o)
{
    double edge = ipu__op_float(&o->call, "lambda"), bias = ipu__op_float(&o->call, "bias");
    if (o->call.operand[0].type == IPU_DOUBLE && ((float)edge != edge || (float)bias != bias)) return false;
    Ipu__NodeProto *node = ipu__put_same(o, "Shrink", 1, 1);
    if (node) ipu__put_float(o->w, node, "lambd", edge);
    if (node) ipu__put_float(o->w, node, "bias", bias);
    return node;
}

bool ipu__write_hardswish(ipu__wop *o)
{
    return o->call.operand[0].type != IPU_DOUBLE && ipu__put_same(o, "HardSwish", 1, 1);
}

bool ipu__write_neg(ipu__wop *o)
{
    ipu_type type = o->call.operand[0].type;
    return (ipu__carrier(o->w, "Neg", type) == type) && ipu__put_same(o, "Neg", 1, 1);
}

bool ipu__write_relu(ipu__wop *o)
{
    ipu_type type = o->call.operand[0].type;
    return (ipu__carrier(o->w, "Relu", type) == type) && ipu__put_same(o, "Relu", 1, 1);
}

bool ipu__write_clip(ipu__wop *o)
{
    ipu_type own = o->call.operand[0].type, type = ipu__carrier(o->w, "Clip", own);
    double   low = ipu__op_float(&o->call, "min"), high = ipu__op_float(&o->call, "max");
    if (type == IPU_N_TYPES || !ipu__op_is_floating(own)) return false;
    if (low == -INFINITY && high == INFINITY) return ipu__put_same(o, "Identity", 1, 1);
    const char *least = low == -INFINITY ? "" : ipu__put_scalar(o->w, type, low);
    const char *most  = high == INFINITY ? "" : ipu__put_scalar(o->w, type, high);
    ipu__put(o->w, "Clip", IPU__NAMES(ipu__take_as(o, 0, type), least, most), ipu__give_as(o, 0, type));
    return true;
}

/* ONNX broadcasts the slope only, not x. */
bool ipu__write_prelu(ipu__wop *o)
{
    return ipu__shape_equal(&o->call.operand[0].shape, &o->call.operand[2].shape)
        && ipu__put_same(o, "PRelu", 2, 1);
}

bool ipu__write_mod(ipu__wop *o)
{
    return !ipu__op_is_floating(o->call.operand[0].type) && ipu__put_same(o, "Mod", 2, 1);
}

bool ipu__write_fmod(ipu__wop *o)
{
    Ipu__NodeProto *node = ipu__put_same(o, "Mod", 2, 1);
    if (node) ipu__put_int(o->w, node, "fmod", 1);
    return node;
}

bool ipu__write_where(ipu__wop *o)
{
    ipu_type type = ipu__carrier(o->w, "Where", o->call.operand[1].type);
    ipu__put(o->w, "Where", IPU__NAMES(ipu__take(o, 0), ipu__take_as(o, 1, type), ipu__take_as(o, 2, type)),
             ipu__give_as(o, 0, type));
    return true;
}

bool ipu__write_cast(ipu__wop *o)
{
    ipu__put_cast(o->w, ipu__take(o, 0), o->call.operand[1].type, o->out[0]);
    return true;
}

/* Bits of integers are known to ONNX from opset 18 on. */
#define BITWISE(op, onnx, n_in)                                                        \
    bool ipu__write_##op(ipu__wop *o)                                                  \
    {                                                                                  \
        return o->call.operand[0].type == IPU_BOOL && ipu__put_same(o, onnx, n_in, 1); \
    }
BITWISE(bitwise_not, "Not", 1)
BITWISE(bitwise_and, "And", 2)
BITWISE(bitwise_or, "Or", 2)
BITWISE(bitwise_xor, "Xor", 2)

static bool put_shift(ipu__wop *o, const char *direction)
{
    ipu_type type = o->call.operand[0].type;
    if (ipu__carrier(o->w, "BitShift", type) != type) return false;
    Ipu__NodeProto *node = ipu__put_same(o, "BitShift", 2, 1);
    ipu__put_text(o->w, node, "direction", direction);
    return true;
}
bool ipu__write_shift_left(ipu__wop *o) { return put_shift(o, "LEFT"); }
bool ipu__write_shift_right(ipu__wop *o) { return put_shift(o, "RIGHT"); }

/* ---- in simpler ops ----
 * COMPOSE1(op, expression of b, x and attributes F(name)) */

#define K(v) ipu_scalar_like(b, x, (v))
#define F(name) ipu__op_float(call, name)
#define COMPOSE1(op, value)                                                                   \
    void ipu__rewrite_##op(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, \
                           ipu_value *out)                                                    \
    {                                                                                         \
        ipu_value x = in[0];                                                                  \
        (void)call;                                                                           \
        out[0] = (value);                                                                     \
    }
#define COMPOSE2(op, value)                                                                   \
    void ipu__rewrite_##op(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, \
                           ipu_value *out)                                                    \
    {                                                                                         \
        ipu_value x = in[0], y = in[1];                                                       \
        (void)call;                                                                           \
        out[0] = (value);                                                                     \
    }

static ipu_value is_positive(ipu_builder *b, ipu_value x) { return ipu_greater(b, x, K(0)); }

/* Near 0 by tanh, which is exact there. */
static ipu_value expm1_of(ipu_builder *b, ipu_value x)
{
    ipu_value t     = ipu_tanh(b, ipu_mul(b, x, K(0.5)));
    ipu_value small = ipu_div(b, ipu_mul(b, t, K(2)), ipu_sub(b, K(1), t));
    return ipu_where(b, ipu_less(b, ipu_abs(b, x), K(0.5)), small, ipu_sub(b, ipu_exp(b, x), K(1)));
}

/* Kahan's: the error of 1 + x cancels in log(u) x / (u - 1). */
static ipu_value log1p_of(ipu_builder *b, ipu_value x)
{
    ipu_value u = ipu_add(b, x, K(1)), log_u = ipu_log(b, u);
    ipu_value small = ipu_div(b, ipu_mul(b, log_u, x), ipu_sub(b, u, K(1)));
    small           = ipu_where(b, ipu_equal(b, u, K(1)), x, small);
    return ipu_where(b, ipu_less(b, ipu_abs(b, x), K(0.5)), small, log_u);
}

static ipu_value softplus_of(ipu_builder *b, ipu_value x)
{
    return ipu_add(b, ipu_relu(b, x), log1p_of(b, ipu_exp(b, ipu_neg(b, ipu_abs(b, x)))));
}

/* Bounds that an integer type cannot hold do not bound it. */
static ipu_value clip_of(ipu_builder *b, ipu_value x, double low, double high)
{
    uint64_t bits;
    ipu_type type = ipu_value_type(x);
    if (ipu__op_is_floating(type)) return ipu_clip(b, x, low, high);
    if (ipu__value_from_double(type, low, &bits)) x = ipu_maximum(b, x, K(low));
    return ipu__value_from_double(type, high, &bits) ? ipu_minimum(b, x, K(high)) : ipu_identity(b, x);
}

/* Python's remainder from C's. */
static ipu_value mod_of(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value r = ipu_fmod(b, x, y), differ = ipu_logical_xor(b, ipu_less(b, r, K(0)), ipu_less(b, y, K(0)));
    differ = ipu_logical_and(b, differ, ipu_logical_not(b, ipu_equal(b, r, K(0))));
    return ipu_where(b, differ, ipu_add(b, r, y), r);
}

static ipu_value floor_div_of(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value q = ipu_div(b, ipu_sub(b, x, ipu_mod(b, x, y)), y);
    return ipu_value_type(q) != IPU_BOOL && ipu__op_is_floating(ipu_value_type(q)) ? ipu_round(b, q) : q;
}

static ipu_value atan2_of(ipu_builder *b, ipu_value x, ipu_value y)
{
    const double pi   = 3.14159265358979323846;
    ipu_value    half = ipu_where(b, ipu_less(b, x, K(0)), K(-pi), K(pi)), zero = K(0);
    ipu_value    away = ipu_where(b, ipu_less(b, y, zero), half, zero);
    ipu_value    side = ipu_mul(b, ipu_sign(b, x), K(pi / 2));
    return ipu_where(b, ipu_equal(b, y, zero), side, ipu_add(b, ipu_atan(b, ipu_div(b, x, y)), away));
}

static ipu_value hypot_of(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_value of_x = ipu_mul(b, x, x), of_y = ipu_mul(b, y, y);
    return ipu_sqrt(b, ipu_add(b, of_x, of_y));
}

static ipu_value gelu_tanh_of(ipu_builder *b, ipu_value x)
{
    ipu_value cube = ipu_mul(b, x, ipu_mul(b, x, x));
    ipu_value t    = ipu_tanh(b, ipu_mul(b, ipu_add(b, x, ipu_mul(b, cube, K(0.044715))),
                                         K(0.79788456080286535588)));
    return ipu_mul(b, ipu_mul(b, x, K(0.5)), ipu_add(b, t, K(1)));
}

static ipu_value gelu_of(ipu_builder *b, ipu_value x)
{
    ipu_value both = ipu_add(b, ipu_erf(b, ipu_mul(b, x, K(0.70710678118654752440))), K(1));
    return ipu_mul(b, ipu_mul(b, x, K(0.5)), both);
}

static ipu_value gelu_slope_of(ipu_builder *b, ipu_value x)
{
    ipu_value both    = ipu_add(b, ipu_erf(b, ipu_mul(b, x, K(0.70710678118654752440))), K(1));
    ipu_value density = ipu_mul(b, ipu_exp(b, ipu_mul(b, ipu_mul(b, x, x), K(-0.5))),
                                K(0.39894228040143267794));
    return ipu_add(b, ipu_mul(b, both, K(0.5)), ipu_mul(b, x, density));
}

static ipu_value beta_softplus(ipu_builder *b, ipu_value x, double beta, double threshold)
{
    ipu_value t = ipu_mul(b, x, K(beta));
    return ipu_where(b, ipu_greater(b, t, K(threshold)), x, ipu_div(b, softplus_of(b, t), K(beta)));
}

static ipu_value elu_of(ipu_builder *b, ipu_value x, double scale, double alpha, double beta)
{
    ipu_value low = ipu_mul(b, expm1_of(b, ipu_mul(b, ipu_minimum(b, x, K(0)), K(beta))), K(scale * alpha));
    return ipu_where(b, is_positive(b, x), ipu_mul(b, x, K(scale)), low);
}

static ipu_value shrink_of(ipu_builder *b, ipu_value x, double edge, double bias)
{
    ipu_value low = ipu_where(b, ipu_less(b, x, K(-edge)), ipu_add(b, x, K(bias)), K(0));
    return ipu_where(b, ipu_greater(b, x, K(edge)), ipu_sub(b, x, K(bias)), low);
}

static ipu_value hardsigmoid_of(ipu_builder *b, ipu_value x)
{
    return ipu_div(b, ipu_clip(b, ipu_add(b, x, K(3)), 0, 6), K(6));
}

static ipu_value isfinite_of(ipu_builder *b, ipu_value x)
{
    return ipu_logical_not(b, ipu_logical_or(b, ipu_isnan(b, x), ipu_isinf(b, x)));
}

/* ONNX has erf alone, and 1 - erf(x) has lost its digits where erf is close to 1. There it is t exp(-x^2 + P(t)) with
 * t = 1 / (1 + x / 2), and P as in Numerical Recipes (6.2): relative errors of at most 1.2e-7, those of a float. */
static ipu_value erfc_of(ipu_builder *b, ipu_value x)
{
    static const double p[]    = {0.17087277,  -0.82215223, 1.48851587, -1.13520398, 0.27886807,
                                  -0.18628806, 0.09678418,  0.37409196, 1.00002368,  -1.26551223};
    ipu_value           by_erf = ipu_sub(b, K(1), ipu_erf(b, x));
    if (ipu_value_type(x) != IPU_FLOAT) return by_erf;
    ipu_value high = ipu_maximum(b, x, K(0.5));
    ipu_value t    = ipu_reciprocal(b, ipu_add(b, ipu_mul(b, high, K(0.5)), K(1)));
    ipu_value sum  = K(p[0]);
    for (size_t i = 1; i < sizeof p / sizeof *p; i++) sum = ipu_add(b, ipu_mul(b, sum, t), K(p[i]));
    ipu_value tail = ipu_mul(b, t, ipu_exp(b, ipu_sub(b, sum, ipu_mul(b, high, high))));
    return ipu_where(b, ipu_greater(b, x, K(0.5)), tail, by_erf);
}

COMPOSE1(neg, ipu_sub(b, K(0), x))
COMPOSE1(relu, ipu_maximum(b, x, K(0)))
COMPOSE1(leaky_relu, ipu_where(b, is_positive(b, x), x, ipu_mul(b, x, K(F("alpha")))))
COMPOSE1(elu, elu_of(b, x, 1, F("alpha"), 1))
COMPOSE1(celu, elu_of(b, x, 1, F("alpha"), 1 / F("alpha")))
COMPOSE1(selu, elu_of(b, x, 1.0507009873554805, 1.6732632423543772, 1))
COMPOSE1(softplus, beta_softplus(b, x, F("beta"), F("threshold")))
COMPOSE1(shrink, shrink_of(b, x, F("lambda"), F("bias")))
COMPOSE1(hardsigmoid, hardsigmoid_of(b, x))
COMPOSE1(hardswish, ipu_mul(b, x, hardsigmoid_of(b, x)))
COMPOSE1(clip, clip_of(b, x, F("min"), F("max")))
COMPOSE1(hardtanh, clip_of(b, x, F("min"), F("max")))
COMPOSE1(relu6, clip_of(b, x, 0, 6))
COMPOSE1(square, ipu_mul(b, x, x))
COMPOSE1(rsqrt, ipu_reciprocal(b, ipu_sqrt(b, x)))
COMPOSE1(exp2, ipu_pow(b, K(2), x))
COMPOSE1(expm1, expm1_of(b, x))
COMPOSE1(log2, ipu_mul(b, ipu_log(b, x), K(1.44269504088896340736)))
COMPOSE1(log10, ipu_mul(b, ipu_log(b, x), K(0.43429448190325182765)))
COMPOSE1(log1p, log1p_of(b, x))
COMPOSE1(erfc, erfc_of(b, x))
COMPOSE1(log_sigmoid, ipu_neg(b, softplus_of(b, ipu_neg(b, x))))
COMPOSE1(gelu, gelu_of(b, x))
COMPOSE1(gelu_tanh, gelu_tanh_of(b, x))
COMPOSE1(gelu_slope, gelu_slope_of(b, x))
COMPOSE1(silu, ipu_mul(b, x, ipu_sigmoid(b, x)))
COMPOSE1(mish, ipu_mul(b, x, ipu_tanh(b, softplus_of(b, x))))
COMPOSE1(tanhshrink, ipu_sub(b, x, ipu_tanh(b, x)))
COMPOSE1(threshold, ipu_where(b, ipu_greater(b, x, K(F("threshold"))), x, K(F("value"))))
COMPOSE1(trunc, ipu_mul(b, ipu_sign(b, x), ipu_floor(b, ipu_abs(b, x))))
COMPOSE1(isfinite, isfinite_of(b, x))
COMPOSE2(prelu, ipu_where(b, is_positive(b, x), x, ipu_mul(b, x, y)))
COMPOSE2(mod, mod_of(b, x, y))
COMPOSE2(not_equal, ipu_logical_not(b, ipu_equal(b, x, y)))
COMPOSE2(floor_div, floor_div_of(b, x, y))
COMPOSE2(atan2, atan2_of(b, x, y))
COMPOSE2(hypot, hypot_of(b, x, y))
COMPOSE2(squared_difference, ipu_square(b, ipu_sub(b, x, y)))
