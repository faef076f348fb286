/* Emits convolutions, and conv_transpose, which is a composition. */
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/conv.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/shape.h"
#include "op/op.h"

/* ---- options as attributes ---- */

/* Lists that attributes point to; for one, two or three convolved dimensions. */
typedef struct lists {
    int64_t       stride[3], padding[6], dilation[3], output_padding[3];
    ipu_attribute with[6];
    size_t        n;
} lists;

static int64_t or_one(int64_t value) { return value == 0 ? 1 : value; }

static void make_lists(ipu_value x, const ipu_conv_options *options, lists *out)
{
    int rank = ipu_value_rank(x) - 2;
    if (rank < 0 || rank > 3) rank = 0; /* what is wrong with x is for `infer` to say */
    for (int i = 0; i < rank; i++) {
        out->stride[i]         = or_one(options->stride[i]);
        out->dilation[i]       = or_one(options->dilation[i]);
        out->padding[i]        = options->padding[i];
        out->padding[rank + i] = options->has_padding_end ? options->padding_end[i] : options->padding[i];
        out->output_padding[i] = options->output_padding[i];
    }
    out->n              = 0;
    out->with[out->n++] = IPU__INTS("stride", out->stride, rank);
    out->with[out->n++] = IPU__INTS("padding", out->padding, 2 * rank);
    out->with[out->n++] = IPU__INTS("dilation", out->dilation, rank);
    out->with[out->n++] = IPU_INT_ATTRIBUTE("groups", or_one(options->groups));
}

ipu_value ipu_conv(ipu_builder *b, ipu_value x, ipu_value w, ipu_value bias, ipu_conv_options options)
{
    lists l;
    make_lists(x, &options, &l);
    return ipu__emit1(b, "conv", l.with, l.n, IPU__IN(x, w, bias));
}

ipu_value ipu_conv_input_grad(ipu_builder *b, ipu_value d_y, ipu_value w, const int64_t *size,
                              ipu_conv_options options)
{
    lists l;
    make_lists(d_y, &options, &l);
    l.with[l.n++] = IPU__INTS("size", size, l.with[0].n_ints);
    return ipu__emit1(b, "conv_input_grad", l.with, l.n, IPU__IN(d_y, w));
}

ipu_value ipu_conv_weight_grad(ipu_builder *b, ipu_value x, ipu_value d_y, const int64_t *kernel,
                               ipu_conv_options options)
{
    lists l;
    make_lists(x, &options, &l);
    l.with[l.n++] = IPU__INTS("kernel", kernel, l.with[0].n_ints);
    return ipu__emit1(b, "conv_weight_grad", l.with, l.n, IPU__IN(x, d_y));
}

ipu_value ipu_conv_transpose(ipu_builder *b, ipu_value x, ipu_value w, ipu_value bias,
                             ipu_conv_options options)
{
    lists l;
    make_lists(x, &options, &l);
    l.with[l.n++] = IPU__INTS("output_padding", l.output_padding, l.with[0].n_ints);
    return ipu__emit1(b, "conv_transpose", l.with, l.n, IPU__IN(x, w, bias));
}

/* ---- conv_transpose ---- */

enum { X, W, BIAS };

/* The call of conv_input_grad it is. Padding that the output's extra rows would not leave room for is taken
 * from the padding's end, so that the extents of both ways agree. */
typedef struct inner {
    int64_t          size[3], padding[6];
    ipu_attribute    with[5];
    ipu__kernel_call call;
} inner;

static int64_t at_or(const ipu__kernel_call *call, const char *name, int i, int64_t otherwise)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    return (size_t)i < n ? list[i] : otherwise;
}

static ipu_status check_output_padding(const ipu__kernel_call *call, int rank)
{
    size_t         n;
    const int64_t *extra = ipu__op_ints(call, "output_padding", &n);
    if (n != 0 && n != (size_t)rank)
        return ipu__fail(IPU_INVALID, "conv_transpose: output_padding has %zu elements: expected %d", n,
                         rank);
    for (int i = 0; i < (int)n; i++) {
        int64_t stride = at_or(call, "stride", i, 1), dilation = at_or(call, "dilation", i, 1);
        int64_t most = stride > dilation ? stride : dilation;
        if (extra[i] < 0 || (extra[i] > 0 && extra[i] >= most))
            return ipu__fail(
                IPU_INVALID,
                "conv_transpose: output_padding %lld: expected less than the stride or the dilation "
                "(%lld)",
                (long long)extra[i], (long long)most);
    }
    return IPU_OK;
}

