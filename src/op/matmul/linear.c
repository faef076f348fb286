/* gemm and linear: matmul plus additions, as compositions; fusion turns the rest into an epilogue. */
#include "ipu/op/elementwise.h"
#include "ipu/op/matmul.h"
#include "op/op.h"

ipu_value ipu_matmul_with(ipu_builder *b, ipu_value a, ipu_value x, bool transpose_a, bool transpose_b)
{
    return ipu__emit1(b, "matmul",
                      IPU__WITH(IPU_INT_ATTRIBUTE("transpose_a", transpose_a),
                                IPU_INT_ATTRIBUTE("transpose_b", transpose_b)),
                      IPU__IN(a, x));
}

ipu_value ipu_matmul(ipu_builder *b, ipu_value a, ipu_value x)
{
    return ipu__emit1(b, "matmul", NULL, 0, IPU__IN(a, x));
}

/* ---- gemm ---- */

enum { A, B, C };

static ipu_status gemm_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_rank(call, A, 2, 2));
    IPU_TRY(ipu__op_want_rank(call, B, 2, 2));
    ipu__kernel_call product = {
        .def          = &ipu__op_matmul.kernel,
        .attributes   = (ipu_attribute[]){IPU_INT_ATTRIBUTE("transpose_a", ipu__op_int(call, "transpose_a")),
                                          IPU_INT_ATTRIBUTE("transpose_b", ipu__op_int(call, "transpose_b"))},
        .n_attributes = 2,
        .n_operands   = 2,
        .operand      = {call->operand[A], call->operand[B]}};
    for (int i = 2; i < ipu__op_matmul.n_in; i++)
        product.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    IPU_TRY(ipu__op_matmul.infer(&product, out));
    if (!ipu__kernel_has(call, C)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, A, C));
    const ipu_shape *c = &call->operand[C].shape;
    for (int i = 1; i <= c->rank; i++)
        if (c->rank > 2 || (c->dim[c->rank - i] != 1 && c->dim[c->rank - i] != out->shape.dim[2 - i]))
            return ipu__op_want_shape(call, C, &out->shape);
    return IPU_OK;
}

static ipu_value scaled(ipu_builder *b, ipu_value v, double by)
{
    return by == 1 ? v : ipu_mul(b, v, ipu_scalar_like(b, v, by));
}

static void gemm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value product = ipu_matmul_with(b, in[A], in[B], ipu__op_int(call, "transpose_a") != 0,
                                        ipu__op_int(call, "transpose_b") != 0);
    out[0]            = scaled(b, product, ipu__op_float(call, "alpha"));
    if (!ipu__has(in[C])) return;
    out[0] = ipu_add(b, out[0], scaled(b, in[C], ipu__op_float(call, "beta")));
}

static const ipu__kernel_operand gemm_operands[] = {IPU__INPUT("a"), IPU__INPUT("b"), IPU__OPTIONAL("c"),
                                                    IPU__OUTPUT("out")};

static const ipu_op_attribute gemm_attributes[] = {
    {.name = "transpose_a", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: a is transposed"},
    {.name = "transpose_b", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: b is transposed"},
    {.name = "alpha", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "factor of the product"},
    {.name = "beta", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "factor of c"},
};

static const char *const gemm_samples[] = {
    "float[3,4], float[4,5], none",
    "float[3,4], float[5,4], float[5]; transpose_b=1",
    "float[4,3], float[4,5], float[3,1]; transpose_a=1 alpha=0.5 beta=2.0",
    "float[3,4], float[4,5], float[3,5]; beta=-1.0",
    NULL,
};

const ipu__op_def ipu__op_gemm = {
    .kernel       = {.name       = "gemm",
                     .operands   = gemm_operands,
                     .n_operands = IPU__COUNT(gemm_operands),
                     .check      = ipu__op_check},
    .n_in         = 3,
    .family       = "matmul",
    .summary      = "alpha * a b + beta * c",
    .attributes   = gemm_attributes,
    .n_attributes = IPU__COUNT(gemm_attributes),
    .infer        = gemm_infer,
    .compose      = gemm_compose,
    .samples      = gemm_samples,
};

ipu_value ipu_gemm(ipu_builder *b, ipu_value a, ipu_value x, ipu_value c, ipu_gemm_options options)
{
    return ipu__emit1(b, "gemm",
                      IPU__WITH(IPU_INT_ATTRIBUTE("transpose_a", options.transpose_a),
                                IPU_INT_ATTRIBUTE("transpose_b", options.transpose_b),
                                IPU_FLOAT_ATTRIBUTE("alpha", options.alpha != 0 ? options.alpha : 1),
                                IPU_FLOAT_ATTRIBUTE("beta", options.beta != 0 ? options.beta : 1)),
                      IPU__IN(a, x, c));
}

/* ---- linear ---- */

enum { X, WEIGHT, BIAS };

static ipu_status linear_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, WEIGHT));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_rank(call, WEIGHT, 2, 2));
    const ipu__kernel_value *x = &call->operand[X];
    const ipu_shape         *w = &call->operand[WEIGHT].shape;
    if (x->shape.dim[x->shape.rank - 1] != w->dim[1])
        return ipu__op_want_shape(call, WEIGHT, &IPU_SHAPE(w->dim[0], x->shape.dim[x->shape.rank - 1]));
    out[0]                              = *x;
    out[0].shape.dim[x->shape.rank - 1] = w->dim[0];
    if (!ipu__kernel_has(call, BIAS)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, X, BIAS));
    return ipu__op_want_shape(call, BIAS, &IPU_SHAPE(w->dim[0]));
}

static void linear_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = ipu_matmul_with(b, in[X], in[WEIGHT], false, true);
    if (ipu__has(in[BIAS])) out[0] = ipu_add(b, out[0], in[BIAS]);
}

static const ipu__kernel_operand linear_operands[] = {IPU__INPUT("x"), IPU__INPUT("weight"),
                                                      IPU__OPTIONAL("bias"), IPU__OUTPUT("out")};

static const char *const linear_samples[] = {
    "float[3,4], float[5,4], float[5]",
    "float[3,4], float[5,4], none",
    "float[4], float[5,4], float[5]",
    "float[2,3,4], float[5,4], float[5]",
    NULL,
};

const ipu__op_def ipu__op_linear = {
    .kernel  = {.name       = "linear",
                .operands   = linear_operands,
                .n_operands = IPU__COUNT(linear_operands),
                .check      = ipu__op_check},
    .n_in    = 3,
    .family  = "matmul",
    .summary = "x weight^T + bias",
    .infer   = linear_infer,
    .compose = linear_compose,
    .samples = linear_samples,
};

ipu_value ipu_linear(ipu_builder *b, ipu_value x, ipu_value weight, ipu_value bias)
{
    return ipu__emit1(b, "linear", NULL, 0, IPU__IN(x, weight, bias));
}
