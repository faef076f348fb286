/* Normalisations composed of others, and the functions that emit all of them. */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/norm.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/builder.h"

/* ---- instance norm ---- */

enum { X, WEIGHT, BIAS };

static ipu_status instance_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    for (int i = WEIGHT; i <= BIAS; i++)
        if (ipu__kernel_has(call, i)) {
            IPU_TRY(ipu__op_want_same_type(call, X, i));
            IPU_TRY(ipu__op_want_shape(call, i, &IPU_SHAPE(call->operand[X].shape.dim[1])));
        }
    *out = call->operand[X];
    return IPU_OK;
}

static void instance_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    int64_t channels = call->operand[X].shape.dim[1];
    out[0]           = ipu_group_norm(b, in[X], in[WEIGHT], in[BIAS], channels > 0 ? channels : 1,
                                      ipu__op_float(call, "epsilon"));
}

/* ---- batch norm with statistics that are given ---- */

enum { MEAN = 1, VAR, GIVEN_WEIGHT, GIVEN_BIAS };

/* Statistics may be kept in float where x is half. */
static ipu_type wide(ipu_type type) { return type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT; }

static ipu_status inference_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    ipu_type type = call->operand[X].type;
    for (int i = MEAN; i <= GIVEN_BIAS; i++) {
        if (i > VAR && !ipu__kernel_has(call, i)) continue;
        if (i > VAR || call->operand[i].type != wide(type)) IPU_TRY(ipu__op_want_same_type(call, X, i));
        IPU_TRY(ipu__op_want_shape(call, i, &IPU_SHAPE(call->operand[X].shape.dim[1])));
    }
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_value as_type(ipu_builder *b, ipu_value v, ipu_type type)
{
    return ipu_value_type(v) == type ? v : ipu_cast(b, v, type);
}

static void inference_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    ipu_type  type = call->operand[X].type, own = wide(type);
    ipu_shape channel = {.rank = call->operand[X].shape.rank - 1, .dim = {call->operand[X].shape.dim[1]}};
    for (int d = 1; d < channel.rank; d++) channel.dim[d] = 1;
    ipu_value var   = as_type(b, in[VAR], own);
    ipu_value scale = ipu_rsqrt(b, ipu_add(b, var, ipu_scalar_like(b, var, ipu__op_float(call, "epsilon"))));
    if (ipu__has(in[GIVEN_WEIGHT])) scale = ipu_mul(b, scale, as_type(b, in[GIVEN_WEIGHT], own));
    ipu_value y = ipu_sub(b, as_type(b, in[X], own), ipu_reshape(b, as_type(b, in[MEAN], own), channel));
    y           = ipu_mul(b, y, ipu_reshape(b, scale, channel));
    if (ipu__has(in[GIVEN_BIAS])) y = ipu_add(b, y, ipu_reshape(b, as_type(b, in[GIVEN_BIAS], own), channel));
    out[0] = as_type(b, y, type);
}

/* ---- l2 ---- */

static ipu_status l2_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    *out = call->operand[X];
    return IPU_OK;
}

static void l2_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int       axis = (int)ipu__op_int(call, "axis");
    ipu_value size = ipu_reduce_l2(b, in[X], &axis, 1, true);
    out[0]         = ipu_div(b, in[X],
                             ipu_maximum(b, size, ipu_scalar_like(b, size, ipu__op_float(call, "epsilon"))));
}

/* ---- weight norm ---- */

enum { V, G };

static ipu_status weight_norm_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, V));
    IPU_TRY(ipu__op_want_same_type(call, V, G));
    *out = call->operand[V];
    IPU_TRY(ipu__op_broadcast(call, 2, &out->shape));
    if (ipu__shape_equal(&out->shape, &call->operand[V].shape)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "weight_norm: \"g\" %s is not broadcast to \"v\" %s",
                     ipu__shape_str(&call->operand[G].shape), ipu__shape_str(&call->operand[V].shape));
}

