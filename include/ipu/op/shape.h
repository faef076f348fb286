/* Shape: ops that rearrange elements, join and split.
 *
 *     ipu_value heads = ipu_reshape(b, x, IPU_SHAPE(batch, -1, 12, 64));
 *     heads           = ipu_transpose(b, heads, (int[]){0, 2, 1, 3}, 4);
 *     ipu_value first = ipu_slice(b, heads, 0, 1, 1);
 *
 * All but ipu_pad are views: nothing moves until an op that computes needs a contiguous operand. They work on
 * every type. A negative axis counts from the end, as do negative slice bounds.
 */
#ifndef IPU_OP_SHAPE_H
#define IPU_OP_SHAPE_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- shape ---- */

/* Same elements in the same order. One dimension may be -1, to be inferred. */
ipu_value ipu_reshape(ipu_builder *b, ipu_value x, ipu_shape shape);
/* Merges the dimensions from `axis` on into one. */
ipu_value ipu_flatten(ipu_builder *b, ipu_value x, int axis);
/* Inserts a dimension of 1 at `axis` of the result. */
ipu_value ipu_unsqueeze(ipu_builder *b, ipu_value x, int axis);
/* Removes dimension `axis`, which must be 1. */
ipu_value ipu_squeeze(ipu_builder *b, ipu_value x, int axis);
/* The same value under another name. */
ipu_value ipu_identity(ipu_builder *b, ipu_value x);

/* ---- order ---- */

/* Dimension i of the result is dimension perm[i] of `x`. `perm` NULL reverses all. */
ipu_value ipu_transpose(ipu_builder *b, ipu_value x, const int *perm, int n);
/* Swaps two dimensions: torch.transpose. */
ipu_value ipu_swap_axes(ipu_builder *b, ipu_value x, int axis, int other);
ipu_value ipu_reverse(ipu_builder *b, ipu_value x, int axis);
/* Reverses the first lengths[i] steps of each sequence; later ones stay. A gather, not a view. `lengths`
 * (int32 or int64): one per element of `batch_axis`. */
ipu_value ipu_reverse_sequence(ipu_builder *b, ipu_value x, ipu_value lengths, int batch_axis, int time_axis);
/* Shifts elements by shifts[i] along axes[i], wrapping around: torch.roll. `axes` NULL with n = 1 rolls the
 * flattened elements. */
ipu_value ipu_roll(ipu_builder *b, ipu_value x, const int64_t *shifts, const int *axes, int n);
/* The diagonals row + offset == column of matrices in two dimensions, as the last dimension: torch.diagonal. */
ipu_value ipu_diagonal(ipu_builder *b, ipu_value x, int64_t offset, int rows, int columns);
/* The last dimension of x on that diagonal of matrices whose rows and columns are those dimensions of the result,
 * elsewhere 0: torch.diag_embed. */
ipu_value ipu_diag_embed(ipu_builder *b, ipu_value x, int64_t offset, int rows, int columns);

typedef enum ipu_depth_order {
    IPU_DEPTH_DCR, /* channels of the deep side are [block, block, channel] */
    IPU_DEPTH_CRD  /* [channel, block, block]: torch's pixel_shuffle */
} ipu_depth_order;

/* [n, c, h, w] to [n, c / block^2, h block, w block], and back. */
ipu_value ipu_depth_to_space(ipu_builder *b, ipu_value x, int64_t block, ipu_depth_order order);
ipu_value ipu_space_to_depth(ipu_builder *b, ipu_value x, int64_t block, ipu_depth_order order);

/* ---- repeating ---- */

/* Broadcasts by numpy's rule. A dimension of -1 is taken from `x`. */
ipu_value ipu_expand(ipu_builder *b, ipu_value x, ipu_shape shape);
/* Repeats the whole of `x`, repeats[i] times along dimension i: torch.tile. `n` may exceed its rank. */
ipu_value ipu_tile(ipu_builder *b, ipu_value x, const int64_t *repeats, int n);
/* Repeats each element along `axis`: torch.repeat_interleave. */
ipu_value ipu_repeat(ipu_builder *b, ipu_value x, int64_t times, int axis);
/* Element i counts[i] times (int32 or int64; one count: of all of them), `size` elements in all. A gather. */
ipu_value ipu_repeat_by(ipu_builder *b, ipu_value x, ipu_value counts, int64_t size, int axis);

/* ---- cutting ---- */

/* Elements begin <= i < end of `axis`, clipped to its extent. */
ipu_value ipu_slice(ipu_builder *b, ipu_value x, int64_t begin, int64_t end, int axis);
/* Every step-th of them. With step < 0: from begin down to end, exclusive (INT64_MIN: through the first). */
ipu_value ipu_slice_step(ipu_builder *b, ipu_value x, int64_t begin, int64_t end, int64_t step, int axis);
/* Element `i` of `axis`, dropping that dimension. */
ipu_value ipu_index(ipu_builder *b, ipu_value x, int64_t i, int axis);
/* `n` parts of sizes[0..n), which add up to the dimension. `sizes` NULL makes them equal. */
void ipu_split(ipu_builder *b, ipu_value x, const int64_t *sizes, size_t n, int axis, ipu_value *out);
/* out[i] is element i of `axis`, dropping that dimension; n must be its extent. */
void ipu_unstack(ipu_builder *b, ipu_value x, size_t n, int axis, ipu_value *out);

