/* conv_max_pool and conv_max_pool_weight_grad: records, shapes, meaning, price.
 *
 * Fusion makes them from conv, relu and max_pool, and from what is left of their gradients
 * (model/fuse/conv_pool.c).
 */
#include "op/conv/pool.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "op/builder.h"
#include "op/matmul/matmul.h"
#include "op/number.h"
#include "op/elementwise/wide.h"

enum { X, W, BIAS, Y, INDICES };              /* of conv_max_pool */
enum { GRAD_X, GRAD_DY, GRAD_AT, DW, DBIAS }; /* of conv_max_pool_weight_grad */

/* ---- the ops they are made of ---- */

static const char *const conv_names[] = {"stride", "padding", "dilation", "groups", "partials"};

static size_t take_attributes(const ipu__kernel_call *call, const char *const *names, size_t n_names,
                              ipu_attribute *to)
{
    size_t n = 0;
    for (size_t i = 0; i < n_names; i++) {
        const ipu_attribute *a = ipu__attribute_find(call, names[i]);
        if (a) to[n++] = *a;
    }
    return n;
}

static ipu__kernel_call call_of(const ipu__op_def *op, const ipu_attribute *with, size_t n)
{
    ipu__kernel_call call = {
        .def = &op->kernel, .attributes = with, .n_attributes = n, .n_operands = op->kernel.n_operands};
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    return call;
}

/* With inputs, but without what lies between them and results. */
static void make_forward(const ipu__kernel_call *call, ipu__conv_pool_calls *out)
{
    const ipu_attribute *window = ipu__attribute_find(call, "window");
    size_t n = take_attributes(call, conv_names, IPU__COUNT(conv_names), out->conv_with), n_pool = 0;
    if (ipu__op_int(call, "relu")) out->conv_with[n++] = IPU_TEXT_ATTRIBUTE("epilogue", "relu a0; out t0");
    if (window) {
        out->pool_with[n_pool]        = *window;
        out->pool_with[n_pool++].name = "kernel";
    }
    out->pool_with[n_pool++] = IPU_INT_ATTRIBUTE("indices", ipu__op_int(call, "indices"));
    out->conv                = call_of(&ipu__op_conv, out->conv_with, n);
    out->pool                = call_of(&ipu__op_max_pool, out->pool_with, n_pool);
    for (int i = 0; i < 3; i++) out->conv.operand[i] = call->operand[i];
}

static void make_grad(const ipu__kernel_call *call, ipu__conv_pool_calls *out)
{
    static const char *const kernel[] = {"kernel"}, *const size[] = {"size"};
    size_t n = take_attributes(call, conv_names, IPU__COUNT(conv_names), out->conv_with);
    n += take_attributes(call, kernel, 1, out->conv_with + n);
    out->conv            = call_of(&ipu__op_conv_weight_grad, out->conv_with, n);
    out->pool            = call_of(&ipu__op_pool_scatter, out->pool_with,
                                   take_attributes(call, size, 1, out->pool_with));
    out->conv.operand[0] = call->operand[GRAD_X];
    out->pool.operand[0] = call->operand[GRAD_DY];
    out->pool.operand[1] = call->operand[GRAD_AT];
}

/* Asks the record of `part` for its outputs. */
static ipu_status infer_part(ipu__kernel_call *part)
{
    const ipu__op_def *op = ipu__op_of(part->def);
    ipu__kernel_value  out[2];
    ipu__kernel_call   asked = *part;
    asked.n_operands         = op->n_in;
    IPU_TRY(op->infer(&asked, out));
    memcpy(part->operand + op->n_in, out, (size_t)ipu__op_n_out(op) * sizeof *out);
    return IPU_OK;
}

