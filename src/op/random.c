/* Random numbers by element: uniform, normal, bernoulli, integers. */
#include "op/random.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "graph/graph.h"
#include "ipu/random.h"
#include "op/builder.h"
#include "op/number.h"

/* ---- bits ---- */

ipu_status ipu__random_check(const ipu_kernel_call *call, int seed, int replica)
{
    int64_t key = ipu__op_int(call, "key");
    IPU_TRY(ipu__op_want_type(call, seed, IPU_UINT32));
    IPU_TRY(ipu__op_want_shape(call, seed, &IPU_SHAPE(2)));
    if (key < 0 || key > UINT32_MAX)
        return ipu__fail(IPU_INVALID, "%s: key = %lld: expected 0 to 2^32 - 1", call->def->name,
                         (long long)key);
    if (!ipu__kernel_has(call, replica)) return IPU_OK;
    IPU_TRY(ipu__op_want_type(call, replica, IPU_UINT32));
    if (ipu__op_n_elements(&call->operand[replica].shape) == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"replica\" must have one element, found %s", call->def->name,
                     ipu__shape_str(&call->operand[replica].shape));
}

ipu__random ipu__random_get(const ipu_kernel_call *call, void *const *operand, int seed, int replica)
{
    ipu__random r = {.op = (uint32_t)ipu__op_int(call, "key")};
    memcpy(r.seed, operand[seed], sizeof r.seed);
    if (ipu__kernel_has(call, replica)) memcpy(&r.replica, operand[replica], sizeof r.replica);
    return r;
}

uint32_t ipu__random_bits(const ipu__random *r, int64_t i)
{
    uint64_t counter = (uint64_t)(i / IPU__RANDOM_BLOCK * IPU__RANDOM_COUNTERS + i % IPU__RANDOM_COUNTERS);
    uint32_t in[4]   = {(uint32_t)counter, (uint32_t)(counter >> 32), r->op, r->replica}, out[4];
    ipu__philox(r->seed, in, out);
    return out[i / IPU__RANDOM_COUNTERS % 4];
}

uint32_t ipu__random_limit(double p) { return (uint32_t)ceil(p * 0x1p24); }

/* ---- what each op makes of them ---- */

enum { SEED, REPLICA, OUT };

/* Two numbers of each op and what is made of one element's bits, or of a pair's for `normal`. */
typedef struct kind {
    const char *a, *b; /* names of its attributes */
    double (*value)(const ipu__random *r, int64_t i, double a, double b);
} kind;

static double uniform_value(const ipu__random *r, int64_t i, double low, double high)
{
    return low + ipu__random_unit(ipu__random_bits(r, i)) * (high - low);
}

/* Elements whose places in a block differ by 256, lanes 0 and 1 or 2 and 3 of one counter, are a pair. */
static double normal_value(const ipu__random *r, int64_t i, double mean, double deviation)
{
    bool    is_second = i / IPU__RANDOM_COUNTERS % 2 != 0;
    int64_t first     = is_second ? i - IPU__RANDOM_COUNTERS : i;
    double  u         = ipu__random_unit(ipu__random_bits(r, first)) + 0x1p-24; /* not 0 */
    double  angle     = 2 * 3.14159265358979323846
                 * ipu__random_unit(ipu__random_bits(r, first + IPU__RANDOM_COUNTERS));
    return mean + deviation * sqrt(-2 * log(u)) * (is_second ? sin(angle) : cos(angle));
}

static double bernoulli_value(const ipu__random *r, int64_t i, double p, double unused)
{
    (void)unused;
    return ipu__random_bits(r, i) >> 8 < ipu__random_limit(p) ? 1 : 0;
}

/* The upper half of a product is even to 1 in 2^32 / (high - low). */
static int64_t integer_from(uint32_t bits, int64_t low, int64_t high)
{
    return low + (int64_t)((uint64_t)bits * (uint64_t)(high - low) >> 32);
}

static const kind kinds[] = {
    {"low", "high", uniform_value}, {"mean", "deviation", normal_value}, {"p", "p", bernoulli_value}};
enum { UNIFORM, NORMAL, BERNOULLI, INTEGERS };

