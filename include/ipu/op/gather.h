/* Gather and scatter: reading and writing elements and rows by index.
 *
 *     ipu_value words = ipu_embedding(b, table, tokens, IPU_NO_PADDING);
 *
 * Indices are int32, int64 or uint32; negative ones count from the end. An index out of range stops the run
 * with IPU_ABORTED and a message that names it. Values may be of any type.
 */
#ifndef IPU_OP_GATHER_H
#define IPU_OP_GATHER_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Replaces dimension `axis` of x by those of `indices`: numpy.take, torch.index_select. */
ipu_value ipu_gather(ipu_builder *b, ipu_value x, ipu_value indices, int axis);

#define IPU_NO_PADDING INT64_MIN
/* Rows of `table`. Row `padding` gets no gradient. */
ipu_value ipu_embedding(ipu_builder *b, ipu_value table, ipu_value indices, int64_t padding);

/* Element i,j.. of the result is x[indices[i,j..],j..] (axis 0): torch.gather. `indices` has the rank of x
 * and no dimension but `axis` larger than x's. */
ipu_value ipu_gather_elements(ipu_builder *b, ipu_value x, ipu_value indices, int axis);

/* indices [..., k] hold positions in the first k dimensions of x: [..., rest of x]. */
ipu_value ipu_gather_nd(ipu_builder *b, ipu_value x, ipu_value indices);

typedef enum ipu_scatter {
    IPU_SCATTER_SET, /* the last of equal indices wins; gradients are right only if there are none */
    IPU_SCATTER_ADD, /* in the order of the indices; integers wrap */
    IPU_SCATTER_MUL, /* likewise; gradients are right only if no factor is 0 */
    IPU_SCATTER_MAX, /* equal values share the gradient */
    IPU_SCATTER_MIN
} ipu_scatter;

/* x with `updates` put where ipu_gather_elements, or ipu_gather_nd, would read them. x itself does not
 * change. */
ipu_value ipu_scatter_elements(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, int axis,
                               ipu_scatter how);
ipu_value ipu_scatter_nd(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, ipu_scatter how);

/* 1 at the index, 0 elsewhere, along a new last dimension. An index out of range gives zeros. */
ipu_value ipu_one_hot(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type);
/* Along a new dimension `axis`, with custom values instead of 1 and 0. */
ipu_value ipu_one_hot_with(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type, int axis,
                           double on, double off);

/* `size` elements of `axis` starting at `start`, a scalar index known only at run time. It is clamped so that
 * all of them exist, without an error. */
ipu_value ipu_dynamic_slice(ipu_builder *b, ipu_value x, ipu_value start, int64_t size, int axis);
/* x with `y` written there. */
ipu_value ipu_dynamic_update_slice(ipu_builder *b, ipu_value x, ipu_value y, ipu_value start, int axis);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_gather(...) IPU_AT(ipu_gather(__VA_ARGS__))
#define ipu_embedding(...) IPU_AT(ipu_embedding(__VA_ARGS__))
#define ipu_gather_elements(...) IPU_AT(ipu_gather_elements(__VA_ARGS__))
#define ipu_gather_nd(...) IPU_AT(ipu_gather_nd(__VA_ARGS__))
#define ipu_scatter_elements(...) IPU_AT(ipu_scatter_elements(__VA_ARGS__))
#define ipu_scatter_nd(...) IPU_AT(ipu_scatter_nd(__VA_ARGS__))
#define ipu_one_hot(...) IPU_AT(ipu_one_hot(__VA_ARGS__))
#define ipu_one_hot_with(...) IPU_AT(ipu_one_hot_with(__VA_ARGS__))
#define ipu_dynamic_slice(...) IPU_AT(ipu_dynamic_slice(__VA_ARGS__))
#define ipu_dynamic_update_slice(...) IPU_AT(ipu_dynamic_update_slice(__VA_ARGS__))
#endif
#endif
