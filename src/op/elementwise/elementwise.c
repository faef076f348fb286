/* Elementwise ops: records, inference, references. The mathematics is in unary.inc and binary.inc; chain.c
 * runs them.
 */
#include "op/elementwise/elementwise.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "op/elementwise/chain.h"
#include "op/region.h"

/* ---- lanes ---- */

const ipu__lane ipu__lane_of[IPU_N_TYPES] = {
    [IPU_BOOL] = IPU__LANE_B8,    [IPU_INT8] = IPU__LANE_I32,     [IPU_UINT8] = IPU__LANE_I32,
    [IPU_INT16] = IPU__LANE_I32,  [IPU_UINT16] = IPU__LANE_I32,   [IPU_INT32] = IPU__LANE_I32,
    [IPU_UINT32] = IPU__LANE_I64, [IPU_INT64] = IPU__LANE_I64,    [IPU_UINT64] = IPU__LANE_U64,
    [IPU_HALF] = IPU__LANE_F32,   [IPU_BFLOAT16] = IPU__LANE_F32, [IPU_FLOAT] = IPU__LANE_F32,
    [IPU_DOUBLE] = IPU__LANE_F64,
};

size_t ipu__lane_bytes(ipu__lane lane)
{
    static const size_t bytes[IPU__N_LANES] = {4, 8, 4, 8, 8, 1};
    return bytes[lane];
}

ipu__block_fn ipu__element_block(ipu__lane lane, int element)
{
    const ipu__float_blocks *f = &IPU__SIMD_PICK(ipu__float_blocks);
    const ipu__int_blocks   *i = &IPU__SIMD_PICK(ipu__int_blocks);

    const ipu__block_fn *const table[IPU__N_LANES] = {f->f32, f->f64, i->i32, i->i64, i->u64, i->b8};
    return table[lane][element];
}

const ipu__convert_blocks *ipu__converters(void) { return &IPU__SIMD_PICK(ipu__convert_blocks); }

ipu__block_fn ipu__cast_block(ipu_type from, ipu_type to)
{
    const ipu__convert_blocks *converters = ipu__converters();
    if (from == IPU_DOUBLE && (to == IPU_HALF || to == IPU_BFLOAT16)) return converters->f64_to_odd_f32;
    return converters->convert[ipu__lane_of[from]][ipu__lane_of[to]];
}

/* ---- types ---- */

enum {
    MASK_FLOATING = 1 << IPU_HALF | 1 << IPU_BFLOAT16 | 1 << IPU_FLOAT | 1 << IPU_DOUBLE,
    MASK_BOOL     = 1 << IPU_BOOL,
    MASK_ANY      = (1 << IPU_N_TYPES) - 1,
    MASK_NUMBER   = MASK_ANY & ~MASK_BOOL,
    MASK_SHIFT    = MASK_NUMBER & ~MASK_FLOATING,
    MASK_INTEGER  = MASK_SHIFT | MASK_BOOL,
    MASK_TEST     = MASK_FLOATING,
    MASK_COMPARE  = MASK_ANY,
    MASK_LOGICAL  = MASK_BOOL
};

#define TEXT_FLOATING "half, bfloat16, float or double"
#define TEXT_TEST TEXT_FLOATING
#define TEXT_NUMBER "a number"
#define TEXT_ANY "of any type"
#define TEXT_COMPARE TEXT_ANY
#define TEXT_INTEGER "an integer or bool"
#define TEXT_SHIFT "an integer"
#define TEXT_BOOL "bool"
#define TEXT_LOGICAL "bool"

#define BOOL_FLOATING false
#define BOOL_NUMBER false
#define BOOL_INTEGER false
#define BOOL_SHIFT false
#define BOOL_BOOL true
#define BOOL_LOGICAL true
#define BOOL_TEST true
#define BOOL_COMPARE true

