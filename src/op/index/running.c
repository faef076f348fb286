/* Running extremes and logarithms of sums: compositions, in as many steps as the length has bits.
 *
 * Step k joins element i with what is known of the 2^k elements before: a scan by doubling.
 */
#include "graph/graph.h"
#include "ipu/model.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/compose.h"

enum { X };

static ipu_status scan_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    *out = call->operand[X];
    return IPU_OK;
}

static int axis_of(const ipu__kernel_call *call)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis); /* seen by infer: cannot fail */
    return axis;
}

/* The elements [begin, end) of `axis`, of all elements. */
static ipu_value part(ipu_builder *b, ipu_value x, int axis, int64_t begin, int64_t end)
{
    return ipu_slice(b, x, begin, end, axis);
}

static ipu_value behind(ipu_builder *b, ipu_value first, ipu_value rest, int axis)
{
    return ipu_concat(b, (ipu_value[]){first, rest}, 2, axis);
}

/* ---- logcumsumexp ---- */

static ipu_status logcumsumexp_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    return scan_infer(call, out);
}

static void logcumsumexp_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    int       axis = axis_of(call);
    int64_t   n    = call->operand[X].shape.dim[axis];
    ipu_value y    = ipu__wide(b, in[X]);
    for (int64_t reach = 1; reach < n; reach *= 2) {
        ipu_value before = part(b, y, axis, 0, n - reach), own = part(b, y, axis, reach, n);
        ipu_value first = part(b, y, axis, 0, reach);
        y               = behind(b, first, ipu__log_add_exp(b, before, own), axis);
    }
    out[0] = ipu__as_type(b, y, call->operand[X].type);
}

/* ---- cummax, cummin ---- */

static ipu_status extreme_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(scan_infer(call, &out[0]));
    IPU_TRY(ipu__op_axis(call, "axis", out[0].shape.rank, &axis));
    out[1] = (ipu__kernel_value){IPU_INT32, out[0].shape};
    if (out[0].shape.dim[axis] <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: dimension %d of \"x\" has %lld elements: expected at most %d",
                     call->def->name, axis, (long long)out[0].shape.dim[axis], INT32_MAX);
}

/* Whether the one before stays: of equal ones the last counts, and a NaN stays until the next. */
static ipu_value stays(ipu_builder *b, ipu_value before, ipu_value own, bool is_max)
{
    ipu_value keep = is_max ? ipu_greater(b, before, own) : ipu_less(b, before, own);
    if (!ipu__op_is_floating(ipu_value_type(own))) return keep;
    keep = ipu_logical_or(b, keep, ipu_isnan(b, before));
    return ipu_logical_and(b, keep, ipu_logical_not(b, ipu_isnan(b, own)));
}

/* Places first, then the elements there: only they have a gradient. */
static void extreme(ipu_builder *b, const ipu__kernel_call *call, ipu_value in, ipu_value *out, bool is_max)
{
    ipu_shape shape = call->operand[X].shape, line = shape;
    ipu_type  type = call->operand[X].type;
    int       axis = axis_of(call);
    int64_t   n    = shape.dim[axis];
    for (int d = 0; d < line.rank; d++)
        if (d != axis) line.dim[d] = 1;
    ipu_value x      = ipu__as_type(b, in, type == IPU_BOOL ? IPU_UINT8 : type);
    ipu_value places = ipu_reshape(b, ipu_arange(b, IPU_INT32, n, 0, 1), line);
    ipu_value best   = ipu_stop_gradient(b, x);
    places           = ipu_expand(b, places, shape);
    for (int64_t reach = 1; reach < n; reach *= 2) {
        ipu_value before = part(b, best, axis, 0, n - reach), own = part(b, best, axis, reach, n);
        ipu_value keep   = stays(b, before, own, is_max);
        ipu_value joined = ipu_where(b, keep, before, own);
        ipu_value from = part(b, places, axis, 0, n - reach), here = part(b, places, axis, reach, n);
        ipu_value place = ipu_where(b, keep, from, here);
        best            = behind(b, part(b, best, axis, 0, reach), joined, axis);
        places          = behind(b, part(b, places, axis, 0, reach), place, axis);
    }
    out[0] = ipu__as_type(b, ipu_gather_elements(b, x, places, axis), type);
    out[1] = places;
}

static void cummax_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    extreme(b, call, in[X], out, true);
}

static void cummin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    extreme(b, call, in[X], out, false);
}

/* ---- records ---- */

static const ipu__kernel_operand sum_operands[]     = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__kernel_operand extreme_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("values"),
                                                       IPU__OUTPUT("indices")};
static const ipu_op_attribute    attributes[]       = {{.name     = "axis",
                                                        .kind     = IPU_ATTRIBUTE_INT,
                                                        .required = true,
                                                        .meaning  = "the dimension along which it runs"}};
static const char *const sum_samples[] = {"float[7,3]; axis=0", "float[2,1,5]; axis=-1", "float[3,0]; axis=1",
                                          NULL};
static const char *const extreme_samples[] = {"float[7,3]; axis=0", "float[2,1,5]; axis=-1",
                                              "bool[9]; axis=0",    "int32[3,4]; axis=1",
                                              "float[3,0]; axis=1", NULL};

#define RECORD(op, operands_, infer_, samples_, text)                                            \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                        \
                                                       .operands   = operands_,                  \
                                                       .n_operands = (int)IPU__COUNT(operands_), \
                                                       .check      = ipu__op_check},                  \
                                      .n_in         = 1,                                         \
                                      .family       = "sort",                                    \
                                      .summary      = (text),                                    \
                                      .attributes   = attributes,                                \
                                      .n_attributes = IPU__COUNT(attributes),                    \
                                      .infer        = infer_,                                    \
                                      .compose      = op##_compose,                              \
                                      .samples      = samples_}
RECORD(logcumsumexp, sum_operands, logcumsumexp_infer, sum_samples, "logarithm of the running sum of exp(x)");
RECORD(cummax, extreme_operands, extreme_infer, extreme_samples, "the largest so far, and where it is");
RECORD(cummin, extreme_operands, extreme_infer, extreme_samples, "the smallest so far, and where it is");

/* ---- functions ---- */

ipu_value ipu_logcumsumexp(ipu_builder *b, ipu_value x, int axis)
{
    return ipu__emit1(b, "logcumsumexp", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), IPU__IN(x));
}

static ipu_value running(ipu_builder *b, const char *op, ipu_value x, int axis, ipu_value *indices)
{
    ipu_value out[2];
    ipu_emit(b, op, IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), &x, 1, out, 2);
    if (indices) *indices = out[1];
    return out[0];
}

ipu_value ipu_cummax(ipu_builder *b, ipu_value x, int axis, ipu_value *indices)
{
    return running(b, "cummax", x, axis, indices);
}

ipu_value ipu_cummin(ipu_builder *b, ipu_value x, int axis, ipu_value *indices)
{
    return running(b, "cummin", x, axis, indices);
}
