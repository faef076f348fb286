/* Interval allocation: tenants move in by first moment, into the best-fitting hole, and leave after their
 * last.
 *
 * Tenants leave in the order of (last, offset), so that neighbours that end together form one hole at once
 * and the list of holes stays short. If that wastes much memory at the peak, planning starts over with the
 * tenants that are largest, or large for longest: small ones then cannot block larger ones that come later.
 * Otherwise the first plan is kept, because consecutive tenants then use memory that is still cached. Plans
 * that an engine prefers spread out are not shared at all.
 */
#include "engine/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct hole {
    int64_t begin, end;
} hole;

enum {
    MOST_ANEW  = 2048,    /* tenants: takes quadratic time */
    LEAST_GAIN = 1 << 20, /* in bytes, and as a fraction of the total: */
    GAIN_PART  = 64,
};

typedef struct planner {
    const ipu__memory_spacing *spacing;
    IPU__ARRAY(hole) holes;                  /* ascending, never adjacent */
    IPU__ARRAY(const ipu__tenant *) leaving; /* a heap by (last, offset) */
    int64_t end;
    int64_t used, most_used; /* by current tenants */
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
        at = holes[--p->holes.n].begin; /* extend the last one */
    p->end = at + bytes;
    return at;
}

/* The tenants are in the order of first moments. */
static bool plan_by_first(planner *p, ipu__tenant *tenants, size_t n)
{
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        ipu__tenant *t = &tenants[i];
        while (ok && p->leaving.n > 0 && p->leaving.at[0]->last < t->first) {
            const ipu__tenant *gone  = heap_pop(p);
            int64_t            bytes = ipu__memory_room(p->spacing, gone->bytes);
            p->used -= bytes;
            ok = open_hole(p, gone->offset, gone->offset + bytes);
        }
        if (!ok) break;
        if (t->bytes == 0) {
            t->offset = 0;
            continue;
        }
        int64_t bytes = ipu__memory_room(p->spacing, t->bytes);
        t->offset     = take_room(p, bytes);
        p->used += bytes;
        if (p->used > p->most_used) p->most_used = p->used;
        ok = heap_push(p, t);
    }
    return ok;
}

/* ---- the largest first ---- */

typedef struct placed {
    const ipu__tenant *tenant;
    int64_t            offset;
} placed;

static int by_size(const void *a, const void *b)
{
    const ipu__tenant *x = ((const placed *)a)->tenant, *y = ((const placed *)b)->tenant;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Bytes times moments. */
static double weight_of(const ipu__tenant *t) { return (double)t->bytes * (double)(t->last - t->first + 1); }

static int by_weight(const void *a, const void *b)
{
    const ipu__tenant *x = ((const placed *)a)->tenant, *y = ((const placed *)b)->tenant;
    if (weight_of(x) != weight_of(y)) return weight_of(x) > weight_of(y) ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int by_tenant(const void *a, const void *b)
{
    const ipu__tenant *x = ((const placed *)a)->tenant, *y = ((const placed *)b)->tenant;
    return x < y ? -1 : x > y;
}

/* The lowest gap among all[0..n), sorted by offset, counting only those that overlap the tenant in time. */
static int64_t find_gap(const planner *p, const placed *all, size_t n, const ipu__tenant *t)
{
    int64_t at = 0, bytes = ipu__memory_room(p->spacing, t->bytes);
    for (size_t i = 0; i < n; i++) {
        const ipu__tenant *other = all[i].tenant;
        if (other->last < t->first || t->last < other->first) continue;
        if (all[i].offset >= at + bytes) break;
        int64_t end = all[i].offset + ipu__memory_room(p->spacing, other->bytes);
        if (end > at) at = end;
    }
    return at;
}

/* Leaves `all` sorted by offset; returns the end. */
static int64_t place_by(const planner *p, int (*order)(const void *, const void *), placed *all, size_t n)
{
    int64_t end = 0;
    if (n > 1) qsort(all, n, sizeof *all, order);
    for (size_t i = 0; i < n; i++) {
        const ipu__tenant *t  = all[i].tenant;
        int64_t            at = t->bytes ? find_gap(p, all, i, t) : 0, k = (int64_t)i;
        int64_t            until = at + ipu__memory_room(p->spacing, t->bytes);
        if (until > end) end = until;
        for (; k > 0 && all[k - 1].offset > at; k--) all[k] = all[k - 1];
        all[k] = (placed){t, at};
    }
    return end;
}

/* Whether the possible gain justifies another attempt. */
static bool is_worth_it(int64_t bytes, int64_t needed)
{
    return bytes - needed >= LEAST_GAIN && bytes - needed >= bytes / GAIN_PART;
}

/* Tries two orders, stopping once the result is good enough. */
static bool plan_anew(const planner *p, ipu__tenant *tenants, size_t n, int64_t *bytes)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_weight};
    placed *all                                              = ipu__alloc(n * sizeof *all);
    if (!all) return false;
    for (size_t i = 0; i < n; i++) all[i] = (placed){&tenants[i], 0};
    for (size_t k = 0; k < sizeof orders / sizeof *orders && is_worth_it(*bytes, p->most_used); k++) {
        int64_t end = place_by(p, orders[k], all, n);
        if (end >= *bytes) continue;
        qsort(all, n, sizeof *all, by_tenant);
        for (size_t i = 0; i < n; i++) tenants[i].offset = all[i].offset;
        *bytes = end;
    }
    ipu__free(all);
    return true;
}

/* One after another. */
static void spread(const planner *p, ipu__tenant *tenants, size_t n, int64_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        tenants[i].offset = *bytes;
        *bytes += ipu__memory_room(p->spacing, tenants[i].bytes);
    }
}

static bool is_to_be_spread(const planner *p, int64_t all)
{
    return p->spacing && p->end >= p->spacing->least_spread && all <= p->spacing->most_spread;
}

bool ipu__memory_plan(ipu__tenant *tenants, size_t n, const ipu__memory_spacing *spacing, int64_t *bytes)
{
    planner p   = {.spacing = spacing};
    int64_t all = 0;
    if (n > 1) qsort(tenants, n, sizeof *tenants, by_first);
    for (size_t i = 0; i < n; i++) all += ipu__memory_room(spacing, tenants[i].bytes);
    bool ok = plan_by_first(&p, tenants, n);
    *bytes  = p.end;
    if (ok && is_to_be_spread(&p, all))
        spread(&p, tenants, n, bytes);
    else if (ok && n <= MOST_ANEW && is_worth_it(p.end, p.most_used))
        ok = plan_anew(&p, tenants, n, bytes);
    ipu__array_fini(&p.holes);
    ipu__array_fini(&p.leaving);
    return ok;
}