static const struct {
    const ipu__kernel_def *kernel;
    unsigned               types;
    const char            *text;
    bool                   gives_bool;
} elements[IPU__N_ELEMENTS] = {
#define UNARY(name, arity, types, ...) \
    [IPU__ELEMENT_##name] = {&ipu__op_##name.kernel, MASK_##types, TEXT_##types, BOOL_##types},
#define BINARY(name, types, ...) \
    [IPU__ELEMENT_##name] = {&ipu__op_##name.kernel, MASK_##types, TEXT_##types, BOOL_##types},
#include "op/elementwise/binary.inc"
#include "op/elementwise/unary.inc"
#undef UNARY
#undef BINARY
    [IPU__ELEMENT_where] = {&ipu__op_where.kernel, MASK_ANY, TEXT_ANY, false},
    [IPU__ELEMENT_cast]  = {&ipu__op_cast.kernel, MASK_ANY, TEXT_ANY, false},
};

int ipu__element_of(const ipu__kernel_def *kernel)
{
    int i = 0;
    while (i < IPU__N_ELEMENTS && elements[i].kernel != kernel) i++;
    return i;
}

const ipu__kernel_def *ipu__element_kernel(int element) { return elements[element].kernel; }

static ipu_status check_inputs(const ipu__kernel_call *call, int element, int first, int n)
{
    for (int i = first; i < n; i++) {
        const ipu__kernel_value *v = &call->operand[i];
        if (!(elements[element].types & 1u << v->type))
            return ipu__fail(IPU_INVALID, "%s: \"%s\" must be %s, found %s%s", call->def->name,
                             call->def->operands[i].name, elements[element].text, ipu_type_name(v->type),
                             ipu__shape_str(&v->shape));
        IPU_TRY(ipu__op_want_same_type(call, first, i));
    }
    return IPU_OK;
}

static ipu_status infer_cast(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const char *name = ipu__op_text(call, "to");
    out->type        = ipu_type_find(name);
    if (out->type == IPU_N_TYPES) return ipu__fail(IPU_INVALID, "cast: there is no type \"%s\"", name);
    out->shape = call->operand[0].shape;
    return IPU_OK;
}

ipu_status ipu__element_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int element = ipu__element_of(call->def), n = ipu__op_of(call->def)->n_in, first = 0;
    if (element == IPU__ELEMENT_cast) return infer_cast(call, out);
    if (element == IPU__ELEMENT_where) {
        IPU_TRY(ipu__op_want_type(call, 0, IPU_BOOL));
        first = 1;
    }
    IPU_TRY(check_inputs(call, element, first, n));
    out->type = elements[element].gives_bool ? IPU_BOOL : call->operand[first].type;
    return ipu__op_broadcast(call, n, &out->shape);
}

void ipu__element_parameters(const ipu__kernel_call *call, double parameters[IPU__MAX_ELEMENT_PARAMETERS])
{
    const ipu__op_def *op = ipu__op_of(call->def);
    for (size_t i = 0; i < IPU__MAX_ELEMENT_PARAMETERS; i++) {
        bool is_number = i < op->n_attributes && op->attributes[i].kind == IPU_ATTRIBUTE_FLOAT;
        parameters[i]  = is_number ? ipu__op_float(call, op->attributes[i].name) : 0;
    }
}

static bool element_region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    int n_in = call->n_operands - 1, rank = call->operand[n_in].shape.rank;
    for (int i = 0; i < n_in; i++) {
        const ipu_shape *s = &call->operand[i].shape;
        int              d = axis - (rank - s->rank);
        if (d >= 0 && s->dim[d] != 1) out->in[i] = d;
    }
    return true;
}

static bool element_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    int to = axis + call->operand[call->n_operands - 1].shape.rank - call->operand[input].shape.rank;
    if (!ipu__region_through(call, input, axis, to, out)) return false;
    out->all = ipu__op_of(call->def)->flags & IPU__OP_ZERO_IF_ALL;
    return true;
}

double ipu__element_work(const ipu__kernel_call *call)
{
    const ipu_shape *shape = &call->operand[call->n_operands - 1].shape;
    return (double)ipu__op_n_elements(shape) * ipu__element_operations(ipu__element_of(call->def));
}

/* ---- running: a chain of one op ---- */

static ipu_status element_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    (void)n_parts;
    return ipu__chain_create_op(call, (ipu__chain **)state);
}

static void element_release(void *state) { ipu__chain_destroy(state); }

static size_t element_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return ipu__chain_op_scratch_bytes();
}

static ipu_status element_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    int                      n_in = call->n_operands - 1;
    const ipu__kernel_value *out  = &call->operand[n_in];
    const void              *in[IPU__MAX_ELEMENT_INPUTS];
    for (int i = 0; i < n_in; i++) in[i] = operand[i];
    ipu_interval range = ipu__op_part(ipu__op_n_elements(&out->shape), ipu__op_line(out->type), part,
                                      n_parts);
    ipu__chain_run(state, in, &operand[n_in], range.begin, range.end, scratch);
    return IPU_OK;
}

