/* Reductions: their records, gradients, and those that are compositions of others.
 *
 * requires: kernel.c for the arithmetic.
 */
#include "op/reduce/reduce.h"

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/region.h"
#include "op/replicas.h"
#include "op/simplify.h"

enum { X, OUT };

/* ---- which elements ---- */

static void add_dim(ipu__reduce_dims *dims, int64_t dim, int64_t step)
{
    dims->dim[dims->rank]    = dim;
    dims->step[dims->rank++] = step;
    dims->n *= dim;
}

ipu__reduction ipu__reduction_get(const ipu_shape *shape, const bool is_reduced[IPU_MAX_RANK])
{
    ipu__reduction r       = {.is_run_reduced = true, .run = 1, .kept = {.n = 1}, .reduced = {.n = 1}};
    int64_t        step    = 1;
    bool           had_run = false;
    for (int d = shape->rank - 1; d >= 0;) { /* innermost first */
        if (shape->dim[d] == 1) {
            d--;
            continue;
        }
        bool    reduced = is_reduced[d];
        int64_t n       = 1;
        for (; d >= 0 && (is_reduced[d] == reduced || shape->dim[d] == 1); d--) n *= shape->dim[d];
        if (had_run) {
            add_dim(reduced ? &r.reduced : &r.kept, n, step);
        } else {
            r.run            = n;
            r.is_run_reduced = reduced;
            had_run          = true;
        }
        step *= n;
    }
    r.n_out  = r.kept.n * (r.is_run_reduced ? 1 : r.run);
    r.n_each = r.reduced.n * (r.is_run_reduced ? r.run : 1);
    return r;
}

int64_t ipu__reduce_offset(const ipu__reduce_dims *dims, int64_t i)
{
    int64_t offset = 0;
    for (int d = 0; d < dims->rank; d++) {
        offset += i % dims->dim[d] * dims->step[d];
        i /= dims->dim[d];
    }
    return offset;
}

static const ipu__op_def *const by_kind[IPU__N_REDUCE_KINDS] = {
    [IPU__REDUCE_SUM]        = &ipu__op_reduce_sum,
    [IPU__REDUCE_MEAN]       = &ipu__op_reduce_mean,
    [IPU__REDUCE_SUM_SQUARE] = &ipu__op_reduce_sum_square,
    [IPU__REDUCE_PROD]       = &ipu__op_reduce_prod,
    [IPU__REDUCE_MAX]        = &ipu__op_reduce_max,
    [IPU__REDUCE_MIN]        = &ipu__op_reduce_min,
    [IPU__REDUCE_ANY]        = &ipu__op_reduce_any,
    [IPU__REDUCE_ALL]        = &ipu__op_reduce_all,
};

ipu__reduce_kind ipu__reduce_kind_of(const ipu__kernel_call *call)
{
    int kind = 0;
    while (&by_kind[kind]->kernel != call->def) kind++;
    return (ipu__reduce_kind)kind;
}

ipu__reduction ipu__reduction_of(const ipu__kernel_call *call)
{
    bool mask[IPU_MAX_RANK] = {false};
    ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask); /* seen by infer: cannot fail */
    return ipu__reduction_get(&call->operand[X].shape, mask);
}

/* ---- inference ---- */

static ipu_status check_keep_dims(const ipu__kernel_call *call)
{
    int64_t keep = ipu__op_int(call, "keep_dims");
    if (keep == 0 || keep == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: attribute \"keep_dims\" must be 0 or 1, found %lld", call->def->name,
                     (long long)keep);
}

static ipu_status infer_shape(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu__kernel_value *x = &call->operand[X];
    bool                     mask[IPU_MAX_RANK];
    IPU_TRY(check_keep_dims(call));
    IPU_TRY(ipu__op_axes(call, "axes", x->shape.rank, mask));
    bool keep = ipu__op_int(call, "keep_dims");
    *out      = (ipu__kernel_value){.type = x->type};
    for (int d = 0; d < x->shape.rank; d++)
        if (!mask[d] || keep) out->shape.dim[out->shape.rank++] = mask[d] ? 1 : x->shape.dim[d];
    return IPU_OK;
}

