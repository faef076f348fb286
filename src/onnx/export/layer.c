/* Layers in ONNX: products, convolutions, pools, norms, softmax, losses. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/export/export.h"
#include "op/conv/conv.h"
#include "op/elementwise/epilogue.h"

/* ---- fused ops: the op itself, then the chain ---- */

static void without_epilogue(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, int n_own,
                             ipu_value *out)
{
    ipu_attribute with[8];
    size_t        n = 0;
    for (size_t i = 0; i < call->n_attributes; i++)
        if (strcmp(call->attributes[i].name, "epilogue") != 0) with[n++] = call->attributes[i];
    ipu_value chained[1 + IPU__EPILOGUE_IN];
    chained[0] = ipu__emit1(b, call->def->name, with, n, in, (size_t)n_own);
    for (int i = 0; i < IPU__EPILOGUE_IN; i++) chained[1 + i] = in[n_own + i];
    ipu_attribute program = IPU_TEXT_ATTRIBUTE("program", ipu__op_text(call, "epilogue"));
    out[0]                = ipu__emit1(b, "chain", &program, 1, chained, 1 + IPU__EPILOGUE_IN);
}

void ipu__rewrite_matmul(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    without_epilogue(b, call, in, 2, out);
}

/* ---- products ---- */

static const char *transposed(ipu__wop *o, int i, const char *name)
{
    int64_t perm[IPU_MAX_RANK];
    int     rank = o->call.operand[i].shape.rank;
    for (int d = 0; d < rank; d++) perm[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    Ipu__NodeProto *node = ipu__put(o->w, "Transpose", IPU__NAMES(name), NULL);
    ipu__put_ints(o->w, node, "perm", perm, (size_t)rank);
    return node->output[0];
}

bool ipu__write_matmul(ipu__wop *o)
{
    static const char *const names[] = {"transpose_a", "transpose_b"}, *const onnx[] = {"transA", "transB"};
    bool        turn[2];
    const char *in[2];
    bool        are_matrices = true;
    ipu_type    type         = ipu__carrier(o->w, "MatMul", o->call.operand[0].type);
    if (ipu__epilogue_has(&o->call) || type == IPU_N_TYPES) return false;
    for (int i = 0; i < 2; i++) {
        turn[i] = ipu__op_int(&o->call, names[i]) != 0;
        in[i]   = ipu__take_as(o, i, type);
        are_matrices &= o->call.operand[i].shape.rank == 2;
    }
    bool as_gemm = are_matrices && (turn[0] || turn[1]);
    for (int i = 0; i < 2 && !as_gemm; i++)
        if (turn[i] && o->call.operand[i].shape.rank >= 2) in[i] = transposed(o, i, in[i]);
    Ipu__NodeProto *node = ipu__put(o->w, as_gemm ? "Gemm" : "MatMul", in, 2, ipu__give_as(o, 0, type));
    for (int i = 0; i < 2 && as_gemm; i++)
        if (turn[i]) ipu__put_int(o->w, node, onnx[i], 1);
    return true;
}

/* ---- convolutions ---- */

static void put_geometry(ipu__wop *o, Ipu__NodeProto *node, const ipu__conv *c)
{
    size_t  n = (size_t)c->rank, skip = 3 - n;
    int64_t pads[6];
    for (size_t i = 0; i < n; i++) {
        pads[i]     = c->pad[skip + i];
        pads[n + i] = c->pad_end[skip + i];
    }
    ipu__put_ints(o->w, node, "kernel_shape", c->k + skip, n);
    ipu__put_ints(o->w, node, "strides", c->stride + skip, n);
    ipu__put_ints(o->w, node, "dilations", c->dilation + skip, n);
    ipu__put_ints(o->w, node, "pads", pads, 2 * n);
    ipu__put_int(o->w, node, "group", c->groups);
}

/* Padding of less than 0 cuts; ONNX has none. */
static bool has_negative_pads(const ipu__conv *c)
{
    for (int i = 0; i < 3; i++)
        if (c->pad[i] < 0 || c->pad_end[i] < 0) return true;
    return false;
}

/* The same convolution after its input is cut or, of a gradient, before its result is padded. */
typedef struct cut {
    int64_t       before[IPU_MAX_RANK], after[IPU_MAX_RANK]; /* 0 or less */
    int64_t       pads[6], size[3];
    ipu_attribute with[8];
    size_t        n_with;
} cut;

static void cut_of(const ipu__kernel_call *call, cut *out)
{
    ipu__conv c = ipu__conv_get(call);
    size_t    n = (size_t)c.rank, skip = 3 - n;
    *out = (cut){.n_with = 0};
    for (size_t i = 0; i < n; i++) {
        int64_t begin = c.pad[skip + i], end = c.pad_end[skip + i];
        out->before[2 + i] = begin < 0 ? begin : 0;
        out->after[2 + i]  = end < 0 ? end : 0;
        out->pads[i]       = begin < 0 ? 0 : begin;
        out->pads[n + i]   = end < 0 ? 0 : end;
        out->size[i]       = c.x[skip + i] + out->before[2 + i] + out->after[2 + i];
    }
    for (size_t i = 0; i < call->n_attributes; i++) {
        const char *name = call->attributes[i].name;
        if (strcmp(name, "padding") != 0 && strcmp(name, "size") != 0)
            out->with[out->n_with++] = call->attributes[i];
    }
    out->with[out->n_with++] = IPU__INTS("padding", out->pads, 2 * n);
    if (c.kind == IPU__CONV_INPUT_GRAD) out->with[out->n_with++] = IPU__INTS("size", out->size, n);
}

void ipu__rewrite_conv(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    cut c;
    if (ipu__epilogue_has(call)) {
        without_epilogue(b, call, in, 3, out);
        return;
    }
    cut_of(call, &c);
    ipu_value own[] = {ipu_pad(b, in[0], c.before, c.after, IPU_PAD_CONSTANT, 0), in[1], in[2]};
    out[0]          = ipu__emit1(b, "conv", c.with, c.n_with, own, 3);
}

bool ipu__write_conv(ipu__wop *o)
{
    ipu__conv c = ipu__conv_get(&o->call);
    if (ipu__epilogue_has(&o->call) || has_negative_pads(&c)) return false;
    Ipu__NodeProto *node = ipu__put_same(o, "Conv", 3, 1);
    put_geometry(o, node, &c);
    return true;
}

/* A transposed convolution. The output's extent is said by what is added at its end. */
bool ipu__write_conv_input_grad(ipu__wop *o)
{
    ipu__conv c = ipu__conv_get(&o->call);
    size_t    n = (size_t)c.rank, skip = 3 - n;
    int64_t   extra[3];
    bool      has_extra = false;
    if (has_negative_pads(&c)) return false;
    for (size_t i = skip; i < 3; i++) {
        int64_t least = (c.y[i] - 1) * c.stride[i] - c.pad[i] - c.pad_end[i] + (c.k[i] - 1) * c.dilation[i]
                      + 1;
        extra[i - skip] = c.x[i] - least;
        has_extra |= extra[i - skip] != 0;
    }
    Ipu__NodeProto *node = ipu__put_same(o, "ConvTranspose", 2, 1);
    put_geometry(o, node, &c);
    if (has_extra) ipu__put_ints(o->w, node, "output_padding", extra, n);
    return true;
}

void ipu__rewrite_conv_input_grad(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                  ipu_value *out)
{
    cut c;
    cut_of(call, &c);
    ipu_value x = ipu__emit1(b, "conv_input_grad", c.with, c.n_with, in, 2);
    for (int i = 2; i < IPU_MAX_RANK; i++) {
        c.before[i] = -c.before[i];
        c.after[i]  = -c.after[i];
    }
    out[0] = ipu_pad(b, x, c.before, c.after, IPU_PAD_CONSTANT, 0);
}

/* ---- pools ---- */

typedef struct window {
    size_t  n;
    int64_t kernel[3], strides[3], dilations[3], pads[6];
    int64_t beyond[3]; /* how far the last window reaches past the padding */
} window;

static int64_t listed(const ipu__kernel_call *call, const char *name, size_t i, int64_t otherwise)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    return i < n ? list[i] : otherwise;
}

