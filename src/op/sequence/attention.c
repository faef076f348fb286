/* Attention: records, checks, meaning and price. */
#include "op/sequence/attention.h"

#include <math.h>

#include "graph/graph.h"
#include "op/number.h"
#include "op/region.h"

enum { Q = IPU__ATTENTION_Q, K, V, MASK, OUT, LSE };
enum { G_D_OUT, G_Q, G_K, G_V, G_MASK, G_OUT, G_LSE, G_D_LSE, G_D_Q, G_D_K, G_D_V };

static bool is_grad(const ipu__kernel_call *call) { return call->def == &ipu__op_attention_grad.kernel; }

/* ---- what a call is ---- */

/* Dimensions counted from the last, of which a mask may have fewer. */
static void set_mask(ipu__attention *a, const ipu_shape *q, const ipu_shape *mask)
{
    int64_t stride = 1, strides[IPU_MAX_RANK] = {0};
    for (int d = 1; d <= mask->rank; d++) {
        int64_t extent = mask->dim[mask->rank - d];
        strides[d - 1] = extent == 1 ? 0 : stride;
        stride *= extent;
    }
    a->mask_key   = strides[0];
    a->mask_query = strides[1];
    for (int d = 0; d < q->rank - 2; d++) a->mask_leading[d] = strides[q->rank - 1 - d];
}

ipu__attention ipu__attention_get(const ipu__kernel_call *call)
{
    int              first = is_grad(call) ? G_Q : Q, mask = first + MASK - Q;
    const ipu_shape *q = &call->operand[first].shape, *k = &call->operand[first + 1].shape;
    const ipu_shape *v    = &call->operand[first + 2].shape;
    int              rank = q->rank;
    ipu__attention   a    = {.groups    = 1,
                             .queries   = q->dim[rank - 2],
                             .keys      = k->dim[rank - 2],
                             .depth     = q->dim[rank - 1],
                             .width     = v->dim[rank - 1],
                             .scale     = ipu__op_float(call, "scale"),
                             .causal    = ipu__op_int(call, "causal") != 0,
                             .type      = call->operand[first].type,
                             .mask      = ipu__kernel_has(call, mask) ? mask : -1,
                             .n_leading = rank - 2};
    for (int d = 0; d < rank - 2; d++) {
        a.leading[d] = q->dim[d];
        a.groups *= q->dim[d];
    }
    if (a.mask >= 0) set_mask(&a, q, &call->operand[mask].shape);
    if (a.scale == 0) a.scale = a.depth > 0 ? 1 / sqrt((double)a.depth) : 1;
    return a;
}

int64_t ipu__attention_mask_at(const ipu__attention *a, int64_t group, int64_t query)
{
    int64_t at = query * a->mask_query;
    for (int d = a->n_leading - 1; d >= 0; d--) {
        at += group % a->leading[d] * a->mask_leading[d];
        group /= a->leading[d];
    }
    return at;
}

/* ---- check ---- */

static ipu_status check_mask(const ipu__kernel_call *call, int q, int64_t keys)
{
    int mask = q + MASK - Q;
    if (!ipu__kernel_has(call, mask)) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, q, mask));
    ipu_shape        scores     = call->operand[q].shape;
    const ipu_shape *found      = &call->operand[mask].shape;
    scores.dim[scores.rank - 1] = keys;
    bool ok                     = found->rank <= scores.rank;
    for (int d = 1; ok && d <= found->rank; d++) {
        int64_t extent = found->dim[found->rank - d];
        ok             = extent == 1 || extent == scores.dim[scores.rank - d];
    }
    if (ok) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"mask\" must broadcast to %s (queries x keys), found %s%s",
                     call->def->name, ipu__shape_str(&scores), ipu_type_name(call->operand[mask].type),
                     ipu__shape_str(found));
}

