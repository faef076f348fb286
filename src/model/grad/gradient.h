/* Reverse mode over the ops of a model: what gradient*.c and recompute.c share.
 *
 * A pass goes once forward over the ops, noting which values depend on an x (`is_active`), and once
 * backward, where each op that has the gradient of an output gives those of its inputs. Everything is kept by
 * value id in one table that grows with the model, so that ops which arise on the way (compositions, the
 * branches and bodies that gradients of IF and LOOP clone) are gone over like any others.
 */
#ifndef IPU_MODEL_GRAD_GRADIENT_H
#define IPU_MODEL_GRAD_GRADIENT_H

#include "model/model.h"

typedef struct ipu__diff_value {
    uint32_t d;         /* the gradient so far; 0: none yet */
    uint32_t copy;      /* while blocks are cloned: what stands for it; 0: itself */
    uint32_t origin;    /* of a copy: the value that its gradient belongs to; 0: itself */
    uint32_t seen;      /* the number of the last walk that met it */
    bool     is_active; /* depends on an x, differentiably */
} ipu__diff_value;

typedef struct ipu__diff {
    ipu_model *m;
    bool       higher_order;
    uint32_t   first_new; /* ids from here on are made by the pass */
    uint32_t   walk;      /* number of the last walk */
    IPU_ARRAY(ipu__diff_value) values;
    struct ipu__recompute *again; /* NULL: nothing is computed again */
} ipu__diff;

typedef IPU_ARRAY(uint32_t) ipu__id_list;

/* ---- gradient.c ---- */

static inline bool ipu__diff_ok(const ipu__diff *p) { return p->m->base.status == IPU_OK; }
/* The table reaches all values there are; false: memory (the builder's error). */
bool ipu__diff_cover(ipu__diff *p);
void ipu__diff_fail_memory(ipu__diff *p);
/* Which outputs of ops `begin` to `end` of a block depend on an x. */
void ipu__diff_sweep(ipu__diff *p, uint32_t block, size_t begin, size_t end);
/* From the last op to the first: gradients of inputs out of those of outputs. */
void ipu__diff_reverse(ipu__diff *p, uint32_t block, size_t begin, size_t end);
/* The gradient of value `id` has this part too. */
void ipu__diff_add(ipu__diff *p, uint32_t id, ipu_value part);
/* Gradient of `id` so far; null: none. */
ipu_value ipu__diff_of(const ipu__diff *p, uint32_t id);

/* ---- error.c ---- */

/* The error that y has no gradient for x, and where the path from x to y ends. */
void ipu__diff_fail_cut(ipu__diff *p, ipu_value y, ipu_value x);

/* ---- custom.c ---- */

/* What the op is of; NULL: an op like others. */
const ipu__custom *ipu__diff_custom(const ipu_model *m, const ipu__model_op *op);
bool               ipu__diff_custom_is_active(const ipu__diff *p, const ipu__custom *c);
/* Asks for its gradients, if `op` is its first. */
void ipu__diff_step_custom(ipu__diff *p, const ipu__model_op *op, const ipu__custom *c);

/* ---- control.c ---- */

void ipu__diff_if(ipu__diff *p, uint32_t op);

/* What an IF or LOOP uses from outside its blocks, while its gradient is built. */
typedef struct ipu__outside {
    ipu__id_list           captured;
    ipu__id_list           wanted; /* those of them that get a gradient */
    ipu__id_list           saved;  /* their gradients so far */
    struct ipu__recompute *again;  /* what was in force */
} ipu__outside;

/* From here on gradients of captured values begin anew, and what is emitted uses what stands for them: copies,
 * where forward values are computed again, made now, outside of the blocks to come. False: an error. */
bool ipu__diff_enter(ipu__diff *p, const ipu__model_op *op, ipu__outside *o);
/* Undoes that. `d`: what was found for the wanted ones; NULL: nothing. */
void ipu__diff_leave(ipu__diff *p, ipu__outside *o, const ipu_value *d);
/* Some output has a gradient and depends on an x. */
bool ipu__diff_is_wanted(const ipu__diff *p, const ipu__model_op *op);
/* Clones `block` into the one being built and goes backward over it; d_yields[i] null: nothing depends on it. */
void ipu__diff_block(ipu__diff *p, uint32_t block, const ipu_value *d_yields);
/* The gradient that value `id` has got, which then begins anew; zeros if there is none. */
ipu_value ipu__diff_take(ipu__diff *p, uint32_t id);
ipu_value ipu__diff_zeros_like(ipu__diff *p, uint32_t id);
/* Null values. NULL: memory (the builder's error). Owned: ipu__free. */
ipu_value *ipu__diff_new_values(ipu__diff *p, size_t n);

/* ---- loop.c ---- */

void ipu__diff_loop(ipu__diff *p, uint32_t op);

/* ---- recompute.c ---- */

/* The ops of `block` once more, at the end of the block being built, on values that `copy` tells. */
void ipu__clone_block(ipu__diff *p, uint32_t block);
/* What stands for `id` in the clone. */
ipu_value ipu__clone_of(const ipu__diff *p, uint32_t id);

/* From here on gradient ops use copies of forward values, except of `checkpoints` and `kept`. */
void ipu__recompute_begin(ipu__diff *p, const ipu_value *checkpoints, size_t n, ipu_value kept);
void ipu__recompute_end(ipu__diff *p);
/* The pass is about to do `op`: what is computed again before a checkpoint is not kept until after it. */
void ipu__recompute_step(ipu__diff *p, const ipu__model_op *op);

#endif
