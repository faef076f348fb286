/* Slice propagation: if only a region of a value is used, or is not 0, only that region is computed.
 *
 * A region is an interval of one dimension. If an op's outputs are all used through the same slice, its
 * inputs are sliced instead. If an input is padded with zeros, an op that maps zeros to zeros works on the
 * inside, and its result is padded; sums skip the zeros. The gradient of a slice is such a padding, so a
 * network that ends in one row of a sequence computes only that row, forwards and backwards. Zeros count as
 * neutral: 0 times infinity, which would be NaN, is skipped too.
 */
#include <string.h>

#include "graph/graph.h"
#include "model/pass/pass.h"
#include "op/region.h"

typedef struct region {
    int     axis;
    int64_t begin, end, extent; /* of `extent` elements */
} region;

typedef enum need { UNUSED, A_REGION, WHOLE } need;

typedef struct wish {
    need     need;
    region   r;
    uint32_t slices; /* ops that slice it, + 1: a list linked by `next` */
} wish;

typedef struct narrowing {
    ipu_model   *m;
    ipu__renames renames;
    IPU__ARRAY(wish) wishes;    /* by value */
    IPU__ARRAY(uint32_t) next;  /* by op */
    IPU__ARRAY(uint32_t) order; /* new order of the block being rewritten */
    bool changed;
} narrowing;

/* ---- regions ---- */

static bool is_small(const region *r) { return 2 * (r->end - r->begin) <= r->extent; }

static bool is_same(const region *a, const region *b)
{
    return a->axis == b->axis && a->begin == b->begin && a->end == b->end && a->extent == b->extent;
}

/* Whether the op slices one dimension with step 1. */
static bool get_slice(const narrowing *n, const ipu__model_op *op, region *r)
{
    if (op->kind != IPU__MODEL_OP || op->def != &ipu__op_slice) return false;
    ipu__kernel_call call = ipu__model_call(n->m, op);
    size_t           n_begin, n_step, n_axes;
    const int64_t   *begin = ipu__op_ints(&call, "begin", &n_begin),
                  *step    = ipu__op_ints(&call, "step", &n_step);
    const int64_t   *axes  = ipu__op_ints(&call, "axes", &n_axes);
    const ipu_shape *in = &call.operand[0].shape, *out = &call.operand[1].shape;
    if (n_begin != 1 || (n_step && step[0] != 1)) return false;
    r->axis   = n_axes ? (int)axes[0] : 0;
    r->axis   = r->axis < 0 ? r->axis + in->rank : r->axis;
    r->extent = in->dim[r->axis];
    r->begin  = begin[0] < 0 ? begin[0] + r->extent : begin[0];
    r->end    = r->begin + out->dim[r->axis];
    return r->begin >= 0 && r->end <= r->extent && r->begin < r->end && is_small(r);
}

/* Whether the value is another one padded with zeros along one dimension. */
static bool get_pad(const narrowing *n, uint32_t id, region *r, uint32_t *inside)
{
    const ipu__model_op *op = ipu__pass_definer(n->m, id);
    if (!op || op->def != &ipu__op_pad) return false;
    ipu__kernel_call call = ipu__model_call(n->m, op);
    size_t           n_before, n_after, n_between;
    const int64_t   *before = ipu__op_ints(&call, "before", &n_before),
                  *after    = ipu__op_ints(&call, "after", &n_after);
    const int64_t *between  = ipu__op_ints(&call, "inside", &n_between);
    int            n_axes   = 0;
    if (ipu__op_float(&call, "value") != 0) return false;
    for (size_t d = 0; d < n_before; d++) {
        if (before[d] < 0 || after[d] < 0 || (n_between && between[d] != 0)) return false;
        if (before[d] == 0 && after[d] == 0) continue;
        *r = (region){(int)d, before[d], before[d] + call.operand[0].shape.dim[d],
                      call.operand[1].shape.dim[d]};
        n_axes++;
    }
    *inside = op->in[0];
    return n_axes == 1 && r->begin < r->end && is_small(r);
}

/* ---- creating ops ---- */

/* Adds an op at the place of `like`. Returns its first output, from which the others follow; 0 if out of
 * memory or the op is not possible. */
