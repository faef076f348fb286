/* conv, the two convolutions of its gradient, and conv_transpose: records, shapes, gradients.
 *
 * The three kernels are each other's gradients, so derivatives of any order consist of them.
 */
#include "ipu/op/conv.h"

#include "graph/graph.h"
#include "ipu/op/reduce.h"
#include "op/builder.h"
#include "op/conv/conv.h"
#include "op/conv/cpu/blocked.h"
#include "op/conv/cpu/columns.h"
#include "op/conv/cpu/depthwise.h"
#include "op/conv/cpu/dots.h"
#include "op/conv/cpu/gemm.h"
#include "op/conv/cpu/lanes.h"
#include "op/conv/cpu/onednn.h"
#include "op/conv/cpu/wide.h"
#include "op/conv/cpu/winograd.h"
#include "op/matmul/matmul.h"
#include "op/elementwise/wide.h"

/* ---- reading a call ---- */

static ipu__conv_kind kind_of(const ipu__kernel_call *call)
{
    if (call->def == &ipu__op_conv_input_grad.kernel) return IPU__CONV_INPUT_GRAD;
    return call->def == &ipu__op_conv_weight_grad.kernel ? IPU__CONV_WEIGHT_GRAD : IPU__CONV_FORWARD;
}

/* Which of x, y and w the first two operands are; the third one is to be inferred. */
static const struct {
    char        first, second;
    const char *extent; /* the attribute that says the extents of the third */
} roles[] = {[IPU__CONV_FORWARD]     = {'x', 'w', NULL},
             [IPU__CONV_INPUT_GRAD]  = {'y', 'w', "size"},
             [IPU__CONV_WEIGHT_GRAD] = {'x', 'y', "kernel"}};

/* Element `i` of an attribute's list, for convolved dimension `d` of `rank`; `otherwise` if it is left out. */
static int64_t list_at(const ipu__kernel_call *call, const char *name, int i, int64_t otherwise)
{
    size_t         n;
    const int64_t *list = ipu__op_ints(call, name, &n);
    return n == 0 ? otherwise : list[i];
}

static void take_shape(ipu__conv *c, char role, const ipu_shape *s)
{
    int64_t *to = role == 'x' ? c->x : role == 'y' ? c->y : c->k;
    for (int i = 0; i < c->rank; i++) to[3 - c->rank + i] = s->dim[2 + i];
    if (role == 'w') {
        c->out = s->dim[0] / c->groups;
        c->in  = s->dim[1];
        return;
    }
    c->n                              = s->dim[0];
    *(role == 'x' ? &c->in : &c->out) = s->dim[1] / c->groups;
}

/* All but y of a forward convolution, whose extents follow. */
static ipu__conv read_call(const ipu__kernel_call *call)
{
    ipu__conv_kind kind   = kind_of(call);
    const char    *extent = roles[kind].extent;
    size_t         n_pads;
    ipu__op_ints(call, "padding", &n_pads);
    ipu__conv c = {.kind     = kind,
                   .rank     = call->operand[0].shape.rank - 2,
                   .groups   = ipu__op_int(call, "groups"),
                   .x        = {1, 1, 1},
                   .y        = {1, 1, 1},
                   .k        = {1, 1, 1},
                   .stride   = {1, 1, 1},
                   .dilation = {1, 1, 1}};
    for (int i = 0; i < c.rank; i++) {
        int d         = 3 - c.rank + i;
        c.stride[d]   = list_at(call, "stride", i, 1);
        c.dilation[d] = list_at(call, "dilation", i, 1);
        c.pad[d]      = list_at(call, "padding", i, 0);
        c.pad_end[d]  = list_at(call, "padding", n_pads > (size_t)c.rank ? i + c.rank : i, 0);
        if (kind == IPU__CONV_INPUT_GRAD) c.x[d] = list_at(call, extent, i, 1);
        if (kind == IPU__CONV_WEIGHT_GRAD) c.k[d] = list_at(call, extent, i, 1);
    }
    take_shape(&c, roles[kind].first, &call->operand[0].shape);
    take_shape(&c, roles[kind].second, &call->operand[1].shape);
    return c;
}

