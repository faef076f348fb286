/* conv_integer and qlinear_conv: convolutions of 8 bits.
 *
 * Without oneDNN, patches of the input become 16-bit rows with the zero point subtracted, in which padding is
 * 0, and are multiplied with the rows of the weight.
 */
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/quantize.h"
#include "op/quantize/conv.h"

/* The same convolution of halves, which hold 8 bits exactly. */
static ipu__kernel_call as_halves(const ipu__kernel_call *call)
{
    const ipu__int8_roles *r     = ipu__int8_roles_of(call);
    ipu__kernel_call       inner = {.def          = &ipu__op_conv.kernel,
                                    .attributes   = call->attributes,
                                    .n_attributes = call->n_attributes,
                                    .n_operands   = IPU__CONV_OUT + 1};
    for (int i = 0; i < inner.n_operands; i++) inner.operand[i] = (ipu__kernel_value){IPU_HALF, IPU_SHAPE(0)};
    inner.operand[IPU__CONV_X].shape = call->operand[r->left].shape;
    inner.operand[IPU__CONV_W].shape = call->operand[r->right].shape;
    if (call->n_operands == call->def->n_operands)
        inner.operand[IPU__CONV_OUT].shape = call->operand[r->out].shape;
    return inner;
}

ipu__conv ipu__int8_conv_get(const ipu__kernel_call *call)
{
    ipu__kernel_call inner = as_halves(call);
    return ipu__conv_get(&inner);
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu__int8_roles *r     = ipu__int8_roles_of(call);
    ipu__kernel_call       inner = as_halves(call);
    IPU_TRY(ipu__op_conv.infer(&inner, out));
    IPU_TRY(ipu__int8_infer(call, r, 1, out->shape.dim[1], &out->type));
    if (r->bias < 0 || !ipu__kernel_has(call, r->bias)) return IPU_OK;
    IPU_TRY(ipu__op_want_type(call, r->bias, IPU_INT32));
    return ipu__op_want_shape(call, r->bias, &IPU_SHAPE(out->shape.dim[1]));
}

uint32_t ipu__int8_conv_bias(const ipu__kernel_call *call, const ipu__int8_roles *r, void *const *operand,
                             int64_t channel)
{
    return r->bias >= 0 && ipu__kernel_has(call, r->bias) ? ((const uint32_t *)operand[r->bias])[channel] : 0;
}

int64_t ipu__int8_conv_place(const ipu__conv *c, int64_t o, int64_t tap)
{
    int64_t at[3];
    for (int d = 2; d >= 0; d--) {
        at[d] = o % c->y[d] * c->stride[d] - c->pad[d] + tap % c->k[d] * c->dilation[d];
        o /= c->y[d];
        tap /= c->k[d];
        if (at[d] < 0 || at[d] >= c->x[d]) return -1;
    }
    return (at[0] * c->x[1] + at[1]) * c->x[2] + at[2];
}

static void product_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__int8_roles *r = ipu__int8_roles_of(call);
    ipu__conv              c = ipu__int8_conv_get(call);
    int64_t  taps = ipu__conv_volume(c.k), in = ipu__conv_volume(c.x), out = ipu__conv_volume(c.y);
    ipu_type x_type = call->operand[r->left].type, w_type = call->operand[r->right].type;
    int32_t  x_zero = ipu__int8_zero(call, operand, r->left_zero, 0);
    for (int64_t at = 0; at < c.n * c.groups * c.out * out; at++) {
        int64_t o = at / out % (c.groups * c.out), n = at / out / (c.groups * c.out),
                first   = o / c.out * c.in;
        uint32_t sum    = ipu__int8_conv_bias(call, r, operand, o);
        int32_t  w_zero = ipu__int8_zero(call, operand, r->right_zero, o);
        for (int64_t k = 0; k < c.in * taps; k++) {
            int64_t from = ipu__int8_conv_place(&c, at % out, k % taps);
            if (from < 0) continue;
            from += (n * c.groups * c.in + first + k / taps) * in;
            int32_t w = ipu__quantized_load(w_type, operand[r->right], o * c.in * taps + k) - w_zero;
            sum += (uint32_t)((ipu__quantized_load(x_type, operand[r->left], from) - x_zero) * w);
        }
        ipu__int8_store(call, r, operand, at, sum, 0, o);
    }
}

