/* Distributions derived from uniform and normal numbers, kinds of dropout, and seeds of loops: compositions.
 *
 * Each draw is an op with its own key, and the numbers drawn depend on the order of emission. Distributions
 * are computed in float.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/model.h"
#include "ipu/op/random.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/compose.h"

enum { SEED, X = 0, X_SEED };

static ipu_status want_seed(const ipu__kernel_call *call, int seed)
{
    IPU_TRY(ipu__op_want_type(call, seed, IPU_UINT32));
    return ipu__op_want_shape(call, seed, &IPU_SHAPE(2));
}

/* 0 <= u < 1, or 1e-30 <= u: for logarithms. */
static ipu_value uniform(ipu_builder *b, ipu_value seed, ipu_shape shape, double low)
{
    return ipu_random_uniform(b, seed, IPU_FLOAT, shape, low, 1);
}

/* log(1 - u), exact where u is small. */
static ipu_value log_of_rest(ipu_builder *b, ipu_value seed, ipu_shape shape)
{
    return ipu_log1p(b, ipu_neg(b, uniform(b, seed, shape, 0)));
}

/* ---- by inverse distribution functions: of a seed alone ---- */

static ipu_status made_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_seed(call, SEED));
    IPU_TRY(ipu__op_made(call, out));
    if (ipu__op_is_floating(out->type)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: expected half, bfloat16, float or double, found %s", call->def->name,
                     ipu_type_name(out->type));
}

static ipu_status want_more_than_0(const ipu__kernel_call *call, const char *name)
{
    double x = ipu__op_float(call, name);
    if (x > 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: %s = %g: expected more than 0", call->def->name, name, x);
}

static ipu_status exponential_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_more_than_0(call, "rate"));
    return made_infer(call, out);
}

static ipu_value exponential(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, ipu_shape shape)
{
    ipu_value y = ipu_neg(b, log_of_rest(b, seed, shape));
    return ipu_div(b, y, ipu_scalar_like(b, y, ipu__op_float(call, "rate")));
}

#define cauchy_infer made_infer
static ipu_value cauchy(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, ipu_shape shape)
{
    ipu_value angle = ipu__times(b, ipu__minus(b, uniform(b, seed, shape, 0), 0.5), M_PI);
    ipu_value y     = ipu__times(b, ipu_tan(b, angle), ipu__op_float(call, "sigma"));
    return ipu__plus(b, y, ipu__op_float(call, "median"));
}

static ipu_status geometric_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_more_than_0(call, "p"));
    if (ipu__op_float(call, "p") <= 1) return made_infer(call, out);
    return ipu__fail(IPU_INVALID, "random_geometric: p = %g: expected a probability",
                     ipu__op_float(call, "p"));
}

static ipu_value geometric(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, ipu_shape shape)
{
    double    p      = ipu__op_float(call, "p");
    ipu_value trials = log_of_rest(b, seed, shape);
    trials           = ipu_div(b, trials, ipu_scalar_like(b, trials, p < 1 ? log1p(-p) : -(double)INFINITY));
    trials           = ipu_ceil(b, trials);
    return ipu_maximum(b, trials, ipu_scalar_like(b, trials, 1));
}

#define log_normal_infer made_infer
static ipu_value log_normal(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, ipu_shape shape)
{
    return ipu_exp(b, ipu_random_normal(b, seed, call->operand[SEED + 1].type, shape,
                                        ipu__op_float(call, "mean"), ipu__op_float(call, "std")));
}

static ipu_status permutation_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t n = ipu__op_int(call, "n");
    IPU_TRY(want_seed(call, SEED));
    *out = (ipu__kernel_value){IPU_INT32, IPU_SHAPE(n)};
    if (n >= 0 && n <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "random_permutation: n = %lld: expected 0 to %d", (long long)n, INT32_MAX);
}

/* The order that sorts random numbers. */
static ipu_value permutation(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, ipu_shape shape)
{
    (void)call;
    ipu_value order = IPU_NO_VALUE;
    ipu_sort(b, uniform(b, seed, shape, 0), 0, false, &order);
    return order;
}

/* ---- by rejection: candidates of which the first that is accepted counts ---- */

enum { CANDIDATES = 16 }; /* the chance that all are rejected is below 1e-7 */

