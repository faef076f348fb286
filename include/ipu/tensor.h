/* Tensors: views of variables.
 *
 * A tensor is not storage, but an ordered selection of elements of one or more variables and constants, with
 * a shape. It may repeat elements (aliases), and tensors may overlap. Everything here happens while the graph
 * is built and costs nothing when it runs.
 *
 *     ipu_tensor row = ipu_tensor_index(m, 3);                  row 3 of a matrix
 *     ipu_tensor col = ipu_tensor_slice(m, 1, 2, 1);            column 1, still a matrix
 *     ipu_tensor t   = ipu_tensor_transpose(ipu_tensor_concat2(a, b, 0));
 *
 * A tensor is a small value that is valid as long as its graph. Functions that make a tensor are builders: on
 * an invalid argument they record the error in the graph (ipu_graph_status) and return a null tensor (id 0),
 * which every later call accepts and passes on, so that a chain of calls needs only one check at the end.
 */
#ifndef IPU_TENSOR_H
#define IPU_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipu/location.h"
#include "ipu/status.h"
#include "ipu/type.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { IPU_MAX_RANK = 8 };

typedef struct ipu_graph ipu_graph;

typedef struct ipu_tensor {
    ipu_graph *graph;
    uint32_t   id; /* 0 means null */
} ipu_tensor;

typedef struct ipu_shape {
    int     rank; /* 0 for a scalar */
    int64_t dim[IPU_MAX_RANK];
} ipu_shape;

/* IPU_SHAPE(4, 8) is a shape of rank 2; IPU_SCALAR one of rank 0. */
#define IPU_SHAPE(...) ((ipu_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#define IPU_SCALAR ((ipu_shape){0, {0}})

/* Half-open: begin <= i < end. */
typedef struct ipu_interval {
    int64_t begin, end;
} ipu_interval;

/* ---- selecting ---- */

/* Element `i` of dimension 0, dropping that dimension. */
ipu_tensor ipu_tensor_index(ipu_tensor t, int64_t i);
/* The single element at `at[0..rank)`, as a scalar. */
ipu_tensor ipu_tensor_at(ipu_tensor t, const int64_t *at, int n);
/* Elements begin <= i < end of dimension `dim`. begin == end gives an empty tensor. */
ipu_tensor ipu_tensor_slice(ipu_tensor t, int64_t begin, int64_t end, int dim);
/* All dimensions at once; `begin` and `end` have the tensor's rank. */
ipu_tensor ipu_tensor_slice_all(ipu_tensor t, const int64_t *begin, const int64_t *end);
/* One tensor per interval of `dim`, in out[0..n). */
void ipu_tensor_slices(ipu_tensor t, const ipu_interval *intervals, size_t n, int dim, ipu_tensor *out);
/* Every `stride`-th element of `dim`, from the first. */
ipu_tensor ipu_tensor_subsample(ipu_tensor t, int64_t stride, int dim);
ipu_tensor ipu_tensor_reverse(ipu_tensor t, int dim);

/* ---- shape ---- */

/* Same elements in the same order. One dimension may be -1, to be inferred. */
ipu_tensor ipu_tensor_reshape(ipu_tensor t, ipu_shape shape);
ipu_tensor ipu_tensor_flatten(ipu_tensor t);
/* Merges dimensions begin <= d < end into one. */
ipu_tensor ipu_tensor_flatten_dims(ipu_tensor t, int begin, int end);
/* Replaces dimensions begin <= d < end by those of `shape`. */
ipu_tensor ipu_tensor_reshape_partial(ipu_tensor t, int begin, int end, ipu_shape shape);
/* Inserts a dimension of 1 before each of the dimensions listed (in ascending order; `rank` itself means at
 * the end). */
ipu_tensor ipu_tensor_expand(ipu_tensor t, const int *dims, int n);
/* Removes the dimensions listed, which must be 1. */
ipu_tensor ipu_tensor_squeeze(ipu_tensor t, const int *dims, int n);

/* ---- order ---- */

/* Dimension i of the result is dimension perm[i] of `t`. */
ipu_tensor ipu_tensor_permute(ipu_tensor t, const int *perm, int n);
/* Dimension from[i] moves to position to[i], the others keep their order (dimShufflePartial). */
ipu_tensor ipu_tensor_permute_partial(ipu_tensor t, const int *from, const int *to, int n);
/* Moves dimension `from` to position `to` (dimRoll). */
ipu_tensor ipu_tensor_roll(ipu_tensor t, int from, int to);
/* All dimensions reversed. */
ipu_tensor ipu_tensor_transpose(ipu_tensor t);

/* ---- repeating and joining ---- */

/* Repeats `t` `n` times along `dim`; 0 gives an empty tensor. */
ipu_tensor ipu_tensor_broadcast(ipu_tensor t, int64_t n, int dim);
/* Repeats each element of `dim` `scale` times in place. */
ipu_tensor ipu_tensor_upsample(ipu_tensor t, int64_t scale, int dim);
/* `n` >= 1 tensors of one type, equal in all dimensions except `dim`. */
ipu_tensor ipu_tensor_concat(const ipu_tensor *tensors, size_t n, int dim);
ipu_tensor ipu_tensor_concat2(ipu_tensor a, ipu_tensor b, int dim);
/* Appends `b`, whose rank is one less, to dimension `dim` of `a`. */
ipu_tensor ipu_tensor_append(ipu_tensor a, ipu_tensor b, int dim);
/* The same bits, as another type of the same size. */
ipu_tensor ipu_tensor_reinterpret(ipu_tensor t, ipu_type type);