/* q, k and v, which are operands q, q + 1 and q + 2; what comes out has the shape *out. */
static ipu_status check_inputs(const ipu__kernel_call *call, int q, ipu_shape *out)
{
    int64_t causal = ipu__op_int(call, "causal");
    if (causal != 0 && causal != 1)
        return ipu__fail(IPU_INVALID, "%s: causal must be 0 or 1, found %lld", call->def->name,
                         (long long)causal);
    IPU_TRY(ipu__op_want_floating(call, q));
    IPU_TRY(ipu__op_want_rank(call, q, 2, IPU_MAX_RANK));
    int rank = call->operand[q].shape.rank;
    for (int i = q + 1; i <= q + 2; i++) {
        IPU_TRY(ipu__op_want_same_type(call, q, i));
        IPU_TRY(ipu__op_want_rank(call, i, rank, rank));
    }
    ipu_shape want     = call->operand[q].shape;
    *out               = want;
    int64_t keys       = call->operand[q + 1].shape.dim[rank - 2];
    want.dim[rank - 2] = keys;
    IPU_TRY(ipu__op_want_shape(call, q + 1, &want));
    want.dim[rank - 1] = out->dim[rank - 1] = call->operand[q + 2].shape.dim[rank - 1];
    IPU_TRY(ipu__op_want_shape(call, q + 2, &want));
    ipu_shape rows = *out;
    rows.rank--;
    if (keys == 0 && ipu__op_n_elements(&rows) > 0)
        return ipu__fail(IPU_INVALID, "%s: \"k\" has no rows: there is nothing to attend to",
                         call->def->name);
    return check_mask(call, q, keys);
}

static ipu_status attention_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_shape shape;
    IPU_TRY(check_inputs(call, Q, &shape));
    ipu_type type = call->operand[Q].type;
    out[0]        = (ipu__kernel_value){type, shape};
    shape.rank--;
    out[1] = (ipu__kernel_value){type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT, shape};
    return IPU_OK;
}

static ipu_status grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu_shape shape;
    IPU_TRY(check_inputs(call, G_Q, &shape));
    IPU_TRY(ipu__op_want_same_type(call, G_Q, G_D_OUT));
    IPU_TRY(ipu__op_want_same_type(call, G_Q, G_OUT));
    IPU_TRY(ipu__op_want_shape(call, G_D_OUT, &shape));
    IPU_TRY(ipu__op_want_shape(call, G_OUT, &shape));
    ipu_type type = call->operand[G_Q].type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
    shape.rank--;
    for (int i = G_LSE; i <= G_D_LSE; i++) {
        if (i == G_D_LSE && !ipu__kernel_has(call, i)) continue;
        IPU_TRY(ipu__op_want_type(call, i, type));
        IPU_TRY(ipu__op_want_shape(call, i, &shape));
    }
    for (int i = 0; i < 3; i++) out[i] = call->operand[G_Q + i];
    return IPU_OK;
}

/* ---- the meaning ---- */

typedef struct use {
    ipu__attention a;
    void *const   *operand;
} use;

static double load(const use *u, int operand, int64_t i)
{
    return ipu__number_load(u->a.type, u->operand[operand], i);
}

static int64_t n_seen(const use *u, int64_t query)
{
    return u->a.causal && query + 1 < u->a.keys ? query + 1 : u->a.keys;
}

/* q is operand `q`, k the next. */
static double score(const use *u, int q, int64_t group, int64_t query, int64_t key)
{
    const ipu__attention *a = &u->a;
    int64_t row = (group * a->queries + query) * a->depth, column = (group * a->keys + key) * a->depth;
    double  sum = 0;
    for (int64_t d = 0; d < a->depth; d++) sum += load(u, q, row + d) * load(u, q + 1, column + d);
    double more = a->mask < 0 ? 0
                              : load(u, a->mask, ipu__attention_mask_at(a, group, query) + key * a->mask_key);
    return a->scale * sum + more;
}

static ipu_type lse_type(const use *u) { return u->a.type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT; }

static void row_ref(const use *u, int64_t group, int64_t query)
{
    const ipu__attention *a   = &u->a;
    int64_t               row = group * a->queries + query, seen = n_seen(u, query);
    double                most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < seen; k++) most = fmax(most, score(u, Q, group, query, k));
    for (int64_t k = 0; k < seen; k++) sum += exp(score(u, Q, group, query, k) - most);
    ipu__number_store(lse_type(u), u->operand[LSE], row, sum == 0 ? -INFINITY : most + log(sum));
    for (int64_t d = 0; d < a->width; d++) {
        double out = 0;
        for (int64_t k = 0; k < seen; k++)
            out += exp(score(u, Q, group, query, k) - most) / sum
                 * load(u, V, (group * a->keys + k) * a->width + d);
        ipu__number_store(a->type, u->operand[OUT], row * a->width + d, out);
    }
}