/* ---- by patches ---- */

enum { BLOCK = IPU__INT8_BLOCK };

typedef struct patches {
    const ipu__kernel_call    *call;
    const ipu__int8_roles     *r;
    const ipu__quantize_loops *loops;
    void *const               *operand;
    ipu__conv                  c;
    int64_t                    taps, in, out, depth; /* in, out: elements of a plane */
    int16_t                   *weights, *rows;
    int32_t                   *sums;
    float                     *scales;
} patches;

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__conv c     = ipu__int8_conv_get(call);
    double    depth = (double)ipu__int8_depth(c.in * ipu__conv_volume(c.k));
    double    bytes = (BLOCK + (double)c.out) * depth * sizeof(int16_t)
                 + BLOCK * ((double)c.out + 1) * sizeof(int32_t);
    return bytes < 0x1p60 ? (size_t)bytes : SIZE_MAX;
}

/* Taps that are looked up at once; kernels with more are gone over in pieces. */
static void pack_patch(const patches *p, const int8_t *x, int64_t o, int16_t *row)
{
    int32_t zero = ipu__int8_zero(p->call, p->operand, p->r->left_zero, 0);
    bool    is_s = p->call->operand[p->r->left].type == IPU_INT8;
    for (int64_t first = 0; first < p->taps; first += BLOCK) {
        int64_t at[BLOCK], n = p->taps - first < BLOCK ? p->taps - first : BLOCK;
        for (int64_t t = 0; t < n; t++) at[t] = ipu__int8_conv_place(&p->c, o, first + t);
        for (int64_t k = 0; k < p->c.in; k++) {
            const int8_t  *s  = x + k * p->in;
            const uint8_t *u  = (const uint8_t *)s;
            int16_t       *to = row + k * p->taps + first;
            for (int64_t t = 0; t < n; t++)
                to[t] = at[t] < 0 ? 0 : (int16_t)((is_s ? s[at[t]] : u[at[t]]) - zero);
        }
    }
    int64_t used = p->c.in * p->taps;
    memset(row + used, 0, (size_t)(p->depth - used) * sizeof *row);
}

static void pack_weights(const patches *p, int64_t group)
{
    int64_t k = p->c.in * p->taps;
    for (int64_t o = 0; o < p->c.out; o++) {
        int64_t channel = group * p->c.out + o;
        ipu__int8_pack(p->call->operand[p->r->right].type,
                       (const int8_t *)p->operand[p->r->right] + channel * k, 1, k,
                       ipu__int8_zero(p->call, p->operand, p->r->right_zero, channel), p->depth,
                       p->weights + o * p->depth);
    }
}

/* Outputs [o, o + n) of all channels of a group of image `image`. */
static void run_block(const patches *p, int64_t image, int64_t group, int64_t o, int64_t n)
{
    const int8_t *x = (const int8_t *)p->operand[p->r->left]
                    + (image * p->c.groups + group) * p->c.in * p->in;
    for (int64_t i = 0; i < n; i++) pack_patch(p, x, o + i, p->rows + i * p->depth);
    p->loops->dots(p->weights, p->rows, p->depth, p->c.out, n, p->sums, BLOCK);
    for (int64_t i = 0; i < p->c.out; i++) {
        int64_t  channel = group * p->c.out + i;
        int32_t *sums    = p->sums + i * BLOCK;
        uint32_t bias    = ipu__int8_conv_bias(p->call, p->r, p->operand, channel);
        float    scale   = p->r->y_scale < 0 ? 1 : ipu__int8_scale(p->call, p->r, p->operand, 0, channel);
        for (int64_t k = 0; k < n; k++) {
            sums[k]      = (int32_t)((uint32_t)sums[k] + bias);
            p->scales[k] = scale;
        }
        ipu__int8_finish(p->call, p->r, p->loops, p->operand, sums, p->scales, n,
                         (image * p->c.groups * p->c.out + channel) * p->out + o);
    }
}

