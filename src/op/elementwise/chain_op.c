/* The op "chain": elementwise ops as one kernel. `ref` goes element by element, each op by its reference. */
#include <string.h>

#include "ipu/op/shape.h"
#include "op/elementwise/chain_parse.h"

enum { N_IN = IPU__CHAIN_MAX_IN, N_OUT = IPU__CHAIN_MAX_OUT };

static const char *text_of(const ipu__kernel_call *call) { return ipu__op_text(call, "program"); }

static ipu_status chain_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int n_out = 0;
    for (int i = 0; i < N_OUT; i++) out[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    return ipu__chain_infer(text_of(call), call->operand, N_IN, out, &n_out);
}

/* ---- the meaning ---- */

static void ref_element(const ipu__kernel_call *call, const ipu__chain_code *code, const ipu_shape *shape,
                        int64_t at, void *const *operand)
{
    uint64_t    result[IPU__CHAIN_MAX_STEPS];
    const void *value[N_IN + IPU__CHAIN_MAX_STEPS];
    for (int i = 0; i < N_IN; i++) {
        if (!code->is_used[i]) continue;
        int64_t from = ipu__element_source(shape, &call->operand[i].shape, at);
        value[i]     = (const char *)operand[i] + (size_t)from * ipu_type_size(call->operand[i].type);
    }
    for (int k = 0; k < code->n_steps; k++) {
        const ipu__chain_step *step = &code->step[k];
        const void            *in[IPU__MAX_ELEMENT_INPUTS];
        ipu_type               types[IPU__MAX_ELEMENT_INPUTS] = {0};
        for (int i = 0; i < step->n_in; i++) {
            in[i]    = value[step->in[i]];
            types[i] = ipu__chain_type(code, call->operand, step->in[i]);
        }
        ipu__element_one(step->element, types, step->n_in, step->parameters, in, step->type, &result[k]);
        value[N_IN + k] = &result[k];
    }
    for (int i = 0; i < code->n_out; i++) {
        size_t bytes = ipu_type_size(code->step[code->out[i]].type);
        memcpy((char *)operand[N_IN + i] + (size_t)at * bytes, value[N_IN + code->out[i]], bytes);
    }
}

static void chain_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__chain_code code;
    ipu_shape       shape;
    bool            ok = ipu__chain_parse(text_of(call), N_IN, &code) == IPU_OK
           && ipu__chain_types(&code, call->operand, &shape) == IPU_OK;
    IPU__ASSERT(ok); /* `check` has seen it */
    int64_t n = ok ? ipu__op_n_elements(&shape) : 0;
    for (int64_t i = 0; i < n; i++) ref_element(call, &code, &shape, i, operand);
}

/* ---- running ---- */

static ipu_status chain_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    (void)n_parts;
    return ipu__chain_create(text_of(call), call->operand, N_IN, (ipu__chain **)state);
}

static void chain_release(void *state) { ipu__chain_destroy(state); }

static size_t chain_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    void *state;
    if (chain_prepare(call, n_parts, &state) != IPU_OK) return SIZE_MAX;
    size_t bytes = ipu__chain_scratch_bytes(state);
    ipu__chain_destroy(state);
    return bytes;
}

/* The first result is always there. */
static ipu_status chain_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    const ipu__kernel_value *out = &call->operand[N_IN];
    const void              *in[N_IN];
    int64_t                  grain = 64; /* lines of every type */
    for (int i = 0; i < N_IN; i++) in[i] = operand[i];
    ipu_interval range = ipu__op_part(ipu__op_n_elements(&out->shape), grain, part, n_parts);
    ipu__chain_run(state, in, operand + N_IN, range.begin, range.end, scratch);
    return IPU_OK;
}

static double chain_work(const ipu__kernel_call *call)
{
    ipu__chain_code code;
    double          operations = 0;
    if (ipu__chain_parse(text_of(call), N_IN, &code) != IPU_OK) return 0;
    for (int k = 0; k < code.n_steps; k++) operations += ipu__element_operations(code.step[k].element);
    return operations * (double)ipu__op_n_elements(&call->operand[N_IN].shape);
}

/* ---- pricing ---- */

/* One vertex: its start, then the loops of all instructions. */
static double loop_cycles(const ipu__chain_code *code, const ipu__kernel_value *in, int64_t n,
                          double n_workers, double *start)
{
    double cycles = 0;
    *start        = 0;
    for (int k = 0; k < code->n_steps; k++) {
        const ipu__chain_step *step = &code->step[k];
        ipu_type               type = ipu__chain_type(code, in, step->in[step->n_in - 1]);
        ipu__op_loop           loop = ipu__element_cost_of(step->element, type).loop;
        if (loop.start > *start) *start = loop.start;
        loop.start = 0;
        cycles += ipu__op_loop_cycles(&loop, (double)n, 0, n_workers);
    }
    return cycles;
}

ipu_status ipu__chain_cycles(const char *text, const ipu__kernel_value *in, int n_in, int64_t n,
                             const ipu_target *target, double *cycles, const char **basis)
{
    ipu__chain_code code;
    ipu_shape       shape;
    double          launch, start, n_workers = (double)ipu_target_n_workers(target);
    IPU_TRY(ipu__chain_parse(text, n_in, &code));
    IPU_TRY(ipu__chain_types(&code, in, &shape));
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch));
    double loops = loop_cycles(&code, in, n, n_workers, &start);
    *cycles      = launch + n_workers * start + loops;
    *basis = "our estimate: one vertex with the loops of the operations it is made of (PopLibs' figures)";
    return IPU_OK;
}