static ipu_shape several(int64_t n, ipu_shape shape)
{
    memmove(shape.dim + 1, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
    shape.dim[0] = n;
    shape.rank++;
    return shape;
}

/* Of candidates along dimension 0. */
static ipu_value first_accepted(ipu_builder *b, ipu_value candidates, ipu_value accepted, ipu_shape shape)
{
    ipu_value first = ipu_argmax(b, ipu_cast(b, accepted, IPU_INT32), 0, true);
    return ipu_reshape(b, ipu_gather_elements(b, candidates, first, 0), shape);
}

/* With rate 1, by Marsaglia and Tsang (2000); of orders below 1 by the one above. */
static ipu_value gamma_of(ipu_builder *b, ipu_value order, ipu_value seed)
{
    ipu_shape shape = ipu_value_shape(order), many = several(CANDIDATES, shape);
    ipu_value one      = ipu_scalar_like(b, order, 1);
    ipu_value is_small = ipu_less(b, order, one);
    ipu_value d        = ipu_where(b, is_small, ipu__plus(b, order, 1), order);
    d                  = ipu__minus(b, d, 1.0 / 3);
    ipu_value x        = ipu_random_normal(b, seed, IPU_FLOAT, many, 0, 1);
    ipu_value u        = uniform(b, seed, many, 1e-30);
    ipu_value v        = ipu__plus(b, ipu_mul(b, x, ipu_rsqrt(b, ipu__times(b, d, 9))), 1);
    ipu_value is_above = ipu_greater(b, v, ipu_scalar_like(b, v, 0));
    v                  = ipu_where(b, is_above, ipu_mul(b, v, ipu_square(b, v)), one);
    ipu_value bound    = ipu__times(b, ipu_square(b, x), 0.5);
    ipu_value rest     = ipu__from(b, 1, v);
    rest               = ipu_mul(b, d, ipu_add(b, rest, ipu_log(b, v)));
    bound              = ipu_add(b, bound, rest);
    ipu_value accepted = ipu_logical_and(b, is_above, ipu_less(b, ipu_log(b, u), bound));
    ipu_value y        = ipu_mul(b, d, first_accepted(b, v, accepted, shape));
    ipu_value smaller  = uniform(b, seed, shape, 1e-30);
    smaller            = ipu_pow(b, smaller, ipu_reciprocal(b, order));
    y                  = ipu_where(b, is_small, ipu_mul(b, y, smaller), y);
    return ipu_maximum(b, y, ipu_scalar_like(b, y, (double)FLT_MIN));
}

static ipu_value dirichlet(ipu_builder *b, ipu_value order, ipu_value seed)
{
    ipu_value y = gamma_of(b, order, seed);
    return ipu_div(b, y, ipu_reduce_sum(b, y, (int[]){-1}, 1, true));
}

static const double few = 12; /* rates below it: events are counted one by one */
enum { MOST_EVENTS = 48 };

/* How many exponential waiting times go into one unit of time. */
static ipu_value poisson_few(ipu_builder *b, ipu_value rate, ipu_value seed)
{
    ipu_value times = ipu_neg(b, log_of_rest(b, seed, several(MOST_EVENTS, ipu_value_shape(rate))));
    times           = ipu_cumsum(b, times, 0);
    return ipu_reduce_sum(b, ipu_cast(b, ipu_less(b, times, rate), IPU_FLOAT), (int[]){0}, 1, false);
}

/* By transformed rejection, W. Hoermann's PTRS (1993). */
static ipu_value poisson_many(ipu_builder *b, ipu_value rate, ipu_value seed)
{
    ipu_shape shape = ipu_value_shape(rate), many = several(CANDIDATES, shape);
    ipu_value width    = ipu__plus(b, ipu__times(b, ipu_sqrt(b, rate), 2.53), 0.931);
    ipu_value a        = ipu__plus(b, ipu__times(b, width, 0.02483), -0.059);
    ipu_value inverse  = ipu__minus(b, width, 3.4);
    inverse            = ipu__plus(b, ipu_div(b, ipu_scalar_like(b, rate, 1.1328), inverse), 1.1239);
    ipu_value u        = ipu_random_uniform(b, seed, IPU_FLOAT, many, -0.5, 0.5);
    ipu_value v        = uniform(b, seed, many, 1e-30);
    ipu_value us       = ipu__from(b, 0.5, ipu_abs(b, u));
    us                 = ipu_maximum(b, us, ipu_scalar_like(b, us, 1e-7));
    ipu_value k        = ipu_div(b, ipu__times(b, a, 2), us);
    k                  = ipu_mul(b, ipu_add(b, k, width), u);
    k                  = ipu_floor(b, ipu__plus(b, ipu_add(b, k, rate), 0.43));
    ipu_value is_count = ipu_greater_equal(b, k, ipu_scalar_like(b, k, 0));
    ipu_value safe     = ipu_maximum(b, k, ipu_scalar_like(b, k, 0));
    ipu_value left     = ipu_mul(b, v, inverse);
    ipu_value under    = ipu_add(b, ipu_div(b, a, ipu_square(b, us)), width);
    left               = ipu_log(b, ipu_div(b, left, under));
    ipu_value right    = ipu_sub(b, ipu_mul(b, safe, ipu_log(b, rate)), rate);
    right              = ipu_sub(b, right, ipu__emit1(b, "lgamma", NULL, 0, IPU__IN(ipu__plus(b, safe, 1))));
    ipu_value accepted = ipu_logical_and(b, is_count, ipu_less_equal(b, left, right));
    return first_accepted(b, safe, accepted, shape);
}

static ipu_value poisson(ipu_builder *b, ipu_value rate, ipu_value seed)
{
    ipu_value limit  = ipu_scalar_like(b, rate, few);
    ipu_value is_few = ipu_less(b, rate, limit);
    ipu_value counts = poisson_few(b, ipu_minimum(b, rate, limit), seed);
    return ipu_where(b, is_few, counts, poisson_many(b, ipu_maximum(b, rate, limit), seed));
}

/* ---- of values: no gradient passes ---- */

static ipu_status of_values_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 0, IPU_MAX_RANK - 1));
    IPU_TRY(want_seed(call, X_SEED));
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status dirichlet_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK - 1));
    return of_values_infer(call, out);
}

