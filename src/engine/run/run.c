/* Running programs: the instruction loop. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/run/run.h"

ipu_status ipu__engine_abort(const ipu_engine *e, const ipu__instruction *i, const char *format, ...)
{
    char    where[IPU__EXE_WHERE_BYTES];
    va_list args;
    va_start(args, format);
    ipu__vfail(IPU_ABORTED, format, args);
    va_end(args);
    ipu__exe_where(e->exe, i->location, where);
    return ipu__fail(IPU_ABORTED, "%s%s%s", where, *where ? ": " : "", ipu_message());
}

/* ---- predicates ---- */

static int64_t integer_at(ipu_type type, const char *at)
{
#define INTEGER(TYPE, ctype)      \
    case IPU_##TYPE: {            \
        ctype x;                  \
        memcpy(&x, at, sizeof x); \
        return (int64_t)x;        \
    }
    switch (type) {
        INTEGER(BOOL, uint8_t)
        INTEGER(INT8, int8_t)
        INTEGER(UINT8, uint8_t)
        INTEGER(INT16, int16_t)
        INTEGER(UINT16, uint16_t)
        INTEGER(INT32, int32_t)
        INTEGER(UINT32, uint32_t)
        INTEGER(INT64, int64_t)
        INTEGER(UINT64, uint64_t)
    default: return 0;
    }
#undef INTEGER
}

static bool same(int64_t a, int64_t b, bool as_truth) { return as_truth ? !a == !b : a == b; }

static ipu_status peek(const ipu_engine *e, int64_t replica, ipu_type type, ipu__place place, int64_t *out)
{
    char bytes[sizeof(int64_t)] = {0};
    IPU_TRY(e->def->peek(e, replica, place, bytes, ipu_type_size(type)));
    *out = integer_at(type, bytes);
    return IPU_OK;
}

/* A value that must be the same in all replicas. */
static ipu_status read_control(const ipu_engine *e, const ipu__instruction *i, ipu_type type,
                               ipu__place place, bool as_truth, int64_t *out)
{
    IPU_TRY(peek(e, 0, type, place, out));
    for (int64_t r = 1; r < e->replication; r++) {
        int64_t other;
        IPU_TRY(peek(e, r, type, place, &other));
        if (!same(*out, other, as_truth))
            return ipu__engine_abort(e, i,
                                     "control flow diverges between replicas: "
                                     "the value is %lld in replica 0 and %lld in replica %lld",
                                     (long long)*out, (long long)other, (long long)r);
    }
    return IPU_OK;
}

static ipu_status abort_if(const ipu_engine *e, const ipu__instruction *i)
{
    for (int64_t r = 0; e->def->peek && r < e->replication; r++) {
        int64_t value;
        IPU_TRY(peek(e, r, (ipu_type)i->a, i->n, &value));
        if (value != 0) return ipu__engine_abort(e, i, "%s", ipu__exe_text(e->exe, i->b));
    }
    return IPU_OK;
}

static ipu_status jump(const ipu_engine *e, const ipu__instruction *i, uint32_t *pc)
{
    int64_t value;
    if (!e->def->peek) { /* such jumps lead out of loops */
        *pc = i->b;
        return IPU_OK;
    }
    IPU_TRY(read_control(e, i, (ipu_type)i->a, i->n, true, &value));
    if ((value != 0) == (i->op == IPU__CODE_JUMP_IF)) *pc = i->b;
    return IPU_OK;
}

static ipu_status jump_to_case(const ipu_engine *e, const ipu__instruction *i, uint32_t *pc)
{
    const ipu__exe_switch *s     = &e->exe->switches.at[i->a];
    const ipu__exe_case   *cases = e->exe->cases.at + s->first_case;
    int64_t                value;
    *pc = s->otherwise;
    if (!e->def->peek) return IPU_OK;
    IPU_TRY(read_control(e, i, s->type, s->control, false, &value));
    for (uint32_t k = 0; k < s->n_cases; k++)
        if (cases[k].value == value) {
            *pc = cases[k].target;
            break;
        }
    return IPU_OK;
}

/* ---- steps that the engine does ---- */

