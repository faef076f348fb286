/* The view algebra against a naive model, and every invalid argument.
 *
 * A model tensor is a shape, a type and a list of element numbers. Thousands of random compositions of the
 * functions of ipu/tensor.h are applied to both, with a comparison after each.
 */
#include "../../tests/support/tensor_model.h"

/* ---- random operations: each makes `out` from `e` on both sides, or returns false if not possible here
 * ---- */

typedef bool (*operation)(world *w, const entry *e, entry *out);

typedef struct
    box { /* for each dimension of the source: from = begin + step * at[which], where at[-1] is 0 */
    int     rank, which[IPU_MAX_RANK];
    int64_t begin[IPU_MAX_RANK], step[IPU_MAX_RANK], modulo[IPU_MAX_RANK], divide[IPU_MAX_RANK];
} box;

static box whole(const ipu_shape *s)
{
    box b = {.rank = s->rank};
    for (int d = 0; d < s->rank; d++) {
        b.which[d]  = d;
        b.step[d]   = 1;
        b.modulo[d] = INT64_MAX;
        b.divide[d] = 1;
    }
    return b;
}

static void box_place(const void *how, const int64_t *at, int64_t *from)
{
    const box *b = how;
    for (int d = 0; d < b->rank; d++) {
        int64_t i = b->which[d] < 0 ? 0 : at[b->which[d]];
        from[d]   = b->begin[d] + b->step[d] * (i / b->divide[d] % b->modulo[d]);
    }
}

static int any_dim(world *w, const entry *e)
{
    return e->model.shape.rank ? (int)random_in(&w->random, 0, e->model.shape.rank - 1) : -1;
}

static ipu_shape without_dim(const ipu_shape *s, int dim)
{
    ipu_shape out = {.rank = 0};
    for (int d = 0; d < s->rank; d++)
        if (d != dim) out.dim[out.rank++] = s->dim[d];
    return out;
}

static bool do_index(world *w, const entry *e, entry *out)
{
    const ipu_shape *s = &e->model.shape;
    if (s->rank == 0 || s->dim[0] == 0) return false;
    int64_t i = random_in(&w->random, 0, s->dim[0] - 1);
    trace(w, "index %lld", (long long)i);
    box b      = whole(s);
    b.begin[0] = i;
    for (int d = 0; d < s->rank; d++) b.which[d] = d - 1;
    out->tensor = ipu_tensor_index(e->tensor, i);
    out->model  = derive(&e->model, without_dim(s, 0), box_place, &b);
    return true;
}

static bool do_at(world *w, const entry *e, entry *out)
{
    if (e->model.n == 0) return false;
    int64_t at[IPU_MAX_RANK];
    int64_t i = random_in(&w->random, 0, e->model.n - 1);
    trace(w, "at %lld", (long long)i);
    shape_at(&e->model.shape, i, at);
    out->tensor = ipu_tensor_at(e->tensor, at, e->model.shape.rank);
    out->model  = (model){.type = e->model.type, .n = 1, .element = {e->model.element[i]}};
    return true;
}

