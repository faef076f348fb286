/* Normalisation: records, inference, gradients and compositions.
 *
 * requires: kernel.c and planes.c for the arithmetic. In compositions, every kind averages some dimensions of
 * a view of x.
 */
#include "op/norm/norm.h"

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/norm.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/reduce/reduce.h"
#include "op/region.h"

/* ---- geometry ---- */

static const struct {
    const ipu__op_def *op, *grad;
} by_kind[IPU__N_NORM_KINDS] = {
    [IPU__NORM_LAYER] = {&ipu__op_layer_norm, &ipu__op_layer_norm_grad},
    [IPU__NORM_RMS]   = {&ipu__op_rms_norm, &ipu__op_rms_norm_grad},
    [IPU__NORM_GROUP] = {&ipu__op_group_norm, &ipu__op_group_norm_grad},
    [IPU__NORM_BATCH] = {&ipu__op_batch_norm, &ipu__op_batch_norm_grad},
};

static const ipu__norm_operands forward      = {.x        = 0,
                                                .weight   = 1,
                                                .bias     = 2,
                                                .y        = 3,
                                                .mean     = 4,
                                                .var      = 5,
                                                .dy       = -1,
                                                .dx       = -1,
                                                .d_weight = -1,
                                                .d_bias   = -1};
static const ipu__norm_operands backward     = {.dy       = 0,
                                                .x        = 1,
                                                .mean     = 2,
                                                .var      = 3,
                                                .weight   = 4,
                                                .dx       = 5,
                                                .d_weight = 6,
                                                .d_bias   = 7,
                                                .d_sum    = 8,
                                                .bias     = -1,
                                                .y        = -1};
static const ipu__norm_operands rms_forward  = {.x        = 0,
                                                .weight   = 1,
                                                .y        = 2,
                                                .var      = 3,
                                                .bias     = -1,
                                                .mean     = -1,
                                                .dy       = -1,
                                                .dx       = -1,
                                                .d_weight = -1,
                                                .d_bias   = -1};
static const ipu__norm_operands rms_backward = {.dy       = 0,
                                                .x        = 1,
                                                .var      = 2,
                                                .weight   = 3,
                                                .dx       = 4,
                                                .d_weight = 5,
                                                .bias     = -1,
                                                .mean     = -1,
                                                .y        = -1,
                                                .d_bias   = -1};

static ipu_type stat_type_of(ipu_type type) { return type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT; }

static void set_extents(ipu__norm *s, const ipu__kernel_call *call, const ipu_shape *x)
{
    if (s->kind == IPU__NORM_LAYER || s->kind == IPU__NORM_RMS) {
        int first  = x->rank - (int)ipu__op_int(call, "n_dims");
        s->n_units = s->n_each = 1;
        for (int d = 0; d < x->rank; d++) *(d < first ? &s->n_units : &s->n_each) *= x->dim[d];
        s->n_weights = s->inner = s->n_each;
        s->n_planes             = 1;
        return;
    }
    s->channels = s->n_weights = x->dim[1];
    s->inner                   = 1;
    for (int d = 2; d < x->rank; d++) s->inner *= x->dim[d];
    if (s->kind == IPU__NORM_BATCH) {
        s->n_units  = s->channels;
        s->n_planes = x->dim[0];
    } else {
        s->groups   = ipu__op_int(call, "groups");
        s->n_units  = x->dim[0] * s->groups;
        s->n_planes = s->channels / s->groups;
    }
    s->n_each = s->n_planes * s->inner;
}

ipu__norm ipu__norm_of(const ipu__kernel_call *call)
{
    ipu__norm s = {.epsilon = ipu__op_float(call, "epsilon")};
    while (&by_kind[s.kind].op->kernel != call->def && &by_kind[s.kind].grad->kernel != call->def) s.kind++;
    s.is_grad = &by_kind[s.kind].grad->kernel == call->def;
    if (s.kind == IPU__NORM_RMS)
        s.at = s.is_grad ? rms_backward : rms_forward;
    else
        s.at = s.is_grad ? backward : forward;
    s.type       = call->operand[s.at.x].type;
    s.stat_type  = stat_type_of(s.type);
    s.has_weight = ipu__kernel_has(call, s.at.weight);
    s.has_bias   = s.at.bias >= 0 && ipu__kernel_has(call, s.at.bias);
    s.relu       = call->def == &ipu__op_group_norm_grad.kernel && ipu__op_int(call, "relu") != 0;
    set_extents(&s, call, &call->operand[s.at.x].shape);
    return s;
}

