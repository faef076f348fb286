/* Places in sorted sequences, counts, membership, medians and modes: compositions. */
#include "ipu/op/search.h"

#include <math.h>

#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/model.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/compose.h"

static ipu_value whole(ipu_builder *b, int64_t value)
{
    return ipu_constant_value(b, IPU_INT32, IPU_SCALAR, (double)value);
}

/* ---- searchsorted ---- */

enum { SEQUENCE, VALUES };

static ipu_status want_countable(const ipu__kernel_call *call, int operand, int axis)
{
    int64_t n = call->operand[operand].shape.dim[axis];
    if (n <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: dimension %d of \"%s\" has %lld elements: expected at most %d",
                     call->def->name, axis, call->def->operands[operand].name, (long long)n, INT32_MAX);
}

static ipu_status searchsorted_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *sequence = &call->operand[SEQUENCE].shape;
    IPU_TRY(ipu__op_want_rank(call, SEQUENCE, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_want_same_type(call, SEQUENCE, VALUES));
    IPU_TRY(want_countable(call, SEQUENCE, sequence->rank - 1));
    *out = (ipu__kernel_value){IPU_INT32, call->operand[VALUES].shape};
    if (sequence->rank == 1) return IPU_OK;
    ipu_shape want = *sequence;
    if (out->shape.rank == want.rank) want.dim[want.rank - 1] = out->shape.dim[want.rank - 1];
    return ipu__op_want_shape(call, VALUES, &want);
}

/* Binary search of all values at once, in as many steps as the length has bits. */
static void searchsorted_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                 ipu_value *out)
{
    const ipu_shape *sequence = &call->operand[SEQUENCE].shape, *shape = &call->operand[VALUES].shape;
    int64_t          n   = sequence->dim[sequence->rank - 1];
    ipu_value        one = whole(b, 1), last = whole(b, n - 1);
    ipu_value        low = ipu_expand(b, whole(b, 0), *shape), high = ipu_expand(b, whole(b, n), *shape);
    for (int64_t left = n; left > 0; left /= 2) {
        ipu_value middle  = ipu_shift_right(b, ipu_add(b, low, high), one);
        ipu_value probe   = ipu_minimum(b, middle, last);
        ipu_value found   = sequence->rank == 1
                              ? ipu_gather(b, in[SEQUENCE], probe, 0)
                              : ipu_gather_elements(b, in[SEQUENCE], probe, sequence->rank - 1);
        ipu_value open    = ipu_less(b, low, high);
        ipu_value before  = ipu__op_int(call, "right") ? ipu_less_equal(b, found, in[VALUES])
                                                       : ipu_less(b, found, in[VALUES]);
        ipu_value right   = ipu_logical_and(b, open, before);
        ipu_value is_left = ipu_logical_and(b, open, ipu_logical_not(b, right));
        low               = ipu_where(b, right, ipu_add(b, middle, one), low);
        high              = ipu_where(b, is_left, middle, high);
    }
    out[0] = low;
}

/* ---- bincount, histogram ---- */

enum { X, WEIGHTS };

/* For each of `n` places the sum of the weights of those that name it; other places count nothing. */
static ipu_value counted(ipu_builder *b, ipu_value places, int64_t n, ipu_value weights)
{
    ipu_value zero = ipu_scalar_like(b, weights, 0), first = whole(b, 0);
    places           = ipu__as_type(b, places, IPU_INT32);
    ipu_value inside = ipu_greater_equal(b, places, first);
    inside           = ipu_logical_and(b, inside, ipu_less(b, places, whole(b, n)));
    weights          = ipu_where(b, inside, weights, zero);
    places           = ipu_where(b, inside, places, first);
    ipu_value zeros  = ipu_expand(b, zero, IPU_SHAPE(n));
    return ipu_scatter_elements(b, zeros, places, weights, 0, IPU_SCATTER_ADD);
}

