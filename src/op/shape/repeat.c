/* Elements repeated in place, and lines put on diagonals: compositions.
 *
 * Of counts that are values the place of each element is found by marks: as many marks as elements end before it.
 */
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/compose.h"

enum { X, COUNTS };

/* ---- repeat ---- */

static ipu_status by_counts_infer(const ipu__kernel_call *call, int axis, ipu__kernel_value *out)
{
    const ipu_shape *counts = &call->operand[COUNTS].shape;
    int64_t          n = out->shape.dim[axis], size = ipu__op_int(call, "size");
    IPU_TRY(ipu__op_want_integer(call, COUNTS));
    if (ipu__op_n_elements(counts) != 1 && (counts->rank != 1 || counts->dim[0] != n))
        return ipu__fail(IPU_INVALID,
                         "repeat: \"counts\" %s: expected one, or one for each of the %lld elements",
                         ipu__shape_str(counts), (long long)n);
    if (size < 0 || size >= INT32_MAX)
        return ipu__fail(IPU_INVALID, "repeat: size = %lld: with \"counts\" expected their sum, 0 to %d",
                         (long long)size, INT32_MAX - 1);
    out->shape.dim[axis] = size;
    return IPU_OK;
}

static ipu_status repeat_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int     axis;
    int64_t times = ipu__op_int(call, "times");
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    *out = call->operand[X];
    if (ipu__kernel_has(call, COUNTS)) return by_counts_infer(call, axis, out);
    if (times >= 0 && !__builtin_mul_overflow(out->shape.dim[axis], times, &out->shape.dim[axis]))
        return IPU_OK;
    return ipu__fail(IPU_INVALID, "repeat: times = %lld: expected 0 or more, not too many", (long long)times);
}

static ipu_value filled(ipu_builder *b, int64_t n, double value)
{
    return ipu_expand(b, ipu_constant_value(b, IPU_INT32, IPU_SCALAR, value), IPU_SHAPE(n));
}

static void repeat_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int     axis = 0;
    int64_t size = ipu__op_int(call, "size");
    ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis);
    int64_t n = call->operand[X].shape.dim[axis];
    if (!ipu__has(in[COUNTS])) {
        out[0] = ipu_repeat(b, in[X], ipu__op_int(call, "times"), axis);
        return;
    }
    ipu_value counts = ipu__as_type(b, in[COUNTS], IPU_INT32);
    counts           = ipu_value_n_elements(counts) == n ? ipu__as_shape(b, counts, IPU_SHAPE(n))
                                                         : ipu_reshape(b, counts, IPU_SCALAR);
    ipu_value ends   = ipu_cumsum(b, ipu_expand(b, counts, IPU_SHAPE(n)), 0);
    ipu_value zeros = filled(b, size + 1, 0), ones = filled(b, n, 1);
    ipu_value marks  = ipu_scatter_elements(b, zeros, ends, ones, 0, IPU_SCATTER_ADD);
    ipu_value places = ipu_cumsum(b, ipu_slice(b, marks, 0, size, 0), 0);
    out[0]           = ipu_gather(b, in[X], places, axis);
}

/* ---- diag_embed ---- */

static ipu_status diag_embed_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x      = &call->operand[X].shape;
    int64_t          offset = ipu__op_int(call, "offset");
    int              rows, columns;
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK - 1));
    IPU_TRY(ipu__op_axis(call, "rows", x->rank + 1, &rows));
    IPU_TRY(ipu__op_axis(call, "columns", x->rank + 1, &columns));
    if (rows == columns)
        return ipu__fail(IPU_INVALID, "diag_embed: rows and columns are both dimension %d", rows);
    if (offset > INT32_MAX || offset < -INT32_MAX)
        return ipu__fail(IPU_INVALID, "diag_embed: offset = %lld is too far", (long long)offset);
    int64_t n = x->dim[x->rank - 1] + (offset < 0 ? -offset : offset);
    *out      = (ipu__kernel_value){call->operand[X].type, {.rank = x->rank + 1}};
    for (int d = 0, from = 0; d < out->shape.rank; d++)
        out->shape.dim[d] = d == rows || d == columns ? n : x->dim[from++];
    return IPU_OK;
}

