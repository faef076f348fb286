/* quantize_linear, dequantize_linear, fake_quantize, dynamic_quantize_linear.
 *
 * x is [outer, channels, inner], with a scale and a zero point for each channel. Division is in float (in
 * double if x is), as in ONNX and PyTorch: implementations give the same bits.
 */
#include "op/quantize/quantize.h"

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/quantize.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/vector/floats.h"
#include "op/number.h"

enum { X, SCALE, ZERO, OUT };

/* ---- shapes ---- */

ipu_status ipu__want_8_bits(const ipu__kernel_call *call, int i)
{
    if (ipu__is_8_bits(call->operand[i].type)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" must be int8 or uint8, found %s", call->def->name,
                     call->def->operands[i].name, ipu_type_name(call->operand[i].type));
}

ipu_status ipu__want_scales(const ipu__kernel_call *call, int i, int64_t n, const char *of)
{
    const ipu_shape *s = &call->operand[i].shape;
    if (s->rank <= 1 && (ipu__op_n_elements(s) == 1 || s->dim[0] == n)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" %s: expected a scalar, or %lld elements: one for each %s",
                     call->def->name, call->def->operands[i].name, ipu__shape_str(s), (long long)n, of);
}

typedef struct channels {
    int64_t n, inner; /* n 1: one scale for all */
} channels;

static channels get_channels(const ipu__kernel_call *call)
{
    const ipu_shape *x = &call->operand[X].shape;
    channels         c = {ipu__op_n_elements(&call->operand[SCALE].shape), 1};
    int              axis;
    if (c.n == 1 || ipu__op_axis(call, "axis", x->rank, &axis) != IPU_OK) return (channels){1, 1};
    for (int d = axis + 1; d < x->rank; d++) c.inner *= x->dim[d];
    return c;
}

static int64_t channel_of(const channels *c, int64_t i) { return c->n == 1 ? 0 : i / c->inner % c->n; }

static ipu_status check_scales(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    if (ipu__op_n_elements(&call->operand[SCALE].shape) != 1)
        IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    IPU_TRY(ipu__want_scales(call, SCALE, x->rank ? x->dim[axis] : 1, "place along the axis"));
    if (!ipu__kernel_has(call, ZERO)) return IPU_OK;
    int64_t n = ipu__op_n_elements(&call->operand[SCALE].shape);
    if (ipu__op_n_elements(&call->operand[ZERO].shape) == n && call->operand[ZERO].shape.rank <= 1)
        return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"zero_point\" %s: expected as many elements as \"scale\" %s",
                     call->def->name, ipu__shape_str(&call->operand[ZERO].shape),
                     ipu__shape_str(&call->operand[SCALE].shape));
}

static ipu_status quantize_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const char *type = ipu__op_text(call, "type");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, SCALE));
    IPU_TRY(check_scales(call));
    *out = (ipu__kernel_value){ipu_type_find(type), call->operand[X].shape};
    if (!ipu__is_8_bits(out->type))
        return ipu__fail(IPU_INVALID, "quantize_linear: type %s: expected int8 or uint8", type);
    if (!ipu__kernel_has(call, ZERO)) return IPU_OK;
    IPU_TRY(ipu__want_8_bits(call, ZERO));
    if (ipu__attribute_find(call, "type") && out->type != call->operand[ZERO].type)
        return ipu__fail(IPU_INVALID, "quantize_linear: type %s, but \"zero_point\" is %s", type,
                         ipu_type_name(call->operand[ZERO].type));
    out->type = call->operand[ZERO].type;
    return IPU_OK;
}

static ipu_status dequantize_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    if (call->operand[X].type != IPU_INT32) IPU_TRY(ipu__want_8_bits(call, X));
    IPU_TRY(ipu__op_want_floating(call, SCALE));
    IPU_TRY(check_scales(call));
    if (ipu__kernel_has(call, ZERO)) IPU_TRY(ipu__op_want_same_type(call, X, ZERO));
    *out = (ipu__kernel_value){call->operand[SCALE].type, call->operand[X].shape};
    return IPU_OK;
}

