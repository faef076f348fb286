/* Programs to instructions: flattens the tree, with jumps.
 *
 * Functions come first, callees before callers, each once; bodies are expanded at each use. Independent
 * copies become one batch (group.c).
 * requires: liveness (places, and the same groups of copies).
 */
#include "engine/compile.h"

typedef struct range {
    uint32_t begin, end;
} range;

typedef struct lowering {
    ipu__compiler  *c;
    ipu_executable *exe;
    range          *functions; /* by index in c->functions: instructions */
    bool            has_moves; /* copies not yet in a batch */
    size_t          first_move;
    uint32_t        location;
    uint32_t        n_in_run;         /* kernels, from the next step on, that may run depth first */
    ipu__exe_step   step, first_copy; /* the current one; that of the first copy not yet in a batch */
} lowering;

static uint32_t here(const lowering *l) { return (uint32_t)l->exe->code.n; }

/* For the next instruction. */
static ipu_status note_step(lowering *l, const ipu__step *step)
{
    ipu_executable *exe = l->exe;
    exe->steps.n        = exe->code.n; /* instructions may have been removed again */
    return ipu__or_memory(ipu__push(&exe->steps, step ? l->step : l->first_copy));
}

static ipu_status emit(lowering *l, const ipu__step *step, ipu__instruction instruction)
{
    instruction.location = step ? ipu__compiler_location(l->c, step->location) : l->location;
    if (l->exe->code.n >= IPU__NONE - 1)
        return ipu__fail(IPU_UNSUPPORTED, "the programs have more than 2^32 instructions");
    if (l->c->profile) IPU_TRY(note_step(l, step));
    return ipu__or_memory(ipu__push(&l->exe->code, instruction));
}

/* ---- copies ---- */

static ipu_status flush(lowering *l)
{
    uint32_t batch;
    ipu__group_close(&l->c->group);
    if (!l->has_moves) return IPU_OK;
    l->has_moves = false;
    if (l->exe->moves.at.n == l->first_move) return IPU_OK;
    IPU_TRY(ipu__lower_batch(l->c, l->first_move, &batch));
    return emit(l, NULL, (ipu__instruction){.op = IPU__CODE_MOVE, .a = batch});
}

static ipu_status lower_copy(lowering *l, const ipu__step *step)
{
    ipu__compiler *c = l->c;
    if (!ipu__group_join(&c->group, &c->g->views, step->from, step->to)) {
        IPU_TRY(flush(l));
        c->group.open = true; /* the group just opened for this copy */
        l->has_moves  = true;
        l->first_move = l->exe->moves.at.n;
        l->location   = ipu__compiler_location(c, step->location);
        l->first_copy = l->step;
    }
    return ipu__or_memory(
        ipu__moves_add_copy(&l->exe->moves, l->first_move, &c->layout, step->from, step->to));
}

/* ---- loops and branches ---- */

static ipu_status lower_body(lowering *l, const ipu__body *body);

static ipu_status emit_jump(lowering *l, const ipu__step *step, ipu__opcode op)
{
    ipu__view view = ipu__view_get(&l->c->g->views, step->from);
    return emit(l, step,
                (ipu__instruction){.op = op, .a = view.type, .n = ipu__lower_first(l->c, step->from)});
}

static ipu_status lower_repeat(lowering *l, const ipu__step *step)
{
    if (step->n == 0) return IPU_OK;
    if (step->n == 1) return lower_body(l, &step->body);
    uint32_t counter = l->exe->n_counters++;
    IPU_TRY(emit(l, step, (ipu__instruction){.op = IPU__CODE_REPEAT, .a = counter, .n = (uint64_t)step->n}));
    uint32_t top = here(l);
    IPU_TRY(lower_body(l, &step->body));
    if (here(l) == top) { /* nothing to repeat */
        l->exe->code.n--;
        l->exe->n_counters--;
        return IPU_OK;
    }
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_AGAIN, .a = counter, .b = top});
}

static ipu_status lower_while(lowering *l, const ipu__step *step)
{
    uint32_t top = here(l);
    IPU_TRY(lower_body(l, &step->other));
    uint32_t leave = here(l);
    IPU_TRY(
        emit_jump(l, step, step->kind == IPU__STEP_WHILE_TRUE ? IPU__CODE_JUMP_UNLESS : IPU__CODE_JUMP_IF));
    IPU_TRY(lower_body(l, &step->body));
    IPU_TRY(emit(l, step, (ipu__instruction){.op = IPU__CODE_JUMP, .b = top}));
    l->exe->code.at[leave].b = here(l);
    return IPU_OK;
}