static ipu_status execute(ipu__runner *l, const ipu__instruction *i)
{
    l->counts.supersteps++;
    l->counts.vertices += l->e->exe->sets.at[i->a].n_vertices * l->e->replication;
    return l->e->def->execute(l, i);
}

static ipu_status kernel(ipu__runner *l, const ipu__instruction *i, uint32_t *pc)
{
    uint32_t n = 1;
    IPU_TRY(l->e->def->kernel(l, i, &n));
    l->counts.supersteps += n;
    *pc += n - 1;
    return IPU_OK;
}

static ipu_status move(ipu__runner *l, const ipu__instruction *i)
{
    l->counts.copied_bytes += l->e->exe->batches.at[i->a].bytes * l->e->replication;
    return l->e->def->move(l, i->a, NULL);
}

static ipu_status cross_replica(ipu__runner *l, const ipu__instruction *i)
{
    const ipu_engine     *e     = l->e;
    const ipu__exe_cross *cross = &e->exe->crosses.at[i->a];
    if (cross->gather != IPU__NONE) IPU_TRY(e->def->move(l, cross->gather, NULL));
    l->counts.copied_bytes += e->exe->batches.at[cross->copy].bytes * e->replication;
    return e->def->move(l, cross->copy, e->exe->replicas.at + cross->to);
}

/* ---- the loop ---- */

static ipu_status interrupted(void)
{
    return ipu__fail(IPU_INTERRUPTED, "the run was stopped by ipu_engine_interrupt");
}

/* Whether the run must end: because of an interrupt, or because an earlier body has failed. */
static bool is_stopped(const ipu__runner *l)
{
    return atomic_load_explicit(&l->e->interrupted, memory_order_relaxed)
        || l->body > atomic_load_explicit(&l->e->failed_body, memory_order_relaxed);
}

ipu_status ipu__runner_run(ipu__runner *l, uint32_t pc, uint32_t depth)
{
    ipu_engine             *e      = l->e;
    const ipu__instruction *code   = e->exe->code.at;
    ipu_status              status = IPU_OK;
    const uint32_t          bottom = depth;
    const bool              checks = ipu__engine_is_checking(e);
    while (status == IPU_OK) {
        const ipu__instruction *i = &code[pc++];
        if (is_stopped(l)) return interrupted();
        if (e->times) ipu__times_begin(l, pc - 1);
        if (checks) IPU_TRY(e->def->checks->step(e, i));
        switch (i->op) {
        case IPU__CODE_EXECUTE: status = execute(l, i); break;
        case IPU__CODE_KERNEL: status = kernel(l, i, &pc); break;
        case IPU__CODE_MOVE: status = move(l, i); break;
        case IPU__CODE_READ: status = ipu__engine_read_stream(l, i); break;
        case IPU__CODE_WRITE: status = ipu__engine_write_stream(l, i); break;
        case IPU__CODE_REMOTE_READ:
        case IPU__CODE_REMOTE_WRITE: status = ipu__engine_remote(l, i); break;
        case IPU__CODE_REPEAT: e->counters[i->a] = (int64_t)i->n; break;
        case IPU__CODE_AGAIN:
            if (--e->counters[i->a] > 0) pc = i->b;
            break;
        case IPU__CODE_JUMP: pc = i->b; break;
        case IPU__CODE_JUMP_IF:
        case IPU__CODE_JUMP_UNLESS: status = jump(e, i, &pc); break;
        case IPU__CODE_SWITCH: status = jump_to_case(e, i, &pc); break;
        case IPU__CODE_CALL:
            l->calls[depth++] = pc;
            pc                = i->b;
            break;
        case IPU__CODE_PARALLEL: status = ipu__runner_run_bodies(l, i, depth); break;
        case IPU__CODE_RETURN:
            if (depth == bottom) return IPU_OK;
            pc = l->calls[--depth];
            break;
        case IPU__CODE_PRINT: status = ipu__engine_print(l, i); break;
        case IPU__CODE_ABORT_IF: status = abort_if(e, i); break;
        case IPU__CODE_ERROR: status = ipu__engine_error(l, i); break;
        case IPU__CODE_CROSS_REPLICA: status = cross_replica(l, i); break;
        case IPU__CODE_ALL_REDUCE: status = ipu__engine_all_reduce(l, i); break;
        case IPU__CODE_ALL_REDUCE_WAIT: status = ipu__engine_all_reduce_wait(e); break;
        case IPU__CODE_UNDEFINE: break;
        case IPU__CODE_END: return IPU_OK;
        }
    }
    return status;
}

