/* Pooling over so many windows, as even as can be: windows of one size where it divides, else means by a product with a
 * matrix, and maxima by places. Compositions.
 */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/matmul.h"
#include "ipu/op/pool.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/compose.h"

enum { X, MOST_DIMS = 3 };

static ipu_status sized_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    size_t         n;
    const int64_t *size = ipu__op_ints(call, "size", &n);
    IPU_TRY(ipu__op_want_rank(call, X, 3, 2 + MOST_DIMS));
    *out = call->operand[X];
    if (n != (size_t)out->shape.rank - 2)
        return ipu__fail(IPU_INVALID, "%s: \"size\" has %zu numbers: expected %d", call->def->name, n,
                         out->shape.rank - 2);
    for (size_t i = 0; i < n; i++) {
        if (size[i] < 0 || (size[i] > 0 && out->shape.dim[2 + i] == 0))
            return ipu__fail(IPU_INVALID, "%s: %lld windows along dimension %zu of \"x\" %s", call->def->name,
                             (long long)size[i], 2 + i, ipu__shape_str(&call->operand[X].shape));
        out->shape.dim[2 + i] = size[i];
    }
    return IPU_OK;
}

/* The kernel of windows that do not overlap, where all are of one size. */
static bool divides(const ipu_shape *x, const ipu_shape *y, int64_t kernel[MOST_DIMS])
{
    for (int i = 0; i < x->rank - 2; i++) {
        if (x->dim[2 + i] % y->dim[2 + i]) return false;
        kernel[i] = x->dim[2 + i] / y->dim[2 + i];
    }
    return true;
}

/* Where each of n windows over `size` elements begins, or how many end before it does: int64 of shape `line`. */
static ipu_value bound(ipu_builder *b, int64_t size, int64_t n, bool is_end, ipu_shape line)
{
    ipu_value first = ipu_arange(b, IPU_INT64, n, is_end ? (double)(size + n - 1) : 0, (double)size);
    return ipu_reshape(b, ipu_div(b, first, ipu_scalar_like(b, first, (double)n)), line);
}

/* ---- averages ---- */

static ipu_status average_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    return sized_infer(call, out);
}

/* [n, size]: row i has one part of 1 for each element of window i. */
static ipu_value means(ipu_builder *b, ipu_type type, int64_t size, int64_t n)
{
    ipu_value begin = bound(b, size, n, false, IPU_SHAPE(n, 1)),
              end   = bound(b, size, n, true, IPU_SHAPE(n, 1));
    ipu_value at    = ipu_reshape(b, ipu_arange(b, IPU_INT64, size, 0, 1), IPU_SHAPE(1, size));
    ipu_value is_in = ipu_greater_equal(b, at, begin);
    is_in           = ipu_logical_and(b, is_in, ipu_less(b, at, end));
    ipu_value many  = ipu_cast(b, ipu_sub(b, end, begin), type);
    return ipu_div(b, ipu_cast(b, is_in, type), many);
}

/* The mean of a box is the mean of means: dimension by dimension. */
static ipu_value mean_along(ipu_builder *b, ipu_value x, int axis, int64_t n)
{
    ipu_shape shape = ipu_value_shape(x), flat = {.rank = axis + 2};
    int64_t   size = shape.dim[axis], rest = 1;
    if (size == n) return x;
    ipu_value weights = means(b, ipu_value_type(x), size, n);
    if (axis == shape.rank - 1) return ipu_matmul_with(b, x, weights, false, true);
    for (int d = 0; d <= axis; d++) flat.dim[d] = shape.dim[d];
    for (int d = axis + 1; d < shape.rank; d++) rest *= shape.dim[d];
    flat.dim[axis + 1] = rest;
    shape.dim[axis]    = n;
    return ipu_reshape(b, ipu_matmul(b, weights, ipu_reshape(b, x, flat)), shape);
}

static void adaptive_average_pool_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                          ipu_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *y = &call->operand[1].shape;
    ipu_pool_options windows   = {0};
    int64_t          n_windows = 1;
    for (int d = 2; d < y->rank; d++) n_windows *= y->dim[d];
    if (ipu__op_n_elements(y) == 0)
        out[0] = ipu_expand(b, ipu_scalar_like(b, in[X], 0), *y);
    else if (n_windows == 1)
        out[0] = ipu_global_average_pool(b, in[X]);
    else if (divides(x, y, windows.kernel))
        out[0] = ipu_average_pool(b, in[X], windows);
    else {
        out[0] = in[X];
        for (int d = 2; d < y->rank; d++) out[0] = mean_along(b, out[0], d, y->dim[d]);
    }
}

/* ---- maxima ---- */

static ipu_status max_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t plane = 1;
    IPU_TRY(sized_infer(call, &out[0]));
    for (int d = 2; d < out->shape.rank; d++) plane *= call->operand[X].shape.dim[d];
    if (plane > INT32_MAX)
        return ipu__fail(IPU_INVALID, "adaptive_max_pool: planes of \"x\" %s have over %d elements",
                         ipu__shape_str(&call->operand[X].shape), INT32_MAX);
    out[1] = (ipu__kernel_value){IPU_INT32, out[0].shape};
    return IPU_OK;
}

/* How many elements the longest of n windows has. */
static int64_t longest(int64_t size, int64_t n)
{
    int64_t most = 1;
    for (int64_t i = 0; i < n; i++) {
        int64_t long_ = ipu__op_ceil_div((i + 1) * size, n) - i * size / n;
        if (long_ > most) most = long_;
    }
    return most;
}

/* int32 [1, 1, ..., windows * taps]: places in a plane of the elements of each window, all of one length: shorter ones
 * say their last places again. */
