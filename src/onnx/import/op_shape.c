/* Shape ops of ONNX: reshaping, cutting, joining, and what comes from shapes. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"

enum { MOST_BLOCK = 1 << 15 }; /* of pixels: its square is counted, too */

/* ---- constants ---- */

static ipu_value constant_ints(ipu__node *n, const int64_t *values, size_t count)
{
    return ipu_constant_data(n->b, IPU_INT64, IPU_SHAPE((int64_t)count),
                             values ? values : (const int64_t[]){0});
}

static ipu_value constant_tensor(ipu__node *n, const Ipu__TensorProto *t)
{
    return ipu__import_constant(n->im, t, NULL);
}

void ipu__onnx_Constant(ipu__node *n)
{
    const Ipu__AttributeProto *a = ipu__attr(n, "value");
    size_t                     count;
    if (a && a->t)
        ipu__give(n, 0, constant_tensor(n, a->t));
    else if ((a = ipu__attr(n, "sparse_value")) && a->sparse_tensor)
        ipu__give(n, 0, ipu__import_sparse(n->im, a->sparse_tensor, NULL));
    else if (ipu__attr(n, "value_float"))
        ipu__give(n, 0,
                  ipu_constant_value(n->b, ipu__float(n->im), (ipu_shape){0},
                                     ipu__attr_float(n, "value_float", 0)));
    else if (ipu__attr(n, "value_int")) {
        int64_t value = ipu__attr_int(n, "value_int", 0);
        ipu__give(n, 0, ipu_constant_data(n->b, IPU_INT64, (ipu_shape){0}, &value));
    } else if (ipu__attr(n, "value_ints")) {
        const int64_t *values = ipu__attr_ints(n, "value_ints", &count);
        ipu__give(n, 0, constant_ints(n, values, count));
    } else if (ipu__attr(n, "value_floats")) {
        const float *values = ipu__attr_floats(n, "value_floats", &count);
        ipu_value    v      = ipu_constant_data(n->b, IPU_FLOAT, IPU_SHAPE((int64_t)count),
                                        values ? values : (const float[]){0});
        ipu__give(n, 0, n->im->options->wide ? ipu_cast(n->b, v, IPU_DOUBLE) : v);
    } else
        ipu__node_fail(n, IPU_UNSUPPORTED, "it has no value of a kind that is supported (strings are not)");
}

/* The dimensions at input `i`. */
static bool shape_at(ipu__node *n, size_t i, ipu_shape *out)
{
    const int64_t *dims;
    size_t         count;
    *out = (ipu_shape){0};
    if (!ipu__in_ints(n, i, &dims, &count)) {
        if (!ipu__has_in(n, i)) ipu__node_fail(n, IPU_INVALID, "input %zu, a shape, is missing", i);
        return false;
    }
    if (count > IPU_MAX_RANK) {
        ipu__node_fail(n, IPU_UNSUPPORTED, "%zu dimensions; at most %d are supported", count, IPU_MAX_RANK);
        return false;
    }
    out->rank = (int)count;
    for (size_t d = 0; d < count; d++) out->dim[d] = dims[d];
    return true;
}

void ipu__onnx_ConstantOfShape(ipu__node *n)
{
    ipu_shape                  shape;
    const Ipu__AttributeProto *a = ipu__attr(n, "value");
    if (!shape_at(n, 0, &shape)) return;
    ipu_value one = a && a->t ? constant_tensor(n, a->t)
                              : ipu_constant_value(n->b, ipu__float(n->im), IPU_SHAPE(1), 0);
    ipu__give(n, 0, ipu_expand(n->b, ipu_reshape(n->b, one, (ipu_shape){0}), shape));
}

void ipu__onnx_Shape(ipu__node *n)
{
    ipu_shape shape = ipu_value_shape(ipu__in_needed(n, 0));
    int64_t   start = ipu__attr_int(n, "start", 0), end = ipu__attr_int(n, "end", shape.rank);
    if (start < 0) start += shape.rank;
    if (end < 0) end += shape.rank;
    start = start < 0 ? 0 : start > shape.rank ? shape.rank : start;
    end   = end < start ? start : end > shape.rank ? shape.rank : end;
    ipu__give(n, 0, constant_ints(n, shape.dim + start, (size_t)(end - start)));
}

void ipu__onnx_Size(ipu__node *n)
{
    int64_t count = ipu_value_n_elements(ipu__in_needed(n, 0));
    ipu__give(n, 0, ipu_constant_data(n->b, IPU_INT64, (ipu_shape){0}, &count));
}