/* Shapes of weights and of what is kept of each unit. */
static ipu_shape weight_shape(const ipu__norm *s, const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[s->at.x].shape;
    if (s->kind == IPU__NORM_GROUP || s->kind == IPU__NORM_BATCH) return IPU_SHAPE(s->channels);
    ipu_shape shape = {.rank = (int)ipu__op_int(call, "n_dims")};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = x->dim[x->rank - shape.rank + d];
    return shape;
}

static ipu_shape stat_shape(const ipu__norm *s, const ipu__kernel_call *call)
{
    ipu_shape shape = call->operand[s->at.x].shape;
    if (s->kind == IPU__NORM_BATCH) return IPU_SHAPE(s->channels);
    if (s->kind == IPU__NORM_GROUP) return IPU_SHAPE(shape.dim[0], s->groups);
    shape.rank -= (int)ipu__op_int(call, "n_dims");
    return shape;
}

/* ---- inference ---- */

static ipu_status check_extents(const ipu__kernel_call *call, ipu__norm_kind kind, int x)
{
    const ipu_shape *shape = &call->operand[x].shape;
    if (kind == IPU__NORM_LAYER || kind == IPU__NORM_RMS) {
        int64_t n = ipu__op_int(call, "n_dims");
        if (n >= 1 && n <= shape->rank) return IPU_OK;
        return ipu__fail(IPU_INVALID, "%s: n_dims = %lld: expected 1 to the rank of \"x\" %s",
                         call->def->name, (long long)n, ipu__shape_str(shape));
    }
    IPU_TRY(ipu__op_want_rank(call, x, 2, IPU_MAX_RANK));
    if (kind == IPU__NORM_BATCH) return IPU_OK;
    int64_t groups = ipu__op_int(call, "groups");
    if (groups >= 1 && shape->dim[1] % groups == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: groups = %lld does not divide the %lld channels of \"x\" %s",
                     call->def->name, (long long)groups, (long long)shape->dim[1], ipu__shape_str(shape));
}

static ipu_status check_weight(const ipu__kernel_call *call, const ipu__norm *s, int operand)
{
    if (operand < 0 || !ipu__kernel_has(call, operand)) return IPU_OK;
    ipu_shape want = weight_shape(s, call);
    IPU_TRY(ipu__op_want_same_type(call, s->at.x, operand));
    return ipu__op_want_shape(call, operand, &want);
}

static ipu__norm_kind kind_of(const ipu__kernel_call *call)
{
    int kind = 0;
    while (&by_kind[kind].op->kernel != call->def && &by_kind[kind].grad->kernel != call->def) kind++;
    return (ipu__norm_kind)kind;
}

static ipu_status norm_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__norm_kind kind = kind_of(call);
    IPU_TRY(ipu__op_want_floating(call, 0));
    IPU_TRY(check_extents(call, kind, 0));
    ipu__norm s = ipu__norm_of(call);
    IPU_TRY(check_weight(call, &s, s.at.weight));
    IPU_TRY(check_weight(call, &s, s.at.bias));
    int n_in             = ipu__op_of(call->def)->n_in;
    out[0]               = call->operand[0];
    out[s.at.var - n_in] = (ipu__kernel_value){s.stat_type, stat_shape(&s, call)};
    if (s.at.mean >= 0) out[s.at.mean - n_in] = out[s.at.var - n_in];
    return IPU_OK;
}

