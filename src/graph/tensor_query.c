/* Queries about tensors: shape, regions, aliases, constants, text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "graph/graph.h"
#include "graph/interval.h"

static bool is_null(ipu_tensor t) { return !t.graph || t.id == 0; }

static ipu__view view_of(ipu_tensor t) { return ipu__view_get(&t.graph->root->views, t.id); }

bool ipu_tensor_valid(ipu_tensor t) { return !is_null(t); }

ipu_shape ipu_tensor_shape(ipu_tensor t) { return is_null(t) ? IPU_SCALAR : view_of(t).shape; }

int ipu_tensor_rank(ipu_tensor t) { return ipu_tensor_shape(t).rank; }

int64_t ipu_tensor_dim(ipu_tensor t, int dim)
{
    ipu_shape shape = ipu_tensor_shape(t);
    return dim >= 0 && dim < shape.rank ? shape.dim[dim] : 0;
}

int64_t ipu_tensor_n_elements(ipu_tensor t) { return is_null(t) ? 0 : view_of(t).n_elements; }

ipu_type ipu_tensor_type(ipu_tensor t) { return is_null(t) ? IPU_FLOAT : view_of(t).type; }

/* ---- runs of neighbours ---- */

/* Runs of ascending neighbours, as long as possible: a strided run is split into elements, and a run that
 * continues the previous one is joined to it. */
typedef struct neighbours {
    ipu__runs runs;
    ipu__run  run;     /* what is left of the current one */
    ipu__run  pending; /* count 0 if none */
    bool      more;
} neighbours;

static neighbours neighbours_of(ipu_tensor t)
{
    neighbours n = {.runs = ipu__view_runs(&t.graph->root->views, t.id)};
    n.more       = ipu__runs_next(&n.runs, &n.run);
    return n;
}

/* The next ascending part: a whole run of stride 1, or one element of another. */
static bool next_bit(neighbours *n, ipu__run *out)
{
    if (!n->more) return false;
    *out = n->run;
    if (n->run.stride == 1 || n->run.count == 1) {
        n->more = ipu__runs_next(&n->runs, &n->run);
        return true;
    }
    out->count = 1;
    n->run.start += n->run.stride;
    n->run.count--;
    return true;
}

static bool next_neighbours(neighbours *n, ipu__run *out)
{
    if (n->pending.count == 0 && !next_bit(n, &n->pending)) return false;
    *out = n->pending;
    while (next_bit(n, &n->pending)) {
        if (n->pending.var != out->var || n->pending.start != out->start + out->count) return true;
        out->count += n->pending.count;
    }
    n->pending.count = 0;
    return true;
}

static ipu_status refuse_null(const char *function)
{
    return ipu__fail(IPU_INVALID, "%s: the tensor is null", function);
}

ipu_status ipu_tensor_var_regions(ipu_tensor t, ipu_region **out, size_t *n)
{
    if (is_null(t)) return refuse_null(__func__);
    IPU__ARRAY(ipu_region) list = {0};
    neighbours it               = neighbours_of(t);
    bool       ok               = ipu__reserve(&list, 1);
    for (ipu__run run; ok && next_neighbours(&it, &run);) {
        ipu_tensor flat = {t.graph, ipu__graph_variable(t.graph, run.var)->flat_view};
        ok              = ipu__push(&list, (ipu_region){flat, run.start, run.start + run.count});
    }
    if (!ok) {
        ipu__array_fini(&list);
        return ipu__fail_memory();
    }
    *out = list.at;
    *n   = list.n;
    return IPU_OK;
}

ipu_status ipu_tensor_contiguous_regions(ipu_tensor t, ipu_interval **out, size_t *n)
{
    if (is_null(t)) return refuse_null(__func__);
    IPU__ARRAY(ipu_interval) list = {0};
    neighbours it                 = neighbours_of(t);
    int64_t    at                 = 0;
    bool       ok                 = ipu__reserve(&list, 1);
    for (ipu__run run; ok && next_neighbours(&it, &run); at += run.count)
        ok = ipu__push(&list, (ipu_interval){at, at + run.count});
    if (!ok) {
        ipu__array_fini(&list);
        return ipu__fail_memory();
    }
    *out = list.at;
    *n   = list.n;
    return IPU_OK;
}

/* ---- sets of elements ---- */

bool ipu_tensor_is_contiguous(ipu_tensor t)
{
    ipu__run run;
    return !is_null(t) && ipu__view_contiguous(&t.graph->root->views, t.id, &run);
}