static ipu_status infer_parts(const ipu__kernel_call *call, ipu__conv_pool_calls *out)
{
    if (ipu__conv_pool_is_grad(call)) {
        make_grad(call, out);
        IPU_TRY(infer_part(&out->pool));
        out->conv.operand[IPU__CONV_WEIGHT_GRAD_DY] = out->pool.operand[2];
        return infer_part(&out->conv);
    }
    make_forward(call, out);
    IPU_TRY(infer_part(&out->conv));
    out->pool.operand[0] = out->conv.operand[IPU__CONV_OUT];
    return infer_part(&out->pool);
}

void ipu__conv_pool_split(const ipu__kernel_call *call, int64_t n, ipu__conv_pool_calls *out)
{
    ipu__kernel_call fewer        = *call;
    fewer.operand[0].shape.dim[0] = n;
    if (ipu__conv_pool_is_grad(call))
        for (int i = GRAD_DY; i <= GRAD_AT; i++) fewer.operand[i].shape.dim[0] = n;
    ipu_status status = infer_parts(&fewer, out);
    IPU__ASSERT(status == IPU_OK);
    (void)status;
}

/* ---- infer ---- */

static ipu_status check_flag(const ipu__kernel_call *call, const char *name)
{
    int64_t value = ipu__op_int(call, name);
    if (value == 0 || value == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" must be 0 or 1, found %lld", call->def->name, name,
                     (long long)value);
}

static ipu_status forward_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__conv_pool_calls parts;
    IPU_TRY(check_flag(call, "relu"));
    IPU_TRY(check_flag(call, "indices"));
    IPU_TRY(check_flag(call, "mask"));
    IPU_TRY(infer_parts(call, &parts));
    out[0] = parts.pool.operand[1];
    out[1] = parts.pool.operand[2];
    return IPU_OK;
}

static ipu_status grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__conv_pool_calls parts;
    int64_t              bias = ipu__op_int(call, "bias");
    if (bias < 0 || bias > 2)
        return ipu__fail(IPU_INVALID, "%s: attribute \"bias\" must be 0, 1 or 2, found %lld", call->def->name,
                         (long long)bias);
    IPU_TRY(infer_parts(call, &parts));
    out[0]       = parts.conv.operand[IPU__CONV_WEIGHT_GRAD_OUT];
    out[1].type  = bias == 2 && out[0].type != IPU_DOUBLE ? IPU_FLOAT : out[0].type;
    out[1].shape = bias ? IPU_SHAPE(call->operand[GRAD_DY].shape.dim[1]) : IPU_SHAPE(0);
    return IPU_OK;
}

/* ---- ref ---- */

static int64_t place(const int64_t dim[3], const int64_t at[3])
{
    return (at[0] * dim[1] + at[1]) * dim[2] + at[2];
}

static void from_place(const int64_t dim[3], int64_t place_, int64_t at[3])
{
    for (int d = 2; d >= 0; place_ /= dim[d--]) at[d] = place_ % dim[d];
}

#define EACH(i, dim)                                  \
    for (int64_t i[3] = {0}; i[0] < (dim)[0]; i[0]++) \
        for (i[1] = 0; i[1] < (dim)[1]; i[1]++)       \
            for (i[2] = 0; i[2] < (dim)[2]; i[2]++)

/* The element of x that tap k of output y reads, of channel 0 of the image; -1: padding. */
static int64_t source(const ipu__conv *c, const int64_t y[3], const int64_t k[3])
{
    int64_t from[3];
    for (int d = 0; d < 3; d++) {
        from[d] = y[d] * c->stride[d] - c->pad[d] + k[d] * c->dilation[d];
        if (from[d] < 0 || from[d] >= c->x[d]) return -1;
    }
    return place(c->x, from);
}

