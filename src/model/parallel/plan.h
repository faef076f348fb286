/* A network with stages as parts: which op runs where, and how values get from one to the other.
 *
 * A position is a stage and a direction, in the order in which a batch goes through them: forward stages 0 to S - 1,
 * then backward ones S (of stage S - 1) to 2 S - 1 (of stage 0). A value is made at one position and used at others:
 * a route takes it from position to position, over IPUs only from one to the next, and on one IPU across any number
 * of them. A part is the model of one position, whose inputs and outputs are its ends of routes besides those of the
 * network.
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
    uint32_t        *value_position; /* by value: where it is made, given or updated */
    uint8_t         *is_member;      /* by position and op: it computes it */
    uint8_t         *uses;           /* by position and value: its ops read it */
    IPU_ARRAY(ipu__route) routes;    /* in an order in which they can be gone */
} ipu__plan;

/* Parts of `m`, in which nothing is dead. With `recompute`, backward parts compute again what they need of their
 * forward one. Undo with ipu__plan_fini also when it fails. Statuses: INVALID (a stage with nothing in it, a state
 * that goes backwards), OUT_OF_MEMORY. */
ipu_status ipu__plan_make(const ipu_model *m, const int64_t *stage_ipus, bool recompute, ipu__plan *out);
void       ipu__plan_fini(ipu__plan *p);

/* The stage that a position is of. */
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

/* Where output `i` of the network comes out. */
uint32_t ipu__plan_output_position(const ipu__plan *p, size_t i);
/* Whether this route is the first that takes its value from its position: values are given by it once. */
bool ipu__plan_is_first(const ipu__plan *p, size_t route);

/* The model of one position: a copy that may be optimised and lowered, with the ids of the network's values. Its
 * outputs are those of the network that come out there, in their order, then those of routes that begin there, in
 * their order and without names. Its inputs are the network's, then those of routes that end there, which are to be
 * bound. NULL: memory. */
ipu_model *ipu__plan_part(const ipu__plan *p, uint32_t position);

/* The network without ops, inputs and outputs, and with only those kept values whose ids are marked. NULL: memory. */
ipu_model *ipu__plan_kept(const ipu__plan *p, const uint8_t *is_wanted);

/* ---- stages that nobody named (cut.c) ---- */

/* Every op is a stage of its own, or of the first that uses it if it is of constants alone; to be called before gradients
 * are taken, which belong to them. */
ipu_status ipu__model_number_stages(ipu_model *m);
/* Join them to `n` stages of about equal modelled time on one IPU of `target`. Statuses: INVALID (there are fewer ops),
 * OUT_OF_MEMORY. */
ipu_status ipu__model_cut(ipu_model *m, uint32_t n, const ipu_target *target);

#endif
