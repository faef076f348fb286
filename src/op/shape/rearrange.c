/* Rearranging: roll, diagonal, triangles, space to depth and back, reversed sequences. Compositions of views,
 * except that reversing sequences whose lengths are values is a gather.
 */
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/op.h"

enum { X, LENGTHS };

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

#define COMPOSED(op, operand_list, ins, text)                                                                \
    const ipu__op_def ipu__op_##op = {                                                                       \
        .kernel  = {.name = #op, .operands = operand_list, .n_operands = (ins) + 1, .check = ipu__op_check}, \
        .n_in    = (ins),                                                                                    \
        .family  = "shape",                                                                                  \
        .summary = (text),                                                                                   \
        .attributes   = op##_attributes,                                                                     \
        .n_attributes = IPU__COUNT(op##_attributes),                                                         \
        .infer        = op##_infer,                                                                          \
        .compose      = op##_compose,                                                                        \
        .samples      = op##_samples}

/* ---- roll ---- */

static ipu_status roll_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    size_t n, n_axes;
    bool   mask[IPU_MAX_RANK];
    ipu__op_ints(call, "shifts", &n);
    ipu__op_ints(call, "axes", &n_axes);
    if (n != n_axes && !(n_axes == 0 && n == 1))
        return ipu__fail(IPU_INVALID,
                         "roll: %zu shifts and %zu axes: expected one for each, or one shift and no axes", n,
                         n_axes);
    IPU_TRY(ipu__op_axes(call, "axes", call->operand[X].shape.rank, mask));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_value roll_one(ipu_builder *b, ipu_value x, int64_t shift, int axis)
{
    int64_t n = ipu_value_dim(x, axis);
    if (n == 0 || shift % n == 0) return x;
    int64_t cut = (n - shift % n) % n;
    return ipu_concat(b, (ipu_value[]){ipu_slice(b, x, cut, n, axis), ipu_slice(b, x, 0, cut, axis)}, 2,
                      axis);
}

static void roll_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    size_t         n, n_axes;
    const int64_t *shifts = ipu__op_ints(call, "shifts", &n), *axes = ipu__op_ints(call, "axes", &n_axes);
    out[0] = in[X];
    if (n_axes == 0)
        out[0] = ipu_reshape(b, roll_one(b, ipu_flatten(b, in[X], 0), n ? shifts[0] : 0, 0),
                             call->operand[X].shape);
    for (size_t i = 0; i < n_axes; i++) out[0] = roll_one(b, out[0], shifts[i], (int)axes[i]);
    if (out[0].id == in[X].id) out[0] = ipu_identity(b, in[X]);
}

static const ipu_op_attribute roll_attributes[] = {
    {.name = "shifts", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "places, for each axis"},
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions; none: all elements as one"},
};
static const char *const roll_samples[] = {"float[3,4]; shifts=[1]", "float[3,4]; shifts=[-1,5] axes=[0,-1]",
                                           "int8[7]; shifts=[0] axes=[0]", "float[0,3]; shifts=[2] axes=[0]",
                                           NULL};
COMPOSED(roll, operands, 1, "elements moved along dimensions, from the end to the front");

ipu_value ipu_roll(ipu_builder *b, ipu_value x, const int64_t *shifts, const int *axes, int n)
{
    int64_t list[IPU_MAX_RANK] = {0};
    int     n_axes             = !axes || n < 0 ? 0 : n > IPU_MAX_RANK ? IPU_MAX_RANK : n;
    for (int i = 0; i < n_axes; i++) list[i] = axes[i];
    return ipu__emit1(b, "roll", IPU__WITH(IPU__INTS("shifts", shifts, n), IPU__INTS("axes", list, n_axes)),
                      IPU__IN(x));
}

/* ---- diagonal ---- */

typedef struct diagonal {
    int     rows, columns; /* dimensions */
    int64_t first, n;      /* place in a matrix, and how many follow */
} diagonal;

static ipu_status find_diagonal(const ipu__kernel_call *call, diagonal *d)
{
    const ipu_shape *x      = &call->operand[X].shape;
    int64_t          offset = ipu__op_int(call, "offset");
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "rows", x->rank, &d->rows));
    IPU_TRY(ipu__op_axis(call, "columns", x->rank, &d->columns));
    if (d->rows == d->columns)
        return ipu__fail(IPU_INVALID, "diagonal: rows and columns are both dimension %d", d->rows);
    int64_t n = x->dim[d->rows], m = x->dim[d->columns];
    if (offset > m) offset = m;
    if (offset < -n) offset = -n;
    d->first = offset >= 0 ? offset : -offset * m;
    d->n     = offset >= 0 ? m - offset : n + offset;
    if (d->n > n) d->n = n;
    if (d->n > m) d->n = m;
    return IPU_OK;
}

