/* One op for all replicas at once, as needed to fold them into one larger batch
 * (model/parallel/fold_batch.h).
 *
 * Each value of a network built for one replica stands for one per replica. Folding turns these into a single
 * value: shared by all, concatenated along a dimension, or, if only their sum is needed, that. A scalar per
 * replica becomes a vector. An op's record says how it handles such values: by a list (IPU__BATCH) or a
 * function.
 */
#ifndef IPU_OP_REPLICAS_H
#define IPU_OP_REPLICAS_H

#include "op/op.h"

typedef enum ipu__folded_kind {
    IPU__FOLDED_SAME, /* same in all replicas */
    IPU__FOLDED_ROWS, /* dimension `axis` has all replicas' rows, replicas outermost; a scalar: [replicas] */
    IPU__FOLDED_SUM   /* over replicas; float if they are half, so that it does not overflow earlier */
} ipu__folded_kind;

typedef struct ipu__folded {
    ipu_value        value; /* null if absent */
    ipu__folded_kind kind;
    int              axis;
} ipu__folded;

typedef struct ipu__replicas {
    ipu_builder            *b;
    const ipu__kernel_call *call; /* for one replica */
    int64_t                 n;    /* replicas */
    const ipu__folded      *in;   /* no sums; at least one has rows */
    const bool             *sums; /* by output: its sum suffices */
    const bool             *used; /* by output */
    ipu__folded            *out;
} ipu__replicas;

/* Folds the op by its record: by `fold`, `batch`, or because it is elementwise. Returns false if it cannot,
 * or not with such inputs; then each replica needs an op of its own. */
bool ipu__replicas_fold(ipu__replicas *r);

/* ---- values; `one` is the shape in one replica ---- */

/* Any value except a sum, as rows along `axis`. */
ipu_value ipu__replicas_rows(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int axis);
/* Rows with replicas as a separate first dimension; then `one`, padded with leading 1s to `rank`. */
ipu_value ipu__replicas_lead(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int rank);
/* The inverse, with `rank` that of one replica. */
ipu__folded ipu__replicas_joined(const ipu__replicas *r, ipu_value led);
/* Any value as a sum. */
ipu_value ipu__replicas_sum(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one);
/* The type of a sum of values of this type. */
ipu_type ipu__replicas_sum_type(ipu_type type);

/* ---- rules: values of `fold` ---- */

bool ipu__fold_elementwise(ipu__replicas *r);
bool ipu__fold_along_axis(ipu__replicas *r); /* attribute "axis": other dimensions are independent */
bool ipu__fold_reduce(ipu__replicas *r);
bool ipu__fold_reshape(ipu__replicas *r);
bool ipu__fold_transpose(ipu__replicas *r);
bool ipu__fold_expand(ipu__replicas *r);
bool ipu__fold_slice(ipu__replicas *r);
bool ipu__fold_reverse(ipu__replicas *r);
bool ipu__fold_pad(ipu__replicas *r);
bool ipu__fold_matmul(ipu__replicas *r);
bool ipu__fold_gather(ipu__replicas *r);
bool ipu__fold_gather_grad(ipu__replicas *r);
bool ipu__fold_one_hot(ipu__replicas *r);

/* ---- for rules: each emits the op, with `a` replacing attributes of the same names ---- */

/* On the rule's own inputs; output 0 has rows along `axis`. */
bool ipu__replicas_emit(ipu__replicas *r, const ipu_value *in, const ipu_attribute *a, size_t n_a, int axis);
/* On unchanged inputs; output 0 is the sum, in the type of sums. */
bool ipu__replicas_emit_sum(ipu__replicas *r, const ipu_value *in);
/* On inputs with replicas in front, as outputs then have. `rank`: as for ipu__replicas_lead. Shared inputs
 * are left unchanged if the op `broadcasts`. */
bool ipu__replicas_emit_led(ipu__replicas *r, int rank, bool broadcasts, const ipu_attribute *a, size_t n_a);

static inline const ipu_shape *ipu__replicas_shape(const ipu__replicas *r, int operand)
{
    return &r->call->operand[operand].shape;
}

static inline bool ipu__replicas_is_rows(const ipu__replicas *r, int in)
{
    return ipu__has(r->in[in].value) && r->in[in].kind == IPU__FOLDED_ROWS;
}

#endif