static int kind_of(const ipu_kernel_call *call)
{
    const ipu_kernel_def *def = call->def;
    if (def == &ipu__op_random_uniform.kernel) return UNIFORM;
    if (def == &ipu__op_random_normal.kernel) return NORMAL;
    return def == &ipu__op_random_bernoulli.kernel ? BERNOULLI : INTEGERS;
}

static void store(ipu_type type, void *to, int64_t i, double value)
{
    if (ipu__op_is_floating(type))
        ipu__number_store(type, to, i, value);
    else
        ipu__value_from_double(type, value, (char *)to + (size_t)i * ipu_type_size(type));
}

static void ref_range(const ipu_kernel_call *call, void *const *operand, ipu_interval range)
{
    ipu__random r    = ipu__random_get(call, operand, SEED, REPLICA);
    ipu_type    type = call->operand[OUT].type;
    int         k    = kind_of(call);
    if (k == INTEGERS) {
        int64_t low = ipu__op_int(call, "low"), high = ipu__op_int(call, "high");
        for (int64_t i = range.begin; i < range.end; i++) {
            int64_t value = integer_from(ipu__random_bits(&r, i), low, high);
            memcpy((char *)operand[OUT] + (size_t)i * ipu_type_size(type), &value, ipu_type_size(type));
        }
        return;
    }
    double a = ipu__op_float(call, kinds[k].a), b = ipu__op_float(call, kinds[k].b);
    for (int64_t i = range.begin; i < range.end; i++)
        store(type, operand[OUT], i, kinds[k].value(&r, i, a, b));
}

static void random_ref(const ipu_kernel_call *call, void *const *operand)
{
    ref_range(call, operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[OUT].shape)});
}

/* ---- by blocks, in float ---- */

static bool blocks_fit(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)cpu_features, (void)n_parts;
    ipu_type type = call->operand[OUT].type;
    return type == IPU_FLOAT || type == IPU_HALF;
}

static void make_normal(const uint32_t *bits, float mean, float deviation, float *to, int64_t n)
{
    for (int half = 0; half < 2; half++) {
        const uint32_t *u = bits + (size_t)half * 2 * IPU__RANDOM_COUNTERS, *v = u + IPU__RANDOM_COUNTERS;
        float  *first = to + (size_t)half * 2 * IPU__RANDOM_COUNTERS, *second = first + IPU__RANDOM_COUNTERS;
        int64_t left = n - (int64_t)half * 2 * IPU__RANDOM_COUNTERS;
        for (int64_t i = 0; i < IPU__RANDOM_COUNTERS && i < left; i++) {
            float r     = deviation * sqrtf(-2 * logf(((float)(u[i] >> 8) + 1) * 0x1p-24f));
            float angle = 2 * 3.14159265358979323846f * (float)(v[i] >> 8) * 0x1p-24f;
            first[i]    = mean + r * cosf(angle);
            second[i]   = mean + r * sinf(angle); /* there is room, also where the block ends before it */
        }
    }
}

static ipu_status blocks_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu__random_loops *loops = &IPU__SIMD_PICK(ipu__random_loops_at);
    ipu__random              r     = ipu__random_get(call, operand, SEED, REPLICA);
    int64_t                  n     = ipu__op_n_elements(&call->operand[OUT].shape);
    ipu_interval             mine  = ipu__op_part(n, IPU__RANDOM_BLOCK, part, n_parts);
    int                      k     = kind_of(call);
    double                   a = ipu__op_float(call, kinds[k].a), b = ipu__op_float(call, kinds[k].b);
    uint32_t                 bits[IPU__RANDOM_BLOCK], limit = k == BERNOULLI ? ipu__random_limit(a) : 0;
    float                    to[IPU__RANDOM_BLOCK];
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t left = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&r, i / IPU__RANDOM_BLOCK, left, bits);
        if (k == UNIFORM)
            loops->uniform(bits, (float)a, (float)((b - a) * 0x1p-24), to, left);
        else if (k == NORMAL)
            make_normal(bits, (float)a, (float)b, to, left);
        else
            for (int64_t j = 0; j < left; j++) to[j] = bits[j] >> 8 < limit ? 1 : 0;
        if (call->operand[OUT].type == IPU_FLOAT)
            memcpy((float *)operand[OUT] + i, to, (size_t)left * sizeof *to);
        else
            ipu_half_from_floats(to, (ipu_half *)operand[OUT] + i, (size_t)left);
    }
    return IPU_OK;
}

