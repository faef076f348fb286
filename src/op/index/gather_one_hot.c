/* one_hot: a value at the index, another everywhere else, along a new dimension. */
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "op/index/gather.h"
#include "op/replicas.h"

enum { INDICES, OUT };

static ipu_status get_bits(const ipu__kernel_call *call, ipu_type type, uint64_t bits[2])
{
    static const char *const names[] = {"off", "on"};
    for (int i = 0; i < 2; i++) {
        double value = ipu__op_float(call, names[i]);
        bits[i]      = 0;
        if (!ipu__value_from_double(type, value, &bits[i]))
            return ipu__fail(IPU_INVALID, "one_hot: %s cannot hold %s = %.17g", ipu_type_name(type), names[i],
                             value);
    }
    return IPU_OK;
}

static ipu_status one_hot_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *shape = &call->operand[INDICES].shape;
    const char      *type  = ipu__op_text(call, "type");
    int64_t          depth = ipu__op_int(call, "depth");
    int              axis;
    uint64_t         bits[2];
    IPU_TRY(ipu__op_want_integer(call, INDICES));
    IPU_TRY(ipu__op_want_rank(call, INDICES, 0, IPU_MAX_RANK - 1));
    IPU_TRY(ipu__op_axis(call, "axis", shape->rank + 1, &axis));
    out->type = ipu_type_find(type);
    if (out->type == IPU_N_TYPES) return ipu__fail(IPU_INVALID, "one_hot: there is no type \"%s\"", type);
    if (depth < 0)
        return ipu__fail(IPU_INVALID, "one_hot: depth = %lld: expected 0 or more", (long long)depth);
    IPU_TRY(get_bits(call, out->type, bits));
    out->shape = (ipu_shape){.rank = shape->rank + 1};
    for (int d = 0; d <= shape->rank; d++)
        out->shape.dim[d] = d == axis ? depth : shape->dim[d < axis ? d : d - 1];
    return IPU_OK;
}

/* The output as [outer, depth, inner], the indices as [outer, inner]. */
typedef struct place {
    int64_t outer, depth, inner;
} place;

static place get_place(const ipu__kernel_call *call)
{
    const ipu_shape *out  = &call->operand[OUT].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", out->rank, &axis);
    place p = {1, out->dim[axis], 1};
    for (int d = 0; d < axis; d++) p.outer *= out->dim[d];
    for (int d = axis + 1; d < out->rank; d++) p.inner *= out->dim[d];
    return p;
}

static void one_hot_ref(const ipu__kernel_call *call, void *const *operand)
{
    place    p    = get_place(call);
    ipu_type type = call->operand[OUT].type;
    size_t   unit = ipu_type_size(type);
    uint64_t bits[2];
    get_bits(call, type, bits);
    for (int64_t at = 0; at < p.outer * p.depth * p.inner; at++) {
        int64_t o = at / (p.depth * p.inner), k = at / p.inner % p.depth, i = at % p.inner;
        int64_t index = ipu__index_load(call->operand[INDICES].type, operand[INDICES], o * p.inner + i);
        memcpy((char *)operand[OUT] + (size_t)at * unit, &bits[ipu__index_fix(index, p.depth) == k], unit);
    }
}

/* All off, then one on per index. */
static ipu_status one_hot_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                              int part, int n_parts)
{
    (void)state, (void)scratch;
    place        p    = get_place(call);
    ipu_type     type = call->operand[OUT].type;
    size_t       unit = ipu_type_size(type);
    ipu_interval mine = ipu__op_part(p.outer, 1, part, n_parts);
    uint64_t     bits[2];
    get_bits(call, type, bits);
    char   *to = (char *)operand[OUT] + (size_t)(mine.begin * p.depth * p.inner) * unit;
    int64_t n  = (mine.end - mine.begin) * p.depth * p.inner;
    if (bits[0] == 0)
        memset(to, 0, (size_t)n * unit);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * unit, &bits[0], unit);
    for (int64_t at = mine.begin * p.inner; at < mine.end * p.inner; at++) {
        int64_t k = ipu__index_fix(ipu__index_load(call->operand[INDICES].type, operand[INDICES], at),
                                   p.depth);
        int64_t o = at / p.inner, i = at % p.inner;
        if (k >= 0)
            memcpy((char *)operand[OUT] + (size_t)((o * p.depth + k) * p.inner + i) * unit, &bits[1], unit);
    }
    return IPU_OK;
}

static double one_hot_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status one_hot_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t      step = 8 / (int64_t)ipu_type_size(call->operand[OUT].type);
    ipu__op_loop loop = {26, (double)step, 2};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[OUT].shape), step, target, out));
    out->basis = "our estimate: a loop of 64-bit stores, and a comparison for each";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("indices"), IPU__OUTPUT("out")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"plain", ipu__op_fits_always}, .run = one_hot_run},
};

static const ipu_op_attribute attributes[] = {
    {.name = "depth", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "of the new dimension"},
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "where it goes; left out: last"},
    {.name = "type", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "float", .meaning = "type of the output"},
    {.name = "on", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 1, .meaning = "value at the index"},
    {.name = "off", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "value elsewhere"},
};

static const char *const samples[] = {"int32[5]; depth=4",
                                      "int64[2,3]{-5,9}; depth=4 axis=1 type=int32 on=7 off=-2",
                                      "int32[]; depth=3 type=half",
                                      "int32[0]; depth=3",
                                      "int32[300]{0,999}; depth=1000",
                                      NULL};

const ipu__op_def ipu__op_one_hot = {
    .kernel       = {.name            = "one_hot",
                     .operands        = operands,
                     .n_operands      = 2,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = one_hot_ref,
                     .work            = one_hot_work,
                     .plan            = one_hot_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 1,
    .family       = "gather",
    .summary      = "one value at the index, another elsewhere, along a new dimension",
    .flags        = IPU__OP_NO_GRADIENT | IPU__OP_EXACT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = one_hot_infer,
    .fold         = ipu__fold_one_hot,
    .samples      = samples,
};

ipu_value ipu_one_hot_with(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type, int axis,
                           double on, double off)
{
    return ipu__emit1(b, "one_hot",
                      IPU__WITH(IPU_INT_ATTRIBUTE("depth", depth), IPU_INT_ATTRIBUTE("axis", axis),
                                IPU_TEXT_ATTRIBUTE("type", ipu_type_name(type)),
                                IPU_FLOAT_ATTRIBUTE("on", on), IPU_FLOAT_ATTRIBUTE("off", off)),
                      IPU__IN(indices));
}

ipu_value ipu_one_hot(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type)
{
    return ipu_one_hot_with(b, indices, depth, type, -1, 1, 0);
}
