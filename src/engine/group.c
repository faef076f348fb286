/* Groups independent copies into batches.
 *
 * For each variable it keeps the hull of the elements that the group reads and writes. liveness.c and
 * lower.c both walk the programs with it and arrive at the same groups: copies of one group count as one
 * moment.
 */
#include "engine/compile.h"

typedef struct hull {
    int64_t low, high;
} hull;

static hull hull_of(const ipu__piece *piece)
{
    hull h = {piece->start, piece->start + 1};
    for (int i = 0; i < piece->n_loops; i++) {
        int64_t reach = (piece->loop[i].count - 1) * piece->loop[i].stride;
        if (reach < 0)
            h.low += reach;
        else
            h.high += reach;
    }
    return h;
}

static bool meets(const hull *h, int64_t low, int64_t high) { return h->low < high && low < h->high; }

static bool depends(const ipu__copy_group *group, const ipu__view_pool *pool, uint32_t view, bool writes)
{
    ipu__view   v      = ipu__view_get(pool, view);
    ipu__pieces pieces = ipu__view_pieces(pool, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) {
        const ipu__touched *t = &group->touched[piece.var];
        hull                h = hull_of(&piece);
        if (t->group != group->number) continue;
        if (meets(&h, t->write_low, t->write_high) || (writes && meets(&h, t->read_low, t->read_high)))
            return true;
    }
    return false;
}

static void widen(int64_t *low, int64_t *high, const hull *h)
{
    if (*low == *high) {
        *low  = h->low;
        *high = h->high;
    }
    if (h->low < *low) *low = h->low;
    if (h->high > *high) *high = h->high;
}

static void add(ipu__copy_group *group, const ipu__view_pool *pool, uint32_t view, bool writes)
{
    ipu__view   v      = ipu__view_get(pool, view);
    ipu__pieces pieces = ipu__view_pieces(pool, &v);
    ipu__piece  piece;
    while (ipu__pieces_next(&pieces, &piece)) {
        ipu__touched *t = &group->touched[piece.var];
        hull          h = hull_of(&piece);
        if (t->group != group->number) *t = (ipu__touched){.group = group->number};
        if (writes)
            widen(&t->write_low, &t->write_high, &h);
        else
            widen(&t->read_low, &t->read_high, &h);
    }
}

void ipu__group_close(ipu__copy_group *group) { group->open = false; }

bool ipu__group_join(ipu__copy_group *group, const ipu__view_pool *pool, uint32_t from, uint32_t to)
{
    bool joins = group->open && !depends(group, pool, from, false) && !depends(group, pool, to, true);
    if (!joins) group->number++;
    group->open = true;
    add(group, pool, from, false);
    add(group, pool, to, true);
    return joins;
}
