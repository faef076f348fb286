/* Negative log likelihoods of Poisson and normal distributions: compositions. */
#include <math.h>

#include "graph/graph.h"
#include "ipu/op/loss.h"
#include "ipu/model.h"
#include "ipu/op/shape.h"
#include "op/compose.h"
#include "op/loss/loss.h"

enum { X, TARGET, VARIANCE };

/* ---- inference ---- */

static ipu_status poisson_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_loss_reduction reduction;
    IPU_TRY(ipu__loss_reduction_get(call, &reduction));
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, TARGET));
    IPU_TRY(ipu__op_want_shape(call, TARGET, &call->operand[X].shape));
    *out = call->operand[X];
    if (reduction != IPU_LOSS_NONE) out->shape = IPU_SCALAR;
    return IPU_OK;
}

/* The variance is of the shape of x, or its last dimension is 1 or left out. */
static ipu_shape variance_shape(const ipu__kernel_call *call)
{
    ipu_shape x = call->operand[X].shape, v = call->operand[VARIANCE].shape;
    if (ipu__shape_equal(&x, &v) || v.rank != x.rank - 1) return v;
    v.dim[v.rank++] = 1;
    return v;
}

static ipu_status gaussian_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(poisson_infer(call, out));
    IPU_TRY(ipu__op_want_same_type(call, X, VARIANCE));
    ipu_shape x = call->operand[X].shape, v = variance_shape(call);
    if (x.rank > 0 && v.rank == x.rank && v.dim[v.rank - 1] == 1) v.dim[v.rank - 1] = x.dim[x.rank - 1];
    if (ipu__shape_equal(&x, &v)) return IPU_OK;
    return ipu__fail(
        IPU_INVALID,
        "gaussian_nll_loss: \"variance\" %s must have the shape of \"x\" %s, or 1 in place of its last "
        "dimension, or none",
        ipu__shape_str(&call->operand[VARIANCE].shape), ipu__shape_str(&x));
}

/* ---- compositions ---- */

/* Stirling's approximation of log(target!), 0 for targets up to 1. */
static ipu_value log_factorial(ipu_builder *b, ipu_value t)
{
    ipu_value is_over = ipu_greater(b, t, ipu_scalar_like(b, t, 1));
    ipu_value safe    = ipu_where(b, is_over, t, ipu_scalar_like(b, t, 2));
    ipu_value log_t   = ipu_log(b, safe);
    ipu_value first   = ipu_sub(b, ipu_mul(b, safe, log_t), safe);
    ipu_value term    = ipu_add(b, first, ipu__times(b, ipu__plus(b, log_t, log(2 * M_PI)), 0.5));
    return ipu_where(b, is_over, term, ipu_scalar_like(b, t, 0));
}

static void poisson_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value x = in[X], t = in[TARGET], losses;
    if (ipu__op_int(call, "log_input")) {
        ipu_value rate = ipu_exp(b, x);
        losses         = ipu_sub(b, rate, ipu_mul(b, t, x));
    } else {
        losses = ipu_log(b, ipu__plus(b, x, ipu__op_float(call, "eps")));
        losses = ipu_sub(b, x, ipu_mul(b, t, losses));
    }
    if (ipu__op_int(call, "full")) losses = ipu_add(b, losses, log_factorial(b, t));
    out[0] = ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

/* The gradient passes the least variance, as PyTorch has it. */
static void gaussian_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_value eps      = ipu_scalar_like(b, in[X], ipu__op_float(call, "eps"));
    ipu_value variance = ipu__as_shape(b, in[VARIANCE], variance_shape(call));
    ipu_value more     = ipu_sub(b, ipu_maximum(b, variance, eps), variance);
    variance           = ipu_add(b, variance, ipu_stop_gradient(b, more));
    ipu_value width    = ipu_log(b, variance);
    ipu_value apart    = ipu_square(b, ipu_sub(b, in[X], in[TARGET]));
    ipu_value losses   = ipu__times(b, ipu_add(b, width, ipu_div(b, apart, variance)), 0.5);
    if (ipu__op_int(call, "full")) losses = ipu__plus(b, losses, 0.5 * log(2 * M_PI));
    out[0] = ipu__loss_reduce(b, call, losses, IPU_NO_VALUE);
}

