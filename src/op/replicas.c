/* Values of all replicas at once: as rows, with replicas in front, as sums; and ops that handle them by a
 * list or because they are elementwise. */
#include "op/replicas.h"

#include <string.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"

/* ---- values ---- */

static int64_t extent(const ipu_shape *s, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= s->dim[d];
    return n;
}

static ipu_shape with_rows(const ipu_shape *one, int axis, int64_t n)
{
    ipu_shape s = *one;
    if (s.rank == 0) return IPU_SHAPE(n);
    s.dim[axis] *= n;
    return s;
}

/* `n` in front of `one`, with 1s between up to `rank` dimensions of it. */
static ipu_shape with_front(const ipu_shape *one, int rank, int64_t n)
{
    ipu_shape s    = {.rank = 1, .dim = {n}};
    int       ones = rank > one->rank ? rank - one->rank : 0;
    for (int d = 0; d < ones && s.rank < IPU_MAX_RANK; d++) s.dim[s.rank++] = 1;
    for (int d = 0; d < one->rank && s.rank < IPU_MAX_RANK; d++) s.dim[s.rank++] = one->dim[d];
    return s;
}

/* Rows along `from` become rows along `to`: what lies between changes places with the replicas. */
static ipu_value move(const ipu__replicas *r, ipu_value v, const ipu_shape *one, int from, int to)
{
    int     low = from < to ? from : to, high = from < to ? to : from;
    int64_t before = extent(one, 0, low), between = extent(one, low, high),
            after   = extent(one, high, one->rank);
    ipu_shape split = from < to ? IPU_SHAPE(before, r->n, between, after)
                                : IPU_SHAPE(before, between, r->n, after);
    if (between != 1) v = ipu_transpose(r->b, ipu_reshape(r->b, v, split), (const int[]){0, 2, 1, 3}, 4);
    return ipu_reshape(r->b, v, with_rows(one, to, r->n));
}

ipu_value ipu__replicas_rows(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int axis)
{
    if (f->kind == IPU__FOLDED_ROWS)
        return f->axis == axis ? f->value : move(r, f->value, one, f->axis, axis);
    int64_t before = one->rank ? extent(one, 0, axis) : 1,
            after  = one->rank ? extent(one, axis, one->rank) : 1;
    ipu_value v    = ipu_reshape(r->b, f->value, IPU_SHAPE(before, 1, after));
    return ipu_reshape(r->b, ipu_expand(r->b, v, IPU_SHAPE(before, r->n, after)), with_rows(one, axis, r->n));
}

ipu_value ipu__replicas_lead(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one, int rank)
{
    return ipu_reshape(r->b, ipu__replicas_rows(r, f, one, 0), with_front(one, rank, r->n));
}

ipu__folded ipu__replicas_joined(const ipu__replicas *r, ipu_value led)
{
    ipu_shape s = ipu_value_shape(led), rows = {.rank = s.rank > 1 ? s.rank - 1 : 1, .dim = {r->n}};
    if (s.rank > 1) rows.dim[0] = r->n * s.dim[1];
    for (int d = 1; d < rows.rank; d++) rows.dim[d] = s.dim[d + 1];
    return (ipu__folded){ipu_reshape(r->b, led, rows), IPU__FOLDED_ROWS, 0};
}

ipu_type ipu__replicas_sum_type(ipu_type type)
{
    return type == IPU_HALF || type == IPU_BFLOAT16 ? IPU_FLOAT : type;
}

static ipu_value as_summed(ipu_builder *b, ipu_value v)
{
    ipu_type type = ipu__replicas_sum_type(ipu_value_type(v));
    return type == ipu_value_type(v) ? v : ipu_cast(b, v, type);
}

ipu_value ipu__replicas_sum(const ipu__replicas *r, const ipu__folded *f, const ipu_shape *one)
{
    if (f->kind == IPU__FOLDED_SUM) return f->value;
    if (f->kind == IPU__FOLDED_SAME) {
        ipu_value v = as_summed(r->b, f->value);
        return ipu_mul(r->b, v, ipu_scalar_like(r->b, v, (double)r->n));
    }
    ipu_value led = as_summed(r->b, ipu__replicas_lead(r, f, one, 0));
    return ipu_reduce_sum(r->b, led, (const int[]){0}, 1, false);
}

/* ---- emitting ---- */

enum { MOST_ATTRIBUTES = 32 };