/* Outputs along dimension `d`; not positive: the kernel does not fit. */
static int64_t extent_of_y(const ipu__conv *c, int d)
{
    int64_t room = c->x[d] + c->pad[d] + c->pad_end[d] - c->dilation[d] * (c->k[d] - 1) - 1;
    return room < 0 ? 0 : room / c->stride[d] + 1;
}

ipu__conv ipu__conv_get(const ipu__kernel_call *call)
{
    ipu__conv c = read_call(call);
    for (int d = 0; d < 3 && c.kind == IPU__CONV_FORWARD; d++) c.y[d] = extent_of_y(&c, d);
    return c;
}

double ipu__conv_work(const ipu__kernel_call *call)
{
    ipu__conv c = ipu__conv_get(call);
    return 2.0 * (double)(c.n * c.groups * c.in) * (double)c.out * (double)ipu__conv_volume(c.y)
         * (double)ipu__conv_volume(c.k);
}

/* The reference of the input's gradient goes through the larger side. */
static double conv_ref_work(const ipu__kernel_call *call)
{
    ipu__conv c = ipu__conv_get(call);
    double    x = (double)ipu__conv_volume(c.x), y = (double)ipu__conv_volume(c.y);
    return 8 * (double)(c.n * c.groups * c.in) * (double)c.out * (x > y ? x : y)
         * (double)ipu__conv_volume(c.k);
}

/* ---- infer ---- */

enum { MOST = 1 << 30 }; /* of a stride, padding, ...: products of two cannot overflow */

static ipu_status check_list(const ipu__kernel_call *call, const char *name, int rank, int64_t least)
{
    size_t         n;
    const int64_t *list  = ipu__op_ints(call, name, &n);
    bool           twice = least < 0; /* padding: begin and end */
    if (n != 0 && n != (size_t)rank && !(twice && n == 2 * (size_t)rank))
        return ipu__fail(IPU_INVALID, "%s: %s has %zu elements: expected %d%s for \"%s\" %s", call->def->name,
                         name, n, rank, twice ? " or twice as many" : "", call->def->operands[0].name,
                         ipu__shape_str(&call->operand[0].shape));
    for (size_t i = 0; i < n; i++)
        if (list[i] < least || list[i] > MOST)
            return ipu__fail(IPU_INVALID, "%s: %s has an element %lld: expected %lld to %d", call->def->name,
                             name, (long long)list[i], (long long)least, MOST);
    return IPU_OK;
}

static ipu_status check_attributes(const ipu__kernel_call *call, int rank)
{
    const char *extent = roles[kind_of(call)].extent;
    int64_t     groups = ipu__op_int(call, "groups");
    IPU_TRY(check_list(call, "stride", rank, 1));
    IPU_TRY(check_list(call, "dilation", rank, 1));
    IPU_TRY(check_list(call, "padding", rank, -MOST));
    if (extent) IPU_TRY(check_list(call, extent, rank, 0));
    size_t n = (size_t)rank;
    if (extent) ipu__op_ints(call, extent, &n);
    if (n != (size_t)rank)
        return ipu__fail(IPU_INVALID, "%s: %s is empty: expected %d elements", call->def->name, extent, rank);
    if (groups >= 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: groups = %lld: expected at least 1", call->def->name,
                     (long long)groups);
}

/* Channels of operand `i` that `role` holds are whole groups. */
static ipu_status check_channels(const ipu__kernel_call *call, int i, char role)
{
    int64_t groups = ipu__op_int(call, "groups"), n = call->operand[i].shape.dim[role == 'w' ? 0 : 1];
    if (n % groups == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" %s has %lld channels: expected a multiple of groups = %lld",
                     call->def->name, call->def->operands[i].name, ipu__shape_str(&call->operand[i].shape),
                     (long long)n, (long long)groups);
}

static ipu_status fail_channels(const ipu__kernel_call *call, int64_t first, int64_t second)
{
    return ipu__fail(IPU_INVALID, "%s: \"%s\" %s has %lld channels in a group, \"%s\" %s has %lld",
                     call->def->name, call->def->operands[0].name, ipu__shape_str(&call->operand[0].shape),
                     (long long)first, call->def->operands[1].name, ipu__shape_str(&call->operand[1].shape),
                     (long long)second);
}

