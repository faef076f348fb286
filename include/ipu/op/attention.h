/* Attention.
 *
 *     ipu_value y = ipu_attention(b, q, k, v, IPU_NO_VALUE, (ipu_attention_options){.causal = true});
 *
 * q is [..., queries, depth], k [..., keys, depth], v [..., keys, width], equal in the dimensions before the
 * last two (usually batch and heads); the result is softmax(scale q k^T + mask) v, [..., queries, width].
 */
#ifndef IPU_OP_ATTENTION_H
#define IPU_OP_ATTENTION_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_attention_options {
    double scale;  /* 0 means 1 / sqrt(depth) */
    bool   causal; /* query i sees keys 0 to i */
    /* Of probabilities. If not 0, these are kept, and it is several ops instead of one. */
    double    dropout;
    ipu_value seed; /* what dropout draws from (ipu/op/random.h) */
} ipu_attention_options;

/* `mask` is added to the scores, broadcast to [..., queries, keys]; -infinity hides a key. May be null. */
ipu_value ipu_attention(ipu_builder *b, ipu_value q, ipu_value k, ipu_value v, ipu_value mask,
                        ipu_attention_options options);

/* In PyTorch's layout: in_weight [3 E, E] and in_bias [3 E], for q, k and v in this order; out_weight
 * [E, E]. */
typedef struct ipu_attention_weights {
    ipu_value in_weight, in_bias, out_weight, out_bias; /* biases may be null */
} ipu_attention_weights;

typedef struct ipu_multi_head_options {
    int64_t   n_heads;
    bool      batch_first; /* [batch, time, E] instead of [time, batch, E] */
    bool      causal;
    double    dropout; /* as above */
    ipu_value seed;
} ipu_multi_head_options;

/* torch.nn.MultiheadAttention. `mask` as above, for [batch, heads, queries, keys]. If q, k and v are the same
 * value, they are projected in one product. */
ipu_value ipu_multi_head_attention(ipu_builder *b, ipu_value q, ipu_value k, ipu_value v,
                                   ipu_attention_weights weights, ipu_value mask,
                                   ipu_multi_head_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_attention(...) IPU_AT(ipu_attention(__VA_ARGS__))
#define ipu_multi_head_attention(...) IPU_AT(ipu_multi_head_attention(__VA_ARGS__))
#endif
#endif