static bool emit(ipu__replicas *r, const ipu_value *in, const ipu_attribute *a, size_t n_a, ipu_value *out)
{
    const ipu__op_def *op = ipu__op_of(r->call->def);
    ipu_attribute      all[MOST_ATTRIBUTES];
    size_t             n = 0;
    if (r->call->n_attributes + n_a > MOST_ATTRIBUTES) return false;
    for (size_t i = 0; i < r->call->n_attributes; i++) {
        bool replaced = false;
        for (size_t k = 0; k < n_a; k++) replaced |= strcmp(a[k].name, r->call->attributes[i].name) == 0;
        if (!replaced) all[n++] = r->call->attributes[i];
    }
    for (size_t k = 0; k < n_a; k++) all[n++] = a[k];
    ipu_emit(r->b, op->kernel.name, all, n, in, (size_t)op->n_in, out, (size_t)ipu__op_n_out(op));
    return true;
}

bool ipu__replicas_emit(ipu__replicas *r, const ipu_value *in, const ipu_attribute *a, size_t n_a, int axis)
{
    ipu_value out[IPU__MAX_OPERANDS];
    if (!emit(r, in, a, n_a, out)) return false;
    for (int i = 0; i < ipu__op_n_out(ipu__op_of(r->call->def)); i++)
        r->out[i] = (ipu__folded){out[i], IPU__FOLDED_ROWS, axis};
    return true;
}

static void widen(const ipu__replicas *r, const ipu_value *in, ipu_value *wide)
{
    for (int i = 0; i < ipu__op_of(r->call->def)->n_in; i++)
        wide[i] = ipu__has(in[i]) ? as_summed(r->b, in[i]) : in[i];
}

