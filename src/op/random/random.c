/* Random numbers and dropout.
 *
 * Every element has its word of Philox's output (random.h); normal numbers come in pairs from two words by
 * Box and Muller's method, in double. Implementations match the reference bit for bit.
 */
#include "op/random/random.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/random.h"
#include "op/builder.h"
#include "op/vector/floats.h"
#include "op/number.h"

enum { SEED, REPLICA, OUT }; /* of those that make; dropout: x, seed, replica -> y */

uint32_t ipu__random_word(const ipu__random *r, int64_t i)
{
    uint64_t group = (uint64_t)i / 4;
    uint32_t words[4];
    ipu__philox(r->key, (uint32_t[]){(uint32_t)group, (uint32_t)(group >> 32), r->step, r->replica}, words);
    return words[i % 4];
}

ipu__random ipu__random_get(const ipu__kernel_call *call, void *const *operand, int seed)
{
    const uint32_t *s = operand[seed];
    ipu__random     r = {.key = {s[0], (uint32_t)ipu__op_int(call, "key")}, .step = s[1]};
    if (ipu__kernel_has(call, seed + 1)) r.replica = *(const uint32_t *)operand[seed + 1];
    return r;
}

/* ---- one element ---- */

typedef struct draw {
    ipu__random r;
    ipu_type    type;
    double      a, b;
} draw;

typedef double (*element_fn)(const draw *d, int64_t i, const uint32_t *word); /* word: of element i */

static double fraction(uint32_t word) { return (double)(word >> 8) * 0x1p-24; }

static double uniform_of(const draw *d, int64_t i, const uint32_t *word)
{
    (void)i;
    return d->a + (d->b - d->a) * fraction(*word);
}

static double normal_of(const draw *d, int64_t i, const uint32_t *word)
{
    const uint32_t *pair  = word - i % 2;
    double          r     = sqrt(-2 * log(fraction(pair[0]) + 0x1p-24));
    double          angle = 6.28318530717958647693 * fraction(pair[1]);
    return d->a + d->b * r * (i % 2 ? sin(angle) : cos(angle));
}

static uint32_t limit_of(double p) { return (uint32_t)(p * 0x1p24); }

static double bernoulli_of(const draw *d, int64_t i, const uint32_t *word)
{
    (void)i;
    return (*word >> 8) < limit_of(d->a);
}

static double int_of(const draw *d, int64_t i, const uint32_t *word)
{
    (void)i;
    return d->a + (double)(((uint64_t)*word * (uint64_t)(d->b - d->a)) >> 32);
}

/* ---- inference ---- */

static ipu_status want_seed(const ipu__kernel_call *call, int seed)
{
    IPU_TRY(ipu__op_want_type(call, seed, IPU_UINT32));
    IPU_TRY(ipu__op_want_shape(call, seed, &IPU_SHAPE(2)));
    if (!ipu__kernel_has(call, seed + 1)) return IPU_OK;
    IPU_TRY(ipu__op_want_type(call, seed + 1, IPU_UINT32));
    return ipu__op_want_shape(call, seed + 1, &IPU_SCALAR);
}

static ipu_status want_key(const ipu__kernel_call *call)
{
    int64_t key = ipu__op_int(call, "key");
    if (key >= 0 && key <= UINT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: key = %lld: expected 0 to 2^32 - 1", call->def->name, (long long)key);
}

ipu_status ipu__random_check(const ipu__kernel_call *call, int seed)
{
    IPU_TRY(want_seed(call, seed));
    return want_key(call);
}

static ipu_status floating_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__random_check(call, SEED));
    IPU_TRY(ipu__op_made(call, out));
    if (ipu__op_is_floating(out->type)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: expected half, bfloat16, float or double, found %s", call->def->name,
                     ipu_type_name(out->type));
}

static ipu_status want_probability(const ipu__kernel_call *call)
{
    double p = ipu__op_float(call, "p");
    if (p >= 0 && p <= 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: p = %g: expected a probability, 0 to 1", call->def->name, p);
}

static ipu_status bernoulli_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__random_check(call, SEED));
    IPU_TRY(want_probability(call));
    return ipu__op_made(call, out);
}