static ipu_status lower_if(lowering *l, const ipu__step *step)
{
    uint32_t branch = here(l);
    IPU_TRY(emit_jump(l, step, IPU__CODE_JUMP_UNLESS));
    IPU_TRY(lower_body(l, &step->body));
    if (step->other.n_steps == 0) {
        l->exe->code.at[branch].b = here(l);
        return IPU_OK;
    }
    uint32_t skip = here(l);
    IPU_TRY(emit(l, step, (ipu__instruction){.op = IPU__CODE_JUMP}));
    l->exe->code.at[branch].b = here(l);
    IPU_TRY(lower_body(l, &step->other));
    l->exe->code.at[skip].b = here(l);
    return IPU_OK;
}

/* The jumps at the ends of cases are chained through their targets until the target is known. */
static ipu_status lower_switch(lowering *l, const ipu__step *step)
{
    ipu_executable *exe     = l->exe;
    ipu__exe_switch control = {.type       = ipu__view_get(&l->c->g->views, step->from).type,
                               .control    = ipu__lower_first(l->c, step->from),
                               .first_case = (uint32_t)exe->cases.n,
                               .n_cases    = (uint32_t)step->n};
    uint32_t        number = (uint32_t)exe->switches.n, chain = IPU__NONE;
    if (!ipu__reserve(&exe->cases, step->n) || !ipu__push(&exe->switches, control)) return ipu__fail_memory();
    exe->cases.n += (size_t)step->n;
    IPU_TRY(emit(l, step, (ipu__instruction){.op = IPU__CODE_SWITCH, .a = number}));
    for (int64_t i = 0; i < step->n; i++) {
        exe->cases.at[control.first_case + i] = (ipu__exe_case){step->cases[i].value, here(l)};
        IPU_TRY(lower_body(l, &step->cases[i].body));
        IPU_TRY(emit(l, step, (ipu__instruction){.op = IPU__CODE_JUMP, .b = chain}));
        chain = here(l) - 1;
    }
    exe->switches.at[number].otherwise = here(l);
    IPU_TRY(lower_body(l, &step->other));
    while (chain != IPU__NONE) {
        uint32_t next         = exe->code.at[chain].b;
        exe->code.at[chain].b = here(l);
        chain                 = next;
    }
    return IPU_OK;
}

/* ---- steps ---- */

static ipu_status lower_execute(lowering *l, const ipu__step *step)
{
    uint32_t set;
    IPU_TRY(ipu__lower_set(l->c, step->object, &set));
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_EXECUTE, .a = set});
}

static ipu_status lower_kernel(lowering *l, const ipu__step *step)
{
    uint32_t kernel;
    IPU_TRY(ipu__lower_kernel(l->c, step->object, &kernel));
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_KERNEL, .a = kernel, .n = l->n_in_run});
}

static ipu_status lower_transfer(lowering *l, const ipu__step *step)
{
    static const ipu__opcode ops[IPU__N_STEP_KINDS] = {[IPU__STEP_READ]         = IPU__CODE_READ,
                                                       [IPU__STEP_WRITE]        = IPU__CODE_WRITE,
                                                       [IPU__STEP_REMOTE_READ]  = IPU__CODE_REMOTE_READ,
                                                       [IPU__STEP_REMOTE_WRITE] = IPU__CODE_REMOTE_WRITE};
    uint32_t                 transfer;
    IPU_TRY(ipu__lower_transfer(l->c, step, &transfer));
    return emit(l, step, (ipu__instruction){.op = ops[step->kind], .a = transfer});
}

static ipu_status lower_call(lowering *l, const ipu__step *step)
{
    uint32_t function = l->c->function_of[step->object];
    return emit(l, step,
                (ipu__instruction){.op = IPU__CODE_CALL, .a = function, .b = l->functions[function].begin});
}

