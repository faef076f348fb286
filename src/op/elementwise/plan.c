/* What elementwise ops cost: cycles on tiles (facts: PopLibs' estimates), operations on a host. */
#include "op/elementwise/elementwise.h"

#define POPLIBS "PopLibs' estimate of the operation"
#define NATURAL_WIDTH \
    "PopLibs' rule for operations without a figure of their own: 4 cycles and its own for each element"
#define OURS "our estimate: software for each element"

/* One line of the lists: worker start, then cycles per so many elements, in float and half. */
typedef struct cost {
    double      start, float_cycles, float_step, half_cycles, half_step;
    double      other; /* cycles of each element of other types */
    const char *basis;
} cost;

/* A supervisor of unary operations takes 20 cycles, not the 11 of a launch: 1.5 more for each worker. */
#define MEASURED(start, fc, fs, hc, hs)                  \
    {                                                    \
        (start) + 1.5, fc, fs, hc, hs, (fc) + 4, POPLIBS \
    }
#define NATURAL(k)                                           \
    {                                                        \
        18.5, (k) + 4, 1, (k) + 4, 1, (k) + 4, NATURAL_WIDTH \
    }
#define ESTIMATE(k)               \
    {                             \
        18.5, k, 1, k, 1, k, OURS \
    }
#define ARITHMETIC(other)              \
    {                                  \
        29, 3, 2, 3, 4, other, POPLIBS \
    }

static const cost costs[IPU__N_ELEMENTS] = {
#define UNARY(name, arity, types, form, value, gradient, cost, ...) [IPU__ELEMENT_##name] = cost,
#define BINARY(name, types, form, value, gradient_x, gradient_y, cost, ...) [IPU__ELEMENT_##name] = cost,
#include "op/elementwise/binary.inc"
#include "op/elementwise/unary.inc"
#undef UNARY
#undef BINARY
    [IPU__ELEMENT_where] = {29, 8, 1, 8, 1, 8, NATURAL_WIDTH},
    [IPU__ELEMENT_cast]  = {38.5, 1, 2, 2, 4, 1, "PopLibs' estimate of a cast between float and half"},
};

ipu__element_cost ipu__element_cost_of(int element, ipu_type type)
{
    const cost *c = &costs[element];
    if (type == IPU_HALF) {
        double start = c->start == 29 ? 26 : c->start; /* binary operations: 29 for float, 26 for others */
        return (ipu__element_cost){{start, c->half_step, c->half_cycles}, c->basis};
    }
    if (type == IPU_FLOAT) return (ipu__element_cost){{c->start, c->float_step, c->float_cycles}, c->basis};
    return (ipu__element_cost){{c->start == 29 ? 26 : c->start, 1, c->other},
                               type == IPU_INT32 ? c->basis : "our default: as int32"};
}

double ipu__element_operations(int element)
{
#define WORK_FLOAT 1
#define WORK_WIDE 10
#define WORK_ANGLE 10
    static const double operations[IPU__N_ELEMENTS] = {
#define UNARY(name, arity, types, form, ...) [IPU__ELEMENT_##name] = WORK_##form,
#define BINARY(name, types, form, ...) [IPU__ELEMENT_##name] = WORK_##form,
#include "op/elementwise/binary.inc"
#include "op/elementwise/unary.inc"
#undef UNARY
#undef BINARY
        [IPU__ELEMENT_where] = 1,
        [IPU__ELEMENT_cast]  = 1,
    };
    return operations[element];
}

/* Outputs lie linearly and inputs of the same shape with them; each tile receives what it needs of inputs
 * that are broadcast. */
ipu_status ipu__element_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int                      n_in   = ipu__op_of(call->def)->n_in;
    const ipu__kernel_value *result = &call->operand[n_in];
    int64_t                  n      = ipu__op_n_elements(&result->shape);
    ipu_type                 type   = call->operand[n_in - 1].type;
    ipu__element_cost        price  = ipu__element_cost_of(ipu__element_of(call->def), type);
    IPU_TRY(ipu__op_plan_loop(&price.loop, n, (int64_t)price.loop.step, target, out));
    out->basis = price.basis;
    if (n == 0) return IPU_OK;
    int64_t per_tile = ipu__op_ceil_div(n, out->n_tiles);
    for (int i = 0; i < n_in; i++) {
        int64_t held = ipu__op_n_elements(&call->operand[i].shape), bytes;
        if (held == n) continue;
        bytes = (int64_t)ipu_type_size(call->operand[i].type);
        out->bytes_received += (held < per_tile ? held : per_tile) * bytes;
        out->bytes_sent += ipu__op_ceil_div(held, ipu_target_n_tiles(target)) * bytes;
    }
    out->tile_bytes = out->bytes_received;
    return IPU_OK;
}