static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    (void)state;
    patches p           = {.call    = call,
                           .r       = ipu__int8_roles_of(call),
                           .loops   = &IPU__SIMD_PICK(ipu__quantize_loops_of),
                           .operand = operand,
                           .c       = ipu__int8_conv_get(call)};
    p.taps              = ipu__conv_volume(p.c.k);
    p.in                = ipu__conv_volume(p.c.x);
    p.out               = ipu__conv_volume(p.c.y);
    p.depth             = ipu__int8_depth(p.c.in * p.taps);
    p.sums              = scratch;
    p.scales            = (float *)(p.sums + p.c.out * BLOCK);
    p.weights           = (int16_t *)(p.scales + BLOCK);
    p.rows              = p.weights + p.c.out * p.depth;
    int64_t      blocks = ipu__op_ceil_div(p.out, BLOCK), packed = -1;
    ipu_interval mine = ipu__op_part(p.c.groups * p.c.n * blocks, 1, part, n_parts);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t group = i / (p.c.n * blocks), image = i / blocks % p.c.n, o = i % blocks * BLOCK;
        if (group != packed) pack_weights(&p, group);
        packed = group;
        run_block(&p, image, group, o, p.out - o < BLOCK ? p.out - o : BLOCK);
    }
    return IPU_OK;
}

/* ---- prices and records ---- */

static double work(const ipu__kernel_call *call)
{
    ipu__kernel_call inner = as_halves(call);
    return ipu__conv_work(&inner);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__kernel_call inner = as_halves(call);
    IPU_TRY(ipu__conv_plan(&inner, target, out));
    out->basis = "as conv of halves, which hold 8 bits exactly: the chip has no product of 8 bits";
    return IPU_OK;
}

static const ipu__kernel_operand integer_operands[] = {IPU__INPUT("x"), IPU__INPUT("w"),
                                                       IPU__OPTIONAL("x_zero_point"),
                                                       IPU__OPTIONAL("w_zero_point"), IPU__OUTPUT("y")};
static const ipu__kernel_operand qlinear_operands[] = {
    IPU__INPUT("x"),       IPU__INPUT("x_scale"),         IPU__OPTIONAL("x_zero_point"),
    IPU__INPUT("w"),       IPU__INPUT("w_scale"),         IPU__OPTIONAL("w_zero_point"),
    IPU__INPUT("y_scale"), IPU__OPTIONAL("y_zero_point"), IPU__OPTIONAL("bias"),
    IPU__OUTPUT("y")};

static const ipu_op_attribute attributes[] = {
    {.name = "stride", .kind = IPU_ATTRIBUTE_INTS, .meaning = "for each convolved dimension; left out: 1"},
    {.name    = "padding",
     .kind    = IPU_ATTRIBUTE_INTS,
     .meaning = "zero points before each convolved dimension, and then after each"},
    {.name = "dilation", .kind = IPU_ATTRIBUTE_INTS, .meaning = "of the kernel; left out: 1"},
    {.name = "groups", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "of channels"}};

static const char *const integer_samples[] = {
    "uint8[1,1,3,3]{0,255}, uint8[1,1,2,2]{0,255}, uint8[]{0,255}",
    "uint8[1,1,3,3]{0,255}, uint8[1,1,2,2]{0,255}, uint8[]{0,255}; padding=[1,1,1,1]",
    "int8[2,4,9]{-128,127}, int8[6,2,3]{-128,127}, int8[1]{-9,9}, int8[6]{-9,9}; groups=2 stride=[2]",
    "uint8[1,3,5,6,4]{0,255}, int8[2,3,2,3,2]{-128,127}; dilation=[1,2,2] padding=[0,1,1,1,2,0]",
    "uint8[0,3,5,5], int8[2,3,2,2]",
    "uint8[1,2,20,20]{0,255}, int8[1,2,9,10]{-128,127}, uint8[]{0,255}; padding=[4,4,4,4]",
    "uint8[2,8,13,13]{0,255}, int8[20,8,3,3]{-128,127}, uint8[]{0,255}; padding=[1,1,1,1]",
    "int8[2,16,9,9]{-128,127}, uint8[24,16,1,1]{0,255}, int8[]{-9,9}, uint8[24]{0,255}",
    ("int8[2,8,20,17]{-128,127}, uint8[32,4,3,2]{0,255}, int8[]{-9,9}, uint8[]{0,255}; groups=2 stride=[1,2] "
     "padding=[1,0,0,1]"),
    NULL};
