/* Lowering views to moves, and running moves.
 *
 * Loops are sorted so that the target is written in ascending order, and merged where both sides allow it:
 * whatever is contiguous on both sides ends up as one memcpy, however it was expressed.
 */
#include "engine/moves.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_ROWS = 64 };

void ipu__moves_fini(ipu__moves *moves)
{
    ipu__array_fini(&moves->at);
    ipu__array_fini(&moves->loops);
}

/* ---- adding ---- */

static bool push(ipu__moves *m, size_t first, ipu__place to, ipu__place from, int64_t unit,
                 const ipu__stride *loops, int n)
{
    if (n == 0 && m->at.n > first) {
        ipu__move *last = &m->at.at[m->at.n - 1];
        if (last->n_loops == 0 && last->to + last->unit == to && last->from + last->unit == from
            && last->unit + unit <= IPU__MOVE_BYTES) {
            last->unit += (uint32_t)unit;
            last->bytes = last->unit;
            return true;
        }
    }
    if (m->at.n >= IPU__MOST_MOVES) return false;
    if (!ipu__reserve(&m->loops, n)) return false;
    int64_t bytes = unit;
    size_t  begin = m->loops.n;
    for (int i = 0; i < n; i++) bytes *= loops[i].count;
    if (!ipu__push(&m->at,
                   (ipu__move){to, from, (uint32_t)unit, (uint32_t)n, (uint32_t)begin, (uint32_t)bytes}))
        return false;
    if (n > 0) memcpy(m->loops.at + begin, loops, (size_t)n * sizeof *loops);
    m->loops.n += (size_t)n;
    return true;
}

static bool push_run(ipu__moves *m, size_t first, ipu__place to, ipu__place from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += IPU__MOVE_BYTES) {
        int64_t part = bytes - at < IPU__MOVE_BYTES ? bytes - at : IPU__MOVE_BYTES;
        if (!push(m, first, to + (uint64_t)at, from + (uint64_t)at, part, NULL, 0)) return false;
    }
    return true;
}

/* The target is written row by row, the source read column by column. */
static bool is_transpose(int64_t unit, const ipu__stride *loops, int n)
{
    return n == 2 && unit <= 8 && llabs(loops[0].from) < llabs(loops[1].from);
}

/* Cuts a transpose into blocks of a few rows (more if rows are short), so that every cache line of the source is read
 * for several rows. */
static bool push_blocks(ipu__moves *m, ipu__place to, ipu__place from, int64_t unit, const ipu__stride *loops)
{
    int64_t most = loops[1].count < IPU__MOVE_BYTES / (BLOCK_ROWS * unit)
                     ? IPU__MOVE_BYTES / (loops[1].count * unit)
                     : BLOCK_ROWS,
            rows = loops[0].count < most ? loops[0].count : most, columns = IPU__MOVE_BYTES / (rows * unit);
    for (int64_t r = 0; r < loops[0].count; r += rows)
        for (int64_t c = 0; c < loops[1].count; c += columns) {
            ipu__stride block[2] = {loops[0], loops[1]};
            block[0].count       = loops[0].count - r < rows ? loops[0].count - r : rows;
            block[1].count       = loops[1].count - c < columns ? loops[1].count - c : columns;
            if (!push(m, m->at.n, to + (uint64_t)(r * loops[0].to + c * loops[1].to),
                      from + (uint64_t)(r * loops[0].from + c * loops[1].from), unit, block, 2))
                return false;
        }
    return true;
}

