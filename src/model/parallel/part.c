/* One position of a pipeline: its inputs, the model of its ops, its outputs, and values that have to wait. */
#include <stdio.h>

#include "graph/graph.h"
#include "model/parallel/pipeline.h"
#include "op/op.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static ipu_tensor add_variable(ipu_graph *g, ipu_type type, ipu_shape shape, const char *name)
{
    ipu_tensor t = ipu_graph_add_variable(g, type, shape, name);
    ipu_graph_map_linearly(g, t);
    return t;
}

static ipu_tensor variable_for(const ipu__pipeline *l, ipu_graph *g, uint32_t value)
{
    const ipu__builder_value *v = &l->net->base.values.at[value];
    return add_variable(g, v->type, v->shape, v->name);
}

/* [1, n]: a row of a ring. */
static ipu_tensor as_row(ipu_tensor t)
{
    return ipu_tensor_reshape(t, IPU_SHAPE(1, ipu_tensor_n_elements(t)));
}

/* ---- rows ---- */

/* The row for this batch in rings of `depth`, for steps of this part. */
static ipu_tensor row_of(ipu__pipeline *l, ipu__pipeline_part *part, int64_t depth)
{
    for (size_t i = 0; i < part->rows.n; i++)
        if (part->rows.at[i].depth == depth) return part->rows.at[i].row;
    ipu__pipeline_row r    = {depth, {part->g, 0}, {part->g, 0}};
    int32_t          *next = ipu__alloc((size_t)depth * sizeof *next);
    if (!next || !ipu__push(&part->rows, r)) {
        ipu__graph_fail_memory(l->l->g);
        ipu__free(next);
        return r.row;
    }
    for (int64_t i = 0; i < depth; i++) next[i] = (int32_t)((i + 1) % depth);
    r.row  = add_variable(part->g, IPU_INT32, IPU_SHAPE(1), "row");
    r.next = ipu_graph_add_constant(part->g, IPU_INT32, IPU_SHAPE(depth), next, "next row");
    ipu_graph_map_linearly(part->g, r.next);
    ipu__free(next);
    ipu_attribute zero = IPU_FLOAT_ATTRIBUTE("value", 0);
    ipu_program_add_kernel((ipu_program){part->g, l->begin.id}, IPU__KERNEL(fill), &zero, 1, &r.row, 1);
    part->rows.at[part->rows.n - 1] = r;
    return r.row;
}

static void count_rows(ipu__pipeline_part *part)
{
    ipu_attribute one[] = {IPU_INT_ATTRIBUTE("axis", 0), IPU_INT_ATTRIBUTE("size", 1)};
    for (size_t i = 0; i < part->rows.n; i++) {
        const ipu__pipeline_row *r    = &part->rows.at[i];
        ipu_tensor               then = add_variable(part->g, IPU_INT32, IPU_SHAPE(1), "row after");
        ipu_program_add_kernel(part->body, IPU__KERNEL(dynamic_slice), one, 2,
                               (ipu_tensor[]){r->next, r->row, then}, 3);
        ipu_program_add_copy(part->body, then, r->row);
    }
}

/* ---- values that wait ---- */

/* What happens to a value that a position produces. */
typedef struct demand {
    int64_t depth;   /* most batches of it waiting on the IPU; 0 if no position there uses it */
    bool    crosses; /* another IPU uses it */
    bool    is_late; /* a gradient uses it, and not immediately */
} demand;

static demand demand_of(const ipu__pipeline *l, const ipu__route *r)
{
    demand d = {0};
    for (size_t i = 0; i < l->plan.routes.n; i++) {
        const ipu__route *other = &l->plan.routes.at[i];
        if (other->value != r->value || other->from != r->from) continue;
        if (ipu__plan_ipu(&l->plan, other->to) != ipu__plan_ipu(&l->plan, r->from)) {
            d.crosses = true;
            continue;
        }
        int64_t depth = ceil_div(l->parts[other->to].offset - l->parts[r->from].offset, l->period);
        if (depth > d.depth) d.depth = depth;
        d.is_late |= r->from < l->plan.n_stages && other->to >= l->plan.n_stages && other->to != r->from + 1;
    }
    return d;
}

