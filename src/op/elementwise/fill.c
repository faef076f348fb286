/* fill: every element of `out` becomes the attribute `value`.
 *
 * The value is an int or a float. Integer types accept it only if they can hold it exactly, floating types
 * round it. Hosts are little-endian: the low bytes of a word come first.
 */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "op/op.h"

enum { OUT };

/* The element to store, in the low bytes of *bits. False: the type cannot hold it. */
static bool encode(ipu_type type, const ipu_attribute *value, uint64_t *bits)
{
    bool is_int = value->kind == IPU_ATTRIBUTE_INT;
    if (is_int && (type == IPU_INT64 || type == IPU_UINT64)) { /* a double would lose its low bits */
        *bits = (uint64_t)value->i;
        return type == IPU_INT64 || value->i >= 0;
    }
    *bits = 0;
    return ipu__value_from_double(type, is_int ? (double)value->i : value->f, bits);
}

static ipu_status fill_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_attribute *value = ipu__attribute_find(call, "value");
    IPU_TRY(ipu__op_made(call, out));
    uint64_t bits;
    ipu_type type = out->type;
    if (encode(type, value, &bits)) return IPU_OK;
    if (value->kind == IPU_ATTRIBUTE_INT)
        return ipu__fail(IPU_INVALID, "fill: %s cannot hold the value %lld", ipu_type_name(type),
                         (long long)value->i);
    return ipu__fail(IPU_INVALID, "fill: %s cannot hold the value %.17g", ipu_type_name(type), value->f);
}

static uint64_t checked_bits(const ipu__kernel_call *call)
{
    uint64_t bits = 0;
    encode(call->operand[OUT].type, ipu__attribute_find(call, "value"), &bits);
    return bits;
}

/* Blocks of a fixed length, which the compilers turn into vector code at -O2. */
enum { BLOCK = 256 };

#define FILL(T)                                                        \
    static void fill_##T(void *out, ipu_interval range, uint64_t bits) \
    {                                                                  \
        T      *to = out;                                              \
        int64_t i  = range.begin;                                      \
        for (; range.end - i >= BLOCK; i += BLOCK)                     \
            for (int j = 0; j < BLOCK; j++) to[i + j] = (T)bits;       \
        for (; i < range.end; i++) to[i] = (T)bits;                    \
    }
FILL(uint8_t)
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)

typedef void (*fill_fn)(void *out, ipu_interval range, uint64_t bits);
static const fill_fn by_size[] = {
    [1] = fill_uint8_t, [2] = fill_uint16_t, [4] = fill_uint32_t, [8] = fill_uint64_t};

static void fill_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu__kernel_value *out   = &call->operand[OUT];
    size_t                   bytes = ipu_type_size(out->type);
    int64_t                  n     = ipu__op_n_elements(&out->shape);
    uint64_t                 bits  = checked_bits(call);
    for (int64_t i = 0; i < n; i++) memcpy((char *)operand[OUT] + (size_t)i * bytes, &bits, bytes);
}

static ipu_status fill_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu__kernel_value *out = &call->operand[OUT];
    ipu_interval range = ipu__op_part(ipu__op_n_elements(&out->shape), ipu__op_line(out->type), part,
                                      n_parts);
    by_size[ipu_type_size(out->type)](operand[OUT], range, checked_bits(call));
    return IPU_OK;
}

static double fill_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status fill_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t      step = 8 / (int64_t)ipu_type_size(call->operand[OUT].type); /* 64 bits: one store */
    ipu__op_loop loop = {26, (double)step, 1};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[OUT].shape), step, target, out));
    out->basis = "our estimate: a loop of 64-bit stores, started like a PopLibs binary operation";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__OUTPUT("out")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"plain", ipu__op_fits_always}, .run = fill_run},
};

static const ipu_op_attribute attributes[] = {
    {.name = "value", .kind = IPU_ATTRIBUTE_FLOAT, .required = true, .meaning = "give an int or a float"},
    IPU__MADE_ATTRIBUTES,
};

static const char *const samples[] = {"; value=0.5 shape=[3,4]", "; value=7 shape=[1000] type=int32", NULL};

const ipu__op_def ipu__op_fill = {
    .kernel       = {.name            = "fill",
                     .operands        = operands,
                     .n_operands      = 1,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = fill_ref,
                     .work            = fill_work,
                     .plan            = fill_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 0,
    .family       = "fill",
    .summary      = "all elements equal to an attribute",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = fill_infer,
    .samples      = samples,
};