static uint32_t add_op(narrowing *n, const ipu__model_op *like, const ipu__op_def *def,
                       const ipu_attribute *attributes, size_t n_attributes, const uint32_t *in,
                       uint32_t n_in)
{
    ipu_model        *m    = n->m;
    ipu__model_op     made = *like;
    uint32_t          id   = (uint32_t)m->ops.n;
    ipu__kernel_value outs[IPU__MAX_OPERANDS];
    made.def   = def;
    made.n_in  = n_in;
    made.n_out = (uint32_t)ipu__op_n_out(def);
    made.dead  = false;
    made.in    = ipu__arena_alloc(&m->base.arena, (n_in + 1) * sizeof *made.in);
    if (!made.in) return 0;
    memcpy(made.in, in, n_in * sizeof *in);
    made.attributes       = attributes;
    made.n_attributes     = n_attributes;
    made.first_out        = 0;
    ipu__kernel_call call = ipu__model_call(
        m,
        &(ipu__model_op){
            .def = def, .attributes = attributes, .n_attributes = n_attributes, .in = made.in, .n_in = n_in});
    if (def->infer(&call, outs) != IPU_OK || ipu__builder_keep_attributes(&m->base, &call) != IPU_OK)
        return 0;
    made.attributes   = call.attributes;
    made.n_attributes = call.n_attributes;
    made.first_out    = (uint32_t)m->values.n;
    if (!ipu__push(&m->ops, made) || !ipu__push(&n->order, id)) return 0;
    for (uint32_t i = 0; i < made.n_out; i++) {
        ipu__model_value value = {
            .kind = IPU__VALUE_OP, .of = id, .at = i, .block = made.block, .location = made.location};
        if (!ipu__pass_add_value(m, (ipu__builder_value){outs[i].type, outs[i].shape, ""}, value)) return 0;
    }
    return made.first_out;
}

static uint32_t add_slice(narrowing *n, const ipu__model_op *like, uint32_t in, const region *r)
{
    const int64_t       axis = r->axis, begin = r->begin, end = r->end, step = 1;
    const ipu_attribute cut[] = {IPU__INTS("begin", &begin, 1), IPU__INTS("end", &end, 1),
                                 IPU__INTS("step", &step, 1), IPU__INTS("axes", &axis, 1)};
    return add_op(n, like, &ipu__op_slice, cut, IPU__COUNT(cut), &in, 1);
}

static uint32_t add_pad(narrowing *n, const ipu__model_op *like, uint32_t in, const region *r)
{
    int64_t before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0}, inside[IPU_MAX_RANK] = {0};
    size_t  rank                = (size_t)n->m->base.values.at[in].shape.rank;
    before[r->axis]             = r->begin;
    after[r->axis]              = r->extent - r->end;
    const ipu_attribute zeros[] = {IPU__INTS("before", before, rank), IPU__INTS("after", after, rank),
                                   IPU__INTS("inside", inside, rank)};
    return add_op(n, like, &ipu__op_pad, zeros, IPU__COUNT(zeros), &in, 1);
}

static uint32_t add_rows(narrowing *n, const ipu__model_op *like, uint32_t in, int64_t columns)
{
    int64_t             rows  = ipu__op_n_elements(&n->m->base.values.at[in].shape) / columns;
    const ipu_attribute shape = IPU__INTS("shape", ((const int64_t[]){rows, columns}), 2);
    return add_op(n, like, &ipu__op_reshape, &shape, 1, &in, 1);
}

/* `op` on narrower inputs; a reshape determines its own shape. */
static uint32_t add_narrow(narrowing *n, const ipu__model_op *op, const uint32_t *in, const region *r)
{
    if (op->def != &ipu__op_reshape)
        return add_op(n, op, op->def, op->attributes, op->n_attributes, in, op->n_in);
    ipu_shape shape           = n->m->base.values.at[op->first_out].shape;
    shape.dim[r->axis]        = r->end - r->begin;
    const ipu_attribute shown = IPU__INTS("shape", shape.dim, shape.rank);
    return add_op(n, op, &ipu__op_reshape, &shown, 1, in, 1);
}

