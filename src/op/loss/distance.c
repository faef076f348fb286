/* Distances and similarities of vectors, and covariances: compositions. */
#include "ipu/op/distance.h"

#include <math.h>

#include "base/array.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/matmul.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/compose.h"

enum { X, Y };

/* x and y of one floating type; *out is what they are broadcast to. */
static ipu_status pair_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    out->type = call->operand[X].type;
    return ipu__op_broadcast(call, 2, &out->shape);
}

static void drop_dim(ipu_shape *shape, int axis)
{
    for (int d = axis; d + 1 < shape->rank; d++) shape->dim[d] = shape->dim[d + 1];
    shape->rank--;
}

static ipu_value last_norm(ipu_builder *b, ipu_value x, double p, bool keep_dims)
{
    return ipu_reduce_norm(b, x, p, (int[]){-1}, 1, keep_dims);
}

/* ---- pairwise_distance ---- */

static ipu_status pairwise_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(pair_infer(call, out));
    if (out->shape.rank == 0) return ipu__op_want_rank(call, X, 1, IPU_MAX_RANK);
    if (ipu__op_int(call, "keep_dims"))
        out->shape.dim[out->shape.rank - 1] = 1;
    else
        out->shape.rank--;
    return IPU_OK;
}

static void pairwise_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_value apart = ipu__plus(b, ipu_sub(b, in[X], in[Y]), ipu__op_float(call, "eps"));
    out[0]          = last_norm(b, apart, ipu__op_float(call, "p"), ipu__op_int(call, "keep_dims"));
}

/* ---- cosine_similarity ---- */

/* A scalar is a vector of one. */
static ipu_status cosine_shape(const ipu__kernel_call *call, ipu__kernel_value *all, int *axis)
{
    IPU_TRY(pair_infer(call, all));
    if (all->shape.rank == 0) all->shape = IPU_SHAPE(1);
    return ipu__op_axis(call, "axis", all->shape.rank, axis);
}

static ipu_status cosine_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(cosine_shape(call, out, &axis));
    drop_dim(&out->shape, axis);
    return IPU_OK;
}

static ipu_value unit(ipu_builder *b, ipu_value x, int axis, double eps)
{
    ipu_value length = ipu_reduce_l2(b, x, &axis, 1, true);
    return ipu_div(b, x, ipu_maximum(b, length, ipu_scalar_like(b, x, eps)));
}

/* Of half in float: eps would be 0. */
static void cosine_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__kernel_value all  = {0};
    int               axis = 0;
    double            eps  = ipu__op_float(call, "eps");
    cosine_shape(call, &all, &axis); /* seen by infer */
    ipu_value x = ipu__wide(b, in[X]), y = ipu__wide(b, in[Y]);
    x      = ipu_expand(b, x, all.shape);
    y      = ipu_expand(b, y, all.shape);
    x      = unit(b, x, axis, eps);
    y      = unit(b, y, axis, eps);
    out[0] = ipu__as_type(b, ipu_reduce_sum(b, ipu_mul(b, x, y), &axis, 1, false), all.type);
}

/* ---- cdist, pdist ---- */

/* [..., n, d] and [..., m, d], as [..., n, 1, d] and [..., 1, m, d]. */
static ipu_shape with_pairs(const ipu_shape *shape, bool is_first)
{
    ipu_shape s   = *shape;
    s.dim[s.rank] = s.dim[s.rank - 1];
    int of_one    = is_first ? s.rank - 1 : s.rank - 2;
    if (!is_first) s.dim[s.rank - 1] = s.dim[s.rank - 2];
    s.dim[of_one] = 1;
    s.rank++;
    return s;
}

static ipu_status cdist_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, Y));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK - 1));
    IPU_TRY(ipu__op_want_rank(call, Y, 2, IPU_MAX_RANK - 1));
    const ipu_shape *x = &call->operand[X].shape, *y = &call->operand[Y].shape;
    if (x->dim[x->rank - 1] != y->dim[y->rank - 1])
        return ipu__fail(IPU_INVALID, "cdist: \"x\" %s and \"y\" %s must be equal in their last dimension",
                         ipu__shape_str(x), ipu__shape_str(y));
    ipu__kernel_call pairs = *call;
    pairs.operand[X].shape = with_pairs(x, true);
    pairs.operand[Y].shape = with_pairs(y, false);
    out->type              = call->operand[X].type;
    IPU_TRY(ipu__op_broadcast(&pairs, 2, &out->shape));
    out->shape.rank--;
    return IPU_OK;
}

static void cdist_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value x = ipu_reshape(b, in[X], with_pairs(&call->operand[X].shape, true));
    ipu_value y = ipu_reshape(b, in[Y], with_pairs(&call->operand[Y].shape, false));
    out[0]      = last_norm(b, ipu_sub(b, x, y), ipu__op_float(call, "p"), false);
}