/* Output y of channel o of image n: not rounded, as which one is largest would depend on that. */
static double convolve(const ipu__kernel_call *call, const ipu__conv *c, void *const *operand, int64_t n,
                       int64_t o, const int64_t y[3])
{
    ipu_type type     = call->operand[X].type;
    int64_t  x_volume = ipu__conv_volume(c->x), k_volume = ipu__conv_volume(c->k), group = o / c->out;
    double   sum = 0;
    for (int64_t i = 0; i < c->in; i++) EACH(k, c->k)
        {
            int64_t from = source(c, y, k);
            if (from < 0) continue;
            sum += ipu__number_load(type, operand[X], ((n * c->groups + group) * c->in + i) * x_volume + from)
                 * ipu__number_load(type, operand[W], (o * c->in + i) * k_volume + place(c->k, k));
        }
    if (ipu__kernel_has(call, BIAS)) sum += ipu__number_load(type, operand[BIAS], o);
    return ipu__op_int(call, "relu") && sum < 0 ? 0 : sum;
}

/* Extents of the window, of what is convolved and of the result, in three dimensions. */
typedef struct pooled {
    int64_t window[3], y[3];
} pooled;

static pooled get_pooled(const ipu__kernel_call *call, const ipu__conv *c)
{
    size_t         n;
    const int64_t *window = ipu__op_ints(call, "window", &n);
    pooled         p      = {{1, 1, 1}, {1, 1, 1}};
    for (int i = 0; i < c->rank; i++) {
        p.window[3 - c->rank + i] = window[i];
        p.y[3 - c->rank + i]      = c->y[3 - c->rank + i] / window[i];
    }
    return p;
}

static void forward_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__conv c      = ipu__conv_get(call);
    pooled    p      = get_pooled(call, &c);
    bool      masks  = ipu__op_int(call, "mask") != 0;
    int32_t  *places = ipu__kernel_has(call, INDICES) ? operand[INDICES] : NULL;
    int64_t   to     = 0;
    for (int64_t n = 0; n < c.n; n++)
        for (int64_t o = 0; o < c.groups * c.out; o++) EACH(y, p.y)
            {
                double  most = -HUGE_VAL;
                int32_t at   = -1;
                EACH(k, p.window)
                {
                    int64_t from[3];
                    for (int d = 0; d < 3; d++) from[d] = y[d] * p.window[d] + k[d];
                    double v = convolve(call, &c, operand, n, o, from);
                    if (!(v > most) && !isnan(v)) continue;
                    most = v;
                    at   = (int32_t)place(c.y, from);
                }
                ipu__number_store(call->operand[Y].type, operand[Y], to, most);
                if (places) places[to] = masks && !(most > 0) ? -1 : at;
                to++;
            }
}

static int64_t plane_of(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int d = 2; d < shape->rank; d++) n *= shape->dim[d];
    return n;
}

static double weight_of(const ipu__kernel_call *call, const ipu__conv *c, void *const *operand, int64_t o,
                        int64_t i, const int64_t k[3])
{
    ipu_type       type     = call->operand[GRAD_X].type;
    const int32_t *at       = operand[GRAD_AT];
    int64_t        n_small  = plane_of(&call->operand[GRAD_DY].shape);
    int64_t        x_volume = ipu__conv_volume(c->x), n_large = ipu__conv_volume(c->y);
    double         sum = 0;
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t p = 0; p < n_small; p++) {
            int64_t small = (n * c->groups * c->out + o) * n_small + p, y[3];
            if (at[small] < 0 || at[small] >= n_large) continue;
            from_place(c->y, at[small], y);
            int64_t from = source(c, y, k);
            if (from >= 0)
                sum += ipu__number_load(type, operand[GRAD_DY], small)
                     * ipu__number_load(type, operand[GRAD_X],
                                        ((n * c->groups + o / c->out) * c->in + i) * x_volume + from);
        }
    return sum;
}

static double bias_of(const ipu__kernel_call *call, const ipu__conv *c, void *const *operand, int64_t o)
{
    const int32_t *at      = operand[GRAD_AT];
    int64_t        n_small = plane_of(&call->operand[GRAD_DY].shape);
    double         sum     = 0;
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t p = 0; p < n_small; p++) {
            int64_t small = (n * c->groups * c->out + o) * n_small + p;
            if (at[small] >= 0 && at[small] < ipu__conv_volume(c->y))
                sum += ipu__number_load(call->operand[GRAD_DY].type, operand[GRAD_DY], small);
        }
    return sum;
}

