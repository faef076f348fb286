/* How ops whose dimensions depend on attributes, and products, handle the values of all replicas at once.
 *
 * Each rule has a fast way, in which rows stay in place, and a safe one: replicas as a leading dimension.
 */
#include "op/replicas.h"

#include "ipu/op/shape.h"

enum { X, Y };

static int n_inputs(const ipu__replicas *r) { return ipu__op_of(r->call->def)->n_in; }

static bool contains(const int64_t *list, size_t n, int rank, int axis)
{
    for (size_t i = 0; i < n; i++)
        if ((list[i] < 0 ? list[i] + rank : list[i]) == axis) return true;
    return false;
}

/* ---- along an axis ---- */

/* What all rows are along, with one extent; -1: they differ. */
static int common_axis(const ipu__replicas *r)
{
    int     axis = -1;
    int64_t n    = 0;
    for (int i = 0; i < n_inputs(r); i++) {
        if (!ipu__replicas_is_rows(r, i)) continue;
        if (axis >= 0 && r->in[i].axis != axis) return -1;
        axis = r->in[i].axis;
        n    = ipu__replicas_shape(r, i)->dim[axis];
    }
    for (int i = 0; i < n_inputs(r) && axis >= 0; i++)
        if (ipu__has(r->in[i].value) && ipu__replicas_shape(r, i)->dim[axis] != n) return -1;
    return axis;
}

bool ipu__fold_along_axis(ipu__replicas *r)
{
    int       rank = ipu__replicas_shape(r, X)->rank, axis;
    ipu_value in[IPU__MAX_OPERANDS];
    if (rank == 0 || ipu__op_axis(r->call, "axis", rank, &axis) != IPU_OK) return false;
    int rows = common_axis(r), n_out = ipu__replicas_shape(r, n_inputs(r))->rank;
    if (rows < 0 || rows == axis)
        return ipu__replicas_emit_led(r, rank, false, &IPU_INT_ATTRIBUTE("axis", axis + 1), 1);
    for (int i = 0; i < n_inputs(r); i++)
        in[i] = ipu__has(r->in[i].value) ? ipu__replicas_rows(r, &r->in[i], ipu__replicas_shape(r, i), rows)
                                         : r->in[i].value;
    return ipu__replicas_emit(r, in, NULL, 0, n_out < rank && axis < rows ? rows - 1 : rows);
}

/* ---- reductions ---- */

bool ipu__fold_reduce(ipu__replicas *r)
{
    const ipu_shape *one  = ipu__replicas_shape(r, X);
    int              rows = r->in[X].axis, out = rows;
    int64_t          axes[IPU_MAX_RANK];
    bool             mask[IPU_MAX_RANK];
    size_t           n = 0;
    if (ipu__op_axes(r->call, "axes", one->rank, mask) != IPU_OK) return false;
    for (int d = 0; d < one->rank; d++) {
        if (!mask[d]) continue;
        axes[n++] = d + 1;
        out -= d < rows && !ipu__op_int(r->call, "keep_dims");
    }
    if (one->rank > 0 && !mask[rows]) return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, out);
    if (r->sums[0] && r->call->def == &ipu__op_reduce_sum.kernel)
        return ipu__replicas_emit_sum(r, &r->in[X].value);
    if (one->rank == 0) axes[n++] = 1; /* a scalar as a vector of one */
    return ipu__replicas_emit_led(r, 1, false, &IPU__INTS("axes", axes, n), 1);
}

/* ---- shapes ---- */

/* The dimension of `to` before which there is as much as before dimension `axis` of `from`; -1: none. The one
 * of the same extent is preferred. */
static int reshaped_axis(const ipu_shape *from, int axis, const ipu_shape *to)
{
    int64_t before = 1, n = 1;
    int     found = -1;
    for (int d = 0; d < axis; d++) before *= from->dim[d];
    for (int d = 0; d < to->rank; n *= to->dim[d], d++) {
        if (n != before) continue;
        bool is_same = to->dim[d] == from->dim[axis];
        if (is_same && d == axis) return d;
        if (found < 0 || (is_same && to->dim[found] != from->dim[axis])) found = d;
    }
    return found;
}

bool ipu__fold_reshape(ipu__replicas *r)
{
    const ipu_shape *from = ipu__replicas_shape(r, X), *to = ipu__replicas_shape(r, 1);
    int              axis = from->rank ? reshaped_axis(from, r->in[X].axis, to) : -1;
    ipu_shape        all  = {.rank = to->rank + 1, .dim = {r->n}};
    if (axis >= 0) {
        all = *to;
        all.dim[axis] *= r->n;
        r->out[0] = (ipu__folded){ipu_reshape(r->b, r->in[X].value, all), IPU__FOLDED_ROWS, axis};
        return true;
    }
    if (to->rank >= IPU_MAX_RANK) return false;
    for (int d = 0; d < to->rank; d++) all.dim[d + 1] = to->dim[d];
    ipu_value front = ipu__replicas_rows(r, &r->in[X], from, 0);
    r->out[0]       = ipu__replicas_joined(r, ipu_reshape(r->b, front, all));
    return true;
}

