/* LAMB: the direction of every element, then the norms of parameter and direction, then the step.
 *
 * It is a composition because a norm needs all elements, and parts of a kernel do not wait for each other.
 */
#include "ipu/op.h"
#include "op/optimizer/optimizer.h"

enum { P, G, RATE, STEP, MEAN, SQUARE };

/* keep * old + (1 - keep) * fresh */
static ipu_value blend(ipu_builder *b, double keep, ipu_value old, ipu_value fresh)
{
    return ipu_add(b, ipu_mul(b, ipu_scalar_like(b, old, keep), old),
                   ipu_mul(b, ipu_scalar_like(b, old, 1 - keep), fresh));
}

/* A mean that began as zero, over what it lacks for that: 1 - keep^step. */
static ipu_value corrected(ipu_builder *b, const ipu__kernel_call *call, double keep, ipu_value mean,
                           ipu_value step)
{
    if (ipu__op_int(call, "uncorrected")) return mean;
    ipu_value lost = ipu_pow(b, ipu_scalar_like(b, mean, keep), step);
    return ipu_div(b, mean, ipu_sub(b, ipu_scalar_like(b, mean, 1), lost));
}

void ipu__lamb_direction_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    enum { AT_STEP = 2, AT_MEAN, AT_SQUARE };
    ipu_type  type  = call->operand[AT_MEAN].type;
    double    beta1 = ipu__op_float(call, "beta1"), beta2 = ipu__op_float(call, "beta2");
    ipu_value p = ipu_cast(b, in[P], type), g = ipu_cast(b, in[G], type);
    ipu_value step  = ipu_reshape(b, ipu_cast(b, in[AT_STEP], type), IPU_SCALAR);
    ipu_value decay = ipu_mul(b, ipu_scalar_like(b, p, ipu__op_float(call, "weight_decay")), p);
    bool      l2    = ipu__op_int(call, "l2") != 0;
    if (l2) g = ipu_add(b, g, decay);
    ipu_value mean    = blend(b, beta1, in[AT_MEAN], g);
    ipu_value square  = blend(b, beta2, in[AT_SQUARE], ipu_square(b, g));
    ipu_value epsilon = ipu_scalar_like(b, p, ipu__op_float(call, "epsilon"));
    ipu_value root    = ipu_add(b, ipu_sqrt(b, corrected(b, call, beta2, square, step)), epsilon);
    out[0]            = ipu_div(b, corrected(b, call, beta1, mean, step), root);
    if (!l2) out[0] = ipu_add(b, out[0], decay);
    out[1] = mean;
    out[2] = square;
}

/* The norm, or that of all replicas' parts together. */
static ipu_value size_of(ipu_builder *b, const ipu__kernel_call *call, ipu_value v)
{
    if (!ipu__op_int(call, "parts")) return ipu_reduce_l2(b, v, NULL, 0, false);
    ipu_value square = ipu_reduce_sum_square(b, v, NULL, 0, false);
    return ipu_sqrt(b, ipu__emit1(b, "replica_sum", NULL, 0, IPU__IN(square)));
}

static void lamb_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_type            type = call->operand[MEAN].type;
    ipu_value           step[3];
    const ipu_attribute attributes_of_step[] = {
        IPU_FLOAT_ATTRIBUTE("beta1", ipu__op_float(call, "beta1")),
        IPU_FLOAT_ATTRIBUTE("beta2", ipu__op_float(call, "beta2")),
        IPU_FLOAT_ATTRIBUTE("epsilon", ipu__op_float(call, "epsilon")),
        IPU_FLOAT_ATTRIBUTE("weight_decay", ipu__op_float(call, "weight_decay")),
        IPU_INT_ATTRIBUTE("uncorrected", ipu__op_int(call, "uncorrected")),
        IPU_INT_ATTRIBUTE("l2", ipu__op_int(call, "l2")),
    };
    ipu_emit(b, "lamb_direction", attributes_of_step, IPU__COUNT(attributes_of_step),
             IPU__IN(in[P], in[G], in[STEP], in[MEAN], in[SQUARE]), step, 3);
    ipu_value p = ipu_cast(b, in[P], type), size_of_p = size_of(b, call, p);
    ipu_value size_of_step = size_of(b, call, step[0]), zero = ipu_scalar_like(b, p, 0);
    ipu_value usual = ipu_logical_and(b, ipu_greater(b, size_of_p, zero), ipu_greater(b, size_of_step, zero));
    double    most  = ipu__op_float(call, "max_weight_norm");
    if (most > 0) size_of_p = ipu_minimum(b, size_of_p, ipu_scalar_like(b, p, most));
    ipu_value ratio = ipu_where(b, usual, ipu_div(b, size_of_p, size_of_step), ipu_scalar_like(b, p, 1));
    ipu_value rate  = ipu_reshape(b, ipu_cast(b, in[RATE], type), IPU_SCALAR);
    ipu_value next  = ipu_sub(b, p, ipu_mul(b, ipu_mul(b, rate, ratio), step[0]));
    out[0]          = ipu_cast(b, next, call->operand[P].type);
    out[1]          = step[1];
    out[2]          = step[2];
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("parameter"),      IPU__INPUT("gradient"),
                                               IPU__INPUT("rate"),           IPU__INPUT("step"),
                                               IPU__INPUT("mean"),           IPU__INPUT("square"),
                                               IPU__OUTPUT("new_parameter"), IPU__OUTPUT("new_mean"),
                                               IPU__OUTPUT("new_square")};

#define FLOAT(n, v, text)                                                             \
    {                                                                                 \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = (v), .meaning = (text) \
    }
static const ipu_op_attribute attributes[] = {
    FLOAT("beta1", 0.9, "what the mean of gradients keeps of itself"),
    FLOAT("beta2", 0.999, "what the mean of squares keeps of itself"),
    FLOAT("epsilon", 1e-6, "added to what is divided by"),
    FLOAT("weight_decay", 0, "times the parameter, added to the direction"),
    FLOAT("max_weight_norm", 0, "the parameter's norm counts as at most this; 0: as it is"),
    {.name    = "uncorrected",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: means that began as zeros are used as they are"},
    {.name = "l2", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the decay is added to the gradient instead"},
    {.name    = "parts",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: each replica has a part of the parameter, and norms are of all parts"},
};

static const char *const samples[] = {
    "float[3,5], float[3,5], float[]{0.1,0.2}, float[]{1,9}, float[3,5], float[3,5]{0,2}; weight_decay=0.1",
    "half[40], half[40], float[]{0.1,0.2}, int32[]{1,9}, float[40], float[40]{0,2}",
    "float[9], float[9], float[]{0.1,0.2}, int32[]{1,9}, float[9], float[9]{0,2}; parts=1",
    "float[9], float[9], float[]{0.1,0.2}, int32[]{1,9}, float[9], float[9]{0,2}; max_weight_norm=0.5 uncorrected=1",
    "float[9], float[9], float[]{0.1,0.2}, int32[]{1,9}, float[9], float[9]{0,2}; weight_decay=0.5 l2=1",
    NULL};

const ipu__op_def ipu__op_lamb = {
    .kernel       = {.name       = "lamb",
                     .operands   = operands,
                     .n_operands = IPU__COUNT(operands),
                     .check      = ipu__op_check},
    .n_in         = 6,
    .family       = "optimizer",
    .summary      = "a step of LAMB: Adam's direction, as long as the parameter is",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = ipu__optimizer_infer,
    .compose      = lamb_compose,
    .samples      = samples,
};