static ipu_value as_given(ipu_builder *b, ipu_value x)
{
    return ipu_stop_gradient(b, ipu__as_type(b, x, IPU_FLOAT));
}

static ipu_status distinct_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t          samples = ipu__op_int(call, "samples");
    const ipu_shape *x       = &call->operand[X].shape;
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 1, IPU_MAX_RANK));
    IPU_TRY(want_seed(call, X_SEED));
    *out                        = (ipu__kernel_value){IPU_INT32, *x};
    out->shape.dim[x->rank - 1] = samples;
    if (samples >= 0 && samples <= x->dim[x->rank - 1]) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "multinomial_distinct: samples = %lld of %lld classes: expected 0 to all of them",
                     (long long)samples, (long long)x->dim[x->rank - 1]);
}

/* The largest of the scores with Gumbel noise. */
static void distinct_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                             ipu_value *out)
{
    ipu_value scores = as_given(b, in[X]);
    ipu_value noise  = uniform(b, in[X_SEED], call->operand[X].shape, 1e-30);
    noise            = ipu_neg(b, ipu_log(b, ipu_neg(b, ipu_log(b, noise))));
    ipu_topk(b, ipu_add(b, scores, noise), ipu__op_int(call, "samples"), -1, true, &out[0]);
}

/* ---- dropout of channels, and for selu ---- */

static ipu_status dropout_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    double p = ipu__op_float(call, "p");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(want_seed(call, X_SEED));
    *out = call->operand[X];
    if (p >= 0 && p <= 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: p = %g: expected a probability, 0 to 1", call->def->name, p);
}

static ipu_status channel_dropout_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_rank(call, X, 2, IPU_MAX_RANK));
    return dropout_infer(call, out);
}

static ipu_status alpha_dropout_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    return ipu__op_int(call, "channels") ? channel_dropout_infer(call, out) : dropout_infer(call, out);
}

/* 1 with the probability that is left: for each element, or for each channel (dimension 1). */
static ipu_value kept(ipu_builder *b, const ipu__kernel_call *call, ipu_value seed, bool channels)
{
    ipu_shape shape = call->operand[X].shape;
    for (int d = 2; d < shape.rank && channels; d++) shape.dim[d] = 1;
    return ipu_random_bernoulli(b, seed, call->operand[X].type, shape, 1 - ipu__op_float(call, "p"));
}

static void channel_dropout_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                    ipu_value *out)
{
    double    p     = ipu__op_float(call, "p");
    ipu_value noise = kept(b, call, in[X_SEED], true);
    if (p < 1) noise = ipu_div(b, noise, ipu_scalar_like(b, noise, 1 - p));
    out[0] = ipu_mul(b, in[X], noise);
}