static const char *const qlinear_samples[] = {
    ("uint8[1,1,7,7]{0,255}, float[]{0.003,0.004}, uint8[]{0,255}, uint8[1,1,1,1]{0,255}, "
     "float[1]{0.001,0.002}, uint8[1]{0,255}, float[]{0.001,0.002}, uint8[]{0,255}"),
    ("int8[2,4,9]{-128,127}, float[]{0.1,0.2}, none, int8[6,2,3]{-128,127}, float[6]{0.1,0.2}, "
     "int8[6]{-9,9}, float[]{9,20}, none, int32[6]{-90,90}; groups=2 stride=[2]"),
    ("uint8[2,8,13,13]{0,255}, float[]{0.1,0.2}, uint8[]{0,255}, int8[20,8,3,3]{-128,127}, "
     "float[20]{0.1,0.2}, none, float[]{9,20}, int8[]{-9,9}, int32[20]{-900,900}; padding=[1,1,1,1]"),
    NULL};

static const ipu__cpu_impl implementations[] = {
    {.head          = {"onednn", ipu__int8_conv_onednn_fits},
     .scratch_bytes = ipu__int8_conv_onednn_scratch_bytes,
     .prepare       = ipu__int8_conv_onednn_prepare,
     .release       = ipu__int8_conv_onednn_release,
     .run           = ipu__int8_conv_onednn_run},
    {.head = {"patches", ipu__op_fits_always}, .scratch_bytes = scratch_bytes, .run = run}};

#define RECORD(op, prefix, ins, ...)                                                                     \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                           \
                                                       .operands        = prefix##_operands,             \
                                                       .n_operands      = (ins) + 1,                     \
                                                       .check           = ipu__op_check,                 \
                                                       .rows            = ipu__op_rows,                  \
                                                       .ref             = product_ref,                   \
                                                       .work            = work,                          \
                                                       .plan            = plan,                          \
                                                       .implementations = IPU__ON_CPU(implementations)}, \
                                      .n_in         = (ins),                                             \
                                      .family       = "quantize",                                        \
                                      .flags        = IPU__OP_NO_GRADIENT,                               \
                                      .attributes   = attributes,                                        \
                                      .n_attributes = IPU__COUNT(attributes),                            \
                                      .infer        = infer,                                             \
                                      .samples      = prefix##_samples,                                  \
                                      __VA_ARGS__}
RECORD(conv_integer, integer, 4, .summary = "convolution of 8 bits, less zero points, in int32");
RECORD(qlinear_conv, qlinear, 9, .summary = "convolution of what is quantised, quantised again");

/* ---- the functions of ipu/op/quantize.h ---- */

typedef struct lists {
    int64_t       stride[3], padding[6], dilation[3];
    ipu_attribute with[4];
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
    }
    out->with[0] = IPU__INTS("stride", out->stride, rank);
    out->with[1] = IPU__INTS("padding", out->padding, 2 * rank);
    out->with[2] = IPU__INTS("dilation", out->dilation, rank);
    out->with[3] = IPU_INT_ATTRIBUTE("groups", or_one(options->groups));
}

ipu_value ipu_conv_integer(ipu_builder *b, ipu_value x, ipu_value w, ipu_value x_zero_point,
                           ipu_value w_zero_point, ipu_conv_options options)
{
    lists l;
    make_lists(x, &options, &l);
    return ipu__emit1(b, "conv_integer", l.with, 4, IPU__IN(x, w, x_zero_point, w_zero_point));
}

ipu_value ipu_qlinear_conv(ipu_builder *b, ipu_quantized x, ipu_quantized w, ipu_value y_scale,
                           ipu_value y_zero_point, ipu_value bias, ipu_conv_options options)
{
    lists l;
    make_lists(x.x, &options, &l);
    return ipu__emit1(b, "qlinear_conv", l.with, 4,
                      IPU__IN(x.x, x.scale, x.zero_point, w.x, w.scale, w.zero_point, y_scale, y_zero_point,
                              bias));
}
