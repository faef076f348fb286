/* sort and topk: elements along an axis in order, and where they were.
 *
 * Every type has a key, a whole number in the same order (NaN above all, -0 equal to 0); keys are sorted by
 * radix, which is stable. Few of many are kept in a short sorted list instead.
 */
#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "ipu/op/sort.h"
#include "op/key.h"
#include "op/op.h"
#include "op/replicas.h"

enum { X, VALUES, INDICES };

/* ---- lanes ---- */

typedef struct lanes {
    int64_t  outer, n, inner, k;
    ipu_type type;
    uint64_t flip; /* all ones: the largest first */
} lanes;

static bool is_descending(const ipu__kernel_call *call)
{
    bool is_topk = call->def == &ipu__op_topk.kernel;
    return ipu__op_int(call, is_topk ? "largest" : "descending") != 0;
}

static lanes get_lanes(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", x->rank, &axis); /* infer has seen it */
    lanes l = {1, x->dim[axis], 1, call->operand[VALUES].shape.dim[axis], call->operand[X].type, 0};
    for (int d = 0; d < axis; d++) l.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) l.inner *= x->dim[d];
    if (is_descending(call)) l.flip = UINT64_MAX >> (64 - 8 * ipu__key_bytes(l.type));
    return l;
}

static void put(const lanes *l, void *const *operand, int64_t lane, int64_t place, int64_t index)
{
    size_t  unit = ipu_type_size(l->type);
    int64_t o = lane / l->inner, i = lane % l->inner, to = (o * l->k + place) * l->inner + i;
    memcpy((char *)operand[VALUES] + (size_t)to * unit,
           (const char *)operand[X] + (size_t)((o * l->n + index) * l->inner + i) * unit, unit);
    ((int32_t *)operand[INDICES])[to] = (int32_t)index;
}

static uint64_t lane_key(const lanes *l, const void *x, int64_t lane, int64_t index)
{
    int64_t at = (lane / l->inner * l->n + index) * l->inner + lane % l->inner;
    return ipu__key_of(l->type, x, at) ^ l->flip;
}

/* ---- the meaning: a heap of the k first, whose top is the last of them ---- */

typedef struct heap {
    const lanes *l;
    const void  *x;
    int32_t     *index; /* of element 0 of the heap in INDICES; the next is `inner` further */
    int64_t      lane, n;
} heap;

static int32_t *slot(const heap *h, int64_t place) { return h->index + place * h->l->inner; }

/* Of equal elements the one that was there first comes first. */
static bool is_before(const heap *h, int64_t a, int64_t b)
{
    uint64_t x = lane_key(h->l, h->x, h->lane, a), y = lane_key(h->l, h->x, h->lane, b);
    return x < y || (x == y && a < b);
}

static void swap(const heap *h, int64_t a, int64_t b)
{
    int32_t t   = *slot(h, a);
    *slot(h, a) = *slot(h, b);
    *slot(h, b) = t;
}

static void sift_up(const heap *h, int64_t at)
{
    for (; at > 0 && is_before(h, *slot(h, (at - 1) / 2), *slot(h, at)); at = (at - 1) / 2)
        swap(h, at, (at - 1) / 2);
}

static void sift_down(const heap *h)
{
    for (int64_t at = 0, child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && is_before(h, *slot(h, child), *slot(h, child + 1))) child++;
        if (!is_before(h, *slot(h, at), *slot(h, child))) return;
        swap(h, at, child);
    }
}

static void sort_lane(heap *h, void *const *operand)
{
    int64_t k = h->l->k;
    for (int32_t i = 0; i < h->l->n; i++) {
        if (h->n < k) {
            *slot(h, h->n++) = i;
            sift_up(h, h->n - 1);
        } else if (is_before(h, i, *slot(h, 0))) {
            *slot(h, 0) = i;
            sift_down(h);
        }
    }
    while (h->n > 1) { /* the last of those left goes to their end */
        swap(h, 0, --h->n);
        sift_down(h);
    }
    for (int64_t place = 0; place < k; place++) put(h->l, operand, h->lane, place, *slot(h, place));
}

static void sort_ref(const ipu__kernel_call *call, void *const *operand)
{
    lanes l = get_lanes(call);
    for (int64_t lane = 0; lane < l.outer * l.inner && l.k > 0; lane++) {
        int64_t first = lane / l.inner * l.k * l.inner + lane % l.inner;
        heap    h     = {&l, operand[X], (int32_t *)operand[INDICES] + first, lane, 0};
        sort_lane(&h, operand);
    }
}