static ipu_status floating_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    return infer_shape(call, out);
}

static ipu_status number_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_type type = call->operand[X].type;
    if (type == IPU_BOOL)
        return ipu__fail(IPU_INVALID, "%s: \"x\" must be of a floating or an integer type, found %s%s",
                         call->def->name, ipu_type_name(type), ipu__shape_str(&call->operand[X].shape));
    return infer_shape(call, out);
}

static ipu_status extreme_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(number_infer(call, out));
    if (ipu__reduction_of(call).n_each > 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"x\" %s%s has no elements to take it of", call->def->name,
                     ipu_type_name(call->operand[X].type), ipu__shape_str(&call->operand[X].shape));
}

static ipu_status bool_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_type(call, X, IPU_BOOL));
    return infer_shape(call, out);
}

/* ---- emitting ---- */

/* Axes and keep_dims of a call, for further reductions over the same ones. */
typedef struct reduced_axes {
    int     axes[IPU_MAX_RANK], n;
    int64_t n_each;
} reduced_axes;

static reduced_axes axes_of(const ipu__kernel_call *call)
{
    bool         mask[IPU_MAX_RANK] = {false};
    reduced_axes r                  = {.n_each = 1};
    ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask);
    for (int d = 0; d < call->operand[X].shape.rank; d++)
        if (mask[d]) {
            r.axes[r.n++] = d;
            r.n_each *= call->operand[X].shape.dim[d];
        }
    return r;
}

/* The result of a reduction with 1 where a dimension was dropped: it then broadcasts to its input. */
static ipu_value with_kept_dims(ipu_builder *b, const ipu__kernel_call *call, ipu_value v)
{
    reduced_axes r     = axes_of(call);
    ipu_shape    shape = call->operand[X].shape;
    for (int i = 0; i < r.n; i++) shape.dim[r.axes[i]] = 1;
    if (ipu_value_rank(v) == shape.rank) return v;
    return ipu_reshape(b, v, shape);
}

static ipu_value emit_reduce(ipu_builder *b, const char *op, ipu_value x, const int *axes, int n_axes,
                             bool keep_dims)
{
    int64_t list[IPU_MAX_RANK];
    if (n_axes < 0 || n_axes > IPU_MAX_RANK) {
        if (ipu_builder_status(b) == IPU_OK)
            ipu__builder_fail(b, IPU_INVALID, "%s: %d axes: expected 0 to %d", op, n_axes, IPU_MAX_RANK);
        return (ipu_value){b, 0};
    }
    for (int i = 0; i < n_axes; i++) list[i] = axes[i];
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("keep_dims", keep_dims), IPU__INTS("axes", list, n_axes)};
    return ipu__emit1(b, op, attributes, n_axes > 0 ? 2 : 1, IPU__IN(x));
}

#define REDUCE(name)                                                                               \
    ipu_value ipu_##name(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims) \
    {                                                                                              \
        return emit_reduce(b, #name, x, axes, n_axes, keep_dims);                                  \
    }
REDUCE(reduce_sum)
REDUCE(reduce_mean)
REDUCE(reduce_prod)
REDUCE(reduce_max)
REDUCE(reduce_min)
REDUCE(reduce_sum_square)
REDUCE(reduce_l1)
REDUCE(reduce_l2)
REDUCE(reduce_logsumexp)
REDUCE(reduce_any)
REDUCE(reduce_all)

ipu_value ipu_reduce_variance(ipu_builder *b, ipu_value x, const int *axes, int n_axes, bool keep_dims,
                              bool unbiased)
{
    int64_t list[IPU_MAX_RANK];
    if (n_axes < 0 || n_axes > IPU_MAX_RANK) return emit_reduce(b, "reduce_variance", x, axes, n_axes, false);
    for (int i = 0; i < n_axes; i++) list[i] = axes[i];
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("keep_dims", keep_dims),
                                  IPU_INT_ATTRIBUTE("unbiased", unbiased), IPU__INTS("axes", list, n_axes)};
    return ipu__emit1(b, "reduce_variance", attributes, n_axes > 0 ? 3 : 2, IPU__IN(x));
}

