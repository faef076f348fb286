/* The view algebra behind tensors. Each operation on one tensor is an affine nest over its flat order
 * (graph/view.h); joining concatenates pieces. */
#include "ipu/tensor.h"

#include <string.h>

#include "graph/graph.h"

/* The view of `t`, unless the graph has failed or `t` is null. */
static bool begin(const char *function, ipu_tensor t, ipu__view *view)
{
    if (!t.graph) return false;
    if (t.graph->root->status != IPU_OK) return false;
    if (t.id == 0) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: the tensor is null", function);
        return false;
    }
    *view = ipu__view_get(&t.graph->root->views, t.id);
    return true;
}

static ipu_tensor null_of(ipu_tensor t) { return (ipu_tensor){t.graph, 0}; }

static ipu_tensor commit(ipu_graph *graph, ipu_type type, const ipu_shape *shape)
{
    ipu_graph *g  = graph->root;
    uint32_t   id = ipu__view_commit(&g->builder, &g->views, type, shape);
    if (id == 0 && g->builder.is_irregular)
        ipu__graph_fail(
            g, IPU_UNSUPPORTED,
            "this tensor's elements lie too irregularly for a view of them: copy what it is made of");
    else if (id == 0)
        ipu__graph_fail_memory(g);
    return (ipu_tensor){graph, id};
}

static ipu_tensor select_as(ipu_tensor t, const ipu__piece *nest, ipu_type type, const ipu_shape *shape)
{
    ipu_graph *g = t.graph->root;
    ipu__view_select(&g->builder, &g->views, &g->piece_index, t.id, nest);
    return commit(t.graph, type, shape);
}

/* All elements, with another shape or type. */
static ipu_tensor recast(ipu_tensor t, ipu_type type, const ipu_shape *shape)
{
    ipu_graph *g = t.graph->root;
    ipu__view_add_view(&g->builder, &g->views, t.id);
    return commit(t.graph, type, shape);
}

/* A nest without loops, not cleared: only the loops that are set count. */
static void start_nest(ipu__piece *nest, int64_t start)
{
    nest->var     = 0;
    nest->n_loops = 0;
    nest->start   = start;
}

static void add_loop(ipu__piece *nest, int64_t count, int64_t stride)
{
    nest->loop[nest->n_loops++] = (ipu__loop){count, stride};
}

static int64_t product(const ipu_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d];
    return n;
}

static bool check_dim(const char *function, ipu_tensor t, const ipu__view *view, int dim)
{
    if (dim >= 0 && dim < view->shape.rank) return true;
    ipu__graph_fail(t.graph, IPU_INVALID, "%s: dimension %d of a tensor of shape %s: expected 0 to %d",
                    function, dim, ipu__shape_str(&view->shape), view->shape.rank - 1);
    return false;
}

static bool check_shape(const char *function, ipu_tensor t, const ipu_shape *shape)
{
    int64_t n;
    if (shape->rank <= IPU_MAX_RANK && ipu__shape_count(shape, &n)) return true;
    if (shape->rank > IPU_MAX_RANK)
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: the result would have rank %d: the most is %d", function,
                        shape->rank, IPU_MAX_RANK);
    else
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: the result would have shape %s: too many elements",
                        function, ipu__shape_str(shape));
    return false;
}

/* ---- selecting ---- */

ipu_tensor ipu_tensor_index(ipu_tensor t, int64_t i)
{
    ipu__view view;
    if (!begin(__func__, t, &view) || !check_dim(__func__, t, &view, 0)) return null_of(t);
    if (i < 0 || i >= view.shape.dim[0]) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: index %lld of a tensor of shape %s: expected 0 to %lld",
                        __func__, (long long)i, ipu__shape_str(&view.shape),
                        (long long)view.shape.dim[0] - 1);
        return null_of(t);
    }
    ipu_shape shape = {view.shape.rank - 1, {0}};
    memcpy(shape.dim, view.shape.dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    int64_t    inner = product(&shape, 0, shape.rank);
    ipu__piece nest;
    start_nest(&nest, i * inner);
    add_loop(&nest, inner, 1);
    return select_as(t, &nest, view.type, &shape);
}

