/* Schedules of learning rates: closed forms of the step's number. */
#include "ipu/schedule.h"

#include <math.h>

/* How much of the way is done, 0 to 1. */
static double share(int64_t step, int64_t n)
{
    if (n <= 0 || step >= n) return 1;
    return (double)step / (double)n;
}

/* Milestones that step `step` has reached. Rounding may put one a little after its step: 0.07 * 100 is more than 7. */
static int64_t n_reached(const ipu_schedule *s, int64_t step)
{
    const double close = 1e-6;
    int64_t      n     = 0;
    for (size_t i = 0; i < s->n_milestones; i++)
        n += (double)step + close >= s->milestones[i] * (double)s->n_steps;
    return n;
}

double ipu_schedule_rate(const ipu_schedule *s, int64_t step)
{
    if (step < 0) step = 0;
    if (step < s->warmup) return s->rate * (double)(step + 1) / (double)s->warmup;
    int64_t warmup  = s->warmup > 0 ? s->warmup : 0;
    double  done    = share(step - warmup, s->n_steps - warmup);
    int64_t reached = n_reached(s, step);
    step -= warmup;
    int64_t periods = s->period > 0 ? step / s->period : 0;
    switch (s->kind) {
    case IPU_SCHEDULE_STEP: return s->rate * pow(s->gamma, (double)periods);
    case IPU_SCHEDULE_EXPONENTIAL: return s->rate * pow(s->gamma, (double)step);
    case IPU_SCHEDULE_LINEAR: return s->rate + (s->last - s->rate) * done;
    case IPU_SCHEDULE_COSINE: return s->last + (s->rate - s->last) * (1 + cos(acos(-1) * done)) / 2;
    case IPU_SCHEDULE_MILESTONES: return s->rate * pow(s->gamma, (double)reached);
    case IPU_SCHEDULE_CONSTANT: break;
    }
    return s->rate;
}