void ipu__onnx_Range(ipu__node *n)
{
    ipu_type type = ipu_value_type(ipu__in_needed(n, 0));
    double start = ipu__in_double(n, 0, 0), limit = ipu__in_double(n, 1, 0), delta = ipu__in_double(n, 2, 1);
    double count = delta != 0 ? __builtin_ceil((limit - start) / delta) : -1;
    if (delta == 0 || count > 0x1p40)
        ipu__node_fail(n, IPU_INVALID, "from %g to %g in steps of %g", start, limit, delta);
    else if (ipu__import_claim(n, count, type))
        ipu__give(n, 0, ipu_arange(n->b, type, count > 0 ? (int64_t)count : 0, start, delta));
}

void ipu__onnx_EyeLike(ipu__node *n)
{
    ipu_value x    = ipu__in_needed(n, 0);
    ipu_type  type = ipu__attr_type(n, "dtype", ipu_value_type(x));
    if (ipu_value_rank(x) != 2)
        ipu__node_fail(n, IPU_INVALID, "its input must have 2 dimensions");
    else if (ipu__import_claim(n, (double)ipu_value_n_elements(x), type))
        ipu__give(n, 0, ipu_eye_like(n->b, x, type, ipu__attr_int(n, "k", 0)));
}

void ipu__onnx_Trilu(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0);
    int64_t   k = ipu__in_int(n, 1, 0);
    ipu__give(n, 0, ipu__attr_int(n, "upper", 1) ? ipu_triu(n->b, x, k) : ipu_tril(n->b, x, k));
}

/* ---- same elements, other dimensions ---- */

void ipu__onnx_Identity(ipu__node *n)
{
    if (n->n_in > 0) ipu__give_item(n, 0, n->in[0]);
}

/* The shape is an attribute before opset 5. 0 stands for the dimension there was, unless allowzero. */
void ipu__onnx_Reshape(ipu__node *n)
{
    ipu_value x     = ipu__in_needed(n, 0);
    ipu_shape shape = {0};
    if (n->version < 5) {
        size_t         count;
        const int64_t *dims = ipu__attr_ints(n, "shape", &count);
        if (count > IPU_MAX_RANK) ipu__node_fail(n, IPU_UNSUPPORTED, "more than %d dimensions", IPU_MAX_RANK);
        for (size_t i = 0; i < count && i < IPU_MAX_RANK; i++) shape.dim[shape.rank++] = dims[i];
    } else if (!shape_at(n, 1, &shape))
        return;
    bool zero_is_zero = ipu__attr_int(n, "allowzero", 0) != 0;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dim[i] != 0 || zero_is_zero) continue;
        if (i >= ipu_value_rank(x))
            ipu__node_fail(n, IPU_INVALID, "dimension %d is 0: there is none to take it from", i);
        else
            shape.dim[i] = ipu_value_dim(x, i);
    }
    ipu__give(n, 0, ipu_reshape(n->b, x, shape));
}

void ipu__onnx_Flatten(ipu__node *n)
{
    ipu_shape shape = ipu_value_shape(ipu__in_needed(n, 0));
    int64_t   axis = ipu__attr_int(n, "axis", 1), rows = 1, columns = 1;
    if (axis < 0) axis += shape.rank;
    if (axis < 0 || axis > shape.rank) {
        ipu__node_fail(n, IPU_INVALID, "axis %lld is none of %d dimensions", (long long)axis, shape.rank);
        return;
    }
    for (int i = 0; i < shape.rank; i++) *(i < axis ? &rows : &columns) *= shape.dim[i];
    ipu__give(n, 0, ipu_reshape(n->b, ipu__in(n, 0), IPU_SHAPE(rows, columns)));
}

void ipu__onnx_Squeeze(ipu__node *n)
{
    ipu_value  x     = ipu__in_needed(n, 0);
    ipu_shape  shape = ipu_value_shape(x), out = {0};
    const int *axes;
    int        n_axes;
    bool       has_axes                 = ipu__axes(n, "axes", 1, shape.rank, &axes, &n_axes);
    bool       is_dropped[IPU_MAX_RANK] = {false};
    for (int i = 0; i < shape.rank; i++) is_dropped[i] = !has_axes && shape.dim[i] == 1;
    for (int i = 0; i < n_axes; i++) {
        is_dropped[axes[i]] = true;
        if (shape.dim[axes[i]] != 1)
            ipu__node_fail(n, IPU_INVALID, "dimension %d is %lld; only one of 1 can be dropped", axes[i],
                           (long long)shape.dim[axes[i]]);
    }
    for (int i = 0; i < shape.rank; i++)
        if (!is_dropped[i]) out.dim[out.rank++] = shape.dim[i];
    ipu__give(n, 0, ipu_reshape(n->b, x, out));
}