static ipu_status norm_grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__norm_kind kind = kind_of(call);
    IPU_TRY(ipu__op_want_floating(call, 1));
    IPU_TRY(check_extents(call, kind, 1));
    ipu__norm s    = ipu__norm_of(call);
    ipu_shape stat = stat_shape(&s, call);
    IPU_TRY(ipu__op_want_same_type(call, s.at.x, s.at.dy));
    IPU_TRY(ipu__op_want_shape(call, s.at.dy, &call->operand[s.at.x].shape));
    for (int i = s.at.mean >= 0 ? s.at.mean : s.at.var; i <= s.at.var; i++) {
        IPU_TRY(ipu__op_want_type(call, i, s.stat_type));
        IPU_TRY(ipu__op_want_shape(call, i, &stat));
    }
    IPU_TRY(check_weight(call, &s, s.at.weight));
    out[0] = call->operand[s.at.x];
    out[1] = (ipu__kernel_value){s.type, weight_shape(&s, call)};
    if (s.at.d_bias >= 0) out[2] = out[1];
    if (kind == IPU__NORM_GROUP)
        out[3] = (ipu__kernel_value){s.type, s.relu ? IPU_SHAPE(s.channels) : IPU_SHAPE(0)};
    return IPU_OK;
}

/* ---- compositions ---- */

/* x so that units are some of its dimensions; what is kept of units, and weights, broadcast to it. */
typedef struct view {
    ipu_shape x, stat, weight;
    int       axes[2], n_axes;
} view;

static view view_of(const ipu__norm *s)
{
    if (s->kind == IPU__NORM_GROUP) {
        int64_t n = s->n_units / s->groups;
        return (view){IPU_SHAPE(n, s->groups, s->n_planes, s->inner),
                      IPU_SHAPE(n, s->groups, 1, 1),
                      IPU_SHAPE(s->groups, s->n_planes, 1),
                      {2, 3},
                      2};
    }
    if (s->kind == IPU__NORM_BATCH)
        return (view){IPU_SHAPE(s->n_planes, s->channels, s->inner),
                      IPU_SHAPE(1, s->channels, 1),
                      IPU_SHAPE(s->channels, 1),
                      {0, 2},
                      2};
    return (view){IPU_SHAPE(s->n_units, s->n_each), IPU_SHAPE(s->n_units, 1), IPU_SHAPE(s->n_each), {1}, 1};
}

/* In the shape and type that the arithmetic is in. */
static ipu_value seen(ipu_builder *b, const ipu__norm *s, ipu_value v, const ipu_shape *shape)
{
    ipu_value out = ipu_reshape(b, v, *shape);
    return ipu_value_type(out) == s->stat_type ? out : ipu_cast(b, out, s->stat_type);
}

static ipu_value unseen(ipu_builder *b, ipu_value v, ipu_type type, const ipu_shape *shape)
{
    if (ipu_value_type(v) != type) v = ipu_cast(b, v, type);
    return ipu_reshape(b, v, *shape);
}

static ipu_value scale_of(ipu_builder *b, const ipu__norm *s, ipu_value var)
{
    return ipu_rsqrt(b, ipu_add(b, var, ipu_scalar_like(b, var, s->epsilon)));
}

static void norm_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__norm s    = ipu__norm_of(call);
    view      v    = view_of(&s);
    ipu_shape stat = stat_shape(&s, call);
    int       n_in = ipu__op_of(call->def)->n_in;
    ipu_value away = seen(b, &s, in[s.at.x], &v.x);
    if (s.at.mean >= 0) {
        ipu_value mean        = ipu_reduce_mean(b, away, v.axes, v.n_axes, true);
        away                  = ipu_sub(b, away, mean);
        out[s.at.mean - n_in] = ipu_reshape(b, mean, stat);
    }
    ipu_value var        = ipu_reduce_mean(b, ipu_square(b, away), v.axes, v.n_axes, true);
    ipu_value y          = ipu_mul(b, away, scale_of(b, &s, var));
    out[s.at.var - n_in] = ipu_reshape(b, var, stat);
    if (s.has_weight) y = ipu_mul(b, y, seen(b, &s, in[s.at.weight], &v.weight));
    if (s.has_bias) y = ipu_add(b, y, seen(b, &s, in[s.at.bias], &v.weight));
    out[0] = unseen(b, y, s.type, &call->operand[s.at.x].shape);
}

