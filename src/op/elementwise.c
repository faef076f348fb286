/* Elementwise kernels: add.
 *
 * out = a + b, element by element; `out` may be the memory of a or b. Integers wrap; half
 * and bfloat16 are added in float and rounded to nearest even.
 */
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"

enum { A, B, OUT };

/* Blocks of a fixed length, which the compilers turn into vector code at -O2. They pass through `sum`
 * because `out` may be `a` or `b`. */
enum { BLOCK = 256 };

/* U is the type of the sum: unsigned for integers, so that they wrap. */
#define ADD(T, U)                                                                    \
    static void add_##T(const void *a, const void *b, void *out, ipu_interval range) \
    {                                                                                \
        const T *x = a, *y = b;                                                      \
        T       *to = out, sum[BLOCK];                                               \
        int64_t  i  = range.begin;                                                   \
        for (; range.end - i >= BLOCK; i += BLOCK) {                                 \
            for (int j = 0; j < BLOCK; j++) sum[j] = (T)((U)x[i + j] + (U)y[i + j]); \
            memcpy(to + i, sum, sizeof sum);                                         \
        }                                                                            \
        for (; i < range.end; i++) to[i] = (T)((U)x[i] + (U)y[i]);                   \
    }
ADD(int8_t, uint32_t)
ADD(uint8_t, uint32_t)
ADD(int16_t, uint32_t)
ADD(uint16_t, uint32_t)
ADD(int32_t, uint32_t)
ADD(uint32_t, uint32_t)
ADD(int64_t, uint64_t)
ADD(uint64_t, uint64_t)
ADD(float, float)
ADD(double, double)

static void add_half(const void *a, const void *b, void *out, ipu_interval range)
{
    const ipu_half *x = a, *y = b;
    ipu_half       *to = out;
    float           p[BLOCK], q[BLOCK];
    for (int64_t i = range.begin; i < range.end; i += BLOCK) {
        size_t n = (size_t)(range.end - i < BLOCK ? range.end - i : BLOCK);
        ipu_half_to_floats(x + i, p, n);
        ipu_half_to_floats(y + i, q, n);
        for (size_t j = 0; j < n; j++) p[j] += q[j];
        ipu_half_from_floats(p, to + i, n);
    }
}

static void add_bfloat16(const void *a, const void *b, void *out, ipu_interval range)
{
    const ipu_bfloat16 *x = a, *y = b;
    ipu_bfloat16       *to = out;
    for (int64_t i = range.begin; i < range.end; i++)
        to[i] = ipu_bfloat16_from_float(ipu_bfloat16_to_float(x[i]) + ipu_bfloat16_to_float(y[i]));
}

typedef void (*add_fn)(const void *a, const void *b, void *out, ipu_interval range);
static const add_fn by_type[IPU_N_TYPES] = {
    /* NULL: not a type that adds */
    [IPU_INT8] = add_int8_t,       [IPU_UINT8] = add_uint8_t,   [IPU_INT16] = add_int16_t,
    [IPU_UINT16] = add_uint16_t,   [IPU_INT32] = add_int32_t,   [IPU_UINT32] = add_uint32_t,
    [IPU_INT64] = add_int64_t,     [IPU_UINT64] = add_uint64_t, [IPU_HALF] = add_half,
    [IPU_BFLOAT16] = add_bfloat16, [IPU_FLOAT] = add_float,     [IPU_DOUBLE] = add_double,
};

/* ---- the meaning ---- */

/* One element, in the types' own terms and without the loops above. */
static void ref_whole(const void *a, const void *b, void *out, size_t bytes)
{
    uint64_t x = 0, y = 0;
    memcpy(&x, a, bytes); /* low bytes first: the sum modulo 2^bits does not depend on the rest */
    memcpy(&y, b, bytes);
    x += y;
    memcpy(out, &x, bytes);
}

static void ref_half(const void *a, const void *b, void *out, size_t bytes)
{
    ipu_half x, y;
    memcpy(&x, a, bytes);
    memcpy(&y, b, bytes);
    x = ipu_half_from_float(ipu_half_to_float(x) + ipu_half_to_float(y));
    memcpy(out, &x, bytes);
}

