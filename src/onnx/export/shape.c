/* Views, gathers and scatters in ONNX. What is an attribute of ours is an initializer there. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/export/export.h"
#include "onnx/tensor.h"

static const ipu__kernel_value *result(const ipu__wop *o) { return &o->call.operand[o->op->n_in]; }

static const char *put_dims(ipu__wop *o, const ipu_shape *shape)
{
    return ipu__put_list(o->w, shape->dim, (size_t)shape->rank);
}

/* ---- views ---- */

/* 0 stands for the dimension there was, unless allowzero, which opset 14 brought: used for dimension 0, so that a network
 * written for one batch can be read for another. */
bool ipu__write_reshape(ipu__wop *o)
{
    const ipu_shape *from     = &o->call.operand[0].shape;
    ipu_shape        shape    = result(o)->shape;
    bool             has_zero = false;
    for (int d = 0; d < shape.rank; d++) has_zero |= shape.dim[d] == 0;
    if (has_zero && o->w->opset < 14) return false;
    if (!has_zero && from->rank > 0 && shape.rank > 0 && shape.dim[0] == from->dim[0]) shape.dim[0] = 0;
    Ipu__NodeProto *node = ipu__put(o->w, "Reshape", IPU__NAMES(ipu__take(o, 0), put_dims(o, &shape)),
                                    o->out[0]);
    if (has_zero) ipu__put_int(o->w, node, "allowzero", 1);
    return true;
}

bool ipu__write_transpose(ipu__wop *o)
{
    size_t          n;
    const int64_t  *given = ipu__op_ints(&o->call, "perm", &n);
    int64_t         perm[IPU_MAX_RANK];
    int             rank = result(o)->shape.rank;
    Ipu__NodeProto *node = ipu__put(o->w, "Transpose", IPU__NAMES(ipu__take(o, 0)), o->out[0]);
    for (int d = 0; d < rank; d++)
        perm[d] = n == 0 ? rank - 1 - d : given[d] < 0 ? given[d] + rank : given[d];
    if (rank > 0) ipu__put_ints(o->w, node, "perm", perm, (size_t)rank);
    return true;
}

static void put_slice(ipu__wop *o, const int64_t *list[4], size_t n)
{
    ipu__put(o->w, "Slice",
             IPU__NAMES(ipu__take(o, 0), ipu__put_list(o->w, list[0], n), ipu__put_list(o->w, list[1], n),
                        ipu__put_list(o->w, list[2], n), ipu__put_list(o->w, list[3], n)),
             o->out[0]);
}

bool ipu__write_reverse(ipu__wop *o)
{
    bool    mask[IPU_MAX_RANK];
    int64_t begin[IPU_MAX_RANK], end[IPU_MAX_RANK], axes[IPU_MAX_RANK], step[IPU_MAX_RANK];
    size_t  n = 0;
    if (ipu__op_axes(&o->call, "axes", result(o)->shape.rank, mask) != IPU_OK) return false;
    for (int d = 0; d < result(o)->shape.rank; d++) {
        if (!mask[d]) continue;
        begin[n]  = -1;
        end[n]    = INT64_MIN + 1;
        step[n]   = -1;
        axes[n++] = d;
    }
    if (n == 0) return ipu__put_same(o, "Identity", 1, 1);
    put_slice(o, (const int64_t *[]){begin, end, axes, step}, n);
    return true;
}

bool ipu__write_slice(ipu__wop *o)
{
    size_t         n, n_axes, n_steps;
    const int64_t *begin = ipu__op_ints(&o->call, "begin", &n), *end = ipu__op_ints(&o->call, "end", &n);
    const int64_t *axes = ipu__op_ints(&o->call, "axes", &n_axes);
    const int64_t *step = ipu__op_ints(&o->call, "step", &n_steps);
    int64_t        own_axes[IPU_MAX_RANK], own_steps[IPU_MAX_RANK];
    for (size_t i = 0; i < n && i < IPU_MAX_RANK; i++) {
        own_axes[i]  = n_axes ? axes[i] : (int64_t)i;
        own_steps[i] = n_steps ? step[i] : 1;
    }
    put_slice(o, (const int64_t *[]){begin, end, own_axes, own_steps}, n);
    return true;
}

bool ipu__write_expand(ipu__wop *o)
{
    ipu__put(o->w, "Expand", IPU__NAMES(ipu__take(o, 0), put_dims(o, &result(o)->shape)), o->out[0]);
    return true;
}