/* What drops out becomes the limit of selu far below 0; then mean and variance are made as they were. */
static void alpha_dropout_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                                  ipu_value *out)
{
    const double alpha = 1.7580993408473766; /* minus that limit */
    double       p     = ipu__op_float(call, "p");
    if (p == 0 || p == 1) {
        out[0] = p == 0 ? in[X] : ipu__times(b, in[X], 0);
        return;
    }
    double    a     = 1 / sqrt((alpha * alpha * p + 1) * (1 - p));
    ipu_value noise = kept(b, call, in[X_SEED], ipu__op_int(call, "channels"));
    ipu_value moved = ipu__times(b, ipu__minus(b, noise, 1), alpha * a);
    moved           = ipu__plus(b, moved, alpha * a * p);
    out[0]          = ipu_add(b, ipu_mul(b, in[X], ipu__times(b, noise, a)), moved);
}

/* ---- loops ---- */

enum { TURN = 1 };

static ipu_status turn_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(want_seed(call, SEED));
    IPU_TRY(ipu__op_want_integer(call, TURN));
    IPU_TRY(ipu__op_want_rank(call, TURN, 0, 0));
    *out = call->operand[SEED];
    if (ipu__op_int(call, "depth") >= 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "seed_of_turn: depth = %lld: expected 0 or more",
                     (long long)ipu__op_int(call, "depth"));
}

static uint32_t power_of(uint32_t x, uint64_t exponent)
{
    uint32_t y = 1;
    for (; exponent > 0; exponent /= 2, x *= x)
        if (exponent % 2) y *= x;
    return y;
}

/* Powers of 2^32 times the golden ratio less 1 keep turns of one loop in another apart. */
static void turn_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    uint64_t  exponent = (uint64_t)ipu__op_int(call, "depth") + 1;
    uint32_t  apart[2] = {power_of(UINT32_C(0x9E3779B9), exponent), 0};
    ipu_value step     = ipu_constant_data(b, IPU_UINT32, IPU_SHAPE(2), apart);
    ipu_value turn     = ipu__plus(b, ipu__as_type(b, in[TURN], IPU_UINT32), 1);
    out[0]             = ipu_add(b, in[SEED], ipu_mul(b, step, turn));
}

/* ---- records ---- */

static const ipu__kernel_operand made_operands[]   = {IPU__INPUT("seed"), IPU__OUTPUT("out")};
static const ipu__kernel_operand values_operands[] = {IPU__INPUT("x"), IPU__INPUT("seed"),
                                                      IPU__OUTPUT("out")};
static const ipu__kernel_operand turn_operands[]   = {IPU__INPUT("seed"), IPU__INPUT("turn"),
                                                      IPU__OUTPUT("out")};

#define P_ATTRIBUTE                                                                                          \
    {                                                                                                        \
        .name = "p", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 0.5, .meaning = "probability of dropping out" \
    }
static const ipu_op_attribute exponential_attributes[] = {
    IPU__MADE_ATTRIBUTES,
    {.name = "rate", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "1 / mean"}};
static const ipu_op_attribute cauchy_attributes[] = {
    IPU__MADE_ATTRIBUTES,
    {.name = "median", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "where the middle is"},
    {.name      = "sigma",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1,
     .meaning   = "half of the width at half of the height"}};
static const ipu_op_attribute geometric_attributes[]  = {IPU__MADE_ATTRIBUTES,
                                                         {.name     = "p",
                                                          .kind     = IPU_ATTRIBUTE_FLOAT,
                                                          .required = true,
                                                          .meaning  = "probability of success of a trial"}};
static const ipu_op_attribute log_normal_attributes[] = {
    IPU__MADE_ATTRIBUTES,
    {.name = "mean", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "of the logarithm"},
    {.name      = "std",
     .kind      = IPU_ATTRIBUTE_FLOAT,
     .otherwise = 1,
     .meaning   = "standard deviation of the logarithm"}};
static const ipu_op_attribute permutation_attributes[] = {
    {.name = "n", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "how many numbers"}};
static const ipu_op_attribute distinct_attributes[] = {
    {.name = "samples", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "classes drawn of each row"}};