static ipu_status plain_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state, (void)scratch;
    int64_t n = ipu__op_n_elements(&call->operand[OUT].shape);
    ref_range(call, operand, ipu__op_part(n, IPU__RANDOM_BLOCK, part, n_parts));
    return IPU_OK;
}

/* ---- records ---- */

static ipu_status random_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__random_check(call, SEED, REPLICA));
    return ipu__op_made(call, out);
}

static ipu_status floating_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(random_infer(call, out));
    if (ipu__op_is_floating(out->type)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: type %s: expected half, bfloat16, float or double", call->def->name,
                     ipu_type_name(out->type));
}

static ipu_status bernoulli_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    double p = ipu__op_float(call, "p");
    if (!(p >= 0 && p <= 1)) return ipu__fail(IPU_INVALID, "random_bernoulli: p = %g: expected 0 to 1", p);
    return random_infer(call, out);
}

static ipu_status integers_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    int64_t low = ipu__op_int(call, "low"), high = ipu__op_int(call, "high"), n;
    IPU_TRY(random_infer(call, out));
    if (__builtin_sub_overflow(high, low, &n) || n < 1 || n > UINT32_MAX)
        return ipu__fail(IPU_INVALID, "random_integers: %lld to %lld: expected 1 to 2^32 - 1 numbers",
                         (long long)low, (long long)high);
    bool ok = out->type == IPU_INT64 || (out->type == IPU_INT32 && low >= INT32_MIN && high - 1 <= INT32_MAX)
           || (out->type == IPU_UINT32 && low >= 0 && high - 1 <= UINT32_MAX);
    if (ok) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "random_integers: %lld to %lld in %s: expected int32, uint32 or int64 that holds them",
                     (long long)low, (long long)high, ipu_type_name(out->type));
}

static double random_work(const ipu_kernel_call *call)
{
    return 20 * (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

/* The chip has a random number generator in hardware: urand64 gives 64 bits in a cycle. */
static ipu_status random_plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu__op_loop loop = {29, 2, 5};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[OUT].shape), 2, target, out));
    out->basis =
        "our estimate: the tile's own generator, scaling and a 64-bit store, started like a PopLibs binary "
        "operation";
    return IPU_OK;
}

static const ipu_kernel_operand operands[] = {IPU__INPUT("seed"), IPU__OPTIONAL("replica"),
                                              IPU__OUTPUT("out")};
static const ipu_kernel_impl    impls[]    = {
          {.name = "blocks", .fits = blocks_fit, .run = blocks_run},
          {.name = "plain", .fits = ipu__op_fits_always, .run = plain_run},
};
enum { N_COMMON = 3 };

#define COMMON_ATTRIBUTES IPU__RANDOM_KEY, IPU__MADE_ATTRIBUTES
#define NUMBER(n, k, v, m)                                       \
    {                                                            \
        .name = (n), .kind = (k), .otherwise = (v), .meaning = m \
    }
static const ipu_op_attribute uniform_attributes[] = {
    COMMON_ATTRIBUTES,
    NUMBER("low", IPU_ATTRIBUTE_FLOAT, 0, "the least"),
    NUMBER("high", IPU_ATTRIBUTE_FLOAT, 1, "above the largest"),
};
static const ipu_op_attribute normal_attributes[] = {
    COMMON_ATTRIBUTES,
    NUMBER("mean", IPU_ATTRIBUTE_FLOAT, 0, "of the numbers"),
    NUMBER("deviation", IPU_ATTRIBUTE_FLOAT, 1, "standard deviation"),
};
static const ipu_op_attribute bernoulli_attributes[] = {
    COMMON_ATTRIBUTES,
    NUMBER("p", IPU_ATTRIBUTE_FLOAT, 0.5, "probability of 1"),
};
static const ipu_op_attribute integers_attributes[] = {
    COMMON_ATTRIBUTES,
    NUMBER("low", IPU_ATTRIBUTE_INT, 0, "the least"),
    NUMBER("high", IPU_ATTRIBUTE_INT, 0x7fffffff, "above the largest"),
};

