/* A naive model of tensors, lists of element numbers, and what must hold between it and the real ones.
 *
 * For property tests of the view algebra: a world is a graph with some variables and a pool of
 * tensors, each beside its model. A failed check prints the seed and what was done.
 */
#ifndef IPU_TESTS_TENSOR_MODEL_H
#define IPU_TESTS_TENSOR_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/graph.h"
#include "random.h"

enum { MAX_ELEMENTS = 480, POOL = 24, MAX_VARIABLES = 16, TRACE_BYTES = 16384, HUGE_WINDOW = 96 };

static const int64_t huge_elements = (int64_t)1 << 40, huge_at = ((int64_t)1 << 39) + 12345;

/* Elements of all variables are numbered through, with a gap between variables, so that neighbours in
 * memory are exactly neighbouring numbers. Of the huge variable only a window has numbers. */
typedef struct model {
    ipu_type  type;
    ipu_shape shape;
    int       n;
    int       element[MAX_ELEMENTS];
} model;

typedef struct entry {
    ipu_tensor tensor;
    model      model;
} entry;

typedef struct variable {
    ipu_tensor flat;
    int        base;
    int64_t    offset, n; /* numbers base .. base + n stand for elements offset .. offset + n */
    bool       constant;
    uint8_t    data[MAX_ELEMENTS * 4];
} variable;

typedef struct world {
    ipu_graph  *graph;
    test_random random;
    uint64_t    seed;
    variable    variables[MAX_VARIABLES];
    int         n_variables, n_numbers;
    entry       pool[POOL];
    char        trace[TRACE_BYTES];
    size_t      trace_bytes;
} world;

static void fail_here(const world *w, const char *what, int line)
{
    fail_msg("line %d: %s\nseed %llu (IPU_TEST_SEED=%llu IPU_TEST_COUNT=1)\n%s\n%s", line, what,
             (unsigned long long)w->seed, (unsigned long long)w->seed, w->trace, ipu_graph_message(w->graph));
}

#define CHECK(w, condition)                                   \
    do {                                                      \
        if (!(condition)) fail_here(w, #condition, __LINE__); \
    } while (0)

__attribute__((format(printf, 2, 3))) static void trace(world *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = TRACE_BYTES - w->trace_bytes;
    int    n    = vsnprintf(w->trace + w->trace_bytes, room, format, args);
    va_end(args);
    w->trace_bytes += (size_t)n < room ? (size_t)n : room - 1;
}

static int64_t shape_count(const ipu_shape *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->rank; d++) n *= s->dim[d];
    return n;
}

static bool shape_equal(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, sizeof(int64_t) * (size_t)a->rank) == 0;
}

/* Row-major number of the element at `at`. */
static int64_t shape_index(const ipu_shape *s, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < s->rank; d++) i = i * s->dim[d] + at[d];
    return i;
}

static void shape_at(const ipu_shape *s, int64_t i, int64_t *at)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        at[d] = i % s->dim[d];
        i /= s->dim[d];
    }
}

/* Every shape operation is: for each place of the result, which place of the source. */
typedef void (*place_fn)(const void *how, const int64_t *at, int64_t *from);

static model derive(const model *m, ipu_shape shape, place_fn place, const void *how)
{
    model out = {.type = m->type, .shape = shape, .n = (int)shape_count(&shape)};
    for (int i = 0; i < out.n; i++) {
        int64_t at[IPU_MAX_RANK] = {0}, from[IPU_MAX_RANK] = {0};
        shape_at(&shape, i, at);
        place(how, at, from);
        out.element[i] = m->element[shape_index(&m->shape, from)];
    }
    return out;
}

static bool model_has_aliases(const model *m)
{
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < i; j++)
            if (m->element[i] == m->element[j]) return true;
    return false;
}

static const variable *variable_of(const world *w, int number)
{
    int v = 0;
    while (v + 1 < w->n_variables && w->variables[v + 1].base <= number) v++;
    return &w->variables[v];
}

static bool model_has_constant(const world *w, const model *m)
{
    for (int i = 0; i < m->n; i++)
        if (variable_of(w, m->element[i])->constant) return true;
    return false;
}

static int model_n_runs(const model *m)
{
    int n = 0;
    for (int i = 0; i < m->n; i++) n += i == 0 || m->element[i] != m->element[i - 1] + 1;
    return n;
}

static int number_of(world *w, const ipu_region *region)
{
    for (int v = 0; v < w->n_variables; v++) {
        const variable *var = &w->variables[v];
        if (!ipu_tensor_equal(region->variable, var->flat)) continue;
        return var->base + (int)(region->begin - var->offset);
    }
    CHECK(w, !"a region of no variable");
    return -1;
}

/* ---- comparing ---- */