static ipu_status want_places(const ipu__kernel_call *call, const char *name, int64_t *n)
{
    *n = ipu__op_int(call, name);
    if (*n >= 1 && *n <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: %s = %lld: expected 1 to %d", call->def->name, name, (long long)*n,
                     INT32_MAX);
}

static ipu_status bincount_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t n;
    if (!ipu__op_is_integer(call->operand[X].type)) return ipu__op_want_integer(call, X);
    IPU_TRY(want_places(call, "size", &n));
    *out = (ipu__kernel_value){IPU_INT32, IPU_SHAPE(n)};
    if (!ipu__kernel_has(call, WEIGHTS)) return IPU_OK;
    out->type = call->operand[WEIGHTS].type;
    return ipu__op_want_shape(call, WEIGHTS, &call->operand[X].shape);
}

static ipu_value flat(ipu_builder *b, ipu_value x)
{
    return ipu__as_shape(b, x, IPU_SHAPE(ipu_value_n_elements(x)));
}

static void bincount_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_value x       = flat(b, in[X]);
    ipu_value weights = ipu__has(in[WEIGHTS]) ? flat(b, in[WEIGHTS])
                                              : ipu_expand(b, whole(b, 1), ipu_value_shape(x));
    out[0]            = counted(b, x, ipu__op_int(call, "size"), weights);
}

static ipu_status histogram_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t n;
    double  min = ipu__op_float(call, "min"), max = ipu__op_float(call, "max");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(want_places(call, "bins", &n));
    if (!(min <= max) || isinf(min) || isinf(max))
        return ipu__fail(IPU_INVALID, "histogram: from %g to %g: expected finite numbers, the smaller first",
                         min, max);
    if (min == max && ipu__op_n_elements(&call->operand[X].shape) == 0)
        return ipu__fail(IPU_INVALID, "histogram: \"x\" has no elements to take a range from");
    *out = (ipu__kernel_value){call->operand[X].type, IPU_SHAPE(n)};
    return IPU_OK;
}

static void histogram_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    int64_t   bins = ipu__op_int(call, "bins");
    double    min = ipu__op_float(call, "min"), max = ipu__op_float(call, "max");
    ipu_value x = flat(b, in[X]), low = ipu_scalar_like(b, x, min), high = ipu_scalar_like(b, x, max);
    if (min == max) {
        low                = ipu_reduce_min(b, x, NULL, 0, false);
        high               = ipu_reduce_max(b, x, NULL, 0, false);
        ipu_value is_point = ipu_equal(b, low, high);
        low                = ipu_where(b, is_point, ipu__minus(b, low, 1), low);
        high               = ipu_where(b, is_point, ipu__plus(b, high, 1), high);
    }
    ipu_value places = ipu_sub(b, x, low);
    places           = ipu_div(b, places, ipu_sub(b, high, low));
    places           = ipu_floor(b, ipu__times(b, places, (double)bins));
    ipu_value at_end = ipu_equal(b, x, high);
    places           = ipu_where(b, at_end, ipu_scalar_like(b, x, (double)bins - 1), places);
    ipu_value inside = ipu_greater_equal(b, x, low);
    inside           = ipu_logical_and(b, inside, ipu_less_equal(b, x, high));
    places           = ipu_where(b, inside, places, ipu_scalar_like(b, x, -1));
    ipu_value ones   = ipu_expand(b, ipu_scalar_like(b, x, 1), ipu_value_shape(x));
    out[0]           = ipu_stop_gradient(b, counted(b, places, bins, ones));
}

/* ---- isin ---- */

enum { TESTS = 1 };

static ipu_status isin_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_same_type(call, X, TESTS));
    IPU_TRY(ipu__op_want_rank(call, X, 0, IPU_MAX_RANK - 1));
    *out = (ipu__kernel_value){IPU_BOOL, call->operand[X].shape};
    return IPU_OK;
}