static const char *const uniform_samples[]   = {"uint32[2]; shape=[5,7] key=3 low=-2 high=3",
                                                "uint32[2], uint32[]; shape=[1025]",
                                                "uint32[2]; shape=[] type=half",
                                                "uint32[2]; shape=[3] type=bfloat16",
                                                "uint32[2]; shape=[2000] type=double low=5 high=6",
                                                "uint32[2]; shape=[0]",
                                                "uint32[2]; shape=[300,40]",
                                                NULL};
static const char *const normal_samples[]    = {"uint32[2]; shape=[5,7] key=3 mean=-2 deviation=3",
                                                "uint32[2], uint32[1]; shape=[1300]",
                                                "uint32[2]; shape=[257] type=half",
                                                "uint32[2]; shape=[600] type=double",
                                                "uint32[2]; shape=[300,40]",
                                                NULL};
static const char *const bernoulli_samples[] = {"uint32[2]; shape=[5,7] key=3 p=0.3",
                                                "uint32[2]; shape=[100] type=bool",
                                                "uint32[2]; shape=[100] type=int32 p=1",
                                                "uint32[2]; shape=[300,40] p=0.75 type=half", NULL};
static const char *const integers_samples[]  = {
     "uint32[2]; shape=[5,7] key=3 low=-5 high=6 type=int32",
     "uint32[2]; shape=[2000] type=int64 low=-9000000000 high=-8999999990",
     "uint32[2]; shape=[30] type=uint32 high=4294967295", NULL};

#define RANDOM(op, op_summary, infer_fn, n_own, first_impl, n_impls) \
    const ipu_op_def ipu__op_random_##op = {                         \
        .kernel       = {.name              = "random_" #op,         \
                         .operands          = operands,              \
                         .n_operands        = 3,                     \
                         .check             = ipu__op_check,         \
                         .ref               = random_ref,            \
                         .work              = random_work,           \
                         .plan              = random_plan,           \
                         .implementations   = impls + (first_impl),  \
                         .n_implementations = (n_impls)},            \
        .n_in         = 2,                                           \
        .family       = "random",                                    \
        .summary      = (op_summary),                                \
        .flags        = IPU__OP_NO_GRADIENT,                         \
        .attributes   = op##_attributes,                             \
        .n_attributes = N_COMMON + (n_own),                          \
        .infer        = (infer_fn),                                  \
        .samples      = op##_samples,                                \
    }
RANDOM(uniform, "random numbers between two", floating_infer, 2, 0, 2);
RANDOM(normal, "random numbers of a normal distribution", floating_infer, 2, 0, 2);
RANDOM(bernoulli, "random zeros and ones", bernoulli_infer, 1, 0, 2);
RANDOM(integers, "random integers", integers_infer, 2, 1, 1);

/* ---- functions ---- */

static ipu_value emit(ipu_builder *b, const char *op, ipu_value seed, ipu_type type, const ipu_shape *shape,
                      const ipu_attribute *own, size_t n_own)
{
    ipu_attribute list[N_COMMON + 2] = {IPU_INT_ATTRIBUTE("key", b->next_key),
                                        IPU__INTS("shape", shape->dim, shape->rank < 0 ? 0 : shape->rank),
                                        IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type))};
    for (size_t i = 0; i < n_own; i++) list[N_COMMON + i] = own[i];
    return ipu__emit1(b, op, list, N_COMMON + n_own, IPU__IN(seed));
}

ipu_value ipu_random_uniform(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double low,
                             double high)
{
    return emit(b, "random_uniform", seed, type, &shape,
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("low", low), IPU_FLOAT_ATTRIBUTE("high", high)));
}

ipu_value ipu_random_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                            double deviation)
{
    return emit(b, "random_normal", seed, type, &shape,
                IPU__WITH(IPU_FLOAT_ATTRIBUTE("mean", mean), IPU_FLOAT_ATTRIBUTE("deviation", deviation)));
}

ipu_value ipu_random_bernoulli(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p)
{
    return emit(b, "random_bernoulli", seed, type, &shape, IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p)));
}

ipu_value ipu_random_integers(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, int64_t low,
                              int64_t high)
{
    return emit(b, "random_integers", seed, type, &shape,
                IPU__WITH(IPU_INT_ATTRIBUTE("low", low), IPU_INT_ATTRIBUTE("high", high)));
}
