/* Linear algebra made of other ops: products of vectors, logarithms of determinants, solutions, bilinear forms. */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/linalg.h"
#include "ipu/op/matmul.h"
#include "ipu/op/shape.h"
#include "op/compose.h"

/* ---- cross ---- */

enum { X, Y };

static ipu_status cross_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    out->type = call->operand[X].type;
    if (out->type == IPU_BOOL)
        return ipu__fail(IPU_INVALID, "cross: \"x\" must be of a floating or an integer type, found bool%s",
                         ipu__shape_str(&call->operand[X].shape));
    IPU_TRY(ipu__op_broadcast(call, 2, &out->shape));
    IPU_TRY(ipu__op_axis(call, "axis", out->shape.rank, &axis));
    if (out->shape.dim[axis] == 3) return IPU_OK;
    return ipu__fail(IPU_INVALID, "cross: dimension %d must be 3, found \"x\" %s and \"y\" %s", axis,
                     ipu__shape_str(&call->operand[X].shape), ipu__shape_str(&call->operand[Y].shape));
}

/* Element i of the result is element i + by of x, from the end on again at the front. */
static ipu_value turned(ipu_builder *b, ipu_value x, int64_t by, int axis)
{
    return ipu_roll(b, x, (int64_t[]){-by}, &axis, 1);
}

static void cross_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_shape shape = call->operand[Y + 1].shape;
    int       axis  = 0;
    ipu__op_axis(call, "axis", shape.rank, &axis);
    ipu_value x = ipu_expand(b, in[X], shape), y = ipu_expand(b, in[Y], shape);
    ipu_value x1 = turned(b, x, 1, axis), y2 = turned(b, y, 2, axis), plus = ipu_mul(b, x1, y2);
    ipu_value x2 = turned(b, x, 2, axis), y1 = turned(b, y, 1, axis), minus = ipu_mul(b, x2, y1);
    out[0] = ipu_sub(b, plus, minus);
}

/* ---- slogdet ---- */

static ipu_status slogdet_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_det.infer(call, &out[0]));
    out[1] = out[0];
    return IPU_OK;
}

static void slogdet_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    ipu_value det = ipu_det(b, in[X]);
    out[0]        = ipu_sign(b, det);
    out[1]        = ipu_log(b, ipu_abs(b, det));
}

/* ---- solve ---- */

enum { A, RIGHT_SIDE };

/* Whether there is a vector for each matrix rather than a matrix: PyTorch's rule. */
static bool is_of_vectors(const ipu__kernel_call *call)
{
    ipu_shape rows = call->operand[A].shape;
    rows.rank--;
    if (ipu__op_int(call, "right")) return false;
    return call->operand[RIGHT_SIDE].shape.rank == 1
        || ipu__shape_equal(&rows, &call->operand[RIGHT_SIDE].shape);
}

static ipu_status solve_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_call product = {.def = &ipu__op_matmul.kernel, .n_operands = ipu__op_matmul.n_in};
    bool             right   = ipu__op_int(call, "right");
    IPU_TRY(ipu__op_inverse.infer(call, out));
    IPU_TRY(ipu__op_want_same_type(call, A, RIGHT_SIDE));
    IPU_TRY(ipu__op_want_rank(call, RIGHT_SIDE, right ? 2 : 1, IPU_MAX_RANK));
    for (int i = 0; i < product.n_operands; i++) /* none but the two matrices */
        product.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    product.operand[right]  = call->operand[A];
    product.operand[!right] = call->operand[RIGHT_SIDE];
    ipu_shape *x            = &product.operand[!right].shape;
    bool       of_vectors   = is_of_vectors(call) && x->rank > 1;
    if (of_vectors) x->dim[x->rank++] = 1;
    if (ipu__op_matmul.infer(&product, out) != IPU_OK)
        return ipu__fail(IPU_INVALID, "solve: \"a\" %s does not go with \"x\" %s",
                         ipu__shape_str(&call->operand[A].shape),
                         ipu__shape_str(&call->operand[RIGHT_SIDE].shape));
    if (of_vectors) out->shape.rank--;
    return IPU_OK;
}

static void solve_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value inverse = ipu_inverse(b, in[A]), x = in[RIGHT_SIDE];
    bool      of_vectors = is_of_vectors(call) && ipu_value_rank(x) > 1;
    if (of_vectors) x = ipu_unsqueeze(b, x, -1);
    out[0] = ipu__op_int(call, "right") ? ipu_matmul(b, x, inverse) : ipu_matmul(b, inverse, x);
    if (of_vectors) out[0] = ipu_squeeze(b, out[0], -1);
}

/* ---- bilinear ---- */

enum { WEIGHT = 2, BIAS, OUT };

static ipu_status bilinear_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *w = &call->operand[WEIGHT].shape, *x = &call->operand[X].shape;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_rank(call, WEIGHT, 3, 3));
    for (int i = Y; i <= BIAS; i++)
        if (ipu__kernel_has(call, i)) IPU_TRY(ipu__op_want_same_type(call, X, i));
    if (w->dim[1] != x->dim[x->rank - 1])
        return ipu__fail(IPU_INVALID,
                         "bilinear: \"weight\" %s has %lld elements for the last dimension of \"x\" %s",
                         ipu__shape_str(w), (long long)w->dim[1], ipu__shape_str(x));
    ipu_shape y        = *x;
    y.dim[x->rank - 1] = w->dim[2];
    IPU_TRY(ipu__op_want_shape(call, Y, &y));
    if (ipu__kernel_has(call, BIAS)) IPU_TRY(ipu__op_want_shape(call, BIAS, &IPU_SHAPE(w->dim[0])));
    *out                        = call->operand[X];
    out->shape.dim[x->rank - 1] = w->dim[0];
    return IPU_OK;
}