static ipu_status check_streams(const ipu_engine *e, const ipu__exe_program *program)
{
    const ipu_executable *exe = e->exe;
    for (uint32_t i = 0; i < program->n_streams; i++) {
        uint32_t               stream = exe->used_streams.at[program->first_stream + i];
        const ipu__exe_stream *s      = &exe->streams.at[stream];
        for (int64_t r = 0; r < (s->broadcast ? 1 : e->replication); r++) {
            const ipu__connection *c           = &e->connections[stream * e->replication + r];
            char                   replica[40] = "";
            if (ipu__is_connected(c) || s->bytes == 0) continue;
            if (e->replication > 1 && !s->broadcast)
                snprintf(replica, sizeof replica, " for replica %lld", (long long)r);
            return ipu__fail(IPU_INVALID,
                             "stream \"%s\" is not connected%s: "
                             "use ipu_engine_connect_stream%s or ipu_engine_connect_callback%s",
                             ipu__exe_text(exe, s->handle), replica, *replica ? "_replica" : "",
                             *replica ? "_replica" : "");
        }
    }
    return IPU_OK;
}

/* Memory being summed must not be released; the message stays that of the failure. */
static void finish_sums(ipu_engine *e)
{
    if (!e->sums) return;
    char      *message = ipu__strdup(ipu_message());
    ipu_status status  = ipu__engine_all_reduce_wait(e);
    if (message && status != IPU_OK) ipu__fail(status, "%s", message);
    ipu__free(message);
}

static ipu_status run_program(ipu_engine *e, size_t i)
{
    const ipu__exe_program *program = &e->exe->programs.at[i];
    IPU_TRY(check_streams(e, program));
    e->running = true;
    e->runners->counts.runs++;
    if (e->def->begin_run) e->def->begin_run(e, i);
    ipu_status status = ipu__runner_run(e->runners, program->begin, 0);
    if (status != IPU_OK) finish_sums(e);
    if (e->def->end_run) e->def->end_run(e, i);
    if (status == IPU_INTERRUPTED) atomic_store(&e->interrupted, 0);
    if (e->times) ipu__times_end(e->runners);
    e->running = false;
    return status;
}

ipu_status ipu_engine_run(ipu_engine *e, size_t i)
{
    size_t n = ipu_executable_n_programs(e->exe);
    IPU_TRY(ipu__engine_check(e));
    if (i >= n)
        return ipu__fail(IPU_INVALID, "there is no program %zu: the executable has %zu, counted from 0", i,
                         n);
    const ipu__exe_program    *program = &e->exe->programs.at[i];
    const ipu_engine_counters *counts  = &e->runners->counts;
    const ipu_engine_counters  before  = *counts;
    if (!e->device) return run_program(e, i);
    IPU_TRY(ipu__device_begin_run(e->device, e->settings.wait_seconds));
    ipu_status status = run_program(e, i);
    ipu__device_end_run(e->device,
                        &(ipu__run_counts){.supersteps = counts->supersteps - before.supersteps,
                                           .host_bytes = counts->streamed_bytes - before.streamed_bytes,
                                           .cycles     = status == IPU_OK ? program->cycles : -1,
                                           .tile_bytes = e->exe->tile_bytes});
    return status;
}

ipu_status ipu__engine_start(ipu_engine *e)
{
    if (e->exe->start == IPU__NONE) return IPU_OK;
    ipu_status status  = run_program(e, e->exe->start);
    e->runners->counts = (ipu_engine_counters){.threads = e->settings.threads};
    return status;
}

void ipu_engine_interrupt(ipu_engine *e) { atomic_store(&e->interrupted, 1); }