/* Rebuilds the block from the live ops of n->order. */
static ipu_status set_order(narrowing *n, uint32_t block)
{
    ipu__block *b = &n->m->blocks.at[block];
    b->order.n    = 0;
    if (!ipu__reserve(&b->order, n->order.n)) return ipu__fail_memory();
    for (size_t i = 0; i < n->order.n; i++)
        if (!n->m->ops.at[n->order.at[i]].dead) b->order.at[b->order.n++] = n->order.at[i];
    return IPU_OK;
}

/* ---- zero padding ---- */

/* Input `i` restricted to the region: the value inside the padding, or a slice. */
static uint32_t take(narrowing *n, const ipu__model_op *op, uint32_t id, region r, int axis)
{
    region   own;
    uint32_t inside;
    r.axis = axis;
    if (get_pad(n, id, &own, &inside) && is_same(&own, &r)) return inside;
    return add_slice(n, op, id, &r);
}

static bool has_same_zeros(const narrowing *n, uint32_t id, region r, int axis)
{
    region   own;
    uint32_t inside;
    r.axis = axis;
    return get_pad(n, id, &own, &inside) && is_same(&own, &r);
}

static ipu_status replace_outputs(narrowing *n, const ipu__model_op *op, const ipu__regions *way,
                                  uint32_t first, region r)
{
    for (uint32_t i = 0; i < op->n_out; i++) {
        r.axis      = way->out[i];
        uint32_t to = way->out[i] < 0 ? first + i : add_pad(n, op, first + i, &r);
        if (!to || !ipu__rename(&n->renames, op->first_out + i, to)) return ipu__fail_memory();
    }
    return IPU_OK;
}

/* Input `i` is 0 outside `r`. */
static ipu_status sink_one(narrowing *n, uint32_t id, uint32_t i, const region *r, bool *done)
{
    ipu__model_op    op   = n->m->ops.at[id]; /* adding ops moves them */
    ipu__kernel_call call = ipu__model_call(n->m, &op);
    ipu__regions     way;
    uint32_t         in[IPU__MAX_OPERANDS];
    if (!ipu__region_of_zeros(&call, (int)i, r->axis, &way)) return IPU_OK;
    for (uint32_t k = 0; way.all && k < op.n_in; k++)
        if (way.in[k] < 0 || !has_same_zeros(n, op.in[k], *r, way.in[k])) return IPU_OK;
    for (uint32_t k = 0; k < op.n_in; k++) {
        in[k] = way.in[k] < 0 ? op.in[k] : take(n, &op, op.in[k], *r, way.in[k]);
        if (way.in[k] >= 0 && !in[k]) return ipu__fail_memory();
    }
    region to    = *r;
    to.axis      = way.out[0];
    uint32_t out = add_narrow(n, &op, in, &to);
    if (!out) return ipu__fail_memory();
    *done = n->m->ops.at[id].dead = n->changed = true;
    return replace_outputs(n, &op, &way, out, *r);
}

/* A sum over rows that are several dimensions, one of which is zero-padded: a^T b, both reshaped to rows. */
static ipu_status sink_rows(narrowing *n, uint32_t id, bool *done)
{
    ipu__model_op    op   = n->m->ops.at[id];
    ipu__kernel_call call = ipu__model_call(n->m, &op);
    region           r, of_b;
    uint32_t         inside, in[IPU__MAX_OPERANDS];
    if (op.def != &ipu__op_matmul || !ipu__op_int(&call, "transpose_a") || ipu__op_int(&call, "transpose_b"))
        return IPU_OK;
    const ipu__model_op *a = ipu__pass_definer(n->m, op.in[0]), *b = ipu__pass_definer(n->m, op.in[1]);
    if (!a || !b || a->def != &ipu__op_reshape || b->def != &ipu__op_reshape
        || !get_pad(n, a->in[0], &r, &inside))
        return IPU_OK;
    const ipu_shape *rows = &call.operand[0].shape, *columns = &call.operand[1].shape;
    const ipu_shape *of_a = &n->m->base.values.at[a->in[0]].shape;
    of_b                  = r;
    of_b.axis             = ipu__region_same_axis(&n->m->base.values.at[b->in[0]].shape, of_a, r.axis);
    if (rows->rank != 2 || columns->rank != 2 || of_b.axis < 0 || rows->dim[1] == 0 || columns->dim[1] == 0
        || of_a->dim[of_a->rank - 1] != rows->dim[1] || r.axis == of_a->rank - 1)
        return IPU_OK;
    memcpy(in, op.in, op.n_in * sizeof *in);
    uint32_t part = add_slice(n, &op, b->in[0], &of_b);
    in[0]         = part ? add_rows(n, &op, inside, rows->dim[1]) : 0;
    in[1]         = in[0] ? add_rows(n, &op, part, columns->dim[1]) : 0;
    uint32_t out  = in[1] ? add_narrow(n, &op, in, &r) : 0;
    if (!out || !ipu__rename(&n->renames, op.first_out, out)) return ipu__fail_memory();
    *done = n->m->ops.at[id].dead = n->changed = true;
    return IPU_OK;
}