/* Channels that both operands have agree; so does the batch, which weight gradients see twice. */
static ipu_status check_pair(const ipu__kernel_call *call)
{
    const ipu_shape *a = &call->operand[0].shape, *b = &call->operand[1].shape;
    int64_t          groups = ipu__op_int(call, "groups");
    switch (kind_of(call)) {
    case IPU__CONV_FORWARD:
        return a->dim[1] / groups == b->dim[1] ? IPU_OK : fail_channels(call, a->dim[1] / groups, b->dim[1]);
    case IPU__CONV_INPUT_GRAD:
        return a->dim[1] == b->dim[0] ? IPU_OK : fail_channels(call, a->dim[1] / groups, b->dim[0] / groups);
    case IPU__CONV_WEIGHT_GRAD:
        if (a->dim[0] == b->dim[0]) return IPU_OK;
        return ipu__fail(IPU_INVALID, "%s: batches differ: \"x\" %s, \"d_y\" %s", call->def->name,
                         ipu__shape_str(a), ipu__shape_str(b));
    }
    return IPU_OK;
}

static ipu_status check_extents(const ipu__kernel_call *call, const ipu__conv *c)
{
    for (int d = 3 - c->rank; d < 3; d++) {
        int64_t y = extent_of_y(c, d);
        if (c->kind == IPU__CONV_FORWARD && (c->k[d] < 1 || y < 1))
            return ipu__fail(IPU_INVALID,
                             "conv: dimension %d: a kernel of %lld with dilation %lld does not fit into %lld "
                             "elements with padding %lld and %lld",
                             d - 3 + c->rank, (long long)c->k[d], (long long)c->dilation[d],
                             (long long)c->x[d], (long long)c->pad[d], (long long)c->pad_end[d]);
        if (c->kind != IPU__CONV_FORWARD && y != c->y[d])
            return ipu__fail(
                IPU_INVALID,
                "%s: dimension %d: a kernel of %lld over %lld elements has %lld outputs, but d_y %s "
                "has %lld",
                call->def->name, d - 3 + c->rank, (long long)c->k[d], (long long)c->x[d], (long long)y,
                ipu__shape_str(&call->operand[c->kind == IPU__CONV_INPUT_GRAD ? 0 : 1].shape),
                (long long)c->y[d]);
    }
    return IPU_OK;
}

static void give_shape(const ipu__conv *c, ipu_shape *out)
{
    const int64_t *from = c->kind == IPU__CONV_FORWARD ? c->y : c->kind == IPU__CONV_INPUT_GRAD ? c->x : c->k;
    out->rank           = c->rank + 2;
    out->dim[0]         = c->kind == IPU__CONV_WEIGHT_GRAD ? c->groups * c->out : c->n;
    out->dim[1]         = c->kind == IPU__CONV_FORWARD    ? c->groups * c->out
                        : c->kind == IPU__CONV_INPUT_GRAD ? c->groups * c->in
                                                          : c->in;
    for (int i = 0; i < c->rank; i++) out->dim[2 + i] = from[3 - c->rank + i];
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    IPU_TRY(ipu__op_want_same_type(call, 0, 1));
    IPU_TRY(ipu__partials_check(call));
    IPU_TRY(ipu__op_want_rank(call, 0, 3, 5));
    int rank = call->operand[0].shape.rank - 2;
    IPU_TRY(ipu__op_want_rank(call, 1, rank + 2, rank + 2));
    IPU_TRY(check_attributes(call, rank));
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < rank; d++)
            if (call->operand[i].shape.dim[2 + d] > MOST)
                return ipu__fail(IPU_INVALID, "%s: \"%s\" %s is too large to be convolved", call->def->name,
                                 call->def->operands[i].name, ipu__shape_str(&call->operand[i].shape));
    ipu__conv_kind kind = kind_of(call);
    IPU_TRY(check_channels(call, 0, roles[kind].first));
    IPU_TRY(check_channels(call, 1, roles[kind].second));
    IPU_TRY(check_pair(call));
    ipu__conv c = ipu__conv_get(call);
    IPU_TRY(check_extents(call, &c));
    out->type = call->operand[0].type;
    give_shape(&c, &out->shape);
    return IPU_OK;
}

static ipu_status conv_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(infer(call, out));
    if (ipu__kernel_has(call, IPU__CONV_BIAS)) {
        IPU_TRY(ipu__op_want_same_type(call, IPU__CONV_X, IPU__CONV_BIAS));
        IPU_TRY(ipu__op_want_shape(call, IPU__CONV_BIAS, &IPU_SHAPE(out->shape.dim[1])));
    }
    return ipu__epilogue_infer(call, out);
}