void ipu__onnx_Unsqueeze(ipu__node *n)
{
    ipu_value      x     = ipu__in_needed(n, 0);
    ipu_shape      shape = ipu_value_shape(x), out;
    size_t         count;
    const int64_t *given = ipu__attr_ints(n, "axes", &count);
    if (!given) ipu__in_ints(n, 1, &given, &count);
    if (count + (size_t)shape.rank > IPU_MAX_RANK) {
        ipu__node_fail(n, IPU_UNSUPPORTED, "more than %d dimensions", IPU_MAX_RANK);
        return;
    }
    const int *axes;
    int        n_axes;
    out = (ipu_shape){.rank = shape.rank + (int)count};
    if (count > 0 && !ipu__axes(n, "axes", 1, out.rank, &axes, &n_axes)) return;
    for (size_t i = 0; i < count; i++) out.dim[axes[i]] = 1;
    for (int i = 0, from = 0; i < out.rank; i++)
        if (out.dim[i] == 0) out.dim[i] = shape.dim[from++];
    ipu__give(n, 0, ipu_reshape(n->b, x, out));
}

void ipu__onnx_Transpose(ipu__node *n)
{
    ipu_value      x    = ipu__in_needed(n, 0);
    int            rank = ipu_value_rank(x), perm[IPU_MAX_RANK] = {0};
    size_t         count;
    const int64_t *given = ipu__attr_ints(n, "perm", &count);
    if (given && (int)count != rank)
        ipu__node_fail(n, IPU_INVALID, "perm has %zu numbers for %d dimensions", count, rank);
    for (int i = 0; ipu__import_ok(n->im) && i < rank; i++) {
        if (given && (given[i] < 0 || given[i] >= rank))
            ipu__node_fail(n, IPU_INVALID, "perm has %lld; expected 0 to %d", (long long)given[i], rank - 1);
        perm[i] = given ? (int)given[i] : rank - 1 - i;
    }
    if (!ipu__import_ok(n->im)) return;
    ipu_value y = ipu_transpose(n->b, x, perm, rank);
    if (!n->in[0].count.id) {
        ipu__give(n, 0, y);
        return;
    }
    for (int i = 0; i < rank; i++)
        if (perm[i] == n->in[0].count_dim) ipu__give_counted(n, 0, y, n->in[0].count, i);
}

void ipu__onnx_ReverseSequence(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), lengths = ipu__in_needed(n, 1);
    int       time  = ipu__axis(n, "time_axis", 0, ipu_value_rank(x));
    int       batch = ipu__axis(n, "batch_axis", 1, ipu_value_rank(x));
    ipu__give(n, 0, ipu_reverse_sequence(n->b, x, lengths, batch, time));
}

/* An extent of `times` as many; an error, and 0, if that cannot be counted: a tensor without elements may have any
 * extents. */
static int64_t multiplied(ipu__node *n, int64_t extent, int64_t times)
{
    int64_t out;
    if (!__builtin_mul_overflow(extent, times, &out)) return out;
    ipu__node_fail(n, IPU_INVALID, "an extent of %lld times %lld cannot be counted", (long long)extent,
                   (long long)times);
    return 0;
}

/* Attribute blocksize, small enough to be squared; 0 after an error. */
static int64_t block_size(ipu__node *n)
{
    int64_t block = ipu__attr_int(n, "blocksize", 0);
    if (block >= 1 && block <= MOST_BLOCK) return block;
    ipu__node_fail(n, IPU_INVALID, "blocksize is %lld; expected 1 to %d", (long long)block, MOST_BLOCK);
    return 0;
}

void ipu__onnx_DepthToSpace(ipu__node *n)
{
    ipu_builder *b      = n->b;
    ipu_value    x      = ipu__in_needed(n, 0);
    int64_t      block  = block_size(n);
    bool         is_crd = strcmp(ipu__attr_text(n, "mode", "DCR"), "CRD") == 0;
    if (block == 0 || !ipu__import_ok(n->im)) return;
    if (ipu_value_rank(x) != 4 || ipu_value_dim(x, 1) % (block * block) != 0) {
        ipu__node_fail(n, IPU_INVALID, "expected [N,C,H,W] with C a multiple of blocksize squared");
        return;
    }
    int64_t N = ipu_value_dim(x, 0), C = ipu_value_dim(x, 1) / (block * block), H = ipu_value_dim(x, 2),
            W   = ipu_value_dim(x, 3);
    ipu_value y = is_crd ? ipu_reshape(b, x, IPU_SHAPE(N, C, block, block, H, W))
                         : ipu_reshape(b, x, IPU_SHAPE(N, block, block, C, H, W));
    y           = is_crd ? ipu_transpose(b, y, (int[]){0, 1, 4, 2, 5, 3}, 6)
                         : ipu_transpose(b, y, (int[]){0, 3, 4, 1, 5, 2}, 6);
    ipu__give(n, 0, ipu_reshape(b, y, IPU_SHAPE(N, C, multiplied(n, H, block), multiplied(n, W, block))));
}