static ipu_status sink_op(narrowing *n, uint32_t id)
{
    bool done = false;
    if (n->m->ops.at[id].def->flags & IPU__OP_IMPURE) return IPU_OK;
    for (uint32_t i = 0; i < n->m->ops.at[id].n_in && !done; i++) {
        region   r;
        uint32_t inside;
        if (get_pad(n, n->m->ops.at[id].in[i], &r, &inside)) IPU_TRY(sink_one(n, id, i, &r, &done));
    }
    return done ? IPU_OK : sink_rows(n, id, &done);
}

static ipu_status sink_block(narrowing *n, uint32_t block)
{
    n->order.n = 0;
    for (size_t i = 0; i < n->m->blocks.at[block].order.n; i++) {
        uint32_t       id = n->m->blocks.at[block].order.at[i];
        ipu__model_op *op = &n->m->ops.at[id];
        if (op->dead) continue;
        ipu__rename_inputs(&n->renames, op);
        if (op->kind == IPU__MODEL_OP) IPU_TRY(sink_op(n, id));
        if (!n->m->ops.at[id].dead && !ipu__push(&n->order, id)) return ipu__fail_memory();
    }
    return set_order(n, block);
}

/* ---- slices of computed values ---- */

static wish *wish_of(narrowing *n, uint32_t id)
{
    if (id >= n->wishes.n) {
        size_t more = id + 1 - n->wishes.n;
        if (!ipu__reserve(&n->wishes, more)) return NULL;
        memset(n->wishes.at + n->wishes.n, 0, more * sizeof *n->wishes.at);
        n->wishes.n += more;
    }
    return &n->wishes.at[id];
}

static bool want_whole(narrowing *n, uint32_t id)
{
    wish *w = wish_of(n, id);
    if (w) w->need = WHOLE;
    return w;
}

static bool want_all(narrowing *n)
{
    const ipu_model *m  = n->m;
    bool             ok = true;
    for (size_t i = 0; i < m->outputs.n; i++) ok = ok && want_whole(n, m->outputs.at[i].value);
    for (size_t i = 0; i < m->values.n; i++) ok = ok && want_whole(n, m->values.at[i].update);
    for (size_t b = 0; b < m->blocks.n; b++) {
        for (size_t i = 0; i < m->blocks.at[b].yields.n; i++)
            ok = ok && want_whole(n, m->blocks.at[b].yields.at[i]);
        ok = ok && want_whole(n, m->blocks.at[b].go_on);
    }
    return ok;
}

/* Records what the op `id` needs of its inputs. */
static bool want_inputs(narrowing *n, uint32_t id)
{
    const ipu__model_op *op = &n->m->ops.at[id];
    region               r;
    if (!get_slice(n, op, &r) || n->m->values.at[op->in[0]].block != op->block) {
        for (uint32_t i = 0; i < op->n_in; i++)
            if (!want_whole(n, op->in[i])) return false;
        return true;
    }
    wish *w = wish_of(n, op->in[0]);
    while (n->next.n <= id)
        if (!ipu__push(&n->next, 0)) return false;
    if (!w) return false;
    if (w->need == UNUSED) *w = (wish){A_REGION, r, 0};
    if (!is_same(&w->r, &r)) w->need = WHOLE;
    n->next.at[id] = w->slices;
    w->slices      = id + 1;
    return true;
}

/* The common region in which all used outputs are used. */
static bool get_region(narrowing *n, const ipu__model_op *op, region *r)
{
    bool any = false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        const wish *w = wish_of(n, op->first_out + i);
        if (!w || w->need == WHOLE) return false;
        if (w->need == UNUSED) continue;
        if (any && !is_same(r, &w->r)) return false;
        *r  = w->r;
        any = true;
    }
    return any;
}