static const ipu_op_attribute channel_dropout_attributes[] = {P_ATTRIBUTE};
static const ipu_op_attribute alpha_dropout_attributes[]   = {
      P_ATTRIBUTE,
      {.name = "channels", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: whole channels (dimension 1) drop out"}};
static const ipu_op_attribute turn_attributes[] = {
    {.name = "depth", .kind = IPU_ATTRIBUTE_INT, .meaning = "of the loop in others; 0: the outermost"}};

static const char *const exponential_samples[] = {"uint32[2]; shape=[5,7] rate=2.5",
                                                  "uint32[2]; shape=[3] type=half", NULL};
static const char *const cauchy_samples[]      = {"uint32[2]; shape=[5,7] median=1.0 sigma=0.5", NULL};
static const char *const geometric_samples[]  = {"uint32[2]; shape=[5,7] p=0.3", "uint32[2]; shape=[3] p=1.0",
                                                 NULL};
static const char *const log_normal_samples[] = {"uint32[2]; shape=[5,7] mean=0.5 std=0.25", NULL};
static const char *const permutation_samples[]     = {"uint32[2]; n=20", "uint32[2]; n=0", NULL};
static const char *const values_samples[]          = {"float[5,7]{0.1,30}, uint32[2]", NULL};
static const char *const distinct_samples[]        = {"float[3,8], uint32[2]; samples=5",
                                                      "float[8], uint32[2]; samples=0", NULL};
static const char *const channel_dropout_samples[] = {"float[3,4,5], uint32[2]; p=0.3",
                                                      "float[3,4], uint32[2]; p=1.0", NULL};
static const char *const alpha_dropout_samples[]   = {"float[3,4,5], uint32[2]; p=0.3",
                                                      "float[3,4,5], uint32[2]; channels=1",
                                                      "float[3], uint32[2]; p=1.0", "float[3], uint32[2]; p=0",
                                                      NULL};
static const char *const turn_samples[] = {"uint32[2], int32[]", "uint32[2], uint32[]; depth=2", NULL};

#define MEMBERS(op, list, which, text)                                                                 \
    .kernel = {.name = #op, .operands = list, .n_operands = IPU__COUNT(list), .check = ipu__op_check}, \
    .n_in = IPU__COUNT(list) - 1, .family = "random", .summary = (text), .infer = which##_infer,       \
    .compose = which##_compose

/* Of a seed: drawn as float and rounded to the type that is asked for, if the function does not. */
#define MADE(op, which, text)                                                                         \
    static void which##_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,    \
                                ipu_value *out)                                                       \
    {                                                                                                 \
        const ipu__kernel_value *as = &call->operand[SEED + 1];                                       \
        out[0]                      = ipu__as_type(b, which(b, call, in[SEED], as->shape), as->type); \
    }                                                                                                 \
    const ipu__op_def ipu__op_##op = {MEMBERS(op, made_operands, which, text),                        \
                                      .attributes   = which##_attributes,                             \
                                      .n_attributes = IPU__COUNT(which##_attributes),                 \
                                      .samples      = which##_samples}
MADE(random_exponential, exponential, "times between events");
MADE(random_cauchy, cauchy, "of a Cauchy distribution");
MADE(random_geometric, geometric, "how many trials it takes to succeed");
MADE(random_log_normal, log_normal, "numbers whose logarithms are of a normal distribution");
MADE(random_permutation, permutation, "0 to n - 1 in random order");

#define OF_VALUES(op, which, which_infer, text)                                                    \
    static void which##_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, \
                                ipu_value *out)                                                    \
    {                                                                                              \
        ipu_value y = which(b, as_given(b, in[X]), in[X_SEED]);                                    \
        out[0]      = ipu__as_type(b, y, call->operand[X].type);                                   \
    }                                                                                              \
    const ipu__op_def ipu__op_##op = {.kernel  = {.name       = #op,                               \
                                                  .operands   = values_operands,                   \
                                                  .n_operands = IPU__COUNT(values_operands),       \
                                                  .check      = ipu__op_check},                         \
                                      .n_in    = 2,                                                \
                                      .family  = "random",                                         \
                                      .summary = (text),                                           \
                                      .infer   = which_infer,                                      \
                                      .compose = which##_compose,                                  \
                                      .samples = values_samples}
OF_VALUES(random_gamma, gamma_of, of_values_infer, "of gamma distributions of order x and rate 1");
OF_VALUES(random_dirichlet, dirichlet, dirichlet_infer,
          "of Dirichlet distributions, rows of the last dimension");