/* ---- gradients ---- */

/* The same attributes, and the extents of what is asked for. */
static ipu_value emit_like(ipu__gradient *g, const char *op, ipu_value first, ipu_value second)
{
    ipu__conv     c       = ipu__conv_get(g->call);
    int           skip    = 3 - c.rank;
    int64_t       pads[6] = {0};
    ipu_attribute with[5];
    int           n = 0;
    for (int i = 0; i < c.rank; i++) {
        pads[i]          = c.pad[skip + i];
        pads[c.rank + i] = c.pad_end[skip + i];
    }
    with[n++] = IPU__INTS("stride", c.stride + skip, c.rank);
    with[n++] = IPU__INTS("padding", pads, 2 * c.rank);
    with[n++] = IPU__INTS("dilation", c.dilation + skip, c.rank);
    with[n++] = IPU_INT_ATTRIBUTE("groups", c.groups);
    if (op == ipu__op_conv_input_grad.kernel.name) with[n++] = IPU__INTS("size", c.x + skip, c.rank);
    if (op == ipu__op_conv_weight_grad.kernel.name) with[n++] = IPU__INTS("kernel", c.k + skip, c.rank);
    return ipu__emit1(g->b, op, with, (size_t)n, IPU__IN(first, second));
}

static void conv_grad(ipu__gradient *g)
{
    ipu_value dy = g->d_out[0];
    if (ipu__epilogue_has(g->call)) {
        ipu__builder_fail(g->b, IPU_UNSUPPORTED,
                          "conv: it has an epilogue: take gradients before ops are fused");
        return;
    }
    if (g->wanted[IPU__CONV_X])
        g->d_in[IPU__CONV_X] = emit_like(g, ipu__op_conv_input_grad.kernel.name, dy, g->in[IPU__CONV_W]);
    if (g->wanted[IPU__CONV_W])
        g->d_in[IPU__CONV_W] = emit_like(g, ipu__op_conv_weight_grad.kernel.name, g->in[IPU__CONV_X], dy);
    if (!g->wanted[IPU__CONV_BIAS]) return;
    const int axes[]        = {0, 2, 3, 4};
    g->d_in[IPU__CONV_BIAS] = ipu_reduce_sum(g->b, dy, axes, ipu_value_rank(dy) - 1, false);
}

static void input_grad_grad(ipu__gradient *g)
{
    ipu_value dy = g->in[0], w = g->in[1], d = g->d_out[0];
    if (g->wanted[0]) g->d_in[0] = emit_like(g, ipu__op_conv.kernel.name, d, w);
    if (g->wanted[1]) g->d_in[1] = emit_like(g, ipu__op_conv_weight_grad.kernel.name, d, dy);
}

static void weight_grad_grad(ipu__gradient *g)
{
    ipu_value x = g->in[0], dy = g->in[1], d = g->d_out[0];
    if (g->wanted[0]) g->d_in[0] = emit_like(g, ipu__op_conv_input_grad.kernel.name, dy, d);
    if (g->wanted[1]) g->d_in[1] = emit_like(g, ipu__op_conv.kernel.name, x, d);
}

/* ---- the records of the three ---- */

static const ipu_op_attribute conv_attributes[]        = {IPU__CONV_ATTRIBUTES, IPU__PARTIALS_ATTRIBUTE,
                                                          IPU__EPILOGUE_ATTRIBUTE};
static const ipu_op_attribute input_grad_attributes[]  = {IPU__CONV_ATTRIBUTES,
                                                          IPU__PARTIALS_ATTRIBUTE,
                                                          {.name     = "size",
                                                           .kind     = IPU_ATTRIBUTE_INTS,
                                                           .required = true,
                                                           .meaning  = "convolved extents of the input"}};
static const ipu_op_attribute weight_grad_attributes[] = {
    IPU__CONV_ATTRIBUTES,
    IPU__PARTIALS_ATTRIBUTE,
    {.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "extents of the kernel"}};

static const ipu__kernel_operand conv_operands[] = {IPU__INPUT("x"), IPU__INPUT("w"), IPU__OPTIONAL("bias"),
                                                    IPU__EPILOGUE_INPUTS, IPU__OUTPUT("out")};
