/* Until the headers of other families are here: their functions, by name. */
#ifndef IPU_OP_REDUCE_EMIT_H
#define IPU_OP_REDUCE_EMIT_H
#include "op/op.h"
#define U1(n)                                                    \
    static inline ipu_value ipu_##n(ipu_builder *b, ipu_value x) \
    {                                                            \
        return ipu__emit1(b, #n, NULL, 0, IPU__IN(x));           \
    }
#define B2(n)                                                                 \
    static inline ipu_value ipu_##n(ipu_builder *b, ipu_value x, ipu_value y) \
    {                                                                         \
        return ipu__emit1(b, #n, NULL, 0, IPU__IN(x, y));                     \
    }
U1(neg)
U1(exp)
U1(log)
U1(sqrt)
U1(rsqrt)
U1(reciprocal)
U1(square)
U1(abs)
U1(sign)
U1(tanh)
U1(sigmoid)
U1(relu)
U1(softplus)
U1(isfinite)
U1(log1p) U1(isinf) U1(log_sigmoid) B2(add) B2(sub) B2(mul) B2(div) B2(pow) B2(maximum) B2(minimum)
    B2(greater) B2(less) B2(equal) B2(greater_equal) B2(less_equal) B2(not_equal)
        B2(logical_and) static inline ipu_value
    ipu_where(ipu_builder *b, ipu_value c, ipu_value x, ipu_value y)
{
    return ipu__emit1(b, "where", NULL, 0, IPU__IN(c, x, y));
}
static inline ipu_value ipu_cast(ipu_builder *b, ipu_value x, ipu_type t)
{
    return ipu__emit1(b, "cast", IPU__WITH(IPU_TEXT_ATTRIBUTE("to", ipu_type_name(t))), IPU__IN(x));
}
static inline ipu_value ipu_reshape(ipu_builder *b, ipu_value x, ipu_shape s)
{
    return ipu__emit1(b, "reshape", IPU__WITH(IPU__INTS("shape", s.dim, s.rank)), IPU__IN(x));
}
static inline ipu_value ipu_expand(ipu_builder *b, ipu_value x, ipu_shape s)
{
    return ipu__emit1(b, "expand", IPU__WITH(IPU__INTS("shape", s.dim, s.rank)), IPU__IN(x));
}
static inline ipu_value ipu_stop_gradient(ipu_builder *b, ipu_value x)
{
    return ipu__emit1(b, "stop_gradient", NULL, 0, IPU__IN(x));
}
#endif