/* Of half types in float: the square of a length may be over what half has. */
static void weight_norm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                ipu_value *out)
{
    const ipu_shape *v = &call->operand[V].shape, *g = &call->operand[G].shape;
    ipu_type         type = call->operand[V].type, own = wide(type);
    int              axes[IPU_MAX_RANK], n             = 0;
    for (int d = 0; d < v->rank; d++) {
        int of_g = d - (v->rank - g->rank);
        if (of_g < 0 || g->dim[of_g] == 1) axes[n++] = d;
    }
    ipu_value x      = as_type(b, in[V], own);
    ipu_value length = n ? ipu_reduce_l2(b, x, axes, n, true) : ipu_abs(b, x);
    ipu_value scale  = ipu_div(b, as_type(b, in[G], own), length);
    out[0]           = as_type(b, ipu_mul(b, x, scale), type);
}

/* ---- the records ---- */

static const ipu__kernel_operand instance_operands[]  = {IPU__INPUT("x"), IPU__OPTIONAL("weight"),
                                                         IPU__OPTIONAL("bias"), IPU__OUTPUT("y")};
static const ipu__kernel_operand inference_operands[] = {IPU__INPUT("x"),       IPU__INPUT("mean"),
                                                         IPU__INPUT("var"),     IPU__OPTIONAL("weight"),
                                                         IPU__OPTIONAL("bias"), IPU__OUTPUT("y")};
static const ipu__kernel_operand l2_operands[]        = {IPU__INPUT("x"), IPU__OUTPUT("y")};

static const ipu__kernel_operand weight_norm_operands[] = {IPU__INPUT("v"), IPU__INPUT("g"),
                                                           IPU__OUTPUT("out")};

static const ipu_op_attribute epsilon_attributes[] = {
    {.name = "epsilon", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-5, .meaning = "added to the variance"},
};
static const ipu_op_attribute l2_attributes[] = {
    {.name      = "axis",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -1,
     .meaning   = "dimension, negative from the end"},
    {.name      = "epsilon",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1e-12,
     .meaning   = "least norm to divide by"},
};

static const char *const instance_samples[]  = {"float[2,3,4], float[3], float[3]", "float[2,3,2,2]", NULL};
static const char *const inference_samples[] = {"float[2,3,4], float[3], float[3]{0.5,2}, float[3], float[3]",
                                                "float[4,3], float[3], float[3]{0.5,2}", NULL};
static const char *const l2_samples[]        = {"float[3,4]{0.1,2}", "float[3,4]{0.1,2}; axis=0", NULL};

static const char *const weight_norm_samples[] = {"float[3,4]{0.1,2}, float[3,1]",
                                                  "float[2,3,4]{0.1,2}, float[]", "float[3]{0.1,2}, float[3]",
                                                  "float[2,3,2]{0.1,2}, float[1,3,1]", NULL};

/* clang-format off */
#define RECORD(name_, which, attributes_, n_in_, summary_)                                            \
    const ipu__op_def ipu__op_##name_ = {                                                                     \
        .kernel = {.name = #name_, .operands = which##_operands, .n_operands = n_in_ + 1,                    \
                   .check = ipu__op_check},                                                                  \
        .n_in = n_in_, .family = "norm", .summary = summary_, .attributes = attributes_,                     \
        .n_attributes = IPU__COUNT(attributes_), .infer = which##_infer, .compose = which##_compose,         \
        .samples = which##_samples}
/* clang-format on */

RECORD(instance_norm, instance, epsilon_attributes, 3, "mean 0, variance 1 over each channel of one image");
RECORD(batch_norm_inference, inference, epsilon_attributes, 5,
       "batch norm with a mean and variance that are given");
RECORD(l2_normalize, l2, l2_attributes, 1, "x divided by its l2 norm along a dimension");