static ipu_status int_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t low = ipu__op_int(call, "low"), high = ipu__op_int(call, "high");
    IPU_TRY(ipu__random_check(call, SEED));
    IPU_TRY(ipu__op_made(call, out));
    uint64_t bits;
    bool     fits = ipu__op_is_integer(out->type) && low > -((int64_t)1 << 52) && high < (int64_t)1 << 52
             && ipu__value_from_double(out->type, (double)low, &bits)
             && ipu__value_from_double(out->type, (double)(high - 1), &bits);
    if (fits && low < high && high - low <= (int64_t)1 << 32) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "random_int: %lld to %lld in %s: expected low < high that the type holds, at most "
                     "2^32 apart and below 2^52",
                     (long long)low, (long long)high, ipu_type_name(out->type));
}

static ipu_status dropout_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    IPU_TRY(ipu__random_check(call, 1));
    IPU_TRY(want_probability(call));
    *out = call->operand[0];
    return IPU_OK;
}

/* ---- references and runs ---- */

static const struct {
    const ipu__op_def *op;
    element_fn         element;
    const char        *a, *b; /* attributes; NULL: none */
} kinds[] = {{&ipu__op_random_uniform, uniform_of, "low", "high"},
             {&ipu__op_random_normal, normal_of, "mean", "std"},
             {&ipu__op_random_bernoulli, bernoulli_of, "p", NULL},
             {&ipu__op_random_int, int_of, "low", "high"}};

static element_fn draw_of(const ipu__kernel_call *call, void *const *operand, draw *d)
{
    size_t kind = 0;
    while (&kinds[kind].op->kernel != call->def) kind++;
    *d   = (draw){.r = ipu__random_get(call, operand, SEED), .type = call->operand[OUT].type};
    d->a = ipu__op_float(call, kinds[kind].a);
    d->b = kinds[kind].b ? ipu__op_float(call, kinds[kind].b) : 0;
    return kinds[kind].element;
}

static void store(ipu_type type, void *to, int64_t i, double value)
{
    if (ipu__op_is_floating(type)) {
        ipu__number_store(type, to, i, value);
        return;
    }
    int64_t whole = (int64_t)value;
    size_t  size  = ipu_type_size(type);
    memcpy((char *)to + (size_t)i * size, &whole, size); /* low bytes first */
}

static void made_ref(const ipu__kernel_call *call, void *const *operand)
{
    draw       d;
    element_fn element = draw_of(call, operand, &d);
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[OUT].shape); i++) {
        uint32_t words[2] = {ipu__random_word(&d.r, i - i % 2), ipu__random_word(&d.r, i - i % 2 + 1)};
        store(d.type, operand[OUT], i, element(&d, i, &words[i % 2]));
    }
}

static size_t made_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return IPU__RANDOM_BLOCK * sizeof(uint32_t);
}

static ipu_status made_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state;
    draw                     d;
    element_fn               element = draw_of(call, operand, &d);
    const ipu__random_loops *loops   = &IPU__SIMD_PICK(ipu__random_loops_of);
    uint32_t                *words   = scratch;
    ipu_interval mine = ipu__op_part(ipu__op_n_elements(&call->operand[OUT].shape), IPU__RANDOM_BLOCK, part,
                                     n_parts);
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t n = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&d.r, i, words);
        if (element == uniform_of && d.type == IPU_FLOAT)
            loops->uniform(words, d.a, d.b - d.a, (float *)operand[OUT] + i, n);
        else
            for (int64_t k = 0; k < n; k++) store(d.type, operand[OUT], i + k, element(&d, i + k, &words[k]));
    }
    return IPU_OK;
}

/* 1 / (1 - p); with p = 1 nothing is left to scale. */
static float scale_of(double p) { return p < 1 ? (float)(1 / (1 - p)) : 0; }

static void dropout_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type    type = call->operand[0].type;
    double      p    = ipu__op_float(call, "p");
    ipu__random r    = ipu__random_get(call, operand, 1);
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[0].shape); i++) {
        bool   dropped = (ipu__random_word(&r, i) >> 8) < limit_of(p);
        double x       = ipu__number_load(type, operand[0], i);
        double y = type == IPU_DOUBLE ? x * (p < 1 ? 1 / (1 - p) : 0) : (double)((float)x * scale_of(p));
        ipu__number_store(type, operand[3], i, dropped ? 0 : y);
    }
}

static bool dropout_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    return call->operand[0].type != IPU_DOUBLE;
}

static size_t dropout_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return IPU__RANDOM_BLOCK * (sizeof(uint32_t) + sizeof(float));
}