static ipu_status diagonal_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    diagonal d;
    IPU_TRY(find_diagonal(call, &d));
    *out = (ipu__kernel_value){.type = call->operand[X].type};
    for (int i = 0; i < call->operand[X].shape.rank; i++)
        if (i != d.rows && i != d.columns) out->shape.dim[out->shape.rank++] = call->operand[X].shape.dim[i];
    out->shape.dim[out->shape.rank++] = d.n;
    return IPU_OK;
}

/* Matrices as rows of elements, of which every (columns + 1)-th is on the diagonal. */
static void diagonal_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    const ipu_shape *x = &call->operand[X].shape;
    int              perm[IPU_MAX_RANK], n = 0;
    diagonal         d = {0};
    find_diagonal(call, &d); /* infer has seen it */
    ipu_shape flat = {.rank = x->rank - 1};
    for (int i = 0; i < x->rank; i++) {
        if (i == d.rows || i == d.columns) continue;
        flat.dim[n] = x->dim[i];
        perm[n++]   = i;
    }
    int64_t columns = x->dim[d.columns];
    perm[n]         = d.rows;
    perm[n + 1]     = d.columns;
    flat.dim[n]     = x->dim[d.rows] * columns;
    ipu_value rows  = ipu_reshape(b, ipu_transpose(b, in[X], perm, x->rank), flat);
    int64_t   end   = d.n > 0 ? d.first + (d.n - 1) * (columns + 1) + 1 : d.first;
    out[0]          = ipu_slice_step(b, rows, d.first, end, columns + 1, n);
}

static const ipu_op_attribute diagonal_attributes[] = {
    {.name = "rows", .kind = IPU_ATTRIBUTE_INT, .otherwise = -2, .meaning = "dimension of rows"},
    {.name = "columns", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "dimension of columns"},
    {.name = "offset", .kind = IPU_ATTRIBUTE_INT, .meaning = "column minus row"},
};
static const char *const diagonal_samples[] = {"float[3,3]",
                                               "float[3,5]; offset=1",
                                               "float[4,2,3]; rows=2 columns=0 offset=-1",
                                               "int8[4,3]; offset=9",
                                               "int8[4,3]; offset=-4",
                                               "float[2,0,0]",
                                               NULL};
COMPOSED(diagonal, operands, 1, "the diagonals of matrices, as the last dimension");

ipu_value ipu_diagonal(ipu_builder *b, ipu_value x, int64_t offset, int rows, int columns)
{
    return ipu__emit1(b, "diagonal",
                      IPU__WITH(IPU_INT_ATTRIBUTE("rows", rows), IPU_INT_ATTRIBUTE("columns", columns),
                                IPU_INT_ATTRIBUTE("offset", offset)),
                      IPU__IN(x));
}

/* ---- trilu ---- */

static ipu_status trilu_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    *out = call->operand[X];
    return IPU_OK;
}

static void trilu_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    out[0] = (ipu__op_int(call, "upper") ? ipu_triu : ipu_tril)(b, in[X], ipu__op_int(call, "k"));
}

static const ipu_op_attribute trilu_attributes[] = {
    {.name = "upper", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "0: the lower triangle"},
    {.name = "k", .kind = IPU_ATTRIBUTE_INT, .meaning = "column minus row of its edge"},
};
static const char *const trilu_samples[] = {
    "float[4,4]", "float[2,3,5]; upper=0 k=-1", "int64[4,3]; k=2", "uint8[2,3]; upper=0", "float[3,0]", NULL};
COMPOSED(trilu, operands, 1, "a triangle of matrices, elsewhere 0");

/* ---- space to depth, depth to space ---- */

/* Whether depth is ordered with the channel last within a pixel's block: pixel_shuffle's order. */
static ipu_status get_mode(const ipu__kernel_call *call, bool *channel_first)
{
    const char *mode = ipu__op_text(call, "mode");
    *channel_first   = strcmp(mode, "CRD") == 0;
    if (*channel_first || strcmp(mode, "DCR") == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: mode \"%s\": expected DCR or CRD", call->def->name, mode);
}