static ipu_status fake_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t low = ipu__op_int(call, "low"), high = ipu__op_int(call, "high"), most = 1 << 24;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_same_type(call, X, SCALE));
    IPU_TRY(check_scales(call));
    if (ipu__kernel_has(call, ZERO)) IPU_TRY(ipu__op_want_type(call, ZERO, IPU_INT32));
    if (low > high || low < -most || high > most)
        return ipu__fail(IPU_INVALID,
                         "fake_quantize: low = %lld, high = %lld: expected low <= high, within 2^24",
                         (long long)low, (long long)high);
    *out = call->operand[X];
    return IPU_OK;
}

/* ---- references ---- */

static double zero_of(const ipu__kernel_call *call, void *const *operand, int64_t channel)
{
    if (!ipu__kernel_has(call, ZERO)) return 0;
    return ipu__quantized_load(call->operand[ZERO].type, operand[ZERO], channel);
}

static double rounded(ipu_type type, double x, double scale)
{
    return type == IPU_DOUBLE ? rint(x / scale) : (double)rintf((float)x / (float)scale);
}

static void quantize_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type = call->operand[X].type;
    channels c    = get_channels(call);
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[X].shape); i++) {
        int64_t k = channel_of(&c, i);
        double  q = rounded(type, ipu__number_load(type, operand[X], i),
                            ipu__number_load(type, operand[SCALE], k));
        ipu__quantized_store(call->operand[OUT].type, operand[OUT], i, q + zero_of(call, operand, k));
    }
}

static void dequantize_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type = call->operand[OUT].type;
    channels c    = get_channels(call);
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[X].shape); i++) {
        int64_t k = channel_of(&c, i);
        double  x = ipu__quantized_load(call->operand[X].type, operand[X], i);
        ipu__number_store(type, operand[OUT], i,
                          (x - zero_of(call, operand, k)) * ipu__number_load(type, operand[SCALE], k));
    }
}

static void fake_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type = call->operand[X].type;
    channels c    = get_channels(call);
    double   low = (double)ipu__op_int(call, "low"), high = (double)ipu__op_int(call, "high");
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[X].shape); i++) {
        int64_t k     = channel_of(&c, i);
        double  scale = ipu__number_load(type, operand[SCALE], k), zero = zero_of(call, operand, k);
        double  q = rounded(type, ipu__number_load(type, operand[X], i), scale) + zero;
        q         = !(q > low) ? low : q > high ? high : q;
        ipu__number_store(type, operand[OUT], i, (q - zero) * scale);
    }
}

/* ---- in runs of one channel, or of all channels where they lie side by side ---- */

enum { BLOCK = 1024 };

static bool fits_floats(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    /* A zero point of 32 bits need not be a float. */
    return call->operand[SCALE].type != IPU_DOUBLE
        && (call->operand[X].type != IPU_INT32 || !ipu__kernel_has(call, ZERO));
}

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return (size_t)(2 * ipu__op_n_elements(&call->operand[SCALE].shape) + 2 * BLOCK) * sizeof(float);
}

typedef struct run {
    const ipu__kernel_call    *call;
    const ipu__quantize_loops *loops;
    void *const               *operand;
    float                     *scale, *zero, *in, *out; /* of channels; of a block */
    float                      range[2];
} run;

static void quantize_block(const run *r, int64_t at, int64_t n, int64_t channel, bool each)
{
    const float *x    = ipu__floats_get(r->call->operand[X].type, r->operand[X], at, n, r->in);
    uint8_t     *to   = (uint8_t *)r->operand[OUT] + at;
    bool         is_u = r->call->operand[OUT].type == IPU_UINT8;
    (is_u ? r->loops->to_uint8 : r->loops->to_int8)(x, r->scale + channel, r->zero + channel, each, to, n);
}