static void ref_bfloat16(const void *a, const void *b, void *out, size_t bytes)
{
    ipu_bfloat16 x, y;
    memcpy(&x, a, bytes);
    memcpy(&y, b, bytes);
    x = ipu_bfloat16_from_float(ipu_bfloat16_to_float(x) + ipu_bfloat16_to_float(y));
    memcpy(out, &x, bytes);
}

static void ref_float(const void *a, const void *b, void *out, size_t bytes)
{
    (void)bytes;
    *(float *)out = *(const float *)a + *(const float *)b;
}

static void ref_double(const void *a, const void *b, void *out, size_t bytes)
{
    (void)bytes;
    *(double *)out = *(const double *)a + *(const double *)b;
}

typedef void (*ref_fn)(const void *a, const void *b, void *out, size_t bytes);
static const ref_fn ref_floating[IPU_N_TYPES] = {
    [IPU_HALF] = ref_half, [IPU_BFLOAT16] = ref_bfloat16, [IPU_FLOAT] = ref_float, [IPU_DOUBLE] = ref_double};

static void add_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu_type    type  = call->operand[OUT].type;
    size_t      bytes = ipu_type_size(type);
    int64_t     n     = ipu__op_n_elements(&call->operand[OUT].shape);
    ref_fn      one   = ref_floating[type] ? ref_floating[type] : ref_whole;
    const char *a = operand[A], *b = operand[B];
    char       *out = operand[OUT];
    for (int64_t i = 0; i < n; i++, a += bytes, b += bytes, out += bytes) one(a, b, out, bytes);
}

/* ---- the record ---- */

static ipu_status add_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__op_want_same_type(call, A, B));
    if (!by_type[call->operand[A].type])
        return ipu__fail(IPU_INVALID, "add: %s is not a type that can be added",
                         ipu_type_name(call->operand[A].type));
    IPU_TRY(ipu__op_want_shape(call, B, &call->operand[A].shape));
    out[0] = call->operand[A];
    return IPU_OK;
}

static ipu_status add_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu_kernel_value *out = &call->operand[OUT];
    ipu_interval range          = ipu__op_part(ipu__op_n_elements(&out->shape), ipu__op_line(out->type), part,
                                               n_parts);
    by_type[out->type](operand[A], operand[B], operand[OUT], range);
    return IPU_OK;
}

static double add_work(const ipu_kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

/* Binary operations of PopLibs, not in place: 3 cycles for a vector of float or half; 7 for
 * each int, which stand here for every type that PopLibs has no figure for. */
static ipu_status add_plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu_type     type      = call->operand[OUT].type;
    ipu__op_loop loop      = {26, 1, 7};
    bool         is_vector = type == IPU_FLOAT || type == IPU_HALF;
    if (is_vector) {
        double width;
        IPU_TRY(
            ipu__op_constant(target, type == IPU_FLOAT ? "vector_width_float" : "vector_width_half", &width));
        loop = (ipu__op_loop){type == IPU_FLOAT ? 29 : 26, width, 3};
    }
    int64_t n = ipu__op_n_elements(&call->operand[OUT].shape);
    IPU_TRY(ipu__op_plan_loop(&loop, n, (int64_t)loop.step, target, out));
    out->basis = is_vector || type == IPU_INT32
                   ? "PopLibs' estimate of a binary operation, operands mapped alike"
                   : "our default: PopLibs' estimate of an int32 binary operation";
    return IPU_OK;
}

static const ipu_kernel_operand operands[] = {IPU__INPUT("a"), IPU__INPUT("b"),
                                              IPU__OUTPUT_OVER("out", IPU_SHARES_ANY)};

static const ipu_kernel_impl implementations[] = {
    {.name = "plain", .fits = ipu__op_fits_always, .run = add_run},
};

static const char *const samples[] = {"float[3,4], float[3,4]", "int32[1000], int32[1000]", NULL};

const ipu_op_def ipu__op_add = {
    .kernel  = {.name              = "add",
                .operands          = operands,
                .n_operands        = 3,
                .check             = ipu__op_check,
                .ref               = add_ref,
                .work              = add_work,
                .plan              = add_plan,
                .implementations   = implementations,
                .n_implementations = 1},
    .n_in    = 2,
    .family  = "elementwise",
    .summary = "a + b",
    .infer   = add_infer,
    .samples = samples,
};
