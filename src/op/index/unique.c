/* unique: different elements, or slices of an axis. Slices are compared by keys (key.h), in row-major
 * order. */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/select.h"
#include "ipu/op/shape.h"
#include "op/key.h"
#include "op/op.h"

enum { X, VALUES, INDICES, INVERSE, COUNTS, COUNT };

/* x as [outer, n, inner]; slice i is [outer, inner]. */
typedef struct slices {
    int64_t  outer, n, inner;
    ipu_type type;
    bool     sorted;
} slices;

static slices get_slices(const ipu__kernel_call *call)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    slices s = {1, ipu__op_n_elements(x), 1, call->operand[X].type, ipu__op_int(call, "sorted") != 0};
    if (!ipu__attribute_find(call, "axis") || ipu__op_axis(call, "axis", x->rank, &axis) != IPU_OK) return s;
    s.n = x->dim[axis];
    for (int d = 0; d < axis; d++) s.outer *= x->dim[d];
    for (int d = axis + 1; d < x->rank; d++) s.inner *= x->dim[d];
    return s;
}

/* Below 0, 0 or above: slice a comes before b, is equal, comes after. */
static int compare(const slices *s, const void *x, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            uint64_t p = ipu__key_of(s->type, x, (o * s->n + a) * s->inner + i);
            uint64_t q = ipu__key_of(s->type, x, (o * s->n + b) * s->inner + i);
            if (p != q) return p < q ? -1 : 1;
        }
    return 0;
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x    = &call->operand[X].shape;
    int              axis = 0;
    if (ipu__attribute_find(call, "axis")) IPU_TRY(ipu__op_axis(call, "axis", x->rank, &axis));
    slices s = get_slices(call);
    out[0]   = call->operand[X];
    if (!ipu__attribute_find(call, "axis")) out[0].shape = IPU_SHAPE(s.n);
    for (int i = 1; i < 4; i++) out[i] = (ipu__kernel_value){IPU_INT64, IPU_SHAPE(s.n)};
    out[4] = (ipu__kernel_value){IPU_INT64, IPU_SCALAR};
    return IPU_OK;
}

static void clear(const ipu__kernel_call *call, void *const *operand)
{
    for (int i = VALUES; i <= COUNT; i++)
        memset(operand[i], 0,
               (size_t)ipu__op_n_elements(&call->operand[i].shape) * ipu_type_size(call->operand[i].type));
}

/* Slice `index` becomes value number `place`. */
static void put_value(const slices *s, void *const *operand, int64_t place, int64_t index)
{
    size_t row = (size_t)s->inner * ipu_type_size(s->type);
    for (int64_t o = 0; o < s->outer; o++)
        memcpy((char *)operand[VALUES] + (size_t)(o * s->n + place) * row,
               (const char *)operand[X] + (size_t)(o * s->n + index) * row, row);
    ((int64_t *)operand[INDICES])[place] = index;
}

/* `inverse` first holds, for each slice, the first that is equal. */
static void unique_ref(const ipu__kernel_call *call, void *const *operand)
{
    slices         s       = get_slices(call);
    int64_t       *inverse = operand[INVERSE], *counts = operand[COUNTS], *count = operand[COUNT];
    const int64_t *indices = operand[INDICES];
    clear(call, operand);
    for (int64_t i = 0; i < s.n; i++)
        for (inverse[i] = 0; compare(&s, operand[X], inverse[i], i) != 0;) inverse[i]++;
    for (int64_t i = 0; i < s.n; i++) {
        int64_t place = 0, equal = 0;
        if (inverse[i] != i) continue;
        for (int64_t j = 0; j < s.n; j++) {
            equal += inverse[j] == i;
            place += inverse[j] == j && (s.sorted ? compare(&s, operand[X], j, i) < 0 : j < i);
        }
        put_value(&s, operand, place, i);
        counts[place] = equal;
        ++*count;
    }
    for (int64_t i = 0; i < s.n; i++) {
        int64_t place = 0;
        while (indices[place] != inverse[i]) place++;
        inverse[i] = place;
    }
}

static double ref_work(const ipu__kernel_call *call)
{
    return 3 * (double)get_slices(call).n * (double)ipu__op_n_elements(&call->operand[X].shape);
}

/* ---- by merging ---- */

/* `a`, with `b` to work in; where the result is. Equal ones stay in order. */
static int64_t *sort(const slices *s, const void *x, int64_t *a, int64_t *b)
{
    for (int64_t width = 1; width < s->n; width *= 2) {
        for (int64_t from = 0; from < s->n; from += 2 * width) {
            int64_t middle = from + width < s->n ? from + width : s->n;
            int64_t end    = from + 2 * width < s->n ? from + 2 * width : s->n;
            for (int64_t i = from, j = middle, k = from; k < end; k++) {
                bool left = i < middle && (j == end || compare(s, x, a[i], a[j]) <= 0);
                b[k]      = left ? a[i++] : a[j++];
            }
        }
        int64_t *t = a;
        a          = b;
        b          = t;
    }
    return a;
}

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return 2 * (size_t)get_slices(call).n * sizeof(int64_t);
}

