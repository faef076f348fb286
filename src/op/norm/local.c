/* Local response norm (over neighbouring channels) and mean-variance norm: compositions, computed in float
 * for half and bfloat16.
 */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/norm.h"
#include "ipu/op/pool.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/op.h"

enum { X };

static ipu_value as_type(ipu_builder *b, ipu_value v, ipu_type type)
{
    return ipu_value_type(v) == type ? v : ipu_cast(b, v, type);
}

static ipu_value widened(ipu_builder *b, ipu_value v)
{
    return as_type(b, v, ipu_value_type(v) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT);
}

/* ---- local response ---- */

static ipu_status local_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t size = ipu__op_int(call, "size"), before = ipu__op_int(call, "before");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    if (size < 1 || size > INT32_MAX || before < -1 || before >= size)
        return ipu__fail(IPU_INVALID,
                         "local_response_norm: size = %lld, before = %lld: expected a size of 1 or more, and "
                         "fewer channels than that before",
                         (long long)size, (long long)before);
    *out = call->operand[X];
    return IPU_OK;
}

/* x / (bias + alpha mean(x^2))^beta, the mean over `size` channels, of which those that are not there are 0:
 * pooling of [n, 1, channels, rest]. */
static void local_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    const ipu_shape *shape = &call->operand[X].shape;
    int64_t          size = ipu__op_int(call, "size"), before = ipu__op_int(call, "before"), rest = 1;
    for (int d = 2; d < shape->rank; d++) rest *= shape->dim[d];
    if (ipu__op_n_elements(shape) == 0) {
        out[0] = ipu_identity(b, in[X]);
        return;
    }
    if (before < 0) before = size / 2;
    ipu_value x = widened(b, in[X]), squares = ipu_square(b, x);
    ipu_value planes = ipu_reshape(b, squares, IPU_SHAPE(shape->dim[0], 1, shape->dim[1], rest));
    ipu_value mean   = ipu_average_pool(b, planes,
                                        (ipu_pool_options){.kernel          = {size, 1},
                                                           .stride          = {1, 1},
                                                           .padding         = {before, 0},
                                                           .padding_end     = {size - 1 - before, 0},
                                                           .has_padding_end = true});
    ipu_value sum    = ipu_mul(b, ipu_reshape(b, mean, *shape),
                               ipu_scalar_like(b, x, ipu__op_float(call, "alpha")));
    ipu_value base   = ipu_add(b, sum, ipu_scalar_like(b, x, ipu__op_float(call, "bias")));
    ipu_value scale  = ipu_pow(b, base, ipu_scalar_like(b, x, ipu__op_float(call, "beta")));
    out[0]           = as_type(b, ipu_div(b, x, scale), call->operand[X].type);
}

/* ---- mean and variance ---- */

static ipu_status moments_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool mask[IPU_MAX_RANK];
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask));
    *out = call->operand[X];
    return IPU_OK;
}

static void moments_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    bool mask[IPU_MAX_RANK] = {false};
    int  axes[IPU_MAX_RANK], n = 0;
    ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask); /* infer has seen it */
    for (int d = 0; d < call->operand[X].shape.rank; d++)
        if (mask[d]) axes[n++] = d;
    ipu_value x   = widened(b, in[X]);
    ipu_value off = ipu_sub(b, x, ipu_reduce_mean(b, x, axes, n, true));
    ipu_value dev = ipu_sqrt(b, ipu_reduce_mean(b, ipu_square(b, off), axes, n, true));
    dev           = ipu_add(b, dev, ipu_scalar_like(b, x, ipu__op_float(call, "epsilon")));
    out[0]        = as_type(b, ipu_div(b, off, dev), call->operand[X].type);
}

/* ---- records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};

static const ipu_op_attribute local_attributes[] = {
    {.name = "size", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "channels of a window"},
    {.name = "before", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "those before; -1: size / 2"},
    {.name = "alpha", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-4, .meaning = "of the mean of squares"},
    {.name = "beta", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 0.75, .meaning = "power"},
    {.name = "bias", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "added to the mean"},
};
static const ipu_op_attribute moments_attributes[] = {
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions; none: all"},
    {.name      = "epsilon",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1e-9,
     .meaning   = "added to the standard deviation"},
};
static const char *const local_samples[]   = {"float[2,5,3]; size=3 alpha=0.5",
                                              "float[1,6,2,2]; size=4 before=1 alpha=0.9 beta=0.5 bias=2.0",
                                              "float[3,2]; size=5 alpha=1.0", "float[2,0,3]; size=3", NULL};
static const char *const moments_samples[] = {"float[2,3,4]; axes=[0,2]", "float[7]; epsilon=0.1", NULL};

#define RECORD(name_, which, summary_)                                                                   \
    const ipu__op_def ipu__op_##name_ = {                                                                \
        .kernel       = {.name = #name_, .operands = operands, .n_operands = 2, .check = ipu__op_check}, \
        .n_in         = 1,                                                                               \
        .family       = "norm",                                                                          \
        .summary      = summary_,                                                                        \
        .attributes   = which##_attributes,                                                              \
        .n_attributes = IPU__COUNT(which##_attributes),                                                  \
        .infer        = which##_infer,                                                                   \
        .compose      = which##_compose,                                                                 \
        .samples      = which##_samples}
RECORD(local_response_norm, local, "x divided by a power of the mean square of neighbouring channels");
RECORD(mean_variance_norm, moments, "(x - mean) / (standard deviation + epsilon)");

/* ---- functions ---- */

ipu_value ipu_local_response_norm(ipu_builder *b, ipu_value x, ipu_local_response_options o)
{
    return ipu__emit1(b, "local_response_norm",
                      IPU__WITH(IPU_INT_ATTRIBUTE("size", o.size),
                                IPU_INT_ATTRIBUTE("before", o.has_before ? o.before : -1),
                                IPU_FLOAT_ATTRIBUTE("alpha", o.alpha != 0 ? o.alpha : 1e-4),
                                IPU_FLOAT_ATTRIBUTE("beta", o.beta != 0 ? o.beta : 0.75),
                                IPU_FLOAT_ATTRIBUTE("bias", o.bias != 0 ? o.bias : 1)),
                      IPU__IN(x));
}

ipu_value ipu_mean_variance_norm(ipu_builder *b, ipu_value x, const int *axes, int n_axes, double epsilon)
{
    int64_t list[IPU_MAX_RANK];
    int     n = n_axes < 0 ? 0 : n_axes > IPU_MAX_RANK ? IPU_MAX_RANK : n_axes;
    for (int i = 0; i < n; i++) list[i] = axes[i];
    return ipu__emit1(b, "mean_variance_norm",
                      IPU__WITH(IPU__INTS("axes", list, n), IPU_FLOAT_ATTRIBUTE("epsilon", epsilon)),
                      IPU__IN(x));
}