ipu__kernel_layouts ipu__op_layouts_alike(const ipu__kernel_call *call, int out, int operand)
{
    unsigned            plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), any = IPU__LAYOUT_BIT(IPU__N_LAYOUTS) - 1;
    ipu__kernel_layouts only_plain = {plain, plain, false};
    const ipu_shape    *shape      = &call->operand[out].shape;
    for (int i = 0; i < call->n_operands; i++) {
        const ipu_shape *own = &call->operand[i].shape;
        if (ipu__kernel_has(call, i) && ipu__op_n_elements(own) != 1 && !ipu__shape_equal(own, shape))
            return only_plain;
    }
    if (!ipu__shape_equal(&call->operand[operand].shape, shape)) return only_plain;
    return (ipu__kernel_layouts){any, any, true};
}

static ipu__kernel_layouts element_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    return ipu__op_layouts_alike(call, call->n_operands - 1, operand);
}

const ipu__cpu_impl ipu__element_impl[1] = {{
    .head          = {"blocks", ipu__op_fits_always},
    .layouts       = element_layouts,
    .scratch_bytes = element_scratch_bytes,
    .prepare       = element_prepare,
    .release       = element_release,
    .run           = element_run,
}};

/* ---- records ---- */

#define PARAMETER(n, value, what)                                                         \
    {                                                                                     \
        .name = (n), .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = (value), .meaning = (what) \
    }

static const ipu_op_attribute leaky_relu_parameters[] = {PARAMETER("alpha", 0.01, "slope below 0")};
static const ipu_op_attribute elu_parameters[]      = {PARAMETER("alpha", 1, "minus the limit far below 0")};
static const ipu_op_attribute celu_parameters[]     = {PARAMETER("alpha", 1, "minus the limit far below 0")};
static const ipu_op_attribute softplus_parameters[] = {
    PARAMETER("beta", 1, "steepness"), PARAMETER("threshold", 20, "of beta x, above which it is x")};
static const ipu_op_attribute clip_parameters[]      = {PARAMETER("min", -INFINITY, "least value"),
                                                        PARAMETER("max", INFINITY, "largest value")};
static const ipu_op_attribute hardtanh_parameters[]  = {PARAMETER("min", -1, "least value"),
                                                        PARAMETER("max", 1, "largest value")};
static const ipu_op_attribute threshold_parameters[] = {PARAMETER("threshold", 0, "what x must be above"),
                                                        PARAMETER("value", 0, "of the others")};
static const ipu_op_attribute shrink_parameters[]    = {PARAMETER("lambda", 0.5, "what |x| must be above"),
                                                        PARAMETER("bias", 0, "by how much those get nearer")};

#define PARAMETERS_0(name) NULL
#define PARAMETERS_1(name) name##_parameters
#define PARAMETERS_2(name) name##_parameters

/* Samples for the types that lines take: odd sizes, more than a block, all ways of broadcasting, and one that
 * is worth splitting. */
#define UNARY_FLOATING(r) "float[3,5]" r, "float[]" r, "float[1,1031]" r, "float[0,3]" r, "float[3,40009]" r
#define UNARY_NUMBER(r) UNARY_FLOATING(r), "int32[2,7]", "uint64[9]", "int8[70]", "uint32[5]"
#define UNARY_TEST(r) UNARY_FLOATING(r)
#define UNARY_INTEGER(r) "int32[2,7]", "bool[1100]", "uint8[70]", "int64[3]"
#define UNARY_BOOL(r) "bool[2,7]", "bool[1100]"

#define PAIR(type, a, rx, b, ry) type a rx ", " type b ry
#define BINARY_FLOATING(rx, ry)                                                             \
    PAIR("float", "[3,5]", rx, "[3,5]", ry), PAIR("float", "[2,3,5]", rx, "[5]", ry),       \
        PAIR("float", "[2,1,4]", rx, "[3,1]", ry), PAIR("float", "[]", rx, "[7]", ry),      \
        PAIR("float", "[2,3,700]", rx, "[3,1]", ry), PAIR("float", "[0,3]", rx, "[3]", ry), \
        PAIR("float", "[3,40009]", rx, "[3,40009]", ry)