static ipu_status chain_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t n = ipu__op_n_elements(&call->operand[N_IN].shape), tiles = ipu_target_n_tiles(target);
    double  cycles;
    *out = (ipu__kernel_plan){.basis = ""};
    if (n == 0) return IPU_OK;
    int64_t per_tile = ipu__op_ceil_div(ipu__op_ceil_div(n, 4), tiles) * 4;
    if (per_tile > n) per_tile = n;
    IPU_TRY(ipu__chain_cycles(text_of(call), call->operand, N_IN, per_tile, target, &cycles, &out->basis));
    out->n_tiles = ipu__op_ceil_div(n, per_tile);
    out->cycles  = ipu__op_count(cycles);
    for (int i = 0; i < N_IN; i++) {
        int64_t held = ipu__op_n_elements(&call->operand[i].shape);
        if (held == n || !ipu__kernel_has(call, i)) continue;
        int64_t bytes = (int64_t)ipu_type_size(call->operand[i].type);
        out->bytes_received += (held < per_tile ? held : per_tile) * bytes;
        out->bytes_sent += ipu__op_ceil_div(held, tiles) * bytes;
    }
    out->tile_bytes = out->bytes_received;
    return IPU_OK;
}

/* ---- gradient: of the ops it was made of ---- */

static ipu_value emit_step(ipu_builder *b, const ipu__chain_step *step, const ipu_value *value)
{
    const ipu__op_def *op = ipu__op_of(ipu__element_kernel(step->element));
    ipu_attribute      attributes[IPU__MAX_ELEMENT_PARAMETERS];
    ipu_value          in[IPU__MAX_ELEMENT_INPUTS];
    for (int i = 0; i < step->n_in; i++) in[i] = value[step->in[i]];
    for (size_t i = 0; i < op->n_attributes; i++)
        attributes[i] = step->element == IPU__ELEMENT_cast
                          ? IPU_TEXT_ATTRIBUTE(op->attributes[i].name, ipu_type_name(step->to))
                          : IPU_FLOAT_ATTRIBUTE(op->attributes[i].name, step->parameters[i]);
    return ipu__emit1(b, op->kernel.name, attributes, op->n_attributes, in, (size_t)step->n_in);
}

static void chain_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    ipu__chain_code code;
    ipu_shape       shape;
    ipu_value       value[N_IN + IPU__CHAIN_MAX_STEPS];
    if (ipu__chain_parse(text_of(call), N_IN, &code) != IPU_OK
        || ipu__chain_types(&code, call->operand, &shape) != IPU_OK)
        return; /* `infer` has said so */
    memcpy(value, in, N_IN * sizeof *value);
    for (int k = 0; k < code.n_steps; k++) value[N_IN + k] = emit_step(b, &code.step[k], value);
    for (int i = 0; i < code.n_out; i++) {
        ipu_value v    = value[N_IN + code.out[i]];
        ipu_shape from = ipu_value_shape(v);
        out[i]         = ipu__shape_equal(&from, &shape) ? v : ipu_expand(b, v, shape);
    }
}

#define RESULT(n) IPU__OUTPUT_OVER(n, IPU__SHARES_ANY) /* what is not used has shape [0] */
static const ipu__kernel_operand operands[] = {
    IPU__OPTIONAL("a0"), IPU__OPTIONAL("a1"), IPU__OPTIONAL("a2"),  IPU__OPTIONAL("a3"),
    IPU__OPTIONAL("a4"), IPU__OPTIONAL("a5"), IPU__OPTIONAL("a6"),  IPU__OPTIONAL("a7"),
    IPU__OPTIONAL("a8"), IPU__OPTIONAL("a9"), IPU__OPTIONAL("a10"), IPU__OPTIONAL("a11"),
    RESULT("o0"),        RESULT("o1"),        RESULT("o2"),         RESULT("o3"),
};

static const ipu_op_attribute attributes[] = {{.name     = "program",
                                               .kind     = IPU_ATTRIBUTE_TEXT,
                                               .required = true,
                                               .meaning  = "e.g. \"add a0 a1; relu t0; out t1\""}};

static ipu__kernel_layouts chain_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    return ipu__op_layouts_alike(call, N_IN, operand);
}

static const ipu__cpu_impl implementations[] = {{
    .head          = {"blocks", ipu__op_fits_always},
    .layouts       = chain_layouts,
    .scratch_bytes = chain_scratch_bytes,
    .prepare       = chain_prepare,
    .release       = chain_release,
    .run           = chain_run,
}};

static const char *const samples[] = {
    "float[32,32,3]{0.1,2}, float[]{0.5,1}, float[32,32,3]{0.1,2}; program=\"mul a0 a1; add t0 a2; relu t1; out t2 t0\"",
    "float[3,5], float[5]; program=\"add a0 a1; relu t0; out t1\"",
    "float[2,700], float[2,700], float[]; program=\"greater a0 a2; where t0 a1 a2; mul t1 a1; out t2 t1\"",
    "float[300], float[300], float[]; program=\"greater a0 a2; where t0 a1 a2; where t0 a1 a0; out t1 t2\"",
    "float[2,1100], float[]; program=\"mul a0 a1; tanh t0; square t1; sub t1 a0; out t3 t1\"",
    "float[3,1], float[]{0.5,1}, float[3,4]; program=\"mul a0 a1; add t0 a2; relu t1; out t2 t0\"",
    "float[3,40009], float[3,1]; program=\"greater a0 a1; where t0 a0 a1; exp t1; out t2\"",
    NULL};

const ipu__op_def ipu__op_chain = {
    .kernel       = {.name            = "chain",
                     .operands        = operands,
                     .n_operands      = N_IN + N_OUT,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = chain_ref,
                     .work            = chain_work,
                     .plan            = chain_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = N_IN,
    .family       = "elementwise",
    .summary      = "elementwise ops one after another, block by block",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = chain_infer,
    .compose      = chain_compose,
    .samples      = samples,
};