ipu_value ipu__sum_to(ipu_builder *b, ipu_value from, const ipu_shape *shape)
{
    ipu_shape f = ipu_value_shape(from);
    int       axes[IPU_MAX_RANK], n = 0, front = f.rank - shape->rank;
    if (ipu_builder_status(b) != IPU_OK || ipu__shape_equal(&f, shape)) return from;
    if (front < 0) { /* cannot be: `from` was broadcast from it */
        ipu__builder_fail(b, IPU_INVALID, "the gradient of something of shape %s has shape %s",
                          ipu__shape_str(shape), ipu__shape_str(&f));
        return (ipu_value){b, 0};
    }
    for (int d = 0; d < f.rank; d++)
        if (d < front || (shape->dim[d - front] == 1 && f.dim[d] != 1)) axes[n++] = d;
    ipu_value sum   = n > 0 ? ipu_reduce_sum(b, from, axes, n, false) : from;
    ipu_shape found = ipu_value_shape(sum);
    return ipu__shape_equal(&found, shape) ? sum : ipu_reshape(b, sum, *shape);
}

ipu_value ipu__sum_like(ipu_builder *b, ipu_value from, ipu_value like)
{
    ipu_shape shape = ipu_value_shape(like);
    return ipu__sum_to(b, from, &shape);
}

/* ---- gradients ---- */

static ipu_value d_kept(ipu__gradient *g) { return with_kept_dims(g->b, g->call, g->d_out[0]); }

static void sum_grad(ipu__gradient *g)
{
    if (g->wanted[X]) g->d_in[X] = ipu_expand(g->b, d_kept(g), g->call->operand[X].shape);
}

static void mean_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    ipu_value share = ipu_scalar_like(g->b, g->in[X], 1.0 / (double)axes_of(g->call).n_each);
    g->d_in[X]      = ipu_expand(g->b, ipu_mul(g->b, d_kept(g), share), g->call->operand[X].shape);
}

static void sum_square_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    ipu_value twice = ipu_mul(g->b, d_kept(g), ipu_scalar_like(g->b, g->in[X], 2));
    g->d_in[X]      = ipu_mul(g->b, g->in[X], twice);
}

/* What is equal to the extreme shares its gradient. */
static void extreme_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    ipu_builder *b    = g->b;
    reduced_axes r    = axes_of(g->call);
    ipu_value    mask = ipu_cast(b, ipu_equal(b, g->in[X], with_kept_dims(b, g->call, g->out[0])),
                                 g->call->operand[X].type);
    ipu_value    n    = ipu_reduce_sum(b, mask, r.axes, r.n, true);
    g->d_in[X]        = ipu_mul(b, mask, ipu_div(b, d_kept(g), n));
}

/* The product of all others: of those that are not 0, if no other is 0. Where more than one is 0, second
 * derivatives come out as 0. */
static void prod_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    ipu_builder *b    = g->b;
    ipu_value    x    = g->in[X];
    ipu_type     type = g->call->operand[X].type;
    reduced_axes r    = axes_of(g->call);
    ipu_value    zero = ipu_scalar_like(b, x, 0), one = ipu_scalar_like(b, x, 1);
    ipu_value    is_zero = ipu_equal(b, x, zero), mask = ipu_cast(b, is_zero, type);
    ipu_value    n_zeros = ipu_reduce_sum(b, mask, r.axes, r.n, true);
    ipu_value    safe    = ipu_where(b, is_zero, one, x);
    ipu_value    rest    = ipu_reduce_prod(b, safe, r.axes, r.n, true);
    ipu_value    n_other = ipu_sub(b, n_zeros, mask);
    ipu_value    others  = ipu_where(b, ipu_equal(b, n_other, zero), ipu_div(b, rest, safe), zero);
    g->d_in[X]           = ipu_mul(b, d_kept(g), others);
}

/* ---- compositions ---- */

static void l1_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    reduced_axes r = axes_of(call);
    out[0]         = ipu_reduce_sum(b, ipu_abs(b, in[X]), r.axes, r.n, ipu__op_int(call, "keep_dims"));
}

