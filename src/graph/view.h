/* Views: which elements a tensor selects, in which order.
 *
 * A view is a shape and a list of pieces. A piece is a loop nest over one variable: its elements, in order,
 * are start + sum(i[k] * stride[k]) with the last loop running fastest. The view's elements in row-major
 * order are its pieces' elements, one piece after another; pieces are independent of the shape, so
 * reshaping is free, and transposes, blocks, broadcasts (stride 0), reversals (negative stride) and
 * subsamples are one piece each.
 *
 * A view is stored packed in the graph's pool of 32-bit words and identified by its offset there; reading
 * one unpacks piece by piece into the caller's storage. Pieces are normalised: no loop has count 1, no two
 * adjacent loops could be merged, and no piece is empty; a piece without loops is one element.
 */
#ifndef IPU_GRAPH_VIEW_H
#define IPU_GRAPH_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "ipu/tensor.h"

enum { IPU__MAX_LOOPS = 16 };

/* Pool size limit in words: ids share 32 bits with IPU__LIST. */
#define IPU__VIEW_LIMIT 0x7fffffffu

typedef struct ipu__loop {
    int64_t count, stride;
} ipu__loop;

typedef struct ipu__piece {
    uint32_t  var;
    int       n_loops;
    int64_t   start;
    ipu__loop loop[IPU__MAX_LOOPS]; /* outermost first */
} ipu__piece;

typedef struct ipu__view {
    ipu_type  type;
    ipu_shape shape;
    int64_t   n_elements;
    uint32_t  n_pieces;
    bool      wide;    /* 64-bit numbers in the pool */
    bool      compact; /* one ascending run */
    uint32_t  at;      /* where the pieces start in the pool */
} ipu__view;

/* Packed views. */
typedef struct ipu__view_pool {
    IPU__ARRAY(uint32_t) words;
} ipu__view_pool;

/* `id` must be a valid view, not null. */
void ipu__view_load(const ipu__view_pool *pool, uint32_t id, ipu__view *out);

static inline ipu__view ipu__view_get(const ipu__view_pool *pool, uint32_t id)
{
    ipu__view view;
    ipu__view_load(pool, id, &view);
    return view;
}

/* Iterates over pieces. The pool may grow meanwhile. */
typedef struct ipu__pieces {
    const ipu__view_pool *pool;
    uint32_t              at, left;
    bool                  wide, compact;
    int64_t               n_elements; /* of the view */
} ipu__pieces;

ipu__pieces ipu__view_pieces(const ipu__view_pool *pool, const ipu__view *view);
bool        ipu__pieces_next(ipu__pieces *pieces, ipu__piece *out);

int64_t ipu__piece_count(const ipu__piece *piece);

/* The view as runs of `count` elements start, start + stride, ..., in view order. Each is as long as the
 * pieces' innermost loops allow; a single element has stride 1. */
typedef struct ipu__run {
    uint32_t var;
    int64_t  start, count, stride;
} ipu__run;

typedef struct ipu__runs {
    ipu__pieces pieces;
    ipu__piece  piece;
    int64_t     index[IPU__MAX_LOOPS];
    bool        in_piece;
} ipu__runs;

ipu__runs ipu__view_runs(const ipu__view_pool *pool, uint32_t id);
bool      ipu__runs_next(ipu__runs *runs, ipu__run *out);

/* The only run of a view that is one ascending run of neighbours (or one element). */
bool ipu__view_contiguous(const ipu__view_pool *pool, uint32_t id, ipu__run *out);

/* Maximum number of pieces per view: anything more irregular must be copied first. */
enum { IPU__VIEW_PIECES = 1 << 24 };

/* Building a view: pieces are added in order, normalised, and joined to the previous one where that gives a
 * single piece. */
typedef struct ipu__view_builder {
    IPU__ARRAY(int64_t) words; /* var, n_loops, start, (count, stride)* per piece */
    size_t   last;             /* where the last piece starts */
    uint32_t n_pieces;
    bool     failed;              /* out of memory, or is_irregular */
    bool     is_irregular;        /* too many pieces; persistent */
    int64_t  n_added, most_added; /* beyond the first of each view, so far and at most; 0: no limit */
} ipu__view_builder;              /* all zero: empty */

void ipu__view_add(ipu__view_builder *b, const ipu__piece *piece);
/* Elements begin <= i < end of the flat order of a piece. */
void ipu__view_add_range(ipu__view_builder *b, const ipu__piece *piece, int64_t begin, int64_t end);
/* Packs into the pool and empties the builder. 0 on allocation failure. */
uint32_t ipu__view_commit(ipu__view_builder *b, ipu__view_pool *pool, ipu_type type, const ipu_shape *shape);
void     ipu__view_builder_fini(ipu__view_builder *b);

/* Random access to the pieces of one view: where each starts in flat order. */
typedef struct ipu__piece_index {
    uint32_t view; /* the view indexed; 0 if none */
    struct {
        int64_t  first;
        uint32_t at;
    } * entry;
    size_t n, capacity;
} ipu__piece_index; /* all zero: empty */

/* Select from view `id` with an affine nest over its flat order (`nest->var` is ignored). Every operation
 * on one tensor is such a nest. The caller guarantees that it stays within the view. The index is kept for
 * the next call. Returns false on allocation failure (also recorded in the builder). */
bool ipu__view_select(ipu__view_builder *b, const ipu__view_pool *pool, ipu__piece_index *index, uint32_t id,
                      const ipu__piece *nest);
void ipu__piece_index_fini(ipu__piece_index *index);

/* All pieces of a view. */
void ipu__view_add_view(ipu__view_builder *b, const ipu__view_pool *pool, uint32_t id);

/* Split both nests, which have the same number of elements, until their loops have the same counts. Returns
 * false if that is not possible within IPU__MAX_LOOPS (go run by run instead). */
bool ipu__nest_align(ipu__piece *a, ipu__piece *b);
void ipu__nest_normalise(ipu__piece *piece);

#endif