/* One part does it all: slices are in order only when all have been seen. */
static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    (void)state, (void)n_parts;
    slices   s       = get_slices(call);
    int64_t *inverse = operand[INVERSE], *counts = operand[COUNTS], *a = scratch;
    int64_t  n = 0;
    if (part > 0) return IPU_OK;
    clear(call, operand);
    for (int64_t i = 0; i < s.n; i++) a[i] = i;
    int64_t *sorted = sort(&s, operand[X], a, a + s.n);
    int64_t *place  = sorted == a ? a + s.n : a;
    /* inverse: the first of the equal ones, which comes first among them */
    for (int64_t i = 0; i < s.n; i++) {
        bool is_first      = i == 0 || compare(&s, operand[X], sorted[i - 1], sorted[i]) != 0;
        inverse[sorted[i]] = is_first ? sorted[i] : inverse[sorted[i - 1]];
        if (is_first) place[sorted[i]] = n++;
    }
    *(int64_t *)operand[COUNT] = n;
    n                          = 0;
    for (int64_t i = 0; i < s.n; i++) {
        int64_t first = inverse[i];
        if (first == i && !s.sorted) place[i] = n++;
        if (first == i) put_value(&s, operand, place[i], i);
        inverse[i] = place[first]; /* first <= i: its place is known */
        counts[place[first]]++;
    }
    return IPU_OK;
}

/* Values are gathered by `indices`, of which `count` are in use. */
static void grad(ipu__gradient *g)
{
    ipu_builder     *b = g->b;
    const ipu_shape *x = &g->call->operand[X].shape, *y = &g->call->operand[VALUES].shape;
    ipu_shape        shape = {.rank = y->rank};
    int              axis  = 0;
    int64_t          n     = get_slices(g->call).n;
    if (!g->wanted[X] || !ipu__has(g->d_out[0])) return;
    if (ipu__attribute_find(g->call, "axis")) ipu__op_axis(g->call, "axis", x->rank, &axis);
    for (int d = 0; d < y->rank; d++) shape.dim[d] = d == axis ? n : 1;
    ipu_value used = ipu_less(b, ipu_arange(b, IPU_INT64, n, 0, 1), g->out[COUNT - VALUES]);
    ipu_value d = ipu_where(b, ipu_reshape(b, used, shape), g->d_out[0], ipu_scalar_like(b, g->d_out[0], 0));
    d           = ipu__emit1(b, "gather_grad",
                             IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("extent", n)),
                             IPU__IN(d, g->out[INDICES - VALUES]));
    g->d_in[X]  = ipu_reshape(b, d, *x);
}

/* ---- price and record ---- */

static double work(const ipu__kernel_call *call)
{
    double n = (double)get_slices(call).n, levels = n > 1 ? ceil(log2(n)) : 1;
    return 2 * levels * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    slices       s      = get_slices(call);
    int64_t      n      = ipu__op_n_elements(&call->operand[X].shape);
    double       levels = s.n > 1 ? ceil(log2((double)s.n)) + 1 : 1;
    ipu__op_loop loop   = {29, 1, 8 * levels};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 2, target, out));
    if (n > 0) {
        double bytes        = (double)n / (double)out->n_tiles * (double)(ipu_type_size(s.type) + 8) * levels;
        out->bytes_received = out->bytes_sent = ipu__op_count(bytes);
    }
    out->basis = "our estimate: a merge sort, 8 cycles per element and level, all elements exchanged at each";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"),        IPU__OUTPUT("values"),
                                               IPU__OUTPUT("indices"), IPU__OUTPUT("inverse"),
                                               IPU__OUTPUT("counts"),  IPU__OUTPUT("count")};

static const ipu_op_attribute attributes[] = {
    {.name      = "axis",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = IPU_MAX_RANK, /* none of an axis: 0 is not what leaving it out means */
     .meaning   = "of the slices; left out: elements, as a vector"},
    {.name      = "sorted",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 1,
     .meaning   = "0: in the order they are found"}};

static const ipu__cpu_impl implementations[] = {
    {.head = {"merge", ipu__op_fits_always}, .scratch_bytes = scratch_bytes, .run = run}};

static const char *const samples[] = {"int32[9]{0,3}",
                                      "int64[20]{-3,3}; sorted=0",
                                      "float[7]",
                                      "float[2,3,2]; axis=1 sorted=0",
                                      "int8[2,6,2]{0,1}; axis=1",
                                      "uint8[6,2]{0,1}; axis=0 sorted=0",
                                      "bool[3,3]; axis=-1",
                                      "int32[]",
                                      "float[0]",
                                      "float[3,0]; axis=0",
                                      "float[0,3]; axis=0",
                                      "int32[2,600]{0,99}",
                                      NULL};

const ipu__op_def ipu__op_unique = {
    .kernel       = {.name            = "unique",
                     .operands        = operands,
                     .n_operands      = 6,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = unique_ref,
                     .work            = work,
                     .ref_work        = ref_work,
                     .plan            = plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 1,
    .family       = "select",
    .summary      = "different elements or slices, where they are, how often, and how many",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = 2,
    .infer        = infer,
    .grad         = grad,
    .samples      = samples,
};

static ipu_uniques emit(ipu_builder *b, ipu_value x, const ipu_attribute *with, size_t n)
{
    ipu_value out[5];
    ipu_emit(b, "unique", with, n, &x, 1, out, 5);
    return (ipu_uniques){out[0], out[1], out[2], out[3], out[4]};
}

ipu_uniques ipu_unique(ipu_builder *b, ipu_value x, bool sorted)
{
    return emit(b, x, IPU__WITH(IPU_INT_ATTRIBUTE("sorted", sorted)));
}

ipu_uniques ipu_unique_slices(ipu_builder *b, ipu_value x, int axis, bool sorted)
{
    return emit(b, x, IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("sorted", sorted)));
}