static const ipu__kernel_operand input_grad_operands[]  = {IPU__INPUT("d_y"), IPU__INPUT("w"),
                                                           IPU__OUTPUT("out")};
static const ipu__kernel_operand weight_grad_operands[] = {IPU__INPUT("x"), IPU__INPUT("d_y"),
                                                           IPU__OUTPUT("out")};

static const char *const conv_samples[] = {
    "float[32,5,13,13], float[12,5,5,5], float[12]; epilogue=\"relu a0; out t0\"",
    "float[16,6,9,12], float[8,6,5,5], none",
    "float[16,2,7,12], float[4,2,3,3], float[4]",
    "float[32,1,9,24], float[5,1,3,5], none",
    "float[48,3,6,7], float[7,3,5,3], float[7]; epilogue=\"relu a0; out t0\"",
    "float[16,3,6,7]{0,1}, float[7,3,5,3]{0,1}, none, float[16,7,2,5]{0.1,1}, float{0.1,1}; epilogue=\"add a0 a1; mul t0 a2; out t1\"",
    "float[2,3,7], float[4,3,3], float[4]",
    "float[1,2,5,6], float[3,2,3,2], none",
    "float[2,4,6,5], float[6,2,3,3], float[6]; stride=[2,1] padding=[1,0] dilation=[1,2] groups=2",
    "float[2,3,6,6], float[3,1,3,3], none; padding=[1,1] groups=3",
    "float[2,4,5,5], float[8,1,3,3], float[8]; padding=[2,1,0,1] groups=4",
    "float[1,2,4,5,6], float[3,2,2,3,2], float[3]; stride=[1,2,1] padding=[1,0,1]",
    "float[0,2,5,5], float[3,2,3,3], none",
    "float[2,0,5,5], float[3,0,3,3], float[3]",
    "float[3,16,12,12], float[16,16,3,3], float[16]; padding=[1,1]",
    "float[4,16,33,32], float[32,16,3,3], float[32]; stride=[2,2] padding=[1,1]",
    "float[3,32,8,8], float[48,32,1,1], none",
    "float[3,24,9,8], float[130,24,1,1], float[130]; stride=[2,2]",
    "float[1,24,25,25], float[130,24,1,1], float[130]; stride=[2,2] padding=[1,1]",
    "float[3,3,20,20], float[20,3,5,5], float[20]; stride=[2,2] padding=[2,2]",
    "float[3,1,20,20], float[5,1,3,3], float[5]",
    "float[2,3,17,19], float[48,3,5,3], float[48]; stride=[1,2] padding=[2,1,0,2] epilogue=\"relu a0; out t0\"",
    "float[1,2,30,33], float[32,2,3,3], none; dilation=[2,1]",
    "float[3,32,13,9], float[48,32,3,3], float[48]; stride=[2,2] padding=[1,1]",
    "float[1,16,40,40]{0,1}, float[80,16,1,1]{0,1}, none, float[1,80,40,40]{0.1,1}; epilogue=\"add a0 a1; relu t0; out t1\"",
    "float[2,32,6,5]{0,1}, float[32,32,3,3]{0,1}, none, float[2,32,6,5]{0.1,1}; padding=[1,1] epilogue=\"add a1 a0; out t0\"",
    "float[2,16,7,9]{0,0.1}, float[16,16,1,3]{0,1}, float[16], float[2,16,7,7]{0.1,1}; epilogue=\"mul a0 a1; tanh t0; out t1\"",
    "float[2,16,9,9]{0,1}, float[32,16,1,1]{0,1}, float[32]{0,1}, float[32,1,1]{-1,0}, float[1,32,1,1]{1,2}, float[1], float[2,32,9,9]{0.1,1}; epilogue=\"sub a0 a1; mul a2 t0; add t1 a3; add t2 a4; relu t3; out t4\"",
    "float[1,16,5,6], float[16,16,3,3], none, float[16,1,1], float[16,1,1], float[16,1,1]; epilogue=\"sub a0 a1; mul t0 a2; add t1 a3; relu t2; out t3\"",
    "float[2,32,20], float[16,32,4], float[16]; stride=[2] padding=[1,2]",
    "float[3,32,9,9], float[32,1,3,3], none; padding=[1,1] groups=32",
    /* positive, so that rounding before the epilogue is not blown up by cancellation */
    "float[2,4,20,20]{0,1}, float[4,1,3,3]{0,1}, none, float[2,4,18,18]{0.1,1}; groups=4 epilogue=\"add a0 a1; relu t0; out t1\"",
    "float[1,8,12,12]{0,1}, float[128,8,3,3]{0,1}, none, float[1,128,10,10]{0.1,1}; epilogue=\"add a0 a1; relu t0; out t1\"",
    "float[40,3,6,6]{0,1}, float[8,3,3,3]{0,1}, float[8]{0.1,1}, float[40,8,4,4]{0.1,1}; epilogue=\"add a0 a1; relu t0; out t1\"",
    "float[1,3,30,30]{0,0.1}, float[8,3,3,3]{0,1}, none, float[8,1,1]{0.1,1}; epilogue=\"mul a0 a1; tanh t0; out t1\"",
    NULL,
};