bool ipu_tensor_contains_aliases(ipu_tensor t)
{
    bool ok      = true;
    bool aliases = !is_null(t) && ipu__view_has_aliases(&t.graph->root->views, t.id, &ok);
    if (!ok) ipu__graph_fail_memory(t.graph);
    return aliases;
}

bool ipu_tensor_contains_constant(ipu_tensor t)
{
    if (is_null(t)) return false;
    ipu__view   view   = view_of(t);
    ipu__pieces pieces = ipu__view_pieces(&t.graph->root->views, &view);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        if (ipu__graph_variable(t.graph, piece.var)->kind != IPU__VARIABLE) return true;
    return false;
}

bool ipu_tensor_is_parallel_writeable(ipu_tensor t)
{
    return !is_null(t) && !ipu_tensor_contains_constant(t) && !ipu_tensor_contains_aliases(t);
}

/* The smallest interval that contains a piece. */
static ipu__interval bounds_of(const ipu__piece *p)
{
    ipu__interval box = {p->var, 0, p->start, p->start + 1};
    for (int k = 0; k < p->n_loops; k++) {
        int64_t reach = (p->loop[k].count - 1) * p->loop[k].stride;
        *(reach < 0 ? &box.begin : &box.end) += reach;
    }
    return box;
}

/* A sufficient test for two views of few pieces to be disjoint, without listing elements. */
static bool surely_apart(const ipu__view_pool *pool, uint32_t a, uint32_t b)
{
    enum { FEW = 8 };
    ipu__view va = ipu__view_get(pool, a), vb = ipu__view_get(pool, b);
    if (va.n_pieces > FEW || vb.n_pieces > FEW) return false;
    ipu__pieces pa = ipu__view_pieces(pool, &va);
    for (ipu__piece x; ipu__pieces_next(&pa, &x);) {
        ipu__interval box = bounds_of(&x);
        ipu__pieces   pb  = ipu__view_pieces(pool, &vb);
        for (ipu__piece y; ipu__pieces_next(&pb, &y);) {
            ipu__interval other = bounds_of(&y);
            if (box.var == other.var && box.begin < other.end && other.begin < box.end) return false;
        }
    }
    return true;
}

bool ipu__views_intersect(ipu_graph *g, uint32_t a, uint32_t b, ipu__interval *where)
{
    ipu__interval_list set[2] = {0};
    const uint32_t     id[2]  = {a, b};
    bool               found = false, ok = true;
    if (surely_apart(&g->root->views, a, b)) return false;
    for (int k = 0; ok && k < 2; k++) {
        ok = ipu__intervals_add(&set[k], &g->root->views, id[k], 0);
        ipu__intervals_merge(&set[k]);
    }
    if (!ok) ipu__graph_fail_memory(g);
    for (size_t i = 0, j = 0; ok && !found && i < set[0].list.n && j < set[1].list.n;) {
        ipu__interval x = set[0].list.at[i], y = set[1].list.at[j];
        found = x.var == y.var && x.begin < y.end && y.begin < x.end;
        if (found)
            *where = (ipu__interval){x.var, 0, x.begin > y.begin ? x.begin : y.begin,
                                     x.end < y.end ? x.end : y.end};
        else if (x.var < y.var || (x.var == y.var && x.end <= y.begin))
            i++;
        else
            j++;
    }
    ipu__intervals_fini(&set[0]);
    ipu__intervals_fini(&set[1]);
    return found;
}

bool ipu_tensor_intersects(ipu_tensor a, ipu_tensor b)
{
    ipu__interval where;
    return !is_null(a) && !is_null(b) && a.graph->root == b.graph->root
        && ipu__views_intersect(a.graph, a.id, b.id, &where);
}

bool ipu_tensor_equal(ipu_tensor a, ipu_tensor b)
{
    if (is_null(a) || is_null(b)) return is_null(a) && is_null(b);
    if (a.graph->root != b.graph->root) return false;
    ipu__view va = view_of(a), vb = view_of(b);
    if (va.type != vb.type || va.shape.rank != vb.shape.rank) return false;
    for (int d = 0; d < va.shape.rank; d++)
        if (va.shape.dim[d] != vb.shape.dim[d]) return false;
    neighbours na = neighbours_of(a), nb = neighbours_of(b);
    ipu__run   x, y;
    for (;;) {
        bool more_x = next_neighbours(&na, &x), more_y = next_neighbours(&nb, &y);
        if (!more_x || !more_y) return more_x == more_y;
        if (x.var != y.var || x.start != y.start || x.count != y.count) return false;
    }
}

/* ---- sorted by place in memory ---- */

typedef struct placed {
    uint32_t var;
    int64_t  begin, end; /* in the variable */
    int64_t  flat;       /* of the tensor */
} placed;

