/* A network with stages as parts: which op runs where, and how values pass between them.
 *
 * A position is a stage and a direction, in the order in which a batch goes through them: forward stages 0 to
 * S - 1, then backward ones S (of stage S - 1) to 2 S - 1 (of stage 0). A value is produced at one position
 * and used at others: routes take it from position to position, only to the next one when crossing IPUs, and
 * across any number of them within an IPU. A part is the model of one position, whose inputs and outputs are
 * the ends of its routes plus those of the network.
 */
#ifndef IPU_MODEL_PARALLEL_PLAN_H
#define IPU_MODEL_PARALLEL_PLAN_H

#include "model/model.h"

#define IPU__EVERYWHERE UINT32_MAX /* constants, and what no run changes */

typedef struct ipu__route {
    uint32_t value, from, to;
} ipu__route;

typedef struct ipu__plan {
    const ipu_model *m;          /* borrowed */
    const int64_t   *stage_ipus; /* borrowed; by stage */
    uint32_t         n_stages, n_positions;
    uint32_t        *op_position;    /* by op of block 0 */
    uint32_t        *value_position; /* by value: where it is produced, supplied or updated */
    uint8_t         *is_member;      /* by position and op: it computes the op */
    uint8_t         *uses;           /* by position and value: its ops read it */
    IPU__ARRAY(ipu__route) routes;   /* in an order in which they can be followed */
} ipu__plan;

/* Cuts `m`, which must not contain dead ops, into parts. With `recompute`, backward parts recompute what they
 * need of their forward part. Undo with ipu__plan_fini even on failure. Statuses: INVALID (an empty stage, a
 * state that goes backwards), OUT_OF_MEMORY. */
ipu_status ipu__plan_make(const ipu_model *m, const int64_t *stage_ipus, bool recompute, ipu__plan *out);
void       ipu__plan_fini(ipu__plan *p);

/* The stage of a position. */
static inline uint32_t ipu__plan_stage(const ipu__plan *p, uint32_t position)
{
    return position < p->n_stages ? position : 2 * p->n_stages - 1 - position;
}

static inline int64_t ipu__plan_ipu(const ipu__plan *p, uint32_t position)
{
    return p->stage_ipus[ipu__plan_stage(p, position)];
}

static inline bool ipu__plan_uses(const ipu__plan *p, uint32_t position, uint32_t value)
{
    return p->uses[(size_t)position * p->m->values.n + value];
}

/* The position that output `i` of the network comes from. */
uint32_t ipu__plan_output_position(const ipu__plan *p, size_t i);
/* Whether this is the first route that takes its value from its position: each value is handed over once. */
bool ipu__plan_is_first(const ipu__plan *p, size_t route);

/* The model of one position: a copy that may be optimised and lowered, with the ids of the network's values.
 * Its outputs are the network's that are produced there, in order, then those of routes that start there, in
 * order and unnamed. Its inputs are the network's, then those of routes that end there, which are to be
 * bound. NULL if out of memory. */
ipu_model *ipu__plan_part(const ipu__plan *p, uint32_t position);

/* The network without ops, inputs and outputs, and with only those kept values whose ids are marked. NULL if
 * out of memory. */
ipu_model *ipu__plan_kept(const ipu__plan *p, const uint8_t *is_wanted);

/* ---- automatic stages (cut.c) ---- */

/* Makes every op a stage of its own, or part of the first stage that uses it if it depends on constants
 * alone. To be called before gradients are taken, which belong to these stages. */
ipu_status ipu__model_number_stages(ipu_model *m);
/* Joins them into `n` stages of about equal modelled time on one IPU of `target`. Statuses: INVALID (there
 * are fewer ops), OUT_OF_MEMORY. */
ipu_status ipu__model_cut(ipu_model *m, uint32_t n, const ipu_target *target);

#endif