static ipu_status dropout_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state;
    ipu_type                 type  = call->operand[0].type;
    double                   p     = ipu__op_float(call, "p");
    ipu__random              r     = ipu__random_get(call, operand, 1);
    const ipu__random_loops *loops = &IPU__SIMD_PICK(ipu__random_loops_of);
    uint32_t                *words = scratch;
    float                   *block = (float *)(words + IPU__RANDOM_BLOCK);
    ipu_interval mine = ipu__op_part(ipu__op_n_elements(&call->operand[0].shape), IPU__RANDOM_BLOCK, part,
                                     n_parts);
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t n = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&r, i, words);
        if (type == IPU_FLOAT) {
            loops->drop(words, limit_of(p), scale_of(p), (const float *)operand[0] + i,
                        (float *)operand[3] + i, n);
            continue;
        }
        ipu__floats_load(type, operand[0], i, n, block);
        loops->drop(words, limit_of(p), scale_of(p), block, block, n);
        ipu__floats_store(type, block, operand[3], i, n);
    }
    return IPU_OK;
}

static void dropout_grad(ipu__gradient *g)
{
    if (g->wanted[0])
        g->d_in[0] = ipu__emit1(g->b, "dropout", g->call->attributes, g->call->n_attributes,
                                IPU__IN(g->d_out[0], g->in[1], g->in[2]));
}

/* ---- pricing and records ---- */

static double work(const ipu__kernel_call *call)
{
    return 12 * (double)ipu__op_n_elements(&call->operand[call->n_operands - 1].shape);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu_type     type = call->operand[call->n_operands - 1].type;
    ipu__op_loop loop = {40, type == IPU_HALF ? 4 : 2, call->def == &ipu__op_random_normal.kernel ? 8 : 4};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[call->n_operands - 1].shape), 2,
                              target, out));
    out->basis =
        "our estimate: tiles have a random generator of their own, and draw vectors like a unary operation";
    return IPU_OK;
}

#define NUMBER(n, k, d, text)                                         \
    {                                                                 \
        .name = (n), .kind = (k), .otherwise = (d), .meaning = (text) \
    }
#define KEY NUMBER("key", IPU_ATTRIBUTE_INT, 0, "which op of the program draws")
static const ipu_op_attribute uniform_attributes[] = {NUMBER("low", IPU_ATTRIBUTE_FLOAT, 0, "smallest"),
                                                      NUMBER("high", IPU_ATTRIBUTE_FLOAT, 1, "bound above"),
                                                      KEY, IPU__MADE_ATTRIBUTES};
static const ipu_op_attribute normal_attributes[]  = {
     NUMBER("mean", IPU_ATTRIBUTE_FLOAT, 0, "mean"),
     NUMBER("std", IPU_ATTRIBUTE_FLOAT, 1, "standard deviation"), KEY, IPU__MADE_ATTRIBUTES};
static const ipu_op_attribute bernoulli_attributes[] = {
    NUMBER("p", IPU_ATTRIBUTE_FLOAT, 0.5, "probability of 1"), KEY, IPU__MADE_ATTRIBUTES};
static const ipu_op_attribute int_attributes[]     = {NUMBER("low", IPU_ATTRIBUTE_INT, 0, "smallest"),
                                                      NUMBER("high", IPU_ATTRIBUTE_INT, 2, "bound above"), KEY,
                                                      IPU__MADE_ATTRIBUTES};
static const ipu_op_attribute dropout_attributes[] = {
    NUMBER("p", IPU_ATTRIBUTE_FLOAT, 0.5, "probability of 0"), KEY};

static const ipu__kernel_operand made_operands[]    = {IPU__INPUT("seed"), IPU__OPTIONAL("replica"),
                                                       IPU__OUTPUT("y")};
static const ipu__kernel_operand dropout_operands[] = {IPU__INPUT("x"), IPU__INPUT("seed"),
                                                       IPU__OPTIONAL("replica"), IPU__OUTPUT_OVER("y", 0)};

static const char *const uniform_samples[]   = {"uint32[2]; shape=[5,7] low=-1",
                                                "uint32[2], uint32[]; shape=[3] key=3",
                                                "uint32[2]; shape=[50,1000] low=2 high=3", NULL};
static const char *const normal_samples[]    = {"uint32[2]; shape=[5,7]",
                                                "uint32[2], uint32[]; shape=[3] key=3 mean=2",
                                                "uint32[2]; shape=[50,1000] std=0.1", NULL};