bool ipu__write_concat(ipu__wop *o)
{
    const char *in[IPU__MAX_OPERANDS];
    size_t      n = 0;
    for (uint32_t i = 0; i < o->op->n_in; i++)
        if (o->op->in[i]) in[n++] = ipu__take(o, (int)i);
    Ipu__NodeProto *node = ipu__put(o->w, "Concat", in, n, o->out[0]);
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    return true;
}

/* ---- padding ---- */

static bool has_inside(const ipu__kernel_call *call)
{
    size_t         n;
    const int64_t *inside = ipu__op_ints(call, "inside", &n);
    bool           any    = false;
    for (size_t i = 0; i < n; i++) any |= inside[i] != 0;
    return any;
}

bool ipu__write_pad(ipu__wop *o)
{
    size_t         n;
    const int64_t *before = ipu__op_ints(&o->call, "before", &n),
                  *after  = ipu__op_ints(&o->call, "after", &n);
    int64_t pads[2 * IPU_MAX_RANK];
    if (has_inside(&o->call)) return false;
    for (size_t i = 0; i < n; i++) {
        pads[i]     = before[i];
        pads[n + i] = after[i];
    }
    ipu__put(o->w, "Pad",
             IPU__NAMES(ipu__take(o, 0), ipu__put_list(o->w, pads, 2 * n),
                        ipu__put_scalar(o->w, result(o)->type, ipu__op_float(&o->call, "value"))),
             o->out[0]);
    return true;
}

/* Between two elements: each gets a dimension of its own, which is padded and joined; then the sides. */
void ipu__rewrite_pad(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    size_t         n, n_sides;
    const int64_t *inside = ipu__op_ints(call, "inside", &n);
    const int64_t *before = ipu__op_ints(call, "before", &n_sides),
                  *after  = ipu__op_ints(call, "after", &n_sides);
    double    value       = ipu__op_float(call, "value");
    ipu_value x           = in[0];
    for (int d = 0; d < (int)n; d++) {
        ipu_shape shape   = ipu_value_shape(x);
        int64_t   none[3] = {0}, behind[3] = {0, inside[d], 0}, outer = 1, inner = 1, count = shape.dim[d];
        if (inside[d] == 0 || count < 2) continue;
        for (int k = 0; k < shape.rank; k++) *(k < d ? &outer : &inner) *= k == d ? 1 : shape.dim[k];
        x            = ipu_reshape(b, x, IPU_SHAPE(outer * count, 1, inner));
        x            = ipu_pad(b, x, none, behind, IPU_PAD_CONSTANT, value);
        shape.dim[d] = count * (inside[d] + 1);
        x            = ipu_slice(b, ipu_reshape(b, x, shape), 0, shape.dim[d] - inside[d], d);
    }
    out[0] = ipu_pad(b, x, before, after, IPU_PAD_CONSTANT, value);
}

/* ---- gathering and scattering; indices are int32 or int64 in ONNX, for GatherND and ScatterND int64 ---- */

static const char *take_index(ipu__wop *o, int i)
{
    ipu_type type = o->call.operand[i].type;
    return ipu__take_as(o, i, type == IPU_INT32 ? type : IPU_INT64);
}

bool ipu__write_gather(ipu__wop *o)
{
    Ipu__NodeProto *node = ipu__put(o->w, "Gather", IPU__NAMES(ipu__take(o, 0), take_index(o, 1)), o->out[0]);
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    return true;
}

bool ipu__write_gather_nd(ipu__wop *o)
{
    ipu__put(o->w, "GatherND", IPU__NAMES(ipu__take(o, 0), ipu__take_as(o, 1, IPU_INT64)), o->out[0]);
    return true;
}

bool ipu__write_gather_elements(ipu__wop *o)
{
    Ipu__NodeProto *node = ipu__put(o->w, "GatherElements", IPU__NAMES(ipu__take(o, 0), take_index(o, 1)),
                                    o->out[0]);
    ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    return true;
}

static bool put_scatter(ipu__wop *o, const char *onnx_op, bool by_rows)
{
    const char *reduction = ipu__op_text(&o->call, "reduction");
    bool        adds      = strcmp(reduction, "none") != 0;
    if (adds && o->w->opset < 16) return false;
    const char     *indices = by_rows ? ipu__take_as(o, 1, IPU_INT64) : take_index(o, 1);
    Ipu__NodeProto *node    = ipu__put(o->w, onnx_op, IPU__NAMES(ipu__take(o, 0), indices, ipu__take(o, 2)),
                                       o->out[0]);
    if (!by_rows) ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    if (adds) ipu__put_text(o->w, node, "reduction", reduction);
    return true;
}