/* Where all elements are 0 the gradient is taken as 0. */
static void l2_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    reduced_axes r    = axes_of(call);
    ipu_value    sum  = ipu_reduce_sum_square(b, in[X], r.axes, r.n, ipu__op_int(call, "keep_dims"));
    ipu_value    zero = ipu_scalar_like(b, sum, 0), one = ipu_scalar_like(b, sum, 1);
    ipu_value    is_zero = ipu_equal(b, sum, zero);
    out[0]               = ipu_where(b, is_zero, zero, ipu_sqrt(b, ipu_where(b, is_zero, one, sum)));
}

/* The maximum is taken out where it is finite: of infinities alone it is the result itself. */
static void logsumexp_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    reduced_axes r    = axes_of(call);
    bool         keep = ipu__op_int(call, "keep_dims");
    if (r.n_each == 0) {
        out[0] = ipu_log(b, ipu_reduce_sum(b, in[X], r.axes, r.n, keep));
        return;
    }
    ipu_value top = ipu__emit1(b, "stop_gradient", NULL, 0,
                               IPU__IN(ipu_reduce_max(b, in[X], r.axes, r.n, true)));
    top           = ipu_where(b, ipu_isfinite(b, top), top, ipu_scalar_like(b, top, 0));
    ipu_value sum = ipu_reduce_sum(b, ipu_exp(b, ipu_sub(b, in[X], top)), r.axes, r.n, keep);
    if (!keep) top = ipu_reshape(b, top, call->operand[OUT].shape);
    out[0] = ipu_add(b, ipu_log(b, sum), top);
}

static void variance_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    reduced_axes r    = axes_of(call);
    bool         keep = ipu__op_int(call, "keep_dims");
    double       less = (double)ipu__op_int(call, "unbiased") + ipu__op_float(call, "correction");
    double       n    = (double)r.n_each - less;
    ipu_value    away = ipu_sub(b, in[X], ipu_reduce_mean(b, in[X], r.axes, r.n, true));
    ipu_value    sum  = ipu_reduce_sum_square(b, away, r.axes, r.n, keep);
    out[0]            = ipu_div(b, sum, ipu_scalar_like(b, sum, n > 0 ? n : 0));
}

/* ---- the records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

#define AXES                                                               \
    {.name    = "axes",                                                    \
     .kind    = IPU_ATTRIBUTE_INTS,                                        \
     .meaning = "dimensions to reduce, negative from the end; none: all"}, \
    {                                                                      \
        .name = "keep_dims", .kind = IPU_ATTRIBUTE_INT,                    \
        .meaning = "1: reduced dimensions stay, with 1 element"            \
    }
static const ipu_op_attribute attributes[]          = {AXES};
static const ipu_op_attribute variance_attributes[] = {
    AXES,
    {.name = "unbiased", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: divided by n - 1"},
    {.name = "correction", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "divided by n less this"}};

/* Both kinds of run, alone and with others outside; nothing reduced; more than a leaf; leaves in blocks. */
static const char *const samples[]         = {"float[3,4]",
                                              "float[3,4]; axes=[1]",
                                              "float[3,4]; axes=[0] keep_dims=1",
                                              "float[5]; axes=[-1]",
                                              "float[2,3,4]; axes=[0,2]",
                                              "float[2,3,4]; axes=[1]",
                                              "float[2,1,3,2,2]; axes=[0,3] keep_dims=1",
                                              "float[2,3,1]; axes=[2]",
                                              "float[]",
                                              "float[7,2500]; axes=[1]",
                                              "float[100,3]; axes=[0]",
                                              "float[150001]",
                                              "float[40,1100,3]; axes=[1]",
                                              "float[5000,30]; axes=[0]",
                                              "float[12,7,1500]; axes=[0,2]",
                                              "float[16,32,3,5]; axes=[0,2,3]",
                                              "float[70,3,5,7]; axes=[0,2,3]",
                                              "float[32,16,30,31]; axes=[2,3]",
                                              NULL};