#define BINARY_NUMBER(rx, ry)                                                                    \
    BINARY_FLOATING(rx, ry), "int32[2,7], int32[7]", "uint64[9], uint64[9]", "int8[70], int8[]", \
        "uint32[5,3], uint32[5,1]", "int64[3], int64[3]"
#define BINARY_COMPARE(rx, ry) BINARY_NUMBER(rx, ry), "bool[2,7], bool[7]"
#define BINARY_INTEGER(rx, ry) \
    "int32[2,7], int32[7]", "uint64[9], uint64[9]", "int8[70], int8[]", "bool[4,3], bool[3]"
#define BINARY_SHIFT(rx, ry) \
    "int32[2,7], int32[7]", "uint64[9], uint64[9]", "int8[70], int8[]", "uint16[4], uint16[4]"
#define BINARY_LOGICAL(rx, ry) "bool[2,7], bool[7]", "bool[1100], bool[1100]"

static const ipu__kernel_operand unary_operands[]  = {IPU__INPUT("x"),
                                                      IPU__OUTPUT_OVER("out", IPU__SHARES_ANY)};
static const ipu__kernel_operand binary_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"),
                                                      IPU__OUTPUT_OVER("out", IPU__SHARES_ANY)};
static const ipu__kernel_operand where_operands[]  = {
     IPU__INPUT("condition"), IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT_OVER("out", IPU__SHARES_ANY)};

/* 1 if the gradient column of a line is NONE. */
#define IS_NONE(gradient) SECOND(PROBE_##gradient, 0, 0)
#define PROBE_NONE 0, 1
#define SECOND(...) SECOND_OF(__VA_ARGS__)
#define SECOND_OF(first, second, ...) second

#define RECORD(op, n, kind, none, laws, text, list, n_list, ...)                                              \
    static const char *const op##_samples[] = {__VA_ARGS__, NULL};                                            \
    const ipu__op_def        ipu__op_##op   = {                                                               \
                 .kernel       = {.name            = #op,                                                     \
                                  .operands        = kind##_operands,                                         \
                                  .n_operands      = (n) + 1,                                                 \
                                  .check           = ipu__op_check,                                           \
                                  .rows            = ipu__op_rows,                                            \
                                  .ref             = ipu__element_ref,                                        \
                                  .work            = ipu__element_work,                                       \
                                  .plan            = ipu__element_plan,                                       \
                                  .implementations = IPU__ON_CPU(ipu__element_impl)},                         \
                 .n_in         = (n),                                                                         \
                 .family       = "elementwise",                                                               \
                 .summary      = (text),                                                                      \
                 .flags        = IPU__OP_ELEMENTWISE | (laws) | ((none) ? IPU__OP_NO_GRADIENT : 0),           \
                 .attributes   = (list),                                                                      \
                 .n_attributes = (n_list),                                                                    \
                 .region       = element_region,                                                              \
                 .zeros        = (laws) & (IPU__OP_ZERO_IF_ANY | IPU__OP_ZERO_IF_ALL) ? element_zeros : NULL, \
                 .infer        = ipu__element_infer,                                                          \
                 .grad         = (none) ? NULL : ipu__element_grad,                                           \
                 .samples      = op##_samples,                                                                \
    };

/* Of the column "laws". */
enum {
    EXACT         = IPU__OP_EXACT_IN_HALF,
    SHORT         = IPU__OP_SHORT_IN_HALF,
    COMMUTES      = IPU__OP_COMMUTES,
    NEUTRAL_0     = IPU__OP_NEUTRAL_0,
    NEUTRAL_1     = IPU__OP_NEUTRAL_1,
    UNDOES_ITSELF = IPU__OP_UNDOES_ITSELF,
    ZERO_IF_ANY   = IPU__OP_ZERO_IF_ANY,
    ZERO_IF_ALL   = IPU__OP_ZERO_IF_ALL
};