/* ---- queries ---- (a null tensor counts as a float scalar of no elements) */

bool      ipu_tensor_valid(ipu_tensor t);
ipu_shape ipu_tensor_shape(ipu_tensor t);
int       ipu_tensor_rank(ipu_tensor t);
int64_t   ipu_tensor_dim(ipu_tensor t, int dim);
int64_t   ipu_tensor_n_elements(ipu_tensor t);
ipu_type  ipu_tensor_type(ipu_tensor t);
/* Same elements in the same order, with the same shape and type. */
bool ipu_tensor_equal(ipu_tensor a, ipu_tensor b);
/* Whether it is one run of ascending neighbours in one variable, or empty. */
bool ipu_tensor_is_contiguous(ipu_tensor t);
bool ipu_tensor_contains_aliases(ipu_tensor t);
bool ipu_tensor_contains_constant(ipu_tensor t);
/* Whether it may be the target of a parallel write: no aliases, no constants. */
bool ipu_tensor_is_parallel_writeable(ipu_tensor t);
bool ipu_tensor_intersects(ipu_tensor a, ipu_tensor b);

/* A run of neighbouring elements of one variable. `variable` is all of that variable, flattened. */
typedef struct ipu_region {
    ipu_tensor variable;
    int64_t    begin, end;
} ipu_region;

/* The view as runs of ascending neighbours, in tensor order. Owned: ipu_free. Statuses: INVALID (null
 * tensor), OUT_OF_MEMORY. */
ipu_status ipu_tensor_var_regions(ipu_tensor t, ipu_region **out, size_t *n);

/* The same runs as intervals of the flattened tensor, in tensor order. Owned: ipu_free. */
ipu_status ipu_tensor_contiguous_regions(ipu_tensor t, ipu_interval **out, size_t *n);

/* Intervals of the flattened tensor `t`, grouped into runs of neighbours in memory: *out has the intervals in
 * variable order, and (*run_end)[r] is the end of run r in it. With `drop_aliases` each element occurs once.
 * Owned: both, ipu_free. */
ipu_status ipu_tensor_sorted_regions(ipu_tensor t, const ipu_interval *intervals, size_t n, bool drop_aliases,
                                     ipu_interval **out, size_t *n_out, size_t **run_end, size_t *n_runs);

/* Applies one permutation to the flat tensor *t and to others of the same length, chosen to give *t as few
 * runs as possible. A builder function. */
void ipu_tensor_reorder_to_simplify(ipu_tensor *t, ipu_tensor **others, size_t n);

/* The values of a tensor that consists of constants only, in tensor order. `bytes` is the size of `out`.
 * Statuses: INVALID (not all constant, or the size differs). */
ipu_status ipu_tensor_constant_value(ipu_tensor t, void *out, size_t bytes);

/* "[4,8]" and "float[4,8] {x[0:32]}", truncated to `size`; returns the full length. */
size_t ipu_shape_text(const ipu_shape *shape, char *out, size_t size);
size_t ipu_tensor_text(ipu_tensor t, char *out, size_t size);

/* Frees what is documented as owned: ipu_free. NULL is allowed. */
void ipu_free(void *p);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_tensor, ipu_tensor)
#define ipu_tensor_index(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_index(__VA_ARGS__)))
#define ipu_tensor_at(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_at(__VA_ARGS__)))
#define ipu_tensor_slice(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_slice(__VA_ARGS__)))
#define ipu_tensor_slice_all(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_slice_all(__VA_ARGS__)))
#define ipu_tensor_slices(...) (IPU_ENTER, ipu_tensor_slices(__VA_ARGS__), ipu_leave())
#define ipu_tensor_subsample(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_subsample(__VA_ARGS__)))
#define ipu_tensor_reverse(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_reverse(__VA_ARGS__)))
#define ipu_tensor_reshape(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_reshape(__VA_ARGS__)))
#define ipu_tensor_flatten(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_flatten(__VA_ARGS__)))
#define ipu_tensor_flatten_dims(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_flatten_dims(__VA_ARGS__)))
#define ipu_tensor_reshape_partial(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_reshape_partial(__VA_ARGS__)))
#define ipu_tensor_expand(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_expand(__VA_ARGS__)))
#define ipu_tensor_squeeze(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_squeeze(__VA_ARGS__)))
#define ipu_tensor_permute(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_permute(__VA_ARGS__)))
#define ipu_tensor_permute_partial(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_permute_partial(__VA_ARGS__)))
#define ipu_tensor_roll(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_roll(__VA_ARGS__)))
#define ipu_tensor_transpose(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_transpose(__VA_ARGS__)))
#define ipu_tensor_broadcast(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_broadcast(__VA_ARGS__)))
#define ipu_tensor_upsample(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_upsample(__VA_ARGS__)))
#define ipu_tensor_concat(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_concat(__VA_ARGS__)))
#define ipu_tensor_concat2(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_concat2(__VA_ARGS__)))
#define ipu_tensor_append(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_append(__VA_ARGS__)))
#define ipu_tensor_reinterpret(...) ipu_tensor_left((IPU_ENTER, ipu_tensor_reinterpret(__VA_ARGS__)))
#define ipu_tensor_reorder_to_simplify(...) \
    (IPU_ENTER, ipu_tensor_reorder_to_simplify(__VA_ARGS__), ipu_leave())
#endif
#endif
