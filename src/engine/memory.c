/* Interval allocation: tenants move in by first moment, into the best fitting hole, and leave after their
 * last.
 *
 * Leavers are taken in the order of (last, offset), so that neighbours that end together grow
 * into one hole at once and the list of holes stays short.
 */
#include "engine/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct hole {
    int64_t begin, end;
} hole;

typedef struct planner {
    IPU_ARRAY(hole) holes;                  /* ascending, never adjacent */
    IPU_ARRAY(const ipu__tenant *) leaving; /* a heap by (last, offset) */
    int64_t end;
} planner;

static int by_first(const void *a, const void *b)
{
    const ipu__tenant *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* ---- the heap ---- */

static bool leaves_before(const ipu__tenant *a, const ipu__tenant *b)
{
    return a->last != b->last ? a->last < b->last : a->offset < b->offset;
}

static bool heap_push(planner *p, const ipu__tenant *tenant)
{
    if (!ipu__push(&p->leaving, tenant)) return false;
    const ipu__tenant **heap = p->leaving.at;
    for (size_t i = p->leaving.n - 1; i > 0 && leaves_before(heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2) {
        const ipu__tenant *t = heap[i];
        heap[i]              = heap[(i - 1) / 2];
        heap[(i - 1) / 2]    = t;
    }
    return true;
}

static const ipu__tenant *heap_pop(planner *p)
{
    const ipu__tenant **heap = p->leaving.at, *top = heap[0], *moved = heap[--p->leaving.n];
    size_t              n = p->leaving.n, i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && leaves_before(heap[child + 1], heap[child])) child++;
        if (!leaves_before(heap[child], moved)) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
    return top;
}

/* ---- the holes ---- */

static bool open_hole(planner *p, int64_t begin, int64_t end)
{
    hole  *holes = p->holes.at;
    size_t low = 0, high = p->holes.n;
    while (low < high) { /* the first hole after `begin` */
        size_t middle = (low + high) / 2;
        if (holes[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    bool joins_left  = low > 0 && holes[low - 1].end == begin,
         joins_right = low < p->holes.n && holes[low].begin == end;
    if (joins_left && joins_right) {
        holes[low - 1].end = holes[low].end;
        memmove(holes + low, holes + low + 1, (--p->holes.n - low) * sizeof *holes);
        return true;
    }
    if (joins_left) holes[low - 1].end = end;
    if (joins_right) holes[low].begin = begin;
    if (joins_left || joins_right) return true;
    if (!ipu__reserve(&p->holes, 1)) return false;
    holes = p->holes.at;
    memmove(holes + low + 1, holes + low, (p->holes.n++ - low) * sizeof *holes);
    holes[low] = (hole){begin, end};
    return true;
}

static int64_t take_room(planner *p, int64_t bytes)
{
    hole  *holes = p->holes.at;
    size_t best  = p->holes.n;
    for (size_t i = 0; i < p->holes.n; i++) {
        int64_t size = holes[i].end - holes[i].begin;
        if (size >= bytes && (best == p->holes.n || size < holes[best].end - holes[best].begin)) best = i;
        if (size == bytes) break;
    }
    if (best < p->holes.n) {
        int64_t at = holes[best].begin;
        holes[best].begin += bytes;
        if (holes[best].begin == holes[best].end)
            memmove(holes + best, holes + best + 1, (--p->holes.n - best) * sizeof *holes);
        return at;
    }
    int64_t at = p->end;
    if (p->holes.n > 0 && holes[p->holes.n - 1].end == p->end)
        at = holes[--p->holes.n].begin; /* grow the last one */
    p->end = at + bytes;
    return at;
}

bool ipu__memory_plan(ipu__tenant *tenants, size_t n, int64_t *bytes)
{
    planner p  = {0};
    bool    ok = true;
    if (n > 1) qsort(tenants, n, sizeof *tenants, by_first);
    for (size_t i = 0; ok && i < n; i++) {
        ipu__tenant *t = &tenants[i];
        while (ok && p.leaving.n > 0 && p.leaving.at[0]->last < t->first) {
            const ipu__tenant *gone = heap_pop(&p);
            ok = open_hole(&p, gone->offset, gone->offset + ipu__memory_round(gone->bytes));
        }
        if (!ok) break;
        if (t->bytes == 0) {
            t->offset = 0;
            continue;
        }
        t->offset = take_room(&p, ipu__memory_round(t->bytes));
        ok        = heap_push(&p, t);
    }
    *bytes = p.end;
    ipu__array_fini(&p.holes);
    ipu__array_fini(&p.leaving);
    return ok;
}