ipu_tensor ipu_tensor_at(ipu_tensor t, const int64_t *at, int n)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    if (n != view.shape.rank) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: %d indices for a tensor of shape %s: expected %d",
                        __func__, n, ipu__shape_str(&view.shape), view.shape.rank);
        return null_of(t);
    }
    ipu__piece nest;
    start_nest(&nest, 0);
    for (int d = 0; d < n; d++) {
        if (at[d] < 0 || at[d] >= view.shape.dim[d]) {
            ipu__graph_fail(t.graph, IPU_INVALID,
                            "%s: index %lld in dimension %d of shape %s: expected 0 to %lld", __func__,
                            (long long)at[d], d, ipu__shape_str(&view.shape),
                            (long long)view.shape.dim[d] - 1);
            return null_of(t);
        }
        nest.start = nest.start * view.shape.dim[d] + at[d];
    }
    return select_as(t, &nest, view.type, &IPU_SCALAR);
}

ipu_tensor ipu_tensor_slice(ipu_tensor t, int64_t from, int64_t to, int dim)
{
    ipu__view view;
    if (!begin(__func__, t, &view) || !check_dim(__func__, t, &view, dim)) return null_of(t);
    if (from < 0 || from > to || to > view.shape.dim[dim]) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: [%lld, %lld) of dimension %d of shape %s: expected 0 <= begin <= end <= %lld",
                        __func__, (long long)from, (long long)to, dim, ipu__shape_str(&view.shape),
                        (long long)view.shape.dim[dim]);
        return null_of(t);
    }
    ipu_shape  shape = view.shape;
    int64_t    inner = product(&shape, dim + 1, shape.rank);
    ipu__piece nest;
    start_nest(&nest, from * inner);
    add_loop(&nest, product(&shape, 0, dim), shape.dim[dim] * inner);
    add_loop(&nest, (to - from) * inner, 1);
    shape.dim[dim] = to - from;
    return select_as(t, &nest, view.type, &shape);
}

ipu_tensor ipu_tensor_slice_all(ipu_tensor t, const int64_t *from, const int64_t *to)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    ipu__piece nest;
    start_nest(&nest, 0);
    ipu_shape shape = view.shape;
    for (int d = 0; d < shape.rank; d++) {
        if (from[d] < 0 || from[d] > to[d] || to[d] > shape.dim[d]) {
            ipu__graph_fail(
                t.graph, IPU_INVALID,
                "%s: [%lld, %lld) of dimension %d of shape %s: expected 0 <= begin <= end <= %lld", __func__,
                (long long)from[d], (long long)to[d], d, ipu__shape_str(&view.shape),
                (long long)view.shape.dim[d]);
            return null_of(t);
        }
        int64_t inner = product(&view.shape, d + 1, shape.rank);
        nest.start += from[d] * inner;
        shape.dim[d] = to[d] - from[d];
        add_loop(&nest, shape.dim[d], inner);
    }
    return select_as(t, &nest, view.type, &shape);
}

void ipu_tensor_slices(ipu_tensor t, const ipu_interval *intervals, size_t n, int dim, ipu_tensor *out)
{
    for (size_t i = 0; i < n; i++) out[i] = ipu_tensor_slice(t, intervals[i].begin, intervals[i].end, dim);
}

