/* Checking an executable: kernels, instructions and programs.
 *
 * Code is a sequence of units. Functions end in RETURN and programs in END, which occur nowhere else; jumps
 * stay within their unit and calls go to earlier functions. So no run can leave the code, and calls nest no
 * deeper than the number of functions.
 */
#include <string.h>

#include "engine/memory.h"
#include "engine/file/validate.h"

#define REQUIRE IPU__REQUIRE

/* ---- kernels ---- */

/* Same rule as in kernels.c: an input may share the memory of an output only where the kernel allows it. */
static bool clashes(const ipu__exe_kernel *k, const int64_t *bytes, int in, int out)
{
    if (bytes[in] == 0 || bytes[out] == 0) return false;
    if (k->place[in] >= k->place[out] + (uint64_t)bytes[out]
        || k->place[out] >= k->place[in] + (uint64_t)bytes[in])
        return false;
    return !ipu__kernel_may_share(&k->call, in, out) || k->place[in] != k->place[out]
        || bytes[in] != bytes[out];
}

static ipu_status check_kernel(const ipu__validator *v, size_t i)
{
    const ipu__exe_kernel *k   = &v->exe->kernels.at[i];
    const ipu__kernel_def *def = k->call.def;
    int64_t                bytes[IPU__MAX_OPERANDS];
    REQUIRE(k->call.n_operands == def->n_operands && ipu__valid_batch(v, k->gather)
                && ipu__valid_batch(v, k->scatter),
            "kernel", i, "its operands or moves are out of range");
    for (int n = 0; n < def->n_operands; n++) {
        const ipu__kernel_value *value = &k->call.operand[n];
        REQUIRE(ipu__valid_value(value->type, &value->shape, &bytes[n]), "kernel", i,
                "an operand has no such type or shape");
        REQUIRE(k->place[n] % IPU__MEMORY_ALIGN == 0
                    && ipu__valid_place(v->exe, k->place[n], bytes[n],
                                        def->operands[n].access != IPU__ACCESS_READ),
                "kernel", i, "an operand is where it may not be");
    }
    for (int n = 0; n < def->n_operands; n++)
        REQUIRE(k->buffer[n] == IPU__NONE || k->buffer[n] < v->exe->n_buffers, "kernel", i,
                "an operand is of a buffer that does not exist");
    for (int a = 0; a < def->n_operands; a++)
        for (int b = 0; b < def->n_operands; b++)
            REQUIRE(def->operands[a].access != IPU__ACCESS_READ || def->operands[b].access == IPU__ACCESS_READ
                        || !clashes(k, bytes, a, b),
                    "kernel", i, "an input lies in an output");
    return def->check(&k->call);
}

/* ---- transfers ---- */

/* Engine buffers used by a transfer, counted as in transfers.c. */
static bool fits_staging(const ipu_executable *exe, const ipu__exe_transfer *t, bool shared)
{
    const ipu__exe_tensor *tensor = &exe->tensors.at[t->tensor];
    int64_t                need   = 0;
    if (!tensor->direct || shared) need = ipu__memory_align(tensor->bytes);
    if (t->rows != IPU__NONE) need += exe->tensors.at[t->rows].bytes;
    return need <= exe->staging_bytes;
}

static bool valid_stream(const ipu__validator *v, const ipu__exe_transfer *t, bool is_read)
{
    const ipu_executable *exe = v->exe;
    if (t->object == 0 || t->object >= exe->streams.n || t->rows != IPU__NONE) return false;
    const ipu__exe_stream *s = &exe->streams.at[t->object];
    return s->to_device == is_read && s->bytes == exe->tensors.at[t->tensor].bytes
        && fits_staging(exe, t, is_read && s->broadcast && exe->replication > 1);
}

static bool valid_rows(const ipu__validator *v, const ipu__exe_transfer *t)
{
    const ipu_executable *exe = v->exe;
    if (t->object == 0 || t->object >= exe->remotes.n) return false;
    int64_t row = exe->remotes.at[t->object].row_bytes, bytes = exe->tensors.at[t->tensor].bytes;
    if (row > 0 ? bytes % row != 0 : bytes != 0) return false;
    if (t->rows != IPU__NONE) {
        const ipu__exe_tensor *rows = t->rows < exe->tensors.n ? &exe->tensors.at[t->rows] : NULL;
        if (!rows || (rows->type != IPU_INT32 && rows->type != IPU_UINT32)
            || v->batches[rows->batch].from_host
            || (row > 0 && rows->bytes / (int64_t)sizeof(int32_t) < bytes / row))
            return false;
    }
    return fits_staging(exe, t, false);
}