/* Cuts what is too large along its outermost loop. */
static bool push_parts(ipu__moves *m, size_t first, ipu__place to, ipu__place from, int64_t unit,
                       const ipu__stride *loops, int n)
{
    if (n == 0) return push_run(m, first, to, from, unit);
    int64_t inner = unit;
    for (int i = 1; i < n; i++) inner *= loops[i].count;
    int64_t per = inner < IPU__MOVE_BYTES ? IPU__MOVE_BYTES / inner : 1;
    if (per >= loops[0].count) return push(m, first, to, from, unit, loops, n);
    if (is_transpose(unit, loops, n)) return push_blocks(m, to, from, unit, loops);
    ipu__stride part[IPU__MAX_LOOPS];
    memcpy(part, loops, (size_t)n * sizeof *loops);
    for (int64_t i = 0; i < loops[0].count; i += per) {
        ipu__place t = to + (uint64_t)(i * loops[0].to), f = from + (uint64_t)(i * loops[0].from);
        part[0].count = loops[0].count - i < per ? loops[0].count - i : per;
        bool ok       = part[0].count == 1 ? push_parts(m, first, t, f, unit, loops + 1, n - 1)
                                           : push(m, first, t, f, unit, part, n);
        if (!ok) return false;
    }
    return true;
}

/* Drops loops of one iteration, reverses those that write downwards, and sorts. */
static int sort_loops(ipu__stride *out, const ipu__stride *loops, int n_loops, ipu__place *to,
                      ipu__place *from)
{
    int n = 0;
    for (int i = 0; i < n_loops; i++) {
        ipu__stride loop = loops[i];
        if (loop.count == 1) continue;
        if (loop.to < 0) {
            *to += (uint64_t)((loop.count - 1) * loop.to);
            *from += (uint64_t)((loop.count - 1) * loop.from);
            loop.to   = -loop.to;
            loop.from = -loop.from;
        }
        int at = n++;
        for (; at > 0 && out[at - 1].to < loop.to; at--) out[at] = out[at - 1];
        out[at] = loop;
    }
    return n;
}

static int merge_loops(ipu__stride *loops, int n)
{
    int kept = 0;
    for (int i = 0; i < n; i++) {
        ipu__stride *outer = kept > 0 ? &loops[kept - 1] : NULL;
        ipu__stride  inner = loops[i];
        if (outer && outer->to == inner.count * inner.to && outer->from == inner.count * inner.from)
            *outer = (ipu__stride){outer->count * inner.count, inner.to, inner.from};
        else
            loops[kept++] = inner;
    }
    return kept;
}

bool ipu__moves_add(ipu__moves *moves, size_t first, ipu__place to, ipu__place from, int64_t unit,
                    const ipu__stride *loops, int n_loops)
{
    ipu__stride sorted[IPU__MAX_LOOPS];
    int         n = merge_loops(sorted, sort_loops(sorted, loops, n_loops, &to, &from));
    while (n > 0 && sorted[n - 1].to == unit && sorted[n - 1].from == unit) unit *= sorted[--n].count;
    return push_parts(moves, first, to, from, unit, sorted, n);
}

/* ---- views ---- */

ipu__cursor ipu__cursor_make(const ipu__view_pool *pool, uint32_t view)
{
    ipu__view v = ipu__view_get(pool, view);
    return (ipu__cursor){.pieces = ipu__view_pieces(pool, &v)};
}

int64_t ipu__cursor_peek(ipu__cursor *cursor, int64_t most, ipu__piece *out)
{
    if (cursor->at == cursor->n) {
        if (!ipu__pieces_next(&cursor->pieces, &cursor->piece)) return 0;
        cursor->at = 0;
        cursor->n  = ipu__piece_count(&cursor->piece);
    }
    const ipu__piece *p = &cursor->piece;
    out->var            = p->var;
    out->start          = p->start;
    out->n_loops        = 0;
    int64_t inner = cursor->n, rest = cursor->at;
    for (int k = 0; k < p->n_loops; k++) {
        inner /= p->loop[k].count;
        int64_t turn = rest / inner;
        rest -= turn * inner;
        out->start += turn * p->loop[k].stride;
        int64_t turns = p->loop[k].count - turn;
        if (turns > most / inner) turns = most / inner;
        if (rest != 0 || turns == 0) continue;
        if (turns > 1) out->loop[out->n_loops++] = (ipu__loop){turns, p->loop[k].stride};
        for (int i = k + 1; i < p->n_loops; i++) out->loop[out->n_loops++] = p->loop[i];
        return turns * inner;
    }
    return 1;
}

