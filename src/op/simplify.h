/* Simplifying an op: the argument of a record's `simplify`, from the constant folding pass
 * (model/pass/constant_fold.h).
 *
 *     static ipu_status slice_simplify(ipu__simplify *s)
 *     {
 *         if (ipu__simplify_is_like(s, X)) s->same = X; // nothing is cut off
 *         return IPU_OK;
 *     }
 *
 * Statuses: OUT_OF_MEMORY.
 */
#ifndef IPU_OP_SIMPLIFY_H
#define IPU_OP_SIMPLIFY_H

#include "op/op.h"

typedef struct ipu__simplify ipu__simplify;
struct ipu__simplify {
    ipu__kernel_call call; /* attributes, types and shapes, outputs included */
    int              same; /* set by the rule: the input that the first output equals; initially -1 */

    /* The op that produces input `i`, with *call describing it; NULL if none does. */
    const ipu__op_def *(*maker)(const ipu__simplify *s, int i, ipu__kernel_call *call);
    /* Replaces input `i`, which must be produced by an op, by the first input of that op. */
    void (*pass_over)(ipu__simplify *s, int i);
    ipu_status (*set)(ipu__simplify *s, ipu_attribute attribute);
    /* Turns it into an op of another kind, with one attribute and the same inputs. */
    ipu_status (*become)(ipu__simplify *s, const ipu__op_def *op, ipu_attribute attribute);
};

/* Whether the first output has the type and shape of input `i`, which must be present. */
bool ipu__simplify_is_like(const ipu__simplify *s, int i);

/* A rule: replaces the output by the first input if they are alike. */
ipu_status ipu__simplify_if_alike(ipu__simplify *s);

/* For "transpose": the input dimension of each output dimension; returns their number. The call has been
 * checked. */
int ipu__transpose_perm(const ipu__kernel_call *call, int64_t perm[IPU_MAX_RANK]);

#endif