enum { MOST_ROWS = 4096 /* of pdist, whose pairs are constants */ };

static ipu_status pdist_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, 2));
    int64_t n = call->operand[X].shape.dim[0];
    if (n > MOST_ROWS)
        return ipu__fail(IPU_INVALID, "pdist: \"x\" has %lld rows: expected at most %d", (long long)n,
                         MOST_ROWS);
    *out = (ipu__kernel_value){call->operand[X].type, IPU_SHAPE(n * (n - 1) / 2)};
    return IPU_OK;
}

/* Rows of all pairs, the first before the second. */
static void pdist_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int64_t  n = call->operand[X].shape.dim[0], n_pairs = call->operand[X + 1].shape.dim[0], k = 0;
    int32_t *first = ipu__alloc(2 * (size_t)n_pairs * sizeof *first + 1);
    if (!first) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "pdist: memory for %lld pairs", (long long)n_pairs);
        return;
    }
    int32_t *second = first + n_pairs;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++, k++) {
            first[k]  = (int32_t)i;
            second[k] = (int32_t)j;
        }
    ipu_value x = ipu_gather(b, in[X], ipu_constant_data(b, IPU_INT32, IPU_SHAPE(n_pairs), first), 0);
    ipu_value y = ipu_gather(b, in[X], ipu_constant_data(b, IPU_INT32, IPU_SHAPE(n_pairs), second), 0);
    ipu__free(first);
    out[0] = last_norm(b, ipu_sub(b, x, y), ipu__op_float(call, "p"), false);
}

/* ---- covariance ---- */

enum { FREQUENCIES = 1, WEIGHTS };

static ipu_status covariance_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, 2));
    const ipu_shape *x = &call->operand[X].shape;
    for (int i = FREQUENCIES; i <= WEIGHTS; i++) {
        if (!ipu__kernel_has(call, i)) continue;
        IPU_TRY(ipu__op_want_same_type(call, X, i));
        IPU_TRY(ipu__op_want_shape(call, i, &IPU_SHAPE(x->dim[1])));
    }
    *out = (ipu__kernel_value){call->operand[X].type, IPU_SHAPE(x->dim[0], x->dim[0])};
    return IPU_OK;
}

static ipu_value row_sums(ipu_builder *b, ipu_value x) { return ipu_reduce_sum(b, x, (int[]){1}, 1, true); }

static void covariance_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    ipu_value x = ipu__wide(b, in[X]), weights = IPU_NO_VALUE, apart, weighted, total;
    ipu_value lost = ipu_scalar_like(b, x, ipu__op_float(call, "correction"));
    ipu_type  type = ipu_value_type(x);
    if (ipu__has(in[FREQUENCIES])) weights = ipu__as_type(b, in[FREQUENCIES], type);
    ipu_value amounts = ipu__has(in[WEIGHTS]) ? ipu__as_type(b, in[WEIGHTS], type) : IPU_NO_VALUE;
    if (ipu__has(amounts)) weights = ipu__has(weights) ? ipu_mul(b, weights, amounts) : amounts;
    if (ipu__has(weights)) {
        total          = ipu_reduce_sum(b, weights, NULL, 0, false);
        ipu_value mean = ipu_div(b, row_sums(b, ipu_mul(b, x, weights)), total);
        apart          = ipu_sub(b, x, mean);
        weighted       = ipu_mul(b, apart, weights);
    } else {
        total          = ipu_scalar_like(b, x, (double)call->operand[X].shape.dim[1]);
        ipu_value mean = ipu_reduce_mean(b, x, (int[]){1}, 1, true);
        apart = weighted = ipu_sub(b, x, mean);
    }
    if (ipu__has(amounts)) {
        ipu_value twice = ipu_reduce_sum(b, ipu_mul(b, weights, amounts), NULL, 0, false);
        lost            = ipu_mul(b, lost, ipu_div(b, twice, total));
    }
    ipu_value products = ipu_matmul(b, weighted, ipu_transpose(b, apart, (int[]){1, 0}, 2));
    ipu_value left     = ipu_sub(b, total, lost);
    left               = ipu_maximum(b, left, ipu_scalar_like(b, left, 0));
    out[0]             = ipu__as_type(b, ipu_div(b, products, left), call->operand[X].type);
}

/* ---- records ---- */

static const ipu__kernel_operand pair_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT("out")};
static const ipu__kernel_operand one_operands[]  = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand covariance_operands[] = {IPU__INPUT("x"), IPU__OPTIONAL("frequencies"),
                                                          IPU__OPTIONAL("weights"), IPU__OUTPUT("out")};

