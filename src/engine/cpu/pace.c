/* Pace: whether the threads of an engine share the parts of kernels, or the caller runs all of them one after
 * another.
 *
 * For programs of some hundred microseconds a second thread can cost more than it gains, if cache lines take 200 ns
 * from core to core or other programs want the CPUs. A virtual machine's guest cannot know this, so short programs
 * try the other way now and then, and stay with what was faster. The parts, and so the bits, are the same either way.
 */
#include "base/host/clock.h"
#include "engine/cpu/cpu.h"

enum {
    FIRST_TRIAL  = 32,      /* runs before the first trial, when memory is warm */
    PERIOD       = 1024,    /* runs between trials */
    TRIAL        = 6,       /* runs in a trial; the first ones move data between caches */
    LONGEST_NS   = 8000000, /* longer runs always gain from sharing */
    WORTH_CHANGE = 16,      /* a change must save at least one part in this many */
};

int64_t ipu__pace_begin(const ipu__cpu *e, const ipu__pace *p)
{
    if (!e->runners->pool || e->n_runners > 0) return 0;
    ipu__pool_set_alone(e->runners->pool, p->alone);
    return ipu__clock_ns();
}

void ipu__pace_end(ipu__pace *p, int64_t begin)
{
    if (begin != 0) ipu__pace_note(p, ipu__clock_ns() - begin);
}

/* ---- what is chosen ---- */

static void begin_trial(ipu__pace *p)
{
    p->alone          = !p->alone;
    p->best[p->alone] = INT64_MAX;
    p->trial          = TRIAL;
    p->runs           = 0;
}

static void end_trial(ipu__pace *p)
{
    int64_t other = p->best[!p->alone], own = p->best[p->alone];
    if (own > other - other / WORTH_CHANGE) p->alone = !p->alone;
    p->best[p->alone] = INT64_MAX; /* so that the next comparison uses recent times */
    p->runs           = -PERIOD;
}

void ipu__pace_init(ipu__pace *p) { *p = (ipu__pace){.best = {INT64_MAX, INT64_MAX}, .runs = -FIRST_TRIAL}; }

void ipu__pace_note(ipu__pace *p, int64_t took)
{
    int64_t *best    = &p->best[p->alone];
    bool     is_warm = p->trial <= TRIAL / 2; /* 0 if it is not a trial */
    if (is_warm && p->runs >= -TRIAL && took < *best) *best = took;
    p->runs++;
    if (p->trial > 0 && --p->trial == 0)
        end_trial(p);
    else if (p->trial == 0 && p->runs >= 0 && (p->alone || *best < LONGEST_NS))
        begin_trial(p);
}