/* (x - mean), of the view. */
static ipu_value deviation(ipu_builder *b, const ipu__norm *s, const view *v, ipu_value x, ipu_value mean)
{
    ipu_value from = seen(b, s, x, &v->x);
    return ipu__has(mean) ? ipu_sub(b, from, ipu_reshape(b, mean, v->stat)) : from;
}

static void norm_grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                              ipu_value *out)
{
    ipu__norm s      = ipu__norm_of(call);
    view      v      = view_of(&s);
    ipu_shape own    = weight_shape(&s, call);
    ipu_value mean   = s.at.mean >= 0 ? in[s.at.mean] : IPU_NO_VALUE;
    ipu_value scale  = scale_of(b, &s, ipu_reshape(b, in[s.at.var], v.stat));
    ipu_value normal = ipu_mul(b, deviation(b, &s, &v, in[s.at.x], mean), scale);
    ipu_value dy = seen(b, &s, in[s.at.dy], &v.x), g = dy;
    if (s.has_weight) g = ipu_mul(b, g, seen(b, &s, in[s.at.weight], &v.weight));
    ipu_value product = ipu_reduce_mean(b, ipu_mul(b, g, normal), v.axes, v.n_axes, true);
    ipu_value dx      = ipu_sub(b, g, ipu_mul(b, normal, product));
    if (ipu__has(mean)) dx = ipu_sub(b, dx, ipu_reduce_mean(b, g, v.axes, v.n_axes, true));
    out[0] = unseen(b, ipu_mul(b, dx, scale), s.type, &call->operand[s.at.x].shape);
    if (s.relu) {
        ipu_value zero = ipu_scalar_like(b, in[s.at.x], 0);
        out[0]         = ipu_where(b, ipu_greater(b, in[s.at.x], zero), out[0], zero);
        out[3]         = ipu_reshape(b, ipu__sum_to(b, ipu_reshape(b, out[0], v.x), &v.weight), own);
    }
    out[1] = unseen(b, ipu__sum_to(b, ipu_mul(b, dy, normal), &v.weight), s.type, &own);
    if (s.at.d_bias >= 0) out[2] = unseen(b, ipu__sum_to(b, dy, &v.weight), s.type, &own);
}

/* ---- gradients ---- */

/* What flows back through the mean and the variance, where something depends on them. */
static ipu_value through_stats(ipu__gradient *g, const ipu__norm *s, ipu_value dx)
{
    ipu_builder *b      = g->b;
    view         v      = view_of(s);
    int          n_in   = ipu__op_of(g->call->def)->n_in;
    ipu_value    mean   = s->at.mean >= 0 ? g->out[s->at.mean - n_in] : IPU_NO_VALUE;
    ipu_value    d_mean = s->at.mean >= 0 ? g->d_out[s->at.mean - n_in] : IPU_NO_VALUE;
    ipu_value    d_var = g->d_out[s->at.var - n_in], more = IPU_NO_VALUE;
    double       n = (double)s->n_each;
    if (ipu__has(d_var)) {
        ipu_value share = ipu_mul(b, ipu_reshape(b, d_var, v.stat), ipu_scalar_like(b, d_var, 2 / n));
        more            = ipu_mul(b, deviation(b, s, &v, g->in[s->at.x], mean), share);
    }
    if (ipu__has(d_mean)) {
        ipu_value share = ipu_mul(b, ipu_reshape(b, d_mean, v.stat), ipu_scalar_like(b, d_mean, 1 / n));
        more            = ipu__has(more) ? ipu_add(b, more, share) : ipu_expand(b, share, v.x);
    }
    if (!ipu__has(more)) return dx;
    more = unseen(b, more, s->type, &g->call->operand[s->at.x].shape);
    return ipu__has(dx) ? ipu_add(b, dx, more) : more;
}