static ipu_value places_of(ipu_builder *b, const ipu_shape *x, const ipu_shape *y, int64_t *windows,
                           int64_t *taps)
{
    int       n      = x->rank - 2;
    ipu_value places = ipu_constant_value(b, IPU_INT64, IPU_SCALAR, 0);
    *windows = *taps = 1;
    for (int i = 0; i < n; i++) {
        int64_t   size = x->dim[2 + i], n_out = y->dim[2 + i], most = longest(size, n_out);
        ipu_shape line = {.rank = 2 * n}, tap = {.rank = 2 * n};
        for (int d = 0; d < 2 * n; d++) {
            line.dim[d] = d == i ? n_out : 1;
            tap.dim[d]  = d == n + i ? most : 1;
        }
        ipu_value at   = ipu_reshape(b, ipu_arange(b, IPU_INT64, most, 0, 1), tap);
        ipu_value last = bound(b, size, n_out, true, line);
        last           = ipu__minus(b, last, 1);
        at             = ipu_add(b, bound(b, size, n_out, false, line), at);
        places         = ipu_add(b, ipu__times(b, places, (double)size), ipu_minimum(b, at, last));
        *windows *= n_out;
        *taps *= most;
    }
    ipu_shape flat = {.rank = x->rank};
    for (int d = 0; d < x->rank; d++) flat.dim[d] = d == x->rank - 1 ? *windows * *taps : 1;
    return ipu_reshape(b, ipu_cast(b, places, IPU_INT32), flat);
}

/* Which of its places each window takes is no matter of gradients; the elements there are. */
static void by_places(ipu_builder *b, const ipu__kernel_call *call, ipu_value x, ipu_value *out)
{
    const ipu_shape *from = &call->operand[X].shape, *to = &call->operand[1].shape;
    int64_t          windows, taps;
    ipu_value        places = places_of(b, from, to, &windows, &taps);
    ipu_shape all = ipu_value_shape(places), each = IPU_SHAPE(from->dim[0], from->dim[1], windows, taps);
    all.dim[0]       = from->dim[0];
    all.dim[1]       = from->dim[1];
    places           = ipu_expand(b, places, all);
    ipu_value picked = ipu_reshape(b, ipu_pool_gather(b, x, places), each);
    ipu_value first  = ipu_argmax(b, picked, 3, true);
    places           = ipu_gather_elements(b, ipu_reshape(b, places, each), first, 3);
    out[1]           = ipu_reshape(b, places, *to);
    out[0]           = ipu_pool_gather(b, x, out[1]);
}

static void adaptive_max_pool_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                      ipu_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *y = &call->operand[1].shape;
    ipu_pool_options windows = {0};
    if (ipu__op_n_elements(y) == 0) {
        out[0] = ipu_expand(b, ipu_scalar_like(b, in[X], 0), *y);
        out[1] = ipu_expand(b, ipu_constant_value(b, IPU_INT32, IPU_SCALAR, 0), *y);
    } else if (divides(x, y, windows.kernel)) {
        out[0] = ipu_max_pool_with_indices(b, in[X], windows, &out[1]);
    } else {
        by_places(b, call, in[X], out);
    }
}

/* ---- records ---- */

static const ipu__kernel_operand average_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y")};
static const ipu__kernel_operand max_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y"), IPU__OUTPUT("indices")};
static const ipu_op_attribute    attributes[]   = {{.name     = "size",
                                                    .kind     = IPU_ATTRIBUTE_INTS,
                                                    .required = true,
                                                    .meaning  = "windows along each dimension of a plane"}};
static const char *const         samples[]      = {"float[2,3,7]; size=[3]",
                                                   "float[1,2,5,6]; size=[2,4]",
                                                   "float[1,2,6,6]; size=[3,2]",
                                                   "float[2,1,5,3,4]; size=[2,3,3]",
                                                   "float[2,3,4,5]; size=[1,1]",
                                                   "float[2,0,4,5]; size=[3,3]",
                                                   NULL};

#define RECORD(op, which, text)                                                                         \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                               \
                                                       .operands   = which##_operands,                  \
                                                       .n_operands = (int)IPU__COUNT(which##_operands), \
                                                       .check      = ipu__op_check},                         \
                                      .n_in         = 1,                                                \
                                      .family       = "pool",                                           \
                                      .summary      = (text),                                           \
                                      .attributes   = attributes,                                       \
                                      .n_attributes = IPU__COUNT(attributes),                           \
                                      .infer        = which##_infer,                                    \
                                      .compose      = op##_compose,                                     \
                                      .samples      = samples}
RECORD(adaptive_average_pool, average, "the mean of each of so many windows");
RECORD(adaptive_max_pool, max, "the largest of each of so many windows, and where it is");

/* ---- functions ---- */

static ipu_attribute size_of(ipu_value x, const int64_t *size)
{
    int n = ipu_value_rank(x) - 2;
    return IPU__INTS("size", size, n > 0 ? n : 0);
}

ipu_value ipu_adaptive_average_pool(ipu_builder *b, ipu_value x, const int64_t *size)
{
    return ipu__emit1(b, "adaptive_average_pool", IPU__WITH(size_of(x, size)), IPU__IN(x));
}

ipu_value ipu_adaptive_max_pool(ipu_builder *b, ipu_value x, const int64_t *size, ipu_value *indices)
{
    ipu_value out[2];
    ipu_emit(b, "adaptive_max_pool", IPU__WITH(size_of(x, size)), &x, 1, out, 2);
    if (indices) *indices = out[1];
    return out[0];
}
