/* Profiles: costs for people and for programs, beside the host time an engine measured.
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
    IPU_PROFILE_STEPS = 1, /* text: with the list of steps (JSON always has it) */
    IPU_PROFILE_TILES = 2, /* JSON: with the memory of every tile */
};

/* A summary to read. Owned: ipu_free. Statuses: OUT_OF_MEMORY. */
ipu_status ipu_cost_print(const ipu_cost *cost, unsigned flags, char **out);
/* The same and more, as a JSON object. Owned: ipu_free. */
ipu_status ipu_cost_json(const ipu_cost *cost, unsigned flags, char **out);

/* What an engine measured of one step: host time, and how often it ran. The place of a step is
 * the id of the sequence it was added to and its index there (ipu_cost_step.program, .step). */
typedef struct ipu_step_time {
    uint32_t    program, step;
    int64_t     runs;
    double      seconds; /* of all these runs together */
    const char *kind;    /* "kernel", as in ipu_cost_step; NULL: not known */
    const char *name;    /* of a compute set or kernel, borrowed from the engine; "" for others */
    int64_t     kernel;  /* its number in the engine: ipu_engine_kernel_at; -1: it is none */
} ipu_step_time;

/* What an engine made with the option "profile" (docs/cost.md) measured since then: the steps that ran, by
 * place. Copies that run together count as the first of them. Owned: ipu_free.
 * Statuses: INVALID (the engine measures nothing), OUT_OF_MEMORY. */
ipu_status ipu_engine_step_times(const ipu_engine *e, ipu_step_time **out, size_t *n);

/* Put measured times beside the estimates; earlier ones are replaced. A step that the list of a cost
 * has in several places gets its time in the first. Places it does not have are ignored.
 *
 * A host need not run the program that is priced: what only pays on its CPU is fused for it. Where a compute set or
 * kernel that ran stands at the place of another step, no step gets a time, and both forms list what ran apart.
 * Statuses: OUT_OF_MEMORY. */
ipu_status ipu_cost_set_times(ipu_cost *cost, const ipu_step_time *times, size_t n);
/* Step i of those listed apart, in the order of their places. False past the last. */
bool ipu_cost_host_step_at(const ipu_cost *cost, int64_t i, ipu_step_time *out);

#ifdef __cplusplus
}
#endif
#endif
