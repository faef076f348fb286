/* Pooling composed of other ops: p-norms of windows, unpooling of maxima. */
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/pool.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/op.h"

enum { X, INDICES, MOST_DIMS = 3 };

/* ---- lp_pool ---- */

/* The average pooling whose windows are those of a call: all of them whole, by more padding where need be. */
typedef struct average {
    int64_t       kernel[MOST_DIMS], strides[MOST_DIMS], pads[2 * MOST_DIMS];
    ipu_attribute attributes[4];
    double        window; /* elements */
} average;

static int64_t listed(const ipu__kernel_call *call, const char *name, size_t i, int64_t otherwise)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    return i < n ? list[i] : otherwise;
}

static void find_average(const ipu__kernel_call *call, const ipu_shape *y, average *a)
{
    const ipu_shape *x = &call->operand[X].shape;
    size_t           n = (size_t)x->rank - 2;
    a->window          = 1;
    for (size_t i = 0; i < n; i++) {
        int64_t end    = listed(call, "pads", n + i, 0);
        a->kernel[i]   = listed(call, "kernel", i, 1);
        a->strides[i]  = listed(call, "strides", i, a->kernel[i]);
        a->pads[i]     = listed(call, "pads", i, 0);
        int64_t reach  = (y->dim[2 + i] - 1) * a->strides[i] + a->kernel[i] - x->dim[2 + i] - a->pads[i];
        a->pads[n + i] = reach > end ? reach : end;
        a->window *= (double)a->kernel[i];
    }
    a->attributes[0] = IPU__INTS("kernel", a->kernel, n);
    a->attributes[1] = IPU__INTS("strides", a->strides, n);
    a->attributes[2] = IPU__INTS("pads", a->pads, 2 * n);
    a->attributes[3] = IPU_INT_ATTRIBUTE("count_include_pad", 1);
}

static ipu_status check_p(const ipu__kernel_call *call)
{
    double p = ipu__op_float(call, "p");
    if (p > 0 && isfinite(p)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: p = %g: expected more than 0", call->def->name, p);
}

static ipu_status lp_pool_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_attribute    list[8];
    ipu__kernel_call windows = *call;
    windows.def              = &ipu__op_average_pool.kernel;
    windows.attributes       = list;
    windows.n_attributes     = 0;
    IPU_TRY(check_p(call));
    for (size_t i = 0; i < call->n_attributes && windows.n_attributes < IPU__COUNT(list); i++)
        if (strcmp(call->attributes[i].name, "p") != 0) list[windows.n_attributes++] = call->attributes[i];
    return ipu__op_average_pool.infer(&windows, out);
}

static ipu_value wide(ipu_builder *b, ipu_value x)
{
    ipu_type type = ipu_value_type(x);
    return type == IPU_FLOAT || type == IPU_DOUBLE ? x : ipu_cast(b, x, IPU_FLOAT);
}

static ipu_value narrow(ipu_builder *b, ipu_value x, ipu_type type)
{
    return ipu_value_type(x) == type ? x : ipu_cast(b, x, type);
}

static ipu_value power(ipu_builder *b, ipu_value x, double p)
{
    if (p == 1) return ipu_abs(b, x);
    if (p == 2) return ipu_square(b, x);
    return ipu_pow(b, ipu_abs(b, x), ipu_scalar_like(b, x, p));
}

/* Where the sum is 0 the root has no slope; none passes. */
static ipu_value root(ipu_builder *b, ipu_value sum, double p)
{
    if (p == 1) return sum;
    ipu_value zero = ipu_scalar_like(b, sum, 0), is_zero = ipu_equal(b, sum, zero);
    ipu_value safe = ipu_where(b, is_zero, ipu_scalar_like(b, sum, 1), sum);
    safe           = p == 2 ? ipu_sqrt(b, safe) : ipu_pow(b, safe, ipu_scalar_like(b, safe, 1 / p));
    return ipu_where(b, is_zero, zero, safe);
}

static void lp_pool_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    average a;
    double  p = ipu__op_float(call, "p");
    find_average(call, &call->operand[1].shape, &a);
    ipu_value mean = ipu__emit1(b, "average_pool", a.attributes, IPU__COUNT(a.attributes),
                                IPU__IN(power(b, wide(b, in[X]), p)));
    ipu_value sum  = ipu_mul(b, mean, ipu_scalar_like(b, mean, a.window));
    out[0]         = narrow(b, root(b, sum, p), call->operand[X].type);
}

/* ---- global_lp_pool ---- */

static ipu_status global_lp_pool_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 3, IPU_MAX_RANK));
    IPU_TRY(check_p(call));
    *out = call->operand[X];
    for (int d = 2; d < out->shape.rank; d++) out->shape.dim[d] = 1;
    return IPU_OK;
}

static void global_lp_pool_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                   ipu_value *out)
{
    static const int axes[] = {2, 3, 4, 5, 6, 7};
    double           p      = ipu__op_float(call, "p");
    ipu_value sum = ipu_reduce_sum(b, power(b, wide(b, in[X]), p), axes, call->operand[X].shape.rank - 2,
                                   true);
    out[0]        = narrow(b, root(b, sum, p), call->operand[X].type);
}

/* ---- max_unpool ---- */

