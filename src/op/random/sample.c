/* bernoulli and multinomial: random numbers whose distributions are inputs. */
#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/random.h"
#include "op/builder.h"
#include "op/number.h"
#include "op/random/random.h"

enum { X, SEED, REPLICA, OUT };

static double fraction(uint32_t word) { return (double)(word >> 8) * 0x1p-24; }

static void store(ipu_type type, void *to, int64_t i, int64_t value)
{
    size_t size = ipu_type_size(type);
    if (ipu__op_is_floating(type))
        ipu__number_store(type, to, i, (double)value);
    else
        memcpy((char *)to + (size_t)i * size, &value, size); /* low bytes first */
}

/* ---- bernoulli ---- */

static ipu_status bernoulli_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const char *type = ipu__op_text(call, "type");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__random_check(call, SEED));
    *out = call->operand[X];
    if (!type) return IPU_OK;
    out->type = ipu_type_find(type);
    if (out->type != IPU_N_TYPES) return IPU_OK;
    return ipu__fail(IPU_INVALID, "bernoulli: there is no type \"%s\"", type);
}

static void bernoulli_range(const ipu__kernel_call *call, void *const *operand, ipu_interval mine)
{
    ipu_type    type = call->operand[X].type;
    ipu__random r    = ipu__random_get(call, operand, SEED);
    for (int64_t i = mine.begin; i < mine.end; i++)
        store(call->operand[OUT].type, operand[OUT], i,
              fraction(ipu__random_word(&r, i)) < ipu__number_load(type, operand[X], i));
}

static void bernoulli_ref(const ipu__kernel_call *call, void *const *operand)
{
    bernoulli_range(call, operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[OUT].shape)});
}

static size_t words_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return IPU__RANDOM_BLOCK * sizeof(uint32_t);
}

static ipu_status bernoulli_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                void *scratch, int part, int n_parts)
{
    (void)state;
    ipu_type                 type = call->operand[X].type, out = call->operand[OUT].type;
    ipu__random              r     = ipu__random_get(call, operand, SEED);
    const ipu__random_loops *loops = &IPU__SIMD_PICK(ipu__random_loops_of);
    uint32_t                *words = scratch;
    ipu_interval mine = ipu__op_part(ipu__op_n_elements(&call->operand[OUT].shape), IPU__RANDOM_BLOCK, part,
                                     n_parts);
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t n = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&r, i, words);
        for (int64_t k = 0; k < n; k++)
            store(out, operand[OUT], i + k, fraction(words[k]) < ipu__number_load(type, operand[X], i + k));
    }
    return IPU_OK;
}

#define bernoulli_ref_work NULL

/* ---- multinomial ---- */

static ipu_status multinomial_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const char      *type    = ipu__op_text(call, "type");
    const ipu_shape *x       = &call->operand[X].shape;
    int64_t          samples = ipu__op_int(call, "samples");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 2, 2));
    IPU_TRY(ipu__random_check(call, SEED));
    *out = (ipu__kernel_value){ipu_type_find(type), IPU_SHAPE(x->dim[0], samples)};
    if (out->type != IPU_INT32 && out->type != IPU_INT64)
        return ipu__fail(IPU_INVALID, "multinomial: type %s: expected int32 or int64", type);
    if (samples >= 0 && (x->dim[1] > 0 || samples == 0) && x->dim[1] <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "multinomial: samples = %lld of %lld classes: expected 0 or more, of 1 or more",
                     (long long)samples, (long long)x->dim[1]);
}

/* The exponential of class `k` of a row, whose largest element is `most`. */
static double share(ipu_type type, const void *x, int64_t at, double most)
{
    return exp(ipu__number_load(type, x, at) - most);
}

static double largest(ipu_type type, const void *x, int64_t at, int64_t n)
{
    double most = ipu__number_load(type, x, at);
    for (int64_t k = 1; k < n; k++) {
        double v = ipu__number_load(type, x, at + k);
        if (v > most) most = v;
    }
    return most;
}

static void multinomial_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type    type    = call->operand[X].type;
    ipu__random r       = ipu__random_get(call, operand, SEED);
    int64_t     classes = call->operand[X].shape.dim[1], samples = call->operand[OUT].shape.dim[1];
    for (int64_t i = 0; i < call->operand[X].shape.dim[0] * samples; i++) {
        int64_t at = i / samples * classes, k = 0;
        double  most = largest(type, operand[X], at, classes), sum = 0, total = 0;
        for (int64_t c = 0; c < classes; c++) total += share(type, operand[X], at + c, most);
        double u = fraction(ipu__random_word(&r, i)) * total;
        for (; k < classes - 1; k++) {
            sum += share(type, operand[X], at + k, most);
            if (u < sum) break;
        }
        store(call->operand[OUT].type, operand[OUT], i, k);
    }
}

static double multinomial_ref_work(const ipu__kernel_call *call)
{
    return 40 * (double)ipu__op_n_elements(&call->operand[OUT].shape)
         * ((double)call->operand[X].shape.dim[1] + 1);
}

static size_t sums_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return (size_t)call->operand[X].shape.dim[1] * sizeof(double);
}

