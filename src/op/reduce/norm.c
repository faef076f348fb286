/* Norms of any order, standard deviations, sums without NaN and counts: compositions of reductions, of half types in
 * float.
 *
 * Roots and powers have a gradient of 0 at 0, where their slope is infinite or there is none.
 */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/reduce.h"
#include "op/compose.h"

enum { X, OUT };

/* `op` over the axes of the call. */
static ipu_value reduced(ipu_builder *b, const ipu__kernel_call *call, const char *op, ipu_value x)
{
    size_t         n;
    const int64_t *axes = ipu__op_ints(call, "axes", &n);
    return ipu__emit1(b, op,
                      IPU__WITH(IPU_INT_ATTRIBUTE("keep_dims", ipu__op_int(call, "keep_dims")),
                                IPU__INTS("axes", axes, n)),
                      IPU__IN(x));
}

static ipu_value power(ipu_builder *b, ipu_value x, double exponent)
{
    if (exponent < 0) return ipu_pow(b, x, ipu_scalar_like(b, x, exponent));
    ipu_value is_zero = ipu_equal(b, x, ipu_scalar_like(b, x, 0));
    ipu_value safe    = ipu_where(b, is_zero, ipu_scalar_like(b, x, 1), x);
    return ipu_where(b, is_zero, x, ipu_pow(b, safe, ipu_scalar_like(b, x, exponent)));
}

/* ---- norms ---- */

static ipu_status norm_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    double p = ipu__op_float(call, "p");
    if (isnan(p)) return ipu__fail(IPU_INVALID, "reduce_norm: p is not a number");
    IPU_TRY(ipu__op_want_floating(call, X));
    return isinf(p) ? ipu__op_reduce_max.infer(call, out) : ipu__op_reduce_l2.infer(call, out);
}

static ipu_value norm_of(ipu_builder *b, const ipu__kernel_call *call, ipu_value x, double p)
{
    if (p == 2) return reduced(b, call, "reduce_l2", x);
    if (p == 1) return reduced(b, call, "reduce_l1", x);
    if (p == 0) {
        ipu_value is_there = ipu_not_equal(b, x, ipu_scalar_like(b, x, 0));
        return reduced(b, call, "reduce_sum", ipu_cast(b, is_there, ipu_value_type(x)));
    }
    ipu_value size = ipu_abs(b, x);
    if (isinf(p)) return reduced(b, call, p > 0 ? "reduce_max" : "reduce_min", size);
    return power(b, reduced(b, call, "reduce_sum", power(b, size, p)), 1 / p);
}

static void norm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value norm = norm_of(b, call, ipu__wide(b, in[X]), ipu__op_float(call, "p"));
    out[0]         = ipu__as_type(b, norm, call->operand[X].type);
}

/* ---- renorm ---- */

static ipu_status renorm_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int    axis;
    double p = ipu__op_float(call, "p"), most = ipu__op_float(call, "max_norm");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    if (!(p > 0)) return ipu__fail(IPU_INVALID, "renorm: p = %g: expected more than 0", p);
    if (!(most >= 0)) return ipu__fail(IPU_INVALID, "renorm: max_norm = %g: expected 0 or more", most);
    *out = call->operand[X];
    return IPU_OK;
}

static void renorm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int    axis = 0, others[IPU_MAX_RANK], n = 0, rank = call->operand[X].shape.rank;
    double most = ipu__op_float(call, "max_norm");
    ipu__op_axis(call, "axis", rank, &axis);
    for (int d = 0; d < rank; d++)
        if (d != axis) others[n++] = d;
    ipu_value x       = ipu__wide(b, in[X]);
    ipu_value size    = ipu_reduce_norm(b, x, ipu__op_float(call, "p"), others, n, true);
    ipu_value factor  = ipu_div(b, ipu_scalar_like(b, size, most), ipu__plus(b, size, 1e-7));
    ipu_value is_long = ipu_greater(b, size, ipu_scalar_like(b, size, most));
    factor            = ipu_where(b, is_long, factor, ipu_scalar_like(b, size, 1));
    out[0]            = ipu__as_type(b, ipu_mul(b, x, factor), call->operand[X].type);
}