void ipu__cursor_pass(ipu__cursor *cursor, int64_t n) { cursor->at += n; }

static ipu__place place_of(const ipu__layout *layout, const ipu__piece *piece, int64_t unit)
{
    return layout->places[piece->var] + (uint64_t)(piece->start * unit);
}

static int64_t last_count(const ipu__piece *piece)
{
    return piece->n_loops ? piece->loop[piece->n_loops - 1].count : 1;
}

/* The next elements of both, as nests with the same loops; returns how many. */
static int64_t peek_both(ipu__cursor *from, ipu__cursor *to, ipu__piece *a, ipu__piece *b)
{
    int64_t most = INT64_MAX;
    for (;;) {
        int64_t n    = ipu__cursor_peek(from, most, a);
        int64_t same = n > 0 ? ipu__cursor_peek(to, n, b) : 0;
        if (same <= 0) return 0;
        if (same < n) {
            most = same;
            continue;
        }
        ipu__piece x = *a, y = *b;
        if (ipu__nest_align(&x, &y)) {
            *a = x;
            *b = y;
            return n;
        }
        most = last_count(a) < last_count(b) ? last_count(a) : last_count(b);
    }
}

bool ipu__moves_add_copy(ipu__moves *moves, size_t first, const ipu__layout *layout, uint32_t from,
                         uint32_t to)
{
    int64_t     unit   = (int64_t)ipu_type_size(ipu__view_get(layout->pool, from).type);
    ipu__cursor source = ipu__cursor_make(layout->pool, from), target = ipu__cursor_make(layout->pool, to);
    ipu__piece  a, b;
    for (int64_t n; (n = peek_both(&source, &target, &a, &b)) > 0;) {
        ipu__stride loops[IPU__MAX_LOOPS];
        for (int i = 0; i < a.n_loops; i++)
            loops[i] = (ipu__stride){a.loop[i].count, b.loop[i].stride * unit, a.loop[i].stride * unit};
        if (!ipu__moves_add(moves, first, place_of(layout, &b, unit), place_of(layout, &a, unit), unit, loops,
                            a.n_loops))
            return false;
        ipu__cursor_pass(&source, n);
        ipu__cursor_pass(&target, n);
    }
    return true;
}

static bool add_packed(ipu__moves *moves, size_t first, const ipu__layout *layout, uint32_t view,
                       ipu__place packed, bool pack)
{
    ipu__view   v      = ipu__view_get(layout->pool, view);
    ipu__pieces pieces = ipu__view_pieces(layout->pool, &v);
    int64_t     unit   = (int64_t)ipu_type_size(v.type);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) {
        ipu__stride loops[IPU__MAX_LOOPS];
        int64_t     bytes = unit;
        for (int i = piece.n_loops - 1; i >= 0; i--) {
            int64_t stride = piece.loop[i].stride * unit;
            loops[i]       = (ipu__stride){piece.loop[i].count, pack ? bytes : stride, pack ? stride : bytes};
            bytes *= piece.loop[i].count;
        }
        ipu__place place = place_of(layout, &piece, unit);
        if (!ipu__moves_add(moves, first, pack ? packed : place, pack ? place : packed, unit, loops,
                            piece.n_loops))
            return false;
        packed += (uint64_t)bytes;
    }
    return true;
}

bool ipu__moves_add_pack(ipu__moves *moves, size_t first, const ipu__layout *layout, uint32_t from,
                         ipu__place to)
{
    return add_packed(moves, first, layout, from, to, true);
}

bool ipu__moves_add_unpack(ipu__moves *moves, size_t first, const ipu__layout *layout, ipu__place from,
                           uint32_t to)
{
    return add_packed(moves, first, layout, to, from, false);
}