static ipu_status get_inner(const ipu__kernel_call *call, inner *in)
{
    const ipu_shape *x = &call->operand[X].shape, *w = &call->operand[W].shape;
    IPU_TRY(ipu__op_want_rank(call, X, 3, 5));
    IPU_TRY(ipu__op_want_rank(call, W, x->rank, x->rank));
    int    rank = x->rank - 2;
    size_t n_pads;
    ipu__op_ints(call, "padding", &n_pads);
    IPU_TRY(check_output_padding(call, rank));
    for (int i = 0; i < rank; i++) {
        int64_t stride = at_or(call, "stride", i, 1), extra = at_or(call, "output_padding", i, 0);
        int64_t begin = at_or(call, "padding", i, 0);
        int64_t end   = at_or(call, "padding", n_pads > (size_t)rank ? rank + i : i, 0);
        int64_t full = (x->dim[2 + i] - 1) * stride + at_or(call, "dilation", i, 1) * (w->dim[2 + i] - 1) + 1;
        in->size[i]  = full - begin - end + extra;
        in->padding[i]        = begin;
        in->padding[rank + i] = extra < stride ? end : end - extra;
        if (in->size[i] < 1 && x->dim[2 + i] > 0)
            return ipu__fail(IPU_INVALID,
                             "conv_transpose: dimension %d: padding %lld and %lld leaves nothing of %lld", i,
                             (long long)begin, (long long)end, (long long)full);
    }
    size_t n      = 0;
    in->with[n++] = IPU__INTS("size", in->size, rank);
    in->with[n++] = IPU__INTS("padding", in->padding, 2 * rank);
    for (size_t i = 0; i < call->n_attributes; i++) {
        const ipu_attribute *a = &call->attributes[i];
        if (strcmp(a->name, "padding") != 0 && strcmp(a->name, "output_padding") != 0) in->with[n++] = *a;
    }
    in->call = (ipu__kernel_call){.def          = &ipu__op_conv_input_grad.kernel,
                                  .attributes   = in->with,
                                  .n_attributes = n,
                                  .n_operands   = 2,
                                  .operand      = {call->operand[X], call->operand[W]}};
    return IPU_OK;
}

static ipu_status transpose_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    inner in;
    IPU_TRY(get_inner(call, &in));
    IPU_TRY(ipu__op_conv_input_grad.infer(&in.call, out));
    if (!ipu__kernel_has(call, BIAS)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, X, BIAS));
    return ipu__op_want_shape(call, BIAS, &IPU_SHAPE(out->shape.dim[1]));
}

static void transpose_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    inner inside;
    if (get_inner(call, &inside) != IPU_OK) return; /* infer has been through it */
    out[0] = ipu__emit1(b, "conv_input_grad", inside.call.attributes, inside.call.n_attributes,
                        IPU__IN(in[X], in[W]));
    if (!ipu__has(in[BIAS])) return;
    ipu_shape shape = IPU_SHAPE(1, ipu_value_n_elements(in[BIAS]), 1, 1, 1);
    shape.rank      = ipu_value_rank(in[X]);
    out[0]          = ipu_add(b, out[0], ipu_reshape(b, in[BIAS], shape));
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__INPUT("w"), IPU__OPTIONAL("bias"),
                                               IPU__OUTPUT("out")};

static const ipu_op_attribute attributes[] = {
    {.name = "stride", .kind = IPU_ATTRIBUTE_INTS, .meaning = "one per convolved dimension; none: 1"},
    {.name    = "padding",
     .kind    = IPU_ATTRIBUTE_INTS,
     .meaning = "taken off the output: one per convolved dimension, or all begins, then all ends"},
    {.name = "dilation", .kind = IPU_ATTRIBUTE_INTS, .meaning = "distance of taps; none: 1"},
    {.name = "groups", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "channels in so many groups"},
    {.name = "output_padding", .kind = IPU_ATTRIBUTE_INTS, .meaning = "added to the output's ends; none: 0"},
};

static const char *const samples[] = {
    "float[2,4,5], float[4,3,3], float[3]",
    "float[1,3,3,5], float[3,2,3,2], none; stride=[2,3] padding=[1,0] output_padding=[1,2]",
    "float[2,6,3,2], float[6,2,3,3], float[4]; dilation=[1,2] groups=2 output_padding=[0,1]",
    "float[1,2,3,2,3], float[2,3,2,3,2], float[3]; stride=[1,2,1]",
    NULL,
};

const ipu__op_def ipu__op_conv_transpose = {
    .kernel       = {.name       = "conv_transpose",
                     .operands   = operands,
                     .n_operands = IPU__COUNT(operands),
                     .check      = ipu__op_check},
    .n_in         = 3,
    .family       = "conv",
    .summary      = "transposed convolution of 1 to 3 dimensions",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = transpose_infer,
    .compose      = transpose_compose,
    .samples      = samples,
};