/* Replaces slices of output `from` by value `to`. */
static bool replace_slices(narrowing *n, uint32_t from, uint32_t to)
{
    for (uint32_t s = n->wishes.at[from].slices; s; s = n->next.at[s - 1]) {
        n->m->ops.at[s - 1].dead = true;
        if (!ipu__rename(&n->renames, n->m->ops.at[s - 1].first_out, to)) return false;
    }
    return true;
}

/* The list is reversed: the last added comes first. */
static void turn(narrowing *n, size_t from)
{
    for (size_t a = from, b = n->order.n; a + 1 < b; a++) {
        uint32_t last  = n->order.at[--b];
        n->order.at[b] = n->order.at[a];
        n->order.at[a] = last;
    }
}

static ipu_status hoist_op(narrowing *n, uint32_t id)
{
    ipu__model_op op = n->m->ops.at[id];
    region        r;
    ipu__regions  way;
    uint32_t      in[IPU__MAX_OPERANDS];
    size_t        from = n->order.n;
    bool          ok   = true;
    if (op.kind != IPU__MODEL_OP || op.def->flags & IPU__OP_IMPURE || !get_region(n, &op, &r)) return IPU_OK;
    ipu__kernel_call call = ipu__model_call(n->m, &op);
    if (!ipu__region_of(&call, r.axis, &way)) return IPU_OK;
    for (uint32_t i = 0; i < op.n_in && ok; i++) {
        region own = r;
        own.axis   = way.in[i];
        in[i]      = way.in[i] < 0 ? op.in[i] : add_slice(n, &op, op.in[i], &own);
        ok         = way.in[i] < 0 || in[i];
    }
    uint32_t out = ok ? add_narrow(n, &op, in, &r) : 0;
    ok           = out != 0;
    turn(n, from);
    for (size_t i = from; i < n->order.n && ok; i++) ok = want_inputs(n, n->order.at[i]);
    for (uint32_t i = 0; i < op.n_out && ok; i++) ok = replace_slices(n, op.first_out + i, out + i);
    n->m->ops.at[id].dead = n->changed = true;
    return ok ? IPU_OK : ipu__fail_memory();
}

static ipu_status hoist_block(narrowing *n, uint32_t block)
{
    n->order.n = 0;
    for (size_t i = n->m->blocks.at[block].order.n; i-- > 0;) {
        uint32_t id = n->m->blocks.at[block].order.at[i];
        if (n->m->ops.at[id].dead) continue;
        IPU_TRY(hoist_op(n, id));
        if (n->m->ops.at[id].dead) continue;
        if (!want_inputs(n, id) || !ipu__push(&n->order, id)) return ipu__fail_memory();
    }
    turn(n, 0);
    return set_order(n, block);
}

/* ---- the pass ---- */

static ipu_status sink(narrowing *n)
{
    for (uint32_t b = 0; b < n->m->blocks.n; b++) IPU_TRY(sink_block(n, b));
    return IPU_OK;
}

/* Nested blocks come after the enclosing ones, whose values they use. */
static ipu_status hoist(narrowing *n)
{
    if (!want_all(n)) return ipu__fail_memory();
    for (size_t b = n->m->blocks.n; b-- > 0;) IPU_TRY(hoist_block(n, (uint32_t)b));
    return IPU_OK;
}

static ipu_status walk(ipu_model *m, ipu_status (*half)(narrowing *n), bool *changed)
{
    narrowing  n      = {.m = m};
    ipu_status status = half(&n);
    if (status == IPU_OK) ipu__renames_apply(&n.renames, m);
    *changed |= n.changed;
    ipu__renames_fini(&n.renames);
    ipu__array_fini(&n.wishes);
    ipu__array_fini(&n.next);
    ipu__array_fini(&n.order);
    return status;
}

ipu_status ipu__model_propagate_slices(ipu_model *m, bool *changed)
{
    bool dropped;
    if (m->stages.n > 0) return IPU_OK; /* what a stage passes to the next is decided elsewhere */
    IPU_TRY(walk(m, sink, changed));
    if (*changed) IPU_TRY(ipu__model_dce(m, &dropped)); /* unused pads would count as uses of slices */
    return walk(m, hoist, changed);
}