void ipu__attention_ref(const ipu__kernel_call *call, void *const *operand)
{
    use u = {ipu__attention_get(call), operand};
    for (int64_t group = 0; group < u.a.groups; group++)
        for (int64_t query = 0; query < u.a.queries; query++) row_ref(&u, group, query);
}

/* The probability of a key, and the gradient of its score. */
typedef struct slope {
    double p, d_score;
} slope;

static slope slope_of(const use *u, bool has_d_lse, int64_t group, int64_t query, int64_t key)
{
    const ipu__attention *a   = &u->a;
    int64_t               row = group * a->queries + query, value = (group * a->keys + key) * a->width;
    double                lse = ipu__number_load(lse_type(u), u->operand[G_LSE], row), d_p = 0, minus = 0;
    double                p = exp(score(u, G_Q, group, query, key) - lse);
    for (int64_t d = 0; d < a->width; d++) {
        double d_out = load(u, G_D_OUT, row * a->width + d);
        d_p += d_out * load(u, G_V, value + d);
        minus += d_out * load(u, G_OUT, row * a->width + d);
    }
    if (has_d_lse) minus -= ipu__number_load(lse_type(u), u->operand[G_D_LSE], row);
    return (slope){p, p * (d_p - minus)};
}

/* Each element of each gradient as the sum it is: slow, and nothing is kept. */
static void grad_ref_queries(const use *u, bool has_d_lse, int64_t group)
{
    const ipu__attention *a = &u->a;
    for (int64_t query = 0; query < a->queries; query++)
        for (int64_t d = 0; d < a->depth; d++) {
            double sum = 0;
            for (int64_t k = 0; k < n_seen(u, query); k++)
                sum += a->scale * slope_of(u, has_d_lse, group, query, k).d_score
                     * load(u, G_K, (group * a->keys + k) * a->depth + d);
            ipu__number_store(a->type, u->operand[G_D_Q], (group * a->queries + query) * a->depth + d, sum);
        }
}

static void grad_ref_keys(const use *u, bool has_d_lse, int64_t group)
{
    const ipu__attention *a    = &u->a;
    int64_t               most = a->depth > a->width ? a->depth : a->width;
    for (int64_t key = 0; key < a->keys; key++)
        for (int64_t d = 0; d < most; d++) {
            double d_k = 0, d_v = 0;
            for (int64_t query = a->causal ? key : 0; query < a->queries; query++) {
                slope   s   = slope_of(u, has_d_lse, group, query, key);
                int64_t row = group * a->queries + query;
                if (d < a->depth) d_k += a->scale * s.d_score * load(u, G_Q, row * a->depth + d);
                if (d < a->width) d_v += s.p * load(u, G_D_OUT, row * a->width + d);
            }
            int64_t to = group * a->keys + key;
            if (d < a->depth) ipu__number_store(a->type, u->operand[G_D_K], to * a->depth + d, d_k);
            if (d < a->width) ipu__number_store(a->type, u->operand[G_D_V], to * a->width + d, d_v);
        }
}

void ipu__attention_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    use  u         = {ipu__attention_get(call), operand};
    bool has_d_lse = ipu__kernel_has(call, G_D_LSE);
    for (int64_t group = 0; group < u.a.groups; group++) {
        grad_ref_queries(&u, has_d_lse, group);
        grad_ref_keys(&u, has_d_lse, group);
    }
}

/* ---- work and price ---- */

static double n_products(const ipu__kernel_call *call, const ipu__attention *a)
{
    double scores = (double)a->groups * (double)a->queries * (double)a->keys;
    double each   = is_grad(call) ? 3.0 * (double)a->depth + 2.0 * (double)a->width
                                  : (double)a->depth + (double)a->width;
    return scores * each;
}