OF_VALUES(random_poisson, poisson, of_values_infer, "of Poisson distributions of rate x");

#define GIVEN(op, list, which, text)                                                                    \
    const ipu__op_def ipu__op_##op = {MEMBERS(op, list, which, text), .attributes = which##_attributes, \
                                      .n_attributes = IPU__COUNT(which##_attributes),                   \
                                      .samples      = which##_samples}
GIVEN(multinomial_distinct, values_operands, distinct,
      "classes drawn with probabilities softmax(x), none of them twice");
GIVEN(channel_dropout, values_operands, channel_dropout, "dropout of whole channels");
GIVEN(alpha_dropout, values_operands, alpha_dropout,
      "dropout that keeps mean and variance of what comes out of selu");
GIVEN(seed_of_turn, turn_operands, turn, "what a turn of a loop draws from");

/* ---- functions ---- */

static ipu_value emit_made(ipu_builder *b, const char *op, ipu_value seed, ipu_type type, ipu_shape shape,
                           ipu_attribute first, ipu_attribute second)
{
    int64_t       dims[IPU_MAX_RANK];
    int           rank   = shape.rank >= 0 && shape.rank <= IPU_MAX_RANK ? shape.rank : 0;
    ipu_attribute list[] = {IPU__INTS("shape", dims, rank), IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type)),
                            first, second};
    for (int d = 0; d < rank; d++) dims[d] = shape.dim[d];
    return ipu__emit1(b, op, list, second.name ? 4 : 3, IPU__IN(seed));
}

static const ipu_attribute none = {.name = NULL};

ipu_value ipu_random_exponential(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double rate)
{
    return emit_made(b, "random_exponential", seed, type, shape, IPU_FLOAT_ATTRIBUTE("rate", rate), none);
}

ipu_value ipu_random_cauchy(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double median,
                            double sigma)
{
    return emit_made(b, "random_cauchy", seed, type, shape, IPU_FLOAT_ATTRIBUTE("median", median),
                     IPU_FLOAT_ATTRIBUTE("sigma", sigma));
}

ipu_value ipu_random_geometric(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p)
{
    return emit_made(b, "random_geometric", seed, type, shape, IPU_FLOAT_ATTRIBUTE("p", p), none);
}

ipu_value ipu_random_log_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                                double standard_deviation)
{
    return emit_made(b, "random_log_normal", seed, type, shape, IPU_FLOAT_ATTRIBUTE("mean", mean),
                     IPU_FLOAT_ATTRIBUTE("std", standard_deviation));
}

ipu_value ipu_random_permutation(ipu_builder *b, ipu_value seed, int64_t n)
{
    return ipu__emit1(b, "random_permutation", IPU__WITH(IPU_INT_ATTRIBUTE("n", n)), IPU__IN(seed));
}

ipu_value ipu_random_gamma(ipu_builder *b, ipu_value order, ipu_value seed)
{
    return ipu__emit1(b, "random_gamma", NULL, 0, IPU__IN(order, seed));
}

ipu_value ipu_random_dirichlet(ipu_builder *b, ipu_value order, ipu_value seed)
{
    return ipu__emit1(b, "random_dirichlet", NULL, 0, IPU__IN(order, seed));
}

ipu_value ipu_random_poisson(ipu_builder *b, ipu_value rate, ipu_value seed)
{
    return ipu__emit1(b, "random_poisson", NULL, 0, IPU__IN(rate, seed));
}

ipu_value ipu_multinomial_distinct(ipu_builder *b, ipu_value x, ipu_value seed, int64_t samples)
{
    return ipu__emit1(b, "multinomial_distinct", IPU__WITH(IPU_INT_ATTRIBUTE("samples", samples)),
                      IPU__IN(x, seed));
}

ipu_value ipu_channel_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p)
{
    return ipu__emit1(b, "channel_dropout", IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p)), IPU__IN(x, seed));
}

ipu_value ipu_alpha_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p, bool channels)
{
    return ipu__emit1(b, "alpha_dropout",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p), IPU_INT_ATTRIBUTE("channels", channels)),
                      IPU__IN(x, seed));
}

ipu_value ipu_seed_of_turn(ipu_builder *b, ipu_value seed, ipu_value turn, int depth)
{
    return ipu__emit1(b, "seed_of_turn", IPU__WITH(IPU_INT_ATTRIBUTE("depth", depth)), IPU__IN(seed, turn));
}