bool ipu__write_scatter_nd(ipu__wop *o) { return put_scatter(o, "ScatterND", true); }
bool ipu__write_scatter_elements(ipu__wop *o) { return put_scatter(o, "ScatterElements", false); }

/* Rows by a list of indices. ONNX 17 knows the product only. */
bool ipu__write_scatter_reduce(ipu__wop *o)
{
    int64_t     pair[] = {-1, 1};
    const char *how    = ipu__op_text(&o->call, "reduction");
    if (strcmp(how, "mul") != 0 || o->w->opset < 16) return false;
    Ipu__NodeProto *rows = ipu__put(
        o->w, "Reshape", IPU__NAMES(ipu__take_as(o, 1, IPU_INT64), ipu__put_list(o->w, pair, 2)), NULL);
    Ipu__NodeProto *node = ipu__put(o->w, "ScatterND",
                                    IPU__NAMES(ipu__take(o, 0), rows->output[0], ipu__take(o, 2)), o->out[0]);
    ipu__put_text(o->w, node, "reduction", how);
    return true;
}

/* By comparison: what OneHot does with an index that is out of range is not the same everywhere. */
void ipu__rewrite_one_hot(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_type  type  = call->operand[1].type;
    int64_t   depth = ipu__op_int(call, "depth");
    int       rank = call->operand[1].shape.rank, axis = (int)ipu__op_int(call, "axis");
    ipu_shape line = {.rank = rank}, wide = call->operand[1].shape;
    ipu_value index = ipu_cast(b, in[0], IPU_INT64);
    if (axis < 0) axis += rank;
    for (int d = 0; d < rank; d++) line.dim[d] = d == axis ? depth : 1;
    wide.dim[axis]  = 1;
    ipu_value end   = ipu_add(b, index, ipu_scalar_like(b, index, (double)depth));
    index           = ipu_where(b, ipu_less(b, index, ipu_scalar_like(b, index, 0)), end, index);
    ipu_value place = ipu_reshape(b, ipu_arange(b, IPU_INT64, depth, 0, 1), line);
    ipu_value on    = ipu_constant_value(b, type, (ipu_shape){0}, ipu__op_float(call, "on")),
              off   = ipu_constant_value(b, type, (ipu_shape){0}, ipu__op_float(call, "off"));
    out[0]          = ipu_where(b, ipu_equal(b, ipu_reshape(b, index, wide), place), on, off);
}

/* ---- slices from a start that is a value: by places, so that shapes stay known ---- */

static ipu_value places(ipu_builder *b, ipu_value start, int64_t size, int64_t extent)
{
    ipu_value at = ipu_cast(b, ipu_reshape(b, start, IPU_SHAPE(1)), IPU_INT64);
    at           = ipu_maximum(b, at, ipu_scalar_like(b, at, 0));
    at           = ipu_minimum(b, at, ipu_scalar_like(b, at, (double)(extent - size)));
    return ipu_add(b, ipu_arange(b, IPU_INT64, size, 0, 1), at);
}

static int axis_of(const ipu__kernel_call *call)
{
    int axis = (int)ipu__op_int(call, "axis");
    return axis < 0 ? axis + call->operand[0].shape.rank : axis;
}

void ipu__rewrite_dynamic_slice(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                ipu_value *out)
{
    int     axis = axis_of(call);
    int64_t size = ipu__op_int(call, "size"), extent = call->operand[0].shape.dim[axis];
    out[0] = ipu_gather(b, in[0], places(b, in[1], size, extent), axis);
}

void ipu__rewrite_dynamic_update_slice(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                       ipu_value *out)
{
    int       axis = axis_of(call);
    ipu_shape y = call->operand[1].shape, line = {.rank = y.rank};
    ipu_value at = places(b, in[2], y.dim[axis], call->operand[0].shape.dim[axis]);
    for (int d = 0; d < y.rank; d++) line.dim[d] = d == axis ? y.dim[d] : 1;
    at     = ipu_expand(b, ipu_reshape(b, at, line), y);
    out[0] = ipu_scatter_elements(b, in[0], at, in[1], axis, IPU_SCATTER_SET);
}