/* ---- by radix ---- */

typedef struct entry {
    uint64_t key;
    int64_t  index;
} entry;

/* `a`, with `b` to work in; where the result is. */
static entry *sort_entries(entry *a, entry *b, int64_t n, int bytes)
{
    for (int byte = 0; byte < bytes; byte++) {
        int64_t count[256] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) count[a[i].key >> (8 * byte) & 255]++;
        if (count[a[0].key >> (8 * byte) & 255] == n) continue; /* all alike */
        for (int v = 0; v < 256; v++) {
            int64_t c = count[v];
            count[v]  = sum;
            sum += c;
        }
        for (int64_t i = 0; i < n; i++) b[count[a[i].key >> (8 * byte) & 255]++] = a[i];
        entry *t = a;
        a        = b;
        b        = t;
    }
    return a;
}

/* Sorted as it grows, equal ones in the order they came; at most k are kept. */
static int64_t insert(entry *list, int64_t n, int64_t k, entry e)
{
    if (n == k && e.key >= list[n - 1].key) return n;
    int64_t i = n < k ? n : k - 1;
    for (; i > 0 && list[i - 1].key > e.key; i--) list[i] = list[i - 1];
    list[i] = e;
    return n < k ? n + 1 : n;
}

/* A short list costs its length per insertion, radix some passes over all. */
static bool is_short(const lanes *l) { return l->k <= 32; }

static size_t sort_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    lanes  l = get_lanes(call);
    double n = is_short(&l) ? (double)l.k : 2 * (double)l.n;
    return n < 0x1p43 ? (size_t)n * sizeof(entry) : SIZE_MAX;
}

static ipu_status sort_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state;
    lanes        l    = get_lanes(call);
    ipu_interval mine = ipu__op_part(l.outer * l.inner, 1, part, n_parts);
    entry       *a = scratch, *sorted = a;
    for (int64_t lane = mine.begin; lane < mine.end && l.k > 0; lane++) {
        int64_t n = 0;
        for (int64_t i = 0; i < l.n; i++) {
            entry e = {lane_key(&l, operand[X], lane, i), i};
            if (is_short(&l))
                n = insert(a, n, l.k, e);
            else
                a[n++] = e;
        }
        if (!is_short(&l)) sorted = sort_entries(a, a + l.n, l.n, ipu__key_bytes(l.type));
        for (int64_t place = 0; place < l.k; place++) put(&l, operand, lane, place, sorted[place].index);
    }
    return IPU_OK;
}

/* ---- records ---- */

static ipu_status check_extent(const ipu__kernel_call *call, int *axis)
{
    const ipu_shape *x = &call->operand[X].shape;
    IPU_TRY(ipu__op_axis(call, "axis", x->rank, axis));
    if (x->dim[*axis] <= INT32_MAX) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: dimension %d of %s: expected fewer than 2^31 elements",
                     call->def->name, *axis, ipu__shape_str(x));
}

static ipu_status sort_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int axis;
    IPU_TRY(check_extent(call, &axis));
    out[0] = call->operand[X];
    out[1] = (ipu__kernel_value){IPU_INT32, out[0].shape};
    return IPU_OK;
}

static ipu_status topk_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int     axis;
    int64_t k = ipu__op_int(call, "k");
    IPU_TRY(check_extent(call, &axis));
    out[0] = call->operand[X];
    if (k < 0 || k > out[0].shape.dim[axis])
        return ipu__fail(IPU_INVALID, "topk: k = %lld: expected 0 to %lld, dimension %d of %s", (long long)k,
                         (long long)out[0].shape.dim[axis], axis, ipu__shape_str(&out[0].shape));
    out[0].shape.dim[axis] = k;
    out[1]                 = (ipu__kernel_value){IPU_INT32, out[0].shape};
    return IPU_OK;
}

static void sort_grad(ipu__gradient *g)
{
    const ipu__kernel_value *x = &g->call->operand[X];
    if (!ipu__has(g->d_out[0])) return;
    ipu_value zeros = ipu_expand(g->b, ipu_constant_value(g->b, x->type, IPU_SCALAR, 0), x->shape);
    g->d_in[X] = ipu_scatter_elements(g->b, zeros, g->out[1], g->d_out[0], (int)ipu__op_int(g->call, "axis"),
                                      IPU_SCATTER_SET);
}

