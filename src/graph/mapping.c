/* Tile mapping: which tile each element of a variable is on. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* ---- the map of one variable ---- */

bool ipu__mapping_add(ipu__mapping *m, int64_t begin, int64_t end, uint32_t tile)
{
    if (begin >= end) return true;
    if (m->places.n == 0) m->sorted = true;
    if (m->sorted && m->places.n > 0) {
        ipu__placement *last = &m->places.at[m->places.n - 1];
        if (begin <= m->places.at[0].begin && end >= last->end) {
            m->places.n = 0; /* overrides everything before */
        } else if (begin == last->end && tile == last->tile) {
            last->end = end;
            return true;
        } else if (begin < last->end) {
            m->sorted = false;
        }
    }
    return ipu__push(&m->places, (ipu__placement){begin, end, tile});
}

typedef struct event {
    ipu__placement place;
    size_t         order; /* of two, the later wins */
} event;

static int by_begin(const void *a, const void *b)
{
    const event *x = a, *y = b;
    return (x->place.begin > y->place.begin) - (x->place.begin < y->place.begin);
}

/* A heap of pointers to events, latest on top. */
static void sift_down(event **heap, size_t n)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1]->order > heap[child]->order) child++;
        if (heap[i]->order > heap[child]->order) break;
        event *swap = heap[i];
        heap[i]     = heap[child];
        heap[child] = swap;
    }
}

static void heap_push(event **heap, size_t *n, event *e)
{
    size_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2]->order < e->order; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = e;
}

static void heap_pop(event **heap, size_t *n)
{
    heap[0] = heap[--*n];
    sift_down(heap, *n);
}

/* Sweep over the elements: at each point, the latest placement that covers it counts. */
static bool sweep(event *events, size_t n, event **heap, ipu__mapping *out)
{
    size_t  active = 0, next = 0;
    int64_t at = 0;
    while (next < n || active > 0) {
        while (active > 0 && heap[0]->place.end <= at) heap_pop(heap, &active);
        if (active == 0) {
            if (next == n) break;
            at = events[next].place.begin;
        }
        for (; next < n && events[next].place.begin <= at; next++) heap_push(heap, &active, &events[next]);
        int64_t end = heap[0]->place.end;
        if (next < n && events[next].place.begin < end) end = events[next].place.begin;
        if (end > at && !ipu__mapping_add(out, at, end, heap[0]->place.tile)) return false;
        at = end > at ? end : at;
    }
    return true;
}

bool ipu__mapping_sort(ipu__mapping *m)
{
    if (m->sorted || m->places.n == 0) return true;
    size_t       n      = m->places.n;
    event       *events = ipu__alloc(n * sizeof *events);
    event      **heap   = ipu__alloc(n * sizeof *heap);
    ipu__mapping sorted = {0};
    bool         ok     = events && heap;
    if (ok) {
        for (size_t i = 0; i < n; i++) events[i] = (event){m->places.at[i], i};
        qsort(events, n, sizeof *events, by_begin);
        ok = sweep(events, n, heap, &sorted);
    }
    ipu__free(events);
    ipu__free(heap);
    if (!ok) {
        ipu__array_fini(&sorted.places);
        return false;
    }
    ipu__array_fini(&m->places);
    *m = sorted;
    return true;
}

const ipu__placement *ipu__mapping_find(const ipu__mapping *m, int64_t i)
{
    size_t low = 0, high = m->places.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->places.at[middle].end <= i)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->places.n ? &m->places.at[low] : NULL;
}

/* ---- setting it through a tensor ---- */

static bool place(ipu_graph *g, uint32_t var, int64_t begin, int64_t end, uint32_t tile)
{
    ipu__mapping *m = &g->variables.at[var].mapping;
    if (!ipu__mapping_add(m, begin, end, tile)) return false;
    /* Repeated mapping must not pile up history: tidy up when it has doubled. */
    if (m->sorted || m->places.n < m->tidy_at) return true;
    if (!ipu__mapping_sort(m)) return false;
    m->tidy_at = 2 * m->places.n + 64;
    return true;
}

