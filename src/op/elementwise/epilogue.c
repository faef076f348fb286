/* Epilogues, implemented by their chains. */
#include "op/elementwise/epilogue.h"

#include <string.h>

#include "graph/graph.h"

static const char *text_of(const ipu__kernel_call *call)
{
    const char *text = ipu__op_text(call, "epilogue");
    return text ? text : "";
}

bool ipu__epilogue_has(const ipu__kernel_call *call) { return *text_of(call) != 0; }

static int first_of(const ipu__kernel_call *call) { return ipu__op_of(call->def)->n_in - IPU__EPILOGUE_IN; }

/* The chain's operands: the result as it is before, and e0.. */
static void get_inputs(const ipu__kernel_call *call, const ipu__kernel_value *product,
                       ipu__kernel_value in[1 + IPU__EPILOGUE_IN])
{
    in[0] = *product;
    memcpy(in + 1, call->operand + first_of(call), IPU__EPILOGUE_IN * sizeof *in);
}

ipu_status ipu__epilogue_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_value in[1 + IPU__EPILOGUE_IN], gives[IPU__CHAIN_MAX_OUT];
    int               n_out = 0;
    if (!ipu__epilogue_has(call)) {
        for (int i = 0; i < IPU__EPILOGUE_IN; i++)
            if (ipu__kernel_has(call, first_of(call) + i))
                return ipu__fail(IPU_INVALID, "%s: \"e%d\" is given without an epilogue that uses it",
                                 call->def->name, i);
        return IPU_OK;
    }
    get_inputs(call, out, in);
    IPU_TRY(ipu__chain_infer(text_of(call), in, 1 + IPU__EPILOGUE_IN, gives, &n_out));
    if (n_out == 1 && gives[0].type == out->type && ipu__shape_equal(&gives[0].shape, &out->shape))
        return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: the epilogue must give one value %s%s, found %d, the first %s%s",
                     call->def->name, ipu_type_name(out->type), ipu__shape_str(&out->shape), n_out,
                     ipu_type_name(gives[0].type), ipu__shape_str(&gives[0].shape));
}

void ipu__epilogue_ref(const ipu__kernel_call *call, void *const *operand)
{
    if (!ipu__epilogue_has(call)) return;
    const ipu_attribute program = IPU_TEXT_ATTRIBUTE("program", text_of(call));
    const int           out     = call->n_operands - 1;
    void               *operands[IPU__CHAIN_MAX_IN + IPU__CHAIN_MAX_OUT] = {operand[out]};
    ipu__kernel_call    chain                                            = {.def          = &ipu__op_chain.kernel,
                                                                            .attributes   = &program,
                                                                            .n_attributes = 1,
                                                                            .n_operands   = ipu__op_chain.kernel.n_operands};
    for (int i = 0; i < chain.n_operands; i++)
        chain.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    get_inputs(call, &call->operand[out], chain.operand);
    for (int i = 0; i < IPU__EPILOGUE_IN; i++) operands[1 + i] = operand[first_of(call) + i];
    chain.operand[IPU__CHAIN_MAX_IN] = call->operand[out];
    operands[IPU__CHAIN_MAX_IN]      = operand[out];
    chain.def->ref(&chain, operands);
}

ipu_status ipu__epilogue_init(ipu__epilogue *e, const ipu__kernel_call *call)
{
    ipu__kernel_value in[1 + IPU__EPILOGUE_IN];
    *e = (ipu__epilogue){.first = first_of(call), .out = call->n_operands - 1};
    if (!ipu__epilogue_has(call)) return IPU_OK;
    get_inputs(call, &call->operand[e->out], in);
    return ipu__chain_create(text_of(call), in, 1 + IPU__EPILOGUE_IN, &e->chain);
}

void ipu__epilogue_fini(ipu__epilogue *e) { ipu__chain_destroy(e->chain); }