typedef struct placed_list {
    IPU__ARRAY(placed) list;
} placed_list;

static int compare_placed(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->var != y->var) return x->var < y->var ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->flat > y->flat) - (x->flat < y->flat);
}

/* The part of the tensor's neighbour runs within these intervals, sorted by position. */
static bool collect_placed(ipu_tensor t, const ipu_interval *intervals, size_t n, placed_list *out)
{
    neighbours it = neighbours_of(t);
    int64_t    at = 0;
    size_t     k  = 0;
    for (ipu__run run; k < n && next_neighbours(&it, &run); at += run.count)
        for (size_t i = k; i < n && intervals[i].begin < at + run.count; i++) {
            int64_t from = intervals[i].begin > at ? intervals[i].begin : at;
            int64_t to   = intervals[i].end < at + run.count ? intervals[i].end : at + run.count;
            if (from < to) {
                placed p = {run.var, run.start + from - at, run.start + to - at, from};
                if (!ipu__push(&out->list, p)) return false;
            }
            if (i == k && intervals[i].end <= at + run.count) k++;
        }
    if (out->list.n > 1) qsort(out->list.at, out->list.n, sizeof *out->list.at, compare_placed);
    return true;
}

static ipu_status check_intervals(ipu_tensor t, const ipu_interval *intervals, size_t n)
{
    int64_t total = ipu_tensor_n_elements(t);
    for (size_t i = 0; i < n; i++) {
        int64_t low = i ? intervals[i - 1].end : 0;
        if (intervals[i].begin < low || intervals[i].end < intervals[i].begin || intervals[i].end > total)
            return ipu__fail(
                IPU_INVALID,
                "ipu_tensor_sorted_regions: interval %zu is [%lld, %lld): expected ascending intervals within [0, %lld)",
                i, (long long)intervals[i].begin, (long long)intervals[i].end, (long long)total);
    }
    return IPU_OK;
}

ipu_status ipu_tensor_sorted_regions(ipu_tensor t, const ipu_interval *intervals, size_t n, bool drop_aliases,
                                     ipu_interval **out, size_t *n_out, size_t **run_end, size_t *n_runs)
{
    if (is_null(t)) return refuse_null(__func__);
    IPU_TRY(check_intervals(t, intervals, n));
    placed_list places              = {0};
    IPU__ARRAY(ipu_interval) sorted = {0};
    IPU__ARRAY(size_t) ends         = {0};
    placed last                     = {0};
    bool ok = collect_placed(t, intervals, n, &places) && ipu__reserve(&sorted, 1) && ipu__reserve(&ends, 1);
    for (size_t i = 0; ok && i < places.list.n; i++) {
        placed p = places.list.at[i];
        if (drop_aliases && sorted.n > 0 && p.var == last.var && p.begin < last.end) {
            int64_t skip = (p.end < last.end ? p.end : last.end) - p.begin;
            p.begin += skip;
            p.flat += skip;
            if (p.begin == p.end) continue;
        }
        bool follows = sorted.n > 0 && p.var == last.var && p.begin == last.end;
        if (sorted.n > 0 && !follows) ok = ipu__push(&ends, sorted.n);
        int64_t length = p.end - p.begin;
        if (follows && sorted.at[sorted.n - 1].end == p.flat)
            sorted.at[sorted.n - 1].end += length;
        else
            ok = ok && ipu__push(&sorted, (ipu_interval){p.flat, p.flat + length});
        last = p;
    }
    if (ok && sorted.n > 0) ok = ipu__push(&ends, sorted.n);
    ipu__array_fini(&places.list);
    if (!ok) {
        ipu__array_fini(&sorted);
        ipu__array_fini(&ends);
        return ipu__fail_memory();
    }
    *out     = sorted.at;
    *n_out   = sorted.n;
    *run_end = ends.at;
    *n_runs  = ends.n;
    return IPU_OK;
}

static ipu_tensor reordered(ipu_tensor t, const placed_list *order)
{
    ipu_graph *g    = t.graph->root;
    ipu__view  view = view_of(t);
    for (size_t i = 0; i < order->list.n; i++) {
        const placed *p    = &order->list.at[i];
        ipu__piece    nest = {.start = p->flat, .n_loops = 1, .loop = {{p->end - p->begin, 1}}};
        ipu__view_select(&g->builder, &g->views, &g->piece_index, t.id, &nest);
    }
    uint32_t id = ipu__view_commit(&g->builder, &g->views, view.type, &view.shape);
    if (id == 0) ipu__graph_fail_memory(g);
    return (ipu_tensor){t.graph, id};
}