static ipu_status lower_parallel(lowering *l, const ipu__step *step)
{
    ipu_executable *exe   = l->exe;
    uint32_t        first = l->c->parallel_of[step->object];
    if (!ipu__reserve(&exe->bodies, step->n)) return ipu__fail_memory();
    IPU_TRY(emit(
        l, step,
        (ipu__instruction){
            .op = IPU__CODE_PARALLEL, .a = (uint32_t)exe->bodies.n, .b = first, .n = (uint64_t)step->n}));
    for (uint32_t i = 0; i < step->n; i++) exe->bodies.at[exe->bodies.n++] = l->functions[first + i].begin;
    return IPU_OK;
}

static ipu_status lower_print(lowering *l, const ipu__step *step)
{
    uint32_t print;
    IPU_TRY(ipu__lower_print(l->c, step, &print));
    return emit(l, step,
                (ipu__instruction){.op = step->kind == IPU__STEP_PRINT ? IPU__CODE_PRINT : IPU__CODE_ERROR,
                                   .a  = print});
}

static ipu_status lower_abort_if(lowering *l, const ipu__step *step)
{
    uint32_t text = ipu__compiler_text(l->c, step->text ? step->text : "");
    if (text == IPU__NONE) return ipu__fail_memory();
    IPU_TRY(emit_jump(l, step, IPU__CODE_ABORT_IF));
    l->exe->code.at[l->exe->code.n - 1].b = text;
    return IPU_OK;
}

static ipu_status lower_cross(lowering *l, const ipu__step *step)
{
    uint32_t cross;
    IPU_TRY(ipu__lower_cross(l->c, step, &cross));
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_CROSS_REPLICA, .a = cross});
}

static ipu_status lower_reduce(lowering *l, const ipu__step *step)
{
    uint32_t reduce;
    IPU_TRY(ipu__lower_reduce(l->c, step, &reduce));
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_ALL_REDUCE, .a = reduce});
}

static ipu_status lower_wait(lowering *l, const ipu__step *step)
{
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_ALL_REDUCE_WAIT});
}

/* Only meaningful in checking mode, where it must keep its order with copies. */
static ipu_status lower_undef(lowering *l, const ipu__step *step)
{
    uint32_t tensor;
    if (!l->c->check) return IPU_OK;
    IPU_TRY(flush(l));
    IPU_TRY(ipu__lower_tensor(l->c, step->to, true, &tensor));
    return emit(l, step, (ipu__instruction){.op = IPU__CODE_UNDEFINE, .a = tensor});
}

static ipu_status lower_steps(lowering *l, const ipu__body *body);

static ipu_status lower_sequence(lowering *l, const ipu__step *step) { return lower_steps(l, &step->body); }

static ipu_status lower_nothing(lowering *l, const ipu__step *step)
{
    (void)l, (void)step;
    return IPU_OK;
}

/* Steps with `joins` may stand between copies of one batch; liveness.c has the same rule. */
static const struct {
    ipu_status (*lower)(lowering *l, const ipu__step *step);
    bool joins;
} kinds[IPU__N_STEP_KINDS] = {
    [IPU__STEP_SEQUENCE]           = {lower_sequence, true},
    [IPU__STEP_EXECUTE]            = {lower_execute, false},
    [IPU__STEP_KERNEL]             = {lower_kernel, false},
    [IPU__STEP_COPY]               = {lower_copy, true},
    [IPU__STEP_READ]               = {lower_transfer, false},
    [IPU__STEP_WRITE]              = {lower_transfer, false},
    [IPU__STEP_REMOTE_READ]        = {lower_transfer, false},
    [IPU__STEP_REMOTE_WRITE]       = {lower_transfer, false},
    [IPU__STEP_REPEAT]             = {lower_repeat, false},
    [IPU__STEP_WHILE_TRUE]         = {lower_while, false},
    [IPU__STEP_WHILE_FALSE]        = {lower_while, false},
    [IPU__STEP_IF]                 = {lower_if, false},
    [IPU__STEP_SWITCH]             = {lower_switch, false},
    [IPU__STEP_CALL]               = {lower_call, false},
    [IPU__STEP_PARALLEL]           = {lower_parallel, false},
    [IPU__STEP_SYNC]               = {lower_nothing, true},
    [IPU__STEP_PRINT]              = {lower_print, false},
    [IPU__STEP_ABORT_IF]           = {lower_abort_if, false},
    [IPU__STEP_ERROR]              = {lower_print, false},
    [IPU__STEP_WRITE_UNDEF]        = {lower_undef, true},
    [IPU__STEP_CROSS_REPLICA_COPY] = {lower_cross, false},
    [IPU__STEP_ALL_REDUCE]         = {lower_reduce, false},
    [IPU__STEP_ALL_REDUCE_WAIT]    = {lower_wait, false},
};