static void norm_grad(ipu__gradient *g)
{
    ipu__norm          s    = ipu__norm_of(g->call);
    const ipu__op_def *grad = by_kind[s.kind].grad;
    int                n_in = ipu__op_of(g->call->def)->n_in, n = 0;
    ipu_value          d[4] = {{g->b, 0}, {g->b, 0}, {g->b, 0}, {g->b, 0}}, in[5];
    if (ipu__has(g->d_out[0])) {
        in[n++] = g->d_out[0];
        in[n++] = g->in[s.at.x];
        if (s.at.mean >= 0) in[n++] = g->out[s.at.mean - n_in];
        in[n++] = g->out[s.at.var - n_in];
        in[n++] = s.has_weight ? g->in[s.at.weight] : IPU_NO_VALUE;
        ipu_emit(g->b, grad->kernel.name, g->call->attributes, g->call->n_attributes, in, (size_t)n, d,
                 (size_t)ipu__op_n_out(grad));
    }
    if (g->wanted[s.at.x]) g->d_in[s.at.x] = through_stats(g, &s, d[0]);
    if (s.has_weight && g->wanted[s.at.weight]) g->d_in[s.at.weight] = d[1];
    if (s.has_bias && g->wanted[s.at.bias]) g->d_in[s.at.bias] = d[2];
}

/* ---- the records ---- */

/* Of group norm parts may read channels that another part writes; of others they have units of their own, which are
 * read before they are written. */
static const ipu__kernel_operand norm_operands[]       = {IPU__INPUT("x"),       IPU__OPTIONAL("weight"),
                                                          IPU__OPTIONAL("bias"), IPU__OUTPUT_OVER("y", 0),
                                                          IPU__OUTPUT("mean"),   IPU__OUTPUT("var")};
static const ipu__kernel_operand norm_grad_operands[]  = {IPU__INPUT("dy"),        IPU__INPUT("x"),
                                                          IPU__INPUT("mean"),      IPU__INPUT("var"),
                                                          IPU__OPTIONAL("weight"), IPU__OUTPUT_OVER("dx", 0),
                                                          IPU__OUTPUT("d_weight"), IPU__OUTPUT("d_bias")};
static const ipu__kernel_operand group_operands[]      = {IPU__INPUT("x"),       IPU__OPTIONAL("weight"),
                                                          IPU__OPTIONAL("bias"), IPU__OUTPUT("y"),
                                                          IPU__OUTPUT("mean"),   IPU__OUTPUT("var")};
static const ipu__kernel_operand group_grad_operands[] = {IPU__INPUT("dy"),        IPU__INPUT("x"),
                                                          IPU__INPUT("mean"),      IPU__INPUT("var"),
                                                          IPU__OPTIONAL("weight"), IPU__OUTPUT("dx"),
                                                          IPU__OUTPUT("d_weight"), IPU__OUTPUT("d_bias"),
                                                          IPU__OUTPUT("d_sum")};
static const ipu__kernel_operand rms_operands[] = {IPU__INPUT("x"), IPU__OPTIONAL("weight"), IPU__OUTPUT("y"),
                                                   IPU__OUTPUT("square")};
static const ipu__kernel_operand rms_grad_operands[] = {IPU__INPUT("dy"),     IPU__INPUT("x"),
                                                        IPU__INPUT("square"), IPU__OPTIONAL("weight"),
                                                        IPU__OUTPUT("dx"),    IPU__OUTPUT("d_weight")};

#define EPSILON                                                            \
    {                                                                      \
        .name = "epsilon", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1e-5, \
        .meaning = "added to the variance"                                 \
    }
static const ipu_op_attribute layer_attributes[] = {
    EPSILON,
    {.name      = "n_dims",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning   = "how many of the last dimensions"},
};
#define GROUPS                                                         \
    {                                                                  \
        .name = "groups", .kind = IPU_ATTRIBUTE_INT, .required = true, \
        .meaning = "divides the number of channels"                    \
    }
static const ipu_op_attribute group_attributes[]      = {EPSILON, GROUPS};
static const ipu_op_attribute group_grad_attributes[] = {
    EPSILON,
    GROUPS,
    {.name = "relu",
     .kind = IPU_ATTRIBUTE_INT,
     .meaning =
         "1: x came out of a relu, dx is the gradient of what went into it, d_sum its sum over channels"},
};
static const ipu_op_attribute batch_attributes[] = {EPSILON};