void ipu_tensor_reorder_to_simplify(ipu_tensor *t, ipu_tensor **others, size_t n)
{
    if (!t->graph || t->graph->root->status != IPU_OK) return;
    int64_t count = ipu_tensor_n_elements(*t);
    bool    ok    = !is_null(*t) && ipu_tensor_rank(*t) == 1;
    for (size_t i = 0; ok && i < n; i++)
        ok = !is_null(*others[i]) && others[i]->graph->root == t->graph->root
          && ipu_tensor_rank(*others[i]) == 1 && ipu_tensor_n_elements(*others[i]) == count;
    if (!ok) {
        ipu__graph_fail(
            t->graph, IPU_INVALID,
            "ipu_tensor_reorder_to_simplify: expected tensors of rank 1 and of one length, of one graph");
        return;
    }
    placed_list order = {0};
    if (collect_placed(*t, &(ipu_interval){0, count}, 1, &order)) {
        for (size_t i = 0; i < n; i++) *others[i] = reordered(*others[i], &order);
        *t = reordered(*t, &order);
    } else {
        ipu__graph_fail_memory(t->graph);
    }
    ipu__array_fini(&order.list);
}

/* ---- values and text ---- */

ipu_status ipu_tensor_constant_value(ipu_tensor t, void *out, size_t bytes)
{
    if (is_null(t)) return refuse_null(__func__);
    ipu__view view = view_of(t);
    size_t    size = ipu_type_size(view.type);
    if (bytes != (size_t)view.n_elements * size)
        return ipu__fail(IPU_INVALID, "ipu_tensor_constant_value: room for %zu bytes: expected %zu", bytes,
                         (size_t)view.n_elements * size);
    char      *to = out;
    neighbours it = neighbours_of(t);
    for (ipu__run run; next_neighbours(&it, &run);) {
        const ipu__variable *v = ipu__graph_variable(t.graph, run.var);
        if (v->kind != IPU__CONSTANT)
            return ipu__fail(IPU_INVALID, "ipu_tensor_constant_value: %s is not a constant",
                             ipu__variable_str(t.graph, run.var));
        memcpy(to, (const char *)v->data + (size_t)run.start * size, (size_t)run.count * size);
        to += (size_t)run.count * size;
    }
    return IPU_OK;
}

static size_t cut(ipu__text *text, char *out, size_t size)
{
    size_t n = text->failed ? 0 : text->n;
    if (size > 0) {
        size_t keep = n < size ? n : size - 1;
        if (keep) memcpy(out, text->at, keep);
        out[keep] = 0;
    }
    ipu__text_fini(text);
    return n;
}

static void add_shape(ipu__text *text, const ipu_shape *shape)
{
    ipu__text_add(text, "[");
    for (int d = 0; d < shape->rank && d < IPU_MAX_RANK; d++)
        ipu__text_add(text, d ? ",%lld" : "%lld", (long long)shape->dim[d]);
    ipu__text_add(text, "]");
}

size_t ipu_shape_text(const ipu_shape *shape, char *out, size_t size)
{
    ipu__text text = {0};
    add_shape(&text, shape);
    return cut(&text, out, size);
}

void ipu__piece_text(ipu__text *text, const char *name, const ipu__piece *p)
{
    ipu__text_add(text, "%s[%lld", name, (long long)p->start);
    if (p->n_loops == 1 && p->loop[0].stride == 1)
        ipu__text_add(text, ":%lld", (long long)p->loop[0].count);
    else
        for (int k = 0; k < p->n_loops; k++)
            ipu__text_add(text, "%s%lld*%lld", k ? ", " : ": ", (long long)p->loop[k].count,
                          (long long)p->loop[k].stride);
    ipu__text_add(text, "]");
}

size_t ipu_tensor_text(ipu_tensor t, char *out, size_t size)
{
    ipu__text text = {0};
    if (is_null(t)) {
        ipu__text_add(&text, "null");
        return cut(&text, out, size);
    }
    ipu__view view = view_of(t);
    ipu__text_add(&text, "%s", ipu_type_name(view.type));
    add_shape(&text, &view.shape);
    ipu__text_add(&text, " {");
    ipu__pieces pieces = ipu__view_pieces(&t.graph->root->views, &view);
    bool        first  = true;
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece); first = false) {
        if (!first) ipu__text_add(&text, ", ");
        ipu__piece_text(&text, ipu__graph_variable(t.graph, piece.var)->name, &piece);
    }
    ipu__text_add(&text, "}");
    return cut(&text, out, size);
}
