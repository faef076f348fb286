/* Attention in pieces: shared by its reference, its implementation and its gradient.
 *
 * out = softmax(scale q k^T + mask) v for each of `groups` matrices; `lse`, the logarithm of the sum of
 * exponentials of each row, lets the gradient recompute the probabilities.
 */
#ifndef IPU_OP_SEQUENCE_ATTENTION_H
#define IPU_OP_SEQUENCE_ATTENTION_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

/* Operands of attention, and of its gradient. */
enum {
    IPU__ATTENTION_Q,
    IPU__ATTENTION_K,
    IPU__ATTENTION_V,
    IPU__ATTENTION_MASK,
    IPU__ATTENTION_OUT,
    IPU__ATTENTION_LSE
};
enum {
    IPU__ATTENTION_GRAD_D_OUT,
    IPU__ATTENTION_GRAD_Q,
    IPU__ATTENTION_GRAD_K,
    IPU__ATTENTION_GRAD_V,
    IPU__ATTENTION_GRAD_MASK,
    IPU__ATTENTION_GRAD_OUT,
    IPU__ATTENTION_GRAD_LSE,
    IPU__ATTENTION_GRAD_D_LSE,
    IPU__ATTENTION_GRAD_D_Q,
    IPU__ATTENTION_GRAD_D_K,
    IPU__ATTENTION_GRAD_D_V
};

typedef struct ipu__attention {
    int64_t  groups, queries, keys, depth, width; /* q [queries, depth], k [keys, depth], v [keys, width] */
    double   scale;
    bool     causal; /* query i sees keys 0 to i */
    ipu_type type;
    int      mask; /* operand, or -1 */
    /* The position of mask[group][query][key]: strides of the dimensions before the last two, 0 where it is
     * broadcast. */
    int     n_leading;
    int64_t leading[IPU_MAX_RANK], mask_leading[IPU_MAX_RANK], mask_query, mask_key;
} ipu__attention;

/* For a call that passed `infer`. */
ipu__attention ipu__attention_get(const ipu__kernel_call *call);
int64_t        ipu__attention_mask_at(const ipu__attention *a, int64_t group, int64_t query);

void ipu__attention_ref(const ipu__kernel_call *call, void *const *operand);
void ipu__attention_grad_ref(const ipu__kernel_call *call, void *const *operand);

/* ---- attention_run.c ---- */

extern const ipu__cpu_impl ipu__attention_impl[1], ipu__attention_grad_impl[1];

/* ---- attention_emit.c ---- */

void ipu__attention_emit_grad(ipu__gradient *g);
void ipu__attention_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                            ipu_value *out);

/* ---- attention_simd.c: rows of scores ---- */

typedef struct ipu__attention_loops {
    /* s = e^(scale s + mask - its maximum) over n keys, of which the first `seen` count; returns the sum, and
     * the maximum in *most. `mask` may be NULL. */
    float (*row)(float *s, const float *mask, float scale, int64_t seen, int64_t n, float *most);
    /* p = e^(scale s + mask - lse), in the place of s; d = scale p (d - minus), in the place of d. */
    void (*row_back)(float *s, float *d, const float *mask, float scale, float lse, float minus, int64_t seen,
                     int64_t n);
    void (*multiply)(float *x, float by, int64_t n);
    float (*dot)(const float *x, const float *y, int64_t n);
} ipu__attention_loops;

IPU__SIMD_DECLARE(extern const ipu__attention_loops, ipu__attention_loops)

#endif