static bool do_slice(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_shape s     = e->model.shape;
    int64_t   begin = random_in(&w->random, 0, s.dim[d]), end = random_in(&w->random, begin, s.dim[d]);
    box       b = whole(&s);
    b.begin[d]  = begin;
    s.dim[d]    = end - begin;
    trace(w, "slice %lld %lld dim %d", (long long)begin, (long long)end, d);
    out->tensor = ipu_tensor_slice(e->tensor, begin, end, d);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_slice_all(world *w, const entry *e, entry *out)
{
    ipu_shape s                 = e->model.shape;
    int64_t   end[IPU_MAX_RANK] = {0};
    box       b                 = whole(&s);
    for (int d = 0; d < s.rank; d++) {
        b.begin[d] = random_in(&w->random, 0, s.dim[d] / 2);
        end[d]     = random_in(&w->random, b.begin[d], s.dim[d]);
        s.dim[d]   = end[d] - b.begin[d];
    }
    trace(w, "slice_all");
    out->tensor = ipu_tensor_slice_all(e->tensor, b.begin, end);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_slices(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_interval intervals[4];
    ipu_tensor   tensors[4];
    size_t       n = (size_t)random_in(&w->random, 1, 4);
    for (size_t k = 0; k < n; k++) {
        intervals[k].begin = random_in(&w->random, 0, e->model.shape.dim[d]);
        intervals[k].end   = random_in(&w->random, intervals[k].begin, e->model.shape.dim[d]);
    }
    trace(w, "slices dim %d", d);
    ipu_tensor_slices(e->tensor, intervals, n, d, tensors);
    for (size_t k = 0; k < n; k++) {
        ipu_shape s = e->model.shape;
        box       b = whole(&s);
        b.begin[d]  = intervals[k].begin;
        s.dim[d]    = intervals[k].end - intervals[k].begin;
        *out        = (entry){tensors[k], derive(&e->model, s, box_place, &b)};
        if (k + 1 < n) check_entry(w, out);
    }
    return true;
}

static bool do_subsample(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_shape s      = e->model.shape;
    int64_t   stride = random_in(&w->random, 1, 5);
    box       b      = whole(&s);
    b.step[d]        = stride;
    s.dim[d]         = (s.dim[d] + stride - 1) / stride;
    trace(w, "subsample %lld dim %d", (long long)stride, d);
    out->tensor = ipu_tensor_subsample(e->tensor, stride, d);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_reverse(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    box b      = whole(&e->model.shape);
    b.step[d]  = -1;
    b.begin[d] = e->model.shape.dim[d] - 1;
    trace(w, "reverse dim %d", d);
    out->tensor = ipu_tensor_reverse(e->tensor, d);
    out->model  = derive(&e->model, e->model.shape, box_place, &b);
    return true;
}

/* A random shape of `n` elements with at most `max_rank` dimensions. */
static ipu_shape random_shape(world *w, int64_t n, int max_rank)
{
    ipu_shape s    = {.rank = 0};
    int       rank = (int)random_in(&w->random, n == 1 ? 0 : 1, max_rank);
    while (s.rank < rank) {
        int64_t factor = n;
        if (s.rank + 1 < rank) {
            factor = random_in(&w->random, 1, n > 8 ? 8 : n > 0 ? n : 3);
            if (n > 0)
                while (n % factor) factor--;
        }
        s.dim[s.rank++] = factor;
        if (n > 0) n /= factor;
    }
    for (int d = s.rank - 1; d > 0; d--) {
        int     k    = (int)random_in(&w->random, 0, d);
        int64_t keep = s.dim[d];
        s.dim[d]     = s.dim[k];
        s.dim[k]     = keep;
    }
    return s;
}

static void reshaped(const entry *e, ipu_shape shape, ipu_tensor t, entry *out)
{
    *out             = (entry){t, e->model};
    out->model.shape = shape;
}

static bool do_reshape(world *w, const entry *e, entry *out)
{
    ipu_shape s = random_shape(w, e->model.n, IPU_MAX_RANK), asked = s;
    bool      guess = s.rank && e->model.n && random_chance(&w->random, 40);
    if (guess) asked.dim[random_in(&w->random, 0, s.rank - 1)] = -1;
    trace(w, "reshape to rank %d", s.rank);
    reshaped(e, s, ipu_tensor_reshape(e->tensor, asked), out);
    return true;
}

static bool do_flatten(world *w, const entry *e, entry *out)
{
    trace(w, "flatten");
    reshaped(e, IPU_SHAPE(e->model.n), ipu_tensor_flatten(e->tensor), out);
    return true;
}

static ipu_shape replace_dims(const ipu_shape *s, int begin, int end, const ipu_shape *by)
{
    ipu_shape out = {.rank = 0};
    for (int d = 0; d < begin; d++) out.dim[out.rank++] = s->dim[d];
    for (int d = 0; d < by->rank; d++) out.dim[out.rank++] = by->dim[d];
    for (int d = end; d < s->rank; d++) out.dim[out.rank++] = s->dim[d];
    return out;
}

static int64_t range_count(const ipu_shape *s, int begin, int end)
{
    int64_t n = 1;
    for (int d = begin; d < end; d++) n *= s->dim[d];
    return n;
}

static bool do_flatten_dims(world *w, const entry *e, entry *out)
{
    const ipu_shape *s     = &e->model.shape;
    int              begin = any_dim(w, e);
    if (begin < 0) return false;
    int       end = (int)random_in(&w->random, begin + 1, s->rank);
    ipu_shape by  = IPU_SHAPE(range_count(s, begin, end));
    trace(w, "flatten_dims %d %d", begin, end);
    reshaped(e, replace_dims(s, begin, end, &by), ipu_tensor_flatten_dims(e->tensor, begin, end), out);
    return true;
}

static bool do_reshape_partial(world *w, const entry *e, entry *out)
{
    const ipu_shape *s     = &e->model.shape;
    int              begin = any_dim(w, e);
    if (begin < 0) return false;
    int       end = (int)random_in(&w->random, begin + 1, s->rank);
    ipu_shape by  = random_shape(w, range_count(s, begin, end), IPU_MAX_RANK - s->rank + end - begin);
    trace(w, "reshape_partial %d %d to rank %d", begin, end, by.rank);
    reshaped(e, replace_dims(s, begin, end, &by), ipu_tensor_reshape_partial(e->tensor, begin, end, by), out);
    return true;
}

static bool do_expand(world *w, const entry *e, entry *out)
{
    const ipu_shape *s = &e->model.shape;
    ipu_shape        t = {.rank = 0};
    int              dims[IPU_MAX_RANK + 1], n = 0;
    for (int d = 0; d <= s->rank; d++) {
        if (s->rank + n < IPU_MAX_RANK && random_chance(&w->random, 30)) {
            dims[n++]       = d;
            t.dim[t.rank++] = 1;
        }
        if (d < s->rank) t.dim[t.rank++] = s->dim[d];
    }
    trace(w, "expand %d", n);
    reshaped(e, t, ipu_tensor_expand(e->tensor, dims, n), out);
    return true;
}

static bool do_squeeze(world *w, const entry *e, entry *out)
{
    const ipu_shape *s = &e->model.shape;
    ipu_shape        t = {.rank = 0};
    int              dims[IPU_MAX_RANK], n = 0;
    for (int d = 0; d < s->rank; d++) {
        if (s->dim[d] == 1 && random_chance(&w->random, 60))
            dims[n++] = d;
        else
            t.dim[t.rank++] = s->dim[d];
    }
    random_shuffle(&w->random, dims, n);
    trace(w, "squeeze %d", n);
    reshaped(e, t, ipu_tensor_squeeze(e->tensor, dims, n), out);
    return true;
}

static ipu_shape permuted(const ipu_shape *s, const int *perm, box *b)
{
    ipu_shape t = {.rank = s->rank};
    *b          = whole(s);
    for (int d = 0; d < s->rank; d++) {
        t.dim[d]          = s->dim[perm[d]];
        b->which[perm[d]] = d;
    }
    return t;
}

static bool do_permute(world *w, const entry *e, entry *out)
{
    int perm[IPU_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, rank = e->model.shape.rank;
    box b;
    random_shuffle(&w->random, perm, rank);
    trace(w, "permute");
    ipu_shape s = permuted(&e->model.shape, perm, &b);
    out->tensor = ipu_tensor_permute(e->tensor, perm, rank);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_permute_partial(world *w, const entry *e, entry *out)
{
    int from[IPU_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7}, to[IPU_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    int rank = e->model.shape.rank, n = (int)random_in(&w->random, 0, rank), perm[IPU_MAX_RANK];
    box b;
    random_shuffle(&w->random, from, rank);
    random_shuffle(&w->random, to, rank);
    memset(perm, -1, sizeof perm);
    for (int i = 0; i < n; i++) perm[to[i]] = from[i];
    for (int d = 0, place = 0; d < rank; d++) {
        bool moved = false;
        for (int i = 0; i < n; i++) moved = moved || from[i] == d;
        while (!moved && perm[place] >= 0) place++;
        if (!moved) perm[place] = d;
    }
    trace(w, "permute_partial %d", n);
    ipu_shape s = permuted(&e->model.shape, perm, &b);
    out->tensor = ipu_tensor_permute_partial(e->tensor, from, to, n);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_roll(world *w, const entry *e, entry *out)
{
    int from = any_dim(w, e), to = any_dim(w, e), perm[IPU_MAX_RANK], n = 0;
    if (from < 0) return false;
    box b;
    for (int d = 0; d < e->model.shape.rank; d++)
        if (d != from) perm[n++] = d;
    memmove(perm + to + 1, perm + to, sizeof(int) * (size_t)(n - to));
    perm[to] = from;
    trace(w, "roll %d %d", from, to);
    ipu_shape s = permuted(&e->model.shape, perm, &b);
    out->tensor = ipu_tensor_roll(e->tensor, from, to);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_transpose(world *w, const entry *e, entry *out)
{
    int perm[IPU_MAX_RANK], rank = e->model.shape.rank;
    box b;
    for (int d = 0; d < rank; d++) perm[d] = rank - 1 - d;
    trace(w, "transpose");
    ipu_shape s = permuted(&e->model.shape, perm, &b);
    out->tensor = ipu_tensor_transpose(e->tensor);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_broadcast(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_shape s = e->model.shape;
    int64_t   n = random_in(&w->random, 0, 4);
    box       b = whole(&s);
    b.modulo[d] = s.dim[d] ? s.dim[d] : 1;
    s.dim[d] *= n;
    if (shape_count(&s) > MAX_ELEMENTS) return false;
    trace(w, "broadcast %lld dim %d", (long long)n, d);
    out->tensor = ipu_tensor_broadcast(e->tensor, n, d);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

static bool do_upsample(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_shape s     = e->model.shape;
    int64_t   scale = random_in(&w->random, 1, 4);
    box       b     = whole(&s);
    b.divide[d]     = scale;
    s.dim[d] *= scale;
    if (shape_count(&s) > MAX_ELEMENTS) return false;
    trace(w, "upsample %lld dim %d", (long long)scale, d);
    out->tensor = ipu_tensor_upsample(e->tensor, scale, d);
    out->model  = derive(&e->model, s, box_place, &b);
    return true;
}

/* Some neighbouring elements of any tensor of the pool, in this shape and type. Returns false if none has
 * enough. */
static bool part_of_pool(world *w, ipu_type type, const ipu_shape *s, entry *out)
{
    int64_t n = shape_count(s);
    for (int tries = 0; tries < 4; tries++) {
        const entry *e = &w->pool[random_in(&w->random, 0, POOL - 1)];
        if (e->model.n < n || ipu_type_size(e->model.type) != ipu_type_size(type)) continue;
        int64_t    at = random_in(&w->random, 0, e->model.n - n);
        ipu_tensor t  = ipu_tensor_slice(ipu_tensor_flatten(e->tensor), at, at + n, 0);
        out->tensor   = ipu_tensor_reinterpret(ipu_tensor_reshape(t, *s), type);
        out->model    = (model){.type = type, .shape = *s, .n = (int)n};
        memcpy(out->model.element, e->model.element + at, sizeof(int) * (size_t)n);
        return true;
    }
    return false;
}

/* What ipu_tensor_concat of two does; the result replaces `a`. Returns false if too large. */
static bool model_join(model *a, const model *b, int dim)
{
    model out = {.type = a->type, .shape = a->shape, .n = a->n + b->n};
    if (out.n > MAX_ELEMENTS) return false;
    out.shape.dim[dim] += b->shape.dim[dim];
    for (int i = 0; i < out.n; i++) {
        int64_t at[IPU_MAX_RANK];
        shape_at(&out.shape, i, at);
        const model *from = at[dim] < a->shape.dim[dim] ? a : b;
        if (from == b) at[dim] -= a->shape.dim[dim];
        out.element[i] = from->element[shape_index(&from->shape, at)];
    }
    *a = out;
    return true;
}

static bool do_concat(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e), n = (int)random_in(&w->random, 1, 5);
    if (d < 0) return false;
    ipu_tensor tensors[5] = {e->tensor};
    model      joined     = e->model;
    for (int k = 1; k < n; k++) {
        entry     part;
        ipu_shape s = e->model.shape;
        s.dim[d]    = random_in(&w->random, 0, 5);
        if (!part_of_pool(w, e->model.type, &s, &part)) part = *e;
        if (!model_join(&joined, &part.model, d)) return false;
        tensors[k] = part.tensor;
    }
    trace(w, "concat %d dim %d", n, d);
    ipu_tensor t = n == 2 ? ipu_tensor_concat2(tensors[0], tensors[1], d)
                          : ipu_tensor_concat(tensors, (size_t)n, d);
    *out         = (entry){t, joined};
    return true;
}

static bool do_append(world *w, const entry *e, entry *out)
{
    int d = any_dim(w, e);
    if (d < 0) return false;
    ipu_shape s = without_dim(&e->model.shape, d), one = e->model.shape;
    model     joined = e->model;
    entry     part;
    one.dim[d] = 1;
    if (!part_of_pool(w, e->model.type, &s, &part)) return false;
    ipu_tensor t     = part.tensor;
    part.model.shape = one;
    if (!model_join(&joined, &part.model, d)) return false;
    trace(w, "append dim %d", d);
    *out = (entry){ipu_tensor_append(e->tensor, t, d), joined};
    return true;
}

static bool do_reinterpret(world *w, const entry *e, entry *out)
{
    ipu_type type = (ipu_type)random_in(&w->random, 0, IPU_N_TYPES - 1);
    if (ipu_type_size(type) != ipu_type_size(e->model.type)) return false;
    trace(w, "reinterpret as %s", ipu_type_name(type));
    *out            = (entry){ipu_tensor_reinterpret(e->tensor, type), e->model};
    out->model.type = type;
    return true;
}

static const operation operations[] = {
    do_index,           do_at,      do_slice,  do_slice_all,       do_slices,       do_subsample, do_reverse,
    do_reshape,         do_flatten, do_expand, do_squeeze,         do_flatten_dims, do_permute,   do_permute,
    do_permute_partial, do_roll,    do_slice,  do_reshape_partial, do_transpose,    do_broadcast, do_upsample,
    do_concat,          do_concat,  do_append, do_reverse,         do_reinterpret,  do_reshape,
};

/* ---- the world of one trial ---- */

static void add_variable(world *w, ipu_type type, ipu_shape shape, bool constant)
{
    variable *v = &w->variables[w->n_variables++];
    char      name[16];
    snprintf(name, sizeof name, "v%d", w->n_variables);
    *v = (variable){.base = w->n_numbers, .constant = constant, .n = shape_count(&shape)};
    for (size_t i = 0; i < sizeof v->data; i++) v->data[i] = (uint8_t)random_bits(&w->random);
    ipu_tensor t = constant ? ipu_graph_add_constant(w->graph, type, shape, v->data, name)
                            : ipu_graph_add_variable(w->graph, type, shape, name);
    v->flat      = ipu_tensor_flatten(t);
    if (v->n == huge_elements) {
        v->offset = huge_at;
        v->n      = HUGE_WINDOW;
        shape     = IPU_SHAPE(HUGE_WINDOW);
        t         = ipu_tensor_slice(t, huge_at, huge_at + HUGE_WINDOW, 0);
    }
    entry *e = &w->pool[w->n_variables - 1];
    *e       = (entry){t, {.type = type, .shape = shape, .n = (int)v->n}};
    for (int i = 0; i < v->n; i++) e->model.element[i] = v->base + i;
    w->n_numbers += (int)v->n + 1;
    check_entry(w, e);
}

static void add_replication_index(world *w)
{
    variable *v = &w->variables[w->n_variables];
    entry    *e = &w->pool[w->n_variables++];
    *v          = (variable){.base = w->n_numbers, .constant = true, .n = 1};
    *e          = (entry){ipu_graph_add_replication_index(w->graph, "replica"),
                          {.type = IPU_UINT32, .shape = IPU_SCALAR, .n = 1, .element = {v->base}}};
    v->flat     = ipu_tensor_flatten(e->tensor);
    w->n_numbers += 2;
    check_entry(w, e);
}

static void world_init(world *w, uint64_t seed)
{
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    *w = (world){.seed = seed, .random = {seed}};
    assert_int_equal(ipu_graph_create(&target, 1, &w->graph), IPU_OK);
    add_variable(w, IPU_FLOAT, IPU_SHAPE(4, 6, 5), false);
    add_variable(w, IPU_FLOAT, IPU_SHAPE(30), false);
    add_variable(w, IPU_FLOAT, IPU_SCALAR, false);
    add_variable(w, IPU_FLOAT, IPU_SHAPE(2, 0, 3), false);
    add_variable(w, IPU_FLOAT, IPU_SHAPE(5, 4), true);
    add_variable(w, IPU_HALF, IPU_SHAPE(8, 8), false);
    add_variable(w, IPU_HALF, IPU_SHAPE(2, 2, 2, 2, 2, 2, 2, 1), false);
    add_variable(w, IPU_INT32, IPU_SHAPE(7, 3), false);
    add_variable(w, IPU_BFLOAT16, IPU_SHAPE(16), true);
    add_variable(w, IPU_FLOAT, IPU_SHAPE(huge_elements), false);
    add_replication_index(w);
    for (int i = w->n_variables; i < POOL; i++) w->pool[i] = w->pool[i % w->n_variables];
}

static void one_step(world *w)
{
    static entry out;
    int          from = (int)random_in(&w->random, 0, POOL - 1), to = (int)random_in(&w->random, 0, POOL - 1);
    size_t       n  = sizeof operations / sizeof *operations;
    operation    op = operations[random_in(&w->random, 0, (int64_t)n - 1)];
    trace(w, "%d <- %d: ", to, from);
    if (op(w, &w->pool[from], &out)) {
        check_entry(w, &out);
        const entry *other = &w->pool[random_in(&w->random, 0, POOL - 1)];
        check_pair(w, &out, other);
        if (random_chance(&w->random, 20)) check_sorted_regions(w, &out, random_chance(&w->random, 50));
        if (random_chance(&w->random, 20) && other->model.n == out.model.n) check_reorder(w, &out, other);
        if (random_chance(&w->random, 10)) check_reorder(w, &out, &out);
        w->pool[to] = out;
    }
    trace(w, "\n");
}

static void random_compositions_agree_with_the_element_list(void **state)
{
    (void)state;
    static world w;
    uint64_t     seed = test_seed(1);
    for (int trial = 0, n = test_count(250); trial < n; trial++) {
        world_init(&w, seed + (uint64_t)trial);
        for (int step = 0; step < 120; step++) one_step(&w);
        ipu_graph_destroy(w.graph);
    }
}

/* ---- wrong arguments ---- */

static ipu_graph *new_graph(void)
{
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    return g;
}

static void check_refused(ipu_graph *g, ipu_tensor t, const char *says, int line)
{
    char where[300];
    snprintf(where, sizeof where, "%s:%d", __FILE__, line);
    if (ipu_tensor_valid(t) || t.id != 0) fail_msg("line %d: accepted", line);
    if (ipu_graph_status(g) != IPU_INVALID) fail_msg("line %d: status %d", line, ipu_graph_status(g));
    const char *message = ipu_graph_message(g);
    if (!strstr(message, where)) fail_msg("line %d: \"%s\" does not say where", line, message);
    if (!strstr(message, says)) fail_msg("line %d: \"%s\" does not say \"%s\"", line, message, says);
}

/* `call`, on fresh tensors x float[4,8], h half[4] and a scalar s, is refused with a message that contains
 * `says`. */
#define REFUSED(says, call)                                                             \
    do {                                                                                \
        ipu_graph *g = new_graph();                                                     \
        ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x");      \
        ipu_tensor h = ipu_graph_add_variable(g, IPU_HALF, IPU_SHAPE(4), "h");          \
        ipu_tensor s = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SCALAR, "s");           \
        assert_true(ipu_tensor_valid(x) && ipu_tensor_valid(h) && ipu_tensor_valid(s)); \
        check_refused(g, call, says, __LINE__);                                         \
        ipu_graph_destroy(g);                                                           \
    } while (0)

#define DIMS(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int))
#define PLACES(...) ((const int64_t[]){__VA_ARGS__})

static void wrong_selections_are_refused(void **state)
{
    (void)state;
    REFUSED("[4,8]", ipu_tensor_index(x, 4));
    REFUSED("[4,8]", ipu_tensor_index(x, -1));
    REFUSED("[]", ipu_tensor_index(s, 0));
    REFUSED("[4,8]", ipu_tensor_at(x, PLACES(0), 1));
    REFUSED("[4,8]", ipu_tensor_at(x, PLACES(0, 8), 2));
    REFUSED("[4,8]", ipu_tensor_at(x, PLACES(-1, 0), 2));
    REFUSED("[4,8]", ipu_tensor_slice(x, 0, 5, 0));
    REFUSED("[4,8]", ipu_tensor_slice(x, -1, 2, 0));
    REFUSED("[4,8]", ipu_tensor_slice(x, 3, 2, 0));
    REFUSED("[4,8]", ipu_tensor_slice(x, 0, 1, 2));
    REFUSED("[4,8]", ipu_tensor_slice(x, 0, 1, -1));
    REFUSED("[4,8]", ipu_tensor_slice(x, INT64_MIN, INT64_MAX, 1));
    REFUSED("[4,8]", ipu_tensor_slice_all(x, PLACES(0, 0), PLACES(4, 9)));
    REFUSED("[4,8]", ipu_tensor_slice_all(x, PLACES(2, 0), PLACES(1, 8)));
    REFUSED("[4,8]", ipu_tensor_subsample(x, 0, 0));
    REFUSED("[4,8]", ipu_tensor_subsample(x, -2, 0));
    REFUSED("[4,8]", ipu_tensor_subsample(x, 1, 2));
    REFUSED("[4,8]", ipu_tensor_reverse(x, 2));
    REFUSED("[4,8]", ipu_tensor_reverse(x, -1));
}

static void a_wrong_slice_of_several_is_null(void **state)
{
    (void)state;
    ipu_graph   *g       = new_graph();
    ipu_tensor   x       = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_interval wrong[] = {{0, 2}, {2, 5}};
    ipu_tensor   out[]   = {x, x};
    ipu_tensor_slices(x, wrong, 2, 0, out);
    check_refused(g, out[1], "[4,8]", __LINE__ - 1);
    ipu_graph_destroy(g);
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE(5, 7)));
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE(-1, -1)));
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE(-1, 7)));
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE(-1, 0)));
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE(-4, -8)));
    REFUSED("[4,8]", ipu_tensor_reshape(x, IPU_SHAPE((int64_t)1 << 32, (int64_t)1 << 32, 32)));
    REFUSED("", ipu_tensor_reshape(x, (ipu_shape){.rank = 9, .dim = {4, 8, 1, 1, 1, 1, 1, 1}}));
    REFUSED("", ipu_tensor_reshape(x, (ipu_shape){.rank = -1}));
    REFUSED("[4,8]", ipu_tensor_flatten_dims(x, 1, 3));
    REFUSED("[4,8]", ipu_tensor_flatten_dims(x, 2, 1));
    REFUSED("[4,8]", ipu_tensor_flatten_dims(x, -1, 1));
    REFUSED("[4,8]", ipu_tensor_reshape_partial(x, 0, 1, IPU_SHAPE(3)));
    REFUSED("[4,8]", ipu_tensor_reshape_partial(x, 0, 3, IPU_SHAPE(32)));
    REFUSED("[4,8]", ipu_tensor_reshape_partial(x, 0, 1, IPU_SHAPE(4, 1, 1, 1, 1, 1, 1, 1)));
    REFUSED("[4,8]", ipu_tensor_expand(x, DIMS(3)));
    REFUSED("[4,8]", ipu_tensor_expand(x, DIMS(-1)));
    REFUSED("[4,8]", ipu_tensor_expand(x, DIMS(1, 0)));
    REFUSED("[4,8]", ipu_tensor_squeeze(x, DIMS(0)));
    REFUSED("[4,8]", ipu_tensor_squeeze(x, DIMS(2)));
    REFUSED("half", ipu_tensor_reinterpret(x, IPU_HALF));
    REFUSED("float", ipu_tensor_reinterpret(x, IPU_DOUBLE));
    REFUSED("", ipu_tensor_reinterpret(x, IPU_N_TYPES));
}