ipu_tensor ipu_tensor_subsample(ipu_tensor t, int64_t stride, int dim)
{
    ipu__view view;
    if (!begin(__func__, t, &view) || !check_dim(__func__, t, &view, dim)) return null_of(t);
    if (stride < 1) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: stride %lld in dimension %d of shape %s: expected 1 or more", __func__,
                        (long long)stride, dim, ipu__shape_str(&view.shape));
        return null_of(t);
    }
    ipu_shape  shape = view.shape;
    int64_t    inner = product(&shape, dim + 1, shape.rank), size = shape.dim[dim];
    ipu__piece nest;
    start_nest(&nest, 0);
    shape.dim[dim] = size / stride + (size % stride != 0);
    add_loop(&nest, product(&shape, 0, dim), size * inner);
    add_loop(&nest, shape.dim[dim], shape.dim[dim] > 1 ? stride * inner : 0);
    add_loop(&nest, inner, 1);
    return select_as(t, &nest, view.type, &shape);
}

ipu_tensor ipu_tensor_reverse(ipu_tensor t, int dim)
{
    ipu__view view;
    if (!begin(__func__, t, &view) || !check_dim(__func__, t, &view, dim)) return null_of(t);
    int64_t    inner = product(&view.shape, dim + 1, view.shape.rank), size = view.shape.dim[dim];
    ipu__piece nest;
    start_nest(&nest, size > 0 ? (size - 1) * inner : 0);
    add_loop(&nest, product(&view.shape, 0, dim), size * inner);
    add_loop(&nest, size, -inner);
    add_loop(&nest, inner, 1);
    return select_as(t, &nest, view.type, &view.shape);
}

/* ---- shape ---- */

/* Infer a dimension of -1 so that the shape has `n` elements. */
static bool complete_shape(ipu_shape *shape, int64_t n)
{
    int     open  = -1;
    int64_t known = 1;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == -1 && open < 0) {
            open = d;
        } else {
            if (shape->dim[d] < 0 || (shape->dim[d] > 0 && known > INT64_MAX / shape->dim[d])) return false;
            known *= shape->dim[d];
        }
    }
    if (open < 0) return known == n;
    if (known == 0 || n % known != 0) return false;
    shape->dim[open] = n / known;
    return true;
}

ipu_tensor ipu_tensor_reshape(ipu_tensor t, ipu_shape shape)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    if (shape.rank < 0 || shape.rank > IPU_MAX_RANK) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: rank %d: expected 0 to %d", __func__, shape.rank,
                        IPU_MAX_RANK);
        return null_of(t);
    }
    ipu_shape wanted = shape;
    if (!complete_shape(&shape, view.n_elements)) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: %s does not have the %lld elements of %s", __func__,
                        ipu__shape_str(&wanted), (long long)view.n_elements, ipu__shape_str(&view.shape));
        return null_of(t);
    }
    return recast(t, view.type, &shape);
}

ipu_tensor ipu_tensor_flatten(ipu_tensor t)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    return recast(t, view.type, &IPU_SHAPE(view.n_elements));
}

ipu_tensor ipu_tensor_reshape_partial(ipu_tensor t, int from, int to, ipu_shape middle)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    if (from < 0 || from > to || to > view.shape.rank || middle.rank < 0
        || view.shape.rank - (to - from) + middle.rank > IPU_MAX_RANK) {
        ipu__graph_fail(
            t.graph, IPU_INVALID,
            "%s: dimensions [%d, %d) of shape %s replaced by %d: expected 0 <= begin <= end <= %d and at most %d in all",
            __func__, from, to, ipu__shape_str(&view.shape), middle.rank, view.shape.rank, IPU_MAX_RANK);
        return null_of(t);
    }
    ipu_shape wanted = middle, shape = {0};
    if (!complete_shape(&middle, product(&view.shape, from, to))) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: dimensions [%d, %d) of shape %s cannot become %s",
                        __func__, from, to, ipu__shape_str(&view.shape), ipu__shape_str(&wanted));
        return null_of(t);
    }
    for (int d = 0; d < from; d++) shape.dim[shape.rank++] = view.shape.dim[d];
    for (int d = 0; d < middle.rank; d++) shape.dim[shape.rank++] = middle.dim[d];
    for (int d = to; d < view.shape.rank; d++) shape.dim[shape.rank++] = view.shape.dim[d];
    return recast(t, view.type, &shape);
}