void ipu__onnx_SpaceToDepth(ipu__node *n)
{
    ipu_builder *b     = n->b;
    ipu_value    x     = ipu__in_needed(n, 0);
    int64_t      block = block_size(n);
    if (block == 0 || !ipu__import_ok(n->im)) return;
    if (ipu_value_rank(x) != 4 || ipu_value_dim(x, 2) % block || ipu_value_dim(x, 3) % block) {
        ipu__node_fail(n, IPU_INVALID, "expected [N,C,H,W] with H and W multiples of blocksize");
        return;
    }
    int64_t N = ipu_value_dim(x, 0), C = ipu_value_dim(x, 1), H = ipu_value_dim(x, 2) / block,
            W   = ipu_value_dim(x, 3) / block;
    ipu_value y = ipu_reshape(b, x, IPU_SHAPE(N, C, H, block, W, block));
    y           = ipu_transpose(b, y, (int[]){0, 3, 5, 1, 2, 4}, 6);
    ipu__give(n, 0, ipu_reshape(b, y, IPU_SHAPE(N, multiplied(n, C, block * block), H, W)));
}

/* ---- repeating ---- */

/* Unlike ipu_expand, a dimension of 1 in the shape leaves one that is larger. */
void ipu__onnx_Expand(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0);
    ipu_shape shape, own = ipu_value_shape(x);
    if (!shape_at(n, 1, &shape)) return;
    ipu_shape out = {.rank = shape.rank > own.rank ? shape.rank : own.rank};
    for (int i = 0; i < out.rank; i++) {
        int     a = i - (out.rank - own.rank), b = i - (out.rank - shape.rank);
        int64_t mine = a >= 0 ? own.dim[a] : 1, wanted = b >= 0 ? shape.dim[b] : 1;
        out.dim[i] = wanted == 1 ? mine : wanted;
    }
    ipu__give(n, 0, ipu_expand(n->b, x, out));
}

/* Before opset 6: how often, and along which dimension. */
void ipu__onnx_Tile(ipu__node *n)
{
    ipu_value      x = ipu__in_needed(n, 0);
    const int64_t *repeats;
    size_t         count;
    if (n->version < 6) {
        int64_t all[IPU_MAX_RANK], axis = ipu__in_int(n, 2, 0), times = ipu__in_int(n, 1, 1);
        for (int i = 0; i < IPU_MAX_RANK; i++) all[i] = i == axis ? times : 1;
        ipu__give(n, 0, ipu_tile(n->b, x, all, ipu_value_rank(x)));
    } else if (ipu__in_ints(n, 1, &repeats, &count))
        ipu__give(n, 0, ipu_tile(n->b, x, repeats, (int)count));
}

/* ---- cutting and joining ---- */

void ipu__onnx_Concat(ipu__node *n)
{
    int        axis   = ipu__axis(n, "axis", n->version < 4 ? 1 : 0, ipu_value_rank(ipu__in_needed(n, 0)));
    ipu_value *values = ipu__import_alloc(n->im, n->n_in * sizeof *values);
    for (size_t i = 0; values && i < n->n_in; i++) values[i] = ipu__in_needed(n, i);
    if (values && ipu__import_ok(n->im)) ipu__give(n, 0, ipu_concat(n->b, values, n->n_in, axis));
}

static bool slice_lists(ipu__node *n, const int64_t *list[4], size_t count[4])
{
    static const char *const names[] = {"starts", "ends", "axes"};
    for (size_t i = 0; i < 4; i++) {
        list[i]  = NULL;
        count[i] = 0;
        if (n->version >= 10)
            ipu__in_ints(n, i + 1, &list[i], &count[i]);
        else if (i < 3)
            list[i] = ipu__attr_ints(n, names[i], &count[i]);
    }
    if (!ipu__import_ok(n->im)) return false;
    bool is_good = count[0] == count[1] && (!list[2] || count[2] == count[0])
                && (!list[3] || count[3] == count[0]);
    if (!is_good) ipu__node_fail(n, IPU_INVALID, "starts, ends, axes and steps differ in length");
    return is_good;
}

