/* Host time of the steps of programs, measured instruction by instruction.
 *
 * Only the thread that runs a program or a body looks at the clock: the time of a step is how long the run waited
 * for it, with all replicas, on however many threads. That of a parallel step includes its bodies.
 */
#include <stdlib.h>

#include "base/host/clock.h"
#include "engine/run/run.h"
#include "ipu/profile.h"

ipu_status ipu__times_init(ipu_engine *e)
{
    const ipu_executable *exe = e->exe;
    if (!e->settings.profile) return IPU_OK;
    if (exe->steps.n != exe->code.n)
        return ipu__fail(IPU_INVALID,
                         "the option \"profile\" is set for the engine and was not when its executable was "
                         "compiled: set it for both");
    e->times = ipu__alloc_zeroed(exe->code.n * sizeof *e->times);
    return ipu__or_memory(e->times != NULL);
}

/* Closes the instruction that ends at `t`, which is returned. */
static int64_t close_last(const ipu__runner *l, int64_t t)
{
    if (l->last_pc != IPU__NONE) l->e->times[l->last_pc].nanoseconds += t - l->last_ns;
    return t;
}

void ipu__times_begin(ipu__runner *l, uint32_t pc)
{
    l->last_ns = close_last(l, ipu__clock_ns());
    l->last_pc = pc;
    l->e->times[pc].runs++;
}

void ipu__times_go_on(ipu__runner *l, uint32_t pc)
{
    l->last_ns = close_last(l, ipu__clock_ns());
    l->last_pc = pc;
}

void ipu__times_end(ipu__runner *l)
{
    l->last_ns = close_last(l, ipu__clock_ns());
    l->last_pc = IPU__NONE;
}

/* ---- as steps ---- */

/* Instructions that repeat or complete a step: their time counts, but not as a run of its own. */
static bool is_run(ipu__opcode op) { return op != IPU__CODE_AGAIN && op != IPU__CODE_JUMP; }

static const char *kind_of(ipu__opcode op)
{
    static const char *const kinds[] = {
        [IPU__CODE_EXECUTE]         = "execute",
        [IPU__CODE_KERNEL]          = "kernel",
        [IPU__CODE_MOVE]            = "copy",
        [IPU__CODE_READ]            = "read",
        [IPU__CODE_WRITE]           = "write",
        [IPU__CODE_REMOTE_READ]     = "remote_read",
        [IPU__CODE_REMOTE_WRITE]    = "remote_write",
        [IPU__CODE_REPEAT]          = "repeat",
        [IPU__CODE_AGAIN]           = "repeat",
        [IPU__CODE_SWITCH]          = "switch",
        [IPU__CODE_CALL]            = "call",
        [IPU__CODE_PARALLEL]        = "parallel",
        [IPU__CODE_PRINT]           = "print",
        [IPU__CODE_ABORT_IF]        = "abort_if",
        [IPU__CODE_ERROR]           = "error",
        [IPU__CODE_CROSS_REPLICA]   = "cross_replica_copy",
        [IPU__CODE_ALL_REDUCE]      = "all_reduce",
        [IPU__CODE_ALL_REDUCE_WAIT] = "all_reduce_wait",
    };
    const char *kind = (size_t)op < sizeof kinds / sizeof *kinds ? kinds[op] : NULL;
    return kind ? kind : "branch";
}

static const char *name_of(const ipu_executable *exe, const ipu__instruction *i)
{
    if (i->op == IPU__CODE_KERNEL) return exe->kernels.at[i->a].call.def->name;
    return i->op == IPU__CODE_EXECUTE ? ipu__exe_text(exe, exe->sets.at[i->a].name) : "";
}

static int by_place(const void *a, const void *b)
{
    const ipu_step_time *x = a, *y = b;
    if (x->program != y->program) return x->program < y->program ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

/* Merges entries for the same place. */
static size_t join(ipu_step_time *times, size_t n)
{
    size_t last = 0;
    for (size_t i = 1; i < n; i++) {
        if (by_place(&times[last], &times[i]) == 0) {
            times[last].runs += times[i].runs;
            times[last].seconds += times[i].seconds;
            if (times[last].kernel < 0 && *times[last].name == 0) {
                times[last].kind   = times[i].kind;
                times[last].name   = times[i].name;
                times[last].kernel = times[i].kernel;
            }
        } else {
            times[++last] = times[i];
        }
    }
    return n ? last + 1 : 0;
}

ipu_status ipu_engine_step_times(const ipu_engine *e, ipu_step_time **out, size_t *n)
{
    const ipu_executable *exe = e->exe;
    *out                      = NULL;
    *n                        = 0;
    if (!e->times)
        return ipu__fail(IPU_INVALID,
                         "ipu_engine_step_times: the engine measures nothing: set the option \"profile\" to "
                         "true for the compilation and for the engine");
    ipu_step_time *times = ipu__alloc(exe->code.n * sizeof *times);
    if (!times) return ipu__fail_memory();
    size_t n_times = 0;
    for (size_t pc = 0; pc < exe->code.n; pc++) {
        const ipu__exe_step *s = &exe->steps.at[pc];
        const ipu__time     *t = &e->times[pc];
        if (t->runs == 0 || s->program == 0) continue; /* ends of programs and functions are not steps */
        const ipu__instruction *i = &exe->code.at[pc];
        times[n_times++]          = (ipu_step_time){.program = s->program,
                                                    .step    = s->step,
                                                    .runs    = is_run(i->op) ? t->runs : 0,
                                                    .seconds = 1e-9 * (double)t->nanoseconds,
                                                    .kind    = kind_of(i->op),
                                                    .name    = name_of(exe, i),
                                                    .kernel  = i->op == IPU__CODE_KERNEL ? (int64_t)i->a : -1};
    }
    qsort(times, n_times, sizeof *times, by_place);
    *out = times;
    *n   = join(times, n_times);
    return IPU_OK;
}