static void wrong_orders_are_refused(void **state)
{
    (void)state;
    REFUSED("[4,8]", ipu_tensor_permute(x, DIMS(0)));
    REFUSED("[4,8]", ipu_tensor_permute(x, DIMS(0, 0)));
    REFUSED("[4,8]", ipu_tensor_permute(x, DIMS(0, 2)));
    REFUSED("[4,8]", ipu_tensor_permute(x, DIMS(0, 1, 2)));
    REFUSED("[4,8]", ipu_tensor_permute_partial(x, (int[]){0, 0}, (int[]){0, 1}, 2));
    REFUSED("[4,8]", ipu_tensor_permute_partial(x, (int[]){0, 1}, (int[]){1, 1}, 2));
    REFUSED("[4,8]", ipu_tensor_permute_partial(x, (int[]){0}, (int[]){2}, 1));
    REFUSED("[4,8]", ipu_tensor_permute_partial(x, (int[]){-1}, (int[]){0}, 1));
    REFUSED("[4,8]", ipu_tensor_roll(x, 2, 0));
    REFUSED("[4,8]", ipu_tensor_roll(x, 0, 2));
    REFUSED("[4,8]", ipu_tensor_roll(x, 0, -1));
}

static void wrong_joins_are_refused(void **state)
{
    (void)state;
    REFUSED("[4,8]", ipu_tensor_broadcast(x, -1, 0));
    REFUSED("[4,8]", ipu_tensor_broadcast(x, 2, 2));
    REFUSED("[4,8]", ipu_tensor_broadcast(x, INT64_MAX, 0));
    REFUSED("[4,8]", ipu_tensor_upsample(x, -1, 0));
    REFUSED("[4,8]", ipu_tensor_upsample(x, 2, 2));
    REFUSED("[4,8]", ipu_tensor_upsample(x, (int64_t)1 << 62, 1));
    REFUSED("half", ipu_tensor_concat2(x, h, 0));
    REFUSED("[4,8]", ipu_tensor_concat2(x, ipu_tensor_transpose(x), 0));
    REFUSED("[4,8]", ipu_tensor_concat2(x, ipu_tensor_flatten(x), 0));
    REFUSED("[4,8]", ipu_tensor_concat2(x, x, 2));
    REFUSED("[]", ipu_tensor_concat2(s, s, 0));
    REFUSED("[4,8]", ipu_tensor_append(x, x, 0));
    REFUSED("[4,8]", ipu_tensor_append(x, ipu_tensor_slice(ipu_tensor_flatten(x), 0, 8, 0), 1));
    REFUSED("[4,8]", ipu_tensor_append(x, h, 1));
    assert_false(ipu_tensor_valid(ipu_tensor_concat(NULL, 0, 0)));
}