static ipu_status lower_steps(lowering *l, const ipu__body *body)
{
    const ipu__step *steps  = ipu__body_steps(l->c->g, body);
    ipu__exe_step    around = l->step;
    uint32_t         end    = 0; /* of a run of kernels that may go depth first */
    for (uint32_t i = 0; steps && i < body->n_steps; i++) {
        l->step = (ipu__exe_step){body->program, i};
        if (!kinds[steps[i].kind].joins) IPU_TRY(flush(l));
        if (i >= end) end = i + ipu__rows_run(l->c, &steps[i], body->n_steps - i);
        l->n_in_run = end > i ? end - i : 0;
        IPU_TRY(kinds[steps[i].kind].lower(l, &steps[i]));
    }
    l->step = around;
    return IPU_OK;
}

static ipu_status lower_body(lowering *l, const ipu__body *body)
{
    IPU_TRY(flush(l));
    IPU_TRY(lower_steps(l, body));
    return flush(l);
}

/* ---- units ---- */

static ipu_status lower_unit(lowering *l, const ipu__body *body, ipu__opcode last, range *out)
{
    out->begin = here(l);
    IPU_TRY(lower_body(l, body));
    l->location   = 0;
    l->first_copy = (ipu__exe_step){0};
    IPU_TRY(emit(l, NULL, (ipu__instruction){.op = last}));
    out->end = here(l);
    return IPU_OK;
}

/* Appends the streams used by instructions and the functions they call, each once. */
static bool find_streams(const lowering *l, range in, uint8_t *stream_seen, uint8_t *function_seen)
{
    ipu_executable *exe = l->exe;
    for (uint32_t pc = in.begin; pc < in.end; pc++) {
        const ipu__instruction *i = &exe->code.at[pc];
        if (i->op == IPU__CODE_CALL && !function_seen[i->a]) {
            function_seen[i->a] = 1;
            if (!find_streams(l, l->functions[i->a], stream_seen, function_seen)) return false;
        }
        for (uint32_t k = i->b; i->op == IPU__CODE_PARALLEL && k < i->b + i->n; k++)
            if (!find_streams(l, l->functions[k], stream_seen, function_seen)) return false;
        if (i->op != IPU__CODE_READ && i->op != IPU__CODE_WRITE) continue;
        uint32_t stream = exe->transfers.at[i->a].object;
        if (stream_seen[stream]) continue;
        stream_seen[stream] = 1;
        if (!ipu__push(&exe->used_streams, stream)) return false;
    }
    return true;
}

static ipu_status lower_program(lowering *l, uint32_t program)
{
    ipu_executable  *exe = l->exe;
    ipu__body        all = {program, (uint32_t)l->c->g->programs.at[program].steps.n};
    range            code;
    ipu__exe_program lowered = {.first_stream = (uint32_t)exe->used_streams.n, .cycles = -1};
    IPU_TRY(lower_unit(l, &all, IPU__CODE_END, &code));
    uint8_t *streams = ipu__alloc_zeroed(exe->streams.n), *functions = ipu__alloc_zeroed(l->c->functions.n);
    bool     ok = streams && functions && find_streams(l, code, streams, functions);
    ipu__free(streams);
    ipu__free(functions);
    lowered.begin     = code.begin;
    lowered.n_streams = (uint32_t)exe->used_streams.n - lowered.first_stream;
    return ipu__or_memory(ok && ipu__push(&exe->programs, lowered));
}

ipu_status ipu__lower_programs(ipu__compiler *c)
{
    lowering   l      = {.c = c, .exe = c->exe};
    ipu_status status = IPU_OK;
    l.functions       = ipu__alloc_zeroed(c->functions.n * sizeof *l.functions);
    if (!l.functions) return ipu__fail_memory();
    for (size_t i = 0; i < c->functions.n && status == IPU_OK; i++)
        status = lower_unit(&l, &c->functions.at[i], IPU__CODE_RETURN, &l.functions[i]);
    for (size_t i = 0; i < c->n_programs && status == IPU_OK; i++)
        status = lower_program(&l, c->programs[i].id);
    c->exe->n_functions = (uint32_t)c->functions.n;
    ipu__free(l.functions);
    return status;
}