static bool valid_transfer(const ipu__validator *v, const ipu__instruction *i)
{
    const ipu_executable *exe = v->exe;
    if (i->a >= exe->transfers.n) return false;
    const ipu__exe_transfer *t = &exe->transfers.at[i->a];
    if (t->tensor >= exe->tensors.n) return false;
    bool                  is_read = i->op == IPU__CODE_READ || i->op == IPU__CODE_REMOTE_READ;
    const ipu__batch_use *use     = &v->batches[exe->tensors.at[t->tensor].batch];
    if (is_read ? use->to_host : use->from_host) return false;
    return i->op == IPU__CODE_READ || i->op == IPU__CODE_WRITE ? valid_stream(v, t, is_read)
                                                               : valid_rows(v, t);
}

static ipu_status check_lending(const ipu_executable *exe, size_t i)
{
    const ipu__exe_lending *l = &exe->lendings.at[i];
    REQUIRE(l->transfer < exe->transfers.n && exe->transfers.at[l->transfer].tensor < exe->tensors.n
                && l->kernel < exe->kernels.n
                && l->operand < (uint32_t)exe->kernels.at[l->kernel].call.n_operands,
            "lending", i, "out of range");
    const ipu__exe_tensor   *tensor = &exe->tensors.at[exe->transfers.at[l->transfer].tensor];
    const ipu__exe_kernel   *kernel = &exe->kernels.at[l->kernel];
    const ipu__kernel_value *value  = &kernel->call.operand[l->operand];
    int64_t                  bytes;
    REQUIRE(tensor->direct && tensor->place == kernel->place[l->operand]
                && ipu__valid_value(value->type, &value->shape, &bytes) && bytes == tensor->bytes
                && kernel->call.def->operands[l->operand].access == IPU__ACCESS_READ,
            "lending", i, "the kernel does not read what is lent");
    return IPU_OK;
}

/* ---- instructions ---- */

typedef struct unit {
    uint32_t begin, end;
} unit;

static bool is_in(const unit *u, uint32_t target) { return target >= u->begin && target < u->end; }

static bool valid_control(const ipu_executable *exe, uint32_t type, ipu__place place)
{
    return type < IPU_N_TYPES && ipu__valid_place(exe, place, (int64_t)ipu_type_size((ipu_type)type), false);
}

/* Switches and their cases must be in code order. */
static bool valid_switch(ipu__validator *v, const ipu__instruction *i, const unit *u)
{
    const ipu_executable *exe = v->exe;
    if (i->a != v->n_switches || i->a >= exe->switches.n) return false;
    const ipu__exe_switch *s = &exe->switches.at[v->n_switches++];
    if (s->first_case != v->n_cases || !ipu__in_range(s->first_case, s->n_cases, exe->cases.n)) return false;
    v->n_cases += s->n_cases;
    for (uint32_t k = 0; k < s->n_cases; k++)
        if (!is_in(u, exe->cases.at[s->first_case + k].target)) return false;
    return is_in(u, s->otherwise) && valid_control(exe, s->type, s->control);
}

/* Bodies must be in code order, and be earlier functions. */
static bool valid_parallel(ipu__validator *v, const ipu__instruction *i)
{
    const ipu_executable *exe = v->exe;
    if (i->n == 0 || i->a != v->n_bodies || !ipu__in_range(i->a, i->n, exe->bodies.n)
        || !ipu__in_range(i->b, i->n, v->n_functions))
        return false;
    v->n_bodies += i->n;
    return memcmp(exe->bodies.at + i->a, v->functions + i->b, (size_t)i->n * sizeof *v->functions) == 0;
}

/* Kernels that may run depth first must be consecutive. */
static bool valid_run(const ipu_executable *exe, const ipu__instruction *i, const unit *u)
{
    uint32_t pc = (uint32_t)(i - exe->code.at);
    if (i->n > u->end - pc) return false;
    for (uint64_t k = 0; k < i->n; k++)
        if (i[k].op != IPU__CODE_KERNEL || i[k].a >= exe->kernels.n) return false;
    return true;
}