static void empty_tensors_join_in_no_time_however_many_rows_they_have(void **state)
{
    (void)state;
    ipu_target target;
    ipu_graph *g;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    ipu_tensor rows = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE((int64_t)1 << 40, 0), "rows");
    ipu_tensor both = ipu_tensor_concat2(rows, rows, 1);
    assert_int_equal(ipu_tensor_shape(both).dim[0], (int64_t)1 << 40);
    assert_int_equal(ipu_tensor_n_elements(both), 0);
    ipu_graph_destroy(g);
}

static void tensors_of_two_graphs_do_not_mix(void **state)
{
    (void)state;
    ipu_graph *g = new_graph(), *other = new_graph();
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_tensor y = ipu_graph_add_variable(other, IPU_FLOAT, IPU_SHAPE(4, 8), "y");
    check_refused(g, ipu_tensor_concat2(x, y, 0), "graph", __LINE__);
    assert_false(ipu_tensor_equal(x, y));
    assert_false(ipu_tensor_intersects(x, y));
    ipu_graph_destroy(g);
    ipu_graph_destroy(other);
}

static void null_tensors_pass_through_and_the_first_error_stays(void **state)
{
    (void)state;
    ipu_graph    *g    = new_graph();
    ipu_tensor    x    = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_tensor    null = ipu_tensor_index(x, 7), zero = {0};
    ipu_region   *regions;
    ipu_interval *intervals;
    size_t        n;
    char          message[500];
    snprintf(message, sizeof message, "%s", ipu_graph_message(g));
    null = ipu_tensor_reverse(ipu_tensor_concat2(ipu_tensor_slice(null, 0, 1, 0), x, 9), 3);
    null = ipu_tensor_reshape(ipu_tensor_permute(null, (int[]){5}, 1), IPU_SHAPE(77));
    assert_false(ipu_tensor_valid(null));
    assert_false(ipu_tensor_valid(ipu_tensor_flatten(x)));
    assert_string_equal(ipu_graph_message(g), message);
    assert_false(ipu_tensor_valid(ipu_tensor_slice(zero, 0, 1, 0)));
    assert_int_equal(ipu_tensor_n_elements(zero), 0);
    assert_int_equal(ipu_tensor_rank(zero), 0);
    assert_int_equal(ipu_tensor_type(zero), IPU_FLOAT);
    assert_false(ipu_tensor_intersects(zero, x));
    assert_false(ipu_tensor_equal(zero, x));
    assert_false(ipu_tensor_contains_constant(zero));
    assert_int_equal(ipu_tensor_var_regions(zero, &regions, &n), IPU_INVALID);
    assert_int_equal(ipu_tensor_contiguous_regions(zero, &intervals, &n), IPU_INVALID);
    assert_int_equal(ipu_tensor_constant_value(zero, message, 0), IPU_INVALID);
    ipu_graph_destroy(g);
}