/* Allocates what the values of this route wait in, once for all routes of the value from there. */
static void make_ring(ipu__pipeline *l, size_t i, bool off_chip)
{
    const ipu__route         *r    = &l->plan.routes.at[i];
    const ipu__builder_value *v    = &l->net->base.values.at[r->value];
    const ipu__pipeline_part *part = &l->parts[r->from];
    int64_t                   n    = ipu_tensor_n_elements(l->ways[i].from);
    if (off_chip) {
        char name[64];
        snprintf(name, sizeof name, "stage %u: value %u", r->from, r->value);
        l->ways[i].off_chip = ipu_graph_add_remote_buffer(l->l->g, name, v->type, n, l->ways[i].depth);
        return;
    }
    l->ways[i].ring = add_variable(part->g, v->type, IPU_SHAPE(l->ways[i].depth, n), v->name);
    /* Kernels may read all of it before each row has been written once. */
    ipu_program   start = ipu_program_sequence(part->g);
    ipu_attribute zero  = IPU_FLOAT_ATTRIBUTE("value", 0);
    ipu_program_add_kernel(start, IPU__KERNEL(fill), &zero, 1, &l->ways[i].ring, 1);
    ipu_graph_add_start(l->l->g, start);
}

/* Stores the values that `part` puts into rings. */
static void keep(ipu__pipeline *l, ipu__pipeline_part *part, size_t i)
{
    ipu__pipeline_way *w    = &l->ways[i];
    ipu_attribute      axis = IPU_INT_ATTRIBUTE("axis", 0);
    ipu_tensor         t = w->from, row = row_of(l, part, w->depth);
    if (!ipu_tensor_is_contiguous(t)) {
        t = add_variable(part->g, ipu_tensor_type(t), ipu_tensor_shape(t), "kept");
        ipu_program_add_copy(part->body, w->from, t);
    }
    if (w->off_chip.id)
        ipu_program_add_remote_write(part->body, as_row(t), w->off_chip, row);
    else
        ipu_program_add_kernel(part->body, IPU__KERNEL(dynamic_update_slice), &axis, 1,
                               (ipu_tensor[]){w->ring, as_row(t), row, w->ring}, 4);
}

/* ---- inputs ---- */

/* Where a waiting value of this IPU is when the part uses it; `steps` bring it there. */
static ipu_tensor fetch(ipu__pipeline *l, ipu__pipeline_part *part, size_t i, ipu_program steps)
{
    ipu__pipeline_way *w     = &l->ways[i];
    bool               waits = w->ring.id || w->off_chip.id;
    if (!waits && ipu_tensor_is_contiguous(w->from)) return w->from;
    ipu_tensor    to    = variable_for(l, part->g, l->plan.routes.at[i].value);
    ipu_attribute one[] = {IPU_INT_ATTRIBUTE("axis", 0), IPU_INT_ATTRIBUTE("size", 1)};
    if (w->off_chip.id)
        ipu_program_add_remote_read(steps, w->off_chip, row_of(l, part, w->depth), as_row(to));
    else if (w->ring.id)
        ipu_program_add_kernel(steps, IPU__KERNEL(dynamic_slice), one, 2,
                               (ipu_tensor[]){w->ring, row_of(l, part, w->depth), as_row(to)}, 3);
    else
        ipu_program_add_copy(steps, w->from, to);
    return to;
}

static void take_routes(ipu__pipeline *l, uint32_t q, ipu_program steps)
{
    ipu__pipeline_part *part = &l->parts[q];
    for (size_t i = 0; i < l->plan.routes.n; i++) {
        const ipu__route *r = &l->plan.routes.at[i];
        if (r->to != q) continue;
        l->ways[i].to = l->ways[i].crosses ? variable_for(l, part->g, r->value) : fetch(l, part, i, steps);
        ipu__model_bind(part->m, r->value, l->ways[i].to);
    }
}

static void take_kept(ipu__pipeline *l, uint32_t q)
{
    ipu__pipeline_part *part = &l->parts[q];
    const ipu_tensor   *kept = l->kept + (size_t)ipu__plan_ipu(&l->plan, q) * l->net->values.n;
    for (size_t i = 0; i < part->m->parameters.n; i++)
        ipu__model_bind(part->m, part->m->parameters.at[i], kept[part->m->parameters.at[i]]);
    for (size_t i = 0; i < part->m->states.n; i++)
        ipu__model_bind(part->m, part->m->states.at[i], kept[part->m->states.at[i]]);
}