static const char *const layer_samples[] = {"float[3,5], float[5], float[5]",
                                            "float[2,3,4], float[3,4]; n_dims=2 epsilon=0.01",
                                            "float[7]",
                                            "float[0,4]",
                                            "float[3,5000], none, float[5000]",
                                            "float[70,300], float[300], float[300]",
                                            NULL};
static const char *const rms_samples[]   = {"float[3,5], float[5]",
                                            "float[2,3,4], float[3,4]; n_dims=2 epsilon=0.01", "float[7]",
                                            "float[70,300], float[300]", NULL};
static const char *const group_samples[] = {"float[2,4,3], float[4], float[4]; groups=2",
                                            "float[2,4]; groups=1",
                                            "float[2,4,3,2], float[4]; groups=4",
                                            "float[0,4,3]; groups=2",
                                            "float[3,6,70,71], float[6], float[6]; groups=3",
                                            "float[16,12,9,9], float[12], float[12]; groups=3",
                                            "float[32,4,30,21]; groups=2",
                                            "float[16,3,7], none, float[3]; groups=1",
                                            NULL};
static const char *const batch_samples[] = {"float[3,4,2], float[4], float[4]",
                                            "float[5,4], float[4], float[4]",
                                            "float[2,3,2,2]; epsilon=0.01",
                                            "float[50,130], float[130]",
                                            "float[3,0], none",
                                            "float[4,3,70,70], float[3], float[3]",
                                            "float[3,48,5,7], float[48], float[48]",
                                            "float[2,16,20,31]; epsilon=0.01",
                                            NULL};

static const char *const layer_grad_samples[] = {
    "float[3,5], float[3,5], float[3], float[3]{0.5,2}, float[5]",
    "float[2,3,4], float[2,3,4], float[2], float[2]{0.5,2}; n_dims=2",
    "float[0,4], float[0,4], float[0], float[0]",
    "float[3,5000], float[3,5000], float[3], float[3]{0.5,2}",
    "float[70,300], float[70,300], float[70], float[70]{0.5,2}, float[300]",
    NULL};
static const char *const rms_grad_samples[]   = {"float[3,5], float[3,5], float[3]{0.5,2}, float[5]",
                                                 "float[2,3,4], float[2,3,4], float[2]{0.5,2}; n_dims=2",
                                                 "float[70,300], float[70,300], float[70]{0.5,2}, float[300]",
                                                 NULL};
static const char *const group_grad_samples[] = {
    "float[2,4,3], float[2,4,3], float[2,2], float[2,2]{0.5,2}, float[4]; groups=2",
    "float[2,4], float[2,4], float[2,1], float[2,1]{0.5,2}; groups=1",
    "float[3,6,70,71], float[3,6,70,71], float[3,3], float[3,3]{0.5,2}, float[6]; groups=3",
    "float[16,12,9,9], float[16,12,9,9], float[16,3], float[16,3]{0.5,2}, float[12]; groups=3",
    "float[32,4,30,21], float[32,4,30,21], float[32,2], float[32,2]{0.5,2}; groups=2",
    "float[2,4,3], float[2,4,3], float[2,2], float[2,2]{0.5,2}, float[4]; groups=2 relu=1",
    "float[16,12,9,9], float[16,12,9,9], float[16,3], float[16,3]{0.5,2}, float[12]; groups=3 relu=1",
    NULL};
static const char *const batch_grad_samples[] = {
    "float[3,4,2], float[3,4,2], float[4], float[4]{0.5,2}, float[4]",
    "float[5,4], float[5,4], float[4], float[4]{0.5,2}",
    "float[50,130], float[50,130], float[130], float[130]{0.5,2}",
    "float[7,100,3,3], float[7,100,3,3], float[100], float[100]{0.5,2}, float[100]",
    "float[4,3,70,70], float[4,3,70,70], float[3], float[3]{0.5,2}, float[3]",
    "float[3,48,5,7], float[3,48,5,7], float[48], float[48]{0.5,2}, float[48]",
    "float[2,16,20,31], float[2,16,20,31], float[16], float[16]{0.5,2}",
    NULL};