static void texts_name_shape_type_and_runs(void **state)
{
    (void)state;
    char       text[100];
    ipu_graph *g     = new_graph();
    ipu_tensor x     = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4, 8), "x");
    ipu_shape  shape = ipu_tensor_shape(x);
    assert_int_equal(ipu_shape_text(&shape, text, sizeof text), 5);
    assert_string_equal(text, "[4,8]");
    assert_int_equal(ipu_tensor_text(x, text, sizeof text), strlen("float[4,8] {x[0:32]}"));
    assert_string_equal(text, "float[4,8] {x[0:32]}");
    assert_int_equal(ipu_tensor_text(x, text, 8), strlen("float[4,8] {x[0:32]}"));
    assert_string_equal(text, "float[4");
    ipu_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_compositions_agree_with_the_element_list),
        cmocka_unit_test(wrong_selections_are_refused),
        cmocka_unit_test(a_wrong_slice_of_several_is_null),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(wrong_orders_are_refused),
        cmocka_unit_test(wrong_joins_are_refused),
        cmocka_unit_test(empty_tensors_join_in_no_time_however_many_rows_they_have),
        cmocka_unit_test(tensors_of_two_graphs_do_not_mix),
        cmocka_unit_test(null_tensors_pass_through_and_the_first_error_stays),
        cmocka_unit_test(texts_name_shape_type_and_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
