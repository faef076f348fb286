/* Views as sets of elements. A set has no order, so the loops of a nest may be sorted by stride, which
 * turns most transposes and reversals into one interval. */
#include "graph/interval.h"

#include <stdlib.h>
#include <string.h>

/* The same elements, as ascending as a nest can express, with repeats (stride 0) dropped. */
static void make_set(ipu__piece *p)
{
    int n = 0;
    for (int k = 0; k < p->n_loops; k++) {
        ipu__loop loop = p->loop[k];
        if (loop.stride == 0) continue;
        if (loop.stride < 0) {
            p->start += (loop.count - 1) * loop.stride;
            loop.stride = -loop.stride;
        }
        int at = n++;
        for (; at > 0 && p->loop[at - 1].stride < loop.stride; at--) p->loop[at] = p->loop[at - 1];
        p->loop[at] = loop;
    }
    p->n_loops = n;
    ipu__nest_normalise(p);
}

static bool add_run(ipu__interval_list *set, const ipu__piece *p, int64_t start, uint32_t tag)
{
    const ipu__loop *inner = p->n_loops ? &p->loop[p->n_loops - 1] : NULL;
    if (!inner) return ipu__push(&set->list, (ipu__interval){p->var, tag, start, start + 1});
    if (inner->stride == 1)
        return ipu__push(&set->list, (ipu__interval){p->var, tag, start, start + inner->count});
    for (int64_t i = 0; i < inner->count; i++, start += inner->stride)
        if (!ipu__push(&set->list, (ipu__interval){p->var, tag, start, start + 1})) return false;
    return true;
}

static bool add_nest(ipu__interval_list *set, const ipu__piece *p, int level, int64_t start, uint32_t tag)
{
    if (level >= p->n_loops - 1) return add_run(set, p, start, tag);
    for (int64_t i = 0; i < p->loop[level].count; i++)
        if (!add_nest(set, p, level + 1, start + i * p->loop[level].stride, tag)) return false;
    return true;
}

bool ipu__intervals_add(ipu__interval_list *set, const ipu__view_pool *pool, uint32_t id, uint32_t tag)
{
    ipu__run run;
    if (ipu__view_contiguous(pool, id, &run))
        return run.count == 0
            || ipu__push(&set->list, (ipu__interval){run.var, tag, run.start, run.start + run.count});
    ipu__view   view   = ipu__view_get(pool, id);
    ipu__pieces pieces = ipu__view_pieces(pool, &view);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);) {
        make_set(&piece);
        if (!add_nest(set, &piece, 0, piece.start, tag)) return false;
    }
    return true;
}

static int compare(const void *a, const void *b)
{
    const ipu__interval *x = a, *y = b;
    if (x->var != y->var) return x->var < y->var ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* Graphs are mostly built in order: check before sorting. */
static void sort_range(ipu__interval *at, size_t n)
{
    size_t i = 1;
    while (i < n && compare(&at[i - 1], &at[i]) <= 0) i++;
    if (i < n) qsort(at, n, sizeof *at, compare);
}

/* Distributes the intervals by variable, keeping order, so that what remains to be sorted is short and
 * mostly sorted. Pays off for few variables; returns false if it did nothing. */
static bool sort_by_variable(ipu__interval_list *set)
{
    uint32_t low = UINT32_MAX, high = 0;
    size_t   n = set->list.n;
    for (size_t i = 0; i < n; i++) {
        if (set->list.at[i].var < low) low = set->list.at[i].var;
        if (set->list.at[i].var > high) high = set->list.at[i].var;
    }
    size_t n_vars = (size_t)high - low + 1;
    if (n < 64 || n_vars > n) return false;
    size_t        *next  = ipu__alloc_zeroed((n_vars + 1) * sizeof *next);
    ipu__interval *dealt = ipu__alloc(n * sizeof *dealt);
    bool           ok    = next && dealt;
    if (ok) {
        for (size_t i = 0; i < n; i++) next[set->list.at[i].var - low + 1]++;
        for (size_t v = 1; v <= n_vars; v++) next[v] += next[v - 1];
        for (size_t i = 0; i < n; i++) dealt[next[set->list.at[i].var - low]++] = set->list.at[i];
        memcpy(set->list.at, dealt, n * sizeof *dealt); /* next[v] is now where variable v ends */
        for (size_t v = 0; v < n_vars; v++)
            sort_range(set->list.at + (v ? next[v - 1] : 0), next[v] - (v ? next[v - 1] : 0));
    }
    ipu__free(next);
    ipu__free(dealt);
    return ok;
}

void ipu__intervals_sort(ipu__interval_list *set)
{
    if (set->list.n > 1 && !sort_by_variable(set)) sort_range(set->list.at, set->list.n);
}

void ipu__intervals_merge(ipu__interval_list *set)
{
    ipu__intervals_sort(set);
    size_t n = 0;
    for (size_t i = 0; i < set->list.n; i++) {
        ipu__interval next = set->list.at[i], *last = n ? &set->list.at[n - 1] : NULL;
        if (last && last->var == next.var && next.begin <= last->end) {
            if (next.end > last->end) last->end = next.end;
        } else {
            set->list.at[n++] = next;
        }
    }
    set->list.n = n;
}

void ipu__intervals_fini(ipu__interval_list *set) { ipu__array_fini(&set->list); }

/* Sufficient for a nest without repeats: each stride exceeds the span of everything inside it. */
static bool surely_distinct(const ipu__piece *p)
{
    ipu__piece set = *p;
    for (int k = 0; k < p->n_loops; k++)
        if (p->loop[k].stride == 0) return false;
    make_set(&set);
    int64_t reach = 0;
    for (int k = set.n_loops - 1; k >= 0; k--) {
        if (set.loop[k].stride <= reach) return false;
        reach += (set.loop[k].count - 1) * set.loop[k].stride;
    }
    return true;
}

bool ipu__view_has_aliases(const ipu__view_pool *pool, uint32_t id, bool *ok)
{
    ipu__view   view   = ipu__view_get(pool, id);
    ipu__pieces pieces = ipu__view_pieces(pool, &view);
    *ok                = true;
    if (view.n_pieces == 1) {
        ipu__piece piece;
        ipu__pieces_next(&pieces, &piece);
        if (surely_distinct(&piece)) return false;
    }
    ipu__interval_list set = {0};
    *ok                    = ipu__intervals_add(&set, pool, id, 0);
    ipu__intervals_merge(&set);
    int64_t n = 0; /* of distinct elements */
    for (size_t i = 0; i < set.list.n; i++) n += set.list.at[i].end - set.list.at[i].begin;
    ipu__intervals_fini(&set);
    return *ok && n < view.n_elements;
}