static void isin_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_shape column = call->operand[X].shape;
    int       axis   = column.rank++;
    column.dim[axis] = 1;
    ipu_value x      = ipu_reshape(b, in[X], column);
    ipu_value same   = ipu_equal(b, x, flat(b, in[TESTS]));
    out[0]           = ipu_reduce_any(b, same, &axis, 1, false);
    if (ipu__op_int(call, "invert")) out[0] = ipu_logical_not(b, out[0]);
}

/* ---- median ---- */

/* Of what leaves one element of an axis, and says where it was. */
static ipu_status median_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    IPU_TRY(want_countable(call, X, axis));
    if (call->operand[X].shape.dim[axis] == 0)
        return ipu__fail(IPU_INVALID, "%s: dimension %d of \"x\" %s has no elements", call->def->name, axis,
                         ipu__shape_str(&call->operand[X].shape));
    out[0]                 = call->operand[X];
    out[0].shape.dim[axis] = 1;
    out[1]                 = (ipu__kernel_value){IPU_INT32, out[0].shape};
    return IPU_OK;
}

static ipu_value place_of(ipu_builder *b, ipu_value x, int axis, int64_t place)
{
    return ipu_slice(b, x, place, place + 1, axis);
}

/* NaNs are last in order: if there is one it is the median, unless they are skipped. */
static void median_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int axis = 0;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis);
    int64_t   n = call->operand[X].shape.dim[axis], place = (n - 1) / 2;
    bool      is_floating = ipu__op_is_floating(call->operand[X].type);
    ipu_value indices, values = ipu_sort(b, in[X], axis, false, &indices);
    if (is_floating && ipu__op_int(call, "skip_nan")) {
        ipu_value is_number = ipu_logical_not(b, ipu_isnan(b, in[X]));
        ipu_value at        = ipu_reduce_sum(b, ipu_cast(b, is_number, IPU_INT32), &axis, 1, true);
        at                  = ipu_maximum(b, ipu__minus(b, at, 1), whole(b, 0));
        at                  = ipu_div(b, at, whole(b, 2));
        out[0]              = ipu_gather_elements(b, values, at, axis);
        out[1]              = ipu_gather_elements(b, indices, at, axis);
        return;
    }
    out[0] = place_of(b, values, axis, place);
    out[1] = place_of(b, indices, axis, place);
    if (!is_floating) return;
    ipu_value last = place_of(b, values, axis, n - 1), is_none = ipu_isnan(b, last);
    out[0] = ipu_where(b, is_none, last, out[0]);
    out[1] = ipu_where(b, is_none, place_of(b, indices, axis, n - 1), out[1]);
}

/* ---- kthvalue, mode ---- */

static ipu_status kthvalue_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int     axis = 0;
    int64_t k    = ipu__op_int(call, "k");
    IPU_TRY(median_infer(call, out));
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis); /* seen by median_infer: cannot fail */
    int64_t n = call->operand[X].shape.dim[axis];
    if (k >= 1 && k <= n) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "kthvalue: k = %lld: expected 1 to %lld, the elements of dimension %d of \"x\"",
                     (long long)k, (long long)n, axis);
}

static void kthvalue_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    int     axis = 0;
    int64_t k    = ipu__op_int(call, "k");
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis);
    ipu_value indices, values = ipu_topk(b, in[X], k, axis, false, &indices);
    out[0] = place_of(b, values, axis, k - 1);
    out[1] = place_of(b, indices, axis, k - 1);
}

static ipu_status mode_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK - 1));
    return median_infer(call, out);
}

/* How often each element of `axis` occurs in it. */
static ipu_value times_of(ipu_builder *b, ipu_value x, int axis)
{
    int       other = axis + 1;
    ipu_value each = ipu_unsqueeze(b, x, axis + 1), against = ipu_unsqueeze(b, x, axis);
    ipu_value is_same = ipu_equal(b, each, against);
    return ipu_reduce_sum(b, ipu_cast(b, is_same, IPU_INT32), &other, 1, false);
}