static double attention_work(const ipu__kernel_call *call)
{
    ipu__attention a = ipu__attention_get(call);
    return 2 * n_products(call, &a) + 20.0 * (double)a.groups * (double)a.queries * (double)a.keys;
}

/* Rows of queries are dealt to tiles; each is sent the keys and values of its group. */
static ipu_status attention_plan(const ipu__kernel_call *call, const ipu_target *target,
                                 ipu__kernel_plan *out)
{
    ipu__attention a = ipu__attention_get(call);
    *out             = (ipu__kernel_plan){0};
    out->basis =
        "our estimate: rows of queries over tiles, products at the AMP unit's rate, PopLibs' exponential per "
        "score; keys and values sent to all tiles of a group";
    if (a.groups == 0 || a.queries == 0) return IPU_OK;
    bool   is_half = a.type == IPU_HALF;
    double units, inputs, launch, workers = (double)ipu_target_n_workers(target);
    IPU_TRY(ipu__op_constant(target, is_half ? "amp_units_half_float" : "amp_units_float_float", &units));
    IPU_TRY(ipu__op_constant(target, is_half ? "amp_inputs_half" : "amp_inputs_float", &inputs));
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch));
    double rows = (double)a.groups * (double)a.queries, n_tiles = fmin((double)target->tiles_per_ipu, rows);
    double per_tile = ceil(rows / n_tiles), element = (double)ipu_type_size(a.type);
    /* 4 cycles of half, 8 of float for `inputs` products of each unit (facts: the 1x1 vertex). */
    double amp = launch + ceil(n_products(call, &a) / rows * per_tile / (units * inputs)) * (is_half ? 4 : 8);
    ipu__op_loop loop   = {33, 2, is_grad(call) ? 24 : 15};
    double       exps   = ipu__op_loop_cycles(&loop, per_tile * (double)a.keys, launch, workers);
    double       needs  = (double)a.keys * (double)(a.depth + a.width);
    double       groups = ceil(per_tile / (double)a.queries);
    out->n_tiles        = ipu__op_count(n_tiles);
    out->cycles         = ipu__op_count(amp + exps);
    out->bytes_received = ipu__op_count(groups * needs * element);
    out->bytes_sent     = ipu__op_count((double)a.groups * needs / n_tiles * element);
    out->tile_bytes     = ipu__op_count(groups * needs * element + 4 * per_tile * (double)a.keys);
    return IPU_OK;
}

/* ---- records ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("q"),       IPU__INPUT("k"),    IPU__INPUT("v"),
                                               IPU__OPTIONAL("mask"), IPU__OUTPUT("out"), IPU__OUTPUT("lse")};
static const ipu__kernel_operand grad_operands[] = {
    IPU__INPUT("d_out"),   IPU__INPUT("q"),    IPU__INPUT("k"),   IPU__INPUT("v"),
    IPU__OPTIONAL("mask"), IPU__INPUT("out"),  IPU__INPUT("lse"), IPU__OPTIONAL("d_lse"),
    IPU__OUTPUT("d_q"),    IPU__OUTPUT("d_k"), IPU__OUTPUT("d_v")};

static const ipu_op_attribute attributes[] = {
    {.name    = "scale",
     .kind    = IPU_ATTRIBUTE_FLOAT,
     .meaning = "of products of q and k; 0: 1 / sqrt(their length)"},
    {.name = "causal", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: query i sees keys 0 to i"},
};

static const char *const samples[] = {
    "float[2,3,4], float[2,5,4], float[2,5,3]",
    "float[2,2,3,4], float[2,2,5,4], float[2,2,5,4], float[2,1,1,5]; scale=0.5",
    "float[2,2,4,3], float[2,2,4,3], float[2,2,4,2]; causal=1",
    "float[5,3], float[5,3], float[5,3], float[5,5]; causal=1",
    "float[1,2,3], float[1,2,3], float[1,2,3], float[1]",
    "float[2,0,3], float[2,4,3], float[2,4,3]",
    "float[3,67,8], float[3,35,8], float[3,35,40], float[3,67,1]",
    "float[1,2,70,33], float[1,2,70,33], float[1,2,70,33], float[70,70]; causal=1",
    NULL};
/* What the forward op would give for `out` and `lse` is not asked of the numbers here: lse is large enough
 * that probabilities stay small. */