/* Rows are independent of each other. */
static bool row_region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    out->in[0] = axis;
    return axis < call->operand[0].shape.rank - ipu__op_int(call, "n_dims");
}

/* Where d_y is 0, so is the gradient; those of weight and bias are sums over rows. The weight is the last input. */
static bool row_grad_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    int weight = ipu__op_of(call->def)->n_in - 1;
    if (input != 0) return false;
    for (int i = 0; i < weight; i++) out->in[i] = axis;
    ipu__region_only_first(out);
    return axis < call->operand[0].shape.rank - ipu__op_int(call, "n_dims");
}

#define KERNEL(name_, operands_, ref_, implementations_)                                                    \
    {                                                                                                       \
        .name = #name_, .operands = operands_, .n_operands = IPU__COUNT(operands_), .check = ipu__op_check, \
        .rows = ipu__op_rows, .ref = ref_, .work = ipu__norm_work, .ref_work = ipu__norm_ref_work,          \
        .plan = ipu__norm_plan, .implementations = IPU__ON_CPU(implementations_)                            \
    }
/* The op and its gradient. */
/* clang-format off */
#define RECORDS(name_, which, rows, attributes_, n_in_, grad_n_in, region_, zeros_, batch_, grad_batch, summary_)      \
    const ipu__op_def ipu__op_##name_ = {                                                                     \
        .kernel = KERNEL(name_, which##operands, ipu__norm_ref, ipu__norm_##rows##_implementations),         \
        .n_in = n_in_, .family = "norm", .summary = summary_, .attributes = attributes_##_attributes,        \
        .n_attributes = IPU__COUNT(attributes_##_attributes), .infer = norm_infer, .grad = norm_grad,        \
        .compose = norm_compose, .region = region_, .batch = batch_, .samples = attributes_##_samples};          \
    const ipu__op_def ipu__op_##name_##_grad = {                                                              \
        .kernel = KERNEL(name_##_grad, which##grad_operands, ipu__norm_grad_ref,                             \
                         ipu__norm_##rows##_grad_implementations),                                           \
        .n_in = grad_n_in, .family = "norm", .summary = "the gradient of " #name_,                           \
        .attributes = attributes_##_grad_attributes,                                                         \
        .n_attributes = IPU__COUNT(attributes_##_grad_attributes), .infer = norm_grad_infer,               \
        .compose = norm_grad_compose, .zeros = zeros_, .batch = grad_batch,                                                   \
        .samples = attributes_##_grad_samples}
/* clang-format on */

#define rms_attributes layer_attributes
#define layer_grad_attributes layer_attributes
#define rms_grad_attributes layer_attributes
#define batch_grad_attributes batch_attributes
RECORDS(layer_norm, norm_, row, layer, 3, 5, row_region, row_grad_zeros,
        IPU__BATCH({IPU__LEADING, IPU__SHARED, IPU__SHARED}, {IPU__LEADING, IPU__LEADING, IPU__LEADING}),
        IPU__BATCH({IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__SHARED},
                   {IPU__LEADING, IPU__SUMMED, IPU__SUMMED}),
        "mean 0, variance 1 over the last dimensions");
RECORDS(rms_norm, rms_, row, rms, 2, 4, row_region, row_grad_zeros,
        IPU__BATCH({IPU__LEADING, IPU__SHARED}, {IPU__LEADING, IPU__LEADING}),
        IPU__BATCH({IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__SHARED}, {IPU__LEADING, IPU__SUMMED}),
        "mean square 1 over the last dimensions");
RECORDS(group_norm, group_, group, group, 3, 5, NULL, NULL,
        IPU__BATCH({IPU__AXIS_0, IPU__SHARED, IPU__SHARED}, {IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}),
        IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED},
                   {IPU__AXIS_0, IPU__SUMMED, IPU__SUMMED, IPU__SUMMED}),
        "mean 0, variance 1 over groups of channels");
RECORDS(batch_norm, norm_, batch, batch, 3, 5, NULL, NULL, NULL, NULL,
        "mean 0, variance 1 over each channel of a batch");