const ipu__op_def ipu__op_weight_norm = {.kernel  = {.name       = "weight_norm",
                                                     .operands   = weight_norm_operands,
                                                     .n_operands = 3,
                                                     .check      = ipu__op_check},
                                         .n_in    = 2,
                                         .family  = "norm",
                                         .summary = "v scaled so that its slices are as long as g says",
                                         .infer   = weight_norm_infer,
                                         .compose = weight_norm_compose,
                                         .samples = weight_norm_samples};

/* ---- functions ---- */

ipu_value ipu_weight_norm(ipu_builder *b, ipu_value v, ipu_value g)
{
    return ipu__emit1(b, "weight_norm", NULL, 0, IPU__IN(v, g));
}

ipu_value ipu_layer_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, int n_dims,
                         double epsilon)
{
    return ipu__emit1(b, "layer_norm",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("epsilon", epsilon), IPU_INT_ATTRIBUTE("n_dims", n_dims)),
                      IPU__IN(x, weight, bias));
}

ipu_value ipu_rms_norm(ipu_builder *b, ipu_value x, ipu_value weight, int n_dims, double epsilon)
{
    return ipu__emit1(b, "rms_norm",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("epsilon", epsilon), IPU_INT_ATTRIBUTE("n_dims", n_dims)),
                      IPU__IN(x, weight));
}

ipu_value ipu_group_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, int64_t groups,
                         double epsilon)
{
    return ipu__emit1(b, "group_norm",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("epsilon", epsilon), IPU_INT_ATTRIBUTE("groups", groups)),
                      IPU__IN(x, weight, bias));
}

ipu_value ipu_instance_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias, double epsilon)
{
    return ipu__emit1(b, "instance_norm", IPU__WITH(IPU_FLOAT_ATTRIBUTE("epsilon", epsilon)),
                      IPU__IN(x, weight, bias));
}

ipu_value ipu_l2_normalize(ipu_builder *b, ipu_value x, int axis, double epsilon)
{
    return ipu__emit1(b, "l2_normalize",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_FLOAT_ATTRIBUTE("epsilon", epsilon)),
                      IPU__IN(x));
}

/* old + momentum * (now - old), in the type of `old`. */
static ipu_value moved(ipu_builder *b, ipu_value old, ipu_value now, double momentum)
{
    if (!ipu__has(old)) return IPU_NO_VALUE;
    now = as_type(b, now, ipu_value_type(old));
    return ipu_add(b, old, ipu_mul(b, ipu_sub(b, now, old), ipu_scalar_like(b, old, momentum)));
}

ipu_batch_norm_result ipu_batch_norm(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias,
                                     ipu_value mean, ipu_value var, ipu_batch_norm_options options)
{
    double        momentum = options.momentum != 0 ? options.momentum : 0.1;
    ipu_attribute epsilon  = IPU_FLOAT_ATTRIBUTE("epsilon", options.epsilon != 0 ? options.epsilon : 1e-5);
    if (!options.training) {
        ipu_value y = ipu__emit1(b, "batch_norm_inference", &epsilon, 1, IPU__IN(x, mean, var, weight, bias));
        return (ipu_batch_norm_result){y, mean, var};
    }
    ipu_value all[3];
    ipu_emit(b, "batch_norm", &epsilon, 1, IPU__IN(x, weight, bias), all, 3);
    int64_t n = ipu_value_dim(x, 1) > 0 ? ipu_value_n_elements(x) / ipu_value_dim(x, 1) : 0;
    if (n == 1 && ipu_builder_status(b) == IPU_OK)
        ipu__builder_fail(
            b, IPU_INVALID,
            "batch_norm: %s has one value in each channel: training needs more, to have a variance",
            ipu__value_str(x));
    ipu_value unbiased = IPU_NO_VALUE;
    if (ipu__has(var) && ipu_builder_status(b) == IPU_OK)
        unbiased = ipu_mul(b, all[2], ipu_scalar_like(b, all[2], (double)n / (double)(n - 1)));
    return (ipu_batch_norm_result){all[0], moved(b, mean, all[1], momentum),
                                   moved(b, var, unbiased, momentum)};
}