static bool valid_instruction(ipu__validator *v, const ipu__instruction *i, const unit *u)
{
    const ipu_executable *exe = v->exe;
    switch (i->op) {
    case IPU__CODE_EXECUTE: return i->a < exe->sets.n;
    case IPU__CODE_KERNEL: return i->a < exe->kernels.n && valid_run(exe, i, u);
    case IPU__CODE_MOVE: return ipu__valid_batch(v, i->a);
    case IPU__CODE_READ:
    case IPU__CODE_WRITE:
    case IPU__CODE_REMOTE_READ:
    case IPU__CODE_REMOTE_WRITE: return valid_transfer(v, i);
    case IPU__CODE_REPEAT: return i->a < exe->n_counters && i->n <= INT64_MAX;
    case IPU__CODE_AGAIN: return i->a < exe->n_counters && is_in(u, i->b);
    case IPU__CODE_JUMP: return is_in(u, i->b);
    case IPU__CODE_JUMP_IF:
    case IPU__CODE_JUMP_UNLESS: return is_in(u, i->b) && valid_control(exe, i->a, i->n);
    case IPU__CODE_SWITCH: return valid_switch(v, i, u);
    case IPU__CODE_CALL: return i->a < v->n_functions && v->functions[i->a] == i->b;
    case IPU__CODE_PARALLEL: return valid_parallel(v, i);
    case IPU__CODE_PRINT: return i->a < exe->prints.n && exe->prints.at[i->a].tensor != IPU__NONE;
    case IPU__CODE_ABORT_IF: return ipu__valid_text(exe, i->b) && valid_control(exe, i->a, i->n);
    case IPU__CODE_ERROR: return i->a < exe->prints.n;
    case IPU__CODE_CROSS_REPLICA: return i->a < exe->crosses.n;
    case IPU__CODE_ALL_REDUCE: return i->a < exe->reduces.n;
    case IPU__CODE_ALL_REDUCE_WAIT: return true;
    case IPU__CODE_UNDEFINE: return exe->check && i->a < exe->tensors.n; /* never in a file */
    case IPU__CODE_RETURN:
    case IPU__CODE_END: return true;
    }
    return false;
}

static bool is_last(ipu__opcode op) { return op == IPU__CODE_RETURN || op == IPU__CODE_END; }

static ipu_status check_unit(ipu__validator *v, const unit *u)
{
    const ipu_executable *exe = v->exe;
    for (uint32_t pc = u->begin; pc < u->end; pc++) {
        const ipu__instruction *i = &exe->code.at[pc];
        REQUIRE(i->location < exe->locations.n, "instruction", pc, "its location is out of range");
        REQUIRE(valid_instruction(v, i, u), "instruction", pc, "an operand is out of range");
    }
    if (exe->code.at[u->end - 1].op == IPU__CODE_RETURN) {
        v->functions[v->n_functions++] = u->begin;
        return IPU_OK;
    }
    REQUIRE(v->n_programs < exe->programs.n && exe->programs.at[v->n_programs].begin == u->begin, "program",
            v->n_programs, "does not begin where it should");
    v->n_programs++;
    return IPU_OK;
}

static ipu_status check_streams(const ipu_executable *exe)
{
    for (size_t i = 0; i < exe->used_streams.n; i++)
        REQUIRE(exe->used_streams.at[i] < exe->streams.n, "stream list", i, "out of range");
    for (size_t i = 0; i < exe->programs.n; i++) {
        REQUIRE(exe->programs.at[i].cycles >= -1, "program", i, "its cycles are wrong");
        REQUIRE(ipu__in_range(exe->programs.at[i].first_stream, exe->programs.at[i].n_streams,
                              exe->used_streams.n),
                "program", i, "its streams are out of range");
    }
    return IPU_OK;
}

ipu_status ipu__validate_code(ipu__validator *v)
{
    const ipu_executable *exe = v->exe;
    unit                  u   = {0};
    for (size_t i = 0; i < exe->kernels.n; i++) IPU_TRY(check_kernel(v, i));
    for (size_t i = 0; i < exe->lendings.n; i++) IPU_TRY(check_lending(exe, i));
    REQUIRE(exe->code.n < IPU__NONE, "code", exe->code.n, "too many instructions");
    REQUIRE(exe->steps.n == 0 || exe->steps.n == exe->code.n, "step list", exe->steps.n,
            "not one for each instruction");
    while (u.begin < exe->code.n) {
        u.end = u.begin;
        while (u.end < exe->code.n && !is_last(exe->code.at[u.end].op)) u.end++;
        REQUIRE(u.end < exe->code.n, "instruction", u.begin, "is of a program without an end");
        u.end++;
        IPU_TRY(check_unit(v, &u));
        u.begin = u.end;
    }
    REQUIRE(v->n_programs == exe->programs.n && v->n_functions == exe->n_functions, "program", v->n_programs,
            "there are more programs or functions than code, or fewer");
    return check_streams(exe);
}