static const char *const input_grad_samples[] = {
    "float[32,12,9,9], float[12,5,5,5]; size=[13,13]",
    "float[16,8,5,8], float[8,6,5,5]; size=[9,12]",
    "float[16,4,5,10], float[4,2,3,3]; size=[7,12]",
    "float[32,5,7,20], float[5,3,3,5]; size=[9,24]",
    "float[48,7,2,5], float[7,1,5,3]; size=[6,7]",
    "float[2,4,5], float[4,3,3]; size=[7]",
    "float[1,3,3,5], float[3,2,3,2]; size=[5,6]",
    "float[2,6,3,1], float[6,2,3,3]; stride=[2,1] padding=[1,0] dilation=[1,2] groups=2 size=[6,5]",
    "float[2,3,6,6], float[3,1,3,3]; padding=[1,1] groups=3 size=[6,6]",
    "float[1,3,5,2,7], float[3,2,2,3,2]; stride=[1,2,1] padding=[1,0,1] size=[4,5,6]",
    "float[2,3,4,4], float[3,2,3,3]; padding=[1,1,0,-1] size=[5,6]",
    "float[3,16,12,12], float[16,16,3,3]; padding=[1,1] size=[12,12]",
    "float[3,32,11,11], float[32,16,3,3]; size=[13,13]",
    "float[3,20,10,10], float[20,3,5,5]; stride=[2,2] padding=[2,2] size=[20,20]",
    "float[3,48,8,8], float[48,32,1,1]; size=[8,8]",
    "float[2,32,7,5], float[32,48,3,3]; stride=[2,2] padding=[1,1] size=[13,10]",
    "float[1,16,6,9], float[16,16,2,5]; stride=[2,1] padding=[0,2] dilation=[1,2] size=[12,13]",
    "float[2,16,4,4], float[16,32,1,1]; stride=[2,2] size=[8,7]",
    "float[2,32,5,1], float[32,16,1,3]; stride=[2,2] padding=[1,1] size=[8,1]",
    "float[1,48,12,11], float[48,32,1,1]; stride=[2,3] padding=[0,1] size=[24,30]",
    "float[3,32,9,9], float[32,1,3,3]; padding=[1,1] groups=32 size=[9,9]",
    NULL,
};

