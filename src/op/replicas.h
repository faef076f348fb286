/* One op for all replicas at once: what folding them into one larger batch (model/parallel/fold_batch.h) asks of ops.
 *
 * A value of a network that is built for one replica stands for as many as there are replicas. Folded, they
 * are one: the same for all, or laid behind each other along a dimension, or, where only their sum is wanted,
 * that. A scalar of each replica is a vector. An op's record says how it takes such values: by a list (IPU__BATCH) or
 * by a function.
 */
#ifndef IPU_OP_REPLICAS_H
#define IPU_OP_REPLICAS_H

#include "op/op.h"

typedef enum ipu__folded_kind {
    IPU__FOLDED_SAME, /* as in each replica */
    IPU__FOLDED_ROWS, /* dimension `axis` is as often as long, replicas outermost; of a scalar: [replicas] */
    IPU__FOLDED_SUM   /* over replicas; float where they are half: it does not overflow before they do */
} ipu__folded_kind;

typedef struct ipu__folded {
    ipu_value        value; /* null: absent */
    ipu__folded_kind kind;
    int              axis;
} ipu__folded;

typedef struct ipu__replicas {
    ipu_builder           *b;
    const ipu_kernel_call *call; /* of one replica */
    int64_t                n;    /* replicas */
    const ipu__folded     *in;   /* no sums; rows at least one of them */
    const bool            *sums; /* by output: its sum will do */
    const bool            *used; /* by output */
    ipu__folded           *out;
} ipu__replicas;

/* The op by its record: `fold`, `batch`, or its being elementwise. False: it cannot, or not with such inputs;
 * then each replica needs an op of its own. */
bool ipu__replicas_fold(ipu__replicas *r);

/* ---- values; `one` is the shape that one replica has ---- */

/* Any but a sum as rows along `axis`. */
ipu_value ipu__replicas_rows(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int axis);
/* Rows with replicas as a dimension of their own, the first; then `one` with 1s in front up to `rank`. */
ipu_value ipu__replicas_lead(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int rank);
/* Back from that, `rank` being that of one replica. */
ipu__folded ipu__replicas_joined(const ipu__replicas *r, ipu_value led);
/* Any value as a sum. */
ipu_value ipu__replicas_sum(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one);
/* What a sum of values of this type is. */
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

/* ---- for rules: each emits the op with `a` in place of the attributes of these names ---- */

/* On inputs of the rule's own; output 0 is rows along `axis`. */
bool ipu__replicas_emit(ipu__replicas *r, const ipu_value *in, const ipu_attribute *a, size_t n_a, int axis);
/* On inputs as they are; output 0 is the sum, in the type of sums. */
bool ipu__replicas_emit_sum(ipu__replicas *r, const ipu_value *in);
/* On inputs with replicas in front, as outputs have them then. `rank`: as of ipu__replicas_lead. Those that
 * are the same for all stay as they are if the op `broadcasts`. */
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
