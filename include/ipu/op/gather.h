/* Gather: elements and rows picked and put by index.
 *
 *     ipu_value words = ipu_embedding(b, table, tokens, IPU_NO_PADDING);
 *
 * Indices are int32, int64 or uint32; negative ones count from the end. An index that is out of range stops
 * the run with IPU_ABORTED and a message that names it. Values may be of any type.
 */
#ifndef IPU_OP_GATHER_H
#define IPU_OP_GATHER_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dimension `axis` of x replaced by those of `indices`: numpy.take, torch.index_select. */
ipu_value ipu_gather(ipu_builder *b, ipu_value x, ipu_value indices, int axis);

#define IPU_NO_PADDING INT64_MIN
/* Rows of `table`. Row `padding` gets no gradient. */
ipu_value ipu_embedding(ipu_builder *b, ipu_value table, ipu_value indices, int64_t padding);

/* Element i,j.. of the result is x[indices[i,j..],j..] (axis 0): torch.gather. `indices` has the rank of x
 * and no dimension but `axis` larger than x's. */
ipu_value ipu_gather_elements(ipu_builder *b, ipu_value x, ipu_value indices, int axis);

/* indices [..., k] name places of the first k dimensions of x: [..., rest of x]. */
ipu_value ipu_gather_nd(ipu_builder *b, ipu_value x, ipu_value indices);

typedef enum ipu_scatter {
    IPU_SCATTER_SET, /* the last of equal indices stays; gradients are right only where none are equal */
    IPU_SCATTER_ADD, /* in the order of the indices; integers wrap */
    IPU_SCATTER_MUL, /* likewise; gradients are right only where no factor is 0 */
    IPU_SCATTER_MAX, /* equal ones share the gradient */
    IPU_SCATTER_MIN
} ipu_scatter;

/* x with `updates` put where ipu_gather_elements would take them, ipu_gather_nd. Neither changes x. */
ipu_value ipu_scatter_elements(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, int axis,
                               ipu_scatter how);
ipu_value ipu_scatter_nd(ipu_builder *b, ipu_value x, ipu_value indices, ipu_value updates, ipu_scatter how);

/* 1 at the index, else 0, along a new last dimension. An index out of range gives zeros. */
ipu_value ipu_one_hot(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type);
/* Along a new dimension `axis`, with other values than 1 and 0. */
ipu_value ipu_one_hot_with(ipu_builder *b, ipu_value indices, int64_t depth, ipu_type type, int axis,
                           double on, double off);

/* `size` elements of `axis` from `start` on, a scalar index known only when the program runs. It is moved so
 * that all of them are there: no error. */
ipu_value ipu_dynamic_slice(ipu_builder *b, ipu_value x, ipu_value start, int64_t size, int axis);
/* x with `y` put there. */
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