bool ipu__replicas_emit_sum(ipu__replicas *r, const ipu_value *in)
{
    ipu_value wide[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    widen(r, in, wide);
    if (!emit(r, wide, NULL, 0, out)) return false;
    r->out[0] = (ipu__folded){out[0], IPU__FOLDED_SUM, 0};
    return true;
}

bool ipu__replicas_emit_led(ipu__replicas *r, int rank, bool broadcasts, const ipu_attribute *a, size_t n_a)
{
    const ipu__op_def *op = ipu__op_of(r->call->def);
    ipu_value          in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    for (int i = 0; i < op->kernel.n_operands; i++)
        if (ipu__replicas_shape(r, i)->rank >= IPU_MAX_RANK) return false;
    if (rank >= IPU_MAX_RANK) return false;
    for (int i = 0; i < op->n_in; i++) {
        bool as_is = !ipu__has(r->in[i].value) || (broadcasts && !ipu__replicas_is_rows(r, i));
        in[i] = as_is ? r->in[i].value : ipu__replicas_lead(r, &r->in[i], ipu__replicas_shape(r, i), rank);
    }
    if (!emit(r, in, a, n_a, out)) return false;
    for (int i = 0; i < ipu__op_n_out(op); i++) r->out[i] = ipu__replicas_joined(r, out[i]);
    return true;
}

/* ---- elementwise ---- */

/* The dimension, from the end, along which all rows are and nothing else has any extent of its own; 0:
 * none. */
static int aligned_from_end(const ipu__replicas *r)
{
    int              n_in = ipu__op_of(r->call->def)->n_in, end = 0;
    const ipu_shape *out = ipu__replicas_shape(r, n_in);
    for (int i = 0; i < n_in; i++) {
        const ipu_shape *s = ipu__replicas_shape(r, i);
        if (!ipu__replicas_is_rows(r, i)) continue;
        int mine = s->rank - r->in[i].axis;
        if (s->rank == 0 || (end && mine != end) || s->dim[r->in[i].axis] != out->dim[out->rank - mine])
            return 0;
        end = mine;
    }
    for (int i = 0; i < n_in && end; i++) {
        const ipu_shape *s = ipu__replicas_shape(r, i);
        if (!ipu__has(r->in[i].value) || ipu__replicas_is_rows(r, i)) continue;
        if (s->rank >= end && s->dim[s->rank - end] != 1) return 0;
    }
    return end;
}

bool ipu__fold_elementwise(ipu__replicas *r)
{
    int       n_in = ipu__op_of(r->call->def)->n_in, rank = ipu__replicas_shape(r, n_in)->rank;
    ipu_value in[IPU__MAX_OPERANDS];
    for (int i = 0; i < n_in; i++) in[i] = r->in[i].value;
    int end = aligned_from_end(r);
    if (rank == 0) return ipu__replicas_emit(r, in, NULL, 0, 0);
    return end ? ipu__replicas_emit(r, in, NULL, 0, rank - end)
               : ipu__replicas_emit_led(r, rank, true, NULL, 0);
}

/* ---- lists ---- */

static bool is_axis(ipu__op_along along) { return along == IPU__AXIS_0 || along == IPU__AXIS_1; }

static int axis_of(ipu__op_along along) { return (int)along - IPU__AXIS_0; }

static bool list_fits(const ipu__replicas *r, const ipu__op_def *op)
{
    for (int i = 0; i < op->n_in; i++) {
        if (!ipu__has(r->in[i].value)) continue;
        ipu__op_along along = ipu__op_along_of(op, i);
        int           rank  = ipu__replicas_shape(r, i)->rank;
        if (along == IPU__SHARED && r->in[i].kind != IPU__FOLDED_SAME) return false;
        if (is_axis(along) && axis_of(along) >= rank) return false;
        if (!is_axis(along) && rank >= IPU_MAX_RANK) return false;
    }
    for (int i = 0; i < ipu__op_n_out(op); i++)
        if (ipu__op_along_of(op, op->n_in + i) == IPU__SUMMED && r->used[i] && !r->sums[i]) return false;
    return true;
}

static int batch_rank(const ipu__replicas *r, const ipu__op_def *op)
{
    int rank = 0;
    for (int i = 0; i < op->n_in; i++)
        if (ipu__op_along_of(op, i) == IPU__LEADING && ipu__has(r->in[i].value)
            && ipu__replicas_shape(r, i)->rank > rank)
            rank = ipu__replicas_shape(r, i)->rank;
    return rank;
}

static ipu_value input_for(const ipu__replicas *r, int i, ipu__op_along along, int rank)
{
    const ipu__folded *f   = &r->in[i];
    const ipu_shape   *one = ipu__replicas_shape(r, i);
    if (!ipu__has(f->value) || along == IPU__SHARED) return f->value;
    if (is_axis(along)) return ipu__replicas_rows(r, f, one, axis_of(along));
    if (along == IPU__BROADCAST)
        return f->kind == IPU__FOLDED_SAME ? f->value : ipu__replicas_lead(r, f, one, rank);
    return ipu__replicas_lead(r, f, one, 0);
}

static ipu__folded output_for(const ipu__replicas *r, int i, ipu__op_along along, ipu_value v)
{
    const ipu__kernel_value *one = &r->call->operand[ipu__op_of(r->call->def)->n_in + i];
    if (!ipu__has(v)) /* left out by a composition, as it has no elements */
        v = ipu_constant_value(r->b, along == IPU__SUMMED ? ipu__replicas_sum_type(one->type) : one->type,
                               one->shape, 0);
    if (along == IPU__SUMMED) return (ipu__folded){v, IPU__FOLDED_SUM, 0};
    if (ipu_value_type(v) != one->type) v = ipu_cast(r->b, v, one->type);
    if (along == IPU__LEADING) return ipu__replicas_joined(r, v);
    int axis = axis_of(along); /* an output that is not there has one dimension, of 0 */
    return (ipu__folded){v, axis < one->shape.rank ? IPU__FOLDED_ROWS : IPU__FOLDED_SAME, axis};
}

static bool fold_list(ipu__replicas *r, const ipu__op_def *op)
{
    ipu_value in[IPU__MAX_OPERANDS] = {IPU_NO_VALUE}, wide[IPU__MAX_OPERANDS] = {IPU_NO_VALUE};
    ipu_value out[IPU__MAX_OPERANDS];
    bool      has_sum = false;
    if (!list_fits(r, op)) return false;
    int rank = batch_rank(r, op);
    for (int i = 0; i < op->n_in; i++) in[i] = input_for(r, i, ipu__op_along_of(op, i), rank);
    for (int i = 0; i < ipu__op_n_out(op); i++)
        has_sum |= ipu__op_along_of(op, op->n_in + i) == IPU__SUMMED && r->used[i];
    if (has_sum) widen(r, in, wide);
    if (!emit(r, has_sum ? wide : in, NULL, 0, out)) return false;
    if (ipu_builder_status(r->b) != IPU_OK) return true;
    for (int i = 0; i < ipu__op_n_out(op); i++)
        r->out[i] = output_for(r, i, ipu__op_along_of(op, op->n_in + i), out[i]);
    return true;
}

bool ipu__replicas_fold(ipu__replicas *r)
{
    const ipu__op_def *op = ipu__op_of(r->call->def);
    if (ipu__attribute_find(r->call, "epilogue")) return false; /* fusing comes after folding */
    if (op->fold) return op->fold(r);
    if (op->batch) return fold_list(r, op);
    return (op->flags & IPU__OP_ELEMENTWISE) && ipu__fold_elementwise(r);
}