ipu_tensor ipu_tensor_flatten_dims(ipu_tensor t, int from, int to)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    if (from < 0 || from >= to || to > view.shape.rank) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: dimensions [%d, %d) of shape %s: expected 0 <= begin < end <= %d", __func__,
                        from, to, ipu__shape_str(&view.shape), view.shape.rank);
        return null_of(t);
    }
    return ipu_tensor_reshape_partial(t, from, to, IPU_SHAPE(product(&view.shape, from, to)));
}

ipu_tensor ipu_tensor_expand(ipu_tensor t, const int *dims, int n)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    ipu_shape shape = {0};
    int       next  = 0;
    if (n < 0 || view.shape.rank + n > IPU_MAX_RANK) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: %d dimensions more for shape %s: the most is %d in all",
                        __func__, n, ipu__shape_str(&view.shape), IPU_MAX_RANK);
        return null_of(t);
    }
    for (int d = 0; d <= view.shape.rank; d++) {
        for (; next < n && dims[next] == d; next++) shape.dim[shape.rank++] = 1;
        if (d < view.shape.rank) shape.dim[shape.rank++] = view.shape.dim[d];
    }
    if (next < n) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: dimension %d for shape %s: expected ascending numbers from 0 to %d", __func__,
                        dims[next], ipu__shape_str(&view.shape), view.shape.rank);
        return null_of(t);
    }
    return recast(t, view.type, &shape);
}

ipu_tensor ipu_tensor_squeeze(ipu_tensor t, const int *dims, int n)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    unsigned drop = 0;
    for (int i = 0; i < n; i++) {
        if (!check_dim(__func__, t, &view, dims[i])) return null_of(t);
        if (view.shape.dim[dims[i]] != 1) {
            ipu__graph_fail(t.graph, IPU_INVALID, "%s: dimension %d of shape %s is not 1", __func__, dims[i],
                            ipu__shape_str(&view.shape));
            return null_of(t);
        }
        drop |= 1u << dims[i];
    }
    ipu_shape shape = {0};
    for (int d = 0; d < view.shape.rank; d++)
        if (!(drop >> d & 1)) shape.dim[shape.rank++] = view.shape.dim[d];
    return recast(t, view.type, &shape);
}

/* ---- order ---- */

ipu_tensor ipu_tensor_permute(ipu_tensor t, const int *perm, int n)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    unsigned   seen  = 0;
    ipu_shape  shape = {view.shape.rank, {0}};
    ipu__piece nest;
    start_nest(&nest, 0);
    for (int d = 0; d < n && d < shape.rank; d++) {
        if (perm[d] < 0 || perm[d] >= shape.rank) break;
        seen |= 1u << perm[d];
        shape.dim[d] = view.shape.dim[perm[d]];
        add_loop(&nest, shape.dim[d], product(&view.shape, perm[d] + 1, shape.rank));
    }
    if (n != shape.rank || seen != (1u << n) - 1) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: not a permutation of the %d dimensions of shape %s",
                        __func__, view.shape.rank, ipu__shape_str(&view.shape));
        return null_of(t);
    }
    return select_as(t, &nest, view.type, &shape);
}

ipu_tensor ipu_tensor_permute_partial(ipu_tensor t, const int *from, const int *to, int n)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    int      perm[IPU_MAX_RANK], rank = view.shape.rank, next = 0;
    unsigned taken = 0, placed = 0;
    bool     ok = n >= 0 && n <= rank;
    for (int i = 0; ok && i < n; i++) {
        ok = from[i] >= 0 && from[i] < rank && to[i] >= 0 && to[i] < rank && !(taken >> from[i] & 1)
          && !(placed >> to[i] & 1);
        if (!ok) break;
        taken |= 1u << from[i];
        placed |= 1u << to[i];
        perm[to[i]] = from[i];
    }
    if (!ok) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: from and to must name different dimensions, 0 to %d, of shape %s", __func__,
                        rank - 1, ipu__shape_str(&view.shape));
        return null_of(t);
    }
    for (int d = 0; d < rank; d++) {
        if (placed >> d & 1) continue;
        while (taken >> next & 1) next++;
        perm[d] = next++;
    }
    return ipu_tensor_permute(t, perm, rank);
}