static void check_regions(world *w, const entry *e)
{
    ipu_region   *regions;
    ipu_interval *intervals;
    size_t        n_regions, n_intervals;
    CHECK(w, ipu_tensor_var_regions(e->tensor, &regions, &n_regions) == IPU_OK);
    CHECK(w, ipu_tensor_contiguous_regions(e->tensor, &intervals, &n_intervals) == IPU_OK);
    CHECK(w, (int)n_regions == model_n_runs(&e->model));
    CHECK(w, n_intervals == n_regions);
    int at = 0;
    for (size_t r = 0; r < n_regions; r++) {
        int     first = number_of(w, &regions[r]);
        int64_t n     = regions[r].end - regions[r].begin;
        CHECK(w, n > 0 && at + n <= e->model.n);
        CHECK(w, intervals[r].begin == at && intervals[r].end == at + n);
        for (int64_t i = 0; i < n; i++) CHECK(w, e->model.element[at + i] == first + i);
        at += (int)n;
    }
    CHECK(w, at == e->model.n);
    ipu_free(regions);
    ipu_free(intervals);
}

static void check_constant_value(world *w, const entry *e)
{
    size_t  size = ipu_type_size(e->model.type);
    uint8_t got[MAX_ELEMENTS * 4];
    bool    all_constant = true;
    for (int i = 0; i < e->model.n; i++) {
        const variable *v = variable_of(w, e->model.element[i]);
        /* The replication index has no data: it differs by replica. */
        all_constant = all_constant && v->constant && v->n > 1;
    }
    ipu_status status = ipu_tensor_constant_value(e->tensor, got, size * (size_t)e->model.n);
    CHECK(w, status == (all_constant ? IPU_OK : IPU_INVALID));
    for (int i = 0; all_constant && i < e->model.n; i++) {
        const variable *v     = variable_of(w, e->model.element[i]);
        const uint8_t  *value = v->data + size * (size_t)(e->model.element[i] - v->base);
        CHECK(w, memcmp(got + size * (size_t)i, value, size) == 0);
    }
    CHECK(w, ipu_tensor_constant_value(e->tensor, got, size * (size_t)e->model.n + size) == IPU_INVALID);
}

static void check_entry(world *w, const entry *e)
{
    const model *m     = &e->model;
    ipu_shape    shape = ipu_tensor_shape(e->tensor);
    CHECK(w, ipu_graph_status(w->graph) == IPU_OK);
    CHECK(w, ipu_tensor_valid(e->tensor));
    CHECK(w, ipu_tensor_type(e->tensor) == m->type);
    CHECK(w, shape_equal(&shape, &m->shape));
    CHECK(w, ipu_tensor_rank(e->tensor) == m->shape.rank);
    for (int d = 0; d < m->shape.rank; d++) CHECK(w, ipu_tensor_dim(e->tensor, d) == m->shape.dim[d]);
    CHECK(w, ipu_tensor_n_elements(e->tensor) == m->n);
    check_regions(w, e);
    CHECK(w, ipu_tensor_is_contiguous(e->tensor) == (model_n_runs(m) <= 1));
    bool aliases = model_has_aliases(m), constant = model_has_constant(w, m);
    CHECK(w, ipu_tensor_contains_aliases(e->tensor) == aliases);
    CHECK(w, ipu_tensor_contains_constant(e->tensor) == constant);
    CHECK(w, ipu_tensor_is_parallel_writeable(e->tensor) == (!aliases && !constant));
    check_constant_value(w, e);
}

static void check_pair(world *w, const entry *a, const entry *b)
{
    const model *m = &a->model, *o = &b->model;
    bool         intersect = false;
    for (int i = 0; i < m->n; i++)
        for (int j = 0; j < o->n; j++) intersect = intersect || m->element[i] == o->element[j];
    CHECK(w, ipu_tensor_intersects(a->tensor, b->tensor) == intersect);
    bool equal = m->type == o->type && shape_equal(&m->shape, &o->shape)
              && memcmp(m->element, o->element, sizeof(int) * (size_t)m->n) == 0;
    CHECK(w, ipu_tensor_equal(a->tensor, b->tensor) == equal);
    CHECK(w, ipu_tensor_equal(a->tensor, a->tensor));
}

/* ---- sorted regions and reordering ---- */

static size_t random_intervals(world *w, int n, ipu_interval *out)
{
    size_t  k  = 0;
    int64_t at = 0;
    while (at < n && k < 6) {
        int64_t begin = at + random_in(&w->random, 0, 3);
        int64_t end   = begin + random_in(&w->random, 0, n / 2 + 1);
        if (end > n) end = n;
        if (begin > end) break;
        out[k++] = (ipu_interval){begin, end};
        at       = end;
    }
    return k;
}

