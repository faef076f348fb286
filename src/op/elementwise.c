/* Elementwise ops by their references alone: every element in double, rounded once. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/elementwise.h"
#include "op/op.h"

#define C(v) (v)
#define NEG(x) (-(x))
#define ABS(x) fabs(x)
#define SIGN(x) (((x) > 0) - ((x) < 0))
#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
#define DIV(x, y) ((x) / (y))
#define SQRT sqrt
#define EXP exp
#define EXP2 exp2
#define EXPM1 expm1
#define LOG log
#define LOG1P log1p
#define SIN sin
#define COS cos
#define TAN tan
#define ASIN asin
#define ACOS acos
#define ATAN atan
#define SINH sinh
#define COSH cosh
#define TANH tanh
#define ASINH asinh
#define ACOSH acosh
#define ATANH atanh
#define ERF erf
#define ERFC erfc
#define MIN(x, y) ((x) != (x) ? (x) : (x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) != (x) ? (x) : (x) > (y) ? (x) : (y))
#define NEGATIVE(x) ((x) < 0)
#define CLIP(x, lo, hi) ((x) < (lo) ? (lo) : (x) > (hi) ? (hi) : (x))
#define FLOOR floor
#define CEIL ceil
#define ROUND nearbyint
#define TRUNC trunc
#define NOT(x) ((double)~(int64_t)(x))
#define POW pow
#define ATAN2 atan2
#define FMOD fmod
#define FLOOR_DIV(x, y) floor((x) / (y))
#define MOD(x, y) ((x)-floor((x) / (y)) * (y))
#define SHIFT_LEFT(x, y) ((x)*exp2(y))
#define SHIFT_RIGHT(x, y) floor((x) / exp2(y))

#define UNARY(name, n, types, form, value, ...)           \
    static double name##_of(double x, double p, double q) \
    {                                                     \
        (void)p, (void)q;                                 \
        return value;                                     \
    }
#include "op/unary.inc"
#undef UNARY
static double logical_and_of(double x, double y) { return x && y; }
static double logical_or_of(double x, double y) { return x || y; }
static double logical_xor_of(double x, double y) { return !x != !y; }
static double bitwise_and_of(double x, double y) { return (double)((int64_t)x & (int64_t)y); }
static double bitwise_or_of(double x, double y) { return (double)((int64_t)x | (int64_t)y); }
static double bitwise_xor_of(double x, double y) { return (double)((int64_t)x ^ (int64_t)y); }
#define SKIP_LOGICAL(name, value)
#define KEEP(name, value) \
    static double name##_of(double x, double y) { return value; }
#define BY_NUMBER KEEP
#define BY_FLOATING KEEP
#define BY_COMPARE KEEP
#define BY_SHIFT KEEP
#define BY_LOGICAL SKIP_LOGICAL
#define BY_INTEGER SKIP_LOGICAL
#define BINARY(name, types, form, value, ...) BY_##types(name, value)
#include "op/binary.inc"
#undef BINARY

static double where_of(double c, double x, double y) { return c ? x : y; }

static double load(ipu_type type, const void *p, int64_t i)
{
    switch (type) {
    case IPU_BOOL: return ((const bool *)p)[i];
    case IPU_INT8: return ((const int8_t *)p)[i];
    case IPU_UINT8: return ((const uint8_t *)p)[i];
    case IPU_INT16: return ((const int16_t *)p)[i];
    case IPU_UINT16: return ((const uint16_t *)p)[i];
    case IPU_INT32: return ((const int32_t *)p)[i];
    case IPU_UINT32: return ((const uint32_t *)p)[i];
    case IPU_INT64: return (double)((const int64_t *)p)[i];
    case IPU_UINT64: return (double)((const uint64_t *)p)[i];
    case IPU_HALF: return ipu_half_to_float(((const ipu_half *)p)[i]);
    case IPU_BFLOAT16: return ipu_bfloat16_to_float(((const ipu_bfloat16 *)p)[i]);
    case IPU_FLOAT: return ((const float *)p)[i];
    default: return ((const double *)p)[i];
    }
}

static void store(ipu_type type, void *p, int64_t i, double v)
{
    switch (type) {
    case IPU_BOOL: ((bool *)p)[i] = v != 0; break;
    case IPU_INT8: ((int8_t *)p)[i] = (int8_t)(int64_t)v; break;
    case IPU_UINT8: ((uint8_t *)p)[i] = (uint8_t)(int64_t)v; break;
    case IPU_INT16: ((int16_t *)p)[i] = (int16_t)(int64_t)v; break;
    case IPU_UINT16: ((uint16_t *)p)[i] = (uint16_t)(int64_t)v; break;
    case IPU_INT32: ((int32_t *)p)[i] = (int32_t)(int64_t)v; break;
    case IPU_UINT32: ((uint32_t *)p)[i] = (uint32_t)(int64_t)v; break;
    case IPU_INT64: ((int64_t *)p)[i] = (int64_t)v; break;
    case IPU_UINT64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case IPU_HALF: ((ipu_half *)p)[i] = ipu_half_from_float((float)v); break;
    case IPU_BFLOAT16: ((ipu_bfloat16 *)p)[i] = ipu_bfloat16_from_float((float)v); break;
    case IPU_FLOAT: ((float *)p)[i] = (float)v; break;
    default: ((double *)p)[i] = v;
    }
}

static int64_t index_in(const ipu_shape *out, const ipu_shape *in, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = 1; d <= out->rank; d++) {
        int64_t n = out->dim[out->rank - d], c = i % n;
        i /= n;
        if (d <= in->rank) {
            if (in->dim[in->rank - d] != 1) at += c * stride;
            stride *= in->dim[in->rank - d];
        }
    }
    return at;
}

static double one(double x, double p, double q, double (*f)(double, double, double)) { return f(x, p, q); }

#define REF(name, n_in, expression)                                             \
    static void name##_ref(const ipu_kernel_call *call, void *const *operand)   \
    {                                                                           \
        const ipu_kernel_value *out = &call->operand[n_in];                     \
        int64_t                 n   = ipu__op_n_elements(&out->shape);          \
        double                  p = PARAM(name, 0), q = PARAM(name, 1);         \
        for (int64_t i = 0; i < n; i++) {                                       \
            double v[3];                                                        \
            (void)p, (void)q;                                                   \
            for (int k = 0; k < n_in; k++)                                      \
                v[k] = load(call->operand[k].type, operand[k],                  \
                            index_in(&out->shape, &call->operand[k].shape, i)); \
            store(out->type, operand[n_in], i, expression);                     \
        }                                                                       \
    }
static double param(const ipu_kernel_call *call, int i)
{
    const ipu_op_def *op = ipu__op_of(call->def);
    return (size_t)i < op->n_attributes && op->attributes[i].kind == IPU_ATTRIBUTE_FLOAT
             ? ipu__op_float(call, op->attributes[i].name)
             : 0;
}
#define PARAM(name, i) param(call, i)

static double work(const ipu_kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[call->n_operands - 1].shape);
}

static ipu_status plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu__op_loop loop = {26, 1, 7};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[call->n_operands - 1].shape), 1,
                              target, out));
    out->basis = "estimate";
    return IPU_OK;
}

static ipu_status infer_same(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    int n = ipu__op_of(call->def)->n_in;
    for (int i = 1; i < n; i++) IPU_TRY(ipu__op_want_same_type(call, 0, i));
    out->type = call->operand[0].type;
    return ipu__op_broadcast(call, n, &out->shape);
}

static ipu_status infer_bool(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(infer_same(call, out));
    out->type = IPU_BOOL;
    return IPU_OK;
}

static ipu_status infer_floating(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    return infer_same(call, out);
}
#undef NEG
#undef ABS
#undef SIGN
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef EXP
#undef SQRT
#undef SIN
#undef COS
#undef SINH
#undef COSH
#undef FLOOR
#undef TRUNC

#define E1(n, x) ipu__emit1(b, n, NULL, 0, IPU__IN(x))
#define E2(n, x, y) ipu__emit1(b, n, NULL, 0, IPU__IN(x, y))
#define NEG(x) E1("neg", x)
#define ABS(x) E1("abs", x)
#define SIGN(x) E1("sign", x)
#define SQUARE(x) E1("square", x)
#define RSQRT(x) E1("rsqrt", x)
#define SIGMOID(x) E1("sigmoid", x)
#define SIN(x) E1("sin", x)
#define COS(x) E1("cos", x)
#define SINH(x) E1("sinh", x)
#define COSH(x) E1("cosh", x)
#define EXP(x) E1("exp", x)
#define FLOOR(x) E1("floor", x)
#define TRUNC(x) E1("trunc", x)
#define ADD(x, y) E2("add", x, y)
#define SUB(x, y) E2("sub", x, y)
#define MUL(x, y) E2("mul", x, y)
#define DIV(x, y) E2("div", x, y)
#define AND(x, y) E2("logical_and", x, y)
#define GREATER(x, y) E2("greater", x, y)
#define GREATER_EQUAL(x, y) E2("greater_equal", x, y)
#define LESS_EQUAL(x, y) E2("less_equal", x, y)
#define LESS(x, y) E2("less", x, y)
#define BETWEEN(lo, x, hi) AND(GREATER(x, lo), LESS(x, hi))
#define WHERE(c, x, y) ipu__emit1(b, "where", NULL, 0, IPU__IN(c, x, y))
#define K(v) ipu_scalar_like(b, x, v)
#define P ipu_scalar_like(b, x, param(g->call, 0))
#define Q ipu_scalar_like(b, x, param(g->call, 1))
#define NONE ((ipu_value){NULL, 0})
static ipu_value erf_slope(ipu_builder *b, ipu_value x)
{
    return MUL(K(1.12837916709551257390), EXP(NEG(SQUARE(x))));
}
static ipu_value gelu_slope(ipu_builder *b, ipu_value x)
{
    ipu_value cdf = MUL(K(0.5), ADD(K(1), E1("erf", MUL(x, K(0.70710678118654752440)))));
    return ADD(cdf, MUL(x, MUL(K(0.39894228040143267794), EXP(MUL(K(-0.5), SQUARE(x))))));
}
static ipu_value gelu_tanh_slope(ipu_builder *b, ipu_value x)
{
    ipu_value u = MUL(K(1.59576912160573071176), ADD(x, MUL(K(0.044715), MUL(x, SQUARE(x))))), s = SIGMOID(u);
    ipu_value du = MUL(K(1.59576912160573071176), ADD(K(1), MUL(K(3 * 0.044715), SQUARE(x))));
    return ADD(s, MUL(x, MUL(du, MUL(s, SUB(K(1), s)))));
}
static ipu_value silu_slope(ipu_builder *b, ipu_value x)
{
    ipu_value s = SIGMOID(x);
    return MUL(s, ADD(K(1), MUL(x, SUB(K(1), s))));
}
static ipu_value mish_slope(ipu_builder *b, ipu_value x)
{
    ipu_value t = E1("tanh", E1("softplus", x));
    return ADD(t, MUL(MUL(x, SIGMOID(x)), SUB(K(1), SQUARE(t))));
}
static ipu_value hardswish_slope(ipu_builder *b, ipu_value x)
{
    ipu_value mid = DIV(ADD(MUL(K(2), x), K(3)), K(6));
    return WHERE(LESS_EQUAL(x, K(-3)), K(0), WHERE(LESS(x, K(3)), mid, K(1)));
}
static ipu_value pow_slope(ipu_builder *b, ipu_value x, ipu_value y)
{
    return MUL(y, E2("pow", x, SUB(y, K(1))));
}
static ipu_value pow_slope_y(ipu_builder *b, ipu_value x, ipu_value y, ipu_value z)
{
    (void)y;
    return MUL(z, E1("log", x));
}
static ipu_value larger(ipu_builder *b, ipu_value x, ipu_value y, ipu_value dz)
{
    ipu_value half = MUL(dz, K(0.5));
    return WHERE(GREATER(x, y), dz, WHERE(E2("equal", x, y), half, K(0)));
}

static const ipu_kernel_operand unary_operands[]  = {IPU__INPUT("x"), IPU__OUTPUT_OVER("y", IPU_SHARES_ANY)};
static const ipu_kernel_operand binary_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"),
                                                     IPU__OUTPUT_OVER("z", IPU_SHARES_ANY)};
static const ipu_kernel_operand where_operands[] = {IPU__INPUT("condition"), IPU__INPUT("x"), IPU__INPUT("y"),
                                                    IPU__OUTPUT_OVER("z", IPU_SHARES_ANY)};
static const char *const        unary_samples[]  = {"float[3,4]{0.2,0.8}", NULL};
static const char *const        binary_samples[] = {"float[3,4]{0.2,2}, float[4]{0.3,3}", NULL};
static const char *const        bool_samples[]   = {"bool[3,4]", NULL};
static const char *const        bools_samples[]  = {"bool[3,4], bool[4]", NULL};
static const char *const        int_samples[]    = {"int32[3,4]", NULL};
static const char *const        ints_samples[]   = {"int32[3,4], int32[4]", NULL};
#define A_(n, d)                                                             \
    {                                                                        \
        .name = n, .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = d, .meaning = n \
    }
static const ipu_op_attribute alpha[] = {A_("alpha", 1)}, range[] = {A_("min", -1), A_("max", 1)};
#define AT_0 NULL
#define AT_1 alpha
#define AT_2 range
#define UNARY(op, n, types, form, value, gradient, ...)             \
    REF(op, 1, one(v[0], p, q, op##_of))                            \
    static void op##_grad(ipu__gradient *g)                         \
    {                                                               \
        ipu_builder *b = g->b;                                      \
        ipu_value    x = g->in[0], y = g->out[0], dy = g->d_out[0]; \
        (void)b, (void)x, (void)y, (void)dy;                        \
        g->d_in[0] = gradient;                                      \
    }
#include "op/unary.inc"
#undef UNARY
#define BINARY(op, types, form, value, gx, gy, ...)                                 \
    REF(op, 2, op##_of(v[0], v[1]))                                                 \
    static void op##_grad(ipu__gradient *g)                                         \
    {                                                                               \
        ipu_builder *b = g->b;                                                      \
        ipu_value    x = g->in[0], y = g->in[1], z = g->out[0], dz = g->d_out[0];   \
        (void)b, (void)x, (void)y, (void)z, (void)dz;                               \
        if (g->wanted[0]) g->d_in[0] = gx;                                          \
        if (g->wanted[1]) g->d_in[1] = gy;                                          \
        for (int i = 0; i < 2; i++)                                                 \
            if (g->d_in[i].id) g->d_in[i] = ipu__sum_like(b, g->d_in[i], g->in[i]); \
    }
#include "op/binary.inc"
#undef BINARY
REF(where, 3, where_of(v[0], v[1], v[2]))

#define I_FLOATING infer_floating
#define I_NUMBER infer_same
#define I_ANY infer_same
#define I_INTEGER infer_same
#define I_BOOL infer_same
#define I_TEST infer_bool
#define I_COMPARE infer_bool
#define I_SHIFT infer_same
#define I_LOGICAL infer_same
#define F_FLOATING 0
#define F_NUMBER 0
#define F_ANY 0
#define F_INTEGER IPU__OP_NO_GRADIENT
#define F_BOOL IPU__OP_NO_GRADIENT
#define F_TEST IPU__OP_NO_GRADIENT
#define F_COMPARE IPU__OP_NO_GRADIENT
#define F_SHIFT IPU__OP_NO_GRADIENT
#define F_LOGICAL IPU__OP_NO_GRADIENT
#define S1_FLOATING unary_samples
#define S1_NUMBER unary_samples
#define S1_ANY unary_samples
#define S1_TEST unary_samples
#define S1_BOOL bool_samples
#define S1_INTEGER int_samples
#define S2_FLOATING binary_samples
#define S2_NUMBER binary_samples
#define S2_COMPARE binary_samples
#define S2_SHIFT ints_samples
#define S2_INTEGER ints_samples
#define S2_LOGICAL bools_samples
#define RECORD(op, ins, table_, t, samples_, at, n_at)                             \
    const ipu_op_def ipu__op_##op = {.kernel       = {.name       = #op,           \
                                                      .operands   = table_,        \
                                                      .n_operands = ins + 1,       \
                                                      .check      = ipu__op_check, \
                                                      .ref        = op##_ref,      \
                                                      .work       = work,          \
                                                      .plan       = plan},               \
                                     .n_in         = ins,                          \
                                     .family       = "elementwise",                \
                                     .summary      = #op,                          \
                                     .flags        = IPU__OP_ELEMENTWISE | F_##t,  \
                                     .attributes   = at,                           \
                                     .n_attributes = n_at,                         \
                                     .infer        = I_##t,                        \
                                     .grad         = op##_grad,                    \
                                     .samples      = samples_};

#define UNARY(op, n, types, ...) RECORD(op, 1, unary_operands, types, S1_##types, AT_##n, n)
#include "op/unary.inc"
#undef UNARY
#define BINARY(op, types, ...) RECORD(op, 2, binary_operands, types, S2_##types, NULL, 0)
#include "op/binary.inc"
#undef BINARY

static void where_grad(ipu__gradient *g)
{
    ipu_builder *b = g->b;
    ipu_value    x = g->d_out[0];
    if (g->wanted[1]) g->d_in[1] = ipu__sum_like(b, WHERE(g->in[0], x, K(0)), g->in[1]);
    if (g->wanted[2]) g->d_in[2] = ipu__sum_like(b, WHERE(g->in[0], K(0), x), g->in[2]);
}
static ipu_status infer_where(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__op_want_type(call, 0, IPU_BOOL));
    IPU_TRY(ipu__op_want_same_type(call, 1, 2));
    out->type = call->operand[1].type;
    return ipu__op_broadcast(call, 3, &out->shape);
}
#define I_WHERE infer_where
#define F_WHERE 0
static const char *const where_samples[] = {"bool[3,4], float[3,4], float[4]", NULL};
RECORD(where, 3, where_operands, WHERE, where_samples, NULL, 0)

static ipu_status infer_cast(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    *out = (ipu_kernel_value){ipu_type_find(ipu__op_text(call, "to")), call->operand[0].shape};
    return out->type == IPU_N_TYPES ? ipu__fail(IPU_INVALID, "cast: no such type") : IPU_OK;
}
REF(cast, 1, v[0])
static void cast_grad(ipu__gradient *g)
{
    g->d_in[0] = ipu_cast(g->b, g->d_out[0], ipu_value_type(g->in[0]));
}
static const ipu_op_attribute cast_at[] = {
    {.name = "to", .kind = IPU_ATTRIBUTE_TEXT, .required = true, .meaning = "type"}};
static const char *const cast_samples[] = {"float[3,4]; to=half", NULL};
#define I_CAST infer_cast
#define F_CAST 0
RECORD(cast, 1, unary_operands, CAST, cast_samples, cast_at, 1)

#define UNARY(op, n, ...) \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x) { return E1(#op, x); }
#include "op/unary.inc"
#undef UNARY
#define BINARY(op, ...) \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, ipu_value y) { return E2(#op, x, y); }
#include "op/binary.inc"
#undef BINARY
ipu_value ipu_where(ipu_builder *b, ipu_value c, ipu_value x, ipu_value y) { return WHERE(c, x, y); }
ipu_value ipu_cast(ipu_builder *b, ipu_value x, ipu_type type)
{
    return ipu__emit1(b, "cast", IPU__WITH(IPU_TEXT_ATTRIBUTE("to", ipu_type_name(type))), IPU__IN(x));
}