static void grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__conv_pool_calls parts;
    ipu_type             type = call->operand[GRAD_X].type;
    int64_t              to   = 0;
    ipu__conv_pool_split(call, call->operand[GRAD_X].shape.dim[0], &parts);
    ipu__conv c = ipu__conv_get(&parts.conv);
    for (int64_t o = 0; o < c.groups * c.out; o++) {
        for (int64_t i = 0; i < c.in; i++) EACH(k, c.k)
            {
                ipu__number_store(type, operand[DW], to++, weight_of(call, &c, operand, o, i, k));
            }
        if (ipu__kernel_has(call, DBIAS))
            ipu__number_store(call->operand[DBIAS].type, operand[DBIAS], o, bias_of(call, &c, operand, o));
    }
}

/* ---- as other ops ---- */

/* In float, so that what is largest is found before it is rounded. */
static void forward_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__conv_pool_calls parts;
    ipu__conv_pool_split(call, call->operand[X].shape.dim[0], &parts);
    ipu_type  type = call->operand[X].type, sums = type == IPU_DOUBLE ? type : IPU_FLOAT;
    bool      relu = ipu__op_int(call, "relu") != 0;
    ipu_value from[3], pooled_[2] = {{b, 0}, {b, 0}};
    for (int i = 0; i < 3; i++) from[i] = ipu__has(in[i]) ? ipu_cast(b, in[i], sums) : in[i];
    ipu_value mid = ipu__emit1(b, "conv", parts.conv_with, parts.conv.n_attributes - relu, from, 3);
    if (relu) mid = ipu__emit1(b, "relu", NULL, 0, IPU__IN(mid));
    ipu_emit(b, "max_pool", parts.pool_with, 1, &mid, 1, pooled_, 2); /* the window; indices in any case */
    out[0] = ipu_cast(b, pooled_[0], type);
    if (!ipu__kernel_has(call, INDICES)) return;
    out[1] = pooled_[1];
    if (!ipu__op_int(call, "mask")) return;
    ipu_value zero = ipu_scalar_like(b, pooled_[0], 0), none = ipu_scalar_like(b, out[1], -1);
    ipu_value is_above = ipu__emit1(b, "greater", NULL, 0, IPU__IN(pooled_[0], zero));
    out[1]             = ipu__emit1(b, "where", NULL, 0, IPU__IN(is_above, out[1], none));
}

/* Elements that fall together are summed up in float before they are rounded. */
static void grad_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__conv_pool_calls parts;
    ipu_type             type = call->operand[GRAD_X].type, sums = type == IPU_DOUBLE ? type : IPU_FLOAT;
    const int            axes[] = {0, 2, 3, 4};
    ipu__conv_pool_split(call, call->operand[GRAD_X].shape.dim[0], &parts);
    ipu_value mid = ipu__emit1(b, "pool_scatter", parts.pool_with, parts.pool.n_attributes,
                               IPU__IN(ipu_cast(b, in[GRAD_DY], sums), in[GRAD_AT]));
    ipu_value dw  = ipu__emit1(b, "conv_weight_grad", parts.conv_with, parts.conv.n_attributes,
                               IPU__IN(ipu_cast(b, in[GRAD_X], sums), mid));
    out[0]        = ipu_cast(b, dw, type);
    if (!ipu__kernel_has(call, DBIAS)) return;
    ipu_value db = ipu_reduce_sum(b, mid, axes, call->operand[GRAD_DY].shape.rank - 1, false);
    out[1]       = ipu_cast(b, db, call->operand[DBIAS].type);
}

/* ---- pricing: that of the parts ---- */