/* The first class whose running sum is above u; the last if there is none. */
static int64_t find_class(const double *sums, int64_t n, double u)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (u < sums[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static ipu_status multinomial_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                  void *scratch, int part, int n_parts)
{
    (void)state;
    ipu_type     type    = call->operand[X].type;
    ipu__random  r       = ipu__random_get(call, operand, SEED);
    int64_t      classes = call->operand[X].shape.dim[1], samples = call->operand[OUT].shape.dim[1];
    ipu_interval mine = ipu__op_part(call->operand[X].shape.dim[0], 1, part, n_parts);
    double      *sums = scratch;
    for (int64_t row = mine.begin; row < mine.end && samples > 0; row++) {
        double most = largest(type, operand[X], row * classes, classes), sum = 0;
        for (int64_t k = 0; k < classes; k++)
            sums[k] = sum += share(type, operand[X], row * classes + k, most);
        for (int64_t i = row * samples; i < (row + 1) * samples; i++)
            store(call->operand[OUT].type, operand[OUT], i,
                  find_class(sums, classes, fraction(ipu__random_word(&r, i)) * sum));
    }
    return IPU_OK;
}

/* ---- prices and records ---- */

static double bernoulli_work(const ipu__kernel_call *call)
{
    return 12 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static double multinomial_work(const ipu__kernel_call *call)
{
    return 12 * (double)ipu__op_n_elements(&call->operand[X].shape)
         + 30 * (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status bernoulli_plan(const ipu__kernel_call *call, const ipu_target *target,
                                 ipu__kernel_plan *out)
{
    ipu__op_loop loop = {40, 2, 6};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[X].shape), 2, target, out));
    out->basis =
        "our estimate: tiles have a random generator of their own, and compare like a binary operation";
    return IPU_OK;
}

static ipu_status multinomial_plan(const ipu__kernel_call *call, const ipu_target *target,
                                   ipu__kernel_plan *out)
{
    int64_t n         = ipu__op_n_elements(&call->operand[X].shape),
            m         = ipu__op_n_elements(&call->operand[OUT].shape);
    ipu__op_loop loop = {60, 1, 8};
    IPU_TRY(ipu__op_plan_loop(&loop, n + m, call->operand[X].shape.dim[1] + 1, target, out));
    out->basis =
        "our estimate: 8 cycles for an exponential and a sum, and for a sample; rows dealt to the tiles";
    return IPU_OK;
}

static const ipu__kernel_operand bernoulli_operands[]   = {IPU__INPUT("p"), IPU__INPUT("seed"),
                                                           IPU__OPTIONAL("replica"), IPU__OUTPUT("y")};
static const ipu__kernel_operand multinomial_operands[] = {IPU__INPUT("x"), IPU__INPUT("seed"),
                                                           IPU__OPTIONAL("replica"), IPU__OUTPUT("y")};

#define KEY                                                                                  \
    {                                                                                        \
        .name = "key", .kind = IPU_ATTRIBUTE_INT, .meaning = "which op of the program draws" \
    }
static const ipu_op_attribute bernoulli_attributes[] = {
    KEY, {.name = "type", .kind = IPU_ATTRIBUTE_TEXT, .meaning = "type of the output; left out: that of p"}};
static const ipu_op_attribute multinomial_attributes[] = {
    KEY,
    {.name = "samples", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "of each row"},
    {.name = "type", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "int32", .meaning = "int32 or int64"}};

static const char *const bernoulli_samples[]   = {"float[5,7]{0,1}, uint32[2]",
                                                  "float[9]{-0.5,1.5}, uint32[2], uint32[]; type=bool key=3",
                                                  "float[]{0,1}, uint32[2]; type=int8",
                                                  "float[0]{0,1}, uint32[2]",
                                                  "float[50,1000]{0,1}, uint32[2]; type=int64",
                                                  NULL};
static const char *const multinomial_samples[] = {"float[3,5], uint32[2]; samples=7",
                                                  "float[3,1], uint32[2], uint32[]; type=int64 key=3",
                                                  "float[0,5], uint32[2]",
                                                  "float[3,0], uint32[2]; samples=0",
                                                  "float[40,100], uint32[2]; samples=90",
                                                  NULL};

static const ipu__cpu_impl bernoulli_implementations[] = {
    {.head = {"blocks", ipu__op_fits_always}, .scratch_bytes = words_bytes, .run = bernoulli_run}};
static const ipu__cpu_impl multinomial_implementations[] = {
    {.head = {"rows", ipu__op_fits_always}, .scratch_bytes = sums_bytes, .run = multinomial_run}};

#define RECORD(op, ...)                                                                                       \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                                \
                                                       .operands        = op##_operands,                      \
                                                       .n_operands      = 4,                                  \
                                                       .check           = ipu__op_check,                      \
                                                       .rows            = ipu__op_rows,                       \
                                                       .ref             = op##_ref,                           \
                                                       .work            = op##_work,                          \
                                                       .ref_work        = op##_ref_work,                      \
                                                       .plan            = op##_plan,                          \
                                                       .implementations = IPU__ON_CPU(op##_implementations)}, \
                                      .n_in         = 3,                                                      \
                                      .family       = "random",                                               \
                                      .flags        = IPU__OP_NO_GRADIENT | IPU__OP_SHORT_IN_HALF,            \
                                      .attributes   = op##_attributes,                                        \
                                      .n_attributes = IPU__COUNT(op##_attributes),                            \
                                      .infer        = op##_infer,                                             \
                                      .samples      = op##_samples,                                           \
                                      __VA_ARGS__}
RECORD(bernoulli, .summary = "1 with the probability that each element says, else 0");
RECORD(multinomial, .summary = "random classes of each row, with probabilities softmax(x)");

ipu_value ipu_bernoulli(ipu_builder *b, ipu_value p, ipu_value seed, ipu_type type)
{
    return ipu__emit1(b, "bernoulli", &IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type)), 1, IPU__IN(p, seed));
}

ipu_value ipu_multinomial(ipu_builder *b, ipu_value x, ipu_value seed, int64_t samples, ipu_type type)
{
    ipu_attribute list[] = {IPU_INT_ATTRIBUTE("samples", samples),
                            IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type))};
    return ipu__emit1(b, "multinomial", list, 2, IPU__IN(x, seed));
}