bool ipu__fold_transpose(ipu__replicas *r)
{
    size_t         n    = 0;
    const int64_t *perm = ipu__op_ints(r->call, "perm", &n);
    int            rank = ipu__replicas_shape(r, X)->rank, axis = r->in[X].axis, out = rank - 1 - axis;
    if (rank == 0) {
        r->out[0] = r->in[X];
        return true;
    }
    for (size_t i = 0; perm && i < n; i++)
        if ((perm[i] < 0 ? perm[i] + rank : perm[i]) == axis) out = (int)i;
    return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, out);
}

bool ipu__fold_expand(ipu__replicas *r)
{
    const ipu_shape *from = ipu__replicas_shape(r, X), *to = ipu__replicas_shape(r, 1);
    int              axis = r->in[X].axis + to->rank - from->rank;
    ipu_shape        all  = *to;
    if (from->rank > 0 && from->dim[r->in[X].axis] == to->dim[axis]) {
        all.dim[axis] *= r->n;
        return ipu__replicas_emit(r, &r->in[X].value, &IPU__INTS("shape", all.dim, all.rank), 1, axis);
    }
    if (to->rank >= IPU_MAX_RANK) return false;
    all = (ipu_shape){.rank = to->rank + 1, .dim = {r->n}};
    for (int d = 0; d < to->rank; d++) all.dim[d + 1] = to->dim[d];
    return ipu__replicas_emit_led(r, to->rank, false, &IPU__INTS("shape", all.dim, all.rank), 1);
}

/* Axes of a list one further behind. */
static size_t shifted(const int64_t *list, size_t n, int rank, int64_t *out)
{
    for (size_t i = 0; i < n; i++) out[i] = (list[i] < 0 ? list[i] + rank : list[i]) + 1;
    return n;
}

bool ipu__fold_slice(ipu__replicas *r)
{
    size_t         n_begin = 0, n = 0;
    int64_t        axes[IPU_MAX_RANK], first[IPU_MAX_RANK];
    const int64_t *list = ipu__op_ints(r->call, "axes", &n);
    int            rank = ipu__replicas_shape(r, X)->rank, rows = r->in[X].axis;
    ipu__op_ints(r->call, "begin", &n_begin);
    if (rank == 0 || n_begin > (size_t)rank) return false;
    for (size_t i = 0; i < n_begin; i++) first[i] = (int64_t)i;
    if (!list) list = first, n = n_begin;
    if (!contains(list, n, rank, rows)) return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, rows);
    n = shifted(list, n, rank, axes);
    return ipu__replicas_emit_led(r, rank, false, &IPU__INTS("axes", axes, n), 1);
}

bool ipu__fold_reverse(ipu__replicas *r)
{
    int     rank = ipu__replicas_shape(r, X)->rank, rows = r->in[X].axis;
    int64_t axes[IPU_MAX_RANK];
    bool    mask[IPU_MAX_RANK];
    size_t  n = 0;
    if (rank == 0 || ipu__op_axes(r->call, "axes", rank, mask) != IPU_OK) return false;
    for (int d = 0; d < rank; d++)
        if (mask[d]) axes[n++] = d + 1;
    if (!mask[rows]) return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, rows);
    return ipu__replicas_emit_led(r, rank, false, &IPU__INTS("axes", axes, n), 1);
}

bool ipu__fold_pad(ipu__replicas *r)
{
    static const char *const names[] = {"before", "after", "inside"};
    int64_t                  lists[3][IPU_MAX_RANK + 1];
    ipu_attribute            a[3];
    size_t                   n_a  = 0;
    int                      rank = ipu__replicas_shape(r, X)->rank, rows = r->in[X].axis;
    bool                     is_padded = rank == 0;
    for (int k = 0; k < 3; k++) {
        size_t         n    = 0;
        const int64_t *list = ipu__op_ints(r->call, names[k], &n);
        if (!list) continue;
        lists[k][0] = 0;
        for (size_t i = 0; i < n; i++) lists[k][i + 1] = list[i];
        is_padded |= n > (size_t)rows && list[rows] != 0;
        a[n_a++] = IPU__INTS(names[k], lists[k], n + 1);
    }
    if (!is_padded) return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, rows);
    return ipu__replicas_emit_led(r, rank, false, a, n_a);
}

/* ---- products ---- */

/* Whether rows of input `i`, along a dimension of its batch, go with the other input as it is. */
static bool batches_go_together(const ipu__replicas *r, int i)
{
    const ipu_shape *s = ipu__replicas_shape(r, i), *o = ipu__replicas_shape(r, 1 - i);
    int              end = s->rank - r->in[i].axis;
    if (end <= 2) return false;
    if (ipu__replicas_is_rows(r, 1 - i))
        return o->rank - r->in[1 - i].axis == end && o->dim[o->rank - end] == s->dim[r->in[i].axis];
    return o->rank < end || (o->dim[o->rank - end] == 1);
}