static double sort_work(const ipu__kernel_call *call)
{
    return 8 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static double sort_ref_work(const ipu__kernel_call *call)
{
    return sort_work(call) * log2((double)get_lanes(call).k + 2);
}

static ipu_status sort_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    lanes        l      = get_lanes(call);
    int64_t      n      = ipu__op_n_elements(&call->operand[X].shape);
    double       levels = l.k > 1 ? ceil(log2((double)l.k)) + 1 : 1;
    ipu__op_loop loop   = {29, 1, 8 * levels};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 2, target, out));
    if (n > 0) {
        double bytes        = (double)n / (double)out->n_tiles * (double)(ipu_type_size(l.type) + 4) * levels;
        out->bytes_received = out->bytes_sent = ipu__op_count(bytes);
    }
    out->basis = "our estimate: a merge sort, 8 cycles per element and level, all elements exchanged at each";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("values"),
                                               IPU__OUTPUT("indices")};

static const ipu__cpu_impl impls[] = {
    {.head = {"radix", ipu__op_fits_always}, .scratch_bytes = sort_scratch, .run = sort_run}};

#define KERNEL(op)                                                                                        \
    {                                                                                                     \
        .name = #op, .operands = operands, .n_operands = 3, .check = ipu__op_check, .rows = ipu__op_rows, \
        .ref = sort_ref, .work = sort_work, .ref_work = sort_ref_work, .plan = sort_plan,                 \
        .implementations = IPU__ON_CPU(impls)                                                             \
    }

static const ipu_op_attribute sort_attributes[] = {
    {.name      = "axis",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -1,
     .meaning   = "dimension to sort; left out: the last"},
    {.name = "descending", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: the largest first"},
};

static const char *const sort_samples[] = {"float[3,7]",
                                           "float[5,3,2]; axis=0 descending=1",
                                           "float[2,40,3]; axis=1",
                                           "int32[3,50]; descending=1",
                                           "int64[2,40]{-3,3}",
                                           "float[0,4]",
                                           "float[4,0]",
                                           "float[33,401]; axis=0",
                                           NULL};

const ipu__op_def ipu__op_sort = {
    .kernel       = KERNEL(sort),
    .n_in         = 1,
    .family       = "sort",
    .summary      = "elements along an axis in order, and where they were",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = sort_attributes,
    .n_attributes = 2,
    .infer        = sort_infer,
    .grad         = sort_grad,
    .fold         = ipu__fold_along_axis,
    .samples      = sort_samples,
};

static const ipu_op_attribute topk_attributes[] = {
    {.name      = "axis",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = -1,
     .meaning   = "dimension to look along; left out: the last"},
    {.name = "k", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "how many"},
    {.name = "largest", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "0: the smallest"},
};

static const char *const topk_samples[] = {"float[3,7]; k=2",     "float[5,3,2]; axis=0 k=3 largest=0",
                                           "float[2,60]; k=45",   "int32[3,50]; k=1",
                                           "float[3,4]; k=0",     "float[0,4]; k=2",
                                           "float[30,1000]; k=5", NULL};

const ipu__op_def ipu__op_topk = {
    .kernel       = KERNEL(topk),
    .n_in         = 1,
    .family       = "sort",
    .summary      = "the k largest or smallest elements along an axis, and where they were",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = topk_attributes,
    .n_attributes = 3,
    .infer        = topk_infer,
    .grad         = sort_grad,
    .fold         = ipu__fold_along_axis,
    .samples      = topk_samples,
};

/* ---- functions ---- */

ipu_value ipu_sort(ipu_builder *b, ipu_value x, int axis, bool descending, ipu_value *indices)
{
    ipu_value out[2];
    ipu_emit(b, "sort",
             IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("descending", descending)), &x, 1,
             out, 2);
    if (indices) *indices = out[1];
    return out[0];
}

ipu_value ipu_argsort(ipu_builder *b, ipu_value x, int axis, bool descending)
{
    ipu_value indices;
    ipu_sort(b, x, axis, descending, &indices);
    return indices;
}

ipu_value ipu_topk(ipu_builder *b, ipu_value x, int64_t k, int axis, bool largest, ipu_value *indices)
{
    ipu_value out[2];
    ipu_emit(b, "topk",
             IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("k", k),
                       IPU_INT_ATTRIBUTE("largest", largest)),
             &x, 1, out, 2);
    if (indices) *indices = out[1];
    return out[0];
}
