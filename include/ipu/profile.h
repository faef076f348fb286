/* Profiles: costs in readable and machine-readable form, together with the host time an engine measured.
 *
 *     char *text;
 *     IPU_TRY(ipu_cost_print(cost, IPU_PROFILE_STEPS, &text));
 *     puts(text);
 *     ipu_free(text);
 *
 * Both forms open with what is modelled and what is not. docs/profile-schema.json describes the JSON.
 */
#ifndef IPU_PROFILE_H
#define IPU_PROFILE_H

#include "ipu/cost.h"
#include "ipu/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    IPU_PROFILE_STEPS = 1, /* text: include the list of steps (JSON always does) */
    IPU_PROFILE_TILES = 2, /* JSON: include the memory of every tile */
};

/* A readable summary. Owned: ipu_free. Statuses: OUT_OF_MEMORY. */
ipu_status ipu_cost_print(const ipu_cost *cost, unsigned flags, char **out);
/* The same and more, as a JSON object. Owned: ipu_free. */
ipu_status ipu_cost_json(const ipu_cost *cost, unsigned flags, char **out);

/* What an engine measured for one step: host time, and how often it ran. A step's place is the id of the
 * sequence it was added to and its index there (ipu_cost_step.program, .step). */
typedef struct ipu_step_time {
    uint32_t    program, step;
    int64_t     runs;
    double      seconds; /* total over these runs */
    const char *kind;    /* "kernel", as in ipu_cost_step; NULL if unknown */
    const char *name;    /* of a compute set or kernel, borrowed from the engine; "" for others */
    int64_t     kernel;  /* its number in ipu_engine_kernel_at; -1 if it is not a kernel */
} ipu_step_time;

/* What an engine created with the option "profile" (docs/cost.md) has measured since: the steps that ran, by
 * place. Copies that run together count as the first of them. Owned: ipu_free. Statuses: INVALID (the engine
 * does not measure), OUT_OF_MEMORY. */
ipu_status ipu_engine_step_times(const ipu_engine *e, ipu_step_time **out, size_t *n);

/* Add measured times to the estimates, replacing earlier ones. A step listed several times in a cost gets its time
 * in the first entry. Unknown places are ignored.
 *
 * The host may run a program that differs from the priced one, with fusions that only pay off on its CPU. If a
 * compute set or kernel ran at the place of another step, no step gets a time, and both forms list what ran
 * separately. Statuses: OUT_OF_MEMORY. */
ipu_status ipu_cost_set_times(ipu_cost *cost, const ipu_step_time *times, size_t n);
/* Step i of those listed separately, by place. Returns false past the last. */
bool ipu_cost_host_step_at(const ipu_cost *cost, int64_t i, ipu_step_time *out);

#ifdef __cplusplus
}
#endif
#endif