static void dequantize_block(const run *r, int64_t at, int64_t n, int64_t channel, bool each)
{
    ipu_type     type = r->call->operand[X].type, out = r->call->operand[OUT].type;
    const float *s = r->scale + channel, *z = r->zero + channel;
    const char  *x = (const char *)r->operand[X] + (size_t)at * ipu_type_size(type);
    float       *y = out == IPU_FLOAT ? (float *)r->operand[OUT] + at : r->out;
    (type == IPU_INT8    ? r->loops->from_int8
     : type == IPU_UINT8 ? r->loops->from_uint8
                         : r->loops->from_int32)(x, s, z, each, y, n);
    if (out != IPU_FLOAT) ipu__floats_store(out, y, r->operand[OUT], at, n);
}

static void fake_block(const run *r, int64_t at, int64_t n, int64_t channel, bool each)
{
    ipu_type     type = r->call->operand[X].type;
    const float *x    = ipu__floats_get(type, r->operand[X], at, n, r->in);
    float       *y    = type == IPU_FLOAT ? (float *)r->operand[OUT] + at : r->out;
    r->loops->fake(x, r->scale + channel, r->zero + channel, each, r->range, y, n);
    if (type != IPU_FLOAT) ipu__floats_store(type, y, r->operand[OUT], at, n);
}

static ipu_status run_blocks(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state;
    bool         is_fake = call->def == &ipu__op_fake_quantize.kernel;
    channels     c       = get_channels(call);
    ipu_interval mine    = ipu__op_part(ipu__op_n_elements(&call->operand[X].shape), 64, part, n_parts);
    run          r = {.call = call, .loops = &IPU__SIMD_PICK(ipu__quantize_loops_of), .operand = operand};
    if (mine.begin == mine.end) return IPU_OK;
    r.scale = scratch;
    r.zero  = r.scale + c.n;
    r.in    = r.zero + c.n;
    r.out   = r.in + BLOCK;
    ipu__floats_load(call->operand[SCALE].type, operand[SCALE], 0, c.n, r.scale);
    for (int64_t k = 0; k < c.n; k++) r.zero[k] = (float)zero_of(call, operand, k);
    if (is_fake) r.range[0] = (float)ipu__op_int(call, "low"), r.range[1] = (float)ipu__op_int(call, "high");
    bool each = c.n > 1 && c.inner == 1;
    for (int64_t i = mine.begin, n; i < mine.end; i += n) {
        n = mine.end - i < BLOCK ? mine.end - i : BLOCK;
        if (c.n > 1) {
            int64_t left = each ? c.n - i % c.n : c.inner - i % c.inner;
            n            = left < n ? left : n;
        }
        (is_fake ? fake_block
         : call->def == &ipu__op_quantize_linear.kernel
             ? quantize_block
             : dequantize_block)(&r, i, n, channel_of(&c, i), each);
    }
    return IPU_OK;
}

/* ---- dynamic_quantize_linear ---- */

enum { DYNAMIC_Y = 1, DYNAMIC_SCALE, DYNAMIC_ZERO };

static ipu_status dynamic_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_type(call, X, IPU_FLOAT));
    out[0] = (ipu__kernel_value){IPU_UINT8, call->operand[X].shape};
    out[1] = (ipu__kernel_value){IPU_FLOAT, IPU_SCALAR};
    out[2] = (ipu__kernel_value){IPU_UINT8, IPU_SCALAR};
    return IPU_OK;
}

/* A range of nothing but 0 has scale 1. */
static void dynamic_scale(float low, float high, float *scale, float *zero)
{
    *scale  = high > low ? (high - low) / 255.0f : 1;
    float z = rintf(0 - low / *scale);
    *zero   = !(z > 0) ? 0 : z > 255 ? 255 : z;
}