static const char *const weight_grad_samples[] = {
    "float[48,5,13,13], float[48,12,9,9]; kernel=[5,5]",
    "float[16,6,9,12], float[16,8,5,8]; kernel=[5,5]",
    "float[16,2,7,12], float[16,4,5,10]; kernel=[3,3]",
    "float[32,1,9,24], float[32,12,7,20]; kernel=[3,5]",
    "float[48,3,6,7], float[48,7,2,5]; kernel=[5,3]",
    "float[16,1,9,24], float[16,5,7,22]; kernel=[3,3]",
    "float[2,3,7], float[2,4,5]; kernel=[3]",
    "float[1,2,5,6], float[1,3,3,5]; kernel=[3,2]",
    "float[2,4,6,5], float[2,6,3,1]; stride=[2,1] padding=[1,0] dilation=[1,2] groups=2 kernel=[3,3]",
    "float[2,3,6,6], float[2,3,6,6]; padding=[1,1] groups=3 kernel=[3,3]",
    "float[1,2,4,5,6], float[1,3,5,2,7]; stride=[1,2,1] padding=[1,0,1] kernel=[2,3,2]",
    "float[0,2,5,5], float[0,3,3,3]; kernel=[3,3]",
    "float[3,16,12,12], float[3,16,12,12]; padding=[1,1] kernel=[3,3]",
    "float[3,3,20,20], float[3,20,10,10]; stride=[2,2] padding=[2,2] kernel=[5,5]",
    "float[3,32,8,8], float[3,48,8,8]; kernel=[1,1]",
    "float[1,32,24,30], float[1,48,12,11]; stride=[2,3] padding=[0,1] kernel=[1,1]",
    "float[3,1,20,20], float[3,5,18,18]; kernel=[3,3]",
    "float[2,3,17,19], float[2,48,15,10]; stride=[1,2] padding=[2,1,0,2] kernel=[5,3]",
    "float[3,1,12,9], float[3,32,10,7]; kernel=[3,3]",
    "float[2,32,13,9], float[2,48,7,5]; stride=[2,2] padding=[1,1] kernel=[3,3]",
    "float[1,16,12,13], float[1,16,6,9]; stride=[2,1] padding=[0,2] dilation=[1,2] kernel=[2,5]",
    "float[2,272,4,5], float[2,32,4,5]; kernel=[1,1]",
    "float[3,32,9,9], float[3,32,9,9]; padding=[1,1] groups=32 kernel=[3,3]",
    NULL,
};

#define GEMM(op)                                                                                      \
    {                                                                                                 \
        .head = {"gemm", ipu__conv_gemm_fits}, .scratch_bytes = ipu__conv_gemm_scratch_bytes,         \
        .prepare = ipu__conv_gemm_prepare, .release = ipu__conv_release, .run = ipu__conv_##op##_run, \
    }

#define DEPTHWISE(op)                                                                                        \
    {                                                                                                        \
        .head = {"depthwise", ipu__conv_depthwise_fits}, .scratch_bytes = ipu__conv_depthwise_scratch_bytes, \
        .prepare = ipu__conv_depthwise_prepare, .release = ipu__conv_release,                                \
        .run = ipu__conv_depthwise_##op##_run,                                                               \
    }

#define ONEDNN                                                                                      \
    {                                                                                               \
        .head = {"onednn", ipu__conv_onednn_fits}, .scratch_bytes = ipu__conv_onednn_scratch_bytes, \
        .prepare = ipu__conv_onednn_prepare, .release = ipu__conv_onednn_release,                   \
        .run = ipu__conv_onednn_run,                                                                \
    }

/* The same but for the loops that it goes by. */
#define LANES(way, find)                                                                                    \
    {                                                                                                       \
        .head = {(way), (find)}, .scratch_bytes = ipu__conv_lanes_scratch_bytes,                            \
        .prepare = ipu__conv_lanes_prepare, .release = ipu__conv_lanes_release, .run = ipu__conv_lanes_run, \
        .layouts = ipu__conv_lanes_layouts, .writes = ipu__conv_lanes_writes,                               \
    }
#define BOTH_LANES LANES("toom", ipu__conv_lanes_toom_fits), LANES("lanes", ipu__conv_lanes_fits)

#define BLOCKED                                                                                 \
    {                                                                                           \
        .head = {"blocked", ipu__conv_blocked_fits}, .layouts = ipu__conv_blocked_layouts,      \
        .scratch_bytes = ipu__conv_blocked_scratch_bytes, .prepare = ipu__conv_blocked_prepare, \
        .release = ipu__conv_blocked_release, .run = ipu__conv_blocked_run,                     \
    }

#define WINOGRAD                                                                                  \
    {                                                                                             \
        .head = {"winograd", ipu__conv_winograd_fits}, .layouts = ipu__conv_winograd_layouts,     \
        .scratch_bytes = ipu__conv_winograd_scratch_bytes, .prepare = ipu__conv_winograd_prepare, \
        .release = ipu__conv_winograd_release, .run = ipu__conv_winograd_run,                     \
    }

#define WIDE                                                                              \
    {                                                                                     \
        .head = {"wide", ipu__conv_wide_fits}, .layouts = ipu__conv_wide_layouts,         \
        .scratch_bytes = ipu__conv_wide_scratch_bytes, .prepare = ipu__conv_wide_prepare, \
        .release = ipu__conv_wide_release, .run = ipu__conv_wide_run,                     \
    }