static void bilinear_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    const int64_t   *w    = call->operand[WEIGHT].shape.dim;
    const ipu_shape *x    = &call->operand[X].shape;
    int64_t          rows = 1, n_out = w[0], n_x = w[1], n_y = w[2];
    for (int d = 0; d < x->rank - 1; d++) rows *= x->dim[d];
    ipu_value flat = ipu_transpose(b, in[WEIGHT], (int[]){1, 0, 2}, 3);
    flat           = ipu_reshape(b, flat, IPU_SHAPE(n_x, n_out * n_y));
    ipu_value each = ipu_matmul(b, ipu__as_shape(b, in[X], IPU_SHAPE(rows, n_x)), flat);
    each           = ipu_reshape(b, each, IPU_SHAPE(rows, n_out, n_y));
    each           = ipu_matmul(b, each, ipu_reshape(b, in[Y], IPU_SHAPE(rows, n_y, 1)));
    out[0]         = ipu_reshape(b, each, call->operand[OUT].shape);
    if (ipu__has(in[BIAS])) out[0] = ipu_add(b, out[0], in[BIAS]);
}

/* ---- records ---- */

static const ipu__kernel_operand cross_operands[]    = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT("out")};
static const ipu__kernel_operand slogdet_operands[]  = {IPU__INPUT("x"), IPU__OUTPUT("sign"),
                                                        IPU__OUTPUT("log_size")};
static const ipu__kernel_operand solve_operands[]    = {IPU__INPUT("a"), IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand bilinear_operands[] = {
    IPU__INPUT("x"), IPU__INPUT("y"), IPU__INPUT("weight"), IPU__OPTIONAL("bias"), IPU__OUTPUT("out")};

static const ipu_op_attribute cross_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "the dimension of 3"}};
static const ipu_op_attribute solve_attributes[] = {
    {.name = "right", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: out a = x, not a out = x"}};

static const char *const cross_samples[]    = {"float[4,3], float[4,3]", "float[3,1,2], float[2,2]; axis=0",
                                               "int32[3], int32[3]", NULL};
static const char *const slogdet_samples[]  = {"float[2,2]{1,2}", "float[2,1,1]{-2,-1}", NULL};
static const char *const solve_samples[]    = {"float[2,2]{1,2}, float[2]", "float[3,1,1]{1,2}, float[3,1]",
                                               "float[3,1,1]{1,2}, float[1,4]",
                                               "float[2,2]{1,2}, float[3,2]; right=1", NULL};
static const char *const bilinear_samples[] = {"float[5,3], float[5,4], float[2,3,4], float[2]",
                                               "float[2,3,1], float[2,3,2], float[4,1,2], none",
                                               "float[3], float[2], float[1,3,2], float[1]", NULL};

#define RECORD(op, ins, text, ...)                                                              \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name       = #op,                            \
                                                  .operands   = op##_operands,                  \
                                                  .n_operands = (int)IPU__COUNT(op##_operands), \
                                                  .check      = ipu__op_check},                      \
                                      .n_in    = (ins),                                         \
                                      .family  = "linalg",                                      \
                                      .summary = (text),                                        \
                                      .infer   = op##_infer,                                    \
                                      .compose = op##_compose,                                  \
                                      .samples = op##_samples,                                  \
                                      __VA_ARGS__}
#define WITH(op) .attributes = op##_attributes, .n_attributes = IPU__COUNT(op##_attributes)
#define PLAIN .attributes = NULL
RECORD(cross, 2, "cross product of vectors in space", WITH(cross));
RECORD(slogdet, 1, "sign of the determinant, and the logarithm of its magnitude", PLAIN);
RECORD(solve, 2, "solution of systems of linear equations", WITH(solve));
RECORD(bilinear, 4, "x weight y for each of several weights", PLAIN);

/* ---- functions ---- */

ipu_value ipu_cross(ipu_builder *b, ipu_value x, ipu_value y, int axis)
{
    return ipu__emit1(b, "cross", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), IPU__IN(x, y));
}

ipu_value ipu_slogdet(ipu_builder *b, ipu_value x, ipu_value *log_size)
{
    ipu_value out[2];
    ipu_emit(b, "slogdet", NULL, 0, &x, 1, out, 2);
    if (log_size) *log_size = out[1];
    return out[0];
}

ipu_value ipu_solve(ipu_builder *b, ipu_value a, ipu_value x, bool right)
{
    return ipu__emit1(b, "solve", IPU__WITH(IPU_INT_ATTRIBUTE("right", right)), IPU__IN(a, x));
}

ipu_value ipu_bilinear(ipu_builder *b, ipu_value x, ipu_value y, ipu_value weight, ipu_value bias)
{
    return ipu__emit1(b, "bilinear", NULL, 0, IPU__IN(x, y, weight, bias));
}