static const char *const bernoulli_samples[] = {"uint32[2]; shape=[5,7] p=0.3",
                                                "uint32[2]; shape=[9] type=bool",
                                                "uint32[2], uint32[]; shape=[50,1000] type=int8 key=9", NULL};
static const char *const int_samples[]       = {"uint32[2]; shape=[5,7] low=-5 high=5 type=int32",
                                                "uint32[2]; shape=[50,1000] high=200 type=uint8", NULL};
static const char *const dropout_samples[]   = {"float[5,7], uint32[2]; p=0.3",
                                                "float[3], uint32[2], uint32[]; p=1 key=2",
                                                "float[50,1000], uint32[2]; p=0.1", NULL};

static const ipu__cpu_impl made_implementations[] = {
    {.head = {"blocks", ipu__op_fits_always}, .scratch_bytes = made_scratch_bytes, .run = made_run}};
static const ipu__cpu_impl dropout_implementations[] = {
    {.head = {"blocks", dropout_fits}, .scratch_bytes = dropout_scratch_bytes, .run = dropout_run}};

#define RECORD(op, kind, prefix, ins, ...)                                                                      \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                                  \
                                                       .operands        = kind##_operands,                      \
                                                       .n_operands      = (ins) + 1,                            \
                                                       .check           = ipu__op_check,                        \
                                                       .rows            = ipu__op_rows,                         \
                                                       .ref             = kind##_ref,                           \
                                                       .work            = work,                                 \
                                                       .plan            = plan,                                 \
                                                       .implementations = IPU__ON_CPU(kind##_implementations)}, \
                                      .n_in         = (ins),                                                    \
                                      .family       = "random",                                                 \
                                      .attributes   = prefix##_attributes,                                      \
                                      .n_attributes = IPU__COUNT(prefix##_attributes),                          \
                                      .samples      = prefix##_samples,                                         \
                                      __VA_ARGS__}
RECORD(random_uniform, made, uniform, 2, .infer = floating_infer, .flags = IPU__OP_NO_GRADIENT,
       .summary = "random numbers, low <= y < high");
RECORD(random_normal, made, normal, 2, .infer = floating_infer, .flags = IPU__OP_NO_GRADIENT,
       .summary = "random numbers of a normal distribution");
RECORD(random_bernoulli, made, bernoulli, 2, .infer = bernoulli_infer, .flags = IPU__OP_NO_GRADIENT,
       .summary = "1 with probability p, else 0");
RECORD(random_int, made, int, 2, .infer = int_infer, .flags = IPU__OP_NO_GRADIENT,
       .summary = "random whole numbers, low <= y < high");
RECORD(dropout, dropout, dropout, 3, .infer = dropout_infer, .grad = dropout_grad,
       .summary = "0 with probability p, else x / (1 - p)");

/* ---- the functions of ipu/op/random.h ---- */

static ipu_value make(ipu_builder *b, const char *op, ipu_value seed, ipu_type type, const ipu_shape *shape,
                      ipu_attribute first, ipu_attribute second)
{
    ipu_attribute list[] = {first, IPU__INTS("shape", shape->dim, shape->rank),
                            IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type)), second};
    return ipu__emit1(b, op, list, second.name ? 4 : 3, IPU__IN(seed));
}

ipu_value ipu_random_uniform(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double low,
                             double high)
{
    return make(b, "random_uniform", seed, type, &shape, IPU_FLOAT_ATTRIBUTE("low", low),
                IPU_FLOAT_ATTRIBUTE("high", high));
}

ipu_value ipu_random_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                            double standard_deviation)
{
    return make(b, "random_normal", seed, type, &shape, IPU_FLOAT_ATTRIBUTE("mean", mean),
                IPU_FLOAT_ATTRIBUTE("std", standard_deviation));
}

ipu_value ipu_random_bernoulli(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p)
{
    return make(b, "random_bernoulli", seed, type, &shape, IPU_FLOAT_ATTRIBUTE("p", p), (ipu_attribute){0});
}

ipu_value ipu_random_int(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, int64_t low,
                         int64_t high)
{
    return make(b, "random_int", seed, type, &shape, IPU_INT_ATTRIBUTE("low", low),
                IPU_INT_ATTRIBUTE("high", high));
}

ipu_value ipu_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p)
{
    return ipu__emit1(b, "dropout", &IPU_FLOAT_ATTRIBUTE("p", p), 1, IPU__IN(x, seed));
}