static const ipu__cpu_impl forward_implementations[] = {
    IPU__WIDE, WIDE, WINOGRAD, BOTH_LANES, DEPTHWISE(forward), BLOCKED, GEMM(forward), ONEDNN};
static const ipu__cpu_impl input_grad_implementations[] = {
    IPU__WIDE, WIDE, WINOGRAD, BOTH_LANES, DEPTHWISE(input_grad), BLOCKED, GEMM(input_grad), ONEDNN};
static const ipu__cpu_impl weight_grad_implementations[] = {
    IPU__WIDE,
    WIDE,
    WINOGRAD,
    BOTH_LANES,
    DEPTHWISE(weight_grad),
    {
        .head          = {"blocked", ipu__conv_blocked_weights_fits},
        .layouts       = ipu__conv_blocked_weights_layouts,
        .scratch_bytes = ipu__conv_blocked_weights_scratch_bytes,
        .prepare       = ipu__conv_blocked_weights_prepare,
        .release       = ipu__conv_blocked_weights_release,
        .run           = ipu__conv_blocked_weights_run,
    },
#if defined(__x86_64__)
    {
        .head          = {"dots", ipu__conv_dots_fits},
        .scratch_bytes = ipu__conv_dots_scratch_bytes,
        .prepare       = ipu__conv_dots_prepare,
        .release       = ipu__conv_release,
        .run           = ipu__conv_dots_run,
    },
#endif
    GEMM(weight_grad),
    ONEDNN,
};

const ipu__op_def ipu__op_conv = {
    .kernel       = {.name            = "conv",
                     .operands        = conv_operands,
                     .n_operands      = IPU__COUNT(conv_operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = ipu__conv_ref,
                     .work            = ipu__conv_work,
                     .ref_work        = conv_ref_work,
                     .plan            = ipu__conv_plan,
                     .implementations = IPU__ON_CPU(forward_implementations)},
    .n_in         = IPU__CONV_OUT,
    .family       = "conv",
    .summary      = "convolution of 1 to 3 dimensions, grouped, strided, dilated",
    .flags        = IPU__OP_EPILOGUE | IPU__OP_GAINS_IN_HALF,
    .attributes   = conv_attributes,
    .n_attributes = IPU__COUNT(conv_attributes),
    .infer        = conv_infer,
    .grad         = conv_grad,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__SHARED, IPU__SHARED}, {IPU__AXIS_0}),
    .samples      = conv_samples,
};

const ipu__op_def ipu__op_conv_input_grad = {
    .kernel       = {.name            = "conv_input_grad",
                     .operands        = input_grad_operands,
                     .n_operands      = IPU__COUNT(input_grad_operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = ipu__conv_ref,
                     .work            = ipu__conv_work,
                     .ref_work        = conv_ref_work,
                     .plan            = ipu__conv_plan,
                     .implementations = IPU__ON_CPU(input_grad_implementations)},
    .n_in         = 2,
    .family       = "conv",
    .summary      = "gradient of conv with respect to x; conv_transpose without a bias",
    .flags        = IPU__OP_GAINS_IN_HALF,
    .attributes   = input_grad_attributes,
    .n_attributes = IPU__COUNT(input_grad_attributes),
    .infer        = infer,
    .grad         = input_grad_grad,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__SHARED}, {IPU__AXIS_0}),
    .samples      = input_grad_samples,
};

const ipu__op_def ipu__op_conv_weight_grad = {
    .kernel       = {.name            = "conv_weight_grad",
                     .operands        = weight_grad_operands,
                     .n_operands      = IPU__COUNT(weight_grad_operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = ipu__conv_ref,
                     .work            = ipu__conv_work,
                     .ref_work        = conv_ref_work,
                     .plan            = ipu__conv_plan,
                     .implementations = IPU__ON_CPU(weight_grad_implementations)},
    .n_in         = 2,
    .family       = "conv",
    .summary      = "gradient of conv with respect to w",
    .flags        = IPU__OP_GAINS_IN_HALF,
    .attributes   = weight_grad_attributes,
    .n_attributes = IPU__COUNT(weight_grad_attributes),
    .infer        = infer,
    .grad         = weight_grad_grad,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0}, {IPU__SUMMED}),
    .samples      = weight_grad_samples,
};