/* In order equal elements are side by side: the last of them is as far behind the first as there are. */
static void mode_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int      axis = 0;
    ipu_type type = call->operand[X].type;
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis);
    ipu_value x      = ipu__as_type(b, in[X], type == IPU_BOOL ? IPU_UINT8 : type);
    ipu_value places = IPU_NO_VALUE, values = ipu_sort(b, x, axis, false, &places);
    ipu_value times = times_of(b, values, axis);
    ipu_value first = ipu_argmax(b, times, axis, true);
    ipu_value last  = ipu_add(b, first, ipu_gather_elements(b, times, first, axis));
    last            = ipu_sub(b, last, whole(b, 1));
    out[0]          = ipu__as_type(b, ipu_gather_elements(b, values, last, axis), type);
    out[1]          = ipu_gather_elements(b, places, last, axis);
}

/* ---- records ---- */

static const ipu__kernel_operand searchsorted_operands[] = {IPU__INPUT("sequence"), IPU__INPUT("values"),
                                                            IPU__OUTPUT("places")};
static const ipu__kernel_operand bincount_operands[]     = {IPU__INPUT("x"), IPU__OPTIONAL("weights"),
                                                            IPU__OUTPUT("counts")};
static const ipu__kernel_operand histogram_operands[]    = {IPU__INPUT("x"), IPU__OUTPUT("counts")};
static const ipu__kernel_operand isin_operands[] = {IPU__INPUT("x"), IPU__INPUT("tests"), IPU__OUTPUT("out")};
static const ipu__kernel_operand median_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("values"),
                                                      IPU__OUTPUT("indices")};
#define kthvalue_operands median_operands
#define mode_operands median_operands