/* ---- records ---- */

static const ipu__kernel_operand poisson_operands[]  = {IPU__INPUT("x"), IPU__INPUT("target"),
                                                        IPU__OUTPUT("loss")};
static const ipu__kernel_operand gaussian_operands[] = {IPU__INPUT("x"), IPU__INPUT("target"),
                                                        IPU__INPUT("variance"), IPU__OUTPUT("loss")};

static const ipu_op_attribute poisson_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name      = "log_input",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning   = "1: x is the logarithm of the rate"},
    {.name    = "full",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: with Stirling's approximation of log(target!)"},
    {.name      = "eps",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1e-8,
     .meaning   = "added to a rate whose logarithm is taken"}};
static const ipu_op_attribute gaussian_attributes[] = {
    IPU__REDUCTION_ATTRIBUTE,
    {.name = "full", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: with log(2 pi) / 2"},
    {.name = "eps", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-6, .meaning = "the least variance"}};

static const char *const poisson_samples[] = {
    "float[3,4], float[3,4]{0,9}", "float[3,4], float[3,4]{1.5,9}; full=1 reduction=sum",
    "float[5]{0.1,4}, float[5]{0,9}; log_input=0 reduction=none",
    "float[2,3]{0.1,4}, float[2,3]; log_input=0 eps=0.1 reduction=batch_mean", NULL};
static const char *const gaussian_samples[] = {
    "float[3,4], float[3,4], float[3,4]{0.2,3}",
    "float[3,4], float[3,4], float[3,1]{0.2,3}; full=1 reduction=sum",
    "float[3,4], float[3,4], float[3]{0.2,3}; reduction=none", "float[], float[], float[]{0.2,3}", NULL};

#define RECORD(op, which, text)                                                                    \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                          \
                                                       .operands   = which##_operands,             \
                                                       .n_operands = IPU__COUNT(which##_operands), \
                                                       .check      = ipu__op_check},                    \
                                      .n_in         = IPU__COUNT(which##_operands) - 1,            \
                                      .family       = "loss",                                      \
                                      .summary      = (text),                                      \
                                      .attributes   = which##_attributes,                          \
                                      .n_attributes = IPU__COUNT(which##_attributes),              \
                                      .infer        = which##_infer,                               \
                                      .compose      = which##_compose,                             \
                                      .samples      = which##_samples}
RECORD(poisson_nll_loss, poisson, "exp(x) - target x: of a Poisson distribution");
RECORD(gaussian_nll_loss, gaussian,
       "(log(variance) + (x - target)^2 / variance) / 2: of a normal distribution");

/* ---- functions ---- */

ipu_value ipu_poisson_nll_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_poisson_options options)
{
    return ipu__emit1(b, "poisson_nll_loss",
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(options.reduction)),
                                IPU_INT_ATTRIBUTE("log_input", !options.is_rate),
                                IPU_INT_ATTRIBUTE("full", options.full),
                                IPU_FLOAT_ATTRIBUTE("eps", options.eps > 0 ? options.eps : 1e-8)),
                      IPU__IN(x, target));
}

ipu_value ipu_gaussian_nll_loss(ipu_builder *b, ipu_value x, ipu_value target, ipu_value variance, bool full,
                                double eps, ipu_loss_reduction reduction)
{
    return ipu__emit1(b, "gaussian_nll_loss",
                      IPU__WITH(IPU_TEXT_ATTRIBUTE("reduction", ipu__loss_reduction_text(reduction)),
                                IPU_INT_ATTRIBUTE("full", full), IPU_FLOAT_ATTRIBUTE("eps", eps)),
                      IPU__IN(x, target, variance));
}