static bool place_view(ipu_graph *g, uint32_t view, uint32_t tile)
{
    ipu__run run;
    if (ipu__view_contiguous(&g->views, view, &run))
        return run.count == 0 || place(g, run.var, run.start, run.start + run.count, tile);
    ipu__interval_list set = {0};
    bool               ok  = ipu__intervals_add(&set, &g->views, view, 0);
    for (size_t i = 0; ok && i < set.list.n; i++)
        ok = place(g, set.list.at[i].var, set.list.at[i].begin, set.list.at[i].end, tile);
    ipu__intervals_fini(&set);
    return ok;
}

void ipu_graph_set_tile_mapping(ipu_graph *g, ipu_tensor t, int64_t tile)
{
    if (!ipu__graph_has(g, __func__, t)) return;
    uint32_t root_tile = ipu__graph_tile(g, __func__, tile);
    if (root_tile != IPU__NO_TILE && !place_view(g->root, t.id, root_tile)) ipu__graph_fail_memory(g);
}

/* Elements begin <= i < end of the flat view, using the builder as scratch space. */
static bool place_range(ipu_graph *g, uint32_t view, int64_t begin, int64_t end, uint32_t tile)
{
    ipu__run whole;
    if (ipu__view_contiguous(&g->views, view, &whole))
        return place(g, whole.var, whole.start + begin, whole.start + end, tile);
    size_t     words = g->views.words.n;
    ipu__piece nest  = {.start = begin, .n_loops = 1, .loop = {{end - begin, 1}}};
    ipu__view_select(&g->builder, &g->views, &g->piece_index, view, &nest);
    uint32_t part = ipu__view_commit(&g->builder, &g->views, IPU_FLOAT, &IPU_SHAPE(end - begin));
    bool     ok   = part && place_view(g, part, tile);
    if (part) g->views.words.n = words; /* the part is not needed any more */
    return ok;
}

void ipu_graph_set_tile_intervals(ipu_graph *g, ipu_tensor t, const ipu_tile_interval *map, size_t n)
{
    if (!ipu__graph_has(g, __func__, t)) return;
    int64_t total = ipu_tensor_n_elements(t);
    for (size_t i = 0; i < n; i++) {
        uint32_t tile = ipu__graph_tile(g, __func__, map[i].tile);
        if (tile == IPU__NO_TILE) return;
        if (map[i].begin < 0 || map[i].begin > map[i].end || map[i].end > total) {
            ipu__graph_fail(g, IPU_INVALID, "%s: elements [%lld, %lld) of a tensor of %lld", __func__,
                            (long long)map[i].begin, (long long)map[i].end, (long long)total);
            return;
        }
        if (map[i].begin < map[i].end && !place_range(g->root, t.id, map[i].begin, map[i].end, tile)) {
            ipu__graph_fail_memory(g);
            return;
        }
    }
}

/* How many tiles get elements if each gets at least `least`, including the last one, which gets the
 * remainder. */
static int64_t tiles_used(int64_t n, int64_t n_tiles, int64_t least, int64_t grain)
{
    int64_t grains = (n + grain - 1) / grain, each = (least + grain - 1) / grain,
            missing = grains * grain - n;
    int64_t used    = grains / (each > 0 ? each : 1);
    if (used > n_tiles) used = n_tiles;
    while (used > 1 && (grains + used - 1) / used * grain - missing < least) used--;
    return used > 1 ? used : 1;
}

void ipu_graph_map_linearly_by(ipu_graph *g, ipu_tensor t, int64_t min_elements, int64_t grain)
{
    if (!ipu__graph_has(g, __func__, t)) return;
    if (min_elements < 0 || grain < 1 || grain > INT64_MAX / 4 || min_elements > INT64_MAX / 4) {
        ipu__graph_fail(
            g, IPU_INVALID,
            "%s: at least %lld elements in grains of %lld: expected 0 or more, in grains of 1 or more",
            __func__, (long long)min_elements, (long long)grain);
        return;
    }
    int64_t n = ipu_tensor_n_elements(t);
    if (n == 0) return;
    if (grain > n) grain = n;
    int64_t used = tiles_used(n, g->n_tiles, min_elements, grain), grains = (n + grain - 1) / grain,
            begin = 0;
    for (int64_t i = 0; i < used; i++) {
        int64_t share = grains / used
                      + (i >= used - grains % used); /* extra ones go to the last tile, which has fewer */
        int64_t end = begin + share * grain < n ? begin + share * grain : n;
        if (!place_range(g->root, t.id, begin, end, (uint32_t)(g->tiles ? g->tiles[i] : i))) {
            ipu__graph_fail_memory(g);
            return;
        }
        begin = end;
    }
}