/* Row i of each matrix has one element, that of the line at i, where it is on the diagonal. */
static void diag_embed_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    int     rank = call->operand[X].shape.rank, rows = 0, columns = 0, perm[IPU_MAX_RANK], from = 0;
    int64_t offset = ipu__op_int(call, "offset"), before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    ipu__op_axis(call, "rows", rank + 1, &rows);
    ipu__op_axis(call, "columns", rank + 1, &columns);
    if (offset < 0)
        before[rank - 1] = -offset;
    else
        after[rank - 1] = offset;
    ipu_value lines = offset ? ipu_pad(b, in[X], before, after, IPU_PAD_CONSTANT, 0) : in[X];
    ipu_value on    = ipu_eye(b, IPU_BOOL, ipu_value_dim(lines, rank - 1), offset);
    lines           = ipu_unsqueeze(b, lines, rank);
    ipu_value all   = ipu_where(b, on, lines, ipu_scalar_like(b, lines, 0));
    for (int d = 0; d <= rank; d++) perm[d] = d == rows ? rank - 1 : d == columns ? rank : from++;
    out[0] = ipu_transpose(b, all, perm, rank + 1);
}

/* ---- records ---- */

static const ipu__kernel_operand repeat_operands[]     = {IPU__INPUT("x"), IPU__OPTIONAL("counts"),
                                                          IPU__OUTPUT("out")};
static const ipu__kernel_operand diag_embed_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

static const ipu_op_attribute repeat_attributes[] = {
    {.name     = "axis",
     .kind     = IPU_ATTRIBUTE_INT,
     .required = true,
     .meaning  = "the dimension whose elements are repeated"},
    {.name      = "times",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning   = "how often each is there, without counts"},
    {.name = "size", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "the sum of the counts"}};
static const ipu_op_attribute diag_embed_attributes[] = {
    {.name = "rows", .kind = IPU_ATTRIBUTE_INT, .otherwise = -2, .meaning = "dimension of rows"},
    {.name = "columns", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "dimension of columns"},
    {.name = "offset", .kind = IPU_ATTRIBUTE_INT, .meaning = "column minus row"}};

static const char *const repeat_samples[]     = {"float[2,3]; axis=1 times=2", "int8[2,3]; axis=-2 times=0",
                                                 "float[3,2], int32[3]{1,1}; axis=0 size=3",
                                                 "float[2,3], int64[]{2,2}; axis=1 size=6", NULL};
static const char *const diag_embed_samples[] = {
    "float[3]",           "float[2,3]; offset=1",
    "bool[3]; offset=-2", "float[2,3,2]; rows=0 columns=2 offset=-1",
    "int32[2,0]",         NULL};

#define RECORD(op, ins, text)                                                                        \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name       = #op,                            \
                                                       .operands   = op##_operands,                  \
                                                       .n_operands = (int)IPU__COUNT(op##_operands), \
                                                       .check      = ipu__op_check},                      \
                                      .n_in         = (ins),                                         \
                                      .family       = "shape",                                       \
                                      .summary      = (text),                                        \
                                      .attributes   = op##_attributes,                               \
                                      .n_attributes = IPU__COUNT(op##_attributes),                   \
                                      .infer        = op##_infer,                                    \
                                      .compose      = op##_compose,                                  \
                                      .samples      = op##_samples}
RECORD(repeat, 2, "each element of an axis repeated in place");
RECORD(diag_embed, 1, "the last dimension as the diagonals of matrices");

/* ---- functions ---- */

ipu_value ipu_repeat_by(ipu_builder *b, ipu_value x, ipu_value counts, int64_t size, int axis)
{
    return ipu__emit1(b, "repeat",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("size", size)),
                      IPU__IN(x, counts));
}

ipu_value ipu_diag_embed(ipu_builder *b, ipu_value x, int64_t offset, int rows, int columns)
{
    return ipu__emit1(b, "diag_embed",
                      IPU__WITH(IPU_INT_ATTRIBUTE("rows", rows), IPU_INT_ATTRIBUTE("columns", columns),
                                IPU_INT_ATTRIBUTE("offset", offset)),
                      IPU__IN(x));
}