#define UNARY(op, arity, types, form, value, gradient, cost, laws, range, text) \
    RECORD(op, 1, unary, IS_NONE(gradient), laws, text, PARAMETERS_##arity(op), arity, UNARY_##types(range))
#define BINARY(op, types, form, value, gradient, gradient_y, cost, laws, range, range_y, text) \
    RECORD(op, 2, binary, IS_NONE(gradient), laws, text, NULL, 0, BINARY_##types(range, range_y))
#include "op/elementwise/unary.inc"
#include "op/elementwise/binary.inc"
#undef UNARY
#undef BINARY

static const ipu_op_attribute cast_attributes[] = {
    {.name = "to", .kind = IPU_ATTRIBUTE_TEXT, .required = true, .meaning = "the type, e.g. \"half\""}};

RECORD(where, 3, where, false, EXACT, "x where the condition is true, else y", NULL, 0,
       "bool[3,5], float[3,5], float[3,5]", "bool[3,1], float[], float[5]", "bool[], float[2,3], float[3]",
       "bool[7], int64[7], int64[1]", "bool[5], bool[5], bool[]",
       "bool[3,40009], float[3,40009], float[40009]")
RECORD(cast, 1, unary, false, IPU__OP_RESHAPES | ZERO_IF_ANY, "x in another type", cast_attributes, 1,
       "float[3,5]; to=half", "float[1100]; to=double", "float[9]{-300,300}; to=int8",
       "float[9]{-9,9}; to=uint64", "int32[2,7]; to=float", "int64[5]; to=int16", "uint8[70]; to=bfloat16",
       "bool[7]; to=int32", "float[5]; to=bool", "uint64[5]; to=uint32", "float[3,40009]; to=half")

/* ---- what users call ---- */

#define UNARY(name, arity, ...) EXPORT_##arity(name)
#define EXPORT_0(op) \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x) { return ipu__emit1(b, #op, NULL, 0, IPU__IN(x)); }
#define EXPORT_1(op)                                                                                       \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, double p)                                              \
    {                                                                                                      \
        return ipu__emit1(b, #op, IPU__WITH(IPU_FLOAT_ATTRIBUTE(op##_parameters[0].name, p)), IPU__IN(x)); \
    }
#define EXPORT_2(op)                                                                  \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, double p, double q)               \
    {                                                                                 \
        return ipu__emit1(b, #op,                                                     \
                          IPU__WITH(IPU_FLOAT_ATTRIBUTE(op##_parameters[0].name, p),  \
                                    IPU_FLOAT_ATTRIBUTE(op##_parameters[1].name, q)), \
                          IPU__IN(x));                                                \
    }
#define BINARY(op, ...)                                          \
    ipu_value ipu_##op(ipu_builder *b, ipu_value x, ipu_value y) \
    {                                                            \
        return ipu__emit1(b, #op, NULL, 0, IPU__IN(x, y));       \
    }
#include "op/elementwise/unary.inc"
#include "op/elementwise/binary.inc"
#undef UNARY
#undef BINARY

ipu_value ipu_where(ipu_builder *b, ipu_value condition, ipu_value x, ipu_value y)
{
    return ipu__emit1(b, "where", NULL, 0, IPU__IN(condition, x, y));
}

/* ---- made of others, which become one chain ---- */

ipu_value ipu_selu_with(ipu_builder *b, ipu_value x, double alpha, double gamma)
{
    return ipu_mul(b, ipu_elu(b, x, alpha), ipu_scalar_like(b, x, gamma));
}

ipu_value ipu_hardsigmoid_with(ipu_builder *b, ipu_value x, double alpha, double beta)
{
    ipu_value line = ipu_add(b, ipu_mul(b, x, ipu_scalar_like(b, x, alpha)), ipu_scalar_like(b, x, beta));
    return ipu_hardtanh(b, line, 0, 1);
}

/* By way of double where the base is an integer and the power is not. */
ipu_value ipu_pow_mixed(ipu_builder *b, ipu_value x, ipu_value y)
{
    ipu_type base = ipu_value_type(x), power = ipu_value_type(y);
    if (base == power) return ipu_pow(b, x, y);
    if (ipu__op_is_floating(base) || ipu__op_is_integer(power)) return ipu_pow(b, x, ipu_cast(b, y, base));
    return ipu_cast(b, ipu_pow(b, ipu_cast(b, x, IPU_DOUBLE), ipu_cast(b, y, IPU_DOUBLE)), base);
}

ipu_value ipu_cast(ipu_builder *b, ipu_value x, ipu_type type)
{
    return ipu__emit1(b, "cast", IPU__WITH(IPU_TEXT_ATTRIBUTE("to", ipu_type_name(type))), IPU__IN(x));
}