static ipu_status depth_infer(const ipu__kernel_call *call, bool to_space, ipu__kernel_value *out)
{
    int64_t block = ipu__op_int(call, "block");
    bool    channel_first;
    IPU_TRY(get_mode(call, &channel_first));
    IPU_TRY(ipu__op_want_rank(call, X, 4, 4));
    const int64_t *x     = call->operand[X].shape.dim;
    bool           is_ok = block > 0 && block < 1 << 20
              && (to_space ? x[1] % (block * block) == 0 : x[2] % block == 0 && x[3] % block == 0);
    if (!is_ok)
        return ipu__fail(IPU_INVALID, "%s: block = %lld does not divide %s of \"x\" %s", call->def->name,
                         (long long)block, to_space ? "the channels" : "height and width",
                         ipu__shape_str(&call->operand[X].shape));
    *out = call->operand[X];
    for (int d = 1; d < 4; d++) {
        int64_t by        = d == 1 ? block * block : block;
        bool    grows     = to_space == (d > 1);
        out->shape.dim[d] = grows ? x[d] * by : x[d] / by;
    }
    return IPU_OK;
}

static ipu_status depth_to_space_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    return depth_infer(call, true, out);
}

static ipu_status space_to_depth_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    return depth_infer(call, false, out);
}

static void depth_to_space_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                   ipu_value *out)
{
    static const int blocks_first[] = {0, 3, 4, 1, 5, 2}, channels_first[] = {0, 1, 4, 2, 5, 3};
    const int64_t   *x = call->operand[X].shape.dim;
    int64_t          k = ipu__op_int(call, "block"), c = x[1] / (k * k);
    bool             channel_first = false;
    get_mode(call, &channel_first);
    ipu_shape cut = channel_first ? IPU_SHAPE(x[0], c, k, k, x[2], x[3])
                                  : IPU_SHAPE(x[0], k, k, c, x[2], x[3]);
    ipu_value v = ipu_transpose(b, ipu_reshape(b, in[X], cut), channel_first ? channels_first : blocks_first,
                                6);
    out[0]      = ipu_reshape(b, v, IPU_SHAPE(x[0], c, x[2] * k, x[3] * k));
}

static void space_to_depth_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                   ipu_value *out)
{
    static const int blocks_first[] = {0, 3, 5, 1, 2, 4}, channels_first[] = {0, 1, 3, 5, 2, 4};
    const int64_t   *x = call->operand[X].shape.dim;
    int64_t          k = ipu__op_int(call, "block"), h = x[2] / k, w = x[3] / k;
    bool             channel_first = false;
    get_mode(call, &channel_first);
    ipu_value v = ipu_reshape(b, in[X], IPU_SHAPE(x[0], x[1], h, k, w, k));
    v           = ipu_transpose(b, v, channel_first ? channels_first : blocks_first, 6);
    out[0]      = ipu_reshape(b, v, IPU_SHAPE(x[0], x[1] * k * k, h, w));
}

#define DEPTH_ATTRIBUTES                                                            \
    {.name     = "block",                                                           \
     .kind     = IPU_ATTRIBUTE_INT,                                                 \
     .required = true,                                                              \
     .meaning  = "height and width of a block"},                                     \
    {                                                                               \
        .name = "mode", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "DCR",        \
        .meaning = "depth is [block, block, channel]; CRD: [channel, block, block]" \
    }
static const ipu_op_attribute depth_to_space_attributes[] = {DEPTH_ATTRIBUTES};
static const ipu_op_attribute space_to_depth_attributes[] = {DEPTH_ATTRIBUTES};

static const char *const depth_to_space_samples[] = {
    "float[2,8,2,3]; block=2", "float[1,9,2,1]; block=3 mode=CRD", "int8[0,4,2,2]; block=2", NULL};
static const char *const space_to_depth_samples[] = {
    "float[2,3,4,6]; block=2", "float[1,2,3,6]; block=3 mode=CRD", "int8[1,0,2,2]; block=2", NULL};
COMPOSED(depth_to_space, operands, 1, "channels dealt to blocks of pixels");
COMPOSED(space_to_depth, operands, 1, "blocks of pixels made channels");

static ipu_value emit_depth(ipu_builder *b, const char *op, ipu_value x, int64_t block, ipu_depth_order order)
{
    return ipu__emit1(b, op,
                      IPU__WITH(IPU_INT_ATTRIBUTE("block", block),
                                IPU_TEXT_ATTRIBUTE("mode", order == IPU_DEPTH_CRD ? "CRD" : "DCR")),
                      IPU__IN(x));
}

ipu_value ipu_depth_to_space(ipu_builder *b, ipu_value x, int64_t block, ipu_depth_order order)
{
    return emit_depth(b, "depth_to_space", x, block, order);
}

ipu_value ipu_space_to_depth(ipu_builder *b, ipu_value x, int64_t block, ipu_depth_order order)
{
    return emit_depth(b, "space_to_depth", x, block, order);
}