ipu_tensor ipu_tensor_roll(ipu_tensor t, int from, int to)
{
    ipu__view view;
    if (!begin(__func__, t, &view) || !check_dim(__func__, t, &view, from)
        || !check_dim(__func__, t, &view, to))
        return null_of(t);
    return ipu_tensor_permute_partial(t, &from, &to, 1);
}

ipu_tensor ipu_tensor_transpose(ipu_tensor t)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    int perm[IPU_MAX_RANK];
    for (int d = 0; d < view.shape.rank; d++) perm[d] = view.shape.rank - 1 - d;
    return ipu_tensor_permute(t, perm, view.shape.rank);
}

/* ---- repeating and joining ---- */

/* `blocks` per outer iteration, each repeated `n` times. */
static ipu_tensor repeat(const char *function, ipu_tensor t, int64_t n, int dim, bool each_element)
{
    ipu__view view;
    if (!begin(function, t, &view) || !check_dim(function, t, &view, dim)) return null_of(t);
    ipu_shape shape = view.shape;
    int64_t   size = shape.dim[dim], inner = product(&shape, dim + 1, shape.rank);
    if (n < 0 || (size > 0 && n > INT64_MAX / size)) {
        ipu__graph_fail(t.graph, IPU_INVALID,
                        "%s: dimension %d of shape %s %lld times: expected 0 or more, and not too many",
                        function, dim, ipu__shape_str(&view.shape), (long long)n);
        return null_of(t);
    }
    shape.dim[dim] = size * n;
    if (!check_shape(function, t, &shape)) return null_of(t);
    int64_t    block = each_element ? inner : size * inner;
    ipu__piece nest;
    start_nest(&nest, 0);
    add_loop(&nest, product(&shape, 0, dim) * (each_element ? size : 1), block);
    add_loop(&nest, n, 0);
    add_loop(&nest, block, 1);
    return select_as(t, &nest, view.type, &shape);
}

ipu_tensor ipu_tensor_broadcast(ipu_tensor t, int64_t n, int dim)
{
    return repeat(__func__, t, n, dim, false);
}

ipu_tensor ipu_tensor_upsample(ipu_tensor t, int64_t scale, int dim)
{
    return repeat(__func__, t, scale, dim, true);
}

static bool check_concat(const ipu_tensor *tensors, size_t n, int dim, ipu_shape *shape, ipu_type *type)
{
    ipu__view first, view;
    if (!begin("ipu_tensor_concat", tensors[0], &first)
        || !check_dim("ipu_tensor_concat", tensors[0], &first, dim))
        return false;
    *shape = first.shape;
    *type  = first.type;
    for (size_t i = 1; i < n; i++) {
        if (!tensors[i].graph || tensors[i].graph->root != tensors[0].graph->root) {
            ipu__graph_fail(tensors[0].graph, IPU_INVALID,
                            "ipu_tensor_concat: tensor %zu belongs to another graph", i);
            return false;
        }
        if (!begin("ipu_tensor_concat", tensors[i], &view)) return false;
        bool same = view.type == first.type && view.shape.rank == first.shape.rank;
        for (int d = 0; same && d < first.shape.rank; d++)
            same = d == dim || view.shape.dim[d] == first.shape.dim[d];
        if (!same) {
            ipu__graph_fail(
                tensors[0].graph, IPU_INVALID,
                "ipu_tensor_concat: tensor %zu is %s%s, the first is %s%s: they may differ in dimension %d only",
                i, ipu_type_name(view.type), ipu__shape_str(&view.shape), ipu_type_name(first.type),
                ipu__shape_str(&first.shape), dim);
            return false;
        }
        shape->dim[dim] += view.shape.dim[dim];
    }
    return check_shape("ipu_tensor_concat", tensors[0], shape);
}