/* Which positions of the flat tensor may come back; the number that must: all, or one of each element. */
static int expected_positions(const model *m, const ipu_interval *in, size_t n, bool drop, bool *expected)
{
    int kept = 0;
    memset(expected, 0, sizeof(bool) * MAX_ELEMENTS);
    for (size_t k = 0; k < n; k++) {
        for (int64_t i = in[k].begin; i < in[k].end; i++) {
            bool seen = false;
            for (int64_t j = 0; drop && j < i && !seen; j++)
                seen = expected[j] && m->element[j] == m->element[i];
            expected[i] = true;
            kept += !seen;
        }
    }
    return kept;
}

static void check_sorted_regions(world *w, const entry *e, bool drop)
{
    const model *m    = &e->model;
    ipu_tensor   flat = ipu_tensor_flatten(e->tensor);
    ipu_interval in[8], *out;
    size_t       n = random_intervals(w, m->n, in), n_out, *run_end, n_runs;
    bool         expected[MAX_ELEMENTS];
    int          left = expected_positions(m, in, n, drop, expected);
    CHECK(w, ipu_tensor_sorted_regions(flat, in, n, drop, &out, &n_out, &run_end, &n_runs) == IPU_OK);
    CHECK(w, (n_out == 0) == (n_runs == 0) && (n_runs == 0 || run_end[n_runs - 1] == n_out));
    int previous_first = -1, previous_last = -9;
    for (size_t k = 0, run = 0; k < n_out; k++) {
        bool begins_run = k == (run == 0 ? 0 : run_end[run - 1]);
        CHECK(w, 0 <= out[k].begin && out[k].begin < out[k].end && out[k].end <= m->n);
        int first = m->element[out[k].begin];
        CHECK(w, drop ? first > previous_last : first >= previous_first);
        CHECK(w, (first == previous_last + 1) == !begins_run);
        for (int64_t i = out[k].begin; i < out[k].end; i++) {
            CHECK(w, expected[i]);
            CHECK(w, m->element[i] == first + (i - out[k].begin));
            expected[i] = false;
            left--;
        }
        previous_first = first;
        previous_last  = first + (int)(out[k].end - out[k].begin) - 1;
        if (k + 1 == run_end[run]) run++;
    }
    CHECK(w, left == 0);
    ipu_free(out);
    ipu_free(run_end);
}

static void elements_of(world *w, ipu_tensor t, int *out)
{
    ipu_region *regions;
    size_t      n;
    CHECK(w, ipu_tensor_var_regions(t, &regions, &n) == IPU_OK);
    for (size_t r = 0; r < n; r++) {
        int first = number_of(w, &regions[r]);
        for (int64_t i = 0; i < regions[r].end - regions[r].begin; i++) *out++ = first + (int)i;
    }
    ipu_free(regions);
}

static int fewest_runs(const world *w, const model *m)
{
    bool present[MAX_VARIABLES * (MAX_ELEMENTS + 1)] = {0};
    int  n                                           = 0;
    for (int i = 0; i < m->n; i++) present[m->element[i]] = true;
    for (int k = 0; k < w->n_numbers; k++) n += present[k] && (k == 0 || !present[k - 1]);
    return n;
}

/* `a` and `b` are of one length: reordering both must keep the pairs they make. */
static void check_reorder(world *w, const entry *a, const entry *b)
{
    int         n  = a->model.n, ea[MAX_ELEMENTS], eb[MAX_ELEMENTS];
    ipu_tensor  ta = ipu_tensor_flatten(a->tensor), tb = ipu_tensor_flatten(b->tensor);
    ipu_tensor *others[]           = {&tb};
    bool        used[MAX_ELEMENTS] = {0};
    ipu_tensor_reorder_to_simplify(&ta, others, 1);
    CHECK(w, ipu_graph_status(w->graph) == IPU_OK);
    CHECK(w, ipu_tensor_n_elements(ta) == n && ipu_tensor_n_elements(tb) == n);
    CHECK(w, ipu_tensor_rank(ta) == 1 && ipu_tensor_rank(tb) == 1);
    elements_of(w, ta, ea);
    elements_of(w, tb, eb);
    for (int i = 0; i < n; i++) {
        int j = 0;
        while (j < n && (used[j] || a->model.element[j] != ea[i] || b->model.element[j] != eb[i])) j++;
        CHECK(w, j < n);
        used[j] = true;
    }
    model after = {.n = n};
    memcpy(after.element, ea, sizeof(int) * (size_t)n);
    CHECK(w, model_n_runs(&after) <= model_n_runs(&a->model));
    if (!model_has_aliases(&a->model)) CHECK(w, model_n_runs(&after) == fewest_runs(w, &a->model));
}

#endif
