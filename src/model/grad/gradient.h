/* Reverse mode over the ops of a model: shared by gradient*.c and recompute.c.
 *
 * A pass goes once forward over the ops, noting which values depend on an x (`is_active`), and once backward,
 * where each op with a gradient of an output gives those of its inputs. Everything is kept by value id in one
 * table that grows with the model, so that ops created on the way (compositions, cloned branches and loop
 * bodies) are processed like any others.
 */
#ifndef IPU_MODEL_GRAD_GRADIENT_H
#define IPU_MODEL_GRAD_GRADIENT_H

#include "model/model.h"

typedef struct ipu__diff_value {
    uint32_t d;         /* the gradient so far, or 0 */
    uint32_t copy;      /* while blocks are cloned: its replacement; 0: itself */
    uint32_t origin;    /* for a copy: the value that its gradient belongs to; 0: itself */
    uint32_t seen;      /* the number of the last walk that visited it */
    bool     is_active; /* depends on an x, differentiably */
} ipu__diff_value;

typedef struct ipu__diff {
    ipu_model *m;
    bool       higher_order;
    uint32_t   first_new; /* ids from here on were made by the pass */
    uint32_t   walk;      /* number of the last walk */
    IPU__ARRAY(ipu__diff_value) values;
    struct ipu__recompute *again; /* NULL if nothing is recomputed */
} ipu__diff;

typedef IPU__ARRAY(uint32_t) ipu__id_list;

/* ---- gradient.c ---- */

static inline bool ipu__diff_ok(const ipu__diff *p) { return p->m->base.status == IPU_OK; }
/* Extends the table to all values; returns false if out of memory (the builder's error). */
bool ipu__diff_cover(ipu__diff *p);
void ipu__diff_fail_memory(ipu__diff *p);
/* Finds which outputs of ops `begin` to `end` of a block depend on an x. */
void ipu__diff_sweep(ipu__diff *p, uint32_t block, size_t begin, size_t end);
/* From the last op to the first: computes gradients of inputs from those of outputs. */
void ipu__diff_reverse(ipu__diff *p, uint32_t block, size_t begin, size_t end);
/* Adds `part` to the gradient of value `id`. */
void ipu__diff_add(ipu__diff *p, uint32_t id, ipu_value part);
/* The gradient of `id` so far, or null. */
ipu_value ipu__diff_of(const ipu__diff *p, uint32_t id);

/* ---- error.c ---- */

/* Reports that y has no gradient for x, and where the path from x to y ends. */
void ipu__diff_fail_cut(ipu__diff *p, ipu_value y, ipu_value x);

/* ---- custom.c ---- */

/* The group the op belongs to, or NULL. */
const ipu__custom *ipu__diff_custom(const ipu_model *m, const ipu__model_op *op);
bool               ipu__diff_custom_is_active(const ipu__diff *p, const ipu__custom *c);
/* Calls the user's function if `op` is the group's first. */
void ipu__diff_step_custom(ipu__diff *p, const ipu__model_op *op, const ipu__custom *c);

/* ---- control.c ---- */

void ipu__diff_if(ipu__diff *p, uint32_t op);

/* What an IF or LOOP uses from outside its blocks, while its gradient is built. */
typedef struct ipu__outside {
    ipu__id_list           captured;
    ipu__id_list           wanted; /* those that get a gradient */
    ipu__id_list           saved;  /* their gradients so far */
    struct ipu__recompute *again;  /* the previous one */
} ipu__outside;

/* Starts captured values with fresh gradients, and makes emitted ops use their replacements: where forward
 * values are recomputed, copies made now, outside the blocks to come. Returns false on error. */
bool ipu__diff_enter(ipu__diff *p, const ipu__model_op *op, ipu__outside *o);
/* Undoes that. `d`: the gradients found for the wanted ones, or NULL for none. */
void ipu__diff_leave(ipu__diff *p, ipu__outside *o, const ipu_value *d);
/* Whether some output has a gradient and depends on an x. */
bool ipu__diff_is_wanted(const ipu__diff *p, const ipu__model_op *op);
/* Clones `block` into the one being built and goes backward over it; d_yields[i] is null if nothing depends
 * on it. */
void ipu__diff_block(ipu__diff *p, uint32_t block, const ipu_value *d_yields);
/* Takes the accumulated gradient of value `id`, which is reset; zeros if there is none. */
ipu_value ipu__diff_take(ipu__diff *p, uint32_t id);
ipu_value ipu__diff_zeros_like(ipu__diff *p, uint32_t id);
/* An array of null values. NULL if out of memory (the builder's error). Owned: ipu__free. */
ipu_value *ipu__diff_new_values(ipu__diff *p, size_t n);

/* ---- loop.c ---- */

void ipu__diff_loop(ipu__diff *p, uint32_t op);

/* ---- recompute.c ---- */

/* Repeats the ops of `block` at the end of the block being built, on the values given by `copy`. */
void ipu__clone_block(ipu__diff *p, uint32_t block);
/* What replaces `id` in the clone. */
ipu_value ipu__clone_of(const ipu__diff *p, uint32_t id);

/* From here on gradient ops use copies of forward values, except for `checkpoints` and `kept`. */
void ipu__recompute_begin(ipu__diff *p, const ipu_value *checkpoints, size_t n, ipu_value kept);
void ipu__recompute_end(ipu__diff *p);
/* The pass is about to process `op`: recomputed values are not kept across a checkpoint. */
void ipu__recompute_step(ipu__diff *p, const ipu__model_op *op);

#endif