static ipu_status max_unpool_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    size_t         n;
    const int64_t *size = ipu__op_ints(call, "size", &n);
    IPU_TRY(ipu__op_want_rank(call, X, 3, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    IPU_TRY(ipu__op_want_shape(call, INDICES, &call->operand[X].shape));
    *out = call->operand[X];
    if (n != (size_t)out->shape.rank - 2)
        return ipu__fail(IPU_INVALID, "max_unpool: \"size\" has %zu numbers: expected %d", n,
                         out->shape.rank - 2);
    for (size_t i = 0; i < n; i++) {
        if (size[i] < 0)
            return ipu__fail(IPU_INVALID, "max_unpool: \"size\" has %lld: expected 0 or more",
                             (long long)size[i]);
        out->shape.dim[2 + i] = size[i];
    }
    return IPU_OK;
}

/* Rows are planes, or one is all: zeros, with elements set where indices say. */
static void max_unpool_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *y = &call->operand[2].shape;
    int64_t          rows = ipu__op_int(call, "flat") ? 1 : x->dim[0] * x->dim[1];
    int64_t          n    = rows ? ipu__op_n_elements(x) / rows : 0;
    ipu_shape        from = IPU_SHAPE(rows, n), to = IPU_SHAPE(rows, rows ? ipu__op_n_elements(y) / rows : 0);
    ipu_value        zeros = ipu_expand(b, ipu_scalar_like(b, in[X], 0), to);
    ipu_value        set   = ipu_scatter_elements(b, zeros, ipu_reshape(b, in[INDICES], from),
                                                  ipu_reshape(b, in[X], from), 1, IPU_SCATTER_SET);
    out[0]                 = ipu_reshape(b, set, *y);
}

/* ---- records ---- */

static const ipu__kernel_operand operands[]        = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu__kernel_operand unpool_operands[] = {IPU__INPUT("x"), IPU__INPUT("indices"),
                                                      IPU__OUTPUT("y")};

#define P_ATTRIBUTE                                                                        \
    {                                                                                      \
        .name = "p", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 2, .meaning = "of the norm" \
    }
static const ipu_op_attribute lp_pool_attributes[] = {
    {.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "size of the window"},
    {.name    = "strides",
     .kind    = IPU_ATTRIBUTE_INTS,
     .meaning = "from window to window; none: the kernel's size"},
    {.name    = "pads",
     .kind    = IPU_ATTRIBUTE_INTS,
     .meaning = "before each dimension, then after each; none: 0"},
    {.name    = "ceil_mode",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: a last window that is only partly there counts"},
    P_ATTRIBUTE,
};
static const ipu_op_attribute global_lp_pool_attributes[] = {P_ATTRIBUTE};
static const ipu_op_attribute max_unpool_attributes[]     = {
        {.name     = "size",
         .kind     = IPU_ATTRIBUTE_INTS,
         .required = true,
         .meaning  = "extents of a plane of the output"},
        {.name    = "flat",
         .kind    = IPU_ATTRIBUTE_INT,
         .meaning = "1: indices count through all of the output, not through a plane"},
};

static const char *const lp_pool_samples[] = {
    "float[2,3,7]; kernel=[2]", "float[2,1,7,7]; kernel=[3,3] strides=[2,2] pads=[1,1,1,1] ceil_mode=1 p=3.0",
    "float[1,2,5,6]; kernel=[2,3] strides=[2,2] ceil_mode=1 p=1.0",
    "float[1,2,4,5,4]; kernel=[2,2,2] strides=[1,2,2]", NULL};
static const char *const global_lp_pool_samples[] = {"float[2,3,7]", "float[2,1,3,3]; p=3.0",
                                                     "float[1,2,2,3,2]; p=1.0", NULL};
static const char *const max_unpool_samples[]     = {"float[1,1,3], int32[1,1,3]{0,7}; size=[8]",
                                                     "float[1,2,1,1], int64[1,2,1,1]{0,3}; size=[2,2] flat=1",
                                                     "float[2,3,1], int32[2,3,1]{0,5}; size=[6]",
                                                     "float[0,3,2], int32[0,3,2]; size=[6]", NULL};

#define RECORD(op, list, ins, text)                                                                       \
    const ipu__op_def ipu__op_##op = {                                                                    \
        .kernel       = {.name = #op, .operands = list, .n_operands = (ins) + 1, .check = ipu__op_check}, \
        .n_in         = (ins),                                                                            \
        .family       = "pool",                                                                           \
        .summary      = (text),                                                                           \
        .flags        = 0,                                                                                \
        .attributes   = op##_attributes,                                                                  \
        .n_attributes = IPU__COUNT(op##_attributes),                                                      \
        .infer        = op##_infer,                                                                       \
        .compose      = op##_compose,                                                                     \
        .samples      = op##_samples}
RECORD(lp_pool, operands, 1, "the p-norm of each window");
RECORD(global_lp_pool, operands, 1, "the p-norm of each plane");
RECORD(max_unpool, unpool_operands, 2, "elements put where indices say, else 0");

/* ---- functions ---- */

ipu_value ipu_global_lp_pool(ipu_builder *b, ipu_value x, double p)
{
    return ipu__emit1(b, "global_lp_pool", IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p)), IPU__IN(x));
}

static ipu_value unpool(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size, bool flat)
{
    int n = ipu_value_rank(x) - 2;
    return ipu__emit1(b, "max_unpool",
                      IPU__WITH(IPU__INTS("size", size, n > 0 ? n : 0), IPU_INT_ATTRIBUTE("flat", flat)),
                      IPU__IN(x, indices));
}

ipu_value ipu_max_unpool(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size)
{
    return unpool(b, x, indices, size, false);
}

ipu_value ipu_max_unpool_flat(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size)
{
    return unpool(b, x, indices, size, true);
}