static void dynamic_ref(const ipu__kernel_call *call, void *const *operand)
{
    const float *x   = operand[X];
    int64_t      n   = ipu__op_n_elements(&call->operand[X].shape);
    float        low = 0, high = 0, scale, zero;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    dynamic_scale(low, high, &scale, &zero);
    for (int64_t i = 0; i < n; i++)
        ipu__quantized_store(IPU_UINT8, operand[DYNAMIC_Y], i, (double)(rintf(x[i] / scale) + zero));
    *(float *)operand[DYNAMIC_SCALE]  = scale;
    *(uint8_t *)operand[DYNAMIC_ZERO] = (uint8_t)zero;
}

/* Every part looks for the range of all: that is one reading. */
static ipu_status dynamic_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu__quantize_loops *loops = &IPU__SIMD_PICK(ipu__quantize_loops_of);
    int64_t                    n     = ipu__op_n_elements(&call->operand[X].shape);
    ipu_interval               mine  = ipu__op_part(n, 64, part, n_parts);
    float                      low = 0, high = 0, scale, zero;
    loops->range(operand[X], n, &low, &high);
    dynamic_scale(low, high, &scale, &zero);
    loops->to_uint8((const float *)operand[X] + mine.begin, &scale, &zero, false,
                    (uint8_t *)operand[DYNAMIC_Y] + mine.begin, mine.end - mine.begin);
    if (part > 0) return IPU_OK;
    *(float *)operand[DYNAMIC_SCALE]  = scale;
    *(uint8_t *)operand[DYNAMIC_ZERO] = (uint8_t)zero;
    return IPU_OK;
}

/* ---- gradients ---- */

/* A scale or zero point in a shape that broadcasts with x. */
static ipu_value along_axis(ipu_builder *b, const ipu__kernel_call *call, ipu_value v)
{
    const ipu_shape *x     = &call->operand[X].shape;
    ipu_shape        shape = {.rank = x->rank};
    int              axis  = -1;
    if (ipu_value_n_elements(v) != 1) ipu__op_axis(call, "axis", x->rank, &axis);
    for (int d = 0; d < x->rank; d++) shape.dim[d] = d == axis ? x->dim[d] : 1;
    return ipu_reshape(b, v, shape);
}

static void dequantize_grad(ipu__gradient *g)
{
    ipu_builder *b    = g->b;
    ipu_type     type = ipu_value_type(g->d_out[0]);
    if (!g->wanted[SCALE]) return;
    ipu_value x = ipu_cast(b, g->in[X], type), scale = along_axis(b, g->call, g->in[SCALE]);
    if (ipu__has(g->in[ZERO])) x = ipu_sub(b, x, ipu_cast(b, along_axis(b, g->call, g->in[ZERO]), type));
    ipu_value d    = ipu__sum_like(b, ipu_mul(b, x, g->d_out[0]), scale);
    g->d_in[SCALE] = ipu_reshape(b, d, ipu_value_shape(g->in[SCALE]));
}

static void fake_grad(ipu__gradient *g)
{
    ipu_builder *b    = g->b;
    ipu_type     type = ipu_value_type(g->in[X]);
    if (!g->wanted[X]) return;
    ipu_value q = ipu_round(b, ipu_div(b, g->in[X], along_axis(b, g->call, g->in[SCALE])));
    if (ipu__has(g->in[ZERO])) q = ipu_add(b, q, ipu_cast(b, along_axis(b, g->call, g->in[ZERO]), type));
    ipu_value low    = ipu_scalar_like(b, q, (double)ipu__op_int(g->call, "low"));
    ipu_value high   = ipu_scalar_like(b, q, (double)ipu__op_int(g->call, "high"));
    ipu_value inside = ipu_logical_and(b, ipu_greater_equal(b, q, low), ipu_less_equal(b, q, high));
    g->d_in[X]       = ipu_where(b, inside, g->d_out[0], ipu_scalar_like(b, q, 0));
}