bool ipu__fold_matmul(ipu__replicas *r)
{
    const ipu_shape *a = ipu__replicas_shape(r, X), *b = ipu__replicas_shape(r, Y);
    bool             ta = ipu__op_int(r->call, "transpose_a"), tb = ipu__op_int(r->call, "transpose_b");
    bool             a_rows = ipu__replicas_is_rows(r, X), b_rows = ipu__replicas_is_rows(r, Y);
    int              rank = ipu__replicas_shape(r, n_inputs(r))->rank;
    ipu_value        in[IPU__MAX_OPERANDS];
    if (a->rank < 2 || b->rank < 2) return false;
    for (int i = 0; i < n_inputs(r); i++) in[i] = r->in[i].value;
    if (a_rows && !b_rows && r->in[X].axis == a->rank - (ta ? 1 : 2))
        return ipu__replicas_emit(r, in, NULL, 0, rank - 2);
    if (b_rows && !a_rows && r->in[Y].axis == b->rank - (tb ? 2 : 1))
        return ipu__replicas_emit(r, in, NULL, 0, rank - 1);
    if (a_rows && b_rows && r->sums[0] && r->in[X].axis == a->rank - (ta ? 2 : 1)
        && r->in[Y].axis == b->rank - (tb ? 1 : 2))
        return ipu__replicas_emit_sum(r, in);
    if (a_rows && batches_go_together(r, X))
        return ipu__replicas_emit(r, in, NULL, 0, rank - (a->rank - r->in[X].axis));
    if (b_rows && !a_rows && batches_go_together(r, Y))
        return ipu__replicas_emit(r, in, NULL, 0, rank - (b->rank - r->in[Y].axis));
    return ipu__replicas_emit_led(r, a->rank > b->rank ? a->rank : b->rank, true, NULL, 0);
}

/* ---- rows by their numbers ---- */

bool ipu__fold_gather(ipu__replicas *r)
{
    const ipu_shape *x = ipu__replicas_shape(r, X), *indices = ipu__replicas_shape(r, Y);
    int              rows   = r->in[X].axis, axis;
    ipu_value        in[]   = {r->in[X].value, r->in[Y].value};
    bool             x_rows = ipu__replicas_is_rows(r, X), y_rows = ipu__replicas_is_rows(r, Y);
    if (ipu__op_axis(r->call, "axis", x->rank, &axis) != IPU_OK || (x_rows && y_rows)) return false;
    if (y_rows && indices->rank == 0 && axis > 0) return false;
    if (y_rows && !ipu__replicas_emit(r, in, NULL, 0, axis + r->in[Y].axis)) return false;
    if (y_rows && indices->rank == 0) r->out[0] = ipu__replicas_joined(r, r->out[0].value);
    if (y_rows) return true;
    if (rows != axis)
        return ipu__replicas_emit(r, in, NULL, 0, rows < axis ? rows : rows - 1 + indices->rank);
    return ipu__replicas_emit_led(r, x->rank, true, &IPU_INT_ATTRIBUTE("axis", axis + 1), 1);
}

bool ipu__fold_gather_grad(ipu__replicas *r)
{
    const ipu_shape *dy = ipu__replicas_shape(r, X), *indices = ipu__replicas_shape(r, Y);
    int              rows = r->in[X].axis, axis;
    ipu_value        in[] = {r->in[X].value, r->in[Y].value};
    if (ipu__op_axis(r->call, "axis", ipu__replicas_shape(r, 2)->rank, &axis) != IPU_OK) return false;
    if (ipu__replicas_is_rows(r, Y)) {
        if (!r->sums[0] || indices->rank == 0) return false;
        in[X] = ipu__replicas_rows(r, &r->in[X], dy, axis + r->in[Y].axis);
        return ipu__replicas_emit_sum(r, in);
    }
    if (dy->rank > 0 && rows < axis) return ipu__replicas_emit(r, in, NULL, 0, rows);
    if (dy->rank > 0 && rows >= axis + indices->rank)
        return ipu__replicas_emit(r, in, NULL, 0, rows - indices->rank + 1);
    return ipu__replicas_emit_led(r, dy->rank, true, &IPU_INT_ATTRIBUTE("axis", axis + 1), 1);
}

bool ipu__fold_one_hot(ipu__replicas *r)
{
    int rank = ipu__replicas_shape(r, X)->rank, rows = r->in[X].axis, axis;
    if (ipu__op_axis(r->call, "axis", rank + 1, &axis) != IPU_OK) return false;
    if (rank == 0) return ipu__replicas_emit_led(r, 0, false, &IPU_INT_ATTRIBUTE("axis", 1), 1);
    return ipu__replicas_emit(r, &r->in[X].value, NULL, 0, rows + (axis <= rows));
}