#define P_ATTRIBUTE                                               \
    {                                                             \
        .name = "p", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 2, \
        .meaning = "of the norm, as reduce_norm has it"           \
    }
static const ipu_op_attribute p_attributes[]        = {P_ATTRIBUTE};
static const ipu_op_attribute pairwise_attributes[] = {
    P_ATTRIBUTE,
    {.name = "eps", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-6, .meaning = "added to each difference"},
    {.name    = "keep_dims",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: the last dimension stays, with 1 element"}};
static const ipu_op_attribute cosine_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "the dimension of the vectors"},
    {.name      = "eps",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1e-8,
     .meaning   = "the least length of a vector"}};
static const ipu_op_attribute covariance_attributes[] = {
    {.name      = "correction",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1,
     .meaning   = "what the number of columns is less by; 0: divided by their number"}};

static const char *const pairwise_samples[] = {"float[3,4], float[3,4]",
                                               "float[2,3,4], float[3,1]; p=1.0 keep_dims=1",
                                               "float[4], float[4]; p=3.0 eps=0.1", NULL};
static const char *const cosine_samples[] = {"float[3,4], float[3,4]", "float[3,4], float[4]; axis=0 eps=0.5",
                                             "float[2,3,4], float[2,3,4]; axis=-1",
                                             "float[], float[]; axis=0", NULL};
static const char *const cdist_samples[]  = {"float[3,4], float[5,4]", "float[2,3,4], float[1,5,4]; p=1.0",
                                             "float[3,2], float[2,5,2]; p=inf",
                                             "float[3,2], float[4,2]; p=2.5", NULL};
static const char *const pdist_samples[]  = {"float[4,3]", "float[5,2]; p=1.0", "float[1,3]", "float[0,3]",
                                             NULL};
static const char *const covariance_samples[] = {"float[3,7]", "float[2,5], float[5]{0.5,3}; correction=0",
                                                 "float[2,5], none, float[5]{0.5,1}",
                                                 "float[2,5], float[5]{1,3}, float[5]{0.5,1}; correction=0.5",
                                                 NULL};
#define cdist_attributes p_attributes
#define pdist_attributes p_attributes

#define RECORD(op, which, list, text)                                                       \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                   \
                                                       .operands   = list,                  \
                                                       .n_operands = (int)IPU__COUNT(list), \
                                                       .check      = ipu__op_check},             \
                                      .n_in         = (int)IPU__COUNT(list) - 1,            \
                                      .family       = "distance",                           \
                                      .summary      = (text),                               \
                                      .attributes   = which##_attributes,                   \
                                      .n_attributes = IPU__COUNT(which##_attributes),       \
                                      .infer        = which##_infer,                        \
                                      .compose      = which##_compose,                      \
                                      .samples      = which##_samples}
RECORD(pairwise_distance, pairwise, pair_operands, "p-norm of x - y over the last dimension");
RECORD(cosine_similarity, cosine, pair_operands, "cosine of the angle between vectors");
RECORD(cdist, cdist, pair_operands, "distance of each row of x from each row of y");
RECORD(pdist, pdist, one_operands, "distances of all pairs of rows");
RECORD(covariance, covariance, covariance_operands,
       "covariances of rows, of which columns are the observations");

/* ---- functions ---- */

ipu_value ipu_pairwise_distance(ipu_builder *b, ipu_value x, ipu_value y, double p, double eps,
                                bool keep_dims)
{
    return ipu__emit1(b, "pairwise_distance",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p), IPU_FLOAT_ATTRIBUTE("eps", eps),
                                IPU_INT_ATTRIBUTE("keep_dims", keep_dims)),
                      IPU__IN(x, y));
}

ipu_value ipu_cosine_similarity(ipu_builder *b, ipu_value x, ipu_value y, int axis, double eps)
{
    return ipu__emit1(b, "cosine_similarity",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_FLOAT_ATTRIBUTE("eps", eps)),
                      IPU__IN(x, y));
}

ipu_value ipu_cdist(ipu_builder *b, ipu_value x, ipu_value y, double p)
{
    return ipu__emit1(b, "cdist", IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p)), IPU__IN(x, y));
}

ipu_value ipu_pdist(ipu_builder *b, ipu_value x, double p)
{
    return ipu__emit1(b, "pdist", IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p)), IPU__IN(x));
}

ipu_value ipu_covariance(ipu_builder *b, ipu_value x, ipu_value frequencies, ipu_value weights,
                         double correction)
{
    return ipu__emit1(b, "covariance", IPU__WITH(IPU_FLOAT_ATTRIBUTE("correction", correction)),
                      IPU__IN(x, frequencies, weights));
}