void ipu_graph_map_linearly(ipu_graph *g, ipu_tensor t) { ipu_graph_map_linearly_by(g, t, 1, 1); }

/* ---- asking ---- */

typedef struct tile_list {
    IPU__ARRAY(ipu_tile_interval) list;
} tile_list;

static bool add_tile(tile_list *out, int64_t tile, int64_t count)
{
    size_t  n     = out->list.n;
    int64_t begin = n ? out->list.at[n - 1].end : 0;
    if (n && out->list.at[n - 1].tile == tile) {
        out->list.at[n - 1].end += count;
        return true;
    }
    return ipu__push(&out->list, (ipu_tile_interval){tile, begin, begin + count});
}

/* Consecutive elements begin <= i < end of one variable. */
static bool add_neighbours(tile_list *out, const ipu__mapping *m, int64_t begin, int64_t end)
{
    const ipu__placement *p = ipu__mapping_find(m, begin), *past = m->places.at + m->places.n;
    while (begin < end) {
        bool    mapped = p && p < past && p->begin <= begin;
        int64_t to     = mapped ? p->end : p && p < past ? p->begin : end;
        if (to > end) to = end;
        if (!add_tile(out, mapped ? (int64_t)p->tile : -1, to - begin)) return false;
        if (mapped) p++;
        begin = to;
    }
    return true;
}

static bool collect_tiles(ipu_graph *g, uint32_t view, tile_list *out)
{
    ipu__runs runs = ipu__view_runs(&g->views, view);
    for (ipu__run run; ipu__runs_next(&runs, &run);) {
        ipu__mapping *m = &g->variables.at[run.var].mapping;
        if (!ipu__mapping_sort(m)) return false;
        if (run.stride == 1) {
            if (!add_neighbours(out, m, run.start, run.start + run.count)) return false;
            continue;
        }
        for (int64_t i = 0; i < run.count; i++) {
            int64_t element = run.start + i * run.stride;
            if (!add_neighbours(out, m, element, element + 1)) return false;
        }
    }
    return true;
}

/* Translates root tile numbers to those of a virtual graph. */
static ipu_status translate(const ipu_graph *g, ipu_tile_interval *map, size_t n)
{
    if (!g->tiles) return IPU_OK;
    int64_t *number = ipu__alloc((size_t)g->root->n_tiles * sizeof *number);
    if (!number) return ipu__fail_memory();
    for (int64_t i = 0; i < g->root->n_tiles; i++) number[i] = -1;
    for (int64_t i = g->n_tiles; i-- > 0;) number[g->tiles[i]] = i;
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < n; i++) {
        if (map[i].tile < 0) continue;
        int64_t own = number[map[i].tile];
        if (own < 0)
            status = ipu__fail(
                IPU_INVALID,
                "ipu_graph_tile_mapping: elements [%lld, %lld) are on tile %lld, which the virtual graph does not show",
                (long long)map[i].begin, (long long)map[i].end, (long long)map[i].tile);
        map[i].tile = own;
    }
    ipu__free(number);
    return status;
}

ipu_status ipu_graph_tile_mapping(ipu_graph *g, ipu_tensor t, ipu_tile_interval **out, size_t *n)
{
    if (t.id == 0 || !t.graph || t.graph->root != g->root)
        return ipu__fail(IPU_INVALID,
                         "ipu_graph_tile_mapping: the tensor is null or belongs to another graph");
    tile_list  tiles  = {0};
    ipu_status status = ipu__reserve(&tiles.list, 1) && collect_tiles(g->root, t.id, &tiles)
                          ? IPU_OK
                          : ipu__fail_memory();
    if (status == IPU_OK) status = translate(g, tiles.list.at, tiles.list.n);
    if (status != IPU_OK) {
        ipu__array_fini(&tiles.list);
        return status;
    }
    *out = tiles.list.at;
    *n   = tiles.list.n;
    return IPU_OK;
}
