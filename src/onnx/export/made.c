/* Tensors that come from nothing: filled and random ones; dropout. */
#include "ipu/op.h"
#include "onnx/export/export.h"
#include "onnx/tensor.h"

bool ipu__write_fill(ipu__wop *o)
{
    const ipu__kernel_value *out   = &o->call.operand[0];
    const ipu_attribute     *given = ipu__attribute_find(&o->call, "value");
    double                   value = given->kind == IPU_ATTRIBUTE_INT ? (double)given->i : given->f;
    size_t                   rank  = (size_t)out->shape.rank;
    ipu__put(o->w, "Expand",
             IPU__NAMES(ipu__put_scalar(o->w, out->type, value), ipu__put_list(o->w, out->shape.dim, rank)),
             o->out[0]);
    return true;
}

/* ---- random ---- */

static bool put_random(ipu__wop *o, const char *onnx_op, const char *first, const char *second,
                       const char *as_first, const char *as_second)
{
    const ipu__kernel_value *out  = &o->call.operand[o->op->n_in];
    ipu_type                 type = ipu__carrier(o->w, onnx_op, out->type);
    if (type == IPU_N_TYPES) return false;
    Ipu__NodeProto *node = ipu__put(o->w, onnx_op, NULL, 0, ipu__give_as(o, 0, type));
    ipu__put_int(o->w, node, "dtype", ipu__onnx_type_number(type));
    ipu__put_float(o->w, node, as_first, ipu__op_float(&o->call, first));
    ipu__put_float(o->w, node, as_second, ipu__op_float(&o->call, second));
    ipu__put_ints(o->w, node, "shape", out->shape.dim, (size_t)out->shape.rank);
    return true;
}

bool ipu__write_random_uniform(ipu__wop *o)
{
    return put_random(o, "RandomUniform", "low", "high", "low", "high");
}

bool ipu__write_random_normal(ipu__wop *o)
{
    return put_random(o, "RandomNormal", "mean", "std", "mean", "scale");
}

/* With the probabilities that the input has; logarithms of them for the other. */
bool ipu__write_bernoulli(ipu__wop *o)
{
    ipu_type type = ipu__carrier(o->w, "Bernoulli", o->call.operand[0].type),
             out  = o->call.operand[o->op->n_in].type;
    if (type == IPU_N_TYPES) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "Bernoulli", IPU__NAMES(ipu__take_as(o, 0, type)), o->out[0]);
    ipu__put_int(o->w, node, "dtype", ipu__onnx_type_number(out));
    return true;
}

bool ipu__write_multinomial(ipu__wop *o)
{
    ipu_type  type  = ipu__carrier(o->w, "Multinomial", o->call.operand[0].type);
    ipu_shape shape = o->call.operand[o->op->n_in].shape;
    ipu_type  own   = o->call.operand[o->op->n_in].type == IPU_INT64 ? IPU_INT64 : IPU_INT32;
    if (type == IPU_N_TYPES) return false;
    Ipu__NodeProto *node = ipu__put(o->w, "Multinomial", IPU__NAMES(ipu__take_as(o, 0, type)),
                                    ipu__give_as(o, 0, own));
    ipu__put_int(o->w, node, "dtype", ipu__onnx_type_number(own));
    ipu__put_int(o->w, node, "sample_size", shape.dim[shape.rank - 1]);
    return true;
}

static ipu_value uniform(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, double low,
                         double high)
{
    const ipu_shape *shape  = &call->operand[2].shape;
    ipu_attribute    with[] = {IPU_FLOAT_ATTRIBUTE("low", low), IPU_FLOAT_ATTRIBUTE("high", high),
                               IPU__INTS("shape", shape->dim, shape->rank)};
    return ipu__emit1(b, "random_uniform", with, 3, in, 1);
}

void ipu__rewrite_random_bernoulli(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                   ipu_value *out)
{
    ipu_value u = uniform(b, call, in, 0, 1);
    out[0]      = ipu_cast(b, ipu_less(b, u, ipu_scalar_like(b, u, ipu__op_float(call, "p"))),
                           call->operand[2].type);
}

void ipu__rewrite_random_int(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    double    low = (double)ipu__op_int(call, "low"), high = (double)ipu__op_int(call, "high");
    ipu_value u = uniform(b, call, in, low, high);
    out[0]      = ipu_cast(b, ipu_floor(b, u), call->operand[2].type);
}

/* Without its third input it is that of inference. */
bool ipu__write_dropout(ipu__wop *o)
{
    ipu_type type = ipu__carrier(o->w, "Dropout", o->call.operand[0].type);
    ipu__put(o->w, "Dropout",
             IPU__NAMES(ipu__take_as(o, 0, type),
                        ipu__put_scalar(o->w, IPU_FLOAT, ipu__op_float(&o->call, "p"))),
             ipu__give_as(o, 0, type));
    return true;
}