/* ---- standard deviations ---- */

static ipu_status std_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    return ipu__op_reduce_variance.infer(call, out);
}

static void std_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value variance = ipu__emit1(b, "reduce_variance", call->attributes, call->n_attributes,
                                    IPU__IN(ipu__wide(b, in[X])));
    ipu_value is_zero  = ipu_equal(b, variance, ipu_scalar_like(b, variance, 0));
    ipu_value safe     = ipu_where(b, is_zero, ipu_scalar_like(b, variance, 1), variance);
    ipu_value root     = ipu_where(b, is_zero, variance, ipu_sqrt(b, safe));
    out[0]             = ipu__as_type(b, root, call->operand[X].type);
}

/* ---- of some elements ---- */

static ipu_status nansum_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    return ipu__op_reduce_sum.infer(call, out);
}

static void nansum_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value x = in[X];
    if (ipu__op_is_floating(call->operand[X].type))
        x = ipu_where(b, ipu_isnan(b, x), ipu_scalar_like(b, x, 0), x);
    out[0] = reduced(b, call, "reduce_sum", x);
}

static ipu_status count_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_call of_bool = *call; /* the shape is that of any reduction */
    of_bool.operand[X].type  = IPU_BOOL;
    IPU_TRY(ipu__op_reduce_any.infer(&of_bool, out));
    out->type = IPU_INT32;
    return IPU_OK;
}

static void count_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value is_there = ipu__as_type(b, in[X], IPU_BOOL);
    out[0]             = reduced(b, call, "reduce_sum", ipu_cast(b, is_there, IPU_INT32));
}

/* ---- records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

#define AXES                                                               \
    {.name    = "axes",                                                    \
     .kind    = IPU_ATTRIBUTE_INTS,                                        \
     .meaning = "dimensions to reduce, negative from the end; none: all"}, \
    {                                                                      \
        .name = "keep_dims", .kind = IPU_ATTRIBUTE_INT,                    \
        .meaning = "1: reduced dimensions stay, with 1 element"            \
    }
static const ipu_op_attribute norm_attributes[] = {
    AXES,
    {.name      = "p",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 2,
     .meaning   = "of the norm; 0: how many are not 0; infinite: the largest magnitude, or the smallest"}};
static const ipu_op_attribute std_attributes[] = {
    AXES,
    {.name = "unbiased", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: divided by n - 1"},
    {.name = "correction", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "divided by n less this"}};

static const ipu_op_attribute nansum_attributes[] = {AXES};
#define count_attributes nansum_attributes
static const ipu_op_attribute renorm_attributes[] = {
    {.name     = "axis",
     .kind     = IPU_ATTRIBUTE_INT,
     .required = true,
     .meaning  = "slices along it are made short"},
    {.name = "p", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 2, .meaning = "of the norm, more than 0"},
    {.name     = "max_norm",
     .kind     = IPU_ATTRIBUTE_FLOAT,
     .required = true,
     .meaning  = "the most that a slice may have"}};

static const char *const renorm_samples[] = {"float[3,4]; axis=0 max_norm=1.5",
                                             "float[2,3,4]; axis=-1 p=1.0 max_norm=2.0",
                                             "float[3,4]; axis=1 p=3.0 max_norm=100.0", NULL};
static const char *const norm_samples[]   = {"float[3,4]",
                                             "float[3,4]; axes=[1] p=1.0",
                                             "float[3,4]; axes=[0] keep_dims=1 p=3.0",
                                             "float[2,3,4]{0.1,2}; axes=[0,2] p=0.5",
                                             "float[2,3,4]{0.1,2}; axes=[-1] p=-1.5",
                                             "float[3,4]; axes=[1] p=0.0",
                                             "float[3,4]; axes=[1] p=inf",
                                             "float[3,4]; axes=[1] p=-inf keep_dims=1",
                                             "float[]; p=3.0",
                                             NULL};
static const char *const std_samples[]    = {"float[3,4]", "float[3,4]; axes=[1] unbiased=1",
                                             "float[2,3,4]; axes=[0,2] keep_dims=1 correction=1.5", NULL};

static const char *const nansum_samples[] = {"float[3,4]", "float[3,4]; axes=[1] keep_dims=1",
                                             "int32[2,3]; axes=[0]", NULL};
static const char *const count_samples[]  = {"float[3,4]", "int64[3,4]{-1,2}; axes=[1] keep_dims=1",
                                             "bool[2,3]; axes=[0]", NULL};

#define RECORD(op, which, text)                                                                       \
    const ipu__op_def ipu__op_##op = {                                                                \
        .kernel       = {.name = #op, .operands = operands, .n_operands = 2, .check = ipu__op_check}, \
        .n_in         = 1,                                                                            \
        .family       = "reduce",                                                                     \
        .summary      = (text),                                                                       \
        .attributes   = which##_attributes,                                                           \
        .n_attributes = IPU__COUNT(which##_attributes),                                               \
        .infer        = which##_infer,                                                                \
        .compose      = which##_compose,                                                              \
        .samples      = which##_samples}
RECORD(reduce_norm, norm, "root of order p of the sum of magnitudes to the p");
RECORD(reduce_std, std, "standard deviation");
RECORD(reduce_nansum, nansum, "sum of what is not NaN");
RECORD(reduce_count_nonzero, count, "how many are not 0");
RECORD(renorm, renorm, "slices scaled to a norm that is not over a limit");

/* ---- functions ---- */