static void read_inputs(ipu__pipeline *l, uint32_t q)
{
    ipu__pipeline_part *part = &l->parts[q];
    for (size_t i = 0; i < l->net->inputs.n; i++) {
        uint32_t id = l->net->inputs.at[i];
        if (l->plan.value_position[id] == q)
            ipu__parallel_read_input(l->l, i, part->m->tensors.at[id], part->body);
    }
}

/* ---- outputs ---- */

static ipu_status give_outputs(ipu__pipeline *l, uint32_t q, size_t *n_given)
{
    ipu__pipeline_part *part = &l->parts[q];
    for (size_t i = 0; i < l->net->outputs.n; i++) {
        if (ipu__plan_output_position(&l->plan, i) != q) continue;
        ipu_tensor t                 = part->m->output_tensors.at[(*n_given)++];
        l->net->output_tensors.at[i] = t;
        ipu_program begin            = {part->g, l->begin_run.id};
        IPU_TRY(ipu__parallel_give_output(l->l, i, t, begin, part->body));
    }
    return IPU_OK;
}

/* Whether the value lies in memory that others overwrite before all users have read it: in an input that was
 * not fetched. A value from another IPU is passed on before the next one arrives, but does not wait here. */
static bool lies_outside(const ipu__pipeline *l, uint32_t q, ipu_tensor t, bool waits, bool goes_on)
{
    for (size_t i = 0; i < l->plan.routes.n; i++) {
        const ipu__pipeline_way *w         = &l->ways[i];
        bool                     is_direct = !w->crosses && w->to.id == w->from.id;
        if (l->plan.routes.at[i].to != q || (!w->crosses && !is_direct)) continue;
        if ((waits || (goes_on && is_direct)) && ipu_tensor_intersects(t, w->to)) return true;
    }
    return false;
}

static ipu__pipeline_way give(ipu__pipeline *l, uint32_t q, size_t i, ipu_tensor t)
{
    ipu__pipeline_part *part = &l->parts[q];
    demand              d    = demand_of(l, &l->plan.routes.at[i]);
    bool                off  = d.is_late && l->o->activations_off_chip;
    if (lies_outside(l, q, t, d.depth == 1 && !off, d.crosses)) {
        ipu_tensor own = add_variable(part->g, ipu_tensor_type(t), ipu_tensor_shape(t), "passed on");
        ipu_program_add_copy(part->body, t, own);
        t = own;
    }
    l->ways[i] = (ipu__pipeline_way){.from = t, .depth = d.depth};
    if (d.depth > 1 || off) {
        make_ring(l, i, off);
        keep(l, part, i);
    }
    return l->ways[i];
}

static void give_routes(ipu__pipeline *l, uint32_t q, size_t n_given)
{
    for (size_t i = 0; i < l->plan.routes.n; i++) {
        const ipu__route *r = &l->plan.routes.at[i];
        size_t            k = i;
        if (r->from != q) continue;
        if (ipu__plan_is_first(&l->plan, i))
            l->ways[i] = give(l, q, i, l->parts[q].m->output_tensors.at[n_given++]);
        else
            while (l->plan.routes.at[--k].from != q || l->plan.routes.at[k].value != r->value) {}
        l->ways[i]         = l->ways[k];
        l->ways[i].crosses = ipu__plan_ipu(&l->plan, r->to) != ipu__plan_ipu(&l->plan, q);
    }
}

/* ---- entry point ---- */

ipu_status ipu__pipeline_lower_part(ipu__pipeline *l, uint32_t q)
{
    ipu__pipeline_part *part = &l->parts[q];
    ipu_program         run, fetched = ipu_program_sequence(part->g);
    size_t              n_given = 0;
    char                name[300];
    part->m = ipu__plan_part(&l->plan, q);
    if (!part->m) return ipu__fail_memory();
    part->body = ipu_program_sequence(part->g);
    take_kept(l, q);
    take_routes(l, q, fetched);
    IPU_TRY(ipu__parallel_optimise(l->l, part->m));
    IPU_TRY(ipu_model_lower(part->m, part->g, &run));
    read_inputs(l, q);
    ipu_program_add(part->body, fetched);
    ipu_program_add(part->body, run);
    IPU_TRY(give_outputs(l, q, &n_given));
    give_routes(l, q, n_given);
    count_rows(part);
    snprintf(name, sizeof name, "%.200s%s", l->net->stages.at[ipu__plan_stage(&l->plan, q)],
             q < l->plan.n_stages ? "" : " backward");
    part->f = ipu_graph_add_function(part->g, part->body, name);
    return ipu__parallel_graph_status(l->l->g);
}