static const char *const extreme_samples[] = {"float[3,4]",
                                              "float[3,4]; axes=[1]",
                                              "float[3,4]; axes=[0] keep_dims=1",
                                              "float[2,3,4]; axes=[0,2]",
                                              "float[2,3,4]; axes=[1]",
                                              "float[]",
                                              "float[7,2500]; axes=[1]",
                                              "float[150001]",
                                              "float[40,1100,3]; axes=[1]",
                                              "int32[5,7]; axes=[0]",
                                              "int8[300]{-9,9}",
                                              "uint8[30,3]; axes=[1]",
                                              "int16[30]{-9,9}",
                                              "uint16[30]",
                                              "uint32[5,7]; axes=[1]",
                                              "int64[4,5]{-9,9}",
                                              "uint64[4,5]; axes=[0]",
                                              "int64[40,1100,3]{-9,9}; axes=[1]",
                                              "int8[5000,30]{-9,9}; axes=[0]",
                                              "uint16[150001]",
                                              NULL};
static const char *const empty_samples[]   = {"float[3,4]",
                                              "float[3,4]; axes=[1]",
                                              "float[3,4]; axes=[0] keep_dims=1",
                                              "float[0]",
                                              "float[3,0]; axes=[1]",
                                              "float[0,3]; axes=[1]",
                                              "float[2,3,4]; axes=[0,2]",
                                              "float[2,3,4]; axes=[1]",
                                              "float[2,1,3,2,2]; axes=[0,3] keep_dims=1",
                                              "float[2,3,1]; axes=[2]",
                                              "float[]",
                                              "float[7,2500]; axes=[1]",
                                              "float[100,3]; axes=[0]",
                                              "int32[5,7]; axes=[0]",
                                              "int64[4,5]",
                                              "int8[300]",
                                              "uint64[4,5]; axes=[1]",
                                              "int64[40,1100,3]; axes=[1]",
                                              "int16[5000,30]; axes=[0]",
                                              "uint32[150001]",
                                              "uint16[4,5]",
                                              "float[150001]",
                                              "float[40,1100,3]; axes=[1]",
                                              "float[5000,30]; axes=[0]",
                                              "float[12,7,1500]; axes=[0,2]",
                                              NULL};
/* Near 1, so that a product of many stays finite. */
static const char *const prod_samples[]     = {"float[3,4]",
                                               "float[3,4]; axes=[1]",
                                               "float[3,4]; axes=[0] keep_dims=1",
                                               "float[3,0]; axes=[1]",
                                               "float[2,3,4]; axes=[0,2]",
                                               "int32[5,7]; axes=[0]",
                                               "uint64[5,7]; axes=[0]",
                                               "uint8[5,7]; axes=[1]",
                                               "float[1500,100]{0.9,1.1}; axes=[1]",
                                               "float[1500]{0.99,1.01}",
                                               "float[100,1500]{0.9,1.1}; axes=[0]",
                                               NULL};
static const char *const bool_samples[]     = {"bool[3,4]",
                                               "bool[3,4]; axes=[1]",
                                               "bool[3,4]; axes=[0] keep_dims=1",
                                               "bool[3,0]; axes=[1]",
                                               "bool[2,3,4]; axes=[0,2]",
                                               "bool[300,1000]; axes=[1]",
                                               "bool[1000,300]; axes=[0]",
                                               NULL};
static const char *const positive_samples[] = {"float[3,4]{0.1,2}", "float[3,4]{0.1,2}; axes=[1]",
                                               "float[3,4]{0.1,2}; axes=[0] keep_dims=1", NULL};
static const char *const composed_samples[] = {"float[3,4]", "float[3,4]; axes=[1]",
                                               "float[3,4]; axes=[0] keep_dims=1", "float[2,3,4]; axes=[0,2]",
                                               NULL};
static const char *const variance_samples[] = {"float[3,4]", "float[3,4]; axes=[1] unbiased=1",
                                               "float[3,4]; axes=[0] keep_dims=1", NULL};

/* A sum over the dimension: zeros add nothing. */
static bool sum_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    bool summed[IPU_MAX_RANK];
    if (ipu__op_axes(call, "axes", call->operand[0].shape.rank, summed) != IPU_OK || !summed[axis])
        return false;
    out->in[input] = axis;
    out->out[0]    = -1;
    return true;
}

