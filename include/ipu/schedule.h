/* Schedules: learning rates that change from step to step.
 *
 *     ipu_schedule how = {.kind = IPU_SCHEDULE_COSINE, .rate = 0.1, .n_steps = 10000, .warmup = 500};
 *     IPU_TRY(ipu_executor_set_rate(model, 0, ipu_schedule_rate(&how, step++)));
 *     IPU_TRY(ipu_executor_run(model, batch.arrays, batch.n_arrays));
 *
 * A schedule is a function of the step number and nothing else, so a resumed training run continues with the same
 * rates. The formulas are those of torch.optim.lr_scheduler, by step rather than by epoch.
 */
#ifndef IPU_SCHEDULE_H
#define IPU_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ipu_schedule_kind {
    IPU_SCHEDULE_CONSTANT,
    IPU_SCHEDULE_STEP,        /* times gamma every `period` steps: StepLR */
    IPU_SCHEDULE_EXPONENTIAL, /* times gamma each step: ExponentialLR */
    IPU_SCHEDULE_LINEAR,      /* in a line to `last` at n_steps, where it stays: LinearLR */
    IPU_SCHEDULE_COSINE,    /* along half a cosine to `last` at n_steps, where it stays: CosineAnnealingLR */
    IPU_SCHEDULE_MILESTONES /* times gamma at each of `milestones`: MultiStepLR */
} ipu_schedule_kind;

typedef struct ipu_schedule {
    ipu_schedule_kind kind;
    double            rate; /* initial rate, after any warm-up */
    double            last;
    double            gamma;
    int64_t           period, n_steps; /* n_steps: the warm-up included */
    int64_t           warmup;          /* steps over which the rate grows in a line from 0; 0: none */
    /* Shares of n_steps, in any order: 0.5 is the first step of the second half. With n_steps 1 they are the
     * numbers of steps. Borrowed. */
    const double *milestones;
    size_t        n_milestones;
} ipu_schedule;

/* The rate at step `step`, from 0. */
double ipu_schedule_rate(const ipu_schedule *s, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