static double work(const ipu__kernel_call *call)
{
    ipu__conv_pool_calls parts;
    ipu__conv_pool_split(call, call->operand[0].shape.dim[0], &parts);
    return parts.conv.def->work(&parts.conv) + parts.pool.def->work(&parts.pool);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__conv_pool_calls parts;
    ipu__kernel_plan     pool;
    ipu__conv_pool_split(call, call->operand[0].shape.dim[0], &parts);
    IPU_TRY(parts.conv.def->plan(&parts.conv, target, out));
    IPU_TRY(parts.pool.def->plan(&parts.pool, target, &pool));
    ipu__op_add_plan(&pool, out);
    return IPU_OK;
}

/* ---- records ---- */

static const ipu_op_attribute forward_attributes[] = {
    IPU__CONV_ATTRIBUTES,
    IPU__PARTIALS_ATTRIBUTE,
    {.name     = "window",
     .kind     = IPU_ATTRIBUTE_INTS,
     .required = true,
     .meaning  = "size of the pool's window, which is also from window to window"},
    {.name = "relu", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: of what was convolved"},
    {.name      = "indices",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning   = "0: not wanted, so that they have shape [0]"},
    {.name = "mask", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: indices are -1 where y is not above 0"}};

static const ipu_op_attribute grad_attributes[] = {
    IPU__CONV_ATTRIBUTES,
    IPU__PARTIALS_ATTRIBUTE,
    {.name = "kernel", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "extents of the kernel"},
    {.name     = "size",
     .kind     = IPU_ATTRIBUTE_INTS,
     .required = true,
     .meaning  = "extents of what was convolved, in which indices are places"},
    {.name      = "bias",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning =
         "0: its gradient is not wanted, so that it has shape [0]; 2: it is float where d_y has less"}};

static const ipu__kernel_operand forward_operands[] = {
    IPU__INPUT("x"), IPU__INPUT("w"), IPU__OPTIONAL("bias"), IPU__OUTPUT("y"), IPU__OUTPUT("indices")};
static const ipu__kernel_operand grad_operands[] = {IPU__INPUT("x"), IPU__INPUT("d_y"), IPU__INPUT("indices"),
                                                    IPU__OUTPUT("d_w"), IPU__OUTPUT("d_bias")};

static const char *const forward_samples[] = {
    "float[16,1,10,12], float[5,1,3,3], float[5]; window=[2,2] relu=1 mask=1",
    "float[32,2,9,13], float[3,2,3,3], none; window=[2,2] relu=1",
    "float[16,3,8,27], float[7,3,5,5], float[7]; window=[2,2]",
    "float[48,1,7,30], float[2,1,3,3], float[2]; window=[2,2] relu=1 indices=0",
    "float[3,1,12,9], float[32,1,3,3], float[32]; window=[2,2] relu=1 mask=1",
    "float[2,3,9,28], float[16,3,5,5], none; window=[2,2] relu=1 indices=0",
    "float[5,2,6,25], float[48,2,3,3], float[48]; window=[2,2]",
    "float[3,16,12,12], float[16,16,3,3], float[16]; padding=[1,1] window=[2,2] relu=1 mask=1",
    "float[2,4,9,8], float[6,2,3,3], float[6]; stride=[2,1] padding=[1,0] dilation=[1,2] groups=2 window=[2,1]",
    "float[2,3,11], float[4,3,3], none; window=[3] relu=1 mask=1",
    "float[1,2,5,6,5], float[3,2,2,3,2], float[3]; window=[2,2,2] relu=1 indices=0",
    "float[2,32,7,9], float[32,32,3,3], none; window=[2,2] relu=1",
    "float[16,3,9,8], float[7,3,3,3], float[7]; window=[3,2] relu=1 mask=1",
    "float[20,24,8,9], float[130,24,1,1], float[130]; window=[3,2] relu=1",
    "float[0,2,5,5], float[3,2,3,3], none; window=[2,2]",
    NULL};

static const char *const grad_samples[] = {
    "float[16,1,10,12], float[16,5,4,5], int32[16,5,4,5]; kernel=[3,3] size=[8,10]",
    "float[32,2,9,13], float[32,3,3,5], int32[32,3,3,5]; kernel=[3,3] size=[7,11] bias=0",
    "float[16,1,28,28], float[16,5,13,13], int32[16,5,13,13]; kernel=[3,3] size=[26,26]",
    "float[3,1,12,9], float[3,32,5,3], int32[3,32,5,3]; kernel=[3,3] size=[10,7]",
    "float[5,2,6,25], float[5,48,2,11], int32[5,48,2,11]; kernel=[3,3] size=[4,23] bias=0",
    "float[2,4,9,8], float[2,6,2,4], int32[2,6,2,4]; stride=[2,1] padding=[1,0] dilation=[1,2] groups=2 kernel=[3,3] size=[5,4]",
    "float[2,3,13], float[2,4,4], int32[2,4,4]; kernel=[3] size=[11] bias=0",
    "float[20,3,8,9], float[20,12,2,2], int32[20,12,2,2]; kernel=[5,5] size=[4,5] bias=2",
    "float[32,1,7,6], float[32,3,2,2], int32[32,3,2,2]; kernel=[3,3] size=[5,4] bias=2",
    "float[0,2,5,5], float[0,3,2,2], int32[0,3,2,2]; kernel=[2,2] size=[4,4]",
    NULL};

#define PIECES                                                                                          \
    {                                                                                                   \
        .head = {"pieces", ipu__conv_pool_pieces_fits}, .layouts = ipu__conv_pool_pieces_layouts,       \
        .scratch_bytes = ipu__conv_pool_pieces_scratch_bytes, .prepare = ipu__conv_pool_pieces_prepare, \
        .release = ipu__conv_pool_pieces_release, .run = ipu__conv_pool_pieces_run,                     \
    }

#define DIRECT                                                                                          \
    {                                                                                                   \
        .head = {"direct", ipu__conv_pool_direct_fits}, .layouts = ipu__conv_pool_direct_layouts,       \
        .scratch_bytes = ipu__conv_pool_direct_scratch_bytes, .prepare = ipu__conv_pool_direct_prepare, \
        .release = ipu__conv_pool_direct_release, .run = ipu__conv_pool_direct_run,                     \
        .writes = ipu__conv_pool_direct_writes,                                                         \
    }

static const ipu__cpu_impl forward_implementations[] = {IPU__WIDE, DIRECT, PIECES};
static const ipu__cpu_impl grad_implementations[]    = {IPU__WIDE, DIRECT, PIECES};

const ipu__op_def ipu__op_conv_max_pool = {
    .kernel       = {.name            = "conv_max_pool",
                     .operands        = forward_operands,
                     .n_operands      = IPU__COUNT(forward_operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = forward_ref,
                     .work            = work,
                     .plan            = plan,
                     .implementations = IPU__ON_CPU(forward_implementations)},
    .n_in         = 3,
    .family       = "conv",
    .summary      = "max_pool of conv, of relu if asked for, in windows side by side",
    .attributes   = forward_attributes,
    .n_attributes = IPU__COUNT(forward_attributes),
    .infer        = forward_infer,
    .compose      = forward_compose,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__SHARED, IPU__SHARED}, {IPU__AXIS_0, IPU__AXIS_0}),
    .samples      = forward_samples,
};

const ipu__op_def ipu__op_conv_max_pool_weight_grad = {
    .kernel       = {.name            = "conv_max_pool_weight_grad",
                     .operands        = grad_operands,
                     .n_operands      = IPU__COUNT(grad_operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = grad_ref,
                     .work            = work,
                     .plan            = plan,
                     .implementations = IPU__ON_CPU(grad_implementations)},
    .n_in         = 3,
    .family       = "conv",
    .summary      = "gradient of conv_max_pool with respect to w and bias",
    .attributes   = grad_attributes,
    .n_attributes = IPU__COUNT(grad_attributes),
    .infer        = grad_infer,
    .compose      = grad_compose,
    .batch        = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}, {IPU__SUMMED, IPU__SUMMED}),
    .samples      = grad_samples,
};