/* Over dimensions of one element: nothing is added up, and dimensions may go. */
static ipu_status simplify(ipu__simplify *s)
{
    const ipu__kernel_value *x = &s->call.operand[0], *out = &s->call.operand[1];
    int64_t                  n = ipu__op_n_elements(&x->shape);
    if (x->type != out->type || n != ipu__op_n_elements(&out->shape) || n == 0) return IPU_OK;
    if (ipu__simplify_is_like(s, 0)) return ipu__simplify_if_alike(s);
    return s->become(s, &ipu__op_reshape, IPU__INTS("shape", out->shape.dim, out->shape.rank));
}

#define KERNEL(name_)                                                                                        \
    {                                                                                                        \
        .name = #name_, .operands = operands, .n_operands = 2, .check = ipu__op_check, .rows = ipu__op_rows, \
        .ref = ipu__reduce_ref, .work = ipu__reduce_work, .plan = ipu__reduce_plan,                          \
        .implementations = IPU__ON_CPU(ipu__reduce_implementations)                                          \
    }
#define RECORD(name_, infer_, samples_, ...)                                     \
    const ipu__op_def ipu__op_##name_ = {.kernel       = KERNEL(name_),          \
                                         .n_in         = 1,                      \
                                         .family       = "reduce",               \
                                         .attributes   = attributes,             \
                                         .n_attributes = IPU__COUNT(attributes), \
                                         .infer        = infer_,                 \
                                         .fold         = ipu__fold_reduce,       \
                                         .samples      = samples_,               \
                                         __VA_ARGS__}
#define COMPOSED(name_, attributes_, compose_, samples_, summary_)                                       \
    const ipu__op_def ipu__op_##name_ = {                                                                \
        .kernel       = {.name = #name_, .operands = operands, .n_operands = 2, .check = ipu__op_check}, \
        .n_in         = 1,                                                                               \
        .family       = "reduce",                                                                        \
        .summary      = summary_,                                                                        \
        .attributes   = attributes_,                                                                     \
        .n_attributes = IPU__COUNT(attributes_),                                                         \
        .infer        = floating_infer,                                                                  \
        .compose      = compose_,                                                                        \
        .samples      = samples_}

RECORD(reduce_sum, number_infer, empty_samples, .flags = IPU__OP_SHORT_IN_HALF, .simplify = simplify,
       .zeros = sum_zeros, .grad = sum_grad, .summary = "sum over dimensions");
RECORD(reduce_mean, floating_infer, samples, .flags = IPU__OP_SHORT_IN_HALF, .simplify = simplify,
       .grad = mean_grad, .summary = "mean over dimensions");
RECORD(reduce_sum_square, number_infer, empty_samples, .flags = IPU__OP_SHORT_IN_HALF,
       .grad = sum_square_grad, .summary = "sum of squares over dimensions");
RECORD(reduce_prod, number_infer, prod_samples, .flags = IPU__OP_SHORT_IN_HALF, .simplify = simplify,
       .grad = prod_grad, .summary = "product over dimensions");
RECORD(reduce_max, extreme_infer, extreme_samples, .flags = IPU__OP_EXACT_IN_HALF, .simplify = simplify,
       .grad = extreme_grad, .summary = "maximum over dimensions");
RECORD(reduce_min, extreme_infer, extreme_samples, .flags = IPU__OP_EXACT_IN_HALF, .simplify = simplify,
       .grad = extreme_grad, .summary = "minimum over dimensions");
RECORD(reduce_any, bool_infer, bool_samples, .flags = IPU__OP_NO_GRADIENT,
       .summary = "whether any element is true");
RECORD(reduce_all, bool_infer, bool_samples, .flags = IPU__OP_NO_GRADIENT,
       .summary = "whether all elements are true");

COMPOSED(reduce_l1, attributes, l1_compose, composed_samples, "sum of magnitudes");
COMPOSED(reduce_l2, attributes, l2_compose, positive_samples, "root of the sum of squares");
COMPOSED(reduce_logsumexp, attributes, logsumexp_compose, composed_samples,
         "log(sum(exp(x))), without overflow");
COMPOSED(reduce_variance, variance_attributes, variance_compose, variance_samples,
         "variance over dimensions");