/* ---- prices and records ---- */

static double work(const ipu__kernel_call *call)
{
    return 4 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {26, 2, 7};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[X].shape), 4, target, out));
    out->basis = "our estimate: a loop over pairs like PopLibs' casts, with a product, a sum and two limits";
    return IPU_OK;
}

static ipu_status dynamic_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {60, 2, 9}; /* twice over x: its range, then its elements */
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[X].shape), 4, target, out));
    out->bytes_received = out->bytes_sent = 8 * out->n_tiles;
    out->basis = "our estimate: a loop for the range, 8 bytes of every tile to all, a loop like a cast";
    return IPU_OK;
}

static const ipu__kernel_operand operands[]         = {IPU__INPUT("x"), IPU__INPUT("scale"),
                                                       IPU__OPTIONAL("zero_point"), IPU__OUTPUT("y")};
static const ipu__kernel_operand fake_operands[]    = {IPU__INPUT("x"), IPU__INPUT("scale"),
                                                       IPU__OPTIONAL("zero_point"), IPU__OUTPUT_OVER("y", X)};
static const ipu__kernel_operand dynamic_operands[] = {IPU__INPUT("x"), IPU__OUTPUT("y"),
                                                       IPU__OUTPUT("scale"), IPU__OUTPUT("zero_point")};

#define AXIS                                                       \
    {                                                              \
        .name = "axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, \
        .meaning = "dimension with a scale for each place"         \
    }
static const ipu_op_attribute quantize_attributes[]   = {AXIS,
                                                         {.name           = "type",
                                                          .kind           = IPU_ATTRIBUTE_TEXT,
                                                          .text_otherwise = "uint8",
                                                          .meaning        = "of y, if there is no zero point"}};
static const ipu_op_attribute dequantize_attributes[] = {AXIS};
static const ipu_op_attribute fake_attributes[]       = {
          AXIS,
          {.name = "low", .kind = IPU_ATTRIBUTE_INT, .otherwise = -128, .meaning = "least whole number"},
          {.name = "high", .kind = IPU_ATTRIBUTE_INT, .otherwise = 127, .meaning = "greatest whole number"}};

static const char *const quantize_samples[] = {
    "float[3,5], float[]{0.01,0.02}",
    "float[3,5], float[1]{0.004,0.02}; type=int8",
    "float[2,3,4], float[3]{0.01,0.02}, uint8[3]{0,255}",
    "float[2,70], float[70]{0.01,0.02}, int8[70]{-128,127}; axis=-1",
    "float[5,3], float[5]{0.1,1}; axis=0",
    "float[], float[]{0.1,1}",
    "float[0,3], float[3]{1,2}",
    "float[31,1100], float[31]{0.01,0.1}, int8[31]; axis=0",
    NULL};
static const char *const dequantize_samples[] = {
    "uint8[3,5]{0,255}, float[]{0.01,0.02}",
    "int8[3,5]{-128,127}, float[1]{0.004,0.02}, int8[1]{-9,9}",
    "uint8[2,3,4]{0,255}, float[3]{0.01,0.02}, uint8[3]{0,255}",
    "int8[2,70]{-128,127}, float[70], int8[70]{-128,127}; axis=-1",
    "int32[5,3]{-1000000,1000000}, float[5]{0.1,1}; axis=0",
    "int32[5,3]{-9,9}, float[5]{0.1,1}, int32[5]; axis=0",
    "uint8[0,3], float[3]{1,2}",
    "uint8[31,1100], float[31]{0.01,0.1}, uint8[31]; axis=0",
    NULL};
static const char *const fake_samples[] = {
    "float[3,5], float[]{0.01,0.02}",
    "float[2,3,4], float[3]{0.01,0.02}, int32[3]; low=0 high=255",
    "float[2,70], float[70]{0.1,0.2}, int32[70]{-3,3}; axis=-1 low=-8 high=7",
    "float[0,3], float[3]{1,2}",
    "float[31,1100], float[31]{0.01,0.1}; axis=0",
    NULL};
static const char *const dynamic_samples[] = {
    "float[6]", "float[3,4]{1,4}", "float[2,3]{-4,-1}", "float[]", "float[0]", "float[31,1100]", NULL};

static const ipu__cpu_impl block_implementations[] = {
    {.head = {"blocks", fits_floats}, .scratch_bytes = scratch_bytes, .run = run_blocks}};
static const ipu__cpu_impl dynamic_implementations[] = {
    {.head = {"blocks", ipu__op_fits_always}, .run = dynamic_run}};

#define RECORD(op, prefix, operands_, ins, impls, plan_, ...)                               \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name            = #op,                   \
                                                  .operands        = operands_,             \
                                                  .n_operands      = IPU__COUNT(operands_), \
                                                  .check           = ipu__op_check,         \
                                                  .rows            = ipu__op_rows,          \
                                                  .ref             = prefix##_ref,          \
                                                  .work            = work,                  \
                                                  .plan            = plan_,                 \
                                                  .implementations = IPU__ON_CPU(impls)},   \
                                      .n_in    = ins,                                       \
                                      .family  = "quantize",                                \
                                      .infer   = prefix##_infer,                            \
                                      .samples = prefix##_samples,                          \
                                      __VA_ARGS__}
