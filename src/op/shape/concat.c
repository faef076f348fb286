/* Concat: values joined along a dimension. A view, whose gradient is slices. */
#include "ipu/op/shape.h"
#include "base/array.h"
#include "graph/graph.h"
#include "op/builder.h"
#include "op/replicas.h"
#include "op/simplify.h"

/* Operands of one op; more are joined in groups of so many. */
enum { MOST = 16, OUT = MOST };

static ipu_status concat_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    *out = call->operand[0];
    IPU_TRY(ipu__op_axis(call, "axis", out->shape.rank, &axis));
    for (int i = 1; i < MOST; i++) {
        const ipu__kernel_value *v = &call->operand[i];
        if (!ipu__kernel_has(call, i)) continue;
        IPU_TRY(ipu__op_want_same_type(call, 0, i));
        ipu_shape want = out->shape;
        want.dim[axis] = v->shape.rank == want.rank ? v->shape.dim[axis] : 0;
        if (!ipu__shape_equal(&want, &v->shape))
            return ipu__fail(IPU_INVALID,
                             "concat: \"%s\" %s and \"%s\" %s must be equal in all dimensions but %d",
                             call->def->operands[0].name, ipu__shape_str(&call->operand[0].shape),
                             call->def->operands[i].name, ipu__shape_str(&v->shape), axis);
        if (__builtin_add_overflow(out->shape.dim[axis], v->shape.dim[axis], &out->shape.dim[axis]))
            return ipu__fail(IPU_INVALID, "concat: dimension %d passes 2^63", axis);
    }
    return IPU_OK;
}

static ipu_tensor concat_view(ipu_graph *g, const ipu__kernel_call *call, const ipu_tensor *in)
{
    (void)g;
    ipu_tensor parts[MOST];
    size_t     n    = 0;
    int        axis = 0;
    ipu__op_axis(call, "axis", call->operand[0].shape.rank, &axis);
    for (int i = 0; i < MOST; i++)
        if (in[i].id && (i == 0 || ipu__kernel_has(call, i))) parts[n++] = in[i];
    return ipu_tensor_concat(parts, n, axis);
}

static void concat_grad(ipu__gradient *g)
{
    int64_t begin = 0;
    int     axis  = 0;
    ipu__op_axis(g->call, "axis", g->call->operand[0].shape.rank, &axis);
    for (int i = 0; i < MOST; i++) {
        if (!ipu__has(g->in[i])) continue;
        bool    is_joined = i == 0 || ipu__kernel_has(g->call, i);
        int64_t end       = begin + (is_joined ? g->call->operand[i].shape.dim[axis] : 0);
        if (g->wanted[i] && is_joined) g->d_in[i] = ipu_slice(g->b, g->d_out[0], begin, end, axis);
        begin = end;
    }
}

/* In groups of as many as one op takes, and the groups likewise. */
static ipu_value concat_join(ipu_builder *b, const ipu_attribute *attributes, size_t n_attributes,
                             const ipu_value *values, size_t n)
{
    if (n <= MOST) return ipu__emit1(b, "concat", attributes, n_attributes, values, n);
    size_t     n_groups = (n + MOST - 1) / MOST;
    ipu_value *groups   = ipu__alloc(n_groups * sizeof *groups);
    if (!groups) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "concat: memory for %zu values", n_groups);
        return (ipu_value){b, 0};
    }
    for (size_t i = 0; i < n_groups; i++) {
        size_t left = n - i * MOST;
        groups[i]   = ipu__emit1(b, "concat", attributes, n_attributes, values + i * MOST,
                               left < MOST ? left : MOST);
    }
    ipu_value out = concat_join(b, attributes, n_attributes, groups, n_groups);
    ipu__free(groups);
    return out;
}

static ipu_status concat_simplify(ipu__simplify *s)
{
    int n = 0;
    for (int i = 0; i < MOST; i++) n += ipu__kernel_has(&s->call, i);
    return n == 1 ? ipu__simplify_if_alike(s) : IPU_OK;
}

static const ipu__kernel_operand operands[] = {
    IPU__INPUT("x0"),     IPU__OPTIONAL("x1"),  IPU__OPTIONAL("x2"),  IPU__OPTIONAL("x3"),
    IPU__OPTIONAL("x4"),  IPU__OPTIONAL("x5"),  IPU__OPTIONAL("x6"),  IPU__OPTIONAL("x7"),
    IPU__OPTIONAL("x8"),  IPU__OPTIONAL("x9"),  IPU__OPTIONAL("x10"), IPU__OPTIONAL("x11"),
    IPU__OPTIONAL("x12"), IPU__OPTIONAL("x13"), IPU__OPTIONAL("x14"), IPU__OPTIONAL("x15"),
    IPU__OUTPUT("out")};

static const ipu_op_attribute concat_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "the dimension that grows"},
};

static const char *const concat_samples[] = {"float[3,4], float[2,4]; axis=0", "float[3,4]; axis=1",
                                             "float[2,1,3], float[2,5,3], float[2,0,3]; axis=-2",
                                             "int32[4], int32[3]; axis=0", NULL};

const ipu__op_def ipu__op_concat = {
    .kernel       = {.name = "concat", .operands = operands, .n_operands = MOST + 1, .check = ipu__op_check},
    .n_in         = MOST,
    .family       = "shape",
    .summary      = "values joined along a dimension",
    .attributes   = concat_attributes,
    .n_attributes = 1,
    .infer        = concat_infer,
    .join         = concat_join,
    .view         = concat_view,
    .grad         = concat_grad,
    .simplify     = concat_simplify,
    .fold         = ipu__fold_along_axis,
    .samples      = concat_samples,
};

/* ---- functions ---- */

ipu_value ipu_concat(ipu_builder *b, const ipu_value *values, size_t n, int axis)
{
    return ipu__emit1(b, "concat", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)), values, n);
}

ipu_value ipu_stack(ipu_builder *b, const ipu_value *values, size_t n, int axis)
{
    ipu_value *all = ipu__alloc(n * sizeof *all);
    if (!all) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "ipu_stack: memory for %zu values", n);
        return (ipu_value){b, 0};
    }
    for (size_t i = 0; i < n; i++) all[i] = ipu_unsqueeze(b, values[i], axis);
    ipu_value out = ipu_concat(b, all, n, axis);
    ipu__free(all);
    return out;
}
