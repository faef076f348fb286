/* Moves: copies of elements as loop nests over bytes.
 *
 * A move copies `unit` bytes per iteration of its loops. Views are turned into moves once, when a graph is
 * compiled; running them involves no lookups. Moves of a list may run concurrently in any order, and none
 * is larger than IPU__MOVE_BYTES, so that threads can share them.
 */
#ifndef IPU_ENGINE_MOVES_H
#define IPU_ENGINE_MOVES_H

#include "base/array.h"
#include "engine/place.h"
#include "graph/view.h"

/* 128 KiB: on a CPU some 10 us of memcpy, well above the cost of handing a move to a thread. */
enum { IPU__MOVE_BYTES = 128 << 10 };

/* Per list: a terabyte in one piece, and half a gigabyte of moves. */
enum { IPU__MOST_MOVES = 1 << 23 };

typedef struct ipu__stride {
    int64_t count, to, from; /* bytes */
} ipu__stride;

typedef struct ipu__move {
    ipu__place to, from;
    uint32_t   unit, n_loops, first_loop;
    uint32_t   bytes; /* in all */
} ipu__move;

typedef struct ipu__moves { /* all zero: empty */
    IPU__ARRAY(ipu__move) at;
    IPU__ARRAY(ipu__stride) loops; /* outermost first */
} ipu__moves;

void ipu__moves_fini(ipu__moves *moves);

/* Adds moves for one nest whose elements are `unit` bytes; loops in any order. May extend the last move
 * unless that comes before index `first`. Returns false on allocation failure, or beyond IPU__MOST_MOVES. */
bool ipu__moves_add(ipu__moves *moves, size_t first, ipu__place to, ipu__place from, int64_t unit,
                    const ipu__stride *loops, int n_loops);

/* `places`: the location of element 0 of each variable. */
typedef struct ipu__layout {
    const ipu__view_pool *pool;
    const ipu__place     *places;
} ipu__layout;

/* From the elements of view `from` to those of view `to`, which has the same type and number. */
bool ipu__moves_add_copy(ipu__moves *moves, size_t first, const ipu__layout *layout, uint32_t from,
                         uint32_t to);
/* Between a view and a packed buffer. */
bool ipu__moves_add_pack(ipu__moves *moves, size_t first, const ipu__layout *layout, uint32_t from,
                         ipu__place to);
bool ipu__moves_add_unpack(ipu__moves *moves, size_t first, const ipu__layout *layout, ipu__place from,
                           uint32_t to);

/* ---- reading a view front to back, some elements at a time ---- */

typedef struct ipu__cursor {
    ipu__pieces pieces;
    ipu__piece  piece;
    int64_t     at, n; /* position in `piece`, and its number of elements */
} ipu__cursor;

ipu__cursor ipu__cursor_make(const ipu__view_pool *pool, uint32_t view);
/* The largest nest that holds the next elements in order, at most `most` >= 1; returns how many, 0 at the
 * end. Does not advance the cursor. */
int64_t ipu__cursor_peek(ipu__cursor *cursor, int64_t most, ipu__piece *out);
void    ipu__cursor_pass(ipu__cursor *cursor, int64_t n);

#endif