#define WITH_ATTRIBUTES(prefix) \
    .attributes = prefix##_attributes, .n_attributes = IPU__COUNT(prefix##_attributes)

RECORD(quantize_linear, quantize, operands, 3, block_implementations, plan, WITH_ATTRIBUTES(quantize),
       .flags   = IPU__OP_NO_GRADIENT | IPU__OP_SHORT_IN_HALF,
       .summary = "x / scale + zero_point as whole numbers of 8 bits");
RECORD(dequantize_linear, dequantize, operands, 3, block_implementations, plan, WITH_ATTRIBUTES(dequantize),
       .flags = IPU__OP_SHORT_IN_HALF, .grad = dequantize_grad, .summary = "(x - zero_point) * scale");
RECORD(fake_quantize, fake, fake_operands, 3, block_implementations, plan, WITH_ATTRIBUTES(fake),
       .flags = IPU__OP_SHORT_IN_HALF, .grad = fake_grad,
       .summary = "quantised and back; gradients pass as if nothing was rounded");
RECORD(dynamic_quantize_linear, dynamic, dynamic_operands, 1, dynamic_implementations, dynamic_plan,
       .flags   = IPU__OP_NO_GRADIENT | IPU__OP_SHORT_IN_HALF,
       .summary = "quantised to uint8 by the range of x and 0");

/* ---- the functions of ipu/op/quantize.h ---- */

ipu_value ipu_quantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis)
{
    return ipu__emit1(b, "quantize_linear", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)),
                      IPU__IN(x, scale, zero_point));
}

ipu_value ipu_dequantize_linear(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis)
{
    return ipu__emit1(b, "dequantize_linear", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)),
                      IPU__IN(x, scale, zero_point));
}

ipu_value ipu_fake_quantize(ipu_builder *b, ipu_value x, ipu_value scale, ipu_value zero_point, int axis,
                            int64_t low, int64_t high)
{
    return ipu__emit1(b, "fake_quantize",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("low", low),
                                IPU_INT_ATTRIBUTE("high", high)),
                      IPU__IN(x, scale, zero_point));
}

ipu_value ipu_dynamic_quantize_linear(ipu_builder *b, ipu_value x, ipu_value *scale, ipu_value *zero_point)
{
    ipu_value out[3];
    ipu_emit(b, "dynamic_quantize_linear", NULL, 0, &x, 1, out, 3);
    *scale      = out[1];
    *zero_point = out[2];
    return out[0];
}