/* ---- joining ---- */

/* n >= 1 values of one type, equal in all dimensions except `axis`. */
ipu_value ipu_concat(ipu_builder *b, const ipu_value *values, size_t n, int axis);
/* n >= 1 values of one shape along a new dimension `axis`. */
ipu_value ipu_stack(ipu_builder *b, const ipu_value *values, size_t n, int axis);

typedef enum ipu_pad_mode {
    IPU_PAD_CONSTANT,
    IPU_PAD_REFLECT, /* mirrored without repeating the edge: 3 2 | 1 2 3 | 2 1 */
    IPU_PAD_EDGE,    /* 1 1 | 1 2 3 | 3 3: torch's "replicate" */
    IPU_PAD_WRAP     /* 2 3 | 1 2 3 | 1 2: torch's "circular" */
} ipu_pad_mode;

/* before[i] elements in front of dimension i and after[i] behind it, for all dimensions; negative numbers cut
 * off. `value` is for IPU_PAD_CONSTANT. */
ipu_value ipu_pad(ipu_builder *b, ipu_value x, const int64_t *before, const int64_t *after, ipu_pad_mode mode,
                  double value);

/* ---- constants ---- */

/* `n` numbers: begin, begin + step, ... */
ipu_value ipu_arange(ipu_builder *b, ipu_type type, int64_t n, double begin, double step);
/* `n` >= 1 evenly spaced numbers from begin to end, inclusive. */
ipu_value ipu_linspace(ipu_builder *b, ipu_type type, int64_t n, double begin, double end);
/* n x n, ones where row + diagonal == column. */
ipu_value ipu_eye(ipu_builder *b, ipu_type type, int64_t n, int64_t diagonal);
/* With the shape of `x`, which is a matrix. */
ipu_value ipu_eye_like(ipu_builder *b, ipu_value x, ipu_type type, int64_t diagonal);
/* Keeps what lies on or below (above) row + diagonal == column in the last two dimensions; 0 elsewhere. */
ipu_value ipu_tril(ipu_builder *b, ipu_value x, int64_t diagonal);
ipu_value ipu_triu(ipu_builder *b, ipu_value x, int64_t diagonal);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_reshape(...) IPU_AT(ipu_reshape(__VA_ARGS__))
#define ipu_flatten(...) IPU_AT(ipu_flatten(__VA_ARGS__))
#define ipu_unsqueeze(...) IPU_AT(ipu_unsqueeze(__VA_ARGS__))
#define ipu_squeeze(...) IPU_AT(ipu_squeeze(__VA_ARGS__))
#define ipu_identity(...) IPU_AT(ipu_identity(__VA_ARGS__))
#define ipu_transpose(...) IPU_AT(ipu_transpose(__VA_ARGS__))
#define ipu_swap_axes(...) IPU_AT(ipu_swap_axes(__VA_ARGS__))
#define ipu_reverse(...) IPU_AT(ipu_reverse(__VA_ARGS__))
#define ipu_reverse_sequence(...) IPU_AT(ipu_reverse_sequence(__VA_ARGS__))
#define ipu_roll(...) IPU_AT(ipu_roll(__VA_ARGS__))
#define ipu_diagonal(...) IPU_AT(ipu_diagonal(__VA_ARGS__))
#define ipu_diag_embed(...) IPU_AT(ipu_diag_embed(__VA_ARGS__))
#define ipu_depth_to_space(...) IPU_AT(ipu_depth_to_space(__VA_ARGS__))
#define ipu_space_to_depth(...) IPU_AT(ipu_space_to_depth(__VA_ARGS__))
#define ipu_expand(...) IPU_AT(ipu_expand(__VA_ARGS__))
#define ipu_tile(...) IPU_AT(ipu_tile(__VA_ARGS__))
#define ipu_repeat(...) IPU_AT(ipu_repeat(__VA_ARGS__))
#define ipu_repeat_by(...) IPU_AT(ipu_repeat_by(__VA_ARGS__))
#define ipu_slice(...) IPU_AT(ipu_slice(__VA_ARGS__))
#define ipu_slice_step(...) IPU_AT(ipu_slice_step(__VA_ARGS__))
#define ipu_index(...) IPU_AT(ipu_index(__VA_ARGS__))
#define ipu_split(...) (IPU_ENTER, ipu_split(__VA_ARGS__), ipu_leave())
#define ipu_unstack(...) (IPU_ENTER, ipu_unstack(__VA_ARGS__), ipu_leave())
#define ipu_concat(...) IPU_AT(ipu_concat(__VA_ARGS__))
#define ipu_stack(...) IPU_AT(ipu_stack(__VA_ARGS__))
#define ipu_pad(...) IPU_AT(ipu_pad(__VA_ARGS__))
#define ipu_arange(...) IPU_AT(ipu_arange(__VA_ARGS__))
#define ipu_linspace(...) IPU_AT(ipu_linspace(__VA_ARGS__))
#define ipu_eye(...) IPU_AT(ipu_eye(__VA_ARGS__))
#define ipu_eye_like(...) IPU_AT(ipu_eye_like(__VA_ARGS__))
#define ipu_tril(...) IPU_AT(ipu_tril(__VA_ARGS__))
#define ipu_triu(...) IPU_AT(ipu_triu(__VA_ARGS__))
#endif
#endif
