/* For compositions: the types in which results are computed, and arithmetic with constants. */
#ifndef IPU_OP_COMPOSE_H
#define IPU_OP_COMPOSE_H

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "op/op.h"

static inline ipu_value ipu__as_type(ipu_builder *b, ipu_value x, ipu_type type)
{
    return ipu_value_type(x) == type ? x : ipu_cast(b, x, type);
}

static inline ipu_value ipu__as_shape(ipu_builder *b, ipu_value x, ipu_shape shape)
{
    ipu_shape has = ipu_value_shape(x);
    return ipu__shape_equal(&has, &shape) ? x : ipu_reshape(b, x, shape);
}

/* Half and bfloat16 as float: results of several ops are then rounded once, and do not overflow in
 * between. */
static inline ipu_value ipu__wide(ipu_builder *b, ipu_value x)
{
    ipu_type type = ipu_value_type(x);
    return type == IPU_HALF || type == IPU_BFLOAT16 ? ipu_cast(b, x, IPU_FLOAT) : x;
}

static inline ipu_value ipu__plus(ipu_builder *b, ipu_value x, double number)
{
    return ipu_add(b, x, ipu_scalar_like(b, x, number));
}

static inline ipu_value ipu__minus(ipu_builder *b, ipu_value x, double number)
{
    return ipu_sub(b, x, ipu_scalar_like(b, x, number));
}

static inline ipu_value ipu__times(ipu_builder *b, ipu_value x, double number)
{
    return ipu_mul(b, x, ipu_scalar_like(b, x, number));
}

/* number - x */
static inline ipu_value ipu__from(ipu_builder *b, double number, ipu_value x)
{
    return ipu_sub(b, ipu_scalar_like(b, x, number), x);
}

/* log(exp(x) + exp(y)) of float or double, broadcast (elementwise/special.c). */
ipu_value ipu__log_add_exp(ipu_builder *b, ipu_value x, ipu_value y);

#endif