void ipu__onnx_Slice(ipu__node *n)
{
    ipu_value      x = ipu__in_needed(n, 0);
    const int64_t *list[4]; /* starts, ends, axes, steps */
    size_t         count[4];
    if (!slice_lists(n, list, count)) return;
    for (size_t i = 0; i < count[0] && ipu__import_ok(n->im); i++) {
        int64_t axis = list[2] ? list[2][i] : (int64_t)i, step = list[3] ? list[3][i] : 1;
        if (axis < -ipu_value_rank(x) || axis >= ipu_value_rank(x) || step == 0) {
            ipu__node_fail(n, IPU_INVALID, "axis %lld, step %lld of %d dimensions", (long long)axis,
                           (long long)step, ipu_value_rank(x));
            return;
        }
        int64_t dim = ipu_value_dim(x, (int)axis), begin = list[0][i], end = list[1][i];
        if (begin < 0) begin = begin < -dim ? (step < 0 ? -1 : 0) : begin + dim;
        if (end < 0) end = end < -dim ? -1 : end + dim;
        if (begin > dim - (step < 0)) begin = dim - (step < 0);
        if (step < 0 && end < 0) end = INT64_MIN;
        if (step > 0 && end < 0) end = 0;
        if (end > dim) end = dim;
        bool is_empty = step > 0 ? begin >= end : begin <= end || begin < 0;
        x             = is_empty ? ipu_slice(n->b, x, 0, 0, (int)axis)
                                 : ipu_slice_step(n->b, x, begin, end, step, (int)axis);
    }
    ipu__give(n, 0, x);
}

/* Sizes are an attribute before opset 13, an input after it; else equal ones, the last smaller from opset 18. */
void ipu__onnx_Split(ipu__node *n)
{
    ipu_value      x    = ipu__in_needed(n, 0);
    int            axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
    size_t         count, parts = n->n_out;
    const int64_t *sizes = ipu__attr_ints(n, "split", &count);
    if (!sizes && n->n_in > 1) ipu__in_ints(n, 1, &sizes, &count);
    if (!ipu__import_ok(n->im)) return;
    int64_t   *own = ipu__import_alloc(n->im, (parts + 1) * sizeof *own), dim = ipu_value_dim(x, axis);
    ipu_value *out = ipu__import_alloc(n->im, (parts + 1) * sizeof *out);
    if (!own || !out) return;
    if (sizes && count != parts) {
        ipu__node_fail(n, IPU_INVALID, "%zu sizes for %zu outputs", count, parts);
        return;
    }
    int64_t each = (dim + (int64_t)parts - 1) / (int64_t)(parts ? parts : 1);
    for (size_t i = 0; i < parts; i++)
        own[i] = sizes ? sizes[i] : i + 1 < parts ? each : dim - each * (int64_t)i;
    ipu_split(n->b, x, own, parts, axis, out);
    for (size_t i = 0; i < parts; i++) ipu__give(n, i, out[i]);
}

static ipu_pad_mode pad_mode(ipu__node *n)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    const char              *mode    = ipu__attr_text(n, "mode", "constant");
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, names[i]) == 0) return (ipu_pad_mode)i;
    ipu__node_fail(n, IPU_INVALID, "mode is \"%s\"; expected constant, reflect, edge or wrap", mode);
    return IPU_PAD_CONSTANT;
}

/* Attributes before opset 11 (called paddings in the first), inputs from then on. */
void ipu__onnx_Pad(ipu__node *n)
{
    ipu_value      x    = ipu__in_needed(n, 0);
    int            rank = ipu_value_rank(x), n_axes = 0;
    const int     *axes = NULL;
    const int64_t *pads;
    size_t         count;
    int64_t        before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    double         value = n->version < 11 ? ipu__attr_float(n, "value", 0) : ipu__in_double(n, 2, 0);
    if (n->version < 11)
        pads = ipu__attr_ints(n, n->version < 2 ? "paddings" : "pads", &count);
    else
        ipu__in_ints(n, 1, &pads, &count);
    bool has_axes = n->version >= 18 && ipu__axes(n, "axes", 3, rank, &axes, &n_axes);
    if (!has_axes) n_axes = rank;
    if (!ipu__import_ok(n->im)) return;
    if (count != 2 * (size_t)n_axes) {
        ipu__node_fail(n, IPU_INVALID, "%zu pads for %d dimensions; expected two each", count, n_axes);
        return;
    }
    for (int i = 0; i < n_axes; i++) {
        before[has_axes ? axes[i] : i] = pads[i];
        after[has_axes ? axes[i] : i]  = pads[n_axes + i];
    }
    ipu__give(n, 0, ipu_pad(n->b, x, before, after, pad_mode(n), value));
}
