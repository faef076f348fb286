/* The softmax family.
 *
 *     ipu_value p = ipu_softmax(b, logits, -1);
 *
 * `axis`: the dimension over which results sum to 1; negative counts from the end. The maximum is subtracted
 * first, so no logit is too large. A row of only -infinity gives NaN.
 */
#ifndef IPU_OP_SOFTMAX_H
#define IPU_OP_SOFTMAX_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

ipu_value ipu_softmax(ipu_builder *b, ipu_value x, int axis);
ipu_value ipu_log_softmax(ipu_builder *b, ipu_value x, int axis);
/* The softmax of -x. */
ipu_value ipu_softmin(ipu_builder *b, ipu_value x, int axis);
/* 1 at the first maximum along `axis`, else 0. */
ipu_value ipu_hardmax(ipu_builder *b, ipu_value x, int axis);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_softmax(...) IPU_AT(ipu_softmax(__VA_ARGS__))
#define ipu_log_softmax(...) IPU_AT(ipu_log_softmax(__VA_ARGS__))
#define ipu_softmin(...) IPU_AT(ipu_softmin(__VA_ARGS__))
#define ipu_hardmax(...) IPU_AT(ipu_hardmax(__VA_ARGS__))
#endif
#endif