/* More axes than there can be are refused as those of a sum would be. `more`: NULL: no further attribute. */
static ipu_value emit(ipu_builder *b, const char *op, ipu_value x, const int *axes, int n_axes,
                      bool keep_dims, const ipu_attribute *more)
{
    int64_t       list[IPU_MAX_RANK];
    ipu_attribute attributes[3] = {IPU_INT_ATTRIBUTE("keep_dims", keep_dims)};
    if (n_axes < 0 || n_axes > IPU_MAX_RANK) return ipu_reduce_sum(b, x, axes, n_axes, keep_dims);
    for (int i = 0; i < n_axes; i++) list[i] = axes[i];
    attributes[1] = IPU__INTS("axes", list, n_axes);
    if (more) attributes[2] = *more;
    return ipu__emit1(b, op, attributes, more ? 3 : 2, IPU__IN(x));
}

ipu_value ipu_reduce_norm(ipu_builder *b, ipu_value x, double p, const int *axes, int n_axes, bool keep_dims)
{
    return emit(b, "reduce_norm", x, axes, n_axes, keep_dims, &IPU_FLOAT_ATTRIBUTE("p", p));
}

ipu_value ipu_reduce_std(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims,
                         bool unbiased)
{
    return emit(b, "reduce_std", x, axes, n_axes, keep_dims, &IPU_INT_ATTRIBUTE("unbiased", unbiased));
}

ipu_value ipu_reduce_nansum(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims)
{
    return emit(b, "reduce_nansum", x, axes, n_axes, keep_dims, NULL);
}

ipu_value ipu_reduce_count_nonzero(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims)
{
    return emit(b, "reduce_count_nonzero", x, axes, n_axes, keep_dims, NULL);
}

ipu_value ipu_renorm(ipu_builder *b, ipu_value x, double p, int axis, double max_norm)
{
    return ipu__emit1(b, "renorm",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_FLOAT_ATTRIBUTE("p", p),
                                IPU_FLOAT_ATTRIBUTE("max_norm", max_norm)),
                      IPU__IN(x));
}