size_t ipu__epilogue_scratch_bytes(const ipu__kernel_call *call)
{
    ipu__epilogue e;
    if (ipu__epilogue_init(&e, call) != IPU_OK) return SIZE_MAX;
    size_t bytes = e.chain ? ipu__chain_scratch_bytes(e.chain) : 0;
    ipu__epilogue_fini(&e);
    return bytes;
}

void ipu__epilogue_run(const ipu__epilogue *e, void *const *operand, int64_t begin, int64_t n, int64_t step,
                       int64_t n_rows, void *scratch)
{
    if (!e->chain) return;
    const void *in[1 + IPU__EPILOGUE_IN] = {operand[e->out]};
    void       *out[]                    = {operand[e->out], NULL, NULL, NULL};
    for (int i = 0; i < IPU__EPILOGUE_IN; i++) in[1 + i] = operand[e->first + i];
    if (n == step) { /* one run */
        n *= n_rows;
        n_rows = 1;
    }
    for (int64_t i = 0; i < n_rows; i++)
        ipu__chain_run(e->chain, in, out, begin + i * step, begin + i * step + n, scratch);
}

ipu__epilogue_kind ipu__epilogue_kind_of(const ipu__kernel_call *call)
{
    static const struct {
        const char        *text;
        ipu__epilogue_kind kind;
    } known[]                   = {{"", IPU__EPILOGUE_NONE},
                                   {"relu a0; out t0", IPU__EPILOGUE_RELU},
                                   {"add a0 a1; out t0", IPU__EPILOGUE_ADD},
                                   {"add a1 a0; out t0", IPU__EPILOGUE_ADD},
                                   {"add a0 a1; relu t0; out t1", IPU__EPILOGUE_ADD_RELU},
                                   {"add a1 a0; relu t0; out t1", IPU__EPILOGUE_ADD_RELU}};
    const ipu__kernel_value *e0 = &call->operand[first_of(call)], *out = &call->operand[call->n_operands - 1];
    bool                     is_whole = e0->type == out->type && ipu__shape_equal(&e0->shape, &out->shape);
    for (size_t i = 0; i < IPU__COUNT(known); i++)
        if (strcmp(text_of(call), known[i].text) == 0)
            return known[i].kind < IPU__EPILOGUE_ADD || is_whole ? known[i].kind : IPU__EPILOGUE_OTHER;
    return IPU__EPILOGUE_OTHER;
}

bool ipu__epilogue_is_flat(const ipu__kernel_call *call)
{
    const ipu_shape *shape = &call->operand[call->n_operands - 1].shape;
    for (int i = 0; i < IPU__EPILOGUE_IN; i++) {
        const ipu_shape *own = &call->operand[first_of(call) + i].shape;
        if (ipu__kernel_has(call, first_of(call) + i) && ipu__op_n_elements(own) != 1
            && !ipu__shape_equal(own, shape))
            return false;
    }
    return true;
}

ipu__kernel_layouts ipu__epilogue_layouts(const ipu__kernel_call *call, int operand, unsigned takes)
{
    unsigned         plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    const ipu_shape *shape = &call->operand[call->n_operands - 1].shape;
    if (!ipu__shape_equal(&call->operand[operand].shape, shape))
        return (ipu__kernel_layouts){plain, plain, false};
    return (ipu__kernel_layouts){takes | plain, takes | plain, true};
}

ipu_status ipu__epilogue_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__kernel_value        in[1 + IPU__EPILOGUE_IN];
    const ipu__kernel_value *result = &call->operand[call->n_operands - 1];
    double                   cycles;
    const char              *basis;
    if (!ipu__epilogue_has(call) || out->n_tiles == 0) return IPU_OK;
    get_inputs(call, result, in);
    int64_t n = ipu__op_ceil_div(ipu__op_n_elements(&result->shape), out->n_tiles);
    IPU_TRY(ipu__chain_cycles(text_of(call), in, 1 + IPU__EPILOGUE_IN, n, target, &cycles, &basis));
    out->cycles += ipu__op_count(cycles);
    return IPU_OK;
}