static const ipu_op_attribute searchsorted_attributes[] = {
    {.name    = "right",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: behind elements that are equal, not before them"}};
static const ipu_op_attribute bincount_attributes[] = {
    {.name = "size", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "how many places are counted"}};
static const ipu_op_attribute histogram_attributes[] = {
    {.name = "bins", .kind = IPU_ATTRIBUTE_INT, .otherwise = 100, .meaning = "of one width"},
    {.name = "min", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "where the first begins"},
    {.name    = "max",
     .kind    = IPU_ATTRIBUTE_FLOAT,
     .meaning = "where the last ends; min: the range is that of x"}};
static const ipu_op_attribute isin_attributes[] = {
    {.name = "invert", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: true where there is no such element"}};
#define ONE_LEFT                                                     \
    {                                                                \
        .name = "axis", .kind = IPU_ATTRIBUTE_INT, .required = true, \
        .meaning = "the dimension that is left with 1 element"       \
    }
static const ipu_op_attribute kthvalue_attributes[] = {ONE_LEFT,
                                                       {.name     = "k",
                                                        .kind     = IPU_ATTRIBUTE_INT,
                                                        .required = true,
                                                        .meaning  = "which in ascending order, from 1"}};
static const ipu_op_attribute mode_attributes[]     = {ONE_LEFT};
static const ipu_op_attribute median_attributes[]   = {
      ONE_LEFT, {.name = "skip_nan", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: of numbers alone"}};

static const char *const searchsorted_samples[] = {"float[7], float[2,3]", "int32[1], int32[]; right=1",
                                                   "float[2,5], float[2,3]; right=1", "float[0], float[3]",
                                                   NULL};
static const char *const bincount_samples[]     = {"int32[20]; size=7", "int64[20]{-3,9}, float[20]; size=5",
                                                   "uint8[3,4], int32[3,4]; size=10", NULL};
static const char *const histogram_samples[]    = {"float[40]; bins=7", "float[4,5]; bins=3 min=-1.0 max=1.5",
                                                   "float[0]; min=0 max=1.0", NULL};
static const char *const isin_samples[]         = {"int32[3,4], int32[5]", "float[], float[2,2]; invert=1",
                                                   "int32[3], int32[0]", NULL};
static const char *const median_samples[]       = {"float[3,5]; axis=1", "float[2,4,3]; axis=-2 skip_nan=1",
                                                   "int32[6]; axis=0 skip_nan=1", NULL};

static const char *const kthvalue_samples[] = {"float[3,5]; axis=1 k=2", "float[2,4,3]; axis=-2 k=4",
                                               "int32[6]; axis=0 k=1", NULL};
static const char *const mode_samples[]     = {"float[3,5]; axis=1", "int32[2,9,3]{0,3}; axis=-2",
                                               "bool[7]; axis=0", NULL};

#define RECORD(op, text)                                                                        \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                       \
                                                       .operands   = op##_operands,             \
                                                       .n_operands = IPU__COUNT(op##_operands), \
                                                       .check      = ipu__op_check},                 \
                                      .n_in         = N_IN_##op,                                \
                                      .family       = "search",                                 \
                                      .summary      = (text),                                   \
                                      .attributes   = op##_attributes,                          \
                                      .n_attributes = IPU__COUNT(op##_attributes),              \
                                      .infer        = op##_infer,                               \
                                      .compose      = op##_compose,                             \
                                      .samples      = op##_samples}
enum {
    N_IN_searchsorted = 2,
    N_IN_bincount     = 2,
    N_IN_histogram    = 1,
    N_IN_isin         = 2,
    N_IN_median       = 1,
    N_IN_kthvalue     = 1,
    N_IN_mode         = 1
};
RECORD(searchsorted, "places at which values go into a sorted sequence");
RECORD(bincount, "how often each number occurs, or the sum of its weights");
RECORD(histogram, "how many elements are in each of the bins of a range");
RECORD(isin, "whether an element is among others");
RECORD(kthvalue, "the k-th smallest element, and where it is");
RECORD(mode, "the most frequent element, the least of several, and the last place where it is");
RECORD(median, "the middle element in order, the lower of two, and where it is");

/* ---- functions ---- */

ipu_value ipu_searchsorted(ipu_builder *b, ipu_value sequence, ipu_value values, bool right)
{
    return ipu__emit1(b, "searchsorted", IPU__WITH(IPU_INT_ATTRIBUTE("right", right)),
                      IPU__IN(sequence, values));
}

ipu_value ipu_bincount(ipu_builder *b, ipu_value x, ipu_value weights, int64_t size)
{
    return ipu__emit1(b, "bincount", IPU__WITH(IPU_INT_ATTRIBUTE("size", size)), IPU__IN(x, weights));
}

ipu_value ipu_histogram(ipu_builder *b, ipu_value x, int64_t bins, double min, double max)
{
    return ipu__emit1(b, "histogram",
                      IPU__WITH(IPU_INT_ATTRIBUTE("bins", bins), IPU_FLOAT_ATTRIBUTE("min", min),
                                IPU_FLOAT_ATTRIBUTE("max", max)),
                      IPU__IN(x));
}

ipu_value ipu_isin(ipu_builder *b, ipu_value x, ipu_value tests, bool invert)
{
    return ipu__emit1(b, "isin", IPU__WITH(IPU_INT_ATTRIBUTE("invert", invert)), IPU__IN(x, tests));
}

static ipu_value emit_chosen(ipu_builder *b, const char *op, const ipu_attribute *attributes,
                             size_t n_attributes, ipu_value x, ipu_value *indices)
{
    ipu_value out[2];
    ipu_emit(b, op, attributes, n_attributes, &x, 1, out, 2);
    if (indices) *indices = out[1];
    return out[0];
}

ipu_value ipu_median(ipu_builder *b, ipu_value x, int axis, bool skip_nan, ipu_value *indices)
{
    return emit_chosen(b, "median",
                       IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("skip_nan", skip_nan)), x,
                       indices);
}

ipu_value ipu_kthvalue(ipu_builder *b, ipu_value x, int64_t k, int axis, ipu_value *indices)
{
    return emit_chosen(b, "kthvalue", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("k", k)),
                       x, indices);
}

ipu_value ipu_mode(ipu_builder *b, ipu_value x, int axis, ipu_value *indices)
{
    return emit_chosen(b, "mode", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), x, indices);
}