typedef struct part {
    ipu_tensor       t;
    int64_t          block; /* elements per iteration */
    ipu__piece_index index;
} part;

/* The tensors that have elements. */
static size_t find_parts(ipu_graph *g, const ipu_tensor *tensors, size_t n, int dim, part *parts)
{
    size_t n_parts = 0;
    for (size_t i = 0; i < n; i++) {
        ipu__view view  = ipu__view_get(&g->views, tensors[i].id);
        int64_t   block = product(&view.shape, dim, view.shape.rank);
        if (block > 0) parts[n_parts++] = (part){tensors[i], block, {0}};
    }
    return n_parts;
}

/* For each index of the dimensions before `dim`, a block of each tensor in turn. */
static bool interleave(ipu_graph *g, const ipu_tensor *tensors, size_t n, int dim, int64_t outer)
{
    part *parts = ipu__alloc(n * sizeof *parts);
    bool  ok    = parts != NULL;
    n           = ok ? find_parts(g, tensors, n, dim, parts) : 0;
    for (int64_t o = 0; ok && o < outer; o++)
        for (size_t i = 0; ok && i < n; i++) {
            ipu__piece nest;
            start_nest(&nest, o * parts[i].block);
            add_loop(&nest, parts[i].block, 1);
            ok = ipu__view_select(&g->builder, &g->views, &parts[i].index, parts[i].t.id, &nest);
        }
    for (size_t i = 0; i < n; i++) ipu__piece_index_fini(&parts[i].index);
    ipu__free(parts);
    return ok;
}

static bool is_empty(const ipu_shape *shape)
{
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] == 0) return true;
    return false;
}

ipu_tensor ipu_tensor_concat(const ipu_tensor *tensors, size_t n, int dim)
{
    if (n == 0) return (ipu_tensor){0};
    ipu_shape shape;
    ipu_type  type;
    if (!check_concat(tensors, n, dim, &shape, &type)) return null_of(tensors[0]);
    ipu_graph *g = tensors[0].graph->root;
    /* An empty tensor has no pieces, and possibly a huge number of iterations. */
    int64_t outer = is_empty(&shape) ? 0 : product(&shape, 0, dim);
    if (outer == 1) {
        for (size_t i = 0; i < n; i++) ipu__view_add_view(&g->builder, &g->views, tensors[i].id);
    } else if (!interleave(g, tensors, n, dim, outer)) {
        g->builder.failed = true;
    }
    return commit(tensors[0].graph, type, &shape);
}

ipu_tensor ipu_tensor_concat2(ipu_tensor a, ipu_tensor b, int dim)
{
    return ipu_tensor_concat((ipu_tensor[]){a, b}, 2, dim);
}

ipu_tensor ipu_tensor_append(ipu_tensor a, ipu_tensor b, int dim)
{
    return ipu_tensor_concat2(a, ipu_tensor_expand(b, &dim, 1), dim);
}

ipu_tensor ipu_tensor_reinterpret(ipu_tensor t, ipu_type type)
{
    ipu__view view;
    if (!begin(__func__, t, &view)) return null_of(t);
    if (type >= IPU_N_TYPES || ipu_type_size(type) != ipu_type_size(view.type)) {
        ipu__graph_fail(t.graph, IPU_INVALID, "%s: %s as %s: the sizes differ", __func__,
                        ipu_type_name(view.type), ipu_type_name(type));
        return null_of(t);
    }
    return recast(t, type, &view.shape);
}