/* ---- reverse_sequence ---- */

static ipu_status sequence_axes(const ipu__kernel_call *call, int *batch, int *time)
{
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    IPU_TRY(ipu__op_axis(call, "batch_axis", call->operand[X].shape.rank, batch));
    IPU_TRY(ipu__op_axis(call, "time_axis", call->operand[X].shape.rank, time));
    if (*batch != *time) return IPU_OK;
    return ipu__fail(IPU_INVALID, "reverse_sequence: batch_axis and time_axis are both %d", *batch);
}

static ipu_status reverse_sequence_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int batch, time;
    IPU_TRY(sequence_axes(call, &batch, &time));
    if (call->operand[LENGTHS].type != IPU_INT64) IPU_TRY(ipu__op_want_type(call, LENGTHS, IPU_INT32));
    IPU_TRY(ipu__op_want_shape(call, LENGTHS, &IPU_SHAPE(call->operand[X].shape.dim[batch])));
    *out = call->operand[X];
    return IPU_OK;
}

/* Rows of [batch * time, rest]: step t of a sequence of length n comes from n - 1 - t where t < n. */
static ipu_value reversed_rows(ipu_builder *b, ipu_value lengths, int64_t n_batch, int64_t n_time)
{
    ipu_type  type = ipu_value_type(lengths);
    ipu_value t = ipu_arange(b, type, n_time, 0, 1), most = ipu_scalar_like(b, lengths, (double)n_time);
    ipu_value n    = ipu_reshape(b, ipu_minimum(b, lengths, most), IPU_SHAPE(n_batch, 1));
    ipu_value back = ipu_sub(b, ipu_sub(b, n, ipu_scalar_like(b, n, 1)), t);
    ipu_value from = ipu_where(b, ipu_less(b, t, n), back, t);
    ipu_value base = ipu_reshape(b, ipu_arange(b, type, n_batch, 0, (double)n_time), IPU_SHAPE(n_batch, 1));
    return ipu_reshape(b, ipu_add(b, base, from), IPU_SHAPE(n_batch * n_time));
}

static void reverse_sequence_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                     ipu_value *out)
{
    const ipu_shape *x     = &call->operand[X].shape;
    int              batch = 0, time = 0, perm[IPU_MAX_RANK], back[IPU_MAX_RANK], n = 2;
    sequence_axes(call, &batch, &time); /* infer has seen it */
    perm[0] = batch;
    perm[1] = time;
    for (int d = 0; d < x->rank; d++)
        if (d != batch && d != time) perm[n++] = d;
    ipu_shape ordered = *x;
    int64_t   inner   = 1;
    for (int d = 0; d < x->rank; d++) {
        back[perm[d]]  = d;
        ordered.dim[d] = x->dim[perm[d]];
        if (d > 1) inner *= ordered.dim[d];
    }
    int64_t   steps = ordered.dim[0] * ordered.dim[1];
    ipu_value rows  = ipu_reshape(b, ipu_transpose(b, in[X], perm, x->rank), IPU_SHAPE(steps, inner));
    rows            = ipu_gather(b, rows, reversed_rows(b, in[LENGTHS], ordered.dim[0], ordered.dim[1]), 0);
    out[0]          = ipu_transpose(b, ipu_reshape(b, rows, ordered), back, x->rank);
}

static const ipu__kernel_operand sequence_operands[]           = {IPU__INPUT("x"), IPU__INPUT("lengths"),
                                                                  IPU__OUTPUT("out")};
static const ipu_op_attribute    reverse_sequence_attributes[] = {
       {.name = "batch_axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "dimension of sequences"},
       {.name = "time_axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = 0, .meaning = "dimension of steps"},
};
static const char *const reverse_sequence_samples[] = {
    "float[4,3], int32[3]{0,4}", "float[3,4,2], int64[3]{0,4}; batch_axis=0 time_axis=1",
    "int8[2,3,4], int32[3]{0,4}; batch_axis=-2 time_axis=2", "float[0,3], int32[3]", NULL};
COMPOSED(reverse_sequence, sequence_operands, 2, "the first steps of each sequence in reverse");

ipu_value ipu_reverse_sequence(ipu_builder *b, ipu_value x, ipu_value lengths, int batch_axis, int time_axis)
{
    return ipu__emit1(b, "reverse_sequence",
                      IPU__WITH(IPU_INT_ATTRIBUTE("batch_axis", batch_axis),
                                IPU_INT_ATTRIBUTE("time_axis", time_axis)),
                      IPU__IN(x, lengths));
}