/* Rules for rounding up differ; padding that the last window needs says the same without any. */
static window window_of(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[0].shape, *y = &call->operand[1].shape;
    window           w = {.n = (size_t)x->rank - 2};
    for (size_t i = 0; i < w.n; i++) {
        w.kernel[i]     = listed(call, "kernel", i, 1);
        w.strides[i]    = listed(call, "strides", i, w.kernel[i]);
        w.dilations[i]  = ipu__attribute_find(call, "dilations") ? listed(call, "dilations", i, 1) : 1;
        w.pads[i]       = listed(call, "pads", i, 0);
        w.pads[w.n + i] = listed(call, "pads", w.n + i, 0);
        int64_t reach   = (y->dim[2 + i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
        int64_t there   = w.pads[i] + x->dim[2 + i] + w.pads[w.n + i];
        w.beyond[i]     = reach > there ? reach - there : 0;
    }
    return w;
}

static void put_window(ipu__wop *o, Ipu__NodeProto *node, const window *w, bool has_dilations)
{
    int64_t pads[6];
    for (size_t i = 0; i < w->n; i++) {
        pads[i]        = w->pads[i];
        pads[w->n + i] = w->pads[w->n + i] + w->beyond[i];
    }
    ipu__put_ints(o->w, node, "kernel_shape", w->kernel, w->n);
    ipu__put_ints(o->w, node, "strides", w->strides, w->n);
    ipu__put_ints(o->w, node, "pads", pads, 2 * w->n);
    if (has_dilations) ipu__put_ints(o->w, node, "dilations", w->dilations, w->n);
}

/* Places are counted in one plane with us, in the whole tensor in ONNX. */
static void put_places(ipu__wop *o, const char *places)
{
    const ipu_shape *x     = &o->call.operand[0].shape;
    double           plane = 1;
    for (int d = 2; d < x->rank; d++) plane *= (double)x->dim[d];
    ipu__put(o->w, "Mod", IPU__NAMES(places, ipu__put_scalar(o->w, IPU_INT64, plane > 0 ? plane : 1)),
             ipu__give_as(o, 1, IPU_INT64));
}

/* Indices that are not wanted are a tensor of no elements, if somebody wants that. */
void ipu__rewrite_max_pool(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_attribute with[8];
    ipu_value     pooled[2] = {{b, 0}, {b, 0}};
    size_t        n         = 0;
    for (size_t i = 0; i < call->n_attributes && n < 8; i++)
        if (strcmp(call->attributes[i].name, "indices") != 0) with[n++] = call->attributes[i];
    ipu_emit(b, "max_pool", with, n, in, 1, pooled, 2);
    out[0] = pooled[0];
}

bool ipu__write_max_pool(ipu__wop *o)
{
    if (ipu__gives(o, 1) && !ipu__kernel_has(&o->call, 2)) return false;
    window          w    = window_of(&o->call);
    ipu_type        type = ipu__carrier(o->w, "MaxPool", o->call.operand[0].type);
    Ipu__NodeProto *node = ipu__put(o->w, "MaxPool", IPU__NAMES(ipu__take_as(o, 0, type)),
                                    ipu__give_as(o, 0, type));
    put_window(o, node, &w, true);
    if (!ipu__gives(o, 1)) return true;
    const char *places = ipu__fresh(o->w, "places");
    ipu__put_output(o->w, node, places);
    put_places(o, places);
    return true;
}

static bool reaches_beyond(const window *w) { return w->beyond[0] || w->beyond[1] || w->beyond[2]; }

/* What lies beyond the padding never counts; ONNX has one rule for both. */
bool ipu__write_average_pool(ipu__wop *o)
{
    window w           = window_of(&o->call);
    bool   counts_pads = ipu__op_int(&o->call, "count_include_pad") != 0;
    if (counts_pads && reaches_beyond(&w)) return false;
    Ipu__NodeProto *node = ipu__put_same(o, "AveragePool", 1, 1);
    put_window(o, node, &w, false);
    ipu__put_int(o->w, node, "count_include_pad", counts_pads);
    return true;
}

/* Padding becomes elements, so that only what lies beyond is left out. */
void ipu__rewrite_average_pool(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    window  w                    = window_of(call);
    int64_t before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    for (size_t i = 0; i < w.n; i++) {
        before[2 + i] = w.pads[i];
        after[2 + i]  = w.pads[w.n + i];
    }
    ipu_attribute with[] = {IPU__INTS("kernel", w.kernel, w.n), IPU__INTS("strides", w.strides, w.n),
                            IPU_INT_ATTRIBUTE("ceil_mode", 1), IPU_INT_ATTRIBUTE("count_include_pad", 0)};
    ipu_value     x      = ipu_pad(b, in[0], before, after, IPU_PAD_CONSTANT, 0);
    out[0]               = ipu__emit1(b, "average_pool", with, 4, &x, 1);
}

static ipu_value planes(ipu_builder *b, ipu_value x)
{
    int64_t n = ipu_value_dim(x, 0) * ipu_value_dim(x, 1), each = 1;
    for (int d = 2; d < ipu_value_rank(x); d++) each *= ipu_value_dim(x, d);
    return ipu_reshape(b, x, IPU_SHAPE(n, each));
}

/* An index of -1 is none: it counts as place 0, and its element as 0. */
static ipu_value whether_none(ipu_builder *b, ipu_value *at)
{
    ipu_value zero = ipu_scalar_like(b, *at, 0), none = ipu_less(b, *at, zero);
    *at = ipu_where(b, none, zero, *at);
    return none;
}

void ipu__rewrite_pool_gather(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    ipu_value at = planes(b, in[1]), none = whether_none(b, &at);
    ipu_value x = ipu_gather_elements(b, planes(b, in[0]), at, 1);
    out[0]      = ipu_reshape(b, ipu_where(b, none, ipu_scalar_like(b, x, 0), x), call->operand[2].shape);
}

void ipu__rewrite_pool_scatter(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    ipu_value at = planes(b, in[1]), none = whether_none(b, &at), x = planes(b, in[0]);
    ipu_value zeros = planes(b, ipu_constant_value(b, ipu_value_type(x), call->operand[2].shape, 0));
    x               = ipu_where(b, none, ipu_scalar_like(b, x, 0), x);
    out[0]          = ipu_reshape(b, ipu_scatter_elements(b, zeros, at, x, 1, IPU_SCATTER_ADD),
                                  call->operand[2].shape);
}

/* ---- softmax, norms ---- */

static bool put_softmax(ipu__wop *o, const char *onnx_op)
{
    Ipu__NodeProto *node = ipu__put_same(o, onnx_op, 1, 1);
    if (node) ipu__put_int(o->w, node, "axis", ipu__op_int(&o->call, "axis"));
    return node;
}
bool ipu__write_softmax(ipu__wop *o) { return put_softmax(o, "Softmax"); }
bool ipu__write_log_softmax(ipu__wop *o) { return put_softmax(o, "LogSoftmax"); }

/* All `value`, where ONNX wants what is optional with us. */
static const char *filled(ipu__wop *o, ipu_type type, const ipu_shape *shape, double value)
{
    return ipu__put(o->w, "Expand",
                    IPU__NAMES(ipu__put_scalar(o->w, type, value),
                               ipu__put_list(o->w, shape->dim, (size_t)shape->rank)),
                    NULL)
        ->output[0];
}

static const char *take_or(ipu__wop *o, int i, ipu_type type, const ipu_shape *shape, double value)
{
    return o->op->in[i] ? ipu__take_as(o, i, type) : filled(o, type, shape, value);
}

bool ipu__write_layer_norm(ipu__wop *o)
{
    const ipu_shape *x      = &o->call.operand[0].shape;
    int64_t          n_dims = ipu__op_int(&o->call, "n_dims");
    ipu_shape        shape  = {.rank = (int)n_dims};
    ipu_type         type   = ipu__carrier(o->w, "LayerNormalization", o->call.operand[0].type);
    if (type == IPU_N_TYPES || ipu__gives(o, 1) || ipu__gives(o, 2)) return false;
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = x->dim[x->rank - shape.rank + d];
    Ipu__NodeProto *node = ipu__put(o->w, "LayerNormalization",
                                    IPU__NAMES(ipu__take_as(o, 0, type), take_or(o, 1, type, &shape, 1),
                                               ipu__take_as(o, 2, type)),
                                    ipu__give_as(o, 0, type));
    ipu__put_int(o->w, node, "axis", -n_dims);
    ipu__put_float(o->w, node, "epsilon", ipu__op_float(&o->call, "epsilon"));
    return true;
}

/* As many groups as channels are instances. Others are composed. */
bool ipu__write_group_norm(ipu__wop *o)
{
    const ipu_shape *x       = &o->call.operand[0].shape;
    ipu_type         type    = ipu__carrier(o->w, "InstanceNormalization", o->call.operand[0].type);
    ipu_shape        channel = IPU_SHAPE(x->dim[1]);
    if (ipu__op_int(&o->call, "groups") != x->dim[1] || x->rank < 3 || ipu__gives(o, 1) || ipu__gives(o, 2))
        return false;
    Ipu__NodeProto *node = ipu__put(o->w, "InstanceNormalization",
                                    IPU__NAMES(ipu__take_as(o, 0, type), take_or(o, 1, type, &channel, 1),
                                               take_or(o, 2, type, &channel, 0)),
                                    ipu__give_as(o, 0, type));
    ipu__put_float(o->w, node, "epsilon", ipu__op_float(&o->call, "epsilon"));
    return true;
}

/* ---- losses ---- */

static bool put_loss(ipu__wop *o, const char *onnx_op)
{
    if (ipu__gives(o, 1)) return false;
    Ipu__NodeProto *node = ipu__put_same(o, onnx_op, 3, 1);
    ipu__put_text(o->w, node, "reduction", "none");
    ipu__put_int(o->w, node, "ignore_index", ipu__op_int(&o->call, "ignore_index"));
    return true;
}

bool ipu__write_nll(ipu__wop *o) { return put_loss(o, "NegativeLogLikelihoodLoss"); }

bool ipu__write_softmax_nll(ipu__wop *o)
{
    return ipu__op_float(&o->call, "label_smoothing") == 0 && put_loss(o, "SoftmaxCrossEntropyLoss");
}

/* The loss by itself, and beside it what the label weighs: 0 if it is ignored. */
static void loss_and_weight(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu_value labels = in[1];
    ipu_emit(b, call->def->name, call->attributes, call->n_attributes, in, 3, out, 1);
    ipu_value ignored = ipu_equal(b, labels,
                                  ipu_scalar_like(b, labels, (double)ipu__op_int(call, "ignore_index")));
    ipu_value zero = ipu_scalar_like(b, out[0], 0), weight = ipu_scalar_like(b, out[0], 1);
    if (ipu__has(in[2]))
        weight = ipu_gather(b, in[2], ipu_where(b, ignored, ipu_scalar_like(b, labels, 0), labels), 0);
    out[1] = ipu_where(b, ignored, zero, weight);
}

void ipu__rewrite_nll(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    loss_and_weight(b, call, in, out);
}

void ipu__rewrite_softmax_nll(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    if (ipu__op_float(call, "label_smoothing") == 0)
        loss_and_weight(b, call, in, out);
    else
        ipu__op_softmax_nll.compose(b, call, in, out);
}