static const char *const grad_samples[] = {
    "float[2,3,3], float[2,3,4]{-1,1}, float[2,5,4]{-1,1}, float[2,5,3], none, float[2,3,3], float[2,3]{2,4}",
    "float[2,2,3,4], float[2,2,3,4]{-1,1}, float[2,2,5,4]{-1,1}, float[2,2,5,4], float[2,1,1,5], "
    "float[2,2,3,4], float[2,2,3]{2,4}, float[2,2,3]; scale=0.5",
    "float[1,4,2], float[1,4,3]{-1,1}, float[1,4,3]{-1,1}, float[1,4,2], none, float[1,4,2], "
    "float[1,4]{2,4}; causal=1",
    "float[2,70,33], float[2,70,33]{-1,1}, float[2,70,33]{-1,1}, float[2,70,33], none, float[2,70,33], "
    "float[2,70]{4,6}; causal=1",
    NULL};

#define KERNEL(op, operands_of, meaning, impl)                                                               \
    {                                                                                                        \
        .name = #op, .operands = operands_of, .n_operands = IPU__COUNT(operands_of), .check = ipu__op_check, \
        .rows = ipu__op_rows, .ref = meaning, .work = attention_work, .plan = attention_plan,                \
        .implementations = IPU__ON_CPU(impl)                                                                 \
    }

/* Queries are independent of each other; `q` is the operand that they are. */
static bool has_own_queries(const ipu__kernel_call *call, int q, int axis)
{
    const ipu_shape *mask = &call->operand[q + MASK - Q].shape;
    if (ipu__op_int(call, "causal") || axis != call->operand[q].shape.rank - 2) return false;
    return !ipu__kernel_has(call, q + MASK - Q) || mask->rank < 2 || mask->dim[mask->rank - 2] == 1;
}

static bool region(const ipu__kernel_call *call, int axis, ipu__regions *out)
{
    out->in[Q] = axis;
    return has_own_queries(call, Q, axis);
}

static bool grad_zeros(const ipu__kernel_call *call, int input, int axis, ipu__regions *out)
{
    static const int rows[] = {IPU__ATTENTION_GRAD_D_OUT, G_Q, IPU__ATTENTION_GRAD_OUT,
                               IPU__ATTENTION_GRAD_LSE};
    if (input != IPU__ATTENTION_GRAD_D_OUT) return false;
    for (size_t i = 0; i < IPU__COUNT(rows); i++) out->in[rows[i]] = axis;
    ipu__region_only_first(out);
    return has_own_queries(call, G_Q, axis) && !ipu__kernel_has(call, IPU__ATTENTION_GRAD_D_LSE);
}

const ipu__op_def ipu__op_attention = {
    .kernel       = KERNEL(attention, operands, ipu__attention_ref, ipu__attention_impl),
    .n_in         = 4,
    .family       = "attention",
    .summary      = "softmax of the products of queries and keys, times values",
    .flags        = IPU__OP_GRAD_ONCE | IPU__OP_GAINS_IN_HALF,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .region       = region,
    .infer        = attention_infer,
    .grad         = ipu__attention_emit_grad,
    .compose      = ipu__attention_compose,
    .batch        = IPU__BATCH({IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__BROADCAST},
                               {IPU__LEADING, IPU__LEADING}),
    .samples      = samples,
};

const ipu__op_def ipu__op_attention_grad = {
    .kernel       = KERNEL(attention_grad, grad_operands, ipu__attention_grad_ref, ipu__attention_grad_impl),
    .n_in         = 8,
    .family       = "attention",
    .summary      = "the gradient of attention for queries, keys and values",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .zeros        = grad_zeros,
    .infer        = grad_infer,
    .batch = IPU__BATCH({IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__LEADING, IPU__BROADCAST, IPU__LEADING,
                         IPU__LEADING, IPU__LEADING},
                        {IPU__LEADING, IPU__LEADING, IPU__LEADING}),
    .samples = grad_samples,
};
